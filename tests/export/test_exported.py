"""Exported functions compute what the jitted ones do, under each transformation that they have, and say what they have not."""

import pathlib
import re

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core import bundles
from pullback.core.errors import DtypeError, ExportError, GradientError, ShapeError, StructureError
from pullback.engine.portable import portable_module
from pullback.ops.families import on_host
from pullback.testing import all_primitives
from pullback.testing.values import in_dtype, parse_dtypes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
W = RNG.normal(size=(4, 2)).astype(np.float32)
LARGE = pnp.asarray(RNG.normal(size=(64, 4)).astype(np.float32))  # more than is written into a module otherwise
SMALL = pnp.asarray(np.float32([1.0, 2.0]))


def travelled(f, *args, vjp_order=0, program=False, **kwargs):
    """A jitted function that was exported, made into bytes, and read."""
    return pb.export.deserialize(pb.export.export(f)(*args, **kwargs).serialize(vjp_order=vjp_order, program=program))


def bits(tree):
    """Types and bytes of a tree's arrays."""

    def of(leaf):
        return leaf.type, np.asarray(
            pb.random.key_data(leaf) if leaf.type.dtype.kind == "V" and "key" in str(leaf.type) else leaf
        )

    return [(type, values.tobytes()) for type, values in map(of, pb.tree.leaves(tree))]


def counted(x):
    return pb.lax.fori_loop(0, 5, lambda i, c: pnp.sin(c) * 1.5 + i, x)


def branching(x):
    return pb.lax.cond(pnp.sum(x) > 0, lambda y: y * 2.0, lambda y: y - 1.0, x)


# A name for each kind of thing that a module has to carry: the function and its arguments.
FUNCTIONS = {
    "nothing": (lambda: (), ()),
    "constant": (lambda: {"one": 1.0}, ()),
    "none": (lambda x: None, (X,)),
    "identity": (lambda x, n: (n, x, n), (X, 3)),
    "weak": (lambda x: (x + 1.0, x * 2), (2.0,)),
    "trees": (lambda p, x: {"out": [x @ p["w"], (p["b"], None)]}, ({"w": W, "b": np.float64(1.0)}, X)),
    "closure": (lambda x: (LARGE @ x.T, SMALL * 2.0), (X,)),
    "loop": (counted, (X,)),
    "branch": (branching, (X,)),
    "inner jit": (lambda x: pb.jit(pnp.tanh)(x) + pb.jit(pnp.tanh)(2 * x), (X,)),
    "lapack": (lambda x: pnp.linalg.cholesky(x @ x.T + 3.0 * pnp.eye(3)), (X,)),
    "chlo": (lambda x: pb.scipy.special.erf(x) + pnp.arcsinh(x), (X,)),
    "long sort": (lambda x: (pnp.sort(x), pnp.argsort(x)), (RNG.normal(size=3000).astype(np.float32),)),
    "random": (lambda k: (pb.random.normal(k, (4,)), pb.random.split(k)), (pb.random.key(3),)),
    "scan": (lambda x: pnp.cumsum(x) * pnp.cumprod(x, axis=1).sum(), (X,)),
    "zero-size": (lambda x: (x * 2, x.sum()), (np.zeros((0, 3), np.float32),)),
    "fft": (lambda x: pnp.fft.fft(x), (X,)),
    "vmapped": (pb.vmap(lambda x: pnp.dot(x, x)), (X,)),
    "gradient": (pb.grad(lambda x: pnp.sum(pnp.tanh(x) ** 2)), (X,)),
}
DTYPES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "int2",
]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_exported_function_gives_the_bits_of_the_jitted_one(name):
    fun, args = FUNCTIONS[name]
    jitted = pb.jit(fun, native=False)
    found, wanted = travelled(jitted, *args).call(*args), jitted(*args)
    assert pb.tree.structure(found) == pb.tree.structure(wanted)
    if name == "long sort":
        assert np.array_equal(found[0], np.sort(args[0])) and np.array_equal(found[1], np.argsort(args[0], kind="stable"))
    else:
        assert bits(found) == bits(wanted)


def test_each_dtype_travels():
    f = pb.jit(lambda xs: [(x, pnp.concatenate([x.reshape(-1)] * 2)) for x in xs], native=False)
    for dtype in DTYPES:
        xs = [pnp.ones(shape, dtype) for shape in [(), (3,), (0, 4)]]
        loaded = pb.export.load_executable(f.lower(xs).compile().serialize())
        assert bits(travelled(f, xs).call(xs)) == bits(f(xs)) == bits(loaded(xs)), dtype


