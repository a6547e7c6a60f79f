"""What is made of all rows, while the rows are divided: the same, bit by bit, however they are divided, and right by NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import fsum
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from kernels import kernel_of, run
from programs import native_mode

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.native import build, handler, pool, totals
from pullback.native import compile as compiling
from pullback.native import kernel as kernels

Function = Callable[..., Any]
rng = np.random.default_rng(5)
WEIGHTS = rng.standard_normal((24, 30))
SQUARE = rng.standard_normal((16, 16))


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has rows is divided, into as many chunks as may be."""
    monkeypatch.setattr(build, "PARALLEL", 0)
    monkeypatch.setattr(kernels, "PARALLEL", 0)
    monkeypatch.setattr(build, "CALLS", 0)
    monkeypatch.setattr(totals, "CHUNK_WEIGHT", 1)
    monkeypatch.setattr(totals, "JOINING", 100.0)


@pytest.fixture
def undivided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PARALLEL", np.inf)


def several(x: Any) -> list[Any]:
    y = pnp.sin(x) if x.dtype.kind == "f" else x * 3
    return [pnp.sum(y), y + 1, pnp.max(y), pnp.min(x), pnp.sum(x * 2) + pnp.max(x)]


def several_by_numpy(x: Any) -> list[Any]:
    y = np.sin(x) if x.dtype.kind == "f" else x * 3
    return [y.sum(), y + 1, y.max(), x.min(), (x * 2).sum() + x.max()]


def truths(x: Any) -> list[Any]:
    return [pnp.any(x > 2.5), pnp.all(x > -2.0), pnp.sum(x > 0), x > 0]


def truths_by_numpy(x: Any) -> list[Any]:
    return [(x > 2.5).any(), (x > -2.0).all(), (x > 0).sum(), x > 0]


def product(x: Any) -> list[Any]:
    return [pnp.prod(1 + x / 64), pnp.sum(x, 0)]


def bits(x: Any) -> list[Any]:
    return [lax.reduce(x, np.int32(0), lax.bitwise_xor, (0,)), lax.reduce(x, np.int32(-1), lax.bitwise_and, (0,)), x ^ 5]


def bits_by_numpy(x: Any) -> list[Any]:
    return [np.bitwise_xor.reduce(x), np.bitwise_and.reduce(x), x ^ 5]


def loss(w: Any, x: Any) -> Any:
    return pnp.sum(pnp.tanh(x @ w) ** 2)


def gradients(w: Any, x: Any) -> list[Any]:
    """Of weights that are shared by all rows, and of the rows."""
    return list(pb.grad(loss, (0, 1))(w, x))


def gradients_by_numpy(w: Any, x: Any) -> list[Any]:
    y = np.tanh(x @ w)
    slope = 2 * y * (1 - y * y)
    return [x.T @ slope, slope @ w.T]


def begun(x: Any) -> list[Any]:
    """Reductions that begin with other numbers than those that change nothing."""
    return [lax.reduce(x * 2, 5.0, lax.add, (0,)), lax.reduce(x, 1.0, lax.max, (0,)), lax.reduce(x, -0.0, lax.add, (0, 1))]


def beside(x: Any, w: Any) -> list[Any]:
    """Results of the rows, of what is known before them, of both after them, twice, and an argument."""
    y, before = pnp.exp(x), pnp.cumsum(w) * 2
    total = pnp.sum(y)
    return [y, before, total * before, y, x, total, total, before[0] + w]


def beside_by_numpy(x: Any, w: Any) -> list[Any]:
    y, before = np.exp(x), np.cumsum(w) * 2
    return [y, before, y.sum() * before, y, x, y.sum(), y.sum(), before[0] + w]


def of_a_loop(x: Any) -> list[Any]:
    """Loops that end row by row, and sums of what they find."""
    roots, steps = pb.vmap(lambda x: lax.while_loop(lambda s: s[0] > 0.1, lambda s: (s[0] * 0.7, s[1] + 1), (x * x, 0)))(x)
    return [pnp.sum(roots), pnp.max(steps), steps]


def of_a_loop_by_numpy(x: Any) -> list[Any]:
    roots, steps = x * x, np.zeros(len(x), int)
    while (roots > 0.1).any():
        steps += roots > 0.1
        roots = np.where(roots > 0.1, roots * 0.7, roots)
    return [roots.sum(), steps.max(), steps]


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def integers(*shape: int, dtype: Any = np.int32) -> Any:
    return rng.integers(0, 100, shape).astype(dtype)


