"""Ordinary differential equations: odeint, by the Runge-Kutta method of Dormand and Prince with adaptive steps.

Sources:
- the method of order 5 with an embedded one of order 4: Dormand and Prince, A family of embedded Runge-Kutta formulae,
  J. Comp. Appl. Math. 6 (1980), 19-26; its interpolant of order 4, the first step, and the norm of the error: Hairer, Norsett
  and Wanner, Solving Ordinary Differential Equations I, 2nd ed. (1993), sections II.4 and II.6, and their code DOPRI5;
- the step-size controller: Gustafsson, Control theoretic techniques for stepsize selection in explicit Runge-Kutta methods,
  ACM Trans. Math. Software 17 (1991); Hairer and Wanner II (1996), section IV.2;
- the continuous adjoint: Pontryagin et al., The Mathematical Theory of Optimal Processes (1962); derived below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback import numpy as pnp
from pullback.api.custom import closure_convert, custom_vjp
from pullback.api.derivatives import jvp, vjp
from pullback.api.functions import returned_leaves
from pullback.api.loops import scan, while_loop
from pullback.core.array import Array
from pullback.core.brief import brief
from pullback.core.dtypes import is_inexact, kind
from pullback.core.errors import ShapeError
from pullback.core.source import api_boundary, describe
from pullback.core.tracing import type_of
from pullback.core.trees import TreeDef, check_like, kind_of, unflatten
from pullback.ops.stop_gradient import stop_gradient

# The tableau: slope i is f(y + h sum_j A[i][j] k_j, t + C[i] h); the last row of A gives the new value, of order 5.
C = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
A: tuple[tuple[float, ...], ...] = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
# The difference between the values of order 5 and 4, which estimates the error.
E = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
# The last coefficient of the interpolant (DOPRI5).
D = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)
# The controller: the factor of the step is SAFETY * error^-(1/5 - 3/4 BETA) * (error before)^BETA, within bounds.
SAFETY, BETA, LEAST, MOST = 0.9, 0.04, 0.2, 10.0
SOLVER_STEPS = 1024  # the bound on steps where the solver itself is differentiated and none is given

Dynamics = Callable[..., Any]  # (y, t, differentiable operands, others) -> dy/dt, on vectors


class Options(NamedTuple):
    """How accurately to solve: tolerances, the greatest number of steps from one time to the next, the longest step."""

    rtol: float
    atol: float
    mxstep: float
    hmax: float


class State(NamedTuple):
    """Where the solver is, and the interpolant over its last step."""

    y: Any
    slope: Any
    t: Any  # times here run forwards: they are multiplied by the direction
    step: Any
    error: Any  # of the last step that was accepted
    rejected: Any  # whether the last step was
    count: Any  # of steps since the last time that was asked for
    start: Any
    width: Any
    curve: tuple[Any, ...]


# ---- the solver -----------------------------------------------------------------------------------------------------------


def integrate(
    func: Dynamics, options: Options, y0: Any, t: Any, operands: Sequence[Any], others: Sequence[Any], through: bool = False
) -> Any:
    """The solution at the times `t`, which rise or fall, stacked; NaN from where it could not be continued.

    With `through`, reverse mode can differentiate the steps; their lengths count as constants.
    """
    direction = pnp.where(t[-1] < t[0], -1.0, 1.0).astype(t.dtype)
    times = direction * t
    fixed = stop_gradient if through else lambda x: x

    def slope_at(y: Any, s: Any) -> Any:
        return direction * func(y, direction * s, operands, others)

    def norm(error: Any, *values: Any) -> Any:
        size = abs(values[0]) if len(values) == 1 else pnp.maximum(*map(abs, values))
        return pnp.sqrt(pnp.sum(abs(error / (options.atol + options.rtol * size)) ** 2) / max(type_of(error).size, 1))

    def first_step(y: Any, slope: Any, s: Any) -> Any:
        d0, d1 = norm(y, y), norm(slope, y)
        h0 = pnp.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / pnp.where(d1 == 0, 1.0, d1))
        d2 = norm(slope_at(y + h0 * slope, s + h0) - slope, y) / h0
        most = pnp.maximum(d1, d2)
        h1 = pnp.where(most <= 1e-15, pnp.maximum(1e-6, h0 * 1e-3), (0.01 / pnp.where(most == 0, 1.0, most)) ** (1 / 5))
        return pnp.minimum(100 * h0, h1)

    def advance(state: State) -> State:
        h = pnp.minimum(pnp.minimum(state.step, options.hmax), fixed(times[-1] - state.t))  # never beyond the last time
        slopes, y = [state.slope], state.y
        for c, row in zip(C[1:], A[1:]):
            y = state.y + h * _combination(row, slopes)
            slopes.append(slope_at(y, state.t + c * h))
        error = fixed(norm(h * _combination(E, slopes), state.y, y))
        error = pnp.where(pnp.isnan(error), math.inf, error)
        accept = error <= 1.0
        factor = SAFETY * error ** (0.75 * BETA - 1 / 5) * pnp.where(accept, state.error**BETA, 1.0)
        factor = pnp.clip(factor, LEAST, pnp.where(accept & ~state.rejected, MOST, 1.0))
        rise = y - state.y
        lag = h * state.slope - rise
        curve = (state.y, rise, lag, rise - h * slopes[-1] - lag, h * _combination(D, slopes))

        def choose(new: Any, old: Any) -> Any:
            return pnp.where(accept, new, old)

        return State(
            choose(y, state.y),
            choose(slopes[-1], state.slope),
            choose(state.t + h, state.t),
            h * factor,
            choose(pnp.maximum(error, 1e-4), state.error),
            ~accept,
            state.count + 1,
            choose(state.t, state.start),
            choose(h, state.width),
            tuple([choose(new, old) for new, old in zip(curve, state.curve)]),
        )

    def going(state: State, target: Any) -> Any:
        more = (state.t < target) & (state.t + state.step > state.t)  # a step that is too short ends it
        return more if options.mxstep == math.inf else more & (state.count < options.mxstep)

    limit = int(SOLVER_STEPS if options.mxstep == math.inf else options.mxstep) if through else None

    def reach(state: State, target: Any) -> tuple[State, Any]:
        state = state._replace(count=pnp.zeros_like(state.count))
        state = while_loop(lambda state: going(state, target), advance, state, max_steps=limit)
        x = (target - state.start) / state.width
        c0, c1, c2, c3, c4 = state.curve
        y = c0 + x * (c1 + (1 - x) * (c2 + x * (c3 + (1 - x) * c4)))
        return state, pnp.where(state.t >= target, y, math.nan)

    slope = slope_at(y0, times[0])
    nothing, one = pnp.zeros_like(y0), pnp.ones_like(times[0])
    state = State(
        y0,
        slope,
        times[0],
        fixed(first_step(y0, slope, times[0])),
        0 * one + 1e-4,
        pnp.asarray(False),
        pnp.asarray(0),
        times[0],
        one,
        (y0, nothing, nothing, nothing, nothing),
    )
    _, ys = scan(reach, state, times[1:])
    return pnp.concatenate([y0[None], ys])


def _combination(weights: Sequence[float], slopes: Sequence[Any]) -> Any:
    terms = [weight * slope for weight, slope in zip(weights, slopes) if weight]
    return sum(terms[1:], terms[0])


# ---- its derivatives ------------------------------------------------------------------------------------------------------
#
# The solution at t_i moves with the times as y(t_i) = S_i + f_i dt_i, where the sensitivity S follows the linearized equation
# S' = (df/dy) S + (df/dargs) dargs  from  S(t_0) = dy_0 - f_0 dt_0.  Its adjoint runs backwards: with cotangents g_i of the
# results, the costate l jumps by g_i at t_i and follows  l' = -(df/dy)^T l  in between, while args_bar gathers the integral of
# (df/dargs)^T l;  then  y0_bar = l(t_0),  t_bar_i = g_i f_i,  and t_bar_0 = -l f_0 with l before its jump by g_0.


def _solve(func: Dynamics, options: Options, y0: Any, t: Any, operands: Sequence[Any], others: Sequence[Any]) -> Any:
    return integrate(func, options, y0, t, operands, others)


solve = custom_vjp(_solve, nondiff_argnums=(0, 1))


def _solve_forward(func: Dynamics, options: Options, y0: Any, t: Any, operands: Any, others: Any) -> tuple[Any, Any]:
    ys = solve(func, options, y0, t, operands, others)
    return ys, (ys, t, operands, others)


def _solve_backward(func: Dynamics, options: Options, residuals: Any, cotangent: Any) -> tuple[Any, ...]:
    ys, t, operands, others = residuals
    gathered = Packed([pnp.zeros_like(operand) for operand in operands])
    size = type_of(ys).shape[1]

    def dynamics(state: Any, s: Any, operands: Any, others: Any) -> Any:
        slope, pull = vjp(lambda y, operands: func(y, s, operands, others), state[:size], operands)
        costate, change = pull(-state[size : 2 * size])
        return pnp.concatenate([slope, costate, Packed(change).vector(state.dtype)])

    def interval(carry: Any, step: Any) -> Any:
        costate, total = carry
        y, late, early, g = step
        moved = pnp.real(pnp.sum(g * func(y, late, operands, others)))
        start = pnp.concatenate([y, costate + g, total])
        end = solve(dynamics, options, start, pnp.stack([late, early]), operands, others)[1]
        return (end[size : 2 * size], end[2 * size :]), moved

    start = pnp.zeros_like(ys[0]), gathered.vector(ys.dtype)
    (costate, total), moved = scan(interval, start, (ys[1:], t[1:], t[:-1], cotangent[1:]), reverse=True)
    first = -pnp.real(pnp.sum(costate * func(ys[0], t[0], operands, others)))
    t_bar = pnp.concatenate([first[None], moved]).astype(t.dtype)
    return costate + cotangent[0], t_bar, gathered.unpacked(total), None


solve.defvjp(_solve_forward, _solve_backward)


@solve.defjvp
def _solve_jvp(func: Dynamics, options: Options, primals: Any, tangents: Any) -> tuple[Any, Any]:
    y0, t, operands, others = primals
    y_dot, t_dot, operands_dot, _ = tangents
    size, count = type_of(y0).shape[0], len(operands)

    def dynamics(state: Any, s: Any, both: Any, others: Any) -> Any:
        given, moved = both[:count], both[count:]
        at = lambda y, operands: func(y, s, operands, others)  # noqa: E731
        return pnp.concatenate(jvp(at, (state[:size], given), (state[size:], moved)))

    start = pnp.concatenate([y0, y_dot - t_dot[0] * func(y0, t[0], operands, others)])
    both = solve(dynamics, options, start, t, [*operands, *operands_dot], others)
    ys = both[:, :size]
    slopes = scan(lambda _, at: (None, func(*at, operands, others)), None, (ys, t))[1]
    return ys, both[:, size:] + slopes * t_dot[:, None]


class Packed:
    """Arrays, and how to make one vector of them and arrays of such a vector."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays
        self.types = [type_of(array) for array in arrays]

    def vector(self, dtype: Any) -> Any:
        flat = [pnp.reshape(array, -1).astype(dtype) for array in self.arrays]
        return pnp.concatenate(flat) if flat else pnp.zeros(0, dtype)

    def unpacked(self, vector: Any) -> list[Any]:
        """The arrays of a vector; further axes of it come first in each."""
        found, start = [], 0
        lead = type_of(vector).shape[:-1]
        for type in self.types:
            part = pnp.reshape(vector[..., start : start + type.size], (*lead, *type.shape))
            start += type.size
            found.append((pnp.real(part) if kind(part.dtype) == "c" and kind(type.dtype) != "c" else part).astype(type.dtype))
        return found


