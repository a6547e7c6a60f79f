"""How variables vary together: covariances and correlations."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import DTypeLike, is_inexact, kind, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.tracing import Tracer
from pullback.numpy.arithmetic import divide, maximum, multiply, subtract
from pullback.numpy.complexes import conj, imag, real
from pullback.numpy.creation import diagonal
from pullback.numpy.elementary import sqrt
from pullback.numpy.logic import clip
from pullback.numpy.products import matmul
from pullback.numpy.promotion import at_user_line, in_dtype, operand, strong, to_common_dtype
from pullback.numpy.reductions import average, mean
from pullback.numpy.reductions import sum as total
from pullback.numpy.shaping import atleast_2d, concatenate, squeeze
from pullback.ops import complex as complexes


def _variables(x: Any, rowvar: Any, name: str) -> Any:
    """Observations as a matrix with a row for each variable."""
    if x.type.ndim > 2:
        raise ShapeError(f"{name} takes a vector or a matrix, but got {x.type}.{at_user_line()}")
    matrix = atleast_2d(x)
    return matrix if rowvar or x.type.ndim < 2 else matrix.T


def _weights(weights: Any, name: str, count: int, whole: bool) -> Any:
    """A vector of weights, one for each observation, none of them negative as far as that is known."""
    weights = operand(weights, "cov", name)
    if weights.type.shape != (count,):
        raise ShapeError(f"cov takes a vector of {counted(count, 'number')} as {name}, but got {weights.type}.{at_user_line()}")
    if kind(weights.type.dtype) not in ("biu" if whole else "biuf"):
        raise DtypeError(f"cov takes {'whole' if whole else 'real'} numbers as {name}, but got {weights.type}.{at_user_line()}")
    if not isinstance(weights, Tracer) and np.any(weights.host < 0):
        raise ValueError(f"cov: {name} has a negative number. Weights must be 0 or more.{at_user_line()}")
    return weights


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike = None,
) -> Array:
    """The covariance matrix of variables: the mean of (x_i - mean x_i) conj(x_j - mean x_j) over observations.

    Arguments:
        m: a matrix with a row for each variable and a column for each observation; or one variable's observations.
        y: further variables, in the same form.
        rowvar: False where `m` and `y` have a column for each variable.
        bias: whether to divide by the number of observations n, rather than by n - 1.
        ddof: what is subtracted from n, in place of what `bias` says.
        fweights: how often each observation was made: whole numbers.
        aweights: how much each observation weighs.
        dtype: the dtype of the result; by default the common one, that of `aweights` included, floating or complex.

    Returns:
        A matrix; a number, for one variable. Not finite where n - ddof is not positive.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: more than two axes, or another number of observations or weights.
        DtypeError: weights that are not real, or `fweights` that are not whole; the dtypes have no common one.
        ValueError: a weight is negative; `ddof` is not whole.

    Example:
        >>> pnp.cov(pnp.array([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0]]))
        [[1.        2.5      ]
         [2.5       6.3333335]]:f32[2,2]:cpu(0)
        >>> pnp.cov(pnp.array([1.0, 2.0, 3.0]), fweights=pnp.array([2, 1, 1]))
        0.9166667:f32[]:cpu(0)
    """
    others = [each for each in (y, aweights) if each is not None]
    parts = to_common_dtype("cov", m, *others, inexact=True)[: 1 if y is None else 2]
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"cov takes a whole number as ddof, but got {brief(ddof)}.{at_user_line()}")
    wanted = parts[0].type.dtype if dtype is None else requested(dtype)
    if not is_inexact(wanted) or kind(parts[0].type.dtype) == "c" != kind(wanted):
        raise DtypeError(
            f"cov of {parts[0].type} has no {wanted.name} values. Choose a complex dtype, or leave it out.{at_user_line()}"
        )
    x = concatenate([_variables(in_dtype(strong(part), wanted), rowvar, "cov") for part in parts])
    count = x.type.shape[1]
    ddof = (0 if bias else 1) if ddof is None else int(ddof)
    given = [
        None if weights is None else _weights(weights, name, count, whole)
        for weights, name, whole in ((fweights, "fweights", True), (aweights, "aweights", False))
    ]
    weight: Any = None
    for each in given:
        weight = each if weight is None else weight if each is None else multiply(weight, each)
    divisor: Any = max(count - ddof, 0)
    if weight is None:
        center = mean(x, 1, keepdims=True)
    else:
        weight = in_dtype(weight, real(x).type.dtype)
        center, sum_of_weights = average(x, 1, weight, True, keepdims=True)
        sum_of_weights = real(sum_of_weights[0])
        lost = ddof if given[1] is None else divide(multiply(ddof, total(multiply(weight, given[1]))), sum_of_weights)
        divisor = maximum(subtract(sum_of_weights, lost), 0)
    centered = subtract(x, center)
    weighted = centered if weight is None else multiply(centered, weight)
    return strong(in_dtype(squeeze(divide(matmul(centered, conj(weighted).T), divisor)), wanted))


def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike = None) -> Array:
    """The correlation matrix of variables: their covariances, divided by the standard deviations of both.

    Arguments:
        x: a matrix with a row for each variable and a column for each observation; or one variable's observations.
        y: further variables, in the same form.
        rowvar: False where `x` and `y` have a column for each variable.
        dtype: the dtype of the result; by default the common one, floating or complex.

    Returns:
        A matrix, whose parts lie between -1 and 1; a number, for one variable.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: more than two axes, or another number of observations.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.corrcoef(pnp.array([[1.0, 2.0, 3.0], [2.0, 4.0, 7.0]]))
        [[1.         0.99339926]
         [0.99339926 1.        ]]:f32[2,2]:cpu(0)
    """
    if y is not None:
        x, y = to_common_dtype("corrcoef", x, y)
    covariance = cov(x, y, rowvar, dtype=dtype)
    if not covariance.type.shape:
        return divide(covariance, covariance)
    deviation = sqrt(real(diagonal(covariance)))
    out = covariance / deviation[:, None] / deviation[None, :]
    if kind(out.type.dtype) == "c":
        return complexes.complex(clip(real(out), -1, 1), clip(imag(out), -1, 1))
    return clip(out, -1, 1)
