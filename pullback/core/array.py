"""Array: an immutable array whose values lie in NumPy memory, in a device buffer, or in both.

Each side is made from the other when it is asked for and kept, without a copy where memory allows: nothing mutates, so
both stay equal. The operators and methods are installed by `pullback.numpy.methods`, so that this file needs no operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pullback.core.devices import DEFAULT_DEVICE, Device
from pullback.core.dtypes import DType, canonical, default_dtype
from pullback.core.errors import DonatedBufferError, DtypeError, LeafError
from pullback.core.types import ArrayType, Shape, array_type

HostArray = np.ndarray[Any, Any]


class Array:
    """An immutable n-dimensional array with a dtype and a device.

    Made by `pb.array`, `pb.asarray`, by every operation and by every compiled function; not by calling the class.

    Attributes:
        shape: sizes of the axes, a tuple of ints.
        dtype: the NumPy dtype of the elements.
        device: where the values are.
        type: the `ArrayType`, which also says whether the array is weakly typed.

    Example:
        >>> import pullback as pb
        >>> pb.array([1.0, 2.0, 3.0])
        [1. 2. 3.]:f32[3]:cpu(0)
    """

    __slots__ = ("__weakref__", "_buffer", "_host", "type")
    __array_priority__ = 100.0
    type: ArrayType
    _host: HostArray | np.generic | None
    _buffer: Any

    def __init__(self, type: ArrayType, host: HostArray | np.generic | None, buffer: Any = None) -> None:
        self.type = type
        self._host = host
        self._buffer = buffer

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return self.type.ndim

    @property
    def size(self) -> int:
        return self.type.size

    @property
    def device(self) -> Device:
        """Where the values are; an array that so far lives in NumPy memory is on the default CPU device."""
        return DEFAULT_DEVICE if self._buffer is None else buffer_access.device_of(self._buffer)

    @property
    def host(self) -> HostArray | np.generic:
        """The values as NumPy sees them, fetched from the device if need be. Ours to read, never to write."""
        if self._host is None:
            if self._buffer is None:
                raise DonatedBufferError(
                    f"This array ({self.type}) was donated to a compiled function (jit's donate_argnums or donate_argnames),"
                    " which has reused its memory. Keep using the function's result instead, or do not donate the argument."
                )
            self._host = buffer_access.to_host(self._buffer, self.type)
        return self._host

    def view(self) -> HostArray:
        """The values as a read-only NumPy array, without a copy."""
        seen = np.asarray(self.host).view()
        seen.flags.writeable = False
        return seen

    def delete(self) -> None:
        """Give up the memory of this array; any later use raises `DonatedBufferError`."""
        self._host = None
        self._buffer = None


class PlacedArray(Array):
    """An Array that was put on a device, or computed there from such Arrays: operations on it happen on that device.

    There are none where there is only one device.
    """

    __slots__ = ()


class BufferAccess(Protocol):
    """What the engine knows of device buffers; it fills in `buffer_access` when it is loaded."""

    def to_host(self, buffer: Any, type: ArrayType) -> HostArray: ...
    def device_of(self, buffer: Any) -> Device: ...


buffer_access: BufferAccess = None  # type: ignore[assignment]  # filled in before any buffer is made


def text(value: HostArray, type: ArrayType, device: Device) -> str:
    """An array printed with its type and place, `[1. 2. 3.]:f32[3]:cpu(0)`."""
    shown = value.astype(np.float32) if value.dtype.kind == "V" else value
    return f"{np.array_str(np.asarray(shown))}:{type.strong()}:{device}"


# ---- making arrays from what users pass -------------------------------------------------------------------------------


def from_python(value: bool | int | float | complex, dtype: DType | None = None) -> Array:
    """A weak 0-d array from a Python scalar, in the default dtype of its kind unless `dtype` says otherwise."""
    kind = _SCALAR_KINDS.get(type(value)) or next(kind for base, kind in _SCALAR_KINDS.items() if isinstance(value, base))
    wanted = dtype or default_dtype(kind)
    try:
        return Array(array_type((), wanted, True), np.asarray(value, wanted))
    except OverflowError:
        raise OverflowError(
            f"The Python integer {value} does not fit into {wanted.name}. Give the array a wider dtype, or make 64-bit"
            " integers the default with pb.default_bits(64)."
        ) from None


_SCALAR_KINDS: dict[type, str] = {bool: "b", int: "i", float: "f", complex: "c"}


# From this size on, copying an array to the device costs more than the care to make it lie where it need not be copied.
ALIGNED_BYTES = 1 << 20
ALIGNMENT = 64  # bytes: host memory that starts at a multiple of it is shared with the CPU device


def aligned_empty(shape: Shape, dtype: DType) -> HostArray:
    """As `np.empty`, in memory that the CPU device can share."""
    count = math.prod(shape) * dtype.itemsize
    memory = np.empty(count + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + count].view(dtype).reshape(shape)


def from_numpy(value: HostArray | np.generic, copy: bool = True) -> Array:
    """An Array of a NumPy array's values and dtype; copied, since whoever made it can still write to it."""
    dtype = value.dtype
    if not dtype.isnative:
        value, copy = np.asarray(value).astype(canonical(dtype)), False
    if copy and value.__class__ is not np.generic:
        if value.nbytes >= ALIGNED_BYTES:
            source, value = value, aligned_empty(value.shape, dtype)
            value[...] = source
        else:
            value = np.array(value, copy=True, order="C")
    try:
        return Array(array_type(value.shape, value.dtype), value)
    except DtypeError:
        raise LeafError(
            f"a NumPy array of dtype {dtype} (shape {value.shape}) is not numeric, so no array can be made of it."
        ) from None


converters: dict[type, Callable[[Any], Array]] = {
    bool: from_python,
    int: from_python,
    float: from_python,
    complex: from_python,
    np.ndarray: from_numpy,
}


def find_converter(kind: type) -> Callable[[Any], Array] | None:
    """How a value of a Python type becomes an Array; None for what is neither a number nor an array."""
    for base in kind.__mro__:
        if base in converters:
            return converters[base]
        if base is np.generic:
            return from_numpy
    return None


def as_array(value: Any) -> Array:
    """`value` itself if it is an Array, else an Array of it. Raises `LeafError` for what is neither number nor array."""
    if isinstance(value, Array):
        return value
    converter = find_converter(type(value))
    if converter is None:
        raise LeafError(
            f"Expected an array or a number, but got {value!r} of type {type(value).__name__}."
            " Convert it with pb.asarray, or, in jit, mark its argument as static (static_argnums, static_argnames)."
        )
    return converter(value)
