"""Layers of networks, each a pair of functions: one that makes parameters, and one that applies them.

`init(key, shape)`, of a random key and the shape of the input, gives the shape of the output and the parameters;
`apply(params, inputs, rng=key)` gives the output. The first size of a shape, that of the batch, may be -1: unknown.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback import numpy as pnp
from pullback.api.traced import eval_shape
from pullback.core.source import make_public
from pullback.core.types import ArrayType
from pullback.lax import convolutions
from pullback.nn import initializers, normalizing, pooling
from pullback.ops import arithmetic
from pullback.random import bernoulli, split

__all__ = [
    "Layer", "avg_pool", "batch_norm", "conv", "conv_transpose", "dense", "dropout", "elementwise", "fan_in_concat",
    "fan_in_sum", "fan_out", "flatten", "identity", "max_pool", "parallel", "serial", "shape_dependent", "sum_pool",
]  # fmt: skip


class Layer(NamedTuple):
    """The two functions of a layer.

    Attributes:
        init: a function of a random key and the shape of the input: the shape of the output, and the parameters.
        apply: a function of the parameters and the input: the output. Layers that draw random numbers take a key as `rng`.

    Example:
        >>> init, apply = nn.layers.dense(3)
        >>> shape, params = init(pb.random.key(0), (-1, 2))
        >>> shape, apply(params, pnp.ones((5, 2))).shape
        ((-1, 3), (5, 3))
    """

    init: Callable[..., Any]
    apply: Callable[..., Any]


def _plain(apply: Callable[[Any], Any], shape: Callable[[Any], Any] = lambda given: given) -> Layer:
    """A layer without parameters."""
    return Layer(lambda rng, input_shape: (shape(input_shape), ()), lambda params, inputs, **kwargs: apply(inputs))


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """A layer that applies a function to its input, of which the shape stays.

    Arguments:
        fun: the function, `nn.relu`, say.
        fun_kwargs: what it is called with besides.

    Returns:
        A `Layer`.

    Raises:
        Nothing.

    Example:
        >>> nn.layers.elementwise(nn.relu).apply((), pnp.array([-1.0, 2.0]))
        [0. 2.]:f32[2]:cpu(0)
    """
    return _plain(lambda inputs: fun(inputs, **fun_kwargs))


identity = _plain(lambda inputs: inputs)
flatten = _plain(lambda x: pnp.reshape(x, (x.shape[0], -1)), lambda given: (given[0], math.prod(given[1:])))


def dense(out_dim: int, W_init: Any = None, b_init: Any = None) -> Layer:
    """x W + b, along the last axis.

    Arguments:
        out_dim: the size of the last axis of the output.
        W_init: an initializer of the matrix; by default `glorot_normal()`.
        b_init: an initializer of the vector; by default `normal()`.

    Returns:
        A `Layer`, with the parameters (W, b).

    Raises:
        ShapeError: when parameters are made: a size is negative.

    Example:
        >>> init, apply = nn.layers.dense(1, W_init=nn.initializers.ones, b_init=nn.initializers.zeros)
        >>> apply(init(pb.random.key(0), (1, 2))[1], pnp.array([[2.0, 3.0]]))
        [[5.]]:f32[1,1]:cpu(0)
    """
    make_W, make_b = W_init or initializers.glorot_normal(), b_init or initializers.normal()

    def init(rng: Any, input_shape: Any) -> Any:
        first, second = split(rng)
        return (*input_shape[:-1], out_dim), (make_W(first, (input_shape[-1], out_dim)), make_b(second, (out_dim,)))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return pnp.dot(inputs, W) + b

    return Layer(init, apply)


# ---- convolutions and windows -----------------------------------------------------------------------------------------

_IMAGES = ("NHWC", "HWIO", "NHWC")


def conv(
    out_chan: int, filter_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID",
    W_init: Any = None, b_init: Any = None, dimension_numbers: Sequence[str] = _IMAGES,
) -> Layer:  # fmt: skip
    """A convolution and an addition.

    Arguments:
        out_chan: how many channels the output has.
        filter_shape: the sizes of the spatial axes of the kernel.
        strides: how far apart windows begin; by default 1.
        padding: as for `lax.conv_general_dilated`.
        W_init: an initializer of the kernel; by default `glorot_normal()`.
        b_init: an initializer of what is added to each channel; by default `normal(1e-6)`.
        dimension_numbers: the axes of the input, the kernel and the output: N the batch, C the channels, I and O those of the
            input and the output, other letters for spatial axes.

    Returns:
        A `Layer`, with the parameters (kernel, what is added).

    Raises:
        ShapeError: when parameters are made: the input has not the axes of `dimension_numbers`.

    Example:
        >>> nn.layers.conv(8, (3, 3), padding="SAME").init(pb.random.key(0), (-1, 28, 28, 1))[0]
        (-1, 28, 28, 8)
    """
    apply = convolutions.conv_general_dilated
    return _convolution(apply, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init)


def conv_transpose(
    out_chan: int, filter_shape: Sequence[int], strides: Sequence[int] | None = None, padding: Any = "VALID",
    W_init: Any = None, b_init: Any = None, dimension_numbers: Sequence[str] = _IMAGES,
) -> Layer:  # fmt: skip
    """`conv` with the convolution's transpose, `lax.conv_transpose`, which makes an array `strides` times as large.

    Arguments:
        out_chan, filter_shape, strides, padding, W_init, b_init, dimension_numbers: as for `conv`.

    Returns:
        A `Layer`, with the parameters (kernel, what is added).

    Raises:
        ShapeError: when parameters are made: the input has not the axes of `dimension_numbers`.

    Example:
        >>> nn.layers.conv_transpose(8, (2, 2), strides=(2, 2)).init(pb.random.key(0), (-1, 7, 7, 3))[0]
        (-1, 14, 14, 8)
    """
    apply = convolutions.conv_transpose
    return _convolution(apply, dimension_numbers, out_chan, filter_shape, strides, padding, W_init, b_init)


def _convolution(
    convolve: Any, axes: Sequence[str], out_chan: int, filter_shape: Any, strides: Any, padding: Any, W_init: Any, b_init: Any
) -> Layer:
    lhs, kernel, out = axes
    steps = strides or (1,) * len(filter_shape)
    make_W = W_init or initializers.glorot_normal(kernel.index("I"), kernel.index("O"))
    make_b = b_init or initializers.normal(1e-6)

    def apply_W(W: Any, inputs: Any) -> Any:
        return convolve(inputs, W, steps, padding, dimension_numbers=tuple(axes))

    def init(rng: Any, input_shape: Any) -> Any:
        sizes = iter(filter_shape)
        ends = {"O": out_chan, "I": input_shape[lhs.index("C")]}
        kernel_shape = [ends[name] if name in ends else next(sizes) for name in kernel]
        first, second = split(rng)
        W = make_W(first, kernel_shape)
        b = make_b(second, [out_chan if name == "C" else 1 for name in out])
        return _shape_of(lambda x: apply_W(W, x), input_shape, W.dtype), (W, b)

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        W, b = params
        return apply_W(W, inputs) + b

    return Layer(init, apply)


def _shape_of(function: Callable[..., Any], shape: Any, dtype: Any) -> tuple[int, ...]:
    """The shape of a result; that of the batch stays unknown where it is."""
    known = tuple([1 if size == -1 else size for size in shape])
    found = tuple(eval_shape(function, ArrayType(known, dtype)).shape)
    return (-1, *found[1:]) if -1 in shape[:1] else found


def max_pool(window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID", spec: str | None = None) -> Layer:
    """The largest element of each window of the spatial axes.

    Arguments:
        window_shape: the sizes of a window.
        strides: how far apart windows begin; by default 1.
        padding: "VALID", "SAME", "SAME_LOWER", or a pair of ints (before, after) for each axis of the input.
        spec: the axes of the input, N the batch and C the channels; by default these are the first and the last.

    Returns:
        A `Layer`, without parameters.

    Raises:
        ShapeError: when it is applied: the input has not these axes.

    Example:
        >>> nn.layers.max_pool((2,), (2,)).apply((), pnp.arange(4.0).reshape(1, 4, 1)).ravel()
        [1. 3.]:f32[2]:cpu(0)
    """
    return _pooling(pooling.max_pool, window_shape, strides, padding, spec)


def sum_pool(window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID", spec: str | None = None) -> Layer:
    """The sum of each window of the spatial axes.

    Arguments:
        window_shape, strides, padding, spec: as for `max_pool`.

    Returns:
        A `Layer`, without parameters.

    Raises:
        ShapeError: when it is applied: the input has not these axes.

    Example:
        >>> nn.layers.sum_pool((2,), (2,)).apply((), pnp.arange(4.0).reshape(1, 4, 1)).ravel()
        [1. 5.]:f32[2]:cpu(0)
    """
    return _pooling(_sums, window_shape, strides, padding, spec)


def avg_pool(window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID", spec: str | None = None) -> Layer:
    """The mean of each window of the spatial axes, of those of its elements that are in the array.

    Arguments:
        window_shape, strides, padding, spec: as for `max_pool`.

    Returns:
        A `Layer`, without parameters.

    Raises:
        ShapeError: when it is applied: the input has not these axes.

    Example:
        >>> nn.layers.avg_pool((2,), (2,)).apply((), pnp.arange(4.0).reshape(1, 4, 1)).ravel()
        [0.5 2.5]:f32[2]:cpu(0)
    """
    mean = functools.partial(pooling.avg_pool, count_include_pad=False)
    return _pooling(mean, window_shape, strides, padding, spec)


def _pooling(pool: Callable[..., Any], window_shape: Sequence[int], strides: Any, padding: Any, spec: str | None) -> Layer:
    """A layer of one of the functions of `nn.pooling`, which take the batch first and the channels last."""
    order = spec or f"N{'HWDXYZ'[: len(window_shape)]}C"
    spatial = [k for k, name in enumerate(order) if name not in "NC"]
    there = [order.index("N"), *spatial, order.index("C")]
    around = padding if isinstance(padding, str) else [padding[k] for k in spatial]

    def apply(x: Any) -> Any:
        return pnp.transpose(
            pool(pnp.transpose(x, there), window_shape, strides, around), [*map(there.index, range(len(there)))]
        )

    return _plain(apply, lambda given: _shape_of(apply, given, pnp.asarray(1.0).dtype))


def _sums(x: Any, *window: Any) -> Any:
    return pooling.pool(x, pnp.zeros((), x.dtype), arithmetic.add, *window)


# ---- what training has ------------------------------------------------------------------------------------------------


def batch_norm(
    axis: int | Sequence[int] = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,
    beta_init: Any = initializers.zeros, gamma_init: Any = initializers.ones,
) -> Layer:  # fmt: skip
    """(x - mean) / sqrt(variance + epsilon) along axes, times gamma, plus beta.

    Arguments:
        axis: the axes of the mean and the variance.
        epsilon: what is added to the variance.
        center: whether there is a beta.
        scale: whether there is a gamma.
        beta_init: an initializer of beta.
        gamma_init: an initializer of gamma.

    Returns:
        A `Layer`, with the parameters (beta, gamma), each () where there is none.

    Raises:
        AxisError: when it is applied: the input has no such axis.

    Source: Ioffe and Szegedy, Batch normalization (2015), algorithm 1.

    Example:
        >>> init, apply = nn.layers.batch_norm(axis=0, epsilon=0.0)
        >>> apply(init(pb.random.key(0), (2, 1))[1], pnp.array([[1.0], [3.0]])).ravel()
        [-1. 1.]:f32[2]:cpu(0)
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Any) -> Any:
        shape = tuple([size for k, size in enumerate(input_shape) if k not in axes])
        first, second = split(rng)
        return input_shape, (beta_init(first, shape) if center else (), gamma_init(second, shape) if scale else ())

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        spread = tuple([None if k in axes else slice(None) for k in range(pnp.ndim(x))])
        beta, gamma = [part[spread] if use else None for part, use in zip(params, (center, scale))]
        z = normalizing.standardize(x, axes, epsilon=epsilon)
        z = z if gamma is None else gamma * z
        return z if beta is None else z + beta

    return Layer(init, apply)