def test_what_is_known_of_one():
    exported = pb.export.export(pb.jit(lambda p, *, scale: p["w"] * scale))({"w": X}, scale=2.0)
    assert exported.fun_name == "<lambda>" and exported.platforms == ("cpu",) and exported.nr_devices == 1
    assert exported.in_tree == pb.tree.structure((({"w": 0},), {"scale": 0})) and exported.out_tree == pb.tree.structure(0)
    assert list(map(str, exported.in_types)) == ["f32[3,4]", "~f32[]"] and list(map(str, exported.out_avals)) == ["f32[3,4]"]
    assert (
        exported.in_avals == exported.in_types and exported.in_shardings == (None, None) and exported.out_shardings == (None,)
    )
    assert "func.func public @main(%arg0: tensor<3x4xf32>, %arg1: tensor<f32>) -> tensor<3x4xf32>" in exported.mlir_module()
    again = pb.export.deserialize(exported.serialize(program=True))
    assert again == exported and hash(again) == hash(exported) and again.made_by == exported.made_by
    assert again.mlir_module_serialized() == exported.mlir_module_serialized()
    assert exported != pb.export.export(pb.jit(lambda p, *, scale: p["w"] + scale))({"w": X}, scale=2.0)


def test_a_bfloat16_argument_is_one_for_other_tools_too():
    assert "@main(%arg0: tensor<2xbf16>)" in pb.export.export(pb.jit(lambda x: x))(pnp.ones(2, "bfloat16")).mlir_module()


def test_arrays_that_are_closed_over_travel_whatever_their_dtype():
    keys = pb.random.split(pb.random.key(0, impl="rbg"), 100)
    for values in [*[pnp.asarray(np.arange(400) % 2).astype(dtype).reshape(20, 20).T for dtype in DTYPES], keys]:
        f = pb.jit(lambda i, values=values: (values[i], values), native=False)
        loaded = pb.export.load_executable(f.lower(3).compile().serialize())
        assert bits(travelled(f, 3).call(3)) == bits(f(3)) == bits(loaded(3)), values.type
    f = pb.jit(lambda: 1j * pnp.ones(2))
    assert bits(travelled(f).call()) == bits(f())


def test_the_native_tier_leaves_it_to_xla():
    assert "exported as StableHLO" in pb.jit(travelled(pb.jit(lambda x: x + 1.0), 1.0).call).explain(1.0).reason


def test_static_arguments_are_left_out():
    f = pb.jit(lambda x, n, *, s=1, t: x * n + s + t, static_argnums=1, static_argnames="s")
    assert travelled(f, 2.0, 3, s=4, t=1.0).call(2.0, t=1.0) == 11.0
    assert pb.export.load_executable(f.lower(2.0, 3, s=4, t=1.0).compile().serialize())(2.0, t=1.0) == 11.0


# ---- transformations --------------------------------------------------------------------------------------------------


def layer(params, x, n):
    return {"y": pnp.tanh(x @ params["w"]) * n, "n": n + 1}


def loss_of(call):
    return lambda params, x: pnp.sum(call(params, x, 3)["y"] ** 2)


PARAMS = {"w": W}


