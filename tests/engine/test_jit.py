"""jit: what makes a signature, what comes out, and how it composes."""

import dataclasses
import functools
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.core.tracing import innermost_staging

pnp = pb.numpy
X = np.arange(4, dtype=np.float32)

# arguments, and whether a second call with them must trace again after the first ones
CALLS = {
    "array": (pnp.arange(4.0),),
    "numpy": (X,),
    "float": (2.0,),
    "zero": (0.0,),
    "int": (3,),
    "bool": (True,),
    "complex": (1 + 2j,),
    "mixed": (pnp.arange(4.0), X, 2.0),
    "numpy scalar": (np.float32(3),),
    "float64": (np.arange(4.0), 2.0),
    "zero-size": (np.zeros((0, 3), np.float32),),
    "strided": (np.arange(8, dtype=np.float32)[::2],),
    "fortran": (np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),),
    "big-endian": (np.arange(3, dtype=">f4"),),
}


@pytest.mark.parametrize("name", CALLS)
def test_compiled_is_eager_and_traced_once(name, counted):
    function, traces = counted
    args = CALLS[name]
    expected = (
        function(*[pnp.asarray(x) for x in args]) if name not in ("float", "zero", "int", "bool") else function(args[0] * 1)
    )
    traces.clear()
    compiled = pb.jit(function)
    for _ in range(3):
        out = compiled(*args)
        assert out.shape == expected.shape
        np.testing.assert_allclose(np.asarray(out), np.asarray(expected), rtol=2e-6)
    assert len(traces) == 1


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float8_e4m3fn", "float64", "complex128"]
)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (300, 300)])
def test_every_dtype_and_shape_goes_in_and_out(dtype, shape):
    dtype = pb.core.dtypes.DTYPES[dtype]
    x = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
    out = pb.jit(lambda x: x)(x)
    assert out.dtype == dtype and out.shape == shape
    assert np.asarray(out).tobytes() == x.tobytes()


def test_types_never_meet_the_wrong_executable(counted):
    """XLA checks nothing: float32[2] and float64[1] are of one size."""
    function, _ = counted
    compiled = pb.jit(function)
    for _ in range(3):
        for x in (
            np.ones(2, np.float32),
            np.ones(1),
            np.ones(2, np.int32),
            np.ones((1, 2), np.float32),
            np.float32(1),
            1.0,
            1,
            True,
        ):
            out = compiled(x)
            np.testing.assert_allclose(np.asarray(out), 2 * np.sin(np.asarray(x, np.float64)), rtol=1e-6)


def test_alternating_containers():
    compiled = pb.jit(lambda tree: pb.tree.map(lambda x: x * 2.0, tree))
    one, two = pnp.ones(2), pnp.ones(3)
    for tree in [[one, two], (one, two), {"b": one, "a": two}, {"a": one, "b": two}, [one, [two]], [one, None, two], one] * 3:
        out = compiled(tree)
        assert pb.tree.structure(out) == pb.tree.structure(tree)
        for a, b in zip(pb.tree.leaves(out), pb.tree.leaves(tree)):
            np.testing.assert_array_equal(a, 2 * np.asarray(b))


def test_weak_scalars_widen_nothing():
    compiled = pb.jit(lambda x, y: x * y)
    assert compiled(np.ones(2, np.float64), 2.0).dtype == np.float64
    assert compiled(np.ones(2, np.float16), 2.0).dtype == np.float16
    assert compiled(2.0, 3.0).type.weak
    with pb.default_bits(64):
        assert compiled(2.0, 3.0).dtype == np.float64
    assert compiled(2.0, 3.0).dtype == np.float32


def test_signed_zero_is_kept():
    compiled = pb.jit(lambda x: 1.0 / x)
    assert [float(compiled(x)) for x in (0.0, -0.0, 0.0, -0.0)] == [np.inf, -np.inf, np.inf, -np.inf]


# ---- outputs ----------------------------------------------------------------------------------------------------------

OUTPUTS = {
    "nothing": (lambda x: None, None),
    "number": (lambda x: 3.0, 3.0),
    "the input": (lambda x: x, X),
    "twice the same": (lambda x: (x, x), (X, X)),
    "a constant": (lambda x: pnp.asarray(X), X),
    "a tree": (lambda x: {"a": [x, None], "b": (x + 1.0,)}, {"a": [X, None], "b": (X + 1,)}),
    "empty": (lambda x: [], []),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name):
    function, expected = OUTPUTS[name]
    compiled = pb.jit(function)
    for _ in range(2):
        out = compiled(X)
        assert pb.tree.structure(out) == pb.tree.structure(expected)
        for a, b in zip(pb.tree.leaves(out), pb.tree.leaves(expected)):
            np.testing.assert_array_equal(np.asarray(a), b)


