"""Indices of places: of a grid, a diagonal, a triangle; coordinates as places in row-major order, and back; `r_` and `c_`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike, default_dtype, kind, requested
from pullback.core.dtypes import promote as join
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.modes import current_mode
from pullback.core.source import api_class
from pullback.core.tracing import Tracer
from pullback.core.types import Shape, ShapeLike
from pullback.numpy.arithmetic import floor_divide, multiply, remainder
from pullback.numpy.axes import whole
from pullback.numpy.creation import arange, array, checked_shape, meshgrid, ones
from pullback.numpy.indexing import from_end
from pullback.numpy.logic import clip, where
from pullback.numpy.promotion import at_user_line, in_dtype, operand, weak_pair
from pullback.numpy.shaping import concatenate, ravel, reshape
from pullback.numpy.spaces import linspace
from pullback.numpy.taking import check_known, counting, true_places, wrapped


def _known(places: Any) -> Any:
    """Indices that were found with NumPy, in the default integer dtype."""
    return array(places, default_dtype("i"))


def _arranged(entry: slice) -> Any:
    """The numbers that a slice of a grid stands for: with an imaginary step, that many between two ends."""
    start, step = 0 if entry.start is None else entry.start, 1 if entry.step is None else entry.step
    if entry.start is entry.stop is None:
        return arange(0)
    if entry.stop is None:
        raise ValueError(f"The slice of a grid needs an end, but got {entry}.{at_user_line()}")
    if isinstance(step, complex):
        return linspace(start, entry.stop, int(abs(step)))
    return arange(start, entry.stop, step)


class Named:
    """What is used by its name: it prints as that, and is pickled by it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"pullback.numpy.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class Written(Named):
    """`s_` and `index_exp`: an index, as an object to be used later; `index_exp` makes it a tuple.

    Example:
        >>> pnp.s_[1:3], pnp.index_exp[1:3]
        (slice(1, 3, None), (slice(1, 3, None),))
    """

    def __getitem__(self, key: Any) -> Any:
        return key if self is s_ or isinstance(key, tuple) else (key,)


s_, index_exp = Written("s_"), Written("index_exp")


@api_class
class Grid(Named):
    """`mgrid` and `ogrid`: a grid by a slice for each axis, in which an imaginary step counts the points between both ends.

    `mgrid` gives one array of all coordinates, `ogrid` a tuple of arrays that broadcast to them, in one dtype; of one slice,
    the numbers.

    Example:
        >>> pnp.mgrid[0:2, 0:3]
        [[[0 0 0]
          [1 1 1]]
        <BLANKLINE>
         [[0 1 2]
          [0 1 2]]]:i32[2,2,3]:cpu(0)
        >>> pnp.ogrid[0:2, 0:1:3j]
        ([[0.]
         [1.]]:f32[2,1]:cpu(0), [[0.  0.5 1. ]]:f32[1,3]:cpu(0))
    """

    def __init__(self, name: str, sparse: bool) -> None:
        super().__init__(name)
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _arranged(key)
        if not isinstance(key, tuple) or not all([isinstance(one, slice) for one in key]):
            raise TypeError(f"{self._name} takes slices, {self._name}[0:2, 0:3], not {brief(key)}.{at_user_line()}")
        if not key:
            return () if self._sparse else arange(0)
        vectors = [*map(_arranged, key)]
        dtype, _ = functools.reduce(join, map(weak_pair, vectors))  # also where promotion is strict: no array was written
        vectors = [in_dtype(vector, dtype) for vector in vectors]
        grids = meshgrid(*vectors, indexing="ij", sparse=self._sparse)
        return tuple(grids) if self._sparse else array(grids)


mgrid, ogrid = Grid("mgrid", False), Grid("ogrid", True)


