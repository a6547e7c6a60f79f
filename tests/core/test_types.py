"""Types of arrays hold plain ints, whatever counted the elements, and have room for what later layers say of an array."""

from __future__ import annotations

import enum
import pickle
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.core.types import array_type


class Size(enum.IntEnum):
    ROWS = 37
    COLUMNS = 41


class Count(int):
    """An int that is more than an int."""


class Fraction(float):
    """A float that is more than a float."""


SIZES: dict[str, Any] = {"IntEnum": Size.ROWS, "np.int64": np.int64(43), "np.uint8": np.uint8(47), "subclass": Count(53)}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_shapes_hold_plain_ints(size: Any) -> None:
    for type in (pb.ArrayType((size, 2)), array_type((size, 3), np.dtype("float32")), pb.ArrayType((4,)).with_shape((size, 5))):
        assert [one.__class__ for one in type.shape] == [int, int]
    for made in (
        pb.numpy.zeros((size, 6)),
        pb.numpy.broadcast_to(1.0, (size, 7)),
        pb.numpy.reshape(np.ones(int(size)), (size,)),
    ):
        assert all(one.__class__ is int for one in made.shape)
        assert not any(isinstance(one, enum.Enum) for one in pb.xpr(lambda x, made=made: x + made, made).input_types[0].shape)


@pytest.mark.parametrize("size", [2.0, 2.5, "2", None])
def test_a_size_is_an_integer(size: Any) -> None:
    with pytest.raises(TypeError):
        pb.ArrayType((size, 3))


def test_a_size_is_not_negative() -> None:
    with pytest.raises(pb.errors.ShapeError, match=r"sizes of at least 0, but got the shape \(3, -1\)"):
        pb.ArrayType((3, -1))


def test_shapes_inside_vmap_hold_plain_ints() -> None:
    seen: list[Any] = []

    def f(y: Any) -> Any:
        seen.extend(y.shape)
        return y / y.shape[0]

    x = np.arange(667, dtype="float32").reshape(23, 29)
    inner = pb.vmap(f)(x)
    np.testing.assert_allclose(inner, x / 29, rtol=1e-6)
    outside = pb.vmap(lambda x: pb.numpy.sum(x, axis=0), in_axes=1)(pb.vmap(pb.vmap(lambda y: y * 2))(x))
    seen.extend((*inner.shape, *outside.shape))
    assert {one.__class__ for one in seen} == {int}
    np.testing.assert_allclose(inner / inner.shape[0], x / 29 / 23, rtol=1e-6)


@pytest.mark.parametrize("number", [Size.ROWS, Count(3), Fraction(0.5)], ids=["IntEnum", "int", "float"])
@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit, lambda f: pb.vmap(f), lambda f: lambda x: pb.jvp(f, (x,), (x,))[0]])
def test_subclasses_of_numbers_are_numbers(number: Any, wrap: Any) -> None:
    x = np.arange(3, dtype="float32")
    for f in (lambda x: x * number, lambda x: number * x, lambda x: x + number, lambda x: pb.numpy.maximum(x, number)):
        found, expected = wrap(f)(pb.numpy.asarray(x)), f(pb.numpy.asarray(x)) * 0 + f(pb.numpy.asarray(x))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)
    assert (pb.numpy.asarray(x) * number).type is (pb.numpy.asarray(x) * float(number)).type


# ---- how arrays are spread over devices: a part of the type where something is said of it ----------------------------------

PLAIN = pb.ArrayType((4, 3), "float32", True)
BY_ROWS = pb.NamedSharding(pb.sharding.AbstractMesh((2, 4), ("data", "model")), pb.P("data"))
ROWS = pb.ArrayType((4, 3), "float32", True, sharding=BY_ROWS)
VARYING = pb.ArrayType((4, 3), "float32", True, varying=["model", "data"])
BOTH = pb.ArrayType((4, 3), "float32", True, BY_ROWS, {"data", "model"})


def test_types_that_are_spread_in_different_ways_differ() -> None:
    assert len({PLAIN, ROWS, VARYING, BOTH}) == 4
    assert pb.ArrayType((4, 3), "float32", True, None, ()) is PLAIN
    assert pb.ArrayType((4, 3), "float32", True, BY_ROWS, ["model", "data", "data"]) is BOTH
    assert (PLAIN.sharding, PLAIN.varying) == (None, frozenset())


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (PLAIN, "~f32[4,3]"),
        (ROWS, "~f32[4,3]@(data,·)"),
        (VARYING, "~f32[4,3]{data,model}"),
        (BOTH, "~f32[4,3]@(data,·){data,model}"),
    ],
)
def test_they_print_and_pickle(type: pb.ArrayType, text: str) -> None:
    assert str(type) == repr(type) == text
    assert pickle.loads(pickle.dumps(type)) is type
    program = pb.xpr(lambda x: x * 2, type)
    placed = text if "@" in text else f"{text}:cpu(0)"  # how it is divided says where it is
    assert f"(a:{placed})" in str(program)
    assert f"f32[4,3]{type.place}" in program.text()


def test_what_another_shape_or_dtype_keeps() -> None:
    for type in (PLAIN, ROWS, VARYING, BOTH):
        assert (type.with_dtype(np.dtype("int32")).sharding, type.strong().sharding) == (type.sharding, type.sharding)
        assert {type.with_dtype(np.dtype("int32")).varying, type.strong().varying} == {type.varying}
        assert not type.strong().weak
        for other in (type.with_shape((12,)), type.without((0,))):
            assert (other.sharding, other.varying) == (None, type.varying)
        assert type.placed(None, frozenset()) is PLAIN
    assert pb.ArrayType((4, 3), "float32", True).placed(BY_ROWS, frozenset()) is ROWS


def test_a_program_of_spread_arrays_is_another_program() -> None:
    programs = [pb.xpr(lambda x: x * 2, type) for type in (PLAIN, ROWS, VARYING)]
    assert len(set(programs)) == 3
    assert pb.xpr(lambda x: x * 2, PLAIN) == programs[0]


def test_json_refuses_what_it_does_not_write() -> None:
    with pytest.raises(pb.errors.ProgramError):
        type(pb.xpr(lambda x: x * 2, ROWS)).from_json(pb.xpr(lambda x: x * 2, ROWS).to_json(), {})


class Struct:
    """What JAX's ShapeDtypeStruct looks like."""

    shape, dtype, weak_type = (4, 3), np.dtype("float32"), True


def test_types_of_jax() -> None:
    weak = pb.ShapeDtypeStruct((4, 3), "float32", weak_type=True)
    assert weak is pb.ArrayType((4, 3), "float32", True) and weak.weak_type and not weak.strong().weak_type
    for shapes in (pb.eval_shape, lambda f, x: pb.jit(f).eval_shape(x), lambda f, x: pb.jit(f).lower(x).out_info):
        assert shapes(lambda x: x * 2, Struct()) is weak
    assert pb.linear_transpose(lambda x: x * 2, Struct())(np.ones((4, 3), np.float32))[0].type is weak
    converted, values = pb.closure_convert(lambda x: x * 2, Struct())
    assert not values and converted(np.ones((4, 3), np.float32)).shape == (4, 3)
    assert [residual.type for residual in pb.saved_residuals(lambda x: x * x, Struct())] == [weak]
