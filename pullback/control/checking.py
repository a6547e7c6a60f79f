"""Checks of every operation: whether it made NaN, divided by zero, or was asked for what is out of bounds.

The trace that does it hands each operation on to whatever is around it (a Program that is recorded, a batch, NumPy), and adds
checks, in the Programs that the operation holds too. A check that fails calls a Python function that is told of it: so checks
work wherever callbacks do, and one that does not fail costs what it takes to see that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pullback.control.callback import callback, check
from pullback.control.cond import cond
from pullback.control.custom_function import Unstaged
from pullback.control.holder import bind_holder, held_by
from pullback.core.array import Array, HostArray, as_array, host_of
from pullback.core.axes import youngest_owner
from pullback.core.dtypes import INT32, is_inexact
from pullback.core.error_pages import Explained
from pullback.core.source import Source, at_line, user_source
from pullback.core.tracing import bind, bind_at, staging, type_of
from pullback.ops.arithmetic import div, rem
from pullback.ops.bitwise import or_
from pullback.ops.compare import eq, gt, lt, ne, select
from pullback.ops.convert import convert_element_type
from pullback.ops.division import floor_divide, remainder
from pullback.ops.dynamic import dynamic_slice, dynamic_update_slice
from pullback.ops.index import gather, scatter, scatter_add, scatter_max, scatter_min, scatter_mul, update_sizes
from pullback.ops.literals import literal
from pullback.ops.reduce import reduce_or
from pullback.program.equality import Keyed
from pullback.program.equation import remembered
from pullback.program.program import Program, axis_names
from pullback.program.provenance import Recorder, source_of
from pullback.transforms.derive import stage_closed
from pullback.transforms.stage import replay


class CheckError(Explained, ValueError):
    """A check failed: one of `pb.checks.check`, whose message is the user's own, or one that `checkify` made.

    In compiled code a check cannot raise. `checkify` carries the error out as a value, which `throw` raises.

    Fails:
        >>> import pullback as pb
        >>> def root(x):
        ...     pb.checks.check(x >= 0.0, "x is {}, which has no real root", x)
        ...     return pb.numpy.sqrt(x)
        >>> error, result = pb.checks.checkify(pb.jit(root))(-1.0)
        >>> error.throw()
        Traceback (most recent call last):
            ...
        pullback.checks.CheckError: x is -1.0, which has no real root...

    Cure: values that the check lets pass; here a clipped one.
        >>> error, result = pb.checks.checkify(pb.jit(root))(pb.numpy.maximum(-1.0, 0.0))
        >>> error.throw()
        >>> result
        0.0:f32[]:cpu(0)
    """

    __module__ = "pullback.checks"


class NaNError(CheckError):
    """An operation made NaN, where `checkify` looks for it: errors="nan" or "float".

    Fails: a logarithm of a negative number.
        >>> import pullback as pb
        >>> error, _ = pb.checks.checkify(pb.numpy.log, errors=["nan"])(-1.0)
        >>> error.throw()
        Traceback (most recent call last):
            ...
        pullback.checks.NaNError: NaN made by log...

    Cure: keep the operand where the operation is defined. A `where` behind the operation hides the NaN from the result alone;
    one before it keeps it out of the derivative too.
        >>> safe = lambda x: pb.numpy.log(pb.numpy.where(x > 0.0, x, 1.0))
        >>> error, result = pb.checks.checkify(safe, errors=["nan"])(-1.0)
        >>> error.throw()
        >>> result
        0.0:f32[]:cpu(0)
    """

    __module__ = "pullback.checks"


class DivisionError(CheckError):
    """A divisor is zero, where `checkify` looks for it: errors="division" or "float".

    Fails:
        >>> import pullback as pb
        >>> error, _ = pb.checks.checkify(lambda x: 1.0 / x, errors=["division"])(pb.numpy.array(0.0))
        >>> error.throw()
        Traceback (most recent call last):
            ...
        pullback.checks.DivisionError: division by zero in div...

    Cure: another divisor where it would be zero.
        >>> safe = lambda x: 1.0 / pb.numpy.where(x == 0.0, 1.0, x)
        >>> error, result = pb.checks.checkify(safe, errors=["division"])(pb.numpy.array(0.0))
        >>> error.throw()
        >>> result
        1.0:f32[]:cpu(0)
    """

    __module__ = "pullback.checks"


class OutOfBoundsError(CheckError):
    """A traced index is out of bounds, where `checkify` looks for it: errors="index".

    Without a check, a traced index that is out of bounds reads the nearest element, and an update there is left out. An index
    that is known is an IndexError.

    Fails:
        >>> import pullback as pb
        >>> pick = pb.jit(lambda x, i: x[i])
        >>> error, _ = pb.checks.checkify(pick, errors=["index"])(pb.numpy.zeros(3), 5)
        >>> error.throw()
        Traceback (most recent call last):
            ...
        pullback.checks.OutOfBoundsError: out-of-bounds indexing: index 5 along axis 0 with size 3...

    Cure: an index of an element that there is; or a mode, which says what an index past the end means.
        >>> error, result = pb.checks.checkify(pick, errors=["index"])(pb.numpy.zeros(3), 2)
        >>> error.throw()
        >>> pb.jit(lambda x, i: x.at[i].get(mode="fill", fill_value=-1.0))(pb.numpy.zeros(3), 5)
        -1.0:f32[]:cpu(0)
    """

    __module__ = "pullback.checks"


KINDS = {"user": CheckError, "nan": NaNError, "division": DivisionError, "index": OutOfBoundsError}
Tell = Callable[[CheckError], None]

_DIVIDING = (div, rem, floor_divide, remainder)
_SCATTERS = (scatter, scatter_add, scatter_mul, scatter_min, scatter_max)


class Told(Keyed):
    """A Python function of values that tells of the error that `find` finds in them."""

    __slots__ = ("debug", "find", "tell")

    def __init__(self, find: Callable[..., CheckError | None], tell: Tell, debug: bool = False) -> None:
        self.key = find, tell, debug
        self.find, self.tell, self.debug = self.key

    def __call__(self, *hosts: HostArray) -> Sequence[Any]:
        found = self.find(*hosts)
        if found is not None:
            self.tell(found)
        return ()

    def __repr__(self) -> str:
        return repr(self.find)


# ---- what is looked for -----------------------------------------------------------------------------------------------


class Finder(Keyed):
    """Something to look for in an operation's values: `fails` on traced ones, a call on known ones."""

    __slots__ = ("name", "source")

    def __init__(self, name: str, source: Source | None) -> None:
        self.key: Any = (name, source)
        self.name, self.source = name, source

    def fails(self, *values: Any) -> Any:
        """A bool, whether there is something to be found."""
        raise NotImplementedError

    def __call__(self, *hosts: HostArray) -> CheckError | None:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.name}"


