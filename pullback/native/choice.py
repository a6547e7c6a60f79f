"""Which Programs become machine code of our own, and which are XLA's: one model of what each takes, and the setting.

XLA takes some 4 us to begin a program on the CPU, 0.3 us for each kernel of a loop's step, 10 us for a product of matrices, and
computes what is large on all processors. Code of our own begins at once and keeps small values in registers. So it takes:

- whole programs that are light (`LIGHT`), however they look;
- what is computed by rows (`rows.py`): it is one pass over memory, like XLA's fusions, on all processors, sums and extremes
  over all rows included;
- what mostly sorts or selects, which takes XLA three to three hundred times as long;
- of the rest, which one thread computes, loops with steps of some weight (`LIGHT_STEP`), for XLA takes up to six times the work
  for them, and what is not elementwise, up to `ALONE`. Both limits hold for two processors, and shrink where there are more.

It never takes large products of matrices (`LARGE_PRODUCT`, `LARGE_STEP`), which libraries compute better, large convolutions
(whose text, from which their weight would be known, takes 8 ms to write), large transposes, what copies large arrays together
and computes little of them (the system gives memory anew for that in each call, which takes 0.2 to 0.6 ns a byte: `COPIED`),
nor what has no native rule.

Results of native code have memory of their own, and XLA's may take that of donated arguments: one pass over 1, 4 and 16 MB that
are given takes XLA 20, 55 and 110 us, native code, to which the system gives new memory, 23, 90 and 470. So passes over more
than `GIVEN` are XLA's. Loops are not: at all these sizes they take native code less than a quarter of XLA's time.

The limits are set by the least times of 624 programs (`benchmarks/choices.py`), native and XLA's in turns, on two cores with
AVX-512 that others used at the same time (so large ones vary by 40 %). How many times as quick as XLA native code is; behind
the stroke what is left to XLA for it. Where one line says two things, float32 comes before the semicolon:

    x + y a, 16 / 4096 / 2^16 / 2^18 / 2^20 numbers    9.3  4.5  1.8  1.6  1.8; 9.6  3.6  1.6  1.1  0.9
    exp, 4096 / 2^16 / 2^18 / 2^20                     3.4  1.8  1.6  1.5 to 2.2; 2.3  1.7  1.3  1.2
    log, log1p, 4096 / 2^16 / 2^20                     3.8  2.2 to 2.6  1.5 to 2.0; 3.4 to 4.7  2.9 to 4.2  2.3 to 5.5
    tanh, gelu, 4096 / 2^16 / 2^20                     3.0  1.4 to 1.9  1.1 to 1.4; 1.4  0.8 to 1.7  0.6 to 2.0
    sin, power, 4096 / 2^16 / 2^20                     2.9 to 5.4  2.2 to 12  5 to 12; 3.2 to 6.8  2.6 to 7.5  13
    Black-Scholes, 4096 / 2^16 / 2^20                  2.1  2.0  1.8; 5.2  6.7  11
    Adam, 16^2 / 128^2 / 512^2 / 1024^2, and a row     4.0  2.9  2.0  2.0
    tanh and exp of arrays of two shapes, 2^14 / 2^18  2.4 | 1.6 to 2.2; 1.2 | 0.5 to 1.1
    sum of 16 / 4096 / 2^16 / 2^20 / 2^22; maximum     10  10  13  1.6  1.1; 11 to 6.8 of 4096 to 2^22
    argmax of 4096 / 2^16 / 2^20; pooling, 256^2       8.0  5.7  4.4; 6.0
    variance, 4096 / 2^16 / 2^20; value and gradient   10.6  4.7  1.7; 3.4  2.2  2.1
    logistic regression's gradient, 4096x32 / 1000^2   1.8  1.4
    a matrix by a vector, 256^2 / 1000^2 / 10^4x100    2.7  1.0  1.2; and by one on its left, 2.8  1.4  2.3
    sum along axis 0 and 1 of 1000x100, 100000x3       3.4  4.1  12  14
    softmax of 64x64 / 1024x256, layer norm            3.3  3.0; 5.8  2.9
    x.T + 1, 32^2 / 128^2 / 256^2 / 1024^2             5.9  1.5 | 1.1  0.6
    products of 32^3 / 64^3 / 80^3 / 96^3 / 128^3      5.5  2.3  1.7  1.5 | 1.0; 4.4  1.8 | 0.7  0.7  0.6
    10 / 1000 / 10^4 products of 4x4; 100 of 64x64     19  115  142; 1.2
    network, width 16 / 64 / 128, batch 1, gradient    9.9  6.0  6.2; 7.3  4.5  4.0
    the same, batch 16; batch 256                      8.2  2.2  1.0; 2.5 | 0.7
    attention, 8x8 / 32x16 / 4x32x16 / 128x64          13  4.9  2.0 | 1.1
    convolution, 3 to 8 channels of 32^2; 16 of 64^2   5.8  3.3 | 1.0
    sort of 10 / 1000 / 10^5 (NumPy's, in XLA's)       11  4.0  5.5
    the largest 10 of 1000 / 10^4 / 10^5 / 2^20        4.5  15  30  62
    cumsum of 100 / 10^4 / 2^20                        12  3.1  2.7
    gather and scatter-add, 100 / 4096 / 2^14 / 2^18   9.7  2.3  1.4 | 0.8; 9.0  2.2  1.3 | 1.3
    histogram equalization, 32^2 / 128^2 / 1024^2      3.8  1.4  1.0
    recurrent network, 4 / 32 / 64 / 128 units         2.9  3.9  1.8  1.1; 2.4  2.3  0.9  1.0
    scan of sin, 100 steps of 1 / 1000 / 10^5 numbers  3.5  3.0  3.6
    x / sum(x) in a loop, 100 / 2^14 / 2^18            3.9  0.7  0.8; 2.3  0.5  0.7
    stencils in a loop, 16^2 / 64^2 / 256^2 / 1024^2   7.5  7.6  2.9  2.9; heat, by rolling, 3.4  1.2  1.1
    blur and Sobel filter, 32^2 / 256^2 / 1024^2       6.0  2.2  2.4; 5.8  1.9  1.7
    2 concatenate(x, y), 4096 / 2^16 / 2^20 each       3.1  1.0 | 0.4
    float16 and bfloat16, tanh and so on, 2^16         1.6  1.9
    hash of 100 / 2^16 / 2^20 integers; x // 7, 2^16   9.4  1.3  1.1; 1.3
    cholesky of 8 / 32 / 48 / 64; hessian of 8         12  2.6  1.4  1.2; 9.8  1.9  0.9 | 0.6; 12

Of 616 programs, what is chosen is not within 0.8 of the better for about twenty: tanh of 2^16 and more float64 numbers, which
XLA computes in two thirds of the work; divisions by a sum in a loop, where XLA multiplies; elementwise functions of two shapes
in float32; convolutions in float64, in which XLA is slow.

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
from dataclasses import dataclass, field, replace
from time import perf_counter

from pullback.core.dtypes import kind
from pullback.core.modes import Block, current_mode, overriding
from pullback.core.source import api_class
from pullback.engine import cache
from pullback.engine.backend import CompileOptions, Executable, Part, backend, placement, preferred
from pullback.engine.lower import lower_program
from pullback.native import compile as compiling
from pullback.native import entry, handler, pool
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
ALONE = 1_500_000  # of what one thread computes, if XLA is not quick in it, on two processors
LIGHT_STEP = 2_500_000  # of one step of a loop, likewise
WINDOWS = 1_000_000  # of a program with convolutions: XLA takes 60 us to begin one
LARGE_WINDOWS = 32_000_000  # multiplications of a convolution: so many weigh more than that, whatever vectors there are
LARGE_PRODUCT, LARGE_STEP = 4_000_000, 500_000  # multiplications times bytes, of a product of matrices, in the step of a loop
GIVEN = 1 << 20  # bytes of results for which XLA uses donated memory: what is one pass over rows takes no longer there
LARGE_TRANSPOSE = 1 << 15  # elements: beyond, each is in another line of the cache
COPIED = 1 << 22  # bytes of arrays that are put together in memory first: too many, unless much is computed of them
MOST_FLOPS = 1e11  # of a Program that is looked at at all

MODES = ("off", "on", "check", "always")


def mode() -> str:
    """What the tier takes here: one of `MODES`."""
    return current_mode().native


@api_class
class native_mode(Block):
    """What the native tier takes inside the `with` block, or the decorated function, in this thread: functions that were called
    before as well. As a statement by itself it does nothing, and warns.

    The environment variable `PULLBACK_NATIVE` sets the same for a whole process.

    Arguments:
        wanted: "off" leaves all to XLA, "on" chooses, "check" runs both and compares, "always" takes whatever the tier knows,
            for tests.

    Raises:
        ValueError: another mode.

    Example:
        >>> import pullback as pb
        >>> with pb.native_mode("off"):
        ...     pb.jit(lambda x: x + 1.0)(1.0)
        2.0:f32[]:cpu(0)
    """

    variable = "PULLBACK_NATIVE"

    def __init__(self, wanted: str) -> None:
        if wanted not in MODES:
            raise ValueError(f"The native tier's mode is one of {', '.join(MODES)}, not {wanted!r}.")
        super().__init__(wanted, overriding(native=wanted))


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
    if wanted != "always" and cost(program).work > MOST_FLOPS:
        return _xla("it takes so long that nothing is gained by a quick start")
    try:
        graph = record(program)
        if wanted != "always" and (product := _large_product(graph)) is not None:
            return _xla(f"its largest product of matrices takes {product:,} multiplications, which libraries do better")
        if wanted != "always" and (windows := _largest_convolution(graph)) > LARGE_WINDOWS:
            return _xla(f"its largest convolution takes {windows:,} multiplications, which XLA does better")
        kernel = build(program, graph, compiling.host())
    except (Refused, TooLong) as reason:
        return _xla(str(reason))
    step = _heaviest_step(kernel, graph)
    estimate = f"{_about(kernel.weight)} vector instructions, some {_about(kernel.weight * SECONDS_A_WEIGHT * 1e6)} us"
    if wanted == "always":
        return _native(kernel, f"the mode is 'always'; {estimate}")
    turned = _largest_transpose(graph)
    if turned > LARGE_TRANSPOSE and step is None:
        return _xla(f"it transposes {turned:,} elements")
    if kernel.weight < KEYED and any([kind(type.dtype) == "k" for type in (*kernel.inputs, *kernel.outputs)]):
        return _xla(f"it is light, and takes or returns random keys: {estimate}")
    if kernel.weight <= (WINDOWS if any([node.name == "convolution" for node in graph.nodes]) else LIGHT):
        return _native(kernel, f"it is light: {estimate}")
    if step is not None and step <= _for_threads(LIGHT_STEP):
        return _native(kernel, f"its loops have light steps, of at most {_about(step)} vector instructions; {estimate}")
    if kernel.sorting >= kernel.weight / 2:
        return _native(kernel, f"most of it is sorting: {estimate}")
    if kernel.by_rows and given > GIVEN:
        return _xla(f"{given:,} bytes of results take the place of donated arguments, which spares XLA the memory")
    if kernel.workspace > COPIED and kernel.weight < kernel.workspace / 4 and step is None:
        return _xla(f"it would first put {kernel.workspace:,} bytes together in memory; {estimate}")
    if kernel.by_rows:
        return _native(kernel, f"it is one pass over rows; {estimate}")
    if kernel.weight <= _for_threads(ALONE) and _pays(graph):
        return _native(kernel, f"XLA is not quick in it: {estimate}")
    return _xla(f"it is heavy, and no pass over rows: {estimate}")


def _about(number: float) -> str:
    """Three digits of a number, written out: 4,850,000."""
    return f"{float(f'{number:.3g}'):,.15g}"


def _for_threads(limit: int) -> float:
    """A limit for code that runs on one thread, measured on two processors: more of them divide XLA's work."""
    return max(LIGHT, 2 * limit / max(2, pool.thread_count()))


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for inner in node.graphs:
            yield from _nodes(inner)


