"""Program transformations: the derivative, linearization, transpose and batched version of a Program, as Programs.

Each is made once and remembered with the Program that it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pullback.core.axes import Axis
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, instantiate
from pullback.program.program import Atom, Program, Variable
from pullback.program.provenance import attributed, attributing
from pullback.transforms.batch import Batched, batch_flat, materialize
from pullback.transforms.jet import jet_flat
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import linearize_flat
from pullback.transforms.simplify import drop_dead_code, has_effect
from pullback.transforms.stage import Staged, replay, stage
from pullback.transforms.transpose import Apply, Scale, transpose_flat


def stage_closed(function: Any, types: Sequence[ArrayType], name: str, base: Program | None = None) -> Program:
    """The Program of a flat function that closes over nothing traced, without dead code.

    What it does besides replaying equations is attributed to the last equation of `base`, the Program that it is derived from,
    and without one to the equation that is being replayed around it.
    """
    around = attributed() if base is None else base.equations[-1] if base.equations else None

    def attributing_to_it(*args: Any) -> Any:
        with attributing(around):
            return function(*args)

    program, captures = stage(attributing_to_it, types, name=name)
    assert not captures, "a function of a closed Program cannot capture tracers"
    return drop_dead_code(program)


def jvp_program(
    program: Program, active: tuple[bool, ...], instantiated: tuple[bool, ...] = ()
) -> tuple[Program, tuple[bool, ...]]:
    """inputs + tangents of the active ones -> outputs + those of their tangents that are not zero (the flags).

    Outputs flagged in `instantiated` get a tangent even where it is zero, as a loop's carry needs.
    """

    def make() -> tuple[Program, tuple[bool, ...]]:
        flags: list[bool] = []

        def pushed(*args: Any) -> list[Any]:
            primals, given = args[: len(active)], iter(args[len(active) :])
            tangents = [next(given) if flag else ZERO for flag in active]
            outs, out_tangents = jvp_flat(lambda *xs: replay(program, xs), primals, tangents)
            out_tangents = _instantiated(out_tangents, program.output_types, instantiated)
            flags.extend(t is not ZERO for t in out_tangents)
            return [*outs, *[t for t in out_tangents if t is not ZERO]]

        types = [*program.input_types, *[t.strong() for t, flag in zip(program.input_types, active) if flag]]
        return stage_closed(pushed, types, f"jvp_{program.name}", program), tuple(flags)

    made: tuple[Program, tuple[bool, ...]] = program.memo(("jvp", active, instantiated), make)
    return made


def _instantiated(tangents: Sequence[Any], types: Sequence[ArrayType], flags: tuple[bool, ...]) -> list[Any]:
    """Tangents with real zeros where they are ZERO but wanted."""
    if not flags:
        return list(tangents)
    return [instantiate(t, type) if flag else t for t, type, flag in zip(tangents, types, flags, strict=True)]


Orders = tuple[bool, ...]  # for one value: which of its derivatives, from the first on, are not zero


def jet_program(
    program: Program, active: tuple[Orders, ...], instantiated: tuple[Orders, ...] = ()
) -> tuple[Program, tuple[Orders, ...]]:
    """inputs + their active derivatives -> outputs + those of their derivatives that are not zero (the flags).

    The derivatives come after all the values, those of the first value first, each value's by rising order. Derivatives of
    outputs flagged in `instantiated` are returned even where they are zero, as a loop's carry needs.
    """

    def make() -> tuple[Program, tuple[Orders, ...]]:
        flags: list[Orders] = []

        def pushed(*args: Any) -> list[Any]:
            given = iter(args[len(active) :])
            series = [[next(given) if flag else ZERO for flag in orders] for orders in active]
            outs, found = jet_flat(lambda *xs: replay(program, xs), args[: len(active)], series, len(active[0]))
            if instantiated:
                found = [
                    _instantiated(terms, [type] * len(terms), orders)
                    for terms, type, orders in zip(found, program.output_types, instantiated, strict=True)
                ]
            flags.extend(tuple([term is not ZERO for term in terms]) for terms in found)
            return [*outs, *[term for terms in found for term in terms if term is not ZERO]]

        types = [type.strong() for type, orders in zip(program.input_types, active, strict=True) for flag in orders if flag]
        return stage_closed(pushed, [*program.input_types, *types], f"jet_{program.name}", program), tuple(flags)

    made: tuple[Program, tuple[Orders, ...]] = program.memo(("jet", active, instantiated), make)
    return made


def nonzero_orders(series: Sequence[Sequence[Any]]) -> tuple[Orders, ...]:
    """Which derivatives are not ZERO."""
    return tuple([tuple([term is not ZERO for term in terms]) for terms in series])


def active_terms(primals: Sequence[Any], series: Sequence[Sequence[Any]], active: Sequence[Orders]) -> list[Any]:
    """The derivatives that a Program made by `jet_program` takes behind the values; real zeros where they are ZERO."""
    return [
        instantiate(term, type_of(x))
        for x, terms, orders in zip(primals, series, active, strict=True)
        for term, flag in zip(terms, orders, strict=True)
        if flag
    ]


def series_of(terms: Iterable[Any], nonzero: Sequence[Orders]) -> tuple[list[Any], ...]:
    """The series of each result, of the derivatives that a Program made by `jet_program` returned behind the values."""
    given = iter(terms)
    return tuple([[next(given) if flag else ZERO for flag in orders] for orders in nonzero])


class LinearizedProgram(NamedTuple):
    """A Program split in two: `forward` computes the values and what else `tangent` needs to map tangents."""

    forward: Program  # inputs -> outputs + residuals
    tangent: Program  # residuals + tangents of the active inputs -> those tangents of outputs that are not zero
    residuals: tuple[tuple[str, int], ...]  # where each residual is: ("output", i) of forward, or ("input", i)
    nonzero: tuple[bool, ...]  # which outputs have a tangent


def linearize_program(program: Program, active: tuple[bool, ...], instantiated: tuple[bool, ...] = ()) -> LinearizedProgram:
    """The two halves of a Program's linearization. A residual that is an input of the Program is not stored again."""

    def make() -> LinearizedProgram:
        box: dict[str, Any] = {}

        def forward(*args: Any) -> list[Any]:
            linearized = linearize_flat(lambda *xs: replay(program, xs), args, active)
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
            box.update(linearized=linearized, known=known, where=where)
            return outs

        forward_program = stage_closed(forward, program.input_types, f"forward_{program.name}", program)
        linearized, known = box["linearized"], box["known"]
        wanted = instantiated or (False,) * len(program.outputs)
        nonzero = tuple([tangent is not None or flag for tangent, flag in zip(linearized.tangents, wanted, strict=True)])

        def tangent(*args: Any) -> list[Any]:
            values = {value.variable: arg for value, arg in zip(known, args)}
            linearized.tape.substitute(lambda value: values[value.variable] if isinstance(value, Staged) else value)
            outs = linearized.tape.forward(linearized.inputs, args[len(known) :], linearized.tangents)
            outs = [instantiate(out, type) for out, type in zip(outs, program.output_types, strict=True)]
            return [out for out, flag in zip(outs, nonzero) if flag]

        types = [*[value.type for value in known], *[linearized.tape.types[index].strong() for index in linearized.inputs]]
        tangent_program = stage_closed(tangent, types, f"tangent_{program.name}", program)
        return LinearizedProgram(forward_program, tangent_program, tuple(box["where"]), nonzero)

    made: LinearizedProgram = program.memo(("linearize", active, instantiated), make)
    return made


