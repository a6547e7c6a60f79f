"""Array: an immutable array whose values lie in NumPy memory, in a device buffer, or in both.

Each side is made from the other when it is asked for and kept, without a copy where memory allows: nothing mutates, so
both stay equal. Foreign memory is copied where it enters (`as_array`), and what leaves is frozen: a NumPy array that
cannot be made writeable, neither itself nor through its base.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self
from weakref import WeakValueDictionary

import numpy as np

from pullback.core.brief import brief
from pullback.core.devices import DEFAULT_DEVICE, Device
from pullback.core.dtypes import (
    NO_NUMBERS,
    PYTHON_KINDS,
    SHORT_NAMES,
    DType,
    DTypeLike,
    carrier,
    default_dtype,
    entering,
    integer_limits,
    kind,
)
from pullback.core.errors import DonatedBufferError, DtypeError, LeafError
from pullback.core.methods import ArrayMethods
from pullback.core.shardings import NamedSharding, Shard, Sharding, SingleDeviceSharding, replica_numbers
from pullback.core.source import api_boundary, at_user_line
from pullback.core.types import ArrayType, Shape, array_type

HostArray = np.ndarray[Any, Any]


class SupportsArray(Protocol):
    """Another library's array, of which NumPy can make one of its own."""

    def __array__(self, *args: Any, **options: Any) -> Any: ...


class Array(ArrayMethods):
    """An immutable n-dimensional array with a dtype and a device.

    Made by `pb.numpy.array`, `pb.numpy.asarray`, by every operation and by every compiled function; not by calling the class.

    Attributes:
        shape: the size of each dimension, a tuple of ints.
        dtype: the NumPy dtype of the elements.
        device: where the values are.
        type: the `ArrayType`, which also says whether the array is weakly typed.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.array([1.0, 2.0, 3.0])
        [1. 2. 3.]:f32[3]:cpu(0)
    """

    # `_later` is set only where there is one: the buffer of the asynchronous client, which may still be being computed, and
    # that of a ShardedArray
    __slots__ = ("__weakref__", "_buffer", "_host", "_later", "type")
    __array_priority__ = 100.0
    type: ArrayType
    _host: HostArray | np.generic | None
    _buffer: Any
    _later: Any

    def __init__(self, type: ArrayType, host: HostArray | np.generic | None, buffer: Any = None) -> None:
        self.type = type
        self._host = host
        self._buffer = buffer

    @property
    def device(self) -> Device:
        """Where the values are; an array that so far lives in NumPy memory is on the default CPU device.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).device
            cpu(0)
        """
        return DEFAULT_DEVICE if self._buffer is None else buffer_access.device_of(self._buffer)

    @property
    def sharding(self) -> Sharding:
        """Which part of it each device holds: of most arrays, one device the whole.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).sharding
            SingleDeviceSharding(cpu(0))
        """
        return SingleDeviceSharding(self.device)

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of it that devices of this process hold.

        Example:
            >>> import pullback as pb
            >>> [shard.data for shard in pb.numpy.arange(3).addressable_shards]
            [[0 1 2]:i32[3]:cpu(0)]
        """
        return [Shard(self.device, self.sharding.places(self.type.shape)[0], 0, self)]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of it that all devices hold; the `data` of those of other processes is None.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.arange(3).global_shards
            [Shard(cpu(0), [0:3], replica 0)]
        """
        return self.addressable_shards

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all of it.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).is_fully_addressable
            True
        """
        return self.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each of its devices holds all of it.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).is_fully_replicated
            True
        """
        return self.sharding.is_fully_replicated

    @property
    def committed(self) -> bool:
        """Whether it was put where it is, so that what is computed from it happens there.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).committed
            False
        """
        return self.__class__ in PLACED

    @property
    def host(self) -> HostArray | np.generic:
        """The values as NumPy sees them, read-only, fetched from the device if need be.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.array([1, 2]).host
            array([1, 2], dtype=int32)
        """
        host = host_of(self)
        if host.__class__ is np.ndarray:
            return self._shown(host)  # whose shape and dtype the caller may set
        return host

    def _shown(self, host: HostArray | np.generic) -> HostArray:
        """A view of its values to give away."""
        host = frozen(host)
        if not isinstance(self, ShardedArray):
            self._host = host
        return host.view()

    def _numpy(self) -> HostArray:
        """The values as a read-only NumPy array, without a copy."""
        if kind(self.type.dtype) == "k":
            raise DtypeError(f"{self.type} has no numbers for NumPy: {NO_NUMBERS}{at_user_line()}")
        return self._shown(host_of(self))

    @api_boundary
    def view(self, dtype: DTypeLike = None) -> Any:
        """The values as a read-only NumPy array, without a copy; or, with a dtype, their bits read as an Array of that.

        Arguments:
            dtype: None for a NumPy array. Else the last axis becomes as many times longer as the elements become narrower.

        Returns:
            A NumPy array, or an Array.

        Raises:
            DtypeError: of random keys, which are no numbers.
            ShapeError: the last axis cannot be divided into elements of the dtype.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.array([1, 2]).view()
            array([1, 2], dtype=int32)
            >>> pb.numpy.array([1.0, 2.0]).view("int32")
            [1065353216 1073741824]:i32[2]:cpu(0)
        """
        if dtype is not None:
            return super().view(dtype)  # type: ignore[misc]  # the stub says it of all arrays, here
        return self._numpy()

    def alias(self) -> Self:
        """Another Array of the same values, as good as a copy: they share memory until one of them gives it up.

        Returns:
            An Array.

        Raises:
            DonatedBufferError: this one has given up its memory.

        Example:
            >>> import pullback as pb
            >>> x = pb.numpy.array([1.0, 2.0])
            >>> y = x.alias()
            >>> x.delete()
            >>> y
            [1. 2.]:f32[2]:cpu(0)
        """
        if is_deleted(self):
            raise _donated(self)
        return self._like()

    def _like(self) -> Self:
        """Another Array of the same memory."""
        made = self.__class__(self.type, self._host, self._buffer)
        made._later = later_buffer(self)
        return made

    def delete(self) -> None:
        """Give up the memory of this array; any later use raises `DonatedBufferError`.

        Example:
            >>> import pullback as pb
            >>> x = pb.numpy.array([1.0, 2.0])
            >>> x.delete()
            >>> x
            Traceback (most recent call last):
                ...
            pullback.core.errors.DonatedBufferError: ...
        """
        if not is_constant(self):  # those belong to everyone
            self._host = self._buffer = self._later = None


