"""`python -m pullback find-nan FILE.py:FUNCTION TYPE ...`: where a NaN comes from that the user's function makes."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import pullback as pb
from pullback.cli import values
from pullback.cli.asked import APPLYING, asked
from pullback.cli.asked import add_options as add_asked
from pullback.cli.terminal import Found

HELP = """\
Find the first operation, forward or backward, that makes a NaN: its line, its
values, its rule, and what helps. The function is run, on numbers that are made up.
The exit code is 0 in any case; with --exit-code it is 1 where a result is NaN.
"""
EXAMPLES = f"""\
{APPLYING}

examples:
  python -m pullback find-nan model.py:loss 'f32[10]' 'f32[]' --values zeros
  python -m pullback find-nan model.py:loss 'f32[64,10]' 'f32[64]' --apply grad,vmap --infinity
"""


def add_options(look: ArgumentParser) -> None:
    """What the command takes."""
    look.set_defaults(run=show)
    add_asked(look)
    values.add_options(look)
    look.add_argument("--infinity", action="store_true", help="infinity counts as well")
    look.add_argument("--no-backward", action="store_true", help="leave the backward pass out")
    look.add_argument("--no-compile", action="store_true", help="do not look at compiled code where NumPy makes no NaN")
    look.add_argument("--exit-code", action="store_true", help="end with 1 where a result is NaN")


def show(options: Namespace) -> None:
    """Do what the options of the `find-nan` command ask for.

    Arguments:
        options: those of `asked.add_options` and `values.add_options`, `infinity`, `no_backward`, `no_compile`, `exit_code`.

    Raises:
        UsageError: something in the options is wrong. UserError: the user's function raised an exception. Found: see there.
    """
    own = {"infinity": options.infinity, "compiled": not options.no_compile}
    with asked(options) as found:
        args = values.made_up(found.types, options)
        backward = False if options.no_backward else None
        finding = pb.find_nan(found.function, *args, apply=found.applied, backward=backward, **own)
    print("no NaN" + (" and no infinity" if options.infinity else "") if finding is None else finding)
    if options.exit_code and finding is not None and (finding.reaches or finding.returned):
        raise Found
