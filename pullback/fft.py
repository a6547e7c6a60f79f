"""The Fourier transforms of `pullback.numpy.fft`, by the name that is quicker to type."""

import sys

from pullback.numpy import fft

sys.modules[__name__] = fft
