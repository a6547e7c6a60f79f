"""jax.example_libraries.stax: pullback.nn.layers, by JAX's names."""

from __future__ import annotations

import functools
from collections.abc import Callable

from pullback import nn
from pullback import numpy as pnp
from pullback.compat.jax.facade import facade
from pullback.nn import layers
from pullback.nn.initializers import glorot_normal, normal

glorot, randn, logsoftmax = glorot_normal, normal, nn.log_softmax

Tanh, Exp, Relu, Elu, Selu, Gelu, LeakyRelu, Softplus, Sigmoid = map(
    layers.elementwise,
    (pnp.tanh, pnp.exp, nn.relu, nn.elu, nn.selu, nn.gelu, nn.leaky_relu, nn.softplus, nn.sigmoid),
)
Softmax, LogSoftmax = [layers.elementwise(function, axis=-1) for function in (nn.softmax, nn.log_softmax)]


def _general(layer: Callable[..., layers.Layer]) -> Callable[..., layers.Layer]:
    """A convolution whose axes are its first argument."""
    return lambda dimension_numbers, *args, **options: layer(*args, dimension_numbers=dimension_numbers, **options)


GeneralConv, GeneralConvTranspose = _general(layers.conv), _general(layers.conv_transpose)
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))

facade(
    globals(),
    own={
        "pullback.nn.layers": (
            "AvgPool=avg_pool BatchNorm=batch_norm Conv=conv ConvTranspose=conv_transpose Dense=dense Dropout=dropout"
            " FanInConcat=fan_in_concat FanInSum=fan_in_sum FanOut=fan_out Flatten=flatten Identity=identity MaxPool=max_pool"
            " SumPool=sum_pool elementwise parallel serial shape_dependent"
        )
    },
)
