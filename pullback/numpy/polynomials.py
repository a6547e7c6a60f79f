"""Polynomials of one variable, each given by the vector of its coefficients, that of the highest power first."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from pullback.api.loops import scan
from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import accumulation_dtype, default_dtype, kind
from pullback.core.errors import ConcretizationError, ShapeError
from pullback.core.tracing import Tracer
from pullback.numpy.arithmetic import absolute, add, divide, multiply, subtract
from pullback.numpy.complexes import conj, real
from pullback.numpy.creation import arange, asarray, zeros_like
from pullback.numpy.dtypes import finfo
from pullback.numpy.elementary import power, sqrt
from pullback.numpy.linalg.factors import eigvals
from pullback.numpy.linalg.solving import inv, lstsq
from pullback.numpy.logic import where
from pullback.numpy.padding import pad
from pullback.numpy.promotion import at_user_line, in_dtype, operand, strong, to_common_dtype, to_inexact
from pullback.numpy.reductions import sum as total
from pullback.numpy.reductions import summed_dtype
from pullback.numpy.shaping import atleast_1d, broadcast_to, concatenate, ravel, reshape, roll
from pullback.ops.formulas import COMPLEX_DTYPE

UNROLLED = 64  # coefficients up to which `polyval` multiplies and adds in place, without a loop


def coefficients(name: str, *given: Any) -> tuple[Array, ...]:
    """Vectors of coefficients in their common dtype."""
    found = tuple([strong(atleast_1d(each)) for each in to_common_dtype(name, *given)])
    for each in found:
        if each.type.ndim != 1:
            raise ShapeError(f"{name} takes a vector of coefficients, but got {each.type}.{at_user_line()}")
    return found


def _degree(value: Any, name: str) -> int:
    """A number of derivatives or integrals, or a degree: a whole number that is not negative."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise ValueError(f"{name} takes a whole number that is not negative, but got {brief(value)}.{at_user_line()}")
    return number


def trimmed(p: Array, name: str, option: str) -> Array:
    """Coefficients without zeros in front, of which it must be known how many there are."""
    if isinstance(p, Tracer):
        raise ConcretizationError(
            f"{name} with {option}=True drops zeros in front, whose number must be known, but got a traced value of type"
            f" {p.type} in {p.owner.describe()}. Pass {option}=False, or, to know it, {p.cure()}.{at_user_line()}"
        )
    kept = np.flatnonzero(host_of(p))
    return p[kept[0] :] if kept.size else p[:0]


def _not_empty(p: Array) -> Array:
    """A polynomial that has a coefficient: 0, if there is none."""
    return p if p.type.size else zeros_like(p, shape=(1,))


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    Arguments:
        a1, a2: vectors of coefficients, that of the highest power first.

    Returns:
        A vector of coefficients as long as the longer one, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: an operand has more than one axis.

    Example:
        >>> pnp.polyadd(pnp.array([1, 2]), pnp.array([3, 0, 4]))
        [3 1 6]:i32[3]:cpu(0)
    """
    return add(*_as_long("polyadd", a1, a2))


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    Arguments:
        a1, a2: vectors of coefficients, that of the highest power first.

    Returns:
        A vector of coefficients as long as the longer one, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one, or are bool.
        ShapeError: an operand has more than one axis.

    Example:
        >>> pnp.polysub(pnp.array([1, 2]), pnp.array([3, 0, 4]))
        [-3  1 -2]:i32[3]:cpu(0)
    """
    return subtract(*_as_long("polysub", a1, a2))


