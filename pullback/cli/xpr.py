"""`python -m pullback xpr FILE.py:FUNCTION TYPE ...`: the Program of the user's function, as it is or transformed.

Argument types as they are written on the command line.

    type  = array | "(" types ")" | "[" types "]" | "{" names "}"
    array = ["~"] dtype "[" [size {"," size}] "]"       f32[64,10]   i32[]   key<fry>[]   ~f32[]: a Python float
    types = [type {"," type} [","]]                     (f32[2], f32[3])   a tuple, (f32[2],) too; in brackets, a list
    names = [name ":" type {"," name ":" type} [","]]   {w: f32[3], b: f32[]}   a dict

A dtype goes by the short name with which Programs print it. Where a list begins, `[`, and an array's sizes begin cannot be
confused: sizes follow a dtype.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

import pullback as pb
from pullback.api.applied import Applied, apply_transformations, transformations
from pullback.cli.terminal import UsageError, one_line, suggestion, use_color
from pullback.core.dtypes import BY_SHORT_NAME
from pullback.core.source import shown_frames, trim
from pullback.core.types import ArrayType

Function = Callable[..., Any]


SHOWN = ("program", "stablehlo", "optimized")


def show(options: Namespace) -> None:
    """Print what the options of the `xpr` command ask for.

    Arguments:
        options: `function` (`FILE.py:NAME`), `types` and `apply` (texts), `show` (one of `SHOWN`), `argnums`, `in_axes`,
            `static` (texts, or None), `sources` (whether to print source lines), `color` (auto, always or never).

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    if options.sources and options.show != "program":
        raise UsageError("--sources goes with --show program only.")
    with transformed(options) as (function, types):
        _print(function, types, options)


def add_options(look: ArgumentParser) -> None:
    """The options of what prints in colour: those of `add_function`, and whether to."""
    add_function(look)
    look.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="whether to write in colour")


def add_function(look: ArgumentParser) -> None:
    """The options that say which function is looked at, for arguments of which types, and how it is transformed."""
    look.add_argument("function", metavar="FILE.py:FUNCTION", help="your function")
    look.add_argument("types", metavar="TYPE", nargs="*", help="the type of each argument")
    add_transformations(look)


