"""The gamma function and its kin: factorials, the beta function, the incomplete functions, zeta."""

from __future__ import annotations

import fractions
import math
import operator

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import kind
from pullback.lax.special import polygamma as polygamma_of
from pullback.numpy.arithmetic import floor, maximum, minimum, remainder
from pullback.numpy.creation import asarray
from pullback.numpy.elementary import exp
from pullback.numpy.logic import copysign, where
from pullback.numpy.promotion import at_user_line, refuse_complex, to_common_dtype, to_common_shape, to_inexact
from pullback.ops import gamma_functions as gammas
from pullback.ops import incomplete
from pullback.ops import special_functions as specials
from pullback.scipy.special import complex_gamma
from pullback.scipy.special.operands import elementwise, real_operand


def gamma(x: ArrayLike) -> Array:
    """The gamma function: (x - 1)! of whole numbers, infinite at 0, NaN at -1, -2, ... and at the complex number 0.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> pb.scipy.special.gamma(pnp.array([5.0, 0.5, -1.5]))
        [24.         1.7724539  2.3632717]:f32[3]:cpu(0)
    """
    x = to_inexact(x, "gamma")
    return complex_gamma.gamma(x) if kind(x.type.dtype) == "c" else elementwise("gamma", gammas.gamma, x)


def gammaln(x: ArrayLike) -> Array:
    """log |gamma(x)|, to the last digits at its zeros 1 and 2 too.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.gammaln(pnp.array([1.0, 10.0, 1e10]))
        [0.0000000e+00 1.2801827e+01 2.2025852e+11]:f32[3]:cpu(0)
    """
    return elementwise("gammaln", gammas.lgamma, x)


def loggamma(x: ArrayLike) -> Array:
    """log(gamma(x)), the principal branch; NaN of negative numbers that are real, of which it is complex.

    Of complex numbers near 1 and 2, its zeros, the absolute error is that of numbers near 10.

    Arguments:
        x: an array or a number, of any shape.

    Returns:
        An array of the shape of x, of a floating or complex dtype.

    Raises:
        LeafError: x is neither an array nor a number.

    Example:
        >>> pb.scipy.special.loggamma(pnp.array([10.0, -1.5]))
        [12.801827       nan]:f32[2]:cpu(0)
        >>> pnp.round(pb.scipy.special.loggamma(np.array(-1.5 + 1.0j)), 6)
        (-1.35369-5.543042j):c128[]:cpu(0)
    """
    x = to_inexact(x, "loggamma")
    if kind(x.type.dtype) == "c":
        return complex_gamma.loggamma(x)
    return where(x < 0, math.nan, elementwise("loggamma", gammas.lgamma, x))


def gammasgn(x: ArrayLike) -> Array:
    """The sign of gamma(x): 1 or -1, of a zero the sign of that, and NaN at -1, -2, ...

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.gammasgn(pnp.array([2.5, -0.5, -1.5]))
        [ 1. -1.  1.]:f32[3]:cpu(0)
    """
    x = real_operand(x, "gammasgn")
    whole = floor(x)
    sign = 1 - 2 * remainder(whole, 2.0)
    return where(x > 0, 1.0, where(x == 0, copysign(1.0, x), where(whole == x, math.nan, sign)))


def digamma(x: ArrayLike) -> Array:
    """The derivative of log(gamma(x)).

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.digamma(pnp.array([1.0, 100.0]))
        [-0.5772157  4.600162 ]:f32[2]:cpu(0)
    """
    return elementwise("digamma", gammas.digamma, x)


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma.

    Arguments:
        n: whole numbers >= 0, an int or an array that broadcasts with x; of an int x may be negative.
        x: an array or a number, of any shape, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: n or x is neither an array nor a number.
        DtypeError: n or x is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.polygamma(1, pnp.array([1.0, 2.5]))
        [1.644934   0.49035776]:f32[2]:cpu(0)
        >>> pb.scipy.special.polygamma(pnp.array([0, 1, 2]), 2.0)
        [ 0.42278433  0.64493406 -0.4041138 ]:f32[3]:cpu(0)

    Source: DLMF 5.15.
    """
    if isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0:
        x = real_operand(x, "polygamma")
        return gammas.polygamma(x, n=int(n)) if n else gammas.digamma(x)
    n, x = to_common_shape("polygamma", *to_common_dtype("polygamma", n, x, inexact=True))
    refuse_complex("polygamma", n, x)
    return polygamma_of(n, x)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz's zeta function, the sum of (k + q)^-x over k >= 0, for x > 1; Riemann's by default, with q = 1.

    Arguments:
        x, q: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: x or q is neither an array nor a number.
        DtypeError: x or q is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.zeta(2.0)
        1.644934:f32[]:cpu(0)
        >>> pb.scipy.special.zeta(3.0, pnp.array([1.0, 2.0]))
        [1.2020569 0.2020569]:f32[2]:cpu(0)

    Source: DLMF 25.11.
    """
    return elementwise("zeta", gammas.zeta, x, 1.0 if q is None else q)


