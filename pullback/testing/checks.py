"""Single checks of a flat function of arrays, which returns a sequence of arrays. Each raises `CheckFailure`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback.control.call import call
from pullback.core.array import Array, as_array
from pullback.core.axes import Axis
from pullback.core.dtypes import is_inexact
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, instantiate
from pullback.ops.arithmetic import add, mul
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal
from pullback.testing.values import TOLERANCES, CheckFailure, Flat, assert_close, assert_same, batch_of, host, random_like, wide
from pullback.transforms.batch import batch_flat, materialize
from pullback.transforms.jet import jet_flat
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import linearize_flat
from pullback.transforms.simplify import simplify
from pullback.transforms.sparsity import jacobian_sparsity, pairs
from pullback.transforms.stage import replay, stage


def active_arguments(args: Sequence[Any]) -> list[bool]:
    """Which arguments have derivatives."""
    return [is_inexact(type_of(arg).dtype) for arg in args]


def pushed(function: Flat, flags: Sequence[bool]) -> Flat:
    """The function that maps the arguments, and tangents of the active ones, to tangents of the inexact results."""

    def push(*args: Any) -> list[Any]:
        given = iter(args[len(flags) :])
        primals = args[: len(flags)]
        tangents = [next(given) if flag else ZERO for flag in flags]
        outs, out_tangents = jvp_flat(function, primals, tangents)
        return [instantiate(t, type_of(o)) for o, t in zip(outs, out_tangents) if is_inexact(type_of(o).dtype)]

    return push


def pulled(function: Flat, flags: Sequence[bool]) -> Flat:
    """The function that maps the arguments, and cotangents of the inexact results, to cotangents of the active ones."""

    def pull(*args: Any) -> list[Any]:
        primals = args[: len(flags)]
        linearized = linearize_flat(function, primals, flags)
        given = iter(args[len(flags) :])
        cotangents = [next(given) if is_inexact(type_of(o).dtype) else ZERO for o in linearized.values]
        actives = [x for x, flag in zip(primals, flags) if flag]
        return [instantiate(c, type_of(x)) for x, c in zip(actives, linearized.pull(cotangents))]

    return pull


def random_cotangents(function: Flat, args: Sequence[Array], rng: np.random.Generator) -> list[Array]:
    """A random cotangent for each inexact result."""
    return [random_like(rng, out) for out in function(*args) if is_inexact(type_of(out).dtype)]


def check_staged(function: Flat, args: Sequence[Array], claim: str) -> None:
    """Staged, the function has the types that it has eagerly; compiled, it has the same values."""
    eager = function(*args)
    program, captures = stage(function, [type_of(arg) for arg in args])
    types = program.output_types
    for i, (value, type) in enumerate(zip(eager, types, strict=True)):
        real = type_of(value)
        held = np.shape(host(value)), host(value).dtype
        if real is not type:
            raise CheckFailure(f"{claim}, result {i}: staged it is of type {type}, but its value of type {real}.")
        if held != (type.shape, type.dtype):
            raise CheckFailure(f"{claim}, result {i}: its type is {type}, but it holds {held[1].name}{list(held[0])}.")
    given, simpler = [*captures, *args], simplify(program)
    if simpler == program:
        found = [call(*given, program=program)]
    else:  # in one program, since most of the time is XLA's for what they share
        pair = stage(lambda *xs: [*replay(program, xs), *replay(simpler, xs)], [type_of(x) for x in given])[0]
        outs = call(*given, program=pair)
        found = [outs[: len(types)], outs[len(types) :]]
    for which, values in zip(("compiled", "simplified and compiled"), found):
        assert_same(values, eager, f"{claim}: {which} against eager")


def differences(
    function: Flat, args: Sequence[Array], tangents: Sequence[Any], step: float | None = None
) -> list[tuple[Any, Any]]:
    """The inexact results, each with its derivative along a direction by finite differences, of fourth order.

    Source: Fornberg, Generation of finite difference formulas on arbitrarily spaced grids, Math. Comp. 51 (1988), table 1.
    """
    flags = active_arguments(args)
    step = step or 2.0**-11

    def moved(by: float) -> list[Any]:
        given = iter(tangents)
        return [as_array(host(x) + by * host(next(given))) if flag else x for x, flag in zip(args, flags)]

    outs = function(*args)
    inexact = [i for i, out in enumerate(outs) if is_inexact(type_of(out).dtype)]
    total = [np.zeros(type_of(outs[i]).shape, complex) for i in inexact]
    for by, weight in ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12)):
        values = function(*moved(by * step))
        with np.errstate(all="ignore"):
            total = [t + weight / step * wide(values[i]) for t, i in zip(total, inexact)]
    results = [wide(outs[i]) for i in inexact]
    return [(out, numeric if np.iscomplexobj(out) else numeric.real) for out, numeric in zip(results, total)]


def check_numerically(
    function: Flat, args: Sequence[Array], rng: np.random.Generator, claim: str, tolerance: float = 1e-5
) -> None:
    """The tangent along a random direction is what finite differences give, in double precision."""
    flags = active_arguments(args)
    tangents = [random_like(rng, arg) for arg, flag in zip(args, flags) if flag]
    expected = differences(function, args, tangents)
    found = pushed(function, flags)(*args, *tangents)
    for (out, numeric), tangent in zip(expected, found, strict=True):
        defined, claimed = np.isfinite(out), wide(tangent)
        if claimed.shape != out.shape:
            raise CheckFailure(f"{claim}: a tangent has shape {claimed.shape}, but its result {out.shape}.")
        assert_close(claimed[defined], numeric[defined], f"{claim}: jvp against finite differences", tolerance)


def check_adjoint(
    function: Flat, args: Sequence[Array], rng: np.random.Generator, claim: str, numerically: bool = False
) -> None:
    """For random v and w: Re<w, J v> is Re<J^T w, v>, with J^T w from reverse mode, and J v from forward mode; or
    `numerically`, by finite differences, for functions that have a vjp rule alone."""
    flags = active_arguments(args)
    actives = [arg for arg, flag in zip(args, flags) if flag]
    tangents = [random_like(rng, arg) for arg in actives]
    if numerically:
        found = differences(function, args, tangents)
        if not all(np.isfinite(out).all() for out, _ in found):  # there are no differences of infinities
            return
        forward: Sequence[Any] = [numeric for _, numeric in found]
    else:
        forward = pushed(function, flags)(*args, *tangents)
    cotangents = [random_like(rng, out) for out in forward]
    back = pulled(function, flags)(*args, *cotangents)
    for x, cotangent in zip(actives, back, strict=True):
        if type_of(cotangent).shape != type_of(x).shape or type_of(cotangent).dtype != type_of(x).dtype:
            raise CheckFailure(f"{claim}: the cotangent of {type_of(x)} is {type_of(cotangent)}.")
    left = [wide(w) * wide(t) for w, t in zip(cotangents, forward)]
    right = [wide(c) * wide(t) for c, t in zip(back, tangents)]
    if any(not np.isfinite(part).all() for part in [*left, *right]):
        if all(np.isfinite(part).all() for part in left) != all(np.isfinite(part).all() for part in right):
            raise CheckFailure(f"{claim}: only one of jvp and vjp is finite:\n{left}\nagainst\n{right}")
        return
    size = 1.0 + sum(float(np.abs(part).sum()) for part in left)
    forward_total, back_total = (sum(float(np.real(part).sum()) for part in parts) for parts in (left, right))
    tolerance = 500 * max([TOLERANCES.get(type_of(x).dtype.name, 1e-3) for x in [*actives, *forward]], default=1e-12)
    claim += ": <J^T w, v> against <w, J v>" + (" by finite differences" if numerically else "")
    assert_close(np.float64(back_total / size), np.float64(forward_total / size), claim, 1e-5 if numerically else tolerance)


def check_batched(function: Flat, args: Sequence[Array], claim: str, most: int = 8) -> None:
    """vmap gives what a loop over the batch elements gives, for each choice of batched arguments; also where there are none."""
    size = 3
    empty_types = [type.with_shape((0, *type.shape)) for type in map(type_of, function(*args))]
    for flags in _choices(len(args), most):
        full = [batch_of(arg, size) if flag else arg for arg, flag in zip(args, flags)]
        outs = batched(function, flags, size)(*full)
        rows = [
            [host(out) for out in function(*[as_array(host(x)[i]) if f else x for x, f in zip(full, flags)])]
            for i in range(size)
        ]
        looped = [np.stack(values) for values in zip(*rows)]
        chosen = ", ".join("batched" if flag else "not" for flag in flags)
        assert_same(outs, looped, f"{claim}: vmap (arguments {chosen}) against a loop")
        empty = [as_array(host(arg)[:0]) if flag else arg for arg, flag in zip(full, flags)]
        found = [type_of(out).strong() for out in batched(function, flags, 0)(*empty)]
        if found != [type.strong() for type in empty_types]:
            raise CheckFailure(f"{claim}: vmap (arguments {chosen}) of no elements gives {found}, not {empty_types}.")


def batched(function: Flat, flags: Sequence[bool], size: int, name: Any = None) -> Flat:
    """vmap of a flat function over the arguments that are flagged."""

    def over_batch(*args: Any) -> list[Any]:
        trace, outs = batch_flat(function, args, flags, Axis(size, name))
        return [materialize(trace, out) for out in outs]

    return over_batch


def _choices(count: int, most: int) -> Iterator[tuple[bool, ...]]:
    """Which of `count` arguments to batch: all choices, or, if those are too many, all together and each alone."""
    if 2**count - 1 <= most:
        yield from (flags for flags in itertools.product((True, False), repeat=count) if any(flags))
        return
    yield (True,) * count
    yield from (tuple(i == j for j in range(count)) for i in range(count))


def differentiable(function: Flat, args: Sequence[Array]) -> bool:
    """Whether some argument and some result are of a dtype with derivatives."""
    return any(active_arguments(args)) and any(is_inexact(type.dtype) for type in out_types(function, args))


def in_double(function: Flat, args: Sequence[Array]) -> bool:
    """Whether finite differences can be trusted: everything that has derivatives is in double precision."""
    dtypes = [type.dtype for type in (*[type_of(arg) for arg in args], *out_types(function, args)) if is_inexact(type.dtype)]
    return all(dtype in (np.float64, np.complex128) for dtype in dtypes)


def out_types(function: Flat, args: Sequence[Array]) -> tuple[ArrayType, ...]:
    """The types of a function's results."""
    return stage(function, [type_of(arg) for arg in args])[0].output_types


