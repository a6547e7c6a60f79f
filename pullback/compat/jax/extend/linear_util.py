"""jax.extend.linear_util: functions with wrappers around them, of which some tell what they found besides the result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pullback.compat.jax.facade import facade

Function = Callable[..., Any]
_EMPTY = object()


class StoreException(Exception):
    """Something is stored a second time, or is asked for before it is stored."""


class Store:
    """A place for one value, which a call leaves there."""

    def __init__(self) -> None:
        self._value: Any = _EMPTY

    def store(self, value: Any) -> None:
        if self:
            raise StoreException("Store occupied")
        self._value = value

    @property
    def val(self) -> Any:
        if not self:
            raise StoreException("Store empty")
        return self._value

    def __bool__(self) -> bool:
        return self._value is not _EMPTY


class WrappedFun:
    """A function `f`, and what wrappers made of it: `call_wrapped`."""

    def __init__(self, f: Function, call_wrapped: Function, debug_info: Any = None) -> None:
        self.f, self.call_wrapped, self.debug_info = f, call_wrapped, debug_info
        self.__name__ = getattr(f, "__name__", "<unnamed wrapped function>")

    def wrap(self, wrapper: Function, *args: Any) -> WrappedFun:
        """`wrapper(function, *args, ...)` is called in its place."""
        return WrappedFun(self.f, functools.partial(wrapper, self.call_wrapped, *args), self.debug_info)

    def __repr__(self) -> str:
        return f"Wrapped function: {self.__name__}"


def wrap_init(f: Function, params: Any = None, *, debug_info: Any = None) -> WrappedFun:
    return WrappedFun(f, functools.partial(f, **(params or {})), debug_info)


def transformation2(gen: Function, *given: Any) -> Any:
    """A decorator of `gen(function, *static, *args)`: from a WrappedFun and static arguments to a WrappedFun."""

    def transform(fun: WrappedFun, *static: Any) -> WrappedFun:
        return fun.wrap(gen, *static)

    return transform(*given) if given else transform


def transformation_with_aux2(gen: Function, *given: Any) -> Any:
    """transformation2 of `gen(function, store, *static, *args)`, and a function of no arguments that says what is stored."""

    def transform(fun: WrappedFun, *static: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store = Store()
        return fun.wrap(gen, store, *static), lambda: store.val

    return transform(*given) if given else transform


def transformation(gen: Function, *given: Any) -> Any:
    """transformation2 of a generator, which yields the arguments, is sent the result, and yields what is returned."""

    def called(function: Function, *args: Any, **kwargs: Any) -> Any:
        steps = gen(*args, **kwargs)
        inner_args, inner_kwargs = next(steps)
        return steps.send(function(*inner_args, **inner_kwargs))

    return transformation2(called, *given)


def transformation_with_aux(gen: Function, *given: Any) -> Any:
    """transformation of a generator that yields a pair at last, of which the second is stored."""

    def called(function: Function, store: Store, *args: Any, **kwargs: Any) -> Any:
        steps = gen(*args, **kwargs)
        inner_args, inner_kwargs = next(steps)
        out, found = steps.send(function(*inner_args, **inner_kwargs))
        store.store(found)
        return out

    return transformation_with_aux2(called, *given)


facade(globals())
