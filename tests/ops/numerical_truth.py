"""The elementwise functions against mpmath, at ordinary and at hard points, with their first and second derivatives.

    python tests/ops/numerical_truth.py            # writes docs/accuracy.md
    python tests/ops/numerical_truth.py erfc mish  # prints the worst points of these

An error is counted in units of the last place of the true value. `test_numerical_truth.py` holds the functions to that page.
"""

from __future__ import annotations

import math
import operator
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from scipy.special import ndtri

import pullback as pb

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "accuracy.md"
DTYPES = ("float32", "float64")
COLUMNS = ("float32", "float32, jit", "float64", "float64, jit", "1st derivative", "2nd derivative")


class Truth(NamedTuple):
    """A function by its path below `pullback`, what it is in mpmath, and where it is tried: between numbers, and where else.

    Attributes:
        far: whether it is tried at powers of ten up to the ends of the dtype too, of which sign. fixed: arguments before x.
        smooth: whether it has two derivatives. params: keyword arguments.
    """

    path: str
    exact: Callable[[Any], Any]
    low: float
    high: float
    far: str = "+-"
    smooth: bool = True
    fixed: tuple[float, ...] = ()
    params: tuple[tuple[str, Any], ...] = ()

    def __call__(self, x: Any) -> Any:
        fixed = [pb.numpy.asarray(number, dtype=x.dtype) for number in self.fixed]
        return operator.attrgetter(self.path)(pb)(*fixed, x, **dict(self.params))

    @property
    def title(self) -> str:
        inside = [*map(str, self.fixed), "x", *[f"{key}={value}" for key, value in self.params]]
        return f"{self.path}({', '.join(inside)})"


def normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(-abs(x))) + max(x, 0)


def relation(f: Callable[[Any], Any], start: Callable[[Any], float], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The inverse of f, by Newton's method in log f, from a good start."""

    def inverse(p: Any) -> Any:
        x = mp.mpf(start(float(p)))
        for _ in range(7):
            value = f(x)
            x -= (mp.log(value) - mp.log(p)) * value / slope(x)
        return x

    return inverse


def _quantile(p: Any) -> Any:
    lower = relation(normal, lambda q: float(ndtri(q)), lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi))
    return lower(p) if p < 0.5 else -lower(1 - p) if p > 0.5 else mp.mpf(0)


