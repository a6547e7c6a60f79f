"""The program of docs/training.md: undisturbed, with a process that is killed, ended by SIGTERM, and begun again by others."""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import Any

import numpy as np
import pytest
from launching import by_rank, command, environment

pytest.importorskip("tensorstore")

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "training.md").read_text()
STEPS = 60

# Before the program: what happens to process 1, once, at the beginning of step 47 (between two checkpoints)
DISTURBED = """
import pullback as pb

def should_stop(step, before=pb.distributed.elastic.should_stop):
    if step == 47 and rank == 1 and pb.distributed.elastic.epoch() == 0:
        os.kill(os.getpid(), signal.{signal})
    return before(step)

pb.distributed.elastic.should_stop = should_stop
"""
RUN = """
import runpy
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def run(path: pathlib.Path, before: str, count: int) -> Any:
    """The program in so many processes, with something before it."""
    line = command(path, before + RUN, count, "--elastic")
    (path / "train.py").write_text(program())
    given = [str(path / "train.py"), str(path / "run"), str(STEPS)]
    found: Any = subprocess.run([*line, *given], env=environment(), capture_output=True, text=True, timeout=120)
    found.by_rank = by_rank(found.stdout)
    return found


def program() -> str:
    (found,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    return str(found)


def losses(lines: list[str]) -> dict[int, float]:
    return {int(words[1]): float(words[2]) for words in map(str.split, lines) if words[0] == "loss"}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    path = tmp_path_factory.mktemp("undisturbed")
    found = run(path, "", 1)
    assert found.returncode == 0, found.stderr
    assert [*losses(found.by_rank[0])] == [20, 40, 60]
    return losses(found.by_rank[0])


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
def test_the_losses_are_those_of_a_run_that_nothing_happened_to(
    tmp_path: pathlib.Path, undisturbed: dict[int, float], signal: str
) -> None:
    first = run(tmp_path, DISTURBED.format(signal=signal), 2)
    lines = first.by_rank[0]
    assert lines[0] == "begin at 0 with 2 processes" and len(losses(first.by_rank[1])) == 2
    if signal == "SIGKILL":  # the one that is left goes on alone
        assert [line for line in lines if line.startswith("lost: ")]
        again = [line for line in lines if line.startswith("begin")][1]
        assert re.fullmatch(r"begin at (20|40) with 1 processes", again)
    else:  # both stop before the same step, and others go on there
        (end,) = [line for line in lines if line.startswith("end at")]
        assert end in first.by_rank[1] and 47 <= int(end.split()[-1]) < STEPS and first.returncode == 0, first.stderr
        second = run(tmp_path, "", 1)
        assert second.by_rank[0][0] == end.replace("end", "begin") + " with 1 processes"
        lines = [*lines, *second.by_rank[0]]
    assert lines[-1] == f"end at {STEPS}"
    found = losses(lines)
    np.testing.assert_allclose([*found.values()], [undisturbed[step] for step in found], rtol=1e-4)
    assert [*found] == [*undisturbed]
