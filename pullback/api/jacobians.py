"""Whole Jacobians and Hessians, and products with them: all directional derivatives in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.derivatives import LinearizedCall, gradient_of, push_forward
from pullback.api.functions import Argnums, FlatArguments, Function, P, check_callable, check_flags, wrapped
from pullback.api.tangents import FlatResult, check_inputs, check_outputs, check_tuples, weak_as
from pullback.core.array import Array
from pullback.core.axes import Axis
from pullback.core.dtypes import float0, is_inexact
from pullback.core.leaks import leak_checked
from pullback.core.source import api_boundary
from pullback.core.tracing import is_float0, type_of
from pullback.core.trees import unflatten
from pullback.core.types import ArrayType, array_type
from pullback.core.zero import ZERO, zeros
from pullback.ops.shape import reshape, transpose
from pullback.ops.shape import slice as slice_of
from pullback.program.provenance import finishing
from pullback.transforms.batch import batch_flat, materialize
from pullback.transforms.jvp import jvp_flat


@api_boundary
def jacfwd(fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[P, Any]:
    """A function that returns the Jacobian of `fun`, column by column by forward mode: best for few inputs, many outputs.

    Arguments:
        fun: a function of arrays and pytrees, whose output is any tree of arrays.
        argnums: the positional arguments to differentiate with respect to: an int, or a sequence of ints for a tuple of
            Jacobians.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.
        holomorphic: whether `fun` is a holomorphic function of complex arguments, with a complex output.

    Returns:
        A function of the same arguments. Its result is a tree like the output, in which each leaf is a tree like the
        argument (a tuple of them for a sequence of `argnums`), in which each leaf has the output's shape followed by the
        input's. With `has_aux`, `(jacobian, aux)`.

    Raises:
        GradientError, when the returned function is called: an argument or the output has no derivative of this kind.

    Example:
        >>> import pullback as pb
        >>> pb.jacfwd(lambda x: x * x)(pb.numpy.asarray([1.0, 2.0]))
        [[2. 0.]
         [0. 4.]]:f32[2,2]:cpu(0)
    """
    return _by_columns("jacfwd", fun, argnums, has_aux, holomorphic)


def _by_columns(what: str, fun: Callable[P, Any], argnums: Argnums, has_aux: bool, holomorphic: bool) -> Callable[P, Any]:
    """`jacfwd`, for a transformation that error messages call `what`."""
    check_callable(fun, what)
    check_flags(what, has_aux=has_aux, holomorphic=holomorphic)

    def jacobian(*args: P.args, **kwargs: P.kwargs) -> Any:
        flat = FlatArguments.chosen(what, fun, argnums, args, kwargs)
        types = [type_of(leaf) for leaf in flat.leaves]
        check_inputs(what, flat, types, [is_inexact(type.dtype) for type in types], holomorphic, None, real=True)
        result = FlatResult(flat.call, has_aux, what, fun)
        values: list[Any] = []
        out_types: list[ArrayType] = []

        @leak_checked
        def push(*directions: Any) -> list[Any]:
            values[:], tangents = jvp_flat(result, flat.leaves, directions, fun)
            pairs = [(t, type_of(value)) for t, value in zip(tangents, values[: result.count]) if not is_float0(value)]
            out_types[:] = [type for _, type in pairs]
            check_outputs(what, fun, out_types, holomorphic, "fc")
            return [weak_as(type, zeros(type) if t is ZERO else t, True) for t, type in pairs]

        # one batch over the elements of all inputs; the values do not depend on it, and are computed once
        columns = _along_basis("tangent", push, types)
        blocks = iter([_blocks(column, types, type, transposed=True) for column, type in zip(columns, out_types)])
        rows = [
            [np.zeros((*out.shape, *type.shape), float0) for type in types] if is_float0(out) else next(blocks)
            for out in values[: result.count]
        ]
        jac = unflatten(result.structure, [flat.per_argument(row) for row in rows])
        return (jac, result.aux(values)) if has_aux else jac

    return wrapped(fun, "jacfwd", jacobian)


@api_boundary
def jacrev(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Callable[P, Any]:
    """A function that returns the Jacobian of `fun`, row by row by reverse mode: best for many inputs, few outputs.

    Arguments:
        fun: a function of arrays and pytrees, whose output is any tree of arrays.
        argnums: the positional arguments to differentiate with respect to: an int, or a sequence of ints for a tuple of
            Jacobians.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.
        holomorphic: whether `fun` is a holomorphic function of complex arguments, with a complex output.
        allow_int: whether to accept integer arguments; their Jacobian is trivial, of dtype `float0`.

    Returns:
        A function of the same arguments. Its result is a tree like the output, in which each leaf is a tree like the
        argument (a tuple of them for a sequence of `argnums`), in which each leaf has the output's shape followed by the
        input's. With `has_aux`, `(jacobian, aux)`.

    Raises:
        GradientError, when the returned function is called: an argument or the output has no derivative of this kind.

    Example:
        >>> import pullback as pb
        >>> pb.jacrev(lambda x: x * x)(pb.numpy.asarray([1.0, 2.0]))
        [[2. 0.]
         [0. 4.]]:f32[2,2]:cpu(0)
    """
    check_flags("jacrev", allow_int=allow_int)
    return _by_rows("jacrev", fun, argnums, has_aux, holomorphic, allow_int)


def _by_rows(
    what: str, fun: Callable[P, Any], argnums: Argnums, has_aux: bool, holomorphic: bool, allow_int: bool | None = None
) -> Callable[P, Any]:
    """`jacrev`, for a transformation that error messages call `what`."""
    check_callable(fun, what)
    check_flags(what, has_aux=has_aux, holomorphic=holomorphic)

    def jacobian(*args: P.args, **kwargs: P.kwargs) -> Any:
        flat = FlatArguments.chosen(what, fun, argnums, args, kwargs)
        call = LinearizedCall(what, fun, flat, has_aux, holomorphic, allow_int)
        out_types = call.out_types
        check_outputs(what, fun, out_types, holomorphic)
        inputs = [type for type, flag in zip(call.types, call.active) if flag]

        def pull(*cotangents: Any) -> list[Any]:
            return [
                zeros(type) if cotangent is ZERO else weak_as(type, cotangent)
                for cotangent, type in zip(call.pull(cotangents), inputs)
            ]

        rows = _along_basis("cotangent", pull, out_types)
        blocks = iter([_blocks(row, out_types, type) for row, type in zip(rows, inputs)])
        by_input = [
            next(blocks) if flag else [np.zeros((*out.shape, *type.shape), float0) for out in out_types]
            for flag, type in zip(call.active, call.types)
        ]
        by_output = [[own[i] for own in by_input] for i in range(len(out_types))]
        jac = unflatten(call.result.structure, [flat.per_argument(row) for row in by_output])
        return call.with_aux(jac) if has_aux else jac

    return wrapped(fun, "jacrev", jacobian)


@api_boundary
def hessian(fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False) -> Callable[P, Any]:
    """A function that returns the matrix of second derivatives of `fun`: forward mode over reverse mode.

    Arguments:
        fun: a function of arrays and pytrees, whose output is any tree of arrays.
        argnums: the positional arguments to differentiate with respect to: an int, or a sequence of ints for a tuple of
            rows of Hessians.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.
        holomorphic: whether `fun` is a holomorphic function of complex arguments, with a complex output.

    Returns:
        A function of the same arguments. Its result is the Jacobian of the Jacobian: for a function of trees it nests the
        structure of the argument twice. With `has_aux`, `(hessian, aux)`.

    Raises:
        GradientError, when the returned function is called: an argument or the output has no derivative of this kind.

    Example:
        >>> import pullback as pb
        >>> pb.hessian(lambda x: x[0] * x[0] * x[1])(pb.numpy.asarray([1.0, 2.0]))
        [[4. 2.]
         [2. 0.]]:f32[2,2]:cpu(0)
    """
    rows = _by_rows("hessian", fun, argnums, has_aux, holomorphic)
    return _by_columns("hessian", rows, argnums, has_aux, holomorphic)


@api_boundary
def hvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The Hessian of a scalar function times a vector, without forming the Hessian: the tangent of the gradient.

    Arguments:
        fun: a function with one 0-d real output.
        primals: the arguments, a tuple or list.
        tangents: the vector, one tree for each argument.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.

    Returns:
        A tree like the first argument, or a tuple with one for each argument if there are several; with `has_aux`,
        `(product, aux)`.

    Raises:
        GradientError: the output is not one 0-d real number.
        ShapeError, DtypeError: a tangent is not like its primal.

    Example:
        >>> import pullback as pb
        >>> pb.hvp(lambda x: x**3, (2.0,), (1.0,))
        12.0:f32[]:cpu(0)

    Source: Pearlmutter, "Fast exact multiplication by the Hessian", Neural Computation 6 (1994).
    """
    check_callable(fun, "hvp")
    check_tuples("hvp", primals=primals, tangents=tangents)
    argnums = tuple(range(len(primals))) if len(primals) > 1 else 0
    found = push_forward("hvp", gradient_of("hvp", fun, argnums, has_aux), primals, tangents, has_aux)
    return (found[1], found[2]) if has_aux else found[1]


