"""jax.custom_batching: functions with a batching rule of their own."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.jax.control_flow import map as lax_map
from pullback.compat.jax.custom_derivatives import Custom, Function, _name
from pullback.compat.jax.facade import facade
from pullback.compat.jax.tree_util import tree_map, tree_structure
from pullback.compat.jax.trees import Packed, standing_for, unpack


class custom_vmap(Custom):
    """pb.custom_vmap."""

    _make = staticmethod(pb.custom_vmap)
    vmap_rule: Function | None = None

    def def_vmap(self, vmap_rule: Function) -> Function:
        @standing_for(vmap_rule)
        def rule(size: int, batched: Any, *args: Packed) -> tuple[Packed, Packed]:
            out, out_batched = vmap_rule(size, list(unpack(batched)), *unpack(args))
            if tree_structure(out) != tree_structure(out_batched):
                raise ValueError(
                    f"{_name(vmap_rule)}, a rule of a custom_vmap, must say for each array of its output whether it is batched:"
                    f" the output is {tree_structure(out)}, what is said of it {tree_structure(out_batched)}."
                )
            return Packed(out), Packed(out_batched)

        self._custom.def_vmap(rule)
        self.vmap_rule = vmap_rule
        return vmap_rule


def sequential_vmap(f: Function) -> custom_vmap:
    """A function of a batch is a loop over it."""
    made = custom_vmap(f)

    @made.def_vmap
    def rule(size: int, in_batched: list[Any], *args: Any) -> Any:
        def of_element(mapped: Any) -> Any:
            return made(*tree_map(lambda flag, own, whole: own if flag else whole, in_batched, mapped, list(args)))

        out = lax_map(of_element, tree_map(lambda flag, arg: arg if flag else None, in_batched, list(args)))
        return out, tree_map(lambda _: True, out)

    return made


facade(globals())
