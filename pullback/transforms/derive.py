"""Program transformations: the derivative, linearization, transpose and batched version of a Program, as Programs.

Each is made once and remembered with the Program that it came from.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pullback.core.axes import Axis
from pullback.core.errors import EscapedTracerError, RefError
from pullback.core.refs import Ref
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, instantiate
from pullback.program.batching import batch_axes_of
from pullback.program.equation import remembered
from pullback.program.program import Atom, Program, Variable
from pullback.program.provenance import attributed, recorder
from pullback.transforms.batch import Batched, batch_flat, materialize
from pullback.transforms.jet import jet_flat
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import linearize_flat
from pullback.transforms.simplify import drop_dead_code, has_effect
from pullback.transforms.stage import Staged, replay, stage
from pullback.transforms.transpose import Apply, Scale, transpose_flat
from pullback.transforms.zeros import zero_of


def stage_closed(function: Any, types: Sequence[ArrayType], name: str, base: Program | None = None) -> Program:
    """The Program of a flat function that closes over nothing traced, without dead code.

    What it does besides replaying equations is attributed to the last equation of `base`, the Program that it is derived from,
    and without one to the equation that is being replayed around it.
    """
    around = attributed() if base is None else base.equations[-1] if base.equations else None

    def attributing_to_it(*args: Any) -> Any:
        recorder().attributed = around  # type: ignore[union-attr]  # the trace that `stage` has just begun
        return function(*args)

    used: list[Ref] = []
    program, captures = stage(attributing_to_it, types, name=name, refs=used)
    if captures:
        error, what = (RefError, "Ref") if used else (EscapedTracerError, f"traced value of {captures[0].owner.describe()}")
        raise error(
            f"A rule closes over a {what}, of type {type_of(captures[0])}, in a function that was traced by itself: one in a"
            " jit, a loop, a branch or a checkpoint inside of that. Pass the value as an argument of the function that has the"
            " rule; from a custom_vjp's forward function to its backward one, as a residual."
        )
    return drop_dead_code(program)


Flags = tuple[int, ...]
"""What is said of each value of a row: whether it has a tangent, is a batch, is unknown. In Taylor mode bit k - 1 says whether
the derivative of order k is not zero, so that rows are united by `|` whatever they say."""


@remembered
def pushed_program(program: Program, order: int | None, active: Flags, forced: Flags = ()) -> tuple[Program, Flags]:
    """inputs + their active derivatives -> outputs + those of their derivatives that are not zero (the flags).

    Derivatives are those of orders 1 to `order`, or the tangents alone where that is None. They come behind all the values,
    those of the first value first, each value's by rising order. Those of outputs that are flagged in `forced` are returned
    even where they are zero, as a loop's carry needs.
    """
    flags: list[int] = []

    def function(*xs: Any) -> tuple[Any, ...]:
        return replay(program, xs)

    def pushed(*args: Any) -> list[Any]:
        primals, series = args[: len(active)], series_of(args[len(active) :], active, order)
        found: Sequence[Sequence[Any]]
        if order is None:
            outs, tangents = jvp_flat(function, primals, [tangent for (tangent,) in series])
            found = [(tangent,) for tangent in tangents]
        else:
            outs, found = jet_flat(function, primals, series, order)
        flags.extend(a | b for a, b in zip(nonzero_orders(found), forced or [0] * len(outs), strict=True))
        return [*outs, *active_terms(program.output_types, found, flags)]

    types = active_terms(program.input_types, [[t.strong()] * (order or 1) for t in program.input_types], active)
    name = f"{'jvp' if order is None else 'jet'}_{program.name}"
    return stage_closed(pushed, [*program.input_types, *types], name, program), tuple(flags)


def nonzero_orders(series: Sequence[Sequence[Any]]) -> Flags:
    """Which derivatives are not ZERO."""
    return tuple([sum([1 << k for k, term in enumerate(terms) if term is not ZERO]) for terms in series])


def active_terms(primals: Sequence[Any], series: Sequence[Sequence[Any]], active: Sequence[int]) -> list[Any]:
    """The derivatives that are flagged, in a row; real zeros where they are ZERO."""
    return [
        instantiate(term, type_of(x))
        for x, terms, orders in zip(primals, series, active, strict=True)
        for k, term in enumerate(terms)
        if orders >> k & 1
    ]


def series_of(terms: Iterable[Any], nonzero: Sequence[int], order: int | None) -> list[tuple[Any, ...]]:
    """The derivatives of each value, of a row of those that are flagged."""
    given = iter(terms)
    return [tuple([next(given) if orders >> k & 1 else ZERO for k in range(order or 1)]) for orders in nonzero]


class LinearizedProgram(NamedTuple):
    """A Program split in two: `forward` computes the values and what else `tangent` needs to map tangents."""

    forward: Program  # inputs -> outputs + residuals
    tangent: Program  # residuals + tangents of the active inputs -> those tangents of outputs that are not zero
    residuals: tuple[tuple[str, int], ...]  # where each residual is: ("output", i) of forward, or ("input", i)
    nonzero: Flags  # which outputs have a tangent


@remembered
def linearize_program(program: Program, active: Flags, forced: Flags = ()) -> LinearizedProgram:
    """The two halves of a Program's linearization. A residual that is an input of the Program is not stored again."""
    box: list[Any] = []

    def forward(*args: Any) -> list[Any]:
        linearized = linearize_flat(lambda *xs: replay(program, xs), args, [bool(flag) for flag in active])
        known = _known_values(linearized.tape.steps)
        variables = {arg.variable: i for i, arg in enumerate(args)}
        outs = list(linearized.values)
        where: list[tuple[str, int]] = []
        for value in known:
            at = variables.get(value.variable)
            if at is None:
                where.append(("output", len(outs)))
                outs.append(value)
            else:
                where.append(("input", at))
        box[:] = linearized, known, tuple(where)
        return outs

    forward_program = stage_closed(forward, program.input_types, f"forward_{program.name}", program)
    linearized, known, where = box
    box.clear()  # its traced values hold `forward`: a cycle would keep the Program's constants
    batched = batch_axes_of(forward_program)
    wanted = forced or (0,) * len(program.outputs)
    nonzero = tuple([int(tangent is not None or flag) for tangent, flag in zip(linearized.tangents, wanted, strict=True)])

    def tangent(*args: Any) -> list[Any]:
        values = {value.variable: arg for value, arg in zip(known, args)}
        for value, arg in zip(known, args):
            if value.variable in batched:
                arg.note_batch(batched[value.variable])
        tape = linearized.tape.mapped(lambda value: values[value.variable] if isinstance(value, Staged) else value)
        outs = tape.forward(linearized.inputs, args[len(known) :], linearized.tangents)
        outs = [instantiate(out, type) for out, type in zip(outs, program.output_types, strict=True)]
        return [out for out, flag in zip(outs, nonzero) if flag]

    types = [*[value.type for value in known], *[linearized.tape.types[index].strong() for index in linearized.inputs]]
    tangent_program = stage_closed(tangent, types, f"tangent_{program.name}", program)
    return LinearizedProgram(forward_program, tangent_program, where, nonzero)