# ---- what users call --------------------------------------------------------------------------------------------------------


@api_boundary
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
    adjoint: str = "continuous",
) -> Any:
    """The solution of dy/dt = func(y, t, *args) from y(t[0]) = y0, at all times t.

    Runge-Kutta steps of order 5 (Dormand and Prince) whose length follows an estimate of their error; between them an
    interpolant of order 4. Not for stiff equations. Computed in the dtype of `y0`: tolerances far below its precision cannot be
    met.

    Arguments:
        func: the derivative, a tree like y0. Derivatives reach what it closes over as well.
        y0: the value at t[0], a tree of floating-point or complex arrays.
        t: the times, rising or falling, one axis.
        args: trees of arrays for `func`.
        rtol, atol: a step's error in y may be atol + rtol * |y|, as a root mean square over all of y.
        mxstep: the greatest number of steps from one time to the next.
        hmax: the longest step.
        adjoint: how reverse mode works. "continuous" solves the adjoint equation backwards in time: memory does not grow with
            the number of steps, and the gradient is as accurate as the tolerances. "solver" differentiates the steps that were
            taken, with the checkpoints of `while_loop`: the gradient of the numbers that were returned, to the last digits; it
            needs a bound on their number, `mxstep`, 1024 by default; a small one compiles faster. Both have a forward mode.

    Returns:
        A tree like y0 with a new leading axis, along t. NaN from the time on that could not be reached: in more than mxstep
        steps, or because steps became too short for the precision of t, or values infinite.

    Raises:
        StructureError, ShapeError: what `func` returns is not like y0; or t has not one axis.
        ValueError: t, where it is known, neither rises nor falls throughout.

    Example:
        >>> import pullback as pb
        >>> def pendulum(state, t, damping):
        ...     angle, speed = state
        ...     return speed, -pb.numpy.sin(angle) - damping * speed
        >>> angle, speed = pb.odeint(pendulum, (1.0, 0.0), pb.numpy.asarray([0.0, 1.0, 2.0]), 0.1, rtol=1e-5, atol=1e-5)
        >>> pb.numpy.round(angle, 3)
        [ 1.     0.613 -0.23 ]:f32[3]:cpu(0)
        >>> times = pb.numpy.asarray([0.0, 2.0])
        >>> end = lambda damping: pb.odeint(pendulum, (1.0, 0.0), times, damping, rtol=1e-5, atol=1e-5)[0][-1]
        >>> round(float(pb.grad(end)(0.1)), 1)
        0.7

    Source: Dormand and Prince, J. Comp. Appl. Math. 6 (1980); Hairer, Norsett and Wanner, Solving ODEs I (1993).
    """
    if adjoint not in ("continuous", "solver"):
        raise ValueError(f"odeint's adjoint must be 'continuous' or 'solver', but got {brief(adjoint)}.")
    trees = kind_of(func)
    leaves, structure = trees.array_leaves(y0, lambda: "odeint's y0")
    leaves = [leaf if is_inexact(type_of(leaf).dtype) else pnp.asarray(leaf) * 1.0 for leaf in leaves]
    leaves = [pnp.asarray(leaf, type_of(leaf).dtype) for leaf in leaves]
    packed = Packed(leaves)
    dtype = pnp.result_type(*[type.dtype for type in packed.types]) if leaves else pnp.asarray(1.0).dtype
    times = pnp.asarray(t)
    if type_of(times).ndim != 1 or not type_of(times).size:
        raise ShapeError(f"odeint's t must be times along one axis, but is {type_of(times)}.")
    if isinstance(times, Array):
        _check_order(times.host)
    times = times.astype(pnp.zeros(0, dtype).real.dtype)
    operands, arguments = trees.array_leaves(args, lambda: "odeint's args")
    free = [is_inexact(type_of(operand).dtype) for operand in operands]
    wrapped = _on_vectors(func, packed, structure, arguments, free)
    given = [operand for operand, flag in zip(operands, free) if flag]
    others = [operand for operand, flag in zip(operands, free) if not flag]
    vector = packed.vector(dtype)
    converted, captured = closure_convert(wrapped, vector, times[0], given, others)
    count = len(given)

    def dynamics(y: Any, s: Any, operands: Any, others: Any) -> Any:
        return converted(y, s, list(operands[:count]), list(others), *operands[count:])

    options = Options(float(rtol), float(atol), float(mxstep), float(hmax))
    if adjoint == "solver":
        ys = integrate(dynamics, options, vector, times, [*given, *captured], others, through=True)
    else:
        ys = solve(dynamics, options, vector, times, [*given, *captured], others)
    return unflatten(structure, packed.unpacked(ys))


