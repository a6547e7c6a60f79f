"""Iterative solvers of linear systems, differentiated through the system itself, not through their steps."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
