"""custom_linear_solve and custom_root: solutions, and derivatives that do not go through the solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.api.loops import while_loop
from pullback.testing import check_gradients

RNG = np.random.default_rng(1)
A = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
S = A @ A.T
B = RNG.normal(size=(4,))


def conjugate_gradients(matvec: Callable[[Any], Any], b: Any) -> Any:
    """Hestenes and Stiefel's method, for symmetric positive definite operators; stops by the residual."""

    def going(state: Any) -> Any:
        return pnp.max(state[3]) > 1e-28

    def step(state: Any) -> Any:
        x, r, p, rr = state
        q = matvec(p)
        alpha = rr / pnp.sum(p * q)
        x, r = x + alpha * p, r - alpha * q
        new = pnp.sum(r * r)
        return x, r, r + new / rr * p, new

    return while_loop(going, step, (pnp.zeros_like(b), b, b, pnp.sum(b * b)))[0]


def normal_equations(matvec: Callable[[Any], Any], b: Any) -> Any:
    """Any operator, by conjugate gradients on A^T A x = A^T b."""

    def transposed(y: Any) -> Any:
        return pb.linear_transpose(matvec, b)(y)[0]

    return conjugate_gradients(lambda x: transposed(matvec(x)), transposed(b))


def general(a: Any, b: Any) -> Any:
    return pb.custom_linear_solve(lambda x: a @ x, b, normal_equations, normal_equations)


def symmetric(a: Any, b: Any) -> Any:
    return pb.custom_linear_solve(lambda x: (a @ x + a.T @ x) / 2.0, b, conjugate_gradients, symmetric=True)


SOLVERS = {"general": (general, A, lambda a: a), "symmetric": (symmetric, S, lambda a: (a + a.T) / 2)}


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit])
@pytest.mark.parametrize("which", SOLVERS)
def test_solution_and_first_derivatives(which: str, wrap: Any) -> None:
    solve, a, operator = SOLVERS[which]
    x = np.linalg.solve(a, B)
    np.testing.assert_allclose(wrap(solve)(a, B), x, rtol=1e-9)
    # b_bar = A^-T x_bar, A_bar = -b_bar x^T, dx = A^-1 (db - dA x)
    weights = np.arange(1.0, 5.0)
    a_bar, b_bar = wrap(pb.grad(lambda a, b: pnp.sum(weights * solve(a, b)), (0, 1)))(a, B)
    expected = np.linalg.solve(a.T, weights)
    np.testing.assert_allclose(b_bar, expected, rtol=1e-8)
    np.testing.assert_allclose(a_bar, -operator(np.outer(expected, x)), rtol=1e-8, atol=1e-10)
    da, db = RNG.normal(size=(4, 4)), RNG.normal(size=4)
    _, dx = wrap(lambda *args: pb.jvp(solve, args[:2], args[2:]))(a, B, da, db)
    np.testing.assert_allclose(dx, np.linalg.solve(a, db - operator(da) @ x), rtol=1e-8)


@pytest.mark.parametrize("which", SOLVERS)
def test_second_derivatives(which: str) -> None:
    solve, a, _ = SOLVERS[which]
    check_gradients(lambda s, b: solve(a * s + pnp.eye(4, dtype="float64"), pnp.sin(b)), (1.0, B), order=2)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("which", SOLVERS)
def test_vmap(which: str, axes: Any) -> None:
    solve, a, _ = SOLVERS[which]
    given = [np.stack([x, 1.5 * x, x + 0.1 * np.eye(4)[0]]) if axis == 0 else x for x, axis in zip((a, B), axes)]
    f = pb.vmap(lambda a, b: (solve(a, b), pb.grad(lambda b: pnp.sum(solve(a, b) ** 2))(b)), in_axes=axes)
    for found in (f(*given), pb.jit(f)(*given)):
        for i in range(3):
            one = [x[i] if axis == 0 else x for x, axis in zip(given, axes)]
            m = one[0] if which == "general" else (one[0] + one[0].T) / 2
            x = np.linalg.solve(m, one[1])
            np.testing.assert_allclose(found[0][i], x, rtol=1e-8)
            np.testing.assert_allclose(found[1][i], np.linalg.solve(m.T, 2 * x), rtol=1e-7)


