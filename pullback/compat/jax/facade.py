"""How the modules that pose as JAX's are made: pullback's own namespaces, with what differs put in front of them.

A file of this package stands for the module of JAX's of the same name, and defines what JAX does differently; the rest comes
from one of pullback's namespaces (`facade`). Modules of JAX's in which nothing differs have no file, but an entry in `ROWS`.
`install` makes the names of JAX's modules mean these.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

from pullback.compat.jax.absent import reason
from pullback.compat.jax.rows import ROWS
from pullback.core.source import api_boundary, make_boundaries

PACKAGE = "pullback.compat.jax"
_ADAPTS = "_adapts"  # the attribute of what `adapter` makes
DOCUMENTATION = "https://docs.jax.dev/en/latest"


def name_in_jax(module: str) -> str:
    """The name of a module of this package in JAX."""
    return "jax" + module.removeprefix(PACKAGE)


def facade(
    module: dict[str, Any],
    base: str | None = None,
    without: str = "",
    own: Mapping[str, str] = MappingProxyType({}),
    adapted: Mapping[str, Callable[[Any], Any]] = MappingProxyType({}),
) -> None:
    """Make a module, of its globals, one of JAX's: besides its own functions and classes it has those of others, each loaded
    when it is first asked for.

    Arguments:
        base: a namespace of pullback's, `module` or `module:object`, all of whose names the module has,
        without: except these.
        own: what comes from elsewhere: words by the modules that have them, `name` or `name=attribute`. A module of which the
            name does not start with `pullback` is one of this package.
        adapted: names of `base` whose values are not as they are there, each with the function that makes the module's of them.
    """
    name_of_module = module["__name__"]
    hidden = frozenset(without.split())
    homes = _homes(own)
    ours = (name_of_module, name_in_jax(name_of_module))
    for name, value in module.items():
        _found_by_pickles(value, name_of_module, name)
    public = {name for name, value in module.items() if name[0] != "_" and getattr(value, "__module__", None) in ours}
    defined = {*module.get("__all__", public)}
    make_boundaries(module, public)
    for name in public:
        _documented(module[name], name_of_module, name)

    @api_boundary
    def __getattr__(name: str) -> Any:
        if name == "__all__":  # of a module that does not say it itself: asked for where all names are imported
            return __dir__()
        if name in homes:
            home, attribute = homes[name]
            there = importlib.import_module(home)
            if home.startswith(PACKAGE):
                make_boundaries(vars(there), [attribute])
                _found_by_pickles(getattr(there, attribute), home, attribute)
            value = _documented(getattr(there, attribute), name_of_module, name)
        elif not name.startswith("__") and name in inherited():
            value = getattr(_loaded(str(base)), name)
            if isinstance(value, ModuleType):
                value = _submodule(name_of_module, name) or value
            elif name in adapted:
                value = adapted[name](value)
                _found_by_pickles(value, name_of_module, name)
        elif (value := _submodule(name_of_module, name)) is None:
            raise absent(name_of_module, name)
        module[name] = value
        return value

    def inherited() -> frozenset[str]:
        return frozenset() if base is None else frozenset(_public(_loaded(base))) - hidden

    def __dir__() -> list[str]:
        return sorted(defined | homes.keys() | inherited() | _submodules(name_of_module))

    module.update(__getattr__=__getattr__, __dir__=__dir__)
    module.setdefault("__path__", [])  # a row of the table may be in any module


def adapter(call: Callable[..., Any]) -> Callable[..., Any]:
    """For `adapted`: from a function to one that does `call(function, *args, **kwargs)` in its place, under its name. What
    else `call` takes may be given with the function."""

    def adapt(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        made = functools.wraps(function)(api_boundary(functools.partial(call, function, **options)))
        setattr(made, _ADAPTS, True)
        return made

    return adapt


def _found_by_pickles(value: Any, module: str, name: str) -> None:
    """Have what `adapter` made say where it is, instead of where that is which it stands for."""
    if _ADAPTS in getattr(value, "__dict__", ()) and not value.__module__.startswith(PACKAGE):
        value.__module__, value.__qualname__ = module, name


def _loaded(base: str) -> Any:
    """A module, or what it has under the name behind a colon."""
    module, _, name = base.partition(":")
    return getattr(importlib.import_module(module), name) if name else importlib.import_module(module)


def _public(namespace: Any) -> list[str]:
    """The names that a module or an object offers."""
    return getattr(namespace, "__all__", None) or [name for name in dir(namespace) if not name.startswith("_")]


def _homes(own: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The module and the attribute of each name of a table such as `facade` takes."""
    found = {}
    for home, words in own.items():
        for word in words.split():
            name, _, attribute = word.partition("=")
            found[name] = (home if home.partition(".")[0] == "pullback" else f"{PACKAGE}.{home}", attribute or name)
    return found


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that one of JAX's modules has in JAX, or has not there either."""
    return AttributeError(_not_provided(name_in_jax(module), name), name=name, obj=sys.modules.get(module))


