"""Each argument of each public function of transformations, given values that it cannot take: an error of ours that names it.

The table has a call that is right; every value of `WRONG`, in place of one argument at a time, is refused, but for those that
the argument does take, which `TAKES` says.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp

X = np.ones(3, np.float32)
T = pb.ArrayType((3,), "float32")


class Senseless:
    """Neither number nor array, index, name, function nor condition."""

    def __bool__(self) -> bool:
        raise TypeError("this is neither true nor false")

    def __repr__(self) -> str:
        return "Senseless"


def total(x: Any) -> Any:
    return pnp.sum(x * x)


def double(x: Any) -> Any:
    return 2.0 * x


FLAGS = {"has_aux": False, "holomorphic": False}
Case = tuple[dict[str, Any], Callable[[Any], Any]]


def apply(function: Any) -> Any:
    return function(X)


# What each function is called with, and what is done with what it returns.
CASES: dict[str, Case] = {
    "grad": ({"fun": total, "argnums": 0, **FLAGS, "allow_int": False}, apply),
    "value_and_grad": ({"fun": total, "argnums": 0, **FLAGS, "allow_int": False}, apply),
    "jacfwd": ({"fun": double, "argnums": 0, **FLAGS}, apply),
    "jacrev": ({"fun": double, "argnums": 0, **FLAGS, "allow_int": False}, apply),
    "hessian": ({"fun": total, "argnums": 0, **FLAGS}, apply),
    "jvp": ({"fun": double, "primals": (X,), "tangents": (X,), "has_aux": False}, repr),
    "hvp": ({"fun": total, "primals": (X,), "tangents": (X,), "has_aux": False}, repr),
    "vjp": ({"fun": double, "has_aux": False, "primals": X}, lambda found: found[1](X)),
    "linearize": ({"fun": double, "has_aux": False, "primals": X}, lambda found: found[1](X)),
    "linear_transpose": ({"fun": double, "primals": X}, apply),
    "jet": ({"fun": double, "primals": (X,), "series": ([X],)}, repr),
    "nth_derivative": ({"fun": double, "n": 2}, lambda derivative: derivative(1.0)),
    "vmap": (
        {"fun": double, "in_axes": 0, "out_axes": 0, "axis_name": "i", "axis_size": 3, "strategy": "select"}
        | {"spmd_axis_name": None},
        apply,
    ),
    "jit": (
        {
            "fun": double,
            **dict.fromkeys(("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")),
            **dict.fromkeys(("show_graph", "quick", "inline", "keep_unused", "tiered"), False),
            "native": True,
            **dict.fromkeys(("explain_misses", "in_shardings", "out_shardings", "device", "backend", "compiler_options")),
        },
        apply,
    ),
    "checkpoint": (
        {"fun": total, "policy": None, "budget": None, "static_argnums": (), "static_argnames": (), "prevent_cse": True},
        apply,
    ),
    "xpr": ({"fun": double, "args": X}, repr),
    "eval_shape": ({"fun": double, "args": X}, repr),
    "pure_callback": (
        {"callback": np.sin, "result_shape_dtypes": T, "args": X, "sharding": None, "vmap_method": None},
        repr,
    ),
    "io_callback": ({"callback": np.sin, "result_shape_dtypes": T, "args": X, "sharding": None}, repr),
    "devices": ({"platform": "cpu"}, repr),
    "local_devices": ({"platform": "cpu"}, repr),
    "device_count": ({"platform": "cpu"}, repr),
    "device_put": ({"device": pb.devices()[0], "x": X}, repr),
    "device_get": ({"x": X}, repr),
    "default_device": ({"device": pb.devices()[0]}, lambda context: context.__enter__()),
    "lax.cond": ({"pred": True, "true_fun": double, "false_fun": double, "operands": X}, repr),
    "lax.switch": ({"index": 0, "branches": [double, double], "operands": X}, repr),
    "tree.unflatten": ({"structure": pb.tree.structure([1]), "leaves": ["a"]}, repr),
    "tree.transpose": ({"outer": pb.tree.structure([1]), "inner": pb.tree.structure([1]), "tree": [[1]]}, repr),
    "testing.check_gradients": ({"f": total, "args": (X,), "order": 1, "modes": ("fwd", "rev"), "rng": None}, repr),
    "testing.check_transforms": ({"f": total, "args": (X,), "rng": None, "modes": ("fwd", "rev")}, repr),
}
WRONG: list[Any] = [Senseless(), "text", 1.5, -7, None, {"a": 0}, (0, 0), np.ones(2), True, [[0]], b"x", 99]


def takes(name: str, parameter: str, value: Any) -> bool:
    """Whether an argument may have one of these values: flags, numbers and trees of them, names, and what means nothing."""
    if parameter in {*FLAGS, "allow_int", "prevent_cse", "show_graph", "quick", "inline", "keep_unused", "native", "tiered"}:
        return value is True
    if parameter == "rng":  # NumPy's own
        return True
    number = isinstance(value, (int, float))
    large = number and value == 99
    return {
        "args": value is None or name != "testing.check_gradients",  # the user's own function says what it takes
        "primals": name in ("vjp", "linearize", "linear_transpose") and not isinstance(value, (Senseless, str, bytes)),
        "operands": not isinstance(value, (Senseless, str, bytes)),
        "axis_name": value is None or value.__hash__ is not None,
        "budget": value is None or large,
        "series": isinstance(value, list),
        "n": large,
        "order": large,
        "pred": number,
        "index": isinstance(value, int) and not isinstance(value, bool),
        "platform": value is None,
        "x": name == "device_get" or not isinstance(value, (Senseless, str, bytes)),
        "tree": True,
        "leaves": isinstance(value, (dict, list, bytes)),  # of one item each
        "compiler_options": value is None or isinstance(value, dict),  # XLA says which options it has
        "explain_misses": value is True or value is None,
        "fun": value is None and name == "jit",
        "axis_size": value is None,
        "spmd_axis_name": value is None or isinstance(value, str),
        "in_axes": value is None,
        "strategy": False,
        "device": value is None and name in ("device_put", "jit"),
        "donate_argnums": value is None or isinstance(value, tuple),
        "static_argnums": value is None or (name == "checkpoint" and isinstance(value, tuple)),
        "static_argnames": value is None,
    }.get(parameter, value is None and parameter in CASES[name][0] and CASES[name][0][parameter] is None)


def call(name: str, given: dict[str, Any]) -> Any:
    function: Any = pb
    for part in name.split("."):
        function = getattr(function, part)
    parameters = inspect.signature(function).parameters.values()
    positional = [given[one.name] for one in parameters if one.name in given and one.kind is not one.KEYWORD_ONLY]
    named = {one.name: given[one.name] for one in parameters if one.name in given and one.kind is one.KEYWORD_ONLY}
    return CASES[name][1](function(*positional, **named))


@pytest.mark.parametrize("name", CASES)
def test_the_calls_in_the_table_are_right(name: str) -> None:
    call(name, CASES[name][0])
    function: Any = pb
    for part in name.split("."):
        function = getattr(function, part)
    parameters = inspect.signature(function).parameters.values()
    optional = {one.name for one in parameters if one.kind is one.VAR_KEYWORD} | {"operand", "ordered"}
    assert {one.name for one in parameters} <= {*CASES[name][0], *optional}


# What the errors call an argument where they do not call it by its name.
CALLED = {
    "fun": "function", "f": "function", "callback": "function", "true_fun": "function", "false_fun": "function",
    "budget": "budget", "device": "device", "platform": "platform", "vmap_method": "vmap_method", "n": "number n",
    "branches": "branch|function", "policy": "policy", "primals": "argument|primals", "args": "args|argument|multiply",
    "operands": "operand", "x": "x|device_get", "leaves": "leaves|iterable", "static_argnums": "argument|argnums",
    "donate_argnums": "argument|argnums", "has_aux": "has_aux|pair", "index": "index",
    "result_shape_dtypes": "result", "axis_size": "axis_size",
    "in_axes": "batch argument", "out_axes": "axis for output|batch output",
}  # fmt: skip


@pytest.mark.parametrize(("name", "parameter"), [(name, parameter) for name in CASES for parameter in CASES[name][0]])
def test_values_that_an_argument_cannot_take_are_refused(name: str, parameter: str) -> None:
    right = CASES[name][0]
    for value in WRONG:
        if takes(name, parameter, value):
            continue
        with pytest.raises((TypeError, ValueError, NotImplementedError, pb.errors.PullbackError)) as caught:
            call(name, {**right, parameter: value})
            pytest.fail(f"{name}({parameter}={value!r}) was accepted")
        known = CALLED.get(parameter, parameter).split("|") + [parameter]
        assert any(word in str(caught.value) for word in known), f"{name}({parameter}={value!r}): {caught.value}"
