"""The class of everything that stands for an array, for users to ask for: Arrays and traced values alike.

Inside the package `Array` is the concrete class, whose instances hold values; this one has no instances of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.core.absent import ABSENT_METHODS
from pullback.core.array import Array as Concrete
from pullback.core.tracing import Tracer

if TYPE_CHECKING:
    Array = Concrete
else:

    class _AnyArray(type):
        """Makes `isinstance` and `issubclass` true for Arrays and traced values, and shows the methods of Arrays."""

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, (Concrete, Tracer))

        def __subclasscheck__(cls, subclass: type) -> bool:
            return subclass is cls or issubclass(subclass, (Concrete, Tracer))

        def __getattr__(cls, name: str) -> Any:
            return getattr(Concrete, name)

        def __dir__(cls) -> list[str]:
            return [name for name in dir(Concrete) if name not in ABSENT_METHODS]

    class Array(metaclass=_AnyArray):
        __doc__ = Concrete.__doc__
        __module__ = "pullback"

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            raise TypeError("Arrays are made by pullback.numpy.array, asarray, zeros, ..., not by calling the class.")
