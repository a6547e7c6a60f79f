"""Where in the user's program something happened, and tracebacks without our own frames in them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from pullback.core.absent import absent
from pullback.core.bounded import Bounded
from pullback.core.context import Inherited
from pullback.core.error_pages import Explained
from pullback.core.lazy import lazy_module

if TYPE_CHECKING:
    import linecache
else:
    linecache = lazy_module("linecache")


F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Frames of these libraries stand between a user's line and ours when they call us back, and runpy's are those that run
# `python -m pullback`; no line in them is the user's.
_LIBRARIES = os.path.dirname(os.path.dirname(np.__file__))
_RUNPY = ("<frozen runpy>", os.path.join(os.path.dirname(os.path.abspath(str(functools.__file__))), "runpy.py"))
_BETWEEN = (
    *[os.path.join(_LIBRARIES, name) + os.sep for name in ("numpy", "ml_dtypes", "optree")],
    *[os.path.abspath(str(module.__file__)) for module in (contextlib, functools)],
    *_RUNPY,
)


@functools.cache
def is_ours(filename: str) -> bool:
    """Whether a file belongs to pullback itself, so that its frames say nothing to a user."""
    return filename.startswith(PACKAGE)


class _UsersFiles(dict[str, bool]):
    """Whether a file is the user's own program: neither ours nor one of a library that calls us on the user's behalf. Each is
    looked at once; reading a dict is the fastest way to ask for a frame's file."""

    def __missing__(self, filename: str) -> bool:
        found = self[filename] = not is_ours(filename) and not filename.startswith(_BETWEEN)
        return found


_users_files = _UsersFiles()


def is_users(frame: FrameType) -> bool:
    """Whether a frame is one of the user's program."""
    return _users_files[frame.f_code.co_filename]


class CodeSource:
    """A place in code that has run here, kept as cheaply as it can be: the line is looked up when somebody asks.

    Attributes:
        file, line, function, text: a file, the number of a line in it, the function that it is in, and the line itself.
        scope: the named scopes around it.
        caller: the place from which that function was called, if that lies in the same traced function.
    """

    __slots__ = ("caller", "code", "instruction", "scope")

    def __init__(self, code: CodeType, instruction: int, scope: tuple[str, ...] = (), caller: CodeSource | None = None) -> None:
        self.code = code
        self.instruction = instruction
        self.scope = scope
        self.caller = caller

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def line(self) -> int:
        for start, end, line in self.code.co_lines():
            if start <= self.instruction < end and line is not None:
                return line
        return self.code.co_firstlineno

    @property
    def function(self) -> str:
        return self.code.co_qualname

    @property
    def text(self) -> str:
        """The line of code itself, stripped; empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return source_text(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordedSource, (self.file, self.line, self.function, self.text, self.scope, self.caller)


class RuleCall(CodeSource):
    """The place of an operation to which a rule of the user's own is applied: what stands for a caller of the rule's lines."""

    __slots__ = ()


class RecordedSource(NamedTuple):
    """A place as a serialized Program keeps it: what it was when the Program was serialized. See `CodeSource`."""

    file: str
    line: int
    function: str
    text: str
    scope: tuple[str, ...] = ()
    caller: RecordedSource | None = None

    def __str__(self) -> str:
        return source_text(self)


Source = CodeSource | RecordedSource


LONGEST_LINE = 128  # characters of a line of code in a message


def source_text(source: Source) -> str:
    """A place in words: `model.py:12 (loss): y = x @ w`."""
    text = source.text
    text = text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 3]}..."
    return f"{source.file}:{source.line} ({source.function})" + (f": {text}" if text else "")


def shown_file(file: str) -> str:
    """A file as tables and pages call it: by its path from here, if it lies below, else by its name; what is no file as it is.

    Example:
        >>> shown_file("/elsewhere/model.py"), shown_file(os.path.abspath("models/small.py")), shown_file("<stdin>")
        ('model.py', 'models/small.py', '<stdin>')
    """
    if file.startswith("<"):
        return file
    here = os.path.join(os.getcwd(), "")
    return file.removeprefix(here) if file.startswith(here) else os.path.basename(file)


_roots: set[int] = set()  # the ids of the codes at which a chain of calls ends
_rules: set[int] = set()  # of those that call a rule of the user's: a chain goes on where that is applied, which is
rule_called_at: ContextVar[RuleCall | None] = ContextVar("pullback_rule_called_at", default=None)


class _Places(dict[tuple[int, tuple[str, ...]], CodeSource]):
    """The places in a piece of code, as called from one place, by instruction and scope; each is made when it is first met."""

    __slots__ = ("caller", "code")

    def __init__(self, code: CodeType, caller: CodeSource | None) -> None:
        self.code = code
        self.caller = caller

    def __missing__(self, key: tuple[int, tuple[str, ...]]) -> CodeSource:
        if next(_count) % MOST_PLACES == 0:
            _places.clear()
            _frames.clear()
            _rule_calls.clear()
        return self.setdefault(key, CodeSource(self.code, *key, self.caller))


# The places of each frame of the user's that was met lately, until what is traced ends: then only our own innermost frames are
# walked. And all of them, by the ids of the codes that they keep alive, and by callers.
_frames: dict[FrameType, _Places] = {}
_places: dict[tuple[int, CodeSource | None], _Places] = {}
_rule_calls: dict[CodeSource, RuleCall] = {}  # by the places that they are
_count = itertools.count(1)
MOST_FRAMES, MOST_PLACES = 64, 1 << 16
_RESUMABLE = 0x20 | 0x80 | 0x200  # the flags of generators, coroutines and both at once: another frame may go on with them


def ends_calls(function: F) -> F:
    """Mark a function of ours that runs a user's function by itself: a chain of calls begins behind it."""
    _roots.add(id(function.__code__))
    return function


