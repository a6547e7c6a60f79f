"""Checkpoints and batches of several processes, restored by another number of them, against the values that were saved."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest
from launching import launch

import pullback as pb

pytest.importorskip("tensorstore")

VALUES = np.random.default_rng(0).normal(size=(16, 24)).astype("f4")

SETUP = """
d.initialize()
count = d.process_count()
mesh = pb.make_mesh((len(pb.devices()),), ("x",))
rows, columns, whole = [pb.NamedSharding(mesh, spec) for spec in (pb.P("x"), pb.P(None, "x"), pb.P())]
values = np.random.default_rng(0).normal(size=(16, 24)).astype("f4")

def same(array, values):
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(shard.data, values[shard.index])

def check(directory):
    for sharding in (rows, columns, whole):
        found = pb.checkpoint.restore(directory, shardings={"x": [sharding] * 3, "step": None, "y": None})
        for one in found["x"]:
            assert one.sharding is sharding
            same(one, values)
        assert found["step"] == 7 and found["y"].tolist() == [0, 1, 2]
"""

SAVES = """
directory = os.environ["CHECKPOINTS"]
tree = {"x": [pb.make_array_from_callback(values.shape, one, lambda index: values[index]) for one in (rows, columns, whole)]}
tree |= {"step": 7, "y": np.arange(3)}
assert pb.checkpoint.save(directory, tree, step=1).endswith("00000001")
check(directory)
pending = [pb.checkpoint.save_async(directory, tree, step=step, keep=2) for step in (2, 3, 4)]
[one.result() for one in pending]
d.barrier("saved")
assert pb.checkpoint.steps(directory) == [3, 4]

import pullback.checkpoints.saving as saving
write = saving._write_arrays
def fails(*args):
    raise OSError("no space")
if rank == 1:
    saving._write_arrays = fails
try:
    pb.checkpoint.save(directory, tree, step=5)
except Exception as error:
    print(type(error).__name__, "no space" in str(error))
saving._write_arrays = write
try:
    pb.checkpoint.save(directory, tree, step=4)
except pb.errors.CheckpointError as error:
    print("already" in str(error) or "has not begun" in str(error))
try:
    pb.checkpoint.save(directory, tree, step=5, ocdbt=True)
except NotImplementedError as error:
    print("database")
pb.checkpoint.save(directory, tree, step=6, overwrite=True)
data = {"x": np.arange(64.0).reshape(32, 2)}
taken = list(pb.parallel.batches(data, 16, sharding=rows, seed=3))
for one, two in zip(taken, pb.parallel.batches(data, 16, seed=3), strict=True):
    same(one["x"], np.asarray(two["x"]))
print("right")
"""


def test_processes_save_and_others_restore(tmp_path: pathlib.Path) -> None:
    directory = tmp_path / "checkpoints"
    environment = {"CHECKPOINTS": str(directory), "PULLBACK_CPU_DEVICES": "2"}
    found = launch(tmp_path, SETUP + SAVES, 2, "--devices", "2", **environment)
    assert found.returncode == 0, found.stderr
    assert found.by_rank == {
        0: ["CheckpointError True", "True", "database", "right"],
        1: ["OSError True", "True", "database", "right"],
    }, found.stderr
    assert sorted(os.listdir(directory)) == ["00000003", "00000004", "00000006"]
    tree = pb.checkpoint.restore(directory)
    for one in tree["x"]:
        np.testing.assert_array_equal(np.asarray(one), VALUES)
    version = directory / "00000006"
    for number, parts in enumerate((4, 4, 1)):
        assert len(list((version / str(number)).glob("c*"))) == parts
    again = launch(tmp_path, SETUP + 'check(os.environ["CHECKPOINTS"])\nprint("right")', 4, "--devices", "1", **environment)
    assert again.by_rank == {rank: ["right"] for rank in range(4)}, again.stderr


KILLED = """
import pullback.checkpoints.saving as saving
directory = os.environ["CHECKPOINTS"]
tree = {"x": pb.make_array_from_callback(values.shape, rows, lambda index: values[index])}
pb.checkpoint.save(directory, tree, step=1)
write = saving._write_arrays
def dies(*args):
    write(*args)
    os.kill(os.getpid(), signal.SIGKILL)
if rank == 1:
    saving._write_arrays = dies
try:
    pb.checkpoint.save(directory, tree, step=2)
except pb.errors.PeerLost as error:
    print("lost", error.ranks, pb.checkpoint.steps(directory))
"""


def test_a_process_that_is_killed_while_it_saves(tmp_path: pathlib.Path) -> None:
    directory = tmp_path / "checkpoints"
    found = launch(tmp_path, SETUP + KILLED, 2, CHECKPOINTS=str(directory))
    assert found.by_rank == {0: ["lost (1,) [1]"]}, found.stderr
    np.testing.assert_array_equal(np.asarray(pb.checkpoint.restore(directory)["x"]), VALUES)
    pb.checkpoint.save(directory, 0, step=2)
    assert sorted(os.listdir(directory)) == ["00000001", "00000002"]


BEGUN_AGAIN = """
d.initialize()
directory = os.environ["CHECKPOINTS"]
if d.elastic.epoch() == 0:
    import threading
    from pullback.checkpoints import versions
    begin, asked = versions.begin, threading.Event()
    enumerate_ = threading.enumerate
    threading.enumerate = lambda: [asked.set(), enumerate_()][1]  # the save goes on when the world is to be formed anew
    versions.begin = lambda *args: asked.wait(20.0) and begin(*args)
    pb.checkpoint.save_async(directory, {"x": np.arange(4)}, step=3)
    d.elastic.reform()
print(d.elastic.epoch(), pb.checkpoint.steps(directory))
"""


def test_what_is_being_saved_when_the_world_is_formed_anew(tmp_path: pathlib.Path) -> None:
    found = launch(tmp_path, BEGUN_AGAIN, 2, CHECKPOINTS=str(tmp_path / "checkpoints"))
    assert found.by_rank == {0: ["1 [3]"], 1: ["1 [3]"]}, found.stderr
