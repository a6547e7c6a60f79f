"""The rules that users give to functions of their own, as the primitive `custom_function` holds them: flat, and derived.

Every transformation of such a function keeps its rules. Batching it batches each of them; what it closes over becomes an
operand of each. So a `CustomRules` is made either of the user's own rules, or of another one.

The operands of a rule are all those of the function, the captured ones first. Tangents and cotangents may be ZERO.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from pullback.control.holder import at_flags, split
from pullback.core.axes import Axis
from pullback.core.context import setting
from pullback.core.dtypes import is_inexact
from pullback.core.errors import AxisError, ClosedOverError, PullbackError
from pullback.core.leaks import keeps_values
from pullback.core.source import describe, name_of
from pullback.core.tracing import Tracer, type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, instantiate
from pullback.ops.broadcast import reduce_sum, repeated
from pullback.program.equality import Keyed
from pullback.program.program import Program, run
from pullback.transforms.batch import Batched, BatchTrace, batch_flat, materialize
from pullback.transforms.derive import batched_types
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.stage import stage
from pullback.transforms.transpose import transpose_flat

Rule = Callable[..., Any]


class About(NamedTuple):
    """Whose rules they are.

    Attributes:
        function: the user's function, for messages. kind: `custom_jvp`, `custom_vjp` or `custom_vmap`, for the same.
        symbolic: whether the jvp rule is told which tangents are zero.
    """

    function: Rule | None
    kind: str
    symbolic: bool = False

    @property
    def name(self) -> str:
        return name_of(self.function, type(self.function).__name__)

    @property
    def described(self) -> str:
        """The function in words."""
        return describe(self.function) if self.function is not None else "a function"

    def closed_over(self, value: Any, what: str = "differentiated") -> PullbackError:
        """The error for transforming the function by a value that is none of its arguments."""
        return (AxisError if what == "batched" else ClosedOverError)(
            f"The {self.kind} function {self.described} is {what} with respect to a value of type {type_of(value)} that it"
            " closes over, or that is passed in a position of nondiff_argnums. Its rules only say how it depends on its other"
            " arguments. Pass the value as one of those (pb.closure_convert finds the values that a function closes over), or,"
            " if it is meant to be a constant, through pb.stop_gradient."
        )


@keeps_values
class CustomRules(Keyed):
    """The rules of one function; None where it has none.

    Attributes:
        captured: how many of the operands, the first ones, are values that the function closes over.
        jvp: `(operands, tangents)` to the results, and their tangents.
        forward: `(operands, active)` to the results, residuals, and what else `backward` needs: something hashable that holds
            no traced value.
        backward: of that, residuals, and cotangents of the results: those of the operands that are not captured.
        vmap: `(size, batched, operands)` to the results on a batch, and which of them carry it.
    """

    __slots__ = ("about", "backward", "captured", "forward", "jvp", "vmap")

    def __init__(
        self,
        key: Any,
        about: About,
        *,
        captured: int = 0,
        jvp: Rule | None = None,
        forward: Rule | None = None,
        backward: Rule | None = None,
        vmap: Rule | None = None,
    ) -> None:
        self.key = key
        self.about = about
        self.captured = captured
        self.jvp = jvp
        self.forward = forward
        self.backward = backward
        self.vmap = vmap

    @property
    def described(self) -> str:
        """The function in words."""
        return self.about.described

    @property
    def printed(self) -> str:
        """How a printed Program shows this parameter."""
        return f"{self.about.kind} of {self.about.name}"

    def refuse_captured(self, concerned: Sequence[Any], operands: Sequence[Any], what: str = "differentiated") -> None:
        """Raise an error where one of the captured operands is concerned by a transformation that the rules do not speak of."""
        for flag, operand in zip(concerned[: self.captured], operands):
            if flag:
                raise self.about.closed_over(operand, what)


def inexact_flags(types: Sequence[ArrayType]) -> list[bool]:
    return [is_inexact(type.dtype) for type in types]


def chosen(values: Sequence[Any], flags: Sequence[Any]) -> list[Any]:
    return [value for value, flag in zip(values, flags) if flag]


# ---- what a function closes over --------------------------------------------------------------------------------------


class Closed(NamedTuple):
    """A rule as a Program. Its first inputs are captured operands: those at the places `picks`. Results that are not `live`
    are zero, and not returned by it."""

    program: Program
    picks: tuple[int, ...]
    live: list[bool]

    def __call__(self, captured: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
        return at_flags(run(self.program, [*[captured[i] for i in self.picks], *rest]), self.live)


def _closed(rule: Rule, types: Sequence[ArrayType], captured: list[Tracer], name: str) -> Closed | None:
    """A rule traced, and what it closes over put among what is `captured`; None if it cannot be traced."""
    live: list[bool] = []

    def nonzero(*args: Any) -> list[Any]:
        outs = rule(*args)
        live.extend(out is not ZERO for out in outs)
        return chosen(outs, live)

    with contextlib.suppress(Exception):  # what is wrong with a rule is said when it is used
        program, found = stage(nonzero, types, name=name)
        places = {id(tracer): i for i, tracer in enumerate(captured)}
        new = [tracer for tracer in found if id(tracer) not in places]
        places.update((id(tracer), len(captured) + i) for i, tracer in enumerate(new))
        captured.extend(new)
        return Closed(drop_dead_code(program), tuple([places[id(tracer)] for tracer in found]), live)
    return None


def closed_rules(
    inner: CustomRules, captured: list[Tracer], types: Sequence[ArrayType], out_types: Sequence[ArrayType]
) -> CustomRules:
    """The rules of a function that closes over traced values, which become operands of the rules too.

    Traced at once: later, the traced values that the user's rules close over will be gone. A rule that cannot be traced
    (it branches on values, say) stays a Python function, which serves as long as they are there. So do those of a function that
    its own rules call: one call within another is closed, for second derivatives; without a limit there would be no end.
    `captured` are the values that the function closes over; those that its rules close over are added.
    """
    outer = _closing.get()
    with setting(_closing, (*outer, inner.about.function)):
        return _closed_rules(inner, captured, types, out_types, outer.count(inner.about.function) < 2)


_closing: ContextVar[tuple[Any, ...]] = ContextVar("pullback_closing_rules", default=())  # functions, from the outermost


def _closed_rules(
    inner: CustomRules, captured: list[Tracer], types: Sequence[ArrayType], out_types: Sequence[ArrayType], traced: bool
) -> CustomRules:
    """The same; without tracing them if they are not to be `traced`."""
    count, out_count, name = len(types), len(out_types), inner.about.name
    inexact, outs_inexact = inexact_flags(types), inexact_flags(out_types)
    tangent_types = [type.strong() for type in chosen(types, inexact)]
    cotangent_types = [type.strong() for type in chosen(out_types, outs_inexact)]
    kept: list[Any] = []

    def push(*args: Any) -> list[Any]:
        outs, found = inner.jvp(args[:count], at_flags(args[count:], inexact))  # type: ignore[misc]
        return [*outs, *found]

    def go_forward(*args: Any) -> list[Any]:
        outs, residuals, more = inner.forward(args, inexact)  # type: ignore[misc]
        kept.append(more)
        return [*outs, *residuals]

    def go_back(*args: Any) -> Any:
        start = len(args) - len(cotangent_types)
        return inner.backward(kept[0], args[:start], at_flags(args[start:], outs_inexact))  # type: ignore[misc]

    pushing = _closed(push, [*types, *tangent_types], captured, name) if traced and inner.jvp is not None else None
    first = _closed(go_forward, types, captured, name) if traced and inner.forward is not None else None
    residual_types = first.program.output_types[out_count:] if first is not None else ()
    second = _closed(go_back, [*residual_types, *cotangent_types], captured, name) if first is not None else None
    more = len(captured)
    rules: dict[str, Any] = {
        "jvp": _past(more, inner.jvp, 0, 1),
        "forward": _past(more, inner.forward, 0, 1),
        "backward": inner.backward,
        "vmap": _past(more, inner.vmap, 1, 2),
    }
    if pushing is not None:

        def jvp(operands: Sequence[Any], tangents: Sequence[Any]) -> Any:
            full = [instantiate(t, type) for t, type in zip(chosen(tangents[more:], inexact), tangent_types)]
            found = pushing(operands, *operands[more:], *full)
            return found[:out_count], found[out_count:]

        rules["jvp"] = jvp
    if first is not None and second is not None:

        def forward(operands: Sequence[Any], active: Sequence[bool]) -> Any:
            outs = first(operands, *operands[more:])
            return outs[:out_count], [*[operands[i] for i in second.picks], *outs[out_count:]], None

        def backward(kept: Any, residuals: Sequence[Any], cotangents: Sequence[Any]) -> Any:
            full = [instantiate(ct, type) for ct, type in zip(chosen(cotangents, outs_inexact), cotangent_types)]
            return at_flags(run(second.program, [*residuals, *full]), second.live)

        rules |= {"forward": forward, "backward": backward}
    return CustomRules(object(), inner.about, captured=more, **rules)


def _past(count: int, rule: Rule | None, *which: int) -> Rule | None:
    """A rule without the first `count` operands, in its arguments number `which`."""

    def shortened(*args: Any) -> Any:
        return rule(*[arg[count:] if i in which else arg for i, arg in enumerate(args)])  # type: ignore[misc]

    return None if rule is None else shortened


# ---- batched rules ----------------------------------------------------------------------------------------------------


def batched_rules(inner: CustomRules, batch: Axis, flags: Sequence[Any], outs: Sequence[Any], extra: int = 0) -> CustomRules:
    """The derivative rules of a function on a batch: each applied to all batch elements at once.

    Arguments:
        flags: which operands of the function carry the batch. outs: which results do.
        extra: how many operands stand in front of those, captured by the function that computes the batch.
    """

    def on_batch(rule: Rule, args: Sequence[Any], carried: Sequence[Any]) -> tuple[BatchTrace, Sequence[Any]]:
        of_batch = [bool(flag) and x is not ZERO for x, flag in zip(args, carried)]
        return batch_flat(rule, args, of_batch, batch, inner.about.function)

    def placed(trace: BatchTrace, values: Sequence[Any]) -> list[Any]:
        """Results of a rule: with the batch in front where they are to carry it."""
        if any([carried and not flag for carried, flag in zip(_carried(trace, values), outs)]):
            raise Disagreement
        return [value if value is ZERO or not flag else materialize(trace, value) for value, flag in zip(values, outs)]

    def jvp(operands: Sequence[Any], tangents: Sequence[Any]) -> Any:
        def push(*args: Any) -> list[Any]:
            values, found = inner.jvp(args[: len(flags)], args[len(flags) :])  # type: ignore[misc]
            return [*values, *found]

        trace, found = on_batch(push, [*operands[extra:], *tangents[extra:]], [*flags, *flags])
        return placed(trace, found[: len(outs)]), placed(trace, found[len(outs) :])

    def forward(operands: Sequence[Any], active: Sequence[bool]) -> Any:
        kept: list[Any] = []

        def go_forward(*args: Any) -> list[Any]:
            values, residuals, more = inner.forward(args, active[extra:])  # type: ignore[misc]
            kept.append(more)
            return [*values, *residuals]

        trace, found = on_batch(go_forward, operands[extra:], flags)
        residuals = found[len(outs) :]
        carried = _carried(trace, residuals)
        values = placed(trace, found[: len(outs)])
        return values, [x.value if flag else x for x, flag in zip(residuals, carried)], (kept[0], tuple(carried))

    def backward(kept: Any, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        inner_kept, carried = kept
        count = len(residuals)

        def go_back(*args: Any) -> Any:
            return inner.backward(inner_kept, args[:count], args[count:])  # type: ignore[misc]

        trace, found = on_batch(go_back, [*residuals, *cotangents], [*carried, *outs])
        # The cotangent of what all batch elements share is the sum of theirs
        full = [ct if ct is ZERO else materialize(trace, ct) for ct in found]
        pairs = zip(full, flags[inner.captured :], strict=True)
        return [ct if flag or ct is ZERO else reduce_sum(ct, axes=(0,)) for ct, flag in pairs]

    return CustomRules(
        ("batched", inner, batch, tuple(flags), tuple(outs), extra),
        inner.about,
        captured=inner.captured + extra,
        jvp=None if inner.jvp is None else jvp,
        forward=None if inner.forward is None else forward,
        backward=None if inner.backward is None else backward,
    )


class Disagreement(Exception):
    """By a rule, a result carries the batch that does not by the function itself."""


def _carried(trace: BatchTrace, values: Sequence[Any]) -> list[bool]:
    return [value.__class__ is Batched and value.owner is trace for value in values]


def agree(rules: CustomRules, types: Sequence[ArrayType]) -> bool:
    """Whether batched rules, for operands of these types, give results and tangents without the batch where they should."""

    def look(*operands: Any) -> list[Any]:
        active = inexact_flags(types)
        if rules.forward is not None:
            rules.forward(operands, active)
        if rules.jvp is not None:
            rules.jvp(operands, [x if flag else ZERO for x, flag in zip(operands, active)])  # tangents of the right type
        return []

    try:
        stage(look, types)
    except Exception:  # what is wrong with a rule is said when it is used
        return False
    return True


# ---- the derivatives of a batching rule -------------------------------------------------------------------------------


def tangent_of_batching(inner: CustomRules, active: tuple[bool, ...]) -> CustomRules:
    """The batching rule of the derivative of a function that has a batching rule alone: the derivative of that rule.

    The operands are the function's, then the tangents of the active ones; the results, the tangents of the inexact results.
    """

    def vmap(size: int, batched: Sequence[bool], operands: Sequence[Any]) -> Any:
        count = len(active)
        for operand in chosen(operands, active[: inner.captured]):
            raise inner.about.closed_over(operand, "differentiated and batched")
        flags = iter(batched[count:])
        tangents, of_tangents = at_flags(operands[count:], active), [flag and next(flags) for flag in active]
        both = [own or of_tangent for own, of_tangent in zip(batched, of_tangents)]
        primals = _completed(operands, batched, both, size)
        box: list[bool] = []

        def rule(*args: Any) -> Any:
            outs, out_batched = inner.vmap(size, both, args)  # type: ignore[misc]
            box.extend(out_batched)
            return outs

        outs, found = jvp_flat(rule, primals, _completed(tangents, of_tangents, both, size), inner.about.function)
        inexact = inexact_flags([type_of(out) for out in outs])
        return chosen([instantiate(t, type_of(out)) for t, out in zip(found, outs)], inexact), chosen(box, inexact)

    return CustomRules(("tangent", inner, active), inner.about, captured=inner.captured, vmap=vmap)


def transpose_of_batching(
    inner: CustomRules, unknown: tuple[bool, ...], types: Sequence[ArrayType], out_types: Sequence[ArrayType]
) -> CustomRules:
    """The batching rule of the transpose of a linear function that has one: the transpose of that rule.

    The operands are those of the function that are known, then cotangents of the results, which have `out_types`; the results,
    the cotangents of the operands that are unknown, which have `types`.
    """

    def vmap(size: int, batched: Sequence[bool], operands: Sequence[Any]) -> Any:
        known, cotangents = split(operands, len(unknown) - len(types))
        flags = iter(batched)
        carried = [True if flag else next(flags) for flag in unknown]

        def linear(*xs: Any) -> list[Any]:
            given, free = iter(known), iter(xs)
            outs, own = inner.vmap(size, carried, [next(free if flag else given) for flag in unknown])  # type: ignore[misc]
            return _completed(outs, own, [True] * len(outs), size)

        full_types = batched_types(types, size, [True] * len(types))
        full = _completed(cotangents, list(flags), [True] * len(cotangents), size)
        found = transpose_flat(linear, full_types, full, inner.about.function)
        return [instantiate(ct, type) for ct, type in zip(found, full_types)], [True] * len(types)

    key = ("transpose", inner, unknown, tuple(types), tuple(out_types))
    return CustomRules(key, inner.about, captured=sum(not flag for flag in unknown[: inner.captured]), vmap=vmap)


def _completed(values: Sequence[Any], carried: Sequence[Any], wanted: Sequence[Any], size: int) -> list[Any]:
    """Values, repeated where they are wanted as batches and are none; ZERO stays."""
    rows = zip(values, carried, wanted)
    return [repeated(x, size) if want and not has and x is not ZERO else x for x, has, want in rows]
