"""The mode: what operators and methods have to know besides their operands, since no argument of theirs can say it.

A mode is one object, made once for each combination of its fields, and part of the key of all that is traced. A process has
one; a block of a thread overrides some of its fields. Reading it costs what reading a context variable does.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ContextDecorator
from contextvars import ContextVar, Token
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import Any, Self

import numpy as np

from pullback.core.bounded import Bounded
from pullback.core.brief import brief
from pullback.core.context import Inherited
from pullback.core.source import api_class, warn

_CHOICES: dict[str, tuple[Any, ...]] = {
    "bits": (32, 64),
    "narrows": (False, True, "warn", "raise", "values"),
    "clamps": (False, True),
    "truncates": (False, True),
    "lists": (True, False),
    "floats": ("default", "own"),
    "promotion": ("standard", "strict"),
    "rank_promotion": ("allow", "warn", "raise"),
    "compiles": (True, False),
    "checks_leaks": (False, True, "warn"),
    "generator": ("threefry2x32", "threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg"),
    "native": ("on", "off", "check", "always"),
    "own": ((),),
    "mesh": (None,),
    "checks": (None,),
}


def default_dtypes(bits: int) -> dict[str, np.dtype[Any]]:
    """The default dtype of each kind where numbers get this many bits."""
    names = {"b": "bool", "i": f"int{bits}", "u": f"uint{bits}", "f": f"float{bits}", "c": f"complex{2 * bits}"}
    return {kind: np.dtype(name) for kind, name in names.items()}


class Mode:
    """How values enter, meet and are indexed. The same fields give the same object; the first choice of each is the default.

    Attributes:
        bits: 32 or 64, the width that Python's numbers get; complex ones have twice as many bits.
        narrows: whether 64-bit values become 32 bits wide where they enter. True says nothing where 64 bits are asked for by
            name, "warn" warns, "raise" raises ValueError, and "values" keeps them there.
        clamps: whether known indices out of bounds are moved inside where an array is read, and left out where it is written;
            else they raise IndexError. A derivative leaves out the places that were read for them. Then a known singular matrix
            is no error either: results are NaN, as of a traced one; and `bincount` counts known negative numbers as 0.
        truncates: whether what is written into an array of a lower kind (a float into integers) is converted, with a
            FutureWarning; else that is a DtypeError. Then `.at[].divide` of integers gives floats, and a Python integer keeps
            its low bits where it meets integers that are too narrow for it; else that is an OverflowError.
        lists: whether a list is an index, x[[0, 1]], as the array of it is; else that is a TypeError.
        floats: the width of what functions of real numbers make of integers: the default one, or, where that is 64 bits, "own":
            64 bits of those of 64 bits, and 32 of others.
        promotion: "standard"; or "strict", where only Python's numbers adapt to what they meet.
        rank_promotion: "allow", "warn" or "raise": what happens where an array gets axes in front to be broadcast.
        compiles: whether jit compiles, and loops are one operation; else Python runs them step by step.
        checks_leaks: whether a function that lets a traced value outlive the call raises an error at its end; "warn" warns.
        generator: the generator of keys that are made without naming one, and of raw ones.
        native: what the native tier takes (`pb.native_mode`): "on", what it is better at than XLA; "off",
            nothing; "check", as "on", and XLA runs it too, to be compared; "always", all that it can.
        mesh: the mesh that specs mean which name none (`core/meshes.py`), or None.
        checks: what a `pb.checking` block looks for (`diagnose/checks.py`), or None. Each block has its own, so that what was
            traced outside of it is traced anew in it.
        own: what a program's own functions read from around them: any tuple of what can be hashed. They are traced for each.
        defaults: for each kind of dtype (`b i u f c`) the default one.
    """

    __slots__ = ("__weakref__", *_CHOICES, "defaults")
    bits: int
    narrows: bool | str
    clamps: bool
    floats: str
    truncates: bool
    lists: bool
    promotion: str
    rank_promotion: str
    compiles: bool
    checks_leaks: bool | str
    generator: str
    native: str
    own: tuple[Any, ...]
    mesh: Any
    checks: Any
    defaults: dict[str, np.dtype[Any]]
    fields = tuple(_CHOICES)

    def __init__(self, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            setattr(self, name, value)
        self.defaults = default_dtypes(self.bits)

    def replace(self, **fields: Any) -> Mode:
        """The mode with other values in some fields.

        Raises:
            TypeError: there is no such field. ValueError: it cannot have that value.
        """
        for name, value in fields.items():
            if name not in _CHOICES:
                raise TypeError(f"A mode has the fields {', '.join(_CHOICES)}, but got {name}.")
            if name in ("own", "mesh", "checks"):
                hash(value)
            elif not any([value.__class__ is choice.__class__ and value == choice for choice in _CHOICES[name]]):
                raise ValueError(f"A mode's {name} is {' or '.join(map(repr, _CHOICES[name]))}, not {brief(value)}.")
        return _the_mode({name: fields.get(name, getattr(self, name)) for name in _CHOICES})

    def __repr__(self) -> str:
        said = [f"{name}={getattr(self, name)!r}" for name in _CHOICES if getattr(self, name) != _CHOICES[name][0]]
        return ", ".join([f"{self.bits} bits", *[part for part in said if not part.startswith("bits=")]])


_modes: Bounded[tuple[Any, ...], Mode] = Bounded(1024)


def _the_mode(fields: dict[str, Any]) -> Mode:
    checks = fields["checks"]
    modes = _modes if checks is None else checks.modes  # those of a block live as long as what it looks for
    return modes.get(key := tuple(fields.values())) or modes.setdefault(key, Mode(fields))


def _bits_from_environment() -> int:
    bits = os.environ.get("PULLBACK_DEFAULT_BITS", "32")
    if bits not in ("32", "64"):
        raise ValueError(f"The environment variable PULLBACK_DEFAULT_BITS must be 32 or 64, not {brief(bits)}.")
    return int(bits)


def _native_from_environment() -> str:
    native, choices = os.environ.get("PULLBACK_NATIVE", "on"), _CHOICES["native"]
    if native not in choices:
        raise ValueError(f"The environment variable PULLBACK_NATIVE must be one of {', '.join(choices)}, not {brief(native)}.")
    return native


# ---- the mode of a process, and of a block in a thread ----------------------------------------------------------------

_chosen = {"bits": _bits_from_environment(), "native": _native_from_environment()}
_holding = Inherited("pullback_mode", _the_mode({name: choices[0] for name, choices in _CHOICES.items()} | _chosen))
_mode = _holding.variable
_overrides: ContextVar[dict[str, Any] | None] = ContextVar("pullback_mode_overrides", default=None)

current_mode = _holding.get
"""The mode that holds here."""


def process_mode() -> Mode:
    """The mode of the process, where nothing overrides it."""
    return _holding.default


def set_process_mode(**fields: Any) -> Mode:
    """Change fields of the process's mode, for all threads that do not override them just now.

    Returns:
        The mode that it had before.
    """
    before = process_mode()
    _holding.default = before.replace(**fields)
    _refresh()
    return before


def _refresh() -> None:
    if overrides := _overrides.get():
        _mode.set(process_mode().replace(**overrides))


class overriding(AbstractContextManager[None]):
    """Override fields of the mode inside the `with` block, in this thread. One object may be used again, and inside itself."""

    def __init__(self, **fields: Any) -> None:
        current_mode().replace(**fields)  # refuses what there is not
        self._fields = fields
        self._entered: list[tuple[Token[Any], Token[Mode], Mode]] = []

    def __enter__(self) -> None:
        overrides = {**(_overrides.get() or {}), **self._fields}
        process = process_mode()
        self._entered.append((_overrides.set(overrides), _mode.set(process.replace(**overrides)), process))

    def __exit__(self, *error: object) -> None:
        overrides, mode, process = self._entered.pop()
        _overrides.reset(overrides)
        _mode.reset(mode)
        if process is not process_mode():  # it changed in the block
            _refresh()


def narrowing() -> AbstractContextManager[None]:
    """Make arrays of 64-bit values, and requests for 64-bit dtypes, 32 bits wide inside the `with` block.

    Arrays that exist keep their dtype.
    """
    return overriding(bits=32, narrows=True)


_LATER = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR  # flags of functions that a call does not run


@api_class
class Block(ContextDecorator):
    """Overrides of the mode that users write: they hold inside the `with` block, or the decorated function, in this thread.

    Attributes:
        variable: the environment variable that sets the same for a whole process; empty if there is none.
    """

    variable: str = ""
    _used = True  # what is refused is not what nobody entered

    def __init__(self, value: Any, override: overriding) -> None:
        self._value, self._override, self._used = value, override, False

    def __enter__(self) -> None:
        self._used = True
        self._override.__enter__()

    def __exit__(self, *error: object) -> None:
        self._override.__exit__(*error)

    def _recreate_cm(self) -> Self:
        """One of its own for each call of a decorated function, which may call itself, or be called in several threads."""
        return type(self)(self._value)  # type: ignore[call-arg]

    def __call__(self, function: Any) -> Any:
        """The function, in such a block each time it is called.

        Raises:
            TypeError: for a class, a generator or a coroutine function: these run after the call, or outside it.
        """
        self._used = True
        code = getattr(function, "__code__", None)
        if isinstance(function, type) or not callable(function) or (code is not None and code.co_flags & _LATER):
            raise TypeError(
                f"{self} decorates functions that compute when they are called, and no class, generator or coroutine function:"
                f" {brief(function)}. Write `with pb.{self}:` in the body."
            )
        return super().__call__(function)

    def __del__(self) -> None:
        if not self._used:
            told = f"{self} did nothing: it holds inside `with pb.{self}:`, or a function that it decorates."
            if self.variable:
                told += f" For a whole process, set the environment variable {self.variable}={self._value}."
            warn(told)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value!r})"


@api_class
class default_bits(Block):
    """Make arrays from Python numbers 32 or 64 bits wide inside the `with` block, or the decorated function (complex ones 64 or
    128). As a statement by itself it does nothing, and warns.

    The environment variable `PULLBACK_DEFAULT_BITS` sets the same for a whole process. Arrays keep the dtype they have.

    Arguments:
        bits: 32 or 64.

    Raises:
        ValueError: `bits` is neither 32 nor 64.

    Example:
        >>> import pullback as pb
        >>> with pb.default_bits(64):
        ...     pb.numpy.asarray(1.0).dtype
        dtype('float64')
    """

    variable = "PULLBACK_DEFAULT_BITS"

    def __init__(self, bits: int) -> None:
        if bits.__class__ is bool or bits not in _CHOICES["bits"]:
            raise ValueError(f"default_bits takes 32 or 64, not {brief(bits)}.")
        # values of 64 bits keep theirs where Python's numbers get as many
        super().__init__(bits, overriding(bits=64, narrows=False) if bits == 64 else overriding(bits=32))
