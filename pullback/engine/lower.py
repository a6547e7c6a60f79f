"""Lowering: a Program as a StableHLO module, each operation by its primitive's own `lower` rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pullback.core.array import Array, HostArray, ShardedArray, as_array, host_of
from pullback.core.dtypes import DType, carrier, kind
from pullback.core.errors import ExportError
from pullback.core.fields import Rule
from pullback.core.meshes import AbstractMesh
from pullback.core.primitive import Primitive
from pullback.core.shardings import UNCONSTRAINED, NamedSharding, PartitionSpec
from pullback.core.source import Source
from pullback.core.tracing import Trace, Tracer, ensure_compile_time_eval, type_of
from pullback.core.types import ArrayType, array_type
from pullback.engine.backend import Part, preferred
from pullback.engine.failures import guard
from pullback.engine.partition import FIRST_ALONE, joined, mesh_of, mesh_text, note_of, partitions_text, sharding_of, spec_text
from pullback.engine.strategy import cpu_settings
from pullback.program.cost import Cost, cost, largest
from pullback.program.equation import Variable, remembered, variable_of
from pullback.program.interpret import interpret
from pullback.program.program import Equation, Program
from pullback.program.provenance import Naming
from pullback.stablehlo.writer import TensorType, Value, Writer, function, location, module, pairs

# Arrays up to this many bytes that a function closes over are written into its module, where XLA can fold them; larger
# ones are passed as arguments, so that neither the text nor the executable grows with the data.
EMBEDDED_BYTES = 256


def tensor_type(type: ArrayType) -> TensorType:
    """The StableHLO type of an ArrayType; weakness is a matter of tracing, and not seen there."""
    return TensorType(type.shape, type.dtype)


DONE = np.zeros((), np.uint8)  # what every host call also returns, so that the next one can wait for it


class Module:
    """A module being written: its functions, one for each Program that is called in it, and what it needs from outside.

    Attributes:
        located: what operations are named after, which then carry the user's lines too; for showing only: what is compiled to
            be run, and kept for equal Programs, has no locations (None).
        callbacks: the Python functions that it calls. effects: how many of those calls have an effect.
        first_alone: whether something runs on the first device alone.
        portable: whether it is to run without this process, so that nothing in it may call Python.
        loops: what one step of each loop in it costs. barriers: whether an optimization barrier is to last to the end.
        mesh: the mesh that it is for; None for one device.
        largest: the bytes of the largest array in functions that were exported before, and are included.
        offloads: whether operations may be calls of machine code of our own, which only this process knows: not in a module
            that is shown, or moved elsewhere. offloaded, parts: those that are, by what they are, and their code.
    """

    def __init__(
        self,
        platform: str,
        located: Naming | None = None,
        offloads: bool = False,
        mesh: AbstractMesh | None = None,
        portable: bool = False,
    ) -> None:
        self.platform = platform
        self.mesh = mesh
        self.located = located
        self.portable = portable
        self.offloads = offloads and platform == "cpu"
        self.offloaded: list[str] = []
        self.parts: list[Part] = []
        self.functions: list[str] = []
        self.callbacks: list[Callable[..., Any]] = []
        self.effects = 0
        self.loops: list[Cost] = []
        self.barriers = False
        self.largest = 0
        self.first_alone = False
        self.channels = itertools.count(1)  # each operation between devices has a number of its own
        self._names: dict[Any, str] = {}
        self._taken: set[str] = {"main"}

    def name_of(self, program: Program) -> str:
        """The name of the private function that a Program became; it is written at its first use."""
        key = program if self.located is None else id(program)  # equal Programs may have different names and lines
        if key not in self._names:
            stem = identifier(program.name) or "inner"
            name, number = stem, 0
            while name in self._taken:
                number += 1
                name = f"{stem}_{number}"
            self._taken.add(name)
            self._names[key] = name
            self.functions.append(self.write(program, name))
        return self._names[key]

    def include(self, functions: Sequence[tuple[str, str]]) -> None:
        """Have functions in the module that are written already, under names that nothing else has."""
        self.functions.extend([text for name, text in functions if name not in self._taken])
        self._taken.update([name for name, _ in functions])

    def write(self, program: Program, name: str, notes: Sequence[str] = (), of_results: Sequence[str] = ()) -> str:
        """The text of a function for a Program. Its arguments are the large constants that it needs, then its inputs."""
        constants = passed_constants(program)
        types = [*[array.type for array in constants], *program.input_types]
        # What the caller passes to `main`, and gets from it, is of a dtype that has a buffer protocol.
        crosses = name == "main" and self.platform == "cpu"

        def outside(dtype: DType) -> DType:
            return carrier(dtype) if crosses else dtype

        arguments = [Value(f"%arg{i}", TensorType(type.shape, outside(type.dtype))) for i, type in enumerate(types)]
        write = Lowering(self, {})
        values = [write.entered(value, type.dtype) for value, type in zip(arguments, types)]
        write.passed.update((id(array), value) for array, value in zip(constants, values))
        results = write.inline(program, *values[len(constants) :])
        results = [write.bitcast(value, outside(value.dtype)) for value in results]
        if name == "main" and not results and self.callbacks and write.partitioned:
            results = [write.constant(DONE)]  # so that it is seen when it has ended
        return function(name, arguments, write, results, name == "main", notes, of_results)


def operation_program(
    primitive: Primitive, types: Sequence[ArrayType], results: Sequence[ArrayType], params: dict[str, Any]
) -> Program:
    """One operation as a Program."""
    inputs, outputs = (tuple(map(variable_of, some)) for some in (types, results))
    return Program(inputs, [Equation(primitive, inputs, outputs, params)], outputs, name=primitive.name)


def _values(array: Any) -> tuple[Any, ...]:
    """What two arrays with the same elements have in common."""
    return array.shape, array.dtype, array.tobytes()


def _row_major(shape: tuple[int, ...]) -> str:
    return f"dense<{[*range(len(shape))][::-1]}> : tensor<{len(shape)}xindex>"


def identifier(name: str) -> str:
    """A name as MLIR takes it: of letters, digits and underscores, and no digit first."""
    made = "".join([letter if letter.isalnum() and letter.isascii() else "_" for letter in name])
    return f"_{made}" if made[:1].isdigit() else made


def _spread(array: Array) -> bool:
    return isinstance(array, ShardedArray)


@remembered
def passed_constants(program: Program) -> list[Array]:
    """The captured arrays of a Program and of all Programs in it that are passed as arguments, each once, in order."""
    found = {id(array): array for _, array in program.constants if array.type.nbytes > EMBEDDED_BYTES or _spread(array)}
    for inner in program.subprograms():
        found.update((id(array), array) for array in passed_constants(inner))
    return list(found.values())


class Lowering(Writer):
    """The writer that lowering rules get: besides StableHLO operations, it can call and inline Programs."""

    def __init__(self, module: Module, passed: dict[int, Value]) -> None:
        super().__init__()
        self.module = module
        self._last_host_call: tuple[Any, Value | None] = (None, None)
        self.passed = passed  # large constants, by the identity of their arrays
        self.applied: tuple[Primitive, dict[str, Any]]  # what the rule that begins is of
        self.origin: Source | None = None  # the user's line that it comes from
        self.stack = ""  # of the operation that is being written, its name below those of its scopes

    @property
    def platform(self) -> str:
        return self.module.platform

    @property
    def partitioned(self) -> bool:  # type: ignore[override]
        return self.module.mesh is not None and self.module.mesh.size > 1

    @property
    def crossed(self) -> bool:  # type: ignore[override]
        return self.module.mesh is not None and sum([size > 1 for size in self.module.mesh.axis_sizes]) > 1

    @property
    def portable(self) -> bool:
        return self.module.portable

    def entered(self, value: Value, dtype: DType) -> Value:
        """What the caller passed, as a value of the dtype that it is of."""
        if kind(dtype) != "s" or value.dtype == dtype:
            return self.bitcast(value, dtype)
        return self.narrowed(self.bitcast(value, np.dtype(f"{dtype.name[:-1]}8")), dtype)

    def inline(self, program: Program, *args: Value) -> list[Value]:
        """Write a Program's operations here, on the values of its inputs; returns its outputs."""
        return [self.read(out) for out in interpret(program, args, self.equation)]

    def note_loop(self, *programs: Program) -> None:
        """Take into account that a loop of this module runs these Programs in each step: by it XLA's way is chosen."""
        costs = [cost(program) for program in programs]
        self.note_step(sum([one.work for one in costs]), sum([one.bytes for one in costs]))

    def note_step(self, work: float, bytes: float) -> None:
        """As `note_loop`, of a loop that a rule writes itself: so much does one step of it cost."""
        self.module.loops.append(Cost(work=work, bytes=bytes))

    def offload(self, operands: Sequence[Value]) -> list[Value] | None:
        """The operation whose rule begins as a call of machine code of our own: its results.

        None where it is to be written as StableHLO: the native tier does not take it, or the module is to be shown.
        """
        if not self.module.offloads:
            return None
        primitive, params = self.applied
        types, results = ([array_type(value.shape, value.dtype) for value in some] for some in (operands, self.result_types))
        program = operation_program(primitive, types, results, params)
        part = preferred.part(program)
        if part is None:
            return None
        passed = {_values(host_of(array)): self.passed[id(array)] for array in passed_constants(program)}
        given = [passed.get(_values(array)) or self.constant(array) for array in part.constants]
        outs = [*map(tensor_type, results), TensorType((part.workspace,), np.dtype(np.uint8))]
        self.module.offloaded.append(" of ".join([primitive.name, *[inner.name for inner in program.subprograms()[-1:]]]))
        self.module.parts.append(part)
        return self.many(
            "stablehlo.custom_call",
            [*operands, *given],
            outs,
            call_target_name=f'"{part.target}"',
            api_version="4 : i32",
            backend_config="{}",
            operand_layouts=f"[{', '.join([_row_major(value.shape) for value in (*operands, *given)])}]",
            result_layouts=f"[{', '.join([_row_major(type.shape) for type in outs])}]",
        )[:-1]

    def barrier(self, values: Sequence[Value]) -> list[Value]:
        """The values, each of which is computed once, before any of them is used, however the compiler fuses operations."""
        self.module.barriers = True
        return self.many("stablehlo.optimization_barrier", values, [value.type for value in values])

    def call(self, program: Program, *args: Value) -> list[Value]:
        """Call a Program as a function of its own, written once however often it is called.

        One with an effect is written in place, so that the order of effects is seen here; so is one with operations between
        devices, each of which has a number of its own.
        """
        if program.effects or program.axis_names:
            return self.inline(program, *args)
        name = self.module.name_of(program)
        args = (*[self.passed[id(array)] for array in passed_constants(program)], *args)
        return self.many("func.call", args, [tensor_type(type) for type in program.output_types], callee=f"@{name}")

    def host_call(
        self,
        function: Callable[..., Sequence[HostArray]],
        operands: Sequence[Value],
        results: Sequence[TensorType] = (),
        pure: bool = False,
    ) -> list[Value]:
        """Call a Python function on the operands' values while the module runs; for the CPU.

        Such calls happen in the order in which they are written, those in loops and branches too. What the function raises
        comes out of the compiled call as itself.

        Arguments:
            function: takes NumPy arrays, valid during the call only, and returns one for each of `results`.
            pure: whether it has no effect, so that its call has no place in that order, and may be dropped.
        """
        if self.portable or self.platform != "cpu":
            self.refuse("calls Python")
        count = len(operands)
        made_up = [*results, DONE] if self.partitioned else None
        guarded = guard(lambda *values: (*function(*values[:count]), DONE), made_up)
        self.module.callbacks.append(guarded)
        outs = self.many(
            "stablehlo.custom_call",
            operands if pure else [*operands, *self.after()],
            [*results, TensorType((), DONE.dtype)],
            call_target_name='"xla_ffi_python_cpu_callback"',
            has_side_effect=str(not pure).lower(),
            backend_config=f"{{index = {len(self.module.callbacks) - 1} : ui64}}",
            api_version="4 : i32",
            note=self.once(len(results) + 1),
        )
        if not pure:
            self.module.effects += 1
            self._last_host_call = self.lines, outs[-1]
        return outs[:-1]

    def refuse(self, why: str) -> NoReturn:
        """Raise the error that the operation that is written cannot run where the module will, because of what it does.

        Raises:
            ExportError: the module is written for other processes. NotImplementedError: it is for another platform.
        """
        place = "" if self.origin is None else f", at {self.origin.file}:{self.origin.line}"
        cause, cure = (
            f"operation {self.applied[0].name} {why}{place}, which",
            "compute it before or after, and pass the result.",
        )
        if self.portable:
            raise ExportError(f"its {cause} is not where it will be loaded. Leave it out of what is exported: {cure}")
        raise NotImplementedError(f"The {cause} programs can do on the CPU only, not on {self.platform!r}: {cure}")

    def once(self, count: int) -> str:
        """The attribute of an operation with so many results that runs on the first device of the mesh alone, where the
        partitioner decides what runs where."""
        if not self.partitioned:
            return ""
        self.module.first_alone = True
        return f"sdy.sharding = #sdy.sharding_per_value<[{', '.join(['<@first, []>'] * count)}]>"

    def constrained(self, value: Value, sharding: NamedSharding) -> Value:
        """The value, divided among devices as a sharding says."""
        mesh = self.module.mesh
        if mesh is None or mesh.size == 1:
            return value
        given = f"#sdy.sharding{spec_text(sharding, len(value.shape))}"
        return self.op("sdy.sharding_constraint", [value], value.type, sharding=given)

    def whole(self, value: Value, axes: Sequence[int], always: bool = True) -> Value:
        """The value, whole on each device along axes (or those that might be divided unevenly); of others nothing is said."""
        mesh = self.module.mesh
        if mesh is None:
            return value
        parts = [None if i in axes and (always or size % mesh.size) else UNCONSTRAINED for i, size in enumerate(value.shape)]
        return self.constrained(value, NamedSharding(mesh, PartitionSpec(*parts))) if None in parts else value

    def after(self) -> list[Value]:
        """What the next host call of this block must wait for: a value that the one before it returns, if there is one."""
        lines, before = self._last_host_call
        return [before] if lines is self.lines and before is not None else []

    def _ordered(self, write: Callable[[Sequence[Value]], list[Value]]) -> list[Value]:
        """Write an operation with regions by `write`, which is given what goes through it besides: at first nothing, and, if
        there turn out to be host calls in the regions, the value for which they wait; it is the last result then."""
        lines, before = self.lines, self._last_host_call
        calls, start = self.module.effects, len(lines)
        outs = write(())
        if self.module.effects == calls:
            return outs
        del lines[start:]  # but not the callbacks: functions that were written meanwhile refer to theirs by number
        self._last_host_call = before
        *outs, done = write(self.after() or [self.constant(DONE)])
        self._last_host_call = lines, done
        return outs

    def while_loop(
        self,
        start: Sequence[Value],
        condition: Callable[[Sequence[Value]], Value],
        step: Callable[[Sequence[Value]], Sequence[Value]],
    ) -> list[Value]:
        """`while_loop` of the plain writer, with host calls inside it in their place among those around it."""
        count = len(start)

        def inside(values: Sequence[Value]) -> Sequence[Value]:
            if len(values) > count:
                self._last_host_call = self.lines, values[-1]
            return values[:count]

        def stepped(values: Sequence[Value]) -> Sequence[Value]:
            outs = step(inside(values))
            if len(values) == count:
                return outs
            (done,) = self.after()
            if done is values[-1]:  # the calls are in the condition: what comes after must wait for the loop, so it is changed
                done = self.elementwise("stablehlo.add", done, self.constant(np.ones_like(DONE)))
            return [*outs, done]

        def write(extra: Sequence[Value]) -> list[Value]:
            return super(Lowering, self).while_loop([*start, *extra], lambda v: condition(inside(v)), stepped)

        return self._ordered(write)

    def case(
        self, index: Value, branches: Sequence[Callable[[], Sequence[Value]]], results: Sequence[TensorType]
    ) -> list[Value]:
        """The results of the branch of that number, each of which writes itself; host calls in them keep their place."""

        def write(extra: Sequence[Value]) -> list[Value]:
            regions = []
            for branch in branches:
                with self.region(()) as region:
                    if extra:
                        self._last_host_call = self.lines, extra[0]
                    region.returns(*branch(), *self.after()[: len(extra)])
                regions.append(region.text)
            return self.many("stablehlo.case", [index], [*results, *[value.type for value in extra]], regions)

        return self._ordered(write)

    def rule(self, primitive: Primitive) -> Rule | str | None:
        """By which rule a primitive is written here."""
        return primitive.lowering(self.platform)

    def read(self, operand: Value | Array) -> Value:
        """What an operand is here: captured arrays and literals become arguments, or are written."""
        if isinstance(operand, Value):
            return operand
        passed = self.passed.get(id(operand))
        return self.constant(host_of(operand), tensor_type(operand.type)) if passed is None else passed

    def equation(self, equation: Equation, operands: Sequence[Value | Array]) -> Any:
        """Write one equation; returns the value of its result, or of each where there are several."""
        outer = self.location, self.stack, self.origin
        self.origin = equation.source or self.origin
        if self.module.located is not None and equation.source is not None:
            self.stack += ("/" if self.stack else "") + self.module.located(equation)
            self.location = location(self.stack, equation.source.file, equation.source.line)
        out = self._equation(equation, operands)
        self.location, self.stack, self.origin = outer
        return out

    def _equation(self, equation: Equation, atoms: Sequence[Value | Array]) -> Any:
        primitive = equation.primitive
        rule = self.rule(primitive)
        self.result_types = results = [tensor_type(variable.type) for variable in equation.outputs]
        self.applied = primitive, equation.params
        if primitive.elementwise:
            operands = [self.spread(atom, results[0].shape) for atom in atoms]
        else:
            operands = [self.read(atom) for atom in atoms]
        if rule is None and primitive.expand is not None:
            return self.expanded(primitive, operands, equation.params)
        if rule is None:
            raise primitive.missing("lower", "jit (compilation)", equation.source)
        if isinstance(rule, str):
            return self.elementwise(rule, *operands, result=results[0])
        out = rule(self, *operands, **equation.params)
        outs = tuple(out) if primitive.multiple_results else (out,)
        if [value.type if isinstance(value, Value) else None for value in outs] != results:
            raise primitive.malformed("lower", f"StableHLO values of types {results}", out)
        return out

    def expanded(self, primitive: Primitive, operands: Sequence[Value], params: dict[str, Any]) -> Any:
        """What an operation without a lowering rule expands to, written here: its rules for derivatives are used up by now."""
        with ensure_compile_time_eval():  # what depends on no operand is known
            trace = Writing(self)
            out = primitive.expanded([Written(trace, value) for value in operands], params)
        read = [trace.value(one) for one in (out if primitive.multiple_results else (out,))]
        return read if primitive.multiple_results else read[0]

    def computing(self, function: Callable[..., Any], *operands: Value) -> Value:
        """What a function of arrays makes of operands, written here."""
        with ensure_compile_time_eval():
            trace = Writing(self)
            return trace.value(function(*[Written(trace, value) for value in operands]))

    def collective(
        self,
        name: str,
        value: Value,
        groups: Iterable[Sequence[int]],
        result: TensorType | None = None,
        combine: str = "",
        **attributes: str,
    ) -> Value:
        """An operation between groups of devices, which may `combine` their values by a binary operation."""
        regions = [self.combiner(combine, value.dtype)] if combine else []
        named = "source_target_pairs" if name == "collective_permute" else "replica_groups"
        channel = f"#stablehlo.channel_handle<handle = {next(self.module.channels)}, type = 1>"
        given = {named: pairs(groups), "channel_handle": channel}
        if name in ("all_reduce", "all_gather", "reduce_scatter"):
            given["use_global_device_ids"] = "unit"
        return self.many(f"stablehlo.{name}", [value], [result or value.type], regions, **attributes, **given)[0]

    def spread(self, operand: Value | Array, shape: tuple[int, ...]) -> Value:
        """An elementwise operand in the shape of the result: 0-d ones are repeated."""
        if isinstance(operand, Array) and not operand.type.shape:
            return self.constant(host_of(operand), TensorType(shape, operand.type.dtype))
        value = self.read(operand)
        return value if value.shape == shape else self.broadcast(value, shape)


