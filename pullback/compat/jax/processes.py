"""What JAX's clients import, but need for several processes or devices, or for sparse arrays, only."""

from __future__ import annotations

from typing import Any

_REASON = "is about several processes or devices, which come later"


def sync_global_devices(name: str) -> None:
    """Nothing: there is one process."""


class Layout:
    """The order of an array's axes in memory."""

    def __init__(self, major_to_minor: Any, tiling: Any = None, sub_byte_element_size_in_bits: int = 0) -> None:
        self.major_to_minor, self.tiling = major_to_minor, tiling


class GlobalAsyncCheckpointManager:
    """Refused."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"GlobalAsyncCheckpointManager {_REASON}.")


def get_tensorstore_spec(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(f"get_tensorstore_spec {_REASON}.")


def backend_compile_and_load(*args: Any, **kwargs: Any) -> Any:
    """A hook of JAX's compiler, which programs replace: nothing calls it here."""
    raise NotImplementedError("pullback compiles by pullback.engine; jax._src.compiler is JAX's own.")


class JAXSparse:
    """The base of JAX's sparse arrays, of which there are none here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("jax.experimental.sparse is not provided by pullback: its arrays are dense.")


class BCOO(JAXSparse):
    """Refused."""


class BCSR(JAXSparse):
    """Refused."""
