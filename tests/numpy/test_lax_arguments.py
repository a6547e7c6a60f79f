"""pb.lax: JAX's parameter names and positions, and no argument that is ignored: a wrong value of any is an error."""

import inspect

import numpy as np
import pytest
from surface_tables import is_listed

import pullback as pb
import pullback.numpy as pnp
from pullback.core.modes import overriding

lax = pb.lax
X = pnp.asarray(np.arange(6.0, dtype=np.float32).reshape(2, 3))
V = pnp.asarray([1.0, 2.0, 3.0])
I = pnp.asarray([1, 2, 3])  # noqa: E741
B = pnp.asarray([True, False, True])
AT = pnp.asarray([[1]])
POINTS = lax.ScatterDimensionNumbers((), (0,), (0,))
NUMBERS = (((1,), (0,)), ((), ()))

UNARY = "abs acos acosh asin asinh atan atanh cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor is_finite"
UNARY += " lgamma log log1p logistic neg reciprocal rsqrt sign sin sinh sqrt square tan tanh stop_gradient"
BINARY = "add atan2 complex div eq ge gt le lt max min mul ne pow rem sub"
WHOLE = "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic shift_right_logical"

# A call that works, by name, with the parameters in JAX's order (jax 0.10.2, inspect.signature).
CALLS = {
    **{name: {"x": V} for name in UNARY.split()},
    **{name: {"x": V, "y": V} for name in BINARY.split()},
    **{name: {"x": I, "y": I} for name in WHOLE.split()},
    "bitwise_not": {"x": I},
    "population_count": {"x": I},
    **{name: {"x": V.astype("complex64")} for name in ("conj", "imag", "real")},
    "nextafter": {"x1": V, "x2": V},
    "integer_pow": {"x": V, "y": 2},
    "round": {"x": V, "rounding_method": "to_nearest_even"},
    "clamp": {"min": 0.0, "x": V, "max": 2.0},
    "select": {"pred": B, "on_true": V, "on_false": V},
    "reshape": {"operand": X, "new_sizes": (6,), "dimensions": (1, 0)},
    "transpose": {"operand": X, "permutation": (1, 0)},
    "squeeze": {"array": pnp.ones((1, 2)), "dimensions": (0,)},
    "expand_dims": {"array": X, "dimensions": (0,)},
    "concatenate": {"operands": [X, X], "dimension": 0},
    "broadcast": {"operand": V, "sizes": (2,)},
    "broadcast_in_dim": {"operand": V, "shape": (2, 3), "broadcast_dimensions": (1,)},
    "convert_element_type": {"operand": V, "new_dtype": "int32"},
    "bitcast_convert_type": {"operand": V, "new_dtype": "int32"},
    "iota": {"dtype": "int32", "size": 3},
    "broadcasted_iota": {"dtype": "int32", "shape": (2, 3), "dimension": 1},
    "full": {"shape": (2,), "fill_value": 1.0, "dtype": "float32"},
    "full_like": {"x": V, "fill_value": 1.0, "dtype": "float32", "shape": (2,)},
    "pad": {"operand": V, "padding_value": 0.0, "padding_config": [(1, 0, 0)]},
    "rev": {"operand": V, "dimensions": (0,)},
    "slice": {"operand": V, "start_indices": (0,), "limit_indices": (2,), "strides": (1,)},
    "slice_in_dim": {"operand": V, "start_index": 0, "limit_index": 2, "stride": 1, "axis": 0},
    "index_in_dim": {"operand": V, "index": 0, "axis": 0, "keepdims": True},
    "dynamic_slice": {"operand": V, "start_indices": (0,), "slice_sizes": (2,)},
    "dynamic_slice_in_dim": {"operand": V, "start_index": 0, "slice_size": 2, "axis": 0},
    "dynamic_index_in_dim": {"operand": V, "index": 0, "axis": 0, "keepdims": True},
    "dynamic_update_slice": {"operand": V, "update": V[:2], "start_indices": (0,)},
    "dynamic_update_slice_in_dim": {"operand": V, "update": V[:2], "start_index": 0, "axis": 0},
    "dynamic_update_index_in_dim": {"operand": V, "update": V[0], "index": 0, "axis": 0},
    "dot_general": {"lhs": X, "rhs": X.T, "dimension_numbers": NUMBERS, "precision": None, "preferred_element_type": "float32"},
    "dot": {"lhs": X, "rhs": X.T, "dimension_numbers": NUMBERS, "precision": "highest", "preferred_element_type": "float32"},
    "batch_matmul": {"lhs": X[None], "rhs": X.T[None], "precision": None},
    **{
        f"scatter{name}": {
            "operand": V,
            "scatter_indices": AT,
            **({"func": lambda x: x} if name == "_apply" else {"updates": V[:1]}),
            "dimension_numbers": POINTS,
            **({"update_shape": (1,)} if name == "_apply" else {}),
            "indices_are_sorted": False,
            "unique_indices": False,
            "mode": "clip",
        }
        for name in ("", "_add", "_sub", "_mul", "_min", "_max", "_apply")
    },
    "index_take": {"src": V, "idxs": [I], "axes": (0,)},
    "argmax": {"operand": V, "axis": 0, "index_dtype": "int32"},
    "argmin": {"operand": V, "axis": 0, "index_dtype": "int32"},
    **{f"reduce_{name}": {"operand": V, "axes": (0,)} for name in ("sum", "prod", "max", "min")},
    **{f"reduce_{name}": {"operand": B, "axes": (0,)} for name in ("and", "or", "xor")},
    "scan": {"f": lambda c, x: (c, x), "init": 0.0, "xs": V, "length": 3, "reverse": False, "unroll": 1},
    "map": {"f": lambda x: x, "xs": V, "batch_size": 2},
    "while_loop": {"cond_fun": lambda x: x < 1.0, "body_fun": lambda x: x + 1.0, "init_val": 0.0},
    "fori_loop": {"lower": 0, "upper": 3, "body_fun": lambda i, x: x, "init_val": 0.0, "unroll": 1},
    "cond": {"pred": True, "true_fun": lambda x: x, "false_fun": lambda x: x, "operand": V},
    "switch": {"index": 1, "branches": [lambda x: x, lambda x: x], "operand": V},
    "associative_scan": {"fn": lambda a, b: a + b, "elems": V, "reverse": False, "axis": 0},
}
# What may be anything: a tree that is passed on, or what Python asks for the truth of.
ANYTHING = {("scan", "reverse"), ("associative_scan", "reverse"), ("index_in_dim", "keepdims")}
ANYTHING |= {("dynamic_index_in_dim", "keepdims")}
ELSEWHERE = {
    "AccuracyMode",
    "DotAlgorithm",
    "DotAlgorithmPreset",
    "Precision",
    "RaggedDotDimensionNumbers",
    "RoundingMethod",
    "Tolerance",
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "gather",
    "select_n",
    "custom_root",
    "custom_linear_solve",
}
COLLECTIVES = {
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "pcast",
    "pvary",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
    "with_sharding_constraint",
}


