"""callback: run a Python function on the host, for what it does rather than for what it returns.

It has an effect, so it is never dropped, merged with another like it, or repeated. It runs once where it stands, and so it
does under differentiation, on the primal values; under vmap once for every example, in order, if an operand is batched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import HostArray
from pullback.core.primitive import Rules, primitive


@primitive
class callback(Rules):
    """Call `function`, a Python function, on the operands' values.

    `levels` are the batch axes that the operands carry in front, outermost first: the size of each, and which operands have
    it. The function is called once for every combination of their indices.
    """

    multiple_results = True
    on_arrays = True
    effect = "callback"

    def result_type(*types, function, levels=()):
        return ()

    def evaluate(*arrays, function, levels=()):
        call_each(function, levels, [array.view() for array in arrays])
        return ()

    def lower(write, *values, function, levels=()):
        def on_host(*hosts):
            # XLA takes the memory back when this returns, but the function may keep what it is given
            call_each(function, levels, [np.array(host) for host in hosts])
            return ()

        write.host_call(on_host, values)
        return ()

    def vectorize(size, args, axes, *, function, levels=()):
        here = (int(size), tuple([axis == 0 for axis in axes]))
        return callback(*args, function=function, levels=(here, *levels)), ()

    def samples(rng):
        yield (rng.normal(size=(3,)),), {"function": do_nothing}


def do_nothing(*arrays: HostArray) -> None:
    """Nothing."""


def call_each(function: Callable[..., Any], levels: Sequence[tuple[int, tuple[bool, ...]]], hosts: Sequence[HostArray]) -> None:
    """Call a function for every index of the batch axes that `hosts` carry in front."""
    if not levels:
        function(*hosts)
        return
    (size, batched), *inner = levels
    for i in range(size):
        call_each(function, inner, [host[i] if flag else host for host, flag in zip(hosts, batched)])
