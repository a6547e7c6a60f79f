"""Accelerators by plugin: shared libraries of PJRT's C interface, found and loaded without importing their Python modules.

A plugin's package announces itself by an entry point in the group `jax_plugins`. The module that it names imports jax, so only
the package's files are looked at, and what that module would do is done here: NVIDIA's libraries are loaded, versions compared,
and the types and kernels that XLA calls registered. Nothing of this was run on an accelerator: the tests go up to "no visible
device", and compile for devices that are not there (`topologies.py`).
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pullback.core.brief import brief
from pullback.core.errors import DeviceError, NoDevices, PluginMissing
from pullback.core.lazy import lazy_module
from pullback.engine.backend import Backend, backend, platforms
from pullback.engine.backend import plugins as registry
from pullback.engine.jaxlib import jaxlib, parse_version, runtime_error, spell
from pullback.engine.xla import register_platform

metadata = lazy_module("importlib.metadata")

GROUP = "jax_plugins"
_PLATFORMS = ("cuda", "rocm", "metal", "tpu")
_LIBRARIES = (".so", ".dylib", ".dll")
_CURES = {
    "cuda": "pip install 'pullback[cuda]', on Linux",
    "tpu": "pip install libtpu, or name its file in the environment variable TPU_LIBRARY_PATH",
    "rocm": "install the PJRT plugin of AMD's, jax-rocm7-pjrt",
    "metal": "install the PJRT plugin of Apple's, jax-metal",
}
_ALIASES = {"gpu": ("cuda", "rocm")}  # jaxlib's name for both

# The libraries of NVIDIA's that the plugin asks for by name, those first that others need.
_NVIDIA = ("cudart", "nvrtc", "cublasLt", "cublas", "nccl", "cupti", "cusparse", "cusolver", "cufft", "nvshmem_host", "cudnn")

# What `_versions` of the plugin's extension can tell: as it says so, as its wheel is called, and what a step of the number that
# has to be as great as that which the plugin was built with is: 1000 * major + 10 * minor, or with patches behind.
_VERSIONED = (
    ("cuda_runtime", "nvidia-cuda-runtime", 10),
    ("cudnn", "nvidia-cudnn-cu13", 100),
    ("cufft", "nvidia-cufft", 100),
    ("cublas", "nvidia-cublas", 100),
    ("cusparse", "nvidia-cusparse", 100),
    ("cupti", "nvidia-cuda-cupti", 1000),
)


class Plugin(NamedTuple):
    """An installed plugin.

    Attributes:
        platform: what it is called here: `cuda`. name: what its package calls it: `xla_cuda13`.
        library: its shared library. package, version: of the package that it is in, where that is known, else empty.
    """

    platform: str
    name: str
    library: Path
    package: str = ""
    version: str = ""

    @property
    def extension(self) -> str:
        """The package of what XLA calls besides the plugin: of `xla_cuda13`, `jax_cuda13_plugin`."""
        return f"jax_{self.name.removeprefix('xla_')}_plugin"


def find_plugins() -> dict[str, Plugin]:
    """The plugin of each platform for which one is installed."""
    found: dict[str, Plugin] = {}
    for plugin in (*_announced(), *_in_folders(), *_libtpu()):
        found.setdefault(plugin.platform, plugin)
    return found


def _announced() -> Iterator[Plugin]:
    """Those that packages announce by entry points."""
    for entry in metadata.entry_points(group=GROUP):
        package = entry.dist
        for file in (package.files or []) if package is not None else []:
            path = Path(str(package.locate_file(file)))
            if _is_plugin(path) and path.exists():
                yield Plugin(_platform_of(entry.name, path), entry.name, path, package.name, package.version)


def _in_folders() -> Iterator[Plugin]:
    """Those whose files are there without metadata, as where a wheel was unpacked."""
    for folder in map(Path, sys.path):
        for path in sorted((folder / GROUP).glob("*/*")):
            if _is_plugin(path):
                yield Plugin(_platform_of(path.parent.name, path), path.parent.name, path)


def _libtpu() -> Iterator[Plugin]:
    """Google's library for TPUs, which announces nothing."""
    spec = importlib.util.find_spec("libtpu")
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    given = os.environ.get("TPU_LIBRARY_PATH")
    for path in [Path(given)] if given else [Path(folder) / "libtpu.so" for folder in folders]:
        if path.exists():
            yield Plugin("tpu", "libtpu", path)


