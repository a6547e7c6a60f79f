"""jax.typing: for annotations."""

from __future__ import annotations

from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from pullback.compat.jax.facade import facade
from pullback.core.abstract import Array


@runtime_checkable
class SupportsDType(Protocol):
    @property
    def dtype(self, /) -> np.dtype[Any]: ...


# JAX's clients look into these
ArrayLike = Union[Array, np.ndarray, np.bool_, np.number, bool, int, float, complex]  # noqa: UP007
DTypeLike = Union[str, type[Any], np.dtype[Any], SupportsDType]  # noqa: UP007

facade(globals())
