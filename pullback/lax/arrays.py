"""The other primitives as functions, with the signatures that they are known by."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import DTypeLike, canonical, default_dtype, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.trees import array_leaves, unflatten
from pullback.core.types import ShapeLike
from pullback.lax.elementwise import lifted
from pullback.numpy import creation, indexing, shaping
from pullback.numpy.axes import normal_axis
from pullback.numpy.promotion import at_user_line, check_precision, in_dtype, literal_of
from pullback.numpy.promotion import operand as as_operand
from pullback.ops import broadcast as broadcasts
from pullback.ops import contract, convert, create, dynamic, index, reduce
from pullback.ops import shape as shapes
from pullback.ops.stop_gradient import stop_gradient as _stop_gradient


def stop_gradient(x: Any) -> Any:
    """x, as a constant to differentiation: its derivative is zero. Takes trees.

    Example:
        >>> import pullback as pb
        >>> pb.grad(lambda x: x * pb.lax.stop_gradient(x))(3.0)
        3.0:f32[]:cpu(0)
    """
    leaves, structure = array_leaves(x, lambda: "stop_gradient's argument")
    return unflatten(structure, [_stop_gradient(leaf) for leaf in leaves])


def reshape(operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Array:
    """The elements, in row-major order (of the axes taken in the order `dimensions`), in another shape."""
    x = as_operand(operand, "reshape")
    if dimensions is not None:
        x = transpose(x, dimensions)
    return shapes.reshape(x, new_sizes=tuple(map(operator.index, new_sizes)))


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """The axes in another order."""
    return shapes.transpose(as_operand(operand, "transpose"), permutation=tuple(permutation))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Without these axes of size 1."""
    x = as_operand(array, "squeeze")
    return shapes.squeeze(x, dimensions=tuple(normal_axis(axis, x.type.ndim, "squeeze") for axis in dimensions))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """With new axes of size 1."""
    return shaping.expand_dims(array, tuple(dimensions))


def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Arrays of one dtype joined along an axis."""
    return shapes.concatenate(*[as_operand(x, "concatenate") for x in operands], dimension=dimension)


def broadcast(operand: ArrayLike, sizes: Sequence[int]) -> Array:
    """Repeated along new axes in front."""
    x = as_operand(operand, "broadcast")
    shape = (*map(operator.index, sizes), *x.type.shape)
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - x.type.ndim, len(shape))))


def broadcast_in_dim(operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Array:
    """In a larger shape: axis i becomes axis `broadcast_dimensions[i]`."""
    x = as_operand(operand, "broadcast_in_dim")
    return broadcasts.broadcast_in_dim(
        x, shape=tuple(map(operator.index, shape)), broadcast_dimensions=tuple(broadcast_dimensions)
    )


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """In another dtype."""
    x = as_operand(operand, "convert_element_type")
    wanted = canonical(new_dtype)
    return x if x.type.dtype is wanted and not x.type.weak else convert.convert_element_type(x, new_dtype=wanted)


def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The bits read as another dtype."""
    return convert.bitcast_convert_type(as_operand(operand, "bitcast_convert_type"), new_dtype=canonical(new_dtype))


def iota(dtype: DTypeLike, size: int) -> Array:
    """0, 1, 2, ..., size - 1."""
    return create.iota(dtype=canonical(dtype), shape=(operator.index(size),), dimension=0)


def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int) -> Array:
    """An array that counts along one axis."""
    return create.iota(dtype=canonical(dtype), shape=tuple(map(operator.index, shape)), dimension=dimension)


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike = None) -> Array:
    """An array filled with one value."""
    return creation.full(tuple(shape), fill_value, dtype)


def full_like(x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike = None, shape: ShapeLike | None = None) -> Array:
    """An array of the shape and dtype of x, filled with one value."""
    return creation.full_like(x, fill_value, dtype, shape)


def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """With (low, high, interior) elements added along each axis; negative ones take elements away."""
    x, value = lifted("pad", (operand, padding_value))
    return shapes.pad(x, value, padding_config=tuple([tuple(one) for one in padding_config]))


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """In reverse order along axes."""
    return shapes.rev(as_operand(operand, "rev"), dimensions=tuple(dimensions))


