"""Windows of signal processing, by NumPy's names, and the Bessel function that one of them is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import default_dtype
from pullback.numpy.axes import whole
from pullback.numpy.creation import asarray
from pullback.numpy.elementary import exp
from pullback.numpy.factories import named
from pullback.numpy.promotion import to_inexact
from pullback.ops.special_functions import bessel_i

_SECTIONS = """    Arguments:
        M: how many numbers; none, if it is not positive.

    Returns:
        A vector of the default floating dtype, symmetric, 1 in the middle.

    Raises:
        TypeError: `M` is no whole number."""


def _window(function: Any, doc: str) -> Callable[[int], Array]:
    def window(M: Any) -> Any:
        return asarray(function(whole(M, f"{function.__name__}'s M")).astype(default_dtype("f")))

    window.__annotations__ = {"M": "int", "return": "Array"}
    return named(window, function.__name__, doc, _SECTIONS)


# fmt: off
bartlett = _window(np.bartlett, """Bartlett's window: a triangle that is 0 at its ends.

    Example:
        >>> pnp.bartlett(5)
        [0.  0.5 1.  0.5 0. ]:f32[5]:cpu(0)
    """)
blackman = _window(np.blackman, """Blackman's window: 0.42 - 0.5 cos(t) + 0.08 cos(2t), for t from 0 to 2 pi.

    Example:
        >>> pnp.blackman(3) + 1.0
        [1. 2. 1.]:f32[3]:cpu(0)
    """)
hamming = _window(np.hamming, """Hamming's window: 0.54 - 0.46 cos(t), for t from 0 to 2 pi.

    Example:
        >>> pnp.hamming(3)
        [0.08 1.   0.08]:f32[3]:cpu(0)
    """)
hanning = _window(np.hanning, """Hann's window: 0.5 - 0.5 cos(t), for t from 0 to 2 pi.

    Example:
        >>> pnp.hanning(5)
        [0.  0.5 1.  0.5 0. ]:f32[5]:cpu(0)
    """)
# fmt: on


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
        >>> pnp.i0(pnp.array([0.0, 1.0]))
        [1.        1.2660658]:f32[2]:cpu(0)
    """
    found: Array = bessel_i(to_inexact(x, "i0"), n=0, scaled=False)
    return found


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Kaiser's window: i0(beta sqrt(1 - t^2)) / i0(beta), for t from -1 to 1.

    Arguments:
        M: how many numbers; none, if it is not positive.
        beta: a real number, which may be traced.

    Returns:
        A vector of the default floating dtype (or that of `beta`), symmetric, 1 in the middle.

    Raises:
        TypeError: `M` is no whole number.
        LeafError: `beta` is neither an array nor a number.
        DtypeError: `beta` is complex.

    Example:
        >>> pnp.kaiser(3, 2.0)
        [0.43868 1.      0.43868]:f32[3]:cpu(0)
    """
    count = whole(M, "kaiser's M")
    along = np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(max(count, 0))
    size = to_inexact(beta, "kaiser")
    inner = size * asarray(np.sqrt(1 - along**2).astype(default_dtype("f")))
    ratio: Array = bessel_i(inner, n=0, scaled=True) / bessel_i(size, n=0, scaled=True)
    return ratio * exp(abs(inner) - abs(size))
