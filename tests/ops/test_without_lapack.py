"""Linear algebra on platforms that have no LAPACK. Here a second CPU stands for one, under a name of its own."""

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.engine import backend
from pullback.engine.jaxlib import jaxlib

DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (5, 5), (4, 7), (7, 4), (1, 3), (12, 12), (2, 3, 6, 4), (0, 2, 2), (3, 0)]


@pytest.fixture(scope="module")
def device():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "_platforms", dict(backend._platforms))
        patch.setattr(backend, "_backends", dict(backend._backends))
        patch.setattr(backend.placement, "several", backend.placement.several)
        pb.register_platform("other", lambda: jaxlib().client_module.make_cpu_client(asynchronous=False, num_devices=1))
        yield pb.devices("other")[0]


def matrices(dtype, *shape):
    rng = np.random.default_rng(len(shape) + sum(shape))
    return (rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype[0] == "c" else 0)).astype(dtype)


def kinds(dtype, *shape):
    """Matrices of full rank and of rank 1, graded ones, unit matrices, zeros."""
    x = matrices(dtype, *shape)
    yield from (x, np.zeros_like(x), np.broadcast_to(np.eye(*shape[-2:], dtype=dtype), shape))
    yield x[..., :1] * x[..., :1, :] if x.size else x
    yield x * np.logspace(0, -10 if x.real.dtype.itemsize == 8 else -4, shape[-1]).astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(got, want, dtype, what=""):
    """Both agree, to some roundings of the largest number."""
    got, want = np.asarray(got), np.asarray(want)
    error = 200 * np.finfo(dtype).eps * max(1e-30, np.abs(want).max(initial=0))
    np.testing.assert_allclose(got, want, rtol=0, atol=error, err_msg=what)


def unitary(x, dtype):
    close(adjoint(x) @ x, np.broadcast_to(np.eye(x.shape[-1]), (*x.shape[:-2], x.shape[-1], x.shape[-1])), dtype)


QR = pb.jit(lambda x, mode: pnp.linalg.qr(x, mode=mode), static_argnums=1)
SVD = pb.jit(lambda x, full: pnp.linalg.svd(x, full_matrices=full), static_argnums=1)
SINGULAR_VALUES = pb.jit(pnp.linalg.svdvals)
EIGH = pb.jit(lambda x, lower: lax.linalg.eigh(x, lower=lower, symmetrize_input=False), static_argnums=1)
SYSTEMS = {
    "cholesky": lambda a: pnp.linalg.cholesky(a @ pnp.conj(pnp.swapaxes(a, -1, -2)) + pnp.eye(a.shape[-1], dtype=a.dtype)),
    "inverse": pnp.linalg.inv,
    "determinant": pnp.linalg.det,
    "its logarithm": pnp.linalg.slogdet,
    "solve": lambda a: pnp.linalg.solve(a, a[..., :1] * 2 + 1),
    "lu": lax.linalg.lu,
    "triangular": lambda a: lax.linalg.triangular_solve(a + 9 * pnp.eye(a.shape[-1], dtype=a.dtype), a + 1, left_side=True),
    "triangular, adjoint, right": lambda a: lax.linalg.triangular_solve(
        a, a + 1, lower=True, unit_diagonal=True, transpose_a=True, conjugate_a=True
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SYSTEMS)
def test_systems(name, dtype, device):
    for shape in [(1, 1), (9, 9), (2, 4, 4), (0, 2, 2)]:
        x = matrices(dtype, *shape) / max(1, shape[-1]) + 2 * np.eye(shape[-1], dtype=dtype)
        for got, want in zip(pb.tree.leaves(pb.jit(SYSTEMS[name])(pb.device_put(x, device))), pb.tree.leaves(SYSTEMS[name](x))):
            assert got.device == device
            close(got, want, dtype, f"{name} of {shape}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_qr(dtype, device):
    for shape in SHAPES:
        for x in kinds(dtype, *shape):
            for mode in ("reduced", "complete"):
                q, r = map(np.asarray, QR(pb.device_put(x, device), mode))
                unitary(q, dtype)
                close(q @ r, x, dtype)
                np.testing.assert_array_equal(r, np.triu(r))


def test_qr_is_that_of_lapack(device):
    for dtype in DTYPES:
        x = matrices(dtype, 6, 4)
        for got, want in zip(pb.jit(pnp.linalg.qr)(pb.device_put(x, device)), np.linalg.qr(x)):
            close(got, want, dtype)
    x = np.array([[3e200], [4e200]])  # whose squares overflow
    close(pb.jit(pnp.linalg.qr)(pb.device_put(x, device))[1], [[-5e200]], float)


@pytest.mark.parametrize("dtype", DTYPES)
def test_svd(dtype, device):
    for shape in SHAPES:
        for x in kinds(dtype, *shape):
            there, k = pb.device_put(x, device), min(shape[-2:])
            values = SINGULAR_VALUES(there)
            close(values, np.linalg.svd(x, compute_uv=False), dtype)
            for full in (False, True):
                u, s, vh = map(np.asarray, SVD(there, full))
                assert (s[..., :-1] >= s[..., 1:]).all() and u.shape[-1] == (shape[-2] if full else k)
                unitary(u, dtype)
                unitary(adjoint(vh), dtype)
                close(s, values, dtype)
                close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], x, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype, device):
    for shape in SHAPES:
        for x in kinds(dtype, *shape) if shape[-1] == shape[-2] else ():
            for lower in (True, False):  # the other triangle is not read
                used = np.tril(x) if lower else np.triu(x)
                diagonal = np.real(used) * np.eye(shape[-1])
                whole = used - used * np.eye(shape[-1]) + adjoint(used - used * np.eye(shape[-1])) + diagonal
                v, w = map(np.asarray, EIGH(pb.device_put(x, device), lower))
                assert (w[..., :-1] <= w[..., 1:]).all()
                close(w, np.linalg.eigvalsh(whole.astype(dtype)), dtype)
                unitary(v, dtype)
                close(v * w[..., None, :] @ adjoint(v), whole, dtype)