def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """n!, as gamma(n + 1); 0 of negative numbers.

    Arguments:
        n: an array or a number, of any shape, real.
        exact: must be false.

    Returns:
        An array of the shape of n, of a floating dtype.

    Raises:
        LeafError: n is neither an array nor a number.
        DtypeError: n is complex.
        NotImplementedError: exact is true.

    Example:
        >>> pb.scipy.special.factorial(pnp.array([0, 5, 10]))
        [1.0000e+00 1.2000e+02 3.6288e+06]:f32[3]:cpu(0)
    """
    if exact:
        raise NotImplementedError(f"factorial computes in floating point; for exact=True use math.factorial.{at_user_line()}")
    n = real_operand(n, "factorial")
    return where(n < 0, 0.0, gammas.gamma(where(n < 0, 0.0, n) + 1))


def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """How many ways there are to choose k of N things: N! / (k! (N - k)!); 0 where k is not between 0 and N.

    Arguments:
        N, k: arrays or numbers whose shapes broadcast, real.
        repetition: whether a thing may be chosen more than once.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: N or k is neither an array nor a number.
        DtypeError: N or k is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.comb(5, pnp.array([0, 2, 6]))
        [ 1. 10.  0.]:f32[3]:cpu(0)
        >>> pb.scipy.special.comb(5, 2, repetition=True)
        15.0:f32[]:cpu(0)
    """
    N, k = to_common_shape("comb", *to_common_dtype("comb", N, k, inexact=True))
    refuse_complex("comb", N, k)
    if repetition:
        N = where(k > 0, N + k - 1, N)
    inside = (k <= N) & (N >= 0) & (k >= 0)
    return where(inside, specials.binomial(where(inside, N, 2.0), where(inside, k, 1.0)), 0.0)


def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """The rising factorial gamma(z + m) / gamma(z).

    Arguments:
        z, m: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: z or m is neither an array nor a number.
        DtypeError: z or m is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.poch(3.0, 2.0)
        12.0:f32[]:cpu(0)
    """
    return elementwise("poch", specials.poch, z, m)


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function, gamma(a) gamma(b) / gamma(a + b).

    Arguments:
        a, b: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: a or b is neither an array nor a number.
        DtypeError: a or b is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.beta(2.0, pnp.array([3.0, 0.5]))
        [0.08333334 1.3333334 ]:f32[2]:cpu(0)
    """
    a, b = to_common_shape("beta", *to_common_dtype("beta", a, b, inexact=True))
    low, high = minimum(a, b), maximum(a, b)
    poles = (low < 0) & (high > 0) & (floor(low) == low) & (floor(high) == high)  # in the numerator and the denominator
    sign = where(poles, 1 - 2 * remainder(high, 2.0), gammasgn(a) * gammasgn(b) * gammasgn(a + b))
    return where(sign == sign, sign, 1.0) * exp(betaln(a, b))


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of |beta(a, b)|, without cancellation where an argument is large.

    Arguments:
        a, b: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: a or b is neither an array nor a number.
        DtypeError: a or b is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.betaln(2.0, pnp.array([3.0, 1e10]))
        [ -2.4849067 -46.0517   ]:f32[2]:cpu(0)
    """
    return elementwise("betaln", gammas.betaln, a, b)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function: the probability that a beta variable is at most x.

    Arguments:
        a, b, x: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an argument is neither an array nor a number.
        DtypeError: an argument is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.betainc(2.0, 3.0, pnp.array([0.1, 0.5, 1.0]))
        [0.0523 0.6875 1.    ]:f32[3]:cpu(0)
        >>> pb.grad(pb.scipy.special.betainc)(2.0, 3.0, 0.5)
        -0.19528869:f32[]:cpu(0)

    Source: DLMF 8.17; derivatives with respect to a and b by quadrature.
    """
    return elementwise("betainc", incomplete.betainc, a, b, x)


def betaincinv(a: ArrayLike, b: ArrayLike, y: ArrayLike) -> Array:
    """The x at which betainc(a, b, x) is y.

    Arguments:
        a, b, y: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an argument is neither an array nor a number.
        DtypeError: an argument is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.betaincinv(2.0, 3.0, 0.5)
        0.38572755:f32[]:cpu(0)
    """
    return elementwise("betaincinv", specials.betaincinv, a, b, y, upper=False)


def betaincc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """1 - betainc(a, b, x), to the last digits where it is small.

    Arguments:
        a, b, x: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an argument is neither an array nor a number.
        DtypeError: an argument is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.betaincc(2.0, 30.0, pnp.array([0.1, 0.9]))
        [1.6956462e-01 2.8000199e-29]:f32[2]:cpu(0)
    """
    return elementwise("betaincc", incomplete.betaincc, a, b, x)


def betainccinv(a: ArrayLike, b: ArrayLike, y: ArrayLike) -> Array:
    """The x at which betaincc(a, b, x) is y.

    Arguments:
        a, b, y: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an argument is neither an array nor a number.
        DtypeError: an argument is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.betainccinv(2.0, 3.0, 1e-6)
        0.9937...:f32[]:cpu(0)
    """
    return elementwise("betainccinv", specials.betaincinv, a, b, y, upper=True)


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function: the probability that a gamma variable is at most x.

    Arguments:
        a, x: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: a or x is neither an array nor a number.
        DtypeError: a or x is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.gammainc(2.0, pnp.array([0.0, 1.0, 10.0]))
        [0.         0.26424113 0.9995006 ]:f32[3]:cpu(0)
        >>> pb.grad(pb.scipy.special.gammainc)(2.0, 1.0)
        -0.27619603:f32[]:cpu(0)

    Source: DLMF 8.2; the derivative with respect to a by quadrature.
    """
    return elementwise("gammainc", incomplete.igamma, a, x)


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """1 - gammainc(a, x), to the last digits where x is large.

    Arguments:
        a, x: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: a or x is neither an array nor a number.
        DtypeError: a or x is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.gammaincc(2.0, pnp.array([0.0, 1.0, 50.0]))
        [1.000000e+00 7.357589e-01 9.836624e-21]:f32[3]:cpu(0)
    """
    return elementwise("gammaincc", incomplete.igammac, a, x)


