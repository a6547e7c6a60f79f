"""gather and the scatters, against loops over the windows."""

import itertools

import numpy as np
import pytest

from pullback.core.array import as_array
from pullback.core.dtypes import DTYPES
from pullback.core.errors import DtypeError, GradientError, ShapeError
from pullback.ops import index as ix
from pullback.ops.windows import GatherDimensionNumbers, ScatterDimensionNumbers
from pullback.testing import check_gradients
from pullback.transforms.linearize import linearize_flat

RNG = np.random.default_rng(0)
G = GatherDimensionNumbers
OPERAND = RNG.normal(size=(4, 5, 3))

# dimension numbers, slice sizes, the shape of the indices
CASES = [
    (G((1, 2), (0,), (0,)), (1, 5, 3), (6, 1)),
    (G((0, 1), (1,), (1,)), (4, 1, 3), (6, 1)),
    (G((1, 2, 3), (), (2, 0)), (2, 5, 2), (6, 2)),
    (G((), (0, 1, 2), (2, 1, 0)), (1, 1, 1), (2, 3, 3)),
    (G((0, 3), (0,), (0, 1)), (1, 2, 2), (2, 3, 2)),
    (G((1,), (1,), (1,), (0,), (0,)), (1, 1, 2), (4, 1)),
    (G((2,), (2,), (1, 2), (0,), (1,)), (1, 2, 1), (3, 4, 2)),
    (G((), (2,), (2,), (0, 1), (1, 0)), (1, 1, 1), (5, 4, 1)),
    (G((1, 2, 3), (), ()), (4, 5, 3), (2, 0)),
]


def windows(numbers, sizes, indices, mode):
    """Each window: where in the indices it stands, and the slices of the operand that it covers; None if it is dropped."""
    for at in itertools.product(*map(range, indices.shape[:-1])):
        start = [0] * OPERAND.ndim
        for axis, value in zip(numbers.start_index_map, indices[at]):
            start[axis] = int(value)
        inside = all(0 <= i <= whole - size for i, whole, size in zip(start, OPERAND.shape, sizes))
        start = [min(max(i, 0), whole - size) for i, whole, size in zip(start, OPERAND.shape, sizes)]
        for axis, other in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
            start[axis] = at[other]
        place = tuple(slice(i, i + size) for i, size in zip(start, sizes))
        yield at, place if inside or mode != "fill" else None


def dropped(numbers):
    return (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)


def gathered(numbers, sizes, indices, mode, fill):
    kept = [size for axis, size in enumerate(sizes) if axis not in dropped(numbers)]
    out = np.full((*indices.shape[:-1], *kept), fill)
    for at, place in windows(numbers, sizes, indices, mode):
        if place is not None:
            out[at] = OPERAND[place].squeeze(dropped(numbers))
    layout = [axis for axis in range(out.ndim) if axis not in numbers.offset_dims] + list(numbers.offset_dims)
    return out.transpose(np.argsort(layout))


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.int64])
@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_gather(case, mode, dtype, both):
    numbers, sizes, shape = CASES[case]
    indices = RNG.integers(-2, 7, shape).astype(dtype)
    params = {"dimension_numbers": numbers, "slice_sizes": sizes, "mode": mode, "fill_value": -7}
    for values in both(ix.gather, OPERAND, indices, **params):
        np.testing.assert_array_equal(values, gathered(numbers, sizes, indices, mode, -7.0))


COMBINE = {
    "scatter_add": lambda old, new: old + new,
    "scatter": lambda old, new: new,
    "scatter_mul": lambda old, new: old * new,
    "scatter_min": np.minimum,
    "scatter_max": np.maximum,
}


