"""LLVM text to machine code, through llvmlite: optimised, kept on disk, loaded, and freed when nobody holds it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import platform as machine
import struct
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from pullback.core.forks import held_across_forks, lock_across_forks
from pullback.core.lazy import lazy_module
from pullback.engine import disk

llvm = lazy_module("llvmlite.binding")

FORMAT = "3"  # of what is kept on disk: another number where the pipeline, or what kernels are called with, changes

# LLVM takes 9 kB for each library of a linker that was ever loaded, until the linker goes: so each has a few only. To make one
# takes 1 ms, to load a library 0.15 (by MCJIT 1.0).
LIBRARIES = 64

_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_NEEDED = ("create_lljit_compiler", "JITLibraryBuilder", "create_pass_builder")  # of llvmlite, of which versions differ
_LEAST = {"x86_64": ("sse4.2", "ssse3", "popcnt"), "aarch64": ("neon",)}


class Target(NamedTuple):
    """What code is generated for.

    Attributes:
        triple: architecture, vendor and system, as LLVM spells them. cpu: LLVM's name of the processor.
        features: `+avx2,-avx512f,...`: what it has and has not, where its name does not say it.
    """

    triple: str
    cpu: str
    features: str = ""

    @property
    def vector_bytes(self) -> int:
        """How wide its vector registers are."""
        if self.triple.startswith("x86_64"):
            if self.avx512:
                return 64
            return 32 if "+avx" in self.features.split(",") or self.cpu == "x86-64-v3" else 16
        return 16

    @property
    def avx512(self) -> bool:
        """Whether it has AVX-512."""
        intel = self.triple.startswith("x86_64")
        return intel and ("+avx512f" in self.features.split(",") or self.cpu == "x86-64-v4")

    @property
    def fma(self) -> bool:
        """Whether it has fused multiply-add."""
        intel = self.triple.startswith("x86_64")
        return not intel or "+fma" in self.features.split(",") or self.cpu in ("x86-64-v3", "x86-64-v4")


@functools.cache
def unavailable() -> str | None:
    """Why there is no machine code of ours in this process; None if there can be."""
    architecture = _ARCHITECTURES.get(machine.machine().lower())
    if architecture is None:
        return f"code is generated for x86-64 and aarch64 processors only, and this is {machine.machine() or 'an unknown one'}"
    if struct.calcsize("P") != 8:
        return "this is a Python of 32 bits"
    if sys.implementation.name != "cpython":
        return f"the entry calls CPython's C API, and this is {sys.implementation.name}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this is a Python without the global interpreter lock"
    try:
        lacks = [name for name in _NEEDED if not hasattr(llvm, name)]
    except (ImportError, OSError) as error:  # OSError: the library that it brings cannot be loaded
        return f"llvmlite cannot be loaded ({error}); pip install llvmlite"
    if lacks:
        return f"this llvmlite is too old: it has no {', '.join(lacks)}; pip install --upgrade llvmlite"
    try:
        features: Mapping[str, bool] = llvm.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot ask this system
        features = dict.fromkeys(_LEAST[architecture], architecture == "aarch64")
    missing = [feature for feature in _LEAST[architecture] if not features.get(feature)]
    if missing:
        return f"this processor has no {', '.join(missing)}"
    return None


@functools.cache
def host() -> Target:
    """The processor that this runs on."""
    try:
        features = llvm.get_host_cpu_features().flatten()
    except RuntimeError:
        features = ""
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


@functools.cache
def _machine(target: Target, jit: bool) -> Any:
    """LLVM's generator for a target; to make one takes as long as to compile a small kernel."""
    if target.triple == llvm.get_process_triple():
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=2,
        reloc="default" if jit else "pic",
        codemodel="jitdefault" if jit else "default",
        jit=jit,
    )


def _optimised(source: str, target: Target, jit: bool = True) -> tuple[Any, Any]:
    """A module after the passes that it needs, and the generator for it.

    Text comes as it should be: vectors, unrolled loops, nothing twice. So kernels gain nothing by the passes of -O2, which take
    half as long as generating code, and for which LLVM keeps 60 to 300 kB a module until the process ends. And in LLVM 22 one
    of them (SROA) is wrong: where vectors fill an array on the stack, and all of it is read then, it joins them behind the one
    with the highest address, where those that are stored later are not computed yet.
    """
    generator = _machine(target, jit)
    module = llvm.parse_assembly(source)
    module.verify()
    module.triple, module.data_layout = target.triple, str(generator.target_data)
    builder = llvm.create_pass_builder(generator, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()  # functions that only rejected alternatives call
    passes.run(module, builder)
    return module, generator


def _llvms_lock() -> Any:
    """The lock, which has no public name, under which llvmlite calls LLVM, also to free what nobody holds any more."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    return getattr(ffi and ffi.lib, "_lock", contextlib.nullcontext())


held_across_forks(lambda: _llvms_lock().__enter__(), lambda: _llvms_lock().__exit__(None, None, None))
_lock = lock_across_forks()  # what LLVM is told in several steps


def optimised_text(source: str, target: Target | None = None) -> str:
    """A module as LLVM has optimised it."""
    with _lock:
        return str(_optimised(source, target or host())[0])


def assembly(source: str, target: Target | None = None) -> str:
    """A module in the processor's own language."""
    with _lock:
        module, generator = _optimised(source, target or host(), jit=target is None)
        return str(generator.emit_assembly(module))


def key(source: str, target: Target) -> str:
    """The key of the code that is generated for a module: a digest of all that it depends on."""
    inputs = {
        "module": source,
        "format": FORMAT,
        "target": repr(tuple(target)),
        "llvm": repr(llvm.llvm_version_info),
    }
    return disk.digest(inputs)


def object_code(source: str, target: Target | None = None, kept: bool = True) -> bytes:
    """A module's object file: from disk, or generated now and kept there."""
    target = target or host()
    name = key(source, target)
    found = disk.read(name) if kept else None
    if found is None:
        with _lock:
            module, generator = _optimised(source, target)
            found = bytes(generator.emit_object(module))
        if kept:
            disk.write(name, found)
    return found


# ---- loaded code ------------------------------------------------------------------------------------------------------------


class _Linker:
    """Puts object files in memory. LLVM frees what one of them took when its tracker goes."""

    def __init__(self) -> None:
        self.raw = llvm.create_lljit_compiler(_machine(host(), True))
        self.left = LIBRARIES


_linkers: list[_Linker] = []
_numbers = itertools.count()


class LoadedCode:
    """Machine code in memory, for as long as this object lives. `addresses` has those of the functions that were asked for."""

    __slots__ = ("__weakref__", "_tracker", "addresses", "size")

    def __init__(self, code: bytes, functions: Sequence[str]) -> None:
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in functions:
            library.export_symbol(name)
        with _lock:
            if not _linkers or not _linkers[0].left:
                _linkers[:] = [_Linker()]
            linker = _linkers[0]
            linker.left -= 1
            self._tracker = library.link(linker.raw, f"pullback_{next(_numbers)}")
        self._tracker.linker = linker  # which must live longer
        self.addresses = {name: self._tracker[name] for name in functions}
        self.size = len(code)


_loaded: WeakValueDictionary[str, LoadedCode] = WeakValueDictionary()


def loaded(source: str, functions: Sequence[str] = ("kernel",)) -> LoadedCode:
    """A module's code, generated and loaded; equal modules share it while somebody holds it. It may call the C library."""
    name = f"{key(source, host())} {functions}"
    found = _loaded.get(name)
    if found is None:
        found = LoadedCode(object_code(source), functions)
        with _lock:
            found = _loaded.setdefault(name, found)
    return found
