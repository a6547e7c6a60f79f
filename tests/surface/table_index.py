"""Gathers, scatters, places: what is read and written at indices, and the functions that make or rearrange these."""

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import REAL, case, entry

from pullback import lax

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4))
V = RNG.normal(size=5)
CUBE = RNG.normal(size=(2, 3, 4))
I = np.array([2, 0, 1, 2])  # noqa: E741


def functional(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's that changes its first argument, as one that returns the changed array."""

    def changed(x: Any, *args: Any, inplace: bool, **kwargs: Any) -> Any:
        out = np.array(x)
        function(out, *args, **kwargs)
        return out

    return changed


def sized(condition: Any, a: Any, axis: Any = None, *, size: int, fill_value: Any = 0) -> Any:
    """compress with a size."""
    a, axis = (np.ravel(a), 0) if axis is None else (a, axis)
    found = np.compress(condition, a, axis)
    found = np.take(found, np.arange(min(size, found.shape[axis])), axis)
    width = [(0, size - found.shape[axis] if i == axis else 0) for i in range(a.ndim)]
    return np.pad(found, width, constant_values=fill_value)


ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
BLOCKS = lax.ScatterDimensionNumbers((0, 2), (), (1, 0))  # which overlap
AT, FAR = np.array([[2], [0]]), np.array([[0], [9]])
PLACES = np.array([[1, 0], [0, 2], [1, 1], [5, 0]])
NEW, WINDOWS = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 4, 2))


