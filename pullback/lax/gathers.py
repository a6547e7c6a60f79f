"""Reading and writing windows at computed places: gather, the scatters, and `index_take`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import INT32, in_words
from pullback.core.errors import ShapeError
from pullback.core.modes import current_mode
from pullback.core.types import ShapeLike
from pullback.lax.elementwise import lifted
from pullback.numpy.arithmetic import remainder
from pullback.numpy.creation import checked_shape, full
from pullback.numpy.factories import named
from pullback.numpy.indexing import index_vectors
from pullback.numpy.promotion import at_user_line, fill_number, flags
from pullback.numpy.promotion import operand as as_operand
from pullback.numpy.updates import applied
from pullback.ops import arithmetic, index
from pullback.ops.windows import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers, mode_name

Mode = str | GatherScatterMode | None


def _how(name: str, numbers: Any, wanted: Any, mode: Mode, default: str = "fill") -> dict[str, Any]:
    """Dimension numbers and mode as primitives take them."""
    if not isinstance(numbers, wanted):
        raise TypeError(f"{name} takes lax.{wanted.__name__} as dimension_numbers, but got {brief(numbers)}.{at_user_line()}")
    return {"dimension_numbers": wanted(*map(tuple, numbers)), "mode": mode_name(name, mode) or default}


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Mode = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """Windows at the index vectors along the last axis of `start_indices`.

    Arguments:
        operand: an array.
        start_indices: an array of integers, index vectors along its last axis.
        dimension_numbers: a `GatherDimensionNumbers`: which axes are which.
        slice_sizes: for each axis of the operand the size of a window.
        unique_indices, indices_are_sorted: promises that no two windows overlap, and that the vectors are in order. Nothing is
            made of them.
        mode: what to do with windows that are not within the array: "clip" (the default) moves them inside, "fill" (the
            default with a `fill_value`) fills them, "promise_in_bounds" says that there are none; or a `GatherScatterMode`.
        fill_value: a number, for "fill"; by default NaN, of signed integers the smallest, of unsigned ones the largest.

    Returns:
        An array of the dtype of the operand.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the indices are not integers.
        ShapeError: the numbers and sizes do not fit.
        TypeError: other dimension numbers. ValueError: an unknown mode.

    Example:
        >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
        >>> x = pnp.array([[1, 2], [3, 4], [5, 6]])
        >>> lax.gather(x, pnp.array([[2], [0]]), rows, slice_sizes=(1, 2)), x[pnp.array([2, 0])]
        ([[5 6]
         [1 2]]:i32[2,2]:cpu(0), [[5 6]
         [1 2]]:i32[2,2]:cpu(0))
    """
    flags("gather", unique_indices=unique_indices, indices_are_sorted=indices_are_sorted)
    x, params = as_operand(operand, "gather"), {}
    if fill_value is not None:
        params["fill_value"] = fill_number(fill_value, x.type.dtype, "gather")
    moved = "promise_in_bounds" if current_mode().clamps else "clip"
    how = _how("gather", dimension_numbers, GatherDimensionNumbers, mode, moved if fill_value is None else "fill")
    return index.gather(x, as_operand(start_indices, "gather"), slice_sizes=tuple(slice_sizes), **how, **params)


_SCATTER = """    Arguments:
        operand: an array{}.
        scatter_indices: an array of integers, index vectors along its last axis.
        updates: an array of the dtype of the operand: a window for each vector.
        dimension_numbers: a `ScatterDimensionNumbers`: which axes are which.
        indices_are_sorted: a promise that the vectors are in order, of which nothing is made.
        unique_indices: a promise that no two windows overlap.
        mode: what to do with windows that are not within the array: "fill" or "drop" (the default) leaves them out, "clip"
            moves them inside, "promise_in_bounds" says that there are none; or a `GatherScatterMode`.

    Returns:
        An array of the shape and dtype of the operand.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes of operand and updates differ{}, or the indices are not integers.
        ShapeError: the numbers and shapes do not fit.
        TypeError: other dimension numbers. ValueError: an unknown mode."""


def _scatter(name: str, primitive: Any, example: str, summary: str = "", prepare: Any = None) -> Callable[..., Array]:
    def function(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        _, unique = flags(name, indices_are_sorted=indices_are_sorted, unique_indices=unique_indices)
        how = _how(name, dimension_numbers, ScatterDimensionNumbers, mode)
        x, new = lifted(name, (operand, updates))
        new = new if prepare is None else prepare(new)
        return primitive(x, as_operand(scatter_indices, name), new, unique_indices=unique, **how)

    kinds = "" if primitive.kinds == "biufc" else f" ({in_words(primitive.kinds)})"
    shared = _SCATTER.format(kinds, ", or are others" if kinds else "")
    return named(function, name, (summary or primitive.__doc__) + "\n\n    Example:" + example, shared, "pullback.lax")


# fmt: off
scatter = _scatter("scatter", index.scatter, """
        >>> rows = lax.ScatterDimensionNumbers((1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        >>> lax.scatter(pnp.zeros((2, 2)), pnp.array([[1]]), pnp.array([[5.0, 6.0]]), rows)
        [[0. 0.]
         [5. 6.]]:f32[2,2]:cpu(0)
    """)
scatter_add = _scatter("scatter_add", index.scatter_add, """
        >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_add(pnp.array([1, 2, 3]), pnp.array([[0], [0], [7]]), pnp.array([10, 20, 30]), points)
        [31  2  3]:i32[3]:cpu(0)
    """)
scatter_sub = _scatter("scatter_sub", index.scatter_add, """
        >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_sub(pnp.array([1, 2, 3]), pnp.array([[0], [0]]), pnp.array([10, 20]), points)
        [-29   2   3]:i32[3]:cpu(0)
    """, "`operand` less `updates` at the windows that `indices` point to; of windows that overlap, less each.", arithmetic.neg)
scatter_mul = _scatter("scatter_mul", index.scatter_mul, """
        >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_mul(pnp.array([1, 2, 3]), pnp.array([[1], [1]]), pnp.array([10, 20]), points)
        [  1 400   3]:i32[3]:cpu(0)
    """)
scatter_min = _scatter("scatter_min", index.scatter_min, """
        >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_min(pnp.array([1, 5, 9]), pnp.array([[1], [2]]), pnp.array([3, 20]), points)
        [1 3 9]:i32[3]:cpu(0)
    """)
scatter_max = _scatter("scatter_max", index.scatter_max, """
        >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_max(pnp.array([1, 5, 9]), pnp.array([[1], [2]]), pnp.array([3, 20]), points)
        [ 1  5 20]:i32[3]:cpu(0)
    """)
# fmt: on


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Array], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: ShapeLike = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Mode = None,
) -> Array:
    """`func` of the elements in the windows that indices point to; of one in several windows, applied as many times.

    Arguments:
        operand: an array.
        scatter_indices: an array of integers, index vectors along its last axis.
        func: an elementwise function of an array.
        dimension_numbers: a `ScatterDimensionNumbers`: which axes are which.
        update_shape: the shape that updates would have: a window for each vector.
        indices_are_sorted: a promise that the vectors are in order, of which nothing is made.
        unique_indices: a promise that no two windows overlap, so that `func` is applied once.
        mode: as for `scatter`.

    Returns:
        An array of the shape and dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        DtypeError: the indices are not integers, or `func` returns another dtype.
        ShapeError: the numbers and shapes do not fit.
        ValueError: an unknown mode.

    Example:
        >>> points = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_apply(pnp.array([1, 2, 3]), pnp.array([[1], [1]]), lambda x: 10 * x, points, update_shape=(2,))
        [  1 200   3]:i32[3]:cpu(0)
    """
    _, unique = flags("scatter_apply", indices_are_sorted=indices_are_sorted, unique_indices=unique_indices)
    x, places = as_operand(operand, "scatter_apply"), as_operand(scatter_indices, "scatter_apply")
    how = _how("scatter_apply", dimension_numbers, ScatterDimensionNumbers, mode)
    ones = full(checked_shape(update_shape, "scatter_apply"), 1, INT32)

    def read(array: Any) -> Any:
        return index.gathered_back(array, places, ones, **how)

    counts = None if unique else read(index.scatter_add(full(x.type.shape, 0, INT32), places, ones, **how))
    new = applied(func, read(x), counts, "scatter_apply")
    return index.scatter(x, places, new, unique_indices=unique, **how)


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """The parts of an array at vectors of indices along some of its axes, which a first axis of the result takes the place of.

    Arguments:
        src: an array.
        idxs: for each of the axes a vector of integers, of one length; they count on from the other end of the axis, whether
            they are too large or negative.
        axes: these axes.

    Returns:
        An array with the axis of the vectors, then the other axes of `src`.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: not one vector for each axis, or they are of different lengths.
        DtypeError: they are not integers.

    Example:
        >>> lax.index_take(pnp.array([[1, 2], [3, 4]]), [pnp.array([0, 1, -1])], [1])
        [[1 3]
         [2 4]
         [2 4]]:i32[3,2]:cpu(0)
    """
    x = as_operand(src, "index_take")
    vectors = [as_operand(one, "index_take") for one in idxs]
    if not vectors or len(vectors) != len(axes) or any(one.type.ndim != 1 for one in vectors):
        given = ", ".join([str(one.type) for one in vectors])
        raise ShapeError(
            f"index_take takes a vector of indices for each of axes={brief(axes)}, but got {given}.{at_user_line()}"
        )
    columns = [remainder(one, x.type.shape[axis]) for one, axis in zip(vectors, axes)]
    numbers = GatherDimensionNumbers(tuple(range(1, x.type.ndim - len(axes) + 1)), tuple(axes), tuple(axes))
    sizes = tuple([1 if axis in axes else size for axis, size in enumerate(x.type.shape)])
    return index.gather(x, index_vectors(columns, vectors[0].type.shape), dimension_numbers=numbers, slice_sizes=sizes)
