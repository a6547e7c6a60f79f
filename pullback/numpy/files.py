"""Arrays of bytes, text, files, iterators and functions of indices; arrays as files and as text."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from pullback.api.mapping import vmap
from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import BY_SHORT_NAME, DType, DTypeLike, requested
from pullback.core.errors import DtypeError
from pullback.core.tracing import Tracer
from pullback.numpy.creation import arange, asarray, checked_shape
from pullback.numpy.promotion import at_user_line, operand


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """Set how arrays are printed, those of NumPy too.

    Arguments:
        args, kwargs: as `numpy.set_printoptions` takes them: precision, threshold, linewidth, suppress, ...

    Raises:
        TypeError, ValueError: an argument that NumPy does not take.

    Example:
        >>> options = pnp.get_printoptions()
        >>> pnp.set_printoptions(precision=2)
        >>> pnp.array([1 / 3])
        [0.33]:f32[1]:cpu(0)
        >>> pnp.set_printoptions(**options)
    """
    np.set_printoptions(*args, **kwargs)


def get_printoptions() -> dict[str, Any]:
    """How arrays are printed.

    Returns:
        A dict of the arguments of `set_printoptions`.

    Example:
        >>> pnp.get_printoptions()["precision"]
        8
    """
    return dict(np.get_printoptions())


def printoptions(*args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
    """Set how arrays are printed inside a `with` block.

    Arguments:
        args, kwargs: as for `set_printoptions`.

    Returns:
        A context manager.

    Raises:
        TypeError, ValueError: an argument that NumPy does not take, once the block begins.

    Example:
        >>> with pnp.printoptions(precision=2):
        ...     print(pnp.array([1 / 3]))
        [0.33]:f32[1]:cpu(0)
    """
    return np.printoptions(*args, **kwargs)


def array_repr(
    arr: ArrayLike, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """An array as NumPy writes it, `array([...], dtype=...)`.

    Arguments:
        arr: an array whose values are known.
        max_line_width, precision, suppress_small: as NumPy's function takes them.

    Returns:
        A string.

    Raises:
        LeafError: `arr` is neither an array nor a number.
        TracerArrayConversionError: its values are not known.

    Example:
        >>> pnp.array_repr(pnp.array([1.0, 2.5]))
        'array([1. , 2.5], dtype=float32)'
    """
    return np.array_repr(np.asarray(operand(arr, "array_repr")), max_line_width, precision, suppress_small)


def array_str(
    a: ArrayLike, max_line_width: int | None = None, precision: int | None = None, suppress_small: bool | None = None
) -> str:
    """The values of an array as NumPy writes them, `[...]`.

    Arguments:
        a: an array whose values are known.
        max_line_width, precision, suppress_small: as NumPy's function takes them.

    Returns:
        A string.

    Raises:
        LeafError: `a` is neither an array nor a number.
        TracerArrayConversionError: its values are not known.

    Example:
        >>> pnp.array_str(pnp.array([1.0, 2.5]))
        '[1.  2.5]'
    """
    return np.array_str(np.asarray(operand(a, "array_str")), max_line_width, precision, suppress_small)


def _stored(dtype: Any) -> DType:
    """The requested dtype, in the byte order that the user names: arrays are native, files and buffers need not be."""
    order: Any = dtype[:1] if isinstance(dtype, str) else getattr(dtype, "byteorder", "=")
    return requested(dtype).newbyteorder(order) if order in ("<", ">") else requested(dtype)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """A vector of the numbers that lie in memory, copied.

    Arguments:
        buffer: bytes, or what has the buffer protocol.
        dtype: as what numbers they are read; the default floating dtype by default.
        count: how many of them; -1 for all.
        offset: at which byte the first of them is.

    Returns:
        A vector.

    Raises:
        ValueError: the memory has fewer bytes, or no whole number of elements.

    Example:
        >>> pnp.frombuffer(b"\\x01\\x02\\x03", dtype=pnp.uint8)
        [1 2 3]:u8[3]:cpu(0)
    """
    return asarray(np.frombuffer(buffer, _stored(dtype), count, offset))


def fromfile(file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """A vector of the numbers in a file, as bytes or as text.

    Arguments:
        file: an open file, or a path.
        dtype: as what numbers they are read; the default floating dtype by default.
        count: how many of them; -1 for all.
        sep: what stands between numbers in text; an empty string for bytes.
        offset: how many bytes to leave out, in a file of bytes.

    Returns:
        A vector.

    Raises:
        OSError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryFile() as file:
        ...     done, again = file.write(b"\\x01\\x02"), file.seek(0)
        ...     pnp.fromfile(file, dtype=pnp.uint8)
        [1 2]:u8[2]:cpu(0)
    """
    if not isinstance(file, (str, os.PathLike)) and not hasattr(file, "fileno"):
        raise TypeError(f"fromfile takes a path or an open file, but got {brief(file)}.{at_user_line()}")
    return asarray(np.fromfile(file, _stored(dtype), count, sep, offset))


def fromiter(iter: Any, dtype: DTypeLike, count: int = -1) -> Array:
    """A vector of the numbers of an iterable.

    Arguments:
        iter: an iterable of Python numbers.
        dtype: the dtype of the result.
        count: how many of them to take; -1 for all.

    Returns:
        A vector.

    Raises:
        ValueError: there are fewer.

    Example:
        >>> pnp.fromiter((i * i for i in range(4)), int)
        [0 1 4 9]:i32[4]:cpu(0)
    """
    if isinstance(iter, Array) and iter.type.ndim != 1:
        raise TypeError(f"fromiter takes an iterable of numbers, but got {iter.type}.{at_user_line()}")
    return asarray(np.fromiter(iter, requested(dtype), count))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """A vector of the numbers that are written in a text.

    Arguments:
        string: the text.
        dtype: the dtype of the result; the default floating one by default.
        count: how many of them; -1 for all.
        sep: what stands between them.

    Returns:
        A vector.

    Raises:
        ValueError: `sep` is empty (for bytes there is `frombuffer`), or the text has something that is no number.

    Example:
        >>> pnp.fromstring("1 2 3", dtype=int, sep=" ")
        [1 2 3]:i32[3]:cpu(0)
    """
    return asarray(np.fromstring(string, requested(dtype), count, sep=sep))


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any) -> Any:
    """An array of the values of a function of indices.

    Arguments:
        function: called once, with traced 0-d arrays, an index for each axis: it is batched by `pb.vmap`.
        shape: how large the axes are.
        dtype: the dtype of the indices; the default floating one by default.
        kwargs: passed on to the function.

    Returns:
        An array whose first axes have the shape, and in which the function's results are; or a tree of them.

    Raises:
        ShapeError: `shape` has a negative size.

    Example:
        >>> pnp.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int)
        [[ 0  1  2]
         [10 11 12]]:i32[2,3]:cpu(0)
    """
    sizes = checked_shape(shape, "fromfunction")
    batched: Any = functools.partial(function, **kwargs)
    for axis in reversed(range(len(sizes))):
        batched = vmap(batched, in_axes=tuple([0 if i == axis else None for i in range(len(sizes))]))
    return batched(*[arange(size, dtype=requested(dtype)) for size in sizes])


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """The array in a file that `save` or NumPy has written.

    Arguments:
        file: an open file, or a path.
        args, kwargs: as `numpy.load` takes them.

    Returns:
        An array; of a file of several, what `numpy.load` returns: arrays of NumPy's by their names.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no such file, or holds Python objects.
        DtypeError: the elements are no numbers.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> pnp.save(file, pnp.array([1.0, 2.0]))
        >>> done = file.seek(0)
        >>> pnp.load(file)
        [1. 2.]:f32[2]:cpu(0)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    return asarray(found.view(_BFLOAT16) if found.dtype == np.dtype("V2") else found)


