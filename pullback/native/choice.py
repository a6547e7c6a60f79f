"""Which Programs become machine code of our own, and which are XLA's: one model of what each takes, and the setting.

XLA takes some 4 us to begin a program on the CPU, 0.3 us for each kernel of a loop's step, and computes what is large at the
speed of memory, on all processors. Code of our own begins at once and keeps small values in registers. So it takes:

- whole programs that are light (`LIGHT`), however they look;
- loops whose steps are light, for each kernel of theirs costs XLA more than it takes;
- what mostly sorts, which takes XLA twenty to eighty times as long;
- what is computed by rows (`rows.py`): it is one pass over memory, like XLA's fusions, on all processors, sums and extremes
  over all rows included.

It never takes large products of matrices (`LARGE_PRODUCT`, `LARGE_STEP`), which libraries compute better, large convolutions
(whose text, from which their weight would be known, takes 8 ms to write), large transposes, nor what has no native rule; and no
elementwise pass that XLA is quick in (`clusters.SAVED`), unless it is light, or so long (`SHORT`) that it matters little how
soon the second thread comes.

Results of native code have memory of their own, and XLA's may take that of donated arguments: one pass over 1, 4 and 16 MB that
are given takes XLA 20, 55 and 110 us, native code, to which the system gives new memory, 23, 90 and 470. So passes over more
than `GIVEN` are XLA's. Loops are not: at all these sizes they take native code less than a quarter of XLA's time.

The limits are set by the least times of 175 programs, native and XLA's in turns, on two cores with AVX-512 that others used at
the same time (so large ones vary by 40 %, and XLA's are the luckier). How many times as quick as XLA native code is; behind the
stroke what is left to XLA for it:

    x + y a, 16 / 4096 / 65536 / 2^20 numbers          4.0  3.0  1.6 | 0.6 to 1.0
    tanh, products, a quotient, as many                4.0  1.7 | 0.8  0.5 to 0.7
    sum of 16 / 4096 / 65536 / 2^20 / 2^22; maximum    4.3  6.0  3.5  1.2 to 1.7  1.0 to 1.3; 0.8 to 1.7 of 2^20 and 2^22
    sum of squares, exp, sin of 2^20                   0.9 to 1.7  1.9 to 2.7  40
    variance of 2^16 / 2^20; value and gradient, tanh  3.5 | 2.3; 1.2 to 1.6
    logistic regression's gradient, 4096x32 / 10^5x10  1.5  2.2 to 2.8; 65536x16 2.0 to 3.7; 1000x1000 1.0 to 2.4
    a matrix by a vector, 256^2 / 1000^2 / 10^4x100    2.0  1.0 to 1.5  1.5; 10^5x10 0.75 to 1.6
    sum along axis 0 and 1 of 1000x100, 100000x3       3.0  2.6  16  20
    softmax of 64x64 / 1024x256, layernorm             2.1  1.0 to 1.4; 3.8  2.0
    x.T + 1, 32x32 / 256x256 / 1024x1024               3.4 | 0.7 to 1.4  0.5 to 1.0
    products of 8^3 / 32^3 / 64^3 / 128^3 / 256^3      5.0  3.7  2.0 | 0.9 to 1.3  0.3 to 0.6
    256x256 by 256; 1000x8 by 8x8; 1000x16 by 16x64    2.1  3.4 | 1.4
    network, width 16 / 64 / 128, batch 1, gradient    4.4  3.8  3.0; 2.6  2.6  3.3
    the same, batch 16                                 5.0  2.4  1.5; 3.6  2.0 | 1.0
    the same, batch 256                                2.1 | 1.1  0.8; 2.5 | 1.0  0.7
    attention, 8x8 / 32x16 / 4x32x16 / 128x64          5.8  2.9  1.6 | 0.7
    convolution, 3 to 8 channels of 32x32; 16 of 64^2  5.3 | 1.0
    sort of 10 / 1000 / 10^5 / 10^6 (processor time)   80  22  45  30
    cumsum of 100 / 10^4 / 10^6                        4.8  2.8  2.8 to 5
    gather and scatter-add, 100 / 10^4 / 5 10^5        3.9  1.6 | 0.9 to 1.1; 4.3  1.7 | 1.0 to 1.3
    recurrent network, 4 / 32 / 64 / 128 units         1.7  2.2  1.1 to 1.4  1.0; 64 units, batch 32 | 0.6 to 1.7
    scan of sin, 100 steps of 1 / 1000 / 10^5 numbers  2.2  3.5  4.2
    stencils in a loop, 16x16 / 64x64 / 256x256        2.8  1.7  1.6
    blur and Sobel filter, 32x32 / 256x256 / 1024^2    3.6  1.4 | 1.1; 3.4  1.5 | 1.1 to 1.7
    float16 and bfloat16, tanh and so on, 65536        1.3  1.7; product of 64^3 2.0  1.6
    hash of 100 / 10^5 / 10^6 integers; x // y, 10^5   3.9  1.7 | 1.1; 2.6
    cholesky, solve, hessian of 8; 100 products of 4x4 5.2  5.1  4.8; 26

Of a program that is XLA's, loops for which the same is true are native code that XLA calls (`handler.py`), and so are groups of
elementwise operations that XLA is slow in (`clusters.py`). The engine asks for them while it writes the program that is to run
in this process; what is shown of it, or moved elsewhere, is StableHLO throughout. How many times as quick as XLA alone that is,
with a product of 512x512 or 130x130 matrices beside (two cores with AVX-512, least of 100):

    Kalman filter, 1000 steps, its gradient            f32 1.7     f64 1.8     a large product takes most of the rest
    the filter itself                                  f32 1.1     f64 1.04
    LSTM, 64 units, gradient, 1024 inputs              f32 1.05    f64 1.12    without the product with the inputs 1.7, 1.5
    LSTM, 32 units, batch 8, gradient                  f32 3.0     f64 4.0
    Black-Scholes, 2^18 prices, and its gradient                   f64 5 and 2.4
    sin, 2^20 elements                                 f32 7       f64 8
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from time import perf_counter

from pullback.core.dtypes import kind
from pullback.core.modes import current_mode, overriding
from pullback.engine import cache
from pullback.engine.backend import CompileOptions, Executable, Part, backend, placement, preferred
from pullback.engine.lower import lower_program
from pullback.native import compile as compiling
from pullback.native import entry, handler
from pullback.native.build import build
from pullback.native.checked import CheckedExecutable
from pullback.native.clusters import SAVED, grouped
from pullback.native.emit import is_formula, kind_of
from pullback.native.executable import NativeExecutable
from pullback.native.graph import Graph, Node, Refused
from pullback.native.ir import UNKNOWN_TRIPS, TooLong
from pullback.native.kernel import SECONDS_A_WEIGHT, Kernel
from pullback.native.record import record
from pullback.program.cost import cost
from pullback.program.equality import param_key
from pullback.program.program import Program

LIGHT = 200_000  # weight, some 30 us: up to here XLA's beginning, and its kernels', are what counts
KEYED = 100_000  # below it a program of random keys, which takes the general path through the entry, is better left to XLA
LIGHT_STEP = 300_000  # of one step of a loop
SHORT = 5_000_000  # of elementwise work that XLA is quick in: before a second thread helps us, its threads have done it
HEAVY = 200_000_000  # weight: of what is so heavy, nothing is known to be better by rows
LARGE_PRODUCT, LARGE_STEP = 80**3, 50**3  # multiplications, of a product of matrices and of one in the step of a loop
WINDOWS = 1_000_000  # weight of a program with convolutions: XLA takes 60 us to begin one
LARGE_WINDOWS = 32_000_000  # multiplications of a convolution: so many weigh more than that, whatever vectors there are
GIVEN = 1 << 20  # bytes of results for which XLA uses donated memory: what is one pass over rows takes no longer there
LARGE_TRANSPOSE = 1 << 15  # elements: beyond, each is in another line of the cache
MOST_FLOPS = 1e11  # of a Program that is looked at at all

MODES = ("off", "on", "check", "always")


def mode() -> str:
    """What the tier takes here: one of `MODES`."""
    return current_mode().native


def native_mode(wanted: str) -> AbstractContextManager[None]:
    """In this block, and this thread: "off" leaves all to XLA, "on" chooses, "check" runs both and compares, "always" takes
    whatever the tier knows, for tests. It holds for functions that were called before as well.

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
    return overriding(native=wanted)


