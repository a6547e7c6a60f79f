"""lax: shapes, bits, ragged products, and what is said to the compiler."""

from typing import Any

import numpy as np
from cases import REAL, case, entry

from pullback import lax

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4))
CUBE = RNG.normal(size=(2, 3, 4))
EXPERTS = RNG.normal(size=(3, 4, 2))
U64 = np.array([2**64 - 1, 2**63, 12345678901234567, 0, 1], np.uint64)
I64 = np.array([2**63 - 1, -(2**63), -1, 12345678901234567, 5])


def high(x: Any, y: Any) -> Any:
    """The upper bits of products, by Python's integers."""
    found = [(int(a) * int(b)) >> (8 * x.dtype.itemsize) for a, b in zip(*map(np.ravel, np.broadcast_arrays(x, y)))]
    return np.array(found, x.dtype).reshape(np.broadcast_shapes(x.shape, np.shape(y)))


def ragged(x: Any, y: Any, sizes: Any, group_offset: Any = None) -> Any:
    """Row by row."""
    group = np.repeat(np.arange(len(sizes)), sizes)[: len(x)] - (0 if group_offset is None else int(group_offset[0]))
    out = np.zeros((len(x), y.shape[2]), x.dtype)
    for row, g in enumerate(group):
        out[row] = x[row] @ y[g] if 0 <= g < len(y) else 0
    return out


def of_groups(x: Any, y: Any, sizes: Any, numbers: Any) -> Any:
    """The three kinds of ragged products, for the dimension numbers that stand here."""
    if numbers is BATCHED:
        return np.einsum("bmk,bkn->bmn", x, y)
    if numbers is CONTRACTED:
        return np.stack([x[:, end - n : end] @ y[end - n : end] for n, end in zip(sizes, np.cumsum(sizes))])
    out = np.zeros((len(x), x.shape[1], y.shape[3]))
    for b, own in enumerate(sizes):
        for g, (n, end) in enumerate(zip(own, np.cumsum(own))):
            out[b, end - n : end] = x[b, end - n : end] @ y[g, b]
    return out


BATCHED = lax.RaggedDotDimensionNumbers((((2,), (1,)), ((0,), (0,))), [0], [])
CONTRACTED = lax.RaggedDotDimensionNumbers((((1,), (0,)), ((), ())), [1], [])
REMAINING = lax.RaggedDotDimensionNumbers((((2,), (2,)), ((0,), (1,))), [1], [0])


def in_bfloat16(x: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounded to 7 bits behind the point."""
    assert (exponent_bits, mantissa_bits) == (8, 7)
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(fraction * 256), exponent - 8)


TABLE = {
    "lax.collapse": entry(
        lambda x, start, stop=None: x.reshape((*x.shape[:start], -1, *(() if stop is None else x.shape[stop:]))),
        case(CUBE, 0, 2),
        case(CUBE, 1),
        case(CUBE, 1, 2),
        dtypes=REAL,
        wrt=(0,),
        weak=True,
    ),
    "lax.split": entry(
        lambda x, sizes, axis=0: np.split(x, np.cumsum(sizes)[:-1], axis),
        case(A, [1, 2]),
        case(A, (0, 3, 1), axis=-1),
        dtypes=REAL,
        wrt=(0,),
        weak=True,
    ),
    "lax.stack": entry(np.stack, case([A, 2 * A]), case([A, A], axis=-1), dtypes=REAL, weak=True),
    "lax.unstack": entry(
        lambda x, axis=0: list(np.moveaxis(x, axis, 0)), case(A), case(A, axis=1), dtypes=REAL, wrt=(0,), weak=True
    ),
    "lax.tile": entry(np.tile, case(A, [2, 1]), case(A, (0, 3)), dtypes=REAL, wrt=(0,), weak=True),
    "lax.broadcast_to_rank": entry(
        lambda x, rank: x.reshape((1,) * (rank - x.ndim) + x.shape), case(A, 4), case(A, 1), dtypes=REAL, wrt=(0,), weak=True
    ),
    "lax.broadcast_like": entry(
        lambda x, like: np.broadcast_to(x, like.shape), case(A, 2 * A), case(np.array(2.5), A), wrt=(0,), weak=True, vmap=False
    ),
    "lax.empty": entry(np.zeros, case((2, 3), np.float32), case(0, np.dtype("int8")), vmap=False),
    "lax.clz": entry(
        lambda x: np.array([8 * x.dtype.itemsize - int(each).bit_length() for each in x], x.dtype),
        case(np.array([0, 1, 7, 127], np.int8)),
        case(U64),
        case(np.array([1, 2**31], np.uint32)),
    ),
    "lax.mulhi": entry(
        high,
        case(U64, U64[::-1]),
        case(I64, I64[::-1]),
        case(I64, I64[:1].reshape(())),
        case(np.array([127, -128, -128], np.int8), np.array([127, 127, -128], np.int8)),
        case(np.array([2**31, 7], np.uint32), np.array([2**32 - 1, 9], np.uint32)),
        vmap=False,
    ),
    "lax.reduce_precision": entry(
        in_bfloat16, case(A, 8, 7), case(np.array([1.0, -0.0, 3.14159]), exponent_bits=8, mantissa_bits=7), weak=True
    ),
    "lax.ragged_dot": entry(
        ragged,
        case(RNG.normal(size=(5, 4)), EXPERTS, np.array([2, 0, 3])),
        case(RNG.normal(size=(5, 4)), EXPERTS, np.array([1, 2, 1])),
        case(RNG.normal(size=(5, 4)), EXPERTS[:2], np.array([1, 2, 2]), group_offset=np.array([1])),
        wrt=(0, 1),
        weak=True,
        dtypes=("float32", "float64", "bfloat16"),
    ),
    "lax.ragged_dot_general": entry(
        of_groups,
        case(CUBE, RNG.normal(size=(2, 4, 2)), np.array([1, 1]), BATCHED),
        case(A, RNG.normal(size=(4, 2)), np.array([3, 0, 1]), CONTRACTED),
        case(CUBE, RNG.normal(size=(3, 2, 4, 2)), np.array([[1, 1, 1], [0, 3, 0]]), REMAINING),
        wrt=(0, 1),
        weak=True,
        same_dtype=False,
    ),
    "lax.optimization_barrier": entry(lambda x: x, case(A), case(np.arange(3)), dtypes=REAL, wrt=(0,), weak=True),
}
ELSEWHERE = dict.fromkeys(
    ("lax.platform_dependent", "lax.dtype", "lax.pbroadcast", "lax.broadcast_shapes"), "tests/numpy/test_lax_shapes.py"
)
