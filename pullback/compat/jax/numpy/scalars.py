"""jax.numpy's scalar types: each is a dtype wherever one is taken, and makes an Array when it is called."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pullback.core.array import Array
from pullback.core.source import api_boundary
from pullback.numpy.creation import asarray


class ScalarType(type):
    """The class of `jnp.float32` and the others. Each equals NumPy's class of that name, and hashes as it does."""

    dtype: np.dtype[Any]

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        return self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __eq__(self, other: object) -> bool:
        return self is other or self.dtype.type == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    @api_boundary
    def __call__(self, x: Any) -> Array:
        return asarray(np.array(x, self.dtype) if isinstance(x, str) else x, self.dtype)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self.dtype.type)


def _scalar_type(scalar: type) -> ScalarType:
    doc = f"The dtype {scalar.__name__}; called with a number, a 0-d array of it."
    return ScalarType(scalar.__name__, (), {"dtype": np.dtype(scalar), "__doc__": doc, "__module__": "jax.numpy"})


def _scalar_types() -> dict[str, ScalarType]:
    found = {name: _scalar_type(getattr(np, name)) for name in OF_NUMPY.split()}
    found |= {name: _scalar_type(getattr(ml_dtypes, name)) for name in NARROW.split() if hasattr(ml_dtypes, name)}
    return found | {alias: found[name] for alias, _, name in (word.partition("=") for word in ALIASES.split())}


OF_NUMPY = "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
NARROW = (
    "int1 int2 int4 uint1 uint2 uint4 bfloat16 float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3"
    " float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu"
)
ALIASES = (
    "bool=bool_ single=float32 double=float64 csingle=complex64 cdouble=complex128"
    " int_=int64 uint=uint64 float_=float64 complex_=complex128"
)
SCALAR_TYPES = _scalar_types()
globals().update(SCALAR_TYPES)
