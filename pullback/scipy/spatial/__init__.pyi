"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.scipy.spatial import transform as transform
