"""The error function and its kin, the normal distribution, logits and relative entropies."""

from __future__ import annotations

import math
import operator
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import kind
from pullback.nn.activations import log_sigmoid
from pullback.nn.normalizing import log_softmax as log_softmax_along
from pullback.nn.normalizing import softmax as softmax_along
from pullback.numpy.axes import Axis
from pullback.numpy.elementary import expm1, log, log1p
from pullback.numpy.logic import where
from pullback.numpy.promotion import literal_of, refuse_complex, to_common_dtype, to_common_shape, to_inexact
from pullback.ops import complex as complexes
from pullback.ops import error_functions as errors
from pullback.ops import hyperbolic
from pullback.ops import special_functions as specials
from pullback.scipy.special.operands import elementwise, real_operand


def _power_transform(at_zero: Any, logarithm: Any, lmbda: Any) -> Array:
    """expm1(lmbda u) / lmbda of a logarithm u; at the ends, where that is of zero or infinite, -1 / lmbda or infinite."""
    at_end = at_zero | (logarithm == math.inf)
    u = where(at_end, 0.0, logarithm)
    far = abs(lmbda * u) > 1  # there the product with exprel would have a slope that cancels
    apart = expm1(where(far, lmbda * u, 0.0)) / where(far, lmbda, 1.0)
    inside = where(far, apart, u * specials.exprel(where(far, 0.0, lmbda * u), n=0))
    bounded = where(at_zero, lmbda > 0, lmbda < 0)
    end = where(bounded, -1 / where(bounded, lmbda, 1.0), where(at_zero, -math.inf, math.inf))
    return where(at_end, where(lmbda == lmbda, end, lmbda), inside)


