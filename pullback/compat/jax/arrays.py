"""What JAX's arrays, traced values and devices have besides pullback's: attributes that are put on pullback's classes.

`attach` puts them there, when the façade is imported, and `detach` restores what was there.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from pullback.compat.jax.facade import adapter
from pullback.compat.jax.sharding import OF_MESHES, OF_NAMED, OF_SHARDINGS, OF_SINGLE, OF_SPECS, Format, constrained
from pullback.core import meshes
from pullback.core.array import Array, is_deleted
from pullback.core.devices import Device, processes
from pullback.core.dtypes import SHORT_NAMES, is_key
from pullback.core.lazy import lazy_module
from pullback.core.methods import ArrayMethods
from pullback.core.refs import Ref
from pullback.core.shardings import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from pullback.core.tracing import Tracer
from pullback.numpy.updates import Place

backends = lazy_module("pullback.engine.xla")
errors = lazy_module("pullback.compat.jax.errors")
structs = lazy_module("pullback.compat.jax.structs")
tracing = lazy_module("pullback.compat.jax.tracing")


# ---- arrays -----------------------------------------------------------------------------------------------------------


def _values(x: Any) -> np.ndarray[Any, Any]:
    if is_key(x.dtype):
        return np.ascontiguousarray(x.host).view(np.uint32).reshape((*x.shape, x.dtype.itemsize // 4))
    found: np.ndarray[Any, Any] = x.view()
    return found


def _repr(x: Any) -> str:
    if is_deleted(x):
        raise RuntimeError(
            f"This {_short(x)} has no values to show: its memory was given up by delete() or to a function that it was donated"
            " to. Keep a copy of it, x.copy(), if it is needed after that."
        )
    if is_key(x.dtype):
        return f"Array({x.shape}, dtype={SHORT_NAMES[x.dtype]}) overlaying:\n{_values(x)}"
    if not (x.is_fully_addressable or x.is_fully_replicated):
        return f"Array(shape={x.shape}, dtype={x.dtype.name})"
    dtype = f"dtype={x.dtype.name}{', weak_type=True' if x.weak_type else ''}"
    width = np.get_printoptions()["linewidth"]
    text = f"[], shape={x.shape}"
    if x.size:
        text = np.array2string(_values(x), prefix="Array(", suffix=",", separator=", ", max_line_width=width)
    last_line = len(text) - text.rfind("\n") + 1
    return f"Array({text},{' ' if last_line + len(dtype) + 2 <= width else ' ' * 6}{dtype})"


def _ref_repr(ref: Ref) -> str:
    own = _own_ref_repr(ref)
    return f"Ref({own.removeprefix('Ref(Array(')[:-1]}" if own.startswith("Ref(Array(") else own


_own_ref_repr = Ref.__repr__


def _str(x: Any) -> str:
    return repr(x) if is_key(x.dtype) or is_deleted(x) else str(_values(x))


def _format(x: Any, spec: str) -> str:
    return format(x.item() if not x.shape and not is_key(x.dtype) else str(x), spec) if spec or not x.shape else str(x)


def _addressable_data(x: Any, index: int) -> Any:
    return x.addressable_shards[index].data


def _unsafe_buffer_pointer(x: Any) -> int:
    found: int = backends.buffer_of(x).unsafe_buffer_pointer()
    return found


def _known_format(x: Any) -> Format:
    return Format(None, x.sharding)


@adapter
def _anywhere(method: Callable[..., Any], *args: Any, out_sharding: Any = None, device: Any = None, **more: Any) -> Any:
    """A method that takes JAX's `out_sharding`, and `device`, as well."""
    return constrained(constrained(method(*args, **more), device), out_sharding)


_PLACED = "astype dot flatten ravel repeat reshape"
_UPDATES = "get set add subtract multiply divide power min max apply"

_OF_ARRAYS: dict[str, Any] = {
    "__repr__": _repr,
    "__str__": _str,
    "__format__": _format,
    "addressable_data": _addressable_data,
    "format": property(_known_format),
    "_committed": property(lambda x: x.committed),
    "copy_to_host_async": lambda x: None,
    "on_device_size_in_bytes": lambda x: x.nbytes,
    "platform": lambda x: x.sharding.devices[0].platform,
    "unsafe_buffer_pointer": _unsafe_buffer_pointer,
    "traceback": property(lambda x: None),
    "_value": property(_values),
}


# ---- traced values ----------------------------------------------------------------------------------------------------

