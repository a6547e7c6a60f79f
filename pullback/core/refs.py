"""Mutable arrays: a `Ref` is a place whose value changes, while all that is computed stays pure.

A transformation that runs a user's Python as it is (jvp, vmap, a tape) needs nothing: the place holds whatever is written to
it. While a Program is recorded, each Ref of outside is one more input of it, at its first use, and a place of that trace stands
for it; what the place holds at the end is one more output (`transforms/stage.py`). Whoever runs the Program writes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from pullback.core.array import Array, as_array, converters
from pullback.core.dtypes import promote
from pullback.core.errors import DtypeError, RefError
from pullback.core.methods import ArrayMethods
from pullback.core.source import api_class, at_user_line
from pullback.core.tracing import Tracer, innermost_staging, next_serial
from pullback.core.types import ArrayType


@api_class
class Ref:
    """A mutable array: a place with an array in it, of a shape and dtype that stay. Made by `new_ref`.

    `ref[...]` is the value now, `ref[index]` a part of it, `ref[index] = x` and `ref[index] += x` change it, with NumPy's
    indices. Functions under `jit`, and the bodies of `scan`, `while_loop`, `fori_loop`, `cond` and `switch`, may read and
    change the Refs that they close over, and functions under `jit` and `vmap` those that they are given as arguments.

    Attributes:
        type: the `ArrayType` of the value.

    Example:
        >>> import pullback as pb
        >>> calls = pb.new_ref(0)
        >>> @pb.jit
        ... def f(x):
        ...     calls[...] += 1
        ...     return 2.0 * x
        >>> f(1.0), f(2.0), calls
        (2.0:f32[]:cpu(0), 4.0:f32[]:cpu(0), Ref(2:i32[]:cpu(0)))
    """

    __slots__ = ("__weakref__", "_serial", "_value", "type")
    __hash__ = object.__hash__

    def __init__(self, value: Any, serial: int | None = None) -> None:
        self.type: ArrayType = value.type
        self._value = _own(value)
        self._serial = next_serial() if serial is None else serial  # what younger traces make must not outlive them here

    def _place(self) -> Ref:
        """Where the value is: here, or in the Program that is being recorded, if the Ref was made outside of that."""
        trace: Any = innermost_staging()
        place: Ref = self if trace is None or not trace.open or trace.serial <= self._serial else trace.place(self)
        if place._value is None:
            raise RefError(
                f"This Ref of type {self.type} was frozen, or a vmap under way was given it as another argument as well: it has"
                f" no value. Make another Ref for what follows.{at_user_line()}"
            )
        return place

    def _store(self, value: Any) -> None:
        if isinstance(value, Tracer) and value.owner.serial > self._serial:
            raise RefError(
                f"A Ref of type {self.type} cannot keep a value of {value.owner.describe()}, which began after the Ref was made"
                " and will have ended before it. Make the Ref (pb.new_ref) in the function that is transformed, return the"
                " value as a result, or write what does not depend on the transformed arguments (pb.lax.stop_gradient)."
                f"{at_user_line()}"
            )
        self._value = _own(value)

    def _fitting(self, value: Any) -> Any:
        """A value whose elements can be written here: an array, or an int, which `.at` holds against the dtype's range."""
        given, value = value, as_array(0 if value.__class__ is int else value)
        type: ArrayType = value.type
        if promote((self.type.dtype, False), (type.dtype, type.weak))[0] is not self.type.dtype:
            raise DtypeError(
                f"A Ref of dtype {self.type.dtype} was given a value of dtype {type.dtype}, which does not go into it by"
                f" itself. Convert the value: .astype({str(self.type.dtype)!r}).{at_user_line()}"
            )
        return given if given.__class__ is int else value

    # ---- reading and writing ----

    def __getitem__(self, index: Any) -> Any:
        value = self._place()._value
        return _own(value if index is Ellipsis else value[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        place, value = self._place(), self._fitting(value)
        if not (index is Ellipsis and value.__class__ is not int and value.type is self.type):
            value = place._value.at[index].set(value)
        place._store(value)

    def get(self, index: Any = ...) -> Any:
        """`ref[index]`.

        Arguments:
            index: as NumPy's; the whole array by default.

        Returns:
            An array.

        Example:
            >>> import pullback as pb
            >>> pb.new_ref(pb.numpy.arange(3)).get(1)
            1:i32[]:cpu(0)
        """
        return self[index]

    def set(self, value: Any, index: Any = ...) -> None:
        """`ref[index] = value`.

        Arguments:
            value: an array that broadcasts to `ref[index]`, of a dtype that goes into that of the Ref.
            index: as NumPy's; the whole array by default.

        Raises:
            DtypeError: the value's dtype would be lost. ShapeError: its shape does not fit.

        Example:
            >>> import pullback as pb
            >>> ref = pb.new_ref(pb.numpy.arange(3))
            >>> ref.set(7, 1)
            >>> ref
            Ref([0 7 2]:i32[3]:cpu(0))
        """
        self[index] = value

    def swap(self, value: Any, index: Any = ...) -> Any:
        """`ref[index] = value`, and what was there before.

        Arguments:
            value, index: as those of `set`.

        Returns:
            An array.

        Example:
            >>> import pullback as pb
            >>> ref = pb.new_ref(3.0)
            >>> ref.swap(4.0), ref
            (3.0:f32[]:cpu(0), Ref(4.0:f32[]:cpu(0)))
        """
        before = self[index]
        self[index] = value
        return before

    def addupdate(self, value: Any, index: Any = ...) -> None:
        """Add to `ref[index]`; where an index occurs several times, each time counts, as in `.at[index].add`.

        Arguments:
            value, index: as those of `set`.

        Example:
            >>> import pullback as pb
            >>> ref = pb.new_ref(pb.numpy.zeros(3))
            >>> ref.addupdate(1.0, pb.numpy.asarray([0, 0, 2]))
            >>> ref
            Ref([2. 0. 1.]:f32[3]:cpu(0))
        """
        place, value = self._place(), self._fitting(value)
        place._store(place._value.at[index].add(value))

    def freeze(self) -> Any:
        """The value, and the end of the Ref: to use it again is an error.

        Returns:
            An array.

        Raises:
            RefError: while a Program is recorded, for a Ref that was made outside of it.

        Example:
            >>> import pullback as pb
            >>> ref = pb.new_ref(3.0)
            >>> pb.freeze(ref)
            3.0:f32[]:cpu(0)
            >>> ref[...]
            Traceback (most recent call last):
                ...
            pullback.core.errors.RefError: This Ref of type f32[] was frozen...
        """
        place = self._place()
        if place is not self:
            raise RefError(f"A Ref can be frozen only where it was made, not in a Program that uses it.{at_user_line()}")
        value, self._value = self._value, None
        return value

    # ---- what it is ----

    shape, dtype, ndim, size = ArrayMethods.shape, ArrayMethods.dtype, ArrayMethods.ndim, ArrayMethods.size

    def __len__(self) -> int:
        return len(self[...])

    def __repr__(self) -> str:
        return f"Ref({'frozen, ' + str(self.type) if self._value is None else repr(self._place()._value)})"

    def __reduce__(self) -> Any:
        return new_ref, (self[...],)


def _own(value: Any) -> Any:
    """A value of which nobody else can give up the memory (by `jit`'s donation), so that it goes in and out of Refs safely."""
    return value.alias() if isinstance(value, Array) else value


def values_of(leaves: Iterable[Any]) -> list[Any]:
    """Leaves, with the value of each Ref among them in its place."""
    return [leaf[...] if leaf.__class__ is Ref else leaf for leaf in leaves]


def call_with_refs(call: Callable[[list[Any]], Any], leaves: Sequence[Any], which: Iterable[int]) -> tuple[Any, dict[int, Any]]:
    """Call with leaves, some of them as the values of new Refs; and what is then in those Refs that were written to."""
    places = {i: Ref(leaves[i]) for i in which}
    out = call([places.get(i, leaf) for i, leaf in enumerate(leaves)])
    return out, {i: place[...] for i, place in places.items() if place[...] is not leaves[i]}


def call_with_parts(refs: Iterable[Ref], call: Callable[[], Any]) -> Any:
    """Call what was given parts of the values of Refs, which have none meanwhile: they would be two places for one thing."""
    before: list[tuple[Ref, Any]] = []
    try:
        for place in [ref._place() for ref in refs]:
            before.append((place._place(), place._value))
            place._value = None
        return call()
    finally:
        for place, value in before:
            place._value = value


def new_ref(init_val: Any) -> Ref:
    """A mutable array with a value to start with.

    Under `jit`, in loops and branches, writes to a Ref take place in the order of the Python that makes them. A Ref that a
    function makes and uses itself may hold anything, derivatives and batches included; one from outside can keep only what does
    not depend on the arguments of a `grad`, `jvp` or `vmap` that began after it was made.

    Arguments:
        init_val: an array or a number; its shape and dtype are those of the Ref for good.

    Returns:
        A `Ref`.

    Raises:
        LeafError: `init_val` is neither an array nor a number.

    Example:
        >>> import pullback as pb
        >>> def total(xs):
        ...     acc = pb.new_ref(pb.numpy.zeros(()))
        ...     pb.lax.fori_loop(0, 3, lambda i, _: acc.addupdate(xs[i] ** 2), None)
        ...     return acc[...]
        >>> pb.grad(total)(pb.numpy.asarray([1.0, 2.0, 3.0]))
        [2. 4. 6.]:f32[3]:cpu(0)
    """
    value: Any = init_val[...] if isinstance(init_val, Ref) else as_array(init_val)
    return Ref(value.astype(value.dtype) if value.type.weak else value)


def freeze(ref: Ref) -> Any:
    """The value of a Ref, and the end of the Ref: `ref.freeze()`.

    Arguments:
        ref: a Ref, where it was made.

    Returns:
        An array.

    Raises:
        RefError: it was frozen before, or belongs to what encloses the Program that is being recorded.

    Example:
        >>> import pullback as pb
        >>> pb.freeze(pb.new_ref(3.0))
        3.0:f32[]:cpu(0)
    """
    return ref.freeze()


def _no_array(ref: Ref) -> NoReturn:
    raise RefError(
        f"A Ref of type {ref.type} was used as an array: read its value as ref[...]. Only functions under jit and vmap"
        f" take Refs themselves as arguments; others close over them.{at_user_line()}"
    )


converters[Ref] = _no_array
