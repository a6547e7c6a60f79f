"""The one module that imports SciPy: its functions evaluate ours on the host. Loaded at first use, not by an import."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from pullback.ops.formulas import wide


@cache
def _found(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(importlib.import_module("scipy.special"), name)
    return function


def special(name: str, operands: int = 1, part: int | None = None) -> Callable[..., Any]:
    """scipy.special's function `name`, or part of its result, as an evaluation rule; narrow floats are computed in float32."""
    rule: Any = wide(lambda *xs: _found(name)(*xs) if part is None else _found(name)(*xs)[part])
    rule.nin = operands
    return rule  # type: ignore[no-any-return]


@cache
def linalg(name: str) -> Any:
    """scipy.linalg's function `name`."""
    return getattr(importlib.import_module("scipy.linalg"), name)


@cache
def routine(name: str, dtype: Any) -> Callable[..., Any]:
    """The routine of LAPACK's, or of BLAS's, of that name for a dtype."""
    found: Callable[..., Any] = linalg("get_blas_funcs" if name == "trsm" else "get_lapack_funcs")(name, dtype=dtype)
    return found


def coo_array(data: Any, rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """SciPy's sparse matrix with these entries."""
    return importlib.import_module("scipy.sparse").coo_array((data, (rows, columns)), shape)


def signal_window(name: Any, size: int) -> Any:
    """SciPy's window of that name for spectra, in float64."""
    return importlib.import_module("scipy.signal").get_window(name, size)
