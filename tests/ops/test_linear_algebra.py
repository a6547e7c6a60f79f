"""Linear algebra at its edges: singular matrices, equal eigenvalues, phases of complex vectors, failures, and compiled programs
that call LAPACK."""

import os
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax, linalg

rng = np.random.default_rng(0)
A = rng.normal(size=(4, 4)) + np.diag(np.arange(1.0, 5))
C = A + 0.5j * rng.normal(size=(4, 4))
SINGULAR = np.outer([1.0, 2, 3], [1.0, -1, 2]) + np.diag([0, 0, 1.0])  # of rank 2
RANK_ONE = np.outer([1.0, 2, 3], [1.0, -1, 2])


def adj(x):
    return x.swapaxes(-1, -2).conj()


# ---- derivatives that numbers do not show, for they depend on how a vector is turned -----------------------------------------


@pytest.mark.parametrize("x", [A, C, A[:, :2], A[:2], C[:, :3], C[:2], np.stack([A, A.T])], ids=lambda x: f"{x.dtype}{x.shape}")
def test_singular_vectors_have_derivatives(x):
    def made(x):
        u, s, vh = linalg.svd(x, full_matrices=False)
        return (u * pnp.exp(-s)[..., None, :]) @ vh  # does not depend on the phases

    pb.testing.check_gradients(made, (x,))
    if x.dtype == float:
        pb.testing.check_gradients(lambda x: tuple(linalg.svd(x, full_matrices=False)), (x,))


@pytest.mark.parametrize("x", [A, C], ids=["real", "complex"])
def test_eigenvectors_have_derivatives(x):
    def made(x):
        w, v = linalg.eigh(x + adj(x))
        return (v * pnp.exp(-w / 10)) @ adj(v)

    pb.testing.check_gradients(made, (x,))
    for left in (True, False):
        pb.testing.check_gradients(lambda x, left=left: lax.linalg.eig(x, compute_left_eigenvectors=left), (x,))
    if x.dtype == float:
        pb.testing.check_gradients(lambda x: tuple(linalg.eigh(x)), (x,))


def test_what_is_symmetric_in_equal_eigenvalues_has_a_derivative():
    for f in (lambda x: pnp.sum(linalg.eigh(x).eigenvalues ** 3), lambda x: pnp.sum(linalg.svdvals(x) ** 3)):
        pb.testing.check_gradients(f, (2 * np.eye(3),), order=1)


def test_the_vectors_of_a_matrix_of_low_rank_have_derivatives():
    """Those of the singular values 0 are not determined; nothing here depends on them."""
    x = np.outer([1.0, 2, 3, 1], [1.0, 0, 2]).astype(float)
    x[:, 1] = 0
    for symmetric in (np.diag([3.0, 0, 0]), np.diag([0, 0, 2.0])):
        pb.testing.check_gradients(lambda x: linalg.eigh(x).eigenvectors[:, -1] ** 2, (symmetric,), order=1)
    gradient = pb.grad(lambda x: linalg.svd(x, full_matrices=False).U[0, 0] ** 2)(np.diag([3.0, 0, 0]))
    assert np.isfinite(np.asarray(gradient)).all()


def test_a_derivative_that_depends_on_how_vectors_of_equal_eigenvalues_turn_is_not_finite():
    turned = pb.jacrev(lambda x: linalg.eigh(x).eigenvectors)(np.eye(3))
    assert not np.isfinite(np.asarray(turned)).all()
    spectral = pb.jvp(lambda x: (lambda w, v: (v * pnp.exp(w)) @ v.T)(*linalg.eigh(x)), (np.eye(3),), (np.ones((3, 3)),))[1]
    assert not np.isfinite(np.asarray(spectral)).any()


@pytest.mark.parametrize("x", [SINGULAR, RANK_ONE, np.zeros((3, 3)), SINGULAR + 1j * RANK_ONE], ids=str)
def test_the_determinant_of_a_singular_matrix_has_derivatives(x):
    pb.testing.check_gradients(linalg.det, (x,))
    pb.testing.check_gradients(pb.jit(linalg.det), (x,))


