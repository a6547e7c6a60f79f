"""How the signatures of two calls of a jitted function differ, and what is wrong with static arguments, in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import ne
from typing import Any, NamedTuple

import numpy as np

from pullback.api.functions import Function, argument_name
from pullback.core.brief import brief
from pullback.core.errors import StaticArgumentError
from pullback.core.lazy import lazy_module
from pullback.core.modes import Mode
from pullback.core.source import describe
from pullback.core.tracing import Tracer
from pullback.core.trees import OWN_TREES, TreeDef, Trees, structure_paths
from pullback.core.types import ArrayType

dataclasses = lazy_module("dataclasses")


def static_text(key: Any) -> str:
    """The static argument of a `param_key`, in words."""
    own, *parts = key if isinstance(key, tuple) and key else (None, key)
    if own is float:
        return repr(float.fromhex(parts[0]))
    if len(parts) == 2:  # of a complex number, or one of NumPy's
        return repr(complex(*map(float.fromhex, parts)) if own is complex else np.frombuffer(parts[1], parts[0])[0])
    if isinstance(own, type) and dataclasses.is_dataclass(own) and isinstance(parts[0], tuple):
        names = [field.name for field in dataclasses.fields(own) if field.compare]
        items = [f"{name}={static_text(item)}" for name, item in zip(names, parts[0], strict=True)]
        return f"{own.__qualname__}({', '.join(items)})"
    if isinstance(own, type) and issubclass(own, (tuple, frozenset, slice)):
        text = ", ".join([static_text(item) for item in parts[0]])
        if own is tuple:
            return f"({text}{',' * (len(parts[0]) == 1)})"
        return f"{own.__name__}({f'{{{text}}}' if text and issubclass(own, frozenset) else text})"
    try:
        return repr(parts[-1])
    except Exception as error:  # the user's own: what is said of a call must not be what fails
        return f"<{type(parts[-1]).__name__}, whose repr raises {type(error).__name__}>"


def argument_differs(fun: Function, given: TreeDef, wanted: TreeDef, other: str, trees: Trees = OWN_TREES) -> str:
    """The first argument, named by its parameter, in which the structure of a call's arguments differs from that of another."""

    def by_name(structure: TreeDef) -> dict[str, TreeDef]:
        (_, _, positional), (_, keys, named) = map(trees.node, structure.children())
        names = [argument_name(fun, i) for i in range(len(positional))]
        names += [f"{name} (passed by name)" for name in keys]
        return dict(zip(names, [*positional, *named], strict=True))

    own, expected = by_name(given), by_name(wanted)

    def same(one: TreeDef | None, two: TreeDef | None) -> bool:
        return one is two or (one is not None and two is not None and one == two)

    name = next((name for name in {**expected, **own} if not same(own.get(name), expected.get(name))), "arguments")
    if name not in own and f"{name} (passed by name)" in own:
        return f"{name} is passed by name where {other} one that is passed by position"
    return trees.difference(own.get(name), expected.get(name), name, other)


def _statics_by_name(fun: Function, statics: Any) -> dict[str, tuple[Any, str]]:
    """The static arguments of a call by their names: each as a key, with how it was passed, and in words."""
    return {
        argument_name(fun, which) if isinstance(which, int) else which: ((how, key), static_text(key) + how)
        for part, how in zip(statics, ("", " by name"))
        for which, key in part
    }


class Change(NamedTuple):
    """One thing in which the signature of a call differs from an earlier one.

    Attributes:
        kind: "structure", "shape", "dtype", "weak", "sharding", "static value", "mode", "axes", "devices", "options", "refs".
        argument: the path of the argument; empty where the change is in none.
        text: the change in words.
    """

    kind: str
    argument: str
    text: str

    def __str__(self) -> str:
        return self.text


