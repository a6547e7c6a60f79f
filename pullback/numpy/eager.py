"""Functions that NumPy computes by itself on plain Arrays, once it has been seen to give the same.

The type of a result depends on the types of the operands and on the static arguments alone. So the first call of a kind takes
the general path, which checks, promotes and applies primitives. If NumPy's function gives the same values of the same dtype,
later calls of that kind are a look-up, NumPy's function, and an `Array`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from pullback.core.array import Array
from pullback.core.bounded import Bounded
from pullback.core.dtypes import BOOL, DType, dtype_mode
from pullback.core.source import trim
from pullback.core.tracing import _quiet_numpy, innermost_staging
from pullback.core.types import ArrayType
from pullback.numpy.promotion import NATIVE_NUMBERS

F = TypeVar("F", bound=Callable[..., Any])
MAX_KINDS = 256  # of calls of one function
_STATIC = frozenset({int, bool, str, type(None)})
_NUMBERS = frozenset({float, complex})  # these decide no type


def by_numpy(
    numpy_function: Callable[..., Any], dtypes: frozenset[DType] = NATIVE_NUMBERS | {BOOL}, sized: bool = False
) -> Callable[[F], F]:
    """Let a public function, whose result is one array, take the short path where its arguments are Arrays in NumPy's memory,
    numbers, strings, None, and tuples and lists of these.

    Arguments:
        numpy_function: takes the same arguments, NumPy arrays for Arrays. For the same types it raises nothing that depends on
            values, and computes as the primitives do, whatever the values.
        dtypes: the dtypes of Arrays for which that holds.
        sized: whether the shape of the result depends on the values.
    """

    def on_host(values: Iterable[Any], kind: list[Any]) -> list[Any] | None:
        """The arguments as NumPy takes them, with what decides the type of the result noted in `kind`; None if it does not."""
        found: list[Any] = []
        for value in values:
            cls = value.__class__
            if cls is Array:
                type = value.type
                host = value._host
                if host is None or type.dtype not in dtypes:
                    return None
                kind.append(type)
                found.append(host)
            elif cls in _STATIC:
                kind += (cls, value)
                found.append(value)
            elif cls in _NUMBERS:
                kind.append(cls)
                found.append(value)
            elif cls is tuple or cls is list:
                kind += (cls, len(value))
                inner = on_host(value, kind)
                if inner is None:
                    return None
                found.append(inner if cls is list else tuple(inner))
            else:
                return None
        return found

    def decorate(function: F) -> F:
        types: Bounded[Any, ArrayType | None] = Bounded(MAX_KINDS)
        shaped: Any = {} if sized else types  # of results whose shape is known

        def learn(kind: Any, given: list[Any], named: dict[str, Any], out: Any) -> None:
            """Note the type of a result of the general path, or None where NumPy's function gives another one."""
            try:
                other = np.asarray(_quiet_numpy.run(numpy_function, *given, **named))
            except Exception:  # NumPy does not take what the function has just taken: it may not stand for it
                types[kind] = None
                return
            same = out.__class__ is Array and out._host is not None and other.dtype is out.type.dtype
            same = same and np.array_equal(other, out._host, equal_nan=other.dtype.kind in "fc")
            types[kind] = out.type if same else None

        @functools.wraps(function)
        def boundary(*args: Any, **kwargs: Any) -> Any:
            try:
                if innermost_staging() is not None:
                    return function(*args, **kwargs)
                if len(args) == 1 and args[0].__class__ is Array and not kwargs:  # the rest, for the commonest case
                    type, host = shaped.get((dtype_mode(), args[0].type)), args[0]._host
                    if type is not None and host is not None:
                        out = _quiet_numpy.run(numpy_function, host)
                        if out.dtype is type.dtype and out.shape == type.shape:
                            return Array(type, out)
                if len(args) == 2 and args[0].__class__ is args[1].__class__ is Array and not kwargs:
                    type = shaped.get((dtype_mode(), args[0].type, args[1].type))
                    host, second = args[0]._host, args[1]._host
                    if type is not None and host is not None and second is not None:
                        out = _quiet_numpy.run(numpy_function, host, second)
                        if out.dtype is type.dtype and out.shape == type.shape:
                            return Array(type, out)
                noted: list[Any] = [dtype_mode(), *kwargs] if kwargs else [dtype_mode()]
                given = on_host((*args, *kwargs.values()) if kwargs else args, noted)
                if given is None:
                    return function(*args, **kwargs)
                kind = tuple(noted)
                named = dict(zip(kwargs, given[len(args) :])) if kwargs else kwargs
                del given[len(args) :]
                type = types.get(kind)
                if type is not None:
                    out = _quiet_numpy.run(numpy_function, *given, **named)
                    if out.dtype is type.dtype and (sized or out.shape == type.shape):
                        return Array(type.with_shape(out.shape) if sized else type, out)
                    return function(*args, **kwargs)
                result = function(*args, **kwargs)
                if kind not in types:
                    learn(kind, given, named, result)
                return result
            except BaseException as error:
                trim(error)
                raise

        boundary.is_boundary = True  # type: ignore[attr-defined]
        return boundary  # type: ignore[return-value]

    return decorate
