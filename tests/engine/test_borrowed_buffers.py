"""Small NumPy arguments go through borrowed buffers: nothing of one call is seen by another, or by its results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pullback as pb


def test_results_keep_what_they_were_given() -> None:
    f = pb.jit(lambda x: (x, x + 1.0, x[::-1]))
    given = np.zeros(4, np.float32)
    kept: list[Any] = []
    for i in range(6):
        given[:] = i
        kept.append(f(given))
    for i, (same, more, reversed_) in enumerate(kept):
        assert np.all(np.asarray(same) == i) and np.all(np.asarray(more) == i + 1) and np.all(np.asarray(reversed_) == i)


def test_calls_from_many_threads_do_not_meet() -> None:
    f = pb.jit(lambda x, y: x * 2.0 + y)
    f(np.zeros(4, np.float32), np.zeros(4, np.float32))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(500):
            x = np.full(4, seed * 1000 + i, np.float32)
            if not np.all(np.asarray(f(x, -x)) == x):
                wrong.append((seed, i))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))  # raises what a thread has raised
    assert not wrong


def test_strided_and_foreign_arrays() -> None:
    f = pb.jit(lambda x: x * 2.0)
    base = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    for view in (base[::2, ::-1], base.T[:2], np.asfortranarray(base[:2])):
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(f(view)), view * 2)


def test_a_call_inside_a_call_gets_memory_of_its_own() -> None:
    inner: list[Any] = []

    def f(x: Any) -> Any:
        pb.debug.callback(lambda value: inner.append(np.asarray(g(np.full(3, 7.0, np.float32)))), x)
        return x + 1.0

    g = pb.jit(lambda x: x * 3.0)
    jitted = pb.jit(f)
    for i in range(4):
        found = np.asarray(jitted(np.full(3, float(i), np.float32)))
        assert np.all(found == i + 1)
    assert np.all(np.stack(inner) == 21.0)


@pytest.mark.parametrize("count", [4, 10_000, 100_000, 3_000_000])
def test_what_a_callback_writes_into_an_argument_is_not_seen_by_the_call(count):
    def overwrite(_):
        given[:] = 7

    given = np.ones(count, np.float32)
    f = pb.jit(lambda x: (pb.io_callback(overwrite, None, x * 1.0), x * 2.0)[1])
    for _ in range(4):
        given[:] = 1
        found = f(given)
        assert given[0] == 7 and np.all(np.asarray(found) == 2)
