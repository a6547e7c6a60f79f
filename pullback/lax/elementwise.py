"""The elementwise primitives as functions: operands of one dtype, and of one shape (but for axes of size 1) or 0-d."""

from __future__ import annotations

from operator import index
from typing import Any

from pullback.core.array import Array, ArrayLike, from_python, scalar_kind
from pullback.core.brief import brief
from pullback.core.dtypes import DTYPES, RANK, DTypeLike, canonical, entering, in_words, is_inexact, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.precision import AccuracyMode, Tolerance
from pullback.numpy.factories import Binary, Function, Unary, named, sections
from pullback.numpy.promotion import PYTHON_SCALARS, at_user_line, broadcast, in_dtype, literal_of, operand
from pullback.ops import (
    arithmetic,
    bitwise,
    compare,
    convert,
    error_functions,
    exponential,
    gamma_functions,
    hyperbolic,
    powers,
    rounding,
    trigonometric,
)
from pullback.ops import complex as complexes
from pullback.ops.literals import within


def lifted(name: str, args: tuple[Any, ...]) -> tuple[Array, ...]:
    """Operands as arrays; Python numbers take the dtype of the first array among them."""
    dtype = next((operand(arg, name).type.dtype for arg in args if arg.__class__ not in PYTHON_SCALARS), None)
    if dtype is None:
        return tuple([from_python(arg) for arg in args])
    for arg in args:
        # nothing is converted here: an integer that is too large is refused also where the mode would cut it
        if arg.__class__ in PYTHON_SCALARS and (RANK[scalar_kind(arg)] > RANK[kind(dtype)] or within(arg, dtype) is not arg):
            raise DtypeError(
                f"{name} got {brief(arg)} beside an array of {dtype.name}, which cannot hold it. Convert one of them"
                f" (.astype).{at_user_line()}"
            )
    return tuple([
        literal_of(arg, dtype) if arg.__class__ in PYTHON_SCALARS else operand(arg, name, f"argument {i}")
        for i, arg in enumerate(args)
    ])  # fmt: skip


def fitted(name: str, args: tuple[Any, ...]) -> tuple[Array, ...]:
    """As `lifted`, for elementwise operations: of arrays of as many axes, those of size 1 are stretched."""
    arrays = lifted(name, args)
    shapes = {array.type.shape for array in arrays} - {()}
    if len(shapes) < 2 or len({len(shape) for shape in shapes}) > 1:
        return arrays
    sizes = [set(axis) - {1} for axis in zip(*shapes)]
    if any([len(size) > 1 for size in sizes]):
        return arrays  # which the operation refuses
    whole = tuple([size.pop() if size else 1 for size in sizes])
    return tuple([array if array.type.shape in ((), whole) else broadcast(array, whole) for array in arrays])


def _finished(primitive: Any, function: Function, name: str, relaxed: str, example: str, result: str) -> Function:
    """The function with its documentation: the primitive's, what all of these functions share, and an example.

    Arguments:
        relaxed: the function of `pullback.numpy` that is the same for operands that need not fit; "" if there is none.
        result: what is to be said of the result's dtype.
    """
    kinds = "" if primitive.kinds == "biufc" else f" ({in_words(primitive.kinds)})"
    of_others = ", or are others" if kinds else ""
    if function.__code__.co_argcount == 1:
        operands, conversion = f"x: an array{kinds} of any shape, or a number.", "no conversion"
        if name in _TUNED:
            operands += "\n        accuracy: checked, and without effect: there is one way, to a few units in the last place."
        errors = ["LeafError: x is neither an array nor a number."]
        errors += ["DtypeError: x is of another dtype."] if kinds else []
    else:
        operands = (
            f"x, y: arrays of one dtype{kinds} and of one shape, but for axes of size 1, or 0-d; a Python number takes the"
            " other's\n            dtype."
        )
        conversion = "no promotion, and no new axes"
        errors = ["LeafError: x or y is neither an array nor a number.", f"DtypeError: their dtypes differ{of_others}."]
        errors += ["ShapeError: their shapes differ."]
    counterpart = f"\n\n    As `pullback.numpy.{relaxed}`, of operands that need {conversion}." if relaxed else ""
    doc = f"{primitive.__doc__}{counterpart}\n\n    Example:{example}"
    return named(function, name, doc, sections(operands, f"An array of the same shape, {result}.", errors), "pullback.lax")


