"""Every parameter of a jax.numpy function is one of ours, at the same place; or it stands here, with the reason.

`parameters_of_jax.txt` was written from `inspect.signature` of each function of jax.numpy.
"""

from __future__ import annotations

import inspect
import itertools
import pathlib

import numpy as np
import pytest

import pullback.numpy as pnp
from pullback.core.absent import ABSENT

LINES = (pathlib.Path(__file__).parent / "parameters_of_jax.txt").read_text().splitlines()[1:]
JAX = {name: words.split() for name, _, words in (line.partition(":") for line in LINES)}

# Parameters that are not there, for any function.
LEFT_OUT = {
    "out_sharding": "arrays are not divided among devices",
    "_dot_general": "an inner matter of JAX's",
    "args": "fromfile and fromiter have NumPy's own parameters; array's are those that it names",
    "kwargs": "likewise; pad names its own",
}
# Functions of one or two numbers take them by position, as those of the Array API; jax.numpy has other names for them.
NAMES_OF_OPERANDS = {"x", "y", "x1", "x2", "val", "arr", "z"}
OTHER_NAMES = {("broadcast_shapes", "shapes"): "args"}
ONE_BY_ONE: dict[tuple[str, str], str] = {
    ("einsum", "out"): "arrays are immutable; einsum has no other parameter after its operands"
}
UFUNCS = (
    "add bitwise_and bitwise_or bitwise_xor logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum multiply"
)
# To come with the functions that search:

for _name in f"{UFUNCS} negative subtract".split():
    ONE_BY_ONE |= {(_name, "out"): "jax.numpy refuses it", (_name, "where"): "jax.numpy refuses it"}


def by_position(parameters: list[inspect.Parameter]) -> list[str]:
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def of_jax(name: str) -> list[str]:
    """Those that JAX's function takes by position."""
    words = [word for word in JAX[name] if word != "/"]
    return list(itertools.takewhile(lambda word: not word.startswith("*"), words))


@pytest.mark.parametrize("name", [name for name in JAX if name in pnp.__all__ and inspect.isfunction(getattr(pnp, name))])
def test_parameters_are_those_of_jax(name: str) -> None:
    parameters = list(inspect.signature(getattr(pnp, name)).parameters.values())
    ours = {each.name for each in parameters}
    asked = [word.lstrip("*") for word in JAX[name] if word.strip("*/")]
    missing = [
        each
        for each in asked
        if each not in ours
        and each not in LEFT_OUT
        and (name, each) not in ONE_BY_ONE
        and OTHER_NAMES.get((name, each)) not in ours
        and not (each in NAMES_OF_OPERANDS and len(by_position(parameters)) >= min(2, len(of_jax(name))))
    ]
    assert not missing, f"{name} has no {', '.join(missing)}"
    places = [each for each in of_jax(name) if each not in {*LEFT_OUT, "device"}]
    same = [each for each in by_position(parameters) if each in places]
    assert [each for each in places if each in same] == same, f"{name} takes {same} in another order"
    assert len(by_position(parameters)) >= len(places), f"{name} takes fewer by position than {places}"


NAMES = (pathlib.Path(__file__).parent / "names_of_jax.txt").read_text().split("\n", 1)[1].split()
ABSENT_NAMES = " ".join(ABSENT["pullback.numpy"]).split()


@pytest.mark.parametrize("library", ["numpy", "jax.numpy"])
def test_every_name_is_there_or_said_to_be_absent(library: str) -> None:
    names = NAMES if library == "jax.numpy" else [name for name in dir(np) if not name.startswith("_")]
    there = {*dir(pnp), *ABSENT_NAMES, "dtypes"}  # the last is a module of ours, too
    unknown = [name for name in names if name not in there]
    assert not unknown, f"{library} has {', '.join(unknown)}: add them, or say in core/absent.py what there is instead"
