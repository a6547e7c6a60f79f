"""Looking at functions: their Programs, and the types of their results."""

from __future__ import annotations

from typing import Any

from pullback.api.functions import Function, argument_name, check_callable, leaf_paths
from pullback.core.errors import EscapedTracerError
from pullback.core.source import api_boundary, describe
from pullback.core.tracing import type_of
from pullback.core.trees import TreeDef, array_leaf, array_leaves, flatten, unflatten
from pullback.core.types import ArrayType
from pullback.program.program import Program
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.stage import stage


def _record(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> tuple[Program, TreeDef]:
    check_callable(fun, what)
    leaves, structure = flatten((args, kwargs))
    paths = [path for i, arg in enumerate(args) for path in leaf_paths(arg, argument_name(fun, i))]
    paths += [path for name in sorted(kwargs) for path in leaf_paths(kwargs[name], name)]
    types = [
        leaf if isinstance(leaf, ArrayType) else type_of(array_leaf(leaf, lambda path=path: f"argument {path}"))  # type: ignore[misc]
        for leaf, path in zip(leaves, paths, strict=True)
    ]
    box: dict[str, Any] = {}

    def flat(*inner: Any) -> list[Any]:
        inner_args, inner_kwargs = unflatten(structure, inner)
        outs, box["structure"] = array_leaves(fun(*inner_args, **inner_kwargs), lambda: "the output")
        return outs

    name = getattr(fun, "__name__", "function")
    program, captures = stage(flat, types, name=name, described=fun, arguments=paths)
    if captures and what == "xpr":
        raise EscapedTracerError(
            f"xpr of {describe(fun)} met a traced value of {captures[0].owner.describe()}, which encloses it."
            " A Program is closed: pass the value as an argument."
        )
    return drop_dead_code(program), box["structure"]


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
    return _record(fun, args, kwargs, "xpr")[0]


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
    program, structure = _record(fun, args, kwargs, "eval_shape")
    return unflatten(structure, program.output_types)
