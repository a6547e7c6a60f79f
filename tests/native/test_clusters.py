"""Elementwise operations in XLA's programs that are machine code of ours: which, and that they are right."""

import numpy as np
import pytest

import pullback as pb
from pullback.engine.backend import DEFAULT_OPTIONS, backend
from pullback.engine.lower import lower_program
from pullback.native import compile as compiling
from pullback.native.choice import native_mode
from pullback.native.clusters import LEAST, cluster, grouped

pnp, lax = pb.numpy, pb.lax

pytestmark = pytest.mark.skipif(compiling.unavailable() is not None, reason=str(compiling.unavailable()))

rng = np.random.default_rng(0)
X = rng.uniform(0.1, 0.9, size=(64, 65))
CLOSED_OVER = rng.uniform(1.0, 2.0, size=(64, 65))


def run(function, *args, mode="on"):
    """The results of XLA's program, and what of it is ours."""
    program = pb.xpr(function, *args)
    with native_mode(mode):
        outs = backend().compile(program, DEFAULT_OPTIONS, ())([pnp.asarray(arg) for arg in args])
        return [np.asarray(out) for out in outs], lower_program(program, "cpu", offloads=True).offloaded


def several(x):
    """Two groups, on the two sides of a sum; results of the first one are used inside, behind, and returned."""
    a = pnp.sin(x)
    b = a * x + pnp.cos(a)
    total = b.mean()
    c = pnp.log1p(b * b) * pnp.sin(total * b)
    return a, c + b, total


def chosen(x):
    return pnp.where(pnp.sin(x * 9.0) > 0.25, x, pnp.arctan(x))


def closed_over(x):
    return pnp.sin(x) * CLOSED_OVER


def interrupted(x):
    """What stands between does not depend on the group, but comes before its end."""
    a = pnp.sin(x)
    row = x.sum(0)
    return pnp.cos(a) * 2.0, row


def gradient(x):
    return pb.grad(lambda x: (pnp.sin(x) * lax.erf(x)).sum())(x)


TAKEN = {
    "sin": (np.float64, pnp.sin, 1), "cos": (np.float32, pnp.cos, 1), "erf": (np.float64, lax.erf, 1),
    "log": (np.float64, lambda x: pnp.log(x) * x, 1), "reduced": (np.float64, lambda x: pnp.sin(x).sum(), 1),
    "log1p": (np.float32, lambda x: pnp.log1p(x * x), 1), "expm1": (np.float64, pnp.expm1, 1),
    "both": (np.float64, lambda x: (lax.erf(x).sum(), lax.erf(x)), 1),
    "remainder": (np.float32, lambda x: pnp.remainder(x, 0.25), 1), "power": (np.float64, lambda x: x**1.7, 1),
    "atan2": (np.float32, lambda x: pnp.arctan2(x, x + 1.0), 1), "several": (np.float64, several, 2),
    "chosen": (np.float64, chosen, 1), "closed over": (np.float64, closed_over, 1),
    "interrupted": (np.float64, interrupted, 2), "gradient": (np.float64, gradient, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_groups_are_right(name):
    dtype, function, count = TAKEN[name]
    x = X.astype(dtype)
    found, ours = run(function, x)
    plain, none = run(function, x, mode="off")
    assert len(ours) == count and not none
    tight = {"rtol": 1e-13, "atol": 1e-13} if dtype is np.float64 else {"rtol": 2e-6, "atol": 1e-6}
    for one, other in zip(found, plain, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, **tight)


LEFT = {
    "exp": lambda x: pnp.exp(x),
    "squares": lambda x: x**2.0,
    "roots": lambda x: x**0.5,
    "a sum of logarithms": lambda x: pnp.log(x).sum(),
    "a sum of log1p": lambda x: pnp.log1p(x * x).sum(),
    "one logarithm in float32": lambda x: pnp.log(x.astype("float32")),
    "a sum of erf": lambda x: lax.erf(x * x).sum(0),
    "small": lambda x: pnp.sin(x[:8]),
    "half precision": lambda x: pnp.sin(x.astype("float16")),
    "complex": lambda x: pnp.sin(x * 1j).real,
    "host": lambda x: pb.pure_callback(np.sin, x, x) * 2.0,
}


@pytest.mark.parametrize("name", LEFT)
def test_what_xla_is_good_at_is_left_to_it(name):
    assert run(LEFT[name], X)[1] == ()


def test_large_groups_are_divided_and_right():
    x = rng.uniform(-9.0, 9.0, size=1 << 17)
    found, ours = run(lambda x: pnp.sin(x) + pnp.cos(x) * pnp.arctan(x), x)
    assert len(ours) == 1
    np.testing.assert_allclose(found[0], np.sin(x) + np.cos(x) * np.arctan(x), rtol=1e-13, atol=1e-14)


def test_a_grouped_program_is_a_program():
    program = pb.xpr(several, X)
    made = grouped(program)
    assert [equation.primitive is cluster for equation in made.equations].count(True) == 2
    assert made.input_types == program.input_types and made.output_types == program.output_types
    inside = [len(equation.params["program"].equations) if equation.primitive is cluster else 1 for equation in made.equations]
    assert sum(inside) == len(program.equations)
    small = pb.xpr(several, X[: LEAST // X.shape[1]])
    assert grouped(small) is small
