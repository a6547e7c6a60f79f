"""Device: the name of a place where arrays live. Which ones exist is the engine's to say (`pb.devices`)."""

from __future__ import annotations

from typing import Any

from pullback.core.execution import engine


class Device:
    """One processor that XLA drives.

    Attributes:
        platform: the name of its platform, such as "cpu".
        id: its number among the devices of the platform.

    Example:
        >>> import pullback as pb
        >>> pb.devices()[0]
        cpu(0)
    """

    # Not a tuple, which NumPy and pytrees would take apart
    __slots__ = ("id", "platform")
    platform: str
    id: int

    def __init__(self, platform: str, id: int) -> None:
        object.__setattr__(self, "platform", platform)
        object.__setattr__(self, "id", id)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"A device's {name} cannot be set: pb.devices() lists the devices that there are.")

    @property
    def is_local(self) -> bool:
        """Whether the device belongs to this process.

        Example:
            >>> import pullback as pb
            >>> pb.devices()[0].is_local
            True
        """
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id and self.platform == other.platform

    def __lt__(self, other: Device) -> bool:
        return (self.platform, self.id) < (other.platform, other.id)

    def __hash__(self) -> int:
        return hash((self.platform, self.id))

    def __reduce__(self) -> tuple[Any, ...]:
        return Device, (self.platform, self.id)

    def memory_stats(self) -> dict[str, int] | None:
        """How much of its memory is in use, and what was, as its platform counts it.

        Returns:
            Numbers by their names, such as `bytes_in_use`, `peak_bytes_in_use` and `bytes_limit`; None where the platform does
            not count, as the CPU.

        Raises:
            DeviceError: there is no such device.

        Example:
            >>> import pullback as pb
            >>> pb.devices("cpu")[0].memory_stats() is None
            True
        """
        return engine().memory_stats(self)

    def __repr__(self) -> str:
        return f"{self.platform}({self.id})"


DEFAULT_DEVICE = Device("cpu", 0)
