"""Arrays with some elements replaced: `x.at[index].set(y)` and its kin. The original stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self, TypedDict, Unpack

import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.dtypes import BOOL, INT32, RANK, DType, accumulation_dtype, default_dtype, kind
from pullback.core.errors import NonConcreteBooleanIndexError, ShapeError
from pullback.core.lazy import lazy_module
from pullback.core.modes import current_mode
from pullback.core.source import api_boundary, warn
from pullback.core.tracing import Tracer, _quiet_numpy, innermost_staging
from pullback.core.types import Shape
from pullback.numpy.arithmetic import add, divide, maximum, minimum, multiply, negative
from pullback.numpy.creation import array, full
from pullback.numpy.elementary import power
from pullback.numpy.indexing import Index, Span, get_item, has_tracer, index_vectors, numpy_index, read, refuse_list
from pullback.numpy.logic import where
from pullback.numpy.promotion import (
    at_user_line,
    broadcast,
    broadcast_shapes,
    check_written,
    common_dtype,
    exactly,
    flags,
    float_for,
    in_dtype,
    literal_of,
    number_or_operand,
    operand,
    storable,
)
from pullback.ops import compare
from pullback.ops import shape as shapes
from pullback.ops.convert import convert_element_type
from pullback.ops.dynamic import dynamic_update_slice
from pullback.ops.index import scatter, scatter_add, scatter_max, scatter_min, scatter_mul
from pullback.ops.windows import ScatterDimensionNumbers, mode_name

loops = lazy_module("pullback.api.loops")


METHODS = ("get", "set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")  # of `Place`


class Updater:
    """`x.at`: index it, and call one of the methods of what that gives.

    Example:
        >>> x = pnp.zeros(3)
        >>> x.at[1].set(5.0)
        [0. 5. 0.]:f32[3]:cpu(0)
        >>> x.at[pnp.array([0, 0])].add(1.0)
        [2. 0. 0.]:f32[3]:cpu(0)
        >>> x
        [0. 0. 0.]:f32[3]:cpu(0)
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Place:
        return Place(self._array, index)

    @api_boundary
    def __setitem__(self, index: Any, value: Any) -> None:
        raise _in_place("=", "set")

    @api_boundary
    def __call__(self, *args: Any) -> NoReturn:
        raise TypeError(f"x.at is indexed, not called: write x.at[index].set(values).{at_user_line()}")

    @api_boundary
    def __getattr__(self, name: str) -> NoReturn:
        first = f": index it first, x.at[index].{name}(...)" if name in METHODS else ""
        raise AttributeError(f"x.at of an array has no attribute {name!r}{first}.", name=name, obj=self)

    def __repr__(self) -> str:
        return f"{self._array.type}.at"


def _in_place(operator: str, method: str) -> TypeError:
    return TypeError(
        f"Arrays are immutable: x.at[i] {operator} y cannot be done in place. Write x = x.at[i].{method}(y).{at_user_line()}"
    )


class How(TypedDict, total=False):
    """The options of every method of `x.at[index]`."""

    mode: str | None
    unique_indices: bool
    indices_are_sorted: bool
    wrap_negative_indices: bool


