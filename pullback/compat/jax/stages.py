"""jax.stages: what a jitted function is ahead of time, over pullback's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

from pullback.api import stages as own
from pullback.compat.jax.facade import facade
from pullback.compat.jax.jaxprs import ClosedJaxpr, DebugInfo, closed_jaxpr_of
from pullback.compat.jax.sharding import Format
from pullback.compat.jax.structs import ShapedArray, aval_of, struct_of
from pullback.compat.jax.tree_util import tree_map
from pullback.compat.jax.trees import JAX_TREES
from pullback.core.devices import DEFAULT_DEVICE
from pullback.core.errors import DtypeError, ShapeError, StructureError
from pullback.core.shardings import SingleDeviceSharding
from pullback.core.trees import unflatten
from pullback.core.types import ArrayType

CompilerOptions = Mapping[str, Any]


@dataclass(frozen=True)
class ArgInfo:
    """What a function was lowered for, of one array among its arguments."""

    _aval: ShapedArray
    donated: bool

    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)


class MismatchError(TypeError, ValueError):
    """A compiled function was called with other arguments than those that it was compiled for."""


class _Stage:
    """What the three stages share."""

    _signature: Any
    _jitted: Any
    _statics: Any

    @property
    def in_tree(self) -> Any:
        """The structure of `(args, kwargs)`, without the static ones."""
        return JAX_TREES.flatten(self._of_arguments(lambda type: 0))[1]

    @property
    def args_info(self) -> Any:
        flags = iter(self._signature.donated or [False] * len(self._signature.program.input_types))
        return self._of_arguments(lambda type: ArgInfo(aval_of(type), next(flags)))

    @property
    def in_avals(self) -> Any:
        return self._of_arguments(aval_of)

    @property
    def out_info(self) -> Any:
        return self._of_results(struct_of)

    out_avals = property(lambda self: self._of_results(aval_of))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        return tuple([i for i, donated in enumerate(self._signature.donated) if donated])

    def _of_arguments(self, make: Callable[[ArrayType], Any]) -> Any:
        """The arguments, with what is made of its type in the place of each leaf."""
        return self._in_arguments(map(make, self._signature.program.input_types))

    def _in_arguments(self, leaves: Iterable[Any]) -> Any:
        args, kwargs = unflatten(self._signature.structure, leaves)
        static = dict(self._statics[0]) if self._statics else {}
        return tuple([arg for i, arg in enumerate(args) if i not in static]), kwargs

    def _of_results(self, make: Callable[[ArrayType], Any]) -> Any:
        return unflatten(self._signature.out_structure, map(make, self._signature.program.output_types))


class Traced(_Stage, own.Traced):
    """A function traced for one signature."""

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return closed_jaxpr_of(self.program, self._signature.captures, DebugInfo("jit", self.fun_name))

    def lower(self, *, lowering_platforms: tuple[str, ...] | None = None, _private_parameters: Any = None) -> Lowered:
        made = super().lower()
        assert isinstance(made, Lowered)
        return made


class Lowered(_Stage, own.Lowered):
    """A function lowered for one signature."""

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        return super().as_text(dialect, debug_info=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The text of what `as_text` gives, as an object that prints so."""
        return _Text(self.as_text(dialect))

    def compile(self, compiler_options: CompilerOptions | None = None, *, device_assignment: None = None) -> Compiled:
        if device_assignment is not None:
            raise NotImplementedError("compile compiles for the one device that there is: device_assignment must be None.")
        made = super().compile(compiler_options)
        assert isinstance(made, Compiled)
        return made


class _Text:
    """A program that prints as its text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    as_hlo_text = as_text = __str__


class CompiledMemoryStats(SimpleNamespace):
    """XLA's numbers of bytes, as attributes."""


class Compiled(_Stage, own.Compiled):
    """A function compiled for one signature."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except (StructureError, ShapeError, DtypeError) as error:
            raise MismatchError(str(error)) from None

    call = __call__

    def memory_analysis(self) -> Any:
        return CompiledMemoryStats(**super().memory_analysis())

    def runtime_executable(self) -> Any:
        """XLA's own object."""
        return self._signature.compile().raw

    @property
    def input_shardings(self) -> Any:
        return self._in_arguments([_sharding(variable.placed_type) for variable in self._signature.program.inputs])

    @property
    def output_shardings(self) -> Any:
        executable = self._signature.compile()
        found = iter(executable.gives if executable.spread else ())
        return self._of_results(lambda type: next(found, None) or _sharding(type))

    @property
    def input_formats(self) -> Any:
        return tree_map(lambda sharding: Format(None, sharding), self.input_shardings)

    @property
    def output_formats(self) -> Any:
        return tree_map(lambda sharding: Format(None, sharding), self.output_shardings)


def _sharding(type: ArrayType) -> Any:
    """How an argument of a type lies: one of which nothing is said, on the default device."""
    return type.sharding or SingleDeviceSharding(DEFAULT_DEVICE)


class Wrapped(Protocol):
    """What `jax.jit` returns."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def trace(self, *args: Any, **kwargs: Any) -> Traced: ...
    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...


facade(globals())
