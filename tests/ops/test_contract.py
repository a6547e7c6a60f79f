"""dot_general against einsum, dtype by dtype; batching that broadcasts nothing; what is refused."""

import ml_dtypes
import numpy as np
import pytest

from pullback.core.array import as_array
from pullback.core.dtypes import DTYPES
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.types import ArrayType
from pullback.ops.contract import dot_general
from pullback.testing.checks import batched, check_adjoint
from pullback.transforms.stage import stage

RNG = np.random.default_rng(0)
PLAIN = (((1,), (0,)), ((), ()))

# einsum's spelling, the operands' shapes, dimension numbers
CASES = [
    ("ij,jk->ik", (2, 3), (3, 4), PLAIN),
    ("ij,j->i", (2, 3), (3,), PLAIN),
    ("j,jk->k", (3,), (3, 4), (((0,), (0,)), ((), ()))),
    ("ij,kj->ik", (2, 3), (4, 3), (((1,), (1,)), ((), ()))),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4), (((2,), (1,)), ((0,), (0,)))),
    ("ijb,kbj->bik", (2, 3, 5), (4, 5, 3), (((1,), (2,)), ((2,), (1,)))),
    ("abij,jiba->ab", (2, 3, 4, 5), (5, 4, 3, 2), (((2, 3), (1, 0)), ((0, 1), (3, 2)))),
    ("i,j->ij", (2,), (3,), (((), ()), ((), ()))),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_against_einsum(case, both):
    spelled, x_shape, y_shape, numbers = case
    x, y = RNG.normal(size=x_shape), RNG.normal(size=y_shape)
    for values in both(dot_general, x, y, dimension_numbers=numbers):
        np.testing.assert_allclose(values, np.einsum(spelled, x, y), rtol=1e-12, atol=1e-12)
    z = x + 1j * RNG.normal(size=x_shape)
    for values in both(dot_general, z, y.astype(complex), dimension_numbers=numbers):
        np.testing.assert_allclose(values, np.einsum(spelled, z, y), rtol=1e-12, atol=1e-12)
    small = (5 * x).astype(np.int8), (5 * y).astype(np.int8)
    for values in both(dot_general, *small, dimension_numbers=numbers):
        np.testing.assert_array_equal(values, np.einsum(spelled, *[a.astype(np.int64) for a in small]).astype(np.int8))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_accumulated_in_single(dtype, both):
    x = np.ones((1, 3000)).astype(DTYPES[dtype])
    for values in both(dot_general, x, x.T.copy(), dimension_numbers=PLAIN):
        assert values.dtype == DTYPES[dtype] and float(values[0, 0]) == float(np.float64(3000).astype(DTYPES[dtype]))
    for values in both(dot_general, x, x.T.copy(), dimension_numbers=PLAIN, preferred_element_type=DTYPES["float32"]):
        assert values.dtype == np.float32 and values[0, 0] == 3000


def test_narrow_integers_in_a_wide_result(both):
    x = np.full((1, 100), 100, np.int8)
    for values in both(dot_general, x, x.T.copy(), dimension_numbers=PLAIN, preferred_element_type=DTYPES["int32"]):
        assert values.dtype == np.int32 and values[0, 0] == 1_000_000


def test_bools(both):
    x = np.array([[True, False], [False, False]])
    for values in both(dot_general, x, x, dimension_numbers=PLAIN):
        assert values.dtype == bool and values.tolist() == [[True, False], [False, False]]


def test_the_derivative_has_the_operands_dtype():
    x, y = (as_array(RNG.normal(size=shape).astype(ml_dtypes.bfloat16)) for shape in ((2, 3), (3, 4)))
    wide = {"dimension_numbers": PLAIN, "preferred_element_type": DTYPES["float32"]}
    check_adjoint(lambda a, b: [dot_general(a, b, **wide)], [x, y], RNG, "bfloat16 into float32")


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_batching_broadcasts_nothing(case, flags):
    _, x_shape, y_shape, numbers = case
    types = [ArrayType((7, *shape) if flag else shape, "float64") for shape, flag in zip((x_shape, y_shape), flags)]
    over = batched(lambda x, y: [dot_general(x, y, dimension_numbers=numbers)], flags, 7)
    program, _ = stage(over, types)
    names = [equation.primitive.name for equation in program.equations]
    assert names.count("dot_general") == 1 and set(names) <= {"dot_general", "transpose"}


def test_what_is_refused():
    x = as_array(np.zeros((2, 3)))
    with pytest.raises(ShapeError, match=r"contracting axes \(1,\) and \(0,\) do not have the same sizes"):
        dot_general(x, x, dimension_numbers=PLAIN)
    with pytest.raises(ShapeError, match="batch axes"):
        dot_general(x, x, dimension_numbers=(((), ()), ((0,), (1,))))
    with pytest.raises(ShapeError, match="twice"):
        dot_general(x, x, dimension_numbers=(((0,), (0,)), ((0,), (0,))))
    with pytest.raises(DtypeError, match="one dtype"):
        dot_general(x, as_array(np.zeros((3, 2), np.float32)), dimension_numbers=PLAIN)
    with pytest.raises(DtypeError, match="cannot be accumulated in complex64"):
        dot_general(x, as_array(np.zeros((3, 2))), dimension_numbers=PLAIN, preferred_element_type=DTYPES["complex64"])