def test_gradient_of_vmap() -> None:
    batch = np.stack([B, 2 * B, -B])
    found = pb.grad(lambda a: pnp.sum(pb.vmap(lambda b: general(a, b))(batch) ** 2))(A)
    expected = sum(pb.grad(lambda a: pnp.sum(general(a, b) ** 2))(A) for b in batch)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_trees_and_auxiliary_data() -> None:
    d = {"u": np.array([2.0, 4.0]), "v": np.float64(5.0)}
    b = {"u": np.array([1.0, 2.0]), "v": np.float64(3.0)}

    def matvec(x: Any, d: Any) -> Any:
        return pb.tree.map(lambda p, q: p * q, d, x)

    def solve(d: Any, b: Any) -> Any:
        def divide(matvec: Any, b: Any) -> Any:
            ones = pb.tree.map(pnp.ones_like, b)
            return pb.tree.map(lambda p, q: p / q, b, matvec(ones)), {"steps": 1}

        return pb.custom_linear_solve(lambda x: matvec(x, d), b, divide, symmetric=True, has_aux=True)

    x, aux = solve(d, b)
    np.testing.assert_allclose(x["u"], [0.5, 0.5])
    assert int(aux["steps"]) == 1
    slopes = pb.grad(lambda d: pnp.sum(solve(d, b)[0]["u"]) + solve(d, b)[0]["v"])(d)
    np.testing.assert_allclose(slopes["v"], -3.0 / 25.0)
    np.testing.assert_allclose(slopes["u"], [-0.25, -0.125])


def test_the_solver_is_not_differentiated() -> None:
    """A solver in NumPy, which has no derivative, is as good as any."""

    def dense(matvec: Any, b: Any) -> Any:
        matrix = pb.vmap(matvec, out_axes=1)(pnp.eye(4, dtype="float64"))
        return pb.pure_callback(lambda a, b: np.linalg.solve(a, b), pb.ArrayType((4,), "float64"), matrix, b)

    f = lambda a: pnp.sum(pb.custom_linear_solve(lambda x: a @ x, B, dense, dense) ** 2)  # noqa: E731
    expected = pb.grad(lambda a: pnp.sum(general(a, B) ** 2))(A)
    np.testing.assert_allclose(pb.grad(f)(A), expected, rtol=1e-7)
    np.testing.assert_allclose(pb.jit(pb.grad(f))(A), expected, rtol=1e-7)


def test_mistakes_of_linear_solves() -> None:
    with pytest.raises(pb.errors.GradientError, match="pass transpose_solve"):
        pb.grad(lambda b: pnp.sum(pb.custom_linear_solve(lambda x: A @ x, b, normal_equations)))(B)
    with pytest.raises(pb.errors.ShapeError, match=r"The result of .* output is f64\[2\] where b has f64\[4\]"):
        pb.custom_linear_solve(lambda x: A[:2] @ x, B, normal_equations)
    with pytest.raises(
        pb.errors.StructureError, match=r"solve returns must be a tree like .* output is a tuple where .* a leaf"
    ):
        pb.custom_linear_solve(lambda x: A @ x, B, lambda matvec, b: (b, b))
    with pytest.raises(pb.errors.StructureError, match="must return a pair"):
        pb.custom_linear_solve(lambda x: A @ x, B, normal_equations, has_aux=True)
    with pytest.raises(pb.errors.GradientError):
        pb.custom_linear_solve(lambda x: x * x, B, normal_equations)
    with pytest.raises(TypeError, match="takes a function"):
        pb.custom_linear_solve(A, B, normal_equations)


# ---- roots ----------------------------------------------------------------------------------------------------------------


def newton(f: Callable[[Any], Any], x: Any) -> Any:
    return while_loop(lambda x: abs(f(x)) > 1e-13, lambda x: x - f(x) / pb.grad(f)(x), x)


def by_division(g: Callable[[Any], Any], y: Any) -> Any:
    return y / g(1.0)


def cube_root(a: Any) -> Any:
    return pb.custom_root(lambda x: x**3 - a, 1.0, newton, by_division)


@pytest.mark.parametrize(
    ("dtype", "guess"),
    [
        *[(dtype, guess) for dtype in ("float32", "float64") for guess in (1, 1.0)],
        ("float32", np.float32(1)),
        ("float64", np.ones(())),
    ],
)
def test_python_numbers_take_the_dtype_of_the_equation(dtype: str, guess: Any) -> None:
    a = np.asarray(3.0, dtype)
    root = pb.custom_root(lambda x: x * a - 6.0, guess, lambda f, x: x - f(x) / 3.0, by_division)
    assert root.dtype == dtype and abs(float(root) - 2.0) < 1e-6
    assert pb.custom_linear_solve(lambda x: x * a, 6, lambda f, b: b / f(1.0), symmetric=True).dtype == dtype


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit])
def test_a_number(wrap: Any) -> None:
    a = np.float64(2.0)
    np.testing.assert_allclose(wrap(cube_root)(a), 2 ** (1 / 3), rtol=1e-12)
    np.testing.assert_allclose(wrap(pb.grad(cube_root))(a), 2 ** (-2 / 3) / 3, rtol=1e-10)
    np.testing.assert_allclose(wrap(pb.grad(pb.grad(cube_root)))(a), -2 / 9 * 2 ** (-5 / 3), rtol=1e-10)
    np.testing.assert_allclose(wrap(lambda a: pb.jvp(cube_root, (a,), (a,))[1])(a), 2 ** (1 / 3) / 3, rtol=1e-10)
    batch = np.array([1.0, 8.0, 27.0])
    np.testing.assert_allclose(wrap(pb.vmap(cube_root))(batch), [1, 2, 3], rtol=1e-12)
    np.testing.assert_allclose(wrap(pb.vmap(pb.grad(cube_root)))(batch), [1 / 3, 1 / 12, 1 / 27], rtol=1e-10)
    np.testing.assert_allclose(
        wrap(pb.grad(lambda a: pnp.sum(pb.vmap(cube_root)(a))))(batch), [1 / 3, 1 / 12, 1 / 27], rtol=1e-10
    )