@api_class
class Joined(Named):
    """`r_` and `c_`: arrays, numbers and slices (as in `mgrid`) joined, along the first axis or as columns.

    A string in front, "axis,ndim,at" or the first parts of it, says along which axis, how many axes everything has at least,
    and where among these the axes stand of what has fewer. "r" or "c" makes a row or a column of a vector, of two axes.

    Example:
        >>> pnp.r_[0:3, 5, pnp.array([7, 9])]
        [0 1 2 5 7 9]:i32[6]:cpu(0)
        >>> pnp.c_[pnp.array([1, 2]), pnp.array([3, 4])]
        [[1 3]
         [2 4]]:i32[2,2]:cpu(0)
        >>> pnp.r_["-1,2,0", [1, 2], [3, 4]]
        [[1 3]
         [2 4]]:i32[2,2]:cpu(0)
    """

    def __init__(self, name: str, axis: int, ndim: int, at: int) -> None:
        super().__init__(name)
        self._how = (axis, ndim, at)

    def __getitem__(self, key: Any) -> Any:
        entries = key if isinstance(key, tuple) else (key,)
        axis, ndim, at = self._how
        form = entries[0] if entries and isinstance(entries[0], str) else ""
        if form in ("r", "c"):
            entries = entries[1:]
        elif form:
            try:
                axis, ndim, at = (*map(int, form.split(",")), *self._how[form.count(",") + 1 :])
            except ValueError:
                raise ValueError(
                    f"{self._name} takes a string 'axis', 'axis,ndim' or 'axis,ndim,at' of ints, 'r' or 'c', not"
                    f" {form!r}.{at_user_line()}"
                ) from None
            entries = entries[1:]
        parts = []
        for entry in entries:
            part = _arranged(entry) if isinstance(entry, slice) else array(entry)
            own = part.type.shape
            new = max(ndim - len(own), 0)
            front = min(at if at >= 0 else at + new + 1, new)
            parts.append(reshape(part, (1,) * front + own + (1,) * (new - front)))
        out = concatenate(parts, axis)
        return reshape(out, (1, -1) if form == "r" else (-1, 1)) if form in ("r", "c") and out.type.ndim == 1 else out


r_, c_ = Joined("r_", 0, 1, -1), Joined("c_", -1, 2, 0)


def ix_(*args: ArrayLike | Sequence[Any]) -> tuple[Array, ...]:
    """Vectors of indices as arrays that broadcast to a grid: x[ix_(rows, columns)] is the part of x with these.

    Arguments:
        args: vectors of integers, or of bools that are known: they stand for the places where they are true.

    Returns:
        A tuple of as many arrays, each with an axis for each vector.

    Raises:
        ShapeError: an argument is not a vector.
        TracerIntegerConversionError: traced bools.

    Example:
        >>> x = pnp.array([[1, 2, 3], [4, 5, 6]])
        >>> x[pnp.ix_([0, 1], [True, False, True])]
        [[1 3]
         [4 6]]:i32[2,2]:cpu(0)
    """
    out = []
    for place, arg in enumerate(args):
        vector = _known([]) if isinstance(arg, (list, tuple)) and not arg else array(arg)
        if vector.type.ndim != 1:
            raise ShapeError(f"ix_ takes vectors, but argument {place} is {vector.type}.{at_user_line()}")
        if kind(vector.type.dtype) == "b":
            vector = true_places(vector, None, "ix_")
        out.append(reshape(vector, (1,) * place + vector.type.shape + (1,) * (len(args) - 1 - place)))
    return tuple(out)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array of `ndim` axes of size n.

    Arguments:
        n, ndim: ints.

    Returns:
        A tuple of vectors of integers, one for each axis.

    Raises:
        ShapeError: a negative size.

    Example:
        >>> pnp.zeros((3, 3)).at[pnp.diag_indices(3)].set(1.0)
        [[1. 0. 0.]
         [0. 1. 0.]
         [0. 0. 1.]]:f32[3,3]:cpu(0)
    """
    (size, axes) = checked_shape((n, ndim), "diag_indices")
    return (_known(np.arange(size)),) * axes


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array.

    Arguments:
        arr: an array of at least two axes, of one size.

    Returns:
        A tuple of vectors of integers, one for each axis.

    Raises:
        LeafError: `arr` is neither an array nor a number.
        ShapeError: it has fewer axes, or axes of different sizes.

    Example:
        >>> pnp.diag_indices_from(pnp.zeros((2, 2)))
        ([0 1]:i32[2]:cpu(0), [0 1]:i32[2]:cpu(0))
    """
    shape = operand(arr, "diag_indices_from").type.shape
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ShapeError(f"diag_indices_from takes two axes or more of one size, but got shape {shape}.{at_user_line()}")
    return diag_indices(shape[0], len(shape))


def _triangle(name: str, below: bool, shape: Any, k: int) -> tuple[Array, Array]:
    rows, columns = checked_shape(shape, name)
    offset = whole(k, f"{name}'s k")
    difference = np.arange(columns) - np.arange(rows)[:, None]
    first, second = np.nonzero(difference <= offset if below else difference >= offset)
    return _known(first), _known(second)


