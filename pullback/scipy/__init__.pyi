"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy import cluster as cluster
from pullback.scipy import fft as fft
from pullback.scipy import integrate as integrate
from pullback.scipy import interpolate as interpolate
from pullback.scipy import linalg as linalg
from pullback.scipy import ndimage as ndimage
from pullback.scipy import optimize as optimize
from pullback.scipy import signal as signal
from pullback.scipy import sparse as sparse
from pullback.scipy import spatial as spatial
from pullback.scipy import special as special
from pullback.scipy import stats as stats
