"""The elementwise primitives as functions: operands of one shape (or 0-d) and one dtype, with Python numbers beside arrays."""

from __future__ import annotations

from typing import Any

from pullback.core.array import from_python
from pullback.numpy.factories import Function, named
from pullback.numpy.promotion import PYTHON_SCALARS, literal_of, operand
from pullback.ops import arithmetic, bitwise, compare, error_functions, exponential, hyperbolic, powers, rounding, trigonometric
from pullback.ops import complex as complexes


def lifted(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Operands as arrays; Python numbers take the dtype of the first array among them."""
    dtype = next((operand(arg, name).type.dtype for arg in args if arg.__class__ not in PYTHON_SCALARS), None)
    if dtype is None:
        return tuple([from_python(arg) for arg in args])
    return tuple([
        literal_of(arg, dtype) if arg.__class__ in PYTHON_SCALARS else operand(arg, name, f"argument {i}")
        for i, arg in enumerate(args)
    ])  # fmt: skip


def elementwise(name: str, primitive: Any) -> Function:
    """A primitive as a function that also takes Python numbers."""

    def function(*args: Any) -> Any:
        return primitive(*lifted(name, args))

    text = f"{primitive.__doc__}\n\nOperands have one dtype, and one shape or none; nothing is promoted or broadcast.\n"
    return named(function, name, text, "pullback.lax")


add = elementwise("add", arithmetic.add)
sub = elementwise("sub", arithmetic.sub)
mul = elementwise("mul", arithmetic.mul)
div = elementwise("div", arithmetic.div)
rem = elementwise("rem", arithmetic.rem)
max = elementwise("max", arithmetic.max)
min = elementwise("min", arithmetic.min)
neg = elementwise("neg", arithmetic.neg)
pow = elementwise("pow", powers.pow)
square = elementwise("square", powers.square)
sqrt = elementwise("sqrt", powers.sqrt)
rsqrt = elementwise("rsqrt", powers.rsqrt)
cbrt = elementwise("cbrt", powers.cbrt)
nextafter = elementwise("nextafter", powers.nextafter)
sign = elementwise("sign", complexes.sign)
abs = elementwise("abs", complexes.abs)
real = elementwise("real", complexes.real)
imag = elementwise("imag", complexes.imag)
conj = elementwise("conj", complexes.conj)
complex = elementwise("complex", complexes.complex)
floor = elementwise("floor", rounding.floor)
ceil = elementwise("ceil", rounding.ceil)
is_finite = elementwise("is_finite", rounding.is_finite)
eq = elementwise("eq", compare.eq)
ne = elementwise("ne", compare.ne)
lt = elementwise("lt", compare.lt)
le = elementwise("le", compare.le)
gt = elementwise("gt", compare.gt)
ge = elementwise("ge", compare.ge)
bitwise_and = elementwise("bitwise_and", bitwise.and_)
bitwise_or = elementwise("bitwise_or", bitwise.or_)
bitwise_xor = elementwise("bitwise_xor", bitwise.xor)
bitwise_not = elementwise("bitwise_not", bitwise.not_)
population_count = elementwise("population_count", bitwise.population_count)
shift_left = elementwise("shift_left", bitwise.shift_left)
shift_right_logical = elementwise("shift_right_logical", bitwise.shift_right_logical)
shift_right_arithmetic = elementwise("shift_right_arithmetic", bitwise.shift_right_arithmetic)
exp = elementwise("exp", exponential.exp)
exp2 = elementwise("exp2", exponential.exp2)
expm1 = elementwise("expm1", exponential.expm1)
log = elementwise("log", exponential.log)
log1p = elementwise("log1p", exponential.log1p)
logistic = elementwise("logistic", exponential.logistic)
erf = elementwise("erf", error_functions.erf)
erfc = elementwise("erfc", error_functions.erfc)
erf_inv = elementwise("erf_inv", error_functions.erf_inv)
lgamma = elementwise("lgamma", error_functions.lgamma)
digamma = elementwise("digamma", error_functions.digamma)
sin = elementwise("sin", trigonometric.sin)
cos = elementwise("cos", trigonometric.cos)
tan = elementwise("tan", trigonometric.tan)
asin = elementwise("asin", trigonometric.asin)
acos = elementwise("acos", trigonometric.acos)
atan = elementwise("atan", trigonometric.atan)
atan2 = elementwise("atan2", trigonometric.atan2)
sinh = elementwise("sinh", hyperbolic.sinh)
cosh = elementwise("cosh", hyperbolic.cosh)
tanh = elementwise("tanh", hyperbolic.tanh)
asinh = elementwise("asinh", hyperbolic.asinh)
acosh = elementwise("acosh", hyperbolic.acosh)
atanh = elementwise("atanh", hyperbolic.atanh)


def integer_pow(x: Any, y: int) -> Any:
    """x to the power of a fixed whole number y."""
    return powers.integer_pow(*lifted("integer_pow", (x,)), y=y)


def round(x: Any, rounding_method: str = "away_from_zero") -> Any:
    """The nearest whole number; halves go away from zero, or, by "to_nearest_even", to the even one."""
    return rounding.round(*lifted("round", (x,)), rounding_method=rounding_method)


def reciprocal(x: Any) -> Any:
    """1 / x."""
    (x,) = lifted("reciprocal", (x,))
    return arithmetic.div(literal_of(1, x.type.dtype), x)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """on_true where the bool array `pred` holds, else on_false."""
    return compare.select(operand(pred, "select"), *lifted("select", (on_true, on_false)))


def select_n(which: Any, *cases: Any) -> Any:
    """The case that `which` numbers: of two, the first where it is false."""
    which = operand(which, "select_n")
    values = lifted("select_n", cases)
    if which.type.dtype == bool:
        return compare.select(which, values[1], values[0]) if len(values) == 2 else values[0]
    out = values[0]
    for i, value in enumerate(values[1:], 1):
        out = compare.select(compare.ge(which, literal_of(i, which.type.dtype)), value, out)
    return out


def clamp(min: Any, x: Any, max: Any) -> Any:
    """x, but no less than `min` and no more than `max`."""
    x = operand(x, "clamp")
    low, value, high = lifted("clamp", (x, min, max))[1], x, lifted("clamp", (x, min, max))[2]
    return compare.clamp(low, value, high)
