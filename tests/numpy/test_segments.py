"""Segments and ravel_pytree, where segments are traced or empty, dtypes are mixed, and where they must refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.flatten_util import ravel_pytree

X, IDS = np.array([2.0, 0.0, 3.0, 4.0], np.float32), np.array([1, 0, 1, 9])


def test_numbers_may_be_traced_if_it_is_said_how_many_there_are() -> None:
    found = pb.jit(lambda ids: pb.segment_sum(X, ids, 3))(IDS)
    assert found.tolist() == [0, 5, 0]
    batched = pb.vmap(lambda x, ids: pb.segment_max(x, ids, num_segments=2))(np.stack([X, -X]), np.stack([IDS, IDS]))
    assert batched.tolist() == [[0, 3], [0, -2]]
    with pytest.raises(pb.errors.TracerIntegerConversionError, match="num_segments="):
        pb.jit(lambda ids: pb.segment_sum(X, ids))(IDS)


def test_empty_segments_have_the_neutral_element() -> None:
    for dtype in ("int8", "uint8", "bool"):
        x = np.array([1, 1], dtype)
        low, high = (False, True) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        assert pb.segment_max(x, np.array([1, 1])).tolist() == [low, 1]
        assert pb.segment_min(x, np.array([1, 1])).tolist() == [high, 1] and pb.segment_min(x, IDS[:2]).dtype == dtype
    assert pb.segment_sum(np.zeros(0), np.zeros(0, int)).shape == (0,)


def test_second_derivatives_of_products_with_zeros() -> None:
    x, ids = np.array([2.0, 0.0, 3.0, 0.0, 0.0, 5.0, 7.0]), np.array([0, 0, 1, 2, 2, 1, 2])
    weights = np.array([[1.0, 0, 0], [0, 2, 0], [0, 0, 3]]).sum(0)

    def dense(x: Any) -> Any:
        return pnp.stack([x[0] * x[1], x[2] * x[5], x[3] * x[4] * x[6]]) @ weights

    def f(x: Any) -> Any:
        return pb.segment_prod(x, ids, 3) @ weights

    for transform in (pb.grad, pb.hessian, lambda f: pb.jit(pb.hessian(f))):
        np.testing.assert_allclose(np.asarray(transform(f)(x)), np.asarray(transform(dense)(x)), atol=1e-12)


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "bools": (lambda: pb.segment_sum(X > 0, IDS), pb.errors.DtypeError, r"\.astype"),
    "complex extremes": (lambda: pb.segment_max(X + 1j, IDS), pb.errors.DtypeError, "segment_max takes"),
    "numbers that are none": (lambda: pb.segment_sum(X, X), pb.errors.DtypeError, "integer segment_ids"),
    "too few": (lambda: pb.segment_sum(X, IDS[:2]), pb.errors.ShapeError, "a number for each part"),
    "a negative count": (lambda: pb.segment_sum(X, IDS, -1), pb.errors.ShapeError, "not negative"),
    "a bucket of nothing": (lambda: pb.segment_sum(X, IDS, 3, bucket_size=0), pb.errors.ShapeError, "at least 1"),
    "a mode": (lambda: pb.segment_sum(X, IDS, 3, mode="around"), ValueError, "'clip'"),
    "jax.ops": (lambda: pb.ops.segment_sum, AttributeError, r"pb\.segment_sum"),
    "another size": (lambda: ravel_pytree([X])[1](X[:2]), pb.errors.ShapeError, "4 elements"),
    "another dtype": (lambda: ravel_pytree([X, IDS])[1](np.zeros(8)), pb.errors.DtypeError, "float32"),
    "a string": (lambda: ravel_pytree({"a": "b"}), pb.errors.LeafError, "'a'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    f, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        f()


def test_a_tree_is_a_vector_and_back() -> None:
    tree = {"w": pnp.asarray(X).reshape(2, 2), "n": (pnp.arange(3), 2.5), "z": pnp.zeros((0, 2)), "none": None}
    vector, restore = ravel_pytree(tree)
    assert vector.shape == (8,) and vector.dtype == np.float32
    again = restore(vector)
    assert pb.tree.structure(again) == pb.tree.structure(tree)
    for one, other in zip(pb.tree.leaves(again), pb.tree.leaves(tree), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        assert one.dtype == pnp.asarray(other).dtype
    complexes, back = ravel_pytree([pnp.ones(1), pnp.ones(1) * 1j])
    assert complexes.dtype == np.complex64 and [leaf.dtype.name for leaf in back(complexes)] == ["float32", "complex64"]
    empty, back = ravel_pytree([])
    assert empty.shape == (0,) and back(empty) == []
    assert ravel_pytree([X])[1](np.ones(4))[0].dtype == np.float64  # leaves of one dtype take that of the vector


def test_functions_that_make_the_same_trees_are_equal_static_arguments() -> None:
    traced = []

    def run(vector: Any, restore: Any) -> Any:
        traced.append(restore)
        return restore(vector + 1)

    compiled = pb.jit(run, static_argnums=1)
    for value in (X, X + 1):
        compiled(*ravel_pytree({"a": value}))
    assert len(traced) == 1
    compiled(*ravel_pytree({"b": X}))
    assert len(traced) == 2 and ravel_pytree([X])[1] != ravel_pytree([X.astype(np.int32)])[1]


def test_trees_as_vectors_under_transformations() -> None:
    tree = {"a": pnp.asarray(X), "b": pnp.asarray(2.0)}

    def f(tree: Any) -> Any:
        vector, restore = ravel_pytree(tree)
        return (restore(vector**2)["a"] * tree["b"]).sum()

    for gradient in (pb.grad(f)(tree), pb.jit(pb.grad(f))(tree)):
        np.testing.assert_allclose(np.asarray(gradient["a"]), 4 * X)
        assert float(gradient["b"]) == float((X**2).sum())
    rows = pb.vmap(lambda x: ravel_pytree([x, x])[0])(np.stack([X, 2 * X]))
    assert rows.shape == (2, 8)


def test_where_there_are_no_places_nothing_is_put() -> None:
    assert pb.segment_sum(X, np.zeros(len(X), int), num_segments=0).shape[0] == 0
    empty = pnp.zeros((0, 2))
    assert pb.jit(lambda i: empty.at[i].add(1.0))(np.array([3])).shape == (0, 2)
    with pytest.raises(IndexError, match="out of bounds"):
        empty.at[np.array([3])].set(1.0)


def test_products_of_segments_whose_numbers_are_traced() -> None:
    x, ids = np.array([2.0, 0.0, 3.0, 4.0], np.float32), np.array([0, 0, 2, 2])

    def f(x: Any, ids: Any) -> Any:
        return pb.segment_prod(x, ids, 3)

    assert np.array_equal(pb.jit(f)(x, ids), [0.0, 1.0, 12.0])
    assert np.array_equal(pb.vmap(f)(x[None], ids[None]), [[0.0, 1.0, 12.0]])
    slope = pb.jit(pb.grad(lambda x, ids: f(x, ids).sum()))(x, ids)
    assert np.array_equal(slope, [0.0, 2.0, 4.0, 3.0])
    curved = pb.jit(pb.hessian(lambda x, ids: f(x, ids).sum()))(x, ids)
    np.testing.assert_allclose(curved, [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], atol=1e-6)
