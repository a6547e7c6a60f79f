"""What running a Program costs, from the types of its equations and the `cost` of their primitives: the one model of it.

Operations on real numbers are counted, whatever their dtype: an addition, a multiplication, a comparison is one. A rule counts
numbers, so what it says of an elementwise operation is multiplied for complex ones: by 2 if it is linear, by 6 if it is their
product, by 4 elsewhere. docs/costs.md says what is counted by which rule, and how that differs from what XLA counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.axes import own_axes
from pullback.core.dtypes import kind
from pullback.core.primitive import Primitive
from pullback.core.types import ArrayType
from pullback.program.equation import Equation, remembered
from pullback.program.program import Program
from pullback.program.running import Run, runs_of

Sizes = tuple[tuple[Any, int], ...]
"""The sizes of mesh axes that are named, by name."""


class Cost(NamedTuple):
    """What running something once costs.

    Attributes:
        flops: arithmetic operations, without those that evaluate transcendental functions.
        bytes: bytes that its operations read and write, if each reads its operands from memory and writes its results there.
        transcendentals: values of transcendental functions: exp, log, sin, sqrt, pow, ...
        work: all operations: `flops`, and what evaluating those functions takes (8 for exp, 12 for sin).
        sent: bytes that devices send each other.
        loops: how many loops are in it whose number of steps only running them tells. One step of each is counted.
    """

    flops: float = 0.0
    bytes: float = 0.0
    transcendentals: float = 0.0
    work: float = 0.0
    sent: float = 0.0
    loops: int = 0

    def times(self, count: float) -> Cost:
        """What doing it several times costs."""
        flops, bytes, transcendentals, work, sent, loops = self
        return Cost(count * flops, count * bytes, count * transcendentals, count * work, count * sent, loops if count else 0)


def total(costs: Iterable[Cost]) -> Cost:
    """What several things cost together."""
    columns = list(zip(*costs))
    return Cost(*map(sum, columns)) if columns else Cost()


@remembered
def cost(program: Program, sizes: Sizes = ()) -> Cost:
    """The cost of a Program; remembered. `sizes` are those of the mesh axes along which its collectives go."""
    return total([equation_cost(equation, sizes) for equation in program.equations])


@remembered
def largest(program: Program) -> int:
    """The bytes of the largest array in a Program and in those in it; remembered."""
    types = [variable.type for equation in program.equations for variable in equation.outputs]
    own = [type.nbytes for type in (*program.input_types, *types)]
    return max([*own, *[largest(inner) for inner in program.subprograms()]], default=0)


def equation_cost(equation: Equation, sizes: Sizes = ()) -> Cost:
    """The cost of one equation. A loop counts its steps, or one of them if their number is not known; of branches the one that
    takes most work counts; what each device does with its shards counts for all of them."""
    runs = runs_of(equation)
    if runs:
        counted = [run_cost(run, equation, sizes) for run in counted_runs(runs, equation, sizes)]
        found = total(counted)
        return found._replace(loops=found.loops + 1) if runs[0].steps is None else found
    primitive, params = equation.primitive, equation.params
    operands = [atom.type for atom in equation.inputs]
    results = [variable.type for variable in equation.outputs]
    if callable(primitive.cost):
        work = _asked(primitive, "cost", operands, results, params)
    else:
        arrays = results if primitive.elementwise else [*operands, *results]  # a number may stand beside an empty array
        elements = max([type.size for type in arrays], default=0)
        work = primitive.cost * elements * _real_operations(primitive, operands, results)
    flops, functions = (work, 0) if not primitive.transcendental else (0, max([type.size for type in results], default=0))
    if primitive.traffic is not None:
        moved = _asked(primitive, "traffic", operands, results, params)
    else:
        atoms = {*equation.inputs, *equation.outputs}  # what is an operand twice is read once
        moved = 0 if primitive.alias else sum([atom.type.nbytes for atom in atoms])
    return Cost(float(flops), float(moved), float(functions), float(work), _sent(equation, operands, results, sizes))


def counted_runs(runs: Sequence[Run], equation: Equation, sizes: Sizes = ()) -> list[Run]:
    """Those of the Programs that an equation runs that count: a loop's step and its test, and of branches one."""
    branches = [run for run in runs if not run.test]
    most = max(branches, key=lambda run: (one := run_cost(run, equation, sizes)).work + one.bytes)
    return [most, *[run for run in runs if run.test]]


def run_cost(run: Run, equation: Equation, sizes: Sizes = ()) -> Cost:
    """What a Program costs that an equation runs, all times together."""
    return cost(run.program, inner_sizes(equation, sizes)).times((1 if run.steps is None else run.steps) * run.at_once)


def inner_sizes(equation: Equation, sizes: Sizes) -> Sizes:
    """The sizes of the mesh axes that are named in the Programs that an equation runs."""
    params = equation.params
    return (*sizes, *[(name, params["mesh"].shape[name]) for name in params.get("manual", ())])


def _asked(
    primitive: Primitive, field: str, operands: Sequence[ArrayType], results: Sequence[ArrayType], params: dict[str, Any]
) -> Any:
    """The number that a rule says."""
    found = getattr(primitive, field)(operands, results, **params)
    if not isinstance(found, (int, float, np.number)):
        raise primitive.malformed(field, "a number", found)
    return found


def _real_operations(primitive: Primitive, operands: Sequence[ArrayType], results: Sequence[ArrayType]) -> int:
    """How many operations on real numbers an operation on the numbers of these types is."""
    if not any([kind(type.dtype) == "c" for type in (*operands, *results)]):
        return 1
    if primitive.bilinear:
        return 6
    return 2 if primitive.linear is True else 4


def _sent(equation: Equation, operands: Sequence[ArrayType], results: Sequence[ArrayType], sizes: Sizes) -> float:
    """The bytes that a device sends to others: along axes of a mesh only."""
    primitive, params = equation.primitive, equation.params
    if primitive.sent is None:
        return 0.0
    known = dict(sizes)
    groups = params.get("groups")
    along = [known.get(name) for name in own_axes(primitive, params)]
    if groups is not None:
        size: float = len(groups[0])
    else:
        size = math.inf if None in along else math.prod(along)  # type: ignore[arg-type]
    share = 0.0 if size <= 1 else 1.0 if size == math.inf else (size - 1) / size
    if not share:
        return 0.0
    return float(_asked(primitive, "sent", operands, results, {"share": share, **params}))