def _known_values(steps: Sequence[Scale | Apply]) -> list[Staged]:
    """The traced values that a tape's steps use as multipliers and operands, each once."""
    found: dict[Variable, Staged] = {}
    for step in steps:
        operands = [m for _, m in step.terms] if isinstance(step, Scale) else step.operands
        for value in operands:
            if isinstance(value, Staged):
                found.setdefault(value.variable, value)
    return list(found.values())


@remembered
def transpose_program(program: Program, unknown: Flags, forced: Flags = ()) -> tuple[Program, Flags]:
    """known inputs + cotangents of the outputs -> those cotangents of the unknown inputs that are not zero (the flags).

    Those flagged in `forced`, in any case.
    """
    flags: list[int] = []
    solved_for = [type for type, flag in zip(program.input_types, unknown) if flag]
    known_types = [type for type, flag in zip(program.input_types, unknown) if not flag]

    def transposed(*args: Any) -> list[Any]:
        known, cotangents = args[: len(known_types)], args[len(known_types) :]
        outs = transpose_flat(of_unknown(program, unknown, known), solved_for, cotangents)
        flags.extend(int(out is not ZERO or flag) for out, flag in zip(outs, forced or (0,) * len(outs), strict=True))
        return [instantiate(out, type) for out, type, flag in zip(outs, solved_for, flags) if flag]

    types = [*known_types, *[type.strong() for type in program.output_types]]
    return stage_closed(transposed, types, f"transpose_{program.name}", program), tuple(flags)


@remembered
def zeroed_program(program: Program, zero: Sequence[bool]) -> Program:
    """The Program where the flagged inputs are zero, of the others."""

    def zeroed(*args: Any) -> tuple[Any, ...]:
        given = iter(args)
        return replay(program, [zero_of(type) if flag else next(given) for type, flag in zip(program.input_types, zero)])

    types = [type for type, flag in zip(program.input_types, zero) if not flag]
    return stage_closed(zeroed, types, program.name, program)