class Written(Tracer):
    """A value in a function that is being written."""

    __slots__ = ("type", "value")

    def __init__(self, trace: Writing, value: Value) -> None:
        self.owner = trace
        self.value = value
        self.type = array_type(value.shape, value.dtype)


class Writing(Trace):
    """Writes each operation that is bound to its values, by the lowering rule."""

    __slots__ = ("write",)
    transformation = "lowering"

    def __init__(self, write: Lowering) -> None:
        super().__init__()
        self.write = write

    def value(self, operand: Any) -> Value:
        """What an operand is in the text."""
        return operand.value if isinstance(operand, Written) else self.write.read(as_array(operand))

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        atoms = [arg.value if isinstance(arg, Written) else as_array(arg) for arg in args]
        types = primitive.infer(tuple([type_of(arg) for arg in args]), params)
        results = [Variable(type) for type in (types if primitive.multiple_results else (types,))]
        before = self.write.result_types
        out = self.write.equation(Equation(primitive, (), tuple(results), params), atoms)
        self.write.result_types = before
        return tuple([Written(self, one) for one in out]) if primitive.multiple_results else Written(self, out)


class Lowered(NamedTuple):
    """A Program as a StableHLO module, and what it needs from outside.

    Attributes:
        text: the module. constants: the arrays to pass in front of the Program's inputs.
        options, extra: XLA's options for it, those that all platforms know and those of this one.
        callbacks, offloaded, parts: see `Module`.
        mesh: the mesh that the module is for; None for one device.
    """

    text: str
    constants: list[Array]
    callbacks: list[Callable[..., Any]]
    options: dict[str, Any]
    extra: dict[str, Any]
    offloaded: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    mesh: AbstractMesh | None = None


