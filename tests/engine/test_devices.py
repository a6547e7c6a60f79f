"""Devices: several of them, made of the CPU in a process of its own; platforms by a made-up client."""

import numpy as np
import pytest
from processes import run

import pullback as pb
from pullback.engine import backend, jaxlib

THREE = """
import numpy as np, pullback as pb
pnp = pb.numpy
d = pb.devices()
assert list(map(str, d)) == ["cpu(0)", "cpu(1)", "cpu(2)"] and pb.device_count() == 3 and pb.local_devices() == d
x = pnp.asarray(np.arange(4.0, dtype=np.float32))
x0, x1, x2 = [pb.device_put(x, device) for device in d]
assert [a.device for a in (x0, x1, x2)] == d and pb.device_put(x1, d[1]).device == d[1]
f = pb.jit(lambda x, y: pnp.sin(x) + y)
for _ in range(3):
    for out in (f(x1, x1), f(x1, x), f(x, x1), f(x1, 2.0), f(np.ones(4, np.float32), x1),
                x1 + x1, pnp.sin(x1), x1 * 2.0, x1[1:],
                pb.grad(lambda x: pnp.sum(f(x, x)))(x1), pb.vmap(f)(x1, x1), f(f(x1, x), x), pb.jit(f)(x1, x1)):
        assert out.device == d[1], out.device
    assert f(x, x).device == d[0]
    np.testing.assert_allclose(np.asarray(f(x1, x)), np.sin(np.arange(4)) + np.arange(4), rtol=1e-6)
for a, b in ((x1, x2), (x0, x2)):
    for g in (f, lambda x, y: x + y):
        try:
            g(a, b)
        except pb.errors.DeviceError as error:
            if g is f:
                assert "x (f32[4])" in str(error) and "y (f32[4])" in str(error)
        else:
            raise AssertionError("no error")
for given, home in ((x, d[0]), (x1, d[1])):  # what is compiled ahead of time stays where it was compiled for
    compiled = f.lower(given, x).compile()
    for call in (compiled, pb.export.load_executable(compiled.serialize())):
        assert call(x, given).device == call(np.ones(4, np.float32), x).device == home
        try:
            call(x, x2)
        except pb.errors.DeviceError as error:
            assert f"is on cpu(2) where it was compiled for {home}" in str(error), error
        else:
            raise AssertionError("no error")
with pb.default_device(d[2]):
    assert f(x, x).device == d[2] and f(x1, x).device == d[1] and pb.device_put(x).device == d[2]
assert f(x, x).device == d[0]
assert f(f(x, x), x1).device == d[1]
g = pb.jit(lambda x: x * 2.0, donate_argnums=0)
h = f(x1, x1)
g(h)
try:
    np.asarray(h)
except pb.errors.DonatedBufferError:
    pass
else:
    raise AssertionError("not donated")
loops = [
    lambda x: pb.lax.scan(lambda c, y: (c + y, c), 0.0, x), lambda x: pb.lax.scan(lambda c, y: (c, c), x, None, length=2),
    lambda x: pb.lax.map(lambda y: 2.0 * y, x), lambda x: pb.lax.fori_loop(0, 3, lambda i, c: 2.0 * c, x),
    lambda x: pb.lax.while_loop(lambda c: c[1] < 9.0, lambda c: 2.0 * c, x), lambda x: pb.grad(lambda y: (y * 2.0).sum())(x),
    lambda x: pb.value_and_grad(lambda y: (y * y).sum())(x), pnp.zeros_like, pnp.ones_like, pnp.empty_like,
]
for i, loop in enumerate(loops):
    for out in pb.tree.leaves(loop(x1)):
        assert out.device == d[1], (i, out.device)
    for one, other in zip(pb.tree.leaves(loop(x1)), pb.tree.leaves(loop(x))):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6)
assert float(pb.device_put({"a": x1}, d[2])["a"][1]) == 1.0
print("done")
"""


@pytest.mark.parametrize(
    "environment",
    [{"PULLBACK_CPU_DEVICES": "3"}, {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}],
    ids=["own", "xla"],
)
def test_three_devices(environment):
    found = run(THREE, "-W", "error", **environment)
    assert found.stdout == "done\n", found.stderr


def test_wrong_number_of_devices():
    found = run("import pullback as pb; pb.devices()", "-W", "error", PULLBACK_CPU_DEVICES="none")
    assert "PULLBACK_CPU_DEVICES must be a positive integer" in found.stderr


def test_devices_that_do_not_exist():
    with pytest.raises(pb.errors.DeviceError, match="no platform 'abacus'"):
        pb.devices("abacus")
    with pytest.raises(pb.errors.DeviceError, match=r"no device cpu\(99\)"):
        pb.device_put(1.0, pb.Device("cpu", 99))
    with pytest.raises(TypeError):
        pb.device_put(1.0, "cpu")
    with pytest.raises(pb.errors.DeviceError), pb.default_device(pb.Device("cpu", 99)):
        pass


def test_put_and_get_trees():
    tree = {"a": [1.0, np.ones(2)], "b": None}
    put = pb.device_put(tree, pb.devices()[0])
    assert isinstance(put["a"][1], pb.Array) and put["b"] is None
    got = pb.device_get(put)
    assert isinstance(got["a"][1], np.ndarray) and got["a"][1].dtype == np.float64
    assert pb.device_get({"x": pb.numpy.ones(1), "name": "weights", "f": len}) == {"x": np.ones(1), "name": "weights", "f": len}


def test_waiting_for_a_tree():
    long = pb.jit(lambda x: pb.lax.fori_loop(0, 1000, lambda i, c: c @ x, x))(pb.numpy.eye(256))
    tree = {"long": [long, pb.numpy.ones(2)], "name": "weights", "none": None, "host": np.ones(2)}
    assert pb.block_until_ready(tree) is tree and long.is_ready()
    assert float(pb.grad(lambda x: pb.block_until_ready([x])[0] ** 2)(3.0)) == 6.0


def test_put_copies():
    x = np.ones(2)
    put = pb.device_put(x)
    x[:] = 5
    assert float(put[0]) == 1


def test_put_of_a_tracer_is_the_tracer():
    assert float(pb.grad(lambda x: pb.device_put(x) ** 2)(3.0)) == 6.0


def test_get_of_a_tracer_is_refused():
    with pytest.raises(pb.errors.LeafError):
        pb.jit(pb.device_get)(1.0)


def test_registered_platform(monkeypatch):
    monkeypatch.setattr(backend, "_platforms", dict(backend._platforms))
    monkeypatch.setattr(backend, "_backends", dict(backend._backends))
    monkeypatch.setattr(backend.placement, "several", backend.placement.several)
    made = []

    def make_client():
        made.append(1)
        return jaxlib.jaxlib().client_module.make_cpu_client(asynchronous=False, num_devices=2)

    pb.register_platform("other", make_client)
    assert not made
    devices = pb.devices("other")
    assert list(map(str, devices)) == ["other(0)", "other(1)"] and len(made) == 1
    assert pb.device_put(np.ones(2), devices[1]).device == devices[1]
