"""Random index expressions against NumPy's: read, written to, compiled with traced indices, batched, differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import pullback as pb
import pullback.numpy as pnp

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")
COMMON = [(), (1,), (2,), (2, 1), (1, 3), (0,)]


@st.composite
def arrays_and_indices(draw: Any) -> tuple[Any, tuple[Any, ...]]:
    """An array, and an index of all kinds of entries, nearly always one that fits it."""
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=0, max_size=4)))
    x = np.arange(1, 1 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    entries: list[Any] = []
    axis, dots = 0, False
    while axis < len(shape) and draw(st.integers(0, 7)):
        size = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "array", "array", "mask", "new", "dots", "truth", "list"]))
        if kind == "new":
            entries.append(None)
        elif kind == "truth":
            entries.append(draw(st.sampled_from([True, True, False, np.True_, np.array(True)])))
        elif kind == "dots":
            if not dots:
                skipped = draw(st.integers(0, len(shape) - axis))
                entries.append(...)
                axis, dots = axis + skipped, True
        elif kind == "mask":
            depth = draw(st.integers(1, min(2, len(shape) - axis)))
            entries.append(rng.random(shape[axis : axis + depth]) < 0.5)
            axis += depth
        else:
            if kind == "slice":
                bound = st.none() | st.integers(-6, 6)
                entries.append(slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, -1, -3, 7]))))
            elif kind == "int":
                number = draw(st.integers(-size, size - 1)) if size else 0
                entries.append(draw(st.sampled_from([int, np.int64, np.int8]))(number))
            else:
                dtype = draw(st.sampled_from(INTEGERS))
                low = 0 if dtype.startswith("u") else -size
                common = draw(st.sampled_from(COMMON)) if size else (0,)  # where nothing is chosen, NumPy checks no bounds
                chosen = rng.integers(low, max(size, low + 1), common).astype(dtype)
                entries.append(chosen.tolist() if kind == "list" and chosen.ndim else chosen)
            axis += 1
    return x, tuple(entries)


def numpys(x: Any, index: tuple[Any, ...]) -> Any:
    """What NumPy reads; None if it refuses the index."""
    try:
        return x[tuple([np.asarray(one, np.intp) if isinstance(one, list) else one for one in index])]
    except IndexError:
        return None


def is_traceable(entry: Any) -> bool:
    return isinstance(entry, np.ndarray) and entry.dtype.kind in "iu"


def with_traced(index: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """The index as a function of its arrays of integers, and these."""
    found = [i for i, one in enumerate(index) if is_traceable(one)]

    def made(values: Any) -> tuple[Any, ...]:
        entries = list(index)
        for i, value in zip(found, values, strict=True):
            entries[i] = value
        return tuple(entries)

    return made, [index[i] for i in found]


OPTIONS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=150, **OPTIONS)
@given(arrays_and_indices())
@example((np.zeros((0, 0, 1, 0), np.float32), (np.zeros(0, np.int8), ..., [0])))
def test_reading_and_writing(case: tuple[Any, tuple[Any, ...]]) -> None:
    x, index = case
    expected = numpys(x, index)
    if expected is None:
        with pytest.raises((IndexError, ValueError)):
            pnp.asarray(x)[index]
        return
    try:
        got = pnp.asarray(x)[index]
    except IndexError:  # NumPy lets places beyond the end pass if an array beside them is empty, so that none is chosen
        assert any([is_traceable(one) and not one.size for one in index])
        return
    assert got.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(got), expected)
    values = -np.arange(expected.size, dtype=np.float32).reshape(expected.shape) - 0.5
    place = tuple([np.asarray(one, np.intp) if isinstance(one, list) else one for one in index])
    for method, ufunc in (("set", None), ("add", np.add), ("multiply", np.multiply), ("min", np.minimum), ("max", np.maximum)):
        for new in (values, np.float32(3.0)):
            changed = np.array(x)
            if ufunc is None:
                changed[place] = new
            else:
                ufunc.at(changed, place, new)
            updated = getattr(pnp.asarray(x).at[index], method)(new)
            assert updated.shape == x.shape and updated.dtype == x.dtype
            np.testing.assert_allclose(np.asarray(updated), changed, rtol=1e-6)
    applied = np.array(x)
    np.negative.at(applied, place)
    np.testing.assert_array_equal(np.asarray(pnp.asarray(x).at[index].apply(lambda part: -part)), applied)


@settings(max_examples=40, **OPTIONS)
@given(arrays_and_indices())
def test_traced(case: tuple[Any, tuple[Any, ...]]) -> None:
    x, index = case
    expected = numpys(x, index)
    if expected is None:
        return
    made, arrays = with_traced(index)
    np.testing.assert_array_equal(np.asarray(pb.jit(lambda x, a: x[made(a)])(x, arrays)), expected)
    weights = np.cos(np.arange(expected.size, dtype=np.float32)).reshape(expected.shape)
    place = tuple([np.asarray(one, np.intp) if isinstance(one, list) else one for one in index])
    summed = np.zeros_like(x)
    np.add.at(summed, place, weights)
    gradient = pb.jit(pb.grad(lambda x, a: (x[made(a)] * weights).sum()))(x, arrays)
    np.testing.assert_allclose(np.asarray(gradient), summed, atol=1e-6)
    updated = pb.jit(lambda x, v, a: x.at[made(a)].add(v))(x, weights, arrays)
    np.testing.assert_allclose(np.asarray(updated), x + summed, rtol=1e-6, atol=1e-6)
    replaced = np.array(x)
    replaced[place] = weights
    np.testing.assert_allclose(np.asarray(pb.jit(lambda x, v, a: x.at[made(a)].set(v))(x, weights, arrays)), replaced)
    batch = np.stack([x, np.asarray(2 * x)])
    rows = pb.vmap(lambda x, a: x[made(a)], in_axes=(0, None))(batch, arrays)
    np.testing.assert_array_equal(np.asarray(rows), np.stack([expected, 2 * expected]))
    if arrays:
        many = [np.stack([one, one[::-1] if one.ndim else one]) for one in arrays]
        rows = pb.vmap(lambda x, a: x[made(a)])(batch, many)
        for k in range(2):
            np.testing.assert_array_equal(np.asarray(rows[k]), batch[k][tuple(made([one[k] for one in many]))])
