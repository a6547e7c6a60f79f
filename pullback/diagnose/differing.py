"""Where two traces of one function differ first.

Equality of Programs is the measure. Where they are not equal, the equations are gone through side by side, and functions among
their parameters count as the same if they have the same code and close over the same: a function that is defined anew at each
trace, such as a callback, is no difference.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from pullback.api.traced import Traced
from pullback.core.array import Array
from pullback.core.brief import counted
from pullback.core.source import Source
from pullback.core.tracing import Tracer
from pullback.core.trees import trees_of_another_kind
from pullback.program.equality import Keyed, param_key
from pullback.program.equation import Atom, Equation, Graph, Literal, Variable, is_record, record_fields
from pullback.program.printing import value_text

MADE_ANEW = "a number that Python made anew at each trace, as a counter, np.random or the time does"
GROWS = "something that the function itself changes, such as a counter, a list or a dict"
READS = "something outside that the function reads and that has changed, such as a global variable"


class Difference(NamedTuple):
    """A difference in words, the usual cause of it, and the user's line that it is at."""

    what: str
    cause: str
    source: Source | None = None


def difference(one: Traced, other: Traced) -> Difference | None:
    """Where two traces of a function differ first; None if they do not."""
    if one.structure != other.structure and _compared(one.structure, other.structure, {}) is not None:
        return Difference(f"the first trace returned {one.structure}, the second {other.structure}", GROWS)
    if len(one.captures) != len(other.captures):
        count = len(one.captures)
        values = counted(count, "traced value")
        return Difference(f"the first trace closed over {values}, the second over {len(other.captures)}", READS)
    return None if one.program == other.program else _of_programs(one.program, other.program)


def _of_programs(one: Graph, other: Graph) -> Difference | None:
    constants = {variable: (i, array) for i, (variable, array) in enumerate(one.constants)}
    others = {variable: (i, array) for i, (variable, array) in enumerate(other.constants)}
    same: dict[Variable, Variable] = dict(zip(one.inputs, other.inputs))

    def atoms(a: Atom, b: Atom, equation: Equation | None) -> Difference | None:
        """How two operands differ."""
        source = None if equation is None else equation.source
        if isinstance(a, Literal) and isinstance(b, Literal):
            if a.key == b.key:
                return None
            return Difference(f"{_number(a)} in the first trace, and {_number(b)} in the second", MADE_ANEW, source)
        if isinstance(a, Variable) and isinstance(b, Variable):
            if a in constants and b in others:
                (_, x), (_, y) = constants[a], others[b]
                if x.type is y.type and _same_elements(x, y):
                    return None
                what = f"an array of {x.type} that it closes over" if x.type is y.type else f"arrays of {x.type} and {y.type}"
                return Difference(f"{what} has other elements in the second trace", MADE_ANEW, source)
            if same.get(a) is b:
                return None
        return Difference("it was applied to another value in the second trace", READS, source)

    for number, (a, b) in enumerate(zip(one.equations, other.equations), 1):
        where = f"equation {number}, {a.primitive.name}"
        if a.primitive is not b.primitive:
            return Difference(f"{where}: in the second trace it is {b.primitive.name}", GROWS, b.source or a.source)
        for x, y in zip(a.inputs, b.inputs):
            if (found := atoms(x, y, a)) is not None:
                return found._replace(what=f"{where}: {found.what}")
        if (own := len(a.inputs)) != len(b.inputs):
            counts = f"{counted(own, 'operand')} in the first trace, and {len(b.inputs)} in the second"
            return Difference(f"{where}: {counts}", READS, a.source)
        for name in a.params.keys() | b.params.keys():
            found = _of_params(a.params.get(name), b.params.get(name))
            if found is not None:
                return found._replace(what=f"{where}, {name}: {found.what}", source=found.source or a.source)
        same.update(zip(a.outputs, b.outputs))
    first, second = len(one.equations), len(other.equations)
    if first != second:
        longer = (one if first > second else other).equations[min(first, second)]
        what = f"the first trace has {counted(first, 'equation')}, the second {second}"
        return Difference(f"{what}: {longer.primitive.name} is in one of them alone", GROWS, longer.source)
    for number, (x, y) in enumerate(zip(one.outputs, other.outputs)):
        if (found := atoms(x, y, None)) is not None:
            return found._replace(what=f"result {number}: {found.what}", source=_maker(one, x))
    return None


