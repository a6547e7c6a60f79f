"""Plans: compiled for devices that are not there, against what the shapes say; their advice, their text, the command line."""

import math
import pathlib

import numpy as np
import pytest
from running import runner

import pullback as pb
from pullback.__main__ import main
from pullback.engine import topologies
from pullback.engine.plugins import find_plugins
from pullback.engine.topologies import TARGETS, Target
from pullback.parallel import planning

TESTS = pathlib.Path(__file__).resolve().parents[1]
pnp = pb.numpy
P = pb.P


def f32(*shape):
    return pb.ArrayType(shape, "float32")


def dense_step(w, x):
    loss, gradient = pb.value_and_grad(lambda w: pnp.mean((x @ w) ** 2))(w)
    return w - 0.1 * gradient, loss


def layers_step(w, x):
    def loss(w):
        out, _ = pb.lax.scan(lambda h, a: (pnp.tanh(h @ a), None), x, w)
        return pnp.mean(out**2)

    loss_value, gradient = pb.value_and_grad(loss)(w)
    return w - 0.1 * gradient, loss_value


@pytest.fixture
def no_plugins(monkeypatch):
    monkeypatch.setattr(topologies, "find_plugins", dict)
    monkeypatch.setattr("pullback.engine.plugins.find_plugins", dict)


def moved(found):
    """What a plan says of each collective that moves more than a number."""
    return sorted(
        (one.kind, found.axes_of(one), one.bytes, one.trips * one.number) for one in found.collectives if one.bytes > 8
    )


# ---- what is found in compiled programs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 8, 512])
def test_data_parallel(count):
    found = pb.parallel.plan(
        dense_step, f32(64, 32), f32(4 * count, 64), mesh={"data": count}, in_shardings=(None, P("data")), target="cpu"
    )
    weights = 4 * 64 * 32
    assert moved(found) == [("all-reduce", "data", weights + 4, 1)]  # the gradient, and with it the loss
    assert found.memory.arguments == weights + 4 * 4 * 64
    assert found.memory.outputs >= weights + 4 and found.memory.fits and found.advice == []
    assert [(one.name, one.bytes) for one in found.arguments] == [("w", weights), ("x", 4 * 4 * 64)]


def test_two_axes():
    found = pb.parallel.plan(
        dense_step,
        *(f32(64, 32), f32(64, 64)),
        mesh={"data": 4, "model": 2},
        in_shardings=(P(None, "model"), P("data")),
        out_shardings=(P(None, "model"), P()),
        target="cpu",
    )
    assert moved(found) == [("all-reduce", "data", 4 * 64 * 16 + 4, 1)]
    assert found.memory.arguments == 4 * 64 * 16 + 4 * 16 * 64


@pytest.mark.parametrize("length", [3, 7])
def test_loops_count_their_steps(length):
    found = pb.parallel.plan(
        layers_step, f32(length, 32, 32), f32(64, 32), mesh={"data": 8}, in_shardings=(None, P("data")), target="cpu"
    )
    ((kind, axes, bytes, times),) = moved(found)
    assert (kind, axes) == ("all-reduce", "data")
    assert bytes * times == 4 * length * 32 * 32  # in the loop or behind it, all weights' gradients are added


def test_a_loop_of_unknown_length_is_said_to_be_unknown():
    def until_small(x):
        return pb.lax.while_loop(lambda x: pnp.sum(x) > 1.0, lambda x: x * 0.5, x)

    found = pb.parallel.plan(until_small, f32(64), mesh={"data": 8}, in_shardings=P("data"), target="cpu")
    assert [one.trips for one in found.collectives] == [None]
    assert found.seconds("1GB/s") is None and "an unknown time" in str(found) and "how often it runs" in str(found)


def test_donated_arguments_are_used_again():
    kept, given = [
        pb.parallel.plan(
            dense_step, f32(64, 32), f32(64, 64), mesh={"data": 8}, in_shardings=(None, P("data")), target="cpu", **donated
        ).memory
        for donated in ({}, {"donate_argnums": 0})
    ]
    assert (kept.reused, given.reused) == (0, 4 * 64 * 32)
    assert given.total == given.arguments + given.outputs + given.temporaries + given.code - 4 * 64 * 32