def later_buffer(array: Array) -> Any:
    """The buffer that an Array has on the asynchronous client of the CPU, if it has one there."""
    return getattr(array, "_later", None)


def later_array(type: ArrayType, host: HostArray | None, buffer: Any) -> Array:
    """An Array whose values the asynchronous client computes."""
    made = Array(type, host)
    made._later = buffer
    return made


def is_deleted(array: Array) -> bool:
    """Whether an Array has given up its memory, or never had any (a placeholder)."""
    return array._host is None and array._buffer is None and later_buffer(array) is None


# What functions take for an array. A list of numbers is none: only `array`, `asarray` and the joining functions take these.
ArrayLike = Array | HostArray | SupportsArray | bool | int | float | complex


def host_of(array: Array) -> HostArray | np.generic:
    """The values of an Array as this library computes with them, once they have been computed. Never to be written to, nor
    given to users' code."""
    host = array._host
    if host is None:
        buffer = array._buffer
        if buffer is None:
            buffer = later_buffer(array)
            if buffer is None:
                raise _donated(array)
            buffer_access.wait(buffer)
        spread = isinstance(array, ShardedArray)
        host = buffer_access.gathered(array) if spread else buffer_access.to_host(buffer, array.type)
        if host is None:
            raise _donated(array)
        if not spread:  # of which whoever computes takes the parts
            array._host = host
    return host


def _donated(array: Array) -> DonatedBufferError:
    error = DonatedBufferError(
        f"This array ({array.type}) was donated to a compiled function (jit's donate_argnums or donate_argnames),"
        " which has reused its memory. Keep using the function's result instead, or do not donate the argument."
    )
    error.array = array
    return error


_constants: WeakValueDictionary[int, Array] = WeakValueDictionary()


def constant(array: Array) -> Array:
    """An Array that is made once and handed out many times: donating it, or deleting it, leaves it as it is."""
    _constants[id(array)] = array
    return array