def erf(x: ArrayLike) -> Array:
    """The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.erf(pnp.array([0.0, 1.0]))
        [0.        0.8427008]:f32[2]:cpu(0)
    """
    return elementwise("erf", errors.erf, x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), to the last digits where it is small.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.erfc(pnp.array([0.0, 5.0]))
        [1.0000000e+00 1.5374598e-12]:f32[2]:cpu(0)
    """
    return elementwise("erfc", errors.erfc, x)


def erfcx(x: ArrayLike) -> Array:
    """exp(x^2) erfc(x).

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> pb.scipy.special.erfcx(pnp.array([0.0, 5.0, 1e10]))
        [1.0000000e+00 1.1070464e-01 5.6418960e-11]:f32[3]:cpu(0)

    Source: Shepherd and Laframboise, Math. Comp. 36 (1981), 249-253, with coefficients of our own.
    """
    x = to_inexact(x, "erfcx")
    return wofz(1j * x) if kind(x.type.dtype) == "c" else elementwise("erfcx", errors.erfcx, x)


def erfinv(x: ArrayLike) -> Array:
    """The y whose erf is x.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.erfinv(pnp.array([0.0, 0.5, 1.0]))
        [0.         0.47693628        inf]:f32[3]:cpu(0)
    """
    return elementwise("erfinv", errors.erf_inv, x)


def erfcinv(x: ArrayLike) -> Array:
    """The y whose erfc is x.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.erfcinv(pnp.array([1.0, 1e-10]))
        [0.       4.572825]:f32[2]:cpu(0)
    """
    quantile: Array = errors.ndtri(0.5 * real_operand(x, "erfcinv"))
    return 0.0 - math.sqrt(0.5) * quantile


def ndtr(x: ArrayLike) -> Array:
    """The probability that a standard normal variable is at most x.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.ndtr(pnp.array([0.0, -10.0]))
        [5.000000e-01 7.619853e-24]:f32[2]:cpu(0)
    """
    return elementwise("ndtr", errors.ndtr, x)


def ndtri(p: ArrayLike) -> Array:
    """The x whose ndtr is p: infinite at 0 and at 1, as its derivatives are.

    Arguments:
        p: an array or a number, of any shape, real.

    Returns:
        An array of the shape of p, of a floating dtype.

    Raises:
        LeafError: p is neither an array nor a number.
        DtypeError: p is complex.

    Example:
        >>> pb.scipy.special.ndtri(pnp.array([0.5, 0.975, 0.0]))
        [0.        1.9599644      -inf]:f32[3]:cpu(0)
    """
    return elementwise("ndtri", errors.ndtri, p)


def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """The logarithm of ndtr(x), to the last digits on both sides.

    Arguments:
        x: an array or a number, of any shape, real.
        series_order: an int, for JAX's sake; there is no series here.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.log_ndtr(pnp.array([0.0, -100.0, 10.0]))
        [-6.9314718e-01 -5.0055244e+03 -7.6198528e-24]:f32[3]:cpu(0)
    """
    operator.index(series_order)
    return elementwise("log_ndtr", errors.log_ndtr, x)


def dawsn(x: ArrayLike) -> Array:
    """Dawson's function, exp(-x^2) times the integral of exp(t^2) from 0 to x.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.dawsn(pnp.array([0.0, 1.0]))
        [0.        0.5380795]:f32[2]:cpu(0)
    """
    return elementwise("dawsn", specials.dawsn, x)


def wofz(z: ArrayLike) -> Array:
    """Faddeeva's function, exp(-z^2) erfc(-i z).

    Arguments:
        z: an array or a number, of any shape.

    Returns:
        A complex array of the shape of z.

    Raises:
        LeafError: z is neither an array nor a number.

    Example:
        >>> pb.scipy.special.wofz(pnp.array([1.0 + 1.0j]))
        [0.3047442+0.20821893j]:c64[1]:cpu(0)
    """
    z = to_inexact(z, "wofz")
    return specials.wofz(z if kind(z.type.dtype) == "c" else complexes.complex(z, literal_of(0, z.type.dtype)))


def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T function, the integral of exp(-h^2 (1 + t^2) / 2) / (2 pi (1 + t^2)) over t from 0 to a.

    Arguments:
        h, a: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: h or a is neither an array nor a number.
        DtypeError: h or a is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.owens_t(1.0, 0.5)
        0.04306469:f32[]:cpu(0)

    Source: Owen, Ann. Math. Statist. 27 (1956), 1075-1090.
    """
    return elementwise("owens_t", specials.owens_t, h, a)


def expit(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> pb.scipy.special.expit(pnp.array([0.0, -100.0]))
        [5.0e-01 3.8e-44]:f32[2]:cpu(0)
    """
    return elementwise("expit", hyperbolic.logistic, x)


def log_expit(x: ArrayLike) -> Array:
    """log(expit(x)), without overflow.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.log_expit(pnp.array([0.0, -1000.0]))
        [-6.931472e-01 -1.000000e+03]:f32[2]:cpu(0)
    """
    return log_sigmoid(real_operand(x, "log_expit"))


def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of expit.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.logit(pnp.array([0.5, 0.75, 1.0]))
        [0.        1.0986123       inf]:f32[3]:cpu(0)
    """
    return elementwise("logit", specials.logit, x)


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), and 0 where x is 0; there its derivative with respect to x is 0 where y is 0.

    Arguments:
        x, y: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: x or y is neither an array nor a number.
        DtypeError: x or y is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.xlogy(pnp.array([0.0, 2.0]), pnp.array([0.0, 3.0]))
        [0.        2.1972246]:f32[2]:cpu(0)
    """
    return elementwise("xlogy", specials.xlogy, x, y)


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), and 0 where x is 0; there its derivative with respect to x is 0 where y is -1.

    Arguments:
        x, y: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: x or y is neither an array nor a number.
        DtypeError: x or y is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.xlog1py(pnp.array([0.0, 2.0]), pnp.array([-1.0, 3.0]))
        [0.        2.7725887]:f32[2]:cpu(0)
    """
    return elementwise("xlog1py", specials.xlog1py, x, y)


