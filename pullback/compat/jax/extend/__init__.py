"""jax.extend: for libraries that are built on JAX."""

from __future__ import annotations

from pullback.compat.jax.facade import facade

facade(globals())