def unary(name: str, primitive: Any, relaxed: str, example: str, result: str = "in the dtype of x") -> Unary:
    """A primitive of one operand as a function that also takes a Python number, and `accuracy` where JAX's does."""

    def function(x: Any) -> Any:
        return primitive(*lifted(name, (x,)))

    def tuned(x: Any, *, accuracy: Any = None) -> Any:
        if accuracy is not None and not isinstance(accuracy, (AccuracyMode, Tolerance)):
            raise TypeError(
                f"{name} takes a lax.AccuracyMode or lax.Tolerance as accuracy, not {brief(accuracy)}.{at_user_line()}"
            )
        return primitive(*lifted(name, (x,)))

    return _finished(primitive, tuned if name in _TUNED else function, name, relaxed, example, result)


_TUNED = frozenset(["cbrt", "cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt", "tan", "tanh"])


def binary(name: str, primitive: Any, relaxed: str, example: str, result: str = "in their dtype") -> Binary:
    """A primitive of two operands as a function that also takes Python numbers."""

    def function(x: Any, y: Any) -> Any:
        return primitive(*fitted(name, (x, y)))

    return _finished(primitive, function, name, relaxed, example, result)


# fmt: off
# ---- numbers -----------------------------------------------------------------------------------------------------------
add = binary("add", arithmetic.add, "add", """
        >>> lax.add(pnp.array([1, 2]), 3)
        [4 5]:i32[2]:cpu(0)
        >>> lax.add(True, True)
        True:bool[]:cpu(0)
    """)
sub = binary("sub", arithmetic.sub, "subtract", """
        >>> lax.sub(pnp.array([1, 2]), 3)
        [-2 -1]:i32[2]:cpu(0)
    """)
div = binary("div", arithmetic.div, "", """
        >>> lax.div(pnp.array([7, -7]), 2)
        [ 3 -3]:i32[2]:cpu(0)
        >>> pnp.divide(pnp.array([7, -7]), 2), pnp.floor_divide(pnp.array([7, -7]), 2)
        ([ 3.5 -3.5]:f32[2]:cpu(0), [ 3 -4]:i32[2]:cpu(0))
    """)
rem = binary("rem", arithmetic.rem, "fmod", """
        >>> lax.rem(pnp.array([7, -7]), 3)
        [ 1 -1]:i32[2]:cpu(0)
        >>> pnp.remainder(pnp.array([7, -7]), 3)
        [1 2]:i32[2]:cpu(0)
    """)
max = binary("max", arithmetic.max, "maximum", """
        >>> lax.max(pnp.array([1.0, 5.0, pnp.nan]), 2.0)
        [ 2.  5. nan]:f32[3]:cpu(0)
    """)
min = binary("min", arithmetic.min, "minimum", """
        >>> lax.min(pnp.array([1.0, 5.0, pnp.nan]), 2.0)
        [ 1.  2. nan]:f32[3]:cpu(0)
    """)
atan2 = binary("atan2", trigonometric.atan2, "arctan2", """
        >>> lax.atan2(pnp.array([1.0, -1.0]), pnp.array([0.0, -1.0]))
        [ 1.5707964 -2.3561945]:f32[2]:cpu(0)
    """)
complex = binary("complex", complexes.complex, "", """
        >>> lax.complex(pnp.array([1.0, 2.0]), pnp.array([0.0, -1.0]))
        [1.+0.j 2.-1.j]:c64[2]:cpu(0)
    """, result="complex")
neg = unary("neg", arithmetic.neg, "negative", """
        >>> lax.neg(pnp.array([1, -2]))
        [-1  2]:i32[2]:cpu(0)
    """)
sign = unary("sign", complexes.sign, "sign", """
        >>> lax.sign(pnp.array([-2.5, 0.0, 7.0]))
        [-1.  0.  1.]:f32[3]:cpu(0)
    """)
abs = unary("abs", complexes.abs, "abs", """
        >>> lax.abs(pnp.array([-1, 2]))
        [1 2]:i32[2]:cpu(0)
        >>> lax.abs(3 + 4j)
        5.0:f32[]:cpu(0)
    """, result="real")
real = unary("real", complexes.real, "real", """
        >>> lax.real(pnp.array([1 + 2j]))
        [1.]:f32[1]:cpu(0)
    """, result="real")
imag = unary("imag", complexes.imag, "imag", """
        >>> lax.imag(pnp.array([1 + 2j]))
        [2.]:f32[1]:cpu(0)
    """, result="real")
