"""Sorting, scans, selection, sets and histograms."""

import numpy as np
from cases import COMPLEX, INEXACT, REAL, case, entry

RNG = np.random.default_rng(0)
A, B, V = RNG.normal(size=(3, 4)), RNG.normal(size=(3, 4)), RNG.normal(size=7)
Z = RNG.normal(size=(2, 5)) + 1j * RNG.normal(size=(2, 5))
TIES = np.array([2.0, 1.0, 2.0, 0.0, 1.0, 2.0])
ODD = np.array([[np.nan, 1.0, -np.inf, 3.0], [np.inf, 0.0, np.nan, -1.0]])
INTS = np.array([[3, 1, 2, 1], [0, 7, 7, -5]])
MASK = np.array([[True, False, True, True], [False, False, False, True]])
LONG = RNG.normal(size=3000)
ZERO = A[:0]
ZEROS = np.array([2.0, 0.0, -3.0, 0.0, 1.5])


def falling(a, axis=-1, descending=False, stable=None):
    found = np.sort(a, axis)
    return np.flip(found, axis) if descending else found


def argfalling(a, axis=-1, descending=False, stable=None):
    return np.argsort(-a.astype(float) if descending else a, axis, kind="stable")


def by_keys(operand, dimension=-1, num_keys=1):
    places = np.lexsort(operand[:num_keys][::-1], axis=dimension)
    return tuple(np.take_along_axis(x, places, dimension) for x in operand)


def largest(x, k, axis=-1):
    places = np.argsort(-x, axis, kind="stable").take(range(k), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int32)


def smallest(x, k, reduction_dimension=-1):
    places = np.argsort(x, reduction_dimension, kind="stable").take(range(k), reduction_dimension)
    return np.take_along_axis(x, places, reduction_dimension), places.astype(np.int32)


def scan(ufunc):
    def reference(x, axis=0, reverse=False):
        return np.flip(ufunc.accumulate(np.flip(x, axis), axis), axis) if reverse else ufunc.accumulate(x, axis, x.dtype)

    return reference


class LogsOfSums:
    @staticmethod
    def accumulate(x, axis, dtype=None):
        return np.log(np.cumsum(np.exp(x), axis)) if np.iscomplexobj(x) else np.logaddexp.accumulate(x, axis, dtype)


def of_scan(function, *more, **how):
    cases = (case(A), case(A, axis=-1), case(V, reverse=True), case(ZERO), case(RNG.normal(size=37)), *more)
    return entry(scan(function), *cases, wrt=(0,), weak=True, **how)


NUMBERS = tuple(each for each in REAL if each != "bool")

LAX = {
    "lax.sort": entry(
        lambda x, dimension=-1, is_stable=True, num_keys=1: (
            by_keys(x, dimension, num_keys) if isinstance(x, tuple) else np.sort(x, dimension)
        ),
        case(A), case(A, dimension=0, is_stable=False), case(ODD), case(ZERO), case(Z), case((A, B), num_keys=2),
        dtypes=INEXACT, wrt=(0,), weak=True, same_dtype=False,
    ),
    "lax.sort_key_val": entry(
        lambda k, v, dimension=-1, is_stable=True: by_keys((k, v), dimension),
        case(A, B), case(np.argsort(TIES), V[:6]), case(A, B, 0, False), wrt=(0, 1), weak=True, same_dtype=False,
    ),
    "lax.top_k": entry(
        largest, case(A, 2), case(A, 3, axis=0), case(A, 0), weak=True, dtypes=NUMBERS[5:], wrt=(0,),
    ),
    "lax.approx_max_k": entry(
        lambda x, k, axis, **hints: largest(x, k, axis),
        case(A, 2, 1, recall_target=0.9, reduction_input_size_override=9, aggregate_to_topk=False), wrt=(0,), weak=True,
    ),
    "lax.approx_min_k": entry(smallest, case(A, 2, reduction_dimension=0), wrt=(0,), weak=True),
    "lax.cumsum": of_scan(np.add, case(INTS, 1), case(LONG), case(Z), dtypes=(*NUMBERS[5:], *COMPLEX)),
    "lax.cumprod": of_scan(np.multiply, case(ZEROS), case(Z), case(INTS), dtypes=(*NUMBERS[5:], *COMPLEX)),
    "lax.cummax": of_scan(np.maximum, case(INTS), case(LONG), case(Z), dtypes=INEXACT),
    "lax.cummin": of_scan(np.minimum, case(INTS), case(Z), dtypes=INEXACT),
    "lax.cumlogsumexp": of_scan(LogsOfSums, case(Z), dtypes=INEXACT),
}  # fmt: skip