def test_without_arguments():
    assert float(pb.jit(lambda: pnp.sum(pnp.arange(4.0)))()) == 6.0


@dataclasses.dataclass
class Pair:
    left: object
    right: object


def test_dataclasses_are_trees():
    out = pb.jit(lambda pair: Pair(pair.right, pair.left * 2.0))(Pair(X, 1.0))
    assert isinstance(out, Pair) and float(out.left) == 1.0
    np.testing.assert_array_equal(np.asarray(out.right), 2 * X)


# ---- static arguments -------------------------------------------------------------------------------------------------


def power(x, n=2, *, scale=1.0):
    return x**n * scale


STATICS = {
    "by number": dict(static_argnums=1),
    "by negative number": dict(static_argnums=-1),
    "by name": dict(static_argnames="n"),
    "by tuple": dict(static_argnums=(1,), static_argnames=("scale",)),
}


@pytest.mark.parametrize("name", STATICS)
def test_static_by_number_name_or_default(name):
    compiled = pb.jit(power, **STATICS[name])
    assert [float(compiled(3.0, 2)), float(compiled(3.0, n=3)), float(compiled(3.0))] == [9.0, 27.0, 9.0]
    assert float(compiled(3.0, n=2, scale=2.0)) == 18.0


def test_static_values_compare_by_type_too():
    seen = []
    compiled = pb.jit(lambda x, n: (seen.append(n), x)[1], static_argnums=1)
    for n in (1, 1.0, True, (1,), (1.0,), 0.0, -0.0, "a", None, 1, (1,)):
        compiled(1.0, n)
    assert len(seen) == 9


def test_static_that_cannot_be_hashed_is_named():
    with pytest.raises(pb.errors.StaticArgumentError, match="Argument n of power"):
        pb.jit(power, static_argnums=1)(3.0, [1])


@pytest.mark.parametrize(
    "arguments", [dict(static_argnums=5), dict(static_argnames="m"), dict(static_argnums="x"), dict(donate_argnums=9)]
)
def test_arguments_that_do_not_exist(arguments):
    with pytest.raises(pb.errors.StaticArgumentError):
        pb.jit(power, **arguments)


def test_decorator_forms():
    @pb.jit
    def plain(x):
        return x + 1.0

    @pb.jit(static_argnums=1)
    def static(x, n):
        return x * n

    @functools.partial(pb.jit, static_argnames="n")
    def partial(x, n):
        return x * n

    class Model:
        @functools.partial(pb.jit, static_argnums=0)
        def method(self, x):
            return x + 2.0

    assert [float(plain(1.0)), float(static(1.0, 3)), float(partial(1.0, n=4)), float(Model().method(1.0))] == [
        2.0,
        3.0,
        4.0,
        3.0,
    ]
    assert plain.__name__ == "plain"


# ---- composition ------------------------------------------------------------------------------------------------------


def cubic(x):
    return x * x * x


def test_under_and_over_every_transformation():
    inner = pb.jit(cubic)
    assert float(pb.grad(inner)(2.0)) == 12.0
    assert float(pb.jit(pb.grad(inner))(2.0)) == 12.0
    assert float(pb.grad(pb.jit(pb.grad(inner)))(2.0)) == 12.0
    assert float(pb.jit(pb.jit(inner))(2.0)) == 8.0
    np.testing.assert_allclose(np.asarray(pb.vmap(pb.grad(inner))(X)), 3 * X**2)
    np.testing.assert_allclose(np.asarray(pb.jit(pb.vmap(inner))(X)), X**3)
    assert [float(t) for t in pb.jvp(inner, (2.0,), (1.0,))] == [8.0, 12.0]


def test_closing_over_an_outer_tracer():
    assert float(pb.grad(lambda x: pb.jit(lambda y: x * y)(3.0))(2.0)) == 3.0
    np.testing.assert_array_equal(np.asarray(pb.vmap(lambda x: pb.jit(lambda y: x * y)(3.0))(X)), 3 * X)


def test_recursion():
    @functools.partial(pb.jit, static_argnums=1)
    def factorial(x, n):
        return x if n == 0 else factorial(x * n, n - 1)

    assert float(factorial(1.0, 5)) == 120.0


