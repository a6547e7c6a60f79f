"""Transposition: run a linear function backwards.

A `Tape` records linear operations on values that are not known yet, and everything else, being known, is simply computed
as it comes: dispatch on the data splits the known from the unknown, and no partial evaluation is needed. Walking the
tape from its end with cotangents gives the transpose; walking it from its start with tangents gives the linear function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.errors import GradientError
from pullback.core.primitive import Primitive
from pullback.core.tracing import Trace, Tracer, type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, instantiate, zeros
from pullback.ops.arithmetic import add
from pullback.ops.broadcast import reduce_sum
from pullback.ops.scaling import combine, scaled


class Linear(Tracer):
    """A value on a tape: a linear function of the tape's inputs."""

    __slots__ = ("index", "type")
    trace: Tape

    def __init__(self, trace: Tape, type: ArrayType) -> None:
        self.trace = trace
        self.type = type
        self.index = trace.count
        trace.count += 1


class Scale:
    """A step of the tape: out = sum_i value_i * multiplier_i. A multiplier is an array, None for 1, or -1."""

    __slots__ = ("out", "terms")

    def __init__(self, terms: list[tuple[Linear, Any]], out: Linear) -> None:
        self.terms = terms
        self.out = out


class Apply:
    """A step of the tape: any other linear operation, with the known operands among its arguments."""

    __slots__ = ("args", "outs", "params", "primitive")

    def __init__(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any], outs: tuple[Linear, ...]) -> None:
        self.primitive = primitive
        self.args = args
        self.params = params
        self.outs = outs


class Tape(Trace):
    """The trace that records linear operations."""

    __slots__ = ("count", "steps")
    transformation = "transposition"

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        self.count = 0
        self.steps: list[Scale | Apply] = []

    def scale(self, terms: list[tuple[Linear, Any]], type: ArrayType) -> Linear:
        """Record sum_i value_i * multiplier_i."""
        out = Linear(self, type)
        self.steps.append(Scale(terms, out))
        return out

    def apply(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any], types: Sequence[ArrayType]) -> Any:
        """Record a linear operation whose results have `types`."""
        outs = tuple([Linear(self, type) for type in types])
        self.steps.append(Apply(primitive, args, params, outs))
        return outs if primitive.multiple_results else outs[0]

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.expand is not None and primitive.transpose is None:
            return primitive.expand(*args, **params)
        result = primitive.infer(tuple([type_of(arg) for arg in args]), params)
        return self.apply(primitive, tuple(args), params, result if primitive.multiple_results else (result,))

    def is_on(self, value: Any) -> bool:
        """Whether a value is one of this tape's."""
        return value.__class__ is Linear and value.trace is self

    def substitute(self, new: Callable[[Any], Any]) -> None:
        """Put other known values in place of the recorded ones: `new` gives the one for each."""
        for step in self.steps:
            if isinstance(step, Scale):
                step.terms = [(value, new(multiplier)) for value, multiplier in step.terms]
            else:
                step.args = tuple([arg if self.is_on(arg) else new(arg) for arg in step.args])

    # ---- walking it ----

    def backward(self, outs: Sequence[Any], cotangents: Sequence[Any], inputs: Sequence[Linear]) -> list[Any]:
        """The transpose: cotangents of `outs` (ZERO allowed) to cotangents of `inputs` (ZERO possible)."""
        found: list[Any] = [None] * self.count

        def accumulate(value: Linear, cotangent: Any) -> None:
            if cotangent.type is not value.type and cotangent.type.shape != value.type.shape:
                # a 0-d operand of an elementwise operation was repeated
                cotangent = reduce_sum(cotangent, axes=tuple(range(cotangent.type.ndim)))
            before = found[value.index]
            found[value.index] = cotangent if before is None else add(before, cotangent)

        for out, cotangent in zip(outs, cotangents, strict=True):
            if self.is_on(out) and cotangent is not ZERO:
                accumulate(out, cotangent)
        for step in reversed(self.steps):
            if step.__class__ is Scale:
                cotangent = found[step.out.index]
                if cotangent is None:
                    continue
                found[step.out.index] = None
                for value, multiplier in step.terms:
                    accumulate(value, scaled(cotangent, multiplier))
            else:
                self._backward_apply(step, found, accumulate)  # type: ignore[arg-type]
        results = [found[value.index] for value in inputs]
        return [ZERO if result is None else result for result in results]

    def _backward_apply(self, step: Apply, found: list[Any], accumulate: Callable[[Linear, Any], None]) -> None:
        primitive = step.primitive
        cotangents = [found[out.index] for out in step.outs]
        if all(cotangent is None for cotangent in cotangents):
            return
        for out in step.outs:
            found[out.index] = None
        if primitive.transpose is None:
            if primitive.linear or (primitive.jvp is None and primitive.partials is None):
                raise primitive.missing("transpose", "reverse-mode differentiation (grad, vjp, linear_transpose)")
            raise nonlinear(primitive)
        args = [arg.type if arg.__class__ is Linear and arg.trace is self else arg for arg in step.args]
        full = [zeros(out.type) if c is None else c for c, out in zip(cotangents, step.outs, strict=True)]
        results = primitive.transpose(full if primitive.multiple_results else full[0], *args, **step.params)
        for arg, result in zip(step.args, results, strict=True):
            if arg.__class__ is Linear and arg.trace is self and result is not None and result is not ZERO:
                accumulate(arg, result)

    def forward(self, inputs: Sequence[Linear], tangents: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The linear function itself: tangents of `inputs` to tangents of `outs`; ZERO goes through as ZERO."""
        values: list[Any] = [ZERO] * self.count
        for value, tangent in zip(inputs, tangents, strict=True):
            values[value.index] = tangent
        for step in self.steps:
            if step.__class__ is Scale:
                terms = [(values[v.index], m) for v, m in step.terms if values[v.index] is not ZERO]
                values[step.out.index] = combine(terms, step.out.type)
                continue
            args = [values[a.index] if self.is_on(a) else a for a in step.args]  # type: ignore[union-attr]
            if all(arg is ZERO for arg, original in zip(args, step.args) if self.is_on(original)):  # type: ignore[union-attr]
                continue
            args = [instantiate(a, o.type) if a is ZERO else a for a, o in zip(args, step.args)]  # type: ignore[union-attr]
            result = step.primitive(*args, **step.params)  # type: ignore[union-attr]
            for out, value in zip(step.outs, result if step.primitive.multiple_results else (result,)):  # type: ignore[union-attr]
                values[out.index] = value
        return [values[out.index] if self.is_on(out) else ZERO for out in outs]


def nonlinear(primitive: Primitive) -> GradientError:
    """The error for transposing an operation that is not linear."""
    return GradientError(
        f"linear_transpose met {primitive.name!r} applied to an unknown value; it is not linear in that operand, so the"
        " function has no transpose. Use vjp, which linearizes the function first."
    )


def transpose_flat(
    function: Callable[..., Sequence[Any]], types: Sequence[ArrayType], cotangents: Sequence[Any], described: Any = None
) -> list[Any]:
    """The transpose of a flat linear function, applied to cotangents: one cotangent per input, ZERO possible."""
    tape = Tape(described or function)
    inputs = [Linear(tape, type) for type in types]
    try:
        outs = function(*inputs)
    finally:
        tape.open = False
    return tape.backward(outs, cotangents, inputs)
