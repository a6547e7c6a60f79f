"""Operations across the batch elements of a named axis: `vmap(f, axis_name="i")` names one, and the axes of a mesh are so
in a `shard_map`. They take trees."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import from_python
from pullback.core.axes import Axis, as_one, axis_owner, single_names, told_axes
from pullback.core.brief import brief, counted
from pullback.core.dtypes import INT32, accumulation_dtype, kind
from pullback.core.errors import AxisError, ShapeError
from pullback.core.source import at_user_line
from pullback.core.trees import array_leaves, unflatten
from pullback.numpy.axes import normal_axis, several
from pullback.numpy.creation import asarray, zeros_like
from pullback.numpy.logic import where
from pullback.numpy.promotion import PYTHON_SCALARS, in_dtype, literal_of, to_inexact
from pullback.numpy.shaping import moveaxis
from pullback.ops import arithmetic, collective
from pullback.ops.collective import over
from pullback.ops.convert import convert_element_type
from pullback.ops.shape import reshape
from pullback.ops.varying import vary


def _over(name: str, axis_name: Any, x: Any, apply: Callable[..., Any], groups: Any = None, uneven: bool = False) -> Any:
    names = as_one(several(axis_name))
    given = _in_groups(name, names, groups, uneven)
    leaves, structure = array_leaves(x, lambda: f"{name}'s argument")
    for one in names:
        leaves = [apply(leaf, one, **given) for leaf in leaves]
    return unflatten(structure, leaves)


def _in_groups(name: str, names: Sequence[Hashable], groups: Any, uneven: bool = False) -> dict[str, Any]:
    """The parameter for `axis_index_groups`; none if there are none. Raises `ValueError` unless each number along the axis is
    in one of them, and all are of one size; they need not be, if it can be `uneven`."""
    if groups is None:
        return {}
    if len(names) != 1:
        raise AxisError(
            f"{name} with axis_index_groups takes one named axis, or several of one mesh, not {brief(tuple(names))}."
        )
    size = axis_size(names[0])
    found = tuple([tuple([operator.index(number) for number in group]) for group in groups])
    wrong = sorted([number for group in found for number in group]) != list(range(size)) or () in found
    if wrong or (not uneven and _differ_in_size({"groups": found})):
        raise ValueError(
            f"{name}'s axis_index_groups must have each of the numbers 0 to {size - 1} of the axis {names[0]!r} in one group,"
            f" none empty{'' if uneven else ', and groups of one size'}, but are {brief(groups)}."
        )
    return {"groups": found}


def _differ_in_size(given: dict[str, Any]) -> bool:
    return bool(given) and len({len(group) for group in given["groups"]}) > 1


def _count(axis_name: Any, given: dict[str, Any]) -> int:
    """How many batch elements there are along an axis, or in each group."""
    return len(given["groups"][0]) if given else axis_size(axis_name)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The sum over the batch elements of a named axis (or of several, in a tuple); a Python number times their count.

    Booleans are counted, in int32.

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis, or several in a tuple.
        axis_index_groups: lists of numbers along the axis, of one length, each number once: each group is as an axis of its
            own.

    Returns:
        The same tree; an array in it is the same for all batch elements.

    Raises:
        AxisNameError: there is no axis of that name.
        LeafError: a leaf is neither an array nor a number.
        ValueError: `axis_index_groups` are no such groups.

    Example:
        >>> pb.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(pnp.array([1.0, 3.0]))
        [0.25 0.75]:f32[2]:cpu(0)
        >>> pb.vmap(lambda x: lax.psum(1, "i"), axis_name="i", out_axes=None)(pnp.zeros(5))
        5:i32[]:cpu(0)
    """
    if x.__class__ in PYTHON_SCALARS:
        names = as_one(several(axis_name))
        given = _in_groups("psum", names, axis_index_groups, uneven=True)
        if not _differ_in_size(given):
            return math.prod([_count(name, given) for name in names], start=x)
    return _over(
        "psum",
        axis_name,
        x,
        lambda leaf, name, **given: over(name, collective.psum, _counted(leaf), **given),
        axis_index_groups,
        uneven=True,
    )


