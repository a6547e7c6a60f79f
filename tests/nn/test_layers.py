"""pb.nn.layers: layers have the shapes that they announce, and the values of what they are made of."""

import math

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import nn
from pullback.nn import layers

KEY = pb.random.key(0)
LAYERS = {
    "dense": (layers.dense(4), (2, 3)),
    "conv": (layers.conv(5, (2, 3), strides=(1, 2), padding="SAME"), (2, 6, 6, 3)),
    "channels in front": (layers.conv(5, (2,), dimension_numbers=("NCH", "OIH", "NCH")), (2, 3, 6)),
    "conv_transpose": (layers.conv_transpose(5, (2, 3), strides=(2, 2)), (2, 4, 4, 3)),
    "batch_norm": (layers.batch_norm(), (2, 4, 4, 3)),
    "max_pool": (layers.max_pool((2, 2), strides=(2, 2)), (2, 4, 4, 3)),
    "sum_pool": (layers.sum_pool((3,)), (2, 4, 3)),
    "avg_pool": (layers.avg_pool((2,), padding="SAME", spec="NCW"), (2, 3, 4)),
    "flatten": (layers.flatten, (2, 3, 4)),
    "serial": (layers.serial(layers.conv(3, (2, 2)), layers.flatten, layers.dropout(0.5), layers.dense(4)), (2, 4, 4, 1)),
    "shape_dependent": (layers.shape_dependent(lambda shape: layers.dense(shape[-1])), (2, 3)),
    "fans": (
        layers.serial(layers.fan_out(2), layers.parallel(layers.dense(3), layers.identity), layers.fan_in_concat()),
        (2, 5),
    ),
    "sum": (
        layers.serial(layers.fan_out(2), layers.parallel(*map(layers.elementwise, (pnp.tanh, nn.relu))), layers.fan_in_sum),
        (2, 5),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_announce_their_shapes(name) -> None:
    (init, apply), shape = LAYERS[name]
    announced, params = init(KEY, shape)
    out = apply(params, pb.random.normal(pb.random.key(1), shape), rng=pb.random.key(2))
    assert out.shape == tuple(announced) and bool(pnp.all(pnp.isfinite(out)))
    unknown = (-1, *shape[1:])
    assert math.prod(init(KEY, unknown)[0][1:]) == math.prod(announced[1:])


def test_values() -> None:
    x = np.arange(6.0, dtype="float32").reshape(1, 6, 1)
    assert layers.max_pool((3,), (3,)).apply((), pnp.array(x)).ravel().tolist() == [2.0, 5.0]
    assert layers.avg_pool((4,), (4,), "SAME").apply((), pnp.array(x)).ravel().tolist() == [1.0, 4.0]
    kernel, b = pnp.array([[[1.0]], [[-1.0]]]), pnp.array([[[10.0]]])
    one = layers.conv(1, (2,), dimension_numbers=("NHC", "HIO", "NHC"))
    assert one.apply((kernel, b), pnp.array(x)).ravel().tolist() == [9.0] * 5
    beta, gamma = pnp.array([1.0]), pnp.array([2.0])
    normal = layers.batch_norm(axis=(0, 1), epsilon=0.0).apply((beta, gamma), pnp.array(x))
    np.testing.assert_allclose(normal, 1 + 2 * (x - x.mean()) / x.std(), rtol=1e-5)


def test_dropout_keeps_the_mean_and_asks_for_a_key() -> None:
    _, apply = layers.dropout(0.9)
    out = apply((), pnp.ones(10000), rng=KEY)
    assert np.allclose(np.unique(np.asarray(out)), [0, 1 / 0.9]) and abs(float(out.mean()) - 1) < 0.02
    with pytest.raises(ValueError, match="it needs a key"):
        apply((), pnp.ones(3))
    assert layers.dropout(0.9, mode="test").apply((), pnp.ones(3), rng=KEY).tolist() == [1.0, 1.0, 1.0]


def test_a_network_learns() -> None:
    init, apply = layers.serial(layers.dense(16), layers.elementwise(pnp.tanh), layers.dense(1))
    x = pb.random.normal(pb.random.key(3), (64, 2))
    y = x[:, :1] * x[:, 1:]
    first, update, params = pb.optimizers.adam(0.02)
    state = first(init(KEY, (-1, 2))[1])
    loss = lambda p: pnp.mean((apply(p, x) - y) ** 2)  # noqa: E731
    step = pb.jit(lambda i, state: update(i, pb.grad(loss)(params(state)), state))
    before = float(loss(params(state)))
    for i in range(200):
        state = step(i, state)
    assert float(loss(params(state))) < 0.1 * before
