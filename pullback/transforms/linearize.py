"""Linearization: the value now, and on a tape the linear function that maps tangents of the inputs to those of the outputs.

It is forward mode whose tangents are values on a tape, so the forward rules alone give reverse mode: linearize, then walk the
tape backwards. Elementwise operations with `partials` go straight onto the tape, which is the fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.core.errors import GradientError
from pullback.core.leaks import note
from pullback.core.primitive import Primitive
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO
from pullback.ops.varying import align
from pullback.transforms.jvp import Dual, JvpTrace, owner
from pullback.transforms.transpose import JVP_RULE, LINEARIZE_RULE, Linear, Tape
from pullback.transforms.zeros import may_be_zero


class LinearizeTrace(JvpTrace):
    """Forward mode whose tangents are recorded instead of computed."""

    __slots__ = ("combine", "tape")
    transformation = "grad"
    role = "residual"  # since tangents are not computed here

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        self.tape = Tape(function)
        self.combine = self.tape.scale  # type: ignore[method-assign]  # the tape's own method, with no call between

    def push(self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> Any:
        start = len(self.tape.steps)
        found = NotImplemented
        if primitive.linearize is not None:
            found = self.push_linearized(primitive, primals, tangents, params)
        if found is NotImplemented:
            found = super().push(primitive, primals, tangents, params)
        if not primitive.trusts_pushes:
            called = LINEARIZE_RULE if primitive.linearize is not None else JVP_RULE
            self.tape.made_by(called + owner(primitive, params), start)
        return found

    def received(self, primitive: Primitive, rule: str, primals: list[Any], params: dict[str, Any], returned: Any) -> Any:
        outs, tangents = super().received(primitive, rule, primals, params, returned)
        for out in outs if primitive.multiple_results else (outs,):
            if out.__class__ is Linear and out.owner is self.tape:
                raise GradientError(
                    f"The {rule} rule of {owner(primitive, params)} returned a value that depends on tangents. It must be a"
                    " function of the primal arguments alone."
                )
        return outs, tangents

    def tangent(self, primitive: Primitive, rule: str, params: dict[str, Any], type: ArrayType, returned: Any) -> Any:
        found = super().tangent(primitive, rule, params, type, returned)
        if found is ZERO or (found.__class__ is Linear and found.owner is self.tape):
            return found
        if may_be_zero(found):
            return ZERO
        raise GradientError(
            f"The {rule} rule of {owner(primitive, params)} returned a tangent that does"
            " not depend on the tangents of the arguments. A tangent is a linear function of them, zero where they are:"
            " multiply by them."
        )

    def apply_linear(self, primitive: Primitive, args: list[Any], params: dict[str, Any], out: Any) -> Any:
        if primitive.multiple_results:
            return super().apply_linear(primitive, args, params, out)
        return self.tape.apply(primitive, args, params, (out.type,))


class Linearized(NamedTuple):
    """A function linearized at a point: its values there, and the tape from the active inputs' tangents to the values'."""

    values: list[Any]
    tape: Tape
    inputs: list[int]  # the tape's index of each active input
    tangents: list[int | None]  # and of each value's tangent; None if that is zero

    def push(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the active inputs to tangents of the values."""
        return self.tape.forward(self.inputs, tangents, self.tangents)

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the values to cotangents of the active inputs."""
        return self.tape.backward(self.tangents, cotangents, self.inputs)


def linearize_flat(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    active: Sequence[bool] | None = None,
    described: Any = None,
    trace: LinearizeTrace | None = None,
) -> Linearized:
    """Linearize a flat function at `primals`, in those inputs that are `active` (all of them by default)."""
    trace = trace or LinearizeTrace(described or function)
    note(trace)
    tape = trace.tape
    duals = []
    for index, primal in enumerate(primals):
        carries = active is None or active[index]
        duals.append(Dual(trace, primal, Linear(tape, primal.type)) if carries else primal)
    inputs = list(range(len(tape.types)))
    try:
        outs = function(*duals)
    finally:
        trace.open = tape.open = False
    pairs = [trace.split(out) for out in outs]
    return Linearized([value for value, _ in pairs], tape, inputs, [tape.index_of(tangent) for _, tangent in pairs])


def transpose_at(function: Callable[..., Sequence[Any]], primals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
    """The transpose of a linear flat function in a shard_map: its results vary along mesh axes as `primals` do, whose values
    do not count."""

    def aligned(*xs: Any) -> list[Any]:
        outs = function(*xs)
        return align(outs, outs)

    return linearize_flat(aligned, primals).pull(cotangents)