def _counted(x: Any) -> Any:
    """Booleans as int32, which can be summed."""
    return convert_element_type(x, new_dtype=INT32) if kind(x.type.dtype) == "b" else x


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The mean over the batch elements of a named axis.

    Arguments:
        x: a tree of arrays and numbers; integers become the default floating dtype.
        axis_name: the name of an axis, or several in a tuple.
        axis_index_groups: lists of numbers along the axis, of one length, each number once: each group is as an axis of its
            own.

    Returns:
        The same tree; an array in it is the same for all batch elements.

    Raises:
        AxisNameError: there is no axis of that name.
        LeafError: a leaf is neither an array nor a number.
        ValueError: `axis_index_groups` are no such groups.

    Example:
        >>> pb.vmap(lambda x: x - lax.pmean(x, "i"), axis_name="i")(pnp.array([1.0, 3.0]))
        [-1.  1.]:f32[2]:cpu(0)
    """

    def mean(leaf: Any, name: Hashable, **given: Any) -> Any:
        leaf = to_inexact(leaf, "pmean")
        total = over(name, collective.psum, in_dtype(leaf, accumulation_dtype(leaf.type.dtype)), **given)
        if _differ_in_size(given):
            count = over(name, collective.psum, literal_of(1, total.type.dtype), **given)
        else:
            count = literal_of(_count(name, given), total.type.dtype)
        return in_dtype(arithmetic.div(total, count), leaf.type.dtype)

    return _over("pmean", axis_name, x, mean, axis_index_groups, uneven=True)


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The largest over the batch elements of a named axis.

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis, or several in a tuple.
        axis_index_groups: lists of numbers along the axis, of one length, each number once: each group is as an axis of its
            own.

    Returns:
        The same tree; an array in it is the same for all batch elements.

    Raises:
        AxisNameError: there is no axis of that name.
        LeafError: a leaf is neither an array nor a number.
        ValueError: `axis_index_groups` are no such groups.

    Example:
        >>> pb.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(pnp.array([1.0, 3.0]))
        [3. 3.]:f32[2]:cpu(0)
    """
    return _extreme("pmax", collective.pmax, axis_name, x, axis_index_groups)


def _extreme(name: str, primitive: Any, axis_name: Any, x: Any, groups: Any) -> Any:
    def extreme(leaf: Any, axis: Hashable, **given: Any) -> Any:
        if kind(leaf.type.dtype) == "c" and _differ_in_size(given):
            raise ValueError(f"{name} of complex numbers takes axis_index_groups of one size, not {brief(groups)}.")
        return over(axis, primitive, leaf, **given)

    return _over(name, axis_name, x, extreme, groups, uneven=True)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """The smallest over the batch elements of a named axis.

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis, or several in a tuple.
        axis_index_groups: lists of numbers along the axis, of one length, each number once: each group is as an axis of its
            own.

    Returns:
        The same tree; an array in it is the same for all batch elements.

    Raises:
        AxisNameError: there is no axis of that name.
        LeafError: a leaf is neither an array nor a number.
        ValueError: `axis_index_groups` are no such groups.

    Example:
        >>> pb.vmap(lambda x: lax.pmin(x, "i"), axis_name="i", out_axes=None)(pnp.array([1.0, 3.0]))
        1.0:f32[]:cpu(0)
    """
    return _extreme("pmin", collective.pmin, axis_name, x, axis_index_groups)


def axis_index(axis_name: Any) -> Any:
    """Each batch element's number along a named axis; along several, in row-major order.

    Arguments:
        axis_name: the name of an axis, or several in a tuple.

    Returns:
        A 0-d array of int32.

    Raises:
        AxisNameError: there is no axis of that name.

    Example:
        >>> pb.vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(pnp.array([10, 10, 10]))
        [10 11 12]:i32[3]:cpu(0)
    """
    names = several(axis_name)
    return collective.place_along(names) if names else from_python(0, INT32)


