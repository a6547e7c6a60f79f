"""checkpoint: the same values and derivatives under every transformation, with less kept in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.api.loops import scan
from pullback.api.memory import parse_bytes
from pullback.control.call import inlined
from pullback.control.checkpoint import checkpoint as checkpoint_primitive
from pullback.control.checkpoint import name
from pullback.core.source import shown_file
from pullback.engine.compile import lower_to_text
from pullback.engine.lower import lower_program
from pullback.ops.trigonometric import sin
from pullback.program.cost import equation_cost
from pullback.program.program import Program
from pullback.testing import check_gradients, check_primitive, check_transforms

policies = pb.checkpoint_policies
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4))
W = RNG.normal(size=(4, 4))


def layer(x: Any, w: Any) -> Any:
    return pnp.tanh(x @ w) * pnp.cos(x)


def three_layers(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = layer(x, w)
    return x


def mixed(tree: Any, n: Any) -> Any:
    return {"a": pnp.sin(tree["x"]) * tree["y"] + n, "b": (tree["x"] @ tree["y"].T, n + 1)}


POLICIES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "everything": {"policy": policies.everything_saveable},
    "dots": {"policy": policies.dots_saveable},
    "dots without batch": {"policy": policies.dots_with_no_batch_dims_saveable},
    "names": {"policy": policies.save_only_these_names("hidden")},
    "predicate": {"policy": lambda primitive, *types, **params: primitive.name == "tanh"},
    "budget": {"budget": 300},
    "no barrier": {"prevent_cse": False},
}

# ---- the same function --------------------------------------------------------------------------------------------------

ROUTES: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "itself": lambda f: f,
    "jit": lambda f: pb.jit(f),
    "grad": lambda f: pb.grad(lambda x, w: pnp.sum(f(x, w)), (0, 1)),
    "jit of grad": lambda f: pb.jit(pb.grad(lambda x, w: pnp.sum(f(x, w)), (0, 1))),
    "grad of jit": lambda f: pb.grad(lambda x, w: pnp.sum(pb.jit(f)(x, w)), (0, 1)),
    "jvp": lambda f: lambda x, w: pb.jvp(f, (x, w), (x, w)),
    "vmap": lambda f: lambda x, w: pb.vmap(f, in_axes=(0, None))(x, w),
    "grad of vmap": lambda f: pb.grad(lambda x, w: pnp.sum(pb.vmap(f, in_axes=(0, None))(x, w)), (0, 1)),
    "vmap of grad": lambda f: pb.vmap(pb.grad(lambda x, w: pnp.sum(f(x, w)), (0, 1)), in_axes=(0, None)),
    "jvp of grad": lambda f: lambda x, w: pb.jvp(pb.grad(lambda x, w: pnp.sum(f(x, w))), (x, w), (x, w)),
    "grad of grad": lambda f: pb.grad(lambda x, w: pnp.sum(pb.grad(lambda x: pnp.sum(f(x, w)))(x) ** 2), (0, 1)),
    "linearize": lambda f: lambda x, w: pb.linearize(f, x, w)[1](x, w),
    "jet": lambda f: lambda x, w: pb.jet(lambda x: f(x, w), (x,), ((x, x * x),)),
    "in scan": lambda f: pb.grad(lambda x, w: pnp.sum(scan(lambda c, _: (f(c, w), pnp.sum(c)), x, None, 3)[0]), (0, 1)),
    "jit of grad in scan": lambda f: pb.jit(
        pb.grad(lambda x, w: pnp.sum(scan(lambda c, _: (f(c, w), None), x, None, 3)[0]), (0, 1))
    ),
    "nested": lambda f: pb.grad(lambda x, w: pnp.sum(pb.checkpoint(lambda x: f(x, w))(x)), (0, 1)),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("route", ROUTES)
def test_values_and_derivatives_are_those_of_the_function(route: str, policy: str) -> None:
    found = pb.tree.leaves(ROUTES[route](pb.checkpoint(three_layers, **POLICIES[policy]))(X, W))
    expected = pb.tree.leaves(ROUTES[route](three_layers)(X, W))
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-10, atol=1e-12)
        assert one.type is other.type


def test_finite_differences_and_combinations() -> None:
    f = pb.checkpoint(layer)
    check_gradients(f, (X, W))
    check_transforms(f, (X, W))
    check_primitive(name)


def test_trees_integers_keywords_and_captured_values() -> None:
    tree = {"x": X, "y": X + 1}
    found, expected = pb.checkpoint(mixed)(tree, n=3), mixed(tree, n=3)
    assert pb.tree.structure(found) == pb.tree.structure(expected)
    np.testing.assert_allclose(found["a"], expected["a"])
    assert found["b"][1].dtype == np.int32 and int(found["b"][1]) == 4
    slope = pb.grad(lambda s: pnp.sum(pb.checkpoint(lambda x: pnp.sin(s * x))(X)))(2.0)
    np.testing.assert_allclose(slope, np.sum(X * np.cos(2 * X)), rtol=1e-5)


def test_static_arguments() -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else x * power(x, n - 1)

    assert float(pb.grad(pb.checkpoint(power, static_argnums=1))(2.0, 3)) == 32.0
    assert float(pb.grad(pb.remat(power, static_argnums=(-1,)))(2.0, 3)) == 32.0
    by_name = pb.checkpoint(power, static_argnames="n")
    assert float(pb.grad(by_name)(2.0, 3)) == float(pb.grad(by_name)(2.0, n=3)) == 32.0
    with pytest.raises(pb.errors.StaticArgumentError, match="checkpoint's static_argnames names 'm'"):
        pb.checkpoint(power, static_argnames="m")


def test_named_axes() -> None:
    f = pb.checkpoint(lambda x: pnp.sin(x - pb.lax.psum(x, "i")))
    found = pb.grad(lambda x: pnp.sum(pb.vmap(f, axis_name="i")(x)))(X[:, 0])
    expected = pb.grad(lambda x: pnp.sum(pnp.sin(x - pnp.sum(x))))(X[:, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


# ---- what is kept -------------------------------------------------------------------------------------------------------


def kinds(residuals: Any) -> list[str]:
    return [residual.made_by for residual in residuals]


def named_layer(x: Any, w: Any) -> Any:
    return pnp.sin(pb.checkpoint_name(pnp.sin(x @ w), "hidden"))


KEPT = {
    "nothing": ["argument", "argument"],
    "everything": ["argument", "argument", "cos", "cos"],
    "dots": ["argument", "argument", "dot_general"],
    "dots without batch": ["argument", "argument", "dot_general"],
    "names": ["argument", "argument", "named 'hidden'"],
    "predicate": ["argument", "argument"],
}


@pytest.mark.parametrize("policy", KEPT)
def test_a_policy_decides_what_is_kept(policy: str) -> None:
    saved = pb.saved_residuals(pb.checkpoint(named_layer, **POLICIES[policy]), X, W)
    assert kinds(saved) == KEPT[policy]
    assert {residual.wanted_by for residual in saved} == {("checkpoint",)}
    assert all("pnp.sin(x @ w)" in residual.source for residual in saved if residual.made_by != "argument")


def test_the_policy_is_told_primitives_types_and_parameters() -> None:
    seen = []

    def policy(primitive: Any, *types: Any, **params: Any) -> bool:
        seen.append((primitive.name, [str(type) for type in types], sorted(params)))
        return False

    pb.saved_residuals(pb.checkpoint(named_layer, policy=policy), X, W)
    assert ("dot_general", ["f64[5,4]", "f64[4,4]"], ["dimension_numbers"]) in seen
    assert ("name", ["f64[5,4]"], ["name"]) in seen


NO_POLICIES: dict[str, Any] = {
    "names not given": (policies.save_only_these_names, "(cannot be asked|returned Names)"),
    "policies not given": (policies.save_from_both_policies, "(cannot be asked|returned Either)"),
    "no parameters taken": (lambda primitive, *types: True, "unexpected keyword argument"),
    "a number": (lambda primitive, *types, **params: 3, "returned 3 for"),
    "nothing": (lambda primitive, *types, **params: None, "returned None for"),
}


@pytest.mark.parametrize("policy", NO_POLICIES)
def test_what_is_no_policy_is_an_error_that_says_what_one_is(policy: str) -> None:
    given, expected = NO_POLICIES[policy]
    with pytest.raises(TypeError, match=rf"checkpoint's policy .*{expected}(.|\n)*\(primitive, \*types, \*\*params\) -> bool"):
        pb.grad(pb.checkpoint(lambda x: pnp.sum(pnp.sin(pnp.sin(x))), policy=given))(X)


def test_a_policy_that_cannot_be_hashed() -> None:
    class Nothing:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, primitive: Any, *types: Any, **params: Any) -> bool:
            return False

    for transform in (pb.grad, lambda f: pb.jit(pb.grad(f))):
        np.testing.assert_allclose(transform(pb.checkpoint(lambda x: pnp.sum(pnp.sin(x)), policy=Nothing()))(X), np.cos(X))


def test_policies_by_names_and_together() -> None:
    def f(x: Any) -> Any:
        for key in ("a", "b", "c"):
            x = pb.checkpoint_name(pnp.sin(x), key)
        return x

    def kept(policy: Any) -> int:
        saved = pb.saved_residuals(pb.checkpoint(f, policy=policy), X)
        return sum(residual.made_by != "argument" for residual in saved)

    assert kept(policies.save_only_these_names("a")) == kept(policies.save_only_these_names("a", "c")) == 1
    assert kept(policies.save_any_names_but_these("a", "c")) == 1
    assert kept(policies.save_anything_except_these_names("other")) == kept(policies.everything_saveable)
    but_b = policies.save_anything_except_these_names("b")
    assert [but_b(name, name=key) for key in "abc"] == [True, False, True] and but_b(sin)
    assert kept(policies.save_from_both_policies(policies.save_only_these_names("a"), lambda p, *_, **__: p.name == "cos")) == 3
    assert kept(policies.save_only_these_names("d")) == 0


@pytest.mark.parametrize("policy", [key for key in POLICIES if key != "predicate"])
def test_programs_can_be_written_down(policy: str) -> None:
    f = pb.checkpoint(three_layers, **POLICIES[policy])
    program = pb.xpr(pb.grad(lambda x, w: pnp.sum(f(x, w))), X, W)
    primitives = {e.primitive.name: e.primitive for p in everything_in(program) for e in p.equations}
    again = Program.from_json(program.to_json(), primitives)
    assert again == program
    np.testing.assert_array_equal(again(X, W), program(X, W))


def everything_in(program: Program) -> list[Program]:
    return [program, *[inner for held in program.subprograms() for inner in everything_in(held)]]


def test_batched_products_are_not_kept_where_only_unbatched_are() -> None:
    f = pb.checkpoint(lambda x, w: pnp.sin(x @ w), policy=policies.dots_with_no_batch_dims_saveable)
    batch = np.ones((3, 4, 4))
    assert kinds(pb.saved_residuals(f, batch, batch)) == ["argument", "argument"]


def test_operations_inside_jit_are_seen_by_the_policy() -> None:
    inner = pb.jit(lambda x, w: pnp.sin(x @ w))
    f = pb.checkpoint(lambda x, w: pnp.sin(inner(x, w)), policy=policies.dots_saveable)
    assert kinds(pb.saved_residuals(f, X, W)) == ["argument", "argument", "dot_general"]
    program = pb.xpr(lambda x, w: pnp.sin(inner(x, w)), X, W)
    flat = inlined(program)
    assert [e.primitive.name for e in flat.equations] == ["dot_general", "sin", "sin"]
    np.testing.assert_allclose(flat(X, W), program(X, W), rtol=1e-12)


def equations(program: Program, name: str) -> int:
    """How many equations of that name there are, those inside others counted too."""
    own = sum(equation.primitive.name == name for equation in program.equations)
    return own + sum(equations(inner, name) for inner in program.subprograms())


def test_the_backward_pass_computes_again_what_was_not_kept() -> None:
    def count(policy: str, what: str) -> int:
        f = pb.checkpoint(three_layers, **POLICIES[policy])
        return equations(pb.xpr(pb.value_and_grad(lambda x, w: pnp.sum(f(x, w))), X, W), what)

    plain = pb.xpr(pb.value_and_grad(lambda x, w: pnp.sum(three_layers(x, w))), X, W)
    assert equations(plain, "tanh") == count("everything", "tanh") == 3
    assert count("nothing", "tanh") == count("dots", "tanh") == 6
    assert equations(plain, "dot_general") == count("dots", "dot_general") == 6
    assert count("nothing", "dot_general") == 9


def test_what_serves_only_the_value_is_dropped() -> None:
    program = pb.xpr(pb.grad(pb.checkpoint(lambda x: pnp.sin(pnp.sin(x)))), np.float32(1.0))
    (equation,) = program.equations
    assert equation.primitive is checkpoint_primitive and equation.params["again"]


def test_an_effect_happens_once() -> None:
    seen: list[float] = []

    def noisy(x: Any) -> Any:
        y = pnp.sin(x)
        pb.debug.callback(lambda v: seen.append(float(v)), y)
        return pnp.sin(y)

    pb.grad(pb.checkpoint(noisy))(0.5)
    pb.jit(pb.grad(pb.checkpoint(noisy)))(0.5)
    assert len(seen) == 2


# ---- budgets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [0, 100, 160, 320, 500, 10_000])
def test_a_budget_is_kept(budget: int) -> None:
    arguments = X.nbytes + W.nbytes
    free = pb.saved_residuals(three_layers, X, W)
    saved = pb.saved_residuals(pb.checkpoint(three_layers, budget=budget), X, W)
    assert saved.bytes - arguments <= budget
    assert saved.bytes <= free.bytes
    if budget >= 10_000:  # everything fits, so nothing is computed again
        program = pb.xpr(pb.value_and_grad(lambda x, w: pnp.sum(pb.checkpoint(three_layers, budget=budget)(x, w))), X, W)
        assert equations(program, "tanh") == 3 and equations(program, "dot_general") == 6


def test_a_budget_keeps_what_is_dear() -> None:
    def f(x: Any, w: Any) -> Any:
        y = pnp.sin(x @ w)  # the product takes more to compute than the sine
        return pnp.sin(y[:, :1] * 2.0)

    x, w = np.ones((8, 256)), np.ones((256, 8))
    kept = pb.checkpoint(f, budget=8 * 8 * 8)
    program = pb.xpr(pb.value_and_grad(lambda x, w: pnp.sum(kept(x, w))), x, w)
    assert equations(program, "dot_general") == 2  # one forward, one for w: x is the first argument only
    again = pb.xpr(pb.value_and_grad(lambda x, w: pnp.sum(pb.checkpoint(f)(x, w))), x, w)
    assert equations(again, "dot_general") == 3


def test_costs() -> None:
    program = pb.xpr(lambda x, w: pnp.sum(pb.vmap(lambda a: a @ w)(x)) + pnp.sum(pnp.exp(w)), np.ones((3, 5, 4)), W)
    costs = {equation.primitive.name: equation_cost(equation).work for equation in program.equations}
    assert costs["dot_general"] == 2 * 3 * 5 * 4 * 4
    assert costs["exp"] > costs["add"] == 1
    batched = pb.xpr(lambda a, b: a @ b, np.ones((7, 2, 3)), np.ones((7, 3, 5)))
    assert equation_cost(batched.equations[-1]).flops == pytest.approx(2 * 7 * 2 * 3 * 5)
    loop = pb.xpr(lambda x: scan(lambda c, _: (pnp.exp(c), None), x, None, 10)[0], np.ones(6))
    assert equation_cost(loop.equations[0]).work == 10 * 8 * 6


BYTES = {"200MB": 200_000_000, "1.5GiB": 3 * 2**29, "64 kB": 64_000, "7": 7, "12b": 12, "2KiB": 2048, 5: 5, "1TB": 10**12}


@pytest.mark.parametrize("text", BYTES)
def test_bytes(text: Any) -> None:
    assert parse_bytes(text) == BYTES[text]


@pytest.mark.parametrize("wrong", ["lots", "-3MB", "3 bananas", -1, 1.5, None, True])
def test_what_is_no_number_of_bytes(wrong: Any) -> None:
    with pytest.raises(ValueError, match="A budget is a number of bytes"):
        parse_bytes(wrong)


# ---- compiled memory --------------------------------------------------------------------------------------------------------


def deep(wrap: Callable[[Any], Any]) -> Callable[..., Any]:
    """The gradient of 32 layers in 4 blocks, each of which goes through `wrap`."""

    def block(x: Any, ws: Any) -> Any:
        for w in ws:
            x = pnp.tanh(x @ w)
        return x

    def loss(x: Any, ws: Any) -> Any:
        for i in range(0, 32, 8):
            x = wrap(block)(x, ws[i : i + 8])
        return pnp.sum(x)

    return pb.jit(pb.grad(loss))


def test_compiled_code_takes_less_memory() -> None:
    ws = [(RNG.normal(size=(32, 32)) * 0.2).astype("float32") for _ in range(32)]
    x = np.ones((512, 32), "float32")
    found: dict[str, tuple[int, float, Any]] = {}
    for key, wrap in {
        "plain": lambda f: f,
        "checkpoint": pb.checkpoint,
        "budget": lambda f: pb.checkpoint(f, budget="256KiB"),
    }.items():
        made = deep(wrap)
        compiled = made.lower(x, ws).compile()
        found[key] = compiled.memory_analysis()["temp_size_in_bytes"], compiled.cost_analysis()["flops"], made(x, ws)
    assert found["checkpoint"][0] < 0.5 * found["plain"][0]
    assert found["checkpoint"][0] < found["budget"][0] < 0.9 * found["plain"][0]
    assert found["plain"][1] < found["budget"][1] < found["checkpoint"][1] < 1.5 * found["plain"][1]
    np.testing.assert_allclose(found["checkpoint"][2], found["plain"][2], rtol=1e-4, atol=1e-6)


def test_the_barrier_elsewhere_is_xlas_own() -> None:
    f = pb.checkpoint(lambda x: pnp.sin(pnp.sin(x)))
    program = pb.xpr(pb.grad(lambda x: pnp.sum(f(x))), X)
    there, here = (lower_program(program, platform).text for platform in ("cuda", "cpu"))
    assert there.count("stablehlo.optimization_barrier") == 1 and "stablehlo.if" not in there
    assert "stablehlo.optimization_barrier" not in here and here.count("stablehlo.if") == 1
    apart = pb.xpr(pb.grad(lambda x: pnp.sum(pb.checkpoint(pnp.sin, prevent_cse=False)(x))), X)
    assert "stablehlo.if" not in lower_to_text(apart)


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 0), (3,)])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16"])
def test_the_barrier_takes_any_type(shape: tuple[int, ...], dtype: str) -> None:
    x = np.ones(shape, dtype)
    f = lambda x: pnp.sum(pnp.real(pb.checkpoint(lambda x: pnp.sin(pnp.sin(x)))(x)))  # noqa: E731
    for value in (x, x * np.asarray(np.nan, dtype)):
        np.testing.assert_allclose(
            np.asarray(pb.jit(pb.grad(f))(value)), np.asarray(pb.grad(f)(value)), rtol=1e-2, equal_nan=True
        )


# ---- saved_residuals, and mistakes ------------------------------------------------------------------------------------------


def test_saved_residuals() -> None:
    constant = np.ones((5, 4))

    def f(x: Any, w: Any, n: Any) -> Any:
        hidden = pnp.tanh(x @ w)
        return pnp.sum(hidden * constant) * n

    saved = pb.saved_residuals(f, pb.ArrayType((5, 4), "float64"), W, 3)
    assert saved.bytes == sum(residual.bytes for residual in saved)
    by = {residual.made_by: residual for residual in saved}
    assert by["constant"].type.shape == (5, 4)
    text = str(saved)
    assert "argument x" in text and "dot_general" in text and "tanh" in text and "hidden = pnp.tanh(x @ w)" in text
    assert f"{len(saved)} residuals" in text


def test_residuals_that_are_alike_are_one_row_and_files_are_named_from_here() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = pnp.sin(x)
        return x

    saved = pb.saved_residuals(f, pb.ArrayType((5, 4), "float32"))
    rows = str(saved).split("\n")[1:]
    assert rows[0].startswith("3 x f32[5,4]    240  cos      sin        ") and rows[1:] == ["3 residuals, 240 bytes"]
    assert saved[0].source.startswith(__file__) and f"  {shown_file(__file__)}:" in rows[0]


def test_saved_residuals_see_into_jit() -> None:
    f = lambda x, w: pnp.sin(pnp.tanh(x @ w))  # noqa: E731
    plain, jitted = pb.saved_residuals(f, X, W), pb.saved_residuals(pb.jit(pb.jit(f)), X, W)
    assert [(r.type, r.made_by, r.wanted_by) for r in plain] == [(r.type, r.made_by, r.wanted_by) for r in jitted]
    assert "pnp.sin(pnp.tanh(x @ w))" in str(jitted)
    slope = pb.grad(lambda s: (pb.saved_residuals(lambda x: pnp.sin(x * s), 1.0).bytes, s)[1])(
        2.0
    )  # what it closes over is traced
    assert float(slope) == 1.0


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="a policy or a budget"):
        pb.checkpoint(pnp.sin, policy=policies.dots_saveable, budget=3)
    with pytest.raises(TypeError, match="checkpoint takes a function"):
        pb.checkpoint(3.0)
    with pytest.raises(TypeError, match="policy is a function"):
        pb.checkpoint(pnp.sin, policy="dots")
    with pytest.raises(TypeError, match="takes a name"):
        pb.checkpoint_name(1.0, 3)
    with pytest.raises(pb.errors.GradientError, match="0-d output"):
        pb.grad(pb.checkpoint(pnp.sin))(X)
