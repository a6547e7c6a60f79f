"""Trees as JSON: their containers, and the leaves that are no arrays. No code is stored, and none is loaded to read one.

A node is a dict of `kind` and what that kind needs. Classes of NamedTuples and dataclasses are stored by their names, and found
again among the modules that the program has imported already; a tree that is `like` the stored one brings its own.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core import trees
from pullback.core.array import Array
from pullback.core.brief import brief
from pullback.core.dtypes import SHORT_NAMES, entering, float0
from pullback.core.errors import CheckpointError, DtypeError, LeafError, ShapeError, StructureError
from pullback.core.tracing import Tracer
from pullback.core.tree_forms import from_plain, plain
from pullback.core.types import ArrayType

Node = dict[str, Any]
Path = tuple[Any, ...]
DICTS: dict[type, str] = {dict: "dict", OrderedDict: "OrderedDict", defaultdict: "defaultdict"}
SEQUENCES: dict[type, str] = {list: "list", tuple: "tuple", deque: "deque"}


class Part(NamedTuple):
    """A part of a container: its key, how Python reaches it, and what it is."""

    key: Any
    access: str
    value: Any


def is_node(value: Any) -> bool:
    """Whether a value is a container (None is one, of nothing)."""
    return not trees.is_leaf(value) and not trees.optree().tree_is_leaf(value, namespace=trees.NAMESPACE)


def parts_of(value: Any) -> tuple[str, list[Part]]:
    """The kind of a container, and its parts in the order of the leaves."""
    cls = type(value)
    if value is None:
        return "None", []
    children, _, entries, _ = trees.optree().tree_flatten_one_level(value, namespace=trees.NAMESPACE)
    if cls in DICTS:
        return DICTS[cls], [Part(key, f"[{key!r}]", child) for key, child in zip(entries, children)]
    if cls in SEQUENCES:
        return SEQUENCES[cls], [Part(i, f"[{i}]", child) for i, child in enumerate(children)]
    fields = trees.dataclass_fields(cls)
    names = fields[0] if fields is not None else getattr(cls, "_fields", None) if isinstance(value, tuple) else None
    if names is not None:
        kind = "dataclass" if fields is not None else "namedtuple"
        return kind, [Part(name, f".{name}", child) for name, child in zip(names, children, strict=True)]
    return "custom", [Part(entry, f"[{entry!r}]", child) for entry, child in zip(entries, children)]


def class_name(value: Any) -> str:
    cls = type(value)
    return f"{cls.__module__}:{cls.__qualname__}"


# ---- writing ----------------------------------------------------------------------------------------------------------------


def described(tree: Any, root: str) -> tuple[Node, list[tuple[str, Any]]]:
    """A tree as JSON, and its arrays, each with its path; a node of an array has the array's number."""
    arrays: list[tuple[str, Any]] = []
    trees.flatten(tree)  # registers the dataclasses in it

    def visit(value: Any, path: str) -> Node:
        if not is_node(value):
            return _leaf(value, path, arrays)
        kind, parts = parts_of(value)
        node: Node = {"kind": kind, "parts": [visit(part.value, path + part.access) for part in parts]}
        if kind in ("None", *SEQUENCES.values()):
            return node | ({"maxlen": value.maxlen} if kind == "deque" else {})
        try:
            node["keys"] = [plain(part.key) for part in parts]
        except TypeError as error:
            raise LeafError(
                f"{path} has a key of type {error}, which a checkpoint cannot hold. Use strings or numbers."
            ) from None
        if kind in DICTS.values():
            order = {key: i for i, key in enumerate(value)}
            return node | {"order": [order[part.key] for part in parts]}
        return node | {"class": class_name(value)} | (_static(value) if kind == "dataclass" else {})

    return visit(tree, root), arrays


def _static(value: Any) -> Node:
    """What the structure of a dataclass holds besides its parts; None of what JSON cannot say."""
    _, names = trees.dataclass_fields(type(value)) or ((), ())
    try:
        return {"static": {name: plain(getattr(value, name)) for name in names}}
    except TypeError:
        return {"static": None}


