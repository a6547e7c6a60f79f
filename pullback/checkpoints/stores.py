"""Arrays in files: tensorstore, which writes and reads the chunks of each in parallel, in zarr's format.

A chunk is a part of what one device holds, so no two processes write to one file. Its last four bytes are the checksum (CRC32C)
of the others; tensorstore compares it whenever it reads a chunk.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.dtypes import BY_SHORT_NAME, DTYPES, NARROW, carrier, kind
from pullback.core.errors import CorruptCheckpoint, MissingPackage
from pullback.core.shardings import Index

REMEDY = "Copy it again, or restore another step: pb.checkpoint.steps lists them."  # for a file that is damaged

CHUNK_BYTES = 1 << 24  # files of this size are written and read at the speed of the disk, several at a time
# What zarr has no names for, as random keys: stored as integers of the same width.
_BEYOND_ZARR = {NARROW["uint2"], NARROW["uint4"], DTYPES["float8_e4m3"]}


@functools.cache
def package(name: str) -> Any:
    """A module of a package that only checkpoints need. Raises `MissingPackage`."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"Checkpoints need {name}, which cannot be imported ({error}): pip install 'pullback[checkpoint]'. Files of"
            " safetensors (pb.checkpoint.save_safetensors, load_safetensors) need nothing more."
        ) from None


def tensorstore() -> Any:
    """tensorstore, loaded now if it was not yet."""
    return package("tensorstore")


class Stored(NamedTuple):
    """An array of a checkpoint: its place in the tree, its type, the shape of its chunks, and whether it is weakly typed."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    weak: bool

    @property
    def numpy_dtype(self) -> Any:
        if self.dtype not in BY_SHORT_NAME:
            raise CorruptCheckpoint(
                f"{self.path} has the dtype {self.dtype}, which this program does not know. Use the version that wrote it."
            )
        return BY_SHORT_NAME[self.dtype]

    @property
    def file_dtype(self) -> Any:
        """The dtype in which the file has it."""
        own = self.numpy_dtype
        return carrier(own) if own in _BEYOND_ZARR or kind(own) == "k" else own


def chunk_shape(shard: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The shape of the chunks in which a device's part of an array is written: parts of one size, of not much more than
    `CHUNK_BYTES` where the axes can be divided so."""
    chunk = [max(size, 1) for size in shard]
    for axis, size in enumerate(chunk):
        wanted = -(-math.prod(chunk) * itemsize // CHUNK_BYTES)
        count = next((count for count in range(wanted, min(4 * wanted, size) + 1) if size % count == 0), 1)
        if count == 1 < wanted and size <= wanted:
            count = size
        chunk[axis] //= count
    return tuple(chunk)


def chunk_files(number: int, stored: Stored, places: Iterable[Index]) -> Iterator[str]:
    """The files with the chunks that parts of an array are made of, relative to the version's folder."""
    if math.prod(stored.shape):
        for place in places:
            ranges = [range(one.start // size, -(-one.stop // size)) for one, size in zip(place, stored.chunks)]
            for indices in itertools.product(*ranges):
                yield f"{number}/{'.'.join(['c', *map(str, indices)])}"


def open_array(context: Any, folder: str, number: int, stored: Stored, ocdbt: bool, compression: int, create: bool) -> Any:
    """A future of tensorstore's: an array of a version, made if it is not there and that is wanted. Those of one context share
    a database, which without that each would write anew."""
    path = os.path.abspath(folder)
    store = {"driver": "ocdbt", "base": {"driver": "file", "path": f"{path}/"}, "path": f"{number}/"}
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    codecs += [{"name": "zstd", "configuration": {"level": compression}}] if compression else []
    metadata = {
        "shape": stored.shape,
        "data_type": stored.file_dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": stored.chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},  # a folder for each array, and no more
        "codecs": [*codecs, {"name": "crc32c"}],
    }
    spec = {
        "driver": "zarr3",
        "kvstore": store if ocdbt else {"driver": "file", "path": f"{path}/{number}/"},
        "metadata": metadata,
        "store_data_equal_to_fill_value": True,  # what is missing is then an error, and no zeros
        "fill_missing_data_reads": False,
    }
    return tensorstore().open(spec, open=True, create=create, context=context)


def write(array: Any, place: Index, host: Any, dtype: Any) -> Any:
    """A future: values written to their place. Their memory is read until it is done, and not copied."""
    values = np.asarray(host)
    values = values if values.dtype == dtype else np.ascontiguousarray(values).reshape(values.shape).view(dtype)
    return array[place].write(values, can_reference_source_data_indefinitely=True).commit


def read(array: Any, place: Index, into: Any, dtype: Any) -> Any:
    """A future: values read from their place into memory."""
    return tensorstore().array(into.view(dtype)).write(array[place]).commit


# ---- what becomes of files --------------------------------------------------------------------------------------------------


def mark_of(path: str) -> list[Any]:
    """What a manifest says of a file: its size, and its checksum: of chunks their own at their end, of descriptions one that is
    computed."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if path.endswith("zarr.json"):
            return [size, f"{zlib.crc32(file.read()):08x}"]
        file.seek(max(size - 4, 0))
        return [size, file.read(4).hex()]


def check_file(folder: str, name: str, files: dict[str, list[Any]]) -> None:
    """Raise `CorruptCheckpoint` unless a file is what the manifest says. Chunks are compared with their checksums as they are
    read."""
    path = check_size(folder, name, files)
    if mark_of(path) != files[name]:
        raise CorruptCheckpoint(f"{path} is damaged: it has another checksum. {REMEDY}")


def check_size(folder: str, name: str, files: dict[str, list[Any]]) -> str:
    """The path of a file that is there, and as long as the manifest says; else raise `CorruptCheckpoint`."""
    path = os.path.join(folder, name)
    if name not in files:
        raise CorruptCheckpoint(f"{path} is not in the manifest. {REMEDY}")
    try:
        size = os.path.getsize(path)
    except FileNotFoundError:
        raise CorruptCheckpoint(f"{path} is missing. {REMEDY}") from None
    if size != files[name][0]:
        raise CorruptCheckpoint(f"{path} is damaged: it has {size} bytes instead of {files[name][0]}. {REMEDY}")
    return path
