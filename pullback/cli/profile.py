"""`python -m pullback profile FILE.py:FUNCTION TYPE ...`: how long the operations of the user's function take."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import pullback as pb
from pullback.analysis.profile import VIEWS
from pullback.cli import values
from pullback.cli.asked import APPLYING, literal, transformed
from pullback.cli.asked import add_options as add_asked
from pullback.cli.terminal import UsageError

HELP = """\
Compile a function of yours, run it on numbers that are made up, and print how long
its operations take, by XLA's operations or by the lines of your code.
"""
EXAMPLES = f"""\
{APPLYING}

examples:
  python -m pullback profile model.py:loss 'f32[64,10]' 'f32[512,64]' --apply grad --by line
  python -m pullback profile model.py:loss 'f32[64,10]' 'f32[512,64]' --trace loss.perfetto
"""


def add_options(look: ArgumentParser) -> None:
    """What the command takes."""
    look.set_defaults(run=show)
    add_asked(look)
    values.add_options(look)
    look.add_argument("--by", choices=VIEWS, default="operation", help="what the rows are (default: operation)")
    look.add_argument("--runs", default="", metavar="N", help="how often it runs (by default 20 times, or for two seconds)")
    look.add_argument("--alone", action="store_true", help="measure each equation by itself, compiled alone")
    look.add_argument("--trace", default="", metavar="FILE", help="write a trace for Perfetto too")


def show(options: Namespace) -> None:
    """Do what the options of the `profile` command ask for.

    Arguments:
        options: those of `asked.add_options` and `values.add_options`, `by`, `runs`, `trace` (texts), and
            `alone`.

    Raises:
        UsageError: something in the options is wrong, or the trace cannot be written.
        UserError: the user's function raised an exception.
    """
    runs = literal(options.runs, "--runs", "a number of runs, 1 or more", _is_count) if options.runs else None
    with transformed(options) as (function, types):
        args: Any = values.made_up(types, options)
        found = pb.profile(function, *args, runs=runs, alone=options.alone)
    print(found.by(options.by))
    if options.trace:
        try:
            found.save_perfetto(options.trace)
        except OSError as error:
            raise UsageError(
                f"--trace {options.trace}: it cannot be written: {error.strerror or error}. Choose another file."
            ) from None


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 1
