"""Loops, branches, solvers and callbacks: pullback's, of JAX's trees."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pullback as pb
from pullback.api.branches import branch_number, choose, predicate
from pullback.compat.jax import errors
from pullback.compat.jax.jitting import kept
from pullback.compat.jax.structs import type_of
from pullback.compat.jax.trees import flatten, of_jax_trees
from pullback.core.array import from_numpy
from pullback.core.dtypes import SHORT_NAMES, entering
from pullback.core.modes import current_mode
from pullback.core.source import describe, named_after
from pullback.core.tracing import Tracer
from pullback.numpy.methods import known_value

Function = Callable[..., Any]


def _callable(function: str, names: str, *given: Any) -> None:
    for one in given:
        if not callable(one):
            raise TypeError(f"lax.{function}: {one!r} of type {type(one).__name__}, given as {names}, is not callable.")


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    _callable("scan", "f", f)
    if not current_mode().compiles and any([np.shape(x)[:1] == (0,) for x in flatten(xs)[0]]):
        raise ValueError(
            "scan got xs of no elements while jit is disabled (jax.disable_jit), so f never runs and the type of its outputs"
            " cannot be known. Enable jit for it, or give xs an element."
        )
    for name, given in (("length", length), ("unroll", unroll)):
        if isinstance(given, Tracer):
            kinds = "an int" if name == "length" else "an int or a bool"
            raise errors.ConcretizationTypeError(
                f"scan needs the value of {name} when it is traced, {kinds}, but got {given!r}. Make it a static argument of"
                " the jitted function (static_argnums, static_argnames)."
            )

    return pb.lax.scan(kept(f), init, xs, length, reverse, unroll)


def while_loop(cond_fun: Function, body_fun: Function, init_val: Any) -> Any:
    _callable("while_loop", "body_fun and cond_fun", cond_fun, body_fun)
    return pb.lax.while_loop(kept(cond_fun), kept(body_fun), init_val)


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any, *, unroll: int | bool | None = None) -> Any:
    _callable("fori_loop", "body_fun", body_fun)
    types = [type_of(bound) for bound in (lower, upper)]
    if types[0].dtype != types[1].dtype and not any(type.weak for type in types):
        raise TypeError(
            f"fori_loop counts from lower to upper in one dtype, but lower is {types[0]} and upper is {types[1]}. Convert one"
            " with .astype."
        )
    lower, upper = [bound if (known := known_value(bound)) is None else known for bound in (lower, upper)]
    if unroll is not None and (isinstance(lower, Tracer) or isinstance(upper, Tracer)):
        raise ValueError(
            f"fori_loop unrolls a loop only whose bounds are known when it is traced, but got {unroll=} with a traced"
            f" {'lower' if isinstance(lower, Tracer) else 'upper'}. Leave unroll out, or make the bounds static arguments."
        )
    return pb.lax.fori_loop(lower, upper, kept(body_fun), init_val, unroll=unroll)


_NO_OPERAND = object()


def cond(pred: Any, *args: Any, operand: Any = _NO_OPERAND, linear: Any = None, **kwargs: Any) -> Any:
    if len(args) == 4 and not callable(args[0]):  # JAX's older form, with an operand for each function
        own, f, other, g = args
        return cond(pred, lambda x, _: f(x), lambda _, y: g(y), own, other)
    true_fun, false_fun, *operands = [*args, *[kwargs.pop(name) for name in ("true_fun", "false_fun") if name in kwargs]]
    operands = operands if operand is _NO_OPERAND else [operand]
    _callable("cond", "true_fun and false_fun", true_fun, false_fun)
    return _choose("cond", predicate(pred), [false_fun, true_fun], operands)


def switch(index: Any, branches: Sequence[Function], *operands: Any, operand: Any = _NO_OPERAND) -> Any:
    operands = operands if operand is _NO_OPERAND else (operand,)
    _callable("switch", "branches", *branches)
    if isinstance(index, (tuple, list)):
        raise TypeError(f"switch takes one integer as its index, but got {index!r}, of shape {np.shape(index)}.")
    if not branches:
        raise ValueError("switch needs at least one branch.")
    return _choose("switch", branch_number(index, len(branches)), branches, operands)


def _choose(what: str, index: Any, branches: Sequence[Function], operands: Sequence[Any]) -> Any:
    """What JAX's branches return: weak where the first one's results are, whatever the others return."""
    return choose(what, index, [kept(branch) for branch in branches], operands, weak_as_first=True)


def map(f: Function, xs: Any, *, batch_size: int | None = None) -> Any:
    if batch_size == 0:  # one batch
        return pb.vmap(of_jax_trees(f))(xs)
    return pb.lax.map(of_jax_trees(f), xs, batch_size=batch_size)


def associative_scan(fn: Function, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    _callable("associative_scan", "fn", fn)
    structure = flatten(elems, None)[1]

    @named_after(fn)
    def like_elems(a: Any, b: Any) -> Any:
        """What fn returns, whose containers may be others than those of elems: a tuple for a named one."""
        out = fn(a, b)
        leaves = flatten(out, None)[0]
        return structure.unflatten(leaves) if len(leaves) == structure.num_leaves else out

    return pb.lax.associative_scan(of_jax_trees(like_elems), elems, reverse, axis)


# ---- solvers ----------------------------------------------------------------------------------------------------------


def custom_root(f: Function, initial_guess: Any, solve: Function, tangent_solve: Function, has_aux: bool = False) -> Any:
    return pb.custom_root(of_jax_trees(f), initial_guess, of_jax_trees(solve), of_jax_trees(tangent_solve), has_aux)


def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    transposed = of_jax_trees(transpose_solve)
    return pb.custom_linear_solve(of_jax_trees(matvec), b, of_jax_trees(solve), transposed, symmetric, has_aux)


# ---- callbacks --------------------------------------------------------------------------------------------------------


def _narrowed(leaf: Any) -> Any:
    """A value of a callback's, of 64 bits only where there are any."""
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype in SHORT_NAMES:
        return leaf.astype(entering(leaf.dtype), copy=False)
    return leaf


