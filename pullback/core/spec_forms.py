"""How arrays lie on a mesh, as JSON data: the specs of shardings by the names of axes, without devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.meshes import AbstractMesh
from pullback.core.shardings import NamedSharding, PartitionSpec, names_of

Shardings = Sequence[NamedSharding | None]


def specs_data(shardings: Shardings) -> list[Any]:
    """The specs of shardings: for each axis of the array a list of names. None stays None."""
    return [None if one is None else [list(names_of(part)) for part in one.spec] for one in shardings]


def shardings_of_data(mesh: AbstractMesh | None, data: Sequence[Any]) -> Shardings:
    """The shardings of which `specs_data` wrote the specs, on a mesh."""

    def of(spec: Any) -> NamedSharding | None:
        return None if mesh is None or spec is None else NamedSharding(mesh, PartitionSpec(*map(tuple, spec)))

    return tuple(map(of, data))
