"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy.signal.convolving import convolve as convolve
from pullback.scipy.signal.convolving import convolve2d as convolve2d
from pullback.scipy.signal.convolving import correlate as correlate
from pullback.scipy.signal.convolving import correlate2d as correlate2d
from pullback.scipy.signal.convolving import fftconvolve as fftconvolve
from pullback.scipy.signal.spectral import csd as csd
from pullback.scipy.signal.spectral import detrend as detrend
from pullback.scipy.signal.spectral import istft as istft
from pullback.scipy.signal.spectral import stft as stft
from pullback.scipy.signal.spectral import welch as welch
