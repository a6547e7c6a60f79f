"""The cure for the trap of where names the right branch, for numbers too, whose cotangent is a literal as the zero is; it says
what can be done to the source as it stands, and cures."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.diagnose.expressions import text_of
from pullback.diagnose.trap import HARMLESS
from pullback.testing import all_primitives


def first(x: Any) -> Any:
    return pnp.where(x > 0.0, pnp.sqrt(x), 0.0)


def second(x: Any) -> Any:
    return pnp.where(x <= 0.0, 0.0, pnp.sqrt(x))


@pytest.mark.parametrize("function, cure", [(first, "pnp.where(x > 0.0, x, 1.0)"), (second, "pnp.where(x <= 0.0, 1.0, x)")])
@pytest.mark.parametrize("x", [0.0, pnp.zeros(()), pnp.zeros(2)], ids=["number", "0-d", "vector"])
def test_the_branch_that_is_dropped(function: Callable[..., Any], cure: str, x: Any) -> None:
    finding = pb.find_nan(function, x)
    assert finding.trap.cure()[0] == f"safe = {cure}"
    safe = eval(cure, {"pnp": pnp, "x": x})
    assert pnp.isfinite(pb.grad(lambda x: pnp.sum(pnp.sqrt(x)))(safe)).all()


# ---- the cure is done to the source -----------------------------------------------------------------------------------------


def arccosine(x: Any) -> Any:
    return pnp.where(pnp.abs(x) < 1, pnp.arccos(x), 0.0)


def hyperbolic_arccosine(x: Any) -> Any:
    return pnp.where(x > 1, pnp.arccosh(x), 0.0)


def log_odds(x: Any) -> Any:
    return pnp.where(x < 1, pb.scipy.special.logit(x), 0.0)


def entropy(x: Any) -> Any:
    return pnp.where(x > 0, -x * pnp.log(x), 0.0)


def of_two(x: Any) -> Any:
    return pnp.where(x > 0, pb.scipy.special.xlogy(2.0, x), 0.0)


def divided(x: Any) -> Any:
    return pnp.where(x > 0, pnp.divide(1.0, x), 0.0)


def selected(x: Any) -> Any:
    return lax.select(x > 0, pnp.log(x), x)


def condition_on_what_is_inside(x: Any) -> Any:
    size = pnp.sqrt(x)
    return pnp.where(size > 0, size, 0.0)


def condition_on_more_of_it(x: Any) -> Any:
    size = 2.0 * pnp.sqrt(x)
    return pnp.where(size > 0, 3.0 * size, 0.0)


def named_before(x: Any) -> Any:
    y = pnp.sin(x) / x
    return pnp.where(x == 0, 1.0, y)


def in_another(x: Any) -> Any:
    return pnp.where(x > 0, pnp.where(x < 5, pnp.sqrt(x), 1.0), 0.0)


def around_another(x: Any) -> Any:
    y = pnp.where(x > 0, pnp.sqrt(x), 0.0)
    return pnp.where(x < 5, y, 1.0)


def on_several_lines(x: Any) -> Any:
    return pnp.where(
        x > 0,
        pnp.sqrt(x),
        0.0,
    )


CURED: dict[Callable[..., Any], float] = {
    arccosine: 1.0,
    hyperbolic_arccosine: 1.0,
    log_odds: 1.0,
    entropy: 0.0,
    of_two: 0.0,
    divided: 0.0,
    selected: 0.0,
    condition_on_what_is_inside: 0.0,
    condition_on_more_of_it: 0.0,
    named_before: 0.0,
    in_another: 0.0,
    around_another: 0.0,
    on_several_lines: 0.0,
}


@pytest.mark.parametrize("function", CURED, ids=lambda function: function.__name__)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_the_cure_cures(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    x = np.full(shape, CURED[function], np.float32)
    trap = pb.find_nan(function, x).trap
    safe, instead = trap.cure()
    assert instead.startswith(("pnp.where(", "lax.select("))
    source, whole = textwrap.dedent(inspect.getsource(function)), text_of(trap.where)
    line = next(line for line in source.splitlines() if whole.splitlines()[0] in line)
    cured = source.replace(line, f"    {safe}\n{line}").replace(whole, instead)
    names: dict[str, Any] = {"pnp": pnp, "lax": lax, "pb": pb, "Any": Any}
    exec(cured, names)
    assert pb.find_nan(names[function.__name__], x) is None
    for value in (CURED[function], 0.3, 1.7):
        before, after = (np.asarray(one(np.full(shape, value, np.float32))) for one in (function, names[function.__name__]))
        np.testing.assert_array_equal(before, after)


def sample(p: Any) -> tuple[Any, dict[str, Any]]:
    operands, params = next(iter(p.samples(np.random.default_rng(0))))
    return operands, params


def is_of_one_number(p: Any) -> bool:
    if not p.elementwise or p.partials is None or p.samples is None:
        return False
    operands, _ = sample(p)
    return len(operands) == 1 and np.asarray(operands[0]).dtype.kind == "f"


OF_ONE = [p for p in all_primitives() if is_of_one_number(p)]


@pytest.mark.parametrize("p", OF_ONE, ids=lambda p: p.name)
def test_what_is_called_harmless_is(p: Any) -> None:
    harmless, params = np.float32(HARMLESS.get(p, "1.0")), sample(p)[1]
    assert pnp.isfinite(pb.grad(lambda x: p(x, **params))(harmless))
