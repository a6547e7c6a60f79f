"""jax.scipy.linalg: pullback.scipy.linalg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback.compat.jax.facade import adapter, facade


@adapter
def of_both_triangles(function: Callable[..., Any], a: Any, b: Any = None, *args: Any, **options: Any) -> Any:
    """eigh, which takes the mean of both triangles, where SciPy's reads one."""
    if b is None:
        a = (pb.numpy.asarray(a) + pb.numpy.matrix_transpose(a).conj()) / 2
    return function(a, b, *args, **options)


facade(globals(), "pullback.scipy.linalg", "LinAlgError logm lstsq norm pinv", adapted={"eigh": of_both_triangles})
