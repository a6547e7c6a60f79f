"""jax.custom_batching: functions with a batching rule of their own."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.jax.custom_derivatives import Custom, Function
from pullback.compat.jax.facade import facade
from pullback.compat.jax.trees import of_function
from pullback.core.source import named_after


class custom_vmap(Custom, pb.custom_vmap):
    """pb.custom_vmap."""

    _own = "vmap"
    vmap_rule: Function | None = None

    def _define(self, **rules: Any) -> None:
        if (vmap_rule := rules.get("vmap")) is not None:
            self.vmap_rule = vmap_rule
            rules["vmap"] = named_after(vmap_rule)(lambda size, batched, *args: vmap_rule(size, list(batched), *args))
        super()._define(**rules)


sequential_vmap = of_function(pb.sequential_vmap)


facade(globals())
