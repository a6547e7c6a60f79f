"""Processes that compute together: four of them, started by the launcher, with what they say to each other."""

import socket
import subprocess
import sys

import numpy as np
import pytest
from launching import environment, launch

import pullback as pb
from pullback.parallel.world import pack, unpack

FOUR = """
started = time.perf_counter()
d.initialize()
assert d.is_initialized() and (d.process_index(), d.process_count()) == (rank, 4)
assert list(map(str, pb.devices())) == [f"cpu({i})" for i in range(8)] and pb.device_count() == 8
assert [device.process_index for device in pb.devices()] == [0, 0, 1, 1, 2, 2, 3, 3]
own = pb.local_devices()
assert own == pb.devices()[2 * rank:][:2] and [device.is_local for device in pb.devices()].count(True) == 2
x = pb.numpy.arange(6.0).reshape(2, 3)
f = pb.jit(lambda x: x @ x.T + 1.0)
assert x.device == f(x).device == own[0], (x.device, f(x).device)
assert f(pb.device_put(x, own[1])).device == own[1]
np.testing.assert_allclose(f(x), np.array([[6.0, 15.0], [15.0, 51.0]]))
try:
    pb.device_put(x, pb.devices()[(2 * rank + 2) % 8])
except pb.errors.DeviceError as error:
    assert f"belongs to process {(rank + 1) % 4}, and this is process {rank}" in str(error), error
else:
    raise AssertionError("no error")
tree = {"a": np.arange(3) * rank, "b": [pb.numpy.ones((2, 2)) * rank, None], "c": (1.5 * rank, f"rank {rank}", b"", rank > 1)}
got = d.broadcast(tree, root=2)
assert got["c"] == (3.0, "rank 2", b"", True) and got["b"][1] is None and got["a"].tolist() == [0, 2, 4]
assert isinstance(got["b"][0], pb.Array) and got["b"][0].device == own[0] and float(got["b"][0].sum()) == 8.0
try:
    d.broadcast({"a": 1} if rank else {"b": 1})
except pb.errors.ProgramsDiffer as error:
    assert rank and "structure" in str(error)
else:
    assert rank == 0
if rank == 3:
    d.set_value("greeting", "hello")
assert d.get_value("greeting", timeout=None) == b"hello"
first = d.set_value("first", str(rank), overwrite=False)
d.barrier("set")
winner = d.get_value("first")
assert (first is None) == (winner == str(rank).encode()) and (first or winner) == winner
d.barrier("read")
assert rank or [d.delete_value("first") for _ in range(2)] == [True, False]
d.agree(("same", 0.1), "a pair")
try:
    d.agree(rank // 2, "halves")
except pb.errors.ProgramsDiffer as error:
    assert str(error) == "The processes differ in halves: rank 0 has 0; rank 1 has 0; rank 2 has 1; rank 3 has 1."
else:
    raise AssertionError("no error")
try:
    d.initialize()
except pb.errors.WorldError as error:
    assert "belongs to a world already" in str(error)
else:
    raise AssertionError("no error")
d.shutdown()
assert not d.is_initialized() and float(f(x)[0, 0]) == 6.0
print("done")
"""


def test_four_processes(tmp_path):
    found = launch(tmp_path, FOUR, 4, "--devices", "2")
    assert found.by_rank == {rank: ["done"] for rank in range(4)} and found.returncode == 0, found.stderr
    assert found.stderr == ""


BY_HAND = """
import sys, pullback as pb
pb.distributed.initialize(sys.argv[1], 2, int(sys.argv[2]), initialization_timeout=60)
pb.distributed.barrier()
print(pb.local_devices())
"""


def test_without_the_launcher_and_with_a_secret(tmp_path):
    file = tmp_path / "by_hand.py"
    file.write_text(BY_HAND)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    given = environment(PULLBACK_SECRET="sesame")
    line = [sys.executable, str(file), address]
    started = [subprocess.Popen([*line, str(rank)], env=given, stdout=-1, stderr=-1, text=True) for rank in (1, 0)]
    found = [one.communicate(timeout=100) for one in started]
    assert found == [("[cpu(1)]\n", ""), ("[cpu(0)]\n", "")]


