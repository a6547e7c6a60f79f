"""`pb.program_diff`: how two Programs, or two functions, differ."""

from __future__ import annotations

from typing import Any

from pullback.api.functions import Function, check_callable
from pullback.api.traced import xpr
from pullback.core.brief import counted
from pullback.core.source import api_boundary, describe
from pullback.program.difference import ProgramDiff
from pullback.program.program import Program


@api_boundary
def program_diff(before: Program | Function, after: Program | Function, /, *args: Any, **kwargs: Any) -> ProgramDiff:
    """How two Programs, or two functions for the same arguments, differ: which operations were added, removed or changed.

    Equations are matched by what they are and compute, not by the names of variables: by their ids and origins, where one
    Program was made from the other; by the values that they compute; by what they read; by the user's lines. Bodies of loops,
    branches and other Programs in equations are compared in their turn.

    Arguments:
        before, after: Programs, or functions of arrays and pytrees.
        args, kwargs: what the functions are called with; an `ArrayType` serves for an array. Of two Programs, nothing; with one
            Program, by default, what that takes.

    Returns:
        A `ProgramDiff`. It is false where there is no difference, so that `assert not pb.program_diff(p, q)` is a test, and
        prints like `diff -u`; `.rows` is data, `.show()` prints it in colour, and notebooks show it so.

    Raises:
        TypeError: something is neither a Program nor a function; there are no arguments for functions, or some for Programs.

    Example:
        >>> import pullback as pb
        >>> def f(x):
        ...     return pb.numpy.sum(x * 2.0)
        >>> def g(y):
        ...     z = y * 2.0
        ...     return pb.numpy.sum(pb.numpy.sin(z))
        >>> print(pb.program_diff(f, g, pb.ArrayType((3,), "float32")))
        --- f(f32[3])
        +++ g(f32[3])
          a:f32[3]:cpu(0)
          b:f32[3]:cpu(0) = mul a 2.0
        + c:f32[3]:cpu(0) = sin b
        - d:f32[]:cpu(0) = reduce_sum[axes=(0,)] b
        + d:f32[]:cpu(0) = reduce_sum[axes=(0,)] c
          return d
        1 changed, 1 added, 1 alike
    """
    for one in (before, after):
        check_callable(one, "program_diff")
    given = [one for one in (before, after) if isinstance(one, Program)]
    if len(given) == 2:
        if args or kwargs:
            raise TypeError(
                "program_diff takes two Programs and nothing else, since their types are part of them, but got"
                f" {counted(len(args) + len(kwargs), 'argument')} for them."
            )
        return ProgramDiff(*given)
    if not args and not kwargs:
        if not given:
            function = describe(before)
            raise TypeError(
                "program_diff of functions takes the arguments to trace them with, or their types:"
                f" program_diff({function}, ..., x)."
            )
        args = given[0].input_types
    found = [one if isinstance(one, Program) else xpr(one, *args, **kwargs) for one in (before, after)]
    return ProgramDiff(*found)
