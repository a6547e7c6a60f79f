"""Functions with rules of their own. Every rule here gives a recognizable multiple of the true derivative, so that a rule
that was dropped anywhere is seen: under every stack of transformations, the multiple must come out."""

import functools
import gc
import itertools
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import (
    AxisError,
    DtypeError,
    EscapedTracerError,
    GradientError,
    LeafError,
    MissingRule,
    ProgramError,
    ShapeError,
    StaticArgumentError,
    StructureError,
    TracerBoolConversionError,
)

FORWARD, REVERSE = 20.0, 10.0  # what the rules multiply true derivatives with


# ---- functions: each is sin, with other rules -------------------------------------------------------------------------


def pushing(primals, tangents):
    (x,), (t,) = primals, tangents
    return pnp.sin(x), FORWARD * pnp.cos(x) * t


def keeping(x):
    return pnp.sin(x), (pnp.cos(x), None)


def pulling(residuals, ct):
    return (REVERSE * residuals[0] * ct,)


def by_jvp():
    f = pb.custom_jvp(lambda x: pnp.sin(x))
    f.defjvp(pushing)
    return f


def by_jvp_that_calls_itself():
    f = pb.custom_jvp(lambda x: pnp.sin(x))
    f.defjvp(lambda primals, tangents: (f(*primals), pushing(primals, tangents)[1]))
    return f


def by_jvps():
    f = pb.custom_jvp(lambda x: pnp.sin(x))
    f.defjvps(lambda t, out, x: FORWARD * pnp.cos(x) * t)
    return f


def by_vjp():
    f = pb.custom_vjp(lambda x: pnp.sin(x))
    f.defvjp(keeping, pulling)
    return f


def by_both():
    f = pb.custom_vjp(lambda x: pnp.sin(x))
    f.defvjp(keeping, pulling)
    f.defjvp(pushing)
    return f


def by_both_the_other_way_around():
    f = pb.custom_jvp(lambda x: pnp.sin(x))
    f.defjvp(pushing)
    f.defvjp(keeping, pulling)
    return f


def by_symbolic_zeros():
    def push(primals, tangents):
        if isinstance(tangents[0], pb.SymbolicZero):
            return pnp.sin(*primals), tangents[0]
        return pushing(primals, tangents)

    f = pb.custom_jvp(lambda x: pnp.sin(x))
    f.defjvp(push, symbolic_zeros=True)
    f.defvjp(lambda x: keeping(x.value), pulling, symbolic_zeros=True)
    return f


def by_custom_gradient():
    return pb.custom_gradient(lambda x: (pnp.sin(x), lambda ct: REVERSE * pnp.cos(x) * ct))


def of_trees():
    f = pb.custom_vjp(lambda tree: {"out": [pnp.sin(tree["x"][0]), tree["n"]]})

    def fwd(tree):
        return {"out": [pnp.sin(tree["x"][0]), tree["n"]]}, {"cos": pnp.cos(tree["x"][0])}

    def push(primals, tangents):
        tree, tangent = primals[0], tangents[0]
        out = FORWARD * pnp.cos(tree["x"][0]) * tangent["x"][0]
        return fwd(tree)[0], {"out": [out, tangent["n"]]}

    f.defvjp(fwd, lambda kept, ct: ({"x": [REVERSE * kept["cos"] * ct["out"][0]], "n": None},))
    f.defjvp(push)
    return lambda x: f({"x": [x], "n": 3})["out"][0]


def of_fixed_arguments():
    @functools.partial(pb.custom_vjp, nondiff_argnums=(0, 2))
    def f(function, x, unused):
        return function(x)

    def push(function, unused, primals, tangents):
        (x,), (t,) = primals, tangents
        return function(x), FORWARD * pnp.cos(x) * t

    f.defvjp(lambda function, x, unused: keeping(x), lambda function, unused, kept, ct: pulling(kept, ct))
    f.defjvp(push)
    return lambda x: f(pnp.sin, x, "anything")


def over_an_array():
    shift = pnp.zeros((), "float64")
    f = pb.custom_vjp(lambda x: pnp.sin(x + shift))
    f.defvjp(lambda x: keeping(x + shift), pulling)
    f.defjvp(lambda p, t: pushing((p[0] + shift,), t))
    return f


def over_a_tracer():
    """A function that closes over a traced value, which does not depend on the differentiated argument."""

    def outer(x):
        shift = pb.stop_gradient(x) * 0.0
        f = pb.custom_vjp(lambda y: pnp.sin(y + shift))
        f.defvjp(lambda y: keeping(y + shift), lambda kept, ct: pulling(kept, ct + shift))
        f.defjvp(lambda p, t: pushing((p[0] + shift,), t))
        return f(x)

    return outer


MAKERS = {
    make.__name__: (make, modes)
    for make, modes in [
        (by_jvp, {"forward": FORWARD, "reverse": FORWARD}),
        (by_jvp_that_calls_itself, {"forward": FORWARD, "reverse": FORWARD}),
        (by_jvps, {"forward": FORWARD, "reverse": FORWARD}),
        (by_vjp, {"reverse": REVERSE}),
        (by_both, {"forward": FORWARD, "reverse": REVERSE}),
        (by_both_the_other_way_around, {"forward": FORWARD, "reverse": REVERSE}),
        (by_symbolic_zeros, {"forward": FORWARD, "reverse": REVERSE}),
        (by_custom_gradient, {"reverse": REVERSE}),
        (of_trees, {"forward": FORWARD, "reverse": REVERSE}),
        (of_fixed_arguments, {"forward": FORWARD, "reverse": REVERSE}),
        (over_an_array, {"forward": FORWARD, "reverse": REVERSE}),
        (over_a_tracer, {"forward": FORWARD, "reverse": REVERSE}),
    ]
}


# ---- stacks: each gives derivatives of f at three points --------------------------------------------------------------

XS = np.array([0.1, 0.7, 1.9])
ONES = np.ones(3)


def derivative(f):
    return lambda x: pb.jvp(f, (x,), (np.float64(1.0),))[1]


def pulled(f):
    return lambda x: pb.vjp(f, x)[1](np.float64(1.0))[0]


def each(f):
    """The loop that vmap stands for."""
    return lambda xs: pnp.stack([f(x) for x in xs])


def summed(f):
    return lambda xs: pnp.sum(f(xs))


def pushed_batch(f):
    return lambda xs: pb.jvp(f, (xs,), (ONES,))[1]


def scanned(f):
    return lambda xs: pb.lax.scan(lambda _, x: (_, f(x)), 0.0, xs)[1]


FIRST = {
    "reverse": {
        "grad": lambda f: each(pb.grad(f)),
        "vjp": lambda f: each(pulled(f)),
        "grad of jit": lambda f: each(pb.grad(pb.jit(f))),
        "jit of grad": lambda f: each(pb.jit(pb.grad(f))),
        "jit of grad of jit": lambda f: each(pb.jit(pb.grad(pb.jit(f)))),
        "grad of jit of jit": lambda f: each(pb.grad(pb.jit(lambda x: pb.jit(f)(x)))),
        "vjp of jit": lambda f: each(pulled(pb.jit(f))),
        "jit of vjp": lambda f: each(pb.jit(pulled(f))),
        "vmap of grad": lambda f: pb.vmap(pb.grad(f)),
        "grad of vmap": lambda f: pb.grad(summed(pb.vmap(f))),
        "jit of vmap of grad": lambda f: pb.jit(pb.vmap(pb.grad(f))),
        "vmap of jit of grad": lambda f: pb.vmap(pb.jit(pb.grad(f))),
        "vmap of grad of jit": lambda f: pb.vmap(pb.grad(pb.jit(f))),
        "jit of grad of vmap": lambda f: pb.jit(pb.grad(summed(pb.vmap(f)))),
        "grad of jit of vmap": lambda f: pb.grad(summed(pb.jit(pb.vmap(f)))),
        "grad of vmap of jit": lambda f: pb.grad(summed(pb.vmap(pb.jit(f)))),
        "grad of vmap of vmap": lambda f: lambda xs: pb.grad(summed(pb.vmap(pb.vmap(f))))(pnp.reshape(xs, (3, 1)))[:, 0],
        "vmap of grad of vmap": lambda f: lambda xs: pb.vmap(pb.grad(summed(pb.vmap(f))))(pnp.reshape(xs, (3, 1)))[:, 0],
        "jacrev of vmap": lambda f: lambda xs: pnp.diagonal(pb.jacrev(pb.vmap(f))(xs)),
        "scan of grad": lambda f: scanned(pb.grad(f)),
        "grad of scan": lambda f: pb.grad(summed(scanned(f))),
        "grad of jit of scan": lambda f: pb.grad(pb.jit(summed(scanned(f)))),
        "vmap of grad of scan": lambda f: lambda xs: pb.vmap(pb.grad(summed(scanned(f))))(pnp.reshape(xs, (3, 1)))[:, 0],
        "grad of vmap of scan": lambda f: lambda xs: pb.grad(summed(pb.vmap(scanned(f))))(pnp.reshape(xs, (3, 1)))[:, 0],
        "grad of checkpoint": lambda f: each(pb.grad(pb.checkpoint(f))),
        "jit of grad of checkpoint of jit": lambda f: each(pb.jit(pb.grad(pb.checkpoint(pb.jit(f))))),
    },
    "forward": {
        "jvp": lambda f: each(derivative(f)),
        "jit of jvp": lambda f: each(pb.jit(derivative(f))),
        "jvp of jit": lambda f: each(derivative(pb.jit(f))),
        "jit of jvp of jit": lambda f: each(pb.jit(derivative(pb.jit(f)))),
        "vmap of jvp": lambda f: pb.vmap(derivative(f)),
        "jvp of vmap": lambda f: pushed_batch(pb.vmap(f)),
        "jit of vmap of jvp": lambda f: pb.jit(pb.vmap(derivative(f))),
        "vmap of jvp of jit": lambda f: pb.vmap(derivative(pb.jit(f))),
        "jvp of jit of vmap": lambda f: pushed_batch(pb.jit(pb.vmap(f))),
        "jit of jvp of vmap": lambda f: pb.jit(pushed_batch(pb.vmap(f))),
        "linearize": lambda f: each(lambda x: pb.linearize(f, x)[1](np.float64(1.0))),
        "linearize of jit": lambda f: each(lambda x: pb.linearize(pb.jit(f), x)[1](np.float64(1.0))),
        "jit of linearize": lambda f: each(pb.jit(lambda x: pb.linearize(f, x)[1](np.float64(1.0)))),
        "linearize of vmap": lambda f: lambda xs: pb.linearize(pb.vmap(f), xs)[1](ONES),
        "vmap of linearize": lambda f: pb.vmap(lambda x: pb.linearize(f, x)[1](np.float64(1.0))),
        "vmap of the linear function": lambda f: each(lambda x: pb.vmap(pb.linearize(f, x)[1])(np.ones(1))[0]),
        "jacfwd of vmap": lambda f: lambda xs: pnp.diagonal(pb.jacfwd(pb.vmap(f))(xs)),
        "jvp of scan": lambda f: pushed_batch(scanned(f)),
        "scan of jvp": lambda f: scanned(derivative(f)),
        "jvp of checkpoint": lambda f: each(derivative(pb.checkpoint(f))),
    },
}

