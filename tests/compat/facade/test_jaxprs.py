"""Jaxprs: what make_jaxpr shows is what JAX 0.10.2 shows, and it runs, whole and equation by equation."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

import numpy as np
import pullback.compat.jax.extend.core as extend_core
import pullback.compat.jax.extend.core.primitives as primitives
import pytest

import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax import core, lax
from pullback.compat.jax.structs import type_of

VECTOR = jax.ShapeDtypeStruct((3,), jnp.float32)


def test_what_is_known_is_computed_at_once_in_an_eval_context():
    @jax.jit
    def f(x):
        with core.eval_context():
            return x * int(jnp.add(1, 1))

    assert f(3.0) == 6.0


def doubled(x):
    return x * 2


@jax.custom_jvp
def by_jvp(x):
    return x * 2.0


@by_jvp.defjvp
def push(primals, tangents):
    return by_jvp(*primals), tangents[0] * 2.0


# As `print(jax.make_jaxpr(f)(VECTOR))` has it in JAX.
TEXTS = {
    "elementwise": (lambda x: jnp.sin(x) * x, "{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b a in (c,) }"),
    "literal": (lambda x: (x, 1.0), "{ lambda ; a:f32[3]. let  in (a, 1.0:f32[]) }"),
    "folded": (
        lambda x: x * lax.convert_element_type(3.0, jnp.float32) + lax.broadcast(x, ()),
        "{ lambda ; a:f32[3]. let b:f32[3] = mul a 3.0:f32[]; c:f32[3] = add b a in (c,) }",
    ),
    "sum": (
        jnp.sum,
        """
        { lambda ; a:f32[3]. let
            b:f32[] = reduce_sum[axes=(0,) out_sharding=None] a
          in (b,) }""",
    ),
    "jit": (
        lambda x: jax.jit(doubled)(x),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = jit[
              name=doubled
              jaxpr={ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }
            ] a
          in (b,) }""",
    ),
    "cond": (
        lambda x: lax.cond(x[0] > 0, lambda y: y, lambda y: y * 2, x),
        """
        { lambda ; a:f32[3]. let
            b:f32[1] = slice[limit_indices=(1,) start_indices=(0,) strides=None] a
            c:f32[] = squeeze[dimensions=(0,)] b
            d:bool[] = gt c 0.0:f32[]
            e:i32[] = convert_element_type[new_dtype=int32 weak_type=False] d
            f:f32[3] = cond[
              branches=(
                { lambda ; g:f32[3]. let h:f32[3] = mul g 2.0:f32[] in (h,) }
                { lambda ; i:f32[3]. let  in (i,) }
              )
            ] e a
          in (f,) }""",
    ),
    "while": (
        lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        """
        { lambda ; a:f32[3]. let
            b:i32[] c:f32[3] = while[
              body_jaxpr={ lambda ; d:i32[] e:f32[3]. let
                  f:i32[] = add d 1:i32[]
                  g:f32[3] = mul e 2.0:f32[]
                in (f, g) }
              body_nconsts=0
              cond_jaxpr={ lambda ; h:i32[] i:f32[3]. let
                  j:bool[] = lt h 3:i32[]
                in (j,) }
              cond_nconsts=0
            ] 0:i32[] a
          in (b, c) }""",
    ),
    "custom_jvp": (
        by_jvp,
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = custom_jvp_call[
              name=by_jvp
              call_jaxpr={ lambda ; c:f32[3]. let d:f32[3] = mul c 2.0:f32[] in (d,) }
              jvp=push
              symbolic_zeros=False
            ] a
          in (b,) }""",
    ),
    "matmul": (
        lambda x: x @ x,
        """
        { lambda ; a:f32[3]. let
            b:f32[] = dot_general[
              dimension_numbers=(([0], [0]), ([], []))
              preferred_element_type=float32
            ] a a
          in (b,) }""",
    ),
}


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in ("custom_jvp", "matmul")])
def test_text_is_that_of_jax(name):
    function, text = TEXTS[name]
    assert str(jax.make_jaxpr(function)(VECTOR)) == textwrap.dedent(text).strip("\n")


FUNCTIONS = {
    **{name: function for name, (function, _) in TEXTS.items()},
    "checkpoint": lambda x: jax.checkpoint(jnp.sin)(x),
    "select": lambda x: jnp.where(x > 1, x, 0.5),
    "argmax": jnp.argmax,
    "scan": lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.float32(0), x),
    "while with constants": lambda x: lax.while_loop(lambda c: c[0] < 3 + x[0], lambda c: (c[0] + 1, c[1] * x), (0, x)),
    "convert": lambda x: x.astype(jnp.int32),
    "sort": jnp.sort,
    "constants": lambda x: x + np.arange(3, dtype=np.float32),
    "updates": lambda x: x.at[0].set(5.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_runs_whole_and_by_equations(name):
    function = FUNCTIONS[name]
    x = jnp.array([1.0, 2.0, 3.0])
    closed = jax.make_jaxpr(function)(VECTOR)
    expected = jax.tree_util.tree_leaves(function(x))
    values = dict(zip(closed.jaxpr.constvars, closed.consts)) | dict(zip(closed.jaxpr.invars, [x]))

    def read(atom):
        return atom.val if isinstance(atom, extend_core.Literal) else values[atom]

    for equation in closed.eqns:
        params = equation.primitive.get_bind_params(equation.params)
        out = equation.primitive.bind(*map(read, equation.invars), **params)
        values.update(zip(equation.outvars, out if equation.primitive.multiple_results else [out]))
    by_equations = [read(atom) for atom in closed.jaxpr.outvars]
    remade = closed.jaxpr.replace(eqns=list(closed.eqns))
    for found in (
        by_equations,
        core.eval_jaxpr(closed.jaxpr, closed.consts, x),
        core.eval_jaxpr(remade, closed.consts, x),
        extend_core.jaxpr_as_fun(closed)(x),
        jax.jit(lambda x: core.eval_jaxpr(closed.jaxpr, closed.consts, x))(x),
    ):
        for a, b in zip(found, expected, strict=True):
            assert np.allclose(a, b) and jnp.shape(a) == jnp.shape(b)


def test_parts():
    closed, shape = jax.make_jaxpr(lambda d, n: {"y": d["x"] * n + jnp.arange(3.0)}, static_argnums=1, return_shape=True)(
        {"x": VECTOR}, 2
    )
    assert shape == {"y": VECTOR}
    assert [str(aval) for aval in (*closed.in_avals, *closed.out_avals)] == ["float32[3]"] * 2
    assert len(closed.consts) == len(closed.jaxpr.constvars) == (1 if closed.consts else 0)
    assert closed.eqns[0].primitive.name == "mul"
    assert not closed.effects and closed.jaxpr is closed.jaxpr
    assert closed.jaxpr != jax.make_jaxpr(doubled)(VECTOR).jaxpr and hash(closed.jaxpr) is not None
    assert jax.tree_util.tree_leaves([closed.jaxpr]) == [closed.jaxpr]
    extend_core.check_jaxpr(closed.jaxpr)
    mul = closed.eqns[0]
    assert isinstance(mul.invars[0], extend_core.Var) and isinstance(mul.invars[1], extend_core.Literal)
    assert float(mul.invars[1].val) == 2.0
    with pytest.raises(core.JaxprTypeError, match="not defined"):
        extend_core.check_jaxpr(closed.jaxpr.replace(eqns=closed.eqns[1:]))
    assert jax.make_jaxpr(lambda x: jax.debug.print("{}", x))(VECTOR).effects


def test_consts_are_values_of_surrounding_transformations():
    def f(y):
        closed = jax.make_jaxpr(lambda x: jnp.sin(x) * y)(1.0)
        assert len(closed.consts) == 1
        return core.eval_jaxpr(closed.jaxpr, closed.consts, 2.0)[0]

    assert np.allclose(jax.grad(f)(3.0), np.sin(2.0))
    assert np.allclose(jax.vmap(f)(jnp.arange(3.0)), np.sin(2.0) * np.arange(3))


def test_primitives_are_one_object_by_each_name():
    assert primitives.sin_p is lax.sin_p is jax.make_jaxpr(jnp.sin)(VECTOR).eqns[0].primitive
    assert np.allclose(lax.mul_p.bind(2.0, 3.0), 6.0)
    assert np.allclose(lax.select_n_p.bind(np.array([True, False]), np.zeros(2), np.ones(2)), [1, 0])
    assert primitives.custom_vjp_call_p is not primitives.custom_jvp_call_p
    assert repr(primitives.while_p) == "while"
    with pytest.raises(NotImplementedError, match="pullback has not"):
        primitives.threefry2x32_p.bind(1.0)
    with pytest.raises(NotImplementedError, match="out_sharding"):
        lax.reduce_sum_p.bind(np.ones(3), axes=(0,), out_sharding="rows")


def test_axis_environment():
    closed = jax.make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(VECTOR)
    assert [(equation.primitive.name, equation.params["axes"]) for equation in closed.eqns] == [("psum", ("i",))]


# ---- types ------------------------------------------------------------------------------------------------------------


def test_shaped_arrays():
    aval = core.ShapedArray((2, 3), jnp.float32)
    assert aval is core.ShapedArray([2, 3], "float32") and isinstance(aval, core.AbstractValue)
    assert (str(aval), repr(aval.update(weak_type=True))) == ("float32[2,3]", "ShapedArray(float32[2,3], weak_type=True)")
    assert aval.str_short(short_dtypes=True) == "f32[2,3]" and (aval.ndim, aval.size) == (2, 6)
    assert aval.to_tangent_aval() is aval
    assert core.ShapedArray((), jnp.int32).to_tangent_aval().dtype == jax.dtypes.float0
    assert jax.typeof(jnp.zeros((2, 3))) is aval and jax.typeof(1.0).weak_type
    assert aval.sharding.mesh.empty and core.ShapedArray((2, 3), jnp.float32, sharding=aval.sharding) is aval
    assert extend_core.mapped_aval(3, 1, aval).shape == (2,) and extend_core.unmapped_aval(5, 0, aval).shape == (5, 2, 3)
    with pytest.raises(TypeError, match="typeof takes an array or a number"):
        jax.typeof("text")
    with pytest.raises(AttributeError, match="immutable"):
        aval.shape = ()


def test_structs():
    assert jax.ShapeDtypeStruct([3], "float32") == VECTOR and hash(VECTOR) == hash(jax.ShapeDtypeStruct([3], "float32"))
    assert jax.ShapeDtypeStruct((3,), jnp.float32, weak_type=True) != VECTOR and jax.typeof(jnp.zeros(3)) != VECTOR
    assert repr(VECTOR) == "ShapeDtypeStruct(shape=(3,), dtype=float32)" and len(VECTOR) == 3
    assert VECTOR.update(dtype="int8") == jax.ShapeDtypeStruct((3,), "int8")
    assert jax.tree_util.tree_leaves(VECTOR) == [VECTOR]
    assert jax.eval_shape(lambda x: (x * 2, VECTOR), VECTOR) == (VECTOR, VECTOR)
    assert jax.eval_shape(lambda: jax.ShapeDtypeStruct((), jnp.int32)) == jax.ShapeDtypeStruct((), jnp.int32)
    assert type_of(jax.ShapeDtypeStruct((2,), np.float64)).dtype == np.float32  # as what enters
    with pytest.raises(ValueError, match="with no dtype"):
        jax.ShapeDtypeStruct((3,), None)
    with pytest.raises(RuntimeError, match="does not change"):
        VECTOR.shape = ()


# ---- which transformation is under way --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.grad(f)(1.0),
        lambda f: jax.vjp(f, 1.0),
        lambda f: jax.jvp(f, (1.0,), (1.0,)),
        lambda f: jax.linearize(f, 1.0),
        lambda f: jax.vmap(f)(np.ones(2)),
        lambda f: jax.jit(f)(1.0),
        lambda f: lax.scan(lambda c, x: (f(c), x), 0.0, np.ones(2)),
        lambda f: lax.cond(True, f, lambda x: x, 1.0),
        lambda f: jax.checkpoint(f)(1.0),
    ],
)
def test_trace_state(transform):
    state = extend_core.get_opaque_trace_state
    before, seen = state(), []
    transform(lambda x: (seen.append((before == state(), state() == state())), x)[1])
    assert seen[0] == (False, True) and before == state()


def test_jvp_tracers():
    from_inside = []

    def f(x):
        main = extend_core.find_top_trace([x]).main
        for y in (x * 2, x > 0, lax.stop_gradient(x), 1.0):
            from_inside.append(isinstance(y, jax.interpreters.ad.JVPTracer) and y._trace.main is main)
        return x

    jax.jvp(f, (1.0,), (1.0,))
    assert from_inside == [True, False, False, False]


def test_dead_code_elimination():
    def f(x, y, z):
        return jnp.sin(x) + np.arange(3, dtype=np.float32), y * 2, z

    jaxpr = jax.make_jaxpr(f)(VECTOR, VECTOR, VECTOR).jaxpr
    smaller, used = jax.interpreters.partial_eval.dce_jaxpr(jaxpr, [False, True, False])
    assert used == [False, True, False] and [one.primitive.name for one in smaller.eqns] == ["mul"]
    assert len(smaller.invars) == 1 and len(smaller.constvars) == len(jaxpr.constvars)
    assert jax.interpreters.partial_eval.dce_jaxpr(jaxpr, [True, False, False], instantiate=True)[1] == [True] * 3


def test_a_linear_function_shows_its_jaxpr() -> None:
    policy = jax.checkpoint_policies.checkpoint_dots
    _, pushed = jax.linearize(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x @ x)) @ x, policy=policy), jnp.ones((2, 2)))
    text = str(pushed.func.args[0])
    assert (text.count(" sin "), text.count(" cos "), text.count(" dot_general")) == (2, 2, 4)
    assert "differentiated=True" in text


def test_products_and_gathers_have_all_parameters_of_jax() -> None:
    def parameters(f, *args):
        return dict(jax.make_jaxpr(f)(*args).eqns[-1].params)

    one, square = jnp.ones((2, 2)), jnp.ones((1, 1, 2, 2))
    dot = parameters(lambda x: jax.lax.dot(x, x), one)
    assert {"precision": None, "preferred_element_type": None}.items() <= dot.items()
    conv = parameters(lambda x: jax.lax.conv(x, x, (1, 1), "SAME"), square)
    assert {"precision": None, "preferred_element_type": None}.items() <= conv.items()
    assert "fill_value" in parameters(lambda x, i: x[i], one, jnp.array([1]))
    wide = parameters(lambda x: jax.lax.dot(x, x, preferred_element_type=np.float32), one.astype(jnp.bfloat16))
    assert wide["preferred_element_type"] == np.float32
    for f, arg in ((lambda x: jax.lax.dot(x, x), one), (lambda x: jax.lax.conv(x, x, (1, 1), "SAME"), square)):
        closed = jax.make_jaxpr(f)(arg)
        bound = closed.eqns[0].primitive.bind(arg, arg, **closed.eqns[0].params)
        assert (bound == f(arg)).all()


def test_an_interpreter_as_in_the_guide_inverts_a_function() -> None:
    safe_map = jax._src.util.safe_map
    with pytest.raises(ValueError, match="zip"):
        safe_map(max, [1, 2], [3])
    inverses = {primitives.exp_p: jnp.log, primitives.tanh_p: jnp.arctanh}
    program = jax.make_jaxpr(lambda x: jnp.exp(jnp.tanh(x)))(1.0)
    known = dict(zip(program.jaxpr.outvars, [jnp.exp(jnp.tanh(0.5))]))
    for equation in program.jaxpr.eqns[::-1]:
        values = safe_map(known.__getitem__, equation.outvars)
        safe_map(known.__setitem__, equation.invars, [inverses[equation.primitive](*values)])
    assert np.allclose(known[program.jaxpr.invars[0]], 0.5)


def test_refs_are_read_and_written_by_a_jaxpr():
    count, total = jax.new_ref(1.0), jax.new_ref(jnp.zeros(2))

    def f(x, out):
        out[0] = x * count[...]
        total[...] += out[0]
        return out[0] + 1.0

    out = jax.empty_ref(jax.ShapeDtypeStruct((2,), jnp.float32))
    jaxpr, shape = jax.make_jaxpr(f, return_shape=True)(2.0, out)
    assert (count[...], total[1], out[0]) == (1.0, 0.0, 0.0) and shape.shape == ()
    assert {repr(aval) for aval in jaxpr.in_avals} == {"ShapedArray(float32[], weak_type=True)", "Ref{float32[2]}"}
    assert sorted(map(str, jaxpr.effects)) == ["Read", "Write"] and len(jaxpr.jaxpr.outvars) == 1
    assert {id(const) for const in jaxpr.consts} == {id(count), id(total)}
    for n in (1, 2):
        count[...] = float(n)
        (found,) = core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, 3.0, out)
        assert (found, out[0]) == (3.0 * n + 1.0, 3.0 * n)
    assert total[...].tolist() == [9.0, 9.0]
    read = jax.make_jaxpr(lambda x: x * count[...])(2.0)
    assert str(read) == "{ lambda a:Ref{f32[]}; b:f32[]. let c:f32[] = get a; d:f32[] = mul b c in (d,) }"
    assert [str(effect) for effect in read.effects] == ["Read"]
    jax.free_ref(out)
    with pytest.raises(ValueError, match="was frozen"):
        out[...]
    with pytest.raises(ValueError, match="was given a Ref twice, or one that it also closes over"):
        jax.make_jaxpr(lambda ref: ref[...] + count[...])(count)


SCALE, ANOTHER = jnp.array(2.0), jnp.array(2.0)


def test_consts_are_the_same_whether_they_are_traced_or_not() -> None:
    first, second, zeros, more = jnp.array(3), jnp.array(3.0), jnp.zeros(2), jnp.zeros(2)
    tree = {"zeros": [zeros, functools.partial(lambda x, y: x * y, more)], 1: second}  # keys without an order

    def f(x: Any, tree: Any, first: Any) -> Any:
        def inner(x: Any, scale: Any = first) -> Any:
            return tree["zeros"][1](x * scale) + tree["zeros"][0] * tree[1] * np.float32(4.0) + 1.0

        return jax.make_jaxpr(inner)(x)

    known = f(1.0, tree, first)
    assert [id(const) for const in known.consts] == [id(x) for x in (first, more, zeros, second)]
    traced: list[Any] = []

    def watched(first: Any, second: Any, zeros: Any, more: Any) -> None:
        traced.append(f(1.0, {"zeros": [zeros, functools.partial(lambda x, y: x * y, more)], 1: second}, first))

    jax.jit(watched)(first, second, zeros, more)
    assert known.in_avals == traced[0].in_avals
    assert [const.shape for const in traced[0].consts] == [const.shape for const in known.consts]
    assert [eqn.primitive for eqn in traced[0].eqns] == [eqn.primitive for eqn in known.eqns]
    of_globals = jax.make_jaxpr(lambda x: x * SCALE + ANOTHER)(1.0)
    assert of_globals.consts[0] is SCALE and of_globals.consts[1] is ANOTHER
    assert str(jax.make_jaxpr(lambda x: SCALE)(1.0)) == "{ lambda a:f32[]; b:f32[]. let  in (a,) }"
    assert float(extend_core.jaxpr_as_fun(of_globals)(3.0)[0]) == 8.0
