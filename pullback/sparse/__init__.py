"""Sparse Jacobians and Hessians: a few directional derivatives instead of one for each column.

`jacobian` and `hessian` find by themselves which entries may differ from zero, and need as many derivatives as it takes colors
to color the columns (or rows) so that no two of a color meet.
"""

from pullback.core.source import make_public
from pullback.sparse.derivatives import hessian, hessian_pattern, jacobian, jacobian_pattern
from pullback.sparse.matrix import Pattern, SparseMatrix

__all__ = ["Pattern", "SparseMatrix", "hessian", "hessian_pattern", "jacobian", "jacobian_pattern"]

make_public(globals())
