"""The constants of the namespace, and the name `bool`."""

import math

from pullback.core.array import Array
from pullback.numpy.dtypes import bool_

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
euler_gamma = 0.5772156649015329  # DLMF 5.2.3
newaxis = None
bool = bool_
ndarray = Array
__array_api_version__ = "2024.12"  # the standard that the namespace is tested against (conformance/)
