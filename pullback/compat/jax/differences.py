"""jax.test_util: derivatives compared with finite differences, in one random direction, by the parts of pullback.testing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.compat.jax.transformations import jvp, linearize, vjp
from pullback.compat.jax.tree_util import tree_leaves
from pullback.compat.jax.trees import flatten
from pullback.core.array import as_array
from pullback.core.dtypes import float0, is_inexact
from pullback.testing.checks import differences
from pullback.testing.values import host, random_like, wide

Function = Callable[..., Any]

TOLERANCES = {"float32": 1e-2, "complex64": 1e-2, "float64": 1e-5, "complex128": 1e-5}  # of derivatives; others: 1e-1


def _directions(rng: np.random.Generator, leaves: Sequence[Any]) -> list[Any]:
    """A random direction for each array; of float0, where there is none."""
    return [random_like(rng, x) if is_inexact(x.dtype) else np.zeros(x.shape, float0) for x in map(as_array, leaves)]


def _active(leaves: Sequence[Any]) -> list[Any]:
    return [leaf for leaf in leaves if getattr(leaf, "dtype", None) != float0]


def _check_close(found: Any, expected: Any, atol: Any, rtol: Any, what: str) -> None:
    for one, other in zip(found, expected, strict=True):
        tolerance = TOLERANCES.get(host(one).dtype.name, 1e-1)
        np.testing.assert_allclose(
            wide(one), wide(other), tolerance if rtol is None else rtol, tolerance if atol is None else atol, err_msg=what
        )


class _Slope:
    """A function and its difference quotient in a random direction at a point."""

    def __init__(self, f: Function, args: Sequence[Any], eps: float | None) -> None:
        leaves, self.structure = flatten(tuple(args), None)
        self.rng = np.random.default_rng(0)
        self.tangents = _directions(self.rng, leaves)
        found = differences(
            lambda *xs: tree_leaves(f(*self.structure.unflatten(xs))), [*map(as_array, leaves)], _active(self.tangents), eps
        )
        self.values: Any = [value for value, _ in found]
        self.slopes: Any = [slope for _, slope in found]


def _inner(cotangents: Sequence[Any], tangents: Sequence[Any]) -> Any:
    return sum([np.sum(wide(x) * wide(y)).real for x, y in zip(cotangents, tangents, strict=True)])


def check_jvp(
    f: Function, f_jvp: Function, args: Sequence[Any], atol: Any = None, rtol: Any = None, eps: Any = None, err_msg: str = ""
) -> None:
    slope = _Slope(f, args, eps)
    primal, tangent = f_jvp(tuple(args), slope.structure.unflatten(slope.tangents))
    inexact = [x for x in tree_leaves(primal) if is_inexact(as_array(x).dtype)]
    _check_close(inexact, slope.values, atol, rtol, err_msg or "JVP primal")
    _check_close(_active(tree_leaves(tangent)), slope.slopes, atol, rtol, err_msg or "JVP tangent")


def check_vjp(
    f: Function, f_vjp: Function, args: Sequence[Any], atol: Any = None, rtol: Any = None, eps: Any = None, err_msg: str = ""
) -> None:
    slope = _Slope(f, args, eps)
    primal, pull = f_vjp(*args)
    leaves, structure = flatten(primal, None)
    cotangents = _directions(slope.rng, leaves)
    back = tree_leaves(pull(structure.unflatten(cotangents)))
    found = _inner(_active(back), _active(slope.tangents))
    first = host(_active(back)[0] if _active(back) else 0.0).real.dtype  # whose precision is expected of the sum
    expected = _inner(_active(cotangents), slope.slopes)
    _check_close([np.asarray(found, first)], [expected], atol, rtol, err_msg or "VJP cotangent projection")


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

    def pushed(primals: Any, tangents: Any) -> Any:
        return jvp(f, primals, tangents)

    def linearized(primals: Any, tangents: Any) -> Any:
        out, push = linearize(f, *primals)
        return out, push(*tangents)

    def pulled(*args: Any) -> Any:
        out, pull = vjp(f, *args)
        return pull(out)

    args = tuple(args)
    options = {"atol": atol, "rtol": rtol, "eps": eps}
    for mode, derivative in (("fwd", pushed), ("lin", linearized)):
        if mode in modes:
            check_jvp(f, derivative, args, **options, err_msg=f"{mode} of {f}")
            if order > 1:
                check_grads(derivative, (args, args), order - 1, modes, **options)
    if "rev" in modes:
        check_vjp(f, lambda *args: vjp(f, *args), args, **options, err_msg=f"rev of {f}")
        if order > 1:
            check_grads(pulled, args, order - 1, modes, **options)
