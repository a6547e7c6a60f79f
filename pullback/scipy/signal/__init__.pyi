"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy.signal.convolving import convolve as convolve
from pullback.scipy.signal.convolving import convolve2d as convolve2d
from pullback.scipy.signal.convolving import correlate as correlate
from pullback.scipy.signal.convolving import correlate2d as correlate2d
from pullback.scipy.signal.convolving import fftconvolve as fftconvolve
