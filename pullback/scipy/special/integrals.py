"""Bessel functions, exponential, sine, cosine and Fresnel integrals, hypergeometric functions, spherical harmonics."""

from __future__ import annotations

import operator

from pullback import lax
from pullback.core.array import Array, ArrayLike
from pullback.numpy.elementary import cos, sin
from pullback.numpy.promotion import at_user_line, refuse_complex, to_common_dtype, to_common_shape
from pullback.numpy.shaping import stack
from pullback.ops import special_functions as specials
from pullback.scipy.special.operands import elementwise, real_operand


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.i0(pnp.array([0.0, 1.0, 20.0]))
        [1.0000000e+00 1.2660658e+00 4.3558284e+07]:f32[3]:cpu(0)
    """
    return specials.bessel_i(real_operand(x, "i0"), n=0, scaled=False)


def i0e(x: ArrayLike) -> Array:
    """exp(-|x|) i0(x).

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.i0e(pnp.array([0.0, 1.0, 20.0]))
        [1.         0.4657596  0.08978031]:f32[3]:cpu(0)
    """
    return specials.bessel_i(real_operand(x, "i0e"), n=0, scaled=True)


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.i1(pnp.array([0.0, 1.0, 20.0]))
        [0.0000000e+00 5.6515908e-01 4.2454972e+07]:f32[3]:cpu(0)
    """
    return specials.bessel_i(real_operand(x, "i1"), n=1, scaled=False)


def i1e(x: ArrayLike) -> Array:
    """exp(-|x|) i1(x).

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.i1e(pnp.array([0.0, 1.0, 20.0]))
        [0.         0.20791042 0.08750622]:f32[3]:cpu(0)
    """
    return specials.bessel_i(real_operand(x, "i1e"), n=1, scaled=True)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """The Bessel functions of the orders 0 to v.

    Arguments:
        z: an array or a number, of any shape, real.
        v: the last order, an int >= 0.
        n_iter: an int, for JAX's sake: how many steps its recurrence would take.

    Returns:
        A floating array of shape (v + 1, *z.shape).

    Raises:
        LeafError: z is neither an array nor a number.
        DtypeError: z is complex.

    Example:
        >>> pb.scipy.special.bessel_jn(pnp.array([0.0, 1.0]), v=2)
        [[1.         0.7651977 ]
         [0.         0.44005057]
         [0.         0.11490349]]:f32[3,2]:cpu(0)
    """
    operator.index(n_iter)
    z = real_operand(z, "bessel_jn")
    return stack([specials.bessel_j(z, n=n) for n in range(operator.index(v) + 1)])


def expi(x: ArrayLike) -> Array:
    """The exponential integral, the principal value of that of exp(t) / t from minus infinity to x.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.expi(pnp.array([1.0, -1.0, 0.0]))
        [ 1.8951178  -0.21938394        -inf]:f32[3]:cpu(0)
    """
    return elementwise("expi", specials.expi, x)


def exp1(x: ArrayLike) -> Array:
    """The integral of exp(-t) / t from x to infinity, for x > 0.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.exp1(pnp.array([1.0, 20.0]))
        [2.1938394e-01 9.8355254e-11]:f32[2]:cpu(0)
    """
    return elementwise("exp1", specials.exp1, x)


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The integral of exp(-x t) / t^n from 1 to infinity.

    Arguments:
        n: whole numbers >= 0.
        x: an array or a number, of any shape, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: n or x is neither an array nor a number.
        DtypeError: n or x is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.expn(2, pnp.array([0.0, 1.0]))
        [1.         0.14849551]:f32[2]:cpu(0)
    """
    return elementwise("expn", specials.expn, n, x)


def spence(x: ArrayLike) -> Array:
    """The integral of log(t) / (1 - t) from 1 to x: the dilogarithm of 1 - x.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        An array of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.spence(pnp.array([0.0, 1.0, 2.0]))
        [ 1.644934  0.       -0.822467]:f32[3]:cpu(0)
        >>> pb.grad(pb.scipy.special.spence)(1.0)
        -1.0:f32[]:cpu(0)
    """
    return elementwise("spence", specials.spence, x)


def sici(x: ArrayLike) -> tuple[Array, Array]:
    """The sine integral and the cosine integral.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        Two arrays of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.sici(pnp.array([1.0, 10.0]))
        ([0.94608307 1.6583476 ]:f32[2]:cpu(0), [ 0.33740392 -0.04545643]:f32[2]:cpu(0))

    Source: DLMF 6.2.
    """
    x = real_operand(x, "sici")
    return specials.sine_integral(x), specials.cosine_integral(x)


def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The Fresnel integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x.

    Arguments:
        x: an array or a number, of any shape, real.

    Returns:
        Two arrays of the shape of x, of a floating dtype.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is complex.

    Example:
        >>> pb.scipy.special.fresnel(pnp.array([0.5, 2.0]))
        ([0.06473243 0.34341568]:f32[2]:cpu(0), [0.49234423 0.4882534 ]:f32[2]:cpu(0))

    Source: DLMF 7.2.
    """
    x = real_operand(x, "fresnel")
    return specials.fresnel_s(x), specials.fresnel_c(x)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function; differentiable with respect to x.

    Arguments:
        a, b, x: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an argument is neither an array nor a number.
        DtypeError: an argument is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.hyp1f1(1.0, 2.0, pnp.array([0.0, 1.0]))
        [1.        1.7182819]:f32[2]:cpu(0)

    Source: DLMF 13.2.
    """
    return elementwise("hyp1f1", specials.hyp1f1, a, b, x)


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function; differentiable with respect to x.

    Arguments:
        a, b, c, x: arrays or numbers whose shapes broadcast, real.

    Returns:
        An array of the broadcast shape, of a floating dtype.

    Raises:
        LeafError: an argument is neither an array nor a number.
        DtypeError: an argument is complex.
        ShapeError: the shapes do not broadcast.

    Example:
        >>> pb.scipy.special.hyp2f1(1.0, 1.0, 2.0, pnp.array([0.0, 0.5]))
        [1.        1.3862944]:f32[2]:cpu(0)

    Source: DLMF 15.2.
    """
    return elementwise("hyp2f1", specials.hyp2f1, a, b, c, x)


def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: int | None = None, n_max: int | None = None
) -> Array:
    """The spherical harmonic of degree n and order m, with the sign of Condon and Shortley.

    Arguments:
        n: degrees, whole numbers >= 0.
        m: orders, whole numbers with |m| <= n.
        theta: the polar angle, from 0 to pi.
        phi: the azimuth.
        diff_n: must be None or 0. n_max: for JAX's sake: it bounds the degrees there.

    Returns:
        A complex array of the broadcast shape.

    Raises:
        LeafError: an argument is neither an array nor a number.
        DtypeError: an argument is complex.
        ShapeError: the shapes do not broadcast.
        NotImplementedError: diff_n is given.

    Example:
        >>> pb.scipy.special.sph_harm_y(2, pnp.array([0, 1]), 0.5, 0.3)
        [ 0.41330597+0.j         -0.31052116-0.09605546j]:c64[2]:cpu(0)

    Source: DLMF 14.30.
    """
    if diff_n:
        raise NotImplementedError(f"sph_harm_y gives no derivatives; take them with pb.jvp or pb.grad.{at_user_line()}")
    n, m, theta, phi = to_common_shape("sph_harm_y", *to_common_dtype("sph_harm_y", n, m, theta, phi, inexact=True))
    refuse_complex("sph_harm_y", n, m, theta, phi)
    size, angle = specials.legendre(n, m, theta), m * phi
    return lax.complex(size * cos(angle), size * sin(angle))
