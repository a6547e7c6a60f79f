"""`python -m pullback diff`: how two Programs differ, each of a file of JSON, or of a function of the user's."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pullback as pb
from pullback.api.applied import apply_transformations
from pullback.cli.terminal import UsageError, one_line, use_color
from pullback.cli.xpr import (
    UserError,
    add_transformations,
    asked_static,
    asked_transformations,
    check_arguments,
    count_of_arguments,
    fix,
    in_file,
    load_function,
    parse_type,
)
from pullback.program.program import Program

HELP = """\
Show how two Programs differ: which operations were added, removed, changed or
moved. Names of variables and source lines are no difference. The exit code is
0 in any case; with --exit-code it is 1 where they differ.
"""
EXAMPLES = """\
each of the two is a file of JSON, as Program.to_json writes it, or a function:
  python -m pullback diff before.json after.json
  python -m pullback diff old.py:loss new.py:loss 'f32[64,10]' --apply grad
  python -m pullback diff before.json model.py:loss
"""


class Differ(Exception):
    """They differ, and the caller wants to know it by the exit code."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command, and what runs it."""
    parser.set_defaults(run=show)
    for name in ("before", "after"):
        parser.add_argument(name, metavar=name.upper(), help="FILE.json, or FILE.py:FUNCTION")
    parser.add_argument("types", metavar="TYPE", nargs="*", help="the type of each argument of the functions")
    add_transformations(parser)
    parser.add_argument("--context", type=int, default=2, metavar="N", help="how many lines around a difference (default: 2)")
    parser.add_argument("--all", action="store_true", help="show all lines")
    parser.add_argument("--exit-code", action="store_true", help="end with 1 where they differ")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="whether to write in colour")


def show(options: Namespace) -> None:
    """Print what the options of the command ask for.

    Raises:
        UsageError: something in the options is wrong. UserError: the user's function raised an exception. Differ: see there.
    """
    if options.context < 0:
        raise UsageError(f"--context takes a number of lines, not {options.context}.")
    applied, static = asked_transformations(options), asked_static(options)
    types = [parse_type(text) for text in options.types]
    places = [options.before, options.after]
    if all([place.endswith(".json") for place in places]) and (applied or types or static):
        raise UsageError("types, --apply and --static go with functions, but both of these are files of JSON: leave them out.")
    programs = [_read(place) if place.endswith(".json") else None for place in places]
    known = next((program for program in programs if program is not None), None)
    if not types and known is not None:
        types = list(known.input_types)
    found = [program or _traced(place, applied, types, static) for program, place in zip(programs, places)]
    difference = pb.program_diff(*found)
    difference.show(use_color(options.color), context=None if options.all else options.context)
    if options.exit_code and difference:
        raise Differ


def _read(place: str) -> Program:
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"there is no file {place!r}; seen from {str(Path.cwd())!r}. Give its path from there.")
    try:
        return Program.from_json(path.read_text(), pb.export.primitives())
    except (pb.errors.ProgramError, UnicodeDecodeError) as error:
        raise UsageError(f"{place}: {one_line(str(error))}") from None


def _traced(place: str, applied: list[Any], types: list[Any], static: dict[str, Any]) -> Program:
    loaded, file = load_function(place)
    function = fix(loaded, static)
    check_arguments(function, types[: count_of_arguments(applied, len(types))], place)
    try:
        return pb.xpr(apply_transformations(function, applied), *types)
    except Exception as error:
        if in_file(error, file):
            raise UserError(file) from error
        if isinstance(error, pb.errors.PullbackError):
            raise UsageError(one_line(str(error))) from None
        raise
