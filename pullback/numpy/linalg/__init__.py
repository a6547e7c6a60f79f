"""NumPy's linear algebra, and the extension `linalg` of the Array API, on stacks of matrices in the last two axes.

Matrices are of float32, float64, complex64 or complex128; integers become the default floating dtype first. A known matrix that
has no Cholesky factor or no inverse raises NumPy's LinAlgError; a traced one, in compiled code or under a transformation,
cannot raise, and gives NaN, as all of `pullback.lax.linalg` does. `pb.linalg` is this namespace too.
"""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
