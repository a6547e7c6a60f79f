"""Arrays with some elements replaced: `x.at[index].set(y)` and its kin. The original stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core.dtypes import BOOL, default_dtype
from pullback.core.errors import ShapeError
from pullback.core.source import api_boundary
from pullback.core.tracing import Tracer
from pullback.core.types import Shape
from pullback.numpy.arithmetic import add, divide, maximum, minimum, multiply
from pullback.numpy.creation import array, ones_like
from pullback.numpy.elementary import power
from pullback.numpy.indexing import Index, Span, index_vectors, read
from pullback.numpy.logic import where
from pullback.numpy.promotion import (
    PYTHON_SCALARS,
    at_user_line,
    broadcast,
    broadcast_shapes,
    common_dtype,
    in_dtype,
    literal_of,
    operand,
)
from pullback.ops import shape as shapes
from pullback.ops.dynamic import dynamic_update_slice
from pullback.ops.index import scatter, scatter_add, scatter_max, scatter_min, scatter_mul
from pullback.ops.windows import ScatterDimensionNumbers


class Updater:
    """`x.at`: index it, and call one of the methods of what that gives.

    Example:
        >>> import pullback as pb
        >>> x = pb.numpy.zeros(3)
        >>> x.at[1].set(5.0)
        [0. 5. 0.]:f32[3]:cpu(0)
        >>> x.at[pb.numpy.asarray([0, 0])].add(1.0)
        [2. 0. 0.]:f32[3]:cpu(0)
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Place:
        return Place(self._array, index)

    def __repr__(self) -> str:
        return f"{self._array.type}.at"


