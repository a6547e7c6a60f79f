"""Loops over pytrees: scan, while_loop, fori_loop."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api import stepwise
from pullback.api.functions import Function, R, check_callable, paths_of, standing_for
from pullback.api.progress import with_bar
from pullback.api.stepwise import by_steps
from pullback.api.tangents import tree_in_brief
from pullback.api.traced import Traced, shared_captures, trace, write_back
from pullback.control.callback import callback
from pullback.control.holder import bind_or_forward
from pullback.control.scan import scan as scan_primitive
from pullback.control.while_loop import levels_for
from pullback.control.while_loop import while_loop as while_primitive
from pullback.core.array import Array
from pullback.core.brief import brief
from pullback.core.dtypes import BOOL, kind, promote
from pullback.core.errors import AxisError, DtypeError, RefError, ShapeError, StructureError
from pullback.core.modes import current_mode
from pullback.core.source import api_boundary, describe
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import (
    LEAF,
    TreeDef,
    Trees,
    array_leaf,
    check_like,
    kind_of,
    structure_paths,
    taking,
    unflatten,
)
from pullback.core.types import ArrayType, array_type
from pullback.core.used_keys import marks_used, undoing
from pullback.ops.arithmetic import add
from pullback.ops.compare import lt
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal
from pullback.program.equality import Keyed
from pullback.program.program import Program
from pullback.transforms.derive import stage_closed
from pullback.transforms.stage import replay


def check_carry(
    what: str,
    fun: Function,
    structure: TreeDef,
    types: Sequence[ArrayType],
    out: TreeDef,
    out_types: Sequence[ArrayType],
    root: str = "carry",
) -> None:
    """Raise an error that names the leaf, unless what a loop's body returns as carry is of the type that it takes."""
    check_like(
        out,
        structure,
        root,
        "it takes",
        lambda where: (
            f"{what}'s body {describe(fun)} must return the {root} as it takes it, but returned: {where}. A {root} keeps its"
            f" structure and types from step to step: change the one at the start, or what the body returns (.astype, reshape)."
        ),
        (out_types, types),
    )


def strengthened(types: Sequence[ArrayType], out_types: Sequence[ArrayType]) -> list[ArrayType]:
    """Carry types in which weak leaves, made from Python numbers, take the type that the body gives them.

    Only where promotion would: a 0 becomes a float64, but a 1.0 never an int32. They are weak no longer.
    """
    found = []
    for before, after in zip(types, out_types):
        widens = before.weak and before.shape == after.shape and before is not after
        if widens and before.dtype is not after.dtype:
            widens = promote((before.dtype, True), (after.dtype, after.weak))[0] is after.dtype
        found.append(after.strong() if widens else before)
    return found


def settled(
    types: Sequence[ArrayType],
    record: Callable[[Sequence[ArrayType]], Traced],
    carried: Callable[[Traced], Sequence[ArrayType]] = lambda traced: traced.out_types,
    strong: bool = False,
) -> tuple[Traced, Sequence[ArrayType]]:
    """What `record` makes of a loop's body for a carry of `types`, or of those that Python numbers among it come to have; and
    these, none of them weak if `strong`. `carried` are the types that it returns as carry."""
    undo = undoing()
    while True:
        traced = record(types)
        out_types = carried(traced)
        better = strengthened(types, out_types) if len(out_types) == len(types) else types
        if better == types and strong:
            better = [type.strong() for type in types]
        if better == types:
            return traced, types
        types = better
        undo()  # the keys that it used up: it is traced again


def fit(value: Any, type: ArrayType) -> Any:
    """A leaf as a given type, which differs from its own in dtype and weakness at most."""
    own = type_of(value)
    return value if own is type else convert_element_type(value, new_dtype=type.dtype, weak=type.weak)


def returning(program: Program, types: Sequence[ArrayType]) -> Program:
    """The Program with results of these types, which differ from its own in dtype and weakness at most."""
    if tuple(types) == program.output_types:
        return program

    def fitted(*args: Any) -> list[Any]:
        return [fit(out, type) for out, type in zip(replay(program, args), types)]

    return program.memo(("returning", *types), lambda: stage_closed(fitted, program.input_types, program.name))  # type: ignore[no-any-return]


