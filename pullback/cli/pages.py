"""`python -m pullback help`: the page on an error class."""

from __future__ import annotations

import inspect
import pathlib
import re
from argparse import Namespace

import pullback as pb
from pullback.cli.terminal import UsageError, quote, remark, say, suggestion, use_color, width
from pullback.core.bars import print_markdown
from pullback.core.error_pages import Explained

ROOMS = (pb.errors, pb.checks, pb.testing)  # that have error classes
HELP = """\
Print the page on an error class: what goes wrong, an example that fails, and
the cure. Messages end with this command. Without a class: the list of them.
"""


def classes() -> dict[str, type[Explained]]:
    """The error classes by their names.

    Example:
        >>> classes()["ShapeError"] is pb.errors.ShapeError
        True
    """
    found = [getattr(room, name) for room in ROOMS for name in dir(room)]
    return {one.__name__: one for one in found if inspect.isclass(one) and issubclass(one, Explained)}


def show(options: Namespace) -> None:
    """Print a page, or the list of all."""
    if options.name is None:
        _list()
        return
    name, known = options.name.rpartition(".")[2], classes()
    error = {each.lower(): one for each, one in known.items()}.get(name.lower())
    if error is None:
        raise UsageError(
            f"there is no page on {name!r}: `python -m pullback help` lists the error classes that have one;"
            f" help(pb.{name}) in Python shows the docstring of a function.{suggestion(name, known)}"
        )
    print_page(error)


def print_page(error: type[Explained]) -> None:
    """Print the page on a class: where pages are not installed, its docstring."""
    page = error.page
    if page is None:
        quote(inspect.getdoc(error) or "")
        return
    text = re.sub(r"<!--.*?-->\s*", "", pathlib.Path(page).read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"^\[[^]]*\]\([^)]*\)\n", "", text, flags=re.MULTILINE)  # in a terminal, links lead nowhere
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    if use_color():
        print_markdown(text, width=width())
    else:
        print(text.rstrip())
    remark(f"\nThis page is {page}.")


def _list() -> None:
    for name, error in sorted(classes().items()):
        say(f"{name}: {' '.join((inspect.getdoc(error) or '').partition(chr(10) * 2)[0].split())}")
