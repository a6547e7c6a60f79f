"""scipy.linalg where values are not unique, or operands must be positive definite."""

import numpy as np
import pytest
import scipy.linalg

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.scipy import linalg

rng = np.random.default_rng(0)
A = rng.normal(size=(4, 4))
POSITIVE = A @ A.T + np.eye(4)
B = rng.normal(size=4)


def near(got, expected, rtol=1e-10):
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("lower", [True, False])
def test_cho_factor_and_cho_solve(lower):
    def solve(a, b):
        return linalg.cho_solve(linalg.cho_factor(a, lower), b)

    near(solve(POSITIVE, B), np.linalg.solve(POSITIVE, B))
    near(pb.jit(solve)(POSITIVE, B), np.linalg.solve(POSITIVE, B))
    near(linalg.solve(POSITIVE, B, lower=lower, assume_a="pos"), np.linalg.solve(POSITIVE, B))
    pb.testing.check_gradients(solve, (POSITIVE, B))


def test_lu_solve_is_differentiable_in_the_matrix():
    for trans in (0, 1, 2):
        pb.testing.check_gradients(lambda a, b, t=trans: linalg.lu_solve(linalg.lu_factor(a), b, t), (A, B))
        found = pb.jit(lambda a, b, t=trans: linalg.lu_solve(linalg.lu_factor(a), b, t))(A, B)
        near(found, scipy.linalg.lu_solve(scipy.linalg.lu_factor(A), B, trans))


def test_rsf2csf_is_a_schur_form_of_the_same_matrix():
    form, basis = linalg.rsf2csf(*linalg.schur(A))
    near(basis @ form @ basis.conj().T, A)
    near(np.tril(np.asarray(form), -1), np.zeros((4, 4)))
    many = pb.vmap(lambda a: linalg.rsf2csf(*linalg.schur(a)))(np.stack([A, A.T, np.diag(np.arange(4.0))]))
    for i, a in enumerate((A, A.T, np.diag(np.arange(4.0)))):
        for found, wanted in zip(many, scipy.linalg.rsf2csf(*scipy.linalg.schur(a))):
            near(found[i], wanted)
    with pytest.raises(pb.errors.ShapeError, match="of one size"):
        linalg.rsf2csf(A, np.eye(3))


def test_generalized_eigenvalues():
    symmetric = A + A.T
    values, vectors = linalg.eigh(symmetric, POSITIVE)
    near(values, scipy.linalg.eigh(symmetric, POSITIVE, eigvals_only=True))
    near(vectors.T @ POSITIVE @ vectors, np.eye(4))
    near(symmetric @ vectors, POSITIVE @ vectors * values)
    pb.testing.check_gradients(lambda a, b: linalg.eigh(a + a.T, b + b.T, eigvals_only=True), (A, POSITIVE))


def test_the_polar_factor_has_a_derivative_where_singular_values_coincide():
    pb.testing.check_gradients(lambda x: linalg.polar(x)[0], (2 * np.eye(3),), order=1)
    pb.testing.check_gradients(lambda x: linalg.polar(x)[1], (2 * np.eye(3)[:, :2],), order=1)


def test_functions_of_matrices_have_derivatives_of_every_order():
    x = 0.3 * A
    pb.testing.check_gradients(linalg.expm, (x,), order=3)
    pb.testing.check_gradients(lambda x: linalg.sqrtm(x @ x.T + np.eye(4)), (x,))
    near(linalg.expm(linalg.logm(POSITIVE)), POSITIVE)
    with pytest.raises(pb.errors.GradientError, match="funm of 'exp' has no derivative"):
        pb.jvp(lambda x: linalg.funm(x, np.exp), (x,), (x,))


def test_in_compiled_code_functions_of_matrices_are_batched():
    stack = np.stack([0.3 * A, np.zeros((4, 4))])
    near(pb.jit(pb.vmap(linalg.expm))(stack), scipy.linalg.expm(stack))
    assert np.isnan(np.asarray(pb.jit(linalg.sqrtm)(np.full((2, 2), np.nan)))).all()


@pytest.mark.parametrize("function", [pnp.linalg.qr, lambda x: linalg.lu(x, permute_l=True)])
def test_the_factors_of_a_tall_matrix_take_no_square_of_its_height(function):
    text = pb.jit(function).lower(np.ones((777, 2))).as_text()
    assert "777x2x" in text and "777x777" not in text


