"""Stacks of matrices: the family of operations on them, their products and triangles for rules, and calls of LAPACK.

The matrices lie in the last two axes, and all axes in front are batch axes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.dtypes import DTYPES, INT32, kind
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import Rules
from pullback.core.tracing import type_of
from pullback.core.types import array_type
from pullback.ops import compare, plain_matrices, without_lapack
from pullback.ops.arithmetic import add, mul
from pullback.ops.broadcast import broadcast_in_dim, reduce_sum
from pullback.ops.complex import conj, real
from pullback.ops.contract import dot_general
from pullback.ops.convert import convert_element_type
from pullback.ops.create import iota
from pullback.ops.formulas import PART_DTYPE
from pullback.ops.literals import literal
from pullback.ops.shape import in_front, transpose
from pullback.stablehlo.writer import TensorType

_LETTERS = {DTYPES[name]: letter for name, letter in zip(("float32", "float64", "complex64", "complex128"), "sdcz")}
_HERMITIAN = {"sytrd": "hetrd", "syevd": "heevd"}  # of complex matrices


class OfMatrices(Rules):
    """An operation on stacks of matrices, of any number of batch axes."""

    kinds = "fc"
    quiet = True

    def vectorize(primitive, size, args, axes, **params):
        return primitive(*[in_front(arg, axis, size) for arg, axis in zip(args, axes)], **params), 0


class Factorization(OfMatrices):
    """Of one stack of matrices, several factors."""

    multiple_results = True


def check_matrices(primitive, *types, square=False):
    """Raise an error unless each type is a stack of matrices of a dtype that LAPACK knows, all of one dtype."""
    if not all([type.dtype in _LETTERS and kind(type.dtype) in primitive.kinds for type in types]):
        raise DtypeError(
            f"{primitive.name} takes matrices of float32, float64, complex64 or complex128, but got"
            f" {', '.join(map(str, types))}. Convert with .astype()."
        )
    if len({type.dtype for type in types}) > 1:
        raise DtypeError(f"{primitive.name} takes operands of one dtype, but got {', '.join(map(str, types))}.")
    if types[0].ndim < 2 or (square and types[0].shape[-1] != types[0].shape[-2]):
        wanted = "a square matrix" if square else "a matrix"
        raise ShapeError(f"{primitive.name} takes {wanted}, or a stack of them, but got {types[0]}.")


def stack_type(x, *core, dtype=None):
    """The type of a stack like x, of arrays of another shape."""
    return array_type((*x.shape[:-2], *core), x.dtype if dtype is None else dtype)


def part_dtype(dtype):
    """The dtype of the parts of complex numbers of a dtype; a real dtype itself."""
    return PART_DTYPE.get(dtype, dtype)


# ---- on values: what rules are written in ----------------------------------------------------------------------------------


def product(*factors: Any) -> Any:
    """The matrix product of stacks of one batch shape, from the left to the right, on all devices to the precision of the
    dtype."""
    out, *rest = factors
    for factor in rest:
        ndim = type_of(out).ndim
        batch = tuple(range(ndim - 2))
        numbers = (((ndim - 1,), (ndim - 2,)), (batch, batch))
        out = dot_general(out, factor, dimension_numbers=numbers, precision="HIGHEST")
    return out


def product_from_the_right(*factors: Any) -> Any:
    """The matrix product of stacks of one batch shape, from the right to the left."""
    *rest, out = factors
    for factor in reversed(rest):
        out = product(factor, out)
    return out


def flipped(x: Any) -> Any:
    """The transposes of matrices."""
    ndim = type_of(x).ndim
    return transpose(x, permutation=(*range(ndim - 2), ndim - 1, ndim - 2))


def conjugate(x: Any) -> Any:
    """The complex conjugate, also of real numbers."""
    return conj(x) if type_of(x).dtype.kind == "c" else x


def real_part(x):
    """The real part, also of real numbers."""
    return real(x) if type_of(x).dtype.kind == "c" else x


def adjoint(x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return conjugate(flipped(x))


def mask(compares: Any, shape: Any, offset: int = 0) -> Any:
    """Where `row + offset` compares with `column` as said, in a stack of matrices."""
    rows, columns = (iota(dtype=INT32, shape=shape[-2:], dimension=axis) for axis in (0, 1))
    found = compares(columns, rows if offset == 0 else add(rows, literal(offset, rows)))
    return broadcast_in_dim(found, shape=shape, broadcast_dimensions=(len(shape) - 2, len(shape) - 1))


def where(which: Any, x: Any, number: float) -> Any:
    """x where `which`, else a number."""
    return compare.select(which, x, literal(number, x))


def lower(x: Any, offset: int = 0) -> Any:
    """The lower triangles of matrices, up to the diagonal number `offset`."""
    return where(mask(compare.le, type_of(x).shape, offset), x, 0)


def upper(x: Any, offset: int = 0) -> Any:
    """The upper triangles of matrices, from the diagonal number `offset` on."""
    return where(mask(compare.ge, type_of(x).shape, offset), x, 0)


def diagonal(x: Any) -> Any:
    """The diagonals of matrices."""
    shape = type_of(x).shape
    rows = tuple(range(len(shape) - 1)) if shape[-1] > shape[-2] else (*range(len(shape) - 2), len(shape) - 1)
    summed = ({len(shape) - 2, len(shape) - 1} - set(rows)).pop()
    return reduce_sum(where(mask(compare.eq, shape), x, 0), axes=(summed,))


def in_rows(v: Any, shape: Any) -> Any:
    """Vectors as matrices of a shape, each vector one column, repeated: element i in the whole row i."""
    return broadcast_in_dim(v, shape=shape, broadcast_dimensions=tuple(range(len(shape) - 1)))


def in_columns(v: Any, shape: Any) -> Any:
    """Vectors as matrices of a shape, each vector one row, repeated: element j in the whole column j."""
    return broadcast_in_dim(v, shape=shape, broadcast_dimensions=(*range(len(shape) - 2), len(shape) - 1))


def scaled_columns(x: Any, v: Any) -> Any:
    """x diag(v), where v may be real."""
    return mul(x, in_columns(convert_element_type(v, new_dtype=type_of(x).dtype), type_of(x).shape))


def scaled_rows(v: Any, x: Any) -> Any:
    """diag(v) x, where v may be real."""
    return mul(in_rows(convert_element_type(v, new_dtype=type_of(x).dtype), type_of(x).shape), x)


def diagonal_matrix(v, like):
    """diag(v) as a stack of matrices of the shape of `like`."""
    return where(mask(compare.eq, type_of(like).shape), in_rows(v, type_of(like).shape), 0)


def identity_like(x: Any, size: int | None = None) -> Any:
    """Identity matrices as a stack like x, of its shape, which need not be square, or of a size."""
    shape = type_of(x).shape if size is None else (*type_of(x).shape[:-2], size, size)
    return convert_element_type(mask(compare.eq, shape), new_dtype=type_of(x).dtype)


# ---- on NumPy arrays: `evaluate` -------------------------------------------------------------------------------------------


def nan_on_failure(function):
    """A function of NumPy's on stacks of matrices that gives NaN for those, and those only, that it fails for."""

    def evaluate(primitive, *arrays, **params):
        try:
            return function(*arrays, **params)
        except np.linalg.LinAlgError:
            return one_by_one(primitive, lambda *one: _attempt(function, one, params), *arrays, **params)

    return evaluate


