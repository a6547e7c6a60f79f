"""Which transformation handles an operation: the youngest one whose tracer is among its arguments.

Every transformation under way is a `Trace` with a serial number, and hands the user's function `Tracer`s that stand for
values. `bind` gives an operation to the youngest trace among its arguments; that trace peels its own tracers, applies its
rule, and binds again, which reaches the next older one. Work that touches no tracer goes straight to NumPy. A tracer is
only ever unwrapped by its own trace, so nested perturbations cannot be confused, and no rule ever touches a context.

The one context is the innermost *staging trace*: while a Program is being recorded, everything that no younger trace handles
is recorded, work on constants too. Its default, the process's, is none, or a trace that looks at every result
(`transforms/finite.py`).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import Context
from typing import Any

import numpy as np

from pullback.core.array import Array, as_array, converters, host_of, on_a_device
from pullback.core.context import Inherited
from pullback.core.dtypes import SHORT_NAMES, entering, float0, kind
from pullback.core.errors import EscapedTracerError
from pullback.core.methods import ArrayMethods
from pullback.core.source import describe
from pullback.core.types import ArrayType, array_type, host_type, trivial_type

# A Primitive, whose module imports this one: `core/primitive.py` says what dispatch and evaluation find in it.
Primitive = Any

next_serial = itertools.count(1).__next__


# How users make a value known while a function is traced, by the transformation that traces it.
_CURES = {
    "jit": "make the argument that it depends on static (static_argnums in pb.jit)",
    "checkpoint": "make the argument that it depends on static (static_argnums in pb.checkpoint)",
    "vmap": "leave the argument that it depends on out of the batch (None in vmap's in_axes)",
}


class Trace:
    """One transformation at work. `process` handles an operation that has one of this trace's tracers among its arguments."""

    __slots__ = ("__weakref__", "function", "open", "recording", "serial")
    transformation = "trace"  # how error messages call it; a class attribute of each kind
    evaluates = False  # whether it stands where a Program would be recorded, but computes

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self.serial = next_serial()
        self.open = True
        self.function = function
        self.recording: Any = innermost_staging()  # the Recorder around it, which keeps where what it stages comes from

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        raise NotImplementedError

    def varying(self, value: Any) -> frozenset[Any]:
        """The axes of a mesh along which a value is known to vary, where devices take turns to compute."""
        return frozenset()

    def describe(self) -> str:
        """This transformation in words, as `jit of loss (model.py:12)`."""
        return self.transformation + (f" of {describe(self.function)}" if self.function is not None else "")


class Tracer(ArrayMethods):
    """A value that a trace stands in for. Each kind adds what it carries, and says its `type`.

    Example:
        >>> import pullback as pb
        >>> shown = []
        >>> def f(x):
        ...     shown.append(x)
        ...     return x * 2.0
        >>> y = pb.jit(f)(1.0)
        >>> isinstance(shown[0], pb.Tracer), isinstance(shown[0], pb.Array)
        (True, True)
    """

    __slots__ = ("__weakref__", "owner")
    __array_priority__ = 100.0
    owner: Trace
    type: ArrayType

    def __init_subclass__(cls) -> None:
        cls.__name__ = "Tracer"  # the one name that users know, in Python's own errors too

    def where(self) -> str:
        """Where this tracer came from, in words; empty if that is not known.

        Returns:
            A string.

        Example:
            >>> import pullback as pb
            >>> program = pb.xpr(lambda x: print(x.where()), 1.0)
            argument x
        """
        return ""

    def cure(self) -> str:
        """How to make this value known where Python needs it, in words, for the end of an error message.

        Returns:
            A string.

        Example:
            >>> import pullback as pb
            >>> program = pb.xpr(lambda x: print(x.cure()), 1.0)
            let it depend on what the function closes over, and not on its arguments
        """
        value: Any = self
        while hasattr(value, "primal"):  # a derivative stands in the way of no value
            value = value.primal
        owner = getattr(value, "owner", self.owner)
        other = "let it depend on what the function closes over, and not on its arguments"
        traces = dict.fromkeys([owner, innermost_staging() or owner])
        return ", and ".join([_CURES.get(trace.transformation, other) for trace in traces])

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"A traced value of type {self.type} cannot be pickled: it stands for a value in {self.owner.describe()}, and has"
            " no elements yet. Return it, and pickle the result; or pickle inside a pb.io_callback."
        )

    def note_batch(self, axes: frozenset[int]) -> None:
        """If this stands for a value of a Program under construction, tell the Program that these are batch axes of it.

        Arguments:
            axes: the numbers of axes.

        Example:
            >>> import pullback as pb
            >>> program = pb.xpr(lambda x: x.note_batch(frozenset({0})), pb.numpy.ones(3))
            >>> program.batch_axes[program.inputs[0]]
            frozenset({0})
        """