def lower_program(
    program: Program,
    platform: str,
    donated: Sequence[bool] = (),
    located: Naming | None = None,
    offloads: bool = False,
    portable: bool = False,
) -> Lowered:
    """A Program as the text of a StableHLO module.

    Its arguments are the constants that are passed rather than embedded, then the Program's inputs; those that are
    `donated` may be overwritten by the results. `located` modules are for showing: their operations have names, and carry the
    user's lines. Those with `offloads` are for running in this process: loops in them may be calls of machine code of our own.
    Those that are `portable` run without this process, and call nothing of it.
    """
    mesh = mesh_of(program)
    parts = 1 if mesh is None else mesh.size
    made = Module(platform, located, offloads and mesh is None, mesh, portable)
    program = preferred.grouped(program) if made.offloads else program
    constants = passed_constants(program)
    gives = ["jax.buffer_donor = true" if flag else "" for flag in donated or [False] * len(program.inputs)]
    notes, of_results, header, declared = [""] * len(constants) + gives, [""] * len(program.outputs), "", []
    if parts > 1:
        lie = [note_of(getattr(one, "sharding", None) if _spread(one) else None, one.type.ndim) for one in constants]
        lie += [note_of(variable.sharding, variable.type.ndim) for variable in program.inputs]
        notes = [joined(pair) for pair in zip(notes, lie, strict=True)]
        of_results = [joined([note_of(sharding_of(out), out.type.ndim, is_open=True)]) for out in program.outputs]
        header, declared = partitions_text(mesh), [mesh_text(mesh)]  # type: ignore[arg-type]
    else:
        notes = [joined([note]) for note in notes]
    main = made.write(program, "main", notes, of_results)
    declared += [FIRST_ALONE] if made.first_alone else []
    text = module(f"pullback_{identifier(program.name)}", [*declared, main, *made.functions], header)
    size = max(largest(program), made.largest)
    options, extra = cpu_settings(made.loops, made.barriers, size, text) if platform == "cpu" else ({}, {})
    return Lowered(text, constants, made.callbacks, options, extra, tuple(made.offloaded), tuple(made.parts), mesh)
