"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy import cluster as cluster
from pullback.scipy import optimize as optimize
from pullback.scipy import special as special
