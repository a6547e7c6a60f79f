"""jax.experimental.hijax, as far as flax.nnx reads it at import: classes of which nothing is ever bound here.

A variable of nnx's that would be a type of its own (`hijax=True`) needs the rest, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compat.jax.structs import AbstractValue


def _refused(what: str) -> NotImplementedError:
    return NotImplementedError(f"{what}: types that programs define by jax.experimental.hijax are not provided by pullback.")


class HiPrimitive:
    """A primitive that cannot be bound."""

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        raise _refused(self.name)


class HiType(AbstractValue):
    """A type of values of a program's own."""


class MutableHiType(AbstractValue):
    """A type of values of a program's own that change."""


class AvalQDD:
    """A type and what it is at present."""

    def __init__(self, aval: Any, qdd: Any) -> None:
        raise _refused("AvalQDD")


class AvalMutableQDD(AvalQDD):
    """The same, of what changes."""


class aval_method:
    """A method of values, kept with their type."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun


class aval_property:
    """A property of values, kept with their type."""

    def __init__(self, fget: Callable[..., Any] | None = None) -> None:
        self.fget = fget


class EffectTypes:
    """The effects that loops and branches may have."""

    def __init__(self) -> None:
        self.types: set[type] = set()

    def add_type(self, effect: type) -> None:
        self.types.add(effect)


control_flow_allowed_effects = EffectTypes()


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Nothing, until such a value is met."""


def cur_qdd(x: Any) -> Any:
    raise _refused("cur_qdd")
