"""Functions that move elements."""

import numpy as np
from cases import REAL, case, entry

A = np.random.default_rng(0).normal(size=(3, 4))

TABLE = {
    "numpy.flip": entry(np.flip, case(A), case(A, axis=0), case(A[:0]), dtypes=REAL, wrt=(0,), weak=True),
}
