"""pullback in five minutes: one test an idea, from top to bottom. Everything else is more of the same."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp


def test_arrays_are_like_numpys_but_never_change() -> None:
    x = pnp.array([1.0, 2.0, 3.0])
    assert str(2 * x + 1) == "[3. 5. 7.]:f32[3]:cpu(0)"
    assert pnp.sum(x * x) == 14.0
    y = x.at[0].set(10.0)  # a new array
    assert (x.tolist(), y.tolist()) == ([1.0, 2.0, 3.0], [10.0, 2.0, 3.0])
    assert isinstance(np.asarray(x), np.ndarray)  # and back


# One function for all that follows: how far a line is from some points.
def loss(w, x, y):
    return pnp.mean((w["slope"] * x + w["offset"] - y) ** 2)


W = {"slope": 1.0, "offset": 0.0}
X = np.array([0.0, 1.0, 2.0, 3.0], "float32")
Y = 2 * X + 1


def test_a_function_is_a_program() -> None:
    program = pb.xpr(lambda x: 2.0 * x + 1.0, X)
    assert str(program) == "\n".join(
        [
            "{ lambda (a:f32[4]:cpu(0)) ;",
            "  let",
            "    b:f32[4]:cpu(0) = mul 2.0 a",
            "    c:f32[4]:cpu(0) = add b 1.0",
            "  in c }",
        ]
    )
    assert program(X).tolist() == Y.tolist()


def test_grad_gives_the_gradient_in_the_form_of_the_argument() -> None:
    value, gradient = pb.value_and_grad(loss)(W, X, Y)
    assert value == 7.5
    assert gradient == {"slope": -10.0, "offset": -5.0}


def test_both_modes_of_differentiation() -> None:
    def f(x):
        return pnp.sin(x) * x

    value, tangent = pb.jvp(f, (2.0,), (1.0,))  # forward: a tangent in, a tangent out
    same_value, pull = pb.vjp(f, 2.0)  # reverse: a cotangent in, cotangents out
    np.testing.assert_allclose([value, same_value], 2 * np.sin(2.0), rtol=1e-6)
    np.testing.assert_allclose([tangent, *pull(1.0)], np.sin(2.0) + 2 * np.cos(2.0), rtol=1e-6)


def test_vmap_makes_a_batch_of_it() -> None:
    def of_one_point(x, y):
        return pb.grad(loss)(W, x, y)

    gradients = pb.vmap(of_one_point)(X, Y)
    assert gradients["slope"].tolist() == [-2 * x * (x + 1) for x in range(4)]
    outer = pb.vmap(pb.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))
    assert outer(X, Y).tolist() == np.outer(X, Y).tolist()


def test_jit_compiles() -> None:
    seen = []

    @pb.jit
    def step(w, x, y):
        seen.append(x)  # Python runs once for each signature, on tracers
        return pb.tree.map(lambda p, g: p - 0.1 * g, w, pb.grad(loss)(w, x, y))

    w = W
    for _ in range(200):
        w = step(w, X, Y)
    np.testing.assert_allclose([w["slope"], w["offset"]], [2.0, 1.0], atol=1e-3)
    assert all(isinstance(x, pb.Tracer) for x in seen) and len(seen) <= 2
    assert "stablehlo.multiply" in step.lower(W, X, Y).as_text()


def test_transformations_nest_in_any_order() -> None:
    def f(x):
        return x**3

    assert pb.grad(pb.grad(pb.grad(f)))(5.0) == 6.0
    assert pb.jit(pb.vmap(pb.grad(pb.jit(f))))(X).tolist() == (3 * X**2).tolist()
    assert pb.jvp(pb.grad(f), (5.0,), (1.0,)) == (75.0, 30.0)
    np.testing.assert_allclose(pb.hessian(lambda x: pnp.sum(f(x)))(X), np.diag(6 * X))


def test_perturbations_are_not_confused() -> None:
    assert pb.grad(lambda x: x * pb.grad(lambda y: x)(0.0))(0.0) == 0.0
    assert pb.grad(lambda x: x * pb.grad(lambda y: x * y)(2.0))(3.0) == 6.0


def test_a_primitive_of_your_own() -> None:
    @pb.primitive
    class cube(pb.Elementwise):
        """x cubed."""

        def evaluate(x):
            return x * x * x

        def lower(write, x):
            return write.elementwise("stablehlo.multiply", x, write.elementwise("stablehlo.multiply", x, x))

        def partials(out, x):
            return (3 * x * x,)

        def samples(rng):
            yield (rng.normal(size=(2, 3)),), {}

    assert cube(2.0) == 8.0
    assert pb.grad(cube)(2.0) == 12.0
    assert pb.jit(pb.vmap(pb.grad(cube)))(X).tolist() == (3 * X**2).tolist()
    pb.testing.check_primitive(cube)  # every rule against the others, under every transformation


def test_errors_say_what_to_do() -> None:
    half_done = pb.Primitive("half_done", evaluate=np.sin)
    with pytest.raises(pb.errors.MissingRule, match=r"'half_done'.*def_jvp"):
        pb.grad(half_done)(1.0)  # never a silent zero
    with pytest.raises(pb.errors.TracerBoolConversionError, match=r"test_tiny\.py"):
        pb.jit(lambda x: x if x > 0 else -x)(1.0)
    with pytest.raises(pb.errors.GradientError, match="int"):
        pb.grad(lambda n: n * 2.0)(3)
    leaked = []
    pb.jit(lambda x: leaked.append(x) or x)(1.0)
    with pytest.raises(pb.errors.EscapedTracerError, match="escaped"):
        leaked[0] + 1
    with pytest.raises(pb.errors.ShapeError):
        X + pnp.ones(3)
