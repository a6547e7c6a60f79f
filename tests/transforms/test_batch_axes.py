"""A Program knows which of its leading axes are a vmap's, so that they are blue when it is shown."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.primitive import Primitive
from pullback.program.batching import batch_axes_of
from pullback.program.program import programs_in
from pullback.testing import all_primitives

BLUE = r"\x1b\[34m(\d+)\x1b\[0m"


def f(x: Any) -> Any:
    return pb.numpy.sum(pb.numpy.sin(x) * x)


def blue(function: Callable[..., Any], *args: Any) -> list[list[str]]:
    """For each line that declares values, the sizes shown in blue."""
    shown = io.StringIO()
    pb.xpr(function, *args).show(color=True, file=shown)
    return [re.findall(BLUE, line) for line in shown.getvalue().splitlines() if "f32[" in line]


X = np.ones((2, 3, 5), "float32")


def test_nothing_is_blue_without_vmap() -> None:
    assert not any(blue(pb.grad(lambda x: f(pb.numpy.ravel(x))), X))


def test_nested_vmaps() -> None:
    lines = blue(pb.vmap(pb.vmap(f)), X)
    assert lines == [["2", "3"]] * len(lines)


@pytest.mark.parametrize("make", [lambda g: pb.vmap(pb.jit(g)), lambda g: pb.jit(pb.vmap(g))], ids=["vmap jit", "jit vmap"])
def test_in_inner_programs(make: Callable[..., Any]) -> None:
    lines = blue(make(f), X[0])
    assert ["2"] not in lines and lines.count(["3"]) >= 4


def test_the_cotangents_of_a_batch() -> None:
    lines = blue(pb.grad(lambda x: pb.numpy.sum(pb.vmap(f)(x))), X[0])
    assert lines[-1] == ["3"]


def positions(function: Callable[..., Any], *args: Any) -> tuple[list[list[int]], list[list[int]]]:
    """The batch axes of each input and of each output."""
    program = pb.xpr(function, *args)
    axes = batch_axes_of(program)
    inputs, outputs = [[sorted(axes.get(variable, ())) for variable in part] for part in (program.inputs, program.outputs)]  # type: ignore[arg-type]
    return inputs, outputs


def body(x: Any) -> Any:
    return lax.scan(lambda c, row: (c * row, c + row), x[0], x)[1]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[list[int]], list[list[int]]]] = {
    "in front": (pb.vmap(pnp.sin), (X,), [[0]], [[0]]),
    "another axis in": (pb.vmap(pnp.sin, in_axes=1), (X,), [[1]], [[0]]),
    "another axis in and out": (pb.vmap(pnp.sin, in_axes=2, out_axes=1), (X,), [[2]], [[1]]),
    "two": (pb.vmap(pb.vmap(pnp.sin, in_axes=1), in_axes=1), (X,), [[1, 2]], [[0, 1]]),
    "one in one out": (pb.vmap(pb.vmap(pnp.sin), out_axes=2), (X,), [[0, 1]], [[0, 2]]),
    "not batched": (pb.vmap(lambda x, y: x * y, in_axes=(0, None)), (X, X[0]), [[0], []], [[0]]),
    "sum": (pb.vmap(lambda x: pnp.sum(x, axis=0)), (X,), [[0]], [[0]]),
    "all gone": (lambda x: pnp.sum(pb.vmap(f)(x)), (X,), [[0]], [[]]),
    "moved afterwards": (lambda x: pnp.moveaxis(pb.vmap(pnp.sin)(x), 0, 2), (X,), [[0]], [[2]]),
    "reshaped": (lambda x: pb.vmap(pnp.sin)(x).reshape(2, 15), (X,), [[0]], [[0]]),
    "reshaped away": (lambda x: pb.vmap(pnp.sin)(x).reshape(-1), (X,), [[0]], [[]]),
    "product": (pb.vmap(lambda x, y: x @ y, in_axes=(None, 1)), (X[:, :, 0], np.ones((3, 7, 5), "float32")), [[], [1]], [[0]]),
    "gradient": (pb.grad(lambda x: pnp.sum(pb.vmap(f, in_axes=1)(x))), (X,), [[1]], [[1]]),
    "gradient of a product": (
        pb.grad(lambda y: pnp.sum(pb.vmap(lambda x, y: (x @ y) ** 2, in_axes=(None, 2))(X[0, :, :2], y))), (X,), [[2]], [[2]],
    ),
    "cond that becomes a select": (
        pb.vmap(lambda x: lax.cond(pnp.sum(x) > 0, pnp.sin, lambda x: x * 2, x), in_axes=1), (X,), [[1]], [[0]],
    ),
    "jit within": (pb.vmap(pb.jit(pnp.sin), in_axes=1), (X,), [[1]], [[0]]),
    "jit around": (pb.jit(pb.vmap(pnp.sin, in_axes=1)), (X,), [[1]], [[0]]),
    "jvp": (lambda x: pb.jvp(pb.vmap(pnp.sin, in_axes=1), (x,), (x,)), (X,), [[1]], [[0], [0]]),
    "vmap of jvp": (pb.vmap(lambda x: pb.jvp(pnp.sin, (x,), (x,)), in_axes=1), (X,), [[1]], [[0], [0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_positions(name: str) -> None:
    function, args, inputs, outputs = CASES[name]
    found = positions(function, *args)
    if "jit around" in name:  # the Program of the call knows; what calls it does not see into it
        program = pb.xpr(function, *args).equations[0].params["program"]
        axes = batch_axes_of(program)
        found = [sorted(axes[x]) for x in program.inputs], [sorted(axes[x]) for x in program.outputs]
    assert found == (inputs, outputs)


def over_batch(x: Any) -> Any:
    return pnp.sum(pb.vmap(body)(x))


@pytest.mark.parametrize("function", [over_batch, pb.grad(over_batch), lambda x: pb.jvp(over_batch, (x,), (x,))])
def test_positions_inside_a_loop(function: Any) -> None:
    """The Programs that a batched loop holds, and those that derivatives make of them, know their batch axes."""
    program = pb.xpr(function, X)
    held = [inner for equation in program.equations for inner in programs_in(equation.params)]
    assert held
    for inner in held:
        axes = batch_axes_of(inner)
        of_batch = [variable for variable in (*inner.inputs, *inner.outputs) if variable.type.shape == (2, 5)]
        assert of_batch
        assert {axes.get(variable, frozenset()) for variable in of_batch} == {frozenset({0})}


@pytest.mark.parametrize(
    "p", [p for p in all_primitives() if p.axis_map is not None and p.name != "draw"], ids=lambda p: p.name
)
def test_an_axis_map_names_axes_that_are_left_alone(p: Primitive) -> None:
    """Rolling the operands along axes that become one axis of the result rolls the result along it. (Random keys do not roll
    as numbers; tests/random looks at batches of them.)"""
    rng = np.random.default_rng(0)
    for args, params in p.samples(rng):  # type: ignore[misc]
        args = [np.asarray(arg if "f" in p.kinds else np.round(3 * arg).astype("int32")) for arg in args]
        out = np.asarray(p(*args, **params))
        maps = p.axis_map(*[pb.ArrayType(arg.shape, arg.dtype) for arg in args], **params)  # type: ignore[misc]
        assert len(maps) == len(args)
        for there in {place for one in maps for place in one.values()}:
            rolled = list(args)
            for i, one in enumerate(maps):
                for axis, place in one.items():
                    if place == there:
                        assert args[i].shape[axis] == out.shape[there]
                        rolled[i] = np.roll(args[i], 1, axis)
                if there not in one.values() and args[i].ndim and p.name == "concatenate":
                    raise AssertionError("every operand of concatenate has every axis")
            np.testing.assert_allclose(p(*rolled, **params), np.roll(out, 1, there), rtol=1e-12)


JITTED = pb.jit(lambda x: pnp.sin(x) * 2.0)
CUSTOM = pb.custom_jvp(lambda x: pnp.sin(x))
CUSTOM.defjvps(lambda t, out, x: t * pnp.cos(x))
ACROSS: dict[str, tuple[Callable[..., Any], list[list[int]], list[list[int]]]] = {
    "into a call": (lambda x: JITTED(pb.vmap(pnp.sin)(x)), [[0]], [[0]]),
    "out of a call": (lambda x: pnp.cos(pb.jit(pb.vmap(pnp.sin))(x)), [[0]], [[0]]),
    "back through a call": (lambda x: pb.vmap(pnp.sin)(JITTED(x)), [[0]], [[0]]),
    "of the gradient of calls": (pb.grad(lambda x: pnp.sum(pb.vmap(JITTED)(x))), [[0]], [[0]]),
    "through a carry": (lambda x: lax.scan(lambda c, _: (pb.vmap(pnp.sin)(c), None), x, None, length=2)[0], [[0]], [[0]]),
    "behind the steps": (lambda x: lax.scan(lambda c, y: (c, pb.vmap(pnp.sin)(y)), 0.0, x)[1], [[1]], [[1]]),
    "through branches": (lambda x: lax.cond(x[0, 0] > 0, pb.vmap(pnp.sin), lambda y: y, x), [[0]], [[0]]),
    "through a loop": (lambda x: lax.while_loop(lambda c: c[0, 0] < 1, pb.vmap(lambda y: 2.0 * y), x), [[0]], [[0]]),
    "through a custom function": (lambda x: CUSTOM(pb.vmap(pnp.sin)(x)), [[0]], [[0]]),
    "of nothing": (JITTED, [[]], [[]]),
}


@pytest.mark.parametrize("where", ACROSS)
def test_batch_axes_cross_what_holds_programs(where: str) -> None:
    function, ins, outs = ACROSS[where]
    assert positions(function, X[0]) == (ins, outs)


def test_a_called_program_shows_the_batch_of_its_call() -> None:
    assert all("2" in sizes for sizes in blue(lambda x: JITTED(pb.vmap(pnp.sin)(x)), X))
    assert not any(blue(JITTED, X))


REPEATED = {
    "a result": lambda x, y: (x, y * 2.0),
    "a constant result": lambda x, y: (x, pnp.ones(3)),
    "part of a join": lambda x, y: pnp.concatenate([x, y]),
    "what is written into": lambda x, y: y.at[x[0].astype("int32")].set(1.0),
    "a matrix": lambda x, y: pnp.linalg.solve(pnp.outer(y, y) + pnp.eye(3), x),
    "what is sorted along": lambda x, y: pb.lax.sort((x, y), num_keys=1),
    "a branch": lambda x, y: pb.lax.cond(x[0] > 0, lambda: y, lambda: x),
    "where a loop begins": lambda x, y: pb.lax.fori_loop(0, 3, lambda i, c: c * x, y),
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("out_axes", [0, -1])
def test_what_is_repeated_for_each_element_is_a_batch(name, out_axes):
    """No other axis has this many elements, so sizes say which axes are of the batch."""
    program = pb.xpr(pb.vmap(REPEATED[name], (0, None), out_axes), pb.ArrayType((7, 3)), pb.ArrayType((3,)))
    axes = batch_axes_of(program)
    variables = [*program.inputs, *[out for equation in program.equations for out in equation.outputs]]
    found = [(sorted(axes.get(one, ())), [i for i, size in enumerate(one.type.shape) if size == 7]) for one in variables]
    assert [own for own, _ in found] == [expected for _, expected in found]


def test_the_batch_axis_of_an_input_that_is_not_used_is_known() -> None:
    program = pb.xpr(pb.vmap(lambda x, y: pnp.sin(x), (0, -1)), pb.ArrayType((7, 3)), pb.ArrayType((3, 7)))
    axes = batch_axes_of(program)
    assert [sorted(axes[one]) for one in program.inputs] == [[0], [1]]