def test_ways_to_say_where_arrays_lie():
    mesh = pb.sharding.AbstractMesh((4, 2), ("data", "model"))
    sharding = pb.NamedSharding(mesh, P("data"))
    x = f32(64, 64).placed(sharding, frozenset())
    jitted = pb.jit(dense_step, in_shardings=(None, sharding))
    texts = [
        pb.parallel.plan(dense_step, f32(64, 32), x, target="cpu"),
        pb.parallel.plan(dense_step, f32(64, 32), x, mesh=mesh, target="cpu"),
        pb.parallel.plan(jitted, f32(64, 32), f32(64, 64), target="cpu"),
        pb.parallel.plan(dense_step, pnp.zeros((64, 32)), f32(64, 64), mesh=mesh, in_shardings=(None, P("data")), target="cpu"),
    ]
    assert len({(tuple(moved(found)), found.memory) for found in texts}) == 1


def test_what_is_not_divided_is_whole_on_each_device():
    found = pb.parallel.plan(lambda x: pnp.sin(x), f32(16), mesh={"data": 8}, target="cpu")
    assert found.collectives == [] and found.memory.arguments == 64 and "no communication" in str(found)


@pytest.mark.parametrize("shape", [(), (0,), (0, 8)])
def test_small_arrays(shape):
    found = pb.parallel.plan(lambda x: x + 1.0, f32(*shape), mesh={"data": 8}, target="cpu")
    assert found.memory.arguments == 4 * math.prod(shape) and str(found)


@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float16", "float64", "complex64"])
def test_dtypes(dtype):
    type = pb.ArrayType((64, 8), dtype)
    found = pb.parallel.plan(lambda x: x.sum(0), type, mesh={"data": 8}, in_shardings=P("data"), target="cpu")
    assert found.memory.arguments == type.nbytes // 8 and len(found.collectives) == 1


# ---- seconds ------------------------------------------------------------------------------------------------------------


def test_seconds_inside_of_hosts_and_between_them(no_plugins):
    given = dict(in_shardings=(None, P("data")), target="h100")
    inside = pb.parallel.plan(dense_step, f32(64, 32), f32(64, 64), mesh={"data": 8}, **given)
    across = pb.parallel.plan(dense_step, f32(64, 32), f32(64, 64), mesh={"data": 16}, **given)
    for found, devices, speeds in ((inside, 8, (450e9, 450e9)), (across, 16, (50e9, 12.5e9))):
        sent = sum([2 * one.bytes * (devices - 1) / devices for one in found.collectives])
        for link, speed in zip(("400Gbit/s", "100Gbit/s"), speeds):
            assert found.seconds(link) == pytest.approx(sent / speed)
    assert not inside.exact and "the CPU" in inside.compiled_by
    assert str(inside).count("communicating") == 1 and "at 450 GB/s inside of a host" in str(inside)
    assert "at 100Gbit/s, 450 GB/s inside of a host" in str(across)


@pytest.mark.parametrize(
    "link", ["fast", "400", "", "400Gbit", "-1GB/s", "0GB/s", 0, -1.0, math.inf, math.nan, None, "1.2.3GB/s"]
)
def test_links_that_are_none(link):
    with pytest.raises(ValueError, match="A link's speed is written as"):
        planning.link_speed(link)


def test_computing():
    found = pb.parallel.plan(lambda x, w: x @ w, f32(64, 32), f32(32, 16), mesh={"data": 8}, target="cpu")
    assert found.flops == 2 * 64 * 32 * 16 / 8 and found.computing is None