def _known_values(steps: Sequence[Scale | Apply]) -> list[Staged]:
    """The traced values that a tape's steps use as multipliers and operands, each once."""
    found: dict[Variable, Staged] = {}
    for step in steps:
        operands = [m for _, m in step.terms] if isinstance(step, Scale) else step.operands
        for value in operands:
            if isinstance(value, Staged):
                found.setdefault(value.variable, value)
    return list(found.values())


def transpose_program(
    program: Program, unknown: tuple[bool, ...], instantiated: bool = False
) -> tuple[Program, tuple[bool, ...]]:
    """known inputs + cotangents of the outputs -> those cotangents of the unknown inputs that are not zero (the flags).

    With `instantiated`, all of them.
    """

    def make() -> tuple[Program, tuple[bool, ...]]:
        flags: list[bool] = []
        solved_for = [type for type, flag in zip(program.input_types, unknown) if flag]
        known_types = [type for type, flag in zip(program.input_types, unknown) if not flag]

        def transposed(*args: Any) -> list[Any]:
            known, cotangents = args[: len(known_types)], args[len(known_types) :]

            def linear(*xs: Any) -> tuple[Any, ...]:
                given, free = iter(known), iter(xs)
                return replay(program, [next(free) if flag else next(given) for flag in unknown])

            outs = transpose_flat(linear, solved_for, cotangents)
            outs = _instantiated(outs, solved_for, (instantiated,) * len(outs))
            flags.extend(out is not ZERO for out in outs)
            return [out for out in outs if out is not ZERO]

        types = [*known_types, *[type.strong() for type in program.output_types]]
        return stage_closed(transposed, types, f"transpose_{program.name}", program), tuple(flags)

    made: tuple[Program, tuple[bool, ...]] = program.memo(("transpose", unknown, instantiated), make)
    return made


