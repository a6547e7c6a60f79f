"""`python -m pullback replay FILE.py:FUNCTION TYPE ...`: the user's function run operation by operation."""

from __future__ import annotations

import bdb
from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

import pullback as pb
from pullback.cli.terminal import UsageError, one_line
from pullback.cli.xpr import Asked, add_function, asked, in_file, literal
from pullback.core.dtypes import kind
from pullback.core.types import ArrayType

HELP = """\
Run a function of yours on NumPy, operation by operation, as it is or transformed:
print what each computes, stop at your lines in the debugger, compare with compiled
code, or find where a NaN comes from. Arguments are random numbers of the types.
"""
EXAMPLES = """\
Types and transformations are written as for xpr: python -m pullback xpr --help

examples:
  python -m pullback replay model.py:loss 'f32[10]' 'f32[]' --apply grad
  python -m pullback replay model.py:loss 'f32[64,10]' 'f32[64]' --apply grad,vmap --stop model.py:12
  python -m pullback replay model.py:loss 'f32[10]' 'f32[]' --apply grad --compare
  python -m pullback replay model.py:loss 'f32[10]' 'f32[]' --nan --values zeros
"""
VALUES = ("normal", "uniform", "ones", "zeros")


def add_options(look: ArgumentParser) -> None:
    """What the command takes."""
    look.set_defaults(run=show)
    add_function(look)
    add_values(look)
    look.add_argument(
        "--stop", action="append", default=[], metavar="LINE", help="stop at a line in the debugger: 12, or model.py:12"
    )
    look.add_argument("--limits", default="", metavar="LOW,HIGH", help="say which values lie outside, as in --limits=-1,1")
    look.add_argument("--show", action="store_true", help="print each operation as it runs")
    look.add_argument("--compare", action="store_true", help="compare with compiled code")
    look.add_argument("--nan", action="store_true", help="find where a NaN comes from, in the backward pass too")
    look.add_argument("--infinity", action="store_true", help="with --nan: infinity counts as well")


def add_values(look: ArgumentParser) -> None:
    """The options that say what numbers the arguments are."""
    look.add_argument(
        "--values",
        choices=VALUES,
        default="normal",
        help="the numbers: normally distributed (the default), between 0 and 1, ones, or zeros;"
        " integers are between 0 and 9, or ones, or zeros",
    )
    look.add_argument("--seed", default="0", metavar="N", help="of the random numbers (default: 0)")


def asked_values(options: Namespace, types: Any) -> Any:
    """The arguments that options ask for: a tree with an array for each type.

    Arguments:
        options: what `add_values` added. types: a tree of types.

    Raises:
        UsageError: the seed is none.
    """
    return example_arguments(types, options.values, _seed(options))


def described_values(options: Namespace, types: Any) -> str:
    """What `asked_values` are, in words.

    Arguments:
        options: what `add_values` added. types: a tree of types.
    """
    return described(types, options.values, _seed(options))


def _seed(options: Namespace) -> int:
    seed: int = literal(options.seed, "--seed", "a whole number, as in 0", lambda value: type(value) is int and value >= 0)
    return seed


def show(options: Namespace) -> None:
    """Do what the options of the `replay` command ask for.

    Arguments:
        options: those of `add_function` and `add_values`, `stop` (a list of texts), `limits` (a text), and `show`, `compare`,
            `nan`, `infinity`.

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    limits = literal(f"({options.limits})", "--limits", "two numbers, as in 0,1", _is_pair) if options.limits else None
    if options.nan and (options.stop or options.compare or options.show or limits):
        raise UsageError("--nan goes without --stop, --limits, --show and --compare: leave those out.")
    if options.infinity and not options.nan:
        raise UsageError("--infinity goes with --nan only.")
    with asked(options) as found:
        values = asked_values(options, found.types)
        print(f"arguments: {described_values(options, found.types)}")
        try:
            _run(found, values, options, limits)
        except bdb.BdbQuit:
            return
        except ValueError as error:
            if isinstance(error, pb.errors.PullbackError) or in_file(error, found.file):
                raise
            raise UsageError(one_line(str(error))) from None


def _run(found: Asked, values: Any, options: Namespace, limits: Any) -> None:
    if options.nan:
        finding = pb.find_nan(found.function, *values, apply=found.applied, infinity=options.infinity)
        print("no NaN" + (" and no infinity" if options.infinity else "") if finding is None else finding)
        return
    options_of = {"limits": limits, "show": options.show, "compare": options.compare}
    run = pb.replay(found.function, *values, apply=found.applied, stop_at=options.stop or None, **options_of)
    print(f"{run}\nresult: {run.result}")


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(x, (int, float)) for x in value)


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
