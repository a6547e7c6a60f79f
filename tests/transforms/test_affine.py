"""A function that must be linear, for it is transposed, and has a constant part: never a silent answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.errors import GradientError

ONES = np.ones(2)
AFFINE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sum": (lambda x: x + 1.0, 1.0),
    "difference": (lambda x: 1.0 - x, 1.0),
    "constant": (lambda x: 3.0, 1.0),
    "concatenate": (lambda x: pnp.concatenate([x, pnp.ones(2)]), ONES),
    "pad": (lambda x: pnp.pad(x, 1, constant_values=1.0), ONES),
    "where": (lambda x: pnp.where(np.asarray([True, False]), x, 2.0), ONES),
    "set": (lambda x: pnp.ones(3).at[0].set(x), 1.0),
    "add at": (lambda x: pnp.ones(3).at[np.asarray([0, 1])].add(x), ONES),
    "jit": (lambda x: pb.jit(lambda y: y + 1.0)(x), 1.0),
    "checkpoint": (lambda x: pb.checkpoint(lambda y: y + 1.0)(x), 1.0),
    "vmap": (pb.vmap(lambda x: x + 1.0), ONES),
    "cond": (lambda x: lax.cond(True, lambda: x, lambda: 1.0), 1.0),
    "scan, step": (lambda x: lax.scan(lambda c, _: (c + 1.0, c), x, None, length=3), 1.0),
    "scan, start": (lambda x: lax.scan(lambda c, _: (c + x, None), 5.0, None, length=3)[0], 1.0),
    "while_loop": (lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + x), (0, 5.0), max_steps=4)[1], 1.0),
    "integers": (lambda n: n + 1, 1),
}
LINEAR: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "sum": (lambda x: x + 0.0, 1.0),
    "zeros": (lambda x: (x, pnp.zeros(3)), 1.0),
    "concatenate": (lambda x: pnp.concatenate([x, pnp.zeros(2)]), ONES),
    "pad": (lambda x: pnp.pad(x, 1), ONES),
    "where": (lambda x: pnp.where(np.asarray([True, False]), x, 0.0), ONES),
    "set": (lambda x: pnp.zeros(3).at[0].set(x), 1.0),
    "scaled zeros": (lambda x: x + 3.0 * pnp.zeros(2), ONES),
    "jit": (lambda x: pb.jit(lambda y: y + pnp.zeros_like(y))(x), 1.0),
    "cond": (lambda x: lax.cond(True, lambda: x, lambda: 0.0), 1.0),
    "scan": (lambda x: lax.scan(lambda c, i: (c + x * i, i), 0.0, pnp.arange(3.0))[0], 1.0),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c + x * i, 0.0), 1.0),
    "vmap": (pb.vmap(lambda x: x + pnp.zeros_like(x)), ONES),
}


def _transposed(f: Callable[[Any], Any], x: Any) -> Any:
    ones = pb.tree.map(pnp.ones_like, f(x))
    return pb.linear_transpose(f, x)(ones)


@pytest.mark.parametrize("how", ["eager", "jit"])
@pytest.mark.parametrize("name", AFFINE)
def test_an_affine_function_has_no_transpose(name: str, how: str) -> None:
    f, x = AFFINE[name]
    with pytest.raises(GradientError, match=r"must be linear has a constant part: .* not known to be zero"):
        _transposed(f, x) if how == "eager" else pb.jit(lambda: _transposed(f, x))()


@pytest.mark.parametrize("how", ["eager", "jit"])
@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_function_may_add_zeros(name: str, how: str) -> None:
    f, x = LINEAR[name]
    (found,) = _transposed(f, x) if how == "eager" else pb.jit(lambda: _transposed(f, x))()
    ones = pb.tree.map(pnp.ones_like, f(x))
    (wanted,) = pb.vjp(f, x)[1](ones)  # of a linear function, the same
    assert np.array_equal(found, wanted)


def _with_rule(rule: Callable[..., Any]) -> Any:
    f = pb.custom_jvp(lambda x, y: x)
    f.defjvp(lambda primals, tangents: (primals[0], rule(*tangents)))
    return lambda x: f(x, 2.0)


RULES = {
    "sum": _with_rule(lambda t, u: t + 1.0),
    "beside a zero tangent": _with_rule(lambda t, u: t + (u + 1.0)),
    "in jit": pb.jit(_with_rule(lambda t, u: t + 1.0)),
    "in scan": lambda x: lax.scan(lambda c, _: (_with_rule(lambda t, u: t + 1.0)(c), None), x, None, length=3)[0],
}


@pytest.mark.parametrize("gradient", [pb.grad, lambda f: pb.jit(pb.grad(f))], ids=["grad", "jit of grad"])
@pytest.mark.parametrize("name", RULES)
def test_a_jvp_rule_may_not_add_a_constant_to_tangents(name: str, gradient: Callable[..., Any]) -> None:
    with pytest.raises(GradientError, match=r"jvp rule of .* must be linear in the tangents, but by 'add' it adds"):
        gradient(RULES[name])(1.0)


ZERO_TANGENTS: dict[str, Callable[[Any, Any], Any]] = {  # of primals and tangents, that add known zeros to what is linear
    "zeros_like": lambda x, t: pnp.zeros_like(x) + t,
    "set": lambda x, t: pnp.zeros_like(x).at[:2].set(t[:2] * x[:2]),
    "add at": lambda x, t: pnp.zeros(3, x.dtype).at[np.asarray([0, 0, 2])].add(t),
    "concatenate": lambda x, t: pnp.concatenate([t[:2], pnp.zeros_like(x[:1])]),
    "where": lambda x, t: pnp.where(x > 0, t, pnp.zeros_like(x)),
    "a product": lambda x, t: 0.0 * x + t,
    "after a quotient": lambda x, t: t / x + pnp.zeros_like(1.0 / x),
    "in jit": lambda x, t: pb.jit(pnp.zeros_like)(x) + t,
    "to jit": lambda x, t: pb.jit(lambda z, u: z + 2.0 * u)(pnp.zeros_like(x), t),
    "to a branch": lambda x, t: lax.cond(True, lambda z, u: z + 2.0 * u, lambda z, u: u, pnp.zeros_like(x), t),
    "to a step": lambda x, t: lax.scan(lambda c, a: (2.0 * c + a, None), t, pnp.zeros((2, 3), x.dtype))[0],
    "a carry": lambda x, t: lax.fori_loop(0, 3, lambda i, c: c.at[i].add(t[i] * x[i]), pnp.zeros_like(x)),
    "beside a carry that stays zero": lambda x, t: lax.scan(lambda c, a: (c * 0.5, a + c), x[0] * 0, t)[1],
    "out of a loop": lambda x, t: t + lax.scan(lambda c, a: (c + a, c + 2.0 * a), 0.0 * x[0], pnp.zeros_like(x))[1],
    "out of a while loop": lambda x, t: (
        t + lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, 2.0 * c[1]), (0, 0.0 * x))[1]
    ),
    "out of a branch": lambda x, t: t + lax.cond(True, lambda z: z, lambda z: 3.0 * z, pnp.zeros_like(x)),
    "in a step": lambda x, t: lax.scan(lambda c, a: (c + pnp.zeros_like(c).at[0].set(a), None), pnp.zeros_like(x), t)[0],
}
AROUND: dict[str, Callable[[Any], Callable[[Any], Any]]] = {  # what holds the function when its linear part is transposed
    "nothing": lambda f: lambda x: f(x) * x,
    "jit": lambda f: pb.jit(lambda x: f(x) * x),
    "checkpoint": lambda f: pb.checkpoint(lambda x: f(x) * x),
    "cond": lambda f: lambda x: lax.cond(x[0] > 0, f, lambda y: y, x),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "map": lambda f: lambda x: lax.map(f, x * np.ones((2, 1))),
    "vmap in jit": lambda f: lambda x: pb.jit(pb.vmap(f))(x * np.ones((2, 1))),
    "vmap of cond": lambda f: lambda x: pb.vmap(lambda y: lax.cond(y[0] > 0, f, lambda z: z, y))(x * np.array([[1.0], [-1.0]])),
}


@pytest.mark.parametrize("around", AROUND)
def test_a_jvp_rule_may_add_zeros_wherever_its_function_is_applied(around: str) -> None:
    def rule(primals: Any, tangents: Any) -> Any:
        return pnp.sin(primals[0]), sum([each(primals[0], tangents[0]) for each in ZERO_TANGENTS.values()])

    f = pb.custom_jvp(lambda x: pnp.sin(x))
    f.defjvp(rule)
    applied, x = AROUND[around](f), np.array([0.3, -1.2, 2.0])
    wanted = sum([pb.jvp(applied, (x,), (unit,))[1].sum() * unit for unit in np.eye(3)])  # where they are added as they are
    for gradient in (pb.grad(lambda x: applied(x).sum()), pb.jit(pb.grad(lambda x: applied(x).sum()))):
        np.testing.assert_allclose(gradient(x), wanted, rtol=1e-5)
    _, linear = pb.linearize(applied, x)
    np.testing.assert_allclose(linear(x), pb.jvp(applied, (x,), (x,))[1], rtol=1e-5)


def _solved(matvec: Callable[..., Any], symmetric: bool) -> Callable[[Any], Any]:
    def solver(f: Any, b: Any) -> Any:
        return (b - f(0.0 * b)) / (f(0.0 * b + 1.0) - f(0.0 * b))

    return lambda a: pb.custom_linear_solve(lambda x: matvec(a, x), 3.0, solver, symmetric=symmetric)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize(
    "matvec", [lambda a, x: a * x + a, lambda a, x: a * x * x, lambda a, x: a], ids=["affine", "square", "a"]
)
def test_the_operator_of_a_linear_system_must_be_linear(matvec: Callable[..., Any], symmetric: bool) -> None:
    for call in (lambda f: f(2.0), lambda f: pb.jvp(f, (2.0,), (1.0,)), lambda f: pb.jit(f)(2.0)):
        with pytest.raises(GradientError, match="linear"):
            call(_solved(matvec, symmetric))


def test_a_symmetric_operator_need_not_have_a_transpose() -> None:
    def matvec(x: Any) -> Any:  # a loop without a bound, which has none
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0), (0, x))[1]

    assert float(pb.custom_linear_solve(matvec, 4.0, lambda f, b: b / f(1.0), symmetric=True)) == 0.5


def test_the_tangent_solve_of_a_root_must_be_linear_in_reverse_mode() -> None:
    def root(a: Any) -> Any:
        return pb.custom_root(lambda x: x - a, 1.0, lambda f, x: x - f(x), lambda g, y: y / g(1.0) + 1.0)

    with pytest.raises(GradientError, match="has a constant part"):
        pb.grad(root)(2.0)
