"""`python -m pullback cost FILE.py:FUNCTION TYPE ...` and `... memory ...`: what the user's function costs, and what memory it
takes, as it is or transformed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

import pullback as pb
from pullback.analysis.costs import VIEWS
from pullback.api.compiled import Jitted
from pullback.cli.asked import APPLYING, add_color, add_options, literal, transformed
from pullback.cli.terminal import UsageError, use_color

COMPILING = {"auto": None, "always": True, "never": False}

COST_HELP = """\
Print what a function of yours costs for arguments of given types, as it is or
transformed: operations, bytes and their ratio, by the lines of your code. The
function is traced, so it needs no data.
"""
COST_EXAMPLES = f"""\
{APPLYING}

examples:
  python -m pullback cost model.py:loss '{{w: f32[64,10]}}' 'f32[512,64]' --apply grad
  python -m pullback cost model.py:loss 'f32[64,10]' --apply grad,vmap --by equation
"""
MEMORY_HELP = """\
Print what a function of yours takes of memory for arguments of given types, as
it is or transformed: the peak before anything is compiled, what is in memory
there, what is kept for the backward pass. The function is traced, so it needs
no data.
"""
MEMORY_EXAMPLES = f"""\
{APPLYING}

examples:
  python -m pullback memory model.py:loss '{{w: f32[64,10]}}' 'f32[512,64]' --apply grad
  python -m pullback memory model.py:step 'f32[64,10]' 'f32[512,64]' --donate 0
"""


def add_cost_options(look: ArgumentParser) -> None:
    """What the command `cost` takes."""
    _add_options(look)
    look.set_defaults(run=show_cost)
    look.add_argument("--by", choices=tuple(VIEWS), default="line", help="what the rows are (default: line)")


def add_memory_options(look: ArgumentParser) -> None:
    """What the command `memory` takes."""
    _add_options(look)
    look.set_defaults(run=show_memory)
    look.add_argument("--donate", default="()", metavar="N", help="arguments that results may overwrite, as in 0 or 0,1")


def _add_options(look: ArgumentParser) -> None:
    add_options(look)
    add_color(look)
    look.add_argument(
        "--compile",
        choices=tuple(COMPILING),
        default="auto",
        help="whether XLA compiles it, for its own figures (auto: if it is no more than 500 equations)",
    )
    look.add_argument("--json", action="store_true", help="print all of it as JSON")


class Command(NamedTuple):
    """A command: a line and a paragraph about it, examples, and what adds its options to a parser."""

    help: str
    description: str
    examples: str
    add_options: Callable[[ArgumentParser], None]


COMMANDS = {
    "cost": Command("what a function of yours costs, by its lines", COST_HELP, COST_EXAMPLES, add_cost_options),
    "memory": Command("what a function of yours takes of memory", MEMORY_HELP, MEMORY_EXAMPLES, add_memory_options),
}


def show_cost(options: Namespace) -> None:
    """Print what the options of the `cost` command ask for.

    Arguments:
        options: those of `asked.add_options` and `asked.add_color`, `by`, `compile` and `json`.

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    with transformed(options) as (function, types):
        _print(pb.cost(function, *types, backend=COMPILING[options.compile]).by(options.by), options)


def show_memory(options: Namespace) -> None:
    """Print what the options of the `memory` command ask for.

    Arguments:
        options: those of `asked.add_options` and `asked.add_color`, `donate`, `compile` and `json`.

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    given = literal(options.donate, "--donate", "a number or several, as in 0 or 0,1")
    donated = given if isinstance(given, tuple) else (given,)
    if not all([type(number) is int and 0 <= number < len(options.types) for number in donated]):
        raise UsageError(f"--donate {options.donate}: there are {len(options.types)} arguments, with the numbers from 0.")
    with transformed(options) as (function, types):
        if donated and isinstance(function, Jitted):
            raise UsageError(
                "--donate is for functions that are not jitted: leave jit out of --apply. Where pb.jit is called in your file,"
                " its donate_argnums is what counts."
            )
        given_now: dict[str, Any] = {"donate_argnums": donated} if donated else {}
        _print(pb.memory(function, *types, backend=COMPILING[options.compile], **given_now), options)


def _print(table: Any, options: Namespace) -> None:
    if options.json:
        print(table.to_json())
    else:
        table.show(color=use_color(options.color))
