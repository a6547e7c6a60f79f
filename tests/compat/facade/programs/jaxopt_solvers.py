"""jaxopt: minimizers with and without constraints, and derivatives of solutions with respect to parameters."""

import json

import jax
import jax.numpy as jnp
import jaxopt
from jaxopt import projection

results = {}
key = jax.random.PRNGKey(0)
A = jax.random.normal(key, (40, 5))
truth = jnp.array([1.0, -2.0, 0.5, 0.0, 3.0])
b = A @ truth + 0.1 * jax.random.normal(jax.random.PRNGKey(1), (40,))


def ridge(w, penalty, A, b):
    return 0.5 * jnp.mean((A @ w - b) ** 2) + 0.5 * penalty * jnp.sum(w**2)


def numbers(array):
    return [round(value, 5) for value in jnp.asarray(array).ravel().tolist()]


zero = jnp.zeros(5)
for solver in (
    jaxopt.GradientDescent(ridge, maxiter=10, tol=1e-6),
    jaxopt.LBFGS(ridge, maxiter=100, tol=1e-6),
    jaxopt.BFGS(ridge, maxiter=100, tol=1e-6),
    jaxopt.NonlinearCG(ridge, maxiter=200, tol=1e-6),
    jaxopt.LBFGSB(ridge, maxiter=100, tol=1e-6),
):
    kwargs = {"bounds": (jnp.full(5, -1.5), jnp.full(5, 2.0))} if isinstance(solver, jaxopt.LBFGSB) else {}
    results[type(solver).__name__] = numbers(solver.run(zero, penalty=0.1, A=A, b=b, **kwargs).params)


def solution(penalty):
    return jaxopt.LBFGS(ridge, maxiter=200, tol=1e-7, implicit_diff=True).run(zero, penalty, A, b).params


results["derivative"] = numbers(jax.jacobian(solution)(0.1))
results["gradient"] = numbers(jax.grad(lambda penalty: jnp.sum(solution(penalty) ** 2))(0.1))

projected = jaxopt.ProjectedGradient(lambda w: ridge(w, 0.0, A, b), projection.projection_simplex, maxiter=300, tol=1e-6)
results["simplex"] = numbers(projected.run(jnp.full(5, 0.2)).params)
lasso = jaxopt.ProximalGradient(lambda w: ridge(w, 0.0, A, b), jaxopt.prox.prox_lasso, maxiter=300, tol=1e-6)
results["lasso"] = numbers(lasso.run(zero, hyperparams_prox=0.3).params)
results["box"] = numbers(projection.projection_box(jnp.arange(4.0), (1.0, 2.0)))
results["l1 ball"] = numbers(projection.projection_l1_ball(jnp.arange(4.0), 2.0))

root = jaxopt.Bisection(lambda x, a: x**3 - a, lower=0.0, upper=5.0, tol=1e-6)
results["root"] = numbers(root.run(a=2.0).params)
results["root's slope"] = numbers(jax.grad(lambda a: root.run(a=a).params)(2.0))
fixed = jaxopt.FixedPointIteration(lambda x, a: 0.5 * (x + a / x), maxiter=50, tol=1e-6)
results["fixed point"] = numbers(fixed.run(jnp.array(1.0), 3.0).params)
results["fixed point's slope"] = numbers(jax.grad(lambda a: fixed.run(jnp.array(1.0), a).params)(3.0))
anderson = jaxopt.AndersonAcceleration(lambda x: jnp.cos(x), maxiter=30, tol=1e-6)
results["anderson"] = numbers(anderson.run(jnp.array([0.5, 1.0])).params)
fit = jaxopt.LevenbergMarquardt(lambda p, t, y: p[0] * jnp.exp(-p[1] * t) - y, maxiter=50, tol=1e-6)
t = jnp.linspace(0.0, 2.0, 20)
results["fit"] = numbers(fit.run(jnp.array([1.0, 0.2]), t, 2.0 * jnp.exp(-1.5 * t)).params)
results["gauss newton"] = numbers(jaxopt.GaussNewton(lambda p: A @ p - b, maxiter=10).run(zero).params)
quadratic = jaxopt.OSQP(maxiter=2000, tol=1e-5)
Q, c = jnp.array([[2.0, 0.5], [0.5, 1.0]]), jnp.array([1.0, 1.0])
solved = quadratic.run(
    params_obj=(Q, c), params_eq=(jnp.array([[1.0, 1.0]]), jnp.array([1.0])), params_ineq=(-jnp.eye(2), jnp.zeros(2))
)
results["quadratic program"] = [round(value, 3) for value in solved.params.primal.tolist()]
print(json.dumps(results))