def axis_size(axis_name: Any) -> int:
    """The number of batch elements of a named axis; along several, the product.

    Arguments:
        axis_name: the name of an axis, or several in a tuple.

    Returns:
        An int.

    Raises:
        AxisNameError: there is no axis of that name.

    Example:
        >>> pb.vmap(lambda x: x / lax.axis_size("i"), axis_name="i")(pnp.array([2.0, 4.0]))
        [1. 2.]:f32[2]:cpu(0)
    """
    return math.prod([collective.axis_size(name) for name in several(axis_name)])


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The value of one batch element of a named axis, for all of them.

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis, or several in a tuple.
        source: the number of the batch element; along several axes, in row-major order.

    Returns:
        The same tree; an array in it is the same for all batch elements.

    Raises:
        AxisNameError: there is no axis of that name.
        LeafError: a leaf is neither an array nor a number.
        IndexError: there is no such batch element.

    Example:
        >>> pb.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(pnp.array([1.0, 3.0, 5.0]))
        [3. 3. 3.]:f32[3]:cpu(0)
    """
    size, number = axis_size(axis_name), operator.index(source)
    if not 0 <= number < size:
        raise IndexError(f"pbroadcast: there is no batch element {number} among the {size} of axis {brief(axis_name)}.")
    names = as_one(several(axis_name))
    places = dict(zip(names, np.unravel_index(number, [axis_size(name) for name in names])))
    return _over(
        "pbroadcast",
        axis_name,
        x,
        lambda leaf, name: over(name, collective.all_gather, leaf, axis_size=axis_size(name), axis=0, same=True)[
            int(places[name])
        ],
    )


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False, to: str = "varying"
) -> Any:
    """The values of all batch elements of a named axis, along a new axis; joined along an existing one, if `tiled`.

    Several names, in a tuple, are gathered in row-major order. A negative `axis` counts from the end of the result.

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis, or several in a tuple.
        axis_index_groups: lists of numbers along the axis, of one length, each number once: each group is as an axis of its
            own.
        axis: where the values lie in the result.
        tiled: whether they are joined along an axis that they have.
        to: how a shard_map takes the result, which all devices have: as a copy of each's own ("varying"), whose cotangents are
            added; or as one that they share ("invarying"), so that an out_spec need not name the axis.

    Returns:
        The same tree; an array in it is the same for all batch elements.

    Raises:
        AxisError: the result has no such axis. AxisNameError: there is no axis of that name.
        LeafError: a leaf is neither an array nor a number.
        ValueError: `axis_index_groups` are no such groups, or `to` is neither, or "invarying" with groups.

    Example:
        >>> x = pnp.array([[1.0], [3.0]])
        >>> pb.vmap(lambda x: lax.all_gather(x, "i").shape[0] * x, axis_name="i")(x)
        [[2.]
         [6.]]:f32[2,1]:cpu(0)
        >>> pb.vmap(lambda x: lax.all_gather(x, "i", tiled=True), axis_name="i", out_axes=None)(x)
        [1. 3.]:f32[2]:cpu(0)
    """
    names = as_one(several(axis_name))
    given = _in_groups("all_gather", names, axis_index_groups)
    count = {name: _count(name, given) for name in names}
    if to not in ("varying", "invarying"):
        raise ValueError(f'all_gather takes to="varying" or to="invarying", not {brief(to)}.')
    if to == "invarying":
        if given:
            raise ValueError(
                'all_gather with axis_index_groups gives groups different results: it has no to="invarying". Leave that out.'
            )
        given["same"] = True

    def gathered(leaf: Any) -> Any:
        at = normal_axis(axis, leaf.type.ndim if tiled else leaf.type.ndim + 1, "all_gather")
        for name in reversed(names):
            leaf = over(name, collective.all_gather, leaf, axis_size=count[name], axis=at, **given)
        return _merged(leaf, at, len(names) + tiled)

    leaves, structure = array_leaves(x, lambda: "all_gather's argument")
    return unflatten(structure, [gathered(leaf) for leaf in leaves] if names else leaves)


def _exchanged(x: Any, names: Sequence[Hashable], split: int, concat: int, given: dict[str, Any]) -> Any:
    """`all_to_all` by normal axes. Several names are one axis, of the product of their sizes."""
    sizes = [_count(name, given) for name in names]
    if len(names) > 1:
        shape = x.type.shape
        if shape[split] != math.prod(sizes):
            raise ShapeError(
                f"all_to_all over axes of sizes {sizes} cannot split axis {split} of {x.type}: it needs their product."
            )
        x = reshape(x, new_sizes=(*shape[:split], *sizes, *shape[split + 1 :]))
    for i, (name, size) in enumerate(zip(names, sizes)):
        place = concat if len(names) == 1 else split + i
        x = over(name, collective.all_to_all, x, axis_size=size, split_axis=split + i, concat_axis=place, **given)
    return x if len(names) == 1 else moveaxis(_merged(x, split, len(names)), split, concat)


def _merged(x: Any, axis: int, count: int) -> Any:
    """x with `count` axes from `axis` on made one."""
    shape = x.type.shape
    merged = (*shape[:axis], math.prod(shape[axis : axis + count]), *shape[axis + count :])
    return x if count == 1 else reshape(x, new_sizes=merged)


def _in_blocks(name: str, x: Any, axis: int, count: int) -> Any:
    """x with an axis cut in two: `count` blocks of equal size. Raises `ShapeError` if that cannot be."""
    shape = x.type.shape
    if shape[axis] % max(count, 1):
        raise ShapeError(
            f"{name} cannot cut axis {axis} of {x.type} into {count} blocks of equal size: {shape[axis]} is no multiple of"
            f" {count}. Pad the axis.{at_user_line()}"
        )
    return reshape(x, new_sizes=(*shape[:axis], count, shape[axis] // max(count, 1), *shape[axis + 1 :]))


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Values sent between batch elements: `perm` lists pairs (source, destination). What gets nothing has zeros.

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis, or several in a tuple, with numbers in row-major order.
        perm: pairs of ints, no source and no destination twice.

    Returns:
        The same tree.

    Raises:
        AxisNameError: there is no axis of that name.
        AxisError: a pair has a number of no batch element; or `axis_name` names axes of a mesh in another order than the mesh.
        ShapeError: a source or a destination occurs twice.
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> pb.vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(pnp.array([1, 2, 3]))
        [0 1 2]:i32[3]:cpu(0)
    """
    names = as_one(several(axis_name))
    pairs = tuple([(operator.index(source), operator.index(to)) for source, to in perm])
    for name in names:
        _check_order(name)
    if len(names) == 1:
        return _over("ppermute", names[0], x, lambda leaf, name: over(name, collective.ppermute, leaf, perm=pairs))
    collective.check_permutation(Axis(axis_size(axis_name), axis_name), pairs)
    sources = np.full(axis_size(axis_name), -1, np.int32)
    for source, to in pairs:
        sources[to] = source
    mine = asarray(sources)[axis_index(axis_name)]

    def taken(leaf: Any) -> Any:
        return where(mine < 0, zeros_like(leaf), all_gather(leaf, axis_name)[mine])

    leaves, structure = array_leaves(x, lambda: "ppermute's argument")
    return unflatten(structure, [taken(leaf) for leaf in leaves])


