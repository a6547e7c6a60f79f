"""pb.optimizers: each rule of descent finds a minimum, by the steps that its source says; schedules, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb
from pullback import errors, optimizers
from pullback import numpy as pnp

RULES = {
    "sgd": (0.1,), "momentum": (0.1, 0.5), "nesterov": (0.1, 0.5), "adagrad": (0.3,), "rmsprop": (0.05,),
    "rmsprop_momentum": (0.02,), "adam": (0.1,), "adamax": (0.2,), "sm3": (0.3,),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_rules_find_the_minimum(name) -> None:
    init, update, params = getattr(optimizers, name)(*RULES[name])

    def loss(p):
        return pnp.sum((p["x"] - 1.0) ** 2) + (p["y"] + 2.0) ** 2

    state = init({"x": pnp.zeros((2, 2)), "y": pnp.array(0.0)})
    step = pb.jit(lambda i, state: update(i, pb.grad(loss)(params(state)), state))
    for i in range(300):
        state = step(i, state)
    assert float(loss(params(state))) < 1e-2
    with pytest.raises(errors.StructureError, match="takes gradients like the parameters"):
        update(0, (1.0, 2.0), state)


def test_adam_takes_the_steps_of_the_paper() -> None:
    init, update, params = optimizers.adam(0.1)
    state = update(1, pnp.array([2.0]), update(0, pnp.array([1.0]), init(pnp.zeros(1))))
    first = (0.1 * 1 * 0.9 + 0.1 * 2) / (1 - 0.9**2)
    second = (0.001 * 1 * 0.999 + 0.001 * 4) / (1 - 0.999**2)
    np.testing.assert_allclose(params(state), [-0.1 - 0.1 * first / np.sqrt(second)], rtol=1e-5)


def test_adamax_and_sm3_take_the_steps_of_their_papers() -> None:
    init, update, params = optimizers.adamax(0.1)
    state = update(1, pnp.array([1.0]), update(0, pnp.array([4.0]), init(pnp.zeros(1))))
    steps = [0.1 / 0.1 * 0.4 / 4, 0.1 / (1 - 0.81) * (0.36 + 0.1) / (0.999 * 4)]
    np.testing.assert_allclose(params(state), [-sum(steps)], rtol=1e-5)
    init, update, params = optimizers.sm3(1.0, momentum=0.0)
    gradient = np.array([[3.0, 1.0], [2.0, 4.0]])
    state = update(1, pnp.ones((2, 2)), update(0, pnp.array(gradient), init(pnp.zeros((2, 2)))))
    rows, columns = gradient.max(1)[:, None] ** 2, gradient.max(0)[None] ** 2
    np.testing.assert_allclose(params(state), -np.sign(gradient) - 1 / np.sqrt(np.minimum(rows, columns) + 1), rtol=1e-5)


def test_a_rule_of_the_users_must_keep_its_state() -> None:
    @optimizers.optimizer
    def growing():
        return (lambda x: (x,)), (lambda i, g, state: (*state, g)), (lambda state: state[0])

    init, update, _ = growing()
    with pytest.raises(errors.StructureError, match="returns a state as it takes it"):
        update(0, 1.0, init(1.0))


def test_schedules_and_clipping() -> None:
    assert optimizers.exponential_decay(1.0, 2, 0.25)(1) == 0.5
    assert optimizers.inverse_time_decay(1.0, 2, 1.0, staircase=True)(3) == 0.5
    assert optimizers.polynomial_decay(1.0, 4, 0.0)(pnp.array(1)) == 0.75
    assert [float(optimizers.piecewise_constant([2, 4], [1.0, 2.0, 3.0])(i)) for i in (1, 3, 5)] == [1.0, 2.0, 3.0]
    clipped = optimizers.clip_grads([pnp.array([3.0]), {"b": pnp.array([4.0])}], 1.0)
    assert math.isclose(float(optimizers.l2_norm(clipped)), 1.0, rel_tol=1e-6)
    kept = optimizers.clip_grads([pnp.array([3.0])], 5.0)
    assert kept[0].tolist() == [3.0]
    with pytest.raises(errors.ShapeError, match="A step size is one number"):
        optimizers.sgd([1.0, 2.0])
    with pytest.raises(errors.ShapeError, match="values as one that is one longer"):
        optimizers.piecewise_constant([1, 2], [1.0, 2.0])
