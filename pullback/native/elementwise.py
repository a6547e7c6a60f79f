"""What each elementwise operation of StableHLO is in instructions, for each kind of number.

Source of what they mean at the ends of their domains: XLA's own code. An integer divided by 0 is -1, and what remains is the
integer; shifts by the width and beyond leave nothing; floats become integers by cutting, at most the nearest there is, NaN 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from pullback.native import math as functions
from pullback.native.elementary import inverse_root
from pullback.native.graph import Refused
from pullback.native.ir import BITS, Code, Value, is_float, is_signed, limits, size_of
from pullback.native.lanes import Lanes

_HELD = ("f16", "bf16")  # computed in float32, and rounded after each operation

_FLOAT = {"add": "fadd contract", "subtract": "fsub contract", "multiply": "fmul contract", "divide": "fdiv"}
_INTEGER = {"add": "add", "subtract": "sub", "multiply": "mul"}
_LOGIC = ("and", "or", "xor")
_OF_BOOLS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
_ROUNDING = {
    "floor": "floor", "ceil": "ceil", "round_nearest_even": "roundeven", "round_nearest_afz": "round", "sqrt": "sqrt",
}  # fmt: skip

WEIGHTS = {"divide": 4.0, "remainder": 20.0, "sqrt": 10.0}


def weight(name: str) -> float:
    """About how many vector instructions an operation takes."""
    return WEIGHTS.get(name) or functions.weight(name)


def is_known(name: str) -> bool:
    return name in _RULES or functions.is_known(name)


def apply(code: Code, name: str, operands: list[Value], params: dict[str, Any], kind: str) -> Value:
    """An operation on numbers, or on vectors of them; a number serves for each lane."""
    operands = alike(code, *operands)
    rule = _RULES.get(name)
    if rule is None:
        out = functions.apply(code, name, operands)
    else:
        out = rule(code, name, operands, params, kind)
    return code.rounded(out, kind) if kind in _HELD and name not in _EXACT else out


def alike(code: Code, *values: Value) -> list[Value]:
    """Values with as many lanes as those have that are vectors."""
    lanes = next((value.lanes for value in values if value.lanes), None)
    return [code.spread(value, lanes) for value in values]


def _arithmetic(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    x, y = operands
    if kind == "i1":
        return code.binary(_OF_BOOLS[name], x, y)
    if is_float(kind):
        return code.binary(_FLOAT[name], x, y)
    if name in _INTEGER:
        return code.binary(_INTEGER[name], x, y)
    return _quotient(code, "div", x, y, code.constant(-1, kind, x.lanes))


def _quotient(code: Code, how: str, x: Value, y: Value, of_zero: Value) -> Value:
    """A quotient or remainder of integers; the machine's would end the process where y is 0, or the result too large."""
    kind, lanes = x.kind, x.lanes
    how = f"{'s' if is_signed(kind) else 'u'}{how}"
    if y.number not in (None, 0, -1):
        return code.binary(how, x, y)
    none = code.compare("eq", y, code.constant(0, kind, lanes))
    unsafe = none
    if is_signed(kind):
        least = code.compare("eq", x, code.constant(limits(kind)[0], kind, lanes))
        unsafe = code.binary("or", none, code.binary("and", least, code.compare("eq", y, code.constant(-1, kind, lanes))))
    divisor = code.select(unsafe, code.constant(1, kind, lanes), y)
    out = code.binary(how, x, divisor)
    return code.select(none, of_zero, out)


