"""What arrays and programs over the devices of several processes do; the launcher runs it in two and in four."""

import hashlib
import sys

import numpy as np

import pullback as pb
import pullback.numpy as pnp

d = pb.distributed
d.initialize()
rank, count = d.process_index(), d.process_count()
devices = pb.devices()
mesh = pb.make_mesh((len(devices),), ("data",))
rows, whole = pb.NamedSharding(mesh, pb.P("data")), pb.NamedSharding(mesh, pb.P())
rng = np.random.default_rng(0)
x = rng.normal(size=(48, 32)).astype("float32")
weights = [rng.normal(size=(32, 64)).astype("float32") / 6, rng.normal(size=(64, 32)).astype("float32") / 8]


def raises(kind, said, function, *args):
    try:
        function(*args)
    except kind as error:
        assert said in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


# ---- arrays ----
own = slice(rank * 48 // count, (rank + 1) * 48 // count)
divided = pb.parallel.make_array_from_process_local_data(rows, x[own])
assert divided.shape == x.shape and not divided.is_fully_addressable and divided.sharding == rows
assert str(divided) == f"f32[48,32]@(data,·):cpu(0-{len(devices) - 1})", str(divided)
shards = divided.addressable_shards
assert [shard.device for shard in shards] == pb.local_devices() and len(divided.global_shards) == len(devices)
for shard in shards:
    np.testing.assert_array_equal(shard.data, x[shard.index])
    assert shard.data.device == shard.device and float((shard.data * 2.0)[0, 0]) == 2 * x[shard.index][0, 0]
made = pb.make_array_from_callback(x.shape, rows, lambda index: x[index])
parts = [pb.device_put(x[shard.index], shard.device) for shard in shards]
again = pb.make_array_from_single_device_arrays(x.shape, rows, parts)
for array in (divided, made, again, pb.device_put(x, rows)):
    np.testing.assert_array_equal(pb.parallel.gather(array), x)
    raises(pb.errors.NotLocal, "are not all in this process", np.asarray, array)
columns = pb.reshard(divided, pb.NamedSharding(mesh, pb.P(None, "data" if len(devices) in (2, 4, 8) else None)))
assert columns.sharding.spec[1] == "data"
for shard in columns.addressable_shards:
    np.testing.assert_array_equal(shard.data, x[shard.index])
everywhere = pb.device_put(x, whole)
np.testing.assert_array_equal(everywhere, x)
raises(pb.errors.ProgramsDiffer, "rank 1 has values of f32[] on", pb.device_put, np.float32(rank), whole)
for dtype in ("bool", "int8", "uint16", "int64", "bfloat16", "float64", "complex64"):
    with pb.default_bits(64):
        value = pnp.asarray(np.arange(2 * len(devices)).reshape(-1, 2) % 2, dtype)
        np.testing.assert_array_equal(pb.parallel.gather(pb.device_put(value, rows)), value)
keys = pb.random.split(pb.random.key(7), 2 * len(devices))
for back in (
    pb.parallel.gather(pb.device_put(keys, rows)),
    pb.parallel.gather(pb.device_put(keys, whole)),
    pb.parallel.gather(keys),
):
    assert back.type == keys.type and pb.random.key_data(back).tolist() == pb.random.key_data(keys).tolist()
empty = pb.device_put(np.zeros((len(devices), 0), "float32"), rows)
assert pb.parallel.gather(empty).shape == (len(devices), 0) and empty.addressable_shards[0].data.shape == (1, 0)


# ---- programs ----
def loss(weights, x):
    return pnp.mean((pnp.tanh(x @ weights[0]) @ weights[1] - x) ** 2)


def step(weights, x):
    value, slopes = pb.value_and_grad(loss)(weights, x)
    return value, [one - 0.1 * slope for one, slope in zip(weights, slopes)]


expected, together = weights, [pb.device_put(one, whole) for one in weights]
alone, spread = pb.jit(step), pb.jit(step, out_shardings=whole)
for _ in range(5):
    wanted, expected = alone(expected, x)
    found, together = spread(together, divided)
    np.testing.assert_allclose(float(found), float(wanted), rtol=1e-6)
for one, other in zip(together, expected):
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
assert float(pb.jit(lambda x: pnp.sum(x * x), out_shardings=whole)(divided)) - float((x.astype("float64") ** 2).sum()) < 1e-2
np.testing.assert_allclose(pb.parallel.gather(divided + 1.0), x + 1.0)
np.testing.assert_allclose(float(divided.sum()), x.sum(), rtol=1e-4)
gone = divided + 0.0
given = pb.jit(lambda x: 2.0 * x, donate_argnums=0)(gone)
raises(pb.errors.DonatedBufferError, "was donated", repr, gone)
np.testing.assert_allclose(pb.parallel.gather(given), 2 * x)
raises(pb.errors.ProgramsDiffer, "rank 0 has <lambda>: (f32[48,32]", pb.jit(lambda x: x * (3.0 + rank)), divided)
np.testing.assert_allclose(pb.parallel.gather(pb.jit(lambda x: x * 3.0)(divided)), 3 * x)  # and the world goes on
raises(pb.errors.DeviceError, "belongs to process", pb.device_put, x, next(one for one in devices if not one.is_local))

# ---- some of the processes ----
first = [next(one for one in devices if one.process_index == number) for number in range(2)]
pair = pb.NamedSharding(pb.make_mesh((2,), ("data",), devices=first), pb.P("data"))
if rank < 2:
    two = pb.device_put(np.arange(4.0), pair)
    assert float(pb.jit(lambda x: x.sum())(two)) == 6.0 and two.addressable_shards[0].data.shape == (2,)
    raises(pb.errors.ProgramsDiffer, "rank 0 has", pb.jit(lambda x: x * (5.0 + rank)), two)
else:
    raises(pb.errors.NotLocal, "this process", pb.device_put, np.arange(4.0), pair)
    raises(pb.errors.NotLocal, "this process", pb.jit(lambda x: 7.0 * x, out_shardings=pair), np.arange(4.0))
    raises(pb.errors.NotLocal, "no device of", pb.make_array_from_callback, (4,), pair, lambda index: np.arange(4.0)[index])

bits = hashlib.sha256(b"".join([np.asarray(one).tobytes() for one in together])).hexdigest()
d.agree(bits, "the weights")
print("right", file=sys.stderr)
