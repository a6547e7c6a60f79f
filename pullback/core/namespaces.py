"""Public namespaces: what a package offers stands in its stub, and in no second list.

A stub (`__init__.pyi` beside `__init__.py`) has one line for each public name, `from <module> import <name> as <name>`, which
type checkers read as well. A name is loaded with its module when it is first used (SPEC 1 of Scientific Python,
scientific-python.org/specs/spec-0001), so importing a namespace costs the reading of its stub.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any, NoReturn

from pullback.core.absent import ABSENT_METHODS as ABSENT_METHODS
from pullback.core.absent import absent, what_to_say
from pullback.core.source import api_boundary, make_boundaries


def homes_of(file: str) -> dict[str, str]:
    """The public names in the stub beside a module's file, and the module that each comes from."""
    with open(os.path.splitext(file)[0] + ".pyi", encoding="utf-8") as stub:
        return {words[3]: words[1] for words in map(str.split, stub) if words[:1] == ["from"]}


_opened: dict[str, dict[str, str]] = {}  # one for each package that is loaded


def homes_of_names() -> Iterator[tuple[str, str]]:
    """The public names of the namespaces that are loaded, each with the module that it comes from."""
    for homes in list(_opened.values()):
        yield from homes.items()


def open_namespace(module: dict[str, Any]) -> None:
    """Give a package, by its globals, the public names of its stub.

    Functions become boundaries, at which errors lose our frames. A name that the stub lacks is an error that says what stands
    for it.
    """
    own, homes = module["__name__"], homes_of(module["__file__"])
    _opened[own] = homes

    @api_boundary
    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise absent(own, name)
        if homes[name] == own:
            return importlib.import_module(f"{own}.{name}")
        home = importlib.import_module(homes[name])
        found = {each: getattr(home, each) for each, source in homes.items() if source == homes[name]}
        found["__name__"] = own
        make_boundaries(found, list(found))
        for each, value in found.items():  # all of one module at once, so that two names of one function stay one
            module.setdefault(each, value)
        return module[name]

    module.update(__all__=list(homes), __dir__=lambda: sorted(homes), __getattr__=__getattr__)


class AbsentMethod:
    """In the place of a method that arrays do not have: looking it up is the error that says what there is instead."""

    def __init__(self, name: str) -> None:
        self.name = name

    @api_boundary
    def __get__(self, instance: object, owner: type) -> NoReturn:
        known = ABSENT_METHODS[self.name]
        text = what_to_say("pullback.numpy", self.name) if known is None else f"{known}."
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}: {text}", name=self.name, obj=instance)
