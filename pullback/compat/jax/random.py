"""jax.random: pullback.random."""

from __future__ import annotations

from pullback.compat.jax.facade import facade

facade(globals(), "pullback.random")
