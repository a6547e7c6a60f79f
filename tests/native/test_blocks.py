"""Programs whose blocks of rows, or whose carry in place, could mix up which elements belong together.

What is right is what the program computes eagerly, or in a loop of Python's.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from programs import compiled, leaves, native_mode

import pullback as pb
import pullback.numpy as pnp
from pullback import lax

rng = np.random.default_rng(7)
COLUMN, TABLE, SQUARE = (rng.uniform(-1.0, 1.0, shape).astype(np.float32) for shape in ((256,), (6, 256), (40, 40)))


def steps(body: Callable[..., Any], start: Any, count: int = 4) -> Any:
    return lax.scan(lambda carry, _: (body(carry), None), start, None, length=count)[0]


def barrier(x: Any) -> Any:
    return x + lax.optimization_barrier(x)[::-1]


def kept_by_a_loop(x: Any) -> Any:
    old, count = lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0], s[1] + 1), (x, x[0, 0] * 0))
    return x + old[::-1] + count


def products(s: Any) -> Any:
    c, y = s
    each = lax.dot_general(c, y[:3], (((), ()), ((), ())))
    return c * 2.0, pnp.sum(pnp.sin(each), 1)


def sums_of_one(s: Any) -> Any:
    c, y = s
    each = lax.reduce(c, np.float32(0.0), lax.add, (1,))
    return c * 2.0, pnp.sin(each) + y


ROWS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "a constant in a loop": (lambda x: steps(lambda c: c * COLUMN + 1.0, x), [COLUMN]),
    "a constant in a loop in a loop": (lambda x: steps(lambda c: steps(lambda d: d * COLUMN + 1.0, c), x), [COLUMN]),
    "a constant of a batched while": (
        pb.vmap(lambda x, y: lax.while_loop(lambda s: s < 5.0, lambda s: s * 1.5 + y, x)),
        [COLUMN + 1.5, COLUMN * 0.1 + 1.0],
    ),
    "rows of a constant's row": (
        lambda x: steps(lambda c: c * COLUMN[:, None] + c * COLUMN[:4], x),
        [TABLE[0, :, None] + COLUMN[:4]],
    ),
    "what a scan goes over": (lambda x, t: lax.scan(lambda c, y: (pnp.sin(c * y) + 1.0, None), x, t)[0], [COLUMN, TABLE]),
    "what a scan of constants goes over": (lambda x: lax.scan(lambda c, y: (pnp.sin(c * y), c), x, TABLE), [COLUMN]),
    "a row by its number": (lambda x, t: lax.fori_loop(0, 6, lambda i, c: c * pnp.asarray(t)[i] + 1.0, x), [COLUMN, TABLE]),
}
PLACES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "a barrier": (lambda x: steps(barrier, x), [SQUARE]),
    "a loop that keeps a part": (lambda x: steps(kept_by_a_loop, x), [SQUARE]),
    "products that are not summed": (lambda x: steps(products, (x, x)), [COLUMN]),
    "a sum of one": (lambda x: steps(sums_of_one, (x, x[:, 0])), [COLUMN[:, None]]),
    "a part of itself": (lambda x: steps(lambda c: lax.dynamic_update_slice(c, c[::-1][:39], (1, 0)), x), [SQUARE]),
}


@pytest.mark.parametrize("how", ["xla", "native"])
@pytest.mark.parametrize("name", [*ROWS, *PLACES])
def test_what_belongs_together(name: str, how: str) -> None:
    function, args = (ROWS | PLACES)[name]
    for found, expected in zip(leaves(compiled(function, how)(*args)), leaves(function(*args)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("columns", [3, 16, 33])
@pytest.mark.parametrize("rows", [33, 65, 1031])
def test_sums_whose_last_rows_fit_into_registers(rows: int, columns: int) -> None:
    """The block's part of a sum is in memory, that of the rows behind the last block could be in registers."""
    x, y = rng.standard_normal((rows, columns)), rng.standard_normal(rows)

    def function(x: Any, y: Any) -> Any:
        return pnp.sum(x, 0), pnp.max(x, 0), y * 2.0

    with pb.default_bits(64):
        found = leaves(compiled(function, "native")(x, y))
    for a, b in zip(found, [x.sum(0), x.max(0), y * 2.0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 40])
