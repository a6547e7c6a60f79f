"""Batches against slices of the source: in order, shuffled, resumed; threads, errors and Ctrl-C."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from processes import run

import pullback as pb
import pullback.numpy as pnp

batches = pb.parallel.batches


class Row(NamedTuple):
    x: Any
    y: Any


X = np.arange(36.0, dtype="f4").reshape(12, 3)
COLUMNS = {"x": X, "y": np.arange(12)}
ROWS = [Row(X[i], i) for i in range(12)]


class Items:
    """A data set as other libraries have them."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, number: int) -> Row:
        return ROWS[number]


class Again:
    """An iterable that is no sequence."""

    def __iter__(self) -> Iterator[Row]:
        return iter(ROWS)


def memory_map(directory: pathlib.Path) -> Any:
    X.tofile(directory / "x")
    return {"x": np.memmap(directory / "x", "f4", "r", shape=X.shape), "y": np.arange(12)}


SOURCES: dict[str, Any] = {
    "arrays": COLUMNS, "tuple": (X, np.arange(12)), "named": Row(pnp.asarray(X), pnp.arange(12)), "rows": ROWS,
    "items": Items(), "iterable": Again(), "generator": None, "map": None,
}  # fmt: skip


def source(name: str, directory: pathlib.Path) -> Any:
    return memory_map(directory) if name == "map" else (row for row in ROWS) if name == "generator" else SOURCES[name]


def pair(batch: Any) -> tuple[Any, Any]:
    return tuple(np.asarray(leaf) for leaf in pb.tree.leaves(batch))  # type: ignore[return-value]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
@pytest.mark.parametrize("name", SOURCES)
def test_rows_in_order(tmp_path: pathlib.Path, name: str, prefetch: int) -> None:
    found = batches(source(name, tmp_path), 4, prefetch=prefetch)
    for number, batch in enumerate(found):
        assert found.step == number + 1
        x, y = pair(batch)
        np.testing.assert_array_equal(x, X[number * 4 : number * 4 + 4])
        np.testing.assert_array_equal(y, np.arange(number * 4, number * 4 + 4))
        assert x.dtype == np.float32 and all(isinstance(leaf, pb.Array) for leaf in pb.tree.leaves(batch))
    assert found.step == 3 and list(found) == []


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("size, remainder, sizes", [(5, "drop", [5, 5]), (5, "keep", [5, 5, 2]), (4, "keep", [4, 4, 4])])
def test_what_is_left_over(tmp_path: pathlib.Path, name: str, size: int, remainder: str, sizes: list[int]) -> None:
    found = [len(pair(batch)[0]) for batch in batches(source(name, tmp_path), size, remainder=remainder)]
    assert found == sizes
    with pytest.raises(ValueError, match="remainder="):
        list(batches(source(name, tmp_path), 5))


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "generator"])
@pytest.mark.parametrize("seed", [None, 0, 2**63])
@pytest.mark.parametrize("remainder", ["drop", "keep"])
def test_resumed_anywhere(tmp_path: pathlib.Path, name: str, seed: int | None, remainder: str) -> None:
    if name == "iterable" and seed is not None:
        with pytest.raises(ValueError, match="shuffled"):
            batches(source(name, tmp_path), 5, seed=seed)
        return
    options: dict[str, Any] = {"seed": seed, "remainder": remainder, "epochs": 3}
    whole = [pair(batch) for batch in batches(source(name, tmp_path), 5, **options)]
    assert len(whole) == (6 if remainder == "drop" else 9)
    for start in range(len(whole) + 2):
        again = [pair(batch) for batch in batches(source(name, tmp_path), 5, start=start, prefetch=start % 3, **options)]
        assert len(again) == max(len(whole) - start, 0)
        for one, two in zip(again, whole[start:]):
            for a, b in zip(one, two):
                np.testing.assert_array_equal(a, b)
    if remainder == "keep":
        for epoch in range(3):
            rows = np.concatenate([y for _, y in whole[3 * epoch : 3 * epoch + 3]])
            assert sorted(rows) == list(range(12)) and (seed is None) == (list(rows) == list(range(12)))
        assert seed is None or not np.array_equal(whole[0][1], whole[3][1]), "each epoch has an order of its own"
    for x, y in whole:
        np.testing.assert_array_equal(x, X[y])


