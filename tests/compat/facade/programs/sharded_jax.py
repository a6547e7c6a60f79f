"""Meshes, shard_map, pmap, constraints and exported functions on eight devices, as JAX's documentation has them."""

import json
import os
from contextlib import suppress
from functools import partial

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.experimental import mesh_utils, multihost_utils
from jax.experimental.pjit import pjit
from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

found = {}


def kept(name, *values):
    found[name] = [np.asarray(value, float).ravel().tolist() for value in values]


mesh = Mesh(mesh_utils.create_device_mesh((4, 2)), ("data", "model"))
x = jax.random.normal(jax.random.key(0), (8, 4))
w = jax.random.normal(jax.random.key(1), (4, 6))

# What lies where
placed = jax.device_put(x, NamedSharding(mesh, P("data", "model")))
kept("shards", *[shard.data for shard in placed.addressable_shards])
kept(
    "asked",
    [jax.device_count(), jax.local_device_count(), mesh.size, mesh.shape["data"], len(placed.sharding.device_set)],
    [placed.is_fully_replicated, placed.sharding.is_fully_replicated, placed.committed, placed.is_fully_addressable],
    placed.sharding.shard_shape(x.shape),
    [shard.replica_id for shard in jax.device_put(x, NamedSharding(mesh, P("data"))).addressable_shards],
    [shard.device.id for shard in placed.global_shards],
)
seen = []
with suppress(NotImplementedError):  # better than another sharding
    jax.jit(lambda x: (jax.debug.inspect_array_sharding(x, callback=seen.append), x)[1])(placed)
assert all(one.is_equivalent_to(placed.sharding, 2) for one in seen)
assert isinstance(placed.sharding, NamedSharding) and placed.sharding.spec == P("data", "model")
assert isinstance(placed.sharding.mesh, Mesh) and placed.sharding.mesh == mesh
assert mesh.axis_types == (AxisType.Auto,) * 2 and jax.make_mesh((8,), ("i",)).axis_types == (AxisType.Explicit,)
one = jax.device_put(x, jax.devices()[3])
assert one.devices() == {jax.devices()[3]} and isinstance(one.sharding, SingleDeviceSharding)
kept("one of eight", jax.jit(jnp.sin)(one))
made = jax.make_array_from_callback((8, 4), NamedSharding(mesh, P("data")), lambda index: np.arange(32.0).reshape(8, 4)[index])
parts = [jax.device_put(shard.data + 1, shard.device) for shard in made.addressable_shards]
kept("made", made, jax.make_array_from_single_device_arrays((8, 4), made.sharding, parts))
kept("local", jax.make_array_from_process_local_data(NamedSharding(mesh, P(None, "model")), np.arange(8.0).reshape(2, 4)))


# Automatic
@partial(jax.jit, in_shardings=(NamedSharding(mesh, P("data")), None), out_shardings=NamedSharding(mesh, P(None, "model")))
def layer(x, w):
    y = jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("data", "model")))
    return jnp.tanh(y)


out = layer(x, w)
assert out.sharding.is_equivalent_to(NamedSharding(mesh, P(None, "model")), 2)
kept("automatic", out, jax.grad(lambda w: layer(x, w).sum())(w))
with mesh:
    kept("pjit", pjit(lambda x: {"y": x * 2}, in_shardings=P("data"), out_shardings={"y": P("model")})(x)["y"])
with jax.set_mesh(jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)):
    kept(
        "mesh that is set", jax.device_put(x, P("data")), jax.jit(lambda x: jax.lax.with_sharding_constraint(x, P("model")))(x)
    )
explicit = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)
on_both = jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("model"))))
on_both = on_both(jax.device_put(x, NamedSharding(explicit, P("data"))))
assert on_both.sharding.is_equivalent_to(NamedSharding(mesh, P("model")), 2) and (on_both == x * 2).all()
over_model = jax.shard_map(lambda x: jax.lax.psum(x, "model"), mesh=mesh, in_specs=P("model"), out_specs=P())
batched = jax.jit(jax.vmap(over_model, spmd_axis_name="data"))(jnp.stack([x, 2 * x, x, x]))
assert batched.sharding.shard_shape(batched.shape)[0] == 1
with jax.set_mesh(explicit):
    drawn = jax.random.normal(jax.random.key(0), (8, 4), out_sharding=P("data"))
assert drawn.sharding.shard_shape(drawn.shape) == (2, 4) and (drawn == x).all() and not mesh.is_multi_process
try:
    mesh_utils.create_device_mesh((3, 2))
except ValueError as error:
    assert "(3, 2)" in str(error)
else:
    raise AssertionError
compiled = layer.lower(x, w).compile()
assert compiled.output_shardings.is_equivalent_to(out.sharding, 2)


