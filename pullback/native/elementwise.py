"""What each elementwise operation of StableHLO is in instructions, for each kind of number.

Source of what they mean at the ends of their domains: XLA's own code. An integer divided by 0 is -1, and what remains is the
integer; shifts by the width and beyond leave nothing; floats become integers by cutting, at most the nearest there is, NaN 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.native import math as functions
from pullback.native.graph import Refused
from pullback.native.ir import BITS, Code, Value, is_float, is_signed, limits

_HELD = ("f16", "bf16")  # computed in float32, and rounded after each operation

_FLOAT = {"add": "fadd contract", "subtract": "fsub contract", "multiply": "fmul contract", "divide": "fdiv"}
_INTEGER = {"add": "add", "subtract": "sub", "multiply": "mul"}
_LOGIC = {"and": "and", "or": "or", "xor": "xor"}
_OF_BOOLS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
_ROUNDING = {
    "floor": "floor", "ceil": "ceil", "round_nearest_even": "roundeven", "round_nearest_afz": "round", "sqrt": "sqrt",
}  # fmt: skip

WEIGHTS = {"divide": 4.0, "remainder": 20.0, "sqrt": 6.0}


def weight(name: str) -> float:
    """About how many vector instructions an operation takes."""
    return WEIGHTS.get(name) or functions.weight(name)


def is_known(name: str) -> bool:
    return name in _RULES or functions.is_known(name)


def apply(code: Code, name: str, operands: list[Value], params: dict[str, Any], kind: str) -> Value:
    """An operation on numbers, or on vectors of them; a number serves for each lane."""
    lanes = next((value.lanes for value in operands if value.lanes), None)
    operands = [code.spread(value, lanes) for value in operands]
    rule = _RULES.get(name)
    if rule is None:
        out = functions.apply(code, name, operands)
    else:
        out = rule(code, name, operands, params, kind)
    return code.rounded(out, kind) if kind in _HELD and name not in _EXACT else out


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
    none = code.compare("eq", y, code.constant(0, kind, lanes))
    unsafe = none
    if is_signed(kind):
        least = code.compare("eq", x, code.constant(limits(kind)[0], kind, lanes))
        unsafe = code.binary("or", none, code.binary("and", least, code.compare("eq", y, code.constant(-1, kind, lanes))))
    divisor = code.select(unsafe, code.constant(1, kind, lanes), y)
    out = code.binary(f"{'s' if is_signed(kind) else 'u'}{how}", x, divisor)
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
    return code.binary(_LOGIC[name], *operands)


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
    (x,) = operands
    if BITS[x.kind] != BITS[kind] or x.kind in _HELD or kind in _HELD or "i1" in (x.kind, kind):
        raise Refused(f"bits of {x.kind} as {kind}")
    return code.reread(x, kind)


def convert(code: Code, x: Value, kind: str) -> Value:
    """A number as one of another kind."""
    if x.kind == kind:
        return x
    lanes = x.lanes
    if kind == "i1":
        return code.compare("ne", x, code.constant(0, x.kind, lanes))
    to = Value("", kind, lanes).type
    if is_float(x.kind) and is_float(kind):
        if x.kind == "f64" and kind in _HELD:  # by float32 it would be rounded twice
            raise Refused(f"f64 as {kind}")
        if kind == "f64":
            return code.pure(f"fpext {x} to {to}", kind, lanes)
        narrow = x if x.type == to else code.pure(f"fptrunc {x} to {to}", "f32", lanes)
        return code.rounded(narrow, kind) if kind in _HELD else narrow.as_kind(kind)
    if is_float(kind):
        out = code.pure(f"{'sitofp' if is_signed(x.kind) else 'uitofp'} {x} to {to}", kind, lanes)
        return code.rounded(out, kind) if kind in _HELD else out
    if is_float(x.kind):
        spelled = [f"v{lanes}{t}" if lanes else t for t in (f"i{BITS[kind]}", "f64" if x.kind == "f64" else "f32")]
        return code.intrinsic(f"fpto{'s' if is_signed(kind) else 'u'}i.sat", x, kind=kind, of=".".join(spelled))
    return code.convert_integer(x, kind)


def _convert(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    return convert(code, operands[0], kind)


def _power(code: Code, name: str, operands: list[Value], params: Any, kind: str) -> Value:
    """x^y; by multiplications, divisions and a root where y is a known half of a small integer.

    At most three of them are rounded, and none overflows or underflows before the result does.
    """
    x, y = operands
    number = y.number
    if number is None or not is_float(kind) or number * 2 != int(number * 2) or not 0 < abs(number) <= 2:
        return functions.apply(code, name, operands)
    one = code.constant(1, kind, x.lanes)
    whole, half = divmod(abs(number), 1)
    factors = [x] * int(whole)
    if half:
        root = code.intrinsic("sqrt", x)
        if whole:
            endless = code.compare("eq", x, code.constant(-math.inf, kind, x.lanes))
            root = code.select(endless, x, root)  # the sign goes with the other factor
        else:
            root = code.binary("fadd", root, code.constant(0.0, kind, x.lanes))  # (-0)^0.5 is 0
            endless = code.compare("eq", x, code.constant(-math.inf, kind, x.lanes))
            root = code.select(endless, code.constant(math.inf, kind, x.lanes), root)
        factors.append(root)
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
    "convert": _convert,
}

# Their results need no rounding.
_EXACT = {
    "maximum", "minimum", "negate", "abs", "sign", "select", "clamp", "floor", "ceil", "round_nearest_even",
    "round_nearest_afz", "convert", "bitcast_convert",
}  # fmt: skip
