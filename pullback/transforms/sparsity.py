"""Which elements of a function's result depend on which elements of its argument: the sparsity of its Jacobian.

The derivative of a Program is a linear Program (`linearize_program`), in which what has no derivative has vanished. Its
equations are read one by one, and for each element of each value it is noted on which elements of the unknown input it
depends. What an operation passes on is said by its `sparsity` rule; one without such a rule is taken to pass everything to
everything, which is safe, and is reported. Values known beforehand, such as a mask or the matrix of a stencil, are computed,
so that their zeros count. Nothing depends on where the function is evaluated: the pattern holds everywhere.

Source: Griewank and Walther, Evaluating Derivatives, 2nd ed. (2008), section 7.1 (propagation of index domains).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array
from pullback.core.brief import counted
from pullback.core.dtypes import is_inexact
from pullback.core.errors import MissingRule
from pullback.core.tracing import bind, ensure_compile_time_eval
from pullback.core.types import ArrayType
from pullback.program.equation import Equation, Literal
from pullback.program.program import Atom, Program, programs_in
from pullback.transforms.derive import linearize_program
from pullback.transforms.simplify import has_effect

MOST_ENTRIES = 100_000_000  # of a pattern that is not known to be sparse

Indices = np.ndarray[Any, np.dtype[np.int64]]


class Dependence(NamedTuple):
    """For each element of a value, the elements of the unknown that it depends on: `columns[starts[i] : starts[i + 1]]`."""

    starts: Indices
    columns: Indices  # of each row in rising order
    width: int  # the number of elements of the unknown

    @property
    def size(self) -> int:
        return len(self.starts) - 1

    @property
    def rows(self) -> Indices:
        """The row of each entry of `columns`."""
        return np.repeat(np.arange(self.size), np.diff(self.starts))

    @classmethod
    def identity(cls, size: int) -> Dependence:
        return cls(np.arange(size + 1), np.arange(size), size)

    @classmethod
    def of_entries(cls, size: int, width: int, rows: Indices, columns: Indices) -> Dependence:
        """Of pairs (row, column) in any order, also repeated ones."""
        keys = np.unique(rows * width + columns) if width else np.zeros(0, np.int64)
        rows, columns = np.divmod(keys, max(width, 1))
        return cls(np.searchsorted(rows, np.arange(size + 1)), columns, width)

    def through(self, results: Indices, elements: Indices, size: int) -> Dependence:
        """The dependence of `size` elements, of which `results[p]` depends on element `elements[p]` of this value."""
        counts = np.diff(self.starts)[elements]
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        places = np.arange(total) + np.repeat(self.starts[:-1][elements] - (ends - counts), counts)
        if len(results) < 2 or (np.diff(results) > 0).all():  # each row comes from one: its columns are in order
            lengths = np.zeros(size, np.int64)
            lengths[results] = counts
            return Dependence(np.concatenate([[0], np.cumsum(lengths)]), self.columns[places], self.width)
        return Dependence.of_entries(size, self.width, np.repeat(results, counts), self.columns[places])

    def spread(self, size: int) -> Dependence:
        """The dependence of `size` elements that each depend on every element of this value."""
        columns = np.unique(self.columns)
        return Dependence(np.arange(size + 1) * len(columns), np.tile(columns, size), self.width)

    def union(self, other: Dependence) -> Dependence:
        """What depends on either."""
        if other is self:
            return self
        rows, columns = np.concatenate([self.rows, other.rows]), np.concatenate([self.columns, other.columns])
        return Dependence.of_entries(self.size, self.width, rows, columns)


class Found(NamedTuple):
    """The dependence of each output; None for one that depends on nothing."""

    outputs: list[Dependence | None]
    overestimated: list[Equation]  # whose operations have no `sparsity` rule that could tell


def jacobian_sparsity(program: Program, active: int) -> Found:
    """The pattern of the derivative of a Program's outputs by its input number `active`, a superset of what is ever nonzero."""
    linearized = linearize_program(program, tuple([i == active for i in range(len(program.inputs))]))
    known = Known(linearized.forward, [])
    residuals: list[Any] = []
    for place, index in linearized.residuals:
        atom = (linearized.forward.outputs if place == "output" else linearized.forward.inputs)[index]
        residuals.append(known.value(atom))
    found = linear_sparsity(linearized.tangent, [*residuals, None], len(residuals))
    outputs = iter(found.outputs)
    return Found([next(outputs) if flag else None for flag in linearized.nonzero], found.overestimated)


def linear_sparsity(program: Program, known: Sequence[Any], unknown: int) -> Found:
    """How the outputs of a linear Program depend on its input number `unknown`, given the values of other inputs (None where
    they are not known)."""
    values = Known(program, known)
    depends: dict[Atom, Dependence] = {program.inputs[unknown]: Dependence.identity(program.inputs[unknown].type.size)}
    overestimated: list[Equation] = []
    for equation in program.equations:
        operands = [values.value(atom) if values.value(atom) is not None else atom.type for atom in equation.inputs]
        for which, atom in enumerate(equation.inputs):
            if atom not in depends:
                continue
            relations = _relations(equation, which, operands)
            if any(relation is None for relation in relations):
                overestimated.append(equation)
                _refuse_if_large(equation, depends[atom])
            for out, relation in zip(equation.outputs, relations, strict=True):
                if not is_inexact(out.type.dtype):
                    continue
                passed = _passed(depends[atom], relation, atom.type, out.type)
                depends[out] = depends[out].union(passed) if out in depends else passed
    outputs = [depends.get(atom) for atom in program.outputs]
    return Found([None if found is None or not len(found.columns) else found for found in outputs], overestimated)


