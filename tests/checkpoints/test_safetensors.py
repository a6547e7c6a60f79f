"""Files of safetensors, against the library that defines them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp

library: Any = pytest.importorskip("safetensors.numpy")
opened: Any = pytest.importorskip("safetensors").safe_open

COMMON = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
OURS = [*COMMON, "complex64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]


def values(name: str, shape: tuple[int, ...]) -> Any:
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    return np.asarray(np.arange(np.prod(shape)).reshape(shape) % 2, dtype)


def test_the_library_reads_what_is_saved(tmp_path: pathlib.Path) -> None:
    tree = {name: {str(shape): values(name, shape) for shape in [(), (5,), (0, 2), (3, 2)]} for name in COMMON}
    pb.checkpoint.save_safetensors(tmp_path / "x.safetensors", tree, metadata={"format": "np", "note": "ä"})
    found = library.load_file(tmp_path / "x.safetensors")
    for name, row in tree.items():
        for shape, own in row.items():
            read = found.pop(f"{name}.{shape}")
            assert read.dtype == own.dtype and read.shape == own.shape
            np.testing.assert_array_equal(read, own)
    assert not found
    with opened(tmp_path / "x.safetensors", "np") as file:
        assert file.metadata() == {"format": "np", "note": "ä"}
    assert [one.name for one in tmp_path.iterdir()] == ["x.safetensors"]


def test_what_the_library_saves_is_read(tmp_path: pathlib.Path) -> None:
    tree = {f"{name} {shape}": values(name, shape) for name in COMMON for shape in [(), (5,), (0, 2), (3, 2)]}
    tree["bf16"] = values("bfloat16", (3, 3))
    library.save_file(tree, tmp_path / "x.safetensors", metadata={"a": "b"})
    found = pb.checkpoint.load_safetensors(tmp_path / "x.safetensors")
    assert found.keys() == tree.keys()
    for name, own in tree.items():
        assert found[name].dtype == own.dtype and found[name].shape == own.shape
        assert np.asarray(found[name]).tobytes() == own.tobytes()


def test_every_dtype_comes_back(tmp_path: pathlib.Path) -> None:
    tree = {name: [pnp.asarray(values(name, shape)) for shape in [(), (7,), (0,)]] for name in OURS}
    pb.checkpoint.save_safetensors(tmp_path / "x", tree)
    found = pb.checkpoint.load_safetensors(tmp_path / "x", tree, shardings=pb.devices()[0])
    assert pb.tree.structure(found) == pb.tree.structure(tree)
    for one, two in zip(pb.tree.leaves(found), pb.tree.leaves(tree)):
        assert one.type is two.type.strong() and np.asarray(one).tobytes() == np.asarray(two).tobytes()


def test_an_index_of_several_files(tmp_path: pathlib.Path) -> None:
    parts = {"one.safetensors": {"a": np.ones(3, "f4"), "b": np.zeros((2, 2))}, "two.safetensors": {"c": np.arange(4)}}
    for name, tree in parts.items():
        library.save_file(tree, tmp_path / name)
    index = {"metadata": {"total_size": 1}, "weight_map": {key: name for name, tree in parts.items() for key in tree}}
    file = tmp_path / "model.safetensors.index.json"
    file.write_text(json.dumps(index))
    for path in (tmp_path, file):
        assert {key: found.shape for key, found in pb.checkpoint.load_safetensors(path).items()} == {
            "a": (3,),
            "b": (2, 2),
            "c": (4,),
        }
    (found,) = pb.checkpoint.load_safetensors(file, {"c": np.zeros(4, int)}).values()
    np.testing.assert_array_equal(found, np.arange(4))
    for where, message in [
        ("one.safetensors", "no array 'd'"),
        ("three", "three is missing"),
        ("../x", "no file beside it"),
        ("..", "no file beside it"),
    ]:
        file.write_text(json.dumps({"weight_map": {**index["weight_map"], "d": where}}))
        with pytest.raises(pb.errors.CorruptCheckpoint, match=message):
            pb.checkpoint.load_safetensors(tmp_path)


def raw(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"w": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


DAMAGED: list[tuple[bytes, str]] = [
    (b"", "0 bytes"),
    (b"1234567", "7"),
    ((1 << 62).to_bytes(8, "little"), "header would have"),
    (raw(b"nonsense"), "no file of safetensors"),
    (raw(b"\xff\xfe"), "no file of safetensors"),
    (raw([]), "no file of safetensors"),
    (raw({"w": 1}), "no file of safetensors"),
    (raw({"w": {"dtype": "F32"}}), "no file of safetensors"),
    (raw(entry("F7"), b"12345678"), "dtype F7"),
    (raw(entry(shape=[-2]), b"12345678"), "shape"),
    (raw(entry(shape=[2.0]), b"12345678"), "shape"),
    (raw(entry(offsets=[0, 4]), b"1234"), "4 bytes instead of 8"),
    (raw(entry(offsets=[4, 12]), b"123456789012"), "begins at byte"),
    (raw(entry(), b"1234567"), "its arrays end at"),
    (raw(entry(), b"123456789"), "its arrays end at"),
    (raw(entry(shape=[2**40, 2**40], offsets=[0, 8]), b"12345678"), "instead of"),
    (
        raw(b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
        "twice",
    ),
    (raw(entry("BOOL", [2], [0, 2]), b"\1\2"), "neither 0 nor 1"),
    (raw(b'{"w":' + b"[" * 100_000), "no file of safetensors"),
    (raw(json.dumps(entry()).encode("utf-16-le"), b"12345678"), "no file of safetensors"),
    (raw(entry(shape=[0, 10**30], offsets=[0, 0])), "no file of safetensors"),
    (raw(entry(shape=[0, 2**62, 8], offsets=[0, 0])), "no file of safetensors"),
    (raw(entry("U8", [1] * 70, [0, 1]), b"1"), "no file of safetensors"),
]


@pytest.mark.parametrize("data, message", DAMAGED, ids=[str(i) for i in range(len(DAMAGED))])
def test_a_damaged_file_is_named(tmp_path: pathlib.Path, data: bytes, message: str) -> None:
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(pb.errors.CorruptCheckpoint, match=f"x.safetensors.*{message}"):
        pb.checkpoint.load_safetensors(tmp_path / "x.safetensors")


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(pb.errors.CorruptCheckpoint, match=r"model.safetensors is missing"):
        pb.checkpoint.load_safetensors(tmp_path)


def test_what_does_not_fit_is_named(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x"
    pb.checkpoint.save_safetensors(file, {"a": {"b": pnp.ones(2)}, "c": pnp.zeros(1)})
    for like, error, message in [
        ({"a": {"d": pnp.ones(2)}}, pb.errors.StructureError, "no array 'a.d'; it has"),
        ({"a": {"b": pnp.ones(3)}}, pb.errors.ShapeError, "a.b has the shape"),
        ({"a": {"b": np.ones(2)}}, pb.errors.DtypeError, "a.b has the dtype"),
        ({"a": {"b": 1.0}}, pb.errors.LeafError, "a.b is 1.0"),
    ]:
        with pytest.raises(error, match=message):
            pb.checkpoint.load_safetensors(file, like)
    for tree, error, message in [
        ({"a": {"b": 1.0}, "a.b": 2.0}, pb.errors.LeafError, "a.b"),
        (pnp.ones(2), pb.errors.LeafError, "''"),
        ({"k": pb.random.key(0)}, pb.errors.DtypeError, "k is"),
        ({"k": pnp.ones(2, "complex128")}, pb.errors.DtypeError, "k is"),
        ({"a": {"k": "text"}}, pb.errors.LeafError, "^a.k: "),
        ({(1, 2): 1.0}, pb.errors.LeafError, "key"),
        ({"\ud800": 1.0}, ValueError, "UTF-8"),
    ]:
        with pytest.raises(error, match=message):
            pb.checkpoint.save_safetensors(file, tree)
    with pytest.raises(TypeError, match="texts"):
        pb.checkpoint.save_safetensors(file, {"a": 1.0}, metadata={"a": 1})  # type: ignore[dict-item]
    assert [one.name for one in tmp_path.iterdir()] == ["x"], "and the file is as it was"
    assert list(pb.checkpoint.load_safetensors(file)) == ["a.b", "c"]
