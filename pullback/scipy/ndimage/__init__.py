"""Interpolation in images of any number of axes, by the names and signatures of `scipy.ndimage`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