def test_the_determinant_of_a_large_diagonal_matrix():
    d = np.arange(1.0, 13)
    np.testing.assert_allclose(np.diag(pb.grad(linalg.det)(np.diag(d))), np.prod(d) / d, rtol=1e-10)


def test_the_pseudoinverse_and_least_squares_have_derivatives_of_their_rank():
    pb.testing.check_gradients(lambda u, v: linalg.pinv(u @ v, rtol=1e-8), (A[:, :2], A[:2]))
    pb.testing.check_gradients(lambda a, b: linalg.lstsq(a, b)[0], (A[:, :2], A[:, 3]))


def test_a_norm_that_is_zero_has_the_derivative_zero():
    for order in (None, "fro"):
        assert np.array_equal(pb.grad(lambda x, o=order: linalg.norm(x, o))(np.zeros((2, 2))), np.zeros((2, 2)))
    for order in (2, 3):
        assert np.array_equal(pb.grad(lambda x, o=order: linalg.norm(x, o))(np.zeros(2)), np.zeros(2))
        assert np.array_equal(pb.hessian(lambda x, o=order: linalg.norm(x, o))(np.zeros(2)), np.zeros((2, 2)))


def test_factors_without_a_derivative_say_so():
    for f in (lambda x: linalg.qr(x, "complete")[0], lambda x: linalg.svd(x)[0]):
        with pytest.raises(pb.errors.GradientError, match=r"full_matrices=True has no derivative.*test_linear_algebra\.py"):
            pb.jvp(f, (A[:, :2],), (A[:, :2],))
    for f in (linalg.svdvals, lambda x: linalg.svd(x)[1]):
        assert np.asarray(f(A[:, :2])).shape == (2,)
    with pytest.raises(pb.errors.MissingRule, match="'schur'"):
        pb.jvp(lambda x: lax.linalg.schur(x)[0], (A,), (A,))


# ---- what does not exist -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "x"),
    [(linalg.cholesky, -np.eye(2)), (linalg.inv, np.zeros((2, 2))), (lambda x: linalg.solve(x, x), np.ones((2, 2)))],
    ids=["cholesky", "inv", "solve"],
)
def test_a_known_matrix_raises_and_a_traced_one_gives_nan(f, x):
    linalg.solve(pnp.eye(2), pnp.ones(2))  # after which calls with such arrays go to NumPy at once
    with pytest.raises(linalg.LinAlgError, match=r"solve: .* At .*test_linear_algebra\.py"):
        linalg.solve(pnp.ones((3, 3)), pnp.ones(3))
    with pytest.raises(linalg.LinAlgError, match=r"At .*test_linear_algebra\.py"):
        f(x)
    assert np.isnan(np.asarray(pb.jit(f)(x))[np.tril_indices(2)]).all()
    assert np.isnan(np.asarray(pb.vmap(f)(np.stack([x, 2 * np.eye(2)])))[0][np.tril_indices(2)]).all()
    assert not np.isnan(np.asarray(pb.vmap(f)(np.stack([x, 2 * np.eye(2)])))[1]).any()


def test_what_is_not_finite_is_nan_in_every_way():
    bad = np.full((3, 3), np.nan)
    for f in (lax.linalg.cholesky, lambda x: lax.linalg.eigh(x)[1], lambda x: lax.linalg.schur(x)[0], linalg.det, linalg.pinv):
        assert np.isnan(np.asarray(pb.jit(f)(bad))).any() and np.isnan(np.asarray(f(bad))).any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
def test_narrow_dtypes_are_refused(dtype):
    with pytest.raises(pb.errors.DtypeError, match=r"float32, float64, complex64 or complex128.*\.astype"):
        linalg.inv(pnp.eye(2).astype(dtype))


def test_integers_become_the_default_floats():
    assert linalg.inv(pnp.array([[2, 0], [0, 4]])).dtype == np.float32
    assert linalg.solve(np.eye(2), np.ones(2, np.float32)).dtype == np.float64


