"""jax.numpy.linalg: pullback.numpy.linalg."""

from __future__ import annotations

from pullback.compat.jax.facade import facade, with_sharding
from pullback.numpy import linalg

tensordot = with_sharding(linalg.tensordot)

facade(globals(), "pullback.numpy.linalg", "EighResult EigResult LinAlgError QRResult SVDResult SlogdetResult")
