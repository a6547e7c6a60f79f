"""The rules that programs give to primitives of their own, in JAX's registries, and the primitive of pullback that obeys them.

Each rule of that primitive looks into the registry when it is needed, since programs fill them in after making the primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from pullback.compat.jax.primitives import Primitive
from pullback.compat.jax.structs import AbstractValue, ShapedArray, aval_of, tangent_type, type_of
from pullback.compat.jax.tree_util import register_pytree_node_class
from pullback.core import primitive as core_primitive
from pullback.core.array import Array, as_array
from pullback.core.axes import Axis
from pullback.core.dtypes import float0
from pullback.core.tracing import Tracer, is_float0
from pullback.core.types import array_type, is_unknown
from pullback.core.zero import ZERO, zeros
from pullback.numpy.shaping import moveaxis
from pullback.ops.arithmetic import add
from pullback.ops.broadcast import repeated
from pullback.transforms.derive import stage_closed

# ---- what stands for zeros and for unknown values ---------------------------------------------------------------------


class _OfType:
    """What stands for a value of which the type alone is known: a container of nothing."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def tree_flatten(self) -> Any:
        return (), self.aval

    @classmethod
    def tree_unflatten(cls, aval: Any, children: Any) -> Self:
        return cls(aval)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"


@register_pytree_node_class
class Zero(_OfType):
    """A tangent or cotangent that is known to be zero."""

    __slots__ = ()

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        return Zero(aval_of(tangent_type(type_of(value))))

    def instantiate(self) -> Any:
        return zeros_like_aval(self.aval)


@register_pytree_node_class
class UndefinedPrimal(_OfType):
    """In a transpose rule: an operand for which a cotangent is wanted."""

    __slots__ = ()


def is_undefined_primal(x: Any) -> bool:
    return type(x) is UndefinedPrimal


def zeros_like_aval(aval: Any) -> Any:
    type = type_of(aval)
    return np.zeros(type.shape, float0) if type.dtype == float0 else zeros(type)


def instantiate_zeros(tangent: Any) -> Any:
    return tangent.instantiate() if type(tangent) is Zero else tangent


def add_tangents(x: Any, y: Any) -> Any:
    return y if type(x) is Zero else x if type(y) is Zero else add(x, y)


# ---- the registries ---------------------------------------------------------------------------------------------------

Rule = Callable[..., Any]


class AxisData(NamedTuple):
    """The axis of a vmap."""

    name: Any
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


class _Batchers(dict[Any, Rule]):
    """Batching rules of one form, kept among those of the general form."""

    def __init__(self, general: Callable[[Any, Rule], Rule]) -> None:
        super().__init__()
        self.general = general

    def __setitem__(self, primitive: Any, rule: Rule) -> None:
        super().__setitem__(primitive, rule)
        fancy_primitive_batchers[primitive] = self.general(primitive, rule)

    def __delitem__(self, primitive: Any) -> None:
        super().__delitem__(primitive)
        del fancy_primitive_batchers[primitive]


