"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy.fft.cosine import dct as dct
from pullback.scipy.fft.cosine import dctn as dctn
from pullback.scipy.fft.cosine import idct as idct
from pullback.scipy.fft.cosine import idctn as idctn
