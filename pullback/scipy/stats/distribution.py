"""What a distribution is: a few formulas, from which its other functions follow.

A formula is of the standardized variable y = (x - loc) / scale and the shape parameters. Densities outside the support are 0
and probabilities 0 or 1 there; the formulas see a point within it instead, so that no derivative is NaN for what is not chosen.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from pullback.core.array import Array
from pullback.core.source import api_boundary
from pullback.numpy.arithmetic import floor
from pullback.numpy.elementary import exp, expm1, log, log1p
from pullback.numpy.logic import where
from pullback.numpy.promotion import broadcast, refuse_complex, to_common_dtype, to_common_shape

Formula = Callable[..., Any]
Support = Callable[..., tuple[Any, Any]]


def _log_of_rest(log_p: Any) -> Any:
    """log(1 - p), given log(p), by the one of two forms that keeps the digits."""
    large = log_p > -math.log(2)
    return where(large, log(-expm1(where(large, log_p, -1.0))), log1p(-exp(where(large, -1.0, log_p))))


def _log_of_one(p: Any, rest: Any) -> Any:
    """log(p), given p and 1 - p, by the smaller one."""
    small = p < 0.5
    return where(small, log(where(small, p, 0.5)), log1p(-where(small, 0.5, rest)))


# How a function follows from another one, in the order in which they are tried.
DERIVED: dict[str, tuple[tuple[str, Formula], ...]] = {
    "pdf": (("logpdf", exp),),
    "pmf": (("logpmf", exp),),
    "logpdf": (("pdf", log),),
    "cdf": (("logcdf", exp), ("logsf", lambda out: -expm1(out)), ("sf", lambda out: 1 - out)),
    "sf": (("logsf", exp), ("logcdf", lambda out: -expm1(out)), ("cdf", lambda out: 1 - out)),
    "logcdf": (("logsf", _log_of_rest),),
    "logsf": (("logcdf", _log_of_rest),),
}
MIRRORED = {"sf": "cdf", "logsf": "logcdf", "isf": "ppf"}  # of a distribution that is symmetric about 0
WHAT = {
    "pdf": "The density at x.", "logpdf": "The logarithm of the density at x.", "pmf": "The probability of k.",
    "logpmf": "The logarithm of the probability of k.", "cdf": "The probability of at most x.",
    "logcdf": "The logarithm of the probability of at most x.", "sf": "The probability of more than x.",
    "logsf": "The logarithm of the probability of more than x.", "ppf": "The x of which cdf is q.",
    "isf": "The x of which sf is q.", "entropy": "The differential entropy, in nats.",
}  # fmt: skip


def _of_both(own: Formula, rest: Formula) -> Formula:
    return lambda y, *shapes: _log_of_one(own(y, *shapes), rest(y, *shapes))


class Distribution:
    """A distribution with a location and a scale.

    Its functions are those of `pdf`, `logpdf` (of a discrete one `pmf`, `logpmf`), `cdf`, `logcdf`, `sf`, `logsf`, `ppf`, `isf`
    and `entropy` for which there is a formula. They take x (or k, or a probability q), the shape parameters, `loc` and `scale`,
    by position or by name, which broadcast, and return an array of a floating dtype; NaN where a parameter is out of range.

    Arguments:
        name: what it is called. doc: what it is, with its density. shapes: the names of its shape parameters, as "a b".
        formulas: functions of the standardized variable (or probability) and the shape parameters, by name.
        support: gives the ends of the support, which may be infinite; None for the whole line.
        valid: whether shape parameters are in range; None where all are.
        symmetric: whether the density is even. discrete: whether it is one of whole numbers, which has no scale.

    Example:
        >>> pb.scipy.stats.norm.logpdf(pnp.array([0.0, 3.0]), loc=1.0, scale=2.0)
        [-1.7370857 -2.1120858]:f32[2]:cpu(0)
        >>> pb.grad(pb.scipy.stats.gamma.cdf, 1)(1.5, 2.0)
        -0.31348866:f32[]:cpu(0)
    """

    def __init__(
        self, name: str, doc: str, shapes: str, *, support: Support | None = None, valid: Formula | None = None,
        symmetric: bool = False, discrete: bool = False, **formulas: Formula,
    ) -> None:  # fmt: skip
        self.name, self.__doc__, self._shapes, self._formulas = name, doc, shapes.split(), formulas
        self._support, self._valid, self._symmetric, self._discrete = support, valid, symmetric, discrete
        for method in WHAT:
            formula = self._formula(method)
            if formula is not None:
                setattr(self, method, self._function(method, formula))

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def _formula(self, method: str) -> Formula | None:
        """The formula of a function, given or derived from given ones."""
        given = self._formulas
        if method in given:
            return given[method]
        if self._symmetric and MIRRORED.get(method) in given:
            mirrored = given[MIRRORED[method]]
            return (lambda q, *shapes: -mirrored(q, *shapes)) if method == "isf" else (lambda y, *shapes: mirrored(-y, *shapes))
        for other, change in DERIVED.get(method, ()):
            if other in given:
                formula = given[other]
                return lambda y, *shapes: change(formula(y, *shapes))
        if method == "isf" and "ppf" in given:
            return lambda q, *shapes: given["ppf"](1 - q, *shapes)
        if method in ("logcdf", "logsf"):
            own, rest = self._formula(method[3:]), self._formula("sf" if method == "logcdf" else "cdf")
            return None if own is None or rest is None else _of_both(own, rest)
        return None

    def _function(self, method: str, formula: Formula) -> Callable[..., Array]:
        variable = [] if method == "entropy" else ["q"] if method in ("ppf", "isf") else ["k"] if self._discrete else ["x"]
        names = [*variable, *self._shapes, "loc", *([] if self._discrete else ["scale"])]
        defaults = {"loc": 0, "scale": 1}
        either, none = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        signature = inspect.Signature([inspect.Parameter(name, either, default=defaults.get(name, none)) for name in names])
        title = f"{self.name}.{method}"

        @api_boundary
        def function(*args: Any, **kwargs: Any) -> Array:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = [*bound.arguments.values(), *([1] if self._discrete else [])]
            operands = to_common_shape(title, *to_common_dtype(title, *given, inexact=True))
            refuse_complex(title, *operands)
            *values, loc, scale = operands
            out = self._evaluate(method, formula, variable, values, loc, scale)
            fine = scale > 0 if self._valid is None else (scale > 0) & self._valid(*values[len(variable) :])
            out = where(fine, out, math.nan)
            return broadcast(out, next((one.type.shape for one in operands if one.type.shape), ()))  # an entropy lacks loc's

        function.__name__, function.__qualname__, function.__doc__ = method, title, f"{WHAT[method]} {self.__doc__}"
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    def _evaluate(self, method: str, formula: Formula, variable: Any, values: Any, loc: Any, scale: Any) -> Any:
        if not variable:
            return formula(*values) + log(scale)
        x, *shapes = values
        if variable == ["q"]:
            inside = (x >= 0) & (x <= 1)
            return where(inside, loc + scale * formula(where(inside, x, 0.5), *shapes), math.nan)
        y = (x - loc) / scale
        density, logarithm = method[-3:] in ("pdf", "pmf"), method.startswith("log")
        whole: Any = True
        if self._discrete:
            whole, y = floor(y) == y, floor(y)
        low, high = self._support(*shapes) if self._support else (-math.inf, math.inf)
        below, above = y < low, y > high
        middle: Any = 0.5 * (low + high) if self._support else 0.0
        middle = where(abs(middle) < math.inf, middle, where(low > -math.inf, low + 1.0, high - 1.0))
        out = formula(where(below | above, floor(middle) if self._discrete else middle, y), *shapes)
        none, all_of_it = (-math.inf, 0.0) if logarithm else (0.0, 1.0)
        if density:
            out = out - log(scale) if logarithm else out / scale
            return where((below | above) | ~(whole | (y != y)), none, out)
        reversed_ = method.endswith("sf")
        return where(below, all_of_it if reversed_ else none, where(above, none if reversed_ else all_of_it, out))


class Joint:
    """A distribution of vectors: the logarithm of its density (or probability), and that.

    Arguments:
        name: what it is called. doc: what it is. kind: "pdf" or "pmf".
        logarithm: the function `logpdf` or `logpmf`.

    Example:
        >>> pb.scipy.stats.dirichlet.pdf(pnp.array([0.2, 0.3, 0.5]), pnp.array([1.0, 2.0, 3.0]))
        4.5...:f32[]:cpu(0)
    """

    def __init__(self, name: str, doc: str, kind: str, logarithm: Callable[..., Array]) -> None:
        def density(*args: Any, **kwargs: Any) -> Array:
            return exp(logarithm(*args, **kwargs))

        self.name, self.__doc__ = name, doc
        density.__signature__ = inspect.signature(logarithm)  # type: ignore[attr-defined]
        for method, function in (("log" + kind, logarithm), (kind, density)):
            function.__name__, function.__qualname__ = method, f"{name}.{method}"
            function.__doc__ = f"{WHAT[method]} {doc}"
            setattr(self, method, function)

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"
