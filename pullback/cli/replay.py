"""`python -m pullback replay FILE.py:FUNCTION TYPE ...`: the user's function run operation by operation."""

from __future__ import annotations

import bdb
from argparse import ArgumentParser, Namespace
from typing import Any

import pullback as pb
from pullback.cli import values
from pullback.cli.asked import APPLYING, asked, literal
from pullback.cli.asked import add_options as add_asked

HELP = """\
Run a function of yours on NumPy, operation by operation, as it is or transformed:
print what each computes, stop at your lines in the debugger, or compare with
compiled code. Arguments are random numbers of the types.
"""
EXAMPLES = f"""\
{APPLYING}

examples:
  python -m pullback replay model.py:loss 'f32[10]' 'f32[]' --apply grad
  python -m pullback replay model.py:loss 'f32[64,10]' 'f32[64]' --apply grad,vmap --stop model.py:12
  python -m pullback replay model.py:loss 'f32[10]' 'f32[]' --apply grad --compare
"""


def add_options(look: ArgumentParser) -> None:
    """What the command takes."""
    look.set_defaults(run=show)
    add_asked(look)
    values.add_options(look)
    look.add_argument(
        "--stop", action="append", default=[], metavar="LINE", help="stop at a line in the debugger: 12, or model.py:12"
    )
    look.add_argument("--limits", default="", metavar="LOW,HIGH", help="say which values lie outside, as in 0,1")
    look.add_argument("--show", action="store_true", help="print each operation as it runs")
    look.add_argument("--compare", action="store_true", help="compare with compiled code")


def show(options: Namespace) -> None:
    """Do what the options of the `replay` command ask for.

    Arguments:
        options: those of `asked.add_options` and `values.add_options`, `stop` (a list of texts), `limits` (a text), `show` and
            `compare`.

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    limits = literal(options.limits, "--limits", "two numbers, as in 0,1", _is_pair) if options.limits else None
    own = {"limits": limits, "show": options.show, "compare": options.compare}
    with asked(options) as found:
        args = values.made_up(found.types, options)
        try:
            run = pb.replay(found.function, *args, apply=found.applied, stop_at=options.stop or None, **own)
        except bdb.BdbQuit:  # by the command `quit`
            return
        print(f"{run}\nresult: {run.result}")


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(x, (int, float)) for x in value)
