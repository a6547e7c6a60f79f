"""Devices, shardings and what JAX's arrays have besides pullback's."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.compat.jax as jax
import pullback.compat.jax.monitoring
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax.facade import begin_habits, end_habits
from pullback.compat.jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding


@pytest.mark.parametrize(
    ("value", "text", "representation"),
    [
        (jnp.arange(3.0), "[0. 1. 2.]", "Array([0., 1., 2.], dtype=float32)"),
        (jnp.array(True), "True", "Array(True, dtype=bool)"),
        (jnp.zeros((0, 3)), "[]", "Array([], shape=(0, 3), dtype=float32)"),
        (jnp.zeros((2, 20)), None, f"Array([{', '.join(['[' + ', '.join(['0.'] * 20)] * 1)}"),
    ],
    ids=["vector", "number", "empty", "long"],
)
def test_arrays_print_as_in_jax(value: Any, text: str | None, representation: str) -> None:
    assert repr(value).replace("\n", "").replace(" ", "").startswith(representation.replace(" ", ""))
    assert text is None or (str(value), f"{value}") == (text, text)


@pytest.mark.parametrize(
    ("transform", "text"),
    [
        (jax.jit, "JitTracer(float32[2])"),
        (jax.vmap, "VmapTracer(aval=float32[], batched=float32[2])"),
        (lambda f: jax.grad(lambda x: f(x).sum()), "GradTracer(primal=[0. 1.], typeof(tangent)=f32[2])"),
        (lambda f: lambda x: jax.jvp(f, (x,), (x,)), "JVPTracer(primal=[0. 1.], tangent=[0. 1.])"),
    ],
    ids=["jit", "vmap", "grad", "jvp"],
)
def test_traced_values_print_as_in_jax(transform: Any, text: str) -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append((repr(x), str(x)))
        return x * 2.0

    transform(f)(jnp.arange(2.0))
    assert seen[0] == (text, text)


def test_habits_end() -> None:
    end_habits()
    assert repr(pb.numpy.ones(2)) == "[1. 1.]:f32[2]:cpu(0)"
    assert repr(pb.devices()[0]) == "cpu(0)"
    assert repr(pb.numpy.ones(2).sharding) == "SingleDeviceSharding(cpu(0))"
    assert not hasattr(pb.numpy.ones(2), "unsafe_buffer_pointer")
    begin_habits()
    assert repr(pb.devices()[0]) == "CpuDevice(id=0)"


def test_an_array_says_where_it_is() -> None:
    x = jnp.ones(3)
    device = jax.devices()[0]
    assert x.sharding == SingleDeviceSharding(device) and x.sharding.is_fully_replicated
    assert x.addressable_shards[0].data is x and x.addressable_shards[0].index == (slice(0, 3),)
    assert x.unsafe_buffer_pointer() and x.on_device_size_in_bytes() == 12
    assert (device.platform, device.device_kind, device.process_index, device.id) == ("cpu", "cpu", 0, 0)
    assert (repr(device), str(device)) == ("CpuDevice(id=0)", "cpu:0")
    assert (jax.device_count(), jax.process_count(), jax.process_index(), jax.default_backend()) == (1, 1, 0, "cpu")


def test_device_put_and_get() -> None:
    sharding, P = NamedSharding(jax.make_mesh((1,), ("x",)), PartitionSpec("x")), PartitionSpec
    tree = {"a": np.ones(2, np.float32), "b": ([1.0], None)}
    for place in (None, jax.devices()[0], sharding.update(spec=P()), {"a": sharding, "b": None}):
        put = jax.device_put(tree, place)
        assert isinstance(put["a"], jax.Array) and put["b"][1] is None
    got = jax.device_get({"x": put["a"], "s": "text", "n": 2})
    assert type(got["x"]) is np.ndarray and got["s"] == "text" and got["n"] == 2
    x = jnp.ones(2)
    jax.device_put(x, donate=True)
    assert x.is_deleted()
    with pytest.raises(TypeError, match=r"\['b'\]"):
        jax.device_put({"b": "text"})
    with pytest.raises(ValueError, match="Device, a Sharding"):
        jax.device_put(1.0, "gpu")


def test_specifications_and_meshes_are_compared() -> None:
    mesh = Mesh(jax.devices(), ("x",))
    spec = PartitionSpec("x", ("y", "z"), None)
    assert spec == PartitionSpec("x", ["y", "z"], None) and hash(spec) == hash(pickle.loads(pickle.dumps(spec)))
    assert repr(spec) == "P('x', ('y', 'z'), None)" and len(spec) == 3 and spec[0] == "x"
    assert jax.tree.leaves(spec) == [spec]
    assert mesh == Mesh(np.array(jax.devices()), "x") and mesh.shape == {"x": 1}
    assert mesh.abstract_mesh == AbstractMesh((1,), ("x",)) and not mesh.empty
    assert jax.sharding.get_abstract_mesh().empty
    with jax.set_mesh(mesh):
        assert jax.sharding.get_abstract_mesh() == mesh.abstract_mesh
    assert jax.sharding.get_abstract_mesh().empty
    with pytest.raises(ValueError, match="names the axis 'y', but Mesh"):
        NamedSharding(mesh, PartitionSpec("y"))


def test_arrays_of_parts() -> None:
    sharding = SingleDeviceSharding(jax.devices()[0])
    made = jax.make_array_from_callback((4,), sharding, lambda index: np.arange(4)[index])
    assert made.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="shape"):
        jax.make_array_from_single_device_arrays((3,), sharding, [made])


def test_debug_prints_trees_of_jax(capfd: pytest.CaptureFixture[str]) -> None:
    @jax.jit
    def f(x: Any) -> Any:
        jax.debug.print("{} {y}", x, y={"b": x, "a": "text"})
        return x

    f(jnp.arange(2.0))
    assert capfd.readouterr().out == "[0. 1.] {'a': 'text', 'b': Array([0., 1.], dtype=float32)}\n"
    seen: list[Any] = []
    jax.vmap(lambda x: jax.debug.callback(seen.append, x))(jnp.arange(2))
    assert [int(x) for x in seen] == [0, 1] and isinstance(seen[0], jax.Array)


def test_listeners_hear_what_is_recorded() -> None:
    heard: list[Any] = []

    def listener(*event: Any, **metadata: Any) -> None:
        heard.append((event, metadata))

    jax.monitoring.register_event_duration_secs_listener(listener)
    jax.monitoring.record_event_duration_secs("step", 1.5, kind="a")
    jax.monitoring.record_event("other")
    jax.monitoring.unregister_event_duration_listener(listener)
    jax.monitoring.record_event_duration_secs("step", 2.5)
    assert heard == [(("step", 1.5), {"kind": "a"})]


def test_an_array_that_is_there_stays_as_it_is() -> None:
    sharding = NamedSharding(jax.make_mesh((1,), ("x",)), PartitionSpec("x"))
    x = jnp.ones(2)
    y = jax.device_put(x, sharding)
    assert jax.device_put(x) is x and y.sharding == sharding and jax.device_put(y, sharding) is y
    assert isinstance(x.sharding, SingleDeviceSharding)
    with pytest.raises(AttributeError, match="typeof"):
        jax.jit(lambda x: x.sharding)(x)
    x.delete()
    with pytest.raises(RuntimeError, match=r"float32\[2\] has no values to show"):
        repr(x)


# ---- what programs for several devices ask for, of one -----------------------------------------------------------------


def test_shard_map_over_one_device_is_the_function_of_the_whole_arrays() -> None:
    mesh = Mesh(jax.experimental.mesh_utils.create_device_mesh((1, 1)), ("data", "model"))
    P = PartitionSpec

    @partial(jax.shard_map, mesh=mesh, in_specs=(P("data"), P(None, "model")), out_specs=P())
    def total(x: Any, w: Any) -> Any:
        return jax.lax.psum(jax.lax.pmean((x @ w).sum(), "data") + jax.lax.axis_index("model"), "model")

    x, w = jnp.arange(6.0).reshape(2, 3), jnp.ones((3, 4))
    assert total(x, w) == jax.jit(total)(x, w) == 60
    assert np.array_equal(jax.grad(total)(x, w), np.full((2, 3), 4))
    old = jax.experimental.shard_map.shard_map(lambda x: {"twice": 2 * x}, mesh, P("data"), P("data"))
    assert np.array_equal(old(x)["twice"], 2 * x)
    with jax.set_mesh(mesh):
        gathered = jax.shard_map(lambda x: jax.lax.all_gather(x, "data"), in_specs=P(), out_specs=P(), check_vma=False)
        found = gathered(x)
    assert found.shape == (1, 2, 3)


def test_shard_map_names_the_mesh_that_it_cannot_use() -> None:
    device = jax.devices()[0]
    with pytest.raises(ValueError, match="A device is in a mesh once"):
        Mesh([device, device], "x")
    with pytest.raises(ValueError, match=r"shard_map of sin .*was given no mesh"):
        jax.shard_map(jnp.sin, in_specs=None, out_specs=None)(1.0)
    with pytest.raises(ValueError, match=r"has 2 devices, of which this process has 1"):
        jax.experimental.mesh_utils.create_device_mesh((2,))


def test_what_processes_do_together_one_does_alone() -> None:
    utils = jax.experimental.multihost_utils
    assert utils.process_allgather({"a": jnp.ones(2)})["a"].shape == (1, 2)
    assert utils.process_allgather(jnp.ones(2), tiled=True).shape == (2,)
    assert isinstance(utils.broadcast_one_to_all(jnp.ones(2)), np.ndarray)
    assert not utils.reached_preemption_sync_point(3)
    assert pullback.compat.jax._src.distributed.global_state.process_id == 0


def test_the_client_of_a_platform_says_which_it_is() -> None:
    get_backend = jax.extend.backend.get_backend
    assert get_backend().platform == get_backend("cpu").platform == "cpu"
    with pytest.raises(RuntimeError, match="Unknown backend 'tpu'"):
        get_backend("tpu")


def test_an_array_of_a_pickle_of_jax_is_read() -> None:
    restore = pullback.compat.jax._src.array._reconstruct_array
    for values, weak in ((np.arange(3, dtype=np.int32), False), (np.float32(2.5) * np.ones(()), True)):
        make, parts, state = np.asarray(values, values.dtype if values.ndim else np.float32).__reduce__()
        found = restore(make, parts, state, {"weak_type": weak})
        assert isinstance(found, jax.Array) and found.weak_type is weak and np.array_equal(found, values)


def test_memory_has_an_address_before_anything_is_compiled() -> None:
    program = "import jax, jax.dlpack; import numpy as np; x = jax.numpy.arange(3); print(x.unsafe_buffer_pointer() > 0)"
    program += "; print(jax.dlpack.from_dlpack(np.arange(3)))"
    install = "import pullback.compat.jax; pullback.compat.jax.install();"
    command = [sys.executable, "-c", f"{install} {program}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n[0 1 2]\n"


def test_a_partition_alone_is_of_the_mesh_that_is_set() -> None:
    mesh = jax.make_mesh((1,), ("x",))
    with pytest.raises(ValueError, match=r"P\('x',\), which names no mesh"):
        jax.device_put(jnp.ones(2), PartitionSpec("x"))
    with jax.set_mesh(mesh):
        found = jax.device_put({"a": jnp.ones(2), "b": 3.0}, {"a": PartitionSpec("x"), "b": PartitionSpec()})
    assert found["a"].sharding == NamedSharding(mesh, PartitionSpec("x"))
    assert found["b"].sharding == NamedSharding(mesh, PartitionSpec())


def test_refs_print_as_in_jax() -> None:
    assert repr(jax.new_ref(jnp.zeros(2))) == "Ref([0., 0.], dtype=float32)"
    assert repr(jax.new_ref(jax.random.key(0))).startswith("Ref((), dtype=key<fry>) overlaying")


@pytest.mark.parametrize(
    "text",
    [
        "x.reshape(3, 2, out_sharding=None)", "x.reshape((3, 2), order='F', out_sharding=None)", "x.ravel(out_sharding=None)",
        "x.flatten(out_sharding=None)", "x.repeat(2, axis=0, out_sharding=None)", "x.dot(x.T, out_sharding=None)",
        "x.astype(int, device=jax.devices()[0])", "x.to_device(device=jax.devices()[0])", "x.at[0].get(out_sharding=None)",
        "x.at[0].set(1.0, out_sharding=None)", "x.at[0].apply(jnp.negative, out_sharding=None)",
    ],
)  # fmt: skip
def test_methods_are_told_of_the_one_place_that_there_is(text: str) -> None:
    def told(x: Any) -> Any:
        return eval(text, {"x": x, "jax": jax, "jnp": jnp})

    plain = text.replace(", out_sharding=None", "").replace("out_sharding=None", "").replace(", device=jax.devices()[0]", "")
    x = jnp.arange(6.0).reshape(2, 3)
    for found in (told(x), jax.jit(told)(x)):
        np.testing.assert_array_equal(found, eval(plain, {"x": x, "jax": jax, "jnp": jnp}))


def test_methods_refuse_other_places() -> None:
    with pytest.raises(ValueError, match="Device, a Sharding"):
        jnp.ones(3).astype(int, device=3)


def test_signatures_show_out_sharding() -> None:
    for function in (jnp.reshape, jnp.zeros_like, jnp.einsum, jax.lax.broadcast, jnp.linalg.tensordot):
        assert inspect.signature(function).parameters["out_sharding"].default is None


def test_dlpack() -> None:
    np.testing.assert_array_equal(jax.dlpack.from_dlpack(external_array=np.arange(3)), [0, 1, 2])
    assert jax.dlpack.is_supported_dtype("float32") and jax.dlpack.is_supported_dtype(bool)
    assert not jax.dlpack.is_supported_dtype(jax.dtypes.float0) and not jax.dlpack.is_supported_dtype(jnp.int4)
