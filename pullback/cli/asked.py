"""What a command is asked to look at: the options that commands about a function of the user's share, and what they name."""

from __future__ import annotations

import ast
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pullback as pb
from pullback.api.applied import Applied, apply_transformations, transformations
from pullback.cli.functions import Function, UserError, check_arguments, fix, in_file, load_function
from pullback.cli.terminal import UsageError, one_line
from pullback.cli.types import parse_type

APPLYING = "Types and transformations are written as for xpr: python -m pullback xpr --help"


def add_options(parser: ArgumentParser) -> None:
    """Add what says which function is looked at, for arguments of which types, and how it is transformed."""
    parser.add_argument("function", metavar="FILE.py:FUNCTION", help="your function")
    add_transforming(parser)


def add_transforming(parser: ArgumentParser) -> None:
    """The same without the function: the types of the arguments, the transformations and their options."""
    parser.add_argument("types", metavar="TYPE", nargs="*", default=[], help="the type of each argument")
    parser.add_argument(
        "--apply", default="", metavar="NAMES", help="transformations, separated by commas, the first one first"
    )
    parser.add_argument(
        "--argnums",
        default="0",
        metavar="N",
        help="which arguments to differentiate with respect to, as in 1 or 0,1 (default: 0)",
    )
    parser.add_argument(
        "--in-axes", default="0", metavar="AXES", help="which axes vmap maps, as in 1 or '(0, None)' (default: 0)"
    )
    parser.add_argument(
        "--static", action="append", default=[], metavar="NAME=VALUE", help="give a parameter a Python value; may be repeated"
    )


def add_color(parser: ArgumentParser) -> None:
    """Add whether to write in colour, for commands that can."""
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="whether to write in colour")


class Asked(NamedTuple):
    """What a command is asked to look at.

    Attributes:
        function: the user's. applied: the transformations, the first one first. types: those of the result's arguments.
        file: that of the function.
    """

    function: Function
    applied: list[Applied]
    types: list[Any]
    file: str


@contextmanager
def asked(options: Namespace, place: str = "", types: list[Any] | None = None) -> Iterator[Asked]:
    """What options name. In the block it is used; errors of the user's own code there are told from others.

    Arguments:
        options: what `add_options` added. place: the function, if it is not the option of that name, as `FILE.py:FUNCTION`.
        types: those of the arguments, if they are not read from the options.

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    argnums = literal(options.argnums, "--argnums", "a number or several, as in 0 or 0,1", _is_numbers)
    in_axes = literal(options.in_axes, "--in-axes", "an axis for all, or one for each argument, as in 0 or '(0, None)'")
    applied = parse_apply(options.apply, argnums, in_axes)
    types = [parse_type(text) for text in options.types] if types is None else types
    found, file = load_function(place or options.function)
    function = fix(found, static_arguments(options.static))
    check_arguments(function, types[: count_of_arguments(applied, len(types))], place or options.function)
    try:
        yield Asked(function, applied, types, file)
    except Exception as error:
        if in_file(error, file):
            raise UserError(file) from error
        if isinstance(error, (pb.errors.PullbackError, ValueError, NotImplementedError)):
            raise UsageError(one_line(str(error))) from None
        raise


@contextmanager
def transformed(options: Namespace, place: str = "", types: list[Any] | None = None) -> Iterator[tuple[Function, list[Any]]]:
    """As `asked`: the transformed function, and the types of its arguments."""
    with asked(options, place, types) as found:
        yield apply_transformations(found.function, found.applied), found.types


def parse_apply(text: str, argnums: Any = 0, in_axes: Any = 0) -> list[Applied]:
    """The transformations that `--apply` asks for, with the options that `--argnums` and `--in-axes` give those without.

    Raises:
        UsageError: there are no such transformations, or no such options of them.
    """
    derivatives = ("grad", "value_and_grad", "jacfwd", "jacrev", "hessian")
    try:
        return transformations(text, {"vmap": {"in_axes": in_axes}, **{name: {"argnums": argnums} for name in derivatives}})
    except ValueError as error:
        raise UsageError(str(error).replace("apply=", "--apply ", 1)) from None


def count_of_arguments(applied: Sequence[Applied], count: int) -> int:
    """How many arguments a function takes if it takes `count` once it is transformed: jvp adds tangents, vjp a cotangent."""
    for one in reversed(applied):
        if one.name == "jvp" and count % 2:
            raise UsageError(
                f"--apply jvp takes the arguments' types and then as many of their tangents', but {count} were given."
            )
        if one.name == "vjp" and not count:
            raise UsageError("--apply vjp takes the arguments' types and then that of the result's cotangent.")
        count -= {"jvp": count // 2, "vjp": 1}.get(one.name, 0)
    return count


def literal(text: str, option: str, wanted: str, fits: Callable[[Any], bool] = lambda value: True) -> Any:
    """A Python literal given to an option.

    Arguments:
        text: what was given. option: the option's name.
        wanted: what the option takes, in words. fits: whether a value is that.

    Raises:
        UsageError: the text is no Python literal, or does not fit.

    Example:
        >>> literal("(0, None)", "--in-axes", "an axis")
        (0, None)
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        fitting = False
    else:
        fitting = fits(value)
    if not fitting:
        raise UsageError(f"{option} takes {wanted}, not {text!r}.")
    return value


def _is_numbers(value: Any) -> bool:
    return all(type(number) is int for number in value) if isinstance(value, tuple) else type(value) is int


def static_arguments(texts: Sequence[str]) -> dict[str, Any]:
    """What `--static` gives parameters, by their names.

    Raises:
        UsageError: a text is no `NAME=VALUE`, or a name is given twice.
    """
    found: dict[str, Any] = {}
    for name, value in map(static_argument, texts):
        if name in found:
            raise UsageError(f"--static gives {name!r} twice, {found[name]!r} and {value!r}: leave one of them out.")
        found[name] = value
    return found


def static_argument(text: str) -> tuple[str, Any]:
    """`name=value` as a name and a Python value: a literal, or else the text itself.

    Example:
        >>> static_argument("steps=10"), static_argument("mode=fast")
        (('steps', 10), ('mode', 'fast'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"--static takes NAME=VALUE, not {text!r}.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