def _is_plugin(path: Path) -> bool:
    return path.suffix in _LIBRARIES and ("pjrt" in path.name or "plugin" in path.name)


def _platform_of(name: str, path: Path) -> str:
    return next((known for known in _PLATFORMS if known in name or known in path.name), name)


@functools.cache
def discover() -> tuple[str, ...]:
    """Make the platforms of installed plugins known; their clients are made when they are first used."""
    found = find_plugins()
    for platform, plugin in found.items():
        if platform not in platforms():
            register_platform(platform, functools.partial(make_client, plugin))
    return tuple(found)


def platform_named(name: str) -> Backend:
    """The back end of a platform, the CPU's or a plugin's, started now if it was not yet.

    Raises:
        PluginMissing: it is a platform for which there is a plugin, which is not installed here. NoDevices: it has no device.
        DeviceError: there is no such platform.
    """
    if name in _ALIASES and name not in platforms():
        discover()
        name = next((own for own in _ALIASES[name] if own in platforms()), _ALIASES[name][0])
    return backend(name)


def _look_for(name: str) -> None:
    if name not in discover() and name in _CURES:
        raise PluginMissing(f"No plugin for platform {name!r} is installed: {_CURES[name]}.")


registry.look_for = _look_for


def installed(platform: str) -> Plugin:
    """The plugin of a platform. Raises `PluginMissing` if it is not installed."""
    found = find_plugins().get(platform)
    if found is None:
        raise PluginMissing(f"No plugin for platform {platform!r} is installed: {_CURES[platform]}.")
    return found


# ---- loading ------------------------------------------------------------------------------------------------------------


def load(plugin: Plugin) -> Any:
    """PJRT's interface of a plugin, once it is loaded, with what XLA calls besides it.

    Raises:
        PluginMissing: a part of it is not installed, cannot be loaded, or is of another version than jaxlib.
    """
    _check_version(plugin)
    lib, extension = jaxlib(), None
    if plugin.platform == "cuda":
        _load_nvidia(plugin)
        extension = _extension(plugin, "cuda_plugin_extension")

    def prepare(interface: Any) -> None:
        if extension is not None:
            lib.register_extension("CUDA", extension, interface)

    try:
        return lib.plugin(plugin.platform, str(plugin.library), prepare)
    except runtime_error() as error:
        raise PluginMissing(
            f"{plugin.library} cannot be loaded: {error}. Install it again, in a version that goes with jaxlib."
        ) from error


def _check_version(plugin: Plugin) -> None:
    """The two are released together, and a plugin of one version reads what jaxlib of another writes only by chance."""
    mine = jaxlib().version
    if plugin.package and plugin.platform == "cuda" and parse_version(plugin.version) != parse_version(mine):
        own = spell(parse_version(mine))
        package = plugin.extension.replace("_", "-")
        raise PluginMissing(
            f"{plugin.package} {plugin.version} is installed, but jaxlib is {mine}, and the two go together by their versions:"
            f" pip install '{package}[with-cuda]=={own}' '{plugin.package}=={own}'."
        )


def _extension(plugin: Plugin, name: str) -> Any:
    try:
        return importlib.import_module(f"{plugin.extension}.{name}")
    except ImportError as error:
        package = plugin.extension.replace("_", "-")
        raise PluginMissing(
            f"The plugin {plugin.library} needs the package {package}, which cannot be imported ({error}):"
            f" {_CURES[plugin.platform]}."
        ) from error


