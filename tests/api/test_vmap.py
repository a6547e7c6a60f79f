"""vmap: every way to say which axes are batched, against a loop, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import AxisError, LeafError, StructureError

batch = np.arange(24.0).reshape(4, 3, 2)
matrix = np.arange(6.0).reshape(3, 2) / 10


def work(x: Any, y: Any) -> Any:
    return pnp.sin(x) @ pnp.cos(y).T + pnp.sum(x)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_each_axis(axis: int) -> None:
    moved = np.moveaxis(batch, 0, axis)
    expected = np.stack([np.asarray(work(x, matrix)) for x in batch])
    np.testing.assert_allclose(np.asarray(pb.vmap(work, in_axes=(axis, None))(moved, matrix)), expected)
    np.testing.assert_allclose(np.asarray(pb.vmap(work, in_axes=[axis, None])(moved, matrix)), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_each_out_axis(axis: int) -> None:
    found = np.asarray(pb.vmap(lambda x: x * 2.0, out_axes=axis)(batch))
    np.testing.assert_allclose(found, np.moveaxis(batch * 2.0, 0, axis))


def test_trees_of_axes() -> None:
    def f(params: Any, x: Any) -> Any:
        return params["w"] * x + params["b"], {"w": params["w"]}

    params = {"w": np.arange(4.0), "b": np.float64(10.0)}
    out, rest = pb.vmap(f, in_axes=({"w": 0, "b": None}, 0))(params, np.arange(4.0))
    np.testing.assert_allclose(np.asarray(out), np.arange(4.0) ** 2 + 10)
    np.testing.assert_allclose(np.asarray(rest["w"]), np.arange(4.0))
    out, rest = pb.vmap(f, in_axes=({"w": 0, "b": None}, 0), out_axes=(0, {"w": 0}))(params, np.arange(4.0))
    np.testing.assert_allclose(np.asarray(out), np.arange(4.0) ** 2 + 10)


def test_axes_by_argument_name() -> None:
    f = pb.vmap(lambda x, scale, *, shift=0.0: x * scale + shift, in_axes={"x": 0})
    np.testing.assert_allclose(np.asarray(f(np.arange(3.0), 2.0)), np.arange(3.0) * 2)
    np.testing.assert_allclose(np.asarray(f(np.arange(3.0), scale=2.0, shift=1.0)), np.arange(3.0) * 2 + 1)
    g = pb.vmap(lambda x, scale: x * scale, in_axes={"scale": -1})
    np.testing.assert_allclose(np.asarray(g(2.0, np.ones((3, 4)))), 2 * np.ones((4, 3)))


def test_keywords_are_batched_along_axis_0() -> None:
    found = pb.vmap(lambda x, *, y: x * y)(np.arange(3.0), y=np.arange(3.0))
    np.testing.assert_allclose(np.asarray(found), np.arange(3.0) ** 2)


def test_unbatched_outputs() -> None:
    _, same = pb.vmap(lambda x, y: (x * 2.0, y + 1.0), in_axes=(0, None), out_axes=(0, None))(np.arange(3.0), np.float64(1.0))
    assert same.shape == () and float(same) == 2.0
    repeated = pb.vmap(lambda x: 5.0)(np.arange(3.0))
    np.testing.assert_allclose(np.asarray(repeated), [5.0, 5.0, 5.0])
    with pytest.raises(pb.errors.AxisError, match="None in out_axes"):
        pb.vmap(lambda x: x, out_axes=None)(np.arange(3.0))


def test_axis_size() -> None:
    found = pb.vmap(lambda: pnp.ones(2), axis_size=3)()
    assert found.shape == (3, 2)
    with pytest.raises(pb.errors.AxisError, match="axis_size"):
        pb.vmap(lambda x: x, in_axes=None)(np.arange(3.0))
    with pytest.raises(pb.errors.AxisError, match="axis_size is 4"):
        pb.vmap(lambda x: x, axis_size=4)(np.arange(3.0))


def test_sizes_that_differ_are_named_by_path() -> None:
    with pytest.raises(pb.errors.AxisError, match=r"params\['w'\] has size 4.*argument x has size 3"):
        pb.vmap(lambda params, x: params["w"] * x)({"w": np.arange(4.0)}, np.arange(3.0))


def test_axis_out_of_range_is_named_by_path() -> None:
    with pytest.raises(pb.errors.AxisError, match=r"argument x along axis 3.*f64\[4,3,2\]"):
        pb.vmap(lambda x: x, in_axes=3)(batch)
    with pytest.raises(pb.errors.AxisError, match="no axes"):
        pb.vmap(lambda x: x)(1.0)


@pytest.mark.parametrize(
    ("in_axes", "args", "error"),
    [
        ((0,), (1, 2), pb.errors.StructureError),
        (({"a": 0},), ({"b": np.ones(2)},), pb.errors.StructureError),
        ("0", (np.ones(2),), pb.errors.AxisError),
        ((0.5,), (np.ones(2),), pb.errors.AxisError),
        ({"z": 0}, (np.ones(2),), pb.errors.AxisError),
    ],
)
def test_axes_that_do_not_fit(in_axes: Any, args: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        pb.vmap(lambda *xs: xs[0] if xs else 0.0, in_axes=in_axes)(*args) if not isinstance(in_axes, dict) else pb.vmap(
            lambda x: x, in_axes=in_axes
        )(*args)


def test_zero_examples() -> None:
    found = pb.vmap(lambda x: pnp.sin(x) @ matrix)(np.zeros((0, 3)))
    assert found.shape == (0, 2) and found.dtype == np.float64


def test_nested() -> None:
    xs, ys = np.arange(3.0), np.arange(4.0)
    outer = pb.vmap(pb.vmap(lambda x, y: x * y, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_allclose(np.asarray(outer(xs, ys)), np.outer(xs, ys))
    np.testing.assert_allclose(np.asarray(pb.jit(outer)(xs, ys)), np.outer(xs, ys))


class TestNamedAxes:
    def test_sums(self) -> None:
        x = np.arange(4.0)
        found = pb.vmap(lambda v: v / pb.lax.psum(v, "i"), axis_name="i")(x)
        np.testing.assert_allclose(np.asarray(found), x / x.sum())
        found = pb.vmap(lambda v: v - pb.lax.pmean(v, "i"), axis_name="i")(x)
        np.testing.assert_allclose(np.asarray(found), x - x.mean())
        found = pb.vmap(lambda v: pb.lax.pmax(v, "i"), axis_name="i")(x)
        np.testing.assert_allclose(np.asarray(found), np.full(4, 3.0))

    def test_of_a_constant(self) -> None:
        found = pb.vmap(lambda v: v + pb.lax.psum(1, "i"), axis_name="i")(np.arange(4.0))
        np.testing.assert_allclose(np.asarray(found), np.arange(4.0) + 4)

    def test_index(self) -> None:
        found = pb.vmap(lambda v: v * pb.lax.axis_index("i"), axis_name="i")(np.ones(4))
        np.testing.assert_allclose(np.asarray(found), np.arange(4.0))

    def test_gather_and_permute(self) -> None:
        x = np.arange(3.0)
        found = pb.vmap(lambda v: pb.lax.all_gather(v, "i"), axis_name="i")(x)
        np.testing.assert_allclose(np.asarray(found), np.tile(x, (3, 1)))
        found = pb.vmap(lambda v: pb.lax.ppermute(v, "i", [(0, 1), (1, 2), (2, 0)]), axis_name="i")(x)
        np.testing.assert_allclose(np.asarray(found), np.roll(x, 1))

    def test_two_axes(self) -> None:
        x = np.arange(6.0).reshape(2, 3)
        f = pb.vmap(
            pb.vmap(lambda v: pb.lax.psum(v, "rows") + 10 * pb.lax.psum(v, "columns"), axis_name="columns"), axis_name="rows"
        )
        expected = x.sum(0, keepdims=True) + 10 * x.sum(1, keepdims=True)
        np.testing.assert_allclose(np.asarray(f(x)), np.broadcast_to(expected, (2, 3)))

    @pytest.mark.parametrize(
        "stack", ["jit of vmap", "vmap of jit", "grad of vmap", "vmap of grad", "jit of grad of vmap of jit"]
    )
    def test_under_other_transformations(self, stack: str) -> None:
        x = np.array([0.2, 0.5, 1.1])

        def normalized(v: Any) -> Any:
            return pnp.exp(v) / pb.lax.psum(pnp.exp(v), "i")

        def reference(x: Any) -> Any:
            return np.exp(x) / np.exp(x).sum()

        mapped = pb.vmap(pb.jit(normalized) if "of jit" in stack else normalized, axis_name="i")
        if stack == "vmap of grad":
            # each batch element differentiates its own output with respect to its input: the sum's other terms are not its own
            found = pb.vmap(pb.grad(lambda v: v * pb.lax.psum(v, "i")), axis_name="i")(x)
            np.testing.assert_allclose(np.asarray(found), x.sum() + np.sum(x) * np.ones(3))
            return
        if "grad" in stack:
            weights = np.array([1.0, -2.0, 0.5])
            f = pb.grad(lambda x: pnp.sum(mapped(x) * weights))
            f = pb.jit(f) if "jit of grad" in stack else f
            p = reference(x)
            np.testing.assert_allclose(np.asarray(f(x)), p * (weights - np.sum(p * weights)))
            return
        f = pb.jit(mapped) if "jit of vmap" in stack else mapped
        np.testing.assert_allclose(np.asarray(f(x)), reference(x))

    def test_unknown_name(self) -> None:
        with pytest.raises(pb.errors.AxisError, match="no axis named 'j'"):
            pb.vmap(lambda v: pb.lax.psum(v, "j"), axis_name="i")(np.ones(3))


# ---- trees with None: no leaves in arguments and outputs, a value in in_axes and out_axes ------------------------------

ROWS = np.arange(6, dtype="float32").reshape(3, 2)
TWICE = 2 * ROWS

NONE_IN_ARGUMENTS: dict[str, tuple[Any, Any]] = {
    "an int for all": (0, ({"a": ROWS, "b": None}, None)),
    "None for a whole argument": ((0, None), ({"a": ROWS, "b": None}, {"c": None})),
    "None for None": (({"a": 0, "b": None}, None), ({"a": ROWS, "b": None}, None)),
    "an axis for None": (({"a": 0, "b": 1}, 0), ({"a": ROWS, "b": None}, None)),
    "None first": (({"a": 0, "A": None}, None), ({"A": None, "a": ROWS}, None)),
    "in a list": (({"a": 0, "b": [None, 0]}, None), ({"a": ROWS, "b": [ROWS, None]}, None)),
    "beside what is not batched": (({"a": 0, "b": (None, None)}, None), ({"a": ROWS, "b": (None, 5.0)}, None)),
}


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", NONE_IN_ARGUMENTS)
def test_none_in_arguments(name: str, wrap: Any) -> None:
    in_axes, args = NONE_IN_ARGUMENTS[name]

    def f(tree: Any, other: Any) -> Any:
        assert {key: value is None for key, value in tree.items()} == {key: v is None for key, v in args[0].items()}
        return tree["a"] * 2, None

    out, none = wrap(pb.vmap(f, in_axes=in_axes))(*args)
    np.testing.assert_array_equal(out, TWICE)
    assert none is None


NONE_IN_OUTPUTS: dict[str, tuple[Any, Any, Any]] = {
    "None for None": (lambda x: (x * 2, {"a": None}), (0, None), (TWICE, {"a": None})),
    "an axis for None": (lambda x: (x * 2, {"a": None}), (0, {"a": 1}), (TWICE, {"a": None})),
    "an axis for a tree": (lambda x: (x * 2, {"a": None, "b": x * 2}), (0, -1), (TWICE, {"a": None, "b": TWICE.T})),
    "by name": (lambda x: (x * 2, {"a": None, "b": x * 2}), (0, {"a": None, "b": 1}), (TWICE, {"a": None, "b": TWICE.T})),
    "the same for all": (lambda x: (x * 2, [3.0, None]), (0, [None, None]), (TWICE, [3.0, None])),
    "nothing else": (lambda x: None, 0, None),
    "nothing else, None": (lambda x: [None], None, [None]),
}


@pytest.mark.parametrize("name", NONE_IN_OUTPUTS)
def test_none_in_outputs(name: str) -> None:
    f, out_axes, expected = NONE_IN_OUTPUTS[name]
    found = pb.vmap(f, out_axes=out_axes)(ROWS)
    assert pb.tree.structure(found) == pb.tree.structure(expected)
    for one, other in zip(pb.tree.leaves(found), pb.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_none() -> None:
    assert pb.vmap(lambda x: x, axis_size=3)(None) is None
    with pytest.raises(AxisError, match="no batched argument"):
        pb.vmap(lambda x: x)(None)


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"in_axes": ({"a": 0, "b": (0, 1), "c": 0},)}, r"argument tree, .* does not fit: tree\['b'\] is a tuple of 3 elem"),
    ({"in_axes": ({"a": 0},)}, r"tree\['b'\] is a tuple where the entry for it has nothing\."),
    ({"in_axes": ({"a": [0], "b": 0, "c": 0},)}, r"tree\['a'\] is a leaf where the entry for it has a list"),
    ({"in_axes": ({"a": 0, "b": 0, "c": (0,)},)}, r"tree\['c'\] is None where the entry for it has a tuple"),
    ({"in_axes": ({"a": 0, "b": (0, 0, "x"), "c": 0},)}, r"argument tree\['b'\]\[2\] must be an int or None"),
    (
        {"out_axes": (0, {"a": 0, "c": 1})},
        r"does not fit: output\[1\] is a dict of keys 'a', 'b' where .* keys 'a', 'c'",
    ),
    ({"out_axes": (0, (0, 1))}, r"output\[1\] is a dict where the entry for it has a tuple"),
    ({"out_axes": (0,)}, r"output is a tuple of 2 elements where the entry for it has 1 element\."),
    ({"out_axes": (0, {"a": 0, "b": None})}, r"None in out_axes for output\[1\]\['b'\], of type f32\[2\]"),
    ({"out_axes": (0, {"a": 0, "b": 7})}, r"the batch axis of output\[1\]\['b'\] at 7, .* f32\[3,2\], whose axes are 0 to 1"),
    ({"axis_size": -1}, "axis_size must be a non-negative integer, but is -1"),
    ({"axis_size": 3.0}, "axis_size must be a non-negative integer, but is 3.0"),
    ({"axis_size": 4}, "axis_size is 4; argument tree"),
    ({"axis_name": ["a"]}, "axis_name must be hashable"),
]


@pytest.mark.parametrize(("options", "message"), MISFITS, ids=str)
def test_misfits_are_named_by_path(options: dict[str, Any], message: str) -> None:
    tree = {"a": ROWS, "b": (ROWS, ROWS, ROWS), "c": None}
    with pytest.raises((AxisError, StructureError), match=message):
        pb.vmap(lambda tree: (tree["a"], {"a": None, "b": tree["a"]}), **options)(tree)


def test_what_is_no_name_of_a_mesh_axis_is_refused() -> None:
    with pytest.raises(TypeError, match="spmd_axis_name"):
        pb.vmap(lambda x: x, spmd_axis_name=3)  # type: ignore[arg-type]


def test_an_integer_of_any_kind_is_an_axis_size() -> None:
    assert pb.vmap(lambda: pnp.zeros(2), axis_size=np.int64(3))().shape == (3, 2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("f", "in_axes", "other", "expected"),
    [
        (lambda x, name: {"double": 2.0 * x}[name], (0, None), "double", matrix * 2),
        (lambda x, n: sum([x] * n), (0, None), 3, matrix * 3),
        (lambda x, m: m["act"](x) + m["w"], (0, {"act": None, "w": 0}), {"act": abs, "w": matrix}, matrix * 2),
        (lambda x, n: sum([x] * n), {"x": 0}, 3, matrix * 3),
        (lambda x, table: table.at[0].set(0.0) + x, (0, None), np.ones(2), matrix + [0, 1]),
    ],
)
def test_what_is_not_batched_may_be_anything(f: Any, in_axes: Any, other: Any, expected: Any, compiled: bool) -> None:
    def call(x: Any) -> Any:
        return pb.vmap(f, in_axes=in_axes)(x, other)

    np.testing.assert_allclose(np.asarray(pb.jit(call)(matrix) if compiled else call(matrix)), expected)


def test_what_is_batched_is_an_array() -> None:
    with pytest.raises(LeafError, match="argument name is 'double'"):
        pb.vmap(lambda x, name: x)(matrix, "double")


@pytest.mark.parametrize("calls_before", range(4))
def test_a_compiled_function_asks_for_the_axes_around_each_call(calls_before: int) -> None:
    """As batch normalisation does that also runs outside of a vmap, and is called with what the vmap closes over."""

    @pb.jit
    def summed(x: Any) -> Any:
        try:
            return 100.0 * pb.lax.psum(x, "i")
        except AxisError:
            return x

    two = pnp.asarray(2.0)
    assert [float(summed(two)) for _ in range(calls_before)] == [2.0] * calls_before
    found = pb.vmap(lambda x: summed(two) + x, axis_name="i")(np.arange(3.0))
    assert found.tolist() == [600.0, 601.0, 602.0]
    assert float(summed(two)) == 2.0