TRUTHS = [
    Truth("numpy.exp", mp.exp, -80, 80), Truth("numpy.exp2", lambda x: mp.power(2, x), -120, 120),
    Truth("numpy.expm1", mp.expm1, -10, 10), Truth("numpy.log", mp.log, 0.01, 10, "+"),
    Truth("numpy.log2", lambda x: mp.log(x) / mp.log(2), 0.01, 10, "+"),
    Truth("numpy.log10", lambda x: mp.log(x) / mp.log(10), 0.01, 10, "+"),
    Truth("numpy.log1p", mp.log1p, -0.99, 5, "+"), Truth("numpy.sqrt", mp.sqrt, 0.01, 10, "+"),
    Truth("numpy.cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), -10, 10),
    Truth("numpy.square", lambda x: x * x, -10, 10), Truth("numpy.reciprocal", lambda x: 1 / x, 0.01, 10),
    Truth("numpy.sin", mp.sin, -10, 10, ""), Truth("numpy.cos", mp.cos, -10, 10, ""), Truth("numpy.tan", mp.tan, -10, 10, ""),
    Truth("numpy.arcsin", mp.asin, -0.999, 0.999, "tiny"), Truth("numpy.arccos", mp.acos, -0.999, 0.999, "tiny"),
    Truth("numpy.arctan", mp.atan, -10, 10), Truth("numpy.sinh", mp.sinh, -20, 20), Truth("numpy.cosh", mp.cosh, -20, 20),
    Truth("numpy.tanh", mp.tanh, -10, 10), Truth("numpy.arcsinh", mp.asinh, -10, 10),
    Truth("numpy.arccosh", mp.acosh, 1.01, 10, ""), Truth("numpy.arctanh", mp.atanh, -0.99, 0.99, "tiny"),
    Truth("numpy.sinc", lambda x: mp.sinpi(x) / (mp.pi * x) if x else mp.mpf(1), -4.3, 4.3, "tiny"),
    Truth("numpy.hypot", lambda x: mp.hypot(3, x), -10, 10, fixed=(3.0,)),
    Truth("numpy.hypot", lambda x: mp.hypot(mp.mpf("1e25"), x), -1e26, 1e26, "", fixed=(1e25,)),
    Truth("numpy.power", lambda x: mp.power(mp.mpf(2.5), x), -40, 40, "", fixed=(2.5,)),
    Truth("numpy.arctan2", lambda x: mp.atan2(mp.mpf(2), x), -10, 10, fixed=(2.0,)),
    Truth("numpy.logaddexp", lambda x: 1 + softplus(x - 1), -20, 20, fixed=(1.0,)),
    Truth("numpy.logaddexp2", lambda x: softplus(x * mp.log(2)) / mp.log(2), -20, 20, fixed=(0.0,)),
    Truth("nn.sigmoid", lambda x: 1 / (1 + mp.exp(-x)), -80, 80), Truth("nn.softplus", softplus, -80, 80),
    Truth("nn.log_sigmoid", lambda x: -softplus(-x), -80, 80), Truth("nn.silu", lambda x: x / (1 + mp.exp(-x)), -80, 80),
    Truth("nn.gelu", lambda x: x * normal(x), -12, 12, params=(("approximate", False),)),
    Truth("nn.gelu", lambda x: x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * x * (1 + mp.mpf(0.044715) * x * x))), -8, 8, "tiny"),
    Truth("nn.mish", lambda x: x * mp.tanh(softplus(x)), -60, 60),
    Truth("nn.elu", lambda x: x if x > 0 else mp.expm1(x), -20, 20, smooth=False),
    Truth("nn.squareplus", lambda x: (x + mp.sqrt(x * x + 4)) / 2, -5, 20, "tiny"),
    Truth("nn.soft_sign", lambda x: x / (1 + abs(x)), -20, 20, smooth=False),
    Truth("scipy.special.gamma", mp.gamma, 0.01, 30, "tiny+"), Truth("scipy.special.gammaln", mp.loggamma, 0.01, 30, "+"),
    Truth("scipy.special.digamma", mp.digamma, 0.01, 30, "+"),
    Truth("scipy.special.polygamma", lambda x: mp.psi(1, x), 0.01, 30, "", fixed=(1.0,)),
    Truth("scipy.special.zeta", lambda x: mp.zeta(mp.mpf(2.5), x), 0.1, 30, "", fixed=(2.5,)),
    Truth("scipy.special.betaln", lambda x: mp.log(mp.beta(mp.mpf(2.5), x)), 0.1, 200, "", fixed=(2.5,)),
    Truth("scipy.special.gammainc", lambda x: mp.gammainc(mp.mpf(2.5), 0, x, regularized=True), 0.01, 20, "", fixed=(2.5,)),
    Truth("scipy.special.gammaincc", lambda x: mp.gammainc(mp.mpf(2.5), x, regularized=True), 0.01, 60, "", fixed=(2.5,)),
    Truth("scipy.special.betainc", lambda x: mp.betainc(2.5, 1.5, 0, x, regularized=True), 0.01, 0.99, "", fixed=(2.5, 1.5)),
    Truth("scipy.special.erf", mp.erf, -5, 5), Truth("scipy.special.erfc", mp.erfc, -5, 9),
    Truth("scipy.special.erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), -5, 80, ""),
    Truth("scipy.special.erfinv", lambda x: _quantile((1 + x) / 2) / mp.sqrt(2), -0.99999, 0.99999, ""),
    Truth("scipy.special.ndtr", normal, -12, 8), Truth("scipy.special.log_ndtr", lambda x: mp.log(normal(x)), -200, 12, ""),
    Truth("scipy.special.ndtri", _quantile, 1e-6, 1 - 1e-6, ""),
    Truth("scipy.special.logit", lambda x: mp.log(x / (1 - x)), 1e-6, 0.999, "tiny+"),
    Truth("scipy.special.dawsn", lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), -8, 8, "tiny"),
    Truth("scipy.special.exprel", lambda x: mp.expm1(x) / x if x else mp.mpf(1), -20, 20, "tiny"),
    Truth("scipy.special.entr", lambda x: -x * mp.log(x), 0.01, 10, "+"),
    Truth("scipy.special.xlogy", lambda x: mp.mpf(2.5) * mp.log(x), 0.01, 10, "+", fixed=(2.5,)),
    Truth("scipy.special.xlog1py", lambda x: mp.mpf(2.5) * mp.log1p(x), -0.9, 10, "+", fixed=(2.5,)),
    Truth("scipy.special.rel_entr", lambda x: mp.mpf(2.5) * mp.log(mp.mpf(2.5) / x), 0.01, 10, "+", fixed=(2.5,)),
    Truth("scipy.special.i0", lambda x: mp.besseli(0, x), -60, 60, "tiny"),
    Truth("scipy.special.i0e", lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), 0.01, 60, ""),
    Truth("scipy.special.i1", lambda x: mp.besseli(1, x), -60, 60, "tiny"),
    Truth("scipy.special.i1e", lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), 0.01, 60, ""),
    Truth("scipy.special.expi", mp.ei, 0.5, 40, ""), Truth("scipy.special.exp1", mp.e1, 0.01, 40, "tiny+"),
    Truth("scipy.special.spence", lambda x: mp.polylog(2, 1 - x) if x < 1.9 else mp.re(mp.polylog(2, 1 - x)), 0.01, 20, ""),
    Truth("scipy.special.hyp1f1", lambda x: mp.hyp1f1(1.5, 2.5, x), -20, 20, "", fixed=(1.5, 2.5)),
    Truth("scipy.special.hyp2f1", lambda x: mp.hyp2f1(0.5, 1.5, 2.5, x), -0.6, 0.6, "", fixed=(0.5, 1.5, 2.5)),
]  # fmt: skip


