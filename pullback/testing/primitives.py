"""Checks of primitives: every rule of an operation against its other rules, on its own samples."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Sequence
from typing import Any

import numpy as np

import pullback.ops
from pullback.core.array import Array, as_array
from pullback.core.brief import brief, counted
from pullback.core.dtypes import is_inexact
from pullback.core.errors import DtypeError, ProgramError
from pullback.core.primitive import Primitive
from pullback.core.tracing import type_of
from pullback.testing import checks
from pullback.testing.values import CheckFailure, Flat, host, in_dtype, is_generic, parse_dtypes, random_like
from pullback.transforms.jvp import has_derivative


def all_primitives() -> list[Primitive]:
    """Every primitive that the modules of `pullback.ops` define, by name.

    Returns:
        A list of Primitives.

    Example:
        >>> import pullback as pb
        >>> [p.name for p in pb.testing.all_primitives()][:3]
        ['abs', 'acos', 'acosh']
    """
    found: dict[str, Primitive] = {}
    for module in pkgutil.iter_modules(pullback.ops.__path__, "pullback.ops."):
        members = vars(importlib.import_module(module.name)).values()
        found.update({member.name: member for member in members if isinstance(member, Primitive)})
    return [found[name] for name in sorted(found)]


def check_primitive(p: Primitive, *, dtypes: Sequence[Any] | None = None, rng: np.random.Generator | None = None) -> None:
    """Check all the rules of a primitive against each other, on every one of its samples.

    The type rule against real shapes and dtypes; jvp against finite differences; vjp against jvp; vmap against a loop, with
    each choice of batched arguments; compiled against eager, for each dtype; vmap of vjp, vjp of vmap, jvp of vjp, staged vjp;
    jet against jvp of jvp; its `sparsity` and `depends` rules; and, for an elementwise operation, arrays with no elements. What
    needs a derivative is left out if the primitive has no rule for one.

    Arguments:
        p: the primitive. A float64 or complex128 array in its samples stands for any dtype that `p.kinds` allows (without
            `kinds`: bools, integers, floating-point and complex numbers); arrays of other dtypes are used as they are. So
            `kinds` says what is tried: "f" for a primitive of real numbers.
        dtypes: the dtypes to try it with, instead of the usual ones of those kinds.
        rng: what `p.samples` gets, and where random directions come from.

    Raises:
        CheckFailure: two rules disagree, or there is not one sample; the message names the check and the sample.
        MissingRule: there is no `samples` rule, or a rule that is needed is missing.
        ProgramError: a rule returned what is not of the form, shape or dtype that it must have, or the type rule and results
            disagree; a note says for which sample, in which dtype.

    Example:
        >>> import pullback as pb
        >>> double = pb.Primitive("double", evaluate=lambda x: 2 * x, result_type=lambda x: x, kinds="f")
        >>> double.define("partials", lambda out, x: (x,))  # wrong: it should be 2
        >>> double.define("lower", lambda write, x: write.elementwise("stablehlo.add", x, x))
        >>> double.define("vectorize", lambda size, args, axes: (double(*args), 0))
        >>> double.define("samples", lambda rng: [((rng.normal(size=3),), {})])
        >>> pb.testing.check_primitive(double)
        Traceback (most recent call last):
            ...
        pullback.testing.CheckFailure: double, sample 0 (f64[3]): jvp against finite differences:
        ...
    """
    if not isinstance(p, Primitive):
        raise TypeError(
            f"check_primitive takes a Primitive, but got {brief(p)}. For a function, use check_gradients or check_transforms."
        )
    rng = rng or np.random.default_rng(0)
    if p.samples is None:
        raise p.missing("samples", "check_primitive")
    count = 0
    for args, params in p.samples(rng):
        _check_sample(p, args, params, parse_dtypes(dtypes, p.kinds), rng, f"{p.name}, sample {count}")
        count += 1
    if not count:
        raise CheckFailure(f"{p.name}: its `samples` rule yields none.")


def _check_sample(p: Primitive, args: Any, params: dict[str, Any], dtypes: Any, rng: np.random.Generator, claim: str) -> None:
    def function(*xs: Any) -> Sequence[Any]:
        out = p(*xs, **params)
        return out if p.multiple_results else [out]

    if not is_generic(args):
        _check_values(p, function, [as_array(np.asarray(arg)) for arg in args], params, claim)
        return
    taken = [(dtype, typed) for dtype in dtypes if (typed := in_dtype(args, dtype)) is not None and _takes(p, typed, params)]
    disagreement = _disagreement(p, function, [typed for _, typed in taken], claim)
    for dtype, typed in taken:
        try:
            _check_values(p, function, typed, params, claim, disagreement is not None)
        except (CheckFailure, ProgramError) as error:
            _say_whose_choice(error, p, dtype, describe(claim, typed, params))
            raise
        if p.depends is not None:
            _check_depends(p, function, typed, params, rng, claim)
        derived = has_derivative(p) or p.expand is not None  # by a rule of its own, or by those of what it expands to
        if dtype in (np.float64, np.complex128) and derived and checks.differentiable(function, typed):
            _check_derivatives(function, typed, params, rng, claim)
    if disagreement is not None:  # none of them disagrees by itself
        raise disagreement


def _disagreement(p: Primitive, function: Flat, samples: Sequence[Sequence[Array]], claim: str) -> Exception | None:
    """What `check_staged` says of a sample in all dtypes, in one program, which XLA compiles sooner than one for each."""
    samples = [one for args in samples for one in ((args, _empty(args)) if p.elementwise else (args,))]

    def together(*xs: Any) -> Sequence[Any]:
        given = iter(xs)
        return [out for args in samples for out in function(*itertools.islice(given, len(args)))]

    try:
        checks.check_staged(together, list(itertools.chain(*samples)), f"{claim}, in all dtypes")
    except Exception as error:
        return error
    return None


def _empty(args: Sequence[Array]) -> list[Array]:
    """Arguments of an elementwise operation, without elements."""
    return [as_array(np.zeros((0, 3), host(arg).dtype)) if type_of(arg).shape else arg for arg in args]


def _say_whose_choice(error: Exception, p: Primitive, dtype: Any, claim: str) -> None:
    """Add to an error which sample it is about, and that its dtype is not the user's choice."""
    if dtype.kind in "fc" and isinstance(error, CheckFailure):
        return
    error.args = (
        f"{error} That was in {claim}. check_primitive chose the dtype {dtype.name}, since the primitive's kinds are"
        f" {p.kinds!r}. If it is not for such numbers, say so: kinds='f' for floating-point numbers, say; or name the dtypes to"
        " try, check_primitive(p, dtypes=[...]).",
        *error.args[1:],
    )


