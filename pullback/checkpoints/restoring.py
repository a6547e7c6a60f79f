"""Restoring a tree, whole or in part, as it lay or divided in another way."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pullback.api.devices import device_put
from pullback.api.shardings import places_as_leaves
from pullback.checkpoints import stores, versions
from pullback.checkpoints.described import Wanted, at, matched, skeleton
from pullback.checkpoints.saving import wait_until_saved
from pullback.checkpoints.stores import REMEDY, Stored
from pullback.core.array import Array, ShardedArray, aligned_empty, later_buffer
from pullback.core.errors import CorruptCheckpoint, ShardingError
from pullback.core.shardings import Index, NamedSharding, as_sharding
from pullback.core.source import api_boundary
from pullback.core.trees import OWN_TREES, flatten, structure_of, unflatten
from pullback.core.types import ArrayType, array_type
from pullback.parallel.arrays import make_array_from_callback

Directory = str | os.PathLike[str]
R = TypeVar("R")


def _of_version(directory: Directory, step: int | None, read: Callable[[str, dict[str, Any], list[Stored]], R]) -> R:
    """What a function makes of a version: of its folder, its manifest, and its arrays. What this process is saving there in the
    background counts: of several processes, all then take the same version."""
    where = versions.path_of(directory)
    wait_until_saved(where)
    while True:
        folder = versions.folder_of(where, step)
        try:
            manifest = versions.read_manifest(folder)
            rows = [{**one, "shape": tuple(one["shape"]), "chunks": tuple(one["chunks"])} for one in manifest["arrays"]]
            return read(folder, manifest, [Stored(**row) for row in rows])
        except CorruptCheckpoint:
            if os.path.isdir(folder):
                raise  # else it was deleted or replaced while it was read: there is another one, or none


def _path(path: Any) -> tuple[Any, ...]:
    return path if isinstance(path, tuple) else (path,)


@api_boundary
def restore(
    directory: Directory,
    like: Any = None,
    *,
    step: int | None = None,
    shardings: Any = None,
    path: Any = (),
    verify: bool = True,
) -> Any:
    """Restore a tree from a checkpoint, or a part of it. Each process reads what its own devices hold.

    Arguments:
        directory: where the versions are.
        like: a tree of the structure that is expected; its arrays may be their types (`pb.eval_shape`). Arrays come back as
            `like` has them: as NumPy arrays or as Arrays, and lying as it does. `...` in it stands for any part, which is not
            read. By default the tree comes back as it was saved, on the default device.
        step: which version; by default the last one.
        shardings: where the arrays are to lie: a sharding, a device, a `PartitionSpec` inside `with mesh:`, or a tree of them
            that is a prefix of the result.
        path: the part of the tree to restore: a key, an index or the name of a field, or a tuple of them.
        verify: whether to compare all files that are read with the manifest first.

    Returns:
        The tree.

    Raises:
        CheckpointError: there is no such version; or it has containers of a class that is not known, so that `like` is needed.
        CorruptCheckpoint: a file is missing or damaged, which one.
        StructureError, ShapeError, DtypeError: `like` is another tree than the one that was saved; where they differ. `path`
            leads nowhere.
        ShardingError: an array cannot be divided so.
        MissingPackage: tensorstore is not installed.

    Example:
        >>> import tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = pb.checkpoint.save(directory, {"w": pb.numpy.arange(4), "b": 0.5}, step=10)
        ...     pb.checkpoint.restore(directory, {"w": pb.ArrayType((4,), "int32"), "b": ...})
        ...     pb.checkpoint.restore(directory, path="b")
        {'w': [0 1 2 3]:i32[4]:cpu(0), 'b': Ellipsis}
        0.5
    """

    def read(folder: str, manifest: dict[str, Any], stored: list[Stored]) -> Any:
        return _restored(folder, manifest, stored, like, shardings, _path(path), verify)

    return _of_version(directory, step, read)


def _restored(
    folder: str, manifest: dict[str, Any], stored: list[Stored], like: Any, shardings: Any, path: tuple[Any, ...], verify: bool
) -> Any:
    node, root = at(manifest["tree"], path)
    if like is None:
        tree = skeleton(node, _types(stored), root)
        leaves, structure = flatten(tree)
    else:  # no tree of what is to be read is made of it: classes may look at what they are given
        tree, structure = like, structure_of(like)
        leaves = list(matched(node, like, _types(stored), root))
    places: Sequence[Any] = [getattr(leaf, "sharding", None) for leaf in leaves]
    if shardings is not None:
        given = OWN_TREES.broadcast_prefix(
            places_as_leaves(shardings, "restore's shardings"), tree, "restore's shardings", "the tree"
        )
        places = [own if place is None else as_sharding(place, "restore's sharding") for own, place in zip(places, given)]
    rows = [_Row(leaf, stored[leaf.number], place) for leaf, place in zip(leaves, places) if isinstance(leaf, Wanted)]
    _read(folder, manifest, rows, verify)
    made = iter(rows)
    return unflatten(structure, [next(made).value() if isinstance(leaf, Wanted) else leaf for leaf in leaves])


@api_boundary
def types(directory: Directory, *, step: int | None = None, path: Any = ()) -> Any:
    """What a checkpoint holds, without its arrays: a tree to look at, or to pass to `restore` as `like`.

    Arguments:
        directory, step, path: as for `restore`.

    Returns:
        The tree that was saved, with an `ArrayType` for each array.

    Raises:
        CheckpointError, CorruptCheckpoint, StructureError: as for `restore`.

    Example:
        >>> import tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     version = pb.checkpoint.save(directory, {"w": pb.numpy.ones((2, 3)), "epoch": 3})
        ...     pb.checkpoint.types(directory)
        {'w': f32[2,3], 'epoch': 3}
    """

    def read(folder: str, manifest: dict[str, Any], stored: list[Stored]) -> Any:
        node, root = at(manifest["tree"], _path(path))
        leaves, structure = flatten(skeleton(node, _types(stored), root))
        return unflatten(structure, [leaf.type if isinstance(leaf, Wanted) else leaf for leaf in leaves])

    return _of_version(directory, step, read)


def _types(stored: Sequence[Stored]) -> list[ArrayType]:
    return [array_type(one.shape, one.numpy_dtype, one.weak) for one in stored]


def _key(place: Index) -> tuple[tuple[int, int], ...]:
    return tuple([(one.start, one.stop) for one in place])


class _Row:
    """An array that is read, and the memory into which its parts are read, each part once."""

    def __init__(self, wanted: Wanted, stored: Stored, sharding: Any) -> None:
        self.wanted, self.stored, self.sharding = wanted, stored, sharding
        self.places: list[Index] = [tuple([slice(0, size) for size in stored.shape])]
        if isinstance(sharding, NamedSharding):
            try:
                self.places = list(sharding.addressable_devices_indices_map(stored.shape).values())
            except ShardingError as error:
                error.args = (f"{wanted.path}: {error}",)
                raise
        sizes = {_key(place): tuple([one.stop - one.start for one in place]) for place in self.places}
        self.memory = {key: aligned_empty(shape, stored.numpy_dtype) for key, shape in sizes.items()}

    def value(self) -> Any:
        """What comes back of it."""
        type, arrays = self.wanted.type, self.memory
        if isinstance(self.sharding, NamedSharding):
            parts = {key: Array(array_type(part.shape, part.dtype), part) for key, part in arrays.items()}
            made = make_array_from_callback(type.shape, self.sharding, lambda place: parts[_key(place)], type.dtype)
            return ShardedArray(type, self.sharding, later_buffer(made), lent=True) if type.weak else made
        (host,) = arrays.values()
        if self.sharding is None and self.wanted.kind != "array":
            return host if self.wanted.kind == "numpy" else host[()]
        own = Array(type, host)
        return own if self.sharding is None else device_put(own, self.sharding)


def _read(folder: str, manifest: dict[str, Any], rows: Sequence[_Row], verify: bool) -> None:
    """Read arrays, all of them at once. Raises `CorruptCheckpoint`."""
    ocdbt, files = manifest["ocdbt"], manifest["files"]
    if verify and ocdbt:
        for name in files:
            stores.check_size(folder, name, files)
    begun: list[Any] = []
    context = stores.tensorstore().Context()
    path = "The checkpoint"
    try:
        opened = []
        for row in rows:
            number, path = row.wanted.number, row.wanted.path
            if verify and not ocdbt:
                for name in (f"{number}/zarr.json", *stores.chunk_files(number, row.stored, row.places)):
                    stores.check_file(folder, name, files)
            begun.append(stores.open_array(context, folder, number, row.stored, ocdbt, manifest["compression"], create=False))
            opened.append(begun[-1])
        reads = []
        for row, future in zip(rows, opened):
            path = row.wanted.path
            array = future.result()
            for key, into in row.memory.items():
                if into.size:
                    begun.append(stores.read(array, tuple([slice(*ends) for ends in key]), into, row.stored.file_dtype))
                    reads.append((row, begun[-1]))
        for row, future in reads:
            path = row.wanted.path
            future.result()
    except CorruptCheckpoint as error:
        error.args = (f"{path} cannot be restored: {error}",)
        raise
    except (ValueError, OSError, KeyError) as error:  # tensorstore's
        raise CorruptCheckpoint(f"{path} cannot be restored: {_in_short(error)}. {REMEDY}") from error
    finally:  # memory is given up only when nothing is written to it any more
        for future in begun:
            future.exception()


@api_boundary
def steps(directory: Directory) -> list[int]:
    """The steps of which there is a version, in order.

    Arguments:
        directory: where the versions are; it need not be there.

    Returns:
        A list of ints.

    Raises:
        OSError: the directory cannot be read.

    Example:
        >>> import tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     paths = [pb.checkpoint.save(directory, step, step=step, keep=2, keep_every=10) for step in (10, 11, 12, 13)]
        ...     pb.checkpoint.steps(directory)
        [10, 12, 13]
    """
    return list(versions.readable(versions.path_of(directory)))


@api_boundary
def latest(directory: Directory) -> int | None:
    """The last step of which there is a version; None if there is none.

    Arguments:
        directory: where the versions are; it need not be there.

    Returns:
        An int, or None.

    Raises:
        OSError: the directory cannot be read.

    Example:
        >>> import tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     before = pb.checkpoint.latest(directory)
        ...     path = pb.checkpoint.save(directory, None, step=7)
        ...     before, pb.checkpoint.latest(directory)
        (None, 7)
    """
    return max(steps(directory), default=None)


@api_boundary
def delete(directory: Directory, step: int) -> None:
    """Delete the version of a step. Of several processes, one calls it.

    Arguments:
        directory: where the versions are.
        step: which version.

    Raises:
        CheckpointError: there is no such version.

    Example:
        >>> import tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = pb.checkpoint.save(directory, None, step=7)
        ...     pb.checkpoint.delete(directory, 7)
        ...     pb.checkpoint.steps(directory)
        []
    """
    where = versions.path_of(directory)
    versions.folder_of(where, step)  # raises
    for name in versions.versions(where)[step]:
        versions.remove(where, name)


def _in_short(error: Exception) -> str:
    """What tensorstore says, which may quote all of a file's specification: the beginning of it; the cause has the whole."""
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:297]}..."