class Place:
    """Some elements of an array. Every method returns a new array, of the array's type.

    Values and elements meet in their common dtype, and the result is converted to the array's. Where that loses something, as
    a fraction in an array of integers, or might, since values are traced, there is a warning. `set` refuses values of another
    kind (floats for an array of integers), unless they are Python numbers that fit exactly.

    `mode` says what happens at places out of bounds: "drop" (or "fill") leaves them out, "clip" moves them inside,
    "promise_in_bounds" says that there are none. Without a mode, known indices raise IndexError, and updates at traced ones are
    dropped. Where an index occurs several times, `set` uses the last of the values, and the others apply all; `unique_indices`
    promises that none does. With `wrap_negative_indices=False`, negative indices are out of bounds instead of counted from the
    end. `indices_are_sorted` promises that they are, as in JAX; nothing is made of it.

    Example:
        >>> x = pnp.array([1.0, 2.0, 3.0])
        >>> x.at[1:].multiply(10.0)
        [ 1. 20. 30.]:f32[3]:cpu(0)
        >>> x.at[5].set(0.0, mode="drop"), x.at[5].get(mode="fill")
        ([1. 2. 3.]:f32[3]:cpu(0), nan:f32[]:cpu(0))
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array = array
        self._index = index

    @api_boundary
    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"x.at[index] has no method {name!r}; those are {', '.join(METHODS)}.", name=name, obj=self)

    def __repr__(self) -> str:
        return f"<.at[{self._index!r}] without a method: .get(), .set(values), .add(values), ...>"

    @api_boundary
    def __iadd__(self, values: Any) -> Self:
        raise _in_place("+=", "add")

    @api_boundary
    def __isub__(self, values: Any) -> Self:
        raise _in_place("-=", "subtract")

    @api_boundary
    def __imul__(self, values: Any) -> Self:
        raise _in_place("*=", "multiply")

    @api_boundary
    def __itruediv__(self, values: Any) -> Self:
        raise _in_place("/=", "divide")

    @api_boundary
    def __ipow__(self, values: Any) -> Self:
        raise _in_place("**=", "power")

    @api_boundary
    def get(self, *, fill_value: Any = None, **how: Unpack[How]) -> Any:
        """The elements. `mode="fill"` gives NaN or `fill_value` out of bounds; "clip", the default, the nearest element.

        Arguments:
            fill_value: what stands for elements out of bounds; implies `mode="fill"`.
            how: `mode`, `wrap_negative_indices` and the other options, as above.

        Returns:
            An array.

        Raises:
            IndexError: a known index is out of bounds, and there is no mode.

        Example:
            >>> pnp.array([1.0, 2.0]).at[pnp.array([0, 7])].get(mode="fill")
            [ 1. nan]:f32[2]:cpu(0)
        """
        mode, _, wraps = _checked(how, "promise_in_bounds")
        if fill_value is not None and (mode is None or not current_mode().clamps):
            mode = "fill"
        return read(self._array, Index(self._index, self._array.type.shape, mode, wraps), mode, fill_value)

    @api_boundary
    def set(self, values: Any, **how: Unpack[How]) -> Any:
        """With the elements replaced by `values`, which broadcast.

        Arguments:
            values: an array or a number that broadcasts to the elements.
            how: `mode` and the other options.

        Returns:
            A new array.

        Raises:
            DtypeError: `values` are of a kind that the array cannot hold: complex in real, floating in integers.
            IndexError: a known index is out of bounds, and there is no mode.
            ShapeError: `values` do not broadcast to the elements.

        Example:
            >>> pnp.array([1, 2, 3]).at[0].set(9)
            [9 2 3]:i32[3]:cpu(0)
            >>> pnp.zeros((2, 2)).at[:, 1].set(pnp.array([1.0, 2.0]))
            [[0. 1.]
             [0. 2.]]:f32[2,2]:cpu(0)
        """
        x = self._array
        new = _number_or_array(values)
        check_written(".at[].set", x, new)
        new = storable(new, x.type.dtype, ".at[].set of {}", warns=True)
        return self._update(scatter, lambda old, new: new, new, x.type.dtype, how)

    @api_boundary
    def add(self, values: Any, **how: Unpack[How]) -> Any:
        """With `values` added to the elements.

        Arguments:
            values: an array or a number that broadcasts to the elements.
            how: `mode` and the other options.

        Returns:
            A new array.

        Example:
            >>> pnp.array([1, 2, 3]).at[pnp.array([0, 0, 2])].add(10)
            [21  2 13]:i32[3]:cpu(0)
        """
        return self._combine(scatter_add, add, values, how)

    @api_boundary
    def subtract(self, values: Any, **how: Unpack[How]) -> Any:
        """With `values` subtracted from the elements.

        Arguments:
            values: an array or a number that broadcasts to the elements.
            how: `mode` and the other options.

        Returns:
            A new array.

        Example:
            >>> pnp.array([1, 2, 3]).at[1:].subtract(10)
            [ 1 -8 -7]:i32[3]:cpu(0)
        """
        values, dtype = self._common(values, "subtract")
        return self._update(scatter_add, add, negative(in_dtype(values, dtype)), dtype, how)

    @api_boundary
    def multiply(self, values: Any, **how: Unpack[How]) -> Any:
        """With the elements multiplied by `values`.

        Arguments:
            values: an array or a number that broadcasts to the elements.
            how: `mode` and the other options.

        Returns:
            A new array.

        Example:
            >>> pnp.array([4, 5, 6]).at[0].multiply(0.5)
            [2 5 6]:i32[3]:cpu(0)
        """
        return self._combine(scatter_mul, multiply, values, how)

    mul = multiply

    @api_boundary
    def divide(self, values: Any, **how: Unpack[How]) -> Any:
        """With the elements divided by `values`.

        Arguments:
            values: an array or a number that broadcasts to the elements.
            how: `mode` and the other options.

        Returns:
            A new array.

        Example:
            >>> pnp.array([4.0, 5.0]).at[0].divide(8.0)
            [0.5 5. ]:f32[2]:cpu(0)
        """
        return self._by_product(divide, values, how, inexact=True)

    @api_boundary
    def power(self, values: Any, **how: Unpack[How]) -> Any:
        """With the elements raised to `values`.

        Arguments:
            values: an array or a number that broadcasts to the elements.
            how: `mode` and the other options.

        Returns:
            A new array.

        Example:
            >>> pnp.array([2.0, 3.0]).at[1].power(2)
            [2. 9.]:f32[2]:cpu(0)
        """
        return self._by_product(power, values, how)

    @api_boundary
    def min(self, values: Any, **how: Unpack[How]) -> Any:
        """With the smaller one of each element and its value.

        Arguments:
            values: an array or a number that broadcasts to the elements.
            how: `mode` and the other options.

        Returns:
            A new array.

        Example:
            >>> pnp.array([1.0, 5.0]).at[:].min(3.0)
            [1. 3.]:f32[2]:cpu(0)
        """
        return self._combine(scatter_min, minimum, values, how)

    @api_boundary
    def max(self, values: Any, **how: Unpack[How]) -> Any:
        """With the larger one of each element and its value.

        Arguments:
            values: an array or a number that broadcasts to the elements.
            how: `mode` and the other options.

        Returns:
            A new array.

        Example:
            >>> pnp.array([1.0, 5.0]).at[:].max(3.0)
            [3. 5.]:f32[2]:cpu(0)
        """
        return self._combine(scatter_max, maximum, values, how)

    @api_boundary
    def apply(self, function: Callable[[Any], Any], **how: Unpack[How]) -> Any:
        """With an elementwise function applied to the elements: to one that is named several times, as many times.

        Arguments:
            function: an elementwise function of an array.
            how: `mode` and the other options.

        Returns:
            A new array.

        Example:
            >>> pnp.array([1.0, 4.0, 9.0]).at[1:].apply(pnp.sqrt)
            [1. 2. 3.]:f32[3]:cpu(0)
        """
        mode, unique, wraps = _checked(how)
        mask, x = _sole_mask(self._index), self._array
        if isinstance(mask, Tracer):
            behind = (1,) * (x.type.ndim - mask.type.ndim)
            return self._kept(where(shapes.reshape(mask, new_sizes=mask.type.shape + behind), function(x), x), how)
        index = Index(self._index, self._array.type.shape, mode, wraps)
        counts = None
        if index.chosen and not unique:
            ones = Place(full(self._array.type.shape, 0, INT32), self._index)
            counts = Place(ones.add(1, **how), self._index).get(**how)
        return self.set(applied(function, self.get(**how), counts, ".at[].apply"), **how)

    def _common(self, values: Any, name: str) -> tuple[Any, DType]:
        """New values, and the dtype in which they meet the array's."""
        values = _number_or_array(values)
        own = self._array.type.dtype
        if values.__class__ is float and kind(own) in "biu" and name not in ("divide", "power"):  # a whole number stays one
            exact = exactly(values, own)
            values = values if exact is None else exact
        return values, common_dtype([self._array, values], f".at[].{name}")[0]

    def _combine(self, primitive: Any, combine: Any, values: Any, how: How) -> Any:
        return self._update(primitive, combine, *self._common(values, combine.__name__), how)

    def _by_product(self, function: Any, values: Any, how: How, inexact: bool = False) -> Any:
        """`function` of the array and, at each place, the product of the values for it: 1 where there are none."""
        values, dtype = self._common(values, function.__name__)
        dtype = float_for(dtype) if inexact else dtype
        factors = Place(full(self._array.type.shape, 1, dtype), self._index).multiply(values, **how)
        out = function(in_dtype(self._array, dtype), factors)
        whole = kind(self._array.type.dtype) in "biu"
        return out if inexact and whole and current_mode().truncates else self._kept(out, how)

    def _update(self, primitive: Any, combine: Any, values: Any, dtype: DType, how: How) -> Any:
        """The elements and `values` combined in `dtype`, and put in the array's place."""
        mode, unique, wraps = _checked(how)
        x, values = in_dtype(self._array, dtype), in_dtype(values, dtype)
        fast = wraps or (self._index.__class__ is Array and _has_no_negative(self._index))
        if fast and (written := _written(x, self._index, primitive, combine, values)) is not None:
            return self._kept(written, how)
        mask = _sole_mask(self._index)
        if mask is not None:
            return self._kept(_masked(x, mask, primitive, combine, values), how)
        if (parts := _traced_mask(self._index, x.type.ndim)) is not None:
            block, mask, depth = parts
            old = read(x, Index(block, x.type.shape))
            new = _masked(old, mask, primitive, combine, values, depth)
            return self._kept(Place(x, block)._update(scatter, lambda old, new: new, new, dtype, {}), how)
        index = Index(self._index, x.type.shape, mode, wraps)
        reshaped = x if x.type.shape == index.shape else shapes.reshape(x, new_sizes=index.shape)
        out = _updated(reshaped, index, primitive, combine, values, mode, unique)
        return self._kept(out if out.type.shape == x.type.shape else shapes.reshape(out, new_sizes=x.type.shape), how)

    def _kept(self, out: Any, how: How) -> Any:
        """An updated array in the type of the original; where dtypes of two kinds met, elsewhere with its very elements."""
        x = self._array
        own = x.type.dtype
        before, mixed = out, kind(out.type.dtype) != kind(own)
        if out.type is not x.type:
            out = convert_element_type(out, new_dtype=own, weak=x.type.weak)
        if not mixed:
            return out
        if RANK[kind(before.type.dtype)] > RANK[kind(own)]:
            _warn_of_loss(before, out)
        touched = Place(full(x.type.shape, False), self._index).set(True, **how)
        return compare.select(touched, out, x)