def slice(
    operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int] | None = None
) -> Array:
    """The elements from start to limit along each axis, every stride-th."""
    return shapes.slice(
        as_operand(operand, "slice"),
        start_indices=tuple(start_indices),
        limit_indices=tuple(limit_indices),
        strides=None if strides is None else tuple(strides),
    )


def slice_in_dim(operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0) -> Array:
    """`slice` along one axis; None for its start or end, and negative indices count from the end."""
    x = as_operand(operand, "slice_in_dim")
    along = normal_axis(axis, x.type.ndim, "slice_in_dim")
    start, stop, step = builtins.slice(start_index, limit_index, stride).indices(x.type.shape[along])
    starts = [start if i == along else 0 for i in range(x.type.ndim)]
    stops = [max(start, stop) if i == along else size for i, size in enumerate(x.type.shape)]
    steps = [step if i == along else 1 for i in range(x.type.ndim)]
    return slice(x, starts, stops, steps if step != 1 else None)


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """One index along an axis, which is kept (of size 1) or not."""
    x = as_operand(operand, "index_in_dim")
    along = normal_axis(axis, x.type.ndim, "index_in_dim")
    size = x.type.shape[along]
    if not -size <= index < size:
        raise IndexError(f"index_in_dim: index {index} is out of bounds for axis {axis} of {x.type}.")
    out = shaping.cut(x, along, index % size, index % size + 1)
    return out if keepdims else shapes.squeeze(out, dimensions=(along,))


def _starts(x: Any, start_indices: Any, name: str) -> list[Any]:
    given = shaping.unstack(start_indices) if getattr(start_indices, "ndim", 0) == 1 else list(start_indices)
    if len(given) != x.type.ndim:
        raise ShapeError(f"{name} takes a start for each axis of {x.type}, but got {len(given)}.")
    dtype = default_dtype("i")
    out = []
    for start, size in zip(given, x.type.shape):
        if isinstance(start, int):
            out.append(literal_of(start + size if start < 0 else start, dtype))
        else:
            place = as_operand(start, name)
            if kind(place.type.dtype) not in "iu":
                raise DtypeError(
                    f"{name} takes integer start indices, but got {place.type}. Convert with .astype(int).{at_user_line()}"
                )
            out.append(in_dtype(indexing.from_end(place, size), dtype))
    return out


def dynamic_slice(operand: ArrayLike, start_indices: ArrayLike | Sequence[ArrayLike], slice_sizes: Sequence[int]) -> Array:
    """A block of fixed sizes at traced start indices; it is moved inside where it would not fit.

    Example:
        >>> import pullback as pb
        >>> pb.lax.dynamic_slice(pb.numpy.arange(5), (1,), (3,))
        [1 2 3]:i32[3]:cpu(0)
    """
    x = as_operand(operand, "dynamic_slice")
    return dynamic.dynamic_slice(x, *_starts(x, start_indices, "dynamic_slice"), slice_sizes=tuple(slice_sizes))


def dynamic_slice_in_dim(operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0) -> Array:
    """`dynamic_slice` along one axis."""
    x = as_operand(operand, "dynamic_slice_in_dim")
    along = normal_axis(axis, x.type.ndim, "dynamic_slice_in_dim")
    starts = [start_index if i == along else 0 for i in range(x.type.ndim)]
    return dynamic_slice(x, starts, [slice_size if i == along else size for i, size in enumerate(x.type.shape)])


def dynamic_index_in_dim(operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True) -> Array:
    """One traced index along an axis."""
    x = as_operand(operand, "dynamic_index_in_dim")
    along = normal_axis(axis, x.type.ndim, "dynamic_index_in_dim")
    out = dynamic_slice_in_dim(x, index, 1, along)
    return out if keepdims else shapes.squeeze(out, dimensions=(along,))


def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: ArrayLike | Sequence[ArrayLike]) -> Array:
    """The array with a block replaced, at traced start indices."""
    x = as_operand(operand, "dynamic_update_slice")
    starts = _starts(x, start_indices, "dynamic_update_slice")
    return dynamic.dynamic_update_slice(x, as_operand(update, "dynamic_update_slice"), *starts)


