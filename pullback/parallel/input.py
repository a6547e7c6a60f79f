"""Batches of rows, divided among devices, made in a thread while the program computes with those before."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import itertools
import queue
import threading
import weakref
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from typing import Any, Self

import numpy as np

from pullback.api.devices import device_put
from pullback.api.shardings import places_as_leaves
from pullback.core.array import Array, aligned_empty, host_of, scalar_kind
from pullback.core.brief import brief, counted
from pullback.core.dtypes import PYTHON_KINDS, canonical, default_dtype, entering
from pullback.core.errors import DtypeError, LeafError, ShapeError, ShardingError, StructureError
from pullback.core.shardings import Index, NamedSharding, PartitionSpec, as_sharding
from pullback.core.source import api_boundary
from pullback.core.trees import OWN_TREES, flatten, same, structure_paths, unflatten
from pullback.core.types import array_type
from pullback.engine.waiting import LISTENING
from pullback.parallel.arrays import make_array_from_callback

Rows = Any  # which rows of a source: a slice or an array of numbers


@api_boundary
def batches(
    source: Any,
    batch_size: int,
    *,
    sharding: Any = None,
    prefetch: int = 2,
    start: int = 0,
    seed: int | None = None,
    epochs: int | None = 1,
    remainder: str | None = None,
) -> Batches:
    """Batches of the rows of a source, made in the background.

    A batch with a given number is always the same: `start` goes on where a program was interrupted. Each process makes the
    parts of its own devices. Of arrays and sequences it reads only the rows of these; an iterable, which has to be the same in
    all processes, it goes through.

    Arguments:
        source: what the rows are in. A tree of arrays (NumPy's, memory maps, Arrays) in a dict, tuple or dataclass: the rows
            are along their first axes. A list, or any object with a length and items: each item is a row, a tree of arrays and
            numbers. Any other iterable of such rows.
        batch_size: how many rows a batch has, in all processes together.
        sharding: how batches lie: a sharding, a `PartitionSpec` inside `with mesh:`, or a tree of them that is a prefix of a
            batch. By default each process has the whole batch, on the default device.
        prefetch: how many batches are made ahead of time, in a thread; 0 for none, without a thread.
        start: the number of the first batch, counted through all epochs.
        seed: shuffle the rows of each epoch, by this seed and the number of the epoch; by default they stay in order.
        epochs: how often to go through the source; None for ever.
        remainder: what becomes of the last rows of an epoch if they are fewer than `batch_size`: "drop", or "keep" as a smaller
            batch. By default they are an error.

    Returns:
        An iterator of trees of Arrays, a `Batches`.

    Raises:
        ValueError: an argument is out of its range; rows are left over and nothing is said of them; there is not one batch.
        TypeError: `source` has no rows. LeafError, DtypeError: what is in one cannot be in an array.
        ShapeError, StructureError: rows are not alike, or arrays have different numbers of them.
        UnevenShard: a batch cannot be divided so.

    Example:
        >>> import numpy as np, pullback as pb
        >>> data = {"x": np.arange(10.0).reshape(5, 2), "y": np.arange(5)}
        >>> with pb.parallel.batches(data, 2, remainder="drop") as found:
        ...     [batch["y"].tolist() for batch in found]
        [[0, 1], [2, 3]]
    """
    least = {
        "batch_size": (batch_size, 1),
        "prefetch": (prefetch, 0),
        "start": (start, 0),
        "epochs": (epochs, 1),
        "seed": (seed, 0),
    }
    for name, (value, smallest) in least.items():
        if value is None and name in ("epochs", "seed"):
            continue
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < smallest:
            raise ValueError(f"batches' {name} is an integer of at least {smallest}, but got {brief(value)}.")
    if seed is not None and seed >= 1 << 64:
        raise ValueError(f"batches' seed has at most 64 bits, but got {seed}.")
    if remainder not in (None, "drop", "keep"):
        raise ValueError(f'batches\' remainder is "drop" or "keep", but got {brief(remainder)}.')
    plan = _Plan(int(batch_size), sharding, int(start), seed, epochs, remainder)
    table = _table(source)
    made = plan.from_stream(source) if table is None else plan.from_table(table)
    return Batches(made, int(start), int(prefetch))


class Batches:
    """An iterator of batches, as `batches` returns it. It can be closed, also by `with`; one that is dropped is closed.

    Attributes:
        step: the number of the next batch: what to pass to `batches` as `start`, to go on from here.

    Example:
        >>> import numpy as np, pullback as pb
        >>> found = pb.parallel.batches(np.arange(6), 2)
        >>> next(found).tolist(), found.step
        ([0, 1], 1)
        >>> found.close()
    """

    def __init__(self, made: Generator[Any, None, None], start: int, prefetch: int) -> None:
        self.step = start
        self._made = made
        self._over: BaseException | None = None
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        if prefetch:
            for _ in range(prefetch):
                self._free.put(_GO)
            stopped: list[bool] = []
            run = contextvars.copy_context().run  # modes are those of whoever asks for batches
            work = (_make_ahead, made, self._free, self._ready, stopped)
            self._thread = threading.Thread(target=run, args=work, name="batches", daemon=True)
            _threads.add(self._thread)
            self._stop = weakref.finalize(self, _stop, self._free, stopped)
            self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._over is not None:
            raise self._end(self._over)
        try:
            if self._thread is None:
                batch = next(self._made)
            else:
                batch, error = self._next()
                if error is not None:
                    raise error
                self._free.put(_GO)
        except BaseException as error:
            if self._thread is None or not isinstance(error, KeyboardInterrupt):  # one that comes while it waits loses nothing
                self._over = self._over or error
            raise
        self.step += 1
        return batch

    def _next(self) -> tuple[Any, BaseException | None]:
        """What the thread has made next. Ctrl-C is heard."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._ready.get(timeout=LISTENING)  # type: ignore[no-any-return]
            if self._over is not None:  # another thread has met the end, or closed these
                return None, self._end(self._over)

    def _end(self, over: BaseException) -> BaseException:
        """What is raised after the end."""
        if isinstance(over, StopIteration):
            return StopIteration()
        return RuntimeError(f"These batches ended with {brief(over)}. Make them again, with start={self.step}.")

    def close(self) -> None:
        """End, and wait for the thread, which ends when it has made the batch that it is making.

        Example:
            >>> import numpy as np, pullback as pb
            >>> found = pb.parallel.batches(np.arange(6), 2, epochs=None)
            >>> found.close()
            >>> list(found)
            []
        """
        if self._over is None:
            self._over = StopIteration()
        if self._thread is None:
            self._made.close()
            return
        self._stop()
        while self._thread.is_alive():
            self._thread.join(LISTENING)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_GO, _END = object(), object()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def _make_ahead(made: Generator[Any, None, None], free: Any, ready: Any, stopped: list[bool]) -> None:
    """Make a batch whenever there is room for one; what the thread does. It does not hold the `Batches`."""
    with contextlib.closing(made):
        while free.get() is _GO and not stopped:
            try:
                ready.put((next(made), None))
            except BaseException as error:  # StopIteration is one
                ready.put((None, error))
                return


def _stop(free: Any, stopped: list[bool]) -> None:
    stopped.append(True)
    free.put(_END)


@atexit.register
def _wait() -> None:
    """Let the threads end that have been told to, so that none computes while Python's memory is taken down."""
    for thread in list(_threads):
        thread.join(1.0)


# ---- which rows -------------------------------------------------------------------------------------------------------------


class _Plan:
    """Which rows are in which batch, and how batches lie."""

    def __init__(
        self, size: int, sharding: Any, start: int, seed: int | None, epochs: int | None, remainder: str | None
    ) -> None:
        self.size, self.start, self.seed, self.remainder = size, start, seed, remainder
        self.epochs: Iterable[int] = itertools.count() if epochs is None else range(epochs)
        self.repeats = epochs != 1
        # named here, since `with mesh:` holds in this thread
        self.sharding = None if sharding is None else places_as_leaves(sharding, "batches' sharding")
        self.shardings = [as_sharding(one, "batches' sharding") for one in flatten(self.sharding)[0]]
        self.check_divides(size)

    def check_divides(self, size: int) -> None:
        """Raise UnevenShard unless so many rows can be divided."""
        for one in self.shardings:
            try:
                _ranges(one, size)
            except ShardingError as error:
                error.args = (f"A batch of {size} rows: {error}",)
                raise

    def from_table(self, table: _Table) -> Generator[Any, None, None]:
        count, left = divmod(len(table), self.size)
        if left and self.remainder is None:
            raise ValueError(
                f"{counted(len(table), 'row')} are {counted(count, 'batch')} of {self.size}, and {left} are left over. Say"
                ' what becomes of them: remainder="drop" or remainder="keep".'
            )
        if left and self.remainder == "keep":
            self.check_divides(left)
            count += 1
        if count == 0:
            raise ValueError(
                f"{counted(len(table), 'row')} make no batch of {self.size}. Ask for smaller ones, or pass remainder='keep'."
            )
        return self._from_table(table, count)

    def _from_table(self, table: _Table, count: int) -> Generator[Any, None, None]:
        first, skipped = divmod(self.start, count)
        for epoch in itertools.islice(self.epochs, first, None):
            order = None if self.seed is None else self._order(len(table), epoch)
            for number in range(skipped, count):
                rows = slice(number * self.size, min((number + 1) * self.size, len(table)))
                yield self._batch(table, rows if order is None else order[rows], rows.stop - rows.start)
            skipped = 0

    def _order(self, length: int, epoch: int) -> Any:
        """The rows of an epoch, shuffled: by a generator that NumPy has frozen, so that it is the same everywhere."""
        seed = int(self.seed or 0)
        return np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, epoch]).permutation(length)

    def from_stream(self, source: Iterable[Any]) -> Generator[Any, None, None]:
        if self.seed is not None:
            raise ValueError("An iterable cannot be shuffled: pass a sequence or arrays, or no seed.")
        if self.repeats and iter(source) is source:
            raise ValueError("An iterator can be gone through once: pass an iterable that can be begun again, or epochs=1.")
        return self._from_stream(source)

    def _from_stream(self, source: Iterable[Any]) -> Generator[Any, None, None]:
        number = 0
        for epoch in self.epochs:
            before, rows = number, iter(source)
            while found := list(itertools.islice(rows, self.size)):
                if len(found) < self.size and self.remainder is None:
                    raise ValueError(
                        f"Epoch {epoch} ends with {counted(len(found), 'row')}, fewer than the {self.size} of a batch. Say"
                        " what becomes of"
                        ' them: remainder="drop" or remainder="keep".'
                    )
                if len(found) == self.size or self.remainder == "keep":
                    if number >= self.start:
                        yield self._batch(_Examples(found), slice(0, len(found)), len(found))
                    number += 1
            if number == before:
                raise ValueError(
                    f"Epoch {epoch} of the source has no batch of {counted(self.size, 'row')}. Ask for smaller ones, or pass"
                    " remainder='keep'."
                )

    def _batch(self, table: _Table, rows: Rows, size: int) -> Any:
        loaded: dict[tuple[int, int], tuple[list[Any], Any]] = {}

        def load(start: int, stop: int) -> tuple[list[Any], Any]:
            if (start, stop) not in loaded:
                here = slice(rows.start + start, rows.start + stop) if isinstance(rows, slice) else rows[start:stop]
                loaded[start, stop] = table.take(here)
            return loaded[start, stop]

        if not self.shardings:
            leaves, structure = load(0, size)
            return unflatten(structure, list(map(_own, leaves)))
        leaves, structure = load(*_ranges(self.shardings[0], size)[0])
        wanted = OWN_TREES.broadcast_prefix(self.sharding, unflatten(structure, leaves), "batches' sharding", "a batch")
        return unflatten(structure, [_put(load, i, size, one) for i, one in enumerate(wanted)])


