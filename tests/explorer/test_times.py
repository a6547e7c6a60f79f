"""The flame graph of a page: its frames are those of what ran, and name rows of the last Program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.explorer.checked import check_page

W = np.linspace(-1.0, 1.0, 256, dtype=np.float32).reshape(16, 16)


def loss(w: Any, x: Any) -> Any:
    hidden = pnp.tanh(x @ w)
    last, _ = pb.lax.scan(lambda c, row: (pnp.sin(c) + row.sum(), None), 0.0, hidden)
    return pnp.sum(hidden**2) + last


@pytest.mark.parametrize("apply", ["", "grad", "grad,vmap(in_axes=(None, 0)),jit"])
def test_frames_name_rows(apply: str) -> None:
    x = np.stack([W] * 3) if "vmap" in apply else W
    found = pb.explore(loss, W, x, apply=apply, profile=True, compile=False)
    check_page(found.data)
    flame = found.data["profile"]
    assert flame["rows"][0]["name"] == found.data["call"] and flame["total"] > 0.0
    last = [stage for stage in found.data["stages"] if stage["kind"] == "program"][-1]
    rows = {row["id"]: row for row in last["rows"] if "op" in row}
    named = {id for frame in flame["rows"] for id in frame["from"]}
    assert named <= set(rows)
    assert {"dot_general", "tanh", "sin"} - {rows[id]["op"] for id in named} <= {"tanh", "sin"} and len(named) > 3


def test_it_needs_values() -> None:
    with pytest.raises(pb.errors.LeafError, match="is a type"):
        pb.explore(loss, pb.ArrayType((4, 4)), pb.ArrayType((4, 4)), profile=True, compile=False)
