"""Values of the user's, and numbers of things, in messages."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

LONGEST, MOST = 80, 8  # characters of a value, elements of a container
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def brief(value: Any) -> str:
    """A value as a message shows it: on one line, not too long, without addresses in memory; arrays by their types.

    Example:
        >>> brief("cubic"), brief((1, [pb.numpy.ones(3)])), brief(object()), brief(float)
        ("'cubic'", '(1, [f32[3]])', '<object object>', 'the class float')
    """
    text = words_of(value)
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
def words_of(value: Any) -> str:
    """All of what `brief` shows the beginning of; a class registers what is shown of its instances."""
    return " ".join(_ADDRESS.sub("", repr(value)).split())


@words_of.register(type)
def _of_class(value: type) -> str:
    return f"the class {value.__qualname__}"


@words_of.register(np.ndarray)
def _of_numpy(value: np.ndarray[Any, Any]) -> str:
    return f"a NumPy array of shape {value.shape} and dtype {value.dtype}"


@words_of.register(list)
@words_of.register(tuple)
@words_of.register(dict)
def _of_container(value: Any) -> str:
    if type(value) is tuple:
        return f"({_elements(map(brief, value))}{',' if len(value) == 1 else ''})"
    if type(value) is list:
        return f"[{_elements(map(brief, value))}]"
    if type(value) is dict:
        return f"{{{_elements(f'{brief(key)}: {brief(entry)}' for key, entry in value.items())}}}"
    return words_of.dispatch(object)(value)


def _elements(texts: Iterable[str]) -> str:
    shown = list(itertools.islice(texts, MOST + 1))
    return ", ".join([*shown[:MOST], "..."] if len(shown) > MOST else shown)
