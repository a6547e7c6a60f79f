"""How the signatures of two calls of a jitted function differ, and what is wrong with static arguments, in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pullback.api.functions import Function, argument_name
from pullback.core.errors import StaticArgumentError
from pullback.core.source import describe
from pullback.core.tracing import Tracer
from pullback.core.trees import OWN_TREES, TreeDef, Trees


def static_text(key: Any) -> str:
    """The static argument of a `param_key`, in words."""
    own, *parts = key if isinstance(key, tuple) else (None, key)
    if own is float:
        return repr(float.fromhex(parts[0]))
    if isinstance(own, type) and issubclass(own, tuple):
        return f"({', '.join([static_text(item) for item in parts[0]])})"
    return repr(parts[-1])


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


def differences(fun: Function, seen: Any, new: Any, paths: list[str], trees: Trees = OWN_TREES) -> list[str]:
    """How two signature keys differ, in words."""
    before, now = [_statics_by_name(fun, key[2]) for key in (seen, new)]
    absent = (None, "not passed")
    pairs = {name: (before.get(name, absent), now.get(name, absent)) for name in {**before, **now}}
    statics = [f"static argument {name}: was {a[1]}, is now {b[1]}" for name, (a, b) in pairs.items() if a[0] != b[0]]
    if seen[0] != new[0]:
        moved = [[which for part in key[2] for which, _ in part] for key in (seen, new)]  # which the structure shows as well
        if moved[0] == moved[1]:
            statics.append(f"argument {argument_differs(fun, new[0], seen[0], 'before it was', trees)}")
        return statics * (1 + len(seen[1]) + len(new[1]))
    found = [f"argument {path}: was {a}, is now {b}" for path, a, b in zip(paths, seen[1], new[1]) if a is not b]
    found += statics
    if seen[3] != new[3]:
        found.append(f"the mode (default_bits): was {seen[3]}, is now {new[3]}")
    if seen[4] != new[4]:
        found.append(f"named axes: were {dict(seen[4])}, are now {dict(new[4])}")
    if seen[5] != new[5]:
        found.append(f"device: was {seen[5].device}, is now {new[5].device}")
    return found


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
                f" {type(value).__name__}: {value!r}. Pass a tuple instead of a list, a frozen dataclass instead of a"
                " mutable one; or do not make it static, if it holds arrays."
            )
    return StaticArgumentError(
        f"An argument of {describe(fun)} has a static part (a dataclass's field that is marked as static, or the"
        " metadata of pb.tree.register_node) that cannot be hashed or compared. Arrays are no static parts: make them"
        " leaves."
    )