def is_constant(array: Array) -> bool:
    """Whether an Array was marked by `constant`."""
    return _constants.get(id(array)) is array


_captured: WeakValueDictionary[Any, Array] = WeakValueDictionary()  # by the memory that they hold


def captured(array: Array) -> Array:
    """What Programs hold of an Array that a function closes over: an alias, the same one for all of them, which has the memory
    also when the Array has given that up. Constants give up nothing."""
    if is_constant(array):
        return array
    memory = [one for one in (array._buffer, later_buffer(array), array._host) if one is not None]
    for one in memory:
        known = _captured.get((id(one), array.type, array.__class__))
        if known is not None and any([one is own for own in (known._buffer, later_buffer(known), known._host)]):
            return known
    made = array.alias() if memory else array  # one without memory is good for its type
    _captured.update({(id(one), array.type, array.__class__): made for one in memory})
    return made


class BorrowedArray(Array):
    """An Array of NumPy memory to which the caller can write as soon as the call ends for which it was made."""

    __slots__ = ()


class PlacedArray(Array):
    """An Array that was put on a device, or computed there from such Arrays: operations on it happen on that device.

    There are none where there is only one device.
    """

    __slots__ = ()


class ShardedArray(Array):
    """An Array of which each device of a mesh holds a part, or the whole. Operations on it happen on all of them.

    Attributes:
        sharding: which part each device holds. placed_type: the type with the sharding in it, which calls are recognised by.
        lent: whether others may hold its memory, or a part of it, so that it cannot be given away.
        computed: whether its values are known to have been computed.
    """

    __slots__ = ("computed", "lent", "placed_type", "sharding")
    sharding: NamedSharding
    placed_type: ArrayType
    lent: bool
    computed: bool

    def __init__(
        self, type: ArrayType, sharding: NamedSharding, buffer: Any, lent: bool = False, computed: bool = False
    ) -> None:
        super().__init__(type, None)  # not in the place where others look for a buffer of one device
        self._later = buffer
        self.sharding = sharding
        self.placed_type = type.placed(sharding, type.varying)
        self.lent = lent
        self.computed = computed

    @property
    def device(self) -> Any:
        """Where the values are: the sharding, which says which device holds what."""
        return self.sharding

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of it that all devices hold; the `data` of those of other processes is None."""
        places = self.sharding.places(self.type.shape)
        held = buffer_access.parts_of(self)
        self.lent = True
        numbers = replica_numbers(places)
        return [Shard(one, place, number, held.get(one)) for one, place, number in zip(self.sharding.devices, places, numbers)]

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of it that devices of this process hold."""
        return [shard for shard in self.global_shards if shard.data is not None]

    def _like(self) -> Self:
        self.lent = True
        return self.__class__(self.type, self.sharding, self._later, True, self.computed)


PLACED = frozenset({PlacedArray, ShardedArray})  # the classes of Arrays that were put where they are


def on_a_device(values: Iterable[Any]) -> bool:
    """Whether one of these was put on a device, where operations on them happen."""
    return any([value.__class__ in PLACED for value in values])


def placed_type(array: Any) -> ArrayType:
    """The type of an Array or tracer, with its sharding if it is spread over devices."""
    return array.placed_type if isinstance(array, ShardedArray) else array.type


class BufferAccess(Protocol):
    """What the engine knows of device buffers; it fills in `buffer_access` when it is loaded."""

    def to_host(self, buffer: Any, type: ArrayType) -> HostArray | None: ...  # None if another thread has just donated it
    def device_of(self, buffer: Any) -> Device: ...
    def pending(self, array: Array) -> Sequence[Any]: ...  # the buffers of it that may still be being computed
    def gathered(self, array: Any) -> HostArray | None: ...  # of a ShardedArray
    def parts_of(self, array: Any) -> dict[Device, Array]: ...  # likewise, those that devices of this process hold
    def wait(self, buffer: Any) -> None: ...
    def is_ready(self, buffer: Any) -> bool: ...


buffer_access: BufferAccess = None  # type: ignore[assignment]  # filled in before any buffer is made


