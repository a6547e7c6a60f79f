"""Finding which results of a function depend on unknown arguments: what clients use of `jax.interpreters.partial_eval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.compat.jax.jaxprs import Jaxpr
from pullback.compat.jax.structs import aval_of, type_of
from pullback.control.holder import bind_holder
from pullback.core.primitive import Primitive
from pullback.core.tracing import Trace, Tracer
from pullback.core.tracing import type_of as type_of_value
from pullback.core.types import ArrayType
from pullback.transforms.derive import pruned_program


class PartialVal(tuple[Any, Any]):
    """A known value, `(None, value)`, or an unknown one, `(aval, None)`."""

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        return cls((None, value))

    @classmethod
    def unknown(cls, aval: Any) -> PartialVal:
        return cls((aval, None))

    def is_known(self) -> bool:
        return self[0] is None

    def get_known(self) -> Any:
        return self[1]

    def get_aval(self) -> Any:
        return aval_of(type_of(self[1])) if self[0] is None else self[0]


class Unknown(Tracer):
    """A value of which the type alone is known."""

    __slots__ = ("type",)

    def __init__(self, trace: Trace, type: ArrayType) -> None:
        self.owner = trace
        self.type = type


class UnknownTrace(Trace):
    """Computes what is known as it comes, and of what is not finds the types."""

    __slots__ = ()
    transformation = "partial evaluation"

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.result_type is None and primitive.expand is not None:
            return primitive.expanded(args, params)
        types = primitive.infer(tuple([type_of_value(arg) for arg in args]), params)
        if not primitive.multiple_results:
            return Unknown(self, types)
        known = self._known(primitive, args, params)
        return tuple([known[i] if i in known else Unknown(self, type) for i, type in enumerate(types)])

    def _known(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> dict[int, Any]:
        """Those results of what holds Programs, by number, that depend on nothing unknown."""
        if primitive.depends is None or primitive.prune is None:
            return {}
        unknown = [isinstance(arg, Unknown) and arg.owner is self for arg in args]
        depends = primitive.depends(tuple(map(int, unknown)), **params)
        smaller = None if all(depends) else primitive.prune(tuple([1 - flag for flag in depends]), **params)
        if smaller is None or any([unknown[i] for i in smaller[1]]):
            return {}
        params, inputs, outputs = smaller
        return dict(zip(outputs, bind_holder(primitive, *[args[i] for i in inputs], **params)))


def trace_to_jaxpr_nounits(
    fun: Any, pvals: Sequence[Any], instantiate: bool | Sequence[bool] = False
) -> tuple[None, list[PartialVal], list[Any]]:
    """Which results are known where these arguments are. There is no Jaxpr of the others: no client reads it."""
    trace = UnknownTrace(getattr(fun, "f", None))
    try:
        outs = fun.call_wrapped(*[value if aval is None else Unknown(trace, type_of(aval)) for aval, value in pvals])
    finally:
        trace.open = False
    unknown = [isinstance(out, Unknown) and out.owner is trace for out in outs]
    return None, [PartialVal.unknown(aval_of(x.type)) if flag else PartialVal.known(x) for x, flag in zip(outs, unknown)], []


def dce_jaxpr(
    jaxpr: Jaxpr, used_outputs: bool | Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Jaxpr, list[bool]]:
    """The Jaxpr without what serves unused results only, and which of its inputs it still takes."""
    consts, kept = len(jaxpr.constvars), _flags(instantiate, len(jaxpr.invars))
    whole = Jaxpr((), [*jaxpr.constvars, *jaxpr.invars], jaxpr.outvars, jaxpr.eqns).program if consts else jaxpr.program
    smaller, used = pruned_program(whole, tuple(map(int, _flags(used_outputs, len(jaxpr.outvars)))))
    taken = [bool(flag) or keep for flag, keep in zip(used[consts:], kept)]
    inputs = [*range(consts), *[consts + i for i, flag in enumerate(taken) if flag]]
    return Jaxpr.of(smaller.rearranged(inputs), consts), taken


def _flags(flags: bool | Sequence[bool], count: int) -> list[bool]:
    return [flags] * count if isinstance(flags, bool) else [bool(flag) for flag in flags]
