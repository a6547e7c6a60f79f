"""Checks of functions of pytrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.functions import check_callable
from pullback.api.tangents import check_tuples
from pullback.core.array import Array, as_array
from pullback.core.brief import brief
from pullback.core.trees import flatten, unflatten
from pullback.testing import checks
from pullback.testing.values import Flat, random_like, wide


def check_gradients(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    rng: np.random.Generator | None = None,
) -> None:
    """Check the derivatives of `f` at `args`, up to an order, against finite differences and against each other.

    Floating-point and complex arguments are converted to double precision first, which finite differences need.

    Arguments:
        f: a function of arrays or pytrees of them, smooth near `args`.
        args: its positional arguments.
        order: how many derivatives of derivatives to check.
        modes: "fwd" checks jvp against finite differences of fourth order; "rev" checks that <w, J v> = <J^T w, v>, with J v
            from jvp, or, without "fwd", by finite differences. A function that has a vjp rule alone takes ("rev",).
        rng: where the random directions come from.

    Raises:
        CheckFailure: two of them disagree; the message shows both.

    Example:
        >>> import pullback as pb
        >>> pb.testing.check_gradients(lambda x: pb.lax.mul(x, x), (3.0,))
    """
    flat, leaves = _flat("check_gradients", f, args)
    if not isinstance(order, int) or isinstance(order, bool) or order < 1:
        raise ValueError(f"check_gradients takes an order of at least 1, but got {brief(order)}.")
    _check_modes("check_gradients", modes)
    arrays = [as_array(wide(leaf)) for leaf in leaves]
    _check_gradients(flat, arrays, order, modes, rng or np.random.default_rng(0), "f")


def _check_gradients(
    f: Flat, args: Sequence[Array], order: int, modes: Sequence[str], rng: np.random.Generator, claim: str
) -> None:
    flags = checks.active_arguments(args)
    if "fwd" in modes:
        checks.check_numerically(f, args, rng, claim)
        if order > 1:
            tangents = [random_like(rng, arg) for arg, flag in zip(args, flags) if flag]
            _check_gradients(checks.pushed(f, flags), [*args, *tangents], order - 1, modes, rng, f"jvp of {claim}")
    if "rev" in modes:
        checks.check_adjoint(f, args, rng, claim, numerically="fwd" not in modes)
        if order > 1:
            cotangents = checks.random_cotangents(f, args, rng)
            _check_gradients(checks.pulled(f, flags), [*args, *cotangents], order - 1, modes, rng, f"vjp of {claim}")


def _check_modes(what: str, modes: Sequence[str]) -> None:
    if not isinstance(modes, (tuple, list)) or not all(mode in ("fwd", "rev") for mode in modes):
        raise ValueError(f'{what} knows the modes "fwd" and "rev", but got {brief(modes)}.')


def check_transforms(
    f: Callable[..., Any],
    args: Sequence[Any],
    rng: np.random.Generator | None = None,
    modes: Sequence[str] = ("fwd", "rev"),
) -> None:
    """Check that `f` means the same under every transformation: compiled, batched, differentiated, and in combinations.

    Arguments:
        f: a function of arrays or pytrees of them.
        args: its positional arguments.
        rng: where random directions come from.
        modes: ("rev",) for a function that has a vjp rule alone: compiled and batched, its vjp is the same.

    Raises:
        CheckFailure: two computations of the same value disagree; the message shows both.

    Example:
        >>> import numpy as np, pullback as pb
        >>> pb.testing.check_transforms(lambda x: pb.lax.sin(x), (np.arange(3.0),))
    """
    flat, leaves = _flat("check_transforms", f, args)
    _check_modes("check_transforms", modes)
    arrays = [as_array(leaf) for leaf in leaves]
    rng = rng or np.random.default_rng(0)
    checks.check_staged(flat, arrays, "f")
    checks.check_batched(flat, arrays, "f")
    if not checks.differentiable(flat, arrays):
        return
    if "fwd" in modes:
        checks.check_adjoint(flat, arrays, rng, "f")
        checks.check_nested(flat, arrays, rng, "f", numerically=False)
    elif "rev" in modes:
        pull, given = checks.pulled(flat, checks.active_arguments(arrays)), checks.random_cotangents(flat, arrays, rng)
        checks.check_staged(pull, [*arrays, *given], "vjp of f")
        checks.check_batched(pull, [*arrays, *given], "vjp of f", most=1)


def _flat(what: str, f: Callable[..., Any], args: Sequence[Any]) -> tuple[Flat, list[Any]]:
    check_callable(f, what)
    check_tuples(what, args=args)
    leaves, structure = flatten(tuple(args))

    def flat(*values: Any) -> list[Any]:
        return flatten(f(*unflatten(structure, values)))[0]

    return flat, leaves