def add_transformations(look: ArgumentParser) -> None:
    """The options that say how a function is transformed, and which of its parameters are given once and for all."""
    look.add_argument("--apply", default="", metavar="NAMES", help="transformations, separated by commas, the first one first")
    look.add_argument(
        "--argnums",
        default="0",
        metavar="N",
        help="which arguments to differentiate with respect to, as in 1 or 0,1 (default: 0)",
    )
    look.add_argument(
        "--in-axes", default="0", metavar="AXES", help="which axes vmap maps, as in 1 or '(0, None)' (default: 0)"
    )
    look.add_argument(
        "--static", action="append", default=[], metavar="NAME=VALUE", help="give a parameter a Python value; may be repeated"
    )


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
def asked(options: Namespace) -> Iterator[Asked]:
    """What options name. In the block it is used; errors of the user's own code there are told from others.

    Arguments:
        options: what `add_function` added.

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    applied = asked_transformations(options)
    types = [parse_type(text) for text in options.types]
    found, file = load_function(options.function)
    function = fix(found, asked_static(options))
    check_arguments(function, types[: count_of_arguments(applied, len(types))], options.function)
    try:
        yield Asked(function, applied, types, file)
    except Exception as error:
        if in_file(error, file):
            raise UserError(file) from error
        if isinstance(error, pb.errors.PullbackError):
            raise UsageError(one_line(str(error))) from None
        raise


@contextmanager
def transformed(options: Namespace) -> Iterator[tuple[Function, list[Any]]]:
    """As `asked`: the transformed function, and the types of its arguments."""
    with asked(options) as found:
        yield apply_transformations(found.function, found.applied), found.types


def asked_transformations(options: Namespace) -> list[Applied]:
    """The transformations that options ask for.

    Arguments:
        options: what `add_transformations` added.

    Raises:
        UsageError: there are no such transformations, or no such options of them.
    """
    argnums = literal(options.argnums, "--argnums", "a number or several, as in 0 or 0,1", _is_numbers)
    in_axes = literal(options.in_axes, "--in-axes", "an axis for all, or one for each argument, as in 0 or '(0, None)'")
    return parse_apply(options.apply, argnums, in_axes)


def asked_static(options: Namespace) -> dict[str, Any]:
    """The values of parameters that options give, by name."""
    return dict(static_argument(text) for text in options.static)


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


# ---- the function, from the user's own file, and the user's part of a traceback -----------------------------------------


class UserError(Exception):
    """The user's own code raised an exception, which is this one's cause; `file` is the file that was run."""

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self.file = file


def load_function(place: str) -> tuple[Function, str]:
    """The function that `FILE.py:NAME` says, and FILE; runs the file as `import` would.

    Raises:
        UsageError: there is no such file, no such name in it, or what it names is no function.
        UserError: the file raised an exception.
    """
    file, colon, name = place.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"{place!r} names no function: write FILE.py:FUNCTION, as in model.py:loss.")
    path = Path(file)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        others = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise UsageError(f"the file {file!r} {what}; seen from {str(Path.cwd())!r}.{suggestion(path.name, others)}")
    module = _run(path, file)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            functions = [word for word, value in vars(found).items() if callable(value) and not word.startswith("_")]
            near = suggestion(part, functions) or (f" It has {', '.join(functions[:8])}." if functions else "")
            raise UsageError(f"{file} has no function {name!r}.{near}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{place} is of type {type(found).__name__}, not a function.")
    return found, file


def _run(path: Path, file: str) -> ModuleType:
    """A module of the file's code, known to `sys.modules` while it runs; the file's neighbours can be imported."""
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_"
    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    folder = str(path.parent.resolve())
    if sys.path[:1] != [folder]:  # a file that is watched runs again and again
        sys.path.insert(0, folder)
    try:
        exec(compile(path.read_bytes(), file, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        raise UserError(file) from error
    return module


def fix(function: Function, static: Mapping[str, Any]) -> Function:
    """The function with some parameters, by name, given once and for all: one of the others, in their order."""
    if not static:
        return function
    signature = inspect.signature(function)
    unknown = [name for name in static if name not in signature.parameters]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        names = ", ".join(signature.parameters)
        raise UsageError(
            f"--static names {unknown[0]!r}, but the parameters are {names}.{suggestion(unknown[0], signature.parameters)}"
        )
    free = signature.replace(parameters=[each for name, each in signature.parameters.items() if name not in static])

    @functools.wraps(function)
    def fixed(*args: Any) -> Any:
        given = free.bind(*args).arguments
        bound = inspect.BoundArguments(signature, {**given, **static})
        return function(*bound.args, **bound.kwargs)

    fixed.__signature__ = free  # type: ignore[attr-defined]
    return fixed


def check_arguments(function: Function, types: Sequence[Any], place: str) -> None:
    """Raise UsageError unless a function can be called with as many arguments as there are types."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C: it will say for itself
        return
    try:
        signature.bind(*types)
    except TypeError as error:
        given = f"{len(types)} type{'s were' if len(types) != 1 else ' was'} given"
        raise UsageError(f"{place} has the parameters {signature}, but {given}: {error}.") from None


def in_file(error: BaseException, file: str) -> bool:
    """Whether an exception went through code of a file."""
    return _from_file(error.__traceback__, file) is not None


def print_traceback(error: BaseException, file: str) -> None:
    """Print an exception on standard error, from the user's file on, without our frames (unless those are asked for)."""
    trim(error)
    if shown_frames() != "all":
        error.__traceback__ = _from_file(error.__traceback__, file)
    traceback.print_exception(error)


def _from_file(step: TracebackType | None, file: str) -> TracebackType | None:
    while step is not None and step.tb_frame.f_code.co_filename != file:
        step = step.tb_next
    return step


# ---- types -------------------------------------------------------------------------------------------------------------


