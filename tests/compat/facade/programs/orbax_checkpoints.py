"""orbax: checkpoints of a tree of arrays, with the last two of four steps kept, and of flax's training module."""

import json
import logging
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from flax.training import checkpoints

logging.disable(logging.WARNING)
tree = {"w": jnp.arange(6.0).reshape(2, 3), "n": np.arange(3), "k": [jnp.ones(2, jnp.bfloat16), jnp.int32(4)]}
results = {}
with tempfile.TemporaryDirectory() as directory:
    with ocp.CheckpointManager(f"{directory}/steps", options=ocp.CheckpointManagerOptions(max_to_keep=2)) as manager:
        for step in range(4):
            manager.save(step, args=ocp.args.StandardSave(jax.tree.map(lambda x, step=step: x + x.dtype.type(step), tree)))
        manager.wait_until_finished()
        results["steps"] = manager.all_steps()
        restored = manager.restore(2, args=ocp.args.StandardRestore(tree))
    assert jax.tree.map(lambda x: x.dtype, restored) == jax.tree.map(lambda x: x.dtype, tree)
    results["restored"] = [np.asarray(leaf, np.float64).tolist() for leaf in jax.tree.leaves(restored)]
    checkpoints.save_checkpoint(f"{directory}/flax", tree, step=7)
    results["flax"] = float(checkpoints.restore_checkpoint(f"{directory}/flax", tree)["w"].sum())
print(json.dumps(results))
