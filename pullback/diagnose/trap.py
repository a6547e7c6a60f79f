"""The trap of `where` in reverse mode, and its cure.

    y = where(x > 0, sqrt(x), 0)

At x = 0 the result is 0, by the other branch, so that the cotangent of sqrt(x) is 0. But the derivative of sqrt at 0 is
infinite, and 0 times infinity is not a number: so the gradient is NaN, although the function is not. The cure is a second
`where`, which gives sqrt a harmless argument where its result is not used.
"""

from __future__ import annotations

import ast
import copy
from typing import Any, NamedTuple

import numpy as np

from pullback.control.holder import Held, held_by
from pullback.core.source import Source, rule_call_of
from pullback.diagnose.expressions import text_of, value_with
from pullback.diagnose.nan import Meeting
from pullback.diagnose.walk import Frame, is_opened
from pullback.ops.arithmetic import div
from pullback.ops.error_functions import erf_inv, ndtri
from pullback.ops.hyperbolic import acosh, atanh
from pullback.ops.random import quantile
from pullback.ops.special_functions import logit
from pullback.ops.trigonometric import acos, asin
from pullback.program.equation import Atom, Equation, Graph, Literal, Made, Variable

INSIDE = "0.5"  # what nearly all functions take, those of probabilities too
HARMLESS: dict[Any, str] = {
    **dict.fromkeys((acos, asin, atanh, erf_inv, logit, ndtri, quantile), INSIDE),
    acosh: "2.0",
}  # of others 1 is
LONGEST = 40  # characters of an expression that a sentence can hold
MOST_LOOKED_AT = 512  # equations, between the product and the select


class Trap(NamedTuple):
    """A where that drops a value whose derivative is not finite.

    Attributes:
        where: the user's line of the where. branch: which of its two values is dropped: 0 if it is the first.
        inside: the line of what is computed inside, whose derivative is not finite.
        function: the name of the operation there. harmless: a number at which its derivative is finite.
    """

    where: Source
    branch: int
    inside: Source | None
    function: str
    harmless: str = "1.0"

    @property
    def expression(self) -> str:
        """What is computed inside, as it is written, or else the name of the operation."""
        text = text_of(self.inside)
        return text if text is not None and len(text) <= LONGEST and "\n" not in text else self.function

    def cure(self) -> list[str]:
        """What to write instead, in the user's own words where the lines can be read."""
        where, inner = syntax_at(self.where), syntax_at(self.inside)
        form, condition = _form_of(where)
        argument = argument_of(inner, self.function)
        used = "x" if argument is None else ast.unparse(argument)
        number = self.harmless if not isinstance(inner, ast.Call) or _is_call_of(inner, self.function) else INSIDE
        pair = f"{used}, {number}" if not self.branch else f"{number}, {used}"
        lines = [f"safe = {form}({condition or 'ok'}, {pair})"]
        if condition is None or argument is None:
            said = "" if condition is not None else "; ok: the condition of the where"
            lines[0] += f"  # x: what {self.function} is applied to{said}"
        if inner is None or argument is None:
            return [*lines, f"then {self.function} of safe in the place of {self.function} of x"]
        return [*lines, self._replaced(where if condition is not None else None, inner, argument)]

    def _replaced(self, where: ast.expr | None, inner: ast.expr, argument: ast.expr) -> str:
        """The user's expression with `safe` in it: the where, if it can be told what stands there, or what is inside."""
        safe = replaced(inner, argument, ast.Name("safe", ast.Load()))
        old, new = ast.unparse(inner), ast.unparse(safe)
        if where is not None and (whole := ast.unparse(where)).count(old) == 1:
            return whole.replace(old, new)
        named = value_with(self.inside) if self.inside is not None and self.inside.function == self.where.function else None
        if isinstance(where, ast.Call) and named is not None:  # the condition may use the name, so it stays what it is
            value = replaced(named.value, inner, safe)
            condition, *values = where.args
            given = [replaced(one, ast.Name(named.name, ast.Load()), value) for one in values]
            if ast.dump(given[self.branch]) != ast.dump(values[self.branch]):
                values[self.branch] = given[self.branch]
                return ast.unparse(ast.Call(where.func, [condition, *values], where.keywords))
        return f"{new}  # in the place of {old}"


