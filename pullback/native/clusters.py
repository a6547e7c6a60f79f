"""Elementwise operations that XLA's CPU code is slow in, with those around them, as one operation that XLA calls.

XLA computes these functions one element at a time, or by several times the arithmetic that they need. Nanoseconds an element
(30,000 elements, one thread, a processor with AVX-512, jaxlib 0.10.2), XLA's and ours:

    f64     log    log1p  sin    tan    atan   cbrt   erf    erf_inv  acos   asinh  power  atan2  remainder
    XLA     3.4    4.3    8.4    9.8    8.2    10     7.2    29       14     8.3    10     15     9.3
    ours    1.1    1.6    1.2    1.7    1.7    1.5    2.4    7.1      2.1    2.0    3.1    1.8    0.6

    f32     sin    tan    atan   cbrt   erf_inv  acos   power  atan2  remainder
    XLA     2.4    9.7    5.1    8.9    19       10     4.4    17     9.7
    ours    0.9    2.0    0.9    1.9    6.0      1.6    2.3    1.2    0.6

    f32     log    log1p  expm1           f64     expm1
    XLA     1.0    1.5    1.7                     3.0
    ours    0.4    0.5    0.5                     1.2

In the others (exp, tanh, logistic, sqrt, ...) it is as quick as we are, or nearly; so it is in logarithms and erf where only a
reduction follows (0.6 and 1.7 ns). What it calls, it fuses with nothing: what goes in and out is written and read once more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback.core.primitive import Primitive
from pullback.core.types import ArrayType
from pullback.native.graph import Graph, Refused
from pullback.native.record import record
from pullback.program.equation import Equation, Variable
from pullback.program.program import Program

LEAST = 4096  # elements
PASS = 0.08e-9  # seconds for a byte that is written and read again, by two threads

# By kind of element: the seconds that one takes less here than in XLA, by StableHLO's names.
SAVED: dict[str, dict[str, float]] = {
    "float64": {
        "log": 2.3e-9, "log_plus_one": 2.7e-9, "exponential_minus_one": 1.8e-9,
        "sine": 7e-9, "cosine": 7e-9, "tan": 8e-9, "chlo.atan": 6e-9, "cbrt": 9e-9, "chlo.erf": 4.8e-9,
        "chlo.erf_inv": 20e-9, "chlo.asin": 11e-9, "chlo.acos": 11e-9, "chlo.asinh": 6e-9, "chlo.acosh": 6e-9,
        "chlo.atanh": 2.8e-9, "power": 7e-9, "atan2": 13e-9, "remainder": 8e-9,
    },
    "float32": {
        "log": 0.5e-9, "log_plus_one": 1e-9, "exponential_minus_one": 1e-9,
        "sine": 1.5e-9, "cosine": 1.6e-9, "tan": 7e-9, "chlo.atan": 4e-9, "cbrt": 7e-9, "chlo.erf_inv": 13e-9,
        "chlo.asin": 8e-9, "chlo.acos": 8e-9, "power": 2.2e-9, "atan2": 15e-9, "remainder": 9e-9,
    },
}  # fmt: skip

# In which XLA is quick where a reduction reads the result.
IN_REDUCTIONS = ("log", "log_plus_one", "exponential_minus_one", "chlo.erf")


def _result_type(*types: ArrayType, program: Program) -> tuple[ArrayType, ...]:
    return tuple(program.output_types)


def _lower(write: Any, *values: Any, program: Program) -> Any:
    found = write.offload(values)
    return write.inline(program, *values) if found is None else found


cluster = Primitive("cluster", result_type=_result_type, lower=_lower, multiple_results=True)


def grouped(program: Program) -> Program:
    """A Program in which runs of elementwise operations that XLA is slow in are one operation each, a `cluster`."""
    if not any([_is_large(equation) for equation in program.equations]):
        return program
    equations = list(program.equations)
    readers: dict[Any, list[Equation | None]] = {output: [None] for output in program.outputs}
    for equation in equations:
        for atom in equation.inputs:
            readers.setdefault(atom, []).append(equation)
    made: list[Equation] = []
    for run in _runs(equations):
        worth = _as_cluster(run, readers, program.name) if _is_large(run[0]) else None
        made += run if worth is None else [worth]
    return Program(program.inputs, made, program.outputs, program.constants, program.name, program.batch_axes)


def _is_large(equation: Equation) -> bool:
    """Whether an equation computes each of many numbers by itself."""
    type = equation.outputs[0].type if equation.primitive.elementwise else None
    return type is not None and type.dtype.name in (*SAVED, "bool") and math.prod(type.shape) >= LEAST


def _runs(equations: Sequence[Equation]) -> Iterator[list[Equation]]:
    """Neighbours that are large and of one shape, and each other equation by itself."""
    run: list[Equation] = []
    for equation in equations:
        joins = run and _is_large(run[0]) and _is_large(equation)
        if run and not (joins and equation.outputs[0].type.shape == run[0].outputs[0].type.shape):
            yield run
            run = []
        run.append(equation)
    yield run


def _as_cluster(run: list[Equation], readers: dict[Any, list[Equation | None]], name: str) -> Equation | None:
    """A run as one equation; None if XLA had better compute it. A result of the whole program is read by None."""
    own = {variable for equation in run for variable in equation.outputs}
    used = [atom for equation in run for atom in equation.inputs if isinstance(atom, Variable)]
    inputs = tuple(dict.fromkeys([variable for variable in used if variable not in own]))
    inside = set(map(id, run))
    outside = {one: [reader for reader in readers.get(one, []) if id(reader) not in inside] for one in own}
    outputs = tuple([one for equation in run for one in equation.outputs if outside[one]])
    program = Program(inputs, run, outputs, name=name)
    try:
        graph = record(program)
    except Refused:
        return None
    size = math.prod(run[0].outputs[0].type.shape)
    reduced = all([reader is not None and _results(reader) < size for one in outputs for reader in outside[one]])
    moved = sum([variable.type.nbytes for variable in (*inputs, *outputs)])
    if _saved(graph, reduced) <= moved * PASS:
        return None
    return Equation(cluster, inputs, outputs, {"program": program})


def _results(equation: Equation) -> int:
    return max([math.prod(variable.type.shape) for variable in equation.outputs], default=0)


def _saved(graph: Graph, reduced: bool) -> float:
    """The seconds that a graph takes less here than in XLA, on one thread each. `reduced`: only reductions follow."""
    total = 0.0
    for node in graph.nodes:
        result = node.results[0]
        exponent = graph.constants.get(node.operands[-1].name) if node.name == "power" else None
        easy = exponent is not None and bool(np.all(np.isin(2.0 * exponent, range(-6, 7))))  # XLA multiplies
        if not easy and not (reduced and node.name in IN_REDUCTIONS):
            total += SAVED.get(result.dtype.name, {}).get(node.name, 0.0) * math.prod(result.shape)
    return total
