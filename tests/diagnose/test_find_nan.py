"""find_nan: which operation makes a NaN, forward or backward, at which line, of which values, and what helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.source import rule_call_of
from pullback.diagnose.finding import first_nan

V = np.float32


def logs(x: Any) -> Any:
    y = x * 2.0
    z = pnp.log(y)
    return pnp.sum(z)


def square_root(x: Any) -> Any:
    return pnp.sum(pnp.where(x > 0, pnp.sqrt(x), 0.0))


def square_root_on_lines(x: Any) -> Any:
    root = pnp.sqrt(x)
    other = x * 3.0
    return pnp.sum(pnp.where(x <= 0, other, root))


def quotient(x: Any) -> Any:
    size = pnp.sum(x * x)
    return pnp.sum(pnp.where(size > 0, x / size, x))


def power(x: Any) -> Any:
    return pnp.sum(pnp.where(x > 0, x**0.5, 0.0))


def in_a_loop(x: Any) -> Any:
    def step(c: Any, y: Any) -> Any:
        return pnp.sqrt(c - y), c

    return pb.lax.scan(step, x, pnp.ones(4))[0]


def logs_in_a_loop(x: Any) -> Any:
    return pb.lax.scan(lambda c, y: (c - y, pnp.log(c - y)), x, pnp.arange(5.0, dtype="float32"))[1]


def logs_in_two_loops(x: Any) -> Any:
    return pb.lax.scan(lambda c, y: pb.lax.scan(lambda d, z: (d - z, pnp.log(d - z)), c, y), x, pnp.ones((3, 2), "float32"))[1]


def logs_backwards(x: Any) -> Any:
    steps = pnp.arange(5.0, dtype="float32")
    return pb.lax.scan(lambda c, y: (c - y, pnp.log(c)), x, steps, reverse=True)[1]


def step_by_step(x: Any) -> Any:
    """What a step makes of a stack of which other elements are not finite."""
    return pb.lax.scan(lambda c, y: (c, y * 2.0), 0.0, logs_in_a_loop(x))[1]


def in_an_open_loop(x: Any) -> Any:
    return pb.lax.while_loop(lambda c: c > -5.0, lambda c: pnp.arcsin(c) - 0.75, x)


def in_a_branch(x: Any) -> Any:
    return pb.lax.cond(x > 0, lambda y: y, lambda y: pnp.log(y), x)


def of_infinities(x: Any) -> Any:
    y = 1.0 / x
    return pnp.sum(y - y)


def jitted(x: Any) -> Any:
    return pb.jit(lambda y: pnp.sum(pnp.sqrt(y)))(x) * 2.0


class Case(NamedTuple):
    """A function, its arguments, and what is to be found: the operation, its role, and the text of the line."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    apply: str
    name: str
    role: str
    line: str
    values: tuple[str, ...]
    place: str = ""
    element: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    trap: str | None = None


