"""Fourier transforms, by NumPy's names and signatures, and those of the Array API standard's extension."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
