"""jax.api_util: functions of trees as functions of their leaves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.compat.jax.extend.linear_util import Store, WrappedFun, transformation_with_aux2
from pullback.compat.jax.facade import facade
from pullback.compat.jax.jaxprs import DebugInfo
from pullback.compat.jax.tree_util import broadcast_prefix, prefix_errors, tree_flatten

Function = Callable[..., Any]


@transformation_with_aux2
def flatten_fun(f: Function, store: Store, in_tree: Any, *leaves: Any) -> list[Any]:
    args, kwargs = in_tree.unflatten(leaves)
    return _flat(f(*args, **kwargs), store)


@transformation_with_aux2
def flatten_fun_nokwargs(f: Function, store: Store, in_tree: Any, *leaves: Any) -> list[Any]:
    return _flat(f(*in_tree.unflatten(leaves)), store)


def _flat(out: Any, store: Store) -> list[Any]:
    leaves, structure = tree_flatten(out)
    store.store(structure)
    return leaves


def argnums_partial(
    f: WrappedFun, dyn_argnums: int | Sequence[int], args: Sequence[Any], require_static_args_hashable: bool = True
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """A function of some of the arguments, the others being as they are here; and these arguments."""
    numbers = (dyn_argnums,) if isinstance(dyn_argnums, int) else tuple(dyn_argnums)
    for number in numbers:
        if not -len(args) <= number < len(args):
            raise ValueError(f"There is no argument {number} among the {len(args)} that were passed by position.")
    places = [number % len(args) for number in numbers]
    for place, arg in enumerate(args):
        if require_static_args_hashable and place not in places and type(arg).__hash__ is None:
            raise ValueError(
                f"Argument {place} of {f.__name__} is static, so it must be hashable, but it is of type {type(arg).__name__}."
            )

    def called(function: Function, *dynamic: Any, **kwargs: Any) -> Any:
        full = list(args)
        for place, arg in zip(places, dynamic, strict=True):
            full[place] = arg
        return function(*full, **kwargs)

    return f.wrap(called), tuple([args[place] for place in places])


def infer_argnums_and_argnames(sig: inspect.Signature, argnums: Any, argnames: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Arguments of a signature by number and by name; of the two, what is not given is completed from the other."""
    numbers, names = _several(argnums), _several(argnames)
    rows = [(i, row.name) for i, row in enumerate(sig.parameters.values()) if row.kind is row.POSITIONAL_OR_KEYWORD]
    if argnums is None:
        numbers = tuple([i for i, name in rows if name in names])
    elif argnames is None:
        names = tuple([name for i, name in rows if i in numbers])
    return numbers, names


def _several(given: Any) -> tuple[Any, ...]:
    return () if given is None else tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


def flatten_axes(name: str, treedef: Any, axis_tree: Any, *, kws: bool = False, tupled_args: bool = False) -> list[Any]:
    """For each leaf of a structure what a prefix of it says, in which None is a leaf."""
    full, is_none = treedef.unflatten([object()] * treedef.num_leaves), lambda node: node is None
    if errors := prefix_errors(axis_tree, full, is_none):
        details = "\n  ".join([str(error(name)) for error in errors])
        raise ValueError(
            f"{name} must be a tree like the values that it is for, or a prefix of one, but differs in {len(errors)} places:"
            f"\n  {details}"
        )
    return broadcast_prefix(axis_tree, full, is_none)


def safe_map(f: Function, *args: Any) -> list[Any]:
    """A list; the arguments must be of one length."""
    lists = [list(arg) for arg in args]
    if len({len(each) for each in lists}) != 1:
        raise ValueError(f"safe_map() arguments have different lengths: {[len(each) for each in lists]}")
    return list(map(f, *lists))


def debug_info(traced_for: str, fun: Function, args: Sequence[Any], kwargs: dict[str, Any], **options: Any) -> DebugInfo:
    """What is known of a function; of the options none says anything that is used here."""
    code = getattr(inspect.unwrap(fun), "__code__", None)
    name = getattr(fun, "__name__", "<unknown>")
    return DebugInfo(traced_for, f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name)


facade(globals(), own={"structs": "shaped_abstractify=typeof"})
