"""Executables as bytes: they run without compiling, in processes without the source, and not on other machines."""

import pathlib
import re
import runpy

import numpy as np
import pytest
from processes import run

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import DonatedBufferError, DtypeError, ExportError, ForeignExecutable, ShapeError, StructureError
from pullback.engine import shipping

X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)
LARGE = pnp.asarray(np.linspace(0.0, 1.0, 400, dtype=np.float32).reshape(100, 4))


def shipped(f, *args, **kwargs):
    return pb.export.load_executable(pb.jit(f).lower(*args, **kwargs).compile().serialize())


def test_one_computes_what_it_did():
    f = pb.jit(lambda p, x: {"y": LARGE @ x.T * p["scale"], "c": pnp.linalg.cholesky(x @ x.T + 3.0 * pnp.eye(3))}, native=False)
    compiled = f.lower({"scale": 2.0}, X).compile()
    for again in range(2):  # the second time its code comes from the disk cache
        pb.clear_caches()
        loaded = pb.export.load_executable(f.lower({"scale": 2.0}, X).compile().serialize())
        for name, value in compiled({"scale": 2.0}, X).items():
            found = loaded({"scale": 2.0}, X)[name]
            assert found.type is value.type and np.asarray(found).tobytes() == np.asarray(value).tobytes(), (again, name)
    assert loaded.in_tree == compiled.in_tree and loaded.out_tree == compiled.out_tree and loaded.in_types == compiled.in_types
    assert loaded.out_info == compiled.out_info and "HloModule" in loaded.as_text() and loaded.cost_analysis()["flops"] > 0
    assert loaded.memory_analysis().keys() == compiled.memory_analysis().keys() and loaded.explain().tier == "xla"
    assert pb.export.load_executable(loaded.serialize())({"scale": 2.0}, X)["y"].shape == (100, 3)


def test_nothing_is_compiled():
    data = pb.jit(lambda x: pnp.sin(x) @ x.T, native=False).lower(X).compile().serialize()
    before = pb.cache_info()
    pb.export.load_executable(data)(X)
    assert pb.cache_info()[:3] == before[:3]


def test_long_sorts_are_in_it_though_this_process_leaves_them_to_others():
    x = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    assert np.array_equal(shipped(pnp.sort, x)(x), np.sort(x))


def test_unused_donated_and_constant_arguments():
    loaded = shipped(lambda unused, x: x + 1.0, 1.0, X)
    assert np.array_equal(loaded(5.0, X), X + 1.0)
    f = pb.jit(lambda x, y: x + y, donate_argnums=0)
    loaded = pb.export.load_executable(f.lower(X, X).compile().serialize())
    given = pnp.asarray(X) * 1.0
    assert np.array_equal(loaded(given, X), X + X)
    with pytest.raises(DonatedBufferError):
        given.sum()
    assert shipped(lambda: 3.0)() == 3.0 and shipped(lambda x: None, 1.0)(2.0) is None


def test_other_arguments_are_refused():
    loaded = shipped(lambda x, *, y: x + y, X, y=1.0)
    for error, args, kwargs in (
        (ShapeError, (X[:1],), {"y": 1.0}),
        (DtypeError, (X.astype(np.float64),), {"y": 1.0}),
        (StructureError, (X, X), {"y": 1.0}),
        (StructureError, (X,), {}),
    ):
        with pytest.raises(error):
            loaded(*args, **kwargs)
    with pytest.raises(TypeError, match="transform"):
        pb.grad(lambda x: pnp.sum(loaded(x, y=1.0)))(X)


@pytest.mark.parametrize("what", ["jaxlib", "jaxlib build", "platform", "client", "device kind", "processor"])
def test_other_machines_are_refused_by_name(monkeypatch, what):
    data = pb.jit(lambda x: x + 1.0).lower(1.0).compile().serialize()
    own = shipping.fingerprint
    monkeypatch.setattr(shipping, "fingerprint", lambda *given: {**own(*given), what: "another one"})
    with pytest.raises(ForeignExecutable, match=f"its {what} was .*, and here it is another one"):
        pb.export.load_executable(data)


