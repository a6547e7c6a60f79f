"""Activation functions: they and their derivatives are right at zero, at infinity and where they level off."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import FLOAT32, kind
from pullback.core.errors import ShapeError
from pullback.numpy.axes import normal_axis
from pullback.numpy.elementary import exp, expm1, hypot, log, log1p, logaddexp, sqrt, tanh
from pullback.numpy.logic import clip
from pullback.numpy.logic import where as choose
from pullback.numpy.promotion import (
    at_user_line,
    literal_of,
    operand,
    refuse_complex,
    to_common_dtype,
    to_common_shape,
    to_inexact,
)
from pullback.numpy.shaping import split
from pullback.ops import arithmetic, compare, error_functions, hyperbolic, weighting
from pullback.ops import complex as complexes
from pullback.ops.convert import convert_element_type


def wide(x: Any) -> Any:
    """An array of float8, of which some kinds have no infinity and few have digits for what is computed on the way, in float32;
    others as they are."""
    return convert_element_type(x, new_dtype=FLOAT32) if x.type.dtype.itemsize == 1 else x


def narrow(out: Array, x: Any) -> Array:
    """A result of `wide(x)` in the dtype of x."""
    return convert_element_type(out, new_dtype=x.type.dtype) if x.type.dtype.itemsize == 1 else out


def relu(x: ArrayLike) -> Array:
    """max(x, 0), with derivative 0 at 0.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape and dtype of x; integers for bools.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.relu(pnp.array([-1.0, 2.0, pnp.nan]))
        [ 0.  2. nan]:f32[3]:cpu(0)
        >>> pb.grad(nn.relu)(0.0)
        0.0:f32[]:cpu(0)
    """
    x = operand(x, "relu")
    if kind(x.type.dtype) == "b":  # max of a bool and 0 is an integer
        x = x + 0
    zero = literal_of(0, x.type.dtype)
    positive = compare.gt(x, zero)
    nan = compare.ne(x, x)
    return compare.select(positive | nan if kind(x.type.dtype) == "f" else positive, x, zero)


def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6), with derivative 0 at 0 and at 6.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.relu6(pnp.array([-1.0, 2.0, 9.0]))
        [0. 2. 6.]:f32[3]:cpu(0)

    Source: Krizhevsky, "Convolutional Deep Belief Networks on CIFAR-10" (2010).
    """
    x = to_inexact(x, "relu6")
    return compare.clamp(literal_of(0, x.type.dtype), x, literal_of(6, x.type.dtype))


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.sigmoid(pnp.array([0.0, -200.0, 200.0]))
        [0.5 0.  1. ]:f32[3]:cpu(0)
    """
    return hyperbolic.logistic(to_inexact(x, "sigmoid"))


def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), without overflow.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.log_sigmoid(pnp.array([0.0, -200.0]))
        [  -0.6931472 -200.       ]:f32[2]:cpu(0)
        >>> pnp.log(nn.sigmoid(-200.0))
        -inf:f32[]:cpu(0)
    """
    return -softplus(-to_inexact(x, "log_sigmoid"))


def _weighted(x: Any, weight: Callable[[Any], Any], bound: float) -> Array:
    """x times a weight that rises from 0 to 1, and beyond x = -bound and bound is 0 or 1 to the last bit, all slopes 0."""
    if kind(x.type.dtype) == "c":
        return arithmetic.mul(x, weight(x))
    wider = wide(x)
    return narrow(weighting.weigh(wider, weight(weighting.hold(wider, bound=bound)), bound=bound), x)


def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x): 0 at minus infinity.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.silu(pnp.array([1.0, 0.0, -pnp.inf]))
        [ 0.7310586  0.        -0.       ]:f32[3]:cpu(0)

    Source: Elfwing, Uchibe and Doya, "Sigmoid-Weighted Linear Units for Neural Network Function Approximation in Reinforcement
        Learning", arXiv:1702.03118.
    """
    return _weighted(to_inexact(x, "silu"), hyperbolic.logistic, 800.0)


swish = silu


def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.softplus(pnp.array([0.0, 200.0]))
        [  0.6931472 200.       ]:f32[2]:cpu(0)
        >>> pb.grad(pb.grad(nn.softplus))(0.0)
        0.25:f32[]:cpu(0)
    """
    return logaddexp(to_inexact(x, "softplus"), 0.0)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the normal distribution function at x, 0 at minus infinity; approximated by a tanh unless `approximate` is false.

    Arguments:
        x: an array or a number, of any shape, real.
        approximate: whether to use the formula with tanh.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.gelu(1.0), nn.gelu(1.0, approximate=False)
        (0.841192:f32[]:cpu(0), 0.8413447:f32[]:cpu(0))

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
    """
    x = to_inexact(x, "gelu")
    refuse_complex("gelu", x)
    if not approximate:
        return _weighted(x, error_functions.ndtr, 40.0)
    # (1 + tanh(u)) / 2 = sigmoid(2 u), which keeps its digits where it is small
    return _weighted(x, lambda x: hyperbolic.logistic((x * x * 0.044715 + 1.0) * x * (2 * math.sqrt(2 / math.pi))), 40.0)


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, else alpha * (exp(x) - 1).

    Arguments:
        x: an array or a number, of any shape, real.
        alpha: a number, or an array that broadcasts with x.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.elu(pnp.array([2.0, -1.0, -pnp.inf]))
        [ 2.         -0.63212055 -1.        ]:f32[3]:cpu(0)

    Source: Clevert, Unterthiner and Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear Units (ELUs)",
        arXiv:1511.07289.
    """
    x = to_inexact(x, "elu")
    positive = compare.gt(x, literal_of(0, x.type.dtype))
    safe = compare.select(positive, literal_of(0, x.type.dtype), x)
    below = expm1(safe)  # 1 times an infinite complex number has NaN in it
    return choose(positive, x, below if alpha.__class__ in (int, float) and alpha == 1 else alpha * below)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """x where it is 0 or more, else negative_slope * x.

    Arguments:
        x: an array or a number, of any shape, real.
        negative_slope: a number, or an array that broadcasts with x.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.leaky_relu(pnp.array([2.0, -1.0]))
        [ 2.   -0.01]:f32[2]:cpu(0)
        >>> nn.leaky_relu(-1.0, negative_slope=0.2)
        -0.2:f32[]:cpu(0)

    Source: Maas, Hannun and Ng, "Rectifier Nonlinearities Improve Neural Network Acoustic Models", ICML (2013).
    """
    x, slope = to_common_dtype("leaky_relu", x, negative_slope, inexact=True)
    return choose(compare.ge(x, literal_of(0, x.type.dtype)), x, x * slope)


