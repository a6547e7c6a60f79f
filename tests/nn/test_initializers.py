"""Initial weights: their variances, their shapes, and what is refused."""

import math

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import errors
from pullback.nn import initializers

KEY = pb.random.key(1)
SHAPE = (3, 40, 60)

# Each with the variance of its weights; fans are 3 * 40 and 3 * 60.
SCALED = {
    "glorot_uniform": 1 / 150, "glorot_normal": 1 / 150, "xavier_uniform": 1 / 150, "xavier_normal": 1 / 150,
    "lecun_uniform": 1 / 120, "lecun_normal": 1 / 120, "he_uniform": 2 / 120, "he_normal": 2 / 120,
    "kaiming_uniform": 2 / 120, "kaiming_normal": 2 / 120,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
@pytest.mark.parametrize("name", SCALED)
def test_variances(name, dtype) -> None:
    weights = getattr(initializers, name)()(KEY, SHAPE, dtype)
    assert weights.dtype == pnp.dtype(dtype) and weights.shape == SHAPE
    values = np.asarray(weights.astype("complex64"))
    assert abs(values.mean()) < 0.01
    assert math.isclose(np.mean(np.abs(values) ** 2), SCALED[name], rel_tol=0.05)


@pytest.mark.parametrize(
    ("mode", "fan"), [("fan_in", 120), ("fan_out", 180), ("fan_avg", 150), ("fan_geo_avg", math.sqrt(120 * 180))]
)
@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "uniform"])
def test_variance_scaling(mode, fan, distribution) -> None:
    weights = initializers.variance_scaling(3.0, mode, distribution)(KEY, SHAPE)
    assert math.isclose(float(pnp.var(weights)), 3 / fan, rel_tol=0.05)


def test_the_axes_of_fans() -> None:
    along = initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=(0, 1), out_axis=2)(KEY, SHAPE)
    assert math.isclose(float(pnp.var(along)), 1 / 120, rel_tol=0.05)
    layers = initializers.lecun_normal(batch_axis=0)(KEY, SHAPE)
    assert math.isclose(float(pnp.var(layers)), 1 / 40, rel_tol=0.05)


def test_plain_ones() -> None:
    assert (initializers.zeros(KEY, (2, 3)) == 0).all() and (initializers.ones(KEY, (2, 3), "int32") == 1).all()
    assert (initializers.constant(2.5)(KEY, (2,)) == 2.5).all()
    assert initializers.normal(1.0, "bfloat16")(KEY, (2,)).dtype == pnp.bfloat16
    np.testing.assert_array_equal(initializers.normal(2.0)(KEY, (3,)), 2 * pb.random.normal(KEY, (3,)))
    np.testing.assert_array_equal(initializers.uniform(2.0)(KEY, (3,)), 2 * pb.random.uniform(KEY, (3,)))
    drawn = initializers.truncated_normal(1.0, lower=-1.0, upper=3.0)(KEY, (1000,))
    assert float(drawn.min()) > -1 and float(drawn.max()) < 3 and float(drawn.max()) > 2
    assert isinstance(initializers.ones, initializers.Initializer)


def test_orthogonal_weights() -> None:
    x = np.asarray(initializers.orthogonal(2.0)(KEY, (3, 4, 5))).reshape(12, 5)
    np.testing.assert_allclose(x.T @ x, 4 * np.eye(5), atol=1e-5)
    x = np.asarray(initializers.orthogonal(column_axis=0)(KEY, (3, 4, 5))).reshape(3, 20)
    np.testing.assert_allclose(x @ x.T, np.eye(3), atol=1e-5)
    for lead in ((3,), (3, 4), (1, 2, 3)):
        kernel = np.asarray(initializers.delta_orthogonal()(KEY, (*lead, 2, 5)))
        center = kernel[tuple((size - 1) // 2 for size in lead)]
        np.testing.assert_allclose(center @ center.T, np.eye(2), atol=1e-5)
        assert np.count_nonzero(kernel) == 10


def test_under_jit_and_vmap() -> None:
    make = initializers.he_normal()
    keys = pb.random.split(KEY, 3)
    one_by_one = np.stack([np.asarray(make(key, (4, 5))) for key in keys])
    np.testing.assert_allclose(pb.jit(pb.vmap(lambda key: make(key, (4, 5))))(keys), one_by_one, rtol=1e-5)


def test_what_is_refused() -> None:
    with pytest.raises(errors.ShapeError, match="axes"):
        initializers.glorot_normal()(KEY, (3,))
    with pytest.raises(errors.ShapeError, match="two axes"):
        initializers.orthogonal()(KEY, (3,))
    with pytest.raises(errors.ShapeError, match="three to five"):
        initializers.delta_orthogonal()(KEY, (3, 5, 2))
    with pytest.raises(ValueError, match="fan_in"):
        initializers.variance_scaling(1.0, "fan", "normal")
    with pytest.raises(ValueError, match="uniform"):
        initializers.variance_scaling(1.0, "fan_in", "cauchy")
    with pytest.raises(NotImplementedError, match="out_sharding"):
        initializers.normal()(KEY, (2,), "float32", "x")
