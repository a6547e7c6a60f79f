"""Random programs under random stacks of transformations, written once for two libraries that share their names.

A case is drawn from a seed and a number alone, so a disagreement is told by its number. Its program is a list of steps over a
growing pool of arrays; a step is a function of a library (`pullback`, or `jax`), of a few integers drawn with it, and of one or
two arrays of the pool. The program ends in a scalar, and each layer of the stack takes such a function to another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Library = Any
Value = Any
Numbers = tuple[int, int, int]
Step = Callable[..., Value]

SHAPES = [(3,), (2, 3), (1,), (4,), (2, 1), (3, 2), (), (0,), (2, 0)]
SHAPE_WEIGHTS = [0.3, 0.2, 0.08, 0.1, 0.07, 0.1, 0.08, 0.04, 0.03]


class Case(NamedTuple):
    """One program, the stack over it, and the point at which both are evaluated."""

    number: int
    steps: list[tuple[str, Numbers, int, int]]
    stack: list[tuple[str, int]]
    x: np.ndarray[Any, Any]

    def __str__(self) -> str:
        steps = "; ".join(f"{name}{numbers}({i}, {j})" for name, numbers, i, j in self.steps)
        return f"case {self.number}: {' of '.join(name for name, _ in reversed(self.stack))} of [{steps}] at {self.x!r}"


# ---- steps of one array -----------------------------------------------------------------------------------------------


def _axis(x: Value, n: int) -> int:
    return n % x.ndim


def _of_some_axis(function: Callable[[Library, Value, int], Value]) -> Step:
    """A step along one axis; scalars are left alone."""
    return lambda m, p, x: function(m, x, _axis(x, p[0])) if x.ndim else x


def _filled(function: Callable[[Library, Value, int], Value]) -> Step:
    """A step along an axis that must not be empty."""
    return lambda m, p, x: function(m, x, _axis(x, p[0])) if x.ndim and x.shape[p[0] % x.ndim] else x


def _reshaped(m: Library, p: Numbers, x: Value) -> Value:
    shapes: list[tuple[int, ...]] = [(-1,), (1, *x.shape), (*x.shape, 1), x.shape[::-1]]
    return m.numpy.reshape(x, shapes[p[0] % 4] if x.size else shapes[1 + p[0] % 3])


def _updated(method: str) -> Step:
    def step(m: Library, p: Numbers, x: Value) -> Value:
        if not x.ndim or not x.shape[0]:
            return x
        index: Any = [p[0] % x.shape[0], slice(None, None, 2), np.array([0, p[1] % x.shape[0], 0]), slice(1, None)][p[2] % 4]
        if method == "set" and p[2] % 4 == 2:
            index = slice(0, 1)  # several values for one place have no defined winner
        return getattr(x.at[index], method)(0.3)

    return step


def _cond(m: Library, p: Numbers, x: Value) -> Value:
    branches = lambda y: m.numpy.sin(y) * 2.0, lambda y: m.numpy.sqrt(1.5 + m.numpy.tanh(y)) - x * 0.1
    return m.lax.cond(m.numpy.sum(x) > 0.2 * p[0], *branches, x)


def _switch(m: Library, p: Numbers, x: Value) -> Value:
    index = m.numpy.sum(m.numpy.where(x > 0.0, 1, 0)).astype("int32") % 3
    return m.lax.switch(index, [lambda y: y * y, lambda y: m.numpy.exp(-y * y), lambda y: x + y], x)


def _scan(m: Library, p: Numbers, x: Value) -> Value:
    def body(carry: Value, row: Value) -> tuple[Value, Value]:
        new = m.numpy.tanh(carry * 0.7 + m.numpy.mean(row) if row.size else carry)
        return new, new * m.numpy.sum(x)

    rows = x if x.ndim else m.numpy.stack([x, x * 0.5])
    carry, ys = m.lax.scan(body, m.numpy.sum(x) * 0.3, rows, reverse=bool(p[0] % 2))
    return carry + m.numpy.sum(ys) * 0.1 if p[1] % 2 else ys


def _fori(m: Library, p: Numbers, x: Value) -> Value:
    return m.lax.fori_loop(0, 1 + p[0] % 3, lambda i, y: m.numpy.sin(y) + 0.2 * x * i, x)


def _while(m: Library, p: Numbers, x: Value) -> Value:
    def body(state: tuple[Value, Value]) -> tuple[Value, Value]:
        return state[0] + 1, state[1] * 0.5 + m.numpy.sin(x) * 0.2

    return m.lax.while_loop(lambda state: state[0] < 2 + p[0] % 2, body, (0, x))[1]


def _custom_jvp(m: Library, p: Numbers, x: Value) -> Value:
    @m.custom_jvp
    def f(y: Value) -> Value:
        return m.numpy.sin(y)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (y,), (t,) = primals, tangents
        return f(y), m.numpy.cos(y) * t * 3.0

    return f(x)


def _custom_vjp(m: Library, p: Numbers, x: Value) -> Value:
    @m.custom_vjp
    def f(y: Value, scale: Value) -> Value:
        return m.numpy.cos(y) * scale

    f.defvjp(lambda y, s: (f(y, s), (y, s)), lambda kept, ct: (-2.0 * m.numpy.sin(kept[0]) * kept[1] * ct, m.numpy.sum(ct)))
    return f(x, m.numpy.sum(x) * 0.2)


def _indexed(m: Library, p: Numbers, x: Value) -> Value:
    if not x.ndim or not x.shape[0]:
        return x
    n = x.shape[0]
    return x[[slice(None, None, -1), p[1] % n, np.array([p[1] % n, 0]), (None, slice(0, 1)), np.arange(n) % 2 == 0][p[0] % 5]]


def _dynamic(m: Library, p: Numbers, x: Value) -> Value:
    if not x.ndim or not x.shape[0]:
        return x
    start = m.numpy.argmax(m.numpy.reshape(x, (-1,))) if x.size else 0
    piece = m.lax.dynamic_slice_in_dim(x, start, 1, 0)
    return m.lax.dynamic_update_slice_in_dim(x, m.numpy.tanh(piece), p[0] % x.shape[0], 0)


def _through_complex(m: Library, p: Numbers, x: Value) -> Value:
    z = m.numpy.exp(1j * x) * (x + 0.5j)
    return [m.numpy.real, m.numpy.imag, m.numpy.abs][p[0] % 3](z * z)


def _narrow(m: Library, p: Numbers, x: Value) -> Value:
    dtype = ("float32", "float32", "float16", "bfloat16")[p[0] % 4]
    return (x.astype(dtype) * 2).astype(x.dtype) * 0.5


def _inner_vmap(m: Library, p: Numbers, x: Value) -> Value:
    if not x.ndim or not x.shape[0]:
        return x
    return m.vmap(lambda row: m.numpy.sin(row) * m.numpy.sum(row) + m.numpy.sum(x) * 0.1, in_axes=0, out_axes=-1)(x)


def _named_axis(m: Library, p: Numbers, x: Value) -> Value:
    if not x.ndim or not x.shape[0]:
        return x
    return m.vmap(lambda row: m.numpy.tanh(row) * m.lax.psum(m.numpy.sum(row), "i") - m.lax.pmean(row, "i"), axis_name="i")(x)


UNARY: dict[str, Step] = {
    "sin": lambda m, p, x: m.numpy.sin(x),
    "cos": lambda m, p, x: m.numpy.cos(x),
    "tanh": lambda m, p, x: m.numpy.tanh(x),
    "exp": lambda m, p, x: m.numpy.exp(m.numpy.tanh(x)),
    "log1p": lambda m, p, x: m.numpy.log1p(x * x),
    "sqrt": lambda m, p, x: m.numpy.sqrt(1.0 + x * x),
    "abs": lambda m, p, x: m.numpy.abs(x - 0.0137),  # at 0 itself our derivative is 0, that of jax 1
    "sign": lambda m, p, x: m.numpy.sign(x) * x,
    "floor": lambda m, p, x: m.numpy.floor(x * 1.7) + x,
    "reciprocal": lambda m, p, x: 1.0 / (2.0 + x * x),
    "integer power": lambda m, p, x: x ** (p[0] % 4),
    "power": lambda m, p, x: (1.2 + m.numpy.tanh(x)) ** (x * 0.5),
    "arctan2": lambda m, p, x: m.numpy.arctan2(x, 1.0 + x * x),
    "hypot": lambda m, p, x: m.numpy.hypot(x, 0.5 * x + 0.1),
    "sinc": lambda m, p, x: m.numpy.sinc(x),
    "logaddexp": lambda m, p, x: m.numpy.logaddexp(x, 0.5 - x),
    "expm1": lambda m, p, x: m.numpy.expm1(0.3 * m.numpy.tanh(x)),
    "erf": lambda m, p, x: m.lax.erf(x),
    "softplus": lambda m, p, x: m.nn.softplus(x),
    "relu": lambda m, p, x: m.nn.relu(x),
    "silu": lambda m, p, x: m.nn.silu(x),
    "gelu": lambda m, p, x: m.nn.gelu(x),
    "sigmoid": lambda m, p, x: m.nn.sigmoid(x),
    "softmax": _filled(lambda m, x, axis: m.nn.softmax(x, axis=axis)),
    "log_softmax": _filled(lambda m, x, axis: m.nn.log_softmax(x, axis=axis)),
    "logsumexp": _filled(lambda m, x, axis: m.nn.logsumexp(x, axis=axis)),
    "negate": lambda m, p, x: -x,
    "scale": lambda m, p, x: 0.7 * x,
    "add integer": lambda m, p, x: x + (p[0] - 2),
    "times integers": lambda m, p, x: x * m.numpy.arange(x.shape[-1]) if x.ndim else x * 2,
    "modulo": lambda m, p, x: m.numpy.mod(x * 2.0, 1.3),
    "clip": lambda m, p, x: m.numpy.clip(x, -0.4, 0.6),
    "where": lambda m, p, x: m.numpy.where(x > 0.1, x * x, m.numpy.cos(x)),
    "sum": _of_some_axis(lambda m, x, axis: m.numpy.sum(x, axis=axis)),
    "sum all": lambda m, p, x: m.numpy.sum(x),
    "mean kept": _filled(lambda m, x, axis: x - m.numpy.mean(x, axis=axis, keepdims=True)),
    "max": _filled(lambda m, x, axis: m.numpy.max(x, axis=axis)),
    "min kept": _filled(lambda m, x, axis: x - m.numpy.min(x, axis=axis, keepdims=True)),
    "prod": _of_some_axis(lambda m, x, axis: m.numpy.prod(x, axis=axis)),
    "var": _filled(lambda m, x, axis: m.numpy.var(x, axis=axis)),
    "argmax": _filled(lambda m, x, axis: m.numpy.argmax(x, axis=axis) * m.numpy.sum(x)),
    "reshape": _reshaped,
    "transpose": lambda m, p, x: m.numpy.transpose(x),
    "flip": _of_some_axis(lambda m, x, axis: m.numpy.flip(x, axis=axis)),
    "roll": _of_some_axis(lambda m, x, axis: m.numpy.roll(x, 1, axis=axis)),
    "tile": lambda m, p, x: m.numpy.tile(x, 2) if x.size < 40 else x,
    "repeat": _of_some_axis(lambda m, x, axis: m.numpy.repeat(x, 2, axis=axis) if x.size < 40 else x),
    "pad": lambda m, p, x: m.numpy.pad(x, 1, constant_values=0.5) if x.ndim and x.size < 40 else x,
    "stack": lambda m, p, x: m.numpy.stack([x, x * 0.5], axis=p[0] % (x.ndim + 1)) if x.size < 40 else x,
    "concatenate": _of_some_axis(lambda m, x, axis: m.numpy.concatenate([x, m.numpy.sin(x)], axis=axis) if x.size < 40 else x),
    "outer": lambda m, p, x: m.numpy.outer(x, m.numpy.cos(x)) if x.size < 8 else x,
    "tril": lambda m, p, x: m.numpy.tril(x) if x.ndim >= 2 else x,
    "diag": lambda m, p, x: m.numpy.diag(x) if x.ndim == 1 and x.size else x,
    "einsum": lambda m, p, x: m.numpy.einsum("ij,kj->ik", x, m.numpy.tanh(x)) if x.ndim == 2 else x,
    "index": _indexed,
    "take_along_axis": _filled(
        lambda m, x, axis: m.numpy.take_along_axis(x, m.numpy.argmin(x, axis=axis, keepdims=True), axis)
    ),
    "at set": _updated("set"),
    "at add": _updated("add"),
    "at multiply": _updated("multiply"),
    "dynamic slices": _dynamic,
    "narrow": _narrow,
    "through complex": _through_complex,
    "stop_gradient": lambda m, p, x: m.lax.stop_gradient(x) * x,
    "cond": _cond,
    "switch": _switch,
    "scan": _scan,
    "fori_loop": _fori,
    "while_loop": _while,
    "map": lambda m, p, x: m.lax.map(lambda row: m.numpy.sin(row) * m.numpy.sum(x), x) if x.ndim and x.shape[0] else x,
    "checkpoint": lambda m, p, x: m.checkpoint(lambda y: m.numpy.sin(m.numpy.sin(y)) * m.numpy.sum(x))(x),
    "jit": lambda m, p, x: m.jit(lambda y: m.numpy.tanh(y) + m.numpy.mean(x) if x.size else y)(x),
    "custom_jvp": _custom_jvp,
    "custom_vjp": _custom_vjp,
    "inner vmap": _inner_vmap,
    "named axis": _named_axis,
    "inner grad": lambda m, p, x: m.grad(lambda y: m.numpy.sum(m.numpy.sin(y) * x * y))(x),
    "inner jvp": lambda m, p, x: m.jvp(lambda y: m.numpy.tanh(y) * x, (x,), (m.numpy.cos(x),))[1],
}

# ---- and of two, of which the second is made to fit -------------------------------------------------------------------


def _fitting(function: Callable[[Library, Value, Value], Value]) -> Step:
    """A step of two arrays that broadcast against each other; else of the first and the sum of the second."""

    def step(m: Library, p: Numbers, x: Value, y: Value) -> Value:
        sizes = zip(x.shape[::-1], y.shape[::-1])
        fits = all(a == b or 1 in (a, b) for a, b in sizes)
        out = max(x.size, y.size) <= 64 and x.ndim + y.ndim <= 5
        return function(m, x, y if fits and out else m.numpy.sum(y))

    return step


def _matmul(m: Library, p: Numbers, x: Value, y: Value) -> Value:
    fits = x.ndim and y.ndim and x.shape[-1] == y.shape[max(0, y.ndim - 2)] and x.ndim + y.ndim < 5
    return x @ y if fits else x * m.numpy.sum(y)


def _tensordot(m: Library, p: Numbers, x: Value, y: Value) -> Value:
    return m.numpy.tensordot(x, m.numpy.sin(y), axes=0) if x.size * y.size < 40 and x.ndim + y.ndim < 4 else x


BINARY: dict[str, Step] = {
    "add": _fitting(lambda m, x, y: x + y),
    "subtract": _fitting(lambda m, x, y: x - y),
    "multiply": _fitting(lambda m, x, y: x * m.numpy.tanh(y)),
    "divide": _fitting(lambda m, x, y: x / (2.0 + y * y)),
    "maximum": _fitting(lambda m, x, y: m.numpy.maximum(x, y)),
    "minimum": _fitting(lambda m, x, y: m.numpy.minimum(x, y + 0.1)),
    "compare": _fitting(lambda m, x, y: m.numpy.where(x < y, x, y * 0.5)),
    "matmul": lambda m, p, x, y: (
        x @ y
        if x.ndim and y.ndim and x.shape[-1] == y.shape[max(0, y.ndim - 2)] and x.ndim + y.ndim < 5
        else x * m.numpy.sum(y)
    ),
    "tensordot": lambda m, p, x, y: (
        m.numpy.tensordot(x, m.numpy.sin(y), axes=0) if x.size * y.size < 40 and x.ndim + y.ndim < 4 else x
    ),
    "cond of both": lambda m, p, x, y: m.lax.cond(
        m.numpy.sum(y) > 0, lambda a: a * m.numpy.sum(y), lambda a: m.numpy.sin(a), x
    ),
}
ALL_STEPS = [*UNARY, *BINARY]


def function_of(m: Library, case: Case) -> Callable[[Value], Value]:
    """The program, array -> scalar, in one of the libraries."""

    def function(x: Value) -> Value:
        pool = [x]
        for name, numbers, i, j in case.steps:
            left, right = pool[i % len(pool)], pool[j % len(pool)]
            pool.append(UNARY[name](m, numbers, left) if name in UNARY else BINARY[name](m, numbers, left, right))
        return sum((m.numpy.sum(m.numpy.tanh(value)) for value in pool[1:]), m.numpy.sum(pool[0]) * 0.1)

    return function


# ---- layers of the stack: each takes an array -> scalar function to another --------------------------------------------

Layer = Callable[[Library, int, Callable[[Value], Value]], Callable[[Value], Value]]


def _direction(m: Library, x: Value) -> Value:
    size = int(np.prod(x.shape))
    return m.numpy.reshape(m.numpy.asarray(np.linspace(1.0, -0.5, size, dtype=x.dtype)), x.shape)


def _batch(m: Library, x: Value, axis: int) -> Value:
    return m.numpy.stack([x, x * 0.5, -x], axis=axis)


def _vmap_named(m: Library, n: int, f: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def along(y: Value) -> Value:
        value = f(y)
        return value * m.lax.psum(value, "batch") + m.lax.axis_index("batch")

    return lambda x: m.numpy.sum(m.vmap(along, axis_name="batch")(_batch(m, x, 0)))


def _scanned(m: Library, n: int, f: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def body(total: Value, scale: Value) -> tuple[Value, Value]:
        value = f(total * scale)
        return total * 0.9, value

    return lambda x: m.numpy.sum(m.lax.scan(body, x, m.numpy.asarray(np.array([0.5, 1.0], x.dtype)))[1])


def _branched(m: Library, n: int, f: Callable[[Value], Value]) -> Callable[[Value], Value]:
    return lambda x: m.lax.cond(m.numpy.sum(x) > 0.1 * n, f, lambda y: f(y * 0.5) + 1.0, x)


LAYERS: dict[str, Layer] = {
    "grad": lambda m, n, f: lambda x: m.numpy.sum(m.grad(f)(x) * _direction(m, x)),
    "value_and_grad": lambda m, n, f: lambda x: (lambda v, g: v + m.numpy.sum(g * _direction(m, x)))(*m.value_and_grad(f)(x)),
    "vjp": lambda m, n, f: lambda x: (lambda v, back: m.numpy.sum(back(v * 0.5)[0] * _direction(m, x)))(*m.vjp(f, x)),
    "jvp": lambda m, n, f: lambda x: m.jvp(f, (x,), (_direction(m, x),))[1],
    "linearize": lambda m, n, f: lambda x: m.linearize(f, x)[1](_direction(m, x)),
    "jacfwd": lambda m, n, f: lambda x: m.numpy.sum(m.jacfwd(f)(x) * _direction(m, x)),
    "jacrev": lambda m, n, f: lambda x: m.numpy.sum(m.jacrev(lambda y: f(y) * y)(x)),
    "hessian": lambda m, n, f: lambda x: m.numpy.sum(m.hessian(f)(x)),
    "vmap": lambda m, n, f: lambda x: m.numpy.sum(m.vmap(f)(_batch(m, x, 0))),
    "vmap of last axis": lambda m, n, f: lambda x: m.numpy.sum(m.vmap(f, in_axes=-1)(_batch(m, x, -1))),
    "vmap of scale": lambda m, n, f: (
        lambda x: m.numpy.sum(
            m.vmap(lambda s, y: f(s * y), in_axes=(0, None))(m.numpy.asarray(np.array([1.0, 0.3], x.dtype)), x)
        )
    ),
    "vmap out": lambda m, n, f: lambda x: m.numpy.sum(m.vmap(lambda y: y * f(y), out_axes=-1)(_batch(m, x, 0))),
    "vmap named": _vmap_named,
    "jit": lambda m, n, f: m.jit(f),
    "checkpoint": lambda m, n, f: m.checkpoint(f),
    "scan": _scanned,
    "cond": _branched,
}
LAYER_NAMES = list(LAYERS)
ORDERS = dict.fromkeys(("grad", "value_and_grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev"), 1) | {"hessian": 2}


def draw(seed: int, number: int) -> Case:
    """Case `number` of the campaign that `seed` names."""
    rng = np.random.default_rng([seed, number])
    shape = SHAPES[rng.choice(len(SHAPES), p=SHAPE_WEIGHTS)]
    x = np.round(rng.uniform(-1.5, 1.5, shape), 2) if rng.random() < 0.5 else rng.normal(size=shape)
    if rng.random() < 0.15:
        x = np.round(x)  # ties and zeros
    steps = [
        (
            str(rng.choice(ALL_STEPS)),
            (int(rng.integers(6)), int(rng.integers(6)), int(rng.integers(6))),
            # mostly the newest value, so that programs are deep
            int(rng.integers(9)) if rng.random() < 0.4 else 10**6 + k,
            int(rng.integers(9)),
        )
        for k in range(rng.integers(1, 6))
    ]
    # 10**6 + k falls on the newest value: the pool has k + 1 values when step k is taken
    steps = [(name, numbers, k if i >= 10**6 else i, j) for k, (name, numbers, i, j) in enumerate(steps)]
    stack: list[tuple[str, int]] = []
    for name in rng.choice(LAYER_NAMES, size=rng.integers(1, 4)):
        if sum(ORDERS.get(layer, 0) for layer, _ in stack) + ORDERS.get(str(name), 0) <= 3:
            stack.append((str(name), int(rng.integers(4))))
    if sum(ORDERS.get(layer, 0) for layer, _ in stack) == 3:
        steps = steps[:3]  # third derivatives of long programs take XLA half a minute
    return Case(number, steps, stack, np.asarray(x, "float32" if rng.random() < 0.2 else "float64"))


def stacked(m: Library, case: Case) -> Callable[[Value], Value]:
    """The program under its stack, in one of the libraries."""
    function = function_of(m, case)
    for name, number in case.stack:
        function = LAYERS[name](m, number, function)
    return function
