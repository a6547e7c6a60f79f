"""New arrays: from values, filled, counted, or of a pattern."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, from_numpy, from_python, is_frozen, on_a_device, plain_number, scalar_kind
from pullback.core.brief import brief
from pullback.core.devices import DEFAULT_DEVICE
from pullback.core.dtypes import (
    RANK,
    DType,
    DTypeLike,
    canonical,
    default_dtype,
    float0,
    integer_limits,
    is_inexact,
    is_key,
    kind,
    requested,
)
from pullback.core.errors import AxisError, DtypeError, ShapeError, TracerIntegerConversionError
from pullback.core.tracing import Tracer, innermost_staging, type_of
from pullback.core.types import Shape, ShapeLike, array_type
from pullback.numpy.axes import normal_axis, whole
from pullback.numpy.eager import by_numpy
from pullback.numpy.promotion import (
    NATIVE_FLOATS,
    PYTHON_SCALARS,
    at_user_line,
    broadcast,
    broadcast_shapes,
    common_dtype,
    in_dtype,
    literal_of,
    number_or_operand,
    operand,
    strong,
)
from pullback.ops import arithmetic, compare
from pullback.ops import shape as shapes
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.convert import convert_element_type
from pullback.ops.create import iota
from pullback.ops.literals import within


def array(
    object: Any,
    dtype: DTypeLike = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
) -> Array:
    """An array of a number, an array, or a nested sequence of these.

    Arguments:
        object: the values. Traced values may be among them.
        dtype: the result's dtype; by default that of the values, where Python numbers get the default dtypes.
        copy: whether an Array is copied. Memory to which somebody else could write always is.
        order: "C", "K" or "A"; arrays lie in row-major order.
        ndmin: the least number of axes; axes of size 1 are put in front.
        device: where; None, or the device that arrays are made on. `pb.device_put` moves them to others.

    Returns:
        An array; if no dtype is given, weak where `object` is, as a Python number is: its dtype gives way to another.

    Raises:
        LeafError: something in `object` is neither an array nor a number.
        ShapeError: the sequences are ragged.
        DtypeError: a complex number, and a real `dtype`.
        OverflowError: an integer that `dtype` cannot hold.
        ValueError: another device, or another `order`.

    Example:
        >>> pnp.array([1.0, 2.0, 3.0])
        [1. 2. 3.]:f32[3]:cpu(0)
        >>> pnp.array([[1, 2], [3, 4]], dtype=pnp.float32)
        [[1. 2.]
         [3. 4.]]:f32[2,2]:cpu(0)
        >>> pnp.array([1, 2.5]), pnp.array(3, ndmin=2).shape
        ([1.  2.5]:f32[2]:cpu(0), (1, 1))
    """
    refuse_device(device, "array")
    _check_order(order, "array")
    copy = bool(copy)
    keys = dtype is not None and kind(canonical(dtype)) == "k"  # which are converted to nothing, and nothing to them
    made = _array(object, None if dtype is None or keys else requested(dtype))
    if keys and made.type.dtype is not canonical(dtype):
        requested(dtype)
    if dtype is not None and made.type.weak:
        made = strong(made)
    if made is object and copy and isinstance(made, Array):
        made = made.alias()
    if ndmin > made.type.ndim:
        made = shapes.reshape(made, new_sizes=(1,) * (ndmin - made.type.ndim) + made.type.shape)
    return made


def _check_order(order: Any, name: str) -> None:
    if order not in (None, "C", "K", "A"):
        raise ValueError(
            f"{name} takes order='C', 'K' or 'A', not {brief(order)}: arrays lie in row-major order.{at_user_line()}"
        )


def _array(value: Any, dtype: DType | None, place: tuple[int, ...] = ()) -> Any:
    if isinstance(value, (list, tuple)):
        return _from_sequence(value, dtype, place)
    if value.__class__ not in _PLAIN and not isinstance(value, (np.ndarray, Array, Tracer)):
        if isinstance(value, range):
            return _from_sequence(list(value), default_dtype("i") if dtype is None else dtype)
        value = plain_number(value)
    if isinstance(value, np.ndarray):
        made = from_numpy(value, copy=not is_frozen(value))
    elif value.__class__ in _PLAIN:
        if dtype is None:
            return from_python(value)
        refuse_dropped_part(scalar_kind(value), dtype)
        loses = RANK[scalar_kind(value)] > RANK[kind(dtype)]
        made = from_python(value, None if loses else dtype)
    else:
        made = operand(value, "array", "its argument" + "".join([f"[{i}]" for i in place]))
    return made if dtype is None or made.type.dtype is dtype else convert_element_type(made, new_dtype=dtype)


def refuse_dropped_part(
    found: str, dtype: DType | None, refusal: str = "array: a complex number does not fit into {}; take its .real."
) -> None:
    if found == "c" and dtype is not None and kind(dtype) != "c":
        raise DtypeError(f"{refusal.format(dtype.name)}{at_user_line()}")


_PLAIN: frozenset[Any] = frozenset({bool, int, float, complex})


def _kinds_within(value: Any, found: set[type]) -> bool:
    """Whether nested sequences hold Python numbers alone; their types are added to `found`."""
    for item in value:
        if item.__class__ in _PLAIN:
            found.add(item.__class__)
        elif item.__class__ not in (list, tuple) or not _kinds_within(item, found):
            return False
    return True


def _from_sequence(value: Sequence[Any], dtype: DType | None, place: tuple[int, ...] = ()) -> Any:
    kinds: set[type] = set()
    if _kinds_within(value, kinds):
        rank = next((kind for kind in (complex, float, int, bool) if kind in kinds), float)
        refuse_dropped_part("c" if rank is complex else "f", dtype)
        dtype = requested(rank) if dtype is None else dtype
        try:
            if kind(dtype) == "s" and rank is int:
                _check_narrow(value, dtype)
            host = np.array(value, requested(rank) if rank is not int and not is_inexact(dtype) and rank is not bool else dtype)
        except OverflowError:
            raise OverflowError(
                f"array: an integer in the list does not fit into {dtype.name}, which holds {_span(dtype)}. Choose a wider"
                f" dtype.{at_user_line()}"
            ) from None
        except ValueError:
            raise ShapeError(
                f"array: the nested lists are ragged, so that they form no array. Pad them to one length.{at_user_line()}"
            ) from None
        made = Array(array_type(host.shape, host.dtype), host)
        return made if host.dtype == dtype else convert_element_type(made, new_dtype=dtype)
    parts = [_array(item, None, (*place, i)) for i, item in enumerate(value)]
    found, _ = common_dtype(parts, "array")
    wanted = dtype or found
    if len({part.type.shape for part in parts}) > 1:
        shown = ", ".join(str(part.type.shape) for part in parts)
        raise ShapeError(
            f"array: the elements of the list have different shapes: {shown}. Broadcast or pad them to one"
            f" shape.{at_user_line()}"
        )
    rows = [in_dtype(shapes.reshape(part, new_sizes=(1, *part.type.shape)), wanted) for part in parts]
    return strong(shapes.concatenate(*rows, dimension=0))


def _span(dtype: DType) -> str:
    """The integers that a dtype holds."""
    limits = integer_limits(dtype)
    return f"those from {limits.min} to {limits.max}"


def _check_narrow(values: Sequence[Any], dtype: DType) -> None:
    """Raise `OverflowError` for numbers beyond an integer dtype of a few bits, which NumPy takes modulo a power of two."""
    whole, limits = np.array(values, np.int64), integer_limits(dtype)
    if np.any((whole < limits.min) | (whole > limits.max)):
        raise OverflowError


def asarray(
    a: Any, dtype: DTypeLike = None, order: str | None = None, *, copy: bool | None = None, device: Any = None
) -> Array:
    """An array of the values of `a`; Arrays and traced values of the right dtype are returned as they are.

    Arguments and errors are those of `array`. A NumPy array is copied, since it can still be written to.

    Arguments:
        a: the values, as for `array`. A NumPy array is copied, since it can still be written to.
        dtype: the result's dtype; by default that of the values.
        order: "C", "K" or "A"; arrays lie in row-major order.
        copy: True for a copy of an Array as well; False for an error where a copy is necessary.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array; `a` itself, if it is one of the dtype.

    Raises:
        LeafError: something in `a` is neither an array nor a number.
        ShapeError: the sequences are ragged.
        ValueError: `copy` is False, and a copy is necessary; another device; another `order`.

    Example:
        >>> pnp.asarray([[1, 2], [3, 4]]).shape
        (2, 2)
        >>> x = pnp.asarray(np.zeros(2))
        >>> pnp.asarray(x) is x
        True
    """
    refuse_device(device, "asarray")
    _check_order(order, "asarray")
    copy = None if copy is None else bool(copy)
    if dtype is None and not copy and isinstance(a, (Array, Tracer)):
        return a  # type: ignore[return-value]  # or a tracer
    made = array(a, dtype, copy=bool(copy))
    if copy is False and made is not a:
        raise ValueError(
            f"asarray(copy=False): an array cannot be made of this {type(a).__name__} without a copy. Leave copy out, or pass"
            f" True.{at_user_line()}"
        )
    return made


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """A copy of another library's array, taken through the DLPack protocol: the other could still write to its own.

    Arguments:
        x: an array with the methods `__dlpack__` and `__dlpack_device__`.
        copy: True for a copy of one of this library's arrays as well; False for an error where a copy is necessary.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        TypeError: x has no method `__dlpack__`.
        ValueError: `copy` is False, and x is not one of this library's arrays; or another device.

    Example:
        >>> pnp.from_dlpack(np.arange(3.0, dtype=np.float32))
        [0. 1. 2.]:f32[3]:cpu(0)
    """
    refuse_device(device, "from_dlpack")
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes an array with a method __dlpack__, but got {brief(x)}.{at_user_line()}")
    copy = None if copy is None else bool(copy)
    return strong(x.alias()) if isinstance(x, Array) else asarray(np.from_dlpack(x), copy=copy)


def refuse_device(device: Any, name: str) -> None:
    """Refuse a device other than that on which arrays are made."""
    if device is not None and device != DEFAULT_DEVICE and device != DEFAULT_DEVICE.platform:
        raise ValueError(
            f"{name} makes its array on {DEFAULT_DEVICE}, not on {brief(device)}. Move it with pb.device_put(x, device), one of"
            f" pb.devices().{at_user_line()}"
        )


def checked_shape(shape: Any, name: str, least: int = 0) -> Shape:
    """A shape as a tuple of ints. Raises `ShapeError` for negative sizes, and an error with the cure for traced ones."""
    if shape.__class__ is not tuple:
        several = isinstance(shape, Iterable) or hasattr(shape, "__getitem__")  # Python's old protocol of sequences
        whole = shape.__class__ is int or isinstance(shape, Tracer) or not several
        shape = (shape,) if whole or getattr(shape, "ndim", None) == 0 else shape
    out = []
    for size in shape:
        if isinstance(size, Tracer):
            raise _traced_size(size, name)
        try:
            out.append(operator.index(size))
        except TypeError:
            raise ShapeError(f"{name} takes a shape of whole numbers, but got {brief(shape)}.{at_user_line()}") from None
    if any([size < least for size in out]):
        raise ShapeError(f"{name}: a shape has no negative sizes, but got {tuple(out)}.{at_user_line()}")
    return tuple(out)


def _traced_size(size: Tracer, name: str) -> TracerIntegerConversionError:
    made = size.where()
    return TracerIntegerConversionError(
        f"{name} was given a traced size of type {size.type}{f' ({made})' if made else ''} in {size.owner.describe()}: shapes"
        f" must be known when a function is traced. To know it, {size.cure()}.{at_user_line()}"
    )


def full(shape: ShapeLike, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array filled with one value.

    Arguments:
        shape: an int or a sequence of ints.
        fill_value: a number, or an array that broadcasts to the shape.
        dtype: by default that of `fill_value`, weak if it is weak, as a Python number is. Of a dtype of random keys are made
            keys, each word of which is that whole number; likewise by `zeros`, `ones`, `empty`, and those with `_like`.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of the shape.

    Raises:
        ShapeError: the shape has a negative size, or `fill_value` does not broadcast to it.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.full((2,), 7)
        [7 7]:i32[2]:cpu(0)
        >>> pnp.full((2, 2), pnp.array([1.0, 2.0]))
        [[1. 2.]
         [1. 2.]]:f32[2,2]:cpu(0)
    """
    refuse_device(device, "full")
    sizes = checked_shape(shape, "full")
    if is_key(dtype) and fill_value.__class__ is int:
        fill_value = _filled("full", fill_value, (), dtype, None)
    value = array(fill_value if dtype is None else within(fill_value, canonical(dtype)), dtype, copy=False)
    if value.type.shape and broadcast_shapes("full", value.type.shape, sizes) != sizes:
        raise ShapeError(
            f"full: a value of type {value.type} does not broadcast to the shape {sizes}: aligned at their last axes, its sizes"
            f" must be equal to those, or 1.{at_user_line()}"
        )
    return broadcast(value, sizes)


