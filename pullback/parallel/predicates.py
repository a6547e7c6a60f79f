"""Branches and loops in which devices communicate: all that do must take the same branch, and as many steps.

With `check_vma` a shard_map refuses a predicate of which it is not known that they agree on it. Without it, and in a pmap,
nobody knows, since what is the same on all devices may come as shards. So they agree before: on the least of their predicates,
which is all of theirs if they were of one mind. If they were not, that is an error of the call, which ends like any other,
where devices would have waited for ever for those that do not come.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.control.callback import Callback
from pullback.core.array import host_of
from pullback.core.dtypes import INT32
from pullback.core.errors import ShardingError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.engine.failures import postpone
from pullback.ops.compare import ne
from pullback.ops.convert import convert_element_type
from pullback.ops.reduce import reduce_or


class Disagreement:
    """Notes an error, to be raised when the program has ended. Equal ones have an equal text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, *extremes: Any) -> tuple[()]:
        """Note it."""
        postpone(ShardingError(self.text))
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Disagreement) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


@primitive
class differ(Callback):
    """Call `function` if the operands, the least and the greatest of the devices' values, differ. It does so on the CPU alone:
    elsewhere, and in a program that is exported, nothing can call Python."""

    effect = "agreement"

    def evaluate(*extremes, function, **params):
        low, high = [np.asarray(host_of(array)) for array in extremes]
        return function() if np.any(low != high) else ()

    def lower(write, *extremes, function, **params):
        if write.portable or write.platform != "cpu":
            return ()

        def apart(low, high):
            anywhere = reduce_or(ne(low, high), axes=tuple(range(type_of(low).ndim)))
            return convert_element_type(anywhere, new_dtype=INT32)

        write.case(write.computing(apart, *extremes), [list, lambda: write.host_call(function, (), [])], [])
        return ()

    def samples(rng):
        return iter(())
