"""jax.ad_checkpoint, and jax.checkpoint: what reverse mode keeps of its forward pass."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pullback as pb
from pullback.compat.jax.facade import facade
from pullback.compat.jax.jitting import kept
from pullback.compat.jax.structs import aval_of
from pullback.compat.jax.tree_util import tree_map
from pullback.compat.jax.trees import Packed, pack, packed, standing_for
from pullback.core.lazy import lazy_module
from pullback.core.source import api_boundary, named_after
from pullback.program.equality import Keyed

Function = Callable[..., Any]
jaxprs, primitives = lazy_module("pullback.compat.jax.jaxprs"), lazy_module("pullback.compat.jax.primitives")
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
            f"checkpoint's static_argnums is the number of an argument, or a tuple of them, but got {static_argnums!r}."
        )
    names = frozenset([static_argnames] if isinstance(static_argnames, str) else static_argnames)

    def make(fixed: tuple[tuple[int | str, _Static], ...]) -> Function:
        """The function with static arguments fixed: by position in the order of these."""

        @named_after(fun)
        def of_packed(*args: Packed, **kwargs: Packed) -> Packed:
            given = [arg.tree for arg in args]
            named = {name: arg.tree for name, arg in kwargs.items()}
            for place, static in fixed:
                if isinstance(place, int):
                    given.insert(place, static.value)
                else:
                    named[place] = static.value
            return Packed(fun(*given, **named))

        if fixed:  # its parameters are not those of the user's function
            of_packed = standing_for(fun)(of_packed)
        if not any([isinstance(static.value, pb.Tracer) for _, static in fixed]):
            kept(of_packed, fun, fixed)
        return pb.checkpoint(of_packed, policy=chosen, prevent_cse=prevent_cse is not False)

    own = policy is None or type(policy).__module__.startswith("pullback.")
    chosen = policy if own else _Policy(policy)
    made = functools.lru_cache(64)(make)

    @functools.wraps(fun)
    @api_boundary
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if not all([-len(args) <= number < len(args) for number in numbers]):
            raise ValueError(
                f"checkpoint's static_argnums={numbers} names an argument that this call, of {len(args)} by position, does not"
                " have."
            )
        places = sorted({number % len(args) for number in numbers})
        fixed = tuple(
            [(place, _Static(args[place])) for place in places]
            + [(name, _Static(kwargs[name])) for name in names & kwargs.keys()]
        )
        traced = any([isinstance(static.value, pb.Tracer) for _, static in fixed])  # which nothing may remember
        given = [Packed(arg) for i, arg in enumerate(args) if i not in places]
        named = {name: Packed(arg) for name, arg in kwargs.items() if name not in names}
        return (make if traced else made)(fixed)(*given, **named).tree

    return checkpointed


remat = checkpoint


class _Static:
    """A static argument, which need not be hashable: such a one is equal to itself only."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._hash = None
        with contextlib.suppress(TypeError):
            self._hash = hash(value)

    def __hash__(self) -> int:
        return id(self.value) if self._hash is None else self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static):
            return False
        return self.value is other.value or (self._hash is not None and bool(self.value == other.value))


class _Sentinel:
    """One of the answers of a policy."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


Saveable, Recompute = _Sentinel("Saveable"), _Sentinel("Recompute")


class Offloadable(NamedTuple):
    """The answer of a policy that moves a value to another memory."""

    src: Any
    dst: Any


class _Policy(Keyed):
    """A user's policy, which knows JAX's primitives and their parameters."""

    def __init__(self, policy: Any) -> None:
        self.policy = self.key = policy

    def __call__(self, primitive: Any, *types: Any, **params: Any) -> bool:
        shown = primitives.facade_of(primitive)
        named, _ = shown.translation.viewed(params, list(types), jaxprs.closed_jaxpr_of)
        found = self.policy(shown, *map(aval_of, types), **named)
        if isinstance(found, Offloadable):
            raise NotImplementedError(_OFFLOADING)
        return bool(found is Saveable if isinstance(found, _Sentinel) else found)


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

    found = pb.saved_residuals(packed(f), *pack(args), **{name: Packed(arg) for name, arg in kwargs.items()})
    return [(aval_of(one.type), _origin(one)) for one in found]


def _origin(residual: Any) -> str:
    match residual.made_by.partition(" ")[0]:
        case "argument":
            return f"from the {residual.source}"
        case "constant":
            return "from a constant"
        case "named":
            return f"{residual.made_by} from {residual.source}"
    return f"output of {residual.made_by} from {residual.source}"


def print_saved_residuals(f: Function, *args: Any, **kwargs: Any) -> None:
    for aval, source in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {source}")


facade(globals())
