"""jax.experimental.checkify: pullback.checks, where JAX's categories of errors are kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import numpy as np

from pullback import checks
from pullback.checks import CheckError, Error
from pullback.control.checking import KINDS

JaxException = CheckError
JaxRuntimeError = CheckError
FailedCheckError = CheckError


DivisionByZeroError = checks.DivisionError
NaNError = checks.NaNError
OOBError = checks.OutOfBoundsError
ErrorCategory = type[JaxException]
Out = TypeVar("Out")
user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
index_checks = frozenset({OOBError})
div_checks = frozenset({DivisionByZeroError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks

init_error = Error(np.int32(0))
check_error = checks.check_error


def checkify(f: Callable[..., Any], errors: Collection[ErrorCategory] = user_checks) -> Callable[..., tuple[Error, Any]]:
    return checks.checkify(f, [kind for kind, category in KINDS.items() if category in errors])


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    checks.check(pred, msg + " (`check` failed)", *fmt_args, debug=debug, **fmt_kwargs)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A check that is left out where no `checkify` is around."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)
