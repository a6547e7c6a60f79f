"""while_loop: bounds, memory and work of its backward pass, exits of each batch element, effects, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.control.while_loop import levels_for, steps_a_level
from pullback.core.errors import DtypeError, GradientError, ShapeError, StructureError
from pullback.program.program import Program


def counting(n: Any, **options: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.01), (0, 1.0), **options)[1]


def test_forward_mode_needs_no_bound() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda y: y < 100.0, lambda y: y * x, x)

    for run in (lambda x, t: pb.jvp(f, (x,), (t,)), pb.jit(lambda x, t: pb.jvp(f, (x,), (t,)))):
        value, tangent = run(np.float64(3.0), np.float64(1.0))
        assert float(value) == 243.0 and float(tangent) == pytest.approx(5 * 3.0**4)


def test_reverse_mode_without_a_bound_says_what_to_write() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda y: y < 100.0, lambda y: y * x, x)

    for run in (pb.grad(f), pb.jit(pb.grad(f)), pb.grad(pb.jit(f))):
        with pytest.raises(GradientError, match="max_steps=n"):
            run(3.0)


def test_a_loop_that_carries_no_derivative_needs_no_bound() -> None:
    """The number of steps is found by a loop over integers alone."""

    def f(x: Any) -> Any:
        n = lax.while_loop(lambda n: n * n < 50, lambda n: n + 1, 0)
        return x * n

    assert float(pb.jit(pb.grad(f))(2.0)) == 8.0


@pytest.mark.parametrize("run", [lambda f: f, pb.jit], ids=["eager", "compiled"])
def test_the_bound_ends_the_loop(run: Any) -> None:
    for bound, steps in ((0, 0), (1, 1), (7, 7), (20, 10)):
        expected = 1.01**steps
        assert float(run(lambda n, bound=bound: counting(n, max_steps=bound))(10)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("run", [lambda f: f, pb.jit], ids=["eager", "compiled"])
def test_checked_loops_say_when_the_bound_was_reached(run: Any) -> None:
    checked = run(lambda n: counting(n, max_steps=5, checked=True))
    assert float(checked(5)) == pytest.approx(1.01**5, rel=1e-6)
    with pytest.raises(RuntimeError, match="max_steps=5"):
        checked(6)


@pytest.mark.parametrize(("max_steps", "levels"), [(1, 1), (32, 1), (33, 2), (1024, 2), (1025, 3), (32768, 3)])
def test_levels(max_steps: int, levels: int) -> None:
    assert levels_for(max_steps) == levels
    base = steps_a_level(max_steps, levels)
    assert base**levels >= max_steps and base <= 32
    assert base == 1 or (base - 1) ** levels < max_steps


def stored(program: Program) -> int:
    """The elements that loops stack for the backward pass: the most of any path through the Programs inside each other."""
    most = 0
    for equation in program.equations:
        inner = [stored(one) for one in equation.params.values() if isinstance(one, Program)]
        inner += [stored(one) for one in equation.params.get("branches", ())]
        own = 0
        if equation.primitive.name == "scan":
            own = sum([out.type.size for out in equation.outputs[equation.params["num_carry"] :]])
        most = max(most, own + max(inner, default=0))
    return most


@pytest.mark.parametrize(("checkpoint", "bound"), [(1, 1000), (2, 32), (3, 10)])
def test_memory_of_the_backward_pass(checkpoint: int, bound: int) -> None:
    """With b steps a level, each level stores b carries; one more is what the derivatives of the innermost steps need."""

    def f(x: Any) -> Any:
        return pnp.sum(lax.while_loop(lambda y: y[0] < 1e9, lambda y: pnp.sin(y) + y, x, max_steps=1000, checkpoint=checkpoint))

    assert stored(pb.xpr(pb.grad(f), np.ones(100))) <= (checkpoint + 2) * bound * 102


def test_work_of_the_backward_pass() -> None:
    """Each step runs `checkpoint` times, and steps after the exit do not run at all."""
    ran: list[float] = []
    step = pb.Primitive("step", result_type=lambda x: x, partials=lambda out, x: (pb.lax.full_like(x, 2.0),), kinds="f")

    @step.def_evaluate
    def evaluate(x: Any) -> Any:
        ran.append(float(x))
        return np.asarray(2.0 * x)

    def f(x: Any, checkpoint: int) -> Any:
        return lax.while_loop(lambda y: y < 1000.0, lambda y: step(y), x, max_steps=100, checkpoint=checkpoint)

    for checkpoint in (1, 2, 3):
        ran.clear()
        assert float(pb.grad(lambda x, n=checkpoint: f(x, n))(np.float64(1.0))) == 1024.0
        assert 10 <= len(ran) <= 10 * checkpoint


def test_examples_stop_by_themselves() -> None:
    """An example that has stopped keeps its carry, even where another step would make it infinite or NaN."""

    def f(x: Any) -> Any:
        return lax.while_loop(lambda y: y > 0.0, lambda y: y - 1.0 + 0.0 / y, x)

    xs = np.array([3.0, -1.0, 1.0, 0.0])
    for run in (pb.vmap(f), pb.jit(pb.vmap(f))):
        np.testing.assert_allclose(run(xs), [0.0, -1.0, 0.0, 0.0])


def test_a_condition_that_all_examples_share_stays_one() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x))[1]

    program = pb.xpr(pb.vmap(f), np.ones(4))
    (loop,) = [equation for equation in program.equations if equation.primitive.name == "while_loop"]
    assert loop.params["condition"].output_types[0].shape == ()
    assert "select" not in str(loop.params["body"])


def test_effects_are_not_repeated_by_the_backward_pass(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        def step(y: Any) -> Any:
            pb.debug.print("{}", y)
            return y * 2.0

        return lax.while_loop(lambda y: y < 20.0, step, x, max_steps=40)

    for run in (pb.grad(f), pb.jit(pb.grad(f))):
        assert float(run(3.0)) == 8.0
        assert capfd.readouterr().out.split() == ["3.0", "6.0", "12.0"]


def test_long_eager_loops_are_compiled_from_where_they_are() -> None:
    n = lax.while_loop(lambda n: n < 30_000, lambda n: n + 1, 0)
    assert int(n) == 30_000
    total = lax.while_loop(lambda s: s[0] < 1e9, lambda s: (s[0] + 1, s[1] + 2), (0, 0), max_steps=5_000)
    assert [int(x) for x in total] == [5_000, 10_000]


@pytest.mark.parametrize(
    ("condition", "body", "init", "error", "words"),
    [
        (
            lambda s: s["a"] > 0,
            lambda s: {"a": s["a"][None]},
            {"a": np.zeros(())},
            ShapeError,
            ["value['a']", "f64[]", "f64[1]"],
        ),
        (lambda s: s > 0, lambda s: s > 1, np.zeros(()), DtypeError, ["value", "f64[]", "bool[]"]),
        (lambda s: s[0] > 0, lambda s: s[0], (np.zeros(()),), StructureError, ["structure"]),
        (lambda s: s, lambda s: s, np.zeros(()), DtypeError, ["condition", "0-d bool", "f64[]"]),
        (lambda s: s > 0, lambda s: s, np.zeros(3), ShapeError, ["condition", "bool[3]", ".any()"]),
        (lambda s: (s > 0, s), lambda s: s, np.zeros(()), StructureError, ["condition", "a container of values"]),
    ],
)
def test_errors(condition: Any, body: Any, init: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        lax.while_loop(condition, body, init)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{"max_steps": -1}, {"max_steps": 2.5}, {"checkpoint": 2}, {"max_steps": 5, "checkpoint": 0}, {"checked": True}],
)
def test_options_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"max_steps|checkpoint"):
        counting(3, **options)


def test_steps_after_the_exit_leave_no_nan_in_gradients() -> None:
    """The loop of each batch element ends below zero, where the square root and its derivative are not numbers."""

    def f(x: Any, a: Any) -> Any:
        return lax.while_loop(lambda y: y > 0.0, lambda y: y - pnp.sqrt(y * a) - 0.3, x, max_steps=5)

    xs = np.array([4.0, 1.0, 0.5])
    expected = [[float(g) for g in pb.grad(f, (0, 1))(x, 1.0)] for x in xs]
    for run in (lambda g: g, pb.jit):
        found = run(pb.grad(lambda xs, a: pnp.sum(pb.vmap(f, (0, None))(xs, a)), (0, 1)))(xs, np.float64(1.0))
        np.testing.assert_allclose(found[0], [row[0] for row in expected], rtol=1e-6)
        assert float(found[1]) == pytest.approx(sum(row[1] for row in expected), rel=1e-6)
