"""Types of arrays hold plain ints, whatever counted the elements, and have room for what later layers say of an array."""

from __future__ import annotations

import enum
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