def test_the_order_of_a_seed_never_changes() -> None:
    """Programs are resumed with other versions of NumPy, too."""
    (batch,) = batches(np.arange(10), 10, seed=7)
    assert batch.tolist() == [1, 7, 5, 2, 6, 0, 4, 3, 9, 8]


@pytest.mark.parametrize("name", ["bool", "int64", "float64", "complex64", "bfloat16", "float8_e5m2", "int4"])
def test_dtypes_and_memory(name: str) -> None:
    values = (np.arange(8) % 2).astype(np.dtype(getattr(ml_dtypes, name, None) or name)).reshape(4, 2)
    kept = values.copy()
    found = batches(values, 2, prefetch=0)
    first = next(found)
    assert first.dtype == values.dtype
    values[...] = 0
    assert np.asarray(first).tobytes() == kept[:2].tobytes(), "batches have memory of their own"


def test_rows_of_numbers_and_nothing() -> None:
    (batch,) = batches([{"n": i, "f": i / 2, "b": i > 1, "none": None, "z": np.zeros(0)} for i in range(3)], 3)
    assert (
        str(pb.tree.map(lambda leaf: leaf.type, batch))
        == "{'n': i32[3], 'f': f32[3], 'b': bool[3], 'none': None, 'z': f64[3,0]}"
    )
    keys = pb.random.split(pb.random.key(0), 4)
    (found,) = batches({"k": keys}, 4)
    np.testing.assert_array_equal(pb.random.key_data(found["k"]), pb.random.key_data(keys))
    with pb.default_bits(64):
        found = batches([1, 2], 2)
    assert next(found).dtype == np.int64, "the mode is that of the caller"


WRONG: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (X, {"batch_size": 0}, ValueError, "batch_size"),
    (X, {"batch_size": 2.0}, ValueError, "batch_size"),
    (X, {"prefetch": -1}, ValueError, "prefetch"),
    (X, {"start": -1}, ValueError, "start"),
    (X, {"epochs": 0}, ValueError, "epochs"),
    (X, {"seed": -1}, ValueError, "seed"),
    (X, {"seed": 2**64}, ValueError, "seed"),
    (X, {"remainder": "pad"}, ValueError, "remainder"),
    (X, {"batch_size": 24, "remainder": "drop"}, ValueError, "12 rows make no batch of 24"),
    (X[:0], {}, ValueError, "0 rows"),
    ([], {}, ValueError, "0 rows"),
    (iter([]), {}, ValueError, "no batch"),
    (iter([]), {"epochs": 2}, ValueError, "gone through once"),
    ((), {"epochs": None}, TypeError, "without arrays"),
    ({"x": X, "y": np.arange(11)}, {}, pb.errors.ShapeError, r"source\['y'\] has 11 rows, but source\['x'\] has 12"),
    ({"x": X, "y": np.array(1)}, {}, pb.errors.ShapeError, r"source\['y'\] is 0-d"),
    ({"x": X, "y": 3}, {}, pb.errors.LeafError, r"source\['y'\]"),
    ({"x": np.array(["a"])}, {}, pb.errors.DtypeError, r"source\['x'\]"),
    (3, {}, TypeError, "iterable"),
    ("text", {}, TypeError, "iterable"),
    (None, {}, TypeError, "iterable"),
    ([np.zeros(2), np.zeros(3)], {}, pb.errors.ShapeError, "in row 1"),
    ([np.zeros(2), np.zeros(2, int)], {}, pb.errors.DtypeError, "in row 1"),
    ([(1,), (1, 2)], {}, pb.errors.StructureError, "Row 1"),
    (["a", "b"], {}, pb.errors.LeafError, "of row 0"),
]  # fmt: skip


