"""`python -m pullback version`: what a bug report needs to say."""

from __future__ import annotations

import platform
from importlib import metadata

import pullback as pb


def show() -> None:
    """Print the versions of pullback and of the packages under it, and the devices."""
    print(f"{'pullback':10}{_version('pullback')}")
    for package in ("jaxlib", "numpy", "ml_dtypes", "optree"):
        print(f"{package:10}{_version(package)}")
    print(f"{'python':10}{platform.python_version()} on {platform.system()} {platform.machine()}")
    print(f"{'devices':10}{', '.join(map(str, pb.devices()))}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
