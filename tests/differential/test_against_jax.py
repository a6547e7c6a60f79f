"""The differential campaign against JAX, in short; skipped where jax is not installed (it is no dependency of ours)."""

from __future__ import annotations

import importlib.util

import pytest
from campaign import run_block
from generate import draw, stacked

import pullback as pb

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")


def test_a_case_is_drawn_from_its_number_alone() -> None:
    cases = [draw(0, number) for number in range(50)]
    assert [str(case) for case in cases] == [str(draw(0, number)) for number in range(50)]
    assert len({str(case) for case in cases}) == 50


@pytest.mark.parametrize("number", range(40))
def test_cases_run_or_say_why_not(number: int) -> None:
    case = draw(1, number)
    with pb.default_bits(64):
        try:
            value = stacked(pb, case)(pb.numpy.asarray(case.x))
        except pb.errors.GradientError as error:
            # as in jax: an unbounded loop has no reverse mode, a function with only a vjp rule no forward mode
            assert "while_loop" in str(error) or "no jvp rule" in str(error)
        else:
            assert value.shape == () and value.dtype == case.x.dtype


@needs_jax
@pytest.mark.campaign
def test_random_programs_agree_with_jax() -> None:
    assert run_block(seed=2, numbers=range(200), folder=None, record=False) == (200, [])