CASES: dict[str, Case] = {
    "forward": Case(logs, (V([1, -1, 2]),), "", "log", "primal", "z = pnp.log(y)", ("-2.0",), element=(1,)),
    "forward, of a gradient": Case(
        lambda x: logs(x) ** 2, (V([1, -1, 2]),), "grad", "log", "primal", "z = pnp.log(y)", ("-2.0",), element=(1,)
    ),
    "in a jitted function": Case(jitted, (V([1, -1]),), "", "sqrt", "primal", "pnp.sum(pnp.sqrt(y))", ("-1.0",), element=(1,)),
    "in a step": Case(in_a_loop, (V(2.5),), "", "sqrt", "primal", "pnp.sqrt(c - y), c", ("-0.5259273",), "step 2 of scan"),
    "in a step behind one that is infinite": Case(
        logs_in_a_loop, (V([50, 4, 3]),), "vmap", "log", "primal", "pnp.log(c - y)", ("-2.0",), "step 3 of scan", (1,), (1,)
    ),
    "in the first step of a loop that runs backwards": Case(
        logs_backwards, (V(5),), "", "log", "primal", "pnp.log(c)", ("-2.0",), "step 2 of scan"
    ),
    "in a step in a step": Case(
        logs_in_two_loops, (V(4),), "", "log", "primal", "pnp.log(d - z)", ("-1.0",), "step 2 of scan, step 0 of scan"
    ),
    "in one of the steps of a stack": Case(
        step_by_step, (V(3),), "", "log", "primal", "pnp.log(c - y)", ("-3.0",), "step 3 of scan"
    ),
    "before one that another element makes of it": Case(
        lambda x: pnp.log(x) * 0.0, (V([0, -1]),), "", "log", "primal", "pnp.log(x) * 0.0", ("-1.0",), element=(1,)
    ),
    "in a step of an open loop": Case(
        in_an_open_loop, (V(0.9),), "", "asin", "primal", "pnp.arcsin(c)", (), "step 3 of while_loop"
    ),
    "in a branch": Case(in_a_branch, (V(-1),), "", "log", "primal", "lambda y: pnp.log(y)", ("-1.0",), "branch 0 of cond"),
    "of infinities": Case(of_infinities, (V([1, 0]),), "", "sub", "primal", "pnp.sum(y - y)", ("inf", "inf"), element=(1,)),
    "of a batch": Case(
        logs, (V([[1, 2], [3, -4]]),), "vmap", "log", "primal", "z = pnp.log(y)", ("-8.0",), element=(1, 1), batch=(1,)
    ),
    "of a batch of gradients": Case(
        square_root,
        (V([[1, 2], [3, 0], [1, 1]]),),
        "grad,vmap,jit",
        "mul",
        "cotangent",
        "pnp.where(x > 0, pnp.sqrt(x), 0.0)",
        ("0.0", "inf"),
        element=(1, 1),
        batch=(1,),
        trap="sqrt",
    ),
    "where": Case(
        square_root,
        (V([1, 0]),),
        "",
        "mul",
        "cotangent",
        "pnp.where(x > 0, pnp.sqrt(x), 0.0)",
        ("0.0", "inf"),
        element=(1,),
        trap="sqrt",
    ),
    "where, on other lines": Case(
        square_root_on_lines,
        (V([1, 0]),),
        "",
        "mul",
        "cotangent",
        "root = pnp.sqrt(x)",
        ("0.0", "inf"),
        element=(1,),
        trap="sqrt",
    ),
    "where, of a quotient": Case(
        quotient, (V([0, 0]),), "", "div", "primal", "x / size", ("0.0", "0.0"), element=(0,), trap="div"
    ),
    "where, of a power": Case(power, (V([1, 0]),), "", "mul", "cotangent", "x**0.5", ("0.0", "inf"), element=(1,), trap="pow"),
    "where, of a NaN": Case(power, (V([1, -1]),), "", "pow", "residual", "x**0.5", (), element=(1,), trap="pow"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_makes_a_nan_is_named(name: str) -> None:
    case = CASES[name]
    finding = pb.find_nan(case.function, *case.args, apply=case.apply)
    assert finding is not None and finding.kind == "nan" and finding.reaches and finding.difference is None
    assert finding.equation is not None and finding.source is not None
    assert (finding.equation.primitive.name, finding.role) == (case.name, case.role)
    assert case.line in finding.source.text
    assert case.values in ((), finding.origin.values)
    assert (finding.origin.frame.place() if finding.origin.frame else "") == case.place
    assert (finding.origin.element, finding.batch) == (case.element, case.batch)
    assert (None if finding.trap is None else finding.trap.function) == case.trap
    text = str(finding)
    assert finding.source.text in text and case.place in text
    assert ("Cure" in text) is (case.trap is not None)


def test_no_cause_is_named_that_belongs_to_another_element() -> None:
    one = V([True, False]).astype(bool)
    finding = pb.find_nan(lambda x: pnp.where(one, pnp.log(x), 0.0) * 0.0, V([0, -1]), backward=False)
    assert finding is not None and finding.equation is not None and finding.equation.primitive.name == "mul"
    assert finding.origin.element == (0,) and finding.origin.cause is None
    finding = pb.find_nan(lambda x: pnp.log(x), V([1, -1, np.inf]), backward=False)
    assert finding is not None and finding.origin.element == (1,) and finding.origin.cause is None
    finding = pb.find_nan(lambda x, y: x * y, V([1, 0]), V(np.inf), backward=False)
    assert finding is not None and finding.origin.cause is not None and finding.origin.cause.name == "y"


def test_a_gradient_in_a_loop_names_the_step() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            return pnp.where(c > 2.5, pnp.sqrt(c - 3.0), c) * y, None

        return pb.lax.scan(step, x, V([1, 5, 2]))[0]

    finding = pb.find_nan(f, V(4.0), apply="grad")
    assert finding is not None and finding.origin.frame is not None and finding.trap is not None
    assert finding.origin.frame.place() == "step 1 of scan"  # the only one whose where takes the other value
    assert finding.trap.cure() == ["safe = pnp.where(c > 2.5, c - 3.0, 1.0)", "pnp.where(c > 2.5, pnp.sqrt(safe), c)"]


# ---- the cure ---------------------------------------------------------------------------------------------------------------

CURES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "in one expression": (square_root, ["safe = pnp.where(x > 0, x, 1.0)", "pnp.where(x > 0, pnp.sqrt(safe), 0.0)"]),
    "on other lines": (
        square_root_on_lines,
        ["safe = pnp.where(x <= 0, 1.0, x)", "pnp.where(x <= 0, other, pnp.sqrt(safe))"],
    ),
    "a divisor": (quotient, ["safe = pnp.where(size > 0, size, 1.0)", "pnp.where(size > 0, x / safe, x)"]),
    "a power": (power, ["safe = pnp.where(x > 0, x, 1.0)", "pnp.where(x > 0, safe ** 0.5, 0.0)"]),
}


@pytest.mark.parametrize("name", CURES)
def test_the_cure_is_written_in_the_users_words(name: str) -> None:
    function, cure = CURES[name]
    x = V([0.0, 0.0])
    finding = pb.find_nan(function, x)
    assert finding is not None and finding.trap is not None
    assert finding.trap.cure() == cure
    assert all(line in str(finding) for line in cure)


def test_without_the_source_the_cure_is_said_in_general() -> None:
    names: dict[str, Any] = {"pnp": pnp}
    exec("def f(x):\n    return pnp.sum(pnp.where(x > 0, pnp.sqrt(x), 0.0))", names)
    finding = pb.find_nan(names["f"], V([0.0]))
    assert finding is not None and finding.trap is not None
    assert finding.trap.cure()[0].startswith("safe = pnp.where(ok, x, 1.0)  # x: what sqrt is applied to")


def test_zero_times_infinity_without_a_where_is_no_trap() -> None:
    finding = pb.find_nan(lambda x: pnp.sum(pnp.sqrt(x) * 0.0), V([0.0]))
    assert finding is not None and finding.role == "cotangent" and finding.trap is None and "Cure" not in str(finding)


# ---- where nothing is made --------------------------------------------------------------------------------------------------


def doubled(x: Any) -> Any:
    return x * 2.0


NOTHING: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "finite": (logs, (V([1, 2]),), {}),
    "infinite": (lambda x: 1.0 / x, (V([0.0]),), {"backward": False}),
    "integers": (lambda x: x // 2, (np.arange(3),), {"infinity": True}),
    "no elements": (logs, (np.zeros((0,), "f4"),), {}),
    "a mask of infinities": (lambda x: pnp.exp(pnp.where(x > 0, x, -np.inf)), (V([1, -1]),), {"infinity": True}),
    "keys": (lambda key: pb.random.normal(key), (pb.random.key(1),), {}),
}


@pytest.mark.parametrize("name", NOTHING)
def test_where_there_is_none_there_is_nothing(name: str) -> None:
    function, args, options = NOTHING[name]
    assert pb.find_nan(function, *args, **options) is None


def test_an_argument_that_is_nan_is_named() -> None:
    finding = pb.find_nan(lambda p: pnp.sum(p["w"] * p["b"]), {"w": V([1, np.nan]), "b": V(1)})
    assert finding is not None and (finding.origin.what, finding.origin.name) == ("argument", "p['w']")
    assert str(finding) == "NaN is in argument p['w'] from the start at [1]"


def test_a_number_that_the_function_holds_is_named_with_its_line() -> None:
    finding = pb.find_nan(lambda x: x * np.float32("nan"), V([1.0]))
    assert finding is not None and finding.origin.what == "constant" and "np.float32" in str(finding)
    finding = pb.find_nan(lambda x: (x, pnp.array([np.nan, 1.0])), V([1.0]))
    assert finding is not None and finding.equation is None and "what the function returns" in str(finding)


def test_a_nan_that_nothing_uses_is_said_to_be_so() -> None:
    finding = pb.find_nan(lambda x: pnp.where(x > 0, pnp.log(x), 0.0), V([-1.0]), backward=False)
    assert finding is not None and not finding.reaches and "No result is NaN: what uses it drops it" in str(finding)


def test_of_two_the_one_that_the_result_has_is_named() -> None:
    def f(x: Any) -> Any:
        dropped = pnp.where(x > 0, pnp.log(x), 0.0)
        return dropped + pnp.arccos(x - 5.0)

    finding = pb.find_nan(f, V([-1.0]), backward=False)
    assert finding is not None and finding.equation is not None and finding.equation.primitive.name == "acos"


def test_infinity_counts_where_it_is_asked_for() -> None:
    finding = pb.find_nan(lambda x: pnp.exp(x) + 1.0, V([100.0]), infinity=True)
    assert finding is not None and finding.kind == "inf"
    assert str(finding).startswith("infinity made by exp in the forward pass: exp(100.0) = inf at [0]")


def test_before_a_nan_of_infinities_comes_what_made_those() -> None:
    finding = pb.find_nan(of_infinities, V([1, 0]))
    assert finding is not None and finding.origin.cause is not None
    assert finding.origin.cause.values == ("1.0", "0.0")
    assert "before it, infinity made by div" in str(finding) and "y = 1.0 / x" in str(finding)


def test_what_compiled_code_alone_makes_is_told() -> None:
    tiny = V([1e-30])  # times 1e-10 it is below the smallest normal number, which compiled code takes for 0
    finding = pb.find_nan(lambda x: (x * 1e-10) / (x * 1e-10), tiny, backward=False)
    assert finding is not None and finding.difference is not None and finding.kind == "nan"
    assert finding.difference.element == (0,) and (finding.difference.replayed, finding.difference.compiled) == ("1.0", "nan")
    assert "made by compiled code alone" in str(finding)


def test_what_has_no_backward_pass_says_how_to_leave_it_out() -> None:
    def f(x: Any) -> Any:
        return pb.lax.while_loop(lambda y: y < 10.0, lambda y: y * 2.0, x)

    with pytest.raises(pb.errors.GradientError) as caught:
        pb.find_nan(f, V(1.0))
    assert any("backward=False" in note for note in caught.value.__notes__)
    assert pb.find_nan(f, V(1.0), backward=False) is None
    with pytest.raises(TypeError, match="backward must be True or False"):
        pb.find_nan(f, V(1.0), backward="no")  # type: ignore[arg-type]


def test_a_program_by_itself() -> None:
    program = pb.xpr(logs, V([1, 2]))
    assert first_nan(program, [pnp.array([1.0, 2.0])]) is None
    finding = first_nan(program, [pnp.array([1.0, -2.0])], ["x"])
    assert finding is not None and finding.equation is program.equations[1]
    assert repr(finding) == str(finding) == finding.message()


# ---- random programs --------------------------------------------------------------------------------------------------------

STEPS: list[Callable[[Any], Any]] = [
    lambda x: pnp.sqrt(x - 0.5),
    lambda x: pnp.log(x),
    lambda x: 1.0 / (x - x),
    lambda x: pnp.exp(x * 60.0),
    lambda x: x * 0.0,
    lambda x: pnp.where(x > 0, pnp.sqrt(x), x),
    lambda x: pb.lax.fori_loop(0, 3, lambda i, y: pnp.sqrt(y) - 0.3, x),
    lambda x: pb.lax.scan(lambda c, y: (c - y, pnp.log(c)), x, x)[1][:, 0],
    lambda x: pb.lax.cond(x[0] > 0, lambda y: pnp.arccos(y), lambda y: y, x),
    lambda x: pb.jit(lambda y: pnp.arctanh(y))(x),
    lambda x: pb.checkpoint(lambda y: y - y[::-1])(x),
    lambda x: pnp.sin(x),
    lambda x: pnp.cumsum(x),
    lambda x: pnp.sort(x),
    lambda x: x[pnp.argmax(x)] + x,
]
STACKS = ["", "vmap", "grad", "jit,grad", "grad,vmap", "vmap(strategy='map'),jit"]


@pytest.mark.parametrize("number", range(40))
def test_of_random_programs_a_nan_is_found_where_there_is_one_and_made_of_none(number: int) -> None:
    rng = np.random.default_rng([7, number])
    steps = [STEPS[i] for i in rng.integers(len(STEPS), size=rng.integers(1, 5))]
    apply = STACKS[rng.integers(len(STACKS))]

    def f(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return pnp.sum(x)

    shape = (2, 3) if "vmap" in apply else (3,)
    x = V(np.round(rng.normal(size=shape) * 2) / 2)
    result = pb.replay(f, x, apply=apply).result
    finding = pb.find_nan(f, x, apply=apply, backward=False, compiled=False)
    assert bool(np.isnan(np.asarray(result)).any()) == (finding is not None and finding.reaches)
    if finding is not None:
        assert finding.origin.what == "equation" and finding.equation is not None
        assert "nan" in finding.origin.result
        if finding.equation.primitive.elementwise:
            assert not any("nan" in value for value in finding.origin.values)
        assert str(finding)


def test_compiled_code_is_left_out_where_that_is_asked_for() -> None:
    assert pb.find_nan(lambda x: (x * 1e-10) / (x * 1e-10), V([1e-30]), backward=False, compiled=False) is None


def test_rules_of_the_users_own_are_traps_too() -> None:
    @pb.custom_vjp
    def root(x: Any) -> Any:
        return pnp.sqrt(x)

    root.defvjp(lambda x: (pnp.sqrt(x), x), lambda x, g: (g / (2.0 * pnp.sqrt(x)),))
    finding = pb.find_nan(lambda x: pnp.sum(pnp.where(x > 0, root(x), 0.0)), V([0.0, 1.0]))
    assert finding is not None and finding.trap is not None and finding.origin.values == ("0.0", "0.0")
    assert finding.trap.cure() == ["safe = pnp.where(x > 0, x, 0.5)", "pnp.where(x > 0, root(safe), 0.0)"]
    assert "the backward function of a custom rule" in str(finding)
    assert "the derivative of root(x) is not finite" in str(finding).replace("\n  ", " ")


@pb.custom_vjp
def twofold(x: Any) -> Any:
    return x * 2.0


def twofold_forward(x: Any) -> Any:
    return x * 2.0, x


def twofold_backward(x: Any, cotangent: Any) -> Any:
    zero = x - x
    return (cotangent * zero / zero,)


twofold.defvjp(twofold_forward, twofold_backward)


@pb.custom_jvp
def tripled(x: Any) -> Any:
    return x * 3.0


@tripled.defjvp
def tripled_forward(primals: Any, tangents: Any) -> Any:
    slope = pnp.log(primals[0] * -1.0)
    return tripled(*primals), tangents[0] * slope


def with_twofold(x: Any) -> Any:
    y = twofold(x)
    return pnp.sum(y)


def with_tripled(x: Any) -> Any:
    y = tripled(x)
    return pnp.sum(y)


def with_tripled_step(x: Any) -> Any:
    return pb.lax.scan(lambda c, e: (c + tripled(e), None), 0.0, x)[0]


class Ruled(NamedTuple):
    """A function with a rule that makes NaN: the code of the rule, the text of its line, and the function's own line."""

    function: Any
    rule: str
    line: str
    call: str


RULED = {
    "custom_vjp": Ruled(with_twofold, "twofold_backward", "return (cotangent * zero / zero,)", "y = twofold(x)"),
    "custom_jvp": Ruled(with_tripled, "tripled_forward", "slope = pnp.log(primals[0] * -1.0)", "y = tripled(x)"),
    "in a loop": Ruled(
        with_tripled_step,
        "tripled_forward",
        "slope = pnp.log(primals[0] * -1.0)",
        "return pb.lax.scan(lambda c, e: (c + tripled(e), None), 0.0, x)[0]",
    ),
}


@pytest.mark.parametrize("apply", ["", "grad", "grad,jit", "jit,grad", "grad,vmap", "jacrev"])
@pytest.mark.parametrize("name", RULED)
def test_a_rule_of_the_users_own_is_named_by_its_line_and_by_what_it_is_applied_to(name: str, apply: str) -> None:
    ruled = RULED[name]
    finding = pb.find_nan(ruled.function, V([[1.0, 2.0]] if "vmap" in apply else [1.0, 2.0]), apply=apply)
    assert finding is not None and finding.source is not None
    assert (finding.source.function, finding.source.text) == (ruled.rule, ruled.line)
    call = rule_call_of(finding.source)
    assert call is not None and call.text == ruled.call
    assert f"applied to: {call}" in str(finding)


def test_forward_mode_names_the_line_of_a_rule() -> None:
    finding = pb.find_nan(with_tripled, V([1.0]), V([1.0]), apply="jvp")
    assert finding is not None and finding.source is not None
    assert finding.source.text == "slope = pnp.log(primals[0] * -1.0)"


def test_a_rule_that_is_a_function_of_the_library_has_the_line_of_what_it_is_applied_to() -> None:
    both = pb.custom_vjp(lambda x, y: x * y)
    both.defvjp(lambda x, y: (x * y, x), pnp.divmod)  # type: ignore[arg-type]

    def through(x: Any, y: Any) -> Any:
        z = both(x, y)
        return z

    equations = pb.xpr(pb.grad(through, argnums=(0, 1)), 2.0, 3.0).equations
    rule = [one for one in equations if one.role == "cotangent" and one.primitive.name != "convert_element_type"]
    sources = [equation.source for equation in rule]  # without what grad does in the end, of no line of the function
    assert sources and {source and source.text for source in sources} == {"z = both(x, y)"}


@pytest.mark.parametrize("apply", ["grad", "jacfwd", "jacrev", "hessian", "grad,jit", "jit,grad", "grad,grad", "grad,vmap"])
def test_nan_in_what_a_function_returns_is_found_though_its_derivative_is_finite(apply: str) -> None:
    def logarithm(x: Any) -> Any:
        y = pnp.log(x)
        return y + 1.0

    x = V([1.0, -1.0]) if "vmap" in apply else -1.0
    finding = pb.find_nan(logarithm, x, apply=apply)
    assert finding is not None and finding.returned and not finding.reaches and finding.source is not None
    assert finding.source.text == "y = pnp.log(x)" and finding.origin.values == ("-1.0",)
    assert "The function itself returns NaN; no result of its derivative is NaN." in str(finding)
    assert finding.batch == ((1,) if "vmap" in apply else ())


def test_of_what_a_function_returns_only_numbers_are_looked_at() -> None:
    def function(x: Any) -> Any:
        return pnp.log(x), (pb.random.key(0), pnp.arange(2), float("nan"))

    finding = pb.find_nan(function, 1.0, apply="grad(has_aux=True)")
    assert finding is not None and finding.reaches and finding.origin.what == "constant"
    assert pb.find_nan(lambda x: x * 2.0, 1.0, apply="grad") is None


def test_where_a_number_is_made_of_nan_no_result_is_nan() -> None:
    finding = pb.find_nan(lambda x: pnp.log(x).astype("int32"), -1.0)
    assert finding is not None and "No result is NaN: what uses it drops it, or makes something else of it" in str(finding)


def test_the_backward_pass_of_a_batch_names_the_element() -> None:
    finding = pb.find_nan(square_root, V([[1, 2], [3, 0], [1, 1]]), apply="vmap")
    assert finding is not None and finding.role == "cotangent" and finding.batch == (1,)


def test_an_argument_that_is_nan_is_named_beside_a_number_that_stands_for_a_failure() -> None:
    def solved(x):
        return pnp.where(pnp.sum(x) > 0, 1.0, np.float32("nan"))

    finding = pb.find_nan(solved, V([1.0, np.nan]))
    assert finding is not None and finding.origin.what == "constant"
    assert "NaN is also in argument x from the start at [1]" in str(finding)
    assert "also" not in str(pb.find_nan(solved, V([1.0, -1.0])))


def test_a_result_in_the_place_of_a_function_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"^find_nan takes a function"):
        pb.find_nan(pnp.log(V([0.0])))  # type: ignore[arg-type]
