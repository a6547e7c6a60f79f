"""Checks of values while they are computed, in compiled code too, whose failures are values.

A check is a callback that notes the first failure of the `checkify` that runs: so it works in loops, branches, batches and
derivatives as callbacks do. An `Error` holds the number of the failure that was noted.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import debug
from pullback.api.callbacks import io_callback
from pullback.api.functions import check_callable
from pullback.core.array import Array
from pullback.core.bounded import Bounded
from pullback.core.errors import DtypeError
from pullback.core.modes import current_mode, overriding
from pullback.core.source import make_public, named_after
from pullback.core.tracing import Tracer, innermost_staging, type_of
from pullback.core.trees import flatten, register_node, unflatten
from pullback.core.types import ArrayType

__all__ = ["CheckError", "Error", "check", "check_error", "checkify"]

MAX_FAILURES = 4096  # that are remembered, so that an Error can say what it is


class CheckError(ValueError):
    """A check failed.

    Example:
        >>> pb.checks.check(pnp.array(1.0) > 2.0, "too small")
        Traceback (most recent call last):
            ...
        pullback.checks.CheckError: too small
    """


_failures: Bounded[int, CheckError] = Bounded(MAX_FAILURES)
_codes = itertools.count(1)  # whose next is taken by one thread alone
_running = threading.local()


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
        return _failures.get(codes[0], CheckError("a check failed, long ago")) if codes else None

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


def _stack() -> list[int]:
    """The failures of the checkifys that run in this thread, the innermost last."""
    if not hasattr(_running, "stack"):
        _running.stack = []
    return _running.stack  # type: ignore[no-any-return]


def _note(error: CheckError) -> None:
    stack = _stack()
    if not stack:
        raise error
    if not stack[-1]:
        stack[-1] = code = next(_codes)
        _failures[code] = error


def _look(look: Callable[..., None], *values: Any) -> None:
    """Call a function with values when they are known."""
    staged = innermost_staging() is not None
    if staged and not current_mode().notes_checks:
        raise ValueError(
            "A function that is compiled, or the body of a loop, makes a check, and no checkify is around it to say whether it"
            " holds: call checkify(f) in place of f, or make it with debug=True, which leaves it out."
        )
    if staged or any([isinstance(leaf, Tracer) for leaf in flatten(values)[0]]):
        debug.callback(look, *values)
    else:
        look(*values)


def checkify(f: Callable[..., Any]) -> Callable[..., tuple[Error, Any]]:
    """Make checks that fail values: a function that returns an `Error` in front of its result.

    Whatever transforms or compiles the function may be inside or outside, but for a derivative: take that inside.

    Arguments:
        f: a function that makes checks (`check`).

    Returns:
        A function of the same arguments that returns a pair: the `Error`, of the first check that failed, and what `f` returns,
        as if there were no checks.

    Raises:
        TypeError: `f` cannot be called.

    Example:
        >>> def log(x):
        ...     pb.checks.check(x > 0, "log of {}", x)
        ...     return pnp.log(x)
        >>> error, out = pb.jit(pb.checks.checkify(log))(-2.0)
        >>> error.get(), out
        ('log of -2.0', nan:f32[]:cpu(0))
    """
    check_callable(f, "checkify")

    @named_after(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        depth = len(_stack())
        io_callback(lambda: _stack().append(0), None, ordered=True)
        try:
            with overriding(notes_checks=True):  # what is traced for checks to be noted is traced anew where they are not
                out = f(*args, **kwargs)
            code = io_callback(lambda: np.int32(_stack().pop()), ArrayType((), np.int32), ordered=True)
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
        raise DtypeError(f"check takes a bool of no axes as pred, but got {pred!r}.")
    for leaf in flatten((args, kwargs))[0]:
        if not isinstance(leaf, (Array, Tracer, np.ndarray, np.generic, int, float, complex)):
            raise TypeError(f"check puts arrays into its message, but was given {leaf!r} of type {type(leaf).__name__}.")

    def look(holds: Any, args: Any, kwargs: Any) -> None:
        if not holds:
            leaves, structure = flatten((args, kwargs))
            args, kwargs = unflatten(structure, [np.asarray(leaf)[()] for leaf in leaves])
            _note(CheckError(message.format(*args, **kwargs)))

    if not debug or current_mode().notes_checks:
        _look(look, pred, args, kwargs)


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
        pullback.checks.CheckError: too small
    """
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes the Error that a checkified function returns, but got {type(error).__name__}.")

    def look(code: Any) -> None:
        found = Error(code).get_exception()
        if found is not None:
            _note(found)

    _look(look, error.code)


make_public(globals())