def scattering(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A scatter by loops over the windows, for the two kinds of dimension numbers that stand here."""

    def scatter(x: Any, at: Any, new: Any, numbers: Any, *, mode: str = "fill", unique_indices: bool = False) -> Any:
        out = np.array(x)
        size = (1, new.shape[1]) if numbers is ROWS else (new.shape[0], new.shape[2])
        for k, vector in enumerate(at):
            start = [int(vector[0]), 0] if numbers is ROWS else [int(vector[1]), int(vector[0])]
            inside = [min(max(i, 0), whole - part) for i, whole, part in zip(start, out.shape, size)]
            if mode == "clip" or inside == start:
                part = tuple([slice(i, i + n) for i, n in zip(inside, size)])
                out[part] = combine(out[part], new[k][None] if numbers is ROWS else new[:, k])
        return out

    return scatter


def scattered(combine: Callable[[Any, Any], Any], *, repeats: bool = True, order: int = 2, dtypes: Any = REAL[1:]) -> Any:
    calls = [case(A, AT, NEW, ROWS, unique_indices=True), case(A, FAR, NEW, ROWS, mode="clip", unique_indices=True)]
    calls += [case(A, PLACES, WINDOWS, BLOCKS), case(A, PLACES, WINDOWS, BLOCKS, mode="clip")] if repeats else []
    return entry(scattering(combine), *calls, dtypes=dtypes, wrt=(0, 2), weak=True, order=order)


def gathered(x: Any, at: Any, numbers: Any, slice_sizes: Any, **how: Any) -> Any:
    """Whole rows."""
    fits = (at[:, 0] >= 0) & (at[:, 0] < len(x))
    rows = x[np.clip(at[:, 0], 0, len(x) - 1)]
    return rows if how.get("mode") == "clip" else np.where(fits[:, None], rows, how.get("fill_value", np.nan))


ROW = lax.GatherDimensionNumbers((1,), (0,), (0,))
TABLE = {
    "lax.gather": entry(
        gathered,
        case(A, FAR, ROW, (1, 4), mode="fill"),
        case(A, FAR, ROW, (1, 4), mode="clip"),
        case(A, AT, ROW, (1, 4)),
        case(A, FAR, ROW, (1, 4), fill_value=2.0, mode="fill"),
        wrt=(0,),
        weak=True,
    ),
    "lax.scatter": scattered(lambda old, new: new, dtypes=REAL),
    "lax.scatter_add": scattered(np.add),
    "lax.scatter_sub": scattered(np.subtract),
    "lax.scatter_mul": scattered(np.multiply, repeats=False),
    "lax.scatter_min": scattered(np.minimum, dtypes=("float32", "float64"), order=1),
    "lax.scatter_max": scattered(np.maximum, dtypes=("float32", "float64"), order=1),
    "lax.index_take": entry(
        lambda src, idxs, axes: np.moveaxis(src[tuple([slice(None)] * axes[0] + [idxs[0] % src.shape[axes[0]]])], axes[0], 0),
        case(A, [I], (0,)),
        case(A, [np.array([5, -1])], (1,)),
        wrt=(0,),
        weak=True,
    ),
    "numpy.put": entry(
        functional(np.put),
        case(A, I, V, inplace=False),
        case(A, np.array([0, -1, 5]), 1, inplace=False),
        case(A, np.array([99, -99]), V[:1], mode="clip", inplace=False),
        case(A, np.array([[13, -1]]), V, mode="wrap", inplace=False),
        case(A, I[:0], V, inplace=False),
        dtypes=REAL,
        wrt=(0, 2),
    ),
    "numpy.put_along_axis": entry(
        functional(np.put_along_axis),
        case(A, np.array([[1], [0], [3]]), np.ones((3, 1)), 1, inplace=False),
        case(A, np.array([[1, 2, 0, 0]]), V[:4], 0, inplace=False),
        case(A, np.array([3, 7]), V[:2], None, inplace=False),
        weak=True,
        wrt=(0, 2),
    ),
    "numpy.place": entry(
        functional(np.place),
        case(A, A > 0, V[:2], inplace=False),
        case(A, np.zeros((3, 4)), V, inplace=False),
        weak=True,
        wrt=(0, 2),
        order=1,
    ),
    "numpy.fill_diagonal": entry(
        functional(np.fill_diagonal),
        case(A, V[:2], inplace=False),
        case(A.T, 1.0, inplace=False),
        case(np.zeros((7, 2)), V, wrap=True, inplace=False),
        case(np.zeros((2, 2, 2)), V[:2], inplace=False),
        case(np.zeros((0, 2)), V, inplace=False),
        dtypes=REAL,
        wrt=(0, 1),
        anything=("wrap",),
    ),
    "numpy.choose": entry(
        np.choose,
        case(I, [V[:4], 2 * V[:4], A[0]]),
        case(np.array([7, -3]), [V[:2], V[1:3]], mode="wrap"),
        case(np.array([7, -3]), [V[:2], V[1:3]], mode="clip"),
        case(np.array([[1], [0]]), A[:2]),
        vmap=False,
        jit=False,
    ),
    "numpy.delete": entry(
        np.delete,
        case(A, 5),
        case(A, 1, axis=0),
        case(A, [0, -1, 0], axis=1),
        case(A, slice(None, None, 2), axis=1),
        case(V, np.array([True, False, True, False, False])),
        case(A, I[:0], axis=0),
        dtypes=REAL,
        wrt=(0,),
        weak=True,
        jit=False,
        vmap=False,
    ),
    "numpy.insert": entry(
        np.insert,
        case(V, 2, 7.0),
        case(V, -1, V[:2]),
        case(A, 1, V[:3], axis=1),
        case(A, [1], V[:3, None], axis=1),
        case(A, [1, 1, 0, 3], np.ones((3, 4)), axis=1),
        case(A, slice(0, 2), 9.0, axis=0),
        case(V, [5, 0, 5], V[:3]),
        weak=True,
        wrt=(0, 2),
        jit=False,
        vmap=False,
    ),
    "numpy.resize": entry(
        np.resize, case(A, (2, 9)), case(A, 5), case(V, (2, 0)), case(A[:0], (2, 2)), dtypes=REAL, wrt=(0,), weak=True
    ),
    "numpy.block": entry(
        np.block,
        case([[A, A[:, :1]], [np.zeros((1, 5))]]),
        case([V, V[:1]]),
        case(A),
        case([[[CUBE], [CUBE]]]),
        jit=False,
        vmap=False,
    ),
    "numpy.packbits": entry(
        np.packbits,
        case(np.array([1, 0, 3, 0, 0, 0, 0, 1, 1])),
        case(np.array([[True, False, True]] * 9), axis=0, bitorder="little"),
        case(np.zeros((2, 0), np.int8), axis=1),
    ),
    "numpy.unpackbits": entry(
        np.unpackbits,
        case(np.array([5, 255], np.uint8)),
        case(np.array([[5], [2]], np.uint8), axis=0, bitorder="little"),
        case(np.array([[5], [2]], np.uint8), axis=1, count=11),
        case(np.zeros((2, 0, 3), np.uint8), axis=0),
        case(np.array([5], np.uint8), count=-3),
    ),
    "numpy.apply_along_axis": entry(
        np.apply_along_axis,
        case(lambda v: v * v[0], 1, CUBE),
        case(lambda v: v[0] * v[1], 0, CUBE),
        case(lambda v: v[:, None] * v[None, :2], 1, CUBE),
        case(lambda v, k: v[:k], 2, CUBE, 2),
        weak=True,
        wrt=(2,),
        anything=(0, 3),
        same_dtype=False,
    ),
    "numpy.apply_over_axes": entry(
        np.apply_over_axes,
        case(lambda x, axis: x * (axis + 1.0), CUBE, (0, 2)),
        case(lambda x, axis: x * x, CUBE, 1),
        weak=True,
        wrt=(1,),
    ),
    "numpy.piecewise": entry(
        np.piecewise,
        case(V, [V < 0, V > 0.5], [lambda x: x * x, 3.0, lambda x: -x]),
        case(A, [A > 0], [lambda x: x * x]),
        case(V, [True, False, True, True, False], [lambda x, k: k * x, 1.0], 2.0),
        weak=True,
        wrt=(0,),
        jit=False,
        vmap=False,
        anything=(3,),
    ),
    "numpy.ix_": entry(
        np.ix_, case(I, [0, 1]), case(np.array([True, False, True]), I), same_dtype=False, vmap=False, jit=False
    ),
    "numpy.diag_indices": entry(np.diag_indices, case(3), case(2, 3), case(0)),
    "numpy.diag_indices_from": entry(np.diag_indices_from, case(np.zeros((2, 2, 2))), same_dtype=False, vmap=False),
    "numpy.tril_indices": entry(np.tril_indices, case(3), case(3, -1, 4), case(0)),
    "numpy.triu_indices": entry(np.triu_indices, case(3), case(3, 1, 2)),
    "numpy.tril_indices_from": entry(np.tril_indices_from, case(A), case(A, k=1), same_dtype=False, vmap=False),
    "numpy.triu_indices_from": entry(np.triu_indices_from, case(A), case(A, k=-1), same_dtype=False, vmap=False),
    "numpy.mask_indices": entry(np.mask_indices, case(3, lambda m, k: m * (np.arange(3) > k), 0), jit=False),
    "numpy.ravel_multi_index": entry(
        np.ravel_multi_index,
        case((np.array([0, 1]), np.array([2, 0])), (2, 3)),
        case((np.array([5, -1]), np.array([[2], [-7]])), (2, 3), mode="wrap"),
        case((np.array([5, -1]), np.array([2, -7])), (2, 3), mode=("clip", "wrap"), order="F"),
        same_dtype=False,
        jit=False,
        vmap=False,
    ),
    "numpy.unravel_index": entry(
        np.unravel_index, case(np.array([0, 5, 3]), (2, 3)), case(np.array([[5]]), (2, 3), order="F"), case(4, 7)
    ),
    "numpy.extract": entry(
        np.extract, case(A > 0, A), case(np.array([0, 2, 0]), V[:3]), wrt=(1,), jit=False, vmap=False, weak=True
    ),
    "numpy.compress": entry(
        lambda c, a, axis=None, **sizes: sized(c, a, axis, **sizes) if sizes else np.compress(c, a, axis),
        case(np.array([True, False, True]), A, axis=0),
        case([0, 1], A),
        case(np.array([True, False, True]), A, axis=1, size=3, fill_value=7.0),
        wrt=(1,),
        jit=False,
        vmap=False,
        weak=True,
    ),
    "numpy.take": entry(
        np.take,
        case(A, I, axis=0, mode="raise"),
        case(A, np.array([7, -9]), axis=1, mode="wrap"),
        case(A, np.array([7, -9]), mode="clip"),
        case(A, 1, axis=1, mode="clip"),
        dtypes=REAL,
        wrt=(0,),
        weak=True,
        jit=False,
        vmap=False,
    ),
}
ELSEWHERE = {"lax.scatter_apply": "tests/numpy/test_places.py"}