def _ranges(sharding: Any, size: int) -> list[tuple[int, int]]:
    """The rows of a batch that devices of this process hold."""
    if not isinstance(sharding, NamedSharding):
        return [(0, size)]
    along = NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[:1]))
    found = list(along.addressable_devices_indices_map((size,)).values())
    if not found:
        raise ShardingError(
            f"No device of {sharding.mesh} belongs to this process. Make the mesh of devices of all processes that use it."
        )
    return [(place[0].start, place[0].stop) for place in found]


def _own(host: Any) -> Array:
    """An Array of memory that nobody else writes to."""
    return Array(array_type(host.shape, host.dtype), host)


def _put(load: Any, leaf: int, size: int, sharding: Any) -> Array:
    """An array of a batch, where it is to lie."""
    if not isinstance(sharding, NamedSharding):
        whole = _own(load(0, size)[0][leaf])
        return whole if sharding is None else device_put(whole, sharding)
    sample = load(*_ranges(sharding, size)[0])[0][leaf]

    def part(place: Index) -> Array:
        rows = load(place[0].start, place[0].stop)[0][leaf]
        return _own(np.ascontiguousarray(rows[(slice(None), *place[1:])]))

    return make_array_from_callback((size, *sample.shape[1:]), sharding, part, sample.dtype)


