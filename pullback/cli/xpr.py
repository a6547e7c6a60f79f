"""`python -m pullback xpr FILE.py:FUNCTION TYPE ...`: the Program of the user's function, as it is or transformed."""

from __future__ import annotations

import ast
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import pullback as pb
from pullback.cli.load import UserError, check_arguments, fix, in_file, load_function
from pullback.cli.signature import parse_type
from pullback.cli.terminal import use_color
from pullback.cli.usage import UsageError, one_line, suggestion

Function = Callable[..., Any]

SHOWN = ("program", "stablehlo", "optimized")


def push_forward(function: Function) -> Function:
    """`jvp` as a function of the primals and then as many tangents, all by position."""

    def pushed(*args: Any) -> Any:
        half = len(args) // 2
        return pb.jvp(function, args[:half], args[half:])

    return pushed


# Each by the name that `--apply` knows it by, from a function, `--argnums` and `--in-axes`.
TRANSFORMATIONS: dict[str, Callable[[Function, Any, Any], Function]] = {
    "grad": lambda function, argnums, in_axes: pb.grad(function, argnums),
    "value_and_grad": lambda function, argnums, in_axes: pb.value_and_grad(function, argnums),
    "vmap": lambda function, argnums, in_axes: pb.vmap(function, in_axes),
    "jit": lambda function, argnums, in_axes: pb.jit(function),
    "jvp": lambda function, argnums, in_axes: push_forward(function),
    "jacfwd": lambda function, argnums, in_axes: pb.jacfwd(function, argnums),
    "jacrev": lambda function, argnums, in_axes: pb.jacrev(function, argnums),
    "hessian": lambda function, argnums, in_axes: pb.hessian(function, argnums),
}


def show(options: Namespace) -> None:
    """Print what the options of the `xpr` command ask for.

    Arguments:
        options: `function` (`FILE.py:NAME`), `types` and `apply` (texts), `show` (one of `SHOWN`), `argnums`, `in_axes`,
            `static` (texts, or None), `sources` (whether to print source lines), `color` (auto, always or never).

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    names = [name.strip() for name in options.apply.split(",") if name.strip()]
    for name in names:
        if name not in TRANSFORMATIONS:
            known = f" There are {', '.join(TRANSFORMATIONS)}."
            raise UsageError(f"--apply: {name!r} is no transformation.{suggestion(name, TRANSFORMATIONS) or known}")
    argnums = literal(options.argnums, "--argnums", "a number or several, as in 0 or 0,1", _is_numbers)
    in_axes = literal(options.in_axes, "--in-axes", "an axis for all, or one for each argument, as in 0 or '(0, None)'")
    if options.sources and options.show != "program":
        raise UsageError("--sources goes with --show program only.")
    types = [parse_type(text) for text in options.types]
    found, file = load_function(options.function)
    function = fix(found, dict(static_argument(text) for text in options.static))
    pushed = names.count("jvp")
    if len(types) % 2**pushed:
        raise UsageError(
            f"--apply jvp takes the arguments' types and then as many of their tangents', but {len(types)} were given."
        )
    check_arguments(function, types[: len(types) >> pushed], options.function)
    try:
        for name in names:
            function = TRANSFORMATIONS[name](function, argnums, in_axes)
        _print(function, types, options)
    except Exception as error:
        if in_file(error, file):
            raise UserError(file) from error
        if isinstance(error, pb.errors.PullbackError):
            raise UsageError(one_line(str(error))) from None
        raise


def _print(function: Function, types: Sequence[Any], options: Namespace) -> None:
    if options.show == "program":
        pb.xpr(function, *types).show(color=use_color(options.color), sources=options.sources)
        return
    lowered = pb.jit(function).lower(*types)
    print((lowered.as_text() if options.show == "stablehlo" else lowered.compile().as_text()).rstrip())


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
