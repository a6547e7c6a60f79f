"""jax.test_util: derivatives compared with differences, in one random direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.compat.jax.transformations import jvp, linearize, vjp
from pullback.compat.jax.tree_util import tree_leaves, tree_map, tree_structure
from pullback.core.dtypes import float0

Function = Callable[..., Any]

STEP = 1e-4
TOLERANCES = {"float32": 1e-2, "complex64": 1e-2, "float64": 1e-5, "complex128": 1e-5}  # of derivatives; others: 1e-1


def _direction(rng: np.random.RandomState, x: Any) -> Any:
    """Random numbers for the elements of an array; of float0, where there is no direction."""
    x = np.asarray(x)
    if x.dtype.kind in "biu":
        return np.zeros(x.shape, float0)
    made = rng.standard_normal(x.shape)
    if x.dtype.kind == "c":
        made = made + 1j * rng.standard_normal(x.shape)
    return np.asarray(made, x.dtype)


def _along(args: Any, tangents: Any, step: float) -> Any:
    def moved(x: Any, t: Any) -> Any:
        return x if t.dtype == float0 else (np.asarray(x) + np.asarray(step * t, t.dtype)).astype(t.dtype)

    return tree_map(moved, args, tangents)


def _slope(f: Function, args: Any, tangents: Any, eps: float) -> Any:
    """The difference quotient of a function in a direction."""

    def quotient(above: Any, below: Any) -> Any:
        above = np.asarray(above)
        if above.dtype.kind in "biu":
            return np.zeros(above.shape, float0)
        return ((above - np.asarray(below)) / eps).astype(above.dtype)

    return tree_map(quotient, f(*_along(args, tangents, eps / 2)), f(*_along(args, tangents, -eps / 2)))


def _check_close(found: Any, expected: Any, atol: Any, rtol: Any, what: str) -> None:
    if tree_structure(found) != tree_structure(expected):
        raise AssertionError(f"{what}: {tree_structure(found)} is not of the structure {tree_structure(expected)}.")
    for one, other in zip(tree_leaves(found), tree_leaves(expected)):
        one, other = np.asarray(one), np.asarray(other)
        if other.dtype == float0:
            continue
        tolerance = TOLERANCES.get(str(other.dtype), 1e-1)
        np.testing.assert_allclose(
            one, other, rtol=tolerance if rtol is None else rtol, atol=tolerance if atol is None else atol, err_msg=what
        )


def check_jvp(
    f: Function, f_jvp: Function, args: Sequence[Any], atol: Any = None, rtol: Any = None, eps: Any = None, err_msg: str = ""
) -> None:
    rng = np.random.RandomState(0)
    args = tuple(args)
    tangents = tree_map(lambda x: _direction(rng, x), args)
    primal, tangent = f_jvp(args, tangents)
    _check_close(primal, f(*args), atol, rtol, err_msg or "JVP primal")
    _check_close(tangent, _slope(f, args, tangents, eps or STEP), atol, rtol, err_msg or "JVP tangent")


def _inner(one: Any, other: Any) -> Any:
    total: Any = 0
    for x, y in zip(tree_leaves(one), tree_leaves(other)):
        x, y = np.asarray(x), np.asarray(y)
        if float0 not in (x.dtype, y.dtype):
            total = total + np.real(np.sum(np.multiply(x, y)))
    return total


def check_vjp(
    f: Function, f_vjp: Function, args: Sequence[Any], atol: Any = None, rtol: Any = None, eps: Any = None, err_msg: str = ""
) -> None:
    rng = np.random.RandomState(0)
    args = tuple(args)
    primal, pull = f_vjp(*args)
    _check_close(primal, f(*args), atol, rtol, err_msg or "VJP primal")
    tangents = tree_map(lambda x: _direction(rng, x), args)
    slope = _slope(f, args, tangents, eps or STEP)
    cotangent = tree_map(lambda x: _direction(rng, x), primal)
    found = np.asarray(_inner(tangents, pull(cotangent)))
    expected = np.asarray(_inner(slope, cotangent))
    _check_close(found.astype(expected.dtype), expected, atol, rtol, err_msg or "VJP cotangent projection")


def check_grads(
    f: Function,
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Any = None,
    rtol: Any = None,
    eps: Any = None,
) -> None:
    """Check jvp ("fwd"), vjp ("rev") and linearize ("lin") of a function, and of its derivatives below an order."""

    def forward(f: Function) -> Function:
        return lambda primals, tangents: jvp(f, primals, tangents)

    def linearized(f: Function) -> Function:
        def of(primals: Any, tangents: Any) -> Any:
            out, push = linearize(f, *primals)
            return out, push(*tangents)

        return of

    def pulled_back(f: Function) -> Function:
        def of(*args: Any) -> Any:
            out, pull = vjp(f, *args)
            return pull(out)

        return of

    def check(f: Function, args: tuple[Any, ...], order: int, name: str) -> None:
        options = {"atol": atol, "rtol": rtol, "eps": eps}
        for mode, kind, made in (("fwd", "JVP", forward(f)), ("lin", "LIN", linearized(f))):
            if mode in modes:
                check_jvp(f, made, args, **options, err_msg=f"{kind}{name}")
                if order > 1:
                    check(made, (args, args), order - 1, f" of {kind}{name}")
        if "rev" in modes:
            check_vjp(f, lambda *args: vjp(f, *args), args, **options, err_msg=f"VJP{name}")
            if order > 1:
                check(pulled_back(f), args, order - 1, f" of VJP{name}")

    check(f, tuple(args), order, "")
