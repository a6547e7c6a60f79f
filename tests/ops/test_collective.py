"""Collectives over a named vmap axis, under every order of transformations."""

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback.control.call import bind_call
from pullback.core.array import as_array
from pullback.core.axes import Axis, AxisOwner, named_axis
from pullback.core.errors import AxisError, AxisNameError, ShapeError
from pullback.core.tracing import type_of
from pullback.engine.compile import lower_to_text
from pullback.ops import collective as c
from pullback.ops.arithmetic import add, mul
from pullback.ops.broadcast import reduce_sum
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal
from pullback.ops.trigonometric import sin
from pullback.testing.checks import batched, check_adjoint, check_numerically, check_staged
from pullback.transforms.batch import BatchTrace
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import linearize_flat
from pullback.transforms.stage import stage

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
SQUARES = RNG.normal(size=(4, 4, 2))


def vmap(function, name="i", size=4):
    """vmap of a function of one argument and result, over a named axis."""
    over = batched(lambda *xs: [function(*xs)], [True], size, name)
    return lambda x: over(as_array(x) if isinstance(x, np.ndarray) else x)[0]


def jit(function):
    """A function of one argument, staged and called as one operation."""

    def called(x):
        program, captures = stage(lambda y: [function(y)], [type_of(x)])
        return bind_call(program, (*captures, x))[0]

    return called


def host(x):
    return np.asarray(as_array(x).host)


def same(x):
    return np.broadcast_to(x, (4, *np.shape(x)))