def _attempt(function, arrays, params):
    try:
        return function(*arrays, **params)
    except np.linalg.LinAlgError:
        return None


def one_by_one(primitive, function, /, *arrays, core=2, **params):
    """The results of a function of one matrix, or several, for each of a stack: zeros where these have no elements, NaN where
    it returns None. `core` is how many axes are not the stack's."""
    types = primitive.infer(tuple([array_type(x.shape, x.dtype) for x in arrays]), params)
    outs = [np.zeros(type.shape, type.dtype) for type in (types if primitive.multiple_results else (types,))]
    stack = arrays[0].shape[: arrays[0].ndim - core] if all([x.size for x in arrays]) else (0,)
    for index in np.ndindex(stack):
        found = function(*[x[index] for x in arrays])
        found = [np.nan] * len(outs) if found is None else found if primitive.multiple_results else (found,)
        for out, value in zip(outs, found):
            out[index] = value
    return tuple(outs) if primitive.multiple_results else outs[0]


# ---- in StableHLO: `lower` -------------------------------------------------------------------------------------------------


def _layout(type, batch):
    """The order of axes in memory, the fastest first: matrices by columns, as LAPACK has them."""
    ndim = len(type.shape)
    order = [ndim - 2, ndim - 1, *range(ndim - 3, -1, -1)] if ndim == batch + 2 else list(range(ndim - 1, -1, -1))
    return f"dense<{order if order else ''}> : tensor<{ndim}xindex>"