def _as_long(name: str, *given: Any) -> list[Array]:
    """Coefficients of two polynomials, the shorter ones with zeros in front."""
    both = coefficients(name, *given)
    longest = max(each.type.size for each in both)
    return [pad(each, (longest - each.type.size, 0)) for each in both]


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials.

    Arguments:
        a1, a2: vectors of coefficients, that of the highest power first.
        trim_leading_zeros: whether to drop zeros in front of the factors, as NumPy does; they must be known then.

    Returns:
        A vector of coefficients, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: an operand has more than one axis.
        ConcretizationError: zeros of traced coefficients are to be dropped.

    Example:
        >>> pnp.polymul(pnp.array([1, 2]), pnp.array([1, -2]))
        [ 1  0 -4]:i32[3]:cpu(0)
    """
    x, y = coefficients("polymul", a1, a2)
    if trim_leading_zeros:
        x, y = trimmed(x, "polymul", "trim_leading_zeros"), trimmed(y, "polymul", "trim_leading_zeros")
    x, y = _not_empty(x), _not_empty(y)
    n, m = x.type.size, y.type.size
    products = pad(multiply(x[:, None], y[None, :]), ((0, 0), (0, n)))
    skewed = reshape(ravel(products)[: n * (n + m - 1)], (n, n + m - 1))  # row i has moved i places to the right
    return total(skewed, 0, x.type.dtype)


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the remainder of two polynomials.

    Arguments:
        u, v: vectors of coefficients, that of the highest power first, which of `v` is not 0.
        trim_leading_zeros: whether to drop zeros in front of the remainder, as NumPy does; it must be known then.

    Returns:
        Two vectors of coefficients, floating or complex: the quotient, and the remainder, which is as long as `u` unless it
        is trimmed.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: an operand has more than one axis, or no coefficient.
        ConcretizationError: zeros of a traced remainder are to be dropped.

    Example:
        >>> pnp.polydiv(pnp.array([3.0, 5.0, 2.0]), pnp.array([2.0, 1.0]))
        ([1.5  1.75]:f32[2]:cpu(0), [0.   0.   0.25]:f32[3]:cpu(0))
    """
    rest, v = coefficients("polydiv", *to_common_dtype("polydiv", u, v, inexact=True))
    if not rest.type.size or not v.type.size:
        raise ShapeError(f"polydiv takes coefficients, one or more, but got {rest.type} and {v.type}.{at_user_line()}")
    factors = []
    for i in range(rest.type.size - v.type.size + 1):
        factors.append(divide(rest[i : i + 1], v[:1]))
        rest = rest.at[i : i + v.type.size].add(-factors[-1] * v)
    quotient = concatenate(factors) if factors else zeros_like(v, shape=(1,))
    if trim_leading_zeros:
        rest = _not_empty(trimmed(rest, "polydiv", "trim_leading_zeros"))
    return quotient, rest