CASES: dict[str, tuple[Function, Function, list[Any]]] = {
    **{f"several, {n}": (several, several_by_numpy, [normal(n)]) for n in (2048, 2049, 5000, 10_007)},
    "several, float32": (several, several_by_numpy, [normal(3001, dtype=np.float32)]),
    **{f"several, {t}": (several, several_by_numpy, [integers(3001, dtype=t)]) for t in ("int8", "uint16", "int32", "uint64")},
    "rows of rows": (several, several_by_numpy, [normal(67, 33, 3)]),
    "truths": (truths, truths_by_numpy, [normal(3001)]),
    "a product": (product, lambda x: [(1 + x / 64).prod(), x.sum(0)], [normal(1031, 3)]),
    "bits": (bits, bits_by_numpy, [integers(5000)]),
    "complex": (lambda x: [pnp.sum(x * x), x + 1j], lambda x: [(x * x).sum(), x + 1j], [normal(3001) + 1j * normal(3001)]),
    **{
        f"{n} columns": (lambda x: [pnp.sum(x * 2, 0), pnp.max(x, 0)], lambda x: [(x * 2).sum(0), x.max(0)], [normal(1031, n)])
        for n in (33, 200)
    },
    "no columns": (lambda x: [pnp.sum(x, 0), x], lambda x: [x.sum(0), x], [normal(300, 0)]),
    "gradients": (gradients, gradients_by_numpy, [SQUARE[:, :4], normal(515, 16)]),
    "large gradients": (gradients, gradients_by_numpy, [WEIGHTS, normal(257, 24)]),
    "other beginnings": (begun, lambda x: [(x * 2).sum(0) + 5, np.maximum(x.max(0), 1), x.sum()], [normal(1031, 3)]),
    "other results beside": (beside, beside_by_numpy, [normal(3001), normal(7)]),
    "a loop": (of_a_loop, of_a_loop_by_numpy, [normal(1031)]),
}


def _ranges(blocks: int, how: str) -> list[tuple[int, int]]:
    """All blocks, divided somehow."""
    if how == "at once":
        return [(0, blocks)]
    cuts = range(1, blocks) if how == "one by one, backwards" else sorted(rng.permutation(range(1, blocks))[:4].tolist())
    ranges = list(zip([0, *cuts], [*cuts, blocks]))
    return ranges[::-1] if how == "one by one, backwards" else [ranges[i] for i in rng.permutation(len(ranges))]


def _bits(arrays: list[Any]) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in arrays]


