"""Numbers in the sentences of a page."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.program.printing import byte_size


def sized(count: float) -> str:
    """A number of bytes: `4.0 kB`."""
    return byte_size(int(count))


def listed(names: Sequence[str]) -> str:
    """Names, the first of them if they are many: `a`, `a and b`, `a, b, c and 3 more`.

    Example:
        >>> listed(["x"]), listed(["x", "y"]), listed(list("abcdef"))
        ('x', 'x and y', 'a, b, c and 3 more')
    """
    shown = [*names[:3], f"{len(names) - 3:,} more"] if len(names) > 4 else names
    return " and ".join([part for part in (", ".join(shown[:-1]), shown[-1]) if part])
