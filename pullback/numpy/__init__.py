"""The NumPy namespace: NumPy's functions, by their names and signatures, on Arrays and traced values.

Every function takes Arrays, traced values, NumPy arrays and Python numbers; Python numbers take the dtype of the arrays that
they meet. Importing this package gives Array and tracers their operators and methods.

In examples `pb` is pullback, `pnp` this module and `np` NumPy: `import pullback as pb, pullback.numpy as pnp, numpy as np`.
"""

from __future__ import annotations

import sys

from pullback.core.namespaces import open_namespace
from pullback.numpy import attached, methods

open_namespace(globals())
methods.install(sys.modules[__name__])
attached.install()
