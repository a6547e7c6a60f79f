"""Programs as graphs, and graphs as code, where there is much of something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import kernel_of, native

import pullback.numpy as pnp
from pullback import lax
from pullback.core.array import as_array
from pullback.core.tracing import type_of
from pullback.native.record import record
from pullback.testing.values import host
from pullback.transforms.stage import stage


def recorded(function: Any, *args: Any) -> Any:
    return record(stage(function, [type_of(as_array(arg)) for arg in args])[0])


def test_ten_thousand_equations() -> None:
    def chain(x: Any) -> Any:
        for _ in range(5000):
            x = x * 1.0001 + 0.1
        return [x]

    assert len(recorded(chain, np.float32(0.3)).nodes) == 10_000


@pytest.mark.parametrize("size", [40, 5000])
def test_formulas_may_be_deep(size: int) -> None:
    def chain(x: Any) -> Any:
        for _ in range(400):
            x = x * 0.5 + x * 0.5 + 0.01
        return [x]

    x = np.linspace(0, 1, size)
    np.testing.assert_allclose(native(chain, x)[0], x + 4, rtol=1e-12)


def test_what_is_read_at_several_places_is_computed_once() -> None:
    def stencil(x: Any) -> Any:
        for _ in range(12):
            y = pnp.sin(x)
            x = y[1:] + y[:-1]
        return [x]

    x = np.linspace(0, 1, 5000)
    np.testing.assert_allclose(native(stencil, x)[0], host(stencil(as_array(x))[0]), rtol=1e-9)
    calls = [line for line in kernel_of(stencil, x).source.splitlines() if " call " in line and "sine" in line]
    assert 12 <= len(calls) <= 4 * 12  # for whole blocks, and for what is left; two vectors a call


def test_a_large_constant_is_passed_once() -> None:
    table = np.random.default_rng(0).normal(size=(100, 100))

    def often(x: Any) -> Any:
        x = lax.fori_loop(0, 3, lambda i, c: c + (pnp.asarray(table) @ c) * 1e-3, x)
        return [x + pnp.asarray(table)[0] + pnp.asarray(table.copy())[1]]

    x = np.ones(100)
    kernel = kernel_of(often, x)
    assert [constant.shape for constant in kernel.constants] == [(100, 100)]
    np.testing.assert_allclose(native(often, x)[0], host(often(as_array(x))[0]), rtol=1e-12)


@pytest.mark.parametrize("depth", [2, 14])
def test_loops_in_loops(depth: int) -> None:
    def nested(level: int, x: Any) -> Any:
        if level == 0:
            return x + 1
        return lax.scan(lambda c, _: (nested(level - 1, c), c), x, None, length=2)[0]  # what it stacks nobody uses

    assert native(lambda x: [nested(depth, x)], np.zeros(3))[0].tolist() == [2.0**depth] * 3


def test_equal_operations_are_one() -> None:
    graph = recorded(lambda x: [pnp.sin(x) + pnp.sin(x) * pnp.sin(x)], np.ones(3))
    assert [node.name for node in graph.nodes].count("sine") == 1


def test_complex_inputs_and_outputs_are_real_arrays_with_one_more_axis() -> None:
    graph = recorded(lambda z: [z * 2, z.real], np.ones((3, 2), np.complex64))
    assert [value.type.text for value in graph.inputs] == ["tensor<3x2x2xf32>"]
    assert [value.type.text for value in graph.outputs] == ["tensor<3x2x2xf32>", "tensor<3x2xf32>"]