def check_nested(function: Flat, args: Sequence[Array], rng: np.random.Generator, claim: str, numerically: bool) -> None:
    """Transformations of transformations: vmap of vjp, vjp of vmap, jvp of vjp, staged jvp and vjp."""
    flags = active_arguments(args)
    tangents = [random_like(rng, arg) for arg, flag in zip(args, flags) if flag]
    push, pull = pushed(function, flags), pulled(function, flags)
    cotangents = [random_like(rng, out) for out in push(*args, *tangents)]

    def both(*xs: Any) -> list[Any]:
        return [*push(*xs), *pull(*xs[: len(args)], *cotangents)]

    check_staged(both, [*args, *tangents], f"{claim}: jvp and vjp")
    check_batched(pull, [*args, *cotangents], f"{claim}: vjp", most=1)
    over_batch = batched(function, [True] * len(args), 3)
    check_adjoint(over_batch, [batch_of(arg) for arg in args], rng, f"{claim}: vmap")
    if numerically:
        check_numerically(pull, [*args, *cotangents], rng, f"{claim}: vjp", 1e-4)
        check_adjoint(pull, [*args, *cotangents], rng, f"{claim}: vjp")


def check_jet(function: Flat, args: Sequence[Array], rng: np.random.Generator, claim: str, order: int = 3) -> None:
    """The derivatives along a curve that Taylor mode gives are those of jvp within jvp, up to an order.

    Raises `CheckFailure`; both are computed in the arguments' own precision.
    """
    flags = active_arguments(args)
    series = [[random_like(rng, arg) for _ in range(order)] if flag else [ZERO] * order for arg, flag in zip(args, flags)]
    outs, found = jet_flat(function, args, series, order)
    inexact = [i for i, out in enumerate(outs) if is_inexact(type_of(out).dtype)]

    def along(t: Any, k: int) -> list[Any]:
        """The derivatives of order k at t of the function on the curve x + sum_j t^j x^(j) / j!."""
        if k:
            return jvp_flat(lambda t: along(t, k - 1), [t], [one])[1]
        points: list[Any] = []
        for x, terms, flag in zip(args, series, flags):
            total: Any = None
            if flag:
                at = convert_element_type(t, new_dtype=type_of(x).dtype)
                total = terms[-1]
                for j in range(order, 0, -1):  # Horner's rule
                    total = mul(mul(total, at), literal(1 / j, x))
                    total = add(terms[j - 2] if j > 1 else x, total)
            points.append(total if flag else x)
        values = function(*points)
        return [values[i] for i in inexact]

    one, start = (as_array(np.ones((), np.float64)), as_array(np.zeros((), np.float64)))
    for k in range(1, order + 1):
        for i, nested in zip(inexact, along(start, k), strict=True):
            term = wide(instantiate(found[i][k - 1], type_of(outs[i])))
            expected = wide(instantiate(nested, type_of(outs[i])))
            defined = np.isfinite(expected)
            assert_close(term[defined], expected[defined], f"{claim}: derivative {k} by jet against jvp of jvp", 1e-9)


