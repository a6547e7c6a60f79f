"""What is said of a stage: which arguments are of no use, and with respect to which a gradient is zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp


def said(stage: str, function: Any, *args: Any, apply: str = "grad") -> str:
    """The sentences on a stage."""
    data = pb.explore(function, *args, apply=apply, compile=False).data
    return " ".join(next(one for one in data["stages"] if one["id"] == stage)["deltas"])


def used(p: dict[str, Any], x: Any, _unused: Any) -> Any:
    return pnp.sum(p["a"] * x) + pnp.sum(pnp.round(p["b"]))


P, X = {"a": 1.0, "b": 2.0, "c": 3.0}, np.ones(3, "float32")


def test_arguments_that_no_result_depends_on() -> None:
    assert "The result does not depend on arguments p['c'] and _unused." in said("base", used, P, X, 1.0)
    assert "does not depend" not in said("base", lambda x, y: x * y, 1.0, 2.0)
    assert "does not depend on argument y." in said("base", lambda x, y: (y * 2.0, x)[1], 1.0, 2.0)  # nor on what is made of it


def test_an_argument_that_an_effect_reads_is_of_use() -> None:
    def printing(x: Any, y: Any) -> Any:
        pb.debug.print("{}", y)
        return x * 2.0

    assert "does not depend" not in said("base", printing, 1.0, 2.0)


CUTS = {
    "an index": lambda x: x[pnp.argmax(x)] * 0.0 + pnp.argmax(x) * 1.0,
    "rounding": lambda x: pnp.sum(pnp.round(x)),
    "a comparison": lambda x: pnp.sum(pnp.where(x > 0.5, 1.0, 2.0)),
    "an integer": lambda x: pnp.sum(x.astype("int32").astype("float32")),
    "stop_gradient": lambda x: pnp.sum(pb.lax.stop_gradient(x) ** 2),
}
ZERO = "The gradient is zero with respect to argument x: nothing that has a derivative leads from there to the result."


@pytest.mark.parametrize("cut", list(CUTS)[1:])
def test_a_gradient_that_is_zero_says_so(cut: str) -> None:
    assert ZERO in said("grad", CUTS[cut], X)
    np.testing.assert_array_equal(pb.grad(CUTS[cut])(X), np.zeros(3))


@pytest.mark.parametrize("function", [lambda x: pnp.sum(pb.nn.relu(x - 5.0)), lambda x: pnp.sum(x) * 0.0, CUTS["an index"]])
def test_a_derivative_whose_value_is_zero_here_is_none_of_these(function: Any) -> None:
    np.testing.assert_array_equal(pb.grad(function)(X), np.zeros(3))
    assert "is zero" not in said("grad", function, X)


def test_of_several_arguments_those_that_are_meant() -> None:
    zero = "The gradient is zero with respect to arguments p['b'], p['c'] and _unused: "
    assert zero in said("grad", used, P, X, 1.0, apply="grad(argnums=(0, 2))")
    assert "is zero with respect to argument _unused:" in said("grad", used, P, X, 1.0, apply="grad(argnums=(1, 2))")
    assert "is zero" not in said("value_and_grad", used, P, X, 1.0, apply="value_and_grad(argnums=1)")


def test_nothing_waits_where_the_derivative_is_constant() -> None:
    assert "Nothing waits for the backward pass." in said("grad", lambda x: pnp.sum(2.0 * x), X)
    assert " B wait for the backward pass at most." in said("grad", lambda x: pnp.sum(pnp.tanh(x) ** 2), X)


def test_of_many_arguments_the_first_are_named() -> None:
    many = dict.fromkeys("abcdef", 1.0)
    assert "on arguments p['a'], p['b'], p['c'] and 3 more." in said("base", lambda p: 1.0, many, apply="")
    few = dict.fromkeys("abcd", 1.0)
    assert "on arguments p['a'], p['b'], p['c'] and p['d']." in said("base", lambda p: 1.0, few, apply="")
