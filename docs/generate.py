"""Writes the reference: a page for each namespace from its stub and docstrings, an index, what is not there, the primitives,
and a page for each error class.

python docs/generate.py           # write docs/reference/*.md, docs/errors/*.md, docs/absent.md and docs/primitives.md
python docs/generate.py --check   # say which of them are out of date, and fail if there are any
"""

from __future__ import annotations

import inspect
import pathlib
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import error_pages
import primitive_table
from prose import prose

import pullback as pb
from pullback.core.absent import ABSENT

DOCS = pathlib.Path(__file__).resolve().parent
HEADINGS = re.compile(r"^(Arguments|Returns|Raises|Example|Attributes|Source|Sources):[ \n]?", re.MULTILINE)
FOLDERS = ("reference", "errors")  # that hold nothing else
NOTE = "<!-- Made by docs/generate.py from the docstrings: change those. -->\n\n"


def namespaces(module: types.ModuleType = pb, path: str = "pullback") -> Iterator[tuple[str, types.ModuleType]]:
    """Each public module by its path; one that has two paths, by the first."""
    yield path, module
    for name in sorted(module.__all__):
        found = getattr(module, name)
        if isinstance(found, types.ModuleType) and found.__name__ == f"{path}.{name}":
            yield from namespaces(found, f"{path}.{name}")


def signature(found: Any) -> str:
    """The parameters with their defaults, without types, which the texts say in words."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown: list[str] = []
    for one in parameters:
        value = getattr(one.default, "__name__", None) or repr(one.default)
        default = "" if one.default is one.empty else "=..." if value.startswith("<") else f"={value}"
        shown.append(f"{ {one.VAR_POSITIONAL: '*', one.VAR_KEYWORD: '**'}.get(one.kind, '') }{one.name}{default}")
    kinds = [one.kind for one in parameters]
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        shown.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(len(shown) - sum(kind >= inspect.Parameter.KEYWORD_ONLY for kind in kinds), "*")
    return f"({', '.join(shown)})"


def listed(text: str) -> str:
    """The lines `name: meaning` of a section, as a list; lines that are indented further go on."""
    return re.sub(r"^(\S.*?): ", r"- **\1**: ", prose(text), flags=re.MULTILINE)


def rendered(docstring: str) -> str:
    """A docstring in Markdown: arguments and errors as lists, examples as code."""
    summary, *rest = HEADINGS.split(docstring)
    parts = [prose(summary.strip())]
    for heading, text in zip(rest[::2], rest[1::2]):
        text = inspect.cleandoc(text)
        if heading == "Example":
            parts.append(f"```python\n{text}\n```")
        else:
            parts.append(f"*{heading}*\n\n{listed(text) if heading in ('Arguments', 'Raises', 'Attributes') else prose(text)}")
    return "\n\n".join(parts)


def entry(name: str, found: Any, seen: dict[int, str]) -> str:
    """What the page says of a function or a class; of a second name of one, which it is."""
    first = seen.setdefault(id(found), name)
    if first != name:
        return f"### `{name}`\n\nThe same as `{first}`.\n"
    text = f"### `{name}{signature(found)}`\n\n{rendered(inspect.getdoc(found) or '')}\n"
    members = inspect.isfunction(found) or (inspect.isclass(found) and not issubclass(found, tuple))
    for member in sorted(vars(found)) if members else ():
        method = inspect.getattr_static(found, member)
        if not member.startswith("_") and inspect.isfunction(method) and method.__doc__:
            text += f"\n#### `{name}.{member}{signature(method)}`\n\n{rendered(inspect.getdoc(method) or '')}\n"
    return text


def is_documented(found: Any) -> bool:
    return (inspect.isfunction(found) or inspect.isclass(found)) and str(found.__module__).startswith("pullback")


def page(path: str, module: types.ModuleType) -> str:
    names = {name: getattr(module, name) for name in sorted(module.__all__)}
    seen: dict[int, str] = {}
    entries = [entry(name, found, seen) for name, found in names.items() if is_documented(found)]
    modules = {name: found.__name__ for name, found in names.items() if isinstance(found, types.ModuleType)}
    rooms = [f"[`{name}`]({ {'pullback.core.errors': '../errors'}.get(home, home) }.md)" for name, home in modules.items()]
    others = [f"`{name}`" for name, found in names.items() if not is_documented(found) and not inspect.ismodule(found)]
    text = f"{NOTE}# `{path}`\n\n{rendered(inspect.getdoc(module) or '')}\n"
    text += f"\nNamespaces: {', '.join(rooms)}.\n" if rooms else ""
    text += f"\nConstants, dtypes and other values: {', '.join(others)}.\n" if others else ""
    return "\n".join([text, *entries])


def pages() -> dict[pathlib.Path, str]:
    """The text of each file that is made."""
    found = {DOCS / "reference" / f"{path}.md": page(path, module) for path, module in namespaces()}
    index = [
        f"| [`{path}`]({path}.md) | {len(module.__all__)} | {prose((inspect.getdoc(module) or '').split(chr(10))[0])} |"
        for path, module in namespaces()
    ]
    title = f"{NOTE}# Reference\n\nWhat is [not there](../absent.md) is listed too.\n\n| namespace | names | |\n|---|---|---|\n"
    found[DOCS / "reference" / "README.md"] = title + "\n".join(index) + "\n"
    absent = [f"{NOTE}# What is not there\n\nNames of JAX's and NumPy's, and what there is in their place.\n"]
    for path, table in ABSENT.items():
        rows = [f"| {', '.join(f'`{name}`' for name in names.split())} | {prose(text)} |" for names, text in table.items()]
        absent.append("\n".join([f"## `{path}`\n", "| names | |", "|---|---|", *rows, ""]))
    found[DOCS / "absent.md"] = "\n".join(absent)
    found[DOCS / "primitives.md"] = NOTE.replace("docstrings", "primitives") + primitive_table.page(prose)
    for error in error_pages.classes():
        found[DOCS / "errors" / f"{error.__name__}.md"] = error_pages.page(error)
    return found


def outdated() -> list[str]:
    """The files that are not as they would be made now."""
    made = pages()
    there = {file for folder in FOLDERS for file in (DOCS / folder).glob("*.md")}
    there |= {DOCS / "absent.md", DOCS / "primitives.md"}
    stale = [file for file in there | set(made) if not file.exists() or file.read_text() != made.get(file)]
    return sorted(str(file.relative_to(DOCS)) for file in stale)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("\n".join(["out of date; run `python docs/generate.py`:", *outdated()]) if outdated() else 0)
    made = pages()
    for folder in FOLDERS:
        (DOCS / folder).mkdir(exist_ok=True)
        for file in set((DOCS / folder).glob("*.md")) - set(made):
            file.unlink()
    for file, text in made.items():
        file.write_text(text)
