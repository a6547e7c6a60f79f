"""SciPy's functions on arrays and traced values, by its names: a namespace for each of SciPy's."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