def check_sparsity(function: Flat, args: Sequence[Array], claim: str) -> None:
    """No derivative is nonzero where the sparsity pattern has no entry, other arguments being known or not."""
    flags = active_arguments(args)
    program, captures = stage(function, [type_of(arg) for arg in args])
    for which, flag in enumerate(flags):
        if not flag or not type_of(args[which]).size:
            continue
        alone, others = stage(lambda x, i=which: function(*args[:i], x, *args[i + 1 :]), [type_of(args[which])])
        shape, dtype = type_of(args[which]).shape, type_of(args[which]).dtype
        size = type_of(args[which]).size
        rows = batched(pushed(function, [i == which for i in range(len(args))]), [False] * len(args) + [True], size)
        columns = rows(*args, as_array(np.eye(size, dtype=dtype).reshape(size, *shape)))
        for found in (jacobian_sparsity(program, len(captures) + which), jacobian_sparsity(alone, len(others))):
            kept = [own for own, type in zip(found.outputs, program.output_types, strict=True) if is_inexact(type.dtype)]
            for own, column in zip(kept, columns, strict=True):
                nonzero = host(column).reshape(size, -1).T != 0
                allowed = np.zeros(nonzero.shape, bool)
                allowed[pairs(own)] = True
                if (nonzero & ~allowed).any():
                    raise CheckFailure(
                        f"{claim}: the derivative with respect to argument {which} is nonzero outside its sparsity pattern."
                    )
