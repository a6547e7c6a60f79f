"""What stands for arrays without elements, by JAX's classes: `ShapedArray` and `ShapeDtypeStruct`, over pullback's ArrayType.

`type_of` gives the ArrayType of any of them, and `aval_of` the ShapedArray of an ArrayType; the rest of the façade uses these.
"""

from __future__ import annotations

import functools
import math
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from pullback.core.array import Array
from pullback.core.dtypes import SHORT_NAMES, entering, float0, is_inexact, is_key
from pullback.core.lazy import lazy_module
from pullback.core.refs import Ref
from pullback.core.tracing import Tracer
from pullback.core.tracing import type_of as type_of_value
from pullback.core.types import ArrayType, array_type, trivial_type
from pullback.program.equality import Keyed

sharding = lazy_module("pullback.compat.jax.sharding")


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """The dtype that is meant, as NumPy has it; 64 bits stay 64 bits."""
    found = np.dtype(dtype)
    return found if found.isnative else found.newbyteorder("=")


def _name(dtype: np.dtype[Any], short: bool) -> str:
    if dtype == float0:
        return "float0"
    return SHORT_NAMES.get(dtype, dtype.name) if short or is_key(dtype) else dtype.name


class AbstractValue:
    """What is known of a value before it is."""

    __slots__ = ()

    is_high = False
    has_qdd = False

    to_tangent_aval: Any  # which each class of a program's own defines

    def at_least_vspace(self) -> Any:
        return self.to_tangent_aval()

    def update_weak_type(self, weak_type: bool) -> Any:
        return self

    def strip_weak_type(self) -> Any:
        return self.update_weak_type(False)

    def normalize(self) -> Any:
        return self.strip_weak_type()

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return str(self)

    def __repr__(self) -> str:
        fields = ",".join(f"{name}={value}" for name, value in getattr(self, "__dict__", {}).items())
        return f"{type(self).__name__}({fields})" if hasattr(self, "__dict__") else type(self).__name__


class ShapedArray(AbstractValue):
    """An ArrayType by JAX's names. Interned like it, so equal ones are one object."""

    __slots__ = ("__weakref__", "placement", "type")
    memory_space = None
    type: ArrayType
    placement: Any

    def __new__(
        cls,
        shape: Any,
        dtype: Any,
        weak_type: bool = False,
        *,
        sharding: Any = None,
        manual_axis_type: Any = None,
        memory_space: Any = None,
    ) -> ShapedArray:
        everywhere = sharding is None or getattr(getattr(sharding, "mesh", None), "empty", False)
        return aval_of(_type(shape, dtype, weak_type), None if everywhere else sharding)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"ShapedArray is immutable: {name} cannot be set; use update(...).")

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapedArray, (self.shape, self.dtype, self.weak_type)

    shape = property(lambda self: self.type.shape)
    dtype = property(lambda self: self.type.dtype)
    weak_type = property(lambda self: self.type.weak)
    ndim = property(lambda self: self.type.ndim)
    size = property(lambda self: self.type.size)
    sharding = property(lambda self: _unplaced(self.ndim) if self.placement is None else self.placement)
    manual_axis_type = property(lambda self: None)

    def update(self, shape: Any = None, dtype: Any = None, weak_type: bool | None = None, **kwargs: Any) -> ShapedArray:
        return ShapedArray(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
            **{"sharding": self.placement if shape is None else None, **kwargs},
        )

    def update_weak_type(self, weak_type: bool) -> ShapedArray:
        return self if weak_type == self.weak_type else self.update(weak_type=weak_type)

    def to_tangent_aval(self) -> ShapedArray:
        return aval_of(tangent_type(self.type), self.placement)

    to_ct_aval = to_tangent_aval

    def lo_ty(self) -> list[ShapedArray]:
        return [self]

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return f"{_name(self.dtype, short_dtypes)}[{','.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return f"{'~' if self.weak_type else ''}{self.str_short()}"

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()}{', weak_type=True' if self.weak_type else ''})"


def _unplaced(ndim: int) -> Any:
    """What JAX says of the sharding of a type of which nothing is said."""
    return sharding.UnplacedSharding(sharding.get_abstract_mesh(), ndim)


_avals: WeakValueDictionary[Any, ShapedArray] = WeakValueDictionary()


