"""jax.lax: pullback.lax, with loops, branches and solvers of JAX's trees."""

from __future__ import annotations

from pullback.compat.jax.facade import facade
from pullback.compat.jax.rows import PRIMITIVES

_CONTROL_FLOW = "scan while_loop fori_loop cond switch map associative_scan custom_root custom_linear_solve"

facade(globals(), "pullback.lax", own={"control_flow": _CONTROL_FLOW, "primitives": PRIMITIVES})