def zeros(shape: ShapeLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of zeros; `dtype` is by default the default floating dtype.

    Arguments:
        shape: an int or a sequence of ints.
        dtype: by default the default floating dtype. pb.float0, that of integers' tangents, gives NumPy's array of nothing.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of the shape.

    Raises:
        ShapeError: the shape has a negative size.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.zeros(3)
        [0. 0. 0.]:f32[3]:cpu(0)
        >>> pnp.zeros((2, 0), dtype=pnp.int8)
        []:i8[2,0]:cpu(0)
    """
    return _filled("zeros", 0, shape, dtype, device)


def ones(shape: ShapeLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of ones; `dtype` is by default the default floating dtype.

    Arguments:
        shape: an int or a sequence of ints.
        dtype: by default the default floating dtype.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of the shape.

    Raises:
        ShapeError: the shape has a negative size.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.ones((2, 2), pnp.int32)
        [[1 1]
         [1 1]]:i32[2,2]:cpu(0)
    """
    return _filled("ones", 1, shape, dtype, device)


def empty(shape: ShapeLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """An array of a shape; its values are zeros, since an array is never without values.

    Arguments:
        shape: an int or a sequence of ints.
        dtype: by default the default floating dtype.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of the shape.

    Raises:
        ShapeError: the shape has a negative size.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.empty(2)
        [0. 0.]:f32[2]:cpu(0)
    """
    return _filled("empty", 0, shape, dtype, device)


_VOID = float0.__class__


def _filled(name: str, value: int, shape: ShapeLike, dtype: DTypeLike, device: Any, weak: bool = False) -> Array:
    refuse_device(device, name)
    if dtype.__class__ is _VOID and dtype == float0:  # as the tangents of integers have: it holds nothing, and is NumPy's
        nothing: Any = np.zeros(checked_shape(shape, name), float0)
        return nothing
    wanted = default_dtype("f") if dtype is None else canonical(dtype) if is_key(dtype) else requested(dtype)
    sizes = checked_shape(shape, name)
    if innermost_staging() is None:
        return Array(array_type(sizes, wanted, weak), np.full(sizes, value, wanted))
    one = Array(array_type((), wanted, weak), np.full((), value, wanted))
    return broadcast_in_dim(one, shape=sizes, broadcast_dimensions=()) if sizes else one


def _full_like_on_host(a: Any, fill_value: Any) -> Any:
    if fill_value.__class__ is not float:
        raise TypeError
    return np.full(a.shape, fill_value, a.dtype)


@by_numpy(_full_like_on_host, NATIVE_FLOATS)
def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike = None, shape: ShapeLike | None = None, *, device: Any = None
) -> Array:
    """An array filled with one value, of the shape and dtype of `a` unless `shape` or `dtype` say otherwise.

    Arguments:
        a: an array or a number.
        fill_value: a number, or an array that broadcasts to the shape.
        dtype, shape: in place of those of `a`.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shape has a negative size, or `fill_value` does not broadcast to it.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.full_like(pnp.array([1, 2]), 7.9)
        [7 7]:i32[2]:cpu(0)
    """
    sizes, wanted, device, weak = _like(a, shape, dtype, device)
    out = full(sizes, fill_value, wanted, device=device)
    return _beside(a, convert_element_type(out, new_dtype=wanted, weak=True) if weak and not type_of(fill_value).shape else out)


def _like(a: Any, shape: Any, dtype: Any, device: Any) -> tuple[Any, Any, Any, bool]:
    """The shape, the dtype and the device of an array like `a`, and whether it is weak: as `a` is, unless a dtype is given."""
    type = type_of(a)
    return type.shape if shape is None else shape, type.dtype if dtype is None else dtype, device, type.weak and dtype is None


@by_numpy(lambda a: np.zeros(a.shape, a.dtype))
def zeros_like(a: ArrayLike, dtype: DTypeLike = None, shape: ShapeLike | None = None, *, device: Any = None) -> Array:
    """An array of zeros, of the shape and dtype of `a` unless `shape` or `dtype` say otherwise.

    Arguments:
        a: an array or a number.
        dtype, shape: in place of those of `a`.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shape has a negative size.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.zeros_like(pnp.array([1, 2]))
        [0 0]:i32[2]:cpu(0)
        >>> pnp.zeros_like(pnp.array([1, 2]), shape=(1, 3))
        [[0 0 0]]:i32[1,3]:cpu(0)
    """
    return _beside(a, _filled("zeros_like", 0, *_like(a, shape, dtype, device)))


@by_numpy(lambda a: np.ones(a.shape, a.dtype))
def ones_like(a: ArrayLike, dtype: DTypeLike = None, shape: ShapeLike | None = None, *, device: Any = None) -> Array:
    """An array of ones, of the shape and dtype of `a` unless `shape` or `dtype` say otherwise.

    Arguments:
        a: an array or a number.
        dtype, shape: in place of those of `a`.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shape has a negative size.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.ones_like(pnp.array([1, 2]), dtype=pnp.float32)
        [1. 1.]:f32[2]:cpu(0)
    """
    return _beside(a, _filled("ones_like", 1, *_like(a, shape, dtype, device)))


def empty_like(prototype: ArrayLike, dtype: DTypeLike = None, shape: ShapeLike | None = None, *, device: Any = None) -> Array:
    """An array of the shape and dtype of another one unless `shape` or `dtype` say otherwise; its values are zeros.

    Arguments:
        prototype: an array or a number.
        dtype, shape: in place of those of `prototype`.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shape has a negative size.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.empty_like(pnp.array([[1.5, 2.5]]))
        [[0. 0.]]:f32[1,2]:cpu(0)
    """
    return _beside(prototype, _filled("empty_like", 0, *_like(prototype, shape, dtype, device)))


def _beside(a: Any, made: Array) -> Array:
    """What was made like an array: on the device that this was put on, if it is of its type, by an operation there."""
    if not on_a_device([a]) or made.type is not a.type:
        return made
    found: Array = compare.select(array(False), a, made)
    return found


# ---- counted --------------------------------------------------------------------------------------------------------


def _counted(*bounds: Any) -> Any:
    made = np.arange(*bounds)
    return made.astype(default_dtype(made.dtype.kind))


@by_numpy(_counted)
def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike = None,
    *,
    device: Any = None,
) -> Array:
    """Numbers from `start` (0 if it is the only one given) to before `stop`, `step` apart.

    The number of elements must be known, so start, stop and step cannot be traced values.

    Arguments:
        start, stop, step: numbers or 0-d arrays. With one alone, it is `stop`; the step is 1 by default.
        dtype: by default the common dtype of the three.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        A vector; an empty one if `stop` cannot be reached.

    Raises:
        LeafError: one of them is not a number.
        TracerIntegerConversionError: one of them is traced.
        OverflowError: an integer does not fit into the default dtype.
        ValueError: a complex number, or a step of 0; a device other than that on which arrays are made.

    Example:
        >>> pnp.arange(3)
        [0 1 2]:i32[3]:cpu(0)
        >>> pnp.arange(1, 2, 0.25)
        [1.   1.25 1.5  1.75]:f32[4]:cpu(0)
        >>> pnp.arange(5, 0, -2), pnp.arange(5, 0)
        ([5 3 1]:i32[3]:cpu(0), []:i32[0]:cpu(0))
    """
    refuse_device(device, "arange")
    if stop is None:
        start, stop = 0, start
    bounds: list[Any] = [number_or_operand(value, "arange") for value in (start, stop, 1 if step is None else step)]
    for value in bounds:
        if isinstance(value, Tracer):
            raise _traced_size(value, "arange")
    wanted = requested(dtype) if dtype is not None else common_dtype(bounds, "arange")[0]
    numbers: list[Any] = [value if value.__class__ in PYTHON_SCALARS else value.view().item() for value in bounds]
    if complex in map(type, numbers) or not numbers[2]:
        raise ValueError(
            f"arange counts from start to stop by real steps other than 0, but got start={numbers[0]}, stop={numbers[1]},"
            f" step={numbers[2]}. Along a line of complex numbers: start + step * arange(n).{at_user_line()}"
        )
    if is_inexact(wanted) or {*map(type, numbers)} - {int, bool}:
        made = np.arange(*numbers, dtype=np.float64).astype(wanted)
    else:
        if numbers[0] == 0 and numbers[2] == 1 and kind(wanted) != "b" and innermost_staging() is not None:
            return iota(dtype=wanted, shape=(max(0, numbers[1]),), dimension=0)
        counted = np.arange(*numbers)
        made = counted.astype(wanted)
        if dtype is None and np.any(made != counted):
            raise OverflowError(
                f"arange: {counted[0]} to {counted[-1]} do not fit into {wanted.name}. Give a wider dtype, or make 64-bit"
                f" integers the default with pb.default_bits(64).{at_user_line()}"
            )
    return Array(array_type(made.shape, wanted), made)


