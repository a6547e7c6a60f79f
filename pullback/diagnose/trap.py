"""The trap of `where` in reverse mode, and its cure.

    y = where(x > 0, sqrt(x), 0)

At x = 0 the result is 0, by the other branch, so that the cotangent of sqrt(x) is 0. But the derivative of sqrt at 0 is
infinite, and 0 times infinity is not a number: so the gradient is NaN, although the function is not. The cure is a second
`where`, which gives sqrt a harmless argument where its result is not used.
"""

from __future__ import annotations

import ast
import copy
from typing import NamedTuple

import numpy as np

from pullback.control.holder import Held, held_by
from pullback.core.source import Source, rule_call_of
from pullback.diagnose.expressions import text_of
from pullback.diagnose.nan import Meeting
from pullback.diagnose.walk import Frame, is_opened
from pullback.ops.compare import select
from pullback.program.equation import Atom, Equation, Graph, Literal, Made, Variable

LONGEST = 40  # characters of an expression that a sentence can hold
MOST_LOOKED_AT = 512  # equations, between the product and the select


class Trap(NamedTuple):
    """A where that drops a value whose derivative is not finite.

    Attributes:
        where: the user's line of the where. branch: which of its two values is dropped: 0 if it is the first.
        inside: the line of what is computed inside, whose derivative is not finite.
        function: the name of the operation there.
    """

    where: Source
    branch: int
    inside: Source | None
    function: str

    @property
    def expression(self) -> str:
        """What is computed inside, as it is written, or else the name of the operation."""
        text = text_of(self.inside)
        return text if text is not None and len(text) <= LONGEST and "\n" not in text else self.function

    def cure(self) -> list[str]:
        """What to write instead, in the user's own words where the lines can be read."""
        where, inner = _syntax(self.where), _syntax(self.inside)
        ok, name = "ok", "pnp.where"
        if isinstance(where, ast.Call) and len(where.args) == 3:
            ok, name = ast.unparse(where.args[0]), ast.unparse(where.func)
        else:
            where = None
        argument = _argument(inner)
        used = "x" if argument is None else ast.unparse(argument)
        lines = [f"safe = {name}({ok}, {f'{used}, 1.0' if not self.branch else f'1.0, {used}'})"]
        if ok == "ok" or argument is None:
            lines[0] += f"  # x: what {self.function} is applied to" + (
                "; ok: the condition of the where" if ok == "ok" else ""
            )
        if inner is None or argument is None:
            return [*lines, f"then {self.function} of safe in the place of {self.function} of x"]
        old, new = ast.unparse(inner), ast.unparse(_Replacing(argument).visit(copy.deepcopy(inner)))
        if where is not None and (whole := ast.unparse(where)).count(old) == 1:
            return [*lines, whole.replace(old, new)]
        return [*lines, f"{new}  # in the place of {old}"]


def _syntax(source: Source | None) -> ast.expr | None:
    text = text_of(source)
    try:
        return None if text is None else ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        return None


def _argument(node: ast.expr | None) -> ast.expr | None:
    """The part of an expression that is to be harmless: a function's argument, a divisor, the base of a power."""
    match node:
        case ast.Call(args=[first, *_]):
            return first
        case ast.BinOp(_, ast.Div(), right):
            return right
        case ast.BinOp(left, ast.Pow(), _):
            return left
    return None


class _Replacing(ast.NodeTransformer):
    """Puts `safe` in the place of an expression."""

    def __init__(self, old: ast.expr) -> None:
        self.old = ast.dump(old)

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.Name("safe", ast.Load()) if ast.dump(node) == self.old else self.generic_visit(node)


def trap_of(meeting: Meeting | None) -> Trap | None:
    """The trap that a meeting of a zero with what is not finite is; None if the zero does not come from a where."""
    if meeting is None:
        return None
    found = select_behind(meeting.frame, meeting.zero)
    if found is None or found.source is None:
        return None
    inside = meeting.equation
    if meeting.other is not None and meeting.other.equation is not None:
        inside = meeting.other.equation
    made = rule_of(inside)
    primitive = inside.primitive if made is None or made.role != "residual" else made.primitive or inside.primitive
    branch = int(_is_zero(found.inputs[1]))  # the cotangent of the other one is the literal 0
    return Trap(found.source, branch, rule_call_of(inside.source) or inside.source, primitive.name)


def rule_of(equation: Equation) -> Made | None:
    """The rule of a derivative that made an equation; None if it is the user's own operation, batched or not."""
    at: Equation | None = equation
    while at is not None:
        made = at.made
        while made is not None:
            if made.role:
                return made
            made = made.within
        at = at.origin
    return None


def _is_zero(atom: Atom) -> bool:
    """Whether an operand is the literal 0. A cotangent may be a literal as well: 1, where the function returns the where."""
    return isinstance(atom, Literal) and not np.asarray(atom.value.host).any()


def select_behind(frame: Frame, variable: Variable) -> Equation | None:
    """The nearest select of the backward pass that a cotangent comes from."""
    waiting: list[tuple[Frame | None, Graph, Atom]] = [(frame, frame.program, variable)]
    seen: set[Variable] = set()
    makers: dict[int, dict[Atom, Equation]] = {}
    for at, program, atom in waiting:  # which grows meanwhile
        if not isinstance(atom, Variable) or atom in seen:
            continue
        seen.add(atom)
        if len(seen) > MOST_LOOKED_AT:
            return None
        of = makers.setdefault(id(program), {out: one for one in program.equations for out in one.outputs})
        equation = of.get(atom)
        if equation is None:
            if at is not None and at.equation is not None and at.outer is not None and atom in program.inputs:
                place = at.equation.primitive.wiring.lead + program.inputs.index(atom)
                if place < len(at.equation.inputs):
                    waiting.append((at.outer, at.outer.program, at.equation.inputs[place]))
        elif equation.primitive is select and equation.role == "cotangent":
            return equation
        elif is_opened(equation):
            held: Held = held_by(equation.primitive, equation.params)
            number = equation.outputs.index(atom)
            waiting += [(None, inner, inner.outputs[number]) for inner in held.programs]
            waiting += [(at, program, operand) for operand in equation.inputs if equation.role == "cotangent"]
        elif equation.role == "cotangent":
            waiting += [(at, program, operand) for operand in equation.inputs]
    return None
