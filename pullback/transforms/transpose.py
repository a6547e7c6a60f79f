"""Transposition: run a linear function backwards.

A `Tape` records linear operations on values that are not known yet, and everything else, being known, is simply computed
as it comes: dispatch on the data splits the known from the unknown, and no partial evaluation is needed. Walking the
tape from its end with cotangents gives the transpose; walking it from its start with tangents gives the linear function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from pullback.core.array import Array, as_array
from pullback.core.dtypes import is_inexact
from pullback.core.errors import GradientError, LeafError, NotLinear
from pullback.core.primitive import Primitive
from pullback.core.source import at_line, describe
from pullback.core.tracing import Trace, Tracer, bind, type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ONES, ZERO, instantiate, zeros
from pullback.ops.arithmetic import add
from pullback.ops.broadcast import reduce_sum
from pullback.ops.scaling import combine, ones_times, real_ones, scaled
from pullback.program.equality import param_key
from pullback.program.equation import Equation
from pullback.program.program import programs_in
from pullback.program.provenance import Attribution, Recorder, here, recorder, replaying, rule_of, source_of
from pullback.transforms.stage import Staged
from pullback.transforms.zeros import is_zero, zero_of

UNRECORDED = nullcontext(None)


class Linear(Tracer):
    """A value on a tape: a linear function of the tape's inputs, known by its index there."""

    __slots__ = ("index", "type")
    owner: Tape

    def __init__(self, trace: Tape, type: ArrayType) -> None:
        self.owner = trace
        self.type = type
        self.index = len(trace.types)
        trace.types.append(type)


# A tape's steps name values by index, never by tracer: tracers point to their tape, and a cycle would keep every residual
# alive until the garbage collector happens to run.


class Scale:
    """A step of the tape: out = sum_i value_i * multiplier_i. A multiplier is an array or an integer; `primitive` is that whose
    partials they are."""

    __slots__ = ("origin", "out", "primitive", "terms")

    def __init__(self, terms: list[tuple[int, Any]], out: int, primitive: Primitive, origin: Attribution = None) -> None:
        self.terms = terms
        self.out = out
        self.primitive = primitive
        self.origin = origin  # to what the operations that it leads to are attributed

    @property
    def key(self) -> Any:
        return tuple(self.terms), self.out


class Slot:
    """Among the operands of a step: the place of a value of the tape."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Known(NamedTuple):
    """In place of a known value: its number, in a tape that is kept without them."""

    number: int


class Stand:
    """In place of a known value: what stands for it while trees are taken apart and put together, a type or None say."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Zeros(NamedTuple):
    """Among the operands of a step: in place of a known value that is zero, so that it is made anew where the step is walked,
    and known to be zero there too."""

    type: ArrayType


class Apply:
    """A step of the tape: any other linear operation. Its operands are known values, Zeros and Slots; `rule` is whose it is."""

    __slots__ = ("affine", "operands", "origin", "outs", "params", "primitive", "rule", "zeros")

    def __init__(
        self, primitive: Primitive, operands: list[Any], params: dict[str, Any], outs: list[int], origin: Attribution = None
    ) -> None:
        self.primitive = primitive
        self.operands = operands
        self.params = params
        self.outs = outs
        self.origin = origin
        self.rule = ""  # the user's rule that applied it, in words
        self.affine = False  # whether a known operand adds something to the result that is not known to be zero
        self.zeros = False  # whether there are Zeros among the operands

    @property
    def key(self) -> Any:
        operands = tuple([operand.index if operand.__class__ is Slot else operand for operand in self.operands])
        return (
            self.primitive,
            operands,
            tuple([(name, param_key(value)) for name, value in self.params.items()]),
            tuple(self.outs),
        )


