"""Functions of bools and narrow integers whose results do not fit into these, and sets of two dtypes."""

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp

NARROW = ("bool", "int8", "uint8", "int16")


@pytest.mark.parametrize("dtype", NARROW)
def test_polynomials_of_narrow_integers_do_not_wrap(dtype: str) -> None:
    p = np.array([100, 90, 1, 3, 7]).astype(dtype)
    assert np.array_equal(pnp.polyder(p, 2), np.polyder(p, 2))
    assert np.array_equal(pb.jit(pnp.polyder)(p), np.polyder(p))
    assert np.array_equal(pnp.vander(p, 4), np.vander(p, 4))
    wide = pnp.sum(p).dtype
    assert pnp.vander(p, 4).dtype == pnp.polyder(p).dtype == pnp.polyder(p, 0).dtype == wide


@pytest.mark.parametrize("values", [[1, 1, 0, 1, 0, 1], [1], [0, 0], [1, 0]])
@pytest.mark.parametrize("mode", ["mean", "linear_ramp"])
def test_padded_bools_are_true_where_not_0(values: list[int], mode: str) -> None:
    x = np.array(values, bool)
    assert np.array_equal(pnp.pad(x, 3, mode), np.pad(x, 3, mode))
    assert np.array_equal(pb.jit(lambda x: pnp.pad(x, 3, mode))(x), np.pad(x, 3, mode))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_difference_of_sets_holds_the_elements_of_the_first(compiled: bool) -> None:
    def difference(a, b):
        return pnp.setdiff1d(a, b, size=2)

    found = (pb.jit(difference) if compiled else difference)(np.array([16777217, 1, 5], np.int32), np.array([1], np.float32))
    assert found.dtype == np.int32 and np.array_equal(found, [5, 16777217])
    assert pnp.setdiff1d(np.array([3, 1], np.uint8), np.array([1, 300])).dtype == np.uint8
