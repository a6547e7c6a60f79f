"""The numerical surface: compiled functions against jax.jit, and eager ones against NumPy on small and on large arrays.

    python benchmarks/surface.py          # both
    python benchmarks/surface.py jax      # against jax.jit, where jax is installed
    python benchmarks/surface.py numpy    # the fifty commonest functions against NumPy

Contestants take turns in one process. Against jax.jit a row shows how many times longer JAX took; against NumPy, how many times
longer we took, for arrays of 8 and of 1,000,000 float32 numbers (matrices: 1000 rows): the minimum and the median of the turns.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import race, turns

import pullback as pb
import pullback.numpy as pnp

SMALL, LARGE = 2.5, 1.1  # how many times NumPy's time a function may take, on small arrays and on large ones
SHORT = (
    20e-6  # what takes NumPy no longer than this on large arrays looks at few elements: there the limit for small ones holds
)


def of(library: Any, path: str) -> Any:
    """A function of a library by its path; None where it is not there."""
    for name in path.split("."):
        library = getattr(library, name, None)
    return library


# ---- against jax.jit ------------------------------------------------------------------------------------------------------


def layernorm(numpy: Any) -> Callable[..., Any]:
    def f(x: Any, scale: Any, shift: Any) -> Any:
        mean = numpy.mean(x, axis=-1, keepdims=True)
        variance = numpy.mean((x - mean) ** 2, axis=-1, keepdims=True)
        return (x - mean) / numpy.sqrt(variance + 1e-5) * scale + shift

    return f


def compiled(rng: np.random.Generator) -> dict[str, tuple[float, Callable[[Any, Any], Any], tuple[Any, ...]]]:
    """For each row: the ratio that is promised, the function given a library and its numpy, and the arguments."""
    million = rng.normal(size=1_000_000).astype(np.float32)
    tall = rng.normal(size=(2000, 512))
    rows = rng.normal(size=(4096, 512)).astype(np.float32)
    places = rng.integers(0, 100_000, 100_000).astype(np.int32)
    table = rng.normal(size=(100_000, 32)).astype(np.float32)
    image, kernel = rng.normal(size=(8, 32, 56, 56)).astype(np.float32), rng.normal(size=(32, 32, 3, 3)).astype(np.float32)
    square = {n: rng.normal(size=(n, n)).astype(np.float32) for n in (64, 256, 1024)}
    definite = square[256] @ square[256].T + 256 * np.eye(256, dtype=np.float32)
    found: dict[str, Any] = {
        "sort 1e6": (20, lambda lib, numpy: numpy.sort, (million,)),
        "argsort 1e6": (8, lambda lib, numpy: numpy.argsort, (million,)),
        "cumsum 1e6": (2, lambda lib, numpy: numpy.cumsum, (million,)),
        "sum over axis 0, float64": (1, lambda lib, numpy: lambda x: numpy.sum(x, axis=0), (tall,)),
        "softmax 4096x512": (1, lambda lib, numpy: lib.nn.softmax, (rows,)),
        "layernorm 4096x512": (1, lambda lib, numpy: layernorm(numpy), (rows, rows[0], rows[1])),
        "conv 3x3": (1, lambda lib, numpy: lambda x, k: lib.lax.conv_general_dilated(x, k, (1, 1), "SAME"), (image, kernel)),
        "gather 1e5 rows of 32": (1, lambda lib, numpy: lambda x, i: x[i], (table, places)),
        "scatter-add 1e5 rows of 32": (1, lambda lib, numpy: lambda x, i, y: x.at[i].add(y), (table, places, table)),
        **{f"matmul {n}": (1, lambda lib, numpy: numpy.matmul, (x, x)) for n, x in square.items()},
        "cholesky 256": (1, lambda lib, numpy: numpy.linalg.cholesky, (definite,)),
        "solve 256": (1, lambda lib, numpy: numpy.linalg.solve, (definite, square[256])),
        "svd 256": (1, lambda lib, numpy: numpy.linalg.svd, (square[256],)),
        "fft 1e6": (1, lambda lib, numpy: numpy.fft.fft, (million.astype(np.complex64),)),
        "normal 1e6": (
            1.2,
            lambda lib, numpy: lambda seed: lib.random.normal(lib.random.key(seed), (1_000_000,)),
            (np.int32(0),),
        ),
    }
    return found


def against_jax() -> None:
    if not importlib.util.find_spec("jax"):
        print("jax is not installed: nothing to compare compiled functions with")
        return
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)  # for the float64 row; the others are of float32 all the same
    print("compiled, against jax.jit")
    for name, (promised, make, host) in compiled(np.random.default_rng(0)).items():
        try:
            ours, theirs = pb.jit(make(pb, pnp)), jax.jit(make(jax, jnp))
            args, peers = [pnp.asarray(x) for x in host], [jnp.asarray(x) for x in host]
            pb.block_until_ready(ours(*args))
        except AttributeError as error:
            print(f"{name:34} not there yet: {error}")
            continue
        race(
            name,
            {
                "pullback": lambda ours=ours, args=args: pb.block_until_ready(ours(*args)),  # type: ignore[misc]
                "jax": lambda theirs=theirs, peers=peers: jax.block_until_ready(theirs(*peers)),  # type: ignore[misc]
            },
            at_least=promised,
        )


# ---- eager, against NumPy -------------------------------------------------------------------------------------------------

UNARY = "abs negative sign exp log sqrt sin cos tanh floor square isnan"
BINARY = "add subtract multiply divide power maximum arctan2 less equal logical_and floor_divide mod"
OF_ONE = "sum mean max min argmax argsort sort cumsum std var any prod ravel median unique diff flip nonzero count_nonzero"
PLACES = {np: np.array([3, 1, 2]), pnp: pnp.asarray([3, 1, 2])}
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "where": lambda numpy, x, y: numpy.where(x > 0, x, y),
    "clip": lambda numpy, x, y: numpy.clip(x, -1.0, 1.0),
    "dot": lambda numpy, x, y: numpy.dot(x, y),
    "concatenate": lambda numpy, x, y: numpy.concatenate([x, y]),
    "stack": lambda numpy, x, y: numpy.stack([x, y]),
    "reshape": lambda numpy, x, y: numpy.reshape(x, (2, -1)),
    "transpose": lambda numpy, x, y: numpy.transpose(x),
    "zeros_like": lambda numpy, x, y: numpy.zeros_like(x),
    "full_like": lambda numpy, x, y: numpy.full_like(x, 1.0),
    "x[i]": lambda numpy, x, y: x[PLACES[numpy]],
    "take": lambda numpy, x, y: numpy.take(x, PLACES[numpy]),
    "roll": lambda numpy, x, y: numpy.roll(x, 1),
    "x[1:-1]": lambda numpy, x, y: x[1:-1],
    "x * 2.0 + 1.0": lambda numpy, x, y: x * 2.0 + 1.0,
    "einsum i,i": lambda numpy, x, y: numpy.einsum("i,i", x, y),
    "outer": lambda numpy, x, y: numpy.outer(x[:8], y[:8]),
    "searchsorted": lambda numpy, x, y: numpy.searchsorted(x, y[:8]),
    "allclose": lambda numpy, x, y: numpy.allclose(x, y),
}


def functions() -> dict[str, Callable[[Any, Any, Any], Any]]:
    made: dict[str, Any] = {
        name: lambda numpy, x, y, name=name: of(numpy, name)(x) for name in (*UNARY.split(), *OF_ONE.split())
    }
    made |= {name: lambda numpy, x, y, name=name: of(numpy, name)(x, y) for name in BINARY.split()}
    return made | CALLS


def against_numpy() -> None:
    print("eager, float32: how many times NumPy's time on the processor we take, minimum and median of the turns")
    print(f"{'':16}{'8 elements':>16}{'':8}{'1e6 elements':>16}")
    found: dict[int, list[tuple[float, float]]] = {8: [], 1_000_000: []}
    for name, call in functions().items():
        cells = []
        for size, limit in ((8, SMALL), (1_000_000, LARGE)):
            rng = np.random.default_rng(0)
            x, y = (rng.random(size).astype(np.float32) + 0.5 for _ in range(2))
            ours = pnp.asarray(x), pnp.asarray(y)
            try:
                call(pnp, *ours)
            except (AttributeError, TypeError):
                cells.append(f"{'not there':>24}")
                continue
            times = turns({"ours": lambda: call(pnp, *ours), "numpy": lambda: call(np, x, y)}, clock=time.process_time)
            ratios = [mine / theirs for mine, theirs in zip(times["ours"], times["numpy"], strict=True)]
            median = statistics.median(ratios)
            limit = SMALL if statistics.median(times["numpy"]) < SHORT else limit
            found[size].append((median, limit))
            cells.append(f"{min(ratios):8.2f}{median:8.2f}{'  above ' if median > limit else '        '}")
        print(f"{name:16}{''.join(cells)}", flush=True)
    for size, pairs in found.items():
        above, middle = sum(ratio > limit for ratio, limit in pairs), statistics.median(ratio for ratio, _ in pairs)
        print(f"{size} elements: median {middle:.2f}, largest {max(pairs)[0]:.2f}, {above} of {len(pairs)} above their limit")


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["jax", "numpy"]
    if "jax" in chosen:
        against_jax()
    if "numpy" in chosen:
        against_numpy()