# The inner transformation, applied first, decides which rule runs; the outer one differentiates what the rule does.
SECOND = {
    "reverse": {
        "grad of grad": lambda f: each(pb.grad(pb.grad(f))),
        "vjp of vjp": lambda f: each(pulled(pulled(f))),
        "jvp of vjp": lambda f: each(derivative(pulled(f))),
        "jit of grad of grad": lambda f: each(pb.jit(pb.grad(pb.grad(f)))),
        "grad of jit of grad": lambda f: each(pb.grad(pb.jit(pb.grad(f)))),
        "grad of grad of jit": lambda f: each(pb.grad(pb.grad(pb.jit(f)))),
        "jvp of grad of jit": lambda f: each(derivative(pb.grad(pb.jit(f)))),
        "jvp of jit of grad": lambda f: each(derivative(pb.jit(pb.grad(f)))),
        "vmap of grad of grad": lambda f: pb.vmap(pb.grad(pb.grad(f))),
        "grad of vmap of grad": lambda f: pb.grad(summed(pb.vmap(pb.grad(f)))),
        "grad of grad of vmap": lambda f: pb.grad(summed(pb.grad(summed(pb.vmap(f))))),
        "jit of grad of vmap of grad": lambda f: pb.jit(pb.grad(summed(pb.vmap(pb.grad(f))))),
        "jvp of grad of vmap": lambda f: pushed_batch(pb.grad(summed(pb.vmap(f)))),
        "jacfwd of grad": lambda f: each(pb.jacfwd(pb.grad(f))),
        "grad of grad of scan": lambda f: pb.grad(summed(pb.grad(summed(scanned(f))))),
    },
    "forward": {
        "jvp of jvp": lambda f: each(derivative(derivative(f))),
        "vjp of jvp": lambda f: each(pulled(derivative(f))),
        "grad of jit of jvp": lambda f: each(pb.grad(pb.jit(derivative(f)))),
        "jit of jvp of jvp": lambda f: each(pb.jit(derivative(derivative(f)))),
        "vmap of jvp of jvp": lambda f: pb.vmap(derivative(derivative(f))),
        "grad of vmap of jvp": lambda f: pb.grad(summed(pb.vmap(derivative(f)))),
        "jvp of jvp of vmap": lambda f: pushed_batch(pushed_batch(pb.vmap(f))),
    },
}


def cases(table):
    return [(name, mode, stack) for name, (_, modes) in MAKERS.items() for mode in modes for stack in table[mode]]


@pytest.mark.parametrize(("name", "mode", "stack"), cases(FIRST))
def test_first_derivatives_are_the_rules(name, mode, stack):
    make, modes = MAKERS[name]
    found = FIRST[mode][stack](make())(XS)
    np.testing.assert_allclose(np.asarray(found), modes[mode] * np.cos(XS), rtol=1e-12)


@pytest.mark.parametrize(("name", "mode", "stack"), cases(SECOND))
def test_second_derivatives_are_those_of_the_rules(name, mode, stack):
    make, modes = MAKERS[name]
    found = SECOND[mode][stack](make())(XS)
    np.testing.assert_allclose(np.asarray(found), -modes[mode] * np.sin(XS), rtol=1e-12)


VALUES = {
    "eager": lambda f: each(f),
    "jit": lambda f: each(pb.jit(f)),
    "vmap": lambda f: pb.vmap(f),
    "jit of vmap": lambda f: pb.jit(pb.vmap(f)),
    "vmap of jit": lambda f: pb.vmap(pb.jit(f)),
    "scan": lambda f: scanned(f),
    "vjp": lambda f: each(lambda x: pb.vjp(f, x)[0]),
    "value_and_grad of jit": lambda f: each(lambda x: pb.value_and_grad(pb.jit(f))(x)[0]),
    "vjp of vmap": lambda f: lambda xs: pb.vjp(pb.vmap(f), xs)[0],
}


@pytest.mark.parametrize("stack", VALUES)
@pytest.mark.parametrize("name", MAKERS)
def test_values_are_the_function_s(name, stack):
    found = VALUES[stack](MAKERS[name][0]())(XS)
    np.testing.assert_allclose(np.asarray(found), np.sin(XS), rtol=1e-12)


@pytest.mark.parametrize("stack", ["jvp", "jit of jvp", "jvp of jit", "vmap of jvp", "jvp of vmap", "linearize", "jvp of scan"])
@pytest.mark.parametrize("make", [by_vjp, by_custom_gradient])
def test_forward_mode_without_a_jvp_rule_is_refused(make, stack):
    with pytest.raises(GradientError, match=r"has a vjp rule, but no jvp rule.*defjvp"):
        FIRST["forward"][stack](make())(XS)


# ---- custom_vmap ------------------------------------------------------------------------------------------------------


def batched_by_rule():
    f = pb.custom_vmap(lambda x: pnp.sin(x))
    f.def_vmap(lambda size, batched, x: (50.0 * pnp.sin(x), batched[0]))
    return f


BATCHED = {
    "vmap": (lambda f: pb.vmap(f), np.sin),
    "jit of vmap": (lambda f: pb.jit(pb.vmap(f)), np.sin),
    "vmap of jit": (lambda f: pb.vmap(pb.jit(f)), np.sin),
    "vmap of vmap": (lambda f: lambda xs: pb.vmap(pb.vmap(f))(pnp.reshape(xs, (3, 1)))[:, 0], np.sin),
    "vmap of grad": (lambda f: pb.vmap(pb.grad(f)), np.cos),
    "grad of vmap": (lambda f: pb.grad(summed(pb.vmap(f))), np.cos),
    "vmap of grad of jit": (lambda f: pb.vmap(pb.grad(pb.jit(f))), np.cos),
    "jit of vmap of grad": (lambda f: pb.jit(pb.vmap(pb.grad(f))), np.cos),
    "grad of jit of vmap": (lambda f: pb.grad(summed(pb.jit(pb.vmap(f)))), np.cos),
    "vmap of jvp": (lambda f: pb.vmap(derivative(f)), np.cos),
    "jvp of vmap": (lambda f: pushed_batch(pb.vmap(f)), np.cos),
    "vmap of jvp of jit": (lambda f: pb.vmap(derivative(pb.jit(f))), np.cos),
    "vmap of linearize": (lambda f: pb.vmap(lambda x: pb.linearize(f, x)[1](np.float64(1.0))), np.cos),
    "vmap of grad of grad": (lambda f: pb.vmap(pb.grad(pb.grad(f))), lambda x: -np.sin(x)),
    "grad of vmap of grad": (lambda f: pb.grad(summed(pb.vmap(pb.grad(f)))), lambda x: -np.sin(x)),
    "vmap of jvp of grad": (lambda f: pb.vmap(derivative(pb.grad(f))), lambda x: -np.sin(x)),
    "vmap of grad of jvp": (lambda f: pb.vmap(pb.grad(derivative(f))), lambda x: -np.sin(x)),
}


@pytest.mark.parametrize("stack", BATCHED)
def test_batching_is_the_rule_s(stack):
    transform, truth = BATCHED[stack]
    np.testing.assert_allclose(np.asarray(transform(batched_by_rule())(XS)), 50.0 * truth(XS), rtol=1e-12)


def test_without_a_batch_the_rule_is_not_used():
    f = batched_by_rule()
    np.testing.assert_allclose(float(f(0.5)), np.sin(np.float32(0.5)), rtol=1e-6)
    np.testing.assert_allclose(float(pb.grad(pb.jit(f))(0.5)), np.cos(0.5), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(pb.vmap(lambda x: x + f(0.5))(np.zeros(2))), np.sin(np.float32(0.5)), rtol=1e-6)


