"""Where what is being staged comes from: which equation is replayed, and by which rule of which transformation.

An operation that a user's function applies while it is traced has the user's line by itself. What is applied later than that
(a Program replayed, a tape walked) is attributed to the equation, or the line, that it was recorded with. Each transformation
also says which rule it applies. The trace that records keeps all of this, so a function that is traced by itself starts with
nothing, and where nothing is staged nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

from pullback.core.primitive import Primitive
from pullback.core.source import Source, passing_source, rule_call, rule_called_at, rule_source, user_source
from pullback.core.tracing import Trace, innermost_staging
from pullback.program.equation import Equation, Made


class OwnLine(NamedTuple):
    """A line of a rule of the user's own, and the equation to which that was applied."""

    source: Source
    equation: Equation


Place = Equation | Source | OwnLine | None


class OwnRule:
    """A rule of the user's own is at work, in a block with this: what is recorded there is attributed to its lines.

    Attributes:
        recording: the trace that records. applied_to: what it would be attributed to otherwise, the operation.
        source, equation: the line of that, and that itself, if it is an equation. scopes: the operation's. around: how many
            there were around the rule. before, called_before: what the block replaces.
    """

    __slots__ = ("applied_to", "around", "before", "called_before", "equation", "recording", "scopes", "source")

    def __init__(self, recording: Recorder, applied_to: Place) -> None:
        self.source, self.equation = placed(applied_to)
        self.recording = recording
        self.applied_to = applied_to
        self.scopes = () if self.source is None else self.source.scope
        self.around = len(recording.scope)
        self.before = recording.attributed

    def __enter__(self) -> None:
        self.recording.attributed = self
        self.called_before = rule_called_at.set(rule_call(self.source))

    def __exit__(self, *raised: object) -> None:
        rule_called_at.reset(self.called_before)
        self.recording.attributed = self.before

    def here(self) -> Place:
        """The line of the rule that is running; where it is none of the user's, the operation."""
        source = rule_source((*self.scopes, *self.recording.scope[self.around :]))
        if source is None:
            return self.applied_to
        return source if self.equation is None else OwnLine(source, self.equation)


Attribution = Place | OwnRule

_interned: dict[tuple[Any, ...], Made] = {}  # as many as there are nests of rules


class Recorder(Trace):
    """A trace that records, with what it records next comes from.

    Attributes:
        attributed: the equation that is replayed, or the line, or the user's rule that runs; None for the user's own lines.
        made: the rule at work.
        scope: the named scopes.
    """

    __slots__ = ("attributed", "made", "scope")

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        self.attributed: Any = None
        self.made: Made | None = None
        self.scope: tuple[str, ...] = ()

    def enter(self, transformation: str, rule: str, role: str = "", primitive: Primitive | None = None) -> Made | None:
        """What is recorded from here on is made by this rule; returns what `made` is to be set to when the rule has ended."""
        within = self.made
        self.made = _made(transformation, rule, role, within, primitive)
        return within


def _made(transformation: str, rule: str, role: str, within: Made | None, primitive: Primitive | None) -> Made:
    key = (transformation, rule, role, id(within), id(primitive))  # which are kept by what is interned, and stay
    made = _interned.get(key)
    return _interned.setdefault(key, Made(transformation, rule, role, within, primitive)) if made is None else made


def rule_of(made: Made | None, primitive: Primitive | None) -> Made | None:
    """A rule that is at work, as that of one primitive."""
    return None if made is None else _made(*made[:4], primitive)


def without(made: Made | None, rule: Made) -> Made | None:
    """The rules by which an equation was made, but for one of them, and those during which that was applied."""
    return _instead(made, rule, rule.within)


def in_role(made: Made | None, rule: Made, role: str) -> Made | None:
    """The rules by which an equation was made, of which one gives it another role."""
    return _instead(made, rule, _made(*rule[:2], role, *rule[3:]))


