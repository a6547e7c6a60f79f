"""Probability distributions and statistics, under SciPy's names: `pullback.scipy.stats.norm.logpdf(x, loc, scale)`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
