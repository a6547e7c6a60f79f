"""Functions of floating-point numbers as vector code for any number of lanes. Each is written once a module, and called.

Where the processor flushes denormal numbers, as it does in compiled code, such arguments count as zeros, and results are zeros
or, of functions that are about x there, x itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.native import elementary, special
from pullback.native.ir import Code, Value, size_of
from pullback.native.lanes import Lanes, where


def next_after(x: Lanes, y: Lanes) -> Lanes:
    """The number of x's dtype next to x on the way to y; by the bits, in whose order the numbers are, so that the least are
    there too."""

    def order(x: Lanes) -> Lanes:
        """An integer that grows with x."""
        bits = x.bits()
        return where(bits < 0, _sign_bit(bits) - bits, bits)

    from_, to = order(x), order(y)
    after = where(from_ < to, from_ + 1, from_ - 1)
    bits = where(after < 0, _sign_bit(after) - after, after)
    bits = where(after.equals(0), x.bits() & _sign_bit(after), bits)
    bits = where(from_.equals(to), y.bits(), bits)
    return where(x.is_nan() | y.is_nan(), math.nan, bits.reread(x.kind))


def _sign_bit(bits: Lanes) -> int:
    return -(1 << int(bits.kind[1:]) - 1)


def _in_double(rule: Callable[..., Lanes], **how: Any) -> Callable[..., Lanes]:
    """A rule of float32 that computes in float64."""

    def converted(*operands: Lanes) -> Lanes:
        return rule(*[x.converted("f64") for x in operands], **how).converted("f32")

    return converted


@dataclass(frozen=True)
class Function:
    """How a function is written.

    Attributes:
        of_f64, of_f32: rules that take and return Lanes.
        weight: about how many instructions a vector of float64 takes.
        ulps: the greatest error in float64 and in float32, in units in the last place.
        inline: whether it is so short that it is written where it is used.
        exact: whether it takes 16-bit numbers as what they are, not as float32.
    """

    of_f64: Callable[..., Lanes]
    of_f32: Callable[..., Lanes]
    weight: float
    ulps: tuple[float, float]
    inline: bool = False
    exact: bool = False


_SHORT = {"precise": "f32"}
FUNCTIONS: dict[str, Function] = {
    "exponential": Function(elementary.exp, elementary.exp, 30, (1.5, 1.5)),
    "exponential_minus_one": Function(elementary.expm1, elementary.expm1, 43, (2.5, 1.5)),
    "log": Function(elementary.log, elementary.log, 42, (1.5, 1.5)),
    "log_plus_one": Function(elementary.log1p, elementary.log1p, 50, (1.5, 1.5)),
    "logistic": Function(elementary.logistic, elementary.logistic, 56, (2.5, 1.5)),
    "tanh": Function(elementary.tanh, elementary.tanh, 60, (1.5, 1.5)),
    "sine": Function(elementary.sin, elementary.sin, 53, (1.5, 1.5)),
    "cosine": Function(elementary.cos, elementary.cos, 51, (1.5, 1.5)),
    "tan": Function(elementary.tan, _in_double(elementary.tan), 75, (1.5, 1.0)),
    "cbrt": Function(elementary.cbrt, _in_double(elementary.cbrt), 57, (1.0, 1.0)),
    "power": Function(elementary.power, _in_double(elementary.power, exact=False), 149, (1.5, 1.0)),
    "atan2": Function(elementary.atan2, _in_double(elementary.atan2, **_SHORT), 55, (2.2, 1.0)),
    "sqrt": Function(elementary.sqrt, elementary.sqrt, 20, (0.5, 0.5), inline=True),
    "rsqrt": Function(elementary.rsqrt, elementary.rsqrt, 28, (1.5, 1.5), inline=True),
    "remainder": Function(elementary.remainder, _in_double(elementary.remainder), 24, (0.0, 0.0)),
    "chlo.acos": Function(elementary.acos, _in_double(elementary.acos, **_SHORT), 78, (3.0, 1.0)),
    "chlo.acosh": Function(elementary.acosh, _in_double(elementary.acosh), 80, (3.0, 1.0)),
    "chlo.asin": Function(elementary.asin, _in_double(elementary.asin, **_SHORT), 78, (3.0, 1.0)),
    "chlo.asinh": Function(elementary.asinh, _in_double(elementary.asinh), 88, (3.0, 1.0)),
    "chlo.atan": Function(elementary.atan, _in_double(elementary.atan, **_SHORT), 55, (2.2, 1.0)),
    "chlo.atanh": Function(elementary.atanh, _in_double(elementary.atanh), 63, (3.0, 1.0)),
    "chlo.cosh": Function(elementary.cosh, _in_double(elementary.cosh), 41, (2.0, 1.0)),
    "chlo.digamma": Function(special.digamma, _in_double(special.digamma), 140, (2.5, 1.0)),
    "chlo.erf": Function(special.erf, special.erf, 76, (1.5, 1.5)),
    "chlo.erf_inv": Function(special.erf_inv, _in_double(special.erf_inv), 79, (4.0, 1.0)),
    "chlo.erfc": Function(special.erfc, _in_double(special.short_erfc), 131, (2.5, 1.0)),
    "chlo.lgamma": Function(special.lgamma, _in_double(special.lgamma), 190, (2.5, 1.0)),
    "chlo.next_after": Function(next_after, next_after, 22, (0.0, 0.0), exact=True),
    "chlo.sinh": Function(elementary.sinh, _in_double(elementary.sinh), 55, (2.5, 1.0)),
}
_EXP2 = Function(elementary.exp2, elementary.exp2, 28, (1.5, 1.5))  # power, of the base 2


def is_known(name: str) -> bool:
    return name in FUNCTIONS


def weight(name: str) -> float:
    """About how many vector instructions a function takes."""
    return FUNCTIONS[name].weight if name in FUNCTIONS else 1.0


def apply(code: Code, name: str, operands: Sequence[Value]) -> Value:
    """The function `name`, in StableHLO's words, of operands of one floating-point kind. What it is of float16 and bfloat16 the
    caller rounds."""
    function = FUNCTIONS[name]
    if name == "power" and operands[0].number == 2:
        name, function, operands = "exp2", _EXP2, operands[1:]
    kind, lanes = operands[0].kind, max([x.lanes or 0 for x in operands]) or None
    held = kind if kind in elementary.MANTISSA or function.exact else "f32"
    rule = function.of_f64 if kind == "f64" else function.of_f32

    def write(code: Code, operands: Sequence[Value]) -> Value:
        return rule(*[Lanes(code, x) for x in operands]).value

    given = [code.spread(x, lanes).as_kind(held) for x in operands]
    if function.inline:
        return write(code, given).as_kind(kind)
    if lanes is None:
        return code.call_inside(name, write, given).as_kind(kind)
    most = 2 * code.module.vector_bytes // size_of(held)  # lanes of one call: their intermediate values shall fit in registers
    parts = [range(i, min(i + most, lanes)) for i in range(0, lanes, most)]
    outs = [code.call_inside(name, write, [code.shuffle(x, part) for x in given]) for part in parts]
    return code.joined(outs).as_kind(kind)