def test_large_constants_of_nested_functions_are_passed():
    table = pnp.asarray(np.arange(1000.0))
    inner = pb.jit(lambda x: x + table)
    middle = pb.jit(lambda x: inner(x) + inner(x) + table)
    x = np.ones(1000)
    lowered = middle.lower(x)
    assert len(lowered.as_text()) < 2500
    np.testing.assert_array_equal(np.asarray(middle(x)), 2 + 3 * np.arange(1000.0))
    np.testing.assert_array_equal(np.asarray(pb.jit(pb.vmap(middle))(np.stack([x, x]))), [2 + 3 * np.arange(1000.0)] * 2)


# ---- errors and threads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_while_tracing_leaves_everything_sound(error):
    fails = [True]

    @pb.jit
    def function(x):
        if fails.pop():
            raise error("once")
        return x + 1.0

    fails[:] = [False, True]
    with pytest.raises(error):
        function(1.0)
    assert innermost_staging() is None
    assert float(function(1.0)) == 2.0


def test_an_error_while_compiling_leaves_everything_sound(monkeypatch):
    compiled = pb.jit(lambda x: x * 3.0)
    with monkeypatch.context() as patch:
        patch.setattr("pullback.engine.xla.XlaBackend._load", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            compiled(1.0)
    assert float(compiled(1.0)) == 3.0


def in_threads(count, work):
    results, errors = [None] * count, []
    ready = threading.Barrier(count)

    def body(i):
        try:
            ready.wait()
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "deadlock"
    assert not errors, errors
    return results


def test_threads_compile_once():
    compiled = pb.jit(lambda x: pnp.sin(x) * 5.0)
    before = pb.cache_info().compiled
    results = in_threads(8, lambda i: float(compiled(np.float32(i))))
    np.testing.assert_allclose(results, 5 * np.sin(np.arange(8)), rtol=1e-6)
    assert pb.cache_info().compiled - before == 1


def test_threads_that_call_each_other():
    one = pb.jit(lambda x, n: x + 1.0 if n == 0 else two(x, n - 1) * 2.0, static_argnums=1)
    two = pb.jit(lambda x, n: x + 2.0 if n == 0 else one(x, n - 1) * 3.0, static_argnums=1)
    results = in_threads(8, lambda i: float((one, two)[i % 2](1.0, 3)))
    assert results == [results[0], results[1]] * 4
    assert results[0] == 2 * 3 * 2 * 3.0  # (1 + 2) * 2 * 3 * 2
    assert results[1] == 3 * 2 * 3 * 2.0  # (1 + 1) * 3 * 2 * 3


# ---- ahead of time ----------------------------------------------------------------------------------------------------


def test_lower_and_compile():
    compiled = pb.jit(lambda x, y: (x @ y, None))
    lowered = compiled.lower(pb.ArrayType((2, 3)), pb.ArrayType((3, 4)))
    assert "stablehlo.dot_general" in lowered.as_text()
    assert lowered.program.input_types == (pb.ArrayType((2, 3)), pb.ArrayType((3, 4)))
    ready = lowered.compile()
    assert "HloModule" in ready.as_text()
    assert ready.cost_analysis()["flops"] >= 24
    assert ready.memory_analysis()["argument_size_in_bytes"] == 4 * (6 + 12)
    np.testing.assert_array_equal(
        np.asarray(ready(np.ones((2, 3), np.float32), np.ones((3, 4), np.float32))[0]), np.full((2, 4), 3.0)
    )
    with pytest.raises(pb.errors.DtypeError):
        ready(np.ones((2, 3)), np.ones((3, 4)))
    with pytest.raises(TypeError, match="cannot be transformed"):
        pb.grad(lambda x: pnp.sum(ready(x, np.ones((3, 4), np.float32))[0]))(np.ones((2, 3), np.float32))


def test_show_graph(capsys):
    pb.jit(lambda x: x + 1.0, show_graph=True)(1.0)
    shown = capsys.readouterr().out
    assert "stablehlo.add" in shown and "HloModule" in shown


def test_explained_misses(capsys):
    compiled = pb.jit(power, static_argnums=1, explain_misses=True)
    compiled(X, 2)
    assert "first time" in capsys.readouterr().out
    compiled(X, 2)
    assert capsys.readouterr().out == ""
    compiled(np.arange(5, dtype=np.float32), 2)
    assert "argument x: was f32[4], is now f32[5]" in capsys.readouterr().out
    compiled(X, 3)
    assert "static argument n: was 2, is now 3\n" in capsys.readouterr().out
    compiled(X, n=3)
    assert "is now 3 by name\n" in capsys.readouterr().out
    compiled(X, 3, scale=2.0)
    assert "argument scale (passed by name) is a leaf where before it was nothing\n" in capsys.readouterr().out


def test_clear_cache(counted):
    function, traces = counted
    compiled = pb.jit(function)
    compiled(1.0)
    compiled.clear_cache()
    compiled(1.0)
    assert len(traces) == 2


def test_quick_tier():
    assert float(pb.jit(lambda x: x * 2.0, quick=True)(2.0)) == 4.0


def test_stages():
    jitted = pb.jit(lambda a, n, b, *, c=1.0: (a, {"x": b * n}), static_argnums=1)
    traced = jitted.trace(pb.ArrayType((2,)), 3, X, c=1.0)
    lowered = traced.lower()
    out = (pb.ArrayType((2,)), {"x": pb.ArrayType((4,))})
    assert jitted.eval_shape(pb.ArrayType((2,)), 3, X, c=1.0) == out
    for stage in (traced, lowered, lowered.compile()):
        assert stage.out_info == stage.out_types == out
        assert stage.out_tree == pb.tree.structure(out)
        assert stage.in_tree == pb.tree.structure(((1, None, 2), {"c": 3})) and len(stage.in_types) == 3
    assert traced.fun_name == "<lambda>"
    assert "loc(" in lowered.as_text() and "loc(" not in lowered.as_text("stablehlo", debug_info=False)
    assert "HloModule" in lowered.as_text("hlo")
    with pytest.raises(ValueError, match="not 'llvm'"):
        lowered.as_text("llvm")


def test_options_of_jax():
    inner = pb.jit(lambda x: pnp.sin(x) * 2.0, inline=True, keep_unused=True, in_shardings=None)
    program = pb.xpr(lambda x: inner(x) + 1.0, 1.0)
    assert [equation.primitive.name for equation in program.equations] == ["sin", "mul", "add"]
    np.testing.assert_allclose(pb.vmap(pb.grad(inner))(X), 2 * np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(pb.jit(pb.vmap(pb.grad(inner)))(X), 2 * np.cos(X), rtol=1e-6)
    for name in ("device", "backend"):
        with pytest.raises(NotImplementedError, match=rf"jit takes no {name}, but got 'cpu'\. It "):
            pb.jit(inner, **{name: "cpu"})
    for name in ("in_shardings", "out_shardings"):
        with pytest.raises(TypeError, match=rf"jit's {name} .* must be a sharding .* but is 'cpu'"):
            pb.jit(lambda x: x, **{name: "cpu"})(1.0)


@pytest.mark.parametrize(
    "shape", [(), (1,), (2,), (2, 1), (1, 2), (1, 1), (2, 1, 1), (1, 2, 1), (2, 2), (0, 1), (3, 1, 2), (2, 3, 1)]
)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32", "bfloat16", "complex64"])
def test_known_arrays_are_compiled_in(shape, dtype):
    known = np.random.default_rng(0).integers(0, 2, shape).astype(pb.numpy.dtype(dtype))
    found = pb.jit(lambda x: (pnp.asarray(known), pnp.where(known.astype(bool), x, 0.0)))(2.0)
    assert (found[0].shape, found[0].dtype) == (shape, known.dtype) and np.array_equal(found[0], known)
    np.testing.assert_array_equal(found[1], np.where(known.astype(bool), 2.0, 0.0))


def test_options_of_xla():
    def f(x):
        return pnp.sin(x) + 1.0

    before = pb.jit(f)(2.0)
    given = {"xla_embed_ir_in_executable": True, "xla_dump_max_hlo_modules": 200, "optimization_level": 1}
    assert pb.jit(f, compiler_options=given)(2.0) == before
    lowered = pb.jit(f).lower(2.0)
    quick, plain = lowered.compile({"xla_backend_optimization_level": 0}), lowered.compile()
    assert quick(2.0) == plain(2.0) == before
    with pytest.raises(RuntimeError, match="invalid_key"):
        lowered.compile({"invalid_key": 1})
    with pytest.raises(RuntimeError, match="valid bool"):
        pb.jit(f, compiler_options={"xla_embed_ir_in_executable": "maybe"})(2.0)
    for wrong in ("invalid_key", {1: 2}):
        with pytest.raises(TypeError, match="takes compiler_options as a dict"):
            pb.jit(f, compiler_options=wrong)
    assert plain(2.0) == before
