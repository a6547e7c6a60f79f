"""Which axes of the variables of a Program are batch axes.

vmap says it of what it handles itself (`Tracer.note_batch`). What follows from that is found here when it is asked for: an
operation that leaves an axis alone passes it on, from its operands to its result and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pullback.program.equation import Atom, Equation, Graph, Variable, remembered

BatchAxes = Mapping[Variable, frozenset[int]]
Seeds = tuple[frozenset[int], ...]
_NONE: frozenset[int] = frozenset()


def batch_axes_of(program: Graph) -> BatchAxes:
    """The batch axes of each variable of a Program that has any, as far as they are known; found once.

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(pb.vmap(pb.numpy.sin, in_axes=1), pb.ArrayType((3, 5)))
        >>> [sorted(batch_axes_of(program)[variable]) for variable in (*program.inputs, *program.outputs)]
        [[1], [0]]
    """
    return _complete(program, ())


@remembered
def _complete(program: Graph, given: Seeds) -> dict[Variable, frozenset[int]]:
    """All that is known of a Program's variables, and of those of the Programs that it holds as they are applied here.

    `given` are batch axes of its inputs and outputs, as far as they are known where it is applied; none at the top."""
    known = dict(program.batch_axes)
    for atom, axes in zip((*program.inputs, *program.outputs), given):
        _note(known, atom, axes)
    for equation in [*program.equations, *reversed(program.equations)]:
        if equation.primitive.elementwise:
            _share_among_all(equation, known)
        elif equation.primitive.axis_map is not None:
            _share_by_map(equation, known)
        elif equation.primitive.wiring is not None:
            _share_with_held(equation, known)
    return known


def _note(known: dict[Variable, frozenset[int]], atom: Atom, axes: Iterable[int]) -> None:
    if axes and isinstance(atom, Variable):
        known[atom] = known.get(atom, _NONE).union(axes)


def _share_with_held(equation: Equation, known: dict[Any, frozenset[int]]) -> None:
    """The operands and results of an operation that holds Programs have the batch axes of their inputs and outputs, behind
    that of the steps where they are stacked."""
    wiring, params = equation.primitive.wiring, equation.params
    held = params[wiring.programs]
    programs = [(one, one.outputs) for one in (held if isinstance(held, tuple) else (held,))]
    if wiring.test is not None:
        programs.append((params[wiring.test], ()))
    operands, results = equation.inputs[wiring.lead :], equation.outputs
    fixed, carried = len(operands), len(results)  # those behind are stacked
    if wiring.carry is not None:
        carried = params[wiring.carry]
        fixed = params[wiring.consts] + carried
    outside = [(atom, int(i >= fixed)) for i, atom in enumerate(operands)]
    outside += [(atom, int(i >= carried)) for i, atom in enumerate(results)]
    for inner, outputs in programs:
        rows = list(zip(outside, (*inner.inputs, *outputs)))
        given = tuple(
            [frozenset([axis - shift for axis in known.get(outer, _NONE) if axis >= shift]) for (outer, shift), _ in rows]
        )
        if any(given) or batch_axes_of(inner):
            found = _complete(inner, given)
            known.update(found)
            for (outer, shift), own in rows:
                _note(known, outer, [axis + shift for axis in found.get(own, _NONE)])


def _share_among_all(equation: Equation, known: dict[Variable, frozenset[int]]) -> None:
    """Operands and result of an elementwise operation have the same batch axes; those that are 0-d have none."""
    shape = equation.outputs[0].type.shape
    same = [a for a in (*equation.outputs, *equation.inputs) if isinstance(a, Variable) and a.type.shape == shape]
    axes = _NONE.union(*[known[atom] for atom in same if atom in known])
    if axes:
        known.update([(atom, axes) for atom in same])


def _share_by_map(equation: Equation, known: dict[Variable, frozenset[int]]) -> None:
    """The axes that an operation leaves alone are batch axes of its operands where they are of its result, and there too."""
    (out,) = equation.outputs
    variables = [atom if isinstance(atom, Variable) else None for atom in equation.inputs]
    if out not in known and not any([variable in known for variable in variables]):
        return
    maps = equation.primitive.axis_map(*[atom.type for atom in equation.inputs], **equation.params)  # type: ignore[misc]
    pairs = [(variable, axes) for variable, axes in zip(variables, maps, strict=True) if variable is not None]
    passed = [{axes[axis] for axis in known.get(variable, _NONE) if axis in axes} for variable, axes in pairs]
    reached = known.get(out, _NONE).union(*passed)
    if reached:
        known[out] = reached
    for variable, axes in pairs:
        own = {axis for axis, there in axes.items() if there in reached}
        if own:
            known[variable] = known.get(variable, _NONE) | own
