"""Operations between eight devices, against the same along the batch axes of two vmaps, which one device computes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import P, lax

GRID = pb.make_mesh((2, 4), ("a", "b"))
REVERSED = pb.sharding.Mesh(np.array(pb.devices())[::-1].reshape(2, 4), ("a", "b"))
GROUPS = [[0, 2], [3, 1]]
UNEVEN = [[1], [3, 0, 2]]
DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "complex64"]
VALUES = np.random.default_rng(0).integers(0, 3, (2, 4, 8, 3))

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "psum": lambda x: lax.psum(x, "b"),
    "psum over both": lambda x: lax.psum(x, ("a", "b")),
    "pmean": lambda x: lax.pmean(x, "a"),
    "pmax": lambda x: lax.pmax(x, "b"),
    "pmin": lambda x: lax.pmin(x, ("a", "b")),
    "all_gather": lambda x: lax.all_gather(x, "b", axis=1),
    "all_gather tiled": lambda x: lax.all_gather(x, ("a", "b"), tiled=True, axis=1),
    "psum_scatter": lambda x: lax.psum_scatter(x[:, :2].T, "a", scatter_dimension=0),
    "psum_scatter tiled": lambda x: lax.psum_scatter(x, ("a", "b"), tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "b", [(0, 1), (1, 3), (3, 0)]),
    "ppermute of none": lambda x: lax.ppermute(x, "b", []),
    "pshuffle": lambda x: lax.pshuffle(x, "b", [3, 1, 0, 2]),
    "all_to_all": lambda x: lax.all_to_all(x[:4], "b", 0, 1),
    "all_to_all backwards": lambda x: lax.all_to_all(x[:4].T, "b", 1, 0),
    "all_to_all tiled": lambda x: lax.all_to_all(x, "b", 0, 1, tiled=True),
    "all_to_all over both": lambda x: lax.all_to_all(x, ("a", "b"), 0, 1, tiled=True),
    "pbroadcast": lambda x: lax.pbroadcast(x, "b", 2),
    "pswapaxes": lambda x: lax.pswapaxes(x[:4], "b", 0),
    "axis_index": lambda x: (lax.axis_index("a") * 10 + lax.axis_index("b"))[None] * pnp.ones_like(x, dtype="int32"),
    "axis_index of both": lambda x: lax.axis_index(("b", "a"))[None] * pnp.ones_like(x, dtype="int32"),
    "groups of psum": lambda x: lax.psum(x, "b", axis_index_groups=GROUPS),
    "groups of pmax": lambda x: lax.pmax(x, "b", axis_index_groups=GROUPS),
    "groups of all_gather": lambda x: lax.all_gather(x, "b", axis_index_groups=GROUPS),
    "groups of psum_scatter": lambda x: lax.psum_scatter(x, "b", axis_index_groups=GROUPS, tiled=True),
    "groups of all_to_all": lambda x: lax.all_to_all(x, "b", 0, 1, axis_index_groups=GROUPS, tiled=True),
    "vmap": lambda x: pb.vmap(lambda row: lax.psum(row, "b") + lax.axis_index("b"))(x),
    "vmap of all_gather": lambda x: pb.vmap(lambda row: lax.all_gather(row, "b"), in_axes=1)(x),
    "vmap of psum_scatter": lambda x: pb.vmap(lambda row: lax.psum_scatter(row[:4], "b"), in_axes=1)(x),
    "uneven groups of psum": lambda x: lax.psum(x, "b", axis_index_groups=UNEVEN),
    "uneven groups of pmean": lambda x: lax.pmean(x, "b", axis_index_groups=UNEVEN),
    "uneven groups of pmax": lambda x: lax.pmax(x, "b", axis_index_groups=UNEVEN),
    "uneven groups of a number": lambda x: x * lax.psum(2, "b", axis_index_groups=UNEVEN),
    "Python's numbers": lambda x: x + lax.psum(1, "a") * lax.axis_size("b"),
    "no elements": lambda x: lax.psum(x[:0], "b"),
    "one element": lambda x: lax.psum(x[0, 0], "b"),
}
OF_EVERY_DTYPE = ["psum", "pmax", "all_gather", "psum_scatter tiled", "ppermute", "all_to_all tiled", "pbroadcast"]


def of_dtype(name: str) -> Any:
    if name == "complex64":
        return (VALUES + 1j * VALUES[::-1]).astype(name)
    return VALUES.astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def on_devices(f: Callable[[Any], Any], mesh: pb.sharding.Mesh = GRID, **options: Any) -> Callable[[Any], Any]:
    """A function of one batch element mapped over the first two axes, each element on a device."""
    return pb.shard_map(lambda x: f(x[0, 0])[None, None], mesh=mesh, in_specs=P("a", "b"), out_specs=P("a", "b"), **options)


def check(f: Callable[[Any], Any], x: Any, mesh: pb.sharding.Mesh = GRID) -> None:
    wanted = np.asarray(pb.vmap(pb.vmap(f, axis_name="b"), axis_name="a")(x))
    found = np.asarray(on_devices(f, mesh)(x))
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(
        found.astype("complex128"), wanted.astype("complex128"), rtol=1e-2 if found.itemsize < 4 else 1e-6
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation(name: str) -> None:
    check(OPERATIONS[name], of_dtype("float32"))


@pytest.mark.parametrize("name", OF_EVERY_DTYPE)
def test_every_dtype(name: str) -> None:
    for dtype in DTYPES:
        check(OPERATIONS[name], of_dtype(dtype))


@pytest.mark.parametrize("name", ["psum", "ppermute", "axis_index", "all_gather tiled"])
def test_devices_in_another_order(name: str) -> None:
    check(OPERATIONS[name], of_dtype("float32"), REVERSED)


# What is known of several axes that are as one: `x` has the values of the devices in row-major order of the names.
BOTH: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "psum": (lax.psum, lambda x: [x.sum(0)] * 8),
    "pmean": (lax.pmean, lambda x: [x.mean(0)] * 8),
    "pmax": (lax.pmax, lambda x: [x.max(0)] * 8),
    "ppermute": (lambda x, n: lax.ppermute(x, n, [(i, (3 * i) % 8) for i in range(1, 8)]), lambda x: [0 * x[0], *x[SENT[1:]]]),
    "pshuffle": (lambda x, n: lax.pshuffle(x, n, SENT), lambda x: x[SENT]),
    "all_gather": (lambda x, n: lax.all_gather(x, n, axis=1), lambda x: [x.swapaxes(0, 1)] * 8),
    "all_gather tiled": (lambda x, n: lax.all_gather(x, n, axis=-1, tiled=True), lambda x: [np.concatenate(x, 1)] * 8),
    "all_gather, shared": (lambda x, n: lax.all_gather(x, n, to="invarying"), lambda x: [x] * 8),
    "psum_scatter": (lax.psum_scatter, lambda x: x.sum(0)),
    "psum_scatter tiled": (lambda x, n: lax.psum_scatter(x, n, tiled=True), lambda x: x.sum(0)[:, None]),
    "all_to_all": (lambda x, n: lax.all_to_all(x, n, 0, 1), lambda x: [x[:, i].T for i in range(8)]),
    "all_to_all tiled": (lambda x, n: lax.all_to_all(x, n, 0, 0, tiled=True), lambda x: x.swapaxes(0, 1)),
    "pbroadcast": (lambda x, n: lax.pbroadcast(x, n, 5), lambda x: [x[5]] * 8),
    "axis_index": (lambda x, n: lax.axis_index(n) + 0 * x, lambda x: np.arange(8)[:, None, None] + 0 * x),
    "axis_size": (lambda x, n: lax.axis_size(n) * x, lambda x: 8 * x),
    "groups": (
        lambda x, n: lax.psum(x, n, axis_index_groups=[[0, 1, 2, 3, 4], [5, 6, 7]]),
        lambda x: [x[:5].sum(0)] * 5 + [x[5:].sum(0)] * 3,
    ),
}
SENT = [(3 * i) % 8 for i in range(8)]  # its own inverse: 3 * 3 is 1 modulo 8


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("i", "b")], ids=str)
@pytest.mark.parametrize("name", BOTH)
def test_several_axes_are_as_one(name: str, names: tuple[str, str]) -> None:
    f, formula = BOTH[name]
    x = VALUES.astype("float32")
    if names == ("b", "a") and name in ("ppermute", "pshuffle"):
        return  # refused, see REFUSED
    if "i" in names:  # a vmap's and a mesh's: elements of the first are along axis 0 of each device
        if name == "groups":
            return
        mesh = pb.make_mesh((4,), ("b",), devices=pb.devices()[:4])
        run = pb.shard_map(
            lambda x: pb.vmap(lambda x: f(x[0], names)[None], axis_name="i")(x),
            mesh=mesh,
            in_specs=P(None, "b"),
            out_specs=P(None, "b"),
        )
    else:
        run = on_devices(lambda x: f(x, names))
    found = np.asarray(run(x))
    order = (1, 0) if names == ("b", "a") else (0, 1)
    inverse = found.transpose(*order, *range(2, found.ndim))
    wanted = formula(x.transpose(*order, 2, 3).reshape(8, 8, 3))
    np.testing.assert_array_equal(inverse.reshape(8, *found.shape[2:]), np.asarray(wanted))


def test_over_several_axes_devices_meet_once() -> None:
    for f, kind in (
        (lax.psum, "all_reduce"),
        (lax.pmax, "all_reduce"),
        (lax.all_gather, "all_gather"),
        (lax.pmean, "all_reduce"),
    ):
        text = pb.jit(on_devices(lambda x, f=f: f(x, ("a", "b")))).lower(VALUES.astype("float32")).as_text()  # type: ignore[misc]
        assert text.count(f"stablehlo.{kind}") == 1


def test_what_all_have_after_a_gather_is_shared() -> None:
    x = VALUES[:, :, 0, 0].astype("float32")
    f = pb.shard_map(lambda x: lax.all_gather(x, ("a", "b"), to="invarying"), mesh=GRID, in_specs=P("a", "b"), out_specs=P())
    np.testing.assert_array_equal(f(x)[:, 0, 0], x.reshape(8))
    weights = np.arange(8.0, dtype="float32")
    slope = pb.grad(lambda x: (f(x)[:, 0, 0] ** 2 * weights).sum())(x)
    np.testing.assert_array_equal(slope, 2 * x * weights.reshape(2, 4))


def test_keys_are_moved() -> None:
    keys = pb.random.split(pb.random.key(0), 8).reshape(2, 4)
    f = pb.shard_map(
        lambda k: lax.ppermute(k, "b", [(0, 1), (1, 2), (2, 3), (3, 0)]), mesh=GRID, in_specs=P("a", "b"), out_specs=P("a", "b")
    )
    wanted = np.roll(np.asarray(pb.random.key_data(keys)), 1, axis=1)
    np.testing.assert_array_equal(pb.random.key_data(f(keys)), wanted)


def test_special_values() -> None:
    x = np.zeros((2, 4, 3), "float32")
    x[0, 1] = [np.inf, np.nan, -0.0]
    found = np.asarray(on_devices(lambda x: lax.pbroadcast(x, "b", 1))(x))
    np.testing.assert_array_equal(found[0], np.tile(x[0, 1], (4, 1)))
    assert np.signbit(found[0, :, 2]).all()
    x[1, 2] = [-np.inf, -3.0, 1e-3]
    for f in (lambda x: lax.pmax(x, "b"), lambda x: lax.pmin(x, "b")):
        for dtype in ("float16", "float32"):
            check(f, x.astype(dtype))


REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: lax.psum(x, "q"), pb.errors.AxisNameError, "no axis named 'q' here: those around this call are 'a', 'b'"),
    (lambda x: lax.ppermute(x, "b", [(0, 7)]), pb.errors.AxisError, "4 batch elements"),
    (lambda x: lax.ppermute(x, "b", [(0, 1), (2, 1)]), pb.errors.ShapeError, "at most once"),
    (lambda x: lax.all_to_all(x, "b", 0, 0), pb.errors.ShapeError, "must have that size"),
    (lambda x: lax.psum_scatter(x, "b"), pb.errors.ShapeError, "must have that size"),
    (lambda x: lax.psum_scatter(x[:4], ("a", "b")), pb.errors.ShapeError, "over 8 batch elements: axis 0 must have that size"),
    (lambda x: lax.all_gather(x, "b", axis_index_groups=[[0], [1, 2, 3]]), ValueError, "groups of one size"),
    (lambda x: lax.psum(x, ("a", "a")), pb.errors.AxisError, "names each axis once"),
    (lambda x: lax.ppermute(x, ("b", "a"), [(0, 1)]), pb.errors.AxisError, "write axis_name=\\('a', 'b'\\)"),
    (lambda x: lax.ppermute(x, ("a", "b"), [(0, 8)]), pb.errors.AxisError, "8 batch elements"),
    (lambda x: lax.pcast(x, "b", to="reduced"), ValueError, "varying"),
    (lambda x: lax.pbroadcast(x, "b", 4), IndexError, "no batch element 4"),
    (lambda x: operator.add(x, x) if lax.axis_index("b") else x, pb.errors.ConcretizationError, "shard_map"),
]


@pytest.mark.parametrize(("f", "error", "message"), REFUSED)
def test_errors(f: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        on_devices(f)(of_dtype("float32"))


def test_an_axis_is_there_inside_only() -> None:
    with pytest.raises(pb.errors.AxisNameError, match=r"pb\.shard_map over a mesh"):
        lax.psum(1.0, "a")
    with pytest.raises(pb.errors.AxisError, match="not known while a shard_map's function is traced"):

        def known(x: Any) -> Any:
            with pb.ensure_compile_time_eval():
                return lax.axis_index("a") + x

        on_devices(known)(of_dtype("float32"))
