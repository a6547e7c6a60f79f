"""jax.distributed and jax.experimental.multihost_utils of the façade, in two processes of two devices each."""

from __future__ import annotations

import pathlib

from launching import launch

SCRIPT = """
import pullback.compat.jax
pullback.compat.jax.install()
import jax, numpy as np
from jax.experimental import multihost_utils as utils
from jax.sharding import Mesh, PartitionSpec as P

jax.distributed.initialize()
assert (jax.process_count(), jax.process_index(), jax.device_count(), jax.local_device_count()) == (2, rank, 4, 2)
mesh, own = Mesh(np.array(jax.devices()), "x"), np.full(2, rank)
assert utils.process_allgather(own).tolist() == [[0, 0], [1, 1]]
assert utils.process_allgather({"a": own}, tiled=True)["a"].tolist() == [0, 0, 1, 1]
assert utils.process_allgather(np.float32(rank)).tolist() == [0.0, 1.0]
assert utils.broadcast_one_to_all({"a": own})["a"].tolist() == [0, 0]
assert utils.broadcast_one_to_all(own, is_source=rank == 1).tolist() == [1, 1]
x = utils.host_local_array_to_global_array(np.arange(4.0, dtype="f4") + 4 * rank, mesh, P("x"))
assert repr(x) == "Array(shape=(8,), dtype=float32)" and utils.process_allgather(x).tolist() == list(range(8))
assert utils.global_array_to_host_local_array(2 * x, mesh, P("x")).tolist() == [8 * rank + 2 * i for i in range(4)]
total = jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(x)
assert total.addressable_data(0).tolist() == [12.0, 16.0]
utils.sync_global_devices("here")
utils.assert_equal(np.ones(1), "the same")
try:
    utils.assert_equal(own, "they differ.")
except AssertionError as error:
    print(error)
assert not utils.reached_preemption_sync_point(1)
jax.distributed.shutdown()
print("right")
"""


def test_two_processes(tmp_path: pathlib.Path) -> None:
    found = launch(tmp_path, SCRIPT, 2, "--devices", "2")
    assert found.returncode == 0, found.stderr
    assert [found.by_rank[rank][-1] for rank in (0, 1)] == ["right"] * 2
    assert [line for line in found.by_rank[1] if line.startswith("they differ. Process 0 has")]
