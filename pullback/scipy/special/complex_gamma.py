"""The gamma function of complex numbers, by Stirling's series eight further to the right, and by reflection.

Source: NIST Digital Library of Mathematical Functions, 5.5.3 and 5.11.1.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.core.array import Array
from pullback.numpy.arithmetic import rint
from pullback.numpy.complexes import conj, imag, real
from pullback.numpy.elementary import exp, expm1, log, sin
from pullback.numpy.logic import copysign, where

_FURTHER = 8
# B_2k / (2k (2k - 1)) for k = 1, 2, ...
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def gamma(z: Any) -> Array:
    """The gamma function; NaN at its poles."""
    mirrored = _on_the_left(z)
    right = where(mirrored, 1 - z, z)
    product: Any = 1
    for k in range(_FURTHER):
        product = product * (right + k)
    value = exp(_stirling(right + _FURTHER)) / product
    turn = rint(real(z))  # sin(pi z) is right near each pole so
    sine = sin(math.pi * (z - turn)) * where(turn % 2 == 0, 1.0, -1.0)
    out = where(mirrored, math.pi / (where(mirrored, sine, 1.0) * value), value)
    return where(_at_a_pole(z), complex(math.nan, math.nan), out)


def loggamma(z: Any) -> Array:
    """The logarithm of the gamma function that is continuous but on the negative axis; NaN at 0, -1, -2, ..."""
    mirrored, below = _on_the_left(z), copysign(1.0, imag(z)) < 0
    right = where(mirrored, 1 - z, z)
    value = _stirling(right + _FURTHER)
    for k in range(_FURTHER):
        value = value - log(right + k)
    upper = where(mirrored & ~_at_a_pole(z), where(below, conj(z), z), 0.25j)
    turn = rint(real(upper))
    mirror = math.log(2 * math.pi) + 1j * math.pi * (upper - 0.5) - log(-expm1(2j * math.pi * (upper - turn)))
    out = where(mirrored, where(below, conj(mirror), mirror) - value, value)
    return where(_at_a_pole(z), complex(math.nan, math.nan), out)


def _on_the_left(z: Any) -> Any:
    """Where the series does not hold: near the negative axis."""
    return (real(z) < 0.5) & (abs(imag(z)) < _FURTHER)


def _at_a_pole(z: Any) -> Any:
    return (imag(z) == 0) & (real(z) <= 0) & (real(z) == rint(real(z)))


def _stirling(z: Any) -> Any:
    inverse = 1 / z
    square, total = inverse * inverse, _SERIES[-1]
    for term in _SERIES[-2::-1]:
        total = total * square + term
    return (z - 0.5) * log(z) - z + 0.5 * math.log(2 * math.pi) + total * inverse