class Place:
    """Some elements of an array. Every method returns a new array; the result keeps the array's dtype.

    Updates at traced indices that are out of bounds are dropped. `mode="clip"` moves them inside. Where an index occurs
    several times, `set` uses one of the values, and the others apply all.
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array = array
        self._index = index

    @api_boundary
    def get(self, *, mode: str | None = None, fill_value: Any = None) -> Any:
        """The elements. `mode="fill"` gives NaN or `fill_value` out of bounds instead of the nearest element."""
        how = "fill" if mode == "fill" or fill_value is not None else "clip"
        return read(self._array, Index(self._index, self._array.type.shape), how, fill_value)

    @api_boundary
    def set(self, values: Any, *, mode: str | None = None, unique_indices: bool = False) -> Any:
        """With the elements replaced by `values`, which broadcast."""
        return self._update(scatter, lambda old, new: new, values, mode, unique_indices)

    @api_boundary
    def add(self, values: Any, *, mode: str | None = None, unique_indices: bool = False) -> Any:
        """With `values` added to the elements."""
        return self._update(scatter_add, add, values, mode, unique_indices)

    @api_boundary
    def subtract(self, values: Any, *, mode: str | None = None, unique_indices: bool = False) -> Any:
        """With `values` subtracted from the elements."""
        return self.add(-operand(values, "subtract"), mode=mode, unique_indices=unique_indices)

    @api_boundary
    def multiply(self, values: Any, *, mode: str | None = None, unique_indices: bool = False) -> Any:
        """With the elements multiplied by `values`."""
        return self._update(scatter_mul, multiply, values, mode, unique_indices)

    mul = multiply

    @api_boundary
    def divide(self, values: Any, *, mode: str | None = None, unique_indices: bool = False) -> Any:
        """With the elements divided by `values`."""
        divisors = Place(ones_like(self._array), self._index).multiply(values, mode=mode, unique_indices=unique_indices)
        return _like(divide(self._array, divisors), self._array)

    @api_boundary
    def power(self, values: Any, *, mode: str | None = None, unique_indices: bool = False) -> Any:
        """With the elements raised to `values`."""
        exponents = Place(ones_like(self._array), self._index).multiply(values, mode=mode, unique_indices=unique_indices)
        return _like(power(self._array, exponents), self._array)

    @api_boundary
    def min(self, values: Any, *, mode: str | None = None, unique_indices: bool = False) -> Any:
        """With the smaller one of each element and its value."""
        return self._update(scatter_min, minimum, values, mode, unique_indices)

    @api_boundary
    def max(self, values: Any, *, mode: str | None = None, unique_indices: bool = False) -> Any:
        """With the larger one of each element and its value."""
        return self._update(scatter_max, maximum, values, mode, unique_indices)

    @api_boundary
    def apply(self, function: Callable[[Any], Any], *, mode: str | None = None) -> Any:
        """With an elementwise function applied to the elements."""
        return self.set(function(self.get()), mode=mode)

    def _update(self, primitive: Any, combine: Any, values: Any, mode: str | None, unique: bool) -> Any:
        x = self._array
        if mode not in (None, "drop", "fill", "clip", "promise_in_bounds"):
            raise ValueError(f".at[] takes mode='drop', 'clip' or 'promise_in_bounds', not {mode!r}.")
        values = _fit_dtype(values, x)
        mask = _sole_mask(self._index)
        if mask is not None:
            return _masked(x, mask, primitive, combine, values)
        index = Index(self._index, x.type.shape)
        if x.type.shape != index.shape:
            reshaped = shapes.reshape(x, new_sizes=index.shape)
            return shapes.reshape(_updated(reshaped, index, primitive, combine, values, mode, unique), new_sizes=x.type.shape)
        return _updated(x, index, primitive, combine, values, mode, unique)


def _like(value: Any, x: Any) -> Any:
    return in_dtype(value, x.type.dtype)


def _fit_dtype(values: Any, x: Any) -> Any:
    """New values in the dtype of the array that they go into, which keeps it."""
    if values.__class__ in PYTHON_SCALARS:
        found = common_dtype([x, values], ".at[]")[0]
        if found is x.type.dtype:
            return literal_of(values, found)
    return in_dtype(array(values), x.type.dtype)


def _sole_mask(index: Any) -> Any:
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    if isinstance(index, list):
        index = np.asarray(index)
    return operand(index, "indexing") if getattr(index, "dtype", None) == BOOL else None


def _masked(x: Any, mask: Any, primitive: Any, combine: Any, values: Any) -> Any:
    """An update where a mask is true is a choice between new and old. The mask may be traced."""
    shape = x.type.shape
    if mask.type.shape != shape[: mask.type.ndim]:
        raise IndexError(f"A mask of shape {mask.type.shape} does not fit an array of shape {shape}.{at_user_line()}")
    rest = shape[mask.type.ndim :]
    if values.type.ndim > len(rest) and not isinstance(mask, Tracer):
        count = int(np.count_nonzero(mask.host))
        if values.type.shape == (count, *rest):  # one row for each true element
            index = Index(mask, shape)
            return _updated(x, index, primitive, combine, values, None, True)
    if broadcast_shapes(".at[mask]", values.type.shape, rest) != rest:
        raise ShapeError(f".at[mask] takes values that broadcast to {rest}, but got {values.type}.{at_user_line()}")
    mask = shapes.reshape(mask, new_sizes=(*mask.type.shape, *(1,) * len(rest))) if rest else mask
    wanted = broadcast(values, shape) if values.type.shape else values
    return where(broadcast(mask, shape), combine(x, wanted), x)


def _result_shape(index: Index) -> Shape:
    common = index.common()[1] if index.chosen else ()
    out = [span.length for span in index.spans()]
    out[index.where : index.where] = common
    return tuple(out)


def _updated(x: Any, index: Index, primitive: Any, combine: Any, values: Any, mode: str | None, unique: bool) -> Any:
    shape = _result_shape(index)
    own = values.type.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if own != values.type.shape:
        values = shapes.reshape(values, new_sizes=own)
    if len(own) > len(shape) or broadcast_shapes(".at[]", own, shape) != shape:
        raise ShapeError(f".at[] takes values that broadcast to {shape}, but got {values.type}.{at_user_line()}")
    if 0 in shape:
        return x
    values = broadcast(values, shape)
    if not index.chosen:
        if primitive is not scatter:  # a basic index names each element once
            values = combine(read(x, index), values)
        if all(not isinstance(one, Span) or one.step == 1 or one.length == 1 for one in index.axes):
            return _write_block(x, index, values)
        primitive = scatter
        unique = True
    return _scattered(x, index, primitive, values, mode, unique)


def _write_block(x: Any, index: Index, values: Any) -> Any:
    spans = [one if isinstance(one, Span) else Span(one, 1, 1) for one in index.axes]
    block = shapes.reshape(values, new_sizes=tuple([span.length for span in spans]))
    if block.type.shape == x.type.shape:
        return block
    dtype = default_dtype("i")
    return dynamic_update_slice(x, block, *[literal_of(span.start, dtype) for span in spans])


def _scattered(x: Any, index: Index, primitive: Any, values: Any, mode: str | None, unique: bool) -> Any:
    """An update by `scatter`: the axes that the index leaves whole are windows, the rest is spelled out in index vectors."""
    arrays, common = index.common() if index.chosen else ([], ())
    given = dict(zip(index.chosen, arrays))
    # Axes of the values: those of the spans in order, with the common axes of the index arrays put in at `where`.
    layout: list[Any] = [axis for axis, one in enumerate(index.axes) if isinstance(one, Span)]
    layout[index.where : index.where] = [None] * len(common)
    whole = [axis for axis, one in enumerate(index.axes) if isinstance(one, Span) and one == (0, 1, index.shape[axis])]
    window_dims = tuple([i for i, axis in enumerate(layout) if axis in whole])
    batch = [i for i in range(len(layout)) if i not in window_dims]
    batch_shape = tuple([values.type.shape[i] for i in batch])
    pointed = [axis for axis in range(len(index.axes)) if axis not in whole]
    columns = []
    for axis in pointed:
        one = index.axes[axis]
        if axis in given:
            rows = given[axis]
            first = batch.index(index.where) if common else 0
            unit = [1] * len(batch)
            padded = (1,) * (len(common) - rows.type.ndim) + rows.type.shape
            unit[first : first + len(common)] = padded
            rows = shapes.reshape(rows, new_sizes=tuple(unit))
        else:
            places = one.places() if isinstance(one, Span) else np.asarray(one)
            unit = [1] * len(batch)
            if isinstance(one, Span):
                unit[batch.index(layout.index(axis))] = one.length
            rows = array(places.reshape(unit).astype(default_dtype("i")))
        columns.append(rows)
    vectors = index_vectors(columns, batch_shape) if columns else array(np.zeros((*batch_shape, 0), default_dtype("i")))
    numbers = ScatterDimensionNumbers(window_dims, tuple(pointed), tuple(pointed))
    how = mode if mode in ("clip", "promise_in_bounds") else "fill"
    return primitive(x, vectors, values, dimension_numbers=numbers, mode=how, unique_indices=unique)
