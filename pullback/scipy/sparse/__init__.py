"""SciPy's `sparse`: the solvers of linear systems that are given by functions. Sparse Jacobians are in `pullback.sparse`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
