"""Cosine transforms, by the names and signatures of `scipy.fft`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
