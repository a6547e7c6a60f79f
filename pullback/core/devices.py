"""Device: the name of a place where arrays live. Which ones exist is the engine's to say (`pb.devices`)."""

from __future__ import annotations

from typing import NamedTuple


class Device(NamedTuple):
    """One processor that XLA drives.

    Attributes:
        platform: the name of its platform, such as "cpu".
        id: its number among the devices of the platform.

    Example:
        >>> import pullback as pb
        >>> pb.devices()[0]
        cpu(0)
    """

    platform: str
    id: int

    def __repr__(self) -> str:
        return f"{self.platform}({self.id})"


DEFAULT_DEVICE = Device("cpu", 0)
