"""Taylor mode: push derivatives of every order up to n through a function at once, at a cost polynomial in n.

A value x(t) that depends on one variable t is carried as its derivatives at t = 0: x, x', ..., x^(n). An operation is
handled by the first of four rules that applies:

- its own `jet` rule;
- linear operations are applied to each derivative: y^(k) = f(x^(k));
- bilinear ones follow Leibniz: (x y)^(k) = sum_j C(k, j) x^(j) y^(k-j);
- everything else follows from its first derivative, by what the equation y' = Df(x) x' says order by order:
  y^(k) is the derivative of order k - 1 of the right side, which needs x up to order k and y up to order k - 1 alone.

In the last rule the right side is evaluated on values whose derivatives are computed when they are asked for; an operation
that is met again on the same operands is the same value. So exp, whose derivative is itself, and sin and cos, each the other's,
become the well-known recurrences, in O(n^2) operations, without being told so.

Source: Griewank and Walther, Evaluating Derivatives, 2nd ed. (2008), chapter 13: proposition 13.1 and table 13.2, on functions
given by a differential equation. Coefficients are x^(k) / k! there; here they are the derivatives x^(k) themselves, so that one
convention holds everywhere, inside and outside.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.dtypes import is_inexact
from pullback.core.primitive import Primitive
from pullback.core.tracing import Trace, Tracer, bind, type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, instantiate
from pullback.ops.arithmetic import leibniz
from pullback.ops.scaling import combine
from pullback.transforms.jvp import has_derivative, jvp_flat, linear_operands

# A derivative of more operations than this is computed in their order, rather than from its end: Python's stack is not endless.
LONG = 50


class Unready(Exception):
    """A derivative was asked for while it was being computed."""


class Series:
    """The derivatives of orders 1, ..., `order` of a value, each computed by `term(k)` when it is first asked for; or ZERO."""

    __slots__ = ("busy", "known", "order", "term")

    def __init__(self, order: int, term: Callable[[int], Any] | None = None, known: Sequence[Any] = ()) -> None:
        self.order = order
        self.term = term
        self.known = list(known)
        self.busy = False

    def __getitem__(self, k: int) -> Any:
        while len(self.known) < k:
            if self.busy or self.term is None:
                raise Unready
            self.busy = True
            try:
                self.known.append(self.term(len(self.known) + 1))
            finally:
                self.busy = False
        return self.known[k - 1]

    def upto(self, order: int) -> list[Any]:
        """The derivatives up to an order."""
        return [self[k] for k in range(1, order + 1)]


class Jet(Tracer):
    """A value with its derivatives."""

    __slots__ = ("_slope", "primal", "series")

    def __init__(self, trace: Trace, primal: Any, series: Series) -> None:
        self.owner = trace
        self.primal = primal
        self.series = series
        self._slope: Any = None

    @property
    def type(self) -> ArrayType:  # type: ignore[override]
        return type_of(self.primal)

    @property
    def slope(self) -> Any:
        """x', as a value with derivatives of its own, one order fewer; made once, so that it is met again as itself."""
        if self._slope is None:
            series = self.series
            first = series[1]
            if series.order == 1 or (series.term is None and all([term is ZERO for term in series.known[1:]])):
                self._slope = first
            else:
                rest = Series(series.order - 1, lambda k: series[k + 1])
                self._slope = Jet(self.owner, instantiate(first, self.type), rest)
        return self._slope


