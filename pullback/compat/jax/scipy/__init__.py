"""jax.scipy: pullback.scipy."""

from __future__ import annotations

from pullback.compat.jax.facade import facade

facade(globals(), "pullback.scipy")