def test_a_batching_rule_gets_and_says_what_is_batched():
    seen = []
    f = pb.custom_vmap(lambda tree, y: {"s": tree["a"] + y, "b": tree["b"]})

    @f.def_vmap
    def rule(size, batched, tree, y):
        seen.append((size, batched))
        return {"s": tree["a"] + pnp.expand_dims(y, -1), "b": tree["b"]}, {"s": True, "b": False}

    out = pb.vmap(f, ({"a": None, "b": None}, 0), {"s": 0, "b": None})({"a": np.ones(2), "b": np.ones(4)}, np.arange(3.0))
    assert seen == [(3, ({"a": False, "b": False}, True))]
    np.testing.assert_array_equal(np.asarray(out["s"]), np.arange(3.0)[:, None] + np.ones(2))
    assert out["b"].shape == (4,)


@pytest.mark.parametrize("axes", [axes for axes in itertools.product((0, None), repeat=4) if 0 in axes])
def test_an_argument_or_its_tangent_alone_may_be_batched(axes):
    """A batching rule gets both of them as batches then; so what it returns fits the batches of the other arguments."""
    f = pb.custom_vmap(lambda a, x: pnp.sin(a * x))
    seen = []

    @f.def_vmap
    def rule(size, in_batched, a, x):
        seen.append(in_batched)
        assert [arg.shape for arg in (a, x)] == [(size,) if batched else () for batched in in_batched]
        return pnp.sin(a * x), True

    numbers = (pnp.array([0.5, 1.5, 2.5]), pnp.array([1.0, 2.0, 3.0]), pnp.array([0.3, 0.2, 0.1]), pnp.array([0.7, 0.9, 1.1]))
    args = [x if axis == 0 else x[0] for x, axis in zip(numbers, axes)]
    found = pb.vmap(lambda a, x, s, t: pb.jvp(f, (a, x), (s, t)), axes)(*args)
    a, x, s, t = args
    expected = pnp.sin(a * x), pnp.cos(a * x) * (s * x + a * t)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, np.broadcast_to(other, (3,)), rtol=1e-6)
    assert seen[-1] == tuple(0 in pair for pair in zip(axes[:2], axes[2:]))


def test_batching_rules_next_to_derivative_rules():
    def made(kind):
        f = kind(lambda x: pnp.sin(x))
        f.defjvp(pushing)
        f.defvjp(keeping, pulling)
        f.def_vmap(lambda size, batched, x: (50.0 * pnp.sin(x), True))
        return f

    for kind in (pb.custom_jvp, pb.custom_vjp, pb.custom_vmap):
        f = made(kind)
        for batched in (pb.vmap(f), pb.jit(pb.vmap(f)), pb.vmap(pb.jit(f))):
            np.testing.assert_allclose(np.asarray(batched(XS)), 50.0 * np.sin(XS), rtol=1e-12)
            np.testing.assert_allclose(np.asarray(pb.grad(summed(batched))(XS)), REVERSE * np.cos(XS), rtol=1e-12)
            np.testing.assert_allclose(np.asarray(pushed_batch(batched)(XS)), FORWARD * np.cos(XS), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(pb.vmap(pb.grad(f))(XS)), REVERSE * np.cos(XS), rtol=1e-12)


def test_a_batching_rule_that_closes_over_the_batch():
    def outer(w):
        f = pb.custom_vmap(lambda x: x * w)
        f.def_vmap(lambda size, batched, x: (x, True))
        return f

    with pytest.raises(AxisError, match=r"batched with respect to a value .* closes over"):
        pb.vmap(lambda w, x: outer(w)(x))(np.ones(2), np.ones(2))

    def scaling(w):
        f = pb.custom_vmap(lambda x: x * w)
        f.def_vmap(lambda size, batched, x: (50.0 * x * w, True))
        return f

    for transform in (lambda g: g, pb.jit):
        found = transform(pb.vmap(lambda x, w: scaling(w)(x), (0, None)))(XS, 2.0)
        np.testing.assert_allclose(np.asarray(found), 100.0 * XS)
    np.testing.assert_allclose(float(pb.grad(lambda w: pnp.sum(pb.vmap(scaling(w))(XS)))(2.0)), 50.0 * XS.sum(), rtol=1e-6)
    with pytest.raises(AxisError, match="closes over"):  # the rule has been left behind where it was traced
        pb.vmap(pb.jit(lambda x, w: scaling(w)(x)), (0, None))(XS, 2.0)


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda x: x, StructureError, "must return a pair"),
        (lambda x: ((x, x), (True, True)), StructureError, "output is a tuple where"),
        (lambda x: (x[0], True), ShapeError, "a batch of 3 outputs"),
        (lambda x: (x, False), ShapeError, "a batch of 3 outputs"),
        (lambda x: (x.astype("float32"), True), DtypeError, r"f32\[3\]"),
        (lambda x: (x, (True, True)), StructureError, "does not fit"),
        (lambda x: (x, 0), StructureError, "bools"),
    ],
)
def test_wrong_batching_rules(returned, error, message):
    f = pb.custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: returned(x))
    for transform in (pb.vmap(f), pb.jit(pb.vmap(f))):
        with pytest.raises(error, match=message):
            transform(XS)


# ---- what rules return ------------------------------------------------------------------------------------------------


def tree_function(fwd=None, bwd=None, jvp=None):
    f = pb.custom_vjp(lambda x: {"a": x, "b": (x * 2.0, 3)})
    if jvp is not None:
        f.defjvp(jvp)
    else:
        f.defvjp(fwd or (lambda x: (good(x), None)), bwd or (lambda kept, ct: (ct["a"],)))
    return lambda x: pnp.sum(f(x)["a"])


def good(x):
    return {"a": x, "b": (x * 2.0, 3)}


WRONG = {
    "fwd: no pair": ({"fwd": lambda x: x}, StructureError, r"fwd\) of .* must return a pair, .* returned f64\[2\]"),
    "fwd: three": ({"fwd": lambda x: (good(x), 1, 2)}, StructureError, "must return a pair"),
    "fwd: a leaf too few": (
        {"fwd": lambda x: ({"a": x, "b": (x,)}, None)},
        StructureError,
        r"(?m)output\['b'\] is a tuple of 1 element where the function's output has 2 elements\.$",
    ),
    "fwd: another kind of container": (
        {"fwd": lambda x: ({"a": x, "b": [x, 3]}, None)},
        StructureError,
        r"output\['b'\] is a list where",
    ),
    "fwd: None": ({"fwd": lambda x: ({"a": None, "b": (x, 3)}, None)}, StructureError, r"\['a'\].* is None"),
    "fwd: a shape": (
        {"fwd": lambda x: ({"a": x[0], "b": (x, 3)}, None)},
        ShapeError,
        r"(?m)output\['a'\] is f64\[\] where the function's output has f64\[2\]\.$",
    ),
    "fwd: a dtype": ({"fwd": lambda x: ({"a": x.astype("float32"), "b": (x, 3)}, None)}, DtypeError, r"is f32\[2\]"),
    "fwd: an integer's dtype": ({"fwd": lambda x: ({"a": x, "b": (x, 3.0)}, None)}, DtypeError, r"\['b'\]\[1\]"),
    "fwd: residuals that are none": ({"fwd": lambda x: (good(x), "text")}, LeafError, "residual"),
    "bwd: no tuple": (
        {"bwd": lambda kept, ct: ct["a"]},
        StructureError,
        r"must return a tuple .* for each argument, 1 of them",
    ),
    "bwd: one too many": ({"bwd": lambda kept, ct: (ct["a"], ct["a"])}, StructureError, "returned .*f64"),
    "bwd: another tree": (
        {"bwd": lambda kept, ct: ({"a": ct["a"]},)},
        StructureError,
        r"cotangents\[0\] is a dict where argument 0 has a leaf",
    ),
    "bwd: a shape": ({"bwd": lambda kept, ct: (ct["a"][0],)}, ShapeError, r"is f64\[\] where argument 0 has f64\[2\]"),
    "bwd: a dtype": ({"bwd": lambda kept, ct: (ct["a"].astype("float32"),)}, DtypeError, r"is f32\[2\]"),
    "jvp: no pair": ({"jvp": lambda p, t: good(p[0])}, StructureError, "must return a pair"),
    "jvp: output": (
        {"jvp": lambda p, t: (p[0], t[0])},
        StructureError,
        "output is a leaf where the function's output has a dict",
    ),
    "jvp: tangent": ({"jvp": lambda p, t: (good(p[0]), t[0])}, StructureError, "tangent is a leaf where the output has a dict"),
    "jvp: a missing tangent": (
        {"jvp": lambda p, t: (good(p[0]), {"a": None, "b": (t[0], None)})},
        StructureError,
        r"tangent\['a'\] is None where the output has f64\[2\]",
    ),
    "jvp: a shape": (
        {"jvp": lambda p, t: (good(p[0]), {"a": t[0][0], "b": (t[0], None)})},
        ShapeError,
        r"tangent\['a'\] is f64\[\]",
    ),
    "jvp: a dtype": (
        {"jvp": lambda p, t: (good(p[0]), {"a": t[0].astype("float32"), "b": (t[0], None)})},
        DtypeError,
        r"tangent\['a'\] is f32\[2\]",
    ),
}


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_wrong_rules_are_refused_with_the_place(case, staged):
    rules, error, message = WRONG[case]
    f = tree_function(**rules)
    with pytest.raises(error, match=message):
        pb.grad(pb.jit(f) if staged else f)(np.ones(2))


def test_python_numbers_take_the_dtype_that_is_wanted():
    f = pb.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (x * 2.0, None), lambda kept, ct: (7,))
    assert pb.grad(f)(np.float64(1.0)).dtype == np.float64
    assert float(pb.grad(f)(1.0)) == 7.0


