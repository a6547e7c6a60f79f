"""The explorer's page: one HTML file that needs nothing else, with the data in it.

The parts stand in the folder `page/`: a skeleton, a style sheet, and modules of JavaScript, one idea each. They are joined
here, as they are: no tool is needed, and the page loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

from pullback.core.errors import ProgramError

_FOLDER = Path(__file__).parent / "page"
_FIRST = "main.js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|let|function|class)", re.MULTILINE)
_COLOUR = re.compile(r"(--[\w-]+): light-dark\(([^,]+),")
_PLACE = re.compile(r"<!--\{([a-z ]+)\}-->")


def page_html(data: dict[str, Any]) -> str:
    """The page that shows some data, which docs/explorer-format.md describes.

    Arguments:
        data: the page's data. Its texts may be anything: none of them becomes HTML, or part of a script.

    Returns:
        An HTML document. It opens from a file, and makes no request.

    Raises:
        ProgramError: the data cannot be written as JSON.

    Example:
        >>> from pullback.explorer.page import page_html
        >>> page = page_html({"format": "pullback.explorer", "version": 1, "title": "a < b", "stages": []})
        >>> "<title>a &lt; b</title>" in page, page.count("<script")
        (True, 2)
    """
    script = _script()
    parts = {
        # Half of a surrogate pair cannot be written as UTF-8.
        "title": html.escape(str(data.get("title", "pullback explorer")).encode(errors="replace").decode()),
        "style": _style(),
        "script": script,
        "script hash": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "data": _embedded(data),
    }
    # One pass, so that a text in the data that looks like a place of the skeleton stays what it is.
    return _PLACE.sub(lambda place: parts[place[1]], _read("page.html"))


def _embedded(data: dict[str, Any]) -> str:
    """The data as JSON. Of an element with a script, only `</` and `<!` could change how it is read."""
    try:
        text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ProgramError(
            f"The data of an explorer page are not JSON: {error}. They must be objects, lists, texts, finite numbers, "
            'true, false and null; NaN and infinities as texts: "nan", "inf", "-inf".'
        ) from error
    return text.replace("</", "<\\/").replace("<!", "\\u003c!")


def _style() -> str:
    """The style sheet; browsers from before 2024, which do not know `light-dark`, show the light colours."""
    text = _read("page.css")
    light = "".join(f"{name}: {colour}; " for name, colour in _COLOUR.findall(text))
    return f"{text}@supports not (color: light-dark(#000, #fff)) {{ :root {{ {light}}} }}\n"


def _script() -> str:
    """The modules in one scope, each after those that it imports; names at the top of a module are unique among all."""
    found: dict[str, str] = {}

    def add(name: str) -> None:
        text = _read(name)
        for imported in _IMPORT.findall(text):
            if imported not in found:
                add(imported)
        found[name] = _EXPORT.sub("", _IMPORT.sub("", text))

    add(_FIRST)
    modules = "\n".join(f"// ==== {name}\n{text}" for name, text in found.items())
    return f'(() => {{\n"use strict";\n{modules}}})();\n'


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
