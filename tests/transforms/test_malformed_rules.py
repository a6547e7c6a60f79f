"""A user's rule that returns something of the wrong form is an error that says so, never a wrong number."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.program.cost import cost


def same_type(x: Any, *rest: Any) -> Any:
    return x


def twice(**rules: Any) -> pb.Primitive:
    return pb.Primitive("twice", evaluate=lambda x: 2 * x, result_type=same_type, **rules)


X = np.ones(3, "float32")


def test_zero_is_what_a_rule_returns_on_purpose() -> None:
    first = pb.Primitive(
        "first", evaluate=lambda x, y: x, result_type=same_type, linear=True,
        lower=lambda write, x, y: x, transpose=lambda cotangent, x, y: (cotangent, pb.ZERO),
    )  # fmt: skip
    for transform in (lambda f: f, pb.jit):
        own, other = transform(pb.grad(lambda x, y: pb.numpy.sum(3.0 * first(x, y)), (0, 1)))(X, X)
        assert own.tolist() == [3.0] * 3 and other.tolist() == [0.0] * 3
    assert pickle.loads(pickle.dumps(pb.ZERO)) is copy.deepcopy(pb.ZERO) is pb.ZERO


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda primals, tangents: primals[0], "must return a pair"),
        (lambda primals, tangents: (primals[0], pb.numpy.ones(())), r"of the result's shape, \(3,\)"),
        (lambda primals, tangents: (primals[0], tangents[0], 0), "must return a pair"),
    ],
    ids=["no pair", "shape", "too many"],
)
def test_jvp(returned: Any, message: str) -> None:
    wrong = twice(jvp=returned)
    for transformed in (lambda: pb.jvp(wrong, (X,), (X,)), lambda: pb.grad(lambda x: pb.numpy.sum(wrong(x)))(X)):
        with pytest.raises(pb.errors.ProgramError, match=rf"jvp rule of primitive 'twice'.*{message}"):
            transformed()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda cotangent, x: cotangent, "a cotangent or None for each operand"),
        (lambda cotangent, x: (cotangent, cotangent), "a cotangent or None for each operand"),
        (lambda cotangent, x: (pb.numpy.sum(cotangent),), r"of its operand's shape, \(3,\)"),
    ],
    ids=["no tuple", "too many", "shape"],
)
def test_transpose(returned: Any, message: str) -> None:
    wrong = twice(linear=True, transpose=returned)
    with pytest.raises(pb.errors.ProgramError, match=rf"transpose rule of primitive 'twice'.*{message}"):
        pb.grad(lambda x: pb.numpy.sum(wrong(x)))(X)


def test_partials() -> None:
    wrong = pb.Primitive(
        "product", evaluate=np.multiply, result_type=same_type, elementwise=True, partials=lambda out, x, y: (y,)
    )
    with pytest.raises(pb.errors.ProgramError, match="'product' must return a derivative for each operand"):
        pb.grad(lambda y: wrong(2.0, y))(3.0)


def test_a_product_of_unknowns_has_no_transpose() -> None:
    with pytest.raises(pb.errors.GradientError, match="not linear"):
        pb.linear_transpose(lambda x: x * x, 1.0)(1.0)


def test_a_missing_lowering_names_the_line_that_applied_the_operation() -> None:
    def apply(x: Any) -> Any:
        return twice()(x)

    with pytest.raises(pb.errors.MissingRule, match=r"test_malformed_rules\.py:\d+ \(.*apply\)"):
        pb.jit(apply)(X)


def test_vectorize() -> None:
    sized = twice(vectorize=lambda size, args, axes: (pb.numpy.ones(7), 0))
    with pytest.raises(pb.errors.ProgramError, match="vectorize rule of primitive 'twice' must return a batch of the result"):
        pb.vmap(sized)(X)
    unpaired = twice(vectorize=lambda size, args, axes: args[0])
    with pytest.raises(pb.errors.ProgramError, match="vectorize rule of primitive 'twice' must return a pair"):
        pb.vmap(unpaired)(X)


def test_result_type() -> None:
    wrong = pb.Primitive("twice", evaluate=lambda x: 2 * x, result_type=lambda x: x.shape)
    with pytest.raises(pb.errors.ProgramError, match="result_type rule of primitive 'twice' must return an ArrayType"):
        pb.xpr(wrong, X)


@pytest.mark.parametrize("lower", [lambda write, x: None, lambda write, x: write.constant(np.ones(5, "float32"))])
def test_lower(lower: Any) -> None:
    with pytest.raises(pb.errors.ProgramError, match=r"lower rule of primitive 'twice' must return .*tensor<3xf32>"):
        pb.jit(twice(lower=lower))(X)


@pytest.mark.parametrize(
    "returned",
    [(X, X), ("s", 0), (X, 0.5), (object(), None), (X, "0"), X[:1], (X[:2], 0)],
    ids=["an array for an axis", "text", "a fraction", "an object", "text for an axis", "no pair", "another size"],
)
def test_vectorize_of_every_form(returned: Any) -> None:
    for several in (False, True):
        made = ([returned[0]], returned[1]) if several and isinstance(returned, tuple) else returned
        wrong = pb.Primitive(
            "twice",
            evaluate=lambda x: (2 * x,) if several else 2 * x,
            result_type=lambda x: (x,) if several else x,
            multiple_results=several,
            vectorize=lambda *_: made,
        )
        with pytest.raises(pb.errors.ProgramError, match="vectorize rule of primitive 'twice' must return"):
            pb.vmap(wrong)(X)


def test_vectorize_may_return_numpy_arrays() -> None:
    fine = twice(vectorize=lambda size, args, axes: (np.full(size, 2.0, "float32"), 0))
    assert pb.vmap(lambda x: fine(x) + 1)(X).tolist() == [3, 3, 3]


@pytest.mark.parametrize("returned", ["s", [1.0], 2.0, {}, np.ones(3), NotImplemented])
def test_simplify(returned: Any) -> None:
    wrong = twice(lower=lambda write, x: x, simplify=lambda equation, known: returned)
    with pytest.raises(pb.errors.ProgramError, match="simplify rule of primitive 'twice' must return"):
        pb.jit(lambda x: wrong(x))(X)


def test_simplify_to_another_type() -> None:
    wrong = pb.Primitive(
        "total",
        evaluate=np.sum,
        result_type=lambda x: x.with_shape(()),
        lower=lambda write, x: x,
        simplify=lambda equation, known: equation.inputs[0],
    )
    with pytest.raises(pb.errors.ProgramError, match="simplify rule of primitive 'total' must return"):
        pb.jit(lambda x: wrong(x))(X)


def test_cost() -> None:
    with pytest.raises(pb.errors.ProgramError, match="cost rule of primitive 'twice' must return a number"):
        cost(pb.xpr(twice(cost=lambda operands, results: None), X))


def test_a_linearization_that_is_not_implemented() -> None:
    declined = twice(linearize=lambda primals, active: NotImplemented)
    for transformed in (lambda: pb.jvp(declined, (X,), (X,)), lambda: pb.linearize(declined, X)):
        with pytest.raises(pb.errors.MissingRule, match="jvp"):
            transformed()


def test_rules_and_parameters_of_any_origin() -> None:
    """A rule may be a function that belongs to no module, and a parameter be called `self`."""
    namespace: dict[str, Any] = {}
    exec("def evaluate(x, **params): return x * params['self']\ndef same(x, **params): return x", namespace)
    scaled = pb.Primitive("scaled", evaluate=namespace["evaluate"], result_type=namespace["same"])
    same = type(namespace["same"])(namespace["same"].__code__, {})
    assert same.__module__ in (None, "builtins")
    scaled.define("result_type", same)
    for apply in (scaled, scaled.bind):
        assert apply(X, self=3.0).tolist() == [3, 3, 3]
