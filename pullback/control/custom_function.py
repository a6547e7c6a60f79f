"""custom_function: a function that users gave rules of its own, as one operation that keeps them under every transformation.

It holds the function itself, as a Program, and its rules. Forward mode runs the jvp rule on values. Reverse mode runs the
first half of the vjp rule on values, and puts `custom_pullback` on the tape: a linear operation whose transpose is the second
half. Where there is no vjp rule, the jvp rule is traced on the tape, as the rules of every other operation are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.control.custom_rules import (
    BatchedRules,
    CustomRules,
    TangentOfBatching,
    TransposeOfBatching,
    chosen,
    inexact_flags,
)
from pullback.control.holder import bind_holder
from pullback.core.dtypes import is_inexact
from pullback.core.errors import GradientError, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import Tracer, innermost_staging, type_of
from pullback.core.types import ArrayType, array_type, is_unknown
from pullback.core.zero import ZERO, instantiate
from pullback.program.equality import Keyed
from pullback.program.program import Program, run
from pullback.transforms.batch import Batched, batch_flat, repeated
from pullback.transforms.derive import (
    batch_program,
    batched_types,
    of_unknown,
    pruned_program,
    pushed_program,
    transpose_program,
)
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.stage import replay, stage
from pullback.transforms.transpose import Apply, Linear, Tape, transpose_flat


class Unstaged:
    """In place of the Program of a function that branches on the values of its arguments: it has derivatives all the same,
    by its rules, but nothing that needs its Program."""

    def __init__(self, make: Callable[[], Program]) -> None:
        self.make = make


def _staged(program: Program | Unstaged) -> Program:
    """The Program; where there is none, making it raises the error that says why."""
    return program.make() if isinstance(program, Unstaged) else program


@primitive
class custom_function(Rules):
    """Apply `program` to the operands; `rules` say how to transform it."""

    multiple_results = True
    on_arrays = True
    needs_axis = True
    symbolic_zeros = True

    def result_type(*types, program, rules):
        program = _staged(program)
        if [type.strong() for type in types] != [type.strong() for type in program.input_types]:
            raise ShapeError(f"{rules.described} was traced for operands of types {program.input_types}, but got {types}.")
        return program.output_types

    def evaluate(*arrays, program, rules):
        return run(_staged(program), arrays)

    def lower(write, *values, program, rules):
        return write.inline(program, *values)

    def jvp(primals, tangents, *, program, rules):
        active = tuple([t is not ZERO for t in tangents])
        if rules.has_jvp:
            rules.refuse_captured(active, primals, "differentiated")
            tape = next((t.owner for t in tangents if t.__class__ is Linear), None)
            outs, found = rules.jvp(primals, tangents) if tape is None else _on_the_tape(rules, tape, primals, tangents)
            return tuple(outs), tuple(found)
        if rules.has_vjp:
            raise no_forward_mode(rules)
        program = _staged(program)
        outs = bind_custom(program, rules, primals)
        given = [*primals, *chosen(tangents, active)]
        pushed, _ = pushed_program(program, None, active, tuple(inexact_flags(program.output_types)))
        pushed = pruned_program(pushed, (*[0] * len(outs), *[1] * (len(pushed.outputs) - len(outs))))[0]
        found = iter(bind_custom(pushed, TangentOfBatching(rules, active), given))
        return outs, tuple([next(found) if is_inexact(type_of(out).dtype) else ZERO for out in outs])

    def linearize(primals, active, *, program, rules):
        if not rules.has_vjp:
            return NotImplemented  # the jvp rule will do
        rules.refuse_captured(active, primals, "differentiated")
        outs, residuals, kept = rules.forward(primals, active)
        out_types = tuple([type_of(out).strong() for out in outs])
        points = list(primals) if rules.has_jvp else []
        pullback = Pullback(
            rules, kept, len(residuals), bool(points), active, tuple([type_of(x).strong() for x in primals]), out_types
        )

        def push(*tangents):
            found = iter(custom_pullback(*residuals, *points, *tangents, pullback=pullback))
            return tuple([next(found) if flag else ZERO for flag in inexact_flags(out_types)])

        return tuple(outs), push

    def transpose(cotangents, *operands, program, rules):
        program = _staged(program)
        unknown = tuple([is_unknown(operand) for operand in operands])
        known = [operand for operand in operands if not is_unknown(operand)]
        types = [operand.strong() for operand in operands if is_unknown(operand)]
        if rules.has_vmap:
            transposed = TransposeOfBatching(rules, unknown, types, [type.strong() for type in program.output_types])
            made, _ = transpose_program(program, unknown, (1,) * len(types))
            found = bind_custom(made, transposed, [*known, *cotangents])
        else:
            found = transpose_flat(of_unknown(program, unknown, known), types, cotangents)
        solved = iter(found)
        return tuple([next(solved) if flag else None for flag in unknown])

    def vectorize(batch, args, axes, *, program, rules):
        program = _staged(program)
        flags = [axis == 0 for axis in axes]
        by_rule = rules.has_vmap and any(flags)
        if by_rule and (not (rules.has_jvp or rules.has_vjp) or _at_once(args)):
            outs, carried = rules.vmap(batch.size, flags, args)
            return tuple(outs), tuple([0 if flag else None for flag in carried])
        if _at_once(args) or not (rules.has_jvp or rules.has_vjp):
            trace, outs = batch_flat(lambda *xs: replay(program, xs), args, flags, batch, rules.function)
            carried = [out.__class__ is Batched and out.owner is trace for out in outs]
            return (
                tuple([out.value if flag else out for out, flag in zip(outs, carried)]),
                tuple([0 if flag else None for flag in carried]),
            )
        extra: tuple[Any, ...] = ()
        if by_rule:

            def batched(*xs):
                outs, carried = rules.vmap(batch.size, flags, xs)
                return [out if flag else repeated(out, batch.size) for out, flag in zip(outs, carried)]

            types = batched_types(program.input_types, batch.size, flags)
            on_batch, extra = stage(batched, types, name=f"vmap_{program.name}")
            on_batch = drop_dead_code(on_batch)
            carried = (1,) * len(program.outputs)
        else:
            on_batch, carried = batch_program(program, batch, tuple(flags))
            if not all(carried) and not BatchedRules(rules, batch, axes, carried).agree(on_batch.input_types):
                on_batch, carried = batch_program(program, batch, tuple(flags), (1,) * len(carried))
        outs = bind_custom(on_batch, BatchedRules(rules, batch, axes, carried, len(extra)), [*extra, *args])
        return outs, tuple([0 if flag else None for flag in carried])


def bind_custom(program: Program | Unstaged, rules: CustomRules, args: Sequence[Any]) -> tuple[Any, ...]:
    """Apply a function with rules to its operands."""
    found: tuple[Any, ...] = bind_holder(custom_function, *args, program=program, rules=rules)
    return found


def _at_once(args: Sequence[Any]) -> bool:
    """Whether an operation on these values is done now, and watched by nobody."""
    return innermost_staging() is None and not any([isinstance(arg, Tracer) for arg in args])


def _on_the_tape(rules: CustomRules, tape: Tape, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """What a jvp rule returns in reverse mode.

    A rule that asks for real zeros gets unknown values in their place, so that what it makes of them is seen to be linear too;
    they and what depends on them alone are taken off the tape again.
    """
    start, given, zeros = len(tape.steps), list(tangents), set()
    if not rules.symbolic:
        for i, (x, tangent) in enumerate(zip(primals, tangents)):
            if tangent is ZERO and i >= rules.captured and is_inexact(type_of(x).dtype):
                given[i] = Linear(tape, type_of(x).strong())
                zeros.add(given[i].index)
    outs, found = rules.jvp(primals, given)
    for step in tape.steps[start:]:
        if isinstance(step, Apply) and not step.rule:
            step.rule = f"The jvp rule of {rules.described}"
    tape.without(start, zeros)
    return outs, [ZERO if tape.index_of(tangent) in zeros else tangent for tangent in found]


def no_forward_mode(rules: CustomRules) -> GradientError:
    """The error for forward mode of a function that has a vjp rule only."""
    return GradientError(
        f"Forward mode (jvp, jacfwd, linearize's linear function) cannot go through {rules.described}: it has a vjp rule, but"
        f" no jvp rule. Give it one too, with @{rules.name}.defjvp, or use reverse mode (grad, vjp, jacrev)."
    )


# ---- the second half of a vjp rule ------------------------------------------------------------------------------------


class Pullback(Keyed):
    """The second half of a vjp rule, after the first one has run.

    Attributes:
        kept: what `rules.forward` kept for `rules.backward`. residuals: how many residuals there are.
        points: whether the operands of the function are operands here, too, so that its jvp rule can be applied.
        active: which of those have tangents. types: of all of them. out_types: of the function's results.
    """

    __slots__ = ("active", "kept", "out_types", "points", "residuals", "rules", "types")

    def __init__(
        self,
        rules: CustomRules,
        kept: Any,
        residuals: int,
        points: bool,
        active: tuple[bool, ...],
        types: tuple[ArrayType, ...],
        out_types: tuple[ArrayType, ...],
    ) -> None:
        self.rules = rules
        self.kept = kept
        self.residuals = residuals
        self.points = points
        self.active = active
        self.types = types
        self.out_types = out_types
        self.key = (rules, kept, residuals, points, active, types, out_types)

    @property
    def printed(self) -> str:
        return f"backward pass of {self.rules.name}"

    def split(self, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Residuals, the function's operands, and tangents."""
        start = self.residuals + (len(self.types) if self.points else 0)
        return operands[: self.residuals], operands[self.residuals : start], operands[start:]


