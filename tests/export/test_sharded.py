"""Exported functions of arrays that are spread over a mesh, against NumPy and against the function itself, on 8 devices."""

import pytest
from processes import run

import pullback as pb
from pullback.core.errors import ForeignExecutable

COMMON = """
import numpy as np, pullback as pb, pullback.numpy as pnp
from pullback.sharding import AbstractMesh, Mesh
P, rng = pb.P, np.random.default_rng(0)
W = {"a": rng.normal(size=(16, 32)).astype("f4"), "b": rng.normal(size=(32, 8)).astype("f4")}
X = rng.normal(size=(8, 16)).astype("f4")

def on(mesh):
    def put(x, *spec):
        return pb.device_put(x, pb.NamedSharding(mesh, P(*spec)))
    return {"a": put(W["a"], None, "model"), "b": put(W["b"], "model")}, put(X, "data")

mesh = pb.make_mesh((2, 4), ("data", "model"))
w, x = on(mesh)

def refused(call, error, text):
    try:
        call()
    except error as found:
        assert text in str(found), found
    else:
        raise AssertionError("no error")
"""

WRITES = (
    COMMON
    + """
def layer(w, x):
    h = pb.lax.with_sharding_constraint(pnp.tanh(x @ w["a"]), pb.NamedSharding(mesh, P("data", "model")))
    return {"y": h @ w["b"], "s": pnp.sum(h)}

f = pb.jit(layer, out_shardings={"y": pb.NamedSharding(mesh, P("data")), "s": pb.NamedSharding(mesh, P())})
exported = pb.export.export(f)(w, x)
assert exported.nr_devices == 8 and exported.mesh is AbstractMesh((2, 4), ("data", "model"))
assert [str(one.spec) for one in exported.in_shardings] == [str(P(None, "model")), str(P("model")), str(P("data"))]
assert "sdy.mesh @mesh" in exported.mlir_module() and exported.platforms == ("cpu",)
data = exported.serialize(vjp_order=1)
assert pb.export.deserialize(data) == pb.export.deserialize(data) != exported == pb.export.export(f)(w, x)
found, wanted = exported.call(w, x), f(w, x)
for name in wanted:
    assert found[name].sharding == wanted[name].sharding
    np.testing.assert_allclose(found[name], wanted[name], rtol=1e-6)

closed = pb.device_put(rng.normal(size=(16, 16)).astype("f4"), pb.NamedSharding(mesh, P("data", "model")))
over = pb.export.deserialize(pb.export.export(pb.jit(lambda x: x @ closed))(x).serialize())
np.testing.assert_allclose(over.call(x), X @ np.asarray(closed), rtol=1e-4, atol=1e-5)
open("sharded", "wb").write(data)
g = pb.jit(lambda w, x, n: {**layer(w, x), "closed": x @ closed * n})  # the partitioner chooses how results lie
open("executable", "wb").write(g.lower(w, x, 2.0).compile().serialize())
np.save("closed", np.asarray(closed))
print("done")
"""
)

READS = (
    COMMON
    + """
import pathlib
loaded = pb.export.deserialize(pathlib.Path("sharded").read_bytes())
h = np.tanh(X @ W["a"])
wanted = {"y": h @ W["b"], "s": h.sum()}

def loss(w, x):
    out = loaded.call(w, x)
    return pnp.sum(out["y"] ** 2) + out["s"]

slope = (1 - h**2) * (2 * wanted["y"] @ W["b"].T + 1)
gradient = {"a": X.T @ slope, "b": h.T @ (2 * wanted["y"])}
reversed_mesh = Mesh(np.array(pb.devices())[::-1].reshape(2, 4), ("data", "model"))
for w, x in (on(mesh), on(reversed_mesh)):  # it was exported for a mesh of this form, of whatever devices
    own = x.sharding.mesh
    out = loaded.call(w, x)
    assert out["y"].sharding == pb.NamedSharding(own, P("data")) and out["s"].is_fully_replicated
    for name in wanted:
        np.testing.assert_allclose(out[name], wanted[name], rtol=1e-4, atol=1e-5)
    for grad in (pb.grad(loss), pb.jit(pb.grad(loss))):
        found = grad(w, x)
        assert found["a"].sharding == pb.NamedSharding(own, P(None, "model"))
        for name in gradient:
            np.testing.assert_allclose(found[name], gradient[name], rtol=1e-3, atol=1e-4)
w, x = on(mesh)
before = pb.cache_info().compiled
run = pb.export.load_executable(pathlib.Path("executable").read_bytes())
out = run(w, x, 2.0)
assert pb.cache_info().compiled == before and out["y"].sharding.mesh is mesh
for name, value in {**wanted, "closed": 2 * X @ np.load("closed.npy")}.items():
    np.testing.assert_allclose(out[name], value, rtol=1e-4, atol=1e-4)
assert pb.export.load_executable(run.serialize())(w, x, 3.0)["s"] == out["s"]
refused(lambda: run(*on(reversed_mesh), 2.0), pb.errors.ShardingMismatch, "model) on Mesh(data=2, model=4, cpu(0-7))")
out = pb.vmap(loaded.call, (None, 0))(w, pnp.stack([x, 0.0 * x]))
np.testing.assert_allclose(out["y"][0], wanted["y"], rtol=1e-4, atol=1e-5)
assert not np.asarray(out["y"][1]).any()
assert pb.jit(lambda w, x: loaded.call(w, x * 2.0)["y"] + 1)(w, x).shape == (8, 8)
refused(lambda: loaded.call(W, X), pb.errors.ShardingError, "pb.make_mesh((2, 4), ('data', 'model'))")
for own in (mesh, reversed_mesh):
    with own:  # which says which devices, to arrays that do not
        assert loaded.call(W, X)["y"].sharding == pb.NamedSharding(own, P("data"))
        assert pb.jit(pb.grad(loss))(W, X)["a"].sharding == pb.NamedSharding(own, P(None, "model"))
for axes in ({"data"}, {"data", "model"}):
    inside = pb.shard_map(loaded.call, mesh=mesh, in_specs=P(), out_specs=P(), axis_names=axes)
    refused(lambda: inside(W, X), pb.errors.ShardingError, "cannot be called in a shard_map along 'data'")
other = pb.device_put(X, pb.NamedSharding(pb.make_mesh((8,), ("data",)), P("data")))
refused(lambda: loaded.call(W, other), pb.errors.ShardingError, "two meshes")
print("done")
"""
)


def test_a_sharded_function_travels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for script in (WRITES, READS):
        done = run(script, PULLBACK_CPU_DEVICES="8")
        assert done.stdout == "done\n", done.stderr
    with pytest.raises(ForeignExecutable, match=r"was made for cpu\(1\); here there are only cpu\(0\)"):
        pb.export.load_executable((tmp_path / "executable").read_bytes())
