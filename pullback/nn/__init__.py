"""Activation functions, attention, and what goes with them: the names and signatures of `jax.nn`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