square = unary("square", powers.square, "square", """
        >>> lax.square(pnp.array([-3, 4]))
        [ 9 16]:i32[2]:cpu(0)
    """)
sqrt = unary("sqrt", powers.sqrt, "sqrt", """
        >>> lax.sqrt(pnp.array([4.0, -1.0]))
        [ 2. nan]:f32[2]:cpu(0)
    """)
rsqrt = unary("rsqrt", powers.rsqrt, "", """
        >>> lax.rsqrt(pnp.array([4.0, 0.0]))
        [0.5 inf]:f32[2]:cpu(0)
    """)
cbrt = unary("cbrt", powers.cbrt, "cbrt", """
        >>> lax.cbrt(pnp.array([8.0, -27.0]))
        [ 2. -3.]:f32[2]:cpu(0)
    """)
floor = unary("floor", rounding.floor, "floor", """
        >>> lax.floor(pnp.array([1.7, -1.7]))
        [ 1. -2.]:f32[2]:cpu(0)
    """)
ceil = unary("ceil", rounding.ceil, "ceil", """
        >>> lax.ceil(pnp.array([1.2, -1.2]))
        [ 2. -1.]:f32[2]:cpu(0)
    """)
is_finite = unary("is_finite", rounding.is_finite, "isfinite", """
        >>> lax.is_finite(pnp.array([1.0, pnp.inf, pnp.nan]))
        [ True False False]:bool[3]:cpu(0)
    """, result="of bools")

# ---- comparisons -------------------------------------------------------------------------------------------------------
eq = binary("eq", compare.eq, "equal", """
        >>> lax.eq(pnp.array([1, 2]), 2)
        [False  True]:bool[2]:cpu(0)
    """, result="of bools")
ne = binary("ne", compare.ne, "not_equal", """
        >>> lax.ne(pnp.array([1.0, pnp.nan]), pnp.array([1.0, pnp.nan]))
        [False  True]:bool[2]:cpu(0)
    """, result="of bools")
lt = binary("lt", compare.lt, "less", """
        >>> lax.lt(pnp.array([1.0, 2.0, pnp.nan]), 2.0)
        [ True False False]:bool[3]:cpu(0)
    """, result="of bools")
le = binary("le", compare.le, "less_equal", """
        >>> lax.le(pnp.array([1.0, 2.0, pnp.nan]), 2.0)
        [ True  True False]:bool[3]:cpu(0)
    """, result="of bools")
gt = binary("gt", compare.gt, "greater", """
        >>> lax.gt(pnp.array([1, 2, 3]), 2)
        [False False  True]:bool[3]:cpu(0)
    """, result="of bools")
ge = binary("ge", compare.ge, "greater_equal", """
        >>> lax.ge(pnp.array([1, 2, 3]), 2)
        [False  True  True]:bool[3]:cpu(0)
    """, result="of bools")

# ---- bits --------------------------------------------------------------------------------------------------------------
bitwise_and = binary("bitwise_and", bitwise.and_, "bitwise_and", """
        >>> lax.bitwise_and(pnp.array([0b1100, 1]), 0b1010)
        [8 0]:i32[2]:cpu(0)
    """)
bitwise_or = binary("bitwise_or", bitwise.or_, "bitwise_or", """
        >>> lax.bitwise_or(pnp.array([0b1100, 1]), 0b1010)
        [14 11]:i32[2]:cpu(0)
    """)
bitwise_xor = binary("bitwise_xor", bitwise.xor, "bitwise_xor", """
        >>> lax.bitwise_xor(pnp.array([0b1100, 1]), 0b1010)
        [ 6 11]:i32[2]:cpu(0)
    """)
bitwise_not = unary("bitwise_not", bitwise.not_, "bitwise_not", """
        >>> lax.bitwise_not(pnp.array([0, 5]))
        [-1 -6]:i32[2]:cpu(0)
        >>> lax.bitwise_not(True)
        False:bool[]:cpu(0)
    """)
shift_left = binary("shift_left", bitwise.shift_left, "left_shift", """
        >>> lax.shift_left(pnp.array([1, -3]), 2)
        [  4 -12]:i32[2]:cpu(0)
    """)
shift_right_logical = binary("shift_right_logical", bitwise.shift_right_logical, "", """
        >>> lax.shift_right_logical(pnp.array([8, -8]), 1)
        [         4 2147483644]:i32[2]:cpu(0)
    """)
