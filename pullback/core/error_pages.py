"""Each error class has a page in the docs: its cause, an example that fails, and the cure. Errors end with its address."""

from __future__ import annotations

import os
from collections.abc import Iterable

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_AROUND = os.path.dirname(_PACKAGE)
# Where the pages are: an installed pullback has them inside the package (setup.py), a checkout beside it.
_FOLDERS = (os.path.join(_PACKAGE, "docs", "errors"), os.path.join(_AROUND, "docs", "errors"))
_BEGINNING = "More: `python -m pullback help "


def page_of(kind: type) -> str | None:
    """The file of the page on an error class: its own, or that of the nearest base class of ours which has one; None where the
    pages are not installed.

    Example:
        >>> class Mine(pb.errors.ShapeError):
        ...     pass
        >>> os.path.basename(page_of(Mine))
        'ShapeError.md'
    """
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] == "pullback":
            for folder in _FOLDERS:
                if os.path.isfile(found := os.path.join(folder, f"{each.__name__}.md")):
                    return found
    return None


def address(kind: type) -> str | None:
    """The note with which errors of a class end: where its page is, beside the package, and the command that shows it."""
    if (page := page_of(kind)) is None:
        return None
    name = os.path.basename(page).removesuffix(".md")
    return f"{_BEGINNING}{name}`, or {os.path.relpath(page, _AROUND).replace(os.sep, '/')}"


class _Page:
    """`page_of`, as an attribute of a class and of the errors themselves."""

    def __get__(self, error: object, kind: type) -> str | None:
        return page_of(kind)


class Explained:
    """What an error class derives from that has a page, besides a built-in error.

    Its notes (PEP 678), which tracebacks print below the message, end with the address of the page. They are made when somebody
    reads them, so an error that is caught costs nothing more; `str(error)` is the message alone.

    Attributes:
        page: the path of the page, of the class and of each error.

    Example:
        >>> error = pb.errors.ShapeError("a cube is no square")
        >>> error.add_note("(in the first layer)")
        >>> error.__notes__
        ['(in the first layer)', 'More: `python -m pullback help ShapeError`, or ...docs/errors/ShapeError.md']
        >>> os.path.basename(pb.errors.ShapeError.page)
        'ShapeError.md'
    """

    page = _Page()

    @property
    def __notes__(self) -> list[str]:
        """All notes: the same list each time, in which `add_note` puts its own."""
        notes: list[str] = self.__dict__.setdefault("__notes__", [])
        more = address(type(self))
        if more is not None and (not notes or notes[-1] != more):
            notes[:] = [*_of_others(notes), more]
        return notes

    @__notes__.setter
    def __notes__(self, notes: Iterable[str]) -> None:
        self.__dict__["__notes__"] = _of_others(notes)


def _of_others(notes: Iterable[str]) -> list[str]:
    return [note for note in notes if not (isinstance(note, str) and note.startswith(_BEGINNING))]