_KINDS = {"vmap": "Vmap", "grad": "Grad", "jvp": "JVP", "transposition": "Transpose", "jet": "Jet"}


def _tracer_repr(x: Any) -> str:
    kind = _KINDS.get(x.owner.transformation, "Jit")
    if kind == "Vmap":
        shown = f"aval={_short(x)}, batched={_short(x.value)}"
    elif hasattr(x, "tangent"):
        tangent = f"typeof(tangent)={x.tangent.type}" if kind == "Grad" else f"tangent={x.tangent}"
        shown = f"primal={x.primal}, {tangent}"
    else:
        shown = _short(x)
    return f"{kind}Tracer({shown})"


def _aval(x: Any) -> Any:
    return structs.aval_of(x.type)


def _short(x: Any) -> str:
    return f"{x.dtype.name}[{','.join(map(str, x.shape))}]"


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(x: Any, *args: Any) -> Any:
        raise errors.ConcretizationTypeError(
            x, f"{name} was asked of a traced value of type {_short(x)}, which has no values yet."
        )

    return refuse


def _no_sharding(x: Any) -> Any:
    raise AttributeError(f"A traced value of type {_short(x)} has no sharding yet: ask jax.typeof(x).")


def _array_namespace(x: Any, api_version: str | None = None) -> Any:
    _own_namespace(x, api_version)  # which knows the versions
    return import_module("pullback.compat.jax.numpy")


_own_namespace = ArrayMethods.__array_namespace__
_OF_KNOWN = "committed addressable_shards global_shards is_fully_addressable is_fully_replicated traceback"
_METHODS = "addressable_data delete devices is_deleted on_device_size_in_bytes unsafe_buffer_pointer __dlpack__"
_OF_TRACERS: dict[str, Any] = {
    "__repr__": _tracer_repr,
    "__str__": _tracer_repr,
    "_trace": property(lambda x: tracing.TraceView(x.owner)),
    "sharding": property(_no_sharding),
    **{name: property(_refusal(name)) for name in _OF_KNOWN.split()},
    **{name: _refusal(f"{name}()") for name in _METHODS.split()},
}


# ---- devices ----------------------------------------------------------------------------------------------------------


class _Client:
    """The one of JAX's clients' methods that programs ask."""

    platform = "cpu"
    platform_version = "pullback"
    runtime_type = "tfrt"

    def process_index(self) -> int:
        return processes.index


_CLIENT = _Client()

_OF_DEVICES: dict[str, Any] = {
    "__repr__": lambda device: f"{device.platform.capitalize()}Device(id={device.id})",
    "__str__": lambda device: f"{device.platform}:{device.id}",
    "device_kind": property(lambda device: device.platform),
    "host_id": property(lambda device: device.process_index),
    "local_hardware_id": property(lambda device: device.id - processes.first(device.platform) if device.is_local else None),
    "client": property(lambda device: _CLIENT),
    "memory_stats": lambda device: None,
    "addressable_memories": lambda device: [],
}

_ALL: tuple[tuple[type, dict[str, Any]], ...] = (
    # __hash__ is None, so that collections.abc.Hashable says that they have none.
    (ArrayMethods, {"aval": property(_aval), "__array_namespace__": _array_namespace, "__hash__": None}),
    (ArrayMethods, {name: _anywhere(getattr(ArrayMethods, name)) for name in _PLACED.split()}),
    (Place, {name: _anywhere(getattr(Place, name)) for name in _UPDATES.split()}),
    (Ref, {"__repr__": _ref_repr}),
    (Array, _OF_ARRAYS),
    (Tracer, _OF_TRACERS),
    (Device, _OF_DEVICES),
    (meshes.AbstractMesh, OF_MESHES),
    (PartitionSpec, OF_SPECS),
    (Sharding, OF_SHARDINGS),
    (NamedSharding, OF_NAMED),
    (SingleDeviceSharding, OF_SINGLE),
)
_MISSING = object()
_before: list[tuple[type, str, Any]] = []


def attach() -> None:
    """Give pullback's classes what JAX's have. A second call changes nothing."""
    if not _before:
        for cls, attributes in _ALL:
            for name, value in attributes.items():
                _before.append((cls, name, vars(cls).get(name, _MISSING)))
                setattr(cls, name, value)


def detach() -> None:
    """Give pullback's classes back what they had."""
    while _before:
        cls, name, value = _before.pop()
        if value is _MISSING:
            delattr(cls, name)
        else:
            setattr(cls, name, value)
