"""Arrays over the devices of several processes, against what one process computes: see spanning.py."""

import pathlib
import subprocess
import sys

import pytest
from launching import environment, launch

SCRIPT = pathlib.Path(__file__).with_name("spanning.py")


@pytest.mark.parametrize("count, devices", [(2, 2), (4, 1)])
def test_arrays_and_programs_over_processes(count, devices):
    line = [sys.executable, "-m", "pullback.launch", "-n", str(count), "--devices", str(devices), str(SCRIPT)]
    found = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=200)
    assert sorted(found.stderr.splitlines()) == [f"[{rank}] right" for rank in range(count)] and found.returncode == 0


DIFFERING = pathlib.Path(__file__).with_name("differing.py")


@pytest.mark.parametrize("count", [2, 4])
def test_programs_that_differ_and_processes_that_do_not_come(count):
    line = [sys.executable, "-m", "pullback.launch", "-n", str(count), str(DIFFERING)]
    found = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=200)
    lines = sorted(found.stderr.splitlines())
    waits = [line for line in lines if "waits for 0 s to run sum" in line and "differing.py" in line]
    assert {line[:12] for line in waits} == {f"[{rank}] pullback" for rank in range(1, count)}, lines
    assert [line for line in lines if line not in waits] == [f"[{rank}] right" for rank in range(count)]
    assert found.stdout.count("late") == count - 1 and found.returncode == 0


AT_THE_END = """
d.initialize()
mesh = pb.make_mesh((2,), ("data",))
x = pb.device_put(np.ones(4, "float32"), pb.NamedSharding(mesh, pb.P("data")))
twice, thrice = [pb.jit(lambda x, k=k: k * x) for k in (2.0, 3.0)]
twice(x), thrice(x)
(twice, thrice)[rank](x)  # nothing follows in which they would see it
if rank:
    twice(x)
"""


def test_what_differs_last_is_told_at_the_end(tmp_path):
    found = launch(tmp_path, AT_THE_END, 2)
    for rank in range(2):
        assert f"[{rank}] pullback: at the end of process {rank}: The processes differ in the program" in found.stderr
    assert found.stderr.count("rank 0 has <lambda>: (f32[4]@(data))") == 2


WAITS = """
import subprocess, threading
d.initialize()
whole = pb.NamedSharding(pb.make_mesh((2,), ("data",)), pb.P())
x = pb.device_put(np.ones(2, "float32"), pb.NamedSharding(pb.make_mesh((2,), ("data",)), pb.P("data")))
f = pb.jit(lambda x: x.sum(), out_shardings=whole)  # so short that XLA would run it in the thread that calls it
assert float(f(x)) == 2.0
if rank == 0:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        float(f(x))
    except KeyboardInterrupt:
        print("heard")
    d.set_value("heard", "")
else:
    d.get_value("heard", timeout=None)
    assert float(f(x)) == 2.0  # with what the other one began
d.barrier()
if rank == 1:
    wake = f"sleep 2.5; kill -CONT {os.getpid()}"
    subprocess.Popen(["sh", "-c", wake], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    os.kill(os.getpid(), signal.SIGSTOP)
try:
    print(float(f(x + 1.0)))
except pb.errors.PeerLost as error:
    print("lost", error.ranks, float(np.asarray(x.addressable_shards[0].data)[0]))
except pb.errors.Fenced:
    print("fenced")

"""


def test_who_waits_for_others_hears_of_ctrl_c_and_of_losses(tmp_path):
    found = launch(tmp_path, WAITS, 2, "--heartbeat", "1")
    lines = {rank: [line for line in lines if "Gloo" not in line] for rank, lines in found.by_rank.items()}
    assert lines == {0: ["heard", "lost (1,) 1.0"], 1: ["fenced"]} and found.returncode == 0, found.stderr


CALLS = """
d.initialize()
mesh = pb.make_mesh((4,), ("x",))
x = pb.make_array_from_callback((4,), pb.NamedSharding(mesh, pb.P("x")), lambda index: np.ones(4, "f4")[index])

def fails(x):
    raise ValueError("not today")

def says(x):
    time.sleep(0.3)
    print("said", x)

def effect(x):
    pb.debug.callback(fails, x.sum())

def both(x):
    pb.debug.callback(fails, x.sum())
    return 2 * x

value = lambda x: pb.pure_callback(fails, pb.ArrayType((4,), "float32"), x) + x.sum()

@pb.shard_map(mesh=mesh, in_specs=pb.P("x"), out_specs=pb.P("x"))
def shards(x):
    pb.debug.callback(lambda x: x[5], x)
    return x

for f in (value, effect, both, shards):
    try:
        pb.jit(f)(x)
    except Exception as error:
        print(type(error).__name__, str(error).partition(". At ")[0][-60:])
print(float(pb.jit(pb.numpy.sum)(x)))
pb.jit(lambda x: pb.debug.callback(says, x.sum()))(x)
"""


def test_python_functions_that_fail_are_heard_of_everywhere(tmp_path):
    """None of the processes waits for ever, nor computes with what was made up; and what has no result is waited for."""
    found = launch(tmp_path, CALLS, 2, "--devices", "2")
    assert found.returncode == 0, found.stderr
    own, other = found.by_rank[0], found.by_rank[1]
    own, other = ([line for line in lines if "Gloo" not in line and "peer ranks" not in line] for lines in (own, other))
    assert own[:3] == ["ValueError not today"] * 3 and own[-2:] == ["4.0", "said 4.0"]
    assert other[:3] == ["WorldError failed on rank 0: ValueError: not today. See the error there"] * 3
    assert other[-1] == "4.0"
    assert own[3].startswith("IndexError") and other[3].startswith("IndexError")
