"""What helps against a NaN that is made in one of a few known ways, none of which is the trap of where (`trap.py`)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from pullback.core.dtypes import kind
from pullback.diagnose.nan import Origin
from pullback.diagnose.trap import argument_of, replaced, rule_of, syntax_at
from pullback.ops.arithmetic import div, mul
from pullback.ops.exponential import exp, log
from pullback.ops.factorizations import cholesky
from pullback.ops.powers import pow as power
from pullback.ops.powers import sqrt
from pullback.program.equation import Equation


class Hint(NamedTuple):
    """What helps: prose, and lines of code."""

    said: str = ""
    code: Sequence[str] = ()


def hint_of(origin: Origin) -> Hint:
    """What is known of how a NaN was made; nothing where nothing is known."""
    equation, cause = origin.equation, origin.cause
    if equation is None or not origin.nan:
        return Hint()
    if equation.primitive is cholesky and equation.role == "primal":
        return Hint(
            "The matrix is not positive definite. If it should be, and is not for rounding alone, add a little to its diagonal:"
            " A + 1e-6 * pnp.eye(n)."
        )
    if cause is None or cause.equation is None:
        return Hint()
    made = rule_of(cause.equation)
    if equation.primitive is mul and made is not None and made.role == "residual":
        if made.primitive in (sqrt, power) and _of_root_at_zero(cause):
            return _root(cause.equation, made.primitive.name)
        return Hint()
    if equation.role != "primal":
        return Hint()
    if equation.primitive is mul and cause.equation.primitive is log:
        return Hint("0 times log(0) is not a number. pb.scipy.special.xlogy(x, y) is x times log(y), and 0 where x is 0.")
    if equation.primitive is div and cause.equation.primitive is exp:
        return Hint(
            "exp is too large for its dtype here. Subtract the largest of the exponents first, which changes no quotient:"
            " pb.nn.softmax and pb.nn.logsumexp do so."
        )
    return Hint()


def _of_root_at_zero(cause: Origin) -> bool:
    """Whether an infinity is the derivative at 0 of a square root, or of a power between 0 and 1."""
    assert cause.equation is not None
    if cause.equation.primitive is not power:
        return True
    if kind(cause.equation.outputs[0].type.dtype) != "f":
        return False
    base, exponent = map(float, cause.values)
    return base == 0 and exponent > -1  # one less than that of the power itself


def _root(residual: Equation, name: str) -> Hint:
    """A root whose derivative is 0 at 0, in the user's own words where the line can be read."""
    said = (
        f"The derivative of {name} at 0 is infinite, and 0 times that is not a number. If the gradient should be 0 there, as"
        f" those of pnp.linalg.norm and pnp.hypot are, keep the 0 out of {name}:"
    )
    root = syntax_at(residual.source)
    argument = argument_of(root, name)
    match root:
        case ast.Call(ast.Attribute(module, attr=called)) if called in (name, "power"):
            form = f"{ast.unparse(module)}.where"
        case ast.BinOp(_, ast.Pow(), _):
            form = "pnp.where"
        case _:
            argument = None
    if root is None or argument is None:
        root = ast.parse("pnp.sqrt(s)" if name == sqrt.name else "s ** p", mode="eval").body
        return Hint(said, [_kept_out(root, ast.Name("s", ast.Load()), "pnp.where", "s") + f"  # s: what {name} is applied to"])
    if isinstance(argument, ast.Name):
        return Hint(said, [_kept_out(root, argument, form, argument.id)])
    return Hint(said, [f"s = {ast.unparse(argument)}", _kept_out(root, argument, form, "s")])


def _kept_out(root: ast.expr, argument: ast.expr, form: str, name: str) -> str:
    safe = ast.parse(f"{form}({name} == 0, 1.0, {name})", mode="eval").body
    return f"{form}({name} == 0, 0.0, {ast.unparse(replaced(root, argument, safe))})"
