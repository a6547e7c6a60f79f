"""jax.experimental.checkify: checks of values inside compiled code, whose failures are values.

A check is a callback that notes the first failure of the `checkify` that runs; so it works in loops, branches, batches and
derivatives as callbacks do. An `Error` holds the number of the failure that was noted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

import pullback as pb
from pullback.compat.jax.control_flow import io_callback
from pullback.compat.jax.structs import ShapeDtypeStruct
from pullback.compat.jax.tree_util import register_pytree_node_class, tree_leaves, tree_map
from pullback.compat.jax.trees import Packed
from pullback.core.array import as_array
from pullback.core.bounded import Bounded
from pullback.core.source import named_after
from pullback.core.tracing import Tracer, innermost_staging

MAX_FAILURES = 4096  # that are remembered, so that an Error can say what it is


class JaxException(Exception):
    """What an Error says."""


class FailedCheckError(JaxException):
    """A check of the program's own."""


class DivisionByZeroError(JaxException):
    """A category of checks."""


class NaNError(JaxException):
    """A category of checks."""


class OOBError(JaxException):
    """A category of checks."""


class JaxRuntimeError(ValueError):
    """An error that was noted, raised."""


ErrorCategory = type[JaxException]
Out = TypeVar("Out")
user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
index_checks = frozenset({OOBError})
div_checks = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks

_failures: Bounded[int, JaxException] = Bounded(MAX_FAILURES)
_running = threading.local()
_noted: ContextVar[bool] = ContextVar("_noted", default=False)  # whether a checkify is around what is traced


@register_pytree_node_class
class Error:
    """Whether a check failed, and which one: a container of one number, 0 where none did."""

    def __init__(self, code: Any) -> None:
        self._code = code

    def get_exception(self) -> JaxException | None:
        codes = [int(code) for code in np.ravel(np.asarray(self._code)) if code]
        return _failures.get(codes[0], JaxException("a check failed, long ago")) if codes else None

    def get(self) -> str | None:
        error = self.get_exception()
        return None if error is None else str(error)

    def throw(self) -> None:
        check_error(self)

    def tree_flatten(self) -> Any:
        return (self._code,), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: Any) -> Error:
        return cls(*leaves)

    def __repr__(self) -> str:
        return f"Error({self.get()})"


init_error = Error(np.int32(0))


def _stack() -> list[int]:
    """The failures of the checkifys that run in this thread, the innermost last."""
    if not hasattr(_running, "stack"):
        _running.stack = []
    return _running.stack


def _note(error: JaxException) -> None:
    stack = _stack()
    if not stack:
        raise JaxRuntimeError(str(error))
    if not stack[-1]:
        stack[-1] = code = max(_failures, default=0) + 1
        _failures[code] = error


def _look(look: Callable[..., None], *values: Any) -> None:
    """Call a function with values when they are known."""
    if innermost_staging() is None and not any([isinstance(leaf, Tracer) for leaf in tree_leaves(values)]):
        look(*values)
    elif innermost_staging() is not None and not _noted.get():
        raise ValueError(
            "A function that is compiled, or the body of a loop, makes a check, and no checkify.checkify is around it to say"
            " whether it holds: write checkify.checkify(f), or use checkify.debug_check."
        )
    else:
        pb.debug.callback(lambda given: look(*tree_map(as_array, given.tree)), Packed(values))


def checkify(f: Callable[..., Any], errors: Collection[ErrorCategory] = user_checks) -> Callable[..., tuple[Error, Any]]:
    """A function that returns an Error in front of its result. Checks that the program makes are the only ones."""
    if not callable(f):
        raise TypeError(f"checkify takes a function to check, but got {f!r} of type {type(f).__name__}.")
    if frozenset(errors) - user_checks:
        raise NotImplementedError(
            "pullback's checkify provides user_checks alone: NaN, division and index checks are not; use jax.debug_nans."
        )

    @named_after(f)
    def checked(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        depth = len(_stack())
        io_callback(lambda: _stack().append(0), None, ordered=True)
        token = _noted.set(True)
        try:
            out = f(*args, **kwargs)
            code = io_callback(lambda: np.int32(_stack().pop()), ShapeDtypeStruct((), np.int32), ordered=True)
        except BaseException:
            del _stack()[depth:]
            raise
        finally:
            _noted.reset(token)
        return Error(code) if errors else init_error, out

    return checked


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """Note a failure, or raise it where no `checkify` is around (unless it is for debugging), unless `pred` holds."""
    if pb.numpy.shape(pred) != () or pb.numpy.asarray(pred).dtype != bool:
        raise TypeError(f"check takes a bool of no axes as pred, but got {pred}.")
    for leaf in tree_leaves((fmt_args, fmt_kwargs)):
        if not isinstance(leaf, (pb.Array, np.ndarray)):
            raise TypeError(f"check puts arrays into its message, but was given {leaf!r} of type {type(leaf).__name__}.")

    def look(holds: Any, args: Any, kwargs: Any) -> None:
        if not holds:
            _note(FailedCheckError(msg.format(*args, **kwargs) + " (`check` failed)"))

    if not debug or _noted.get():
        _look(look, pred, fmt_args, fmt_kwargs)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A check that is left out where no `checkify` is around."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Raise what an Error says, or note it for the `checkify` around."""
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes the Error that a checkified function returns, but got {type(error).__name__}.")

    def look(code: Any) -> None:
        found = Error(code).get_exception()
        if found is not None:
            _note(found)

    _look(look, error._code)
