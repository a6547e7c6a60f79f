"""Functions through given points, by the names and signatures of `scipy.interpolate`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
