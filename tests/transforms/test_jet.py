"""Taylor mode: against jvp of jvp, against mpmath's Taylor series, under other transformations, and at what cost."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.api.loops import scan
from pullback.core.array import as_array
from pullback.core.errors import DtypeError, GradientError, MissingRule, ProgramError, ShapeError, StructureError
from pullback.core.primitive import Primitive
from pullback.core.zero import ZERO
from pullback.testing import CheckFailure, all_primitives, check_primitive
from pullback.testing.checks import active_arguments, check_jet, differentiable, in_double
from pullback.testing.values import in_dtype, is_generic
from pullback.transforms.jet import jet_flat
from pullback.transforms.jvp import has_derivative

COLLECTIVES = {"psum", "pmax", "pmin", "axis_index", "all_gather", "psum_scatter", "ppermute", "all_to_all", "pvary"} | {
    "aligned",
    "psum_over_varying",
    "pvary_over_varying",
    "shard_map",
    "sharding_constraint",
}
DIFFERENTIABLE = [p for p in all_primitives() if has_derivative(p) and p.samples and p.name not in COLLECTIVES]


@pytest.mark.parametrize("p", DIFFERENTIABLE, ids=lambda p: p.name)
def test_every_primitive_to_order_4(p: Primitive) -> None:
    rng = np.random.default_rng(0)
    checked = 0
    for args, params in p.samples(rng):
        typed = in_dtype(args, np.dtype(np.float64 if "f" in p.kinds else np.complex128)) if is_generic(args) else None
        if typed is None:
            continue

        def function(*xs, params=params):
            out = p(*xs, **params)
            return out if p.multiple_results else [out]

        if differentiable(function, typed) and in_double(function, typed):
            check_jet(function, typed, rng, p.name, order=4)
            checked += 1
    assert checked or p.name in {"reduce_and", "reduce_or", "reduce_xor", "argmax", "argmin", "variation"}


def test_a_wrong_derivative_of_second_order_is_found() -> None:
    wrong = Primitive("wrong", evaluate=np.sin, result_type=lambda x: x, partials=lambda out, x: (lax.cos(x),), kinds="f")
    wrong.define("lower", "stablehlo.sine")
    wrong.define("vectorize", lambda size, args, axes: (wrong(*args), 0))
    wrong.define("samples", lambda rng: [((rng.normal(size=3),), {})])
    check_primitive(wrong)
    wrong.define("jet", lambda primals, series: (wrong(*primals), [lax.mul(lax.cos(primals[0]), t) for t in series[0]]))
    with pytest.raises(CheckFailure, match="derivative 2 by jet against jvp of jvp"):
        check_primitive(wrong)


# ---- closed forms --------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "exp": (pnp.exp, mpmath.exp, 0.3),
    "exp2": (pnp.exp2, lambda x: mpmath.power(2, x), 0.3),
    "expm1": (pnp.expm1, mpmath.expm1, 0.3),
    "log": (pnp.log, mpmath.log, 1.7),
    "log1p": (pnp.log1p, mpmath.log1p, 0.7),
    "sin": (pnp.sin, mpmath.sin, 0.3),
    "cos": (pnp.cos, mpmath.cos, 0.3),
    "tan": (pnp.tan, mpmath.tan, 0.3),
    "asin": (pnp.asin, mpmath.asin, 0.3),
    "acos": (pnp.acos, mpmath.acos, 0.3),
    "atan": (pnp.atan, mpmath.atan, 0.3),
    "sinh": (pnp.sinh, mpmath.sinh, 0.3),
    "cosh": (pnp.cosh, mpmath.cosh, 0.3),
    "tanh": (pnp.tanh, mpmath.tanh, 0.3),
    "asinh": (pnp.asinh, mpmath.asinh, 0.3),
    "acosh": (pnp.acosh, mpmath.acosh, 2.3),
    "atanh": (pnp.atanh, mpmath.atanh, 0.3),
    "logistic": (pb.nn.sigmoid, lambda x: 1 / (1 + mpmath.exp(-x)), 0.3),
    "sqrt": (pnp.sqrt, mpmath.sqrt, 1.3),
    "rsqrt": (lax.rsqrt, lambda x: 1 / mpmath.sqrt(x), 1.3),
    "cbrt": (pnp.cbrt, mpmath.cbrt, 1.3),
    "reciprocal": (lambda x: 1.0 / x, lambda x: 1 / x, 1.3),
    "power": (lambda x: x**2.5, lambda x: mpmath.power(x, 2.5), 1.3),
    "exponent": (lambda x: 2.5**x, lambda x: mpmath.power(2.5, x), 1.3),
    "both": (lambda x: x**x, lambda x: mpmath.power(x, x), 1.3),
    "whole power": (lambda x: x**7, lambda x: x**7, 1.3),
    "negative power": (lambda x: x**-3, lambda x: x**-3, 1.3),
    "erf": (lax.erf, mpmath.erf, 0.3),
    "erfc": (lax.erfc, mpmath.erfc, 0.3),
    "erf_inv": (lax.erf_inv, mpmath.erfinv, 0.3),
    "lgamma": (lax.lgamma, mpmath.loggamma, 2.3),
    "chain": (lambda x: pnp.tanh(pnp.sin(pnp.exp(x))), lambda x: mpmath.tanh(mpmath.sin(mpmath.exp(x))), 0.3),
    "quotient": (lambda x: pnp.sin(x) / (2.0 + pnp.cos(x)), lambda x: mpmath.sin(x) / (2 + mpmath.cos(x)), 0.3),
    "product": (lambda x: x * pnp.sin(x), lambda x: x * mpmath.sin(x), 0.3),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_against_mpmath(name: str) -> None:
    function, exact, x = FUNCTIONS[name]
    order = 8
    with mpmath.workdps(60):
        coefficients = mpmath.taylor(exact, mpmath.mpf(x), order)
    expected = [float(c * mpmath.factorial(k)) for k, c in enumerate(coefficients)]
    out, series = pb.jet(function, (np.float64(x),), ([1.0] + [0] * (order - 1),))
    assert_allclose([float(out), *map(float, series)], expected, rtol=1e-11)
    assert_allclose(float(pb.nth_derivative(function, order)(np.float64(x))), expected[-1], rtol=1e-11)


def test_a_curve_that_is_no_line() -> None:
    # exp(sin t) from the series of sin
    out, series = pb.jet(pnp.exp, (np.float64(0.0),), ([1.0, 0, -1.0, 0, 1.0],))
    with mpmath.workdps(40):
        exact = mpmath.taylor(lambda t: mpmath.exp(mpmath.sin(t)), 0, 5)
    assert_allclose(
        [float(out), *map(float, series)], [float(c * mpmath.factorial(k)) for k, c in enumerate(exact)], rtol=1e-13
    )


def test_ten_derivatives_of_sin() -> None:
    x = 0.7
    cycle = [np.sin(x), np.cos(x), -np.sin(x), -np.cos(x)]
    _, series = pb.jet(pnp.sin, (np.float64(x),), ([1.0] + [0] * 9,))
    assert_allclose([float(term) for term in series], [cycle[k % 4] for k in range(1, 11)], rtol=1e-15)


def test_ten_derivatives_of_x_sin_x() -> None:
    x = 0.7
    cycle = [np.sin(x), np.cos(x), -np.sin(x), -np.cos(x)]
    for n in range(11):
        found = pb.nth_derivative(lambda x: x * pnp.sin(x), n)(np.float64(x))
        assert_allclose(float(found), x * cycle[n % 4] + n * cycle[(n - 1) % 4], rtol=1e-13)


def test_at_places_where_recurrences_divide_by_zero() -> None:
    assert float(pb.nth_derivative(lambda x: x**3.0, 2)(np.float64(0.0))) == 0.0
    assert float(pb.nth_derivative(lambda x: x**3.0, 3)(np.float64(0.0))) == 6.0
    assert float(pb.nth_derivative(lambda x: x**4, 4)(np.float64(0.0))) == 24.0
    # x^4 sin(x) at 0: the 5th derivative is 5! * 1
    assert_allclose(float(pb.nth_derivative(lambda x: x**4 * pnp.sin(x), 5)(np.float64(0.0))), 120.0)


def test_pieces() -> None:
    def order_2(f, x):
        return [float(term) for term in pb.jet(f, (np.float64(x),), ([1.0, 0],))[1]]

    assert order_2(lambda x: pnp.abs(x**3), -2.0) == [-12.0, 12.0]
    assert order_2(lambda x: pnp.maximum(x * x, x), 3.0) == [6.0, 2.0]
    assert order_2(lambda x: pnp.where(x > 0, x * x, -x), -3.0) == [-1.0, 0.0]
    assert order_2(lambda x: pnp.clip(x * x, 0.0, 1.0), 3.0) == [0.0, 0.0]
    assert order_2(lambda x: pnp.floor(x) * x, 2.5) == [2.0, 0.0]
    assert order_2(lambda x: pb.stop_gradient(x) * x * x, 3.0) == [18.0, 6.0]


# ---- the interface -------------------------------------------------------------------------------------------------------


def test_trees() -> None:
    def f(p, x):
        return {"product": p["w"] * x, "sum": (p["w"] + p["b"],), "whole": 3}

    primals = ({"w": np.float64(2.0), "b": np.float64(1.0)}, np.float64(3.0))
    out, series = pb.jet(f, primals, ({"w": [1.0, 0], "b": [None, 2.0]}, [1.0, 0]))
    assert float(out["product"]) == 6.0 and float(out["sum"][0]) == 3.0 and int(out["whole"]) == 3
    assert [float(term) for term in series["product"]] == [5.0, 2.0]
    assert [float(term) for term in series["sum"][0]] == [1.0, 2.0]
    assert [term.dtype for term in series["whole"]] == [pb.float0, pb.float0]


def test_a_series_fits_the_next_jet() -> None:
    x, line = np.float64(0.4), ([1.0, 0, 0],)
    inner, terms = pb.jet(lambda x: {"a": pnp.sin(x)}, (x,), line)
    out, series = pb.jet(lambda tree: pnp.exp(tree["a"]), (inner,), (terms,))
    whole, expected = pb.jet(lambda x: pnp.exp(pnp.sin(x)), (x,), line)
    assert float(out) == float(whole)
    assert_allclose([float(t) for t in series], [float(t) for t in expected], rtol=1e-14)


def test_dtypes_and_shapes_are_kept() -> None:
    x = pnp.asarray(np.ones((2, 3), np.float32))
    out, series = pb.jet(lambda x: pnp.sum(pnp.exp(2.0 * x), axis=0), (x,), ([x, x],))
    assert [t.type for t in (out, *series)] == [pb.ArrayType((3,), "float32")] * 3
    with pytest.raises(ShapeError, match=r"series\[0\]\[1\]"):
        pb.jet(pnp.exp, (x,), ([x, 1.0],))
    with pytest.raises(DtypeError, match="dtypes"):
        pb.jet(pnp.exp, (x,), ([x, np.ones((2, 3))],))


def test_integers_have_no_series() -> None:
    out, (term,) = pb.jet(lambda x, n: x * n, (2.0, 3), ([1.0], [None]))
    assert float(out) == 6.0 and float(term) == 3.0
    with pytest.raises(GradientError, match="integers and bools"):
        pb.jet(lambda x, n: x * n, (2.0, 3), ([1.0], [1]))


def test_malformed_calls_are_refused() -> None:
    with pytest.raises(TypeError, match="tuple or list"):
        pb.jet(pnp.sin, 1.0, ([1.0],))
    with pytest.raises(StructureError, match="takes as many series as primals"):
        pb.jet(pnp.sin, (1.0,), ([1.0], [1.0]))
    with pytest.raises(StructureError, match="one length"):
        pb.jet(lambda x, y: x * y, (1.0, 1.0), ([1.0], [1.0, 0]))
    with pytest.raises(StructureError, match="in the place of it"):
        pb.jet(pnp.sin, (1.0,), (1.0,))
    with pytest.raises(StructureError, match="each leaf"):
        pb.jet(lambda t: t["a"], ({"a": 1.0},), ([1.0],))
    with pytest.raises(ValueError, match="whole number"):
        pb.nth_derivative(pnp.sin, -1)
    with pytest.raises(GradientError, match="vmap"):
        pb.nth_derivative(pnp.sin, 2)(np.ones(3))
    with pytest.raises(GradientError, match="one floating-point number"):
        pb.nth_derivative(pnp.sin, 2)(1)


def test_a_missing_rule_is_named() -> None:
    bare = Primitive("bare", evaluate=np.sin, result_type=lambda x: x)
    with pytest.raises(MissingRule, match=r"Taylor-mode \(jet\) rule for primitive 'bare' not implemented; jet needs it"):
        pb.jet(bare, (1.0,), ([1.0],))


def test_a_malformed_rule_is_named() -> None:
    bare = Primitive("bare", evaluate=np.sin, result_type=lambda x: x)
    for returned, message in (
        (1.0, "a pair"),
        ((pnp.asarray(1.0), [pnp.asarray(1.0)]), "2 derivatives"),
        ((pnp.asarray(1.0), [pnp.zeros(3)] * 2), "of the result's shape"),
    ):
        bare.define("jet", lambda primals, series, returned=returned: returned)
        with pytest.raises(ProgramError, match=message):
            pb.jet(bare, (1.0,), ([1.0, 1.0],))


# ---- derived rules -------------------------------------------------------------------------------------------------------


def elliptic(modulus: float):
    """Jacobi's sn, cn, dn as primitives that know only the first derivatives of each other: sn' = cn dn, and so on."""

    def evaluate(which):
        def at(x):
            values = np.vectorize(lambda x: float(mpmath.ellipfun(which, x, k=modulus)), otypes=[float])(x)
            return np.asarray(values)

        return at

    names = ("sn", "cn", "dn")
    sn, cn, dn = made = [Primitive(name, evaluate=evaluate(name), result_type=lambda x: x) for name in names]
    sn.define("partials", lambda out, x: (cn(x) * dn(x),))
    cn.define("partials", lambda out, x: (-1.0 * (sn(x) * dn(x)),))
    dn.define("partials", lambda out, x: (-(modulus**2) * (sn(x) * cn(x)),))
    return made


def test_functions_that_are_each_others_derivatives() -> None:
    sn, _, _ = elliptic(0.6)
    order = 7
    _, series = pb.jet(sn, (np.float64(0.4),), ([1.0] + [0] * (order - 1),))
    with mpmath.workdps(60):
        exact = mpmath.taylor(lambda x: mpmath.ellipfun("sn", x, k=mpmath.mpf("0.6")), mpmath.mpf(0.4), order)
    assert_allclose([float(t) for t in series], [float(c * mpmath.factorial(k)) for k, c in enumerate(exact)][1:], rtol=1e-11)
    counts = [len(pb.xpr(pb.nth_derivative(sn, n), np.float64(0.4)).equations) for n in (4, 8, 16)]
    assert counts[2] < 5 * counts[1] < 25 * counts[0]  # quadratic; each branching into two others, naively it is 2^n


def test_a_bilinear_operation_that_knows_only_its_jvp() -> None:
    def jvp(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        return outer(x, y), outer(tx, y) + outer(x, ty)

    outer = Primitive("outer", evaluate=np.outer, result_type=lambda x, y: x.with_shape((*x.shape, *y.shape)), jvp=jvp)
    x, y = as_array(np.array([1.0, 2.0])), as_array(np.array([0.5, 0.3, 0.2]))
    check_jet(lambda x, y: [outer(x, y)], [x, y], np.random.default_rng(0), "outer", order=4)


def test_a_rule_of_ones_own_within_derived_ones() -> None:
    """f has a rule over whole series; g' = f(g), so that g's derivatives depend on f's of g's own."""
    calls = []

    def jet(primals, series):
        calls.append(len(series[0]))
        (x,), (terms,) = primals, series
        return f(x), [2.0 * term for term in terms]

    f = Primitive("f", evaluate=lambda x: 2 * x, result_type=lambda x: x, jet=jet)
    g = Primitive("g", evaluate=lambda x: np.exp(2 * x), result_type=lambda x: x, partials=lambda out, x: (f(out),))
    _, series = pb.jet(g, (np.float64(0.1),), ([1.0, 0, 0, 0],))
    assert_allclose([float(t) for t in series], [2.0**k * np.exp(0.2) for k in range(1, 5)], rtol=1e-14)
    assert max(calls) == 3


def test_an_expansion() -> None:
    cube = Primitive("cube", expand=lambda x: x * x * x)
    _, series = pb.jet(cube, (2.0,), ([1.0, 0, 0, 0],))
    assert [float(t) for t in series] == [12.0, 12.0, 6.0, 0.0]


# ---- cost ----------------------------------------------------------------------------------------------------------------


def equations(function, order: int) -> int:
    program = pb.xpr(lambda x: pb.jet(function, (x,), ([1.0] + [0] * (order - 1),)), np.float64(0.3))
    return len(program.equations)


@pytest.mark.parametrize(
    "function", [pnp.exp, pnp.sin, lambda x: pnp.exp(pnp.sin(x) + 1.0) * 1.0], ids=["exp", "sin", "exp of sin"]
)
def test_cost_grows_with_the_square_of_the_order_at_most(function) -> None:
    counts = [equations(function, order) for order in (4, 8, 16)]
    assert counts[1] <= 4.2 * counts[0] and counts[2] <= 4.2 * counts[1]


def test_cost_along_a_line_is_linear_where_the_mathematics_allows() -> None:
    assert equations(pnp.exp, 10) <= 1 + 10 + 1
    assert equations(pnp.sin, 10) <= 3 * 10 + 2
    assert equations(lambda x: x * pnp.sin(x), 10) <= 8 * 10


def test_cost_of_a_chain_is_linear_in_its_length() -> None:
    def chain(length):
        def f(x):
            for _ in range(length):
                x = pnp.tanh(x)
            return x

        return f

    first, second, third = (equations(chain(length), 5) for length in (2, 4, 6))
    assert third - second == second - first


# ---- in combination --------------------------------------------------------------------------------------------------------


def test_under_jit_and_vmap() -> None:
    x = np.linspace(0.1, 1.0, 5)
    ninth = pb.nth_derivative(lambda x: x * pb.jit(pnp.sin)(x), 10)
    expected = 10 * np.cos(x) - x * np.sin(x)
    assert_allclose(np.asarray(pb.vmap(ninth)(x)), expected, rtol=1e-13)
    assert_allclose(np.asarray(pb.jit(pb.vmap(ninth))(x)), expected, rtol=1e-13)
    assert_allclose(float(pb.jit(ninth)(x[0])), expected[0], rtol=1e-13)


def test_grad_of_jet_and_jet_of_grad() -> None:
    def f(x):
        return pnp.sin(x) * pnp.exp(x)

    x = np.float64(0.4)
    fourth = float(pb.nth_derivative(f, 4)(x))
    assert_allclose(float(pb.grad(pb.nth_derivative(f, 3))(x)), fourth, rtol=1e-13)
    assert_allclose(float(pb.nth_derivative(pb.grad(f), 3)(x)), fourth, rtol=1e-13)
    assert_allclose(float(pb.jvp(pb.nth_derivative(f, 3), (x,), (np.float64(1.0),))[1]), fourth, rtol=1e-13)
    assert_allclose(float(pb.nth_derivative(pb.nth_derivative(f, 2), 2)(x)), fourth, rtol=1e-13)


def test_vmap_within_jet() -> None:
    matrix = np.arange(6.0).reshape(2, 3)

    def f(t):
        return pnp.sum(pb.vmap(lambda row: pnp.tanh(pnp.dot(row, row) * t))(matrix))

    def looped(t):
        return sum(pnp.tanh(float(row @ row) * t) for row in matrix)

    for n in (1, 3):
        assert_allclose(float(pb.nth_derivative(f, n)(np.float64(0.01))), float(pb.nth_derivative(looped, n)(np.float64(0.01))))


def test_perturbations_are_not_confused() -> None:
    # d/dx of x * (d/dy of x * y at 1) = d/dx of x * x = 2 x
    found = pb.nth_derivative(lambda x: x * pb.nth_derivative(lambda y: x * y, 1)(1.0), 1)(3.0)
    assert float(found) == 6.0


def test_a_jitted_function_is_derived_once_for_a_pattern() -> None:
    calls = []

    @pb.jit
    def f(x):
        calls.append(1)
        return pnp.sin(x) * x

    x = np.float64(0.3)
    for _ in range(2):
        pb.jet(lambda x: f(f(x)), (x,), ([1.0, 0, 0],))
    assert len(calls) == 1


def test_through_a_loop() -> None:
    def f(x, steps):
        def step(carry, s):
            y, count = carry
            y = pnp.sin(y) * x + s
            return (y, count + 1), y * count

        (y, count), ys = scan(step, (x, 0), steps)
        return [y, count, ys]

    args = [as_array(np.float64(0.3)), as_array(np.array([0.1, -0.2, 0.4]))]
    check_jet(f, args, np.random.default_rng(0), "a loop", order=3)
    check_jet(lambda x: f(x, args[1]), args[:1], np.random.default_rng(0), "a loop, by its constant", order=4)
    check_jet(lambda x: [pb.grad(lambda x: f(x, args[1])[0])(x)], args[:1], np.random.default_rng(0), "grad of a loop")


def test_through_a_branch() -> None:
    def f(x, y):
        return [lax.cond(x > 0.5, lambda x, y: x * pnp.sin(y), lambda x, y: y * y, x, y)]

    y = as_array(np.array([0.2, 0.5]))
    for point in (0.2, 0.7):
        x = as_array(np.float64(point))
        check_jet(f, [x, y], np.random.default_rng(0), "a branch")
        check_jet(lambda x, y: [pb.jit(f)(x, y)[0]], [x, y], np.random.default_rng(0), "a branch, compiled")
        check_jet(lambda x: f(x, y), [x], np.random.default_rng(0), "a branch, by one operand")


def test_through_a_loop_of_unknown_length() -> None:
    def f(x, y):
        def step(carry):
            i, a, b = carry
            return i + 1, pnp.sin(a) * x + b[0], b * a

        return list(lax.while_loop(lambda carry: carry[0] < 4, step, (0, x, y)))

    x, y = as_array(np.float64(0.7)), as_array(np.array([0.2, 0.5]))
    check_jet(f, [x, y], np.random.default_rng(0), "a loop")
    check_jet(lambda x: f(x, y), [x], np.random.default_rng(0), "a loop, by one operand", order=4)
    check_jet(lambda y: f(x, y), [y], np.random.default_rng(0), "a loop, by what it starts from", order=4)


def test_through_functions_with_rules_of_their_own() -> None:
    @pb.custom_jvp
    def f(x):
        return pnp.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), pnp.cos(primals[0]) * tangents[0]

    y = as_array(np.array([0.2, 0.5]))
    check_jet(lambda x: [f(x) * x], [y], np.random.default_rng(0), "custom_jvp", order=4)
    check_jet(lambda x: [pb.jit(f)(x) * x], [y], np.random.default_rng(0), "custom_jvp, compiled")
    check_jet(lambda x: [pb.checkpoint(lambda x: pnp.sin(x) * x)(x)], [y], np.random.default_rng(0), "checkpoint")


def test_a_long_rule_does_not_exhaust_the_stack() -> None:
    def slope(x):
        for _ in range(400):
            x = x + 0.001 * pnp.sin(x)
        return x

    @pb.custom_jvp
    def f(x):
        return x

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), slope(*primals) * tangents[0]

    _, series = pb.jet(f, (np.float64(0.3),), ([1.0, 0, 0, 0],))
    value, rest = pb.jet(slope, (np.float64(0.3),), ([1.0, 0, 0],))
    assert_allclose([float(term) for term in series], [float(value), *map(float, rest)], rtol=1e-13)


def test_zero_stays_zero() -> None:
    x = as_array(np.float64(0.3))
    outs, series = jet_flat(lambda x: [lax.mul(x, x), lax.floor(x)], [x], [[as_array(np.float64(1.0)), ZERO, ZERO]], 3)
    assert series[0][2] is ZERO and series[1] == [ZERO] * 3
    assert active_arguments(outs) == [True, True]
