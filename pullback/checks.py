"""Checks of values while they are computed, in compiled code too, whose failures are values.

In a function that `checkify` runs, a check is a callback that notes the first failure: so it works in loops, branches, batches
and derivatives as callbacks do. Operations are checked likewise, where that is asked for. An `Error` holds the number of the
failure that was noted.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from pullback.api.callbacks import io_callback
from pullback.api.functions import check_callable
from pullback.control.callback import check as check_primitive
from pullback.control.checking import KINDS, CheckError, DivisionError, NaNError, OutOfBoundsError, Told, checking
from pullback.core.array import Array
from pullback.core.bounded import Bounded
from pullback.core.brief import brief
from pullback.core.errors import DtypeError
from pullback.core.source import api_boundary, api_class, make_public, named_after
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import TreeDef, flatten, register_node, unflatten
from pullback.core.types import ArrayType
from pullback.program.equality import Keyed

__all__ = ["CheckError", "DivisionError", "Error", "NaNError", "OutOfBoundsError", "check", "check_error", "checkify"]

MAX_FAILURES = 4096  # that are remembered, so that an Error can say what it is


_failures: Bounded[int, CheckError] = Bounded(MAX_FAILURES)
_codes = itertools.count(1)  # whose next is taken by one thread alone
_running = threading.local()


class _Run:
    """A checkify that runs: the kinds that it notes, and the number of the first failure."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self.classes = {KINDS[kind] for kind in kinds}
        self.code = 0


@api_class
class Error:
    """Whether a check failed, and which one: a container of a number, 0 where none did.

    Example:
        >>> error, out = pb.checks.checkify(pnp.sqrt)(4.0)
        >>> error, error.get()
        (Error(None), None)
    """

    def __init__(self, code: Any) -> None:
        self.code = code

    def get_exception(self) -> CheckError | None:
        """The failure.

        Returns:
            An exception, or None. Of a batch of errors it is the first one's.

        Example:
            >>> pb.checks.checkify(pnp.sqrt)(4.0)[0].get_exception()
        """
        codes = [int(code) for code in np.ravel(np.asarray(self.code)) if code]
        forgotten = CheckError("a check failed, so long ago that what it said is gone: look at errors sooner")
        return _failures.get(codes[0], forgotten) if codes else None

    def get(self) -> str | None:
        """What the failure says.

        Returns:
            The message, or None.

        Example:
            >>> pb.checks.checkify(lambda x: pb.checks.check(x > 0, "{} is negative", x))(-1.0)[0].get()
            '-1.0 is negative'
        """
        error = self.get_exception()
        return None if error is None else str(error)

    def throw(self) -> None:
        """`check_error` of it.

        Raises:
            CheckError: a check failed.

        Example:
            >>> pb.checks.checkify(pnp.sqrt)(4.0)[0].throw()
        """
        check_error(self)

    def __repr__(self) -> str:
        return "Error(traced)" if isinstance(self.code, (Tracer, ArrayType)) else f"Error({self.get()})"


register_node(Error, lambda error: ((error.code,), None), lambda _, codes: Error(*codes))


def _stack() -> list[_Run]:
    """The checkifys that run in this thread, the innermost last."""
    if not hasattr(_running, "stack"):
        _running.stack = []
    return _running.stack  # type: ignore[no-any-return]


def _note(error: CheckError) -> None:
    """Note an error of the kinds that the innermost checkify is for; raise it where there is none."""
    stack = _stack()
    if not stack:
        raise error
    if error.__class__ in stack[-1].classes:
        _note_any(error)


def _note_any(error: CheckError) -> None:
    if not _stack():
        raise error
    if not (run := _stack()[-1]).code:
        run.code = next(_codes)
        _failures[run.code] = error


class _Message(Keyed):
    """What a check says where its first operand does not hold; the others are put into it."""

    __slots__ = ("structure", "text")

    def __init__(self, text: str, structure: TreeDef) -> None:
        self.key = text, structure
        self.text, self.structure = self.key

    def __call__(self, holds: Any, *leaves: Any) -> CheckError | None:
        if holds:
            return None
        args, kwargs = unflatten(self.structure, [np.asarray(leaf)[()] for leaf in leaves])
        return CheckError(self.text.format(*args, **kwargs))

    def __repr__(self) -> str:
        return f"check {self.text!r}"


