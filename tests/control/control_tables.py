"""Functions with loops and branches, each beside the same function unrolled in Python; and what is done to both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import pullback as pb
import pullback.numpy as pnp
from pullback import lax

rng = np.random.default_rng(0)
W = rng.normal(size=(3, 3)) * 0.5
H = rng.normal(size=3)
XS = rng.normal(size=(4, 3))


class Case(NamedTuple):
    name: str
    function: Callable[..., Any]
    unrolled: Callable[..., Any]
    args: tuple[Any, ...]


def total(*values: Any) -> Any:
    """One number that depends on all elements of some arrays, each in its own way."""
    return sum(pnp.sum(pnp.sin(value) * (i + 1.5)) for i, value in enumerate(values))


# ---- scan ---------------------------------------------------------------------------------------------------------------


def recurrent(w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> tuple[Any, Any]:
        new = pnp.tanh(w @ h + x)
        return new, new * x

    return total(*lax.scan(step, h, xs))


def recurrent_unrolled(w: Any, h: Any, xs: Any) -> Any:
    ys = []
    for i in range(xs.shape[0]):
        h = pnp.tanh(w @ h + xs[i])
        ys.append(h * xs[i])
    return total(h, pnp.stack(ys))


def backwards(h: Any, xs: Any) -> Any:
    (h, count), ys = lax.scan(lambda c, x: ((pnp.sin(c[0] * x), c[1] + 1), c[0] + x * c[1]), (h, 0), xs, reverse=True)
    return total(h, ys) + count


def backwards_unrolled(h: Any, xs: Any) -> Any:
    ys: list[Any] = [None] * xs.shape[0]
    for count, i in enumerate(reversed(range(xs.shape[0]))):
        ys[i] = h + xs[i] * count
        h = pnp.sin(h * xs[i])
    return total(h, pnp.stack(ys)) + xs.shape[0]


def without_xs(x: Any) -> Any:
    (a, b), ys = lax.scan(lambda c, _: ((c[1] * x, c[0] + c[1]), c[0] * 2.0), (x, x * x), None, length=4)
    return total(a, b, ys)


def without_xs_unrolled(x: Any) -> Any:
    a, b, ys = x, x * x, []
    for _ in range(4):
        ys.append(a * 2.0)
        a, b = b * x, a + b
    return total(a, b, pnp.stack(ys))


def nested_scans(h: Any, xs: Any) -> Any:
    def outer(h: Any, x: Any) -> tuple[Any, Any]:
        h, ys = lax.scan(lambda g, y: (pnp.sin(g) * y, g * h), h, x)
        return h, pnp.sum(ys)

    return total(*lax.scan(outer, h[0], xs))


def nested_scans_unrolled(h: Any, xs: Any) -> Any:
    g, sums = h[0], []
    for i in range(xs.shape[0]):
        outer, ys = g, []
        for j in range(xs.shape[1]):
            ys.append(g * outer)
            g = pnp.sin(g) * xs[i, j]
        sums.append(pnp.sum(pnp.stack(ys)))
    return total(g, pnp.stack(sums))


# ---- while_loop ---------------------------------------------------------------------------------------------------------


def growing(checkpoint: int | None = None) -> Callable[..., Any]:
    def function(x: Any, a: Any) -> Any:
        def step(state: Any) -> Any:
            n, y = state
            return n + 1, y * (1.0 + a * a) + 0.1 * pnp.sin(y)

        n, y = lax.while_loop(lambda s: pnp.sum(s[1]) < 20.0, step, (0, x), max_steps=30, checkpoint=checkpoint)
        return total(y) + n

    return function


def growing_unrolled(x: Any, a: Any) -> Any:
    n, y = 0, x
    while pnp.sum(y) < 20.0:
        n, y = n + 1, y * (1.0 + a * a) + 0.1 * pnp.sin(y)
    return total(y) + n


def bounded(x: Any) -> Any:
    return lax.while_loop(lambda y: y < 1e6, lambda y: y * y + 0.5, x, max_steps=3)


def bounded_unrolled(x: Any) -> Any:
    for _ in range(3):
        if x < 1e6:
            x = x * x + 0.5
    return x


def scan_in_while(x: Any, xs: Any) -> Any:
    def step(y: Any) -> Any:
        return y + lax.scan(lambda c, v: (c + v * v * y, None), 0.5, xs)[0]

    return lax.while_loop(lambda y: y < 50.0, step, x, max_steps=12)


def scan_in_while_unrolled(x: Any, xs: Any) -> Any:
    while x < 50.0:
        c = 0.5
        for i in range(xs.shape[0]):
            c = c + xs[i] * xs[i] * x
        x = x + c
    return x


# ---- branches -----------------------------------------------------------------------------------------------------------


def branching(p: Any, x: Any, y: Any) -> Any:
    first, second = lax.cond(p > 0.0, lambda x, y: (pnp.sin(x) * y, x), lambda x, y: (y * y, 2.0), x, y)
    return total(first) + second * x


def branching_unrolled(p: Any, x: Any, y: Any) -> Any:
    first, second = (pnp.sin(x) * y, x) if p > 0.0 else (y * y, 2.0)
    return total(first) + second * x


def switching(i: Any, x: Any, xs: Any) -> Any:
    branches = [lambda v: pnp.sum(v * xs), lambda v: pnp.sum(pnp.exp(0.1 * xs)), lambda v: v**3 + xs[0], lambda v: 1.0]
    return lax.switch(pnp.floor(i).astype("int32"), branches, x) * x


def switching_unrolled(i: Any, x: Any, xs: Any) -> Any:
    at = min(max(int(np.floor(float(value_of(i)))), 0), 3)
    found = [lambda: pnp.sum(x * xs), lambda: pnp.sum(pnp.exp(0.1 * xs)), lambda: x**3 + xs[0], lambda: 1.0][at]()
    return found * x


def value_of(x: Any) -> Any:
    while hasattr(x, "primal"):
        x = x.primal
    return x


def while_in_cond(x: Any, a: Any) -> Any:
    def long(x: Any) -> Any:
        return lax.while_loop(lambda y: y < 10.0, lambda y: y * a + 1.0, x, max_steps=20)

    return lax.cond(x < 3.0, long, lambda x: pnp.cos(x) * a, x)


def while_in_cond_unrolled(x: Any, a: Any) -> Any:
    if not x < 3.0:
        return pnp.cos(x) * a
    while x < 10.0:
        x = x * a + 1.0
    return x


def cond_in_scan(x: Any, xs: Any) -> Any:
    def step(c: Any, v: Any) -> tuple[Any, Any]:
        new = lax.cond(v > 0.0, lambda c: c * v, lambda c: pnp.sin(c) - v, c)
        return new, new * new

    return total(*lax.scan(step, x, xs))


def cond_in_scan_unrolled(x: Any, xs: Any) -> Any:
    ys = []
    for i in range(xs.shape[0]):
        x = x * xs[i] if xs[i] > 0.0 else pnp.sin(x) - xs[i]
        ys.append(x * x)
    return total(x, pnp.stack(ys))


# ---- what is made of them -----------------------------------------------------------------------------------------------


def mapped(batch_size: int | None) -> Callable[..., Any]:
    return lambda w, xs: total(lax.map(lambda x: pnp.sin(w @ x) * x, xs, batch_size=batch_size))


def mapped_unrolled(w: Any, xs: Any) -> Any:
    return total(pnp.stack([pnp.sin(w @ xs[i]) * xs[i] for i in range(xs.shape[0])]))


def counted(x: Any, a: Any) -> Any:
    return total(lax.fori_loop(1, 5, lambda i, y: pnp.sin(y * a) + i * y, x))


def counted_unrolled(x: Any, a: Any) -> Any:
    for i in range(1, 5):
        x = pnp.sin(x * a) + i * x
    return total(x)


def affine(reverse: bool) -> Callable[..., Any]:
    def compose(f: Any, g: Any) -> Any:
        return f[0] * g[0], f[1] * g[0] + g[1]

    return lambda a, b: total(*lax.associative_scan(compose, (a, b), reverse=reverse))


def affine_unrolled(reverse: bool) -> Callable[..., Any]:
    def function(a: Any, b: Any) -> Any:
        order = list(range(a.shape[0]))[:: -1 if reverse else 1]
        p, q = a[order[0]], b[order[0]]
        found = {order[0]: (p, q)}
        for i in order[1:]:
            p, q = p * a[i], q * a[i] + b[i]
            found[i] = p, q
        return total(*[pnp.stack([found[i][k] for i in sorted(order)]) for k in (0, 1)])

    return function


CASES = [
    Case("scan", recurrent, recurrent_unrolled, (W, H, XS)),
    Case("scan reverse", backwards, backwards_unrolled, (H, XS)),
    Case("scan xs=None", without_xs, without_xs_unrolled, (np.array(0.7),)),
    Case("scan in scan", nested_scans, nested_scans_unrolled, (H, XS)),
    Case("while", growing(), growing_unrolled, (np.abs(H), np.array(0.6))),
    Case("while, 1 level", growing(1), growing_unrolled, (np.abs(H), np.array(0.6))),
    Case("while, 3 levels", growing(3), growing_unrolled, (np.abs(H), np.array(0.6))),
    Case("while, bound reached", bounded, bounded_unrolled, (np.array(1.1),)),
    Case("scan in while", scan_in_while, scan_in_while_unrolled, (np.array(0.6), H)),
    Case("cond, true", branching, branching_unrolled, (np.array(0.4), np.array(0.7), H)),
    Case("cond, false", branching, branching_unrolled, (np.array(-0.4), np.array(0.7), H)),
    Case("switch, 0", switching, switching_unrolled, (np.array(0.5), np.array(0.7), H)),
    Case("switch, 2", switching, switching_unrolled, (np.array(2.5), np.array(0.7), H)),
    Case("switch, out of range", switching, switching_unrolled, (np.array(7.5), np.array(0.7), H)),
    Case("while in cond", while_in_cond, while_in_cond_unrolled, (np.array(0.9), np.array(1.4))),
    Case("cond in scan", cond_in_scan, cond_in_scan_unrolled, (np.array(0.9), H)),
    Case("map", mapped(None), mapped_unrolled, (W, XS)),
    Case("map, batches", mapped(3), mapped_unrolled, (W, XS)),
    Case("fori_loop", counted, counted_unrolled, (H, np.array(0.7))),
    Case("associative_scan", affine(False), affine_unrolled(False), (rng.normal(size=5), rng.normal(size=5))),
    Case("associative_scan reverse", affine(True), affine_unrolled(True), (rng.normal(size=(6, 2)), rng.normal(size=(6, 2)))),
]


# ---- transformations ----------------------------------------------------------------------------------------------------
# Each takes a function of arrays with one 0-d output and gives another; `over` is vmap, or the loop that it stands for.

Transformation = Callable[[Callable[..., Any], tuple[Any, ...], Any], Callable[..., Any]]


def looped(function: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
    """What vmap means: a Python loop over the examples."""

    def batched(*args: Any) -> Any:
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        size = next(arg.shape[0] for arg, axis in zip(args, axes, strict=True) if axis == 0)
        rows = [function(*[arg[i] if axis == 0 else arg for arg, axis in zip(args, axes)]) for i in range(size)]
        if not isinstance(rows[0], tuple):
            return pnp.stack([pnp.asarray(row) for row in rows])
        return tuple(pnp.stack(list(column)) for column in zip(*rows))

    return batched


def direction(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(np.cos(3.0 * np.asarray(arg) + i) for i, arg in enumerate(args))


def pushed(f: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda *xs: pb.jvp(f, xs, direction(args))[1]


def pulled(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    return pb.grad(f, tuple(range(count)))


def pulled_sum(f: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """The gradient, weighed and summed: a function to differentiate again."""
    weights = direction(args)
    return lambda *xs: sum(pnp.sum(g * w) for g, w in zip(pulled(f, len(args))(*xs), weights))


def batch_of(args: tuple[Any, ...], which: int | None) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
    """The arguments with three examples of argument `which` (of all, if None)."""
    scale = np.array([1.0, 0.8, 1.3])
    found, axes = [], []
    for i, arg in enumerate(args):
        chosen = which is None or which == i
        found.append(np.stack([np.asarray(arg) * s for s in scale]) if chosen else arg)
        axes.append(0 if chosen else None)
    return tuple(found), tuple(axes)


TRANSFORMATIONS: dict[str, Transformation] = {
    "value": lambda f, args, over: f,
    "jvp": lambda f, args, over: pushed(f, args),
    "vjp": lambda f, args, over: pulled(f, len(args)),
    "jvp of vjp": lambda f, args, over: pushed(pulled_sum(f, args), args),
    "vjp of vjp": lambda f, args, over: pulled(pulled_sum(f, args), len(args)),
}
BATCHED: dict[str, Transformation] = {
    "vmap": lambda f, args, over: f,
    "vmap of jvp": lambda f, args, over: pushed(f, args),
    "vmap of vjp": lambda f, args, over: pulled(f, len(args)),
}
