"""jax.jit and jax.stages."""

from __future__ import annotations

import dataclasses
import functools
import gc
import inspect
import traceback
import weakref
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax import tree_util

Pair = namedtuple("Pair", ("one", "two"))


@tree_util.register_pytree_node_class
class Module:
    def __init__(self, weights: Any, name: str) -> None:
        self.weights, self.name = weights, name

    def tree_flatten(self) -> Any:
        return (self.weights,), self.name

    @classmethod
    def tree_unflatten(cls, name: Any, children: Any) -> Module:
        return cls(children[0], name)


ONE = jnp.arange(3.0)
TREES = [
    ONE,
    2.0,
    np.ones(3, np.float32),
    (ONE, [ONE, None]),
    {"b": ONE, "a": {"x": 1}},
    Pair(ONE, (ONE, 2)),
    Module([ONE, {"w": ONE}], "m"),
    {2: ONE, 1: (ONE,)},
    [ONE] * 200,
]


@pytest.mark.parametrize("tree", TREES, ids=[type(tree).__name__ for tree in TREES])
def test_trees_go_in_and_out(tree: Any) -> None:
    """Three times: traced, by the signature, and on the fast path."""
    f = jax.jit(lambda tree, *, by_name: {"out": jax.tree.map(lambda x: x + 1, tree), "named": by_name})
    wanted = jax.tree.map(lambda x: x + 1, tree)
    for _ in range(4):
        out = f(tree, by_name=(tree, None))
        assert jax.tree.structure(out) == jax.tree.structure({"out": tree, "named": (tree, None)})
        for found, expected in zip(jax.tree.leaves(out["out"]), jax.tree.leaves(wanted), strict=True):
            assert isinstance(found, jax.Array) and np.array_equal(found, expected)


def test_a_call_of_another_structure_is_traced_anew() -> None:
    traced = []

    @jax.jit
    def f(tree: Any) -> Any:
        traced.append(tree)
        return jax.tree.leaves(tree)[0] * 1

    for tree in [(ONE, 1), [ONE, 1], {"a": ONE}, {"b": ONE}, Module(ONE, "m"), Module(ONE, "n"), (ONE, 1), Module(ONE, "m")]:
        for _ in range(3):
            f(tree)
    assert len(traced) == 6 == f._cache_size()


def test_functions_that_are_jitted_alike_share_what_was_traced() -> None:
    traced = []

    def f(x: Any, n: int = 0) -> Any:
        traced.append(n)
        return x + n

    for _ in range(3):
        assert jax.jit(f)(1.0) == 1.0
        assert jax.jit(f, static_argnums=1)(1.0, 2) == 3.0
    assert len(traced) == 2
    jax.jit(f).clear_cache()
    assert jax.jit(f)._cache_size() == 0
    gone: Any = functools.partial(f)
    jax.jit(gone)(1.0)
    del gone
    gc.collect()


def test_static_arguments() -> None:
    @jax.jit(static_argnames=("n", "how"))
    def f(x: Any, n: Any, how: str = "add") -> Any:
        return x + n if how == "add" else x * n

    assert f(2.0, 3) == f(2.0, n=3) == 5.0 and f(2.0, 3, how="multiply") == 6.0
    with pytest.raises(ValueError, match="must be hashable"):
        f(2.0, [3])
    both = jax.jit(lambda x, y: isinstance(y, int), static_argnums=1, static_argnames=())
    assert both(1, 2) and not both(1, y=2)
    with pytest.raises(ValueError, match="by position only"):
        jax.jit(lambda x, /: x, static_argnames="x")
    with pytest.raises(ValueError, match="names 'y', but"):
        jax.jit(lambda x: x, static_argnames="y")


def test_methods_and_wrong_arguments() -> None:
    class Model:
        @jax.jit
        def times(self: Any, x: Any) -> Any:
            return self.factor * x

        def __init__(self, factor: Any) -> None:
            self.factor = factor

    tree_util.register_pytree_node(Model, lambda model: ((model.factor,), None), lambda _, children: Model(*children))
    assert Model(2.0).times(3.0) == 6.0
    with pytest.raises(TypeError, match=r"x\['a'\]"):
        jax.jit(lambda x: x)({"a": "text"})
    with pytest.raises(TypeError, match="jit takes a function"):
        jax.jit(3)