@primitive
class custom_pullback(Rules):
    """The linear function of tangents that a vjp rule is the transpose of. Without a jvp rule, it is known only by that."""

    multiple_results = True
    symbolic_cotangents = True
    needs_axis = True

    def result_type(*types, pullback):
        return tuple([type for type in pullback.out_types if is_inexact(type.dtype)])

    def expand(*operands, pullback):
        rules = pullback.rules
        if not rules.has_jvp:
            raise no_forward_mode(rules)
        _, primals, given = pullback.split(operands)
        found = iter(given)
        _, tangents = rules.jvp(primals, [next(found) if flag else ZERO for flag in pullback.active])
        full = [instantiate(t, type) for t, type in zip(tangents, pullback.out_types)]
        return tuple(chosen(full, inexact_flags(pullback.out_types)))

    def lower(write, *values, pullback):
        types = [array_type(value.shape, value.type.dtype) for value in values]
        program, _ = stage(lambda *xs: custom_pullback.expand(*xs, pullback=pullback), types, name="pushforward")
        return write.inline(program, *values)

    def transpose(cotangents, *operands, pullback):
        rules = pullback.rules
        residuals, primals, given = pullback.split(operands)
        if any([is_unknown(x) for x in (*residuals, *primals)]):
            raise GradientError(f"The derivative of {rules.described} is linear in tangents, but not in its arguments.")
        found = iter(cotangents)
        full = [next(found) if flag else ZERO for flag in inexact_flags(pullback.out_types)]
        solved = chosen(rules.backward(pullback.kept, residuals, full), pullback.active)
        wanted = [ct if is_unknown(x) else None for x, ct in zip(given, solved)]
        return (*[None] * (len(residuals) + len(primals)), *wanted)

    def vectorize(batch, args, axes, *, pullback):
        count = pullback.residuals
        full = [x if axis == 0 else repeated(x, batch.size) for x, axis in zip(args[count:], axes[count:])]
        everywhere = [0] * len(pullback.types)
        batched = Pullback(
            BatchedRules(pullback.rules, batch, everywhere, [True] * len(pullback.out_types)),
            (pullback.kept, tuple([axis == 0 for axis in axes[:count]])),
            count,
            pullback.points,
            pullback.active,
            tuple(batched_types(pullback.types, batch.size, [1] * len(pullback.types))),
            tuple(batched_types(pullback.out_types, batch.size, [1] * len(pullback.out_types))),
        )
        return custom_pullback(*args[:count], *full, pullback=batched), 0