def _refuse_if_large(equation: Equation, source: Dependence) -> None:
    """Raise where a pattern in which all depends on all would be out of proportion."""
    columns, size = len(np.unique(source.columns)), max(out.type.size for out in equation.outputs)
    if columns * size > MOST_ENTRIES:
        raise MissingRule(
            f"The sparsity rule of primitive {equation.primitive.name!r} is missing, or cannot tell what depends on what"
            + (f", at {equation.source}" if equation.source is not None else "")
            + f": {counted(size, 'element')} would have to be taken to depend on {columns} each. Give the derivative's pattern,"
            f" or define the rule with @{equation.primitive.name}.def_sparsity."
        )


def _relations(equation: Equation, which: int, operands: Sequence[Any]) -> Sequence[Any]:
    """For each result of an equation the pairs (its elements, elements of operand `which`), or None where that is unknown."""
    primitive = equation.primitive
    found = primitive.sparsity(which, operands, **equation.params) if primitive.sparsity is not None else None
    if found is None:
        return [None] * len(equation.outputs)
    return found if primitive.multiple_results else [found]


def _passed(source: Dependence, relation: Any, type: ArrayType, out: ArrayType) -> Dependence:
    if relation is None:
        return source.spread(out.size)
    results, elements = relation
    if results is elements and len(results) == out.size == type.size:  # each element on its own
        return source
    return source.through(results, elements, out.size)


class Known:
    """The values of a Program's variables that can be computed beforehand, from constants and the inputs that are given."""

    def __init__(self, program: Program, given: Sequence[Any]) -> None:
        self.values: dict[Atom, np.ndarray[Any, Any]] = {}
        for variable, constant in program.constants:
            self.values[variable] = np.asarray(constant.host)
        for variable, value in zip(program.inputs, given):
            if value is not None:
                self.values[variable] = value
        for equation in program.equations:
            if not has_effect(equation) and not programs_in(equation.params) and not equation.primitive.named_axes:
                self.compute(equation)

    def value(self, atom: Atom) -> np.ndarray[Any, Any] | None:
        """The value of an atom as a NumPy array; None if it is not known."""
        if isinstance(atom, Literal):
            return np.asarray(atom.value.host)
        return self.values.get(atom)

    def compute(self, equation: Equation) -> None:
        """Compute the results of an equation, if all of its operands are known."""
        operands = [self.value(atom) for atom in equation.inputs]
        if any(operand is None for operand in operands):
            return
        arrays = [Array(atom.type, operand) for atom, operand in zip(equation.inputs, operands)]
        with ensure_compile_time_eval():
            out = bind(equation.primitive, arrays, equation.params)
        outs = out if equation.primitive.multiple_results else (out,)
        self.values.update((variable, np.asarray(value.host)) for variable, value in zip(equation.outputs, outs, strict=True))


# ---- rules of the operations that hold Programs -------------------------------------------------------------------------


def pairs(found: Dependence | None) -> tuple[Indices, Indices]:
    """The rows and columns of a pattern's entries, row by row."""
    return (np.zeros(0, np.int64), np.zeros(0, np.int64)) if found is None else (found.rows, found.columns)


def sparsity_of_any(programs: Sequence[Program], which: int, operands: Sequence[Any]) -> list[tuple[Indices, Indices]] | None:
    """The sparsity of an operation that applies one of several Programs to its operands."""
    found = [linear_sparsity(program, _known_operands(operands), which) for program in programs]
    if any(one.overestimated for one in found):
        return None
    rows = [[pairs(dependence) for dependence in one.outputs] for one in found]
    return [_joined(column) for column in zip(*rows, strict=True)]


def sparsity_of_steps(
    body: Program, which: int, operands: Sequence[Any], num_consts: int, num_carry: int, order: Sequence[int]
) -> list[tuple[Indices, Indices]] | None:
    """The sparsity of a scan: how the final carry and the stacked results depend on operand `which`, step by step."""
    carried = range(num_consts, num_consts + num_carry)
    # what an operand passes on within a step; of `xs` nothing is known, since each step has another part of them
    known = [*_known_operands(operands[:num_consts]), *[None] * (len(operands) - num_consts)]
    within = {i: linear_sparsity(body, known, i) for i in {which, *carried}}
    if any(one.overestimated for one in within.values()):
        return None
    whole = Dependence.identity(math.prod(operands[which].shape))
    depends: list[Dependence | None] = [whole if i == which else None for i in carried]
    stacks: list[list[tuple[Indices, Indices]]] = [[] for _ in body.outputs[num_carry:]]
    for t in order:
        sources = dict(zip(carried, depends))
        if which < num_consts:
            sources[which] = whole
        elif which not in carried:
            size = body.inputs[which].type.size
            sources[which] = Dependence(np.arange(size + 1), np.arange(size) + t * size, whole.width)
        outs: list[Dependence | None] = []
        for number, atom in enumerate(body.outputs):
            total = None
            for i, source in sources.items():
                inner = within[i].outputs[number]
                if source is not None and inner is not None:
                    passed = source.through(inner.rows, inner.columns, atom.type.size)
                    total = passed if total is None else total.union(passed)
            outs.append(total)
        depends = outs[:num_carry]
        for stack, out, atom in zip(stacks, outs[num_carry:], body.outputs[num_carry:]):
            rows, columns = pairs(out)
            stack.append((rows + t * atom.type.size, columns))
    return [*map(pairs, depends), *map(_joined, stacks)]


def _known_operands(operands: Sequence[Any]) -> list[Any]:
    return [operand if isinstance(operand, np.ndarray) else None for operand in operands]


def _joined(parts: Sequence[tuple[Indices, Indices]]) -> tuple[Indices, Indices]:
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *[rows for rows, _ in parts]]), np.concatenate([none, *[columns for _, columns in parts]])