def call_leaves(fun: Function, structure: TreeDef, trees: Trees = OWN_TREES) -> list[str]:
    """How error messages call each leaf of a call's arguments, given the structure of `(args, kwargs)`."""
    (_, _, positional), (_, keys, named) = map(trees.node, structure.children())
    parts = [(argument_name(fun, i), child) for i, child in enumerate(positional)] + list(zip(keys, named))
    return [path for name, child in parts for path in structure_paths(child, name)]


def differ(one: Any, other: Any) -> bool:
    """Whether two keys of static arguments differ. The user's own comparison is asked only where their hashes are equal, and
    what it cannot compare differs."""
    try:
        return hash(one) != hash(other) or bool(one != other)
    except (TypeError, ValueError):
        return True


def distance(seen: tuple[Any, ...], new: tuple[Any, ...]) -> int:
    """How far apart two signature keys are: how many things differ. Structures differ by more than the types of all leaves
    do, and by the more, the more leaves one has that the other has not."""
    others: int = differ(seen[2], new[2]) + len(_changed_fields(seen[3], new[3])) + sum(map(ne, seen[4:], new[4:]))
    if seen[0] != new[0]:
        return 1 + others + 3 * max(len(seen[1]), len(new[1])) + abs(len(seen[1]) - len(new[1]))
    return others + sum([_types_differ(a, b) for a, b in zip(seen[1], new[1]) if a is not b])


def _types_differ(a: ArrayType, b: ArrayType) -> int:
    return (a.shape != b.shape) + (a.dtype != b.dtype) + (a.weak != b.weak) or 1


def _type_change(path: str, a: ArrayType, b: ArrayType) -> Change:
    same = {"shape": a.shape == b.shape, "dtype": a.dtype == b.dtype, "weak": a.weak == b.weak}
    kind = next((kind for kind, alike in same.items() if not alike), "sharding")
    hint = ""
    if kind == "weak":
        weak, strong = ("was", "is now") if a.weak else ("is now", "was")
        hint = f": it {weak} weak, as Python's numbers are, and {strong} not"
    return Change(kind, path, f"argument {path}: was {a}, is now {b}{hint}")


def differences(fun: Function, seen: Any, new: Any, trees: Trees = OWN_TREES) -> list[Change]:
    """How two signature keys differ."""
    before, now = [_statics_by_name(fun, key[2]) for key in (seen, new)]
    absent = (("", None), "not passed")
    pairs = {name: (before.get(name, absent), now.get(name, absent)) for name in {**before, **now}}
    statics = [
        Change("static value", name, f"static argument {name}: {_static_change(a, b)}")
        for name, (a, b) in pairs.items()
        if differ(a[0], b[0])
    ]
    found: list[Change] = []
    if seen[0] == new[0]:
        changed = [(i, a, b) for i, (a, b) in enumerate(zip(seen[1], new[1])) if a is not b]
        paths = call_leaves(fun, new[0], trees) if changed else []
        found += [_type_change(paths[i], a, b) for i, a, b in changed]
    found += statics
    if seen[0] != new[0]:
        moved = [[which for part in key[2] for which, _ in part] for key in (seen, new)]  # which the structure shows as well
        if moved[0] == moved[1]:
            text = argument_differs(fun, new[0], seen[0], "before it was", trees)
            found.append(Change("structure", text.partition(" ")[0], f"argument {text}"))
    if seen[3] is not new[3]:
        found.append(Change("mode", "", f"the mode: {mode_change(seen[3], new[3])}"))
    if seen[4] != new[4]:
        found.append(Change("axes", "", f"named axes: were {_axes_text(seen[4])}, are now {_axes_text(new[4])}"))
    if seen[5] != new[5]:
        found.append(_options_change(seen[5], new[5]))
    if seen[6] != new[6]:
        paths = call_leaves(fun, new[0], trees)
        exchanged = sorted({*seen[6]} ^ {*new[6]}) if seen[0] == new[0] else []
        found += [Change("refs", paths[i], f"argument {paths[i]}: {_ref_text(i in new[6])}") for i in exchanged]
    return list(dict.fromkeys(found))


