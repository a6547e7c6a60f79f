"""jit: a function compiled by XLA, once for every signature that it is called with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from pullback.api.functions import Function, argument_name, check_callable, leaf_paths
from pullback.control.call import bind_call
from pullback.core.array import Array
from pullback.core.axes import axis_sizes
from pullback.core.dtypes import current_default_bits
from pullback.core.errors import AxisError, ShapeError, StaticArgumentError, StructureError
from pullback.core.program import Program
from pullback.core.source import describe, trim
from pullback.core.tracing import Tracer, staging_floor, type_of
from pullback.core.trees import TreeDef, array_leaf, array_leaves, flatten, unflatten
from pullback.core.types import ArrayType
from pullback.engine.compile import CompileOptions, compile_program, lower_to_text
from pullback.engine.xla import Executable
from pullback.transforms.simplify import simplify
from pullback.transforms.stage import stage


class Signature:
    """A jitted function traced for one combination of structure, types and static arguments."""

    __slots__ = ("captures", "donated", "executable", "options", "out_structure", "program")

    def __init__(
        self,
        program: Program,
        captures: Sequence[Tracer],
        out_structure: TreeDef,
        donated: tuple[bool, ...],
        options: CompileOptions,
    ) -> None:
        self.program = program
        self.captures = captures
        self.out_structure = out_structure
        self.donated = donated
        self.options = options
        self.executable: Executable | None = None

    def compile(self) -> Executable:
        """The executable; made at the first use."""
        if self.executable is None:
            self.executable = compile_program(self.program, self.options, self.donated)
        return self.executable

    def run(self, leaves: Sequence[Array]) -> Any:
        """Execute on Arrays of the right types, and give the results the structure of the user's output."""
        return unflatten(self.out_structure, (self.executable or self.compile())(leaves))


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
    ) -> None:
        check_callable(fun, "jit")
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._static_numbers, self._static_names = _both_ways(fun, static_argnums, static_argnames, "static")
        self._donate_numbers, self._donate_names = _both_ways(fun, donate_argnums, donate_argnames, "donate")
        self._options = options
        self._plain = not (self._static_numbers or self._static_names)
        self._signatures: dict[Any, Signature] = {}
        self._by_types: dict[Any, Signature] = {}  # calls whose arguments are all Arrays, passed by position

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if not kwargs and self._plain and staging_floor() is None:
                key: list[Any] = [current_default_bits()]
                for arg in args:
                    if arg.__class__ is not Array:
                        break
                    key.append(arg.type)
                else:
                    found = self._by_types.get(tuple(key))
                    if found is not None:
                        return found.run(args)
            return self._call(args, kwargs)
        except BaseException as error:
            trim(error)
            raise

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {describe(self._fun)}>"

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, signature = self._signature(args, kwargs)
        traced = staging_floor() is not None or bool(signature.captures) or signature.program.axis_names
        if traced or any([isinstance(leaf, Tracer) for leaf in leaves]):
            outs = bind_call(signature.program, [*signature.captures, *leaves])
            return unflatten(signature.out_structure, outs)
        if self._plain and not kwargs and all([arg.__class__ is Array for arg in args]) and not axis_sizes():
            self._by_types[(current_default_bits(), *[arg.type for arg in args])] = signature
        return signature.run(leaves)

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Signature]:
        """The leaves of a call's dynamic arguments, and its signature: traced now if it is new."""
        statics, dynamic = self._split(args, kwargs)
        leaves, structure = flatten(dynamic)
        leaves = [
            leaf if leaf.__class__ is Array else array_leaf(leaf, lambda i=i: f"argument {self._paths(args, kwargs)[i]}")  # type: ignore[misc]
            for i, leaf in enumerate(leaves)
        ]
        types = tuple([leaf.type for leaf in leaves])
        key = (structure, types, statics, current_default_bits(), axis_sizes())
        try:
            found = self._signatures.get(key)
        except TypeError:
            raise self._unhashable(statics) from None
        if found is None:
            found = self._trace(args, kwargs, structure, types)
            if not found.captures:  # what closes over tracers of an enclosing transformation is good for this call only
                found = self._signatures.setdefault(key, found)
        return leaves, found

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """A call's static arguments, as a hashable key, and the dynamic ones, as one tree."""
        if self._plain:
            return (), ((args, kwargs) if kwargs else args)
        numbers = {number % len(args) if number < 0 else number for number in self._static_numbers}
        statics = (
            tuple([(i, type(arg), arg) for i, arg in enumerate(args) if i in numbers]),
            tuple([(name, type(kwargs[name]), kwargs[name]) for name in sorted(kwargs) if name in self._static_names]),
        )
        dynamic = [arg for i, arg in enumerate(args) if i not in numbers]
        return statics, (dynamic, {name: arg for name, arg in kwargs.items() if name not in self._static_names})

    def _merge(self, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Any) -> Any:
        """The user's function called with a call's static arguments, and `dynamic` in place of the others."""
        if self._plain:
            inner_args, inner_kwargs = dynamic if kwargs else (dynamic, {})
            return self._fun(*inner_args, **inner_kwargs)
        numbers = {number % len(args) if number < 0 else number for number in self._static_numbers}
        given = iter(dynamic[0])
        inner_args = [arg if i in numbers else next(given) for i, arg in enumerate(args)]
        return self._fun(*inner_args, **{**{n: v for n, v in kwargs.items() if n in self._static_names}, **dynamic[1]})

    def _trace(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], structure: TreeDef, types: Sequence[ArrayType]
    ) -> Signature:
        box: dict[str, Any] = {}

        def flat(*leaves: Any) -> list[Any]:
            outs, box["structure"] = array_leaves(self._merge(args, kwargs, unflatten(structure, leaves)), lambda: "the output")
            return outs

        name = getattr(self._fun, "__name__", "function")
        paths = self._paths(args, kwargs)
        program, captures = stage(flat, types, name=name, described=self._fun, arguments=paths)
        donated = self._donated(args, kwargs, len(types))
        return Signature(simplify(program), captures, box["structure"], donated, self._options)

    def _paths(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """How error messages call each dynamic leaf, in the order in which they are flattened."""
        numbers = {number % len(args) if number < 0 else number for number in self._static_numbers}
        found: list[str] = []
        for i, arg in enumerate(args):
            if i not in numbers:
                found += leaf_paths(arg, argument_name(self._fun, i))
        for name in sorted(kwargs):
            if name not in self._static_names:
                found += leaf_paths(kwargs[name], name)
        return found

    def _donated(self, args: tuple[Any, ...], kwargs: dict[str, Any], count: int) -> tuple[bool, ...]:
        """Which leaves are donated; empty if none are."""
        if not self._donate_numbers and not self._donate_names:
            return ()
        numbers = {number % len(args) if number < 0 else number for number in self._static_numbers}
        given = {number % len(args) if number < 0 else number for number in self._donate_numbers}
        flags: list[bool] = []
        for i, arg in enumerate(args):
            if i not in numbers:
                flags += [i in given] * flatten(arg)[1].num_leaves
        for name in sorted(kwargs):
            if name not in self._static_names:
                flags += [name in self._donate_names] * flatten(kwargs[name])[1].num_leaves
        assert len(flags) == count
        return tuple(flags) if any(flags) else ()

    def _unhashable(self, statics: Any) -> StaticArgumentError:
        for where, _, value in [*statics[0], *statics[1]] if statics else []:
            try:
                hash(value)
            except TypeError:
                name = argument_name(self._fun, where) if isinstance(where, int) else where
                return StaticArgumentError(
                    f"Argument {name} of {describe(self._fun)} is static, so it must be hashable, but it is a"
                    f" {type(value).__name__}: {value!r}. Pass a tuple instead of a list, a frozen dataclass instead of a"
                    " mutable one; or do not make it static, if it holds arrays."
                )
        return StaticArgumentError(f"An argument of {describe(self._fun)} has metadata that cannot be hashed.")

    # ---- ahead of time ----

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower for arguments like these, without compiling or running.

        Arguments may be arrays, or `ArrayType`s (`ShapeDtypeStruct`s) in their place.
        """
        try:
            args, kwargs = _with_placeholders((args, kwargs))
            return Lowered(self._signature(args, kwargs)[1], self._fun, flatten(self._split(args, kwargs)[1])[1], self)
        except BaseException as error:
            trim(error)
            raise

    def clear_cache(self) -> None:
        """Forget every signature and its executable."""
        self._signatures.clear()
        self._by_types.clear()


def _with_placeholders(tree: Any) -> Any:
    """A tree whose ArrayTypes have been replaced by Arrays without values, which suffice for tracing."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [_placeholder(leaf) for leaf in leaves])


def _placeholder(leaf: Any) -> Any:
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
    chosen = () if numbers is None else (numbers,) if isinstance(numbers, int) else tuple(numbers)
    called = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    if not chosen and not called:
        return (), frozenset()
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in chosen):
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
    return tuple(sorted({*chosen, *by_name})), frozenset({*called, *by_number})


