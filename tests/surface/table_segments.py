"""Combinations of segments, and trees as vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
from cases import FLOATS, REAL, case, entry

RNG = np.random.default_rng(0)
A = RNG.permutation(14).reshape(7, 2) / 4.0 - 1.6
ZEROS = np.array([2.0, 0.0, 3.0, 0.0, 0.0, 5.0, 4.0])
IDS = np.array([2, 0, 2, 4, -1, 2, 0])


def segmented(combine: Any, start: Callable[[Any], Any]) -> Callable[..., Any]:
    def reference(x: Any, ids: Any, count: Any = None, *, bucket_size: Any = None, mode: Any = None) -> Any:
        count = int(ids.max(initial=-1)) + 1 if count is None else count
        out = np.full((count, *x.shape[1:]), start(x.dtype), x.dtype)
        for part, number in zip(x, np.clip(ids, 0, count - 1) if mode == "clip" else ids):
            if 0 <= number < count:
                out[number] = combine(out[number], part)
        return out

    return reference


def of(combine: Any, start: Callable[[Any], Any], **options: Any) -> Any:
    cases = [case(A, IDS, 4), case(ZEROS, IDS), case(A, IDS, 3, mode="clip"), case(A, IDS, 5, bucket_size=3)]
    return entry(segmented(combine, start), *cases, case(A[:0], IDS[:0], 2), wrt=(0,), jit=False, vmap=False, **options)


LEAVES = {"b": np.arange(3), "w": A}
TABLE = {
    "segment_sum": of(np.add, lambda dtype: 0, dtypes=REAL[1:]),
    "segment_prod": of(np.multiply, lambda dtype: 1, dtypes=REAL[1:]),
    "segment_min": of(np.minimum, lambda dtype: np.inf, dtypes=FLOATS, order=1),
    "segment_max": of(np.maximum, lambda dtype: -np.inf, dtypes=FLOATS, order=1),
}
ELSEWHERE = {"flatten_util.ravel_pytree": "tests/numpy/test_segments.py"}