def test_the_permutation_of_lu_is_real_as_scipys_is():
    for x in (A + 1j * A.T, np.stack([A, A.T]) * (1 + 1j)):
        for lu in (linalg.lu, pb.jit(linalg.lu)):
            p, left, right = lu(x)
            assert p.dtype == np.float64 and left.dtype == right.dtype == np.complex128
            near(p, scipy.linalg.lu(x)[0])
            near(p @ left @ right, x)


@pytest.mark.parametrize("lower", [False, True])
def test_eigh_of_two_matrices_reads_one_triangle_of_each(lower):
    a, b = [np.where(np.tri(4) if lower else np.tri(4).T, x, np.nan) for x in (A + A.T, POSITIVE)]
    found = pb.jit(lambda a, b: linalg.eigh(a, b, lower=lower, eigvals_only=True))(a, b)
    near(found, scipy.linalg.eigh(A + A.T, POSITIVE, eigvals_only=True))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_singular_tridiagonal_matrix_of_one_element_gives_nan_as_larger_ones_do(compiled):
    zero = np.zeros(1)
    solve = pb.jit(pb.lax.linalg.tridiagonal_solve) if compiled else pb.lax.linalg.tridiagonal_solve
    assert np.isnan(np.asarray(solve(zero, zero, zero, np.ones((1, 1))))).all()


@pytest.mark.parametrize("scale", [1e-20, 1e20])
@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_of_singular_vectors_of_very_small_and_large_matrices(scale, compiled):
    """In float32 the squares of the singular values are out of range."""
    way = pb.jit if compiled else lambda function: function
    x, t = A.astype(np.float32), np.ones((4, 4), np.float32)

    def change(x, t, scale):
        return pb.jvp(lambda x: pnp.linalg.svd(x * np.float32(scale), full_matrices=False).U, (x,), (t,))[1]

    np.testing.assert_allclose(way(lambda x, t: change(x, t, scale))(x, t), change(x, t, 1), rtol=1e-3, atol=1e-4)


def test_block_diag_of_traced_matrices():
    made = pb.jit(linalg.block_diag)(np.ones((2, 1)), np.ones((1, 2)), 3.0)
    near(made, scipy.linalg.block_diag(np.ones((2, 1)), np.ones((1, 2)), 3.0))
    assert pnp.asarray(linalg.block_diag()).shape == (1, 0)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_cholesky_reads_the_triangle_that_it_returns(lower, compiled):
    """As in SciPy: the other triangle, here of another matrix, has no part in it."""
    a = np.array([[4.0, 1.0], [3.0, 5.0]])
    way = pb.jit if compiled else lambda function: function
    np.testing.assert_allclose(
        way(lambda a: pb.scipy.linalg.cholesky(a, lower=lower))(a), scipy.linalg.cholesky(a, lower=lower)
    )
    factor = way(lambda a: pb.scipy.linalg.cho_factor(a, lower)[0])(a)
    np.testing.assert_allclose(factor, scipy.linalg.cholesky(a, lower=lower))
    np.testing.assert_allclose(
        way(lambda a: pb.scipy.linalg.solve(a, a[0], lower=lower, assume_a="pos"))(a),
        scipy.linalg.solve(a, a[0], lower=lower, assume_a="pos"),
    )


@pytest.mark.parametrize("compiled", [False, True])
def test_the_function_of_funm_may_call_the_library(compiled):
    a = np.eye(3) + 0.1 * np.arange(9.0).reshape(3, 3)
    way = pb.jit if compiled else lambda function: function
    found = way(lambda a: pb.scipy.linalg.funm(a, pb.numpy.exp))(a)
    np.testing.assert_allclose(found, scipy.linalg.expm(a), rtol=1e-10)


@pytest.mark.parametrize("name", ["companion", "fiedler", "fiedler_companion", "hankel", "toeplitz"])
def test_matrices_of_stacks_of_vectors(name) -> None:
    f, vectors = getattr(pb.scipy.linalg, name), np.arange(1.0, 13.0).reshape(2, 1, 6)
    expected = [[getattr(scipy.linalg, name)(row) for row in rows] for rows in vectors]
    np.testing.assert_allclose(np.asarray(f(vectors)), expected, rtol=1e-6)


@pytest.mark.parametrize("n", range(2, 9))
def test_fiedler_companions_of_every_size(n) -> None:
    a = np.arange(2.0, n + 2.0)
    np.testing.assert_allclose(np.asarray(pb.scipy.linalg.fiedler_companion(a)), scipy.linalg.fiedler_companion(a))
    assert pb.scipy.linalg.fiedler_companion(a[:1]).shape == (0, 0)
    with pytest.raises(pb.errors.ShapeError, match="nonzero"):
        pb.scipy.linalg.fiedler_companion(a[:0])


