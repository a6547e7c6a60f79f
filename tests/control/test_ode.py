"""odeint: against closed forms and SciPy, in both modes, by both adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import pullback as pb
import pullback.numpy as pnp
from pullback.ode import odeint

T = np.linspace(0.0, 2.0, 5)
ADJOINTS = ["continuous", "solver"]


def decay(y: Any, t: Any, a: Any) -> Any:
    return -a * y


def pendulum(y: Any, t: Any, damping: Any, drive: Any) -> Any:
    return pnp.stack([y[1], -pnp.sin(y[0]) - damping * y[1] + drive * pnp.cos(2.0 * t)])


def pendulum_numpy(t: Any, y: Any, damping: Any, drive: Any) -> Any:
    return [y[1], -np.sin(y[0]) - damping * y[1] + drive * np.cos(2.0 * t)]


Y0 = np.array([1.0, 0.5])
ARGS = (np.float64(0.1), np.float64(0.7))


def accurately(y0: Any = Y0, t: Any = T, args: Any = ARGS) -> Any:
    found = solve_ivp(pendulum_numpy, (t[0], t[-1]), y0, method="DOP853", t_eval=t, args=args, rtol=1e-12, atol=1e-12)
    return found.y.T


# ---- solutions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [T, T[::-1], T + 3.0, np.array([0.0, 2.0]), np.array([0.0])], ids=str)
def test_a_pendulum_against_scipy(times: Any) -> None:
    expected = accurately(t=times) if len(times) > 1 else Y0[None]
    found = pb.odeint(pendulum, Y0, times, *ARGS)
    assert found.shape == (len(times), 2) and found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(pb.jit(lambda y, t: pb.odeint(pendulum, y, t, *ARGS))(Y0, times), found, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-8, 1e-10])
def test_the_error_follows_the_tolerance(tolerance: float) -> None:
    t = np.linspace(0, 10, 41)
    found = np.asarray(pb.odeint(pendulum, Y0, t, *ARGS, rtol=tolerance, atol=tolerance))
    error = np.abs(found - accurately(t=t)).max()
    assert 0.001 * tolerance < error < 200 * tolerance


def steps(tolerance: float) -> int:
    """How often the right-hand side is evaluated."""
    calls = []

    def f(y: Any, t: Any) -> Any:
        pb.debug.callback(lambda _: calls.append(0), t)
        return pendulum(y, t, *ARGS)

    pb.odeint(f, Y0, np.array([0.0, 4.0]), rtol=tolerance, atol=tolerance)
    return len(calls)


def test_the_work_is_that_of_a_method_of_order_5() -> None:
    """The step is proportional to tolerance^(1/5); and the work is no more than SciPy's, whose method is the same."""
    few, many = steps(1e-5), steps(1e-10)
    assert 5.0 < many / few < 20.0
    own = solve_ivp(pendulum_numpy, (0, 4), Y0, method="RK45", args=ARGS, rtol=1e-10, atol=1e-10)
    assert many < 1.2 * own.nfev


def test_trees_dtypes_and_integer_arguments() -> None:
    def f(state: Any, t: Any, spec: Any) -> Any:
        return {"a": spec["n"] * state["b"], "b": (-state["a"].reshape(2, 1) * np.float32(2.0)).reshape(2)}

    y0 = {"a": np.array([1.0, 0.0], np.float32), "b": np.zeros(2, np.float32)}
    found = pb.odeint(f, y0, [0, 1], {"n": 2})
    assert {leaf.dtype.name for leaf in pb.tree.leaves(found)} == {"float32"}
    np.testing.assert_allclose(found["a"][1], [np.cos(2.0), 0.0], atol=1e-5)
    np.testing.assert_allclose(found["b"][1], [-np.sin(2.0), 0.0], atol=1e-5)
    assert pb.odeint(decay, 1, [0.0, 1.0], 1.0).dtype == np.float32


def test_complex_values() -> None:
    found = pb.odeint(lambda y, t: 1j * y, np.complex128(1.0), T)
    np.testing.assert_allclose(found, np.exp(1j * T), rtol=1e-6)


def test_vmap() -> None:
    rates = np.array([0.5, 1.0, 4.0])
    f = lambda a: pb.odeint(decay, np.float64(1.0), T, a)  # noqa: E731
    np.testing.assert_allclose(pb.jit(pb.vmap(f))(rates), np.exp(-rates[:, None] * T), rtol=1e-6, atol=1e-8)
    slopes = pb.jit(pb.vmap(pb.grad(lambda a: f(a)[-1])))(rates)
    np.testing.assert_allclose(slopes, -2 * np.exp(-2 * rates), rtol=1e-5, atol=1e-7)