def dropout(rate: float, mode: str = "train") -> Layer:
    """Keeps each element with a probability, divided by it, and makes the others zero.

    Arguments:
        rate: the probability with which an element is kept.
        mode: "train"; any other keeps all elements as they are.

    Returns:
        A `Layer`, without parameters, whose `apply` takes a random key as `rng`.

    Raises:
        ValueError: when it is applied: no key was given.

    Source: Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov, Dropout (2014).

    Example:
        >>> sorted(set(nn.layers.dropout(0.5).apply((), pnp.ones(100), rng=pb.random.key(0)).tolist()))
        [0.0, 2.0]
    """

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError("dropout draws what it leaves out, so it needs a key: apply(params, inputs, rng=key).")
        if mode != "train":
            return inputs
        return pnp.where(bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return Layer(lambda rng, input_shape: (input_shape, ()), apply)


# ---- layers of layers -------------------------------------------------------------------------------------------------


def fan_out(num: int) -> Layer:
    """The input several times, as a list: for `parallel`.

    Arguments:
        num: how often.

    Returns:
        A `Layer`, without parameters.

    Raises:
        Nothing.

    Example:
        >>> nn.layers.fan_out(2).apply((), 1.0)
        [1.0, 1.0]
    """
    return _plain(lambda inputs: [inputs] * num, lambda given: [given] * num)


fan_in_sum = _plain(lambda inputs: sum(inputs[1:], inputs[0]), lambda given: given[0])


def fan_in_concat(axis: int = -1) -> Layer:
    """The arrays of a list, put together along an axis.

    Arguments:
        axis: the axis.

    Returns:
        A `Layer`, without parameters.

    Raises:
        ShapeError: when it is applied: the shapes differ along other axes.

    Example:
        >>> nn.layers.fan_in_concat().init(pb.random.key(0), [(-1, 2), (-1, 3)])[0]
        (-1, 5)
    """

    def shape(given: Any) -> Any:
        k = axis % len(given[0])
        return (*given[0][:k], sum([one[k] for one in given]), *given[0][k + 1 :])

    return _plain(lambda inputs: pnp.concatenate(inputs, axis), shape)


def _keys(rng: Any, count: int) -> Any:
    return (None,) * count if rng is None else split(rng, count)


def serial(*layers: tuple[Callable[..., Any], Callable[..., Any]]) -> Layer:
    """Layers one after the other.

    Arguments:
        layers: pairs (init, apply).

    Returns:
        A `Layer`, with the list of their parameters.

    Raises:
        What the layers raise.

    Example:
        >>> init, apply = nn.layers.serial(nn.layers.flatten, nn.layers.dense(10), nn.layers.elementwise(nn.softmax))
        >>> init(pb.random.key(0), (-1, 28, 28))[0]
        (-1, 10)
    """

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

    return Layer(init, apply)


def parallel(*layers: tuple[Callable[..., Any], Callable[..., Any]]) -> Layer:
    """Layers side by side, each of its own input.

    Arguments:
        layers: pairs (init, apply).

    Returns:
        A `Layer`, with the tuple of their parameters, from a sequence of inputs to a list of outputs.

    Raises:
        ValueError: there are more inputs than layers, or fewer.

    Example:
        >>> both = nn.layers.parallel(nn.layers.dense(3), nn.layers.identity)
        >>> both.init(pb.random.key(0), [(-1, 2), (-1, 5)])[0]
        ((-1, 3), (-1, 5))
    """

    def init(rng: Any, input_shape: Any) -> Any:
        keys = split(rng, len(layers))
        found = [one(key, shape) for (one, _), key, shape in zip(layers, keys, input_shape, strict=True)]
        return tuple([shape for shape, _ in found]), tuple([params for _, params in found])

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        keys = _keys(kwargs.pop("rng", None), len(layers))
        parts = zip(layers, params, inputs, keys, strict=True)
        return [apply_one(param, x, rng=key, **kwargs) for (_, apply_one), param, x, key in parts]

    return Layer(init, apply)


def shape_dependent(make_layer: Callable[..., tuple[Callable[..., Any], Callable[..., Any]]]) -> Layer:
    """A layer that is made for the shape of its input.

    Arguments:
        make_layer: a function of the shape, which returns a pair (init, apply).

    Returns:
        A `Layer`.

    Raises:
        What the layer raises.

    Example:
        >>> same = nn.layers.shape_dependent(lambda shape: nn.layers.dense(shape[-1]))
        >>> same.init(pb.random.key(0), (-1, 7))[0]
        (-1, 7)
    """
    return Layer(
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )


make_public(globals())