@pytest.mark.parametrize("name", COMBINE)
@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_scatter(case, mode, name, both):
    numbers, sizes, shape = CASES[case]
    indices = RNG.integers(-2, 7, shape)
    updates = RNG.normal(size=gathered(numbers, sizes, indices, "clip", 0.0).shape)
    layout = [axis for axis in range(updates.ndim) if axis not in numbers.offset_dims] + list(numbers.offset_dims)
    rows = updates.transpose(layout)
    expected = OPERAND.copy()
    for at, place in windows(numbers, sizes, indices, mode):
        if place is not None:
            expected[place] = COMBINE[name](expected[place], np.expand_dims(rows[at], dropped(numbers)))
    operation = getattr(ix, name)
    for values in both(operation, OPERAND, indices, updates, dimension_numbers=numbers.as_scatter(), mode=mode):
        np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "int8", "bool", "uint32"])
def test_dtypes(dtype, both):
    x = np.array([0, 1, 0, 1]).astype(DTYPES[dtype])
    at = np.array([3, 0, 9])
    for values in both(lambda x, i: ix.take(x, i, 0, mode="fill"), x, at):
        fill = {"i": -128, "u": 2**32 - 1, "b": True}.get(np.dtype(x.dtype).kind)
        assert values[0] == x[3] and values[1] == x[0]
        assert values[2] == fill if fill is not None else np.isnan(values[2].astype(complex))
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    if dtype != "bool":
        for values in both(ix.scatter_add, x, np.array([[1], [1], [9]]), x[:3], dimension_numbers=numbers, mode="fill"):
            assert values.astype(complex).tolist() == [0, 2, 0, 1]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_take(axis, shape, both):
    indices = RNG.integers(0, OPERAND.shape[axis], shape)
    for values in both(lambda x, i: ix.take(x, i, axis), OPERAND, indices):
        np.testing.assert_array_equal(values, np.take(OPERAND, indices, axis))


def test_nothing_to_take(both):
    for values in both(lambda x, i: ix.take(x, i, 1), OPERAND, np.zeros((0,), int)):
        assert values.shape == (4, 0, 3)


def test_filled_places_have_no_derivative():
    linearized = linearize_flat(
        lambda x: [ix.take(x, as_array(np.array([0, 9, 0])), 0, mode="fill")], [as_array(np.arange(3.0))]
    )
    back = linearized.pull([as_array(np.array([1.0, 10.0, 100.0]))])[0]
    np.testing.assert_array_equal(np.asarray(back.host), [101.0, 0.0, 0.0])
    (tangent,) = linearized.push([as_array(np.ones(3))])
    np.testing.assert_array_equal(np.asarray(tangent.host), [1.0, 0.0, 1.0])


def test_where_updates_meet_the_last_one_counts():
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    at = as_array(np.array([[1], [1], [2], [9]]))

    def put(x, updates):
        return [ix.scatter(x, at, updates, dimension_numbers=numbers, mode="fill", unique_indices=False)]

    linearized = linearize_flat(put, [as_array(np.zeros(4)), as_array(np.arange(4.0))])
    kept, found = linearized.pull([as_array(np.array([1.0, 2.0, 3.0, 4.0]))])
    np.testing.assert_array_equal(np.asarray(kept.host), [1, 0, 0, 4])
    np.testing.assert_array_equal(np.asarray(found.host), [0, 2, 3, 0])
    check_gradients(put, (np.zeros(4), np.arange(4.0)))


def test_factors_that_meet_have_no_derivative():
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    at = as_array(np.array([[1], [1]]))

    def product(unique, updates):
        params = {"dimension_numbers": numbers, "mode": "clip", "unique_indices": unique}
        return [ix.scatter_mul(as_array(np.ones(3)), at, updates, **params)]

    with pytest.raises(GradientError, match="unique_indices=True"):
        linearize_flat(lambda u: product(False, u), [as_array(np.ones(2))])
    linearize_flat(lambda u: product(True, u), [as_array(np.ones(2))])


