"""Files of safetensors: arrays by names, for other tools to read, and what other tools wrote.

The format (huggingface.co/docs/safetensors): the length of a header in 8 bytes, the header as JSON with the dtype, shape and
place of each array, the bytes of the arrays. An index names the files in which the arrays of a large model are.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from pullback.api.devices import device_put
from pullback.api.shardings import places_as_leaves
from pullback.checkpoints.described import is_node, parts_of
from pullback.checkpoints.versions import sync_folder
from pullback.core.array import Array, as_array, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import DTYPES, NO_NUMBERS
from pullback.core.errors import CorruptCheckpoint, DtypeError, LeafError, ShapeError, StructureError
from pullback.core.shardings import NamedSharding, as_sharding
from pullback.core.source import api_boundary
from pullback.core.trees import OWN_TREES, flatten, structure_of, unflatten
from pullback.core.types import ArrayType, array_type
from pullback.parallel.arrays import make_array_from_callback

REMEDY = "Copy it again from where it was saved."  # for a file that is damaged

Directory = str | os.PathLike[str]
_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "C64": "complex64",
}  # fmt: skip
_DTYPES = {short: DTYPES[name] for short, name in _NAMES.items()}
_SHORT = {dtype: short for short, dtype in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000  # bytes, as other readers have it
INDEX = "model.safetensors.index.json"


@api_boundary
def save_safetensors(path: Directory, tree: Any, *, metadata: Mapping[str, str] | None = None) -> None:
    """Save the arrays of a tree in a file of safetensors, each by its path: `{"layer": {"w": ...}}` as `layer.w`.

    The file is there when it is complete. Arrays that are divided among devices are put together; of several processes, one
    calls this.

    Arguments:
        path: the file.
        tree: arrays, in dicts with strings as keys or other containers.
        metadata: texts by names, for the header.

    Raises:
        LeafError: a leaf is no array, or two have one name. DtypeError: the format has no such dtype.
        TypeError: the metadata are no texts. ValueError: they, or a name, are not UTF-8.
        NotLocal: another process holds a part of an array.

    Example:
        >>> import os, tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = os.path.join(directory, "model.safetensors")
        ...     pb.checkpoint.save_safetensors(path, {"layer": {"w": pb.numpy.ones(2)}}, metadata={"format": "pt"})
        ...     pb.checkpoint.load_safetensors(path)
        {'layer.w': [1. 1.]:f32[2]:cpu(0)}
    """
    pairs = metadata.items() if isinstance(metadata, Mapping) else () if metadata is None else [(metadata,)]
    if not all([isinstance(word, str) for pair in pairs for word in pair]):
        raise TypeError(f"The metadata of safetensors are texts by names, but got {brief(metadata)}.")
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    arrays: dict[str, Array] = {}
    for name, leaf in _named(tree, ""):
        if name in arrays or name in ("", "__metadata__"):
            raise LeafError(
                f"{name!r} cannot be the name of an array in safetensors{', twice' if name in arrays else ''}. Choose another."
            )
        try:
            arrays[name] = array = as_array(leaf)
        except LeafError as error:
            error.args = (f"{name}: {error}",)
            raise
        if not isinstance(array, Array):
            raise LeafError(f"{name} is traced: it has no values yet. Save what the traced function returns.")
        if array.dtype not in _SHORT:
            reason = NO_NUMBERS if array.dtype.names else f"it has {', '.join(_NAMES.values())}."
            raise DtypeError(f"{name} is {array.type}, for which safetensors have no dtype: {reason}")
    end = 0
    for name, array in sorted(arrays.items(), key=lambda pair: -pair[1].dtype.itemsize):  # so that each is aligned
        header[name] = {"dtype": _SHORT[array.dtype], "shape": array.shape, "data_offsets": [end, end + array.type.nbytes]}
        end += array.type.nbytes
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"Names and metadata of safetensors are UTF-8, but {error.object[error.start]!r} is not.") from None
    text += b" " * (-len(text) % 8)
    final = os.path.abspath(os.fspath(path))
    partial = f"{final}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in header:
                if name in arrays:
                    file.write(np.ascontiguousarray(host_of(arrays[name])).reshape(-1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, final)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise
    sync_folder(os.path.dirname(final))


def _named(tree: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """The leaves of a tree by names: what leads to each, joined by dots."""
    flatten(tree)  # registers the dataclasses in it
    if not is_node(tree):
        yield prefix, tree
        return
    for part in parts_of(tree)[1]:
        if not isinstance(part.key, (str, int)):
            raise LeafError(
                f"A part of {prefix or 'the tree'} has the key {part.key!r}: use strings and numbers, of which names are made."
            )
        yield from _named(part.value, f"{prefix}.{part.key}" if prefix else str(part.key))


@api_boundary
def load_safetensors(path: Directory, like: Any = None, *, shardings: Any = None) -> Any:
    """Load arrays from a file of safetensors, or from the several ones of an index.

    Arguments:
        path: the file; an index (`model.safetensors.index.json`); or a directory with one of them.
        like: a tree whose leaves say which arrays to load, as `save_safetensors` names them, and their shapes and dtypes;
            arrays that it does not have are not read. By default a dict of all arrays by their names.
        shardings: where the arrays are to lie: a sharding, a device, or a tree of them that is a prefix of the result. Of
            arrays that are divided among devices, each process reads what its devices hold.

    Returns:
        The tree, or dict, of Arrays.

    Raises:
        CorruptCheckpoint: a file is missing, or is none of safetensors; which one, and why.
        StructureError: an array is asked for that is not there. ShapeError, DtypeError: it is of another type.
        ShardingError: an array cannot be divided so.

    Example:
        >>> import os, tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = os.path.join(directory, "model.safetensors")
        ...     pb.checkpoint.save_safetensors(path, {"layer": [pb.numpy.ones(2), pb.numpy.zeros(1)]})
        ...     pb.checkpoint.load_safetensors(path, {"layer": [pb.ArrayType((2,)), pb.ArrayType((1,))]})
        {'layer': [[1. 1.]:f32[2]:cpu(0), [0.]:f32[1]:cpu(0)]}
    """
    there = {name: found for file in _files(os.fspath(path)) for name, found in _header(*file).items()}
    if like is None:
        tree: Any = {name: found.type for name, found in there.items()}
        names = list(tree)
    else:
        tree = like
        names = [name for name, _ in _named(like, "")]
    for name, leaf in zip(names, flatten(tree)[0] if like is not None else ()):
        _check(name, leaf, there, path)
    skeleton = unflatten(structure_of(tree), [there[name].type for name in names]) if like is not None else tree
    given: list[Any] = [None] * len(names)
    if shardings is not None:
        given = OWN_TREES.broadcast_prefix(
            places_as_leaves(shardings, "load_safetensors' shardings"), skeleton, "load_safetensors' shardings", "the tree"
        )
    in_order = names if like is not None else sorted(names)  # of the leaves of a dict
    made = {name: _load(there[name], place) for name, place in zip(in_order, given)}
    return unflatten(structure_of(tree), [made[name] for name in in_order]) if like is not None else {n: made[n] for n in names}


def _check(name: str, leaf: Any, there: Mapping[str, _Placed], path: Any) -> None:
    if name not in there:
        listed = ", ".join(list(there)[:6])
        raise StructureError(f"{path} has no array {name!r}; it has {listed or 'none'}{', ...' if len(there) > 6 else ''}.")
    own = there[name].type
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        raise LeafError(
            f"{name} is {brief(leaf)} in what is asked for, which is no array; in {path} it is {own}. Ask for an array, or an"
            " ArrayType."
        )
    if tuple(shape) != own.shape:
        raise ShapeError(f"{name} has the shape {tuple(shape)} in what is asked for, but {own.shape} in {path}.")
    if np.dtype(dtype) != own.dtype:
        raise DtypeError(f"{name} has the dtype {dtype} in what is asked for, but {own.dtype} in {path}.")


class _Placed(NamedTuple):
    """An array in a file."""

    file: str
    start: int
    type: ArrayType


def _load(placed: _Placed, place: Any) -> Array:
    own = placed.type
    if own.size:
        seen: Any = np.memmap(placed.file, np.uint8, "r", placed.start, (own.nbytes,)).view(own.dtype).reshape(own.shape)
    else:
        seen = np.empty(own.shape, own.dtype)

    def part(index: Any) -> Array:
        values = np.array(np.asarray(seen[index]), order="C")
        if own.dtype.kind == "b" and values.size and values.view(np.uint8).max() > 1:
            raise CorruptCheckpoint(f"{placed.file}: a bool is neither 0 nor 1.")
        return Array(array_type(values.shape, own.dtype), values)

    sharding = None if place is None else as_sharding(place, "load_safetensors' sharding")
    if isinstance(sharding, NamedSharding):
        return make_array_from_callback(own.shape, sharding, part, own.dtype)
    whole = part(...)
    return whole if sharding is None else device_put(whole, sharding)


# ---- what is in files -------------------------------------------------------------------------------------------------------


def _files(path: str) -> Iterator[tuple[str, frozenset[str] | None]]:
    """The files with arrays that a path names, each with the names that an index says to be there."""
    if os.path.isdir(path):
        choices = [os.path.join(path, name) for name in (INDEX, "model.safetensors")]
        path = next((choice for choice in choices if os.path.exists(choice)), choices[1])
    if not path.endswith(".json"):
        yield path, None
        return
    try:
        with open(path, "rb") as file:
            files: Any = json.loads(file.read())["weight_map"]
        wanted: dict[str, set[str]] = {}
        for name, where in files.items():
            if os.path.basename(where) != where or where in ("", os.curdir, os.pardir):
                raise CorruptCheckpoint(f"{path}: {brief(where)} is no file beside it. {REMEDY}")
            wanted.setdefault(where, set()).add(name)
    except FileNotFoundError:
        raise CorruptCheckpoint(f"{path} is missing. {REMEDY}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptCheckpoint(f"{path}: it is no index of safetensors ({type(error).__name__}: {error}). {REMEDY}") from None
    for where, names in wanted.items():
        yield os.path.join(os.path.dirname(path), where), frozenset(names)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _header(path: str, wanted: frozenset[str] | None) -> dict[str, _Placed]:
    """The arrays in a file. Raises `CorruptCheckpoint` unless they fill it, without gaps."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(_LONGEST_HEADER, size - 8):
                raise ValueError(f"its header would have {length} bytes, the file has {size}")
            header = json.loads(file.read(length).decode(), object_pairs_hook=_unique)
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict):
            raise ValueError("its metadata are no object")
        found = {name: _placed(path, name, entry, 8 + length) for name, entry in header.items()}
    except FileNotFoundError:
        raise CorruptCheckpoint(f"{path} is missing. {REMEDY}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptCheckpoint(f"{path}: it is no file of safetensors ({error}). {REMEDY}") from None
    end = 8 + length
    for name, one in sorted(found.items(), key=lambda pair: (pair[1].start, pair[1].type.nbytes)):
        if one.start != end:
            raise CorruptCheckpoint(f"{path}: {name} begins at byte {one.start}, where byte {end} is next. {REMEDY}")
        end += one.type.nbytes
    if end != size:
        raise CorruptCheckpoint(f"{path}: it has {size} bytes, its arrays end at {end}. {REMEDY}")
    if wanted is not None and (lacking := sorted(wanted - {*found})):
        raise CorruptCheckpoint(f"{path} has no array {lacking[0]!r}, which the index says to be there. {REMEDY}")
    return {name: one for name, one in found.items() if wanted is None or name in wanted}


def _placed(path: str, name: str, entry: Any, start: int) -> _Placed:
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"{name} has the dtype {entry['dtype']}, which is not known")
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    if not all([type(number) is int and number >= 0 for number in (*shape, begin, end)]):
        raise ValueError(f"{name} has the shape {shape} and the offsets {begin}, {end}")
    own = array_type(tuple(shape), _DTYPES[entry["dtype"]])
    if end - begin != math.prod(shape) * own.dtype.itemsize:
        raise ValueError(f"{name}, {own}, has {end - begin} bytes instead of {own.nbytes}")
    np.broadcast_to(np.empty((), own.dtype), own.shape)  # raises for shapes that no array can have
    return _Placed(path, start + begin, own)
