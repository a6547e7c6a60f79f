"""Which equations of two Programs stand for each other: by their ids, by what they compute, by the values that they read.

Names of variables say nothing. An equation that one Program has from the other, or both from a third one, has its id, or that
of its origin. Equations that apply one operation to values that stand for each other compute one value. What is left is found
from its operands: among the readers of the value that stands for an operand, one with the same operation; then by the user's
line, and at last by what reads its results. Each step takes time linear in the number of equations.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, is_deleted
from pullback.core.lazy import lazy_module
from pullback.program.equality import param_key
from pullback.program.equation import Atom, Equation, Graph, Literal, Variable

difflib = lazy_module("difflib")

MOST_PAIRS = 1 << 18  # of inputs between the ends that are alike; of more, none are matched


class Matching:
    """Two Programs, and what in them stands for each other.

    Attributes:
        before, after: the Programs. partner: by each equation of `after`, that of `before`.
        values: by each variable of `before`, that of `after`. taken: the equations of `before` that have a partner.
        classes: of the variables of both, what those have in common that stand for each other.
    """

    def __init__(self, before: Graph, after: Graph) -> None:
        self.before, self.after = before, after
        self.partner: dict[Equation, Equation] = {}
        self.values: dict[Variable, Variable] = {}
        self.taken: set[Equation] = set()
        self.classes: dict[Variable, Hashable] = {}
        self._number = itertools.count()
        self.keys: dict[Equation, tuple[Any, Any]] = {}  # what each does
        self._match_ends()
        self._match_ids()
        self._match_values()
        self._match_makers(alike=True)
        self._match_readers()
        self._match_left()
        self._match_makers()

    def pair(self, a: Equation, b: Equation) -> None:
        """Two equations stand for each other, and so do their results."""
        self.partner[b] = a
        self.taken.add(a)
        for x, y in zip(a.outputs, b.outputs):
            self.match(x, y)

    def match(self, x: Variable, y: Variable) -> None:
        """Two variables stand for each other."""
        self.values[x] = y
        self.classes[x] = self.classes[y] = ("pair", next(self._number))

    def same(self, x: Atom, y: Atom) -> bool:
        """Whether two atoms, one of each Program, stand for each other."""
        if isinstance(x, Literal) or isinstance(y, Literal):
            return isinstance(x, Literal) and isinstance(y, Literal) and x.key == y.key
        return self.values.get(x) is y

    # ---- the steps ----

    def _match_ends(self) -> None:
        """Inputs stand for each other in their order, where there are more of one than of the other those of a type; constants
        that are equal, and then those that are left of a type."""
        for i, j in _aligned(*[[one.placed_type for one in program.inputs] for program in (self.before, self.after)]):
            self.match(self.before.inputs[i], self.after.inputs[j])
        for key in (constant_key, _constant_type):
            waiting: dict[Any, deque[Variable]] = defaultdict(deque)
            for x, array in self.before.constants:
                if x not in self.values:
                    waiting[key(x, array)].append(x)
            found = set(self.values.values())
            for y, array in self.after.constants:
                if y not in found and (queue := waiting.get(key(y, array))):
                    self.match(queue.popleft(), y)

    def _match_ids(self) -> None:
        own: dict[int, deque[Equation]] = defaultdict(deque)
        for a in self.before.equations:
            own[a.id].append(a)
        for b in self.after.equations:
            if (found := self._first(own.get(b.id), b)) is not None:
                self.pair(found, b)
        for b in self._left():  # made from an equation of `before` by a transformation, if it is the same operation
            for ancestor in _ancestors(b):
                if (found := self._first(own.get(ancestor.id), b)) is not None:
                    self.pair(found, b)
                    break
        theirs: dict[int, deque[Equation]] = defaultdict(deque)
        for b in self._left():
            theirs[b.id].append(b)
        for a in self.before.equations:
            if a not in self.taken:
                for ancestor in _ancestors(a):
                    queue = theirs.get(ancestor.id)
                    if queue and queue[0].primitive is a.primitive:
                        self.pair(a, queue.popleft())
                        break

    def _match_values(self) -> None:
        """Those that compute one value."""
        numbers: dict[Any, Hashable] = {}
        waiting: dict[Any, deque[Equation]] = defaultdict(deque)

        def key(equation: Equation) -> Any:
            return (*self.keys_of(equation), tuple([self._class(atom) for atom in equation.inputs]))

        def number(equation: Equation, key: Any) -> None:
            for i, out in enumerate(equation.outputs):
                self.classes.setdefault(out, numbers.setdefault((key, i), ("value", next(self._number))))

        known: dict[Equation, Any] = {}
        for equations in (self.before.equations, self._left()):
            for one in equations:
                if one not in self.taken:
                    known[one] = key(one)
                    number(one, known[one])
        # of several that compute one value, those that are read, and alike, come first; then all in their order
        reads = self._uses(self.before), self._uses(self.after)
        for a in self.before.equations:
            if a not in self.taken and (how := reads[0](a)):
                waiting[known[a], how].append(a)
        for b in self._left():
            if (how := reads[1](b)) and (queue := waiting.get((known[b], how))):
                self._pair_in_class(queue.popleft(), b)
        for a in self.before.equations:
            if a not in self.taken:
                waiting[known[a], 0].append(a)
        for b in self._left():
            if queue := waiting.get((known[b], 0)):
                self._pair_in_class(queue.popleft(), b)

    def _pair_in_class(self, a: Equation, b: Equation) -> None:
        """As `pair`, of those whose results are of one class already."""
        self.partner[b] = a
        self.taken.add(a)
        self.values.update(zip(a.outputs, b.outputs))

    def _uses(self, program: Graph) -> Callable[[Equation], int]:
        """What tells apart how the results of equations are read; 0 where they are not."""
        found: dict[Atom, int] = defaultdict(int)
        for equation in program.equations:
            for place, atom in enumerate(equation.inputs):
                found[atom] += hash((self.keys_of(equation), place))
        for place, atom in enumerate(program.outputs):
            found[atom] += hash(place)

        def how(equation: Equation) -> int:
            uses = tuple([found.get(out, 0) for out in equation.outputs])
            return hash(uses) or 1 if any(uses) else 0

        return how

    def _match_readers(self) -> None:
        """Those that apply one operation, and read at some place values that stand for each other; in the order of `after`, so
        that what has been found leads to more."""
        exact: dict[Any, deque[Equation]] = defaultdict(deque)
        for a in self.before.equations:
            if a not in self.taken:
                for place, atom in enumerate(a.inputs):
                    exact[self.keys_of(a), place, self._anchor(atom)].append(a)
        images = {y: x for x, y in self.values.items()}
        for b in self._left():
            best: Equation | None = None
            score = 0
            for place, atom in enumerate(b.inputs):
                anchor = self._anchor(images.get(atom, b) if isinstance(atom, Variable) else atom)
                one = self._first(exact.get((self.keys_of(b), place, anchor)), b)
                if one is not None and one is not best:
                    found = sum([self.same(x, y) for x, y in zip(one.inputs, b.inputs)])
                    if best is None or found > score:
                        best, score = one, found
            if best is not None and any([isinstance(x, Variable) and self.same(x, y) for x, y in zip(best.inputs, b.inputs)]):
                self.pair(best, b)
                images.update(zip(b.outputs, best.outputs))

    def _match_left(self) -> None:
        """The others by what they do and by their lines, those that agree in more first."""
        keys: Sequence[Callable[[Equation], Any]] = (
            lambda one: (self.keys_of(one), _line(one)),
            self.keys_of,
            lambda one: (one.primitive, len(one.outputs), _line(one)),
            lambda one: (one.primitive, len(one.outputs), tuple([out.type.shape for out in one.outputs])),
        )
        for key in keys:
            waiting: dict[Any, deque[Equation]] = defaultdict(deque)
            left = self._left()
            if not left:
                return
            for a in self.before.equations:
                if a not in self.taken:
                    waiting[key(a)].append(a)
            for b in left:
                if queue := waiting.get(key(b)):
                    self.pair(queue.popleft(), b)

    def _match_makers(self, alike: bool = False) -> None:
        """Those whose results are read at one place by what stands for each other, from the outputs on: if they are `alike`, so
        that what was put into a chain is found from both its ends; or one operation in the place of another."""
        makers = [{out: one for one in program.equations for out in one.outputs} for program in (self.before, self.after)]

        def follow(x: Atom, y: Atom) -> None:
            if isinstance(x, Literal) or isinstance(y, Literal):
                return
            a, b = makers[0].get(x), makers[1].get(y)
            if a is None or b is None or a in self.taken or b in self.partner or len(a.outputs) != len(b.outputs):
                return
            if a.outputs.index(x) == b.outputs.index(y) and (not alike or self.keys_of(a) == self.keys_of(b)):
                self.pair(a, b)

        for x, y in zip(self.before.outputs, self.after.outputs):
            follow(x, y)
        for b in reversed(self.after.equations):
            if (a := self.partner.get(b)) is not None:
                for x, y in zip(a.inputs, b.inputs):
                    follow(x, y)

    # ---- what they are compared by ----

    def _left(self) -> list[Equation]:
        return [b for b in self.after.equations if b not in self.partner]

    def _first(self, queue: deque[Equation] | None, b: Equation) -> Equation | None:
        """The first of some equations that has no partner yet, and applies the operation of `b`."""
        while queue:
            if queue[0] not in self.taken:
                return queue[0] if queue[0].primitive is b.primitive else None
            queue.popleft()
        return None

    def keys_of(self, equation: Equation) -> tuple[Any, Any]:
        """What an equation does, whatever its operands are."""
        found = self.keys.get(equation)
        if found is None:
            params = tuple([(name, hashable_key(value)) for name, value in sorted(equation.params.items())])
            types = tuple([out.placed_type for out in equation.outputs])
            found = self.keys[equation] = equation.primitive, (params, types)
        return found

    def _class(self, atom: Atom) -> Hashable:
        return atom.key if isinstance(atom, Literal) else self.classes.get(atom, atom)

    def _anchor(self, atom: Any) -> Hashable:
        return atom.key if isinstance(atom, Literal) else atom  # type: ignore[no-any-return]


def _aligned(first: Sequence[Any], second: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The places of two sequences that stand for each other: all in order, if there are as many; else those that are equal."""
    count = min(len(first), len(second))
    if len(first) == len(second):
        yield from zip(range(count), range(count))
        return
    start = next((i for i in range(count) if first[i] != second[i]), count)
    rest = count - start
    end = next((i for i in range(rest) if first[-1 - i] != second[-1 - i]), rest)
    inner = first[start : len(first) - end], second[start : len(second) - end]
    yield from [(i, i) for i in range(start)]
    if len(inner[0]) * len(inner[1]) <= MOST_PAIRS:
        for i, j, size in difflib.SequenceMatcher(None, *inner, autojunk=False).get_matching_blocks():
            yield from [(start + i + k, start + j + k) for k in range(size)]
    yield from [(len(first) - end + i, len(second) - end + i) for i in range(end)]