@pytest.mark.parametrize("name", CALLS)
def test_parameters_have_jaxs_names_in_jaxs_order(name):
    parameters = inspect.signature(getattr(lax, name)).parameters
    assert [each for each in parameters if each in CALLS[name]] == list(CALLS[name])
    getattr(lax, name)(**CALLS[name])
    extra = {each for each in parameters if each not in CALLS[name]} - {"operands"}
    own = {"max_steps", "checkpoint", "checked", "_split_transpose"}  # while_loop's own, and one that JAX hides
    assert extra <= own | {"accuracy", "sharding", "out_sharding", "out_dtype", "allow_negative_indices"}  # test_lax_shapes.py


class Wrong:
    def __repr__(self):
        return "Wrong()"


WRONG = [(name, each) for name in CALLS for each in CALLS[name] if (name, each) not in ANYTHING]


@pytest.mark.parametrize("name, parameter", WRONG)
@pytest.mark.parametrize("value", [Wrong(), "nonsense"], ids=repr)
def test_a_wrong_value_of_any_argument_is_an_error(name, parameter, value):
    with pytest.raises((TypeError, ValueError, IndexError, pb.errors.PullbackError)):
        getattr(lax, name)(**{**CALLS[name], parameter: value})


def test_every_function_is_covered():
    functions = {name for name in lax.__all__ if inspect.isfunction(getattr(lax, name))}
    assert {name for name in functions if not is_listed(f"lax.{name}")} <= {*CALLS, *ELSEWHERE, *COLLECTIVES} <= {*lax.__all__}