def _check_order(name: Hashable) -> None:
    """Raise `AxisError` unless axes of a mesh are named in its order. `axis_index` numbers elements by the order of the names,
    but JAX's ppermute by that of the mesh: it is refused where the two differ."""
    names = single_names(name)
    if len(names) > 1:
        ordered = tuple([one for one in axis_owner(name).mesh.axis_names if one in names])  # type: ignore[attr-defined]
        if ordered != names:
            raise AxisError(
                f"ppermute numbers devices in the order of the mesh: write axis_name={brief(ordered)}, not {brief(names)}."
            )


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Values permuted: batch element i gets the value of batch element perm[i].

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis.
        perm: each number of a batch element once.

    Returns:
        The same tree.

    Raises:
        AxisNameError: there is no axis of that name.
        AxisError: `perm` is no permutation; or `axis_name` names axes of a mesh in another order than the mesh.
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> pb.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(pnp.array([1, 2, 3]))
        [3 1 2]:i32[3]:cpu(0)
    """
    count = axis_size(axis_name)
    if sorted(perm) != list(range(count)):
        raise AxisError(
            f"pshuffle needs a permutation of 0 to {count - 1} over the axis {brief(axis_name)}, not perm={brief(perm)}."
        )
    return ppermute(x, axis_name, [(source, to) for to, source in enumerate(perm)])


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """A named axis exchanged with `split_axis` of the values, which has its size and then runs along `concat_axis`.

    If `tiled`, the split axis stays: it is cut into as many blocks as there are batch elements, and what comes is joined along
    `concat_axis`. Negative axes count from the end.

    Arguments:
        x: a tree of arrays.
        axis_name: the name of an axis, or several in a tuple: they are as one, of the product of their sizes.
        split_axis, concat_axis: axes of the values, before and after.
        axis_index_groups: lists of numbers along the axis, of one length, each number once: each group is as an axis of its
            own.
        tiled: whether the split axis stays.

    Returns:
        The same tree.

    Raises:
        ShapeError: the size of the split axis is not that of the named one, nor, if `tiled`, a multiple of it.
        AxisError: the values have no such axis. AxisNameError: there is no axis of that name.
        ValueError: `axis_index_groups` are no such groups.

    Example:
        >>> x = pnp.array([[1, 2], [3, 4]])
        >>> pb.vmap(lambda row: lax.all_to_all(row, "i", 0, 0), axis_name="i")(x)
        [[1 3]
         [2 4]]:i32[2,2]:cpu(0)
    """
    names = as_one(several(axis_name))
    given = _in_groups("all_to_all", names, axis_index_groups)

    def exchanged(leaf: Any) -> Any:
        split, concat = [normal_axis(axis, leaf.type.ndim, "all_to_all") for axis in (split_axis, concat_axis)]
        if not tiled:
            return _exchanged(leaf, names, split, concat, given)
        blocks = _in_blocks("all_to_all", leaf, split, math.prod([_count(name, given) for name in names]))
        return _merged(_exchanged(blocks, names, split, concat, given), concat, 2)

    leaves, structure = array_leaves(x, lambda: "all_to_all's argument")
    return unflatten(structure, [exchanged(leaf) for leaf in leaves] if names else leaves)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """A named axis exchanged with an axis of the values, which has its size: `all_to_all` to where it comes from.

    Arguments:
        x: a tree of arrays.
        axis_name: the name of an axis.
        axis: an axis of the values.
        axis_index_groups: lists of numbers along the axis, of one length, each number once: each group is as an axis of its
            own.

    Returns:
        The same tree.

    Raises:
        ShapeError: the size of the axis is not that of the named one.
        AxisError: the values have no such axis. AxisNameError: there is no axis of that name.
        ValueError: `axis_index_groups` are no such groups.

    Example:
        >>> pb.vmap(lambda row: lax.pswapaxes(row, "i", 0), axis_name="i")(pnp.array([[1, 2], [3, 4]]))
        [[1 3]
         [2 4]]:i32[2,2]:cpu(0)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """The sum over a named axis, of which each batch element gets its part: what stands at its number along an axis.

    If `tiled`, the axis stays: it is cut into as many blocks as there are batch elements, and each gets one.

    Arguments:
        x: a tree of arrays.
        axis_name: the name of an axis, or several in a tuple: they are as one, of the product of their sizes.
        scatter_dimension: the axis of the values that is divided among the batch elements.
        axis_index_groups: lists of numbers along the axis, of one length, each number once: each group is as an axis of its
            own.
        tiled: whether that axis stays.

    Returns:
        The same tree.

    Raises:
        ShapeError: the size of the axis is not that of the named one, nor, if `tiled`, a multiple of it.
        AxisError: the values have no such axis. AxisNameError: there is no axis of that name.
        ValueError: `axis_index_groups` are no such groups.

    Example:
        >>> x = pnp.array([[1.0, 2.0], [3.0, 4.0]])
        >>> pb.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(x)
        [4. 6.]:f32[2]:cpu(0)
    """
    names = as_one(several(axis_name))
    given = _in_groups("psum_scatter", names, axis_index_groups)
    counts = [_count(name, given) for name in names]

    def part(leaf: Any) -> Any:
        leaf = _counted(leaf)
        axis = normal_axis(scatter_dimension, leaf.type.ndim, "psum_scatter")
        shape = leaf.type.shape
        if tiled:
            leaf = _in_blocks("psum_scatter", leaf, axis, math.prod(counts))
        elif shape[axis] != math.prod(counts):
            raise ShapeError(
                f"psum_scatter of {leaf.type} over {counted(math.prod(counts), 'batch element')}: axis {axis} must have that"
                " size."
            )
        rest = leaf.type.shape[axis + 1 :]
        leaf = reshape(leaf, new_sizes=(*shape[:axis], *counts, *rest)) if len(names) != 1 else leaf
        for name, count in zip(names, counts):
            leaf = over(name, collective.psum_scatter, leaf, axis_size=count, axis=axis, **given)
        return leaf

    leaves, structure = array_leaves(x, lambda: "psum_scatter's argument")
    return unflatten(structure, [part(leaf) for leaf in leaves])