def _check_results(structs: Any) -> None:
    """Raise ValueError where a callback's results are to be of 64 bits and there are none."""
    for leaf in flatten(structs, None)[0]:
        dtype = getattr(leaf, "dtype", None)
        if dtype in SHORT_NAMES and entering(dtype) != dtype:
            raise ValueError(
                f"result_shape_dtypes has {leaf!r}, but there are only 32 bits: ask for {entering(dtype)}, or set the option"
                " jax_enable_x64."
            )


_ANYTHING: Any = object()


def called(callback: Function, results: Any = _ANYTHING) -> Function:
    """A callback for pullback: it gets arrays, and what it returns need only have as many leaves as `results`."""

    @of_jax_trees
    @named_after(callback)
    def of_arrays(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs), None)
        given = [from_numpy(leaf) if isinstance(leaf, (np.ndarray, np.generic)) else leaf for leaf in leaves]
        args, kwargs = structure.unflatten(given)
        try:
            outs, own = flatten(callback(*args, **kwargs), None)
            wanted = own if results is _ANYTHING else flatten(results, None)[1]
            if wanted.num_leaves != len(outs):
                raise ValueError(
                    f"The callback {describe(callback)} returned {len(outs)} arrays, but result_shape_dtypes has"
                    f" {wanted.num_leaves}."
                )
            return wanted.unflatten([_narrowed(out) for out in outs])
        except Exception as error:  # clients look for what is JAX's, and in its text for what was raised
            text = "".join(traceback.format_exception(error)).rstrip()
            raise errors.JaxRuntimeError(f"INTERNAL: CpuCallback error calling callback: {text}") from error

    return of_arrays


def pure_callback(
    callback: Function,
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    _check_results(result_shape_dtypes)
    wrapped = called(callback, result_shape_dtypes)
    return pb.pure_callback(wrapped, result_shape_dtypes, *args, vmap_method=vmap_method, **kwargs)


def io_callback(
    callback: Function, result_shape_dtypes: Any, *args: Any, sharding: Any = None, ordered: bool = False, **kwargs: Any
) -> Any:
    _check_results(result_shape_dtypes)
    return pb.io_callback(called(callback, result_shape_dtypes), result_shape_dtypes, *args, ordered=ordered, **kwargs)
