"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy.sparse.linalg.krylov import bicgstab as bicgstab
from pullback.scipy.sparse.linalg.krylov import cg as cg
from pullback.scipy.sparse.linalg.krylov import gmres as gmres
