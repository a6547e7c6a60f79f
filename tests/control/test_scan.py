"""scan as an operation: what it stores for the backward pass, what it drops, what it compiles to, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.core.errors import AxisError, DtypeError, ShapeError, StructureError
from pullback.program.program import Program

rng = np.random.default_rng(1)
XS = rng.normal(size=(5, 3))


def scans(program: Program) -> list[Any]:
    return [equation for equation in program.equations if equation.primitive.name == "scan"]


def test_the_backward_pass_stores_only_what_it_needs() -> None:
    """d tanh(w h + x) needs tanh's value at each step, and nothing else that changes."""
    w = rng.normal(size=(3, 3))

    def loss(h: Any) -> Any:
        return pnp.sum(lax.scan(lambda h, x: (pnp.tanh(w @ h + x), None), h, XS)[0])

    forward, backward = scans(pb.xpr(pb.grad(loss), XS[0]))
    stacks = forward.outputs[forward.params["num_carry"] :]
    assert [out.type.shape for out in stacks] == [(5, 3)]
    assert backward.params["reverse"] and backward.params["num_carry"] == 1
    assert len(backward.inputs) == 2  # the cotangent, and the one stack; w is a constant of the body


def test_inputs_of_the_loop_are_not_stored_again() -> None:
    def loss(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c * x, None), c, xs)[0]

    (backward,) = scans(pb.xpr(pb.grad(loss), 2.0, XS[0]))  # xs themselves are the residuals: nothing runs forward
    assert len(backward.inputs) == 2


def test_invariants_leave_the_loop() -> None:
    """exp(a) does not change from step to step, so it is computed once, before the loop."""

    def loss(c: Any, a: Any) -> Any:
        return lax.scan(lambda c, _: (c * pnp.exp(a), None), c, None, length=6)[0]

    program = pb.xpr(pb.grad(loss, (0, 1)), 2.0, 0.1)
    inner = [equation.primitive.name for loop in scans(program) for equation in loop.params["body"].equations]
    assert "exp" not in inner
    assert [equation.primitive.name for equation in program.equations].count("exp") == 1


def test_what_nobody_uses_is_dropped() -> None:
    def first(x: Any) -> Any:
        (a, _, _), _ys = lax.scan(lambda c, _: ((c[0] * 2.0, c[1] + c[2], c[2] * 1.5), c[1]), (x, x, x), None, length=3)
        return a

    (loop,) = scans(pb.xpr(first, 1.0))
    assert loop.params["num_carry"] == 1 and len(loop.outputs) == 1 and len(loop.params["body"].equations) == 1


def test_no_steps() -> None:
    def loop(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c + pnp.sum(x), c * x), c, xs)

    empty = np.zeros((0, 3))
    for run in (loop, pb.jit(loop)):
        carry, ys = run(2.0, empty)
        assert float(carry) == 2.0 and ys.shape == (0, 3)
    found = pb.jit(pb.grad(lambda c, xs: loop(c, xs)[0], (0, 1)))(2.0, empty)
    assert float(found[0]) == 1.0 and found[1].shape == (0, 3)