def test_python_numbers_as_arguments_do_not_decide_dtypes():
    f = pb.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, ct: (100.0 * kept[1] * ct, 100.0 * kept[0] * ct))
    found = pb.grad(f, (0, 1))(2.0, np.float64(3.0))
    assert [(float(g), g.dtype.name) for g in found] == [(300.0, "float32"), (200.0, "float64")]


# JAX 0.10.2 ignores what a backward rule returns for an integer, of whatever shape and dtype
COTANGENTS_OF_INTEGERS = {
    "None": None,
    "float0": np.zeros(2, pb.float0),
    "float0 of another shape": np.zeros(3, pb.float0),
    "SymbolicZero": pb.SymbolicZero((2,), "int32"),
    "integers": np.zeros(2, np.int32),
    "floats": np.ones(2, np.float32),
    "half": np.ones(2, np.float16),
    "number": 1.0,
    "complex": 1j,
    "another shape": np.ones((3, 1)),
}


@pytest.mark.parametrize("given", COTANGENTS_OF_INTEGERS)
def test_cotangents_of_integers_are_ignored(given):
    f = pb.custom_vjp(lambda x, n: x * n)
    f.defvjp(lambda x, n: (x * n, n), lambda n, ct: (REVERSE * ct * n, COTANGENTS_OF_INTEGERS[given]))
    n = np.array([1, 2], np.int32)
    for gradient in (pb.grad(lambda x: pnp.sum(f(x, n))), pb.jit(pb.grad(lambda x: pnp.sum(f(x, n))))):
        np.testing.assert_array_equal(np.asarray(gradient(np.ones(2))), REVERSE * n)
    assert pb.grad(lambda x, n: pnp.sum(f(x, n)), (0, 1), allow_int=True)(np.ones(2), n)[1].dtype == pb.float0


@pytest.mark.parametrize("wrong", ["text", (1.0, 2.0), [], object()], ids=["text", "tuple", "list", "object"])
def test_what_is_no_array_is_no_cotangent_of_an_integer_either(wrong):
    f = pb.custom_vjp(lambda x, n: x * n)
    f.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n, wrong))
    with pytest.raises(StructureError, match="argument 1"):
        pb.grad(f)(1.0, 2)


def test_none_stands_for_zero_in_any_part_of_an_argument():
    f = pb.custom_vjp(lambda tree, y: tree["a"] * tree["b"][0] + y)
    f.defvjp(lambda tree, y: (tree["a"] + y, None), lambda kept, ct: ({"a": ct, "b": None}, None))
    tree = {"a": 1.0, "b": (2.0, 3.0)}
    found, other = pb.grad(f, (0, 1))(tree, 4.0)
    assert (float(found["a"]), float(found["b"][0]), float(found["b"][1]), float(other)) == (1.0, 0.0, 0.0, 0.0)


def test_a_jvp_rule_must_be_linear_in_the_tangents():
    f = pb.custom_jvp(lambda x: x)
    grads = (pb.grad(f), pb.jit(pb.grad(f)), pb.grad(pb.jit(f)), lambda x: pb.vmap(pb.grad(f))(pnp.stack([x, x])))
    for wrong in (pnp.ones_like, pnp.cos, lambda x: x, lambda x: x * 2.0, lambda x: 1.0):
        f.defjvp(lambda p, t, wrong=wrong: (p[0], wrong(p[0])))
        for gradient in grads:
            with pytest.raises(GradientError, match="does not depend on the tangents"):
                gradient(1.0)
    for wrong, name in ((lambda t: t * t, "mul"), (pnp.sin, "sin")):
        f.defjvp(lambda p, t, wrong=wrong: (p[0], wrong(t[0])))
        for gradient in (pb.grad(f), pb.jit(pb.grad(f)), pb.grad(lambda x: f(x) * 2.0)):
            with pytest.raises(GradientError, match=f"jvp rule of .*lambda.* must be linear in the tangents, .* '{name}'"):
                gradient(1.0)
    with pytest.raises(GradientError, match=r"At .*test_custom_rules.py:\d+"):
        pb.grad(f)(1.0)


HOLDING = {
    "jit": pb.jit,
    "checkpoint": pb.checkpoint,
    "vmap": lambda f: lambda x: pnp.sum(pb.vmap(f)(x * pnp.ones(3))),
    "cond": lambda f: lambda x: pb.lax.cond(x > 0.0, f, lambda y: y, x),
    "scan": lambda f: lambda x: pb.lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0],
    "while_loop": lambda f: lambda x: pb.lax.while_loop(lambda c: c < 1e3, f, x, max_steps=8),
}


@pytest.mark.parametrize("holding", HOLDING)
def test_a_rule_that_is_not_linear_is_named_wherever_the_function_is(holding):
    f = pb.custom_jvp(lambda x: x * x)
    f.defjvp(lambda p, t: (f(*p), pnp.sin(t[0])))
    for transform in (pb.grad, lambda g: pb.jit(pb.grad(g))):
        with pytest.raises(GradientError, match=r"The jvp rule of .* must be linear in the tangents, but it applies 'sin'"):
            transform(HOLDING[holding](f))(2.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("bits", [32, 64])
def test_the_zero_tangent_of_a_python_number_widens_nothing(dtype, bits):
    f = pb.custom_jvp(lambda x, k: x * k)
    f.defjvp(lambda p, t: (f(*p), t[0] * p[1] + p[0] * t[1]))
    with pb.default_bits(bits):
        x = pnp.asarray([1, 2]).astype(dtype)
        for applied in (f, pb.jit(f), lambda x, k: pb.checkpoint(lambda x: f(x, k))(x)):
            gradient = pb.grad(lambda x: applied(x, 0.5).sum())(x)
            assert gradient.dtype == x.dtype and gradient.tolist() == [0.5, 0.5]


def test_a_jvp_rule_may_return_plain_zeros():
    f = pb.custom_jvp(lambda x, y: (x, y))

    def total(x, y):
        return sum(f(x, y))

    for zeros in (pnp.zeros_like, lambda y: 0.0 * y, lambda y: -pnp.zeros(()), lambda y: 0.0, pb.jit(pnp.zeros_like)):
        f.defjvp(lambda p, t, zeros=zeros: (p, (t[0], zeros(p[1]))))
        for gradient in (pb.grad(total, (0, 1)), pb.grad(pb.jit(total), (0, 1)), pb.jit(pb.grad(total, (0, 1)))):
            assert [float(g) for g in gradient(1.0, 2.0)] == [1.0, 0.0]


# ---- arguments --------------------------------------------------------------------------------------------------------


def test_a_function_without_rules_is_refused():
    for made, how in ((pb.custom_jvp(abs), "defjvp"), (pb.custom_vjp(abs), "defvjp"), (pb.custom_vmap(abs), "def_vmap")):
        with pytest.raises(MissingRule, match=how):
            made(1.0)
    f = pb.custom_jvp(lambda x: x)
    f.def_vmap(lambda size, batched, x: (x, True))
    with pytest.raises(MissingRule, match="defjvp"):
        f(1.0)


def test_rules_are_functions():
    for wrong in (lambda: pb.custom_jvp(3), lambda: by_jvp().defjvp(3), lambda: by_jvp().defvjp(abs, 3)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(TypeError):
        pb.custom_vmap(abs).def_vmap(None)


def scaled(x, y=3.0, *rest):
    return x * y


def test_names_and_defaults_are_resolved():
    seen = []
    f = pb.custom_vjp(scaled)
    f.defvjp(lambda *args: (seen.append(len(args)), (scaled(*args), args))[1], lambda args, ct: (100.0 * ct * args[1], ct))
    assert float(f(2.0)) == 6.0
    assert float(f(y=2.0, x=5.0)) == 10.0
    assert float(pb.grad(f)(2.0)) == 300.0
    assert float(pb.grad(lambda x: f(y=4.0, x=x))(2.0)) == 400.0
    assert float(pb.grad(pb.jit(lambda x: f(x)))(2.0)) == 300.0
    np.testing.assert_array_equal(np.asarray(pb.vmap(pb.grad(f))(np.ones(2))), [300.0, 300.0])
    assert set(seen) == {2}
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        f(2.0, z=1.0)


def test_arguments_by_name_only_are_refused():
    f = pb.custom_vjp(lambda x, *, y=3.0: x * y)
    f.defvjp(lambda x: (x * 3.0, None), lambda kept, ct: (5.0 * ct,))
    assert float(pb.grad(f)(1.0)) == 5.0
    with pytest.raises(TypeError, match="this call does not fit its parameters: missing a required argument"):
        f(y=2.0)
    with pytest.raises(TypeError, match="takes y by name only"):
        f(1.0, y=2.0)


def test_fixed_arguments_by_name_from_the_end_and_in_methods():
    @functools.partial(pb.custom_jvp, nondiff_argnames="n")
    def by_name(x, n):
        return x**n

    by_name.defjvp(lambda n, p, t: (p[0] ** n, 100.0 * t[0]))

    @pb.custom_jvp(nondiff_argnums=-1)
    def from_the_end(x, n):
        return x**n

    from_the_end.defjvp(lambda n, p, t: (p[0] ** n, 100.0 * t[0]))
    for f in (by_name, from_the_end):
        assert float(f(2.0, 3)) == 8.0
        assert float(pb.grad(f)(2.0, 3)) == 100.0
        assert float(pb.jit(pb.grad(f), static_argnums=1)(2.0, 3)) == 100.0

    class Layer:
        scale = 3.0

        @functools.partial(pb.custom_vjp, nondiff_argnums=0)
        def __call__(self, x):
            return self.scale * x

        __call__.defvjp(lambda self, x: (self.scale * x, None), lambda self, kept, ct: (100.0 * self.scale * ct,))

    assert float(Layer()(2.0)) == 6.0
    assert float(pb.grad(Layer())(2.0)) == 300.0
    assert float(pb.grad(pb.jit(Layer()))(2.0)) == 300.0


@pytest.mark.parametrize("wrong", [{"nondiff_argnums": 5}, {"nondiff_argnums": ("x",)}, {"nondiff_argnames": "z"}])
def test_fixed_arguments_must_exist(wrong):
    with pytest.raises(StaticArgumentError, match=r"parameters:? x, y|must be ints"):
        pb.custom_jvp(lambda x, y: x, **wrong)


def test_defjvps_takes_a_rule_for_each_argument():
    f = pb.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, out, x, y: 100.0 * t * y, None)
    assert [float(g) for g in pb.grad(f, (0, 1))(2.0, 3.0)] == [300.0, 0.0]
    assert float(pb.jvp(f, (2.0, 3.0), (1.0, 1.0))[1]) == 300.0
    f.defjvps(lambda t, out, x, y: t)
    with pytest.raises(StructureError, match="1 rule with defjvps, but is called with 2"):
        pb.grad(f)(2.0, 3.0)
    with pytest.raises(TypeError, match="nondiff_argnums"):
        pb.custom_jvp(lambda x, y: x, nondiff_argnums=0).defjvps(None)
    exponential = pb.custom_jvp(lambda x: pnp.exp(x))  # the output in a rule is the function's, with its rules
    exponential.defjvps(lambda t, out, x: 10.0 * out * t)
    for order, f in enumerate((exponential, pb.grad(exponential), pb.grad(pb.grad(exponential)))):
        np.testing.assert_allclose(float(f(1.0)), 10.0**order * np.e, rtol=1e-6)


def test_leaves_that_are_no_arrays_are_named():
    with pytest.raises(LeafError, match=r"argument 0 of .*\['name'\]"):
        by_jvp()({"name": "text"})


# ---- symbolic zeros ---------------------------------------------------------------------------------------------------


def test_rules_may_see_which_tangents_are_zero():
    seen = []
    f = pb.custom_vjp(lambda x, y, n: (x * y, x + y, n))

    def fwd(x, y, n):
        seen.append([x.perturbed, y.perturbed, n.perturbed])
        return (x.value * y.value, x.value + y.value, n.value), None

    def bwd(kept, cts):
        seen.append([type(ct).__name__ for ct in cts])
        return cts[0], pb.SymbolicZero((), "float32"), None

    def push(primals, tangents):
        seen.append([type(t).__name__ == "SymbolicZero" for t in tangents])
        return (primals[0] * primals[1], primals[0] + primals[1], primals[2]), (tangents[0], tangents[1], tangents[2])

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    f.defjvp(push, symbolic_zeros=True)
    assert float(pb.grad(lambda x: f(x, 2.0, 3)[0])(1.0)) == 1.0
    assert seen == [[True, False, False], ["Array", "SymbolicZero", "SymbolicZero"]]
    seen.clear()
    _, tangents = pb.jvp(lambda x: f(x, 2.0, 3), (1.0,), (1.0,))
    assert seen == [[False, True, True]]
    assert [float(t) for t in tangents[:2]] == [1.0, 0.0] and tangents[2].dtype == pb.float0
    zero = pb.SymbolicZero((2, 3), "float32")
    assert (zero.shape, zero.dtype, zero.ndim, zero.size) == ((2, 3), np.float32, 2, 6)
    assert pb.SymbolicZero((2,), "int32").dtype == pb.float0
    np.testing.assert_array_equal(np.asarray(zero.instantiate()), np.zeros((2, 3)))


def test_a_symbolic_zero_of_another_shape_is_refused():
    f = pb.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], pb.SymbolicZero((2,), "float32")), symbolic_zeros=True)
    with pytest.raises(ShapeError):
        pb.jvp(f, (1.0,), (1.0,))


