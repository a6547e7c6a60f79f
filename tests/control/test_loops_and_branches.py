"""Loops and branches mean the same as the Python that they stand for, under every transformation, eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from control_tables import BATCHED, CASES, TRANSFORMATIONS, Case, batch_of, looped, pulled

import pullback as pb
import pullback.numpy as pnp
from pullback.program.checking import check_program


def compare(found: Any, expected: Any) -> None:
    found, expected = (value if isinstance(value, tuple) else (value,) for value in (found, expected))
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert np.asarray(a).dtype == np.float64
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-9)


def case_id(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_as_unrolled(case: Case, name: str) -> None:
    expected = TRANSFORMATIONS[name](case.unrolled, case.args, looped)(*case.args)
    transformed = TRANSFORMATIONS[name](case.function, case.args, pb.vmap)
    compare(transformed(*case.args), expected)
    compare(pb.jit(transformed)(*case.args), expected)
    compare(TRANSFORMATIONS[name](pb.jit(case.function), case.args, pb.vmap)(*case.args), expected)
    check_program(pb.xpr(transformed, *case.args))


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_batched_as_unrolled(case: Case, name: str) -> None:
    for which in (None, *range(len(case.args))):
        args, axes = batch_of(case.args, which)
        expected = looped(BATCHED[name](case.unrolled, case.args, looped), axes)(*args)
        transformed = pb.vmap(BATCHED[name](case.function, case.args, pb.vmap), axes)
        compare(transformed(*args), expected)
        if which is None:
            compare(pb.jit(transformed)(*args), expected)
            one_by_one = pb.vmap(BATCHED[name](case.function, case.args, pb.vmap), axes, strategy="map")
            compare(one_by_one(*args), expected)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_vjp_of_vmap(case: Case) -> None:
    args, axes = batch_of(case.args, None)
    weights = np.array([0.5, 1.0, -2.0])

    def summed(over: Any, f: Any) -> Any:
        return lambda *xs: pnp.sum(over(f, axes)(*xs) * weights)

    expected = pulled(summed(looped, case.unrolled), len(args))(*args)
    transformed = pulled(summed(pb.vmap, case.function), len(args))
    compare(transformed(*args), expected)
    compare(pb.jit(transformed)(*args), expected)