def close(found, wanted):
    for a, b in zip(pb.tree.leaves(found), pb.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def exported():
    return travelled(pb.jit(layer), PARAMS, X, 3, vjp_order=2)


def stacked(x):
    return pnp.stack([x, 2 * x, -x])


TRANSFORMATIONS = {
    "jit": lambda call: pb.jit(loss_of(call))(PARAMS, X),
    "grad": lambda call: pb.grad(loss_of(call), (0, 1))(PARAMS, X),
    "jit of grad": lambda call: pb.jit(pb.grad(loss_of(call), (0, 1)))(PARAMS, X),
    "vmap": lambda call: pb.vmap(call, ({"w": None}, 0, None))(PARAMS, stacked(X), 3),
    "vmap along another axis": lambda call: pb.vmap(call, ({"w": 2}, None, 0))(
        {"w": pnp.stack([W, W + 1], 2)}, X, pnp.arange(2)
    ),
    "vmap of nothing": lambda call: pb.vmap(call, ({"w": None}, 0, None))(PARAMS, pnp.zeros((0, 3, 4)), 3),
    "jit of vmap": lambda call: pb.jit(pb.vmap(loss_of(call), (None, 0)))(PARAMS, stacked(X)),
    "vmap of vmap": lambda call: pb.vmap(pb.vmap(loss_of(call), (None, 0)), (None, 0))(PARAMS, stacked(stacked(X))),
    "vmap of grad": lambda call: pb.vmap(pb.grad(loss_of(call)), (None, 0))(PARAMS, stacked(X)),
    "grad of vmap": lambda call: pb.grad(lambda p: pnp.sum(pb.vmap(loss_of(call), (None, 0))(p, stacked(X))))(PARAMS),
    "in a scan": lambda call: pb.lax.scan(lambda c, x: (c + loss_of(call)(PARAMS, x), c), 0.0, stacked(X)),
    "second derivative": lambda call: pb.grad(lambda x: pnp.sum(pb.grad(lambda y: loss_of(call)(PARAMS, y))(x) ** 2))(X),
    "checkpoint": lambda call: pb.grad(pb.checkpoint(loss_of(call)))(PARAMS, X),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations_of_an_exported_function(name, exported):
    close(TRANSFORMATIONS[name](exported.call), TRANSFORMATIONS[name](layer))


def test_one_that_calls_another_is_exported_with_it(exported):
    outer = travelled(pb.jit(lambda x: exported.call(PARAMS, x, 2)["y"] + exported.call(PARAMS, 2 * x, 2)["y"]), X, vjp_order=1)
    wanted = layer(PARAMS, X, 2)["y"] + layer(PARAMS, 2 * X, 2)["y"]
    close(outer.call(X), wanted)
    close(
        pb.grad(lambda x: pnp.sum(outer.call(x)))(X),
        pb.grad(lambda x: pnp.sum(layer(PARAMS, x, 2)["y"] + layer(PARAMS, 2 * x, 2)["y"]))(X),
    )
    assert outer.mlir_module().count("func.func private @exported_") >= 1


def test_its_vjp_is_an_exported_function(exported):
    pulled = exported.vjp()
    (ct_w, ct_x) = pulled.call(W, X, 3, np.ones((3, 2), np.float32))
    close((ct_w, ct_x), pb.grad(lambda w, x: pnp.sum(layer({"w": w}, x, 3)["y"]), (0, 1))(W, X))
    assert pulled.has_vjp() and pulled.vjp().has_vjp() is False


def test_derivatives_that_are_not_there(exported):
    plain = travelled(pb.jit(layer), PARAMS, X, 3)
    once = travelled(pb.jit(lambda x: x**3), 1.0, vjp_order=1)
    assert not plain.has_vjp() and once.has_vjp()
    for call in (
        lambda: pb.grad(loss_of(plain.call))(PARAMS, X),
        lambda: pb.jvp(lambda x: plain.call(PARAMS, x, 3)["y"], (X,), (X,)),
        lambda: pb.grad(pb.grad(once.call))(1.0),
        lambda: plain.vjp(),
    ):
        with pytest.raises(GradientError, match=r"exported without this derivative.*vjp_order=1"):
            call()
    assert pb.grad(once.call)(2.0) == 12.0
    with pytest.raises(GradientError, match=r"through exported_layer.* What is exported has no forward mode: use rev"):
        pb.jvp(lambda x: exported.call(PARAMS, x, 3)["y"], (X,), (X,))


@pytest.mark.parametrize(
    ("args", "error", "says"),
    [
        ((PARAMS, X), StructureError, "is a tuple of 2 elements where it was exported for 3"),
        ((PARAMS, X[:2], 3), ShapeError, r"args\[1\] is f32\[2,4\] where it was exported for f32\[3,4\]"),
        ((PARAMS, X.astype(np.float64), 3), DtypeError, r"is f64\[3,4\] where it was exported for f32\[3,4\]"),
        ((PARAMS, X, 3.0), DtypeError, r"is ~f32\[\] where it was exported for ~i32\[\]"),
        (({"v": W}, X, 3), StructureError, r"args\[0\] is a dict"),
    ],
)
def test_other_arguments_are_refused(exported, args, error, says):
    with pytest.raises(error, match=says):
        exported.call(*args)
    with pytest.raises(error, match=says):
        pb.jit(exported.call)(*args)


# ---- what cannot travel -----------------------------------------------------------------------------------------------


def printing(x):
    pb.debug.print("{}", x)
    return x


REFUSED = {
    "callback": printing,
    "igamma": lambda x: pb.scipy.special.gammainc(x, x),
    "matrix_function": lambda x: pb.scipy.linalg.sqrtm(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_calls_python_is_refused_by_name(name):
    x = np.eye(2, dtype=np.float32)
    for export in (pb.export.export(pb.jit(REFUSED[name])), lambda x: pb.jit(REFUSED[name]).lower(x).compile().serialize()):
        with pytest.raises(
            ExportError, match=rf"cannot be exported, since its operation {name} calls Python, at .*test_exported"
        ):
            export(x)


COLLECTIVES = {"psum", "pmax", "pmin", "axis_index", "all_gather", "psum_scatter", "ppermute", "all_to_all", "pvary"} | {
    "aligned",
    "psum_over_varying",
    "pvary_over_varying",
    "shard_map",
}  # inside of a vmap or a shard_map alone


def lowered(p, args, params):
    """One operation as a module that can travel, in the first dtype that it takes."""
    for dtype in parse_dtypes(None, p.kinds):
        typed = in_dtype(args, dtype)
        try:
            program = pb.xpr(lambda *xs: p(*xs, **params), *([np.asarray(arg) for arg in args] if typed is None else typed))
        except pb.errors.PullbackError:
            continue
        return portable_module(program, "cpu")
    raise AssertionError(f"{p.name} takes none of its samples")


def test_the_page_names_every_operation_that_calls_python():
    refused = set()
    for p in all_primitives():
        if p.samples is None and getattr(p.lower, "func", None) is on_host:  # tests/surface/table_special.py has samples
            refused.add(p.name)
        if p.name in COLLECTIVES or p.samples is None:
            continue
        for args, params in list(p.samples(RNG))[:2]:
            try:
                lowered(p, args, params)
            except ExportError as error:
                assert f"its operation {p.name} calls Python" in str(error)
                refused.add(p.name)
    page = (pathlib.Path(__file__).parents[2] / "docs" / "export.md").read_text()
    listed = page.partition("<!-- operations -->")[2].partition("\n\n")[0]
    assert refused == set(re.findall(r"`(\w+)`", listed))


def test_names_of_a_vmap_around_it_and_traced_values_do_not_travel():
    with pytest.raises(pb.errors.PullbackError):
        pb.vmap(lambda x: pb.export.export(pb.jit(lambda y: pb.lax.psum(y, "i")))(1.0).call(x), axis_name="i")(X)
    with pytest.raises(pb.errors.EscapedTracerError):
        pb.grad(lambda x: pb.export.export(pb.jit(lambda y: y * x))(1.0).call(2.0))(1.0)


def stack_of(args, count):
    """Arguments for a batch of so many times the same ones."""
    return pb.tree.map(lambda leaf: pnp.repeat(pnp.expand_dims(leaf, 0), count, 0), args)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("nothing", "constant", "none", "long sort")])
def test_a_program_that_goes_along_is_batched_to_any_size(name):
    f, args = FUNCTIONS[name]
    args = pb.tree.map(pnp.asarray, args)
    exported = pb.export.export(pb.jit(f))(*args)
    loaded = travelled(pb.jit(f), *args, program=True)
    assert loaded == exported and loaded.program == exported.program and travelled(pb.jit(f), *args).program is None
    assert bits(loaded.call(*args)) == bits(exported.call(*args))
    batched, wanted = pb.jit(pb.vmap(loaded.call)), pb.jit(pb.vmap(f))
    assert "call_exported" not in str(pb.xpr(batched, *stack_of(args, 3)))
    for count in (0, 1, 3):
        given = stack_of(args, count)
        for one, other in zip(pb.tree.leaves(batched(*given)), pb.tree.leaves(wanted(*given)), strict=True):
            assert one.type.strong() == other.type.strong()
            if one.dtype.kind != "V":
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_program_that_goes_along_has_all_derivatives():
    loaded, square = travelled(pb.jit(layer), PARAMS, X, 3, program=True), lambda x: x * x
    assert loaded.has_vjp() and loaded.vjp().has_vjp()
    for transform in (pb.grad, lambda f: pb.grad(lambda p, x: pnp.sum(pb.grad(f)(p, x)["w"] ** 2)), pb.jacfwd, pb.hessian):
        close(transform(loss_of(loaded.call))(PARAMS, X), transform(loss_of(layer))(PARAMS, X))
    series = ((X,), ([np.ones_like(X), np.zeros_like(X)],))
    close(pb.jet(lambda x: loaded.call(PARAMS, x, 3)["y"], *series), pb.jet(lambda x: layer(PARAMS, x, 3)["y"], *series))
    assert pb.vmap(pb.grad(travelled(pb.jit(square), 1.0, program=True).call))(pnp.arange(3.0)).tolist() == [0.0, 2.0, 4.0]


def test_the_rules_of_functions_here_are_those_that_count():
    """Two functions of one StableHLO, which differ in their derivatives alone."""

    def made(factor):
        @pb.custom_jvp
        def f(x):
            return 2.0 * x

        f.defjvp(lambda primals, tangents: (f(*primals), factor * tangents[0]))
        return pb.export.export(pb.jit(lambda x: f(x)))(1.0)

    assert [pb.jit(pb.grad(made(factor).call))(1.0) for factor in (3.0, 5.0)] == [3.0, 5.0]
    slope = pb.jit(lambda exported, x: pb.grad(exported.call)(x), static_argnums=0)
    both = [made(3.0), made(5.0)]
    assert [slope(one, 1.0) for one in both] == [3.0, 5.0]
    assert [slope(pb.export.deserialize(one.serialize(vjp_order=1)), 1.0) for one in both] == [3.0, 5.0]
    with pytest.raises(GradientError):  # without derivatives it is another function
        slope(pb.export.deserialize(both[0].serialize()), 1.0)
    with pytest.raises(ExportError, match=r"cannot go along .*rules of custom functions"):
        made(3.0).serialize(program=True)
    twice = pb.Primitive("twice", result_type=lambda x: x, lower=lambda write, x: write.elementwise("stablehlo.add", x, x))
    with pytest.raises(ExportError, match=r"its operation twice is not among pb\.export\.primitives"):
        pb.export.export(pb.jit(lambda x: pb.jit(twice)(x)))(1.0).serialize(program=True)
    with pytest.raises(ExportError, match="read from bytes without one"):
        travelled(pb.jit(lambda x: x), 1.0).serialize(program=True)


def test_functions_of_other_trees_are_other_functions():
    def made(key):
        return travelled(pb.jit(lambda x: {key: 2.0 * x}), 1.0)

    call = pb.jit(lambda exported, x: exported.call(x), static_argnums=0)
    assert [call(made(key), 1.0) for key in "aba"] == [{"a": 2.0}, {"b": 2.0}, {"a": 2.0}]


def test_bytes_of_before_programs_went_along_are_read():
    header, blobs = bundles.unpack("function", pb.export.export(pb.jit(lambda x: x * x))(1.0).serialize())
    for name in ("program", "kind", "sizes"):
        del header[name]
    assert pb.export.deserialize(bundles.pack("function", header, blobs)).call(3.0) == 9.0


def test_factorizations_are_exported_for_platforms_without_lapack():
    x, platforms = np.eye(2, dtype=np.float32), ("cpu", "cuda", "tpu")
    exported = pb.export.export(pb.jit(pnp.linalg.cholesky), platforms=platforms)(x)
    assert exported.platforms == platforms
    np.testing.assert_array_equal(exported.call(x), x)
    with pytest.raises(ExportError, match=r"its operation eig calls LAPACK's geev, at .*test_exported"):
        pb.export.export(pb.jit(pnp.linalg.eigvals), platforms="cuda")(x)


def test_one_for_other_platforms_is_not_run_here():
    exported = pb.export.export(pb.jit(pnp.sin), platforms="cuda")(X)
    with pytest.raises(ExportError, match=r"exported for 'cuda', not for 'cpu'.*platforms=\('cuda', 'cpu'\)"):
        exported.call(X)
    assert "stablehlo.sine" in exported.mlir_module()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: pb.export.export(lambda x: x), TypeError),
        (lambda: pb.export.export(pb.jit(pnp.sin), platforms=("gpu?",)), ValueError),
        (lambda: pb.export.export(pb.jit(pnp.sin), platforms=()), ValueError),
        (lambda: pb.export.export(pb.jit(pnp.sin), platforms=3), ValueError),
        (lambda: pb.export.export(pb.jit(pnp.sin))(X).serialize(program="yes"), TypeError),
        (lambda: pb.export.export(pb.jit(pnp.sin))(X).serialize(vjp_order=-1), ValueError),
        (lambda: pb.export.export(pb.jit(pnp.sin))(X).serialize(vjp_order=True), ValueError),
        (lambda: pb.export.export(pb.jit(pnp.sin))(X).mlir_module("tpu"), ExportError),
        (lambda: pb.export.deserialize("text"), TypeError),
        (lambda: pb.export.symbolic_shape("b, 10"), AttributeError),
    ],
)
def test_wrong_arguments(call, error):
    with pytest.raises(error):
        call()
