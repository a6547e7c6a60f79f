"""Functions of complex numbers by their parts: what XLA computes of complex operands itself. Formulas, as in `ops/formulas.py`,
whose rules put right what these leave open where a part is infinite.

Sources: Smith, "Algorithm 116: Complex division" (1962); Kahan, "Branch cuts for complex elementary functions" (1987).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.ops.formulas import Written

Parts = tuple[Any, Any]


def divide(a: Any, b: Any, c: Any, d: Any) -> Parts:
    """(a + ib) / (c + id), infinite where the dividend is infinite or the divisor 0, and 0 where the divisor is infinite: what
    is infinite counts by its direction (C99, G.5.1, example 2)."""
    turned = np.abs(c) < np.abs(d)
    large, small = np.where(turned, d, c), np.where(turned, c, d)
    ratio = small / large
    size = large + small * ratio
    u = np.where(turned, a * ratio + b, a + b * ratio) / size
    v = np.where(turned, b * ratio - a, b - a * ratio) / size
    a_far, c_far = _is_infinite(a, b), _is_infinite(c, d)
    (p, q), (r, s) = _direction(a, b, a_far), _direction(c, d, c_far)
    ends = np.where(c_far, np.isfinite(a) & np.isfinite(b), a_far & np.isfinite(c) & np.isfinite(d))
    lost = np.isnan(u) & np.isnan(v) & ends

    def end(value: Any) -> Any:
        return np.where(c_far, 0 * value, np.inf * value)

    u, v = np.where(lost, end(p * r + q * s), u), np.where(lost, end(q * r - p * s), v)
    none, pole = (c == 0) & (d == 0) & ~(np.isnan(a) & np.isnan(b)), np.copysign(np.inf, c)
    return np.where(none, pole * a, u), np.where(none, pole * b, v)


def _is_infinite(x: Any, y: Any) -> Any:
    return np.isinf(x) | np.isinf(y)


def _direction(x: Any, y: Any, far: Any) -> Parts:
    """The parts of a number; of an infinite one 1 for what is infinite and 0 for what is not, with their signs."""

    def part(x: Any) -> Any:
        return np.where(far, np.where(np.isinf(x), np.copysign(1, x), np.copysign(0, x)), x)

    return part(x), part(y)


def _scaled(x: Any, y: Any) -> Parts:
    """The larger part by size, and the square of the smaller one divided by it."""
    x, y = np.abs(x), np.abs(y)
    large = np.maximum(x, y)
    return large, np.square(np.minimum(x, y) / np.where(large == 0, 1, large))


def absolute(x: Any, y: Any) -> Any:
    large, square = _scaled(x, y)
    return large * np.sqrt(1 + square)


def log(x: Any, y: Any) -> Parts:
    large, square = _scaled(x, y)
    return np.log(large) + 0.5 * np.log1p(square), np.arctan2(y, x)


def log1p(x: Any, y: Any) -> Parts:
    """Where |1 + z| is near 1, of |1 + z|^2 = 1 + x (2 + x) + y^2."""
    far, angle = log(1 + x, y)
    near = x * (2 + x) + y * y
    return np.where((near > -0.75) & (near < 3), 0.5 * np.log1p(near), far), angle


def sqrt(x: Any, y: Any) -> Parts:
    size = np.sqrt(0.5 * np.abs(x) + 0.5 * absolute(x, y))
    other = np.where(size == 0, 0, 0.5 * np.abs(y) / np.where(size == 0, 1, size))
    return np.where(x >= 0, size, other), np.copysign(np.where(x >= 0, other, size), y)


def tanh(x: Any, y: Any) -> Parts:
    far, size = np.abs(x) > 20, np.minimum(np.abs(x), 20)
    slope, grown = np.tan(y), np.copysign(np.sinh(size), x)
    turn = 1 + slope * slope
    divisor = 1 + turn * grown * grown
    u = turn * np.sqrt(1 + grown * grown) * grown / divisor
    v = 4 * np.sin(y) * np.cos(y) * np.exp(-2 * np.abs(x))
    one = np.copysign(1, x)
    end = np.where(np.isinf(x), one, one + 0 * y)  # NaN where y says nothing of a direction
    return np.where(far, end, u), np.where(far, v, slope / divisor)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "divide": divide, "log": log, "log_plus_one": log1p, "sqrt": sqrt, "tanh": tanh, "abs": absolute,
}  # fmt: skip


def written(write: Any, name: str, operands: Any) -> list[Any]:
    """The parts of a function of the parts of its operands, as they are written."""
    read: Callable[..., Any] = Written
    found = FUNCTIONS[name](*[read(write, value) for value in operands])
    return [part.value for part in (found if isinstance(found, tuple) else (found,))]
