"""The shapes of what jax.lax's convolutions and windows give: those that pullback.lax gives for abstract arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pullback as pb


def _shape(function: Any, *shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape of a function of float32 arrays of these shapes."""
    return pb.eval_shape(function, *[pb.ShapeDtypeStruct(tuple(shape), np.float32) for shape in shapes]).shape


def conv_shape_tuple(lhs_shape: Any, rhs_shape: Any, strides: Any, pads: Any, batch_group_count: int = 1) -> tuple[int, ...]:
    groups = {"feature_group_count": lhs_shape[1] // rhs_shape[1], "batch_group_count": batch_group_count}
    return _shape(lambda lhs, rhs: pb.lax.conv_general_dilated(lhs, rhs, strides, pads, **groups), lhs_shape, rhs_shape)


def conv_general_permutations(dimension_numbers: Any) -> tuple[tuple[int, ...], ...]:
    shape = (1,) * len(dimension_numbers[0])
    return tuple(pb.lax.conv_dimension_numbers(shape, shape, tuple(dimension_numbers)))


def conv_general_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    options = {"padding": padding, "dimension_numbers": dimension_numbers}
    return _shape(lambda lhs, rhs: pb.lax.conv_general_dilated(lhs, rhs, window_strides, **options), lhs_shape, rhs_shape)


def conv_transpose_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    options = {"padding": padding, "dimension_numbers": dimension_numbers}
    return _shape(lambda lhs, rhs: pb.lax.conv_transpose(lhs, rhs, window_strides, **options), lhs_shape, rhs_shape)


def reduce_window_shape_tuple(operand_shape: Any, *windows: Any, **options: Any) -> tuple[int, ...]:
    return _shape(lambda x: pb.lax.reduce_window(x, 0.0, pb.lax.add, *windows, **options), operand_shape)


def shape_as_value(shape: Sequence[int]) -> Any:
    return np.asarray(shape, np.int32)