def _along_basis(role: str, linear: Callable[..., Sequence[Any]], types: Sequence[ArrayType]) -> list[Any]:
    """A flat linear function, whose results are tangents or cotangents (their `role`), applied to every basis vector of its
    inputs taken together, in one batch.

    Each result has as many rows as the inputs have elements, in their order.
    """
    total = sum(type.size for type in types)
    bases, start = [], 0
    for type in types:
        rows = np.zeros((total, type.size), type.dtype)
        rows[start : start + type.size] = np.eye(type.size, dtype=type.dtype)
        start += type.size
        shape = (total, *type.shape)
        bases.append(Array(array_type(shape, type.dtype, type.weak), rows.reshape(shape)))
    trace, outs = batch_flat(linear, bases, [True] * len(bases), Axis(total))
    with finishing(role):
        return [materialize(trace, out) for out in outs]


def _blocks(rows: Any, types: Sequence[ArrayType], other: ArrayType, transposed: bool = False) -> list[Any]:
    """What has a row for each element of arrays of `types`, cut into one array for each: of its shape followed by the shape of
    the rows, which are of type `other`; or of the shapes in the opposite order, as forward mode finds them."""
    found, start = [], 0
    with finishing("tangent" if transposed else "cotangent"):
        for type in types:
            block = rows
            if type.size != type_of(rows).shape[0]:
                stop = (start + type.size, *other.shape)
                block = slice_of(rows, start_indices=(start, *[0] * other.ndim), limit_indices=stop)
            start += type.size
            if transposed:
                block = transpose(block, permutation=(*range(1, other.ndim + 1), 0))
            found.append(reshape(block, new_sizes=(*other.shape, *type.shape) if transposed else (*type.shape, *other.shape)))
    return found
