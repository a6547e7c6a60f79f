"""Loops whose progress a bar shows: what `pb.debug.progress` makes of a loop's body, and what loops make of that.

A call into Python costs as much as many a step, and a loop with one in it is compiled differently: no machine code of ours, no
loop that XLA turns into one kernel. So a loop of a known number of steps becomes a loop over blocks of steps, and says how far
it is between these: the blocks are compiled as the whole loop would have been. Where there is no block size that divides the
number of steps, or where that is not known, each step counts, and every so many say so.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from pullback.api.functions import Function, standing_for
from pullback.control.progress import Bar, progress
from pullback.core.array import as_array
from pullback.core.errors import DtypeError, RefError, ShapeError, StructureError
from pullback.core.progress import display
from pullback.core.refs import new_ref
from pullback.core.source import describe, innermost, name_of
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import kind_of, unflatten
from pullback.ops.arithmetic import add, div, mul, sub
from pullback.ops.arithmetic import max as maximum
from pullback.ops.bitwise import and_
from pullback.ops.compare import lt
from pullback.ops.convert import convert_element_type
from pullback.ops.shape import reshape

F = TypeVar("F", bound=Callable[..., Any])
Loop = Callable[..., Any]

REPORTS = 100  # how often a loop of a known number of steps says how far it is, unless `every` says otherwise
GROWTH = 8  # one of an unknown number says it when this part of what was done has been added
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


def block_size(steps: int, every: int | None) -> int | None:
    """How many steps of a loop go between two reports, so that there is no rest; None where no good number divides them.

    Example:
        >>> block_size(1000, None), block_size(1050, 100), block_size(7, None), block_size(10007, None)
        (10, 75, 1, None)
    """
    most = max(steps // REPORTS, 1) if every is None else min(every, steps)
    least = max(most // 4, 1)
    return next((size for size in range(most, least - 1, -1) if steps % size == 0), None)


class Reported:
    """A loop's body of which each step counts: the loops that take it show a bar.

    Attributes:
        function: the body. bar: the row. total: how many steps there are, if the caller knows. every: see `pb.debug.progress`.
    """

    def __init__(self, function: Function, label: str | None, total: int | None, every: int | None) -> None:
        name = name_of(innermost(function), "loop")
        self.function, self.total, self.every = function, total, every
        self.given = label, total, every
        body = innermost(function)
        self.bar = Bar((name if name != "<lambda>" else "loop") if label is None else label, getattr(body, "__code__", body))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"pb.debug.progress({name_of(self.function)}) is to be given to a loop as its body, as it is: to pb.lax.scan,"
            " fori_loop, while_loop or map. Put it outermost, around vmap, jit and the like; a loop of Python's is"
            " for x in pb.debug.progress(xs)."
        )

    def __repr__(self) -> str:
        return f"<body {describe(self.function)} of a loop with a progress bar>"

    def of(self, function: Function) -> Reported:
        """Another body with the same bar."""
        made = Reported(function, *self.given)
        made.bar = self.bar
        return made

    # ---- what is said ----

    def say(self, when: str, done: Any, total: Any, every: int = 1) -> None:
        """Say how far the loop is."""
        progress(done, total, bar=self.bar, when=when, every=every)

    @contextlib.contextmanager
    def shown(self, total: Any) -> Iterator[list[Any]]:
        """In this block the loop runs; the list takes what it has done at the end."""
        done = [total]
        self.say("begin", as_array(np.zeros((), type_of(total).dtype)), total)
        try:
            yield done
        except BaseException:
            display.end(self.bar)
            raise
        self.say("end", done[0], total)

    def check_total(self, steps: int) -> None:
        """Raise unless the number of steps is that which the caller gave."""
        if self.total is not None and self.total != steps:
            raise ValueError(
                f"progress of {describe(self.function)} was told total={self.total}, but the loop takes {steps} steps: leave"
                " total out, since the loop knows."
            )

    def counted(self, total: Any, steps: int | None, run: Callable[[Function], Any]) -> Any:
        """Run a loop, given its body, in which each step counts, and some say so."""
        every = self.every or (0 if steps is None else max(steps // REPORTS, 1))
        count = new_ref(as_array(np.zeros((), type_of(total).dtype)))

        @standing_for(self.function)
        def step(*args: Any) -> Any:
            out = self.function(*args)
            count[...] = done = add(count[...], as_array(np.ones((), type_of(total).dtype)))
            self.say("step", done, total, every)
            return out

        with self.shown(total) as done:
            out = run(step)
            done[0] = count[...]
        return out

    # ---- loops ----

    def scan(
        self, loop: Loop, f: Any, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, unroll: Any = 1, *_: Any
    ) -> Any:
        """`scan`, in blocks."""
        trees = kind_of(self.function)
        stacks, structure = trees.array_leaves(trees.without_float0(xs), lambda: "xs")
        shapes = {type_of(stack).shape[:1] for stack in stacks} | ({(length,)} if isinstance(length, int) else set())
        (steps,) = shapes.pop() if len(shapes) == 1 and () not in shapes else (None,)
        if not isinstance(steps, int) or steps < 1:
            return loop(self.function, init, xs, length, reverse, unroll)  # it says what is wrong, or does nothing
        self.check_total(steps)
        size = block_size(steps, self.every) if structure == trees.flatten(xs)[1] else None  # not with arrays of float0
        total = number(steps, steps)
        if size is None:
            return self.counted(total, steps, lambda step: loop(step, init, xs, length, reverse, unroll))
        blocks = steps // size
        numbers = np.arange(blocks, 0, -1) if reverse else np.arange(1, blocks + 1)

        @standing_for(self.function)
        def block(carry: Any, part: Any) -> Any:
            done, own = part[0], unflatten(structure, part[1:])
            out = self.function(carry, own) if size == 1 else loop(self.function, carry, own, size, reverse, unroll)
            self.say("step", done, total)
            return out

        parts = stacks
        if size > 1:
            parts = [reshape(stack, new_sizes=(blocks, size, *type_of(stack).shape[1:])) for stack in stacks]
        with self.shown(total):
            carry, ys = loop(block, init, (as_array(np.multiply(numbers, size, dtype=total.dtype)), *parts), None, reverse)
        if size > 1:
            leaves, made = trees.array_leaves(ys, lambda: "y")
            ys = unflatten(made, [reshape(y, new_sizes=(steps, *type_of(y).shape[2:])) for y in leaves])
        return carry, ys

    def fori_loop(self, loop: Loop, lower: Any, upper: Any, body_fun: Any, init_val: Any, *, unroll: Any = None) -> Any:
        """`fori_loop`, in blocks."""

        def run(step: Function) -> Any:
            return loop(lower, upper, step, init_val, unroll=unroll)

        if isinstance(lower, Tracer) or isinstance(upper, Tracer):
            ends = [
                convert_element_type(as_array(x) if not isinstance(x, Tracer) else x, new_dtype=INT64) for x in (upper, lower)
            ]
            return self.counted(sub(*ends), None, run)
        try:
            steps = int(upper) - int(lower) if float(lower) % 1 == float(upper) % 1 == 0.0 else 0
        except (TypeError, ValueError, OverflowError):
            steps = 0
        if steps < 1:
            return run(self.function)  # it says what is wrong, or does nothing
        self.check_total(steps)
        size, total = block_size(steps, self.every), number(steps, steps)
        if size is None or int(lower) < -(2**31) or int(upper) >= 2**31:
            return self.counted(total, steps, run)

        @standing_for(self.function)
        def block(k: Any, value: Any) -> Any:
            first = add(mul(k, as_array(size)), as_array(int(lower)))

            @standing_for(self.function)
            def inside(j: Any, value: Any) -> Any:
                return self.function(add(first, j), value)

            value = self.function(first, value) if size == 1 else loop(0, size, inside, value, unroll=unroll)
            self.say("step", mul(add(k, as_array(1)), as_array(size)), total)
            return value

        with self.shown(total):
            return loop(0, steps // size, block, init_val)

    def while_loop(self, loop: Loop, cond_fun: Any, body_fun: Any, init_val: Any, **options: Any) -> Any:
        """`while_loop`, in blocks, or, if it is bounded, counting its steps."""
        total = number(-1 if self.total is None else self.total, 2**31)
        if options or self.every == 1:
            return self.counted(total, None, lambda step: loop(cond_fun, step, init_val, **options))
        trees, one = kind_of(self.function), number(1, 2**31)
        leaves, structure = trees.array_leaves(trees.without_float0(init_val), lambda: "init_val")
        value = unflatten(structure, leaves)
        try:
            return self._in_blocks(loop, cond_fun, value, total, one)
        except (StructureError, ShapeError, DtypeError, RefError):
            loop(cond_fun, self.function, init_val)  # it says what is wrong in terms of what it was given
            raise

    def _in_blocks(self, loop: Loop, cond_fun: Any, value: Any, total: Any, one: Any) -> Any:
        """A `while_loop` as a loop over blocks of steps, the condition of each step tested once."""

        flatten = kind_of(self.function).flatten

        def tested(value: Any) -> Any:
            going = cond_fun(value)
            return as_array(going) if isinstance(going, (bool, np.bool_)) else going

        @standing_for(self.function)
        def step(state: Any) -> Any:
            before, going, done, due = state
            value = self.function(before)
            if flatten(value)[1] == flatten(before)[1]:  # else the loop will say that it is another structure
                going = tested(value)
            return value, going, add(done, one), due

        @standing_for(self.function)
        def block(state: Any) -> Any:
            value, going, done, _ = loop(in_block, step, state)
            self.say("step", done, total)
            more = number(self.every, 2**31) if self.every else maximum(div(done, number(GROWTH, 2**31)), one)
            return value, going, done, add(done, more)

        in_block = standing_for(cond_fun)(lambda state: and_(state[1], lt(state[2], state[3])))
        going = standing_for(cond_fun)(lambda state: state[1])
        zero = number(0, 2**31)
        with self.shown(total) as done:
            value, _, done[0], _ = loop(going, block, (value, tested(value), zero, number(self.every or 1, 2**31)))
        return value


def number(value: int, most: int) -> Any:
    """A number of steps as an array, of 64 bits if 32 are too few for `most`."""
    return as_array(np.asarray(value, INT32 if most < 2**31 else INT64))


def with_bar(loop: F) -> F:
    """Let a loop take a body of which `pb.debug.progress` was made."""
    way = loop.__name__

    @functools.wraps(loop)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        for arg in (*args, *kwargs.values()):
            if arg.__class__ is Reported:
                return getattr(arg, way)(chosen, *args, **kwargs)
        return loop(*args, **kwargs)

    return chosen  # type: ignore[return-value]
