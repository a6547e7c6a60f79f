"""What is saved comes back to the bit: trees, dtypes, shapes, versions; what differs is named."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections import OrderedDict, deque
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.checkpoints import stores
from pullback.core.dtypes import FLOAT8_NAMES, float0
from pullback.core.trees import same, structure_of

pytest.importorskip("tensorstore")


class State(NamedTuple):
    weights: Any
    count: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any
    name: str = dataclasses.field(default="", metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Checked:
    """A class that looks at what it is given."""

    weight: Any

    def __post_init__(self) -> None:
        assert self.weight.shape == (2,)
        object.__setattr__(self, "weight", self.weight)


class Registered:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


pb.tree.register_node(Registered, lambda one: ((one.inside,), "meta"), lambda _, children: Registered(*children))


def bits(leaf: Any) -> Any:
    """A leaf in a form in which equality means: the same to the bit."""
    if isinstance(leaf, (pb.Array, np.ndarray, np.generic)):
        if leaf.dtype == float0:
            return "float0", leaf.shape
        host = pb.random.key_data(leaf) if "key<" in str(getattr(leaf, "type", "")) else leaf
        weak = isinstance(leaf, pb.Array) and leaf.type.weak
        return type(leaf).__name__, str(leaf.dtype), leaf.shape, weak, np.asarray(host).tobytes()
    return type(leaf), hex(leaf) if type(leaf) is int else repr(leaf)


def assert_same(one: Any, two: Any) -> None:
    assert same(structure_of(one), structure_of(two))
    assert list(map(bits, pb.tree.leaves(one))) == list(map(bits, pb.tree.leaves(two)))


DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
DTYPES += ["complex64", "complex128", "bfloat16", "int2", "uint2", "int4", "uint4", *FLOAT8_NAMES]
TREES: dict[str, Any] = {
    "an array": pnp.arange(6).reshape(2, 3),
    "a number": 7,
    "None": None,
    "nothing": {},
    "numbers": [0, -1, 2**63 - 1, -(2**63), 10**5000, True, False, 0.1, -0.0, float("nan"), float("inf"), 5e-324, 1 - 2j],
    "texts": ["", "ä\n\ud800", b"\x00\xff", b""],
    "sequences": (1, [2, (), []], deque([3, 4], maxlen=2), deque()),
    "dicts": {"b": 1, "a": {"c": OrderedDict(z=1, y=2)}, "": 0},
    "keys": {1: "int", 2: "other"},
    "tuples as keys": {("a", 1): 1, ("b", None): 2},
    "named": State(pnp.ones(3), None),
    "dataclass": Layer(pnp.ones(3), State(1, np.zeros(2)), name="first"),
    "dataclass that looks at its fields": Checked(pnp.ones(2)),
    "zero": {str(shape): pnp.zeros(shape) for shape in [(0,), (0, 3), (3, 0), (1, 0, 2)]},
    "0-d": [pnp.array(3.0), pnp.float32(2), np.float64(2.5), np.array(1), np.True_, pnp.asarray(1.5)],
    "random keys": [pb.random.key(3), pb.random.split(pb.random.key(4), 5), pb.random.key(1, impl="rbg")],
    "numpy": {
        "order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "step": np.arange(10)[::-2],
        "float0": np.zeros(2, float0),
    },
}


@pytest.mark.parametrize("ocdbt", [False, True])
def test_trees_come_back(tmp_path: pathlib.Path, ocdbt: bool) -> None:
    pb.checkpoint.save(tmp_path, TREES, ocdbt=ocdbt)
    assert_same(pb.checkpoint.restore(tmp_path), TREES)
    assert_same(pb.checkpoint.restore(tmp_path, like=TREES), TREES)
    for name, tree in TREES.items():
        assert_same(pb.checkpoint.restore(tmp_path, path=name), tree)
    assert list(pb.checkpoint.restore(tmp_path)) == list(TREES), "the order of a dict"
    assert list(pb.checkpoint.restore(tmp_path, path=("dicts", "a", "c"))) == ["z", "y"]


def test_every_dtype_and_shape(tmp_path: pathlib.Path) -> None:
    draw = np.random.default_rng(0)
    tree = {}
    for name in DTYPES:
        dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
        for shape in [(), (5,), (0, 2), (3, 4)]:
            values = draw.integers(0, 2, shape).astype(dtype) if dtype.itemsize < 2 else draw.normal(size=shape).astype(dtype)
            tree[f"{name} {shape}"] = pnp.asarray(values)
    tree["nan"] = np.array([0x7FC12345, 0xFF800001], np.uint32).view(np.float32)
    tree["big-endian"] = np.arange(3, dtype=">i4")
    pb.checkpoint.save(tmp_path, tree, compression=3)
    found = pb.checkpoint.restore(tmp_path)
    np.testing.assert_array_equal(found.pop("big-endian"), tree.pop("big-endian"))
    assert_same(found, tree)


def test_large_arrays_are_divided_into_files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "CHUNK_BYTES", 256)
    tree = [np.arange(n * m).reshape(n, m) for n, m in [(64, 8), (7, 64), (1, 600), (127, 3), (2, 2)]]
    pb.checkpoint.save(tmp_path, tree)
    assert_same(pb.checkpoint.restore(tmp_path), tree)
    assert len(list(tmp_path.glob("*/0/c.*"))) == 16


@pytest.mark.parametrize("itemsize", [1, 8])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (17,), (1 << 25,), (1 << 12, 1 << 14), (3, 5, 1 << 23), (999983, 7), (2, 0)])
def test_chunks_divide_what_a_device_holds(shape: tuple[int, ...], itemsize: int) -> None:
    chunk = stores.chunk_shape(shape, itemsize)
    assert all(size % own == 0 and own > 0 for size, own in zip(shape, chunk))
    if np.prod(shape) and all(size % 2 == 0 for size in shape):
        assert stores.CHUNK_BYTES // 4 <= np.prod(chunk) * itemsize <= stores.CHUNK_BYTES or chunk == shape


def test_versions(tmp_path: pathlib.Path) -> None:
    assert pb.checkpoint.steps(tmp_path / "new") == [] and pb.checkpoint.latest(tmp_path / "new") is None
    for step in (10, 2, 123456789, 30):
        pb.checkpoint.save(tmp_path / "new", step, step=step)
    assert pb.checkpoint.steps(tmp_path / "new") == [2, 10, 30, 123456789]
    assert pb.checkpoint.restore(tmp_path / "new") == 123456789 and pb.checkpoint.restore(tmp_path / "new", step=10) == 10
    with pytest.raises(pb.errors.CheckpointError, match="a checkpoint of step 10 already"):
        pb.checkpoint.save(tmp_path / "new", 0, step=10)
    for value in ("second", "third"):
        pb.checkpoint.save(tmp_path / "new", value, step=10, overwrite=True)
        assert pb.checkpoint.restore(tmp_path / "new", step=10) == value
    assert len(list((tmp_path / "new").iterdir())) == 4, "what was replaced is gone"
    pb.checkpoint.delete(tmp_path / "new", 10)
    assert pb.checkpoint.steps(tmp_path / "new") == [2, 30, 123456789]
    with pytest.raises(pb.errors.CheckpointError, match=r"step 10 .*there are 2, 30, 123456789"):
        pb.checkpoint.delete(tmp_path / "new", 10)


def test_which_versions_are_kept(tmp_path: pathlib.Path) -> None:
    for step in range(1, 13):
        pb.checkpoint.save(tmp_path, step, step=step, keep=2, keep_every=5)
    assert pb.checkpoint.steps(tmp_path) == [5, 10, 11, 12]


WRONG_OPTIONS: list[dict[str, Any]] = [
    {"step": -1}, {"step": 1.5}, {"step": None}, {"step": True}, {"keep": 0}, {"keep_every": 2}, {"keep": 1, "keep_every": 0},
    {"compression": 23},
]  # fmt: skip


@pytest.mark.parametrize("options", WRONG_OPTIONS, ids=str)
def test_options_out_of_range(tmp_path: pathlib.Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=[*options][-1]):
        pb.checkpoint.save(tmp_path, 1, **options)
    assert not list(tmp_path.iterdir())


STORED: dict[str, Any] = {"a": pnp.ones((2, 3)), "b": [1, np.zeros(2, "i4")], "c": State(2.5, None), "d": Layer(1, 2, "x")}
UNLIKE: list[tuple[Any, type[Exception], str]] = [
    ({**STORED, "a": pb.ArrayType((3, 2))}, pb.errors.ShapeError, "tree['a'] has the shape (3, 2) .* (2, 3)"),
    ({**STORED, "a": pnp.ones((2, 3), "bfloat16")}, pb.errors.DtypeError, "tree['a'] has the dtype bfloat16 .* float32"),
    ({**STORED, "a": 1.0}, pb.errors.StructureError, "tree['a'] is of type float .* an array"),
    ({**STORED, "b": [1.0, STORED["b"][1]]}, pb.errors.StructureError, "tree['b'][0] is of type float .* an int"),
    ({**STORED, "b": [STORED["a"], ...]}, pb.errors.StructureError, "tree['b'][0] is .* an int"),
    ({**STORED, "b": (1, 2)}, pb.errors.StructureError, "tree['b'] is a tuple .* a list"),
    ({**STORED, "b": [1]}, pb.errors.StructureError, "tree['b'][1] is in the checkpoint, but not asked for"),
    ({**STORED, "b": [1, 2, 3]}, pb.errors.StructureError, "tree['b'][2] is asked for, but not in the checkpoint"),
    ({**STORED, "b": None}, pb.errors.StructureError, "tree['b'] is None .* a list"),
    ({**STORED, "c": State(2.5, 1)}, pb.errors.StructureError, "tree['c'].count is of type int .* None"),
    ({**STORED, "c": (2.5, None)}, pb.errors.StructureError, "tree['c'] is a tuple .* a State"),
    ({**STORED, "d": Layer(1, 2, "y")}, pb.errors.StructureError, "tree['d'] has the static parts"),
    ({**STORED, "e": 1}, pb.errors.StructureError, "tree['e'] is asked for"),
    ({"a": ...}, pb.errors.StructureError, "tree['b'] is in the checkpoint"),
    ({**STORED, "a": {"x": 1}}, pb.errors.StructureError, "tree['a'] is a dict .* an array"),
    ({**STORED, "b": [1, []]}, pb.errors.StructureError, "tree['b'][1] is a list .* an array"),
    (pnp.ones(2), pb.errors.StructureError, "tree is .* a dict"),
]  # fmt: skip


def test_a_tree_that_is_unlike_is_named(tmp_path: pathlib.Path) -> None:
    pb.checkpoint.save(tmp_path, STORED)
    for like, error, message in UNLIKE:
        pattern = ".*".join(map(re.escape, message.split(".* ")))
        with pytest.raises(error, match=pattern):
            pb.checkpoint.restore(tmp_path, like=like)


def test_a_part_is_restored(tmp_path: pathlib.Path) -> None:
    version = pathlib.Path(pb.checkpoint.save(tmp_path, STORED))
    (version / "0" / "c.0.0").unlink()  # of "a": what is not asked for is not read
    assert_same(pb.checkpoint.restore(tmp_path, {**STORED, "a": ...})["b"], STORED["b"])
    assert pb.checkpoint.restore(tmp_path, path=("c", "weights")) == 2.5
    assert pb.checkpoint.restore(tmp_path, 0, path=("b", 0)) == 1
    found = pb.checkpoint.restore(tmp_path, {"a": ..., "b": ..., "c": State(0.0, None), "d": ...})
    assert found == {"a": ..., "b": ..., "c": State(2.5, None), "d": ...}
    with pytest.raises(pb.errors.StructureError, match=r"no tree\['e'\]: tree is a dict of 'a', 'b', 'c', 'd'"):
        pb.checkpoint.restore(tmp_path, path="e")
    with pytest.raises(pb.errors.StructureError, match=r"no tree\['b'\]\[2\]: .* a list of 0, 1"):
        pb.checkpoint.restore(tmp_path, path=("b", 2))


def test_like_says_what_arrays_come_back_as(tmp_path: pathlib.Path) -> None:
    values = np.arange(3, dtype="f4")
    pb.checkpoint.save(tmp_path, {"x": values, "y": pnp.asarray(values), "z": values[1]})
    types = pb.checkpoint.types(tmp_path)
    assert types == {"x": pb.ArrayType((3,)), "y": pb.ArrayType((3,)), "z": pb.ArrayType(())}
    assert all([isinstance(one, pb.Array) for one in pb.checkpoint.restore(tmp_path, types).values()])
    found = pb.checkpoint.restore(tmp_path, {"x": pnp.zeros(3), "y": values, "z": np.float32(0)})
    assert [type(one).__name__ for one in found.values()] == ["Array", "ndarray", "float32"]
    found["y"][0] = 5  # it is the caller's own
    placed = pb.checkpoint.restore(tmp_path, shardings=pb.devices()[0])
    np.testing.assert_array_equal(np.asarray(placed["x"]), values)


def test_classes_that_are_not_there(tmp_path: pathlib.Path) -> None:
    class Local(NamedTuple):
        x: Any

    pb.checkpoint.save(tmp_path, [Local(1)], step=1)
    pb.checkpoint.save(tmp_path, [Registered(2)], step=2)
    for step in (1, 2):
        with pytest.raises(pb.errors.CheckpointError, match=r"tree\[0\] is of the class .*like="):
            pb.checkpoint.restore(tmp_path, step=step)
    assert pb.checkpoint.restore(tmp_path, [Local(0)], step=1) == [Local(1)]
    assert pb.checkpoint.restore(tmp_path, [Registered(0)], step=2)[0].inside == 2


def test_a_checkpoint_names_no_code_to_run(tmp_path: pathlib.Path) -> None:
    """The class of a container is only taken if it is such a class, with these fields."""
    version = pathlib.Path(pb.checkpoint.save(tmp_path, State(1, 2)))
    outer = json.loads((version / "manifest.json").read_text())
    for name in ("os:system", "subprocess:Popen", "builtins:eval", f"{__name__}:Layer", "nowhere:At", "os:path.join"):
        changed = outer["text"].replace(f"{__name__}:State", name)
        assert changed != outer["text"]
        (version / "manifest.json").write_text(json.dumps({"checksum": stores.zlib.crc32(changed.encode()), "text": changed}))
        with pytest.raises(pb.errors.CheckpointError, match="which cannot be made"):
            pb.checkpoint.restore(tmp_path)


REFUSED: list[tuple[Any, type[Exception], str]] = [
    ({"x": object()}, pb.errors.LeafError, r"tree\['x'\]"),
    ([np.array(["a"])], pb.errors.DtypeError, r"tree\[0\]"),
    ([np.zeros(2, "M8[s]")], pb.errors.DtypeError, r"tree\[0\]"),
    ({frozenset(): 1}, pb.errors.LeafError, "a key of type frozenset"),
    ({"x": print}, pb.errors.LeafError, r"tree\['x'\]"),
]


def test_what_cannot_be_saved_is_named(tmp_path: pathlib.Path) -> None:
    for tree, error, message in REFUSED:
        with pytest.raises(error, match=message):
            pb.checkpoint.save(tmp_path, tree)
    with pytest.raises(pb.errors.LeafError, match="traced"):
        pb.jit(lambda x: pb.checkpoint.save(tmp_path, {"x": x}))(1.0)
    gone = pnp.ones(3)
    gone.delete()
    with pytest.raises(pb.errors.DonatedBufferError, match=r"tree\['gone'\]"):
        pb.checkpoint.save(tmp_path, {"gone": gone, "there": pnp.ones(2)})
    assert pb.checkpoint.steps(tmp_path) == [] and not list(tmp_path.iterdir()), "nothing is left over"
