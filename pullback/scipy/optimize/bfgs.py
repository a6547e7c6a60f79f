"""Minimization by the method of Broyden, Fletcher, Goldfarb and Shanno, with a line search for Wolfe's conditions.

Sources: Nocedal and Wright, Numerical Optimization, 2nd ed. (2006), algorithms 3.5, 3.6, 6.1 and 7.4, and equation 3.59; the
test of values that differ by rounding alone: Hager and Zhang, A new conjugate gradient method with guaranteed descent and an
efficient line search, SIAM J. Optim. 16 (2005), equation 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pullback import numpy as pnp
from pullback.api.derivatives import value_and_grad
from pullback.api.loops import scan, while_loop
from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.core.source import named_after
from pullback.numpy.promotion import at_user_line, refuse_complex, strong, to_inexact

_LIMITED = ("l-bfgs", "l-bfgs-experimental-do-not-rely-on-this")  # the second is JAX's name of it
DECREASE, CURVATURE = 1e-4, 0.9  # Wolfe's conditions: how much a step must gain, and how flat the function must be there


class OptimizeResults(NamedTuple):
    """What `minimize` returns.

    Arguments:
        x: the point that was found.
        success: whether the gradient there is small enough.
        status: 0 if it is; 1 if the iterations were used up; 3 if no step gained anything.
        fun: the value of the function.
        jac: its gradient.
        hess_inv: an estimate of the inverse of its Hessian; None of a method that has none.
        nfev, njev: how often the function and its gradient were computed.
        nit: the number of iterations.

    Example:
        >>> from pullback.scipy.optimize import minimize
        >>> found = minimize(lambda x: pnp.sum((x - 3.0) ** 2), pnp.zeros(2), method="BFGS")
        >>> found.x, bool(found.success)
        ([3. 3.]:f32[2]:cpu(0), True)
    """

    x: Array
    success: Array
    status: Array
    fun: Array
    jac: Array
    hess_inv: Array | None
    nfev: Array
    njev: Array
    nit: Array


def minimize(
    fun: Callable[..., Any],
    x0: ArrayLike,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A point where a function of a vector has a small gradient, found by going downhill.

    It may be compiled, batched, and differentiated in both modes with respect to what `fun` depends on; what is differentiated
    are the steps that were taken.

    Arguments:
        fun: the function, `fun(x, *args) -> 0-d real array`, differentiable.
        x0: where to start, an array of shape (n,), real; or complex, by the second method.
        args: a tuple of further arguments of the function.
        method: "BFGS"; or "L-BFGS", which keeps some last steps in place of a matrix, for large n.
        tol: the same as the option gtol.
        options: a dict of any of `gtol` (the norm of the gradient at which to stop, 1e-5), `norm` (which norm: inf), `maxiter`
            (the largest number of iterations, 200 n), and `line_search_maxiter` (the largest number of points that are tried
            in one of them, 30); of "L-BFGS" also `maxcor` (how many steps it keeps, 10). None is the usual value.

    Returns:
        `OptimizeResults`, a NamedTuple with fields x, success, status, fun, jac, hess_inv, nfev, njev and nit.

    Raises:
        LeafError: x0 is neither an array nor a number.
        ShapeError: x0 is not a vector.
        DtypeError: x0 is complex, and the method is "BFGS".
        TypeError: args is not a tuple.
        ValueError: an unknown method or option.

    Example:
        >>> from pullback.scipy.optimize import minimize
        >>> def rosenbrock(x):
        ...     return pnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
        >>> found = minimize(rosenbrock, np.array([-1.2, 1.0, 0.5]), method="BFGS", tol=1e-8)
        >>> pnp.round(found.x, 6)
        [1. 1. 1.]:f64[3]:cpu(0)

    Source: see the module.
    """
    if not isinstance(args, tuple):
        raise TypeError(f"minimize takes a tuple of further arguments, but args is {brief(args)}.{at_user_line()}")
    limited = method.lower() in _LIMITED
    if method.lower() != "bfgs" and not limited:
        raise ValueError(f"minimize takes method='BFGS' or 'L-BFGS', not {brief(method)}.{at_user_line()}")
    x = to_inexact(x0, "minimize")
    if not limited:
        refuse_complex("minimize", x)
    if x.ndim != 1:
        raise ShapeError(f"minimize takes a vector as x0, but got {x.type}; pb.flatten_util makes one.{at_user_line()}")
    chosen: dict[str, Any] = {
        "gtol": 1e-5 if tol is None else tol,
        "norm": np.inf,
        "maxiter": 200 * x.size,
        "line_search_maxiter": 30,
    }
    chosen |= {"maxcor": 10} if limited else {}
    unknown = set(options or {}) - set(chosen)
    if unknown:
        raise ValueError(f"minimize has options {', '.join(chosen)}, but not {', '.join(sorted(unknown))}.{at_user_line()}")
    chosen |= {name: value for name, value in (options or {}).items() if value is not None}
    memory = _last_steps(chosen.pop("maxcor")) if limited else _MATRIX
    if x.dtype.kind != "c":
        return _minimum(named_after(fun)(lambda x: fun(x, *args)), strong(x), memory, **chosen)
    joined = pnp.concatenate([x.real, x.imag])
    found = _minimum(named_after(fun)(lambda parts: fun(_complex(parts), *args)), joined, memory, **chosen)
    return found._replace(x=_complex(found.x), jac=pnp.conj(_complex(found.jac)))