@api_boundary
@with_bar
@by_steps(stepwise.scan)
def scan(
    f: Callable[[Any, Any], tuple[R, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[R, Any]:
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
        _split_transpose: accepted for compatibility; nothing is made of it.

    Returns:
        `(carry, ys)`: the carry after the last step, and what the steps returned, stacked along a new leading axis.

    Raises:
        StructureError, ShapeError, DtypeError: the carry that `f` returns is not of the type of the carry it takes; the leaf is
            named. AxisError: the leading sizes of `xs` differ, or disagree with `length`.

    Example:
        >>> import pullback as pb
        >>> pb.lax.scan(lambda total, x: (total + x, total * x), 0.0, pb.numpy.asarray([1.0, 2.0, 3.0]))
        (6.0:f32[]:cpu(0), [0. 2. 9.]:f32[3]:cpu(0))
    """
    check_callable(f, "scan")
    trees = kind_of(f)
    carry, carry_structure = trees.array_leaves(trees.without_float0(init), lambda: "init")
    steps = number_of_steps("scan", f, xs, length)
    stacks, x_structure = trees.array_leaves(trees.without_float0(trees.unstacked_float0(xs)), lambda: "xs")
    x_types = [(type := type_of(stack)).with_shape(type.shape[1:]) for stack in stacks]
    paths = functools.partial(paths_of, (carry_structure, "carry"), (x_structure, "x"))
    must = f"scan's body {describe(f)} must return a pair (carry, y)"
    used = marks_used()
    traced, types = settled(
        [type_of(leaf) for leaf in carry],
        lambda types: trace("scan", f, (carry_structure, x_structure), [*types, *x_types], paths, refs=True),
        lambda traced: traced.out_types[: pair_structure(trees, traced, must)[1]],
    )
    out_structure, carried = pair_structure(trees, traced, must)
    check_carry("scan", f, carry_structure, types, out_structure[0], traced.out_types[:carried])
    note_keys("scan", f, traced, [*carry, *stacks], used, range(len(carry)), steps)
    state = [ref.type for ref in traced.written]
    outs = bind_or_forward(
        scan_primitive,
        *traced.captures,
        *[fit(leaf, type) for leaf, type in zip(carry, types)],
        *stacks,
        body=returning(traced.program, [*state, *types, *traced.out_types[carried:]]),
        num_consts=len(traced.captures) - len(state),
        num_carry=len(state) + len(carry),
        length=steps,
        reverse=bool(reverse),
        unroll=_unroll("scan", unroll, steps),
    )
    outs = traced.results(outs)
    return unflatten(carry_structure, outs[:carried]), trees.stacked_float0(unflatten(out_structure[1], outs[carried:]), steps)


def note_keys(
    what: str, fun: Function, traced: Traced, given: Sequence[Any], used: frozenset[Any], carried: range, steps: int | None
) -> None:
    """Where random keys are watched: a loop uses up those that it is given, each at one step.

    Arguments:
        given: what stands for the leaves that its body takes. used: the marks of the keys that were used up before it was
            traced. carried: which leaves are the carry. steps: their number, None if it is not known.
    """
    if (checks := current_mode().checks) is None or steps == 0:
        return
    name = f"{what} of {describe(fun)}"
    if steps != 1:
        checks.repeats_keys(name, traced, used, carried)
    checks.uses_keys(name, [given[i] for i in traced.keys])


def number_of_steps(what: str, f: Function, xs: Any, length: int | None = None) -> int:
    stacks, structure = kind_of(f).array_leaves(xs, lambda: "xs", True)
    found = {type_of(stack).shape[:1] for stack in stacks}
    if length is None and len(found) == 1 and () not in found:
        return found.pop()[0]
    sizes = {}
    for path, stack in zip(structure_paths(structure, "xs"), stacks):
        if not type_of(stack).shape:
            has = f"{path} is {type_of(stack)}, which has none. Of a list of numbers, make an array (pb.numpy.asarray)."
            raise AxisError(f"{what} of {describe(f)} loops over the leading axis of xs, but {has}")
        sizes[path] = type_of(stack).shape[0]
    if length is not None:
        sizes["length"] = _count("scan's length", length)
    if not sizes:
        cure = ": pass length" if what == "scan" else ""
        raise AxisError(f"{what} of {describe(f)} has no xs to loop over{cure}.")
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{path} has {size}" if path != "length" else f"length is {size}" for path, size in sizes.items())
        raise AxisError(f"{what} of {describe(f)} needs one number of steps, but was given several: {listed}.")
    return next(iter(sizes.values()))


def _count(name: str, number: Any) -> int:
    """A number of steps that a loop was given, as an int."""
    number = operator.index(number) if isinstance(number, Tracer) else number
    if not isinstance(number, (int, np.integer)) or number < 0:
        raise ValueError(f"{name} must be a number of steps, an int of 0 or more, but got {brief(number)}.")
    return int(number)


def _unroll(what: str, unroll: Any, steps: int) -> int:
    """How many steps of a loop are compiled in a row."""
    return max(steps if unroll is True else _count(f"{what}'s unroll", unroll), 1)


def pair_structure(trees: Trees, traced: Traced, what: str) -> tuple[tuple[TreeDef, TreeDef], int]:
    """The structures of the first and of the second in the pair that a function returns, and the number of the first's leaves;
    `what` is how errors call the function, and the pair."""
    container, _, parts = trees.node(traced.structure)
    if container is None or not issubclass(container, (tuple, list)) or len(parts) != 2:
        raise StructureError(f"{what}, but it returned {tree_in_brief(unflatten(traced.structure, traced.out_types), trees)}.")
    first, second = [LEAF if part.num_nodes == part.num_leaves == 1 else part for part in parts]
    return (first, second), first.num_leaves


@api_boundary
@with_bar
@by_steps(stepwise.while_loop)
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], R],
    init_val: Any,
    *,
    max_steps: int | None = None,
    checkpoint: int | None = None,
    checked: bool = False,
) -> R:
    """Apply `value = body_fun(value)` while `cond_fun(value)` holds.

    Forward mode, `vmap` and `jit` need to know nothing of the number of steps. Under `vmap` each batch element stops when its
    own condition fails, and the loop when the last one has stopped. Reverse mode needs `max_steps`, a bound: its cost is that
    of the steps that were really run, and its memory does not grow with them. Let b be the least number with `b**checkpoint >=
    max_steps`: the backward pass keeps `checkpoint * b` values of the loop's carry and the intermediate results of b steps, and
    computes each step `checkpoint` times. The default is the least `checkpoint` for which b is at most 32.

    Arguments:
        cond_fun: the condition, `value -> 0-d bool`.
        body_fun: one step, `value -> value`; the value keeps its structure, shapes and dtypes.
        init_val: the value at the start, any tree.
        max_steps: the number of steps after which the loop stops in any case, with the value that it has then. It is part of
            what the loop means, in every mode and under every transformation; reaching it is an error only if `checked`.
        checkpoint: how many levels of checkpoints reverse mode uses, 1 or more: 1 stores what every one of `max_steps` steps
            needs and computes none of them again.
        checked: raise RuntimeError if the condition still holds after `max_steps` steps; compiled code then calls back into
            Python once at the end of the loop.

    Returns:
        The value for which `cond_fun` is false for the first time, or the one after `max_steps` steps.

    Raises:
        StructureError, ShapeError, DtypeError: the value changes its type, and the leaf is named; or the condition is not a 0-d
            bool. GradientError: reverse mode, without `max_steps`. ValueError: `max_steps` or `checkpoint` out of range.

    Example:
        >>> import pullback as pb
        >>> def sqrt(a):  # Newton's iteration
        ...     going = lambda x: abs(x * x - a) > 1e-5
        ...     return pb.lax.while_loop(going, lambda x: (x + a / x) / 2.0, a, max_steps=50)
        >>> round(float(sqrt(2.0)), 4), round(float(pb.grad(sqrt)(2.0)), 4)
        (1.4142, 0.3536)
    """
    check_callable(cond_fun, "while_loop", "cond_fun")
    check_callable(body_fun, "while_loop", "body_fun")
    levels = _levels(max_steps, checkpoint, checked)
    body, carry, paths = _body("while_loop", body_fun, init_val, max_steps)
    types, structure = [type_of(leaf) for leaf in carry], body.structure
    condition = trace("while_loop", cond_fun, (structure,), types, paths, refs=True)
    _check_condition(cond_fun, condition)
    captures, written, (test, step) = shared_captures((condition, body))
    step = returning(step, [*[ref.type for ref in written], *types])
    test = test.with_outputs(test.outputs[-1:])
    count = len(captures) - len(written)
    params = {"condition": test, "body": step, "num_consts": count, "max_steps": max_steps, "levels": levels}
    outs = bind_or_forward(while_primitive, *captures, *carry, **params)
    if checked:
        (going,) = replay(test, (*captures[:count], *outs))
        callback(going, function=_Refusal(f"while_loop of {describe(body_fun)}", max_steps or 0))
    return unflatten(structure, write_back(written, outs))  # type: ignore[no-any-return]


def _body(
    what: str, fun: Function, init: Any, steps: int | None, *first: Array
) -> tuple[Traced, list[Any], Callable[[], list[str]]]:
    """A loop's body, `(*first, value) -> value`; the leaves of the value at the start, of the types that they have in the loop;
    and what finds the paths of its arguments."""
    trees = kind_of(fun)
    carry, structure = trees.array_leaves(trees.without_float0(init), lambda: "init_val")
    paths = functools.partial(paths_of, *[(LEAF, "i") for _ in first], (structure, "value"))
    used, counters = marks_used(), [one.type for one in first]
    body, types = settled(
        [type_of(leaf) for leaf in carry],
        lambda types: trace(what, fun, (*[LEAF for _ in first], structure), [*counters, *types], paths, refs=True),
    )
    check_carry(what, fun, structure, types, body.structure, body.out_types, "value")
    note_keys(what, fun, body, [*first, *carry], used, range(len(first), len(first) + len(carry)), steps)
    return body, [fit(leaf, type) for leaf, type in zip(carry, types)], paths


class _Refusal(Keyed):
    """What a checked loop calls at its end; equal to another of the same loop, so that programs that hold it are."""

    def __init__(self, what: str, max_steps: int) -> None:
        self.key = f"{what} was not finished after max_steps={max_steps} steps: its condition still holds."

    def __call__(self, going: Any) -> None:
        if going:
            raise RuntimeError(self.key)


def _levels(max_steps: int | None, checkpoint: int | None, checked: bool) -> int:
    """How many levels of checkpoints a loop has. Raises ValueError for numbers that make no sense."""
    if max_steps is None:
        if checkpoint is not None or checked:
            given = "checked" if checked else "checkpoint"
            raise ValueError(f"while_loop's {given} has a meaning only together with max_steps.")
        return 1
    if not isinstance(max_steps, (int, np.integer)) or isinstance(max_steps, bool) or not 0 <= max_steps < 2**31:
        raise ValueError(f"while_loop's max_steps must be a Python int from 0 to 2**31 - 1, not {brief(max_steps)}.")
    if checkpoint is None:
        return levels_for(max_steps)
    if not isinstance(checkpoint, (int, np.integer)) or isinstance(checkpoint, bool) or checkpoint < 1:
        raise ValueError(f"while_loop's checkpoint must be the number of levels, 1 or more, not {brief(checkpoint)}.")
    return int(checkpoint)


def _check_condition(cond_fun: Function, condition: Traced) -> None:
    types = condition.out_types
    if condition.written:
        raise RefError(f"while_loop's condition {describe(cond_fun)} writes to a Ref. Only its body may, once a step.")
    must = f"while_loop's condition {describe(cond_fun)} must return a 0-d bool, but it returned"
    if condition.structure is not LEAF:
        raise StructureError(f"{must} {'a container of values' if types else 'nothing'}.")
    (type,) = types
    if type.shape:
        raise ShapeError(f"{must} {type}: use .any() or .all().")
    if type.dtype is not BOOL:
        raise DtypeError(f"{must} {type}: compare it with something.")


@api_boundary
@with_bar
@by_steps(stepwise.fori_loop)
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Any], R], init_val: Any, *, unroll: int | bool | None = None
) -> R:
    """Apply `value = body_fun(i, value)` for i from `lower` up to (not including) `upper`.

    Arguments:
        lower, upper: integers, or floating-point numbers with whole values. Where both are known the loop is a `scan` and has a
            reverse mode, and i a weak integer, as Python's are; where one is traced its length is not known, and it is a
            `while_loop`, in which i has the dtype that the bounds have in common.
        body_fun: one step, `(i, value) -> value`; the value keeps its structure, shapes and dtypes.
        init_val: the value at the start, any tree.
        unroll: how many steps are compiled in a row, 1 by default; True for all of them. Only where the bounds are known.

    Returns:
        The value after the last step.

    Raises:
        StructureError, ShapeError, DtypeError: the value changes its type; the leaf is named. ValueError: `unroll` for bounds
            that are traced; or a bound that is known and not whole.

    Example:
        >>> import pullback as pb
        >>> pb.lax.fori_loop(0, 5, lambda i, total: total + i, 0)
        10:i32[]:cpu(0)
    """
    check_callable(body_fun, "fori_loop", "body_fun")
    bounds = [_bound(lower, "lower"), _bound(upper, "upper")]
    if any(isinstance(bound, Tracer) for bound in bounds):
        if unroll is not None:
            raise ValueError(
                f"fori_loop of {describe(body_fun)} has bounds that are traced, so that unroll={brief(unroll)} must be left"
                " out."
            )
        return _counted_while(bounds, body_fun, init_val)  # type: ignore[no-any-return]
    first, last = bounds
    steps = max(last - first, 0)
    dtype = type_of(0).dtype if first >= -(2**31) and last < 2**31 else np.dtype(np.int64)
    index = Array(array_type((), dtype, weak=True), np.asarray(first, dtype))
    body, carry, _ = _body("fori_loop", body_fun, init_val, steps, index)
    state = [ref.type for ref in body.written]
    count, types, inner = len(body.captures), [*state, *[type_of(leaf) for leaf in carry]], body.program

    def step(*args: Any) -> list[Any]:
        i, outs = args[count], [fit(out, type) for out, type in zip(replay(body.program, args), types)]
        return [*outs[: len(state)], add(i, literal(1, i)), *outs[len(state) :]]

    outs = bind_or_forward(
        scan_primitive,
        *body.captures,
        index,
        *carry,
        body=inner.memo(("counted", *types), lambda: stage_closed(step, inner.input_types, inner.name, inner)),
        num_consts=count - len(state),
        num_carry=len(state) + 1 + len(carry),
        length=steps,
        reverse=False,
        unroll=_unroll("fori_loop", 1 if unroll is None else unroll, steps),
    )
    return unflatten(body.structure, body.results(outs)[1:])  # type: ignore[no-any-return]


def _bound(value: Any, name: str) -> Any:
    """A loop's bound: a Python int where it is known, else a tracer."""
    if value.__class__ is int:
        return value
    value = array_leaf(value, lambda: name)
    type = type_of(value)
    if type.shape or kind(type.dtype) not in "iuf":
        raise DtypeError(f"fori_loop's {name} must be an integer, or a floating-point number that is whole, but got {type}.")
    if isinstance(value, Tracer):
        return value
    if float(value) % 1:
        raise ValueError(f"fori_loop's {name} must be whole, but got {float(value)}: it counts in steps of 1. Round it.")
    return int(value)


def _counted_while(bounds: Sequence[Any], body_fun: Function, init_val: Any) -> Any:
    types = [bound.type for bound in bounds if isinstance(bound, Tracer)]
    dtype, weak = functools.reduce(promote, [(type.dtype, type.weak) for type in types])
    for bound in bounds:
        if not isinstance(bound, Tracer) and kind(dtype) != "f" and not np.iinfo(dtype).min <= bound <= np.iinfo(dtype).max:
            raise DtypeError(
                f"fori_loop of {describe(body_fun)} counts in {dtype}, as its traced bound does, but its other bound, {bound},"
                " does not fit into that. Convert the traced one (.astype)."
            )
    first, last = [
        convert_element_type(bound if isinstance(bound, Tracer) else np.asarray(bound, dtype), new_dtype=dtype, weak=weak)
        for bound in bounds
    ]

    @standing_for(body_fun)
    def step(state: Any) -> Any:
        i, value = state
        return add(i, literal(1, i)), body_fun(i, value)

    going = taking(kind_of(body_fun))(lambda state: lt(state[0], last))
    return while_loop(going, step, (first, init_val))[1]
