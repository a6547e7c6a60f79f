"""Primitives of programs' own, with rules in JAX's registries, under pullback's transformations."""

from __future__ import annotations

import numpy as np
import pytest
from pullback.compat.jax.extend.core import Primitive
from pullback.compat.jax.interpreters import ad, batching, mlir, partial_eval

import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax import core

X = np.array([1.0, 2.0, 3.0], np.float32)


def made(name, impl, abstract, multiple_results=False):
    primitive = Primitive(name)
    primitive.multiple_results = multiple_results
    primitive.def_impl(impl)
    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(impl, multiple_results=multiple_results))
    return primitive


def test_linear():
    p = made("double", lambda x: 2.0 * x, lambda x: core.ShapedArray(x.shape, x.dtype))
    ad.deflinear2(p, lambda cotangent, x: [p.bind(cotangent)])
    batching.defvectorized(p)

    def f(x):
        return p.bind(jnp.sin(x)).sum()

    assert np.allclose(p.bind(X), 2 * X)
    for gradient in (jax.grad(f)(X), jax.jit(jax.grad(f))(X)):
        assert np.allclose(gradient, 2 * np.cos(X))
    for batch in (jax.vmap(p.bind)(X), jax.jit(jax.vmap(p.bind))(X)):
        assert np.allclose(batch, 2 * X)
    assert np.allclose(jax.hessian(lambda x: p.bind(jnp.sin(x)))(1.0), -2 * np.sin(1.0))
    assert [equation.primitive for equation in jax.make_jaxpr(p.bind)(X).eqns] == [p]
    assert str(jax.make_jaxpr(p.bind)(X)) == "{ lambda ; a:f32[3]. let b:f32[3] = double a in (b,) }"


def test_several_results_and_symbolic_zeros():
    seen = []
    p = made("both", lambda x, y, *, scale: [x * y * scale, x + y], lambda x, y, *, scale: [x, x], True)

    def jvp(primals, tangents, *, scale):
        (x, y), (s, t) = primals, tangents
        assert type(primals) is type(tangents) is tuple
        seen.append([type(tangent) is ad.Zero for tangent in tangents])
        product = ad.add_tangents(*[z if type(z) is ad.Zero else z * w * scale for z, w in ((s, y), (t, x))])
        return p.bind(x, y, scale=scale), [product, ad.add_tangents(s, t)]

    ad.primitive_jvps[p] = jvp
    batching.primitive_batchers[p] = lambda args, dims, *, scale: (
        p.bind(*[batching.bdim_at_front(x, dim, 3) for x, dim in zip(args, dims)], scale=scale),
        [0, 0],
    )
    assert np.allclose(jax.grad(lambda x: p.bind(x, 3.0, scale=2)[0])(2.0), 6.0)
    assert seen == [[False, True]]
    rule, given = batching.primitive_batchers[p], []
    batching.primitive_batchers[p] = lambda args, dims, **params: (
        given.append((type(args), dims)),
        rule(args, dims, **params),
    )[1]
    jax.vmap(lambda x: p.bind(x, 2.0, scale=1))(X)
    assert given == [(tuple, (0, None))]
    assert np.allclose(jax.jit(jax.grad(lambda x, y: p.bind(x, y, scale=2)[0], (0, 1)))(2.0, 3.0), [6.0, 4.0])
    for out in (jax.vmap(lambda x: p.bind(x, 2.0, scale=1))(X), jax.jit(jax.vmap(lambda x: p.bind(x, 2.0, scale=1)))(X)):
        assert isinstance(out, list) and np.allclose(out[0], 2 * X) and np.allclose(out[1], X + 2)


