"""Numbers in the sentences of a page."""

from __future__ import annotations

from pullback.program.printing import byte_size


def sized(count: float) -> str:
    """A number of bytes: `4.0 kB`."""
    return byte_size(int(count))
