"""Krylov methods: conjugate gradients, stabilized biconjugate gradients, and generalized minimal residuals.

Each works on one vector, into which the leaves of a tree are joined. Source: Saad, Iterative Methods for Sparse Linear Systems
(2003), algorithms 6.18, 7.7 and 6.9, with preconditioners as in chapter 9.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from pullback.api.loops import fori_loop, while_loop
from pullback.api.solvers import custom_linear_solve
from pullback.core.array import ArrayLike
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.core.source import at_user_line
from pullback.core.trees import check_like, kind_of, unflatten
from pullback.numpy.arithmetic import maximum
from pullback.numpy.creation import zeros, zeros_like
from pullback.numpy.linalg.norms import vector_norm
from pullback.numpy.linalg.solving import lstsq
from pullback.numpy.logic import isfinite, where
from pullback.numpy.products import matmul, vdot
from pullback.numpy.promotion import common_dtype, float_for, in_dtype, operand, strong
from pullback.numpy.shaping import concatenate, reshape
from pullback.ops.convert import convert_element_type

Operator = Callable[[Any], Any] | ArrayLike


def as_function(A: Any, name: str) -> Callable[[Any], Any]:
    """An operator as a function: one already, a matrix, or what multiplies by `@`. Raises `ShapeError` for other arrays."""
    if callable(A):
        return A
    if hasattr(A, "__matmul__") and not hasattr(A, "ndim"):
        return lambda x: A @ x
    matrix = operand(A, name)
    if matrix.type.ndim != 2 or matrix.type.shape[0] != matrix.type.shape[1]:
        raise ShapeError(f"{name} takes a linear function, or a square matrix, but got {matrix.type}.{at_user_line()}")
    return lambda x: matmul(matrix, x)


def _solved(
    name: str, method: Callable[..., Any], A: Any, b: Any, x0: Any, M: Any, symmetric: bool, **options: Any
) -> tuple[Any, Any]:
    """The solution by a method of a vector's, and whether it was found, of a system between trees."""
    trees = kind_of(A)
    leaves, structure = trees.array_leaves(b, lambda: "b")
    dtype = float_for(common_dtype(leaves, name)[0])
    shapes = [leaf.type.shape for leaf in leaves]

    def joined(tree: Any, what: str) -> Any:
        found, own = trees.array_leaves(tree, lambda: what)
        check_like(own, structure, what, "b has", lambda where: f"{name}: {what} must be a tree like b, but {where}.")
        if [leaf.type.shape for leaf in found] != shapes:
            raise ShapeError(f"{name}: {what} has leaves of other shapes than b: it must have the same.{at_user_line()}")
        return concatenate([strong(in_dtype(reshape(leaf, (-1,)), dtype)) for leaf in found])

    def separated(vector: Any) -> Any:
        parts, start = [], 0
        for leaf in leaves:
            parts.append(reshape(vector[start : start + leaf.type.size], leaf.type.shape))
            start += leaf.type.size
        return unflatten(structure, parts)

    function = as_function(A, name)
    before = as_function((lambda x: x) if M is None else M, name)
    right = joined(b, "b")
    start = zeros_like(right) if x0 is None else joined(x0, "x0")
    steps = options["maxiter"]
    options["maxiter"] = 10 * right.size if steps is None else operator.index(steps)

    def solver(first: Any) -> Any:
        return lambda matvec, b: method(matvec, b, first, lambda x: joined(before(separated(x)), "M(x)"), **options)

    out, info = custom_linear_solve(
        lambda x: joined(function(separated(x)), "A(x)"),
        right,
        solver(start),
        solver(zeros_like(right)),
        symmetric=symmetric and dtype.kind != "c",
        has_aux=True,
    )
    if x0 is None and all([leaf.type.weak for leaf in leaves]):
        out = convert_element_type(out, new_dtype=dtype, weak=True)
    return separated(out), info


def _limit(b: Any, tol: Any, atol: Any) -> Any:
    return maximum(tol * vector_norm(b), atol)


def _outcome(residual: Any, limit: Any, steps: Any) -> Any:
    """0 if the residual is small enough, else how many steps were done, or -1 if it is not a number."""
    size = vector_norm(residual)
    return where(size <= limit, 0, where(isfinite(size), maximum(steps, 1), -1))


