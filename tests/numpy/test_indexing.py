"""Indexing and updates against NumPy, eager and compiled, with static and traced indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
import pullback.numpy as pnp

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
ROWS, J = np.array([2, 0, -1]), np.array([[1], [2]])
INDICES = [
    0,
    -1,
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(5, 0, -2),
    slice(2, 2),
    None,
    ...,
    (1, 2),
    (1, 2, -3),
    (..., 1),
    (slice(None), 2),
    (None, 1, ..., None),
    (slice(None, None, 2), slice(3, 0, -1)),
    ROWS,
    (ROWS, 1),
    (1, ROWS),
    (slice(None), ROWS),
    (ROWS, slice(1, 3)),
    (J, ROWS),
    (slice(None), J, ROWS),
    (ROWS, slice(None), np.array([1, 2, 3])),
    (..., ROWS),
    (ROWS, None, 2),
    (0, slice(None), ROWS),
    (slice(0, 2), ROWS, slice(None, None, 2)),
    (None, ROWS, J),
    X[:, :, 0] > 20,
    X > 30,
    (X[:, 0, 0] > 10),
    (slice(None), X[0, :, 0] > 4),
    (np.array(1), slice(None)),
    (ROWS[:0],),
    [2, 0],
    ([0, 1], slice(None), [1, 2]),
    (slice(None), slice(None), slice(None)),
    (),
    (np.int64(1),),
]


def ids(index):
    return str(index).replace("\n", "")[:40]


@pytest.mark.parametrize("index", INDICES, ids=ids)
def test_reading_as_numpy(index):
    expected = X[index]
    got = pnp.asarray(X)[index]
    assert got.shape == expected.shape and got.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(got), expected)
    np.testing.assert_array_equal(np.asarray(pb.jit(lambda x: x[index])(X)), expected)
    rows = pb.vmap(lambda x: x[index])(np.stack([X, X + 1]))
    np.testing.assert_array_equal(np.asarray(rows[1]), (X + 1)[index])


@pytest.mark.parametrize("index", INDICES, ids=ids)
def test_gradient_of_reading(index):
    weights = np.cos(np.arange(X[index].size, dtype=np.float32)).reshape(X[index].shape)
    expected = np.zeros_like(X)
    np.add.at(expected, index if not isinstance(index, list) else (index,), weights)
    np.testing.assert_allclose(np.asarray(pb.grad(lambda x: pnp.sum(x[index] * weights))(pnp.asarray(X))), expected, atol=1e-6)


@pytest.mark.parametrize("index", INDICES, ids=ids)
@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "max"])
def test_updates_as_numpy(index, method):
    values = -1.5 * np.arange(1, X[index].size + 1, dtype=np.float32).reshape(X[index].shape)
    function = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}.get(method)
    place = (index,) if isinstance(index, list) else index
    for new in (values, 7.0):
        expected = X.copy()
        if function is None:
            expected[place] = new
        else:
            function.at(expected, place, np.float32(new) if new is not values else new)
        got = getattr(pnp.asarray(X).at[index], method)(new)
        np.testing.assert_allclose(np.asarray(got), expected)
        compiled = pb.jit(lambda x, v: getattr(x.at[index], method)(v))(X, new)
        np.testing.assert_allclose(np.asarray(compiled), expected)


def test_updates_keep_the_original_and_its_dtype():
    x = pnp.zeros(4, pnp.int32)
    y = x.at[1].set(2)
    assert x.tolist() == [0, 0, 0, 0] and y.tolist() == [0, 2, 0, 0] and y.dtype == np.int32
    z = pnp.asarray(np.float32([1, 2, 3]))
    assert z.at[0].divide(2.0).tolist() == [0.5, 2, 3]
    assert z.at[1].power(3).tolist() == [1, 8, 3]
    assert z.at[1:].apply(lambda v: -v).tolist() == [1, -2, -3]
    assert z.at[0].subtract(1).tolist() == [0, 2, 3]
    assert z.at[np.array([0, 5])].get(mode="fill", fill_value=-1.0).tolist() == [1, -1]
    assert z.at[np.array([0, 5])].add(1.0, mode="drop").tolist() == [2, 2, 3]
    assert z.at[np.array([0, 5])].add(1.0, mode="clip").tolist() == [2, 2, 4]
    assert z.at[np.array([0, 0])].add(1.0).tolist() == [3, 2, 3]


def test_a_traced_mask_serves_an_update():
    x = np.float32([1, -2, 3])
    got = pb.jit(lambda x: x.at[x < 0].set(0.0))(x)
    assert got.tolist() == [1, 0, 3]
    assert pb.vmap(lambda x: x.at[x < 0].multiply(2.0))(np.stack([x, -x])).tolist() == [[1, -4, 3], [-2, 2, -6]]
    assert pb.grad(lambda x: pnp.sum(x.at[x < 0].set(0.0) ** 2))(pnp.asarray(x)).tolist() == [2, 0, 6]


@pytest.mark.parametrize("i", [0, 2, -1, -3])
def test_traced_integers(i):
    assert pb.jit(lambda x, i: x[i])(X, i).tolist() == X[i].tolist()
    assert pb.jit(lambda x, i: x[:, i, 1])(X, i).tolist() == X[:, i, 1].tolist()
    assert pb.jit(lambda x, i: x.at[i].set(0.0))(X, i)[i].tolist() == np.zeros((4, 5)).tolist()
    assert pb.vmap(lambda i: pnp.asarray(X)[i, 0])(np.array([i, 0])).tolist() == X[[i, 0], 0].tolist()
    assert pb.jit(pb.grad(lambda x, i: x[i, i, i]))(X, np.int32(i)).tolist()[i][i][i] == 1.0


def test_out_of_bounds():
    x = pnp.asarray(X)
    for index in (3, -4, (0, 4), (..., 5)):
        with pytest.raises(IndexError, match="out of bounds"):
            x[index]
        with pytest.raises(IndexError, match="out of bounds"):
            pb.jit(lambda x: x[index])(x)
    row = pnp.asarray(np.float32([1, 2, 3]))
    assert float(pb.jit(lambda x, i: x[i])(row, 9)) == 3.0
    for known in ([0, 9], np.array([0, -4]), pnp.asarray([[9]]), (np.array([3]),), (..., np.array([5]))):
        for touch in (
            lambda x, i: x[i],
            lambda x, i: x.at[i].set(0.0),
            lambda x, i: x.at[i].get(),
            lambda x, i: x.at[i].add(1.0),
        ):
            with pytest.raises(IndexError, match=r"axis 0 of size 3 of an array of shape \(3,\)"):
                touch(row, known)
            with pytest.raises(IndexError, match="axis 0 of size 3"):  # known when it is traced, too
                pb.jit(lambda x, known=known, touch=touch: touch(x, known))(row)
    assert pb.jit(lambda x, i: x[i])(row, np.array([0, 9])).tolist() == [1, 3]
    assert pb.jit(lambda x, i: x.at[i].set(7.0))(row, np.array([0, 9])).tolist() == [7, 2, 3]
    assert row.at[np.array([0, 9])].get(mode="clip").tolist() == [1, 3]
    assert row.at[[0, 9]].get(mode="fill", fill_value=-1).tolist() == [1, -1]
    assert row.at[[0, 9]].set(7.0, mode="drop").tolist() == [7, 2, 3]
    assert row.at[[9]].set(7.0, mode="clip").tolist() == [
        1,
        2,
        7,
    ]
    for wrong in (lambda x: x.at[0].set(1.0, mode="nonsense"), lambda x: x.at[[0]].get(mode="nonsense")):
        with pytest.raises(ValueError, match="mode="):
            wrong(row)
    assert pb.jit(lambda x, i: x.at[i].set(0.0))(row, 9).tolist() == [1, 2, 3]
    assert np.isnan(np.asarray(pnp.take(row, np.array([9])))).all()
    assert pnp.take(row, np.array([4]), mode="wrap").tolist() == [2]
    assert pnp.take(row, np.array([4]), mode="clip").tolist() == [3]
    for places in ([-1, -3, -5, 1, 9], [[-2, 2]]):  # clipping leaves none that count from the end
        for take in (pnp.take, pb.jit(pnp.take, static_argnames="mode")):
            np.testing.assert_array_equal(
                take(row, np.array(places), mode="clip"), np.take(np.asarray(row), places, mode="clip")
            )


def test_true_and_false_are_indices_as_in_numpy():
    for index in (True, False, np.True_, np.False_, np.array(True), np.array(False), pnp.asarray(True)):
        for x in (X, X[0, 0, 0], X[:0]):
            for read in (lambda a, index=index: a[index], lambda a, index=index: a[None][index]):
                expected = read(x) if not isinstance(index, pb.Array) else x[None]
                found = read(pnp.asarray(x)) if not isinstance(index, pb.Array) else pnp.asarray(x)[index]
                np.testing.assert_array_equal(np.asarray(found), expected)
                np.testing.assert_array_equal(np.asarray(pb.jit(read)(pnp.asarray(x))), np.asarray(read(pnp.asarray(x))))
    for index in (np.s_[None, True], np.s_[True, 0], np.s_[..., False], np.s_[0, :, np.array(True)], np.s_[True, [0, 1]]):
        np.testing.assert_array_equal(np.asarray(pnp.asarray(X)[index]), X[index])


def test_what_is_no_index():
    x = pnp.asarray(X)
    for index, message in (
        (1.5, "not 1.5"),
        ("a", "not 'a'"),
        (np.array([1.5]), "astype"),
        ((0, 0, 0, 0), "Too many"),
        ((..., ...), "one"),
    ):
        with pytest.raises(IndexError, match=message):
            x[index]
    with pytest.raises(IndexError, match="does not fit"):
        x[np.array([True, False])]
    with pytest.raises(pb.errors.ShapeError, match="broadcast"):
        x.at[0].set(np.ones(3))


def test_a_traced_mask_cannot_choose():
    with pytest.raises(pb.errors.ConcretizationError, match=r"pb.numpy.where\(mask, x, 0\)") as caught:
        pb.jit(lambda x: x[x > 0])(X)
    assert str(caught.value).count(__file__) == 2  # the function's place, and the line
    for condition in (X[:, 0, 0] > 0, np.array([1, 0, 2], "int8"), X[:, 0, 0]):  # to compress, numbers are conditions too
        with pytest.raises(pb.errors.ConcretizationError, match="traced mask"):
            pb.jit(lambda c: pnp.compress(c, X, 0))(condition)
    with pytest.raises(pb.errors.ConcretizationError, match="dynamic_slice_in_dim"):
        pb.jit(lambda x, n: x[:n])(X, 2)


entries = st.one_of(
    st.integers(-3, 2),
    st.slices(3),
    st.none(),
    st.just(...),
    st.lists(st.integers(-3, 2), min_size=1, max_size=3).map(np.array),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(entries, max_size=4).map(tuple))
def test_any_index_as_numpy(index):
    x = np.arange(27, dtype=np.float32).reshape(3, 3, 3)
    try:
        expected = x[index]
    except (IndexError, ValueError):
        with pytest.raises((IndexError, ValueError, pb.errors.ShapeError)):
            pnp.asarray(x)[index]
        return
    np.testing.assert_array_equal(np.asarray(pnp.asarray(x)[index]), expected)
    program = pb.xpr(lambda x: x[index], x)
    np.testing.assert_array_equal(np.asarray(program(x)[0] if isinstance(program(x), (tuple, list)) else program(x)), expected)
    values = np.arange(expected.size, dtype=np.float32).reshape(expected.shape)
    summed = x.copy()
    np.add.at(summed, index, values)
    np.testing.assert_allclose(np.asarray(pnp.asarray(x).at[index].add(values)), summed)


class AsIndex:
    def __index__(self) -> int:
        return 1


class AsArray:
    def __array__(self, dtype=None, copy=None):
        return np.array([2, 0])


def test_what_serves_as_an_index():
    x = pnp.arange(4)
    for index, expected in (
        (AsIndex(), 1),
        (AsArray(), [2, 0]),
        (range(1, 3), [1, 2]),
        (np.int8(-1), 3),
        (pnp.asarray(-1), 3),
        (slice(AsIndex(), pnp.asarray(3)), [1, 2]),
        ([], []),
    ):
        for out in (x[index], pb.jit(lambda x, index=index: x[index])(x)):
            assert out.tolist() == expected
    assert x.at[AsArray()].set(7).tolist() == [7, 1, 7, 3] and x.at[AsIndex()].add(1).tolist() == [0, 2, 2, 3]
    for wrong in (1.0, "a", None.__class__, object(), np.float32(1)):
        with pytest.raises(IndexError, match="indexed with integers"):
            x[wrong]


def test_narrow_indices_reach_all_of_a_long_axis():
    x = pnp.arange(300)
    for dtype, places in (("int8", [-1, -128, 127]), ("uint8", [255]), ("int16", [-300, 299])):
        index = np.array(places, dtype)
        for out in (x[index], pb.jit(lambda x, i: x[i])(x, index), pnp.take(x, index), pb.vmap(lambda i: x[i])(index)):
            assert out.tolist() == [place % 300 for place in places]
        assert x.at[index].set(-1)[places[0]] == -1


FULL = np.arange(12, dtype=np.float32).reshape(3, 4)
NOBODY = np.zeros(0, np.int32)


@pytest.mark.parametrize(
    ("index", "why"),
    [
        ((np.array([5]), NOBODY), "out of bounds"),  # NumPy lets these pass, since they choose nothing
        ((NOBODY, np.array([[5]])), "out of bounds"),
        ((np.array([5]), np.zeros(4, bool)), "out of bounds"),
        (np.zeros(2, bool), "mask"),
        (np.array([2**64 - 1], np.uint64), "out of bounds"),  # and this it takes for -1
    ],
    ids=str,
)
@pytest.mark.parametrize("known", [np.asarray, pnp.asarray])
def test_known_arrays_choose_no_more_than_an_index_may(index: Any, why: str, known: Any) -> None:
    entries = index if isinstance(index, tuple) else (index,)
    entries = tuple([known(one) if isinstance(one, np.ndarray) else one for one in entries])
    with pb.default_bits(64), pytest.raises(IndexError, match=why):
        pnp.asarray(FULL)[entries]


@pytest.mark.parametrize("shape", [(0,), (FULL.shape[0], 0), (0, FULL.shape[1])], ids=str)
def test_a_mask_without_elements_chooses_none(shape: tuple[int, ...]) -> None:
    mask = np.zeros(shape, bool)
    for read in (lambda x: x[mask], pb.jit(lambda x: x[mask]), lambda x: x[pnp.asarray(mask)]):
        assert read(pnp.asarray(FULL)).shape == FULL[mask].shape


@pytest.mark.parametrize(
    "index",
    [
        np.array([2, -1, 0]),
        np.array([[0], [2]], np.int8),
        np.array(1),
        (slice(None), np.array([3, 3])),
        (np.array([0, 1]), None, np.array([2, 3])),
        (np.array([0, 1]), ..., -1),
        (FULL > 5),
        (np.array([True, False, True]), slice(None, None, 2)),
    ],
    ids=str,
)
def test_known_arrays_read_what_numpy_reads(index: Any) -> None:
    x = pnp.asarray(FULL)
    ours = index if isinstance(index, tuple) else (index,)
    for known in (np.asarray, pnp.asarray):
        found = x[tuple([known(one) if isinstance(one, np.ndarray) else one for one in ours])]
        np.testing.assert_array_equal(found, FULL[index])
        np.testing.assert_array_equal(found, pb.jit(lambda x, index=index: x[index])(x))
    assert pnp.asarray(2.0)[None][np.array([0, 0])].type.weak == pnp.asarray(2.0).type.weak


@pytest.mark.parametrize("indices", [[True, False], [0.0]])
def test_take_takes_no_mask(indices: Any) -> None:
    with pytest.raises(IndexError, match="take takes integers"):
        pnp.take(pnp.asarray([1.0, 2.0]), pnp.asarray(indices))