@pytest.mark.parametrize("unroll", [1, 2, 3, 7, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolled_loops_compute_the_same(unroll: Any, reverse: bool) -> None:
    def loop(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c * 0.5 + x, c * x), c, xs, reverse=reverse, unroll=unroll)

    xs = np.arange(7.0)
    expected, compiled = loop(np.float64(1.0), xs), pb.jit(loop)
    for a, b in zip(compiled(np.float64(1.0), xs), expected):
        np.testing.assert_allclose(a, b, rtol=1e-14)
    text = compiled.lower(np.float64(1.0), xs).as_text()
    assert text.count("stablehlo.while") == (0 if unroll is True or unroll == 7 else 1)
    gradient = pb.grad(lambda c, xs: pnp.sum(loop(c, xs)[1]), (0, 1))
    for a, b in zip(pb.jit(gradient)(np.float64(1.0), xs), gradient(np.float64(1.0), xs)):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_effects_happen_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    def loud(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            pb.debug.print("{} {}", c, x)
            return c + x, None

        return lax.scan(step, 0, xs, reverse=True)[0]

    xs = np.arange(3, dtype="int32")
    for run in (loud, pb.jit(loud)):
        assert int(run(xs)) == 3
        assert capfd.readouterr().out.split("\n")[:3] == ["0 2", "2 1", "3 0"]


def test_the_gradient_runs_effects_once(capfd: pytest.CaptureFixture[str]) -> None:
    def loud(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            pb.debug.print("{}", c)
            return c * x, None

        return lax.scan(step, 1.0, None, length=3)[0]

    assert float(pb.jit(pb.grad(loud))(2.0)) == 12.0
    assert capfd.readouterr().out.split() == ["1.0", "2.0", "4.0"]


def test_long_eager_loops_are_compiled() -> None:
    before = pb.cache_info()
    total, ys = lax.scan(lambda c, x: (c + x, c), np.float64(0.0), np.arange(5000.0))
    assert float(total) == 5000 * 4999 / 2 and ys.shape == (5000,)
    assert pb.cache_info() != before


def test_weak_carries_take_the_type_that_the_body_gives_them() -> None:
    carry, _ = lax.scan(lambda c, x: (c + x, None), 0, np.ones(3, "float32"))
    assert carry.dtype == np.float32 and float(carry) == 3.0


def test_a_named_axis_inside() -> None:
    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (c + lax.psum(x, "i") * lax.axis_index("i"), None), 0.0, None, length=2)[0]

    for run in (pb.vmap(loop, axis_name="i"), pb.jit(pb.vmap(loop, axis_name="i"))):
        np.testing.assert_allclose(run(np.arange(3.0)), [0.0, 6.0, 12.0])


def test_written_loops_can_be_read_back() -> None:
    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (c * x, c), x, None, length=3)[1]

    program = pb.xpr(pb.vmap(pb.jacrev(loop)), np.ones(2))
    table = {equation.primitive.name: equation.primitive for one in every_program(program) for equation in one.equations}
    assert Program.from_json(program.to_json(), table) == program


def every_program(program: Program) -> list[Program]:
    return [program, *[deeper for inner in program.subprograms() for deeper in every_program(inner)]]


@pytest.mark.parametrize(
    ("body", "init", "xs", "error", "words"),
    [
        (lambda c, x: ({"a": c["a"], "b": 1.0}, x), {"a": 0.0}, XS, StructureError, ["structure", "'b'"]),
        (lambda c, x: ({"a": c["a"] + x}, x), {"a": np.zeros(())}, XS, ShapeError, ["carry['a']", "f64[]", "f64[3]"]),
        (lambda c, x: (c > 0, x), np.zeros(()), XS, DtypeError, ["carry", "f64[]", "bool[]"]),
        (lambda c, x: c, 0.0, XS, StructureError, ["pair (carry, y)"]),
        (lambda c, x: (c, x), 0.0, None, AxisError, ["pass length"]),
        (lambda c, x: (c, x), 0.0, (XS, XS[:4]), AxisError, ["xs[0] has 5", "xs[1] has 4"]),
        (lambda c, x: (c, x), 0.0, 1.0, AxisError, ["leading axis"]),
    ],
)
def test_errors_name_the_leaf(body: Any, init: Any, xs: Any, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as caught:
        lax.scan(body, init, xs)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_is_made_of_literals_alone_is_no_residual():
    """`full((5,), 2.)` in a body is the same at every step: the backward pass gets one of it, not one for each step."""

    def loss(x):
        return pnp.sum(
            pb.lax.scan(lambda carry, _: (carry * pnp.full((5,), 2.0) * pnp.arange(5.0), None), x, None, length=7)[0]
        )

    program = pb.xpr(pb.grad(loss), pnp.ones(5))
    assert "f32[7" not in str(program)
    assert pb.grad(loss)(pnp.ones(5)).tolist() == [(2.0 * i) ** 7 for i in range(5)]


def test_jaxs_split_transpose_is_taken() -> None:
    assert float(pb.lax.scan(lambda c, x: (c + x, None), 0.0, np.ones(3), _split_transpose=True)[0]) == 3.0
