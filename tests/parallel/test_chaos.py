"""Training goes on through processes that are killed, stopped and delayed at random: nothing that was saved is lost, nothing
hangs, and the numbers are right."""

import json
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest
from launching import environment, launch

SCRIPT = pathlib.Path(__file__).with_name("chaos.py")
PROCESSES, STEPS = 3, 30
KINDS = ["kill", "stop", "delay", "delay", "pause"]  # two of three processes are lost


def trained(weights, x, steps):
    """The same training by NumPy alone, in float64."""
    first, second = [one.astype("float64") for one in weights]
    for _ in range(steps):
        hidden = np.tanh(x @ first)
        slope = 2.0 * (hidden @ second - x) / x.size
        first, second = first - 0.1 * x.T @ (slope @ second.T * (1.0 - hidden**2)), second - 0.1 * hidden.T @ slope
    return first, second


def run(folder, seed):
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    x = rng.normal(size=(48, 8)).astype("float32")
    weights = [rng.normal(size=(8, 16)).astype("float32"), rng.normal(size=(16, 8)).astype("float32")]
    np.save(folder / "x.npy", x)
    np.savez(folder / "checkpoint.npz", *weights, step=0)
    kinds = choose.sample(KINDS, len(KINDS))
    events = [(5 * i + choose.randrange(1, 5), choose.randrange(12), kind) for i, kind in enumerate(kinds)]
    (folder / "events.json").write_text(json.dumps(events))
    line = [sys.executable, "-m", "pullback.launch", "-n", str(PROCESSES), "--elastic", "--heartbeat", "1.5"]
    found = subprocess.run(
        [*line, str(SCRIPT), str(folder), str(STEPS)], env=environment(), capture_output=True, text=True, timeout=200
    )
    said = f"seed {seed}, {events}\n{found.stdout}\n{found.stderr}"
    lines = [line.partition("] ")[2].split() for line in found.stdout.splitlines()]
    assert found.returncode == 0, said
    assert sum(line[0] == "event" for line in lines) == len(KINDS), said
    assert "finished" in [line[0] for line in lines], said
    saved = 0
    for line in lines:
        if line[0] == "saved":
            saved = max(saved, int(line[1]))
        elif line[0] == "from":
            assert int(line[1]) >= saved and int(line[1]) % 5 == 0, said
    with np.load(folder / "end.npz") as end:
        for one, other in zip((end["arr_0"], end["arr_1"]), trained(weights, x.astype("float64"), STEPS)):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=said)


def test_five_faults(tmp_path):
    run(tmp_path, 1)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100, 110))
def test_fifty_faults(tmp_path, seed):
    run(tmp_path, seed)


STOPS = """
d.initialize()
d.elastic.stop_on_signal(signal.SIGTERM)
f = pb.jit(lambda x: x + 1.0)
mesh = pb.make_mesh((3,), ("data",))
x = pb.device_put(np.zeros(3, "float32"), pb.NamedSharding(mesh, pb.P("data")))
total = pb.jit(lambda x: (x + 1.0, (x + 1.0).sum()))
for step in range(100_000):
    if d.elastic.should_stop(step):
        print("stops before", step, float(x.addressable_shards[0].data[0]))
        break
    if step == 20 and rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    if rank == 2:
        time.sleep(0.001)
    x, sum = total(x)
    if step % 7 == rank:
        float(sum)
"""


def test_all_stop_before_one_step(tmp_path):
    found = launch(tmp_path, STOPS, 3)
    assert found.returncode == 0, found.stderr
    said = {lines[-1] for lines in found.by_rank.values()}
    assert len(found.by_rank) == 3 and len(said) == 1, found.by_rank
    _, _, step, value = said.pop().split()
    assert int(step) > 20 and float(value) == int(step), "each step was done once by all"
