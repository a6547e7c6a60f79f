"""Products of which an axis falls into groups, each multiplied by a matrix of its own, as in a mixture of experts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import DTypeLike, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.lax.arrays import broadcasted_iota, dot_general, refuse_sharding
from pullback.lax.elementwise import lifted
from pullback.lax.sorting import cumsum
from pullback.numpy.indexing import get_item
from pullback.numpy.logic import where
from pullback.numpy.promotion import at_user_line, literal_of
from pullback.numpy.promotion import operand as as_operand
from pullback.numpy.shaping import moveaxis, reshape
from pullback.ops.families import up


class RaggedDotDimensionNumbers(NamedTuple):
    """Which axes are which in a `ragged_dot_general`.

    Attributes:
        dot_dimension_numbers: ((contracting axes of lhs, of rhs), (batch axes of lhs, of rhs)), as of `dot_general`.
        lhs_ragged_dimensions: the one axis of lhs that falls into groups.
        rhs_group_dimensions: the axis of rhs that numbers the groups, where lhs keeps its ragged axis; else none.

    Example:
        >>> lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), [0], [0]).lhs_ragged_dimensions
        [0]
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    group_offset: ArrayLike | None = None,
    out_sharding: None = None,
) -> Array:
    """Rows multiplied by the matrix of the group that they are in: the first group's rows come first, and so on.

    Arguments:
        lhs: an array of shape (m, k).
        rhs: an array of shape (g, k, n): a matrix for each group.
        group_sizes: g integers, how many rows each group has. Rows of no group give zeros.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.
        group_offset: an integer, or a vector of one: the number of the first group that `rhs` has a matrix for, where
            `group_sizes` counts more groups.
        out_sharding: None: there is one device.

    Returns:
        An array of shape (m, n). It costs as much as multiplying all rows by each matrix.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes of lhs and rhs have no common one, or `group_sizes` are not integers.
        ShapeError: the shapes do not fit.
        ValueError: an unknown `precision`.

    Example:
        >>> experts = pnp.array([[[1.0]], [[10.0]]])
        >>> lax.ragged_dot(pnp.array([[1.0], [2.0], [3.0]]), experts, pnp.array([1, 2]))
        [[ 1.]
         [20.]
         [30.]]:f32[3,1]:cpu(0)
    """
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(lhs, rhs, group_sizes, numbers, precision, preferred_element_type, group_offset, out_sharding)


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    group_offset: ArrayLike | None = None,
    out_sharding: None = None,
) -> Array:
    """`dot_general` with an axis of lhs that falls into groups, one after the other.

    If that axis remains, each group is multiplied by its part of rhs along `rhs_group_dimensions`. If it is contracted, there
    is a product for each group, along a new axis in front. If it is a batch axis, groups make no difference.

    Arguments:
        lhs, rhs: arrays. Of different dtypes, as for `dot_general`.
        group_sizes: the sizes of the groups, a vector of integers; or one for each batch element, of shape (batch axes, g); or
            with the axes before g also of those that come before the ragged axis and are contracted or remain as it does.
        ragged_dot_dimension_numbers: a `RaggedDotDimensionNumbers`: which axes are which.
        precision, preferred_element_type, group_offset, out_sharding: as for `ragged_dot`.

    Returns:
        An array of the batch axes, the other axes of lhs, and those of rhs; with the groups in front where there is a product
        for each.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes of lhs and rhs have no common one, or `group_sizes` are not integers.
        ShapeError: the shapes do not fit, or there is not one ragged axis.
        TypeError: other dimension numbers. ValueError: an unknown `precision`.

    Example:
        >>> numbers = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), [0], [])
        >>> lax.ragged_dot_general(pnp.ones((3, 1)), pnp.array([[1.0], [2.0], [3.0]]), pnp.array([1, 2]), numbers)
        [[[1.]]
        <BLANKLINE>
         [[5.]]]:f32[2,1,1]:cpu(0)
    """
    name, numbers = "ragged_dot_general", ragged_dot_dimension_numbers
    refuse_sharding(name, out_sharding)
    if not isinstance(numbers, RaggedDotDimensionNumbers):
        raise TypeError(f"{name} takes lax.RaggedDotDimensionNumbers, but got {brief(numbers)}.{at_user_line()}")
    (x, y), sizes = lifted(name, (lhs, rhs)), as_operand(group_sizes, name)
    if kind(sizes.type.dtype) not in "iu":
        raise DtypeError(f"{name} takes integers as group_sizes, but got {sizes.type}.{at_user_line()}")
    (left, right), (left_batch, right_batch) = numbers.dot_dimension_numbers
    for fault in _faults(x.type.ndim, y.type.ndim, numbers):
        raise ShapeError(f"{name} of {x.type} and {y.type}: {fault}. Given were {numbers}.{at_user_line()}")
    (ragged,), groups = numbers.lhs_ragged_dimensions, tuple(numbers.rhs_group_dimensions)
    remains = bool(groups)
    along = (*left_batch, *_before(ragged, left, left_batch))
    prefixes = [tuple([x.type.shape[axis] for axis in axes]) for axes in ((), left_batch, along)]
    if sizes.type.shape[:-1] not in prefixes or not sizes.type.ndim:
        shapes = " or ".join([f"({', '.join([*map(str, prefix), 'g'])})" for prefix in dict.fromkeys(prefixes)])
        raise ShapeError(
            f"{name} of {x.type} and {y.type} takes group_sizes of shape {shapes}, where g is the number of groups, but got"
            f" {sizes.type}.{at_user_line()}"
        )
    if ragged in left_batch:
        return dot_general(x, y, numbers.dot_dimension_numbers, precision, preferred_element_type)
    batch = along[: sizes.type.ndim - 1]
    count = sizes.type.shape[-1]
    ends = cumsum(sizes, sizes.type.ndim - 1)
    member = _members(x, ends - sizes, ends, ragged, batch)
    if group_offset is not None:
        first = reshape(as_operand(group_offset, name), ())
        count = y.type.shape[groups[0]] if remains else count
        member = get_item(member, first + _counted(count))
    elif remains and y.type.shape[groups[0]] != count:
        raise ShapeError(
            f"{name}: {y.type} has not one part for each of {counted(count, 'group')} along axis {groups[0]}: it must"
            f" have {count} there.{at_user_line()}"
        )
    apart = where(member, reshape(x, (1, *x.type.shape)), literal_of(0, x.type.dtype))
    first_axes, batches = up(left), (up(left_batch), tuple(right_batch))
    if remains:
        contracting = ((0, *first_axes), (*groups, *right))
        return dot_general(apart, y, (contracting, batches), precision, preferred_element_type)
    out = dot_general(apart, y, ((first_axes, right), batches), precision, preferred_element_type)
    return moveaxis(out, len(left_batch), 0)