converters[Tracer] = lambda value: value


def type_of(value: Any) -> ArrayType:
    """The ArrayType of an Array, a tracer, a NumPy array (of dtype float0 too), a Python scalar, or an ArrayType (itself)."""
    if isinstance(value, (Array, Tracer)):
        return value.type
    if isinstance(value, ArrayType):
        return value
    if value.__class__ is np.ndarray and value.dtype in SHORT_NAMES and value.dtype.isnative:
        return array_type(value.shape, entering(value.dtype))
    return trivial_type(value.shape) if is_float0(value) else as_array(value).type


def is_float0(leaf: Any) -> bool:
    """Whether a value is the trivial tangent of an integer."""
    return isinstance(leaf, np.ndarray) and leaf.dtype == float0


# ---- dispatch -------------------------------------------------------------------------------------------------------

staging: Inherited[Trace | None] = Inherited("pullback_innermost_staging", None)
innermost_staging = staging.get


def bind(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive: the youngest trace involved handles it; with none, it is evaluated now.

    Most eager work is one or two Arrays in NumPy memory that go through a NumPy function: that comes first, without a loop.
    """
    youngest = innermost_staging()
    if youngest is None and primitive.plain and args and (x := args[0]).__class__ is Array:
        y, count = args[-1], len(args)
        if y.__class__ is Array and count < 3:
            x_host, y_host = x._host, y._host
            if x_host is not None and y_host is not None:
                types = (x.type, y.type) if count == 2 else (x.type,)
                key = (types, *params.items()) if params else types
                type = primitive.inferred.get(key) or primitive.infer(types, params)
                rule = primitive.evaluate
                if count == 1:
                    out = _quiet_numpy.run(rule, x_host, **params) if params else _quiet_numpy.run(rule, x_host)
                else:
                    out = _quiet_numpy.run(rule, x_host, y_host, **params) if params else _quiet_numpy.run(rule, x_host, y_host)
                if out.dtype is type.dtype and out.shape == type.shape:
                    return Array(type, out)
                return Array(type, _checked(primitive, out, type))
    serial = 0 if youngest is None else youngest.serial
    for arg in args:
        if arg.__class__ is not Array:
            if isinstance(arg, Tracer):
                if arg.owner.serial > serial:
                    youngest = arg.owner
                    serial = youngest.serial
            elif arg.__class__ is np.ndarray:  # whoever made it can still write to it, and what is traced is kept
                return bind(primitive, [as_array(one) if isinstance(one, np.ndarray) else one for one in args], params)
    if youngest is None:
        return evaluate(primitive, args, params)
    if not youngest.open:
        for arg in args:
            if isinstance(arg, Tracer) and arg.owner is youngest:
                raise escaped(arg)
        staging.variable.set(staging.default)  # an interrupt (Ctrl-C) has left it behind
        return bind(primitive, args, params)
    return youngest.process(primitive, args, params)


def bind_at(trace: Trace | None, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """`bind` for an operation that also concerns `trace`, even if none of its arguments does (a named axis)."""
    youngest = innermost_staging()
    candidates = [trace, youngest, *(arg.owner for arg in args if isinstance(arg, Tracer))]
    youngest = max((one for one in candidates if one is not None), key=lambda one: one.serial, default=None)
    if youngest is None or youngest is not trace:
        return bind(primitive, args, params)
    return youngest.process(primitive, args, params)


def live(tracer: Any) -> Any:
    """The tracer. Raises `EscapedTracerError` if its trace has closed."""
    if not tracer.owner.open:
        raise escaped(tracer)
    return tracer


def escaped(tracer: Tracer) -> EscapedTracerError:
    """The error for a tracer that is used after its trace has closed."""
    made = tracer.where()
    made = f" It is {made} of it." if made.startswith("argument ") else f" It was made at {made}." if made else ""
    return EscapedTracerError(
        f"A traced value of type {tracer.type} has escaped: it belongs to {tracer.owner.describe()}, which has already"
        f" returned.{made} Return it as an output of that function instead of storing"
        " it in a global, an attribute or a list; to look at it while tracing, use pb.debug.print."
    )


def ensure_compile_time_eval() -> AbstractContextManager[None]:
    """Evaluate now, even while a Program is being recorded, what depends on no traced value.

    Returns:
        A context manager.

    Example:
        >>> import pullback as pb
        >>> @pb.jit
        ... def f(x):
        ...     with pb.ensure_compile_time_eval():
        ...         n = int(pb.numpy.sum(pb.numpy.arange(4)))
        ...     return x * n
        >>> f(2.0)
        12.0:f32[]:cpu(0)
    """
    around: Any = innermost_staging()
    while around is not None and not around.evaluates:
        around = around.recording
    return staging.setting(around)


# ---- evaluation -----------------------------------------------------------------------------------------------------


class _QuietNumPy(threading.local):
    """A context, one a thread, in which NumPy's floating-point warnings are off, as they are in compiled code.

    Entering it costs 30 ns where `np.errstate` costs 800. It cannot be entered twice, so NumPy's functions and our own rules
    `run` in it, and users' rules, which may call pullback, in a `copy`.
    """

    def __init__(self) -> None:
        context = Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run
        self.copy = context.copy


_quiet_numpy = _QuietNumPy()
HOST = (np.ndarray, np.generic)


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a primitive to values now: on NumPy by its `evaluate` rule, else by what that rule can be derived from.

    Rules of any form are met here: those that may lack a type rule, take Arrays, or return several results.
    """
    if primitive.evaluate is None:
        return primitive.derive_evaluation(args, params)
    arrays = [arg if arg.__class__ is Array else as_array(arg) for arg in args]
    rule: Callable[..., Any] = primitive.evaluate
    types = tuple([array.type for array in arrays])
    result_types: Any = primitive.infer(types, params) if primitive.result_type is not None else None
    if primitive.on_arrays:
        return rule(*arrays, **params)
    if primitive.plain and all([array.__class__ is Array and array._host is not None for array in arrays]):
        out = _quiet_numpy.run(rule, *[array._host for array in arrays], **params)
        fits = out.__class__ is np.ndarray and out.dtype is result_types.dtype and out.shape == result_types.shape
        return Array(result_types, out if fits else _checked(primitive, out, result_types))
    if on_a_device(arrays) and (primitive.lower or primitive.expand):
        return primitive.derive_evaluation(arrays, params)
    if primitive.quiet:
        out = _quiet_numpy.copy().run(rule, *[host_of(array) for array in arrays], **params)
    else:  # a rule that somebody wrote: it can neither write to what it is given, nor later to what it returned
        out = rule(*[array.host for array in arrays], **params)
        if primitive.multiple_results and isinstance(out, (tuple, list)):
            out = [one.copy() if isinstance(one, np.ndarray) else one for one in out]
        elif isinstance(out, np.ndarray):
            out = out.copy()
    if primitive.multiple_results:
        if not isinstance(out, (tuple, list)) or (result_types is not None and len(out) != len(result_types)):
            raise primitive.malformed("evaluate", "a tuple, with one array for each result", out)
        out_types = result_types or [_observed_type(types, value) for value in out]
        return tuple([Array(type, _checked(primitive, value, type)) for type, value in zip(out_types, out, strict=True)])
    type = result_types or _observed_type(types, out)
    return Array(type, _checked(primitive, out, type))


def _observed_type(types: tuple[ArrayType, ...], value: Any) -> ArrayType:
    return host_type(np.asarray(value), weak=bool(types) and all(type.weak for type in types))


def _checked(primitive: Primitive, value: Any, type: ArrayType) -> Any:
    """An evaluation rule's result, held against the type rule: the two must never disagree silently. Python numbers take its
    dtype, if they fit, and an Array is taken for its elements."""
    if not isinstance(value, (*HOST, list, tuple)):
        value = primitive.value("evaluate", "an array or a number, of the result's", value, type).host
    elif value.__class__ in (list, tuple):
        value = np.asarray(value)
        if value.dtype.kind in "bif" and "biufc".index(value.dtype.kind) <= "biufc".index(kind(type.dtype)):
            value = value.astype(type.dtype)
    value = np.asarray(value)
    if value.shape != type.shape or value.dtype != type.dtype:
        raise primitive.disagreement(host_type(value), type)
    return value
