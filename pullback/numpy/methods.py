"""The operators, methods and protocols of Array and of every tracer, from one table. Installed when the package is imported.

`core/` does not know the operations, so the classes there have none of these. A method is a function of `pullback.numpy` with
the array as its first argument, except for what only makes sense for concrete values.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pullback.core import array as arrays
from pullback.core.array import Array, later_buffer
from pullback.core.devices import DEFAULT_DEVICE
from pullback.core.dtypes import kind
from pullback.core.errors import (
    ShapeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from pullback.core.source import make_boundaries
from pullback.core.tracing import Tracer, escaped
from pullback.core.types import ArrayType
from pullback.numpy import arithmetic, complexes, creation, elementary, indexing, logic, products, reductions, shaping, updates
from pullback.numpy.factories import binary, is_operand
from pullback.numpy.promotion import at_user_line
from pullback.ops import arithmetic as primitives
from pullback.ops import compare

Function = Callable[..., Any]

# ---- operators --------------------------------------------------------------------------------------------------------


def _operator(name: str, function: Function) -> Function:
    """An operator by a function of two operands; NotImplemented for operands that no function takes."""

    def method(x: Any, y: Any) -> Any:
        return function(x, y) if is_operand(y) else NotImplemented

    method.__name__ = method.__qualname__ = name
    return method


def _swapped(name: str, method: Function) -> Function:
    def reflected(x: Any, y: Any) -> Any:
        return method(y, x)

    reflected.__name__ = reflected.__qualname__ = name
    return reflected


def _matmul(x: Any, y: Any) -> Any:
    return products.matmul(x, y)


# Symbol, general function, and for those that are hot a fast path: primitive and NumPy's function.
_BINARY: list[tuple[str, Function, Any]] = [
    ("add", arithmetic.add, (primitives.add, np.add)),
    ("sub", arithmetic.subtract, (primitives.sub, np.subtract)),
    ("mul", arithmetic.multiply, (primitives.mul, np.multiply)),
    ("truediv", arithmetic.true_divide, (primitives.div, np.true_divide)),
    ("floordiv", arithmetic.floor_divide, None),
    ("mod", arithmetic.remainder, None),
    ("divmod", arithmetic.divmod, None),
    ("pow", elementary.power, None),
    ("matmul", _matmul, None),
    ("and", logic.bitwise_and, None),
    ("or", logic.bitwise_or, None),
    ("xor", logic.bitwise_xor, None),
    ("lshift", logic.left_shift, None),
    ("rshift", logic.right_shift, None),
]
_COMPARISONS = [
    ("eq", compare.eq, np.equal),
    ("ne", compare.ne, np.not_equal),
    ("lt", compare.lt, np.less),
    ("le", compare.le, np.less_equal),
    ("gt", compare.gt, np.greater),
    ("ge", compare.ge, np.greater_equal),
]


def _operators() -> dict[str, Function]:
    found: dict[str, Function] = {}
    for symbol, function, hot in _BINARY:
        if hot is None:
            method = _operator(f"__{symbol}__", function)
            found[f"__r{symbol}__"] = _reflected_operator(f"__r{symbol}__", function)
        else:
            primitive, ufunc = hot
            method = binary(
                f"__{symbol}__", primitive, ufunc, function.__doc__ or "", inexact=symbol == "truediv", operator=True
            )
            found[f"__r{symbol}__"] = _swapped(f"__r{symbol}__", method)
        found[f"__{symbol}__"] = method
    for symbol, primitive, ufunc in _COMPARISONS:
        found[f"__{symbol}__"] = binary(f"__{symbol}__", primitive, ufunc, "", compares=True, operator=True)
    found["__neg__"] = arithmetic.negative
    found["__pos__"] = arithmetic.positive
    found["__abs__"] = arithmetic.absolute
    found["__invert__"] = logic.invert
    return found


def _reflected_operator(name: str, function: Function) -> Function:
    def method(x: Any, y: Any) -> Any:
        return function(y, x) if is_operand(y) else NotImplemented

    method.__name__ = method.__qualname__ = name
    return method


# ---- Python's protocols -------------------------------------------------------------------------------------------------


def _length(x: Any) -> int:
    """The size of the first axis."""
    if not x.type.shape:
        raise TypeError("len() of a 0-d array: it has no axes.")
    return int(x.type.shape[0])


def _iterate(x: Any) -> Iterator[Any]:
    if not x.type.shape:
        raise TypeError("A 0-d array cannot be iterated over.")
    return (x[i] for i in range(x.type.shape[0]))


def _contains(x: Any, value: Any) -> bool:
    return bool(reductions.any(x == value))


def _unhashable(x: Any) -> int:
    raise TypeError(
        f"{'A traced value' if isinstance(x, Tracer) else 'An Array'} cannot be hashed, since == compares element by element."
        " As a dictionary key use id(x), or x.tobytes() of an array; as a static argument of jit pass Python numbers or tuples."
    )


def _set_item(x: Any, index: Any, value: Any) -> None:
    raise TypeError(
        f"Arrays are immutable: x[{_index_text(index)}] = y cannot be done in place. Write"
        f" x = x.at[{_index_text(index)}].set(y),"
        f" which gives a new array and, under jit, costs no copy.{at_user_line()}"
    )


def _index_text(index: Any) -> str:
    if isinstance(index, tuple):
        return ", ".join(_index_text(one) for one in index)
    if isinstance(index, slice):
        parts = ["" if part is None else str(part) for part in (index.start, index.stop, index.step)]
        return ":".join(parts if parts[2] else parts[:2])
    return str(index) if index.__class__ in (int, float, str, bool) else "..." if index is Ellipsis else "idx"


def _one_element(x: Any, what: str) -> None:
    if x.type.size != 1:
        raise TypeError(f"{what} takes an array of one element, but got {x.type}.{at_user_line()}")


def _array_bool(x: Array) -> bool:
    if x.type.size != 1:
        raise ValueError(
            f"The truth of an array of {x.type.size} elements ({x.type}) is not defined: use .any() or .all().{at_user_line()}"
        )
    return bool(x.host)


def _array_int(x: Array) -> int:
    _one_element(x, "int()")
    return int(x.host.item())


def _array_float(x: Array) -> float:
    _one_element(x, "float()")
    return float(x.host.item())


def _array_complex(x: Array) -> complex:
    _one_element(x, "complex()")
    return complex(x.host.item())


def _array_index(x: Array) -> int:
    if x.type.shape or kind(x.type.dtype) not in "iu":
        raise TypeError(f"Only a 0-d array of integers serves as an index, but this is {x.type}.{at_user_line()}")
    return int(x.host)


def _array_format(x: Array, spec: str) -> str:
    return format(x.host.item(), spec) if spec and not x.type.shape else format(str(x), spec)


def _array_numpy(x: Array, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """The values as a NumPy array: a read-only view without a copy, unless `dtype` or `copy` ask for one."""
    view = x.view()
    if dtype is not None and np.dtype(dtype) != view.dtype:
        if copy is False:
            raise ValueError(f"An array of {x.type} cannot become {np.dtype(dtype).name} without a copy.")
        return view.astype(dtype)
    return view.copy() if copy else view


def _array_text(x: Array) -> str:
    return arrays.text(np.asarray(x.host), x.type, x.device)


def _array_dlpack(
    x: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
) -> Any:
    """The values for another library: read-only, or a copy for one that knows no read-only memory."""
    host = x.view()
    if max_version is None and copy is not False:  # a consumer that cannot be told that memory is read-only
        host = host.copy()
    options: dict[str, Any] = {}
    if max_version is not None:
        options["max_version"] = max_version
    if dl_device is not None:
        options["dl_device"] = dl_device
    if copy is not None:
        options["copy"] = copy
    return host.__dlpack__(stream=stream, **options)


def _array_dlpack_device(x: Array) -> tuple[int, int]:
    return x.view().__dlpack_device__()


def _array_buffer(x: Array, flags: int) -> memoryview:
    return memoryview(x.view())  # type: ignore[arg-type]


def _namespace(x: Any, api_version: str | None = None) -> Any:
    if api_version is not None and not re.fullmatch(r"20(2[1-5])\.12", str(api_version)):
        raise ValueError(f"There is no array API version {api_version!r}; those implemented are 2021.12 to 2025.12.")
    return _namespace_module[0]


_namespace_module: list[Any] = []  # pullback.numpy itself, which imports this file


def _rebuild(shape: tuple[int, ...], dtype_name: str, weak: bool, data: bytes) -> Array:
    type = ArrayType(shape, dtype_name, weak)
    return Array(type, np.frombuffer(data, type.dtype).reshape(shape).copy())


def _array_reduce(x: Array) -> tuple[Any, ...]:
    return _rebuild, (x.type.shape, x.type.dtype.name, x.type.weak, np.ascontiguousarray(x.host).tobytes())


def _copy(x: Any, memo: Any = None, *, order: str = "C") -> Any:
    """A copy, which outlives the donation of the original."""
    return creation.copy(x, order)


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


def _concrete(x: Tracer) -> Any:
    """The value under tracers that hold one: eager derivatives let Python look at it. None where there is none yet."""
    value: Any = x
    while hasattr(value, "primal"):  # a tracer that carries a tangent beside its value
        if not value.owner.open:
            raise escaped(value)
        value = value.primal
    return None if isinstance(value, Tracer) else value


def _tracer_bool(x: Tracer) -> bool:
    value = _concrete(x)
    if value is not None:
        return bool(value)
    if not x.owner.open:
        raise escaped(x)
    raise TracerBoolConversionError(
        f"Python needed True or False (if, while, and, or, not, assert) of {_story(x)}: it has no value yet. Choose with"
        " pb.numpy.where(condition, a, b), branch with pb.lax.cond, loop with pb.lax.while_loop; or make the argument that it"
        f" depends on static (static_argnums in pb.jit).{_used(x)}"
    )


def _tracer_number(name: str, convert: Callable[[Any], Any], error: type[Exception], cure: str) -> Function:
    def method(x: Tracer) -> Any:
        value = _concrete(x)
        if value is not None:
            return convert(value)
        if not x.owner.open:
            raise escaped(x)
        raise error(f"Python needed a number, by {name}, of {_story(x)}: it has no value yet. {cure}{_used(x)}")

    return method


_INTEGER_CURE = (
    "Make the argument that it depends on static (static_argnums in pb.jit), if it decides a shape or a Python loop; index with"
    " x[i] of an array instead of a list; loop with pb.lax.fori_loop."
)
_FLOAT_CURE = "Keep it an array: pb.numpy's functions take it as it is; to change its dtype, use .astype()."


def _tracer_array(x: Tracer, dtype: Any = None, copy: bool | None = None) -> Any:
    if not x.owner.open:
        raise escaped(x)
    raise TracerArrayConversionError(
        f"NumPy was given {_story(x)}: it has no value that NumPy could compute with. Use pb.numpy's function of the same name"
        " instead of NumPy's; to call NumPy from traced code, use pb.pure_callback; to change an element, use"
        f" .at[idx].set(y).{at_user_line()}"
    )


def _tracer_text(x: Tracer) -> str:
    value = _concrete_or_none(x)
    shown = f" = {value}" if value is not None else ""
    return f"Traced<{x.type.strong()}> in {x.owner.describe()}{shown}"


def _concrete_or_none(x: Tracer) -> Any:
    value: Any = x
    while hasattr(value, "primal"):
        value = value.primal
    return None if isinstance(value, Tracer) else value


def _tracer_format(x: Tracer, spec: str) -> str:
    value = _concrete_or_none(x)
    if value is not None:
        return format(value, spec)
    try:
        return format(str(x), spec)
    except ValueError:
        raise TracerArrayConversionError(
            f"Python needed a number, to format it by {spec!r}, of {_story(x)}: it has no value yet. Print it with"
            f" pb.debug.print('{{:{spec}}}', x), which does so when the value is known.{_used(x)}"
        ) from None


def _tracer_item(name: str) -> Function:
    def method(x: Tracer, *args: Any) -> Any:
        value = _concrete(x)
        return getattr(value, name)(*args) if value is not None else _tracer_array(x)

    return method


# ---- methods ------------------------------------------------------------------------------------------------------------


def _reshape(a: Any, *args: Any, order: str = "C") -> Any:
    """The elements in another shape, given as ints or as one sequence; one of them may be -1."""
    return shaping.reshape(a, args[0] if len(args) == 1 else args, order)


def _transpose(a: Any, *args: Any) -> Any:
    """The axes in another order, given as ints or as one sequence; reversed, if none is given."""
    axes = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
    return shaping.transpose(a, axes if axes else None)


def _astype(x: Any, dtype: Any, copy: bool = False) -> Any:
    """The array in another dtype; one that has it already is returned as it is, unless `copy` is true."""
    return creation.astype(x, dtype, copy=copy)


def _flatten(x: Any, order: str = "C") -> Any:
    """The elements as a vector."""
    return shaping.ravel(x, order)


def _item(x: Array, *args: int) -> Any:
    """The one element of the array, or the one at the given index, as a Python number."""
    host = np.asarray(x.host)
    if not args and host.size != 1:
        raise ShapeError(f"item() takes an array of one element, but got {x.type}; give the index of one.{at_user_line()}")
    return host.item(*args)


def _to_list(x: Array) -> Any:
    """The values as nested lists of Python numbers."""
    return np.asarray(x.host).tolist()


def _to_bytes(x: Array, order: Any = "C") -> bytes:
    """The bytes of the values, in row-major order."""
    return np.asarray(x.host).tobytes(order)


def _block_until_ready(x: Any) -> Any:
    """The array, once its values have been computed."""
    for buffer in _buffers(x):
        arrays.buffer_access.wait(buffer)
    return x


def _is_ready(x: Any) -> bool:
    """Whether the values have been computed, so that nothing that asks for them waits."""
    return all([arrays.buffer_access.is_ready(buffer) for buffer in _buffers(x)])


def _buffers(x: Any) -> list[Any]:
    held = (x._buffer, later_buffer(x)) if isinstance(x, Array) else ()
    return [buffer for buffer in held if hasattr(buffer, "is_ready")]


def _devices(x: Array) -> set[Any]:
    """The devices that hold the values."""
    return {x.device}


def _to_device(x: Any, device: Any, /, *, stream: Any = None) -> Any:
    """The array on a device; arrays start on the default one."""
    if stream is not None:
        raise ValueError(f"to_device knows no streams, but got stream={stream!r}.")
    if device == DEFAULT_DEVICE or device == x.device or device == "cpu":
        return x
    raise ValueError(f"to_device cannot move an array to {device!r} yet; use pb.device_put.")


def _without_out(name: str, function: Function) -> Function:
    """A method that NumPy's functions call with `out=None`, as np.sum(x) calls x.sum(axis=None, dtype=None, out=None)."""

    def method(x: Any, *args: Any, out: None = None, **options: Any) -> Any:
        if out is not None:
            raise TypeError(f"{name} cannot write into `out`: arrays are immutable. Use the result.{at_user_line()}")
        return function(x, *args, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = function.__doc__
    return method


_METHODS: dict[str, Function] = {
    "reshape": _reshape,
    "transpose": _transpose,
    "astype": _astype,
    "copy": _copy,
    "flatten": _flatten,
    "block_until_ready": _block_until_ready,
    "is_ready": _is_ready,
    "to_device": _to_device,
    **{name: getattr(shaping, name) for name in ("ravel", "swapaxes", "squeeze", "repeat")},
    **{
        name: _without_out(name, getattr(reductions, name))
        for name in ("sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin", "std", "var", "ptp")
    },
    "clip": _without_out("clip", logic.clip),
    "round": _without_out("round", arithmetic.round),
    "conj": complexes.conj,
    "conjugate": complexes.conj,
    "dot": products.dot,
    "take": indexing.take,
    "diagonal": creation.diagonal,
}
_PROPERTIES: dict[str, Function] = {
    "T": shaping.transpose,
    "mT": shaping.matrix_transpose,
    "real": complexes.real,
    "imag": complexes.imag,
    "nbytes": lambda x: x.type.nbytes,
    "itemsize": lambda x: x.type.dtype.itemsize,
    "weak_type": lambda x: x.type.weak,
    "at": updates.Updater,
}
_BOTH: dict[str, Function] = {
    "trace": products.trace,
    "__len__": _length,
    "__iter__": _iterate,
    "__contains__": _contains,
    "__hash__": _unhashable,
    "__getitem__": indexing.get_item,
    "__setitem__": _set_item,
    "__array_namespace__": _namespace,
    "__copy__": _copy,
    "__deepcopy__": _copy,
    "__round__": arithmetic.round,
}
_ARRAY_ONLY: dict[str, Function] = {
    "__bool__": _array_bool,
    "__int__": _array_int,
    "__float__": _array_float,
    "__complex__": _array_complex,
    "__index__": _array_index,
    "__format__": _array_format,
    "__array__": _array_numpy,
    "__repr__": _array_text,
    "__str__": _array_text,
    "__dlpack__": _array_dlpack,
    "__dlpack_device__": _array_dlpack_device,
    "__buffer__": _array_buffer,
    "__reduce__": _array_reduce,
    "item": _item,
    "tolist": _to_list,
    "tobytes": _to_bytes,
    "devices": _devices,
}
_TRACER_ONLY: dict[str, Function] = {
    "__bool__": _tracer_bool,
    "__int__": _tracer_number("int()", int, TracerIntegerConversionError, _INTEGER_CURE),
    "__index__": _tracer_number("an index or range()", operator.index, TracerIntegerConversionError, _INTEGER_CURE),
    "__float__": _tracer_number("float()", float, TracerArrayConversionError, _FLOAT_CURE),
    "__complex__": _tracer_number("complex()", complex, TracerArrayConversionError, _FLOAT_CURE),
    "__array__": _tracer_array,
    "__repr__": _tracer_text,
    "__str__": _tracer_text,
    "__format__": _tracer_format,
    "item": _tracer_item("item"),
    "tolist": _tracer_item("tolist"),
    "tobytes": _tracer_item("tobytes"),
}


def install(namespace: Any) -> None:
    """Give Array and Tracer everything in the tables; `namespace` is what `__array_namespace__` returns."""
    _namespace_module[:] = [namespace]
    for cls, own in ((Array, _ARRAY_ONLY), (Tracer, _TRACER_ONLY)):
        for table in (_operators(), _METHODS, _BOTH, own):
            table = dict(table)
            make_boundaries(table, table)
            for name, function in table.items():
                setattr(cls, name, function)
        for name, function in _PROPERTIES.items():
            setattr(cls, name, property(function))
