"""What a Program is made of: variables, literals, the equations that relate them, and the graph that these form.

Printing, JSON, equality and checking read a `Graph`; `Program`, defined below them all, is a Graph that can do these things.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from pullback.core.array import Array
from pullback.core.lazy import lazy_module
from pullback.core.primitive import Primitive
from pullback.core.source import Source
from pullback.core.types import ArrayType

if TYPE_CHECKING:
    import dataclasses
else:
    dataclasses = lazy_module("dataclasses")


class Variable:
    """A name for a value: an input of a Program, or a result of one of its equations. Equal only to itself."""

    __slots__ = ("type",)
    sharding: Any = None

    def __init__(self, type: ArrayType) -> None:
        self.type = type

    @property
    def placed_type(self) -> ArrayType:
        """The type, with the sharding if the value lies on devices in a known way."""
        return self.type if self.sharding is None else self.type.placed(self.sharding, self.type.varying)

    def __repr__(self) -> str:
        return f"Variable({self.placed_type})"


class PlacedVariable(Variable):
    """A name for a value that lies on the devices of a mesh in a known way. Its type says nothing of that, so that rules need
    not look at it."""

    __slots__ = ("sharding",)

    def __init__(self, type: ArrayType, sharding: Any) -> None:
        self.type = type
        self.sharding = sharding


def variable_of(type: ArrayType) -> Variable:
    """A new variable for values of a type, which may have a sharding in it."""
    return Variable(type) if type.sharding is None else PlacedVariable(type.placed(None, type.varying), type.sharding)


class Literal:
    """A 0-d constant written into an equation."""

    __slots__ = ("type", "value")

    def __init__(self, value: Array) -> None:
        self.value = value
        self.type = value.type

    def __repr__(self) -> str:
        return f"Literal({self.value})"

    @property
    def key(self) -> Any:
        """Equal for literals of the same type and bits."""
        return self.type, np.asarray(self.value.host).tobytes()


Atom = Variable | Literal


class Made(NamedTuple):
    """The rule of a transformation by which an equation was made, and the rule during which that one was applied.

    Attributes:
        transformation: "jvp", "grad", "vmap". rule: the field of the primitive, or what else makes equations.
        role: what the results are to the user's own values: "tangent", "cotangent", or "residual", which a derivative needs;
            empty where the rule does not change that.
        within: the outer rule, by another transformation. primitive: whose rule it is, if it is that of one primitive.
    """

    transformation: str
    rule: str
    role: str
    within: Made | None = None
    primitive: Primitive | None = None


_next_id = itertools.count(1).__next__


class Equation:
    """One operation of a Program, `outputs = primitive[params] inputs`, and where it comes from.

    Attributes:
        id: a number that no other operation has; an equation keeps it when a Program is simplified.
        source: the user's line. origin: the equation, of an earlier Program, that this one was derived from.
        made: by which rules; None where the user's own function, or its `origin`, is what it repeats.
    """

    __slots__ = ("id", "inputs", "made", "origin", "outputs", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        inputs: tuple[Atom, ...],
        outputs: tuple[Variable, ...],
        params: dict[str, Any],
        source: Source | None = None,
        origin: Equation | None = None,
        made: Made | None = None,
        id: int | None = None,
    ) -> None:
        self.primitive = primitive
        self.inputs = inputs
        self.outputs = outputs
        self.params = params
        self.source = source
        self.origin = origin
        self.made = made
        self.id = _next_id() if id is None else id

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
            self.made,
            self.id,
        )

    def __reduce__(self) -> tuple[Any, ...]:  # with a new id, since that of another process may be taken
        return Equation, (self.primitive, self.inputs, self.outputs, self.params, self.source, self.origin, self.made)

    @property
    def role(self) -> str:
        """What its results are to the user's own values: "primal", "tangent", "cotangent" or "residual"."""
        equation: Equation | None = self
        while equation is not None:
            made = equation.made
            while made is not None:
                if made.role and not equation._is_moved_by(made):
                    return made.role
                made = made.within
            equation = equation.origin
        return "primal"

    def _is_moved_by(self, made: Made) -> bool:
        """Whether the linearization of an operation that holds Programs only took an operation out of one of them, as it is."""
        holder, origin = made.primitive if made.role == "residual" else None, self.origin
        return holder is not None and holder.wiring is not None and origin is not None and origin.primitive is self.primitive


