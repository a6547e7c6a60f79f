"""Integrals of functions given at points, by the names and signatures of `scipy.integrate`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