@pytest.mark.parametrize("prefetch", [0, 2])
def test_errors(prefetch: int) -> None:
    for given, options, error, message in WRONG:
        with pytest.raises(error, match=message):
            list(batches(given, **{"batch_size": 2, "prefetch": prefetch, **options}))


def failing() -> Iterator[int]:
    yield from range(4)
    raise OSError("disk")


@pytest.mark.parametrize("prefetch", [0, 2])
def test_errors_of_the_source_come_out_in_their_place(prefetch: int) -> None:
    found = batches(failing(), 2, prefetch=prefetch)
    assert [next(found).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(OSError, match="disk"):
        next(found)
    with pytest.raises(RuntimeError, match=r"disk.*start=2"):
        next(found)
    assert found.step == 2


def ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "batches"]


def test_the_thread_ends_when_batches_are_closed_dropped_or_done() -> None:
    closed: list[str] = []

    def rows(name: str) -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(name)

    found = batches(rows("closed"), 2)
    next(found)
    found.close()
    found.close()
    assert closed == ["closed"] and not ours() and list(found) == []
    with batches(rows("with"), 2) as found:
        next(found)
    assert closed[-1] == "with" and not ours()
    found = batches(rows("dropped"), 2)
    next(found)
    (thread,) = ours()
    del found
    gc.collect()
    thread.join(60)
    assert closed[-1] == "dropped" and not ours()
    assert len(list(batches(range(4), 2, prefetch=5))) == 2
    for thread in ours():
        thread.join(60)
    assert not ours()


def test_ahead_by_no_more_than_it_may_be() -> None:
    taken: list[int] = []
    reached = threading.Event()

    def rows() -> Iterator[int]:
        for i in range(100):
            taken.append(i)
            if i == 5:
                reached.set()
            yield i

    with batches(rows(), 2, prefetch=2) as found:
        next(found)
        assert reached.wait(60)
        assert len(taken) <= 7
    assert len(taken) <= 8


@pytest.mark.skipif(os.name != "posix", reason="signals to threads")
def test_a_ctrl_c_comes_out_and_loses_no_batch() -> None:
    taken, go = threading.Event(), threading.Event()

    def rows() -> Iterator[int]:
        yield from range(2)
        taken.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        go.wait()
        yield from range(2, 4)

    found = batches(rows(), 2)
    seen = [next(found).tolist()]
    with pytest.raises(KeyboardInterrupt):
        taken.set()
        next(found)
    go.set()
    seen += [batch.tolist() for batch in found]
    assert seen == [[0, 1], [2, 3]]


def test_the_process_ends_while_batches_are_made() -> None:
    done = run("import numpy as np, pullback as pb\nfound = pb.parallel.batches(np.arange(9), 3, epochs=None)\nnext(found)")
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize(
    "source", [np.ma.array([1, 2], mask=[0, 1]), [np.ma.array([1, 2], mask=[0, 1])] * 2], ids=["array", "rows"]
)
def test_masks_are_not_lost(source: Any) -> None:
    with pytest.raises(pb.errors.LeafError, match="is a masked array"):
        list(pb.parallel.batches(source, 2, prefetch=0))


@pytest.mark.parametrize("closes", [False, True])
def test_all_threads_that_share_an_iterator_end(closes: bool) -> None:
    go_on, found = threading.Event(), []

    def rows() -> Iterator[int]:
        yield from range(4)
        go_on.wait()

    shared = pb.parallel.batches(rows(), 2)

    def take() -> None:
        found.extend([batch.tolist() for batch in shared])

    threads = [threading.Thread(target=take, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    if closes:
        threading.Timer(0.2, go_on.set).start()
        shared.close()
    go_on.set()
    for thread in threads:
        thread.join(20)
    assert not any([thread.is_alive() for thread in threads])
    assert closes or sorted(found) == [[0, 1], [2, 3]]
