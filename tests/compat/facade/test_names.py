"""The page that says which of JAX's public names there are is what `conformance/jax_names.py` makes of the façade now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_names_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "conformance" / "jax_names.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # of its own: the façade changes the mode
    assert done.returncode == 0, done.stderr
