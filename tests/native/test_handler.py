"""Loops in XLA's programs that are machine code of ours: right wherever they stand, and never in what is shown."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from handwritten_kernels import at_once

import pullback as pb
from pullback.engine import xla
from pullback.engine.backend import DEFAULT_OPTIONS, backend
from pullback.engine.compile import compile_program
from pullback.engine.jaxlib import jaxlib
from pullback.engine.lower import lower_program
from pullback.native import compile as compiling
from pullback.native import handler
from pullback.native.checked import CheckedExecutable
from pullback.native.choice import explain, native_mode

pnp, lax = pb.numpy, pb.lax

pytestmark = pytest.mark.skipif(compiling.unavailable() is not None, reason=str(compiling.unavailable()))

rng = np.random.default_rng(0)
XS = rng.normal(size=(7, 4)).astype(np.float32)
LARGE = rng.normal(size=(4, 40))
SMALL = np.array([0.5, -1.0, 2.0, 0.25])


# ---- the interface ----------------------------------------------------------------------------------------------------------


def header() -> str:
    where = pathlib.Path(jaxlib().client_module.__file__).parent / "include" / "xla" / "ffi" / "api" / "c_api.h"
    return re.sub(r"//.*", "", where.read_text())


STRUCTURES = {
    "XLA_FFI_Extension_Base": handler.Extension,
    "XLA_FFI_Api_Version": handler.Version,
    "XLA_FFI_Metadata": handler.Metadata,
    "XLA_FFI_Metadata_Extension": handler.MetadataExtension,
    "XLA_FFI_Args": handler.Values,
    "XLA_FFI_Rets": handler.Values,
    "XLA_FFI_Buffer": handler.Buffer,
    "XLA_FFI_CallFrame": handler.CallFrame,
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_begin_as_the_header_says(name):
    (body,) = re.findall(rf"struct {name} \{{(.*?)\n\}}", header(), re.DOTALL)
    declared = [(kind.strip(), field) for kind, field in re.findall(r"([\w\s]+?\**)\s*(\w+);", body)]
    for (kind, field), (ours, cls) in zip(declared, STRUCTURES[name]._fields_):
        size = {"size_t": 8, "int": 4, "int64_t": 8}.get(kind)
        if kind.endswith("*"):
            size = 8
        elif kind in STRUCTURES:
            assert cls is STRUCTURES[kind]
        elif size is None:  # an enum
            size = 4
        assert field.replace("rets", "args") == ours.replace("rets", "args")
        assert size is None or cls is handler.Pointer or handler.ctypes.sizeof(cls) == size


def test_the_version_is_one_that_the_header_knows():
    major, minor = (int(re.search(rf"#define XLA_FFI_API_{part} (\d+)", header())[1]) for part in ("MAJOR", "MINOR"))
    assert (major, 0) <= handler.VERSION <= (major, minor)
    assert int(re.search(r"XLA_FFI_Extension_Metadata = (\d+)", header())[1]) == handler.METADATA


# ---- loops ------------------------------------------------------------------------------------------------------------------


def scanned(xs):
    return lax.scan(lambda c, x: (c * 0.5 + x, c - x), xs[0], xs)


def backwards(xs):
    return lax.scan(lambda c, x: (c * 0.5 + x, c.sum()), xs[0], xs, reverse=True)


def closed_over(xs):
    """A large array, which is passed, and a small one, which is embedded."""
    return lax.scan(lambda c, x: ((c + x) * SMALL, (c @ LARGE).sum()), pnp.zeros(4, np.float64), xs)


def transposed_constant(xs):
    return lax.scan(lambda c, x: (c + x, (LARGE.T @ c)[0]), pnp.zeros(4, np.float64), xs)


def two_carries(xs):
    def step(carry, x):
        total, count, flag = carry
        return (total + x, count + 1, ~flag), (count, flag)

    return lax.scan(step, (pnp.zeros_like(xs[0]), 3, True), xs)


def one_operand_twice(xs):
    return lax.scan(lambda c, x: ((c[1], c[0] + x), c[0]), (xs[0], xs[0]), xs)


def workspace(xs):
    """A step with arrays that fit into no register."""

    def step(c, x):
        outer = pnp.outer(c.ravel()[:40], pnp.tile(x, 20))
        return c * 0.5 + outer.sum(0)[:40], outer.max()

    return lax.scan(step, pnp.ones(40, xs.dtype), xs)


def unrolled(xs):
    return lax.scan(lambda c, x: (c + x, None), xs[0], xs, unroll=3)


def no_results(xs):
    return lax.scan(lambda c, x: (c, x * 2.0), None, xs)


def loop(xs):
    return lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 2, c[1] * 0.5 + c[0]), (0, xs))


def bounded(xs):
    return lax.while_loop(lambda c: (c < 100.0).all(), lambda c: c * 2.0 + 1.0, xs, max_steps=3)


def nested(xs):
    def step(c, x):
        c, y = lax.scan(lambda c, z: (c + z * x[0], c), c, xs[:, 0])
        return lax.while_loop(lambda c: c > 1.0, lambda c: c / 2.0, c), y

    return lax.scan(step, 0.0, xs)


def branches(xs):
    return lax.scan(lambda c, x: (lax.cond(x[0] > 0, lambda: c + x, lambda: c * 2.0), c[0]), xs[0], xs)


def batched(xs):
    return pb.vmap(lambda x: lax.while_loop(lambda c: c < 3.0, lambda c: c + x * x + 0.5, x))(xs[:, 0])


def differentiated(xs):
    return pb.grad(lambda xs: scanned(xs)[1].sum() + scanned(xs)[0][0] ** 2)(xs)


def empty(xs):
    return lax.scan(lambda c, x: (c + 1, (x, c)), 0, xs[:, :0])


LOOPS = [
    scanned, backwards, closed_over, transposed_constant, two_carries, one_operand_twice, workspace, unrolled, no_results, loop,
    bounded, nested, branches, batched, differentiated, empty,
]  # fmt: skip


def run(program, *args, mode="on", donated=()):
    """A Program's results as XLA's program computes them, which the tier may have a part in, and that program's text."""
    with native_mode(mode):
        arrays = [pnp.asarray(arg) for arg in args]
        outs = backend().compile(program, DEFAULT_OPTIONS, donated)(arrays)
        return [np.asarray(out) for out in outs], lower_program(program, "cpu", donated, offloads=True)


