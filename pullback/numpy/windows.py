"""Windows of signal processing, by NumPy's names."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.core.array import Array
from pullback.core.dtypes import default_dtype
from pullback.numpy.creation import asarray
from pullback.numpy.factories import named

_SECTIONS = """    Arguments:
        M: how many numbers; none, if it is not positive.

    Returns:
        A vector of the default floating dtype, symmetric, 1 in the middle.

    Raises:
        TypeError: `M` is no whole number."""


def _window(function: Any, doc: str) -> Callable[[int], Array]:
    def window(M: Any) -> Any:
        return asarray(function(operator.index(M)).astype(default_dtype("f")))

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
