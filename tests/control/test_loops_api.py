"""fori_loop, map, associative_scan, and the choice of how XLA runs a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax, nn
from pullback.core.errors import AxisError, DtypeError, ShapeError, StructureError
from pullback.engine.lower import lower_program
from pullback.engine.processor import usable_processors
from pullback.engine.strategy import SMALL_FLOPS, cpu_settings
from pullback.native.choice import native_mode
from pullback.program.cost import Cost, cost


def test_fori_loop_with_traced_bounds() -> None:
    power = pb.jit(lambda n, x: lax.fori_loop(0, n, lambda i, v: v * x, 1.0))
    assert [float(power(n, 2.0)) for n in (-1, 0, 1, 5)] == [1.0, 1.0, 2.0, 32.0]
    assert float(pb.jvp(lambda x: power(3, x), (2.0,), (1.0,))[1]) == 12.0
    np.testing.assert_allclose(pb.vmap(power)(np.array([1, 3], "int32"), np.array([5.0, 2.0])), [5.0, 8.0])
    with pytest.raises(pb.errors.GradientError, match="Python ints"):
        pb.grad(lambda x: power(3, x))(2.0)


def test_fori_loop_counts_from_its_lower_bound() -> None:
    for run in (lambda f: f, pb.jit):
        assert int(run(lambda: lax.fori_loop(-1, 3, lambda i, s: s * 10 + i, 0))()) == -988
        listed = run(lambda: lax.fori_loop(3, 6, lambda i, s: s.at[i - 3].set(i), pnp.zeros(3, "int32")))()
        assert [int(x) for x in listed] == [3, 4, 5]
    big = 2**40
    assert int(lax.fori_loop(big, big + 2, lambda i, s: s + i, np.int64(0))) == 2 * big + 1
    with pytest.raises(ValueError, match="unroll=2"):
        pb.jit(lambda n: lax.fori_loop(0, n, lambda i, s: s, 0, unroll=2))(3)
    with pytest.raises(ValueError, match="upper must be whole"):
        lax.fori_loop(0, 2.5, lambda i, s: s, 0)
    with pytest.raises(DtypeError, match="lower"):
        lax.fori_loop(True, 2, lambda i, s: s, 0)
    with pytest.raises(DtypeError, match="counts in int8"):
        pb.jit(lambda n: lax.fori_loop(n, 300, lambda i, s: s, 0))(np.int8(0))


@pytest.mark.parametrize(
    ("lower", "upper", "start", "expected"),
    [
        (0, 5, np.zeros((), "int8"), 10),
        (0.0, 5.0, np.zeros((), "float32"), 10),
        (0, 5.0, np.zeros((), "int16"), 10),
        (0, np.float32(5), np.zeros((), "float32"), 10),
    ],
)
def test_the_index_of_known_bounds_is_weak(lower: Any, upper: Any, start: Any, expected: int) -> None:
    for run in (lambda f: f, pb.jit):
        found = run(lambda s: lax.fori_loop(lower, upper, lambda i, s: s + i, s))(start)
        assert (float(found), found.dtype) == (expected, start.dtype)


def test_known_bounds_cost_no_array_of_indices() -> None:
    program = pb.xpr(lambda x: lax.fori_loop(0, 10**9, lambda i, c: c + i, x), 1.0)
    assert not program.constants and all(type.size == 1 for one in program.equations for type in [v.type for v in one.outputs])
    f = lambda x: lax.fori_loop(2, 5, lambda i, c: c * x + i, x)  # noqa: E731
    for run in (lambda g: g, pb.jit):
        np.testing.assert_allclose(float(run(pb.grad(f))(2.0)), 4 * 2.0**3 + 2 * 2 * 2.0 + 3, rtol=1e-6)
        np.testing.assert_allclose(run(pb.vmap(f))(np.array([1.0, 2.0])), [1 + 2 + 3 + 4, 16 + 8 + 6 + 4], rtol=1e-6)
    with pytest.raises(DtypeError, match=r"fori_loop.s body .* value is bool\[\] where it takes f32\[\]"):
        lax.fori_loop(0, 2, lambda i, c: c > 0, np.float32(1))


def test_a_carry_that_is_widened_is_weak_no_longer() -> None:
    loops = [
        lambda: lax.fori_loop(0, 3, lambda i, c: c * 1.5, 1),
        lambda: lax.while_loop(lambda c: c < 3, lambda c: c * 1.5, 1),
        lambda: lax.scan(lambda c, x: (c * 1.5, None), 1, None, length=3)[0],
    ]
    for loop in loops:
        assert not loop().type.weak and not pb.jit(loop)().type.weak


def test_traced_bounds_that_are_no_integers() -> None:
    total = pb.jit(lambda a, b: lax.fori_loop(a, b, lambda i, s: s + i, 0.0))
    assert [float(total(0.0, 5.0)), float(total(0.5, 5.2)), float(total(1, 4.5))] == [10.0, 12.5, 10.0]
    assert float(pb.grad(lambda x: lax.fori_loop(0.0, 5.0, lambda i, v: v * x, 1.0))(2.0)) == 80.0


@pytest.mark.parametrize("wrong", [{"unroll": -1}, {"unroll": 1.5}, {"length": -2}, {"length": 2.0}])
def test_numbers_of_steps_are_ints(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"scan's {next(iter(wrong))} must be"):
        lax.scan(lambda c, x: (c, x), 0.0, None, **{"length": 2, **wrong})
    carry, ys = lax.scan(lambda c, x: [c + x, c], 0.0, np.arange(3.0))  # a list is a pair, too
    assert float(carry) == 3.0 and ys.shape == (3,)


@pytest.mark.parametrize("batch_size", [None, 1, 2, 3, 7, 10])
def test_map_is_what_vmap_computes(batch_size: int | None) -> None:
    xs = {"a": np.arange(7.0), "b": np.ones((7, 2))}

    def f(x: Any) -> Any:
        return x["a"] * x["b"], pnp.sin(x["a"])

    for a, b in zip(lax.map(f, xs, batch_size=batch_size), pb.vmap(f)(xs)):
        np.testing.assert_allclose(a, b, rtol=1e-14)


@pytest.mark.parametrize(
    "loop",
    [
        lambda f: lax.fori_loop(0, 3, f, np.ones(2)),
        lambda f: pb.jit(lambda n: lax.fori_loop(0, n, f, np.ones(2)))(3),
        lambda f: lax.map(f, np.ones(2)),
    ],
    ids=["scan", "while_loop", "map"],
)
def test_errors_name_the_users_function(loop: Any) -> None:
    def mine(*args: Any) -> Any:
        return "text"

    with pytest.raises(pb.errors.LeafError, match=r"mine \(.*test_loops_api\.py"):
        loop(mine)


def test_map_over_nothing() -> None:
    for batch_size in (None, 4):
        assert lax.map(lambda x: x * 2.0, np.zeros((0, 3)), batch_size=batch_size).shape == (0, 3)
    with pytest.raises(AxisError):
        lax.map(lambda x: x, (), batch_size=2)
    with pytest.raises(ValueError, match="batch_size"):
        lax.map(lambda x: x, np.ones(3), batch_size=0)


@pytest.mark.parametrize("size", [*range(10), 33])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_any_size(size: int, reverse: bool) -> None:
    """Products of matrices do not commute, so the order counts."""
    matrices = np.random.default_rng(size).normal(size=(2, size, 2, 2))
    found = lax.associative_scan(lambda a, b: a @ b, matrices[0], reverse=reverse)
    order = range(size)[::-1] if reverse else range(size)
    product, expected = np.eye(2), np.empty((size, 2, 2))
    for i in order:
        expected[i] = product = product @ matrices[0, i]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_associative_scan_along_an_axis() -> None:
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(lax.associative_scan(lambda a, b: a + b, x, axis=-1), np.cumsum(x, 1))


def test_associative_scan_has_logarithmic_size() -> None:
    sizes = [len(pb.xpr(lambda x: lax.associative_scan(lambda a, b: a * b, x), np.ones(n)).equations) for n in (2**8, 2**16)]
    assert sizes[1] < 2.2 * sizes[0] < 300


@pytest.mark.parametrize(
    ("fn", "elems", "options", "error"),
    [
        (lambda a, b: (a, b), np.ones(3), {}, StructureError),
        (lambda a, b: pnp.sum(a), np.ones(3), {}, ShapeError),
        (lambda a, b: a, (np.ones(3), np.ones(4)), {}, AxisError),
        (lambda a, b: a, np.ones(3), {"axis": 1}, AxisError),
    ],
)
def test_associative_scan_errors(fn: Any, elems: Any, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        lax.associative_scan(fn, elems, **options)


# ---- XLA's way of running a loop ----------------------------------------------------------------------------------------


def settings_of(f: Any, *args: Any) -> dict[str, Any]:
    return lower_program(pb.xpr(f, *args), "cpu").extra


def test_cheap_steps_make_one_function_and_dear_ones_do_not() -> None:
    def loop(w: Any, h: Any) -> Any:
        return lax.fori_loop(0, 10, lambda i, h: pnp.tanh(w @ h), h)

    assert settings_of(loop, np.ones((8, 8)), np.ones(8))
    assert not settings_of(loop, np.ones((256, 256)), np.ones((256, 32)))
    assert not settings_of(lambda w, h: (loop(w, h), loop(w[:4, :4], h[:4])), np.ones((256, 256)), np.ones((256, 32)))
    assert not settings_of(lambda x: pnp.sin(x), 1.0)


def test_small_arrays_are_not_divided_among_threads() -> None:
    def text(rows: int) -> str:
        return pb.jit(lambda x: pnp.sin(x * pnp.exp(x))).lower(np.ones((rows, 128), "float32")).compile().as_text()

    assert "outer_dimension_partitions" not in text(512)
    assert ("outer_dimension_partitions" in text(4096)) == (usable_processors() > 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pb.grad(lambda x: pnp.sum(nn.gelu(x)))(x),
        lambda x: nn.softmax(x @ x.T),
        lambda x: pb.random.normal(pb.random.key(0), x.shape),
        lambda x: pnp.cumsum(pnp.sin(x), axis=1).var(axis=0),
    ],
)
def test_dividing_changes_no_number(f: Any) -> None:
    x = np.random.default_rng(0).normal(size=(256, 128)).astype("float32")
    with native_mode("off"):
        divided, undivided = pb.jit(f, compiler_options={"xla_disable_hlo_passes": ""})(x), pb.jit(f)(x)
    assert np.asarray(divided).tobytes() == np.asarray(undivided).tobytes()


@pytest.mark.parametrize("held", [False, True])
def test_the_largest_array_decides_wherever_it_is(held: bool) -> None:
    def step(x: Any) -> Any:
        return pnp.sum(pnp.broadcast_to(x, (300, 300)) * 2.0)

    def skipped(x: Any) -> str:
        return str(lower_program(pb.xpr(pb.checkpoint(step) if held else step, x), "cpu").options.get("xla_disable_hlo_passes"))

    assert skipped(np.ones(1)) == "None"
    undivided = "cpu-parallel-task-assigner"
    assert lower_program(pb.xpr(pnp.sin, np.ones(300)), "cpu").options == {"xla_disable_hlo_passes": undivided}
    barred = cpu_settings([], True, 0, "")[0]["xla_disable_hlo_passes"]  # both, where a barrier asks for one of its own
    assert barred.split(",") == ["cse_barrier_expander", undivided]


def convolved(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME")


WRITTEN: dict[str, tuple[Callable[..., Any], str, bool]] = {
    "convolution": (convolved, "float32", True),
    "with what needs no function": (lambda x, k: pnp.maximum(convolved(x, k) / 3.0, 0.0).sum(), "float64", True),
    "its gradient": (lambda x, k: pb.grad(lambda k: pnp.sum(convolved(x, k) ** 2))(k), "float32", True),
    "16 bits, in which it is one of 32": (convolved, "bfloat16", True),
    "with a function": (lambda x, k: pnp.tanh(convolved(x, k)), "float32", False),
    "with a function in a loop": (
        lambda x, k: lax.fori_loop(0, 3, lambda i, y: pnp.log1p(abs(y)), convolved(x, k)),
        "float32",
        False,
    ),
    "no convolution": (lambda x, k: pnp.maximum(x[0, 0] @ k[0, 0], 0), "float32", False),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_convolutions_without_functions_are_not_written_through_mlir(name: str) -> None:
    function, dtype, wanted = WRITTEN[name]
    x, kernel = (pnp.ones(shape, dtype) for shape in ((2, 3, 16, 3), (4, 3, 3, 3)))
    lowered = lower_program(pb.xpr(function, x, kernel), "cpu")
    assert lowered.options.get("xla_cpu_use_fusion_emitters", True) is not wanted
    if wanted:  # such options of `quick` are the same ones
        with native_mode("off"):
            found = [pb.jit(function, quick=quick)(x, kernel) for quick in (False, True)]
        np.testing.assert_allclose(*found, rtol=1e-6)


def test_costs_are_counted() -> None:
    program = pb.xpr(lambda a, b: pnp.sin(a @ b), np.ones((4, 8), "float32"), np.ones((8, 16), "float32"))
    product = 2 * 4 * 8 * 16
    assert cost(program) == Cost(product, 4 * (32 + 128 + 64) + 4 * (64 + 64), 64, product + 12 * 64)
    inner = pb.xpr(lambda x: lax.fori_loop(0, 100, lambda i, x: pnp.sin(x), x), np.ones(10))
    assert cost(inner).work >= 100 * 12 * 10 and cost(inner).transcendentals == 100 * 10
    assert cpu_settings([Cost(work=SMALL_FLOPS, bytes=10)], False, 0, "")[1]
    assert not cpu_settings([Cost(work=SMALL_FLOPS + 1, bytes=10)], False, 0, "")[1]


def test_a_loop_that_calls_python_runs_either_way() -> None:
    seen: list[float] = []

    def step(i: Any, x: Any) -> Any:
        pb.debug.callback(lambda value: seen.append(float(value)), x)
        return x * 2.0

    assert float(pb.jit(lambda x: lax.fori_loop(0, 4, step, x))(1.0)) == 16.0
    assert seen == [1.0, 2.0, 4.0, 8.0]


# ---- the IR -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.scan(lambda c, _: (c * x, None), x, None, length=2)[0],
        lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * x, x),
        lambda x: lax.cond(x > 0.0, lambda x: x, lambda x: -x, x),
    ],
    ids=["scan", "while_loop", "cond"],
)
def test_operands_must_be_what_the_programs_inside_take(f: Any) -> None:
    equation = pb.xpr(f, np.float64(2.0)).equations[-1]
    types = [atom.type for atom in equation.inputs]
    equation.primitive.infer(tuple(types), equation.params)
    for wrong in ((*types[:-1], types[-1].with_shape((3,))), types[:-1]):
        with pytest.raises(pb.errors.ProgramError, match="holds a Program that takes"):
            equation.primitive.infer(tuple(wrong), equation.params)


def test_a_named_axis_inside_a_loop_that_is_differentiated() -> None:
    def f(x: Any) -> Any:
        def loop(y: Any) -> Any:
            return lax.scan(lambda c, _: (c * y + lax.axis_index("i"), None), 1.0, None, length=2)[0]

        return pb.jvp(loop, (3.0,), (1.0,))[1] + pb.grad(loop)(3.0) + 0.0 * x

    for run in (pb.vmap(f, axis_name="i"), pb.jit(pb.vmap(f, axis_name="i"))):
        np.testing.assert_allclose(run(np.zeros(3)), [12.0, 14.0, 16.0])


@pytest.mark.parametrize("loop", ["scan", "while_loop", "fori_loop"])
def test_a_weak_carry_is_never_narrowed(loop: str) -> None:
    """1.5 made an int32, because that is what the body returns, would be a silent 1."""

    def body(c: Any) -> Any:
        return (c + 1).astype("int32")

    with pytest.raises(pb.errors.DtypeError, match="i32"):
        if loop == "scan":
            lax.scan(lambda c, _: (body(c), None), 1.5, None, length=2)
        elif loop == "while_loop":
            lax.while_loop(lambda c: c < 3, body, 1.5)
        else:
            lax.fori_loop(0, 3, lambda i, c: body(c), 1.5)


@pytest.mark.parametrize("shape", [(), (3,), (200,)], ids=str)
@pytest.mark.parametrize("kind", ["scan", "fori_loop", "while_loop"])
def test_an_eager_loop_is_compiled_once_whatever_the_values_that_it_closes_over(kind, shape):
    def loop(scale):
        scale = pnp.asarray(np.full(shape, scale))
        start = pnp.zeros(shape, "f8")
        if kind == "scan":
            return pb.lax.scan(lambda c, _: (c * 0.5 + scale, None), start, None, 3000)[0]
        if kind == "fori_loop":
            return pb.lax.fori_loop(0, 3000, lambda i, c: c * 0.5 + scale, start)
        step = lambda s: (s[0] + 1, s[1] * 0.5 + scale)  # noqa: E731
        return pb.lax.while_loop(lambda s: (s[0] < 3000) & pnp.all(scale > 0), step, (0, start))[1]

    np.testing.assert_allclose(loop(1.0), np.full(shape, 2.0))
    before = pb.cache_info().compiled
    for scale in (2.0, 3.0, 4.0):
        np.testing.assert_allclose(loop(scale), np.full(shape, 2.0 * scale))
    assert pb.cache_info().compiled == before


@pytest.mark.parametrize(
    ("condition", "returned"),
    [
        (lambda c: (c < 3,), "a container of values"),
        (lambda c: {"a": c < 3, "b": c < 4}, "a container of values"),
        (lambda c: None, "nothing"),
    ],
)
def test_a_condition_is_one_bool_in_no_container(condition: Any, returned: str) -> None:
    with pytest.raises(pb.errors.StructureError, match=f"must return a 0-d bool, but it returned {returned}"):
        pb.lax.while_loop(condition, lambda c: c + 1, 0)


def test_barriers_last_where_there_are_loops_too() -> None:
    def barred(x: Any) -> Any:
        return lax.scan(lambda carry, _: (lax.optimization_barrier(carry * 1.5), None), x, None, length=3)[0]

    made = lower_program(pb.xpr(barred, np.ones(4)), "cpu")
    assert "cse_barrier_expander" in made.options["xla_disable_hlo_passes"] and set(made.extra.values()) == {0}
    assert pb.jit(barred)(np.ones(4)).tolist() == [3.375] * 4
    assert "opt-barrier" in pb.jit(barred).lower(np.ones(4)).compile().as_text()
