"""jax.numpy.fft: pullback.numpy.fft."""

from __future__ import annotations

from pullback.compat.jax.facade import facade

facade(globals(), "pullback.numpy.fft")
