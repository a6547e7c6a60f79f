"""What can be done with arrays, known or traced: operators, methods, protocols. Their signatures are in `methods.pyi`."""

from __future__ import annotations

from pullback.core.brief import words_of
from pullback.core.dtypes import DType
from pullback.core.types import ArrayType, Shape


class ArrayMethods:
    """The base of Arrays and of traced values. What needs an operation is added by `pullback.numpy.methods`."""

    __slots__ = ()
    type: ArrayType

    @property
    def shape(self) -> Shape:
        """The size of each axis, a tuple of ints.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros((2, 3)).shape
            (2, 3)
        """
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the elements, a NumPy dtype.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros(3).dtype
            dtype('float32')
        """
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros((2, 3)).ndim
            2
        """
        return self.type.ndim

    @property
    def size(self) -> int:
        """The number of elements.

        Example:
            >>> import pullback as pb
            >>> pb.numpy.zeros((2, 3)).size
            6
        """
        return self.type.size


@words_of.register(ArrayMethods)
def _of_array(value: ArrayMethods, depth: int = 0) -> str:
    return str(value.type)
