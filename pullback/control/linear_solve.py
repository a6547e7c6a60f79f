"""Implicit differentiation: solutions of linear systems, and roots, whose derivatives do not go through the solver.

`linear_solve` finds x with A x = b by a solver that nobody looks into. With A(theta), differentiating the equation gives

    A dx = db - (dA) x        (forward)        b_bar = A^-T x_bar        (transposed)

so its tangent is another `linear_solve` with the same operator, and its transpose one with the transposed operator.

`root` finds x with f(x, theta) = 0 likewise. By the implicit function theorem  (df/dx) dx = -(df/dtheta) dtheta,  which the
given linear solver solves for dx.
Source: Christianson, Reverse accumulation and implicit functions, Optimization Methods and Software 9 (1998).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.control.holder import bind_holder, split
from pullback.core.axes import Axis
from pullback.core.errors import GradientError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType, is_unknown
from pullback.core.zero import ZERO, instantiate
from pullback.ops.arithmetic import neg, sub
from pullback.program.program import Program, run
from pullback.transforms.batch import repeated
from pullback.transforms.derive import batch_program
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.stage import replay


class Sizes(NamedTuple):
    """How many operands each part of an operation takes, in this order; what is left is the last part."""

    operator: int  # what the operator, or the function, closes over
    solve: int  # what the solver does
    transposed: int  # and the solver of the transposed, or of the linearized, system


@primitive
class linear_solve(Rules):
    """The solution x of A x = b, and what else `solve` returns.

    `operator` maps what A closes over, and x, to A x; `transposed` likewise to A^T x. `solve` and `transpose_solve` map what
    they close over, and b, to the solution of the system and of the transposed one; where `transpose_solve` is None there is no
    reverse mode. The operands are what the operator, `solve`, and `transpose_solve` close over, then b.
    """

    multiple_results = True
    on_arrays = True
    needs_axis = True
    symbolic_zeros = True

    def result_type(*types, operator, transposed, solve: Program, transpose_solve, sizes):
        return solve.output_types

    def evaluate(*arrays, operator, transposed, solve, transpose_solve, sizes):
        _, own, _, b = split(arrays, *sizes)
        return run(solve, (*own, *b))

    def lower(write, *values, operator, transposed, solve, transpose_solve, sizes):
        _, own, _, b = split(values, *sizes)
        return write.inline(solve, *own, *b)

    def jvp(primals, tangents, *, operator, sizes, **params):
        consts, own, other, b = split(primals, *sizes)
        tangent_consts, _, _, tangent_b = split(tangents, *sizes)
        outs = bind_holder(linear_solve, *primals, operator=operator, sizes=sizes, **params)
        x = outs[: len(b)]
        right = list(tangent_b)
        if any(t is not ZERO for t in tangent_consts):
            _, moved = jvp_flat(lambda *c: replay(operator, (*c, *x)), consts, tangent_consts)
            right = [_minus(t, m) for t, m in zip(right, moved, strict=True)]
        if all(t is ZERO for t in right):
            return outs, (ZERO,) * len(outs)
        right = [instantiate(t, type_of(value)) for t, value in zip(right, b, strict=True)]
        found = bind_holder(linear_solve, *consts, *own, *other, *right, operator=operator, sizes=sizes, **params)
        return outs, (*found[: len(b)], *[ZERO] * (len(outs) - len(b)))

    def transpose(cotangents, *operands, operator, transposed, solve, transpose_solve, sizes):
        consts, own, other, b = split(operands, *sizes)
        if any(is_unknown(value) for value in (*consts, *own, *other)):
            raise GradientError("linear_transpose met custom_linear_solve of an unknown operator; it is linear in b only.")
        if transpose_solve is None:
            raise GradientError(
                "Reverse mode through custom_linear_solve solves the transposed system: pass transpose_solve, or"
                " symmetric=True where the operator is its own transpose."
            )
        found = bind_holder(
            linear_solve,
            *consts,
            *other,
            *own,
            *cotangents[: len(b)],
            operator=transposed,
            transposed=operator,
            solve=transpose_solve,
            transpose_solve=solve,
            sizes=Sizes(sizes.operator, sizes.transposed, sizes.solve),
        )
        known = len(operands) - len(b)
        return (*[None] * known, *[x if is_unknown(value) else None for x, value in zip(found, b)])

    def vectorize(batch, args, axes, *, operator, transposed, solve, transpose_solve, sizes):
        c_axes, s_axes, t_axes, _ = split(axes, *sizes)
        consts, own, other, b = split(args, *sizes)
        given = (0,) * len(b)
        params = {
            "operator": _mapped(operator, batch, (*c_axes, *given)),
            "transposed": _mapped(transposed, batch, (*c_axes, *given)),
            "solve": _mapped(solve, batch, (*s_axes, *given)),
            "transpose_solve": None if transpose_solve is None else _mapped(transpose_solve, batch, (*t_axes, *given)),
        }
        b = [value if axis == 0 else repeated(value, batch.size) for value, axis in zip(b, axes[len(args) - len(b) :])]
        outs = bind_holder(linear_solve, *consts, *own, *other, *b, sizes=sizes, **params)
        return outs, (0,) * len(outs)


@primitive
class root(Rules):
    """A root x of `function`, and what else `solve` returns.

    `function` maps what it closes over, and x, to the residuals; `solve` what it closes over, and a first guess, to the root;
    `tangent` what it closes over, the operands of `function`, and a right-hand side, to the solution of the system linearized
    there. The operands are what the three close over, then the guess.
    """

    multiple_results = True
    on_arrays = True
    needs_axis = True
    symbolic_zeros = True

    def result_type(*types, function: Program, solve: Program, tangent: Program, sizes):
        return solve.output_types

    def evaluate(*arrays, function, solve, tangent, sizes):
        _, own, _, guess = split(arrays, *sizes)
        return run(solve, (*own, *guess))

    def lower(write, *values, function, solve, tangent, sizes):
        _, own, _, guess = split(values, *sizes)
        return write.inline(solve, *own, *guess)

    def jvp(primals, tangents, *, function, solve, tangent, sizes):
        consts, _, other, guess = split(primals, *sizes)
        tangent_consts = tangents[: sizes.operator]
        outs = bind_holder(root, *primals, function=function, solve=solve, tangent=tangent, sizes=sizes)
        x = outs[: len(guess)]
        _, moved = jvp_flat(lambda *c: replay(function, (*c, *x)), consts, tangent_consts)
        if all(t is ZERO for t in moved):
            return outs, (ZERO,) * len(outs)
        right = [neg(instantiate(t, type)) for t, type in zip(moved, function.output_types, strict=True)]
        found = replay(tangent, (*other, *consts, *x, *right))
        return outs, (*found, *[ZERO] * (len(outs) - len(guess)))

    def vectorize(batch, args, axes, *, function, solve, tangent, sizes):
        c_axes, s_axes, t_axes, g_axes = split(axes, *sizes)
        consts, own, other, guess = split(args, *sizes)
        given = (0,) * len(guess)
        params = {
            "function": _mapped(function, batch, (*c_axes, *given)),
            "solve": _mapped(solve, batch, (*s_axes, *given)),
            "tangent": _mapped(tangent, batch, (*t_axes, *c_axes, *given, *[0] * len(function.outputs))),
        }
        guess = [value if axis == 0 else repeated(value, batch.size) for value, axis in zip(guess, g_axes)]
        outs = bind_holder(root, *consts, *own, *other, *guess, sizes=sizes, **params)
        return outs, (0,) * len(outs)


def _mapped(program: Program, batch: Axis, axes: Sequence[int | None]) -> Program:
    """A Program on batches, every one of whose outputs is a batch."""
    return batch_program(program, batch, tuple([int(axis == 0) for axis in axes]), (1,) * len(program.outputs))[0]


def _minus(x: Any, y: Any) -> Any:
    """x - y, where each may be ZERO."""
    if y is ZERO:
        return x
    return neg(y) if x is ZERO else sub(x, y)


def same_types(found: Sequence[ArrayType], wanted: Sequence[ArrayType]) -> bool:
    """Whether types agree, but for weakness."""
    return [type.strong() for type in found] == [type.strong() for type in wanted]