@pytest.mark.parametrize("scale", [1e300, 1e200, 1e-280])
def test_numbers_near_the_ends_of_the_range(scale, device):
    basis = np.linalg.qr(matrices("float64", 6, 6))[0]
    for sizes in (np.logspace(-9, 0, 6), np.arange(1.0, 7), np.ones(6)):
        x = (basis * sizes) @ basis.T * scale
        for f, wanted in (
            (pnp.linalg.svdvals, np.linalg.svd(x, compute_uv=False)),
            (pnp.linalg.eigvalsh, np.linalg.eigvalsh(x)),
        ):
            found = np.asarray(pb.jit(f)(pb.device_put(x, device)))
            np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=1e-13 * np.abs(wanted / scale).max())


def test_what_has_no_factor_is_nan(device):
    bad = np.stack([np.eye(3), np.eye(3)])
    bad[0, 1, 1] = np.nan
    for f in (pnp.linalg.svdvals, pnp.linalg.eigvalsh):
        assert np.isnan(pb.jit(f)(pb.device_put(bad, device))).tolist() == [[True] * 3, [False] * 3]
    bad[0, 1, 1] = -1
    factors = np.asarray(pb.jit(pnp.linalg.cholesky)(pb.device_put(bad, device)))
    assert np.isnan(factors[0][np.tril_indices(3)]).all() and (factors[1] == np.eye(3)).all()


def test_derivatives(device):
    x = matrices("float64", 5, 5)
    for f in (
        lambda x: pnp.sum(pnp.linalg.qr(x)[1] ** 2 * pnp.arange(5.0)),
        lambda x: pnp.sum(pnp.linalg.eigh(x + x.T)[1][0] ** 2 * pnp.arange(5.0)),
        lambda x: pnp.sum(pnp.linalg.svd(x)[0][0] ** 2 * pnp.arange(5.0)),
        lambda x: pnp.sum(pnp.linalg.pinv(x[:, :3]) ** 2),
        lambda x: pnp.linalg.slogdet(x)[1],
    ):
        want = np.asarray(pb.grad(f)(x))
        error = 1e-11 * np.abs(want).max()
        np.testing.assert_allclose(pb.jit(pb.grad(f))(pb.device_put(x, device)), want, rtol=0, atol=error)


def test_what_only_lapack_can_names_itself(device):
    with pytest.raises(
        NotImplementedError, match=r"operation eig calls LAPACK's geev, at .*lapack.*on the CPU only, not on 'other'"
    ):
        pb.jit(pnp.linalg.eigvals)(pb.device_put(np.eye(2), device))
    with pytest.raises(NotImplementedError, match=r"operation zeta calls Python, at .*lapack.*on the CPU only, not on 'other'"):
        pb.jit(lambda x: pb.scipy.special.zeta(x, 2.0))(pb.device_put(np.ones(2), device))
