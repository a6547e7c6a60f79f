"""Numbers in the sentences of a page."""

from __future__ import annotations

from pullback.program.printing import byte_size


def counted(number: int, what: str) -> str:
    """A number of things: `1 equation`, `1,200 equations`; `2 branches`.

    Example:
        >>> counted(1, "equation"), counted(1200, "branch")
        ('1 equation', '1,200 branches')
    """
    plural = "" if number == 1 else "es" if what.endswith(("ch", "s", "x")) else "s"
    return f"{number:,} {what}{plural}"


def sized(count: float) -> str:
    """A number of bytes: `4.0 kB`."""
    return byte_size(int(count))