@by_numpy(lambda N, M=None, k=0: np.eye(N, M, k, default_dtype("f")))
def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Ones on the diagonal number `k`, zeros elsewhere; of shape (N, M), or (N, N).

    Arguments:
        N, M: how many rows and columns; as many columns as rows by default.
        k: which diagonal; positive ones lie above the main one.
        dtype: by default the default floating dtype.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        A matrix.

    Raises:
        ShapeError: the shape has a negative size.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.eye(2)
        [[1. 0.]
         [0. 1.]]:f32[2,2]:cpu(0)
        >>> pnp.eye(2, 3, k=1, dtype=pnp.int32)
        [[0 1 0]
         [0 0 1]]:i32[2,3]:cpu(0)
    """
    refuse_device(device, "eye")
    return _ones_where("eye", compare.eq, N, M, k, dtype)


def identity(n: int, dtype: DTypeLike = None) -> Array:
    """The identity matrix of shape (n, n).

    Arguments:
        n: how many rows and columns.
        dtype: by default the default floating dtype.

    Returns:
        A matrix of shape (n, n).

    Raises:
        ShapeError: the shape has a negative size.

    Example:
        >>> pnp.identity(2)
        [[1. 0.]
         [0. 1.]]:f32[2,2]:cpu(0)
    """
    return eye(n, dtype=dtype)


def _mask(compares: Any, rows: int, columns: int, k: Any) -> Any:
    """Where column - row compares with k, in a matrix."""
    index = default_dtype("i")
    row, column = [iota(dtype=index, shape=(rows, columns), dimension=axis) for axis in (0, 1)]
    if isinstance(k, Tracer):
        return compares(arithmetic.sub(column, row), in_dtype(k, index))
    near = max(-rows, min(whole(k, "The number of a diagonal, k,"), columns))
    return compares(arithmetic.sub(column, row), literal_of(near, index))


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """Ones on and below the diagonal number `k`, zeros above; of shape (N, M), or (N, N).

    Arguments:
        N, M: how many rows and columns; as many columns as rows by default.
        k: which diagonal; positive ones lie above the main one.
        dtype: by default the default floating dtype.

    Returns:
        A matrix.

    Raises:
        ShapeError: the shape has a negative size.

    Example:
        >>> pnp.tri(2, 3)
        [[1. 0. 0.]
         [1. 1. 0.]]:f32[2,3]:cpu(0)
    """
    return _ones_where("tri", compare.le, N, M, k, dtype)


def _ones_where(name: str, compares: Any, rows: int, columns: int | None, k: int, dtype: DTypeLike) -> Array:
    height, width = checked_shape((rows, rows if columns is None else columns), name)
    return convert_element_type(
        _mask(compares, height, width, k), new_dtype=default_dtype("f") if dtype is None else requested(dtype)
    )


def _triangle(name: str, m: Any, mask_offset: int, keep_below: bool) -> Any:
    m = operand(m, name)
    if m.type.ndim < 2:
        raise ShapeError(f"{name} takes a matrix, or a stack of them, but got {m.type}.{at_user_line()}")
    mask = broadcast(_mask(compare.le, m.type.shape[-2], m.type.shape[-1], mask_offset), m.type.shape)
    zero = literal_of(0, m.type.dtype)
    return compare.select(mask, m, zero) if keep_below else compare.select(mask, zero, m)


@by_numpy(np.tril)
def tril(m: ArrayLike, k: int = 0) -> Array:
    """The lower triangle of a matrix: zeros above the diagonal number `k`. Works on the last two axes.

    Arguments:
        m: an array of shape (..., rows, columns).
        k: which diagonal; positive ones lie above the main one.

    Returns:
        An array of the shape and dtype of m.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: m has fewer than two axes.

    Example:
        >>> pnp.tril(pnp.array([[1, 2], [3, 4]]))
        [[1 0]
         [3 4]]:i32[2,2]:cpu(0)
    """
    return _triangle("tril", m, k, True)


@by_numpy(np.triu)
def triu(m: ArrayLike, k: int = 0) -> Array:
    """The upper triangle of a matrix: zeros below the diagonal number `k`. Works on the last two axes.

    Arguments:
        m: an array of shape (..., rows, columns).
        k: which diagonal; positive ones lie above the main one.

    Returns:
        An array of the shape and dtype of m.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: m has fewer than two axes.

    Example:
        >>> pnp.triu(pnp.array([[1, 2], [3, 4]]), k=1)
        [[0 2]
         [0 0]]:i32[2,2]:cpu(0)
    """
    return _triangle("triu", m, k - 1, False)


@by_numpy(np.diag)
def diag(v: ArrayLike, k: int = 0) -> Array:
    """Of a vector, the matrix with it on the diagonal number `k`; of a matrix, that diagonal.

    Arguments:
        v: an array of one or two axes.
        k: which diagonal; positive ones lie above the main one.

    Returns:
        A matrix of shape (n + |k|, n + |k|), or a vector.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: v has neither one axis nor two.

    Example:
        >>> pnp.diag(pnp.array([1.0, 2.0]))
        [[1. 0.]
         [0. 2.]]:f32[2,2]:cpu(0)
        >>> pnp.diag(pnp.array([[1, 2], [3, 4]]), k=1)
        [2]:i32[1]:cpu(0)
    """
    v, k = operand(v, "diag"), whole(k, "diag's k")
    if v.type.ndim == 2:
        return diagonal(v, k)
    if v.type.ndim != 1:
        raise ShapeError(f"diag takes a vector or a matrix, but got {v.type}.{at_user_line()}")
    size = v.type.shape[0] + abs(k)
    zero = literal_of(0, v.type.dtype)
    padded = shapes.pad(v, zero, padding_config=((max(k, 0), max(-k, 0), 0),))
    spread = broadcast_in_dim(padded, shape=(size, size), broadcast_dimensions=(1,))
    return compare.select(_mask(compare.eq, size, size, k), spread, zero)


@by_numpy(np.diagonal)
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal number `offset` of the matrices that lie in two axes; it becomes the last axis.

    Arguments:
        a: an array of two axes or more.
        offset: which diagonal; positive ones lie above the main one.
        axis1, axis2: the axes of the rows and of the columns.

    Returns:
        An array without the two axes, and with the diagonal's as its last.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: `a` has fewer than two axes.
        AxisError: the array has no such axis, or one is given twice.

    Example:
        >>> pnp.diagonal(pnp.array([[1, 2], [3, 4]]))
        [1 4]:i32[2]:cpu(0)
        >>> pnp.diagonal(pnp.ones((2, 3, 4)), axis1=1, axis2=2).shape
        (2, 3)
    """
    a = operand(a, "diagonal")
    ndim = a.type.ndim
    if ndim < 2:
        raise ShapeError(f"diagonal takes an array of two axes or more, but got {a.type}.{at_user_line()}")
    pair = [normal_axis(axis, ndim, "diagonal") for axis in (axis1, axis2)]
    if pair[0] == pair[1]:
        raise AxisError(f"diagonal takes two different axes, but got {axis1} and {axis2}.{at_user_line()}")
    order = (*[axis for axis in range(ndim) if axis not in pair], *pair)
    a = shapes.transpose(a, permutation=order) if order != tuple(range(ndim)) else a
    *lead, rows, columns = a.type.shape
    offset = whole(offset, "diagonal's offset")
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    if length == 0:
        return zeros((*lead, 0), a.type.dtype)
    # In row-major order the diagonal's elements are columns + 1 apart.
    flat = shapes.reshape(a, new_sizes=(*lead, rows * columns))
    start = offset if offset >= 0 else -offset * columns
    stop = start + (length - 1) * (columns + 1) + 1
    all_of = [(0, size, 1) for size in lead]
    begins, ends, strides = zip(*all_of, (start, stop, columns + 1))
    return shapes.slice(flat, start_indices=begins, limit_indices=ends, strides=strides)