def _falling(size: int, m: int) -> Any:
    """n! / (n - m)! for the powers n = size - 1, ..., m of a polynomial: what m derivatives multiply them by."""
    return np.asarray([float(math.perm(n, m)) for n in range(size - 1, m - 1, -1)])


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The derivative of a polynomial.

    Arguments:
        p: a vector of coefficients, that of the highest power first.
        m: of which order.

    Returns:
        A vector of coefficients, m fewer, in the dtype of `p`; those of bools and narrow integers in the default integers.

    Raises:
        LeafError: `p` is neither an array nor a number.
        ShapeError: `p` has more than one axis.
        ValueError: `m` is negative, or not whole.

    Example:
        >>> pnp.polyder(pnp.array([1, 1, 1, 1]))
        [3 2 1]:i32[3]:cpu(0)
    """
    (p,) = coefficients("polyder", p)
    m, p = _degree(m, "polyder's m"), in_dtype(p, summed_dtype(p.type.dtype))
    return p if not m else multiply(p[: max(p.type.size - m, 0)], in_dtype(asarray(_falling(p.type.size, m)), p.type.dtype))


def polyint(p: ArrayLike, m: int = 1, k: Any = None) -> Array:
    """The integral of a polynomial.

    Arguments:
        p: a vector of coefficients, that of the highest power first.
        m: how often it is integrated.
        k: the constants of integration: a number, or a vector of m, that of the first integral first; zeros by default.

    Returns:
        A vector of coefficients, m more, floating or complex.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: `p` has more than one axis, or there are not m constants.
        ValueError: `m` is negative, or not whole.

    Example:
        >>> pnp.polyint(pnp.array([3.0, 2.0, 1.0]), k=5)
        [1. 1. 1. 5.]:f32[4]:cpu(0)
    """
    p, constants = coefficients("polyint", *to_common_dtype("polyint", p, 0 if k is None else k, inexact=True))
    m = _degree(m, "polyint's m")
    if constants.type.shape not in ((1,), (m,)):
        raise ShapeError(f"polyint takes one constant or {m}, but got {constants.type}.{at_user_line()}")
    whole = concatenate([p, broadcast_to(constants, (m,))])
    n, dtype = p.type.size, p.type.dtype
    # the constant of integral i is integrated m - 1 - i times more
    divisors = [math.perm(power, m) for power in range(n + m - 1, m - 1, -1)] + [math.factorial(m - 1 - i) for i in range(m)]
    return divide(whole, in_dtype(asarray(np.asarray(divisors, np.float64)), dtype)) if n + m else whole


def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The values of a polynomial. Source: Horner's scheme.

    Arguments:
        p: a vector of coefficients, that of the highest power first; or of arrays of them, along the first axis.
        x: where: an array or a number. Its shape broadcasts with that of a coefficient.
        unroll: how many steps of the loop over many coefficients are written out at a time.

    Returns:
        An array of the broadcast shape, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.
        ShapeError: `p` has no axis, or the shapes do not broadcast.

    Example:
        >>> pnp.polyval(pnp.array([1, 2, 3]), pnp.array([0, 1, 2]))
        [ 3  6 11]:i32[3]:cpu(0)
        >>> pb.grad(lambda x: pnp.polyval(pnp.array([1.0, 2.0, 3.0]), x))(2.0)
        6.0:f32[]:cpu(0)
    """
    p, x = map(strong, to_common_dtype("polyval", p, x))
    if not p.type.ndim:
        raise ShapeError(f"polyval takes a vector of coefficients, but got {p.type}.{at_user_line()}")
    value = zeros_like(p[0] * x if p.type.size else x)
    if p.type.shape[0] <= UNROLLED:
        for coefficient in p:
            value = add(multiply(value, x), coefficient)
        return value
    final: Array = scan(lambda value, coefficient: (value * x + coefficient, None), value, p, unroll=unroll)[0]
    return final


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix of the powers of numbers, each of them in a row.

    Arguments:
        x: a vector.
        N: how many powers; by default as many as there are numbers.
        increasing: whether the powers increase from left to right, rather than decrease.

    Returns:
        A matrix of shape (len(x), N), in the dtype of x; that of bools and narrow integers in the default integers.

    Raises:
        LeafError: `x` is neither an array nor a number.
        ShapeError: `x` is no vector.
        ValueError: `N` is negative, or not whole.

    Example:
        >>> pnp.vander(pnp.array([1, 2, 3]))
        [[1 1 1]
         [4 2 1]
         [9 3 1]]:i32[3,3]:cpu(0)
    """
    x = operand(x, "vander")
    if x.type.ndim != 1:
        raise ShapeError(f"vander takes a vector, but got {x.type}.{at_user_line()}")
    count, x = x.type.size if N is None else _degree(N, "vander's N"), in_dtype(x, summed_dtype(x.type.dtype))
    powers = arange(count, dtype=default_dtype("i"))
    return in_dtype(power(x[:, None], (powers if increasing else powers[::-1])[None, :]), x.type.dtype)


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with given zeros, whose first coefficient is 1; of a matrix, its characteristic polynomial.

    Arguments:
        seq_of_zeros: a vector of zeros, or a square matrix.

    Returns:
        A vector of coefficients, that of the highest power first; floating or complex, as what is given.

    Raises:
        LeafError: `seq_of_zeros` is neither an array nor a number.
        ShapeError: neither a vector nor a square matrix.

    Example:
        >>> pnp.poly(pnp.array([1.0, 2.0]))
        [ 1. -3.  2.]:f32[3]:cpu(0)
    """
    zeros = to_inexact(seq_of_zeros, "poly")
    real_matrix = zeros.type.ndim == 2 and kind(zeros.type.dtype) == "f"
    if zeros.type.ndim == 2:
        zeros = eigvals(zeros)
    out = in_dtype(1, zeros.type.dtype).reshape(1)
    for zero in coefficients("poly", zeros)[0]:
        out = concatenate([out[:1], out[1:] - zero * out[:-1], -zero * out[-1:]])  # an infinite zero meets no 0
    return real(out) if real_matrix else out


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial: the eigenvalues of its companion matrix.

    Source: Horn and Johnson, Matrix Analysis, section 3.3.

    Arguments:
        p: a vector of coefficients, that of the highest power first.
        strip_zeros: whether to drop zeros in front, which must be known then, and to count those at the end as zeros of the
            polynomial. Without, the polynomial has a NaN at the end for each zero in front.

    Returns:
        A vector of complex numbers.

    Raises:
        LeafError: `p` is neither an array nor a number.
        ShapeError: `p` has more than one axis.
        ConcretizationError: zeros of traced coefficients are to be dropped.

    Example:
        >>> pnp.roots(pnp.array([1.0, -3.0, 2.0]))
        [2.+0.j 1.+0.j]:c64[2]:cpu(0)
    """
    (p,) = coefficients("roots", to_inexact(p, "roots"))
    last = 0
    if strip_zeros:
        given, p = p, trimmed(p, "roots", "strip_zeros")  # what is cut off a known vector is traced where functions are staged
        found = np.flatnonzero(host_of(given))
        last = given.type.size - 1 - int(found[-1]) if found.size else 0
        p = p[: p.type.size - last]
    elif p.type.size > 1:
        return _padded_roots(p)
    complex_dtype = COMPLEX_DTYPE.get(accumulation_dtype(p.type.dtype), p.type.dtype)
    degree = max(p.type.size - 1, 0)
    if not degree:
        return zeros_like(p, complex_dtype, (last,))
    return pad(in_dtype(eigvals(_companion(p)), complex_dtype), (0, last))


def _companion(p: Array) -> Array:
    """The matrix whose eigenvalues are the zeros of a polynomial."""
    return pad(asarray(np.eye(p.type.size - 2), p.type.dtype), ((1, 0), (0, 1))).at[0].set(-p[1:] / p[0])


def _padded_roots(p: Array) -> Array:
    """The zeros of a polynomial, with NaN for those that it lacks since its first coefficients are 0."""
    degree = p.type.size - 1
    ahead = (p != 0).argmax()
    p = roll(p, -ahead)
    # The zeros moved to the end would make as many zeros of the polynomial. They get a block of their own, with an eigenvalue
    # that no zero of the polynomial reaches: Cauchy's bound on these is 1 + max |p[i] / p[0]|.
    far = 2 * (1 + absolute(p[1:] / p[0]).max())
    beyond = arange(degree) >= degree - ahead
    found = eigvals(where(beyond[:, None], far * asarray(np.eye(degree), p.type.dtype), _companion(p)))
    complex_dtype = COMPLEX_DTYPE.get(accumulation_dtype(p.type.dtype), p.type.dtype)
    return in_dtype(where(beyond, np.nan, found[(absolute(found) > 0.75 * far).argsort()]), complex_dtype)


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial that fits points best, in the sense of least squares.

    Arguments:
        x: the abscissas, a vector.
        y: the ordinates, a vector; or a matrix, with a column for each polynomial.
        deg: the degree, a whole number.
        rcond: singular values below this part of the largest one count as zero; by default the number of points times the
            spacing of numbers at 1.
        full: whether to return what was found on the way as well.
        w: weights, by which the differences are multiplied before they are squared.
        cov: whether to return the covariance matrix of the coefficients as well; "unscaled" for weights that are the inverse
            standard deviations.

    Returns:
        The coefficients, that of the highest power first. With `full` also the sum of the squares of the differences (none,
        where the points do not determine a polynomial), the rank and the singular values of the scaled matrix, and `rcond`.
        With `cov` the coefficients and their covariances.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: `x` is no vector, `y` neither a vector nor a matrix, or their lengths or that of `w` differ.
        ValueError: `deg` is negative or not whole; there are too few points for `cov`.

    Example:
        >>> pnp.polyfit(pnp.array([0.0, 1.0, 2.0]), pnp.array([1.0, 3.0, 5.0]), 1).round(3)
        [2. 1.]:f32[2]:cpu(0)
    """
    count = _degree(deg, "polyfit's deg") + 1
    x, y, *weights = to_common_dtype("polyfit", x, y, *[] if w is None else [w], inexact=True)
    if x.type.ndim != 1 or y.type.ndim not in (1, 2) or any(each.type.shape[:1] != x.type.shape for each in (y, *weights)):
        given = ", ".join(str(each.type) for each in (x, y, *weights))
        raise ShapeError(f"polyfit takes a vector x and ordinates and weights as long, but got {given}.{at_user_line()}")
    lhs, rhs = vander(x, count), y
    for weight in weights:
        lhs, rhs = lhs * weight[:, None], rhs * (weight if y.type.ndim == 1 else weight[:, None])
    size = sqrt(total(lhs * conj(lhs), 0))
    scale = where(size == 0, 1, size)
    lhs = lhs / scale
    rcond = x.type.size * finfo(x.type.dtype).eps if rcond is None else rcond
    out, residuals, rank, singular = lstsq(lhs, rhs, rcond)
    c = out / (scale if y.type.ndim == 1 else scale[:, None])
    if full:
        return c, residuals, rank, singular, rcond
    if not cov:
        return c
    covariance = inv(conj(lhs).T @ lhs) / (scale[:, None] * scale[None, :])
    if cov != "unscaled":
        if x.type.size <= count:
            raise ValueError(f"polyfit with cov=True needs more than {count} points, but got {x.type.size}.{at_user_line()}")
        factor = total(absolute(rhs - lhs @ out) ** 2, 0) / (x.type.size - count)
        covariance = covariance * factor if y.type.ndim == 1 else covariance[:, :, None] * factor
    return c, covariance
