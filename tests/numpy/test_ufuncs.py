"""NumPy's methods of universal functions, frompyfunc and vectorize, against NumPy, compiled, and differentiated."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import ShapeError
from pullback.core.modes import overriding

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 3)).astype(np.float32)
WHOLE = RNG.integers(-9, 9, (4, 3)).astype(np.int32)
BOOLS = WHOLE > 0
LONG = RNG.normal(size=(40, 2))
NAMES = {
    "add": A, "subtract": A, "multiply": A, "true_divide": A, "maximum": A, "minimum": A, "fmax": A, "hypot": A, "logaddexp": A,
    "bitwise_and": WHOLE, "bitwise_or": WHOLE, "bitwise_xor": WHOLE, "logical_and": BOOLS, "logical_or": BOOLS,
    "logical_xor": BOOLS, "floor_divide": A,
}  # fmt: skip


def same(got: Any, true: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), true, rtol=1e-4, atol=1e-5)
    assert got.shape == true.shape and got.dtype.kind == np.asarray(true).dtype.kind


@pytest.mark.parametrize("name", NAMES)
def test_methods_are_those_of_numpy(name: str) -> None:
    ours, true, x = getattr(pnp, name), getattr(np, name), NAMES[name]
    assert (ours.nin, ours.nout, ours.nargs) == (2, 1, 3)
    for way in (lambda f: f, pb.jit):
        same(way(ours.reduce)(x), true.reduce(x))
        same(way(lambda x: ours.reduce(x, axis=-1, keepdims=True))(x), true.reduce(x, axis=-1, keepdims=True))
        same(way(ours.accumulate)(x), true.accumulate(x))
        same(way(lambda x: ours.accumulate(x, 1))(x), true.accumulate(x, 1))
        same(way(ours.outer)(x[0], x), true.outer(x[0], x))
        same(way(lambda x: ours.reduceat(x, np.array([0, 2, 1])))(x), true.reduceat(x, [0, 2, 1]))
        expected = x[:, 0].copy()
        true.at(expected, [0, 0, 2], x[:3, 1])
        same(way(lambda x: ours.at(x[:, 0], np.array([0, 0, 2]), x[:3, 1], inplace=False))(x), expected)


def test_folds_of_arctan2_along_either_axis() -> None:
    # NumPy's own arctan2.reduce along the last axis is wrong where the processor has AVX-512 (NumPy 2.4.6).
    for axis, rows in ((0, A.T), (1, A)):
        same(pnp.arctan2.reduce(A, axis=axis), np.array([functools.reduce(np.arctan2, row) for row in rows]))
        same(pb.jit(lambda x: pnp.arctan2.accumulate(x, axis))(A).take(-1, axis), pnp.arctan2.reduce(A, axis=axis))


def test_folds_with_a_mask_a_start_and_many_elements() -> None:
    mask = np.arange(40)[:, None] % 3 > 0
    same(pnp.hypot.reduce(LONG, where=mask, initial=1.0), np.hypot.reduce(LONG, where=mask, initial=1.0))
    same(pnp.subtract.reduce(LONG), np.subtract.reduce(LONG))
    same(pnp.subtract.accumulate(LONG), np.subtract.accumulate(LONG))
    same(pnp.logaddexp.reduce(LONG, axis=None), np.logaddexp.reduce(LONG.ravel()))
    same(pnp.hypot.reduce(np.zeros((0, 2))), np.hypot.reduce(np.zeros((0, 2))))
    same(pnp.add.reduce(WHOLE, dtype=np.float32), np.add.reduce(WHOLE, dtype=np.float32))
    same(pnp.maximum.reduce(A, axis=(0, 1)), np.maximum.reduce(A, axis=(0, 1)))
    with pytest.raises(pb.errors.ShapeError, match=r"subtract.reduce of no elements has no value"):
        pnp.subtract.reduce(pnp.zeros(0))
    with pytest.raises(ValueError, match=r"subtract.reduce with `where` needs an `initial` value"):
        pnp.subtract.reduce(A, where=A > 0)
    pb.testing.check_gradients(pnp.subtract.reduce, (LONG,), order=2)
    pb.testing.check_gradients(lambda x: pnp.multiply.accumulate(x), (LONG[:3],), order=2)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(TypeError, match=r"add.at cannot write into its array, .*inplace=False"):
        pnp.add.at(pnp.zeros(3), 0, 1.0)
    with pytest.raises(TypeError, match=r"add.at takes an array, indices and 1 further operand, but got none"):
        pnp.add.at(pnp.zeros(3), 0, inplace=False)
    with pytest.raises(TypeError, match="cannot write into `out`"):
        pnp.subtract.reduce(A, out=A)
    with pytest.raises(ValueError, match=r"negative.reduce is there for functions of two numbers"):
        pnp.negative.reduce(A)
    assert pnp.negative.at(pnp.ones(3), pnp.array([0, 0, 2]), inplace=False).tolist() == [1.0, 1.0, -1.0]


def test_functions_of_python_become_universal() -> None:
    both = pnp.frompyfunc(lambda x, y: (x + y, x * y), 2, 2)
    for got, true in zip(both(A, A[0]), (A + A[0], A * A[0])):
        same(got, true)
    assert repr(both) == "ufunc <lambda>" and (both.nin, both.nout, both.identity) == (2, 2, None)
    gap = pnp.frompyfunc(lambda x, y: abs(x - y), 2, 1, identity=0)
    true = np.frompyfunc(lambda x, y: abs(x - y), 2, 1)
    same(gap.reduce(A), true.reduce(A).astype(np.float32))
    same(gap.accumulate(A), true.accumulate(A).astype(np.float32))
    assert gap.reduce(pnp.zeros(0)).tolist() == 0.0
    with pytest.raises(TypeError, match="takes 2 operands, but got 1"):
        gap(A)


def test_vectorize_is_that_of_numpy() -> None:
    cases: list[tuple[Any, str | None, tuple[Any, ...]]] = [
        (lambda x, y: x - 2 * y, None, (A, A[:, :1])),
        (lambda x, y: x - 2 * y, None, (2.0, 3.0)),
        (lambda m, v: m @ v, "(n,k),(k)->(n)", (RNG.normal(size=(2, 5, 3)), A[:2])),
        (lambda m, v: m @ v, "(n,k),(k)->(n)", (RNG.normal(size=(2, 1, 5, 3)), A)),
        (lambda v: (v.sum(), v * 2), "(n)->(),(n)", (A,)),
        (lambda v: v[:2], "(n)->(m)", (A,)),
        (lambda v, w: v * w.sum(), "(n),(m)->(n)", (A[0], A)),
    ]
    for f, signature, args in cases:
        ours, true = pnp.vectorize(f, signature=signature), np.vectorize(f, signature=signature)
        for way in (lambda f: f, pb.jit):
            found, expected = way(ours)(*args), true(*args)
            for got, one in zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]:
                np.testing.assert_allclose(np.asarray(got), one, rtol=1e-5)
    power = pnp.vectorize(lambda x, n: x**n, excluded={1})
    assert power(pnp.array([2.0, 3.0]), 2).tolist() == [4.0, 9.0]
    named = pnp.vectorize(lambda x, *, scale, name: x * scale if name == "by" else x, excluded={"name"})
    assert named(A[0], scale=A[:, :1], name="by").shape == (4, 3)
    assert pnp.vectorize(lambda x: x + 1)(pnp.zeros((0, 2))).shape == (0, 2)
    pb.testing.check_gradients(pnp.vectorize(lambda v: v @ v, signature="(n)->()"), (LONG[:3],), order=2)


def test_wrong_signatures() -> None:
    for signature in ("n->n", "(n)", "(n)->(n", 3):
        with pytest.raises(ValueError, match=r"takes a signature such as '\(n,k\),\(k\)->\(n\)'"):
            pnp.vectorize(lambda x: x, signature=signature)  # type: ignore[arg-type]
    dot = pnp.vectorize(lambda x, y: x @ y, signature="(n),(n)->()")
    with pytest.raises(pb.errors.ShapeError, match=r"inconsistent size .* 'n' of \(n\),\(n\)->\(\): it is 3, but"):
        dot(np.ones(3), np.ones(2))
    with pytest.raises(pb.errors.ShapeError, match="does not have enough dimensions"):
        dot(1.0, np.ones(2))
    with pytest.raises(TypeError, match=r"wrong number of positional arguments .*: 1 were given, but it takes 2"):
        dot(np.ones(2))
    with pytest.raises(pb.errors.ShapeError, match=r"output shape \(3,\) does not match the dimensions \(\)"):
        pnp.vectorize(lambda x: pnp.ones(3) * x, signature="()->()")(A)
    with pytest.raises(TypeError, match="takes a function, but got 3"):
        pnp.vectorize(3)  # type: ignore[arg-type]


def test_vectorize_passes_none_on_and_takes_results_of_any_shape() -> None:
    total = pnp.vectorize(lambda x, y: x if y is None else x + y)
    assert np.array_equal(total(A, None), A) and np.array_equal(total(A, 1.0), A + 1)
    assert pnp.vectorize(lambda x: x * pnp.ones(5))(pnp.ones((2, 3))).shape == (2, 3, 5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pnp.vectorize(abs, excluded={1.5}), TypeError, "can only exclude arguments by number or name"),
        (lambda: pnp.vectorize(abs, excluded={-1}), ValueError, "contains negative numbers"),
        (lambda: pnp.vectorize(pnp.add, signature="(),()->()")(1.0, None), ValueError, r"None at locations \{1\}"),
        (lambda: pnp.vectorize(lambda x: (x, x), signature="()->()")(1.0), TypeError, "has 1 results, the function returned 2"),
    ],
)
def test_what_vectorize_refuses(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_vectorize_heeds_rank_promotion_of_batches() -> None:
    f, g = pnp.vectorize(pnp.add, signature="(),()->()"), pnp.vectorize(pnp.add, signature="(n),()->(n)")
    x, y = pnp.zeros((2, 2)), pnp.zeros(2)
    with overriding(rank_promotion="raise"):
        with pytest.raises(ShapeError, match="axes in front"):
            f(x, y)
        assert g(x, y).shape == f(x, 1.0).shape == (2, 2)


def test_the_functions_with_these_methods_are_instances() -> None:
    assert isinstance(pnp.add, pnp.ufunc) and isinstance(pnp.frompyfunc(max, 2, 1), pnp.ufunc)
    assert not isinstance(pnp.sin, pnp.ufunc) and not isinstance(np.add, pnp.ufunc)


def test_ufuncs_of_one_function_are_equal_and_their_facts_stay() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y

    one, other = pnp.frompyfunc(f, 2, 1, identity=0), pnp.frompyfunc(f, 2, 1, identity=0)
    assert one == other and hash(one) == hash(other)
    assert one != pnp.frompyfunc(f, 2, 1) and one != pnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0) and one != f
    with pytest.raises(AttributeError, match="identity of ufunc f cannot be changed"):
        one.identity = 1