def _if_batched(primitive: Any, rule: Rule) -> Rule:
    def general(axis: AxisData, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        if all([dim is None for dim in dims]):
            out = primitive.bind(*args, **params)
            return (out, [None] * len(out)) if primitive.multiple_results else (out, None)
        return rule(args, dims, **params)

    return general


def _with_axis(primitive: Any, rule: Rule) -> Rule:
    return lambda axis, args, dims, **params: rule(axis.size, axis.name, None, args, dims, **params)


primitive_jvps: dict[Any, Rule] = {}
primitive_transposes: dict[Any, Rule] = {}
fancy_primitive_batchers: dict[Any, Rule] = {}
primitive_batchers = _Batchers(_if_batched)
axis_primitive_batchers = _Batchers(_with_axis)
KNOWN_PLATFORMS = ("cpu", "cuda", "gpu", "rocm", "tpu")
lowerings: dict[Any, dict[str | None, Any]] = {}


class LowerFun(NamedTuple):
    """A lowering by a function in JAX's operations."""

    function: Rule
    multiple_results: bool


class LoweringContext:
    """What a lowering rule that writes for itself is told: of JAX's, what `emit_python_callback` needs."""

    def __init__(self, write: Any, avals_in: list[Any], avals_out: list[Any]) -> None:
        self.write, self.avals_in, self.avals_out = write, avals_in, avals_out
        self.module_context = self
        self.tokens_in: Any = None

    def add_keepalive(self, kept: Any) -> None:
        """Nothing: what compiled code calls lives as long as it."""


# ---- the primitive of pullback that obeys them ------------------------------------------------------------------------


def _registered(rules: dict[Any, Rule], primitive: Primitive, kind: str) -> Rule:
    """The rule that a program has given a primitive."""
    if primitive not in rules:
        raise NotImplementedError(f"{kind} for '{primitive}' not implemented")
    return rules[primitive]


def _named(primitive: Primitive, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters by JAX's names, in which Programs are as they are."""
    found: dict[str, Any] = primitive.translation.viewed(params, [], lambda program: program)[0]
    return found


def _value(x: Any) -> Any:
    """What a rule returned as a value: an Array or a tracer."""
    return x if isinstance(x, (Array, Tracer)) else as_array(x)


def _tangent(x: Any) -> Any:
    """What a rule returned as a tangent or cotangent."""
    if x is None or x is Zero or isinstance(x, Zero) or is_float0(x) or type(x).__name__ == "SymbolicZero":
        return ZERO
    return x


def _outs(primitive: Primitive, found: Any, each: Callable[[Any], Any]) -> Any:
    if not primitive.multiple_results:
        return each(found)
    if not isinstance(found, (tuple, list)):
        raise TypeError(
            f"A rule of the primitive {primitive} must return a list, with one value for each result, not {found!r}."
        )
    return tuple([each(x) for x in found])


def _zero_or(tangent: Any, type: Any) -> Any:
    return Zero(aval_of(tangent_type(type))) if tangent is ZERO else tangent


def _jvp(primitive: Primitive) -> Rule:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        rule = _registered(primitive_jvps, primitive, "Differentiation rule")
        given = tuple([_zero_or(t, type_of(x)) for x, t in zip(primals, tangents)])
        outs, found = rule(tuple(primals), given, **_named(primitive, params))
        return _outs(primitive, outs, _value), _outs(primitive, found, _tangent)

    return jvp


def _transpose(primitive: Primitive) -> Rule:
    def transpose(cotangents: Any, /, *operands: Any, **params: Any) -> Any:
        rule = _registered(primitive_transposes, primitive, "Transpose rule (for reverse-mode differentiation)")
        if primitive.multiple_results and any([ct is ZERO for ct in cotangents]):
            types = primitive.made.infer(tuple([type_of(x) for x in operands]), params)
            cotangents = [_zero_or(ct, type) for ct, type in zip(cotangents, types)]
        given = [UndefinedPrimal(aval_of(x)) if is_unknown(x) else x for x in operands]
        cotangents = list(cotangents) if primitive.multiple_results else cotangents
        found = rule(cotangents, *given, **_named(primitive, params))
        if found is Zero or isinstance(found, Zero):
            found = [Zero] * len(operands)
        return tuple([_tangent(ct) if is_unknown(x) else None for ct, x in zip(found, operands, strict=True)])

    return transpose


def _vectorize(primitive: Primitive) -> Rule:
    def vectorize(axis: Axis, args: Sequence[Any], axes: Sequence[int | None], /, **params: Any) -> Any:
        rule = _registered(fancy_primitive_batchers, primitive, "Batching rule")
        out, dims = rule(AxisData(axis.name, axis.size), tuple(args), tuple(axes), **params)
        if not primitive.multiple_results:
            return _in_front(out, dims), None if dims is None else 0
        rows = dims if isinstance(dims, (tuple, list)) else [dims] * len(out)
        placed = [_in_front(x, dim) for x, dim in zip(out, rows, strict=True)]
        return tuple(placed), tuple([None if dim is None else 0 for dim in rows])

    return vectorize


def _in_front(x: Any, dim: int | None) -> Any:
    return _value(x) if not dim else moveaxis(x, dim, 0)


def _lower(primitive: Primitive) -> Rule:
    def lower(write: Any, /, *values: Any, **params: Any) -> Any:
        found = lowerings.get(primitive, {})
        rule = found.get(write.platform, found.get(None))
        if rule is None:
            raise NotImplementedError(
                f"Primitive {str(primitive)!r} has no lowering for {write.platform}: register one (mlir.register_lowering)."
            )
        types = [array_type(value.shape, value.type.dtype) for value in values]
        if not isinstance(rule, LowerFun):
            avals_out = [ShapedArray(type.shape, type.dtype) for type in write.result_types]
            outs = rule(LoweringContext(write, [aval_of(type) for type in types], avals_out), *values, **params)
            return list(outs) if primitive.multiple_results else outs[0]

        def flat(*xs: Any) -> list[Any]:
            out = rule.function(*xs, **params)
            return [_value(x) for x in (out if rule.multiple_results else [out])]

        outs = write.inline(stage_closed(flat, types, primitive.name), *values)
        return outs if primitive.multiple_results else outs[0]

    return lower


def make(primitive: Primitive) -> core_primitive.Primitive:
    """The primitive of pullback for one of a program's own."""

    def result_type(*types: Any, **params: Any) -> Any:
        found = primitive.abstract_eval(*[aval_of(type) for type in types], **params)[0]
        avals = found if primitive.multiple_results else [found]
        if not isinstance(avals, (tuple, list)) or not all([isinstance(aval, AbstractValue) for aval in avals]):
            wanted = "a list of avals, one for each result" if primitive.multiple_results else "an aval"
            raise ValueError(f"The rule that {primitive}.def_abstract_eval was given must return {wanted}, not {found!r}.")
        made = tuple([type_of(aval) for aval in avals])
        return made if primitive.multiple_results else made[0]

    def evaluate(*arrays: Any, **params: Any) -> Any:
        return _outs(primitive, primitive.impl(*arrays, **params), _value)

    made = core_primitive.Primitive(
        primitive.name,
        result_type=result_type,
        evaluate=evaluate,
        lower=_lower(primitive),
        jvp=_jvp(primitive),
        transpose=_transpose(primitive),
        vectorize=_vectorize(primitive),
        multiple_results=primitive.multiple_results,
        on_arrays=True,
        symbolic_zeros=True,
        symbolic_cotangents=True,
        needs_axis=True,
        effect="effect" if primitive.is_effectful is not None else None,
    )
    made.facade = primitive  # type: ignore[attr-defined]
    return made


Primitive.make = staticmethod(make)

# ---- rules for many primitives ----------------------------------------------------------------------------------------


def defjvp(primitive: Any, *rules: Any) -> None:
    """Of each operand: `(tangent, *primals)` to what it adds to the tangent of the result; None where it adds nothing."""
    defjvp2(primitive, *[None if rule is None else _without_out(rule) for rule in rules])


def _without_out(rule: Rule) -> Rule:
    return lambda tangent, out, *primals, **params: rule(tangent, *primals, **params)


def defjvp2(primitive: Any, *rules: Any) -> None:
    """As `defjvp`, of rules that are given the result too: `(tangent, out, *primals)`."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        found: Any = Zero.from_primal_value(out)
        for rule, tangent in zip(rules, tangents):
            if rule is not None and type(tangent) is not Zero:
                found = add_tangents(found, rule(tangent, out, *primals, **params))
        return out, found

    primitive_jvps[primitive] = jvp


def deflinear2(primitive: Any, transpose_rule: Rule) -> None:
    """A linear primitive, whose transpose rule takes the cotangent and the operands."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        if all([type(tangent) is Zero for tangent in tangents]):
            return out, [Zero.from_primal_value(x) for x in out] if primitive.multiple_results else Zero.from_primal_value(out)
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def deflinear(primitive: Any, transpose_rule: Rule) -> None:
    """A linear primitive, whose transpose rule takes the cotangent alone."""
    deflinear2(primitive, lambda cotangent, *operands, **params: transpose_rule(cotangent, **params))


def defbilinear(primitive: Any, left: Rule, right: Rule) -> None:
    """A primitive of two operands, linear in each: `left(cotangent, x, y)` transposes it in x, `right` in y."""

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> list[Any]:
        unknown = is_undefined_primal(x)
        if type(cotangent) is Zero:
            return [Zero(x.aval), None] if unknown else [None, Zero(y.aval)]
        return [left(cotangent, x, y, **params), None] if unknown else [None, right(cotangent, x, y, **params)]

    defjvp(
        primitive,
        lambda tangent, x, y, **params: primitive.bind(tangent, y, **params),
        lambda tangent, x, y, **params: primitive.bind(x, tangent, **params),
    )
    primitive_transposes[primitive] = transpose


def bdim_at_front(x: Any, bdim: int | None, size: int) -> Any:
    return repeated(_value(x), size) if bdim is None else moveaxis(x, bdim, 0)


def broadcast(x: Any, size: int, axis: int, mesh_axis: Any = None) -> Any:
    return moveaxis(repeated(_value(x), size), 0, axis)


def defvectorized(primitive: Any) -> None:
    """A primitive that does the same along each axis of its operands."""

    def rule(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        if any([dim != dims[0] for dim in dims]):
            raise AssertionError(f"defvectorized({primitive}): operands are batched along different axes, {dims}.")
        return primitive.bind(*args, **params), dims[0]

    primitive_batchers[primitive] = rule


def defbroadcasting(primitive: Any) -> None:
    """A primitive of several operands that does the same along each axis, and repeats axes of size 1."""

    def rule(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        shape, dim = next((x.shape, dim) for x, dim in zip(args, dims) if dim is not None)
        if not all([x.shape == shape and own == dim for x, own in zip(args, dims) if np.ndim(x)]):
            args = [bdim_at_front(x, own, 1) if np.ndim(x) else x for x, own in zip(args, dims)]
            count = max([np.ndim(x) for x in args])
            args = [x if own is None else x.reshape(*x.shape, *[1] * (count - x.ndim)) for x, own in zip(args, dims)]
            dim = 0
        out = primitive.bind(*args, **params)
        return out, (dim,) * len(out) if primitive.multiple_results else dim

    primitive_batchers[primitive] = rule


def defreducer(primitive: Any) -> None:
    """A primitive of one operand that takes away the axes in its parameter `axes`."""

    def rule(args: Sequence[Any], dims: Sequence[Any], *, axes: Any, **params: Any) -> Any:
        (x,), (dim,) = args, dims
        axes = tuple([axis + (axis >= dim) for axis in axes])
        left = [axis for axis in range(x.ndim) if axis not in axes]
        return primitive.bind(x, axes=axes, **params), left.index(dim)

    primitive_batchers[primitive] = rule


def register_lowering(prim: Any, rule: Any, platform: str | None = None, inline: bool = True, cacheable: bool = True) -> Any:
    if platform is not None and platform not in KNOWN_PLATFORMS:
        raise NotImplementedError(
            f"register_lowering of {prim} names the platform {platform!r}, which there is not; there are"
            f" {', '.join(KNOWN_PLATFORMS)}."
        )
    lowerings.setdefault(prim, {})[platform] = rule
    return rule


def lower_fun(fun: Rule, multiple_results: bool = True) -> LowerFun:
    return LowerFun(fun, multiple_results)


def emit_python_callback(
    ctx: LoweringContext,
    callback: Rule,
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = False,
    **ignored: Any,
) -> Any:
    """Call Python in the middle of compiled code: the results, the token, and what must stay alive."""
    types = list(ctx.write.result_types)
    outs = ctx.write.host_call(lambda *hosts: callback(*hosts), list(operands), types, pure=not has_side_effect)
    return outs, token, None
