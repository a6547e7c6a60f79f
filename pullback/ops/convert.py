"""Changing the element type: by value, or by reading the same bits as another type."""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import BOOL, FLOAT32, NO_NUMBERS, DType, canonical, integer_limits, is_inexact, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.types import array_type
from pullback.ops.families import Linear, all_but, only_the_last
from pullback.ops.formulas import part_type
from pullback.ops.pointwise import each_alone


def convert_host(x, dtype: DType):
    """x in another dtype as XLA converts: out-of-range floats to the nearest integer, NaN to 0, complex to its real part."""
    if kind(x.dtype) == "s":
        x = x.astype(np.int8)
    source = kind(x.dtype)
    wanted = kind(dtype)
    if wanted == "s":
        limits = integer_limits(dtype)
        whole = np.clip(_to_integer(x.real, np.dtype(np.int64)), limits.min, limits.max) if source in "fc" else x
        return whole.astype(np.int64).astype(dtype)
    if wanted == "b":
        return x != x.dtype.type(0)
    if source == "c" and wanted != "c":
        x = x.real
        source = "f"
    if source == "f" and wanted in "iu":
        return _to_integer(x, dtype)
    if wanted == "c" and x.dtype.kind == "V":
        x = x.astype(np.float32)
    return x.astype(dtype)


def _to_integer(x, dtype):
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    limits = np.iinfo(dtype)
    low, beyond = float(limits.min), float(limits.max + 1)
    inside = (x > low - 1 if limits.bits < 32 else x >= low) & (x < beyond)
    if inside.all():
        return x.astype(dtype)
    return np.where(
        inside, np.where(inside, x, 0).astype(dtype), np.where(x > 0, limits.max, np.where(x < 0, limits.min, 0))
    ).astype(dtype)


def _of_eight_bits(dtype):
    return np.dtype(f"{dtype.name[:-1]}8")


def _to_narrow(write, x, dtype):
    """Whole numbers modulo a power of two, others to the nearest one that there is."""
    if x.dtype.kind == "c":
        x = write.op("stablehlo.real", [x], part_type(x))
    if is_inexact(x.dtype):
        limits, x = integer_limits(dtype), write.convert(x, FLOAT32)
        low, high = write.like(x, limits.min), write.like(x, limits.max)
        x = write.elementwise("stablehlo.minimum", write.elementwise("stablehlo.maximum", x, low), high)
    return write.narrowed(write.convert(x, _of_eight_bits(dtype)), dtype)


def _is_exact(conversion):
    """Whether every value of its operand's dtype is one of its result's, so that converting back or on loses nothing more."""
    source, target = conversion.inputs[0].type.dtype, conversion.outputs[0].type.dtype
    if source.kind == "V" or target.kind == "V" or is_inexact(source) != is_inexact(target):
        return False
    return np.can_cast(source, target, "safe")


@primitive
class convert_element_type(Linear):
    """x in `new_dtype`; of a complex number its real part, if `new_dtype` is real."""

    cost = 0
    in_place = (0,)

    def result_type(x, *, new_dtype, weak: bool = False):
        new_dtype = canonical(new_dtype)
        if x.dtype is not new_dtype and "k" in (kind(x.dtype), kind(new_dtype)):
            raise DtypeError(f"convert_element_type of {x} to {new_dtype.name}: {NO_NUMBERS}")
        return array_type(x.shape, new_dtype, weak)

    def simplify(equation, known):
        return only_the_last(equation, known, _is_exact)

    def evaluate(x, *, new_dtype, weak=False):
        return convert_host(x, new_dtype)

    def lower(write, x, *, new_dtype, weak=False):
        if kind(x.dtype) == "s":
            x = write.convert(x, _of_eight_bits(x.dtype))
        if kind(new_dtype) == "s":
            return _to_narrow(write, x, new_dtype)
        if new_dtype is BOOL and x.dtype is not BOOL:
            return write.compare("NE", x, write.constant(0, x.type))
        if x.dtype.kind == "c" and new_dtype.kind != "c":
            x = write.op("stablehlo.real", [x], part_type(x))
        return write.convert(x, new_dtype)

    def transpose(cotangent, x, *, new_dtype, weak=False):
        return (convert_element_type(cotangent, new_dtype=x.dtype),)

    def axis_map(x, *, new_dtype, weak=False):
        return (all_but(x, ()),)

    def vectorize(size, args, axes, *, new_dtype, weak=False):
        return convert_element_type(*args, new_dtype=new_dtype, weak=weak), 0

    def sparsity(which, operands, *, new_dtype, weak=False):
        return each_alone(which, operands)

    def samples(rng):
        for name in ("float32", "float64", "bfloat16", "float16", "complex64", "complex128", "int32", "uint8", "bool"):
            yield (3 * rng.normal(size=(2, 3)),), {"new_dtype": canonical(name)}


@primitive
class bitcast_convert_type(Rules):
    """The bits of x read as `new_dtype`. Where widths differ, a last axis of the parts appears, or is used up."""

    cost = 0
    quiet = True

    def result_type(x, *, new_dtype):
        new_dtype = canonical(new_dtype)
        for dtype in (x.dtype, new_dtype):
            if kind(dtype) in "bcs":  # keys are read as their two words
                raise DtypeError(f"bitcast_convert_type takes integers and floats, but got {x} and {new_dtype.name}.")
        old, new = x.dtype.itemsize, new_dtype.itemsize
        if new == old:
            return array_type(x.shape, new_dtype)
        if max(new, old) == 16 and min(new, old) != 4:
            raise DtypeError(f"bitcast_convert_type reads keys of four words as words of 32 bits, not {x} as {new_dtype.name}.")
        if new < old:
            return array_type((*x.shape, old // new), new_dtype)
        if not x.shape or x.shape[-1] != new // old:
            raise ShapeError(f"bitcast_convert_type to {new_dtype.name} needs a last axis of size {new // old}, but got {x}.")
        return array_type(x.shape[:-1], new_dtype)

    def evaluate(x, *, new_dtype):
        old, new = x.dtype.itemsize, new_dtype.itemsize
        shape = x.shape if new == old else (*x.shape, old // new) if new < old else x.shape[:-1]
        return np.frombuffer(np.asarray(x).tobytes(), new_dtype).reshape(shape)

    def lower(write, x, *, new_dtype):
        return write.bitcast_words(x)

    def vectorize(size, args, axes, *, new_dtype):
        return bitcast_convert_type(*args, new_dtype=new_dtype), 0

    def samples(rng):
        yield (rng.normal(size=(2, 3)).astype(np.float32),), {"new_dtype": canonical("int32")}
        yield (rng.normal(size=(2, 3)).astype(np.float32),), {"new_dtype": canonical("uint16")}
        yield (rng.integers(0, 99, (3, 4)).astype(np.uint8),), {"new_dtype": canonical("int32")}