@pytest.mark.parametrize("function", LOOPS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_are_offloaded_and_right(function, dtype):
    xs = XS.astype(dtype)
    program = pb.xpr(function, xs)
    expected, plain = run(program, xs, mode="off")
    found, lowered = run(program, xs)
    assert "pullback_native" not in plain.text and not plain.offloaded
    assert lowered.offloaded and lowered.text.count("pullback_native") == len(lowered.offloaded)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-6)
    with native_mode("off"):
        for one, other in zip(found, pb.tree.leaves(function(xs)), strict=True):  # step by step, on NumPy
            np.testing.assert_allclose(one, np.asarray(other), rtol=1e-4 if dtype == "float32" else 1e-12, atol=1e-5)


DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    xs = pnp.asarray(np.arange(12).reshape(4, 3) % 5).astype(dtype)
    if dtype == "bool":
        program = pb.xpr(lambda xs: lax.scan(lambda c, x: (c ^ x, c | x), xs[0], xs), xs)
        carry, stacked = np.zeros(3, bool), []
        values = np.asarray(xs)
        carry = values[0]
        for x in values:
            carry, y = carry ^ x, carry | x
            stacked.append(y)
    else:
        program = pb.xpr(lambda xs: lax.scan(lambda c, x: (c + x, c * x), xs[0], xs), xs)
        values = np.asarray(xs)
        carry, stacked = values[0], []
        for x in values:
            carry, y = carry + x, carry * x
            stacked.append(y)
    found, lowered = run(program, xs)
    assert lowered.offloaded == ("scan of <lambda>",)
    np.testing.assert_array_equal(found[0], carry)
    np.testing.assert_array_equal(found[1], np.stack(stacked))


