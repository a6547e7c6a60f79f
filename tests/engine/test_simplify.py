"""Simplification before lowering: what goes, what stays, and that it costs no more than it should."""

import numpy as np
import pytest
from counting import calls_made

import pullback as pb
from pullback.engine.compile import lower_to_text
from pullback.program.program import programs_in
from pullback.transforms.simplify import simplify

pnp = pb.numpy
X = np.arange(6, dtype=np.float32).reshape(2, 3)
lax = pb.lax


def names(function, *args):
    return [equation.primitive.name for equation in simplify(pb.xpr(function, *args)).equations]


def loop(x):
    return lax.scan(lambda c, _: (pnp.sin(c), None), x, length=3)[0]


SIMPLER = {
    "dead code": (lambda x: (pnp.sin(x), pnp.cos(x))[0], ["sin"]),
    "the same twice": (lambda x: pnp.sin(x) + pnp.sin(x), ["sin", "add"]),
    "the same twice, deep": (lambda x: pnp.sin(x * 2.0) * pnp.sin(x * 2.0), ["mul", "sin", "mul"]),
    "the same with parameters": (lambda x: x.sum(axis=0) + x.sum(axis=0), ["reduce_sum", "add"]),
    "the same loop twice": (lambda x: loop(x) + loop(x), ["scan", "add"]),
    "transposed twice": (lambda x: x.T.T, []),
    "reshaped twice": (lambda x: pnp.sin(x.reshape(6).reshape(3, 2)), ["reshape", "sin"]),
    "reshaped there and back": (lambda x: pnp.sin(x.reshape(6).reshape(2, 3)), ["sin"]),
    "negated twice": (lambda x: pnp.sin(pnp.negative(pnp.negative(x))), ["sin"]),
    "converted exactly and back": (lambda x: pnp.sin(x.astype("float64").astype("float32")), ["sin"]),
}


@pytest.mark.parametrize("case", SIMPLER)
def test_simpler(case):
    function, expected = SIMPLER[case]
    assert names(function, X) == expected
    np.testing.assert_array_equal(np.asarray(pb.jit(function)(X)), np.asarray(pb.jit(lambda x: function(x))(X)))
    np.testing.assert_allclose(np.asarray(pb.jit(function)(X)), np.asarray(function(pnp.asarray(X))), rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit, pb.checkpoint, pb.vmap], ids=["plain", "jit", "checkpoint", "vmap"])
def test_what_a_mean_scales_its_cotangent_with_is_a_number(wrap):
    def loss(x):
        return pnp.mean(wrap(lambda x: x * x)(x)) + pnp.mean(x / 3.0)

    program = pb.xpr(pb.grad(loss), X)
    done = [equation.primitive.name for inner in (program, *[p for e in program.equations for p in programs_in(e.params)])
            for equation in inner.equations]  # fmt: skip
    assert "div" not in done and "convert_element_type" not in done
    np.testing.assert_allclose(pb.jit(pb.grad(loss))(X), (2.0 * X + 1.0 / 3.0) / X.size, rtol=1e-6)
    for y in (0.0, -0.0, 3.0):  # the same derivative of a quotient by a number, eager and compiled
        slope, one = pb.grad(lambda x, y=y: x / y), np.float32(1)
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(slope(one), one / np.float32(y))
        np.testing.assert_array_equal(pb.jit(slope)(one), slope(one))


STAYS = {
    "a conversion that rounds": (lambda x: x.astype("float16").astype("float32"), 2),
    "different parameters": (lambda x: x.sum(axis=0).sum() + x.sum(axis=1).sum(), 5),
    "zeros of both signs": (lambda x: 1.0 / (x * 0.0) + 1.0 / (x * -0.0), 5),
    "a complex number times one": (lambda x: (x + 1j) * 1.0 / 1.0, 4),  # inf+nanj times one is nan+nanj
    "literals of two types": (lambda x: x.astype("int32") * 2 + (x * 2.0).astype("int32"), 5),
}


@pytest.mark.parametrize("case", STAYS)
def test_what_must_stay(case):
    function, count = STAYS[case]
    assert len(names(function, X)) == count


def test_inside_nested_programs():
    inner = pb.jit(lambda x: (pnp.sin(x) + pnp.sin(x), pnp.cos(x))[0])
    (equation,) = simplify(pb.xpr(lambda x: inner(x), X)).equations
    assert [e.primitive.name for e in equation.params["program"].equations] == ["sin", "add"]


def test_effects_stay_even_in_nested_programs():
    seen = []
    inner = pb.jit(lambda x: pb.debug.callback(seen.append, x))

    def function(x):
        inner(x)
        inner(x)
        return x

    pb.jit(function)(1.0)
    assert len(seen) == 2


def test_nested_programs_are_written_once():
    inner = pb.jit(lambda x: pnp.sin(x) * 2.0)
    text = pb.jit(lambda x: inner(inner(inner(x)))).lower(X).as_text()
    assert text.count("func.func private") == 1 and text.count("func.call") == 3
    assert text.count("stablehlo.sine") == 1


def chain(length):
    def function(x):
        for _ in range(length):
            x = pnp.sin(x) * 1.5
        return x

    return pb.xpr(function, X)


def test_linear_in_the_length_of_the_program():
    def both(program):
        program._memo.clear()
        lower_to_text(simplify(program))

    short, long = chain(500), chain(5000)
    assert calls_made(both, long) < 12 * calls_made(both, short)  # quadratic would be 100


@pytest.mark.filterwarnings("ignore::pullback.core.errors.LargeProgramWarning")
def test_deep_programs_need_no_deep_stack():
    program = chain(10_000)
    assert lower_to_text(simplify(program)).count("stablehlo.sine") == 10_000


def test_small_constants_are_embedded_and_large_ones_passed():
    small, large = np.arange(4, dtype=np.float32), np.arange(1000, dtype=np.float32)
    assert "%arg1" not in pb.jit(lambda x: x + small).lower(np.ones(4, np.float32)).as_text()
    text = pb.jit(lambda x: x + large).lower(np.ones(1000, np.float32)).as_text()
    assert "%arg1" in text and len(text) < 400