def _takes(p: Primitive, args: Sequence[Array], params: dict[str, Any]) -> bool:
    """Whether the type rule accepts a sample in some other dtype than its own."""
    if p.result_type is None:
        return True
    try:
        p.result_type(*[type_of(arg) for arg in args], **params)
    except DtypeError:
        return False
    return True


def describe(claim: str, args: Sequence[Array], params: dict[str, Any]) -> str:
    """Which check, on what."""
    given = "".join(f", {name}={value!r}" for name, value in params.items())
    return f"{claim} ({', '.join(str(type_of(arg)) for arg in args)}{given})"


def _check_values(
    p: Primitive, function: Flat, args: Sequence[Array], params: dict[str, Any], claim: str, staged: bool = True
) -> None:
    claim = describe(claim, args, params)
    if staged:
        checks.check_staged(function, args, claim)
    if args:
        checks.check_batched(function, args, claim)
    if p.elementwise:
        empty = _empty(args)
        if staged:
            checks.check_staged(function, empty, f"{claim}, without elements")
        checks.check_batched(function, empty, f"{claim}, without elements", most=1)


def _check_depends(
    p: Primitive, function: Flat, args: Sequence[Array], params: dict[str, Any], rng: np.random.Generator, claim: str
) -> None:
    """Results that do not depend on an operand, as the `depends` rule says, are the same for another value of it."""
    outs = function(*args)
    for i, arg in enumerate(args):
        flags = tuple([int(i == j) for j in range(len(args))])
        reached = p.depends(flags, **params)  # type: ignore[misc]
        if len(reached) != len(outs):
            raise CheckFailure(f"{claim}: the depends rule says {brief(reached)} of {counted(len(outs), 'result')}.")
        if not is_inexact(type_of(arg).dtype):
            continue
        others = function(*args[:i], random_like(rng, arg), *args[i + 1 :])
        for which, (flag, before, after) in enumerate(zip(reached, outs, others)):
            if not flag and not np.array_equal(host(before), host(after), equal_nan=True):
                raise CheckFailure(
                    f"{claim}: result {which} changes with operand {i}, but the depends rule says that it does not."
                )


def _check_derivatives(
    function: Flat, args: Sequence[Array], params: dict[str, Any], rng: np.random.Generator, claim: str
) -> None:
    claim = describe(claim, args, params)
    numerically = checks.in_double(function, args)
    if numerically:
        checks.check_numerically(function, args, rng, claim)
    checks.check_adjoint(function, args, rng, claim)
    if numerically:
        checks.check_jet(function, args, rng, claim)
        checks.check_sparsity(function, args, claim)
    checks.check_nested(function, args, rng, claim, numerically)
