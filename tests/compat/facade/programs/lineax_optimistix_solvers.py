"""lineax and optimistix: linear solves by several methods, roots, minima, least squares and fixed points, with derivatives."""

import json

import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx

x = jnp.arange(3.0) + 1
A = jnp.array([[3.0, 1, 0], [1, 4, 1], [0, 1, 5]])
batch = jnp.stack([x, 2 * x])
results = {}


def solved(matrix, vector, solver=None, tags=()):
    operator = lx.MatrixLinearOperator(matrix, tags)
    return lx.linear_solve(operator, vector, lx.AutoLinearSolver(well_posed=True) if solver is None else solver).value


for name, solver, tags in (
    ("LU", None, ()),
    ("QR", lx.QR(), ()),
    ("Cholesky", lx.Cholesky(), lx.positive_semidefinite_tag),
    ("CG", lx.CG(1e-6, 1e-6), lx.positive_semidefinite_tag),
    ("GMRES", lx.GMRES(1e-6, 1e-6), ()),
):

    def total(matrix, vector, solver=solver, tags=tags):
        return (solved(matrix, vector, solver, tags) ** 2).sum()

    results[name] = [
        solved(A, x, solver, tags).tolist(),
        jax.jit(jax.grad(total, 1))(A, x).tolist(),
        jax.vmap(lambda b, s=solver, t=tags: solved(A, b, s, t))(batch).tolist(),
    ]
results["by the matrix"] = jax.jit(jax.grad(lambda m: solved(m, x).sum()))(A).tolist()
results["forward"] = jax.jit(jax.vmap(jax.jacfwd(solved, 1), (None, 0)))(A, batch).tolist()
wide = jnp.concatenate([A, jnp.ones((1, 3))])
results["least squares"] = lx.linear_solve(lx.MatrixLinearOperator(wide), jnp.arange(4.0), lx.QR()).value.tolist()
operator = lx.FunctionLinearOperator(lambda v: 2 * v + v[::-1], jax.eval_shape(lambda: x))
results["function"] = [operator.as_matrix().tolist(), operator.T.mv(x).tolist()]


def root(a):
    return optx.root_find(lambda y, args: y**2 - args, optx.Newton(1e-6, 1e-6), jnp.array(1.5), a).value


results["root"] = [float(root(2.0)), float(jax.grad(root)(2.0)), jax.jit(jax.vmap(root))(x).tolist()]


def minimum(a):
    return optx.minimise(lambda y, args: jnp.sum((y - args) ** 2 + y**4), optx.BFGS(1e-5, 1e-5), jnp.zeros(3), a).value


results["minimum"] = [value.round(3).tolist() for value in (minimum(x), jax.jit(jax.jacrev(minimum))(x))]
memory = optx.LBFGS(1e-5, 1e-5)  # keeps its Hessian as a function, whose consts each branch of a cond must have
results["minimum from few gradients"] = (
    optx.minimise(lambda y, args: jnp.sum((y - args) ** 2 + y**4), memory, jnp.zeros(3), x).value.round(3).tolist()
)
fitted = optx.least_squares(lambda y, a: y**2 - a, optx.LevenbergMarquardt(1e-6, 1e-6), jnp.ones(3), x).value
results["fit"] = fitted.tolist()
point = lambda a: optx.fixed_point(lambda y, a: jnp.cos(a * y), optx.FixedPointIteration(1e-6, 1e-6), jnp.array(1.0), a).value  # noqa: E731
results["fixed point"] = [float(point(0.8)), float(jax.grad(point)(0.8))]
print(json.dumps(results))