def test_without_the_option_zeros_are_real():
    seen = []
    f = pb.custom_vjp(lambda x, n: (x, x, n))
    f.defvjp(lambda x, n: ((x, x, n), None), lambda kept, cts: (seen.append(cts), (cts[0] + cts[1], None))[1])
    assert float(pb.grad(lambda x: f(x, 3)[0])(1.0)) == 1.0
    assert float(seen[0][1]) == 0.0 and seen[0][2].dtype == pb.float0


# ---- closures ---------------------------------------------------------------------------------------------------------


def closing_by_vjp(w):
    f = pb.custom_vjp(lambda x: x * w)
    f.defvjp(lambda x: (x * w, None), lambda kept, ct: (100.0 * w * ct,))
    return f


def closing_by_jvp(w):
    f = pb.custom_jvp(lambda x: x * w)
    f.defjvp(lambda p, t: (p[0] * w, 100.0 * w * t[0]))
    return f


BY_W = {
    "directly": lambda make: pb.grad(lambda w: make(w)(3.0)),
    "by both": lambda make: pb.grad(lambda w: make(w)(w)),
    "inside": lambda make: lambda w: pb.grad(lambda x: pb.grad(lambda w: make(w)(x))(w))(3.0),
    "jit": lambda make: pb.grad(pb.jit(lambda w: make(w)(3.0))),
    "jit of grad": lambda make: pb.jit(pb.grad(lambda w: make(w)(3.0))),
    "vmap": lambda make: pb.grad(lambda w: pnp.sum(pb.vmap(lambda x: make(w)(x))(XS))),
    "jvp": lambda make: derivative(lambda w: make(w)(3.0)),
    "a fixed argument": lambda make: pb.grad(lambda w: fixed(w, 3.0)),
}


@functools.partial(pb.custom_vjp, nondiff_argnums=0)
def fixed(w, x):
    return w * x


fixed.defvjp(lambda w, x: (w * x, None), lambda w, kept, ct: (100.0 * w * ct,))


@pytest.mark.parametrize("way", BY_W)
@pytest.mark.parametrize("make", [closing_by_vjp, closing_by_jvp])
def test_derivatives_by_what_a_function_closes_over_are_refused(make, way):
    with pytest.raises(GradientError, match=r"differentiated with respect to .* closes over.*closure_convert"):
        BY_W[way](make)(np.float64(2.0))


@pytest.mark.parametrize("make", [closing_by_vjp, closing_by_jvp, lambda w: lambda x: fixed(w, x)])
def test_closing_over_other_traced_values(make):
    ws = np.arange(3.0)

    def check(found, expected):
        np.testing.assert_allclose(np.asarray(found), expected)

    check(pb.vmap(lambda w: make(w)(3.0))(ws), 3.0 * ws)
    check(pb.vmap(lambda w: pb.grad(lambda x: make(w)(x))(3.0))(ws), 100.0 * ws)
    check(pb.grad(lambda x: pnp.sum(pb.vmap(lambda w: make(w)(x))(ws)))(3.0), 300.0)
    check(pb.grad(pb.jit(lambda x: pnp.sum(pb.vmap(lambda w: make(w)(x))(ws))))(3.0), 300.0)
    check(pb.jit(pb.vmap(pb.grad(lambda x, w: make(w)(x)), (None, 0)))(3.0, ws), 100.0 * ws)
    check(pb.vmap(pb.grad(pb.jit(lambda x, w: make(w)(x))), (None, 0))(3.0, ws), 100.0 * ws)
    check(pb.grad(pb.jit(lambda x, w: make(w)(x)))(3.0, 2.0), 200.0)
    check(pb.jit(pb.grad(lambda x, w: make(w)(x)))(3.0, 2.0), 200.0)
    check(pb.grad(lambda w: pb.grad(lambda x: make(w)(x))(3.0))(2.0), 100.0)  # d/dw of the rule's 100 w
    check(pb.grad(lambda w: pb.jit(pb.grad(lambda x: make(w)(x)))(3.0))(2.0), 100.0)
    check(pb.grad(lambda x: pb.lax.scan(lambda c, w: (make(w)(c), None), x, ws)[0])(3.0), 0.0)
    check(pb.grad(lambda x: pb.lax.scan(lambda c, w: (make(w)(c), None), x, ws + 1.0)[0])(3.0), 6e6)


def test_rules_that_close_over_more_than_the_function():
    def outer(x, w):
        f = pb.custom_vjp(lambda y: y * 2.0)
        v = pb.custom_vjp(lambda y: y * w)
        f.defvjp(lambda y: (y * 2.0, None), lambda kept, ct: (ct * w,))
        v.defvjp(lambda y: (y * w, None), lambda kept, ct: (ct * w * u,))
        u = w + 1.0
        return f(v(x))

    np.testing.assert_allclose(float(pb.grad(outer)(3.0, 2.0)), 2.0 * 6.0)
    np.testing.assert_allclose(np.asarray(pb.vmap(pb.grad(outer), (None, 0))(3.0, np.arange(3.0))), [0.0, 2.0, 12.0])

    def later(x, w):
        v = pb.custom_vjp(lambda y: y * w)
        u = w + 1.0
        v.defvjp(lambda y: (y * w, None), lambda kept, ct: (ct * w * u,))
        return v(x)

    np.testing.assert_allclose(float(pb.grad(pb.jit(later))(3.0, 2.0)), 6.0)
    np.testing.assert_allclose(np.asarray(pb.vmap(pb.grad(pb.jit(later)), (None, 0))(3.0, np.arange(3.0))), [0.0, 2.0, 6.0])