def _remainder(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    if is_float(kind):
        return functions.apply(code, name, operands)
    x, y = operands
    return _quotient(code, "rem", x, y, x)


def _extreme(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    if kind == "i1":
        return code.binary(_OF_BOOLS[name], *operands)
    short = name[:3]
    return code.intrinsic(name if is_float(kind) else f"{'s' if is_signed(kind) else 'u'}{short}", *operands)


def _logical(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    return code.binary(name, *operands)


def _not(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    return code.binary("xor", operands[0], code.constant(1 if kind == "i1" else -1, kind, operands[0].lanes))


def _shift(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    x, by = operands
    bits = BITS[kind]
    how = {"shift_left": "shl", "shift_right_logical": "lshr", "shift_right_arithmetic": "ashr"}[name]
    if by.number is not None and 0 <= by.number < bits:
        return code.binary(how, x, by)
    unsigned = by.as_kind(f"u{bits}")
    beyond = code.compare("ge", unsigned, code.constant(bits, f"u{bits}", x.lanes))
    most = code.constant(bits - 1, kind, x.lanes)
    if how == "ashr":
        return code.binary(how, x, code.select(beyond, most, by))
    return code.select(beyond, code.constant(0, kind, x.lanes), code.binary(how, x, code.select(beyond, most, by)))


def _negate(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    (x,) = operands
    if is_float(kind):
        return code.pure(f"fneg {x}", kind, x.lanes)
    return code.binary("sub", code.constant(0, kind, x.lanes), x)


def _abs(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    (x,) = operands
    if is_float(kind):
        return code.intrinsic("fabs", x)
    return code.intrinsic("abs", x, extra="i1 false") if is_signed(kind) else x


def _sign(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    (x,) = operands
    zero, one = code.constant(0, kind, x.lanes), code.constant(1, kind, x.lanes)
    if is_float(kind):
        ordered = code.compare("ne", x, zero)
        nan = code.compare("ne", x, x)
        kept = code.binary("or", nan, code.binary("xor", ordered, code.constant(1, "i1", x.lanes)))
        return code.select(kept, x, code.intrinsic("copysign", one, x))
    positive = code.select(code.compare("ne", x, zero), one, zero)
    if not is_signed(kind):
        return positive
    return code.select(code.compare("lt", x, zero), code.constant(-1, kind, x.lanes), positive)


def _compare(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    return code.compare(params["predicate"], *operands)


def _select(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    return code.select(*operands)


def _clamp(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    low, x, high = operands
    return _extreme(code, "minimum", [_extreme(code, "maximum", [x, low], None, kind), high], None, kind)


def _is_finite(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    (x,) = operands
    return code.compare("lt", code.intrinsic("fabs", x), code.constant(math.inf, x.kind, x.lanes))


def _rounding(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    return code.intrinsic(_ROUNDING[name], operands[0])


def _bits(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    (x,) = operands
    return code.intrinsic("ctpop", x) if name == "popcnt" else code.intrinsic("ctlz", x, extra="i1 false")


def _bitcast(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    return code.bitcast(operands[0], kind)


def _reduce_precision(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    """Rounded to fewer bits, half to even; what is subnormal in them is 0, what is too large infinite."""
    (x,) = operands
    if kind == "f16":
        raise Refused("reduce_precision of float16, which is held as float32")
    wide, (digits, bias) = ("f64", (52, 1023)) if kind == "f64" else ("f32", (23, 127))
    word, lanes = f"u{8 * size_of(wide)}", x.lanes
    exponent, mantissa = params["exponent_bits"], params["mantissa_bits"]

    def number(value: int) -> Value:
        return code.constant(value, word, lanes)

    raw = code.reread(x.as_kind(wide), word)
    size = code.binary("and", raw, number((1 << digits + (11 if wide == "f64" else 8)) - 1))
    sign = code.binary("xor", raw, size)
    if (drop := digits - mantissa) > 0:
        odd = code.binary("and", code.binary("lshr", size, number(drop)), number(1))
        up = code.binary("add", size, code.binary("add", odd, number((1 << drop - 1) - 1)))
        size = code.binary("and", up, number(-1 << drop))
    top = (1 << exponent - 1) - 1
    if top < bias:
        infinite = number((2 * bias + 1) << digits)
        size = code.select(code.compare("gt", size, number(((bias + top + 1) << digits) - 1)), infinite, size)
        size = code.select(code.compare("lt", size, number((bias - top + 1) << digits)), number(0), size)
    out = code.reread(code.binary("or", size, sign), wide).as_kind(kind)
    return code.select(code.compare("ne", x, x), x, out)


def _to_odd(code: Code, x: Value) -> Value:
    """float64 as float32, cut, and its last bit set if anything is lost: rounded further, it is rounded once. Source: Boldo and
    Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd" (2008)."""
    lanes = x.lanes
    near = code.pure(f"fptrunc {x} to {Value('', 'f32', lanes).type}", "f32", lanes)
    back = code.pure(f"fpext {near} to {x.type}", "f64", lanes)
    above = code.compare("gt", code.intrinsic("fabs", back), code.intrinsic("fabs", x))
    lost = code.compare("ne", back, x)
    bits = code.reread(near, "u32")
    type = Value("", "u32", lanes).type
    cut = code.binary("sub", bits, code.pure(f"zext {above} to {type}", "u32", lanes))
    return code.reread(code.binary("or", cut, code.pure(f"zext {lost} to {type}", "u32", lanes)), "f32")


def convert(code: Code, x: Value, kind: str) -> Value:
    """A number as one of another kind."""
    if x.kind == kind:
        return x
    lanes = x.lanes
    if kind == "i1":
        return code.compare("ne", x, code.constant(0, x.kind, lanes))
    to = Value("", kind, lanes).type
    if is_float(x.kind) and is_float(kind):
        if x.kind == "f64" and kind in _HELD:
            x = _to_odd(code, x)
        if kind == "f64":
            return code.pure(f"fpext {x} to {to}", kind, lanes)
        narrow = x if x.type == to else code.pure(f"fptrunc {x} to {to}", "f32", lanes)
        return code.rounded(narrow, kind) if kind in _HELD else narrow.as_kind(kind)
    if is_float(kind):
        out = code.pure(f"{'sitofp' if is_signed(x.kind) else 'uitofp'} {x} to {to}", kind, lanes)
        return code.rounded(out, kind) if kind in _HELD else out
    if is_float(x.kind):
        return _cut(code, x, kind)
    return code.convert_integer(x, kind)


def _cut(code: Code, x: Value, kind: str) -> Value:
    """A float without its fraction, as an integer: the nearest there is, 0 for NaN. LLVM's instruction for that takes vectors
    apart on x86."""
    lanes = x.lanes
    least, most = limits(kind)
    low, end = [code.constant(number, x.kind, lanes) for number in (least, most + 1)]  # powers of two, or 0
    above, below = code.compare("ge", x, end), code.compare("lt", x, low)
    inside = code.binary("and", code.compare("ge", x, low), code.compare("lt", x, end))
    usual = code.select(inside, x, code.constant(0, x.kind, lanes))
    how = "fptosi" if is_signed(kind) else "fptoui"
    out = code.pure(f"{how} {usual} to {Value('', kind, lanes).type}", kind, lanes)
    out = code.select(below, code.constant(least, kind, lanes), out)
    return code.select(above, code.constant(most, kind, lanes), out)


def _convert(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    return convert(code, operands[0], kind)


def _power(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    """x^y; by multiplications, divisions and a root where y is a known half of a small integer.

    At most three of them are rounded, and none overflows or underflows before the result does.
    """
    x, y = operands
    number = y.number
    if number is None or not is_float(kind) or abs(number) not in (0.5, 1.0, 1.5, 2.0):
        return functions.apply(code, name, operands)
    if number in (-0.5, -1.5) and kind not in _HELD:
        plain = functools.partial(_product_power, code, x, number, kind)
        return inverse_root(Lanes(code, x), lambda: Lanes(code, plain()), int(-2 * number)).value
    return _product_power(code, x, number, kind)


def _product_power(code: Code, x: Value, number: float, kind: str) -> Value:
    """x^y by multiplications, divisions and a root."""
    one = code.constant(1, kind, x.lanes)
    whole, half = divmod(abs(number), 1)
    factors = [x] * int(whole)
    if half:
        root, of_endless = code.intrinsic("sqrt", x), x  # the sign goes with the other factor
        if not whole:
            root = code.binary("fadd", root, code.constant(0.0, kind, x.lanes))  # (-0)^0.5 is 0
            of_endless = code.constant(math.inf, kind, x.lanes)
        endless = code.compare("eq", x, code.constant(-math.inf, kind, x.lanes))
        factors.append(code.select(endless, of_endless, root))
    out = one if number < 0 else factors.pop()
    for factor in factors:
        out = code.binary("fdiv" if number < 0 else "fmul", out, factor)
    return out


_RULES: dict[str, Callable[[Code, str, list[Value], Any, str], Value]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide"), _arithmetic),
    "remainder": _remainder,
    **dict.fromkeys(("maximum", "minimum"), _extreme),
    **dict.fromkeys(_LOGIC, _logical),
    "not": _not,
    **dict.fromkeys(("shift_left", "shift_right_logical", "shift_right_arithmetic"), _shift),
    "negate": _negate,
    "abs": _abs,
    "sign": _sign,
    "compare": _compare,
    "select": _select,
    "clamp": _clamp,
    "is_finite": _is_finite,
    "power": _power,
    **dict.fromkeys(_ROUNDING, _rounding),
    **dict.fromkeys(("popcnt", "count_leading_zeros"), _bits),
    "bitcast_convert": _bitcast,
    "reduce_precision": _reduce_precision,
    "convert": _convert,
}

# Their results need no rounding.
_EXACT = {
    "maximum", "minimum", "negate", "abs", "sign", "select", "clamp", "floor", "ceil", "round_nearest_even",
    "round_nearest_afz", "convert", "bitcast_convert",
}  # fmt: skip