def _check_order(times: Any) -> None:
    rises = times[1:] >= times[:-1]
    if not (rises.all() or (times[1:] <= times[:-1]).all()):
        first = int(rises.argmin() if times[-1] >= times[0] else rises.argmax())
        raise ValueError(
            f"odeint's t must rise or fall throughout, but t[{first}] = {times[first]}, t[{first + 1}] = {times[first + 1]}"
            f" while it goes from {times[0]} to {times[-1]}. Sort it."
        )


def _on_vectors(
    func: Callable[..., Any], packed: Packed, structure: TreeDef, arguments: TreeDef, free: Sequence[bool]
) -> Callable[..., Any]:
    """A user's derivative as a function of vectors: (y, t, floating-point operands, others) -> dy/dt."""
    must = f"{describe(func)} must return a tree like y0"

    def wrapped(y: Any, t: Any, given: Sequence[Any], others: Sequence[Any]) -> Any:
        own, rest = iter(given), iter(others)
        args = unflatten(arguments, [next(own) if flag else next(rest) for flag in free])
        out, found = returned_leaves(func, func(unflatten(structure, packed.unpacked(y)), t, *args))
        types = [type_of(leaf) for leaf in out], packed.types
        check_like(found, structure, "output", "y0 has", lambda where: f"odeint: {must}, but {where}.", types, shapes_only=True)
        return Packed(out).vector(y.dtype)

    return wrapped
