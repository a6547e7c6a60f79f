"""What jax.lax has that says something to XLA or to type checkers only, and functions whose signatures JAX has otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback.core.source import named_after
from pullback.lax import ConvDimensionNumbers, DotAlgorithm, DotAlgorithmPreset, Precision

PrecisionLike = (
    Precision | str | DotAlgorithm | DotAlgorithmPreset | tuple[str, str] | tuple[Precision, Precision] | None
)  # as users of JAX write it in annotations
DotDimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None


def create_token(_: Any = None) -> Any:
    """An array without elements, which orders computations as JAX's tokens do."""
    return pb.numpy.zeros(0, np.bool_)


def after_all(*operands: Any) -> Any:
    """A token that is there when all of these are."""
    return pb.lax.optimization_barrier(operands)[0] if operands else create_token()


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """The decomposition: XLA for the CPU has no operation that would stand for it."""
    return named_after(decomposition)(lambda *args, **kwargs: decomposition(*args, **kwargs))


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Nothing: what is not used is not computed."""


def stage(x: Any, /) -> Any:
    return pb.numpy.asarray(x)