MAX_DERIVED = 256  # of what is remembered with a Program: its batched forms for as many sizes, for example


class Graph:
    """The data of a Program: see `Program`, of which every Graph that is made is one."""

    __slots__ = ("__weakref__", "_memo", "_structure", "batch_axes", "constants", "equations", "inputs", "name", "outputs")

    def __init__(
        self,
        inputs: Iterable[Variable],
        equations: Iterable[Equation],
        outputs: Iterable[Atom],
        constants: Iterable[tuple[Variable, Array]] = (),
        name: str = "main",
        batch_axes: Mapping[Variable, frozenset[int]] | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.equations = tuple(equations)
        self.outputs = tuple(outputs)
        self.constants = tuple(constants)
        self.name = name
        self.batch_axes = batch_axes or {}
        self._memo: dict[Any, Any] = {}
        self._structure: Any = None  # what `equality` finds

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: Any) -> Graph:
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # without what was derived from it
        return type(self), (self.inputs, self.equations, self.outputs, self.constants, self.name, self.batch_axes)

    @property
    def input_types(self) -> tuple[ArrayType, ...]:
        """The type of each input.

        Example:
            >>> import pullback as pb
            >>> pb.xpr(lambda x: x > 0.0, pb.ArrayType((3,), "float32")).input_types
            (f32[3],)
        """
        return tuple([variable.type for variable in self.inputs])

    @property
    def output_types(self) -> tuple[ArrayType, ...]:
        """The type of each output.

        Example:
            >>> import pullback as pb
            >>> pb.xpr(lambda x: x > 0.0, pb.ArrayType((3,), "float32")).output_types
            (bool[3],)
        """
        return tuple([atom.type for atom in self.outputs])

    def memo(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` returned for `key` the first time: transformed Programs are derived once.

        Arguments:
            key: what it is remembered by, hashable.
            make: a function without arguments.

        Returns:
            What `make` returned.

        Example:
            >>> import pullback as pb
            >>> program = pb.xpr(lambda x: x + 1.0, 1.0)
            >>> program.memo("count", lambda: len(program.equations)), program.memo("count", lambda: 99)
            (1, 1)
        """
        try:
            return self._memo[key]
        except KeyError:
            pass
        made = make()
        while len(self._memo) >= MAX_DERIVED:
            self._memo.pop(next(iter(self._memo)), None)
        return self._memo.setdefault(key, made)


G = TypeVar("G", bound=Graph)
P = ParamSpec("P")
R = TypeVar("R")


def remembered(derive: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """Decorator of a function that derives something from a Program: it is done once, and remembered with the Program for as
    long as that lives. The other arguments can be hashed."""

    @functools.wraps(derive)
    def found(program: G, /, *args: P.args, **options: P.kwargs) -> R:
        made: R = program.memo((derive, *args, *options.items()), lambda: derive(program, *args, **options))
        return made

    return found


# ---- what parameters hold ----


def is_record(cls: type) -> bool:
    """Whether parameters of a class have named fields: a NamedTuple, or a dataclass."""
    return hasattr(cls, "__dataclass_fields__") or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def record_fields(value: Any) -> list[tuple[str, Any]]:
    """The fields of a record by name."""
    if isinstance(value, tuple):
        return list(zip(value._fields, value))  # type: ignore[attr-defined]
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]


PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None)})  # the classes of most parameters, which hold nothing


def parts_of(value: Any) -> list[Any]:
    """A parameter and all that it holds in tuples and records, each Program as it is."""
    found = [value]
    for item in found:  # which grows meanwhile
        if item.__class__ in PLAIN:
            continue
        if isinstance(item, tuple):
            found.extend(item)
        elif is_record(type(item)):
            found.extend([field for _, field in record_fields(item)])
    return found