def batch_program(
    program: Program, batch: Axis, axes: tuple[int | None, ...], batched: tuple[bool, ...] = ()
) -> tuple[Program, tuple[int | None, ...]]:
    """The Program on batches: inputs whose axis is 0 carry one in front; which outputs do is the second result.

    Outputs flagged in `batched` get a batch axis even where all examples agree.
    """

    def make() -> tuple[Program, tuple[int | None, ...]]:
        out_axes: list[int | None] = []

        def mapped(*args: Any) -> list[Any]:
            trace, outs = batch_flat(lambda *xs: replay(program, xs), args, [axis == 0 for axis in axes], batch)
            forced = batched or (False,) * len(outs)
            flags = [flag or (out.__class__ is Batched and out.owner is trace) for out, flag in zip(outs, forced)]
            out_axes.extend(0 if flag else None for flag in flags)
            return [materialize(trace, out) if flag else out for out, flag in zip(outs, flags)]

        types = [
            type if axis is None else type.with_shape((batch.size, *type.shape))
            for type, axis in zip(program.input_types, axes)
        ]
        return stage_closed(mapped, types, f"vmap_{program.name}", program), tuple(out_axes)

    made: tuple[Program, tuple[int | None, ...]] = program.memo(("batch", batch, axes, batched), make)
    return made


def fixed_point(flags: Sequence[bool], step: Callable[[tuple[bool, ...]], Sequence[bool]]) -> tuple[bool, ...]:
    """The least flags above `flags` that `step` adds nothing to: which parts of a loop's carry a property spreads to."""
    current = tuple(flags)
    while True:
        grown = tuple([a or bool(b) for a, b in zip(current, step(current), strict=True)])
        if grown == current:
            return current
        current = grown


def fixed_orders(active: Sequence[Orders], step: Callable[[tuple[Orders, ...]], Sequence[Orders]]) -> tuple[Orders, ...]:
    """`fixed_point` for the derivatives of a loop's carry: which orders of which values come to be nonzero."""
    sizes = [len(orders) for orders in active]

    def grouped(flags: Sequence[bool]) -> tuple[Orders, ...]:
        given = iter(flags)
        return tuple([tuple([next(given) for _ in range(size)]) for size in sizes])

    def flat(rows: Sequence[Orders]) -> list[bool]:
        return [flag for orders in rows for flag in orders]

    return grouped(fixed_point(flat(active), lambda flags: flat(step(grouped(flags)))))


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
    before = Program(program.inputs[:count], early, [*passed, *returned], program.constants, f"before_{program.name}")
    # The same variables serve on both sides: a Variable is only a name within its Program.
    inputs = (*program.inputs[:count], *passed, *program.inputs[count:])
    loop = Program(inputs, late, program.outputs, program.constants, program.name)
    return drop_dead_code(before), drop_dead_code(loop)


def dependent_outputs(program: Program, inputs: Sequence[bool]) -> tuple[bool, ...]:
    """Which outputs depend on any of the flagged inputs."""
    reached: set[Atom] = {variable for variable, flag in zip(program.inputs, inputs, strict=True) if flag}
    for equation in program.equations:
        if any(atom in reached for atom in equation.inputs):
            reached.update(equation.outputs)
    return tuple([atom in reached for atom in program.outputs])
