"""What the operands of an operation become before it is applied: arrays of one dtype, and of one shape or 0-d.

Primitives never promote or broadcast. This file puts those steps there, as equations of their own, and only where they
are needed: operands whose types are identical go through untouched. A Python scalar that meets an array becomes a weak
0-d array of the array's dtype, so that nothing is converted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, find_converter, from_python, host_of, plain_number, scalar_kind
from pullback.core.brief import brief
from pullback.core.callers import asked_by_user
from pullback.core.dtypes import (
    BOOL,
    DTYPES,
    FLOAT32,
    NO_NUMBERS,
    RANK,
    DType,
    check_strict,
    default_dtype,
    is_inexact,
    kind,
)
from pullback.core.dtypes import promote as join
from pullback.core.errors import ConcretizationError, DtypeError, DtypeWidened, LeafError, ShapeError
from pullback.core.modes import current_mode
from pullback.core.precision import PRECISIONS, is_precision
from pullback.core.source import at_user_line as at_user_line
from pullback.core.source import warn
from pullback.core.tracing import Tracer
from pullback.core.types import Shape
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.convert import convert_element_type
from pullback.ops.formulas import PART_DTYPE
from pullback.ops.literals import literal_of as literal_of

PYTHON_SCALARS = (bool, int, float, complex)
# Dtypes whose arithmetic NumPy does natively, with the same results as the type rules promise.
NATIVE_INEXACT = frozenset(DTYPES[name] for name in ("float32", "float64", "complex64", "complex128"))
NATIVE_FLOATS = frozenset(DTYPES[name] for name in ("float32", "float64"))
NATIVE_NUMBERS = NATIVE_INEXACT | {DTYPES[name] for name in ("bool", "int32", "int64", "uint8", "uint32")}


def operand(value: Any, name: str, position: str = "an operand") -> Array:
    """A value as an Array or tracer. Raises `LeafError`, naming the operation and the argument, for anything else."""
    if value.__class__ is Array or isinstance(value, (Tracer, Array)):
        return value  # type: ignore[return-value]  # a tracer, which is an Array to users
    converter = find_converter(type(value))
    if converter is None:
        hint = " Make an array of it first, with pb.numpy.asarray." if isinstance(value, (list, tuple)) else ""
        if isinstance(value, (Iterator, set, frozenset)):
            hint = " Make a list of it first."
        if value is None:
            hint = " A function that ends without a return gives None: is one missing?"
        raise LeafError(
            f"{name} takes arrays and numbers, but {position} is {brief(value)} of type"
            f" {type(value).__name__}.{hint}{at_user_line()}"
        )
    return converter(value)


def number_or_operand(value: Any, name: str, position: str = "an operand") -> Any:
    """As `operand`, but a Python number stays one, of Python's own class: what it meets decides its dtype."""
    if value.__class__ is Array or value.__class__ in PYTHON_SCALARS or isinstance(value, Tracer):
        return value
    value = plain_number(value)
    return value if value.__class__ in PYTHON_SCALARS else operand(value, name, position)


def check_precision(precision: Any, name: str) -> None:
    """Refuse what is no precision of products: they are computed in full here, so that every known one is satisfied."""
    if not is_precision(precision):
        known = ", ".join(sorted(PRECISIONS))
        raise ValueError(f"{name} takes precision=None, or one or two of {known}; not {brief(precision)}.{at_user_line()}")


