"""The transformations of functions at jax's top level: pullback's, of JAX's trees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import pullback as pb
from pullback.api.functions import trees_of
from pullback.compat.jax.jitting import jit
from pullback.compat.jax.structs import tangent_type, type_of
from pullback.compat.jax.tree_util import (
    Partial,
    register_pytree_node,
    register_static,
    tree_leaves,
    tree_map,
    tree_structure,
)
from pullback.compat.jax.trees import of_function, of_jax_trees
from pullback.core.array import as_array
from pullback.core.lazy import lazy_module

Function = Callable[..., Any]
tracing = lazy_module("pullback.compat.jax.tracing")


def _replaced(args: Sequence[Any], numbers: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """The arguments of a call, with others in some places."""
    full = list(args)
    for number, value in zip(numbers, values):
        full[number] = value
    return full


_OF_FUNCTIONS = (pb.grad, pb.value_and_grad, pb.jacfwd, pb.jacrev, pb.hessian)
grad, value_and_grad, jacfwd, jacrev, hessian = map(of_function, _OF_FUNCTIONS)
jacobian = jacrev


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


# ---- tangents and cotangents ------------------------------------------------------------------------------------------


def jvp(fun: Function, primals: Any, tangents: Any, has_aux: bool = False) -> tuple[Any, ...]:
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (list, tuple)):
            raise TypeError(
                f"jvp takes {name} in a tuple, with as many trees as the function has arguments, but got {given!r}."
            )
    _check_tangents("jvp", [type_of(leaf) for leaf in tree_leaves(primals)], tree_leaves(tangents), TypeError)
    return pb.jvp(of_jax_trees(fun), tuple(primals), tuple(tangents), has_aux=has_aux)


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

    def __init__(self, function: Any, primals: Sequence[Any] = ()) -> None:
        super().__init__(function)
        self._primals = primals

    def __call__(self, *cotangents: Any) -> Any:
        function: Any = self._function
        if self._args_res is not None:
            values, kept, *_ = self._parts()
            function = kept.put_together(values)
        return function(*cotangents)

    def _parts(self) -> tuple[list[Any], Any, tuple[int | None, ...], tuple[Any, ...]]:
        """What it keeps, itself without that, for each value the number of the leaf of the arguments that it is, and the
        structures of the arguments."""
        if self._apart is None:
            values, kept = self._function.taken_apart()
            places = {id(leaf): i for i, leaf in enumerate(tree_leaves(self._primals))}
            numbers = tuple([places.get(id(value)) for value in values])
            self._apart = values, kept, numbers, tuple(map(tree_structure, self._primals))
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
        _check_tangents("What linearize returned", self._function.shape.types, tree_leaves(tangents), ValueError)
        return self._function(*tangents)

    @property
    def func(self) -> Function:
        """As a function of the arrays that it keeps, in JAX: of which some print the Jaxpr."""
        shape = self._function.shape
        given = trees_of(shape.structures, [tangent_type(type) for type in shape.types])
        return functools.partial(self, tracing.make_jaxpr(self)(*given).jaxpr)


register_pytree_node(
    JvpFunction, lambda one: one._function.taken_apart(), lambda kept, values: JvpFunction(kept.put_together(values))
)


def _put_together(kept: Any, values: Sequence[Any]) -> VjpFunction:
    made = VjpFunction(kept[0].put_together(values))
    made._apart = list(values), *kept
    return made


register_pytree_node(VjpFunction, lambda one: (one._parts()[0], one._parts()[1:]), _put_together)


def vjp(fun: Function, *primals: Any, has_aux: bool = False, reduce_axes: Any = ()) -> tuple[Any, ...]:
    primals = tree_map(_as_one, primals)
    out, function, *aux = pb.vjp(of_jax_trees(fun), *primals, has_aux=has_aux)
    return (out, VjpFunction(function, primals), *aux)


def _as_one(leaf: Any) -> Any:
    """A number of which a derivative is asked for as the array that it will be."""
    return as_array(leaf) if isinstance(leaf, (float, complex)) else leaf


def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    out, function, *aux = pb.linearize(of_jax_trees(fun), *primals, has_aux=has_aux)
    return (out, JvpFunction(function), *aux)


_linear_transpose = of_function(pb.linear_transpose)


def linear_transpose(fun: Function, *primals: Any, reduce_axes: Any = ()) -> Function:
    return Partial(_linear_transpose(fun, *primals))  # which compiled functions take and return


# ---- batches ----------------------------------------------------------------------------------------------------------


_vmap = of_function(pb.vmap)


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

    if sum_match:
        raise NotImplementedError("vmap has no sum_match=True: sum the result along its batch axis.")
    made = _vmap(fun, in_axes, out_axes, axis_name, axis_size, spmd_axis_name=spmd_axis_name)
    if doc := getattr(fun, "__doc__", None):
        made.__doc__ = f"Vectorized version of {made.__name__}.\n\nOriginal documentation:\n\n{doc}"
    return made


_AXES = "an integer, None, or a tuple of such"


def _check_axes(name: str, axes: Any) -> None:
    for axis in tree_leaves(axes):
        if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
            raise TypeError(f"{name} is {_AXES}, or a tree of these, but {axis!r} of type {type(axis).__name__} is in it.")


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
) -> Function:
    """As pb.pmap. It can be lowered, as what `jit` returns."""
    there = pb.devices(backend) if devices is None and backend is not None else devices
    made = _pmap(
        fun,
        axis_name,
        in_axes=in_axes,
        out_axes=out_axes,
        static_broadcasted_argnums=static_broadcasted_argnums,
        devices=there,
        axis_size=axis_size,
        donate_argnums=donate_argnums,
    )
    made.lower = jit(made, static_argnums=static_broadcasted_argnums or None).lower
    return made


_pmap = of_function(pb.pmap)


def named_call(fun: Function, *, name: str | None = None) -> Function:
    return pb.named_scope(str(name or getattr(fun, "__name__", "call")))(fun)