def test_without_jit_python_runs() -> None:
    seen = []
    f = jax.jit(lambda x: seen.append(x) or x)
    f(ONE)
    with jax.disable_jit():
        f(ONE)
        f(ONE)
    f(ONE)
    assert len(seen) == 3 and seen[1] is ONE


def test_a_donated_array_is_gone() -> None:
    f = jax.jit(lambda tree, y: tree["w"] + y, donate_argnums=0)
    for _ in range(4):
        tree = {"w": jnp.arange(3.0) + 1.0}
        f(tree, 1.0)
        assert tree["w"].is_deleted()


def test_stages() -> None:
    f = jax.jit(lambda x, y, n: {"a": x + y["b"], "n": n * 2}, static_argnums=2, donate_argnums=0)
    args = jnp.arange(3.0), {"b": ONE}
    traced = f.trace(*args, 3)
    assert traced.in_tree == jax.tree.structure((args, {})) and traced.out_tree == jax.tree.structure({"a": 0, "n": 0})
    lowered = traced.lower()
    assert [info.donated for info in jax.tree.leaves(lowered.args_info)] == [True, False]
    assert lowered.out_info["a"] == jax.ShapeDtypeStruct((3,), jnp.float32) == f.eval_shape(*args, 3)["a"]
    assert "stablehlo.add" in lowered.as_text() and str(lowered.compiler_ir()) == lowered.as_text()
    compiled = lowered.compile()
    assert isinstance(compiled, jax.stages.Compiled) and compiled.memory_analysis().argument_size_in_bytes == 24
    assert compiled(*args)["n"] == 6
    with pytest.raises(TypeError, match="was compiled for other arguments: y is missing"):
        compiled(ONE)
    with pytest.raises(TypeError, match=r"where it was compiled for f32\[3\]"):
        compiled(jnp.ones(4), {"b": ONE})


def test_a_struct_of_no_tree_is_a_leaf() -> None:
    @dataclasses.dataclass
    class Config:
        size: int

    with pytest.raises(TypeError, match="Config"):
        jax.jit(lambda x: x)(Config(1))