@pytest.mark.parametrize("name", CASES)
def test_sums_do_not_depend_on_who_adds_them_up(name: str, divided: None) -> None:
    function, by_numpy, args = CASES[name]
    with pb.default_bits(64):
        kernel = kernel_of(function, *args)
        assert kernel.blocks > 3 or name == "no columns"
        found = run(kernel, args)
        for how in ("one by one, backwards", "in any order"):
            assert _bits(run(kernel, args, _ranges(kernel.blocks, how))) == _bits(found)
    for x, y in zip(found, by_numpy(*args), strict=True):
        wide = np.asarray(x).dtype.itemsize > 4 or np.asarray(x).dtype.kind in "iub"
        np.testing.assert_allclose(x, y, **(dict(rtol=1e-12, atol=1e-10) if wide else dict(rtol=1e-5, atol=2e-4)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_of_16_bits_are_rounded_once(dtype: Any, divided: None) -> None:
    x = rng.random(4099).astype(dtype)
    kernel = kernel_of(lambda x: [pnp.sum(x), x * 2], x)
    assert kernel.blocks > 3
    total, twice = run(kernel, [x], _ranges(kernel.blocks, "in any order"))
    assert total == np.asarray(fsum(x.astype(np.float64)), dtype) and (twice == x * np.asarray(2, dtype)).all()


@pytest.mark.parametrize("place", [0, 1500, 3000])
def test_nan_is_found_wherever_it_is(place: int, divided: None) -> None:
    x = normal(3001)
    x[place] = np.nan
    kernel = kernel_of(lambda x: [pnp.max(x), pnp.min(x), pnp.sum(x), x * 2], x)
    found = run(kernel, [x], _ranges(kernel.blocks, "in any order"))
    assert [np.isnan(one).sum() for one in found] == [1, 1, 1, 1]


@pytest.mark.parametrize("beside", [lambda x: x * 2, pnp.max, lambda x: pnp.sum(x[:, None] * np.arange(300.0, dtype="f4"), 0)])
@pytest.mark.parametrize("mode", ["undivided", "divided"])
def test_sums_are_as_accurate_as_numpy(mode: str, beside: Function, request: pytest.FixtureRequest) -> None:
    """Beside results of the rows, other reductions, and sums that are in memory."""
    request.getfixturevalue(mode)
    x = rng.random(100_003, np.float32)
    kernel = kernel_of(lambda x: [pnp.sum(x), pnp.sum(x * x), beside(x)], x)
    assert (kernel.blocks > 3) == (mode == "divided")
    found, squares, _ = run(kernel, [x])
    exact, exact_squares = fsum(x.astype(float)), fsum((x * x).astype(float))
    assert abs(found - exact) <= 4e-7 * exact and abs(squares - exact_squares) <= 4e-7 * exact_squares


def test_sums_in_memory_are_taken_in_parts(divided: None) -> None:
    """One term after another, numbers as many as these have an error of some 1e-4."""
    x = rng.random((60_000, 160), np.float32)
    kernel = kernel_of(lambda x: [pnp.sum(x * x, 0)], x)
    (found,) = run(kernel, [x])
    exact = np.sum((x * x).astype(np.float64), 0)
    assert np.max(np.abs(found - exact) / exact) < 5e-7


def test_partial_sums_that_take_much_memory_are_few() -> None:
    x, w = normal(4096, 64, dtype=np.float32), normal(64, 64, dtype=np.float32)
    kernel = kernel_of(gradients, w, x)
    assert 1 < kernel.blocks <= totals.MAX_CHUNKS and kernel.shared <= totals.SHARED_BYTES + 64
    wide = kernel_of(lambda x: [pnp.sum(pnp.sin(x), 0)], np.zeros((32, 1 << 20), np.float32))
    assert wide.blocks == 1 and wide.shared == 0


@pytest.mark.parametrize("steps, divides", [(100, True), (50_000, False)])
def test_what_every_thread_would_do_again_is_light(steps: int, divides: bool) -> None:
    def function(x: Any, w: Any) -> list[Any]:
        return [pnp.sum(pnp.sin(x) * lax.scan(lambda c, _: (c * 0.5 + 1, None), w, None, length=steps)[0][0])]

    kernel = kernel_of(function, np.zeros(1 << 20, np.float32), np.zeros(8, np.float32))
    assert kernel.by_rows and (kernel.blocks > 3) == divides


def _called_by_xla(address: int, operands: list[Any], results: list[Any]) -> None:
    """A handler, called as XLA calls it."""
    frame = handler.CallFrame()
    kept: list[Any] = []
    for values, arrays in ((frame.args, operands), (frame.rets, results)):
        kept += [buffers := [handler.Buffer(data=array.ctypes.data) for array in arrays]]
        kept += [table := (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(buffer) for buffer in buffers])]
        values.args = ctypes.addressof(table)
    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)(ctypes.addressof(frame))


KERNEL = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64)
SHARE = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


@SHARE
def _without_memory(kernel: int, results: int, operands: int, workspace: int, size: int, poll: int, blocks: int) -> int:
    """Divide the blocks among threads of which all but the first have no memory."""
    KERNEL(kernel)(results, operands, workspace, poll, 0, 2)
    return 2


def test_as_a_part_of_an_xla_program(divided: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_THREADS", "3")
    x = normal(5000)
    with pb.default_bits(64):
        kernel = kernel_of(several, x)
    assert kernel.blocks > 3
    code = compiling.loaded(handler.text(kernel), ("handler", "share"))
    found = []
    for share in [None, *[pool.share()] * 5, ctypes.cast(_without_memory, ctypes.c_void_p).value]:
        ctypes.c_void_p.from_address(code.addresses["share"]).value = share
        results = [np.zeros(type.shape, type.dtype) for type in kernel.outputs]
        memory = np.full(kernel.workspace + kernel.shared + handler.ALIGNMENT, 0xCB, np.uint8)
        _called_by_xla(code.addresses["handler"], [x, *kernel.constants], [*results, memory])
        found.append(results)
    for one, expected in zip(found[0], several_by_numpy(x), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-10)
    assert len({tuple(_bits(results)) for results in found}) == 1


def test_calls_of_one_thread_and_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).random(300_007, np.float32)
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("PULLBACK_THREADS", threads)
        function = pb.jit(lambda x: (pnp.sum(pnp.sin(x)), x * 2, pnp.max(x)))
        with native_mode("always"):
            found += [_bits(list(function(x))) for _ in range(20)]
    assert found == found[:1] * 40
    assert found[0][1:] == _bits([x * 2, x.max()])
    assert kernel_of(lambda x: [pnp.sum(pnp.sin(x)), x * 2, pnp.max(x)], x).blocks > 3
