"""A classifier of handwritten digits for the tour: a small network and its training.

The network and its optimizer are written out, as a reader would write their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import pullback as pb
import pullback.numpy as pnp

Params = dict[str, Any]

HIDDEN = 64
EPOCHS = 30
BATCH = 64
RATE = 0.1
MOMENTUM = 0.9


def start(seed: int) -> Params:
    """Random parameters of a network with one hidden layer: 64 pixels, `HIDDEN` units, 10 digits."""
    rng = np.random.default_rng(seed)

    def normal(rows: int, columns: int) -> Any:
        return pnp.asarray((rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32))

    return {"w1": normal(64, HIDDEN), "b1": pnp.zeros(HIDDEN), "w2": normal(HIDDEN, 10), "b2": pnp.zeros(10)}


def scores(params: Params, image: Any) -> Any:
    """How much an image, of shape (8, 8), looks like each of the ten digits: shape (10,)."""
    hidden = pnp.tanh(pnp.reshape(image, (64,)) @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss(params: Params, image: Any, label: Any) -> Any:
    """Minus the logarithm of the probability given to the label."""
    found = scores(params, image)
    top = pnp.max(found)
    return top + pnp.log(pnp.sum(pnp.exp(found - top))) - found[label]


def batch_loss(params: Params, images: Any, labels: Any) -> Any:
    """The mean loss of many images."""
    losses = pb.vmap(loss, in_axes=(None, 0, 0))(params, images, labels)
    return pnp.mean(losses)


def step(params: Params, speed: Params, images: Any, labels: Any) -> tuple[Any, Params, Params]:
    """One step of gradient descent with momentum."""
    value, slope = pb.value_and_grad(batch_loss)(params, images, labels)
    speed = {k: MOMENTUM * speed[k] - RATE * slope[k] for k in params}
    params = {k: params[k] + speed[k] for k in params}
    return value, params, speed


def predict(params: Params, images: Any) -> Any:
    """The digit that each image looks most like."""
    return pnp.argmax(pb.vmap(scores, in_axes=(None, 0))(params, images), axis=1)


def pull(params: Params, image: Any, label: Any) -> Any:
    """The length of the gradient of one image's loss."""
    slope = pb.grad(loss)(params, image, label)
    return pnp.sqrt(sum(pnp.sum(slope[k] ** 2) for k in slope))


def batches(images: Any, labels: Any, seed: int) -> Iterator[tuple[Any, Any]]:
    """Shuffled batches, `EPOCHS` times through the training set; what is left over of it each time is left out."""
    rng = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[begin : begin + BATCH]
            yield images[chosen], labels[chosen]
