"""A sparse matrix as the list of its entries: what the sparse derivatives return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, as_array
from pullback.core.brief import counted
from pullback.core.errors import ShapeError
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import register_node
from pullback.core.types import array_type
from pullback.core.zero import zeros
from pullback.numpy.creation import zeros as array_of_zeros
from pullback.numpy.promotion import operand
from pullback.ops.create import full
from pullback.ops.index import scatter_add
from pullback.ops.scipy_functions import coo_array
from pullback.ops.shape import reshape
from pullback.ops.windows import ScatterDimensionNumbers

Indices = np.ndarray[Any, np.dtype[np.int64]]


class Pattern:
    """Where the entries of a sparse matrix are that may differ from zero. Immutable; equal ones compare and hash equal.

    Attributes:
        rows, columns: the indices of each entry, as integer NumPy arrays; in the order row by row, each entry once.
        shape: how many rows and columns the matrix has.
        overestimated: the operations, with their source lines, for which it is not known what depends on what, so that all of
            their results were taken to depend on all of their operands: there the pattern may have more entries than needed.

    Example:
        >>> import pullback as pb
        >>> pattern = pb.sparse.Pattern([0, 1], [2, 0], (2, 3))
        >>> pattern
        <Pattern 2 x 3, 2 entries>
        >>> pattern == pb.sparse.Pattern([1, 0], [0, 2], (2, 3))
        True
    """

    __slots__ = ("_hash", "columns", "overestimated", "rows", "shape")

    def __init__(self, rows: Any, columns: Any, shape: tuple[int, int], overestimated: Sequence[str] = ()) -> None:
        rows, columns = np.asarray(rows, np.int64).reshape(-1), np.asarray(columns, np.int64).reshape(-1)
        height, width = shape
        if rows.shape != columns.shape:
            raise ShapeError(
                f"A pattern takes as many rows as columns, but got {rows.size} and {counted(columns.size, 'index')}."
            )
        if rows.size and not (rows.min() >= 0 and rows.max() < height and columns.min() >= 0 and columns.max() < width):
            raise ShapeError(
                f"A pattern of shape ({height}, {width}) was given indices outside of it: rows must be from 0 to {height - 1},"
                f" columns from 0 to {width - 1}."
            )
        self.rows, self.columns = np.divmod(np.unique(rows * width + columns), max(width, 1))
        self.shape = (int(height), int(width))
        self.overestimated = tuple(overestimated)
        self._hash: int | None = None

    @property
    def count(self) -> int:
        """The number of entries.

        Example:
            >>> import pullback as pb
            >>> pb.sparse.Pattern([0, 1, 1], [2, 0, 0], (2, 3)).count
            2
        """
        return len(self.rows)

    def todense(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The pattern as a NumPy array of bools.

        Returns:
            A NumPy array of the pattern's shape.

        Example:
            >>> import pullback as pb
            >>> pb.sparse.Pattern([0, 1], [2, 0], (2, 3)).todense()
            array([[False, False,  True],
                   [ True, False, False]])
        """
        out = np.zeros(self.shape, bool)
        out[self.rows, self.columns] = True
        return out

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        same = self.shape == other.shape and self.count == other.count
        return same and bool((self.rows == other.rows).all() and (self.columns == other.columns).all())

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.shape, self.rows.tobytes(), self.columns.tobytes()))
        return self._hash

    def __repr__(self) -> str:
        more = f", overestimated at {', '.join(self.overestimated)}" if self.overestimated else ""
        return f"<Pattern {self.shape[0]} x {self.shape[1]}, {self.count} entries{more}>"