class Tape(Trace):
    """The trace that records linear operations.

    Attributes:
        types: the type of each value on the tape, the inputs first.
        steps: the operations, in order.
    """

    __slots__ = ("steps", "types")
    transformation = "transposition"

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        self.types: list[ArrayType] = []
        self.steps: list[Scale | Apply] = []
        self.recording = self.recording is not None  # a tape may be kept, when there is no Recorder any more

    def scale(self, terms: list[tuple[Linear, Any]], type: ArrayType, primitive: Primitive) -> Linear:
        """Record sum_i value_i * multiplier_i."""
        out = Linear(self, type)
        origin = here() if self.recording else None
        self.steps.append(Scale([(value.index, multiplier) for value, multiplier in terms], out.index, primitive, origin))
        return out

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], types: Sequence[ArrayType]) -> Any:
        """Record a linear operation whose results have `types`."""
        operands = [Slot(arg.index) if arg.__class__ is Linear and arg.owner is self else arg for arg in args]
        outs = tuple([Linear(self, type) for type in types])
        # A product of two unknown values, and a quotient by one: if they are needed, an error names their line
        alike = args[0].__class__ is Linear if primitive.bilinear else primitive.linear == ("x",)
        nonlinear = primitive.transpose is None or (alike and args[-1].__class__ is Linear and len(args) > 1)
        origin = here() if self.recording or nonlinear else None
        self.steps.append(Apply(primitive, operands, params, [out.index for out in outs], origin))
        return outs if primitive.multiple_results else outs[0]

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        for arg in args:  # all that a rule should meet are values without their tangents, and tangents
            if arg.__class__ is not Linear and isinstance(arg, Tracer) and getattr(arg.owner, "tape", None) is self:
                raise closed_over("A derivative rule", arg)
        if primitive.expand is not None and (primitive.transpose is None or any([p.effects for p in programs_in(params)])):
            return primitive.expanded(args, params)  # what is known in a called Program is done now, and once: its effects
        if primitive.depends is not None:
            unknown = tuple([int(self.index_of(arg) is not None) for arg in args])
            reached = primitive.depends(unknown, **params)
            if not all(reached):
                return self.in_two(primitive, args, params, reached)
        return self.record(primitive, args, params)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Record an operation all of whose results depend on what is unknown."""
        result = primitive.infer(tuple([type_of(arg) for arg in args]), params)
        out = self.apply(primitive, args, params, result if primitive.multiple_results else (result,))
        if primitive.linear is True or (primitive.linear and len(primitive.linear) > 1):  # jointly in several
            flags: Sequence[bool] = primitive.linear_flags(len(args))
        elif primitive.wiring is not None:  # a loop may add to a carry that starts from one of them
            flags = [isinstance(arg, Staged) for arg in args]
        else:
            return out
        step: Any = self.steps[-1]
        for i, (arg, flag) in enumerate(zip(args, flags)):
            if flag and self.index_of(arg) is None:
                if not is_zero(arg):
                    if primitive.wiring is None:
                        step.affine, step.origin = True, step.origin or here()
                elif arg.__class__ is Staged and is_inexact(arg.type.dtype):
                    step.operands[i], step.zeros = Zeros(arg.type), True
        return out

    def in_two(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], reached: Sequence[int]) -> Any:
        """An operation that holds Programs, as two: one for the results that depend on what is unknown (`reached`), which is
        recorded, and before it one for the others, which is done as it comes."""
        outs: list[Any] = [None] * len(reached)
        for wanted in (tuple([1 - flag for flag in reached]), tuple(reached)):
            if any(wanted):
                own_params, inputs, outputs = _pruned(primitive, wanted, params, len(args))
                operands = [args[i] for i in inputs]
                apply = self.record if any([self.index_of(operand) is not None for operand in operands]) else bind
                found = dict(zip(outputs, apply(primitive, operands, own_params), strict=True))
                outs = [found[i] if flag else out for i, (flag, out) in enumerate(zip(wanted, outs))]
        return tuple(outs)

    def made_by(self, rule: str, start: int) -> None:
        """Say of the steps since number `start` whose rule applied them, where that is not known."""
        for step in self.steps[start:]:
            if isinstance(step, Apply) and not step.rule:
                step.rule = rule

    def without(self, start: int, zeros: set[int]) -> set[int]:
        """Take out of the steps since number `start` what is zero where the values `zeros` are; gives all values that are."""
        kept: list[Scale | Apply] = []
        for step in self.steps[start:]:
            if isinstance(step, Scale):
                step.terms = [(index, multiplier) for index, multiplier in step.terms if index not in zeros]
                needed, outs = len(step.terms), [step.out]
            else:
                needed = sum([slot.index not in zeros for slot in step.operands if slot.__class__ is Slot])
                outs = step.outs
            if needed or (isinstance(step, Apply) and step.affine):
                kept.append(step)
            else:
                zeros.update(outs)
        self.steps[start:] = kept
        return zeros

    def index_of(self, value: Any) -> int | None:
        """A value's index, if it is one of this tape's."""
        return value.index if value.__class__ is Linear and value.owner is self else None

    def mapped(self, new: Callable[[Any], Any], origins: bool = True) -> Tape:
        """The same steps on other known values: `new` gives the one for each. Without `origins`, the steps forget theirs."""
        made = Tape(self.function)
        made.types, made.open = self.types, False
        for step in self.steps:
            origin = step.origin if origins else None
            if isinstance(step, Scale):
                terms = [(index, new(multiplier)) for index, multiplier in step.terms]
                made.steps.append(Scale(terms, step.out, step.primitive, origin))
            else:
                operands = [operand if operand.__class__ is Slot else new(operand) for operand in step.operands]
                applied = Apply(step.primitive, operands, step.params, step.outs, origin)
                applied.rule, applied.affine, applied.zeros = step.rule, step.affine, step.zeros
                made.steps.append(applied)
        return made

    def emptied(self) -> tuple[list[Any], Tape]:
        """The arrays and tracers that the steps use, each once, and the steps with a `Known` in their places."""
        values: list[Any] = []
        places: dict[int, Known] = {}

        def place(value: Any) -> Any:
            if not isinstance(value, (Array, Tracer, Stand)):
                return value
            if id(value) not in places:
                places[id(value)] = Known(len(values))
                values.append(value.value if isinstance(value, Stand) else value)
            return places[id(value)]

        return values, self.mapped(place, origins=False)  # equal tapes stand for one another

    @property
    def key(self) -> Any:
        """Equal for emptied tapes of the same steps."""
        return tuple(self.types), tuple([step.key for step in self.steps])

    def filled(self, values: Sequence[Any]) -> Tape:
        """The steps with these values in the places that `emptied` left."""
        placed = [value if isinstance(value, (Array, Tracer)) else Stand(value) for value in values]
        return self.mapped(lambda value: placed[value.number] if value.__class__ is Known else value)

    def ready(self) -> Tape:
        """The steps with arrays in the place of all that `filled` was given: an error, where it was nothing that can be one."""
        return self.mapped(lambda value: as_array(value.value) if value.__class__ is Stand else value)

    # ---- walking it ----

    def walking(self, rule: str, role: str) -> AbstractContextManager[Recorder | None]:
        """Say what is staged while the tape is walked; gives what is to be told of each step, if there is anything."""
        recording = recorder()
        return replaying(recording, "grad", rule, role) if self.recording and recording is not None else UNRECORDED

    def backward(self, outs: Sequence[int | None], cotangents: Sequence[Any], inputs: Sequence[int]) -> list[Any]:
        """The transpose: cotangents of `outs` (ZERO and ONES allowed) to cotangents of `inputs` (ZERO possible)."""
        types = self.types
        found: list[Any] = [None] * len(types)
        said_zero: set[int] = set()  # by rules: those before them that are told of zeros are asked all the same
        ones_from: dict[int, Any] = {}  # what cotangents that are ONES came from, by index: to that, real ones are attributed

        def accumulate(index: int, cotangent: Any) -> None:
            type, before = types[index], found[index]
            if cotangent is ONES:
                if recording is not None:
                    ones_from[index] = recording.attributed, recording.made
            elif cotangent.type is not type and cotangent.type.shape != type.shape:
                # a 0-d operand of an elementwise operation was repeated
                cotangent = reduce_sum(cotangent, axes=tuple(range(cotangent.type.ndim)))
            found[index] = cotangent if before is None else add(real_ones(before, type), real_ones(cotangent, type))

        with self.walking("transpose", "cotangent") as recording:
            for out, cotangent in zip(outs, cotangents, strict=True):
                if out is not None and cotangent is not ZERO:
                    accumulate(out, cotangent)
            walked = None if recording is None else recording.made
            rules: dict[Any, Any] = {}
            for step in reversed(self.steps):
                if recording is not None:
                    recording.attributed = step.origin
                    whose = step.primitive
                    recording.made = rules.get(whose) or rules.setdefault(whose, rule_of(walked, whose))
                if step.__class__ is Scale:
                    cotangent = found[step.out]
                    if cotangent is None:
                        if step.out in said_zero:
                            said_zero.update([index for index, _ in step.terms])
                        continue
                    found[step.out] = None
                    for index, multiplier in step.terms:
                        if cotangent is ONES:
                            term = ones_times(multiplier, types[step.out], types[index])
                        else:
                            term = scaled(cotangent, multiplier)
                            if found[index] is None and term.type is types[index]:  # as most often
                                found[index] = term
                                continue
                        accumulate(index, term)
                else:
                    self._backward_apply(step, found, said_zero, accumulate)  # type: ignore[arg-type]
            returned = []
            for index in inputs:
                cotangent = found[index]
                if cotangent is ONES and recording is not None:
                    recording.attributed, recording.made = ones_from[index]
                returned.append(ZERO if cotangent is None else real_ones(cotangent, types[index]))
        return returned

    def _backward_apply(
        self, step: Apply, found: list[Any], said_zero: set[int], accumulate: Callable[[int, Any], None]
    ) -> None:
        primitive = step.primitive
        cotangents = [found[out] for out in step.outs]
        for cotangent in cotangents:
            if cotangent is not None:
                break
        else:
            if said_zero.isdisjoint(step.outs):
                return
            if not primitive.symbolic_cotangents:
                said_zero.update([operand.index for operand in step.operands if operand.__class__ is Slot])
                return
        for out in step.outs:
            found[out] = None
        if primitive.keeps_ones and cotangents[0] is ONES:
            accumulate(step.operands[0].index, ONES)
            return
        if cotangents[0] is ONES or len(cotangents) > 1:
            cotangents = [real_ones(cotangent, self.types[out]) for cotangent, out in zip(cotangents, step.outs)]
        if step.affine:
            raise affine(step)
        if primitive.transpose is None:
            if primitive.partials is not None and not primitive.linear:
                raise nonlinear(step)
            raise primitive.missing(
                "transpose", "reverse-mode differentiation (grad, vjp, linear_transpose)", source_of(step.origin)
            )
        operands, params, outs = step.operands, step.params, step.outs
        if step.zeros:
            operands = [zero_of(operand.type) if operand.__class__ is Zeros else operand for operand in operands]
        if primitive.prune is not None and None in cotangents:  # what nobody asks for need not be linear, or have a transpose
            wanted = tuple([int(cotangent is not None) for cotangent in cotangents])
            params, inputs, outputs = _pruned(primitive, wanted, params, len(operands))
            operands = [operands[i] for i in inputs]
            outs, cotangents = [outs[i] for i in outputs], [cotangents[i] for i in outputs]
        args = [self.types[operand.index] if operand.__class__ is Slot else operand for operand in operands]
        given = cotangents[0]
        if primitive.multiple_results:
            symbolic, types = primitive.symbolic_cotangents, [self.types[out] for out in outs]
            given = [c if c is not None else ZERO if symbolic else zeros(t) for c, t in zip(cotangents, types, strict=True)]
        try:
            results = primitive.transpose(given, *args, **params)
        except LeafError as error:  # the rule took the type of an unknown operand for a value
            if primitive.linear is True:
                raise
            raise nonlinear(step) from error
        if not isinstance(results, (tuple, list)) or len(results) != len(args):
            raise primitive.malformed("transpose", "a cotangent or None for each operand", results)
        for operand, result in zip(operands, results, strict=True):
            if operand.__class__ is Slot and result is ZERO:
                said_zero.add(operand.index)
            elif operand.__class__ is Slot:
                type = self.types[operand.index]
                if result.__class__ is not Array or result.type is not type:
                    if result is None:
                        must = f"a cotangent for each operand that is unknown (pb.ZERO if it is zero), and one of type {type}"
                        raise primitive.malformed("transpose", must + " is", results)
                    if primitive.elementwise and not type.shape:  # it may have been repeated
                        type = type.with_shape(getattr(result, "shape", ()))
                    result = primitive.value("transpose", "a cotangent of its operand's", result, type)
                accumulate(operand.index, result)

    def forward(self, inputs: Sequence[int], tangents: Sequence[Any], outs: Sequence[int | None]) -> list[Any]:
        """The linear function itself: tangents of `inputs` to tangents of `outs`; ZERO goes through as ZERO."""
        values: list[Any] = [ZERO] * len(self.types)
        for index, tangent in zip(inputs, tangents, strict=True):
            values[index] = tangent
        with self.walking("linearize", "tangent") as recording:
            for step in self.steps:
                if recording is not None:
                    recording.attributed = step.origin
                if isinstance(step, Scale):
                    terms = [(values[index], multiplier) for index, multiplier in step.terms if values[index] is not ZERO]
                    values[step.out] = combine(terms, self.types[step.out])
                    continue
                given = [values[operand.index] for operand in step.operands if operand.__class__ is Slot]
                if all(value is ZERO for value in given):
                    continue
                args = [
                    instantiate(values[operand.index], self.types[operand.index])
                    if operand.__class__ is Slot
                    else zero_of(operand.type)
                    if operand.__class__ is Zeros
                    else operand
                    for operand in step.operands
                ]
                with replaying(recording, "grad", step.rule, "tangent") if step.rule and recording else UNRECORDED:
                    result = step.primitive(*args, **step.params)
                for out, value in zip(step.outs, result if step.primitive.multiple_results else (result,), strict=True):
                    values[out] = value
        return [ZERO if out is None else values[out] for out in outs]


def _pruned(
    primitive: Primitive, wanted: tuple[int, ...], params: dict[str, Any], count: int
) -> tuple[dict[str, Any], Sequence[int], Sequence[int]]:
    """What is left of an operation on `count` operands that serves the wanted results: parameters, operands and results."""
    found = primitive.prune(wanted, **params)  # type: ignore[misc]
    return (params, range(count), range(len(wanted))) if found is None else found


def nonlinear(step: Apply) -> NotLinear:
    """The error for transposing an operation that is not linear."""
    name, at, rule = step.primitive.name, at_line(source_of(step.origin)), step.rule or _users_rule(step.origin)
    if rule:
        return NotLinear(
            f"{rule} must be linear in the tangents, but it applies {name!r} to an unknown tangent, in which that is not"
            f" linear.{at} Multiply the tangents by what does not depend on them."
        )
    return NotLinear(
        f"linear_transpose met {name!r} applied to an unknown value; it is not linear in that operand, so the"
        f" function has no transpose. Use vjp, which linearizes the function first.{at}"
    )


def affine(step: Apply) -> NotLinear:
    """The error for transposing an operation that adds something known to an unknown value."""
    name, at, rule = step.primitive.name, at_line(source_of(step.origin)), step.rule or _users_rule(step.origin)
    if rule:
        return NotLinear(
            f"{rule} must be linear in the tangents, but by {name!r} it adds to them a value that does not depend on them,"
            f" and that is not known to be zero.{at} A tangent is zero where the tangents of the arguments are: leave it out."
        )
    return has_constant_part(f"{name!r} adds to an unknown value one that is known, and not known to be zero", at)


def has_constant_part(how: str, at: str = "") -> NotLinear:
    """The error for transposing a function that is not zero where its arguments are."""
    return NotLinear(
        f"A function that must be linear has a constant part: {how}.{at} Such a function has no transpose: leave the constant"
        " part out, or use vjp, which linearizes the function first."
    )


# How a user's rules by which tangents are pushed are called, before the name of whose they are.
JVP_RULE, LINEARIZE_RULE = "The jvp rule of ", "The linearize rule of "


def _users_rule(origin: Attribution) -> str:
    """The user's rule by which an equation was made, or one that it was derived from; empty if there is none."""
    while isinstance(origin, Equation):
        made = origin.made
        while made is not None:
            if made.rule.startswith((JVP_RULE, LINEARIZE_RULE)):
                return made.rule
            made = made.within
        origin = origin.origin
    return ""