SORTING = {
    "numpy.sort": entry(
        falling, case(A), case(A, axis=0), case(A, None), case(V, descending=True, stable=True), case(ODD), case(ZERO),
        case(INTS), case(Z), dtypes=(*REAL, *COMPLEX), wrt=(0,), weak=True, same_dtype=False,
    ),
    "numpy.argsort": entry(
        argfalling, case(A), case(A, axis=0), case(TIES), case(TIES, descending=True, stable=True), case(ODD), case(ZERO),
        case(LONG), case(np.round(LONG, 1)), dtypes=NUMBERS, same_dtype=False,
    ),
    "numpy.partition": entry(
        lambda a, kth, axis=-1: np.sort(a, axis), case(A, 2), case(A, 1, axis=0), case(V, [1, -2], None), wrt=(0,), weak=True,
    ),
    "numpy.argpartition": entry(
        lambda a, kth, axis=-1: np.argsort(a, axis), case(A, 2), case(A, 1, axis=0), case(V, 3, None), same_dtype=False,
    ),
    "numpy.lexsort": entry(
        np.lexsort, case((A, B)), case([np.array([1, 0, 2]), np.array([5, 5, 4])]), case((A, B), axis=0), case(INTS),
        same_dtype=False,
    ),
    "numpy.sort_complex": entry(np.sort_complex, case(V), case(Z), case(A), case(INTS), wrt=(0,), same_dtype=False),
    "numpy.searchsorted": entry(
        np.searchsorted, case(np.sort(V), A), case(np.sort(TIES), TIES, side="right"), case(TIES, A, sorter=np.argsort(TIES)),
        case(np.sort(V), 0.5), case(V[:0], A), case(np.sort(LONG), ODD), dtypes=NUMBERS[5:],
        same_dtype=False,
    ),
    "numpy.digitize": entry(
        np.digitize, case(A, np.sort(V)), case(TIES, np.array([2.0, 1.0, 0.0]), right=True),
        case(TIES, np.array([0.0, 1.0, 2.0])), case(TIES, np.array([1.0])), same_dtype=False,
    ),
}  # fmt: skip
SCANS = {
    "numpy.cumsum": entry(
        np.cumsum, case(A), case(A, axis=1), case(A, 0, out=None), case(INTS), case(ZERO), case(INTS, dtype=np.float32),
        case(Z, 1), dtypes=("bool", "int8", "int32", "int64", *INEXACT, "float16", "bfloat16"), wrt=(0,),
        anything=("out",),
    ),
    "numpy.cumprod": entry(
        np.cumprod, case(A), case(A, axis=1), case(ZEROS), case(INTS), case(ZERO), case(Z, 1), dtypes=INEXACT, wrt=(0,)
    ),
    "numpy.nancumsum": entry(np.nancumsum, case(ODD, 1), case(V), case(INTS), wrt=(0,)),
    "numpy.nancumprod": entry(np.nancumprod, case(ODD, 1), case(V), wrt=(0,)),
    "numpy.cumulative_sum": entry(
        np.cumulative_sum, case(V), case(A, axis=1, include_initial=True), case(INTS, axis=0), wrt=(0,),
    ),
    "numpy.cumulative_prod": entry(np.cumulative_prod, case(V), case(A, axis=0, include_initial=True), wrt=(0,)),
    "numpy.diff": entry(
        lambda a, n=1, axis=-1, **ends: np.diff(a, n, axis, **ends),
        case(A), case(A, 2, 0), case(A, n=5), case(V, prepend=1.0, append=V), case(INTS), case(MASK), case(A, 0),
        dtypes=INEXACT, wrt=(0,), weak=True, same_dtype=False,
    ),
    "numpy.ediff1d": entry(np.ediff1d, case(A), case(V, to_begin=1.0, to_end=V), case(INTS), case(V[:1]), wrt=(0,), weak=True),
    "numpy.unwrap": entry(
        np.unwrap, case(5 * A), case(5 * A, axis=0, discont=4.0), case(INTS, period=3), case(INTS, period=4),
        case(4 * V, period=3.0), case(ZERO), wrt=(0,),
    ),
}  # fmt: skip


