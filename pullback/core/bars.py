"""What is drawn on a terminal by rich: progress bars, pages in Markdown."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress_bar(what: str, total: int, columns: tuple[str, ...], **console: Any) -> Iterator[Callable[[int], None]]:
    """A bar that shows how much of `total` is done; inside the block, a function says how much more.

    Arguments:
        what: what is being done, in a word or two. columns: the classes of rich's columns that follow the bar.
        console: how wide it is (`width`).
    """
    rich: Any = importlib.import_module("rich.progress")
    shown = (rich.TextColumn(what), rich.BarColumn(None), *[getattr(rich, name)() for name in columns])
    with rich.Progress(*shown, console=importlib.import_module("rich.console").Console(**console)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


def print_markdown(text: str, **console: Any) -> None:
    """Print a text in Markdown, laid out and coloured.

    Arguments:
        text: the text. console: how wide it is (`width`).
    """
    markdown = importlib.import_module("rich.markdown").Markdown(text, code_theme="ansi_dark")
    importlib.import_module("rich.console").Console(**console).print(markdown)