def _documented(value: Any, module: str, name: str) -> Any:
    """A value that, where it is a function of which nothing is said, says where JAX's documentation is."""
    if isinstance(value, FunctionType) and not value.__doc__:
        value.__doc__ = f"As JAX's: {DOCUMENTATION}/_autosummary/{name_in_jax(module)}.{name}.html"
    return value


def _absent_module(fullname: str) -> ModuleNotFoundError:
    """The error for a module that JAX has, or has not either."""
    name = name_in_jax(fullname)
    outer, _, last = name.rpartition(".")
    return ModuleNotFoundError(_not_provided(outer, last), name=name)


def _not_provided(module: str, name: str) -> str:
    why, full = reason(module, name), f"{module}.{name}"  # whether JAX has it nobody knows here: its documentation is searched
    said = f"{full} is not provided by pullback{': ' if why else ''}{why}"
    return f"{said} (JAX's documentation: {DOCUMENTATION}/search.html?q={full})."


def _is_there(fullname: str) -> bool:
    """Whether this package has a module."""
    try:
        return fullname in sys.modules or importlib.util.find_spec(fullname) is not None
    except ModuleNotFoundError:
        return False


def _submodule(own: str, name: str) -> ModuleType | None:
    """A module of this package by its name in another one, loaded now; None if there is none."""
    full = f"{own}.{name}"
    if name.startswith("__") or "__path__" not in vars(sys.modules[own]) or not _is_there(full):
        return None
    return importlib.import_module(full)


def _submodules(own: str) -> set[str]:
    start = name_in_jax(own) + "."
    return {name.removeprefix(start).partition(".")[0] for name in ROWS if name.startswith(start) and "._" not in name}


# ---- modules without a file -------------------------------------------------------------------------------------------


class _RowLoader:
    """Makes the module of a row of the table."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        facade(vars(module), *ROWS[name_in_jax(module.__name__)])


class _RowFinder:
    """Finds the modules of this package that have no file, as the last of all finders."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        if name_in_jax(fullname) not in ROWS:
            raise _absent_module(fullname)  # `from jax.experimental import name` shows this error, and no other
        loader: Any = _RowLoader()
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=True)


sys.meta_path.append(_RowFinder())


# ---- posing as JAX ----------------------------------------------------------------------------------------------------


class _AliasLoader:
    """Gives the module of this package for the name of one of JAX's."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        self.module = importlib.import_module(PACKAGE + spec.name.removeprefix("jax"))
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # which the import system has replaced by that of the alias


class AliasFinder:
    """Finds `jax` and what is in it here, whether or not JAX is installed."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != "jax" and not fullname.startswith("jax."):
            return None
        if not _is_there(own := PACKAGE + fullname.removeprefix("jax")):
            raise _absent_module(own)
        loader: Any = _AliasLoader()
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=True)


_finder = AliasFinder()
_habits: list[tuple[Callable[[], None], Callable[[], None]]] = []


def habit(begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Begin what JAX does in a whole process and pullback does not; `uninstall` ends it, `install` begins it again. Each
    may be called when there is nothing to do."""
    _habits.append((begin, end))
    begin()


def begin_habits() -> None:
    """Behave as JAX in this process, as from the import of this package on."""
    for begin, _ in _habits:
        begin()


def end_habits() -> None:
    """Behave as pullback in this process."""
    for _, end in _habits:
        end()


def install() -> None:
    """Make `import jax`, and that of every module in it, mean pullback's, in this process.

    Raises:
        ImportError: JAX has been imported already: objects of two libraries would meet.
    """
    there = sys.modules.get("jax")
    if there is not None and there is not sys.modules[PACKAGE]:
        raise ImportError(
            "JAX has been imported in this process already, so pullback cannot take its place. Call"
            " pullback.compat.jax.install() before anything imports jax, or run the program by"
            " `python -m pullback.compat.jax program.py`."
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    sys.modules["jax"] = sys.modules[PACKAGE]
    begin_habits()


def uninstall() -> None:
    """Undo `install`: `import jax` means JAX again, where it is installed, and pullback's own mode holds. What was imported
    before keeps what it has."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name == "jax" or name.startswith("jax.")]:
        if (getattr(sys.modules[name], "__name__", None) or "").startswith(PACKAGE):
            del sys.modules[name]
    end_habits()
