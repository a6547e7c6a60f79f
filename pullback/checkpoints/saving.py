"""Saving a tree: each device's parts by the process that has it, all of it or nothing."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.checkpoints import stores, versions
from pullback.checkpoints.described import Node, described
from pullback.checkpoints.stores import Stored
from pullback.core.array import Array, BorrowedArray, ShardedArray, host_of
from pullback.core.bars import progress_bar
from pullback.core.brief import brief
from pullback.core.dtypes import SHORT_NAMES
from pullback.core.errors import CheckpointError, DonatedBufferError
from pullback.core.source import api_boundary
from pullback.engine.waiting import LISTENING
from pullback.parallel import world

Report = Callable[[int], None]


class _Job(NamedTuple):
    """What is to be saved, and how."""

    directory: Any
    step: int
    keep: int | None
    keep_every: int | None
    overwrite: bool
    ocdbt: bool
    compression: int
    progress: bool
    node: Node | None = None  # of the tree, from here on
    arrays: Sequence[tuple[str, Any]] = ()


def _of_tree(job: _Job, tree: Any) -> _Job:
    """What saves a tree so. Raises if that cannot be."""
    for name, value, least in (("step", job.step, 0), ("keep", job.keep, 1), ("keep_every", job.keep_every, 1)):
        if (isinstance(value, bool) or not (isinstance(value, (int, np.integer)) and value >= least)) and not (
            value is None and name != "step"
        ):
            raise ValueError(f"save's {name} is an integer of at least {least}, but got {brief(value)}.")
    if type(job.compression) is not int or not 0 <= job.compression <= 22:
        raise ValueError(f"save's compression is a level of zstd from 1 to 22, or 0, but got {brief(job.compression)}.")
    if job.keep_every is not None and job.keep is None:
        raise ValueError("save's keep_every says what keep spares: without keep, everything is kept. Pass keep too.")
    if job.ocdbt and world.process_count() > 1:
        raise NotImplementedError(
            "A database (ocdbt=True) is written by one process. Several write a file for each chunk: pass ocdbt=False."
        )
    stores.tensorstore()
    node, arrays = described(tree, "tree")
    return job._replace(directory=versions.path_of(job.directory), step=int(job.step), node=node, arrays=arrays)


@api_boundary
def save(
    directory: str | os.PathLike[str],
    tree: Any,
    *,
    step: int = 0,
    keep: int | None = None,
    keep_every: int | None = None,
    overwrite: bool = False,
    ocdbt: bool = False,
    compression: int = 0,
    progress: bool = False,
) -> str:
    """Save a tree as a version of a checkpoint: all of it, or, if anything goes wrong, nothing.

    What is being written has a temporary name until all of it is on the disk, so that a process that ends in the middle leaves
    the versions before; the next `save` deletes what is left over. One program at a time saves into a directory. If it has
    several processes, all call `save`, on a file system that they share, and each writes the parts of its own devices;
    what is not divided among devices, process 0 writes.

    Arguments:
        directory: where the versions are; it is made if it is not there.
        tree: arrays of every dtype (NumPy's too), Python's numbers, strings and bytes, None, in containers of every kind.
        step: the number of the version.
        keep: how many of the last versions to keep, besides this one if there are later ones; by default all.
        keep_every: keep also those whose step is a multiple of it.
        overwrite: whether to replace a version of the same step.
        ocdbt: whether to write one database (OCDBT), for trees of very many small arrays, instead of a file for each chunk.
        compression: a level of zstd, from 1 to 22; 0 for none.
        progress: whether to show a progress bar.

    Returns:
        The path of the version.

    Raises:
        CheckpointError: there is a version of this step; it cannot be written; another thread is writing it; or an earlier
            `save_async` failed, and nobody has asked for its result. OSError: the directory cannot be made or written to.
        LeafError: a leaf cannot be saved. DtypeError: nor can arrays of its dtype.
        ValueError: an option is out of its range, or the directory's name has a backslash or is not UTF-8.
        MissingPackage: tensorstore is not installed.

    Example:
        >>> import tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = pb.checkpoint.save(directory, {"w": pb.numpy.ones(2), "epoch": 3}, step=10)
        ...     pb.checkpoint.restore(directory)
        {'w': [1. 1.]:f32[2]:cpu(0), 'epoch': 3}
    """
    job = _of_tree(_Job(directory, step, keep, keep_every, overwrite, ocdbt, compression, progress), tree)
    _wait_for_earlier(job.directory)
    return _write(job)


@api_boundary
def save_async(
    directory: str | os.PathLike[str],
    tree: Any,
    *,
    step: int = 0,
    keep: int | None = None,
    keep_every: int | None = None,
    overwrite: bool = False,
    ocdbt: bool = False,
    compression: int = 0,
    progress: bool = False,
) -> Saving:
    """`save` in the background, of the tree as it is now: its arrays may be changed or donated afterwards.

    Saves into one directory happen one after the other: while one is written another may wait, which a third call waits for
    to begin, so that no more than two trees are kept. The process does not end before they have.

    Arguments:
        directory, tree, step, keep, keep_every, overwrite, ocdbt, compression, progress: as for `save`.

    Returns:
        A `Saving`, whose `result()` waits, and raises what went wrong. If nobody calls it, the next `save` into the directory
        raises it, and the end of the process prints it.

    Raises:
        LeafError, DtypeError, ValueError, MissingPackage: as for `save`.

    Example:
        >>> import tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     saving = pb.checkpoint.save_async(directory, {"w": pb.numpy.ones(2)}, step=10)
        ...     path = saving.result()
        ...     pb.checkpoint.steps(directory)
        [10]
    """
    job = _of_tree(_Job(directory, step, keep, keep_every, overwrite, ocdbt, compression, progress), tree)
    _wait_for_room(job.directory)
    return Saving(job._replace(arrays=[(path, _kept(array)) for path, array in job.arrays]))


def _wait_for_room(directory: str) -> None:
    """Wait until no more than one save into a directory has not ended its turn."""
    with _lock:
        before = _latest.get(directory)
    writing = None if before is None else before._before
    if writing is not None:
        writing._wait()


def _kept(leaf: Any) -> Any:
    """An array as it is now, whatever happens to it."""
    if isinstance(leaf, BorrowedArray):
        return Array(leaf.type, np.array(host_of(leaf)))
    return leaf.alias() if isinstance(leaf, Array) else leaf.copy() if isinstance(leaf, np.ndarray) else leaf


class Saving:
    """A checkpoint that is being saved in the background, as `save_async` returns it.

    Attributes:
        directory, step: what is saved where.

    Example:
        >>> import tempfile, pullback as pb
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     saving = pb.checkpoint.save_async(directory, pb.numpy.ones(2))
        ...     saving.result().endswith("00000000")
        True
    """

    def __init__(self, job: _Job) -> None:
        self.directory, self.step = job.directory, job.step
        self._ended = threading.Event()
        self._path = ""
        self._error: BaseException | None = None
        self._root = self  # whose failure it was
        with _lock:
            self._before = _latest.get(job.directory)
            _latest[job.directory] = self
        threading.Thread(target=self._run, args=(job,), name=f"checkpoint {job.step}").start()

    def _run(self, job: _Job) -> None:
        try:
            if self._before is not None:
                self._before._wait()
                if self._before._error is not None:
                    self._root = self._before._root
                    raise _earlier(self._before) from self._before._error
            self._path = _write(job)
            with _lock:
                if _latest.get(self.directory) is self:
                    del _latest[self.directory]
        except BaseException as error:
            self._error = error
        finally:
            self._before = None
            self._ended.set()

    def done(self) -> bool:
        """Whether it has ended, well or not.

        Returns:
            A bool.

        Example:
            >>> import tempfile, pullback as pb
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     saving = pb.checkpoint.save_async(directory, pb.numpy.ones(2))
            ...     path = saving.result()
            ...     saving.done()
            True
        """
        return self._ended.is_set()

    def result(self, timeout: float | None = None) -> str:
        """Wait until it has ended.

        Arguments:
            timeout: how many seconds to wait; by default as long as it takes.

        Returns:
            The path of the version.

        Raises:
            CheckpointError, and others: what went wrong. TimeoutError: it has not ended by then, and goes on.

        Example:
            >>> import tempfile, pullback as pb
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     pb.checkpoint.save_async(directory, pb.numpy.ones(2), step=7).result().endswith("00000007")
            True
        """
        if not self._wait(timeout):
            raise TimeoutError(
                f"The checkpoint of step {self.step} has not been written after {timeout} seconds; it goes on. Wait again, with"
                " more time."
            )
        if self._error is not None:
            self._seen()
            raise self._error
        return self._path

    def _wait(self, timeout: float | None = None) -> bool:
        """Whether it has ended, within a time if one is given. Ctrl-C is heard."""
        if timeout is not None:
            return self._ended.wait(timeout)
        while not self._ended.wait(LISTENING):
            pass
        return True

    def _seen(self) -> None:
        with _lock:
            if _latest.get(self.directory) is self:
                del _latest[self.directory]


_latest: dict[str, Saving] = {}  # by directory: what is being saved there, or has failed, which nobody has seen yet
_lock = threading.Lock()


def _earlier(saving: Saving) -> CheckpointError:
    saving._seen()
    root, why = saving._root, str(saving._root._error).rstrip(".")
    return CheckpointError(
        f"An earlier save_async, of step {root.step} into {root.directory}, failed: {why}. Nothing was saved since then: save"
        " again when that is mended."
    )


def wait_until_saved(directory: str) -> Saving | None:
    """Wait for what `save_async` is saving in a directory: the last one, if there is one."""
    with _lock:
        before = _latest.get(directory)
    if before is not None:
        before._wait()
    return before


def _wait_for_earlier(directory: str) -> None:
    """Wait for what is being saved in a directory; raise its error, if nobody has seen it."""
    before = wait_until_saved(directory)
    if before is not None and before._error is not None:
        raise _earlier(before) from before._error


@atexit.register
def _report() -> None:
    for saving in list(_latest.values()):
        if saving._error is not None:
            sys.stderr.write(f"The checkpoint of step {saving.step} in {saving.directory} was not saved: {saving._error!r}\n")


# ---- writing ----------------------------------------------------------------------------------------------------------------


_in_flight: set[str] = set()  # the folders that this process is writing


def _write(job: _Job) -> str:
    """Write a version. Each process comes to each barrier, also if something failed in it, so that none waits for ever."""
    label = f"checkpoint of step {job.step} in {job.directory}"
    version, failure = _Version(job), None
    try:
        for stage, state in ((version.begin, "begun"), (version.fill, "written"), (version.end, "ended")):
            try:
                if failure is None:
                    stage()
            except Exception as error:
                failure = error
            world.barrier(f"{label}: {state}")
        if failure is not None:
            raise failure
        version.settle(label)
        return version.path
    finally:
        version.leave()


class _Version:
    """A version that this process writes, or its part of it."""

    def __init__(self, job: _Job) -> None:
        self.job = job
        self.rank, self.several = world.process_index(), world.process_count() > 1
        self.claimed = self.partial = self.path = ""
        self.files: dict[str, Any] = {}

    def begin(self) -> None:
        if self.rank == 0:
            versions.clean(self.job.directory, _in_flight)
            name = versions.new_name(self.job.directory, self.job.step, self.job.overwrite)
            partial = os.path.join(self.job.directory, f"{name}.partial")
            with _lock:
                if partial in _in_flight:
                    raise CheckpointError(
                        f"Another thread is writing a checkpoint of step {self.job.step} in {self.job.directory}. Wait for it"
                        " (`wait` of what save returned)."
                    )
                _in_flight.add(partial)
            self.claimed = partial
            self.partial = versions.begin(self.job.directory, name)  # from here on this one deletes it if anything fails

    def fill(self) -> None:
        if self.rank > 0:
            self.partial = _begun(self.job)
        said: dict[str, Any] = {"arrays": _said_of_arrays(self.job)}
        try:
            said["files"] = self.files = _write_arrays(self.job, self.partial)
        except Exception as error:
            said["error"] = repr(error)
            raise
        finally:
            if self.several:
                versions.write_file(os.path.join(self.partial, f"process-{self.rank}.json"), json.dumps(said).encode())

    def end(self) -> None:
        if self.rank == 0:
            files = _files_of_all(self.job, self.partial) if self.several else self.files
            self.path = versions.commit(self.job.directory, self.partial, _manifest(self.job, files))

    def settle(self, label: str) -> None:
        """Delete what is not to be kept, in process 0; in the others, see that it has written the version."""
        if self.rank == 0:
            versions.clean(self.job.directory, _in_flight)
            versions.retire(self.job.directory, self.job.step, self.job.keep, self.job.keep_every)
            return
        self.path = self.partial.removesuffix(".partial")
        if not os.path.isdir(self.path):
            raise CheckpointError(f"The {label} was not written: another process failed. See its own error.")

    def leave(self) -> None:
        _in_flight.discard(self.claimed)
        if self.rank == 0 and self.partial and not self.path:
            shutil.rmtree(self.partial, ignore_errors=True)  # if it cannot be deleted now, the next one tries again


def _begun(job: _Job) -> str:
    """The folder that process 0 has made."""
    found = [name for name in versions.names(job.directory) if name.startswith(f"{job.step:08d}") and name.endswith(".partial")]
    if len(found) != 1:
        raise CheckpointError(
            f"Process 0 has not begun the checkpoint of step {job.step} in {job.directory}: it failed, or the processes do not"
            " share this file system. Choose a directory that all of them see."
        )
    return os.path.join(job.directory, found[0])


def _said_of_arrays(job: _Job) -> list[str]:
    """What all processes must have been given alike."""
    return [f"{path}, {array.dtype}{list(array.shape)}" for path, array in job.arrays]


def _files_of_all(job: _Job, partial: str) -> dict[str, Any]:
    """What all processes have written. Raises `CheckpointError`, with what went wrong in one of them."""
    files: dict[str, Any] = {}
    own = _said_of_arrays(job)
    for rank in range(world.process_count()):
        path = os.path.join(partial, f"process-{rank}.json")
        try:
            with open(path, "rb") as file:
                found = json.loads(file.read())
        except FileNotFoundError:
            raise CheckpointError(
                f"Process {rank} has written nothing. Choose a directory that all processes share; its own error may say more."
            ) from None
        if "error" in found:
            raise CheckpointError(f"Process {rank} failed: {found['error']}. Nothing was kept; save again when that is mended.")
        for number, (here, there) in enumerate(itertools.zip_longest(own, found["arrays"], fillvalue="nothing more")):
            if here != there:
                raise CheckpointError(
                    f"The trees of processes differ: array {number} is {here} of process 0, but {there} of {rank}."
                )
        files |= found["files"]
        os.remove(path)
    return files


def _manifest(job: _Job, files: dict[str, Any]) -> dict[str, Any]:
    stored = [_stored(path, array)._asdict() for path, array in job.arrays]
    own = {"step": job.step, "ocdbt": job.ocdbt, "compression": job.compression}
    return {**own, "tree": job.node, "arrays": stored, "files": files}


def _stored(path: str, array: Any) -> Stored:
    shape = tuple(array.shape)
    dtype = array.dtype.newbyteorder("=")
    shard = array.sharding.shard_shape(shape) if isinstance(array, ShardedArray) else shape
    weak = isinstance(array, Array) and array.type.weak
    return Stored(path, SHORT_NAMES[dtype], shape, stores.chunk_shape(shard, dtype.itemsize), weak)


def _pieces(array: Any, rank: int) -> list[tuple[Any, Any]]:
    """The parts of an array that this process writes: where they are, and the array of each."""
    if isinstance(array, ShardedArray):
        return [(shard.index, shard.data) for shard in array.addressable_shards if shard.replica_id == 0]
    return [(tuple([slice(0, size) for size in array.shape]), array)] if rank == 0 else []


def _host(piece: Any, path: str) -> Any:
    """The values of a part, as this machine has numbers."""
    try:
        host = np.asarray(host_of(piece) if isinstance(piece, Array) else piece)
    except DonatedBufferError as error:
        error.args = (f"{path}: {error}",)
        raise
    return host if host.dtype.isnative else host.astype(host.dtype.newbyteorder("="))


def _write_arrays(job: _Job, partial: str) -> dict[str, Any]:
    """Write what this process has to write; what the manifest says of the files."""
    rank = world.process_index()
    rows = [(number, _stored(path, array), _pieces(array, rank)) for number, (path, array) in enumerate(job.arrays)]
    rows = [row for row in rows if row[2] or rank == 0]
    total = sum([int(np.prod(piece.shape)) * piece.dtype.itemsize for *_, pieces in rows for _, piece in pieces])
    with (
        progress_bar(f"step {job.step}", total, ("DownloadColumn", "TransferSpeedColumn"))
        if (job.progress and rank == 0)
        else contextlib.nullcontext(lambda more: None) as advance
    ):
        context = stores.tensorstore().Context()
        opened = [
            stores.open_array(context, partial, number, stored, job.ocdbt, job.compression, create=True)
            for number, stored, _ in rows
        ]
        writes = []
        try:
            for (_, stored, pieces), array in zip(rows, opened, strict=True):
                there = array.result()
                for place, piece in pieces:
                    host = _host(piece, stored.path)
                    if host.size:
                        writes.append((stores.write(there, place, host, stored.file_dtype), host.nbytes))
            for one, size in writes:
                one.result()
                advance(size)
        except ValueError as error:  # so tensorstore says that a disk is full
            raise CheckpointError(
                f"{partial} cannot be written: {error}. Make room there, or choose another directory."
            ) from error
        finally:  # files are deleted only when nothing is written any more
            for one in [*opened, *[one for one, _ in writes]]:
                one.exception()
    if job.ocdbt:
        found = [os.path.join(folder, name) for folder, _, files in os.walk(partial) for name in files]
        names = [os.path.relpath(path, partial).replace(os.sep, "/") for path in found]
        return {name: [os.path.getsize(path)] for name, path in zip(names, found) if name != versions.OWNER}
    names = [f"{number}/zarr.json" for number, *_ in rows] if rank == 0 else []
    for number, stored, pieces in rows:
        names += stores.chunk_files(number, stored, [place for place, _ in pieces])
    return {name: stores.mark_of(os.path.join(partial, name)) for name in names}
