"""Reductions against NumPy; ties, NaN, nothing at all; derivatives where products have zeros."""

import numpy as np
import pytest

from pullback.core.array import as_array
from pullback.core.dtypes import DTYPES
from pullback.core.errors import DtypeError, ShapeError
from pullback.ops import reduce as r
from pullback.ops.broadcast import reduce_sum
from pullback.testing import check_gradients
from pullback.transforms.linearize import linearize_flat

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5))
REDUCTIONS = {
    "sum": (reduce_sum, np.sum),
    "prod": (r.reduce_prod, np.prod),
    "max": (r.reduce_max, np.max),
    "min": (r.reduce_min, np.min),
}


@pytest.mark.parametrize("axes", [(0,), (1, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_against_numpy(name, axes, both):
    ours, theirs = REDUCTIONS[name]
    for values in both(ours, X, axes=axes):
        np.testing.assert_allclose(values, theirs(X, axis=axes), rtol=1e-13)
    numbers = np.round(X) + 1j * X[::-1]  # many of which have the same real part
    for values in both(ours, numbers, axes=axes):
        np.testing.assert_allclose(values, theirs(numbers, axis=axes), rtol=1e-13)
    integers = (10 * X).astype(np.int32)
    for values in both(ours, integers, axes=axes):
        np.testing.assert_array_equal(values, theirs(integers, axis=axes, **({"dtype": np.int32} if name in "sumprod" else {})))


def test_of_nothing(both):
    nothing = np.zeros((2, 0))
    for ours, neutral in ((reduce_sum, 0), (r.reduce_prod, 1), (r.reduce_max, -np.inf), (r.reduce_min, np.inf)):
        for values in both(ours, nothing, axes=(1,)):
            assert values.tolist() == [neutral, neutral]
    for values in both(r.reduce_max, nothing.astype(np.int8), axes=(1,)):
        assert values.tolist() == [-128, -128]


def test_nan_wins(both):
    points = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, -np.inf]])
    for ours in (r.reduce_max, r.reduce_min):
        for values in both(ours, points, axes=(1,)):
            assert np.isnan(values).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("index_dtype", ["int32", "int64", "uint8"])
def test_where_the_extremes_are(dtype, index_dtype, both):
    points = np.array([[1, 3, 3], [np.nan, 5, np.nan], [-np.inf, -np.inf, -np.inf], [2, 1, 1], [0, np.nan, 9]]).astype(
        DTYPES[dtype]
    )
    for values in both(r.argmax, points, axis=1, index_dtype=DTYPES[index_dtype]):
        assert values.tolist() == [1, 0, 0, 0, 1]
    for values in both(r.argmin, points, axis=1, index_dtype=DTYPES[index_dtype]):
        assert values.tolist() == [0, 0, 0, 1, 1]


def test_logic(both):
    points = np.array([[7, 6], [3, 2]], np.uint8)
    for ours, expected in ((r.reduce_and, [3, 2]), (r.reduce_or, [7, 6]), (r.reduce_xor, [4, 4])):
        for values in both(ours, points, axes=(0,)):
            assert values.tolist() == expected
    for values in both(r.reduce_and, np.array([[True, False], [True, True]]), axes=(1,)):
        assert values.tolist() == [False, True]


def gradient(function, x):
    linearized = linearize_flat(lambda y: [function(y)], [as_array(x)])
    return np.asarray(linearized.pull([as_array(np.float64(1))])[0].host)


def test_ties_share_the_derivative():
    x = np.array([1.0, 3.0, 3.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient(lambda y: r.reduce_max(y, axes=(0,)), x), [0, 1 / 3, 1 / 3, 0, 1 / 3])


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0, 5.0], [0.0] * 5, [7.0], []])
def test_products_with_zeros(x):
    x = np.array(x)
    others = [np.prod(np.delete(x, i)) for i in range(len(x))]
    if x.size:
        np.testing.assert_allclose(gradient(lambda y: r.reduce_prod(y, axes=(0,)), x), others)
    check_gradients(lambda y: r.reduce_prod(y, axes=(0,)), (x,), order=3)


def test_what_is_refused():
    with pytest.raises(ShapeError, match=r"needs an axis of .* that has elements"):
        r.argmax(as_array(np.zeros((2, 0))), axis=1, index_dtype=DTYPES["int32"])
    with pytest.raises(ShapeError, match="different axes between 0 and 1"):
        r.reduce_max(as_array(np.zeros((2, 2))), axes=(2,))
    with pytest.raises(DtypeError, match="reduce_or takes bool or integer operands"):
        r.reduce_or(as_array(np.zeros(2, complex)), axes=(0,))
    with pytest.raises(DtypeError, match="reduce_and"):
        r.reduce_and(as_array(np.zeros(2)), axes=(0,))