def of_unknown(program: Program, unknown: Sequence[int], known: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """A Program as a function of its unknown inputs."""

    def linear(*xs: Any) -> tuple[Any, ...]:
        given, free = iter(known), iter(xs)
        return replay(program, [next(free) if flag else next(given) for flag in unknown])

    return linear


@remembered
def batch_program(program: Program, batch: Axis, batched: Flags, forced: Flags = ()) -> tuple[Program, Flags]:
    """The Program on batches: inputs that are `batched` carry one in front; which outputs do is the second result.

    Outputs flagged in `forced` do even where all batch elements agree.
    """
    flags: list[int] = []

    def mapped(*args: Any) -> list[Any]:
        trace, outs = batch_flat(lambda *xs: replay(program, xs), args, [bool(flag) for flag in batched], batch)
        wanted = forced or (0,) * len(outs)
        flags.extend(int(flag or (out.__class__ is Batched and out.owner is trace)) for out, flag in zip(outs, wanted))
        return [materialize(trace, out) if flag else out for out, flag in zip(outs, flags)]

    types = batched_types(program.input_types, batch.size, batched)
    return stage_closed(mapped, types, f"vmap_{program.name}", program), tuple(flags)


def batched_types(types: Sequence[ArrayType], size: int, batched: Sequence[int]) -> list[ArrayType]:
    """The types of values, of which some carry a batch in front."""
    return [type.with_shape((size, *type.shape)) if flag else type for type, flag in zip(types, batched)]


def united(rows: Iterable[Flags]) -> Flags:
    """What is flagged in any of the rows."""
    return tuple([functools.reduce(operator.or_, column) for column in zip(*rows, strict=True)])


def fixed_point(flags: Flags, step: Callable[[Flags], Flags]) -> Flags:
    """The least flags above `flags` that `step` adds nothing to: what a property of a loop's carry spreads to."""
    current = flags
    while True:
        grown = united((current, step(current)))
        if grown == current:
            return current
        current = grown


@remembered
def pruned_program(program: Program, wanted: Flags) -> tuple[Program, Flags]:
    """The Program for the wanted outputs alone, and which of its inputs it still reads."""
    smaller = drop_dead_code(program.with_outputs([atom for atom, flag in zip(program.outputs, wanted) if flag]))
    used = {atom for equation in smaller.equations for atom in equation.inputs} | set(smaller.outputs)
    return smaller, tuple([int(variable in used) for variable in program.inputs])


def split_invariants(program: Program, count: int) -> tuple[Program, Program]:
    """What a Program computes from its first `count` inputs alone, taken out of it.

    Returns `before`, from those inputs to the values that the rest needs and to the outputs that are such values, and `loop`,
    which takes the first `count` inputs, as many of the first values as it needs, and then the other inputs. What is made of
    literals alone (`full`, `iota`) costs less to make again than to hand over, so it is made on both sides.
    """
    known: set[Atom] = {*program.inputs[:count], *(variable for variable, _ in program.constants)}
    free: set[Atom] = set()
    early, late = [], []
    for equation in program.equations:
        variables = [atom for atom in equation.inputs if isinstance(atom, Variable)]
        if has_effect(equation) or not all(atom in known for atom in variables):
            late.append(equation)
            continue
        early.append(equation)
        known.update(equation.outputs)
        if all(atom in free for atom in variables):
            late.append(equation)
            free.update(equation.outputs)
    made = {variable for equation in early for variable in equation.outputs}
    used = dict.fromkeys(atom for atom in [*(a for e in late for a in e.inputs), *program.outputs] if atom in made)
    passed = [atom for atom in used if atom not in free]
    returned = [atom for atom in dict.fromkeys(program.outputs) if atom in free]
    before = Program(
        program.inputs[:count], early, [*passed, *returned], program.constants, f"before_{program.name}", program.batch_axes
    )
    # The same variables serve on both sides: a Variable is only a name within its Program.
    inputs = (*program.inputs[:count], *passed, *program.inputs[count:])
    loop = Program(inputs, late, program.outputs, program.constants, program.name, program.batch_axes)
    return drop_dead_code(before), drop_dead_code(loop)


@remembered
def dependent_outputs(program: Program, inputs: Flags) -> Flags:
    """Which outputs depend on any of the flagged inputs."""
    reached: set[Atom] = {variable for variable, flag in zip(program.inputs, inputs, strict=True) if flag}
    for equation in program.equations:
        flags = tuple([int(atom in reached) for atom in equation.inputs])
        if any(flags):
            depends = equation.primitive.depends
            outs = (1,) * len(equation.outputs) if depends is None else depends(flags, **equation.params)
            reached.update(out for out, flag in zip(equation.outputs, outs, strict=True) if flag)
    return tuple([int(atom in reached) for atom in program.outputs])