def system(theta: Any) -> Any:
    """The solution of a nonlinear system, by fixed-point iteration; its linearization by the normal equations."""

    def residual(x: Any) -> Any:
        return x - 0.3 * pnp.tanh(theta @ x) - B

    def iterate(f: Any, x: Any) -> Any:
        return while_loop(lambda x: pnp.max(abs(f(x))) > 1e-14, lambda x: x - f(x), x)

    def linear(g: Any, y: Any) -> Any:
        return pb.custom_linear_solve(g, y, normal_equations, normal_equations)

    return pb.custom_root(residual, B, iterate, linear)


def test_a_system() -> None:
    theta = A / 8
    x = np.asarray(system(theta))
    np.testing.assert_allclose(x - 0.3 * np.tanh(theta @ x) - B, 0.0, atol=1e-13)
    slope = 0.3 * (1 - np.tanh(theta @ x) ** 2)
    jacobian = np.eye(4) - slope[:, None] * theta
    adjoint = np.linalg.solve(jacobian.T, np.ones(4))
    expected = np.outer(adjoint * slope, x)
    f = lambda t: pnp.sum(system(t))  # noqa: E731
    np.testing.assert_allclose(pb.grad(f)(theta), expected, rtol=1e-8)
    np.testing.assert_allclose(pb.jit(pb.grad(f))(theta), expected, rtol=1e-8)
    np.testing.assert_allclose(pb.grad(pb.jit(f))(theta), expected, rtol=1e-8)
    check_gradients(lambda s: system(s * theta), (1.0,), order=2)


def test_the_fixed_point_recipe() -> None:
    """x = g(x, a) as a root of g(x, a) - x: the derivative is that of the equation, not of the iterations."""

    def fixed_point(g: Any, x: Any) -> Any:
        def iterate(f: Any, x: Any) -> Any:
            return while_loop(lambda x: abs(f(x)) > 1e-14, lambda x: x + f(x), x)

        return pb.custom_root(lambda x: g(x) - x, x, iterate, by_division)

    f = lambda a: fixed_point(lambda x: pnp.cos(a * x), np.float64(0.5))  # noqa: E731
    x = float(f(np.float64(1.0)))
    np.testing.assert_allclose(np.cos(x), x, rtol=1e-12)
    np.testing.assert_allclose(pb.grad(f)(np.float64(1.0)), -x * np.sin(x) / (1 + np.sin(x)), rtol=1e-9)


def test_auxiliary_data_and_trees_of_roots() -> None:
    def solve(f: Any, x: Any) -> Any:
        return {"y": newton(lambda y: f({"y": y})["y"], x["y"])}, 7

    def f(a: Any) -> Any:
        root, aux = pb.custom_root(
            lambda x: {"y": x["y"] ** 2 - a},
            {"y": np.float64(1.0)},
            solve,
            lambda g, y: {"y": y["y"] / g({"y": 1.0})["y"]},
            True,
        )
        return root["y"], aux

    root, aux = f(np.float64(2.0))
    np.testing.assert_allclose(root, np.sqrt(2.0))
    assert int(aux) == 7
    slope, aux = pb.grad(f, has_aux=True)(np.float64(2.0))
    np.testing.assert_allclose(slope, 0.5 / np.sqrt(2.0))


def test_values_that_do_not_depend_on_the_argument_have_no_derivative() -> None:
    constant = lambda a: pb.custom_root(lambda x: x * x - 2.0, a, newton, by_division)  # noqa: E731
    assert float(pb.grad(constant)(np.float64(1.0))) == 0.0


def test_mistakes_of_roots() -> None:
    with pytest.raises(
        pb.errors.StructureError, match=r"solve returns must be a tree like .* output is a tuple where .* a leaf"
    ):
        pb.custom_root(lambda x: x, 1.0, lambda f, x: (x, x), by_division)
    with pytest.raises(
        pb.errors.StructureError, match=r"tangent_solve returns must be a tree like .* output is a tuple where .* a leaf"
    ):
        pb.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: (y, y))
    with pytest.raises(TypeError, match="custom_root takes a function"):
        pb.custom_root(3.0, 1.0, newton, by_division)
