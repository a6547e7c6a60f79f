"""Sorting, the largest and smallest elements, and scans along an axis."""

from __future__ import annotations

import operator as operators
from collections.abc import Sequence
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import INT32, in_words, kind
from pullback.core.errors import AxisError, ShapeError
from pullback.numpy.axes import normal_axis, whole
from pullback.numpy.factories import Function, named
from pullback.numpy.promotion import at_user_line, flags, refuse_complex
from pullback.numpy.promotion import operand as as_operand
from pullback.ops import scans
from pullback.ops import sort as sorts
from pullback.ops.sort import take_along


def _axis(axis: Any, x: Any, name: str) -> int:
    if not x.type.ndim:
        raise AxisError(f"{name} goes along an axis, but got {x.type}, which has none.{at_user_line()}")
    return normal_axis(axis, x.type.ndim, name)


def sort(
    operand: ArrayLike | Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """An array in rising order along an axis; or several arrays, in the order of the first of them.

    NaN comes last, the zeros of both signs are equal, and complex numbers are in the order of their real parts, then of their
    imaginary ones. The derivative is that of the permutation. On the CPU, large arrays are sorted by NumPy, from compiled code
    too, which takes a thirtieth of the time that XLA takes.

    Arguments:
        operand: an array, or a sequence of arrays of one shape, which may have different dtypes.
        dimension: the axis.
        is_stable: whether equal elements have to keep their order; they always do.
        num_keys: how many of the arrays decide the order: where the first is equal, the second, and so on.

    Returns:
        An array, or a tuple of arrays, of the same shapes and dtypes.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the arrays have no such axis.
        ShapeError: their shapes differ.
        ValueError: `num_keys` is not between 1 and the number of arrays.

    Example:
        >>> lax.sort(pnp.array([3.0, pnp.nan, 1.0]))
        [ 1.  3. nan]:f32[3]:cpu(0)
        >>> lax.sort((pnp.array([1, 0, 1]), pnp.array([2.0, 5.0, 1.0])), num_keys=2)
        ([0 1 1]:i32[3]:cpu(0), [5. 1. 2.]:f32[3]:cpu(0))
    """
    flags("sort", is_stable=is_stable)
    several = isinstance(operand, (list, tuple))
    arrays = [as_operand(x, "sort") for x in (operand if several else [operand])]  # type: ignore[union-attr]
    keys = operators.index(num_keys)
    if not 1 <= keys <= len(arrays):
        raise ValueError(
            f"sort takes num_keys between 1 and the number of arrays, {len(arrays)}, not {num_keys}.{at_user_line()}"
        )
    along = _axis(dimension, arrays[0], "sort")
    if not several:
        return sorts.sort(arrays[0], dimension=along)
    if any(x.type.shape != arrays[0].type.shape for x in arrays):
        raise ShapeError(f"sort takes arrays of one shape, but got {', '.join(str(x.type) for x in arrays)}.{at_user_line()}")
    places = sorts.order(*arrays[:keys], dimension=along, index_dtype=INT32)
    return tuple([take_along(x, places, along) for x in arrays])


def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> tuple[Array, Array]:
    """Keys in rising order along an axis, and values in the order of their keys.

    Arguments:
        keys, values: arrays of one shape.
        dimension: the axis.
        is_stable: whether equal keys have to keep their order; they always do.

    Returns:
        The keys and the values, sorted.

    Raises:
        LeafError: an operand is neither an array nor a number.
        AxisError: the arrays have no such axis.
        ShapeError: their shapes differ.

    Example:
        >>> lax.sort_key_val(pnp.array([3, 1, 2]), pnp.array([0.3, 0.1, 0.2]))
        ([1 2 3]:i32[3]:cpu(0), [0.1 0.2 0.3]:f32[3]:cpu(0))
    """
    found = sort((keys, values), dimension, is_stable)
    return found[0], found[1]


def _largest(name: str, operand: Any, k: Any, axis: Any, descending: bool) -> tuple[Array, Array]:
    x = as_operand(operand, name)
    refuse_complex(name, x)
    along, count = _axis(axis, x, name), whole(k, f"{name}'s k")
    if not 0 <= count <= x.type.shape[along]:
        raise ValueError(f"{name} of {x.type} along axis {axis} has no {k} elements: k must be 0 to the size.{at_user_line()}")
    if x.type.shape[along] > 2**31:
        raise ValueError(
            f"{name} numbers places in int32, which those along axis {axis} of {x.type} would overflow. Take the largest of"
            f" parts of it, and then those of these.{at_user_line()}"
        )
    places = sorts.order(x, dimension=along, index_dtype=INT32, descending=descending, count=count)
    return take_along(x, places, along), places


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The k largest elements along an axis, in falling order, and their places; NaN counts as larger than all numbers.

    Arguments:
        operand: an array of real numbers.
        k: how many, an int.
        axis: the axis.

    Returns:
        The elements, and their places, of dtype int32; of equal elements the first ones come first.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        DtypeError: it is complex.
        AxisError: the array has no such axis.
        ValueError: there are fewer than k elements along it, or more than 2**31.

    Example:
        >>> lax.top_k(pnp.array([1.0, 7.0, 5.0]), 2)
        ([7. 5.]:f32[2]:cpu(0), [1 2]:i32[2]:cpu(0))
    """
    return _largest("top_k", operand, k, axis, True)


_APPROXIMATE = """    Arguments:
        operand: an array of floating-point numbers.
        k: how many, an int.
        reduction_dimension: the axis.
        recall_target: the share of them that has to be found, between 0 and 1; all are.
        reduction_input_size_override: what size to take the axis for when the error is estimated; there is none here.
        aggregate_to_topk: whether there have to be k results; a larger number is never returned.

    Returns:
        The elements, and their places, of dtype int32.

    Raises:
        LeafError: `operand` is neither an array nor a number.
        DtypeError: it is complex.
        AxisError: the array has no such axis.
        ValueError: there are fewer than k elements along it, or more than 2**31; or `recall_target` is not between 0 and 1."""


def _approximate(name: str, descending: bool, doc: str) -> Function:
    def function(
        operand: ArrayLike,
        k: int,
        reduction_dimension: int = -1,
        recall_target: float = 0.95,
        reduction_input_size_override: int = -1,
        aggregate_to_topk: bool = True,
    ) -> tuple[Array, Array]:
        if not 0 < float(recall_target) <= 1:
            raise ValueError(f"{name} takes a recall_target above 0 and up to 1, not {brief(recall_target)}.{at_user_line()}")
        operators.index(reduction_input_size_override)
        flags(name, aggregate_to_topk=aggregate_to_topk)
        return _largest(name, operand, k, reduction_dimension, descending)

    return named(function, name, doc, _APPROXIMATE, "pullback.lax")


# fmt: off
approx_max_k = _approximate("approx_max_k", True, """The k largest elements along an axis, in falling order, and their places.

    JAX's function of this name may miss some of them on some devices; this one is `top_k`.

    Example:
        >>> lax.approx_max_k(pnp.array([1.0, 7.0, 5.0]), 2)
        ([7. 5.]:f32[2]:cpu(0), [1 2]:i32[2]:cpu(0))
    """)
approx_min_k = _approximate("approx_min_k", False, """The k smallest elements along an axis, in rising order, and their places.

    JAX's function of this name may miss some of them on some devices; this one finds all.

    Example:
        >>> lax.approx_min_k(pnp.array([1.0, 7.0, 5.0]), 2)
        ([1. 5.]:f32[2]:cpu(0), [0 2]:i32[2]:cpu(0))
    """)
# fmt: on

# ---- scans ----------------------------------------------------------------------------------------------------------

_SCAN = """    Arguments:
        operand: an array ({}).
        axis: the axis.
        reverse: whether to begin at the end of the axis.

    Returns:
        An array of the same shape and dtype.{}

    Raises:
        LeafError: `operand` is neither an array nor a number.
        DtypeError: it is of another dtype.
        AxisError: the array has no such axis."""
_WIDE = " Each element is accumulated in float64 (complex128), of floats of 16 bits and fewer in float32, and rounded once."


def _scan(name: str, primitive: Any, example: str, of_complex: Any = None) -> Function:
    def function(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        x = as_operand(operand, name)
        scan = of_complex if of_complex and kind(x.type.dtype) == "c" else primitive
        return scan(x, axis=_axis(axis, x, name), reverse=flags(name, reverse=reverse)[0])

    sections = _SCAN.format(in_words(primitive.kinds + "c" * bool(of_complex)), _WIDE if primitive.accumulation else "")
    return named(function, name, f"{primitive.__doc__}\n\n    Example:{example}", sections, "pullback.lax")


# fmt: off
cumsum = _scan("cumsum", scans.cumsum, """
        >>> lax.cumsum(pnp.array([1, 2, 3])), lax.cumsum(pnp.array([1, 2, 3]), reverse=True)
        ([1 3 6]:i32[3]:cpu(0), [6 5 3]:i32[3]:cpu(0))
    """)
cumprod = _scan("cumprod", scans.cumprod, """
        >>> lax.cumprod(pnp.array([2.0, 0.0, 3.0]))
        [2. 0. 0.]:f32[3]:cpu(0)
        >>> pb.grad(lambda x: lax.cumprod(x)[2])(pnp.array([2.0, 0.0, 3.0]))
        [0. 6. 0.]:f32[3]:cpu(0)
    """)
cummax = _scan("cummax", scans.cummax, """
        >>> lax.cummax(pnp.array([1.0, 3.0, 2.0]))
        [1. 3. 3.]:f32[3]:cpu(0)
    """)
cummin = _scan("cummin", scans.cummin, """
        >>> lax.cummin(pnp.array([[2, 1], [1, 3]]), axis=0)
        [[2 1]
         [1 1]]:i32[2,2]:cpu(0)
    """)
cumlogsumexp = _scan("cumlogsumexp", scans.cumlogsumexp, """
        >>> lax.cumlogsumexp(pnp.array([0.0, 0.0, -pnp.inf, 1000.0]))
        [0.0000000e+00 6.9314718e-01 6.9314718e-01 1.0000000e+03]:f32[4]:cpu(0)
    """, scans.complex_logsumexp)
# fmt: on
