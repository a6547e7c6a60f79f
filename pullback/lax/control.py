"""Loops, branches and solvers, under the names that they have in `lax`."""

from pullback.api.branches import cond, switch
from pullback.api.loops import fori_loop, scan, while_loop
from pullback.api.scans import associative_scan, map  # noqa: A004
from pullback.api.solvers import custom_linear_solve, custom_root

__all__ = [
    "associative_scan",
    "cond",
    "custom_linear_solve",
    "custom_root",
    "fori_loop",
    "map",
    "scan",
    "switch",
    "while_loop",
]