def test_a_batch_may_be_dropped_and_the_axis_be_asked_for():
    p = made("any_of_all", jnp.any, lambda x: core.ShapedArray((), jnp.bool_))
    batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), None)
    for f in (lambda x: (p.bind(x > 2), x), lambda x: jax.lax.cond(p.bind(x > 2), lambda: x, lambda: 0 * x)):
        jax.vmap(f)(X)
    assert jax.vmap(lambda x: p.bind(x > 2), out_axes=None)(X).shape == ()
    assert np.array_equal(jax.jit(jax.vmap(lambda x: jnp.where(p.bind(x > 2), x, 0)))(X), X)

    sizes = []
    q = made("asks", lambda x: x, lambda x: x)
    batching.axis_primitive_batchers[q] = lambda size, name, _, args, dims: (sizes.append((size, name)), (args[0], dims[0]))[1]
    assert np.array_equal(jax.vmap(q.bind, axis_name="i")(X), X) and sizes == [(3, "i")]

    r = made("last", lambda x: x, lambda x: x)
    batching.primitive_batchers[r] = lambda args, dims: (jnp.moveaxis(args[0], dims[0], -1), args[0].ndim - 1)
    assert np.array_equal(jax.vmap(r.bind)(np.ones((2, 3)) * X), np.ones((2, 3)) * X)


def test_rules_that_are_missing():
    p = Primitive("bare")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    for act, what in (
        (lambda: jax.grad(p.bind)(1.0), "Differentiation rule for 'bare' not implemented"),
        (lambda: jax.vmap(p.bind)(X), "Batching rule for 'bare' not implemented"),
        (lambda: jax.jit(p.bind)(1.0), "Primitive 'bare' has no lowering"),
        (lambda: Primitive("nothing").bind(1.0), "Abstract evaluation for 'nothing' not implemented"),
    ):
        with pytest.raises(NotImplementedError, match=what):
            act()
    assert np.array_equal(p.bind(X), X)


@pytest.mark.parametrize(
    ("several", "abstract", "wanted"),
    [
        (False, lambda x: [x], "return an aval, not"),
        (True, lambda x: x, "return a list of avals"),
        (True, lambda x: [x, None], "return a list"),
    ],
)
def test_what_an_abstract_rule_returns_is_checked(several, abstract, wanted):
    p = made("wrong", lambda x: x, abstract, several)
    with pytest.raises(ValueError, match=f"The rule that wrong.def_abstract_eval was given must {wanted}"):
        jax.jit(p.bind)(1.0)


def test_what_a_transpose_rule_is_given():
    given = []
    p = made("scaled", lambda x, y: x * y, lambda x, y: core.ShapedArray(x.shape, x.dtype))
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(ad.instantiate_zeros(tangents[0]), primals[1]))

    def transpose(cotangent, x, y):
        given.append((ad.is_undefined_primal(x), ad.is_undefined_primal(y), str(x.aval)))
        return [cotangent * y, None]

    ad.primitive_transposes[p] = transpose
    assert np.allclose(jax.grad(lambda x: p.bind(x, X).sum())(X), X)
    assert given == [(True, False, "float32[3]")]


def test_defjvp_and_defbilinear():
    p = made("product", lambda x, y: x * y, lambda x, y: core.ShapedArray(x.shape, x.dtype))
    ad.defbilinear(p, lambda ct, x, y: p.bind(ct, y), lambda ct, x, y: p.bind(x, ct))
    assert np.allclose(jax.grad(lambda x, y: p.bind(x, y), (0, 1))(2.0, 3.0), [3.0, 2.0])
    q = made("cubed", lambda x, y: x**3 * y, lambda x, y: core.ShapedArray(x.shape, x.dtype))
    ad.defjvp(q, lambda t, x, y: 3 * x**2 * y * t, None)
    assert np.allclose(jax.grad(q.bind)(2.0, 5.0), 60.0) and np.allclose(jax.grad(q.bind, 1)(2.0, 5.0), 0.0)


def test_zeros_are_containers_without_leaves():
    zero = ad.Zero(core.ShapedArray((2,), jnp.float32))
    assert jax.tree_util.tree_leaves([zero, ad.UndefinedPrimal(zero.aval)]) == []
    assert np.array_equal(ad.instantiate_zeros(zero), np.zeros(2))
    assert ad.Zero.from_primal_value(1).aval.dtype == jax.dtypes.float0


