"""Functions of numbers applied to arrays: `vectorize`, and what NumPy's universal functions can do beside being called."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Sequence
from types import FunctionType
from typing import Any

from pullback.api.loops import scan
from pullback.api.mapping import vmap
from pullback.core.array import ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import DTypeLike, default_dtype, requested
from pullback.core.errors import ShapeError
from pullback.core.source import api_boundary, api_class, innermost
from pullback.core.types import Shape
from pullback.numpy import arithmetic, logic, reductions, scans
from pullback.numpy.axes import Axis, normal_axes, normal_axis
from pullback.numpy.creation import arange
from pullback.numpy.logic import where as choose
from pullback.numpy.promotion import (
    at_user_line,
    broadcast,
    broadcast_shapes,
    check_ranks,
    in_dtype,
    operand,
    refuse_out,
    strong,
)
from pullback.numpy.reductions import kept_shape
from pullback.numpy.shaping import broadcast_to, concatenate, moveaxis, ravel, reshape, stack

UNROLLED = 32  # elements up to which a fold is written out, without a loop

# Primitives and methods that do the same as a fold, or an update one by one.
_REDUCTIONS: dict[Any, Any] = {
    arithmetic.add: reductions.sum, arithmetic.multiply: reductions.prod, arithmetic.maximum: reductions.max,
    arithmetic.minimum: reductions.min, logic.logical_and: reductions.all, logic.logical_or: reductions.any,
}  # fmt: skip
_SCANS: dict[Any, Any] = {arithmetic.add: scans.cumsum, arithmetic.multiply: scans.cumprod}
_UPDATES: dict[Any, str] = {
    arithmetic.add: "add", arithmetic.subtract: "subtract", arithmetic.multiply: "multiply", arithmetic.maximum: "max",
    arithmetic.minimum: "min",
}  # fmt: skip


class _Universal(type):
    """The class of `ufunc`: the functions of this namespace that have its methods are instances of it as well."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (isinstance(instance, FunctionType) and hasattr(instance, "reduceat"))