def _leaf(value: Any, path: str, arrays: list[tuple[str, Any]]) -> Node:
    if isinstance(value, Tracer):
        raise LeafError(f"{path} is traced: it has no values yet. Save what a compiled function returns, and not inside it.")
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype == float0:
        return {"kind": "float0", "shape": list(value.shape)}
    if isinstance(value, np.ma.MaskedArray):
        raise LeafError(
            f"{path} is a masked array, whose mask a checkpoint cannot hold: fill it (.filled), or save both apart."
        )
    if isinstance(value, (Array, np.ndarray, np.generic)):
        kind = "array" if isinstance(value, Array) else "numpy" if isinstance(value, np.ndarray) else "scalar"
        if not isinstance(value, Array) and value.dtype.newbyteorder("=") not in SHORT_NAMES:
            raise DtypeError(f"{path} is of dtype {value.dtype}, which a checkpoint cannot hold. Convert it before (.astype).")
        arrays.append((path, value))
        return {"kind": kind, "array": len(arrays) - 1}
    if type(value) in (bool, int, float, complex, str, bytes):
        return {"kind": type(value).__name__, "value": plain(value)}
    raise LeafError(
        f"{path} is {brief(value)} of type {type(value).__name__}, which a checkpoint cannot hold. Convert it: it may hold"
        " arrays, Python's numbers, strings and bytes, in containers that pullback knows (pb.tree.register_node)."
    )


# ---- reading ----------------------------------------------------------------------------------------------------------------


class Wanted:
    """In the place of an array that is to be read: its number, its type, and as what it comes back, an `array`,
    `numpy` or `scalar`.

    Attributes:
        sharding: where it is to lie, as what the tree is to be like says; None if that says nothing.
    """

    def __init__(self, number: int, kind: str, type: ArrayType, path: str, sharding: Any = None) -> None:
        self.number, self.kind, self.type, self.path, self.sharding = number, kind, type, path, sharding


Types = Sequence[ArrayType]


def at(node: Node, path: Path) -> tuple[Node, str]:
    """The part of a stored tree that a path leads to, and how errors call it."""
    shown = "tree"
    for key in path:
        keys = _keys(node)
        if key not in keys:
            there = ", ".join([repr(one) for one in keys]) or "nothing"
            raise StructureError(f"The checkpoint has no {shown}[{brief(key)}]: {shown} is {_a(node)} of {there}.")
        place = keys.index(key)
        shown += _access(node, key)
        node = node["parts"][place]
    return node, shown


def _keys(node: Node) -> list[Any]:
    if "keys" in node:
        return [from_plain(key) for key in node["keys"]]
    return list(range(len(node.get("parts", ()))))


def _access(node: Node, key: Any) -> str:
    return f".{key}" if node["kind"] in ("namedtuple", "dataclass") else f"[{key!r}]"


def _a(node: Node) -> str:
    kind = str(node.get("class", node["kind"])).rpartition(":")[2]
    if "array" in node:
        return "an array"
    return "None" if kind == "None" else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def skeleton(node: Node, types: Types, path: str) -> Any:
    """The stored tree, with a `Wanted` in the place of each array."""
    kind = node["kind"]
    if "parts" not in node:
        return _stored_leaf(node, types, path)
    keys = _keys(node)
    parts = [skeleton(part, types, path + _access(node, key)) for key, part in zip(keys, node["parts"], strict=True)]
    if kind == "None":
        return None
    if kind in DICTS.values():
        in_order = sorted(zip(node["order"], keys, parts), key=lambda row: row[0])
        pairs = [(key, part) for _, key, part in in_order]
        return OrderedDict(pairs) if kind == "OrderedDict" else dict(pairs)
    if kind in SEQUENCES.values():
        return deque(parts, node["maxlen"]) if kind == "deque" else tuple(parts) if kind == "tuple" else parts
    cls = _class(node, keys, path)
    if kind == "namedtuple":
        return cls(*parts)
    made = object.__new__(cls)  # whose __init__ sees values only, when the arrays are there
    for name, value in [*zip(keys, parts), *[(name, from_plain(one)) for name, one in node["static"].items()]]:
        object.__setattr__(made, name, value)
    return made


def _stored_leaf(node: Node, types: Types, path: str) -> Any:
    if node["kind"] == "float0":
        return np.zeros(node["shape"], float0)
    if "array" in node:
        return Wanted(node["array"], node["kind"], types[node["array"]], path)
    return from_plain(node["value"])