def text(value: HostArray, type: ArrayType, place: Any) -> str:
    """An array printed with its type and place, `[1. 2. 3.]:f32[3]:cpu(0)`."""
    shown = value[SHORT_NAMES[type.dtype][4:-1]] if kind(type.dtype) == "k" else value
    if shown.dtype.kind == "V":
        shown = shown.astype(np.int8 if kind(type.dtype) == "s" else np.float32)
    return f"{np.array_str(np.asarray(shown))}:{type.strong()}:{place}"


def shown(array: Any) -> str:
    """An Array or Ref printed; without the values of one of which other processes hold a part."""
    type, place = placed_type(array), array.sharding.place
    if array.is_fully_addressable or array.is_fully_replicated:
        return text(np.asarray(array.host), type, place)
    if is_deleted(array):
        raise _donated(array)
    return f"{type}:{place}"


# ---- memory that nobody can write to -----------------------------------------------------------------------------------


class FrozenMemory:
    """The base of a frozen NumPy array. It has no buffer protocol, so NumPy refuses to make the array writeable."""

    __slots__ = ("__array_struct__", "_memory")
    __array_struct__: Any
    _memory: HostArray


def frozen(host: HostArray | np.generic) -> HostArray:
    """The same values in the same memory, as an array that cannot be made writeable."""
    if is_frozen(host):
        return host  # type: ignore[return-value]
    dtype = host.dtype
    carried = carrier(dtype)
    seen = np.asarray(host).view(carried)
    seen.flags.writeable = False
    owner = FrozenMemory()
    owner._memory = seen
    owner.__array_struct__ = seen.__array_struct__
    made = np.asarray(owner)
    return made if carried is dtype else made.view(dtype)


def is_frozen(host: HostArray | np.generic) -> bool:
    """Whether nobody can write to a NumPy array's memory by way of NumPy: it is ours, a device's, or that of bytes."""
    base: Any = host.base
    while isinstance(base, np.ndarray):
        base = base.base
    if base.__class__ is memoryview:
        base = base.obj if base.readonly else None
    elif base.__class__ is tuple:  # NumPy keeps the object together with its `__array_struct__`
        base = base[0]
    return base.__class__ in immutable_memory


# Whose memory no Python code can write to; the engine adds the class of device buffers.
immutable_memory: set[type] = {FrozenMemory, bytes}


# ---- making arrays from what users pass -------------------------------------------------------------------------------


def from_python(value: bool | int | float | complex, dtype: DType | None = None) -> Array:
    """A 0-d array of a Python scalar, weak unless it is of bools; in the default dtype of its kind, or in `dtype`."""
    wanted = dtype or default_dtype(scalar_kind(value))
    try:
        if kind(wanted) == "s":
            limits = integer_limits(wanted)
            if not limits.min <= np.asarray(value, np.int64) <= limits.max:
                raise OverflowError
        return Array(array_type((), wanted, value.__class__ is not bool or kind(wanted) != "b"), np.asarray(value, wanted))
    except OverflowError:
        by_default = wanted is default_dtype(scalar_kind(value))
        cure = ", or make 64-bit integers the default with pb.default_bits(64)" if by_default else ""
        raise OverflowError(
            f"The Python integer {value} does not fit into {wanted.name}. Give the array a wider dtype{cure}.{at_user_line()}"
        ) from None
    except TypeError:
        raise DtypeError(f"The complex number {value} does not fit into {wanted.name}; take its .real.") from None


def scalar_kind(value: bool | int | float | complex) -> str:
    """The kind of dtype that a Python number, or one of a class derived from them, calls for."""
    return PYTHON_KINDS.get(type(value)) or next(kind for base, kind in PYTHON_KINDS.items() if isinstance(value, base))


def plain_number(value: Any) -> Any:
    """A number of a class derived from Python's (an IntEnum) as Python's own; anything else as it is."""
    if isinstance(value, np.generic):  # np.float64 is a float, too
        return value
    return next((base(value) for base in PYTHON_KINDS if isinstance(value, base)), value)


# From this size on, copying an array to the device costs more than the care to make it lie where it need not be copied.
ALIGNED_BYTES = 1 << 20
ALIGNMENT = 64  # bytes: host memory that starts at a multiple of it is shared with the CPU device