ERRORS = [
    (
        lambda: jax.vmap(lambda x, y: x + y)(ONE, {"a": jnp.ones(4)}),
        ValueError,
        r"batches of different sizes: argument x has size 3 along axis 0; argument y\['a'\] has size 4",
    ),
    (lambda: jax.vmap(lambda x: x, in_axes=-4)(ONE), ValueError, r"along axis -4, but it has type f32\[3\]"),
    (lambda: jax.vmap(lambda x: x, in_axes=None)(ONE), ValueError, "has no batched argument"),
    (lambda: jax.grad(lambda x: x)(ONE), TypeError, "needs a function with a 0-d output"),
    (lambda: jax.jvp(lambda x: x, (1.0,), (1,)), TypeError, "its tangent is of float32"),
    (lambda: jax.jit(lambda x: x)("text"), TypeError, "argument x is 'text' of type str"),
    (lambda: jax.lax.scan(3, 0, ONE), TypeError, "lax.scan: 3 of type int, given as f, is not callable"),
    (lambda: jax.lax.scan(lambda c, x: ((c, c), x), 0.0, ONE), TypeError, "must return the carry as it takes it"),
    (lambda: jax.lax.scan(lambda c, x: (c > 0, x), 0.0, ONE), TypeError, r"carry is bool\[\] where it takes"),
    (lambda: jax.lax.scan(lambda c, x: c, 0.0, ONE), TypeError, r"scan's body .* must return a pair .* returned ~f32"),
    (lambda: jax.lax.scan(lambda c, x: (c, x), 0.0, ONE, length=5), ValueError, "xs has 3, length is 5"),
    (lambda: jax.jit(lambda n: jax.lax.scan(lambda c, x: (c, x), 0.0, (), n))(3), TypeError, "scan needs the value of length"),
    (lambda: jax.grad(lambda x: jax.lax.while_loop(lambda i: i < 5.0, lambda i: i + 1.0, x))(1.0), ValueError, "Reverse-mode"),
    (lambda: jax.linearize(jnp.sum, ONE)[1](jnp.ones(2)), ValueError, "the shapes must be equal"),
    (lambda: jax.lax.cond(None, lambda: 1, lambda: 2), TypeError, "pred is None"),
    (lambda: jax.lax.cond(True, lambda: 1, lambda: (2, 3)), TypeError, "branches of a cond must return the same structure"),
    (lambda: jax.lax.switch((1.0, 1.0), [lambda: 1]), TypeError, "switch takes one integer as its index"),
    (lambda: jax.lax.fori_loop(np.int16(0), np.int32(3), lambda i, x: x, 0.0), TypeError, "in one dtype"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS, ids=range(len(ERRORS)))
def test_errors_are_of_the_classes_of_jax(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_bounds_of_a_loop_may_be_known_in_a_derivative() -> None:
    assert jax.grad(lambda x: jax.lax.fori_loop(x, x + 2.0, lambda i, y: y * 2.0, x))(1.0) == 4.0


def test_the_function_of_vjp_goes_in_and_out_of_jit() -> None:
    def double(x: Any) -> Any:
        return 2.0 * x

    call = jax.jit(lambda f, x: f(x))
    assert call(jax.jit(lambda x: jax.vjp(double, x)[1])(1.0), 3.0) == (6.0,)


def test_a_jitted_method_keeps_nothing_alive() -> None:
    class Model:
        def __init__(self) -> None:
            self.step = jax.jit(self.one)

        def one(self, x: Any) -> Any:
            return x + 1.0

    model = Model()
    model.step(1.0)
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None


TRACED = [
    (lambda x: 1 if x > 0 else 2, jax.errors.TracerBoolConversionError, r"True or False .* of type bool\[\]"),
    (lambda x: [*range(x)], jax.errors.TracerIntegerConversionError, "a number, by an index"),
    (float, jax.errors.ConcretizationTypeError, r"a number, by float\(\)"),
    (np.sin, jax.errors.TracerArrayConversionError, "NumPy was given a traced value"),
]


@pytest.mark.parametrize(("f", "error", "text"), TRACED, ids=range(len(TRACED)))
def test_values_that_are_not_known_are_errors_of_their_classes(f: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        jax.jit(lambda x: f(x))(1)


TRANSFORMS = [
    jax.jit, jax.vmap, jax.grad, jax.value_and_grad, jax.jacfwd, jax.jacrev, jax.hessian, jax.checkpoint, jax.custom_jvp,
    jax.custom_vjp, jax.pmap, jax.make_jaxpr,
]  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_transformed_function_has_the_attributes_of_the_function(transform: Any) -> None:
    def f(x: Any, n: int = 1) -> Any:
        """What f is."""
        return x

    class Callable:
        def __call__(self, x: Any) -> Any:
            return x

    f.note = "mine"  # type: ignore[attr-defined]
    named = "make_jaxpr({})" if transform is jax.make_jaxpr else "{}"
    assert transform(f).note == "mine" and transform(f).__wrapped__ is f and "What f is." in transform(f).__doc__
    for function, name in ((f, "f"), (functools.partial(functools.partial(f, n=2), n=3), "f"), (Callable(), "Callable")):
        assert transform(function).__name__ == named.format(name)


@pytest.mark.parametrize("kind", [jax.custom_jvp, jax.custom_vjp, jax.custom_batching.custom_vmap, jax.jit, jax.checkpoint])
def test_functions_of_every_kind_are_jitted(kind: Any) -> None:
    made = kind(lambda x: 2.0 * x)
    if kind is jax.custom_jvp:
        made.defjvps(lambda t, out, x: 2.0 * t)
    elif kind is jax.custom_vjp:
        made.defvjp(lambda x: (2.0 * x, None), lambda _, cotangent: (2.0 * cotangent,))
    elif kind is jax.custom_batching.custom_vmap:
        made.def_vmap(lambda size, batched, x: (2.0 * x, batched[0]))
    assert jax.jit(made)(3.0) == 6.0


def test_callbacks_have_32_bits() -> None:
    struct = jax.ShapeDtypeStruct((), np.float32)
    assert jax.jit(lambda x: jax.pure_callback(lambda x: np.float64(x) + 1.0, struct, x))(1.0) == 2.0
    with pytest.raises(ValueError, match="ask for float32, or set the option jax_enable_x64"):
        jax.pure_callback(lambda: 1.0, jax.ShapeDtypeStruct((), np.float64))


class Callable:
    """What a user calls its own attributes is the user's business."""

    def __init__(self) -> None:
        self._signature = self._call = self._fun = self._trees = self.lower = self._plain = "mine"
        self.note = 3.0

    def __call__(self, x: Any) -> Any:
        return self.note * x


def test_attributes_of_a_callable_object_leave_the_jitted_one_alone() -> None:
    f = jax.jit(Callable())
    assert (f(2.0), f.note, f.lower(2.0).compile()(2.0)) == (6.0, 3.0, 6.0)


@pytest.mark.parametrize("custom", [jax.custom_jvp, jax.custom_vjp])
def test_a_function_with_rules_is_jitted_directly(custom: Any) -> None:
    f = custom(lambda x: x * 2)
    if custom is jax.custom_jvp:
        f.defjvps(lambda t, out, x: 5 * t)
    else:
        f.defvjp(lambda x: (x * 2, None), lambda residuals, g: (5 * g,))
    g = jax.jit(f)
    assert (g(3.0), jax.grad(g)(3.0)) == (6.0, 5.0)


def test_a_callback_may_return_a_list_for_a_tuple() -> None:
    struct = jax.ShapeDtypeStruct((), np.float32)
    assert jax.jit(lambda x: jax.pure_callback(lambda x: [x, x + 1], (struct, struct), x))(1.0) == (1.0, 2.0)


def test_a_list_of_two_is_output_and_auxiliary() -> None:
    assert jax.value_and_grad(lambda x: [x * 2, {"a": 1}], has_aux=True)(1.0) == ((2.0, {"a": 1}), 2.0)


def test_an_axis_that_nobody_named_is_a_name_error() -> None:
    with pytest.raises(NameError, match="'i'"):
        jax.lax.psum(1.0, "i")


def test_callbacks_return_as_many_arrays_as_are_announced() -> None:
    struct = jax.ShapeDtypeStruct((), np.float32)
    assert jax.jit(lambda x: jax.pure_callback(lambda x: [[x]], [struct], x))(1.0) == [1.0]
    with pytest.raises(jax.errors.JaxRuntimeError, match="returned 2 arrays, but result_shape_dtypes has 1"):
        jax.jit(lambda x: jax.pure_callback(lambda x: (x, x), struct, x))(1.0)


def test_arguments_of_a_signature_are_known_by_number_and_by_name() -> None:
    infer = jax._src.api_util.infer_argnums_and_argnames
    signature = inspect.signature(lambda a, b, *, c=1: None)
    assert infer(signature, 0, None) == ((0,), ("a",))
    assert infer(signature, None, ("c", "b")) == ((1,), ("c", "b"))
    assert infer(signature, 0, "b") == ((0,), ("b",))  # what is given is taken as it is
    assert infer(inspect.signature(lambda a, b, *rest: None), (1, 2), None) == ((1, 2), ("b",))
    assert infer(signature, None, None) == ((), ())


@dataclasses.dataclass(eq=False)
class Rule:
    """What a module may hold besides arrays; it is equal to itself alone."""

    scale: float


def test_structures_that_are_made_anew_are_no_impurity() -> None:
    counts = iter(range(99))

    def f(x: Any, step: float) -> Any:
        return Module(x * 2.0, Rule(1.0 + step * next(counts)))

    with pb.checking(purity="error"):
        jax.jit(f, static_argnums=1)(ONE, 0.0)
        with pytest.raises(pb.errors.ImpureFunction, match="the first trace returned"):
            jax.jit(f, static_argnums=1)(ONE, 1.0)


def test_who_called_a_function_in_a_jitted_one_is_no_impurity() -> None:
    def f(x: Any) -> Any:
        stack = traceback.format_stack()
        return jax.pure_callback(lambda value: (stack, value)[1], jax.ShapeDtypeStruct((), jnp.float32), x)

    with pb.checking(purity="error"):
        jax.jit(lambda x: jax.lax.cond(x > 0, lambda x: jax.jit(f)(x), f, x))(1.0)