def _warn_of_loss(before: Any, after: Any) -> None:
    """Warn if an update loses part of what was computed by its conversion to the array's dtype, or if nobody knows."""
    known = isinstance(before, Array) and isinstance(after, Array)
    if known and np.array_equal(before.host, after.host.astype(before.type.dtype)):
        return
    wide, own = before.type.dtype.name, after.type.dtype.name
    category = FutureWarning if current_mode().truncates else RuntimeWarning
    warn(
        f".at[] computed {wide} for an array of {own}, in which part of that {'is' if known else 'may be'} lost. Convert the"
        f" array, x.astype({wide!r}), or the values, .astype({own!r}).",
        category=category,
    )


def applied(function: Callable[[Any], Any], values: Any, counts: Any, name: str) -> Any:
    """A function applied to elements as often as `counts` says: once, if it is None."""
    if counts is not None and isinstance(counts, Array):
        counts = counts if np.any(np.asarray(counts.host) > 1) else None
    if counts is None:
        return function(values)

    def step(state: Any) -> Any:
        done, old = state
        new = in_dtype(operand(function(old), name, "what its function returns"), old.type.dtype)
        return done + 1, where(done < counts, new, old)

    start = (literal_of(0, counts.type.dtype), values)
    return loops.while_loop(lambda state: state[0] < counts.max(initial=0), step, start, max_steps=max(counts.type.size, 1))[1]


