"""The transformations of functions at jax's top level: pullback's, of JAX's trees."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import pullback as pb
from pullback.api.functions import chosen_arguments, normalize_argnums, trees_of, wrapped
from pullback.api.traced import call_paths
from pullback.compat.jax.jitting import jit
from pullback.compat.jax.structs import tangent_type, type_of
from pullback.compat.jax.tree_util import (
    Partial,
    register_pytree_node,
    register_static,
    tree_flatten,
    tree_leaves,
    tree_map,
    up_to,
)
from pullback.compat.jax.trees import JAX_TREES, Packed, flatten, on_a_level, pack, packed, standing_for, unpack
from pullback.core.array import as_array
from pullback.core.errors import PullbackError
from pullback.core.lazy import lazy_module
from pullback.core.source import api_boundary, describe, named_after

Function = Callable[..., Any]
tracing = lazy_module("pullback.compat.jax.tracing")


def _pair(fun: Function, out: Any) -> tuple[Any, Packed]:
    """What a function returned with has_aux: its output, and the rest packed."""
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise TypeError(
            f"With has_aux=True, {describe(fun)} must return a two-element tuple (output, auxiliary), but it returned {out!r}."
        )
    return out[0], Packed(out[1])


def _replaced(args: Sequence[Any], numbers: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """The arguments of a call, with others in some places."""
    full = list(args)
    for number, value in zip(numbers, values):
        full[number] = value
    return full


def _packed(fun: Function, has_aux: bool) -> Function:
    """A function of JAX's trees as one of Packed trees, which returns one; or, with an auxiliary result, two."""
    if not has_aux:
        return packed(fun)

    @named_after(fun)
    @on_a_level
    def pair(*args: Any, **kwargs: Any) -> tuple[Packed, Packed]:
        out, aux = _pair(fun, fun(*unpack(args), **kwargs))
        return Packed(out), aux

    return pair


# ---- gradients --------------------------------------------------------------------------------------------------------


