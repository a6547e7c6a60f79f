"""while_loop: repeat a step while a condition holds, as one operation.

    while condition(constants, carry):  carry = body(constants, carry)

Operands are the constants, then the carry; `condition` and `body` are Programs that take all of them. Forward mode carries the
tangents along. Under vmap, where the condition differs between batch elements, the loop runs while any of them has not
finished, and those that have keep their carry.

The number of steps is not known before the loop has run, so reverse mode cannot store something for each of them, unless
`max_steps` bounds it. Then the backward pass is that of a tree of `levels` nested loops of b steps each, b^levels >= max_steps,
each segment of which is skipped once the condition has failed, and remembers the carry at its start alone: the segments are
computed again, level by level, in the backward pass (recursive checkpointing: A. Griewank, "Achieving logarithmic growth of
temporal and spatial complexity in reverse automatic differentiation", Optimization Methods and Software 1 (1992), 35-54). It
stores b * levels carries, and what the derivatives of b steps need, whatever the number of steps; it computes each step
`levels` times, and the b - 1 steps at most that a segment has left after the exit cost a test each. Measured on tanh(W x) with
200 numbers in f32, max_steps=10000, the gradient (memory is XLA's own account of temporaries):

    levels                     1        2        3        4        a scan of 10000 steps
    memory                     8.0 MB   165 kB   60 kB    40 kB    8.0 MB
    time of 10000 steps, ms    42       58       75-150   120      73
    time of 100 steps, ms      7.2               0.8
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.control.call import bind_call, call
from pullback.control.checkpoint import Budget, checkpoint
from pullback.control.cond import cond, one_by_one
from pullback.control.guard import chosen, effects_where, run_guarded
from pullback.control.holder import (
    Held,
    Holder,
    Spread,
    Wiring,
    at_flags,
    batched_operands,
    bind_holder,
    check_carry,
    check_operands,
    held_by,
    in_halves,
    linearize_branches,
    split,
)
from pullback.control.scan import STEPWISE_OPERATIONS, scan
from pullback.core.array import on_a_device
from pullback.core.axes import Axis
from pullback.core.dtypes import BOOL
from pullback.core.errors import GradientError, ProgramError
from pullback.core.execution import engine
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType, array_type, is_unknown
from pullback.core.zero import zeros
from pullback.ops.arithmetic import add
from pullback.ops.bitwise import and_
from pullback.ops.compare import lt
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal
from pullback.ops.reduce import reduce_or
from pullback.program.program import Program, run
from pullback.transforms.derive import batch_program, dependent_outputs, pruned_program, stage_closed
from pullback.transforms.stage import replay

INT32 = np.dtype(np.int32)

# How many steps a level of the backward pass's tree has at most, unless `levels` says otherwise.
STEPS_A_LEVEL = 32


@primitive
class while_loop(Holder):
    """Apply `body` to the carry while `condition` of it holds, and at most `max_steps` times.

    `exits` promises of a batched loop that the condition is whether any element of the first carry holds, and that a step
    leaves the batch elements alone for which it does not: so a further batch axis adds nothing to the step.
    """

    wiring = Wiring("body", consts="num_consts", test="condition")
    sparsity = None  # type: ignore[assignment]  # nobody knows how many steps there are

    def result_type(
        *types, condition: Program, body: Program, num_consts: int, max_steps=None, levels: int = 1, exits: bool = False
    ):
        for program in (condition, body):
            check_operands("while_loop", types, program.input_types)
        check_carry("while_loop", body, num_consts, len(types) - num_consts)
        if [type.strong() for type in condition.output_types] != [array_type((), BOOL)]:
            raise ProgramError(f"The test of a while_loop returns bool[], not ({', '.join(map(str, condition.output_types))}).")
        return body.output_types

    def evaluate(*arrays, condition, body, num_consts, max_steps=None, levels=1, exits=False):
        consts, carry = split(arrays, num_consts)
        cost = len(condition.equations) + len(body.equations)
        steps = 0
        while max_steps is None or steps < max_steps:
            if not run(condition, (*consts, *carry))[0].host:
                break
            if steps * cost > STEPWISE_OPERATIONS or on_a_device(arrays):
                left = None if max_steps is None else max_steps - steps
                opened, operands = _opened(condition, body, num_consts, (*consts, *carry))
                return engine().run_operation(while_loop, operands, {**opened, "max_steps": left, "levels": 1})
            carry = run(body, (*consts, *carry))
            steps += 1
        return tuple(carry)

    def lower(write, *values, condition, body, num_consts, max_steps=None, levels=1, exits=False):
        if (done := write.offload(values)) is not None:
            return done
        consts, carry = split(values, num_consts)
        zero, one, bound = (np.asarray(n, np.int32) for n in (0, 1, max_steps or 0))
        counted = max_steps is not None
        write.note_loop(condition, body)

        def test(values):
            (holds,) = write.inline(condition, *consts, *values[counted:])
            if not counted:
                return holds
            return write.elementwise("stablehlo.and", holds, write.compare("LT", values[0], write.constant(bound)))

        def step(values):
            outs = write.inline(body, *consts, *values[counted:])
            if not counted:
                return outs
            return [write.elementwise("stablehlo.add", values[0], write.constant(one)), *outs]

        start = [write.constant(zero), *carry] if counted else list(carry)
        return write.while_loop(start, test, step)[counted:]

    def linearize(primals, active, *, condition, body, num_consts, max_steps=None, levels=1, exits=False):
        if max_steps is None:
            return NotImplemented  # another loop carries the tangents along; it has no transpose
        halves = linearize_branches((bounded(condition, body, num_consts, max_steps, levels),), tuple(active))
        if not any(halves.nonzero):
            params = {"condition": condition, "body": body, "num_consts": num_consts, "max_steps": max_steps, "levels": levels}
            return bind_holder(while_loop, *primals, **params), lambda *tangents: at_flags((), halves.nonzero)
        apply = bind_call if max_steps * len(body.equations) > STEPWISE_OPERATIONS else replay
        return in_halves(halves, primals, lambda made, args: apply(made[0], args))

    def transpose(cotangents, *operands, condition, body, num_consts, max_steps=None, levels=1, exits=False):
        if max_steps is None:
            raise unbounded(body)
        nested = bounded(condition, body, num_consts, max_steps, levels)
        reached = dependent_outputs(nested, tuple([int(is_unknown(operand)) for operand in operands]))
        linear, _ = pruned_program(nested, reached)  # what is known has no cotangent
        wanted = [ct for ct, flag in zip(cotangents, reached) if flag]
        return call.transpose(wanted, *operands, program=linear)

    def vectorize(batch, args, axes, **params):
        held = held_by(while_loop, params)
        (body,) = held.programs
        flags = tuple([int(axis == 0) for axis in axes])
        changed = tuple([int(out is not variable) for out, variable in zip(body.outputs, body.inputs[held.consts :])])

        def stopped(ins):
            """What differs between batch elements that stop at different steps: all that changes."""
            (differs,) = batch_program(held.test, batch, ins)[1]
            return changed if differs else (0,) * len(changed)

        made = held.spread(flags, lambda *given: batch_program(given[0], batch, *given[1:]), stopped)
        test, (differs,) = batch_program(held.test, batch, made.ins)
        if differs and batch.strategy == "map":
            return one_by_one(while_loop, batch, args, axes, params)
        operands = batched_operands(held, args, flags, made.ins, batch)
        out_axes = tuple([0 if flag else None for flag in made.outs])
        if not differs:
            return bind_holder(while_loop, *operands, **held.on(made.programs, test=test)), out_axes
        consts, carry, _ = held.split(operands)
        if params.get("exits"):
            types = [type_of(operand) for operand in operands]
            axes = tuple(range(type_of(carry[0]).ndim))
            stop = stage_closed(lambda *args: [reduce_or(args[held.consts], axes=axes)], types, test.name)
            return bind_holder(while_loop, *operands, **held.on(made.programs, test=stop)), out_axes
        (going,) = replay(test, operands)
        stop, advance = _with_exits(held, held.test, made, test, batch)
        found = bind_holder(while_loop, *consts, going, *carry, **held.on([advance], test=stop), exits=True)
        return found[1:], out_axes


def _with_exits(held: Held, condition: Program, made: Spread, test: Program, batch: Axis) -> tuple[Program, Program]:
    """The batched condition `test`, and a step, as those of a loop that also carries which batch elements are still going.

    Each step of it tests the condition once; an element that has stopped keeps its carry, and so it stays stopped.
    """
    (body,), count = held.programs, held.consts
    consts, carry = split(test.input_types, count)
    types = [*consts, array_type((batch.size,), np.dtype(bool)), *carry]
    reverse = held.given.get("max_steps") is not None  # mode may go through the loop

    def stop(*args: Any) -> list[Any]:
        return [reduce_or(args[count], axes=(0,))]

    def advance(*args: Any) -> list[Any]:
        consts, (going,), carry = split(args, count, 1)
        outs = run_guarded(body, batch, going, (*consts, *carry), made.ins, made.outs, reverse)
        new = [chosen(going, a, b) if flag else b for a, b, flag in zip(outs, carry, made.outs)]
        if not test.effects:
            return [*replay(test, (*consts, *new)), *new]
        watched, _ = batch_program(effects_where(condition), batch, (1, *made.ins), (1,))
        (more,) = replay(watched, (going, *consts, *new))
        return [and_(going, more), *new]  # what a callback returns for an element that has stopped says nothing

    return stage_closed(stop, types, test.name), stage_closed(advance, types, body.name)


def unbounded(body: Program) -> GradientError:
    """The error for the transpose of a loop whose number of steps has no bound: of the one that carries the tangents along."""
    source = next((equation.source for equation in body.equations if equation.source is not None), None)
    where = f" (whose body begins at {source})" if source is not None else ""
    name = body.name.removeprefix("jvp_")
    return GradientError(
        f"Reverse mode (grad, vjp) through the while_loop of {name}{where} needs a bound on the number of its steps: write"
        " while_loop(..., max_steps=n), or a fori_loop whose bounds are Python ints, or a scan. Forward mode (jvp, jacfwd)"
        " needs none."
    )


# ---- the backward pass of a bounded loop -------------------------------------------------------------------------------


def levels_for(max_steps: int) -> int:
    """The least number of levels whose loops have at most STEPS_A_LEVEL steps each."""
    levels = 1
    while STEPS_A_LEVEL**levels < max_steps:
        levels += 1
    return levels


def steps_a_level(max_steps: int, levels: int) -> int:
    """The least b with b^levels >= max_steps."""
    guess = max(math.ceil(float(max_steps) ** (1 / levels)) - 1, 1)
    while int(guess**levels) < max_steps:
        guess += 1
    return int(guess)


def bounded(condition: Program, body: Program, num_consts: int, max_steps: int, levels: int) -> Program:
    """The loop as a tree of scans of known lengths, which leave the carry alone once the condition has failed."""

    def make() -> Program:
        consts, carry = split(body.input_types, num_consts)
        length = steps_a_level(max_steps, levels)
        watched = bool(condition.effects)  # then it is not tested once more than the loop itself does
        counted = watched or length**levels != max_steps
        types = [*consts, *([array_type((), INT32)] if counted else []), *carry]

        def advance(*args: Any) -> list[Any]:
            consts, counter, carry = split(args, num_consts, counted)
            return [*[add(i, literal(1, i)) for i in counter], *replay(body, (*consts, *carry))]

        def holds(args: Sequence[Any], innermost: bool) -> Any:
            consts, counter, carry = split(args, num_consts, counted)
            limits = [lt(i, literal(max_steps, i)) for i in counter]
            if watched:
                (going,) = limits
                if innermost:
                    index = convert_element_type(going, new_dtype=INT32)
                    (going,) = bind_holder(cond, index, *consts, *carry, branches=(ended, condition))
            else:
                (going,) = replay(condition, (*consts, *carry))
                for limit in limits:
                    going = and_(going, limit)
            return convert_element_type(going, new_dtype=INT32)

        def stop(*args: Any) -> list[Any]:
            _, counter, carry = split(args, num_consts, counted)
            return [*[literal(max_steps, i) if watched else i for i in counter], *carry]

        ended = stage_closed(lambda *args: [zeros(array_type((), np.dtype(bool)))], condition.input_types, "ended")
        stay = stage_closed(stop, types, "stop")

        def level_of(inner: Program, innermost: bool) -> Program:
            def attempt(*args: Any) -> Any:
                return bind_holder(cond, holds(args, innermost), *args, branches=(stay, inner), early_exit=not innermost)

            attempted = stage_closed(attempt, types, inner.name)

            def repeat(*args: Any) -> Any:
                params = {"num_consts": num_consts, "num_carry": len(types) - num_consts, "length": length}
                return bind_holder(scan, *args, body=attempted, reverse=False, unroll=1, **params)

            return stage_closed(repeat, types, f"repeat_{body.name}")

        level = level_of(stage_closed(advance, types, body.name), True)
        for _ in range(levels - 1):
            level = level_of(_as_segment(level, types), False)

        def whole(*args: Any) -> Any:
            consts, carry = split(args, num_consts)
            return replay(level, (*consts, *[zeros(array_type((), INT32))] * counted, *carry))[counted:]

        return stage_closed(whole, body.input_types, body.name)

    made: Program = body.memo(("bounded", condition, num_consts, max_steps, levels), make)
    return made


def _as_segment(program: Program, types: Sequence[ArrayType]) -> Program:
    """A Program whose backward pass keeps its operands alone. Loops keep the two computations apart: no barrier is needed."""
    keeping = {"policy": Budget(0), "prevent_cse": False}
    return stage_closed(lambda *args: bind_holder(checkpoint, *args, program=program, **keeping), types, program.name)


def _opened(
    condition: Program, body: Program, num_consts: int, operands: Sequence[Any]
) -> tuple[dict[str, Any], Sequence[Any]]:
    """The Programs of a loop with what they close over as constants of the loop, which may change from call to call."""
    (condition, tested), (body, used) = condition.opened(), body.opened()
    operands = (*tested, *used, *operands)
    types = [array.type for array in operands]
    first, own = len(tested), len(tested) + len(used)
    condition = condition.rearranged([*range(first), *types[first:own], *range(first, len(condition.inputs))])
    body = body.rearranged([*types[:first], *range(len(body.inputs))])
    return {"condition": condition, "body": body, "num_consts": own + num_consts}, operands