# ---- compiled ----------------------------------------------------------------------------------------------------------------


PROGRAM = """
import numpy as np, pullback as pb
from pullback import linalg
x = np.arange(9.0).reshape(3, 3) % 5 + np.eye(3)
s = pb.jit(lambda x: linalg.svd(linalg.solve(x, linalg.cholesky(x @ x.T))).S)(x)
assert np.isfinite(np.asarray(s)).all()
print(pb.cache_info().compiled, pb.cache_info().disk_hits)
"""


def test_programs_that_call_lapack_are_kept_on_disk(tmp_path):
    """Read in a process that has called no kernel yet, where LAPACK must be found first."""
    environment = {**os.environ, "PULLBACK_CACHE_DIR": str(tmp_path)}
    found = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert found == [["1", "0"], ["0", "1"]]


def test_a_loop_and_a_batch_of_systems():
    stack = rng.normal(size=(3, 2, 4, 4)) + 4 * np.eye(4)
    looped = pb.jit(lambda x: lax.map(lambda each: linalg.inv(each), x))(stack)
    np.testing.assert_allclose(np.asarray(looped), np.linalg.inv(stack), rtol=1e-9)
    right = rng.normal(size=(5, 4))
    found = pb.jit(pb.vmap(linalg.solve, in_axes=(None, 0)))(stack[0, 0], right)
    np.testing.assert_allclose(np.asarray(found), np.linalg.solve(stack[0, 0], right.T).T, rtol=1e-9)


def test_the_same_factors_serve_the_gradient_of_a_solve():
    program = pb.jit(pb.grad(lambda a, b: pnp.sum(linalg.solve(a, b) ** 2))).lower(A, A[0]).compile().as_text()
    assert program.count("lapack_dgetrf_ffi") == 1


def test_an_expansion_is_written_where_there_is_no_lowering_rule():
    shown = pb.jit(linalg.det).lower(A).as_text()
    assert "lapack_dgetrf_ffi" in shown and "stablehlo.reduce" in shown


def test_the_rank_of_least_squares_is_of_the_default_integers() -> None:
    with pb.default_bits(64):
        assert pnp.linalg.lstsq(pnp.eye(3), pnp.ones(3))[2].dtype == pnp.linalg.matrix_rank(pnp.eye(3)).dtype == np.int64


def test_singular_values_of_an_infinite_matrix_are_nan_and_end():
    stack = np.stack([np.diag([np.inf, 1, 1]), np.eye(3), np.array([[-np.inf, 1, 2], [1, 3, 4], [2, 4, 5]])])
    for f in (linalg.svd, pb.jit(linalg.svd)):
        for each in f(stack):
            assert np.isnan(each[0]).all() and np.isfinite(each[1]).all() and np.isnan(each[2]).all()


@pytest.mark.parametrize("x", [-np.eye(3), np.stack([np.eye(3), -np.eye(3)]), -np.eye(3) + 0j], ids=["one", "stack", "complex"])
def test_cholesky_of_what_has_no_factor_keeps_its_zeros(x):
    expected = np.tril(np.full(x.shape, np.nan))
    expected[:-1] = np.eye(3) if x.ndim == 3 else expected[:-1]
    for function in (lax.linalg.cholesky, pb.jit(lax.linalg.cholesky), pb.jit(linalg.cholesky)):
        np.testing.assert_array_equal(np.isnan(function(x)), np.isnan(expected))
        np.testing.assert_array_equal(np.triu(function(x), 1), 0)


@pytest.mark.parametrize(
    "function", [lambda x, **how: linalg.svd(x, **how).S, linalg.pinv, linalg.matrix_rank], ids=["svd", "pinv", "matrix_rank"]
)
def test_what_is_said_to_be_hermitian_is_made_so(function):
    x = np.array([[1.0, 4.0], [0.0, 4.0]])  # its Hermitian part is singular
    half = (x + x.T) / 2
    np.testing.assert_allclose(function(x, hermitian=True), function(half), atol=1e-6)
    assert not np.allclose(function(x), function(half))
