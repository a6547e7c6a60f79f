"""What runs the examples of a page of the documentation: the module of the tutorials, for tests in other folders."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def runner() -> Any:
    """The module `tests/tutorials/tutorial_runner.py`."""
    file = Path(__file__).parent / "tutorials" / "tutorial_runner.py"
    found = importlib.util.spec_from_file_location("tutorial_runner", file)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
