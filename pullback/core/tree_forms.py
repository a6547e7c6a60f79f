"""Structures of trees as JSON data. Classes go by names that both sides register: their modules may be elsewhere there."""

from __future__ import annotations

import base64
import collections
import contextlib
import dataclasses
import importlib
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from pullback.core.brief import brief
from pullback.core.errors import ExportError
from pullback.core.source import api_boundary
from pullback.core.trees import LEAF, NAMESPACE, TreeDef, Trivial, flatten, optree, register_dataclass

C = TypeVar("C", bound=type)

OWN = "pullback."  # begins the names of modules whose classes are the same everywhere

_by_name: dict[str, type] = {"pullback.float0": Trivial}
_names: dict[type, str] = {Trivial: "pullback.float0"}

# What a defaultdict may make by itself, since it is the same everywhere.
_FACTORIES: dict[str, type] = {one.__name__: one for one in (int, float, complex, bool, str, list, tuple, dict, set)}


@api_boundary
def register_container(cls: C, name: str) -> C:
    """Name a class of containers (a NamedTuple, a dataclass, a class known by `pb.tree.register_node`), so that functions which
    take or return it can be exported, and loaded where the class is registered under that name.

    Arguments:
        cls: the class.
        name: its name in exported bytes, such as "mypackage.State".

    Returns:
        The class.

    Raises:
        ValueError: the name stands for another class, or the class has another name. A class that is defined anew takes the
            place of the one before.

    Example:
        >>> import typing
        >>> import pullback as pb
        >>> class State(typing.NamedTuple):
        ...     position: float
        ...     velocity: float
        >>> pb.export.register_container(State, "docs.State") is State
        True
    """
    if not isinstance(cls, type) or not isinstance(name, str) or not name:
        raise TypeError(f"register_container takes a class and its name, but got {brief(cls)} and {name!r}.")
    known, taken = _names.get(cls, name), _by_name.get(name, cls)
    again = (taken.__module__, taken.__qualname__) == (cls.__module__, cls.__qualname__)  # defined anew, as in a notebook
    if known != name or not again:
        what = f"{cls.__name__} is registered as {known!r}" if known != name else f"{name!r} stands for {taken.__name__}"
        raise ValueError(f"register_container cannot name {cls.__name__} {name!r}: {what} already.")
    _names[cls], _by_name[name] = name, cls
    return cls


def tree_data(structure: TreeDef, what: str) -> Any:
    """A structure as JSON data: "*" for a leaf, None for None, else a list of its kind, its children, and what it has besides.

    Arguments:
        what: how errors call the tree.

    Raises:
        ExportError: it has a class without a name, or something in it is no data.
    """
    kind = "LEAF" if structure is LEAF else structure.kind.name
    if kind in ("LEAF", "NONE"):
        return "*" if kind == "LEAF" else None
    children = [tree_data(child, what) for child in structure.children()]
    if kind in ("TUPLE", "LIST"):
        return [kind, children]
    made = structure.unflatten(range(structure.num_leaves))  # with each None in its place, which may be looked at
    if kind in ("DICT", "ORDEREDDICT", "DEFAULTDICT"):
        parts = dict(zip(structure.entries(), children))
        found = [kind, [parts[key] for key in made], [_data(key, f"a key in {what}") for key in made]]
        if kind == "DEFAULTDICT":
            factory = made.default_factory
            if factory is not None and _FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
                raise ExportError(
                    f"A defaultdict in {what} makes its values by {brief(factory)}, which cannot travel. Pass a dict."
                )
            found.append(None if factory is None else factory.__name__)
        return found
    if kind == "DEQUE":
        return [kind, children, made.maxlen]
    cls = structure.type
    name = _names.get(cls, f"{cls.__module__}.{cls.__qualname__}" if cls.__module__.startswith(OWN) else None)
    if name is None:
        raise ExportError(
            f"A {cls.__name__} in {what} cannot travel, since nothing says what it is called where it is loaded. Name it on"
            f' both sides: pb.export.register_container({cls.__name__}, "{cls.__module__}.{cls.__qualname__}").'
        )
    if kind == "CUSTOM":
        metadata = _node(cls).flatten_func(made)[1]
        return [kind, children, name, _data(metadata, f"the static part of a {cls.__name__} in {what}")]
    return [kind, children, name]


def tree_of_data(data: Any) -> TreeDef:
    """The structure that `tree_data` wrote.

    Raises:
        ExportError: a class in it is not registered here.
    """
    return flatten(_tree(data))[1]