def _checked(how: How, clamping: str = "fill") -> tuple[str | None, bool, bool]:
    """What an update was asked for: its mode, whether indices are unique, and whether negative ones count from the end.

    Arguments:
        clamping: the mode where none is given, and indices out of bounds are no errors (`core/modes.py`).
    """
    if unknown := how.keys() - How.__annotations__.keys():
        raise TypeError(f".at[] takes no argument {min(unknown)!r}, only {', '.join(How.__annotations__)}.{at_user_line()}")
    promises = {"wrap_negative_indices": True, "unique_indices": False, "indices_are_sorted": False, **how}
    mode = mode_name(".at[]", promises.pop("mode", None))
    if mode is None and current_mode().clamps:
        mode = clamping
    wraps, unique, _ = flags(".at[]", **promises)
    return mode, unique, wraps


def _number_or_array(values: Any) -> Any:
    return array(values) if isinstance(values, (list, tuple)) else number_or_operand(values, ".at[]", "the values")


_MANY = 1 << 12  # from so many elements on, to number them costs more than to read the index


def _written(x: Any, index: Any, primitive: Any, combine: Any, values: Any) -> Array | None:
    """The fast path: an update in NumPy memory of known places that there are; None if it is another."""
    if x.__class__ is not Array or values.__class__ is not Array or x._host is None or innermost_staging() is not None:
        return None
    dtype, known = x.type.dtype, numpy_index(index)
    basic, adds = known is not None, primitive is scatter_add and accumulation_dtype(dtype) is dtype and x._host.size < _MANY
    if not basic and (adds or primitive is scatter):
        known = numpy_index(index, "i")
    if known is None:
        return None
    out = np.array(x._host, order="C")
    try:
        if basic:
            out[known] = host_of(combine(get_item(x, index), values))
        elif adds:  # along one axis: `np.add.at` of NumPy 2.4 loses terms where it has to broadcast the values along several
            places = np.arange(out.size).reshape(out.shape)[known]
            terms = np.empty(places.shape, dtype)
            terms[...] = host_of(values)
            _quiet_numpy.run(np.add.at, out.reshape(-1), places.reshape(-1), terms.reshape(-1))
        else:
            out[known] = host_of(values)
    except (IndexError, ValueError, TypeError):
        return None  # the general path does what `mode` says, or says what is wrong, and where
    return Array(x.type, out)


