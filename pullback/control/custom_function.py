"""custom_function: a function that users gave rules of its own, as one operation that keeps them under every transformation.

It holds the function itself, as a Program, and its rules. Forward mode runs the jvp rule on values. Reverse mode runs the
first half of the vjp rule on values, and puts `custom_pullback` on the tape: a linear operation whose transpose is the second
half. Where there is no vjp rule, the jvp rule is traced on the tape, as the rules of every other operation are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.control.custom_rules import (
    CustomRules,
    agree,
    batched_rules,
    chosen,
    inexact_flags,
    tangent_of_batching,
    transpose_of_batching,
)
from pullback.control.holder import Wired, Wiring, at_flags, bind_holder, split
from pullback.core.axes import told_axes
from pullback.core.dtypes import is_inexact
from pullback.core.errors import ClosedOverError, EscapedTracerError, GradientError, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import Tracer, innermost_staging, type_of
from pullback.core.types import ArrayType, array_type, is_unknown
from pullback.core.zero import ZERO, instantiate
from pullback.ops.broadcast import repeated
from pullback.ops.varying import align
from pullback.program.equality import Keyed
from pullback.program.program import Program, run
from pullback.transforms.derive import batch_program, batched_types, pruned_program, pushed_program, transpose_program
from pullback.transforms.linearize import linearize_flat
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.stage import replay, stage
from pullback.transforms.transpose import JVP_RULE, Linear, Tape


class Unstaged:
    """In place of the Program of a function that branches on the values of its arguments: it has derivatives all the same,
    by its rules, but nothing that needs its Program."""

    def __init__(self, make: Callable[[], Program]) -> None:
        self.make = make


def _staged(program: Program | Unstaged) -> Program:
    """The Program; where there is none, making it raises the error that says why."""
    return program.make() if isinstance(program, Unstaged) else program


@primitive
class custom_function(Wired):
    """Apply `program` to the operands; `rules` say how to transform it."""

    wiring = Wiring("program")

    def result_type(*types, program, rules):
        program = _staged(program)
        if [type.strong() for type in types] != [type.strong() for type in program.input_types]:
            raise ShapeError(f"{rules.described} was traced for operands of types {program.input_types}, but got {types}.")
        return program.output_types

    def evaluate(*arrays, program, rules):
        return run(_staged(program), arrays)

    def jvp(primals, tangents, *, program, rules):
        active = tuple([t is not ZERO for t in tangents])
        if rules.jvp is not None:
            rules.refuse_captured(active, primals)
            tape = next((t.owner for t in tangents if t.__class__ is Linear), None)
            if tape is not None and told_axes():
                return _linearized(rules, primals, tangents, active)
            outs, found = rules.jvp(primals, tangents) if tape is None else _on_the_tape(rules, tape, primals, tangents)
            return tuple(outs), tuple(found)
        if rules.forward is not None:
            raise no_forward_mode(rules)
        program = _staged(program)
        outs = bind_custom(program, rules, primals)
        inexact = inexact_flags(program.output_types)
        pushed, _ = pushed_program(program, None, active, tuple(inexact))
        pushed = pruned_program(pushed, (*[0] * len(outs), *[1] * sum(inexact)))[0]
        given = [*primals, *chosen(tangents, active)]
        return outs, at_flags(bind_custom(pushed, tangent_of_batching(rules, active), given), inexact)

    def linearize(primals, active, *, program, rules):
        if rules.forward is None:
            return NotImplemented  # the jvp rule will do
        rules.refuse_captured(active, primals)
        outs, residuals, kept = rules.forward(primals, active)
        out_types = tuple([type_of(out).strong() for out in outs])
        pullback = Pullback(rules, kept, len(residuals), active, out_types)
        known = [*residuals, *(primals if rules.jvp is not None else ())]

        def push(*tangents):
            # in a shard_map the backward rule gets cotangents that vary as the results do, and what it returns is made to
            tangents = align(tangents, chosen(primals, active))
            pushed = custom_pullback(*known, *tangents, pullback=pullback)
            return at_flags(align(pushed, chosen(outs, inexact_flags(out_types))), inexact_flags(out_types))

        return tuple(outs), push

    def transpose(cotangents, *operands, program, rules):
        program = _staged(program)
        unknown = tuple([is_unknown(operand) for operand in operands])
        known = [operand for operand in operands if not is_unknown(operand)]
        types = [operand.strong() for operand in chosen(operands, unknown)]
        made, nonzero = transpose_program(program, unknown, (1,) * len(types) if rules.vmap is not None else ())
        if rules.vmap is not None:
            transposed = transpose_of_batching(rules, unknown, types, [type.strong() for type in program.output_types])
            found = bind_custom(made, transposed, [*known, *cotangents])
        else:
            found = at_flags(replay(made, [*known, *cotangents]), nonzero)
        solved = iter(found)
        return tuple([next(solved) if flag else None for flag in unknown])

    def vectorize(batch, args, axes, *, program, rules):
        program = _staged(program)
        flags = tuple([int(axis == 0) for axis in axes])
        by_rule = rules.vmap is not None and any(flags)
        unwatched = innermost_staging() is None and not any([isinstance(arg, Tracer) for arg in args])
        alone = unwatched or (rules.jvp is None and rules.forward is None)  # nobody will ask for derivative rules
        extra = ()
        if by_rule:
            rules.refuse_captured(flags, args, "batched")
            if alone:
                outs, carried = _by_rule(rules, batch.size, flags, args)
                return tuple(outs), _axes(carried)

            def batched(*xs):
                outs, carried = _by_rule(rules, batch.size, flags, xs)
                return [out if flag else repeated(out, batch.size) for out, flag in zip(outs, carried)]

            types = batched_types(program.input_types, batch.size, flags)
            on_batch, extra = stage(batched, types, name=f"vmap_{program.name}")
            on_batch, carried = drop_dead_code(on_batch), (1,) * len(program.outputs)
        else:
            on_batch, carried = batch_program(program, batch, flags)
            if alone:
                return replay(on_batch, args), _axes(carried)
            if not all(carried) and not agree(batched_rules(rules, batch, flags, carried), on_batch.input_types):
                on_batch, carried = batch_program(program, batch, flags, (1,) * len(carried))
        outs = bind_custom(on_batch, batched_rules(rules, batch, flags, carried, len(extra)), [*extra, *args])
        return outs, _axes(carried)


def _by_rule(rules: CustomRules, size: int, flags: Sequence[int], args: Sequence[Any]) -> tuple[list[Any], list[bool]]:
    """The results on a batch by the batching rule, and which of them carry it."""
    try:
        outs, carried = rules.vmap(size, [bool(flag) for flag in flags], args)  # type: ignore[misc]
    except EscapedTracerError as error:
        if not rules.captured or isinstance(error, ClosedOverError):
            raise  # else the rule closes over what it was traced with, which is gone
        raise rules.about.closed_over(args[0], "batched") from None
    return outs, carried


def _axes(carried: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple([0 if flag else None for flag in carried])


def bind_custom(program: Program | Unstaged, rules: CustomRules, args: Sequence[Any]) -> tuple[Any, ...]:
    """Apply a function with rules to its operands."""
    found: tuple[Any, ...] = bind_holder(custom_function, *args, program=program, rules=rules)
    return found


def _on_the_tape(rules: CustomRules, tape: Tape, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """What a jvp rule returns in reverse mode.

    A rule that asks for real zeros gets unknown values in their place, so that what it makes of them is seen to be linear too;
    they and what depends on them alone are taken off the tape again.
    """
    start, given, zeros = len(tape.steps), list(tangents), set()
    if not rules.about.symbolic:
        for i, (x, tangent) in enumerate(zip(primals, tangents)):
            if tangent is ZERO and i >= rules.captured and is_inexact(type_of(x).dtype):
                given[i] = Linear(tape, type_of(x))  # weak where x is, so that it widens nothing
                zeros.add(given[i].index)
    outs, found = rules.jvp(primals, given)  # type: ignore[misc]
    tape.made_by(JVP_RULE + rules.described, start)
    tape.without(start, zeros)
    return outs, [ZERO if tape.index_of(tangent) in zeros else tangent for tangent in found]


def _linearized(rules: CustomRules, primals: Sequence[Any], tangents: Sequence[Any], active: Sequence[bool]) -> Any:
    """What a jvp rule returns in reverse mode in a shard_map, where tangents are to vary as the values do that they meet in the
    rule. So that is linearized itself, in tangents at values that vary as they do: the arguments."""
    count: list[int] = []

    def at_tangents(*given: Any) -> list[Any]:
        outs, found = rules.jvp(primals, at_flags(given, active))  # type: ignore[misc]
        count[:] = [len(outs)]
        return [*outs, *[instantiate(t, type_of(out).strong()) for t, out in zip(found, outs)]]

    linear = linearize_flat(at_tangents, chosen(primals, active), described=rules.about.function)
    return tuple(linear.values[: count[0]]), tuple(linear.push(chosen(tangents, active))[count[0] :])


def no_forward_mode(rules: CustomRules) -> GradientError:
    """The error for forward mode of a function that has a vjp rule only."""
    cure = getattr(rules.about.function, "forward_mode_cure", "") or f"Give it one too, with @{rules.about.name}.defjvp, or use"
    return GradientError(
        f"Forward mode (jvp, jacfwd, linearize's linear function) cannot go through {rules.described}: it has a vjp rule, but"
        f" no jvp rule. {cure} reverse mode (grad, vjp, jacrev)."
    )


# ---- the second half of a vjp rule ------------------------------------------------------------------------------------


class Pullback(Keyed):
    """The second half of a vjp rule, after the first one has run.

    Attributes:
        kept: what `rules.forward` kept for `rules.backward`. residuals: how many residuals there are.
        active: which operands of the function have tangents. out_types: those of its results.
    """

    __slots__ = ("active", "kept", "out_types", "residuals", "rules")

    def __init__(
        self, rules: CustomRules, kept: Any, residuals: int, active: tuple[bool, ...], out_types: tuple[ArrayType, ...]
    ) -> None:
        self.key = rules, kept, residuals, active, out_types
        self.rules, self.kept, self.residuals, self.active, self.out_types = self.key

    @property
    def printed(self) -> str:
        return f"backward pass of {self.rules.about.name}"

    def split(self, operands: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Residuals, the function's operands (if its jvp rule can be applied to them), and tangents."""
        return split(operands, self.residuals, len(self.active) if self.rules.jvp is not None else 0)


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
        if rules.jvp is None:
            raise no_forward_mode(rules)
        _, primals, given = pullback.split(operands)
        _, tangents = rules.jvp(primals, at_flags(given, pullback.active))
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
        full = at_flags(cotangents, inexact_flags(pullback.out_types))
        found = [*[ZERO] * rules.captured, *rules.backward(pullback.kept, residuals, full)]
        wanted = [ct if is_unknown(x) else None for x, ct in zip(given, chosen(found, pullback.active))]
        return (*[None] * (len(residuals) + len(primals)), *wanted)

    def vectorize(batch, args, axes, *, pullback):
        count, active, out_types = pullback.residuals, pullback.active, pullback.out_types
        full = [x if axis == 0 else repeated(x, batch.size) for x, axis in zip(args[count:], axes[count:])]
        rules = batched_rules(pullback.rules, batch, [1] * len(active), [1] * len(out_types))
        kept = pullback.kept, tuple([axis == 0 for axis in axes[:count]])
        out_types = tuple(batched_types(out_types, batch.size, [1] * len(out_types)))
        return custom_pullback(*args[:count], *full, pullback=Pullback(rules, kept, count, active, out_types)), 0
