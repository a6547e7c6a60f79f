"""jax.scipy.sparse.linalg: pullback's, of JAX's trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compat.jax.facade import adapter
from pullback.compat.jax.trees import Packed, packed
from pullback.scipy.sparse import linalg
from pullback.scipy.sparse.linalg.krylov import as_function


@adapter
def _of_trees(solve: Callable[..., Any], A: Any, b: Any, x0: Any = None, *, M: Any = None, **options: Any) -> Any:
    function, start = packed(as_function(A, solve.__name__)), None if x0 is None else Packed(x0)
    before = None if M is None else packed(as_function(M, solve.__name__))
    found, info = solve(function, Packed(b), start, M=before, **options)
    return found.tree, info


bicgstab, cg, gmres = map(_of_trees, (linalg.bicgstab, linalg.cg, linalg.gmres))
