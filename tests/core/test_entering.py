"""Where foreign values enter: what is a number or an array, in which dtype it arrives, and what is refused."""

from __future__ import annotations

import dataclasses
import decimal
import enum
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.modes import narrowing


class Level(enum.IntEnum):
    LOW = 2


class Metres(float):
    pass


class Phase(complex):
    pass


class OfNumPy:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray([1.0, 2.0], np.float32)


class OfInterface:
    def __init__(self) -> None:
        self.kept = np.asarray([1.0, 2.0], np.float32)

    @property
    def __array_interface__(self) -> Any:
        return self.kept.__array_interface__


class OfDLPack:
    kept = np.asarray([1.0, 2.0], np.float32)

    def __dlpack__(self, **options: Any) -> Any:
        return self.kept.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.kept.__dlpack_device__()


class OfJax:
    def __init__(self, value: Any = None) -> None:
        self.value = pnp.array([1.0, 2.0]) if value is None else value

    def __jax_array__(self) -> Any:
        return self.value


@dataclasses.dataclass
class Parameter:
    """A dataclass that is an array: not a container of its fields."""

    value: Any

    def __jax_array__(self) -> Any:
        return self.value


FOREIGN: dict[str, tuple[Callable[[], Any], str]] = {
    "__array__": (OfNumPy, "f32[2]"),
    "__array_interface__": (OfInterface, "f32[2]"),
    "__dlpack__": (OfDLPack, "f32[2]"),
    "__jax_array__": (OfJax, "f32[2]"),
    "dataclass": (lambda: Parameter(pnp.array([1.0, 2.0])), "f32[2]"),
    "memoryview": (lambda: memoryview(np.asarray([1.0, 2.0], np.float32)), "f32[2]"),
    "big-endian": (lambda: np.asarray([1.0, 2.0], ">f4"), "f32[2]"),
    "NumPy subclass": (lambda: np.asarray([1.0, 2.0], np.float32).view(np.recarray), "f32[2]"),
}
OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "right": lambda v: pnp.array([3.0, 4.0]) * v,
    "left": lambda v: pnp.array([3.0, 4.0]).__rmul__(v),
    "function": lambda v: pnp.multiply(v, pnp.array([3.0, 4.0])),
    "jit": lambda v: pb.jit(lambda v: v * pnp.array([3.0, 4.0]))(v),
    "in jit": lambda v: pb.jit(lambda x: x * v)(pnp.array([3.0, 4.0])),
    "vmap": lambda v: pb.vmap(lambda v, x: x * v)(v, pnp.array([3.0, 4.0])),
    "jvp": lambda v: pb.jvp(lambda v: v * pnp.array([3.0, 4.0]), (v,), (v,))[0],
    "where": lambda v: pnp.where(True, v, 0.0) * pnp.array([3.0, 4.0]),
    "at": lambda v: pnp.zeros(2).at[:].set(v) * pnp.array([3.0, 4.0]),
    "a list": lambda v: pnp.stack([v, v])[1] * pnp.array([3.0, 4.0]),
    "array": lambda v: pnp.array(v) * pnp.array([3.0, 4.0]),
    "type": lambda v: pnp.array([3.0, 8.0]) if str(pnp.asarray(v).type) == "f32[2]" else None,
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", FOREIGN)
def test_objects_that_are_arrays_are_operands(name: str, operation: str) -> None:
    got = OPERATIONS[operation](FOREIGN[name][0]())
    assert str(got.type) == FOREIGN[name][1] and got.tolist() == [3.0, 8.0]


def test_an_object_may_hold_a_traced_value() -> None:
    assert pb.grad(lambda x: pnp.sum(OfJax(x * 2.0) * pnp.array([1.0, 2.0]) + Parameter(x)))(1.0) == 8.0
    assert pb.jit(lambda x: pnp.sin(OfJax(x)))(0.0) == 0.0


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
def test_numbers_of_derived_classes_are_numbers(dtype: str) -> None:
    x = np.asarray([1, 2], dtype)
    for number, plain in ((Level.LOW, 2), (Metres(0.1), 0.1), (Phase(1j), 1j)):
        for compute in (
            lambda x, n: x * n,
            lambda x, n: n * x,
            lambda x, n: n - x,
            lambda x, n: x == n,
            lambda x, n: pnp.multiply(n, x),
            lambda x, n: pnp.where(True, n, x),
            lambda x, n: pb.jit(lambda x, n: x * n)(x, n),
            lambda x, n: x.at[0].multiply(n) if dtype == "complex64" else x,
            lambda x, n: pnp.full((2,), n),
            lambda x, n: pnp.asarray(n) + x,
            lambda x, n: pnp.array([n, n]) + x,
        ):
            got, expected = compute(pnp.asarray(x), number), compute(pnp.asarray(x), plain)
            assert got.type is expected.type
            np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))
    assert pnp.sin(Metres(0.5)) == pnp.sin(0.5) and pnp.zeros(Level.LOW).shape == (2,)


