"""Taylor mode against nested forward mode: equations, and time, of the n-th derivative.

    python benchmarks/taylor.py

The ratio is how many times longer jvp of jvp of ... takes than jet, both eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import race

import pullback as pb
import pullback.numpy as pnp


def nested(function: Callable[[Any], Any], n: int) -> Callable[[Any], Any]:
    one = np.float64(1.0)
    for _ in range(n):
        function = (lambda inner: lambda x: pb.jvp(inner, (x,), (one,))[1])(function)
    return function


FUNCTIONS = {
    "sin": pnp.sin,
    "x sin x": lambda x: x * pnp.sin(x),
    "tanh(sin(exp x))": lambda x: pnp.tanh(pnp.sin(pnp.exp(x))),
}


def main() -> None:
    x = pnp.asarray(np.float64(0.3))
    for name, function in FUNCTIONS.items():
        for n in (2, 4, 6):
            ours, theirs = pb.nth_derivative(function, n), nested(function, n)
            sizes = [len(pb.xpr(f, x).equations) for f in (ours, theirs)]
            label = f"{name}, order {n}, {sizes[0]} against {sizes[1]} equations"
            race(label, {"jet": lambda f=ours: f(x), "nested": lambda f=theirs: f(x)}, rounds=5)
        sizes = [len(pb.xpr(pb.nth_derivative(function, n), x).equations) for n in (8, 10, 20)]
        print(f"{name}: {sizes} equations for orders 8, 10, 20")


if __name__ == "__main__":
    main()
