"""jax.ad_checkpoint, and jax.checkpoint: what reverse mode keeps of its forward pass."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import pullback as pb
from pullback.compat.jax.facade import facade
from pullback.compat.jax.tree_util import tree_map
from pullback.compat.jax.trees import Packed, packed, standing_for

Function = Callable[..., Any]
_UNSAID = object()


def checkpoint(
    fun: Function,
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Function | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: Any = _UNSAID,
) -> Function:
    """pb.checkpoint."""
    if concrete is not _UNSAID:
        raise NotImplementedError("jax.checkpoint has no option concrete any more: static_argnums stands in its place.")
    numbers = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    if not isinstance(numbers, tuple) or not all([type(number) is int for number in numbers]):
        raise TypeError(
            "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` must be an int, tuple of ints or, bool, but got"
            f" value {static_argnums}"
        )
    names = frozenset([static_argnames] if isinstance(static_argnames, str) else static_argnames)

    @standing_for(fun)
    def of_packed(given: Packed, *fixed: _Static) -> Packed:
        args, kwargs = given.tree
        args, rest = list(args), iter(fixed)
        for place in next(rest).value if fixed else ():
            args.insert(place, next(rest).value)
        return Packed(fun(*args, **kwargs, **{name: each.value for name, each in zip(sorted(names), rest)}))

    made = functools.cache(
        lambda count: pb.checkpoint(
            of_packed, policy=policy, static_argnums=range(1, count), prevent_cse=prevent_cse is not False
        )
    )

    @functools.wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if not all([-len(args) <= number < len(args) for number in numbers]):
            raise ValueError(
                "the `static_argnums` argument to `jax.checkpoint` / `jax.remat` can only take integer values greater than or"
                f" equal to `-len(args)` and less than `len(args)`, but got {numbers}, while `len(args)` = {len(args)}"
            )
        if not numbers and not names:
            return made(1)(Packed((args, kwargs))).tree
        places = sorted({number % len(args) for number in numbers})
        missing = sorted(names)
        fixed = [tuple(places), *[args[place] for place in places], *[kwargs[name] for name in missing]]
        dynamic = [arg for i, arg in enumerate(args) if i not in places]
        named = {name: value for name, value in kwargs.items() if name not in names}
        return made(1 + len(fixed))(Packed((dynamic, named)), *[_Static(value) for value in fixed]).tree

    return checkpointed


remat = checkpoint


class _Static:
    """A static argument, which need not be hashable: such a one is equal to itself only."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._hashable = isinstance(value, Hashable)

    def __hash__(self) -> int:
        return hash(self.value) if self._hashable else id(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static):
            return False
        return self.value is other.value or (self._hashable and bool(self.value == other.value))


class checkpoint_policies(pb.checkpoint_policies):
    """pb.checkpoint_policies."""

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: Any, offload_dst: Any) -> Any:
        raise NotImplementedError(_OFFLOADING)

    @staticmethod
    def save_and_offload_only_these_names(**options: Any) -> Any:
        raise NotImplementedError(_OFFLOADING)


_OFFLOADING = "pullback keeps values where they are: policies that move them to another memory are not provided by it."


def checkpoint_name(x: Any, name: str) -> Any:
    return tree_map(lambda leaf: pb.checkpoint_name(leaf, name), x)


def saved_residuals(f: Function, *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """Pairs of the type of what is kept, and where it comes from."""
    found = pb.saved_residuals(packed(lambda given: f(*given[0], **given[1])), Packed((args, kwargs)))
    return [
        (one.type, one.source if one.made_by == "argument" else f"output of {one.made_by} from {one.source}") for one in found
    ]


def print_saved_residuals(f: Function, *args: Any, **kwargs: Any) -> None:
    for type, source in saved_residuals(f, *args, **kwargs):
        builtins.print(f"{type} {source}")


facade(globals())
