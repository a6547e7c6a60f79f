"""Minimization against SciPy's, in both precisions, compiled, batched and differentiated."""

import numpy as np
import pytest
import scipy.optimize

import pullback as pb
from pullback import numpy as pnp
from pullback.scipy.optimize import OptimizeResults, minimize


def rosenbrock(x):
    return pnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def eggholder(x):
    return -(x[1] + 47) * pnp.sin(pnp.sqrt(abs(x[0] / 2 + x[1] + 47))) - x[0] * pnp.sin(pnp.sqrt(abs(x[0] - x[1] - 47)))


PROBLEMS = {
    "rosenbrock": (rosenbrock, [-1.2, 1.0]),
    "rosenbrock of ten": (rosenbrock, [0.0] * 10),
    "himmelblau": (himmelblau, [1.0, 1.0]),
    "himmelblau, another minimum": (himmelblau, [-4.0, 3.0]),
    "matyas": (lambda x: 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1], [100.0, -50.0]),
    "eggholder": (eggholder, [100.0, 100.0]),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_minimum_that_scipy_finds(name, dtype):
    f, start = PROBLEMS[name]
    x = np.asarray(start, dtype)
    theirs = scipy.optimize.minimize(
        lambda x: float(f(x)), np.asarray(start), jac=lambda x: np.asarray(pb.grad(f)(x)), method="BFGS"
    )
    for found in (minimize(f, x, method="BFGS"), pb.jit(lambda x: minimize(f, x, method="bfgs"))(x)):
        assert isinstance(found, OptimizeResults) and found._fields == OptimizeResults._fields
        rounded = dtype == "float32" and int(found.status) == 3 and found.fun < 1e-10  # no step makes it smaller any more
        assert bool(found.success) or rounded
        assert int(found.status) == 0 or rounded
        assert found.x.dtype == found.fun.dtype == x.dtype
        np.testing.assert_allclose(found.x, theirs.x, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found.jac, pb.grad(f)(found.x), rtol=1e-3, atol=1e-3)
        assert int(found.nit) <= 2 * theirs.nit and int(found.nfev) == int(found.njev)
        assert int(found.nfev) <= 2 * theirs.nfev or rounded  # then the last search tries all of its steps


def test_the_inverse_of_the_hessian_of_a_parabola():
    A = np.array([[3.0, 1.0], [1.0, 2.0]])
    found = minimize(lambda x, A, b: x @ A @ x / 2 - b @ x, np.zeros(2), (A, np.ones(2)), method="BFGS", tol=1e-10)
    np.testing.assert_allclose(found.x, np.linalg.solve(A, np.ones(2)), rtol=1e-9)
    np.testing.assert_allclose(found.hess_inv, np.linalg.inv(A), rtol=1e-6)


def test_batched_it_is_a_loop_and_it_has_derivatives():
    def least(target):
        return minimize(lambda x: pnp.sum((x - target) ** 2 + pnp.exp(-x)), pnp.zeros(2, "float64"), method="BFGS", tol=1e-9).x

    targets = np.array([[0.5, -1.0], [2.0, 30.0], [0.0, 0.0]])
    np.testing.assert_allclose(pb.vmap(least)(targets), [np.asarray(least(target)) for target in targets], rtol=1e-8)
    x = np.asarray(least(targets[0]))
    exact = np.diag(2 / (2 + np.exp(-x)))  # the implicit function theorem
    for jacobian in (pb.jacfwd(least), pb.jacrev(least), pb.jit(pb.jacrev(least))):
        np.testing.assert_allclose(jacobian(targets[0]), exact, rtol=1e-5, atol=1e-7)


def test_how_it_ends_without_success():
    few = minimize(rosenbrock, np.array([-1.2, 1.0]), method="BFGS", options={"maxiter": 3})
    assert not few.success and (int(few.status), int(few.nit)) == (1, 3)
    stuck = minimize(lambda x: pnp.sum(x) * pnp.nan, np.zeros(2), method="BFGS")
    assert not stuck.success and int(stuck.status) == 3 and stuck.x.tolist() == [0, 0]
    down = minimize(lambda x: -pnp.sum(x), np.zeros(2), method="BFGS", options={"maxiter": 5, "line_search_maxiter": 4})
    assert not down.success and float(down.fun) < -10
    there = minimize(rosenbrock, np.ones(3), method="BFGS")
    assert there.success and int(there.nit) == 0


def test_a_region_that_has_no_values_is_left():
    found = minimize(lambda x: pnp.sum(x - pnp.log(x)), np.array([1e-3, 20.0]), method="BFGS")
    assert found.success
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-4)