def _of_arguments(transform: Function, fun: Function, argnums: Any, **options: Any) -> Function:
    """A function that differentiates with respect to arguments by their numbers, by pullback's one of Packed trees."""

    def differentiated(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(fun, argnums, len(args), kwargs, transform.__name__)

        @named_after(fun)
        @on_a_level
        def of_packed(*parts: Packed) -> Any:
            return fun(*_replaced(args, numbers, unpack(parts)), **kwargs)

        places: Any = 0 if isinstance(argnums, int) else tuple(range(len(numbers)))
        return _unpacked(transform(of_packed, places, **options)(*pack([args[i] for i in numbers])))

    return wrapped(fun, transform.__name__, differentiated)


def _unpacked(found: Any) -> Any:
    """Trees for Packed trees, in tuples and in one another."""
    if isinstance(found, Packed):
        return found.structure.unflatten([_unpacked(leaf) for leaf in found.leaves])
    return tuple([_unpacked(one) for one in found]) if isinstance(found, tuple) else found


def value_and_grad(
    fun: Function,
    argnums: Any = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Any = (),
) -> Function:
    options = {"has_aux": has_aux, "holomorphic": holomorphic, "allow_int": allow_int}
    return _of_arguments(pb.value_and_grad, _scalar(fun, has_aux), argnums, **options)


def grad(
    fun: Function,
    argnums: Any = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Any = (),
) -> Function:
    options = {"has_aux": has_aux, "holomorphic": holomorphic, "allow_int": allow_int}
    return _of_arguments(pb.grad, _scalar(fun, has_aux), argnums, **options)


def _scalar(fun: Function, has_aux: bool) -> Function:
    """A function whose result is to be a number, with its auxiliary result packed."""
    return named_after(fun)(lambda *args, **kwargs: _pair(fun, fun(*args, **kwargs))) if has_aux else fun


def fwd_and_bwd(fun: Function, argnums: Any = 0, has_aux: bool = False, jitted: bool = True) -> tuple[Function, Function]:
    """A function that computes forward, and keeps what the other one needs to go back from a cotangent."""
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def forward(*args: Any, **kwargs: Any) -> Any:
        def of_chosen(*chosen: Any) -> Any:
            return fun(*_replaced(args, numbers, chosen), **kwargs)

        return vjp(of_chosen, *[args[number] for number in numbers], has_aux=has_aux)

    def backward(kept: Any, cotangent: Any) -> Any:
        found = kept(cotangent)
        return found[0] if isinstance(argnums, int) else found

    return (jit(forward), jit(backward)) if jitted else (forward, backward)


# ---- Jacobians --------------------------------------------------------------------------------------------------------


def jacfwd(fun: Function, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False) -> Function:
    return _of_arguments(pb.jacfwd, _packed(fun, has_aux), argnums, has_aux=has_aux, holomorphic=holomorphic)


def jacrev(
    fun: Function, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Function:
    options = {"has_aux": has_aux, "holomorphic": holomorphic, "allow_int": allow_int}
    return _of_arguments(pb.jacrev, _packed(fun, has_aux), argnums, **options)


jacobian = jacrev


def hessian(fun: Function, argnums: Any = 0, has_aux: bool = False, holomorphic: bool = False) -> Function:
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


# ---- tangents and cotangents ------------------------------------------------------------------------------------------


def jvp(fun: Function, primals: Any, tangents: Any, has_aux: bool = False) -> tuple[Any, ...]:
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (list, tuple)):
            raise TypeError(
                f"jvp takes {name} in a tuple, with as many trees as the function has arguments, but got {given!r}."
            )
    _check_tangents("jvp", [type_of(leaf) for leaf in tree_leaves(primals)], tree_leaves(tangents), TypeError)
    return unpack(pb.jvp(_packed(fun, has_aux), pack(primals), pack(tangents), has_aux=has_aux))


class LinearFunction:
    """A derivative at a point, of JAX's trees. It is a container of what it keeps."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __repr__(self) -> str:
        return repr(self._function)


def _check_tangents(name: str, types: Sequence[Any], tangents: Sequence[Any], error: type[Exception]) -> None:
    """Raise unless tangents have the dtypes of what they belong to."""
    for type, tangent in zip(types, tangents):
        wanted, given = tangent_type(type), type_of(tangent)
        if wanted.dtype != given.dtype:
            raise error(
                f"{name} takes for each primal a tangent of its dtype, or of float0 where it is of integers. The primal is of"
                f" {type.dtype}, so its tangent is of {wanted.dtype}, but it is of {given.dtype}."
            )


@dataclass(frozen=True)
class NotNeeded:
    """Among `args_res`: in the place of what the derivative does not need."""


@dataclass(frozen=True)
class GradValue:
    """For `with_refs`: the cotangent is to be returned."""


@dataclass(frozen=True)
class DontWant:
    """For `with_refs`: the cotangent is not needed."""


@register_static
@dataclass(frozen=True)
class DidntWant:
    """In the place of a cotangent that was not needed."""


@register_static
@dataclass(frozen=True)
class GradRef:
    """In the place of a cotangent that was added to a Ref."""


ad = SimpleNamespace(DontWant=DontWant, DidntWant=DidntWant, GradValue=GradValue, GradRef=GradRef)


class VjpFunction(LinearFunction):
    """What `vjp` returns: from a cotangent to those of the arguments."""

    _args_res: Any = None  # once somebody has looked at them
    _apart: Any = None

    def __init__(self, function: Any, primals: Sequence[Packed] = ()) -> None:
        super().__init__(function)
        self._primals = primals

    def __call__(self, *cotangents: Any) -> Any:
        function: Any = self._function
        if self._args_res is not None:
            values, kept, *_ = self._parts()
            function = kept.put_together(values)
        return unpack(function(*pack(cotangents)))

    def _parts(self) -> tuple[list[Any], Any, tuple[int | None, ...], tuple[Any, ...]]:
        """What it keeps, itself without that, for each value the number of the leaf of the arguments that it is, and the
        structures of the arguments."""
        if self._apart is None:
            values, kept = self._function.taken_apart()
            leaves = [leaf for arg in self._primals for leaf in arg.leaves]
            places = {id(leaf): i for i, leaf in enumerate(leaves)}
            numbers = tuple([places.get(id(value)) for value in values])
            self._apart = values, kept, numbers, tuple([arg.structure for arg in self._primals])
        values, kept, numbers, structures = self._apart
        if self._args_res is not None:
            given = [leaf for tree, one in zip(self._args_res, structures) for leaf in one.flatten_up_to(tree)]
            values = [value if i is None else given[i] for i, value in zip(numbers, values)]
        return values, kept, numbers, structures

    @property
    def args_res(self) -> list[Any]:
        """The arguments, as far as it keeps them; others may be put in their places."""
        if self._args_res is None:
            values, _, numbers, structures = self._parts()
            kept = dict(zip(numbers, values))
            leaves = iter([kept.get(i, NotNeeded()) for i in range(sum([one.num_leaves for one in structures]))])
            self._args_res = [one.unflatten([next(leaves) for _ in range(one.num_leaves)]) for one in structures]
        found: list[Any] = self._args_res
        return found

    @args_res.setter
    def args_res(self, args: Sequence[Any]) -> None:
        self._args_res = list(args)

    @property
    def opaque_residuals(self) -> list[Any]:
        """What it keeps besides its arguments."""
        values, _, numbers, _ = self._parts()
        return [value for i, value in zip(numbers, values) if i is None]

    def with_refs(self, *refs: Any) -> Function:
        """The function that adds cotangents to the Refs given for arguments, and returns those of others."""

        def adding(*cotangents: Any) -> Any:
            return tuple([tree_map(_added, ref, found) for ref, found in zip(refs, self(*cotangents))])

        return adding


def _added(ref: Any, found: Any) -> Any:
    if isinstance(ref, pb.Ref):
        ref[...] = ref[...] + found
        return GradRef()
    return DidntWant() if isinstance(ref, DontWant) else found


class JvpFunction(LinearFunction):
    """What `linearize` returns: from tangents to the output's."""

    def __call__(self, *tangents: Any) -> Any:
        given = pack(tangents)
        leaves = [leaf for tangent in given for leaf in tangent.leaves]
        _check_tangents("What linearize returned", self._function.shape.types, leaves, ValueError)
        return self._function(*given).tree

    @property
    def func(self) -> Function:
        """As a function of the arrays that it keeps, in JAX: of which some print the Jaxpr."""
        shape = self._function.shape
        given = trees_of(shape.structures, [tangent_type(type) for type in shape.types])
        return functools.partial(self, tracing.make_jaxpr(self)(*unpack(given)).jaxpr)


register_pytree_node(
    JvpFunction, lambda one: one._function.taken_apart(), lambda kept, values: JvpFunction(kept.put_together(values))
)


def _put_together(kept: Any, values: Sequence[Any]) -> VjpFunction:
    made = VjpFunction(kept[0].put_together(values))
    made._apart = list(values), *kept
    return made


register_pytree_node(VjpFunction, lambda one: (one._parts()[0], one._parts()[1:]), _put_together)


def vjp(fun: Function, *primals: Any, has_aux: bool = False, reduce_axes: Any = ()) -> tuple[Any, ...]:
    given = [Packed.of(arg.structure, [_as_one(leaf) for leaf in arg.leaves]) for arg in pack(primals)]
    out, function, *aux = pb.vjp(_packed(fun, has_aux), *given, has_aux=has_aux)
    return (out.tree, VjpFunction(function, given), *unpack(aux))


def _as_one(leaf: Any) -> Any:
    """A number of which a derivative is asked for as the array that it will be."""
    return as_array(leaf) if isinstance(leaf, (float, complex)) else leaf


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    out, function, *aux = pb.linearize(_packed(fun, has_aux), *pack(primals), has_aux=has_aux)
    return (out.tree, JvpFunction(function), *unpack(aux))


def linear_transpose(fun: Function, *primals: Any, reduce_axes: Any = ()) -> Function:
    function = pb.linear_transpose(packed(fun), *pack(primals))
    # which compiled functions take and return
    return Partial(api_boundary(lambda cotangent: unpack(function(Packed(cotangent)))))


# ---- batches ----------------------------------------------------------------------------------------------------------


def vmap(
    fun: Function,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    sum_match: bool = False,
) -> Function:
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    _check_axes("vmap in_axes", in_axes)
    _check_axes("vmap out_axes", out_axes)
    if isinstance(in_axes, dict):
        raise TypeError(f"vmap takes as in_axes {_AXES}, with one of them for each argument, but got the dict {in_axes}.")

    def batched(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise ValueError(
                f"vmap's in_axes={in_axes} has axes for {len(in_axes)} arguments, but the function was called with"
                f" {len(args)} by position. Give one for each, None where an argument has no batch."
            )
        leaves, structure = flatten((args, kwargs), None)
        axes = _axes("in_axes", in_axes, args) + [0] * (len(leaves) - len(flatten(args, None)[0]))
        placed: list[Any] = []  # where the leaves of the output are to have their batch: known when the function has returned
        found: Any = None

        @standing_for(fun)
        @on_a_level
        def of_leaves(*inner: Any) -> list[Any]:
            nonlocal found
            inner_args, inner_kwargs = structure.unflatten(inner)
            out = fun(*inner_args, **inner_kwargs)
            outs, found = flatten(out, None)
            placed.extend(_axes("out_axes", out_axes, out))
            return outs

        try:
            outs = pb.vmap(of_leaves, tuple(axes), placed, axis_name, axis_size)(*leaves)
        except PullbackError as error:
            paths = call_paths(fun, args, {}, JAX_TREES) + JAX_TREES.paths(kwargs, "kwargs")
            _name_leaves(error, paths)
            raise
        return found.unflatten(outs)

    made = wrapped(fun, "vmap", batched)
    if doc := getattr(fun, "__doc__", None):
        made.__doc__ = f"Vectorized version of {getattr(fun, '__name__', fun)}.\n\nOriginal documentation:\n\n{doc}"
    return made


def _name_leaves(error: BaseException, paths: list[str]) -> None:
    """Call the leaves of a call, which an error has by their numbers, by their paths."""
    text = re.sub(r"args\[(\d+)\]", lambda found: paths[int(found[1])], str(error.args[0]))
    error.args = (text, *error.args[1:])


_AXES = "an integer, None, or a tuple of such"


def _check_axes(name: str, axes: Any) -> None:
    for axis in tree_leaves(axes):
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
            raise TypeError(f"{name} is {_AXES}, or a tree of these, but {axis!r} of type {type(axis).__name__} is in it.")


def _axes(name: str, axes: Any, tree: Any) -> list[Any]:
    """An axis, or None, for each leaf of a tree, of a prefix of it."""
    is_leaf = lambda axis: axis is None  # noqa: E731
    leaves, structure = tree_flatten(axes, is_leaf)
    try:
        parts = up_to(structure, axes, tree, is_leaf, name)
    except ValueError as error:
        raise ValueError(
            f"vmap's {name}={axes} does not fit the trees that it is for: each axis in it stands for a leaf or a whole part."
            f" {error}"
        ) from None
    return [axis for axis, part in zip(leaves, parts) for _ in tree_leaves(part)]


def pmap(
    fun: Function,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: Any = (),
    devices: Any = None,
    backend: Any = None,
    axis_size: int | None = None,
    donate_argnums: Any = (),
    global_arg_shapes: Any = None,
) -> Function:
    """A batch, compiled, on one device. More elements than devices are refused, as in JAX."""
    static, _ = chosen_arguments(fun, static_broadcasted_argnums, None, "pmap's static_broadcasted")

    @named_after(fun)
    def of_batch(*args: Any, **kwargs: Any) -> Any:
        if any([not -len(args) <= number < len(args) for number in static]):
            raise ValueError(
                f"pmap's static_broadcasted_argnums={static_broadcasted_argnums} names an argument that this call has not by"
                f" position: it has {len(args)} so."
            )
        fixed = {number % len(args) for number in static}
        mapped = [i for i in range(len(args)) if i not in fixed]
        axes = tuple([in_axes[i] for i in mapped]) if isinstance(in_axes, (tuple, list)) else in_axes
        given = tuple([args[i] for i in mapped])
        leaves = [*zip(tree_leaves(given), _axes("in_axes", axes, given)), *[(leaf, 0) for leaf in tree_leaves(kwargs)]]
        sizes = [leaf.shape[axis] for leaf, axis in leaves if axis is not None and leaf.ndim]
        if not sizes:
            raise ValueError(
                f"pmap takes the number of elements from the arguments that it maps, but got none of them with {in_axes=}: give"
                " one an axis."
            )
        if max(sizes) > (there := len(pb.devices())):
            raise ValueError(
                f"pmap was given {max(sizes)} elements, one for each device, but the number of devices is {there}. jax.vmap"
                f" takes any number; XLA_FLAGS=--xla_force_host_platform_device_count={max(sizes)} divides a CPU into as many."
            )

        @named_after(fun)
        def of_element(*elements: Any, **kwargs: Any) -> Any:
            return fun(*_replaced(args, mapped, elements), **kwargs)

        return vmap(of_element, axes, out_axes, axis_name, axis_size)(*given, **kwargs)

    return jit(of_batch, static_argnums=static, donate_argnums=donate_argnums)


def named_call(fun: Function, *, name: str | None = None) -> Function:
    return pb.named_scope(str(name or getattr(fun, "__name__", "call")))(fun)
