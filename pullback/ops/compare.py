"""Comparisons, and the choices that they make: select and clamp."""

from __future__ import annotations

import numpy as np

from pullback.core.dtypes import BOOL
from pullback.core.errors import DtypeError
from pullback.core.primitive import primitive
from pullback.core.types import is_unknown
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise, Predicate, operand_shape, same_dtype, where_nonzero


class Comparison(Predicate):
    """A comparison of two numbers; complex ones are ordered by their real parts, then by their imaginary ones."""

    def samples(rng):
        yield (np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])), {}
        yield (np.array([1.0, 2.0, 3.0]), np.array(2.0)), {}


@primitive
class eq(Comparison):
    """Whether x equals y."""

    evaluate = np.equal


@primitive
class ne(Comparison):
    """Whether x differs from y; NaN differs from everything."""

    evaluate = np.not_equal


@primitive
class lt(Comparison):
    """Whether x is less than y; complex numbers are ordered by their real parts, then by their imaginary ones."""

    evaluate = np.less


@primitive
class le(Comparison):
    """Whether x is at most y; complex numbers are ordered by their real parts, then by their imaginary ones."""

    evaluate = np.less_equal


@primitive
class gt(Comparison):
    """Whether x is greater than y; complex numbers are ordered by their real parts, then by their imaginary ones."""

    evaluate = np.greater


@primitive
class ge(Comparison):
    """Whether x is at least y; complex numbers are ordered by their real parts, then by their imaginary ones."""

    evaluate = np.greater_equal


@primitive
class select(Elementwise):
    """on_true where `which` holds, else on_false. `which` is bool; each operand has the common shape or is 0-d."""

    linear = ("on_true", "on_false")
    evaluate = np.where

    def result_type(which, on_true, on_false):
        if which.dtype is not BOOL:
            raise DtypeError(f"select chooses by a bool array, but got {which}. Compare it with something first (x != 0).")
        return same_dtype("select", (on_true, on_false)).with_shape(operand_shape("select", (which, on_true, on_false)))

    def lower(write, which, on_true, on_false):
        return write.select(which, on_true, on_false)

    def transpose(cotangent, which, on_true, on_false):
        zero = literal(0, cotangent)
        return (
            None,
            select(which, cotangent, zero) if is_unknown(on_true) else None,
            select(which, zero, cotangent) if is_unknown(on_false) else None,
        )

    def sparsity(which, operands):
        chosen = operands[0]
        return where_nonzero(which, operands, (chosen == (which == 1)) if isinstance(chosen, np.ndarray) else None)

    def samples(rng):
        which = np.array([[True, False, True], [False, False, True]])
        yield (which, rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (np.array(True), rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (which, rng.normal(), rng.normal(size=(2, 3))), {}
        yield (which, rng.normal(), rng.normal()), {}


@primitive
class clamp(Elementwise):
    """x, but no less than `lo` and no more than `hi` (which wins if it is below `lo`): min(max(x, lo), hi)."""

    kinds = "biuf"

    def evaluate(lo, x, hi):
        return np.minimum(np.maximum(x, lo), hi)

    def lower(write, lo, x, hi):
        return write.op("stablehlo.clamp", [lo, x, hi])

    def partials(out, lo, x, hi):
        one, zero = literal(1, out), literal(0, out)
        return (
            lambda: select(lt(x, lo), select(lt(lo, hi), one, zero), zero),
            lambda: select(lt(lo, x), select(lt(x, hi), one, zero), zero),
            lambda: select(lt(hi, x), one, select(lt(hi, lo), one, zero)),
        )

    def samples(rng):
        yield (np.array(-0.5), rng.normal(size=(2, 3)), np.array(0.7)), {}
        yield (-rng.random((2, 3)), rng.normal(size=(2, 3)), rng.random((2, 3))), {}
