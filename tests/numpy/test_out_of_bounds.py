"""What happens at traced indices that are out of bounds: as docs/errors.md says, and as jax 0.10.2 does (recorded)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp

X = np.arange(1.0, 6.0, dtype=np.float32)
LEAST, MOST = -(2**31), 2**31 - 1
PLACES = [0, 4, 5, 9, MOST, -1, -5, -6, LEAST]
NAN = np.nan

# What is read at each of PLACES, by mode and by whether negative indices count from the end.
READ: dict[tuple[Any, bool], list[float]] = {
    (None, True): [1, 5, 5, 5, 5, 5, 1, 1, 1],
    (None, False): [1, 5, 5, 5, 5, 1, 1, 1, 1],
    ("clip", True): [1, 5, 5, 5, 5, 5, 1, 1, 1],
    ("clip", False): [1, 5, 5, 5, 5, 1, 1, 1, 1],
    ("fill", True): [1, 5, NAN, NAN, NAN, 5, 1, NAN, NAN],
    ("fill", False): [1, 5, NAN, NAN, NAN, NAN, NAN, NAN, NAN],
    ("drop", True): [1, 5, NAN, NAN, NAN, 5, 1, NAN, NAN],
}
# X after adding 10 at each of PLACES.
ADDED: dict[tuple[Any, bool], list[float]] = {
    (None, True): [21, 2, 3, 4, 25],
    (None, False): [11, 2, 3, 4, 15],
    ("drop", True): [21, 2, 3, 4, 25],
    ("fill", False): [11, 2, 3, 4, 15],
    ("clip", True): [41, 2, 3, 4, 55],
    ("clip", False): [51, 2, 3, 4, 45],
}
TAKEN: dict[Any, list[float]] = {
    None: READ["fill", True],
    "fill": READ["fill", True],
    "clip": READ["clip", False],
    "wrap": [1, 5, 1, 5, 3, 5, 1, 5, 3],
}
SLICED = [[1, 2], [4, 5], [4, 5], [4, 5], [4, 5], [4, 5], [1, 2], [1, 2], [1, 2]]  # lax.dynamic_slice of two, at each


def traced(f: Any, *args: Any) -> Any:
    return np.asarray(pb.jit(f)(*args))


@pytest.mark.parametrize("mode, wraps", READ)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_reading(mode: Any, wraps: bool, dtype: str) -> None:
    how = {"mode": mode, "wrap_negative_indices": wraps}
    places = np.array(PLACES, dtype)
    np.testing.assert_array_equal(traced(lambda i: pnp.asarray(X).at[i].get(**how), places), READ[mode, wraps])
    for place, expected in zip(places, READ[mode, wraps], strict=True):
        np.testing.assert_array_equal(traced(lambda i: pnp.asarray(X).at[i].get(**how), place), expected)
    if mode is None and wraps:
        np.testing.assert_array_equal(traced(lambda i: pnp.asarray(X)[i], places), READ[mode, wraps])
    named = {"drop": "FILL_OR_DROP", "fill": "FILL_OR_DROP", "clip": "CLIP"}.get(mode)
    if named:
        how["mode"] = pb.lax.GatherScatterMode[named]
        np.testing.assert_array_equal(traced(lambda i: pnp.asarray(X).at[i].get(**how), places), READ[mode, wraps])


@pytest.mark.parametrize("mode, wraps", ADDED)
def test_writing(mode: Any, wraps: bool) -> None:
    how = {"mode": mode, "wrap_negative_indices": wraps}
    places = np.array(PLACES)
    found = traced(lambda i: pnp.asarray(X).at[i].add(10.0, **how), places)
    np.testing.assert_array_equal(found, ADDED[mode, wraps])
    one_by_one = pb.jit(lambda x, i: x.at[i].add(10.0, **how))
    x = pnp.asarray(X)
    for place in places:
        x = one_by_one(x, place)
    np.testing.assert_array_equal(np.asarray(x), ADDED[mode, wraps])
    gradient = pb.jit(pb.grad(lambda v, i: (pnp.asarray(X).at[i].add(v, **how) * X).sum()))(10.0, places)
    assert float(gradient) == ((np.asarray(ADDED[mode, wraps]) - X) / 10 * X).sum()


def test_functions() -> None:
    places = np.array(PLACES)
    for mode, expected in TAKEN.items():
        np.testing.assert_array_equal(traced(lambda i, mode=mode: pnp.take(X, i, mode=mode), places), expected)
        np.testing.assert_array_equal(np.asarray(pnp.take(X, places, mode=mode)), expected)
        if mode != "wrap":
            along = traced(lambda i, mode=mode: pnp.take_along_axis(pnp.asarray(X), i, 0, mode=mode), places)
            np.testing.assert_array_equal(along, TAKEN["fill"] if mode != "clip" else READ["clip", True])
    for place, expected in zip(places, SLICED, strict=True):
        found = traced(lambda i: pb.lax.dynamic_slice(X, (i,), (2,)), np.int32(place))
        np.testing.assert_array_equal(found, expected)


def test_windows() -> None:
    row = pb.lax.GatherDimensionNumbers((), (0,), (0,))
    far = np.array([[4], [9]])
    for run in (lambda f: f(far), lambda f: traced(f, far)):
        assert run(lambda i: pb.lax.gather(X, i, row, (1,))).tolist() == [5, 5]  # as JAX on the CPU, where it promises nothing
        assert run(lambda i: pb.lax.gather(X, i, row, (1,), fill_value=-1.0)).tolist() == [5, -1]
        found = run(lambda i: pb.lax.scatter(X, i, X[:2], row.as_scatter()))
        assert found.tolist() == [1, 2, 3, 4, 1]


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int64"])
def test_indices_beyond_32_bits_are_far_out_and_do_not_wrap_around(dtype: str) -> None:
    far = np.array([np.iinfo(dtype).max, 1], dtype)  # of these, JAX makes 32-bit ones first, which may be -1
    assert traced(lambda i: pnp.asarray(X)[i], far).tolist() == [5, 2]
    assert traced(lambda i: pnp.asarray(X).at[i].set(0.0), far).tolist() == [1, 0, 3, 4, 5]
    assert traced(lambda i: pnp.asarray(X).at[i].set(0.0, mode="clip"), far).tolist() == [1, 0, 3, 4, 0]
    assert traced(lambda i: pnp.take(X, i), far).tolist()[1] == 2 and np.isnan(traced(lambda i: pnp.take(X, i), far)[0])
    assert traced(lambda i: pnp.take(X, i, mode="wrap"), far).tolist() == [X[int(far[0]) % 5], 2]
    assert traced(lambda i: pnp.put(X, i, 0.0, mode="wrap", inplace=False), far)[int(far[0]) % 5] == 0
    assert traced(lambda i: pnp.put(X, i, 0.0, inplace=False), far).tolist() == [1, 0, 3, 4, 0]