def points(truth: Truth, dtype: str, count: int) -> Any:
    """Ordinary points in the range, wholes and halves among them; and, where it is so said, those of every order of size."""
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    ordinary = [np.linspace(truth.low, truth.high, count), rng.uniform(truth.low, truth.high, count)]
    low, high = max(truth.low, -200), min(truth.high, 200)
    wholes = np.unique(np.round(rng.uniform(2 * low, 2 * high, count))) / 2
    found = np.concatenate([*ordinary, wholes[(wholes >= truth.low) & (wholes <= truth.high)]])
    if truth.far:
        top = -1.0 if truth.far.startswith("tiny") else 30.0
        sizes = 10.0 ** rng.uniform(math.log10(float(info.tiny)) + 1, top, count)
        if truth.path.endswith(("sinh", "cosh", "exp", "exp2", "expm1", "square", "gamma")):
            sizes = sizes[sizes < 80]
        found = np.concatenate([found, sizes, *([] if truth.far == "tiny+" or truth.far == "+" else [-sizes])])
        if truth.low <= 0 and truth.far != "+":
            found = np.append(found, [0.0])
    return np.unique(found.astype(dtype))


def ulps(found: Any, true: Any, dtype: str) -> float:
    """The error in units of the last place of the true value; 0 where that is not a normal number of the dtype."""
    info = np.finfo(dtype)
    size = abs(true)
    if not mp.isfinite(true) or size > float(info.max) or (size < float(info.tiny) and true != 0):
        return 0.0
    if not math.isfinite(found):
        return math.inf
    last = mp.ldexp(1, int(mp.floor(mp.log(size, 2))) - info.nmant) if true != 0 else mp.mpf(float(info.tiny))
    return float(abs(mp.mpf(float(found)) - true) / last)