class SparseMatrix:
    """A matrix of which the entries that may differ from zero are listed (coordinate form). A pytree: its one leaf is `data`.

    It holds numbers and does no arithmetic: `to_scipy()` gives a matrix to multiply and solve with, `todense()` an array. What
    `vmap` of a sparse Jacobian returns holds a batch of `data`: `vmap(lambda matrix: matrix.todense())` takes it apart.

    Arguments:
        data: the values of the entries, an array with one axis.
        indices: their rows and columns, two integer arrays as long as `data`; each pair at most once, in order row by row.
        shape: how many rows and columns it has.

    `matrix @ x` and `x @ matrix` multiply it by a vector or a matrix, entry by entry, traced or not, with derivatives.
    `todense()` is an array, which NumPy and pb.numpy take. `to_scipy()` is SciPy's matrix, which its solvers take, as
    `scipy.sparse.linalg.spsolve(matrix.to_scipy().tocsr(), b)`. What vmap returns is a batch of matrices in one, whose `data`
    has an axis in front: apply to it pb.vmap of a function that uses a matrix, `pb.vmap(lambda m: m.todense())(batch)`.

    Example:
        >>> import pullback as pb
        >>> matrix = pb.sparse.SparseMatrix(pb.numpy.asarray([1.0, 2.0]), ([0, 1], [2, 0]), (2, 3))
        >>> matrix
        <SparseMatrix 2 x 3, 2 entries of f32>
        >>> matrix.todense()
        [[0. 0. 1.]
         [2. 0. 0.]]:f32[2,3]:cpu(0)
        >>> matrix @ pb.numpy.asarray([1.0, 2.0, 3.0])
        [3. 2.]:f32[2]:cpu(0)
    """

    __slots__ = ("data", "pattern")
    __array_ufunc__ = None  # so that NumPy leaves a product with one of its arrays to `__rmatmul__`

    def __init__(self, data: Any, indices: tuple[Any, Any], shape: tuple[int, int]) -> None:
        self.data = data if isinstance(data, (Array, Tracer)) else as_array(data)
        rows, columns = (np.asarray(part, np.int64) for part in indices)
        self.pattern = Pattern(rows, columns, shape)
        if self.data.type.shape != (self.pattern.count,) or not np.array_equal(rows, self.pattern.rows):
            raise ShapeError(
                f"SparseMatrix takes a value for each entry, entries in order row by row and each once, but got data of type"
                f" {self.data.type} for {counted(rows.size, 'row')} and {counted(columns.size, 'column')}."
            )
        if not np.array_equal(columns, self.pattern.columns):
            raise ShapeError("SparseMatrix takes the entries of a row in the order of their columns, each once.")

    @property
    def indices(self) -> tuple[Indices, Indices]:
        """The rows and columns of the entries, as NumPy arrays.

        Example:
            >>> import pullback as pb
            >>> pb.sparse.SparseMatrix(pb.numpy.ones(2), ([0, 1], [2, 0]), (2, 3)).indices
            (array([0, 1]), array([2, 0]))
        """
        return self.pattern.rows, self.pattern.columns

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns the matrix has.

        Example:
            >>> import pullback as pb
            >>> pb.sparse.SparseMatrix(pb.numpy.ones(2), ([0, 1], [2, 0]), (2, 3)).shape
            (2, 3)
        """
        return self.pattern.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the entries.

        Example:
            >>> import pullback as pb
            >>> pb.sparse.SparseMatrix(pb.numpy.ones(2), ([0, 1], [2, 0]), (2, 3)).dtype
            dtype('float32')
        """
        return type_of(self.data).dtype

    @property
    def nnz(self) -> int:
        """The number of entries, zeros among them counted.

        Example:
            >>> import pullback as pb
            >>> pb.sparse.SparseMatrix(pb.numpy.array([1.0, 0.0]), ([0, 1], [2, 0]), (2, 3)).nnz
            2
        """
        return self.pattern.count

    def todense(self) -> Any:
        """The matrix as an array, zeros and all; also where it is traced.

        Returns:
            An array of the matrix's shape and dtype.

        Example:
            >>> import pullback as pb
            >>> pb.sparse.SparseMatrix(pb.numpy.ones(2), ([0, 1], [2, 0]), (2, 3)).todense()
            [[0. 0. 1.]
             [1. 0. 0.]]:f32[2,3]:cpu(0)
        """
        self._alone("todense()", "m.todense()")
        height, width = self.shape
        if not self.nnz:
            return zeros(array_type(self.shape, self.dtype))
        start = full((height * width,), 0, self.dtype)
        places = (self.pattern.rows * width + self.pattern.columns).reshape(-1, 1)
        numbers = ScatterDimensionNumbers((), (0,), (0,))
        params = {"dimension_numbers": numbers, "mode": "promise_in_bounds", "unique_indices": True}
        return reshape(scatter_add(start, as_array(places), self.data, **params), new_sizes=(height, width))

    def to_scipy(self) -> Any:
        """The matrix as SciPy's `coo_array`, which other libraries' solvers take.

        Returns:
            A `scipy.sparse.coo_array`.

        Raises:
            TracerArrayConversionError: the values are traced, so they are not known yet.

        Example:
            >>> import pullback as pb
            >>> pb.sparse.SparseMatrix(pb.numpy.ones(2), ([0, 1], [2, 0]), (2, 3)).to_scipy().toarray()
            array([[0., 0., 1.],
                   [1., 0., 0.]], dtype=float32)
        """
        if np.ndim(self.data) != 1:
            raise self._batched(
                "to_scipy()", "its matrices one by one: m.to_scipy() of each pb.tree.map(lambda x: x[i], batch)"
            )
        return coo_array(np.asarray(self.data), *self.indices, self.shape)

    def __matmul__(self, other: Any) -> Any:
        other = operand(other, "@", "the other operand")
        return self._product("m @ x", other, self.pattern.rows, self.pattern.columns, self.shape)

    def __rmatmul__(self, other: Any) -> Any:
        other = operand(other, "@", "the other operand")
        return self._product("x @ m", other.T, self.pattern.columns, self.pattern.rows, self.shape[::-1]).T

    def _product(self, what: str, other: Any, into: Indices, of: Indices, shape: tuple[int, int]) -> Any:
        """The sum over the entries: to each row of the result, an entry times a row of `other`."""
        self._alone(what, what)
        if other.ndim not in (1, 2) or other.shape[0] != shape[1]:
            raise ShapeError(
                f"A sparse matrix of shape {self.shape} is multiplied by a vector or a matrix that fits, but got {other.type}."
            )
        data = self.data if other.ndim == 1 else reshape(self.data, new_sizes=(self.nnz, 1))
        products = data * other[of]
        return array_of_zeros((shape[0], *other.shape[1:]), products.dtype).at[into].add(products)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            "A SparseMatrix does not become a NumPy array by itself: use .todense() for all of its elements, .data and .indices"
            " for its entries, or .to_scipy()."
        )

    def _alone(self, what: str, cure: str) -> None:
        """Raise `ShapeError` for a batch of matrices, which a vmap has returned."""
        if len(type_of(self.data).shape) != 1:
            raise self._batched(what, f"pb.vmap(lambda m: {cure})(batch)")

    def _batched(self, what: str, cure: str) -> ShapeError:
        return ShapeError(
            f"{what} is for one sparse matrix, but this is a batch of them, with data {self.data.type}. Use {cure}."
        )

    def __repr__(self) -> str:
        text = str(type_of(self.data))
        batch = type_of(self.data).shape[:-1]
        many = f"batch {list(batch)} of " if batch else ""
        return f"<SparseMatrix {many}{self.shape[0]} x {self.shape[1]}, {self.nnz} entries of {text.split('[')[0]}>"


def of_pattern(data: Any, pattern: Pattern) -> SparseMatrix:
    """The matrix with these values at the entries of a pattern."""
    made = SparseMatrix.__new__(SparseMatrix)
    made.data, made.pattern = data, pattern
    return made


register_node(SparseMatrix, lambda matrix: ((matrix.data,), matrix.pattern), lambda pattern, data: of_pattern(data[0], pattern))