# ---- sources ----------------------------------------------------------------------------------------------------------------


class _Table:
    """Rows that can be taken in any order."""

    def __len__(self) -> int:
        raise NotImplementedError

    def take(self, rows: Rows) -> tuple[list[Any], Any]:
        """The leaves of some rows, stacked, in memory of their own, and the structure of a batch."""
        raise NotImplementedError


def _table(source: Any) -> _Table | None:
    """The rows of a source; None of an iterable, of which they come one after the other. Raises TypeError."""
    leaves, _ = flatten(source)
    is_leaf = len(leaves) == 1 and leaves[0] is source
    if isinstance(source, (np.ndarray, Array)) or not (is_leaf or isinstance(source, (list, deque)) or source is None):
        return _Columns(source)
    if hasattr(source, "__len__") and hasattr(source, "__getitem__") and not isinstance(source, (str, bytes)):
        return _Examples(source)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes)):
        return None
    raise TypeError(
        f"batches takes arrays, a sequence or an iterable of rows, but got {brief(source)} of type {type(source).__name__}."
    )


def _memory(shape: tuple[int, ...], dtype: Any, path: str) -> Any:
    try:
        return aligned_empty(shape, entering(canonical(dtype)))
    except DtypeError as error:
        raise DtypeError(f"{path} has the dtype {dtype}, which no array can have. Convert it (.astype).") from error