def test_what_the_tier_does_not_take_is_left_to_xla():
    def function(xs):
        heavy = lax.scan(lambda c, _: (c @ c / 200.0, None), pnp.ones((200, 200)), None, length=2)[0]
        light = lax.scan(lambda c, x: (c + x, None), xs[0], xs)[0]
        complex_ = lax.scan(lambda c, x: (c * 1j + x, None), xs[0] * 1j, xs)[0]
        return heavy[0, 0], light, complex_

    program = pb.xpr(function, XS)
    found, lowered = run(program, XS)
    expected, _ = run(program, XS, mode="off")
    assert lowered.text.count("stablehlo.while") == 3 - len(lowered.offloaded) and len(lowered.offloaded) in (1, 2)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


# ---- where they stand -------------------------------------------------------------------------------------------------------


def test_in_a_loop_and_a_branch_of_xla():
    def function(a, xs):
        def step(carry, x):
            a, total = carry
            a = a @ a / 136.0
            inner = lax.scan(lambda c, z: (c * 0.5 + z, None), x * a[0, 0], xs)[0]
            more = lax.cond(x[0] > 0, lambda: lax.scan(lambda c, z: (c + z, None), inner, xs)[0] @ a[:4, :4], lambda: inner)
            return (a, total + more), more

        return lax.scan(step, (a, pnp.zeros_like(xs[0])), xs)

    a = np.ones((136, 136))
    program = pb.xpr(function, a, XS.astype(np.float64))
    found, lowered = run(program, a, XS.astype(np.float64))
    expected, _ = run(program, a, XS.astype(np.float64), mode="off")
    assert len(lowered.offloaded) == 2 and "stablehlo.while" in lowered.text
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_callbacks_around_stay_in_their_order():
    seen = []

    def function(xs):
        pb.debug.callback(lambda x: seen.append(("before", float(x))), xs[0, 0])
        total = lax.scan(lambda c, x: (c + x, None), pnp.zeros(4), xs)[0]
        pb.debug.callback(lambda x: seen.append(("after", float(x))), total[0])
        called = lax.scan(lambda c, x: (pb.debug.callback(lambda x: seen.append("step"), x[0]) or c + x, None), total, xs[:2])[
            0
        ]
        return total, called

    program = pb.xpr(function, XS)
    found, lowered = run(program, XS)
    assert lowered.offloaded == ("scan of <lambda>",)
    assert seen == [("before", XS[0, 0]), ("after", found[0][0]), "step", "step"]
    np.testing.assert_allclose(found[1], XS.sum(0) + XS[:2].sum(0), rtol=1e-5)


def test_an_exception_of_a_callback_comes_out_as_itself():
    def fail(x):
        raise KeyError("mine")

    def function(xs):
        total = lax.scan(lambda c, x: (c + x, None), pnp.zeros(4), xs)[0]
        return pb.pure_callback(fail, total, total) + 1.0

    program = pb.xpr(function, XS)
    with pytest.raises(KeyError, match="mine"):
        run(program, XS)


def test_donated_memory_is_not_read_after_it_was_written():
    def function(xs, start):
        total, ys = lax.scan(lambda c, x: (c + x, c * x), start, xs)
        return xs * 2.0, ys, total + start

    start = np.ones(4, np.float32)
    program = pb.xpr(function, XS, start)
    expected, _ = run(program, XS, start, mode="off")
    with native_mode("on"):
        executable = backend().compile(program, DEFAULT_OPTIONS, (True, True))
        given = [pb.jit(lambda x: x + 0.0)(value) for value in (XS, start)]
        found = executable(given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-6)


def test_layouts_are_what_the_code_expects():
    """XLA may hold the result of a product, or of a transposition, with its axes in another order."""

    def function(a, xs):
        turned = (a @ a).T[:7, :4] / 100.0
        total, ys = lax.scan(lambda c, x: (c + x, c * x), turned[0], turned)
        return total @ a[:4], ys.T @ xs

    a = rng.normal(size=(136, 136))
    program = pb.xpr(function, a, XS.astype(np.float64))
    found, lowered = run(program, a, XS.astype(np.float64))
    expected, _ = run(program, a, XS.astype(np.float64), mode="off")
    assert lowered.offloaded
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)


