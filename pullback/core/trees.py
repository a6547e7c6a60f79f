"""Pytrees: nested containers of arrays, taken apart into leaves and put together again. The work is optree's.

Containers are None, tuples, lists, dicts, OrderedDicts, defaultdicts, deques, namedtuples, dataclasses, and classes that users
register. optree is loaded when the first container is met: arrays and numbers by themselves are leaves, and need none of it.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from pullback.core.array import PLACED, Array, find_converter
from pullback.core.brief import brief, counted
from pullback.core.dtypes import float0
from pullback.core.errors import DtypeError, LeafError, ShapeError, StructureError
from pullback.core.lazy import lazy_module, uninterrupted
from pullback.core.metadata import as_it_is_now
from pullback.core.source import at_user_line
from pullback.core.tracing import Tracer, is_float0, live
from pullback.core.types import ArrayType

dataclasses = lazy_module("dataclasses")

NAMESPACE = "pullback"
F = TypeVar("F", bound=Callable[..., Any])


class _LeafStructure:
    """The structure of a tree that is one leaf."""

    num_leaves = 1

    def __repr__(self) -> str:
        return "*"

    def __str__(self) -> str:  # in error messages
        return "one array"

    def __reduce__(self) -> str:  # there is one
        return "LEAF"


LEAF = _LeafStructure()
TreeDef = Any  # LEAF, or optree's PyTreeSpec

_LEAF_TYPES = frozenset({Array, *PLACED, np.ndarray, bool, int, float, complex, str})
_optree: Any = None
_loading = threading.RLock()
_waiting: list[tuple[Any, ...]] = []  # classes registered before optree was loaded


def optree() -> Any:
    """optree, loaded now if it was not yet."""
    if _optree is None:
        uninterrupted(_load)
    return _optree


def _load() -> None:
    """Load optree. A Ctrl-C would leave a class registered of which that is not known: to register it again is an error."""
    global _optree
    with _loading:
        if _optree is None:
            module = importlib.import_module("optree")
            while _waiting:
                module.register_pytree_node(*_waiting[0], namespace=NAMESPACE)
                del _waiting[0]
            _optree = module


def is_leaf(value: Any) -> bool:
    """Whether a value is plainly a leaf, so that optree need not be asked."""
    return value.__class__ in _LEAF_TYPES or isinstance(value, (Tracer, Array, np.generic, np.ndarray))


def flatten(tree: Any, is_leaf_too: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeDef]:
    """A tree's leaves, from left to right (dict keys sorted), and its structure."""
    if is_leaf(tree):
        return [tree], LEAF
    leaves, structure = optree().tree_flatten(tree, is_leaf_too, namespace=NAMESPACE)
    if is_leaf_too is None and any(leaf.__class__ not in _LEAF_TYPES and _adopt(leaf) for leaf in leaves):
        return flatten(tree)
    return leaves, LEAF if structure.is_leaf() else structure


def _adopt(leaf: Any) -> bool:
    """Register the class of a dataclass instance that was met as a leaf; True if that was done."""
    if not dataclasses.is_dataclass(leaf) or isinstance(leaf, type) or find_converter(type(leaf)) is not None:
        return False
    register_dataclass(type(leaf))
    return True