def _large_product(graph: Graph) -> int | None:
    """The multiplications of a product of matrices that is too large for the tier, if there is one."""
    steps = [(inner, LARGE_STEP) for node in graph.nodes for inner in node.graphs]
    for part, limit in [(graph, LARGE_PRODUCT), *steps]:
        product, size = _largest_product(part, part is not graph)
        if product * size > limit:
            return product
    return None


def _largest_product(graph: Graph, vectors: bool) -> tuple[int, int]:
    """The multiplications of the largest product of two matrices, and the bytes of a number; `vectors`, whether those with a
    vector count: of a large matrix memory sets the time, in a step of a loop it stays in the cache."""
    found = [(0, 1)]
    for node in _nodes(graph):
        if node.name == "dot_general":
            numbers, shape = node.params["dot_dimension_numbers"], node.operands[0].shape
            summed = math.prod([shape[axis] for axis in numbers.get("lhs_contracting_dimensions", ())])
            batch = math.prod([shape[axis] for axis in numbers.get("lhs_batching_dimensions", ())])
            count = summed * math.prod(node.results[0].shape)
            if vectors or count > max([math.prod(operand.shape) for operand in node.operands]):
                found.append((count // max(batch, 1), max(4, node.results[0].dtype.itemsize)))
    return max(found, key=math.prod)


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
