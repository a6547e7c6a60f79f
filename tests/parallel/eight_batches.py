"""Batches that are divided among eight devices."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import P

LINE = pb.make_mesh((8,), ("x",))
GRID = pb.make_mesh((2, 4), ("data", "model"))
DATA = {"x": np.arange(48 * 4.0, dtype="f4").reshape(48, 4), "y": np.arange(48)}


class Counting:
    """Rows that count how often each is read."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __len__(self) -> int:
        return 48

    def __getitem__(self, number: int) -> Any:
        self.read.append(number)
        return {name: column[number] for name, column in DATA.items()}


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize(
    "spec", [P("data"), P(("model", "data")), P(), {"x": P("data", "model"), "y": P()}, {"x": P("data"), "y": None}]
)
def test_divided_batches_have_the_values_of_whole_ones(spec: Any, rows: bool, seed: int | None) -> None:
    source: Any = Counting() if rows else DATA
    whole = list(pb.parallel.batches(DATA, 16, seed=seed))
    with GRID:
        found = pb.parallel.batches(source, 16, sharding=spec, seed=seed)  # the thread is not in the block
    for one, two in zip(found, whole, strict=True):
        for name in DATA:
            own = spec[name] if isinstance(spec, dict) else spec
            np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(two[name]))
            if own is None:
                assert not one[name].committed
            else:
                assert one[name].sharding is pb.NamedSharding(GRID, own)
    if rows and spec == P("data"):
        assert sorted(source.read) == list(range(48)), "each row is read once, though four devices hold it"


def test_batches_that_cannot_be_divided() -> None:
    sharding = pb.NamedSharding(LINE, P("x"))
    with pytest.raises(pb.errors.UnevenShard):
        pb.parallel.batches(DATA, 12, sharding=sharding)
    with pytest.raises(pb.errors.UnevenShard):
        pb.parallel.batches({"x": np.zeros((20, 2))}, 16, sharding=sharding, remainder="keep")
    (found,) = pb.parallel.batches({"x": np.zeros((20, 2))}, 16, sharding=sharding, remainder="drop")
    assert found["x"].shape == (16, 2)
    with pytest.raises(pb.errors.UnevenShard):
        list(pb.parallel.batches((row for row in np.zeros((20, 2))), 16, sharding=sharding, remainder="keep"))
    with pytest.raises(pb.errors.StructureError, match="batches' sharding"):
        list(pb.parallel.batches(DATA, 16, sharding={"x": sharding}))


def test_training_on_divided_batches() -> None:
    step = pb.jit(lambda w, batch: w - 1e-4 * pb.grad(lambda w: ((batch["x"] @ w - batch["y"]) ** 2).mean())(w))
    ends = []
    for sharding in (None, pb.NamedSharding(LINE, P("x"))):
        w: Any = np.zeros(4, "f4")
        if sharding is not None:
            w = pb.device_put(w, pb.NamedSharding(LINE, P()))
        for batch in pb.parallel.batches(DATA, 16, sharding=sharding, epochs=2, seed=0):
            w = step(w, batch)
        ends.append(np.asarray(w))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-5)
    assert not [thread for thread in threading.enumerate() if thread.name == "batches" and thread.join(60)]
