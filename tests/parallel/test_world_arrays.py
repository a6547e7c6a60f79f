"""Arrays over the devices of several processes, against what one process computes: see spanning.py."""

import pathlib
import subprocess
import sys

import pytest
from launching import environment

SCRIPT = pathlib.Path(__file__).with_name("spanning.py")


@pytest.mark.parametrize("count, devices", [(2, 2), (4, 1)])
def test_arrays_and_programs_over_processes(count, devices):
    line = [sys.executable, "-m", "pullback.launch", "-n", str(count), "--devices", str(devices), str(SCRIPT)]
    found = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=200)
    assert sorted(found.stderr.splitlines()) == [f"[{rank}] right" for rank in range(count)] and found.returncode == 0