def _complex(parts: Any) -> Any:
    """The complex vector whose real parts come first, and then the imaginary ones."""
    real, imaginary = pnp.split(parts, 2)
    return real + 1j * imaginary


class _Memory(NamedTuple):
    """What a method knows of the Hessian."""

    begin: Callable[[Any], Any]  # what is known at a point where to start
    direction: Callable[[Any, Any], Any]  # of what is known and a gradient: downhill
    learn: Callable[[Any, Any, Any, Any], Any]  # what is known after step s, which changed the gradient by y; whether the first
    inverse: Callable[[Any], Any]  # an estimate of the inverse


def _learn_matrix(inverse: Any, s: Any, y: Any, first: Any) -> Any:
    curved = s @ y > 0
    rho = 1 / pnp.where(curved, s @ y, 1.0)
    left = pnp.eye(s.size, dtype=s.dtype) - rho * pnp.outer(s, y)
    scale = s @ y / pnp.where(curved, y @ y, 1.0)  # where 1 is far above it, rounding would hide what is added
    known = pnp.where(first & (scale < math.sqrt(np.finfo(s.dtype).eps)), scale * inverse, inverse)
    return pnp.where(curved, left @ known @ left.T + rho * pnp.outer(s, s), inverse)


_MATRIX = _Memory(lambda x: pnp.eye(x.size, dtype=x.dtype), lambda H, g: -(H @ g), _learn_matrix, lambda H: H)


def _last_steps(count: int) -> _Memory:
    """The last steps s with the changes y of the gradient, and 1 / s @ y: zero where there was none yet."""

    def begin(x: Any) -> Any:
        none = pnp.zeros((count, x.size), x.dtype)
        return none, none, pnp.zeros(count, x.dtype)

    def direction(known: Any, gradient: Any) -> Any:
        def last_to_first(q: Any, pair: Any) -> Any:
            s, y, rho = pair
            share = rho * (s @ q)
            return q - share * y, share

        def first_to_last(r: Any, pair: Any) -> Any:
            s, y, rho, share = pair
            return r + (share - rho * (y @ r)) * s, None

        q, shares = scan(last_to_first, gradient, known, reverse=True)
        y, rho = known[1][-1], known[2][-1]
        scale = pnp.where(rho > 0, 1 / pnp.where(rho > 0, rho * (y @ y), 1.0), 1.0)
        return -scan(first_to_last, scale * q, (*known, shares))[0]

    def learn(known: Any, s: Any, y: Any, first: Any) -> Any:
        curved = s @ y > 0
        new = s, y, 1 / pnp.where(curved, s @ y, 1.0)
        return tuple([pnp.where(curved, pnp.concatenate([old[1:], one[None]]), old) for old, one in zip(known, new)])

    return _Memory(begin, direction, learn, lambda known: None)