def _has_no_negative(index: Array) -> bool:
    return kind(index.type.dtype) == "i" and bool(np.asarray(host_of(index)).min(initial=0) >= 0)


def _sole_mask(index: Any) -> Any:
    refuse_list(index)
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    if isinstance(index, bool) or (isinstance(index, list) and not has_tracer(index)):
        index = np.asarray(index)
    return operand(index, "indexing") if getattr(index, "dtype", None) == BOOL else None


def _traced_mask(index: Any, ndim: int) -> tuple[tuple[Any, ...], Any, int] | None:
    """Of an index of slices, ints, None, `...` and one traced mask: the index of all that the mask may choose from, the mask,
    and how many axes of that part stand in front of it. None of any other index."""
    entries = index if isinstance(index, tuple) else (index,)
    masks = [i for i, one in enumerate(entries) if isinstance(one, Tracer) and one.type.dtype is BOOL and one.type.ndim]
    if len(masks) != 1 or numpy_index((*entries[: masks[0]], *entries[masks[0] + 1 :])) is None:
        return None
    mask, front, behind = entries[masks[0]], entries[: masks[0]], entries[masks[0] + 1 :]
    used = sum([one is not None and one is not Ellipsis for one in (*front, *behind)]) + mask.type.ndim
    depth = sum([one is None or one.__class__ is slice for one in front])
    depth += ndim - used if any([one is Ellipsis for one in front]) else 0
    return (*front, *[slice(None)] * mask.type.ndim, *behind), mask, depth