@pytest.mark.parametrize(
    "wrapped",
    [
        jax.jit,
        jax.checkpoint,
        lambda f: lambda x, w: jax.lax.cond(w > 0.0, f, f, x, w),
        lambda f: lambda x, w: jax.lax.fori_loop(0, 2, lambda _, c: f(*c), (x, w)),
    ],
)
def test_what_depends_on_nothing_unknown_is_known_from_operations_that_hold_programs(wrapped):
    def function(x, w):
        return wrapped(lambda x, w: (x * w, 2.0 * w))(x, w)

    class Wrapped:
        def call_wrapped(self, x):
            return function(x, jnp.array(3.0))

    unknown = partial_eval.PartialVal.unknown(core.ShapedArray((), jnp.float32))
    _, (x, w), _ = partial_eval.trace_to_jaxpr_nounits(Wrapped(), [unknown])
    assert not x.is_known() and w.is_known() and float(w.get_known()) == float(function(1.0, jnp.array(3.0))[1])


def test_partial_values():
    class Wrapped:
        def call_wrapped(self, x, y):
            return [jnp.sin(x) + 1, y * 2, x + y]

    _, outs, _ = partial_eval.trace_to_jaxpr_nounits(
        Wrapped(), [partial_eval.PartialVal.unknown(core.ShapedArray((3,), jnp.float32)), partial_eval.PartialVal.known(2.0)]
    )
    assert [out.is_known() for out in outs] == [False, True, False]
    assert float(outs[1].get_known()) == 4.0 and str(outs[0].get_aval()) == "float32[3]"


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_what_a_callback_raises_is_in_the_text_of_an_error_of_jax(transform):
    def fail(x):
        raise KeyError("no such thing")

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"INTERNAL: CpuCallback error(.|\n)*KeyError: 'no such thing'"):
        transform(lambda x: jax.pure_callback(fail, x, x))(X)


def test_primitives_of_pullback_keep_their_own_rules():
    ad.primitive_transposes[jax.lax.stop_gradient_p] = ad.primitive_jvps[jax.lax.sin_p] = lambda *args, **params: 1 / 0
    try:
        assert np.allclose(jax.linear_transpose(lambda x: 2.0 * jax.lax.stop_gradient(x), 1.0)(3.0), 6.0)
        assert np.allclose(jax.grad(lambda x: jnp.sin(x) * jax.lax.stop_gradient(x))(3.0), 3 * np.cos(3))
    finally:
        del ad.primitive_transposes[jax.lax.stop_gradient_p], ad.primitive_jvps[jax.lax.sin_p]


def test_a_product_s_equation_can_be_inverted_with_its_own_parameters() -> None:
    (equation,) = jax.make_jaxpr(lambda x: 2 * x)(1.0).eqns
    primitives = jax.extend.core.primitives
    assert equation.primitive is primitives.mul_p and equation.params == {"out_dtype": None}
    assert primitives.div_p.bind(jnp.float32(6.0), jnp.float32(2.0), **equation.params) == 3


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("cholesky", (np.eye(2),)), ("eig", (np.eye(2),)), ("eigh", (np.eye(2),)), ("hessenberg", (np.eye(2),)),
        ("lu", (np.eye(2),)), ("lu_pivots_to_permutation", (np.array([1, 1], "int32"), 2)), ("qr", (np.eye(2),)),
        ("schur", (np.eye(2),)), ("svd", (np.eye(2),)), ("triangular_solve", (np.eye(2), np.eye(2))),
        ("tridiagonal", (np.eye(2),)), ("tridiagonal_solve", (*[np.ones(2)] * 3, np.eye(2))),
    ],
)  # fmt: skip
def test_primitives_of_matrices_stand_in_their_module(name: str, args: tuple[object, ...]) -> None:
    linalg = jax.lax.linalg
    closed = jax.make_jaxpr(lambda x: getattr(linalg, name)(x, *args[1:]))(args[0])
    assert getattr(linalg, f"{name}_p") in [eqn.primitive for eqn in closed.eqns]
