"""Transformations by their names, as users list them in text: `apply="grad,vmap"`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.compiled import jit
from pullback.api.derivatives import grad, jvp, value_and_grad
from pullback.api.functions import Function, check_callable
from pullback.api.jacobians import hessian, jacfwd, jacrev
from pullback.api.mapping import vmap
from pullback.core.lazy import lazy_module

difflib = lazy_module("difflib")


def pushing(function: Function) -> Function:
    """`jvp` as a function of the primals and then as many tangents, all by position."""

    def pushed(*args: Any) -> Any:
        half = len(args) // 2
        return jvp(function, args[:half], args[half:])

    return pushed


# Each by its name, from a function, `argnums` and `in_axes`.
TRANSFORMATIONS: dict[str, Callable[[Function, Any, Any], Function]] = {
    "grad": lambda function, argnums, in_axes: grad(function, argnums),
    "value_and_grad": lambda function, argnums, in_axes: value_and_grad(function, argnums),
    "vmap": lambda function, argnums, in_axes: vmap(function, in_axes),
    "jit": lambda function, argnums, in_axes: jit(function),
    "jvp": lambda function, argnums, in_axes: pushing(function),
    "jacfwd": lambda function, argnums, in_axes: jacfwd(function, argnums),
    "jacrev": lambda function, argnums, in_axes: jacrev(function, argnums),
    "hessian": lambda function, argnums, in_axes: hessian(function, argnums),
}


def transformation_names(apply: str | Sequence[str], what: str = "apply") -> list[str]:
    """The names in a list of transformations, each of them known.

    Arguments:
        apply: the names, separated by commas, or a sequence of them. what: how errors call it.

    Raises:
        ValueError: a name that is none of those.

    Example:
        >>> transformation_names("grad, vmap")
        ['grad', 'vmap']
    """
    given = apply.split(",") if isinstance(apply, str) else list(apply)
    if not all([isinstance(name, str) for name in given]):
        raise TypeError(f"{what} takes names of transformations, as in 'grad,vmap', but got {apply!r}.")
    names = [name.strip() for name in given if name.strip()]
    for name in names:
        if name not in TRANSFORMATIONS:
            near = difflib.get_close_matches(name, TRANSFORMATIONS, 1)
            cure = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(TRANSFORMATIONS)}."
            raise ValueError(f"{what}: {name!r} is no transformation. {cure}")
    return names


def applied(function: Function, apply: str | Sequence[str], argnums: Any = 0, in_axes: Any = 0) -> Function:
    """A function under transformations, the first one first: of `"grad,vmap"`, `vmap(grad(function))`.

    Arguments:
        function: a function of arrays and pytrees. apply: the names of transformations.
        argnums, in_axes: those of the derivatives, and of vmap.

    Raises:
        ValueError: a name that is no transformation's.

    Example:
        >>> import pullback as pb
        >>> applied(lambda x: x * x, "grad,vmap")(pb.numpy.array([1.0, 2.0]))
        [2. 4.]:f32[2]:cpu(0)
    """
    check_callable(function, "apply")
    for name in transformation_names(apply):
        function = TRANSFORMATIONS[name](function, argnums, in_axes)
    return function
