"""Compiled functions next to JAX's, in one process and interleaved: dispatch, lowering, first calls, the disk cache, kernels.

    python benchmarks/compiled.py [name ...]

Every line shows our time and JAX's, of the fastest run and the median one, and how many times faster we are: by the fastest
runs, and the median of the ratios of neighbouring runs, which other work on the machine changes least. Needs jax, which
nothing else does.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import pullback as pb
from pullback.engine.compile import lower_to_text
from pullback.transforms.simplify import simplify

pnp = pb.numpy
Work = Callable[[], Any]


def line(name: str, ours: list[float], theirs: list[float], unit: float = 1e6, called: str = "us") -> None:
    least = (min(ours), min(theirs))
    middle = (statistics.median(ours), statistics.median(theirs))
    ratio = statistics.median([other / own for own, other in zip(ours, theirs)])
    print(
        f"{name:34s} pullback {least[0] * unit:9.2f} / {middle[0] * unit:9.2f} {called}   jax {least[1] * unit:9.2f} /"
        f" {middle[1] * unit:9.2f}   ratio {least[1] / least[0]:5.2f} / {ratio:5.2f}"
    )


def interleaved(ours: Work, theirs: Work, calls: int, rounds: int = 21) -> tuple[list[float], list[float]]:
    """Seconds a call, one number a round for each."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, times in zip((ours, theirs), found, strict=True):
            start = time.perf_counter()
            for _ in range(calls):
                work()
            times.append((time.perf_counter() - start) / calls)
    return found


def dispatch() -> None:
    """Calls of programs that do nearly nothing: of arrays, NumPy arrays and numbers, by themselves and in containers."""

    def ends(xs: Sequence[Any]) -> Any:
        return xs[0] + xs[-1]

    for count in (1, 4, 10, 100):
        ours, theirs = [[xp.ones(4) for _ in range(count)] for xp in (pnp, jnp)]
        versus(f"{count} arrays, two read", lambda *xs: ends(xs), ours, theirs)
        versus(f"{count} arrays, all read", lambda *xs: functools.reduce(operator.add, xs), ours, theirs)
        trees = [[{f"x{i}": x for i, x in enumerate(xs)}] for xs in (ours, theirs)]
        versus(f"dict of {count}, all read", lambda tree: functools.reduce(operator.add, tree.values()), *trees)
        states = [[State(xs[:1], xs[1:], xs[-1])] for xs in (ours, theirs)]
        versus(f"dataclass of {count + 1}, two read", lambda state: state.params[0] + state.step, *states)
    x = np.ones(4, np.float32)
    for count in (1, 4, 10):
        versus(f"{count} NumPy in, two read", lambda *xs: ends(xs), [x] * count, [x] * count)
        versus(f"{count} NumPy in, all read", lambda *xs: functools.reduce(operator.add, xs), [x] * count, [x] * count)
    versus("Python float in", lambda x: x + x, [2.0], [2.0])