def closed_over(whose: str, value: Tracer) -> GradientError:
    """The error for a rule that uses a value with its tangent, which it can only have by closing over it."""
    where = value.where()
    return GradientError(
        f"{whose} uses a value of type {value.type} that it closes over{f' ({where})' if where else ''}, and that is being"
        " differentiated. A rule only says how a function depends on its arguments: pass the value as one of them"
        " (pb.closure_convert finds the values that a function closes over), or, if it is meant to be a constant, through"
        " pb.stop_gradient."
    )


def transpose_flat(
    function: Callable[..., Sequence[Any]],
    types: Sequence[ArrayType],
    cotangents: Sequence[Any],
    described: Any = None,
    partly: bool = False,
) -> list[Any]:
    """The transpose of a flat linear function, applied to cotangents: one cotangent per input, ZERO possible.

    Results that are known must be known to be zero; unless they are not asked for, since the function is linear only `partly`.
    """
    tape = Tape(described or function)
    inputs = [Linear(tape, type) for type in types]
    try:
        outs = function(*inputs)
    finally:
        tape.open = False
    indices = [tape.index_of(out) for out in outs]
    if None in indices and not partly:
        for out, index, cotangent in zip(outs, indices, cotangents, strict=True):
            if index is None and cotangent is not ZERO and is_inexact(type_of(out).dtype) and not is_zero(out):
                whose = describe(described) if described is not None else "it"
                raise has_constant_part(f"{whose} returns a value that depends on nothing unknown, and is not known to be zero")
    return tape.backward(indices, cotangents, range(len(inputs)))