def pvary(x: Any, axis_name: Any) -> Any:
    """The values, taken to differ between the devices along axes of a mesh, as in a `shard_map` those do that come of shards.

    What is the same on all devices need not be said to vary: it is, where it meets what does. The derivative is the sum over
    the axes, as far as the values did not vary before. Along the axis of a vmap it does nothing.

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis, or several in a tuple.

    Returns:
        The same tree.

    Raises:
        AxisNameError: there is no axis of that name.
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> P, mesh = pb.P, pb.make_mesh((1,), ("i",))
        >>> pb.shard_map(lambda x: lax.pvary(x, "i")[None], mesh=mesh, in_specs=P(), out_specs=P("i"))(1.0)
        [1.]:f32[1]@(·):cpu(0)
    """

    def varied(leaf: Any, name: Hashable) -> Any:
        told = told_axes()
        return vary(leaf, [collective.place_along(name)], leaf, told) if single_names(name)[0] in told else leaf

    return _over("pvary", axis_name, x, varied)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """As `pvary`: in what way the values are to vary along axes of a mesh is given by name.

    Arguments:
        x: a tree of arrays and numbers.
        axis_name: the name of an axis, or several in a tuple.
        to: "varying". What varies is made the same by computing something: `psum`, `pmean`, `pmax`, `pbroadcast`.

    Returns:
        The same tree.

    Raises:
        ValueError: `to` is something else.
        AxisNameError: there is no axis of that name.

    Example:
        >>> P, mesh = pb.P, pb.make_mesh((1,), ("i",))
        >>> pb.shard_map(lambda x: lax.pcast(x, "i", to="varying")[None], mesh=mesh, in_specs=P(), out_specs=P("i"))(1.0)
        [1.]:f32[1]@(·):cpu(0)
    """
    if to != "varying":
        raise ValueError(
            f'pcast takes to="varying" only, not {brief(to)}: what varies is made the same by psum, pmean, pmax, ...'
        )
    return pvary(x, axis_name)