@pytest.mark.parametrize("manual", [{"data"}, {"data", "model"}])
def test_computing_in_a_shard_map_counts_every_device(manual):
    def product(x, w):
        each = pb.shard_map(lambda x, w: x @ w, in_specs=(pb.P("data"), pb.P()), out_specs=pb.P("data"), axis_names=manual)
        return each(x, w)

    found = pb.parallel.plan(product, f32(64, 32), f32(32, 16), mesh={"data": 4, "model": 2}, target="cpu")
    repeated = 2 if "model" in manual else 1
    assert found.flops == repeated * 2 * 64 * 32 * 16 / 8


# ---- what does not fit --------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(monkeypatch):
    """A target with so few bytes that little fits."""

    def of(memory):
        monkeypatch.setitem(TARGETS, "tiny", Target("tiny", "cpu", "a tiny device", memory, 64))
        return "tiny"

    return of


ADVICE = {
    # sizes of the mesh, shape, spec -> the spec that helps
    "the largest axis of the mesh": (dict(data=2, model=4), (64, 64), P(), P("model")),
    "the largest axis of the array": (dict(data=4), (64, 128), P(), P(None, "data")),
    "an axis that divides": (dict(data=4), (63, 8), P(), P(None, "data")),
    "the axis that is not used yet": (dict(data=4, model=2), (64, 128), P(None, "data"), P("model", "data")),
    "along two axes": (dict(data=4, model=2), (7, 64), P(None, "data"), P(None, ("data", "model"))),
    "the smaller axis where only that divides": (dict(data=3, model=4), (6, 7), P(), P("data")),
}


@pytest.mark.parametrize("case", ADVICE)
def test_advice(case, tiny):
    mesh, shape, spec, wanted = ADVICE[case]
    over = pb.sharding.AbstractMesh(tuple(mesh.values()), tuple(mesh))
    x = f32(*shape).placed(pb.NamedSharding(over, spec), frozenset())
    found = pb.parallel.plan(lambda x: x, x, mesh=over, target=tiny(16))
    assert not found.memory.fits and "DOES NOT FIT" in str(found)
    assert f"divided as {P(*wanted, *[None] * (len(shape) - len(wanted)))} " in found.advice[0]
    after = pb.NamedSharding(over, wanted).shard_shape(shape)  # it can be divided so, and takes as much as was said
    assert f"would take {planning.in_bytes(4 * math.prod(after))}" in found.advice[0]


def test_advice_names_the_largest_argument_first_and_stops_where_it_fits(tiny):
    given = dict(mesh={"data": 8}, target=tiny(10_000))
    found = pb.parallel.plan(lambda small, large: large.sum() + small.sum(), f32(16), f32(64, 64), **given)
    (line,) = found.advice
    assert line.startswith("large takes 16.4 kB on each device")
    found = pb.parallel.plan(lambda small, large: large * small.sum(), f32(16), f32(64, 64), **{**given, "target": tiny(16)})
    assert [line.split()[0] for line in found.advice[:-1]] == ["large"]  # the other one would hardly help


def test_advice_where_no_division_helps(tiny):
    found = pb.parallel.plan(lambda x: x, f32(7, 5), mesh={"data": 8}, target=tiny(16))
    (line,) = found.advice
    assert "Temporaries take" in line


# ---- what is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "says", "given"),
    [
        (ValueError, "no target 'h1000'", dict(target="h1000", mesh={"data": 8})),
        (ValueError, "needs a mesh", dict()),
        (pb.errors.DeviceError, "plan a program for .* on 2048 of them at most", dict(mesh={"data": 4096})),
        (pb.errors.PluginMissing, "pip install jax-cuda13-plugin", dict(mesh={"data": 4096}, target="h100")),
        (pb.errors.DeviceError, "plan a program for .* on 4096 of them at most", dict(mesh={"data": 8192}, target="h100")),
        (pb.errors.PluginMissing, "pip install libtpu", dict(mesh={"data": 8}, target="tpu-v5e")),
        (pb.errors.UnknownAxis, "model", dict(mesh={"data": 8}, in_shardings=P("model"))),
        (pb.errors.UnevenShard, None, dict(mesh={"data": 7}, in_shardings=P("data"))),
        (pb.errors.ShardingError, "at least one device", dict(mesh={"data": 0})),
        (pb.errors.ShardingError, "integers as the sizes", dict(mesh={"data": 2.5})),
    ],
)
def test_what_is_refused(error, says, given, no_plugins):
    given = {"target": "cpu", "in_shardings": P("data") if "mesh" in given else None, **given}
    with pytest.raises(error, match=says):
        pb.parallel.plan(lambda x: x + 1.0, f32(8192, 2), **given)