def entr(x: ArrayLike) -> Array:
    """-x log(x): 0 at 0, minus infinity of negative numbers.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.entr(pnp.array([0.0, 0.5, -1.0]))
        [0.        0.3465736      -inf]:f32[3]:cpu(0)
    """
    return 0.0 - elementwise("entr", specials.rel_entr, to_inexact(x, "entr"), 1.0)


def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q): 0 where p is 0 and q at least 0, infinite outside the first quadrant.

    Arguments:
        p, q: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: p or q is neither an array nor a number.
        DtypeError: p or q is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.rel_entr(pnp.array([0.0, 0.5]), pnp.array([0.1, 0.2]))
        [0.         0.45814535]:f32[2]:cpu(0)
    """
    return elementwise("rel_entr", specials.rel_entr, p, q)


def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """p log(p / q) - p + q: q where p is 0, infinite outside the first quadrant.

    Arguments:
        p, q: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: p or q is neither an array nor a number.
        DtypeError: p or q is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.kl_div(pnp.array([0.0, 0.5]), pnp.array([0.1, 0.2]))
        [0.1        0.15814535]:f32[2]:cpu(0)
    """
    p, q = to_common_shape("kl_div", *to_common_dtype("kl_div", p, q, inexact=True))
    return elementwise("kl_div", specials.rel_entr, p, q) - p + q


def exprel(x: ArrayLike) -> Array:
    """(exp(x) - 1) / x, and 1 at 0.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.exprel(pnp.array([0.0, 1e-10, 1.0]))
        [1.        1.        1.7182819]:f32[3]:cpu(0)
    """
    return specials.exprel(real_operand(x, "exprel"), n=0)


def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x^lmbda - 1) / lmbda, and log(x) where lmbda is 0.

    Arguments:
        x, lmbda: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: x or lmbda is neither an array nor a number.
        DtypeError: x or lmbda is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.boxcox(pnp.array([1.0, 4.0]), 0.5)
        [0. 2.]:f32[2]:cpu(0)

    Source: Box and Cox, J. R. Statist. Soc. B 26 (1964), 211-252.
    """
    x, lmbda = to_common_shape("boxcox", *to_common_dtype("boxcox", x, lmbda, inexact=True))
    refuse_complex("boxcox", x, lmbda)
    return _power_transform(x == 0, log(where(x == 0, 1.0, x)), lmbda)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """((1 + x)^lmbda - 1) / lmbda, and log(1 + x) where lmbda is 0.

    Arguments:
        x, lmbda: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: x or lmbda is neither an array nor a number.
        DtypeError: x or lmbda is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.boxcox1p(pnp.array([0.0, 3.0]), 0.5)
        [0. 2.]:f32[2]:cpu(0)

    Source: Box and Cox, J. R. Statist. Soc. B 26 (1964), 211-252.
    """
    x, lmbda = to_common_shape("boxcox1p", *to_common_dtype("boxcox1p", x, lmbda, inexact=True))
    refuse_complex("boxcox1p", x, lmbda)
    return _power_transform(x == -1, log1p(where(x == -1, 0.0, x)), lmbda)


def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """exp(x) / sum(exp(x)), over all axes by default.

    Arguments:
        x: an array of any shape.
        axis: the axis or axes along which the results add up to 1; all by default.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: an axis that the array does not have, or one given twice.

    Example:
        >>> pb.scipy.special.softmax(pnp.array([0.0, 0.0]))
        [0.5 0.5]:f32[2]:cpu(0)
    """
    return softmax_along(x, axis)


def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """log(softmax(x)), over all axes by default.

    Arguments:
        x: an array of any shape.
        axis: the axis or axes along which the exponentials of the results add up to 1; all by default.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        AxisError: an axis that the array does not have, or one given twice.

    Example:
        >>> pb.scipy.special.log_softmax(pnp.array([0.0, -1000.0]))
        [    0. -1000.]:f32[2]:cpu(0)
    """
    return log_softmax_along(x, axis)