class JetTrace(Trace):
    """Pushes derivatives through each operation."""

    __slots__ = ("made", "met")
    transformation = "jet"

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(function)
        # While the derivatives of one operation are derived: the operations met meanwhile, with their results.
        self.met: dict[Any, tuple[Any, Any]] | None = None
        self.made: list[Series] = []  # and the series made meanwhile, each after those that it depends on

    def split(self, value: Any) -> tuple[Any, Series | None]:
        """A value's primal and its series; None if it does not depend on t."""
        return (value.primal, value.series) if value.__class__ is Jet and value.owner is self else (value, None)

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.jet is None and primitive.expand is not None and not has_derivative(primitive):
            return primitive.expanded(args, params)
        if self.met is not None:
            return self.once(primitive, args, params)
        self.met = {}
        try:
            out = self.once(primitive, args, params) if primitive.jet is None else self.apply(primitive, args, params)
            return tuple([self.settled(o) for o in out]) if primitive.multiple_results else self.settled(out)
        finally:
            self.met = None
            self.made = []

    def settled(self, value: Any) -> Any:
        """A result with all of its derivatives computed; without any, if they are zero."""
        if value.__class__ is not Jet or value.owner is not self:
            return value
        known = value.series.upto(value.series.order)
        if all([term is ZERO for term in known]):
            return value.primal
        return Jet(self, value.primal, Series(len(known), None, known))

    def once(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The operation's results, the same if it was met before."""
        assert self.met is not None
        values = tuple(params.values())
        key: Any = (primitive, tuple([id(arg) for arg in args]), tuple(params), values)
        try:
            hash(key)
        except TypeError:  # a parameter that is an array, say
            key = (*key[:-1], tuple([id(value) for value in values]))
        if key not in self.met:
            # the operands are kept, so that no other value can get their id
            self.met[key] = (self.apply(primitive, args, params), args)
        return self.met[key][0]

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The operation by the first way that fits."""
        primals, series = zip(*[self.split(arg) for arg in args])
        order = min([one.order for one in series if one is not None])
        if primitive.jet is not None:
            return self.by_rule(primitive, primals, series, params, order)
        out = bind(primitive, primals, params)
        outs = out if primitive.multiple_results else (out,)
        inexact = [is_inexact(type_of(o).dtype) for o in outs]
        if not any(inexact) and not has_derivative(primitive):
            return out
        active = [one is not None for one in series]
        if primitive.linear and all(flag for flag, is_active in zip(primitive.linear_flags(len(args)), active) if is_active):
            terms = self.linear_term(primitive, primals, series, params, outs)
        elif primitive.bilinear:
            terms = self.bilinear_term(primitive, primals, series, params)
        elif has_derivative(primitive):
            terms = self.derived_term(primitive, args, params, len(outs))
        else:
            raise primitive.missing("jet", self.transformation)
        made = [
            self.jet(o, Series(order, lambda k, i=i: terms(k)[i])) if flag else o  # type: ignore[misc]
            for i, (o, flag) in enumerate(zip(outs, inexact))
        ]
        return tuple(made) if primitive.multiple_results else made[0]

    def jet(self, primal: Any, series: Series) -> Jet:
        self.made.append(series)
        return Jet(self, primal, series)

    def shortened(self, value: Any) -> Any:
        """A value with derivatives of one order fewer, which is all that those of a slope need.

        Elementary functions do without it, since they are met again as themselves. A function with a jvp rule of its own may
        apply other functions to its operands, of which that rule asks the same: it must end."""
        primal, series = self.split(value)
        if series is None or series.order == 1:
            return primal
        return Jet(self, primal, Series(series.order - 1, series.__getitem__))

    # ---- the four rules: each gives the function from k to the derivatives of order k of the results ----

    def linear_term(self, primitive: Primitive, primals: Any, series: Any, params: dict[str, Any], outs: Any) -> Any:
        """y^(k) = f(x^(k))."""
        multipliers = primitive.partials(outs[0], *primals, **params) if primitive.partials is not None else ()
        sums = bool(multipliers) and all([m.__class__ is int for m in multipliers])

        def term(k: int) -> Any:
            found = [ZERO if one is None else one[k] for one in series]
            if sums:  # of operands that may be 0-d
                return (combine([(t, m) for t, m in zip(found, multipliers) if t is not ZERO], outs[0].type),)
            operands = linear_operands(primitive, primals, found)
            if operands is None:
                return (ZERO,) * len(outs)
            out = bind(primitive, operands, params)
            return out if primitive.multiple_results else (out,)

        return _remembered(term)

    def bilinear_term(self, primitive: Primitive, primals: Any, series: Any, params: dict[str, Any]) -> Any:
        """(x y)^(k) = sum_j C(k, j) x^(j) y^(k-j)."""
        x, y = primals
        xs, ys = [one or Series(0) for one in series]

        def term(k: int) -> Any:
            left = [x, *(xs.upto(k) if xs.order else [ZERO] * k)]
            right = [y, *(ys.upto(k) if ys.order else [ZERO] * k)]
            return (leibniz(k, left, right, lambda a, b: bind(primitive, (a, b), params)),)  # type: ignore[no-untyped-call]

        return term

    def derived_term(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any], count: int) -> Any:
        """y^(k) is the derivative of order k - 1 of y' = Df(x) x'."""
        slopes: list[Any] = []
        own: list[Series] = []

        def function(*xs: Any) -> Any:
            out = bind(primitive, xs, params)
            return out if primitive.multiple_results else (out,)

        def term(k: int) -> Any:
            if not slopes:
                given = [arg.slope if arg.__class__ is Jet and arg.owner is self else ZERO for arg in args]
                start = len(self.made)
                points = [self.shortened(arg) for arg in args] if primitive.on_arrays else args
                slopes.extend(jvp_flat(function, points, given)[1])
                own.extend(self.made[start:])
            if k > 1 and len(own) > LONG:
                for series in own:
                    with contextlib.suppress(Unready):
                        series.upto(min(k - 1, series.order))
            parts = [self.split(slope) for slope in slopes]
            return [primal if k == 1 else ZERO if rest is None else rest[k - 1] for primal, rest in parts]

        return _remembered(term)

    def by_rule(self, primitive: Primitive, primals: Any, series: Any, params: dict[str, Any], order: int) -> Any:
        """By the primitive's own rule: once for all orders, or, where a later derivative of an operand still depends on an
        earlier one of the result, once for each."""
        rule: Any = primitive.jet

        def call(upto: int) -> tuple[tuple[Any, ...], list[list[Any]]]:
            found = []
            for x, one in zip(primals, series):
                terms = [ZERO] * upto if one is None else one.upto(upto)
                found.append(terms if primitive.symbolic_zeros else [instantiate(term, type_of(x)) for term in terms])
            return _well_formed(primitive, rule(primals, found, **params), upto)

        try:
            outs, terms = call(order)
            made = [Jet(self, o, Series(order, None, own)) for o, own in zip(outs, terms)]
        except Unready:
            out = bind(primitive, primals, params)
            outs = out if primitive.multiple_results else (out,)
            upto = _remembered(lambda k: call(k)[1])
            made = [self.jet(o, Series(order, lambda k, i=i: upto(k)[i][k - 1])) for i, o in enumerate(outs)]  # type: ignore[misc]
        kept = [jet if is_inexact(jet.type.dtype) else jet.primal for jet in made]
        return tuple(kept) if primitive.multiple_results else kept[0]


def _remembered(term: Callable[[int], Any]) -> Callable[[int], Any]:
    """`term`, which gives the derivatives of all results, computed once for each order."""
    known: dict[int, Any] = {}

    def found(k: int) -> Any:
        if k not in known:
            known[k] = term(k)
        return known[k]

    return found


def _well_formed(primitive: Primitive, returned: Any, order: int) -> tuple[tuple[Any, ...], list[list[Any]]]:
    """What a jet rule returned, if it is results and a list of derivatives for each; ZERO may stand for such a list."""
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise primitive.malformed("jet", "a pair, the result and its derivatives", returned)
    outs, series = returned if primitive.multiple_results else ([returned[0]], [returned[1]])
    outs = primitive.values("jet", "a result's", outs)
    if len(outs) != len(series):
        raise primitive.malformed("jet", "a list of derivatives for each result", returned)
    found = []
    for out, terms in zip(outs, series):
        own = [ZERO] * order if terms is ZERO else list(terms)
        if len(own) != order:
            raise primitive.malformed("jet", f"{order} derivatives, as many as it was given", terms)
        type = type_of(out).strong()
        found.append(
            [ZERO if term is ZERO else primitive.value("jet", "derivatives of the result's", term, type) for term in own]
        )
    return outs, found


def jet_flat(
    function: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    order: int,
    described: Any = None,
) -> tuple[list[Any], list[list[Any]]]:
    """Values and derivatives of a flat function up to an order.

    Arguments:
        series: for each primal x the list of x', x'', ..., x^(order), each an array like x, or ZERO.

    Returns:
        The values, and for each the list of its derivatives, each an array or ZERO.
    """
    trace = JetTrace(described or function)
    jets = []
    for x, terms in zip(primals, series, strict=True):
        zero = all([term is ZERO for term in terms])
        jets.append(x if zero else Jet(trace, x, Series(order, None, terms)))
    try:
        outs = function(*jets)
    finally:
        trace.open = False
    pairs = [trace.split(out) for out in outs]
    return [primal for primal, _ in pairs], [[ZERO] * order if one is None else one.upto(order) for _, one in pairs]