# operation, example, and what all examples together give
CASES = {
    "psum": (lambda x: c.over("i", c.psum, x), X, lambda x: same(x.sum(0))),
    "pmean": (lambda x: lax.pmean(x, "i"), X, lambda x: same(x.mean(0))),
    "pmax": (lambda x: c.over("i", c.pmax, x), X, lambda x: same(x.max(0))),
    "pmin": (lambda x: c.over("i", c.pmin, x), X, lambda x: same(x.min(0))),
    "all_gather": (lambda x: lax.all_gather(x, "i"), X, same),
    "all_gather_1": (lambda x: lax.all_gather(x, "i", axis=1), X, lambda x: same(x.T)),
    "ppermute": (
        lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0)]),
        X,
        lambda x: np.stack([x[3], x[0], x[1], 0 * x[0]]),
    ),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0), SQUARES, lambda x: x.transpose(1, 0, 2)),
    "all_to_all_01": (lambda x: lax.all_to_all(x, "i", 0, 1), SQUARES, lambda x: x.transpose(1, 2, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    operation, x, expected = CASES[name]
    np.testing.assert_allclose(host(vmap(operation)(x)), expected(x), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_the_whole(name):
    operation, x, _ = CASES[name]
    check_numerically(lambda y: [vmap(operation)(y)], [as_array(x)], RNG, name)
    check_adjoint(lambda y: [vmap(operation)(y)], [as_array(x)], RNG, name)
    check_adjoint(lambda y: [vmap(lambda z: sin(operation(mul(z, z))))(y)], [as_array(x)], RNG, name)


@pytest.mark.parametrize("name", CASES)
def test_staged(name):
    operation, x, expected = CASES[name]
    check_staged(lambda y: [vmap(operation)(y)], [as_array(x)], name)  # vmap inside jit
    np.testing.assert_allclose(host(vmap(jit(operation))(x)), expected(x), rtol=1e-12)  # jit inside vmap
    np.testing.assert_allclose(host(vmap(jit(jit(operation)))(x)), expected(x), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_another_vmap_inside_and_outside(name):
    operation, x, expected = CASES[name]
    many = np.stack([x, 2 * x, x - 1])
    wanted = np.stack([expected(y) for y in many])
    np.testing.assert_allclose(host(vmap(vmap(operation), "j", 3)(many)), wanted, rtol=1e-12)
    inside = vmap(vmap(operation, "j", 3))(np.moveaxis(many, 0, 1))
    np.testing.assert_allclose(host(inside), np.moveaxis(wanted, 0, 1), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("pmax", "pmin")])
def test_the_transpose_within_each_example(name):
    """Per example, J^T w is the adjoint of the map of all examples at once, since cotangents travel between them."""
    operation, x, expected = CASES[name]
    w = RNG.normal(size=np.shape(expected(x)))
    weights = as_array(w)

    def pull(y, v):
        return linearize_flat(lambda z: [operation(z)], [y]).pull([v])[0]

    over = batched(lambda y, v: [pull(y, v)], [True, True], 4, "i")
    back = host(over(as_array(x), weights)[0])
    v = RNG.normal(size=np.shape(x))
    np.testing.assert_allclose((back * v).sum(), (w * expected(v)).sum(), rtol=1e-10)


def test_constants_are_seen_by_the_owner():
    def count(x):
        return add(x, c.over("i", c.psum, literal(1, x)))

    np.testing.assert_allclose(host(vmap(count)(X)), X + 4)
    np.testing.assert_allclose(host(vmap(jit(count))(X)), X + 4)
    check_staged(lambda x: [vmap(count)(x)], [as_array(X)], "constant")
    check_staged(lambda x: [vmap(jit(count))(x)], [as_array(X)], "constant")


def test_tangents_of_constants_are_seen_by_the_owner():
    def inner(x):
        one = as_array(np.float64(3.0))
        value, tangent = jvp_flat(lambda y: [c.over("i", c.psum, mul(y, y))], [one], [as_array(np.float64(1.0))])
        return add(x, add(value[0], tangent[0]))

    expected = X + 4 * 9 + 4 * 6
    np.testing.assert_allclose(host(vmap(inner)(X)), expected)
    check_staged(lambda x: [vmap(inner)(x)], [as_array(X)], "jvp of a constant")


SHARED = {
    "psum": (lambda z: lax.psum(z * z, "i"), lambda w: 4 * w**2),
    "pmean": (lambda z: lax.pmean(z * z, "i"), lambda w: w**2),
    "all_gather": (lambda z: lax.all_gather(z * z, "i").sum(0), lambda w: 4 * w**2),
    "ppermute": (lambda z: lax.ppermute(z * z, "i", [(0, 1), (1, 2), (2, 3), (3, 0)]), lambda w: w**2),
    "psum_scatter": (lambda z: lax.psum_scatter(pb.numpy.stack([z * z] * 4), "i"), lambda w: 4 * w**2),
}


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("outside", ["grad", "jvp", "vmap"])
def test_tangents_of_what_all_share_are_seen_by_the_owner(name, outside):
    """Inside the vmap a forward derivative at a value that only a transformation outside of it traces."""
    function, expected = SHARED[name]
    rule = pb.custom_jvp(function)
    rule.defjvp(lambda primals, tangents: pb.jvp(function, primals, tangents))
    w = np.array([1.5, -0.5, 2.0])

    def by(inner):
        return lambda w: (pb.vmap(inner, in_axes=(None, 0), axis_name="i")(w, np.arange(4.0))).sum()

    tangents = by(lambda w, _: pb.jvp(function, (w,), (w,))[1])  # twice the value, since that is a square
    if outside == "vmap":
        found, wanted = pb.vmap(tangents)(np.stack([w, -w, 3 * w])), 8 * expected(w).sum() * np.array([1, 1, 9])
    elif outside == "jvp":
        found, wanted = pb.jvp(tangents, (w,), (w,))[1], 16 * expected(w).sum()
    else:
        found, wanted = pb.grad(tangents)(w), 16 * expected(w) / w
        np.testing.assert_allclose(pb.grad(by(lambda w, _: rule(w)))(w), wanted / 2, rtol=1e-6)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_axis_index():
    def index(x):
        return mul(x, convert_element_type(c.over("i", c.axis_index), new_dtype=np.dtype(np.float64)))

    expected = X * np.arange(4.0)[:, None]
    np.testing.assert_allclose(host(vmap(index)(X)), expected)
    np.testing.assert_allclose(host(vmap(jit(index))(X)), expected)
    check_staged(lambda x: [vmap(index)(x)], [as_array(X)], "axis_index")
    check_staged(lambda x: [vmap(jit(index))(x)], [as_array(X)], "axis_index")
    check_adjoint(lambda x: [vmap(index)(x)], [as_array(X)], RNG, "axis_index")


def test_extremes_share_the_derivative():
    x = as_array(np.array([1.0, 3.0, 3.0, 2.0]))
    linearized = linearize_flat(lambda y: [reduce_sum(vmap(lambda z: c.over("i", c.pmax, z))(y), axes=(0,))], [x])
    np.testing.assert_allclose(host(linearized.pull([as_array(np.float64(1.0))])[0]), [0, 2, 2, 0])


def test_a_name_that_no_vmap_owns():
    with pytest.raises(AxisError, match="no axis named 'k'"):
        c.over("k", c.psum, as_array(1.0))
    with pytest.raises(AxisError, match="no axis named 'k' here: those around this call are 'i'"):
        vmap(lambda x: c.over("k", c.psum, x))(X)


def test_wrong_arguments():
    with pytest.raises(ShapeError, match="at most once"):
        vmap(lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]))(X)
    with pytest.raises(ShapeError, match="split_axis=0 must have that size"):
        vmap(lambda x: lax.all_to_all(x, "i", 0, 0))(X)
    with pytest.raises(AxisError, match="new axis at 5"):
        vmap(lambda x: c.over("i", c.all_gather, x, axis_size=4, axis=5))(X)


# ---- axes, tiles, several names, groups -------------------------------------------------------------------------------

CUBE = np.arange(24.0).reshape(2, 3, 4)  # 2 and 3 batch elements


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_all_gather_along_each_axis(axis):
    x = CUBE[0]
    expected = np.stack(list(x), axis)
    found = pb.vmap(lambda x: lax.all_gather(x, "i", axis=axis), axis_name="i", out_axes=None)(x)
    np.testing.assert_array_equal(found, expected)
    (gradient,) = pb.vjp(lambda x: pb.vmap(lambda x: lax.all_gather(x, "i", axis=axis), axis_name="i")(x), x)[1](
        np.stack([expected * weight for weight in (1.0, 2.0, 3.0)])
    )
    np.testing.assert_array_equal(gradient, 6 * x)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_all_gather_tiled(axis):
    found = pb.vmap(lambda x: lax.all_gather(x, "i", axis=axis, tiled=True), axis_name="i", out_axes=None)(CUBE)
    np.testing.assert_array_equal(found, np.concatenate(list(CUBE), axis))


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_all_gather_over_several_names(axis, tiled):
    def f(x):
        return lax.all_gather(x, ("i", "j"), axis=axis, tiled=tiled)

    found = pb.vmap(pb.vmap(f, axis_name="j", out_axes=None), axis_name="i", out_axes=None)(CUBE)
    rows = list(CUBE.reshape(6, 4))
    np.testing.assert_array_equal(found, np.concatenate(rows, axis) if tiled else np.stack(rows, axis))


@pytest.mark.parametrize(("split", "concat"), [(0, 0), (0, 1), (1, 0), (-1, -2), (1, 1)])
def test_all_to_all(split, concat):
    x = np.arange(2 * 4 * 6.0).reshape(2, 4, 6)
    blocks = [np.split(one, 2, split) for one in x]
    expected = np.stack([np.concatenate([blocks[source][to] for source in range(2)], concat) for to in range(2)])
    found = pb.vmap(lambda x: lax.all_to_all(x, "i", split, concat, tiled=True), axis_name="i")(x)
    np.testing.assert_array_equal(found, expected)
    square = np.arange(2 * 2 * 2.0).reshape(2, 2, 2)
    expected = [np.stack([np.take(square[source], to, split) for source in range(2)], concat) for to in range(2)]
    found = pb.vmap(lambda x: lax.all_to_all(x, "i", split, concat), axis_name="i")(square)
    np.testing.assert_array_equal(found, np.stack(expected))


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize(("split", "concat"), [(0, 0), (0, 1), (1, 0), (2, 1), (1, 2)])
def test_several_names_are_one_axis_to_all_to_all(split, concat, tiled):
    x = pb.numpy.arange(6 * 6 * 6 * 12).reshape(6, 6, 6, 12)

    def of(names):
        return lambda part: lax.all_to_all(part, names, split, concat, tiled=tiled)

    wanted = pb.vmap(of("k"), axis_name="k")(x) if split < 2 or tiled else None
    if wanted is None:
        with pytest.raises(ShapeError, match="needs their product"):
            pb.vmap(pb.vmap(of(("i", "j")), axis_name="j"), axis_name="i")(x.reshape(2, 3, 6, 6, 12))
        return
    found = pb.vmap(pb.vmap(of(("i", "j")), axis_name="j"), axis_name="i")(x.reshape(2, 3, 6, 6, 12))
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_a_python_number_is_counted():
    sizes = []
    pb.vmap(lambda x: sizes.append((lax.psum(1, "i"), lax.psum(0.5, ("i",)))) or x, axis_name="i")(CUBE)
    assert sizes == [(2, 1.0)]
    assert type(sizes[0][0]) is int


REFUSALS = [
    (lambda x: lax.all_gather(x, "i", axis=2), AxisError, "all_gather of an array with axes 0 to 1: axis 2 is out of bounds"),
    (lambda x: lax.all_gather(x, "i", axis=1, tiled=True), AxisError, "the axes are 0 to 0"),
    (lambda x: lax.all_gather(x[0], "i", tiled=True), AxisError, "there are no axes"),
    (lambda x: lax.all_to_all(x, "i", 1, 0), AxisError, "all_to_all of an array with axis 0 alone: axis 1 is out of bounds"),
    (
        lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
        ShapeError,
        r"is no multiple of 3\. Pad the axis\. At ",
    ),
    (lambda x: lax.ppermute(x, "i", [(0, 3)]), AxisError, r"cannot send along .* from 0 to 2\. At "),
    (lambda x: lax.ppermute(x, ("i", "j"), [(0, 1)]), AxisNameError, "no axis named 'j'"),
    (lambda x: lax.psum(x, ("i", "i")), AxisError, "names each axis once"),
    (lambda x: lax.all_gather(x, "i", to="reduced"), ValueError, 'to="varying" or to="invarying"'),
    (lambda x: lax.all_gather(x, "i", to="invarying", axis_index_groups=[[0, 1, 2]]), ValueError, 'has no to="invarying"'),
    (lambda x: lax.pmax(x + 1j, "i", axis_index_groups=[[0, 1], [2]]), ValueError, "groups of one size|of one size"),
    (lambda x: lax.pshuffle(x, "i", [0, 0, 1]), AxisError, "needs a permutation of 0 to 2"),
]


@pytest.mark.parametrize(("f", "error", "message"), REFUSALS)
def test_refusals(f, error, message):
    with pytest.raises(error, match=message):
        pb.vmap(f, axis_name="i")(CUBE[0])


MOVING, REDUCING = ["all_gather", "all_to_all", "psum_scatter"], ["psum", "pmean", "pmax", "pmin"]
NO_GROUPS = [([[0, 1], [2]], MOVING), *[(g, MOVING + REDUCING) for g in ([[0, 1]], [[0, 1, 1]], [[0, 1, 3]], [[], [0, 1, 2]])]]


@pytest.mark.parametrize(("groups", "name"), [(groups, name) for groups, names in NO_GROUPS for name in names])
def test_groups_that_are_none_are_refused(name, groups):
    more = (0, 0) if name == "all_to_all" else ()
    with pytest.raises(ValueError, match=f"{name}'s axis_index_groups must have each of the numbers 0 to 2"):
        pb.vmap(lambda x: getattr(lax, name)(x, "i", *more, axis_index_groups=groups), axis_name="i")(CUBE[0])


GROUPS = [[0, 3], [2, 1]]


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda x: lax.psum(x, "i", axis_index_groups=GROUPS), lambda g: np.broadcast_to(g.sum(0), g.shape)),
        (lambda x: lax.pmean(x, "i", axis_index_groups=GROUPS), lambda g: np.broadcast_to(g.mean(0), g.shape)),
        (lambda x: lax.pmax(x, "i", axis_index_groups=GROUPS), lambda g: np.broadcast_to(g.max(0), g.shape)),
        (lambda x: lax.pmin(x, "i", axis_index_groups=GROUPS), lambda g: np.broadcast_to(g.min(0), g.shape)),
        (lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS), lambda g: np.stack([g, g])),
        (lambda x: lax.psum_scatter(x, "i", axis_index_groups=GROUPS), lambda g: g.sum(0)),
        (lambda x: lax.all_to_all(x, "i", 0, 0, axis_index_groups=GROUPS), lambda g: g.swapaxes(0, 1)),
        (lambda x: x + lax.psum(1, "i", axis_index_groups=GROUPS), lambda g: g + 2),
    ],
)
def test_each_group_is_as_an_axis_of_its_own(f, want):
    x = np.random.default_rng(0).normal(size=(4, 2, 3)).astype("float32")
    expected = [None] * 4
    for group in GROUPS:
        for number, row in zip(group, want(x[group])):
            expected[number] = row
    np.testing.assert_allclose(pb.vmap(f, axis_name="i")(x), np.stack(expected), rtol=1e-6)