@pytest.mark.parametrize("mesh", [3, "data", [("data", 8)]])
def test_what_is_no_mesh_is_refused(mesh):
    with pytest.raises(TypeError, match="plan takes a mesh"):
        pb.parallel.plan(lambda x: x, f32(8), mesh=mesh, target="cpu")


def test_arrays_that_are_closed_over():
    table = pnp.ones((64, 256))
    found = pb.parallel.plan(lambda x: x @ table, f32(32, 64), mesh={"data": 8}, in_shardings=P("data"), target="cpu")
    assert [(one.name, one.bytes) for one in found.arguments] == [("x", 1024), ("an array that it closes over", 65536)]
    assert found.memory.arguments == 1024 + 65536


def test_static_arguments():
    step = pb.jit(lambda mode, x, n: x * n if mode == "times" else x, static_argnums=0, static_argnames="n")
    found = pb.parallel.plan(step, "times", f32(8, 2), 3, mesh={"data": 4}, target="cpu")
    assert [(one.name, one.bytes) for one in found.arguments] == [("x", 64)]
    with pytest.raises(ValueError, match="is jitted: give jit"):
        pb.parallel.plan(step, "times", f32(8, 2), 3, mesh={"data": 4}, donate_argnums=np.array([1]), target="cpu")


def test_another_mesh_is_refused():
    x = f32(8).placed(pb.NamedSharding(pb.sharding.AbstractMesh((8,), ("data",)), P("data")), frozenset())
    with pytest.raises(pb.errors.ShardingError):
        pb.parallel.plan(lambda x: x, x, mesh={"data": 4}, target="cpu")
    with pytest.raises(ValueError, match="is jitted"):
        pb.parallel.plan(pb.jit(lambda x: x), x, in_shardings=P("data"), target="cpu")


# ---- compilers of accelerators, where they are installed ----------------------------------------------------------------


@pytest.mark.skipif("cuda" not in find_plugins(), reason="the CUDA plugin is not installed")
@pytest.mark.parametrize("target", ["h100", "h200", "a100"])
def test_by_the_compiler_for_gpus(target):
    found = pb.parallel.plan(
        layers_step, f32(6, 64, 64), f32(512, 64), mesh={"data": 256}, in_shardings=(None, P("data")), target=target
    )
    assert found.exact and TARGETS[target].title in found.compiled_by
    ((kind, axes, bytes, times),) = moved(found)
    assert (kind, axes, bytes * times) == ("all-reduce", "data", 4 * 6 * 64 * 64)
    assert found.memory.arguments == 4 * 6 * 64 * 64 + 4 * 2 * 64


@pytest.mark.parametrize(
    ("target", "count", "name"),
    [
        ("tpu-v5e", 4, "v5e:2x2"),
        ("tpu-v5e", 32, "v5e:8x4"),
        ("tpu-v6e", 256, "v6e:16x16"),
        ("tpu-v5p", 4, "v5p:2x2x1"),
        ("tpu-v5p", 24, "v5p:4x2x3"),
        ("tpu-v5p", 4096, "v5p:16x16x16"),
    ],
)
def test_topologies_of_tpus(target, count, name):
    assert topologies.tpu_topology(TARGETS[target], count) == name


@pytest.mark.parametrize("count", [0, 1, 6])
def test_topologies_of_tpus_that_do_not_exist(count):
    with pytest.raises(pb.errors.DeviceError, match="come by fours"):
        topologies.tpu_topology(TARGETS["tpu-v5e"], count)


# ---- the page -----------------------------------------------------------------------------------------------------------


