"""Division rounded down, and what it leaves: Python's `//` and `%`."""

from __future__ import annotations

import math

import numpy as np

from pullback.core.primitive import primitive
from pullback.core.zero import ZERO
from pullback.ops.arithmetic import _remainder, _whole_quotient, neg
from pullback.ops.formulas import lowered
from pullback.ops.pointwise import OfTwo


def _below(x, y, rest):
    """Where rounding toward zero rounds up: something is left, and its sign is not that of y."""
    return (rest != 0) & ((rest < 0) != (y < 0))


def _floor(x, y):
    quotient, rest = x / y, np.fmod(x, y)
    whole = np.rint((x - rest) / y)  # exact up to rounding, since x - rest is a multiple of y
    whole = np.rint(np.where(_below(x, y, rest), whole - 1, whole))
    floored = np.where(whole == 0, np.copysign(whole, quotient), whole)
    return np.where((y == 0) | np.isinf(x) | np.isinf(y), np.rint(quotient), floored)


def floor_of_floats(x, y):
    """NumPy's quotient; of infinite numbers the quotient itself, as the Array API has it, where NumPy has NaN or -1."""
    out = np.floor_divide(x, y)
    known = x.shape == y.shape and math.isfinite(np.vdot(x, y))  # one pass, which tells nearly always
    if known or (np.isfinite(x).all() and np.isfinite(y).all()):
        return out
    return np.where(np.isinf(x) | np.isinf(y), np.rint(np.true_divide(x, y)), out)


def _rest(x, y):
    rest = np.fmod(x, y)
    return _left(x, y, np.where(rest == 0, np.copysign(rest, y), rest))


def _down(x, y, quotient, rest):
    """The quotient of integers rounded down, given the one rounded toward zero and what it leaves."""
    return np.where(_below(x, y, rest), quotient - 1, quotient)


def _left(x, y, rest):
    """What it leaves then."""
    return np.where(_below(x, y, rest), rest + y, rest)


class Floored(OfTwo):
    """Of floats NumPy's function on the host. Of integers, x / 0 is -1 before it is rounded down, as XLA has it, of
    unsigned ones the largest number, and what it leaves is 0, as NumPy has it."""

    kinds = "iuf"

    def samples(rng):
        yield (5 * rng.normal(size=(2, 3)), 1 + rng.random((2, 3))), {}
        yield (5 * rng.normal(size=(2, 3)), -1 - rng.random()), {}


def _by_kind(of_floats, of_integers, formula, formula_of_integers):
    """The evaluation and the lowering rule."""

    def evaluate(x, y):
        return of_integers(x, y) if x.dtype.kind in "iu" else of_floats(x, y)

    def lower(write, x, y):
        return lowered(formula_of_integers if x.dtype.kind in "iu" else formula)(write, x, y)

    evaluate.of_floats = of_floats
    return evaluate, lower


@primitive
class floor_divide(Floored):
    """The largest whole number that is not above x / y; x / y itself where one of them is infinite."""

    cost = 20
    evaluate, lower = _by_kind(
        floor_of_floats,
        lambda x, y: _down(x, y, _whole_quotient(x, y), _remainder(x, y)),
        _floor,
        lambda x, y: _down(x, y, x / y, np.fmod(x, y)),
    )

    def partials(out, x, y):
        return ZERO, ZERO


@primitive
class remainder(Floored):
    """x - y * floor(x / y), which has the sign of y."""

    cost = 14
    evaluate, lower = _by_kind(np.remainder, np.remainder, _rest, lambda x, y: np.where(y == 0, y, _left(x, y, np.fmod(x, y))))

    def partials(out, x, y):
        return 1, lambda: neg(floor_divide(x, y))
