"""Derivatives of extremes in compiled code, which may compute an operand again, and round it differently, where it is used."""

import numpy as np
import pytest

import pullback as pb
from pullback import lax
from pullback import numpy as pnp

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
