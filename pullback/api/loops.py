"""Loops of known length over pytrees: scan, fori_loop, map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.functions import Function, check_callable, leaf_paths
from pullback.control.scan import scan as scan_primitive
from pullback.core.array import Array
from pullback.core.errors import AxisError, DtypeError, ShapeError, StructureError
from pullback.core.program import Program
from pullback.core.source import api_boundary, describe
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import TreeDef, array_leaves, flatten, unflatten
from pullback.core.types import ArrayType, array_type
from pullback.ops.convert import convert_element_type
from pullback.transforms.stage import stage


class Traced:
    """A user's function of trees, recorded for leaves of given types.

    Attributes:
        program: takes the captured tracers first, then the leaves. captures: the tracers to pass for them.
        structure: that of the result.
    """

    def __init__(self, fun: Function, structures: Sequence[TreeDef], types: Sequence[ArrayType], paths: Sequence[str]) -> None:
        self.structure: TreeDef = None

        def flat(*leaves: Any) -> list[Any]:
            args, start = [], 0
            for structure in structures:
                args.append(unflatten(structure, leaves[start : start + structure.num_leaves]))
                start += structure.num_leaves
            outs, self.structure = array_leaves(fun(*args), lambda: f"the output of {describe(fun)}")
            return outs

        name = getattr(fun, "__name__", "body")
        self.program: Program
        self.captures: tuple[Tracer, ...]
        self.program, self.captures = stage(flat, types, name=name, described=fun, arguments=paths)


def check_carry(
    what: str,
    fun: Function,
    structure: TreeDef,
    types: Sequence[ArrayType],
    out: TreeDef,
    out_types: Sequence[ArrayType],
    tree: Any,
) -> None:
    """Raise an error that names the leaf, unless what a loop's body returns as carry is of the type that it takes."""
    if structure is not out and structure != out:
        raise StructureError(
            f"{what}'s body {describe(fun)} takes a carry of structure {structure}, but returns one of structure {out};"
            " they must be equal."
        )
    for path, before, after in zip(leaf_paths(tree, "carry"), types, out_types, strict=True):
        if before.shape != after.shape or before.dtype is not after.dtype:
            error: type[Exception] = ShapeError if before.shape != after.shape else DtypeError
            raise error(
                f"{what}'s body {describe(fun)} takes {path} as {before}, but returns it as {after}. A carry keeps its type"
                f" from step to step: make {path} {after} at the start, or convert what the body returns (.astype, reshape)."
            )


def strengthened(types: Sequence[ArrayType], out_types: Sequence[ArrayType]) -> list[ArrayType]:
    """Carry types in which weak leaves, made from Python numbers, take the type that the body gives them."""
    found = []
    for before, after in zip(types, out_types):
        widens = before.weak and before.shape == after.shape and before is not after
        found.append(after if widens else before)
    return found


def fit(value: Any, type: ArrayType) -> Any:
    """A leaf as a given type, which differs from its own in dtype and weakness at most."""
    own = type_of(value)
    return value if own is type else convert_element_type(value, new_dtype=type.dtype, weak=type.weak)


