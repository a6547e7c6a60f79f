"""JAX's own test modules, loaded from a checkout of JAX, over pullback's modules that pose as JAX's.

The tests, and the helpers that they share (`jax._src.test_util` and a few more: `FROM_CHECKOUT`), are loaded as they are. What
they import of JAX's internals is sought, in this order, among what this harness provides in its place (`jax_internals.py`), in
pullback's `jax._src`, among the public names that JAX exports from there, and in the checkout's file where that is plain Python
(`PLAIN`). What is nowhere becomes an `Absence`: an object that may be imported and passed on, and that raises `Absent` where it
is used. So a test file loses those tests only that need what is absent.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import jax_internals as internals

FACADE = "pullback.compat.jax"

# Loaded as they are: the tests' own tools.
_FROM_CHECKOUT = """
    jax._src.test_util jax._src.public_test_util jax._src.test_loader jax._src.test_warning_util jax._src.lax_reference
    jax._src.hypothesis_test_util jax._src.internal_test_util jax._src.internal_test_util.lax_test_util
    jax._src.internal_test_util.test_harnesses jax._src.internal_test_util.deprecation_module
    jax._src.internal_test_util.lazy_loader_module jax.test_util jax.experimental.sparse.test_util
"""
FROM_CHECKOUT = frozenset(_FROM_CHECKOUT.split())
# What the tests' tools use of these is plain Python without JAX in it; names that pullback has go before theirs.
_PLAIN = "jax._src.util jax._src.dtypes jax._src.deprecations jax._src.typing jax._src.lazy_loader"
PLAIN = frozenset(_PLAIN.split())


class Absent(BaseException):
    """A test needs a name that is not there. (No Exception, so that no test expects it by accident.)"""


class State:
    """What the harness knows of the moment."""

    collecting = True
    used: ClassVar[list[str]] = []  # the absent names that the running test has used


def _used(name: str) -> Absent:
    State.used.append(name)
    return Absent(name)


class Absence:
    """What stands for a name of JAX's that is absent. While tests are collected it may be used; then use raises Absent."""

    def __init__(self, name: str) -> None:
        vars(self).update(_name=name, __name__=name.rpartition(".")[2], __qualname__=name, __module__="jax", __doc__=None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_pytest")) or name == "pytestmark":
            raise AttributeError(name)
        found = Absence(f"{self._name}.{name}")
        vars(self)[name] = found
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._name.endswith(("cache_clear", "clear_caches")):
            return None  # there is nothing to clear
        if not State.collecting:
            raise _used(self._name)
        if len(args) == 1 and not kwargs and inspect.isfunction(args[0]):  # as a decorator, it loses this one function
            return self._instead(args[0])
        return Absence(self._name + "()")

    def _instead(self, function: Any) -> Any:
        def absent(*args: Any, **kwargs: Any) -> Any:
            raise _used(self._name)

        absent.__name__, absent.__qualname__ = function.__name__, function.__qualname__
        return absent

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        name = self._name

        def refuse(cls: Any, *args: Any, **kwargs: Any) -> Any:
            raise _used(name)

        return (type(self.__name__, (), {"__new__": refuse}),)

    def _use(self, *args: Any, **kwargs: Any) -> Any:
        if State.collecting:
            return Absence(self._name)
        raise _used(self._name)

    def __bool__(self) -> bool:
        return bool(self._use()) if not State.collecting else False

    def __iter__(self) -> Any:
        return iter((Absence(f"{self._name}[0]"),)) if State.collecting else self._use()  # one test for all parameters

    def __eq__(self, other: object) -> bool:
        return self is other or (False if State.collecting else self._use())

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<absent {self._name}>"

    __or__ = __ror__ = __add__ = __radd__ = __sub__ = __mul__ = __matmul__ = __getitem__ = __enter__ = __array__ = _use

    def __setitem__(self, index: Any, value: Any) -> None:
        self._use()

    def _zero(self, *args: Any) -> Any:
        return 0 if State.collecting else self._use()

    __index__ = __len__ = __int__ = _zero

    def _false(self, *args: Any) -> Any:
        return False if State.collecting else self._use()

    __instancecheck__ = __subclasscheck__ = __contains__ = __lt__ = __le__ = __gt__ = __ge__ = _false

    def __exit__(self, *error: Any) -> None:
        return None


class Watched(ModuleType):
    """A module of pullback's that poses as JAX's: what it lacks is an Absence while tests are collected."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not State.collecting:
            return module_getattr(self, name)  # which raises the module's own error
        jax_name = "jax" + self.__name__.removeprefix(FACADE)
        found = submodule(f"{jax_name}.{name}")
        return Absence(f"{jax_name}.{name}") if found is None else found


class Internal(ModuleType):
    """A module of JAX's internals, or one that pullback has none for: its names are sought where `jax_checkout` says."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = find_internal(self.__name__, name)
        vars(self)[name] = found
        return found


def submodule(full: str) -> ModuleType | None:
    """A module by its name; None if there is none, neither with us nor in the checkout."""
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        there = FACADE + full.removeprefix("jax")
        if error.name is None or any(name == error.name or name.startswith(error.name + ".") for name in (full, there)):
            return None
        raise


_loaded_plain: dict[str, ModuleType] = {}


def find_internal(module: str, name: str) -> Any:
    """What a name of an internal module means here."""
    provided = internals.provided(module, name)
    if provided is not internals.NOTHING:
        return provided
    of_jaxlib = internals.real_module(f"{module}.{name}")
    if of_jaxlib is not None:
        return of_jaxlib
    if exists(f"{module}.{name}"):  # before what has the same name among the public ones: jax.config is no module
        return importlib.import_module(f"{module}.{name}")
    own = FACADE + module.removeprefix("jax")
    for place in (own, *internals.public_homes(module)):
        try:
            home = importlib.import_module(place)
            if place == own or name in vars(home) or name in dir(home):
                return object.__getattribute__(home, name) if name in vars(home) else module_getattr(home, name)
        except (AttributeError, ModuleNotFoundError):
            continue
    if module in PLAIN:
        plain = load_plain(module)
        if hasattr(plain, name):
            return getattr(plain, name)
    public = next((home for home in internals.HOMES.get(module, "").split() if name in words_of(home)), module)
    return Absence(f"{public}.{name}")


@functools.cache
def words_of(module: str) -> frozenset[str]:
    """The words in the file of a public module of JAX's: the names that it exports are among them."""
    path = Finder.path_of(module)
    return frozenset() if path is None else frozenset(re.findall(r"\w+", path.read_text()))


def module_getattr(module: ModuleType, name: str) -> Any:
    """An attribute as a module itself gives it, without what `Watched` adds."""
    lookup = vars(module).get("__getattr__")
    if lookup is None:
        raise AttributeError(name)
    return lookup(name)


def load_plain(name: str) -> ModuleType:
    """The checkout's module, whatever else stands for it."""
    if name not in _loaded_plain:
        path = Finder.path_of(name)
        assert path is not None
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = _loaded_plain[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        internals.mend(name, module)
    return _loaded_plain[name]


def exists(name: str) -> bool:
    """Whether JAX has a module of this name."""
    return Finder.path_of(name) is not None


class Finder(importlib.abc.MetaPathFinder):
    """Finds JAX's test tools in the checkout, and something for each module of JAX's internals."""

    checkout: Path

    @classmethod
    def path_of(cls, name: str) -> Path | None:
        """The file of a module in the checkout."""
        start = cls.checkout.joinpath(*name.split("."))
        return next((path for path in (start / "__init__.py", start.with_suffix(".py")) if path.exists()), None)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("jax."):
            return None
        if fullname in FROM_CHECKOUT:
            file = self.path_of(fullname)
            if file is None:
                return None
            places = [str(file.parent)] if file.name == "__init__.py" else None
            return importlib.util.spec_from_file_location(fullname, file, submodule_search_locations=places)
        there = internals.real_module(fullname)
        if there is not None:
            return importlib.machinery.ModuleSpec(fullname, _Given(there))
        if fullname == "jax._src" or fullname.startswith("jax._src."):
            return importlib.machinery.ModuleSpec(fullname, _Making(), is_package=True) if self.known(fullname) else None
        own = FACADE + fullname.removeprefix("jax")
        try:
            present = own in sys.modules or importlib.util.find_spec(own) is not None
        except ModuleNotFoundError:
            present = False
        if present or not State.collecting or not self.known(fullname):
            return None
        return importlib.machinery.ModuleSpec(fullname, _Making(), is_package=True)

    def known(self, name: str) -> bool:
        """Whether a module of this name is in the checkout, or among jaxlib's that JAX exports."""
        return exists(name) or self.checkout.joinpath(*name.split(".")).is_dir()


class _Making(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Internal(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


class _Given(importlib.abc.Loader):
    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


def watched(module: ModuleType) -> None:
    """Have a module of pullback's that poses as JAX's answer for what it lacks, and for what the modules behind it lack."""
    lookup = vars(module).get("__getattr__")

    def answer(name: str) -> Any:
        assert lookup is not None
        try:
            return lookup(name)
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith(FACADE):
                raise
            jax_name = "jax" + module.__name__.removeprefix(FACADE)
            raise AttributeError(f"{jax_name}.{name} is not provided by pullback: {error}") from error

    if lookup is not None:
        vars(module)["__getattr__"] = answer
    module.__class__ = Watched


def watch_all() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(FACADE) and type(module) is ModuleType:
            watched(module)


def watch() -> None:
    """Watch pullback's modules, those that are imported later too."""
    import_ = builtins.__import__

    def watching(name: str, *args: Any, **kwargs: Any) -> Any:
        if not State.collecting:
            return import_(name, *args, **kwargs)
        watch_all()
        if name.startswith("jax."):
            import_(name)  # first the module itself, so that it is watched when names are taken from it
            watch_all()
        return import_(name, *args, **kwargs)

    builtins.__import__ = watching
    watch_all()


def install(checkout: Path) -> None:
    """Make `import jax` mean pullback's modules, and JAX's test tools those of the checkout."""
    facade = importlib.import_module(FACADE)
    facade.install()
    Finder.checkout = checkout
    sys.meta_path.insert(0, Finder())
    for name in [name for name in sys.modules if name.startswith("jax._src")]:
        del sys.modules[name]
    watch()
    facade._src = importlib.import_module("jax._src")
    internals.prepare()
