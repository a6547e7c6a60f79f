"""What find_nan says of a NaN that is made in a known way: it is said of those alone, and what it says to write helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.diagnose.hints import hint_of


def distance(x: Any, y: Any) -> Any:
    return pnp.sqrt(pnp.sum((x - y) ** 2))


def power(x: Any, y: Any) -> Any:
    return pnp.sum((x - y) ** 2) ** 0.5


def called_power(x: Any, y: Any) -> Any:
    return pnp.power(pnp.sum((x - y) ** 2), 0.5)


def named(x: Any, y: Any) -> Any:
    total = pnp.sum((x - y) ** 2)
    return pnp.sqrt(total)


def hint(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    finding = pb.find_nan(function, *args, **options)
    assert finding is not None and finding.trap is None
    found = hint_of(finding.origin)
    assert " ".join(found.said.split()) in " ".join(str(finding).split()) and all(line in str(finding) for line in found.code)
    return found


@pytest.mark.parametrize("function", [distance, power, called_power, named])
@pytest.mark.parametrize("apply", ["", "grad", "jacfwd"])
def test_a_root_at_zero(function: Callable[..., Any], apply: str) -> None:
    """The lines that it says give the same value, and the gradient that the distance has elsewhere; 0 at 0; NaN below 0."""
    x = pnp.array([1.0, 2.0])
    *before, line = hint(function, x, x, apply=apply).code

    def cured(x: Any, y: Any) -> Any:
        names: dict[str, Any] = {"pnp": pnp, "x": x, "y": y, "total": pnp.sum((x - y) ** 2)}
        exec("\n".join(before), names)
        return eval(line, names)

    np.testing.assert_array_equal(pb.grad(cured)(x, x), [0.0, 0.0])
    np.testing.assert_allclose(pb.grad(cured)(x, 2 * x), pb.grad(function)(x, 2 * x), rtol=1e-6)
    np.testing.assert_allclose(cured(x, 3 * x), function(x, 3 * x), rtol=1e-6)
    assert pnp.isnan(eval(line, {"pnp": pnp, "s": pnp.float32(-1.0), "total": pnp.float32(-1.0)}))


def test_a_root_that_a_function_of_ours_takes() -> None:
    """It stands at no line of the user's, so that the line has a name for its argument, and says what that is."""
    assert hint(pnp.std, pnp.ones(3)).code == [
        "pnp.where(s == 0, 0.0, pnp.sqrt(pnp.where(s == 0, 1.0, s)))  # s: what sqrt is applied to"
    ]


def test_a_matrix_that_is_not_positive_definite() -> None:
    matrix = pnp.array([[1.0, 2.0], [2.0, 1.0]])
    assert min(np.linalg.eigvalsh(np.asarray(matrix))) < 0
    assert hint(pnp.linalg.cholesky, matrix).said.startswith("The matrix is not positive definite.")


def test_zero_times_the_logarithm_of_zero() -> None:
    p = pnp.array([0.0, 1.0])
    assert "pb.scipy.special.xlogy(x, y)" in hint(lambda p: pnp.sum(p * pnp.log(p)), p).said
    np.testing.assert_array_equal(pb.scipy.special.xlogy(p, p), [0.0, 0.0])


def test_a_quotient_of_exponentials() -> None:
    x = pnp.array([1000.0, 0.0])
    assert "pb.nn.softmax" in hint(lambda x: pnp.exp(x) / pnp.sum(pnp.exp(x)), x).said
    np.testing.assert_array_equal(pb.nn.softmax(x), [1.0, 0.0])


OTHERS = {
    "negative root": (pnp.sqrt, -1.0),
    "inverse root": (lambda x: (x * x) ** -0.5 * 0.0, 0.0),
    "logarithm of zero": (lambda x: pnp.log(x) - pnp.log(x), 0.0),
    "quotient of zeros": (lambda x: x / x, 0.0),
    "from the start": (lambda x: x * 2.0, float("nan")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_of_others_nothing_is_said(name: str) -> None:
    assert hint(*OTHERS[name]) == ("", ())


def test_of_what_is_dropped_nothing_is_said() -> None:
    """A program that copes with a factorization that fails needs no cure."""
    matrix = pnp.array([[1.0, 2.0], [2.0, 1.0]])
    finding = pb.find_nan(lambda a: pnp.nan_to_num(pnp.linalg.cholesky(a)), matrix, backward=False)
    assert not finding.reaches and "positive definite" not in str(finding)


def test_a_rule_prepares_a_backward_pass_where_there_is_one() -> None:
    x = pnp.zeros(2)
    assert "in a derivative rule that prepares the backward pass: div" in str(pb.find_nan(distance, x, x))
    assert "in a derivative rule: div" in str(pb.find_nan(distance, x, x, apply="jacfwd"))
