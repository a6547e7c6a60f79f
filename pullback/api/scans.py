"""What is made of scan: map, and associative_scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.functions import Function, R, check_callable, returned_leaves, standing_for
from pullback.api.loops import fit, number_of_steps, scan
from pullback.api.mapping import vmap
from pullback.api.progress import Reported
from pullback.core.brief import brief
from pullback.core.errors import AxisError
from pullback.core.source import api_boundary, describe
from pullback.core.tracing import type_of
from pullback.core.trees import (
    TreeDef,
    check_like,
    kind_of,
    unflatten,
)
from pullback.ops.shape import concatenate, reshape, rev
from pullback.ops.shape import slice as slice_primitive


@api_boundary
def map(f: Callable[[Any], R], xs: Any, *, batch_size: int | None = None) -> R:
    """Apply `f` to the elements of `xs` along their leading axis one after the other, and stack the results.

    What `vmap` computes, in a loop: it takes the memory of one element at a time, or of `batch_size`.

    Arguments:
        f: a function of one element. xs: a tree whose leaves have the same leading size.
        batch_size: how many elements to take at once, by `vmap`; the last batch may be smaller.

    Returns:
        The results, stacked along a new leading axis.

    Raises:
        AxisError: the leading sizes of `xs` differ, or it has no leaves. ValueError: `batch_size` is not positive.

    Example:
        >>> import pullback as pb
        >>> pb.lax.map(lambda x: x * x, pb.numpy.asarray([1.0, 2.0, 3.0]), batch_size=2)
        [1. 4. 9.]:f32[3]:cpu(0)
    """
    check_callable(f, "map")
    barred: Callable[[Function], Function] = f.of if isinstance(f, Reported) else lambda function: function
    f = f.function if isinstance(f, Reported) else f

    @standing_for(f)
    def step(_: None, x: Any) -> tuple[None, Any]:
        return None, f(x)

    if batch_size is not None and batch_size < 1:
        raise ValueError(f"map's batch_size must be 1 or more, not {brief(batch_size)}.")
    trees = kind_of(f)
    length = number_of_steps("map", f, xs)
    if batch_size is None:
        return scan(barred(step), None, xs)[1]  # type: ignore[no-any-return]
    leaves, structure = trees.array_leaves(xs, lambda: "xs")
    whole = length // batch_size

    def tree_of(start: int, stop: int, *shape: int) -> Any:
        parts = [_part(leaf, 0, start, stop) for leaf in leaves]
        return unflatten(structure, [reshape(x, new_sizes=(*shape, *type_of(x).shape[1:])) for x in parts])

    found = []
    if whole or not length:
        outs = map(barred(vmap(f)), tree_of(0, whole * batch_size, whole, batch_size))
        leaves_out, out_structure = trees.array_leaves(outs, lambda: "output")
        found.append([reshape(x, new_sizes=(whole * batch_size, *type_of(x).shape[2:])) for x in leaves_out])
    if whole * batch_size < length:
        rest = length - whole * batch_size
        leaves_out, out_structure = trees.array_leaves(vmap(f)(tree_of(whole * batch_size, length, rest)), lambda: "output")
        found.append(leaves_out)
    return unflatten(out_structure, [x[0] if len(x) == 1 else concatenate(*x, dimension=0) for x in zip(*found)])  # type: ignore[no-any-return]


@api_boundary
def associative_scan(fn: Callable[[Any, Any], Any], elems: R, reverse: bool = False, axis: int = 0) -> R:
    """All partial results `x0, fn(x0, x1), fn(fn(x0, x1), x2), ...` of an associative operation, in logarithmic depth.

    About twice the work of the loop that it replaces, in 2 log2(n) calls of `fn`, each on many elements at once (G. Blelloch,
    "Prefix sums and their applications", 1990).

    Arguments:
        fn: an associative function of two trees like `elems`, applied to slices of them along `axis`: elementwise there. It is
            not checked that it is associative.
        elems: a tree of arrays of the same size along `axis`, any size.
        reverse: start from the end: `fn(fn(x[n-1], x[n-2]), ...)`; the last result is the last element.
        axis: the axis to go along.

    Returns:
        A tree like `elems`.

    Raises:
        AxisError: a leaf has no such axis, or the sizes differ. StructureError, ShapeError: `fn` returns something else than it
            takes.

    Example:
        >>> import pullback as pb
        >>> pb.lax.associative_scan(lambda x, y: x * y, pb.numpy.asarray([1.0, 2.0, 3.0, 4.0]))
        [ 1.  2.  6. 24.]:f32[4]:cpu(0)
    """
    check_callable(fn, "associative_scan")
    trees = kind_of(fn)
    leaves, structure = trees.array_leaves(elems, lambda: "elems")
    if not leaves:
        return elems
    types = [type_of(leaf) for leaf in leaves]
    if any(not -type.ndim <= axis < type.ndim for type in types):
        raise AxisError(f"associative_scan of {describe(fn)} goes along axis {axis}, but elems has leaves of types {types}.")
    axes = [axis % type.ndim for type in types]
    sizes = [type.shape[at] for type, at in zip(types, axes)]
    if len(set(sizes)) > 1:
        raise AxisError(f"associative_scan of {describe(fn)} needs leaves of one size along axis {axis}, but got {sizes}.")

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        outs, out_structure = returned_leaves(fn, fn(unflatten(structure, left), unflatten(structure, right)))
        _check_result(fn, structure, out_structure, left, outs)
        return [fit(out, type_of(x)) for out, x in zip(outs, left)]

    def flipped(values: Sequence[Any]) -> list[Any]:
        return [rev(x, dimensions=(at,)) for x, at in zip(values, axes)]

    def prefixes(values: list[Any]) -> list[Any]:
        """Pairs first, then the prefixes of the pairs, which are every other result; the ones between need one more step."""
        size = type_of(values[0]).shape[axes[0]]
        if size < 2:
            return values
        pairs = size // 2
        even = [_part(x, at, 0, 2 * pairs, 2) for x, at in zip(values, axes)]
        odd = [_part(x, at, 1, 2 * pairs, 2) for x, at in zip(values, axes)]
        at_odd = prefixes(combine(even, odd))
        first = [_part(x, at, 0, 1) for x, at in zip(values, axes)]
        later = (size - 1) // 2  # of the even places, those after the first
        if not later:
            at_even = first
        else:
            before = [_part(x, at, 0, later) for x, at in zip(at_odd, axes)]
            own = [_part(x, at, 2, size, 2) for x, at in zip(values, axes)]
            at_even = [concatenate(a, b, dimension=at) for a, b, at in zip(first, combine(before, own), axes)]
        return [_interleaved(a, b, at) for a, b, at in zip(at_even, at_odd, axes)]

    found = prefixes(flipped(leaves) if reverse else leaves)
    return unflatten(structure, flipped(found) if reverse else found)  # type: ignore[no-any-return]


def _check_result(fn: Any, structure: TreeDef, out_structure: TreeDef, inputs: Sequence[Any], outs: Sequence[Any]) -> None:
    check_like(
        out_structure,
        structure,
        "output",
        "it takes",
        lambda where: f"associative_scan's {describe(fn)} must return what is like each of its arguments, but {where}.",
        ([type_of(out) for out in outs], [type_of(x) for x in inputs]),
        shapes_only=True,
    )


def _part(x: Any, axis: int, start: int, stop: int, step: int = 1) -> Any:
    """x[..., start:stop:step, ...] along an axis."""
    shape = type_of(x).shape
    if (start, stop, step) == (0, shape[axis], 1):
        return x
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return slice_primitive(x, start_indices=tuple(starts), limit_indices=tuple(stops), strides=tuple(steps))


def _interleaved(a: Any, b: Any, axis: int) -> Any:
    """a[0], b[0], a[1], b[1], ...; a may have one more."""
    shape, count = type_of(a).shape, type_of(b).shape[axis]
    pairs = []
    for x in (_part(a, axis, 0, count), b):
        own = type_of(x).shape
        pairs.append(reshape(x, new_sizes=(*own[: axis + 1], 1, *own[axis + 1 :])))
    joined = concatenate(*pairs, dimension=axis + 1)
    made = reshape(joined, new_sizes=(*shape[:axis], 2 * count, *shape[axis + 1 :]))
    return made if shape[axis] == count else concatenate(made, _part(a, axis, count, shape[axis]), dimension=axis)
