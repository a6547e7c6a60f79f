"""Whether the native tier chooses well: programs of many kinds and sizes, run by XLA and by native code in turns.

    python benchmarks/choices.py [--json FILE] [word ...]

Only the families of programs (`PROGRAMS`) whose names, with the dtype behind them, contain one of the words. A cell shows how
many times as quick as XLA's native code is, by the least times, and by the median ones; behind it n, x or m says what is
chosen: native code, XLA's, or XLA's with native parts, which is then timed too. At the end come the programs for which what is
chosen takes more than 1 / `GOOD` of the least time of the others. `--json` writes what was measured, and adds to what an
earlier run has written: on a machine with other work, several runs find the least times. All results are waited for.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("PULLBACK_CACHE_DIR", "")

import numpy as np
from timing import seconds
from workloads import F32, F64, black_scholes, like_jax

import pullback as pb
import pullback.numpy as pnp
import pullback.scipy
from pullback import lax
from pullback.native.choice import native_mode

GOOD = 0.8
SLICE, ENOUGH = 0.004, 0.3  # seconds: of a contestant's turn, and of all turns
LEAST_TURNS, MOST_TURNS = 8, 40

Shapes = tuple[tuple[int, ...], ...]


class Family(NamedTuple):
    """A program for arguments of several shapes: numbers between 0.1 and 1.1, of these dtypes."""

    function: Callable[..., Any]
    shapes: tuple[Shapes, ...]
    dtypes: tuple[str, ...] = (F32, F64)
    scale: float = 1.0


def vectors(*lengths: int, count: int = 1) -> tuple[Shapes, ...]:
    return tuple([((length,),) * count for length in lengths])


def squares(*sizes: int, count: int = 1) -> tuple[Shapes, ...]:
    return tuple([((size, size),) * count for size in sizes])


MANY = 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20


def iterated(step: Callable[[Any], Any], steps: int) -> Callable[[Any], Any]:
    return lambda x: lax.fori_loop(0, steps, lambda _, x: step(x), x)


def integers(x: Any) -> Any:
    return (x * 1e6).astype("int32")


def normalized(x: Any) -> Any:
    centred = x - pnp.mean(x, axis=-1, keepdims=True)
    return centred / pnp.sqrt(pnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def softmax(x: Any) -> Any:
    powers = pnp.exp(x - pnp.max(x, axis=-1, keepdims=True))
    return powers / pnp.sum(powers, axis=-1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ pnp.swapaxes(k, -1, -2) / 8.0) @ v


def logistic(x: Any, w: Any) -> Any:
    return pb.grad(lambda w: pnp.mean(pnp.log1p(pnp.exp(x @ w))))(w)


def network(x: Any, *weights: Any) -> Any:
    for w in weights:
        x = pnp.tanh(x @ w)
    return pnp.sum(x * x)


def network_shapes(batch: int, *widths: int) -> tuple[Shapes, ...]:
    return tuple([((batch, width), (width, width), (width, width)) for width in widths])


def recurrent(x: Any, w: Any) -> Any:
    return lax.scan(lambda h, _: (pnp.tanh(h @ w), None), x, None, length=100)[0]


def stencil(x: Any) -> Any:
    inner = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return x.at[1:-1, 1:-1].set(0.25 * inner)


def heat(x: Any) -> Any:
    return x + 0.1 * (pnp.roll(x, 1, 0) + pnp.roll(x, -1, 0) + pnp.roll(x, 1, 1) + pnp.roll(x, -1, 1) - 4.0 * x)


def blur(x: Any) -> Any:
    edges = pnp.pad(x, 1, mode="edge")
    rows, columns = x.shape
    return sum([edges[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]) / 9.0


def sobel(x: Any) -> Any:
    across = x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:] - x[:-2, :-2] - 2 * x[1:-1, :-2] - x[2:, :-2]
    down = x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:] - x[:-2, :-2] - 2 * x[:-2, 1:-1] - x[:-2, 2:]
    return pnp.sqrt(across * across + down * down)


def equalized(x: Any) -> Any:
    """An image with about as many pixels of each of 256 levels."""
    levels = pnp.clip((x * 230).astype("int32"), 0, 255)
    counts = pnp.bincount(levels.ravel(), length=256)
    below = pnp.cumsum(counts) / levels.size
    return below[levels]


def gathered(x: Any) -> Any:
    return x[(integers(x) * 7919) % x.shape[0]]


def scattered(x: Any) -> Any:
    return pnp.zeros_like(x).at[(integers(x) * 7919) % x.shape[0]].add(x)


def hashed(x: Any) -> Any:
    bits = integers(x).astype("uint32")
    for factor in (0x85EBCA6B, 0xC2B2AE35):
        bits = (bits ^ (bits >> 16)) * np.uint32(factor)
    return bits


def prices(spot: Any, strike: Any, time: Any) -> Any:
    return black_scholes(like_jax(pb, pnp), 0)(spot, strike, time, 0.02, 0.3)


def convolved(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME")


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID")


def regular(x: Any) -> Any:
    """A matrix far from singular."""
    return x + x.shape[0] * pnp.eye(x.shape[0], dtype=x.dtype)


def mixture(x: Any, y: Any) -> Any:
    return pnp.tanh(x) * pnp.exp(-y) + pnp.log1p(x) / (1.0 + y)


def adam(*arrays: Any) -> Any:
    """A step for several parameters, of which each has a gradient and two moments."""
    out = []
    for k in range(0, len(arrays), 4):
        x, slope, m, v = arrays[k : k + 4]
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope * slope
        out += [x - 0.01 * m / (pnp.sqrt(v) + 1e-8), m, v]
    return out


def apart(x: Any, y: Any) -> Any:
    return pnp.tanh(x), pnp.exp(-y)


def gelu(x: Any) -> Any:
    return 0.5 * x * (1.0 + pnp.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


PROGRAMS: dict[str, Family] = {
    "x + y a": Family(lambda x, y: x + y * 2.0, vectors(16, *MANY, 1 << 22, count=2)),
    "polynomial": Family(lambda x: (((x * 0.3 + 0.2) * x + 0.7) * x + 0.1) * x, vectors(*MANY)),
    "where": Family(lambda x, y: pnp.where(x > y, x * y, x - y), vectors(*MANY, count=2)),
    "root of a quotient": Family(lambda x, y: pnp.sqrt(x / y), vectors(*MANY, count=2)),
    "exp": Family(pnp.exp, vectors(*MANY)),
    "log": Family(pnp.log, vectors(*MANY)),
    "log1p": Family(pnp.log1p, vectors(*MANY)),
    "tanh": Family(pnp.tanh, vectors(*MANY)),
    "1 / (1 + exp)": Family(lambda x: 1.0 / (1.0 + pnp.exp(-x)), vectors(*MANY)),
    "erf": Family(pullback.scipy.special.erf, vectors(*MANY)),
    "sin": Family(pnp.sin, vectors(*MANY)),
    "power": Family(lambda x, y: x**y, vectors(*MANY, count=2)),
    "tanh, exp, log1p": Family(mixture, vectors(*MANY, count=2)),
    "gelu": Family(gelu, vectors(*MANY)),
    "two shapes": Family(apart, tuple([((n,), (n // 2 + 1,)) for n in MANY])),
    "Adam": Family(
        adam, tuple([((n, m),) * 4 + ((m,),) * 4 for n, m in ((16, 16), (128, 128), (256, 256), (512, 512), (1024, 1024))])
    ),
    "Black-Scholes": Family(prices, vectors(*MANY, count=3), scale=100.0),
    "x // y of integers": Family(lambda x: integers(x) // 7 + integers(x) % 1000, vectors(*MANY), (F32,)),
    "hash": Family(hashed, vectors(100, *MANY), (F32,)),
    "to integers and back": Family(lambda x: integers(x).astype("float32"), vectors(1 << 16, 1 << 20), (F32,)),
    "tanh in 16 bits": Family(lambda x: pnp.tanh(x) * x + 1.0, vectors(*MANY), ("float16", "bfloat16")),
    "outer product": Family(lambda x: x[:, None] * x[None, :], vectors(64, 256, 1024)),
    "rows plus a row": Family(lambda x, y: pnp.maximum(x + y, 0.0), (((64, 64), (64,)), ((1024, 1024), (1024,)))),
    "sum": Family(pnp.sum, vectors(16, *MANY, 1 << 22)),
    "maximum": Family(pnp.max, vectors(*MANY, 1 << 22)),
    "argmax": Family(pnp.argmax, vectors(4096, 1 << 16, 1 << 20)),
    "sum of squares": Family(lambda x: pnp.sum(x * x), vectors(4096, 1 << 16, 1 << 20)),
    "sum of exp": Family(lambda x: pnp.sum(pnp.exp(x)), vectors(4096, 1 << 16, 1 << 20)),
    "variance": Family(pnp.var, vectors(4096, 1 << 16, 1 << 18, 1 << 20)),
    "value and gradient": Family(
        pb.value_and_grad(lambda x: pnp.sum(pnp.tanh(x) ** 2)), vectors(4096, 1 << 16, 1 << 18, 1 << 20)
    ),
    "sum along 0": Family(lambda x: pnp.sum(x, 0), (((1000, 100),), ((100_000, 3),), ((1024, 1024),), ((100, 10_000),))),
    "sum along 1": Family(lambda x: pnp.sum(x, 1), (((1000, 100),), ((100_000, 3),), ((1024, 1024),), ((100, 10_000),))),
    "standardized columns": Family(
        lambda x: (x - pnp.mean(x, 0)) / pnp.std(x, 0), (((1000, 10),), ((10_000, 30),), ((1024, 1024),))
    ),
    "softmax": Family(softmax, (((64, 64),), ((1024, 256),), ((128, 4096),), ((4096, 256),))),
    "layer norm": Family(normalized, (((64, 64),), ((1024, 256),), ((4096, 256),))),
    "gradient of layer norm": Family(pb.grad(lambda x: pnp.sum(normalized(x) ** 3)), (((64, 64),), ((1024, 256),))),
    "logistic regression": Family(logistic, tuple([((n, k), (k,)) for n, k in ((4096, 32), (100_000, 10), (1000, 1000))])),
    "matrix, vector": Family(
        lambda x, y: x @ y, tuple([((n, k), (k,)) for n, k in ((256, 256), (1000, 1000), (10_000, 100), (100_000, 10))])
    ),
    "vector, matrix": Family(lambda x, y: y @ x, tuple([((n, k), (n,)) for n, k in ((256, 256), (1000, 1000), (10_000, 100))])),
    "transpose": Family(lambda x: x.T + 1.0, squares(32, 128, 181, 256, 512, 1024)),
    "product": Family(lambda x, y: x @ y, squares(8, 32, 64, 80, 96, 128, count=2)),
    "flat product": Family(
        lambda x, y: x @ y, tuple([((n, k), (k, m)) for n, k, m in ((1000, 8, 8), (1000, 16, 16), (1000, 16, 64))])
    ),
    "products of 4x4": Family(lambda x, y: x @ y, tuple([((n, 4, 4),) * 2 for n in (10, 100, 1000, 10_000)])),
    "products of a batch": Family(
        lambda x, y: x @ y, tuple([((n, k, k),) * 2 for n, k in ((100, 16), (100, 32), (10, 64), (100, 64))])
    ),
    "network, batch 1": Family(pb.grad(network, (1, 2)), network_shapes(1, 16, 64, 128)),
    "network, batch 16": Family(pb.grad(network, (1, 2)), network_shapes(16, 16, 64, 128)),
    "network, batch 256": Family(pb.grad(network, (1, 2)), network_shapes(256, 16, 64)),
    "attention": Family(attention, tuple([(shape,) * 3 for shape in ((8, 8), (32, 16), (4, 32, 16), (128, 64))])),
    "convolution": Family(
        convolved, (((1, 3, 32, 32), (8, 3, 3, 3)), ((1, 8, 32, 32), (8, 8, 3, 3)), ((1, 16, 64, 64), (16, 16, 3, 3)))
    ),
    "sort": Family(pnp.sort, vectors(10, 1000, 100_000)),
    "argsort of rows": Family(lambda x: pnp.argsort(x, 1), (((100, 100),), ((1000, 100),))),
    "median": Family(pnp.median, vectors(1000, 100_000)),
    "largest 10": Family(lambda x: lax.top_k(x, 10), vectors(100, 1000, 10_000, 100_000, 1 << 20)),
    "largest 10 of rows": Family(lambda x: lax.top_k(x, 10), (((100, 1000),), ((1000, 100),))),
    "cumsum": Family(pnp.cumsum, vectors(100, 10_000, 1 << 20)),
    "cumsum along 0": Family(lambda x: pnp.cumsum(x, 0), squares(100, 1000)),
    "gather": Family(gathered, vectors(100, *MANY)),
    "scatter": Family(scattered, vectors(100, *MANY)),
    "histogram equalization": Family(equalized, squares(32, 128, 256, 1024), (F32,)),
    "bincount": Family(lambda x: pnp.bincount(integers(x) % 256, length=256), vectors(1000, 1 << 16, 1 << 20), (F32,)),
    "recurrent": Family(recurrent, tuple([((n,), (n, n)) for n in (4, 32, 64, 128)])),
    "recurrent, batch 32": Family(recurrent, tuple([((32, n), (n, n)) for n in (16, 32)])),
    "sin in a loop": Family(iterated(pnp.sin, 100), vectors(1, 1000, 100_000)),
    "x a + b in a loop": Family(iterated(lambda x: x * 0.9 + 0.1, 100), vectors(1, 1000, 1 << 16, 1 << 18, 1 << 20)),
    "sum in a loop": Family(iterated(lambda x: x / pnp.sum(x), 100), vectors(100, 1 << 14, 1 << 18)),
    "stencil in a loop": Family(iterated(stencil, 50), squares(16, 64, 256, 512, 1024)),
    "heat in a loop": Family(iterated(heat, 50), squares(16, 64, 256, 512)),
    "blur": Family(blur, squares(32, 128, 256, 512, 1024)),
    "Sobel filter": Family(sobel, squares(32, 128, 256, 512, 1024)),
    "differences": Family(lambda x: x[1:] - x[:-1], vectors(*MANY)),
    "concatenation": Family(lambda x, y: pnp.concatenate([x, y]) * 2.0, vectors(4096, 1 << 16, 1 << 20, count=2)),
    "pooling": Family(pooled, (((32, 32),), ((256, 256),), ((1024, 1024),))),
    "roll": Family(lambda x: pnp.roll(x, 5, 1) * 2.0, squares(64, 256, 1024)),
    "flip": Family(lambda x: pnp.flip(x) * 2.0, squares(64, 256, 1024)),
    "tile": Family(lambda x: pnp.tile(x, (2, 2)) + 1.0, squares(64, 256, 1024)),
    "sum of the middle axis": Family(lambda x: pnp.sum(x, 1), (((10, 100, 10),), ((100, 100, 100),))),
    "places in a table": Family(
        lambda x, y: pnp.searchsorted(pnp.cumsum(x), y * 50.0), (((100,), (1000,)), ((100,), (100_000,)))
    ),
    "cholesky": Family(
        lambda x: pnp.linalg.cholesky(regular(x * 0.01)), squares(8, 32, 64, 128, 256)
    ),
    "solve": Family(
        lambda x, y: pnp.linalg.solve(regular(x), y), tuple([((n, n), (n,)) for n in (8, 32, 64, 128, 256)])
    ),
    "10 to 1000 solutions": Family(
        pb.vmap(lambda x, y: pnp.linalg.solve(regular(x), y)), tuple([((n, 8, 8), (n, 8)) for n in (10, 1000)])
    ),
    "hessian": Family(pb.hessian(lambda x: pnp.sum(pnp.sin(x) * pnp.cumsum(x))), vectors(8, 64)),
    "pairs of points": Family(lambda x: pnp.sum((x[:, None] - x[None]) ** 2, -1), (((100, 3),), ((1000, 3),))),
}  # fmt: skip


def arguments(shapes: Shapes, dtype: str, scale: float) -> list[Any]:
    rng = np.random.default_rng(0)
    return [pnp.asarray((rng.random(shape) + 0.1) * scale).astype(dtype) for shape in shapes]


class Contestant(NamedTuple):
    mode: str
    call: Callable[[], Any]

    def took(self, count: int) -> float:
        """The seconds that one of so many calls takes."""
        with native_mode(self.mode):
            start = time.perf_counter()
            for _ in range(count):
                self.call()
            return (time.perf_counter() - start) / count


def measured(family: Family, shapes: Shapes, dtype: str) -> dict[str, Any]:
    """What is chosen, and the seconds that calls of each contestant took in its turns."""
    args = arguments(shapes, dtype, family.scale)
    chosen = pb.jit(family.function).explain(*args)
    contestants = {}
    for tier, mode in {"xla": "off", "native": "always", "mixed": "on"}.items():
        jitted = pb.jit(family.function)
        with native_mode(mode):
            if jitted.explain(*args).tier == tier:
                contestants[tier] = Contestant(mode, lambda jitted=jitted: pb.block_until_ready(jitted(*args)))
    times: dict[str, list[float]] = {tier: [] for tier in contestants}
    once = {tier: min(one.took(1), one.took(1)) for tier, one in contestants.items()}
    begun = time.perf_counter()
    for turn in range(MOST_TURNS):
        for tier in list(contestants)[:: -1 if turn % 2 else 1]:
            times[tier].append(contestants[tier].took(max(1, int(SLICE / once[tier]))))
        if turn >= LEAST_TURNS and time.perf_counter() - begun > ENOUGH:
            break
    return {"chosen": chosen.tier, "reason": chosen.reason, "times": times}


def sizes(shapes: Shapes) -> str:
    return "x".join(map(str, max(shapes, key=math.prod)))


def rows(words: list[str]) -> Iterator[tuple[str, str, Family]]:
    for name, family in PROGRAMS.items():
        for dtype in family.dtypes:
            if not words or any([word in f"{name} {dtype}" for word in words]):
                yield name, dtype, family


def earlier(file: str | None) -> dict[str, Any]:
    """What runs before have written."""
    return json.loads(Path(file).read_text()) if file is not None and Path(file).exists() else {}


def cell(label: str, one: dict[str, Any]) -> str:
    times = one["times"]
    if "native" not in times:
        return f"{label} -{one['chosen'][0]}"
    ratios = [of(times["xla"]) / of(times["native"]) for of in (min, statistics.median)]
    return f"{label} {ratios[0]:.2f}/{ratios[1]:.2f}{one['chosen'][0]}"


def main(arguments: list[str]) -> None:
    file = arguments[arguments.index("--json") + 1] if "--json" in arguments else None
    words = [word for word in arguments if word not in ("--json", file)]
    known, wrong, count = earlier(file), [], 0
    for name, dtype, family in rows(words):
        cells = []
        for shapes in family.shapes:
            key = f"{name} {dtype} {'x'.join(map(str, shapes))}"
            one = measured(family, shapes, dtype)
            for tier, times in known.get(key, {}).get("times", {}).items():
                one["times"][tier] = times + one["times"].get(tier, [])
            known[key] = one
            cells.append(cell(sizes(shapes), one))
            count += 1
            least = {tier: min(times) for tier, times in one["times"].items()}
            quality = min(least.values()) / least[one["chosen"]]
            if quality < GOOD:
                took = ", ".join([f"{tier} {seconds(time)}" for tier, time in least.items()])
                wrong.append((quality, f"{key}: {one['chosen']} is chosen; {took}. {one['reason']}"))
        print(f"{name + ' ' + dtype:34} {'  '.join(cells)}", flush=True)
    print(f"{len(wrong)} of {count} programs have a choice that is below {GOOD} of the best")
    for quality, line in sorted(wrong):
        print(f"{quality:.2f}  {line}")
    if file is not None:
        Path(file).write_text(json.dumps(known))


if __name__ == "__main__":
    main(sys.argv[1:])
