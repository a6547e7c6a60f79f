"""What LAPACK's kernels return, on platforms other than the CPU: by operations that StableHLO has, or in plain ones."""

from __future__ import annotations

import numpy as np

from pullback.ops.formulas import Written
from pullback.ops.jacobi import eigh, svd
from pullback.ops.plain_matrices import Stack, lu, qr, real


def _cholesky(write, x, results, uplo):
    out = Written(write, write.op("stablehlo.cholesky", [x.value], x.value.type, lower=str(uplo == "L").lower()))
    at = Stack(write, x.value.shape)
    fine = at.reduced("stablehlo.and", (at.places(-2) != at.places(-1)) | (real(out) > 0), True, (-2, -1))
    return [out, np.where(fine, *[Written(write, write.constant(number, results[1])) for number in (0, 1)])]


def _triangular(write, a, b, results, side, uplo, trans_x, diag):
    how = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[trans_x]
    flags = {"left_side": side == "L", "lower": uplo == "L", "unit_diagonal": diag == "U"}
    given = {key: str(flag).lower() for key, flag in flags.items()} | {"transpose_a": f"#stablehlo<transpose {how}>"}
    return [Written(write, write.op("stablehlo.triangular_solve", [a.value, b.value], results[0], **given))]


_KERNELS = {
    "potrf": _cholesky,
    "trsm": _triangular,
    "getrf": lu,
    "geqrf": qr,
    "syevd": eigh,
    "gesdd": svd,
}


def written(write, name, operands, results, flags):
    """The results of LAPACK's kernel `name` on another platform than the CPU; those that are not here are refused."""
    if name not in _KERNELS:
        write.refuse(f"calls LAPACK's {name}")
    given = [Written(write, value) for value in operands]
    return [x.value for x in _KERNELS[name](write, *given, results, **flags)]
