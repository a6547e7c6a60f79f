"""Moving elements about, against NumPy; and what is refused."""

import numpy as np
import pytest

from pullback.core.array import as_array
from pullback.core.errors import AxisError, DtypeError, ShapeError
from pullback.ops import shape as s
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.create import iota
from pullback.ops.dynamic import dynamic_slice, dynamic_update_slice

X = np.arange(24.0).reshape(2, 3, 4)


def padded(x, value, config):
    """pad by hand, an axis at a time."""
    for axis, (low, high, between) in enumerate(config):
        rows = [np.take(x, [i], axis) for i in range(x.shape[axis])]
        blank = np.full([1 if i == axis else size for i, size in enumerate(x.shape)], value)
        spread = [piece for row in rows for piece in [row, *[blank] * between]][: len(rows) + max(len(rows) - 1, 0) * between]
        spread = [blank] * max(low, 0) + spread + [blank] * max(high, 0)
        spread = spread[max(-low, 0) : len(spread) - max(-high, 0)]
        x = np.concatenate(spread, axis) if spread else np.take(x, [], axis)
    return x


@pytest.mark.parametrize(
    "config",
    [
        ((0, 0, 0), (1, 2, 0), (0, 0, 0)),
        ((0, 0, 3), (-1, 0, 1), (2, -2, 2)),
        ((-1, 0, 0), (0, -2, 1), (-3, 5, 1)),
        ((-2, 0, 0), (0, 0, 0), (0, 0, 0)),
    ],
)
def test_pad(config, both):
    for values in both(s.pad, X, np.float64(-1), padding_config=config):
        np.testing.assert_array_equal(values, padded(X, -1, config))


@pytest.mark.parametrize("strides", [None, (1, 2, 3)])
def test_slice(strides, both):
    for values in both(s.slice, X, start_indices=(0, 1, 0), limit_indices=(2, 3, 4), strides=strides):
        np.testing.assert_array_equal(values, X[:, 1:][:, :: (strides or (1, 1, 1))[1], :: (strides or (1, 1, 1))[2]])


def test_the_rest_of_them(both):
    for values in both(s.transpose, X, permutation=(2, 0, 1)):
        np.testing.assert_array_equal(values, X.transpose(2, 0, 1))
    for values in both(s.rev, X, dimensions=(0, 2)):
        np.testing.assert_array_equal(values, X[::-1, :, ::-1])
    for values in both(lambda *xs: s.concatenate(*xs, dimension=1), X, X[:, :1], X[:, :0]):
        np.testing.assert_array_equal(values, np.concatenate([X, X[:, :1]], 1))
    for values in both(s.squeeze, X[:, :1, :1], dimensions=(1, 2)):
        np.testing.assert_array_equal(values, X[:, 0, 0])
    for values in both(s.reshape, X, new_sizes=(4, 6)):
        np.testing.assert_array_equal(values, X.reshape(4, 6))
    for values in both(lambda x: iota(dtype=np.dtype("int32"), shape=(2, 3), dimension=1), X):
        np.testing.assert_array_equal(values, [[0, 1, 2], [0, 1, 2]])


@pytest.mark.parametrize("starts", [(0, 0, 0), (1, 1, 2), (-7, 9, 1), (100, -100, 3)])
def test_dynamic_blocks_are_moved_inside(starts, both):
    at = [np.int32(start) for start in starts]
    inside = [min(max(start, 0), whole - size) for start, whole, size in zip(starts, X.shape, (1, 2, 3))]
    place = tuple(slice(i, i + size) for i, size in zip(inside, (1, 2, 3)))
    for values in both(dynamic_slice, X, *at, slice_sizes=(1, 2, 3)):
        np.testing.assert_array_equal(values, X[place])
    expected = X.copy()
    expected[place] = -1
    for values in both(dynamic_update_slice, X, np.full((1, 2, 3), -1.0), *at):
        np.testing.assert_array_equal(values, expected)


