"""Functions of floating-point numbers as vector code for any number of lanes. Each is written once a module, and called.

Where the processor flushes denormal numbers, as it does in compiled code, such arguments count as zeros, and results are zeros
or, of functions that are about x there, x itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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


@dataclass(frozen=True)
class Function:
    """How a function is written.

    Attributes:
        rule: takes and returns Lanes.
        weight: about how many instructions a vector of float64 takes.
        ulps: the greatest error in float64 and in float32, in units in the last place.
        in_double: with which arguments besides the rule computes in float64 where it is to give float32; None: it computes in
            float32 itself.
        short: the rule that does so, if it is another one.
        inline: whether it is so short that it is written where it is used.
        exact: whether it takes 16-bit numbers as what they are, not as float32.
    """

    rule: Callable[..., Lanes]
    weight: float
    ulps: tuple[float, float]
    in_double: Mapping[str, Any] | None = None
    short: Callable[..., Lanes] | None = None
    inline: bool = False
    exact: bool = False

    def __call__(self, *operands: Lanes) -> Lanes:
        if operands[0].kind == "f64" or self.in_double is None:
            return self.rule(*operands)
        rule = self.short or self.rule
        return rule(*[x.converted("f64") for x in operands], **self.in_double).converted("f32")


_DOUBLE: Mapping[str, Any] = {}
_LESS_PRECISE = {"precise": "f32"}
FUNCTIONS: dict[str, Function] = {
    "exponential": Function(elementary.exp, 30, (1.5, 1.5)),
    "exponential_minus_one": Function(elementary.expm1, 43, (2.5, 1.5)),
    "log": Function(elementary.log, 42, (1.5, 1.5)),
    "log_plus_one": Function(elementary.log1p, 50, (1.5, 1.5)),
    "logistic": Function(elementary.logistic, 56, (2.5, 1.5)),
    "tanh": Function(elementary.tanh, 60, (1.5, 1.5)),
    "sine": Function(elementary.sin, 53, (1.5, 1.5)),
    "cosine": Function(elementary.cos, 51, (1.5, 1.5)),
    "tan": Function(elementary.tan, 75, (1.5, 1.0), _DOUBLE),
    "cbrt": Function(elementary.cbrt, 57, (1.0, 1.0), _DOUBLE),
    "power": Function(elementary.power, 149, (1.5, 1.0), {"exact": False}),
    "atan2": Function(elementary.atan2, 55, (2.2, 1.0), _LESS_PRECISE),
    "sqrt": Function(elementary.sqrt, 20, (0.5, 0.5), inline=True),
    "rsqrt": Function(elementary.rsqrt, 28, (1.5, 1.5), inline=True),
    "remainder": Function(elementary.remainder, 24, (0.0, 0.0), _DOUBLE),
    "chlo.acos": Function(elementary.acos, 78, (3.0, 1.0), _LESS_PRECISE),
    "chlo.acosh": Function(elementary.acosh, 80, (3.0, 1.0), _DOUBLE),
    "chlo.asin": Function(elementary.asin, 78, (3.0, 1.0), _LESS_PRECISE),
    "chlo.asinh": Function(elementary.asinh, 88, (3.0, 1.0), _DOUBLE),
    "chlo.atan": Function(elementary.atan, 55, (2.2, 1.0), _LESS_PRECISE),
    "chlo.atanh": Function(elementary.atanh, 63, (3.0, 1.0), _DOUBLE),
    "chlo.cosh": Function(elementary.cosh, 41, (2.0, 1.0), _DOUBLE),
    "chlo.digamma": Function(special.digamma, 140, (2.5, 1.0), _DOUBLE),
    "chlo.erf": Function(special.erf, 76, (1.5, 1.5)),
    "chlo.erf_inv": Function(special.erf_inv, 79, (4.0, 1.0), _DOUBLE),
    "chlo.erfc": Function(special.erfc, 131, (2.5, 1.0), _DOUBLE, special.short_erfc),
    "chlo.lgamma": Function(special.lgamma, 190, (2.5, 1.0), _DOUBLE),
    "chlo.next_after": Function(next_after, 22, (0.0, 0.0), exact=True),
    "chlo.sinh": Function(elementary.sinh, 55, (2.5, 1.0), _DOUBLE),
}
_EXP2 = Function(elementary.exp2, 28, (1.5, 1.5))  # power, of the base 2


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

    def write(code: Code, operands: Sequence[Value]) -> Value:
        return function(*[Lanes(code, x) for x in operands]).value

    given = [code.spread(x, lanes).as_kind(held) for x in operands]
    if function.inline:
        return write(code, given).as_kind(kind)
    if lanes is None:
        return code.call_inside(name, write, given).as_kind(kind)
    most = 2 * code.module.vector_bytes // size_of(held)  # lanes of one call: their intermediate values shall fit in registers
    parts = [range(i, min(i + most, lanes)) for i in range(0, lanes, most)]
    outs = [code.call_inside(name, write, [code.shuffle(x, part) for x in given]) for part in parts]
    return code.joined(outs).as_kind(kind)
