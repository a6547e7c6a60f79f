"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.numpy.fft.transforms import fft as fft
from pullback.numpy.fft.transforms import fft2 as fft2
from pullback.numpy.fft.transforms import fftfreq as fftfreq
from pullback.numpy.fft.transforms import fftn as fftn
from pullback.numpy.fft.transforms import fftshift as fftshift
from pullback.numpy.fft.transforms import hfft as hfft
from pullback.numpy.fft.transforms import ifft as ifft
from pullback.numpy.fft.transforms import ifft2 as ifft2
from pullback.numpy.fft.transforms import ifftn as ifftn
from pullback.numpy.fft.transforms import ifftshift as ifftshift
from pullback.numpy.fft.transforms import ihfft as ihfft
from pullback.numpy.fft.transforms import irfft as irfft
from pullback.numpy.fft.transforms import irfft2 as irfft2
from pullback.numpy.fft.transforms import irfftn as irfftn
from pullback.numpy.fft.transforms import rfft as rfft
from pullback.numpy.fft.transforms import rfft2 as rfft2
from pullback.numpy.fft.transforms import rfftfreq as rfftfreq
from pullback.numpy.fft.transforms import rfftn as rfftn
