"""ArrayType: what is known of an array before its values are: shape, dtype, and whether it came from a Python scalar."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from operator import index
from typing import Any, SupportsIndex

import numpy as np

from pullback.core.bounded import Bounded
from pullback.core.brief import brief
from pullback.core.dtypes import SHORT_NAMES, DType, canonical, float0
from pullback.core.errors import ShapeError
from pullback.core.interned import Interned
from pullback.core.source import api_boundary

Shape = tuple[int, ...]
ShapeLike = SupportsIndex | Iterable[SupportsIndex]  # what a shape is made of: a size, or several


class ArrayType:
    """The type of an array: `shape`, `dtype`, and `weak` (made from Python scalars alone, so it widens nothing).

    Interned: equal types are one object, so types compare, hash and key caches by identity.

    Attributes:
        sharding: how the array is spread over devices, hashable and printed after an `@`; None where nothing is said.
        varying: the names of the mesh axes along which devices may hold different values.
        form: what it has in common with the types whose axes have as many elements or, if there are several, several, too.

    `weak_type` is JAX's name for `weak`.

    Example:
        >>> import pullback as pb
        >>> pb.ArrayType((2, 3), "float32") is pb.ArrayType([2, 3], pb.numpy.float32)
        True
        >>> str(pb.ArrayType((2, 3), "float32"))
        'f32[2,3]'
        >>> pb.ArrayType((2, 3), "float32", sharding="(data,·)", varying=["model"])
        f32[2,3]@(data,·){model}
    """

    __slots__ = ("__weakref__", "dtype", "form", "ndim", "shape", "sharding", "varying", "weak")
    shape: Shape
    dtype: DType
    weak: bool
    ndim: int
    form: str
    sharding: Hashable | None
    varying: frozenset[Hashable]

    @api_boundary
    def __new__(
        cls,
        shape: Iterable[int] = (),
        dtype: Any = "float32",
        weak: bool = False,
        sharding: Hashable | None = None,
        varying: Iterable[Hashable] = (),
        *,
        weak_type: bool = False,
    ) -> ArrayType:
        try:
            sizes = tuple(map(index, shape))
        except TypeError:
            raise TypeError(
                f"ArrayType takes a shape, a tuple of ints, and then a dtype, but got {brief(shape)} first."
            ) from None
        if sizes and min(sizes) < 0:
            raise ShapeError(f"ArrayType takes sizes of at least 0, but got the shape {sizes}.")
        return array_type(sizes, canonical(dtype), bool(weak or weak_type)).placed(sharding, frozenset(varying))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ArrayType is immutable: {name} cannot be set; make another with ArrayType(shape, dtype).")

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayType, (self.shape, self.dtype, self.weak, self.sharding, self.varying)

    @property
    def weak_type(self) -> bool:
        """As `weak`, by JAX's name: whether it is made from Python numbers alone, so that it widens nothing.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((3,), "float32", weak=True).weak_type
            True
        """
        return self.weak

    @property
    def size(self) -> int:
        """The number of elements.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((2, 3), "float32").size
            6
        """
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that the elements take.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((2, 3), "float32").nbytes
            24
        """
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Shape) -> ArrayType:
        """The same dtype in another shape, of which no sharding is known.

        Arguments:
            shape: a tuple of ints.

        Returns:
            An ArrayType.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((2, 3), "float32").with_shape((6,))
            f32[6]
        """
        found = array_type(shape, self.dtype, self.weak)
        return found.placed(None, self.varying) if self.varying else found

    def with_dtype(self, dtype: DType, weak: bool = False) -> ArrayType:
        """The same shape of another dtype.

        Arguments:
            dtype: a NumPy dtype.
            weak: whether the type is weak.

        Returns:
            An ArrayType.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((2, 3), "float32").with_dtype(pb.numpy.dtype("int8"))
            i8[2,3]
        """
        found = array_type(self.shape, dtype, weak)
        return found if self.sharding is None and not self.varying else found.placed(self.sharding, self.varying)

    def strong(self) -> ArrayType:
        """The same type, no longer weak.

        Returns:
            An ArrayType.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((3,), "float32", weak=True), pb.ArrayType((3,), "float32", weak=True).strong()
            (~f32[3], f32[3])
        """
        return self.with_dtype(self.dtype) if self.weak else self

    def placed(self, sharding: Hashable | None, varying: frozenset[Hashable]) -> ArrayType:
        """The same shape, dtype and weakness, spread over devices in another way.

        Arguments:
            sharding: how it is spread, hashable; None where nothing is said.
            varying: the names of the mesh axes along which devices may hold different values.

        Returns:
            An ArrayType.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((2, 3), "float32").placed("(data,·)", frozenset())
            f32[2,3]@(data,·)
        """
        if sharding is None and not varying:
            return array_type(self.shape, self.dtype, self.weak)
        return _the_one(self.shape, self.dtype, self.weak, sharding, varying)

    def without(self, axes: Iterable[int]) -> ArrayType:
        """The type after `axes` (non-negative) have been removed.

        Arguments:
            axes: ints.

        Returns:
            An ArrayType.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((2, 3, 4), "float32").without([0, 2])
            f32[3]
        """
        gone = set(axes)
        return self.with_shape(tuple(size for axis, size in enumerate(self.shape) if axis not in gone))

    def __str__(self) -> str:
        name = SHORT_NAMES.get(self.dtype, "float0")
        return f"{'~' if self.weak else ''}{name}[{','.join(map(str, self.shape))}]{self.place}"

    __repr__ = __str__

    @property
    def place(self) -> str:
        """How the array is spread over devices, as text behind its type; empty where nothing is said.

        Example:
            >>> import pullback as pb
            >>> pb.ArrayType((2, 3), "float32", sharding="(data,·)").place, pb.ArrayType((2, 3), "float32").place
            ('@(data,·)', '')
        """
        if self.sharding is None and not self.varying:
            return ""
        names = f"{{{','.join(sorted(map(str, self.varying)))}}}" if self.varying else ""
        if self.sharding is None:
            return names
        return f"@{self.sharding.text(self.ndim) if hasattr(self.sharding, 'text') else self.sharding}{names}"


