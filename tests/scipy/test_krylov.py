"""Iterative solvers: values, derivatives, trees, preconditioners, and what they say when they do not converge."""

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.scipy.sparse.linalg import bicgstab, cg, gmres

rng = np.random.default_rng(0)
A = rng.normal(size=(8, 8))
POSITIVE, GENERAL = A @ A.T + 5 * np.eye(8), A + 6 * np.eye(8)
B = rng.normal(size=8)
SOLVERS = [(cg, POSITIVE), (bicgstab, GENERAL), (gmres, GENERAL)]
each_solver = pytest.mark.parametrize("solver, matrix", SOLVERS, ids=lambda each: getattr(each, "__name__", ""))


@each_solver
def test_it_solves_the_system(solver, matrix):
    expected = np.linalg.solve(matrix, B)
    for found, info in (
        solver(matrix, B, tol=1e-11),
        solver(lambda x: pnp.asarray(matrix) @ x, B, tol=1e-11),
        pb.jit(lambda a, b: solver(a, b, tol=1e-11))(matrix, B),
        solver(matrix, B, x0=expected + 0.1, tol=1e-11, M=np.linalg.inv(matrix)),
    ):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-8, atol=1e-9)
        assert int(info) == 0


@each_solver
def test_complex_systems(solver, matrix):
    twist = 0.3j * (A - A.T)
    matrix, b = matrix + twist, B + 1j * B[::-1]
    found, info = solver(matrix, b, tol=1e-11)
    np.testing.assert_allclose(matrix @ np.asarray(found), b, atol=1e-8)
    assert int(info) == 0


@each_solver
def test_derivatives_are_those_of_the_system(solver, matrix):
    symmetric = (lambda a: (a + a.T) / 2) if solver is cg else (lambda a: a)
    pb.testing.check_gradients(lambda a, b: solver(symmetric(a), b, tol=1e-12)[0], (matrix, B))


@each_solver
def test_trees_and_batches(solver, matrix):
    tree = {"a": B[:4].reshape(2, 2), "b": B[4:]}
    found, _ = solver(lambda x: pb.tree.map(lambda leaf: 4.0 * leaf, x), tree)
    np.testing.assert_allclose(np.asarray(found["a"]), tree["a"] / 4)
    many, info = pb.vmap(lambda b: solver(matrix, b, tol=1e-10))(np.stack([B, 2 * B, 0 * B]))
    np.testing.assert_allclose(matrix @ np.asarray(many)[1], 2 * B, atol=1e-8)
    assert np.asarray(info).tolist() == [0, 0, 0]


def test_what_has_not_converged_says_so():
    assert int(cg(POSITIVE, B, tol=1e-12, maxiter=2)[1]) == 2
    assert int(bicgstab(GENERAL, B, tol=1e-12, maxiter=1)[1]) == 1
    assert int(gmres(GENERAL, B, tol=1e-12, restart=2, maxiter=2)[1]) == 2
    assert int(bicgstab(np.zeros((2, 2)), np.ones(2))[1]) == -1


def test_what_does_not_fit_is_refused():
    with pytest.raises(pb.errors.ShapeError, match="a linear function, or a square matrix"):
        cg(np.ones((2, 3)), np.ones(3))
    with pytest.raises(pb.errors.StructureError, match="x0"):
        gmres(lambda x: x, {"a": np.ones(3)}, x0=np.ones(3))
    with pytest.raises(ValueError, match="solve_method"):
        gmres(POSITIVE, B, solve_method="other")


def test_an_operator_may_be_what_multiplies():
    class Twice:
        def __matmul__(self, x):
            return 2 * x

    x, _info = pb.scipy.sparse.linalg.cg(Twice(), pnp.ones(3))
    np.testing.assert_allclose(np.asarray(x), 0.5)


def test_solutions_of_weak_systems_are_weak() -> None:
    for solve in (cg, bicgstab, gmres):
        assert solve(lambda x: x, 1.0)[0].weak_type and not solve(lambda x: x, pnp.ones(2))[0].weak_type