def sized(function):
    def reference(*args, size=None, fill_value=0):
        found = function(*args)
        if size is None:
            return found
        fill = [np.concatenate([each, np.full((size,), fill_value, each.dtype)])[:size] for each in found]
        return tuple(fill)

    return reference


PLACES = {
    "numpy.nonzero": entry(
        sized(np.nonzero), case(MASK, size=5, fill_value=-1), case(A, size=20), case(A, size=3), case(ZERO, size=2),
        same_dtype=False,
    ),
    "numpy.flatnonzero": entry(
        lambda a, size, fill_value=0: sized(lambda a: (np.flatnonzero(a),))(a, size=size, fill_value=fill_value)[0],
        case(MASK, size=5), case(A, size=20, fill_value=3), same_dtype=False,
    ),
    "numpy.argwhere": entry(
        lambda a, size: np.stack(sized(np.nonzero)(a, size=size), 1), case(MASK, size=5),
        case(A, size=3), same_dtype=False,
    ),
    "numpy.extract": entry(
        lambda c, x, size, fill_value=0: sized(lambda c, x: (np.extract(c, x),))(c, x, size=size, fill_value=fill_value)[0],
        case(A > 0, A, size=12), case(A > 0, B, size=3, fill_value=2.0), wrt=(1,), weak=True, dtypes=INEXACT,
    ),
    "numpy.where": entry(
        np.where, case(A > 0, A, B), case(A > 0, A, 2.0), case(True, A, B), dtypes=INEXACT, wrt=(1, 2), weak=True
    ),
    "numpy.trim_zeros": entry(
        np.trim_zeros, case(np.array([0.0, 0.0, 1.5, 0.0, 2.0, 0.0])), case(np.array([0, 0, 1, 0]), "f"), case(np.zeros(3)),
        case(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])), case(np.array([[0, 0], [0, 1]]), trim="b", axis=0),
        jit=False, vmap=False,
    ),
}  # fmt: skip

X, Y = np.array([3, 1, 3, 2, 1]), np.array([2, 9, 3, 3])


def unique_all(x, size, fill_value=None):
    """The first `size` different elements, filled."""
    values, first, which, counts = np.unique(x, True, True, True)
    more = max(size - values.size, 0)
    ends = (values[0] if fill_value is None else fill_value, first[0], None, 0)
    found = [
        each if end is None else np.concatenate([each, np.full(more, end, each.dtype)])[:size]
        for each, end in zip((values, first, which, counts), ends)
    ]
    return tuple(found)


def of_set(function, **ends):
    def reference(x, y, *unique, size=None, fill_value=None):
        found = function(x, y, *unique)
        end = found[0] if fill_value is None else fill_value
        return found if size is None else np.concatenate([found, np.full(max(size - found.size, 0), end)])[:size]

    cases = (case(X, Y, size=6), case(X, Y, size=2), case(X * 1.5, Y * 1.5, size=5, fill_value=-1.0))
    return entry(reference, *cases, dtypes=("float32", "float64", "int32"), same_dtype=False)


SETS = {
    "numpy.unique": entry(
        lambda x, a, b, c, **how: unique_all(x, **how),
        case(X, True, True, True, size=5), case(TIES, True, True, True, size=2),
        case(TIES, True, True, True, size=4, fill_value=9.0),
        same_dtype=False, dtypes=NUMBERS[1:],
    ),
    "numpy.unique_all": entry(unique_all, case(X, size=4), case(TIES, size=4, fill_value=5.0), same_dtype=False),
    "numpy.unique_counts": entry(lambda *x, **how: unique_all(*x, **how)[::3], case(X, size=4), same_dtype=False),
    "numpy.unique_inverse": entry(lambda *x, **how: unique_all(*x, **how)[::2], case(X, size=4), same_dtype=False),
    "numpy.unique_values": entry(lambda *x, **how: unique_all(*x, **how)[0], case(X, size=4), same_dtype=False),
    "numpy.union1d": of_set(np.union1d),
    "numpy.intersect1d": of_set(np.intersect1d),
    "numpy.setdiff1d": entry(
        lambda x, y, unique=False, size=None, fill_value=0: np.append(np.setdiff1d(x, y, unique), fill_value)[:size],
        case(X, Y, size=2), case(np.array([5.0, 1.0, 2.0]), TIES, True, size=2, fill_value=0), same_dtype=False,
    ),
    "numpy.setxor1d": of_set(np.setxor1d),
}  # fmt: skip

