"""jax.experimental.jet and jax.experimental.ode."""

from __future__ import annotations

import numpy as np
import pytest
from pullback.compat.jax.experimental.jet import jet
from pullback.compat.jax.experimental.ode import odeint

import pullback.compat.jax as jax
from pullback.compat.jax import numpy as jnp
from pullback.compat.jax.taylor import fact, jet2


def test_jet_of_derivatives_and_of_coefficients() -> None:
    value, terms = jet(lambda x: {"cube": x**3}, (2.0,), ([1.0, 0.0, 0.0],))
    assert value["cube"] == 8.0 and [float(x) for x in terms["cube"]] == [12.0, 12.0, 6.0]
    _, coefficients = jet2(lambda x: x**3, (2.0,), ([1.0, 0.0, 0.0],))
    assert [float(x) for x in coefficients] == [12.0, 6.0, 1.0]
    assert round(float(fact(4.0))) == 24
    _, terms = jet(lambda x, n: x**2 * n, (3.0, 2), ([1.0, 0.0], [1.0, 1.0]))  # the second is a constant
    assert [float(x) for x in terms] == [12.0, 4.0]


def test_jet_refuses_as_jax_does() -> None:
    with pytest.raises(ValueError, match="as many terms for each argument"):
        jet(lambda x, y: x * y, (1.0, 2.0), ([1.0], [1.0, 0.0]))
    with pytest.raises(ValueError, match="primal value at position 0 is not an array"):
        jet(lambda x: x[0], ((1.0,),), ([1.0],))
    with pytest.raises(ValueError, match="term 1 for argument 0 is not an array"):
        jet(lambda x: x, (1.0,), ([1.0, (0.0,)],))


def test_odeint_of_trees() -> None:
    times = jnp.linspace(0.0, 1.0, 3)
    out = odeint(lambda y, t, rate: {"a": -rate["r"] * y["a"]}, {"a": jnp.ones(2)}, times, {"r": 2.0})
    np.testing.assert_allclose(out["a"], np.exp(-2 * np.linspace(0, 1, 3))[:, None] * np.ones(2), rtol=1e-5)
    # a list for a vector is taken, as it is by JAX
    circle = odeint(lambda y, t: [y[1], -y[0]], jnp.array([0.0, 1.0]), times)
    np.testing.assert_allclose(circle[:, 0], np.sin(np.linspace(0, 1, 3)), atol=1e-5)
    slope = jax.grad(lambda k: odeint(lambda y, t, k: -k * y, 1.0, times, k)[-1])(1.0)
    assert abs(float(slope) + np.exp(-1)) < 1e-4


def test_odeint_refuses_as_jax_does() -> None:
    with pytest.raises(TypeError, match=r"hands \*args to the function as arrays"):
        odeint(lambda y, t, name: y, 1.0, jnp.linspace(0.0, 1.0, 2), "name")
    with pytest.raises(TypeError, match="takes times t of a floating dtype"):
        odeint(lambda y, t: y, 1.0, jnp.arange(2))