LEFT = """
if rank == 1:
    pb.jit(lambda x: x @ x)(np.ones((4, 4)))
    try:
        d.initialize()
    except pb.errors.WorldError as error:
        print(error)
    sys.exit(3)
try:
    d.initialize(initialization_timeout=100)
except pb.errors.WorldError as error:
    print(error)
"""


def test_who_has_computed_already_cannot_join(tmp_path):
    found = launch(tmp_path, LEFT, 2, "--grace", "0.5")
    assert "has computed something by itself already" in found.by_rank[1][0] and found.returncode == 3


FAILS = """
d.initialize()
if rank == 1:
    raise KeyError("the batch")
try:
    d.barrier("epoch end")
except pb.errors.PeerLost as error:
    print(error.ranks, error)
"""


def test_who_fails_is_lost_with_the_reason(tmp_path):
    found = launch(tmp_path, FAILS, 3)
    assert found.returncode == 1 and "KeyError: 'the batch'" in found.stderr
    assert found.by_rank == {rank: ["(1,) Rank 1 is lost: its program ended with KeyError: 'the batch'."] for rank in (0, 2)}


EXITS = """
d.initialize()
def end():
    {}
if rank == 1:
    try:
        sys.exit(4)  # which nobody hears of, since it is caught
    except SystemExit:
        pass
    try:
        end()
    finally:
        print("ends")
try:
    d.barrier("epoch end")
except pb.errors.WorldError as error:
    print(error)
"""
EXIT = [
    ("sys.exit(3)", "Rank 1 is lost: its program ended with exit code 3.", 3),
    ("sys.exit('no data')", "Rank 1 is lost: its program ended with exit code 1.", 1),
    ("sys.exit()", "Rank 1 has finished, and will not come to barrier 'epoch end'.", 0),
]


@pytest.mark.parametrize("end, said, status", EXIT, ids=["code", "text", "nothing"])
def test_who_exits_is_lost_with_the_code(tmp_path, end, said, status):
    found = launch(tmp_path, EXITS.format(end), 2)
    assert found.by_rank == {0: [said], 1: ["ends"]} and found.returncode == status, found.stderr


CLEANS = """
def main():
    try:
        sys.exit(3)
    finally:
        pass
main()
"""
CATCHES = """
def main():
    try:
        sys.exit(3)
    except SystemExit:
        pass
main()
raise SystemExit
"""
THREAD = """
import threading
thread = threading.Thread(target=sys.exit, args=(3,))
thread.start()
thread.join()
raise SystemExit
"""
HOW = {
    "nothing around it": ("sys.exit(3)", "ended with exit code 3"),
    "a function that cleans up": (CLEANS, "ended with exit code 3"),
    "caught in a function": (CATCHES, "has finished"),
    "of a thread": (THREAD, "has finished"),
}


@pytest.mark.parametrize("how", HOW)
def test_an_exit_leaves_the_program_or_does_not(tmp_path, how):
    """Nothing in the program may make it an exit that others hear of but its being one."""
    ends, said = HOW[how]
    script = "d.initialize()\nif rank == 0:\n    try:\n        d.barrier()\n    except pb.errors.WorldError as error:\n"
    script += "        print(error)\n    raise SystemExit\n" + ends
    assert said in launch(tmp_path, script, 2).by_rank[0][0]


FORKS = """
import contextlib, pathlib
seen = pathlib.Path(__file__).with_name("seen")
d.initialize()
if rank and os.fork() == 0:
    try:
        d.barrier()
    except pb.errors.WorldError as error:
        print(error)
    while not seen.exists():
        time.sleep(0.01)
    os._exit(0)
if rank:
    d.get_value("go", timeout=None)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    d.barrier("early", timeout=0.5)
except TimeoutError as error:
    print(error)
d.set_value("go", "")
try:
    d.barrier()
except pb.errors.WorldError as error:
    print(error)
finally:
    seen.touch()
"""


