"""Special functions, under lax's names: operands of one dtype and one shape, or 0-d."""

from __future__ import annotations

import math

from pullback.core.array import Array, ArrayLike
from pullback.lax.elementwise import fitted
from pullback.numpy.arithmetic import floor, remainder
from pullback.numpy.logic import where
from pullback.ops import gamma_functions, incomplete, special_functions


def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function.

    Arguments:
        a, x: floating arrays of one dtype and one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are not floating.
        ShapeError: their shapes differ.

    Example:
        >>> lax.igamma(2.0, pnp.array([0.0, 1.0, 10.0]))
        [0.         0.26424113 0.9995006 ]:f32[3]:cpu(0)
    """
    return incomplete.igamma(*fitted("igamma", (a, x)))


def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized upper incomplete gamma function, 1 - igamma(a, x), to the last digits where it is small.

    Arguments:
        a, x: floating arrays of one dtype and one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are not floating.
        ShapeError: their shapes differ.

    Example:
        >>> lax.igammac(2.0, pnp.array([0.0, 1.0, 50.0]))
        [1.000000e+00 7.357589e-01 9.836624e-21]:f32[3]:cpu(0)
    """
    return incomplete.igammac(*fitted("igammac", (a, x)))


def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of igamma(a, x) with respect to a.

    Arguments:
        a, x: floating arrays of one dtype and one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are not floating.
        ShapeError: their shapes differ.

    Example:
        >>> lax.igamma_grad_a(2.0, pnp.array([0.0, 1.0]))
        [ 0.         -0.27619603]:f32[2]:cpu(0)
    """
    return incomplete.igamma_grad_a(*fitted("igamma_grad_a", (a, x)))


def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """The derivative of a sample x of the gamma distribution with respect to its shape a, at a fixed probability.

    Arguments:
        a, x: floating arrays of one dtype and one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are not floating.
        ShapeError: their shapes differ.

    Example:
        >>> lax.random_gamma_grad(2.0, pnp.array([0.5, 3.0]))
        [0.49802673 1.3217986 ]:f32[2]:cpu(0)

    Source: Figurnov, Mohamed and Mnih, "Implicit Reparameterization Gradients", arXiv:1805.08498.
    """
    return -incomplete.gamma_sensitivity(*fitted("random_gamma_grad", (a, x)), n=1)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The regularized incomplete beta function.

    Arguments:
        a, b, x: floating arrays of one dtype and one shape, or 0-d; Python numbers take the others' dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are not floating.
        ShapeError: their shapes differ.

    Example:
        >>> lax.betainc(2.0, 3.0, pnp.array([0.1, 0.5, 1.0]))
        [0.0523 0.6875 1.    ]:f32[3]:cpu(0)
    """
    return incomplete.betainc(*fitted("betainc", (a, b, x)))


def bessel_i0e(x: ArrayLike) -> Array:
    """exp(-|x|) times the modified Bessel function of order 0.

    Arguments:
        x: a floating array of any shape, or a number.

    Returns:
        An array of the same shape, in the dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is of another dtype.

    Example:
        >>> lax.bessel_i0e(pnp.array([0.0, 1.0]))
        [1.        0.4657596]:f32[2]:cpu(0)
    """
    return special_functions.bessel_i(*fitted("bessel_i0e", (x,)), n=0, scaled=True)


def bessel_i1e(x: ArrayLike) -> Array:
    """exp(-|x|) times the modified Bessel function of order 1.

    Arguments:
        x: a floating array of any shape, or a number.

    Returns:
        An array of the same shape, in the dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is of another dtype.

    Example:
        >>> lax.bessel_i1e(pnp.array([0.0, 1.0]))
        [0.         0.20791042]:f32[2]:cpu(0)
    """
    return special_functions.bessel_i(*fitted("bessel_i1e", (x,)), n=1, scaled=True)


def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz's zeta function, the sum of (k + q)^-x over k >= 0, for x > 1.

    Arguments:
        x, q: floating arrays of one dtype and one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are not floating.
        ShapeError: their shapes differ.

    Example:
        >>> lax.zeta(2.0, pnp.array([1.0, 2.0]))
        [1.644934   0.64493406]:f32[2]:cpu(0)
    """
    return gamma_functions.zeta(*fitted("zeta", (x, q)))


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma, of whole m >= 0; NaN of others.

    Arguments:
        m, x: floating arrays of one dtype and one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are not floating.
        ShapeError: their shapes differ.

    Example:
        >>> lax.polygamma(pnp.array([0.0, 1.0, 2.0]), 2.0)
        [ 0.42278433  0.64493406 -0.4041138 ]:f32[3]:cpu(0)

    Source: DLMF 5.15.1.
    """
    m, x = fitted("polygamma", (m, x))
    order = where(m > 0, m, 1.0)
    derived = (2 * remainder(order, 2.0) - 1) * gamma_functions.gamma(order + 1) * gamma_functions.zeta(order + 1, x)
    return where(m == 0, gamma_functions.digamma(x), where((m > 0) & (m == floor(m)), derived, math.nan))