def aval_of(type: ArrayType, sharding: Any = None) -> ShapedArray:
    """The ShapedArray of an ArrayType."""
    found = _avals.get((type, sharding))
    if found is None:
        found = object.__new__(ShapedArray)
        object.__setattr__(found, "type", type)
        object.__setattr__(found, "placement", sharding)
        found = _avals.setdefault((type, sharding), found)
    return found


def _type(shape: Any, dtype: Any, weak: bool = False) -> ArrayType:
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,) if isinstance(shape, int) else tuple(shape)
    found = dtype_of(dtype)
    return trivial_type(sizes) if found == float0 else array_type(sizes, found, bool(weak))


def tangent_type(type: ArrayType) -> ArrayType:
    """The type of the tangents of values of a type: of the dtype float0 where there are none."""
    return type if type.dtype != float0 and is_inexact(type.dtype) else trivial_type(type.shape)


def primal_dtype_to_tangent_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype of the tangents of values of a dtype."""
    return tangent_type(_type((), dtype)).dtype


def _field(number: int) -> Any:
    return property(lambda self: self.key[number])


class ShapeDtypeStruct(Keyed):
    """The shape, the dtype and the weakness of an array, as `jax.eval_shape` takes and returns them."""

    __slots__ = ()
    _FIELDS = "shape", "dtype", "sharding", "weak_type", "manual_axis_type", "is_ref"

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        manual_axis_type: Any = None,
        is_ref: bool = False,
    ) -> None:
        if dtype is None:
            raise ValueError(f"ShapeDtypeStruct stands for an array of a shape and a dtype, but got {shape=} with no dtype.")
        object.__setattr__(self, "key", (tuple(shape), dtype_of(dtype), sharding, weak_type, manual_axis_type, is_ref))

    shape, dtype, sharding, weak_type, manual_axis_type, is_ref = map(_field, range(6))
    size = property(lambda self: math.prod(self.shape))
    ndim = property(lambda self: len(self.shape))

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"A ShapeDtypeStruct does not change: make another one instead of setting its {name} (.update).")

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(ShapeDtypeStruct, **dict(zip(self._FIELDS, self.key))), ()

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        return struct_of(type_of(x), cls)

    def update(self, **kwargs: Any) -> ShapeDtypeStruct:
        return ShapeDtypeStruct(**{**dict(zip(self._FIELDS, self.key)), **kwargs})

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __repr__(self) -> str:
        sharding = "" if self.sharding is None else f", sharding={self.sharding}"
        weak = f", weak_type={self.weak_type}" if self.weak_type else ""
        return f"{type(self).__name__}(shape={self.shape}, dtype={_name(self.dtype, False)}{sharding}{weak})"


def struct_of(type: ArrayType, cls: Any = ShapeDtypeStruct) -> Any:
    """The ShapeDtypeStruct of an ArrayType."""
    return cls(type.shape, type.dtype, weak_type=type.weak)


def type_of(x: Any) -> ArrayType:
    """The ArrayType of a value, or of what stands for one: a ShapedArray, a struct, or anything with a shape and a dtype."""
    if isinstance(x, (Array, Tracer, ShapedArray, Ref)):
        return x.type
    if isinstance(x, ArrayType):
        return x
    if isinstance(x, ShapeDtypeStruct):
        type = _type(x.shape, x.dtype, x.weak_type)
        return type if type.dtype == float0 else type.with_dtype(entering(type.dtype), type.weak)
    if hasattr(x, "shape") and hasattr(x, "dtype") and not isinstance(x, (np.ndarray, np.generic)):
        return _type(x.shape, x.dtype, getattr(x, "weak_type", False))
    return type_of_value(x)


class AbstractRef(Keyed, AbstractValue):
    """The type of a Ref."""

    def __init__(self, inner_aval: ShapedArray) -> None:
        self.inner_aval = self.key = inner_aval

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: self.inner_aval.ndim)

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __repr__(self) -> str:
        return self.str_short()


def typeof(x: Any) -> Any:
    """The ShapedArray of a value, the AbstractRef of a Ref: `jax.typeof`."""
    if isinstance(x, (AbstractValue, str, bytes)) or x is None:
        raise TypeError(f"typeof takes an array or a number, but got {x!r} of type {type(x).__name__}.")
    if hasattr(x, "__jax_array__") and not isinstance(x, (Array, Tracer)):
        return typeof(x.__jax_array__())
    return AbstractRef(aval_of(type_of(x))) if isinstance(x, Ref) else aval_of(type_of(x))
