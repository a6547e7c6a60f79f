"""Whether arrays are equal, or nearly so."""

from __future__ import annotations

from pullback.core.array import Array, ArrayLike
from pullback.core.dtypes import is_key
from pullback.numpy.eager import by_numpy
from pullback.numpy.logic import close_on_host, isclose, isnan
from pullback.numpy.promotion import NATIVE_FLOATS, operand, strong
from pullback.numpy.reductions import all as all_of


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have one shape and equal elements; a 0-d bool.

    Arguments:
        a1, a2: arrays or numbers, of any shapes and dtypes.
        equal_nan: whether NaN equals NaN.

    Returns:
        A 0-d array of bool.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.array_equal(pnp.array([1, 2]), pnp.array([1.0, 2.0]))
        True:bool[]:cpu(0)
        >>> pnp.array_equal(pnp.array([1, 2]), pnp.array([[1, 2]]))
        False:bool[]:cpu(0)
        >>> pnp.array_equal(pnp.nan, pnp.nan, equal_nan=True)
        True:bool[]:cpu(0)
    """
    a1, a2 = operand(a1, "array_equal"), operand(a2, "array_equal")
    if a1.type.shape != a2.type.shape:
        return strong(operand(False, "array_equal"))
    same = a1 == a2
    if equal_nan and not is_key(a1.type.dtype):
        same = same | (isnan(a1) & isnan(a2))
    return all_of(same)


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays are equal once they are broadcast; a 0-d bool, false where their shapes do not broadcast.

    Arguments:
        a1, a2: arrays or numbers, of any shapes and dtypes.

    Returns:
        A 0-d array of bool.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.array_equiv(pnp.array([1, 1]), pnp.array([[1.0], [1.0]])), pnp.array_equiv(pnp.ones(2), pnp.ones(3))
        (True:bool[]:cpu(0), False:bool[]:cpu(0))
    """
    a1, a2 = operand(a1, "array_equiv"), operand(a2, "array_equiv")
    sizes = zip(reversed(a1.type.shape), reversed(a2.type.shape))
    if any([m != n and 1 not in (m, n) for m, n in sizes]):
        return strong(operand(False, "array_equiv"))
    return all_of(a1 == a2)


@by_numpy(lambda *args, **kwargs: close_on_host(*args, **kwargs).all(), NATIVE_FLOATS)
def allclose(a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-5, atol: ArrayLike = 1e-8, equal_nan: bool = False) -> Array:
    """Whether all elements are close, as `isclose` has it; a 0-d bool.

    Arguments:
        a, b: arrays or numbers whose shapes broadcast.
        rtol, atol: the relative and the absolute tolerance: numbers, or arrays that broadcast.
        equal_nan: whether NaN is close to NaN.

    Returns:
        A 0-d array of bool.

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not broadcast.
        DtypeError: the dtypes have no common one.

    Example:
        >>> pnp.allclose(pnp.array([1.0, 2.0]), pnp.array([1.0, 2.00001]))
        True:bool[]:cpu(0)
        >>> pnp.allclose(pnp.array([1.0, pnp.nan]), pnp.array([1.0, pnp.nan]))
        False:bool[]:cpu(0)
    """
    return all_of(isclose(a, b, rtol, atol, equal_nan))