def test_what_is_refused():
    x = as_array(np.zeros((4, 3)))
    rows = {"dimension_numbers": G((1,), (0,), (0,)), "slice_sizes": (1, 3)}
    with pytest.raises(DtypeError, match="integer indices"):
        ix.gather(x, as_array(np.zeros((2, 1))), **rows)
    with pytest.raises(ShapeError, match="index vectors have 2 elements"):
        ix.gather(x, as_array(np.zeros((2, 2), int)), **rows)
    with pytest.raises(ValueError, match="'clip', 'fill', 'promise_in_bounds', not 'wrap'"):
        ix.gather(x, as_array(np.zeros((2, 1), int)), mode="wrap", **rows)
    numbers = rows["dimension_numbers"].as_scatter()
    with pytest.raises(ShapeError, match="take 2 windows along axis 0"):
        ix.scatter_add(x, as_array(np.zeros((2, 1), int)), as_array(np.zeros((5, 3))), dimension_numbers=numbers)
    with pytest.raises(DtypeError, match="one dtype"):
        ix.scatter_add(x, as_array(np.zeros((2, 1), int)), as_array(np.zeros((2, 3), int)), dimension_numbers=numbers)


@pytest.mark.parametrize(
    "changes, slice_sizes, fault",
    [
        ({}, (1, 3), "a size along each of the 3 axes of the operand, and not 2"),
        ({}, (1, 9, 1), "a window of size 9 along axis 1 is not within the operand's 3"),
        ({}, (2, 2, 1), "axis 0, in collapsed_slice_dims, can be dropped from windows of size 1"),
        ({"offset_dims": (1, 3)}, (1, 2, 1), r"offset_dims=\(1, 3\) goes out of bounds, for 3 axes of the result"),
        ({"offset_dims": (1, 1)}, (1, 2, 1), r"offset_dims=\(1, 1\) names an axis more than once"),
        ({"offset_dims": (2, 1)}, (1, 2, 1), r"offset_dims=\(2, 1\) is not in rising order"),
        ({"offset_dims": (1,)}, (1, 2, 1), "offset_dims places 1 axis of the windows, of which 2 remain"),
        ({"collapsed_slice_dims": (2, 0), "offset_dims": (1,)}, (1, 2, 1), "collapsed_slice_dims.* is not in rising order"),
        ({"start_index_map": (0, 1)}, (1, 2, 1), "the index vectors have 1 element, .* says 2 axes"),
        ({"operand_batching_dims": (0,)}, (1, 2, 1), "axis 0 of the operand is in collapsed_slice_dims and in operand_batch"),
        ({"operand_batching_dims": (1,)}, (1, 1, 1), "pair axes with each other, but are of different lengths"),
        ({"operand_batching_dims": (1,), "start_indices_batching_dims": (0,)}, (1, 1, 1), "axis 0 of the indices of size 4"),
        ({"operand_batching_dims": (1,), "start_indices_batching_dims": (1,)}, (1, 1, 1), "for 1 axes of the indices"),
    ],
)
def test_the_fault_of_dimension_numbers_is_named(changes, slice_sizes, fault):
    x, at = as_array(np.zeros((4, 3, 2))), as_array(np.zeros((4, 1), int))
    numbers = G((1, 2), (0,), (0,))._replace(**changes)
    with pytest.raises(ShapeError, match=fault):
        ix.gather(x, at, dimension_numbers=numbers, slice_sizes=slice_sizes)


def test_the_fault_of_a_scatter_is_named_as_its_own_fields_are():
    x, at = as_array(np.zeros((4, 3))), as_array(np.zeros((2, 1), int))

    def put(updates, *numbers):
        return ix.scatter(x, at, as_array(np.zeros(updates)), dimension_numbers=ScatterDimensionNumbers(*numbers))

    assert put((2, 3), (1,), (0,), (0,)).shape == (4, 3)
    with pytest.raises(
        ShapeError, match=r"update_window_dims=\(2,\) goes out of bounds, for 2 axes of the updates.*ScatterDim"
    ):
        put((2, 3), (2,), (0,), (0,))
    with pytest.raises(ShapeError, match=r"inserted_window_dims=\(1, 0\) is not in rising order"):
        put((2,), (), (1, 0), (0,))
    with pytest.raises(ShapeError, match=r"the updates take 2 axes, one for each of i\d+\[2,1\] but its last"):
        put((2, 3, 1), (1,), (0,), (0,))
    with pytest.raises(ShapeError, match="the updates take 2 windows along axis 0"):
        put((5, 3), (1,), (0,), (0,))
