"""The README's program runs, and its links lead somewhere."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.S):
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.startswith("{ lambda (a:f32[3]:cpu(0), b:f32[8,3]:cpu(0), c:f32[8]:cpu(0)) ;")
    step, per_example = names["step"], names["per_example"]
    assert callable(step) and callable(per_example)
    w, x, y = np.ones(3, np.float32), np.ones((8, 3), np.float32), np.zeros(8, np.float32)
    value, gradient = step(w, x, y)
    np.testing.assert_allclose(float(value), np.tanh(3.0) ** 2, rtol=1e-6)
    np.testing.assert_allclose(
        np.asarray(per_example(w, x, y)).mean(0), np.asarray(gradient), rtol=1e-4
    )  # 1 - tanh(3)^2 cancels


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)(.*?)\)", TEXT))
def test_links(link: str) -> None:
    assert (ROOT / link).exists()