def _static_change(seen: tuple[Any, str], new: tuple[Any, str]) -> str:
    """How a static argument has changed; values that look alike are told apart by their classes, if these differ."""
    (_, one), (_, other) = seen[0], new[0]
    classes = [key[0] if isinstance(key, tuple) and key else type(key) for key in (one, other)]
    if seen[1] != new[1] or classes[0] is classes[1]:
        return f"was {seen[1]}, is now {new[1]}"
    of = [getattr(cls, "__qualname__", repr(cls)) for cls in classes]
    return f"was {seen[1]} of class {of[0]}, is now one of class {of[1]}"


def _axes_text(axes: Sequence[tuple[Any, int, Any]]) -> str:
    """The named axes around a call, as `axis_sizes` gives them, in words."""
    return ", ".join([f"{name!r} of size {size}" for name, size, _ in axes]) or "none"


def _ref_text(is_ref: bool) -> str:
    return "is now a Ref, and was an array" if is_ref else "was a Ref, and is now an array"


_MODES = {"bits": "default_bits", "native": "native_mode", "checks": "pb.checking"}  # what users write for a field


def mode_change(seen: Mode, new: Mode) -> str:
    """How two modes differ, in words."""
    fields = _changed_fields(seen, new)
    told = [name for name in fields if name != "checks_leaks" or "checks" not in fields]  # an option of pb.checking
    changed = [(_MODES.get(name, name), getattr(seen, name), getattr(new, name)) for name in told]
    return "; ".join([f"{name} was {a!r}, is now {_another(a, b)}" for name, a, b in changed])


def _another(seen: Any, new: Any) -> str:
    """What a field of a mode is now, in words: one block may differ from another only in being another."""
    return f"another block of {new!r}" if repr(seen) == repr(new) else repr(new)


def _changed_fields(seen: Mode, new: Mode) -> list[str]:
    return [] if seen is new else [name for name in Mode.fields if getattr(seen, name) != getattr(new, name)]


def _options_change(seen: Any, new: Any) -> Change:
    """How the options of compilation differ: most often in where the arguments are."""
    if seen.device != new.device:
        return Change("devices", "", f"device: was {seen.device}, is now {new.device}")
    changed = [(one.name, getattr(seen, one.name), getattr(new, one.name)) for one in dataclasses.fields(seen)]
    return Change("options", "", "; ".join([f"{name}: was {a!r}, is now {b!r}" for name, a, b in changed if a != b]))


def unhashable(
    fun: Function, numbers: Collection[int], names: Collection[str], args: Sequence[Any], kwargs: dict[str, Any]
) -> StaticArgumentError:
    """The error for a call of which a static argument, or a static part of another one, cannot be hashed or compared.

    Arguments:
        numbers, names: the static arguments: numbers of those given by position, and names of those given by name.
    """
    statics = [(argument_name(fun, i), args[i]) for i in sorted(numbers) if i < len(args)]
    for name, value in statics + [(name, kwargs[name]) for name in sorted(kwargs) if name in names]:
        if isinstance(value, Tracer):
            return StaticArgumentError(
                f"Argument {name} of {describe(fun)} is static, but is a traced value of {value.owner.describe()}: it"
                f" has no value yet. Do not make it static; or, for this value to be known here, {value.cure()}."
            )
        try:
            hash(value)
        except TypeError:
            return StaticArgumentError(
                f"Argument {name} of {describe(fun)} is static, so it must be hashable, but it is of type"
                f" {type(value).__name__}: {brief(value)}. Pass a tuple instead of a list, a frozen dataclass instead of a"
                " mutable one; or do not make it static, if it holds arrays."
            )
    return StaticArgumentError(
        f"An argument of {describe(fun)} has a static part (a dataclass's field that is marked as static, or the"
        " metadata of pb.tree.register_node) that cannot be hashed or compared. Arrays are no static parts: make them"
        " leaves."
    )