def _failure(code: Any) -> CheckError | None:
    return Error(code).get_exception()


def checkify(f: Callable[..., Any], errors: Collection[str] = ("user",)) -> Callable[..., tuple[Error, Any]]:
    """Make checks that fail values: a function that returns an `Error` in front of its result.

    Whatever transforms or compiles the function may be inside or outside, but for a derivative: take that inside.

    Arguments:
        f: a function that makes checks (`check`), or whose operations are to be checked.
        errors: the kinds of failures to note: "user", those of the function's own checks; "nan", an operation that computes
            something makes NaN; "division", a divisor is zero; "index", an index is out of bounds.

    Returns:
        A function of the same arguments that returns a pair: the `Error`, of the first check that failed, and what `f` returns,
        as if there were no checks.

    Raises:
        TypeError: `f` cannot be called. ValueError: there is no such kind of failures.

    Example:
        >>> def log(x):
        ...     pb.checks.check(x > 0, "log of {}", x)
        ...     return pnp.log(x)
        >>> error, out = pb.jit(pb.checks.checkify(log))(-2.0)
        >>> error.get(), out
        ('log of -2.0', nan:f32[]:cpu(0))
        >>> error, out = pb.checks.checkify(lambda x: pnp.sum(1.0 / x), errors=["nan", "division"])(pnp.array([2.0, 0.0]))
        >>> type(error.get_exception()).__name__, out
        ('DivisionError', inf:f32[]:cpu(0))
    """
    check_callable(f, "checkify")
    kinds = frozenset([errors] if isinstance(errors, str) else errors)
    if unknown := kinds - KINDS.keys():
        raise ValueError(f"checkify's errors are of the kinds {', '.join(map(repr, KINDS))}, not {min(map(repr, unknown))}.")

    @named_after(f)
    @api_boundary
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        depth = len(_stack())
        io_callback(lambda: _stack().append(_Run(kinds)), None, ordered=True)
        try:
            with checking(kinds, _note):
                out = f(*args, **kwargs)
            code = io_callback(lambda: np.int32(_stack().pop().code), ArrayType((), np.int32), ordered=True)
        except BaseException:
            del _stack()[depth:]
            raise
        return Error(code), out

    return checked


def check(pred: Any, message: str, *args: Any, debug: bool = False, **kwargs: Any) -> None:
    """Note a failure for the `checkify` around, unless a predicate holds; where there is none, raise it.

    Arguments:
        pred: a 0-d bool.
        message: what the failure says, a format string as `str.format` takes it.
        args, kwargs: arrays and numbers that are put into it.
        debug: whether the check is left out where no `checkify` is around.

    Raises:
        CheckError: it does not hold, and no `checkify` is around. DtypeError: `pred` is no 0-d bool. TypeError: what is to be
            put into the message is no array. ValueError: a function that is compiled makes it, and no `checkify` is around.

    Example:
        >>> error, _ = pb.checks.checkify(lambda x: pb.checks.check(x.sum() < 1, "sum is {s:.2f}", s=x.sum()))(pnp.ones(3))
        >>> error
        Error(sum is 3.00)
    """
    if (given := type_of(pred)).shape or given.dtype != bool:
        raise DtypeError(f"check takes a bool of no axes as pred, but got {brief(pred)}.")
    for leaf in flatten((args, kwargs))[0]:
        if not isinstance(leaf, (Array, Tracer, np.ndarray, np.generic, int, float, complex)):
            raise TypeError(f"check puts arrays into its message, but was given {brief(leaf)} of type {type(leaf).__name__}.")

    leaves, structure = flatten((args, kwargs))
    check_primitive(pred, *leaves, function=Told(_Message(message, structure), _note, debug))


def check_error(error: Error) -> None:
    """Raise what an `Error` says, or note it for the `checkify` around.

    Arguments:
        error: what a function that `checkify` made returned.

    Raises:
        CheckError: a check failed. TypeError: `error` is no `Error`.

    Example:
        >>> error, _ = pb.checks.checkify(lambda x: pb.checks.check(x > 0, "too small"))(-1.0)
        >>> pb.checks.check_error(error)
        Traceback (most recent call last):
            ...
        pullback.checks.CheckError: too small...
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes the Error that a checkified function returns, but got {type(error).__name__}.")

    check_primitive(error.code, function=Told(_failure, _note_any))


make_public(globals())