def versus(name: str, function: Callable[..., Any], ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Calls of a function, until they return, and until the result is there."""
    f, g = pb.jit(function), jax.jit(function)
    line(f"dispatch, {name}", *interleaved(lambda: f(*ours), lambda: g(*theirs), 1000))
    waited = (lambda: f(*ours).block_until_ready(), lambda: g(*theirs).block_until_ready())
    line("  and waited for", *interleaved(*waited, 1000))


class Tuple(NamedTuple):
    params: Any
    momentum: Any
    step: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    params: Any
    momentum: Any
    step: Any


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 3
    rate: float = 0.1


def calls() -> None:
    """Static arguments, and states in containers of their own that go from call to call, donated or not."""

    for name, value in (("int", 3), ("str", "relu"), ("tuple", (2, 2)), ("dataclass", Config())):
        f, g = [one.jit(lambda x, by: x + len(repr(by)), static_argnums=1) for one in (pb, jax)]
        ours, theirs = pnp.ones(4), jnp.ones(4)
        line(f"dispatch, static {name}", *interleaved(lambda: f(ours, value), lambda: g(theirs, value), 2000))
    for kind, given in itertools.product((Tuple, State), ((), (0,))):
        f, g = [one.jit(lambda s, add=one.tree.map: add(lambda x: x + 1.0, s), donate_argnums=given) for one in (pb, jax)]
        states = [kind(*[{f"x{i}": xp.ones(4) for i in range(10)} for _ in range(2)], xp.ones(())) for xp in (pnp, jnp)]

        def advance(which: int, function: Any) -> None:
            states[which] = function(states[which])

        name = f"dispatch, {'donated ' if given else ''}{kind.__name__} of 21"
        line(name, *interleaved(lambda: advance(0, f), lambda: advance(1, g), 500))


def sizes() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    widths = [64, 128, 128, 10]
    return [(rng.normal(size=(a, b)).astype(np.float32) * 0.1, np.zeros(b, np.float32)) for a, b in itertools.pairwise(widths)]


def mlp_step(xp: Any, grad: Any) -> Callable[..., Any]:
    """One step of gradient descent of a network with two hidden layers on a batch."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = xp.tanh(x @ w + b)
        w, b = params[-1]
        logits = x @ w + b
        logits = logits - xp.max(logits, axis=1, keepdims=True)
        return -xp.mean(xp.sum(y * (logits - xp.log(xp.sum(xp.exp(logits), axis=1, keepdims=True))), axis=1))

    def step(params: Any, x: Any, y: Any) -> Any:
        return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, grad(loss)(params, x, y))]

    return step


def batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(32, 64)).astype(np.float32), np.eye(10, dtype=np.float32)[rng.integers(0, 10, 32)]