def aligned_empty(shape: Shape, dtype: DType) -> HostArray:
    """As `np.empty`, in memory that the CPU device can share."""
    count = math.prod(shape) * dtype.itemsize
    memory = np.empty(count + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + count].view(dtype).reshape(shape)


def truths(value: HostArray) -> HostArray:
    """Bools of NumPy's in memory of their own, as 0 and 1: where bytes were viewed as bools there may be others, which count as
    true for NumPy, while XLA computes with them."""
    out = aligned_empty(value.shape, value.dtype) if value.nbytes >= ALIGNED_BYTES else np.empty(value.shape, value.dtype)
    return np.not_equal(np.asarray(value).view(np.uint8), 0, out=out)


class _Copied(threading.local):
    """How many NumPy arrays this thread has copied the values of: what was traced meanwhile may hold values that change."""

    count = 0


copied = _Copied()


def from_numpy(value: HostArray | np.generic, copy: bool = True) -> Array:
    """An Array of a NumPy array's values; copied, since whoever made it can still write to it.

    Without `copy` it borrows the memory, for as long as nobody keeps the Array; but for bools, which it looks through.
    """
    dtype = value.dtype
    if value.__class__ is not np.ndarray and hasattr(value, "mask"):
        raise LeafError(
            "A masked NumPy array has values that are missing, which an array cannot have: fill them"
            f" (.filled).{at_user_line()}"
        )
    wanted = entering(dtype if dtype.isnative else dtype.newbyteorder("="))
    if wanted not in SHORT_NAMES:
        why = "holds no numbers, so no array can be made of it. Make numbers of what is in it (.astype)"
        if dtype.kind in "fc":
            why = "is wider than arrays can be. Convert it with .astype('float64' or 'complex128')"
        raise LeafError(f"A NumPy array of shape {value.shape} and dtype {dtype} {why}.{at_user_line()}")
    if can_change := copy and isinstance(value, np.ndarray):
        copied.count += 1
    if wanted is not dtype:
        value = np.asarray(value).astype(wanted)
    elif dtype == np.bool_ and isinstance(value, np.ndarray):
        value = truths(value)
    elif can_change:
        if value.nbytes >= ALIGNED_BYTES:
            source, value = value, aligned_empty(value.shape, dtype)
            value[...] = source
        else:
            value = np.array(value, copy=True, order="C")
    return Array(array_type(value.shape, wanted), value)


def _from_memory(value: Any) -> Array:
    """Of what NumPy can see as an array: `__array__`, `__array_interface__`, the buffer protocol."""
    return from_numpy(np.asarray(value))


Converter = Callable[[Any], Any]

converters: dict[type, Converter] = {
    Array: lambda value: value,
    bool: from_python,
    int: from_python,
    float: from_python,
    complex: from_python,
    np.ndarray: from_numpy,
    np.generic: from_numpy,
    memoryview: _from_memory,
    bytearray: _from_memory,
    array: _from_memory,
}
# What an object of another class may offer, the best first. The first two return an Array, a tracer or a number.
_PROTOCOLS: dict[str, Converter] = {
    "__pullback_array__": lambda value: as_array(value.__pullback_array__()),
    "__jax_array__": lambda value: as_array(value.__jax_array__()),
    "__array__": _from_memory,
    "__array_interface__": _from_memory,
    "__array_struct__": _from_memory,
    "__dlpack__": lambda value: from_numpy(np.from_dlpack(value)),
}


def find_converter(kind: type) -> Converter | None:
    """How a value of a Python type becomes an Array; None for what is neither a number nor an array."""
    for base in kind.__mro__:
        if base in converters:
            return converters[base]
    return next((convert for name, convert in _PROTOCOLS.items() if hasattr(kind, name)), None)


def as_array(value: Any) -> Array:
    """`value` itself if it is an Array or a tracer, else an Array of it: here foreign values enter, in the current dtype mode.

    Raises `LeafError` for what is neither a number nor an array.
    """
    if isinstance(value, Array):
        return value
    converter = find_converter(type(value))
    if converter is None:
        raise LeafError(
            f"Expected an array or a number, but got {brief(value)} of type {type(value).__name__}."
            " Convert it with pb.numpy.asarray, or, in jit, mark its argument as static (static_argnums, static_argnames)."
        )
    found: Array = converter(value)  # or a tracer, of what holds one
    return found