# Every type that something holds is here, and no other: this is what makes types comparable by identity.
_alive: Interned[tuple[Any, ...], ArrayType] = Interned()
# Those met last, held so that they need not be made again; a plain dictionary's look-up is five times as fast as a weak one's.
_recent: Bounded[tuple[Shape, DType, bool], ArrayType] = Bounded(16384)
NOWHERE: frozenset[Hashable] = frozenset()


def _the_one(shape: Shape, dtype: DType, weak: bool, sharding: Hashable | None, varying: frozenset[Hashable]) -> ArrayType:
    """The ArrayType of these fields: the one that is alive, or a new one."""

    def make() -> ArrayType:
        fields = {"shape": shape, "dtype": dtype, "weak": weak, "ndim": len(shape), "sharding": sharding, "varying": varying}
        fields["form"] = f"{'~' if weak else ''}{SHORT_NAMES.get(dtype)}{[min(size, 2) for size in shape]}"
        made = object.__new__(ArrayType)
        for name, value in fields.items():
            object.__setattr__(made, name, value)
        return made

    return _alive.the_one((shape, dtype, weak, sharding, varying), make)


def array_type(shape: Shape, dtype: DType, weak: bool = False) -> ArrayType:
    """`ArrayType` for callers that already hold a tuple of integers and a canonical dtype: one dictionary lookup."""
    try:
        return _recent[shape, dtype, weak]
    except KeyError:
        shape = tuple(map(index, shape))  # an IntEnum or a NumPy integer, which equals the plain int that is kept in its place
        dtype = canonical(dtype)
        return _recent.setdefault((shape, dtype, weak), _the_one(shape, dtype, weak, None, NOWHERE))


def trivial_type(shape: Shape) -> ArrayType:
    """The type of what has the dtype float0: NumPy arrays that hold nothing, never an Array."""
    return _the_one(shape, float0, False, None, NOWHERE)


def host_type(value: np.ndarray[Any, Any] | np.generic, weak: bool = False) -> ArrayType:
    """The type of a NumPy array or scalar."""
    return array_type(value.shape, value.dtype, weak)


ShapeDtypeStruct = ArrayType  # JAX's name


def is_unknown(operand: Any) -> bool:
    """In a `transpose` rule: whether an operand is one of those to be solved for, which arrive as their ArrayType.

    Arguments:
        operand: an operand as a `transpose` rule gets it.

    Returns:
        A bool.

    Example:
        >>> import pullback as pb
        >>> pb.is_unknown(pb.ArrayType((3,), "float32")), pb.is_unknown(pb.numpy.zeros(3))
        (True, False)
    """
    return isinstance(operand, ArrayType)
