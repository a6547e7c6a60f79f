"""What is traced and compiled is logged."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.reports import DEBUG, WARNING, explaining, level


def test_tracing_and_compiling_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @pb.jit
    def triple_of_it(x):
        return x * 3.0

    with caplog.at_level(logging.DEBUG, "pullback"):
        triple_of_it(pnp.ones(2))
        said = [record.getMessage() for record in caplog.records]
        assert {record.levelname for record in caplog.records} == {"DEBUG"}
        assert any(text.startswith("Finished tracing triple_of_it for jit in ") for text in said)
        assert "Compiling jit(triple_of_it) with argument types (f32[2],)" in said
        assert any(text.startswith("Finished XLA compilation of jit(triple_of_it) in ") for text in said)
        caplog.clear()
        triple_of_it(pnp.ones(2))
        assert not caplog.records


def test_it_is_a_warning_where_somebody_asks(caplog: pytest.LogCaptureFixture) -> None:
    f = pb.jit(lambda x: x * 5.0)
    with level.setting(WARNING):
        f(pnp.ones(2))
        assert len(caplog.records) == 3 and {record.levelname for record in caplog.records} == {"WARNING"}
        caplog.clear()
        with level.setting(DEBUG):
            f(pnp.ones(3))
    f(pnp.ones(4))
    assert not caplog.records


def test_misses_are_explained(caplog: pytest.LogCaptureFixture) -> None:
    f = pb.jit(lambda x: x * 5.0)
    with explaining.setting(True):
        for size in (2, 2, 3):
            f(pnp.ones(size))
    f(pnp.ones(4))
    first, second = [record.getMessage() for record in caplog.records]
    assert first.startswith("TRACING CACHE MISS: jit of ") and "for the first time" in first
    assert "f32[2]" in second and "f32[3]" in second


def test_tracing_does_not_load_logging() -> None:
    program = "import sys, pullback as pb; print(pb.xpr(lambda x: x, 1.0).name, 'logging' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "<lambda> False", done.stderr
