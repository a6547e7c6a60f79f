"""Which axes of the variables of a Program are batch axes.

vmap says it of what it handles itself (`Tracer.note_batch`). What follows from that is found here when it is asked for: an
operation that leaves an axis alone passes it on, from its operands to its result and back.
"""

from __future__ import annotations

from collections.abc import Mapping

from pullback.program.equation import Equation, Graph, Variable

BatchAxes = Mapping[Variable, frozenset[int]]
_NONE: frozenset[int] = frozenset()


def batch_axes_of(program: Graph) -> BatchAxes:
    """The batch axes of each variable of a Program that has any, as far as they are known; found once.

    Example:
        >>> import pullback as pb
        >>> program = pb.xpr(pb.vmap(pb.numpy.sin, in_axes=1), pb.ArrayType((3, 5)))
        >>> [sorted(batch_axes_of(program)[variable]) for variable in (*program.inputs, *program.outputs)]
        [[1], [0]]
    """
    if not program.batch_axes:
        return program.batch_axes
    found: BatchAxes = program.memo("batch axes", lambda: _complete(program))
    return found


def _complete(program: Graph) -> BatchAxes:
    known = dict(program.batch_axes)
    for equation in [*program.equations, *reversed(program.equations)]:
        if equation.primitive.elementwise:
            _share_among_all(equation, known)
        elif equation.primitive.axis_map is not None:
            _share_by_map(equation, known)
    return known


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
