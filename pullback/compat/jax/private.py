"""Names of `jax._src`, private to JAX, that its clients use all the same: where they have no meaning here, they do nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.lazy import lazy_module
from pullback.ops.convert import convert_element_type

placement = lazy_module("pullback.compat.jax.placement")
structs = lazy_module("pullback.compat.jax.structs")

_exclude_paths: list[str] = []
_backends: dict[str, Any] = {}  # JAX's clients of XLA, by platform: pullback's are elsewhere


def register_exclusion(path: str) -> None:
    """Nothing: pullback's own frames are left out of tracebacks anyway."""


def include_frame(frame: Any) -> bool:
    return True


def api_boundary(fun: Any, **ignored: Any) -> Any:
    return fun


def wait_for_tokens() -> None:
    """Nothing: effects have happened when a call returns."""


def _reconstruct_array(fun: Any, args: Any, arr_state: Any, aval_state: dict[str, Any]) -> Any:
    """The array that JAX has put into a pickle: the parts of a NumPy array's, and what its type has besides."""
    values = fun(*args)
    values.__setstate__(arr_state)
    return convert_element_type(placement.device_put(values), new_dtype=values.dtype, weak=aval_state.get("weak_type", False))


class LiteralArray:
    """A class without instances here."""


class TypedNdArray:
    """A class without instances here."""


class ExtendedDType:
    """The base of dtypes of others, which pullback has not."""


class EArray:
    """A class without instances here."""


class AbstractRef:
    """The aval of a Ref; of which there are none, since Refs are no values of Programs."""


global_result_handlers: dict[Any, Any] = {}
# How JAX takes values of a class for arrays. Clients register classes of their own, as what the first entry is; here those
# serve that have a shape and a dtype, or can be converted by NumPy.
canonicalize_dtype_handlers: dict[Any, Any] = {np.ndarray: np.asarray}
pytype_aval_mappings: dict[Any, Any] = {np.ndarray: lambda x: structs.typeof(x)}


def apply_primitive(prim: Any, *args: Any, **params: Any) -> Any:
    return prim.bind(*args, **params)


def physical_aval(aval: Any) -> Any:
    return aval


class TraceTag:
    """Refused, as are traces of a program's own."""

    def __init__(self) -> None:
        raise NotImplementedError("Traces that programs define by jax.core are not provided by pullback.")


def set_current_trace(trace: Any) -> Any:
    return TraceTag()


def take_current_trace() -> Any:
    return TraceTag()