def calls_rule(function: F) -> F:
    """Mark a function of ours that calls a rule of the user's, which is applied where `rule_called_at` says."""
    _rules.add(id(function.__code__))
    return function


def rule_call(source: Source | None) -> RuleCall | None:
    """The place of an operation, for `rule_called_at`; None of one that a serialized Program keeps."""
    if not isinstance(source, CodeSource):
        return None
    known = _rule_calls.get(source)
    return known or _rule_calls.setdefault(source, RuleCall(source.code, source.instruction, source.scope, source.caller))


def rule_call_of(source: Source | None) -> Source | None:
    """Where the operation stands to which a rule of the user's own was applied, of a line in that rule; None of other lines."""
    while source is not None and not isinstance(source, RuleCall):
        source = source.caller
    return source


def rule_source(scope: tuple[str, ...]) -> CodeSource | None:
    """As `user_source`, of the rule of the user's that is running; None where a line of ours is the innermost of it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _users_files[frame.f_code.co_filename]:
        if id(frame.f_code) in _rules:
            return None
        frame = frame.f_back
    return None if frame is None else (_frames.get(frame) or _places_in(frame))[frame.f_lasti, scope]


def user_source(depth: int = 1, scope: tuple[str, ...] = ()) -> CodeSource | None:
    """The innermost frame that is the user's, with those that called it; None when there is none (a call straight from C).

    Costs some 50 ns, and as much again for every frame of ours that lies in between, of which `depth` are passed over unseen.

    Example:
        >>> user_source().function
        '<module>'
    """
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and not _users_files[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        return None
    try:
        places = _frames[frame]
    except KeyError:
        places = _places_in(frame)
    return places[frame.f_lasti, scope]


def at_line(source: Source | None) -> str:
    """The end of an error message: where in the user's program it happened; empty if there is no such place."""
    return f" At {source}." if source is not None else ""


def at_user_line() -> str:
    """As `at_line`, of the line that is running."""
    return at_line(passing_source(2))


def passing_source(depth: int = 1) -> CodeSource | None:
    """As `user_source`, where it may be that nothing is traced: no frame of the user's, with all that is in it, is kept."""
    found = user_source(depth + 1)
    _frames.clear()
    return found


def running_source() -> CodeSource | None:
    """The innermost line of the user's that is running, without those that called it; None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _users_files[frame.f_code.co_filename]:
        frame = frame.f_back
    return None if frame is None else CodeSource(frame.f_code, frame.f_lasti)


def forget_callers() -> None:
    """Let go of the user's frames: what was traced has ended."""
    _frames.clear()


def _places_in(frame: FrameType) -> _Places:
    """The places in a frame of the user's, as called from where it was, if that belongs to what is traced too."""
    chain = [frame]
    caller: CodeSource | None = None
    at: FrameType | None = frame.f_back
    while at is not None:
        if _users_files[at.f_code.co_filename]:
            known = _frames.get(at)  # another thread may empty it at any time
            if known is not None:
                caller = known[at.f_lasti, ()]
                break
            chain.append(at)
        elif id(at.f_code) in _roots:
            break
        elif id(at.f_code) in _rules:
            caller = rule_called_at.get()
            break
        at = at.f_back
    if len(_frames) > MOST_FRAMES:
        _frames.clear()
    while True:
        inner = chain.pop()
        code = inner.f_code
        key = (id(code), caller)
        places = _places.get(key)
        if places is None:
            places = _places.setdefault(key, _Places(code, caller))
        if not code.co_flags & _RESUMABLE:
            _frames[inner] = places
        if not chain:
            return places
        caller = places[inner.f_lasti, ()]


