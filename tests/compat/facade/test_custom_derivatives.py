"""jax.custom_derivatives, jax.custom_batching and jax.checkpoint: rules see JAX's trees, under every transformation."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.compat.jax as jax
from pullback.compat.jax import ad_checkpoint, custom_batching, custom_derivatives, tree_util

jnp = jax.numpy


@tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: Any
    n: Any


def of_state(make: Any) -> Any:
    f = make(lambda state, scale: {"out": state.x**2 * scale, "n": state.n})
    if make is jax.custom_jvp:

        @f.defjvp
        def _(primals: Any, tangents: Any) -> Any:
            (state, scale), (t, t_scale) = primals, tangents
            assert isinstance(state, State) and isinstance(t, State) and t.n.dtype == pb.float0
            return f(state, scale), {"out": 20.0 * state.x * scale * t.x + state.x**2 * t_scale, "n": t.n}
    else:

        def bwd(kept: Any, ct: Any) -> Any:
            state, scale, flag = kept
            assert flag is True and isinstance(state, State) and ct["n"].dtype == pb.float0
            return State(20.0 * state.x * scale * ct["out"], None), [state.x**2 * ct["out"]][0]

        f.defvjp(lambda state, scale: (f(state, scale), (state, scale, True)), bwd)
    return f


@pytest.mark.parametrize("make", [jax.custom_jvp, jax.custom_vjp])
def test_rules_see_trees(make: Any) -> None:
    f = of_state(make)

    def loss(x: Any, scale: Any) -> Any:
        return f(State(x, 3), scale=scale)["out"]  # a keyword is resolved to its position

    assert f(State(2.0, 3), 5.0)["n"] == 3
    for transformed in (jax.grad(loss, (0, 1)), jax.jit(jax.grad(loss, (0, 1)))):
        assert [float(g) for g in transformed(2.0, 5.0)] == [200.0, 4.0]
    batched = jax.vmap(jax.grad(loss), (0, None))(jnp.arange(3.0), 5.0)
    np.testing.assert_allclose(np.asarray(batched), [0.0, 100.0, 200.0])


def test_what_is_missing_or_wrong_is_said() -> None:
    with pytest.raises(AttributeError, match=r"custom_jvp function .* has no rule yet"):
        jax.custom_jvp(named("f"))(1.0)
    with pytest.raises(AttributeError, match=r"custom_vjp function .* has no rule yet"):
        jax.custom_vjp(named("f"))(1.0)
    with pytest.raises(AttributeError, match=r"custom_vmap function .* has no rule yet"):
        custom_batching.custom_vmap(named("f"))(1.0)
    f = jax.custom_jvp(named("f"))
    f.defjvp(lambda primals, tangents: (primals, tangents[0]))
    with pytest.raises(TypeError, match=r"jvp rule of .* returned: output is"):
        jax.jvp(f, (1.0,), (1.0,))
    f.defjvp(functools.partial(lambda options, primals, tangents: 1.0, {"a": 1}))
    with pytest.raises(TypeError, match="must return a pair, the output and its tangent"):
        jax.jvp(f, (1.0,), (1.0,))
    f.defjvp(lambda primals, tangents: (primals[0], jnp.ones(3)))
    with pytest.raises(TypeError, match=r"jvp rule of .* returned: tangent is f32\[3\] where the output has ~f32\[\]"):
        jax.jvp(f, (1.0,), (1.0,))
    pair = jax.custom_jvp(lambda x: (x, x))
    pair.defjvp(lambda primals, tangents: (primals * 2, (tangents[0], jnp.ones(2))))
    with pytest.raises(TypeError, match=r"jvp rule of .* returned: tangent\[1\] is f32\[2\]"):
        jax.jvp(pair, (1.0,), (1.0,))
    with pytest.raises(TypeError, match="write one rule for all arguments, with defjvp"):
        jax.custom_jvp(named("f"), nondiff_argnums=0).defjvps(None)
    with pytest.raises(TypeError, match="whose leaves are CustomVJPPrimal"):
        custom_derivatives.custom_vjp_primal_tree_values([1.0])
    with pytest.raises(TypeError, match="whose rules take arguments by position"):
        f(1.0, y=2.0)
    g = jax.custom_vjp(named("g"))
    g.defvjp(lambda x: (x, None), lambda _, ct: ct)
    with pytest.raises(TypeError, match="must return a tuple with a cotangent for each argument"):
        jax.grad(g)(1.0)
    with pytest.raises(NotImplementedError, match="not both"):
        g.defvjp(g.fwd, g.bwd, symbolic_zeros=True, optimize_remat=True)


def named(name: str) -> Any:
    def f(x: Any) -> Any:
        return x

    f.__name__ = name
    return f


@pytest.mark.parametrize("tangent", [1, True, np.int32(1), np.float16(1.0), 1j])
@pytest.mark.parametrize("each", [False, True])
def test_tangents_have_the_dtype_of_their_output(tangent: Any, each: bool) -> None:
    f = jax.custom_jvp(lambda x: x * 2.0)
    if each:
        f.defjvps(lambda t, out, x: tangent)
    else:
        f.defjvp(lambda primals, tangents: (f(*primals), tangent))
    for x in (1.0, jnp.float32(1.0)):
        with pytest.raises(TypeError, match=r"returned: tangent is .* where the output has ~?f32\[\]"):
            jax.jvp(f, (x,), (jnp.float32(1.0),))
        with pytest.raises(TypeError, match="returned: tangent is"):
            jax.grad(f)(x)


def test_the_tangent_of_an_integer_is_of_float0() -> None:
    f = jax.custom_jvp(lambda x: (x, 3))
    f.defjvp(lambda primals, tangents: (f(*primals), (tangents[0], 0)))
    with pytest.raises(TypeError, match=r"returned: tangent\[1\] is 0 where the output has"):
        jax.jvp(f, (1.0,), (1.0,))


def test_cotangents_may_have_none_and_another_precision() -> None:
    f = jax.custom_vjp(lambda a, b, c: a["x"].astype("float32") + b + c)
    f.defvjp(lambda a, b, c: (f(a, b, c), None), lambda _, ct: ({"x": ct}, None, ct))
    x = jnp.asarray(1.0, dtype="float16")
    found = jax.grad(f, (0, 1, 2))({"x": x}, 2.0, 3.0)
    assert found[0]["x"].dtype == "float16" and [float(found[0]["x"]), float(found[1]), float(found[2])] == [1.0, 0.0, 1.0]


def test_arguments_without_derivatives() -> None:
    f = jax.custom_vjp(lambda function, x, y: function(x) * y, nondiff_argnums=(0,))
    f.defvjp(lambda function, x, y: (f(function, x, y), (x, y)), lambda function, kept, ct: (ct * 7.0, function(kept[1]) * ct))
    assert [float(g) for g in jax.grad(f, (1, 2))(jnp.sin, 1.0, 0.0)] == [7.0, 0.0]
    with pytest.raises(RuntimeError, match="nondiff_argnums"):
        jax.jit(lambda n: f(n, 1.0, 2.0))(3.0)
    g = jax.custom_jvp(lambda x, name: x, nondiff_argnames=("name",))
    g.defjvp(lambda name, primals, tangents: (primals[0], tangents[0] * len(name)))
    assert jax.grad(g)(1.0, "four") == 4.0


def test_symbolic_zeros() -> None:
    seen = []
    f = jax.custom_vjp(lambda x: (x["a"] * x["b"], x["a"]))

    def fwd(x: Any) -> Any:
        seen.append((x["a"].perturbed, x["b"].perturbed))
        values = custom_derivatives.custom_vjp_primal_tree_values(x)
        return f(values), values

    def bwd(values: Any, ct: Any) -> Any:
        seen.append([type(each).__name__ for each in ct])
        return ({"a": ct[0] * values["b"], "b": custom_derivatives.SymbolicZero(jnp.asarray(values["b"]))},)

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert jax.grad(lambda a: f({"a": a, "b": 3.0})[0])(2.0) == 3.0
    assert seen[0] == (True, False) and seen[1][1] == "SymbolicZero"
    zeros = custom_derivatives.zero_from_primal({"x": 1.0, "n": 2})
    assert float(zeros["x"]) == 0.0 and zeros["n"].dtype == pb.float0


def test_custom_gradient_and_closure_convert() -> None:
    @jax.custom_gradient
    def f(x: Any) -> Any:
        return {"y": x["a"] ** 2}, lambda ct: ({"a": ct["y"] * 100.0},)

    assert jax.grad(lambda x: f(x)["y"])({"a": 2.0})["a"] == 100.0

    def g(x: Any) -> Any:
        converted, values = custom_derivatives.closure_convert(lambda y: {"z": x * y["y"]}, {"y": 0.0})
        with pytest.raises(TypeError, match="was converted"):
            converted(1.0, *values)
        return converted({"y": 3.0}, *values)["z"]

    assert jax.grad(g)(2.0) == 3.0


def test_linear_call_uses_its_own_transpose() -> None:
    def f(r: Any, x: Any) -> Any:
        forward, back = (lambda r, x: {"o": r * x["x"]}), (lambda r, ct: {"x": 100.0 * r * ct["o"]})
        return custom_derivatives.linear_call(forward, back, r, {"x": x})["o"]

    assert jax.grad(f, 1)(2.0, 3.0) == 200.0 and jax.jvp(lambda x: f(2.0, x), (3.0,), (1.0,))[1] == 2.0
    with pytest.raises(TypeError, match="residual"):
        jax.grad(f)(2.0, 3.0)


def test_batching_rules() -> None:
    f = custom_batching.custom_vmap(lambda x, y: {"sum": x + y})

    @f.def_vmap
    def rule(size: int, in_batched: Any, x: Any, y: Any) -> Any:
        assert (size, in_batched) == (3, [True, False])
        return {"sum": x + y + 100.0}, {"sum": True}

    assert jax.vmap(f, (0, None))(jnp.arange(3.0), 1.0)["sum"].tolist() == [101.0, 102.0, 103.0]
    shapes = []
    g = custom_batching.sequential_vmap(lambda x, y: (shapes.append(np.shape(x)), {"sum": x + y})[1])
    found = jax.vmap(g, (0, None))(jnp.arange(3.0), {"a": 1.0}["a"])
    assert found["sum"].tolist() == [1.0, 2.0, 3.0] and set(shapes) == {()}


def test_rules_of_a_function_inside_are_reached_from_outside() -> None:
    f = jax.custom_jvp(custom_batching.custom_vmap(lambda x: x))
    f.def_vmap(lambda size, batched, x: (x + 1.0, True))
    f.defjvps(lambda t, out, x: 3.0 * t)
    assert jax.vmap(f)(jnp.zeros(2)).tolist() == [1.0, 1.0] and jax.grad(f)(1.0) == 3.0


def test_checkpoint() -> None:
    def f(x: Any, options: Any, *, name: str = "") -> Any:
        return {"y": jnp.sin(jnp.sin(x["x"])) * len(options)}

    once = jax.checkpoint(f, static_argnums=1, static_argnames="name")
    for _ in range(2):
        found = jax.grad(lambda x: once({"x": x}, [1, 2], name="a")["y"])(0.0)
        assert found == 2.0
    plain = jax.checkpoint(lambda x: f(x, (1,)))
    kept = ad_checkpoint.saved_residuals(lambda x: plain(x)["y"], {"x": jnp.ones(3)})
    assert [(aval.str_short(), source) for aval, source in kept] == [("float32[3]", "from the argument x['x']")]
    seen = []
    policy = lambda prim, *avals, **params: (seen.append((prim, avals, params)), prim is jax.lax.dot_general_p)[1]  # noqa: E731
    dot = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x @ x)), policy=policy)
    kept = ad_checkpoint.saved_residuals(dot, jnp.ones((2, 2)))
    assert [source.partition(" from")[0] for _, source in kept[1:]] == ["output of dot_general"]
    params = next(params for prim, _, params in seen if prim is jax.lax.dot_general_p)
    assert params["dimension_numbers"] == (((1,), (0,)), ((), ()))
    assert {str(prim) for prim, _, _ in seen} >= {"sin", "dot_general"}
    named = jax.checkpoint(
        lambda x: jnp.sin(ad_checkpoint.checkpoint_name(jnp.sin(x), "it")),
        policy=jax.checkpoint_policies.save_only_these_names("it"),
    )
    assert [source.partition(" from")[0] for _, source in ad_checkpoint.saved_residuals(named, jnp.ones(2))][1:] == [
        "named 'it'"
    ]
    with pytest.raises(ValueError, match="static_argnums"):
        jax.checkpoint(f, static_argnums=5)({"x": 1.0}, ())
    with pytest.raises(NotImplementedError, match="concrete"):
        jax.checkpoint(f, concrete=True)
    with pytest.raises(NotImplementedError, match="another memory"):
        jax.checkpoint_policies.offload_dot_with_no_batch_dims("device", "pinned_host")


def test_errors_name_places_in_the_users_trees() -> None:
    with pytest.raises(TypeError, match=r"argument p\['w'\]\[1\], which is"):
        jax.grad(lambda p: p["w"][0])({"w": [1.0, 2]})
    with pytest.raises(TypeError, match=r"carry\['a'\] is i32\[\] where it takes"):
        jax.lax.scan(lambda c, x: ({"a": c["a"].astype(int)}, None), {"a": 1.0}, jnp.ones(3))
    with pytest.raises(TypeError, match=r"output\['a'\] is <class 'tuple'> of .*only one of them has \[1\]"):
        jax.lax.cond(True, lambda x: {"a": (x, x)}, lambda x: {"a": (x,)}, 1.0)


def of_rule(backward: Any) -> Any:
    f = jax.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, (x, y)), backward)
    return f


def back(kept: Any, ct: Any) -> Any:
    return ct


def short(kept: Any, ct: Any) -> Any:
    return ct, ct


def test_errors_of_backward_rules_name_the_rule_and_its_function() -> None:
    with pytest.raises(TypeError, match=r"The backward rule \(bwd\) of of_rule.* must return a tuple"):
        jax.grad(of_rule(back))(1.0, 2.0)
    with pytest.raises(
        ValueError, match=r"backward rule \(bwd\) of .* returned: cotangents\[1\] is f32\[3\] where argument 1 has"
    ):
        jax.grad(lambda x: of_rule(short)(x, 2.0)[0])(jnp.ones(3))
    f = jax.custom_gradient(lambda x: (jnp.sum(x), lambda ct: (ct, ct)))
    with pytest.raises(TypeError, match=r"backward rule \(bwd\) of .* must return a tuple"):
        jax.grad(f)(jnp.ones(3))


def test_axes_that_do_not_fit_are_named_as_the_user_does() -> None:
    with pytest.raises(ValueError, match=r"vmap's in_axes for argument p, .* the prefix is .*'v'.* has in that place .*'w'"):
        jax.vmap(lambda p, y: y, in_axes=({"v": 0}, 0))({"w": jnp.ones(3)}, jnp.ones(3))


def ruled(make: Any, function: Any) -> Any:
    """A function with rules of which none may be used."""
    made, unused = make(function), lambda *args: pytest.fail("no rule is used")
    if make is jax.custom_vjp:
        made.defvjp(unused, unused)
    else:
        (made.defjvp if make is jax.custom_jvp else made.def_vmap)(unused)
    return made


@pytest.mark.parametrize("make", [jax.custom_jvp, jax.custom_vjp, custom_batching.custom_vmap])
def test_pythons_numbers_stay_what_they_are_where_nothing_is_traced(make: Any) -> None:
    seen: list[Any] = []
    f = ruled(make, lambda x, y: seen.append(x) or {"x": x, "y": y})
    out = f(2.0, np.ones(3))
    assert type(seen.pop()) is float and type(out["x"]) is float
    assert isinstance(out["y"], jax.Array) and out["y"].dtype == jnp.float32
    assert isinstance(jax.jit(f)(2.0, 3)["x"], jax.Array)
    with pytest.raises(pb.errors.LeafError, match="what <lambda> returned is 'a'"):
        ruled(make, lambda x: "a")(1.0)
    with pytest.raises(OverflowError):
        f(2**40, 1)
    with pytest.raises(pb.errors.LeafError, match="an argument of <lambda> is 'a'"):
        ruled(make, lambda x: 1.0)("a")
