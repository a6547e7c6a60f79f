"""When two Programs are equal: when they differ in nothing but the names of their variables, their own names and sources.

Every Program finds, at most once, the `Structure` that it shares with all Programs equal to it; from then on comparing and
hashing cost nothing. The Programs inside a Program enter its key as their Structures, so that finding one is linear in the
number of equations even where Programs share Programs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from pullback.core.array import Array, is_deleted, placed_type
from pullback.core.lazy import lazy_module
from pullback.core.types import ArrayType
from pullback.program.equation import Atom, Graph, Literal, Variable

dataclasses = lazy_module("dataclasses")


class Structure:
    """What Programs that are equal have in common; each is equal only to itself."""

    __slots__ = ("__weakref__",)


# The values of constants of up to this many bytes enter the hash; larger ones are only looked at when all else is equal.
HASHED_BYTES = 1024

_structures: WeakValueDictionary[Any, Structure] = WeakValueDictionary()
_lock = threading.RLock()  # reentrant, since a collection of garbage may come in between and compare Programs


def structure_of(program: Graph) -> Structure:
    """The Structure of a Program. One with a parameter that cannot be hashed is equal only to itself."""
    found: Structure | None = program._structure
    if found is None:
        key = _program_key(program)
        found = Structure()
        try:
            with _lock:
                found = _structures.setdefault(key, found)
        except TypeError:
            pass
        program._structure = found
    return found


class _Constant:
    """A captured array in a key: equal to another of the same type and the same bytes."""

    __slots__ = ("array", "hash")

    def __init__(self, array: Array) -> None:
        self.array = array
        values = b"" if array.type.nbytes > HASHED_BYTES or is_deleted(array) else array.host.tobytes()
        self.hash = hash((placed_type(array), values))

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Constant):
            return NotImplemented
        if self.array is other.array:
            return True
        if placed_type(self.array) is not placed_type(other.array) or is_deleted(self.array) or is_deleted(other.array):
            return False
        own, others = [np.ascontiguousarray(one.array.host).reshape(-1).view(np.uint8) for one in (self, other)]
        return np.array_equal(own, others)


def _program_key(program: Graph) -> tuple[Any, ...]:
    numbers: dict[Variable, int] = {}

    def declare(variables: Iterable[Variable]) -> tuple[ArrayType, ...]:
        types = []
        for variable in variables:
            numbers[variable] = len(numbers)
            types.append(variable.placed_type)
        return tuple(types)

    def use(atom: Atom) -> Any:
        return atom.key if isinstance(atom, Literal) else numbers.get(atom, atom)

    inputs = declare(program.inputs)
    captured = declare([variable for variable, _ in program.constants])
    constants = tuple([_Constant(array) for _, array in program.constants])
    equations = []
    for equation in program.equations:
        params = tuple([(name, param_key(value)) for name, value in sorted(equation.params.items())])
        operands = tuple([use(atom) for atom in equation.inputs])
        equations.append((equation.primitive, params, operands, declare(equation.outputs)))
    return inputs, captured, constants, tuple(equations), tuple([use(atom) for atom in program.outputs])


_EXACT = frozenset({int, bool, str, bytes, type(None), type(Ellipsis)})  # equal ones of the same type are the same


def param_key(value: Any) -> Any:
    """What of a parameter, or of a static argument of jit, makes it equal to another.

    Two values have equal keys if they are of the same type and equal by their own `__eq__`; in tuples, frozensets, slices,
    NamedTuples and dataclasses whose `__eq__` Python wrote, item by item. So 1, 1.0, True and np.int64(1) differ. Floats are
    told apart by their bits: 0.0 and -0.0 differ, and a NaN equals itself; Programs by all but names and sources. A key can be
    hashed where the value itself can: a dataclass with lists that hashes them as tuples, say, hashes as it says.
    """
    own = value.__class__
    if own in _EXACT:
        return own, value
    equality = own.__eq__
    if equality is tuple.__eq__:
        return own, tuple([(kind, item) if (kind := item.__class__) in _EXACT else param_key(item) for item in value])
    if equality is object.__eq__:
        return own, value
    if equality is float.__eq__:
        return own, float.hex(value)
    if isinstance(value, Graph):
        return structure_of(value)
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        return own, value.dtype, value.tobytes()
    if equality is complex.__eq__:
        return own, value.real.hex(), value.imag.hex()
    if equality is frozenset.__eq__ and own.__hash__ is not None:
        return own, frozenset([param_key(item) for item in value])
    if own is slice:
        return own, tuple([param_key(item) for item in (value.start, value.stop, value.step)])
    if own.__hash__ is not None and _is_generated(equality) and dataclasses.is_dataclass(own):
        items = tuple([param_key(getattr(value, field.name)) for field in dataclasses.fields(own) if field.compare])
        return (own, items) if _is_generated(own.__hash__) else _Hashed(value, (own, items))
    if own is list:
        return own, [param_key(item) for item in value]
    if own is dict:
        return own, {param_key(key): param_key(item) for key, item in value.items()}
    return own, value


def key_test(key: Any, name: str, names: dict[str, Any]) -> str:
    """The source of an expression that says whether `param_key` of what is called `name` is `key`: of a dataclass of two
    numbers in 0.4 us, where its key takes 3.5. What it refers to is added to `names`, and it sets variables of its own."""
    label = f"static_{len(names)}"
    own: Any
    value: Any
    own, value = key if key.__class__ is tuple and len(key) == 2 and isinstance(key[0], type) else (None, None)
    generated = own is not None and dataclasses.is_dataclass(own) and _is_generated(own.__eq__) and _is_generated(own.__hash__)
    if own in _EXACT or own is float:
        by_bits = own is float and not abs(number := float.fromhex(value)) > 0.0  # a zero, or NaN
        names |= {f"{label}_class": own, label: number if own is float and not by_bits else value}
        return f"({label}_is := {name}).__class__ is {label}_class and {label}_is{'.hex()' if by_bits else ''} == {label}"
    if own is tuple:
        parts, test = [f"{label}_is[{i}]" for i in range(len(value))], f" and len({label}_is) == {len(value)}"
    elif generated:
        parts, test = [f"{label}_is.{field.name}" for field in dataclasses.fields(own) if field.compare], ""
    else:
        names |= {"param_key": param_key, label: {key}}
        return f"param_key({name}) in {label}"
    names[f"{label}_class"] = own
    tests = [key_test(part, called, names) for part, called in zip(value, parts, strict=True)]
    return " and ".join([f"({label}_is := {name}).__class__ is {label}_class{test}", *tests])


def _is_generated(method: Any) -> bool:
    """Whether an `__eq__` or `__hash__` was written by `dataclass`, and so is about the fields, rather than by the user."""
    code = getattr(method, "__code__", None)
    return code is not None and (code.co_filename, code.co_qualname) == (
        "<string>",
        f"__create_fn__.<locals>.{method.__name__}",
    )


class _Hashed:
    """The key of a value that has its own hash, for items that have none."""

    __slots__ = ("items", "value")

    def __init__(self, value: Any, items: Any) -> None:
        self.value, self.items = value, items

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.items == other.items

    def __repr__(self) -> str:
        return repr(self.value)


class Keyed:
    """Equal to what has an equal `key`; if that cannot be hashed, to itself alone."""

    __slots__ = ("key",)
    key: Any

    def __hash__(self) -> int:
        try:
            return hash(self.key)
        except TypeError:
            return object.__hash__(self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        return bool(self.key == other.key)