def _node(cls: type) -> Any:
    """How a class of containers is taken apart and put together; a dataclass that was never met is a container as well."""
    found = optree().register_pytree_node.get(cls, namespace=NAMESPACE)
    if found is None and dataclasses.is_dataclass(cls):
        register_dataclass(cls)
        return _node(cls)
    if found is None:
        raise ExportError(
            f"{cls.__name__} has a name for exports, but is no container here: pb.tree.register_node makes it one."
        )
    return found


class _Place:
    """A leaf of a tree that is made for its structure alone."""


def _tree(data: Any) -> Any:
    """A tree of the structure that `tree_data` wrote."""
    if data is None or data == "*":
        return None if data is None else _Place()
    kind, children, *more = data
    made = [_tree(child) for child in children]
    if kind in ("TUPLE", "LIST"):
        return tuple(made) if kind == "TUPLE" else made
    if kind in ("DICT", "ORDEREDDICT", "DEFAULTDICT"):
        pairs = list(zip(map(from_plain, more[0]), made))
        if kind == "DEFAULTDICT":
            return collections.defaultdict(None if more[1] is None else _FACTORIES[more[1]], pairs)
        return dict(pairs) if kind == "DICT" else collections.OrderedDict(pairs)
    if kind == "DEQUE":
        return collections.deque(made, maxlen=more[0])
    cls: Any = _class_of(more[0])
    if kind == "NAMEDTUPLE":
        return cls(*made)
    return _node(cls).unflatten_func(from_plain(more[1]), made)


def _class_of(name: str) -> type:
    """The class that has a name in exported bytes: one that was registered, or one of pullback's own, by its module."""
    if name in _by_name:
        return _by_name[name]
    module, _, own = name.rpartition(".")
    if name.startswith(OWN):
        with contextlib.suppress(ImportError):
            found = getattr(importlib.import_module(module), own, None)
            if isinstance(found, type) and found.__module__ == module:
                return found
    raise ExportError(
        f"The exported function has a container that was named {name!r} when it was exported, and no class has that name"
        f" here. Define the class as it was there, and name it: pb.export.register_container(cls, {name!r})."
    )


def _data(value: Any, what: str) -> Any:
    """A key or a static part as JSON data."""
    if isinstance(value, (bool, int, str)):  # of derived classes too
        return value

    def structure(value: Any) -> Any:
        return (
            {"structure": tree_data(value, what)}
            if value is LEAF or isinstance(value, optree().PyTreeSpec)
            else _none_else(value)
        )

    try:
        return plain(value, structure)
    except TypeError as error:
        raise ExportError(
            f"{what[0].upper()}{what[1:]} is {brief(value)} of type {type(value).__name__}, which cannot travel: only None,"
            " bools, numbers, strings, bytes, structures of trees, and tuples, lists and dicts of them can."
        ) from error


# ---- values that are no arrays ----------------------------------------------------------------------------------------------


def _none_else(value: Any) -> NoReturn:
    raise TypeError(type(value).__name__)


def plain(value: Any, otherwise: Callable[[Any], Any] = _none_else) -> Any:
    """A Python value as JSON that gives it back to the bit. Raises TypeError, with the name of its type, if none can.

    Arguments:
        otherwise: what makes JSON of values of other types.
    """
    cls = type(value)
    if value is None or cls in (bool, str):
        return value
    if cls is int:
        return value if abs(value) < 1 << 63 else {"int": hex(value)}
    if cls is float:
        return {"float": value.hex()}
    if cls is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if cls is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if cls in (tuple, list):
        return {cls.__name__: [plain(one, otherwise) for one in value]}
    if cls is dict:
        return {"dict": [[plain(key, otherwise), plain(one, otherwise)] for key, one in value.items()]}
    return otherwise(value)


_FROM_JSON: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "complex": lambda pair: complex(*map(float.fromhex, pair)),
    "bytes": base64.b64decode,
    "tuple": lambda parts: tuple(map(from_plain, parts)),
    "list": lambda parts: list(map(from_plain, parts)),
    "dict": lambda pairs: {from_plain(key): from_plain(value) for key, value in pairs},
    "structure": tree_of_data,
}


def from_plain(stored: Any) -> Any:
    """What `plain` made JSON of."""
    if not isinstance(stored, dict):
        return stored
    ((kind, value),) = stored.items()
    return _FROM_JSON[kind](value)