def _load_nvidia(plugin: Plugin) -> None:
    """Load NVIDIA's libraries from their wheels, where they are: the plugin asks for them by name, and finds those that are
    loaded. Others it looks for where the system has them."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    for file in nvidia_files([Path(place) for place in places], re.sub(r"\D", "", plugin.name)):
        try:
            ctypes.CDLL(str(file))
        except OSError as error:
            raise PluginMissing(f"{file} cannot be loaded ({error}): {_CURES['cuda']}.") from error


def nvidia_files(places: Sequence[Path], version: str) -> Iterator[Path]:
    """The libraries of one version of CUDA in the folders of NVIDIA's wheels, in the order in which they are to be loaded.

    Wheels of several versions may be there: since 13 they share a folder, `cu13`, but for those that go with each version.
    """
    for name in _NVIDIA:
        files = [file for place in places for file in sorted(place.glob(f"*/lib/lib{name}.so*"))]
        own = [file for file in files if file.parts[-3] == f"cu{version}"]
        yield from (own or [file for file in files if not re.fullmatch(r"cu\d+", file.parts[-3])])[:1]


def make_client(plugin: Plugin) -> Any:
    """The PJRT client of a plugin's devices.

    Raises:
        PluginMissing: as `load`. NoDevices: the plugin is there, and finds no device.
    """
    options = client_options(plugin.platform)
    if sys.platform == "linux" and plugin.platform in _PRESENT:
        _PRESENT[plugin.platform]()
    load(plugin)
    if plugin.platform == "cuda":
        _check_libraries(plugin)
    try:
        return jaxlib().plugin_client(plugin.platform, options)
    except runtime_error() as error:
        text = str(error)
        if any(sign in text for sign in _NO_DEVICE):
            raise NoDevices(f"The plugin for {plugin.platform!r} finds no device: {text} {_SEE[plugin.platform]}") from error
        raise DeviceError(f"The plugin for {plugin.platform!r} cannot use its devices: {text}") from error


_NO_DEVICE = ("No visible", "no CUDA-capable device", "device found", "NOT_FOUND", "cuInit")
_SEE = {
    "cuda": "nvidia-smi lists the devices of this machine; CUDA_VISIBLE_DEVICES may hide them.",
    "tpu": "TPUs are seen on TPU machines alone, by one process at a time.",
    "rocm": "rocm-smi lists the devices of this machine; ROCR_VISIBLE_DEVICES may hide them.",
    "metal": "It needs a Mac with a processor of Apple's.",
}


def _check_driver() -> None:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoDevices(
            f"The CUDA plugin is installed, but there is no driver of NVIDIA's ({error}), and so no device. In a container,"
            " start it with the devices (docker run --gpus all)."
        ) from error


def _check_chips() -> None:
    """Elsewhere Google's library asks the cloud's metadata where it is, for minutes."""
    if not any([_GOOGLE in file.read_text() for file in Path("/sys/bus/pci/devices").glob("*/vendor")]):
        raise NoDevices(f"The library for TPUs is installed, but there is no TPU. {_SEE['tpu']}")


_GOOGLE = "0x1ae0"  # as a vendor of PCI devices
_PRESENT = {"cuda": _check_driver, "tpu": _check_chips}


def _check_libraries(plugin: Plugin) -> None:
    """Compare NVIDIA's libraries with those that the plugin was built with: older ones fail in the middle of a computation."""
    versions = _extension(plugin, "_versions")
    for name, wheel, step in _VERSIONED:
        built = getattr(versions, f"{name}_build_version")()
        cure = f"pip install --upgrade {wheel}, or all of them by 'pullback[cuda]'"
        try:
            found = getattr(versions, f"{name}_get_version")()
        except RuntimeError as error:
            raise PluginMissing(f"The CUDA plugin needs {name}, which cannot be loaded ({error}): {cure}.") from error
        if found // step < built // step:
            raise PluginMissing(f"{name} {found} is installed, but the CUDA plugin was built with {built}: {cure}.")


def client_options(platform: str) -> dict[str, Any]:
    """What a plugin is told when its client is made, from the environment.

    Raises:
        ValueError: a variable has no value that it can have.
    """
    if platform not in ("cuda", "rocm"):
        return {}
    options: dict[str, Any] = {"platform_name": platform, "allocator": "default"}
    fraction = _setting("PULLBACK_MEMORY_FRACTION", "a number above 0 and up to 1", _fraction)
    if fraction is not None:
        options["memory_fraction"] = fraction
    preallocate = _setting("PULLBACK_PREALLOCATE", "0 or 1", {"0": False, "1": True}.get)
    if preallocate is not None:
        options["preallocate"] = preallocate
    return options


def _fraction(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number <= 1 else None


def _setting(name: str, wanted: str, read: Callable[[str], Any]) -> Any:
    given = os.environ.get(name)
    if given is None:
        return None
    value = read(given)
    if value is None:
        raise ValueError(f"The environment variable {name} must be {wanted}, not {brief(given)}.")
    return value
