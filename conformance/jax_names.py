"""Which of JAX's public names `pullback.compat.jax` has: writes docs/jax-names.md.

python conformance/jax_names.py           # write the page
python conformance/jax_names.py --check   # fail if it is out of date
"""

from __future__ import annotations

import importlib
import pathlib
import sys

from pullback.compat.jax.absent import reason
from pullback.compat.jax.facade import PACKAGE

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "jax-names.md"


def jax_names() -> dict[str, list[str]]:
    """JAX's public names by module."""
    lines = (HERE / "jax_names.txt").read_text().splitlines()
    pairs = [line.split(": ") for line in lines if not line.startswith("#")]
    return {module: names.split() for module, names in pairs}


def is_there(module: str, name: str) -> bool:
    """Whether the façade has a name."""
    try:
        return hasattr(importlib.import_module(PACKAGE + module.removeprefix("jax")), name)
    except ModuleNotFoundError:
        return False


def page() -> str:
    """The table of what is there and what is not."""
    rows, absent = [], []
    present = total = 0
    for module, names in jax_names().items():
        missing = [name for name in names if not is_there(module, name)]
        total, present = total + len(names), present + len(names) - len(missing)
        rows.append(f"| `{module}` | {len(names) - len(missing)} | {len(missing) or ''} |")
        by_reason: dict[str, list[str]] = {}
        for name in missing:
            by_reason.setdefault(reason(module, name) or "not yet", []).append(name)
        absent += [f"| `{module}` | {', '.join(f'`{name}`' for name in names)} | {why} |" for why, names in by_reason.items()]
    return "\n".join(
        [
            "<!-- Made by conformance/jax_names.py: change pullback/compat/jax. -->\n",
            "# Names of JAX's in `pullback.compat.jax`\n",
            f"Of the {total} public names of JAX 0.10.2 in these modules, {present} are there.\n",
            "| module | there | not there |",
            "|---|---|---|",
            *rows,
            "\n## Not there\n",
            "| module | names | why |",
            "|---|---|---|",
            *absent,
            "",
        ]
    )


if __name__ == "__main__":
    made = page()
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == made else "out of date; run `python conformance/jax_names.py`")
    PAGE.write_text(made)
