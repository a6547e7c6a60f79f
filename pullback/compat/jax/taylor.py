"""jax.experimental.jet and jax.experimental.ode: pullback's Taylor mode and solver, of JAX's trees."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback import numpy as pnp
from pullback.compat.jax.flatten_util import ravel_pytree
from pullback.compat.jax.trees import flatten, of_jax_trees
from pullback.core.dtypes import is_inexact, kind
from pullback.core.source import named_after
from pullback.core.tracing import type_of
from pullback.ops.gamma_functions import lgamma


class ZeroSeries:
    """A series that is known to be zero."""


zero_series = ZeroSeries()


def fact(n: Any) -> Any:
    """The factorial of n."""
    return pnp.exp(lgamma(n + pnp.asarray(1.0)))


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any], factorial_scaled: bool = True, **_: Any
) -> tuple[Any, Any]:
    """pullback.jet, whose terms are coefficients of Taylor polynomials if `factorial_scaled` is False. Those of integers and
    bools count for nothing."""
    orders = {len(terms) for terms in series}
    if len(orders) != 1:
        raise ValueError(f"jet takes as many terms for each argument, but got {sorted(orders)} of them.")
    for number, (primal, terms) in enumerate(zip(primals, series, strict=True)):
        for what, value in [
            ("primal value at position {}", primal),
            *((f"term {j} for argument {{}}", t) for j, t in enumerate(terms)),
        ]:
            if not _is_leaf(value):
                raise ValueError(f"{what.format(number)} is not an array")

    scales = [1 if factorial_scaled else math.factorial(k + 1) for k in range(orders.pop())]
    given = [
        [
            (term * scale if scale > 1 else term) if is_inexact(type_of(primal).dtype) else None
            for term, scale in zip(terms, scales)
        ]
        for primal, terms in zip(primals, series)
    ]
    out, found = pb.jet(of_jax_trees(fun), list(primals), given)
    structure = flatten(out, None)[1]
    shown = [
        [term / scale if scale > 1 else term for term, scale in zip(terms, scales)] for terms in structure.flatten_up_to(found)
    ]
    return out, structure.unflatten(shown)


def jet2(fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any], **options: Any) -> tuple[Any, Any]:
    """The same of coefficients."""
    return jet(fun, primals, series, factorial_scaled=False, **options)


def _is_leaf(value: Any) -> bool:
    leaves, structure = flatten(value, None)
    return len(leaves) == 1 and structure == flatten(0, None)[1]


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
) -> Any:
    """pullback.odeint, whose function may return another tree than `y0`, of as many numbers in the same order."""
    for leaf in flatten(args, None)[0]:
        if not isinstance(leaf, (pb.Array, pb.Tracer, np.ndarray, np.generic, int, float, complex)):
            raise TypeError(f"odeint hands *args to the function as arrays, but one is {leaf!r} of type {type(leaf).__name__}.")
    if kind(type_of(t).dtype) != "f":
        raise TypeError(f"odeint takes times t of a floating dtype, but got {t!r}.")

    @of_jax_trees
    @named_after(func)
    def like_y0(y: Any, time: Any, *operands: Any) -> Any:
        slope = func(y, time, *operands)
        if flatten(slope, None)[1] == flatten(y, None)[1]:
            return slope
        return ravel_pytree(y)[1](ravel_pytree(slope)[0])

    return pb.odeint(like_y0, y0, t, *args, rtol=rtol, atol=atol, mxstep=mxstep, hmax=hmax)
