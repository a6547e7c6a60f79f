"""lax functions of shapes, precision and platforms, beyond what the tables of tests/surface ask of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax

A = np.arange(6.0, dtype=np.float32).reshape(2, 3)

REFUSED: dict[str, tuple[Any, Any, str]] = {
    "collapse backwards": (lambda: lax.collapse(A, 2, 1), pb.errors.ShapeError, "cannot merge"),
    "split sum": (lambda: lax.split(A, [1, 1], axis=1), pb.errors.ShapeError, "whose sum"),
    "stack of two dtypes": (lambda: lax.stack([A, A.astype(int)]), pb.errors.DtypeError, "one dtype"),
    "stack of two shapes": (lambda: lax.stack([A, A[0]]), pb.errors.ShapeError, "one shape"),
    "select_n of nothing": (lambda: lax.select_n(A > 0), pb.errors.ShapeError, "0 cases"),
    "select_n by bools of three": (lambda: lax.select_n(A > 0, A, A, A), pb.errors.ShapeError, "3 cases"),
    "stack of nothing": (lambda: lax.stack([]), pb.errors.ShapeError, "at least one"),
    "tile": (lambda: lax.tile(A, [2]), pb.errors.ShapeError, "each axis"),
    "broadcast_like": (lambda: lax.broadcast_like(A[0], A), pb.errors.ShapeError, r"\(2, 3\)"),
    "reduce_precision of integers": (lambda: lax.reduce_precision(np.arange(3), 5, 4), pb.errors.DtypeError, "float"),
    "reduce_precision without exponent": (lambda: lax.reduce_precision(A, 0, 4), ValueError, "exponent_bits >= 1"),
    "clz of floats": (lambda: lax.clz(A), pb.errors.DtypeError, "integer"),
    "mulhi of floats": (lambda: lax.mulhi(A, A), pb.errors.DtypeError, "integers"),
    "accuracy": (lambda: lax.exp(A, accuracy="high"), TypeError, "AccuracyMode"),
    "precision": (lambda: lax.dot(A, A.T, precision="much"), ValueError, "highest"),
    "sharding": (lambda: lax.full((2,), 1.0, sharding="x"), NotImplementedError, "one device"),
    "platform": (lambda: lax.platform_dependent(1.0, cuda=lambda x: x), NotImplementedError, "'cpu'"),
    "groups": (lambda: lax.ragged_dot(A, np.ones((2, 3, 1), np.float32), np.array([1])), pb.errors.ShapeError, "1 groups"),
    "sizes of groups": (lambda: lax.ragged_dot(A, np.ones((1, 3, 1), np.float32), A[0]), pb.errors.DtypeError, "integers"),
    "ragged numbers": (lambda: lax.ragged_dot_general(A, A, np.array([1]), None), TypeError, "RaggedDotDimensionNumbers"),
    "allow_negative_indices": (
        lambda: lax.dynamic_slice(A, (0, 0), (1, 1), allow_negative_indices=(True, 1)),
        TypeError,
        "allow_negative_indices=True or False",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    f, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        f()


def test_every_precision_is_satisfied() -> None:
    known = [*lax.Precision, *lax.DotAlgorithmPreset, lax.DotAlgorithm(np.float16, np.float16, np.float32)]
    for precision in [*known, "highest", "BF16_BF16_F32", (lax.Precision.HIGH, None)]:
        assert lax.dot(A, A.T, precision=precision).tolist() == (A @ A.T).tolist()
        assert pnp.matmul(A, A.T, precision=precision).tolist() == (A @ A.T).tolist()
    for accuracy in (*lax.AccuracyMode, lax.Tolerance(ulps=3), None):
        assert float(lax.exp(0.0, accuracy=accuracy)) == 1.0
    assert lax.round(np.float32(2.5), lax.RoundingMethod.TO_NEAREST_EVEN) == 2.0


def test_negative_starts_may_be_out_of_bounds() -> None:
    x = np.arange(5)
    for i in (-2, np.int32(-2)):
        assert lax.dynamic_slice(x, (i,), (2,)).tolist() == [3, 4]
        assert lax.dynamic_slice(x, (i,), (2,), allow_negative_indices=False).tolist() == [0, 1]
        assert lax.dynamic_slice_in_dim(x, i, 2, allow_negative_indices=False).tolist() == [0, 1]
        assert lax.dynamic_index_in_dim(x, i, allow_negative_indices=False).tolist() == [0]
        assert lax.dynamic_update_slice(x, x[:1], (i,), allow_negative_indices=[False]).tolist() == [0, 1, 2, 3, 4]
        assert lax.dynamic_update_index_in_dim(x, x[4] + 5, i, 0, allow_negative_indices=False).tolist() == [9, 1, 2, 3, 4]
        assert lax.dynamic_update_slice_in_dim(x, x[3:4], i, 0, allow_negative_indices=False).tolist() == [3, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int64"])
def test_large_starts_do_not_wrap_around(dtype: str) -> None:
    x, far = np.arange(5), np.asarray(np.iinfo(dtype).max, dtype)
    small = np.int32(1)
    for run in (lambda f, *args: f(*args), lambda f, *args: pb.jit(f)(*args)):
        assert run(lambda i: lax.dynamic_slice(x, (i,), (2,)), far).tolist() == [3, 4]
        assert run(lambda i: pnp.asarray(x).at[i].get(mode="clip"), far) == 4
        table = pnp.asarray(np.arange(20).reshape(4, 5))
        assert run(lambda i, j: table.at[i, j].get(mode="clip"), far, small) == 16
        assert run(lambda i, j: table.at[i[None], j[None]].get(mode="clip"), far, small).tolist() == [16]
        assert run(lambda i, j: table.at[i[None], j[None]].set(0, mode="drop").sum(), far, small) == 190


def test_platforms_dtypes_and_batch_elements() -> None:
    f = pb.jit(lambda x: lax.platform_dependent(x, cpu=lambda x: x + 1.0, default=lambda x: x))
    assert float(f(1.0)) == 2.0 and float(lax.platform_dependent(1.0, tpu=None, default=lambda x: -x)) == -1.0
    assert lax.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert lax.dtype(1) == np.int32 and lax.dtype(A) == np.float32
    x = pnp.asarray(A)
    got = pb.vmap(lambda row: lax.pbroadcast({"x": row}, "i", 1)["x"], axis_name="i")(x)
    assert got.tolist() == [A[1].tolist()] * 2
    gradient = pb.grad(lambda x: pb.vmap(lambda row: lax.pbroadcast(row, "i", 1), axis_name="i")(x).sum())(x)
    assert gradient.tolist() == [[0.0] * 3, [2.0] * 3]
    with pytest.raises(IndexError, match="no batch element 2"):
        pb.vmap(lambda row: lax.pbroadcast(row, "i", 2), axis_name="i")(x)


def test_a_barrier_passes_trees_and_derivatives() -> None:
    def f(x: Any, n: Any) -> Any:
        y, m = lax.optimization_barrier((pnp.sin(x), n))
        return (y * m).sum()

    x, n = pnp.asarray(A), pnp.asarray(3)
    np.testing.assert_allclose(pb.grad(f)(x, n), 3 * np.cos(A), rtol=1e-6)
    np.testing.assert_allclose(pb.jit(pb.grad(f))(x, n), 3 * np.cos(A), rtol=1e-6)
    pb.testing.check_gradients(lambda x: f(x, n), (A.astype(np.float64),))
    assert "optimization_barrier" in pb.jit(f).lower(x, n).as_text()
    assert lax.optimization_barrier(()) == ()
    out = pb.vmap(lambda x: lax.optimization_barrier((x, 1.0)))(x)
    assert out[0].shape == (2, 3) and out[1].shape == (2,)


@pytest.mark.parametrize(
    ("first", "second", "wanted", "dtype"),
    [("int8", "int32", None, "int32"), ("bfloat16", "float32", None, "float32"), ("float32", "complex64", None, "complex64"),
     ("float8_e4m3fn", "float8_e5m2", "float32", "float32"), ("int8", "float32", "float32", "float32")],
)  # fmt: skip
def test_products_of_two_dtypes(first: str, second: str, wanted: str | None, dtype: str) -> None:
    x, y = pnp.asarray(A, first), pnp.asarray(A.T, second)
    for product in (lax.dot, pb.jit(lax.dot, static_argnames="preferred_element_type")):
        out = product(x, y, preferred_element_type=wanted)
        assert out.dtype == dtype and out.tolist() == (A @ A.T).tolist()
    assert lax.ragged_dot(x, y[None], np.array([2]), preferred_element_type=wanted).dtype == dtype


def test_groups_may_be_of_other_sizes_along_each_axis_before_the_ragged_one() -> None:
    rng = np.random.default_rng(0)
    x, experts = rng.normal(size=(2, 3, 7, 5)), rng.normal(size=(4, 2, 5, 2))
    sizes = rng.integers(0, 3, (2, 3, 4))
    remaining = lax.RaggedDotDimensionNumbers((((3,), (2,)), ((0,), (1,))), [2], [0])
    out = lax.ragged_dot_general(x, experts, sizes, remaining)
    contracted = lax.RaggedDotDimensionNumbers((((1, 2), (1, 2)), ((0,), (0,))), [2], [])
    y = rng.normal(size=(2, 3, 7, 6))
    products = lax.ragged_dot_general(x, y, sizes, contracted)
    expected, sums = np.zeros((2, 3, 7, 2)), np.zeros((4, 2, 5, 6))
    for i, j in np.ndindex(2, 3):
        ends = np.cumsum(sizes[i, j])
        for group, (start, end) in enumerate(zip([0, *ends], ends)):
            expected[i, j, start:end] = x[i, j, start:end] @ experts[group, i]
            sums[group, i] += x[i, j, start:end].T @ y[i, j, start:end]
    np.testing.assert_allclose(out, expected)
    np.testing.assert_allclose(products, sums)


@pytest.mark.parametrize(
    ("ragged", "groups", "sizes", "fault"),
    [
        ([0, 1], [0], 3, r"lhs_ragged_dimensions takes one of the axes 0 to 1 of lhs, but got \[0, 1\]"),
        ([2], [0], 3, r"takes one of the axes 0 to 1 of lhs, but got \[2\]"),
        ([0], [], 3, r"rhs_group_dimensions takes the axis of rhs, of 0 to 2, that numbers groups, but got \[\]"),
        ([1], [0], 3, "no axis of rhs numbers the groups"),
        ([0], [1], 3, "axis 1 of rhs numbers the groups, so it is neither contracted nor a batch axis"),
        ([0], [0], (2, 3), r"takes group_sizes of shape \(g\), where g"),
        ([0], [0], 2, "not one part for each of 2 groups"),
    ],
)
def test_the_fault_of_ragged_numbers_is_named(ragged: Any, groups: Any, sizes: Any, fault: str) -> None:
    numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), ragged, groups)
    with pytest.raises(pb.errors.ShapeError, match=fault):
        lax.ragged_dot_general(np.ones((11, 5)), np.ones((3, 5, 7)), np.ones(sizes, int), numbers)


def test_trees_of_a_reduction_that_differ() -> None:
    with pytest.raises(pb.errors.StructureError, match="init_values is a tuple where operands has a dict"):
        lax.reduce({"a": A}, (np.float32(0),), lambda x, y: x, (0,))
    with pytest.raises(pb.errors.StructureError, match="at least one operand"):
        lax.reduce({}, {}, lambda x, y: x, (0,))


@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_map_over_nothing_is_named_as_one(batch_size: int | None) -> None:
    with pytest.raises(pb.errors.AxisError, match=r"^map of .* has no xs to loop over"):
        lax.map(lambda x: x, (), batch_size=batch_size)
