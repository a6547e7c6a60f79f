"""Special functions, under SciPy's names. All are elementwise, and differentiable unless they say otherwise."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