def mlp() -> None:
    x, y = batch()
    f, g = pb.jit(mlp_step(pnp, pb.grad)), jax.jit(mlp_step(jnp, jax.grad))
    ours, theirs = f(sizes(), x, y), g(sizes(), x, y)
    for (w, b), (v, c) in zip(ours, theirs):
        np.testing.assert_allclose(np.asarray(w), np.asarray(v), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(np.asarray(b), np.asarray(c), rtol=1e-3, atol=1e-5)
    our_batch, their_batch = pb.device_put((x, y)), jax.device_put((x, y))
    line("MLP step", *interleaved(lambda: f(ours, *our_batch), lambda: jax.block_until_ready(g(theirs, *their_batch)), 200))


def lowering() -> None:
    x, y = batch()
    traced = jax.jit(mlp_step(jnp, jax.grad)).trace(sizes(), x, y)
    program = pb.jit(mlp_step(pnp, pb.grad)).lower(sizes(), x, y).program

    def lower() -> str:
        program._memo.clear()
        return lower_to_text(simplify(program))

    def their_lower() -> Any:
        jax.clear_caches()
        return traced.lower()

    line("lowering, MLP step", *interleaved(lower, their_lower, 1, 15))
    line(
        "tracing and lowering, MLP step",
        *interleaved(
            lambda: pb.jit(mlp_step(pnp, pb.grad)).lower(sizes(), x, y).as_text(),
            lambda: (jax.clear_caches(), jax.jit(mlp_step(jnp, jax.grad)).lower(sizes(), x, y).as_text()),
            1,
            15,
        ),
    )
    print(f"{'':34s} text: pullback {len(lower()):,} bytes, jax {len(traced.lower().as_text()):,}")


def first() -> None:
    """The first call of a new function, without any disk cache."""
    x, y = batch()
    os.environ["PULLBACK_CACHE_DIR"] = ""

    def our_first(**options: bool) -> None:
        pb.clear_caches()
        pb.jit(mlp_step(pnp, pb.grad), **options)(sizes(), x, y)

    def their_first() -> None:
        jax.clear_caches()
        jax.block_until_ready(jax.jit(mlp_step(jnp, jax.grad))(sizes(), x, y))

    line("first call, MLP step", *interleaved(our_first, their_first, 1, 9), 1e3, "ms")
    line("first call, MLP step, tiered", *interleaved(lambda: our_first(tiered=True), their_first, 1, 9), 1e3, "ms")


SECOND = {
    "pullback": "import pullback as pb; xp, jit, grad = pb.numpy, pb.jit, pb.grad",
    "jax": "import jax; xp, jit, grad = jax.numpy, jax.jit, jax.grad",
}


def second() -> None:
    """The first call in a second process, with what a first process left on disk; with the import, and without."""
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ,
            "PULLBACK_CACHE_DIR": os.path.join(directory, "pullback"),
            "JAX_COMPILATION_CACHE_DIR": os.path.join(directory, "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in SECOND}
        for _ in range(8):
            for name, start in SECOND.items():
                script = (
                    f"import time; t = time.perf_counter(); import numpy as np; {start}\n"
                    f"import ast, itertools, sys\n"
                    f"source = open({os.path.join(here, 'compiled.py')!r}).read()\n"
                    "wanted = ('sizes', 'batch', 'mlp_step')\n"
                    "tree = ast.parse(source)\n"
                    "tree.body = [n for n in tree.body if getattr(n, 'name', '') in wanted]\n"
                    "from typing import Any; from collections.abc import Callable\n"
                    "exec(compile(tree, 'benchmark', 'exec'))\n"
                    "p, (x, y) = sizes(), batch(); u = time.perf_counter()\n"
                    "np.asarray(jit(mlp_step(xp, grad))(p, x, y)[0][0])\n"
                    "v = time.perf_counter(); print(v - t, v - u)"
                )
                out = subprocess.run(
                    [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
                )
                whole, call = map(float, out.stdout.split())
                found[name].append((whole, call))
    ours, theirs = found["pullback"][1:], found["jax"][1:]  # the first filled the caches
    line("second process, first call", [b for _, b in ours], [b for _, b in theirs], 1e3, "ms")
    line("second process, with import", [a for a, _ in ours], [a for a, _ in theirs], 1e3, "ms")


def matmul() -> None:
    x = np.random.default_rng(0).normal(size=(1024, 1024)).astype(np.float32)
    f, g = pb.jit(lambda x: x @ x), jax.jit(lambda x: x @ x)
    ours, theirs = pb.device_put(x), jax.device_put(x)
    line("matmul 1024", *interleaved(lambda: f(ours).block_until_ready(), lambda: g(theirs).block_until_ready(), 3), 1e3, "ms")


def overlap() -> None:
    """Calls of a long program: until they return, until the result is there, and together with as much work of Python's own."""

    def loop(lax: Any, x: Any) -> Any:
        return lax.fori_loop(0, 1000, lambda i, c: c @ x, x)

    f, g = pb.jit(lambda x: loop(pb.lax, x)), jax.jit(lambda x: loop(jax.lax, x))
    x = np.eye(128, dtype=np.float32)
    ours, theirs = pb.device_put(x), jax.device_put(x)
    line("long loop, returned", *waiting(lambda: f(ours), lambda: g(theirs)))
    done = interleaved(lambda: f(ours).block_until_ready(), lambda: g(theirs).block_until_ready(), 1)
    line("long loop, result there", *done, 1e3, "ms")
    pause = min(done[0])
    both = interleaved(
        lambda: (f(ours), time.sleep(pause))[0].block_until_ready(),
        lambda: (g(theirs), time.sleep(pause))[0].block_until_ready(),
        1,
    )
    line("long loop, and as long a pause", *both, 1e3, "ms")


def waiting(ours: Work, theirs: Work, rounds: int = 21) -> tuple[list[float], list[float]]:
    """Seconds until a call returns, whose result is waited for outside of that time."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for work, times in zip((ours, theirs), found, strict=True):
            start = time.perf_counter()
            out = work()
            times.append(time.perf_counter() - start)
            out.block_until_ready()
    return found


def block(xp: Any) -> Callable[..., Any]:
    """The loss of one transformer block, summed."""

    def normalized(x: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return centred / xp.sqrt(xp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    def loss(params: Any, x: Any) -> Any:
        batch, time_steps, width = x.shape
        h = normalized(x) @ params["qkv"]
        q, k, v = [h[..., i * width : (i + 1) * width].reshape(batch, time_steps, 4, width // 4) for i in range(3)]
        scores = xp.einsum("bthd,bshd->bhts", q, k) / (width // 4) ** 0.5
        weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        weights = weights / xp.sum(weights, axis=-1, keepdims=True)
        x = x + xp.einsum("bhts,bshd->bthd", weights, v).reshape(batch, time_steps, width) @ params["out"]
        return xp.sum((x + xp.tanh(normalized(x) @ params["up"]) @ params["down"]) ** 2)

    return loss


def layers(xp: Any, grad: Any) -> Callable[..., Any]:
    """A step of gradient descent of the losses of several transformer blocks together: a large program."""
    one = block(xp)

    def loss(blocks: Any, x: Any) -> Any:
        return sum([one(params, x * (1.0 + i)) for i, params in enumerate(blocks)])

    def step(blocks: Any, x: Any) -> Any:
        slopes = grad(loss)(blocks, x)
        return [{name: p[name] - 0.01 * slope[name] for name in p} for p, slope in zip(blocks, slopes)]

    return step


def tiers() -> None:
    """A large program compiled in two tiers: its first call, calls before and after the change, and all of some calls."""
    params, x = weights()
    blocks = [params] * 4
    os.environ["PULLBACK_CACHE_DIR"] = ""

    def ours(**options: bool) -> Any:
        pb.clear_caches()
        function = pb.jit(layers(pnp, pb.grad), **options)
        pb.block_until_ready(function(blocks, x))
        return function

    def theirs() -> Any:
        jax.clear_caches()
        function = jax.jit(layers(jnp, jax.grad))
        jax.block_until_ready(function(blocks, x))
        return function

    line("first call, 4 blocks", *interleaved(ours, theirs, 1, 3), 1e3, "ms")
    line("first call, 4 blocks, tiered", *interleaved(lambda: ours(tiered=True), theirs, 1, 3), 1e3, "ms")
    our_arrays, their_arrays = pb.device_put((blocks, x)), jax.device_put((blocks, x))
    tiered, other = ours(tiered=True), theirs()
    work = (lambda: pb.block_until_ready(tiered(*our_arrays)), lambda: jax.block_until_ready(other(*their_arrays)))
    line("4 blocks, quick code", *interleaved(*work, 1, 9), 1e3, "ms")
    tiered.block_until_compiled()
    line("4 blocks, best code", *interleaved(*work, 5, 9), 1e3, "ms")
    for count in (30, 300):
        called = (
            lambda: [function := ours(tiered=True), [pb.block_until_ready(function(*our_arrays)) for _ in range(count)]],
            lambda: [function := theirs(), [jax.block_until_ready(function(*their_arrays)) for _ in range(count)]],
        )
        line(f"{count} calls from the first on, tiered", *interleaved(*called, 1, 3), 1e3, "ms")


def weights() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Of a transformer block, and a batch."""
    rng = np.random.default_rng(0)
    shapes = {"qkv": (64, 192), "out": (64, 64), "up": (64, 256), "down": (256, 64)}
    params = {name: (rng.normal(size=shape) * 0.05).astype(np.float32) for name, shape in shapes.items()}
    return params, rng.normal(size=(4, 32, 64)).astype(np.float32)


def transformer() -> None:
    params, x = weights()
    f, g = pb.jit(pb.grad(block(pnp))), jax.jit(jax.grad(block(jnp)))
    ours, theirs = pb.device_put((params, x)), jax.device_put((params, x))
    for name, value in f(*ours).items():
        np.testing.assert_allclose(np.asarray(value), np.asarray(g(*theirs)[name]), rtol=1e-2, atol=1e-3)
    work = (lambda: f(*ours), lambda: jax.block_until_ready(g(*theirs)))
    line("transformer block, fwd + bwd", *interleaved(*work, 20))

    def our_first() -> None:
        pb.clear_caches()
        pb.jit(pb.grad(block(pnp)))(params, x)

    def their_first() -> None:
        jax.clear_caches()
        jax.block_until_ready(jax.jit(jax.grad(block(jnp)))(params, x))

    os.environ["PULLBACK_CACHE_DIR"] = ""
    line("first call, transformer block", *interleaved(our_first, their_first, 1, 5), 1e3, "ms")


ALL = [dispatch, calls, mlp, matmul, overlap, transformer, lowering, first, tiers, second]

if __name__ == "__main__":
    for benchmark in ALL:
        if len(sys.argv) == 1 or benchmark.__name__ in sys.argv[1:]:
            benchmark()
