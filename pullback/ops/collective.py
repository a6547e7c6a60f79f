"""Operations between the batch elements of a named axis: that of a vmap, or of a mesh, whose elements are on devices.

Each is recorded, differentiated and batched as any operation is, until it reaches the vmap that owns its `axis_name`; that one
has its batch elements along axis 0, and works on that axis. The functions below find the owner; inside a jit, it gets them
when the compiled function is batched. Over an axis of a mesh they remain, and are written as operations between devices
(`across`).

With `groups`, which divide the numbers along the axis, each group is as an axis of its own.

A shard_map tells what is the same along its axes from what differs (`parallel/varying.py`). There the cotangent of what a
`psum` gives, which is the same on all devices, is so too, and `psum` and `pvary` are each other's transposes; along a vmap,
where nothing is known of a cotangent, a `psum` is its own.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from pullback.core.axes import Axis, MeshAxis, axis_owner, single_names
from pullback.core.brief import counted
from pullback.core.dtypes import INT32, kind
from pullback.core.errors import AxisError, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.source import at_user_line
from pullback.core.tracing import bind_at, type_of
from pullback.core.types import array_type
from pullback.ops.arithmetic import add, div, mul
from pullback.ops.barrier import computed_once
from pullback.ops.broadcast import reduce_sum
from pullback.ops.compare import eq, select
from pullback.ops.convert import convert_element_type
from pullback.ops.create import iota
from pullback.ops.dynamic import dynamic_slice
from pullback.ops.families import check_kinds
from pullback.ops.index import take
from pullback.ops.literals import literal
from pullback.ops.ordering import from_order, in_order
from pullback.ops.reduce import reduce_max, reduce_min
from pullback.ops.shape import concatenate, in_front, reshape, squeeze, transpose

Groups = tuple[tuple[int, ...], ...] | None


def over(axis_name: Hashable, operation: Any, *args: Any, **params: Any) -> Any:
    """Apply a collective over a named axis, where both its operands and the owner of the axis can see it."""
    params["axis_name"] = axis_name
    operation.infer(tuple([type_of(arg) for arg in args]), params)  # refuses what does not fit, which the owner would not ask
    return bind_at(axis_owner(axis_name), operation, args, params)


def axis_size(axis_name: Hashable) -> int:
    """The number of batch elements of a named axis."""
    return axis_owner(axis_name).axis.size


def place_along(axis_name: Hashable) -> Any:
    """The number of this batch element along an axis; along several, the last one varies fastest."""
    names = single_names(axis_name)
    total = over(names[0], axis_index)
    for name in names[1:]:
        total = add(mul(total, literal(axis_size(name), total)), over(name, axis_index))
    return total


class Collective(Rules):
    """An operation along a named axis. Evaluated, it goes to the owner of the axis, since no operand did."""

    cost = 0
    on_arrays = True
    named_axes = ("axis_name",)
    needs_axis = True

    def sent(operands, results, share, **params):
        return share * sum([x.nbytes for x in operands])

    def evaluate(primitive, *args, **params):
        owner = axis_owner(params["axis_name"])
        return owner.process(primitive, args, params)

    def lower(primitive, write, *args, axis_name, **params):
        owner, named = axis_owner(axis_name), {"axis_name": axis_name, **params}
        if isinstance(owner, MeshAxis):
            if 0 in write.result_type.shape:
                return write.constant(0, write.result_type)
            if owner.axis.size == 1:
                return write.computing(lambda *xs: alone(primitive, owner.axis, xs, named), *args)
        return owner.lower(primitive, write, args, named)

    def samples(rng):
        return iter(())


def alone(primitive: Any, axis: Axis, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """What a collective gives the only element along an axis."""
    batches = [reshape(x, new_sizes=(1, *type_of(x).shape)) for x in args]
    out, place = primitive.vectorize(axis, batches, [0] * len(args), **params)
    return out if place is None else squeeze(out, dimensions=(0,))


class Combination(Collective):
    """Combines the batch elements into one result, the same for all of them."""

    cost = 1

    def sent(operands, results, share, **params):
        return 2 * share * operands[0].nbytes  # around a ring: parts are combined, then the results are handed on

    def agrees(groups=None, **params):
        return groups is None

    def result_type(primitive, x, *, axis_name: Hashable, groups: Groups = None):
        check_kinds(primitive, x)
        return x


def by_owner(*shifted: str) -> Any:
    """Decorator of a collective's batching rule, which is for the vmap that owns its axis. Any other vmap applies the operation
    to whole batches, in which the axes that the parameters `shifted` name lie one further."""

    def decorate(rule: Any) -> Any:
        def vectorize(primitive, batch, args, axes, **params):
            if batch.name == params["axis_name"]:
                groups = params.pop("groups", None)
                return (
                    rule(batch, args, axes, **params) if groups is None else in_groups(rule, batch, args, axes, groups, params)
                )
            moved = {name: params.get(name, 0) + (axes[0] == 0) for name in shifted}
            return over(params.pop("axis_name"), primitive, *args, **(params | moved)), 0 if 0 in axes else None

        return vectorize

    return decorate


def in_groups(rule: Any, batch: Axis, args: Sequence[Any], axes: Sequence[Any], groups: Any, params: dict[str, Any]) -> Any:
    """What a batching rule gives with each group of batch elements as a batch of its own."""
    (x,), (axis,) = args, axes
    x = in_front(x, axis, batch.size)
    parts = []
    for group in groups:
        own = batch._replace(size=len(group))
        out, place = rule(own, [take(x, np.asarray(group, np.int32), 0)], [0], **params)
        parts.append(in_front(out, place, len(group)))
    order = np.argsort([i for group in groups for i in group]).astype(np.int32)
    return take(concatenate(*parts, dimension=0), order, 0), 0


@primitive
class psum(Combination):
    """The sum over the batch elements of a named axis."""

    kinds = "iufc"
    linear = True

    def transpose(cotangent, x, *, axis_name, groups=None):
        if groups is not None:
            return (over(axis_name, psum, cotangent, groups=groups),)
        return (over(axis_name, pvary if axis_owner(axis_name).told else psum, cotangent),)

    @by_owner()
    def vectorize(batch, args, axes, *, axis_name):
        (x,) = args
        return reduce_sum(x, axes=(0,)) if axes[0] == 0 else mul(x, literal(batch.size, x)), None

    def across(write, owner, x, *, groups=None):
        return by_parts(
            write, x, lambda one: write.collective("all_reduce", one, owner.groups(groups), combine="stablehlo.add")
        )


def by_parts(write: Any, x: Any, apply: Any) -> Any:
    """An operation between devices on the real and on the imaginary parts of complex numbers, or on others at once."""
    if kind(x.dtype) != "c":
        return apply(x)
    real = np.empty(0, x.dtype).real.dtype
    parts = [apply(write.convert(x, real, f"stablehlo.{part}")) for part in ("real", "imag")]
    return write.op("stablehlo.complex", parts, x.type.of(shape=parts[0].shape))


@primitive
class pvary(Collective):
    """x, of which each device along a mesh axis is taken to have its own."""

    linear = True
    sent = None  # type: ignore[assignment]

    def result_type(x, *, axis_name: Hashable):
        return x

    def transpose(cotangent, x, *, axis_name):
        return (over(axis_name, psum, cotangent),)

    @by_owner()
    def vectorize(batch, args, axes, *, axis_name):
        return args[0], axes[0]

    def across(write, owner, x):
        return x


class ExtremeOfBatch(Combination):
    """An extreme over the batch elements; those that share it share the derivative equally."""

    def jvp(primitive, primals, tangents, *, axis_name, **groups):
        (x,), (t,) = primals, tangents
        x = computed_once(x)
        out = over(axis_name, primitive, x, **groups)
        chosen = eq(x, out)
        count = over(axis_name, psum, convert_element_type(chosen, new_dtype=type_of(x).dtype), **groups)
        return out, div(over(axis_name, psum, select(chosen, t, literal(0, t)), **groups), count)


def extreme_by(reduction):
    """The batching rule of an extreme over batch elements, at the owner of the axis."""

    @by_owner()
    def vectorize(batch, args, axes, *, axis_name):
        (x,) = args
        return reduction(x, axes=(0,)) if axes[0] == 0 else x, None

    return vectorize


def extreme_across(operation, reduction):
    """The rule of an extreme between devices."""

    def across(write, owner, x, *, groups=None):
        if kind(x.dtype) == "c":  # complex numbers are in an order of their own
            all_of_them = gathered(write, owner, x, 0, groups)
            return write.computing(lambda values: reduction(values, axes=(0,)), all_of_them)
        number = in_order(write, x, operation) if kind(x.dtype) == "f" else x
        number = write.collective("all_reduce", number, owner.groups(groups), combine=operation)
        return number if kind(x.dtype) != "f" else from_order(write, number, x.dtype)

    return across


@primitive
class pmax(ExtremeOfBatch):
    """The maximum over the batch elements of a named axis."""

    vectorize = extreme_by(reduce_max)
    across = extreme_across("stablehlo.maximum", reduce_max)


@primitive
class pmin(ExtremeOfBatch):
    """The minimum over the batch elements of a named axis."""

    vectorize = extreme_by(reduce_min)
    across = extreme_across("stablehlo.minimum", reduce_min)


@primitive
class axis_index(Collective):
    """The number of this batch element along a named axis, an int32."""

    sent = None  # type: ignore[assignment]

    def result_type(*, axis_name: Hashable):
        return array_type((), INT32)

    @by_owner()
    def vectorize(batch, args, axes, *, axis_name):
        return iota(dtype=INT32, shape=(batch.size,), dimension=0), 0

    def across(write, owner):
        if owner.index is not None:
            return owner.index
        uint32 = np.dtype(np.uint32)
        number = write.op("stablehlo.partition_id", [], write.result_type.of(uint32))
        place = owner.mesh.axis_names.index(owner.axis.name)
        for name, divisor in (
            ("divide", owner.mesh.axis_sizes[place + 1 :]),
            ("remainder", owner.mesh.axis_sizes[place : place + 1]),
        ):
            number = write.elementwise(f"stablehlo.{name}", number, write.like(number, math.prod(divisor)))
        return write.convert(number, INT32)


def gathered(write, owner, x, axis, groups):
    """The values of all devices along an axis of a mesh, along a new axis, as it is written."""
    stacked = write.reshaped(x, (*x.shape[:axis], 1, *x.shape[axis:]))
    rows = owner.groups(groups)
    result = x.type.of(shape=(*x.shape[:axis], len(rows[0]), *x.shape[axis:]))
    return write.collective("all_gather", stacked, rows, result, all_gather_dim=f"{axis} : i64")


@primitive
class all_gather(Collective):
    """The values of all `axis_size` batch elements of a named axis, along a new axis `axis`.

    Each device has a copy of its own of the result, whose cotangents are added; if `same`, they have it together.
    """

    linear = True

    def sent(operands, results, share, **params):
        return share * results[0].nbytes

    def agrees(same=False, groups=None, **params):
        return same and groups is None

    def result_type(x, *, axis_name: Hashable, axis_size: int, axis: int = 0, same: bool = False, groups: Groups = None):
        if not 0 <= axis <= x.ndim:
            raise AxisError(f"all_gather of {x} cannot make a new axis at {axis}: it must be one of 0 to {x.ndim}.")
        return x.with_shape((*x.shape[:axis], axis_size, *x.shape[axis:]))

    def transpose(cotangent, x, *, axis_name, axis_size, axis=0, same=False, groups=None):
        if not (same and axis_owner(axis_name).told):
            return (over(axis_name, psum_scatter, cotangent, axis_size=axis_size, axis=axis, **in_parts(groups)),)
        here = place_along(axis_name)
        shape = type_of(cotangent).shape
        zero = literal(0, here)
        starts = [here if i == axis else zero for i in range(len(shape))]
        mine = dynamic_slice(cotangent, *starts, slice_sizes=tuple([1 if i == axis else s for i, s in enumerate(shape)]))
        return (squeeze(mine, dimensions=(axis,)),)

    @by_owner("axis")
    def vectorize(batch, args, axes, *, axis_name, axis_size, axis=0, same=False):
        x = in_front(args[0], axes[0], batch.size)
        rest = list(range(1, type_of(x).ndim))
        return transpose(x, permutation=(*rest[:axis], 0, *rest[axis:])), None

    def across(write, owner, x, *, axis_size, axis=0, same=False, groups=None):
        return gathered(write, owner, x, axis, groups)


def in_parts(groups):
    """The parameter of an operation for groups; none where there are none."""
    return {} if groups is None else {"groups": groups}


@primitive
class psum_scatter(Collective):
    """The sum over the batch elements of a named axis, of which element i gets what lies at i along `axis`."""

    cost = 1
    kinds = "iufc"
    linear = True

    def result_type(primitive, x, *, axis_name: Hashable, axis_size: int, axis: int = 0, groups: Groups = None):
        check_kinds(primitive, x)
        if not 0 <= axis < x.ndim or x.shape[axis] != axis_size:
            raise ShapeError(
                f"psum_scatter of {x} over {counted(axis_size, 'batch element')}: axis {axis} must have that size."
            )
        return x.without((axis,))

    def transpose(cotangent, x, *, axis_name, axis_size, axis=0, groups=None):
        return (over(axis_name, all_gather, cotangent, axis_size=axis_size, axis=axis, **in_parts(groups)),)

    @by_owner("axis")
    def vectorize(batch, args, axes, *, axis_name, axis_size, axis=0):
        (x,) = args
        total = reduce_sum(x, axes=(0,)) if axes[0] == 0 else mul(x, literal(batch.size, x))
        rest = [i for i in range(type_of(total).ndim) if i != axis]
        return transpose(total, permutation=(axis, *rest)), 0

    def across(write, owner, x, *, axis_size, axis=0, groups=None):
        def scatter(one):
            result = one.type.of(shape=tuple([1 if i == axis else size for i, size in enumerate(one.shape)]))
            rows, dimension = owner.groups(groups), f"{axis} : i64"
            return write.collective("reduce_scatter", one, rows, result, combine="stablehlo.add", scatter_dimension=dimension)

        return write.reshaped(by_parts(write, x, scatter), write.result_type.shape)


@primitive
class ppermute(Collective):
    """The value of another batch element: `perm` has (source, destination) pairs; who is no destination gets zeros."""

    linear = True

    def sent(operands, results, share, *, perm, **params):
        moves = sum([source != to for source, to in perm])
        senders = moves / round(1 / (1 - share)) if share < 1 else 1  # of all devices; of how many is not known
        return senders * operands[0].nbytes

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
        check_permutation(batch, perm)
        x = in_front(args[0], axes[0], batch.size)
        if not batch.size:
            return x, 0
        sources = np.full(batch.size, batch.size, np.int32)  # out of range, so filled with zeros
        for source, to in perm:
            sources[to] = source
        return take(x, sources, 0, mode="fill", fill_value=0), 0

    def across(write, owner, x, *, perm):
        check_permutation(owner.axis, perm)
        if not perm:
            return write.constant(0, x.type)
        rows = [(row[source], row[to]) for row in owner.groups() for source, to in perm]
        return write.collective("collective_permute", x, rows)


def check_permutation(axis: Axis, perm: tuple[tuple[int, int], ...]) -> None:
    """Raise `AxisError` unless sources and destinations are numbers along an axis."""
    if any(not 0 <= place < axis.size for pair in perm for place in pair):
        raise AxisError(
            f"ppermute over the {counted(axis.size, 'batch element')} of {axis.name!r} cannot send along perm={perm}: it"
            " must hold"
            f" pairs (source, destination) of numbers from 0 to {axis.size - 1}.{at_user_line()}"
        )


@primitive
class all_to_all(Collective):
    """Batch element i gets the i-th slice along `split_axis` of every batch element, along a new axis `concat_axis`."""

    linear = True

    def result_type(x, *, axis_name: Hashable, axis_size: int, split_axis: int, concat_axis: int, groups: Groups = None):
        if not 0 <= split_axis < x.ndim or not 0 <= concat_axis < x.ndim or x.shape[split_axis] != axis_size:
            raise ShapeError(
                f"all_to_all of {x} over {counted(axis_size, 'batch element')}: split_axis={split_axis} must have that size,"
                f" and concat_axis={concat_axis} be an axis of the result."
            )
        rest = x.without((split_axis,)).shape
        return x.with_shape((*rest[:concat_axis], axis_size, *rest[concat_axis:]))

    def transpose(cotangent, x, *, axis_name, axis_size, split_axis, concat_axis, groups=None):
        swapped = {"split_axis": concat_axis, "concat_axis": split_axis, **in_parts(groups)}
        return (over(axis_name, all_to_all, cotangent, axis_size=axis_size, **swapped),)

    @by_owner("split_axis", "concat_axis")
    def vectorize(batch, args, axes, *, axis_name, axis_size, split_axis, concat_axis):
        x = in_front(args[0], axes[0], batch.size)
        rest = [axis for axis in range(1, type_of(x).ndim) if axis != split_axis + 1]
        return transpose(x, permutation=(split_axis + 1, *rest[:concat_axis], 0, *rest[concat_axis:])), 0

    def across(write, owner, x, *, axis_size, split_axis, concat_axis, groups=None):
        # An axis of size 1 where the devices' slices are to be joined; the axis that was split has size 1 then, and goes.
        place = concat_axis if concat_axis <= split_axis else concat_axis + 1
        split = split_axis + 1 if concat_axis <= split_axis else split_axis
        x = write.reshaped(x, (*x.shape[:place], 1, *x.shape[place:]))
        result = x.type.of(shape=tuple([1 if i == split else axis_size if i == place else s for i, s in enumerate(x.shape)]))
        given = {"split_dimension": split, "concat_dimension": place, "split_count": axis_size}
        attributes = {name: f"{number} : i64" for name, number in given.items()}
        out = write.collective("all_to_all", x, owner.groups(groups), result, **attributes)
        return write.reshaped(out, write.result_type.shape)