def test_start_indices_of_several_dtypes(both):
    for values in both(dynamic_slice, X, np.int32(0), np.uint8(1), np.int64(1), slice_sizes=(1, 1, 1)):
        assert values.item() == 5


REFUSED = [
    (lambda x: s.reshape(x, new_sizes=(5,)), ShapeError, r"f64\[2,3,4\], which has 24 elements, the shape \(5,\)"),
    (lambda x: s.reshape(x, new_sizes=(-1,)), ShapeError, "the shape"),
    (lambda x: s.transpose(x, permutation=(0, 1)), AxisError, "an order of all 3 axes"),
    (lambda x: s.squeeze(x, dimensions=(0,)), ShapeError, "axes of size 1"),
    (lambda x: s.squeeze(x, dimensions=(3,)), ShapeError, "between 0 and 2"),
    (lambda x: s.concatenate(x, x, dimension=3), ShapeError, "differ in axis 3 alone"),
    (lambda x: s.concatenate(x, as_array(np.zeros((2, 3, 4), np.int32)), dimension=0), DtypeError, "one dtype"),
    (lambda x: s.slice(x, start_indices=(0, 0, 0), limit_indices=(2, 3, 5)), ShapeError, "slice cannot take"),
    (lambda x: s.slice(x, start_indices=(0,), limit_indices=(2,)), ShapeError, "slice cannot take"),
    (lambda x: s.pad(x, x, padding_config=((0, 0, 0),) * 3), ShapeError, "one number as padding_value"),
    (
        lambda x: s.pad(x, as_array(np.float64(0)), padding_config=((-3, 0, 0), (0, 0, 0), (0, 0, 0))),
        ShapeError,
        "cut more off",
    ),
    (lambda x: s.pad(x, as_array(np.float32(0)), padding_config=((0, 0, 0),) * 3), DtypeError, "one dtype"),
    (lambda x: s.rev(x, dimensions=(0, 0)), ShapeError, "different axes"),
    (lambda x: s.pad(x, as_array(np.float64(0)), padding_config=((0, 0, 0),)), ShapeError, "each of 3 axes .* has 1"),
    (
        lambda x: s.pad(x, as_array(np.float64(0)), padding_config=((0, 0, -1),) * 3),
        ShapeError,
        "0 or more between two elements",
    ),
    (lambda x: broadcast_in_dim(x, shape=(2, 3), broadcast_dimensions=(0, 1)), ShapeError, "where 2 axes go, not 3"),
    (lambda x: broadcast_in_dim(x, shape=x.shape, broadcast_dimensions=(0, 1, 3)), ShapeError, "out of bounds, for 3 axes"),
    (lambda x: broadcast_in_dim(x, shape=x.shape, broadcast_dimensions=(0, 2, 1)), ShapeError, "must rise, and name each"),
    (lambda x: broadcast_in_dim(x, shape=(2, 3, 9), broadcast_dimensions=(0, 1, 2)), ShapeError, "axis 2 is neither 1 nor"),
    (lambda x: dynamic_slice(x, as_array(0), slice_sizes=(1, 1, 1)), ShapeError, "by 1 index"),
    (lambda x: dynamic_slice(x, *[as_array(0.5)] * 3, slice_sizes=(1, 1, 1)), DtypeError, "0-d integer indices"),
    (lambda x: dynamic_slice(x, *[as_array(0)] * 3, slice_sizes=(1, 1, 9)), ShapeError, r"shape \(1, 1, 9\)"),
    (lambda x: iota(dtype=np.dtype(bool), shape=(2,), dimension=0), DtypeError, "bools"),
    (lambda x: iota(dtype=np.dtype("int32"), shape=(2,), dimension=1), AxisError, "axis 1"),
]


@pytest.mark.parametrize(("operation", "error", "message"), REFUSED)
def test_what_is_refused(operation, error, message):
    with pytest.raises(error, match=message):
        operation(as_array(X))