MODEL = """
import dataclasses
import numpy as np, pullback as pb, pullback.numpy as pnp

@dataclasses.dataclass
class State:
    x: object
    v: object
    name: str = dataclasses.field(metadata={"static": True})

pb.export.register_container(State, "elsewhere.State")

@pb.jit
def step(state, dt):
    def once(i, s):
        return State(s.x + dt * s.v, s.v - dt * pnp.sin(s.x), s.name)
    return pb.lax.fori_loop(0, 10, once, state), pnp.sort(state.x)

if __name__ == "__main__":
    start = State(np.linspace(0, 1, 3000, dtype=np.float32), np.zeros(3000, np.float32), "pendulum")
    open("function", "wb").write(pb.export.export(step, platforms=("cpu", "tpu"))(start, 0.1).serialize(vjp_order=1))
    open("executable", "wb").write(step.lower(start, 0.1).compile().serialize())
    out, ordered = step(start, 0.1)
    np.savez("wanted.npz", x=out.x, v=out.v, ordered=ordered, ct=pb.grad(lambda dt: pnp.sum(step(start, dt)[0].x))(0.1))
"""

ELSEWHERE = """
import dataclasses, os, pathlib
import numpy as np, pullback as pb, pullback.numpy as pnp
assert not pathlib.Path("model.py").exists()
data = [pathlib.Path(name).read_bytes() for name in ("function", "executable")]
for read, one in zip((pb.export.deserialize, pb.export.load_executable), data):
    try:
        read(one)
        raise SystemExit("a class without a name was loaded")
    except pb.errors.ExportError as error:
        assert "'elsewhere.State'" in str(error), error

@dataclasses.dataclass
class Here:
    x: object
    v: object
    name: str = dataclasses.field(metadata={"static": True})

pb.export.register_container(Here, "elsewhere.State")
wanted = np.load("wanted.npz")
start = Here(np.linspace(0, 1, 3000, dtype=np.float32), np.zeros(3000, np.float32), "pendulum")
before = pb.cache_info().compiled
executable, function = pb.export.load_executable(data[1]), pb.export.deserialize(data[0])
for call in (executable, function.call):
    out, ordered = call(start, 0.1)
    assert type(out) is Here and out.name == "pendulum"
    for found, name in ((out.x, "x"), (out.v, "v"), (ordered, "ordered")):
        np.testing.assert_allclose(found, wanted[name], rtol=1e-6, atol=1e-6)
    if call is executable:
        assert pb.cache_info().compiled == before, "the executable was compiled"
ct = pb.grad(lambda dt: pnp.sum(function.call(start, dt)[0].x))(0.1)
np.testing.assert_allclose(ct, wanted["ct"], rtol=1e-4)
assert function.platforms == ("cpu", "tpu") and function.made_by["jaxlib"]
print("done")
"""


def test_another_process_without_the_source(tmp_path, monkeypatch):
    source = tmp_path / "model.py"
    source.write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    made = run("import runpy; runpy.run_path('model.py', run_name='__main__')", PULLBACK_CACHE_DIR="")
    assert made.returncode == 0, made.stderr
    source.unlink()
    done = run(ELSEWHERE, PULLBACK_CACHE_DIR="")
    assert done.stdout == "done\n", done.stderr


def test_each_example_of_the_page_runs(tmp_path):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "export.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)).replace("/tmp/profile", str(tmp_path / "profile"))
    (tmp_path / "page.py").write_text(code)
    runpy.run_path(str(tmp_path / "page.py"))
    assert list(tmp_path.glob("profile/plugins/profile/*/*.xplane.pb"))


def test_an_executable_for_a_device_that_is_not_here(tmp_path):
    data = run(
        "import pullback as pb, sys\n"
        "x = pb.device_put(1.0, pb.devices()[1])\n"
        "data = pb.jit(lambda x: x + 1.0).lower(x).compile().serialize()\n"
        "loaded = pb.export.load_executable(data)(x)\n"
        "assert loaded == 2.0 and loaded.device == pb.devices()[1]\n"
        "exported = pb.export.export(pb.jit(lambda x: x + 1.0))(x)\n"
        "assert exported.call(x).device == pb.devices()[1]\n"
        "print(data.hex())",
        PULLBACK_CPU_DEVICES="2",
    )
    assert data.returncode == 0, data.stderr
    with pytest.raises(ForeignExecutable, match=r"cpu\(1\); here there are only cpu\(0\)"):
        pb.export.load_executable(bytes.fromhex(data.stdout.strip()))


def test_one_that_calls_python_is_not_made_into_bytes():
    with pytest.raises(ExportError, match="its operation callback calls Python"):
        pb.jit(lambda x: pb.debug.print("{}", x)).lower(1.0).compile().serialize()