def describe(function: Callable[..., Any]) -> str:
    """A function named for an error message: its name, and its file and first line unless they are ours; `functools.partial`
    and decorators are seen through, and an object that can be called is named by its class.

    Example:
        >>> import functools, math
        >>> describe(functools.partial(math.sin, 1.0))
        'sin'
    """
    inner = innermost(function)
    qualified = getattr(inner, "__qualname__", None)
    name = qualified if isinstance(qualified, str) and qualified else name_of(inner, type(inner).__qualname__)
    code = getattr(inner, "__code__", None)
    if not isinstance(code, CodeType) and callable(inner):
        code = getattr(type(inner).__call__, "__code__", None)
    if not isinstance(code, CodeType) or is_ours(code.co_filename):  # a line of our own says nothing to a user
        return name
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


def name_of(function: Any, otherwise: str = "") -> str:
    """A function's own name, if it has one, else `otherwise`, or what the function inside it, or its class, is called; objects
    that have any attribute one asks for have none that is a string."""
    name = getattr(function, "__name__", None)
    if isinstance(name, str) and name:
        return name
    if otherwise:
        return otherwise
    inner = innermost(function)
    return name_of(inner, type(inner).__name__)


def named_after(function: Callable[..., Any]) -> Callable[[F], F]:
    """`functools.wraps` of any object that can be called; what is made of one without a `__name__` that a function can have is
    named after the function inside it, or after its class."""

    def named(made: F) -> F:
        try:
            functools.update_wrapper(made, function, updated=())
        except TypeError:
            made.__wrapped__ = function  # type: ignore[attr-defined]
        if not isinstance(getattr(function, "__name__", None), str):
            inner = innermost(function)
            made.__name__ = made.__qualname__ = name_of(inner, type(inner).__name__)
        return made

    return named


_MOST_WRAPPED = 100  # deeper than anybody wraps: an object whose attributes are made when they are asked for has no end


def innermost(function: Any) -> Any:
    """The function under any stack of `functools.partial` and of decorators that set `__wrapped__`."""
    seen: set[int] = set()
    while id(function) not in seen and len(seen) < _MOST_WRAPPED:
        seen.add(id(function))
        function = function.func if isinstance(function, functools.partial) else getattr(function, "__wrapped__", function)
    return function


# ---- warnings -------------------------------------------------------------------------------------------------------

_warned: Bounded[str, None] = Bounded(64)  # what has been said once


def warn(message: str, once: bool = False, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the user's innermost line, however many frames of ours lie in between."""
    if once and message in _warned:
        return
    if once:
        _warned[message] = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _users_files[frame.f_code.co_filename]:
        frame = frame.f_back
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    names = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__"),
        names.setdefault("__warningregistry__", {}),
    )


def warn_of_variable(name: str, expected: str, instead: str) -> None:
    """Warn, once, that an environment variable has a value that cannot be used."""
    warn(f"The environment variable {name} must be {expected}, not {os.environ[name]!r}: {instead}.", once=True)


def flag(name: str) -> bool:
    """Whether an environment variable is set to 1."""
    value = os.environ.get(name, "0")
    if value not in ("", "0", "1"):
        warn_of_variable(name, "0 or 1", "it counts as 1")
    return value not in ("", "0")


# ---- tracebacks -----------------------------------------------------------------------------------------------------


# What a traceback shows of ours. users: nothing; noted: nothing, and a note says so; caused: nothing, and the error's cause is
# the whole; marked: our frames are marked as hidden, which IPython and pytest leave out; all: everything.
SHOWN = ("users", "noted", "caused", "marked", "all")
tracebacks: Inherited[str | None] = Inherited("pullback_tracebacks", None)  # None: what the environment says
_NOTE = "pullback's own frames are left out; PULLBACK_TRACEBACKS=all shows them."


def shown_frames() -> str:
    """Which frames tracebacks are to show, by what was asked for here, or by `PULLBACK_TRACEBACKS`."""
    asked = tracebacks.get() or os.environ.get("PULLBACK_TRACEBACKS") or "users"
    if asked in SHOWN:
        return asked
    warn_of_variable("PULLBACK_TRACEBACKS", f"one of {', '.join(SHOWN)}", "all frames are shown")
    return "all"


class WholeTraceback(Exception):
    """The cause of an error without our frames, where that is asked for: its traceback with them."""

    shown: TracebackType | None = None  # of what is left of it in the error


def trim(error: BaseException) -> BaseException:
    """Take our frames out of the traceback of `error`, and of those that caused it; the user's own stay, in order.

    An error inside pullback that was only the occasion of `error`, with no frame of the user's, is not shown at all, and no
    error of ours without one that was the cause of another of ours.
    """
    _show(error, shown_frames())
    return error


