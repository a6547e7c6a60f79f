"""Taylor mode: derivatives of every order up to n at once, at a cost polynomial in n."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.functions import FlatArguments, P, R, check_callable, wrapped
from pullback.api.tangents import FlatResult, check_pairs, fit_tangent, tangent_result, tree_in_brief
from pullback.core.brief import brief
from pullback.core.dtypes import is_inexact
from pullback.core.errors import GradientError, StructureError
from pullback.core.source import api_boundary
from pullback.core.tracing import type_of
from pullback.core.trees import LEAF, structure_paths
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO
from pullback.transforms.jet import jet_flat


@api_boundary
def jet(fun: Callable[..., R], primals: Sequence[Any], series: Sequence[Any]) -> tuple[R, Any]:
    """The value of a function along a curve, and its derivatives with respect to the curve's parameter, up to an order n.

    For a curve x(t) that starts at x(0) = `primals` with the derivatives x'(0), x''(0), ..., x^(n)(0) in `series`, these are
    f(x(t)) and its derivatives of orders 1 to n, all at t = 0. The terms of a series are derivatives, not the coefficients
    of a Taylor polynomial: these are the derivatives divided by k!. The convention is that of `jax.experimental.jet`.

    Arguments:
        fun: a function of arrays and pytrees.
        primals: the arguments to evaluate it at, a tuple or list.
        series: for each argument a list of its derivatives, [x', x'', ...], all lists of the same length n, each derivative
            of the argument's shape and dtype. For an argument that is a tree, a tree like it with such a list in the place of
            each leaf. A derivative may be None, which is zero, as are the Python numbers 0 and 0.0: unlike an array of zeros
            they are known to be so, and cost nothing.

    Returns:
        `(output, output series)`: the second is like the output, with the list of its derivatives in the place of each leaf.

    Raises:
        StructureError: the lists are not of one length, or do not fit the primals. ShapeError, DtypeError: nor do their
            entries. MissingRule: an operation has no derivative.

    Example: x^3 at x = 2 + t has the derivatives 12, 12, 6; exp of t^2, which has the derivatives 0, 2, has 0, 2 at 0.
        >>> import pullback as pb
        >>> pb.jet(lambda x: x**3, (2.0,), ([1.0, 0, 0],))
        (8.0:f32[]:cpu(0), [12.0:f32[]:cpu(0), 12.0:f32[]:cpu(0), 6.0:f32[]:cpu(0)])
        >>> pb.jet(pb.numpy.exp, (0.0,), ([0, 2.0],))
        (1.0:f32[]:cpu(0), [0.0:f32[]:cpu(0), 2.0:f32[]:cpu(0)])

    Source: Griewank and Walther, Evaluating Derivatives, 2nd ed. (2008), chapter 13; Bettencourt, Johnson and Duvenaud,
    Taylor-mode automatic differentiation for higher-order derivatives in JAX (2019).
    """
    check_callable(fun, "jet")
    check_pairs("jet", "series", primals, series)
    flat = FlatArguments(fun, primals, {})
    lists: list[Any] = []
    paths: list[str] = []
    for number, (structure, entry) in enumerate(zip(flat.structures, series, strict=True)):
        lists += _lists(structure, entry, number)
        paths += structure_paths(structure, f"series[{number}]")
    orders = {len(terms) for terms in lists}
    if len(orders) > 1:
        raise StructureError(f"jet takes series of one length, the order of the derivatives, but got {sorted(orders)}.")
    order = orders.pop() if orders else 0
    given = [
        [_term(term, type_of(x), f"{path}[{k}]") for k, term in enumerate(terms)]
        for x, terms, path in zip(flat.leaves, lists, paths, strict=True)
    ]
    result = FlatResult(flat.call, False, "jet", fun)
    outs, found = jet_flat(result, flat.leaves, given, order, fun)
    shown = [[tangent_result(term, type_of(out)) for term in terms] for out, terms in zip(outs, found, strict=True)]
    return result.output(outs), result.output(shown)


@api_boundary
def nth_derivative(fun: Callable[P, R], n: int) -> Callable[P, R]:
    """A function that returns the n-th derivative of a function of one number, by Taylor mode.

    Nesting `grad` n times does work that grows exponentially with n; this grows polynomially, most often as n^2.

    Arguments:
        fun: a function of a 0-d array; further arguments are constants. Its output may be any tree of arrays.
        n: which derivative, 0 or more.

    Returns:
        A function of the same arguments, whose result is like the output of `fun`. Use `vmap` for many points at once.

    Raises:
        TypeError, ValueError: n is no int, or below 0.
        GradientError, when the returned function is called: the first argument is not a 0-d floating-point number.

    Example:
        >>> import pullback as pb
        >>> pb.nth_derivative(lambda x: x**5, 3)(2.0)
        240.0:f32[]:cpu(0)
    """
    check_callable(fun, "nth_derivative")
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"nth_derivative takes a whole number n of at least 0, but got {brief(n)}.")
    if n < 0:
        raise ValueError(f"nth_derivative takes a whole number n of at least 0, but got {brief(n)}.")

    def derivative(*args: P.args, **kwargs: P.kwargs) -> Any:
        if n == 0:
            return fun(*args, **kwargs)
        flat = FlatArguments.chosen("nth_derivative", fun, 0, args, kwargs)
        type = type_of(flat.leaves[0]) if flat.structures[0] is LEAF else None
        if type is None or type.shape or not is_inexact(type.dtype):
            raise GradientError(
                f"nth_derivative differentiates with respect to one floating-point number, but argument {flat.name(0)} is"
                f" {type or tree_in_brief(args[0])}. Use vmap for an array of points, or jet for derivatives along a direction."
            )
        result = FlatResult(flat.call, False, "nth_derivative", fun)
        line = [_term(1.0, type, "1"), *[ZERO] * (n - 1)]  # x(t) = x + t
        outs, found = jet_flat(result, flat.leaves, [line], n, fun)
        return result.output([tangent_result(terms[-1], type_of(out)) for out, terms in zip(outs, found, strict=True)])

    return wrapped(fun, f"derivative_{n}_of", derivative)


def _lists(structure: Any, entry: Any, number: int) -> list[Any]:
    """The list of derivatives of each leaf of an argument."""
    if structure is LEAF:
        lists: list[Any] = [entry]
    else:
        try:
            lists = structure.flatten_up_to(entry)
        except ValueError:
            lists = [None]
    if not all(isinstance(terms, (list, tuple)) for terms in lists):
        raise StructureError(
            f"jet's series[{number}] is {tree_in_brief(entry)}, but it must be like primals[{number}], with a list of"
            f" derivatives [x', x'', ...] in the place of {'it' if structure is LEAF else 'each leaf'}."
        )
    return lists


def _term(term: Any, primal: ArrayType, path: str) -> Any:
    """One derivative, fit for its primal; ZERO if it is known to be zero."""
    if term is None or (term.__class__ in (int, float) and term == 0):
        return ZERO
    return fit_tangent(term, primal, lambda: path)
