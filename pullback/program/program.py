"""Program: a function as data. Immutable, typed, every intermediate value named (A-normal form), and closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from pullback.core.array import Array, from_python, is_constant
from pullback.core.axes import own_axes
from pullback.core.bars import output
from pullback.core.errors import ShapeError
from pullback.core.primitive import Primitive, fits
from pullback.core.source import api_boundary
from pullback.core.trees import array_leaf
from pullback.core.types import ArrayType
from pullback.program.equality import Structure, structure_of
from pullback.program.equation import Atom, Equation, Graph, Literal, Variable, remembered
from pullback.program.interpret import run
from pullback.program.printing import ANSI, HTML, PLAIN, program_text
from pullback.program.serialization import from_json, to_json

__all__ = ["Atom", "Equation", "Literal", "Program", "Variable", "programs_in", "run"]


class Program(Graph):
    """A typed function: `inputs` -> `equations` -> `outputs`, with the arrays that it closes over as `constants`.

    `pb.xpr(f, *args)` makes one. Calling it with an array for each input runs it, under any transformation.

    Attributes:
        inputs: a Variable for each input.
        constants: each captured array with the Variable that names it.
        equations: the operations, in an order in which they can run.
        outputs: a Variable or Literal for each result.
        name: the function that it was made from.
        batch_axes: which axes of a variable are batch axes, as far as vmap said so (`batching.batch_axes_of` has the rest).

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(lambda x: 2.0 * x + 1.0, pb.ArrayType((3,), "float32"))
        >>> program
        <Program <lambda>: (f32[3]) -> (f32[3]), 2 equations>
        >>> program(pb.numpy.ones(3))
        [3. 3. 3.]:f32[3]:cpu(0)
    """

    __slots__ = ()

    def rearranged(self, inputs: Sequence[int | ArrayType], outputs: Sequence[int] | None = None) -> Program:
        """The same equations with the inputs in another order, among them new ones, and some of the outputs.

        Arguments:
            inputs: for each of the new Program's the number of an input, or the type of a new one, which nothing reads.
            outputs: the numbers of the outputs that it has; all by default.

        Returns:
            A Program.

        Example:
            >>> import pullback as pb
            >>> program = pb.xpr(lambda x, y: (x - y, x), 1.0, 2.0)
            >>> program.rearranged([1, 0], [0])(10.0, 1.0)
            -9.0:f32[]:cpu(0)
        """
        key = tuple(inputs), tuple(range(len(self.outputs)) if outputs is None else outputs)
        if key == (tuple(range(len(self.inputs))), tuple(range(len(self.outputs)))):
            return self

        def make() -> Program:
            new_inputs = [Variable(i) if isinstance(i, ArrayType) else self.inputs[i] for i in key[0]]
            new_outputs = [self.outputs[i] for i in key[1]]
            return Program(new_inputs, self.equations, new_outputs, self.constants, self.name, self.batch_axes)

        made: Program = self.memo(("rearranged", *key), make)
        return made

    def with_outputs(self, outputs: Iterable[Atom]) -> Program:
        """The same equations, returning other values of this Program.

        Arguments:
            outputs: Variables and Literals of this Program.

        Returns:
            A Program.

        Example:
            >>> import pullback as pb
            >>> program = pb.xpr(lambda x: 2.0 * x + 1.0, 1.0)
            >>> program.with_outputs(program.equations[0].outputs)(3.0)
            6.0:f32[]:cpu(0)
        """
        return Program(self.inputs, self.equations, outputs, self.constants, self.name, self.batch_axes)

    def opened(self) -> tuple[Program, tuple[Array, ...]]:
        """The Program with the arrays that it closes over as inputs in front of its own, and those arrays.

        So functions that differ only in the values that they close over become equal. Numbers written in the function stay.

        Returns:
            The Program, and a tuple of arrays.

        Example:
            >>> import pullback as pb
            >>> weight = pb.numpy.array([1.0, 2.0])
            >>> program, values = pb.xpr(lambda x: x * weight, 3.0).opened()
            >>> program, values
            (<Program <lambda>: (f32[2], ~f32[]) -> (f32[2]), 1 equations>, ([1. 2.]:f32[2]:cpu(0),))
        """
        given = dict(self.constants)
        places: dict[int, Variable] = {}

        def place(atom: Atom) -> Atom:
            if not isinstance(atom, Literal) or is_constant(atom.value):
                return atom
            variable = places.setdefault(id(atom.value), Variable(atom.type))
            given[variable] = atom.value
            return variable

        equations = [one.replace(inputs=tuple([place(atom) for atom in one.inputs])) for one in self.equations]
        outputs = [place(atom) for atom in self.outputs]
        return Program([*given, *self.inputs], equations, outputs, (), self.name, self.batch_axes), tuple(given.values())

    def subprograms(self) -> list[Program]:
        """The Programs that this one's equations hold, one level down.

        Returns:
            A list of Programs.

        Example:
            >>> import pullback as pb
            >>> pb.xpr(lambda x: pb.jit(lambda y: y + 1.0)(x), 1.0).subprograms()
            [<Program <lambda>: (~f32[]) -> (~f32[]), 1 equations>]
        """
        return [value for equation in self.equations for value in programs_in(equation.params)]

    @property
    @remembered
    def effects(self) -> frozenset[str]:
        """What running it does besides returning values.

        Example:
            >>> import pullback as pb
            >>> pb.xpr(lambda x: pb.debug.print("{}", x), 1.0).effects
            frozenset({'callback'})
        """
        own = {equation.primitive.effect for equation in self.equations if equation.primitive.effect is not None}
        return frozenset(own).union(*(inner.effects for inner in self.subprograms()))

    @property
    @remembered
    def axis_names(self) -> frozenset[Any]:
        """The named axes that its collective operations refer to.

        Example:
            >>> import pullback as pb
            >>> pb.xpr(lambda x: x + 1.0, 1.0).axis_names
            frozenset()
        """
        return frozenset([name for one in self.equations for name in axis_names(one.primitive, one.params)])

    @api_boundary
    def __call__(self, *args: Any) -> Any:
        """Run it on an array for each input, of its shape and dtype; returns the output, or a tuple when there are several."""
        if len(args) != len(self.inputs):
            wanted = ", ".join(map(str, self.input_types)) or "none"
            raise TypeError(f"This Program takes an array for each of its inputs ({wanted}), but got {len(args)}.")
        outs = run(self, [_fitting(arg, variable.type, i) for i, (arg, variable) in enumerate(zip(args, self.inputs))])
        return outs[0] if len(outs) == 1 else outs

    # ---- equality ----

    @property
    def structure(self) -> Structure:
        """The token that Programs share that are equal: those that differ only in the names of variables and in sources.

        Example:
            >>> import pullback as pb
            >>> first, second = [pb.xpr(lambda x: x + 1.0, 1.0) for _ in range(2)]
            >>> first.structure is second.structure
            True
        """
        return structure_of(self)

    def __eq__(self, other: object) -> bool:
        """True if both are the same function by the same operations: equal up to renaming, constants equal by value."""
        if self is other:
            return True
        return self.structure is other.structure if isinstance(other, Program) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.structure)

    # ---- as text ----

    def text(self, *, sources: bool = False) -> str:
        """The Program as text, as `str` gives it; of captured arrays of more than 64 elements it shows only the size.

        Arguments:
            sources: end each equation with the place of the user's line that it comes from, and its named scopes, as a comment.

        Returns:
            A string.

        Example:
            >>> import pullback as pb
            >>> print(pb.xpr(lambda x: x + 1.0, pb.ArrayType((3,), "float32")).text())
            { lambda (a:f32[3]:cpu(0)) ;
              let
                b:f32[3]:cpu(0) = add a 1.0
              in b }
        """
        return program_text(self, sources=sources)

    @api_boundary
    def to_json(self) -> str:
        """The Program as JSON text, with the names and sources that it has; docs/program-format.md describes it.

        Returns:
            A string.

        Raises:
            ProgramError: a parameter is not data, but a Python function or an object of an unknown class.

        Example:
            >>> import pullback as pb
            >>> program = pb.xpr(lambda x: x, pb.ArrayType((3,), "float32"))
            >>> pb.Program.from_json(program.to_json(), {}) == program
            True
        """
        return to_json(self)

    @classmethod
    @api_boundary
    def from_json(cls, text: str, primitives: Mapping[str, Primitive], classes: Mapping[str, type] | None = None) -> Program:
        """The Program that `to_json` wrote; see `pullback.program.serialization.from_json`.

        Arguments:
            text: the JSON text.
            primitives: the operations that it may use, by name.
            classes: enums, NamedTuples and dataclasses in parameters, where the primitives' own modules do not name them.

        Returns:
            A Program.

        Raises:
            TypeError: `primitives` or `classes` are no dict.
            ProgramError: the text is not such JSON, is of an unknown version, uses something unknown, or is no right Program.

        Example:
            >>> import pullback as pb
            >>> try:
            ...     pb.Program.from_json('{"format": "pullback.program", "version": 99}', {})
            ... except pb.errors.ProgramError as error:
            ...     print(str(error).split(";")[0])
            This Program was written in version 99 of the format
        """
        return from_json(text, primitives, cls, classes)

    def __str__(self) -> str:
        return program_text(self)

    def __repr__(self) -> str:
        types = f"({', '.join(map(str, self.input_types))}) -> ({', '.join(map(str, self.output_types))})"
        return f"<Program {self.name}: {types}, {len(self.equations)} equations>"

    def _repr_html_(self) -> str:
        text = program_text(self, style=HTML)
        return f"<pre>{text}</pre>"

    def show(self, color: bool | None = None, sources: bool = False, file: TextIO | None = None) -> None:
        """Print the Program, batch axes in blue and the others in pink.

        Arguments:
            color: whether to colour it; by default, when `file` is a terminal, unless NO_COLOR is set in the environment.
            sources: end each equation with the place of the user's line that it comes from, and its named scopes.
            file: where to print it; by default, standard output.

        Example:
            >>> import pullback as pb
            >>> pb.xpr(lambda x: x + 1.0, pb.ArrayType((3,), "float32")).show(color=False)
            { lambda (a:f32[3]:cpu(0)) ;
              let
                b:f32[3]:cpu(0) = add a 1.0
              in b }
        """
        out, colored = output(file, color)
        print(program_text(self, sources=sources, style=ANSI if colored else PLAIN), file=out)


def _fitting(arg: Any, type: ArrayType, place: int) -> Any:
    """An argument of a Program as an Array or tracer of the type that its input has, weakness apart."""
    if isinstance(arg, (bool, int, float, complex)) and fits(arg, type.dtype):
        arg = from_python(arg, type.dtype)
    found = array_leaf(arg, lambda: f"argument {place}")
    if (found.type.shape, found.type.dtype) != (type.shape, type.dtype):
        raise ShapeError(f"Argument {place} of this Program must be {type}, but it is {found.type}.")
    return found


def axis_names(primitive: Primitive, params: dict[str, Any]) -> list[Any]:
    """The named axes that an operation refers to: itself, or in the Programs that it holds."""
    own = own_axes(primitive, params)
    own += [name for program in programs_in(params) for name in program.axis_names]
    return own if primitive.binds is None else [name for name in own if name not in params[primitive.binds]]


def programs_in(params: dict[str, Any]) -> list[Program]:
    """The Programs among an equation's parameters."""
    found: list[Program] = []
    for value in params.values():
        if isinstance(value, Program):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(item for item in value if isinstance(item, Program))
    return found
