"""What JAX's clients import, but never use unless they reach what pullback has not: each refuses, or does nothing, as is told.

Many are names of `jax._src`, private to JAX, which its clients use all the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.compat.jax.structs import AbstractValue, typeof
from pullback.core.devices import processes


def _refused(name: str, why: str) -> type:
    """A class that cannot be made, or a function that cannot be called."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{name} is not provided by pullback: {why}.")

    return type(name, (), {"__init__": refuse, "fromdense": classmethod(refuse), "__module__": __name__})


_PROCESSES = "pb.checkpoint saves and restores arrays of several processes"
_SPARSE = "arrays are dense"
_TYPES = "types that programs define by jax.experimental.hijax are not"
_REFUSED = {
    "GlobalAsyncCheckpointManager": _PROCESSES,
    "get_tensorstore_spec": _PROCESSES,
    "backend_compile_and_load": "pullback.engine compiles, and jax._src.compiler is JAX's own",
    "JAXSparse": _SPARSE,
    "sparsify": _SPARSE,
    "BCOO": _SPARSE,
    "BCSR": _SPARSE,
    "AvalQDD": _TYPES,
    "AvalMutableQDD": _TYPES,
    "cur_qdd": _TYPES,
    "TraceTag": "programs define no traces by jax.core",
    "set_current_trace": "programs define no traces by jax.core",
    "take_current_trace": "programs define no traces by jax.core",
}
_EMPTY = "LiteralArray TypedNdArray ExtendedDType EArray DeviceList"  # of which there are no instances
globals().update({name: _refused(name, why) for name, why in _REFUSED.items()})
globals().update({name: type(name, (), {"__module__": __name__}) for name in _EMPTY.split()})


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing: effects have happened when a call returns, and pullback's frames are in no traceback."""


register_exclusion = wait_for_tokens = register_hitype = _nothing


def safe_zip(*sequences: Any) -> list[Any]:
    """zip, as a list, of sequences of one length."""
    return list(zip(*sequences, strict=True))


def safe_map(function: Any, *sequences: Any) -> list[Any]:
    """map, as a list, over sequences of one length."""
    return [function(*items) for items in safe_zip(*sequences)]


ifrt_programs = None  # of a runtime of many machines


class _State:
    """Which process this is, as jax._src.distributed says it. The client and the service are pullback's own affair."""

    client = service = coordinator_address = None
    process_id = property(lambda self: processes.index)
    num_processes = property(lambda self: processes.count)


global_state = _State()
_exclude_paths: list[str] = []
_backends: dict[str, Any] = {}  # JAX's clients of XLA, by platform: pullback's are elsewhere
global_result_handlers: dict[Any, Any] = {}
# How JAX takes values of a class for arrays. Clients register classes of their own, as what the first entry is; here those
# serve that have a shape and a dtype, or can be converted by NumPy.
canonicalize_dtype_handlers: dict[Any, Any] = {np.ndarray: np.asarray}
pytype_aval_mappings: dict[Any, Any] = {np.ndarray: typeof}


def include_frame(frame: Any) -> bool:
    return True


def api_boundary(fun: Any, **ignored: Any) -> Any:
    return fun


def apply_primitive(prim: Any, *args: Any, **params: Any) -> Any:
    return prim.bind(*args, **params)


def physical_aval(aval: Any) -> Any:
    return aval


class Layout:
    """The order of an array's axes in memory."""

    def __init__(self, major_to_minor: Any, tiling: Any = None, sub_byte_element_size_in_bits: int = 0) -> None:
        self.major_to_minor, self.tiling = major_to_minor, tiling


# jax.experimental.hijax, as far as flax.nnx reads it at import. A variable of nnx's that would be a type of its own
# (`hijax=True`) needs the rest, and is refused.


class HiPrimitive:
    """A primitive that cannot be bound."""

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(f"{self.name}: {_TYPES} provided by pullback.")


class HiType(AbstractValue):
    """A type of values of a program's own."""


class MutableHiType(HiType):
    """A type of values of a program's own that change."""


class aval_method:
    """A method or a property of values, kept with their type."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing: there are no values of such types."""


aval_property = aval_method


class EffectTypes:
    """The effects that loops and branches may have."""

    add_type = staticmethod(_nothing)


control_flow_allowed_effects = EffectTypes()
