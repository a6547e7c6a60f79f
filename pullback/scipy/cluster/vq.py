"""Vector quantization."""

from __future__ import annotations

from typing import Any

from pullback.core.array import ArrayLike
from pullback.core.errors import ShapeError
from pullback.core.source import make_public
from pullback.numpy.elementary import sqrt
from pullback.numpy.promotion import at_user_line, to_common_dtype
from pullback.numpy.reductions import argmin
from pullback.numpy.reductions import sum as total
from pullback.numpy.taking import take_along_axis

__all__ = ["vq"]


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> Any:
    """For each observation the nearest code, and its Euclidean distance.

    Arguments:
        obs: an array of shape (m, n), an observation a row; or of shape (m,), if they are numbers.
        code_book: an array of shape (k, n), or (k,).
        check_finite: of no effect, as in JAX: a distance of NaN is the nearest.

    Returns:
        A pair: m indices of codes, of the default integer dtype; and m distances, of a floating dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.

    Example:
        >>> from pullback.scipy.cluster.vq import vq
        >>> vq(pnp.array([[1.0, 2.0], [5.0, 5.0]]), pnp.array([[0.0, 2.0], [5.0, 6.0]]))
        ([0 1]:i32[2]:cpu(0), [1. 1.]:f32[2]:cpu(0))
    """
    bool(check_finite)
    points, codes = to_common_dtype("vq", obs, code_book, inexact=True)
    if points.type.ndim == codes.type.ndim == 1:
        points, codes = points[:, None], codes[:, None]
    if points.type.ndim != 2 or codes.type.ndim != 2 or points.type.shape[1] != codes.type.shape[1]:
        raise ShapeError(
            f"vq takes observations of shape (m, n) and codes of shape (k, n), but got {points.type} and {codes.type}."
            f"{at_user_line()}"
        )
    squares = total(abs(points[:, None] - codes) ** 2, axis=2)
    nearest = argmin(squares, axis=1)
    return nearest, sqrt(take_along_axis(squares, nearest[:, None], axis=1)[:, 0])


make_public(globals())
