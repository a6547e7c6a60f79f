"""pmap on eight devices, against vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import P, lax

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
W = np.float32(2.0)

NAMED = {"axis_name": "i"}


def own_gradient(w: Any, v: Any) -> Any:
    return lax.pmean(pb.grad(lambda w: (w * v).sum())(w), "i")


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "alone": (lambda v: v * 2, (X,), {}),
    "psum": (lambda v: v / lax.psum(v, "i"), (X,), {"axis_name": "i"}),
    "other axes": (lambda v, w: v * w + lax.axis_index("i"), (X.T, X[0]), {**NAMED, "in_axes": (1, None), "out_axes": 1}),
    "from the end": (lambda v: v, (X.T,), {"in_axes": -1, "out_axes": -1}),
    "the same for all": (lambda v: lax.pmean(v, "i"), (X,), {"axis_name": "i", "out_axes": None}),
    "trees": (lambda d: {"a": d["x"] + 1, "b": (d["y"],)}, ({"x": X, "y": X},), {"in_axes": ({"x": 0, "y": None},)}),
    "fewer elements": (lambda v: lax.all_gather(v, "i"), (X[:4],), {"axis_name": "i"}),
    "groups": (lambda v: lax.psum(v, "i", axis_index_groups=[[0, 1, 2, 3], [7, 6, 5, 4]]), (X,), {"axis_name": "i"}),
    "of no argument": (lambda: lax.axis_index("i"), (), {"axis_name": "i", "axis_size": 4}),
    "gradient inside": (own_gradient, (W, X), {**NAMED, "in_axes": (None, 0)}),
    "gradient of a psum": (lambda v: pb.grad(lambda v: lax.psum((v**2).sum(), "i"))(v), (X,), {"axis_name": "i"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_is_a_vmap(name: str) -> None:
    f, args, options = CASES[name]
    found, wanted = pb.pmap(f, **options)(*args), pb.vmap(f, **options)(*args)
    assert pb.tree.structure(found) == pb.tree.structure(wanted)
    for one, other in zip(pb.tree.leaves(found), pb.tree.leaves(wanted)):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_under_other_transformations() -> None:
    f = lambda v: lax.psum(v**2, "i") * v  # noqa: E731
    mapped, batched = pb.pmap(f, axis_name="i"), pb.vmap(f, axis_name="i")
    np.testing.assert_allclose(pb.jit(mapped)(X), batched(X), rtol=1e-5)
    slopes = [pb.grad(lambda v, g=g: pnp.sum(g(v)))(X) for g in (mapped, batched)]  # type: ignore[misc]
    np.testing.assert_allclose(*slopes, rtol=1e-5, atol=1e-5)
    stack = np.stack([X, -X])
    np.testing.assert_allclose(pb.vmap(mapped)(stack), pb.vmap(batched)(stack), rtol=1e-5)


def test_one_element_is_on_each_device() -> None:
    found = pb.pmap(lambda v: v * 2, axis_name="i")(X)
    assert found.sharding.spec == P("i") and [shard.data.shape for shard in found.addressable_shards] == [(1, 3)] * 8
    chosen = pb.pmap(lambda v: v, devices=pb.devices()[4:])(X[:4])
    assert chosen.sharding.devices == tuple(pb.devices()[4:])


def test_arguments_that_are_static_named_or_given_away() -> None:
    traced = []

    def power(v: Any, n: int, *, plus: Any) -> Any:
        traced.append(n)
        return v**n + plus

    f = pb.pmap(power, static_broadcasted_argnums=1)
    for n in (2, 3, 2):
        np.testing.assert_allclose(f(X, n, plus=X), X**n + X, rtol=1e-5)
    assert traced == [2, 3]
    with pytest.raises(pb.errors.StaticArgumentError, match="must be hashable"):
        f(X, [2], plus=X)
    given = pb.device_put(X, pb.NamedSharding(pb.make_mesh((8,), ("pmap",)), P("pmap")))
    np.testing.assert_array_equal(pb.pmap(lambda v: v + 1, donate_argnums=0)(given), X + 1)
    tree = {"a": pb.pmap(lambda v: v)(X), "b": [pb.pmap(lambda v: -v)(X)], "c": X}  # more leaves than arguments
    found = pb.pmap(lambda tree, w: pb.tree.map(lambda v: v * w, tree), in_axes=(0, None), donate_argnums=0)(tree, W)
    np.testing.assert_array_equal(found["b"][0], -X * W)
    assert tree["a"].is_deleted()
    with pytest.raises(pb.errors.DonatedBufferError):
        np.asarray(given)


def test_replicated_state_may_decide_where_devices_meet() -> None:
    def step(v: Any, count: Any) -> Any:
        return lax.cond(count % 2 == 0, lambda: lax.pmean(v, "i"), lambda: v)

    f = pb.pmap(step, axis_name="i")
    np.testing.assert_allclose(f(X, np.full(8, 2)), np.tile(X.mean(0), (8, 1)), rtol=1e-5)
    np.testing.assert_array_equal(f(X, np.full(8, 3)), X)
    with pytest.raises(pb.errors.ShardingError, match="its predicate differed between devices along 'i', but psum over 'i' at"):
        f(X, np.arange(8))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pb.pmap(pb.pmap(lambda v: v))(X.reshape(2, 4, 3)), pb.errors.ShardingError, "inside another .* pb.vmap"),
        (
            lambda: pb.pmap(lambda v, n: v, static_broadcasted_argnums=1, donate_argnums=(1,))(X, 1),
            pb.errors.StaticArgumentError,
            "argument 1 .*both",
        ),
        (lambda: pb.pmap(lambda v: v)(np.ones((9, 1))), pb.errors.ShardingError, r"9 batch elements.* this process has 8\."),
        (lambda: pb.pmap(lambda v, w: v)(np.ones((4, 1)), np.ones(3)), pb.errors.AxisError, "argument w has 3 elements"),
        (lambda: pb.pmap(lambda v: v)(1.0), pb.errors.AxisError, "argument v"),
        (lambda: pb.pmap(lambda: 1.0)(), pb.errors.AxisError, "axis_size"),
        (lambda: pb.pmap(lambda v: v, in_axes=(0, 1))(X), pb.errors.AxisError, "of length 2, but 1 argument"),
        (lambda: pb.pmap(lambda v: v, 3), pb.errors.AxisError, "a string"),  # type: ignore[arg-type]
        (lambda: pb.pmap(lambda v: v, axis_size=0), pb.errors.AxisError, "positive integer"),
        (lambda: pb.pmap(lambda v: v, out_axes=2)(X), pb.errors.AxisError, "output"),
        (lambda: pb.pmap(lambda v: v, out_axes={"a": 0})(X), pb.errors.StructureError, "out_axes"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_results_of_one_are_arguments_of_another() -> None:
    x = np.arange(64.0).reshape(8, 8)
    made = pb.pmap(lambda x: 2 * x)(x)
    total = lambda x: x + pb.lax.psum(x, "i")  # noqa: E731
    np.testing.assert_array_equal(pb.pmap(total, axis_name="i")(made), 2 * x + 2 * x.sum(0))
    np.testing.assert_array_equal(pb.pmap(total, axis_name="i", in_axes=1, out_axes=1)(made), 2 * x + 2 * x.sum(1)[:, None])
    np.testing.assert_array_equal(pb.pmap(lambda x, y: x + y[1, 2], in_axes=(0, None), axis_name="i")(x, made), x + 20.0)
    few = pb.pmap(total, axis_name="i", devices=pb.devices()[:1:-1], donate_argnums=0)(made[:6])
    np.testing.assert_array_equal(few, 2 * x[:6] + 2 * x[:6].sum(0))
    np.testing.assert_array_equal(made, 2 * x)
    grid = pb.make_mesh((2, 4), ("a", "b"))
    np.testing.assert_array_equal(
        pb.pmap(total, axis_name="i")(pb.device_put(x, pb.NamedSharding(grid, pb.P("a")))), x + x.sum(0)
    )


def test_the_structure_of_the_result_is_that_of_the_call() -> None:
    f = pb.pmap(lambda v: {"a": v} if v.ndim == 1 else (v, v.sum()), out_axes=-1)
    first, second = f(X), f(X[..., None])
    for found, wanted in ((f(X), first), (f(X[..., None]), second)):
        assert pb.tree.structure(found) == pb.tree.structure(wanted)
    assert [one.shape for one in pb.tree.leaves([f(X), second])] == [(3, 8), (3, 1, 8), (8,)]
    np.testing.assert_array_equal(f(X)["a"], X.T)


def test_errors_name_leaves_that_are_passed_by_name_in_any_order() -> None:
    with pytest.raises(pb.errors.LeafError, match="argument a is 'text'"):
        pb.pmap(lambda v, *, b, a: v)(X, b=X, a="text")
    with pytest.raises(pb.errors.AxisError, match="argument b has 3 elements"):
        pb.pmap(lambda v, *, b, a: v)(X, b=np.ones(3), a=X)