@dataclass(frozen=True)
class Choice:
    """Who runs a Program, and why: what `jit(f).explain(...)` returns.

    Attributes:
        tier: "native", "xla", or "mixed", where XLA's program calls native code. reason: why.
        parts: in a mixed program, what is native code.
        now: of XLA's programs with `tiered=True`, which executable of theirs runs, and what comes.
        kernel: in a native one, the code.
    """

    tier: str
    reason: str
    parts: tuple[str, ...] = ()
    now: str = ""
    kernel: Kernel | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        parts = f" Native parts: {', '.join(self.parts)}." if self.parts else ""
        return f"{self.tier}: {self.reason}{parts}{self.now and ' '}{self.now}"


def compiled(program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> Executable | None:
    """The executable of a Program that runs natively; None for what is left to XLA."""
    if _obstacle(options) is not None:
        return None
    kernel = choose(program, _given(program, donated)).kernel
    if mode() != "check":
        return None if kernel is None else _made(kernel, donated)
    if kernel is None and (program.effects or explain(program, options, donated).tier == "xla"):
        return None
    there = backend(options.device.platform)
    native = there.compile(program, options, donated) if kernel is None else _made(kernel, donated)
    return CheckedExecutable(native, there.compile(program, options._replace(native=False), ()), program.name)


def _made(kernel: Kernel, donated: tuple[bool, ...]) -> NativeExecutable:
    start = perf_counter()
    made = NativeExecutable(kernel, donated)
    cache.count("compiled")
    cache.count("compile_seconds", perf_counter() - start)
    return made


def part(program: Program) -> Part | None:
    """A Program of one operation as what XLA's programs can call; None if it is better left to XLA. It is remembered with the
    Program that the operation holds, if it holds one."""
    (equation,) = program.equations
    params = [(name, param_key(value)) for name, value in sorted(equation.params.items())]
    key = ("part", mode(), equation.primitive, program.input_types, *params)

    def make() -> Part | None:
        kernel = choose(program).kernel
        return None if kernel is None else handler.part(kernel)

    made: Part | None = program.subprograms()[-1].memo(key, make) if program.subprograms() else make()
    return made


def _grouped(program: Program) -> Program:
    made: Program = program if mode() == "off" else program.memo("grouped", lambda: grouped(program))
    return made


preferred.compile, preferred.key = compiled, mode
preferred.grouped, preferred.part = _grouped, part


def explain(program: Program, options: CompileOptions, donated: tuple[bool, ...]) -> Choice:
    """Who runs a Program, compiled with these options, and why."""
    obstacle = _obstacle(options)
    found = choose(program, _given(program, donated)) if obstacle is None else _xla(obstacle)
    if found.kernel is not None or obstacle is not None:
        return found
    parts = program.memo(("native parts", mode()), lambda: lower_program(program, "cpu", offloads=True).offloaded)
    return replace(found, tier="mixed", parts=parts) if parts else found


def _obstacle(options: CompileOptions) -> str | None:
    """What leaves a Program to XLA whatever it is."""
    obstacles = {
        "options of XLA's were given": options.flags,
        "it was jitted with native=False": not options.native,
        "XLA's graph is to be shown": options.show_graph,
        "its arguments are committed to a device": options.committed,
        "there are several devices": placement.several,
    }
    return next((obstacle for obstacle, holds in obstacles.items() if holds), None)


def _given(program: Program, donated: tuple[bool, ...]) -> int:
    """The bytes of results for which there is the memory of donated arguments of their shape and dtype."""
    free = Counter([(type.shape, type.dtype) for type in itertools.compress(program.input_types, donated)])
    taken = free & Counter([(type.shape, type.dtype) for type in program.output_types])
    return sum([math.prod(shape) * dtype.itemsize * count for (shape, dtype), count in taken.items()])


def choose(program: Program, given: int = 0) -> Choice:
    """Who runs a Program as a whole in the mode that holds here; remembered with it.

    Arguments:
        given: how many bytes of donated memory its results can take, of which only XLA makes use.
    """
    wanted = mode()
    made: Choice = program.memo(("native", wanted, given), lambda: _choose(program, wanted, given))
    return made


def _native(kernel: Kernel, reason: str) -> Choice:
    return Choice("native", f"{reason}.", kernel=kernel)


def _xla(reason: str) -> Choice:
    return Choice("xla", f"{reason}.")


def _choose(program: Program, wanted: str, given: int) -> Choice:
    if wanted == "off":
        return _xla("the native tier is off (PULLBACK_NATIVE)")
    missing = entry.unavailable()
    if missing is not None:
        return _xla(missing)
    if program.effects:
        return _xla("it has effects")
    if wanted != "always" and cost(program).flops > MOST_FLOPS:
        return _xla("it takes so long that nothing is gained by a quick start")
    try:
        graph = record(program)
        inside = [part for node in graph.nodes for part in node.graphs]
        for part, limit in [(graph, LARGE_PRODUCT), *[(part, LARGE_STEP) for part in inside]]:
            product = _largest_product(part, part is not graph)
            if wanted != "always" and product > limit:
                return _xla(f"its largest product of matrices takes {product} multiplications, which libraries do better")
        windows = _largest_convolution(graph)
        if wanted != "always" and windows > LARGE_WINDOWS:
            return _xla(f"its largest convolution takes {windows} multiplications, which XLA does better")
        kernel = build(program, graph, compiling.host())
    except (Refused, TooLong) as reason:
        return _xla(str(reason))
    step = _heaviest_step(kernel, graph)
    estimate = f"{kernel.weight:.3g} vector instructions, some {kernel.weight * SECONDS_A_WEIGHT * 1e6:.3g} us"
    if wanted == "always":
        return _native(kernel, f"the mode is 'always'; {estimate}")
    turned = _largest_transpose(graph)
    if turned > LARGE_TRANSPOSE and step is None:
        return _xla(f"it transposes {turned} elements")
    if kernel.weight < KEYED and any([kind(type.dtype) == "k" for type in (*kernel.inputs, *kernel.outputs)]):
        return _xla(f"it is light, and takes or returns random keys: {estimate}")
    if kernel.weight <= (WINDOWS if any([node.name == "convolution" for node in graph.nodes]) else LIGHT):
        return _native(kernel, f"it is light: {estimate}")
    if step is not None and step <= LIGHT_STEP:
        return _native(kernel, f"its loops have light steps, of at most {step:.3g} vector instructions; {estimate}")
    if kernel.sorting >= kernel.weight / 2:
        return _native(kernel, f"most of it is sorting: {estimate}")
    if kernel.by_rows and kernel.weight <= SHORT and not _pays(graph):
        return _xla(f"XLA is as quick in its elementwise operations: {estimate}")
    if kernel.by_rows and given > GIVEN:
        return _xla(f"{given} bytes of results take the place of donated arguments, which spares XLA the memory")
    if kernel.by_rows and kernel.weight <= HEAVY:
        return _native(kernel, f"it is one pass over rows; {estimate}")
    return _xla(f"it is heavy, and no pass over rows: {estimate}")


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for inner in node.graphs:
            yield from _nodes(inner)


def _largest_product(graph: Graph, vectors: bool) -> int:
    """The multiplications of the largest product of matrices; `vectors`, whether those with a vector count: of a large matrix
    memory sets the time, in a step of a loop it stays in the cache."""
    found = [0]
    for node in _nodes(graph):
        if node.name == "dot_general":
            used = node.params["dot_dimension_numbers"].get("lhs_contracting_dimensions", ())
            summed = math.prod([node.operands[0].shape[axis] for axis in used])
            count = summed * math.prod(node.results[0].shape)
            if vectors or count > max([math.prod(operand.shape) for operand in node.operands]):
                found.append(count)
    return max(found)


def _largest_convolution(graph: Graph) -> int:
    """The multiplications of the largest convolution."""
    found = [0]
    for node in _nodes(graph):
        if node.name == "convolution":
            kernel, features = node.operands[1].shape, node.params["dimension_numbers"][1].index("o")
            found.append(math.prod(node.results[0].shape) * math.prod(kernel) // max(kernel[features], 1))
    return max(found)


def _pays(graph: Graph) -> bool:
    """Whether there is more in a graph than elementwise operations that XLA is quick in."""
    return any([not _is_quick(node) for node in graph.nodes])


def _is_quick(node: Node) -> bool:
    """Whether XLA is quick in an operation: one pass over memory, and vectors."""
    if not is_formula(node):
        return False
    dtype, name = node.results[0].dtype, node.name
    divides = dtype.kind in "iu" and name in ("divide", "remainder")
    return not divides and kind_of(node.results[0]) not in ("f16", "bf16") and name not in SAVED.get(dtype.name, ())


def _largest_transpose(graph: Graph) -> int:
    """The elements of the largest array whose rows are made columns."""
    turned = [node for node in _nodes(graph) if node.name == "transpose" and node.params["permutation"][-1] != _last(node)]
    return max([math.prod(node.results[0].shape) for node in turned], default=0)


def _last(node: Node) -> int:
    return len(node.results[0].shape) - 1


def _heaviest_step(kernel: Kernel, graph: Graph) -> float | None:
    """The weight of a step of the longest loop; None if there is no loop. Sums up to each element are loops, too."""
    trips = [_trips(node) for node in graph.nodes if node.name in ("scan", "while", "accumulate")]
    return kernel.weight / max(*trips, 1) if trips else None


def _trips(node: Node) -> int:
    params = node.params
    length: int = node.operands[0].shape[params["axis"]] if node.name == "accumulate" else params.get("length", UNKNOWN_TRIPS)
    return length
