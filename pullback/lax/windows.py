"""Reductions by any function of two elements: over axes, and over the windows of an array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.functions import check_callable, returned_leaves
from pullback.api.mapping import vmap
from pullback.api.traced import trace
from pullback.core.array import as_array, host_of
from pullback.core.dtypes import RANK, kind
from pullback.core.errors import DtypeError, ShapeError, StructureError
from pullback.core.primitive import Primitive
from pullback.core.source import describe
from pullback.core.tracing import Tracer
from pullback.core.trees import LEAF, check_like, kind_of, same, unflatten
from pullback.core.types import ShapeLike
from pullback.lax.arrays import refuse_sharding
from pullback.lax.convolutions import ints, pairs
from pullback.numpy.axes import normal_axes
from pullback.numpy.promotion import at_user_line, broadcast, in_dtype, literal_of
from pullback.ops import arithmetic, bitwise
from pullback.ops import reduce as reductions
from pullback.ops import reduce_window as pools
from pullback.ops import shape as shapes
from pullback.ops.broadcast import reduce_sum
from pullback.ops.convolve import dilated
from pullback.ops.literals import within
from pullback.ops.reduce import highest, lowest

Computation = Callable[[Any, Any], Any]

# An operation of two elements; what reduces axes by it, and windows; and its neutral element, for a dtype.
_KNOWN: dict[Any, tuple[Any, Any, Any]] = {
    arithmetic.add: (reduce_sum, pools.reduce_window_sum, lambda dtype: np.zeros((), dtype)),
    arithmetic.mul: (reductions.reduce_prod, pools.reduce_window_prod, lambda dtype: np.ones((), dtype)),
    arithmetic.max: (reductions.reduce_max, pools.reduce_window_max, lowest),
    arithmetic.min: (reductions.reduce_min, pools.reduce_window_min, highest),
    bitwise.and_: (reductions.reduce_and, None, lambda dtype: np.invert(np.zeros((), dtype))),
    bitwise.or_: (reductions.reduce_or, None, lambda dtype: np.zeros((), dtype)),
    bitwise.xor: (reductions.reduce_xor, None, lambda dtype: np.zeros((), dtype)),
}


class _Reduction:
    """What `reduce` and `reduce_window` take, checked: arrays of one shape, and for each what a reduction begins with."""

    def __init__(self, name: str, operands: Any, inits: Any, computation: Computation) -> None:
        check_callable(computation, name)
        self.name, self.computation = name, computation
        trees = kind_of(computation)
        self.arrays, self.structure = trees.array_leaves(operands, lambda: f"{name}'s operands")
        starts, structure = trees.array_leaves(inits, lambda: f"{name}'s init_values")
        if not starts:
            raise StructureError(f"{name} takes at least one operand, but got none.{at_user_line()}")
        check_like(
            structure,
            self.structure,
            "init_values",
            "operands has",
            lambda where: f"{name} takes as many initial values as operands, in the same tree, but {where}.{at_user_line()}",
        )
        self.starts: list[Any] = []
        self._row: Any = None
        if self.structure is LEAF:
            self._row = self._known()
        for x, start in zip(self.arrays, starts):
            if start.type.weak and start.type.dtype is not x.type.dtype and self._is_neutral(start):
                start = as_array(self._row[1][2](x.type.dtype))  # -inf begins a maximum of integers, too
            known = start.type.weak and not start.type.shape and not isinstance(start, Tracer)
            given = np.asarray(host_of(start)).item() if known else start  # a number stays known where functions are staged
            fits = start.type.dtype is x.type.dtype or (
                start.type.weak
                and RANK[kind(start.type.dtype)] <= RANK[kind(x.type.dtype)]
                and within(given, x.type.dtype) is given
            )
            if start.type.shape or not fits:
                raise DtypeError(
                    f"{name} of {x.type} takes one number of its dtype to begin with, not {given if known else start.type}."
                    f"{at_user_line()}"
                )
            self.starts.append(literal_of(given, x.type.dtype) if known else in_dtype(start, x.type.dtype))
        if len({x.type.shape for x in self.arrays}) > 1:
            raise ShapeError(f"{name} takes operands of one shape, not {[x.type for x in self.arrays]}.{at_user_line()}")

    def known(self) -> Any:
        """The row of the table for the computation, if it is one of those operations, and whether it begins with its neutral
        element; else None."""
        return self._row and (self._row[0], *self._row[1][:2], self._is_neutral(self.starts[0]))

    def _is_neutral(self, start: Any) -> bool:
        """Whether a number is known, and changes nothing where the computation begins with it."""
        if self._row is None or isinstance(start, Tracer) or kind(start.type.dtype) not in self._row[1][0].kinds:
            return False
        return np.array_equal(np.asarray(host_of(start)), self._row[1][2](start.type.dtype))

    def _known(self) -> Any:
        """The computation as a primitive of one array, and its row of the table; None if it is none of those."""
        (x,) = self.arrays
        scalar = x.type.with_shape(()).strong()
        primitive = self.computation
        if not isinstance(primitive, Primitive):
            program, captures, *_ = trace(self.name, self.computation, [LEAF, LEAF], [scalar, scalar])
            if captures or len(program.equations) != 1 or program.outputs != program.equations[0].outputs:
                return None
            (equation,) = program.equations
            if {*equation.inputs} != {*program.inputs}:
                return None
            primitive = equation.primitive
        row = _KNOWN.get(primitive)
        if row is None or kind(x.type.dtype) not in row[0].kinds:
            return None
        return primitive, row

    def combined(self, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        """The computation on arrays of elements."""
        shape, count = left[0].type.shape, len(left)

        def flat(*leaves: Any) -> list[Any]:
            out = self.computation(unflatten(self.structure, leaves[:count]), unflatten(self.structure, leaves[count:]))
            outs, structure = returned_leaves(self.computation, out)
            if not same(structure, self.structure) or any(a.type.strong() is not b.type.strong() for a, b in zip(outs, leaves)):
                raise StructureError(
                    f"{self.name} takes a computation that returns what it is given, {[leaf.type for leaf in leaves[:count]]};"
                    f" but {describe(self.computation)} returned {[out.type for out in outs]}.{at_user_line()}"
                )
            return outs

        rows = [shapes.reshape(x, new_sizes=(math.prod(shape),)) for x in (*left, *right)]
        return [shapes.reshape(out, new_sizes=shape) for out in vmap(flat)(*rows)]

    def of_axes(self, arrays: Sequence[Any], axes: Sequence[int]) -> list[Any]:
        """Arrays combined along axes, in pairs, and with what they begin with."""
        shape = arrays[0].type.shape
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        rest, size = [shape[axis] for axis in kept], math.prod([shape[axis] for axis in axes])
        rows = [shapes.reshape(shapes.transpose(x, permutation=(*axes, *kept)), new_sizes=(size, *rest)) for x in arrays]
        while size > 1:
            half = size // 2
            parts = [[_rows(x, a, b) for x in rows] for a, b in ((0, half), (half, 2 * half), (2 * half, size))]
            rows = self.combined(*parts[:2])
            if size % 2:
                rows = [shapes.concatenate(x, odd, dimension=0) for x, odd in zip(rows, parts[2])]
            size -= half
        starts = [broadcast(start, tuple(rest)) for start in self.starts]
        return self.combined(starts, [shapes.reshape(x, new_sizes=tuple(rest)) for x in rows]) if size else starts


def _rows(x: Any, start: int, end: int) -> Any:
    rest = x.type.shape[1:]
    return shapes.slice(x, start_indices=(start, *[0] * len(rest)), limit_indices=(end, *rest), strides=None)


def reduce(operands: Any, init_values: Any, computation: Computation, dimensions: ShapeLike, out_sharding: None = None) -> Any:
    """All elements along axes combined by an associative function of two.

    Additions, products, extremes and bitwise operations are recognised; any other function is applied to the halves of the
    arrays, again and again.

    Arguments:
        operands: an array; or a tree of arrays of one shape, whose elements are combined together.
        init_values: a number of the dtype of each, in the same tree: combined with the result, and the result if there are no
            elements. It should be neutral.
        computation: takes two such trees of single elements, and returns one. Its order is not defined.
        dimensions: the axes.
        out_sharding: None: there is one device.

    Returns:
        The operands without the axes, in the same tree.

    Raises:
        LeafError: an operand is neither an array nor a number. AxisError: it has no such axis.
        DtypeError: an initial value of another dtype. ShapeError: operands of different shapes.
        StructureError: the initial values, or what the computation returns, are not like the operands.

    Example:
        >>> lax.reduce(pnp.array([[1, 2], [3, 4]]), 0, lax.add, (1,))
        [3 7]:i32[2]:cpu(0)
        >>> largest = lambda a, b: (pnp.maximum(a[0], b[0]), pnp.where(a[0] > b[0], a[1], b[1]))
        >>> lax.reduce((pnp.array([3.0, 5.0, 4.0]), pnp.arange(3)), (-pnp.inf, 0), largest, (0,))
        (5.0:f32[]:cpu(0), 1:i32[]:cpu(0))
    """
    refuse_sharding("reduce", out_sharding)
    this = _Reduction("reduce", operands, init_values, computation)
    axes = normal_axes(tuple(dimensions), this.arrays[0].type, "reduce")  # type: ignore[arg-type]
    known = this.known() if axes else None
    if known is None:
        return unflatten(this.structure, this.of_axes(this.arrays, axes) if axes else this.arrays)
    primitive, reduction, _, plain = known
    out = reduction(this.arrays[0], axes=axes)
    return out if plain else primitive(broadcast(this.starts[0], out.type.shape), out)


def reduce_window(
    operand: Any, init_value: Any, computation: Computation, window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None, padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """The elements in each window of an array, combined by an associative function of two.

    Additions, products, maxima and minima are recognised; of several equal extremes in a window the first has the derivative.

    Arguments:
        operand: an array; or a tree of arrays of one shape, whose elements are combined together.
        init_value: a number of the dtype of each, in the same tree: what a reduction begins with, and what is around the array.
            It should be neutral.
        computation: takes two such trees of single elements, and returns one. Its order is not defined.
        window_dimensions: the size of a window along each axis.
        window_strides: how far apart windows begin along each axis; None for 1.
        padding: "VALID", "SAME", "SAME_LOWER", or a pair of ints (before, after) for each axis.
        base_dilation, window_dilation: how far apart the elements of the array and of a window lie along each axis; None for 1.

    Returns:
        An array with an element for each window, or a tree of these.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: an initial value of another dtype. ShapeError: numbers that are not one for each axis.
        StructureError: the initial values, or what the computation returns, are not like the operands. ValueError: a padding
            that is none.

    Example:
        >>> lax.reduce_window(pnp.array([1.0, 4.0, 2.0, 3.0]), -pnp.inf, lax.max, (2,), (2,), "VALID")
        [4. 3.]:f32[2]:cpu(0)
        >>> lax.reduce_window(pnp.array([1, 2, 3]), 0, lax.add, (2,), None, [(1, 0)])
        [1 3 5]:i32[3]:cpu(0)
    """
    this = _Reduction("reduce_window", operand, init_value, computation)
    shape = this.arrays[0].type.shape
    count = len(shape)
    widths, strides = ints(window_dimensions, count, "window_dimensions"), ints(window_strides, count, "window_strides")
    holes, gaps = ints(base_dilation, count, "base_dilation"), ints(window_dilation, count, "window_dilation")
    spans = tuple(map(dilated, widths, gaps))
    window = pools.Window(widths, strides, pairs(padding, shape, spans, strides), holes, gaps)
    known = this.known()
    if known is not None and known[2] is not None and kind(this.arrays[0].type.dtype) in known[2].kinds:
        primitive, _, pool, plain = known
        (x,), (start,) = this.arrays, this.starts
        out = pool(x, **window._asdict())
        return out if plain else primitive(broadcast(start, out.type.shape), out)
    found = [pools.windows(x, start, **window._asdict()) for x, start in zip(this.arrays, this.starts)]
    return unflatten(this.structure, this.of_axes(found, range(count, 2 * count)))
