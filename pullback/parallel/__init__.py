"""Many devices and processes: arrays that are divided among them, and programs that run on all of them."""

from __future__ import annotations

from pullback.core.namespaces import open_namespace

open_namespace(globals())
