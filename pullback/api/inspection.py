"""Looking at functions: their Programs, and the types of their results."""

from __future__ import annotations

from typing import Any

from pullback.api.functions import Function, check_callable
from pullback.api.traced import Traced, traced_call
from pullback.core.errors import EscapedTracerError
from pullback.core.source import api_boundary, describe
from pullback.core.trees import unflatten
from pullback.program.program import Program
from pullback.transforms.simplify import drop_dead_code


def _record(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> Traced:
    check_callable(fun, what)
    traced = traced_call(what, fun, args, kwargs, placeholders=True).traced
    if traced.captures and what == "xpr":
        raise EscapedTracerError(
            f"xpr of {describe(fun)} met a traced value of {traced.captures[0].owner.describe()}, which encloses it."
            " A Program is closed: pass the value as an argument."
        )
    return traced._replace(program=drop_dead_code(traced.program))


@api_boundary
def xpr(fun: Function, *args: Any, **kwargs: Any) -> Program:
    """The Program that a function is for arguments like these: every operation that its result needs, typed, in order.

    Arguments:
        fun: a function of arrays and pytrees; any transformation of one.
        args, kwargs: what to call it with; an `ArrayType` serves for an array.

    Returns:
        A `Program`. Its inputs are the leaves of the arguments from left to right, its outputs those of the result.

    Example:
        >>> import pullback as pb
        >>> print(pb.xpr(lambda x: 2.0 * x + 1.0, pb.ArrayType((3,), "float32")))
        { lambda (a:f32[3]:cpu(0)) ;
          let
            b:f32[3]:cpu(0) = mul 2.0 a
            c:f32[3]:cpu(0) = add b 1.0
          in c }
    """
    return _record(fun, args, kwargs, "xpr").program


@api_boundary
def eval_shape(fun: Function, *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of a function's results, without computing them.

    Returns:
        The tree of the result, with an `ArrayType` for each array.

    Example:
        >>> import pullback as pb
        >>> pb.eval_shape(lambda x: {"total": pb.numpy.sum(x)}, pb.ArrayType((3,), "float32"))
        {'total': f32[]}
    """
    traced = _record(fun, args, kwargs, "eval_shape")
    return unflatten(traced.structure, traced.out_types)