def root_by_steps(calls):
    """The square root by repeated steps, whose rules call the function again: an implicit derivative."""

    @functools.partial(pb.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(step, a, x):
        return pb.lax.fori_loop(0, 20, lambda i, x: step(a, x), x)

    def forward(step, a, x):
        calls.append(step)
        x = fixed_point(step, a, x)
        return x, (a, x)

    def backward(step, kept, ct):
        a, x = kept
        by_x, by_a = pb.vjp(lambda x: step(a, x), x)[1], pb.vjp(lambda a: step(a, x), a)[1]
        (found,) = by_a(fixed_point(lambda _, u: ct + by_x(u)[0], a, ct))  # a step that closes over traced values
        return found, pnp.zeros_like(x)

    fixed_point.defvjp(forward, backward)
    return lambda a: fixed_point(lambda a, x: 0.5 * (x + a / x), a, 0.0 * a + 1.0)


@pytest.mark.parametrize("transform", [pb.jit, lambda f: lambda x: pb.vmap(f)(x[None])[0], lambda f: pb.jit(pb.checkpoint(f))])
def test_rules_that_call_their_own_function_with_what_they_close_over(transform):
    calls = []
    found = transform(pb.grad(root_by_steps(calls)))(np.array(4.0))
    np.testing.assert_allclose(np.asarray(found), 0.25, rtol=1e-12)
    assert len(calls) < 20  # traced a few times, not until Python's stack is full


ONE_STEP = {
    "jit": lambda f, x: pb.jit(f)(x),
    "checkpoint": lambda f, x: pb.checkpoint(f)(x),
    "cond": lambda f, x: pb.lax.cond(x > 0.0, f, lambda x: x, x),
    "scan": lambda f, x: pb.lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "fori_loop": lambda f, x: pb.lax.fori_loop(0, 1, lambda i, c: f(c), x),
}


def rule_by_jvp(z):
    f = pb.custom_jvp(lambda x: x * 2.0)
    f.defjvp(lambda p, t: (f(*p), t[0] * z))
    return f


def rule_by_jvps(z):
    f = pb.custom_jvp(lambda x: x * 2.0)
    f.defjvps(functools.partial(lambda z, t, out, x: t * z, z))
    return f


def rule_by_vjp(z):
    f = pb.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: ({"ct": ct * scale(z)}["ct"],))

    def scale(z, by=z):
        return z * 0.5 + by * 0.5

    return f


@pytest.mark.parametrize("held", ONE_STEP)
@pytest.mark.parametrize("make", [rule_by_jvp, rule_by_jvps, rule_by_vjp])
def test_rules_alone_that_close_over_a_traced_value_inside_what_holds_programs(make, held):
    def by_x(z, x=3.0):
        return pb.grad(lambda x: ONE_STEP[held](lambda y: make(z)(y), x))(x)

    zs = np.arange(3.0)
    assert float(pb.jit(by_x)(5.0)) == 5.0
    np.testing.assert_array_equal(np.asarray(pb.vmap(by_x)(zs)), zs)
    np.testing.assert_array_equal(np.asarray(pb.jit(pb.vmap(by_x))(zs)), zs)


def test_a_batching_rule_that_is_left_behind_is_named():
    def f(z):
        g = pb.custom_vmap(lambda x: x * 2.0)
        g.def_vmap(lambda size, batched, x: (x * z, True))
        return pb.vmap(pb.jit(lambda x: g(x)))(np.ones(2))

    with pytest.raises(EscapedTracerError, match=r"A rule closes over a traced value of jit of"):
        pb.jit(f)(2.0)


RULES_OF_Z = {
    "its tangent": lambda f, z: f.defjvp(lambda p, t: (f(*p), t[0] * 2.0 * z)),
    "its value": lambda f, z: f.defjvp(lambda p, t: (p[0] + 0.0 * z, t[0])),
    "its residuals": lambda f, z: f.defvjp(lambda x: (x, z), lambda kept, ct: (ct * kept,)),
    "its forward rule": lambda f, z: f.defvjp(lambda x: (x + 0.0 * z, None), lambda kept, ct: (ct,)),
}


@pytest.mark.parametrize("rule", RULES_OF_Z)
def test_rules_alone_that_close_over_what_is_differentiated(rule):
    def g(z):
        f = pb.custom_jvp(lambda x: x)
        RULES_OF_Z[rule](f, z)
        return f(1.0 * z)

    ways = [pb.grad(g), pb.jit(pb.grad(g)), lambda z: pb.jvp(pb.grad(g), (z,), (1.0,))]
    if "residuals" not in rule and "forward" not in rule:
        ways.append(lambda z: pb.jvp(g, (z,), (1.0,)))
    for way in ways:
        with pytest.raises(GradientError, match=r"closes over.*closure_convert"):
            way(1.5)


def branching():
    @pb.custom_jvp
    def f(x):
        return pnp.sin(x) if x > 0 else pnp.cos(x)

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return (f(x), 2.0 * t) if x > 0 else (f(x), 3.0 * t)

    return f


def test_functions_that_branch_on_values():
    f = branching()
    assert float(pb.grad(f)(1.0)) == 2.0 and float(pb.grad(f)(-1.0)) == 3.0
    assert float(pb.jvp(f, (-1.0,), (1.0,))[1]) == 3.0
    assert float(pb.grad(pb.grad(f))(1.0)) == 0.0
    for transform in (pb.jit, pb.vmap, lambda f: pb.jit(pb.grad(f)), lambda f: pb.vmap(pb.grad(f))):
        with pytest.raises(TracerBoolConversionError):
            transform(f)(np.ones(2))

    def closing(w):
        @pb.custom_jvp
        def g(x):
            return x * w if x > 0 else x

        g.defjvp(lambda p, t: (p[0] * w, 100.0 * t[0]))
        return g

    with pytest.raises(GradientError, match="closes over"):
        pb.grad(lambda x: pb.grad(lambda w: closing(w)(x))(2.0))(3.0)


def integrate(f, x):
    converted, values = pb.closure_convert(f, x)
    return _integrate(converted, x, *values)


@functools.partial(pb.custom_vjp, nondiff_argnums=0)
def _integrate(f, x, *values):
    return f(x, *values)


_integrate.defvjp(
    lambda f, x, *values: (f(x, *values), (x, values)),
    lambda f, kept, ct: tuple(100.0 * g for g in pb.vjp(f, kept[0], *kept[1])[1](ct)),
)


def test_closure_convert():
    def f(w, x):
        return integrate(lambda y: pnp.sin(w) * y, x)

    w, x = np.float64(0.5), np.float64(3.0)
    truth = 100.0 * np.cos(w) * x, 100.0 * np.sin(w)
    for transform in (lambda g: g, pb.jit, lambda g: lambda w, x: pb.vmap(g)(w[None], x[None])):
        found = transform(pb.grad(f, (0, 1)))(w, x)
        np.testing.assert_allclose([np.asarray(g).reshape(()) for g in found], truth)
    np.testing.assert_allclose(float(pb.grad(pb.jit(f))(w, x)), truth[0])
    converted, values = pb.closure_convert(lambda tree: tree["a"] * 2.0, {"a": pb.ArrayType((2,), "float64")})
    assert values == []
    np.testing.assert_array_equal(np.asarray(converted({"a": np.ones(2)})), [2.0, 2.0])
    for wrong in ({"a": np.ones(3)}, {"b": np.ones(2)}):
        with pytest.raises((StructureError, ShapeError), match="was converted for arguments like example_args"):
            converted(wrong)


def test_closure_convert_hoists_what_can_be_differentiated_only():
    seen = []

    def f(w, n):
        converted, values = pb.closure_convert(lambda y: y * w * n, 1.0)
        seen.append(len(values))
        return converted(2.0, *values)

    assert float(pb.jit(f)(3.0, 4)) == 24.0
    assert float(pb.grad(f)(3.0, 4)) == 8.0
    assert seen == [1, 1]


# ---- custom_gradient --------------------------------------------------------------------------------------------------


def test_a_value_that_depends_on_tangents_is_refused():
    f = pb.custom_jvp(lambda x: x * x)
    f.defjvp(lambda primals, tangents: (primals[0] * tangents[0], tangents[0]))
    for transformed in (
        pb.value_and_grad(f),
        pb.jit(pb.value_and_grad(f)),
        lambda x: pb.vjp(f, x),
        lambda x: pb.linearize(f, x),
    ):
        with pytest.raises(pb.errors.GradientError, match="depends on tangents"):
            transformed(2.0)


def test_what_a_rule_returns_is_not_cut_to_its_real_part():
    forward, reverse, value = pb.custom_jvp(pnp.sin), pb.custom_vjp(pnp.sin), pb.custom_vjp(pnp.sin)
    forward.defjvp(lambda primals, tangents: (primals[0], tangents[0] * 1j))
    reverse.defvjp(lambda x: (x, None), lambda _, ct: (ct * 1j,))
    value.defvjp(lambda x: (x * 1j, None), lambda _, ct: (ct,))
    for f in (forward, reverse, value):
        with pytest.raises(pb.errors.DtypeError):
            pb.grad(f)(2.0)


@pytest.mark.parametrize("tree", [[2.0], (2.0,), [2.0, 3.0], {"a": 2.0}])
@pytest.mark.parametrize("wrap", [lambda ct: ct, lambda ct: (ct,)])
def test_custom_gradient_of_one_tree(tree, wrap):
    """With one argument its cotangent may be returned itself, which a list or a tuple must not hide."""

    def times(factor, tree):
        return pb.tree.map(lambda x: x * factor, tree)

    f = pb.custom_gradient(lambda x: (pb.tree.leaves(x)[0] ** 2, lambda ct: wrap(times(5.0 * ct, x))))
    assert pb.tree.map(float, pb.grad(f)(tree)) == times(5.0, tree)


