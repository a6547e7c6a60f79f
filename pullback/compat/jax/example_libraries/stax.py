"""jax.example_libraries.stax: layers, each a pair of functions.

`init(key, shape of the input)` gives the shape of the output and the parameters; `apply(parameters, inputs, rng=None)` the
output.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback import lax, nn
from pullback import numpy as pnp
from pullback.api.traced import eval_shape
from pullback.compat.jax.facade import facade
from pullback.core.types import ArrayType
from pullback.nn.initializers import glorot_normal, normal
from pullback.random import bernoulli, split

Layer = tuple[Callable[..., Any], Callable[..., Any]]
glorot, randn, logsoftmax = glorot_normal, normal, nn.log_softmax


def _plain(apply: Callable[[Any], Any], shape: Callable[[Any], Any] = lambda given: given) -> Layer:
    """A layer without parameters."""
    return (lambda rng, input_shape: (shape(input_shape), ())), (lambda params, inputs, **kwargs: apply(inputs))


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    return _plain(lambda inputs: fun(inputs, **fun_kwargs))


Tanh, Exp = elementwise(pnp.tanh), elementwise(pnp.exp)
Relu, Elu, Selu, Gelu, LeakyRelu = map(elementwise, (nn.relu, nn.elu, nn.selu, nn.gelu, nn.leaky_relu))
Softplus, Sigmoid = elementwise(nn.softplus), elementwise(nn.sigmoid)
Softmax, LogSoftmax = elementwise(nn.softmax, axis=-1), elementwise(nn.log_softmax, axis=-1)
Identity = _plain(lambda inputs: inputs)
Flatten = _plain(lambda x: pnp.reshape(x, (x.shape[0], -1)), lambda given: (given[0], math.prod(given[1:])))


def Dense(out_dim: int, W_init: Any = glorot_normal(), b_init: Any = normal()) -> Layer:  # noqa: B008
    def init(rng: Any, input_shape: Any) -> Any:
        first, second = split(rng)
        return (*input_shape[:-1], out_dim), (W_init(first, (input_shape[-1], out_dim)), b_init(second, (out_dim,)))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return pnp.dot(inputs, W) + b

    return init, apply


# ---- convolutions and windows -----------------------------------------------------------------------------------------


def _convolution(
    transposed: bool,
    dimension_numbers: Sequence[str],
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Any = None,
    padding: str = "VALID",
    W_init: Any = None,
    b_init: Any = normal(1e-6),  # noqa: B008
) -> Layer:
    lhs, kernel, out = dimension_numbers
    steps = strides or (1,) * len(filter_shape)
    make_W = W_init or glorot_normal(kernel.index("I"), kernel.index("O"))
    convolve = lax.conv_transpose if transposed else lax.conv_general_dilated

    def apply_W(W: Any, inputs: Any) -> Any:
        return convolve(inputs, W, steps, padding, dimension_numbers=tuple(dimension_numbers))

    def init(rng: Any, input_shape: Any) -> Any:
        sizes = iter(filter_shape)
        ends = {"O": out_chan, "I": input_shape[lhs.index("C")]}
        kernel_shape = [ends[name] if name in ends else next(sizes) for name in kernel]
        first, second = split(rng)
        W = make_W(first, kernel_shape)
        b = b_init(second, [out_chan if name == "C" else 1 for name in out])
        return _shape_of(lambda x: apply_W(W, x), input_shape, W.dtype), (W, b)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return apply_W(W, inputs) + b

    return init, apply


def _shape_of(function: Callable[..., Any], shape: Any, dtype: Any) -> tuple[int, ...]:
    """The shape of a result; sizes that are not known, -1, stay so along the batch's axis, which is in front."""
    known = tuple(1 if size == -1 else size for size in shape)
    found = tuple(eval_shape(function, ArrayType(known, dtype)).shape)
    return (-1, *found[1:]) if -1 in shape[:1] else found


