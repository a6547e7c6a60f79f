"""Programs that were written for JAX and its packages print, on pullback, the numbers that they print on JAX.

Each runs unchanged in a process of its own. `programs/record.py` wrote `programs/values.json`, with JAX 0.10.2 on a CPU.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAMS = Path(__file__).parent / "programs"
VALUES: dict[str, Any] = json.loads((PROGRAMS / "values.json").read_text())
ROOT = Path(__file__).parents[3]


def packages(program: Path) -> set[str]:
    """The packages that a program imports, JAX aside."""
    names = set()
    for node in ast.walk(ast.parse(program.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names - {"jax"} - sys.stdlib_module_names


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers in a tree of dicts and lists, with where they are."""
    if isinstance(value, (dict, list)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(part, f"{name}[{key!r}]")
    else:
        yield name, value


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_program_for_jax_prints_what_it_prints_there(name: str) -> None:
    program = PROGRAMS / f"{name}.py"
    missing = sorted([package for package in packages(program) if importlib.util.find_spec(package) is None])
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install pullback[ecosystem]")
    found = subprocess.run(
        [sys.executable, "-m", "pullback.compat.jax", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert found.returncode == 0, found.stderr
    ours, theirs = dict(numbers(json.loads(found.stdout))), dict(numbers(VALUES[name]))
    assert ours.keys() == theirs.keys()
    wrong = {
        key: (ours[key], theirs[key])
        for key in theirs
        if not np.isclose(ours[key], theirs[key], rtol=1e-4, atol=1e-5, equal_nan=True)
    }
    assert not wrong


def test_every_program_is_recorded() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} - {"record"} == VALUES.keys()