Q = np.array([0.1, 0.5, 0.8])
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear",
    "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


def of_quantile(function, scale=1, *more):
    cases = (
        case(A, 0.3 * scale),
        case(A, 0.5 * scale, axis=0),
        case(A, Q * scale, axis=(0, 1), keepdims=True),
        case(V, 1.0 * scale),
    )
    return entry(function, *cases, *more, dtypes=(*NUMBERS[5:], "int32"), wrt=(0,), same_dtype=False)


QUANTILES = {
    "numpy.quantile": of_quantile(
        np.quantile, 1, *[case(V, Q, method=method) for method in METHODS],
        case(A, 0.4, axis=1, method="inverted_cdf", weights=np.array([1.0, 2.0, 0.5, 1.0])),
    ),
    "numpy.nanquantile": of_quantile(
        np.nanquantile, 1, case(ODD, 0.3, axis=1), case(np.where(np.isinf(ODD), 0.3, ODD), Q, method="hazen"),
    ),
    "numpy.percentile": of_quantile(np.percentile, 100),
    "numpy.nanpercentile": of_quantile(np.nanpercentile, 100, case(ODD, 30.0, axis=1)),
    "numpy.median": entry(
        lambda a, axis=None, out=None, overwrite_input=False, keepdims=False: np.median(a, axis, keepdims=keepdims),
        case(A), case(A, axis=1, keepdims=True), case(A, (0, 1), overwrite_input=True), case(V), case(ODD, 1), case(INTS),
        dtypes=(*NUMBERS[5:],), wrt=(0,), same_dtype=False,
    ),
    "numpy.nanmedian": entry(np.nanmedian, case(A, axis=1), case(ODD, 1), case(V), wrt=(0,)),
    "numpy.nanargmax": entry(np.nanargmax, case(ODD, 1), case(ODD), case(A, axis=0, keepdims=True), same_dtype=False),
    "numpy.nanargmin": entry(np.nanargmin, case(ODD, 1), case(ODD), case(INTS, axis=0), same_dtype=False),
}  # fmt: skip

W = RNG.random(7)
EDGES = np.array([-1.0, 0.0, 0.5, 3.0])


HISTOGRAMS = {
    "numpy.bincount": entry(
        lambda x, weights=None, minlength=0, length=None: np.bincount(x, weights, max(minlength, length or 0))[:length],
        case(np.abs(INTS[0]), minlength=6, length=6), case(np.abs(INTS[0]), RNG.normal(size=4), length=4),
        wrt=(1,), same_dtype=False,
    ),
    "numpy.histogram": entry(
        np.histogram, case(A, 4), case(A, EDGES), case(V, 3, range=(-1.0, 1.0)), case(V, 4, weights=W, density=True),
        case(ZERO, 3), case(INTS, 4), case(np.ones(3), 2), same_dtype=False, rtol={"float32": 1e-4},
    ),
    "numpy.histogram_bin_edges": entry(
        np.histogram_bin_edges, case(A), case(A, 4, (0.0, 2.0)), case(A, EDGES), case(A, 3, weights=A), same_dtype=False,
    ),
    "numpy.histogram2d": entry(
        np.histogram2d, case(V, W, 3), case(V, W, [EDGES, 2], weights=W),
        case(V, W, 2, range=[(-1.0, 1.0), (0.0, 1.0)], density=True),
        case(V, W, EDGES), same_dtype=False, rtol={"float32": 1e-4},
    ),
    "numpy.histogramdd": entry(
        np.histogramdd, case(RNG.normal(size=(9, 3)), 2), case((V, W), (2, EDGES), weights=W, density=True),
        case(RNG.normal(size=(9, 2)), 2, range=[(-1.0, 1.0), (0.0, 1.0)]), same_dtype=False, rtol={"float32": 1e-4},
    ),
}  # fmt: skip

TABLE = {**HISTOGRAMS, **QUANTILES, **SETS, **LAX, **SORTING, **SCANS, **PLACES}
ELSEWHERE: dict[str, str] = {}
