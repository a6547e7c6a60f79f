"""Minimization and clustering."""

import numpy as np
import scipy.cluster.vq
from cases import case, entry

POINTS, CODES = np.random.default_rng(0).normal(size=(5, 3)), np.random.default_rng(1).normal(size=(4, 3))

TABLE = {
    "scipy.cluster.vq.vq": entry(scipy.cluster.vq.vq, case(POINTS, CODES), case(POINTS[:, 0], CODES[:, 0]), same_dtype=False),
}

ELSEWHERE = {"scipy.optimize.minimize": "tests/scipy/test_minimize.py"}
