"""jax.jit: pullback's, of JAX's trees."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

import pullback as pb
from pullback.api.functions import chosen_arguments
from pullback.compat.jax.trees import Packed, flatten, standing_for
from pullback.core.bounded import Bounded
from pullback.core.errors import StaticArgumentError
from pullback.core.source import describe, named_after
from pullback.program.equality import param_key

MAX_STRUCTURES = 256  # of the arguments of one function

# What says where to compute, or how to compile, and changes no result on the one device that there is.
_PLACES = ("in_shardings", "out_shardings", "device", "backend", "abstracted_axes", "compiler_options")


class PjitFunction:
    """A compiled function: what `jax.jit` returns.

    For each structure of the arguments, static ones included, there is one function that pullback compiles: of the list of the
    leaves, and of that of those that are donated.
    """

    def __init__(self, fun: Callable[..., Any], **options: Any) -> None:
        named_after(fun)(self)
        self._fun = fun
        given = [options.pop(f"{kind}_arg{which}", None) for kind in ("static", "donate") for which in ("nums", "names")]
        self._static_numbers, self._static_names = chosen_arguments(fun, given[0], given[1], "jit's static")
        self._donated_numbers, self._donated_names = chosen_arguments(fun, given[2], given[3], "jit's donate")
        self._options = options
        self._plain = not (self._static_numbers or self._static_names or self._donated_numbers or self._donated_names)
        self._compiled: Bounded[Any, Any] = Bounded(MAX_STRUCTURES)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._plain:
            leaves, structure = flatten((args, kwargs), None)
            compiled = self._compiled.get(structure)
            if compiled is not None:
                return compiled(leaves).tree
        leaves, compiled = self._found(args, kwargs)
        return compiled(*leaves).tree

    def _found(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[list[Any]], Any]:
        """The leaves of a call, those that are kept and those that are donated, and the compiled function for its structure."""
        static = {number % len(args) for number in self._static_numbers if -len(args) <= number < len(args)}
        dynamic = [None if i in static else arg for i, arg in enumerate(args)]
        named = {name: arg for name, arg in kwargs.items() if name not in self._static_names}
        leaves, structure = flatten((tuple(dynamic), named), None)
        statics = [(i, args[i]) for i in sorted(static)] + [
            (name, kwargs[name]) for name in sorted(kwargs.keys() - named.keys())
        ]
        donated: list[bool] = []
        if self._donated_numbers or self._donated_names:
            numbers = {number % len(args) for number in self._donated_numbers if -len(args) <= number < len(args)}
            donated = [i in numbers for i, arg in enumerate(dynamic) for _ in flatten(arg, None)[0]]
            donated += [name in self._donated_names for name in sorted(named) for _ in flatten(named[name], None)[0]]
        key = structure if self._plain else (structure, tuple([(which, param_key(arg)) for which, arg in statics]))
        try:
            found = self._compiled.get(key)
        except (TypeError, ValueError) as error:
            raise StaticArgumentError(
                f"Non-hashable static arguments are used in a jit function: a static argument of {describe(self._fun)}, or a"
                f" static part of one, cannot be hashed or compared ({error}). Pass a tuple instead of a list, or make what"
                " holds arrays no static part."
            ) from None
        if found is None:
            found = self._compiled[key] = self._made(structure, statics, donated)
        if not any(donated):
            return [leaves], found
        return [[leaf for leaf, given in zip(leaves, donated) if given is flag] for flag in (False, True)], found

    def _made(self, structure: Any, statics: list[tuple[Any, Any]], donated: list[bool]) -> Any:
        @standing_for(self._fun, "leaves", "donated")
        def of_leaves(leaves: list[Any], given: tuple[Any, ...] = ()) -> Packed:
            if given:
                kept, gone = iter(leaves), iter(given)
                leaves = [next(gone if flag else kept) for flag in donated]
            args, kwargs = structure.unflatten(leaves)
            args = list(args)
            for which, value in statics:
                if isinstance(which, str):
                    kwargs[which] = value
                else:
                    args[which] = value
            return Packed(self._fun(*args, **kwargs))

        options = {**self._options, "donate_argnums": 1} if any(donated) else self._options
        return pb.jit(of_leaves, **options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<PjitFunction of {self._fun!r}>"

    def clear_cache(self) -> None:
        """Forget what was traced and compiled."""
        self._compiled.clear()

    def _cache_size(self) -> int:
        return sum(len(one._signatures) for one in self._compiled.values())


def jit(fun: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """As pb.jit. What says where to compute is accepted, since there is one place."""
    if fun is None:
        return functools.partial(jit, **options)
    for name in _PLACES:
        options.pop(name, None)
    return PjitFunction(fun, **{name: value for name, value in options.items() if value is not None})
