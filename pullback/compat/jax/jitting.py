"""jax.jit: pullback's, of JAX's trees."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from pullback.api.compiled import MAX_SIGNATURES, Jitted
from pullback.api.dispatch import Signature
from pullback.api.functions import parameters_of
from pullback.api.shardings import Shardings
from pullback.api.stages import flags_of
from pullback.api.traced import Traced, keep_traces
from pullback.compat.jax.sharding import over_mesh
from pullback.compat.jax.trees import JAX_TREES, flatten, of_jax_trees
from pullback.core.bounded import Bounded
from pullback.core.devices import DEFAULT_DEVICE
from pullback.core.lazy import lazy_module
from pullback.core.source import describe
from pullback.core.trees import Trees
from pullback.engine.backend import CompileOptions

stages = lazy_module("pullback.compat.jax.stages")


class PjitFunction(Jitted):
    """A compiled function: what `jax.jit` returns. All functions that are jitted alike share what was traced and compiled."""

    _trees_taken: Trees = JAX_TREES

    def __init__(self, fun: Any, *options: Any) -> None:
        static, names, donated, donated_names, *_ = options
        if donated_names is not None and parameters_of(fun) is None:
            raise ValueError(
                f"jit cannot tell which arguments donate_argnames={donated_names!r} are: {fun!r} has no signature. Give their"
                " numbers (donate_argnums)."
            )
        _check_names(fun, "static_argnames", names)
        _check_names(fun, "donate_argnames", donated_names)
        super().__init__(fun, *options)
        for name, value in getattr(fun, "__dict__", {}).items():
            if not hasattr(type(self), name):  # a callable object may call what it has as we call our methods
                vars(self).setdefault(name, value)
        if static is not None and names is not None:  # each means what it says
            self._static_numbers, self._static_names = _tuple(static, int), frozenset(_tuple(names, str))
            self._plain = not (self._static_numbers or self._static_names)
        if donated is not None and donated_names is not None:
            self._donate_numbers, self._donate_names = _tuple(donated, int), frozenset(_tuple(donated_names, str))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        try:
            return f"<PjitFunction of {self._fun!r}>"
        except Exception:  # the function has no repr
            return "<PjitFunction>"

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._fun)

    def trace(self, /, *args: Any, **kwargs: Any) -> Any:
        self._stages = (stages.Traced, stages.Lowered, stages.Compiled)
        return super().trace(*args, **kwargs)

    def _cache_size(self) -> int:
        return len(self._signatures)

    _clear_cache = Jitted.clear_cache


def _tuple(given: Any, kind: type) -> tuple[Any, ...]:
    return (given,) if isinstance(given, kind) else tuple(given)


def _check_names(fun: Any, which: str, given: Any) -> None:
    """Raise for the name of an argument that a function does not take by name."""
    parameters = parameters_of(fun) or {}
    for name in _tuple(given or (), str):
        one = parameters.get(name)
        if one is not None and one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
            raise ValueError(f"jit got {which} with {name!r}, which {describe(fun)} takes by position only: give its number.")


# What was traced of a function, by the options with which it was jitted; as long as there is the function
_shared: WeakKeyDictionary[Any, dict[Any, Bounded[Any, Signature]]] = WeakKeyDictionary()


# What was traced of the functions of loops and branches; as long as there is the function
_bodies: WeakKeyDictionary[FunctionType, Bounded[Any, Traced]] = WeakKeyDictionary()


def kept(fun: Any) -> Any:
    """As `of_jax_trees`, and the function is traced once for each kind of arguments, as JAX traces the functions of its loops,
    branches and checkpoints."""
    made = of_jax_trees(fun)
    if isinstance(fun, FunctionType):  # others may be equal, or change, or live no longer than the call
        keep_traces(made, _bodies.setdefault(fun, Bounded(MAX_SIGNATURES)), fun.__code__)
    return made


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: Any = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """As pb.jit. `device` and `backend` may say where it computes anyway."""
    if device not in (None, DEFAULT_DEVICE) or (backend is not None and backend != DEFAULT_DEVICE.platform):
        raise NotImplementedError(
            f"jit takes device={device!r} and backend={backend!r} only for {DEFAULT_DEVICE!r}: it computes where its arguments"
            " are. Put them on a device with jax.device_put, or use jax.default_device."
        )
    compiling = CompileOptions(flags=flags_of("jit", compiler_options), keep_unused=bool(keep_unused))
    given = None if in_shardings is None and out_shardings is None else Shardings(_over(in_shardings), _over(out_shardings))
    options = (static_argnums, static_argnames, donate_argnums, donate_argnames, compiling, None, inline, given)
    return (lambda fun: _jitted(fun, options)) if fun is None else _jitted(fun, options)


def _over(shardings: Any) -> Any:
    """A tree of shardings, as pullback's jit takes them."""
    leaves, structure = flatten(shardings, lambda one: one is None)
    return structure.unflatten([*map(over_mesh, leaves)])


def _jitted(fun: Any, options: tuple[Any, ...]) -> PjitFunction:
    if inspect.isgeneratorfunction(fun):
        raise TypeError(
            f"jit compiles functions that return, but {fun!r} yields: it is a generator. Return a list of what it yields."
        )
    made = PjitFunction(fun, *options)
    if made._shardings is not None:  # which are no part of the key
        return made
    try:
        alike = _shared.setdefault(fun, {})
        key = (made._static_numbers, made._static_names, made._donate_numbers, made._donate_names, made._inline)
        made._signatures = alike.setdefault(key, Bounded(MAX_SIGNATURES))
    except TypeError:  # there are callables that cannot be hashed, or be referred to weakly
        pass
    return made