def _before(ragged: int, left: Sequence[int], batch: Sequence[int]) -> list[int]:
    """The axes before the ragged one that are no batch axes, and are contracted if it is."""
    return [axis for axis in range(ragged) if axis not in batch and (axis in left) == (ragged in left)]


def _faults(left_ndim: int, right_ndim: int, numbers: RaggedDotDimensionNumbers) -> Iterator[str]:
    """What does not fit, in words."""
    (left, right), (left_batch, right_batch) = numbers.dot_dimension_numbers
    ragged, groups = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    if len(ragged) != 1 or not 0 <= ragged[0] < left_ndim:
        yield f"lhs_ragged_dimensions takes one of the axes 0 to {left_ndim - 1} of lhs, but got {[*ragged]}"
    remains = not {*left, *left_batch} & {*ragged}
    if not remains and groups:
        yield (
            "the ragged axis is contracted, or a batch axis, so that no axis of rhs numbers the groups, but"
            f" rhs_group_dimensions={[*groups]}"
        )
    if remains and (len(groups) != 1 or not 0 <= groups[0] < right_ndim):
        yield f"rhs_group_dimensions takes the axis of rhs, of 0 to {right_ndim - 1}, that numbers groups, but got {[*groups]}"
    if {*groups} & {*right, *right_batch}:
        yield f"axis {groups[0]} of rhs numbers the groups, so it is neither contracted nor a batch axis"


def _counted(count: int) -> Any:
    return broadcasted_iota("int32", (count,), 0)


def _members(x: Any, starts: Any, ends: Any, ragged: int, batch: Sequence[int]) -> Any:
    """For each group, whose axis stands in front, whether an element of x is in it, by its place along the ragged axis."""
    own = tuple([size if axis in batch else 1 for axis, size in enumerate(x.type.shape)])
    shape = own if starts.type.ndim > 1 else (1,) * x.type.ndim
    row = reshape(_counted(x.type.shape[ragged]), (1, *[-1 if axis == ragged else 1 for axis in range(x.type.ndim)]))

    def in_front(limits: Any) -> Any:
        last = moveaxis(limits, -1, 0)
        order = sorted(range(len(batch)), key=lambda i: batch[i])
        return reshape(last.transpose(0, *up(order)) if limits.type.ndim > 1 else last, (-1, *shape))

    return (in_front(starts) <= row) & (row < in_front(ends))
