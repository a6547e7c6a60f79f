"""The table of what JAX's own tests do over pullback: docs/jax-tests.md, of which a run replaces the rows of its files."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "jax-tests.md"
COLUMNS = ("passed", "failed", "words", "absent", "internal", "skipped")
_ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)

_HEAD = """\
<!-- Made by conformance/jax_tests.py --page. -->

# JAX's own tests over `pullback.compat.jax`

The tests of JAX 0.10.2 (tag `jax-v0.10.2`), in which nothing is changed, run with pullback in JAX's place:

    pip install pullback pytest absl-py
    git clone --depth 1 --branch jax-v0.10.2 https://github.com/jax-ml/jax
    python conformance/jax_tests.py jax                  # all of these files
    python conformance/jax_tests.py jax nn_test -k Gelu  # tests of one

*Words*: the test expects an error, and gets one of that class, in other words than JAX's. *Absent*: it needs a public name of
JAX's that is [not here](jax-names.md). *Internal*: it needs parts of JAX that no user sees (`jax._src`), or counts the misses
of its caches. *Skipped* it has by itself: it wants a GPU, several devices, or more time. The *rate* is that of the tests that
need public names only; other words count as failures in it. *Cases* is how many JAX's tests draw of each product of parameters
(`JAX_NUM_GENERATED_CASES`).

| file | passed | failed | words | absent | internal | skipped | rate | cases | date | pullback | jaxlib |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def rate(counts: list[int]) -> str:
    """Passed tests among those that need public names only."""
    of = sum(counts[:4])
    return f"{100 * counts[0] / of:.1f} %" if of else ""


def update(found: dict[str, list[int]]) -> None:
    """Put the counts of files into the page, beside those of earlier runs."""
    rows = dict(_ROW.findall(PAGE.read_text())) if PAGE.exists() else {}
    versions = [importlib.metadata.version(name) for name in ("pullback", "jaxlib")]
    cases = os.environ.get("JAX_NUM_GENERATED_CASES", "10")
    for name, counts in found.items():
        cells = [*map(str, counts), rate(counts), cases, datetime.date.today().isoformat(), *versions]
        rows[name] = " | ".join(cells)
    totals = [
        sum(column) for column in zip(*[[int(cell) for cell in row.split(" | ")[: len(COLUMNS)]] for row in rows.values()])
    ]
    lines = [f"| `{name}` | {rows[name]} |" for name in sorted(rows)]
    lines.append(f"| all | {' | '.join(map(str, totals))} | {rate(totals)} | | | | |")
    PAGE.write_text(_HEAD + "\n".join(lines) + "\n")