GeneralConv = functools.partial(_convolution, False)
GeneralConvTranspose = functools.partial(_convolution, True)
Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def _pooling(reduce: Callable[..., Any], start: float, mean: bool = False) -> Callable[..., Layer]:
    def layer(window_shape: Any, strides: Any = None, padding: str = "VALID", spec: str | None = None) -> Layer:
        window, steps = list(window_shape), list(strides or (1,) * len(window_shape))
        order = spec or f"N{'HWDXYZ'[: len(window)]}C"
        for place in sorted(map(order.index, "NC")):
            window.insert(place, 1)
            steps.insert(place, 1)

        def total(x: Any) -> Any:
            return lax.reduce_window(x, pnp.asarray(start, x.dtype), reduce, tuple(window), tuple(steps), padding)

        def apply(x: Any) -> Any:
            return total(x) / total(pnp.ones_like(x)) if mean else total(x)

        return _plain(apply, lambda given: _shape_of(apply, given, pnp.asarray(1.0).dtype))

    return layer


MaxPool = _pooling(lax.max, -math.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, mean=True)


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = nn.initializers.zeros,
    gamma_init: Any = nn.initializers.ones,
) -> Layer:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Any) -> Any:
        shape = tuple(size for k, size in enumerate(input_shape) if k not in axes)
        first, second = split(rng)
        return input_shape, (beta_init(first, shape) if center else (), gamma_init(second, shape) if scale else ())

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        spread = tuple(None if k in axes else slice(None) for k in range(pnp.ndim(x)))
        beta, gamma = (part[spread] if use else None for part, use in zip(params, (center, scale)))
        z = nn.standardize(x, axes, epsilon=epsilon)
        z = z if gamma is None else gamma * z
        return z if beta is None else z + beta

    return init, apply


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Keeps each number with the probability `rate`."""

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("Dropout draws what it leaves out, so it needs a key: apply_fun(params, inputs, rng=key).")
        if mode != "train":
            return inputs
        return pnp.where(bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return (lambda rng, input_shape: (input_shape, ())), apply


# ---- layers of layers -------------------------------------------------------------------------------------------------


def FanOut(num: int) -> Layer:
    return _plain(lambda inputs: [inputs] * num, lambda given: [given] * num)


FanInSum = _plain(lambda inputs: sum(inputs[1:], inputs[0]), lambda given: given[0])


def FanInConcat(axis: int = -1) -> Layer:
    def shape(given: Any) -> Any:
        k = axis % len(given[0])
        return (*given[0][:k], sum(one[k] for one in given), *given[0][k + 1 :])

    return _plain(lambda inputs: pnp.concatenate(inputs, axis), shape)


def _keys(rng: Any, count: int) -> Any:
    return (None,) * count if rng is None else split(rng, count)


def serial(*layers: Layer) -> Layer:
    """Layers one after the other."""

    def init(rng: Any, input_shape: Any) -> Any:
        params = []
        for init_one, _ in layers:
            rng, key = split(rng)
            input_shape, param = init_one(key, input_shape)
            params.append(param)
        return input_shape, params

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        for (_, apply_one), param, key in zip(layers, params, keys):
            inputs = apply_one(param, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Layers side by side, each of its own input."""

    def init(rng: Any, input_shape: Any) -> Any:
        keys = split(rng, len(layers))
        shapes, params = zip(*[one(key, shape) for (one, _), key, shape in zip(layers, keys, input_shape, strict=True)])
        return list(shapes), list(params)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        parts = zip(layers, params, inputs, keys, strict=True)
        return [apply_one(param, x, rng=key, **kwargs) for (_, apply_one), param, x, key in parts]

    return init, apply


def shape_dependent(make_layer: Callable[..., Layer]) -> Layer:
    """A layer that is made for the shape of its input."""

    def init(rng: Any, input_shape: Any) -> Any:
        return make_layer(input_shape)[0](rng, input_shape)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init, apply


facade(globals())
