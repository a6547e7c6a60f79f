"""Plugins for accelerators: made-up installations, up to loading; the real one, where it is installed, up to "no device"."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from processes import run

import pullback as pb
from pullback.core.errors import DeviceError, NoDevices, PluginMissing
from pullback.engine import plugins
from pullback.engine.jaxlib import jaxlib
from pullback.engine.plugins import Plugin

VERSION = ".".join(map(str, plugins.parse_version(jaxlib().version)))


def make_plugin(folder, version=VERSION, name="xla_cuda13", library="xla_cuda_plugin.so", announced=True, extension=True):
    """An installation as pip makes it, of a library that is none; its Python module must not be imported."""
    package = folder / "jax_plugins" / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package / library).write_bytes(b"no library")
    if announced:
        info = folder / f"jax_cuda13_pjrt-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: jax-cuda13-pjrt\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[jax_plugins]\n{name} = jax_plugins.{name}\n")
        (info / "RECORD").write_text(f"jax_plugins/{name}/__init__.py,,\njax_plugins/{name}/{library},,\n")
    if extension:
        (folder / "jax_cuda13_plugin").mkdir()
        (folder / "jax_cuda13_plugin" / "__init__.py").write_text("")
        (folder / "jax_cuda13_plugin" / "cuda_plugin_extension.py").write_text("")
    return package / library


@pytest.fixture
def without_installed(monkeypatch, tmp_path):
    """Only what is in `tmp_path` is installed."""
    metadata = plugins.metadata
    monkeypatch.setattr(
        plugins,
        "metadata",
        types.SimpleNamespace(
            entry_points=lambda group: [
                entry
                for found in metadata.distributions(path=[str(tmp_path)])
                for entry in found.entry_points.select(group=group)
            ]
        ),
    )
    monkeypatch.setattr(plugins.sys, "path", [str(tmp_path)])
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)


# ---- finding ------------------------------------------------------------------------------------------------------------


def test_announced_by_an_entry_point(without_installed, tmp_path):
    library = make_plugin(tmp_path)
    assert plugins.find_plugins() == {"cuda": Plugin("cuda", "xla_cuda13", library, "jax-cuda13-pjrt", VERSION)}
    assert plugins.find_plugins()["cuda"].extension == "jax_cuda13_plugin"


def test_files_alone(without_installed, tmp_path):
    library = make_plugin(tmp_path, announced=False)
    (tmp_path / "jax_plugins" / "notes").mkdir()
    (tmp_path / "jax_plugins" / "notes" / "other.so").write_bytes(b"")  # whose name says nothing of a plugin
    assert plugins.find_plugins() == {"cuda": Plugin("cuda", "xla_cuda13", library)}


def test_a_file_that_is_gone(without_installed, tmp_path):
    make_plugin(tmp_path).unlink()
    assert plugins.find_plugins() == {}
    with pytest.raises(PluginMissing, match="pip install 'pullback"):
        plugins.installed("cuda")


@pytest.mark.parametrize(
    ("name", "library", "platform"),
    [
        ("xla_rocm7", "xla_rocm_plugin.so", "rocm"),
        ("metal_plugin", "pjrt_plugin_metal_14.dylib", "metal"),
        ("abacus", "pjrt_abacus.so", "abacus"),
    ],
)
def test_other_platforms(name, library, platform, without_installed, tmp_path):
    make_plugin(tmp_path, name=name, library=library)
    assert list(plugins.find_plugins()) == [platform]


def test_the_library_for_tpus(without_installed, tmp_path, monkeypatch):
    library = tmp_path / "libtpu.so"
    library.write_bytes(b"")
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(library))
    assert plugins.find_plugins() == {"tpu": Plugin("tpu", "libtpu", library)}
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(tmp_path / "nowhere.so"))
    assert plugins.find_plugins() == {}


# ---- up to loading, in processes of their own ---------------------------------------------------------------------------

ASK = """
import sys, pullback as pb
from pullback.engine import plugins
plugins._PRESENT.clear()  # as where there is a driver
for ask in ({ask}):
    try:
        ask()
    except pb.errors.DeviceError as error:
        print(type(error).__name__, error)
