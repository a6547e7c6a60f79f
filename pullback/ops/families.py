"""Families of operations: each derives most of an operation's rules from a fact or two about it.

House law of batching: a batched value carries its batch axis first, always; so every `vectorize` rule only shifts by one.
"""

from __future__ import annotations

from pullback.core.dtypes import kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import Rules
from pullback.core.types import ArrayType

KIND_NAMES = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "floating-point", "c": "complex"}


def up(axes):
    """Axes as they are once a batch axis stands in front."""
    return tuple([axis + 1 for axis in axes])


def check_kinds(name: str, kinds: str, *types: ArrayType) -> None:
    """Raise `DtypeError` unless every type is of one of `kinds`."""
    for type in types:
        if kind(type.dtype) not in kinds:
            wanted = " or ".join(KIND_NAMES[letter] for letter in kinds)
            raise DtypeError(f"{name} takes {wanted} operands, but got {', '.join(map(str, types))}. Convert with .astype().")


class Linear(Rules):
    """Linear in its only operand: the tangent goes through the operation itself. Needs `transpose`."""

    linear = True
    quiet = True


class Reduction(Rules):
    """Combines the elements along `axes`, which vanish. Needs `evaluate`, `lower`, and a derivative."""

    quiet = True

    def result_type(primitive, x, *, axes):
        check_kinds(primitive.name, primitive.kinds, x)
        check_axes(primitive.name, axes, x)
        return x.without(axes)

    def vectorize(primitive, size, args, axes_in, *, axes):
        return primitive(*args, axes=up(axes)), 0


def check_axes(name: str, axes: tuple[int, ...], type: ArrayType) -> None:
    """Raise `ShapeError` unless `axes` are different axes of `type`, counted from the front."""
    if len(set(axes)) != len(axes) or not all(0 <= axis < type.ndim for axis in axes):
        raise ShapeError(f"{name} takes different axes between 0 and {type.ndim - 1} of {type}, but got axes={axes}.")