REFUSED: dict[str, Any] = {
    "a string": "a",
    "a decimal": decimal.Decimal("0.5"),
    "a fraction": fractions.Fraction(1, 2),
    "objects": np.asarray([None, 1], object),
    "dates": np.asarray(["2020-01-01"], "datetime64[D]"),
    "text": np.asarray(["a"]),
    "a record": np.zeros(2, [("a", "f4")]),
    "extended precision": np.asarray([1.0], np.longdouble),
    "masked": np.ma.masked_array([1.0, 2.0], [True, False]),  # type: ignore[no-untyped-call]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_number_is_refused_by_its_path(name: str) -> None:
    value = REFUSED[name]
    for transformed in (pb.jit(lambda tree: tree), pb.vmap(lambda tree: tree), pb.grad(lambda tree: 0.0)):
        with pytest.raises(pb.errors.LeafError, match=r"tree\['w'\]\[1\]"):
            transformed({"w": [np.ones(2), value]})
    with pytest.raises(pb.errors.LeafError):
        pnp.asarray(value)
    with pytest.raises(TypeError):
        pnp.array([1.0]) + value


def test_comparison_with_a_list_is_refused_not_false() -> None:
    x = pnp.array([1, 2, 3])
    for compare in (lambda y: x == y, lambda y: x != y, lambda y: y == x, lambda y: x < y, lambda y: x + y, lambda y: x @ y):
        for y in ([1, 2, 3], (1, 2, 3)):
            with pytest.raises(TypeError, match=r"pb\.numpy\.asarray"):
                compare(y)
            with pytest.raises(TypeError, match=r"pb\.numpy\.asarray"):
                pb.jit(lambda _, compare=compare, y=y: compare(y))(1.0)
    assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711


# ---- the mode ---------------------------------------------------------------------------------------------------------


def test_narrowing_makes_what_enters_32_bits_wide() -> None:
    wide = np.arange(4.0)
    f = pb.jit(lambda x: x * 2)
    assert f(wide).dtype == np.float64
    entrances: list[Callable[[Any], Any]] = [
        pnp.asarray,
        pnp.array,
        f,
        f,  # a second time: by the fast path
        lambda x: pnp.ones(4) * x,
        lambda x: pnp.array([1.0] * 4) + x,
        lambda x: pb.grad(lambda y: pnp.sum(y * x))(pnp.ones(4)),
        lambda x: pb.vmap(lambda y: y)(x),
        lambda x: pb.jit(lambda y: y + x)(1.0),
        lambda x: pnp.array([x, x]),
        lambda x: pb.device_put(x),
        pb.jit(lambda x, y: x + y).__get__(np.ones(4)),
    ]
    for enter in entrances:
        with narrowing():
            assert enter(wide).dtype == np.float32, enter
            assert enter(np.arange(4)).dtype in (np.int32, np.float32), enter
    with narrowing():
        for given, found in (("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"), ("complex128", "complex64")):
            assert (
                pnp.asarray(np.ones(2, given)).dtype == found == pnp.zeros(2, given).dtype == pnp.arange(3, dtype=given).dtype
            )
            assert pnp.ones(2).astype(given).dtype == pnp.sum(pnp.asarray([1, 2]), dtype=given).dtype == found
        assert pnp.asarray(np.float64(1.0)).dtype == np.float32 and pnp.asarray(np.ones(2, np.float16)).dtype == np.float16
        with pb.default_bits(64):
            assert pnp.asarray(wide).dtype == np.float64 == pnp.asarray(1.0).dtype
    large = np.ones((100, 1000))
    with narrowing():
        assert f(large).dtype == np.float32 and f(large)[0, 0] == 2.0 and f(large)[0, 0] == 2.0
    assert f(wide).dtype == np.float64 and pnp.asarray(wide).dtype == np.float64


def test_the_mode_is_part_of_what_was_compiled() -> None:
    f = pb.jit(lambda x: x + pnp.arange(2.0))
    x = np.ones(2)
    for _ in range(2):
        assert f(x).dtype == np.float64
        with narrowing():
            assert f(x).dtype == np.float32
        with pb.default_bits(64):
            assert f(pnp.asarray(np.ones(2, np.float32))).dtype == np.float64
        assert f(pnp.asarray(np.ones(2, np.float32))).dtype == np.float32


def test_types_that_are_asked_for_are_narrowed() -> None:
    wide = pb.ShapeDtypeStruct((2,), "float64")
    f = pb.jit(pnp.sin)
    with narrowing():
        assert {f.lower(wide).out_info, f.trace(wide).out_info, f.eval_shape(wide), pb.eval_shape(f, wide)} == {
            pb.ArrayType((2,), "float32")
        }
        assert pb.linear_transpose(lambda x: 2 * x, wide)(np.ones(2))[0].dtype == np.float32
        assert pb.nn.one_hot(np.array([1]), 3, dtype="float64").dtype == np.float32


def test_default_bits_holds_in_blocks_and_functions_and_warns_where_it_does_nothing():
    @pb.default_bits(64)
    def made(n):
        return made(n - 1) if n else pnp.asarray(1.0).dtype.name

    both = pb.default_bits(64)
    with both, both:
        assert pnp.asarray(1.0).dtype == "float64"
    with pb.default_bits(64), pb.default_bits(32):
        assert pnp.asarray(1.0).dtype == "float32"
    assert made(2) == "float64" and pnp.asarray(1.0).dtype == "float32"
    for wrong in (16, "64", None, True):
        with pytest.raises(ValueError, match="takes 32 or 64"):
            pb.default_bits(wrong)
    with pytest.warns(RuntimeWarning, match=r"default_bits\(64\) did nothing: .* PULLBACK_DEFAULT_BITS=64"):
        pb.default_bits(64)
    assert pnp.asarray(1.0).dtype == "float32"
