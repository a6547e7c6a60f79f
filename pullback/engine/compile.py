"""From a Program to an executable: simplify, lower, compile, remember."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.core import primitive as primitive_module
from pullback.core.array import Array, as_array
from pullback.core.primitive import Primitive
from pullback.engine import cache
from pullback.engine.lower import Lowered, lower_program
from pullback.engine.place import common_device
from pullback.engine.xla import Backend, Executable, backend, placement
from pullback.program.equality import param_key
from pullback.program.equation import Equation, Variable
from pullback.program.program import Program

# What takes XLA less long than this is not worth a file: reading it back would take as long.
KEPT_SECONDS = 0.02


class CompileOptions(NamedTuple):
    """How to compile a Program.

    Attributes:
        platform: the platform to compile for. number: that of the device there.
        committed: whether results must stay on that device; else they may go where other arguments are.
        quick: at a low optimization level. show_graph: print the StableHLO and the optimized program when they are made.
    """

    platform: str = "cpu"
    number: int = 0
    committed: bool = False
    quick: bool = False
    show_graph: bool = False


DEFAULT_OPTIONS = CompileOptions()

# The Programs that hold an executable, so that `forget_executables` can reach them.
_holders: weakref.WeakValueDictionary[int, Program] = weakref.WeakValueDictionary()


def lower_to_text(program: Program, options: CompileOptions = DEFAULT_OPTIONS, donated: Sequence[bool] = ()) -> str:
    """A Program's StableHLO module."""
    return lower_program(program, options.platform, donated).text


def compile_program(program: Program, options: CompileOptions = DEFAULT_OPTIONS, donated: tuple[bool, ...] = ()) -> Executable:
    """Compile a Program; remembered with it. Threads that ask for the same one at once get the same one."""
    key = ("executable", options, donated)
    found: Executable | None = program._memo.get(key)
    if found is not None:
        return found

    def make() -> Executable:
        lowered = lower_program(program, options.platform, donated)
        there = backend(options.platform)
        made = Executable(
            there,
            _load(there, lowered, options),
            lowered.text,
            program.input_types,
            program.output_types,
            lowered.constants,
            [i for i, flag in enumerate(donated) if flag],
            options.number,
            options.committed,
            lowered.failures,
            bool(lowered.callbacks),
        )
        if options.show_graph:
            print(f"StableHLO:\n{lowered.text}\nOptimized by XLA:\n{made.optimized_text()}")
        _holders[id(program)] = program
        kept: Executable = program._memo.setdefault(key, made)
        return kept

    made: Executable = cache.once((id(program), key), lambda: program._memo.get(key), make)
    return made


def _load(there: Backend, lowered: Lowered, options: CompileOptions) -> Any:
    """XLA's executable for a module: from memory, from disk, or compiled now."""
    arguments = {"index": options.number, "quick": options.quick, **lowered.settings}
    if lowered.callbacks:  # it holds Python functions, so it is nobody else's
        return _compile(there, lowered, arguments)
    body = lowered.text.partition("\n")[2]  # without the first line, which holds the function's name
    key = cache.digest(body, repr(sorted(arguments.items())), there.version, cache.processor())
    found = cache.recall(key)
    if found is not None:
        return found

    def make() -> Any:
        blob = cache.read(key)
        if blob is not None:
            try:
                made = there.deserialize(blob, options.number)
            except Exception:  # whatever jaxlib finds wrong with it: it is made again
                blob = None
            else:
                cache.count("disk_hits")
        if blob is None:
            start = time.perf_counter()
            made = _compile(there, lowered, arguments)
            if time.perf_counter() - start >= KEPT_SECONDS and cache.directory() is not None:
                cache.write(key, there.serialize(made))
        cache.remember(key, made)
        return made

    return cache.once(key, lambda: cache.peek(key), make)


def _compile(there: Backend, lowered: Lowered, arguments: dict[str, Any]) -> Any:
    start = time.perf_counter()
    made = there.compile(lowered.text, callbacks=lowered.callbacks, **arguments)
    cache.count("compiled")
    cache.count("compile_seconds", time.perf_counter() - start)
    return made


def forget_executables() -> None:
    """Forget every executable in this process; those on disk stay."""
    for program in list(_holders.values()):
        for key in [key for key in program._memo if key.__class__ is tuple and key[0] == "executable"]:
            program._memo.pop(key, None)
    _holders.clear()
    _single.clear()
    cache.forget_all()


def execute(program: Program, arrays: Sequence[Array]) -> list[Array]:
    """Compile, if that has not been done yet, and run where the arrays are."""
    return compile_program(program, placed(DEFAULT_OPTIONS, arrays) if placement.several else DEFAULT_OPTIONS)(arrays)


def placed(
    options: CompileOptions, arrays: Sequence[Array], names: Callable[[], Sequence[str]] | None = None
) -> CompileOptions:
    """The options for computing where the arrays are. Raises `DeviceError` if they are committed to different devices."""
    device, committed = common_device(arrays, names)
    return options._replace(platform=device.platform, number=device.id, committed=committed)


# ---- single operations ------------------------------------------------------------------------------------------------

_single: dict[Any, Program] = {}


def compile_one(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Evaluate one operation by compiling its lowering; compiled once for each combination of types and parameters."""
    arrays = [as_array(arg) for arg in args]
    types = tuple([array.type for array in arrays])
    key: Any = (primitive, types, *[(name, param_key(value)) for name, value in sorted(params.items())])
    try:
        program = _single.get(key)
    except TypeError:
        program, key = None, None
    if program is None:
        inputs = tuple([Variable(type) for type in types])
        found = primitive.infer(types, params)
        outputs = tuple([Variable(type) for type in (found if primitive.multiple_results else (found,))])
        program = Program(inputs, [Equation(primitive, inputs, outputs, params)], outputs, name=primitive.name)
        if key is not None:
            program = _single.setdefault(key, program)
    outs = execute(program, arrays)
    return tuple(outs) if primitive.multiple_results else outs[0]


primitive_module.compile_one = compile_one