# By hand
@partial(jax.shard_map, mesh=mesh, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data", None))
def matmul(x, w):
    return jax.lax.psum(x @ w, "model")


@partial(jax.shard_map, mesh=mesh, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data", "model"))
def scattered(x, w):
    return jax.lax.psum_scatter(x @ w, "model", scatter_dimension=1, tiled=True)


kept("shard_map", matmul(x, w), jax.jit(scattered)(x, w), jax.grad(lambda w: (matmul(x, w) ** 2).sum())(w))


@partial(jax.shard_map, mesh=Mesh(jax.devices(), "i"), in_specs=P("i"), out_specs=P("i"))
def ring(x):
    def step(carry, _):
        total, block = carry
        block = jax.lax.ppermute(block, "i", [(j, (j + 1) % 8) for j in range(8)])
        return (total + block * jax.lax.axis_index("i"), block), ()

    return jax.lax.scan(step, (x, x), length=3)[0][0]


kept("ring", ring(x[:, 0]))
gathered = jax.shard_map(
    lambda x: jax.lax.all_gather(x, "data", tiled=True), mesh=mesh, in_specs=P("data"), out_specs=P(None), check_vma=False
)
swapped = jax.shard_map(
    lambda x: jax.lax.all_to_all(x, "data", 1, 0, tiled=True), mesh=mesh, in_specs=P("data", None), out_specs=P(None, "data")
)
kept("gathered", gathered(x), swapped(x))
tree = {"w": w, "b": (w[0], None)}
kept(
    "trees",
    *jax.tree.leaves(
        jax.shard_map(
            lambda tree, x: jax.tree.map(lambda leaf: leaf + jax.lax.pmean(x.sum(), ("data", "model")), tree),
            mesh=mesh,
            in_specs=({"w": P(), "b": P()}, P("data", "model")),
            out_specs=P(),
        )(tree, x)
    ),
)
within = jax.shard_map(
    lambda x: jax.shard_map(
        lambda x: jax.lax.psum(x, "model"),
        mesh=jax.sharding.get_abstract_mesh(),
        in_specs=P(None, "model"),
        out_specs=P(),
        axis_names={"model"},
    )(jax.lax.psum(x, "data")),
    mesh=mesh,
    in_specs=P("data"),
    out_specs=P(),
    axis_names={"data"},
)
assert jnp.allclose(jax.jit(within)(x), x.reshape(4, 2, 2, 2).sum((0, 2)), atol=1e-5)
partial_manual = jax.shard_map(
    lambda x: jax.lax.psum(x, "data"), mesh=mesh, in_specs=P("data"), out_specs=P(), axis_names={"data"}
)
kept("partly by hand", jax.jit(partial_manual)(x))

# What a function is lowered for
struct = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, P("data")))
for argument in (struct, placed):
    compiled = jax.jit(lambda x: x * 2).lower(argument).compile()
    ((into,), _), out = compiled.input_shardings, compiled.output_shardings
    kept(f"lowered for {'a struct' if argument is struct else 'an array'}", into.shard_shape(x.shape), out.shard_shape(x.shape))

# One element on each device
kept("pmap", jax.pmap(lambda x, w: jax.lax.pmean(x @ w, "i"), "i", in_axes=(0, None))(x, w))
kept("pmap of some", jax.pmap(lambda x, n: x * n, static_broadcasted_argnums=1, devices=jax.devices()[2:6])(x[:4], 3))

# In other processes
exported = export.export(jax.jit(lambda x, tree: {"y": x @ tree["w"]}))(jax.ShapeDtypeStruct(x.shape, x.dtype), {"w": w})
again = export.deserialize(exported.serialize(vjp_order=1))
assert "stablehlo.dot_general" in exported.mlir_module() and again.in_tree == exported.in_tree
kept("exported", again.call(x, {"w": w})["y"], jax.grad(lambda w: again.call(x, {"w": w})["y"].sum())(w))
over_mesh = jax.jit(lambda x: x * 2, in_shardings=made.sharding, out_shardings=made.sharding)
over_mesh = export.deserialize(export.export(over_mesh)(jax.ShapeDtypeStruct(made.shape, made.dtype)).serialize())
assert over_mesh.nr_devices == 8 and over_mesh.call(made).sharding.is_equivalent_to(made.sharding, 2)
kept("shapes", again.out_avals[0].shape, [again.nr_devices, len(again.platforms)])
multihost_utils.sync_global_devices("end")
multihost_utils.assert_equal({"a": x}, "differs")
kept("processes", multihost_utils.process_allgather(w), multihost_utils.broadcast_one_to_all(w))
print(json.dumps(found))