def test_custom_gradient_of_several_arguments():
    @pb.custom_gradient
    def f(x, y):
        return {"p": x * y}, lambda ct: (100.0 * ct["p"] * y, 50.0 * ct["p"] * x)

    def g(x, y):
        return f(x, y)["p"]

    for transform in (lambda h: h, pb.jit):
        assert [float(v) for v in transform(pb.grad(g, (0, 1)))(2.0, 3.0)] == [300.0, 100.0]
        assert float(pb.grad(pb.grad(transform(g)), 1)(2.0, 3.0)) == 100.0
    assert float(f(y=3.0, x=2.0)["p"]) == 6.0
    np.testing.assert_allclose(np.asarray(pb.vmap(pb.grad(g))(np.ones(2), np.arange(2.0))), [0.0, 100.0])
    with pytest.raises(StructureError, match="returns a pair"):
        pb.custom_gradient(lambda x: x)(1.0)
    with pytest.raises(StructureError, match="must return a tuple"):
        pb.grad(pb.custom_gradient(lambda x: (x, lambda ct: (ct, ct))))(1.0)


@pytest.mark.parametrize("transform", [lambda h: h, pb.jit], ids=["eager", "jit"])
def test_custom_gradient_of_what_returns_integers_too(transform):
    @pb.custom_gradient
    def f(x):
        def backward(cotangents):
            assert [ct.dtype for ct in cotangents] == [np.float32, pb.float0]
            return 10.0 * cotangents[0]

        return (x * x, pnp.round(x).astype(int)), backward

    np.testing.assert_array_equal(transform(pb.grad(lambda x: pnp.sum(f(x)[0])))(pnp.ones(3)), [10.0, 10.0, 10.0])


# ---- as Programs ------------------------------------------------------------------------------------------------------


def test_printed_programs_show_the_rules():
    def loss(x):
        return f(x)

    f = by_both()
    text = str(pb.xpr(loss, 1.0))
    assert "custom_function[program={ lambda (a:~f32[]:cpu(0)) ;" in text
    assert "rules=<custom_vjp of lambda>] a" in text
    assert "custom_pullback" not in str(pb.xpr(pb.grad(loss), 1.0))
    program = pb.xpr(loss, 1.0)
    with pytest.raises(ProgramError):
        program.to_json()
    assert float(program(1.0)) == float(pnp.sin(1.0))
    assert float(pb.grad(program)(0.0)) == REVERSE


def test_equal_calls_make_equal_programs():
    f = by_both()
    assert pb.xpr(lambda x: f(x), 1.0) == pb.xpr(lambda x: f(x), 1.0)
    g = by_both()
    assert pb.xpr(lambda x: f(x), 1.0) != pb.xpr(lambda x: g(x), 1.0)
    assert pb.xpr(pb.vmap(f), np.ones(2)) == pb.xpr(pb.vmap(f), np.ones(2))
    h = of_fixed_arguments()
    assert pb.xpr(h, 1.0) == pb.xpr(h, 1.0)


def test_collectives_in_functions_with_rules():
    f = pb.custom_vjp(lambda x: pb.lax.psum(x, "i"))
    f.defvjp(lambda x: (pb.lax.psum(x, "i"), None), lambda kept, ct: (100.0 * ct,))
    for transform in (lambda g: g, pb.jit):
        np.testing.assert_array_equal(np.asarray(transform(pb.vmap(f, axis_name="i"))(np.arange(3.0))), [3.0] * 3)
        found = transform(pb.vmap(pb.grad(f), axis_name="i"))(np.arange(3.0))
        np.testing.assert_array_equal(np.asarray(found), [100.0] * 3)
        # the sum does not carry the batch: there is one cotangent for it, which three copies add up to
        found = transform(pb.grad(summed(pb.vmap(f, axis_name="i"))))(np.arange(3.0))
        np.testing.assert_array_equal(np.asarray(found), [300.0] * 3)
        found = transform(pb.grad(pb.vmap(f, axis_name="i", out_axes=None)))(np.arange(3.0))
        np.testing.assert_array_equal(np.asarray(found), [100.0] * 3)


def test_results_that_do_not_carry_the_batch():
    def made(rule):
        f = pb.custom_jvp(lambda x, y: (x * y, y))
        f.defjvp(rule)
        return f

    def plain(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return (x * y, y), (100.0 * (dx * y + x * dy), dy)

    def mixing(primals, tangents):  # by this rule the second tangent differs between the batch elements
        (x, y), (dx, dy) = primals, tangents
        return (x * y, y), (100.0 * (dx * y + x * dy), dy + 7.0 * dx)

    for transform in (lambda g: g, pb.jit):
        batched = transform(pb.vmap(made(plain), (0, None), (0, None)))
        assert [out.shape for out in batched(XS, 2.0)] == [(3,), ()]
        assert [t.shape for t in pb.jvp(batched, (XS, np.float64(2.0)), (ONES, np.float64(1.0)))[1]] == [(3,), ()]
        batched = transform(pb.vmap(made(mixing), (0, None)))
        found = pb.jvp(batched, (XS, np.float64(2.0)), (XS, np.float64(1.0)))[1]
        np.testing.assert_allclose(np.asarray(found[1]), 1.0 + 7.0 * XS)


def test_a_linear_function_with_rules_is_transposed():
    f = pb.custom_jvp(lambda x: 3.0 * x)
    f.defjvp(lambda p, t: (f(*p), f(*t)))
    assert float(pb.linear_transpose(f, 1.0)(2.0)[0]) == 6.0
    for transform in (pb.grad, lambda g: pb.jit(pb.grad(g)), lambda g: pb.grad(pb.jit(g))):
        assert float(transform(f)(1.0)) == 3.0
    np.testing.assert_array_equal(np.asarray(pb.vmap(pb.grad(f))(np.ones(2))), [3.0, 3.0])


def test_taylor_mode_goes_by_the_jvp_rule():
    primal, series = pb.jet(by_jvp(), (np.float64(0.3),), ([np.float64(1.0), np.float64(0.0)],))
    np.testing.assert_allclose(float(primal), np.sin(0.3))
    np.testing.assert_allclose([float(term) for term in series], [FORWARD * np.cos(0.3), -FORWARD * np.sin(0.3)])
    with pytest.raises(GradientError, match="no jvp rule"):
        pb.jet(by_vjp(), (0.3,), ([1.0],))


def test_branches_and_loops():
    for make, factor in ((by_jvp, FORWARD), (by_vjp, REVERSE)):
        f = make()

        def branch(x, f=f):
            return pb.lax.cond(x > 0.0, f, lambda y: y, x)

        for transform in (pb.grad, lambda g: pb.jit(pb.grad(g))):
            np.testing.assert_allclose(float(transform(branch)(0.3)), factor * np.cos(np.float32(0.3)), rtol=1e-5)
            assert float(transform(branch)(-0.3)) == 1.0
        np.testing.assert_allclose(
            np.asarray(pb.vmap(pb.grad(branch))(np.array([0.3, -0.3]))), [factor * np.cos(0.3), 1.0], rtol=1e-12
        )
    f = by_jvp()
    found = derivative(lambda x: pb.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x))[1])(XS[0])
    np.testing.assert_allclose(float(found), FORWARD**2 * np.cos(XS[0]) * np.cos(np.sin(XS[0])))


# ---- nothing is left behind -------------------------------------------------------------------------------------------


def test_residuals_live_as_long_as_the_pullback():
    kept = []

    def fwd(x):
        residual = x * 2.0
        kept.append(weakref.ref(residual))
        return pnp.sum(x), residual

    f = pb.custom_vjp(lambda x: pnp.sum(x))
    f.defvjp(fwd, lambda residual, ct: (residual * ct,))
    gc.disable()  # no cycle keeps them either
    try:
        _, pull = pb.vjp(f, np.ones(3))
        assert kept[0]() is not None
        first, second = pull(1.0), pull(1.0)
        np.testing.assert_array_equal(np.asarray(first[0]), np.asarray(second[0]))
        del pull
        assert kept[0]() is None
        pb.grad(f)(np.ones(3))
        assert kept[1]() is None
    finally:
        gc.enable()


def test_what_is_traced_again_and_again_is_not_kept():
    refs = []

    def step():
        table = pnp.ones(1000)
        refs.append(weakref.ref(table))
        f = pb.custom_vjp(lambda x: pnp.sum(x * table))
        f.defvjp(lambda x: (pnp.sum(x * table), None), lambda kept, ct: (table * ct,))
        pb.grad(f)(pnp.ones(1000))

    for _ in range(3):
        step()
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_an_exception_in_a_rule_leaves_everything_as_it_was():
    f = pb.custom_vjp(lambda x: pnp.sin(x))

    def bwd(kept, ct):
        raise ZeroDivisionError("mine")

    f.defvjp(keeping, bwd)
    for transform, x in ((pb.grad(f), 1.0), (pb.jit(pb.grad(f)), 1.0), (pb.vmap(pb.grad(f)), XS), (pb.jacrev(pb.vmap(f)), XS)):
        with pytest.raises(ZeroDivisionError, match="mine"):
            transform(x)
    f.defvjp(keeping, pulling)
    np.testing.assert_allclose(float(pb.grad(f)(0.0)), REVERSE)


def test_rules_can_be_given_anew():
    f = pb.custom_jvp(lambda x: x)
    f.defjvp(lambda p, t: (p[0], 2.0 * t[0]))
    assert float(pb.grad(f)(1.0)) == 2.0
    f.defjvp(lambda p, t: (p[0], 3.0 * t[0]))
    assert float(pb.grad(f)(1.0)) == 3.0


