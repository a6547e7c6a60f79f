"""Device: the name of a place where arrays live. Which ones exist is the engine's to say (`pb.devices`)."""

from __future__ import annotations

from typing import Any

from pullback.core.execution import engine


class Device:
    """One processor that XLA drives.

    Attributes:
        platform: the name of its platform, such as "cpu".
        id: its number among the devices of the platform, those of all processes.

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
    def process_index(self) -> int:
        """The number of the process that it belongs to.

        Example:
            >>> import pullback as pb
            >>> pb.devices()[0].process_index
            0
        """
        owners = processes.owners.get(self.platform, ())
        return owners[self.id] if self.id < len(owners) else processes.index

    @property
    def is_local(self) -> bool:
        """Whether the device belongs to this process.

        Example:
            >>> import pullback as pb
            >>> pb.devices()[0].is_local
            True
        """
        return self.process_index == processes.index

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


class _Processes:
    """The processes that compute together.

    Attributes:
        index: the number of this one. count: how many there are.
        owners: for each platform that they share, the number of the process to which each device belongs.
    """

    def __init__(self) -> None:
        self.index, self.count = 0, 1
        self.owners: dict[str, list[int]] = {}

    def first(self, platform: str) -> int:
        """The number of this process's first device."""
        return self.owners[platform].index(self.index) if platform in self.owners else 0

    def join(self, index: int, counts: list[int]) -> None:
        """This process becomes one of several, which have so many CPU devices each; they are numbered in the order of
        processes.
        Nothing may have been computed yet."""
        self.index, self.count = index, len(counts)
        self.owners["cpu"] = [owner for owner, count in enumerate(counts) for _ in range(count)]
        object.__setattr__(DEFAULT_DEVICE, "id", sum(counts[:index]))


processes = _Processes()

# The first device of this process: number 0, unless the process joins others, before it computes anything.
DEFAULT_DEVICE = Device("cpu", 0)
