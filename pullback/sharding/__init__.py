"""Meshes of devices, and how arrays lie on them: the names of `jax.sharding`."""

from __future__ import annotations

from pullback.core.namespaces import open_namespace

open_namespace(globals())