def _class(node: Node, keys: Sequence[Any], path: str) -> Any:
    """The class of a stored container, which the program has."""
    module, _, name = node["class"].partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    fits = isinstance(found, type) and (
        issubclass(found, tuple) and list(getattr(found, "_fields", ())) == [*keys]
        if node["kind"] == "namedtuple"
        else {*getattr(found, "__dataclass_fields__", ())} >= {*keys, *(node.get("static") or ())}
    )
    if not fits or node["kind"] == "custom" or node.get("static", {}) is None:
        raise CheckpointError(
            f"{path} is of the class {module}.{name}, which cannot be made from the checkpoint alone"
            f"{'' if fits else ': the program has not imported it, or it has other fields'}. Pass like=, a tree of the same"
            " structure (arrays in it may be their types: pb.eval_shape)."
        )
    return found


def matched(node: Node, like: Any, types: Types, path: str) -> Iterator[Any]:
    """The leaves of a tree that must be like a stored one, with what to read, or what was stored, in their places. `...` stands
    for any part, and stays."""
    if like is ...:
        yield like
        return
    if not is_node(like):
        yield _matched_leaf(node, like, types, path)
        return
    kind, parts = parts_of(like)
    if "parts" not in node or _sort(node["kind"]) != _sort(kind):
        raise StructureError(f"{path} is {_a_like(like, kind)} in what is asked for, but {_a(node)} in the checkpoint.")
    if kind == "dataclass" and node.get("static") != _static(like)["static"]:
        raise StructureError(
            f"{path} has the static parts {_static(like)['static']} in what is asked for, but {node.get('static')} in the"
            " checkpoint."
        )
    stored: Mapping[Any, Node] = dict(zip(_keys(node), node["parts"], strict=True))
    asked = [part.key for part in parts]
    if lacking := [key for key in asked if key not in stored]:
        raise StructureError(f"{path}{_access(node, lacking[0])} is asked for, but not in the checkpoint; {_has(path, stored)}")
    if left := [key for key in stored if key not in asked]:
        raise StructureError(
            f"{path}{_access(node, left[0])} is in the checkpoint, but not asked for; {_has(path, asked)} Write `...` in"
            " the places of parts that are not wanted, or name the part that is by path=."
        )
    for part in parts:
        yield from matched(stored[part.key], part.value, types, path + part.access)


def _has(path: str, keys: Any) -> str:
    return f"{path} has {', '.join([repr(key) for key in keys]) or 'nothing'} there."


def _sort(kind: str) -> str:
    return "dict" if kind in DICTS.values() else kind


def _a_like(like: Any, kind: str) -> str:
    return _a({"kind": kind, "class": class_name(like)} if kind in ("namedtuple", "dataclass", "custom") else {"kind": kind})


def _matched_leaf(node: Node, like: Any, types: Types, path: str) -> Any:
    shape, dtype = getattr(like, "shape", None), getattr(like, "dtype", None)
    if "array" not in node or shape is None or dtype is None:
        if isinstance(like, (np.ndarray, np.generic)) and like.dtype == float0 and node["kind"] == "float0":
            return np.zeros(node["shape"], float0)
        if "parts" in node or node["kind"] != type(like).__name__:
            raise StructureError(
                f"{path} is {like if isinstance(like, ArrayType) else f'of type {type(like).__name__}'} in what is asked for,"
                f" but {_a(node)} in the checkpoint."
            )
        return from_plain(node["value"])
    type_ = types[node["array"]]
    if tuple(shape) != type_.shape:
        raise ShapeError(f"{path} has the shape {tuple(shape)} in what is asked for, but {type_.shape} in the checkpoint.")
    native = np.dtype(dtype).newbyteorder("=")
    if native != type_.dtype and entering(native) != type_.dtype:
        raise DtypeError(f"{path} has the dtype {dtype} in what is asked for, but {type_.dtype} in the checkpoint.")
    kind = "numpy" if isinstance(like, np.ndarray) else "scalar" if isinstance(like, np.generic) else "array"
    sharding = getattr(like, "sharding", None) if isinstance(like, ArrayType) or getattr(like, "committed", False) else None
    return Wanted(node["array"], kind, type_, path, sharding)
