"""Checkpoints of arrays that are divided among eight devices: written by parts, restored onto any other mesh."""

from __future__ import annotations

import pathlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import P
from pullback.checkpoints import stores

pytest.importorskip("tensorstore")

LINE = pb.make_mesh((8,), ("x",))
GRID = pb.make_mesh((2, 4), ("data", "model"))
REVERSED = pb.sharding.Mesh(pb.devices()[::-1], ("x",))
THREE = pb.make_mesh((3,), ("x",), devices=pb.devices()[2:5])


def on(mesh: pb.sharding.Mesh, *parts: Any) -> pb.NamedSharding:
    return pb.NamedSharding(mesh, P(*parts))


SHARDINGS = [
    on(LINE, "x"), on(LINE, None, "x"), on(GRID, "data", "model"), on(GRID, "model", "data"), on(GRID, ("model", "data")),
    on(GRID, "model"), on(GRID), on(REVERSED, "x"), on(THREE, None, "x"),
]  # fmt: skip
VALUES = np.random.default_rng(0).normal(size=(16, 24)).astype("f4")


@pytest.mark.parametrize("ocdbt", [False, True])
def test_every_sharding_onto_every_other(tmp_path: pathlib.Path, ocdbt: bool) -> None:
    pb.checkpoint.save(tmp_path, [pb.device_put(VALUES, one) for one in SHARDINGS], ocdbt=ocdbt)
    for sharding in SHARDINGS:
        for found in pb.checkpoint.restore(tmp_path, shardings=sharding):
            assert found.sharding is sharding and found.dtype == np.float32
            np.testing.assert_array_equal(np.asarray(found), VALUES)
    for found in pb.checkpoint.restore(tmp_path):
        assert not found.committed
        np.testing.assert_array_equal(np.asarray(found), VALUES)


def test_each_part_is_written_once(tmp_path: pathlib.Path) -> None:
    tree = {str(i): pb.device_put(VALUES, one) for i, one in enumerate(SHARDINGS)}
    version = pathlib.Path(pb.checkpoint.save(tmp_path, tree))
    for number, sharding in enumerate(SHARDINGS):
        files = list((version / str(number)).glob("c*"))
        assert len(files) == len({str(place) for place in sharding.places((16, 24))})
        assert sum(one.stat().st_size - 4 for one in files) == VALUES.nbytes


def test_only_what_devices_hold_is_read(tmp_path: pathlib.Path) -> None:
    """The chunks that the two halves of a mesh need are those of their parts."""
    version = pathlib.Path(pb.checkpoint.save(tmp_path, pb.device_put(VALUES, SHARDINGS[0])))
    stored = stores.Stored("x", "f32", (16, 24), (2, 24), False)
    assert sorted(stores.chunk_files(0, stored, [(slice(4, 8), slice(0, 24))])) == ["0/c.2.0", "0/c.3.0"]
    (version / "0" / "c.7.0").unlink()
    with pytest.raises(pb.errors.CorruptCheckpoint, match=r"c\.7\.0 is missing"):
        pb.checkpoint.restore(tmp_path)


def test_shardings_and_like(tmp_path: pathlib.Path) -> None:
    tree = {"w": VALUES, "b": {"c": pnp.ones(8), "n": 3}}
    pb.checkpoint.save(tmp_path, tree)
    like = {"w": pb.device_put(VALUES, SHARDINGS[2]), "b": {"c": pb.ArrayType((8,), sharding=on(LINE, "x")), "n": 0}}
    found = pb.checkpoint.restore(tmp_path, like)
    assert found["w"].sharding is SHARDINGS[2] and found["b"]["c"].sharding is on(LINE, "x") and found["b"]["n"] == 3
    with LINE:
        found = pb.checkpoint.restore(tmp_path, like, shardings={"w": P(None, "x"), "b": None})
    assert found["w"].sharding is on(LINE, None, "x") and found["b"]["c"].sharding is on(LINE, "x")
    np.testing.assert_array_equal(np.asarray(found["w"]), VALUES)
    placed = pb.checkpoint.restore(tmp_path, shardings=pb.devices()[3])
    assert placed["w"].device == pb.devices()[3]
    with pytest.raises(pb.errors.UnevenShard, match=r"tree\['b'\]\['c'\]: Axis 0"):
        pb.checkpoint.restore(tmp_path, shardings=on(THREE, "x"))
    with pytest.raises(pb.errors.StructureError, match="shardings"):
        pb.checkpoint.restore(tmp_path, shardings={"w": on(LINE), "a": on(LINE)})


@pytest.mark.parametrize("name", ["bool", "int64", "complex64", "bfloat16", "float8_e4m3fn", "int4", "uint2"])
def test_dtypes_keys_and_weak_types(tmp_path: pathlib.Path, name: str) -> None:
    values = (np.arange(64) % 2).reshape(8, 8).astype(np.dtype(getattr(ml_dtypes, name, None) or name))
    keys = pb.device_put(pb.random.split(pb.random.key(0), 8), on(LINE, "x"))
    tree = [pb.device_put(values, on(GRID, "data", "model")), keys, pb.device_put(pnp.zeros((0, 8)), on(LINE, None, "x"))]
    pb.checkpoint.save(tmp_path, [*tree, pnp.asarray(2.5)])
    found = pb.checkpoint.restore(tmp_path, shardings=on(GRID))
    assert found[0].dtype == values.dtype and np.asarray(found[0]).tobytes() == values.tobytes()
    np.testing.assert_array_equal(pb.random.key_data(found[1]), pb.random.key_data(keys))
    assert found[2].shape == (0, 8) and found[3].type.weak and float(found[3]) == 2.5


def test_donation_while_it_is_saved(tmp_path: pathlib.Path) -> None:
    x = pb.jit(lambda x: x * 1.0)(pb.device_put(VALUES, SHARDINGS[0]))
    pending = pb.checkpoint.save_async(tmp_path, {"x": x})
    for _ in range(5):
        x = pb.jit(lambda x: x + 1.0, donate_argnums=0)(x)
    pending.result()
    np.testing.assert_array_equal(np.asarray(pb.checkpoint.restore(tmp_path)["x"]), VALUES)


def test_safetensors(tmp_path: pathlib.Path) -> None:
    pb.checkpoint.save_safetensors(tmp_path / "x", {"w": pb.device_put(VALUES, SHARDINGS[3])})
    for sharding in SHARDINGS:
        found = pb.checkpoint.load_safetensors(tmp_path / "x", shardings={"w": sharding})["w"]
        assert found.sharding is sharding
        np.testing.assert_array_equal(np.asarray(found), VALUES)
