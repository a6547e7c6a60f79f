"""What follows from how an operation is wired to the Programs that it holds, for each such operation alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pn
from pullback import lax
from pullback.core.errors import GradientError

X = pn.asarray(0.7)


def _loop(**bound: Any) -> Any:
    return lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, pn.sin(c[1])), (0, x), **bound)[1]


def _mapped_inside(x: Any) -> Any:
    return pn.sum(lax.map(pn.sin, pn.stack([x, 2.0 * x])))


# each with what it computes, in plain operations
HOLDERS = {
    "jit": (pb.jit(lambda x: pn.sin(x) * x), lambda x: pn.sin(x) * x),
    "cond": (lambda x: lax.cond(x > 0, pn.sin, pn.cos, x), pn.sin),
    "switch": (lambda x: lax.switch(1, [pn.sin, pn.cos], x), pn.cos),
    "scan": (lambda x: lax.scan(lambda c, _: (pn.sin(c), None), x, None, length=3)[0], lambda x: pn.sin(pn.sin(pn.sin(x)))),
    "fori": (lambda x: lax.fori_loop(0, 2, lambda i, c: pn.sin(c) + i, x), lambda x: pn.sin(pn.sin(x)) + 1.0),
    "map": (_mapped_inside, lambda x: pn.sin(x) + pn.sin(2.0 * x)),
    "checkpoint": (pb.checkpoint(lambda x: pn.sin(x) * x), lambda x: pn.sin(x) * x),
    "while": (_loop(max_steps=4), lambda x: pn.sin(pn.sin(pn.sin(x)))),
    "jit of scan": (pb.jit(lambda x: lax.scan(lambda c, y: (c * y, c), x, pn.arange(1.0, 4.0))[0]), lambda x: 6.0 * x),
}

USES = {
    "grad": lambda f: pb.grad(f)(X),
    "grad of grad": lambda f: pb.grad(pb.grad(f))(X),
    "jit of grad": lambda f: pb.jit(pb.grad(f))(X),
    "grad of jit": lambda f: pb.grad(pb.jit(f))(X),
    "vmap of grad": lambda f: pb.vmap(pb.grad(f))(pn.asarray([0.7, 0.9])),
    "grad of vmap": lambda f: pb.grad(lambda xs: pn.sum(pb.vmap(f)(xs)))(pn.asarray([0.7, 0.9])),
    "grad in scan": lambda f: pb.grad(lambda x: lax.scan(lambda c, _: (f(c), f(c)), x, None, length=2)[0])(X),
    "jacfwd of grad": lambda f: pb.jacfwd(pb.grad(f))(X),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_jvp_rule_may_take_the_jvp_of_what_holds_a_program(holder: str, use: str) -> None:
    held, plain = HOLDERS[holder]
    f = pb.custom_jvp(held)
    f.defjvp(lambda primals, tangents: pb.jvp(held, primals, tangents))
    assert pn.allclose(USES[use](f), USES[use](plain), rtol=1e-5)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("batched", [False, True])
def test_a_jvp_rule_may_compute_value_and_tangent_in_one_operation(batched: bool, use: str) -> None:
    """As a jitted helper does, and a vmap or a scan within the rule: the value is known all the same."""

    @pb.jit
    def helper(x: Any, t: Any) -> Any:
        return pn.sin(x), pn.cos(x) * t

    def by_scan(x: Any, t: Any) -> Any:
        (out, tangent), _ = lax.scan(lambda c, _: ((pn.sin(c[0]), pn.cos(c[0]) * c[1]), None), (x, t), None, length=1)
        return out, tangent

    def rule(primals: Any, tangents: Any) -> Any:
        if not batched:
            return helper(*primals, *tangents)
        outs, found = pb.vmap(lambda x, t: by_scan(*helper(x, t)))(primals[0][None], tangents[0][None])
        return outs[0], found[0]

    f = pb.custom_jvp(lambda x: pn.sin(pn.sin(x)) if batched else pn.sin(x))
    f.defjvp(rule)
    plain = (lambda x: pn.sin(pn.sin(x))) if batched else pn.sin
    assert pn.allclose(USES[use](f), USES[use](plain), rtol=1e-5)


def _counts(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, pn.sin(c[1])), (0, x))


# functions with an unbounded loop whose derivative needs no transpose of it, and their gradients at 0.5
ALLOWED = {
    "dead": (lambda x: (_counts(x)[1], x * x)[1], 1.0),
    "dead result of a jitted function": (lambda x: pb.jit(lambda x: (_counts(x)[1], x * x))(x)[1], 1.0),
    "stopped": (lambda x: lax.stop_gradient(_counts(x)[1]) * x, 0.44508535),
    "compared": (lambda x: pn.where(_counts(x)[1] > 0, x * x, x), 1.0),
    "counter": (lambda x: _counts(x)[0] * x, 3.0),
    "rounded": (lambda x: pn.round(_counts(x)[1]) * x + x, 1.0),
    "in a scan": (lambda x: lax.scan(lambda c, _: (c * _counts(x)[0], _counts(x)), x, None, length=2)[0], 9.0),
    "in a cond": (lambda x: lax.cond(x > 0, lambda x: x * _counts(x)[0], lambda x: x, x), 3.0),
    "in a checkpoint": (pb.checkpoint(lambda x: x * _counts(x)[0]), 3.0),
}


@pytest.mark.parametrize("compiled", ["no", "within", "around"])
@pytest.mark.parametrize("case", ALLOWED)
def test_reverse_mode_beside_an_unbounded_loop(case: str, compiled: str) -> None:
    f, wanted = ALLOWED[case]
    gradient = {"no": pb.grad(f), "within": pb.grad(pb.jit(f)), "around": pb.jit(pb.grad(f))}[compiled]
    assert float(gradient(0.5)) == pytest.approx(wanted)


LINEAR = {
    "plain": lambda f: pb.linearize(f, 0.5)[1](1.0),
    "of jit": lambda f: pb.linearize(pb.jit(f), 0.5)[1](1.0),
    "in jit": lambda f: pb.jit(lambda x: pb.linearize(f, x)[1](1.0))(0.5),
    "of vmap": lambda f: pb.linearize(pb.vmap(f), pn.asarray([0.5, 0.5]))[1](pn.ones(2))[0],
    "in scan": lambda f: pb.linearize(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0], 0.5)[1](1.0),
    "twice": lambda f: pb.linearize(lambda x: pb.linearize(f, x)[1](x), 0.5)[0] / 0.5,
}


@pytest.mark.parametrize("how", LINEAR)
def test_linearize_of_an_unbounded_loop(how: str) -> None:
    assert float(LINEAR[how](_loop())) == pytest.approx(0.6972664)  # jvp's


@pytest.mark.parametrize("f", [_loop(), pb.jit(_loop()), pb.vmap(_loop())], ids=["plain", "jit", "vmap"])
def test_reverse_mode_through_an_unbounded_loop_is_refused(f: Any) -> None:
    with pytest.raises(GradientError, match=r"while_loop of .*test_holders\.py:\d+.*max_steps"):
        pb.vjp(f, pn.ones(2))[1](pn.ones(2))


@pb.custom_jvp
def _blend(x: Any, y: Any) -> Any:
    return 2.0 * x + y, x


@_blend.defjvp
def _blend_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (t, u) = primals, tangents
    return (2.0 * x + y, x), (2.0 * t + u, pn.sin(x) * pn.where(x > 0, t, -t))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_linear_rule_is_linear_where_a_tangent_is_zero(compiled: bool) -> None:
    """What a rule makes of a zero tangent is zero, whatever operations it takes; it is not something that ignores tangents."""

    def last(y: Any) -> Any:
        return lax.scan(lambda carry, x: _blend(x, carry), y, pn.arange(3.0))[0]

    gradient = pb.jit(pb.grad(last)) if compiled else pb.grad(last)
    assert float(gradient(1.0)) == 1.0
    assert float(pb.grad(lambda y: _blend(0.5, y)[0] + _blend(0.5, y)[1])(1.0)) == 1.0


def test_a_rule_that_ignores_its_tangents_is_refused_in_every_mode() -> None:
    f = pb.custom_jvp(pn.sin)
    f.defjvp(lambda primals, tangents: (pn.sin(primals[0]), pn.cos(primals[0])))
    for gradient in (pb.grad(f), pb.jit(pb.grad(f)), pb.grad(pb.jit(f))):
        with pytest.raises(GradientError, match="does not depend on the tangents"):
            gradient(0.5)


@pytest.mark.parametrize("use", USES)
def test_numbers_in_residuals_reach_the_backward_rule_as_they_are(use: str) -> None:
    seen: list[Any] = []
    f = pb.custom_vjp(pn.sin)

    def backward(kept: Any, cotangent: Any) -> Any:
        seen.append([type(item) for item in kept[:4]])
        return (cotangent * kept[4] if kept[0] else None,)

    f.defvjp(lambda x: (pn.sin(x), (True, 3, 2.5, 1j, pn.cos(x))), backward)
    f.defjvp(lambda primals, tangents: pb.jvp(pn.sin, primals, tangents))
    assert pn.allclose(USES[use](f), USES[use](pn.sin), rtol=1e-5)
    assert all(types == [bool, int, float, complex] for types in seen) and seen


def test_residuals_that_differ_in_a_number_are_not_taken_for_each_other() -> None:
    def function(number: Any) -> Any:
        f = pb.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, number), lambda kept, ct: (ct * (10.0 if kept is True else 20.0),))
        return f

    assert [float(pb.jit(pb.grad(function(n)))(1.0)) for n in (True, 1, 1.0)] == [10.0, 20.0, 20.0]


def test_a_symbolic_zero_is_made_of_a_type() -> None:
    type = pb.ArrayType((3,), "float32")
    assert pb.SymbolicZero(type).type is type
    assert pb.SymbolicZero(type).instantiate().tolist() == [0.0] * 3
    with pytest.raises(TypeError, match="SymbolicZero takes an ArrayType"):
        pb.SymbolicZero((3,))


def test_a_symbolic_zero_is_made_of_what_has_a_shape_and_a_dtype() -> None:
    assert pb.SymbolicZero(np.ones((2, 3), np.float32)).type is pb.SymbolicZero((2, 3), "float32").type
    nothing = pb.SymbolicZero(np.zeros(2, pb.float0))
    assert nothing.dtype == pb.float0 and nothing.instantiate().shape == (2,)
    f = pb.custom_jvp(lambda x, n: (x, n))
    f.defjvp(lambda p, t: (p, (t[0], pb.SymbolicZero(np.zeros((), pb.float0)))), symbolic_zeros=True)
    assert pb.jvp(lambda x: f(x, 2), (1.0,), (3.0,))[1][0] == 3.0


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_vjp_function_may_be_a_residual(holder: str, use: str) -> None:
    held, plain = HOLDERS[holder]
    f = pb.custom_vjp(held)
    f.defvjp(lambda x: pb.vjp(held, x), lambda pull, cotangent: pull(cotangent))
    f.defjvp(lambda primals, tangents: pb.jvp(held, primals, tangents))
    assert pn.allclose(USES[use](f), USES[use](plain), rtol=1e-5)


def test_a_vjp_function_is_a_container() -> None:
    linearized = pb.jit(lambda x: pb.vjp(pb.jit(lambda x: pn.sin(x) * x), x)[1])
    first, second = linearized(0.5), linearized(0.9)
    assert pb.tree.structure(first) == pb.tree.structure(second)
    assert pb.tree.structure(first) != pb.tree.structure(pb.vjp(pn.cos, 0.5)[1])
    wanted = pb.grad(lambda x: pn.sin(x) * x)
    assert [float(pull(1.0)[0]) for pull in (first, second)] == pytest.approx([float(wanted(0.5)), float(wanted(0.9))])
    assert float(pb.jit(lambda pull, ct: pull(ct)[0])(second, 2.0)) == pytest.approx(2.0 * float(wanted(0.9)))
    batch = pn.asarray([0.5, 0.9])
    pulls = pb.vmap(lambda x: pb.vjp(pn.sin, x)[1])(batch)
    assert pn.allclose(pb.vmap(lambda pull: pull(1.0)[0])(pulls), pn.cos(batch))


# ---- what is handed on as it came -------------------------------------------------------------------------------------


def _one_of_two(x, y):
    return lax.cond(x < 3, lambda x, y: (x * 2, y), lambda x, y: (x * 3, y), x, y)


def _a_loop_in_each_branch(x, y):
    def branch(_, y):
        return lax.scan(lambda y, _: (y, None), y, None, length=1)[0]

    return x, lax.cond(x < 0, branch, branch, x, y)


def _carried(x, y):
    return lax.scan(lambda carry, _: ((carry[0] + 1.0, carry[1]), None), (x, y), None, length=2)[0]


def _carried_while(x, y):
    return lax.while_loop(lambda carry: carry[0] < 9.0, lambda carry: (carry[0] + 1.0, carry[1]), (x, y))


def _counted(x, y):
    return lax.fori_loop(0, 2, lambda i, carry: (carry[0] + i, carry[1]), (x, y))


@pytest.mark.parametrize("f", [_one_of_two, _a_loop_in_each_branch, _carried, _carried_while, _counted])
@pytest.mark.parametrize("transform", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_a_batch_makes_no_batch_of_what_is_handed_on(f, transform):
    x, y = pn.arange(5.0), pn.array([3.0, 4.0])
    out, same = pb.vmap(transform(f), in_axes=(0, None), out_axes=(0, None))(x, y)
    np.testing.assert_array_equal(same, y)
    expected = [float(f(each, y)[0]) for each in x]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(pb.grad(lambda y: pn.sum(f(x[0], y)[1] ** 2))(y), 2 * y)


def test_what_a_scan_hands_on_is_no_output_of_its_body():
    xs = pn.arange(3.0)
    (loop,) = pb.xpr(lambda xs: lax.scan(lambda c, x: (c + 1, x), 0, xs), xs).equations
    assert len(loop.params["body"].outputs) == 1
    swapped = lax.scan(lambda c, x: ((c[1], c[0]), (x, c[0])), (1.0, 2.0), xs, reverse=True)
    assert [float(v) for v in swapped[0]] == [2.0, 1.0]
    np.testing.assert_array_equal(swapped[1][0], xs)
    np.testing.assert_array_equal(swapped[1][1], [1.0, 2.0, 1.0])


def test_a_constant_that_a_step_returns_is_no_carry_that_stays():
    y = pn.array(7.0)
    assert float(pb.jit(lambda y: lax.scan(lambda c, _: (y, None), 0.0, None, length=0)[0])(y)) == 0.0
    np.testing.assert_array_equal(lax.scan(lambda c, _: (c, y), 0.0, None, length=2)[1], [7.0, 7.0])