def test_threads_at_once():
    program = pb.xpr(workspace, XS)
    with native_mode("on"):
        executable = backend().compile(program, DEFAULT_OPTIONS, ())
    inputs = [pnp.asarray(XS * (i + 1)) for i in range(8)]
    expected = [[np.asarray(out) for out in executable([x])] for x in inputs]
    wrong = []

    def work(i):
        for _ in range(50):
            for one, other in zip(executable([inputs[i]]), expected[i], strict=True):
                if not np.array_equal(np.asarray(one), other):
                    wrong.append(i)

    at_once(work)
    assert not wrong


def test_where_calls_return_before_they_have_run(monkeypatch):
    monkeypatch.setattr(xla, "LONG_FLOPS", 1)
    program = pb.xpr(lambda xs: pnp.tanh(scanned(xs)[1]), XS)
    with native_mode("on"):
        executable = backend().compile(program, DEFAULT_OPTIONS, ())
    assert executable.later
    (found,) = executable([pnp.asarray(XS)])
    expected, _ = run(program, XS, mode="off")
    np.testing.assert_allclose(np.asarray(found), expected[0], rtol=1e-5)


def test_denormal_numbers_are_zero_as_in_xlas_own_loops():
    def function(xs):
        return lax.scan(lambda c, x: (c + x, x * 0.5), pnp.zeros(4, np.float32), xs)

    xs = np.full((3, 4), np.finfo(np.float32).tiny, np.float32)
    program = pb.xpr(function, xs)
    (_, halves), lowered = run(program, xs)
    (_, plain), _ = run(program, xs, mode="off")
    assert lowered.offloaded
    np.testing.assert_array_equal(halves, plain)
    assert not halves.any()


# ---- what is shown, and kept ------------------------------------------------------------------------------------------------


def product_and_loop(a, xs):
    return (a @ a).sum(), lax.scan(lambda c, x: (c * 0.25 + x, None), xs[0], xs)[0]


A = np.ones((136, 136), np.float32)


def test_what_is_shown_is_portable():
    with native_mode("on"):
        lowered = pb.jit(product_and_loop).lower(A, XS)
        assert "custom_call" not in lowered.as_text() and "stablehlo.while" in lowered.as_text()
        assert "custom_call" not in lowered.as_text(debug_info=True)
        compiled = lowered.compile()
        assert "pullback_native_" not in compiled.as_text()
        np.testing.assert_allclose(np.asarray(compiled(A, XS)[0]), 136.0**3)


def test_the_mode_belongs_to_what_is_compiled():
    program = pb.xpr(product_and_loop, A, XS)
    texts = {}
    for mode in ("off", "on", "off"):
        with native_mode(mode):
            found = compile_program(program)
            assert texts.setdefault(mode, found) is found
    assert "pullback_native_" in texts["on"].optimized_text()
    with native_mode("off"):
        assert "pullback_native_" not in texts["off"].optimized_text()


def test_a_program_knows_which_parts_are_native():
    program = pb.xpr(product_and_loop, A, XS)
    with native_mode("on"):
        found = explain(program, DEFAULT_OPTIONS, ())
        assert found.tier == "mixed" and found.parts == ("scan of <lambda>",) and "product" in found.reason
        assert explain(pb.xpr(lambda a: a @ a, A), DEFAULT_OPTIONS, ()).tier == "xla"
        assert explain(pb.xpr(scanned, XS), DEFAULT_OPTIONS, ()).tier == "native"
    with native_mode("off"):
        assert explain(program, DEFAULT_OPTIONS, ()).tier == "xla"