assert not {{"jax", "jax_plugins"}} & set(sys.modules), "imported"
"""


def ask(folder, question, **environment):
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = run(ASK.format(ask=question), "-W", "error", PYTHONPATH=path, **environment)
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


@pytest.mark.skipif("cuda" in plugins.find_plugins(), reason="the real plugin would be found as well")
def test_what_is_wrong_with_an_installation(tmp_path):
    (tmp_path / "whole").mkdir()
    make_plugin(tmp_path / "whole")
    library, alias, eager = ask(
        tmp_path / "whole",
        "lambda: pb.devices('cuda'), lambda: pb.devices('gpu'), lambda: pb.jit(lambda x: x + 1.0)(1.0)",
        PULLBACK_PLATFORM="cuda",
    )
    for line in (library, alias, eager):
        assert line.startswith("PluginMissing") and "xla_cuda_plugin.so cannot be loaded" in line
    (tmp_path / "old").mkdir()
    make_plugin(tmp_path / "old", version="0.4.1")
    (line,) = ask(tmp_path / "old", "lambda: pb.devices('cuda'),")
    assert "jax-cuda13-pjrt 0.4.1 is installed, but jaxlib is" in line and f"'jax-cuda13-plugin[with-cuda]=={VERSION}'" in line


@pytest.mark.skipif("cuda" in plugins.find_plugins(), reason="the plugin is installed")
def test_no_plugin():
    for platform in ("cuda", "gpu"):
        with pytest.raises(PluginMissing, match=r"pip install 'pullback\[cuda\]'"):
            pb.devices(platform)
    with pytest.raises(DeviceError, match="no platform 'abacus'"):
        pb.devices("abacus")


# ---- NVIDIA's libraries -------------------------------------------------------------------------------------------------


def test_libraries_of_one_version_of_cuda(tmp_path):
    for file in (
        "cu13/lib/libcudart.so.13",
        "cu13/lib/libcublas.so.13",
        "cu13/lib/libcublasLt.so.13",
        "cublas/lib/libcublas.so.12",
        "cublas/lib/libcublasLt.so.12",
        "cudnn/lib/libcudnn.so.9",
        "nccl/lib/libnccl.so.2",
    ):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    names = [str(file.relative_to(tmp_path)) for file in plugins.nvidia_files([tmp_path], "13")]
    assert names == [
        "cu13/lib/libcudart.so.13",
        "cu13/lib/libcublasLt.so.13",
        "cu13/lib/libcublas.so.13",
        "nccl/lib/libnccl.so.2",
        "cudnn/lib/libcudnn.so.9",
    ]
    names = [str(file.relative_to(tmp_path)) for file in plugins.nvidia_files([tmp_path], "12")]
    assert names[:2] == ["cublas/lib/libcublasLt.so.12", "cublas/lib/libcublas.so.12"] and len(names) == 4


def test_a_library_that_cannot_be_loaded(tmp_path, monkeypatch):
    (tmp_path / "nvidia" / "cu13" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "cu13" / "lib" / "libcudart.so.13").write_bytes(b"no library")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginMissing, match=r"libcudart\.so\.13 cannot be loaded"):
        plugins._load_nvidia(Plugin("cuda", "xla_cuda13", tmp_path))


def versions(**changed):
    """A module that says which versions of libraries are there, and with which the plugin was built."""
    built = {name: 91200 for name, _, _ in plugins._VERSIONED}

    def missing():
        raise RuntimeError("cuDNN not found.")

    made = {f"{name}_build_version": lambda number=number: number for name, number in built.items()}
    for name, number in built.items():
        found = changed.get(name, number)
        made[f"{name}_get_version"] = missing if found is None else (lambda found=found: found)
    return types.SimpleNamespace(**made)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, None),
        ({"cudnn": 91205}, None),
        ({"cudnn": 91300}, None),
        ({"cudnn": 91100}, "cudnn 91100 is installed, but the CUDA plugin was built with 91200"),
        ({"cudnn": None}, "needs cudnn, which cannot be loaded .cuDNN not found.*pip install --upgrade nvidia-cudnn-cu13"),
        ({"cublas": 91100}, "pip install --upgrade nvidia-cublas"),
    ],
)
def test_versions_of_libraries(changed, says, monkeypatch):
    monkeypatch.setattr(plugins, "_extension", lambda plugin, name: versions(**changed))
    plugin = Plugin("cuda", "xla_cuda13", Path("nowhere"))
    if says is None:
        assert plugins._check_libraries(plugin) is None
    else:
        with pytest.raises(PluginMissing, match=says):
            plugins._check_libraries(plugin)


# ---- settings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, {}),
        ({"PULLBACK_MEMORY_FRACTION": "0.5"}, {"memory_fraction": 0.5}),
        ({"PULLBACK_MEMORY_FRACTION": "1"}, {"memory_fraction": 1.0}),
        ({"PULLBACK_PREALLOCATE": "0"}, {"preallocate": False}),
        ({"PULLBACK_PREALLOCATE": "1", "PULLBACK_MEMORY_FRACTION": ".9"}, {"preallocate": True, "memory_fraction": 0.9}),
    ],
)
def test_settings(environment, wanted, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert plugins.client_options("cuda") == {"platform_name": "cuda", "allocator": "default", **wanted}
    assert plugins.client_options("tpu") == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("PULLBACK_MEMORY_FRACTION", value) for value in ("", "0", "1.5", "-1", "nan", "half")]
    + [("PULLBACK_PREALLOCATE", value) for value in ("", "yes", "2")],
)
def test_settings_that_are_refused(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} must be"):
        plugins.client_options("cuda")


# ---- another default platform -------------------------------------------------------------------------------------------

OTHER = """
import numpy as np, pullback as pb
from pullback.engine.jaxlib import jaxlib
pb.register_platform("other", lambda: jaxlib().client_module.make_cpu_client(asynchronous=False, num_devices=2))
pnp = pb.numpy
here, there = pb.devices()
assert str(here) == "other(0)" and pb.device_count() == 2 and pb.make_mesh((2,), ("data",)).devices[1] == there
f = pb.jit(lambda x: pnp.sin(x) * 2.0)
for x in (np.ones(4, np.float32), pnp.ones(4), f(pnp.ones(4)), 1.0):
    assert f(x).device == here, x
