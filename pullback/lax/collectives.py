"""Operations across the examples of a named axis: `vmap(f, axis_name="i")` names one. They take trees."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pullback.core.array import from_python
from pullback.core.dtypes import default_dtype
from pullback.core.trees import array_leaves, unflatten
from pullback.numpy.promotion import literal_of, to_inexact
from pullback.ops import arithmetic, collective


def _over(name: str, axis_name: Any, x: Any, apply: Callable[[Any, Hashable], Any]) -> Any:
    leaves, structure = array_leaves(x, lambda: f"{name}'s argument")
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for one in names:
        leaves = [apply(leaf, one) for leaf in leaves]
    return unflatten(structure, leaves)


def psum(x: Any, axis_name: Any) -> Any:
    """The sum over the examples of a named axis (or of several, in a tuple).

    Example:
        >>> import pullback as pb
        >>> pb.vmap(lambda x: x / pb.lax.psum(x, "i"), axis_name="i")(pb.numpy.asarray([1.0, 3.0]))
        [0.25 0.75]:f32[2]:cpu(0)
    """
    return _over("psum", axis_name, x, collective.sum_over)


def pmean(x: Any, axis_name: Any) -> Any:
    """The mean over the examples of a named axis."""
    return _over("pmean", axis_name, x, lambda leaf, name: collective.mean_over(to_inexact(leaf, "pmean"), name))


def pmax(x: Any, axis_name: Any) -> Any:
    """The largest over the examples of a named axis."""
    return _over("pmax", axis_name, x, collective.max_over)


def pmin(x: Any, axis_name: Any) -> Any:
    """The smallest over the examples of a named axis."""
    return _over("pmin", axis_name, x, collective.min_over)


def axis_index(axis_name: Any) -> Any:
    """Each example's number along a named axis; along several, in row-major order."""
    if not isinstance(axis_name, (tuple, list)):
        return collective.index_along(axis_name)
    total: Any = from_python(0, default_dtype("i"))
    for name in axis_name:
        scaled = arithmetic.mul(total, literal_of(axis_size(name), total.type.dtype))
        total = arithmetic.add(scaled, collective.index_along(name))
    return total


def axis_size(axis_name: Hashable) -> int:
    """How many examples a named axis has."""
    return collective.axis_size(axis_name)


def all_gather(x: Any, axis_name: Hashable, *, axis: int = 0, tiled: bool = False) -> Any:
    """The values of all examples of a named axis, along a new axis; joined along an existing one, if `tiled`."""
    if not tiled:
        return _over("all_gather", axis_name, x, lambda leaf, name: collective.gather_over(leaf, name, axis))

    def joined(leaf: Any, name: Hashable) -> Any:
        stacked = collective.gather_over(leaf, name, axis)
        shape = stacked.type.shape
        return stacked.reshape((*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))

    return _over("all_gather", axis_name, x, joined)


def ppermute(x: Any, axis_name: Hashable, perm: Sequence[tuple[int, int]]) -> Any:
    """Values sent from example to example: `perm` lists pairs (source, destination). Who gets nothing has zeros."""
    return _over("ppermute", axis_name, x, lambda leaf, name: collective.permute_over(leaf, name, perm))


def pshuffle(x: Any, axis_name: Hashable, perm: Sequence[int]) -> Any:
    """Values permuted: example i gets the value of example perm[i]."""
    return ppermute(x, axis_name, [(source, to) for to, source in enumerate(perm)])


def all_to_all(x: Any, axis_name: Hashable, split_axis: int, concat_axis: int) -> Any:
    """A named axis exchanged with `split_axis` of the values, which then runs along `concat_axis`."""
    return _over("all_to_all", axis_name, x, lambda leaf, name: collective.exchange_over(leaf, name, split_axis, concat_axis))
