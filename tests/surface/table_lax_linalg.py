"""lax.linalg against NumPy and SciPy."""

import numpy as np
import scipy.linalg
from cases import INEXACT, case, entry

rng = np.random.default_rng(0)


def apart(*shape):
    """Well-conditioned matrices, whose eigenvalues and singular values lie apart."""
    k = min(shape[-2:])
    x = 0.3 * rng.normal(size=shape)
    x[..., range(k), range(k)] += np.arange(1, k + 1)
    return x


SQUARE, STACK, TALL, WIDE = apart(3, 3), apart(2, 3, 3), apart(4, 3), apart(2, 3)
NOTHING, NONE = np.zeros((0, 0)), np.zeros((0, 3, 3))
POSITIVE = STACK @ STACK.swapaxes(-1, -2)
RIGHT = rng.normal(size=(3, 2))
LOOSE = {"float32": 2e-4, "complex64": 2e-4}


def halves(x):
    return (x + np.conj(x).swapaxes(-1, -2)) / 2


def lu(x):
    made, pivots = scipy.linalg.lu_factor(x)
    permutation = list(range(len(x)))
    for i, other in enumerate(pivots):
        permutation[i], permutation[other] = permutation[other], permutation[i]
    return made, pivots, np.array(permutation, np.int32)


def triangular(a, b, lower=False, transpose_a=False, left_side=True, **_):
    part = np.tril(a) if lower else np.triu(a)
    part = part.swapaxes(-1, -2) if transpose_a else part
    return np.linalg.solve(part, b) if left_side else np.linalg.solve(part.T, b.T).T


def tridiagonal(dl, d, du, b):
    return np.linalg.solve(np.diag(d) + np.diag(dl[1:], -1) + np.diag(du[:-1], 1), b)


def product_with_q(a, taus, c, left=True, transpose=False):
    """The reflections, applied one after the other."""
    q = np.eye(len(a), dtype=a.dtype)
    for i, tau in enumerate(taus):
        v = np.concatenate([np.zeros(i), [1], a[i + 1 :, i]])
        q = q @ (np.eye(len(a)) - tau * np.outer(v, v.conj()))
    q = q.conj().T if transpose else q
    return (q @ c if left else c @ q).astype(a.dtype)


TABLE = {
    "lax.linalg.cholesky": entry(
        lambda x, **_: np.linalg.cholesky(halves(x)), case(POSITIVE), case(POSITIVE, symmetrize_input=False), case(NOTHING),
        case(NONE), dtypes=("float32", "float64"), wrt=(0,), rtol=LOOSE,
    ),
    "lax.linalg.cholesky_update": entry(
        lambda r, w: np.linalg.cholesky(r.T @ r + np.outer(w, w)).T, case(np.triu(SQUARE), RIGHT[:, 0]), wrt=(0, 1), rtol=LOOSE,
    ),
    "lax.linalg.lu": entry(lu, case(SQUARE), case(TALL), dtypes=INEXACT, wrt=(0,), rtol=LOOSE, same_dtype=False),
    "lax.linalg.lu_pivots_to_permutation": entry(
        lambda p, n: np.array([2, 0, 1], np.int32), case(np.array([2, 2, 2], np.int32), 3)
    ),
    "lax.linalg.qr": entry(
        lambda x, full_matrices=True, pivoting=False: scipy.linalg.qr(
            x, mode="full" if full_matrices else "economic", pivoting=pivoting
        ),
        case(SQUARE), case(TALL, full_matrices=False), case(WIDE, full_matrices=False),
        case(TALL, full_matrices=False, pivoting=True), dtypes=INEXACT, wrt=(0,), rtol=LOOSE,
    ),
    "lax.linalg.householder_product": entry(
        lambda a, taus: scipy.linalg.lapack.dorgqr(a, taus)[0], case(TALL, 0.3 * np.ones(3)),
        wrt=(0, 1), rtol=LOOSE,
    ),
    "lax.linalg.ormqr": entry(
        product_with_q,
        case(TALL, 0.3 * np.ones(3), TALL), case(TALL, 0.3 * np.ones(2), TALL, transpose=True),
        case(TALL, 0.3 * np.ones(3), TALL.T, left=False), case(TALL, 0.3 * np.ones(3), TALL.T, left=False, transpose=True),
        dtypes=INEXACT, wrt=(0, 1, 2), rtol=LOOSE,
    ),
    "lax.linalg.svd": entry(
        lambda x, full_matrices=True, compute_uv=True, **_: np.linalg.svd(x, full_matrices, compute_uv),
        case(STACK), case(TALL, full_matrices=False), case(WIDE, full_matrices=False), case(WIDE, compute_uv=False),
        case(NOTHING), wrt=(0,), rtol=LOOSE,
    ),
    "lax.linalg.eigh": entry(
        lambda x, lower=True, **_: np.linalg.eigh(halves(x))[::-1], case(STACK), case(STACK, lower=False), case(NOTHING),
        case(POSITIVE, symmetrize_input=False), wrt=(0,), rtol=LOOSE,
    ),
    "lax.linalg.eig": entry(
        lambda x, **_: [each.astype(np.complex128) for each in scipy.linalg.eig(x, left=True)], case(SQUARE),
        dtypes=("float64", "complex128"), wrt=(0,),
    ),
    "lax.linalg.schur": entry(lambda x: scipy.linalg.schur(x), case(SQUARE), dtypes=("float64", "complex128")),
    "lax.linalg.hessenberg": entry(
        lambda x: scipy.linalg.get_lapack_funcs("gehrd", dtype=x.dtype)(x)[:2], case(SQUARE), dtypes=INEXACT, rtol=LOOSE
    ),
    "lax.linalg.triangular_solve": entry(
        triangular, case(SQUARE, RIGHT, left_side=True), case(SQUARE, RIGHT[:, 0], left_side=True, lower=True),
        case(SQUARE, RIGHT.T, left_side=False, transpose_a=True), case(STACK, STACK, left_side=True),
        dtypes=INEXACT, wrt=(0, 1), rtol=LOOSE,
    ),
    "lax.linalg.tridiagonal": entry(
        lambda x: scipy.linalg.lapack.dsytrd(x, lower=1)[:4], case(POSITIVE[0]), rtol=LOOSE
    ),
    "lax.linalg.tridiagonal_solve": entry(
        tridiagonal, case(RIGHT[:, 0], 4 + RIGHT[:, 1], RIGHT[:, 0], RIGHT), dtypes=INEXACT, wrt=(0, 1, 2, 3), rtol=LOOSE
    ),
    "lax.linalg.symmetric_product": entry(
        lambda a, c, alpha=1.0, beta=0.0: alpha * a @ a.T + beta * c, case(TALL, np.eye(4)),
        case(TALL, np.eye(4), alpha=2.0, beta=0.5), wrt=(0, 1), rtol=LOOSE, weak=True,
    ),
}  # fmt: skip
