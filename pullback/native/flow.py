"""Loops and branches as LLVM text."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pullback.native.ir import POLLED_WEIGHT, UNKNOWN_TRIPS, Code, Index, Value

Row = tuple[Index, ...]


def loop(
    code: Code,
    start: Index,
    stop: Index,
    step: int,
    carry: Sequence[Value],
    body: Callable[[Index, list[Value]], Sequence[Value]],
    trips: float = UNKNOWN_TRIPS,
) -> list[Value]:
    """The carry after `body(index, carry)` for each index from `start` on, below `stop`: about `trips` if it is not known."""
    if isinstance(start, int) and isinstance(stop, int):
        trips = max(0, -(-(stop - start) // step))
        if trips <= 1:
            return list(body(start, list(carry))) if trips else list(carry)
    mark = code.fresh()
    given, carry = carry, code.cut(carry)
    before, head, done = code.block, f"loop{mark}", f"done{mark}"
    known = isinstance(start, int) and isinstance(stop, int)
    code.lines.append(f"br label %{head}" if known else _entered(code, start, stop, head, done))
    code.label(head)
    top, weight = len(code.lines), code.weight
    index = Value(f"%i{mark}", "i64")
    held = [Value(f"%c{mark}_{k}", value.kind, value.lanes) for k, value in enumerate(carry)]
    with code.scope(trips):
        outs = code.cut(body(index, code.uncut(held, given)))
        _poll(code, (code.weight - weight) / max(code.trips, 1e-9), trips)
        code.lines.append(f"%n{mark} = add nsw i64 {index.text}, {step}")
        code.lines.append(f"%m{mark} = icmp slt i64 %n{mark}, {code.index(stop).text}")
        code.lines.append(f"br i1 %m{mark}, label %{head}, label %{done}")
        code.weigh("i64", None, 2)
    phis = [f"{index.text} = phi i64 [{code.index(start).text}, %{before}], [%n{mark}, %{code.block}]"]
    for value, first, last in zip(held, carry, outs, strict=True):
        phis.append(f"{value.text} = phi {value.type} [{first.text}, %{before}], [{last.text}, %{code.block}]")
    code.lines[top:top] = phis
    last_block = code.block
    code.label(done)
    results = outs
    if not known:
        ends = [f"phi {x.type} [{x.text}, %{before}], [{y.text}, %{last_block}]" for x, y in zip(carry, outs)]
        results = [code.result(end, value.kind, value.lanes) for end, value in zip(ends, carry)]
    return code.uncut(results, given)


def _entered(code: Code, start: Index, stop: Index, head: str, done: str) -> str:
    """A branch into a loop that may have no step."""
    first, end = code.index(start), code.index(stop)
    some = code.pure(f"icmp slt {first}, {end.text}", "i1")
    return f"br i1 {some.text}, label %{head}, label %{done}"


def repeat_while(
    code: Code,
    carry: Sequence[Value],
    test: Callable[[list[Value]], Value],
    body: Callable[[list[Value]], Sequence[Value]],
    trips: float = math.inf,
) -> list[Value]:
    """The first carry of which the test does not hold. `trips`: how often it holds, about, if that is known."""
    mark = code.fresh()
    given, carry = carry, code.cut(carry)
    before, head, again, done = code.block, f"test{mark}", f"step{mark}", f"done{mark}"
    code.lines.append(f"br label %{head}")
    code.label(head)
    top = len(code.lines)
    held = [Value(f"%c{mark}_{k}", value.kind, value.lanes) for k, value in enumerate(carry)]
    whole = code.uncut(held, given)
    weight = code.weight
    with code.scope(trips if trips < math.inf else UNKNOWN_TRIPS):
        holds = test(whole)
        code.lines.append(f"br i1 {holds.text}, label %{again}, label %{done}")
        code.label(again)
        with code.scope():
            outs = code.cut(body(whole))
            _poll(code, (code.weight - weight) / code.trips, trips)
            code.lines.append(f"br label %{head}")
    code.lines[top:top] = [
        f"{value.text} = phi {value.type} [{first.text}, %{before}], [{last.text}, %{code.block}]"
        for value, first, last in zip(held, carry, outs, strict=True)
    ]
    code.label(done)
    return whole


def _poll(code: Code, weight: float, trips: float) -> None:
    """At the end of a step of a long loop: ask from time to time whether to stop. What may be done before that is one number
    for all loops of a function: one within another may run often, and never long."""
    if weight * trips < POLLED_WEIGHT:
        return
    if not code.stops:
        code.allocated += ["%patience = alloca i64", f"store i64 {POLLED_WEIGHT}, ptr %patience"]
        code.stops = True
    mark = code.fresh()
    code.lines += [
        f"%q{mark} = load i64, ptr %patience",
        f"%r{mark} = sub i64 %q{mark}, {max(1, int(weight))}",
        f"store i64 %r{mark}, ptr %patience",
        f"%s{mark} = icmp slt i64 %r{mark}, 0",
        f"br i1 %s{mark}, label %due{mark}, label %on{mark}",
        f"due{mark}:",
        f"store i64 {POLLED_WEIGHT}, ptr %patience",
        f"%t{mark} = icmp eq ptr %poll, null",
        f"br i1 %t{mark}, label %on{mark}, label %ask{mark}",
        f"ask{mark}:",
        f"%u{mark} = call i32 %poll() cold",
        f"%v{mark} = icmp eq i32 %u{mark}, 0",
        f"br i1 %v{mark}, label %on{mark}, label %stop",
    ]
    code.label(f"on{mark}")


def nest(code: Code, sizes: Sequence[int], body: Callable[[Row], None]) -> None:
    """`body(index)` for each index of a shape."""

    def at_depth(depth: int, row: Row) -> None:
        if depth == len(sizes):
            body(row)
            return

        def step(index: Index, carry: list[Value]) -> list[Value]:
            at_depth(depth + 1, (*row, index))
            return carry

        loop(code, 0, sizes[depth], 1, [], step)

    at_depth(0, ())


def each_block(code: Code, length: int, lanes: int, body: Callable[[Index, int], None]) -> None:
    """`body(start, lanes)` for each block of a row, and for what is left at its end."""
    whole = length // lanes * lanes

    def step(start: Index, carry: list[Value]) -> list[Value]:
        body(start, lanes)
        return carry

    loop(code, 0, whole, lanes, [], step)
    if length - whole:
        with code.scope():
            body(whole, length - whole)


def choose(code: Code, index: Value, branches: Sequence[Callable[[], Sequence[Value]]]) -> list[Value]:
    """The values of the branch of that number; the last one serves for all numbers beyond."""
    mark = code.fresh()
    last = len(branches) - 1
    listed = " ".join([f"i64 {k}, label %branch{mark}_{k}" for k in range(last)])
    code.lines.append(f"switch {index}, label %branch{mark}_{last} [{listed}]")
    made, ends = [], []
    for k, branch in enumerate(branches):
        code.label(f"branch{mark}_{k}")
        with code.scope(1 / len(branches)):
            made.append(list(branch()))
        ends.append(code.block)
        code.lines.append(f"br label %joined{mark}")
    code.label(f"joined{mark}")
    results = []
    for values in zip(*made, strict=True):
        given = ", ".join([f"[{value.text}, %{end}]" for value, end in zip(values, ends)])
        results.append(code.result(f"phi {values[0].type} {given}", values[0].kind, values[0].lanes, 0.0))
    return results


def fold(
    code: Code,
    sizes: Sequence[int],
    neutral: Sequence[Value],
    body: Callable[[Row, list[Value]], Sequence[Value]],
    merge: Callable[[list[Value], list[Value]], list[Value]] | None,
    unrolled: int,
) -> list[Value]:
    """What `body(index, carry)` makes of a carry over all indices of a shape, from neutral values on.

    With `merge`, which joins two carries, long sums are taken in parts, so that their error grows with the logarithm of their
    length: at most 32 terms are added up before the sum is added to another one.
    """

    def along(depth: int, row: Row, carry: list[Value]) -> list[Value]:
        if depth == len(sizes):
            return list(body(row, carry))
        inner = math.prod(sizes[depth + 1 :])

        def step(index: Index, carry: list[Value]) -> list[Value]:
            if merge is not None and inner > _TERMS:
                return merge(carry, along(depth + 1, (*row, index), list(neutral)))
            return along(depth + 1, (*row, index), carry)

        return parted(code, 0, sizes[depth], None, carry, lambda: list(neutral), step, merge, unrolled // max(inner, 1))

    return along(0, (), list(neutral))


def across(code: Code, found: list[Value], lanes: int, join: Callable[[list[Value], list[Value]], list[Value]]) -> list[Value]:
    """The numbers that vectors come to, of so many lanes, a power of two: their halves are joined until one lane is left."""
    while lanes > 1:
        lanes //= 2
        found = join(*[[code.shuffle(x, range(i, i + lanes)) for x in found] for i in (0, lanes)])
    return [code.lane(x, 0) for x in found]


def parted(
    code: Code,
    start: Index,
    count: int,
    stop: Value | None,
    carry: list[Value],
    fresh: Callable[[], list[Value]],
    body: Callable[[Index, list[Value]], list[Value]],
    merge: Callable[[list[Value], list[Value]], list[Value]] | None,
    unrolled: int = 1,
) -> list[Value]:
    """The carry after `body(index, carry)` for `count` indices from `start` on; those below `stop` only, if that is given.

    With `merge` parts of them begin with a `fresh` carry, of neutral values, and are merged: see `fold`.
    """

    def each(step: int, body: Callable[[Index, list[Value]], list[Value]]) -> list[Value]:
        if stop is not None:
            return loop(code, start, stop, step, carry, body, -(-count // step))
        return loop(code, 0, count, step, carry, lambda index, carry: body(code.plus(start, index), carry))

    if merge is None or count <= 2 * _TERMS:
        if stop is not None or count > unrolled:
            return each(1, body)
        for index in range(count):
            carry = body(code.plus(start, index), carry)
        return carry
    part = _TERMS
    while part * _TERMS < count:
        part *= _TERMS
    end = stop or code.plus(start, count)

    def step(index: Index, carry: list[Value]) -> list[Value]:
        past = code.plus(index, part)
        last = None if stop is None and count % part == 0 else code.intrinsic("smin", code.index(past), code.index(end))
        return merge(carry, parted(code, index, part, last, fresh(), fresh, body, merge, unrolled))

    return each(part, step)


_TERMS = 32
