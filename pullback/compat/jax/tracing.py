"""Tracing to see: `make_jaxpr` and `eval_shape`; and asking which transformations are under way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import pullback as pb
from pullback.api.custom import held_by
from pullback.api.functions import chosen_arguments
from pullback.compat.jax.jaxprs import DebugInfo, closed_jaxpr_of, with_refs
from pullback.compat.jax.structs import AbstractValue, ShapeDtypeStruct, aval_of, struct_of, type_of
from pullback.compat.jax.tree_util import tree_map
from pullback.compat.jax.trees import flatten, level, like, of_jax_trees
from pullback.core.array import Array, as_array
from pullback.core.axes import Axis, named_axis
from pullback.core.errors import RefError
from pullback.core.refs import Ref, call_with_refs
from pullback.core.source import api_boundary, describe, name_of, named_after
from pullback.core.tracing import Trace, Tracer, ensure_compile_time_eval, innermost_staging
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.convert import convert_element_type
from pullback.program.equality import Keyed
from pullback.program.equation import Literal, Variable
from pullback.program.program import Program
from pullback.transforms.batch import BatchTrace
from pullback.transforms.jvp import Dual
from pullback.transforms.stage import stage

Function = Callable[..., Any]


def _leaf(x: Any) -> Any:
    """A leaf of what a traced function returned, as a value."""
    if isinstance(x, (Array, Tracer)):
        return x
    return x.__jax_array__() if hasattr(x, "__jax_array__") else as_array(x)


def _folded(program: Program) -> Program:
    """The Program without conversions of literals, and without broadcasts to the shape that is there: JAX records none."""
    known: dict[Any, Any] = {}
    equations = []
    for equation in program.equations:
        if any([x in known for x in equation.inputs if isinstance(x, Variable)]):
            equation = equation.replace(inputs=tuple([known.get(x, x) for x in equation.inputs]))
        first, out = next(iter(equation.inputs), None), equation.outputs[:1]
        if equation.primitive is convert_element_type and isinstance(first, Literal):
            with ensure_compile_time_eval():
                known[out[0]] = Literal(convert_element_type(first.value, **equation.params))
        elif equation.primitive is broadcast_in_dim and first is not None and first.type is out[0].type:
            known[out[0]] = first
        else:
            equations.append(equation)
    if not known:
        return program
    outputs = [known.get(x, x) for x in program.outputs]
    return Program(program.inputs, equations, outputs, program.constants, program.name, program.batch_axes)


def _closed_over(value: Any, seen: dict[int, Any]) -> list[Array]:
    """The Arrays that a function's closure holds, also in trees and functions there, and those among its globals. JAX makes a
    const of each, even a 0-d one, so that a function has the same consts in the same order whether these are traced or not."""
    if id(value) in seen:
        return []
    seen[id(value)] = value  # kept, so that no other object gets its id
    if isinstance(value, Array):
        return [value]
    parts = held_by(value) or flatten(value, lambda x: x is not value)[0]
    found = [array for part in parts for array in _closed_over(part, seen)]
    if isinstance(value, FunctionType):
        used = [value.__globals__.get(name) for name in value.__code__.co_names]
        found += [x for x in used if isinstance(x, Array)]
    return found


def make_jaxpr(
    fun: Function,
    static_argnums: Any = (),
    axis_env: Sequence[tuple[Any, int]] | None = None,
    return_shape: bool = False,
    abstracted_axes: Any = None,
) -> Function:
    """A function from arguments (arrays, or what stands for them) to the Jaxpr of `fun` on them. What it closes over of
    surrounding transformations is among the Jaxpr's consts."""
    numbers, _ = chosen_arguments(fun, static_argnums, (), "make_jaxpr's static")

    @like(fun)
    @api_boundary
    def of_arguments(*args: Any, **kwargs: Any) -> Any:
        static = {number % len(args) for number in numbers} if args else set()
        dynamic = [None if i in static else arg for i, arg in enumerate(args)]
        leaves, structure = flatten((dynamic, kwargs), None)
        which = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Ref)]
        found: list[Any] = []

        def call(values: Sequence[Any]) -> Any:
            given, named = structure.unflatten(values)
            return fun(*[args[i] if i in static else arg for i, arg in enumerate(given)], **named)

        def flat(*values: Any) -> list[Any]:
            out, changed = call_with_refs(call, values, which)
            outs, out_structure = flatten(out, None)
            found[:] = out_structure, [*changed]
            return [*changed.values(), *[_leaf(x) for x in outs]]

        with contextlib.ExitStack() as stack:
            for name, size in axis_env or ():
                stack.enter_context(named_axis(name, BatchTrace(Axis(size, name))))
            refs: list[Ref] = []
            name = name_of(fun, "fun")
            types, kept = [type_of(x) for x in leaves], _closed_over(fun, {})
            program, captures = stage(flat, types, name=name, described=fun, refs=refs, kept=kept)
        program, (out_structure, changed) = _folded(program), found
        written = len(program.outputs) - out_structure.num_leaves
        jaxpr = closed_jaxpr_of(program, captures, DebugInfo("make_jaxpr", name))
        if refs or which:
            if len({*refs, *[leaves[i] for i in which]}) < len(refs) + len(which):
                raise RefError(f"{describe(fun)} was given a Ref twice, or one that it also closes over: pass it once.")
            outer = jaxpr.constvars[len(captures) - len(refs) : len(captures)]
            last = outer[len(outer) - (written - len(changed)) :]
            of_args = {jaxpr.invars[i]: None for i in which}
            jaxpr = with_refs(jaxpr, dict(zip(outer, refs)) | of_args, [*last, *[jaxpr.invars[i] for i in changed]])
        if not return_shape:
            return jaxpr
        return jaxpr, out_structure.unflatten([struct_of(type) for type in program.output_types[written:]])

    of_arguments.__module__ = "jax"
    for name in ("__name__", "__qualname__"):
        setattr(of_arguments, name, f"make_jaxpr({getattr(of_arguments, name)})")
    return of_arguments