def _cg(matvec: Any, b: Any, x: Any, before: Any, *, tol: Any, atol: Any, maxiter: int) -> Any:
    limit = _limit(b, tol, atol)

    def step(state: Any) -> Any:
        k, x, r, p, rho = state
        image = matvec(p)
        alpha = rho / vdot(p, image)
        x, r = x + alpha * p, r - alpha * image
        z = before(r)
        new = vdot(r, z)
        return k + 1, x, r, z + new / rho * p, new

    r = b - matvec(x)
    z = before(r)
    k, x, r, *_ = while_loop(
        lambda state: (vector_norm(state[2]) > limit) & (state[0] < maxiter), step, (0, x, r, z, vdot(r, z))
    )
    return x, _outcome(r, limit, k)


def _bicgstab(matvec: Any, b: Any, x: Any, before: Any, *, tol: Any, atol: Any, maxiter: int) -> Any:
    limit = _limit(b, tol, atol)
    r = b - matvec(x)
    shadow = r

    def step(state: Any) -> Any:
        k, x, r, p, rho = state
        ahead = before(p)
        v = matvec(ahead)
        alpha = rho / vdot(shadow, v)
        half = r - alpha * v
        other = before(half)
        t = matvec(other)
        size = vdot(t, t)
        omega = where(size == 0, 0, vdot(t, half) / where(size == 0, 1, size))
        x, r = x + alpha * ahead + omega * other, half - omega * t
        new = vdot(shadow, r)
        beta = new / rho * alpha / where(omega == 0, 1, omega)
        return k + 1, x, r, r + beta * (p - omega * v), new

    def goes_on(state: Any) -> Any:
        size = vector_norm(state[2])
        return (size > limit) & isfinite(size) & (state[0] < maxiter)

    k, x, r, *_ = while_loop(goes_on, step, (0, x, r, r, vdot(r, r)))
    return x, _outcome(r, limit, k)


def _gmres(matvec: Any, b: Any, x: Any, before: Any, *, tol: Any, atol: Any, maxiter: int, restart: int) -> Any:
    limit = _limit(before(b), tol, atol)
    size = min(restart, b.size)

    def arnoldi(j: Any, state: Any) -> Any:
        basis, form = state
        w = before(matvec(basis[j]))
        first = matmul(basis.conj(), w)
        w = w - matmul(first, basis)
        again = matmul(basis.conj(), w)  # what rounding has left of the others
        w = w - matmul(again, basis)
        length = vector_norm(w)
        form = form.at[:, j].set(first + again).at[j + 1, j].set(length.astype(form.dtype))
        return basis.at[j + 1].set(where(length == 0, 0, w / where(length == 0, 1, length))), form

    def cycle(state: Any) -> Any:
        k, x, r = state
        length = vector_norm(r)
        basis = zeros((size + 1, b.size), b.dtype).at[0].set(r / length)
        basis, form = fori_loop(0, size, arnoldi, (basis, zeros((size + 1, size), b.dtype)))
        wanted = zeros((size + 1,), b.dtype).at[0].set(length.astype(b.dtype))
        x = x + matmul(lstsq(form, wanted)[0], basis[:-1])
        return k + 1, x, before(b - matvec(x))

    k, x, r = while_loop(
        lambda state: (vector_norm(state[2]) > limit) & (state[0] < maxiter), cycle, (0, x, before(b - matvec(x)))
    )
    return x, _outcome(r, limit, k)


