"""Extremes in compiled code: derivatives, where an operand may be computed again, and rounded otherwise, where it is used; and
NaN, and integers that wrap, both of which a library that XLA calls does not know."""

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as pnp
from pullback.native.choice import native_mode

# Each of an array of an even number of elements; operands of which a compiler would rather compute twice than keep.
EXTREMES = {
    "max": pnp.max,
    "of rows": lambda z: pnp.sum(pnp.max(z.reshape(-1, 2), axis=1)),
    "of absolute values": lambda z: pnp.max(pnp.abs(z)),
    "norm": lambda z: pnp.linalg.norm(z, np.inf),
    "cummax": lambda z: pnp.sum(lax.cummax(z)),
    "maximum": lambda z: pnp.sum(pnp.maximum(z, z[::-1])),
    "minimum": lambda z: pnp.sum(pnp.minimum(z, z[::-1])),
    "nested": lambda z: pnp.sum(pnp.maximum(z, pnp.maximum(z[::-1], 0.3 * z) + 0.01)),
    "segments": lambda z: pnp.sum(pb.segment_max(z, np.arange(z.size) // 2, z.size // 2)),
    "scattered": lambda z: pnp.sum(pnp.zeros(4, z.dtype).at[np.arange(z.size) % 4].max(z)),
    "of a named axis": lambda z: pnp.sum(pb.vmap(lambda row: lax.pmax(row, "i"), axis_name="i")(z.reshape(2, -1))),
    "windows": lambda z: pnp.sum(lax.reduce_window(z, -np.inf, lax.max, (3,), (1,), "VALID")),
}
OPERANDS = {
    "sine": lambda x: pnp.sin(x) * 0.9 + 0.01,
    "parabola": lambda x: x * x * 0.7 + x * 0.3,
    "exponential": lambda x: pnp.exp(x) * 1.1 - x,
}


@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("extreme", EXTREMES)
def test_compiled_derivatives_find_the_winners_that_eager_ones_find(extreme, operand):
    rng = np.random.default_rng(0)

    def f(x):
        return EXTREMES[extreme](OPERANDS[operand](x))

    def along(x):
        return pb.jvp(f, (x,), (pnp.ones_like(x),))[1]

    for _ in range(3):
        x = pnp.asarray(rng.normal(size=100).astype(np.float32))
        for derivative in (pb.grad(f), along, pb.jacfwd(along)):
            np.testing.assert_allclose(pb.jit(derivative)(x), derivative(x), rtol=2e-4, atol=2e-5)


MISSING = {
    "sum of maxima": (lambda x: pnp.sum(pnp.maximum(x, 0.5)), lambda x: np.sum(np.maximum(x, 0.5))),
    "sums of minima": (lambda x: pnp.sum(pnp.minimum(x, 0.5), 1), lambda x: np.sum(np.minimum(x, 0.5), 1)),
    "sums of rectified products": (
        lambda x: pnp.sum(pnp.maximum(x @ pnp.ones((x.shape[1], 90), x.dtype), 0), 1),
        lambda x: np.sum(np.maximum(x @ np.ones((x.shape[1], 90), x.dtype), 0), 1),
    ),
    "clipped": (lambda x: pnp.sum(lax.clamp(x.dtype.type(0), x, x.dtype.type(1))), lambda x: np.sum(np.clip(x, 0, 1))),
    "windows": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID"),
        lambda x: x.reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2).max((1, 3)),
    ),
    **{
        f"{name} along {axis}": (
            lambda x, n=name, a=axis: getattr(pnp, n)(x, a),
            lambda x, n=name, a=axis: getattr(np, n)(x, a),
        )
        for name in ("max", "min", "argmax", "argmin")
        for axis in (None, 0, 1)
    },
}


@pytest.mark.parametrize("mode", ["off", "on", "always"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", MISSING)
def test_nan_is_left_out_of_no_extreme(name, dtype, mode):
    x = np.random.default_rng(0).random((64, 100)).astype(dtype)
    x[5, 7], x[40, ::9] = np.nan, np.nan
    function, expected = MISSING[name]
    with native_mode(mode):
        found, beside = np.asarray(pb.jit(function)(x)), np.asarray(pb.jit(lambda x: function(x) + pnp.sum(x @ x.T) * 0)(x))
    wanted = np.asarray(expected(x))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    assert np.isnan(beside).all()
    np.testing.assert_allclose(found, wanted, rtol=2e-2 if dtype is np.float16 else 1e-5)


WRAPPING = {
    "x + x": lambda x: x + x,
    "x * x": lambda x: x * x,
    "x - y": lambda x: x - x[::-1],
    "-x": lambda x: -x,
    "abs": abs,
    "x / 3": lambda x: np.trunc(x / 3).astype(x.dtype) if isinstance(x, np.ndarray) else lax.div(x, x.dtype.type(3)),
}
REDUCED = {
    "max": (lambda x: pnp.max(x, axis=1), lambda x: np.max(x, axis=1)),
    "min": (lambda x: pnp.min(x, axis=1), lambda x: np.min(x, axis=1)),
    "sum of floats": (lambda x: pnp.sum(x.astype(np.float32), axis=1), lambda x: np.sum(x, axis=1, dtype=np.float32)),
}


@pytest.mark.parametrize("mode", ["off", "always"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("operand", WRAPPING)
def test_integers_wrap_in_front_of_reductions(operand, dtype, mode):
    x = np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (100, 100), dtype, endpoint=True)
    for function, expected in REDUCED.values():
        with native_mode(mode):
            found = pb.jit(lambda x, f=function: f(WRAPPING[operand](x)))(x)
        np.testing.assert_array_equal(np.asarray(found), expected(WRAPPING[operand](x)))
