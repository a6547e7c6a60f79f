"""`python -m pullback xpr FILE.py:FUNCTION TYPE ...`: the Program of the user's function, as it is or transformed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

import pullback as pb
from pullback.api.applied import TRANSFORMATIONS
from pullback.cli.asked import add_color, transformed
from pullback.cli.asked import add_options as add_asked
from pullback.cli.functions import Function
from pullback.cli.terminal import UsageError, use_color

HELP = """\
Print the typed Program that a function of yours is for arguments of given
types, as it is or transformed. The function is traced, so it needs no data.
"""
EXAMPLES = f"""\
types:
  f32[64,10]  i32[]  bool[3]       an array: dtype and sizes
  ~f32[]                           a Python number, which widens nothing
  key<fry>[]                       a random key
  (f32[2], f32[3])  [f32[2]]       a tuple, a list
  {{w: f32[3], b: f32[]}}            a dict
Quote each type, since brackets mean something to the shell.

transformations: {", ".join(TRANSFORMATIONS)}
They are applied from left to right, and the types are those of the arguments
of the result: after vmap, with their batch axes; after jvp, the arguments' and
then their tangents'; after vjp, a cotangent of the result comes last. Options
go in brackets, as in 'grad(argnums=1),vmap(in_axes=(None, 0))'.

examples:
  python -m pullback xpr model.py:loss 'f32[10]' 'f32[]' --apply grad --sources
  python -m pullback xpr model.py:loss 'f32[64,10]' 'f32[64]' --apply grad,vmap
  python -m pullback xpr model.py:loss '{{w: f32[3], b: f32[]}}' 'f32[3]' --show optimized
"""

SHOWN = ("program", "stablehlo", "optimized")


def add_options(look: ArgumentParser) -> None:
    """What the command takes."""
    look.set_defaults(run=show)
    add_asked(look)
    add_color(look)
    look.add_argument(
        "--show",
        choices=SHOWN,
        default="program",
        help="the Program (this is the default), the StableHLO made of it, or what XLA's optimizer made of that",
    )
    look.add_argument("--sources", action="store_true", help="end each equation with the place of your line that it comes from")


def show(options: Namespace) -> None:
    """Print what the options of the `xpr` command ask for.

    Arguments:
        options: those of `asked.add_options` and `asked.add_color`, `show` (one of `SHOWN`), and `sources` (whether to print
            source lines).

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    if options.sources and options.show != "program":
        raise UsageError("--sources goes with --show program only.")
    with transformed(options) as (function, types):
        _print(function, types, options)


def _print(function: Function, types: Sequence[Any], options: Namespace) -> None:
    if options.show == "program":
        pb.xpr(function, *types).show(color=use_color(options.color), sources=options.sources)
        return
    lowered = pb.jit(function).lower(*types)
    print((lowered.as_text() if options.show == "stablehlo" else lowered.compile().as_text()).rstrip())
