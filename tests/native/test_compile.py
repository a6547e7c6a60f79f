"""LLVM text to machine code: for this processor and for others, kept on disk, shared, and freed."""

from __future__ import annotations

import ctypes
import gc
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from handwritten_kernels import adding_one, at_once, kernel_text, needs_entry

import pullback as pb
import pullback.numpy as pnp
from pullback.engine import disk
from pullback.native import compile as compiling
from pullback.native import entry
from pullback.native.build import build
from pullback.native.compile import Target, loaded, object_code
from pullback.native.record import record

TARGETS = {
    "v2": Target("x86_64-unknown-linux-gnu", "x86-64-v2"),
    "v3": Target("x86_64-unknown-linux-gnu", "x86-64-v3"),
    "v4": Target("x86_64-unknown-linux-gnu", "x86-64-v4"),
    "aarch64": Target("aarch64-unknown-linux-gnu", "generic", "+neon"),
    "apple": Target("arm64-apple-darwin23.0.0", "apple-m1"),
}
WIDE = kernel_text(
    """  %v = load <16 x float>, ptr %x0, align 4
  %r = call <16 x float> @llvm.fma.v16f32(<16 x float> %v, <16 x float> %v, <16 x float> %v)
  store <16 x float> %r, ptr %y0, align 4
  ret i32 0
""",
    "declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)",
)

pytestmark = needs_entry


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    "name, instruction",
    [("v2", "xmm"), ("v3", "vfmadd"), ("v4", "zmm"), ("aarch64", "fmla"), ("apple", "fmla")],
)
def test_a_kernel_compiles_for_other_processors(name: str, instruction: str) -> None:
    target = TARGETS[name]
    text = compiling.assembly(WIDE if name != "v2" else adding_one().source.replace("add float", "mul float"), target)
    assert "kernel" in text and instruction in text
    assert len(object_code(WIDE, target, kept=False)) > 300


@pytest.mark.parametrize("name, width, fma", [("v2", 16, False), ("v3", 32, True), ("v4", 64, True), ("aarch64", 16, True)])
def test_what_processors_have(name: str, width: int, fma: bool) -> None:
    assert TARGETS[name].vector_bytes == width
    assert TARGETS[name].fma == fma
    assert not Target("x86_64-linux", "znver3", "+avx2,-fma").fma
    assert Target("x86_64-linux", "znver3", "+avx2,+fma").fma


def test_kernels_are_written_for_their_processor() -> None:
    """Without fused multiply-add its emulation, which takes a call for each number, is not asked for."""
    program = pb.jit(pnp.exp).trace(pb.ArrayType((64,), "float64")).program
    with_it, without = (build(program, record(program), TARGETS[name]).source for name in ("v3", "v2"))
    assert "@llvm.fma" in with_it and "@llvm.fma" not in without
    assert "fma" not in compiling.assembly(without, TARGETS["v2"])


def test_loops_stay_as_they_were_written() -> None:
    """Kernels come with the vectors that they want."""
    text = compiling.optimised_text(adding_one(1000).source)
    assert text.count("fadd") == 1 and "x float>" not in text


def test_text_that_is_no_module_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="expected"):
        loaded("define i32 @kernel( {")
    with pytest.raises(RuntimeError):  # it is not of the type that it returns
        loaded("define i32 @kernel() {\n  ret double 1.0\n}")


def test_a_function_that_nobody_has_is_an_error() -> None:
    text = "declare double @no_such_function_of_c(double)\n" + kernel_text(
        "  %v = call double @no_such_function_of_c(double 1.0)\n  store double %v, ptr %y0\n  ret i32 0\n"
    )
    with pytest.raises(RuntimeError, match="materialize symbols"):
        loaded(text)


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (2, 0, 1), (3, 2, 1, 0)])
def test_small_arrays_are_stored_in_any_order(order: tuple[int, ...]) -> None:
    """LLVM 22 would read vectors before they are made, where an array is stored from its end on (a pass that we do not run)."""
    size = 4 * len(order)
    stores = [
        f"""  %p{i} = getelementptr i8, ptr %in, i64 {16 * i}
  %v{i} = load <4 x float>, ptr %p{i}, align 4
  %q{i} = getelementptr i8, ptr %a, i64 {16 * i}
  store <4 x float> %v{i}, ptr %q{i}, align 4
"""
        for i in order
    ]
    whole = f"  %r = load <{size} x float>, ptr %a, align 4\n  store <{size} x float> %r, ptr %out, align 4\n"
    head = f"define void @kernel(ptr %in, ptr %out) {{\n  %a = alloca [{4 * size} x i8], align 64\n"
    code = loaded(f"{head}{''.join(stores)}{whole}  ret void\n}}")
    given, found = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.addresses["kernel"])(given.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found, given)


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "log", "lgamma", "erf", "cbrt"])
def test_kernels_call_the_c_library(name: str) -> None:
    body = f"  %y = call double @{name}(double %x)\n  ret double %y\n"
    code = loaded(f"declare double @{name}(double)\ndefine double @kernel(double %x) {{\n{body}}}")
    value = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.addresses["kernel"])(0.75)
    expected = {"cbrt": lambda x: x ** (1 / 3)}.get(name) or getattr(math, name)
    assert value == pytest.approx(expected(0.75), rel=1e-15)


def _constant(number: int) -> str:
    return f"define i32 @kernel() {{\n  ret i32 {number}\n}}"


def _called(code: Any) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int32)(code.addresses["kernel"])())