def test_matrices_of_two_stacks_of_vectors() -> None:
    c, r = np.arange(6.0).reshape(2, 3), np.array([7.0, 8.0])
    for name in ("hankel", "toeplitz"):
        expected = [getattr(scipy.linalg, name)(row, r) for row in c]
        np.testing.assert_array_equal(np.asarray(getattr(pb.scipy.linalg, name)(c, r)), expected)
        assert getattr(pb.scipy.linalg, name)(np.zeros(0)).shape == (0, 0)
    leslie = pb.scipy.linalg.leslie(c + 1, np.array([0.5, 0.25]))
    np.testing.assert_array_equal(np.asarray(leslie)[1], scipy.linalg.leslie([4, 5, 6], [0.5, 0.25]))
    whole = pb.scipy.linalg.convolution_matrix(c, 4, "same")
    np.testing.assert_array_equal(np.asarray(whole)[1], scipy.linalg.convolution_matrix(c[1], 4, "same"))


def test_sylvesters_equation_broadcasts() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 2)) + 4 * np.eye(2), rng.normal(size=(2, 3, 2))
    x = np.asarray(pb.scipy.linalg.solve_sylvester(a, b, c))
    np.testing.assert_allclose(a @ x + x @ b, c, atol=1e-9)


def test_the_derivative_of_pinv_needs_no_matrix_of_the_longer_size_squared() -> None:
    x = pnp.ones((2, 60_000)).at[1, ::2].set(-1.0)
    for f in (pnp.linalg.pinv, lambda x: pnp.linalg.pinv(x.T)):
        assert pb.jvp(f, (x,), (x,))[1].size == x.size  # 14 GB otherwise


def test_eager_and_compiled_eigenvalues_come_in_one_order() -> None:
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=(2, 6, 6)).astype(np.float32)
        for value in (x, x + 1j * x[::-1]):
            eager, compiled = pnp.linalg.eigvals(value), pb.jit(pnp.linalg.eigvals)(value)
            assert compiled.dtype == np.complex64
            np.testing.assert_allclose(np.asarray(compiled), np.asarray(eager), rtol=1e-4)


def test_sylvester_equations_that_almost_have_no_solution_are_nan() -> None:
    a, c = pnp.eye(2), 8.0 * pnp.ones((3, 2, 2))
    b = pnp.stack([3.0 * a, -1.00001 * a, -2.0 * a])
    found = np.isnan(np.asarray(pb.scipy.linalg.solve_sylvester(a, b, c, tol=1e-3)))
    assert found.all((1, 2)).tolist() == [False, True, False]
    assert np.isfinite(np.asarray(pb.scipy.linalg.solve_sylvester(a, b, c, tol=0))).all()


def test_singular_tridiagonal_matrices_that_are_perturbed():
    b, rows = np.ones((2, 3, 2), "float32"), [[[0, 1, 1], [0, 1, 0]], [[4] * 3, [0] * 3], [[1, 1, 0], [2, 0, 0]]]
    diagonals = [np.array(each, "float32") for each in rows]
    assert np.isnan(lax.linalg.tridiagonal_solve(*diagonals, b)[1]).all()
    for solve in (lax.linalg.tridiagonal_solve, pb.jit(lax.linalg.tridiagonal_solve, static_argnames="perturb_singular")):
        x = solve(*diagonals, b, perturb_singular=True)
        near(x[0], lax.linalg.tridiagonal_solve(*[each[0] for each in diagonals], b[0]))
        assert np.isfinite(x).all() and abs(np.asarray(x[1])).max() > 1e6  # nothing of another matrix in the batch changes
        zero = np.zeros(3, "float32")
        assert (np.asarray(solve(zero, zero, zero, b[0], perturb_singular=True)) > 1e6).all()
    regular = [each[0].astype("float64") for each in diagonals]
    pb.testing.check_gradients(
        lambda *args: lax.linalg.tridiagonal_solve(*args, perturb_singular=True), (*regular, b[0].astype("float64"))
    )


def test_dft_is_complex():
    assert linalg.dft(3, dtype="complex128").dtype == "complex128"
    with pytest.raises(pb.errors.DtypeError, match="dtype must be complex64 or complex128, not float32"):
        linalg.dft(3, dtype="float32")
