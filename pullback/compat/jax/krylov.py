"""jax.scipy.sparse.linalg: pullback's, of JAX's trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback.compat.jax.trees import Packed, packed
from pullback.core.source import named_after
from pullback.scipy.sparse.linalg.krylov import as_function


def _of_trees(name: str) -> Callable[..., Any]:
    solve = getattr(pb.scipy.sparse.linalg, name)

    @named_after(solve)
    def of_trees(A: Any, b: Any, x0: Any = None, *, M: Any = None, **options: Any) -> Any:
        function, start = packed(as_function(A, name)), None if x0 is None else Packed(x0)
        before = None if M is None else packed(as_function(M, name))
        found, info = solve(function, Packed(b), start, M=before, **options)
        return found.tree, info

    return of_trees


bicgstab = _of_trees("bicgstab")
cg = _of_trees("cg")
gmres = _of_trees("gmres")
