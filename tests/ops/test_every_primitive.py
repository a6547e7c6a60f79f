"""Every primitive's rules agree with each other on each of its samples; and where rules do not agree, the checks say so."""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest

import pullback as pb
from pullback.core.array import as_array
from pullback.core.errors import MissingRule, ProgramError
from pullback.core.primitive import Primitive
from pullback.ops.arithmetic import mul
from pullback.ops.trigonometric import cos, sin
from pullback.testing import CheckFailure, all_primitives, check_gradients, check_primitive, check_transforms
from pullback.testing.checks import check_batched, check_staged, pushed

COLLECTIVES = {
    "psum",
    "pmax",
    "pmin",
    "axis_index",
    "all_gather",
    "ppermute",
    "psum_scatter",
    "all_to_all",
    "pvary",
    "aligned",
    "psum_over_varying",
    "pvary_over_varying",
    "sharding_constraint",
}  # tests/ops/test_collective.py, tests/parallel
PARTLY = {"expn", "hyp1f1", "hyp2f1", "legendre"}  # with derivatives in some operands only: tests/surface/table_special.py
NOT_A_DERIVATIVE = {"stop_gradient"}  # its tangent is zero by intent, which finite differences do not see


@pytest.mark.parametrize(
    "p", [p for p in all_primitives() if p.name not in COLLECTIVES | NOT_A_DERIVATIVE | PARTLY], ids=lambda p: p.name
)
def test_rules_agree(p: Primitive) -> None:
    check_primitive(p)


def test_every_name_left_out_exists() -> None:
    assert {p.name for p in all_primitives()} >= COLLECTIVES | NOT_A_DERIVATIVE | PARTLY


def wrong(**rules):
    """A primitive like sin, with some rules replaced."""
    right = {
        "evaluate": np.sin,
        "lower": "stablehlo.sine",
        "result_type": lambda x: x,
        "partials": lambda out, x: (cos(x),),
        "vectorize": lambda size, args, axes: (made(*args), 0),
        "samples": lambda rng: [((rng.normal(size=(2, 3)),), {})],
        "kinds": "f",
        "elementwise": True,
        "quiet": True,
    }
    made = Primitive("wrong", **{**right, **rules})
    return made


def test_right_rules_pass() -> None:
    check_primitive(wrong())


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"lower": "stablehlo.cosine"}, "compiled against eager"),
        ({"evaluate": np.cos, "lower": "stablehlo.cosine"}, "jvp against finite differences"),
        ({"partials": lambda out, x: (x,)}, "jvp against finite differences"),
        ({"vectorize": lambda size, args, axes: (cos(*args), 0)}, "vmap .* against a loop"),
        ({"samples": lambda rng: []}, "yields none"),
        ({"partials": None, "expand": lambda x: mul(sin(x), x)}, "jvp against finite differences"),
        ({"simplify": lambda equation, known: equation.inputs[0]}, "simplified and compiled against eager"),
        ({"partials": None, "linear": True, "transpose": lambda cotangent, x: (cotangent,)}, "jvp against finite differences"),
    ],
)
def test_wrong_rules_are_found(rules, message) -> None:
    with pytest.raises(CheckFailure, match=message):
        check_primitive(wrong(**rules))


def test_a_wrong_transpose_is_found() -> None:
    rules = {"evaluate": lambda x: x + x, "lower": lambda write, x: write.elementwise("stablehlo.add", x, x)}
    with pytest.raises(CheckFailure, match=r"<J\^T w, v> against <w, J v>"):
        check_primitive(wrong(**rules, partials=None, linear=True, transpose=lambda cotangent, x: (cotangent,)))


def test_a_type_rule_that_lies_is_found() -> None:
    with pytest.raises(ProgramError, match="result_type rule says f32"):
        check_primitive(wrong(result_type=lambda x: x.with_dtype(np.dtype("float32"))), dtypes=["float64"])


def test_missing_rules_are_named() -> None:
    with pytest.raises(MissingRule, match="vectorize"):
        check_primitive(wrong(vectorize=None))
    with pytest.raises(MissingRule, match="Samples"):
        check_primitive(wrong(samples=None))


def test_dtypes_can_be_chosen() -> None:
    seen = []

    def evaluate(x):
        seen.append(x.dtype.name)
        return np.sin(x)

    check_primitive(wrong(evaluate=evaluate), dtypes=["float32"])
    assert set(seen) == {"float32"}


def test_check_gradients() -> None:
    check_gradients(lambda tree: {"s": mul(tree["a"], sin(tree["b"]))}, ({"a": 2.0, "b": np.arange(3.0)},), order=3)
    kinked = wrong(partials=lambda out, x: (mul(out, out),))
    with pytest.raises(CheckFailure, match="finite differences"):
        check_gradients(kinked, (1.0,), order=1)
    with pytest.raises(CheckFailure, match="jvp of f"):
        check_gradients(wrong(partials=lambda out, x: (once(x),)), (1.0,))


