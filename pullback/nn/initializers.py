"""Initial weights: functions that make functions of a key, a shape and a dtype, under the names of jax.nn.initializers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike, default_dtype, kind, requested
from pullback.core.errors import ShapeError
from pullback.core.source import api_boundary, at_user_line, make_public
from pullback.core.types import Shape, ShapeLike
from pullback.numpy import creation
from pullback.numpy.creation import checked_shape
from pullback.numpy.elementary import exp, log1p, sqrt
from pullback.numpy.factories import named
from pullback.numpy.promotion import in_dtype, literal_of, number_or_operand, real_dtype
from pullback.numpy.shaping import moveaxis
from pullback.random import keys, sampling, vectors

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform",
    "kaiming_normal", "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal",
    "uniform", "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

Axes = int | Sequence[int]


@runtime_checkable
class Initializer(Protocol):
    """What makes weights: a function of a key, a shape, and a dtype, which by default is the initializer's own.

    Example:
        >>> isinstance(nn.initializers.zeros, nn.initializers.Initializer)
        True
    """

    def __call__(self, key: Any, shape: ShapeLike, dtype: DTypeLike = None, out_sharding: None = None) -> Array:
        """Weights of a shape and dtype.

        Arguments:
            key: a random key.
            shape: the shape of the weights.
            dtype: their dtype.
            out_sharding: None: the weights are made on one device.

        Returns:
            An array.

        Example:
            >>> nn.initializers.ones(pb.random.key(0), (2,))
            [1. 1.]:f32[2]:cpu(0)
        """
        ...


def _initializer(name: str, make: Callable[[Any, Shape, Any], Array], own: DTypeLike) -> Initializer:
    """The initializer that `make` is, given a key, a shape and a dtype that are as they should be."""

    @api_boundary
    def initialize(key: Any, shape: ShapeLike, dtype: DTypeLike = own, out_sharding: None = None) -> Array:
        if out_sharding is not None:
            raise NotImplementedError(f"{name} makes weights on one device: out_sharding must be None.{at_user_line()}")
        return make(key, checked_shape(shape, name), default_dtype("f") if dtype is None else requested(dtype))

    initialize.__name__ = initialize.__qualname__ = name
    return initialize


def _times(weights: Array, factor: Any) -> Array:
    """Weights times a number, in their dtype."""
    return weights * in_dtype(number_or_operand(factor, "an initializer"), weights.dtype)


_WEIGHTS = """    Arguments:
        key: a random key, which is not looked at.
        shape: the shape of the weights.
        dtype: their dtype; by default the default floating one.
        out_sharding: None: the weights are made on one device.

    Returns:
        An array.

    Raises:
        ShapeError: no shape."""


def _filled(name: str, number: int) -> Any:
    found = _initializer(name, lambda key, shape, dtype: creation.full(shape, number, dtype), None)
    doc = f"""Weights that are all {number}.

    Example:
        >>> nn.initializers.{name}(pb.random.key(0), (2,))
        [{number}. {number}.]:f32[2]:cpu(0)
    """
    return named(found, name, doc, _WEIGHTS, __name__)


zeros, ones = _filled("zeros", 0), _filled("ones", 1)


def constant(value: ArrayLike, dtype: DTypeLike = None) -> Initializer:
    """Weights that are all one value.

    Arguments:
        value: a number, or an array that broadcasts to the shapes that are asked for.
        dtype: the dtype of the weights where none is asked for; by default the default floating one.

    Returns:
        An initializer: a function of a key, a shape and a dtype.

    Example:
        >>> nn.initializers.constant(0.5)(pb.random.key(0), (2,))
        [0.5 0.5]:f32[2]:cpu(0)
    """
    return _initializer("constant", lambda key, shape, dtype: creation.full(shape, value, dtype), dtype)


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """Weights between 0 and `scale`.

    Arguments:
        scale: a number.
        dtype: the dtype of the weights where none is asked for; by default the default floating one.

    Returns:
        An initializer: a function of a key, a shape and a dtype.

    Example:
        >>> nn.initializers.uniform()(pb.random.key(0), (2,))
        [0.00947667 0.0097858 ]:f32[2]:cpu(0)
    """
    return _initializer("uniform", lambda key, shape, dtype: _times(sampling.uniform(key, shape, dtype), scale), dtype)


def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike = None) -> Initializer:
    """Weights of a normal distribution.

    Arguments:
        stddev: the standard deviation, a number.
        dtype: the dtype of the weights where none is asked for, which may be complex; by default the default floating one.

    Returns:
        An initializer: a function of a key, a shape and a dtype.

    Example:
        >>> nn.initializers.normal()(pb.random.key(0), (2,))
        [0.01622642 0.02025265]:f32[2]:cpu(0)
    """
    return _initializer("normal", lambda key, shape, dtype: _times(sampling.normal(key, shape, dtype), stddev), dtype)


def truncated_normal(
    stddev: ArrayLike = 1e-2, dtype: DTypeLike = None, lower: ArrayLike = -2.0, upper: ArrayLike = 2.0
) -> Initializer:
    """Weights of a normal distribution between two limits.

    Arguments:
        stddev: the standard deviation that there would be without limits, a number.
        dtype: the dtype of the weights where none is asked for; by default the default floating one.
        lower, upper: the limits, in standard deviations.

    Returns:
        An initializer: a function of a key, a shape and a dtype.

    Example:
        >>> nn.initializers.truncated_normal()(pb.random.key(0), (2,))
        [0.01455959 0.01714749]:f32[2]:cpu(0)
    """

    def make(key: Any, shape: Shape, dtype: Any) -> Array:
        return _times(sampling.truncated_normal(key, lower, upper, shape, dtype), stddev)

    return _initializer("truncated_normal", make, dtype)


def _size(shape: Shape, axes: Axes) -> int:
    return math.prod([shape[axis] for axis in ([axes] if isinstance(axes, int) else axes)])


def _fans(shape: Shape, in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> tuple[float, float]:
    """How many numbers each result of a layer depends on, and how many results depend on each number."""
    try:
        size_in, size_out, batch = [_size(shape, axes) for axes in (in_axis, out_axis, batch_axis)]
    except IndexError:
        raise ShapeError(
            f"The weights of shape {shape} have not the axes that in_axis={in_axis}, out_axis={out_axis} and"
            f" batch_axis={batch_axis} name. Choose among their axes.{at_user_line()}"
        ) from None
    field = math.prod(shape) / max(1, size_in * size_out * batch)
    return size_in * field, size_out * field


_MODES: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
    "fan_geo_avg": lambda fan_in, fan_out: math.sqrt(fan_in * fan_out),
}


def _in_a_disk(key: Any, shape: Shape, dtype: Any, square: Callable[[Array], Array]) -> Array:
    """Complex numbers in every direction, the squares of whose sizes are a function of uniform numbers."""
    first, second = keys.split(key)
    size, angle = [sampling.uniform(one, shape, real_dtype(dtype)) for one in (first, second)]
    return sqrt(square(size)).astype(dtype) * exp(1j * (2 * math.pi * angle).astype(dtype))


# By distribution, and whether weights are complex: how they are drawn, and what factor gives them a variance.
_DRAWN: dict[tuple[str, bool], tuple[Callable[..., Array], Callable[[Array], Array]]] = {
    ("normal", False): (sampling.normal, sqrt),
    ("normal", True): (sampling.normal, sqrt),
    ("truncated_normal", False): (
        lambda key, *given: sampling.truncated_normal(key, -2, 2, *given),
        lambda variance: sqrt(variance) / 0.87962566103423978,
    ),
    ("truncated_normal", True): (
        lambda key, shape, dtype: _in_a_disk(key, shape, dtype, lambda u: -log1p((math.exp(-4) - 1) * u)),
        lambda variance: sqrt(variance) / 0.95311164380491208,
    ),
    ("uniform", False): (
        lambda key, shape, dtype: sampling.uniform(key, shape, dtype, -1),
        lambda variance: sqrt(3 * variance),
    ),
    ("uniform", True): (lambda key, shape, dtype: _in_a_disk(key, shape, dtype, lambda u: 2 * u), sqrt),
}


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike = None,
) -> Initializer:
    """Weights whose variance is `scale` over the number of inputs, or outputs, of a layer: so its results, or its gradients,
    neither grow nor shrink.

    Arguments:
        scale: a number.
        mode: over which number: "fan_in", "fan_out", "fan_avg" (the mean of both), or "fan_geo_avg" (the geometric one).
        distribution: "normal", "truncated_normal" (at two standard deviations) or "uniform".
        in_axis, out_axis: the axes of the weights that count inputs and outputs; the other ones are places, as of a kernel.
        batch_axis: axes that count layers.
        dtype: the dtype of the weights where none is asked for, which may be complex; by default the default floating one.

    Returns:
        An initializer: a function of a key, a shape and a dtype. It raises ShapeError for a shape that has not the axes.

    Raises:
        ValueError: another mode or distribution.

    Example:
        >>> nn.initializers.variance_scaling(1.0, "fan_in", "normal")(pb.random.key(0), (4, 2)).shape
        (4, 2)

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010).
    """
    for what, given, known in (("mode", mode, _MODES), ("distribution", distribution, {name for name, _ in _DRAWN})):
        if given not in known:
            raise ValueError(
                f"variance_scaling takes a {what} among {', '.join(sorted(known))}, not {brief(given)}.{at_user_line()}"
            )

    def make(key: Any, shape: Shape, dtype: Any) -> Array:
        count = _MODES[mode](*_fans(shape, in_axis, out_axis, batch_axis))
        draw, factor = _DRAWN[distribution, kind(dtype) == "c"]
        return _times(draw(key, shape, dtype), factor(literal_of(scale / max(count, 1e-30), dtype)))

    return _initializer("variance_scaling", make, dtype)


_SCALED = """    Arguments:
        in_axis, out_axis: the axes of the weights that count inputs and outputs.
        batch_axis: axes that count layers.
        dtype: the dtype of the weights where none is asked for; by default the default floating one.

    Returns:
        An initializer: a function of a key, a shape and a dtype."""


def _scaled(name: str, scale: float, mode: str, distribution: str, source: str) -> Callable[..., Initializer]:
    def make(in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: DTypeLike = None) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    over = "the mean of the numbers of inputs and outputs" if mode == "fan_avg" else "the number of inputs"
    doc = f"""Weights of a {distribution.replace("_", " ")} distribution of variance {scale:g} over {over}.

    Example:
        >>> nn.initializers.{name}()(pb.random.key(0), (4, 2)).shape
        (4, 2)

    Source: {source}
    """
    return named(make, name, doc, _SCALED, __name__)


_GLOROT = 'Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010).'
_LECUN = 'LeCun, Bottou, Orr and Müller, "Efficient BackProp" (1998).'
_HE = 'He, Zhang, Ren and Sun, "Delving deep into rectifiers", arXiv:1502.01852.'
glorot_uniform = xavier_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", _GLOROT)
glorot_normal = xavier_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal", _GLOROT)
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", _LECUN)
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", _LECUN)
he_uniform = kaiming_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", _HE)
he_normal = kaiming_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", _HE)


def orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike = None) -> Initializer:
    """Weights that are, as a matrix with the axes but one as rows, an orthogonal matrix, spread evenly over all of them.

    Arguments:
        scale: a number to multiply the matrix by.
        column_axis: the axis of the columns.
        dtype: the dtype of the weights where none is asked for; by default the default floating one.

    Returns:
        An initializer: a function of a key, a shape and a dtype. It raises ShapeError for a shape of less than two axes.

    Example:
        >>> nn.initializers.orthogonal()(pb.random.key(0), (2, 2))
        [[ 0.9661029   0.25815725]
         [-0.25815725  0.9661029 ]]:f32[2,2]:cpu(0)

    Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks", arXiv:1312.6120.
    """

    def make(key: Any, shape: Shape, dtype: Any) -> Array:
        if len(shape) < 2:
            raise ShapeError(f"orthogonal makes weights of two axes or more, not of shape {shape}.{at_user_line()}")
        columns = shape[column_axis]
        rest = list(shape)
        del rest[column_axis]
        found = vectors.orthogonal(key, math.prod(rest), (), dtype, columns)
        return _times(moveaxis(found.reshape((*rest, columns)), -1, column_axis), scale)

    return _initializer("orthogonal", make, dtype)


def delta_orthogonal(scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike = None) -> Initializer:
    """Weights of a convolution in one to three dimensions: an orthogonal matrix at the center of the kernel, and 0 around it.

    Arguments:
        scale: a number to multiply the matrix by.
        column_axis: the axis of the matrix's columns.
        dtype: the dtype of the weights where none is asked for; by default the default floating one.

    Returns:
        An initializer: a function of a key, a shape and a dtype. It raises ShapeError for a shape of less than three axes or
        more than five, and for one with more inputs (the axis before the last) than outputs (the last).

    Example:
        >>> nn.initializers.delta_orthogonal()(pb.random.key(0), (3, 1, 1)).ravel()
        [0. 1. 0.]:f32[3]:cpu(0)

    Source: Xiao, Bahri, Sohl-Dickstein, Schoenholz and Pennington, "Dynamical isometry and a mean field theory of CNNs",
    arXiv:1806.05393.
    """
    inner = orthogonal(scale, column_axis, dtype)

    def make(key: Any, shape: Shape, dtype: Any) -> Array:
        if not 3 <= len(shape) <= 5 or shape[-1] < shape[-2]:
            raise ShapeError(
                "delta_orthogonal makes weights of three to five axes with no more inputs than outputs, not of shape"
                f" {shape}.{at_user_line()}"
            )
        center = tuple([(size - 1) // 2 for size in shape[:-2]])
        made: Array = creation.zeros(shape, dtype).at[center].set(inner(key, shape[-2:], dtype))
        return made

    return _initializer("delta_orthogonal", make, dtype)


make_public(globals())