def test_over_no_axes_nothing_is_done():
    x = np.arange(6.0).reshape(2, 3)
    for f in (lax.psum, lax.pmean, lax.pmax, lax.all_gather):
        np.testing.assert_array_equal(f(x, ()), x)
    for tiled in (False, True):
        np.testing.assert_array_equal(lax.all_to_all(x, (), 0, 1, tiled=tiled), x)
    np.testing.assert_array_equal(lax.psum_scatter(x, (), tiled=True), x)
    assert lax.axis_size(()) == 1 and int(lax.axis_index(())) == 0


def test_groups_of_several_sizes():
    x, groups = np.random.default_rng(0).normal(size=(4, 3)).astype("float32"), [[2], [3, 0, 1]]
    functions = {"psum": np.sum, "pmean": np.mean, "pmax": np.max, "pmin": np.min}
    for name, combine in functions.items():
        found = pb.vmap(lambda x, name=name: getattr(lax, name)(x, "i", axis_index_groups=groups), axis_name="i")(x)
        wanted = np.stack([combine(x[[0, 1, 3]], 0)] * 2 + [x[2]] + [combine(x[[0, 1, 3]], 0)])
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    counts = pb.vmap(lambda x: x + lax.psum(1, "i", axis_index_groups=groups), axis_name="i")(np.zeros(4, "int32"))
    np.testing.assert_array_equal(counts, [3, 3, 1, 3])