@pytest.mark.parametrize("side", [0, 1])
def test_pads_that_cut_more_than_there_is(side: int, size: int) -> None:
    """What is cut off one side is taken of the whole, of which the other side's padding is a part."""
    cut = size + 2
    config = [(-cut, cut, 0), (cut + 3, -cut, 0)][side]
    x = np.arange(1.0, size + 1.0)
    whole = np.concatenate([np.full(max(config[0], 0), 7.0), x, np.full(max(config[1], 0), 7.0)])
    expected = whole[max(-config[0], 0) : len(whole) - max(-config[1], 0)]
    with pb.default_bits(64):
        (found,) = leaves(compiled(lambda x: lax.pad(x, 7.0, [config]), "native")(x))
    np.testing.assert_array_equal(found, expected)


def test_many_arrays_leave_the_stack_alone() -> None:
    """The stack of a thread may be small: what a program keeps in memory is on it only in part."""

    def function(x: Any) -> Any:
        for _ in range(100):
            x = lax.cummax(pnp.asarray(x).T, 0)
        return x

    x = rng.standard_normal((32, 32)).astype(np.float32)
    run = pb.jit(function)
    found: list[Any] = []
    with pb.default_bits(32), native_mode("always"):
        run(x)
        before = threading.stack_size(1 << 18)
        try:
            thread = threading.Thread(target=contextvars.copy_context().run, args=(lambda: found.append(run(x)),))
            thread.start()
        finally:
            threading.stack_size(before)
        thread.join()
    np.testing.assert_allclose(found[0], function(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(97, 2), (128, 3), (200,), (33, 40)])
def test_a_loop_may_carry_one_number_on_for_each_row(shape: tuple[int, ...]) -> None:
    x, twos = np.arange(float(np.prod(shape))).reshape(shape), np.full(shape, 2.0)
    with native_mode("always"):
        found = pb.jit(lambda x: lax.scan(lambda c, _: (twos, None), x, None, length=6)[0])(x)
    np.testing.assert_array_equal(np.asarray(found), twos)


@pytest.mark.parametrize("batch_axis, window_axis", [(0, 1), (0, 0), (1, None)])
def test_windows_of_rows_lie_anywhere_in_the_result(batch_axis: int, window_axis: int | None) -> None:
    """A gather is by rows only where the first axes of operand, indices and result go together; here all sizes are equal."""
    size = 40
    x = rng.standard_normal((size, 2 * size))
    if window_axis is None:
        starts = rng.integers(0, 2 * size, (size, size))
        expected = np.stack([[x[j, starts[i, j]] for j in range(size)] for i in range(size)])
    else:
        starts = rng.integers(0, size, (size,))
        expected = np.stack([row[start : start + size] for row, start in zip(x, starts)], 1 - window_axis)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=() if window_axis is None else (window_axis,),
        collapsed_slice_dims=(1,) if window_axis is None else (),
        start_index_map=(1,),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(batch_axis,),
    )
    sizes = (1, 1 if window_axis is None else size)

    def function(x: Any, starts: Any) -> Any:
        return lax.gather(x * 2.0, starts[..., None], numbers, sizes) + 1.0

    with pb.default_bits(64):
        (found,) = leaves(compiled(function, "native")(x, starts.astype(np.int32)))
    np.testing.assert_allclose(found, expected * 2.0 + 1.0, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_bitwise_reductions_of_all_rows(dtype: str) -> None:
    """What changes nothing is all ones, which is another number in each dtype, signed or not."""
    x = rng.integers(0, 2**63, (333, 7)).astype(dtype) | np.dtype(dtype).type(1)
    operations = {np.bitwise_and: lax.bitwise_and, np.bitwise_or: lax.bitwise_or, np.bitwise_xor: lax.bitwise_xor}
    for axes in [(0,), (1,), (0, 1)]:
        for first in np.array([0, 1, 85]).astype(dtype):

            def function(x: Any, first: Any = first, axes: Any = axes) -> Any:
                return [lax.reduce(x, first, operation, axes) for operation in operations.values()]

            with pb.default_bits(64):
                found = leaves(compiled(function, "native")(x))
            for own, numpys in zip(found, operations, strict=True):
                np.testing.assert_array_equal(own, numpys(numpys.reduce(x, axes), first))
