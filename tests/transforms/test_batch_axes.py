"""A Program knows which of its leading axes are a vmap's, so that they are blue when it is shown."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb

BLUE = r"\x1b\[34m(\d+)\x1b\[0m"


def f(x: Any) -> Any:
    return pb.numpy.sum(pb.numpy.sin(x) * x)


def blue(function: Callable[..., Any], *args: Any) -> list[list[str]]:
    """For each line that declares values, the sizes shown in blue."""
    shown = io.StringIO()
    pb.xpr(function, *args).show(color=True, file=shown)
    return [re.findall(BLUE, line) for line in shown.getvalue().splitlines() if "f32[" in line]


X = np.ones((2, 3, 5), "float32")


def test_nothing_is_blue_without_vmap() -> None:
    assert not any(blue(pb.grad(lambda x: f(pb.numpy.ravel(x))), X))


def test_nested_vmaps() -> None:
    lines = blue(pb.vmap(pb.vmap(f)), X)
    assert lines == [["2", "3"]] * len(lines)


@pytest.mark.parametrize("make", [lambda g: pb.vmap(pb.jit(g)), lambda g: pb.jit(pb.vmap(g))], ids=["vmap jit", "jit vmap"])
def test_in_inner_programs(make: Callable[..., Any]) -> None:
    lines = blue(make(f), X[0])
    assert ["2"] not in lines and lines.count(["3"]) >= 4


def test_the_cotangents_of_a_batch() -> None:
    lines = blue(pb.grad(lambda x: pb.numpy.sum(pb.vmap(f)(x))), X[0])
    assert lines[-1] == ["3"]


def test_a_batch_that_is_not_first_is_not_leading() -> None:
    lines = blue(pb.vmap(f, in_axes=1), X[0])
    assert lines[0] == [] and lines[-1] == ["5"]
