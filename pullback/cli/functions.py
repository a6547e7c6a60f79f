"""The function that a command looks at, from the user's own file, and the user's part of a traceback."""

from __future__ import annotations

import functools
import importlib
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from pullback.api.compiled import Jitted
from pullback.cli.terminal import UsageError, suggestion
from pullback.core.source import shown_frames, trim
from pullback.native.entry import plain_class

Function = Callable[..., Any]
COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)  # parameters that `--static` cannot give


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
            near = suggestion(part, functions) or (f" It has {_listed(functions)}." if functions else "")
            raise UsageError(f"{file} has no function {name!r}.{near}")
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"{place} is of type {type(found).__name__}, not a function.")
    return found, file


def _listed(names: Sequence[str], most: int = 8) -> str:
    """The first names, and how many more there are.

    Example:
        >>> _listed(["loss", "step"]), _listed(["loss", "step", "fit"], most=2)
        ('loss, step', 'loss, step and 1 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _run(path: Path, file: str) -> ModuleType:
    """A module of the file's code, known to `sys.modules` while it runs; the file's neighbours can be imported, and what its
    package imports by a dot."""
    folder, package = imported_from(path)
    name = ".".join([*package, path.stem])
    name = name if name not in sys.modules else f"{name}_"
    module = ModuleType(name)
    module.__file__ = file
    module.__package__ = ".".join(package)
    sys.modules[name] = module
    beside = str(path.parent.resolve())
    if sys.path[:1] != [folder]:  # a file that is watched runs again and again
        sys.path.insert(0, folder)
    if beside not in sys.path:  # last, so that no module of a package hides one of Python's own
        sys.path.append(beside)
    linecache.checkcache(file)  # its lines may have been read before it was changed
    try:
        if package:
            importlib.import_module(module.__package__)
        exec(compile(path.read_bytes(), file, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        raise UserError(file) from error
    return module


def imported_from(path: Path) -> tuple[str, list[str]]:
    """The folder from which a file is imported, and the names of the packages that it lies in, the outermost first."""
    folder, names = path.parent.resolve(), list[str]()
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return str(folder), names


def fix(function: Function, static: Mapping[str, Any]) -> Function:
    """The function with some parameters, by name, given once and for all: one of the others, in their order. A jitted function
    stays one, with what it donates, if those are static parameters of it."""
    if not static:
        return function
    signature = inspect.signature(function)
    parameters = {name: one for name, one in signature.parameters.items() if one.kind not in COLLECTING}
    others = {name: value for name, value in static.items() if name not in parameters}
    if others and not any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values()):
        unknown, names = next(iter(others)), ", ".join(parameters)
        raise UsageError(f"--static names {unknown!r}, but the parameters are {names}.{suggestion(unknown, parameters)}")
    collects = any(one.kind is one.VAR_POSITIONAL for one in signature.parameters.values())
    if isinstance(function, Jitted) and not collects and static.keys() <= function._static_names:
        return _fix_jitted(function, static)
    named = {name: value for name, value in static.items() if name in parameters}
    free = signature.replace(parameters=[one for name, one in signature.parameters.items() if name not in named])

    @functools.wraps(function)
    def fixed(*args: Any) -> Any:
        given = free.bind(*args).arguments
        bound = inspect.BoundArguments(signature, {**given, **named})
        return function(*bound.args, **bound.kwargs, **others)

    fixed.__signature__ = free  # type: ignore[attr-defined]
    return fixed


def _fix_jitted(jitted: Jitted, static: Mapping[str, Any]) -> Function:
    """The same jit of the function that takes the other parameters."""
    _, _, _, _, _, *options = jitted._made_from
    names = (None, jitted._static_names - static.keys(), None, jitted._donate_names)
    return plain_class(jitted)(fix(jitted._fun, static), *names, *options)  # type: ignore[no-any-return]


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
