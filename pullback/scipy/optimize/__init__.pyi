"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy.optimize.bfgs import OptimizeResults as OptimizeResults
from pullback.scipy.optimize.bfgs import minimize as minimize