def test_what_cannot_be_reached_is_nan() -> None:
    blows_up = pb.odeint(lambda y, t: y * y, np.float64(1.0), np.array([0.0, 0.5, 1.5]))  # 1 / (1 - t)
    np.testing.assert_allclose(blows_up[:2], [1.0, 2.0], rtol=1e-6)
    assert np.isnan(blows_up[2])
    few = pb.odeint(pendulum, Y0, np.array([0.0, 0.01, 50.0]), *ARGS, mxstep=10)
    assert np.isfinite(np.asarray(few[:2])).all() and np.isnan(np.asarray(few[2])).all()
    nan = pb.odeint(lambda y, t: y * np.nan, np.float64(1.0), np.array([0.0, 1.0]))
    assert float(nan[0]) == 1.0 and np.isnan(nan[1])


def test_steps_are_no_longer_than_hmax_and_do_not_pass_the_end() -> None:
    seen: list[float] = []

    def f(y: Any, t: Any) -> Any:
        pb.debug.callback(lambda t: seen.append(float(t)), t)
        return 0.0 * y

    pb.odeint(f, np.float64(1.0), np.array([0.0, 1.0]), hmax=0.125)
    assert max(seen) <= 1.0 and len([t for t in seen if t > 0.0]) >= 6 * 8
    seen.clear()
    pb.odeint(f, np.float64(1.0), np.array([0.0, 1.0]))
    assert max(seen) <= 1.0 + 1e-12 and len(seen) < 100


# ---- derivatives ------------------------------------------------------------------------------------------------------------


def differences(f: Any, x: Any, step: float = 1e-4) -> Any:
    """The gradient by central differences of SciPy's solution."""
    x = np.asarray(x, float)
    found = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        moved = np.zeros_like(x)
        moved[index] = step
        found[index] = (f(x + moved) - f(x - moved)) / (2 * step)
    return found


WEIGHTS = np.random.default_rng(0).normal(size=(5, 2))


@pytest.fixture(scope="module")
def expected() -> Any:
    return (
        differences(lambda y: np.sum(WEIGHTS * accurately(y)), Y0),
        differences(lambda t: np.sum(WEIGHTS * accurately(t=t)), T),
        differences(lambda a: np.sum(WEIGHTS * accurately(args=tuple(a))), np.array(ARGS)),
    )


@pytest.mark.parametrize("adjoint", ADJOINTS)
def test_gradients_by_everything(adjoint: str, expected: Any) -> None:
    def loss(y0: Any, t: Any, args: Any) -> Any:
        options = {"rtol": 1e-8, "atol": 1e-8, "mxstep": 32, "adjoint": adjoint}
        return pnp.sum(WEIGHTS * pb.odeint(pendulum, y0, t, args[0], args[1], **options))

    found = pb.jit(pb.grad(loss, (0, 1, 2)))(Y0, T, np.array(ARGS))
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


def test_forward_mode_agrees_with_both_reverse_modes(expected: Any) -> None:
    directions = (np.array([0.3, -1.0]), np.linspace(-1, 1, 5), np.array([0.5, 2.0]))
    slope = sum(np.sum(one * other) for one, other in zip(expected, directions))
    f = lambda y0, t, args: pnp.sum(WEIGHTS * pb.odeint(pendulum, y0, t, args[0], args[1]))  # noqa: E731
    value, found = pb.jit(lambda *v: pb.jvp(f, (Y0, T, np.array(ARGS)), v))(*directions)
    np.testing.assert_allclose(value, np.sum(WEIGHTS * accurately()), rtol=1e-6)
    np.testing.assert_allclose(found, slope, rtol=1e-5)


M = np.array([[-0.2, 1.0], [-1.0, -0.2]])


