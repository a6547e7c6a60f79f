"""The examples in docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import pullback

SKIPPED = {"pullback.__main__", "pullback.core.errors"}  # the command itself; tests/core/test_errors.py runs those of errors
MODULES = [info.name for info in pkgutil.walk_packages(pullback.__path__, "pullback.") if info.name not in SKIPPED]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    failures, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert not failures, f"{failures} examples of {name} fail; see the captured output"


def test_public_functions_have_examples() -> None:
    """Whatever a user calls first shows how: an example in the docstring of every public transformation."""
    names = [
        *["grad", "value_and_grad", "jvp", "vjp", "linearize", "linear_transpose", "jacfwd", "jacrev", "hessian", "hvp"],
        *["jet", "nth_derivative", "vmap", "jit", "xpr", "eval_shape", "default_bits", "devices", "device_put"],
        *["stop_gradient", "ensure_compile_time_eval", "custom_jvp", "custom_vjp", "custom_vmap", "custom_gradient"],
        *["closure_convert", "SymbolicZero", "checkpoint", "saved_residuals", "pure_callback", "io_callback", "odeint"],
    ]
    without = [name for name in names if ">>>" not in (getattr(pullback, name).__doc__ or "")]
    assert not without