def pair(name: str, argument: str, value: Any) -> tuple[Any, Any]:
    """The two parts of an argument of `name` that is a pair."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name} takes {argument} as a pair, but got {brief(value)}.{at_user_line()}")
    return value[0], value[1]


def flags(name: str, **given: Any) -> tuple[bool, ...]:
    """Promises that are given as arguments of `name`: bools, known ones."""
    for argument, value in given.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} takes {argument}=True or False, not {brief(value)}.{at_user_line()}")
    return tuple([bool(value) for value in given.values()])


# ---- Python scalars -------------------------------------------------------------------------------------------------


def weak_pair(value: Any) -> tuple[DType, bool]:
    """The dtype and the weakness with which a value takes part in promotion."""
    kind_of = value.__class__
    if kind_of in PYTHON_SCALARS:
        return default_dtype(scalar_kind(value)), kind_of is not bool
    type = value.type
    return type.dtype, type.weak


def common_dtype(values: Sequence[Any], name: str, converts: bool = True) -> tuple[DType, bool]:
    """The dtype in which values (Arrays, tracers, Python scalars) meet, and whether the result is weak. `converts` says whether
    they will be converted to it, of which a block that checks may tell."""
    found = weak_pair(values[0])
    try:
        for value in values[1:]:
            pair = weak_pair(value)
            if pair[0] is not found[0]:
                check_strict(found, pair)
                if converts and (checks := current_mode().checks) is not None:
                    checks.meets(name, found, pair)
            found = join(found, pair)
    except DtypeWidened:
        raise
    except DtypeError as error:
        raise DtypeError(f"{name}: {error}{at_user_line()}") from None
    return found


def check_written(name: str, x: Any, values: Any) -> None:
    """Where promotion is strict, refuse to write values of another dtype into an array."""
    if current_mode().promotion == "strict":
        common_dtype((x, values), name)


# ---- promotion ------------------------------------------------------------------------------------------------------


def promote(name: str, *args: Any, numeric: bool = False) -> tuple[Array, ...]:
    """The operands of operation `name` in their common dtype, each of the common shape or 0-d; with `numeric`, bools as int32.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one (float8).
        ShapeError: the shapes do not broadcast.
    """
    values = to_common_shape(name, *to_common_dtype(name, *args))
    return tuple([in_dtype(value, DTYPES["int32"]) for value in values]) if numeric and values[0].type.dtype is BOOL else values


def to_common_dtype(name: str, *args: Any, inexact: bool = False) -> tuple[Array, ...]:
    """The operands in their common dtype; with `inexact`, integers and bools become the default floating dtype."""
    values = [number_or_operand(arg, name, f"argument {i}") for i, arg in enumerate(args)]
    dtype, weak = common_dtype(values, name)
    if inexact and not is_inexact(dtype):
        dtype = float_for(dtype)
    return tuple([in_dtype(value, dtype, weak) for value in values])


def float_for(dtype: DType) -> DType:
    """The floating dtype that an integer or bool one turns into: the default one, or as wide as the mode says."""
    if is_inexact(dtype):
        return dtype
    return FLOAT32 if dtype.itemsize < 8 and current_mode().floats == "own" else default_dtype("f")


def real_dtype(dtype: DType) -> DType:
    """The dtype of the parts of complex numbers of a dtype; a real dtype itself."""
    return PART_DTYPE.get(dtype, dtype)


def in_dtype(value: Any, dtype: DType, weak: bool = False) -> Array:
    """A value (Array, tracer or Python scalar) in a dtype. A value that has it already is returned as it is."""
    if value.__class__ in PYTHON_SCALARS:
        if kind(dtype) == "k":
            raise DtypeError(f"The number {brief(value)} met random keys: {NO_NUMBERS}{at_user_line()}")
        return literal_of(value, dtype)
    type = value.type
    if type.dtype is dtype:
        return value
    return convert_element_type(value, new_dtype=dtype, weak=weak)


def storable(value: Any, dtype: DType, what: str, warns: bool = False) -> Any:
    """A value that an array of a dtype can hold: a Python number of that kind, or an array; where the mode truncates, any.

    Raises `DtypeError` for what it could not; `what` is how the error calls it, with {} where the value goes.
    """
    found = weak_pair(value)[0]
    truncates = current_mode().truncates
    if RANK[kind(found)] <= RANK[kind(dtype)]:
        if truncates and warns and found is not dtype and join(weak_pair(value), (dtype, False))[0] is not dtype:
            _warn_of_types(found, dtype)
        return value
    number = value.__class__ in PYTHON_SCALARS
    what = what.format(repr(value) if number else value.type)
    exact = exactly(value, dtype) if number else None
    if exact is not None:
        return exact
    if truncates:
        if warns:
            _warn_of_types(found, dtype)
        return convert_element_type(from_python(value) if number else value, new_dtype=dtype)
    raise DtypeError(
        f"{what} in an array of {dtype.name} would lose part of it. Convert the"
        f" array, x.astype({found.name!r}), or the values, .astype({dtype.name!r}).{at_user_line()}"
    )


def _warn_of_types(found: DType, dtype: DType) -> None:
    warn(
        f"scatter inputs have incompatible types: what is written, of {found.name}, loses part of it in an array of"
        f" {dtype.name}.",
        category=FutureWarning,
    )


def exactly(number: Any, dtype: DType) -> Any:
    """A Python number as one of a dtype of a lower kind, if it has that value; else None."""
    if number.__class__ is complex:
        number = number.real if number.imag == 0 else None
    if number.__class__ is float and kind(dtype) != "f":
        whole = number.is_integer() and (dtype is BOOL or np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)
        number = int(number) if whole else None
    return number if dtype is not BOOL or number is None else bool(number) if number in (0, 1) else None


def refuse_out(name: str, out: Any) -> None:
    """Refuse NumPy's argument `out`."""
    if out is not None:
        raise TypeError(f"{name} cannot write into `out`: arrays are immutable. Use the result.{at_user_line()}")


