"""Loops and branches where nothing is compiled (`compiles` in the mode): Python's own, in which a debugger can stop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pullback.core.array import as_array
from pullback.core.axes import told_axes
from pullback.core.brief import brief
from pullback.core.errors import ConcretizationError, StructureError
from pullback.core.modes import current_mode
from pullback.core.source import describe
from pullback.core.tracing import innermost_staging
from pullback.core.trees import Trees, check_like, kind_of, unflatten
from pullback.ops.shape import concatenate, reshape

F = TypeVar("F", bound=Callable[..., Any])
UNKNOWN = object()  # what stands for the result where Python would have to know values that are traced


def by_steps(in_python: Callable[..., Any]) -> Callable[[F], F]:
    """Let a function do what `in_python` does with the same arguments, where nothing is compiled. Where that returns UNKNOWN,
    the function itself is called, which compiles, or says what is wrong."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def chosen(*args: Any, **kwargs: Any) -> Any:
            if current_mode().compiles or (out := in_python(*args, **kwargs)) is UNKNOWN:
                return function(*args, **kwargs)
            return out

        return chosen  # type: ignore[return-value]

    return decorate


def _arrays(trees: Trees, tree: Any, name: str) -> Any:
    """A tree whose leaves are arrays."""
    leaves, structure = trees.array_leaves(trees.without_float0(tree), lambda: name)
    return unflatten(structure, leaves)


def scan(
    f: Callable[..., Any], init: Any, xs: Any = None, length: Any = None, reverse: bool = False, *_: Any, **__: Any
) -> Any:
    """`scan`, each step a call of its body; UNKNOWN without a step, where there is no result to stack."""
    trees = kind_of(f)
    stacks, structure = trees.array_leaves(trees.without_float0(xs), lambda: "xs")
    sizes = {stack.type.shape[0] if stack.type.shape else None for stack in stacks} | (
        {length} if length is not None else set()
    )
    steps = sizes.pop() if len(sizes) == 1 else None
    if not isinstance(steps, int) or steps < 1:
        return UNKNOWN
    carry, rows, first = _arrays(trees, init, "init"), [], None
    for step in range(steps)[::-1] if reverse else range(steps):
        out = f(carry, unflatten(structure, [stack[step] for stack in stacks]))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise StructureError(f"scan's body {describe(f)} must return a pair (carry, y), but it returned {brief(out)}.")
        carry, y = out
        leaves, own = trees.array_leaves(y, lambda: "y")
        first = own if first is None else first
        check_like(own, first, "y", "the first step returned", lambda where: f"The steps of {describe(f)} differ: {where}.")
        rows.append([reshape(leaf, new_sizes=(1, *leaf.type.shape)) for leaf in leaves])
    columns = zip(*rows[::-1] if reverse else rows)
    return carry, unflatten(first, [concatenate(*column, dimension=0) for column in columns])


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    max_steps: int | None = None,
    checkpoint: int | None = None,
    checked: bool = False,
) -> Any:
    """`while_loop`, each step a call of its body; UNKNOWN where the condition is."""
    value, steps = _arrays(kind_of(body_fun), init_val, "init_val"), 0
    if checked:
        return UNKNOWN
    try:
        while (max_steps is None or steps < max_steps) and cond_fun(value):
            value, steps = body_fun(value), steps + 1
    except ConcretizationError:
        return UNKNOWN
    return value


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, **_: Any) -> Any:
    """`fori_loop`, each step a call of its body; UNKNOWN where a bound is."""
    value = _arrays(kind_of(body_fun), init_val, "init_val")
    try:
        places = range(int(lower), int(upper))
    except ConcretizationError:
        return UNKNOWN
    for i in places:
        value = body_fun(as_array(i), value)
    return value


def choose(what: str, index: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any], **_: Any) -> Any:
    """The branch that an index, out of bounds the nearest, names; UNKNOWN if the index is not known, or if devices of a mesh
    choose by it: what they choose between has to be known for gradients."""
    recording = innermost_staging()
    if recording is not None and told_axes() and recording.varying(index):
        return UNKNOWN
    try:
        branch = branches[min(max(int(index), 0), len(branches) - 1)]
    except ConcretizationError:
        return UNKNOWN
    return branch(*operands)
