"""Program: a function as data. Immutable, typed, every intermediate value named (A-normal form), and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.core.array import Array
from pullback.core.source import Source
from pullback.core.tracing import bind
from pullback.core.types import ArrayType
from pullback.core.primitive import Primitive


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

    def replace(self, inputs: tuple[Atom, ...] | None = None, outputs: tuple[Variable, ...] | None = None) -> Equation:
        """The same operation on other atoms."""
        return Equation(
            self.primitive,
            self.inputs if inputs is None else inputs,
            self.outputs if outputs is None else outputs,
            self.params,
            self.source,
            self.origin,
        )


class Program:
    """A typed function: `inputs` -> `equations` -> `outputs`, with the arrays that it closes over as `constants`.

    `pb.xpr(f, *args)` makes one. Calling it with an array for each input runs it, under any transformation.

    Attributes:
        inputs: a Variable for each input.
        constants: each captured array with the Variable that names it.
        equations: the operations, in an order in which they can run.
        outputs: a Variable or Literal for each result.
        name: the function that it was made from.
    """

    __slots__ = ("__weakref__", "_memo", "constants", "equations", "inputs", "name", "outputs")

    def __init__(
        self,
        inputs: Iterable[Variable],
        equations: Iterable[Equation],
        outputs: Iterable[Atom],
        constants: Iterable[tuple[Variable, Array]] = (),
        name: str = "main",
    ) -> None:
        self.inputs = tuple(inputs)
        self.equations = tuple(equations)
        self.outputs = tuple(outputs)
        self.constants = tuple(constants)
        self.name = name
        self._memo: dict[Any, Any] = {}

    @property
    def input_types(self) -> tuple[ArrayType, ...]:
        return tuple([variable.type for variable in self.inputs])

    @property
    def output_types(self) -> tuple[ArrayType, ...]:
        return tuple([atom.type for atom in self.outputs])

    def memo(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` returned for `key` the first time: transformed Programs are derived once."""
        try:
            return self._memo[key]
        except KeyError:
            return self._memo.setdefault(key, make())

    def subprograms(self) -> list[Program]:
        """The Programs that this one's equations hold, one level down."""
        return [value for equation in self.equations for value in programs_in(equation.params)]

    @property
    def effects(self) -> frozenset[str]:
        """What running it does besides returning values."""

        def find() -> frozenset[str]:
            own = {equation.primitive.effect for equation in self.equations if equation.primitive.effect is not None}
            return frozenset(own).union(*(inner.effects for inner in self.subprograms()))

        found: frozenset[str] = self.memo("effects", find)
        return found

    @property
    def axis_names(self) -> frozenset[Any]:
        """The named axes that its collective operations refer to."""

        def find() -> frozenset[Any]:
            own = {equation.params["axis_name"] for equation in self.equations if "axis_name" in equation.params}
            return frozenset(own).union(*(inner.axis_names for inner in self.subprograms()))

        found: frozenset[Any] = self.memo("axis_names", find)
        return found

    def __call__(self, *args: Any) -> Any:
        """Run it on an array for each input; returns the output, or a tuple of them when there are several."""
        if len(args) != len(self.inputs):
            raise TypeError(f"This Program takes {len(self.inputs)} arrays, but got {len(args)}.")
        outs = run(self, args)
        return outs[0] if len(outs) == 1 else outs


def programs_in(params: dict[str, Any]) -> list[Program]:
    """The Programs among an equation's parameters."""
    found: list[Program] = []
    for value in params.values():
        if isinstance(value, Program):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(item for item in value if isinstance(item, Program))
    return found


def run(program: Program, args: Sequence[Any]) -> tuple[Any, ...]:
    """Apply a Program to a value for each input, by binding its equations in order: any transformation can watch."""
    values: dict[Variable, Any] = dict(program.constants)
    values.update(zip(program.inputs, args, strict=True))
    for equation in program.equations:
        ins = tuple([values[atom] if atom.__class__ is Variable else atom.value for atom in equation.inputs])  # type: ignore[index, union-attr]
        out = bind(equation.primitive, ins, equation.params)
        if equation.primitive.multiple_results:
            values.update(zip(equation.outputs, out, strict=True))
        else:
            values[equation.outputs[0]] = out
    return tuple([values[atom] if isinstance(atom, Variable) else atom.value for atom in program.outputs])