class NotANumber(Finder):
    """NaN in a result."""

    def fails(self, *values: Any) -> Any:
        return _anywhere(ne(*values, *values))

    def __call__(self, *hosts: HostArray) -> CheckError | None:
        return NaNError(f"NaN made by {self.name}.{at_line(self.source)}") if np.any(hosts[0] != hosts[0]) else None


class ZeroDivisor(Finder):
    """A divisor that is zero."""

    def fails(self, *values: Any) -> Any:
        return _anywhere(eq(*values, literal(0, *values)))

    def __call__(self, *hosts: HostArray) -> CheckError | None:
        return None if np.all(hosts[0]) else DivisionError(f"division by zero in {self.name}.{at_line(self.source)}")


class Outside(Finder):
    """An index that is out of bounds. Index vectors run along the last axis of what is given.

    Attributes:
        axes: the axis that each element of a vector counts along. limits: the largest that it may be. shape: the array's.
    """

    __slots__ = ("axes", "limits", "shape")

    def __init__(self, name: str, source: Source | None, axes: Sequence[int], limits: Sequence[int], shape: Any) -> None:
        super().__init__(name, source)
        self.axes, self.limits, self.shape = tuple(axes), tuple(limits), tuple(shape)
        self.key = (name, source, self.axes, self.limits, self.shape)

    def fails(self, *values: Any) -> Any:
        found: Any = False
        if len(values) > 1 or not type_of(values[0]).shape:  # a 0-d index for each axis
            for value, limit in zip(values, self.limits):
                found = or_(found, or_(lt(value, literal(0, value)), gt(value, _bound(value, limit))))
            return found
        (vectors,) = values
        dtype = type_of(vectors).dtype
        top = np.iinfo(dtype).max
        limits = as_array(np.broadcast_to(np.array([min(one, top) for one in self.limits], dtype), type_of(vectors).shape))
        return _anywhere(or_(lt(vectors, literal(0, vectors)), gt(vectors, limits)))

    def __call__(self, *hosts: HostArray) -> CheckError | None:
        one_an_axis = len(hosts) > 1 or not hosts[0].ndim
        vectors = np.array([[int(host) for host in hosts]]) if one_an_axis else hosts[0].reshape(-1, len(self.axes))
        wrong = np.argwhere((vectors < 0) | (vectors > np.array(self.limits)))
        if not len(wrong):
            return None
        vector, place = wrong[0]
        index, axis = int(vectors[vector, place]), self.axes[place]
        return OutOfBoundsError(
            f"out-of-bounds indexing: index {index} along axis {axis} with size {self.shape[axis]}, by {self.name} of an array"
            f" of shape {self.shape}.{at_line(self.source)}"
        )


def _bound(value: Any, limit: int) -> Any:
    return literal(min(limit, int(np.iinfo(type_of(value).dtype).max)), value)


def _anywhere(which: Any) -> Any:
    ndim = type_of(which).ndim
    return reduce_or(which, axes=tuple(range(ndim))) if ndim else which


