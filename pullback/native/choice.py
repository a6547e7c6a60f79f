"""Which Programs become machine code of our own, and which are XLA's: one model of what each takes, and the setting.

XLA takes some 4 us to begin a program on the CPU, 0.3 us for each kernel of a loop's step, and computes what is large at the
speed of memory, on all processors. Code of our own begins at once and keeps small values in registers. So it takes:

- whole programs that are light (`LIGHT`), however they look;
- loops whose steps are light, for each kernel of theirs costs XLA more than it takes;
- what is computed by rows (`rows.py`): it is one pass over memory, like XLA's fusions, on all processors.

It never takes large products of matrices (`LARGE_PRODUCT`), which libraries compute better, nor what has no native rule.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pullback.core.context import Inherited
from pullback.engine.backend import CompileOptions, Executable, backend, placement, preferred
from pullback.native import compile as compiling
from pullback.native import entry
from pullback.native.build import build
from pullback.native.checked import CheckedExecutable
from pullback.native.executable import NativeExecutable
from pullback.native.graph import Graph, Node, Refused
from pullback.native.ir import UNKNOWN_TRIPS, TooLong
from pullback.native.kernel import SECONDS_A_WEIGHT, Kernel
from pullback.native.record import record
from pullback.program.cost import cost
from pullback.program.program import Program

LIGHT = 300_000  # weight, some 45 us: up to here XLA's beginning, and its kernels', are what counts
LIGHT_STEP = 300_000  # of one step of a loop
HEAVY = 200_000_000  # weight: of what is so heavy, nothing is known to be better by rows
LARGE_PRODUCT = 128**3  # multiplications
MOST_FLOPS = 1e11  # of a Program that is looked at at all

MODES = ("off", "on", "check", "always")


def _given() -> str:
    given = os.environ.get("PULLBACK_NATIVE", "on")
    if given not in MODES:
        raise ValueError(f"The environment variable PULLBACK_NATIVE must be one of {', '.join(MODES)}, not {given!r}.")
    return given


_mode: Inherited[str] = Inherited("pullback_native", _given())
mode = _mode.get


@contextmanager
def native_mode(wanted: str) -> Iterator[None]:
    """In this block, and this thread: "off" leaves all to XLA, "on" chooses, "check" runs both and compares, "always" takes
    whatever the tier knows, for tests.

    Raises:
        ValueError: another mode.

    Example:
        >>> import pullback as pb
        >>> from pullback.native.choice import native_mode
        >>> with native_mode("off"):
        ...     pb.jit(lambda x: x + 1.0)(1.0)
        2.0:f32[]:cpu(0)
    """
    if wanted not in MODES:
        raise ValueError(f"The native tier's mode is one of {', '.join(MODES)}, not {wanted!r}.")
    with _mode.setting(wanted):
        yield


class Choice(NamedTuple):
    """Who runs a Program.

    Attributes:
        kernel: the native code; None if XLA runs it. reason: why.
    """

    kernel: Kernel | None
    reason: str

    @property
    def tier(self) -> str:
        return "xla" if self.kernel is None else "native"


def compiled(program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> Executable | None:
    """The executable of a Program that runs natively; None for what is left to XLA."""
    if not options.native or options.flags or options.committed or any(donated) or placement.several:
        return None
    kernel = choose(program).kernel
    if kernel is None:
        return None
    native = NativeExecutable(kernel)
    if mode() != "check":
        return native
    return CheckedExecutable(native, backend(options.device.platform).compile(program, options, donated), program.name)


preferred.compile = compiled
preferred.key = mode


def choose(program: Program) -> Choice:
    """Who runs a Program in the mode that holds here; remembered with it."""
    wanted = mode()
    made: Choice = program.memo(("native", wanted), lambda: _choose(program, wanted))
    return made


def refusal(program: Program) -> str | None:
    """Why the tier cannot take a Program, whatever it would cost; None if it can."""
    missing = entry.unavailable()
    if missing is not None:
        return missing
    try:
        build(program, record(program), compiling.host().vector_bytes)
    except (Refused, TooLong) as reason:
        return str(reason)
    return None


def _choose(program: Program, wanted: str) -> Choice:
    if wanted == "off":
        return Choice(None, "the native tier is off (PULLBACK_NATIVE)")
    missing = entry.unavailable()
    if missing is not None:
        return Choice(None, missing)
    if program.effects:
        return Choice(None, "it has effects")
    if wanted != "always" and cost(program).flops > MOST_FLOPS:
        return Choice(None, "it takes so long that nothing is gained by a quick start")
    try:
        graph = record(program)
        product = _largest_product(graph)
        if wanted != "always" and product > LARGE_PRODUCT:
            return Choice(None, f"its largest product of matrices takes {product} multiplications, which libraries do better")
        kernel = build(program, graph, compiling.host().vector_bytes)
    except (Refused, TooLong) as reason:
        return Choice(None, str(reason))
    step = _heaviest_step(kernel, graph)
    estimate = f"{kernel.weight:.3g} vector instructions, some {kernel.weight * SECONDS_A_WEIGHT * 1e6:.3g} us"
    if wanted == "always":
        return Choice(kernel, f"the mode is 'always'; {estimate}")
    if kernel.weight <= LIGHT:
        return Choice(kernel, f"it is light: {estimate}")
    if step is not None and step <= LIGHT_STEP:
        return Choice(kernel, f"its loops have light steps, of at most {step:.3g} vector instructions; {estimate}")
    if kernel.by_rows and kernel.weight <= HEAVY:
        return Choice(kernel, f"it is one pass over rows; {estimate}")
    return Choice(None, f"it is heavy, and no pass over rows: {estimate}")


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for inner in node.graphs:
            yield from _nodes(inner)


def _largest_product(graph: Graph) -> int:
    """The multiplications of the largest product of matrices."""
    found = [0]
    for node in _nodes(graph):
        if node.name == "dot_general":
            used = node.params["dot_dimension_numbers"].get("lhs_contracting_dimensions", ())
            summed = math.prod([node.operands[0].shape[axis] for axis in used])
            found.append(summed * math.prod(node.results[0].shape))
    return max(found)


def _heaviest_step(kernel: Kernel, graph: Graph) -> float | None:
    """The weight of the heaviest step of a loop; None if there is no loop, or there is much besides loops."""
    loops = [node for node in graph.nodes if node.name in ("scan", "while")]
    if not loops:
        return None
    trips: int = max([node.params.get("length", UNKNOWN_TRIPS) for node in loops])
    return kernel.weight / max(trips, 1)
