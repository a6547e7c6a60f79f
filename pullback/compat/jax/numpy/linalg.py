"""jax.numpy.linalg: pullback.numpy.linalg."""

from __future__ import annotations

from pullback.compat.jax.facade import facade
from pullback.compat.jax.sharding import with_sharding

facade(
    globals(),
    "pullback.numpy.linalg",
    "EighResult EigResult LinAlgError QRResult SVDResult SlogdetResult",
    adapted={"tensordot": with_sharding},
)
