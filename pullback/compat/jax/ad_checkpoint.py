"""jax.ad_checkpoint, and jax.checkpoint: what reverse mode keeps of its forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pullback as pb
from pullback.compat.jax.facade import facade
from pullback.compat.jax.jitting import kept
from pullback.compat.jax.structs import aval_of
from pullback.compat.jax.tree_util import tree_map
from pullback.compat.jax.trees import like, of_jax_trees
from pullback.core.lazy import lazy_module
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
    own = policy is None or type(policy).__module__.startswith("pullback.")
    made = pb.checkpoint(
        kept(fun),
        policy=policy if own else _Policy(policy),
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        prevent_cse=prevent_cse is not False,
    )
    return like(fun)(made)


remat = checkpoint


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

    found = pb.saved_residuals(of_jax_trees(f), *args, **kwargs)
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