def cg(
    A: Operator, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, Any]:
    """The solution of A(x) = b by conjugate gradients, for a Hermitian positive definite A.

    It is differentiated through the system: tangents and cotangents are solved for in the same way.

    Arguments:
        A: a linear function, Hermitian and positive definite, from trees like b to such trees; or a matrix, for a
            vector b; or what multiplies by `@`.
        b: the right-hand side, a tree of arrays.
        x0: where to start, a tree like b; by default zeros.
        tol, atol: it ends where |b - A(x)| <= max(tol |b|, atol).
        maxiter: an int, how many steps are done at most; by default 10 times as many as b has elements.
        M: a preconditioner, a linear function or a matrix, near to the inverse of A.

    Returns:
        x, and 0, where it was found, else how many steps were done (-1 where x is not a number), an int; in SciPy's form.

    Raises:
        LeafError: b or x0 holds what is neither an array nor a number.
        StructureError, ShapeError: what A, M or x0 gives is no tree like b.

    Example:
        >>> A = pnp.array([[4.0, 1.0], [1.0, 3.0]])
        >>> x, info = pb.scipy.sparse.linalg.cg(lambda x: A @ x, pnp.array([6.0, 7.0]))
        >>> pnp.round(x, 3), info
        ([1. 2.]:f32[2]:cpu(0), 0:i32[]:cpu(0))
    """
    return _solved("cg", _cg, A, b, x0, M, True, tol=tol, atol=atol, maxiter=maxiter)


def bicgstab(
    A: Operator, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, Any]:
    """The solution of A(x) = b by stabilized biconjugate gradients, for any A.

    It is differentiated through the system: tangents and cotangents are solved for in the same way.

    Arguments:
        A: a linear function, from trees like b to such trees; or a matrix, for a
            vector b; or what multiplies by `@`.
        b: the right-hand side, a tree of arrays.
        x0: where to start, a tree like b; by default zeros.
        tol, atol: it ends where |b - A(x)| <= max(tol |b|, atol).
        maxiter: an int, how many steps are done at most; by default 10 times as many as b has elements.
        M: a preconditioner, a linear function or a matrix, near to the inverse of A.

    Returns:
        x, and 0, where it was found, else how many steps were done (-1 where x is not a number), an int; in SciPy's form.

    Raises:
        LeafError: b or x0 holds what is neither an array nor a number.
        StructureError, ShapeError: what A, M or x0 gives is no tree like b.

    Example:
        >>> A = pnp.array([[4.0, 1.0], [1.0, 3.0]])
        >>> x, info = pb.scipy.sparse.linalg.bicgstab(lambda x: A @ x, pnp.array([6.0, 7.0]))
        >>> pnp.round(x, 3), info
        ([1. 2.]:f32[2]:cpu(0), 0:i32[]:cpu(0))
    """
    return _solved("bicgstab", _bicgstab, A, b, x0, M, False, tol=tol, atol=atol, maxiter=maxiter)


def gmres(
    A: Operator,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Any]:
    """The solution of A(x) = b by generalized minimal residuals, for any A.

    It is differentiated through the system: tangents and cotangents are solved for in the same way.

    Arguments:
        A: a linear function, from trees like b to such trees; or a matrix, for a
            vector b; or what multiplies by `@`.
        b: the right-hand side, a tree of arrays.
        x0: where to start, a tree like b; by default zeros.
        tol, atol: it ends where |b - A(x)| <= max(tol |b|, atol).
        restart: of how many vectors a step makes a basis, in which it finds the least residual.
        solve_method: "batched" or "incremental", which do the same here.
        maxiter: an int, how many steps are done at most, each with a basis of its own; by default 10 times as many as b has
            elements.
        M: a preconditioner, a linear function or a matrix, near to the inverse of A.

    Returns:
        x, and 0, where it was found, else how many steps were done (-1 where x is not a number), an int; in SciPy's form.

    Raises:
        ValueError: an unknown `solve_method`.
        LeafError: b or x0 holds what is neither an array nor a number.
        StructureError, ShapeError: what A, M or x0 gives is no tree like b.

    Example:
        >>> A = pnp.array([[4.0, 1.0], [1.0, 3.0]])
        >>> x, info = pb.scipy.sparse.linalg.gmres(lambda x: A @ x, pnp.array([6.0, 7.0]))
        >>> pnp.round(x, 3), info
        ([1. 2.]:f32[2]:cpu(0), 0:i32[]:cpu(0))
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"gmres takes solve_method='batched' or 'incremental', not {brief(solve_method)}.{at_user_line()}")
    return _solved("gmres", _gmres, A, b, x0, M, False, tol=tol, atol=atol, maxiter=maxiter, restart=operator.index(restart))
