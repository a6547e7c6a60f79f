"""Trees of arrays as one vector, and back: for optimizers and solvers that know vectors only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.core.array import Array
from pullback.core.brief import counted
from pullback.core.dtypes import kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.source import api_class, make_public
from pullback.core.trees import array_leaves, unflatten
from pullback.core.types import ArrayType
from pullback.numpy.complexes import real
from pullback.numpy.creation import zeros
from pullback.numpy.promotion import at_user_line, in_dtype, operand, to_common_dtype
from pullback.numpy.shaping import concatenate, ravel, reshape

__all__ = ["ravel_pytree"]


def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """The elements of a tree of arrays as one vector, and the function that makes such a tree of a vector again.

    Arguments:
        pytree: a tree of arrays and numbers.

    Returns:
        A vector in the common dtype of the leaves, and a function of a vector of that size. If the leaves have different
        dtypes, the function takes a vector of that very dtype, and gives each leaf its own (of complex elements for a real
        leaf, the real parts); if they have one, the leaves take that of the vector.

    Raises:
        LeafError: a leaf is neither an array nor a number.
        DtypeError: the dtypes have no common one; or the function is given a vector of another dtype.
        ShapeError: the function is given another shape.

    Example:
        >>> vector, restore = pb.flatten_util.ravel_pytree({"w": pnp.ones((2, 2)), "b": pnp.array([5])})
        >>> vector
        [5. 1. 1. 1. 1.]:f32[5]:cpu(0)
        >>> restore(2.0 * vector)
        {'w': [[2. 2.]
         [2. 2.]]:f32[2,2]:cpu(0), 'b': [10]:i32[1]:cpu(0)}
    """
    leaves, structure = array_leaves(pytree, lambda: "ravel_pytree's argument")
    types = tuple([leaf.type for leaf in leaves])
    vector = concatenate([ravel(leaf) for leaf in to_common_dtype("ravel_pytree", *leaves)]) if leaves else zeros(0)
    mixed = len({type.dtype for type in types}) > 1
    return vector, _Restore(structure, types, vector.type.dtype if mixed else None)


@api_class
class _Restore:
    """A vector as a tree of arrays. Those that make the same trees are equal: static arguments of jit may be."""

    def __init__(self, structure: Any, types: tuple[ArrayType, ...], dtype: Any) -> None:
        self._key = structure, types, dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Restore) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __call__(self, vector: Any) -> Any:
        structure, types, dtype = self._key
        vector, size = operand(vector, "ravel_pytree's function"), sum([type.size for type in types])
        if vector.type.shape != (size,):
            raise ShapeError(
                f"ravel_pytree's function takes a vector of {counted(size, 'element')}, but got {vector.type}.{at_user_line()}"
            )
        if dtype is not None and vector.type.dtype is not dtype:
            raise DtypeError(
                f"ravel_pytree's function was given a vector {vector.type}, but expected dtype {dtype.name}, as it made one:"
                f" the leaves have different dtypes.{at_user_line()}"
            )
        leaves, start = [], 0
        for type in types:
            part = reshape(vector[start : start + math.prod(type.shape)], type.shape)
            if dtype is not None:
                part = real(part) if kind(dtype) == "c" and kind(type.dtype) != "c" else part
                part = in_dtype(part, type.dtype)
            leaves.append(part)
            start += type.size
        return unflatten(structure, leaves)


make_public(globals())
