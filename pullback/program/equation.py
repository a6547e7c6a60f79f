"""What a Program is made of: variables, literals, and the equations that relate them."""

from __future__ import annotations

from typing import Any

from pullback.core.array import Array
from pullback.core.primitive import Primitive
from pullback.core.source import Source
from pullback.core.types import ArrayType


class Variable:
    """A name for a value: an input of a Program, or a result of one of its equations. Equal only to itself."""

    __slots__ = ("type",)

    def __init__(self, type: ArrayType) -> None:
        self.type = type

    def __repr__(self) -> str:
        return f"Variable({self.type})"


class Literal:
    """A 0-d constant written into an equation."""

    __slots__ = ("value",)

    def __init__(self, value: Array) -> None:
        self.value = value

    @property
    def type(self) -> ArrayType:
        return self.value.type

    def __repr__(self) -> str:
        return f"Literal({self.value})"


Atom = Variable | Literal


class Equation:
    """One operation of a Program: `outputs = primitive[params] inputs`, and where in the user's program it comes from."""

    __slots__ = ("inputs", "origin", "outputs", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        inputs: tuple[Atom, ...],
        outputs: tuple[Variable, ...],
        params: dict[str, Any],
        source: Source | None = None,
        origin: Equation | None = None,
    ) -> None:
        self.primitive = primitive
        self.inputs = inputs
        self.outputs = outputs
        self.params = params
        self.source = source  # the user's line
        self.origin = origin  # the equation that this one was derived from, by a rule

    def replace(
        self,
        inputs: tuple[Atom, ...] | None = None,
        outputs: tuple[Variable, ...] | None = None,
        params: dict[str, Any] | None = None,
    ) -> Equation:
        """The same operation on other atoms, or with other parameters."""
        return Equation(
            self.primitive,
            self.inputs if inputs is None else inputs,
            self.outputs if outputs is None else outputs,
            self.params if params is None else params,
            self.source,
            self.origin,
        )
