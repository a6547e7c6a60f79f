"""jit: a function compiled by XLA, once for every signature that it is called with."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import TIMEOUT_MAX
from time import monotonic
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from pullback.api.dispatch import FastPath, Signature, forget_scalars
from pullback.api.functions import Function, check_callable, check_flags, chosen_arguments, global_name
from pullback.api.history import CLOSED, FORGOTTEN, CallInfo, History, Noted, explained_miss
from pullback.api.shardings import Shardings, Wanted, constrained, lying
from pullback.api.signatures import unhashable
from pullback.api.stages import Compiled, Lowered, Traced, flags_of
from pullback.api.traced import call_paths, trace, with_placeholders, write_back
from pullback.control.call import bind_call
from pullback.core.array import Array, BorrowedArray, as_array, from_numpy
from pullback.core.axes import axis_sizes
from pullback.core.bounded import Bounded
from pullback.core.brief import brief
from pullback.core.dtypes import SHORT_NAMES
from pullback.core.errors import DonatedBufferError, RefError, StaticArgumentError
from pullback.core.lazy import lazy_module
from pullback.core.modes import current_mode
from pullback.core.refs import Ref, call_with_refs, values_of
from pullback.core.reports import explain, explains_misses, refuses_traces
from pullback.core.source import api_boundary, at_user_line, describe, flag, named_after, trim, warn
from pullback.core.tracing import Tracer, innermost_staging, is_float0
from pullback.core.trees import OWN_TREES, Trees, array_leaf, kind_of, unflatten
from pullback.engine import cache
from pullback.engine.backend import CompileOptions, Executable, placement
from pullback.engine.compile import forget_executables, placed
from pullback.engine.tiers import Tiered, stage
from pullback.engine.xla import QUICK
from pullback.native.choice import Choice
from pullback.native.choice import explain as explain_tier
from pullback.native.entry import NativeCallable, plain_class, retire
from pullback.program.equality import param_key
from pullback.program.interpret import run
from pullback.transforms.simplify import simplify

inspect = lazy_module("inspect")

MAX_FAST_PATHS = 8  # signatures of one function
MAX_SIGNATURES = 256  # of one function: each holds a Program and an executable, some 0.25 MB
MAX_CHECKED = 32  # of those, that were traced in blocks that check: each block has its own

Numbers = int | Sequence[int] | None
Names = str | Iterable[str] | None

_instances: weakref.WeakValueDictionary[int, Jitted] = weakref.WeakValueDictionary()


def _warn_of_signatures(fun: Function) -> None:
    """Say, once, that signatures make room for others: each call that comes back to one traces and compiles again."""
    warn(
        f"{describe(fun)} has been compiled for more than {MAX_SIGNATURES} signatures; the oldest are forgotten, and compiled"
        " again when they return. Pass what changes with every call as an array instead of as a static argument, and keep"
        " shapes alike; PULLBACK_EXPLAIN=1 prints what differs.",
        once=True,
    )


class Jitted(NativeCallable):
    """A compiled function: what `jit` returns. Call it as the function itself.

    Example:
        >>> import pullback as pb
        >>> f = pb.jit(lambda x: x + 1.0)
        >>> f(1.0), f
        (2.0:f32[]:cpu(0), <jit of <lambda> (...)>)
    """

    # What a call calls: of an instance, which takes a twentieth less of a small call than a method that calls the same
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]
    _fast_paths: list[FastPath]
    _trees_taken: Trees = OWN_TREES  # `kind_of` asks
    _stages: tuple[type[Traced], type[Lowered], type[Compiled]] = (Traced, Lowered, Compiled)

    def __init__(
        self,
        fun: Function,
        static_argnums: Numbers,
        static_argnames: Names,
        donate_argnums: Numbers,
        donate_argnames: Names,
        options: CompileOptions,
        explain_misses: bool | None,
        inline: bool,
        shardings: Shardings | None = None,
    ) -> None:
        check_callable(fun, "jit")
        named_after(fun)(self)
        given = (static_argnums, static_argnames, donate_argnums, donate_argnames, options, explain_misses, inline, shardings)
        self._made_from = (fun, *given)
        self._fun = fun
        self._static_numbers, self._static_names = chosen_arguments(fun, static_argnums, static_argnames, "jit's static")
        self._donate_numbers, self._donate_names = chosen_arguments(fun, donate_argnums, donate_argnames, "jit's donate")
        both = [*{*self._static_numbers} & {*self._donate_numbers}, *self._static_names & self._donate_names]
        if both:
            raise StaticArgumentError(f"jit cannot donate {both[0]!r} of {describe(fun)}, which is static. Choose one of both.")
        self._trees_taken = kind_of(fun, self._trees_taken)
        self._options = options
        self._explain_misses = explain_misses
        self._inline = inline
        self._shardings = shardings
        self._plain = not (self._static_numbers or self._static_names)
        self._signatures: Bounded[Any, Signature] = Bounded(MAX_SIGNATURES, functools.partial(_warn_of_signatures, fun))
        self._checked: Bounded[Any, Signature] = Bounded(MAX_CHECKED)
        self._history = History()
        self._take([])
        _instances[id(self)] = self

    def _take(self, paths: list[FastPath]) -> None:
        """Have calls try these fast paths, in their order, and then the general path."""
        owner = _Owner(self)
        call: Callable[..., Any] = owner
        for path in reversed(paths):
            call = path.function(call, owner.name_argument)
        self._fast_paths, self._long_call = paths, call

    def _name_argument(self, error: DonatedBufferError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Say in the error of an array whose memory was given away which argument of this call it is."""
        leaves = self._trees_taken.flatten((args, kwargs))[0]
        named = zip(self._paths(args, kwargs), leaves)
        path = next((path for path, leaf in named if leaf is error.array), None)  # the first of those that are this array
        if path is not None:
            error.args = (f"Argument {path} of {describe(self._fun)} was donated before. {error}",)

    def __reduce__(self) -> Any:
        """A pickle or copy of one is jitted anew: by the name that its decorator gave it, or else of the same function."""
        return global_name(self) or (plain_class(self), self._made_from)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {describe(self._fun)}>"

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not current_mode().compiles:
            return self._fun(*args, **kwargs)
        leaves, signature = self._signature(args, kwargs)
        if signature.keys and (checks := current_mode().checks) is not None:
            checks.uses_keys(f"jit of {describe(self._fun)}", [leaves[i] for i in signature.keys])
        if signature.uses_refs(leaves):
            return self._call_with_refs(leaves, signature)
        if self._is_traced(leaves, signature):
            return unflatten(signature.out_structure, self._run_traced(leaves, signature))
        executable = signature.compile()
        if axis_sizes() or isinstance(executable, Tiered) or (placement.several and not executable.spread):
            pass  # no short way looks at these, and none leads to what is to be replaced
        elif current_mode().checks is not None:
            pass  # nor to what holds in one block only
        elif self._enters(executable, signature) and executable.install(self, signature.makes_tuple, self._history.calls):
            pass  # calls like this one do not come here any more
        elif (path := signature.fast_path(args, kwargs)) is not None:
            self._take([path, *[other for other in self._fast_paths if other is not path][: MAX_FAST_PATHS - 1]])
        outs = executable(_owned(leaves) if executable.copies else leaves)
        return unflatten(signature.out_structure, outs)

    def _enters(self, executable: Executable, signature: Signature) -> bool:
        """Whether calls like one may reach a kernel without any Python: none of ours, and none of a subclass's."""
        return executable.installs and signature.is_flat and plain_class(self).__call__ is Jitted.__call__

    def _is_traced(self, leaves: Sequence[Any], signature: Signature) -> bool:
        """Whether a call is one operation of a transformation around it."""
        outer = innermost_staging() is not None or bool(signature.captures) or bool(signature.program.axis_names)
        return outer or any([isinstance(leaf, Tracer) for leaf in leaves])

    def _run_traced(self, leaves: list[Any], signature: Signature) -> Sequence[Any]:
        apply = run if self._inline and innermost_staging() is not None else bind_call
        return apply(signature.program, [*signature.captures, *_owned(leaves)])

    def _call_with_refs(self, leaves: list[Any], signature: Signature) -> Any:
        """Run on the values of the Refs that the function closes over or is given, and write to them what they have then."""
        given = [leaf for leaf in leaves if leaf.__class__ is Ref]
        if len({*given, *signature.refs}) < len(given) + len(signature.refs):
            raise RefError(
                f"{describe(self._fun)} was given a Ref twice, or one that it also closes over. Two names for one Ref cannot be"
                " told apart while it is compiled: pass it once."
            )
        values = values_of([*signature.refs, *leaves])
        if self._is_traced(values, signature):
            outs = self._run_traced(values, signature)
        else:
            outs = signature.compile()(_owned(values))
        out = unflatten(signature.out_structure, write_back(signature.written, outs))
        if given:
            out, changed = out
            write_back([leaves[i] for i in changed], [*changed.values()])
        return out

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Signature]:
        """The leaves of a call's dynamic arguments, and its signature: traced now if it is new."""
        statics, dynamic = self._split(args, kwargs)
        leaves, structure = self._trees_taken.flatten(dynamic)
        if any([leaf.__class__ is np.ndarray and is_float0(leaf) for leaf in leaves]):
            positional, named = self._trees_taken.without_float0(dynamic)
            return self._signature(tuple(self._merged(args, positional)), {**kwargs, **named})

        def paths() -> list[str]:
            return self._paths(*dynamic)

        leaves = [leaf if leaf.__class__ in (Array, Ref) else _leaf(leaf, i, paths) for i, leaf in enumerate(leaves)]
        given = tuple([i for i, leaf in enumerate(leaves) if leaf.__class__ is Ref])
        shardings, options = self._shardings, self._options
        wanted: Wanted = ()
        if shardings is not None:
            wanted = shardings.of_arguments(self._fun, self._trees_taken, self._dynamic(args), dynamic[1])
        types = lying(self._fun, values_of(leaves), wanted, paths)
        if placement.several and not any([isinstance(leaf, Tracer) for leaf in leaves]):
            options = placed(options, values_of(leaves), paths)
        mode = current_mode()
        key = (structure, types, statics, mode, axis_sizes(), options, given)
        signatures = self._signatures if mode.checks is None else self._checked
        try:
            found = signatures.get(key)
        except (TypeError, ValueError):  # what arrays say that are compared
            numbers = _numbers(self._static_numbers, len(args))
            raise unhashable(self._fun, numbers, self._static_names, args, kwargs) from None
        if found is not None:
            self._history.hit()
        else:
            kept = [*list(self._checked), *list(self._signatures)]  # lists at once: other threads may add to them
            noted = self._history.miss(self._fun, key, kept)
            if refuses_traces():
                raise RuntimeError(
                    f"Nothing may be traced here (no_tracing). {self._explain(noted)} Call it with such arguments"
                    f" before.{at_user_line()}"
                )
            if flag("PULLBACK_EXPLAIN") if self._explain_misses is None else self._explain_misses:
                print(self._explain(noted))
            elif explains_misses():
                explain(f"TRACING CACHE MISS: {self._explain(noted)}")

            def call(traced: Any) -> Any:
                if wanted:
                    parts = self._trees_taken.flatten(traced)[0]
                    traced = unflatten(structure, [constrained(x, one) for x, one in zip(parts, wanted, strict=True)])
                out = self._fun(*self._merged(args, traced[0]), **{**kwargs, **traced[1]})
                return out if shardings is None else shardings.of_result(self._fun, self._trees_taken, out)

            def call_in_places(traced: Any) -> Any:
                return call_with_refs(lambda leaves: call(unflatten(structure, leaves)), trees.flatten(traced)[0], given)

            called, trees = call_in_places if given else call, self._trees_taken
            traced = trace("jit", self._fun, (structure,), types, paths(), call=called, refs=True, trees=trees, state=given)
            captures, refs = traced.captures[: len(traced.captures) - len(traced.refs)], traced.refs
            donated = () if traced.captures else self._donated(*dynamic)
            program, out_structure = simplify(traced.program), traced.structure
            found = Signature(
                program,
                captures,
                structure,
                statics,
                out_structure,
                donated,
                options,
                trees,
                refs,
                traced.written,
                self._history,
                traced.keys,
            )
            noted.after = CLOSED if found.captures else FORGOTTEN
            if not found.captures:  # what closes over tracers of an enclosing transformation is good for this call only
                found = signatures.setdefault(key, found)
        return leaves, found

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[tuple[Any, ...], dict[str, Any]]]:
        """A call's static arguments, as part of a key, and the dynamic ones, with None in the place of a positional one that is
        static."""
        if self._plain:
            return (), (args, kwargs)
        numbers, names = _numbers(self._static_numbers, len(args)), self._static_names
        statics = (
            tuple([(i, param_key(arg)) for i, arg in enumerate(args) if i in numbers]),
            tuple([(name, param_key(kwargs[name])) for name in sorted(kwargs) if name in names]),
        )
        dynamic = tuple([None if i in numbers else arg for i, arg in enumerate(args)])
        return statics, (dynamic, {name: arg for name, arg in kwargs.items() if name not in names})

    def _dynamic(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments that are not static."""
        numbers = _numbers(self._static_numbers, len(args))
        return tuple([arg for i, arg in enumerate(args) if i not in numbers])

    def _merged(self, args: tuple[Any, ...], dynamic: Sequence[Any]) -> list[Any]:
        """Positional arguments: the static ones of a call, and `dynamic` in place of the others."""
        numbers = _numbers(self._static_numbers, len(args))
        return [args[i] if i in numbers else arg for i, arg in enumerate(dynamic)]

    def _donated(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """Which leaves of a call's dynamic arguments are donated; empty if none are."""
        numbers, names = _numbers(self._donate_numbers, len(args)), self._donate_names
        flags = [i in numbers for i, arg in enumerate(args) for _ in self._trees_taken.flatten(arg)[0]]
        flags += [name in names for name in sorted(kwargs) for _ in self._trees_taken.flatten(kwargs[name])[0]]
        return tuple(flags) if any(flags) else ()

    def _paths(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
        """How error messages call each leaf of a call's dynamic arguments."""
        return call_paths(self._fun, args, kwargs, self._trees_taken)

    # ---- why a call was not found ----

    def _explain(self, noted: Noted) -> str:
        """Why a call had to be traced, in words."""
        return f"jit of {describe(self._fun)}: {explained_miss(self._fun, noted, self._trees_taken)}"

    def cache_info(self) -> CallInfo:
        """What became of the calls of this function: how many found what was traced for their signature, and why others had to
        be traced.

        Returns:
            A record, which prints as text: `hits`, calls that found their signature; `misses`, those that were traced; `size`,
            signatures that are kept; and `explained`, of the last 64 misses the `reason`, the `signature`, the `nearest` one,
            and the `differences` by argument path.

        Example:
            >>> import pullback as pb
            >>> f = pb.jit(lambda x, n: x**n, static_argnums=1)
            >>> for size, n in ((1, 2), (1, 2), (1, 3), (4, 3)):
            ...     y = f(pb.numpy.ones(size), n)
            >>> print(f.cache_info())
            1 hit, 3 misses, 3 signatures kept
            miss 1, (x: f32[1], n=2): traced, since it is called for the first time.
            miss 2, (x: f32[1], n=3): traced again, since no earlier call is like this one. Compared with the nearest:
              static argument n: was 2, is now 3
            miss 3, (x: f32[4], n=3): traced again, since no earlier call is like this one. Compared with the nearest:
              argument x: was f32[1], is now f32[4]
        """
        return self._history.info(self._fun, len(self._signatures) + len(self._checked), self._trees_taken)

    # ---- ahead of time ----

    def trace(self, /, *args: Any, **kwargs: Any) -> Traced:
        """Trace for arguments like these, without lowering, compiling or running.

        Arguments may be arrays, or `ArrayType`s (`ShapeDtypeStruct`s) in their place.

        Arguments:
            args, kwargs: the arguments: arrays, or `ArrayType`s in their place.

        Returns:
            A `Traced`: the function for this signature.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).trace(pb.ArrayType((3,), "float32")).out_info
            f32[3]
        """
        try:
            positional, named = with_placeholders(self._split(args, kwargs)[1], self._trees_taken)
            leaves, signature = self._signature(tuple(self._merged(args, positional)), {**kwargs, **named})
            if signature.uses_refs(leaves):
                raise RefError(f"{describe(self._fun)} uses Refs: only a call can read and write them. Call it.")
            return self._stages[0](self, signature)
        except BaseException as error:
            trim(error)
            raise

    @api_boundary
    def lower(self, /, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower for arguments like these, without compiling or running; `ArrayType`s serve for arrays.

        Arguments:
            args, kwargs: the arguments: arrays, or `ArrayType`s in their place.

        Returns:
            A `Lowered`: the function for this signature, as StableHLO.

        Example:
            >>> import pullback as pb
            >>> "stablehlo.add" in pb.jit(lambda x: x + 1.0).lower(1.0).as_text()
            True
        """
        return self.trace(*args, **kwargs).lower()

    @api_boundary
    def explain(self, /, *args: Any, **kwargs: Any) -> Choice:
        """Who runs the function for arguments like these, machine code of pullback's own or XLA, and why.

        Arguments:
            args, kwargs: the arguments: arrays, or `ArrayType`s in their place.

        Returns:
            A record with the `tier`, "native", "xla" or "mixed", the `reason`, and the native `parts` of a mixed program; and
            with `tiered=True`, `now`: which of XLA's two executables runs it, and what comes.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).explain(pb.ArrayType((8,), "float32")).tier
            'native'
        """
        signature = self.trace(*args, **kwargs)._signature
        found = explain_tier(signature.program, self._options, signature.donated)
        if self._options.tiered and found.tier != "native":
            found = dataclasses.replace(found, now=stage(signature.executable))
        return found

    @api_boundary
    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """The types of the results for arguments like these: `trace(...).out_info`.

        Arguments:
            args, kwargs: the arguments: arrays, or `ArrayType`s in their place.

        Returns:
            The tree of the result, with an `ArrayType` for each array.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: {"total": pb.numpy.sum(x)}).eval_shape(pb.ArrayType((3,), "float32"))
            {'total': f32[]}
        """
        return self.trace(*args, **kwargs).out_info

    @api_boundary
    def block_until_compiled(self, timeout: float | None = None) -> None:
        """With `tiered=True`: have the best executable of every signature that was called compiled now, and wait until the next
        call runs it. Without, all of them are the best.

        Arguments:
            timeout: how many seconds to wait at most; None for as long as it takes.

        Raises:
            TimeoutError: it took longer; the compilation goes on.
            ValueError: `timeout` is negative, or no number.

        Example:
            >>> import pullback as pb
            >>> f = pb.jit(lambda x: x @ x, tiered=True)
            >>> x = pb.numpy.eye(300)
            >>> before = f(x)
            >>> f.block_until_compiled()
            >>> f.explain(x).now
            'The best code runs it.'
            >>> bool((f(x) == before).all())
            True
        """
        if timeout is not None and not (isinstance(timeout, (int, float, np.integer, np.floating)) and timeout >= 0):
            raise ValueError(f"block_until_compiled waits for a number of seconds, 0 or more, not {brief(timeout)}.")
        until = monotonic() + (math.inf if timeout is None else min(timeout, TIMEOUT_MAX))
        seen = [*self._signatures.values()]  # a copy: other threads may add to them
        waiting = [(one, tiered) for one in seen if isinstance(tiered := one.executable, Tiered)]
        for _, tiered in waiting:
            tiered.begin()
        for signature, tiered in waiting:
            if not tiered.wait(until):
                raise TimeoutError(f"The best code of {describe(self._fun)} is not there after {timeout} s. Give it more.")
            signature.compile()

    def clear_cache(self) -> None:
        """Forget every signature and its executable.

        Example:
            >>> import pullback as pb
            >>> f = pb.jit(lambda x: x + 1.0)
            >>> f(1.0)
            2.0:f32[]:cpu(0)
            >>> f.clear_cache()
        """
        retire(self)
        self._history = History(self._history)
        self._signatures.clear()
        self._checked.clear()
        self._take([])


# The same place of an instance by another name: calls that reach a kernel by themselves leave the others to it
Jitted._long_call = Jitted.__dict__["__call__"]


class _Owner:
    """A jitted function as its fast paths know it. It keeps it not alive, since these belong to it; where it is gone, and a
    fast path is not, which somebody took from its `__call__`, another one like it is made."""

    __slots__ = ("_anew", "_reference")

    def __init__(self, jitted: Jitted) -> None:
        self._reference: Callable[[], Jitted | None] = weakref.ref(jitted)
        self._anew = functools.partial(plain_class(jitted), *jitted._made_from)

    def _jitted(self) -> Jitted:
        found = self._reference()
        if found is None:
            found = self._anew()
            self._reference = functools.partial(operator.itemgetter(0), (found,))
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._jitted()._call(args, kwargs)
        except BaseException as error:
            if isinstance(error, DonatedBufferError):
                self.name_argument(error, args, kwargs)
            trim(error)
            raise

    def name_argument(self, error: DonatedBufferError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """See `Jitted._name_argument`."""
        self._jitted()._name_argument(error, args, kwargs)


def clear_caches() -> None:
    """Forget every trace and every executable in this process, of all jitted functions; the files of the disk cache stay.

    Example:
        >>> import pullback as pb
        >>> pb.clear_caches()
        >>> pb.cache_info().entries
        0
    """
    for found in _instances.valuerefs():  # a copy: other threads make more meanwhile
        if (jitted := found()) is not None:
            jitted.clear_cache()
    forget_executables()
    forget_scalars()


cache_info = cache.cache_info


def _leaf(leaf: Any, index: int, paths: Callable[[], Sequence[str]]) -> Any:
    """A leaf as an Array or tracer. A NumPy array is borrowed, not copied: it is only looked at during this call."""
    if leaf.__class__ is np.ndarray and leaf.dtype in SHORT_NAMES:
        seen = from_numpy(leaf, copy=False)
        return BorrowedArray(seen.type, seen._host)
    return array_leaf(leaf, lambda: f"argument {paths()[index]}")


def _owned(leaves: list[Any]) -> list[Any]:
    """Leaves that may be used after this call: NumPy arrays, to which the caller can still write, are copied."""
    return [as_array(leaf._host) if leaf.__class__ is BorrowedArray else leaf for leaf in leaves]


def _numbers(numbers: Sequence[int], count: int) -> frozenset[int]:
    """Argument numbers in a call with `count` positional arguments; negative ones count from the last."""
    return frozenset([number + count if number < 0 else number for number in numbers])


class _Options(TypedDict, total=False):
    """The options of `jit`, for type checkers."""

    static_argnums: Numbers
    static_argnames: Names
    donate_argnums: Numbers
    donate_argnames: Names
    show_graph: bool
    quick: bool
    explain_misses: bool | None
    inline: bool
    keep_unused: bool
    in_shardings: Any
    out_shardings: Any
    device: None
    backend: None
    compiler_options: Mapping[str, Any] | None
    native: bool
    tiered: bool


@overload
def jit(fun: Function, **options: Unpack[_Options]) -> Jitted: ...
@overload
def jit(fun: None = None, **options: Unpack[_Options]) -> Callable[[Function], Jitted]: ...
@api_boundary
def jit(
    fun: Function | None = None,
    *,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    donate_argnames: Names = None,
    show_graph: bool = False,
    quick: bool = False,
    explain_misses: bool | None = None,
    inline: bool = False,
    keep_unused: bool = False,
    in_shardings: Any = None,
    out_shardings: Any = None,
    device: None = None,
    backend: None = None,
    compiler_options: Mapping[str, Any] | None = None,
    native: bool = True,
    tiered: bool = False,
) -> Jitted | Callable[[Function], Jitted]:
    """Compile a function, to machine code of pullback's own or with XLA (`explain` says which): it is traced once for every
    signature, and runs as one program from then on.

    A signature is the arguments' structure, their types (weakness included), the static arguments, the default dtypes, the
    named axes around the call, and the device.

    Arguments:
        fun: a function of arrays and pytrees, without side effects. Left out, `jit(...)` is a decorator.
        static_argnums, static_argnames: arguments that are part of the signature instead of traced: any hashable value,
            compared by equality and type. Each is completed from the other by `fun`'s signature.
        donate_argnums, donate_argnames: arguments whose memory the results may reuse; they cannot be used afterwards.
            A warning names those that no result is like. In other transformations nothing is donated.
        show_graph: print the StableHLO and the optimized program when a signature is first compiled.
        quick: compile at a low optimization level: sooner done, slower to run.
        explain_misses: print why a call had to be traced; by default, whether `PULLBACK_EXPLAIN` is set.
        inline: where an outer function is traced, put the operations in the place of the call.
        keep_unused: give the compiled program arguments that the function does not use, too.
        compiler_options: options of XLA's with their values, as in XLA_FLAGS but for this function alone.
        native: whether the function may run as machine code of pullback's own, where that pays; else XLA compiles it.
        tiered: of what XLA compiles, compile quickly at first, and the best code later, in a background thread, if there are
            many calls: the last bits of floats may change between two of them (docs/native.md). Pickles and
            `lower(...).compile()` have no part in it.
        in_shardings: how the arguments lie on the devices of a mesh: a sharding (`NamedSharding`, or a `PartitionSpec` inside
            `with mesh:`) for all, or a tree of them that is a prefix of the tuple of positional arguments that are not static.
            None says nothing: an argument is taken as it lies, and one that lies nowhere in particular is whole on each device.
        out_shardings: how the results are to lie, likewise; None leaves it to the partitioner.
        device, backend: None: arguments of JAX's that are refused here.

    Returns:
        A function of the same arguments, with `.lower(*args)` for ahead-of-time compilation and inspection, `.trace(*args)`
        for what comes before that, `.eval_shape(*args)`, and `.clear_cache()`. In other transformations it is one operation,
        `call`.

    Raises:
        StaticArgumentError: an argument that does not exist, or a static argument that cannot be hashed.
        NotImplementedError: a place to run was given.
        ShardingError: a sharding does not fit (when the function is called): `ShardingMismatch` of an argument that lies on
            devices in another way.
        ValueError: `tiered` was given with `quick`, or with options of XLA's that it sets itself.

    Example:
        >>> import pullback as pb
        >>> f = pb.jit(lambda x, n: x**n, static_argnums=1)
        >>> f(3.0, 2)
        9.0:f32[]:cpu(0)
    """
    check_flags("jit", show_graph=show_graph, quick=quick, inline=inline, keep_unused=keep_unused, native=native, tiered=tiered)
    check_flags("jit", explain_misses=explain_misses is None or explain_misses)
    where = "computes where its arguments are. Put them on a device with pb.device_put, or use pb.default_device"
    _refuse(where, device=device, backend=backend)
    flags = flags_of("jit", compiler_options)
    clash = ["quick=True"] * quick + [repr(name) for name, _ in flags if name in dict(QUICK)]
    if tiered and clash:
        raise ValueError(
            f"jit takes tiered=True, or {clash[0]}, not both: with tiered=True it sets that option itself, for what is compiled"
            " quickly, and leaves it out for the best code."
        )
    options = CompileOptions(
        quick=quick, tiered=tiered, show_graph=show_graph, flags=flags, keep_unused=keep_unused, native=native
    )
    shardings = None if in_shardings is None and out_shardings is None else Shardings(in_shardings, out_shardings)
    given = (static_argnums, static_argnames, donate_argnums, donate_argnames, options, explain_misses, inline, shardings)
    return (lambda fun: Jitted(fun, *given)) if fun is None else Jitted(fun, *given)


def _refuse(instead: str, **given: object) -> None:
    """Raise NotImplementedError for arguments of JAX's that are not None, saying what there is instead."""
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"jit takes no {name}, but got {brief(value)}. It {instead}.")