def _maker(program: Graph, atom: Atom) -> Source | None:
    return next((one.source for one in program.equations if any([out is atom for out in one.outputs])), None)


def _number(literal: Literal) -> str:
    return f"{np.asarray(literal.value.host).item()} ({literal.type})"


def _same_elements(one: Array, other: Array) -> bool:
    if one is other:
        return True
    a, b = [np.ascontiguousarray(x.host).reshape(-1).view(np.uint8) for x in (one, other)]
    return np.array_equal(a, b)


# ---- parameters ----


def _of_params(one: Any, other: Any) -> Difference | None:
    """How two parameters differ, as far as they can be compared."""
    return _compared(one, other, {})


def _compared(one: Any, other: Any, seen: dict[tuple[int, int], Any]) -> Difference | None:
    key = id(one), id(other)
    if one is other or key in seen or (isinstance(one, Source) and isinstance(other, Source)):  # no part of what is computed
        return None
    seen[key] = one, other  # alive, since another thing may have its identity later
    if isinstance(one, Graph) and isinstance(other, Graph):
        return None if one == other else _of_programs(one, other)
    if one.__class__ is not other.__class__:
        return _unlike(one, other)
    if isinstance(one, Tracer):
        return None if one.type is other.type else _unlike(one.type, other.type)
    if isinstance(one, Array):
        alike = one.type is other.type and _same_elements(one, other)
        return None if alike else Difference(f"an array of {one.type} has other elements in the second trace", MADE_ANEW)
    if isinstance(one, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
        return None if alike else Difference("a NumPy array has other elements in the second trace", MADE_ANEW)
    parts = _parts(one)
    if parts is None:
        return None if param_key(one) == param_key(other) else _unlike(one, other)
    own, others = parts(one), parts(other)
    if len(own) != len(others):
        return _unlike(one, other)
    return next((found for a, b in zip(own, others) if (found := _compared(a, b, seen)) is not None), None)


def _parts(value: Any) -> Callable[[Any], Sequence[Any]] | None:
    """What gives the parts of values like one, to be compared one by one; None where the values themselves are compared."""
    if (trees := trees_of_another_kind(value)) is not None:
        return trees.parts
    if isinstance(value, FunctionType):
        return _of_function
    if isinstance(value, MethodType):
        return lambda method: [method.__func__, method.__self__]
    if isinstance(value, functools.partial):
        return lambda partial: [partial.func, partial.args, partial.keywords]
    if isinstance(value, Keyed):
        return lambda keyed: [keyed.key]
    if is_record(type(value)):
        return lambda record: [item for _, item in record_fields(record)]
    if isinstance(value, (tuple, list)):
        return list
    if isinstance(value, dict):
        return lambda mapping: [*mapping, *mapping.values()]
    own: Any = type(value)
    if own.__eq__ is object.__eq__ and own is not type:  # it says of itself only whether it is the same
        return lambda thing: [*getattr(thing, "__dict__", {}).values(), *_slots(thing)]
    return None


def _slots(thing: Any) -> list[Any]:
    names = [name for cls in type(thing).__mro__ for name in _names(getattr(cls, "__slots__", ()))]
    return [getattr(thing, name) for name in names if not name.startswith("__") and hasattr(thing, name)]


def _names(slots: Any) -> Sequence[str]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _of_function(function: FunctionType) -> list[Any]:
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not set yet
            cells.append(None)
    return [function.__code__, *cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]


def _unlike(one: Any, other: Any) -> Difference:
    return Difference(f"{value_text(one)} in the first trace, and {value_text(other)} in the second", READS)