_BFLOAT16: DType = BY_SHORT_NAME["bf16"]


def _storable(name: str, value: Any, several: bool) -> Any:
    """An array of a dtype of which a file can say what it is. NumPy's arrays and numbers keep all of their digits."""
    checked = operand(value, name)
    host = np.asarray(checked if isinstance(value, (Array, Tracer)) else value)
    if host.dtype.isbuiltin != 1 and (several or host.dtype != _BFLOAT16):
        raise DtypeError(
            f"{name} cannot write {host.dtype.name}: NumPy's files do not know it. Convert it, x.astype('float32'); or save its"
            f" bits, pb.lax.bitcast_convert_type(x, 'uint{8 * host.dtype.itemsize}').{at_user_line()}"
        )
    return host


def save(file: Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Write an array to a file, in NumPy's format.

    Arguments:
        file: an open file, or a path, to which ".npy" is added if it ends otherwise.
        arr: the array. Of bfloat16, `load` reads it back.
        allow_pickle: of no effect: arrays of numbers are never pickled.

    Raises:
        OSError: the file cannot be written.
        LeafError: `arr` is neither an array nor a number.
        DtypeError: its dtype is one of those that NumPy's format does not know.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> pnp.save(file, pnp.array([1.0, 2.0]))
        >>> len(file.getvalue())
        136
    """
    np.save(file, _storable("save", arr, False), allow_pickle=bool(allow_pickle))


def savez(file: Any, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write several arrays to one file, in NumPy's format.

    Arguments:
        file: an open file, or a path, to which ".npz" is added if it ends otherwise.
        args: arrays, which get the names "arr_0", "arr_1", ...
        allow_pickle: of no effect: arrays of numbers are never pickled.
        kwds: further arrays, by their names.

    Raises:
        OSError: the file cannot be written.
        LeafError: one of them is neither an array nor a number.
        DtypeError: a dtype is one of those that NumPy's format does not know.

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> pnp.savez(file, x=pnp.array([1.0, 2.0]))
        >>> done = file.seek(0)
        >>> pnp.load(file)["x"]
        array([1., 2.], dtype=float32)
    """
    stored = {name: _storable("savez", value, True) for name, value in kwds.items()}
    np.savez(file, *[_storable("savez", arg, True) for arg in args], allow_pickle=bool(allow_pickle), **stored)
