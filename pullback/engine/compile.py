"""From a Program to an executable, by the back end of its platform; what is compiled is remembered with the Program."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import pullback.engine.plugins  # noqa: F401  (which makes platforms known, the CPU too)
from pullback.core.array import Array, ShardedArray, as_array, placed_type
from pullback.core.bounded import Bounded
from pullback.core.devices import DEFAULT_DEVICE, Device
from pullback.core.errors import DeviceError
from pullback.core.primitive import Primitive
from pullback.core.reports import report
from pullback.core.shardings import on_one_mesh
from pullback.engine import cache
from pullback.engine.backend import DEFAULT_OPTIONS, CompileOptions, Executable, backend, placement, preferred
from pullback.engine.lower import operation_program
from pullback.engine.partition import mesh_of, placed_program
from pullback.engine.place import common_device
from pullback.program.cost import largest
from pullback.program.equality import param_key
from pullback.program.program import Program
from pullback.program.provenance import Naming, name_stack

MAX_OPERATIONS = 1024  # single operations of which the Program is kept

# The Programs that hold an executable, so that `forget_executables` can reach them.
_holders: weakref.WeakValueDictionary[int, Program] = weakref.WeakValueDictionary()


def lower_to_text(
    program: Program,
    options: CompileOptions = DEFAULT_OPTIONS,
    donated: tuple[bool, ...] = (),
    located: Naming | None = name_stack,
) -> str:
    """What a back end compiles for a Program, if `located` with the user's lines and with names: for XLA a StableHLO module."""
    return backend(options.device.platform).source_text(program, options, donated, located)


def numbered_executable(program: Program, options: CompileOptions = DEFAULT_OPTIONS) -> tuple[Executable, str]:
    """What a Program is compiled to, to be looked into, and the text of that: each operation has a name, and behind it the id
    of the equation that it comes from, as far as that is known. Nothing is kept, and nothing is donated."""
    return backend(options.device.platform).numbered(program, options._replace(native=False, tiered=False))


def compile_program(program: Program, options: CompileOptions = DEFAULT_OPTIONS, donated: tuple[bool, ...] = ()) -> Executable:
    """Compile a Program; remembered with it. Threads that ask for the same one at once get the same one."""
    return kept_executable(program, options, donated, lambda: make_executable(program, options, donated))


def kept_executable(
    program: Program, options: CompileOptions, donated: tuple[bool, ...], make: Callable[[], Executable]
) -> Executable:
    """The executable that is remembered with a Program; else what `make` returns."""

    def make_first() -> Executable:
        made = make()
        _holders[id(program)] = program
        return made

    found: Executable = program.memo(("executable", options, donated, preferred.key()), make_first)
    return found


def make_executable(program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> Executable:
    """Compile a Program, by the one that is preferred to the back end if that takes it."""
    if (size := largest(program)) > sys.maxsize:  # XLA ends the process
        raise MemoryError(
            f"jit of {program.name} computes an array of {size} bytes, of at most {sys.maxsize}. Compute it in parts, in a loop"
            " (pb.lax.map, scan)."
        )
    there = backend(options.device.platform)
    report("Compiling jit(%s) with argument types %s", program.name, program.input_types)
    started = perf_counter()
    mesh = mesh_of(program)
    if mesh is not None:
        options = options._replace(tiered=False)
    prefer = preferred.compile if mesh is None and options.device == DEFAULT_DEVICE else None
    made = None if prefer is None else prefer(program, options, donated)
    if made is None:
        made = there.compile(program, options, donated)
    report("Finished XLA compilation of jit(%s) in %.6f sec", program.name, perf_counter() - started)
    if options.show_graph:
        source = there.source_text(program, options, donated, name_stack)
        print(f"StableHLO:\n{source}\nOptimized by XLA:\n{made.optimized_text()}")
    return made


def forget_executables() -> None:
    """Forget every executable in this process; those on disk stay."""
    for found in _holders.valuerefs():  # a copy: other threads compile meanwhile
        memo = {} if (program := found()) is None else program._memo
        for key in [key for key in list(memo) if key.__class__ is tuple and key[0] == "executable"]:
            memo.pop(key, None)
    _holders.clear()
    _operations.clear()
    cache.forget_all()


def run_program(program: Program, arrays: Sequence[Array]) -> list[Array]:
    """Compile, if that has not been done yet, and run where the arrays are."""
    if any([array.__class__ is ShardedArray for array in arrays]):
        program = placed_program(program, tuple([type.sharding for type in on_one_mesh([*map(placed_type, arrays)])]))
    return compile_program(program, placed(DEFAULT_OPTIONS, arrays) if placement.several else DEFAULT_OPTIONS)(arrays)


def placed(
    options: CompileOptions, arrays: Sequence[Array], names: Callable[[], Sequence[str]] | None = None
) -> CompileOptions:
    """The options for computing where the arrays are. Raises `DeviceError` if they are committed to different devices."""
    device, committed = common_device(arrays, names)
    return options._replace(device=device, committed=committed)


def memory_stats(device: Device) -> dict[str, int] | None:
    """How much of a device's memory is in use, and so on, by name; None if its platform does not count that.

    Raises:
        DeviceError: there is no such device.
    """
    there = backend(device.platform)
    if device not in there.devices:
        raise DeviceError(f"There is no device {device}; there are {', '.join(map(str, there.devices))}.")
    return there.memory_stats(there.devices.index(device))


# ---- single operations ------------------------------------------------------------------------------------------------

_operations: Bounded[Any, Program] = Bounded(MAX_OPERATIONS)


def run_operation(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Evaluate one operation by compiling its lowering; compiled once for each combination of types and parameters."""
    arrays = [as_array(arg) for arg in args]
    types = on_one_mesh([*map(placed_type, arrays)])
    key: Any = (primitive, types, *[(name, param_key(value)) for name, value in sorted(params.items())])
    try:
        program = _operations.get(key)
    except TypeError:
        program, key = None, None
    if program is None:
        found = primitive.infer(tuple([array.type for array in arrays]), params)
        program = operation_program(primitive, types, found if primitive.multiple_results else (found,), params)
        if key is not None:
            program = _operations.setdefault(key, program)
    outs = run_program(program, arrays)
    return tuple(outs) if primitive.multiple_results else outs[0]
