"""Who runs a Program: what is chosen for common programs, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handwritten_kernels import needs_entry

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.native import choice
from pullback.native.build import build
from pullback.native.choice import native_mode
from pullback.native.compile import host
from pullback.native.record import record
from pullback.native.rows import plan

pytestmark = needs_entry


def array(*shape: int, dtype: str = "float32") -> Any:
    return pb.ArrayType(shape, dtype)


def repeated(x: Any, w: Any) -> Any:
    return lax.scan(lambda h, _: (pnp.tanh(h @ w), None), x, None, length=100)[0]


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID")


def stencil(x: Any) -> Any:
    return lax.fori_loop(0, 50, lambda _, x: x.at[1:-1, 1:-1].set(0.25 * cross(x)), x)


CHOSEN = {
    "light": (lambda x: x + 1.0, [array(8)], "native", "it is light"),
    "slow function": (lambda x: pnp.sin(x) + x, [array(1000, 1000)], "native", "one pass over rows"),
    "quick function": (lambda x: pnp.tanh(x) + x, [array(1000, 1000)], "native", "one pass over rows"),
    "quick functions of two shapes": (
        lambda x, y: (pnp.tanh(x), pnp.exp(y)),
        [array(1 << 18), array((1 << 17) + 1)],
        "xla",
        "no pass over rows",
    ),
    "normalised rows": (lambda x: x / pnp.sum(x, axis=1, keepdims=True), [array(1000, 1000)], "native", "one pass over rows"),
    "half precision": (lambda x: pnp.tanh(x) + x, [array(1000, 1000, dtype="bfloat16")], "native", "one pass over rows"),
    "large sum": (lambda x: pnp.sum(x * x), [array(1_000_000, dtype="float64")], "native", "one pass over rows"),
    "sum of an argument": (pnp.sum, [array(4_000_000)], "native", "one pass over rows"),
    "large matrix, vector": (lambda x, y: x @ y, [array(10_000, 100), array(100)], "native", "one pass over rows"),
    "large matrices": (lambda x, y: x.T @ y, [array(10_000, 100), array(10_000, 2)], "xla", "largest product"),
    "loop": (repeated, [array(64), array(64, 64)], "native", "light"),
    "large loop": (repeated, [array(32, 64), array(64, 64)], "xla", "131,072 multiplications"),
    "convolution": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        [array(1, 3, 32, 32), array(8, 3, 3, 3)],
        "native",
        "light",
    ),
    "large convolution": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", feature_group_count=2),
        [array(8, 32, 56, 56), array(32, 16, 3, 3)],
        "xla",
        f"{8 * 56 * 56 * 32 * 16 * 9:,} multiplications, which XLA",
    ),
    "cumsum": (pnp.cumsum, [array(1_000_000)], "native", "light steps"),
    "gather": (lambda x, i: x[i], [array(10_000), array(10_000, dtype="int32")], "native", "light"),
    "factors": (pnp.linalg.cholesky, [array(64, 64)], "native", "light"),
    "factors of doubles": (pnp.linalg.cholesky, [array(64, 64, dtype="float64")], "xla", "more than 48 columns"),
    "largest place": (pnp.argmax, [array(1 << 20)], "native", "not quick"),
    "pooling": (pooled, [array(1024, 1024)], "native", "not quick"),
    "large pooling": (pooled, [array(4096, 4096)], "xla", "no pass over rows"),
    "stencil in a loop": (stencil, [array(256, 256)], "native", "light steps"),
    "heavy steps": (stencil, [array(4096, 4096)], "xla", "no pass over rows"),
    "concatenation": (lambda x: 2 * pnp.concatenate([x, x]), [array(1 << 20)], "xla", "8,388,608 bytes together"),
    "blur": (lambda x: sum([x[i : i - 9] for i in range(9)]), [array(1 << 20)], "native", "one pass over rows"),
    "histogram": (lambda x: pnp.bincount(x, length=256), [array(1 << 14, dtype="int32")], "native", "light"),
    "largest ten": (lambda x: lax.top_k(x, 10), [array(100_000)], "native", "light"),
    "small product": (lambda x, y: x @ y, [array(64, 64), array(64, 64)], "native", "light"),
    "product": (lambda x, y: x @ y, [array(96, 96), array(96, 96)], "native", "one pass over rows"),
    "large product": (lambda x, y: x @ y, [array(128, 128), array(128, 128)], "xla", "largest product"),
    "product of doubles": (lambda x: x @ x, [array(80, 80, dtype="float64")], "xla", "takes 512,000 multiplications"),
    "small products": (lambda x, y: x @ y, [array(10_000, 4, 4), array(10_000, 4, 4)], "native", "one pass over rows"),
    "small transpose": (lambda x: x.T + 1.0, [array(64, 64)], "native", "light"),
    "large transpose": (lambda x: x.T + 1.0, [array(1024, 1024)], "xla", "transposes 1,048,576"),
    "swapped matrices": (lambda x: pnp.sin(pnp.swapaxes(x, 0, 1)), [array(100, 100, 64)], "native", "rows"),
    "keys": (lambda key: pb.random.uniform(key, (8,)), [pb.random.key(0)], "xla", "random keys"),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_who_runs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, args, tier, reason = CHOSEN[name]
    monkeypatch.setattr(choice.pool, "thread_count", lambda: 2)
    with native_mode("on"):
        found = pb.jit(function).explain(*args)
    assert found.tier == tier and reason in found.reason, found


def test_many_processors_leave_less_to_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's work is divided among all of them."""
    chosen = []
    for count in (1, 2, 64):
        monkeypatch.setattr(choice.pool, "thread_count", lambda count=count: count)
        with native_mode("on"):
            largest = pb.jit(lambda x: pnp.argmax(x)).explain(array(1 << 20))
            light = pb.jit(lambda x: pnp.argmax(x)).explain(array(1 << 14))
        chosen.append((largest.tier, light.tier))
    assert chosen == [("native", "native"), ("native", "native"), ("xla", "native")]