def test_what_a_function_closes_over_is_looked_up_anew():
    cell = {"scale": 1.0}
    f = pb.custom_vjp(lambda x: x * cell["scale"])
    f.defvjp(lambda x: (x * cell["scale"], None), lambda kept, ct: (100.0 * cell["scale"] * ct,))
    for scale in (1.0, 5.0):
        cell["scale"] = scale
        assert float(f(2.0)) == 2.0 * scale
        assert float(pb.grad(f)(2.0)) == 100.0 * scale
        np.testing.assert_array_equal(np.asarray(pb.vmap(f)(np.ones(2))), [scale, scale])
        np.testing.assert_array_equal(np.asarray(pb.vjp(pb.vmap(f), np.ones(2))[0]), [scale, scale])


def test_threads():
    f, failures = by_both(), []

    def work(seed):
        try:
            x = np.float64(seed / 7)
            for _ in range(10):
                np.testing.assert_allclose(float(pb.grad(f)(x)), REVERSE * np.cos(x))
                np.testing.assert_allclose(float(derivative(f)(x)), FORWARD * np.cos(x))
                np.testing.assert_allclose(float(pb.jit(pb.grad(f))(x)), REVERSE * np.cos(x))
        except BaseException as error:
            failures.append(error)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))  # raises what a thread has raised
    assert failures == []


def test_names_and_documentation_are_the_function_s():
    @pb.custom_jvp
    def f(x):
        """What f is."""
        return x

    assert f.__name__ == "f" and f.__doc__ == "What f is."
    assert repr(f).startswith("<custom_jvp of ") and "f (" in repr(f)


def keeps_a_record(symbolic_zeros, rule_after):
    """A loss, through a function whose backward rule returns no derivative, and one after it that passes on no cotangent."""

    @pb.custom_vjp
    def f(x, scale):
        return x * 1.0, scale

    def forward(x, scale):
        x, scale = (x.value, scale.value) if symbolic_zeros else (x, scale)
        return (x * 1.0, scale), scale

    f.defvjp(forward, lambda scale, cotangent: (None, scale * 5.0), symbolic_zeros=symbolic_zeros)

    @pb.custom_vjp
    def g(x, y):
        return 2.0 * x

    g.defvjp(lambda x, y: (2.0 * x, y), lambda y, cotangent: (2.0 * cotangent, rule_after(y)))

    def loss(x, scale):
        y, _ = f(x, scale)
        return pnp.sum(g(x, pnp.sin(2.0 * y)))

    return loss


ABOUT_A_RECORD = {
    "grad": lambda loss: pb.grad(loss, (0, 1)),
    "jit of grad": lambda loss: pb.jit(pb.grad(loss, (0, 1))),
    "grad of jit": lambda loss: pb.grad(pb.jit(loss), (0, 1)),
    "checkpoint": lambda loss: pb.grad(pb.checkpoint(loss), (0, 1)),
    "cond": lambda loss: pb.grad(lambda x, s: pb.lax.cond(x[1] > 0, loss, lambda x, s: pnp.sum(x) * s, x, s), (0, 1)),
    "scan": lambda loss: pb.grad(lambda x, s: pb.lax.scan(lambda c, _: (c + loss(x, s), None), 0.0, length=1)[0], (0, 1)),
    "vmap": lambda loss: pb.grad(lambda x, s: pnp.sum(pb.vmap(loss, (0, None))(x[None], s)), (0, 1)),
}


@pytest.mark.parametrize("way", ABOUT_A_RECORD)
@pytest.mark.parametrize("symbolic_zeros", [False, True])
@pytest.mark.parametrize(
    "rule_after", [lambda y: None, lambda y: pb.SymbolicZero(y), pnp.zeros_like], ids=["None", "zero", "zeros"]
)
def test_none_of_a_later_rule_counts_as_zeros(rule_after, symbolic_zeros, way):
    """Whether a rule returns None or zeros, the rules before it are asked: some keep a record in what they return."""
    of_x, of_scale = ABOUT_A_RECORD[way](keeps_a_record(symbolic_zeros, rule_after))(pnp.array([0.5, 1.0]), 7.0)
    np.testing.assert_array_equal(of_x, [2.0, 2.0])
    assert float(of_scale) == 35.0


def test_rules_of_what_serves_nothing_are_not_asked():
    asked = []

    @pb.custom_vjp
    def f(x):
        return x, 2.0 * x

    f.defvjp(lambda x: ((x, 2.0 * x), None), lambda _, cotangent: (asked.append(1), (None,))[1])
    assert float(pb.grad(lambda x: f(x)[1] * 0 + 3.0 * x)(1.0)) == 3.0 and len(asked) == 1
    assert float(pb.grad(lambda x: (f(x), 3.0 * x)[1])(1.0)) == 3.0 and len(asked) == 1


# ---- linear_call, sequential_vmap -------------------------------------------------------------------------------------


def times(s, x):
    return {"out": s * x["in"]}


def times_back(s, ct):
    return {"in": 100.0 * s * ct["out"]}  # so that one sees who was asked


def times_of(s, x):
    return pb.linear_call(times, times_back, s, {"in": x})["out"]


def test_linear_call_has_its_own_transpose():
    assert float(times_of(2.0, 3.0)) == 6.0
    assert float(pb.grad(times_of, 1)(2.0, 3.0)) == 200.0
    assert float(pb.jvp(lambda x: times_of(2.0, x), (3.0,), (1.0,))[1]) == 2.0
    assert float(pb.jit(pb.grad(times_of, 1))(2.0, 3.0)) == 200.0
    np.testing.assert_array_equal(pb.vmap(pb.grad(times_of, 1))(pnp.array([2.0, 3.0]), pnp.ones(2)), [200.0, 300.0])
    assert float(pb.linear_transpose(lambda x: times_of(2.0, x), 3.0)(1.0)[0]) == 200.0
    back = pb.vjp(lambda x: times_of(2.0, x), 3.0)[1]
    assert float(pb.vjp(lambda ct: back(ct)[0], 1.0)[1](1.0)[0]) == 2.0  # the transpose of the transpose is the function
    closing = pb.jit(lambda s, x: pb.linear_call(lambda _, x: s * x, lambda _, ct: 10.0 * s * ct, (), x))
    assert float(pb.grad(closing, 1)(2.0, 3.0)) == 20.0
    whole = pb.linear_call(lambda _, x: x, lambda _, ct: 7.0, None, pnp.asarray(1.0))
    assert float(whole) == 1.0
    assert float(pb.grad(lambda x: pb.linear_call(lambda _, x: x, lambda _, ct: 7.0, None, x))(1.0)) == 7.0


def test_linear_call_is_what_it_is_under_every_transformation():
    x = pnp.array([1.0, 2.0])
    f = lambda x: pnp.sum(pb.linear_call(lambda s, x: s * x, lambda s, ct: s * ct, pnp.array([3.0, 4.0]), x) ** 2)  # noqa: E731
    plain = lambda x: pnp.sum((pnp.array([3.0, 4.0]) * x) ** 2)  # noqa: E731
    for transform in (pb.grad, pb.jacfwd, pb.hessian, lambda f: pb.jit(pb.hessian(f)), lambda f: pb.grad(pb.checkpoint(f))):
        np.testing.assert_allclose(transform(f)(x), transform(plain)(x))
    batch = pnp.stack([x, 2.0 * x])
    np.testing.assert_allclose(pb.vmap(pb.grad(f))(batch), pb.vmap(pb.grad(plain))(batch))
    by_scan = lambda f: lambda x: pb.lax.scan(lambda c, _: (c + f(x), None), 0.0, None, 2)[0]  # noqa: E731
    np.testing.assert_allclose(pb.grad(by_scan(f))(x), pb.grad(by_scan(plain))(x))


@pytest.mark.parametrize("differentiate", [lambda f: pb.grad(f)(2.0), lambda f: pb.jvp(f, (2.0,), (1.0,))])
def test_linear_call_refuses_derivatives_with_respect_to_what_it_is_not_linear_in(differentiate):
    for function in (
        lambda s: times_of(s, 3.0),
        lambda s: times_of(s, s),
        lambda s: pb.linear_call(lambda _, x: s * x, lambda _, ct: s * ct, None, 3.0),
    ):
        with pytest.raises(GradientError, match=r"linear_call of .* has no derivative with respect to its residual_args"):
            differentiate(function)
    with pytest.raises(pb.errors.ShapeError, match=r"What .* returns must be a tree like linear_args, but output is f32\[3\]"):
        pb.linear_call(lambda s, x: x, lambda s, ct: pnp.ones(3, "float32"), None, 1.0)
    with pytest.raises(TypeError, match="linear_call takes a function as fun_transpose"):
        pb.linear_call(times, None, 1.0, 1.0)


def test_sequential_vmap_takes_the_elements_one_by_one():
    shapes = []

    @pb.sequential_vmap
    def f(p, x):
        shapes.append(p["w"].shape)
        return {"y": p["w"] * x}

    w, x = pnp.array([1.0, 2.0, 3.0]), 2.0
    np.testing.assert_array_equal(pb.vmap(f, (0, None))({"w": w}, x)["y"], [2.0, 4.0, 6.0])
    np.testing.assert_array_equal(pb.vmap(pb.grad(lambda p, x: f(p, x)["y"]), (0, None))({"w": w}, x)["w"], [2.0, 2.0, 2.0])
    nested = pb.vmap(pb.vmap(f, (0, None)), (None, 0))({"w": w}, w)["y"]
    np.testing.assert_array_equal(nested, np.outer(w, w))
    assert set(shapes) == {()}