@api_boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Carry a value through a loop over the leading axis of `xs`, stacking what each step returns.

    As `for x in xs: carry, y = f(carry, x); ys.append(y)`, but one operation, whose cost to trace and compile does not grow
    with the number of steps, and which every transformation can take.

    Arguments:
        f: one step, `(carry, x) -> (carry, y)`; the carry keeps its structure, shapes and dtypes.
        init: the carry at the start, any tree.
        xs: what to loop over, a tree whose leaves have the same leading size; None for a loop of `length` steps.
        length: the number of steps, needed where `xs` has no leaves.
        reverse: whether to go from the last element of `xs` to the first; the results stay in the order of `xs`.
        unroll: how many steps of the loop are compiled in a row; True for all of them.

    Returns:
        `(carry, ys)`: the carry after the last step, and what the steps returned, stacked along a new leading axis.

    Raises:
        StructureError, ShapeError, DtypeError: the carry that `f` returns is not of the type of the carry it takes; the leaf is
            named. AxisError: the leading sizes of `xs` differ, or disagree with `length`.

    Example:
        >>> import pullback as pb
        >>> pb.lax.scan(lambda total, x: (total + x, total * x), 0.0, pb.asarray([1.0, 2.0, 3.0]))
        (6.0:f32[]:cpu(0), [0. 2. 9.]:f32[3]:cpu(0))
    """
    check_callable(f, "scan")
    carry, carry_structure = array_leaves(init, lambda: "init")
    stacks, x_structure = array_leaves(xs, lambda: "xs")
    steps = _number_of_steps(f, xs, stacks, length)
    x_types = [_element_type(type_of(stack)) for stack in stacks]
    paths = leaf_paths(init, "carry") + leaf_paths(xs, "x")[: len(stacks)]
    types = [type_of(leaf) for leaf in carry]
    while True:
        traced = Traced(f, (carry_structure, x_structure), [*types, *x_types], paths)
        out_structure, carried = _pair_structure("scan", f, traced)
        out_types = traced.program.output_types[:carried]
        better = strengthened(types, out_types) if carried == len(types) else types
        if better == types:
            break
        types = better
    check_carry("scan", f, carry_structure, types, out_structure[0], out_types, init)
    outs = scan_primitive(
        *traced.captures,
        *[fit(leaf, type) for leaf, type in zip(carry, types)],
        *stacks,
        body=traced.program,
        num_consts=len(traced.captures),
        num_carry=len(carry),
        length=steps,
        reverse=bool(reverse),
        unroll=steps if unroll is True else max(int(unroll), 1),
    )
    return unflatten(carry_structure, outs[:carried]), unflatten(out_structure[1], outs[carried:])


def _element_type(type: ArrayType) -> ArrayType:
    return array_type(type.shape[1:], type.dtype, type.weak)


def _number_of_steps(f: Function, xs: Any, stacks: Sequence[Any], length: int | None) -> int:
    sizes = {}
    for path, stack in zip(leaf_paths(xs, "xs"), stacks):
        if not type_of(stack).shape:
            raise AxisError(f"scan of {describe(f)} loops over the leading axis of xs, but {path} is {type_of(stack)}.")
        sizes[path] = type_of(stack).shape[0]
    if length is not None:
        sizes["length"] = int(length)
    if not sizes:
        raise AxisError(f"scan of {describe(f)} has no xs to loop over: pass length.")
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{path} has {size}" if path != "length" else f"length is {size}" for path, size in sizes.items())
        raise AxisError(f"scan of {describe(f)} was given different numbers of steps: {listed}.")
    return next(iter(sizes.values()))


def _pair_structure(what: str, f: Function, traced: Traced) -> tuple[tuple[TreeDef, TreeDef], int]:
    """The structures of the carry and of the rest in what a body returns, and the number of the carry's leaves."""
    outs = unflatten(traced.structure, range(len(traced.program.outputs)))
    if not isinstance(outs, tuple) or len(outs) != 2:
        raise StructureError(
            f"{what}'s body {describe(f)} must return a pair (carry, y), but it returned {outs!r}-shaped results."
        )
    leaves, first = flatten(outs[0])
    return (first, flatten(outs[1])[1]), len(leaves)


@api_boundary
def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any, *, unroll: int | bool = 1) -> Any:
    """Apply `value = body_fun(i, value)` for i from `lower` up to (not including) `upper`.

    Arguments:
        lower, upper: integers. Where both are Python ints the loop is a `scan` and has a reverse mode; where one is traced its
            length is not known, and it is a `while_loop`.
        body_fun: one step, `(i, value) -> value`; the value keeps its structure, shapes and dtypes.
        init_val: the value at the start, any tree.
        unroll: how many steps are compiled in a row; True for all of them.

    Returns:
        The value after the last step.

    Raises:
        StructureError, ShapeError, DtypeError: the value changes its type; the leaf is named.

    Example:
        >>> import pullback as pb
        >>> pb.lax.fori_loop(0, 5, lambda i, total: total + i, 0)
        10:i32[]:cpu(0)
    """
    check_callable(body_fun, "fori_loop")
    first, last = int(lower), int(upper)
    steps = max(last - first, 0)

    def step(value: Any, i: Any) -> tuple[Any, None]:
        return body_fun(i, value), None

    step.__name__ = getattr(body_fun, "__name__", "body")
    dtype = type_of(0).dtype
    indices = Array(array_type((steps,), dtype), np.arange(first, max(last, first), dtype=dtype))
    return scan(step, init_val, indices, unroll=unroll)[0]
