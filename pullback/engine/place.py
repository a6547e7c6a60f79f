"""Where to compute: on the device that the arguments are committed to, else on the default device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.array import PLACED, Array, PlacedArray
from pullback.core.context import Inherited
from pullback.core.devices import DEFAULT_DEVICE, Device
from pullback.core.errors import DeviceError
from pullback.core.meshes import place_of
from pullback.engine.backend import DEFAULT_PLATFORM

_first = DEFAULT_DEVICE if DEFAULT_DEVICE.platform == DEFAULT_PLATFORM else Device(DEFAULT_PLATFORM, 0)
default_place = Inherited("pullback_default_device", _first)  # where what is committed to no other is computed
current_default_device = default_place.get


def common_device(arrays: Sequence[Array], names: Callable[[], Sequence[str]] | None = None) -> tuple[Device, bool]:
    """Where to compute with these arrays, and whether they are committed to it.

    Raises:
        DeviceError: they are committed to different devices.
    """
    found: Any = None
    first = 0
    for i, array in enumerate(arrays):
        if array.__class__ not in PLACED:
            continue
        device = array.device if array.__class__ is PlacedArray else array.sharding.devices
        if device == found:
            continue
        if found is not None:
            called = names() if names is not None else [f"operand {n}" for n in range(len(arrays))]
            a, b = called[first], called[i]
            raise DeviceError(
                f"Arrays on different devices cannot be computed with together: {a} ({arrays[first].type}) is on"
                f" {_named(found)}, {b} ({array.type}) on {_named(device)}. Move one of them with pb.device_put(x, device)."
            )
        found, first = device, i
    return (found, True) if isinstance(found, Device) else (current_default_device(), False)


def _named(place: Any) -> str:
    return str(place) if isinstance(place, Device) else place_of(place)