@pytest.mark.parametrize("adjoint", ADJOINTS)
def test_a_linear_system_in_closed_form(adjoint: str) -> None:
    options = {"rtol": 1e-7, "atol": 1e-7, "mxstep": 32, "adjoint": adjoint}
    f = lambda y0: pb.odeint(lambda y, t: M @ y, y0, np.array([0.0, 1.5]), **options)[-1]  # noqa: E731
    np.testing.assert_allclose(pb.jacrev(f)(Y0), expm(1.5 * M), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(pb.jacfwd(f)(Y0), expm(1.5 * M), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("adjoint", ADJOINTS)
def test_what_the_dynamics_close_over_is_differentiated_by(adjoint: str) -> None:
    def end(a: Any) -> Any:
        times, options = np.array([0.0, 2.0]), {"rtol": 1e-6, "atol": 1e-6, "mxstep": 32, "adjoint": adjoint}
        return pb.odeint(lambda y, t: -a * y, np.float64(1.0), times, **options)[-1]

    np.testing.assert_allclose(pb.grad(end)(np.float64(0.7)), -2 * np.exp(-1.4), rtol=1e-4)


def test_second_derivatives() -> None:
    def end(a: Any) -> Any:
        return pb.odeint(decay, np.float64(1.0), np.array([0.0, 2.0]), a, rtol=1e-9, atol=1e-9)[-1]

    a = np.float64(0.7)
    for second in (pb.grad(pb.grad(end)), lambda a: pb.jvp(pb.grad(end), (a,), (np.float64(1.0),))[1]):
        np.testing.assert_allclose(second(a), 4 * np.exp(-1.4), rtol=1e-5)


def test_the_solvers_own_gradient_is_exact_at_loose_tolerances() -> None:
    """It is that of the returned numbers, which a difference of them confirms where the steps are the same."""

    def end(y0: Any, adjoint: str = "solver") -> Any:
        return pb.odeint(lambda y, t: -(y**3), y0, np.array([0.0, 3.0]), rtol=1e-2, atol=1e-2, mxstep=20, adjoint=adjoint)[-1]

    y0 = np.float64(1.0)
    exact = (1 + 2 * 3.0) ** -1.5
    by_solver, by_adjoint = float(pb.grad(end)(y0)), float(pb.grad(lambda y: end(y, "continuous"))(y0))
    assert abs(by_solver - exact) < 0.02 and abs(by_adjoint - exact) < 0.05
    np.testing.assert_allclose(by_solver, pb.jvp(end, (y0,), (np.float64(1.0),))[1], rtol=1e-12)


def test_fitting_a_parameter() -> None:
    """A real program: the damping of a pendulum from its path, by gradient descent through the solver."""
    path = accurately(args=(0.3, 0.7))

    @pb.jit
    def descend(damping: Any) -> Any:
        def loss(damping: Any) -> Any:
            return pnp.sum((pb.odeint(pendulum, Y0, T, damping, ARGS[1], rtol=1e-6, atol=1e-6) - path) ** 2)

        return damping - 0.2 * pb.grad(loss)(damping)

    damping = np.float64(0.0)
    for _ in range(40):
        damping = descend(damping)
    np.testing.assert_allclose(damping, 0.3, atol=1e-4)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="adjoint must be 'continuous' or 'solver'"):
        pb.odeint(decay, 1.0, T, 1.0, adjoint="none")
    for times in ([0.0, 1.0, 0.5], [1.0, 0.5, 0.75, 0.0], [0.0, float("nan")]):
        with pytest.raises(ValueError, match=r"t must rise or fall throughout, but t\["):
            pb.jit(lambda y, times=times: pb.odeint(lambda y, t: -y, y, np.array(times)))(1.0)
    assert pb.odeint(lambda y, t: -y, 1.0, [0.0, 0.0, 0.0]).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(pb.errors.ShapeError, match="times along one axis"):
        pb.odeint(decay, 1.0, 2.0, 1.0)
    with pytest.raises(pb.errors.StructureError, match="must return a tree like y0"):
        pb.odeint(lambda y, t: (y, y), 1.0, T)
    with pytest.raises(pb.errors.ShapeError, match=r"output is f64\[1\] where y0 has f64\[2\]"):
        pb.odeint(lambda y, t: y[:1], Y0, T)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_jet_ends(order: int) -> None:
    """A rule that applies the function again, to more operands, is asked for one order fewer each time."""

    def end(a: Any) -> Any:
        return odeint(lambda y, t: -a * y, np.ones(1), np.array([0.0, 1.0]))[1, 0]

    value, series = pb.jet(end, (np.float64(1.0),), ([np.float64(1.0), *[np.float64(0.0)] * (order - 1)],))
    wanted = [(-1.0) ** k * np.exp(-1.0) for k in range(order + 1)]
    np.testing.assert_allclose([value, *series], wanted, rtol=1e-5)