def _indices(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> tuple[Sequence[Any], Any] | None:
    """The indices of an operation that has some, and the axes that they count along with their limits."""
    shape = type_of(args[0]).shape if args else ()
    if primitive in (dynamic_slice, dynamic_update_slice):
        sliced = primitive is dynamic_slice
        starts, sizes = (args[1:], params["slice_sizes"]) if sliced else (args[2:], type_of(args[1]).shape)
        return (starts, (range(len(shape)), [a - b for a, b in zip(shape, sizes)])) if starts else None
    if primitive is gather:
        numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    elif primitive in _SCATTERS:
        numbers = params["dimension_numbers"].as_gather()
        sizes = update_sizes(type_of(args[0]), type_of(args[2]), numbers)
    else:
        return None
    axes = numbers.start_index_map
    return ([args[1]], (axes, [shape[axis] - sizes[axis] for axis in axes])) if axes and type_of(args[1]).size else None


# ---- the trace --------------------------------------------------------------------------------------------------------


class Checking(Recorder):
    """Adds checks of some kinds to operations; `tell` is told of those that fail.

    Attributes:
        around: the trace that would record the operations without this one; None where they are evaluated.
    """

    __slots__ = ("around", "kinds", "tell")
    transformation = "checkify"

    def __init__(self, kinds: frozenset[str], tell: Tell) -> None:
        super().__init__()
        self.around = self.recording
        self.kinds, self.tell = kinds, tell

    def place(self, ref: Any) -> Any:
        """What stands here for a Ref that was made outside."""
        return ref if self.around is None or self.around.serial <= ref._serial else self.around.place(ref)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """In this block, operations go to what is around, and are attributed to what they are attributed to here."""
        around = self.around
        with staging.setting(around):
            if around is None:
                yield
                return
            before = around.attributed, around.made, around.scope
            if self.attributed is not None:
                around.attributed = self.attributed
            around.scope = (*around.scope, *self.scope)
            try:
                yield
            finally:
                around.attributed, around.made, around.scope = before

    def process(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        owner = None
        if primitive.named_axes or primitive.on_arrays:
            owner = youngest_owner(axis_names(primitive, params))
            if owner is not None and owner.serial > self.serial:
                return owner.process(primitive, tuple(args), params)
        if primitive.lower is None and primitive.evaluate is None and primitive.expand is not None:
            return primitive.expand(*args, **params)
        with self.outside():
            if primitive is check:
                return bind(callback, args, params)
            if primitive.wiring is not None:
                return bind_at(owner, primitive, args, self.inside(primitive, params))
            if "index" in self.kinds and (found := _indices(primitive, args, params)) is not None:
                values, (axes, limits) = found
                self.look(Outside(primitive.name, self.source(), axes, limits, type_of(args[0]).shape), values)
            if "division" in self.kinds and primitive in _DIVIDING:
                self.look(ZeroDivisor(primitive.name, self.source()), args[1:])
            out = bind_at(owner, primitive, args, params)
            if "nan" in self.kinds and args and primitive.cost != 0 and primitive is not select:  # the others move elements
                for value in out if primitive.multiple_results else (out,):
                    if is_inexact(type_of(value).dtype):
                        self.look(NotANumber(primitive.name, self.source()), [value])
            return out

    def inside(self, primitive: Any, params: dict[str, Any]) -> dict[str, Any]:
        """The parameters of an operation that holds Programs, with checks in these."""
        if isinstance(params[primitive.wiring.programs], Unstaged):
            return params
        held = held_by(primitive, params)
        test = None if held.test is None else checked_program(held.test, self.kinds, self.tell)
        return held.on([checked_program(program, self.kinds, self.tell) for program in held.programs], test=test)

    def source(self) -> Source | None:
        return user_source(2, self.scope) if self.attributed is None else source_of(self.attributed)

    def look(self, finder: Finder, values: Sequence[Any]) -> None:
        """Tell of what is found in values: now, if they are known, else when they are."""
        told = Told(finder, self.tell)
        if self.around is None and all([value.__class__ is Array for value in values]):
            told(*[np.asarray(host_of(value)) for value in values])
            return
        index = convert_element_type(finder.fails(*values), new_dtype=INT32)
        types = tuple([type_of(value) for value in values])
        nothing, telling = (stage_closed(function, types, str(finder)) for function in (_nothing, _calling(told)))
        bind_holder(cond, index, *values, branches=(nothing, telling))


def _nothing(*values: Any) -> Sequence[Any]:
    return ()


def _calling(function: Told) -> Callable[..., Sequence[Any]]:
    def calling(*values: Any) -> Sequence[Any]:
        callback(*values, function=function)
        return ()

    return calling


@remembered
def checked_program(program: Program, kinds: frozenset[str], tell: Tell) -> Program:
    """The Program with checks of its operations."""

    def checked(*args: Any) -> Sequence[Any]:
        with checking(kinds, tell):
            return replay(program, args)

    return stage_closed(checked, program.input_types, program.name, program)


@contextmanager
def checking(kinds: frozenset[str], tell: Tell) -> Iterator[None]:
    """In this block, operations are checked."""
    trace = Checking(kinds, tell)
    with staging.setting(trace):
        try:
            yield
        finally:
            trace.open = False
