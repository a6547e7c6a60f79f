"""ArrayType: what is known of an array before its values are: shape, dtype, and whether it came from a Python scalar."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np

from pullback.core.dtypes import SHORT_NAMES, DType, canonical

Shape = tuple[int, ...]


class ArrayType:
    """The type of an array: `shape`, `dtype`, and `weak` (made from Python scalars alone, so it widens nothing).

    Interned: equal types are one object, so types compare, hash and key caches by identity.

    Example:
        >>> import pullback as pb
        >>> pb.ArrayType((2, 3), "float32") is pb.ArrayType([2, 3], pb.float32)
        True
        >>> str(pb.ArrayType((2, 3), "float32"))
        'f32[2,3]'
    """

    __slots__ = ("__weakref__", "dtype", "ndim", "shape", "weak")
    shape: Shape
    dtype: DType
    weak: bool
    ndim: int

    def __new__(cls, shape: Iterable[int] = (), dtype: Any = "float32", weak: bool = False) -> ArrayType:
        return array_type(tuple(map(index, shape)), canonical(dtype), bool(weak))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ArrayType is immutable: {name} cannot be set; make another with ArrayType(shape, dtype).")

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayType, (self.shape, self.dtype, self.weak)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> ArrayType:
        """The same dtype in another shape."""
        return array_type(shape, self.dtype, self.weak)

    def with_dtype(self, dtype: DType, weak: bool = False) -> ArrayType:
        """The same shape of another dtype."""
        return array_type(self.shape, dtype, weak)

    def strong(self) -> ArrayType:
        """The same type, no longer weak."""
        return array_type(self.shape, self.dtype, False) if self.weak else self

    def without(self, axes: Iterable[int]) -> ArrayType:
        """The type after `axes` (non-negative) have been removed."""
        gone = set(axes)
        return self.with_shape(tuple(size for axis, size in enumerate(self.shape) if axis not in gone))

    def __str__(self) -> str:
        return f"{'~' if self.weak else ''}{SHORT_NAMES[self.dtype]}[{','.join(map(str, self.shape))}]"

    __repr__ = __str__


_interned: dict[tuple[Shape, DType, bool], ArrayType] = {}


def array_type(shape: Shape, dtype: DType, weak: bool = False) -> ArrayType:
    """`ArrayType` for callers that already hold a tuple of integers and a canonical dtype: one dictionary lookup."""
    try:
        return _interned[shape, dtype, weak]
    except KeyError:
        shape = tuple(map(index, shape))  # an IntEnum or a NumPy integer, which equals the plain int that is kept in its place
        made = object.__new__(ArrayType)
        for name, value in (("shape", shape), ("dtype", canonical(dtype)), ("weak", weak), ("ndim", len(shape))):
            object.__setattr__(made, name, value)
        return _interned.setdefault((shape, dtype, weak), made)


def host_type(value: np.ndarray[Any, Any] | np.generic, weak: bool = False) -> ArrayType:
    """The type of a NumPy array or scalar."""
    return array_type(value.shape, value.dtype, weak)


def is_unknown(operand: Any) -> bool:
    """In a `transpose` rule: whether an operand is one of those to be solved for, which arrive as their ArrayType."""
    return isinstance(operand, ArrayType)
