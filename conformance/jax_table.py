"""The table of what JAX's own tests do over pullback: docs/jax-tests.md, of which a run replaces the rows of its files."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "jax-tests.md"
COLUMNS = ("passed", "failed", "text", "absent", "internal", "skipped")
_ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)

_HEAD = """\
<!-- Made by conformance/jax_tests.py --page. -->

# JAX's own tests over `pullback.compat.jax`

The tests of JAX 0.10.2 (tag `jax-v0.10.2`), in which nothing is changed, run with pullback in JAX's place:

    pip install pullback pytest absl-py
    git clone --depth 1 --branch jax-v0.10.2 https://github.com/jax-ml/jax
    python conformance/jax_tests.py jax                  # all of these files
    python conformance/jax_tests.py jax nn_test -k Gelu  # tests of one

*Text*: the test expects an error, and gets one of that class, in other words than JAX's; or it reads JAX's text of a jaxpr or
of StableHLO, as `conformance/jax_expected.txt` lists. *Absent*: it needs a public name of JAX's that is [not
here](jax-names.md). *Internal*: it needs parts of JAX that no user sees (`jax._src`), or counts the misses of its caches.
*Skipped* it has by itself: it wants a GPU, several devices, or more time. The *rate* is that of the tests that need public
names only; other text counts as failures in it, and is left out in *but text*. *Cases* is how many JAX's tests draw of each
product of parameters (`JAX_NUM_GENERATED_CASES`).

| file | passed | failed | text | absent | internal | skipped | rate | but text | cases | date | pullback | jaxlib |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def rates(counts: list[int]) -> list[str]:
    """The passed tests among those that need public names only, and among those of them that do not look for JAX's text."""
    passed, failed, text, absent = counts[:4]
    needed = passed + failed + absent
    return [f"{100 * passed / of:.1f} %" if of else "" for of in (needed + text, needed)]


def update(found: dict[str, list[int]]) -> None:
    """Put the counts of files into the page, beside those of earlier runs."""
    rows = dict(_ROW.findall(PAGE.read_text())) if PAGE.exists() else {}
    versions = [importlib.metadata.version(name) for name in ("pullback", "jaxlib")]
    cases = os.environ.get("JAX_NUM_GENERATED_CASES", "10")
    for name, counts in found.items():
        cells = [*map(str, counts), *rates(counts), cases, datetime.date.today().isoformat(), *versions]
        rows[name] = " | ".join(cells)
    totals = [
        sum(column) for column in zip(*[[int(cell) for cell in row.split(" | ")[: len(COLUMNS)]] for row in rows.values()])
    ]
    lines = [f"| `{name}` | {rows[name]} |" for name in sorted(rows)]
    lines.append(f"| all | {' | '.join(map(str, totals))} | {' | '.join(rates(totals))} | | | | |")
    PAGE.write_text(_HEAD + "\n".join(lines) + "\n")
