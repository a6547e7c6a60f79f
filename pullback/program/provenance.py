"""Where what is being staged comes from: which equation is replayed, and by which rule of which transformation.

An operation that a user's function applies while it is traced has the user's line by itself. What is applied later than that
(a Program replayed, a tape walked) is attributed to the equation, or the line, that it was recorded with. Each transformation
also says which rule it applies. Both live in the context, and staging reads them; nothing is recorded where nothing is staged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any

from pullback.core.source import Source, user_source
from pullback.core.tracing import innermost_staging
from pullback.program.equation import Equation, Made

Attribution = Equation | Source | None

_attributed: ContextVar[Any] = ContextVar("pullback_attributed", default=None)
attributed = _attributed.get
attribute = _attributed.set
attribute_again = _attributed.reset

_made: ContextVar[Made | None] = ContextVar("pullback_made", default=None)
made_by = _made.get
leave = _made.reset
make_by = _made.set

_interned: dict[tuple[Any, ...], Made] = {}  # as many as there are nests of rules


def enter(transformation: str, rule: str, role: str = "") -> Token[Made | None]:
    """What is staged from here on, up to `leave` with what this returns, is made by this rule."""
    within = _made.get()
    key = (transformation, rule, role, id(within))  # `within` is interned itself, and stays
    made = _interned.get(key)
    if made is None:
        made = _interned.setdefault(key, Made(transformation, rule, role, within))
    return _made.set(made)


def is_recording() -> bool:
    """Whether a Program is being recorded, so that provenance is worth keeping."""
    return innermost_staging() is not None


def here() -> Attribution:
    """What is staged now is attributed to this: an equation that is replayed, or else the user's line."""
    found = _attributed.get()
    return user_source(2) if found is None else found


def attributed_source() -> Source | None:
    """The user's line of what is being replayed; None where nothing is."""
    return source_of(_attributed.get())


def source_of(attribution: Attribution) -> Source | None:
    """The user's line of what something is attributed to."""
    return attribution.source if isinstance(attribution, Equation) else attribution


_ROLES = {"primal": "{}", "tangent": "jvp({})", "residual": "jvp({})", "cotangent": "transpose(jvp({}))"}


def name_stack(equation: Equation) -> str:
    """An equation's name below those of its scopes, of which the outermost says what role it has, written as JAX writes it:
    `transpose(jvp(layer))/inner/mul`; for a value of the user's own, `layer/inner/mul`."""
    scope = equation.source.scope if equation.source is not None else ()
    names = [_ROLES[equation.role].format(*scope[:1] or ("",)), *scope[1:], equation.primitive.name]
    return "/".join([name for name in names if name])


@contextmanager
def attributing(to: Attribution) -> Iterator[None]:
    """Attribute what is staged in this block to an equation, or to a line; to the user's lines, if to None."""
    token = _attributed.set(to)
    try:
        yield
    finally:
        _attributed.reset(token)


@contextmanager
def replaying(transformation: str, rule: str, role: str) -> Iterator[bool]:
    """In this block, what was recorded is done again by a rule, and attributed to what it was recorded with. Gives True."""
    attribution, made = attribute(_attributed.get()), enter(transformation, rule, role)
    try:
        yield True
    finally:
        leave(made)
        attribute_again(attribution)
