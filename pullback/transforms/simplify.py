"""Simplification: what a Program does not need is taken out before it is compiled, kept or printed.

Dead code; operations that were done before on the same operands; what the operations' own `simplify` rules can do without:
chains of conversions, reshapes and transpositions, products with one. Values never change by it, not in their last bit. XLA
would do the same, and more; but every operation that does not reach it is time that it does not take.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.core.primitive import Primitive
from pullback.core.types import ArrayType
from pullback.ops.broadcast import broadcast_in_dim
from pullback.program.equality import param_key
from pullback.program.program import Atom, Equation, Literal, Program, Variable, programs_in


def simplify(program: Program) -> Program:
    """The Program that is compiled; the Programs in its equations are simplified too. Remembered."""

    def make() -> Program:
        shorter = _without_repetition(program)
        made = drop_dead_code(shorter)
        made.memo("simplified", lambda: None)  # it is itself, which it need not hold: a cycle would keep its constants
        made.memo("merged", lambda: merged(shorter))
        return made

    simplified: Program | None = program.memo("simplified", make)
    return program if simplified is None else simplified


def merged(program: Program) -> dict[int, int]:
    """The ids of equations that were left out of a simplified Program because another had done the same, with its id."""
    found: dict[int, int] = program.memo("merged", dict)
    return found


def has_effect(equation: Equation) -> bool:
    """Whether an equation does something besides computing values, itself or in a Program that it holds."""
    if equation.primitive.effect is not None:
        return True
    return bool(equation.params) and any([inner.effects for inner in programs_in(equation.params)])


def pruned(equation: Equation, wanted: list[bool]) -> Equation:
    """An equation that holds Programs, without what only serves results that nobody uses."""
    found = equation.primitive.prune(tuple(wanted), **equation.params)  # type: ignore[misc]
    if found is None:
        return equation
    params, inputs, outputs = found
    return equation.replace(tuple([equation.inputs[i] for i in inputs]), tuple([equation.outputs[i] for i in outputs]), params)


def drop_dead_code(program: Program) -> Program:
    """The Program without the equations whose results nobody uses, those with an effect apart."""
    needed: set[Atom] = set(program.outputs)  # literals do no harm here
    kept = []
    changed = False
    for original in reversed(program.equations):
        equation = original
        if needed.isdisjoint(equation.outputs) and not has_effect(equation):
            changed = True
            continue
        if equation.primitive.prune is not None:
            wanted = [out in needed for out in equation.outputs]
            if not all(wanted):
                equation = pruned(equation, wanted)
                changed |= equation is not original
        kept.append(equation)
        needed.update(equation.inputs)
    constants = [(variable, array) for variable, array in program.constants if variable in needed]
    if not changed and len(constants) == len(program.constants):
        return program
    return Program(program.inputs, reversed(kept), program.outputs, constants, program.name, program.batch_axes)


class Known:
    """What a `simplify` rule may ask about the operands of its equation.

    Attributes:
        makers: the equations that made variables, those whose primitives have a `simplify` rule.
    """

    __slots__ = ("makers",)

    def __init__(self) -> None:
        self.makers: dict[Variable, Equation] = {}

    def maker(self, atom: Atom, primitive: Primitive) -> Equation | None:
        """The equation that made an atom, if it applies that very primitive."""
        found = self.makers.get(atom)  # type: ignore[arg-type]  # a Literal is never among them
        return found if found is not None and found.primitive is primitive else None

    def number(self, atom: Atom) -> Any:
        """The number that is each element of an atom; None if that is not known."""
        while not isinstance(atom, Literal):
            made_by = self.maker(atom, broadcast_in_dim)  # type: ignore[arg-type]  # the decorator has made it a Primitive
            if made_by is None:
                return None
            (atom,) = made_by.inputs
        return np.asarray(atom.value.host)[()]


def _without_repetition(program: Program) -> Program:
    """The Program with each operation done once, and `simplify` rules applied."""
    same: dict[Atom, Atom] = {}  # a variable that is not needed, and what stands for it
    seen: dict[Any, Equation] = {}
    repeated: dict[int, int] = {}
    known = Known()
    makers = known.makers
    equations: list[Equation] = []
    changed = False
    for original in program.equations:
        equation = original
        if same and not same.keys().isdisjoint(equation.inputs):
            equation = equation.replace(inputs=tuple([same.get(atom, atom) for atom in equation.inputs]))
        params = equation.params
        inner = programs_in(params) if params else None
        if inner:
            params = _with_simplified(params)
            if params is not equation.params:
                equation = equation.replace(params=params)
        rule = equation.primitive.simplify
        if rule is not None:
            found = rule(equation, known)
            if isinstance(found, Equation):
                equation = found
            elif found is not None:
                if not isinstance(found, (Variable, Literal)) or not _same_form(found.type, equation.outputs[0].type):
                    raise equation.primitive.malformed("simplify", "an operand of the result's type, or an equation", found)
                same[equation.outputs[0]] = found
                changed = True
                continue
        key = None if inner and has_effect(equation) else _key(equation)
        if key is not None:
            before = seen.get(key)
            if before is not None:
                same.update(zip(equation.outputs, before.outputs))
                repeated[equation.id] = before.id
                changed = True
                continue
            seen[key] = equation
        changed |= equation is not original
        equations.append(equation)
        if rule is not None:
            makers[equation.outputs[0]] = equation
    if not changed:
        return program
    outputs = [same.get(atom, atom) for atom in program.outputs]
    made = Program(program.inputs, equations, outputs, program.constants, program.name, program.batch_axes)
    made.memo("merged", lambda: repeated)
    return made


def _same_form(a: ArrayType, b: ArrayType) -> bool:
    return a is b or (a.shape == b.shape and a.dtype is b.dtype)


def _key(equation: Equation) -> Any:
    """Equal for equations that compute the same; None for those that must each be done."""
    if equation.primitive.effect is not None:
        return None
    atoms = tuple([atom.key if isinstance(atom, Literal) else atom for atom in equation.inputs])
    types = tuple([variable.type for variable in equation.outputs])  # expansions may differ in weakness alone
    if not equation.params:
        return equation.primitive, atoms, types
    key = (equation.primitive, atoms, types, *[(name, param_key(value)) for name, value in sorted(equation.params.items())])
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _with_simplified(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with the Programs in them simplified; the same object if nothing could be."""
    made = {name: _simplified(value) for name, value in params.items()}
    return params if all([made[name] is value for name, value in params.items()]) else made


def _simplified(value: Any) -> Any:
    if isinstance(value, Program):
        return simplify(value)
    if value.__class__ is tuple:
        items = tuple([_simplified(item) for item in value])
        return value if all([a is b for a, b in zip(items, value)]) else items
    return value