def constant_key(variable: Variable, array: Array) -> Any:
    values = id(array) if is_deleted(array) else np.ascontiguousarray(array.host).tobytes()
    return variable.placed_type, values


def _constant_type(variable: Variable, array: Array) -> Any:
    return variable.placed_type


def _ancestors(equation: Equation) -> Iterator[Equation]:
    origin = equation.origin
    while origin is not None:
        yield origin
        origin = origin.origin


def _line(equation: Equation) -> Any:
    source = equation.source
    return None if source is None else (source.file, source.line)


def hashable_key(value: Any) -> Hashable:
    """A key of a parameter; one that cannot be hashed is equal to itself alone."""
    key = param_key(value)
    try:
        hash(key)
    except TypeError:
        return id(value)
    hashed: Hashable = key
    return hashed


def longest_increasing(numbers: Iterable[int]) -> set[int]:
    """The numbers of a longest increasing part of a sequence of different numbers, in n log n steps.

    Example:
        >>> sorted(longest_increasing([3, 0, 1, 4, 2]))
        [0, 1, 2]
    """
    given = list(numbers)
    ends: list[int] = []  # by length, the place of the least last number
    before: list[int] = []
    values: list[int] = []
    for i, number in enumerate(given):
        low, high = 0, len(values)
        while low < high:
            middle = (low + high) // 2
            if values[middle] < number:
                low = middle + 1
            else:
                high = middle
        before.append(ends[low - 1] if low else -1)
        if low == len(values):
            values.append(number)
            ends.append(i)
        else:
            values[low], ends[low] = number, i
    found = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        found.add(given[at])
        at = before[at]
    return found