@by_numpy(np.diagflat)
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with the elements of v, in row-major order, on the diagonal number `k`.

    Arguments:
        v: an array of n elements, of any shape.
        k: which diagonal; positive ones lie above the main one.

    Returns:
        A matrix of shape (n + |k|, n + |k|).

    Raises:
        LeafError: an operand is neither an array nor a number.

    Example:
        >>> pnp.diagflat(pnp.array([1, 2]), k=-1)
        [[0 0 0]
         [1 0 0]
         [0 2 0]]:i32[3,3]:cpu(0)
    """
    v = operand(v, "diagflat")
    return diag(shapes.reshape(v, new_sizes=(v.type.size,)), k)


def meshgrid(*xi: ArrayLike, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> list[Array]:
    """The coordinates of a grid: for each vector, an array in which it varies along its own axis.

    Arguments:
        xi: vectors.
        indexing: "xy" has the first vector along the second axis, "ij" along the first.
        sparse: keep the other axes of size 1, to broadcast later.
        copy: True; arrays are immutable, so a view could not be told from one.

    Returns:
        A list of as many arrays as vectors, each with as many axes.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ValueError: `copy` is False, or another `indexing`.

    Example:
        >>> x, y = pnp.meshgrid(pnp.array([1, 2, 3]), pnp.array([10, 20]))
        >>> x + y
        [[11 12 13]
         [21 22 23]]:i32[2,3]:cpu(0)
        >>> [each.shape for each in pnp.meshgrid(pnp.arange(3), pnp.arange(2), indexing="ij", sparse=True)]
        [(3, 1), (1, 2)]
    """
    if not copy:
        raise ValueError("meshgrid(copy=False) would return views, which arrays do not have: leave `copy` out.")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid takes indexing='xy' or 'ij', not {brief(indexing)}.")
    vectors = [operand(x, "meshgrid") for x in xi]
    sizes = [vector.type.size for vector in vectors]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    shape = tuple([sizes[axis] for axis in order])
    out = []
    for vector, axis in zip(vectors, order):
        unit = tuple([vector.type.size if i == axis else 1 for i in range(len(vectors))])
        flat = shapes.reshape(vector, new_sizes=unit)
        out.append(flat if sparse else broadcast(flat, shape))
    return out


def indices(dimensions: Sequence[int], dtype: DTypeLike = None, sparse: bool = False) -> Any:
    """For each axis of a grid, the index along it at each place: an array of shape (number of axes, *dimensions).

    Arguments:
        dimensions: a sequence of ints.
        dtype: by default the default integer dtype.
        sparse: return a tuple of arrays instead, which broadcast to it.

    Returns:
        An array of shape (number of axes, *dimensions).

    Raises:
        ShapeError: the shape has a negative size.

    Example:
        >>> rows, columns = pnp.indices((2, 3))
        >>> rows * 10 + columns
        [[ 0  1  2]
         [10 11 12]]:i32[2,3]:cpu(0)
    """
    shape = checked_shape(dimensions, "indices")
    wanted = default_dtype("i") if dtype is None else requested(dtype)
    grids = meshgrid(*[iota(dtype=wanted, shape=(size,), dimension=0) for size in shape], indexing="ij", sparse=sparse)
    return tuple(grids) if sparse else array(grids, wanted)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy, which outlives the donation of the original. Until then both share their memory: neither can be written to.

    Arguments:
        a: an array or a number.
        order: None, "C", "K" or "A"; arrays have no memory order that could be seen.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ValueError: another `order`.

    Example:
        >>> x = pnp.array([1.0, 2.0])
        >>> y = pnp.copy(x)
        >>> pb.jit(lambda x: x + 1.0, donate_argnums=0)(x)
        [2. 3.]:f32[2]:cpu(0)
        >>> y
        [1. 2.]:f32[2]:cpu(0)
    """
    _check_order(order, "copy")
    a = operand(a, "copy")
    return a.alias() if isinstance(a, Array) else a


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Any = None) -> Array:
    """x in another dtype. Floats become integers by dropping their fraction; complex numbers become real by theirs.

    Arguments:
        x: an array or a number.
        dtype: the dtype of the result.
        copy: whether an array that has the dtype already is copied; else it is returned as it is.
        device: None, or the device that arrays are made on; `pb.device_put` moves arrays to others.

    Returns:
        An array of the shape of x.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ValueError: a device other than that on which arrays are made.

    Example:
        >>> pnp.astype(pnp.array([1.7, -1.7]), pnp.int32)
        [ 1 -1]:i32[2]:cpu(0)
        >>> pnp.astype(pnp.array([0.0, 0.5]), bool)
        [False  True]:bool[2]:cpu(0)
    """
    refuse_device(device, "astype")
    x = operand(x, "astype")
    wanted = x.type.dtype if kind(x.type.dtype) == "k" and canonical(dtype) is x.type.dtype else requested(dtype)
    if x.type.dtype is wanted and not x.type.weak:
        return x.alias() if copy and isinstance(x, Array) else x
    return convert_element_type(x, new_dtype=wanted)
