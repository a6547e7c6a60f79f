"""The operators, methods and protocols of Array and of every tracer. Installed when the package is imported.

`core/` does not know the operations, so the classes there have none of these. A method is a function of `pullback.numpy` with
the array as its first argument, except for what only makes sense for concrete values. `core/methods.pyi` says the signatures.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from pullback.core import array as arrays
from pullback.core.array import Array, later_buffer
from pullback.core.brief import brief
from pullback.core.devices import DEFAULT_DEVICE
from pullback.core.dtypes import is_inexact, kind
from pullback.core.errors import ShapeError, TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError
from pullback.core.lazy import lazy_module
from pullback.core.methods import ArrayMethods
from pullback.core.namespaces import ABSENT_METHODS, AbsentMethod
from pullback.core.source import make_boundaries
from pullback.core.tracing import Tracer, escaped
from pullback.core.types import ArrayType
from pullback.numpy import (
    arithmetic,
    complexes,
    creation,
    elementary,
    indexing,
    logic,
    products,
    reductions,
    shaping,
    taking,
    updates,
)
from pullback.numpy.factories import Function, is_operand, named, no_operand
from pullback.numpy.promotion import at_user_line, refuse_out

placing = lazy_module("pullback.numpy.placing")
places = lazy_module("pullback.numpy.places")
bits = lazy_module("pullback.numpy.bits")
scans = lazy_module("pullback.numpy.scans")
sorting = lazy_module("pullback.numpy.sorting")

# ---- operators --------------------------------------------------------------------------------------------------------

_ARITHMETIC: dict[str, Function] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "truediv": arithmetic.true_divide,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "divmod": arithmetic.divmod,
    "pow": elementary.power,
    "matmul": products.matmul,
    "and": logic.bitwise_and,
    "or": logic.bitwise_or,
    "xor": logic.bitwise_xor,
    "lshift": logic.left_shift,
    "rshift": logic.right_shift,
}
_COMPARISONS: dict[str, Function] = {
    "eq": logic.equal,
    "ne": logic.not_equal,
    "lt": logic.less,
    "le": logic.less_equal,
    "gt": logic.greater,
    "ge": logic.greater_equal,
}


def _operator(name: str, function: Function, reflected: bool = False) -> Function:
    """An operator by a function of two operands; NotImplemented for operands that no function takes."""
    if hasattr(function, "as_operator") and not reflected:
        return function.as_operator(name)

    def method(x: Any, y: Any) -> Any:
        if not is_operand(y):
            return no_operand(y, name)
        return function(y, x) if reflected else function(x, y)

    return named(method, name, function.__doc__ or "")


def _operators() -> dict[str, Function]:
    found = {f"__{symbol}__": _operator(f"__{symbol}__", function) for symbol, function in (_ARITHMETIC | _COMPARISONS).items()}
    return found | {f"__r{symbol}__": _operator(f"__r{symbol}__", function, True) for symbol, function in _ARITHMETIC.items()}


# ---- what all arrays can do ---------------------------------------------------------------------------------------------


def _without_out(function: Function) -> Function:
    """A method that NumPy's functions call with `out=None`, as np.clip(x, 0, 1) calls x.clip(0, 1, out=None)."""
    name = function.__name__

    @functools.wraps(function)
    def method(x: Any, *args: Any, out: None = None, **options: Any) -> Any:
        refuse_out(name, out)
        return function(x, *args, **options)

    return method


_FUNCTIONS: dict[str, Function] = {
    "__neg__": arithmetic.negative,
    "__pos__": arithmetic.positive,
    "__abs__": arithmetic.absolute,
    "__round__": arithmetic.as_python_rounds,
    "__invert__": logic.invert,
    "__getitem__": indexing.get_item,
    **{name: getattr(shaping, name) for name in ("ravel", "swapaxes", "squeeze", "repeat")},
    **{
        name: getattr(reductions, name)
        for name in ("sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin", "std", "var", "ptp")
    },
    "clip": _without_out(logic.clip),
    "round": _without_out(arithmetic.round),
    "conj": complexes.conj,
    "conjugate": complexes.conj,
    "diagonal": creation.diagonal,
    "dot": products.dot,
    "take": taking.take,
    "trace": products.trace,
}


