"""The family of elementwise operations. Their operands have one shape and one dtype, or are 0-d; the result has that shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.core.brief import counted
from pullback.core.dtypes import BOOL
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.primitive import Rules
from pullback.core.tracing import bind, type_of
from pullback.core.types import ArrayType, Shape
from pullback.ops.broadcast import broadcast_in_dim, repeated
from pullback.ops.families import check_kinds
from pullback.ops.formulas import lowered


class Elementwise(Rules):
    """f(x, y, ...) on each element. Needs `evaluate`, `lower`, and `partials` where it has derivatives.

    Example:
        >>> import pullback as pb
        >>> @pb.primitive
        ... class double(pb.Elementwise):
        ...     "2 x."
        ...     def evaluate(x): return 2 * x
        ...     def lower(write, x): return write.elementwise("stablehlo.add", x, x)
        ...     def partials(out, x): return (2.0,)
        >>> pb.jit(pb.vmap(double))(pb.numpy.array([1.0, 2.0])), pb.grad(double)(3.0)
        ([2. 4.]:f32[2]:cpu(0), 2.0:f32[]:cpu(0))
    """

    elementwise = True
    quiet = True

    def result_type(primitive, *types, **params):
        """The dtype that all operands have, and the shape that they have unless they are 0-d.

        Arguments:
            primitive: the Primitive, which the rule is given by itself.
            types: the operands' types.
            params: the parameters; any.

        Returns:
            An ArrayType.

        Raises:
            DtypeError: the dtypes differ, or are of a kind that the primitive has no rule for.
            ShapeError: the shapes differ.

        Example:
            >>> import pullback as pb
            >>> pb.Elementwise.result_type(pb.Primitive("f"), pb.ArrayType((3,), "float32"), pb.ArrayType((), "float32"))
            f32[3]
        """
        check_count(primitive, types)
        check_kinds(primitive, *types)
        return same_dtype(primitive.name, types).with_shape(operand_shape(primitive.name, types))

    def vectorize(primitive, size, args, axes, **params):
        """The operation itself on whole batches, since it does the same to each element.

        Arguments:
            primitive: the Primitive, which the rule is given by itself.
            size: how many batch elements there are.
            args: the operands.
            axes: for each of them 0, if it is batched, or None.
            params: the parameters.

        Returns:
            The result and its batch axis, 0.

        Example:
            >>> import pullback as pb
            >>> double = pb.Primitive("double", evaluate=lambda x: 2 * x)
            >>> pb.Elementwise.vectorize(double, 2, (pb.numpy.array([1.0, 2.0]),), (0,))
            ([2. 4.]:f32[2]:cpu(0), 0)
        """
        batch = None
        for arg, axis in zip(args, axes):
            own = type_of(arg).shape
            if axis is None:
                if own:
                    break
            elif batch is None:
                batch = own
            elif own != batch:
                break
        else:  # batches of one shape, and scalars that all batch elements share
            return bind(primitive, args, params), 0
        shape = max([type_of(arg).shape[axis == 0 :] for arg, axis in zip(args, axes)], key=len)  # of a batch element
        return bind(primitive, [batched_operand(arg, axis, size, shape) for arg, axis in zip(args, axes)], params), 0

    def sparsity(primitive, which, operands, **params):
        """Each element of the result depends on that element of an operand, and all on one that is 0-d.

        Arguments:
            primitive: the Primitive, which the rule is given by itself.
            which: the number of the operand.
            operands: NumPy arrays where they are known, else types.
            params: the parameters.

        Returns:
            Two arrays of flat indices: of the result's elements, and of those of the operand on which they depend.

        Example:
            >>> import pullback as pb
            >>> pb.Elementwise.sparsity(pb.Primitive("f"), 0, [pb.ArrayType((3,), "float32")])
            (array([0, 1, 2]), array([0, 1, 2]))
        """
        return each_alone(which, operands)


def each_alone(which: int, operands: Any) -> tuple[Any, Any]:
    """The sparsity of an elementwise operation: each element of the result on its own, or all on an operand that is 0-d."""
    sizes = [math.prod(operand.shape) for operand in operands]
    rank = max([len(operand.shape) for operand in operands])
    size = next(size for size, operand in zip(sizes, operands) if len(operand.shape) == rank)
    elements = np.arange(size)
    return elements, elements if len(operands[which].shape) == rank else np.zeros(size, np.int64)


def where_nonzero(which: int, operands: Any, factor: Any) -> tuple[Any, Any]:
    """As `each_alone`, without the elements of the result where `factor`, if it is known, is zero."""
    results, elements = each_alone(which, operands)
    if isinstance(factor, np.ndarray):
        kept = np.flatnonzero(factor) if factor.shape else np.arange(len(results) if factor else 0)
        if len(kept) < len(results):
            return results[kept], elements[kept]
    return results, elements


def batched_operand(arg: Any, axis: int | None, size: int, shape: Shape) -> Any:
    """An elementwise operand, made ready to meet batched ones of inner shape `shape`: itself if 0-d and unbatched."""
    inner = type_of(arg).shape
    if axis is None:
        if not inner:
            return arg
        return repeated(arg, size)
    if len(inner) == len(shape) + 1:
        return arg
    return broadcast_in_dim(arg, shape=(size, *shape), broadcast_dimensions=(0,))


def _lower_evaluation(primitive, write, *operands, **params):
    return lowered(primitive.evaluate)(write, *operands, **params)


class Formula(Elementwise):
    """An elementwise operation whose `evaluate` is a formula (`ops/formulas.py`), from which its lowering follows."""

    lower: Any = _lower_evaluation


class Function(Formula):
    """A function of one number, real or complex."""

    kinds = "fc"

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {}


class OfPositive(Function):
    """A function of a positive number."""

    def samples(rng):
        yield (0.5 + rng.random((2, 3)),), {}


class OfFraction(Function):
    """A function of a number between -1 and 1."""

    def samples(rng):
        yield (1.6 * rng.random((2, 3)) - 0.8,), {}


class OfTwo(Formula):
    """A function of two numbers."""

    def samples(rng):
        yield (rng.normal(size=(2, 3)), rng.normal(size=(2, 3))), {}
        yield (rng.normal(size=(2, 3)), rng.normal()), {}
        yield (rng.normal(), rng.normal(size=(2, 3))), {}


class Predicate(Formula):
    """An elementwise question: the result is bool, and has no derivative."""

    def result_type(primitive, *types, **params):
        return Elementwise.result_type(primitive, *types).with_dtype(BOOL)


def check_count(primitive: Any, types: tuple[ArrayType, ...]) -> None:
    """Raise `TypeError` unless there are as many operands as `evaluate` takes: to a ufunc, one more is where to write."""
    rule = primitive.evaluate
    count: int = getattr(rule, "nin", 0) or getattr(getattr(rule, "__code__", None), "co_argcount", len(types))
    if count != len(types):
        raise TypeError(f"{primitive.name} takes {counted(count, 'operand')}, but got {len(types)}.")


def operand_shape(name: str, types: tuple[ArrayType, ...]) -> Shape:
    """The one shape that elementwise operands have, those apart that are 0-d. Raises `ShapeError` if there are two."""
    shape: Shape = ()
    for type in types:
        if type.shape != shape and type.shape:
            if shape:
                raise ShapeError(
                    f"{name} takes operands of one shape, or 0-d ones, but got {', '.join(map(str, types))}."
                    " Broadcast them first: pb.numpy's functions and the operators do so, pb.lax's do not."
                )
            shape = type.shape
    return shape


def same_dtype(name: str, types: tuple[ArrayType, ...]) -> ArrayType:
    """The operands' common dtype, as a type weak only if all of them are. Raises `DtypeError` if there are two."""
    first = types[0]
    for type in types:
        if type.dtype is not first.dtype:
            raise DtypeError(
                f"{name} takes operands of one dtype, but got {', '.join(map(str, types))}."
                " Convert them first: pb.numpy's functions and the operators promote, pb.lax's do not."
            )
    return first if all(type.weak for type in types) else first.strong()
