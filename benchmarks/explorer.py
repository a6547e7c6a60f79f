"""The explorer on large programs: what making a page takes next to tracing the same stages, and how soon a browser shows it.

    python benchmarks/explorer.py [EQUATIONS ...]        # 1000 and 10000 by default

Times are those of the processor, since a machine may be busy. The page is opened where a Chromium is on the path.
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time
from typing import Any

import pullback as pb
import pullback.numpy as pnp

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "explorer"))

from browser import browsing, find_browser

PARTS = 3  # equations in a layer


def layers(x: Any, count: int) -> Any:
    for _ in range(count):
        x = pnp.sin(x) * 1.5 + x
    return pnp.sum(x)


def spent(function: Any) -> tuple[float, Any]:
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def measure(equations: int, folder: pathlib.Path) -> None:
    """Print a row for a function of so many equations, its gradient, and a batch of that."""
    count, x, xs = equations // PARTS, pb.ArrayType((8,), "float32"), pb.ArrayType((4, 8), "float32")

    def loss(x: Any) -> Any:
        return layers(x, count)

    traced, _ = spent(lambda: [pb.xpr(loss, x), pb.xpr(pb.grad(loss), x), pb.xpr(pb.vmap(pb.grad(loss)), xs)])
    made, found = spent(lambda: pb.explore(loss, xs, apply="grad,vmap", compile=False))
    rows = sum([len(stage["rows"]) for stage in found.data["stages"]])
    page = found.save(folder / f"{equations}.html")
    row = f"{equations:>7,} equations  {rows:>7,} rows  {page.stat().st_size / 1e6:5.1f} MB  made in {made:6.2f} s"
    row += f", {made / traced:4.1f} times tracing"
    if (path := find_browser()) is not None:
        with browsing(path) as browser:
            browser.open(page)
            row += f"  opened in {browser.js('window.explorer.milliseconds'):.0f} ms"
    print(row, flush=True)


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [1000, 10000]
    with tempfile.TemporaryDirectory() as folder:
        for equations in sizes:
            measure(equations, pathlib.Path(folder))


if __name__ == "__main__":
    main()
