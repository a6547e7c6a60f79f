"""The elementwise primitives as functions: operands of one shape (or 0-d) and one dtype, with Python numbers beside arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback.core.array import Array, ArrayLike, from_python, scalar_kind
from pullback.core.dtypes import RANK, kind
from pullback.core.errors import DtypeError
from pullback.numpy.factories import Binary, Function, Unary, named
from pullback.numpy.promotion import PYTHON_SCALARS, at_user_line, literal_of, operand
from pullback.ops import arithmetic, bitwise, compare, error_functions, exponential, hyperbolic, powers, rounding, trigonometric
from pullback.ops import complex as complexes

F = TypeVar("F")


def lifted(name: str, args: tuple[Any, ...]) -> tuple[Array, ...]:
    """Operands as arrays; Python numbers take the dtype of the first array among them."""
    dtype = next((operand(arg, name).type.dtype for arg in args if arg.__class__ not in PYTHON_SCALARS), None)
    if dtype is None:
        return tuple([from_python(arg) for arg in args])
    for arg in args:
        if arg.__class__ in PYTHON_SCALARS and RANK[scalar_kind(arg)] > RANK[kind(dtype)]:
            raise DtypeError(f"{name} got {arg!r} beside an array of {dtype.name}, which cannot hold it.{at_user_line()}")
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


def _each(make: Callable[[str, Any], F], module: Any, names: str) -> list[F]:
    """The functions of primitives that are called in a module of `ops` what they are called here."""
    return [make(name, getattr(module, name)) for name in names.split()]


add, sub, mul, div, rem, max, min = _each(binary, arithmetic, "add sub mul div rem max min")
eq, ne, lt, le, gt, ge = _each(binary, compare, "eq ne lt le gt ge")
shift_left, shift_right_logical, shift_right_arithmetic = _each(
    binary, bitwise, "shift_left shift_right_logical shift_right_arithmetic"
)
bitwise_and, bitwise_or = binary("bitwise_and", bitwise.and_), binary("bitwise_or", bitwise.or_)
bitwise_xor, bitwise_not = binary("bitwise_xor", bitwise.xor), unary("bitwise_not", bitwise.not_)
pow, atan2, complex = binary("pow", powers.pow), binary("atan2", trigonometric.atan2), binary("complex", complexes.complex)
neg, population_count = unary("neg", arithmetic.neg), unary("population_count", bitwise.population_count)
square, sqrt, rsqrt, cbrt = _each(unary, powers, "square sqrt rsqrt cbrt")
sign, abs, real, imag = _each(unary, complexes, "sign abs real imag")
floor, ceil, is_finite = _each(unary, rounding, "floor ceil is_finite")
exp, exp2, expm1, log, log1p = _each(unary, exponential, "exp exp2 expm1 log log1p")
erf, erfc, erf_inv, lgamma, digamma = _each(unary, error_functions, "erf erfc erf_inv lgamma digamma")
sin, cos, tan, asin, acos, atan = _each(unary, trigonometric, "sin cos tan asin acos atan")
sinh, cosh, tanh, asinh, acosh, atanh, logistic = _each(unary, hyperbolic, "sinh cosh tanh asinh acosh atanh logistic")


def conj(x: ArrayLike) -> Array:
    """The complex conjugate of x; a real x becomes complex, with the imaginary part 0."""
    (x,) = lifted("conj", (x,))
    return complexes.complex(x, literal_of(0, x.type.dtype)) if kind(x.type.dtype) == "f" else complexes.conj(x)


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