shift_right_arithmetic = binary("shift_right_arithmetic", bitwise.shift_right_arithmetic, "", """
        >>> lax.shift_right_arithmetic(pnp.array([8, -8]), 1)
        [ 4 -4]:i32[2]:cpu(0)
    """)
clz = unary("clz", bitwise.clz, "", """
        >>> lax.clz(pnp.array([1, 255, 0], pnp.uint8))
        [7 0 8]:u8[3]:cpu(0)
    """)
population_count = unary("population_count", bitwise.population_count, "", """
        >>> lax.population_count(pnp.array([7, -1]))
        [ 3 32]:i32[2]:cpu(0)
        >>> pnp.bitwise_count(pnp.array([7, -1]))
        [3 1]:u8[2]:cpu(0)
    """)

# ---- exponentials and the error function -------------------------------------------------------------------------------
exp = unary("exp", exponential.exp, "exp", """
        >>> lax.exp(pnp.array([0.0, -pnp.inf]))
        [1. 0.]:f32[2]:cpu(0)
    """)
exp2 = unary("exp2", exponential.exp2, "exp2", """
        >>> lax.exp2(pnp.array([3.0, -1.0]))
        [8.  0.5]:f32[2]:cpu(0)
    """)
expm1 = unary("expm1", exponential.expm1, "expm1", """
        >>> lax.expm1(pnp.array([1e-10, 0.0]))
        [1.e-10 0.e+00]:f32[2]:cpu(0)
    """)
log = unary("log", exponential.log, "log", """
        >>> lax.log(pnp.array([1.0, 0.0, -1.0]))
        [  0. -inf  nan]:f32[3]:cpu(0)
    """)
log1p = unary("log1p", exponential.log1p, "log1p", """
        >>> lax.log1p(pnp.array([1e-10, -1.0]))
        [1.e-10   -inf]:f32[2]:cpu(0)
    """)
erf = unary("erf", error_functions.erf, "", """
        >>> lax.erf(pnp.array([0.0, 1.0, pnp.inf]))
        [0.        0.8427008 1.       ]:f32[3]:cpu(0)
    """)
erfc = unary("erfc", error_functions.erfc, "", """
        >>> lax.erfc(pnp.array([0.0, 5.0]))
        [1.0000000e+00 1.5374598e-12]:f32[2]:cpu(0)
        >>> 1.0 - lax.erf(5.0)
        0.0:f32[]:cpu(0)
    """)
erf_inv = unary("erf_inv", error_functions.erf_inv, "", """
        >>> lax.erf_inv(pnp.array([0.0, 0.5, 1.0]))
        [0.         0.47693628        inf]:f32[3]:cpu(0)
    """)
lgamma = unary("lgamma", gamma_functions.lgamma, "", """
        >>> lax.lgamma(pnp.array([1.0, 5.0, 0.0]))
        [0.        3.1780539       inf]:f32[3]:cpu(0)
    """)
digamma = unary("digamma", gamma_functions.digamma, "", """
        >>> lax.digamma(pnp.array([1.0, -1.0]))
        [-0.5772157        nan]:f32[2]:cpu(0)
    """)
logistic = unary("logistic", hyperbolic.logistic, "", """
        >>> lax.logistic(pnp.array([0.0, -200.0]))
        [0.5 0. ]:f32[2]:cpu(0)
        >>> nn.sigmoid(0)
        0.5:f32[]:cpu(0)
    """)

# ---- angles ------------------------------------------------------------------------------------------------------------
sin = unary("sin", trigonometric.sin, "sin", """
        >>> lax.sin(pnp.array([0.0, pnp.pi / 2]))
        [0. 1.]:f32[2]:cpu(0)
    """)
cos = unary("cos", trigonometric.cos, "cos", """
        >>> lax.cos(pnp.array([0.0, 1.0]))
        [1.        0.5403023]:f32[2]:cpu(0)
    """)
tan = unary("tan", trigonometric.tan, "tan", """
        >>> lax.tan(pnp.array([0.0, pnp.pi / 4]))
        [0. 1.]:f32[2]:cpu(0)
    """)
asin = unary("asin", trigonometric.asin, "arcsin", """
        >>> lax.asin(pnp.array([1.0, 2.0]))
        [1.5707964       nan]:f32[2]:cpu(0)
    """)
