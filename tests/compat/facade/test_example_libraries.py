"""jax.example_libraries: each rule of descent finds a minimum; layers have the shapes that they announce."""

from __future__ import annotations

from typing import Any

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
    with pytest.raises(TypeError, match="takes gradients like the parameters"):
        update(0, (1.0, 2.0), state)


def test_clipping_and_schedules_of_jaxs_trees() -> None:
    clipped = optimizers.clip_grads(jax.tree_util.Partial(max, jnp.array([3.0]), jnp.array([4.0])), 1.0)
    assert abs(float(optimizers.l2_norm(clipped)) - 1.0) < 1e-6
    with pytest.raises(TypeError):
        optimizers.make_schedule([1.0, 2.0])
    with pytest.raises(TypeError, match="leaves are JoinPoints"):
        optimizers.pack_optimizer_state([1.0])


LAYERS: dict[str, tuple[Any, Any]] = {
    "Dense": (stax.Dense(4), (2, 3)),
    "Conv": (stax.Conv(5, (2, 3), strides=(1, 2), padding="SAME"), (2, 6, 6, 3)),
    "ConvTranspose": (stax.ConvTranspose(5, (2, 3), strides=(2, 2)), (2, 4, 4, 3)),
    "Conv1DTranspose": (stax.Conv1DTranspose(5, (2,)), (2, 4, 3)),
    "BatchNorm": (stax.BatchNorm(), (2, 4, 4, 3)),
    "MaxPool": (stax.MaxPool((2, 2), strides=(2, 2)), (2, 4, 4, 3)),
    "AvgPool": (stax.AvgPool((2,), padding="SAME", spec="NCW"), (2, 3, 4)),
    "Flatten": (stax.Flatten, (2, 3, 4)),
    "serial": (stax.serial(stax.Conv(3, (2, 2)), stax.Relu, stax.Flatten, stax.Dropout(0.5), stax.Dense(4)), (2, 4, 4, 1)),
    "shape_dependent": (stax.shape_dependent(lambda shape: stax.Dense(shape[-1])), (2, 3)),
    "fans": (stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Identity), stax.FanInConcat()), (2, 5)),
    "sum": (stax.serial(stax.FanOut(2), stax.parallel(stax.Tanh, stax.Softmax), stax.FanInSum), (2, 5)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_announce_their_shapes(name: str) -> None:
    (init, apply), shape = LAYERS[name]
    announced, params = init(random.key(0), shape)
    out = apply(params, random.normal(random.key(1), shape), rng=random.key(2))
    assert out.shape == tuple(announced) and bool(jnp.all(jnp.isfinite(out)))


def test_dropout_keeps_the_mean_and_asks_for_a_key() -> None:
    _, apply = stax.Dropout(0.9)
    out = apply((), jnp.ones(10000), rng=random.key(0))
    assert np.allclose(np.unique(np.asarray(out)), [0, 1 / 0.9]) and abs(float(out.mean()) - 1) < 0.02
    with pytest.raises(ValueError, match="it needs a key"):
        apply((), jnp.ones(3))
    assert stax.Dropout(0.9, mode="test")[1]((), jnp.ones(3), rng=random.key(0)).tolist() == [1.0, 1.0, 1.0]