def dynamic_update_slice_in_dim(operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int) -> Array:
    """`dynamic_update_slice` along one axis."""
    x = as_operand(operand, "dynamic_update_slice_in_dim")
    along = normal_axis(axis, x.type.ndim, "dynamic_update_slice_in_dim")
    return dynamic_update_slice(x, update, [start_index if i == along else 0 for i in range(x.type.ndim)])


def dynamic_update_index_in_dim(operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int) -> Array:
    """The array with one index along an axis replaced."""
    x, new = as_operand(operand, "dynamic_update_index_in_dim"), as_operand(update, "dynamic_update_index_in_dim")
    along = normal_axis(axis, x.type.ndim, "dynamic_update_index_in_dim")
    if new.type.ndim < x.type.ndim:
        new = shaping.expand_dims(new, along)
    return dynamic_update_slice_in_dim(x, new, index, along)


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sums of products over pairs of axes: `dimension_numbers` is ((contracting of lhs, of rhs), (batch of lhs, of rhs)).

    `precision` is a lower bound: None, "default", "high" or "highest" (of both operands, or a pair). Products on the CPU are
    computed in the full precision of their dtype.
    """
    check_precision(precision, "dot_general")
    (left, right), (left_batch, right_batch) = dimension_numbers
    numbers = ((tuple(left), tuple(right)), (tuple(left_batch), tuple(right_batch)))
    params = {} if preferred_element_type is None else {"preferred_element_type": canonical(preferred_element_type)}
    return contract.dot_general(*lifted("dot_general", (lhs, rhs)), dimension_numbers=numbers, **params)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """The product of vectors and matrices; with `dimension_numbers`, `dot_general`."""
    x, y = lifted("dot", (lhs, rhs))
    if dimension_numbers is None:
        if not 1 <= x.type.ndim <= 2 or not 1 <= y.type.ndim <= 2:
            raise ShapeError(f"dot takes vectors and matrices, but got {x.type} and {y.type}.")
        dimension_numbers = (((x.type.ndim - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Matrix products along equal leading axes."""
    x, y = lifted("batch_matmul", (lhs, rhs))
    batch = tuple(range(x.type.ndim - 2))
    return dot_general(x, y, (((x.type.ndim - 1,), (x.type.ndim - 2,)), (batch, batch)), precision)


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: Any,
    slice_sizes: Sequence[int],
    *,
    mode: str = "clip",
    fill_value: ArrayLike | None = None,
) -> Array:
    """Windows at the index vectors along the last axis of `start_indices`."""
    params: dict[str, Any] = {} if fill_value is None else {"fill_value": fill_value}
    return index.gather(
        as_operand(operand, "gather"),
        as_operand(start_indices, "gather"),
        dimension_numbers=dimension_numbers,
        slice_sizes=tuple(slice_sizes),
        mode=mode,
        **params,
    )


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index along an axis of the first largest element."""
    return reduce.argmax(as_operand(operand, "argmax"), axis=axis, index_dtype=canonical(index_dtype))


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """The index along an axis of the first smallest element."""
    return reduce.argmin(as_operand(operand, "argmin"), axis=axis, index_dtype=canonical(index_dtype))


def _reduction(name: str, primitive: Any) -> Callable[[Any, Sequence[int]], Any]:
    def function(operand: Any, axes: Sequence[int]) -> Any:
        return primitive(as_operand(operand, name), axes=tuple(axes))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = primitive.__doc__
    return function


reduce_sum = _reduction("reduce_sum", broadcasts.reduce_sum)
reduce_prod = _reduction("reduce_prod", reduce.reduce_prod)
reduce_max = _reduction("reduce_max", reduce.reduce_max)
reduce_min = _reduction("reduce_min", reduce.reduce_min)
reduce_and = _reduction("reduce_and", reduce.reduce_and)
reduce_or = _reduction("reduce_or", reduce.reduce_or)
reduce_xor = _reduction("reduce_xor", reduce.reduce_xor)
