"""jax.numpy: pullback.numpy, but for what JAX does differently."""

from __future__ import annotations

from pullback.compat.jax.facade import facade

facade(globals(), "pullback.numpy", own={"pullback": "ndarray=Array"})
