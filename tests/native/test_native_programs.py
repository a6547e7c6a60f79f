"""The benchmark's programs at small sizes: values, derivatives and batches of compiled code against loops in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from programs import LOOPED, OURS, WORKLOADS, compiled, leaves, looped

import pullback as pb
import pullback.numpy as pnp

UNDIFFERENTIABLE = {"mandelbrot"}  # its results are integers
FORWARD = {"newton"}  # a while_loop without a bound has no reverse mode
TOLERANCE = {"float32": 2e-4, "float64": 1e-11}  # relative to the largest element


def value(program: Any, vmap: Any, name: str) -> Any:
    return program


def derivative(program: Any, vmap: Any, name: str) -> Any:
    """With respect to all arguments, of a weighted sum of all results; or, forward, along one direction."""

    def along(*args: Any) -> Any:
        return pb.jvp(program, args, tuple(pnp.cos(x) for x in args))[1]

    def total(*args: Any) -> Any:
        return sum(pnp.sum(out * weights(out)) for out in pb.tree.leaves(program(*args)))

    return along if name in FORWARD else lambda *args: pb.grad(total, tuple(range(len(args))))(*args)


def weights(x: Any) -> Any:
    return np.cos(np.arange(x.size, dtype=x.dtype)).reshape(x.shape)


def batch(program: Any, vmap: Any, name: str) -> Any:
    """Of three, in the first argument."""

    def over(*args: Any) -> Any:
        rows = pnp.stack([args[0], args[0] * 0.75, args[0] * 1.25])
        return vmap(program, (0,) + (None,) * (len(args) - 1))(rows, *args[1:])

    return over


def batch_of_derivatives(program: Any, vmap: Any, name: str) -> Any:
    return batch(derivative(program, vmap, name), vmap, name)


TRANSFORMATIONS: dict[str, Callable[[Any, Any, str], Any]] = {
    "value": value,
    "derivative": derivative,
    "batch": batch,
    "batch of derivatives": batch_of_derivatives,
}
CASES = [
    (name, transformation, dtype)
    for name in WORKLOADS
    for transformation in TRANSFORMATIONS
    for dtype in (("float32", "float64") if transformation == "value" else ("float64",))
    if not ("derivative" in transformation and name in UNDIFFERENTIABLE)
]


@pytest.mark.parametrize(("name", "transformation", "dtype"), CASES, ids=lambda part: part.replace(" ", "-"))
def test_programs(name: str, transformation: str, dtype: str) -> None:
    work, transform = WORKLOADS[name], TRANSFORMATIONS[transformation]
    args = [pnp.asarray(x) for x in work.arguments(dtype, work.small)]
    expected = leaves(transform(work.make(LOOPED, work.small), looped, name)(*args))
    found = leaves(compiled(transform(work.make(OURS, work.small), pb.vmap, name), "native")(*args))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        largest = float(np.max(np.abs(b), initial=0.0))
        np.testing.assert_allclose(a, b, rtol=0, atol=0 if b.dtype.kind in "iu" else largest * TOLERANCE[dtype])


def test_every_name_left_out_is_there() -> None:
    assert set(WORKLOADS) >= UNDIFFERENTIABLE | FORWARD