def _masked(x: Any, mask: Any, primitive: Any, combine: Any, values: Any, depth: int = 0) -> Any:
    """An update where a mask, of the axes from `depth` on, is true: a choice between new and old. The mask may be traced."""
    shape = x.type.shape
    end = depth + mask.type.ndim
    if mask.type.shape != shape[depth:end]:
        raise IndexError(
            f"A mask of shape {mask.type.shape} does not fit an array of shape {shape}: along axes that it chooses from, it"
            f" must have their sizes.{at_user_line()}"
        )
    rest = shape[end:]
    values = _without_ones(values, len(rest))
    if isinstance(mask, Tracer) and values.type.ndim > len(rest):
        own = values.type.shape
        if own[-1 - len(rest)] != 1:
            raise NonConcreteBooleanIndexError(
                f".at[mask] was given {values.type}, values for each element that a traced mask of type {mask.type} chooses,"
                f" but how many these are is not known. Say how many places there are, with x.at[pb.numpy.nonzero(mask, size=n,"
                f" fill_value=x.size)].set(values, mode='drop'), or choose with pb.numpy.where.{at_user_line()}"
            )
        cut = len(own) - 1 - len(rest)
        values = shapes.reshape(values, new_sizes=(*own[:cut], *[1] * mask.type.ndim, *own[cut + 1 :]))
        rest = shape[:depth] + (1,) * mask.type.ndim + rest
    elif values.type.ndim > len(rest):
        count = int(np.count_nonzero(mask.host))
        rows = (count, *rest)  # one for each true element
        if broadcast_shapes(".at[mask]", values.type.shape, rows) == rows:
            index = Index(mask, shape)
            return _updated(x, index, primitive, combine, values, "promise_in_bounds", True)
    if broadcast_shapes(".at[mask]", values.type.shape, rest) != rest:
        raise ShapeError(f".at[mask] takes values that broadcast to {rest}, but got {values.type}.{at_user_line()}")
    behind = (1,) * (len(shape) - end)
    mask = shapes.reshape(mask, new_sizes=(*mask.type.shape, *behind)) if behind else mask
    wanted = broadcast(values, shape) if values.type.shape else values
    return where(broadcast(mask, shape), combine(x, wanted), x)


def _without_ones(values: Any, ndim: int) -> Any:
    """Values without leading axes of size 1, as far as these are more than `ndim`."""
    own = values.type.shape
    while len(own) > ndim and own[0] == 1:
        own = own[1:]
    return values if own == values.type.shape else shapes.reshape(values, new_sizes=own)


def _result_shape(index: Index) -> Shape:
    common = index.common()[1] if index.chosen else ()
    out = [span.length for span in index.spans()]
    out[index.where : index.where] = common
    return tuple(out)


def _updated(x: Any, index: Index, primitive: Any, combine: Any, values: Any, mode: str | None, unique: bool) -> Any:
    if mode is None:
        index.refuse_outside()
    shape = _result_shape(index)
    values = _without_ones(values, len(shape))
    own = values.type.shape
    if len(own) > len(shape) or broadcast_shapes(".at[]", own, shape) != shape:
        raise ShapeError(f".at[] takes values that broadcast to {shape}, but got {values.type}.{at_user_line()}")
    if 0 in shape or not x.type.size:
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
    end = batch.index(index.where) + len(common) if common else 0  # of the common axes, among those of the batch
    columns = []
    for axis in pointed:
        one = index.axes[axis]
        rows = given[axis] if axis in given else array(one.places() if isinstance(one, Span) else one, default_dtype("i"))
        behind = len(batch) - (batch.index(layout.index(axis)) + 1 if isinstance(one, Span) else end)
        columns.append(shapes.reshape(rows, new_sizes=(*rows.type.shape, *[1] * behind)))
    vectors = index_vectors(columns, batch_shape) if columns else array(np.zeros((*batch_shape, 0), default_dtype("i")))
    numbers = ScatterDimensionNumbers(window_dims, tuple(pointed), tuple(pointed))
    how = mode if mode in ("clip", "promise_in_bounds") else "fill"
    return primitive(x, vectors, values, dimension_numbers=numbers, mode=how, unique_indices=unique)
