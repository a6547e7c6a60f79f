"""jax.example_libraries: small libraries of layers and of optimizers, which JAX has as examples."""

from __future__ import annotations

from pullback.compat.jax.facade import facade

facade(globals())
