"""Functions whose derivatives do not go through their Programs: solutions of linear systems and roots, which are differentiated
implicitly, and linear functions that are told their transposes.

`linear_solve` finds x with A x = b by a solver that nobody looks into. With A(theta), differentiating the equation gives

    A dx = db - (dA) x        (forward)        b_bar = A^-T x_bar        (transposed)

so its tangent is another `linear_solve` with the same operator, and its transpose one with the transposed operator.

`root` finds x with f(x, theta) = 0 likewise. By the implicit function theorem  (df/dx) dx = -(df/dtheta) dtheta,  which the
given linear solver solves for dx.
Source: Christianson, Reverse accumulation and implicit functions, Optimization Methods and Software 9 (1998).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.control.holder import Outs, Wired, Wiring, bind_holder, split
from pullback.core.axes import told_axes
from pullback.core.errors import GradientError
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType, is_unknown
from pullback.core.zero import ZERO, instantiate
from pullback.ops.arithmetic import neg, sub
from pullback.ops.broadcast import repeated
from pullback.ops.varying import align, vary_as
from pullback.program.program import Program
from pullback.transforms.derive import Flags, batch_program, fixed_point, stage_closed, transpose_program, united
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import transpose_at
from pullback.transforms.stage import replay


def _in_one_space(outs: Outs, flags: Flags, *, num_consts: int, **programs: Program | None) -> dict[str, tuple[Flags, Flags]]:
    """Each Program maps the constants and what may be flagged to such values again: x, b, and their cotangents alike."""
    consts, right = split(flags, num_consts)
    held = {name: program for name, program in programs.items() if program is not None}

    def step(space: Flags) -> Flags:
        return united([outs(program, (*consts, *space))[: len(space)] for program in held.values()])

    space = fixed_point(right, step)
    ins = (*consts, *space)
    return {name: (ins, (*space, *outs(program, ins)[len(space) :])) for name, program in held.items()}


def _at_the_root(
    outs: Outs, flags: Flags, *, solve: Program, function: Program, tangent: Program, num_consts: int
) -> dict[str, tuple[Flags, Flags]]:
    """`function` takes what `solve` returns, and `tangent` what both do."""
    consts = flags[:num_consts]
    x = outs(solve, flags)[: len(flags) - num_consts]
    right = united([x, outs(function, (*consts, *x))])
    return {"solve": (flags, ()), "function": ((*consts, *x), ()), "tangent": ((*consts, *x, *right), ())}


def _there_and_back(
    outs: Outs, flags: Flags, *, solve: Program, transposed: Program, num_consts: int
) -> dict[str, tuple[Flags, Flags]]:
    """`transposed` takes cotangents of what `solve` returns; what is linear varies as what it gives for that."""
    consts, linear = split(flags, num_consts)

    def back(x: Flags) -> Flags:
        return outs(transposed, (*consts, *outs(solve, (*consts, *x))))

    ins = (*consts, *fixed_point(linear, back))
    return {"solve": (ins, ()), "transposed": ((*consts, *outs(solve, ins)), ())}


class Solver(Wired):
    """What follows for an operation whose result is what its Program `solve` returns.

    The operands are `num_consts` constants, which are all that any of the Programs closes over, then what `solve` starts from.
    The other Programs say what is solved; each takes the constants first, and then values that differ from batch element to
    batch element where one of them does.
    """

    def result_type(*types, solve: Program, num_consts: int, **params: Program | None):
        return solve.output_types

    def vectorize(primitive, batch, args, axes, *, num_consts, **programs):
        flags = [int(axis == 0) for axis in axes[:num_consts]]

        def mapped(program):
            own = (*flags, *[1] * (len(program.inputs) - num_consts))
            return batch_program(program, batch, own, (1,) * len(program.outputs))[0]

        start = [x if axis == 0 else repeated(x, batch.size) for x, axis in zip(args[num_consts:], axes[num_consts:])]
        batched = {name: None if program is None else mapped(program) for name, program in programs.items()}
        outs = bind_holder(primitive, *args[:num_consts], *start, num_consts=num_consts, **batched)
        return outs, (0,) * len(outs)


@primitive
class linear_solve(Solver):
    """The solution x of A x = b, and what else `solve` returns. The operands are the constants, then b.

    `operator` maps the constants and x to A x, `transposed` likewise to A^T x. `solve` and `transpose_solve` map the constants
    and b to the solution of the system and of the transposed one; where `transpose_solve` is None there is no reverse mode.
    """

    wiring = Wiring("solve", system=_in_one_space)

    def jvp(primals, tangents, *, operator, num_consts, **params):
        params = {"operator": operator, "num_consts": num_consts, **params}
        (consts, b), (_, tangent_b) = split(primals, num_consts), split(tangents, num_consts)
        outs = bind_holder(linear_solve, *primals, **params)
        x = outs[: len(b)]
        moved = _moved(operator, consts, tangents, x)
        tangent_b = vary_as(tangent_b, b, x)
        right = [_minus(t, m) for t, m in zip(tangent_b, moved, strict=True)]
        if all(t is ZERO for t in right):
            return outs, (ZERO,) * len(outs)
        right = [instantiate(t, type_of(value)) for t, value in zip(right, b, strict=True)]
        found = bind_holder(linear_solve, *consts, *right, **params)
        return outs, (*found[: len(b)], *[ZERO] * (len(outs) - len(b)))

    def transpose(cotangents, *operands, operator, transposed, solve, transpose_solve, num_consts):
        consts, b = split(operands, num_consts)
        if any(is_unknown(value) for value in consts):
            raise GradientError("linear_transpose met custom_linear_solve of an unknown operator; it is linear in b only.")
        if transpose_solve is None:
            raise GradientError(
                "Reverse mode through custom_linear_solve solves the transposed system: pass transpose_solve, or"
                " symmetric=True where the operator is its own transpose."
            )
        swapped = {"operator": transposed, "transposed": operator, "solve": transpose_solve, "transpose_solve": solve}
        found = bind_holder(linear_solve, *consts, *cotangents[: len(b)], num_consts=num_consts, **swapped)
        return (*[None] * num_consts, *[x if is_unknown(value) else None for x, value in zip(found, b)])


@primitive
class root(Solver):
    """A root x of `function`, and what else `solve` returns. The operands are the constants, then a first guess.

    `function` maps the constants and x to the residuals, `solve` the constants and the guess to the root. `tangent` maps the
    constants, x, and a right-hand side to the solution of the system linearized there.
    """

    wiring = Wiring("solve", system=_at_the_root)

    def jvp(primals, tangents, *, function, tangent, num_consts, **params):
        consts, guess = split(primals, num_consts)
        outs = bind_holder(root, *primals, function=function, tangent=tangent, num_consts=num_consts, **params)
        x = outs[: len(guess)]
        moved = _moved(function, consts, tangents, x)
        if all(t is ZERO for t in moved):
            return outs, (ZERO,) * len(outs)
        right = [neg(instantiate(t, type)) for t, type in zip(moved, function.output_types, strict=True)]
        return outs, (*replay(tangent, (*consts, *x, *right)), *[ZERO] * (len(outs) - len(guess)))


@primitive
class linear_call(Solver):
    """What `solve` returns, which is linear in the operands behind the constants. `transposed` maps the constants and
    cotangents of its results to those of these operands."""

    wiring = Wiring("solve", system=_there_and_back)

    def jvp(primals, tangents, *, solve, num_consts, **params):
        params = {"solve": solve, "num_consts": num_consts, **params}
        (consts, x), (moved, given) = split(primals, num_consts), split(tangents, num_consts)
        if any([tangent is not ZERO for tangent in moved]):
            raise GradientError(
                f"linear_call of {solve.name} has no derivative with respect to its residual_args, nor to what it closes over:"
                " it is linear in its linear_args only. Pass there what is differentiated, or stop it (pb.lax.stop_gradient)."
            )
        outs = bind_holder(linear_call, *primals, **params)
        given = align([instantiate(tangent, type_of(value)) for tangent, value in zip(given, x, strict=True)], x)
        return outs, tuple(align(bind_holder(linear_call, *consts, *given, **params), outs))

    def transpose(cotangents, *operands, solve, transposed, num_consts):
        consts, x = split(operands, num_consts)
        if any([is_unknown(value) for value in consts]):
            raise GradientError(f"linear_call of {solve.name} is linear in its linear_args, but not in its residual_args.")
        found = bind_holder(linear_call, *consts, *cotangents, solve=transposed, transposed=solve, num_consts=num_consts)
        return (*[None] * num_consts, *[ct if is_unknown(value) else None for ct, value in zip(found, x)])


def transposed_operator(program: Program, unknown: Flags) -> Program:
    """The transpose of a Program that is linear in its unknown inputs, which are the last ones, and of their types."""
    made, _ = transpose_program(program, unknown, (1,) * sum(unknown))
    if not told_axes():
        return made

    def transposed(*args: Any) -> list[Any]:
        consts, cotangents = split(args, len(unknown) - sum(unknown))
        found = transpose_at(lambda *x: replay(program, (*consts, *x)), cotangents, cotangents)  # which vary as x does
        return [instantiate(ct, type_of(x)) for ct, x in zip(found, cotangents, strict=True)]

    return stage_closed(transposed, made.input_types, made.name, program)


def _moved(program: Program, consts: Sequence[Any], tangents: Sequence[Any], x: Sequence[Any]) -> list[Any]:
    """The tangents of what a Program returns at x, as its constants change. They vary along mesh axes as x does too."""
    values, moved = jvp_flat(lambda *c: replay(program, (*c, *x)), consts, tangents[: len(consts)])
    return vary_as(moved, values, x)


def _minus(x: Any, y: Any) -> Any:
    """x - y, where each may be ZERO."""
    if y is ZERO:
        return x
    return neg(y) if x is ZERO else sub(x, y)


def same_types(found: Sequence[ArrayType], wanted: Sequence[ArrayType]) -> bool:
    """Whether types agree, but for weakness."""
    return [type.strong() for type in found] == [type.strong() for type in wanted]
