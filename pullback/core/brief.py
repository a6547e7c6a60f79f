"""Values of the user's, and numbers of things, in messages."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import numpy as np

from pullback.core.lazy import lazy_module

dataclasses = lazy_module("dataclasses")

LONGEST, MOST, DEEPEST = 80, 8, 4  # characters of a value, elements of a container, containers in each other
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def brief(value: Any) -> str:
    """A value as a message shows it: on one line, not too long, without addresses in memory; arrays by their types.

    Example:
        >>> brief("cubic"), brief((1, [pb.numpy.ones(3)])), brief(object()), brief(float)
        ("'cubic'", '(1, [f32[3]])', '<object object>', 'the class float')
    """
    return _shortened(words_of(value))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


_PLURALS = {"axis": "axes", "leaf": "leaves", "entry": "entries", "index": "indices"}


def counted(number: int, what: str) -> str:
    """A number of things: `1 equation`, `1,200 equations`; `2 branches`, `3 batch axes`.

    Example:
        >>> counted(1, "equation"), counted(1200, "branch"), counted(0, "batch axis")
        ('1 equation', '1,200 branches', '0 batch axes')
    """
    if number == 1:
        return f"1 {what}"
    before, space, noun = what.rpartition(" ")
    many = _PLURALS.get(noun, f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s")
    return f"{number:,} {before}{space}{many}"


@functools.singledispatch
def words_of(value: Any, depth: int = DEEPEST) -> str:
    """All of what `brief` shows the beginning of; a class registers what is shown of its instances, of which containers show
    elements while `depth` is not 0."""
    if hasattr(type(value), "__dataclass_fields__") and type(value).__dataclass_params__.repr:
        return _of_fields(value, [field.name for field in dataclasses.fields(value) if field.repr], depth)
    try:
        shown = repr(value)
    except Exception as error:  # of the user's own code; what the message says matters more
        return f"<{type(value).__qualname__} object whose repr raises {type(error).__name__}>"
    return " ".join(_ADDRESS.sub("", shown).split())


@words_of.register(type)
def _of_class(value: type, depth: int = DEEPEST) -> str:
    return f"the class {value.__qualname__}"


@words_of.register(str)
@words_of.register(bytes)
@words_of.register(bytearray)
def _of_text(value: str | bytes | bytearray, depth: int = DEEPEST) -> str:
    if isinstance(type(value).__repr__, FunctionType):
        return words_of.dispatch(object)(value, depth)
    return repr(value[:LONGEST])  # with its quotation marks, more than is shown of it


@words_of.register(np.ndarray)
def _of_numpy(value: np.ndarray[Any, Any], depth: int = DEEPEST) -> str:
    return f"a NumPy array of shape {value.shape} and dtype {value.dtype}"


@words_of.register(list)
@words_of.register(tuple)
@words_of.register(dict)
@words_of.register(set)
@words_of.register(frozenset)
def _of_container(value: Any, depth: int = DEEPEST) -> str:
    """A container as Python prints it, with its elements in brief. One of a class that prints itself does."""
    kind = type(value)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return _of_fields(value, kind._fields, depth)
    if isinstance(kind.__repr__, FunctionType):
        return words_of.dispatch(object)(value, depth)
    marks, texts = "{}", (_inside(element, depth) for element in value)
    if isinstance(value, tuple):
        marks = "()"
    elif isinstance(value, list):
        marks = "[]"
    elif isinstance(value, dict):
        texts = (f"{_inside(key, depth)}: {_inside(entry, depth)}" for key, entry in value.items())
    elif not value:
        return f"{kind.__name__}()"
    text = f"{marks[0]}{_elements(texts, depth)}{',' * (isinstance(value, tuple) and len(value) == 1)}{marks[1]}"
    return text if kind in (tuple, list, dict, set) else f"{kind.__name__}({text})"


def _of_fields(value: Any, names: Iterable[str], depth: int) -> str:
    texts = (f"{name}={_inside(getattr(value, name), depth)}" for name in names)
    return f"{type(value).__qualname__}({_elements(texts, depth)})"


def _inside(value: Any, depth: int) -> str:
    """An element of a container."""
    return _shortened(words_of(value, depth - 1))


def _elements(texts: Iterable[str], depth: int) -> str:
    shown = list(itertools.islice(texts, MOST + 1)) if depth else ["..."]
    return ", ".join([*shown[:MOST], "..."] if len(shown) > MOST else shown)
