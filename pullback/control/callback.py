"""Python functions that run on the host in the middle of a computation: for what they do, or for what they return.

`callback` returns nothing and `io_callback` returns arrays; both have an effect, so they are never dropped, merged with
another like them, or repeated. They run once where they stand, in the order in which they are written, inside loops too; under
vmap once for every batch element, in order, if an operand is batched. Differentiation runs a `callback` on the primal values.

`pure_callback` promises to be a function of its operands: it may be dropped, merged, and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, HostArray, host_of, truths
from pullback.core.brief import brief
from pullback.core.dtypes import is_inexact, kind
from pullback.core.errors import DtypeError, GradientError, MissingRule, ShapeError
from pullback.core.primitive import Rules, primitive
from pullback.core.source import passing_source
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO
from pullback.ops.broadcast import repeated
from pullback.ops.shape import reshape

Levels = Sequence[tuple[int, tuple[bool, ...]]]


class Callback(Rules):
    """Rules of the operations that call `function` on copies of the operands' values, and return what it returns.

    `function` returns a sequence of arrays; `types` are theirs, and `function.names` are what errors call them. Without types,
    nothing is returned. `levels` are the batch axes that the operands carry in front, outermost first: the size of each, and
    which operands have it. The function is called once for every combination of their indices, and the results are stacked.
    `method` is what else to do under vmap.
    """

    cost = 0  # nobody sees what Python computes
    multiple_results = True
    on_arrays = True
    symbolic_zeros = True

    def result_type(
        *operands: ArrayType, function, types: tuple[ArrayType, ...] = (), method: str | None = "sequential", levels=()
    ):
        if any([kind(type.dtype) == "k" for type in [*operands, *types]]):
            raise DtypeError("Python functions take and return numbers, not random keys: pass pb.random.key_data(key).")
        sizes = tuple([size for size, _ in levels])
        return tuple([type.with_shape((*sizes, *type.shape)) for type in types])

    def evaluate(*arrays, function, types=(), method="sequential", levels=()):
        outs = stack_each(function, types, levels, [host_of(array) for array in arrays])
        sizes = tuple([size for size, _ in levels])
        return tuple([Array(type.with_shape((*sizes, *type.shape)), out) for type, out in zip(types, outs)])

    def lower(primitive, write, *values, function, types=(), method="sequential", levels=()):
        def on_host(*hosts):
            return stack_each(function, types, levels, hosts)

        return write.host_call(on_host, values, write.result_types, pure=primitive.effect is None)

    def jvp(primitive, primals, tangents, *, function, types=(), **params):
        if any(is_inexact(type.dtype) for type in types) and any(tangent is not ZERO for tangent in tangents):
            raise GradientError(
                f"{primitive.name} of {brief(function)} has no derivative: pullback cannot see what a Python function computes"
                f"{_here()}. Wrap the call in a function with a derivative of its own (pb.custom_jvp, pb.custom_vjp), or put"
                " pb.stop_gradient around its arguments where the derivative is zero."
            )
        outs = primitive(*primals, function=function, types=types, **params)
        return outs, (ZERO,) * len(outs)

    def vectorize(primitive, size, args, axes, *, function, types=(), method="sequential", levels=()):
        params = {"function": function, "method": method}
        if method == "sequential":
            here = (size, tuple([axis == 0 for axis in axes]))
            outs = primitive(*args, types=types, levels=(here, *levels), **params)
            return outs, (0,) * len(outs)
        if method is None:
            raise MissingRule(
                f"vmap of {primitive.name}({brief(function)}){_here()} needs to be told how: vmap_method='sequential' calls"
                " the function for each batch element, 'expand_dims' and 'broadcast_all' call it once with the whole batch in"
                " front."
            )
        if method == "expand_dims":
            args = [x if axis == 0 else reshape(x, new_sizes=(1, *type_of(x).shape)) for x, axis in zip(args, axes)]
        else:
            args = [x if axis == 0 else repeated(x, size) for x, axis in zip(args, axes)]
        types = tuple([type.with_shape((size, *type.shape)) for type in types])
        return primitive(*args, types=types, **params), (0,) * len(types)


@primitive
class callback(Callback):
    """Call `function`, a Python function, on the operands' values, for what it does."""

    effect = "callback"

    def samples(rng):
        yield (rng.normal(size=(3,)),), {"function": do_nothing}