def call_lapack(write, name, operands, results, batch, aliases=None, **flags):
    """Call LAPACK's kernel `name` for the dtype of the operands' first; zeros where there are no elements to work on.

    Arguments:
        results: the types of its results. batch: how many batch axes there are.
        aliases: for operands that it overwrites, by number, the number of the result.
        flags: its options: letters, or ints.
    """
    if not all([math.prod(value.shape) for value in operands]):
        return [write.constant(0, type) for type in results]
    if write.platform == "native":
        return plain_matrices.written(write, name, operands, results, flags)
    if write.platform != "cpu":
        return without_lapack.written(write, name, operands, results, flags)
    letter = _LETTERS[operands[0].dtype]
    name = _HERMITIAN.get(name, name) if letter in "cz" else name
    given = [f"{key} = {ord(flag)} : ui8" if isinstance(flag, str) else f"{key} = {flag} : i32" for key, flag in flags.items()]
    places = (aliases or {}).items()
    tuple_index = "[{}]" if len(results) > 1 else "[]"
    alias = [
        f"#stablehlo.output_operand_alias<output_tuple_indices = {tuple_index.format(out)},"
        f" operand_index = {operand}, operand_tuple_indices = []>"
        for operand, out in places
    ]
    return write.many(
        "stablehlo.custom_call",
        operands,
        results,
        call_target_name=f'"lapack_{letter}{name}_ffi"',
        api_version="4 : i32",
        backend_config=f"{{{', '.join(given)}}}",
        operand_layouts=f"[{', '.join([_layout(value.type, batch) for value in operands])}]",
        result_layouts=f"[{', '.join([_layout(type, batch) for type in results])}]",
        output_operand_aliases=f"[{', '.join(alias)}]",
    )


def status_type(x):
    """The type of the status that a kernel returns for each matrix of a stack: 0 if it succeeded."""
    return TensorType(x.shape[:-2], np.dtype(np.int32))


def where_written(write, found, x, number):
    """x where `found`, which lacks the last axes of x, else a number."""
    spread = write.broadcast(found, x.shape, range(len(found.shape)))
    return write.select(spread, x, write.like(x, number))


def checked(write, status, *values):
    """What a kernel returned, NaN where its status says that it failed."""
    fine = write.compare("EQ", status, write.like(status, 0))
    return [where_written(write, fine, value, np.nan) for value in values]


def triangle_written(write, x, below):
    """The lower, or upper, triangles of matrices."""
    counts = TensorType(x.shape, np.dtype(np.int32))
    rows, columns = (
        write.op("stablehlo.iota", [], counts, iota_dimension=f"{len(x.shape) - 2 + axis} : i64") for axis in (0, 1)
    )
    return write.select(write.compare("GE" if below else "LE", rows, columns), x, write.like(x, 0))


def identity_written(write, type):
    """Identity matrices, as a value of a type."""
    counts = TensorType(type.shape, np.dtype(np.int32))
    rows, columns = (
        write.op("stablehlo.iota", [], counts, iota_dimension=f"{len(type.shape) - 2 + axis} : i64") for axis in (0, 1)
    )
    return write.convert(write.compare("EQ", rows, columns), type.dtype)


# ---- how many operations the usual algorithms take (G. H. Golub and C. F. Van Loan, Matrix Computations) -----------------


def of_stack(x, count):
    """As many operations on each matrix of a stack, four times as many on complex ones."""
    return math.prod(x.shape[:-2]) * count * (4 if kind(x.dtype) == "c" else 1)


def elimination(x):
    """Operations of the elimination of an m by n matrix, by rows: 2/3 n^3 of a square one."""
    *_, m, n = x.shape
    k = min(m, n)
    return of_stack(x, 2 * m * n * k - (m + n) * k**2 + 2 * k**3 / 3)


def reflections(x):
    """Operations of making an m by n matrix triangular by reflections: 2 m n^2 - 2/3 n^3, if it has no fewer rows."""
    return 2 * elimination(x)


def singular(x, vectors, full=False):
    """Operations of a singular value decomposition of an m by n matrix, m >= n: 4 m n^2 - 4/3 n^3 for the values only."""
    n, m = sorted(x.shape[-2:])
    found = 4 * m * n**2 - 4 * n**3 / 3
    if vectors:
        found = 4 * m**2 * n + 8 * m * n**2 + 9 * n**3 if full else 14 * m * n**2 + 8 * n**3
    return of_stack(x, found)


def of_factors(x):
    """Operations of a singular value decomposition, and of the product of its factors."""
    *_, m, n = x.shape
    return singular(x, True) + of_stack(x, 2 * m * n * min(m, n))