def test_other_norms():
    for norm in (1, 2):
        assert minimize(himmelblau, np.ones(2), method="BFGS", options={"norm": norm, "gtol": 1e-8}).success


@pytest.mark.parametrize(
    "error, words, change",
    [
        (ValueError, "method='BFGS' or 'L-BFGS', not 'newton'", {"method": "newton"}),
        (ValueError, "options gtol, norm, maxiter, line_search_maxiter, but not disp", {"options": {"disp": True}}),
        (TypeError, "tuple of further arguments", {"args": 3.0}),
        (pb.errors.ShapeError, "a vector as x0", {"x0": np.zeros((2, 2))}),
        (pb.errors.DtypeError, "minimize", {"x0": np.zeros(2, complex)}),
    ],
)
def test_what_is_refused(error, words, change):
    with pytest.raises(error, match=words):
        minimize(**{"fun": rosenbrock, "x0": np.zeros(2), "method": "BFGS", **change})


def test_it_ends_where_rounding_leaves_the_point_where_it_is():
    start = np.array([-1.2, 1.0] * 10, np.float32)  # near its minimum the gradient has errors above gtol
    found = pb.jit(lambda x: minimize(rosenbrock, x, method="BFGS"))(start)
    # whether the last gradient is below gtol is a matter of the processor's rounding
    assert found.status in (0, 3) and found.nit < 400 and np.abs(np.asarray(found.x) - 1).max() < 1e-4


@pytest.mark.parametrize("scale", [1e4, 1e2, 1.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_steep_parabola(dtype, scale):
    """Whose curvature is so far from 1 that a float32 sum of both would lose it."""
    found = minimize(lambda x: pnp.mean((scale * x) ** 2), pnp.ones(2, dtype), method="BFGS")
    np.testing.assert_allclose(found.x, np.zeros(2), atol=1e-9)
    assert bool(found.success) and int(found.nfev) < 10


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_limited_memory_finds_the_minimum(name, dtype):
    f, start = PROBLEMS[name]
    found = minimize(f, np.asarray(start, dtype), method="L-BFGS", tol=1e-4)
    assert bool(found.success) and found.hess_inv is None and found.x.dtype == dtype
    np.testing.assert_allclose(pb.grad(f)(found.x.astype("float64")), np.zeros(len(start)), atol=2e-3)
    if name != "eggholder":
        near = minimize(f, np.asarray(found.x, "float64"), method="BFGS")
        np.testing.assert_allclose(found.x, near.x, atol=3e-3)


def test_the_limited_memory_keeps_few_steps_of_many_numbers():
    n = 1000
    weights = np.linspace(1, 50, n)
    results = [
        minimize(lambda x: weights @ (x - 1) ** 2, np.zeros(n), method="l-bfgs", options={"maxcor": count, "maxiter": None})
        for count in (1, 20)
    ]
    for found in results:
        np.testing.assert_allclose(found.x, np.ones(n), atol=1e-5)
    assert int(results[1].nit) < int(results[0].nit)


def test_the_limited_memory_takes_complex_numbers():
    goal = np.array([1.0, 2.0 - 3.0j, 4.0, -5.0j])
    found = minimize(
        lambda z: pnp.sum(abs(z - goal) ** 2 * np.arange(1.0, 5.0)), np.zeros(4, complex), method="L-BFGS", tol=1e-9
    )
    np.testing.assert_allclose(found.x, goal, atol=1e-9)
    half = minimize(lambda z: pnp.sum(abs(z - goal) ** 2), np.zeros(4, complex), method="L-BFGS", options={"maxiter": 1})
    np.testing.assert_allclose(half.jac, pb.grad(lambda z: pnp.sum(abs(z - goal) ** 2))(half.x), rtol=1e-12)


def test_the_limited_memory_compiled_batched_and_differentiated():
    def least(target):
        def f(x):
            return pnp.sum((x - target) ** 2 + pnp.exp(-x))

        return minimize(f, pnp.zeros(2, "float64"), method="L-BFGS", tol=1e-9).x

    targets = np.array([[0.5, 1.0], [2.0, -1.0]])
    np.testing.assert_allclose(pb.jit(pb.vmap(least))(targets), pnp.stack([least(t) for t in targets]), rtol=1e-9)
    x = least(targets[0])
    np.testing.assert_allclose(pb.jacrev(least)(targets[0]), pnp.diag(2 / (2 + pnp.exp(-x))), atol=1e-5)
