"""Processes that run different programs, all of which each had compiled before; the launcher runs it in two and in four."""

import contextlib
import sys
import threading

import numpy as np

import pullback as pb
import pullback.numpy as pnp
from pullback.parallel import agreeing

agreeing.TOLD_AFTER = 0.3
d = pb.distributed
d.initialize(waiting_timeout=1.0)
rank, count = d.process_index(), d.process_count()
mesh = pb.make_mesh((count,), ("data",))
rows, whole = pb.NamedSharding(mesh, pb.P("data")), pb.NamedSharding(mesh, pb.P())
host = np.arange(4.0 * count, dtype="float32")
x = pb.device_put(host, rows)
largest, total = [pb.jit(function, out_shardings=whole) for function in (pnp.max, pnp.sum)]
twice, thrice = [pb.jit(lambda x, k=k: k * x) for k in (2.0, 3.0)]
weighted = pb.jit(lambda x, w: (x * w).sum(), out_shardings=whole)
given = pb.jit(lambda x: x + x.sum(), donate_argnums=0)
more = pb.jit(lambda x: x - x.sum(), donate_argnums=0)
last = count - 1  # who differs


def right():
    assert float(total(x)) == host.sum() and float(largest(x)) == host.max()
    np.testing.assert_array_equal(pb.parallel.gather(twice(x)), 2 * host)
    np.testing.assert_array_equal(pb.parallel.gather(thrice(x)), 3 * host)
    assert float(weighted(x, np.float32(2.0))) == 2 * host.sum()
    assert float(given(x + 0.0).sum()) + float(more(x + 0.0).sum()) == 2 * host.sum()


def differs(*said, call):
    try:
        call()
    except pb.errors.ProgramsDiffer as error:
        assert all([one in str(error) for one in said]), error
    else:
        raise AssertionError("no error")


right()
others = "rank 0 has" if count == 2 else "ranks 0, 1, 2 have"
for _ in range(2):  # the second time too
    differs(
        f"{others} sum: (f32[", f"; rank {last} has max: (f32[", "differing.py:", call=lambda: (total, largest)[rank == last](x)
    )
    right()
first, second = (total, largest) if rank != last else (largest, total)  # in another order
differs("sum", "max", call=lambda: first(x))
differs("sum", "max", call=lambda: second(x))
right()
if rank == last:  # once more than the others
    differs(others, call=lambda: total(x))
else:
    differs(others, call=lambda: largest(x))
right()
product = (twice, thrice)[rank == last](x)  # nothing is exchanged: the next sum answers for it
differs(f"rank {last} has <lambda>: (f32[", call=lambda: total(product))
right()
differs(
    "in the values that each brings to <lambda>", f"; rank {last} has f32[] with digest", "pb.distributed.broadcast",
    call=lambda: weighted(x, np.float32(rank == last)),
)  # fmt: skip
long = np.zeros(100_000 // count * count, "float32")
scaled = pb.jit(lambda x, w: x.sum() + w.sum(), out_shardings=whole)
assert float(scaled(x, long)) == host.sum()
differs(f"rank {last} has f32[100000] with", call=lambda: scaled(x, long + (rank == last)))
right()
kept = x + 1.0
differs(others, call=lambda: (given, more)[rank == last](kept))  # what was not begun has taken nothing
np.testing.assert_array_equal(pb.parallel.gather(kept), host + 1.0)
own = pb.make_mesh((count,), ("data",), devices=pb.devices()[:: -1 if rank == last else 1])
differs(
    "put on devices", f"rank 0 has values of f32[{count}] on", f"; rank {last} has values of f32[{2 * count}] on",
    call=lambda: pb.device_put(np.zeros(count * (1 + (rank == last)), "float32"), rows),
)  # fmt: skip
differs(f"rank {last} has values of", call=lambda: pb.device_put(host, pb.NamedSharding(own, pb.P("data"))))
right()

# ---- who does not come ----
if rank:
    try:
        total(x)
    except TimeoutError as error:
        said = f"Rank {rank} waits for 1 s to run sum: (f32[{4 * count}]@(data)) -> "
        assert said in str(error) and "to which rank 0 has not come. At " in str(error), error
        print("late")
    else:
        raise AssertionError("no error")
    d.set_value(f"late {rank}", "")
else:
    for other in range(1, count):
        d.get_value(f"late {other}", timeout=None)
    assert float(total(x)) == host.sum()  # with what the others have begun
right()

# ---- two threads that call together, in whatever order: no wrong number ----
found = []


def call(function, wanted):
    for _ in range(20):
        with contextlib.suppress(pb.errors.ProgramsDiffer):
            found.append(float(function(x)) == wanted)


threads = [threading.Thread(target=call, args=pair) for pair in ((total, host.sum()), (largest, host.max()))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
d.agree(len(found), "how many calls were right")
assert all(found)
right()
print("right", file=sys.stderr)