def true_value(truth: Truth, order: int, x: Any) -> Any:
    """The function, or a derivative by a central difference in so many digits that its own error does not show; NaN where
    mpmath cannot tell."""
    try:
        return difference(truth, order, x) if order else mp.re(truth.exact(x))
    except (OverflowError, ValueError, ZeroDivisionError, mp.NoConvergence):
        return mp.nan


def difference(truth: Truth, order: int, x: Any) -> Any:
    h = mp.mpf(10) ** -25 * max(abs(x), mp.mpf(10) ** -3 if truth.low <= 0 else abs(x))
    f = truth.exact
    if order == 1:
        return (f(x + h) - f(x - h)) / (2 * h)
    return (f(x + h) - 2 * f(x) + f(x - h)) / (h * h)


def measure(
    truth: Truth, count: int, columns: tuple[str, ...] = COLUMNS
) -> Iterator[tuple[str, list[tuple[float, float, float, Any]]]]:
    """For each column the errors at all points, as (ulps, x, found, true), the worst first."""
    for column in columns:
        order = {"1st derivative": 1, "2nd derivative": 2}.get(column, 0)
        if order and not truth.smooth:
            continue
        dtype = "float64" if order else column.split(",")[0]
        x = points(truth, dtype, count)
        if order:
            x = x[(np.abs(x) > 1e-8) & (np.abs(x) < 1e8) & (x >= truth.low) & (x <= truth.high)]
        f: Any = truth
        for _ in range(order):
            f = pb.grad(f)
        f = pb.vmap(f) if order else f
        with pb.default_bits(64):
            found = np.asarray((pb.jit(f) if order or column.endswith("jit") else f)(x))
        with mp.workdps(200 if order else 60):
            exact = [true_value(truth, order, mp.mpf(float(v))) for v in x]
            known = [not order or abs(b) > 1e-30 for b in exact]  # no digit of a derivative that is 0 can be right
            errors = [(ulps(a, b, dtype), float(v), float(a), b) for v, a, b, fine in zip(x, found, exact, known) if fine]
        yield column, sorted(errors, key=lambda error: -error[0])


HEAD = """# Accuracy

The largest errors that were found against mpmath, in units of the last place of the true value: of values in each precision,
evaluated on NumPy and compiled, and of the first and second derivatives, compiled, in float64. Correct rounding is 0.5. The
points are ordinary ones, whole numbers and halves, and numbers of every order of size, down to the smallest normal one, where
the function is of interest there; `tests/ops/numerical_truth.py` lists them and wrote this page, and the tests hold the
functions to it. Where a value or a derivative passes through zero its last place is small, and the numbers are large there.

XLA treats subnormal numbers as zero; results that are subnormal are left out.

"""


def main(names: list[str]) -> None:
    if names:
        for truth in [each for each in TRUTHS if any(name in each.path for name in names)]:
            for column, errors in measure(truth, 60):
                print(
                    f"{truth.title:40} {column:15}",
                    *[f"{e:.3g} at {x!r}: {a!r} for {mp.nstr(b, 17)};" for e, x, a, b in errors[:2]],
                )
        return
    rows = [f"| function | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for truth in TRUTHS:
        found = {column: errors[0][0] for column, errors in measure(truth, 60)}
        rows.append(f"| `{truth.title}` | {' | '.join([rounded(found.get(column)) for column in COLUMNS])} |")
        print(rows[-1], flush=True)
    PAGE.write_text(HEAD + "\n".join(rows) + "\n")


def rounded(error: float | None) -> str:
    if error is None:
        return ""
    return (
        f"{math.ceil(error * 10) / 10:.1f}"
        if error < 10
        else f"{math.ceil(error):.0f}"
        if error < 1e4
        else f"{error * 1.05:.0e}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
