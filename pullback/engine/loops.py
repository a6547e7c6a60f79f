"""Which way XLA should run the loops of a module, from what one step of each costs.

XLA for the CPU runs a loop in one of two ways. By itself it starts a kernel for every few operations of the body, at some 0.3
us each, and passes matrix products on to a library. With `xla_cpu_small_while_loop_byte_threshold` above what the loop touches
it compiles the whole loop as one function, which starts nothing, but in which products are plain nested loops on one thread.

How many times faster the second way is (jaxlib 0.10.2, two cores with AVX512, medians), by what a step costs:

    loop                             FLOPs a step     bytes     faster
    40 coupled scalars, gradient     300              2e3       36
    Lorenz, gradient, f64            400              2e3       12
    Kalman filter 4x4                3e3              2e4       15 to 23
    LSTM 32, gradient, f32           2e4 + 2e4        2e5       2.7
    LSTM 64, gradient, f32           7e4 + 8e4        7e5       2.0
    GRU 32, batch 4, gradient        5e4 + 7e4        2e5       0.84 to 1
    LSTM 128, f32                    3e5              6e5       0.97
    GRU 32, batch 32, gradient       4e5 + 6e5        9e5       0.59
    GRU 64, batch 16, gradient       8e5 + 1e6        1e6       0.95
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.program.equation import Equation
from pullback.program.program import Program, programs_in

# Up to these costs of a step the whole loop is compiled as one function.
SMALL_FLOPS = 100_000
SMALL_BYTES = 1_000_000

_THRESHOLD = 1 << 40  # bytes, more than any loop touches
_DATA_MOVEMENT = {"reshape", "squeeze", "transpose", "broadcast_in_dim", "convert_element_type", "slice", "concatenate", "pad"}


class Cost(NamedTuple):
    """What running a Program once costs: floating-point operations, and bytes read and written by its operations."""

    flops: float
    bytes: float


def cost(program: Program) -> Cost:
    """The cost of a Program, from the types of its equations; remembered."""

    def find() -> Cost:
        costs = [equation_cost(equation) for equation in program.equations]
        return Cost(sum([one.flops for one in costs]), sum([one.bytes for one in costs]))

    found: Cost = program.memo("cost", find)
    return found


def equation_cost(equation: Equation) -> Cost:
    """The cost of one equation. An inner loop counts its steps, if their number is known; of branches the dearest counts."""
    operands = [atom.type for atom in equation.inputs]
    results = [variable.type for variable in equation.outputs]
    moved = float(sum([type.nbytes for type in (*operands, *results)]))
    held = [cost(program) for program in programs_in(equation.params)]
    if held:
        steps = equation.params.get("length", 1)
        return Cost(steps * max([one.flops for one in held]), steps * max([one.bytes for one in held]))
    size = float(max([type.size for type in results], default=0))
    name = equation.primitive.name
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return Cost(2.0 * size * math.prod([operands[0].shape[axis] for axis in contracted]), moved)
    return Cost(0.0 if name in _DATA_MOVEMENT else max([size, *[float(type.size) for type in operands]]), moved)


def loop_settings(steps: Sequence[Cost]) -> dict[str, Any]:
    """XLA's options for a module with loops whose steps have these costs."""
    if not steps or any(step.flops > SMALL_FLOPS or step.bytes > SMALL_BYTES for step in steps):
        return {}
    return {"xla_cpu_small_while_loop_byte_threshold": _THRESHOLD}
