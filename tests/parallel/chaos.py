"""Training through faults: whoever is named by an event kills, stops or delays itself, and the rest goes on.

The launcher runs it. Arguments: the folder of checkpoints and events, the number of steps.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np

import pullback as pb
import pullback.numpy as pnp

HEARTBEAT, WAKES_AFTER, SHORT = 1.5, 3.0, 0.2  # seconds
folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
checkpoint = folder / "checkpoint.npz"
d = pb.distributed


def happen(step, rank, count):
    """The event of this step, if it is this process's, once."""
    for number, (at, who, kind) in enumerate(json.loads((folder / "events.json").read_text())):
        if at == step and who % count == rank:
            try:
                (folder / f"event{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            print("event", kind, flush=True)
            if kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif kind == "delay":
                time.sleep(SHORT)
            else:
                wake = f"sleep {WAKES_AFTER if kind == 'stop' else SHORT}; kill -CONT {os.getpid()}"
                subprocess.Popen(
                    ["sh", "-c", wake], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
                )
                os.kill(os.getpid(), signal.SIGSTOP)


def save(step, weights):
    d.check()  # who was stopped, and wakes, writes nothing
    made = folder / f"epoch{d.elastic.epoch()}.npz"
    with open(made, "wb") as file:
        np.savez(file, *[np.asarray(one) for one in weights], step=step)
    made.replace(checkpoint)
    print("saved", step, flush=True)


def loss(weights, x):
    return pnp.mean((pnp.tanh(x @ weights[0]) @ weights[1] - x) ** 2)


def step(weights, x):
    value, slopes = pb.value_and_grad(loss)(weights, x)
    return value, [one - 0.1 * slope for one, slope in zip(weights, slopes)]


def train():
    rank, count = d.process_index(), d.process_count()
    with np.load(checkpoint) as kept:
        start, first = int(kept["step"]), [kept["arr_0"], kept["arr_1"]]
    x = np.load(folder / "x.npy")
    print("from", start, "of", count, flush=True)
    mesh = pb.make_mesh((count,), ("data",))
    rows, whole = pb.NamedSharding(mesh, pb.P("data")), pb.NamedSharding(mesh, pb.P())
    own = slice(rank * len(x) // count, (rank + 1) * len(x) // count)
    batch = pb.parallel.make_array_from_process_local_data(rows, x[own])
    weights = [pb.device_put(one, whole) for one in first]
    update = pb.jit(step, out_shardings=whole)
    for number in range(start, steps):
        happen(number, rank, count)
        value, weights = update(weights, batch)
        pb.block_until_ready(value)
        if (number + 1) % 5 == 0 and rank == 0:
            save(number + 1, weights)
    print("finished", float(value), flush=True)
    if rank == 0:
        np.savez(folder / "end.npz", *[np.asarray(one) for one in weights])


try:
    d.initialize(heartbeat_timeout_seconds=HEARTBEAT, initialization_timeout=60)
    train()
    d.shutdown()
except pb.errors.PeerLost as error:
    print("lost", error, flush=True)
    d.elastic.reform(timeout=10)
except pb.errors.Fenced:
    print("fenced", flush=True)
