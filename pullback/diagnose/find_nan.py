"""find_nan: where the NaN comes from that a function, or its gradient, gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.api.applied import Apply, apply_transformations, transformations
from pullback.api.derivatives import vjp
from pullback.api.functions import Function, check_callable, check_flags, standing_for
from pullback.api.traced import xpr
from pullback.control.callback import callback
from pullback.core.array import Array
from pullback.core.dtypes import is_inexact
from pullback.core.errors import GradientError, MissingRule
from pullback.core.source import api_boundary
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import kind_of
from pullback.diagnose.again import without_effects
from pullback.diagnose.finding import Finding, compiled_nan, finding_of
from pullback.diagnose.nan import hunted, returned
from pullback.diagnose.program import Staged, staged
from pullback.numpy.creation import ones_like
from pullback.program.program import Program, run

DERIVATIVES = ("grad", "value_and_grad", "jvp", "vjp", "jacfwd", "jacrev", "hessian")


@api_boundary
def find_nan(
    fun: Function,
    *args: Any,
    apply: Apply = "",
    infinity: bool = False,
    backward: bool | None = None,
    compiled: bool = True,
    **kwargs: Any,
) -> Finding | None:
    """Find the first operation, forward or backward, that makes a NaN from finite values.

    The function is traced, and run on NumPy equation by equation, into loops and branches; if that gives no NaN, so is its
    backward pass, with a cotangent of ones; and if there is none either, the compiled program is looked at. What is there for
    its effect alone, such as `debug.print`, is done in the first of these runs.

    Arguments:
        fun: a function of arrays and pytrees.
        args, kwargs: what to call it with, or what is made of it by `apply`.
        apply: transformations to apply to it first, as text, `"grad,vmap"`, or as a list of functions.
        infinity: whether infinity counts as well as NaN.
        backward: whether to look at the backward pass too, with respect to all floating-point arguments; by default if `apply`
            takes no derivative.
        compiled: whether to look at compiled code too, if there is none on NumPy.

    Returns:
        A `Finding`, which prints as the line, the values, the rule, and what helps; None where there is no NaN.

    Raises:
        GradientError, MissingRule: the function has no backward pass (`backward=False` leaves it out). LeafError: an argument
            has no values.

    Example:
        >>> finding = pb.find_nan(lambda x: pnp.where(x > 0, pnp.sqrt(x), 0.0), 0.0)
        >>> finding.kind, finding.role, finding.trap.function
        ('nan', 'cotangent', 'sqrt')
        >>> pb.find_nan(lambda x: pnp.where(x > 0, pnp.sqrt(pnp.where(x > 0, x, 1.0)), 0.0), 0.0)
    """
    check_callable(fun, "find_nan")
    check_flags("find_nan", infinity=infinity, compiled=compiled, **({} if backward is None else {"backward": backward}))
    derived = any([one.kind in DERIVATIVES for one in transformations(apply)])
    call = staged("find_nan", apply_transformations(_shown(fun) if derived else fun, apply), args, kwargs)
    found = _found(call.program, call.leaves, call.paths, bool(infinity), bool(compiled))
    if found is not None and (found.reaches or found.returned):
        return found
    if backward is None:
        backward = not derived
    later = _in_the_backward_pass(call, bool(infinity), bool(compiled)) if backward else None
    return later if later is not None and later.reaches else found or later


def _shown(fun: Function) -> Function:
    """The function, of which a derivative is to be taken, so that what it returns is seen too: most derivatives drop that."""

    @standing_for(fun)
    def shown(*args: Any, **kwargs: Any) -> Any:
        out = fun(*args, **kwargs)
        leaves = [leaf for leaf in kind_of(fun).flatten(out)[0] if isinstance(leaf, (Array, Tracer, float, complex))]
        callback(*[leaf for leaf in leaves if is_inexact(type_of(leaf).dtype)], function=returned)
        return out

    return shown


def _found(program: Program, leaves: Sequence[Array], paths: Sequence[str], infinity: bool, compiled: bool) -> Finding | None:
    """What is found on NumPy, or else, if that is asked for, in compiled code."""
    found = hunted(program, leaves, paths, infinity)
    if found.reaches or found.returned or not compiled:
        return finding_of(program, found)
    return compiled_nan(without_effects(program), leaves, found.outs, infinity) or finding_of(program, found)


def _in_the_backward_pass(call: Staged, infinity: bool, compiled: bool) -> Finding | None:
    """What the backward pass makes, of a cotangent of ones for each result."""
    program = without_effects(call.program)
    active = [i for i, type in enumerate(program.input_types) if is_inexact(type.dtype)]
    outs = [i for i, type in enumerate(program.output_types) if is_inexact(type.dtype)]
    if not active or not outs:
        return None
    try:
        backward = backward_program(program, call.leaves, active, outs)
    except (GradientError, MissingRule) as error:
        error.add_note("find_nan looks at the backward pass too; backward=False leaves it out.")
        raise
    return _found(backward, [call.leaves[i] for i in active], [call.paths[i] for i in active], infinity, compiled)


def backward_program(program: Program, leaves: Sequence[Array], active: Sequence[int], outs: Sequence[int]) -> Program:
    """The cotangents of some inputs of a Program, for ones as those of some outputs, as a Program of these inputs."""

    def forward(*given: Any) -> list[Any]:
        values = [*leaves]
        for place, value in zip(active, given):
            values[place] = value
        found = run(program, values)
        return [found[i] for i in outs]

    def backward(*given: Any) -> Any:
        found, pull = vjp(forward, *given)
        return pull([ones_like(out) for out in found])

    return xpr(backward, *[leaves[i] for i in active])
