"""What rules return is made into values at one place: numbers mean themselves, and what does not fit is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import GradientError, ProgramError
from pullback.core.zero import ZERO

X = np.array([1.0, 2.0, 3.0], "float32")


def same(x: Any, *rest: Any) -> Any:
    return x


def made(**rules: Any) -> pb.Primitive:
    defaults: dict[str, Any] = {"evaluate": lambda x: 2 * x, "lower": lambda write, x: write.op("stablehlo.add", [x, x])}
    return pb.Primitive("twice", kinds="f", **{"result_type": same, **defaults, **rules})


def gradients(f: Any, x: Any) -> list[Any]:
    """The derivative of sum(f) in every mode, eager and compiled."""

    def total(x: Any) -> Any:
        return pnp.sum(f(x))

    ones = np.ones_like(x)
    return [
        pb.grad(total)(x),
        pb.jit(pb.grad(total))(x),
        pb.jvp(f, (x,), (ones,))[1],
        pb.jit(lambda x: pb.jvp(f, (x,), (ones,))[1])(x),
        pb.linearize(f, x)[1](ones),
        pb.jet(f, (x,), ([ones, np.zeros_like(x)],))[1][0],
    ]


# ---- partials --------------------

MULTIPLIERS: list[tuple[Any, float]] = [
    *[(number, number) for number in (0, 1, -1, 2, -2, 7, 0.0, 1.0, -1.0, 2.5)],
    (np.float32(3.0), 3.0),
    (np.float64(3.0), 3.0),
    (np.int64(3), 3.0),
    (np.full(3, 4.0, "float32"), 4.0),
    (np.array(4.0, "float32"), 4.0),
    (lambda: 5, 5.0),
    (lambda: np.full(3, 5.0, "float32"), 5.0),
    (ZERO, 0.0),
    (None, 1.0),
]


@pytest.mark.parametrize(("multiplier", "value"), MULTIPLIERS, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("form", [tuple, list])
def test_a_multiplier_means_itself(multiplier: Any, value: float, form: Any) -> None:
    operation = made(partials=lambda out, x: form((multiplier,)))
    for gradient in gradients(operation, X):
        np.testing.assert_array_equal(np.asarray(gradient), np.full(3, value, "float32"), strict=True)


@pytest.mark.parametrize("wrong", [True, 1j, "1", np.ones(2, "float32"), np.ones(3, "float64"), np.ones(3, "int32")], ids=repr)
def test_a_multiplier_of_the_wrong_kind_is_an_error(wrong: Any) -> None:
    operation = made(partials=lambda out, x: (wrong,))
    for mode in (lambda: pb.grad(lambda x: pnp.sum(operation(x)))(X), lambda: pb.jvp(operation, (X,), (X,))):
        with pytest.raises(ProgramError, match=r"partials rule of primitive 'twice'.*test_rule_results\.py"):
            mode()


def test_operands_of_partials_have_the_shape_of_the_result() -> None:
    product = pb.Primitive(
        "outer",
        evaluate=np.multiply,
        result_type=lambda x, y: x.with_shape(np.broadcast_shapes(x.shape, y.shape)),
        partials=lambda out, x, y: (y, x),
    )
    y = np.ones((2, 3), "float32")
    for mode in (
        lambda: pb.grad(lambda x: pnp.sum(product(x, y)))(X),
        lambda: pb.jvp(lambda x: product(x, y), (X,), (X,)),
        lambda: pb.jit(pb.grad(lambda x: pnp.sum(product(x, y))))(X),
    ):
        with pytest.raises(ProgramError, match=r"'outer' has a `partials` rule, so its operands must have its result's shape"):
            mode()
    np.testing.assert_array_equal(pb.grad(lambda x: pnp.sum(product(x, y)))(np.float32(2.0)), 6.0)


def test_an_integer_result_has_no_derivative() -> None:
    step = pb.Primitive("step", evaluate=lambda x: x.astype("int32"), result_type=lambda x: x.with_dtype(np.dtype("int32")))
    step.define("partials", lambda out, x: (1,))
    assert pb.jvp(step, (X,), (X,))[1].dtype == pb.float0


# ---- jvp, transpose, linearize, vectorize, expand, evaluate --------------------

VALUES: dict[str, Callable[[Any], Any]] = {
    "an Array": pnp.asarray,
    "a NumPy array": np.asarray,
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("form", [tuple, list])
def test_numpy_values_are_taken(value: Any, form: Any) -> None:
    zeros = made(jvp=lambda primals, tangents: form((value(2 * X), value(0 * X))))
    for gradient in gradients(zeros, X):
        np.testing.assert_array_equal(np.asarray(gradient), 0 * X, strict=True)
    pulled = made(linear=True, transpose=lambda cotangent, x: form((value(2 * X),)))
    np.testing.assert_array_equal(pb.grad(lambda x: pnp.sum(pulled(x)))(X), 2 * X)
    batched = made(vectorize=lambda size, args, axes: form((value(np.ones((2, 3), "float32")), 0)))
    np.testing.assert_array_equal(pb.vmap(batched)(np.stack([X, X])), np.ones((2, 3)))
    expanded = pb.Primitive("expanded", expand=lambda x: value(2 * X))
    for mode in (
        expanded,
        pb.jit(expanded),
        lambda x: pb.vmap(expanded)(np.stack([x, x]))[0],
        lambda x: pb.jvp(expanded, (x,), (x,))[0],
    ):
        np.testing.assert_array_equal(mode(X), 2 * X)


@pytest.mark.parametrize("number", [0.0, 0])
def test_python_numbers_are_taken_for_0d_results(number: Any) -> None:
    x = np.float32(3.0)
    constant = made(jvp=lambda primals, tangents: (pnp.asarray(np.float32(6.0)), number))
    for gradient in gradients(constant, x):
        np.testing.assert_array_equal(np.asarray(gradient), np.float32(0.0), strict=True)
    assert pb.Primitive("half", evaluate=lambda x: 0.5, result_type=same)(x).dtype == np.float32
    np.testing.assert_array_equal(pb.Primitive("row", evaluate=lambda x: [1, 2, 3], result_type=same)(X), [1, 2, 3])
    ct = made(linear=True, transpose=lambda cotangent, x: (2.5,))
    assert float(pb.grad(ct)(x)) == 2.5


WRONG = {
    "jvp: dtype of the tangent": ("jvp", {"jvp": lambda p, t: (p[0], np.zeros(3))}),
    "jvp: dtype of the result": ("jvp", {"jvp": lambda p, t: (np.zeros(3), t[0])}),
    "jvp: shape of the result": ("jvp", {"jvp": lambda p, t: (np.zeros(2, "float32"), np.zeros(2, "float32"))}),
    "jvp: a number for an array": ("jvp", {"jvp": lambda p, t: (p[0], 0.0)}),
    "jvp: no number": ("jvp", {"jvp": lambda p, t: (p[0], "0")}),
    "linearize: no pair": ("linearize", {"linearize": lambda p, active: p[0]}),
    "linearize: no function": ("linearize", {"linearize": lambda p, active: (p[0], p[0])}),
    "linearize: dtype": ("linearize", {"linearize": lambda p, active: (p[0], lambda t: np.zeros(3))}),
    "transpose: None": ("transpose", {"linear": True, "transpose": lambda ct, x: (None,)}),
    "transpose: dtype": ("transpose", {"linear": True, "transpose": lambda ct, x: (np.zeros(3),)}),
    "transpose: no number": ("transpose", {"linear": True, "transpose": lambda ct, x: (object(),)}),
    "expand: dtype": ("expand", {"evaluate": None, "lower": None, "expand": lambda x: np.zeros(3)}),
}


@pytest.mark.parametrize(("rule", "rules"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("compiled", [False, True])
def test_what_does_not_fit_is_an_error_that_names_the_rule(rule: str, rules: dict[str, Any], compiled: bool) -> None:
    operation = made(**rules)
    gradient = pb.grad(lambda x: pnp.sum(operation(x)))
    with pytest.raises(ProgramError, match=rf"The {rule} rule of primitive 'twice' must return .*test_rule_results\.py"):
        (pb.jit(gradient) if compiled else gradient)(X)


def test_zero_may_be_returned_for_a_cotangent() -> None:
    operation = made(linear=True, transpose=lambda ct, x: (ZERO,))
    np.testing.assert_array_equal(pb.grad(lambda x: pnp.sum(operation(x)))(X), 0 * X)


@pytest.mark.parametrize("returned", [1.5, [1, 2], None, np.zeros(3), (np.zeros(3, "float32"),) * 2], ids=repr)
def test_an_evaluation_of_the_wrong_form(returned: Any) -> None:
    with pytest.raises(ProgramError, match="'twice'"):
        made(evaluate=lambda x: returned)(X)


def test_evaluations_with_several_results() -> None:
    pair = pb.Primitive("pair", evaluate=lambda x: [x, x], result_type=lambda x: (x, x), multiple_results=True)
    assert len(pair(X)) == 2
    pair.define("evaluate", lambda x: (x,))
    with pytest.raises(ProgramError, match="'pair' must return a tuple, with one array for each result"):
        pair(X)


# ---- tangents that do not depend on tangents --------------------

CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "ones": pnp.ones_like,
    "computed": pnp.cos,
    "jitted": pb.jit(pnp.cos),
    "a NumPy array": lambda x: np.ones(3, "float32"),
    "scanned": lambda x: pb.lax.fori_loop(0, 2, lambda i, x: pnp.cos(x), x),
}


@pytest.mark.parametrize("tangent", CONSTANTS.values(), ids=CONSTANTS)
@pytest.mark.parametrize("kind", ["primitive", "custom_jvp"])
def test_a_tangent_that_does_not_depend_on_the_tangents_is_an_error(tangent: Any, kind: str) -> None:
    if kind == "primitive":
        f: Any = made(jvp=lambda primals, tangents: (2.0 * primals[0], tangent(primals[0])))
    else:
        f = pb.custom_jvp(lambda x: 2.0 * x)
        f.defjvp(lambda primals, tangents: (2.0 * primals[0], tangent(primals[0])))

    def total(x: Any) -> Any:
        return pnp.sum(f(x))

    for mode in (
        pb.grad(total),
        pb.jit(pb.grad(total)),
        pb.grad(pb.jit(total)),
        lambda x: pb.vmap(pb.grad(total))(np.stack([x, x])),
        lambda x: pb.grad(lambda x: pnp.sum(pb.vmap(f)(x)))(np.stack([x, x])) if kind == "custom_jvp" else pb.grad(total)(x),
        lambda x: pb.linearize(f, x),
        lambda x: pb.jit(lambda x: pb.linearize(f, x)[0])(x),
    ):
        with pytest.raises(GradientError, match="does not depend on the tangents"):
            mode(X)


@pytest.mark.parametrize("zero", [pnp.zeros_like, lambda x: 0.0 * x, pb.jit(pnp.zeros_like), pb.jit(lambda x: -(0.0 * x))])
def test_a_tangent_known_to_be_zero_is_none(zero: Any) -> None:
    f = made(jvp=lambda primals, tangents: (2.0 * primals[0], zero(primals[0])))
    for gradient in gradients(f, X):
        np.testing.assert_array_equal(gradient, 0 * X)


def test_a_tangent_that_an_operation_of_the_users_makes_of_zeros_is_none() -> None:
    """An operation with a transpose rule is linear in operands that it need not name."""
    solve = pb.Primitive(
        "solve",
        result_type=same,
        evaluate=lambda x, a: x / a,
        lower=lambda write, x, a: write.op("stablehlo.divide", [x, a]),
        jvp=lambda primals, tangents: (solve(*primals), solve(tangents[0], primals[1])),
        transpose=lambda cotangent, x, a: (solve(cotangent, a), None),
    )

    def f(right_hand_side: Any) -> Any:
        made = pb.custom_jvp(lambda x: 2.0 * x)
        made.defjvp(lambda p, t: (2.0 * p[0], -pb.jit(solve)(right_hand_side(p[0]), p[0])))
        return made

    for gradient in gradients(f(lambda x: 0.0 * x), X):
        np.testing.assert_array_equal(gradient, 0 * X)
    for other in (lambda x: 2.0 * x, lambda x: x[np.array([0, 0, 0])]):
        for mode in (pb.grad, lambda total: pb.jit(pb.grad(total))):
            with pytest.raises(GradientError, match="does not depend on the tangents"):
                mode(lambda x, other=other: pnp.sum(f(other)(x)))(X)


# ---- rules that call pullback --------------------


def test_a_quiet_rule_may_call_pullback() -> None:
    def rule(x: Any) -> Any:
        return np.asarray(pnp.log(x) * pnp.sin(x) + pb.grad(lambda y: pnp.sum(y * y))(x))

    quiet = pb.Primitive("quiet", evaluate=rule, result_type=same, quiet=True)
    with np.errstate(all="ignore"):
        expected = np.log(X) * np.sin(X) + 2 * X
    np.testing.assert_allclose(quiet(X), expected, rtol=1e-6)
    np.testing.assert_array_equal(quiet(-X), np.full(3, np.nan))  # and no warning
    outer = pb.Primitive("outer", evaluate=lambda x: quiet(x), result_type=same, quiet=True)
    np.testing.assert_allclose(outer(X), expected, rtol=1e-6)


def test_an_error_of_a_quiet_rule_is_its_own() -> None:
    def rule(x: Any) -> Any:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        pb.Primitive("quiet", evaluate=rule, result_type=same, quiet=True)(X)


# ---- linear in some operands, and vectorize ----------------------------------------------------------------------------


def scaled_by(**rules: Any) -> pb.Primitive:
    """x * y, which says that it is linear in x."""
    return pb.Primitive(
        "scaled_by",
        evaluate=lambda x, y: x * y,
        result_type=same,
        **{"linear": "x", **rules},
        transpose=lambda c, x, y: (c * y, None),
    )


def test_an_operation_that_is_linear_in_one_operand_has_no_derivative_in_another_unless_it_says_so() -> None:
    q, y = scaled_by(), 2 * X
    np.testing.assert_allclose(np.asarray(pb.grad(lambda x: pnp.sum(q(x, y)))(X)), y)
    for transformed in (lambda: pb.jvp(lambda y: q(X, y), (X,), (X,)), lambda: pb.grad(lambda y: pnp.sum(q(X, y)))(X)):
        with pytest.raises(pb.errors.MissingRule, match="'scaled_by'"):
            transformed()
    q = scaled_by(jvp=lambda primals, tangents: (q(*primals), tangents[0] * primals[1] + primals[0] * tangents[1]))
    for found in gradients(lambda y: q(X, y), y)[:5]:
        np.testing.assert_allclose(np.asarray(found), X)
    for found in gradients(lambda x: q(x, x), X)[:5]:
        np.testing.assert_allclose(np.asarray(found), 2 * X)


def test_an_operation_cannot_be_linear_in_an_operand_that_it_does_not_have() -> None:
    with pytest.raises(ProgramError, match="linear in 'zzz', but its operands are x, rest"):
        pb.grad(lambda x: pnp.sum(scaled_by(linear="zzz")(x, X)))(X)


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "vectorize",
    [
        lambda size, args, axes: (args[0].astype("float16"), 0),
        lambda size, args, axes: (pnp.ones((size, 2)), 0),
        lambda size, args, axes: (pnp.ones(2), None),
    ],
)
def test_a_vectorize_rule_returns_what_the_type_rule_says(vectorize: Any, wrap: Any) -> None:
    with pytest.raises(ProgramError, match="vectorize rule of primitive 'twice' must return a batch of the result's"):
        wrap(pb.vmap(made(vectorize=vectorize)))(X)
    several = made(
        vectorize=lambda size, args, axes: ((args[0], pnp.ones((size, 3))), 0),
        evaluate=lambda x: (x, x),
        result_type=lambda x: (x, x),
        multiple_results=True,
    )
    with pytest.raises(ProgramError, match="vectorize"):
        wrap(pb.vmap(several))(X)
