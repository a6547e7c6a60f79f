"""How long `import pullback` takes in a fresh process, against `import numpy` and `import jax`, and what it loads.

python benchmarks/imports.py
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time

from timing import report

HEAVY = ("jaxlib", "jax", "scipy", "rich", "matplotlib", "optree")


def start(code: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


def main(rounds: int = 15) -> None:
    contestants = {"pullback": "import pullback", "numpy": "import numpy"}
    if importlib.util.find_spec("jax"):
        contestants["jax"] = "import jax"
    for code in contestants.values():
        start(code)
    times: dict[str, list[float]] = {label: [] for label in contestants}
    for _ in range(rounds):
        for label, code in contestants.items():
            times[label].append(start(code))
    report("a fresh process that imports", times)
    ours = sorted(a / b for a, b in zip(times["pullback"], times["numpy"], strict=True))
    median = ours[len(ours) // 2]
    print(f"pullback takes {ours[0]:.2f}/{median:.2f} times numpy (ceiling 1.3: {'met' if median <= 1.3 else 'MISSED'})")
    probe = f"import pullback, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    print("heavy packages that it loads:", subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout)


if __name__ == "__main__":
    main()
