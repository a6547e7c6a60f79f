"""Every function against NumPy's: values, dtypes and shapes; compiled against eager; batched against a loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy_tables import (
    BINARY,
    BOOLS,
    CALLS,
    CUBE,
    EINSUMS,
    INTEGER_BINARY,
    INTS,
    ODD,
    POSITIVE,
    ROW,
    SEQUENCES,
    SMALL,
    SQUARE,
    UNARY_POSITIVE,
    UNARY_REAL,
    UNARY_UNIT,
    UNIT,
    A,
    B,
)

import pullback as pb
import pullback.numpy as pnp
from pullback.core.dtypes import DTYPES

UNARY = (
    [(name, A) for name in UNARY_REAL] + [(name, POSITIVE) for name in UNARY_POSITIVE] + [(name, UNIT) for name in UNARY_UNIT]
)
NO_GRADIENT = {"take", "take_along_axis"}


def same(got, expected, rtol=2e-5, atol=1e-6):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol)


def numpy_function(name):
    return getattr(np, name)


@pytest.mark.parametrize("name,x", UNARY, ids=[name for name, _ in UNARY])
def test_unary_as_numpy(name, x):
    got = getattr(pnp, name)(pnp.asarray(x))
    expected = numpy_function(name)(x)
    same(got, expected)
    assert got.dtype == expected.dtype
    same(pb.jit(getattr(pnp, name))(x), expected)
    assert getattr(pnp, name)(pnp.asarray(x[0, 0])).shape == ()
    assert getattr(pnp, name)(pnp.asarray(x[:0])).shape == (0, 4)


@pytest.mark.parametrize("name,x", UNARY, ids=[name for name, _ in UNARY])
def test_unary_of_odd_numbers(name, x):
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(ODD)
    same(getattr(pnp, name)(pnp.asarray(ODD)), expected)


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "tanh", "log1p", "arctan", "mean", "var"])
@pytest.mark.parametrize("dtype", ["int32", "int8", "bool", "uint8"])
def test_integers_become_floating(name, dtype):
    x = SMALL.astype(dtype)
    got = getattr(pnp, name)(pnp.asarray(x))
    assert got.dtype == np.float32
    same(got, getattr(np, name)(x.astype(np.float32)))


@pytest.mark.parametrize("name", BINARY)
def test_binary_as_numpy(name):
    for x, y in ((A, B), (A, ROW), (ROW, A), (A, A[:, :1]), (A[:0], ROW), (A[0, 0], B)):
        got = getattr(pnp, name)(pnp.asarray(x), pnp.asarray(y))
        expected = getattr(np, name)(x, y)
        same(got, expected, rtol=1e-4)
        assert got.dtype == expected.dtype
    same(pb.jit(getattr(pnp, name))(A, ROW), getattr(np, name)(A, ROW), rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in BINARY if name != "floor_divide"])
def test_binary_of_odd_numbers(name):
    x, y = np.meshgrid(ODD, ODD)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    same(getattr(pnp, name)(pnp.asarray(x), pnp.asarray(y)), expected)


@pytest.mark.parametrize("name", INTEGER_BINARY)
@pytest.mark.parametrize("dtype", ["int32", "int8", "int64", "uint8"])
def test_integer_binary_as_numpy(name, dtype):
    x, y = INTS.astype(dtype), (np.abs(INTS) % 5 + 1).astype(dtype) * (1 if dtype[0] == "u" else -1)
    y = y.astype(dtype)
    got = getattr(pnp, name)(pnp.asarray(x), pnp.asarray(y))
    expected = getattr(np, name)(x, y)
    assert got.dtype == dtype
    np.testing.assert_array_equal(np.asarray(got), expected)


CASES = [(name, i) for name, calls in CALLS.items() for i in range(len(calls))]


def as_arrays(args):
    return tuple(pnp.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in args)


@pytest.mark.parametrize("name,case", CASES)
def test_calls_as_numpy(name, case):
    args, kwargs = CALLS[name][case]
    expected = getattr(np, name)(*args, **kwargs)
    function = getattr(pnp, name)
    got = function(*as_arrays(args), **kwargs)
    same(got, expected, rtol=1e-4)
    assert got.dtype == np.float32 or expected.dtype != np.float32
    first, *rest = as_arrays(args)
    compiled = pb.jit(lambda x: function(x, *rest, **kwargs))
    same(compiled(first), expected, rtol=1e-4)
    rows = pb.vmap(lambda x: function(x, *rest, **kwargs))(pnp.stack([first, 2 * first]))
    same(rows[1], getattr(np, name)(2 * np.asarray(first), *args[1:], **kwargs), rtol=1e-3)


@pytest.mark.parametrize("name,case", CASES)
def test_derivatives_by_differences(name, case):
    args, kwargs = CALLS[name][case]
    first, *rest = as_arrays(args)
    if first.dtype != np.float32 or name in ("angle", "round"):
        pytest.skip("no derivative, or one of zero")
    with pb.default_bits(64):
        first = first.astype(np.float64)
        rest = [x.astype(np.float64) if isinstance(x, pb.Array) and x.dtype == np.float32 else x for x in rest]
        direction = np.cos(np.arange(first.size)).reshape(first.shape)

        def f(x):
            return pnp.sum(pnp.sin(getattr(pnp, name)(x, *rest, **kwargs)))

        step = 1e-6
        expected = (float(f(first + step * direction)) - float(f(first - step * direction))) / (2 * step)
        got = float(pnp.sum(pb.grad(f)(first) * direction))
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", SEQUENCES)
def test_joining_as_numpy(name):
    for parts in ([A, B], [ROW, ROW], [A, INTS]):
        if name in ("concatenate", "stack", "dstack") or parts[0].ndim:
            got = getattr(pnp, name)([pnp.asarray(x) for x in parts])
            same(got, getattr(np, name)(parts))
            same(pb.jit(getattr(pnp, name))(parts), getattr(np, name)(parts))
    assert getattr(pnp, name)([pnp.asarray(A), pnp.asarray(INTS)]).dtype == np.float32
    same(pnp.stack([1.0, pnp.asarray(2.0)], axis=-1), np.stack([1.0, 2.0], axis=-1))


MISFITS = {
    "einsum": (lambda: pnp.einsum("ij,jk->il", A[:2, :2], A[:2, :2]), r"did not appear in the input\. At "),
    "reshape": (lambda: pnp.reshape(pnp.ones(6), (-1, -1)), r"one size by itself, but \(-1, -1\) has -1 2 times\. At "),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_the_errors_of_shapes_say(name):
    mistake, message = MISFITS[name]
    with pytest.raises(pb.errors.ShapeError, match=message):
        mistake()


@pytest.mark.parametrize("subscripts,operands", EINSUMS, ids=[text for text, _ in EINSUMS])
def test_einsum_as_numpy(subscripts, operands):
    expected = np.einsum(subscripts, *operands)
    same(pnp.einsum(subscripts, *map(pnp.asarray, operands)), expected, rtol=1e-4, atol=1e-5)
    same(pb.jit(lambda *xs: pnp.einsum(subscripts, *xs))(*operands), expected, rtol=1e-4, atol=1e-5)
    gradient = pb.grad(lambda x: pnp.sum(pnp.einsum(subscripts, x, *operands[1:])))(pnp.asarray(operands[0]))
    assert gradient.shape == operands[0].shape


def test_einsum_of_lists_of_axes():
    for given in (
        (A, [0, 1], SQUARE, [1, 2], [0, 2]),
        (A, [0, 1], SQUARE, [1, 2]),
        (A, [3, 5]),
        (A, ["b", "a"]),
        (SQUARE, [0, 0], [0]),
        (SQUARE, [4, 4], []),
        (CUBE, [Ellipsis, 0, 1], SQUARE, [1, 2], [Ellipsis, 0, 2]),
        (A, [0, 1], SQUARE, [1, 2], ROW, [2], [0]),
    ):
        named = given if "b" not in str(given[1]) else (A, [1, 0])  # NumPy takes numbers alone
        same(pnp.einsum(*given), np.einsum(*named), rtol=1e-4, atol=1e-5)
    for wrong in ((3,), (A, 1), (A, [0, 1], 5), (object(), A), (A, [[0], [1]])):
        with pytest.raises((TypeError, pb.errors.PullbackError), match="einsum"):
            pnp.einsum(*wrong)


def test_einsum_takes_every_order_of_contraction():
    subscripts, operands = "ij,jk,kl,l->i", (A, SQUARE, SQUARE, ROW)
    path, _ = np.einsum_path(subscripts, *operands)
    for optimize in (True, False, "auto", "greedy", "optimal", "dp", path, [(0, 1), (0, 2), (0, 1)], ((0, 1, 2, 3),)):
        got = pnp.einsum(subscripts, *operands, optimize=optimize, preferred_element_type="float64")
        assert got.dtype == np.float64
        same(got.astype("float32"), np.einsum(subscripts, *operands), rtol=1e-4, atol=1e-5)
    for wrong in ("nonsense", 3, [1], ["einsum_path", 2]):
        with pytest.raises(ValueError, match="optimize"):
            pnp.einsum(subscripts, *operands, optimize=wrong)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "says"),
    [
        ("ij,jk", ((2, 3), (4, 5)), "'j'"),
        ("ij->k", ((2, 3),), "'k'"),
        ("ij->ii", ((2, 3),), "'i'"),
        ("ii", ((2, 3),), "'i'"),
        ("ij", ((2, 3), (2, 3)), "operands"),
        ("i...,j", ((2, 3),), "einsum"),
        ("i...,...", ((2, 3),), "einsum"),
        ("ijk", ((2, 3),), "'ijk'"),
        ("ij-k", ((2, 3),), "->"),
        ("i.j", ((2, 3),), "llipse"),
        ("", (), "einsum"),
    ],
)
def test_einsum_says_which_letters_do_not_fit(subscripts, shapes, says):
    with pytest.raises(pb.errors.ShapeError, match=says):
        pnp.einsum(subscripts, *map(pnp.zeros, shapes))


def test_einsum_contracts_the_small_pair_first():
    vector = np.ones(50, np.float32)
    matrix = np.ones((50, 50), np.float32)
    program = pb.xpr(lambda a, b, v: pnp.einsum("ij,jk,k->i", a, b, v), matrix, matrix, vector)
    products = [e for e in program.equations if e.primitive.name == "dot_general"]
    assert [e.outputs[0].type.size for e in products] == [50, 50]


@pytest.mark.parametrize(
    "mode", ["constant", "edge", "linear_ramp", "maximum", "mean", "minimum", "reflect", "symmetric", "wrap"]
)
def test_pad_of_whole_numbers_as_numpy(mode):
    options = [{}]
    if mode in ("reflect", "symmetric"):
        options = [{"reflect_type": "even"}, {"reflect_type": "odd"}]
    elif mode in ("maximum", "mean", "minimum"):
        options = [{}, {"stat_length": 2}, {"stat_length": np.int64(2)}, {"stat_length": [[1], [3]]}]
    elif mode == "linear_ramp":
        options = [{}, {"end_values": 100}, {"end_values": ((3, -7), (120, 4))}]
    for x in (SMALL.astype(np.int8), SMALL.astype(np.uint8), INTS, SMALL.astype(np.int64), INTS[:1, :2]):
        for width in (0, 1, (0, 3), ((2, 0), (0, 1)), np.array([[1, 2], [3, 4]]), 9):
            for given in options:
                if x.dtype == np.uint8 and "end_values" in given and given["end_values"] != 100:
                    continue
                same(pnp.pad(pnp.asarray(x), width, mode, **given), np.pad(x, width, mode, **given))
    assert pnp.pad(pnp.asarray(A), ((1, 2), (0, 3)), "empty").shape == (6, 7)
    same(pnp.pad(pnp.zeros((0, 2)), ((0, 0), (1, 1)), mode), np.pad(np.zeros((0, 2), "f4"), ((0, 0), (1, 1)), mode))


@pytest.mark.parametrize("values", [3.0, (3.0, 4.0), ((1.0, 2.0), (3.0, 4.0))])
def test_pad_with_traced_numbers(values):
    for mode, name in (("constant", "constant_values"), ("linear_ramp", "end_values")):
        expected = np.pad(np.ones((3, 2)), 1, mode, **{name: values})
        given = np.array(values)
        for found in (
            pb.jit(lambda v, mode=mode, name=name: pnp.pad(np.ones((3, 2)), 1, mode, **{name: v}))(given),
            pb.vmap(lambda v, mode=mode, name=name: pnp.pad(np.ones((3, 2)), 1, mode, **{name: v}))(given[None])[0],
        ):
            np.testing.assert_allclose(np.asarray(found), expected)


@pytest.mark.parametrize(
    ("width", "options", "says"),
    [
        (1, {"mode": "medial"}, "'medial'"),
        (1, {"mode": lambda *_: None}, "returned None for one of 5 elements"),
        (1, {"mode": lambda vector, *_: vector[1:]}, "a function that returns the vector"),
        (1, {"mode": "edge", "constant_values": 1}, "constant_values"),
        (1, {"stat_length": 1}, "stat_length"),
        (1, {"mode": "mean", "stat_length": 0}, "stat_length"),
        (1, {"mode": "reflect", "reflect_type": "strange"}, "reflect_type"),
        (-1, {}, "widths"),
        (1.5, {}, "widths"),
        ((1, 2, 3), {}, "pad_width"),
        (((1, 2), (1, 2), (1, 2)), {}, "pad_width"),
        (((1, 2, 3), (1, 2, 3)), {"mode": "edge"}, "pad_width"),
    ],
)
def test_pad_says_what_does_not_fit(width, options, says):
    with pytest.raises((ValueError, pb.errors.ShapeError), match=says):
        pnp.pad(pnp.asarray(A), width, **options)
    with pytest.raises(pb.errors.ShapeError, match="nothing to extend"):
        pnp.pad(pnp.zeros((0, 2)), 1, "wrap")


def test_axes_of_diagonals_and_of_linspace_are_checked():
    for call in (
        lambda: pnp.diagonal(CUBE, 0, 0, 3),
        lambda: pnp.diagonal(CUBE, 0, 1, -2),
        lambda: pnp.trace(CUBE, 0, 5, 1),
        lambda: pnp.linspace(0.0, ROW, 3, axis=2),
    ):
        with pytest.raises(pb.errors.AxisError):
            call()


@pytest.mark.parametrize("how", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "dtype,high",
    [
        ("float16", 4e4),
        ("bfloat16", 3e38),
        ("float8_e4m3fn", 448),
        ("float8_e5m2", 4e4),
        ("float32", 3e38),
        ("float64", 1.5e308),
    ],
)
def test_linspace_reaches_from_low_to_high(dtype, high, how):
    end = np.asarray(high, DTYPES[dtype])
    weights = np.arange(-2, 3) / 2
    got = how(lambda end: pnp.linspace(-end, end, 5))(end)
    assert got.dtype is DTYPES[dtype]
    eps = float(pnp.finfo(dtype).eps)
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), end.astype(np.float64) * weights, rtol=2 * eps)
    many = np.asarray(how(lambda end: pnp.linspace(end - end, end, 70_000))(end)).astype(np.float64) / high
    np.testing.assert_allclose(many, np.linspace(0, 1, 70_000), atol=2 * eps)  # further than float16 counts


@pytest.mark.parametrize("cut", ["split", "array_split"])
def test_splitting_as_numpy(cut):
    for x, where, axis in (
        (A, 2, 1),
        (A, [1, 3], 1),
        (A, [1], 0),
        (CUBE, 3, 1),
        (A, [0, 2, 9], 1),
        (A, [-1], 1),
        (A, np.array(2), 1),
    ):
        got = getattr(pnp, cut)(pnp.asarray(x), where, axis)
        expected = getattr(np, cut)(x, where, axis)
        assert len(got) == len(expected)
        for one, other in zip(got, expected):
            same(one, other)
    assert [part.shape for part in pnp.array_split(pnp.asarray(ROW), 3)] == [(2,), (1,), (1,)]


@pytest.mark.parametrize(
    "name,args",
    [
        ("zeros", ((2, 3),)),
        ("ones", (3,)),
        ("full", ((2,), 1.5)),
        ("arange", (5,)),
        ("arange", (2, 9, 3)),
        ("arange", (1.0, 2.0, 0.25)),
        ("arange", (5, 0, -2)),
        ("arange", (0,)),
        ("linspace", (0, 1, 5)),
        ("linspace", (0, 1, 5, False)),
        ("linspace", (0, 1, 1)),
        ("linspace", (2, 3, 0)),
        ("eye", (3,)),
        ("eye", (2, 4, 1)),
        ("eye", (3, 3, -1)),
        ("identity", (2,)),
        ("tri", (3,)),
        ("tri", (2, 4, 1)),
        ("array", ([[1, 2], [3, 4]],)),
        ("array", ([1, 2.5],)),
        ("array", ([],)),
        ("array", ([True, False],)),
        ("array", ((1, (2)),)),
        ("indices", ((2, 3),)),
        ("logspace", (0.0, 2.0, 3)),
        ("array", ([[], []],)),
        ("zeros", ((0, 2),)),
        ("full", ((), 3)),
    ],
)
def test_creation_as_numpy(name, args):
    got = getattr(pnp, name)(*args)
    expected = getattr(np, name)(*args)
    same(got, expected)
    assert got.dtype == {"f": "float32", "i": "int32", "b": "bool"}[expected.dtype.kind]
    assert got.weak_type == (name == "full")  # of a Python number, as in JAX
    same(pb.jit(lambda: getattr(pnp, name)(*args))(), expected)


def test_creation_takes_dtypes_and_defaults():
    assert pnp.zeros(2, pnp.bfloat16).dtype == pnp.bfloat16
    assert pnp.arange(3, dtype=pnp.float64).dtype == np.float64
    assert pnp.ones_like(pnp.asarray(INTS)).dtype == np.int32
    assert pnp.full_like(A, 2, dtype=int).dtype == np.int32
    assert pnp.array(np.float64(1)).dtype == np.float64
    assert pnp.array([1, 2], dtype="float16").dtype == np.float16
    assert pnp.asarray(3).weak_type and pnp.array(3).weak_type and not pnp.array(3, int).weak_type
    with pb.default_bits(64):
        assert pnp.zeros(2).dtype == np.float64
        assert pnp.arange(2).dtype == np.int64
        assert pnp.array([1.5]).dtype == np.float64


def test_an_array_copies_what_the_caller_can_still_change():
    mine = np.ones(3)
    ours = pnp.asarray(mine)
    mine[0] = 7
    assert ours.tolist() == [1, 1, 1]


def test_meshgrid_as_numpy():
    for indexing in ("xy", "ij"):
        for sparse in (False, True):
            got = pnp.meshgrid(ROW, A[:, 0], indexing=indexing, sparse=sparse)
            for one, other in zip(got, np.meshgrid(ROW, A[:, 0], indexing=indexing, sparse=sparse)):
                same(one, other)


@pytest.mark.parametrize("name", ["any", "all", "count_nonzero", "argmax", "argmin"])
def test_questions_of_arrays(name):
    for x in (A, INTS, BOOLS):
        for axis in (None, 0, -1):
            got = getattr(pnp, name)(pnp.asarray(x), axis)
            np.testing.assert_array_equal(np.asarray(got), getattr(np, name)(x, axis))
            np.testing.assert_array_equal(
                np.asarray(pb.jit(lambda x: getattr(pnp, name)(x, axis))(x)), getattr(np, name)(x, axis)
            )


@pytest.mark.parametrize("dtype,expected", [("int8", "int32"), ("uint8", "uint32"), ("bool", "int32"), ("int64", "int64")])
def test_sums_are_wide_enough(dtype, expected):
    x = np.full((300,), 1, dtype)
    assert pnp.sum(x).dtype == expected
    assert int(pnp.sum(x)) == 300
    assert pnp.prod(x).dtype == expected


def test_integer_powers():
    x = np.arange(-3, 4, dtype=np.int32)
    np.testing.assert_array_equal(np.asarray(pnp.asarray(x) ** 5), x**5)
    np.testing.assert_array_equal(np.asarray(pnp.power(x, np.int32(7))), x**7)
    np.testing.assert_array_equal(np.asarray(pnp.power(x, np.abs(x))), x ** np.abs(x))
    np.testing.assert_array_equal(np.asarray(2 ** pnp.asarray(np.abs(x))), 2 ** np.abs(x))
    np.testing.assert_array_equal(np.asarray(pnp.power(np.array([1, -1, 2], np.int32), np.int32(-3))), [1, -1, 0])
    with pytest.raises(pb.errors.DtypeError, match="integer"):
        pnp.asarray(x) ** -1


def test_matmul_of_bools_and_of_integers():
    np.testing.assert_array_equal(np.asarray(pnp.matmul(BOOLS, BOOLS.T)), BOOLS @ BOOLS.T)
    np.testing.assert_array_equal(np.asarray(pnp.matmul(INTS, INTS.T)), INTS @ INTS.T)


@pytest.mark.parametrize("name", ["where", "isclose", "allclose_like"])
def test_choices(name):
    if name == "where":
        same(pnp.where(BOOLS, A, B), np.where(BOOLS, A, B))
        same(pnp.where(BOOLS, A, 0), np.where(BOOLS, A, 0))
        same(pnp.where(True, A, ROW), np.where(True, A, ROW))
        same(pnp.where(BOOLS[:, :1], 1.0, 2.0), np.where(BOOLS[:, :1], 1.0, 2.0))
        assert pnp.where(BOOLS, A, 1).dtype == np.float32
        with pytest.raises((TypeError, ValueError), match="where"):
            pnp.where(BOOLS, A)
    elif name == "isclose":
        np.testing.assert_array_equal(np.asarray(pnp.isclose(ODD, ODD + 1e-7)), np.isclose(ODD, ODD + 1e-7))
        x, y = pnp.asarray(ODD), pnp.asarray(ODD[::-1])
        for args in ((x, x), (x, y), (x, x, 0.0, 0.0, True), (x, y, 1e-3, 1.0)):
            for _ in range(2):  # the general path, and then the one that it allows
                np.testing.assert_array_equal(pnp.isclose(*args), np.isclose(*map(np.asarray, args)))
                assert bool(pnp.allclose(*args)) is bool(np.isclose(*map(np.asarray, args)).all())
    else:
        assert bool(pnp.allclose(A, A + 1e-9)) and not bool(pnp.allclose(A, B))
        np.testing.assert_array_equal(np.asarray(pnp.isin(INTS, np.array([1, 2]))), np.isin(INTS, [1, 2]))
        same(pnp.select([A > 1, A > 0], [A, B], -1.0), np.select([A > 1, A > 0], [A, B], -1.0))
        assert bool(pnp.array_equal(A, A)) and not bool(pnp.array_equal(A, B)) and not bool(pnp.array_equal(A, ROW))


def test_linspace_of_numbers_is_that_of_arrays():
    """The first call of a kind shows what NumPy may do by itself for those that follow."""
    for start, stop in ((0.0, 1.0), (0.1, 0.7), (-3.4e38, 3.4e38), (np.inf, 1.0), (5.0, -2.5)):
        for num, endpoint in ((0, True), (1, True), (1, False), (7, False), (50, True)):
            found = pnp.linspace(start, stop, num, endpoint)
            np.testing.assert_array_equal(found, pnp.linspace(pnp.asarray(start), pnp.asarray(stop), num, endpoint))
            assert found.dtype == np.float32 and not found.type.weak


def test_linspace_of_one_number_is_its_start():
    for start, stop in ((0.0, np.inf), (-np.inf, np.inf), (5.0, np.nan)):
        for endpoint in (True, False):
            np.testing.assert_array_equal(pnp.linspace(start, stop, 1, endpoint), np.float32([start]))
            np.testing.assert_array_equal(pnp.linspace(np.float32(start), np.float32(stop), 1, endpoint), np.float32([start]))


def test_complex_numbers():
    z = (A + 1j * B).astype(np.complex64)
    for name in ("real", "imag", "conjugate", "absolute", "angle", "exp", "square"):
        got = getattr(pnp, name)(pnp.asarray(z))
        expected = getattr(np, name)(z)
        np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-5)
        assert got.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(pnp.var(z)), np.var(z), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(pnp.vdot(z, z)), np.vdot(z, z), rtol=1e-5)


def test_dtype_questions():
    assert pnp.result_type(pnp.int32, pnp.float32) == np.float32
    assert pnp.result_type(pnp.asarray(INTS), 1.0) == np.float32
    assert pnp.result_type(np.float64, 1) == np.float64
    assert pnp.promote_types("uint8", "int8") == np.int16
    assert pnp.issubdtype(pnp.bfloat16, pnp.floating) and not pnp.issubdtype(pnp.int8, pnp.floating)
    assert pnp.isdtype(pnp.bfloat16, "real floating") and pnp.isdtype("int8", ("bool", "integral"))
    assert not pnp.isdtype("int8", "unsigned integer")
    assert pnp.finfo(pnp.bfloat16).bits == 16 and pnp.iinfo(pnp.int8).max == 127
    assert pnp.can_cast("int8", "int32") and not pnp.can_cast("float64", "float32")
    assert pnp.__array_namespace_info__().default_dtypes()["real floating"] == np.float32


def test_what_is_not_there_says_so():
    with pytest.raises(AttributeError, match=r"poly1d.: a polynomial is the vector of its coefficients"):
        pnp.poly1d  # noqa: B018
    with pytest.raises(AttributeError, match="nonsense"):
        pnp.nonsense  # noqa: B018


def test_every_public_name_is_documented_and_reexported():
    for name in pnp.__all__:
        value = getattr(pnp, name)
        if callable(value) and not isinstance(value, type):
            assert value.__doc__ and len(value.__doc__) > 10, name
    assert pnp.sin is pnp.sin and pnp.asarray is pnp.asarray and pnp.sum is pnp.sum


@pytest.mark.parametrize("m,n", [(2, 3), (3, 2), (2, 2)])
def test_cross_products_in_the_plane(m, n):
    x, y = np.zeros((3, 3), np.float32), np.zeros((3, 3), np.float32)
    x[:, :m], y[:, :n] = A[:, :m], B[:, :n]
    expected = np.cross(x, y)
    same(pnp.cross(x[:, :m], y[:, :n]), expected if 3 in (m, n) else expected[:, 2])


def test_square_matrix_helpers():
    same(pnp.trace(SQUARE), np.trace(SQUARE))
    same(pnp.diagflat(A[:2, :2]), np.diagflat(A[:2, :2]))
    quotient, rest = pnp.divmod(INTS, 4)
    np.testing.assert_array_equal(np.asarray(quotient), INTS // 4)
    np.testing.assert_array_equal(np.asarray(rest), INTS % 4)
    fraction, whole = pnp.modf(A)
    same(fraction, np.modf(A)[0])
    same(whole, np.modf(A)[1])
    same(pnp.unstack(A)[1], A[1])
    same(pnp.floor_divide(A, B), np.floor_divide(A, B))


def test_linspace_of_integers_is_that_of_numpy():
    with pb.default_bits(64):
        for start, stop, count in itertools.product((0, 1, 5, -3, 2.5), (1, 9, -7, 10, 100), (0, 1, 2, 4, 7, 10, 101)):
            for options in ({"dtype": "int64"}, {}, {"endpoint": False}):
                expected = np.linspace(start, stop, count, **options)
                np.testing.assert_allclose(pnp.linspace(start, stop, count, **options), expected, rtol=1e-14, atol=1e-14)
    values, step = pnp.linspace(0.0, 1.0, 5, retstep=True)
    assert float(step) == 0.25 and not step.type.weak and not values.type.weak
    with pytest.raises(pb.errors.DtypeError, match="complex ends"):
        pnp.linspace(0, 4 + 4j, 3, dtype=int)


def test_a_shape_in_several_arguments_is_explained():
    for make in (pnp.zeros, pnp.ones, pnp.empty):
        with pytest.raises(pb.errors.DtypeError, match=r"3 is not a dtype.* A shape is one argument: zeros\(\(2, 3\)\)"):
            make(2, 3)


def test_roll_by_several_shifts():
    x = np.arange(24).reshape(2, 3, 4)
    for shift, axis in [((1, 2), None), ((1, 2), 0), ((1, 3), (1, 1)), (1, (0, 2)), ((2,), (0, 1)), (-5, None), (1, [0, 1])]:
        np.testing.assert_array_equal(pnp.roll(x, shift, axis), np.roll(x, shift, axis))
    with pytest.raises(ValueError, match="as many shifts as axes"):
        pnp.roll(x, (1, 2, 3), (0, 1))


def test_rounding_does_not_overflow():
    for dtype, values in (("float16", [300.0, 1.2345, 65504.0]), ("bfloat16", [1e38, 2.5]), ("float64", [1e307, 0.125])):
        x = pnp.asarray(np.array([*values, np.inf, -np.inf, np.nan]), dtype=dtype)
        for found in (pnp.round(x, 3), pb.jit(lambda v: pnp.round(v, 3))(x)):
            assert found.dtype == x.dtype
            np.testing.assert_allclose(np.asarray(found, "float64"), np.asarray(x, "float64"), rtol=1e-2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_to_any_number_of_decimals(dtype):
    x = np.array([1.5, -2.5, 1e30, 0.0, 3e-38], dtype)
    for decimals in (39, 45, 308, 310, 400):
        expected = np.where(np.abs(x) < 0.5 * 10.0**-decimals, 0, x) if decimals < 300 else x
        for found in (pnp.round(x, decimals), pb.jit(lambda v, d=decimals: pnp.round(v, d))(x)):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
            assert not np.any(pnp.round(x, -decimals)) and not np.any(pnp.round(np.arange(3), -decimals))
