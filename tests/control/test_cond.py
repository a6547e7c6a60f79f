"""cond and switch: which branch runs, what they become under vmap, what they keep for the backward pass, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.control.cond import cond_as_select
from pullback.core.errors import DtypeError, LeafError, ShapeError, StructureError
from pullback.program.program import Program
from pullback.testing import check_primitive


def loud(x: Any) -> Any:
    def one(x: Any) -> Any:
        pb.debug.print("one")
        return x

    def other(x: Any) -> Any:
        pb.debug.print("other")
        return -x

    return lax.cond(x > 0.0, one, other, x)


def names(program: Program) -> list[str]:
    return [equation.primitive.name for equation in program.equations]


def test_only_the_chosen_branch_runs(capfd: pytest.CaptureFixture[str]) -> None:
    for run in (loud, pb.jit(loud), pb.grad(loud), pb.jit(pb.grad(loud))):
        run(1.0), run(-1.0)
        assert capfd.readouterr().out.split() == ["one", "other"]


def test_a_predicate_for_each_example_becomes_a_select_and_says_so() -> None:
    f = pb.vmap(lambda p, x: lax.cond(p, lambda x: x * 2.0, lambda x: pnp.sin(x), x))
    p, x = np.array([True, False]), np.array([1.0, 2.0])
    program = pb.xpr(f, p, x)
    assert "cond_as_select" in names(program) and "cond" not in names(program)
    table = {equation.primitive.name: equation.primitive for equation in program.equations}
    assert Program.from_json(program.to_json(), table) == program
    np.testing.assert_allclose(pb.jit(f)(p, x), [2.0, np.sin(2.0)])


def test_map_keeps_the_branches_apart(capfd: pytest.CaptureFixture[str]) -> None:
    mapped = pb.vmap(loud, strategy="map")
    assert "cond_as_select" not in str(pb.xpr(mapped, np.array([1.0, -1.0])))
    for run in (mapped, pb.jit(mapped)):
        np.testing.assert_allclose(run(np.array([1.0, -2.0])), [1.0, 2.0])
        assert capfd.readouterr().out.split() == ["one", "other"]
    with pytest.raises(ValueError, match="select"):
        pb.vmap(loud, strategy="loop")


def test_a_predicate_that_all_examples_share_stays_a_cond() -> None:
    f = pb.vmap(lambda p, x: lax.cond(p, lambda x: x * 2.0, lambda x: x, x), in_axes=(None, 0))
    assert "cond" in names(pb.xpr(f, True, np.ones(2)))


def test_cond_as_select_keeps_the_rules() -> None:
    check_primitive(cond_as_select)


def test_residuals_share_their_places() -> None:
    """Each branch needs one array of the same type for its derivative: they take one place, not two."""

    def f(p: Any, x: Any) -> Any:
        return pnp.sum(lax.cond(p, lambda x: pnp.exp(x), lambda x: pnp.tanh(x), x))

    forward, backward = [
        equation for equation in pb.xpr(pb.grad(f, 1), True, np.ones(3)).equations if equation.primitive.name == "cond"
    ]
    assert len(forward.outputs) == 1  # the residual; the value itself is not used
    assert len(backward.inputs) == 3  # the index, the residual, the cotangent


def test_closures() -> None:
    table = np.arange(4.0)

    def f(p: Any, x: Any, y: Any) -> Any:
        return lax.cond(p, lambda: pnp.sum(table * x), lambda: x * y)

    for run in (lambda g: g, pb.jit):
        assert [float(g) for g in run(pb.grad(f, (1, 2)))(True, 2.0, 5.0)] == [6.0, 0.0]
        assert [float(g) for g in run(pb.grad(f, (1, 2)))(False, 2.0, 5.0)] == [5.0, 2.0]


def test_weak_results_meet() -> None:
    x = np.ones((), "float32")
    assert lax.cond(True, lambda x: x, lambda x: 0.0, x).dtype == np.float32
    assert lax.cond(False, lambda x: x, lambda x: 0, np.ones((), "float64")).dtype == np.float64
    assert str(lax.cond(True, lambda: 1.0, lambda: 2.0)) == "1.0:f32[]:cpu(0)"


def test_forms_of_the_call() -> None:
    assert float(lax.cond(True, lambda t: t["a"], lambda t: t["b"], operand={"a": 1.0, "b": 2.0})) == 1.0
    assert lax.cond(False, lambda x: x, lambda x: None, None) is None
    assert float(lax.cond(0, lambda: 1.0, lambda: 2.0)) == 2.0
    assert float(lax.switch(np.uint8(200), [lambda: 1.0, lambda: 2.0])) == 2.0
    assert float(lax.switch(-3, [lambda: 1.0, lambda: 2.0])) == 1.0
    assert float(lax.switch(5, [lambda x: x], 4.0)) == 4.0
    with pytest.raises(TypeError, match="operand="):
        lax.cond(True, lambda x: x, lambda x: x, 1.0, operand=2.0)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: lax.cond(True, lambda: (1.0,), lambda: 1.0), StructureError, ["structure"]),
        (lambda: lax.cond(True, lambda: {"a": np.ones(2)}, lambda: {"a": 1.0}), ShapeError, ["output['a']", "f64[2]", "f32[]"]),
        (lambda: lax.cond(True, lambda: np.ones(2), lambda: np.ones(2, "int32")), DtypeError, ["output", "f64[2]", "i32[2]"]),
        (lambda: lax.cond(True, lambda: 1.5, lambda: np.int32(1)), DtypeError, ["f32[]", "i32[]"]),
        (lambda: lax.cond(np.ones(2, bool), lambda: 1.0, lambda: 2.0), ShapeError, ["bool[2]", "where"]),
        (lambda: lax.cond((True, False), lambda: 1.0, lambda: 2.0), LeafError, ["pred", "tuple"]),
        (lambda: lax.switch(1.0, [lambda: 1.0, lambda: 2.0]), DtypeError, ["integer", "f32[]"]),
        (lambda: lax.switch(np.ones(2, int), [lambda: 1.0, lambda: 2.0]), ShapeError, ["i64[2]"]),
        (lambda: lax.switch(0, []), ValueError, ["at least one"]),
        (lambda: lax.cond(True, 1.0, 2.0), TypeError, ["function"]),
    ],
)
def test_errors(call: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_branches_that_were_not_chosen_leave_no_nan_in_gradients() -> None:
    def f(x: Any, a: Any) -> Any:
        return lax.cond(x > 0.0, lambda x: pnp.sqrt(x * a), lambda x: x * a, x)

    xs = np.array([4.0, -1.0, 0.0])
    for run in (lambda g: g, pb.jit):
        found = run(pb.grad(lambda xs, a: pnp.sum(pb.vmap(f, (0, None))(xs, a)), (0, 1)))(xs, np.float64(1.0))
        np.testing.assert_allclose(found[0], [0.25, 1.0, 1.0])
        assert float(found[1]) == 0.0


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_the_older_form_has_an_operand_for_each_function(wrap: Any) -> None:
    f = wrap(lambda p, x, y: pb.lax.cond(p, x, lambda x: x[0] + 1.0, y, lambda y: y * 9.0))
    assert float(f(True, (2.0,), 3.0)) == 3.0 and float(f(False, (2.0,), 3.0)) == 27.0
    assert float(pb.grad(lambda y: f(False, (2.0,), y))(3.0)) == 9.0
