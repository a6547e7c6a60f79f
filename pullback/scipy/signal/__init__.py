"""Convolutions, trends and spectra of signals, by the names and signatures of `scipy.signal`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