# ---- lowering asks the owner of the axis ------------------------------------------------------------------------------


class Mesh(AxisOwner):
    """An axis that still exists in compiled code, as one of a mesh of devices will."""

    __slots__ = ()
    transformation = "mesh"

    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def lower(self, primitive, write, args, params):
        assert (primitive, params) == (c.psum, {"axis_name": "i"})
        (x,) = args
        return write.elementwise("stablehlo.multiply", x, write.constant(self.axis.size, x.type))


def test_an_owner_lowers_the_collectives_over_its_axis():
    with named_axis("i", Mesh(Axis(4, "i"))):
        program, _ = stage(lambda x: [sin(c.over("i", c.psum, x))], [type_of(as_array(X))])
        assert [equation.primitive.name for equation in program.equations] == ["psum", "sin"]
        assert "stablehlo.multiply" in lower_to_text(program)


def test_without_an_owner_that_can_lower_it_is_an_error():
    with named_axis("i", Mesh(Axis(4, "i"))):
        program, _ = stage(lambda x: [c.over("i", c.psum, x)], [type_of(as_array(X))])
    with pytest.raises(AxisError, match="no axis named 'i'"):
        lower_to_text(program)
    with named_axis("i", BatchTrace(Axis(4, "i"))), pytest.raises(AxisError, match=r"psum .* cannot be compiled inside vmap"):
        lower_to_text(program)