@pytest.mark.parametrize(
    "f", [lax.add, lax.atan2, lax.lt, lax.nextafter, lax.pow, lax.igamma, lax.mul], ids=lambda f: f.__name__
)
def test_axes_of_size_1_are_stretched(f) -> None:
    row, column = pnp.array([[1.0, 2.0, 3.0]]), pnp.array([[0.5], [1.5]])
    whole = f(pnp.broadcast_to(row, (2, 3)), pnp.broadcast_to(column, (2, 3)))
    for found in (f(row, column), pb.jit(f)(row, column)):
        assert found.shape == (2, 3)
        np.testing.assert_allclose(found, whole, rtol=1e-6)  # vectors of other lengths may round otherwise
    with pytest.raises(pb.errors.ShapeError, match="of one shape"):
        f(row, column[0])
    with pytest.raises(pb.errors.ShapeError, match="of one shape"):
        f(row, pnp.ones((2, 2)))


def test_pow_takes_whole_exponents_of_an_integer_dtype() -> None:
    x, y = pnp.array([2.0, -2.0, 0.0]), pnp.array([3, 2, 0])
    assert lax.pow(x, y).tolist() == [8.0, 4.0, 1.0] and lax.pow(x, y).dtype == np.float32
    assert pb.jit(lax.pow)(x, 2).tolist() == [4.0, 4.0, 0.0]
    np.testing.assert_array_equal(pb.jacrev(pb.jit(lax.pow))(x, 2), np.diag([4.0, -4.0, 0.0]))
    with pytest.raises(pb.errors.DtypeError, match="floating or complex"):
        lax.pow(y, y)


def test_dot_general_takes_two_dtypes_however_strict_promotion_is() -> None:
    with overriding(promotion="strict"):
        assert lax.dot(V, I).dtype == np.float32
        with pytest.raises(pb.errors.DtypeError, match="strict"):
            V + I


def test_axes_of_broadcast_in_dim_come_in_any_order() -> None:
    x = pnp.asarray([[1.0], [2.0], [3.0]])
    expected = np.broadcast_to(np.asarray(x).T[:, :, None], (2, 3, 4))
    np.testing.assert_array_equal(lax.broadcast_in_dim(x, (2, 3, 4), (1, 0)), expected)


@pytest.mark.parametrize(
    "numbers, fault",
    [
        (lax.GatherDimensionNumbers((), (0, 1), (0, 0)), r"start_index_map=\(0, 0\) names an axis more than once"),
        (lax.GatherDimensionNumbers((), (0, 1), (0, 7)), r"start_index_map=\(0, 7\) goes out of bounds"),
        (lax.GatherDimensionNumbers((), (0, 7), (0, 1)), r"collapsed_slice_dims=\(0, 7\) goes out of bounds"),
        (lax.GatherDimensionNumbers((), (1,), (1,), (0,), ()), "different lengths"),
    ],
)
def test_dimension_numbers_that_are_no_axes_are_refused(numbers, fault) -> None:
    with pytest.raises(pb.errors.ShapeError, match=fault):
        lax.gather(X, pnp.zeros((4, len(numbers.start_index_map)), np.int32), numbers, (1, 1))


def test_sizes_may_be_arrays_of_integers() -> None:
    assert lax.dynamic_slice(X, (0, 1), pnp.asarray([2, 2])).shape == (2, 2)
    pads = lax.padtype_to_pads(*map(np.asarray, ([5, 6], [2, 3], [1, 2])), "SAME")
    assert all(type(pad) is int for pair in pads for pad in pair)
    with pytest.raises(pb.errors.ShapeError, match="a pair"):
        lax.conv_general_dilated_patches(pnp.ones((1, 1, 4, 4)), (2, 2), (1, 1), (3, 3))