def eval_shape(fun: Function, *args: Any, **kwargs: Any) -> Any:
    """The structs of the results; leaves of arguments and of results may be structs themselves."""
    kept: dict[int, Any] = {}

    @of_jax_trees
    @named_after(fun)
    def without_structs(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten(fun(*args, **kwargs), None)
        kept.update({i: x for i, x in enumerate(leaves) if isinstance(x, ShapeDtypeStruct)})
        return structure.unflatten([0.0 if i in kept else x for i, x in enumerate(leaves)])

    args, kwargs = tree_map(type_of, (args, kwargs))
    leaves, structure = flatten(pb.eval_shape(without_structs, *args, **kwargs), None)
    return structure.unflatten([kept[i] if i in kept else struct_of(type) for i, type in enumerate(leaves)])


# ---- which transformations are under way ------------------------------------------------------------------------------


class TraceView(Keyed):
    """A transformation under way, as JAX's programs ask for it."""

    def __init__(self, trace: Trace) -> None:
        self.main = self.key = trace

    def __repr__(self) -> str:
        return self.main.describe() if self.main is not None else "EvalTrace"


def find_top_trace(values: Sequence[Any] = ()) -> TraceView:
    """The youngest transformation that traces one of these values."""
    owners = [x.owner for x in values if isinstance(x, Tracer)]
    return TraceView(max(owners, key=lambda owner: owner.serial, default=innermost_staging()))  # type: ignore[arg-type]


class OpaqueTraceState(Keyed):
    """Which transformation is the innermost around a call; equal to others of the same."""

    def __init__(self) -> None:
        self.key = level.get(), innermost_staging()


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    return OpaqueTraceState()


def trace_state_clean() -> bool:
    """Whether no transformation is under way."""
    return innermost_staging() is None and level.get() is None


def mapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The aval of one element of a batch."""
    if axis is None:
        return aval
    shape = list(aval.shape)
    if shape.pop(axis) != size:
        raise ValueError(f"mapped_aval: axis {axis} of {aval} does not have {size} elements.")
    return aval.update(shape=tuple(shape))


def unmapped_aval(size: int, axis: int | None, aval: Any) -> Any:
    """The aval of a batch of elements of an aval."""
    if axis is None:
        return aval
    shape = list(aval.shape)
    shape.insert(axis % (len(shape) + 1), size)
    return aval.update(shape=tuple(shape))


def valid_jaxtype(x: Any) -> bool:
    """Whether a value is one that functions of arrays take."""
    if isinstance(x, (AbstractValue, str, bytes)) or x is None:
        return False
    try:
        aval_of(type_of(x))
    except Exception:
        return False
    return True


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """A value as Python's, by `force`; an error if it is traced."""
    return val if force is None and not isinstance(val, Tracer) else (force or as_array)(val)


JVPTracer = Dual
