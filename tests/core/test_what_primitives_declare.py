"""What a primitive declares is held against what is done with it: nothing that it does not say becomes a silent zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.core.modes import narrowing

X = np.asarray([1.0, 2.0, 3.0], np.float32)


def product(**fields: Any) -> pb.Primitive:
    """x * y, declared to be linear in x."""
    fields = {"linear": "x", "transpose": lambda ct, x, y: (ct * y, None), **fields}
    fields["lower"] = lambda write, x, y: write.elementwise("stablehlo.multiply", x, y)
    return pb.Primitive("product", evaluate=lambda x, y: x * y, result_type=lambda x, y: x, **fields)


def both(primals: Any, tangents: Any) -> Any:
    (x, y), (tx, ty) = primals, tangents
    return x * y, tx * y + x * ty


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_linear_in_some_operands(wrap: Any) -> None:
    """The others have the derivatives that the `jvp` rule gives them, or none at all, which is an error."""
    p = product()
    np.testing.assert_array_equal(pb.jvp(wrap(lambda x: p(x, X)), (X,), (X,))[1], X * X)
    np.testing.assert_array_equal(pb.vjp(wrap(lambda x: p(x, X)), X)[1](X)[0], X * X)
    for f in (lambda y: p(X, y), lambda y: p(y, y)):
        with pytest.raises(pb.errors.MissingRule, match="jvp"):
            pb.jvp(wrap(f), (X,), (X,))
        with pytest.raises(pb.errors.MissingRule, match="jvp"):
            pb.vjp(wrap(f), X)
    p = product(jvp=both)
    np.testing.assert_array_equal(pb.jvp(wrap(lambda y: p(X, y)), (X,), (X,))[1], X * X)
    np.testing.assert_array_equal(pb.jvp(wrap(lambda y: p(y, y)), (X,), (X,))[1], 2 * X * X)
    np.testing.assert_array_equal(pb.vjp(wrap(lambda y: p(y, y)), X)[1](X)[0], 2 * X * X)


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_linear_in_an_operand_that_only_a_rule_of_its_own_names(wrap: Any) -> None:
    """The type rule of a family takes however many operands there are."""

    @pb.primitive
    class scale(pb.Elementwise):
        evaluate = np.multiply
        lower = "stablehlo.multiply"
        linear = "x"

        def transpose(cotangent: Any, x: Any, factor: Any) -> Any:
            return scale(cotangent, factor), None

    assert scale.linear_flags(2) == (True, False)
    np.testing.assert_array_equal(pb.vjp(wrap(lambda x: scale(x, X)), X)[1](X)[0], X * X)
    with pytest.raises(pb.errors.MissingRule, match="jvp"):
        pb.vjp(wrap(lambda y: scale(X, y)), X)


def test_linear_in_an_operand_that_there_is_not() -> None:
    with pytest.raises(pb.errors.ProgramError, match="'product' is declared linear in 'zzz', but its operands are x, y"):
        pb.jvp(lambda x: product(linear="zzz")(x, X), (X,), (X,))


def test_a_rule_is_a_function() -> None:
    with pytest.raises(TypeError, match="The expand rule of primitive 'q' must be a function, but it is 'foo'"):
        pb.Primitive("q", expand="foo")


@pytest.mark.parametrize("transform", [pb.jit, pb.vmap, pb.grad, lambda f: lambda x: pb.xpr(f, x)])
def test_parameters_are_static(transform: Any) -> None:
    q = pb.Primitive("q", evaluate=lambda x, k: x * k, result_type=lambda x, k: x)
    with pytest.raises(TypeError, match=r"Parameter 'k' of primitive 'q' is a traced value.* static"):
        transform(lambda x: q(1.0, k=x))(X if transform is pb.vmap else 1.0)


def test_types_that_stand_for_arrays_are_narrowed_as_arrays_are() -> None:
    wide = pb.ArrayType((2,), "float64")
    with narrowing():
        assert pb.eval_shape(lambda x: x, wide).dtype == pb.xpr(lambda x: x, wide).input_types[0].dtype == np.float32
        out = pb.pure_callback(lambda x: np.asarray(x, np.float32), wide, np.ones(2))
    assert out.dtype == np.float32


def test_the_advice_is_one_that_the_transformation_takes() -> None:
    for transform, advised in ((pb.grad, True), (pb.jacrev, True), (pb.jacfwd, False)):
        with pytest.raises(pb.errors.GradientError) as caught:
            transform(lambda x: x)(np.asarray([1, 2]))
        assert ("allow_int" in str(caught.value)) is advised


def test_the_cotangent_of_an_integer_is_none_trivial_or_integer() -> None:
    _, pull = pb.vjp(lambda x: (2.0 * x, np.arange(3)), X)
    for trivial in (None, np.zeros(3, pb.float0), np.ones(3, np.int32), True):
        np.testing.assert_array_equal(pull((X, trivial))[0], 2 * X)
    with pytest.raises(pb.errors.GradientError, match="integers and bools have no tangent"):
        pull((X, X))
