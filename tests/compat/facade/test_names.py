"""The page that says which of JAX's public names there are is what `conformance/jax_names.py` makes of the façade now."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from pullback.compat.jax.facade import PACKAGE

ROOT = Path(__file__).parents[3]


def test_the_page_of_names_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "conformance" / "jax_names.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # of its own: the façade changes the mode
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["", ".lax", ".nn", ".numpy", ".numpy.linalg", ".random", ".scipy.special", ".tree_util"])
def test_functions_go_through_pickles_by_their_names(module: str) -> None:
    found = importlib.import_module(f"{PACKAGE}{module}")
    functions = [value for name in dir(found) if inspect.isfunction(value := getattr(found, name))]
    assert len(functions) > 10 and [f for f in functions if pickle.loads(pickle.dumps(f)) is not f] == []
