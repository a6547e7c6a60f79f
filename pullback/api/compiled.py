"""jit: a function compiled by XLA, once for every signature that it is called with."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback.api.ahead import Lowered, Signature
from pullback.api.dispatch import FastPath, fast_path, forget_scalars
from pullback.api.functions import INTEGERS, Function, argument_name, check_callable, check_flags, global_name, leaf_paths
from pullback.api.traced import trace
from pullback.control.call import bind_call
from pullback.core.array import Array, BorrowedArray, as_array, from_numpy
from pullback.core.axes import axis_sizes
from pullback.core.bounded import Bounded
from pullback.core.dtypes import SHORT_NAMES, dtype_mode
from pullback.core.errors import StaticArgumentError
from pullback.core.lazy import lazy_module
from pullback.core.source import describe, flag, trim, warn
from pullback.core.tracing import Tracer, innermost_staging
from pullback.core.trees import TreeDef, array_leaf, flatten, is_float0, unflatten, without_float0
from pullback.core.types import ArrayType
from pullback.engine import cache
from pullback.engine.backend import BorrowedBuffer, CompileOptions, placement
from pullback.engine.compile import forget_executables, placed
from pullback.program.equality import param_key
from pullback.transforms.simplify import simplify

inspect = lazy_module("inspect")

MAX_FAST_PATHS = 8  # signatures of one function
MAX_SIGNATURES = 256  # of one function: each holds a Program and an executable, some 0.25 MB

_instances: weakref.WeakSet[Jitted] = weakref.WeakSet()


class Jitted:
    """A compiled function: what `jit` returns. Call it as the function itself."""

    def __init__(
        self,
        fun: Function,
        static_argnums: int | Sequence[int] | None,
        static_argnames: str | Iterable[str] | None,
        donate_argnums: int | Sequence[int] | None,
        donate_argnames: str | Iterable[str] | None,
        options: CompileOptions,
        explain_misses: bool | None,
    ) -> None:
        check_callable(fun, "jit")
        functools.update_wrapper(self, fun, updated=())
        self._made_from = (fun, static_argnums, static_argnames, donate_argnums, donate_argnames, options, explain_misses)
        self._fun = fun
        self._static_numbers, self._static_names = _both_ways(fun, static_argnums, static_argnames, "static")
        self._donate_numbers, self._donate_names = _both_ways(fun, donate_argnums, donate_argnames, "donate")
        both = [*{*self._static_numbers} & {*self._donate_numbers}, *self._static_names & self._donate_names]
        if both:
            raise StaticArgumentError(
                f"jit was asked to donate {both[0]!r} of {describe(fun)}, which is static: it has no memory."
            )
        self._options = options
        self._explain_misses = explain_misses
        self._plain = not (self._static_numbers or self._static_names)
        self._signatures: Bounded[Any, Signature] = Bounded(MAX_SIGNATURES, self._warn_of_signatures)
        self._warned = False
        self._fast_paths: list[FastPath] = []
        _instances.add(self)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            if innermost_staging() is None and not placement.several:
                for mode, find, borrows, run, build in self._fast_paths:
                    # No handler covers the run, in which there may be Python functions of the user's
                    if mode is not dtype_mode():
                        continue
                    if not borrows:
                        if (buffers := find(args, kwargs)) is not None:
                            return build(run(buffers))
                        continue
                    borrowed: list[tuple[list[BorrowedBuffer], BorrowedBuffer]] = []
                    try:
                        if (buffers := find(args, kwargs, borrowed)) is not None:
                            return build(run(buffers))
                    finally:
                        for free, buffer in borrowed:
                            free.append(buffer)
            return self._call(args, kwargs)
        except BaseException as error:
            trim(error)
            raise

    def __reduce__(self) -> Any:
        """A pickle or copy of one is jitted anew: by the name that its decorator gave it, or else of the same function."""
        return global_name(self) or (Jitted, self._made_from)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {describe(self._fun)}>"

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, signature = self._signature(args, kwargs)
        traced = innermost_staging() is not None or bool(signature.captures) or bool(signature.program.axis_names)
        if traced or any([isinstance(leaf, Tracer) for leaf in leaves]):
            outs = bind_call(signature.program, [*signature.captures, *_owned(leaves)])
            return unflatten(signature.out_structure, outs)
        executable = signature.compile()
        out = signature.run(_owned(leaves) if executable.later else leaves)
        if self._plain and not signature.donated and not axis_sizes() and not placement.several:
            path = fast_path(args, kwargs, signature) if signature.called else None  # what is called once needs none
            signature.called = True
            if path is not None:
                self._fast_paths = [path, *self._fast_paths[: MAX_FAST_PATHS - 1]]
        return out

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Signature]:
        """The leaves of a call's dynamic arguments, and its signature: traced now if it is new."""
        statics, dynamic = self._split(args, kwargs)
        leaves, structure = flatten(dynamic)
        if any([leaf.__class__ is np.ndarray and is_float0(leaf) for leaf in leaves]):
            return self._signature(*without_float0((args, kwargs)))
        leaves = [leaf if leaf.__class__ is Array else self._leaf(leaf, i, args, kwargs) for i, leaf in enumerate(leaves)]
        types = tuple([leaf.type for leaf in leaves])
        options = self._options
        if placement.several and not any([isinstance(leaf, Tracer) for leaf in leaves]):
            options = placed(options, leaves, lambda: self._paths(args, kwargs))
        key = (structure, types, statics, dtype_mode(), axis_sizes(), options)
        try:
            found = self._signatures.get(key)
        except TypeError:
            raise self._unhashable(args, kwargs) from None
        if found is None:
            if flag("PULLBACK_EXPLAIN_MISSES") if self._explain_misses is None else self._explain_misses:
                print(self._explain(key, self._paths(args, kwargs)))
            found = self._trace(args, kwargs, structure, types, options)
            if not found.captures:  # what closes over tracers of an enclosing transformation is good for this call only
                found = self._signatures.setdefault(key, found)
        return leaves, found

    def _leaf(self, leaf: Any, index: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A leaf as an Array or tracer. A NumPy array is borrowed, not copied: it is only looked at during this call."""
        if leaf.__class__ is np.ndarray and leaf.dtype in SHORT_NAMES:
            seen = from_numpy(leaf, copy=False)
            return BorrowedArray(seen.type, seen._host)
        return array_leaf(leaf, lambda: f"argument {self._paths(args, kwargs)[index]}")

    def _static(self, args: tuple[Any, ...]) -> frozenset[int]:
        return _numbers(self._static_numbers, len(args))

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """A call's static arguments, as part of a key, and the dynamic ones, as one tree."""
        if self._plain:
            return (), ((args, kwargs) if kwargs else args)
        numbers, names = self._static(args), self._static_names
        statics = (
            tuple([(i, param_key(arg)) for i, arg in enumerate(args) if i in numbers]),
            tuple([(name, param_key(kwargs[name])) for name in sorted(kwargs) if name in names]),
        )
        dynamic = [arg for i, arg in enumerate(args) if i not in numbers]
        return statics, (dynamic, {name: arg for name, arg in kwargs.items() if name not in names})

    def _merge(self, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Any) -> Any:
        """The user's function called with a call's static arguments, and `dynamic` in place of the others."""
        if self._plain:
            inner_args, inner_kwargs = dynamic if kwargs else (dynamic, {})
            return self._fun(*inner_args, **inner_kwargs)
        numbers = self._static(args)
        given = iter(dynamic[0])
        inner_args = [arg if i in numbers else next(given) for i, arg in enumerate(args)]
        return self._fun(*inner_args, **{**{n: v for n, v in kwargs.items() if n in self._static_names}, **dynamic[1]})

    def _trace(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        structure: TreeDef,
        types: Sequence[ArrayType],
        options: CompileOptions,
    ) -> Signature:
        def call(dynamic: Any) -> Any:
            return self._merge(args, kwargs, dynamic)

        paths = self._paths(args, kwargs)
        program, captures, out_structure = trace("jit", self._fun, (structure,), types, paths, call=call, trivial=True)
        donated = () if captures else self._donated(args, kwargs)
        return Signature(simplify(program), captures, out_structure, donated, options)

    def _each_dynamic(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[int | str, Any]]:
        """The dynamic arguments by number or name, in the order in which they are flattened."""
        numbers = self._static(args)
        found: list[tuple[int | str, Any]] = [(i, arg) for i, arg in enumerate(args) if i not in numbers]
        return found + [(name, kwargs[name]) for name in sorted(kwargs) if name not in self._static_names]

    def _paths(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """How error messages call each dynamic leaf."""
        found: list[str] = []
        for which, arg in self._each_dynamic(args, kwargs):
            found += leaf_paths(arg, argument_name(self._fun, which) if isinstance(which, int) else which)
        return found

    def _donated(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """Which leaves are donated; empty if none are."""
        if not self._donate_numbers and not self._donate_names:
            return ()
        given = _numbers(self._donate_numbers, len(args))
        flags: list[bool] = []
        for which, arg in self._each_dynamic(args, kwargs):
            flags += [which in given or which in self._donate_names] * flatten(arg)[1].num_leaves
        return tuple(flags) if any(flags) else ()

    def _unhashable(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StaticArgumentError:
        statics = [(argument_name(self._fun, i), args[i]) for i in sorted(self._static(args)) if i < len(args)]
        for name, value in statics + [(name, kwargs[name]) for name in sorted(kwargs) if name in self._static_names]:
            try:
                hash(value)
            except TypeError:
                return StaticArgumentError(
                    f"Argument {name} of {describe(self._fun)} is static, so it must be hashable, but it is of type"
                    f" {type(value).__name__}: {value!r}. Pass a tuple instead of a list, a frozen dataclass instead of a"
                    " mutable one; or do not make it static, if it holds arrays."
                )
        return StaticArgumentError(f"An argument of {describe(self._fun)} has metadata that cannot be hashed.")

    # ---- why a call was not found ----

    def _explain(self, key: Any, paths: list[str]) -> str:
        """What makes a call's signature differ from the nearest one that was seen."""
        name = f"jit of {describe(self._fun)}"
        if not self._signatures:
            return f"{name}: traced, since it is called for the first time."
        differences = min([_differences(seen, key, paths) for seen in self._signatures], key=len)
        return f"{name}: traced again, since no earlier call is like this one. Next to the nearest:\n  " + "\n  ".join(
            differences
        )

    def _warn_of_signatures(self) -> None:
        """Say, once, that signatures make room for others: each call that comes back to one traces and compiles again."""
        if not self._warned:
            self._warned = True
            warn(
                f"{describe(self._fun)} has been compiled for more than {MAX_SIGNATURES} signatures; the oldest are forgotten,"
                " and compiled again when they return. Pass what changes with every call as an array instead of as a static"
                " argument, and keep shapes alike; PULLBACK_EXPLAIN_MISSES=1 prints what differs."
            )

    # ---- ahead of time ----

    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower for arguments like these, without compiling or running.

        Arguments may be arrays, or `ArrayType`s (`ShapeDtypeStruct`s) in their place.
        """
        try:
            numbers, names = self._static(args), self._static_names
            args = tuple([arg if i in numbers else _with_placeholders(arg) for i, arg in enumerate(args)])
            kwargs = {name: arg if name in names else _with_placeholders(arg) for name, arg in kwargs.items()}
            statics, dynamic = self._split(args, kwargs)
            return Lowered(self._signature(args, kwargs)[1], self._fun, flatten(dynamic)[1], statics, self._split)
        except BaseException as error:
            trim(error)
            raise

    def clear_cache(self) -> None:
        """Forget every signature and its executable."""
        self._signatures.clear()
        self._fast_paths = []


def clear_caches() -> None:
    """Forget every trace and every executable in this process, of all jitted functions; the files of the disk cache stay.

    Example:
        >>> import pullback as pb
        >>> pb.clear_caches()
        >>> pb.cache_info().entries
        0
    """
    for jitted in list(_instances):
        jitted.clear_cache()
    forget_executables()
    forget_scalars()


cache_info = cache.cache_info


def _owned(leaves: list[Any]) -> list[Any]:
    """Leaves that may be used after this call: NumPy arrays, to which the caller can still write, are copied."""
    return [as_array(leaf._host) if leaf.__class__ is BorrowedArray else leaf for leaf in leaves]


def _numbers(numbers: Sequence[int], count: int) -> frozenset[int]:
    """Argument numbers in a call with `count` positional arguments; negative ones count from the last."""
    return frozenset([number + count if number < 0 else number for number in numbers])


def _differences(seen: Any, new: Any, paths: list[str]) -> list[str]:
    """How two signature keys differ, in words."""
    if seen[0] != new[0]:
        return [f"the arguments' structure was {seen[0]} and is now {new[0]}"] * (1 + len(seen[1]) + len(new[1]))
    found = [f"argument {path}: was {a}, is now {b}" for path, a, b in zip(paths, seen[1], new[1]) if a is not b]
    if seen[2] != new[2]:
        before = {item for part in seen[2] for item in part}
        found += [
            f"static argument {which}: has the new value {key[-1]!r}"
            for part in new[2]
            for which, key in part
            if (which, key) not in before
        ]
    if seen[3] != new[3]:
        found.append(f"the dtype mode (default_bits): was {seen[3]}, is now {new[3]}")
    if seen[4] != new[4]:
        found.append(f"named axes: were {dict(seen[4])}, are now {dict(new[4])}")
    if seen[5] != new[5]:
        found.append(f"device: was {seen[5].platform}({seen[5].number}), is now {new[5].platform}({new[5].number})")
    return found


def _with_placeholders(tree: Any) -> Any:
    """A tree whose ArrayTypes have been replaced by Arrays without values, which suffice for tracing."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [_placeholder(leaf) for leaf in leaves])


def _placeholder(leaf: Any) -> Any:
    if is_float0(leaf):
        return without_float0(leaf)
    if isinstance(leaf, ArrayType):
        return Array(leaf, None)
    if (
        not isinstance(leaf, (Array, Tracer))
        and hasattr(leaf, "shape")
        and hasattr(leaf, "dtype")
        and not hasattr(leaf, "__array__")
    ):
        return Array(ArrayType(leaf.shape, leaf.dtype), None)
    return leaf


def _both_ways(
    fun: Function, numbers: int | Sequence[int] | None, names: str | Iterable[str] | None, what: str
) -> tuple[tuple[int, ...], frozenset[str]]:
    """Arguments chosen by number and by name, each completed from the other by the function's signature."""
    given: tuple[Any, ...] = () if numbers is None else tuple(numbers) if isinstance(numbers, Iterable) else (numbers,)
    chosen = tuple([int(number) if isinstance(number, np.integer) else number for number in given])
    called = () if names is None else (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not chosen and not called:
        return (), frozenset()
    if not all(isinstance(number, INTEGERS) and not isinstance(number, bool) for number in chosen):
        raise StaticArgumentError(f"jit's {what}_argnums must be ints, but got {numbers!r}.")
    if not all(isinstance(name, str) for name in called):
        raise StaticArgumentError(f"jit's {what}_argnames must be strings, but got {names!r}.")
    try:
        parameters = inspect.signature(fun).parameters
    except (TypeError, ValueError):
        return chosen, frozenset(called)
    kinds = inspect.Parameter
    positional = [n for n, p in parameters.items() if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    has_rest = any(p.kind is kinds.VAR_POSITIONAL for p in parameters.values())
    takes_any = any(p.kind is kinds.VAR_KEYWORD for p in parameters.values())
    for number in chosen:
        if not has_rest and not -len(positional) <= number < len(positional):
            raise StaticArgumentError(
                f"jit's {what}_argnums names argument {number}, but {describe(fun)} has {len(positional)} positional"
                f" parameter{'s' if len(positional) != 1 else ''}: {', '.join(positional)}."
            )
    for name in called:
        if name not in parameters and not takes_any:
            raise StaticArgumentError(
                f"jit's {what}_argnames names {name!r}, but {describe(fun)} has the parameters {', '.join(parameters)}."
            )
    by_name = {positional.index(name) for name in called if name in positional}
    by_number = {positional[number] for number in chosen if -len(positional) <= number < len(positional)}
    if not has_rest:
        chosen = tuple([number % len(positional) for number in chosen])
    return tuple(sorted({*chosen, *by_name})), frozenset({*called, *by_number})


def jit(
    fun: Function | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    show_graph: bool = False,
    quick: bool = False,
    explain_misses: bool | None = None,
) -> Any:
    """Compile a function with XLA: it is traced once for every signature, and runs as one program from then on.

    A signature is the arguments' structure, their types (weakness included), the static arguments, the default dtypes, the
    named axes around the call, and the device.

    Arguments:
        fun: a function of arrays and pytrees, without side effects. Left out, `jit(...)` is a decorator.
        static_argnums, static_argnames: arguments that are part of the signature instead of traced: any hashable value,
            compared by equality and type. Each is completed from the other by `fun`'s signature.
        donate_argnums, donate_argnames: arguments whose memory the results may reuse; they cannot be used afterwards.
            In other transformations nothing is donated.
        show_graph: print the StableHLO and the optimized program when a signature is compiled.
        quick: compile at a low optimization level: sooner done, slower to run.
        explain_misses: print why a call had to be traced; by default, whether `PULLBACK_EXPLAIN_MISSES` is set.

    Returns:
        A function of the same arguments, with `.lower(*args)` for ahead-of-time compilation and inspection, and
        `.clear_cache()`. In other transformations it is one operation, `call`.

    Raises:
        StaticArgumentError: an argument that does not exist, or a static argument that cannot be hashed.

    Example:
        >>> import pullback as pb
        >>> f = pb.jit(lambda x, n: x**n, static_argnums=1)
        >>> f(3.0, 2)
        9.0:f32[]:cpu(0)
    """
    check_flags("jit", show_graph=show_graph, quick=quick, explain_misses=explain_misses is None or explain_misses)
    options = CompileOptions(show_graph=show_graph, quick=quick)
    given = (static_argnums, static_argnames, donate_argnums, donate_argnames, options, explain_misses)
    if fun is None:
        return lambda fun: Jitted(fun, *given)
    return Jitted(fun, *given)
