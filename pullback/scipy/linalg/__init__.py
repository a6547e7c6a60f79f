"""SciPy's linear algebra by its names, on stacks of matrices in the last two axes where `pullback.numpy.linalg` is.

Arguments that only save memory or checks in SciPy (`overwrite_a`, `check_finite`) are taken, and without effect. A known matrix
that has no inverse or no Cholesky factor raises LinAlgError; a traced one gives NaN.
"""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
