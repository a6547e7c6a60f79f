"""`python -m pullback`: a tour; with arguments, the Programs of the user's own functions."""

from __future__ import annotations

import io
import os
import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Any, NoReturn

from pullback.cli import analysis, check, diff, explore, find_nan, pages, plan, profile, replay, tour, xpr
from pullback.cli.functions import UserError, print_traceback
from pullback.cli.terminal import Found, UsageError, one_line, show_versions, warnings_of_one_line

WELL, USERS_ERROR, FOUND, WRONG_USAGE, INTERRUPTED = 0, 1, 1, 2, 130

# Commands that are modules of their own, with a line about each.
MODULES: dict[str, tuple[Any, str]] = {
    "xpr": (xpr, "the Program of a function of yours, as it is or transformed"),
    "explore": (explore, "a page that shows what transformations do to a function of yours"),
    "replay": (replay, "a function of yours run operation by operation: its values, your lines in the debugger"),
    "find-nan": (find_nan, "where a NaN comes from that a function of yours makes"),
    "check": (check, "mistakes in a function of yours that raise no error"),
    "profile": (profile, "how long the operations of a function of yours take"),
    "diff": (diff, "how two Programs, or two functions of yours, differ"),
    "plan": (plan, "what a step of yours takes on many devices, which need not be there"),
}


class Parser(ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        alone = re.fullmatch(r"argument (?:.*/)?(--[\w-]+): expected one argument", message)
        cure = f": a value that begins with - is written {alone[1]}=VALUE" if alone else ""
        raise UsageError(f"{message}{cure}; {self.prog} --help shows what there is")


def make_parser() -> ArgumentParser:
    """The command line's parser; its result has `run`, a function of itself."""
    parser = Parser(
        prog="python -m pullback",
        description="Without arguments: a tour of pullback that takes five minutes to read.",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=lambda options: tour.show())
    parser.add_argument("--version", action="store_true", help="the same as the command version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)

    commands.add_parser("tour", help="the tour, as without arguments").set_defaults(run=lambda options: tour.show())
    version = commands.add_parser("version", help="the versions of pullback and of what it stands on, and the devices")
    version.set_defaults(run=lambda options: show_versions())

    explain = commands.add_parser("help", help="the page on an error class, as in: help ShapeError", description=pages.HELP)
    explain.set_defaults(run=pages.show)
    explain.add_argument("name", metavar="CLASS", nargs="?", help="an error class of pb.errors, pb.checks or pb.testing")

    for name, (module, help) in MODULES.items():
        command = commands.add_parser(
            name,
            help=help,
            description=module.HELP,
            epilog=module.EXAMPLES,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_options(command)

    for name, what in analysis.COMMANDS.items():
        analyzed = commands.add_parser(
            name,
            help=what.help,
            description=what.description,
            epilog=what.examples,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        what.add_options(analyzed)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Arguments:
        arguments: the words after `python -m pullback`; by default, those that the process was started with.

    Returns:
        The exit code: 0; 1 if the user's own code raised an exception, or if a command with `--exit-code` found something; 2 if
        the command line was wrong; 130 after Ctrl-C.

    Example:
        >>> main(["xpr", "nowhere.py"])
        2
    """
    if sys.stdout is None:  # it is closed, as for a service that has none
        sys.stdout = io.StringIO()
    try:
        options = make_parser().parse_args(arguments)
        if options.version:
            show_versions()
        else:
            with warnings_of_one_line():
                options.run(options)
        sys.stdout.flush()
    except UsageError as error:
        print(f"pullback: {one_line(str(error))}", file=sys.stderr)
        return WRONG_USAGE
    except UserError as error:
        print_traceback(error.__cause__ or error, error.file)
        return USERS_ERROR
    except Found:
        return FOUND
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough; Python must not complain at its end either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return WELL


if __name__ == "__main__":
    sys.exit(main())