def _matrix_shape(name: str, arr: Any) -> Shape:
    type = operand(arr, name).type
    if type.ndim != 2:
        raise ShapeError(f"{name} takes a matrix, but got {type}.{at_user_line()}")
    return type.shape


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the elements on and below the diagonal number `k` of an n by m matrix, in row-major order.

    Arguments:
        n, m: how many rows and columns; as many columns as rows by default.
        k: which diagonal; positive ones lie above the main one.

    Returns:
        Two vectors of integers.

    Raises:
        ShapeError: a negative size.

    Example:
        >>> pnp.tril_indices(2)
        ([0 1 1]:i32[3]:cpu(0), [0 0 1]:i32[3]:cpu(0))
    """
    return _triangle("tril_indices", True, (n, n if m is None else m), k)


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The indices of the elements on and below the diagonal number `k` of a matrix.

    Arguments:
        arr: a matrix.
        k: which diagonal; positive ones lie above the main one.

    Returns:
        Two vectors of integers.

    Raises:
        LeafError: `arr` is neither an array nor a number.
        ShapeError: it is no matrix.

    Example:
        >>> x = pnp.array([[1, 2], [3, 4]])
        >>> x[pnp.tril_indices_from(x)]
        [1 3 4]:i32[3]:cpu(0)
    """
    return _triangle("tril_indices_from", True, _matrix_shape("tril_indices_from", arr), k)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the elements on and above the diagonal number `k` of an n by m matrix, in row-major order.

    Arguments:
        n, m: how many rows and columns; as many columns as rows by default.
        k: which diagonal; positive ones lie above the main one.

    Returns:
        Two vectors of integers.

    Raises:
        ShapeError: a negative size.

    Example:
        >>> pnp.triu_indices(2, k=1, m=3)
        ([0 0 1]:i32[3]:cpu(0), [1 2 2]:i32[3]:cpu(0))
    """
    return _triangle("triu_indices", False, (n, n if m is None else m), k)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """The indices of the elements on and above the diagonal number `k` of a matrix.

    Arguments:
        arr: a matrix.
        k: which diagonal; positive ones lie above the main one.

    Returns:
        Two vectors of integers.

    Raises:
        LeafError: `arr` is neither an array nor a number.
        ShapeError: it is no matrix.

    Example:
        >>> x = pnp.array([[1, 2], [3, 4]])
        >>> x[pnp.triu_indices_from(x)]
        [1 2 4]:i32[3]:cpu(0)
    """
    return _triangle("triu_indices_from", False, _matrix_shape("triu_indices_from", arr), k)


def mask_indices(n: int, mask_func: Callable[[Any, Any], Any], k: Any = 0, *, size: int | None = None) -> tuple[Array, Array]:
    """The indices at which `mask_func(ones((n, n)), k)` is not zero, as `triu` and `tril` are functions.

    Arguments:
        n: how many rows and columns.
        mask_func: a function of a matrix and `k`.
        k: its second argument.
        size: how many indices to return: the first ones; if there are fewer, zeros follow. Needed where the mask is traced.

    Returns:
        Two vectors of integers.

    Raises:
        ShapeError: a negative size.
        TracerIntegerConversionError: the mask is traced, and there is no `size`.

    Example:
        >>> pnp.mask_indices(2, pnp.triu)
        ([0 0 1]:i32[3]:cpu(0), [0 1 1]:i32[3]:cpu(0))
    """
    (rows,) = checked_shape(n, "mask_indices")
    mask = operand(mask_func(ones((rows, rows)), k), "mask_indices", "what mask_func returns")
    places = true_places(ravel(mask) != 0, size, "mask_indices")
    return floor_divide(places, max(rows, 1)), remainder(places, max(rows, 1))


def coordinates(name: str, given: Any, sizes: Sequence[int], mode: Any, negative: int = 0) -> list[Any]:
    """Indices along axes of these sizes, brought within them as `mode` says for all, or for each; what is to be added to
    those that are negative, so that they count from the end."""
    modes = mode if isinstance(mode, tuple) else (mode,) * len(sizes)
    if len(modes) != len(sizes) or not set(modes) <= {"raise", "wrap", "clip"}:
        raise ValueError(
            f"{name} takes mode='raise', 'wrap' or 'clip', or one for each axis, not {brief(mode)}.{at_user_line()}"
        )
    out = []
    for one, size, how in zip(given, sizes, modes):
        places = array(one)
        if kind(places.type.dtype) not in "iu":
            raise DtypeError(f"{name} takes integers, but got {places.type}. Convert with .astype(int).{at_user_line()}")
        if isinstance(places, Tracer):
            places = from_end(places, negative) if negative else places
        elif negative and kind(places.type.dtype) == "i":
            host = np.asarray(host_of(places))
            own = places.type.dtype if negative <= np.iinfo(host.dtype).max else default_dtype("i")
            places = array((host + np.where(host < 0, np.int64(negative), 0)).astype(own))
        if how == "raise":
            check_known(places, name)
            known = host_of(places)
            if known.size and not 0 <= known.min() <= known.max() < size:
                raise ValueError(
                    f"{name}: an index is out of bounds of an axis of size {size}: it must be one of 0 to"
                    f" {size - 1}.{at_user_line()}"
                )
        if how == "wrap":
            places = wrapped(places, size)
        elif how == "clip":
            places = clip(counting(places, size), 0, size - 1)
        out.append(places)
    return out


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: Any = "raise",
    order: str = "C",
    *,
    dtype: DTypeLike = None,
) -> Array:
    """The places in row-major order of coordinates in an array of a shape.

    Arguments:
        multi_index: for each axis an array of integers. They broadcast.
        dims: the shape.
        mode: for indices out of bounds: "raise", of known ones; "wrap", to count on from the other end; "clip" to the nearest;
            or a tuple with one for each axis.
        order: "C" for row-major order, "F" for column-major.
        dtype: by default the default integer dtype.

    Returns:
        An array of integers.

    Raises:
        DtypeError: an index is not an integer.
        ShapeError: not one array for each axis, or they do not broadcast.
        ValueError: an index is out of bounds; the shape has more elements than `dtype` can count; an unknown mode or order.
        ConcretizationError: traced indices, and `mode="raise"`.

    Example:
        >>> pnp.ravel_multi_index((pnp.array([0, 1]), pnp.array([2, 0])), (2, 3))
        [2 3]:i32[2]:cpu(0)
    """
    shape = checked_shape(dims, "ravel_multi_index")
    given = list(multi_index)
    if len(given) != len(shape):
        raise ShapeError(f"ravel_multi_index takes an array for each axis of {shape}, but got {len(given)}.{at_user_line()}")
    layout = _layout("ravel_multi_index", order)
    wanted = default_dtype("i") if dtype is None else requested(dtype)
    if kind(wanted) not in "iu" or math.prod(shape) - 1 > np.iinfo(wanted).max:
        raise ValueError(
            f"ravel_multi_index: {wanted.name} cannot count the places in an array of shape {shape}. Use indices of a wider"
            f" dtype.{at_user_line()}"
        )
    columns = list(zip(coordinates("ravel_multi_index", given, shape, mode), shape))
    if not any([isinstance(places, Tracer) for places, _ in columns]):
        return array(np.ravel_multi_index([np.asarray(host_of(places)) for places, _ in columns], shape, order=layout), wanted)
    total = array(0, wanted)
    for places, size in columns if order == "C" else reversed(columns):
        total = total * size + in_dtype(places, wanted)
    return total


def _layout(name: str, order: Any) -> Any:
    """An order as NumPy takes it."""
    if order not in ("C", "F"):
        raise ValueError(f"{name} takes order='C' or 'F', not {brief(order)}.{at_user_line()}")
    return order


def _unravelled(places: Any, sizes: list[Any], last: bool) -> tuple[Array, ...]:
    """The coordinates of places in an array whose sizes are traced."""
    dtype = places.type.dtype
    sizes = [in_dtype(operand(size, "unravel_index", "a size"), dtype) for size in sizes]
    count = functools.reduce(multiply, sizes, in_dtype(1, dtype))
    rest = clip(where(places < 0, places + count, places), 0, count - 1)
    out = []
    for size in reversed(sizes):
        out.append(remainder(rest, size))
        rest = floor_divide(rest, size)
    return tuple(reversed(out)) if last else tuple(out)


def unravel_index(indices: ArrayLike | Sequence[Any], shape: ShapeLike, order: str = "C") -> tuple[Array, ...]:
    """The coordinates of places in row-major order in an array of a shape.

    Arguments:
        indices: integers; negative ones count from the end. Known ones are checked, traced ones moved inside, as all are where
            the mode clamps.
        shape: the shape; its sizes may be traced.
        order: "C" for row-major order, "F" for column-major.

    Returns:
        A tuple of arrays, one for each axis, in the dtype of the indices.

    Raises:
        DtypeError: the indices are not integers.
        ValueError: a known one is out of bounds, or an unknown order.

    Example:
        >>> pnp.unravel_index(pnp.array([2, 3, -1]), (2, 3))
        ([0 1 1]:i32[3]:cpu(0), [2 0 2]:i32[3]:cpu(0))
    """
    layout = _layout("unravel_index", order)
    if isinstance(shape, Tracer) or (isinstance(shape, (list, tuple)) and any(isinstance(size, Tracer) for size in shape)):
        return _unravelled(array(indices), list(shape) if order == "C" else list(shape)[::-1], order == "C")
    sizes = checked_shape(shape, "unravel_index")
    count = math.prod(sizes)
    places = array(indices)
    clamps = current_mode().clamps
    (rest,) = coordinates(
        "unravel_index", [places], [count], "clip" if clamps or isinstance(places, Tracer) else "raise", count
    )
    if not isinstance(rest, Tracer):
        return tuple([array(one, rest.type.dtype) for one in np.unravel_index(np.asarray(host_of(rest)), sizes, layout)])
    out = []
    for size in reversed(sizes) if order == "C" else sizes:
        out.append(remainder(rest, max(size, 1)))
        rest = floor_divide(rest, max(size, 1))
    return tuple(reversed(out)) if order == "C" else tuple(out)
