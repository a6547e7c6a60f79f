"""Sparse Jacobians and Hessians: patterns, colors and values against the dense ones."""

import functools

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.errors import GradientError, LeafError, MissingRule, ShapeError
from pullback.core.primitive import Primitive
from pullback.ops.trigonometric import cos
from pullback.sparse import Pattern, SparseMatrix
from pullback.sparse.coloring import color_columns, color_star, star_sources
from pullback.sparse.derivatives import _hessian_plan, _jacobian_plan
from pullback.testing import CheckFailure, check_primitive

RNG = np.random.default_rng(0)
BAND = np.diag(RNG.normal(size=12)) + np.diag(RNG.normal(size=9), 3)
WEIGHTS = RNG.normal(size=(3, 3))


def tridiagonal(x):
    y = pnp.pad(x, 1)
    return y[2:] - 2.0 * y[1:-1] + y[:-2] + pnp.sin(x)


def laplacian(u):
    p = pnp.pad(u, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4.0 * u + u**3


def brusselator(state):
    """Two reacting and diffusing substances on a periodic grid."""
    u, v = state

    def spread(w):
        return sum(pnp.roll(w, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4.0 * w

    return pnp.stack([1.0 + u**2 * v - 4.4 * u + 0.1 * spread(u), 3.4 * u - u**2 * v + 0.1 * spread(v)])


def euler(x):
    return lax.fori_loop(0, 2, lambda i, z: z + 0.1 * tridiagonal(z) * z, x)


# name: (function, an argument's shape, whether the pattern has no entry that is zero at a random point)
JACOBIANS = {
    "bidiagonal": (lambda x: x[1:] ** 2 - x[:-1], (12,), True),
    "tridiagonal": (tridiagonal, (12,), True),
    "five-point stencil": (laplacian, (5, 6), True),
    "brusselator": (brusselator, (2, 4, 4), True),
    "cyclic": (lambda x: pnp.roll(x, 1) * x + pnp.exp(pnp.roll(x, -2)), (12,), True),
    "blocks": (lambda x: pb.vmap(lambda row: row * pnp.sum(row))(x.reshape(4, 3)), (12,), True),
    "arrowhead": (lambda x: pnp.concatenate([pnp.sum(x**2)[None], x[1:] * x[0]]), (12,), True),
    "convolution by slices": (lambda x: 0.5 * x[:-2] ** 2 + x[1:-1] - 3.0 * pnp.sin(x[2:]), (12,), True),
    "sparse matrix": (lambda x: pnp.tanh(pnp.matmul(BAND, x)), (12,), True),
    "sparse matrix, from the right": (lambda x: pnp.matmul(x.reshape(2, 12), BAND) ** 2, (24,), True),
    "matrix by matrix": (lambda x: pnp.matmul(x.reshape(3, 4), x.reshape(4, 3)), (12,), True),
    "dense layer on rows": (lambda x: pnp.tanh(pnp.matmul(x, WEIGHTS)), (4, 3), True),
    "batched product": (lambda x: pnp.einsum("bij,bj->bi", x, x[:, 0]), (2, 3, 3), True),
    "sums of rows": (lambda x: pnp.sum(x**2, axis=1), (4, 3), True),
    "largest of rows": (lambda x: pnp.max(x, axis=1), (4, 3), False),
    "products of rows": (lambda x: pnp.prod(x, axis=1), (4, 3), True),
    "mean": (lambda x: pnp.mean(x) * x, (6,), True),
    "chosen by position": (lambda x: pnp.where(pnp.arange(12) > 5, x * x[::-1], x), (12,), True),
    "chosen by value": (lambda x: pnp.where(x > 0, x * x[::-1], x), (12,), False),
    "masked": (lambda x: x * x[::-1] * np.eye(12)[3], (12,), True),
    "scattered": (lambda x: pnp.zeros(12, x.dtype).at[np.array([3, 1, 5])].add(x[:3] ** 2), (12,), True),
    "put in place": (lambda x: (x**2).at[np.array([3, 1])].set(x[:2]), (12,), False),
    "gathered": (lambda x: x[np.array([3, 1, 1])] * x[:3], (12,), True),
    "by computed index": (lambda x: x[x.astype(int) % 3] * x, (12,), False),
    "transposed": (lambda x: x.T.reshape(-1) ** 2, (3, 4), True),
    "no derivative": (lambda x: pnp.floor(x) + pb.stop_gradient(x), (5,), True),
    "partly without": (lambda x: (pnp.floor(x[::-1]) + 0.5) * x, (5,), True),
    "outer": (lambda x: pnp.outer(x[:3], x[3:]), (7,), True),
    "parts joined": (lambda x: pnp.concatenate([x[:2] * x[2], x[5:]]), (8,), True),
    "compiled": (pb.jit(lambda x: pb.jit(tridiagonal)(x) * pnp.where(pnp.arange(12) > 5, 1.0, 0.0)), (12,), True),
    "a loop": (euler, (12,), True),
    "a scan": (lambda x: lax.scan(lambda c, a: (c + a * x[0], a * pnp.sin(c)), x[1], x)[1], (8,), False),
    "a map": (lambda x: lax.map(lambda a: a * a, x), (8,), True),
    "a branch": (lambda x: lax.cond(x[0] > 0, tridiagonal, lambda x: x[::-1] * x, x), (8,), False),
    "checkpointed": (lambda x: pb.checkpoint(tridiagonal)(x), (8,), True),
    "single precision": (lambda x: tridiagonal(x.astype("float32")), (8,), True),
    "empty": (lambda x: x * x, (0,), True),
    "a number": (lambda x: x * x, (), True),
}


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobian(name: str) -> None:
    function, shape, exact = JACOBIANS[name]
    x = np.random.default_rng(1).normal(size=shape)
    dense = np.asarray(pb.jacfwd(function)(x)).reshape(function(pnp.asarray(x)).size, x.size)
    pattern = pb.sparse.jacobian_pattern(function, x)
    assert pattern.shape == dense.shape
    assert not ((dense != 0) & ~pattern.todense()).any()
    if exact:
        assert pattern.count == np.count_nonzero(dense) and not pattern.overestimated
    for mode in (None, "forward", "reverse"):
        found = pb.sparse.jacobian(function, mode=mode)(x)
        assert_allclose(np.asarray(found.todense()), dense, rtol=1e-5 if "single" in name else 1e-12, atol=1e-12)
        assert found.pattern == pattern
    compiled = pb.jit(pb.sparse.jacobian(function))(x)
    assert_allclose(np.asarray(compiled.todense()), dense, rtol=1e-5 if "single" in name else 1e-12, atol=1e-12)


HESSIANS = {
    "arrowhead": (lambda x: pnp.sum(x[0] * x**2) + pnp.sum(x**3), (12,)),
    "chain": (lambda x: pnp.sum((x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2), (12,)),
    "linear": (lambda x: pnp.sum(x), (5,)),
    "stencil squared": (lambda x: pnp.sum(laplacian(x) ** 2), (5, 5)),
    "blocks": (lambda x: pnp.sum(pnp.prod(x, axis=1)), (4, 3)),
    "compiled": (lambda x: pnp.sum(pb.jit(tridiagonal)(x) ** 2), (12,)),
    "a loop": (lambda x: pnp.sum(euler(x) ** 2), (8,)),
    "checkpointed": (lambda x: pnp.sum(pb.checkpoint(tridiagonal)(x) ** 2), (8,)),
    "a quadratic form": (lambda x: pnp.dot(x, pnp.matmul(BAND, x)), (12,)),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_hessian(name: str) -> None:
    function, shape = HESSIANS[name]
    x = np.random.default_rng(1).normal(size=shape)
    dense = np.asarray(pb.hessian(function)(x)).reshape(x.size, x.size)
    pattern = pb.sparse.hessian_pattern(function, x)
    assert pattern.count == np.count_nonzero(dense) and not pattern.overestimated
    found = pb.sparse.hessian(function)(x)
    assert_allclose(np.asarray(found.todense()), dense, rtol=1e-12, atol=1e-12)
    assert_allclose(np.asarray(pb.jit(pb.sparse.hessian(function))(x).todense()), dense, rtol=1e-12, atol=1e-12)


# ---- colors --------------------------------------------------------------------------------------------------------------


def directions(function, x, hessian=False) -> int:
    if hessian:
        return _hessian_plan(pb.sparse.hessian_pattern(function, x)).directions
    return _jacobian_plan(pb.sparse.jacobian_pattern(function, x), None).directions


def test_known_numbers_of_colors() -> None:
    assert directions(tridiagonal, np.ones(1000)) == 3
    assert directions(laplacian, np.ones((20, 20))) <= 7
    assert directions(lambda x: x**2, np.ones(50)) == 1
    assert directions(HESSIANS["arrowhead"][0], np.ones(100), hessian=True) == 2
    assert directions(HESSIANS["chain"][0], np.ones(100), hessian=True) == 3
    assert directions(lambda x: pnp.sum(x**2, axis=1), np.ones((10, 30))) == 1  # by reverse mode


def test_an_arrowhead_jacobian_takes_all_directions_either_way() -> None:
    assert directions(JACOBIANS["arrowhead"][0], np.ones(12)) == 12


def random_pattern(seed: int, height: int, width: int, density: float):
    return np.nonzero(np.random.default_rng(seed).random((height, width)) < density)


@pytest.mark.parametrize("seed", range(20))
def test_columns_of_a_color_share_no_row(seed: int) -> None:
    rows, columns = random_pattern(seed, 15, 20, 0.02 + 0.02 * seed)
    colors = color_columns(rows, columns, (15, 20))
    for row in range(15):
        own = colors[columns[rows == row]]
        assert len(set(own)) == len(own)


@pytest.mark.parametrize("seed", range(20))
def test_star_coloring(seed: int) -> None:
    size = 18
    matrix = np.random.default_rng(seed).random((size, size)) < 0.01 + 0.02 * seed
    matrix |= matrix.T
    rows, columns = np.nonzero(matrix)
    colors = color_star(rows, columns, size)
    near = [[j for j in range(size) if matrix[i, j] and i != j] for i in range(size)]
    for a in range(size):
        for b in near[a]:
            assert colors[a] != colors[b]
            for c in near[b]:
                for d in near[c]:
                    if c != a and d != b:
                        assert not (colors[a] == colors[c] and colors[b] == colors[d])
    # and every entry can be read
    values = np.where(matrix, np.random.default_rng(seed + 100).normal(size=(size, size)), 0)
    values = values + values.T
    compressed = np.stack([values[:, colors == color].sum(1) for color in range(colors.max() + 1)])
    color, index = star_sources(rows, columns, colors)
    assert_allclose(compressed[color, index], values[rows, columns], rtol=1e-12)


# ---- the interface -------------------------------------------------------------------------------------------------------


def test_patterns_in_every_form() -> None:
    x = np.random.default_rng(1).normal(size=6)
    dense = np.asarray(pb.jacfwd(tridiagonal)(x))
    mask = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1
    for given_pattern in (mask, scipy.sparse.csr_matrix(mask), scipy.sparse.coo_array(mask), np.nonzero(mask)):
        found = pb.sparse.jacobian(tridiagonal, pattern=given_pattern)(x)
        assert found.nnz == 16
        assert_allclose(np.asarray(found.todense()), dense)
    upper = pb.sparse.hessian(lambda x: pnp.sum(tridiagonal(x) * x), pattern=np.triu(mask))(x)
    assert_allclose(np.asarray(upper.todense()), np.asarray(pb.hessian(lambda x: pnp.sum(tridiagonal(x) * x))(x)), atol=1e-12)
    with pytest.raises(ShapeError, match=r"pattern of shape \(5, 6\), but the matrix has shape \(6, 6\)"):
        pb.sparse.jacobian(tridiagonal, pattern=mask[:5])(x)
    with pytest.raises(ShapeError, match="pair of index arrays"):
        pb.sparse.jacobian(tridiagonal, pattern=np.ones(6))(x)
    with pytest.raises(ShapeError, match="indices outside"):
        pb.sparse.jacobian(tridiagonal, pattern=([9], [0]))(x)


def test_a_pattern_that_lacks_entries_is_found_out() -> None:
    x = np.random.default_rng(1).normal(size=6)
    with pytest.raises(GradientError, match=r"sparse\.jacobian was given a pattern that lacks entries"):
        pb.sparse.jacobian(tridiagonal, pattern=np.eye(6))(x)
    with pytest.raises(GradientError, match=r"sparse\.hessian was given a pattern that lacks entries"):
        pb.sparse.hessian(HESSIANS["chain"][0], pattern=np.eye(6))(x)
    with pytest.raises(GradientError, match="lacks entries"):
        pb.sparse.jacobian(tridiagonal, pattern=np.zeros((6, 6)))(x.astype(np.float32))
    jac = pb.sparse.jacobian(tridiagonal, pattern=np.eye(6))
    pb.jit(jac)(x)  # traced, it cannot be tried
    for _ in range(2):
        with pytest.raises(GradientError, match="lacks entries"):
            jac(x)


def test_other_arguments() -> None:
    def f(params, x, *, scale):
        return params["w"] * tridiagonal(x) * scale

    x, params = np.random.default_rng(1).normal(size=6), {"w": np.float64(2.0)}
    jac = pb.sparse.jacobian(f, argnums=1)
    expected = np.asarray(pb.jacfwd(f, argnums=1)(params, x, scale=3.0))
    assert_allclose(np.asarray(jac(params, x, scale=3.0).todense()), expected)
    assert_allclose(np.asarray(jac({"w": np.float64(0.0)}, x, scale=3.0).todense()), 0 * expected)
    assert_allclose(np.asarray(jac(params, x, scale=3.0).todense()), expected)  # no pattern was kept for w = 0


def test_the_pattern_is_found_once_for_each_type() -> None:
    calls = []

    def f(x):
        calls.append(x.shape)
        return x * x

    jac = pb.sparse.jacobian(f)
    for size in (3, 3, 4, 3):
        jac(np.ones(size))
    assert calls.count((3,)) == 3 + 1 and calls.count((4,)) == 1 + 1


def test_the_matrix_under_transformations() -> None:
    x = np.random.default_rng(1).normal(size=6)
    batch = pb.vmap(pb.sparse.jacobian(tridiagonal))(np.stack([x, 2 * x]))
    assert batch.data.shape == (2, 16)

    def total(jacobian, x):
        return pnp.sum(jacobian(x) ** 2)

    sparse = pb.grad(functools.partial(total, lambda x: pb.sparse.jacobian(tridiagonal)(x).data))(x)
    dense = pb.grad(functools.partial(total, pb.jacfwd(tridiagonal)))(x)
    assert_allclose(np.asarray(sparse), np.asarray(dense), rtol=1e-12)
    whole = pb.grad(functools.partial(total, lambda x: pb.sparse.jacobian(tridiagonal)(x).todense()))(x)
    assert_allclose(np.asarray(whole), np.asarray(dense), rtol=1e-12)


def test_closing_over_traced_values() -> None:
    x = np.random.default_rng(1).normal(size=6)

    @pb.jit
    def f(w, x):
        return pb.sparse.jacobian(lambda x: w * tridiagonal(x))(x).todense()

    assert_allclose(np.asarray(f(2.0, x)), 2 * np.asarray(pb.jacfwd(tridiagonal)(x)), rtol=1e-12)


def test_to_scipy() -> None:
    x = np.random.default_rng(1).normal(size=6)
    found = pb.sparse.jacobian(tridiagonal)(x)
    assert_allclose(found.to_scipy().toarray(), np.asarray(found.todense()))
    with pytest.raises(pb.errors.TracerArrayConversionError):
        pb.jit(lambda x: pb.sparse.jacobian(tridiagonal)(x).to_scipy())(x)


def test_the_matrix_itself() -> None:
    matrix = SparseMatrix(np.array([1.0, 2.0]), ([0, 1], [2, 0]), (2, 3))
    assert matrix.shape == (2, 3) and matrix.nnz == 2 and matrix.dtype == np.float64
    assert_allclose(np.asarray(matrix.todense()), [[0, 0, 1], [2, 0, 0]])
    leaves, structure = pb.tree.flatten(matrix)
    assert len(leaves) == 1
    assert structure == pb.tree.structure(SparseMatrix(np.array([5.0, 7.0]), ([0, 1], [2, 0]), (2, 3)))
    assert structure != pb.tree.structure(SparseMatrix(np.array([5.0, 7.0]), ([0, 1], [1, 0]), (2, 3)))
    doubled = pb.tree.map(lambda leaf: 2 * leaf, matrix)
    assert_allclose(np.asarray(doubled.todense()), [[0, 0, 2], [4, 0, 0]])
    for rows, columns in (([1, 0], [0, 2]), ([0, 0], [1, 1])):
        with pytest.raises(ShapeError, match="row by row"):
            SparseMatrix(np.array([1.0, 2.0]), (rows, columns), (2, 3))
    with pytest.raises(ShapeError, match="columns"):
        SparseMatrix(np.array([1.0, 2.0]), ([0, 0], [2, 0]), (2, 3))
    assert Pattern([0], [1], (2, 2)) != Pattern([0], [1], (2, 3))
    assert "2 entries" in repr(matrix) and "1 entries" in repr(Pattern([0], [1], (2, 2)))


def test_refusals() -> None:
    x = np.ones(3)
    with pytest.raises(GradientError, match=r"real floating-point argument, but argument x is i64\[3\]"):
        pb.sparse.jacobian(lambda x: x)(np.arange(3))
    with pytest.raises(GradientError, match="real floating-point argument"):
        pb.sparse.jacobian(lambda x: x)(1j * x)
    with pytest.raises(GradientError, match="argument tree is a tree"):
        pb.sparse.jacobian(lambda tree: tree["a"])({"a": x})
    with pytest.raises(GradientError, match=r"returned f64.*f64"):
        pb.sparse.jacobian(lambda x: (x, x))(x)
    with pytest.raises(GradientError, match="returned i"):
        pb.sparse.jacobian(lambda x: x.astype(int))(x)
    with pytest.raises(GradientError, match="0-d output"):
        pb.sparse.hessian(lambda x: x)(x)
    with pytest.raises(TypeError, match="argnums must be an int"):
        pb.sparse.jacobian(lambda x: x, argnums=(0,))
    with pytest.raises(TypeError, match="takes a function"):
        pb.sparse.jacobian(3)
    with pytest.raises(ValueError, match="mode"):
        pb.sparse.jacobian(lambda x: x, mode="both")
    with pytest.raises(LeafError, match="argument"):
        pb.sparse.jacobian(lambda x, name: x)(x, "name")


def test_an_operation_without_a_rule_is_dense_and_reported() -> None:
    own = Primitive("own", evaluate=lambda x: x[::-1], result_type=lambda x: x, linear=True)
    pattern = pb.sparse.jacobian_pattern(lambda x: own(x) * x, np.ones(3))
    assert pattern.todense().all()
    (where,) = pattern.overestimated
    assert where.startswith("own (") and "test_sparse_derivatives.py" in where and "own (" in repr(pattern)
    own.define("sparsity", lambda which, operands: (np.arange(3), np.arange(3)[::-1]))
    assert pb.sparse.jacobian_pattern(lambda x: own(x), np.ones(3)).todense().tolist() == np.eye(3, dtype=bool)[::-1].tolist()


def test_an_operation_without_a_rule_is_refused_where_it_is_large() -> None:
    own = Primitive("own", evaluate=lambda x: x[::-1], result_type=lambda x: x, linear=True)
    with pytest.raises(MissingRule, match=r"'own' is missing.*test_sparse_derivatives.*20,000 elements .* 20000 each"):
        pb.sparse.jacobian(lambda x: own(x))(np.ones(20000))


def test_a_wrong_rule_is_found() -> None:
    made = Primitive("wrong", evaluate=np.sin, result_type=lambda x: x, partials=lambda out, x: (cos(x),), kinds="f")
    made.define("lower", "stablehlo.sine")
    made.define("vectorize", lambda size, args, axes: (made(*args), 0))
    made.define("samples", lambda rng: [((rng.normal(size=3),), {})])
    check_primitive(made)
    wrong = Primitive("wrong", linear=True, evaluate=lambda x: x[::-1], result_type=lambda x: x, kinds="f")
    wrong.define("lower", lambda write, x: write.op("stablehlo.reverse", [x], dimensions="array<i64: 0>"))
    wrong.define("transpose", lambda cotangent, x: (wrong(cotangent),))
    wrong.define("vectorize", lambda size, args, axes: (lax.rev(*args, dimensions=(1,)), 0))
    wrong.define("samples", lambda rng: [((rng.normal(size=3),), {})])
    check_primitive(wrong)
    wrong.define("sparsity", lambda which, operands: (np.arange(3), np.arange(3)))
    with pytest.raises(CheckFailure, match="outside its sparsity pattern"):
        check_primitive(wrong)


# ---- random programs -------------------------------------------------------------------------------------------------------

STEPS = [
    lambda x: pnp.sin(x),
    lambda x: x * pnp.roll(x, 1),
    lambda x: pnp.concatenate([x[2:], x[:2] ** 2]),
    lambda x: pnp.where(pnp.arange(x.size) % 2 == 0, x, pnp.exp(0.1 * x)),
    lambda x: pnp.pad(x[1:], (1, 0)) + x,
    lambda x: x[::-1] * 0.5,
    lambda x: x - pnp.floor(x),
    lambda x: pnp.repeat(x[:4], 2),
    lambda x: pnp.matmul(np.eye(8)[np.array([1, 0, 3, 2, 5, 4, 7, 7])], x),
    lambda x: pnp.max(x.reshape(4, 2), axis=1)[np.array([0, 0, 1, 1, 2, 2, 3, 3])] + x,
    lambda x: x.at[2].set(pnp.sum(x[:3])),
    lambda x: pb.jit(lambda x: x.reshape(2, 4).T.reshape(-1))(x),
    lambda x: x.at[np.array([0, 5])].multiply(x[1:3], unique_indices=True),
    lambda x: lax.fori_loop(0, 2, lambda i, z: pnp.roll(z, 1) * pnp.cos(z), x),
]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=5), st.integers(0, 1000))
def test_random_programs(choice: list[int], seed: int) -> None:
    def f(x):
        for number in choice:
            x = STEPS[number](x)
        return x

    x = np.random.default_rng(seed).normal(size=8)
    dense = np.asarray(pb.jacfwd(f)(x))
    pattern = pb.sparse.jacobian_pattern(f, x)
    assert not ((dense != 0) & ~pattern.todense()).any()
    assert not pattern.overestimated
    assert_allclose(np.asarray(pb.sparse.jacobian(f)(x).todense()), dense, rtol=1e-10, atol=1e-10)


MATRIX = pb.sparse.SparseMatrix(pnp.asarray([1.0, 2.0, 3.0, 4.0]), ([0, 0, 1, 3], [0, 2, 2, 1]), (4, 3))
PRODUCTS = {
    "vector": (lambda m: m @ np.arange(3.0), lambda d: d @ np.arange(3.0)),
    "array": (lambda m: m @ pnp.arange(3.0), lambda d: d @ np.arange(3.0)),
    "matrix": (lambda m: m @ np.arange(6.0).reshape(3, 2), lambda d: d @ np.arange(6.0).reshape(3, 2)),
    "vector, left": (lambda m: np.arange(4.0) @ m, lambda d: np.arange(4.0) @ d),
    "array, left": (lambda m: pnp.arange(4.0) @ m, lambda d: np.arange(4.0) @ d),
    "matrix, left": (lambda m: np.arange(8.0).reshape(2, 4) @ m, lambda d: np.arange(8.0).reshape(2, 4) @ d),
}


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_a_sparse_matrix(name, wrap):
    sparse, dense = PRODUCTS[name]
    full = np.asarray(MATRIX.todense())
    np.testing.assert_allclose(wrap(sparse)(MATRIX), dense(full))
    found = wrap(pb.grad(lambda m: pnp.sum(sparse(m) ** 2)))(MATRIX).todense()
    wanted = pb.grad(lambda d: pnp.sum(dense(d) ** 2))(pnp.asarray(full))
    np.testing.assert_allclose(found, np.where(full != 0, wanted, 0.0))
    batch = pb.vmap(lambda k: pb.tree.map(lambda x: k * x, MATRIX))(pnp.arange(1.0, 3.0))
    np.testing.assert_allclose(wrap(pb.vmap(sparse))(batch), np.stack([dense(full), dense(2 * full)]))


def test_what_a_sparse_matrix_refuses_says_what_to_do():
    batch = pb.vmap(lambda k: pb.tree.map(lambda x: k * x, MATRIX))(pnp.arange(1.0, 3.0))
    assert repr(batch) == "<SparseMatrix batch [2] of 4 x 3, 4 entries of f32>"
    np.testing.assert_allclose(pb.vmap(lambda m: m.todense())(batch)[1], 2 * MATRIX.todense())
    refused = [
        (lambda: np.asarray(MATRIX), TypeError, r"\.todense\(\)"),
        (lambda: batch.todense(), ShapeError, r"pb\.vmap\(lambda m: m\.todense\(\)\)\(batch\)"),
        (lambda: batch @ np.ones(3), ShapeError, r"pb\.vmap\(lambda m: m @ x\)"),
        (lambda: batch.to_scipy(), ShapeError, "one by one"),
        (lambda: MATRIX @ np.ones(4), ShapeError, r"shape \(4, 3\)"),
        (lambda: MATRIX @ 2.0, ShapeError, r"shape \(4, 3\)"),
        (lambda: np.ones(3) @ MATRIX, ShapeError, r"shape \(4, 3\)"),
    ]
    for call, error, message in refused:
        with pytest.raises(error, match=message):
            call()