class _Point(NamedTuple):
    """A point of a line: the step that leads to it, the value and the slope along the line there, and the gradient."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class _State(NamedTuple):
    x: Any
    value: Any
    gradient: Any
    known: Any  # of the Hessian
    before: Any  # the value one iteration ago
    converged: Any
    stuck: Any
    evaluations: Any
    iterations: Any


def _minimum(
    fun: Any, x: Any, memory: _Memory, gtol: Any, norm: Any, maxiter: int, line_search_maxiter: int
) -> OptimizeResults:
    def evaluate(x: Any) -> tuple[Any, Any]:
        value, gradient = value_and_grad(fun)(x)
        return value.astype(x.dtype), gradient

    def converged(gradient: Any) -> Any:
        size = pnp.max(abs(gradient), initial=0.0) if norm == math.inf else pnp.sum(abs(gradient) ** norm) ** (1 / norm)
        return size <= gtol

    def iterate(now: _State) -> _State:
        direction = memory.direction(now.known, now.gradient)
        slope = direction @ now.gradient
        start = _Point(pnp.zeros((), x.dtype), now.value, slope, now.gradient)
        first = pnp.minimum(1.0, 2.02 * (now.value - now.before) / slope)

        def along(step: Any) -> _Point:
            value, gradient = evaluate(now.x + step * direction)
            return _Point(step, value, gradient @ direction, gradient)

        found, count = _line_search(along, start, pnp.where(first > 0, first, 1.0), line_search_maxiter)
        s, y = pnp.where(found.step == 0, 0.0, found.step * direction), found.gradient - now.gradient
        stuck = pnp.all(now.x + s == now.x) & ~(now.before > now.value)  # even the full step, which `first` was then
        known = memory.learn(now.known, s, y, now.iterations == 0)
        counts = now.evaluations + count, now.iterations + 1
        return _State(now.x + s, found.value, found.gradient, known, now.value, converged(found.gradient), stuck, *counts)

    value, gradient = evaluate(x)
    before = value + pnp.sqrt(gradient @ gradient) / 2  # so that the first step is about 1 long, as SciPy's is
    zero = pnp.zeros((), "int32")
    state = _State(x, value, gradient, memory.begin(x), before, converged(gradient), zero != 0, zero + 1, zero)
    end = while_loop(lambda now: ~(now.converged | now.stuck), iterate, state, max_steps=maxiter)
    status = pnp.where(end.converged, 0, pnp.where(end.stuck, 3, 1))
    counts = end.evaluations, end.evaluations, end.iterations
    return OptimizeResults(end.x, end.converged, status, end.value, end.gradient, memory.inverse(end.known), *counts)


def _line_search(along: Callable[[Any], _Point], start: _Point, first: Any, maxiter: int) -> tuple[_Point, Any]:
    """A point of a line that satisfies Wolfe's conditions, or else the best one found; and how many points were tried.

    `low` is the best point so far; between it and `high`, infinitely far until there is one, lies a point as is wanted.
    """
    resolution = 8 * float(np.finfo(start.value.dtype).eps)

    def refine(search: tuple[Any, ...]) -> tuple[Any, ...]:
        low, high, step, _, count = search
        new = along(step)
        same = abs(new.value - start.value) <= resolution * abs(start.value)  # up to rounding: then slopes alone tell
        gained = (new.value <= start.value + DECREASE * step * start.slope) & (new.value < low.value)
        good = pnp.where(same, new.slope <= 0, gained)
        found = (good | same) & (abs(new.slope) <= -CURVATURE * start.slope)
        passed = new.slope * (high.step - low.step) >= 0
        high = _either(good | found, _either(passed, low, high), new)
        low = _either(good | found, new, low)
        return low, high, _between(low, high), found, count + 1

    far = _Point(*[pnp.full_like(each, math.inf) for each in start])
    search = (start, far, first.astype(start.step.dtype), pnp.zeros((), bool), pnp.zeros((), "int32"))
    best, _, _, _, count = while_loop(lambda search: ~search[3], refine, search, max_steps=maxiter)
    return best, count


def _either(condition: Any, one: _Point, other: _Point) -> _Point:
    return _Point(*[pnp.where(condition, x, y) for x, y in zip(one, other)])


def _between(low: _Point, high: _Point) -> Any:
    """The next step to try: twice as long while there is no `high`; else where the cubic polynomial through both points has its
    minimum, kept away from the ends."""
    known = pnp.isfinite(high.step)
    width = pnp.where(known, high.step - low.step, 1.0)
    value, slope = [pnp.where(known, each, 0.0) for each in (high.value, high.slope)]
    mean = low.slope + slope - 3 * (value - low.value) / width
    under = mean * mean - low.slope * slope
    root = pnp.sign(width) * pnp.sqrt(pnp.where(under > 0, under, 1.0))
    divisor = slope - low.slope + 2 * root
    share = 1 - (slope + root - mean) / pnp.where(divisor == 0, 1.0, divisor)
    sensible = (under > 0) & (share > 0.1) & (share < 0.9)  # false of NaN
    return pnp.where(known, low.step + width * pnp.where(sensible, share, 0.5), 2 * low.step)
