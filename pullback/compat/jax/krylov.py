"""jax.scipy.sparse.linalg: pullback's, of JAX's trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compat.jax.facade import adapter
from pullback.compat.jax.trees import of_jax_trees
from pullback.scipy.sparse import linalg
from pullback.scipy.sparse.linalg.krylov import as_function


@adapter
def _of_trees(solve: Callable[..., Any], A: Any, b: Any, x0: Any = None, *, M: Any = None, **options: Any) -> Any:
    return solve(of_jax_trees(as_function(A, solve.__name__)), b, x0, M=M, **options)


bicgstab, cg, gmres = map(_of_trees, (linalg.bicgstab, linalg.cg, linalg.gmres))