def identity(x: ArrayLike) -> Array:
    """x itself, as an array.

    Arguments:
        x: an array or a number, of any shape and dtype.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.identity(2.0)
        2.0:f32[]:cpu(0)
    """
    return operand(x, "identity")


def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x)): 0 at minus infinity.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.mish(pnp.array([1.0, 0.0, -pnp.inf]))
        [ 0.8650984  0.        -0.       ]:f32[3]:cpu(0)

    Source: Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", arXiv:1908.08681.
    """
    return _weighted(to_inexact(x, "mish"), lambda x: tanh(softplus(x)), 800.0)


def hard_tanh(x: ArrayLike) -> Array:
    """x held between -1 and 1, with derivative 1 at both.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, in its dtype; of bools, integers.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.hard_tanh(pnp.array([-3.0, 0.5, pnp.inf]))
        [-1.   0.5  1. ]:f32[3]:cpu(0)
        >>> pb.grad(nn.hard_tanh)(1.0)
        1.0:f32[]:cpu(0)
    """
    x = operand(x, "hard_tanh")
    refuse_complex("hard_tanh", x)
    return choose(x > 1, 1, choose(x < -1, -1, x))


def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6: straight lines in the place of the curve of `sigmoid`.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.hard_sigmoid(pnp.array([-4.0, 0.0, 1.5, pnp.inf]))
        [0.   0.5  0.75 1.  ]:f32[4]:cpu(0)
    """
    return relu6(to_inexact(x, "hard_sigmoid") + 3.0) / 6.0


def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x): 0 from -3 downwards, minus infinity included, and x from 3 upwards.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.hard_silu(pnp.array([-pnp.inf, -1.0, 1.0, 5.0]))
        [-0.         -0.33333334  0.6666667   5.        ]:f32[4]:cpu(0)

    Source: Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.
    """
    return _weighted(to_inexact(x, "hard_silu"), hard_sigmoid, 3.0)


hard_swish = hard_silu


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, else alpha * (exp(x / alpha) - 1), whose slope at 0 is 1 whatever alpha is.

    Arguments:
        x: an array or a number, of any shape, real.
        alpha: a positive number, or an array of such that broadcasts with x.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: x or alpha is neither an array nor a number.
        ShapeError: x and alpha do not broadcast.

    Example:
        >>> nn.celu(pnp.array([2.0, -1.0, -pnp.inf]), alpha=2.0)
        [ 2.        -0.7869387 -2.       ]:f32[3]:cpu(0)

    Source: Barron, "Continuously Differentiable Exponential Linear Units", arXiv:1704.07483.
    """
    x, alpha = to_common_dtype("celu", x, alpha, inexact=True)
    positive = compare.gt(x, literal_of(0, x.type.dtype))
    safe = compare.select(positive, literal_of(0, x.type.dtype), x)
    return choose(positive, x, alpha * expm1(safe / alpha))


def selu(x: ArrayLike) -> Array:
    """1.0507 x where x is positive, else 1.7581 (exp(x) - 1): layers of it keep mean 0 and variance 1.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.selu(pnp.array([1.0, 0.0, -pnp.inf]))
        [ 1.050701   0.        -1.7580993]:f32[3]:cpu(0)

    Source: Klambauer, Unterthiner, Mayr and Hochreiter, "Self-Normalizing Neural Networks", arXiv:1706.02515, equation 2.
    """
    return 1.0507009873554804934193349852946 * elu(to_inexact(x, "selu"), 1.6732632423543772848170429916717)


