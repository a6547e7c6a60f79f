"""Geometry in space, under SciPy's names."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
