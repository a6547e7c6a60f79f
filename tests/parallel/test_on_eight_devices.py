"""The tests in `eight_*.py` run in processes of their own, in which the CPU is divided into eight devices."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize("file", sorted(HERE.glob("eight_*.py")), ids=lambda file: file.stem)
def test_on_eight_devices(file: pathlib.Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(file)]
    found = subprocess.run(
        command, env={**os.environ, "PULLBACK_CPU_DEVICES": "8"}, capture_output=True, text=True, timeout=600
    )
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
