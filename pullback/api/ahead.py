"""Ahead of time: a function lowered, or compiled, for one signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from pullback.api.functions import Function
from pullback.core.array import Array
from pullback.core.errors import AxisError, ShapeError, StaticArgumentError, StructureError
from pullback.core.source import describe
from pullback.core.tracing import Tracer, innermost_staging, type_of
from pullback.core.trees import LEAF, TreeDef, array_leaves, unflatten, without_float0
from pullback.core.types import ArrayType
from pullback.engine.backend import CompileOptions, Executable
from pullback.engine.compile import compile_program, lower_to_text
from pullback.program.program import Program

# A call's static arguments, as part of a key, and the dynamic ones, as one tree
Split = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, Any]]


class Signature:
    """A jitted function traced for one combination of structure, types and static arguments."""

    __slots__ = ("called", "captures", "donated", "executable", "options", "out_structure", "program")

    def __init__(
        self,
        program: Program,
        captures: Sequence[Tracer],
        out_structure: TreeDef,
        donated: tuple[bool, ...],
        options: CompileOptions,
    ) -> None:
        self.program = program
        self.captures = captures
        self.out_structure = out_structure
        self.donated = donated
        self.options = options
        self.executable: Executable | None = None
        self.called = False

    def compile(self) -> Executable:
        """The executable; made at the first use."""
        found = self.executable
        if found is None:
            found = self.executable = compile_program(self.program, self.options, self.donated)
        return found

    def run(self, leaves: Sequence[Array]) -> Any:
        """Execute on Arrays of the right types, and give the results the structure of the user's output."""
        outs = (self.executable or self.compile())(leaves)
        return outs[0] if self.out_structure is LEAF else unflatten(self.out_structure, outs)


class _AheadOfTime:
    """A jitted function for one signature."""

    def __init__(self, signature: Signature, fun: Function, in_structure: TreeDef, statics: Any, split: Split) -> None:
        self._signature = signature
        self._fun = fun
        self._in_structure = in_structure
        self._statics = statics
        self._split = split

    @property
    def program(self) -> Program:
        return self._signature.program

    def __copy__(self) -> Self:  # nothing of it changes
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            f"A {type(self).__name__} cannot be pickled or deeply copied, since it belongs to the process that made it."
            " Pickle its `program`, or the jitted function, and lower that again."
        )


class Lowered(_AheadOfTime):
    """A function lowered for one signature: its StableHLO, not compiled yet.

    Attributes:
        program: the Program that was lowered.
    """

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        return self.program.input_types

    @property
    def out_types(self) -> Any:
        return unflatten(self._signature.out_structure, self.program.output_types)

    def as_text(self) -> str:
        """The StableHLO module."""
        return lower_to_text(self.program, self._signature.options, self._signature.donated)

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate for the optimized program; compiles it."""
        return self.compile().cost_analysis()

    def compile(self) -> Compiled:
        """Compile now."""
        self._signature.compile()
        return Compiled(self._signature, self._fun, self._in_structure, self._statics, self._split)

    def __repr__(self) -> str:
        return f"<lowered {describe(self._fun)}>"


class Compiled(_AheadOfTime):
    """A function compiled for one signature. Call it with arguments of exactly those types; it never traces again.

    Static arguments are left out, or given as they were to `lower`.
    """

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        statics, dynamic = self._given(args, kwargs)
        if any(statics) and statics != self._statics:
            raise StaticArgumentError(
                f"{describe(self._fun)} was compiled for other static arguments. The jitted function itself compiles again."
            )
        leaves, structure = array_leaves(without_float0(dynamic), lambda: "argument")
        if structure is not self._in_structure and structure != self._in_structure:
            raise StructureError(
                f"{describe(self._fun)} was compiled for arguments of structure {self._in_structure}, but got {structure}."
            )
        expected = self._signature.program.input_types
        if tuple([type_of(leaf) for leaf in leaves]) != expected:
            listed = ", ".join(map(str, expected))
            raise ShapeError(
                f"{describe(self._fun)} was compiled for arguments of types {listed}, but got"
                f" {', '.join(str(type_of(leaf)) for leaf in leaves)}. Call the jitted function instead,"
                " which compiles for new types, or convert the arguments."
            )
        if innermost_staging() is not None or any(isinstance(leaf, Tracer) for leaf in leaves):
            raise AxisError(
                f"{describe(self._fun)} was compiled ahead of time, so it cannot be transformed; transform the jitted function."
            )
        return self._signature.run(leaves)

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The static arguments of a call, which may also be left out, and the dynamic ones."""
        if self._statics and self._statics[0] and len(args) == self._in_structure.child(0).num_children:
            (_, named), (_, dynamic) = self._split((), kwargs)
            return (self._statics[0] if named else (), named), (list(args), dynamic)
        return self._split(args, kwargs)

    def as_text(self) -> str:
        """The optimized program, as XLA prints it (HLO)."""
        return self._signature.compile().optimized_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work: `flops`, `bytes accessed`, `transcendentals`, ..."""
        return self._signature.compile().cost_analysis()

    def memory_analysis(self) -> dict[str, int]:
        """Bytes of arguments, outputs, temporaries and code, as XLA reports them: `temp_size_in_bytes`, ..."""
        return self._signature.compile().memory_analysis()

    def __repr__(self) -> str:
        return f"<compiled {describe(self._fun)}>"