def test_parts_are_compared_with_xlas_own_code():
    with native_mode("check"):
        program = pb.xpr(product_and_loop, A, XS)
        executable = compile_program(program)
        assert isinstance(executable, CheckedExecutable)
        assert "pullback_native_" in executable.native.optimized_text()
        assert "pullback_native_" not in executable.shown.optimized_text()
        product, _ = executable([pnp.asarray(A), pnp.asarray(XS)])
        assert float(product) == 136.0**3
        executable.native = compile_program(pb.xpr(lambda a, xs: (a.sum(), xs[0]), A, XS))
        with pytest.raises(pb.errors.TierMismatch):
            executable([pnp.asarray(A), pnp.asarray(XS)])


def test_equal_loops_are_one_handler():
    with native_mode("on"):
        before = len(handler._names)
        program = pb.xpr(lambda xs: (scanned(xs * 3.0), scanned(xs * 5.0)), XS[:5])
        run(program, XS[:5])
        run(pb.xpr(lambda xs: scanned(xs * 7.0), XS[:5]), XS[:5])
        assert len(handler._names) <= before + 1


def test_there_are_so_many_handlers_at_most(monkeypatch):
    monkeypatch.setattr(handler, "MAX_HANDLERS", len(handler._names))
    program = pb.xpr(lambda xs: lax.scan(lambda c, x: (c * 0.4375 + x, None), xs[0], xs), XS)
    _, lowered = run(program, XS)
    assert not lowered.offloaded and "stablehlo.while" in lowered.text


OTHER_PROCESS = """
import numpy as np, pullback as pb
from pullback.engine import xla
xla.KEPT_SECONDS = 0.0
f = pb.jit(lambda a, xs: ((a @ a).sum(), pb.lax.scan(lambda c, x: (c * 0.25 + x, c), xs[0], xs)))
before = pb.cache_info()
product, (carry, ys) = f(np.ones((136, 136)), np.arange(12.0).reshape(4, 3))
after = pb.cache_info()
print(after.disk_hits - before.disk_hits, after.compiled - before.compiled, np.asarray(carry), np.asarray(ys).sum())
"""


def in_another_process(program, **environment):
    given = {**os.environ, **environment}
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=given)
    return made.stdout.split(maxsplit=2)


def test_executables_with_calls_are_kept_on_disk(tmp_path):
    given = {"PULLBACK_CACHE_DIR": str(tmp_path / "kept"), "PULLBACK_NATIVE": "on"}
    first, second = (in_another_process(OTHER_PROCESS, **given) for _ in range(2))
    assert first[:2] == ["0", "1"] and second[:2] == ["1", "0"] and first[2] == second[2]
    off = in_another_process(OTHER_PROCESS, **{**given, "PULLBACK_NATIVE": "off"})
    assert off[:2] == ["0", "1"] and off[2] == first[2]


TWO_DEVICES = """
import numpy as np, pullback as pb
from pullback.native.checked import CheckedExecutable
from pullback.engine.lower import lower_program
f = pb.jit(lambda a, xs: ((a @ a).sum(), pb.lax.scan(lambda c, x: (c * 0.25 + x, c), xs[0], xs)))
a, xs = np.ones((136, 136)), np.arange(12.0).reshape(4, 3)
expected = f(a, xs)
assert lower_program(pb.xpr(f, a, xs), 'cpu', offloads=True).offloaded
for device in pb.devices():
    product, (carry, ys) = f(pb.device_put(a, device), pb.device_put(xs, device))
    assert carry.device == device == ys.device
    assert np.array_equal(np.asarray(carry), np.asarray(expected[1][0]))
    assert np.array_equal(np.asarray(ys), np.asarray(expected[1][1]))
print(len(pb.devices()))
"""


def test_on_several_devices():
    assert in_another_process(TWO_DEVICES, PULLBACK_CPU_DEVICES="2", PULLBACK_NATIVE="on") == ["2"]


def test_other_platforms_get_stablehlo():
    program = pb.xpr(scanned, XS)
    with native_mode("always"):
        assert "custom_call" not in lower_program(program, "cuda", offloads=True).text
        assert "pullback_native_" in lower_program(program, "cpu", offloads=True).text