def test_the_page_runs(no_plugins):
    running = runner()
    page = TESTS.parent / "docs" / "planning.md"
    shown = list(running.outputs(page))
    assert len(shown) == 2
    for step, printed in shown:
        assert running.matches(step.expected or "", printed), f"planning.md:{step.line} printed\n{printed}"


# ---- the command line ---------------------------------------------------------------------------------------------------

MODEL = """
import pullback as pb

def step(params, x, rate=0.1):
    loss, gradient = pb.value_and_grad(lambda p: pb.numpy.mean((x @ p["w"] + p["b"]) ** 2))(params)
    return pb.tree.map(lambda p, g: p - rate * g, params, gradient), loss

def broken(x):
    raise RuntimeError("mine")
"""


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


PARAMS = "{w: f32[64,32]@(·,model), b: f32[32]}"


def test_command_line(model, capsys):
    given = ["--mesh", "data=4,model=2", "--for", "cpu", "--arg", PARAMS, "--arg", "f32[64,64]@data", "--link", "1GB/s"]
    assert main(["plan", f"{model}:step", *given, "--donate", "0", "--static", "rate=0.5"]) == 0
    text = capsys.readouterr().out
    for wanted in (
        "plan of step for 8 devices (data=4, model=2): devices into which a CPU is divided",
        ":f32[64,32]@(·,model),",  # in the Program, without a device
        "params['w']: f32[64,32]@(·,model)",  # among the arguments
        "  all-reduce            data ",
        "at 1GB/s",
    ):
        assert wanted in text
    assert "cpu(0)" not in text
    assert main(["plan", f"{model}:step", *given, "--brief"]) == 0
    assert "lambda" not in capsys.readouterr().out


@pytest.mark.parametrize("spec", ["data", "(data, _)", "(data,·)", "(data, None)", "((data,),)"])
def test_specs_on_the_command_line(spec, model, capsys):
    given = ["--mesh", "data=4", "--for", "cpu", "--brief", "--arg", "{w: f32[64,32], b: f32[32]}"]
    assert main(["plan", f"{model}:step", *given, "--arg", f"f32[64,64]@{spec}"]) == 0
    shown = capsys.readouterr().out
    assert main(["plan", f"{model}:step", given[-1], f"f32[64,64]@{spec}", *given[:-2]]) == 0  # as for xpr
    assert capsys.readouterr().out == shown
    assert "x: f32[64,64]@(data,·)" in shown


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (["--mesh", "data"], "--mesh takes names and sizes"),
        (["--mesh", "data=0"], "--mesh data=0"),
        (["--mesh", "data=2,data=2"], "--mesh data=2,data=2"),
        (["--for", "h10"], "Did you mean 'h100'?"),
        (["--link", "fast"], "A link's speed"),
        (["--donate", "x"], "--donate takes numbers"),
        (["--donate", "2"], "--donate 2: there are 2 arguments"),
        (["--arg", "f32[3]", "--arg", "f32[3]"], "4 types were given"),
        (["--static", "nothing=1"], "--static names 'nothing'"),
    ],
)
def test_wrong_command_lines(changed, says, model, capsys):
    given = ["--mesh", "data=4", "--for", "cpu", "--arg", "{w: f32[64,32], b: f32[32]}", "--arg", "f32[64,64]"]
    assert main(["plan", f"{model}:step", *given, *changed]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "type", ["f32[64,64]@model", "f32[63]@data", "f32[64]@(data,data)", "f32[64]@3", "f32[64]@[data]", "f32[8]@"]
)
def test_wrong_types_on_the_command_line(type, model, capsys):
    assert main(["plan", f"{model}:broken", "--mesh", "data=4", "--for", "cpu", "--arg", type]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_errors_of_the_users_own(model, capsys):
    assert main(["plan", f"{model}:broken", "--mesh", "data=4", "--for", "cpu", "--arg", "f32[4]"]) == 1
    error = capsys.readouterr().err
    assert "mine" in error and "pullback/" not in error