def do_nothing(*arrays: HostArray) -> None:
    """Nothing."""


@primitive
class pure_callback(Callback):
    """What `function`, a Python function without side effects, returns for the operands' values."""


@primitive
class io_callback(Callback):
    """What `function`, a Python function, returns for the operands' values; it is called exactly once."""

    effect = "io"


@primitive
class check(Callback):
    """Raise what `function` finds to be wrong with the operands' values; a `checkify` around makes a callback of it that notes
    the error. Where one is compiled without that, nobody could be told: that is refused, or, if `function.debug`, left out."""

    effect = "check"

    def evaluate(*arrays, function, **params):
        return () if function.debug else Callback.evaluate(*arrays, function=function, **params)

    def lower(write, *values, function, **params):
        if not function.debug:
            raise ValueError(
                "A function that is compiled, or the body of a loop, makes a check, and no checkify is around it to say whether"
                " it holds: call checkify(f) in place of f, or make it with debug=True, which leaves it out."
            )
        return ()

    def samples(rng):
        yield (rng.normal(size=(3,)),), {"function": Nothing()}


class Nothing:
    """Finds nothing wrong."""

    debug = True

    def __call__(self, *arrays: HostArray) -> None:
        """Nothing."""


def _here() -> str:
    source = passing_source()
    return f" (at {source})" if source is not None else ""


def stack_each(
    function: Callable[..., Any], types: Sequence[ArrayType], levels: Levels, hosts: Sequence[HostArray]
) -> list[HostArray]:
    """What a function returns for every index of the batch axes that `hosts` carry in front, stacked. It gets copies."""
    if not levels:
        outs = function(*[np.array(host) for host in hosts])
        if not types:
            return []
        return [conform(out, type, name) for out, type, name in zip(outs, types, function.names, strict=True)]  # type: ignore[attr-defined]
    (size, batched), *inner = levels
    stacks = [np.empty((*[size for size, _ in levels], *type.shape), type.dtype) for type in types]
    for i in range(size):
        outs = stack_each(function, types, inner, [host[i] if flag else host for host, flag in zip(hosts, batched)])
        for stack, out in zip(stacks, outs):
            stack[i] = out
    return stacks


def conform(value: Any, type: ArrayType, name: str) -> HostArray:
    """A copy of what a Python function returned, if it is of the type that was announced for it."""
    if isinstance(value, int) and type.dtype.kind in "iu":
        bounds = np.iinfo(type.dtype)
        if not bounds.min <= value <= bounds.max:
            raise DtypeError(
                f"{name} is {value}, which does not fit into {type.dtype}, as result_shape_dtypes says. Announce a wider one."
            )
        value = np.array(value, type.dtype)
    array = np.array(np.asarray(value))  # an object that gives an array need not know of copies
    if array.shape != type.shape:
        raise ShapeError(
            f"{name} has shape {array.shape}, but result_shape_dtypes says {type}. A callback must return what was announced."
        )
    number = isinstance(value, (bool, int, float, complex))  # a Python number has no dtype of its own
    if array.dtype != type.dtype and not (number and np.can_cast(array.dtype, type.dtype, "same_kind")):
        raise DtypeError(
            f"{name} has dtype {array.dtype}, but result_shape_dtypes says {type}. Convert it in the callback (.astype)."
        )
    return truths(array) if array.dtype == np.bool_ == type.dtype else array.astype(type.dtype, copy=False)
