"""The error that the command line reports in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(Exception):
    """Something on the command line is wrong; the message is one line that names it and the cure."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown word: ` Did you mean 'x'?`, or nothing where no known word is near.

    Example:
        >>> suggestion("gard", ["grad", "vmap"])
        " Did you mean 'grad'?"
    """
    near = difflib.get_close_matches(word, list(known), 1)
    return f" Did you mean {near[0]!r}?" if near else ""


def one_line(text: str) -> str:
    """A message without its line breaks."""
    return " ".join(text.split())
