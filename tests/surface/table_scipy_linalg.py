"""scipy.linalg against SciPy."""

import numpy as np
import scipy.linalg as sl
from cases import INEXACT, case, entry
from table_lax_linalg import LOOSE, POSITIVE, RIGHT, SQUARE, STACK, TALL, WIDE, apart

VECTOR, BOTH = RIGHT[:, 0], ("float64", "complex128")
SPD = POSITIVE[0]
LU, CHOLESKY = sl.lu_factor(SQUARE), sl.cho_factor(SPD)


def stacked(function):
    """A function of one matrix, of each of a stack; where it returns several, a tuple of stacks."""

    def apply(x, *args, **kwargs):
        if x.ndim == 2:
            return function(x, *args, **kwargs)
        found = [function(each, *args, **kwargs) for each in x]
        return tuple(map(np.stack, zip(*found))) if isinstance(found[0], tuple) else np.stack(found)

    return apply


def as_complex(function):
    return lambda x, *args, **kwargs: stacked(function)(x.astype(np.complex128), *args, **kwargs)


def lu(a, permute_l=False, p_indices=False):
    found = sl.lu(a, permute_l=permute_l, p_indices=p_indices)
    return (found[0].astype(np.int32), *found[1:]) if p_indices else found


TABLE = {
    "scipy.linalg.cholesky": entry(
        stacked(sl.cholesky), case(POSITIVE), case(POSITIVE, lower=True),
        wrt=(0,), rtol=LOOSE,
    ),
    "scipy.linalg.cho_solve": entry(
        sl.cho_solve, case((np.triu(CHOLESKY[0]), False), RIGHT),
        case((np.tril(CHOLESKY[0].T), True), VECTOR), case((np.triu(CHOLESKY[0]), False), STACK),
        wrt=(1,), rtol=LOOSE, jit=False, vmap=False,
    ),
    "scipy.linalg.lu": entry(
        lu, case(SQUARE), case(TALL, True), case(WIDE), case(SQUARE, p_indices=True), rtol=LOOSE, wrt=(0,)
    ),
    "scipy.linalg.lu_factor": entry(sl.lu_factor, case(SQUARE), rtol=LOOSE, wrt=(0,), same_dtype=False),
    "scipy.linalg.lu_solve": entry(
        lambda f, b, trans=0: sl.lu_solve(LU, b, trans), case(LU, RIGHT), case(LU, VECTOR, 1), case(LU, RIGHT, trans=2),
        case(LU, STACK, 1),
        wrt=(1,), rtol=LOOSE, jit=False, vmap=False,
    ),
    "scipy.linalg.qr": entry(
        lambda a, mode="full", pivoting=False: sl.qr(a, mode=mode, pivoting=pivoting), case(SQUARE),
        case(TALL, mode="economic"), case(TALL, mode="economic", pivoting=True), wrt=(0,), rtol=LOOSE,
    ),
    "scipy.linalg.qr_multiply": entry(
        lambda a, c, mode="right": sl.qr_multiply(a, c, mode), case(SQUARE, RIGHT.T), case(TALL, SQUARE, "left"),
        wrt=(0, 1), rtol=LOOSE,
    ),
    "scipy.linalg.svd": entry(
        lambda a, full_matrices=True, compute_uv=True, **_: np.linalg.svd(a, full_matrices, compute_uv),
        case(SQUARE), case(TALL, False, lapack_driver="gesvd"), case(WIDE, compute_uv=False), wrt=(0,), rtol=LOOSE,
    ),
    "scipy.linalg.schur": entry(sl.schur, case(SQUARE), case(SQUARE, "complex"), dtypes=BOTH),
    "scipy.linalg.rsf2csf": entry(
        sl.rsf2csf, case(np.array([[0.0, 1.0], [-1.0, 0.0]]), np.eye(2)), case(*sl.schur(SQUARE)),
        case(SQUARE, np.eye(len(SQUARE))), case(np.ones((1, 1)), np.ones((1, 1))), dtypes=BOTH,
    ),
    "scipy.linalg.hessenberg": entry(
        lambda a, calc_q=False: sl.hessenberg(a, calc_q), case(apart(4, 4)), case(apart(4, 4), calc_q=True), dtypes=BOTH
    ),
    "scipy.linalg.polar": entry(
        lambda a, side="right": sl.polar(a, side), case(SQUARE), case(TALL), case(WIDE), case(SQUARE, "left"), dtypes=INEXACT,
        wrt=(0,), rtol=LOOSE,
    ),
    "scipy.linalg.eigh": entry(
        lambda a, b=None, lower=True, eigvals_only=False: sl.eigh(a, b, lower=lower, eigvals_only=eigvals_only), case(SQUARE),
        case(SQUARE, lower=False, eigvals_only=True), wrt=(0,), rtol=LOOSE,
    ),
    "scipy.linalg.eigh_tridiagonal": entry(
        lambda d, e, eigvals_only=False, select="a", select_range=None: sl.eigh_tridiagonal(
            d, e, eigvals_only, select, select_range
        ),
        case(np.arange(4.0), 0.3 * np.ones(3), eigvals_only=True),
        case(np.arange(4.0), 0.3 * np.ones(3), eigvals_only=True, select="i", select_range=(1, 2)), wrt=(0, 1), rtol=LOOSE,
        anything=("eigvals_only",), vmap=False,
    ),
    "scipy.linalg.solve": entry(
        lambda a, b, assume_a="gen": np.linalg.solve(a, b), case(SQUARE, RIGHT), case(SQUARE, VECTOR, assume_a="sym"),
        wrt=(0, 1), rtol=LOOSE,
    ),
    "scipy.linalg.solve_triangular": entry(
        lambda a, b, trans=0, lower=False, unit_diagonal=False: sl.solve_triangular(a, b, trans, lower, unit_diagonal),
        case(SQUARE, RIGHT), case(SQUARE, VECTOR, "T", lower=True), case(SQUARE, RIGHT, 2, unit_diagonal=True),
        case(SQUARE, STACK), case(STACK, VECTOR), dtypes=INEXACT, wrt=(0, 1), rtol=LOOSE,
    ),
    "scipy.linalg.solve_sylvester": entry(
        sl.solve_sylvester, case(SQUARE, SPD, SQUARE), case(SQUARE, SPD[:2, :2], RIGHT), wrt=(0, 1, 2), rtol=LOOSE
    ),
    "scipy.linalg.det": entry(sl.det, case(SQUARE), case(STACK), dtypes=INEXACT, wrt=(0,), rtol=LOOSE),
    "scipy.linalg.inv": entry(sl.inv, case(SQUARE), dtypes=INEXACT, wrt=(0,), rtol=LOOSE),
    "scipy.linalg.expm": entry(sl.expm, case(0.3 * SQUARE), case(0.3 * STACK), dtypes=INEXACT, wrt=(0,), rtol=LOOSE),
    "scipy.linalg.expm_frechet": entry(
        lambda A, E, compute_expm=True: sl.expm_frechet(A, E, compute_expm=compute_expm), case(0.3 * SQUARE, SPD),
        case(0.3 * SQUARE, SPD, compute_expm=False), wrt=(0, 1), rtol=LOOSE,
    ),
    "scipy.linalg.logm": entry(as_complex(sl.logm), case(SQUARE), case(STACK), wrt=(0,), rtol=LOOSE, same_dtype=False),
    "scipy.linalg.sqrtm": entry(as_complex(sl.sqrtm), case(SQUARE), case(STACK), wrt=(0,), rtol=LOOSE, same_dtype=False),
    "scipy.linalg.funm": entry(
        as_complex(lambda A, func: sl.expm(A)), case(SQUARE, np.exp), rtol=LOOSE, same_dtype=False
    ),
    "scipy.linalg.block_diag": entry(
        sl.block_diag, case(SQUARE, RIGHT), case(np.arange(3), 2), dtypes=INEXACT, wrt=(0, 1), same_dtype=False, vmap=False
    ),
    "scipy.linalg.toeplitz": entry(sl.toeplitz, case(VECTOR), case(VECTOR, RIGHT[:2, 1]), dtypes=INEXACT, wrt=(0,), vmap=False),
    "scipy.linalg.hankel": entry(sl.hankel, case(VECTOR), case(VECTOR, RIGHT[:2, 1]), dtypes=INEXACT, wrt=(0,)),
    "scipy.linalg.circulant": entry(sl.circulant, case(VECTOR), case(np.arange(3)), dtypes=INEXACT, wrt=(0,), same_dtype=False),
    "scipy.linalg.companion": entry(sl.companion, case(VECTOR), dtypes=INEXACT, wrt=(0,), rtol=LOOSE),
    "scipy.linalg.fiedler_companion": entry(
        sl.fiedler_companion, case(VECTOR), dtypes=INEXACT, wrt=(0,), rtol=LOOSE
    ),
    "scipy.linalg.leslie": entry(sl.leslie, case(VECTOR, RIGHT[:2, 1]), wrt=(0, 1)),
    "scipy.linalg.fiedler": entry(sl.fiedler, case(VECTOR), wrt=(0,)),
    "scipy.linalg.convolution_matrix": entry(
        lambda a, n, mode="full": sl.convolution_matrix(a, n, mode), case(VECTOR, 2), case(VECTOR, 4, "same"),
        case(VECTOR, 2, mode="valid"), wrt=(0,),
    ),
    "scipy.linalg.hilbert": entry(sl.hilbert, case(3), rtol=LOOSE),
    "scipy.linalg.invhilbert": entry(sl.invhilbert, case(3), rtol=LOOSE),
    "scipy.linalg.hadamard": entry(sl.hadamard, case(4), case(2, np.float32), same_dtype=False),
    "scipy.linalg.helmert": entry(sl.helmert, case(3), case(3, full=True), rtol=LOOSE),
    "scipy.linalg.pascal": entry(sl.pascal, case(4), case(3, "lower"), case(3, kind="upper"), same_dtype=False),
    "scipy.linalg.invpascal": entry(sl.invpascal, case(4), case(3, "lower"), same_dtype=False),
    "scipy.linalg.dft": entry(sl.dft, case(3), case(4, "sqrtn"), rtol={"float32": 1e-6}),
}  # fmt: skip
ELSEWHERE = {f"scipy.linalg.{name}": "tests/scipy/test_linalg.py" for name in ("cho_factor",)}
ELSEWHERE |= {f"scipy.linalg.{name}": "tests/surface/table_numpy_linalg.py" for name in ("norm", "lstsq", "pinv")}
ELSEWHERE |= {f"scipy.sparse.linalg.{name}": "tests/scipy/test_krylov.py" for name in ("cg", "bicgstab", "gmres")}
