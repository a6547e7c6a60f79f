"""Arguments that are made up for a function of the user's, of types that are given."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

import pullback as pb
from pullback.cli.asked import literal
from pullback.core.dtypes import kind
from pullback.core.types import ArrayType

VALUES = ("normal", "uniform", "ones", "zeros")


def add_options(parser: ArgumentParser) -> None:
    """Add what says which values arguments have."""
    parser.add_argument(
        "--values",
        choices=VALUES,
        default="normal",
        help="the numbers: normally distributed (the default), between 0 and 1, ones, or zeros;"
        " integers are between 0 and 9, or ones, or zeros",
    )
    parser.add_argument("--seed", default="0", metavar="N", help="of the random numbers (default: 0)")


def made_up(types: Any, options: Namespace) -> Any:
    """The arguments that the options ask for; says what they are.

    Raises:
        UsageError: `--seed` is no whole number.
    """
    seed = literal(options.seed, "--seed", "a whole number, as in 0", lambda value: type(value) is int and value >= 0)
    print(f"arguments: {described(types, options.values, seed)}")
    return example_arguments(types, options.values, seed)


def described(types: Any, values: str, seed: int) -> str:
    """What the arguments are, in words.

    Example:
        >>> described([pb.ArrayType((3,), "float32")], "normal", 0)
        'f32[3], of normal numbers (seed 0)'
    """
    said = {"normal": f"normal numbers (seed {seed})", "uniform": f"numbers between 0 and 1 (seed {seed})"}.get(values, values)
    return f"{', '.join(map(str, types)) or 'none'}, of {said}"


def example_arguments(types: Any, values: str, seed: int) -> Any:
    """A tree with an array for each type: of random numbers, of ones or of zeros.

    Arguments:
        types: a tree of types. values: one of `VALUES`. seed: of the random numbers.

    Example:
        >>> example_arguments([pb.ArrayType((2,), "float32"), pb.ArrayType((), "int32")], "ones", 0)
        [[1. 1.]:f32[2]:cpu(0), 1:i32[]:cpu(0)]
    """
    rng = np.random.default_rng(seed)
    leaves, structure = pb.tree.flatten(types)
    return pb.tree.unflatten(structure, [_example(type, values, seed, rng) for type in leaves])


def _example(type: ArrayType, values: str, seed: int, rng: np.random.Generator) -> Any:
    letter, shape = kind(type.dtype), type.shape
    if letter == "k":
        key = pb.random.key(seed, dtype=type.dtype)
        return pb.random.split(key, shape) if shape else key
    made: Any
    if values in ("ones", "zeros"):
        made = np.full(shape, values == "ones")
    elif letter in "bius":
        made = rng.integers(0, 2 if letter in "bs" else 10, shape)
    else:
        draw = rng.normal if values == "normal" else rng.uniform
        made = draw(size=shape)
        if letter == "c":
            made = made + 1j * draw(size=shape)
    if type.weak and not shape:
        return {"b": bool, "i": int, "u": int, "f": float, "c": complex}[letter](made)
    return pb.numpy.asarray(np.asarray(made), dtype=type.dtype)
