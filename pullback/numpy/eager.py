"""Functions that NumPy computes by itself on plain Arrays, once it has been seen to give the same.

The dtype of a result depends on the types of the operands and on the static arguments alone. So the first call of a kind takes
the general path, which checks, promotes and applies primitives. If NumPy's function gives the same values of the same dtype,
later calls of that kind are a look-up, NumPy's function, and an `Array`. Calls are of one kind where the static arguments are
the same, and the types but for the sizes of axes that have more than one element (`ArrayType.form`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from pullback.core.array import Array
from pullback.core.bounded import Bounded
from pullback.core.dtypes import BOOL, DType
from pullback.core.modes import current_mode
from pullback.core.source import trim
from pullback.core.tracing import HOST, _quiet_numpy, innermost_staging
from pullback.core.types import ArrayType, array_type
from pullback.numpy.promotion import NATIVE_NUMBERS

F = TypeVar("F", bound=Callable[..., Any])
MAX_KINDS = 256  # of calls of one function
_STATIC = frozenset({int, bool, str, type(None)})
_NUMBERS = frozenset({float, complex})  # these decide no type


def by_numpy(numpy_function: Callable[..., Any], dtypes: frozenset[DType] = NATIVE_NUMBERS | {BOOL}) -> Callable[[F], F]:
    """Let a public function, whose result is one array, take the short path where its arguments are Arrays in NumPy's memory,
    numbers, strings, None, and tuples and lists of these.

    Arguments:
        numpy_function: takes the same arguments, NumPy arrays for Arrays. For one kind it computes as the primitives do,
            whatever the sizes and the values, or raises: ValueError where that is for the sizes.
        dtypes: the dtypes of Arrays for which that holds.
    """

    def on_host(values: Iterable[Any], kind: list[Any]) -> list[Any] | None:
        """The arguments as NumPy takes them, with what decides the type of the result noted in `kind`; None if it does not."""
        found: list[Any] = []
        for value in values:
            cls = value.__class__
            if cls is Array:
                host = value._host
                if host is None:
                    return None
                kind.append(value.type.form)
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

    def suits(value: Any) -> bool:
        """Whether all arrays among an argument are of these dtypes."""
        if value.__class__ in (list, tuple):
            return all(map(suits, value))
        return not isinstance(value, HOST) or value.dtype in dtypes

    def decorate(function: F) -> F:
        types: Bounded[Any, ArrayType | None] = Bounded(MAX_KINDS)

        def learn(kind: Any, given: tuple[Any, ...], named: dict[str, Any], out: Any) -> None:
            """Note the type of a result of the general path, or None where NumPy's function gives another one."""
            found = None
            if out.__class__ is Array and out._host is not None and suits([*given, *named.values()]):
                try:
                    other = np.asarray(_quiet_numpy.run(numpy_function, *given, **named))
                    equal = np.array_equal(other, out._host, equal_nan=other.dtype.kind in "fc")
                    found = out.type if other.dtype is out.type.dtype and equal else None
                except ValueError:  # of these sizes NumPy does not do it: no more is known
                    return
                except Exception:  # NumPy does not take what the function has just taken: it may not stand for it
                    pass
            types[kind] = found

        @functools.wraps(function)
        def boundary(*args: Any, **kwargs: Any) -> Any:
            try:
                if innermost_staging() is not None:
                    return function(*args, **kwargs)
                kind: tuple[Any, ...]
                call: tuple[Any, ...]  # NumPy's function, and what it takes by position
                if not kwargs and len(args) == 1 and (x := args[0]).__class__ is Array and x._host is not None:
                    call, kind, named = (numpy_function, x._host), (current_mode(), x.type.form), kwargs
                elif (  # these two are the commonest cases, which the third one serves as well
                    not kwargs
                    and len(args) == 2
                    and (x := args[0]).__class__ is (y := args[1]).__class__ is Array
                    and x._host is not None
                    and y._host is not None
                ):
                    call, kind = (numpy_function, x._host, y._host), (current_mode(), x.type.form, y.type.form)
                    named = kwargs
                else:
                    noted: list[Any] = [current_mode(), *kwargs]
                    given = on_host((*args, *kwargs.values()) if kwargs else args, noted)
                    if given is None:
                        return function(*args, **kwargs)
                    kind = tuple(noted)
                    named = dict(zip(kwargs, given[len(args) :])) if kwargs else kwargs
                    call = (numpy_function, *given[: len(args)])
                type = types.get(kind)
                if type is not None:
                    try:
                        out = _quiet_numpy.run(*call, **named) if kwargs else _quiet_numpy.run(*call)
                        if out.dtype is type.dtype:
                            shape = out.shape
                            return Array(type if shape == type.shape else array_type(shape, type.dtype, type.weak), out)
                    except Exception:  # not of these shapes: the general path says what is wrong
                        pass
                result = function(*args, **kwargs)
                if kind not in types and current_mode().checks is None:  # what checks would have told of is told each time
                    learn(kind, call[1:], named, result)
                return result
            except BaseException as error:
                trim(error)
                raise

        boundary.is_boundary = id(boundary)  # type: ignore[attr-defined]
        return boundary  # type: ignore[return-value]

    return decorate