def fill_number(value: Any, dtype: DType, name: str) -> Any:
    """What `name` fills an array of a dtype with where there is nothing: a known number, which that dtype holds."""
    given = storable(number_or_operand(value, name, "fill_value"), dtype, "fill_value={}")
    if given.__class__ not in PYTHON_SCALARS:
        if given.type.shape:
            raise ShapeError(f"{name} takes one number as fill_value, but got {given.type}.{at_user_line()}")
        if isinstance(given, Tracer):
            raise ConcretizationError(
                f"{name}'s fill_value must be known, but got a traced value of type {given.type} in {given.owner.describe()}."
                f" Put it there with pb.numpy.where, by a condition on the indices.{at_user_line()}"
            )
        given = np.asarray(host_of(given)).item()
    literal_of(given, dtype)  # refuses integers out of its range
    return given


def to_common_shape(name: str, *values: Any) -> tuple[Array, ...]:
    """Values broadcast to their common shape; 0-d ones stay 0-d."""
    shapes = [value.type.shape for value in values]
    first = next((shape for shape in shapes if shape), ())
    if all([shape == first or not shape for shape in shapes]):
        return values
    check_ranks(name, shapes)
    return to_one_shape(name, *values)


def to_one_shape(name: str, *values: Any) -> tuple[Array, ...]:
    """The same, of whatever ranks."""
    shape = broadcast_shapes(name, *[value.type.shape for value in values])
    return tuple([value if not value.type.shape else broadcast(value, shape) for value in values])


def check_ranks(name: str, shapes: Sequence[Shape]) -> None:
    """Where the mode or a block that checks says so, and the user asks for it, warn of shapes whose numbers of axes differ,
    those of numbers apart, or refuse them."""
    tell_ranks(name, shapes)
    choice = current_mode().rank_promotion
    if choice == "allow" or not _ranks_differ(shapes) or not asked_by_user():
        return
    listed = " ".join(map(str, shapes))
    if choice == "raise":
        raise ShapeError(
            f"Operands could not be broadcast together for {name} on shapes {listed}: one of them would get axes in"
            f" front, which rank promotion 'raise' (jax_numpy_rank_promotion) forbids. Add them by hand,"
            f" x[None].{at_user_line()}"
        )
    warn(
        f"Following NumPy automatic rank promotion for {name} on shapes {listed}. Add the axes by hand, x[None], or set rank"
        " promotion (jax_numpy_rank_promotion) to 'allow'.",
        category=UserWarning,
    )


def tell_ranks(name: str, shapes: Sequence[Shape]) -> None:
    """Where a block that checks says so, tell of shapes whose numbers of axes differ, those of numbers apart."""
    if (checks := current_mode().checks) is not None and _ranks_differ(shapes):
        checks.broadcasts(name, shapes)


def _ranks_differ(shapes: Sequence[Shape]) -> bool:
    return len({len(shape) for shape in shapes if shape}) > 1


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The shape that arrays of these shapes broadcast to. Raises `ShapeError` when there is none."""
    distinct = {shape for shape in shapes if shape}
    if len(distinct) < 2:
        return distinct.pop() if distinct else ()
    ndim = max(len(shape) for shape in shapes)
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    out = []
    for sizes in zip(*padded):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            raise ShapeError(
                f"{name} cannot broadcast shapes {' and '.join(map(str, shapes))}: aligned at their last axes, two sizes must"
                f" be equal, or one of them 1.{at_user_line()}"
            )
        out.append(wanted.pop() if wanted else 1)
    return tuple(out)


def broadcast(value: Any, shape: Shape) -> Array:
    """A value in a larger shape, its axes aligned with the last ones."""
    own = value.type.shape
    if own == shape:
        return value
    return broadcast_in_dim(value, shape=shape, broadcast_dimensions=tuple(range(len(shape) - len(own), len(shape))))


def to_inexact(value: Any, name: str) -> Array:
    """An operand of a function of real numbers: integers and bools become the default floating dtype."""
    value = number_or_operand(value, name)
    if value.__class__ in PYTHON_SCALARS:
        if value.__class__ in (float, complex):
            return from_python(value)
        return literal_of(value, default_dtype("f"))
    dtype = value.type.dtype
    if is_inexact(dtype):
        return value
    return convert_element_type(value, new_dtype=float_for(dtype), weak=value.type.weak)


def refuse_complex(name: str, *values: Any) -> None:
    """Raise `DtypeError` for complex operands of an operation on real numbers."""
    for value in values:
        if value.type.dtype.kind == "c":
            raise DtypeError(f"{name} takes real numbers, but got {value.type}.{at_user_line()}")


def strong(value: Any) -> Array:
    """A value whose dtype counts where it meets another: not weak, as what Python numbers become is."""
    if not value.type.weak:
        return value
    if value.__class__ is not Array:
        return convert_element_type(value, new_dtype=value.type.dtype)
    made = value.alias()
    made.type = value.type.strong()
    return made
