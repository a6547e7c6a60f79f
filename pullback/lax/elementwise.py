"""The elementwise primitives as functions: operands of one shape (or 0-d) and one dtype, with Python numbers beside arrays."""

from __future__ import annotations

from typing import Any

from pullback.core.array import Array, ArrayLike, from_python
from pullback.numpy.factories import Binary, Function, Unary, named
from pullback.numpy.promotion import PYTHON_SCALARS, literal_of, operand
from pullback.ops import arithmetic, bitwise, compare, error_functions, exponential, hyperbolic, powers, rounding, trigonometric
from pullback.ops import complex as complexes


def lifted(name: str, args: tuple[Any, ...]) -> tuple[Array, ...]:
    """Operands as arrays; Python numbers take the dtype of the first array among them."""
    dtype = next((operand(arg, name).type.dtype for arg in args if arg.__class__ not in PYTHON_SCALARS), None)
    if dtype is None:
        return tuple([from_python(arg) for arg in args])
    return tuple([
        literal_of(arg, dtype) if arg.__class__ in PYTHON_SCALARS else operand(arg, name, f"argument {i}")
        for i, arg in enumerate(args)
    ])  # fmt: skip


def _finished(name: str, primitive: Any, function: Function) -> Function:
    text = f"{primitive.__doc__}\n\nOperands have one dtype, and one shape or none; nothing is promoted or broadcast.\n"
    return named(function, name, text, "pullback.lax")


def unary(name: str, primitive: Any) -> Unary:
    """A primitive of one operand as a function that also takes a Python number."""

    def function(x: Any) -> Any:
        return primitive(*lifted(name, (x,)))

    return _finished(name, primitive, function)


def binary(name: str, primitive: Any) -> Binary:
    """A primitive of two operands as a function that also takes Python numbers."""

    def function(x: Any, y: Any) -> Any:
        return primitive(*lifted(name, (x, y)))

    return _finished(name, primitive, function)


add = binary("add", arithmetic.add)
sub = binary("sub", arithmetic.sub)
mul = binary("mul", arithmetic.mul)
div = binary("div", arithmetic.div)
rem = binary("rem", arithmetic.rem)
max = binary("max", arithmetic.max)
min = binary("min", arithmetic.min)
neg = unary("neg", arithmetic.neg)
pow = binary("pow", powers.pow)
square = unary("square", powers.square)
sqrt = unary("sqrt", powers.sqrt)
rsqrt = unary("rsqrt", powers.rsqrt)
cbrt = unary("cbrt", powers.cbrt)
sign = unary("sign", complexes.sign)
abs = unary("abs", complexes.abs)
real = unary("real", complexes.real)
imag = unary("imag", complexes.imag)
conj = unary("conj", complexes.conj)
complex = binary("complex", complexes.complex)
floor = unary("floor", rounding.floor)
ceil = unary("ceil", rounding.ceil)
is_finite = unary("is_finite", rounding.is_finite)
eq = binary("eq", compare.eq)
ne = binary("ne", compare.ne)
lt = binary("lt", compare.lt)
le = binary("le", compare.le)
gt = binary("gt", compare.gt)
ge = binary("ge", compare.ge)
bitwise_and = binary("bitwise_and", bitwise.and_)
bitwise_or = binary("bitwise_or", bitwise.or_)
bitwise_xor = binary("bitwise_xor", bitwise.xor)
bitwise_not = unary("bitwise_not", bitwise.not_)
population_count = unary("population_count", bitwise.population_count)
shift_left = binary("shift_left", bitwise.shift_left)
shift_right_logical = binary("shift_right_logical", bitwise.shift_right_logical)
shift_right_arithmetic = binary("shift_right_arithmetic", bitwise.shift_right_arithmetic)
exp = unary("exp", exponential.exp)
exp2 = unary("exp2", exponential.exp2)
expm1 = unary("expm1", exponential.expm1)
log = unary("log", exponential.log)
log1p = unary("log1p", exponential.log1p)
logistic = unary("logistic", hyperbolic.logistic)
erf = unary("erf", error_functions.erf)
erfc = unary("erfc", error_functions.erfc)
erf_inv = unary("erf_inv", error_functions.erf_inv)
lgamma = unary("lgamma", error_functions.lgamma)
digamma = unary("digamma", error_functions.digamma)
sin = unary("sin", trigonometric.sin)
cos = unary("cos", trigonometric.cos)
tan = unary("tan", trigonometric.tan)
asin = unary("asin", trigonometric.asin)
acos = unary("acos", trigonometric.acos)
atan = unary("atan", trigonometric.atan)
atan2 = binary("atan2", trigonometric.atan2)
sinh = unary("sinh", hyperbolic.sinh)
cosh = unary("cosh", hyperbolic.cosh)
tanh = unary("tanh", hyperbolic.tanh)
asinh = unary("asinh", hyperbolic.asinh)
acosh = unary("acosh", hyperbolic.acosh)
atanh = unary("atanh", hyperbolic.atanh)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The floating-point number next to x1 in the direction of x2."""
    return powers.nextafter(*lifted("nextafter", (x1, x2)))


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to the power of a fixed whole number y."""
    return powers.integer_pow(*lifted("integer_pow", (x,)), y=y)


def round(x: ArrayLike, rounding_method: str = "away_from_zero") -> Array:
    """The nearest whole number; halves go away from zero, or, by "to_nearest_even", to the even one."""
    method = str(getattr(rounding_method, "name", rounding_method)).lower()
    if method not in ("away_from_zero", "to_nearest_even"):
        raise ValueError(f"round's rounding_method is 'away_from_zero' or 'to_nearest_even', not {rounding_method!r}.")
    return rounding.round(*lifted("round", (x,)), rounding_method=method)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x."""
    (x,) = lifted("reciprocal", (x,))
    return arithmetic.div(literal_of(1, x.type.dtype), x)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where the bool array `pred` holds, else on_false."""
    return compare.select(operand(pred, "select"), *lifted("select", (on_true, on_false)))


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """The case that `which` numbers: of two, the first where it is false."""
    which = operand(which, "select_n")
    values = lifted("select_n", cases)
    if which.type.dtype == bool:
        return compare.select(which, values[1], values[0]) if len(values) == 2 else values[0]
    out = values[0]
    for i, value in enumerate(values[1:], 1):
        out = compare.select(compare.ge(which, literal_of(i, which.type.dtype)), value, out)
    return out


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, but no less than `min` and no more than `max`."""
    value = operand(x, "clamp")
    _, low, high = lifted("clamp", (value, min, max))
    return compare.clamp(low, value, high)
