"""Functions that read and write at indices, where masks and indices are traced, and where they must refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.modes import overriding

A = np.arange(12.0, dtype=np.float32).reshape(3, 4)
V = np.arange(5.0, dtype=np.float32)
POINTS = pb.lax.ScatterDimensionNumbers((), (0,), (0,))

# A function of arrays that are traced, these arrays, and what NumPy makes of them.
TRACED: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "compress": (
        lambda m, x: pnp.compress(m, x, size=3, fill_value=-1),
        (V % 2 == 1, V),
        np.array([1.0, 3, -1]),
    ),
    "compress, cut off": (lambda m, x: pnp.compress(m, x, size=1), (V > 1, V), np.array([2.0])),
    "compress an axis": (lambda m, x: x.compress(m, axis=1, size=1), (A[0] > 1, A), A[:, 2:3]),
    "compress nothing": (lambda m, x: pnp.compress(m, x, size=2), (V[:0] > 0, V[:0]), np.zeros(2)),
    "extract": (lambda x: pnp.extract(x > 9, x, size=3), (A,), np.array([10.0, 11, 0])),
    "mask_indices": (
        lambda m: pnp.stack(pnp.mask_indices(3, lambda ones, k: ones * m, size=4)),
        (np.eye(3)[::-1],),
        np.array([[0, 1, 2, 0], [2, 1, 0, 0]]),
    ),
    "place": (lambda x, m: pnp.place(x, m, np.float32([7, 8]), inplace=False), (V, V > 1), np.array([0.0, 1, 7, 8, 7])),
    "choose, wrapped": (lambda i: pnp.choose(i, [10, 20], mode="wrap"), (np.array([3, -2]),), np.array([20, 10])),
    "choose, clipped": (lambda i: i.choose([10, 20], mode="clip"), (np.array([3, -2]),), np.array([20, 10])),
    "delete one": (lambda i: pnp.delete(V, i), (1,), np.array([0.0, 2, 3, 4])),
    "delete the last": (lambda i: pnp.delete(A, i, axis=1), (-1,), A[:, :-1]),
    "delete several": (
        lambda i: pnp.delete(V, i, assume_unique_indices=True),
        (np.array([4, 0]),),
        np.array([1.0, 2, 3]),
    ),
    "insert": (lambda i: pnp.insert(V, i, 9.0), (2,), np.insert(V, 2, 9.0)),
    "insert several": (
        lambda i: pnp.insert(V, i, np.float32([7, 8, 9])),
        (np.array([3, 0, 3]),),
        np.insert(V, [3, 0, 3], [7, 8, 9]),
    ),
    "put": (lambda i: pnp.put(V, i, 9.0, inplace=False), (np.array([0, 77, -1]),), np.array([9.0, 1, 2, 3, 9])),
    "ravel_multi_index": (
        lambda i, j: pnp.ravel_multi_index((i, j), (2, 3), mode="clip"),
        (np.array([5, -1]), np.array([1, 7])),
        np.array([4, 2]),
    ),
    "unravel_index": (
        lambda i: pnp.stack(pnp.unravel_index(i, (2, 3))),
        (np.array([-1, 4, 77]),),
        np.array([[1, 1, 1], [2, 1, 2]]),
    ),
    "scatter_apply": (
        lambda i: pb.lax.scatter_apply(V, i, lambda x: 2 * x, POINTS, update_shape=(4,)),
        (np.array([[1], [3], [1], [9]]),),
        np.array([0.0, 4, 2, 6, 4]),
    ),
    "at apply": (
        lambda i: pnp.asarray(V).at[i].apply(lambda x: x + 1),
        (np.array([1, 1, 1, -1]),),
        np.array([0.0, 4, 2, 3, 5]),
    ),
    "piecewise": (
        lambda x: pnp.piecewise(x, [x > 1, x > 2], [lambda x: -x, lambda x: 3 * x]),
        (V,),
        np.array([0.0, 0, -2, 9, 12]),
    ),
}


@pytest.mark.parametrize("name", TRACED)
def test_of_traced_indices_and_masks(name: str) -> None:
    f, args, expected = TRACED[name]
    args = tuple([pnp.asarray(arg) for arg in args])
    compiled = pb.jit(f)(*args)
    np.testing.assert_array_equal(np.asarray(compiled), expected)
    batched = pb.vmap(f)(*[pnp.stack([arg, arg]) for arg in args])
    np.testing.assert_array_equal(np.asarray(batched), np.stack([expected, expected]))


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a traced mask": (lambda: pb.jit(lambda x: x[x > 0])(V), pb.errors.TracerIntegerConversionError, "size="),
    "compress": (lambda: pb.jit(lambda x: pnp.compress(x > 0, x))(V), pb.errors.TracerIntegerConversionError, "size="),
    "ix_": (lambda: pb.jit(lambda x: pnp.ix_(x > 0))(V), pb.errors.TracerIntegerConversionError, "traced mask"),
    "delete": (lambda: pb.jit(lambda i: pnp.delete(V, i))(np.array([0, 1])), TypeError, "assume_unique_indices=True"),
    "delete far": (lambda: pnp.delete(V, 9), IndexError, "size 5"),
    "insert far": (lambda: pnp.insert(V, 9, 1.0), ValueError, "out of bounds"),
    "insert a fraction": (lambda: pnp.insert(np.arange(3), 0, 0.5), pb.errors.DtypeError, "would lose"),
    "insert too much": (lambda: pnp.insert(V, [0, 1], [1.0, 2.0, 3.0]), pb.errors.ShapeError, "broadcast to"),
    "choose far": (lambda: pnp.choose(np.array([2]), [1, 2]), ValueError, "out of bounds"),
    "choose traced": (lambda: pb.jit(lambda i: pnp.choose(i, [1, 2]))(0), pb.errors.ConcretizationError, "another mode"),
    "choose nothing": (lambda: pnp.choose(np.array([0]), []), ValueError, "at least one"),
    "take traced": (lambda: pb.jit(lambda i: pnp.take(V, i, mode="raise"))(0), pb.errors.ConcretizationError, "mode"),
    "take far": (lambda: pnp.take(V, 9, mode="raise"), IndexError, "out of bounds"),
    "put in place": (lambda: pnp.put(V, 0, 1.0), ValueError, "inplace=False"),
    "place in place": (lambda: pnp.place(V, V > 0, 1.0), ValueError, "inplace=False"),
    "put far": (lambda: pnp.put(V, 9, 1.0, inplace=False), IndexError, "out of bounds"),
    "put along an axis in place": (lambda: pnp.put_along_axis(A, np.array([[0]]), 1.0, 1), ValueError, "inplace=False"),
    "fill_diagonal in place": (lambda: pnp.fill_diagonal(A, 1.0), ValueError, "inplace=False"),
    "fill_diagonal of a vector": (lambda: pnp.fill_diagonal(V, 1.0, inplace=False), pb.errors.ShapeError, "matrix"),
    "place nothing": (lambda: pnp.place(V, V > 0, np.zeros(0), inplace=False), ValueError, "at least one"),
    "method put": (lambda: pnp.asarray(V).put(0, 1.0), AttributeError, r"pb\.numpy\.put"),
    "method fill": (lambda: pnp.asarray(V).fill(1.0), AttributeError, r"x\.at\[index\]"),
    "method resize": (lambda: pnp.asarray(V).resize(3), AttributeError, r"pb\.numpy\.resize"),
    "ravel_multi_index": (lambda: pnp.ravel_multi_index(([2], [0]), (2, 3)), ValueError, "out of bounds"),
    "ravel_multi_index of fractions": (lambda: pnp.ravel_multi_index(([0.5],), (2,)), TypeError, "integers"),
    "ravel_multi_index in int8": (lambda: pnp.ravel_multi_index(([0],), (200,), dtype="int8"), ValueError, "int8"),
    "unravel_index": (lambda: pnp.unravel_index(6, (2, 3)), ValueError, "out of bounds"),
    "ix_ of a matrix": (lambda: pnp.ix_(A), pb.errors.ShapeError, "vectors"),
    "block of tuples": (lambda: pnp.block(([V], [V])), TypeError, "tuple"),
    "block of two depths": (lambda: pnp.block([[V], V]), ValueError, "one depth"),
    "block of nothing": (lambda: pnp.block([]), ValueError, "one depth"),
    "packbits": (lambda: pnp.packbits(V), TypeError, "bools or integers"),
    "unpackbits": (lambda: pnp.unpackbits(np.arange(3)), TypeError, "uint8"),
    "bitorder": (lambda: pnp.packbits([1], bitorder="middle"), (ValueError, TypeError), "bitorder|list"),
    "arange of complex numbers": (lambda: pnp.arange(1j), ValueError, "real steps"),
    "arange without a step": (lambda: pnp.arange(0, 3, 0), ValueError, "other than 0"),
    "mgrid": (lambda: pnp.mgrid[3], TypeError, "slices"),
    "mgrid without an end": (lambda: pnp.mgrid[3:], ValueError, "end"),
    "r_": (lambda: pnp.r_["rows", V], ValueError, "'r' or 'c', not 'rows'"),
    "apply_over_axes": (lambda: pnp.apply_over_axes(lambda x, axis: x.sum(), A, 0), ValueError, "may vanish"),
    "piecewise": (lambda: pnp.piecewise(V, [V > 0], [1, 2, 3]), ValueError, "1 condition"),
    "diag_indices_from": (lambda: pnp.diag_indices_from(A), ValueError, "one size"),
    "a promise": (lambda: pnp.take(V, 0, unique_indices=1), TypeError, "unique_indices=True or False"),
    "a promise of .at": (lambda: pnp.asarray(V).at[0].set(1.0, indices_are_sorted="no"), TypeError, "indices_are_sorted"),
    "a mode": (lambda: pnp.asarray(V).at[0].set(1.0, mode="wrap"), ValueError, "'clip'"),
    "dimension numbers": (lambda: pb.lax.scatter(V, [[0]], V[:1], None), TypeError, "ScatterDimensionNumbers"),
    "index_take": (lambda: pb.lax.index_take(A, [np.array([0])], (0, 1)), ValueError, "vector of indices"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    f, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        f()


def test_nothing_is_put_in_or_taken_out() -> None:
    x = np.arange(3)
    for f in (
        lambda m: m.insert(x, [], []),
        lambda m: m.insert(x, 1, []),
        lambda m: m.delete(x, []),
        lambda m: m.delete(x, np.zeros(3, bool)),
        lambda m: m.insert(x[:0], 0, [4, 5]),
        lambda m: m.take(x, np.array([], int)),
        lambda m: m.compress([], x),
    ):
        np.testing.assert_array_equal(np.asarray(f(pnp)), f(np))
    assert pnp.put(x, [], [], inplace=False).tolist() == pnp.place(x, x < 0, [9], inplace=False).tolist() == [0, 1, 2]


def test_narrow_indices_count_along_long_axes() -> None:
    for dtype in ("int8", "uint8", "int16", "uint64"):
        near = np.array([3, 100], dtype)
        assert pnp.unravel_index(near, (300, 2))[0].tolist() == [1, 50]
        assert pnp.ravel_multi_index((near, near), (300, 300)).tolist() == [903, 30100]
        assert pnp.take(np.arange(300), near, mode="wrap").tolist() == [3, 100]
        assert pnp.choose(near // 100, [1, 2]).tolist() == [1, 2]
        for one in (near, -near if dtype[0] == "i" else near):
            assert pnp.unravel_index(one, (300,))[0].tolist() == (one.astype(int) % 300).tolist()
            assert pb.jit(lambda i: pnp.unravel_index(i, (300,))[0])(one).tolist() == (one.astype(int) % 300).tolist()


def test_grids_are_numpys() -> None:
    for mine, numpys in ((pnp.mgrid, np.mgrid), (pnp.ogrid, np.ogrid)):
        for index in (np.s_[0:3, 1:2:0.25], np.s_[0:3], np.s_[0:1:5j, 2:0:-1], np.s_[:4,]):
            got, expected = mine[index], numpys[index]
            for one, other in zip(got, expected, strict=True):
                np.testing.assert_allclose(np.asarray(one), other)
                assert one.dtype.kind == other.dtype.kind and one.dtype.itemsize == 4
    joined = [
        lambda m, v: m.r_[0:3, 5.0, v],
        lambda m, v: m.r_["0,2", v, v],
        lambda m, v: m.r_["1,2,0", v, v],
        lambda m, v: m.r_["-1", v[:, None], v[:, None]],
        lambda m, v: m.r_["0,3,1", v, v],
        lambda m, v: m.c_[v, v],
        lambda m, v: m.c_[v[:, None], 0:5, v],
        lambda m, v: m.r_[-1:1:6j, [0] * 3, 5, 6],
    ]
    for make in joined:
        np.testing.assert_allclose(np.asarray(make(pnp, V)), make(np, V), rtol=1e-6)
    # rows and columns are matrices in NumPy, which warns of them
    assert pnp.r_["r", V, 5].tolist() == [[*V, 5]] and pnp.r_["c", V].tolist() == V[:, None].tolist()
    assert pnp.r_["c", V[None], V[None]].tolist() == [[*V], [*V]] and pnp.c_["c", V, V].tolist() == [[i, i] for i in V]
    assert V[pnp.s_[1:3]].tolist() == [1, 2] and pnp.index_exp[1] == (1,)


def test_derivatives_where_a_branch_is_not_defined() -> None:
    f = lambda x: pnp.piecewise(x, [x < 0, x >= 0], [lambda x: 0.0 * x, pnp.sqrt]).sum()  # noqa: E731
    x = pnp.array([-4.0, 4.0])
    assert pb.grad(f)(x).tolist() == [0.0, 0.25] and pb.jit(pb.grad(f))(x).tolist() == [0.0, 0.25]
    assert not pb.jit(lambda x: pnp.piecewise(x, [x < 0], [1.0, 2.0]))(x).type.weak
    with overriding(promotion="strict"):  # bools are compared with nothing
        assert pnp.piecewise(x, [x < 0, x >= 0], [1.0, 2.0]).tolist() == [1.0, 2.0]
    g = lambda x, i: x.at[i].apply(pnp.square).sum()  # noqa: E731  (once, twice, not at all)
    i = np.array([0, 1, 1])
    for transform in (lambda f: f, pb.jit):
        assert transform(pb.grad(g))(pnp.array([3.0, 2.0, 7.0]), i).tolist() == [6.0, 32.0, 1.0]
        assert transform(pb.grad(lambda x: g(x, i)))(pnp.array([3.0, 2.0, 7.0])).tolist() == [6.0, 32.0, 1.0]
        assert transform(lambda x: g(x, i[:0]))(pnp.array([3.0, 2.0])).tolist() == 5.0


def test_apply_over_axes_keeps_what_vanishes() -> None:
    out = pnp.apply_over_axes(pnp.sum, A.reshape(3, 2, 2), [0, -1])
    np.testing.assert_array_equal(np.asarray(out), np.apply_over_axes(np.sum, A.reshape(3, 2, 2), [0, -1]))


def test_many_places_are_inserted_at_no_cost_of_their_pairs() -> None:
    places = np.random.default_rng(0).integers(0, 50000, 50000)
    got = pnp.insert(np.arange(50000), places, np.arange(50000))
    np.testing.assert_array_equal(np.asarray(got), np.insert(np.arange(50000), places, np.arange(50000)))


def test_known_indices_stay_known_where_the_array_is_traced() -> None:
    i = np.array([3, 0, -1])
    functions: list[tuple[Any, Any]] = [
        (lambda m, x: m.insert(x, i, 7.0), None),
        (lambda m, x: m.insert(x, slice(1, 3), x[:2]), None),
        (lambda m, x: m.delete(x, i), None),
        (lambda m, x: m.choose(i % 2, [x[:3], x[1:4]]), None),
        (lambda m, x: m.compress([True, False, True], x), None),
        (lambda m, x: m.take(x, i, mode="raise"), None),
        (lambda m, x: m.unravel_index(i, (2, 5)), lambda x: np.unravel_index(i % 10, (2, 5))),
        (lambda m, x: m.ravel_multi_index((i % 3, i % 2), (3, 3)), None),
        (lambda m, x: x[m.ix_([0, 2])], None),
        (lambda m, x: m.resize(x, (2, 4)), None),
    ]
    for f, reference in functions:
        expected = reference(V) if reference else f(np, V)
        for got in (f(pnp, pnp.asarray(V)), pb.jit(lambda x, f=f: f(pnp, x))(V)):
            np.testing.assert_array_equal(np.asarray(pnp.stack(got) if isinstance(got, tuple) else got), np.asarray(expected))


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3)])
def test_no_places_of_a_traced_mask(shape):
    found = pb.jit(lambda x: pnp.argwhere(x, size=0))(pnp.ones(shape))
    assert found.shape == (0, len(shape))


def test_a_diagonal_may_be_traced():
    for k in (-2, 0, 1, 5):
        assert np.array_equal(pb.jit(lambda k: pnp.eye(3, 4, k))(k), np.eye(3, 4, k))
        assert np.array_equal(pb.jit(lambda k: pnp.tri(3, 4, k))(k), np.tri(3, 4, k))


@pytest.mark.parametrize("counts", [3, [2], [1, 0, 2], [0, 0, 0]])
@pytest.mark.parametrize("length", [0, 2, 7])
def test_traced_counts_of_repeat(counts, length):
    x = pnp.arange(6).reshape(3, 2)
    traced = pb.jit(lambda x, n: pnp.repeat(x, n, 0, total_repeat_length=length))(x, pnp.array(counts))
    assert np.array_equal(traced, pnp.repeat(x, pnp.array(counts), 0, total_repeat_length=length))


def test_counts_of_repeat_that_do_not_fit():
    with pytest.raises(pb.errors.ShapeError, match=r"counts of type i32\[2\] for 3 elements"):
        pb.jit(lambda n: pnp.repeat(pnp.arange(3), n, total_repeat_length=4))(pnp.array([1, 2]))


def test_the_length_of_bincount_is_what_it_says():
    x = pnp.array([0, 5, 1])
    assert pnp.bincount(x, minlength=9, length=2).shape == (2,) and pnp.bincount(x, minlength=9).shape == (9,)
