"""Lowering: a Program as a StableHLO module, each operation by its primitive's own `lower` rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


from pullback.core.program import Atom, Equation, Literal, Program, Variable
from pullback.core.types import ArrayType
from pullback.stablehlo.writer import TensorType, Value, Writer, function, module

# Arrays up to this many bytes that a function closes over are written into its module, where XLA can fold them; larger
# ones are passed as arguments, so that neither the text nor the executable grows with the data.
EMBEDDED_BYTES = 256


def tensor_type(type: ArrayType) -> TensorType:
    """The StableHLO type of an ArrayType; weakness is a matter of tracing, and not seen there."""
    return TensorType(type.shape, type.dtype)


def is_embedded(type: ArrayType) -> bool:
    """Whether a constant is written into the module rather than passed as an argument."""
    return type.nbytes <= EMBEDDED_BYTES


class Module:
    """A module being written: its functions, one for each Program that is called in it, and its host callbacks."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.functions: list[str] = []
        self.callbacks: list[Any] = []
        self._names: dict[Program, str] = {}
        self._taken: set[str] = {"main"}

    def name_of(self, program: Program) -> str:
        """The name of the private function that a Program became; it is written at its first use."""
        if program not in self._names:
            stem = "".join(letter if letter.isalnum() else "_" for letter in program.name) or "inner"
            name, number = stem, 0
            while name in self._taken:
                number += 1
                name = f"{stem}_{number}"
            self._taken.add(name)
            self._names[program] = name
            self.functions.append(self.write(program, name))
        return self._names[program]

    def write(self, program: Program, name: str, notes: Sequence[str] = ()) -> str:
        """The text of a function for a Program. Its arguments are the Program's large constants, then its inputs."""
        write = Lowering(self)
        variables = [*passed_constants(program), *program.inputs] if name == "main" else list(program.inputs)
        arguments = [Value(f"%arg{i}", tensor_type(variable.type)) for i, variable in enumerate(variables)]
        results = write.program(program, dict(zip(variables, arguments)))
        public = name == "main"
        return function(name, arguments, write, results, public, notes)


def passed_constants(program: Program) -> list[Variable]:
    """The variables of the constants that are passed as arguments, in order."""
    return [variable for variable, array in program.constants if not is_embedded(array.type)]


class Lowering(Writer):
    """The writer that lowering rules get: besides StableHLO operations, it can call and inline Programs."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module

    @property
    def platform(self) -> str:
        return self.module.platform

    def program(self, program: Program, values: dict[Variable, Value]) -> list[Value]:
        """Write all of a Program's equations here, given a value for each input; returns its outputs."""
        for variable, array in program.constants:
            if variable not in values:
                values[variable] = self.constant(array.host)
        for equation in program.equations:
            values.update(zip(equation.outputs, self.equation(equation, values), strict=True))
        return [self.read(atom, values) for atom in program.outputs]

    def inline(self, program: Program, *args: Value) -> list[Value]:
        """`program` for lowering rules: a Program's operations, on the values of its inputs."""
        return self.program(program, dict(zip(program.inputs, args, strict=True)))

    def call(self, program: Program, *args: Value) -> list[Value]:
        """Call a Program as a function of its own, written once however often it is called."""
        name = self.module.name_of(program)
        return self.many("func.call", args, [tensor_type(type) for type in program.output_types], callee=f"@{name}")

    def read(self, atom: Atom, values: dict[Variable, Value]) -> Value:
        if isinstance(atom, Literal):
            return self.constant(atom.value.host, tensor_type(atom.type))
        return values[atom]

    def equation(self, equation: Equation, values: dict[Variable, Value]) -> Sequence[Value]:
        """Write one equation; returns the values of its outputs."""
        primitive = equation.primitive
        rule = primitive.lowering(self.platform)
        self.result_types = results = [tensor_type(variable.type) for variable in equation.outputs]
        if primitive.elementwise:
            operands = [self.spread(atom, values, results[0].shape) for atom in equation.inputs]
        else:
            operands = [self.read(atom, values) for atom in equation.inputs]
        if rule is None:
            raise primitive.missing("lower", "jit (compilation)")
        if isinstance(rule, str):
            return [self.elementwise(rule, *operands, result=results[0])]
        out = rule(self, *operands, **equation.params)
        return out if primitive.multiple_results else (out,)

    def spread(self, atom: Atom, values: dict[Variable, Value], shape: tuple[int, ...]) -> Value:
        """An elementwise operand in the shape of the result: 0-d ones are repeated."""
        if isinstance(atom, Literal):
            return self.constant(atom.value.host, TensorType(shape, atom.type.dtype))
        value = values[atom]
        return value if value.shape == shape else self.broadcast(value, shape)


def lower_program(program: Program, platform: str, donated: Sequence[bool] = (), name: str = "main") -> tuple[str, list[Any]]:
    """A Program as the text of a StableHLO module, and the host callbacks that it makes.

    Its arguments are the constants that are passed rather than embedded, then the Program's inputs; those that are
    `donated` may be overwritten by the results.
    """
    made = Module(platform)
    constants = len(passed_constants(program))
    notes = [""] * constants + ["{jax.buffer_donor = true}" if flag else "" for flag in donated or [False] * len(program.inputs)]
    main = made.write(program, "main", notes)
    stem = "".join(letter if letter.isalnum() else "_" for letter in name)
    return module(f"pullback_{stem}", [main, *made.functions]), made.callbacks


def constant_arrays(program: Program) -> list[Any]:
    """The arrays to pass for `passed_constants`."""
    return [array for _, array in program.constants if not is_embedded(array.type)]