def test_code_is_kept_on_disk(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = object_code(_constant(71))
    files = [path for path in (own_folder / disk.FOLDER).iterdir() if path.suffix == ".xla"]
    assert len(files) == 1

    def refuse(*ignored: Any) -> Any:
        raise AssertionError("it was compiled again")

    monkeypatch.setattr(compiling, "_optimised", refuse)
    assert object_code(_constant(71)) == made and _called(loaded(_constant(71))) == 71
    with pytest.raises(AssertionError, match="compiled again"):
        object_code(_constant(72))
    files[0].write_bytes(files[0].read_bytes()[:-3])  # what is broken is made again
    with pytest.raises(AssertionError, match="compiled again"):
        object_code(_constant(71))


def test_another_process_finds_it(own_folder: Path) -> None:
    text = _constant(73)
    object_code(text)
    program = f"""
from pullback.native import compile as compiling
from pullback.native import entry
compiling._optimised = None
import ctypes
code = compiling.loaded({text!r})
print(ctypes.CFUNCTYPE(ctypes.c_int32)(code.addresses["kernel"])())
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "73"


def test_the_key_says_all_that_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {compiling.key(_constant(1), target) for target in TARGETS.values()}
    keys.add(compiling.key(_constant(2), TARGETS["v3"]))
    keys.add(compiling.key(_constant(1), TARGETS["v3"]._replace(features="+sse4.2")))
    monkeypatch.setattr(compiling, "FORMAT", "another")
    keys.add(compiling.key(_constant(1), TARGETS["v3"]))
    monkeypatch.setattr(compiling.llvm, "llvm_version_info", (1, 2, 3))
    keys.add(compiling.key(_constant(1), TARGETS["v3"]))
    assert len(keys) == len(TARGETS) + 4


def test_equal_modules_share_code_while_it_is_held() -> None:
    one = loaded(_constant(74))
    assert loaded(_constant(74)) is one and loaded(_constant(75)) is not one
    names = {name for name, code in compiling._loaded.items() if code is one}
    assert len(names) == 1
    del one
    gc.collect()
    assert not names & {*compiling._loaded}


def test_memory_of_code_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code of 100 kB each."""
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "")
    big = f'@data = constant [100000 x i8] c"{"x" * 100000}"\ndefine ptr @kernel() {{\n  ret ptr @data\n}}'
    code = object_code(big)

    def load(times: int) -> int:
        for _ in range(times):
            address = compiling.LoadedCode(code, ("kernel",)).addresses["kernel"]
            assert address
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4 if Path("/proc/self/statm").exists() else 0

    before = load(2 * compiling.LIBRARIES)
    assert load(4 * compiling.LIBRARIES) - before < 5000  # kB; what was loaded would be 25,000


def test_memory_of_the_compiler_is_freed() -> None:
    """Modules of 300 vector instructions, for each of which LLVM's passes for -O2 would keep 50 kB."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("it is not known how much memory the process has")
    lines = [f"  %v{i + 1} = fadd <8 x float> %v{i}, splat (float {i}.0)\n" for i in range(300)]
    stored = [f"  store <8 x float> %v{i}, ptr %a\n" for i in range(300)]
    text = f"define void @kernel(ptr %a) {{\n  %v0 = load <8 x float>, ptr %a\n{''.join(lines)}{''.join(stored)}  ret void\n}}"

    def generate(times: int) -> int:
        for _ in range(times):
            object_code(text, kept=False)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4

    before = generate(20)
    assert generate(100) - before < 2000  # kB


def test_eight_threads_compile_at_once() -> None:
    wrong = []

    def work(seed: int) -> None:
        for i in range(12):
            number = 1000 + (seed * 5 + i) % 16
            if _called(loaded(_constant(number))) != number:
                wrong.append(number)

    at_once(work)
    assert wrong == []


@pytest.mark.parametrize(
    "module, attribute, value, reason",
    [
        ("machine", "machine", lambda: "riscv64", "x86-64 and aarch64 processors only, and this is riscv64"),
        ("struct", "calcsize", lambda which: 4, "32 bits"),
        ("sysconfig", "get_config_var", lambda which: 1, "without the global interpreter lock"),
        ("llvm", "get_host_cpu_features", lambda: {"sse4.2": False, "ssse3": True, "popcnt": True, "neon": False}, "has no"),
    ],
)
def test_it_is_said_why_there_is_no_machine_code(
    monkeypatch: pytest.MonkeyPatch, module: str, attribute: str, value: Any, reason: str
) -> None:
    _ = compiling.llvm.get_host_cpu_features  # a module that is loaded when it is used
    monkeypatch.setattr(getattr(compiling, module), attribute, value)
    assert reason in str(compiling.unavailable.__wrapped__())


class Refusing:
    """A module whose attributes cannot be had."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        (Refusing(ModuleNotFoundError("No module named 'llvmlite'")), "pip install llvmlite"),
        (Refusing(OSError("libstdc++.so.6: cannot open shared object file")), r"libstdc.*pip install llvmlite"),
        (SimpleNamespace(get_host_cpu_features=dict, create_lljit_compiler=None), "too old: it has no JITLibraryBuilder"),
    ],
    ids=["missing", "broken", "old"],
)
def test_without_a_usable_llvmlite_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch, binding: Any, reason: str) -> None:
    monkeypatch.setattr(compiling, "llvm", binding)
    assert re.search(reason, str(compiling.unavailable.__wrapped__()))


def test_a_system_that_refuses_machine_code_turns_the_tier_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*ignored: Any) -> Any:
        raise RuntimeError("Cannot allocate executable memory")

    monkeypatch.setattr(entry, "_entry", refuse)
    assert "executable memory" in str(entry.unavailable.__wrapped__())
