"""The rules that users give to functions of their own, as the primitive `custom_function` holds them: flat, and derived.

Every transformation of such a function keeps its rules. Batching it batches each of them; what it closes over becomes an
operand of each. So a `CustomRules` is either the user's own, or made of another one.

The operands of a rule are all those of the function, the captured ones first. Tangents and cotangents may be ZERO.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.core.axes import Axis
from pullback.core.dtypes import is_inexact
from pullback.core.errors import AxisError, EscapedTracerError, GradientError, PullbackError
from pullback.core.source import describe
from pullback.core.tracing import Tracer, type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, instantiate
from pullback.ops.broadcast import reduce_sum
from pullback.program.equality import Keyed
from pullback.program.program import Program, run
from pullback.transforms.batch import Batched, BatchTrace, batch_flat, materialize, repeated
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.stage import stage
from pullback.transforms.transpose import transpose_flat


class CustomRules(Keyed):
    """The rules of one function.

    Attributes:
        function: the user's function, for messages. kind: `custom_jvp`, `custom_vjp` or `custom_vmap`, for the same.
        captured: how many of the operands, the first ones, are values that the function closes over.
        has_jvp, has_vjp, has_vmap: which rules there are. symbolic: whether the jvp rule is told which tangents are zero.
    """

    __slots__ = ("captured", "function", "has_jvp", "has_vjp", "has_vmap", "kind", "symbolic")
    function: Callable[..., Any] | None
    kind: str
    symbolic: bool

    def __init__(
        self,
        key: Any,
        like: CustomRules | None = None,
        *,
        function: Callable[..., Any] | None = None,
        kind: str = "",
        symbolic: bool = False,
        captured: int = 0,
        has_jvp: bool = False,
        has_vjp: bool = False,
        has_vmap: bool = False,
    ) -> None:
        self.key = (type(self), key)
        self.function = like.function if like is not None else function
        self.kind = like.kind if like is not None else kind
        self.symbolic = like.symbolic if like is not None else symbolic
        self.captured = captured
        self.has_jvp = has_jvp
        self.has_vjp = has_vjp
        self.has_vmap = has_vmap

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def described(self) -> str:
        """The function in words."""
        return describe(self.function) if self.function is not None else "a function"

    @property
    def printed(self) -> str:
        """How a printed Program shows this parameter."""
        return f"{self.kind} of {self.name}"

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Results, and their tangents."""
        raise NotImplementedError

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        """Results, residuals, and what else `backward` needs: something hashable that holds no traced value."""
        raise NotImplementedError

    def backward(self, kept: Any, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the results to those of all operands."""
        raise NotImplementedError

    def vmap(self, size: int, batched: Sequence[bool], operands: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        """Results on a batch, and which of them carry it."""
        raise NotImplementedError

    def refuse_captured(self, concerned: Sequence[bool], operands: Sequence[Any], what: str) -> None:
        """Raise an error where one of the captured operands is concerned by a transformation that the rules do not speak of."""
        for flag, operand in zip(concerned[: self.captured], operands):
            if flag:
                raise closed_over(self.described, self.kind, type_of(operand), what)


def closed_over(described: str, kind: str, type: ArrayType, what: str = "differentiated") -> PullbackError:
    """The error for transforming a function with rules by a value that is none of its arguments."""
    return (AxisError if what == "batched" else GradientError)(
        f"The {kind} function {described} is {what} with respect to a value of type {type} that it closes over, or that is"
        " passed in a position of nondiff_argnums. Its rules only say how it depends on its other arguments. Pass the value"
        " as one of those (pb.closure_convert finds the values that a function closes over), or, if it is meant to be a"
        " constant, through pb.stop_gradient."
    )


# ---- what a function closes over --------------------------------------------------------------------------------------


class Closed(NamedTuple):
    """A rule as a Program. Its first inputs are captured operands: those at the places `picks`."""

    program: Program
    picks: tuple[int, ...]

    def __call__(self, captured: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
        return run(self.program, [*[captured[i] for i in self.picks], *rest])


def inexact_flags(types: Sequence[ArrayType]) -> list[bool]:
    return [is_inexact(type.dtype) for type in types]


class ClosedRules(CustomRules):
    """Rules of a function that closes over traced values, which have become operands of the rules too.

    Traced at once: later, the traced values that the user's rules close over will be gone. A rule that cannot be traced
    (it branches on values, say) stays a Python function, which serves as long as they are there.
    """

    __slots__ = ("_backward", "_forward", "_found", "_inner", "_jvp", "_kept", "_outs", "_pushed", "_types")

    def __init__(self, inner: CustomRules, captured: list[Tracer], types: Sequence[ArrayType], out_types: Sequence[ArrayType]):
        self._inner = inner
        self._types = types
        self._outs = inexact_flags(out_types)
        self._jvp = self._forward = self._backward = None
        tangents = [type.strong() for type in types if is_inexact(type.dtype)]
        cotangents = [type.strong() for type in out_types if is_inexact(type.dtype)]
        if inner.has_jvp:
            self._jvp = self._close(self._push, [*types, *tangents], captured)
        if inner.has_vjp:
            self._forward = self._close(self._go_forward, types, captured)
            if self._forward is not None:
                residuals = self._forward.program.output_types[len(out_types) :]
                self._backward = self._close(self._go_backward, [*residuals, *cotangents], captured)
        super().__init__(
            object(), inner, captured=len(captured), has_jvp=inner.has_jvp, has_vjp=inner.has_vjp, has_vmap=inner.has_vmap
        )
        closed = (self._jvp is not None or not inner.has_jvp) and (self._backward is not None or not inner.has_vjp)
        if closed and not inner.has_vmap:
            self._inner = CustomRules(None, inner)  # which holds no traced value

    def _close(self, rule: Callable[..., Any], types: Sequence[ArrayType], captured: list[Tracer]) -> Closed | None:
        with contextlib.suppress(Exception):  # what is wrong with a rule is said when it is used
            program, found = stage(rule, types, name=self._inner.name)
            places = {id(tracer): i for i, tracer in enumerate(captured)}
            for tracer in found:
                if id(tracer) not in places:
                    places[id(tracer)] = len(captured)
                    captured.append(tracer)
            return Closed(drop_dead_code(program), tuple([places[id(tracer)] for tracer in found]))
        return None

    def _push(self, *args: Any) -> list[Any]:
        given = iter(args[len(self._types) :])
        tangents = [next(given) if flag else ZERO for flag in inexact_flags(self._types)]
        outs, found = self._inner.jvp(args[: len(self._types)], tangents)
        self._pushed = tuple([t is not ZERO for t in found])
        return [*outs, *[t for t in found if t is not ZERO]]

    def _go_forward(self, *args: Any) -> list[Any]:
        outs, residuals, self._kept = self._inner.forward(args, inexact_flags(self._types))
        return [*outs, *residuals]

    def _go_backward(self, *args: Any) -> list[Any]:
        start = len(args) - sum(self._outs)
        given = iter(args[start:])
        found = self._inner.backward(self._kept, args[:start], [next(given) if flag else ZERO for flag in self._outs])
        self._found = tuple([ct is not ZERO for ct in found])
        return [ct for ct in found if ct is not ZERO]

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        captured, args, given = operands[: self.captured], operands[self.captured :], tangents[self.captured :]
        if self._jvp is None:
            return self._inner.jvp(args, given)
        full = [instantiate(t, type) for t, type in zip(given, self._types) if is_inexact(type.dtype)]
        outs = self._jvp(captured, *args, *full)
        count = len(self._outs)
        found = iter(outs[count:])
        return list(outs[:count]), [next(found) if flag else ZERO for flag in self._pushed]

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        captured, args = operands[: self.captured], operands[self.captured :]
        if self._forward is None or self._backward is None:
            return self._inner.forward(args, active[self.captured :])
        outs = self._forward(captured, *args)
        count = len(self._outs)
        needed = [captured[i] for i in self._backward.picks]
        return list(outs[:count]), [*needed, *outs[count:]], None

    def backward(self, kept: Any, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        none = [ZERO] * self.captured
        if self._forward is None or self._backward is None:
            return [*none, *self._inner.backward(kept, residuals, cotangents)]
        types = self._backward.program.input_types[len(residuals) :]
        full = [instantiate(ct, type) for ct, type in zip(chosen(cotangents, self._outs), types)]
        found = iter(run(self._backward.program, [*residuals, *full]))
        return [*none, *[next(found) if flag else ZERO for flag in self._found]]

    def vmap(self, size: int, batched: Sequence[bool], operands: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        self.refuse_captured(batched, operands, "batched")
        try:
            return self._inner.vmap(size, batched[self.captured :], operands[self.captured :])
        except EscapedTracerError:  # the rule closes over what it was traced with, which is gone
            raise closed_over(self.described, self.kind, type_of(operands[0]), "batched") from None


# ---- batched rules ----------------------------------------------------------------------------------------------------


class BatchedRules(CustomRules):
    """The derivative rules of a function on a batch: each applied to all batch elements at once.

    Attributes:
        axes: for each operand of the function, 0 if it carries the batch, else None. outs: which results carry it.
        extra: how many operands stand in front of those, captured by the function that computes the batch.
    """

    __slots__ = ("axes", "batch", "extra", "inner", "outs")

    def __init__(
        self, inner: CustomRules, batch: Axis, axes: Sequence[int | None], outs: Sequence[bool], extra: int = 0
    ) -> None:
        self.inner = inner
        self.batch = batch
        self.axes = tuple(axes)
        self.outs = tuple(outs)
        self.extra = extra
        key = (inner, batch, self.axes, self.outs, extra)
        super().__init__(key, inner, captured=inner.captured + extra, has_jvp=inner.has_jvp, has_vjp=inner.has_vjp)

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        trace, outs, found = self._push(operands[self.extra :], tangents[self.extra :])
        return self._placed(trace, outs), self._placed(trace, found)

    def _push(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[BatchTrace, list[Any], list[Any]]:
        live = [t is not ZERO for t in tangents]
        count = len(operands)

        def push(*args: Any) -> list[Any]:
            given = iter(args[count:])
            outs, found = self.inner.jvp(args[:count], [next(given) if flag else ZERO for flag in live])
            return [*outs, *found]

        flags = [axis == 0 for axis in self.axes]
        given = [*operands, *chosen(tangents, live)]
        trace, found = batch_flat(push, given, [*flags, *chosen(flags, live)], self.batch, self.function)
        return trace, list(found[: len(found) // 2]), list(found[len(found) // 2 :])

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        trace, outs, residuals, kept = self._go_forward(operands[self.extra :], active[self.extra :])
        carried = _carried(trace, residuals)
        return self._placed(trace, outs), [x.value if f else x for x, f in zip(residuals, carried)], (kept, tuple(carried))

    def _go_forward(self, operands: Sequence[Any], active: Sequence[bool]) -> tuple[BatchTrace, list[Any], list[Any], Any]:
        box: list[Any] = []

        def forward(*args: Any) -> list[Any]:
            outs, residuals, kept = self.inner.forward(args, active)
            box.extend((len(outs), kept))
            return [*outs, *residuals]

        trace, found = batch_flat(forward, operands, [axis == 0 for axis in self.axes], self.batch, self.function)
        count, kept = box
        return trace, list(found[:count]), list(found[count:]), kept

    def backward(self, kept: Any, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        inner_kept, carried = kept
        live = [ct is not ZERO for ct in cotangents]
        count = len(residuals)

        def backward(*args: Any) -> list[Any]:
            given = iter(args[count:])
            return self.inner.backward(inner_kept, args[:count], [next(given) if flag else ZERO for flag in live])

        given = [*residuals, *chosen(cotangents, live)]
        trace, found = batch_flat(backward, given, [*carried, *chosen(self.outs, live)], self.batch, self.function)
        # The cotangent of what all batch elements share is the sum of theirs
        full = [ct if ct is ZERO else materialize(trace, ct) for ct in found]
        summed = [ct if axis == 0 or ct is ZERO else reduce_sum(ct, axes=(0,)) for ct, axis in zip(full, self.axes)]
        return [ZERO] * self.extra + summed

    def _placed(self, trace: BatchTrace, values: Sequence[Any]) -> list[Any]:
        """Results of a rule: with the batch in front where they are to carry it."""
        return [value if value is ZERO or not flag else materialize(trace, value) for value, flag in zip(values, self.outs)]

    def agree(self, types: Sequence[ArrayType]) -> bool:
        """Whether results that are not to carry the batch do not carry it by the rules either, nor their tangents. Operands
        are of `types`."""
        seen: list[list[bool]] = []

        def look(*operands: Any) -> list[Any]:
            active = inexact_flags(types)
            if self.has_vjp:
                trace, outs, _, _ = self._go_forward(operands, active)
                seen.append(_carried(trace, outs))
            if self.has_jvp:
                tangents = [x if flag else ZERO for x, flag in zip(operands, active)]  # of the right type
                trace, outs, found = self._push(operands, tangents)
                seen.extend((_carried(trace, outs), _carried(trace, found)))
            return []

        try:
            stage(look, types)
        except Exception:  # what is wrong with a rule is said when it is used
            return False
        return not any([carried and not flag for flags in seen for carried, flag in zip(flags, self.outs)])


def _carried(trace: BatchTrace, values: Sequence[Any]) -> list[bool]:
    return [value.__class__ is Batched and value.owner is trace for value in values]


def chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [value for value, flag in zip(values, flags) if flag]


# ---- the derivatives of a batching rule -------------------------------------------------------------------------------


class TangentOfBatching(CustomRules):
    """The batching rule of the derivative of a function that has a batching rule alone: the derivative of that rule.

    The operands are the function's, then the tangents of the active ones; the results, the tangents of the inexact results.
    """

    __slots__ = ("active", "inner")

    def __init__(self, inner: CustomRules, active: tuple[bool, ...]) -> None:
        self.inner = inner
        self.active = active
        super().__init__((inner, active), inner, captured=inner.captured, has_vmap=True)

    def vmap(self, size: int, batched: Sequence[bool], operands: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        count = len(self.active)
        self.refuse_captured([*self.active[: self.captured]], operands, "differentiated and batched")
        given, flags = iter(operands[count:]), iter(batched[count:])
        tangents = [next(given) if flag else ZERO for flag in self.active]
        carried = [next(flags) if flag else False for flag in self.active]
        both = [own or of_tangent for own, of_tangent in zip(batched, carried)]
        primals = [repeated(x, size) if flag and not own else x for x, flag, own in zip(operands, both, batched)]
        tangents = [
            repeated(t, size) if t is not ZERO and flag and not own else t for t, flag, own in zip(tangents, both, carried)
        ]
        box: list[bool] = []

        def rule(*args: Any) -> list[Any]:
            outs, out_batched = self.inner.vmap(size, both, args)
            box.extend(out_batched)
            return outs

        outs, found = jvp_flat(rule, primals, tangents, self.function)
        inexact = inexact_flags([type_of(out) for out in outs])
        full = [instantiate(t, type_of(out)) for t, out in zip(found, outs)]
        return chosen(full, inexact), chosen(box, inexact)


class TransposeOfBatching(CustomRules):
    """The batching rule of the transpose of a linear function that has one: the transpose of that rule.

    The operands are those of the function that are known, then cotangents of the results; the results, the cotangents of
    the operands that are unknown.
    """

    __slots__ = ("inner", "out_types", "types", "unknown")

    def __init__(
        self, inner: CustomRules, unknown: tuple[bool, ...], types: Sequence[ArrayType], out_types: Sequence[ArrayType]
    ):
        self.inner = inner
        self.unknown = unknown
        self.types = tuple(types)  # of the unknown operands
        self.out_types = tuple(out_types)
        captured = sum(not flag for flag in unknown[: inner.captured])
        super().__init__((inner, unknown, self.types, self.out_types), inner, captured=captured, has_vmap=True)

    def vmap(self, size: int, batched: Sequence[bool], operands: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        count = sum(not flag for flag in self.unknown)
        known, cotangents = operands[:count], operands[count:]
        flags = iter(batched[:count])
        carried = [True if flag else next(flags) for flag in self.unknown]
        full = [ct if flag else repeated(ct, size) for ct, flag in zip(cotangents, batched[count:])]

        def linear(*xs: Any) -> list[Any]:
            given, free = iter(known), iter(xs)
            outs, own = self.inner.vmap(size, carried, [next(free) if flag else next(given) for flag in self.unknown])
            return [out if flag else repeated(out, size) for out, flag in zip(outs, own)]

        types = [type.with_shape((size, *type.shape)) for type in self.types]
        found = transpose_flat(linear, types, full, self.function)
        return [instantiate(ct, type) for ct, type in zip(found, types)], [True] * len(types)
