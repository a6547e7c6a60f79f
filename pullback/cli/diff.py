"""`python -m pullback diff`: how two Programs differ, each of a file of JSON, or of a function of the user's."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pullback as pb
from pullback.cli.asked import APPLYING, add_color, add_transforming, transformed
from pullback.cli.terminal import Found, UsageError, one_line, use_color
from pullback.program.program import Program

HELP = """\
Show how two Programs differ: which operations were added, removed, changed or
moved. Names of variables and source lines are no difference. The exit code is
0 in any case; with --exit-code it is 1 where they differ.
"""
EXAMPLES = f"""\
each of the two is a file of JSON, as Program.to_json writes it, or a function:
  python -m pullback diff before.json after.json
  python -m pullback diff old.py:loss new.py:loss 'f32[64,10]' --apply grad
  python -m pullback diff before.json model.py:loss
{APPLYING}
"""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and what runs it."""
    parser.set_defaults(run=show)
    for name in ("before", "after"):
        parser.add_argument(name, metavar=name.upper(), help="FILE.json, or FILE.py:FUNCTION")
    add_transforming(parser)
    add_color(parser)
    parser.add_argument("--context", type=int, default=2, metavar="N", help="how many lines around a difference (default: 2)")
    parser.add_argument("--all", action="store_true", help="show all lines")
    parser.add_argument("--exit-code", action="store_true", help="end with 1 where they differ")


def show(options: Namespace) -> None:
    """Print what the options of the command ask for.

    Arguments:
        options: those of `asked.add_transforming` and `asked.add_color`, `before`, `after` (texts), `context`, `all`, and
            `exit_code`.

    Raises:
        UsageError: something in the options is wrong. UserError: the user's function raised an exception. Found: see there.
    """
    if options.context < 0:
        raise UsageError(f"--context takes a number of lines, not {options.context}.")
    places = [options.before, options.after]
    if all([place.endswith(".json") for place in places]) and (options.apply or options.types or options.static):
        raise UsageError("types, --apply and --static go with functions, but these are files of JSON: leave them out.")
    programs = [_read(place) if place.endswith(".json") else None for place in places]
    known = next((program for program in programs if program is not None), None)
    types = list(known.input_types) if known is not None and not options.types else None
    found = [program or _traced(options, place, types) for program, place in zip(programs, places)]
    difference = pb.program_diff(*found)
    difference.show(use_color(options.color), context=None if options.all else options.context)
    if options.exit_code and difference:
        raise Found


def _read(place: str) -> Program:
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"there is no file {place!r}; seen from {str(Path.cwd())!r}. Give its path from there.")
    try:
        return Program.from_json(path.read_text(), pb.export.primitives())
    except (pb.errors.ProgramError, UnicodeDecodeError) as error:
        raise UsageError(f"{place}: {one_line(str(error))}") from None


def _traced(options: Namespace, place: str, types: list[Any] | None) -> Program:
    with transformed(options, place, types) as (function, given):
        return pb.xpr(function, *given)