def soft_sign(x: ArrayLike) -> Array:
    """x / (1 + |x|): 1 and -1 at the infinities.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.soft_sign(pnp.array([1.0, -3.0, pnp.inf]))
        [ 0.5  -0.75  1.  ]:f32[3]:cpu(0)
        >>> pb.grad(nn.soft_sign)(1e6)
        9.99998e-13:f32[]:cpu(0)
    """
    given = to_inexact(x, "soft_sign")
    value: Any = wide(given)
    size = complexes.abs(value)
    if kind(given.type.dtype) == "c":
        return value / (size + 1.0)  # type: ignore[no-any-return]
    one = literal_of(1, value.type.dtype)
    share = one / (size + one)  # the derivative is share^2, which of x * share would be a difference of almost equal numbers
    near = compare.clamp(-one, value, one) * share
    return narrow(compare.select(compare.ge(size, one), complexes.sign(value) * (one - share), near), given)


def squareplus(x: ArrayLike, b: ArrayLike = 4.0) -> Array:
    """(x + sqrt(x^2 + b)) / 2, without overflow, and without the loss of digits where x is negative.

    Arguments:
        x: an array or a number, of any shape, real.
        b: how smooth the bend at 0 is: a number that is not negative, or an array of such that broadcasts with x.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: x or b is neither an array nor a number.
        ShapeError: x and b do not broadcast.
        DtypeError: x or b is complex.

    Example:
        >>> nn.squareplus(pnp.array([0.0, 1e30, -1e4]))
        [1.e+00 1.e+30 1.e-04]:f32[3]:cpu(0)

    Source: Barron, "Squareplus: A Softplus-Like Algebraic Rectifier", arXiv:2112.11687.
    """
    given, smooth = to_common_shape("squareplus", *to_common_dtype("squareplus", x, b, inexact=True))
    refuse_complex("squareplus", given)
    value, square = wide(given), wide(smooth)
    zero, one = literal_of(0, value.type.dtype), literal_of(1, value.type.dtype)
    negative = compare.lt(value, zero)
    size = compare.select(negative, -value, value)
    larger = size * 0.5 + hypot(size * 0.5, sqrt(square) * 0.5)  # of the roots of t^2 - |x| t - b/4; their product is -b/4
    return narrow(choose(negative, square * 0.25 / compare.select(negative, larger, one), larger), given)


def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, (x + 1)^2 / 4 between -1 and 1, x from there on: the integral of `sparse_sigmoid`.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.sparse_plus(pnp.array([-2.0, 0.0, 1.0, pnp.inf]))
        [0.   0.25 1.    inf]:f32[4]:cpu(0)
    """
    x = to_inexact(x, "sparse_plus")
    one = literal_of(1, x.type.dtype)
    root = (compare.clamp(-one, x, one) + one) * 0.5
    return compare.select(compare.ge(x, one), x, root * root)


def sparse_sigmoid(x: ArrayLike) -> Array:
    """(x + 1) / 2 held between 0 and 1: the derivative of `sparse_plus`.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> nn.sparse_sigmoid(pnp.array([-2.0, 0.0, 0.5, pnp.inf]))
        [0.   0.5  0.75 1.  ]:f32[4]:cpu(0)

    Source: Blondel, Martins and Niculae, "Learning Classifiers with Fenchel-Young Losses", arXiv:1805.09717, section 6.2.
    """
    return clip(to_inexact(x, "sparse_sigmoid") + 1.0, 0.0, 2.0) * 0.5


def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) of a positive x, exact to the last bits where x is small and where it is large; NaN below 0.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> nn.log1mexp(pnp.array([0.0, 1e-10, 100.0]))
        [         -inf -2.3025850e+01 -3.7835060e-44]:f32[3]:cpu(0)

    Source: Mächler, "Accurately computing log(1 - exp(-|a|))" (2012), equation 7.
    """
    given = to_inexact(x, "log1mexp")
    refuse_complex("log1mexp", given)
    x, seam = wide(given), literal_of(math.log(2), wide(given).type.dtype)
    small = compare.lt(x, seam)
    low, high = compare.select(small, x, seam), compare.select(small, seam, x)  # where a branch is not taken, it is at the seam
    return narrow(compare.select(small, log(-expm1(-low)), log1p(-exp(-high))), given)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along an axis times the sigmoid of the second half.

    Arguments:
        x: an array of an even size along the axis.
        axis: the axis.

    Returns:
        An array of half that size, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: the array has no such axis.
        ShapeError: its size is odd.

    Example:
        >>> nn.glu(pnp.array([3.0, 4.0, 0.0, 200.0]))
        [1.5 4. ]:f32[2]:cpu(0)

    Source: Dauphin, Fan, Auli and Grangier, "Language Modeling with Gated Convolutional Networks", arXiv:1612.08083.
    """
    x = to_inexact(x, "glu")
    along = normal_axis(axis, x.type.ndim, "glu")
    if x.type.shape[along] % 2:
        raise ShapeError(f"glu halves an axis, but axis {axis} of {x.type} has an odd size.{at_user_line()}")
    values, gates = split(x, 2, along)
    return values * hyperbolic.logistic(gates)