def unflatten(structure: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves."""
    if structure is LEAF:
        (leaf,) = leaves
        return leaf
    return structure.unflatten(leaves)


def same(one: TreeDef, two: TreeDef) -> bool:
    """Whether two structures are equal: each kind compares with itself only."""
    return one is two or (one.__class__ is two.__class__ and bool(one == two))


def structure_of(tree: Any) -> TreeDef:
    """A tree's structure alone."""
    return flatten(tree)[1]


def structure_paths(structure: TreeDef, root: str) -> list[str]:
    """The path of each leaf of a tree of this structure, of whatever kind, spelled as Python spells it: `params['w'][0]`."""
    return _kind_of_structures(structure).structure_paths(structure, root)


def register_node(
    cls: type, flatten: Callable[[Any], tuple[Iterable[Any], Any]], unflatten: Callable[[Any, Sequence[Any]], Any]
) -> None:
    """Make a class a container. JAX calls this `register_pytree_node`; the arguments are in the same order.

    Arguments:
        cls: the class.
        flatten: an instance to `(children, metadata)`; metadata must be hashable and comparable.
        unflatten: `(metadata, children)` to an instance.

    Raises:
        ValueError: the class is registered already.

    Example:
        >>> import pullback as pb
        >>> class Pair:
        ...     def __init__(self, first, second):
        ...         self.first, self.second = first, second
        >>> pb.tree.register_node(Pair, lambda pair: ((pair.first, pair.second), None), lambda _, children: Pair(*children))
        >>> pb.grad(lambda pair: pair.first * pair.second)(Pair(2.0, 3.0)).first
        3.0:f32[]:cpu(0)
    """

    def flatten_now(instance: Any) -> Any:
        found: Any = flatten(instance)
        if isinstance(found, tuple) and len(found) > 1:
            return (found[0], as_it_is_now(found[1]), *found[2:])
        return found

    if any(cls is known for known, *_ in (*_nodes, *_waiting)):
        raise ValueError(f"{cls.__qualname__} is registered as a container already. Register each class once.{at_user_line()}")
    node = cls, flatten_now, lambda metadata, children: unflatten(as_it_is_now(metadata), children)
    register_as_it_is(*node)
    _nodes.append(node)
    for tell in _told:
        tell(*node)


_nodes: list[tuple[type, Callable[[Any], Any], Callable[[Any, Sequence[Any]], Any]]] = []
_told: list[Callable[..., None]] = []


def tell_of_nodes(tell: Callable[[type, Callable[[Any], Any], Callable[[Any, Sequence[Any]], Any]], None]) -> None:
    """Have another registry of containers told of each class that `register_node` is given, as it was of those before."""
    _told.append(tell)
    for node in _nodes:
        tell(*node)


def register_as_it_is(cls: type, flatten: Callable[[Any], Any], unflatten: Callable[[Any, Sequence[Any]], Any]) -> None:
    """`register_node`, as soon as optree is loaded, of a class whose metadata never changes."""
    if _optree is None:
        _waiting.append((cls, flatten, unflatten))
    else:
        _optree.register_pytree_node(cls, flatten, unflatten, namespace=NAMESPACE)


_dataclasses: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # their fields with trees, and those with metadata


def register_dataclass(cls: type, data_fields: Sequence[str] | None = None, meta_fields: Sequence[str] | None = None) -> type:
    """Make a dataclass a container of its fields. Dataclasses that are met in a tree are registered by themselves.

    Arguments:
        cls: the dataclass.
        data_fields: the fields that hold trees; by default all but `meta_fields`.
        meta_fields: the fields that belong to the structure; by default those marked `field(metadata={"static": True})`. They
            are compared with `==`, so they hold no arrays.

    Returns:
        The class, so that this serves as a decorator.

    Raises:
        StructureError: fields are left over, or are named twice.

    Example:
        >>> import pullback as pb
        >>> import dataclasses
        >>> @pb.tree.register_dataclass
        ... @dataclasses.dataclass
        ... class Layer:
        ...     weight: float
        ...     name: str = dataclasses.field(metadata={"static": True})
        >>> pb.tree.leaves(Layer(2.0, "first"))
        [2.0]
    """
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    static = {field.name for field in dataclasses.fields(cls) if field.metadata.get("static", False)}
    meta = list(meta_fields) if meta_fields is not None else [n for n in names if n in static and n not in (data_fields or ())]
    data = list(data_fields) if data_fields is not None else [n for n in names if n not in meta]
    if sorted(data + meta) != sorted(names):
        raise StructureError(
            f"{cls.__name__} has the fields {names}, but data_fields={data} and meta_fields={meta} were given."
        )
    if cls in _dataclasses:
        return cls

    def flatten(instance: Any) -> tuple[list[Any], Any]:
        return [getattr(instance, name) for name in data], tuple([as_it_is_now(getattr(instance, name)) for name in meta])

    def unflatten(metadata: Any, children: Sequence[Any]) -> Any:
        return cls(**dict(zip(data, children)), **dict(zip(meta, map(as_it_is_now, metadata))))

    register_as_it_is(cls, flatten, unflatten)
    _dataclasses[cls] = tuple(data), tuple(meta)
    return cls


def dataclass_fields(cls: type) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The fields of a dataclass that is a container: those that hold trees, and those that belong to the structure. None of
    another class."""
    return _dataclasses.get(cls)


# ---- leaves that must be arrays ---------------------------------------------------------------------------------------


# How what is no array is kept out: of the arguments of a function, and of what one returns.
_OUT_OF_ARGUMENTS = "keep it out of what is traced (static_argnums or static_argnames in jit, a closure elsewhere)"
OUT_OF_RESULTS = "leave it out of what is returned"
FIELD_AS_STATIC = "mark it as static, if it is a dataclass's field (dataclasses.field(metadata={'static': True}))"


def is_attribute(path: str) -> bool:
    """Whether a leaf is an attribute of what holds it, as the fields of dataclasses are."""
    return not path.endswith("]") and "." in path.rpartition(" ")[2]


def array_leaf(leaf: Any, path: Callable[[], str], trivial: bool = False, keep_out: str = _OUT_OF_ARGUMENTS) -> Any:
    """A leaf as an Array or tracer, or, if `trivial`, an array of dtype float0. Else raises `LeafError`, with its path."""
    if leaf.__class__ is Array or isinstance(leaf, Array):
        return leaf
    if isinstance(leaf, Tracer):
        return live(leaf)
    if trivial and is_float0(leaf):
        return leaf
    convert = find_converter(type(leaf))
    if convert is None:
        if isinstance(leaf, ArrayType):
            raise LeafError(
                f"{path()} is the type {leaf}, which has no values. Pass an array; xpr, eval_shape and jit(f).lower take types."
                f"{at_user_line()}"
            )
        where = path()
        field = f"{FIELD_AS_STATIC}, " if is_attribute(where) else ""
        raise LeafError(
            f"{where} is {brief(leaf)} of type {type(leaf).__name__}, which is neither an array nor a number, nor a container"
            f" that pullback knows. Convert it (pb.numpy.asarray), {field}register its class (pb.tree.register_node),"
            f" or {keep_out}.{at_user_line()}"
        )
    try:
        return convert(leaf)
    except LeafError as error:
        raise LeafError(f"{path()}: {error}") from None


class Trivial:
    """In the place of an array of dtype float0 in a tree: a container of nothing, which becomes such an array again."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


register_node(Trivial, lambda trivial: ((), trivial.shape), lambda shape, _: np.zeros(shape, float0))


# ---- kinds of trees ---------------------------------------------------------------------------------------------------

_NONE = object()  # stands for None in a prefix, where it is a value; in the tree that the prefix is for, None has no leaves


class Trees:
    """A kind of trees: what is a container, and what is in it. This is pullback's; a class derived from it stands for another
    library's, and a function says by `taking` which kind it takes and returns.

    Arguments:
        structures: the class of the structures of this kind, by which they are recognized.
    """

    def __init__(self, structures: type | None = None) -> None:
        if structures is not None:
            _kinds[structures] = self

    # ---- what kinds differ in ----

    flatten: Callable[[Any], tuple[list[Any], TreeDef]] = staticmethod(flatten)

    def node(self, structure: TreeDef) -> tuple[type | None, Sequence[Any], Sequence[TreeDef]]:
        """What a structure is at its root: the class of the container, None for a leaf; the keys of its parts, if it is a dict;
        and their structures."""
        if structure is LEAF or structure.type is None:
            return None, (), ()
        return structure.type, structure.entries() if structure.type is dict else (), structure.children()

    def parts(self, structure: TreeDef) -> Sequence[Any]:
        """What two structures may be compared by: what they are at their roots, and the structures of their parts."""
        return [structure]

    def keys_in_order(self, structure: TreeDef) -> list[Any]:
        """The keys of a dict of this structure, in its own order."""
        return list(structure.one_level().unflatten(structure.entries()))

    def fields(self, structure: TreeDef) -> tuple[str, ...] | None:
        """The names of the parts of a NamedTuple or a dataclass that is made of them alone, by its class; None for others."""
        kind: Any = structure.type
        if structure.kind == optree().PyTreeKind.NAMEDTUPLE:
            return kind._fields if kind.__iter__ is tuple.__iter__ else None
        found = _dataclasses.get(kind) if structure.kind == optree().PyTreeKind.CUSTOM else None
        return None if found is None or found[1] else found[0]

    def flattener(self) -> Callable[[Any], tuple[list[Any], TreeDef]]:
        """What takes containers apart whose classes have been met before."""
        return functools.partial(optree().tree_flatten, is_leaf=None, namespace=NAMESPACE)

    def structure_paths(self, structure: TreeDef, root: str) -> list[str]:
        """The path of each leaf of a tree of this structure, as error messages have it."""
        return [root] if structure is LEAF else [accessor.codify(root) for accessor in structure.accessors()]

    def difference(self, given: TreeDef, wanted: TreeDef, root: str, other: str, allowed: Allowed | None = None) -> str:
        """See the function `difference`."""
        for exact in (False, True):  # an OrderedDict instead of a dict only where nothing else differs
            for path, own, expected in _differences(given, wanted, root, allowed, exact):
                return f"{path} is {own} where {other} {expected}"
        return f"{root} differs"

    def fits(self, given: TreeDef, wanted: TreeDef, allowed: Allowed) -> bool:
        """Whether two structures differ only in what is allowed."""
        return next(_differences(given, wanted, "", allowed), None) is None

    def broadcast_prefix(self, prefix: Any, tree: Any, what: str, root: str) -> list[Any]:
        """A value for each leaf of `tree`, from a tree of values that is a prefix of it. None is a value of the prefix.

        Arguments:
            what, root: how errors call the prefix, and the tree.

        Raises:
            StructureError, naming the place, where the prefix does not fit.
        """
        if prefix is None or is_leaf(prefix):
            return [prefix] * structure_of(tree).num_leaves
        there = optree()
        values = there.tree_map(lambda value: _NONE if value is None else value, prefix, none_is_leaf=True, namespace=NAMESPACE)
        structure = structure_of(tree)  # registers the dataclasses in it
        try:
            found: list[Any] = there.broadcast_prefix(values, tree, namespace=NAMESPACE)
        except ValueError:
            where = difference(structure, structure_of(values), root, "the entry for it has", leaf_for_anything)
            raise StructureError(f"{what} does not fit: {where}.") from None
        if _has_order(values) or _has_order(tree):  # whose keys come in another order than those of a dict: found by path
            leaves, own = there.tree_flatten(values, namespace=NAMESPACE)
            given = dict(zip(own.paths(), leaves))
            lengths = range(max(map(len, given)) + 1)
            found = [next(given[path[:n]] for n in lengths if path[:n] in given) for path in structure.paths()]
        return [None if value is _NONE else value for value in found]

    # ---- what follows from it ----

    def paths(self, tree: Any, root: str) -> list[str]:
        """The path of each leaf, as error messages have it."""
        return self.structure_paths(self.flatten(tree)[1], root)

    def array_leaves(
        self, tree: Any, what: Callable[[], str], trivial: bool = False, keep_out: str = _OUT_OF_ARGUMENTS
    ) -> tuple[list[Any], TreeDef]:
        """`flatten`, with every leaf as `array_leaf` has it; `what()` is how errors call the tree, as `argument x`."""
        if tree.__class__ is Array:
            return [tree], LEAF
        if isinstance(tree, Tracer):
            return [live(tree)], LEAF
        leaves, structure = self.flatten(tree)
        return [
            array_leaf(leaf, lambda i=i: self.paths(tree, what())[i], trivial, keep_out)  # type: ignore[misc]
            for i, leaf in enumerate(leaves)
        ], structure

    def without_float0(self, tree: Any) -> Any:
        """The tree in which arrays of dtype float0, which hold nothing, are no leaves but belong to the structure."""
        return self._with_float0(tree, Trivial)

    def stacked_float0(self, tree: Any, count: int) -> Any:
        """The tree in which arrays of dtype float0 are `count` of them, stacked."""
        return self._with_float0(tree, lambda shape: np.zeros((count, *shape), float0))

    def unstacked_float0(self, tree: Any) -> Any:
        """The tree in which arrays of dtype float0 are one of those that are stacked in them."""
        return self._with_float0(tree, lambda shape: np.zeros(shape[1:], float0))

    def _with_float0(self, tree: Any, make: Callable[[tuple[int, ...]], Any]) -> Any:
        """The tree with what `make` makes of their shapes in the place of arrays of dtype float0."""
        leaves, structure = self.flatten(tree)
        if not any([leaf.__class__ is np.ndarray and is_float0(leaf) for leaf in leaves]):
            return tree
        return unflatten(structure, [make(leaf.shape) if is_float0(leaf) else leaf for leaf in leaves])

    def leaves_like(
        self, tree: Any, wanted: TreeDef, root: str, other: str, says: Callable[[str], str], allowed: Allowed | None = None
    ) -> list[Any]:
        """The leaves of a tree that must have a structure, but for what is `allowed`, by default None for a leaf: a None for
        each leaf that a None stands for. Else raises `StructureError`; the arguments are those of `check_like`."""
        if wanted is LEAF and tree is None:
            return [None]
        leaves, given = self.flatten(tree)
        if same(given, wanted):
            return leaves
        allowed = none_for_leaf if allowed is None else allowed
        if not self.fits(given, wanted, allowed):
            raise StructureError(says(self.difference(given, wanted, root, other, allowed)))
        return self.broadcast_prefix(tree, unflatten(wanted, range(wanted.num_leaves)), root, other)


def _is_ordered(node: Any) -> bool:
    return node.__class__ is OrderedDict


def _has_order(tree: Any) -> bool:
    """Whether there is an OrderedDict in a tree."""
    return any(map(_is_ordered, optree().tree_leaves(tree, is_leaf=_is_ordered, namespace=NAMESPACE)))


_kinds: dict[type, Trees] = {}
OWN_TREES = Trees()
array_leaves = OWN_TREES.array_leaves
without_float0 = OWN_TREES.without_float0


def taking(trees: Trees) -> Callable[[F], F]:
    """A decorator of functions that take and return trees of a kind, and of what transformations make of them."""

    def decorate(function: F) -> F:
        if trees is not OWN_TREES:
            function._trees_taken = trees  # type: ignore[attr-defined]
        return function

    return decorate


def kind_of(function: Any, otherwise: Trees = OWN_TREES) -> Trees:
    """The kind of trees that a function takes and returns, if it says so."""
    found = getattr(function, "_trees_taken", None)
    return found if isinstance(found, Trees) else otherwise


def _kind_of_structures(*structures: TreeDef) -> Trees:
    return next((_kinds[structure.__class__] for structure in structures if structure.__class__ in _kinds), OWN_TREES)


def trees_of_another_kind(value: Any) -> Trees | None:
    """The kind of trees that something is a structure of, if it is one of another library's."""
    return _kinds.get(value.__class__)


# ---- how trees differ -------------------------------------------------------------------------------------------------

# Where a tree may differ from the one that it must be like: whether a part of it may stand for another one, given both.
Allowed = Callable[[TreeDef, TreeDef], bool]


def _class_of(structure: TreeDef) -> type | None:
    """The class of a container of whatever kind of trees; None for a leaf."""
    return _kind_of_structures(structure).node(structure)[0]


def leaf_for_anything(given: TreeDef, wanted: TreeDef) -> bool:
    """The tree that is wanted is a prefix: a leaf of it stands for any tree."""
    return _class_of(wanted) is None


def none_for_leaf(given: TreeDef, wanted: TreeDef) -> bool:
    """None may stand for a leaf, as for the tangent of an integer."""
    return _class_of(given) is NoneType and _class_of(wanted) is None


def leaf_for_any_part(given: TreeDef, wanted: TreeDef) -> bool:
    """The tree that is given is a prefix: None or a leaf of it stands for any part."""
    return _class_of(given) in (None, NoneType)


def none_for_anything(given: TreeDef, wanted: TreeDef) -> bool:
    """None may stand for any part of the tree."""
    return _class_of(given) is NoneType


def check_like(
    given: TreeDef,
    wanted: TreeDef,
    root: str,
    other: str,
    says: Callable[[str], str],
    types: tuple[Sequence[ArrayType], Sequence[ArrayType]] = ((), ()),
    shapes_only: bool = False,
) -> None:
    """Raise `StructureError`, `ShapeError` or `DtypeError`, which name the first place that differs, unless two trees have one
    structure, and leaves of the same types, but for weakness.

    Arguments:
        given, wanted: the structures. types: those of the leaves of the two.
        root, other: how errors call the tree, and the one that it must be like, with a verb: `carry`, and `init has`.
        says: the error's message, of the sentence that names the place.
        shapes_only: the dtypes need not agree.
    """
    if not same(given, wanted):
        raise StructureError(says(difference(given, wanted, root, other)))
    for index, (own, expected) in enumerate(zip(*types, strict=True)):
        if own is not expected and (own.shape != expected.shape or (own.dtype is not expected.dtype and not shapes_only)):
            error = ShapeError if own.shape != expected.shape else DtypeError
            raise error(says(f"{structure_paths(wanted, root)[index]} is {own} where {other} {expected}"))


def difference(given: TreeDef | None, wanted: TreeDef | None, root: str, other: str, allowed: Allowed | None = None) -> str:
    """The first place in which a tree differs from the one that it must be like, and how: `carry['b'] is a tuple where init has
    a list`. None is the structure of what is not there. See `check_like` for the arguments."""
    return _kind_of_structures(given, wanted).difference(given, wanted, root, other, allowed)


def _differences(
    given: TreeDef | None, wanted: TreeDef | None, path: str, allowed: Allowed | None, exact: bool = False
) -> Iterator[tuple[str, str, str]]:
    """The places in which two trees differ, from left to right, each with what is there and what should be."""
    if given is None or wanted is None:
        yield path, "missing" if given is None else _a(given), "nothing" if wanted is None else _a(wanted)
        return
    if allowed is not None and allowed(given, wanted):
        return
    if _sort(given, exact) is not _sort(wanted, exact):
        yield path, _a(given), _a(wanted)
        return
    if _sort(given) is None:
        return
    own, expected = _parts(given, path), _parts(wanted, path)
    keys_differ = own.keys() != expected.keys()
    if keys_differ and (_sort(given, False) is not dict or (own.keys() - expected.keys() and expected.keys() - own.keys())):
        yield path, f"{_a(given)} of {_listed(given, expected)}", _listed(wanted, own)
        return
    for key in {**expected, **own}:
        there, mine = own.get(key) or (expected[key][0], None)
        yield from _differences(mine, expected.get(key, (there, None))[1], there, allowed, exact)
    if not keys_differ and given.one_level() != wanted.one_level() and (exact or _sort(given, False) is not dict):
        yield path, f"{_a(given)} with {_static(given.one_level())}", _static(wanted.one_level())


def _sort(structure: TreeDef, exact: bool = True) -> type | None:
    """The class of a tree; None for a leaf. Unless `exact`, the kinds of dict are one."""
    found: type | None = None if structure is LEAF else structure.type
    return dict if not exact and found is not None and issubclass(found, dict) else found


def _parts(structure: TreeDef, path: str) -> dict[Any, tuple[str, TreeDef]]:
    """The parts of a container by their keys or numbers, each with its path."""
    accessors = structure.one_level().accessors() if structure.num_children else ()
    parts = zip(structure.entries(), accessors, structure.children(), strict=True)
    return {entry: (accessor.codify(path), LEAF if part.is_leaf() else part) for entry, accessor, part in parts}


def _a(structure: TreeDef) -> str:
    cls = _sort(structure)
    if cls is None or cls is NoneType:
        return "a leaf" if cls is None else "None"
    if cls is Trivial:
        return "an array of dtype float0"
    return f"{'an' if cls.__name__[0] in 'AEIOU' else 'a'} {cls.__name__}"


def _listed(structure: TreeDef, others: Container[Any]) -> str:
    """The parts of a container: its keys, if there are many only those that `others` lacks; or their number."""
    entries = structure.entries()
    if _sort(structure, False) is not dict:
        return counted(len(entries), "element")
    shown = entries if len(entries) <= 6 else [entry for entry in entries if entry not in others]
    more = f" and {len(shown) - 6} more" if len(shown) > 6 else ""
    return f"keys {', '.join([repr(entry) for entry in shown[:6]])}{more}" if entries else "no keys"


def _static(node: TreeDef) -> str:
    """What belongs to a container besides its parts, of its structure without these."""
    text = str(node).removeprefix("PyTreeSpec(").partition(", namespace=")[0]
    return f"static parts {text[text.index('[') + 1 : text.rindex('], [')]}" if "], [" in text else text.removesuffix(")")
