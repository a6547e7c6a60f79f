"""Functions through values on a grid, against SciPy; and what they refuse."""

import numpy as np
import pytest
import scipy.interpolate

import pullback as pb
from pullback.scipy.interpolate import RegularGridInterpolator

RNG = np.random.default_rng(0)
GRID = np.array([0.0, 1.0, 3.0]), np.array([-1.0, 0.0, 0.5, 2.0])
VALUES, PLACES = RNG.normal(size=(3, 4, 2)), RNG.uniform(-2, 4, size=(5, 7, 2))


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill_value", [np.nan, None, 1.5])
def test_values_are_scipys(method, fill_value):
    expected = scipy.interpolate.RegularGridInterpolator(GRID, VALUES, method, False, fill_value)(PLACES)
    made = RegularGridInterpolator(GRID, VALUES, method, False, fill_value)
    for found in (made(PLACES), pb.jit(made)(PLACES), pb.vmap(made)(PLACES), made(tuple(np.moveaxis(PLACES, -1, 0)))):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_it_is_a_tree():
    made = RegularGridInterpolator(GRID, VALUES, fill_value=None)
    found = pb.jit(pb.grad(lambda f: f(PLACES).sum()))(made)
    np.testing.assert_allclose(np.asarray(found.values).sum(), PLACES.size, rtol=1e-12)  # weights add up to 1 at each place
    inside = np.array([[0.3, 0.2], [2.5, 1.9]])
    pb.testing.check_gradients(lambda values, x: RegularGridInterpolator(GRID, values)(x), (VALUES, inside))


def test_a_vector_has_one_place_after_the_other():
    made = RegularGridInterpolator(GRID[:1], VALUES[:, 0])
    assert made(np.array([0.5])).shape == (1, 2) and made(np.array([0.5, 1.0])).shape == (2, 2)
    assert RegularGridInterpolator(GRID, VALUES)(np.array([0.5, 1.0])).shape == (1, 2)


def test_what_is_refused():
    for call, error in [
        (lambda: RegularGridInterpolator(GRID, VALUES, "cubic"), ValueError),
        (lambda: RegularGridInterpolator(GRID, VALUES, bounds_error=True), NotImplementedError),
        (lambda: RegularGridInterpolator(GRID[::-1], VALUES), pb.errors.ShapeError),
        (lambda: RegularGridInterpolator((GRID[0][:1],), VALUES), pb.errors.ShapeError),
        (lambda: RegularGridInterpolator(GRID, VALUES, fill_value=1j), pb.errors.DtypeError),
        (lambda: RegularGridInterpolator(GRID, VALUES)(np.zeros((2, 3))), pb.errors.ShapeError),
        (lambda: RegularGridInterpolator(GRID, VALUES)(PLACES, "cubic"), ValueError),
    ]:
        with pytest.raises(error):
            call()


def test_a_grid_that_falls_a_place_that_is_nan_and_a_tuple_of_numbers():
    grid, values = (np.array([4.0, 2.5, 1.0, 0.0]), np.array([-1.0, 0.0, 3.0])), np.arange(24.0).reshape(4, 3, 2) ** 2
    places = np.array([[0.5, 0.5], [np.nan, 0.0], [4.0, 3.0]])
    for method in ("linear", "nearest"):
        expected = scipy.interpolate.RegularGridInterpolator(grid, values, method, bounds_error=False)
        found = pb.scipy.interpolate.RegularGridInterpolator(grid, values, method, bounds_error=False)
        np.testing.assert_allclose(found(places), expected(places))
        np.testing.assert_allclose(pb.jit(lambda x, f=found: f(x))(places), expected(places))
        assert found((0.5, 0.5)).shape == expected((0.5, 0.5)).shape == (2,)


def test_a_moved_image_repeats_its_edges_where_a_resized_one_does():
    image, scale = RNG.normal(size=5), np.array([1.8])
    for function in (pb.image.scale_and_translate, pb.jit(pb.image.scale_and_translate, static_argnums=(1, 2, 5, 6))):
        moved = function(image, (9,), (0,), scale, np.zeros(1), "cubic-pytorch", False)
        np.testing.assert_allclose(moved, pb.image.resize(image, (9,), "cubic-pytorch", False), rtol=1e-12)


def test_the_value_outside_may_be_traced():
    def f(fill):
        return RegularGridInterpolator((np.arange(3.0),), np.arange(3.0), fill_value=fill)(np.array([0.5, 5.0]))

    assert pb.jit(f)(7.0).tolist() == [0.5, 7.0]
    assert pb.jacfwd(f)(7.0).tolist() == [0.0, 1.0]
    made = pb.jit(lambda fill: RegularGridInterpolator((np.arange(3.0),), np.arange(3.0), fill_value=fill))(7.0)
    assert made(np.array([5.0])).tolist() == [7.0]
