"""shard_map on eight devices: derivatives against the same function of whole arrays, compiled and one device after another."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import P, lax

LINE = pb.make_mesh((4,), ("x",), devices=pb.devices()[:4])
GRID = pb.make_mesh((2, 4), ("a", "b"))
ONE = pb.make_mesh((1,), ("x",))
RNG = np.random.default_rng(0)
W = RNG.normal(size=(4,)).astype("float32")
X = RNG.normal(size=(8, 4)).astype("float32")
BIG = RNG.normal(size=(64, 16)).astype("float32")
COUNT = 4


def gathered(f: Callable[..., Any]) -> Callable[..., Any]:
    """What a shard_map over LINE of a function of (w, shard of x) is, as a vmap over the shards: one device computes it all."""
    return lambda w, x: pb.vmap(lambda shard: f(w, shard), axis_name="x")(x.reshape(COUNT, -1, *x.shape[1:]))


@pb.custom_vjp
def total(w: Any, x: Any) -> Any:
    return lax.psum((w * x).sum(), "x")


def total_backward(kept: Any, ct: Any) -> Any:
    w, x = kept
    return lax.psum((x * ct).sum(0), "x"), w * ct * pnp.ones_like(x)


total.defvjp(lambda w, x: (total(w, x), (w, x)), total_backward)


def total_in_steps(w: Any, x: Any) -> Any:
    c = lax.scan(lambda c, _: (0.1 * total(c, x) * w, None), w, None, length=2)[0]
    return lax.psum((c * x).sum(), "x")


@pb.custom_jvp
def squares(w: Any, x: Any) -> Any:
    return ((x * w) ** 2).sum() + w.sum()


@squares.defjvp
def squares_jvp(primals: Any, tangents: Any) -> Any:
    (w, x), (dw, dx) = primals, tangents
    return squares(w, x), (2 * x * w * (x * dw)).sum() + (2 * x * w * (dx * w)).sum() + dw.sum()


def scanned(w: Any, x: Any) -> Any:
    return lax.scan(lambda c, _: (c + 0.1 * lax.psum(pnp.sin(x * w * c).sum(), "x"), c), 0.3, None, length=3)[0]


def becomes_varying(w: Any, x: Any) -> Any:
    return lax.scan(lambda c, _: (pnp.sin(c * w + lax.axis_index("x")), c.sum()), w.sum() * pnp.ones_like(w), None, length=3)[1]


def stepped(w: Any, x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: lax.ppermute(pnp.sin(c * w), "x", [(0, 1), (1, 2), (3, 0)]) + c, x).sum(1)


def gradient_inside(w: Any, x: Any) -> Any:
    return (pb.grad(lambda w: lax.psum(pnp.sin(x * w).sum(), "x"))(w) ** 2).sum()


def local_gradient_inside(w: Any, x: Any) -> Any:
    return (pb.grad(lambda w: lax.pvary(pnp.sin(x * w).sum() + w.sum(), "x"))(w) ** 2).sum()


def second_gradient_inside(w: Any, x: Any) -> Any:
    def penalty(w: Any) -> Any:
        return (pb.grad(lambda w: lax.psum(pnp.sin(x * w).sum(), "x") + (w**3).sum())(w) ** 2).sum()

    return (pb.grad(penalty)(w) ** 2).sum()


def training(w: Any, x: Any) -> Any:
    def step(w: Any, _: Any) -> Any:
        return w - 0.1 * pb.grad(lambda w: lax.pmean(((x * w).sum(1) ** 2).mean(), "x"))(w), w.sum()

    return lax.scan(step, w, None, length=3)[0]


BODIES: dict[str, tuple[Callable[..., Any], P]] = {
    "psum": (lambda w, x: lax.psum(pnp.sin(x * w).sum(), "x"), P()),
    "a sum of which each device gives its copy": (lambda w, x: lax.psum(pnp.sin(x * w).sum(0), "x"), P("x")),
    "what all share, of which each gives its copy": (lambda w, x: pnp.sin(w), P("x")),
    "a gather of which each gives its copy": (lambda w, x: lax.all_gather(x * w, "x", to="invarying")[1, 0], P("x")),
    "pmean": (lambda w, x: lax.pmean(pnp.sin(x * w).sum(), "x"), P()),
    "shared and summed": (lambda w, x: (w**2).sum() * lax.psum((x * w).sum(), "x") + w.sum(), P()),
    "sum of what is shared": (lambda w, x: lax.psum((w**2).sum(), "x") + lax.psum((x * w).sum(), "x"), P()),
    "sum that varies again": (lambda w, x: (lax.psum((x * w).sum(), "x") * x * w).sum(1), P("x")),
    "all_gather": (lambda w, x: (lax.all_gather(x * w, "x", tiled=True) ** 2).sum(1)[:2] * x[:, 0], P("x")),
    "psum_scatter": (lambda w, x: lax.psum_scatter(pnp.concatenate([x * w] * 2), "x", tiled=True)[0] ** 2, P("x")),
    "ppermute": (lambda w, x: (lax.ppermute(x * w, "x", [(0, 1), (1, 2), (2, 3)]) * x).sum(1), P("x")),
    "all_to_all": (lambda w, x: (lax.all_to_all(x * w, "x", 1, 0, tiled=True) ** 2).sum(1), P("x")),
    "axis_index": (lambda w, x: lax.axis_index("x") * (x * w).sum(1), P("x")),
    "pmax": (lambda w, x: lax.pmax((x * w).sum(), "x") ** 2, P()),
    "pbroadcast": (lambda w, x: lax.pbroadcast((x * w).sum(1), "x", 2) ** 2, P()),
    "groups": (lambda w, x: (lax.psum(x * w, "x", axis_index_groups=[[0, 2], [1, 3]]) ** 2 * x).sum(1), P("x")),
    "scan": (scanned, P()),
    "carry that becomes varying": (becomes_varying, P("x")),
    "loop": (stepped, P("x")),
    "cond": (lambda w, x: lax.cond(lax.axis_index("x") > 1, lambda: (x * w).sum(1), lambda: (w.sum() * x**2).sum(1)), P("x")),
    "branches of which one varies": (
        lambda w, x: lax.cond(w[0] < 9, lambda c: lax.psum(c, "x") * 0.3, lambda c: c * 2, w * x[0])[:2],
        P("x"),
    ),
    "branches that keep other things": (
        lambda w, x: lax.cond(w[0] < 9, lambda c: lax.psum(c, "x") * w + 0 * x[0], lambda c: c * w + x[0], w * x[0])[:2],
        P("x"),
    ),
    "a carry that only begins as varying": (
        lambda w, x: lax.scan(lambda c, _: (lax.psum(c, "x") / 4 * w, c), w * x[0], None, length=2)[0][:2],
        P("x"),
    ),
    "jit": (lambda w, x: pb.jit(lambda w, x: lax.psum((w * x).sum() + w.sum(), "x") + w.sum())(w, x), P()),
    "checkpoint": (lambda w, x: pb.checkpoint(lambda w, x: lax.psum(pnp.sin(w * x).sum() + w.sum(), "x") * w.sum())(w, x), P()),
    "custom_vjp": (lambda w, x: (total(w, x) * x * w).sum(1), P("x")),
    "custom_vjp, shared": (total, P()),
    "custom_vjp in a scan": (total_in_steps, P()),
    "custom_vjp in a branch": (lambda w, x: lax.cond(w[0] < 9, lambda: total(w, x), lambda: w.sum()), P()),
    "custom_jvp": (lambda w, x: lax.psum(squares(w, x), "x"), P()),
    "gradient inside": (gradient_inside, P()),
    "derivative inside": (lambda w, x: pb.jvp(lambda w: lax.psum(pnp.sin(x * w).sum(), "x") * w.sum(), (w,), (w,))[1], P()),
    "second gradient inside": (second_gradient_inside, P()),
    "steps of training": (training, P()),
    "vmap inside": (lambda w, x: lax.psum(pb.vmap(lambda r: pnp.sin(r * w).sum() * lax.psum(r.sum(), "x"))(x).sum(), "x"), P()),
}


def mapped(f: Callable[..., Any], spec: P, **options: Any) -> Callable[..., Any]:
    return pb.shard_map(f, mesh=LINE, in_specs=(P(), P("x")), out_specs=spec, **options)


def differences(f: Callable[..., Any], w: Any, step: float = 1e-2) -> Any:
    """The gradient of a function of w by central differences."""
    rows = np.eye(len(w), dtype="float32") * step
    return [(float(f(w + row)) - float(f(w - row))) / (2 * step) for row in rows]


@pytest.mark.parametrize("name", BODIES)
def test_values_and_gradients_compiled_and_step_by_step(name: str) -> None:
    body, spec = BODIES[name]
    f, by_steps = mapped(body, spec), mapped(body, spec, debug=True)

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda w, x: pnp.sum(f(w, x) ** 2)

    found = pb.jit(pb.value_and_grad(loss(f), argnums=(0, 1)))(W, X)
    wanted = pb.value_and_grad(loss(by_steps), argnums=(0, 1))(W, X)
    for one, other in zip(pb.tree.leaves(found), pb.tree.leaves(wanted)):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=2e-4, atol=1e-4)
    whole = pb.jit(loss(f))
    estimate = differences(lambda w: whole(w, X), W)
    np.testing.assert_allclose(found[1][0], estimate, rtol=2e-2, atol=2e-2 * max(1.0, np.abs(estimate).max()))


NO_GRADIENTS_INSIDE = [name for name in BODIES if not re.search("inside|custom_vjp|steps of training", name)]


@pytest.mark.parametrize("name", [*NO_GRADIENTS_INSIDE, "vmap inside"])
def test_without_the_check_the_gradient_is_the_same(name: str) -> None:
    body, spec = BODIES[name]
    found, wanted = [
        pb.jit(pb.grad(lambda w, x, check=check: pnp.sum(mapped(body, spec, check_vma=check)(w, x) ** 2), argnums=(0, 1)))(W, X)
        for check in (False, True)
    ]
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-4)


def test_values_are_those_of_a_vmap_over_the_shards() -> None:
    for name in ("all_gather", "psum_scatter", "ppermute", "all_to_all", "axis_index", "groups", "loop", "cond"):
        body, _ = BODIES[name]
        wanted = np.asarray(gathered(body)(W, X))
        np.testing.assert_allclose(mapped(body, P("x"))(W, X), wanted.reshape(-1, *wanted.shape[2:]), rtol=1e-5, atol=1e-5)


def test_a_gradient_of_a_local_loss_is_summed_over_the_devices() -> None:
    found = mapped(pb.grad(lambda w, x: pnp.sin(x * w).sum() + w.sum()), P())(W, X)
    np.testing.assert_allclose(found, (X * np.cos(X * W)).sum(0) + COUNT, rtol=1e-5)
    each = mapped(lambda w, x: pb.grad(lambda w: (x * w).sum())(w)[None], P("x"), check_vma=False)(W, X)
    np.testing.assert_allclose(each, X.reshape(4, 2, 4).sum(1), rtol=1e-5)


def test_a_carry_that_becomes_varying_in_a_gradient_inside() -> None:
    def last(w: Any, x: Any) -> Any:
        return lax.scan(lambda h, _: (pnp.tanh(h * x.sum()), 0.0), w, None, length=2)[0].sum()

    shards = (0.1 * X).reshape(4, 2, 4)
    found = mapped(pb.grad(last), P())(W, 0.1 * X)
    np.testing.assert_allclose(found, sum(np.asarray(pb.grad(last)(W, shard)) for shard in shards), rtol=1e-4, atol=1e-6)


def test_derivatives_of_other_kinds() -> None:
    f = pb.shard_map(lambda x: lax.psum(pnp.sin(x), "x"), mesh=LINE, in_specs=P("x"), out_specs=P())
    slope = (np.cos(X) * X).reshape(4, 2, 4).sum(0)
    np.testing.assert_allclose(pb.jvp(f, (X,), (X,))[1], slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pb.linearize(f, X)[1](X), slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(pb.jet(f, (X,), ((X, 0 * X),))[1][1], (-np.sin(X) * X**2).reshape(4, 2, 4).sum(0), atol=1e-5)
    norm = lambda g: lambda w: pnp.sum(pb.grad(g)(w) ** 2)  # noqa: E731
    loss = lambda w: mapped(BODIES["psum"][0], P())(w, X)  # noqa: E731
    whole = lambda w: pnp.sin(X * w).sum()  # noqa: E731
    np.testing.assert_allclose(pb.grad(norm(loss))(W), pb.grad(norm(whole))(W), rtol=1e-4, atol=1e-4)


# ---- meshes of two axes ---------------------------------------------------------------------------------------------------


def test_axes_that_are_left_to_the_partitioner() -> None:
    w = RNG.normal(size=(16, 8)).astype("float32")
    f = pb.jit(
        pb.shard_map(lambda x, w: lax.psum(x @ w, "a"), mesh=GRID, in_specs=(P("a"), P()), out_specs=P(), axis_names={"a"})
    )
    for spec in (P(), P(None, "b"), P("b")):
        found = f(BIG, pb.device_put(w, pb.NamedSharding(GRID, spec)))
        np.testing.assert_allclose(found, (BIG @ w).reshape(2, 32, 8).sum(0), rtol=1e-4, atol=1e-4)
    index = pb.shard_map(
        lambda x: x[:1, 0] * 0 + lax.axis_index("a"), mesh=GRID, in_specs=P("a"), out_specs=P("a"), axis_names={"a"}
    )
    np.testing.assert_array_equal(index(BIG), [0, 1])


def test_one_inside_another() -> None:
    def inner(f: Any, *args: Any, specs: Any) -> Any:
        return pb.shard_map(f, in_specs=specs, out_specs=P(), axis_names={"b"})(*args)

    def outer(f: Any, specs: Any, out: P, check: bool = True) -> Any:
        return pb.shard_map(f, mesh=GRID, in_specs=specs, out_specs=out, axis_names={"a"}, check_vma=check)

    summed = outer(lambda x: inner(lambda y: lax.psum(y, "b") + lax.axis_index("a"), x, specs=P("b")), P("a"), P("a"))
    wanted = BIG.reshape(2, 4, 8, 16).sum(1) + np.arange(2)[:, None, None]
    np.testing.assert_allclose(summed(BIG), wanted.reshape(16, 16), rtol=1e-5, atol=1e-5)
    w = RNG.normal(size=(16, 3)).astype("float32")
    local = lambda w, x: pnp.tanh(x @ w).sum()  # noqa: E731
    slope = np.asarray(pb.grad(lambda w: pnp.tanh(BIG @ w).sum())(w))
    specs = (P(), P("b"))
    around = outer(
        lambda w, x: lax.psum(inner(lambda w, x: lax.psum(local(w, x), "b"), w, x, specs=specs), "a"), (P(), P("a")), P()
    )
    np.testing.assert_allclose(pb.grad(around)(w, BIG), slope, rtol=1e-4, atol=1e-4)
    within = outer(
        lambda w, x: inner(pb.grad(lambda w, x: lax.psum(local(w, x), ("a", "b"))), w, x, specs=specs), (P(), P("a")), P()
    )
    np.testing.assert_allclose(within(w, BIG), slope, rtol=1e-4, atol=1e-4)


def test_batches_and_loops() -> None:
    f = pb.shard_map(lambda x: lax.psum(x, "b"), mesh=GRID, in_specs=P("b"), out_specs=P())
    stack = RNG.normal(size=(6, 64, 16)).astype("float32")
    wanted = stack.reshape(6, 4, 16, 16).sum(1)
    for batched in (pb.vmap(f), pb.jit(pb.vmap(f))):
        np.testing.assert_allclose(batched(stack), wanted, rtol=1e-5, atol=1e-5)
    over_batch = pb.vmap(
        pb.shard_map(lambda x: lax.psum(x, ("b", "i")), mesh=GRID, in_specs=P("b"), out_specs=P()), axis_name="i", out_axes=None
    )
    np.testing.assert_allclose(over_batch(stack), wanted.sum(0), rtol=1e-5, atol=1e-5)
    divided = pb.jit(pb.vmap(f, spmd_axis_name="a"))
    np.testing.assert_allclose(divided(stack), wanted, rtol=1e-5, atol=1e-5)
    assert divided(stack).sharding.spec[0] == "a"
    step = pb.shard_map(lambda x: x + lax.pmean(x, "b"), mesh=GRID, in_specs=P("b"), out_specs=P("b"))
    y = BIG
    for _ in range(2):
        y = y + np.tile(y.reshape(4, 16, 16).mean(0), (4, 1))
    np.testing.assert_allclose(lax.scan(lambda c, _: (step(c), 0.0), BIG, None, length=2)[0], y, rtol=1e-5, atol=1e-5)


def test_what_goes_in_and_out() -> None:
    f = pb.shard_map(
        lambda tree: {"y": lax.psum(tree["x"][0], "a"), "z": tree["x"][1]},
        mesh=GRID,
        in_specs=({"x": (P("a"), P("b"))},),
        out_specs={"y": P(), "z": P("b")},
    )
    found = f({"x": (BIG, BIG)})
    np.testing.assert_array_equal(found["z"], BIG)
    assert found["z"].sharding.spec == P("b") and found["y"].sharding.is_fully_replicated
    captured = pnp.asarray(RNG.normal(size=(32, 16)).astype("float32"))
    closed = pb.shard_map(lambda x: x + captured, mesh=GRID, in_specs=P("a"), out_specs=P("a"))
    np.testing.assert_array_equal(closed(BIG), BIG + np.tile(captured, (2, 1)))
    traced = pb.grad(lambda c: pnp.sum(pb.shard_map(lambda x: x * c, mesh=GRID, in_specs=P("a"), out_specs=P("a"))(BIG)))
    np.testing.assert_allclose(traced(2.0), BIG.sum(), rtol=1e-4)
    nothing = pb.shard_map(lambda: pnp.ones(3) * lax.psum(1.0, "a"), mesh=GRID, in_specs=(), out_specs=P())
    np.testing.assert_array_equal(nothing(), [2.0] * 3)
    empty = pb.shard_map(lambda s, e: s + lax.psum(e, "a").sum(), mesh=GRID, in_specs=(P(), P("a")), out_specs=P())
    assert float(empty(3.0, np.zeros((0, 3), "float32"))) == 3.0
    with GRID:
        assert (
            float(pb.shard_map(lambda x: lax.psum(x.sum(), ("a", "b")), in_specs=P(("a", "b")), out_specs=P())(np.ones(8))) == 8
        )
    alone = pb.shard_map(
        lambda x: lax.ppermute(lax.all_gather(x, "x", tiled=True), "x", [(0, 0)]) + lax.axis_index("x"),
        mesh=ONE,
        in_specs=P("x"),
        out_specs=P("x"),
    )
    np.testing.assert_array_equal(alone(X), X)


def test_printed_programs_show_specs_and_meshes() -> None:
    text = str(pb.xpr(pb.shard_map(lambda x: lax.psum(x, "a"), mesh=GRID, in_specs=P("a"), out_specs=P()), BIG))
    assert "shard_map[" in text and "in_specs=(P('a'),)" in text and "mesh=Mesh(a=2, b=4, cpu(0-7))" in text, text
    assert "psum[axis_name='a']" in text


# ---- errors ---------------------------------------------------------------------------------------------------------------

IDENTITY: Any = lambda x: x  # noqa: E731
APART = [
    (
        f"not all come to it: {name}",
        lambda f=f: mapping(P(("a", "b")), P(("a", "b")), f=f)(BIG),
        pb.errors.ShardingError,
        f"{said} whose predicate may differ between devices",
    )
    for name, f, said in (
        ("branch", lambda x: lax.cond(lax.axis_index("a") > 0, lambda: lax.psum(x, "a"), lambda: x), "psum over 'a' at .*cond"),
        ("loop", lambda x: lax.while_loop(lambda c: c[0, 0] < 9, lambda c: lax.pmax(c, "b") + 1, x), "pmax .* while_loop"),
        (
            "test",
            lambda x: lax.while_loop(lambda c: (c * lax.psum(c, "a")).sum() < 9, lambda c: c + 1, x),
            "psum .* while_loop",
        ),
        ("call", lambda x: lax.cond(x[0, 0] > 0, pb.jit(lambda: lax.all_gather(x, "b")[0]), lambda: x), "all_gather .* cond"),
        (
            "pairs",
            lambda x: lax.cond(lax.axis_index("b") > 0, lambda: lax.ppermute(x, "a", [(0, 1)]), lambda: x),
            "ppermute .*",
        ),
    )
]
REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "varies",
        lambda: mapping(P("a"), P())(BIG),
        pb.errors.VaryingOutput,
        r"output, of type f32\[32,16\]\{a\}.*along 'a'.*P\(\)",
    ),
    ("unknown", lambda: mapping(P("q"), P())(BIG), pb.errors.UnknownAxis, "in_specs for .* names the axis 'q'"),
    ("unknown out", lambda: mapping(P("a"), P("q"))(BIG), pb.errors.UnknownAxis, "out_specs for .* names the axis 'q'"),
    ("twice", lambda: mapping(P("a", "a"), P())(BIG), pb.errors.AxisUsedTwice, "'a' twice"),
    (
        "uneven",
        lambda: mapping(P("b"), P())(BIG[:3]),
        pb.errors.UnevenShard,
        r"argument x with the in_spec P\('b'\).*3 elements",
    ),
    ("too deep", lambda: mapping(P("a", None, "b"), P())(BIG), pb.errors.ShardingError, "argument x .* has 3 entries"),
    ("entries in", lambda: mapping(P("a", None, None), P())(BIG), pb.errors.ShardingError, r"x .*f32\[64,16\], has 2 axes"),
    (
        "entries out",
        lambda: mapping(P("a"), P("a", None, None))(BIG),
        pb.errors.ShardingError,
        r"output .*f32\[32,16\], has 2 axes",
    ),
    (
        "entries of a number",
        lambda: mapping(P(), {"y": [P(None)]}, lambda x: {"y": [1.0]}, debug=True)(BIG),
        pb.errors.ShardingError,
        r"output\['y'\]\[0\] with the out_spec P\(None\,?\).* 0 axes",
    ),
    ("no mesh", lambda: pb.shard_map(IDENTITY, in_specs=P(), out_specs=P())(BIG), pb.errors.ShardingError, "no mesh"),
    ("no prefix", lambda: mapping((P(), P()), P())(BIG), pb.errors.StructureError, "in_specs does not fit"),
    ("no spec", lambda: mapping("a", P())(BIG), TypeError, "tree of PartitionSpecs"),
    ("by name", lambda: mapping(P(), P())(x=BIG), TypeError, "by position"),
    ("not manual", lambda: mapping(P("b"), P(), axis_names={"a"})(BIG), pb.errors.UnknownAxis, "'b', along which .* not work"),
    ("no axis", lambda: mapping(P(), P(), axis_names={"q"})(BIG), pb.errors.UnknownAxis, "axis_names has 'q'"),
    (
        "same axis",
        lambda: mapping(P(), P(), f=lambda x: mapping(P("a"), P("a"))(x))(BIG),
        pb.errors.UnknownAxis,
        r"its axes are \(none\)",
    ),
    (
        "same axis, by name",
        lambda: mapping(P(), P(), f=lambda x: mapping(P("a"), P("a"), axis_names="a")(x))(BIG),
        pb.errors.ShardingError,
        "inside another",
    ),
    *APART,
    ("no mesh at all", lambda: pb.shard_map(IDENTITY, mesh=3, in_specs=P(), out_specs=P()), TypeError, "takes a mesh"),  # type: ignore[arg-type]
]


def mapping(in_specs: Any, out_specs: Any, f: Any = IDENTITY, **options: Any) -> Callable[..., Any]:
    return pb.shard_map(f, mesh=GRID, in_specs=in_specs, out_specs=out_specs, **options)


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_branches_that_devices_take_apart_along_another_axis() -> None:
    f = mapping(P("b", "a"), P("b", "a"), f=lambda x: lax.cond(lax.axis_index("b") > 1, lambda: lax.psum(x, "a"), lambda: x))
    half = BIG[32:, :8] + BIG[32:, 8:]
    np.testing.assert_allclose(f(BIG), np.concatenate([BIG[:32], np.concatenate([half, half], 1)]), rtol=1e-6)


def chosen(x: Any) -> Any:
    return lax.cond(x[0, 0] > 3, lambda: lax.psum(x, "a"), lambda: x)


def stepping(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0, 0] < 9, lambda c: c + lax.pmean(c, "a") + 1, x)


UNTOLD = [  # function, whether devices differ along "a" and along "b", the error if there is one
    ("both branches", chosen, (False, True), None),
    ("differ", chosen, (True, False), "cond at .*eight_shard_map.py.* along 'a', but psum over 'a' at "),
    ("steps", stepping, (False, True), None),
    ("other numbers of steps", stepping, (True, False), "while_loop at .* along 'a', but psum over 'a' at "),
    ("in a loop", lambda x: lax.fori_loop(0, 2, lambda i, c: chosen(c), x), (True, True), "cond at .* along 'a'"),
    ("in the test", lambda x: lax.while_loop(lambda c: (c - lax.psum(c, "b")).sum() < -8, lambda c: c + 1, x), (False, True),
     "while_loop at .* along 'b', but psum over 'b'"),
    ("over both", lambda x: lax.cond(x[0, 0] > 3, lambda: lax.psum(x, ("a", "b")), lambda: x), (False, True), "along 'b', but"),
    ("pairs", lambda x: lax.cond(x.sum() > 3, lambda: lax.ppermute(x, "a", [(0, 1)]), lambda: x), (False, True), "along 'b'"),
]  # fmt: skip


@pytest.mark.parametrize(("f", "apart", "error"), [row[1:] for row in UNTOLD], ids=[row[0] for row in UNTOLD])
def test_unchecked_devices_must_agree_where_they_meet(f: Any, apart: tuple[bool, bool], error: str | None) -> None:
    x = np.zeros((2, 4), "float32") + (np.arange(2.0)[:, None] * 10) * apart[0] + (np.arange(4.0) * 2) * apart[1]
    options: dict[str, Any] = {"mesh": GRID, "in_specs": P("a", "b"), "out_specs": P("a", "b")}
    found = pb.shard_map(f, check_vma=False, **options)
    if error is None:
        np.testing.assert_allclose(found(x), pb.shard_map(f, debug=True, **options)(x))
        loss = lambda g: lambda x: (g(x) ** 2).sum()  # noqa: E731
        if f is chosen:
            slopes = [pb.grad(loss(g))(x) for g in (found, pb.shard_map(f, debug=True, **options))]
            np.testing.assert_allclose(*slopes)
        return
    with pytest.raises(pb.errors.ShardingError, match=error):
        found(x)
    np.testing.assert_allclose(found(x * 0), pb.shard_map(f, debug=True, **options)(x * 0))  # nothing is left of it


def test_what_devices_must_agree_on_is_not_looked_at_where_it_is_exported() -> None:
    f = pb.jit(pb.shard_map(chosen, mesh=GRID, in_specs=P("a", "b"), out_specs=P("a", "b"), check_vma=False))
    x = np.full((2, 4), 5.0, "float32")
    there = pb.export.deserialize(pb.export.export(f)(x).serialize())
    np.testing.assert_array_equal(there.call(pb.device_put(x, pb.NamedSharding(GRID, P("a", "b")))), f(x))


def test_exceptions_of_callbacks_come_out_as_themselves() -> None:
    def refuse(total: Any) -> None:
        if total > 1:
            raise KeyError("too large")

    f = pb.shard_map(
        lambda x: (pb.debug.callback(refuse, lax.psum(x.sum(), ("a", "b"))), x)[1], mesh=GRID, in_specs=P("a"), out_specs=P("a")
    )
    np.testing.assert_array_equal(f(np.zeros(2)), [0, 0])
    with pytest.raises(KeyError, match="too large"):
        f(np.ones(2))


def test_a_result_that_varies_in_part() -> None:
    f = lambda x: (lax.psum(x, "a"), x.sum())  # noqa: E731
    with pytest.raises(pb.errors.VaryingOutput, match=r"output\[1\].*'a', 'b'"):
        pb.shard_map(f, mesh=GRID, in_specs=P("a", "b"), out_specs=(P(None, "b"), P()))(BIG)


# ---- one device after another ---------------------------------------------------------------------------------------------


def test_step_by_step_values_can_be_seen_and_decided_on() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(float(x.sum()))
        return lax.psum(x if x[0] < 4 else -x, "x")

    found = pb.shard_map(f, mesh=LINE, in_specs=P("x"), out_specs=P(), debug=True)(np.arange(8.0, dtype="float32"))
    assert seen == [1.0, 5.0, 9.0, 13.0]
    np.testing.assert_array_equal(found, [0 + 2 - 4 - 6, 1 + 3 - 5 - 7])


def diverging(x: Any) -> Any:
    return lax.psum(x * 2, "x") if x[0] > 3 else lax.pmax(x, "x")


def returning(x: Any) -> Any:
    return lax.psum(x, "x") if x[0] < 3 else x


def failing(x: Any) -> Any:
    return 1 / 0 if x[0] > 3 else lax.psum(x, "x")


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (diverging, pb.errors.ShardingError, "x=0 is at pmax .*lax.pmax.* x=2 is at psum .*lax.psum"),
        (returning, pb.errors.ShardingError, "x=0 is at psum .* x=2 has returned"),
        (failing, ZeroDivisionError, "division by zero"),
        (IDENTITY, pb.errors.VaryingOutput, r"f32\[2\]\{x\}"),
    ],
)
def test_step_by_step_failures_end_all_devices(f: Any, error: type[Exception], message: str) -> None:
    before = threading.active_count()
    with pytest.raises(error, match=message) as caught:
        pb.shard_map(f, mesh=LINE, in_specs=P("x"), out_specs=P(), debug=True)(np.arange(8.0, dtype="float32"))
    if f is failing:
        assert caught.value.__notes__ == ["(on the device x=2 of Mesh(x=4, cpu(0-3)))"]
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "context" in repr(getattr(thread, "_target", "")):
            thread.join(5)
    assert threading.active_count() <= before


def chosen_by(choose: Any, *branches: Any) -> Callable[..., Any]:
    """A cond of what varies, w * x[0], and what does not, w."""
    return lambda w, x: lax.cond(choose(w), *[lambda c, b=branch: b(c, w, x) for branch in branches], w * x[0])


always, device = lambda w: w.sum() < 99, lambda w: lax.axis_index("x") < 2
JOINS: dict[str, Callable[..., Any]] = {
    "varies in one": chosen_by(always, lambda c, w, x: lax.psum(c, "x") / 4, lambda c, w, x: c * 1.0),
    "varies in the other": chosen_by(always, lambda c, w, x: c * 1.0, lambda c, w, x: lax.psum(c, "x") / 4),
    "shared in one": chosen_by(always, lambda c, w, x: w * 1.0, lambda c, w, x: c * 1.0),
    "keeps both": chosen_by(always, lambda c, w, x: lax.psum(c, "x") * w + 0 * x.sum(), lambda c, w, x: c * w + x.sum()),
    "adds a zero that varies": chosen_by(always, lambda c, w, x: lax.psum(c, "x") + 0 * x[0], lambda c, w, x: c + x[0]),
    "keeps what is shared": chosen_by(always, lambda c, w, x: pnp.sin(w), lambda c, w, x: c * pnp.sin(x[0])),
    "keeps factors": chosen_by(
        always, lambda c, w, x: lax.psum(pnp.sin(c), "x") * pnp.sin(w), lambda c, w, x: c * pnp.sin(x[0]) * pnp.exp(c)
    ),
    "chosen by the device": chosen_by(device, lambda c, w, x: pnp.sin(w), lambda c, w, x: pnp.cos(w) * pnp.exp(w)),
    "a carry that is shared after": lambda w, x: lax.fori_loop(0, 2, lambda i, c: lax.psum(c, "x") / 4 * w, w * x[0]),
    "a carry that is shared before": lambda w, x: lax.fori_loop(0, 3, lambda i, c: c * w + x.sum(), w),
    "a carry that is shared": lambda w, x: lax.fori_loop(0, 2, lambda i, c: w, w * x[0]),
    "a branch in a step": lambda w, x: lax.scan(
        lambda c, _: (lax.cond(w.sum() < 99, lambda c: lax.psum(c, "x") / 4, lambda c: c * w, c), c.sum()), w * x[0], None, 2
    )[0],
    "a result that is shared": lambda w, x: lax.psum(w * x[0], "x"),
}


@pytest.mark.parametrize("name", JOINS)
def test_gradients_where_what_varies_joins_what_does_not(name: str) -> None:
    body = lambda w, x: JOINS[name](w, x)[None]  # noqa: E731
    weights, w, x = np.arange(1.0, 17).reshape(4, 4), W.astype("f8"), X.astype("f8")

    def inside(w: Any, x: Any) -> Any:
        own = pnp.asarray(weights)[lax.axis_index("x")]
        return pb.grad(lambda w, x: lax.psum((body(w, x) * own + body(w, x) ** 2).sum(), "x"), (0, 1))(w, x)

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda w, x: (f(w, x) * weights).sum() + (f(w, x) ** 2).sum()

    alone = pb.vmap(lambda w, x: body(w, x)[0], in_axes=(None, 0), axis_name="x")
    wanted = pb.grad(loss(lambda w, x: alone(w, x.reshape(4, 2, 4))), (0, 1))(w, x)
    outside = pb.grad(loss(mapped(body, P("x"))), (0, 1))(w, x)
    own = mapped(inside, (P(), P("x")))(w, x)
    by_steps = mapped(inside, (P(), P("x")), debug=True)(w, x)
    for found in (outside, own, by_steps):
        for one, other in zip(found, wanted):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_derivative_keeps_what_its_backward_pass_reads() -> None:
    def body(w: Any, x: Any) -> Any:
        return lax.pmean((pnp.tanh(x * w + w.sum()) + x).sum(), "x")

    program = pb.xpr(pb.grad(lambda w, x: mapped(body, P())(w, x)), W, X)
    forward, backward = [one for one in program.equations if one.primitive.name == "shard_map"]
    assert [str(out.type.shape) for out in forward.outputs] == ["(4, 2, 4)"]  # 1 - tanh**2, of each device its own
    assert len(backward.inputs) == 3  # that, x and the cotangent
    assert "bool[0]" not in str(program)


def test_constraints_inside_name_the_axes_that_are_left() -> None:
    def mapped(f: Callable[..., Any]) -> Any:
        return pb.shard_map(f, mesh=GRID, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})(BIG)

    left = P(None, "b")  # of no mesh: that of the shard_map is meant
    np.testing.assert_array_equal(mapped(lambda x: lax.with_sharding_constraint(2 * x, left)), 2 * BIG)
    for taken in (P("a"), P(None, ("b", "a"))):
        for f in (
            lambda x, taken=taken: lax.with_sharding_constraint(x, taken),
            pb.jit(lambda x: x, out_shardings=pb.NamedSharding(GRID, taken)),
        ):
            with pytest.raises(pb.errors.ShardingError, match="names 'a', along which the shard_map around it works"):
                mapped(f)


# ---- operations that hold several Programs -----------------------------------------------------------------------------------


def dense(matvec: Any, b: Any) -> Any:
    return pnp.linalg.solve(pb.jacfwd(matvec)(pnp.zeros_like(b)), b)


def fixed_point(solve: Any) -> Callable[..., Any]:
    """What a function takes to itself, by custom_root; or by the steps that find it, through which derivatives go."""

    def steps(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 60, lambda _, x: x - f(x), x)

    return lambda w, x: solve(lambda v: v - 0.2 * pnp.sin(w * v + x.sum(0)), w, steps)


def shared_fixed_point(solve: Any) -> Callable[..., Any]:
    total = lambda v, x: lax.psum(0.05 * pnp.cos(v * x.sum(0)), "x")  # noqa: E731
    return lambda w, x: solve(lambda v: v - w - total(v, x), w, lambda f, v: lax.fori_loop(0, 60, lambda _, v: v - f(v), v))


def by_root(f: Any, start: Any, steps: Any) -> Any:
    return pb.custom_root(f, start, steps, lambda g, y: pb.custom_linear_solve(g, y, dense, dense))


def linear(call: Any) -> Callable[..., Any]:
    return lambda w, x: call(lambda r, v: r * v, lax.stop_gradient(x[0]), pnp.sin(w)) * x[1] + w


SYSTEMS: dict[str, Callable[..., Any]] = {
    "shared": lambda solve, w, x: solve(lambda v: lax.psum(x.T @ (x @ v), "x") + (2 + w * w) * v, pnp.sin(w)),
    "each its own": lambda solve, w, x: solve(lambda v: x.T @ (x @ v) + (2 + w * w) * v, pnp.sin(w)),
    "sides of their own": lambda solve, w, x: solve(lambda v: (2 + w * w) * v + w * (w @ v), x[0]),
    "shared, of sums": lambda solve, w, x: (
        solve(lambda v: lax.psum(x.T @ (x @ v), "x") + (2 + w * w) * v, lax.psum(x[0], "x") * w) * x[1]
    ),
}
UNSYMMETRIC: dict[str, Callable[..., Any]] = {
    "shared, unsymmetric": lambda solve, w, x: solve(lambda v: lax.psum(x[0] * (x[1] @ v), "x") + 30 * v + w * v[0], w),
    "each its own, unsymmetric": lambda solve, w, x: solve(lambda v: x[0] * (x[1] @ v) + 9 * v + w * v[0], w),
}
cg = lambda mv, b: pb.scipy.sparse.linalg.cg(mv, b, tol=1e-14)[0]  # noqa: E731
bicgstab = lambda mv, b: pb.scipy.sparse.linalg.bicgstab(mv, b, tol=1e-14)[0]  # noqa: E731
told = lambda mv, b: pb.custom_linear_solve(mv, b, dense, dense)  # noqa: E731
SOLVERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "cg": (cg, SYSTEMS),
    "bicgstab": (bicgstab, UNSYMMETRIC),
    "custom_linear_solve": (told, {**SYSTEMS, **UNSYMMETRIC}),
}
SOLVED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    f"{name}: {which}": (functools.partial(system, solver), functools.partial(system, dense))
    for name, (solver, systems) in SOLVERS.items()
    for which, system in systems.items()
}
through = lambda f, start, steps: lax.scan(lambda x, _: (x - f(x), None), start, None, 60)[0]  # noqa: E731
SOLVED |= {
    "custom_root": (fixed_point(by_root), fixed_point(through)),
    "linear_call": (linear(lambda f, r, v: pb.linear_call(f, f, r, v)), linear(lambda f, r, v: f(r, v))),
    "custom_root, shared": (shared_fixed_point(by_root), shared_fixed_point(through)),
}


@pytest.mark.parametrize("name", SOLVED)
def test_first_and_second_derivatives_of_solutions(name: str) -> None:
    weights, w, x = np.arange(1.0, 17).reshape(4, 4), 1 + 0.1 * W.astype("f8"), X.astype("f8")
    solved, plain = [lambda w, x, f=f: f(w, x)[None] for f in SOLVED[name]]

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda w, x: (f(w, x) * weights).sum() + (f(w, x) ** 2).sum()

    def both(loss: Any) -> Callable[..., Any]:
        """The gradient, and that of its squares."""
        slope = pb.grad(loss, (0, 1))
        norm = lambda w, x: sum([(one**2).sum() for one in slope(w, x)])  # noqa: E731
        return lambda w, x: (*slope(w, x), *pb.grad(norm, (0, 1))(w, x))

    def inside(w: Any, x: Any) -> Any:
        own = pnp.asarray(weights)[lax.axis_index("x")]
        part = lambda w, x: lax.psum((solved(w, x) * own + solved(w, x) ** 2).sum(), "x")  # noqa: E731
        return pb.grad(part, (0, 1))(w, x)

    alone = pb.vmap(lambda w, x: plain(w, x)[0], in_axes=(None, 0), axis_name="x")
    wanted = both(loss(lambda w, x: alone(w, x.reshape(4, 2, 4))))(w, x)
    f = mapped(solved, P("x"))
    for found in (both(loss(f))(w, x), mapped(inside, (P(), P("x")))(w, x)):
        for one, other in zip(found, wanted):
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_linear_transpose_sums_over_the_devices_that_share_the_argument() -> None:
    rows, shared, ct = RNG.normal(size=(4,)), RNG.normal(size=(3,)), RNG.normal(size=(4, 3))

    def mapped(f: Callable[..., Any], *specs: pb.PartitionSpec, out: pb.PartitionSpec, **more: Any) -> Any:
        return pb.shard_map(f, mesh=LINE, in_specs=specs, out_specs=out, **more)

    def transposed(r: Any, v: Any, ct: Any) -> Any:
        return pb.linear_transpose(lambda v: r[0] * v, v)(ct[0])[0]

    for more in ({}, {"debug": True}):
        found = mapped(transposed, P("x"), P(), P("x"), out=P(), **more)(rows, shared, ct)
        np.testing.assert_allclose(found, rows @ ct, rtol=1e-6)
    own = mapped(lambda r, v, ct: transposed(r, v[0], ct)[None], P("x"), P("x"), P("x"), out=P("x"))
    np.testing.assert_allclose(own(rows, ct, ct), rows[:, None] * ct, rtol=1e-6)
    total = mapped(lambda v, ct: pb.linear_transpose(lambda v: lax.psum(v, "x"), v)(ct)[0], P("x"), P(), out=P("x"))
    np.testing.assert_allclose(total(ct, ct[:1]), np.repeat(ct[:1], 4, 0), rtol=1e-6)
    for primal, given in ((pb.ArrayType((3,), "float64"), ct), (np.arange(3), np.arange(12).reshape(4, 3))):
        with pytest.raises(pb.errors.GradientError, match="which tell whether devices share them"):
            mapped(lambda ct, p=primal: pb.linear_transpose(lambda v: 2 * v, p)(ct[0])[0], P("x"), out=P())(given)


def test_what_xla_counts_is_of_one_device_and_tables_say_so() -> None:
    spread = pb.shard_map(lambda x: pnp.sin(x) * 2.0, mesh=GRID, in_specs=P("a", "b"), out_specs=P("a", "b"))
    for f in (spread, pb.jit(lambda x: spread(x))):
        table = pb.cost(f, BIG)
        assert table.compiled is not None and table.compiled["flops"] * 8 == table.total.flops == BIG.size
        assert "it counts what one of 8 devices does" in table.text()
        assert "compiled by XLA, on each of 8 devices: " in pb.memory(f, BIG).text()
    assert "on 8 devices added up" in pb.profile(spread, BIG, runs=1).text()
    alone = pb.shard_map(lambda x: x * 2.0, mesh=ONE, in_specs=P("x"), out_specs=P("x"))
    assert "devices" not in pb.cost(alone, BIG).text() + pb.memory(alone, BIG).text()
