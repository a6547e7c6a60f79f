"""Sorting and scans: order, ties and odd values, derivatives at zeros and ties, and NumPy's sort called by compiled code."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as pnp
from pullback.core.dtypes import DTYPES, INT32
from pullback.ops.scans import linear_scan
from pullback.ops.sort import FEW, order, search
from pullback.ops.sort import sort as sort_primitive

RNG = np.random.default_rng(0)
ODD = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 1.0, -1.0, 2.0, np.nan])
SIZES = (13, FEW + 100)


def odd_values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    dtype = DTYPES[name]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return RNG.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.5
    drawn = np.where(RNG.random(shape) < 0.5, RNG.choice(ODD, shape), RNG.normal(size=shape))
    if dtype.kind == "c":
        whole = np.empty(shape, dtype)
        whole.real, whole.imag = drawn, RNG.choice(ODD, shape)
        return whole
    return drawn.astype(dtype)


NAMES = ["bool", "int8", "int64", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", SIZES)
def test_elements_come_in_numpys_order_and_equal_ones_in_their_own(name: str, size: int) -> None:
    for shape, axis in (((size,), 0), ((size, 2), 0)):
        x = odd_values(name, shape)
        real = x.astype(np.float64) if x.dtype.kind in "fV" else x
        expected = np.argsort(real, axis, kind="stable")
        falling = size - 1 - np.flip(np.argsort(np.flip(real, axis), axis, kind="stable"), axis)
        for run in (lambda f: f, pb.jit):
            places = run(lambda x: order(x, dimension=axis, index_dtype=INT32))(x)
            np.testing.assert_array_equal(np.asarray(places), expected)
            down = run(lambda x: order(x, dimension=axis, index_dtype=INT32, descending=True))(x)
            np.testing.assert_array_equal(np.asarray(down), falling)
            few = run(lambda x: order(x, dimension=axis, index_dtype=INT32, descending=True, count=7))(x)
            np.testing.assert_array_equal(np.asarray(few), np.take(falling, range(7), axis))
            found = np.asarray(run(lambda x: sort_primitive(x, dimension=axis))(x))
            true = np.take_along_axis(x, expected, axis)
            np.testing.assert_array_equal(found.astype(real.dtype), true.astype(real.dtype))
            if x.dtype.kind in "fc":
                known = ~np.isnan(true)
                np.testing.assert_array_equal(np.signbit(found.real)[known], np.signbit(true.real)[known])


def test_several_keys_decide_one_after_the_other() -> None:
    a, b, c = RNG.integers(0, 3, 4000), RNG.integers(0, 3, 4000).astype(np.float32), np.arange(4000)
    expected = np.lexsort((b, a))
    for part in (slice(100), slice(None)):
        places = expected if part == slice(None) else np.lexsort((b[part], a[part]))
        for run in (lambda f: f, pb.jit):
            found = run(lambda *xs: lax.sort(xs, num_keys=2))(a[part], b[part], c[part])
            np.testing.assert_array_equal(np.asarray(found[2]), c[part][places])
            np.testing.assert_array_equal(np.asarray(found[1]), b[part][places])


@pytest.mark.parametrize("right", [False, True])
def test_search_in_batches_of_vectors(right: bool) -> None:
    a, v = np.sort(RNG.normal(size=(3, 50)), axis=1), RNG.normal(size=(3, 4, 2))
    a[0, -1] = v[0, 0, 0] = np.nan
    expected = np.stack([np.searchsorted(x, y, "right" if right else "left") for x, y in zip(a, v)])
    f = pb.vmap(lambda a, v: search(a, v, right=right, index_dtype=INT32))
    for run in (lambda f: f, pb.jit):
        np.testing.assert_array_equal(np.asarray(run(f)(a, v)), expected)


# ---- NumPy's sort in compiled code --------------------------------------------------------------------------------------

LONG = RNG.normal(size=FEW + 1).astype(np.float32)
MANY = RNG.normal(size=(3, FEW + 1)).astype(np.float32)


def test_small_programs_hold_no_python_function() -> None:
    small = pb.jit(lambda x: pnp.argsort(pnp.sort(x))).lower(LONG[:100]).as_text()
    assert "python" not in small and "stablehlo.sort" in small
    large = pb.jit(pnp.sort).lower(LONG).as_text()
    assert "python" in large and "stablehlo.sort" not in large


def test_large_sorts_run_in_loops_branches_and_batches() -> None:
    expected = np.sort(MANY, axis=1)
    _, rows = pb.jit(lambda x: lax.scan(lambda carry, row: (carry, pnp.sort(row)), 0.0, x))(MANY)
    np.testing.assert_array_equal(np.asarray(rows), expected)
    np.testing.assert_array_equal(np.asarray(pb.jit(pb.vmap(pnp.sort))(MANY)), expected)
    loop = pb.jit(lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, pnp.sort(-s[1])), (0, x)))
    np.testing.assert_array_equal(np.asarray(loop(LONG)[1]), np.sort(-LONG))
    branch = pb.jit(lambda p, x: lax.cond(p, pnp.sort, lambda x: x, x))
    np.testing.assert_array_equal(np.asarray(branch(True, LONG)), np.sort(LONG))
    np.testing.assert_array_equal(np.asarray(branch(False, LONG)), LONG)
    both = pb.jit(pb.vmap(lambda p, x: lax.cond(p, pnp.sort, lambda x: x, x)))
    np.testing.assert_array_equal(np.asarray(both(np.array([True, False, True]), MANY))[1], MANY[1])


def test_large_sorts_run_in_threads_and_on_donated_memory() -> None:
    f, found = pb.jit(lambda x: pnp.sort(x) + pnp.argsort(x)), {}
    expected = np.sort(LONG) + np.argsort(LONG, kind="stable").astype(np.float32)

    def work(number: int) -> None:
        found[number] = [np.asarray(f(LONG)) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for outs in found.values():
        for out in outs:
            np.testing.assert_array_equal(out, expected)
    x = pnp.asarray(LONG) * 1.0
    np.testing.assert_array_equal(np.asarray(pb.jit(pnp.sort, donate_argnums=0)(x)), np.sort(LONG))
    assert x.is_deleted()


def test_large_sorts_have_derivatives() -> None:
    weights = RNG.normal(size=LONG.size).astype(np.float32)
    expected = np.empty_like(weights)
    expected[np.argsort(LONG, kind="stable")] = weights
    for run in (lambda f: f, pb.jit):
        np.testing.assert_allclose(np.asarray(run(pb.grad(lambda x: (pnp.sort(x) * weights).sum()))(LONG)), expected)


# ---- derivatives where they are delicate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (1, 2, 4)])
def test_cumprod_is_differentiated_at_zeros(zeros: tuple[int, ...], reverse: bool) -> None:
    x = np.array([1.5, -2.0, 0.5, 3.0, 0.7])
    x[list(zeros)] = 0
    pb.testing.check_gradients(lambda x: lax.cumprod(x, reverse=reverse), (x,), order=2)
    steps = x[::-1] if reverse else x
    expected = np.array([[np.prod(np.delete(steps[: i + 1], j)) if j <= i else 0 for j in range(5)] for i in range(5)])
    jacobian = np.asarray(pb.jacrev(lambda x: lax.cumprod(x, reverse=reverse))(x))
    np.testing.assert_allclose(jacobian[::-1, ::-1] if reverse else jacobian, expected, rtol=1e-12)


def test_running_extremes_share_their_derivative_as_extremes_do() -> None:
    x = np.array([1.0, 3.0, 3.0, 2.0, 3.0, 5.0])
    jacobian = np.asarray(pb.jacrev(lax.cummax)(x))
    for i in range(6):
        np.testing.assert_allclose(jacobian[i, : i + 1], np.asarray(pb.grad(pnp.max)(x[: i + 1])))
        assert not jacobian[i, i + 1 :].any()
    missing = np.asarray(pb.jvp(lax.cummin, (np.array([1.0, np.nan, 0.0]),), (np.ones(3),)))
    np.testing.assert_array_equal(missing, [[1, np.nan, np.nan], [1, np.nan, np.nan]])


def test_cumlogsumexp_of_infinities() -> None:
    x = np.array([-np.inf, -np.inf, 1.0, 1000.0, 1000.0])
    np.testing.assert_allclose(np.asarray(lax.cumlogsumexp(x)), np.logaddexp.accumulate(x))
    jacobian = np.asarray(pb.jacfwd(lax.cumlogsumexp)(x))
    np.testing.assert_allclose(jacobian[[1, 2, 4]], [[0] * 5, [0, 0, 1, 0, 0], [0, 0, 0, 0.5, 0.5]], atol=1e-12)


@pytest.mark.parametrize("how", ["eager", "jit"])
def test_long_sums_are_exact_to_the_last_bits(how: str) -> None:
    x = RNG.random(300_000).astype(np.float32)
    exact = np.cumsum(x.astype(np.float64)).astype(np.float32)
    found = (pb.jit(lax.cumsum) if how == "jit" else lax.cumsum)(x)
    np.testing.assert_allclose(np.asarray(found), exact, rtol=1e-7)
    assert found.dtype == np.float32


def test_linear_recurrence_is_that_of_a_loop() -> None:
    a, b = RNG.normal(size=(2, 37)), RNG.normal(size=(2, 37))
    a[:, 0] = np.inf  # what stands there is not read
    expected = np.zeros((2, 37))
    for i in range(37):
        expected[:, i] = (a[:, i] * expected[:, i - 1] if i else 0) + b[:, i]
    for run in (lambda f: f, pb.jit):
        np.testing.assert_allclose(np.asarray(run(lambda a, b: linear_scan(a, b, axis=1))(a, b)), expected, rtol=1e-10)


# ---- results whose size depends on the data -------------------------------------------------------------------------------


SIZED = ["nonzero", "unique", "flatnonzero", "argwhere", "where", "bincount", "unique_all", "trim_zeros"]


@pytest.mark.parametrize("name", SIZED)
def test_traced_values_need_a_size(name: str) -> None:
    with pytest.raises(pb.errors.ConcretizationError, match=r"size|length|To know them"):
        pb.jit(getattr(pnp, name))(np.array([1, 0, 2]))


def test_where_of_a_condition_alone_is_nonzero() -> None:
    x = np.array([[0, 3], [4, 0]])
    for found, expected in zip(pnp.where(x), np.where(x)):
        np.testing.assert_array_equal(np.asarray(found), expected)
    with pytest.raises(TypeError, match="size and fill_value"):
        pnp.where(x > 0, x, x, size=3)
    with pytest.raises(TypeError, match="condition"):
        pnp.where(x, x)


def test_methods_of_arrays() -> None:
    x = np.array([3.0, 1.0, 2.0], np.float32)
    array = pnp.asarray(x)
    for name, args in (
        ("sort", ()),
        ("argsort", ()),
        ("cumsum", ()),
        ("cumprod", ()),
        ("argpartition", (1,)),
        ("partition", (1,)),
    ):
        expected = np.sort(x) if name in ("sort", "partition") else getattr(x, name)(*args)
        np.testing.assert_allclose(np.asarray(getattr(array, name)(*args)), expected)
        np.testing.assert_allclose(np.asarray(pb.jit(lambda a: getattr(a, name)(*args))(array)), expected)
    np.testing.assert_array_equal(np.asarray(array), x)
    assert int(array.sort().searchsorted(2.5)) == 2 and [int(i) for i in array.nonzero()[0]] == [0, 1, 2]
    np.testing.assert_array_equal(np.sort(array), np.sort(x))


def test_python_numbers_are_sought_in_the_dtype_of_the_array() -> None:
    x = pnp.asarray(np.array([0.1, 0.2, 0.3], np.float32))
    assert [int(pnp.searchsorted(x, number, "right")) for number in (5.0, 0.1, 0.2)] == [3, 1, 2]  # the later calls by NumPy
    assert pnp.digitize(np.array([-1.0, 0.5, 3.0]), np.array([0.0, 1.0, 2.0, np.nan])).tolist() == [0, 1, 3]


def test_many_known_numbers_are_partitioned() -> None:
    x = np.random.default_rng(0).permutation(np.arange(3000.0)).reshape(3, 1000)
    for found in (
        pnp.partition(pnp.asarray(x), (10, -3)),
        np.take_along_axis(x, pnp.argpartition(pnp.asarray(x), (10, -3)), 1),
    ):
        np.testing.assert_array_equal(np.sort(np.asarray(found)), np.sort(x))
        np.testing.assert_array_equal(np.asarray(found)[:, [10, -3]], np.sort(x)[:, [10, -3]])
    with pytest.raises(ValueError, match="no place kth=1000"):
        pnp.partition(pnp.asarray(x), 1000)


def test_numbers_among_many_take_no_more_memory() -> None:
    x = np.random.default_rng(0).integers(0, 10**6, 10**5).astype(np.float32)
    y = np.append(x[:1000], np.nan)
    for found in (pnp.isin(x, y), pb.jit(pnp.isin)(x, y), pb.jit(pnp.isin)(x[:, None], x)[:, 0], pnp.isin(x, y)):
        np.testing.assert_array_equal(np.asarray(found), np.isin(x, y) if found.sum() < found.size else True)
    assert pnp.isin(np.array([np.nan, -0.0, 1j]), np.array([0.0, np.nan])).tolist() == [False, True, False]


def test_sets_that_numpy_computes() -> None:
    a, b = np.array([3, np.nan, 1, np.nan, -0.0]), np.array([1, np.nan, 7.0, 1, 0])
    for name in ("intersect1d", "setdiff1d", "setxor1d", "union1d", "isin"):
        for x, y in ((a[:1], b[:1]), (a, b), (b, a)):  # the later ones by what was learnt from the first
            found = getattr(pnp, name)(pnp.asarray(x), pnp.asarray(y))
            np.testing.assert_array_equal(np.asarray(found), getattr(np, name)(x, y))
    for found, expected in zip(pnp.unique(pnp.asarray(a), True, True, True), np.unique(a, True, True, True)):
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_quantiles_lie_where_double_precision_says() -> None:
    x = np.arange(3_000_001, dtype=np.float32)
    assert float(pnp.quantile(x, 0.3)) == np.float32(900_000)
    assert pnp.quantile(x[:10], 0.3).dtype == np.float32
    with pytest.raises(ValueError, match="between 0 and 100"):
        pnp.percentile(x, 101)
    assert np.isnan(float(pnp.median(np.array([1.0, np.nan]))))
