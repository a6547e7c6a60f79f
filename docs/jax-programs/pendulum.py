"""The friction of a pendulum, found from where it was: equinox, diffrax and optax."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Pendulum(eqx.Module):
    """The angle and its velocity, with a friction that is to be learnt."""

    log_friction: jax.Array
    gravity: float = eqx.field(static=True)

    def __call__(self, t, state, args):
        angle, velocity = state
        return velocity, -self.gravity * jnp.sin(angle) - jnp.exp(self.log_friction) * velocity


def swing(pendulum, times):
    """The angles at these times, by an adaptive Runge-Kutta method of order 5."""
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(pendulum),
        diffrax.Tsit5(),
        t0=times[0],
        t1=times[-1],
        dt0=0.01,
        y0=(jnp.asarray(2.0), jnp.asarray(0.0)),
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-5),
    )
    return solution.ys[0]


@eqx.filter_value_and_grad
def loss(pendulum, times, seen):
    return jnp.mean((swing(pendulum, times) - seen) ** 2)


@eqx.filter_jit
def step(pendulum, state, times, seen):
    value, gradient = loss(pendulum, times, seen)
    updates, state = optimizer.update(gradient, state)
    return eqx.apply_updates(pendulum, updates), state, value


optimizer = optax.adam(0.1)

if __name__ == "__main__":
    times = jnp.linspace(0.0, 5.0, 50)
    seen = swing(Pendulum(jnp.log(0.3), 9.81), times)
    pendulum = Pendulum(jnp.log(1.0), 9.81)
    state = optimizer.init(pendulum)
    for number in range(61):
        pendulum, state, value = step(pendulum, state, times, seen)
        if number % 20 == 0:
            print(f"step {number}: loss {value:.4f}, friction {jnp.exp(pendulum.log_friction):.4f}")