class Lowered:
    """A function lowered for one signature: its StableHLO, not compiled yet.

    Attributes:
        program: the Program that was lowered.
    """

    def __init__(self, signature: Signature, fun: Function, in_structure: TreeDef, jitted: Jitted) -> None:
        self._signature = signature
        self._fun = fun
        self._in_structure = in_structure
        self._jitted = jitted

    @property
    def program(self) -> Program:
        return self._signature.program

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        return self.program.input_types

    @property
    def out_types(self) -> Any:
        return unflatten(self._signature.out_structure, self.program.output_types)

    def as_text(self) -> str:
        """The StableHLO module."""
        return lower_to_text(self.program, self._signature.options, self._signature.donated)

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate for the optimized program; compiles it."""
        return self.compile().cost_analysis()

    def compile(self) -> Compiled:
        """Compile now."""
        self._signature.compile()
        return Compiled(self._signature, self._fun, self._in_structure, self._jitted)

    def __repr__(self) -> str:
        return f"<lowered {describe(self._fun)}>"


class Compiled:
    """A function compiled for one signature. Call it with arguments of exactly those types; it never traces again."""

    def __init__(self, signature: Signature, fun: Function, in_structure: TreeDef, jitted: Jitted) -> None:
        self._signature = signature
        self._fun = fun
        self._in_structure = in_structure
        self._jitted = jitted

    @property
    def program(self) -> Program:
        return self._signature.program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        dynamic = self._jitted._split(args, kwargs)[1]
        leaves, structure = array_leaves(dynamic, lambda: "argument")
        if structure is not self._in_structure and structure != self._in_structure:
            raise StructureError(
                f"{describe(self._fun)} was compiled for arguments of structure {self._in_structure}, but got {structure}."
            )
        expected = self._signature.program.input_types
        if tuple([type_of(leaf) for leaf in leaves]) != expected:
            listed = ", ".join(map(str, expected))
            raise ShapeError(
                f"{describe(self._fun)} was compiled for arguments of types {listed}, but got"
                f" {', '.join(str(type_of(leaf)) for leaf in leaves)}. Call the jitted function itself to have it compile again."
            )
        if staging_floor() is not None or any(isinstance(leaf, Tracer) for leaf in leaves):
            raise AxisError(
                f"{describe(self._fun)} was compiled ahead of time, so it cannot be transformed; transform the jitted function."
            )
        return self._signature.run(leaves)

    def as_text(self) -> str:
        """The optimized program, as XLA prints it (HLO)."""
        return self._signature.compile().optimized_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work: `flops`, `bytes accessed`, `transcendentals`, ..."""
        return self._signature.compile().cost_analysis()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, outputs, temporaries and code, as XLA reports them."""
        return self._signature.compile().memory_analysis()

    def __repr__(self) -> str:
        return f"<compiled {describe(self._fun)}>"


def jit(
    fun: Function | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    show_graph: bool = False,
    quick: bool = False,
) -> Any:
    """Compile a function with XLA: it is traced once for every signature, and runs as one program from then on.

    A signature is the arguments' structure, their types (weakness included), the static arguments, and the default dtypes.

    Arguments:
        fun: a function of arrays and pytrees, without side effects. Left out, `jit(...)` is a decorator.
        static_argnums, static_argnames: arguments that are part of the signature instead of traced: any hashable value,
            compared by equality and type. Each is completed from the other by `fun`'s signature.
        donate_argnums, donate_argnames: arguments whose memory the results may reuse; they cannot be used afterwards.
        show_graph: print the StableHLO and the optimized program when a signature is compiled.
        quick: compile at a low optimization level: sooner done, slower to run.

    Returns:
        A function of the same arguments, with `.lower(*args)` for ahead-of-time compilation and inspection. In other
        transformations it is one operation, `call`.

    Raises:
        StaticArgumentError: an argument that does not exist, or a static argument that cannot be hashed.

    Example:
        >>> import pullback as pb
        >>> f = pb.jit(lambda x, n: x**n, static_argnums=1)
        >>> f(3.0, 2)
        9.0:f32[]:cpu(0)
    """
    options = CompileOptions(show_graph=show_graph, quick=quick)
    if fun is None:
        return lambda fun: Jitted(fun, static_argnums, static_argnames, donate_argnums, donate_argnames, options)
    return Jitted(fun, static_argnums, static_argnames, donate_argnums, donate_argnames, options)