def _host(leaf: Any, path: str) -> Any:
    if isinstance(leaf, np.ma.MaskedArray):
        raise LeafError(f"{path} is a masked array, whose mask would be lost: fill it (.filled), or pass the mask besides.")
    return np.asarray(host_of(leaf) if isinstance(leaf, Array) else leaf)


class _Columns(_Table):
    """A tree of arrays, whose rows are along their first axes."""

    def __init__(self, source: Any) -> None:
        self.leaves, self.structure = flatten(source)
        self.paths = structure_paths(self.structure, "source")
        self.length = -1
        for leaf, path in zip(self.leaves, self.paths):
            if not isinstance(leaf, (np.ndarray, Array)):
                raise LeafError(
                    f"{path} is {brief(leaf)} of type {type(leaf).__name__}, and no array of rows. Pass arrays whose leading"
                    " axes count the rows."
                )
            if leaf.ndim == 0:
                raise ShapeError(f"{path} is 0-d: it has no rows. Give it a leading axis.")
            _memory((), leaf.dtype, path)
            if self.length not in (-1, leaf.shape[0]):
                raise ShapeError(f"{path} has {leaf.shape[0]} rows, but {self.paths[0]} has {self.length}.")
            self.length = leaf.shape[0]
        if not self.leaves:
            raise TypeError("batches got a source without arrays. Pass arrays whose leading axes count the rows.")

    def __len__(self) -> int:
        return self.length

    def take(self, rows: Rows) -> tuple[list[Any], Any]:
        taken = []
        for leaf, path in zip(self.leaves, self.paths):
            host = _host(leaf, path)
            rows_there = host[rows]  # of a slice, and of a memory map, only a view
            into = _memory(rows_there.shape, host.dtype, path)
            into[...] = rows_there
            taken.append(into)
        return taken, self.structure


class _Examples(_Table):
    """A sequence of rows, each a tree of arrays and numbers."""

    def __init__(self, source: Sequence[Any]) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: Rows) -> tuple[list[Any], Any]:
        numbers = range(rows.start, rows.stop) if isinstance(rows, slice) else rows.tolist()
        found = [flatten(self.source[number]) for number in numbers]
        structure = found[0][1]
        paths = structure_paths(structure, "a row")
        for number, (_, own) in zip(numbers, found):
            if not same(own, structure):
                raise StructureError(
                    f"Row {number} of the source is a tree of another structure than row {numbers[0]}. All rows must have one."
                )
        columns = zip(*[leaves for leaves, _ in found])
        return [_stacked(values, path, numbers) for values, path in zip(columns, paths)], structure


def _stacked(values: Sequence[Any], path: str, numbers: Sequence[int]) -> Any:
    """The values at one place of several rows, as an array."""
    hosts = []
    for value, number in zip(values, numbers):
        if isinstance(value, (np.ndarray, np.generic, Array)):
            hosts.append(_host(value, path))
        elif isinstance(value, tuple(PYTHON_KINDS)):
            hosts.append(np.asarray(value, default_dtype(scalar_kind(value))))  # type: ignore[arg-type]
        else:
            raise LeafError(
                f"{path}, of row {number}, is {brief(value)} of type {type(value).__name__}: neither array nor number."
            )
        if hosts[-1].shape != hosts[0].shape:
            raise ShapeError(f"{path} has the shape {hosts[-1].shape} in row {number}, but {hosts[0].shape} in {numbers[0]}.")
        if hosts[-1].dtype != hosts[0].dtype:
            raise DtypeError(f"{path} has the dtype {hosts[-1].dtype} in row {number}, but {hosts[0].dtype} in {numbers[0]}.")
    into = _memory((len(hosts), *hosts[0].shape), hosts[0].dtype, path)
    for i, host in enumerate(hosts):
        into[i] = host
    return into
