"""numpy.linalg against NumPy."""

import math

import numpy as np
from cases import INEXACT, case, entry
from table_lax_linalg import LOOSE, NONE, NOTHING, POSITIVE, RIGHT, SQUARE, STACK, TALL, WIDE, apart, halves

VECTOR, CUBE = RIGHT[:, 0], apart(2, 2, 3)
REAL, BOTH = ("float32", "float64"), ("float64", "complex128")


def hermitian(function):
    return lambda x, *args, symmetrize_input=True, **kwargs: function(halves(x) if symmetrize_input else x, *args, **kwargs)


def lstsq(a, b, rcond=None, numpy_resid=False):
    x, residuals, rank, values = np.linalg.lstsq(a, b, rcond)
    return x, residuals if len(residuals) or numpy_resid else np.sum((b - a @ x) ** 2, 0, keepdims=True), np.int32(rank), values


def determinant(function):
    """Of one dtype with its operand."""
    return lambda a, **kwargs: tuple(function(a))


TABLE = {
    "numpy.linalg.cholesky": entry(
        hermitian(np.linalg.cholesky), case(POSITIVE), case(POSITIVE, symmetrize_input=False), case(POSITIVE, upper=True),
        case(NOTHING), case(NONE), dtypes=INEXACT, wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.qr": entry(
        lambda a, mode="reduced": np.linalg.qr(a, mode), case(SQUARE), case(TALL), case(WIDE), case(CUBE, mode="r"),
        case(NOTHING), dtypes=INEXACT, wrt=(0,), rtol=LOOSE, anything=("mode",),
    ),
    "numpy.linalg.svd": entry(
        lambda a, full_matrices=True, compute_uv=True: np.linalg.svd(a, full_matrices, compute_uv),
        case(STACK), case(TALL, False), case(WIDE, full_matrices=False), case(WIDE, compute_uv=False), case(NOTHING),
        wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.svdvals": entry(np.linalg.svdvals, case(CUBE), case(TALL), case(NONE), dtypes=INEXACT, wrt=(0,), rtol=LOOSE),
    "numpy.linalg.eig": entry(
        lambda a: [each.astype(np.complex128) for each in np.linalg.eig(a)], case(SQUARE), case(STACK), dtypes=BOTH, wrt=(0,),
    ),
    "numpy.linalg.eigvals": entry(
        lambda a: np.linalg.eigvals(a).astype(np.complex128), case(SQUARE), case(NONE), dtypes=BOTH, wrt=(0,)
    ),
    "numpy.linalg.eigh": entry(
        hermitian(lambda a, UPLO="L": np.linalg.eigh(a, UPLO)), case(POSITIVE), case(POSITIVE, "U", symmetrize_input=False),
        case(NOTHING), wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.eigvalsh": entry(
        hermitian(np.linalg.eigvalsh), case(SQUARE), case(STACK, "U"), case(NONE), dtypes=INEXACT, wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.solve": entry(
        np.linalg.solve, case(SQUARE, RIGHT), case(SQUARE, VECTOR), case(STACK, RIGHT), case(SQUARE, STACK),
        case(NOTHING, np.zeros((0, 2))), dtypes=INEXACT, wrt=(0, 1), rtol=LOOSE,
    ),
    "numpy.linalg.inv": entry(np.linalg.inv, case(SQUARE), case(STACK), case(NONE), dtypes=INEXACT, wrt=(0,), rtol=LOOSE),
    "numpy.linalg.pinv": entry(
        np.linalg.pinv, case(TALL), case(CUBE), case(TALL, 1e-3), case(np.zeros((0, 2))), dtypes=INEXACT, wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.lstsq": entry(
        lstsq, case(TALL, RIGHT[[0, 1, 2, 0]]), case(TALL, VECTOR[[0, 1, 2, 0]]), case(SQUARE, VECTOR, numpy_resid=True),
        dtypes=REAL, wrt=(0, 1), rtol=LOOSE, jit=False, vmap=False,
    ),
    "numpy.linalg.det": entry(np.linalg.det, case(SQUARE), case(STACK), case(NONE), dtypes=INEXACT, wrt=(0,), rtol=LOOSE),
    "numpy.linalg.slogdet": entry(
        lambda a, **_: np.linalg.slogdet(a), case(SQUARE), case(STACK, method="qr"), case(NONE), dtypes=INEXACT, wrt=(0,),
        rtol=LOOSE,
    ),
    "numpy.linalg.matrix_power": entry(
        np.linalg.matrix_power, case(SQUARE, 3), case(STACK, -2), case(SQUARE, 0), case(np.array([[1, 1], [1, 0]]), 7),
        dtypes=INEXACT, wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.tensorinv": entry(
        np.linalg.tensorinv, case(apart(6, 6).reshape(6, 2, 3), 1), case(apart(6, 6).reshape(2, 3, 3, 2)), wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.tensorsolve": entry(
        np.linalg.tensorsolve, case(apart(6, 6).reshape(2, 3, 6), CUBE[0]),
        case(apart(6, 6).reshape(2, 3, 3, 2), apart(3, 2), axes=(0, 1)), wrt=(0, 1), rtol=LOOSE,
    ),
    "numpy.linalg.norm": entry(
        np.linalg.norm, case(VECTOR), case(CUBE), case(VECTOR, 3), case(VECTOR, math.inf), case(VECTOR, -math.inf, 0, True),
        case(VECTOR, 0), case(CUBE, 1, 1), case(SQUARE, "fro"), case(SQUARE, "nuc"), case(SQUARE, 2), case(CUBE, -2, (0, 2)),
        case(CUBE, 1, (2, 0), keepdims=True), case(CUBE, -math.inf, axis=(0, 1)), case(np.zeros(0)),
        case(VECTOR, np.float32(math.inf)), case(np.zeros((0, 2)), 2), case(np.zeros(0), math.inf), dtypes=INEXACT, wrt=(0,),
        rtol=LOOSE,
    ),
    "numpy.linalg.vector_norm": entry(
        np.linalg.vector_norm, case(CUBE), case(1 + np.abs(CUBE), axis=(0, 2), ord=1),
        case(CUBE, axis=-1, keepdims=True, ord=2.5), dtypes=INEXACT, wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.matrix_norm": entry(
        np.linalg.matrix_norm, case(CUBE), case(CUBE, ord="nuc", keepdims=True), case(CUBE, ord=-1), dtypes=INEXACT, wrt=(0,),
        rtol=LOOSE,
    ),
    "numpy.linalg.cond": entry(
        np.linalg.cond, case(SQUARE), case(STACK, 1), case(CUBE, -2), case(SQUARE, "fro"), dtypes=REAL, wrt=(0,), rtol=LOOSE,
    ),
    "numpy.linalg.matrix_rank": entry(
        lambda M, rtol=None, tol=None: np.linalg.matrix_rank(M, tol, rtol=rtol), case(np.ones((3, 3))), case(STACK),
        case(STACK, tol=1.5), case(STACK, 0.9), case(VECTOR), dtypes=INEXACT, same_dtype=False,
    ),
    "numpy.linalg.multi_dot": entry(
        np.linalg.multi_dot, case([TALL, SQUARE, RIGHT]), case((VECTOR, SQUARE, VECTOR)), dtypes=INEXACT, wrt=(0,), weak=True,
        rtol=LOOSE,
    ),
    "numpy.linalg.outer": entry(np.linalg.outer, case(VECTOR, VECTOR[:2]), dtypes=INEXACT, wrt=(0, 1), weak=True),
    "numpy.linalg.cross": entry(np.linalg.cross, case(VECTOR, VECTOR[::-1].copy()), dtypes=INEXACT, wrt=(0, 1), rtol=LOOSE),
    "numpy.linalg.diagonal": entry(np.linalg.diagonal, case(STACK), case(STACK, offset=1), dtypes=INEXACT, wrt=(0,), weak=True),
    "numpy.linalg.trace": entry(
        np.linalg.trace, case(STACK), case(STACK, offset=-1), dtypes=INEXACT, wrt=(0,), rtol=LOOSE
    ),
    "numpy.linalg.matmul": entry(np.linalg.matmul, case(SQUARE, RIGHT), dtypes=INEXACT, wrt=(0, 1), weak=True, rtol=LOOSE),
    "numpy.linalg.tensordot": entry(
        np.linalg.tensordot, case(CUBE, apart(2, 3, 2)), dtypes=INEXACT, wrt=(0, 1), weak=True, rtol=LOOSE
    ),
    "numpy.linalg.vecdot": entry(np.linalg.vecdot, case(RIGHT, RIGHT), dtypes=INEXACT, wrt=(0, 1), weak=True, rtol=LOOSE),
    "numpy.linalg.matrix_transpose": entry(np.linalg.matrix_transpose, case(CUBE), dtypes=INEXACT, wrt=(0,), weak=True),
}  # fmt: skip