def program(function: Any, *args: Any) -> Any:
    return pb.jit(function).trace(*args).program


def cross(x: Any) -> Any:
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]


@pytest.mark.parametrize(
    "function, args", [(cross, [array(256, 256)]), (lambda x, y: x[:, None] * y, [array(1000), array(1000)])]
)
def test_blocks_stay_within_the_lines_of_views(function: Any, args: list[Any]) -> None:
    """Else each element is looked for by divisions: ten times as many instructions."""
    graph = record(program(function, *args))
    found = plan(graph, 64)
    assert found is not None and len(found.prefix) == 1


def test_blocks_may_go_beyond_lines_in_memory() -> None:
    found = plan(record(program(lambda x: x + 1.0, array(250, 250))), 64)
    assert found is not None and found.prefix == (250, 250)


def weight(function: Any, *args: Any) -> float:
    made = program(function, *args)
    return build(made, record(made), host()).weight


def test_slow_instructions_weigh_more() -> None:
    x, y = array(4096), array(4096)
    assert weight(lambda x, y: x / y, x, y) > 1.5 * weight(lambda x, y: x * y, x, y)
    assert weight(pnp.sqrt, x) > 2 * weight(pnp.negative, x)
    whole = array(4096, dtype="uint32")
    assert weight(lambda x, y: x // y, whole, whole) > 20 * 4096
    assert weight(lambda x: x // 7, whole) < 2 * 4096  # a multiplication


def test_a_matrix_product_in_a_loop_stores_its_vector_once_a_step() -> None:
    """Not once for each row of the matrix."""
    made = program(repeated, array(64), array(64, 64))
    lines = build(made, record(made), host()).source.splitlines()
    loops = [i for i, line in enumerate(lines) if line.startswith("loop")]
    stores = [i for i, line in enumerate(lines) if line.startswith("store <64 x float>")]
    assert len(loops) == 2 and [sum(i > start for start in loops) for i in stores[:-1]] == [1]


@pytest.mark.parametrize(
    "function, shape",
    [
        (lambda x: pnp.sum(x, axis=0), (1000, 100)),
        (lambda x: (pnp.sum(x * x, axis=0), x + 1), (1000, 100)),
        (lambda x: lax.scan(lambda c, _: (c * 1.5 + 1, None), x, None, length=100)[0], (100,)),
        (lambda x: lax.while_loop(lambda c: c[0] < 9.0, lambda c: c * 1.5 + 1, x), (100,)),
    ],
)
def test_long_vectors_are_carried_in_parts_that_are_powers_of_two(function: Any, shape: tuple[int, ...]) -> None:
    made = program(function, array(*shape))
    source = build(made, record(made), host()).source
    assert "phi <64 x float>" in source and "phi <100 x float>" not in source


def test_neighbours_are_read_once() -> None:
    """The coordinates of points, which lie one behind another."""
    made = program(lambda x: x[:, 0] * x[:, 1] + x[:, 2], array(4096, 3))
    source = build(made, record(made), host()).source
    block = 4 * host().vector_bytes // 4  # elements of a block of rows, of which three numbers each are read
    assert source.count("= load <") == 3 * block * 4 // host().vector_bytes


def test_what_each_row_repeats_is_computed_once() -> None:
    def weighs(function: Any) -> float:
        def step(c: Any, t: Any, y: Any) -> Any:
            return pnp.roll(c, 1, (0, 1)) * function(y * t)

        times = np.arange(10, dtype=np.float32)
        return weight(lambda x, y: lax.scan(lambda c, t: (step(c, t, y), None), x, times)[0], array(100, 300), array(300))

    assert weighs(pnp.log) < weighs(lambda x: x) + 10 * 2 * weight(pnp.log, array(300))


def test_a_number_is_not_looked_for_in_each_line_of_rows() -> None:
    """Where blocks of rows go beyond the lines of a matrix, as here, those of 64."""
    assert weight(lambda x: x * 1.5, array(100, 300)) == weight(lambda x: x * 1.5, array(30_000))