@api_class
class ufunc(metaclass=_Universal):
    """A function of numbers, applied to each element of arrays, with NumPy's methods: `reduce`, `accumulate`, `outer`, ...

    `frompyfunc` makes one. The functions of two numbers of this namespace, as `pnp.add`, have the same methods.

    Attributes:
        nin, nout, nargs: how many operands and results there are, and both together.
        identity: what changes nothing as an operand; None if there is none.

    Example:
        >>> difference = pnp.frompyfunc(lambda x, y: abs(x - y), 2, 1)
        >>> difference(pnp.array([1.0, 5.0]), 3.0)
        [2. 2.]:f32[2]:cpu(0)
        >>> difference.reduce(pnp.array([1.0, 5.0, 9.0])), pnp.subtract.outer(pnp.array([1, 2]), pnp.array([1, 2]))[0]
        (5.0:f32[]:cpu(0), [ 0 -1]:i32[2]:cpu(0))
    """

    def __init__(self, func: Callable[..., Any], nin: int, nout: int = 1, *, identity: Any = None) -> None:
        self.function, self.nin, self.nout, self.nargs, self.identity = func, nin, nout, nin + nout, identity
        functools.update_wrapper(self, func, updated=())

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("nin", "nout", "nargs", "identity") and name in vars(self):
            raise AttributeError(f"{name} of {self!r} cannot be changed: make another one with frompyfunc.")
        super().__setattr__(name, value)

    def _facts(self) -> tuple[Any, ...]:
        return innermost(self.function), self.nin, self.nout, self.identity.__class__, self.identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self.__class__ is other.__class__ and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def __call__(self, *args: ArrayLike) -> Any:
        if len(args) != self.nin:
            raise TypeError(f"{self!r} takes {counted(self.nin, 'operand')}, but got {len(args)}.{at_user_line()}")
        return self.function(*args)

    def __repr__(self) -> str:
        return f"ufunc {getattr(self, '__name__', 'of a function')}"

    def _name(self, method: str) -> str:
        return f"{getattr(self, '__name__', 'ufunc')}.{method}"

    def _prepared(self, method: str, a: Any, dtype: DTypeLike, out: Any) -> Any:
        """An operand of a fold, in the dtype of its results."""
        name = self._name(method)
        refuse_out(name, out)
        if (self.nin, self.nout) != (2, 1):
            raise ValueError(f"{name} is there for functions of two numbers, not of {self.nin}.{at_user_line()}")
        a = strong(operand(a, name))
        one = in_dtype(a, requested(dtype)) if dtype is not None else a
        found = self(*[reshape(ravel(one), (-1,))[:0]] * 2).type.dtype if dtype is None else one.type.dtype
        return in_dtype(one, reductions.summed_dtype(found) if dtype is None and self.function in _SCANS else found)

    def reduce(
        self,
        a: ArrayLike,
        axis: Axis = 0,
        dtype: DTypeLike = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Any:
        """The elements along axes combined, from the first to the last.

        Arguments:
            a: an array.
            axis: the axis or axes, the first by default; None for all, in row-major order.
            dtype: the dtype to compute in.
            out: None: arrays are immutable.
            keepdims: keep the axes, of size 1.
            initial: what to begin with; by default the first element, or the identity, where elements may be missing.
            where: bools that broadcast to the shape of `a`; elements where they are false are left out.

        Returns:
            An array without the axes.

        Raises:
            ShapeError: there are no elements, and neither `initial` nor an identity.
            ValueError: `where` with neither; or not a function of two numbers.

        Example:
            >>> pnp.multiply.reduce(pnp.array([[1, 2], [3, 4]]))
            [3 8]:i32[2]:cpu(0)
        """
        known = _REDUCTIONS.get(self.function)
        if known in (reductions.all, reductions.any) and initial is None and dtype is None:
            return known(a, axis, out, keepdims, where)
        if known in (reductions.sum, reductions.prod):
            return known(a, axis, dtype, out, keepdims, initial, where)
        if known in (reductions.max, reductions.min):
            a = a if dtype is None else in_dtype(operand(a, self._name("reduce")), requested(dtype))
            return known(a, axis, out, keepdims, initial, where)
        x = self._prepared("reduce", a, dtype, out)
        name, axes = self._name("reduce"), normal_axes(axis, x.type, self._name("reduce"))
        rest = x.type.without(axes).shape
        start = self.identity if initial is None and (where is not None or not x.type.size) else initial
        if start is None and where is not None:
            raise ValueError(f"{name} with `where` needs an `initial` value: there is no identity.{at_user_line()}")
        count = x.type.size // max(math.prod(rest), 1) if x.type.size else 0
        if start is None and not count:
            raise ShapeError(f"{name} of no elements has no value: {x.type}. Pass `initial`.{at_user_line()}")

        def in_rows(y: Any) -> Any:
            return reshape(moveaxis(y, axes, tuple(range(len(axes)))), (count, *rest))

        mask = None if where is None else in_rows(broadcast_to(operand(where, name), x.type.shape))
        rows = in_rows(x)
        first = rows[0] if start is None else broadcast(in_dtype(operand(start, name), x.type.dtype), rest)
        found = self._folded(first, rows if start is not None else rows[1:], mask)[0]
        return strong(reshape(found, kept_shape(x.type, axes)) if keepdims else found)

    def _folded(self, first: Any, rows: Any, mask: Any = None, keep: bool = False) -> tuple[Any, Any]:
        """`first` combined with each row, one after the other; and what it was on the way, if that is kept."""
        dtype = first.type.dtype

        def step(total: Any, row: Any) -> tuple[Any, Any]:
            value, chosen = row if mask is not None else (row, None)
            # what is left out may have no derivative, so it is no operand
            out = in_dtype(self(total, value if chosen is None else choose(chosen, value, total)), dtype)
            out = strong(out if chosen is None else choose(chosen, out, total))
            return out, out if keep else None

        if rows.type.shape[0] > UNROLLED:
            last, kept = scan(step, first, rows if mask is None else (rows, mask))
            return last, kept
        kept = []
        for i in range(rows.type.shape[0]):
            first, _ = step(first, rows[i] if mask is None else (rows[i], mask[i]))
            kept.append(first)
        return first, (stack(kept) if kept else rows) if keep else None

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None) -> Any:
        """What the elements up to each one along an axis make together.

        Arguments:
            a: an array.
            axis: the axis.
            dtype: the dtype to compute in.
            out: None: arrays are immutable.

        Returns:
            An array of the same shape.

        Raises:
            AxisError: the array has no such axis.
            ValueError: not a function of two numbers.

        Example:
            >>> pnp.maximum.accumulate(pnp.array([1, 3, 2, 5]))
            [1 3 3 5]:i32[4]:cpu(0)
        """
        if (known := _SCANS.get(self.function)) is not None:
            return known(a, axis, dtype, out)
        x = self._prepared("accumulate", a, dtype, out)
        along = normal_axis(axis, x.type.ndim, self._name("accumulate"))
        rows = moveaxis(x, along, 0)
        if not rows.type.shape[0]:
            return x
        later = self._folded(rows[0], rows[1:], keep=True)[1]
        return moveaxis(concatenate([rows[:1], later]), 0, along)

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Any:
        """The function of each element of A with each of B.

        Arguments:
            A, B: arrays or numbers.

        Returns:
            An array with the axes of A, then those of B.

        Raises:
            LeafError: an operand is neither an array nor a number.

        Example:
            >>> pnp.add.outer(pnp.array([10, 20]), pnp.array([1, 2, 3]))
            [[11 12 13]
             [21 22 23]]:i32[2,3]:cpu(0)
        """
        A, B = operand(A, self._name("outer")), operand(B, self._name("outer"))
        own, others = A.type.shape, B.type.shape
        return self(reshape(A, (*own, *[1] * len(others))), reshape(B, (*[1] * len(own), *others)))

    def at(self, a: ArrayLike, indices: Any, b: ArrayLike | None = None, /, *, inplace: bool = True) -> Any:
        """The array with the function applied to some elements, as often as each is named.

        Arguments:
            a: an array.
            indices: what `a` may be indexed with.
            b: the second operand, of a function of two.
            inplace: False: arrays are immutable, and a new one is returned.

        Returns:
            An array.

        Raises:
            TypeError: `inplace` is true; `b` is missing, or superfluous.

        Example:
            >>> pnp.add.at(pnp.array([0, 0, 0]), pnp.array([0, 2, 2]), 1, inplace=False)
            [1 0 2]:i32[3]:cpu(0)
        """
        name = self._name("at")
        if inplace:
            raise TypeError(f"{name} cannot write into its array, which is immutable: pass inplace=False.{at_user_line()}")
        if (b is None) != (self.nin == 1):
            more = counted(self.nin - 1, "further operand")
            got = "none" if b is None else "one"
            raise TypeError(f"{name} takes an array, indices and {more}, but got {got}.{at_user_line()}")
        x: Any = operand(a, name)
        if b is None:
            return x.at[indices].apply(self.function)
        if (method := _UPDATES.get(self.function)) is not None:
            return getattr(x.at[indices], method)(b)
        places = reshape(arange(x.type.size, dtype=default_dtype("i")), x.type.shape)[indices]
        values = ravel(broadcast_to(operand(b, name), places.type.shape))

        def step(flat: Any, one: Any) -> tuple[Any, None]:
            place, value = one
            return flat.at[place].set(in_dtype(self(flat[place], value), flat.type.dtype)), None

        return reshape(scan(step, ravel(x), (ravel(places), values))[0], x.type.shape)

    def reduceat(self, a: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: None = None) -> Any:
        """The elements from each index up to the next one combined; the element itself, where the next one is not behind.

        Arguments:
            a: an array.
            indices: a vector of whole numbers. The last range goes to the end of the axis.
            axis: the axis.
            dtype: the dtype to compute in.
            out: None: arrays are immutable.

        Returns:
            An array with as many elements along the axis as there are indices.

        Raises:
            AxisError: the array has no such axis.
            IndexError: a known index is out of range.
            ValueError: not a function of two numbers.

        Example:
            >>> pnp.add.reduceat(pnp.arange(8), pnp.array([0, 4, 1, 6]))
            [ 6  4 15 13]:i32[4]:cpu(0)
        """
        x = self._prepared("reduceat", a, dtype, out)
        along = normal_axis(axis, x.type.ndim, self._name("reduceat"))
        rows, begins = moveaxis(x, along, 0), operand(indices, self._name("reduceat"))
        count = rows.type.shape[0]
        ends = concatenate([begins[1:], in_dtype(count, begins.type.dtype).reshape(1)])
        shape = (-1, *[1] * (rows.type.ndim - 1))
        begins_, ends = reshape(begins, shape), reshape(ends, shape)

        def step(total: Any, one: Any) -> tuple[Any, None]:
            place, row = one
            inside = (place > begins_) & (place < ends)
            return strong(choose(inside, in_dtype(self(total, choose(inside, row, total)), x.type.dtype), total)), None

        found = scan(step, strong(rows[begins]), (arange(count, dtype=default_dtype("i")), rows))[0]
        return moveaxis(found, 0, along)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A `ufunc` of a Python function of numbers.

    Arguments:
        func: called with traced 0-d arrays; it returns an array, or a tuple of `nout`.
        nin, nout: how many operands and results there are.
        identity: what changes nothing as an operand, which folds of no elements give.

    Returns:
        A ufunc.

    Raises:
        TypeError: `func` cannot be called.

    Example:
        >>> larger = pnp.frompyfunc(lambda x, y: pnp.where(x > y, x, y), 2, 1)
        >>> larger.reduce(pnp.array([3, 9, 4]))
        9:i32[]:cpu(0)
    """
    return ufunc(vectorize(func), nin, nout, identity=identity)


_DIMENSIONS = r"\((?:\w+(?:,\w+)*)?\)"
_SIGNATURE = re.compile(rf"{_DIMENSIONS}(?:,{_DIMENSIONS})*->{_DIMENSIONS}(?:,{_DIMENSIONS})*")


def _core_dimensions(signature: str) -> tuple[list[list[str]], list[list[str]]]:
    """The names of the dimensions of the operands and of the results: "(n,k),(k)->(n)"."""
    text = "".join(signature.split()) if isinstance(signature, str) else ""
    if not _SIGNATURE.fullmatch(text):
        raise ValueError(f"vectorize takes a signature such as '(n,k),(k)->(n)', but got {brief(signature)}.{at_user_line()}")
    return tuple([re.findall(r"\w+", each) for each in re.findall(_DIMENSIONS, side)] for side in text.split("->"))  # type: ignore[return-value]


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """A function of arrays that applies `pyfunc`, a function of numbers or of small arrays, along all axes but the last ones.

    Arguments:
        pyfunc: traced once for each call, by `pb.vmap`; it returns an array, or a tuple of them.
        excluded: the places and names of arguments that are passed on as they are, as None is without a signature.
        signature: the dimensions of what `pyfunc` takes and returns, as "(n,k),(k)->(n)"; by default it takes numbers.

    Returns:
        A function whose operands broadcast, apart from those dimensions.

    Raises:
        TypeError: `pyfunc` cannot be called; something else than a whole number or a name is excluded.
        ValueError: no such signature; a negative number is excluded.

    Example:
        >>> power = pnp.vectorize(lambda x, n: x**n)
        >>> power(pnp.array([1, 2, 3]), pnp.array([[2], [3]]))
        [[ 1  4  9]
         [ 1  8 27]]:i32[2,3]:cpu(0)
        >>> norm = pnp.vectorize(lambda v: pnp.sqrt(v @ v), signature="(n)->()")
        >>> norm(pnp.array([[3.0, 4.0], [6.0, 8.0]]))
        [ 5. 10.]:f32[2]:cpu(0)
    """
    if not callable(pyfunc):
        raise TypeError(f"vectorize takes a function, but got {brief(pyfunc)}.{at_user_line()}")
    wanted = None if signature is None else _core_dimensions(signature)
    left_out = frozenset(excluded)
    if any([not isinstance(each, (int, str)) for each in left_out]):
        raise TypeError(
            f"vectorize can only exclude arguments by number or name, but got excluded={brief(excluded)}.{at_user_line()}"
        )
    if any([isinstance(each, int) and each < 0 for each in left_out]):
        raise ValueError(
            f"vectorize: excluded={brief(excluded)} contains negative numbers. Count arguments from 0.{at_user_line()}"
        )

    @functools.wraps(pyfunc)
    @api_boundary
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        nothing = {i for i, arg in enumerate(args) if arg is None and i not in left_out}
        if nothing and wanted is not None:
            raise ValueError(
                f"vectorize: Cannot pass None at locations {nothing} with signature={signature!r}. Exclude them"
                f" (excluded).{at_user_line()}"
            )
        named = {name: value for name, value in kwargs.items() if name not in left_out}
        keys: list[Any] = [i for i in range(len(args)) if i not in left_out | nothing] + list(named)
        values = [operand(args[key] if isinstance(key, int) else named[key], "vectorize", f"argument {key}") for key in keys]
        inner = [[] for _ in keys] if wanted is None else wanted[0]
        if len(inner) != len(values):
            raise TypeError(
                f"vectorize: wrong number of positional arguments for {signature}: {len(values)} were given, but it takes"
                f" {len(inner)}.{at_user_line()}"
            )
        sizes: dict[str, int] = {}
        outer_shapes = []
        for value, names in zip(values, inner):
            outer_shapes.append(_outer_shape(value.type.shape, names, sizes, str(signature)))
        check_ranks("vectorize", outer_shapes)
        outer = broadcast_shapes("vectorize", *outer_shapes) if outer_shapes else ()
        count = math.prod(outer)
        axes = [0 if own else None for own in outer_shapes]
        flat = []
        for value, own in zip(values, outer_shapes):
            core = value.type.shape[len(own) :]
            flat.append(reshape(broadcast_to(value, (*outer, *core)), (count, *core)) if own else value)

        def call(*given: Any) -> Any:
            found = dict(zip(keys, given))
            by_name = {name: found.get(name, value) for name, value in kwargs.items()}
            out = pyfunc(*[found.get(i, arg) for i, arg in enumerate(args)], **by_name)
            return _checked(out, None if wanted is None else wanted[1], sizes, str(signature))

        if not outer:
            return call(*flat)
        batched = vmap(call, in_axes=tuple(axes), axis_size=count)(*flat)
        shaped = [
            reshape(out, (*outer, *out.type.shape[1:])) for out in (batched if isinstance(batched, tuple) else (batched,))
        ]
        return tuple(shaped) if isinstance(batched, tuple) else shaped[0]

    return vectorized


def _outer_shape(shape: Shape, names: Sequence[str], sizes: dict[str, int], signature: str) -> Shape:
    """The axes of an operand in front of those that the signature names, whose sizes are noted, or compared."""
    if len(shape) < len(names):
        raise ShapeError(
            f"vectorize: an input with shape {shape} does not have enough dimensions for {signature}: it needs an axis for each"
            f" name there.{at_user_line()}"
        )
    split = len(shape) - len(names)
    for name, size in zip(names, shape[split:]):
        if sizes.setdefault(name, int(name) if name.isdigit() else size) != size:
            raise ShapeError(
                f"vectorize: inconsistent size for core dimension {name!r} of {signature}: it is {sizes[name]}, but an operand"
                f" has {size}.{at_user_line()}"
            )
    return shape[:split]


def _checked(out: Any, names: Sequence[Sequence[str]] | None, sizes: dict[str, int], signature: str) -> Any:
    """What `pyfunc` returned, as arrays, of the dimensions that the signature names."""
    several = isinstance(out, (tuple, list))
    outs = tuple([operand(each, "vectorize", "a result") for each in (out if several else (out,))])
    if names is not None and len(outs) != len(names):
        wrong = "wrong number of output arguments" if several else "the output must be a tuple"
        raise TypeError(
            f"vectorize: {wrong}: {signature} has {counted(len(names), 'result')}, but the function returned"
            f" {len(outs)}.{at_user_line()}"
        )
    for each, core in zip(outs, names or ()):
        shape = each.type.shape
        if len(shape) != len(core):
            raise ShapeError(
                f"vectorize: output shape {shape} does not match the dimensions ({','.join(core)}) of"
                f" {signature}. One name must stand for one size."
                f"{at_user_line()}"
            )
        for name, size in zip(core, shape):
            if sizes.setdefault(name, size) != size:
                raise ShapeError(
                    f"vectorize: inconsistent size for core dimension {name!r} of {signature}: it is {sizes[name]}, but the"
                    f" function returned {each.type}.{at_user_line()}"
                )
    return outs if several else outs[0]
