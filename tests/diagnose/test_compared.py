"""replay(compare=True): the first equation whose values differ in compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.primitive import Rules, primitive
from pullback.diagnose.compared import tolerance_for

V = np.float32


@primitive
class off(Rules):
    """x; compiled code adds something where x is 3."""

    def result_type(x: Any) -> Any:
        return x

    def evaluate(x: Any) -> Any:
        return x

    def lower(write: Any, x: Any) -> Any:
        three = write.broadcast(write.constant(np.asarray(3, x.dtype)), x.shape)
        more = write.elementwise("stablehlo.add", x, write.broadcast(write.constant(np.asarray(0.5, x.dtype)), x.shape))
        return write.select(write.compare("EQ", x, three), more, x)

    def vectorize(size: Any, args: Any, axes: Any) -> Any:
        return off(*args), axes[0]


@primitive
class slightly(Rules):
    """x; compiled code makes it larger by a millionth."""

    def result_type(x: Any) -> Any:
        return x

    def evaluate(x: Any) -> Any:
        return x

    def lower(write: Any, x: Any) -> Any:
        more = write.broadcast(write.constant(np.asarray(1 + 1e-6, x.dtype)), x.shape)
        return write.elementwise("stablehlo.multiply", x, more)


def compared(function: Any, *args: Any, **options: Any) -> Any:
    return pb.replay(function, *[pnp.asarray(x) for x in args], compare=True, **options).comparison


def test_the_first_equation_that_differs_is_named() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        z = off(y + 1.0)
        return pnp.sum(z) * 3.0

    found = compared(f, V([0, 1, 2]))
    assert found and found.first.equation.primitive is off and "z = off(y + 1.0)" in str(found)
    first = found.first
    assert (first.element, first.replayed, first.compiled, first.steps) == ((1,), "3.0", "3.5", ())
    assert first.error == pytest.approx(0.5 / 5.0)
    assert [one.number for one in found.results] == [0] and (found.compared, found.skipped) == (5, 0)


def test_where_all_agree_it_says_how_much_was_compared() -> None:
    found = compared(lambda x: pnp.sum(pnp.tanh(x @ x)), np.linspace(-1, 1, 16, dtype="f4").reshape(4, 4), apply="grad")
    assert not found and found.first is None and found.results == () and found.worst < 1e-6
    assert f"{found.compared} equations compared; all agree" in str(found)


KEYS: dict[str, Any] = {
    "transposed": lambda keys: pnp.transpose(keys.reshape(2, 3)),
    "none": lambda keys: keys[:0],
    "one": lambda keys: keys[0],
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_compared_whatever_their_layout(name: str) -> None:
    found = pb.replay(lambda keys: KEYS[name](keys), pb.random.split(pb.random.key(0), 6), compare=True).comparison
    assert not found and found.compared > 0


STEPS: dict[str, tuple[bool, tuple[int, ...]]] = {"forwards": (False, (1,)), "backwards": (True, (2,))}


@pytest.mark.parametrize("name", STEPS)
def test_the_first_step_that_differs_is_named(name: str) -> None:
    reverse, steps = STEPS[name]

    def f(x: Any) -> Any:
        return pb.lax.scan(lambda c, y: (c + off(y), c), x, V([1, 3, 3, 1]), reverse=reverse)

    found = compared(f, V(0))
    assert found.first.equation.primitive is off and found.first.steps == steps
    assert f"in step {steps[0]}" in str(found)


def test_loops_in_loops_have_a_step_each() -> None:
    def f(x: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            return pb.lax.scan(lambda d, y: (d + off(y), None), c, row)[0], None

        return pb.lax.scan(outer, x, V([[1, 2], [2, 3], [3, 3]]))[0]

    assert compared(f, V(0)).first.steps == (1, 1)


def test_what_is_called_is_compared_and_so_is_the_branch_that_is_taken() -> None:
    def f(x: Any) -> Any:
        y = pb.jit(lambda x: off(x) * 2.0)(x)
        return pb.lax.cond(y > 0, lambda y: y - 1.0, lambda y: pnp.sum(off(-y) * pnp.ones(2)), y)

    assert compared(f, V(3.0)).first.equation.primitive is off
    found = compared(f, V(-1.5))
    assert found.first.equation.primitive is off and "off(-y)" in str(found) and found.skipped == 0
    assert not compared(f, V(1.5))


def test_branches_in_loops_and_keys_in_branches() -> None:
    def f(x: Any, key: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            def even(c: Any) -> Any:
                return c + pb.random.normal(pb.random.fold_in(key, 1)) * 0.0

            return pb.lax.cond(y == 2.0, lambda c: c + off(c * 0.0 + 3.0), even, c), None

        return pb.lax.scan(step, x, V([1, 5, 2, 2]))[0]

    found = compared(f, V(0.0), pb.random.key(0))
    assert found.first.equation.primitive is off and found.first.steps == (2,)


def test_a_loop_of_unknown_length_is_compared_step_by_step() -> None:
    def f(x: Any) -> Any:
        return pb.lax.while_loop(lambda c: c < 4.5, lambda c: off(c) + 1.0, x)

    found = compared(f, V(1.0))
    assert found.first.equation.primitive is off and found.first.steps == (2,)
    assert found.skipped == 1  # the test
    twice = compared(lambda x: f(x) - f(x) + f(x * 0.0 - 1.25), V(9.0))
    assert not twice and twice.skipped == 3


def test_a_loop_of_unknown_length_in_another_is_compared_by_its_result() -> None:
    def f(x: Any) -> Any:
        def inner(c: Any, y: Any) -> Any:
            return pb.lax.while_loop(lambda c: c < y, lambda c: off(c) + 1.0, c), None

        return pb.lax.scan(inner, x, V([2.5, 4.5]))[0]

    found = compared(f, V(1.0))
    assert found.first.equation.primitive.name == "while_loop" and found.first.steps == (1,)
    assert "3 in loops of unknown length by the loops' results alone" in str(found) and found.skipped == 3


def test_nan_in_one_of_them_is_a_difference_and_in_both_is_none() -> None:
    assert not compared(lambda x: pnp.log(x), V([-1, 0, 1]))
    found = compared(lambda x: (x * 1e-10) / (x * 1e-10), V([1e-30]))  # compiled code takes 1e-40 for 0
    assert [(one.replayed, one.compiled) for one in (found.first, *found.results)] == [("1e-40", "0.0"), ("1.0", "nan")]
    assert [one.error for one in (found.first, *found.results)] == [1.0, np.inf]


def test_the_tolerance_is_part_of_the_largest_element() -> None:
    def f(x: Any) -> Any:
        return off(x)

    assert compared(f, V([3, 100])).first is not None
    assert compared(f, V([3, 100]), tolerance=0.01).first is None
    assert compared(f, V([3, 100]), tolerance=0.001).first.error == pytest.approx(0.005)


def test_rounding_that_grows_is_told_from_an_operation_that_differs() -> None:
    found = compared(lambda x: (slightly(x) - 0.99999) * 2.0, V(1.0))
    assert found and found.first is None and found.grown.equation.primitive.name == "sub"
    assert "rounding grows" in str(found) and "sub" in str(found)
    found = compared(lambda x: off((slightly(x) - 0.99999) * 0.0 + 3.0), V(1.0))
    assert found.first.equation.primitive is off and found.grown is None
    assert (found.first.replayed, found.first.compiled) == ("3.0", "3.5")


def test_a_sum_of_what_cancels_is_no_difference() -> None:
    x = np.random.default_rng(0).normal(size=1000).astype("f4")
    found = compared(lambda x: pnp.sum(x) - pnp.sum(pnp.sort(x)), x)
    assert found.first is None


def test_within_loops_operands_are_those_of_the_step() -> None:
    def f(x: Any, w: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            return (slightly(c) - 0.99999) * w + y, c

        return pb.lax.scan(step, x, V([1.0, 1.0, 1.0]))[0]

    found = compared(f, V(1.0), V(100.0))
    assert found.first is None and found.grown.equation.primitive.name == "sub" and found.grown.steps == (0,)


OTHERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "integers": (lambda x: (x * 3, x > 1), (np.arange(4),)),
    "keys": (lambda key: pb.random.split(key, 3), (pb.random.key(0),)),
    "no elements": (lambda x: pnp.sum(x * 2), (np.zeros((0, 2), "f4"),)),
    "no steps": (lambda x: pb.lax.scan(lambda c, y: (c + y, c), x, np.zeros((0,), "f4")), (V(1),)),
    "bfloat16": (lambda x: pnp.exp(x), (pnp.asarray([1.0, 2.0], dtype="bfloat16"),)),
    "float8": (lambda x: x * x, (pnp.asarray([1.0, 2.0], dtype="float8_e5m2"),)),
    "complex": (lambda x: pnp.exp(x) * x, (np.array([1 + 2j, 3j], "c8"),)),
    "nothing at all": (lambda x: x, (V(1),)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_all_dtypes(name: str) -> None:
    function, args = OTHERS[name]
    assert not compared(function, *args)


def test_the_tolerance_follows_the_dtype() -> None:
    dtypes = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "float32", "float64", "int32")
    found = [tolerance_for(pb.ArrayType((), dtype)) for dtype in dtypes]
    assert found == sorted(found, reverse=True) and found[-1] == 0.0 and 1e-5 < found[4] < 1e-4 and found[5] < 1e-8