def _form_of(where: ast.expr | None) -> tuple[str, str | None]:
    """How to write a where as the user does, and the condition of this one, if it is a call of `where`, or of lax's `select`,
    whose operands must be of one shape, so that it cannot take a number."""
    match where:
        case ast.Call(ast.Attribute(attr="where") | ast.Name("where"), [condition, _, _]):
            return ast.unparse(where.func), ast.unparse(condition)
        case ast.Call(ast.Attribute(attr="select") | ast.Name("select"), [condition, _, _]) if not isinstance(
            condition, (ast.List, ast.Tuple)
        ):
            return "pnp.where", ast.unparse(condition)
    return "pnp.where", None


def syntax_at(source: Source | None) -> ast.expr | None:
    text = text_of(source)
    try:
        return None if text is None else ast.parse(f"({text})", mode="eval").body
    except SyntaxError:
        return None


def _is_call_of(call: ast.Call, operation: str) -> bool:
    """Whether a call is one of an operation: `pnp.arccos(x)` of acos, say."""
    name = ast.unparse(call.func).rpartition(".")[2]
    return name.replace("arc", "a").replace("_", "") == operation.replace("_", "")


def argument_of(node: ast.expr | None, function: str) -> ast.expr | None:
    """The part of an expression that is to be harmless: a function's argument, a divisor, the base of a power."""
    match node:
        case ast.Call(args=[_, divisor]) if function == div.name:
            return divisor
        case ast.Call(args=args):
            return next((one for one in args if not isinstance(one, (ast.Constant, ast.Starred))), None)
        case ast.BinOp(_, ast.Div(), right):
            return right
        case ast.BinOp(left, ast.Pow(), _):
            return left
    return None


def replaced(whole: ast.expr, old: ast.expr, new: ast.expr) -> ast.expr:
    """An expression with another one in each place of an expression in it."""
    made = _Replacing(old, new).visit(copy.deepcopy(whole))
    assert isinstance(made, ast.expr)
    return made


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new = ast.dump(old), new

    def visit(self, node: ast.AST) -> ast.AST:
        found: ast.AST = self.new if ast.dump(node) == self.old else self.generic_visit(node)
        return found


def trap_of(meeting: Meeting | None) -> Trap | None:
    """The trap that a meeting of a zero with what is not finite is; None if the zero does not come from a where."""
    if meeting is None:
        return None
    found = select_behind(meeting.frame, meeting.zero, meeting.dropped)
    if found is None or found.source is None:
        return None
    inside = meeting.equation
    if meeting.other is not None and meeting.other.equation is not None:
        inside = meeting.other.equation
    made = rule_of(inside)
    primitive = inside.primitive if made is None or made.role != "residual" else made.primitive or inside.primitive
    branch = int(_is_zero(found.inputs[1]))  # the cotangent of the other one is the literal 0
    return Trap(
        found.source, branch, rule_call_of(inside.source) or inside.source, primitive.name, HARMLESS.get(primitive, "1.0")
    )


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


def select_behind(frame: Frame, variable: Variable, dropped: frozenset[int]) -> Equation | None:
    """The nearest select of the backward pass that a cotangent comes from, among those that have `dropped` one."""
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
        elif equation.id in dropped:
            return equation
        elif is_opened(equation):
            held: Held = held_by(equation.primitive, equation.params)
            number = equation.outputs.index(atom)
            waiting += [(None, inner, inner.outputs[number]) for inner in held.programs]
            waiting += [(at, program, operand) for operand in equation.inputs if equation.role == "cotangent"]
        elif equation.role == "cotangent":
            waiting += [(at, program, operand) for operand in equation.inputs]
    return None
