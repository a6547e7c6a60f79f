"""Forward mode: push tangents forward, along with the values. Tangent of f at x along v:  J_f(x) v."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.axes import bind_named, own_axes, told_axes
from pullback.core.dtypes import is_inexact
from pullback.core.leaks import note
from pullback.core.modes import current_mode
from pullback.core.primitive import Primitive
from pullback.core.source import user_source
from pullback.core.tracing import Trace, Tracer, bind, type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, instantiate
from pullback.ops.collective import axis_index, over, pvary
from pullback.ops.scaling import combine
from pullback.ops.varying import BY_VARIATION, vary
from pullback.transforms.stage import StagingTrace, primal_after_all, residual_before_tangents
from pullback.transforms.transpose import closed_over


class Dual(Tracer):
    """A primal with its tangent."""

    __slots__ = ("primal", "tangent", "type")

    def __init__(self, trace: Trace, primal: Any, tangent: Any) -> None:
        self.owner = trace
        self.primal = primal
        self.tangent = tangent
        self.type = primal.type  # a primal is an Array or a tracer

    def note_batch(self, axes: frozenset[int]) -> None:
        for value in (self.primal, self.tangent):
            if isinstance(value, Tracer):
                value.note_batch(axes)


class JvpTrace(Trace):
    """Pushes tangents through each operation by the first rule that the primitive has."""

    __slots__ = ("told",)  # the mesh axes along which tangents vary as values do, for what transposes them
    transformation = "jvp"
    role = "tangent"  # of what a rule computes that gives both the values and the tangents

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        self.told = told_axes()
        if (checks := current_mode().checks) is not None:
            checks.differentiates()

    def by_rule(self, primitive: Primitive, rule: Callable[[], Any], name: str, role: str, tangents: Sequence[Any] = ()) -> Any:
        """What a rule returns; what it stages is said to be made by it. Where it is given tangents beside values, only what
        depends on them is a tangent."""
        recording = self.recording
        if recording is None:
            return rule()
        before = recording.enter(self.transformation, name, role, primitive)
        made = recording.made
        equations = recording.equations if isinstance(recording, StagingTrace) else []
        start = len(equations)
        try:
            returned = rule()
        finally:
            recording.made = before
        if name in ("jvp", "linearize") and isinstance(returned, tuple) and len(returned) == 2:
            primal_after_all(equations[start:], returned[0], made)
        if role == "tangent" and tangents:
            residual_before_tangents(equations[start:], made, tangents)
        return returned

    def split(self, value: Any) -> tuple[Any, Any]:
        """A value's primal and tangent; what is not a tracer of this very trace has tangent ZERO."""
        return (value.primal, value.tangent) if value.__class__ is Dual and value.owner is self else (value, ZERO)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The operation on duals, by the first rule that there is."""
        recording = self.recording
        if recording is not None and recording.attributed is None:
            recording.attributed = user_source(2, recording.scope)  # once for all that the rules will stage
            if recording.attributed is not None:
                try:
                    return self.process(primitive, args, params)
                finally:
                    recording.attributed = None
        primals: list[Any] = []
        tangents: list[Any] = []
        for arg in args:
            if arg.__class__ is Dual and arg.owner is self:
                primals.append(arg.primal)
                tangents.append(arg.tangent)
            else:
                primals.append(arg)
                tangents.append(ZERO)
        if self.told and primitive not in BY_VARIATION:
            tangents = self.varied(primitive, primals, tangents, params)
        partials = primitive.partials
        if partials is not None:  # elementwise: the fast path
            out = bind(primitive, primals, params)
            terms = []
            before = None if recording is None else recording.enter(self.transformation, "partials", "residual", primitive)
            try:
                multipliers = partials(out, *primals, **params) if params else partials(out, *primals)
                trusted = primitive.trusted
                if not trusted and (not isinstance(multipliers, (tuple, list)) or len(multipliers) != len(args)):
                    raise primitive.malformed("partials", "a derivative for each operand", multipliers)
                for tangent, multiplier in zip(tangents, multipliers):
                    if tangent is not ZERO:
                        if callable(multiplier):
                            multiplier = multiplier()
                        if not trusted:
                            multiplier = primitive.multiplier(multiplier, tangent.type, out.type)
                        if multiplier is not ZERO:
                            terms.append((tangent, multiplier))
            finally:
                if recording is not None:
                    recording.made = before
            return Dual(self, out, self.combine(terms, out.type, primitive)) if terms else out
        if primitive.linear is True or (primitive.linear and is_linear_in(primitive, tangents)):
            out = bind_named(primitive, primals, params)
            tangent = self.push_linear(primitive, primals, tangents, params, out)
        elif primitive.expand is not None and not has_derivative(primitive):
            return primitive.expanded(args, params)
        else:
            out, tangent = self.push(primitive, primals, tangents, params)
        if primitive.multiple_results:
            return tuple([o if t is ZERO else Dual(self, o, t) for o, t in zip(out, tangent, strict=True)])
        return out if tangent is ZERO else Dual(self, out, tangent)

    def varied(self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> list[Any]:
        """Tangents that vary along mesh axes as the operation's result does, by its operands and by itself."""
        wiring = primitive.wiring  # in the Programs that it holds, this is done there
        others = primals if wiring is None else primals[: wiring.lead]
        if primitive is not pvary:
            names = [name for name in own_axes(primitive, params) if name in self.told]
            others = [*others, *[over(name, axis_index) for name in names]]
        return [vary(tangent, others, x, self.told) for tangent, x in zip(tangents, primals)]

    def carried(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], outs: Sequence[Any], params: dict[str, Any]
    ) -> list[Any]:
        """Tangents of which those that a loop carries vary along mesh axes as they do at its end."""
        wiring = primitive.wiring
        if wiring is None or wiring.consts is None:
            return tangents
        start = wiring.lead + params[wiring.consts]
        end = len(primals) if wiring.carry is None else start + params[wiring.carry]
        varied = [vary(t, [out], x, self.told) for t, x, out in zip(tangents[start:end], primals[start:end], outs)]
        return [*tangents[:start], *varied, *tangents[end:]]

    def push(self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> Any:
        """The value, and the tangent, of an operation that is neither elementwise nor linear."""
        if primitive.jvp is not None:
            if not primitive.symbolic_zeros:
                tangents = [instantiate(t, type_of(x)) for t, x in zip(tangents, primals, strict=True)]
            rule = functools.partial(primitive.jvp, primals, tangents, **params)
            return self.received(primitive, "jvp", primals, params, self.by_rule(primitive, rule, "jvp", self.role, tangents))
        if primitive.linearize is not None:
            pushed = self.push_linearized(primitive, primals, tangents, params)
            if pushed is not NotImplemented:
                return pushed
            raise primitive.missing("jvp", self.transformation)
        out = primitive(*primals, **params)
        if any([is_inexact(type_of(o).dtype) for o in (out if primitive.multiple_results else (out,))]):
            raise primitive.missing("jvp", self.transformation)
        return out, (ZERO,) * len(out) if primitive.multiple_results else ZERO

    def push_linearized(self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> Any:
        """The operation's value and tangent by its own linearization."""
        active = tuple([t is not ZERO for t in tangents])
        rule = functools.partial(primitive.linearize, primals, active, **params)  # type: ignore[arg-type, misc]
        linearized = self.by_rule(primitive, rule, "linearize", "residual")
        if linearized is NotImplemented:
            return NotImplemented
        if not isinstance(linearized, (tuple, list)) or len(linearized) != 2 or not callable(linearized[1]):
            raise primitive.malformed("linearize", "a pair, the result and the function of the tangents", linearized)
        out, push = linearized
        if self.told:
            tangents = self.carried(primitive, primals, tangents, out, params)
        moving = [t for t in tangents if t is not ZERO]
        pushed = self.by_rule(primitive, functools.partial(push, *moving), "linearize", "tangent", moving)
        return self.received(primitive, "linearize", primals, params, (out, pushed))

    def received(self, primitive: Primitive, rule: str, primals: list[Any], params: dict[str, Any], returned: Any) -> Any:
        """What a rule returned, if it is a result and a tangent of its shape and dtype, or a tuple of each."""
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise primitive.malformed(rule, "a pair, the result and its tangent", returned)
        outs, tangents = returned if primitive.multiple_results else ((returned[0],), (returned[1],))
        known = None
        if not primitive.on_arrays and primitive.evaluate is not None and primitive.result_type is not None:
            known = primitive.infer(tuple([type_of(x) for x in primals]), params)
            known = known if primitive.multiple_results else (known,)
        outs = primitive.values(rule, "a result of the type rule's", outs, known)
        if not isinstance(tangents, (tuple, list)) or len(outs) != len(tangents):
            raise primitive.malformed(rule, "a tangent for each result", returned)
        for one in (*outs, *tangents):
            if one.__class__ is Dual and one.owner is self:
                raise closed_over(f"The {rule} rule of {owner(primitive, params)}", one)
        found = tuple([self.tangent(primitive, rule, params, out.type, t) for out, t in zip(outs, tangents)])
        return (outs, found) if primitive.multiple_results else (outs[0], found[0])

    def tangent(self, primitive: Primitive, rule: str, params: dict[str, Any], type: ArrayType, returned: Any) -> Any:
        """A tangent that a rule returned for a result of a type; that of an integer or bool is zero, whatever it returned."""
        if returned is ZERO or not is_inexact(type.dtype):
            return ZERO
        return primitive.value(rule, "a tangent of the result's", returned, type)

    def combine(self, terms: list[tuple[Any, Any]], type: ArrayType, primitive: Primitive) -> Any:
        """sum_i tangent_i * multiplier_i, of shape `type.shape`: the tangent of an operation, by the partials of its primitive.
        A multiplier is an array or an integer."""
        if self.recording is None:
            return combine(terms, type)
        return self.by_rule(primitive, functools.partial(combine, terms, type), "partials", "tangent")

    def push_linear(
        self, primitive: Primitive, primals: list[Any], tangents: list[Any], params: dict[str, Any], out: Any
    ) -> Any:
        """The tangent of a linear operation: the operation itself, on the tangents."""
        args = linear_operands(primitive, primals, tangents)
        if args is None:
            return (ZERO,) * len(out) if primitive.multiple_results else ZERO
        if not primitive.multiple_results and not is_inexact(out.type.dtype):
            return ZERO
        found = self.apply_linear(primitive, args, params, out)
        if not primitive.multiple_results:
            return found
        return tuple([t if is_inexact(o.type.dtype) else ZERO for o, t in zip(out, found, strict=True)])

    def apply_linear(self, primitive: Primitive, args: list[Any], params: dict[str, Any], out: Any) -> Any:
        """A linear operation on tangents, whose result is of the type of `out`."""
        return self.by_rule(primitive, functools.partial(bind_named, primitive, args, params), "linear", "tangent")


def owner(primitive: Primitive, params: dict[str, Any]) -> str:
    """Whose rule it is, for an error message: a user's function's, or a primitive's."""
    described = [value.described for value in params.values() if hasattr(value, "described")]
    return described[0] if described else f"primitive {primitive.name!r}"


def has_derivative(primitive: Primitive) -> bool:
    """Whether a primitive has a rule by which tangents can be pushed through it."""
    return bool(primitive.partials or primitive.linear or primitive.jvp or primitive.linearize)


def is_linear_in(primitive: Primitive, tangents: Sequence[Any]) -> bool:
    """Whether a primitive is jointly linear in all of the operands that have tangents."""
    return all([flag or tangent is ZERO for tangent, flag in zip(tangents, primitive.linear_flags(len(tangents)))])


def linear_operands(primitive: Primitive, primals: list[Any], tangents: list[Any]) -> list[Any] | None:
    """What a linear operation takes to give its tangent: tangents where it is linear, primals elsewhere. None if all
    the tangents are zero."""
    linear = primitive.linear
    if linear is True and len(tangents) == 1:
        return None if tangents[0] is ZERO else tangents
    flags = primitive.linear_flags(len(primals))
    if all(t is ZERO for t, flag in zip(tangents, flags) if flag):
        return None
    return [instantiate(t, type_of(x)) if flag else x for x, t, flag in zip(primals, tangents, flags)]


def jvp_flat(
    function: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any], described: Any = None
) -> tuple[list[Any], list[Any]]:
    """Values and tangents of a flat function; a tangent may be ZERO, and those returned may be."""
    trace = JvpTrace(described or function)
    note(trace)
    try:
        outs = function(*[x if t is ZERO else Dual(trace, x, t) for x, t in zip(primals, tangents)])
    finally:
        trace.open = False
    values, out_tangents = [], []
    for out in outs:
        value, tangent = trace.split(out)
        values.append(value)
        out_tangents.append(tangent)
    return values, out_tangents