def test_a_fork_has_no_part_in_the_world(tmp_path):
    """It can neither come to a barrier in the name of its parent, nor keep the others from seeing that this has ended."""
    found = launch(tmp_path, FORKS, 2, "--elastic")
    assert "is a fork of one of the world's" in found.by_rank[1][0], found.stderr
    assert "Rank 1 did not come to barrier 'early'" in found.by_rank[0][0] and "has ended" in found.by_rank[0][1]


def test_an_exit_that_is_caught_is_none(tmp_path):
    script = """
    d.initialize()
    try:
        sys.exit(3)
    except SystemExit:
        pass
    """
    found = launch(tmp_path, script, 2)
    assert found.returncode == 0 and found.stderr == ""


def test_who_has_left_is_not_waited_for(tmp_path):
    found = launch(tmp_path, "d.initialize()\nif rank: d.barrier('only some')", 2)
    assert found.returncode == 1 and "Rank 0 has finished, and will not come to barrier 'only some'" in found.stderr


def test_the_keeper_is_lost(tmp_path):
    script = """
    d.initialize()
    try:
        d.barrier()
        if rank == 0:
            os.kill(int(os.environ["PULLBACK_KEEPER"]), signal.SIGKILL)
        d.barrier("never")
    except pb.errors.PeerLost as error:
        print(error)
    time.sleep(0.3)
    print(float(pb.jit(lambda x: x + 1)(1.0)))
    """
    found = launch(tmp_path, script, 2)
    assert found.returncode == 0, found.stderr
    assert found.by_rank == {rank: ["The keeper of the world is lost: its connection has ended.", "2.0"] for rank in range(2)}


LEAVES = [True, False, 0, -(2**70), 0.1, float("inf"), 1 - 2j, "täxt", "", b"\x00", np.float32(0.1), np.bool_(True)]
ARRAYS = [np.arange(6).reshape(2, 3).T, np.zeros((0, 3), "f2"), np.array(3 + 1j), np.array(["a", "bc"]), np.array([b"x"])]
DTYPES = ["bool", "int4", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "complex64"]


@pytest.mark.parametrize("leaf", LEAVES, ids=repr)
def test_packed_numbers_and_text(leaf):
    what, data = pack(leaf)
    found = unpack(what.decode(), data)
    assert type(found) is type(leaf) and found == leaf


@pytest.mark.parametrize("leaf", ARRAYS, ids=lambda leaf: str(leaf.dtype) + str(leaf.shape))
def test_packed_numpy_arrays(leaf):
    what, data = pack(leaf)
    found = unpack(what.decode(), data)
    assert type(found) is np.ndarray and found.dtype == leaf.dtype and np.array_equal(found, leaf) and found.flags.writeable


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 2), (3,)], ids=str)
def test_packed_arrays(dtype, shape):
    with pb.default_bits(64):
        leaf = pb.numpy.ones(shape, dtype)
        what, data = pack(leaf)
        found = unpack(what.decode(), data)
    assert isinstance(found, pb.Array) and found.type == leaf.type and np.array_equal(found.view(), leaf.view())


@pytest.mark.parametrize("leaf", [object(), {1}, np.array([None])], ids=["object", "set", "objects"])
def test_what_cannot_be_packed(leaf):
    with pytest.raises(TypeError, match="broadcast"):
        pb.distributed.broadcast([leaf])


def test_alone():
    d = pb.distributed
    d.barrier()
    d.agree(1)
    d.check()
    d.shutdown()
    assert d.broadcast([1, "a"]) == [1, "a"] and (d.process_index(), d.process_count()) == (0, 1)
    with pytest.raises(ValueError, match="root is the number of a process, of 1, not 1"):
        d.broadcast(1, root=1)
    for call in (lambda: d.set_value("k", "v"), lambda: d.get_value("k"), lambda: d.delete_value("k"), d.elastic.reform):
        with pytest.raises(pb.errors.WorldError, match="This process is alone"):
            call()