def _instead(made: Made | None, rule: Made, other: Made | None) -> Made | None:
    if made is rule:
        return other
    if made is None or made.within is None:
        return made
    inner = _instead(made.within, rule, other)
    return made if inner is made.within else _made(*made[:3], inner, made.primitive)


recorder: Callable[[], Recorder | None] = innermost_staging  # type: ignore[assignment]
"""The innermost trace that records; None where nothing is staged, so that there is no provenance to keep."""


def attributed() -> Attribution:
    """The equation that is being replayed, or the line; None where nothing is."""
    now = recorder()
    return None if now is None else now.attributed


def here() -> Place:
    """What is staged now is attributed to this: an equation that is replayed, or else the user's line."""
    now = recorder()
    if now is None:
        return passing_source(2)
    at = now.attributed
    if at is None:
        return user_source(2, now.scope)
    return at.here() if at.__class__ is OwnRule else at


def placed(attribution: Attribution) -> tuple[Source | None, Equation | None]:
    """The user's line of what something is attributed to, and the equation, if it is one."""
    at = attribution.here() if isinstance(attribution, OwnRule) else attribution
    if isinstance(at, Equation):
        return at.source, at
    return at if isinstance(at, OwnLine) else (at, None)


def source_of(attribution: Attribution) -> Source | None:
    """The user's line of what something is attributed to."""
    return placed(attribution)[0]


def own_rule() -> AbstractContextManager[None]:
    """In this block, a rule of the user's own runs, applied to the operation at hand: what it does has its lines."""
    recording = recorder()
    return nullcontext() if recording is None else OwnRule(recording, here())


_ROLES = {"primal": "{}", "tangent": "jvp({})", "residual": "jvp({})", "cotangent": "transpose(jvp({}))"}


def name_stack(equation: Equation) -> str:
    """An equation's name below those of its scopes, of which the outermost says what role it has, written as JAX writes it:
    `transpose(jvp(layer))/inner/mul`; for a value of the user's own, `layer/inner/mul`."""
    scope = equation.source.scope if equation.source is not None else ()
    names = [_ROLES[equation.role].format(*scope[:1] or ("",)), *scope[1:], equation.primitive.name]
    return "/".join([name for name in names if name])


Naming = Callable[[Equation], str]
"""What the operations are called, in a module that is shown, which an equation becomes."""


def numbered_name(equation: Equation) -> str:
    """An equation's name stack with its id behind it, `layer/mul#12`: by that, operations of compiled code are told."""
    return f"{name_stack(equation)}#{equation.id}"


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Name a part of a function: the equations that are traced in this block say so, as do those derived from them, and the
    operations that they become in compiled code that is shown.

    Arguments:
        name: what to call the part; blocks inside one another add up.

    Returns:
        A context manager, which is also a decorator.

    Example:
        >>> import pullback as pb
        >>> def f(x):
        ...     with pb.named_scope("layer"):
        ...         return x * 2.0
        >>> pb.xpr(f, 1.0).equations[0].source.scope
        ('layer',)
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope takes a string, not {type(name).__name__}.")
    around = recorder()
    if around is None:
        yield
        return
    before = around.scope
    around.scope = (*before, name)
    try:
        yield
    finally:
        around.scope = before


_FINISHED_BY = {"tangent": ("jvp", "jvp"), "cotangent": ("grad", "transpose"), "residual": ("grad", "linearize")}


def finishing(role: str) -> AbstractContextManager[Recorder | None]:
    """In this block, what is recorded only adds up the tangents, cotangents or residuals that were found, or brings them into
    the form in which they are returned.

    Arguments:
        role: which of these it does: "tangent", "cotangent", "residual".
    """
    now = recorder()
    return nullcontext() if now is None else replaying(now, *_FINISHED_BY[role], role)


@contextmanager
def replaying(recording: Recorder, transformation: str, rule: str, role: str) -> Iterator[Recorder]:
    """In this block, what was recorded is done again by a rule, to be attributed to what it was recorded with."""
    before = recording.attributed, recording.enter(transformation, rule, role)
    try:
        yield recording
    finally:
        recording.attributed, recording.made = before
