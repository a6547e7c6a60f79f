"""Platforms other than the CPU: PJRT plugins that are installed, found without importing any of their Python modules.

A plugin's package announces itself by an entry point in the group `jax_plugins`; the module that it names imports jax, so only
the package's files are looked at, for a shared library of PJRT's C interface (`xla_cuda_plugin.so` and its like). Nothing of
this runs in our tests but the registration itself, with a made-up client: there is no accelerator there.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from pullback.core.lazy import lazy_module
from pullback.engine.backend import platforms
from pullback.engine.jaxlib import jaxlib
from pullback.engine.xla import register_platform

metadata = lazy_module("importlib.metadata")

GROUP = "jax_plugins"
_PLATFORMS = ("cuda", "rocm", "metal", "tpu")


def find_libraries() -> dict[str, str]:
    """The shared library of each platform for which a plugin is installed."""
    found: dict[str, str] = {}
    for entry in metadata.entry_points(group=GROUP):
        for file in (entry.dist.files or []) if entry.dist is not None else []:
            if file.suffix in (".so", ".dylib", ".dll") and ("pjrt" in file.name or "plugin" in file.name):
                platform = next((name for name in _PLATFORMS if name in entry.name or name in file.name), entry.name)
                path = Path(str(file.locate()))
                if path.exists():
                    found.setdefault(platform, str(path))
    return found


def _client(platform: str, library: str) -> Any:
    return jaxlib().plugin_client(platform, library)


@functools.cache
def discover() -> tuple[str, ...]:
    """Make the platforms of installed plugins known; their clients are made when they are first used."""
    found = find_libraries()
    for platform, library in found.items():
        if platform not in platforms():
            register_platform(platform, functools.partial(_client, platform, library))
    return tuple(found)
