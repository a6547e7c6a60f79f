"""Vectorization: carry a batch through each operation, its axis always first."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.array import Array
from pullback.core.axes import Axis, AxisOwner, named_axis
from pullback.core.errors import AxisError
from pullback.core.leaks import note
from pullback.core.primitive import Primitive
from pullback.core.tracing import Tracer, type_of
from pullback.core.types import ArrayType
from pullback.ops.broadcast import repeated
from pullback.program.provenance import here

NO_CONTEXT = contextlib.nullcontext()
IN_FRONT = frozenset({0})


class Batched(Tracer):
    """A batch of values: `value`'s first axis runs over the batch elements, and `type` is that of one of them."""

    __slots__ = ("type", "value")
    owner: BatchTrace

    def __init__(self, trace: BatchTrace, value: Any) -> None:
        self.owner = trace
        self.value = value
        full = value.type  # a value is an Array or a tracer
        self.type = trace.element_types.get(full) or trace.element_type(full)

    def note_batch(self, axes: frozenset[int]) -> None:
        if isinstance(self.value, Tracer):
            self.value.note_batch(_behind_another(axes))


@functools.cache
def _behind_another(axes: frozenset[int]) -> frozenset[int]:
    """The batch axes of a value in front of which there is one more."""
    return IN_FRONT | {axis + 1 for axis in axes}


class BatchTrace(AxisOwner):
    """Applies each primitive's `vectorize` rule."""

    __slots__ = ("element_types", "size")
    transformation = "vmap"

    def __init__(self, axis: Axis, function: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        note(self)
        self.axis = axis
        self.size = axis.size
        self.element_types: dict[ArrayType, ArrayType] = {}  # by the types of batches

    def element_type(self, batch: ArrayType) -> ArrayType:
        """The type of one element of a batch."""
        return self.element_types.setdefault(batch, batch.with_shape(batch.shape[1:]))

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        rule = primitive.vectorize
        if rule is None:
            if primitive.expand is not None:
                return primitive.expanded_without("vectorize", self.transformation, args, params)
            raise primitive.missing("vectorize", self.transformation)
        values: list[Any] = []
        axes: list[int | None] = []
        for arg in args:
            if arg.__class__ is Batched and arg.owner is self:
                values.append(arg.value)
                axes.append(0)
            else:
                values.append(arg)
                axes.append(None)
        size = self.axis if primitive.needs_axis else self.size
        recording = self.recording
        if recording is None:
            returned = rule(size, values, axes, **params)
        else:
            before = recording.attributed
            recording.attributed = here()
            made = recording.enter("vmap", "vectorize", primitive=primitive)
            try:
                returned = rule(size, values, axes, **params)
            finally:
                recording.attributed, recording.made = before, made
        try:
            out, axis = returned
        except (TypeError, ValueError):
            raise primitive.malformed("vectorize", "a pair, the result and its batch axis", returned) from None
        types = None  # of the results of one element, which a rule of the user's is held to
        if not primitive.trusts_vectorize and primitive.result_type is not None:
            types = primitive.infer(tuple([type_of(arg) for arg in args]), params)
        if primitive.multiple_results:
            try:
                out_axes = [axis] * len(out) if axis is None or isinstance(axis, int) else axis
                pairs = list(zip(out, out_axes, strict=True))
            except (TypeError, ValueError):
                raise primitive.malformed("vectorize", "for each result a value and its batch axis", returned) from None
            if types is not None and len(types) != len(pairs):
                raise primitive.malformed("vectorize", f"{len(types)} results", out)
            return tuple([self.wrap(primitive, o, a, type) for (o, a), type in zip(pairs, types or itertools.repeat(None))])
        if axis.__class__ is int and axis == 0 and types is None and primitive.elementwise and out.__class__ is Array:
            return Batched(self, out)
        return self.wrap(primitive, out, axis, types)

    def wrap(self, primitive: Primitive, value: Any, axis: int | None, type: ArrayType | None) -> Any:
        """A rule's result as a tracer; unbatched results need none. It must be of a type, if that is given, in each element."""
        if axis is not None and not isinstance(axis, int):
            raise primitive.malformed("vectorize", "a batch axis of 0 or None", axis)
        if type is not None and axis == 0:
            type = type.with_shape((self.size, *type.shape))
        value = primitive.value("vectorize", "an array of any" if type is None else "a batch of the result's", value, type)
        if axis is None:
            return value
        if axis != 0:
            raise AxisError(
                f"The vectorize rule of primitive {primitive.name!r} put the batch at axis {axis}; it must be at axis 0."
            )
        if value.type.shape[:1] != (self.size,):
            raise primitive.malformed("vectorize", f"a batch of {self.size} in front", value)
        if isinstance(value, Tracer):
            value.note_batch(IN_FRONT)
        return Batched(self, value)


def materialize(trace: BatchTrace, value: Any) -> Any:
    """A result of a batched function with its batch axis in front: repeated, if it does not depend on the batch."""
    if value.__class__ is Batched and value.owner is trace:
        return value.value
    return repeated(value, trace.size)


def batch_flat(
    function: Callable[..., Sequence[Any]], args: Sequence[Any], batched: Sequence[bool], axis: Axis, described: Any = None
) -> tuple[BatchTrace, Sequence[Any]]:
    """Run a flat function on arguments of which some carry a batch at axis 0; its results, still as tracers."""
    trace = BatchTrace(axis, described or function)
    for x, flag in zip(args, batched, strict=True):
        if flag and isinstance(x, Tracer):
            x.note_batch(IN_FRONT)
    with named_axis(axis.name, trace) if axis.name is not None else NO_CONTEXT:
        try:
            outs = function(*[Batched(trace, x) if flag else x for x, flag in zip(args, batched, strict=True)])
        finally:
            trace.open = False
    return trace, outs
