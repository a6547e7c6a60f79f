"""`python -m pullback replay`: what it prints, and what it says when something is wrong."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
from pullback.cli.values import VALUES, example_arguments

MODEL = """\
import pullback as pb
import pullback.numpy as pnp


def loss(w, x):
    y = pnp.sin(w * x)
    return pnp.sum(pnp.where(y > 0, pnp.sqrt(y), 0.0))


def raises(x):
    return x["name"]


def power(x, n):
    return x**n


def drawn(keys):
    return pb.vmap(lambda key: pb.random.normal(key, (3,)))(keys)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "model.py").write_text(MODEL)
    return folder


def run(folder: pathlib.Path, *arguments: str, commands: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "pullback", "replay", *arguments],
        cwd=folder,
        env=dict(os.environ),
        input=commands,
        capture_output=True,
        text=True,
        timeout=60,
    )


ONE = ("model.py:loss", "f32[3]", "f32[3]")
PRINTED: dict[str, tuple[tuple[str, ...], str, list[str]]] = {
    "values": (ONE, "", ["arguments: f32[3], f32[3], of normal numbers (seed 0)", "sin", "model.py:6", "result: "]),
    "compared": ((*ONE, "--apply", "grad,jit", "--compare"), "", ["cos", "equations compared; all agree"]),
    "another argument": ((*ONE, "--apply", "grad", "--argnums", "1"), "", ["mul", "result: "]),
    "another axis": (
        ("model.py:loss", "f32[3,2]", "f32[3]", "--apply", "vmap", "--in-axes", "(1, None)"),
        "",
        ["result: [", ":f32[2]"],
    ),
    "stopped": ((*ONE, "--stop", "model.py:6"), "p y.shape\nc\n", ["> ", "model.py(6)loss()", "(3,)", "result: "]),
    "left": ((*ONE, "--stop", "6"), "q\n", ["model.py(6)loss()"]),
    "limits": ((*ONE, "--limits=0,1", "--seed", "3"), "", ["caught outside 0 .. 1"]),
    "argnums": (
        (*ONE, "--apply", "grad", "--argnums", "(0,1)", "--values", "ones"),
        "",
        ["mul l b", "mul l a", "f32[3]:cpu(0), [0.29"],
    ),
    "a batch": (
        ("model.py:loss", "f32[3]", "f32[4,3]", "--apply", "vmap", "--in-axes", "(None, 0)"),
        "",
        ["arguments: f32[3], f32[4,3]", "f32[4,3] = sin"],
    ),
    "a key": (("model.py:drawn", "key<fry>[2]"), "", ["arguments: key<fry>[2]", "f32[2,3]"]),
    "shown": (("model.py:power", "f32[2]", "--static", "n=3", "--show", "--values", "ones"), "", ["[1.0, 1.0]"]),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_it_prints(folder: pathlib.Path, name: str) -> None:
    arguments, commands, parts = PRINTED[name]
    done = run(folder, *arguments, commands=commands)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(part in done.stdout for part in parts), done.stdout


WRONG: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "a line": ((*ONE, "--stop", "99"), ["no operation comes from line 99", "model.py:6"]),
    "a seed": ((*ONE, "--seed", "x"), ["--seed takes a whole number"]),
    "limits": ((*ONE, "--limits", "1"), ["--limits takes two numbers, as in 0,1, not '1'"]),
    "a minus": ((*ONE, "--limits", "-1,1"), ["a value that begins with - is written --limits=VALUE"]),
    "axes": ((*ONE, "--apply", "vmap", "--in-axes", "x"), ["--in-axes takes an axis for all"]),
    "a key": (("model.py:drawn", "key<fly>[2]"), ["'key<fly>' is no type. Did you mean 'key<fry>'?"]),
    "a key's shape": (("model.py:drawn", "key<fry>"), ["A single key is key<fry>[]."]),
    "values": ((*ONE, "--values", "twos"), ["invalid choice: 'twos'"]),
    "argnums": ((*ONE, "--apply", "grad", "--argnums", "x"), ["--argnums takes a number or several"]),
    "apply": ((*ONE, "--apply", "gard"), ["'gard' is no transformation"]),
    "too few types": (("model.py:loss", "f32[3]"), ["1 type was given"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line(folder: pathlib.Path, name: str) -> None:
    arguments, parts = WRONG[name]
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout.replace("arguments: f32[3], f32[3], of normal numbers (seed 0)\n", "")) == (2, "")
    assert done.stderr.count("\n") == 1 and all(part in done.stderr for part in parts), done.stderr


def test_the_users_own_error_is_shown_with_their_line(folder: pathlib.Path) -> None:
    done = run(folder, "model.py:raises", "f32[3]")
    assert done.returncode == 1 and 'return x["name"]' in done.stderr


@pytest.mark.parametrize("values", VALUES)
def test_arguments_of_every_dtype(values: str) -> None:
    dtypes = ("bool", "int4", "uint8", "int64", "bfloat16", "float8_e4m3fn", "float32", "complex64", "key<fry>")
    keys = pb.random.key(0).dtype
    types = [pb.ArrayType(shape, keys if "key" in dtype else dtype) for dtype in dtypes for shape in ((), (3,), (0, 2))]
    made = example_arguments(types, values, 1)
    assert [x.type.strong() for x in made] == types
    again = example_arguments(types, values, 1)
    assert list(map(repr, made)) == list(map(repr, again))
    if values in ("ones", "zeros"):
        assert all(np.all(np.asarray(x.astype("float32")) == (values == "ones")) for x in made[:-3])


def test_a_python_number_stays_one() -> None:
    weak = pb.ArrayType((), "float32", weak=True)
    assert type(example_arguments(weak, "normal", 0)) is float
