"""The methods of NumPy's universal functions, as attributes of the functions of two numbers: `pnp.add.reduce`.

A function stays a function, so that calls of it cost nothing more; `numpy/ufuncs.py` is loaded when a method is first called.
"""

from __future__ import annotations

import functools
from typing import Any

from pullback.core.lazy import lazy_module
from pullback.core.source import api_boundary
from pullback.numpy import arithmetic, elementary, logic

ufuncs = lazy_module("pullback.numpy.ufuncs")

_METHODS = ("reduce", "accumulate", "outer", "at", "reduceat")
# The functions by the module that has them; the identity follows where there is one.
_FUNCTIONS: dict[Any, str] = {
    arithmetic: "add=0 subtract multiply=1 true_divide floor_divide remainder fmod maximum minimum fmax fmin",
    elementary: "power float_power arctan2 hypot=0 logaddexp=-inf logaddexp2=-inf",
    logic: "bitwise_and=-1 bitwise_or=0 bitwise_xor=0 left_shift right_shift logical_and=1 logical_or=0 logical_xor=0 equal"
    " not_equal less less_equal greater greater_equal copysign heaviside nextafter",
}


def attach(function: Any, nin: int = 2, identity: Any = None) -> None:
    """Give a function NumPy's methods and facts of a universal function."""
    vars(function).update(nin=nin, nout=1, nargs=nin + 1, identity=identity)
    for method in _METHODS:
        setattr(function, method, functools.partial(_call, function, method))


@api_boundary
def _call(function: Any, method: str, *args: Any, **options: Any) -> Any:
    return getattr(ufuncs.ufunc(function, function.nin, identity=function.identity), method)(*args, **options)


def install() -> None:
    """Give them to all functions that NumPy has as universal ones of two numbers, and to `negative`, as jax.numpy does."""
    for module, names in _FUNCTIONS.items():
        for name, _, identity in [name.partition("=") for name in names.split()]:
            number = float(identity) if identity == "-inf" else int(identity) if identity else None
            attach(getattr(module, name), identity=number)
    attach(arithmetic.negative, nin=1)
