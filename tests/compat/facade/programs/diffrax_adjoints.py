"""diffrax: Tsit5 with a PID controller, derivatives by every adjoint; a stiff equation, dense output, a stochastic equation."""

import json

import diffrax
import jax
import jax.numpy as jnp

y0 = jnp.array([1.0, 0.5])
results = {}


def field(t, y, mu):
    return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


def end(mu, y0, adjoint, solver=None):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5() if solver is None else solver,
        0.0,
        2.0,
        0.1,
        y0,
        args=mu,
        stepsize_controller=diffrax.PIDController(1e-5, 1e-5),
        adjoint=adjoint,
        saveat=diffrax.SaveAt(t1=True),
    )
    return solution.ys[0]


for name in ("RecursiveCheckpointAdjoint", "DirectAdjoint", "BacksolveAdjoint"):
    adjoint = getattr(diffrax, name)()
    results[name] = [
        end(0.5, y0, adjoint).tolist(),
        [round(float(g), 3) for g in jax.jit(jax.grad(lambda y, a=adjoint: end(0.5, y, a).sum()))(y0)],
        [round(float(g), 3) for g in jax.vmap(jax.grad(lambda mu, a=adjoint: end(mu, y0, a).sum()))(jnp.array([0.3, 0.5]))],
    ]
primal, tangent = jax.jvp(lambda mu: end(mu, y0, diffrax.ForwardMode()), (0.5,), (1.0,))
results["ForwardMode"] = [primal.tolist(), tangent.tolist()]
results["Kvaerno5"] = end(5.0, y0, diffrax.RecursiveCheckpointAdjoint(), diffrax.Kvaerno5()).round(3).tolist()
dense = diffrax.diffeqsolve(
    diffrax.ODETerm(field),
    diffrax.Dopri5(),
    0.0,
    2.0,
    0.1,
    y0,
    args=0.5,
    saveat=diffrax.SaveAt(dense=True, ts=jnp.linspace(0, 2, 5)),
)
results["dense"] = [dense.ys.tolist(), dense.evaluate(1.3).tolist(), float(dense.stats["num_steps"])]
path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=jax.random.key(0))
terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, args: -y), diffrax.ControlTerm(lambda t, y, args: 0.1 * y, path))
noisy = diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.05, jnp.array(1.0), saveat=diffrax.SaveAt(t1=True))
results["stochastic"] = noisy.ys.tolist()
print(json.dumps(results))
