"""Writes a page for each error class from its docstring: docs/errors/<ClassName>.md, which an installed pullback has too."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import pullback as pb
from pullback.core.error_pages import Explained

PARTS = re.compile(r"^(Fails|Cure):[ \n]", re.MULTILINE)
NOTE = "<!-- Made by docs/generate.py from the docstring of the class: change that. -->\n\n"


def classes() -> list[type[Exception]]:
    """The error classes that users meet: those of `pb.errors`, and those of the namespaces that have their own."""
    found = [one for module in (pb.errors, pb.checks, pb.testing) for one in vars_of(module) if issubclass(one, Explained)]
    return sorted(dict.fromkeys(found), key=lambda one: one.__name__)


def vars_of(module: object) -> Iterator[type]:
    """The public classes of a module."""
    for name in dir(module):
        if inspect.isclass(one := getattr(module, name)):
            yield one


def sections(docstring: str) -> tuple[str, list[tuple[str, str, str]]]:
    """The cause; and of each part, `Fails` or `Cure`, what it says, and its example."""
    cause, *parts = PARTS.split(docstring)
    found = []
    for kind, text in zip(parts[::2], parts[1::2]):
        words = text.partition(">>> ")[0]
        example = textwrap.dedent(text[len(words.rstrip(" ")) :])
        found.append((kind, " ".join(words.split()), example.strip()))
    return cause.strip(), found


def kinds(error: type[Exception]) -> str:
    """What else an error of this class is, and the classes of its special cases."""
    pages = {one.__name__ for one in classes()}
    bases = [base for base in error.__mro__[1:] if base not in (Explained, Exception, BaseException, object)]
    ours = [f"[`{base.__name__}`]({base.__name__}.md)" for base in bases if base.__name__ in pages]
    builtin = [f"`{base.__name__}`" for base in bases if base.__module__ == "builtins"]
    special = [f"[`{one.__name__}`]({one.__name__}.md)" for one in classes() if error in one.__bases__]
    path = "pb.errors" if error.__module__ == pb.errors.__name__ else error.__module__.replace("pullback", "pb", 1)
    text = f"`except {path}.{error.__name__}` catches it"
    text += f", and so does `except` of {', '.join([*ours, *builtin])}." if ours or builtin else "."
    return text + (f" Special cases: {', '.join(special)}." if special else "")


def page(error: type[Exception]) -> str:
    """The page of a class."""
    cause, parts = sections(inspect.getdoc(error) or "")
    text = [f"{NOTE}# {error.__name__}", cause, kinds(error)]
    several = len(parts) > 2
    for i, (kind, words, example) in enumerate(parts):
        number = f" {i // 2 + 1}" if several else ""
        text.append(f"## {'What fails' if kind == 'Fails' else 'Cure'}{number}")
        text += [f"{words[0].upper()}{words[1:]}"] if words else []
        text.append(f"```python\n{example}\n```")
    text += ["In messages, `...` stands for what is left out.", "[All errors, and how to read one](../errors.md)"]
    return "\n\n".join(text) + "\n"