def _show(error: BaseException, shown: str) -> None:
    """Let the traceback of an error that leaves for the user's program show this much of ours, one of `SHOWN`."""
    if shown == "all":
        return
    if shown == "caused" and isinstance(error, Exception):
        _add_the_whole(error)
        return
    if shown == "noted" and isinstance(error, Exception) and _NOTE not in getattr(error, "__notes__", ()):
        _set(error, "__notes__", [*getattr(error, "__notes__", ()), _NOTE])
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if shown == "marked":
            _mark(link.__traceback__)
        else:
            _set(link, "__traceback__", _users_frames(link.__traceback__))
        cause, occasion = link.__cause__, link.__context__
        if cause is not None and _is_inside(cause, link):
            _set(link, "__cause__", None)  # by which its context is suppressed too
            return
        if occasion is not None and cause is None and _users_frames(occasion.__traceback__) is None:
            _set(link, "__suppress_context__", True)
        link = cause or (None if link.__suppress_context__ else occasion)


def _set(error: BaseException, name: str, value: Any) -> None:
    """Set what Python itself keeps in an error, also where the user's class refuses it, as a frozen dataclass does."""
    BaseException.__setattr__(error, name, value)


def _is_inside(cause: BaseException, error: BaseException) -> bool:
    """Whether an error of ours was the cause of another one without anything of the user's between them."""
    return isinstance(error, Explained) and isinstance(cause, Explained) and _users_frames(cause.__traceback__) is None


def _mark(step: TracebackType | None) -> None:
    while step is not None:
        if is_ours(step.tb_frame.f_code.co_filename):
            step.tb_frame.f_locals["__tracebackhide__"] = True
        step = step.tb_next


def _add_the_whole(error: Exception) -> None:
    """Take our frames out, and make the whole the error's cause, the one that it has already if it came from further inside."""
    whole, steps, step = error.__cause__, [], error.__traceback__
    if not isinstance(whole, WholeTraceback):
        whole = WholeTraceback("The error that follows, with pullback's own frames:")
        whole.__cause__, whole.__context__ = error.__cause__, error.__context__
        whole.__suppress_context__ = error.__suppress_context__
        _set(error, "__cause__", whole)
    while step is not None and step is not whole.shown:
        steps.append(step)
        step = step.tb_next
    whole.__traceback__ = _rebuilt(steps, whole.__traceback__)
    whole.shown = _users_frames(error.__traceback__)
    _set(error, "__traceback__", whole.shown)


def _users_frames(traceback: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while traceback is not None:
        if not is_ours(traceback.tb_frame.f_code.co_filename):
            kept.append(traceback)
        traceback = traceback.tb_next
    return _rebuilt(kept, None)


def _rebuilt(steps: list[TracebackType], rest: TracebackType | None) -> TracebackType | None:
    """A traceback of these steps, and then the rest."""
    for step in reversed(steps):
        rest = TracebackType(rest, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return rest


def api_boundary(function: F) -> F:
    """Mark a function that users call: an exception that leaves it carries the user's frames, not ours."""

    @functools.wraps(function)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise

    boundary.is_boundary = id(boundary)  # type: ignore[attr-defined]
    return boundary  # type: ignore[return-value]


def is_boundary(function: Callable[..., Any]) -> bool:
    """Whether a function is an `api_boundary`, or trims its errors itself, and not only has a copy of the mark of one that does
    (`functools.wraps`)."""
    return getattr(function, "is_boundary", None) == id(function)


def api_class(cls: C) -> C:
    """Mark a class that users make and call: each of its own methods, `__init__` and operators too, is an `api_boundary`."""
    for name, found in list(vars(cls).items()):
        if isinstance(found, FunctionType) and not is_boundary(found):
            setattr(cls, name, api_boundary(found))
        elif isinstance(found, (classmethod, staticmethod)):
            setattr(cls, name, type(found)(api_boundary(found.__func__)))
    return cls


def make_boundaries(functions: dict[str, Any], names: Iterable[str]) -> None:
    """Make an `api_boundary` of each function of those names, in place, unless it trims its errors by itself.

    Of the functions of a module, it is the boundaries that a pickle finds there.
    """
    made: dict[Any, Any] = {}
    for name in names:
        found = functions.get(name)
        if isinstance(found, FunctionType) and not is_boundary(found):
            functions[name] = boundary = made.setdefault(found, api_boundary(found))
            if "__name__" in functions:
                boundary.__module__, boundary.__qualname__ = functions["__name__"], name


def make_public(module: dict[str, Any]) -> None:
    """Make an `api_boundary` of each public function of a module, given its globals, let `dir` show public names only, and the
    error for other names say what stands for them."""
    make_boundaries(module, module["__all__"])
    module["__dir__"] = lambda: sorted(module["__all__"])

    @api_boundary
    def __getattr__(name: str) -> NoReturn:
        raise absent(module["__name__"], name)

    module["__getattr__"] = __getattr__