assert pb.device_put(1.0).device == here and f(pb.device_put(pnp.ones(2), there)).device == there
assert pb.jit(pb.grad(lambda x: pnp.sum(x * x)))(pnp.ones(3)).device == here
assert f(pb.device_put(pnp.ones(4), pb.devices("cpu")[0])).device == pb.devices("cpu")[0]
with pb.default_device(there):
    assert f(pnp.ones(4)).device == there
np.testing.assert_allclose(np.asarray(f(pnp.arange(3.0))), 2 * np.sin(np.arange(3)), rtol=1e-6)
print("done")
"""


def test_another_default_platform():
    found = run(OTHER, "-W", "error", PULLBACK_PLATFORM="other")
    assert found.stdout == "done\n", found.stderr


def test_a_default_platform_that_does_not_exist():
    found = run("import pullback as pb; pb.jit(lambda x: x + 1.0)(1.0)", PULLBACK_PLATFORM="abacus")
    assert "DeviceError: There is no platform 'abacus'" in found.stderr


# ---- the real plugin, where it is installed -----------------------------------------------------------------------------


@pytest.mark.skipif("cuda" not in plugins.find_plugins(), reason="the CUDA plugin is not installed")
def test_the_plugin_without_a_device():
    code = (
        "import pullback as pb, sys\ntry:\n pb.devices('cuda')\nexcept pb.errors.NoDevices as e: print(e, 'jax' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, timeout=60
    )
    assert found.stdout.endswith("False\n"), found.stderr


def test_no_driver(monkeypatch):
    def cannot(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(plugins.ctypes, "CDLL", cannot)
    with pytest.raises(NoDevices, match=r"no driver of NVIDIA's \(libcuda\.so\.1: cannot open"):
        plugins._check_driver()
