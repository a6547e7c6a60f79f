"""Operations between the batch elements of a named vmap axis.

Each is recorded, differentiated and batched as any operation is, until it reaches the vmap that owns its `axis_name`; that one
has its batch elements along axis 0, and works on that axis. The functions below find the owner; inside a jit, it gets them
when the compiled function is batched.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from pullback.core.axes import axis_owner
from pullback.core.dtypes import INT32
from pullback.core.errors import AxisError, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import bind_at, type_of
from pullback.core.types import array_type
from pullback.ops.arithmetic import div, mul
from pullback.ops.barrier import computed_once
from pullback.ops.broadcast import reduce_sum
from pullback.ops.compare import eq, select
from pullback.ops.convert import convert_element_type
from pullback.ops.create import iota
from pullback.ops.dynamic import dynamic_slice
from pullback.ops.families import check_kinds
from pullback.ops.index import take
from pullback.ops.literals import literal
from pullback.ops.reduce import reduce_max, reduce_min
from pullback.ops.shape import in_front, squeeze, transpose


def over(axis_name: Hashable, operation: Any, *args: Any, **params: Any) -> Any:
    """Apply a collective over a named axis, where both its operands and the owner of the axis can see it."""
    params["axis_name"] = axis_name
    operation.infer(tuple([type_of(arg) for arg in args]), params)  # refuses what does not fit, which the owner would not ask
    return bind_at(axis_owner(axis_name), operation, args, params)


def axis_size(axis_name: Hashable) -> int:
    """The number of batch elements of a named axis."""
    return axis_owner(axis_name).axis.size


class Collective(Rules):
    """An operation along a named axis. Evaluated, it goes to the owner of the axis, since no operand did."""

    on_arrays = True
    named_axes = ("axis_name",)
    needs_axis = True

    def evaluate(primitive, *args, **params):
        owner = axis_owner(params["axis_name"])
        return owner.process(primitive, args, params)

    def lower(primitive, write, *args, axis_name, **params):
        return axis_owner(axis_name).lower(primitive, write, args, {"axis_name": axis_name, **params})

    def samples(rng):
        return iter(())


class Combination(Collective):
    """Combines the batch elements into one result, the same for all of them."""

    def result_type(primitive, x, *, axis_name: Hashable):
        check_kinds(primitive, x)
        return x


def by_owner(*shifted: str) -> Any:
    """Decorator of a collective's batching rule, which is for the vmap that owns its axis. Any other vmap applies the operation
    to whole batches, in which the axes that the parameters `shifted` name lie one further."""

    def decorate(rule: Any) -> Any:
        def vectorize(primitive, batch, args, axes, **params):
            if batch.name == params["axis_name"]:
                return rule(batch, args, axes, **params)
            moved = {name: params.get(name, 0) + (axes[0] == 0) for name in shifted}
            return over(params.pop("axis_name"), primitive, *args, **(params | moved)), 0 if 0 in axes else None

        return vectorize

    return decorate


@primitive
class psum(Combination):
    """The sum over the batch elements of a named axis."""

    kinds = "iufc"
    linear = True

    def transpose(cotangent, x, *, axis_name):
        return (over(axis_name, psum, cotangent),)

    @by_owner()
    def vectorize(batch, args, axes, *, axis_name):
        (x,) = args
        return reduce_sum(x, axes=(0,)) if axes[0] == 0 else mul(x, literal(batch.size, x)), None


class ExtremeOfBatch(Combination):
    """An extreme over the batch elements; those that share it share the derivative equally."""

    def jvp(primitive, primals, tangents, *, axis_name):
        (x,), (t,) = primals, tangents
        x = computed_once(x)
        out = over(axis_name, primitive, x)
        chosen = eq(x, out)
        count = over(axis_name, psum, convert_element_type(chosen, new_dtype=type_of(x).dtype))
        return out, div(over(axis_name, psum, select(chosen, t, literal(0, t))), count)


def extreme_by(reduction):
    """The batching rule of an extreme over batch elements, at the owner of the axis."""

    @by_owner()
    def vectorize(batch, args, axes, *, axis_name):
        (x,) = args
        return reduction(x, axes=(0,)) if axes[0] == 0 else x, None

    return vectorize


@primitive
class pmax(ExtremeOfBatch):
    """The maximum over the batch elements of a named axis."""

    vectorize = extreme_by(reduce_max)


@primitive
class pmin(ExtremeOfBatch):
    """The minimum over the batch elements of a named axis."""

    vectorize = extreme_by(reduce_min)


@primitive
class axis_index(Collective):
    """The number of this batch element along a named axis, an int32."""

    def result_type(*, axis_name: Hashable):
        return array_type((), INT32)

    @by_owner()
    def vectorize(batch, args, axes, *, axis_name):
        return iota(dtype=INT32, shape=(batch.size,), dimension=0), 0


@primitive
class all_gather(Collective):
    """The values of all `axis_size` batch elements of a named axis, along a new axis `axis`."""

    linear = True

    def result_type(x, *, axis_name: Hashable, axis_size: int, axis: int = 0):
        if not 0 <= axis <= x.ndim:
            raise AxisError(f"all_gather of {x} cannot make a new axis at {axis}.")
        return x.with_shape((*x.shape[:axis], axis_size, *x.shape[axis:]))

    def transpose(cotangent, x, *, axis_name, axis_size, axis=0):
        total = over(axis_name, psum, cotangent)
        here = over(axis_name, axis_index)
        shape = type_of(total).shape
        zero = literal(0, here)
        starts = [here if i == axis else zero for i in range(len(shape))]
        mine = dynamic_slice(total, *starts, slice_sizes=tuple([1 if i == axis else s for i, s in enumerate(shape)]))
        return (squeeze(mine, dimensions=(axis,)),)

    @by_owner("axis")
    def vectorize(batch, args, axes, *, axis_name, axis_size, axis=0):
        x = in_front(args[0], axes[0], batch.size)
        rest = list(range(1, type_of(x).ndim))
        return transpose(x, permutation=(*rest[:axis], 0, *rest[axis:])), None


@primitive
class ppermute(Collective):
    """The value of another batch element: `perm` has (source, destination) pairs; who is no destination gets zeros."""

    linear = True

    def result_type(x, *, axis_name: Hashable, perm: tuple[tuple[int, int], ...]):
        if len({source for source, _ in perm}) < len(perm) or len({to for _, to in perm}) < len(perm):
            raise ShapeError(
                f"ppermute takes each batch element at most once as source and once as destination, not perm={perm}."
            )
        return x

    def transpose(cotangent, x, *, axis_name, perm):
        back = tuple([(to, source) for source, to in perm])
        return (over(axis_name, ppermute, cotangent, perm=back),)

    @by_owner()
    def vectorize(batch, args, axes, *, axis_name, perm):
        if any(not 0 <= place < batch.size for pair in perm for place in pair):
            raise AxisError(f"ppermute over the {batch.size} batch elements of {axis_name!r} cannot send along perm={perm}.")
        x = in_front(args[0], axes[0], batch.size)
        if not batch.size:
            return x, 0
        sources = np.full(batch.size, batch.size, np.int32)  # out of range, so filled with zeros
        for source, to in perm:
            sources[to] = source
        return take(x, sources, 0, mode="fill", fill_value=0), 0


@primitive
class all_to_all(Collective):
    """Batch element i gets the i-th slice along `split_axis` of every batch element, along a new axis `concat_axis`."""

    linear = True

    def result_type(x, *, axis_name: Hashable, axis_size: int, split_axis: int, concat_axis: int):
        if not 0 <= split_axis < x.ndim or not 0 <= concat_axis < x.ndim or x.shape[split_axis] != axis_size:
            raise ShapeError(
                f"all_to_all of {x} over {axis_size} batch elements: split_axis={split_axis} must have that size, and"
                f" concat_axis={concat_axis} be an axis of the result."
            )
        rest = x.without((split_axis,)).shape
        return x.with_shape((*rest[:concat_axis], axis_size, *rest[concat_axis:]))

    def transpose(cotangent, x, *, axis_name, axis_size, split_axis, concat_axis):
        swapped = {"split_axis": concat_axis, "concat_axis": split_axis}
        return (over(axis_name, all_to_all, cotangent, axis_size=axis_size, **swapped),)

    @by_owner("split_axis", "concat_axis")
    def vectorize(batch, args, axes, *, axis_name, axis_size, split_axis, concat_axis):
        x = in_front(args[0], axes[0], batch.size)
        rest = [axis for axis in range(1, type_of(x).ndim) if axis != split_axis + 1]
        return transpose(x, permutation=(split_axis + 1, *rest[:concat_axis], 0, *rest[concat_axis:])), 0