def _nbytes(x: Any) -> int:
    """The bytes that the elements take.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Example:
        >>> pnp.zeros((2, 3)).nbytes
        24
    """
    return int(x.type.nbytes)


def _itemsize(x: Any) -> int:
    """The bytes that an element takes.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Example:
        >>> pnp.zeros((2, 3)).itemsize
        4
    """
    return int(x.type.dtype.itemsize)


def _weak_type(x: Any) -> bool:
    """Whether the dtype gives way where it meets another: that of what is made from Python numbers alone.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Example:
        >>> pnp.array(1.0).weak_type, pnp.array([1.0]).weak_type
        (True, False)
    """
    return bool(x.type.weak)


_PROPERTIES: dict[str, Function] = {
    "T": shaping.transpose,
    "mT": shaping.matrix_transpose,
    "real": complexes.real,
    "imag": complexes.imag,
    "nbytes": _nbytes,
    "itemsize": _itemsize,
    "weak_type": _weak_type,
    "at": updates.Updater,
}


class _OfAll:
    """What Arrays and traced values share, beside the functions above."""

    __slots__ = ()

    def __dir__(self: Any) -> list[str]:
        return [name for name in object.__dir__(self) if name not in ABSENT_METHODS]

    def __len__(self: Any) -> int:
        """The size of the first axis."""
        if not self.type.shape:
            raise TypeError(f"len() needs an array with axes, but {self.type} has no axes.{at_user_line()}")
        return int(self.type.shape[0])

    def __iter__(self: Any) -> Iterator[Any]:
        if not self.type.shape:
            raise TypeError(f"A 0-d {self.type} cannot be iterated over: use range(int(x)), or fori_loop.{at_user_line()}")
        return (self[i] for i in range(self.type.shape[0]))

    def __contains__(self: Any, value: Any) -> bool:
        return bool(reductions.any(self == value))

    def __hash__(self: Any) -> int:
        raise TypeError(
            f"{'A traced value' if isinstance(self, Tracer) else 'An Array'} cannot be hashed, since == compares element by"
            " element. As a dictionary key use id(x), or x.tobytes() of an array; as a static argument of jit pass Python"
            " numbers or tuples."
        )

    def __setitem__(self: Any, index: Any, value: Any) -> None:
        raise TypeError(
            f"Arrays are immutable: x[{_index_text(index)}] = y cannot be done in place. Write"
            f" x = x.at[{_index_text(index)}].set(y),"
            f" which gives a new array and, under jit, costs no copy.{at_user_line()}"
        )

    def __delitem__(self: Any, index: Any) -> None:
        raise TypeError(
            f"Arrays are immutable: del x[{_index_text(index)}] cannot be done in place. Take the elements that stay, by slices"
            f" and pnp.concatenate, or by an array of indices: x = x[stay].{at_user_line()}"
        )

    def __array_namespace__(self: Any, api_version: str | None = None) -> Any:
        if api_version is not None and not re.fullmatch(r"20(2[1-5])\.12", str(api_version)):
            raise ValueError(f"There is no array API version {api_version!r}; those implemented are 2021.12 to 2025.12.")
        return _namespace_module[0]

    def view(self: Any, dtype: Any) -> Any:
        """The bits read as another dtype. Bools are bytes of 0 and 1.

        Arguments:
            dtype: the dtype of the result. The last axis becomes as many times longer as its elements become narrower.

        Returns:
            An array.

        Raises:
            DtypeError: of random keys, and of integers of fewer than 8 bits.
            ShapeError: the last axis cannot be divided into elements of the dtype.

        Example:
            >>> pb.jit(lambda x: x.view("int32"))(pnp.array([1.0, 2.0]))
            [1065353216 1073741824]:i32[2]:cpu(0)
        """
        return bits.viewed(self, dtype)

    def choose(self: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
        """For each place, the element there of the array that this one numbers.

        Arguments:
            choices: a sequence of arrays, or an array, whose first axis numbers them. Everything broadcasts.
            out: None: arrays are immutable.
            mode: for numbers that no array has: "raise", of known ones; "wrap", to count on from the other end; "clip" to the
                nearest.

        Returns:
            An array of the broadcast shape, in the common dtype of the choices.

        Raises:
            ValueError: a number is out of bounds; there are no choices; an unknown mode.

        Example:
            >>> pnp.array([0, 1]).choose([pnp.array([1, 2]), 10])
            [ 1 10]:i32[2]:cpu(0)
        """
        return placing.choose(self, choices, out, mode)

    def compress(
        self: Any, condition: Any, axis: int | None = None, *, out: None = None, size: int | None = None, fill_value: Any = 0
    ) -> Any:
        """The elements (along `axis`, or of the flattened array) where a condition is true.

        Arguments:
            condition: a vector of bools (numbers count as true unless they are 0).
            axis: the axis; None for the flattened array.
            out: None: arrays are immutable.
            size: how many elements to return: the first ones; if there are fewer, `fill_value` follows. Needed where the
                condition is traced.
            fill_value: a number or a 0-d array.

        Returns:
            An array.

        Raises:
            IndexError: the condition is true beyond the array.
            TracerIntegerConversionError: it is traced, and there is no `size`.

        Example:
            >>> pnp.array([1, 2, 3]).compress([True, False, True])
            [1 3]:i32[2]:cpu(0)
        """
        return taking.compress(condition, self, axis, size=size, fill_value=fill_value, out=out)

    def sort(
        self: Any,
        axis: int | None = -1,
        kind: str | None = None,
        order: None = None,
        *,
        stable: bool | None = True,
        descending: bool = False,
    ) -> Any:
        """A copy with the elements in rising order along an axis, NaN last. The array itself stays as it is.

        Arguments:
            axis: the axis; None for the flattened array.
            kind, stable: how NumPy is to sort, and whether equal elements have to keep their order; they always do.
            order: None; arrays have no fields.
            descending: whether in falling order.

        Returns:
            An array.

        Raises:
            AxisError: the array has no such axis.
            ValueError: an unknown `kind`, or an `order`.

        Example:
            >>> pnp.array([3, 1, 2]).sort()
            [1 2 3]:i32[3]:cpu(0)
        """
        return sorting.sort(self, axis, kind=kind, order=order, stable=stable, descending=descending)

    def argsort(
        self: Any,
        axis: int | None = -1,
        kind: str | None = None,
        order: None = None,
        *,
        stable: bool | None = True,
        descending: bool = False,
    ) -> Any:
        """The indices that sort the array along an axis.

        Arguments:
            axis: the axis; None for the flattened array.
            kind, stable: how NumPy is to sort, and whether equal elements have to keep their order; they always do.
            order: None; arrays have no fields.
            descending: whether in falling order.

        Returns:
            An array of the default integers.

        Raises:
            AxisError: the array has no such axis.
            ValueError: an unknown `kind`, or an `order`.

        Example:
            >>> pnp.array([3, 1, 2]).argsort()
            [1 2 0]:i32[3]:cpu(0)
        """
        return sorting.argsort(self, axis, kind=kind, order=order, stable=stable, descending=descending)

    def partition(self: Any, kth: int | Sequence[int], axis: int | None = -1) -> Any:
        """A copy in which the kth element is where sorting puts it, between smaller and larger ones.

        Arguments:
            kth: an int, or several.
            axis: the axis; None for the flattened array.

        Returns:
            An array.

        Raises:
            AxisError: the array has no such axis.
            ValueError: there are not so many elements.

        Example:
            >>> pnp.array([7, 1, 9, 3]).partition(1)
            [1 3 7 9]:i32[4]:cpu(0)
        """
        return sorting.partition(self, kth, axis)

    def argpartition(self: Any, kth: int | Sequence[int], axis: int | None = -1) -> Any:
        """The indices that partition the array along an axis.

        Arguments:
            kth: an int, or several.
            axis: the axis; None for the flattened array.

        Returns:
            An array of the default integers.

        Raises:
            AxisError: the array has no such axis.
            ValueError: there are not so many elements.

        Example:
            >>> pnp.array([7, 1, 9, 3]).argpartition(1)
            [1 3 0 2]:i32[4]:cpu(0)
        """
        return sorting.argpartition(self, kth, axis)

    def searchsorted(self: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str | None = "scan") -> Any:
        """Where values are to be put into this vector, so that it stays sorted.

        Arguments:
            v: the values.
            side: "left" to come before elements that are equal, "right" to come behind them.
            sorter: indices that sort the vector, if it is not sorted.
            method: how JAX is to search; it is always done by halving.

        Returns:
            An array of the default integers, of the shape of v.

        Raises:
            ShapeError: the array is no vector.
            ValueError: an unknown `side` or `method`.

        Example:
            >>> pnp.array([1, 2, 5]).searchsorted(2)
            1:i32[]:cpu(0)
        """
        return sorting.searchsorted(self, v, side, sorter, method=method)

    def cumsum(self: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        """The sums of the elements up to each one.

        Arguments:
            axis: the axis; None, the default, for the flattened array.
            dtype: the dtype to compute in.
            out: None: arrays are immutable.

        Returns:
            An array.

        Raises:
            AxisError: the array has no such axis.

        Example:
            >>> pnp.array([1, 2, 3]).cumsum()
            [1 3 6]:i32[3]:cpu(0)
        """
        return scans.cumsum(self, axis, dtype, out)

    def cumprod(self: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
        """The products of the elements up to each one.

        Arguments:
            axis: the axis; None, the default, for the flattened array.
            dtype: the dtype to compute in.
            out: None: arrays are immutable.

        Returns:
            An array.

        Raises:
            AxisError: the array has no such axis.

        Example:
            >>> pnp.array([1, 2, 3]).cumprod()
            [1 2 6]:i32[3]:cpu(0)
        """
        return scans.cumprod(self, axis, dtype, out)

    def nonzero(self: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
        """The indices of the elements that are not 0.

        Arguments:
            size: how many to return; None for as many as there are, whose number has to be known.
            fill_value: the index that follows if there are fewer; 0 by default.

        Returns:
            For each axis a vector of the default integers.

        Raises:
            TracerIntegerConversionError: the array is traced, and there is no `size`.

        Example:
            >>> pnp.array([0, 5, 7]).nonzero()
            ([1 2]:i32[2]:cpu(0),)
        """
        return places.nonzero(self, size=size, fill_value=fill_value)

    def copy(self: Any, order: str = "C") -> Any:
        """A copy, which outlives the donation of the original.

        Arguments:
            order: "C", "K" or "A"; arrays have no memory order that could be seen.

        Returns:
            An array.

        Example:
            >>> x = pnp.array([1.0, 2.0])
            >>> x.copy()
            [1. 2.]:f32[2]:cpu(0)
        """
        return creation.copy(self, order)

    def __copy__(self: Any) -> Any:
        return creation.copy(self)

    def __deepcopy__(self: Any, memo: Any) -> Any:
        return creation.copy(self)

    def reshape(self: Any, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        """The elements in another shape, given as ints or as one sequence; one of them may be -1.

        Arguments:
            shape: ints, or one sequence of ints; one of them may be -1.
            order: "C" for row-major order, "F" for column-major.
            copy: True for an array that outlives the donation of this one.

        Returns:
            An array.

        Raises:
            ShapeError: the shape has another number of elements.

        Example:
            >>> pnp.arange(6).reshape(2, -1)
            [[0 1 2]
             [3 4 5]]:i32[2,3]:cpu(0)
        """
        return shaping.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)

    def transpose(self: Any, *axes: Any) -> Any:
        """The axes in another order, given as ints or as one sequence; reversed, if none is given.

        Arguments:
            axes: ints, or one sequence of ints: each axis once.

        Returns:
            An array.

        Raises:
            AxisError: not each axis once.

        Example:
            >>> pnp.zeros((2, 3, 4)).transpose(1, 2, 0).shape
            (3, 4, 2)
        """
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return shaping.transpose(self, order if order else None)

    def flatten(self: Any, order: str = "C") -> Any:
        """The elements as a vector.

        Arguments:
            order: "C" for row-major order, "F" for column-major.

        Returns:
            A vector.

        Example:
            >>> pnp.array([[1, 2], [3, 4]]).flatten()
            [1 2 3 4]:i32[4]:cpu(0)
        """
        return shaping.ravel(self, order)

    def astype(self: Any, dtype: Any, copy: bool = False) -> Any:
        """The array in another dtype; one that has it already is returned as it is, unless `copy` is true.

        Arguments:
            dtype: the dtype of the result.
            copy: whether an array that has it already is copied.

        Returns:
            An array.

        Raises:
            DtypeError: `dtype` is none.

        Example:
            >>> pnp.array([1.7, -1.7]).astype(int)
            [ 1 -1]:i32[2]:cpu(0)
        """
        return creation.astype(self, dtype, copy=copy)

    def block_until_ready(self: Any) -> Any:
        """The array, once its values have been computed.

        Returns:
            The array itself.

        Example:
            >>> pb.jit(lambda x: x + 1.0)(1.0).block_until_ready()
            2.0:f32[]:cpu(0)
        """
        for buffer in _buffers(self):
            arrays.buffer_access.wait(buffer)
        return self

    def is_ready(self: Any) -> bool:
        """Whether the values have been computed, so that nothing that asks for them waits.

        Returns:
            A bool; true of a traced value.

        Example:
            >>> pnp.zeros(3).is_ready()
            True
        """
        return all([arrays.buffer_access.is_ready(buffer) for buffer in _buffers(self)])

    def is_deleted(self: Any) -> bool:
        """Whether the array has given up its memory, by `delete()` or a donation.

        Returns:
            A bool; false of a traced value.

        Example:
            >>> x = pnp.zeros(3)
            >>> step = pb.jit(lambda x: x + 1.0, donate_argnums=0)
            >>> x.is_deleted(), step(x), x.is_deleted()
            (False, [1. 1. 1.]:f32[3]:cpu(0), True)
        """
        return isinstance(self, arrays.Array) and arrays.is_deleted(self)

    def to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
        """The array on a device; arrays start on the default one.

        Arguments:
            device: the device, or a name of its platform.
            stream: None.

        Returns:
            The array.

        Raises:
            ValueError: another device than the one where it is, or a stream.

        Example:
            >>> x = pnp.zeros(3)
            >>> x.to_device(x.device) is x
            True
        """
        if stream is not None:
            raise ValueError(f"to_device knows no streams, but got stream={brief(stream)}.")
        if device == (self.device if isinstance(self, Array) else DEFAULT_DEVICE) or device == "cpu":
            return self
        raise ValueError(f"to_device cannot move an array to {brief(device)} yet; use pb.device_put.")


def _index_text(index: Any) -> str:
    if isinstance(index, tuple):
        return ", ".join(_index_text(one) for one in index)
    if isinstance(index, slice):
        parts = ["" if part is None else str(part) for part in (index.start, index.stop, index.step)]
        return ":".join(parts if parts[2] else parts[:2])
    return str(index) if index.__class__ in (int, float, str, bool) else "..." if index is Ellipsis else "idx"


def _buffers(x: Any) -> Sequence[Any]:
    """The device buffers of an array whose values may still be being computed."""
    if not isinstance(x, Array) or (x._buffer is None and later_buffer(x) is None):
        return ()
    return arrays.buffer_access.pending(x)


_namespace_module: list[Any] = []  # pullback.numpy itself, which imports this file


# ---- what an Array can do, whose values are known -----------------------------------------------------------------------


def _only_element(x: Any, what: str) -> Any:
    if x.type.size != 1:
        raise TypeError(f"{what} takes an array of one element, but got {x.type}.{at_user_line()}")
    return x._numpy().item()


def _rebuild(shape: tuple[int, ...], dtype_name: str, weak: bool, data: bytes) -> Array:
    return Array(type := ArrayType(shape, dtype_name, weak), np.frombuffer(data, type.dtype).reshape(shape).copy())


class _OfArrays:
    def __bool__(self: Any) -> bool:
        if self.type.size != 1:
            raise ValueError(
                f"The truth of an array of {self.type.size} elements ({self.type}) is not defined: use .any() or .all()."
                f"{at_user_line()}"
            )
        return bool(self._numpy())

    def __int__(self: Any) -> int:
        return int(_only_element(self, "int()"))

    def __float__(self: Any) -> float:
        return float(_only_element(self, "float()"))

    def __complex__(self: Any) -> complex:
        return complex(_only_element(self, "complex()"))

    def __index__(self: Any) -> int:
        if self.type.shape or kind(self.type.dtype) not in "iu":
            raise TypeError(f"Only a 0-d array of integers serves as an index, but this is {self.type}.{at_user_line()}")
        return int(self.host)

    def __str__(self: Any) -> str:
        return arrays.shown(self)

    __repr__ = __str__

    def __format__(self: Any, spec: str) -> str:
        if not self.type.shape and spec:
            return format(self.host.item(), spec)
        try:
            return format(str(self), spec)
        except ValueError:
            raise TypeError(
                f"{brief(spec)} formats one number, but this is an array of {self.type}. Format its elements, or round it"
                f" (pb.numpy.round) and print it as it is.{at_user_line()}"
            ) from None

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The values as a NumPy array: a read-only view without a copy, unless `dtype` or `copy` ask for one."""
        view: np.ndarray[Any, Any] = self._numpy()
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise ValueError(f"{self.type} does not become {np.dtype(dtype).name} without a copy: leave copy=False out.")
            return view.astype(dtype)
        return view.copy() if copy else view

    def __dlpack__(
        self: Any, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """The values for another library: read-only, or a copy for one that knows no read-only memory."""
        host = self._numpy()
        if (max_version or (0, 0)) < (1, 0) and copy is not False:  # a consumer that cannot be told that memory is read-only
            host = host.copy()
        options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        return host.__dlpack__(stream=stream, **{name: value for name, value in options.items() if value is not None})

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        device: tuple[int, int] = self._numpy().__dlpack_device__()
        return device

    def __buffer__(self: Any, flags: int) -> memoryview:
        return memoryview(self._numpy())

    def __reduce__(self: Any) -> tuple[Any, ...]:
        return _rebuild, (self.type.shape, self.type.dtype.name, self.type.weak, self.tobytes())

    def item(self: Any, *args: int) -> Any:
        """The one element of the array, or the one at the given index, as a Python number.

        Arguments:
            args: the index of an element, if there are several.

        Returns:
            A Python number.

        Raises:
            ShapeError: several elements, and no index.

        Example:
            >>> pnp.array(2.5).item(), pnp.array([[1, 2], [3, 4]]).item(1, 0)
            (2.5, 3)
        """
        host = self._numpy()
        if not args and host.size != 1:
            raise ShapeError(
                f"item() takes an array of one element, but got {self.type}; give the index of one.{at_user_line()}"
            )
        return host.item(*args)

    def tolist(self: Any) -> Any:
        """The values as nested lists of Python numbers.

        Returns:
            A list of lists; a number, of a 0-d array.

        Example:
            >>> pnp.array([[1, 2], [3, 4]]).tolist(), pnp.array(2.5).tolist()
            ([[1, 2], [3, 4]], 2.5)
        """
        return self._numpy().tolist()

    def tobytes(self: Any, order: Any = "C") -> bytes:
        r"""The bytes of the values, in row-major order.

        Arguments:
            order: "C" for row-major order, "F" for column-major.

        Returns:
            Bytes.

        Example:
            >>> pnp.array([1, 2], pnp.int8).tobytes()
            b'\x01\x02'
        """
        return np.asarray(self.host).tobytes(order)

    def devices(self: Any) -> set[Any]:
        """The devices that hold the values.

        Returns:
            A set of `Device`s.

        Example:
            >>> pnp.zeros(3).devices()
            {cpu(0)}
        """
        found: set[Any] = self.sharding.device_set
        return found


# ---- what a traced value cannot do --------------------------------------------------------------------------------------


def _story(x: Tracer) -> str:
    """What a traced value is, where it was made, and by what it is traced."""
    made = x.where()
    origin = f" ({made})" if made.startswith("argument") else f" (made at {made})" if made else ""
    return f"a traced value of type {x.type}{origin} in {x.owner.describe()}"


def _used(x: Tracer) -> str:
    """The user's line, for the end of a message, unless `_story` has named it already."""
    line = at_user_line()
    return "" if x.where() and x.where() in line else line


def known_value(x: Any) -> Any:
    """The value under tracers that hold one: eager derivatives let Python look at it. None where there is none yet."""
    value: Any = x
    while hasattr(value, "primal"):  # a tracer that carries a tangent beside its value
        value = value.primal
    return None if isinstance(value, Tracer) else value


def _concrete(x: Tracer) -> Any:
    """As `known_value`; an error where the transformation has ended."""
    value: Any = x
    while isinstance(value, Tracer):
        if not value.owner.open:
            raise escaped(value)
        if not hasattr(value, "primal"):
            return None
        value = value.primal
    return value


def _conversion(convert: Callable[[Any], Any], what: str, error: type[Exception], instead: str) -> Function:
    def method(x: Tracer) -> Any:
        value = _concrete(x)
        if value is not None and not (error is TracerArrayConversionError and is_inexact(x.type.dtype)):
            return convert(value)
        raise error(f"Python needed {what} of {_story(x)}: {_lack(x, value)} {instead.format(cure=x.cure())}{_used(x)}")

    return method


def _lack(x: Tracer, value: Any) -> str:
    """What a traced value has not, or a Python number."""
    if value is None:
        return "it has no value yet."
    return "a number of Python's would lose its derivative. Where none is wanted, convert pb.lax.stop_gradient(x) instead."


_BOOL_CURE = (
    "Choose with pb.numpy.where(condition, a, b), branch with pb.lax.cond, loop with pb.lax.while_loop; for Python's max, min"
    " and `in`, write pb.numpy.maximum, x.max() and (x == y).any(); or {cure}."
)
_INTEGER_CURE = (
    "Index with x[i] of an array of pb.numpy's instead of a list; slice with pb.lax.dynamic_slice_in_dim; loop with"
    " pb.lax.fori_loop; or, if it decides a shape or a Python loop, {cure}."
)
_FLOAT_CURE = "Keep it an array: pb.numpy's functions take it as it is; to change its dtype, use .astype()."


def _method_of_values(name: str) -> Function:
    @functools.wraps(getattr(_OfArrays, name))
    def method(x: Tracer, *args: Any) -> Any:
        value = _concrete(x)
        if value is not None and not is_inexact(x.type.dtype):
            return getattr(value, name)(*args)
        raise TracerArrayConversionError(
            f"Python needed its values, by .{name}(), of {_story(x)}: {_lack(x, value)} {_FLOAT_CURE}{_used(x)}"
        )

    return method


class _OfTracers:
    __bool__ = _conversion(bool, "True or False (if, while, and, or, not, assert)", TracerBoolConversionError, _BOOL_CURE)
    __int__ = _conversion(int, "a number, by int(),", TracerIntegerConversionError, _INTEGER_CURE)
    __index__ = _conversion(operator.index, "a number, by an index or range(),", TracerIntegerConversionError, _INTEGER_CURE)
    __float__ = _conversion(float, "a number, by float(),", TracerArrayConversionError, _FLOAT_CURE)
    __complex__ = _conversion(complex, "a number, by complex(),", TracerArrayConversionError, _FLOAT_CURE)
    item, tolist, tobytes = map(_method_of_values, ("item", "tolist", "tobytes"))

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        if not self.owner.open:
            raise escaped(self)
        raise TracerArrayConversionError(
            f"NumPy was given {_story(self)}: it has no value that NumPy could compute with. Use pb.numpy's function of the"
            " same name instead; of a dtype, x.astype(dtype) instead of dtype(x); of an index, pb.numpy.asarray(a)[i]; to call"
            f" NumPy from traced code, use pb.pure_callback; to change an element, use .at[idx].set(y).{at_user_line()}"
        )

    def __str__(self: Any) -> str:
        value = known_value(self)
        shown = f" = {value}" if value is not None else ""
        return f"Traced<{self.type.strong()}> in {self.owner.describe()}{shown}"

    __repr__ = __str__

    def __format__(self: Any, spec: str) -> str:
        value = known_value(self)
        try:
            return format(str(self) if value is None else value, spec)
        except ValueError:
            if value is not None:
                raise
            raise TracerArrayConversionError(
                f"Python needed a number, to format it by {brief(spec)}, of {_story(self)}: it has no value yet. Print it with"
                f" pb.debug.print('{{:{spec}}}', x), which does so when the value is known.{_used(self)}"
            ) from None


def install(namespace: Any) -> None:
    """Give Arrays and tracers everything that stands above; `namespace` is what `__array_namespace__` returns."""
    _namespace_module[:] = [namespace]
    shared = _operators() | _FUNCTIONS | vars(_OfAll) | {name: property(get) for name, get in _PROPERTIES.items()}
    for cls, methods in ((ArrayMethods, shared), (Array, dict(vars(_OfArrays))), (Tracer, dict(vars(_OfTracers)))):
        make_boundaries(methods, methods)
        for name, found in methods.items():
            if isinstance(found, (FunctionType, property)):
                setattr(cls, name, found)
    for name in ABSENT_METHODS:
        setattr(ArrayMethods, name, AbsentMethod(name))
