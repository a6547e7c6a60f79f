"""All tables of tests/surface in one: what is listed there is tested there, and need not be in the older tables."""

from __future__ import annotations

import importlib
import operator
import pathlib
import sys
from typing import Any

import pullback as pb

HERE = pathlib.Path(__file__).parent / "surface"
sys.path.insert(0, str(HERE))
MODULES = [importlib.import_module(file.stem) for file in sorted(HERE.glob("table_*.py"))]
TABLE: dict[str, Any] = {name: entry for module in MODULES for name, entry in module.TABLE.items()}
ELSEWHERE: dict[str, str] = {name: file for module in MODULES for name, file in getattr(module, "ELSEWHERE", {}).items()}


def function_of(name: str) -> Any:
    """A public function, class or module by its path below `pullback`."""
    return operator.attrgetter(name)(pb)


def is_listed(path: str) -> bool:
    """Whether a public function, named as `numpy.sort`, is tested by a table or by a file that a table names."""
    return path in TABLE or path in ELSEWHERE