ROWS = np.arange(24.0).reshape(4, 6)[:, :4]

# operation of pb.lax, example, and what all examples together give
PUBLIC = {
    "psum counts bools": (lambda x: lax.psum(x > 2, "i"), X * 0 + 3, np.full((4, 3), 4, np.int32)),
    "axis_index of several": (lambda x: lax.axis_index(("i",)), X, np.arange(4, dtype=np.int32)),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i"), ROWS, ROWS.sum(0)),
    "psum_scatter, last axis": (lambda x: lax.psum_scatter(x, "i", scatter_dimension=-1), ROWS[:, None], ROWS.sum(0)[:, None]),
    "psum_scatter, tiled": (
        lambda x: lax.psum_scatter(x, "i", tiled=True),
        np.tile(ROWS, 2),
        np.tile(ROWS, 2).sum(0).reshape(4, 2),
    ),
    "pswapaxes": (lambda x: lax.pswapaxes(x, "i", 0), ROWS, ROWS.T),
}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", PUBLIC)
def test_functions_of_trees(name, bits):
    operation, x, expected = PUBLIC[name]
    with pb.default_bits(bits):
        for function in (pb.vmap(operation, axis_name="i"), pb.vmap(pb.jit(operation), axis_name="i")):
            found = np.asarray(function(x))
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype


def test_psum_scatter_needs_an_axis_of_that_size():
    with pytest.raises(ShapeError):
        pb.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(X)
    with pytest.raises(ShapeError, match="psum_scatter cannot cut axis 0"):
        pb.vmap(lambda x: lax.psum_scatter(x, "i", tiled=True), axis_name="i")(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: pb.lax.cond(x > 0, lambda c: pb.lax.psum(c, "i"), lambda c: c, x),
        lambda x: pb.lax.switch((x > 0).astype("int32"), [lambda c: c, lambda c: c + pb.lax.axis_index("i")], x),
        lambda x: pb.lax.while_loop(lambda c: c < 10, lambda c: c * 2 + 5 + pb.lax.pmax(c, "i"), x),
    ],
    ids=["cond", "switch", "while_loop"],
)
def test_elements_that_run_one_by_one_have_no_collectives(function):
    x = np.array([-1.2, 0.3, 0.9, 2.1], np.float32)
    with pytest.raises(pb.errors.AxisError, match='strategy="map"'):
        pb.vmap(function, strategy="map", axis_name="i")(x)


def test_branches_of_another_vmap_are_seen_by_the_owner():
    branch = lambda v: lax.psum(lax.psum(v, "i") * 0.2, "i")  # noqa: E731  (the second of what all elements share)
    pair = lambda v: pb.numpy.stack([v, v * 2])  # noqa: E731
    chosen = pb.vmap(lambda v: pb.vmap(lambda v: lax.cond(v[0] > 0, branch, pb.numpy.sin, v))(pair(v)), axis_name="i")
    always = pb.vmap(lambda v: pb.vmap(branch)(pair(v)), axis_name="i")
    x = np.arange(1.0, 7.0).reshape(3, 2)
    slopes = [pb.grad(lambda x, f=f: pb.numpy.sum(f(x) * x[:, None] ** 2))(x) for f in (chosen, always)]
    np.testing.assert_allclose(*slopes)
