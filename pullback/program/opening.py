"""Programs with the equations of jitted, checkpointed and custom functions in place of these, for comparing them with Programs
in which the same is written plainly."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pullback.core.primitive import Primitive
from pullback.program.equation import Atom, Equation, Graph, Variable, variable_of
from pullback.program.matching import Matching, constant_key
from pullback.program.running import runs_of


class Opened(NamedTuple):
    """A Program in which equations that run a Program are followed by what that consists of.

    Attributes:
        graph: it. What is opened has no results there: they are those of the equations behind it.
        heads: by the equations of the graph that were opened, these as they were.
        inside: the equations that were taken out of them.
    """

    graph: Graph
    heads: dict[Equation, Equation]
    inside: frozenset[Equation]


def matched(before: Graph, after: Graph) -> tuple[Matching, Opened, Opened]:
    """What stands for each other in two Programs. An equation that only one of them has is opened if at least half of what it
    runs, or that the equations in it do, is found in the other one.

    Returns:
        A Matching of the opened Programs, and these.
    """
    first, second = [Opened(graph, {}, frozenset()) for graph in (before, after)]
    found = tried = Matching(before, after)
    one, other = first, second
    while True:
        partners = {a: b for b, a in tried.partner.items()}
        deeper = _open(one, _has_no_equal(partners)), _open(other, _has_no_equal(tried.partner))
        if deeper[0] is one and deeper[1] is other:
            return found, first, second
        one, other = deeper
        tried = Matching(one.graph, other.graph)
        new = [len(now.inside - then.inside) for now, then in ((one, first), (other, second))]
        least = min([count for count in new if count], default=0)
        if least and 2 * (_alike(tried) - _alike(found)) >= least:
            found, first, second = tried, one, other


def _alike(found: Matching) -> int:
    """How many equations do the same as those that they stand for."""
    return sum([found.keys_of(a) == found.keys_of(b) for b, a in found.partner.items()])


def _has_no_equal(others: dict[Equation, Equation]) -> Callable[[Equation], bool]:
    """Whether no equation of the other Program that applies the same operation stands for an equation."""
    return lambda one: (other := others.get(one)) is None or other.primitive is not one.primitive


def _open(side: Opened, wanted: Callable[[Equation], bool]) -> Opened:
    """Open those equations that are wanted, of those that run a Program once and as it is."""
    closed = [one for one in side.graph.equations if one not in side.heads and wanted(one)]
    chosen = {one: program for one in closed if (program := _runs_plainly(one)) is not None}
    if not chosen:
        return side
    equations: list[Equation] = []
    constants = list(side.graph.constants)
    known = {constant_key(variable, array): variable for variable, array in constants}
    heads = dict(side.heads)
    inside = set(side.inside)
    values: dict[Atom, Atom] = {}  # what stands for results that are operands, or literals

    def of(atom: Atom) -> Atom:
        return values.get(atom, atom)

    for one in side.graph.equations:
        operands = tuple(map(of, one.inputs))
        program = chosen.get(one)
        if program is None:
            equations.append(one if operands == one.inputs else one.replace(operands))
            inside.update(equations[-1:] if one in inside else ())
            heads |= {equations[-1]: heads[one]} if one in heads else {}
            continue
        equations.append(head := _head(one, operands))
        heads[head] = one
        inner: dict[Atom, Atom] = dict(zip(program.inputs, operands))
        made = {out for equation in program.equations for out in equation.outputs}
        for out, result in zip(one.outputs, program.outputs):
            if isinstance(result, Variable) and result in made and result not in inner:
                inner[result] = out
        for variable, array in program.constants:
            key = constant_key(variable, array)
            if key not in known:
                known[key] = variable_of(variable.placed_type)
                constants.append((known[key], array))
            inner[variable] = known[key]
        for equation in program.equations:
            for out in equation.outputs:
                inner.setdefault(out, variable_of(out.placed_type))
            copy = equation.replace(
                tuple([inner.get(atom, atom) for atom in equation.inputs]),
                tuple([inner[out] for out in equation.outputs]),  # type: ignore[misc]
            )
            equations.append(copy)
            inside.add(copy)
        values |= {out: inner.get(result, result) for out, result in zip(one.outputs, program.outputs)}
    graph = side.graph
    outputs = tuple(map(of, graph.outputs))
    return Opened(Graph(graph.inputs, equations, outputs, constants, graph.name), heads, frozenset(inside))


def _head(equation: Equation, operands: tuple[Atom, ...]) -> Equation:
    """What stands before the equations that were taken out of one: an operation of its own, for which no other stands."""
    own = Primitive(equation.primitive.name)
    return Equation(own, operands, (), {}, equation.source, equation.origin, equation.made, equation.id)


def _runs_plainly(equation: Equation) -> Graph | None:
    """The Program that an equation runs once, of its operands, and whose results are its own."""
    runs = runs_of(equation)
    if len(runs) != 1 or runs[0].loop or runs[0].at_once != 1 or runs[0].lead:
        return None
    program = runs[0].program
    types = [one.type for one in (*equation.inputs, *equation.outputs)]
    return program if types == [*program.input_types, *program.output_types] else None