acos = unary("acos", trigonometric.acos, "arccos", """
        >>> lax.acos(pnp.array([1.0, -1.0, 2.0]))
        [0.        3.1415927       nan]:f32[3]:cpu(0)
    """)
atan = unary("atan", trigonometric.atan, "arctan", """
        >>> lax.atan(pnp.array([1.0, -pnp.inf]))
        [ 0.7853982 -1.5707964]:f32[2]:cpu(0)
    """)
sinh = unary("sinh", hyperbolic.sinh, "sinh", """
        >>> lax.sinh(pnp.array([0.0, 1.0]))
        [0.        1.1752012]:f32[2]:cpu(0)
    """)
cosh = unary("cosh", hyperbolic.cosh, "cosh", """
        >>> lax.cosh(pnp.array([0.0, 1.0]))
        [1.        1.5430806]:f32[2]:cpu(0)
    """)
tanh = unary("tanh", hyperbolic.tanh, "tanh", """
        >>> lax.tanh(pnp.array([0.5, 100.0]))
        [0.4621172 1.       ]:f32[2]:cpu(0)
    """)
asinh = unary("asinh", hyperbolic.asinh, "arcsinh", """
        >>> lax.asinh(pnp.array([0.0, 1.0]))
        [0.        0.8813736]:f32[2]:cpu(0)
    """)
acosh = unary("acosh", hyperbolic.acosh, "arccosh", """
        >>> lax.acosh(pnp.array([1.0, 0.5]))
        [ 0. nan]:f32[2]:cpu(0)
    """)
atanh = unary("atanh", hyperbolic.atanh, "arctanh", """
        >>> lax.atanh(pnp.array([0.5, 1.0]))
        [0.54930615        inf]:f32[2]:cpu(0)
    """)
# fmt: on