def parse_type(text: str, mesh: Any = None) -> Any:
    """The type that a text says: an `ArrayType`, or a tuple, list or dict of types.

    Arguments:
        text: one argument's type, such as `f32[64,10]` or `{w: f32[3], b: f32[]}`.
        mesh: where arrays may be divided, as in `f32[64,10]@(data,·)`, the mesh that has these axes.

    Returns:
        A pytree with an `ArrayType` for each array.

    Raises:
        UsageError: the text breaks the grammar; the message says where, and what belongs there.

    Example:
        >>> parse_type("f32[2,3]")
        f32[2,3]
        >>> parse_type("{w: f32[3], b: (i32[], ~f32[])}")
        {'w': f32[3], 'b': (i32[], ~f32[])}
    """
    written = re.sub(r"\bkey<(\w+)>", r"key_\1", text)  # so that it is an expression of Python's, here and below
    written = re.sub(r"(\w)\s*\[\s*\]", r"\1[()]", written).strip().replace("·", "_")
    try:
        return _type_of(ast.parse(written, mode="eval").body, mesh)
    except SyntaxError as error:
        raise UsageError(f"type {text!r} cannot be read: {error.msg}. Quote each type by itself. {_LOOK}") from None
    except _NoType as wrong:
        found, hint = wrong.args
        part = re.sub(r"\bkey_(\w+)", r"key<\1>", ast.unparse(found).replace("[()]", "[]"))
        raise UsageError(f"type {text!r}: {part!r} is no type.{hint or ' ' + _LOOK}") from None


_LOOK = "Types look like f32[64,10], i32[], key<fry>[], (f32[2], f32[3]), {w: f32[3], b: f32[]}."


class _NoType(Exception):
    """A part of what was given as a type is none: the part, and a hint."""


def _type_of(node: ast.expr, mesh: Any = None) -> Any:
    """The type that an expression stands for."""
    match node:
        case ast.Tuple(items):
            return tuple([_type_of(item, mesh) for item in items])
        case ast.List(items):
            return [_type_of(item, mesh) for item in items]
        case ast.Dict(keys, values) if all(isinstance(key, ast.Name) for key in keys):
            return {key.id: _type_of(value, mesh) for key, value in zip(keys, values)}  # type: ignore[union-attr]
        case ast.BinOp(ast.Subscript() as array, ast.MatMult(), spec) if mesh is not None:
            found = _type_of(array)
            entries = [_entry_of(entry) for entry in (spec.elts if isinstance(spec, ast.Tuple) else [spec])]
            sharding = pb.NamedSharding(mesh, pb.P(*entries))
            sharding.shard_shape(found.shape)
            return found.placed(sharding, found.varying)
        case ast.UnaryOp(ast.Invert(), ast.Subscript() as array):
            return ArrayType((found := _type_of(array)).shape, found.dtype, weak=True)
        case ast.Subscript(ast.Name(name), sizes) if (dtype := _short_name(name)) in BY_SHORT_NAME:
            found = [size.value if isinstance(size, ast.Constant) else None for size in getattr(sizes, "elts", [sizes])]
            if all(type(size) is int for size in found):
                return ArrayType(found, BY_SHORT_NAME[dtype])
        case ast.Subscript(ast.Name(name) as part) if _short_name(name) not in BY_SHORT_NAME:
            raise _NoType(part, suggestion(_short_name(name), BY_SHORT_NAME))
        case ast.Name(name) if (dtype := _short_name(name)) in BY_SHORT_NAME:
            raise _NoType(node, f" A single {'key' if dtype.startswith('key') else 'number'} is {dtype}[].")
    raise _NoType(node, "")


def _short_name(name: str) -> str:
    """The short name of a dtype that a name in an expression stands for: `key<fry>` for `key_fry`."""
    return re.sub(r"^key_(\w+)$", r"key<\1>", name)


def _entry_of(node: ast.expr) -> Any:
    """How an axis is divided: the name of a mesh axis, a tuple of names, or None for the whole."""
    match node:
        case ast.Name("_") | ast.Constant(None):
            return None
        case ast.Name(name):
            return name
        case ast.Tuple(items) if all(isinstance(item, ast.Name) for item in items):
            return tuple([item.id for item in items])  # type: ignore[attr-defined]
    raise _NoType(node, " Behind @ stand names of mesh axes, as in @data, @(data,·) or @((data,model),·).")