def gammaincinv(a: ArrayLike, y: ArrayLike) -> Array:
    """The x at which gammainc(a, x) is y.

    Arguments:
        a, y: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: a or y is neither an array nor a number.
        DtypeError: a or y is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.gammaincinv(2.0, 0.5)
        1.678347:f32[]:cpu(0)
    """
    return elementwise("gammaincinv", specials.gammaincinv, a, y, upper=False)


def gammainccinv(a: ArrayLike, y: ArrayLike) -> Array:
    """The x at which gammaincc(a, x) is y.

    Arguments:
        a, y: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: a or y is neither an array nor a number.
        DtypeError: a or y is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.gammainccinv(2.0, 1e-10)
        26.333982:f32[]:cpu(0)
    """
    return elementwise("gammainccinv", specials.gammaincinv, a, y, upper=True)


def multigammaln(a: ArrayLike, d: int) -> Array:
    """The logarithm of the gamma function of d dimensions.

    Arguments:
        a: an array or a number, of any shape, real.
        d: how many dimensions, an int.

    Returns:
        An array of the shape of a, of a floating dtype.

    Raises:
        LeafError: a is neither an array nor a number.
        DtypeError: a is complex.

    Example:
        >>> pb.scipy.special.multigammaln(3.0, 2)
        1.550195:f32[]:cpu(0)

    Source: James, Ann. Math. Statist. 35 (1964), 475-501.
    """
    d = operator.index(d)
    a = real_operand(a, "multigammaln")
    terms = [gammas.lgamma(a - 0.5 * i) for i in range(d)]
    return sum(terms, 0 * a + d * (d - 1) / 4 * math.log(math.pi))


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B_0 to B_n, with B_1 = -1/2.

    Arguments:
        n: the index of the last, an int.

    Returns:
        A floating array of n + 1 numbers.

    Raises:
        TypeError: n is no int.

    Example:
        >>> pb.scipy.special.bernoulli(4)
        [ 1.         -0.5         0.16666667  0.         -0.03333334]:f32[5]:cpu(0)

    Source: the recurrence DLMF 24.5.3, in fractions.
    """
    numbers = [fractions.Fraction(1)]
    for m in range(1, operator.index(n) + 1):
        known = sum([math.comb(m + 1, k) * number for k, number in enumerate(numbers)], fractions.Fraction(0))
        numbers.append(-known * fractions.Fraction(1, m + 1))
    return asarray([float(number) for number in numbers])
