"""jax.version: that of JAX, whose names and habits these are."""

from __future__ import annotations

__version__ = "0.10.2"
__version_info__ = (0, 10, 2)
