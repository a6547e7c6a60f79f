"""Arrays, traced values, structures and transformed functions as objects: asked for by class, copied, pickled, escaped."""

import copy
import functools
import pickle

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp


@functools.partial(pb.jit, static_argnums=1)
def scaled(x, n):
    return x * n


@pb.custom_jvp
def cube(x):
    return x**3


cube.defjvps(lambda t, out, x: 3 * x * x * t)


@pb.grad
def slope(x):
    return x * x


def doubled(x):
    return 2 * x


ALIAS = pb.jit(doubled, donate_argnums=0)


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@pytest.mark.parametrize("function", [scaled, cube, slope], ids=["jit", "custom_jvp", "grad"])
def test_decorated_functions_are_pickled_by_name(function, used):
    if used:
        function(*(3.0, 2)[: 2 if function is scaled else 1])
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy({"f": function})["f"] is function and copy.copy(function) is function


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_a_jitted_function_of_another_name_is_jitted_anew(again):
    ALIAS(np.ones(2, np.float32))
    made = again(ALIAS)
    assert made is not ALIAS and repr(made) == repr(ALIAS)
    np.testing.assert_array_equal(made(pnp.ones(2)), [2.0, 2.0])
    x = pb.device_put(np.ones(3, np.float32))
    made(x)
    with pytest.raises(pb.errors.DonatedBufferError):
        x + 1


def test_a_local_custom_function_says_why_it_cannot_be_pickled():
    local = pb.custom_vjp(lambda x: x)
    assert copy.deepcopy([local])[0] is local
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(local)


@pytest.mark.parametrize("tree", [1, None, (1, 2), {"a": [1, None]}, pnp.ones(2)], ids=repr)
def test_structures_equal_their_pickles(tree):
    structure = pb.tree.structure(tree)
    for back in (pickle.loads(pickle.dumps(structure)), copy.deepcopy(structure)):
        assert back == structure and hash(back) == hash(structure)
        assert repr(pb.tree.unflatten(back, pb.tree.leaves(tree))) == repr(tree)


TRACING = {
    "jit": pb.jit,
    "grad": pb.grad,
    "jvp": lambda f: lambda x: pb.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: pb.vmap(f)(pnp.stack([x, x])),
    "xpr": lambda f: lambda x: pb.xpr(f, x),
    "scan": lambda f: lambda x: pb.lax.scan(lambda c, _: (f(c), None), x, None, length=1),
}


@pytest.mark.parametrize("transform", TRACING.values(), ids=TRACING)
def test_traced_values_are_arrays(transform):
    seen = []

    def f(x):
        seen.append((isinstance(x, pb.Array), issubclass(type(x), pb.Array), isinstance(x, pb.Tracer)))
        return x * 1.0

    transform(f)(pnp.float32(1.0))
    assert seen[0] == (True, True, True)


def test_the_class_of_arrays():
    assert isinstance(pnp.ones(2), pb.Array) and issubclass(type(pnp.ones(2)), pb.Array)
    for other in (np.ones(2), 1.0, [1.0], None, pb.ArrayType((2,), "float32")):
        assert not isinstance(other, pb.Array)
    assert not issubclass(np.ndarray, pb.Array) and issubclass(pb.Array, pb.Array)
    assert "reshape" in dir(pb.Array) and callable(pb.Array.reshape) and "immutable" in pb.Array.__doc__
    match pnp.ones(2):
        case pb.Array(shape=(2,)):
            pass
        case _:
            raise AssertionError
    with pytest.raises(TypeError, match=r"pullback\.numpy\.array"):
        pb.Array((2,))


ESCAPED = {
    "value_and_grad": lambda dead: pb.value_and_grad(lambda x: dead)(3.0),
    "grad": lambda dead: pb.grad(lambda x: dead)(3.0),
    "jvp": lambda dead: pb.jvp(lambda x: dead, (3.0,), (1.0,)),
    "vjp": lambda dead: pb.vjp(lambda x: dead, 3.0),
    "linearize": lambda dead: pb.linearize(lambda x: dead, 3.0),
    "vmap": lambda dead: pb.vmap(lambda x: dead)(pnp.ones(3)),
    "jit": lambda dead: pb.jit(lambda x: dead)(3.0),
    "jacfwd": lambda dead: pb.jacfwd(lambda x: dead)(3.0),
    "hessian": lambda dead: pb.hessian(lambda x: dead)(3.0),
    "jet": lambda dead: pb.jet(lambda x: dead, (1.0,), ([1.0],)),
    "checkpoint": lambda dead: pb.checkpoint(lambda x: dead)(1.0),
    "scan": lambda dead: pb.lax.scan(lambda c, _: (c, dead), 1.0, None, length=2),
    "cond": lambda dead: pb.lax.cond(True, lambda: dead, lambda: 1.0),
    "custom_jvp": lambda dead: cube(dead),
    "in a tree": lambda dead: pb.value_and_grad(lambda x: {"a": dead})(3.0),
    "auxiliary": lambda dead: pb.value_and_grad(lambda x: (x, dead), has_aux=True)(3.0),
    "argument of grad": lambda dead: pb.value_and_grad(lambda x: 2.0)(dead),
    "argument of jvp": lambda dead: pb.jvp(lambda x: x, (dead,), (1.0,)),
    "argument of vmap": lambda dead: pb.vmap(lambda x, y: y, (0, None))(pnp.ones(3), dead),
    "argument of jit": lambda dead: pb.jit(lambda x: x)(dead),
    "tangent": lambda dead: pb.jvp(lambda x: x, (1.0,), (dead,)),
    "cotangent": lambda dead: pb.vjp(lambda x: x, 1.0)[1](dead),
}


@pytest.mark.parametrize("use", ESCAPED.values(), ids=ESCAPED)
def test_a_traced_value_whose_transformation_has_ended_is_refused_everywhere(use):
    kept = []
    pb.jit(lambda x: kept.append(x) or x)(1.0)
    with pytest.raises(pb.errors.EscapedTracerError):
        use(kept[0])
