"""jax.example_libraries: each rule of descent finds a minimum; layers have the shapes that they announce."""

from __future__ import annotations

import numpy as np
import pytest

import pullback.compat.jax as jax
from pullback.compat.jax import numpy as jnp
from pullback.compat.jax import random
from pullback.compat.jax.example_libraries import optimizers, stax

RULES = {
    "sgd": (0.1,), "momentum": (0.1, 0.5), "nesterov": (0.1, 0.5), "adagrad": (0.3,), "rmsprop": (0.05,),
    "rmsprop_momentum": (0.02,), "adam": (0.1,), "adamax": (0.2,), "sm3": (0.3,),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_rules_find_the_minimum(name: str) -> None:
    init, update, params = getattr(optimizers, name)(*RULES[name])
    loss = lambda p: jnp.sum((p["x"] - 1.0) ** 2) + (p["y"] + 2.0) ** 2  # noqa: E731
    state = init({"x": jnp.zeros((2, 2)), "y": jnp.array(0.0)})
    step = jax.jit(lambda i, state: update(i, jax.grad(loss)(params(state)), state))
    for i in range(300):
        state = step(i, state)
    assert float(loss(params(state))) < 1e-2
    again = optimizers.pack_optimizer_state(optimizers.unpack_optimizer_state(state))
    assert jax.tree.structure(again) == jax.tree.structure(state)
    kept = optimizers.unpack_optimizer_state(state)["x"].subtree  # of the leaf alone
    np.testing.assert_array_equal(kept if name == "sgd" else kept[0], params(state)["x"])
    with pytest.raises(TypeError, match="takes gradients like the parameters"):
        update(0, (1.0, 2.0), state)


def test_clipping_and_schedules_of_jaxs_trees() -> None:
    clipped = optimizers.clip_grads(jax.tree_util.Partial(max, jnp.array([3.0]), jnp.array([4.0])), 1.0)
    assert abs(float(optimizers.l2_norm(clipped)) - 1.0) < 1e-6
    with pytest.raises(TypeError):
        optimizers.make_schedule([1.0, 2.0])
    with pytest.raises(TypeError, match="leaves are JoinPoints"):
        optimizers.pack_optimizer_state([1.0])


def test_layers_by_jaxs_names() -> None:
    init, apply = stax.serial(
        stax.Conv(3, (2, 2)), stax.BatchNorm(), stax.Relu, stax.MaxPool((2, 2), spec="NHWC"), stax.Flatten, stax.Dropout(0.5),
        stax.FanOut(2), stax.parallel(stax.Dense(4), stax.Identity), stax.FanInConcat(), stax.LogSoftmax,
    )  # fmt: skip
    announced, params = init(random.key(0), (2, 5, 5, 1))
    out = apply(params, random.normal(random.key(1), (2, 5, 5, 1)), rng=random.key(2))
    assert out.shape == announced == (2, 31)
    assert isinstance(params[7], tuple)
    np.testing.assert_allclose(jnp.exp(out).sum(-1), 1.0, rtol=1e-5)
    assert stax.Conv1DTranspose(5, (2,)).init(random.key(0), (-1, 4, 3))[0] == (-1, 5, 5)
