"""Texts of docstrings as Markdown."""

from __future__ import annotations

import re

MARKS = str.maketrans({mark: f"\\{mark}" for mark in "*_<>|"})


def prose(text: str) -> str:
    """Text in which Markdown finds no marks but code in backquotes."""
    return "".join(part if i % 2 else part.translate(MARKS) for i, part in enumerate(re.split(r"(`[^`]*`)", text)))