def once(x):
    """cos, with a wrong derivative: only the second order shows it."""
    return ONCE(x)


ONCE = wrong(evaluate=np.cos, lower="stablehlo.cosine")
ONCE.define("partials", lambda out, x: (x,))
ONCE.define("vectorize", lambda size, args, axes: (ONCE(*args), 0))


def test_check_transforms() -> None:
    check_transforms(lambda x, y: {"product": mul(x, y), "sine": sin(x)}, (np.arange(3.0), np.arange(3.0) + 1))
    with pytest.raises(CheckFailure, match="against a loop"):
        check_transforms(wrong(vectorize=lambda size, args, axes: (cos(*args), 0)), (np.arange(3.0),))


def in_reverse(f, backward):
    """A function with a vjp rule alone."""
    made = pb.custom_vjp(f)
    made.defvjp(lambda x: (f(x), x), lambda x, cotangent: (backward(x, cotangent),))
    return made


X, Z = np.array([0.3, 0.5]), np.array([0.3 + 1j, 0.5 - 2j])
REVERSE = {
    "right": (in_reverse(sin, lambda x, ct: ct * cos(x)), X, None),
    "right, of complex numbers": (in_reverse(lambda z: z * z, lambda z, ct: 2.0 * z * ct), Z, None),
    "right, of one number": (in_reverse(sin, lambda x, ct: ct * cos(x)), np.float32(0.3), None),
    "right, where the result is infinite": (in_reverse(lambda x: 1 / x, lambda x, ct: -ct / x**2), np.zeros(1), None),
    "twice too large": (in_reverse(sin, lambda x, ct: 2.0 * ct * cos(x)), X, "^f: .* by finite differences"),
    "conjugate": (in_reverse(lambda z: z * z, lambda z, ct: 2.0 * z.conj() * ct), Z, "^f: .* by finite differences"),
    "not a number": (in_reverse(sin, lambda x, ct: ct * np.nan), X, "only one of jvp and vjp is finite"),
    "wrong second derivative": (in_reverse(sin, lambda x, ct: ct * pb.stop_gradient(cos(x))), X, "^vjp of f: .* by finite"),
}


@pytest.mark.parametrize("name", REVERSE)
def test_functions_with_a_vjp_rule_alone_are_checked(name) -> None:
    f, x, message = REVERSE[name]
    with pytest.raises(pb.errors.GradientError, match="Forward mode"):
        check_gradients(f, (x,))
    check_transforms(f, (x,), modes=("rev",))
    with nullcontext() if message is None else pytest.raises(CheckFailure, match=message):
        check_gradients(f, (x,), modes=("rev",))


def test_a_vjp_rule_that_depends_on_how_it_runs_is_found() -> None:
    calls = itertools.count(1.0)
    with pytest.raises(CheckFailure, match="vjp of f: compiled against eager"):
        check_transforms(in_reverse(sin, lambda x, ct: ct * next(calls)), (X,), modes=("rev",))


def test_stop_gradient() -> None:
    p = next(p for p in all_primitives() if p.name == "stop_gradient")
    x = as_array(np.arange(3.0))
    check_staged(lambda y: [p(y)], [x], "stop_gradient")
    check_batched(lambda y: [p(y)], [x], "stop_gradient")
    (tangent,) = pushed(lambda y: [mul(p(y), y)], [True])(x, x)
    np.testing.assert_array_equal(np.asarray(tangent.host), np.arange(3.0) ** 2)
    assert pb.linear_transpose(lambda y: 2.0 * p(y), 1.0)(3.0) == (6.0,)  # of its values it is the identity


def test_one_operand_too_many_is_refused_before_numpy_writes_to_it() -> None:
    x, y = as_array(np.zeros(3)), as_array(np.ones(3))
    with pytest.raises(TypeError, match="sin takes 1 operand, but got 2"):
        sin(x, y)
    np.testing.assert_array_equal(np.asarray(y.host), np.ones(3))


def test_a_wrong_depends_rule_is_found():
    def check(depends):
        p = Primitive("both", expand=lambda x, y: (sin(x), cos(y)), multiple_results=True, kinds="f", depends=depends)
        p.define("samples", lambda rng: [((rng.normal(size=3), rng.normal(size=3)), {})])
        check_primitive(p, dtypes=["float64"])

    check(lambda flags: flags)
    with pytest.raises(CheckFailure, match="result 0 changes with operand 0"):
        check(lambda flags: flags[::-1])
    with pytest.raises(CheckFailure, match="of 2 results"):
        check(lambda flags: flags[:1])
