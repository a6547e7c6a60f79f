"""Convolution and correlation of signals: `convolve` and `correlate`, and what they have in common with those of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import BOOL, INT32, DTypeLike, requested
from pullback.core.errors import ShapeError
from pullback.core.tracing import _quiet_numpy, innermost_staging
from pullback.core.types import array_type
from pullback.numpy.complexes import conj
from pullback.numpy.promotion import NATIVE_INEXACT, at_user_line, check_precision, in_dtype, to_common_dtype
from pullback.numpy.shaping import flip
from pullback.ops import shape as shapes
from pullback.ops.convolve import ConvDimensionNumbers, conv_general_dilated

MODES = ("full", "same", "valid")


def check_mode(name: str, mode: Any) -> None:
    """Refuse what says of no convolution how much of it is wanted."""
    if mode not in MODES:
        raise ValueError(f"{name} takes mode='full', 'same' or 'valid', not {brief(mode)}.{at_user_line()}")


def around(mode: str, size: int) -> tuple[int, int]:
    """How many zeros around a signal let a kernel of a size begin and end where the mode says."""
    return {"full": (size - 1, size - 1), "same": (size // 2, (size - 1) // 2), "valid": (0, 0)}[mode]


def sliding_products(x: Array, y: Array, padding: Sequence[tuple[int, int]], preferred: DTypeLike = None) -> Array:
    """The sums of products of y with each window of x, in which zeros lie around: of arrays of one dtype and n axes."""
    if x.type.dtype is BOOL:
        counted = sliding_products(in_dtype(x, INT32), in_dtype(y, INT32), padding)
        return in_dtype(counted, BOOL if preferred is None else requested(preferred))
    ndim = x.type.ndim
    ones, same = (1,) * ndim, tuple(range(ndim + 2))
    wanted = {} if preferred is None else {"preferred_element_type": requested(preferred)}
    lhs, rhs = (shapes.reshape(each, new_sizes=(1, 1, *each.type.shape)) for each in (x, y))
    out = conv_general_dilated(
        lhs, rhs, window_strides=ones, padding=tuple(padding), lhs_dilation=ones, rhs_dilation=ones,
        dimension_numbers=ConvDimensionNumbers(same, same, same), feature_group_count=1, batch_group_count=1, **wanted,
    )  # fmt: skip
    return shapes.reshape(out, new_sizes=out.type.shape[2:])


def _on_host(function: Any, a: Any, v: Any, mode: Any) -> Array | None:
    """NumPy's own sums, of what lies in its memory; None where that is not what is given."""
    if a.__class__ is v.__class__ is Array and innermost_staging() is None and mode.__class__ is str and mode in MODES:
        x, y = a.type, v.type
        fits = x.dtype is y.dtype and x.dtype in NATIVE_INEXACT and x.ndim == y.ndim == 1 and x.size and y.size
        if fits and a._host is not None and v._host is not None:
            out = _quiet_numpy.run(function, a._host, v._host, mode)
            return Array(array_type(out.shape, x.dtype, x.weak and y.weak), out)
    return None


def _of_signals(name: str, a: Any, v: Any, mode: str, precision: Any, preferred: Any, turned: bool) -> Array:
    if precision is preferred is None and (plain := _on_host(np.convolve if turned else np.correlate, a, v, mode)) is not None:
        return plain
    check_precision(precision, name)
    check_mode(name, mode)
    x, y = to_common_dtype(name, a, v)
    if x.type.ndim != 1 or y.type.ndim != 1 or 0 in (x.type.size, y.type.size):
        raise ShapeError(f"{name} takes signals of one axis and 1 element or more, not {x.type} and {y.type}.{at_user_line()}")
    y = flip(y) if turned else conj(y)
    swapped = x.type.size < y.type.size
    if swapped:
        x, y = (flip(y), flip(x)) if turned else (y, x)
    size = y.type.size
    out = sliding_products(x, y, [around(mode, size)], preferred)
    return flip(out) if swapped and not turned else out


def convolve(
    a: ArrayLike, v: ArrayLike, mode: str = "full", *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The convolution of two signals: the sums over j of a_j v_(k - j).

    Arguments:
        a, v: arrays of one axis and 1 element or more.
        mode: "full" for every k with a term, "same" for the middle ones, as many as the longer signal has elements, "valid" for
            those where the signals overlap completely.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default the common one.

    Returns:
        An array of one axis, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: the dtypes have no common one.
        ShapeError: an operand has no elements, or not one axis. ValueError: an unknown mode or precision.

    Example:
        >>> pnp.convolve(pnp.array([1, 2, 3]), pnp.array([0, 1, 10]))
        [ 0  1 12 23 30]:i32[5]:cpu(0)
    """
    return _of_signals("convolve", a, v, mode, precision, preferred_element_type, True)


def correlate(
    a: ArrayLike, v: ArrayLike, mode: str = "valid", *, precision: Any = None, preferred_element_type: DTypeLike = None
) -> Array:
    """The correlation of two signals: the sums over j of a_(j + k) conj(v_j).

    Arguments:
        a, v: arrays of one axis and 1 element or more.
        mode, precision, preferred_element_type: as for `convolve`.

    Returns:
        An array of one axis, in the common dtype.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: the dtypes have no common one.
        ShapeError: an operand has no elements, or not one axis. ValueError: an unknown mode or precision.

    Example:
        >>> pnp.correlate(pnp.array([1, 2, 3]), pnp.array([0, 1, 10]), "full")
        [10 21 32  3  0]:i32[5]:cpu(0)
    """
    return _of_signals("correlate", a, v, mode, precision, preferred_element_type, False)
