"""What a type checker tells a user: the types of results, and which calls are wrong. And what it is told of Arrays is true."""

import ast
import inspect
import pathlib
import subprocess
import sys
import textwrap
from types import FunctionType

import pytest

import pullback as pb
from pullback.core.array import Array
from pullback.core.methods import ArrayMethods

PROGRAM = """
    from typing import Any, assert_type

    import numpy as np
    import pullback as pb
    import pullback.numpy as pnp

    def predict(weights: pb.Array, x: pb.Array) -> pb.Array:
        return pnp.tanh(weights @ x) * 2 + 1

    x = pnp.zeros((3, 4), dtype=pnp.bfloat16)
    assert_type(x, pb.Array)
    assert_type(predict(x, x.T), pb.Array)
    assert_type(pnp.sum(x, axis=(0, 1), keepdims=True), pb.Array)
    assert_type(pnp.nanvar(x, axis=0), pb.Array)
    assert_type(pnp.where(x > 0, x, 0.0), pb.Array)
    assert_type(pnp.einsum("ij,kj->ik", x, np.ones((2, 4))), pb.Array)
    assert_type(pnp.maximum(np.float32(1), 2), pb.Array)
    assert_type(pnp.split(x, 2), list[pb.Array])
    assert_type(pnp.divmod(x, 2), tuple[pb.Array, pb.Array])
    assert_type(pb.lax.select_n(x > 0, x, x), pb.Array)
    assert_type(pb.lax.exp(x), pb.Array)
    assert_type(x.mean(axis=-1).reshape(3, 1)[0], pb.Array)
    assert_type(1.0 - x / 2 ** x % -x, pb.Array)
    assert_type(x == 3, pb.Array)
    assert_type(x.shape, tuple[int, ...])
    assert_type(float(x[0, 0]), float)
    assert_type([row for row in x], list[pb.Array])
    assert_type(np.asarray(x).ndim, int)
    assert_type(pb.jvp(predict, (x, x), (x, x)), tuple[pb.Array, pb.Array])
    value, pull = pb.vjp(predict, x, x)
    assert_type(value, pb.Array)
    assert_type(pull(value), tuple[Any, ...])
    value, push = pb.linearize(predict, x, x)
    assert_type(push(x, x), pb.Array)
    assert_type(pb.vjp(lambda x: (x, x), x, has_aux=True), tuple[Any, ...])
    assert_type(pb.checkpoint(predict)(x, x), pb.Array)
    assert_type(pb.nth_derivative(predict, 2)(x, x), pb.Array)
    assert_type(pb.jet(predict, (x, x), ([x], [x]))[0], pb.Array)
    assert_type(pb.sparse.hessian(predict)(x, x), pb.sparse.SparseMatrix)
    assert_type(pb.lax.fori_loop(0, 3, lambda i, y: predict(y, y), x), pb.Array)
    assert_type(pb.lax.map(lambda row: predict(row, row), x), pb.Array)
    assert_type(pb.tree.reduce(predict, [x, x]), pb.Array)
"""
WRONG = [
    ("pnp.sum(x, axis='rows')", "axis"),
    ("pnp.sin('x')", "Argument 1"),
    ("pnp.zeros('three')", "Argument 1"),
    ("pnp.pad(x, 1, mode=3)", "mode"),
    ("x.no_such_method()", "no_such_method"),
    ("x + 'one'", "operand"),
    ("pnp.max(x, keepdim=True)", "keepdim"),
    ("pb.lax.reshape(x)", "new_sizes"),
    ("x[0] = 1", "indexed assignment"),
    ("pull(x, x)", "Too many arguments"),
    ("pb.checkpoint(predict)(x)", "Too few arguments"),
    ("pb.sparse.jacobian(predict)(x, x, x)", "Too many arguments"),
]


def test_users_get_types(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mypy")
    text = textwrap.dedent(PROGRAM)
    start = len(text.splitlines())
    (tmp_path / "program.py").write_text(text + "\n".join(call for call, _ in WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent", "program.py"]
    root = str(pathlib.Path(pb.__file__).parent.parent)
    result = subprocess.run(
        [*command, f"--cache-dir={tmp_path}/cache"], cwd=tmp_path, env={"MYPYPATH": root}, capture_output=True, text=True
    )
    found = {int(line.split(":")[1]): line for line in result.stdout.splitlines() if ": error:" in line}
    assert sorted(found) == [start + i + 1 for i in range(len(WRONG))], result.stdout + result.stderr
    for i, (_, says) in enumerate(WRONG):
        assert says in found[start + i + 1]


def class_in(file: str, name: str) -> ast.ClassDef:
    tree = ast.parse((pathlib.Path(pb.__file__).parent / "core" / file).read_text())
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return found


METHODS = class_in("methods.pyi", "ArrayMethods")


def test_the_stub_has_the_methods_that_arrays_have() -> None:
    named = {node.name for node in METHODS.body if isinstance(node, ast.FunctionDef)}
    named |= {ast.unparse(node.target) for node in METHODS.body if isinstance(node, ast.AnnAssign)}
    there = {
        name
        for cls in (ArrayMethods, Array)
        for name, found in vars(cls).items()
        if isinstance(found, (FunctionType, property))
    }
    there -= {node.name for node in class_in("array.py", "Array").body if isinstance(node, ast.FunctionDef)}
    assert named - set(dir(object)) == there - set(dir(object)) - {
        "__setitem__",
        "__delitem__",
    }  # which say that arrays are immutable


@pytest.mark.parametrize(
    "node", [node for node in METHODS.body if isinstance(node, ast.FunctionDef)], ids=lambda node: node.name
)
def test_the_stub_has_the_parameters_that_methods_have(node: ast.FunctionDef) -> None:
    if node.name.startswith("__"):
        return
    arguments = node.args
    stub = [one.arg for one in [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs] if one]
    actual = list(inspect.signature(getattr(pb.Array, node.name)).parameters)
    assert [name for name in stub[1:] if name != "out"] == [name for name in actual[1:] if name != "out"]