def conj(x: ArrayLike) -> Array:
    """The complex conjugate of x; a real x becomes complex, with the imaginary part 0.

    Arguments:
        x: an array or a number, floating or complex, of any shape.

    Returns:
        A complex array of the shape of x.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is of another dtype.

    Example:
        >>> lax.conj(pnp.array([1 + 2j])), lax.conj(pnp.array([3.0]))
        ([1.-2.j]:c64[1]:cpu(0), [3.+0.j]:c64[1]:cpu(0))
    """
    (x,) = lifted("conj", (x,))
    return complexes.complex(x, literal_of(0, x.type.dtype)) if kind(x.type.dtype) == "f" else complexes.conj(x)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The floating-point number next to x1 in the direction of x2.

    Arguments:
        x1, x2: floating arrays of one dtype and one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are not floating.
        ShapeError: their shapes differ.

    Example:
        >>> lax.nextafter(pnp.array([1.0]), 2.0) - 1.0
        [1.1920929e-07]:f32[1]:cpu(0)
    """
    return powers.nextafter(*fitted("nextafter", (x1, x2)))


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power of y; NaN where x is negative and y is not whole.

    As `pullback.numpy.power`, of operands that need no new axes.

    Arguments:
        x: an array or a number, floating or complex.
        y: an array or a number of the dtype of x, or of integers, and of its shape but for axes of size 1; or one is 0-d.

    Returns:
        An array of that shape, in the dtype of x.

    Raises:
        LeafError: x or y is neither an array nor a number.
        DtypeError: their dtypes differ, or x is of another kind.
        ShapeError: their shapes differ.

    Example:
        >>> lax.pow(pnp.array([2.0, -2.0]), 0.5)
        [1.4142135       nan]:f32[2]:cpu(0)
        >>> lax.pow(pnp.array([2.0, -2.0]), pnp.array([3, 2]))
        [8. 4.]:f32[2]:cpu(0)
    """
    if not isinstance(x, PYTHON_SCALARS) and not isinstance(y, PYTHON_SCALARS):
        x, y = operand(x, "pow", "x"), operand(y, "pow", "y")
        if kind(y.type.dtype) in "iu" and is_inexact(x.type.dtype):
            y = convert.convert_element_type(y, new_dtype=x.type.dtype)
    return powers.pow(*fitted("pow", (x, y)))


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to the power of a fixed whole number y.

    Arguments:
        x: an array or a number, integer, floating or complex, of any shape.
        y: an int.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is bool, or of integers where y is negative.

    Example:
        >>> lax.integer_pow(pnp.array([2.0, -3.0]), 3)
        [  8. -27.]:f32[2]:cpu(0)
        >>> lax.integer_pow(pnp.array([2.0, 0.0]), -1)
        [0.5 inf]:f32[2]:cpu(0)
    """
    return powers.integer_pow(*lifted("integer_pow", (x,)), y=y)


def round(x: ArrayLike, rounding_method: str = "away_from_zero") -> Array:
    """The nearest whole number; halves go away from zero, or, by "to_nearest_even", to the even one.

    Arguments:
        x: a floating array or number, of any shape.
        rounding_method: "away_from_zero" or "to_nearest_even", as `pullback.numpy.round` does.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is not floating.
        ValueError: another method.

    Example:
        >>> lax.round(pnp.array([0.5, 2.5, -2.5]))
        [ 1.  3. -3.]:f32[3]:cpu(0)
        >>> lax.round(pnp.array([0.5, 2.5, -2.5]), "to_nearest_even")
        [ 0.  2. -2.]:f32[3]:cpu(0)
    """
    method = str(getattr(rounding_method, "name", rounding_method)).lower()
    if method not in ("away_from_zero", "to_nearest_even"):
        raise ValueError(f"round's rounding_method is 'away_from_zero' or 'to_nearest_even', not {brief(rounding_method)}.")
    return rounding.round(*lifted("round", (x,)), rounding_method=method)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike = None) -> Array:
    """x * y. Of bools, their conjunction.

    As `pullback.numpy.multiply`, of operands that need no promotion, and no new axes.

    Arguments:
        x, y: arrays of one dtype and of one shape, but for axes of size 1, or 0-d; a Python number takes the other's dtype.
        out_dtype: the dtype to multiply in, and of the result; by default theirs.

    Returns:
        An array of the same shape.

    Raises:
        LeafError: x or y is neither an array nor a number.
        DtypeError: their dtypes differ.
        ShapeError: their shapes differ.

    Example:
        >>> lax.mul(pnp.array([1.0, 2.0]), 0.5)
        [0.5 1. ]:f32[2]:cpu(0)
        >>> lax.mul(pnp.array([100], pnp.int8), 2, out_dtype=pnp.int32)
        [200]:i32[1]:cpu(0)
    """
    operands = fitted("mul", (x, y))
    if out_dtype is not None:
        operands = tuple([in_dtype(one, entering(canonical(out_dtype))) for one in operands])
    return arithmetic.mul(*operands)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """x rounded to a floating-point number of fewer bits, half to even; what is subnormal there becomes 0.

    Its derivative is rounded likewise, as if rounding were linear.

    Arguments:
        operand: a floating array or number, of any shape.
        exponent_bits: how many bits the exponent has, at least 1.
        mantissa_bits: how many bits are behind the point, at least 0.

    Returns:
        An array of the shape and dtype of the operand.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        DtypeError: it is not floating.
        ValueError: fewer bits than that.

    Example:
        >>> lax.reduce_precision(pnp.array([3.14159, 1e6]), exponent_bits=5, mantissa_bits=4)
        [3.125   inf]:f32[2]:cpu(0)
    """
    exponent, mantissa = index(exponent_bits), index(mantissa_bits)
    if exponent < 1 or mantissa < 0:
        raise ValueError(f"reduce_precision takes exponent_bits >= 1 and mantissa_bits >= 0, not {exponent} and {mantissa}.")
    return rounding.reduce_precision(*lifted("reduce_precision", (operand,)), exponent_bits=exponent, mantissa_bits=mantissa)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The upper half of the bits of the product of integers, which has twice as many as they.

    Arguments:
        x, y: integer arrays of one dtype and of one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of the same shape and dtype.

    Raises:
        LeafError: x or y is neither an array nor a number.
        DtypeError: their dtypes differ, or are not of integers.
        ShapeError: their shapes differ.

    Example:
        >>> lax.mulhi(pnp.array([255, 16], pnp.uint8), pnp.array([255, 8], pnp.uint8))
        [254   0]:u8[2]:cpu(0)
    """
    x, y = fitted("mulhi", (x, y))
    own = x.type.dtype
    if kind(own) not in "iu":
        raise DtypeError(f"mulhi takes integers, but got {x.type}.{at_user_line()}")
    bits, signed = 8 * own.itemsize, kind(own) == "i"
    wide = DTYPES["int64" if signed and bits < 64 else "uint64"]
    a, b = [convert.convert_element_type(one, new_dtype=wide) for one in (x, y)]
    if bits < 64:
        product = arithmetic.mul(a, b)
        shift = bitwise.shift_right_arithmetic if signed else bitwise.shift_right_logical
        return convert.convert_element_type(shift(product, literal_of(bits, wide)), new_dtype=own)
    half, mask = literal_of(32, wide), literal_of(2**32 - 1, wide)
    (a1, a0), (b1, b0) = [(bitwise.shift_right_logical(one, half), bitwise.and_(one, mask)) for one in (a, b)]
    middle = arithmetic.add(arithmetic.mul(a1, b0), bitwise.shift_right_logical(arithmetic.mul(a0, b0), half))
    lower = arithmetic.add(arithmetic.mul(a0, b1), bitwise.and_(middle, mask))
    carried = arithmetic.add(bitwise.shift_right_logical(middle, half), bitwise.shift_right_logical(lower, half))
    high = arithmetic.add(arithmetic.mul(a1, b1), carried)
    if signed:  # each negative factor was taken for itself plus 2^64
        zero, negative = literal_of(0, wide), literal_of(0, own)
        high = arithmetic.sub(high, compare.select(compare.lt(x, negative), b, zero))
        high = arithmetic.sub(high, compare.select(compare.lt(y, negative), a, zero))
    return convert.convert_element_type(high, new_dtype=own)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x.

    Arguments:
        x: an array or a number, integer, floating or complex, of any shape.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: x is neither an array nor a number.
        DtypeError: x is bool.

    Example:
        >>> lax.reciprocal(pnp.array([4.0, 0.0]))
        [0.25  inf]:f32[2]:cpu(0)
    """
    (x,) = lifted("reciprocal", (x,))
    return arithmetic.div(literal_of(1, x.type.dtype), x)


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where the bool array `pred` holds, else on_false.

    Arguments:
        pred: a bool array, of the shape of the others or 0-d.
        on_true, on_false: arrays of one dtype and one shape, or 0-d; a Python number takes the other's dtype.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: `pred` is not bool, or the dtypes of the others differ.
        ShapeError: the shapes differ.

    Example:
        >>> lax.select(pnp.array([True, False]), pnp.array([1, 2]), pnp.array([10, 20]))
        [ 1 20]:i32[2]:cpu(0)
        >>> lax.select(True, pnp.array([1, 2]), 0)
        [1 2]:i32[2]:cpu(0)
    """
    return compare.select(operand(pred, "select"), *lifted("select", (on_true, on_false)))


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """The case that `which` numbers: of two, the first where it is false.

    Arguments:
        which: an array of bools or integers, of the shape of the cases or 0-d.
        cases: arrays of one dtype and one shape, or 0-d; as many as `which` can number, two for bools.

    Returns:
        An array of that shape and dtype.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes of the cases differ.
        ShapeError: the shapes differ, or there are no cases, or more than two for bools.

    Example:
        >>> lax.select_n(pnp.array([0, 2, 1]), pnp.array([1, 2, 3]), pnp.array([10, 20, 30]), pnp.array([100, 200, 300]))
        [  1 200  30]:i32[3]:cpu(0)
        >>> lax.select_n(pnp.array([True, False]), pnp.array([1, 2]), pnp.array([10, 20]))
        [10  2]:i32[2]:cpu(0)
    """
    which = operand(which, "select_n")
    values = lifted("select_n", cases)
    if not cases or (which.type.dtype == bool and len(cases) > 2):
        raise ShapeError(
            f"select_n takes a case for each number that {which.type} has, but got {len(cases)} cases.{at_user_line()}"
        )
    if which.type.dtype == bool:
        return compare.select(which, values[1], values[0]) if len(values) == 2 else values[0]
    out = values[0]
    for i, value in enumerate(values[1:], 1):
        out = compare.select(compare.ge(which, literal_of(i, which.type.dtype)), value, out)
    return out


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, but no less than `min` and no more than `max`.

    Arguments:
        min, x, max: arrays of one dtype, not complex, and of one shape, or 0-d; Python numbers take the dtype of x.

    Returns:
        An array of the shape and dtype of x.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: their dtypes differ, or are complex.
        ShapeError: their shapes differ.

    Example:
        >>> lax.clamp(0.0, pnp.array([-1.0, 0.5, 2.0]), 1.0)
        [0.  0.5 1. ]:f32[3]:cpu(0)
    """
    value = operand(x, "clamp")
    _, low, high = lifted("clamp", (value, min, max))
    return compare.clamp(low, value, high)
