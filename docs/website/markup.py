"""The HTML of a page: code in colours, tables that scroll, and the library's names as links to the reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import ClassVar

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import RegexLexer, bygroups
from pygments.lexers import BashLexer, JsonLexer, PythonConsoleLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, Text

from website.pages import MARKDOWN, ROOT, Page, SiteError, relative

FORMAT = HtmlFormatter(nowrap=True)
NAMED = re.compile(r"(?:pb|pullback|pnp|lax|pb\.compat\.nabla)(?:\.[A-Za-z_]\w*)+(?=$|\()")
TABULAR = re.compile(r"\S {3,}\S")
SHORT = {"pb": "pullback", "pnp": "pullback.numpy", "lax": "pullback.lax"}
ROOMS = {"pullback.linalg": "pullback.numpy.linalg", "pullback.fft": "pullback.numpy.fft"}


class ProgramLexer(RegexLexer):
    """Printed Programs and StableHLO."""

    name = "program"
    tokens: ClassVar = {
        "root": [
            (r"\b(lambda|let|in|module|func\.func|return|public)\b", Keyword),
            (r'"[^"\n]*"', String),
            (r"(:)(cpu|gpu|tpu|cuda)(\(\d+\))", Comment),
            (r"\b(bool|key<\w+>|[a-z]+\d+\w*)(\[[^\]\n]*\])", bygroups(Keyword.Type, Keyword.Type)),
            (r"tensor<[^>\n]*>", Keyword.Type),
            (r"\bloc\(.*\)$", Comment),
            (r"(= )([a-z_]\w*(?:\.\w+)?)", bygroups(Text, Name.Function)),
            (r"(?<![\w.%])-?\d+(\.\d+)?(e[+-]?\d+)?\b", Number),
            (r"\w+|\s+|.", Text),
        ]
    }


LEXERS = {"python": PythonLexer(), "json": JsonLexer(), "sh": BashLexer(), "bash": BashLexer(), "console": BashLexer()}
CONSOLE, PROGRAM = PythonConsoleLexer(), ProgramLexer()


def code(text: str, language: str) -> str:
    """A block of code as HTML."""
    lexer = LEXERS.get(language)
    if language == "python" and text.startswith(">>> "):
        lexer = CONSOLE
    elif language == "text" and ("{ lambda" in text or "stablehlo." in text):
        lexer = PROGRAM
    kind = "output" if language == "text" else "code"
    lines = [line for line in text.split("\n") if len(line) > 130]
    if kind == "output" and lexer is None and lines and not TABULAR.search(text):
        kind += " long"  # a message, whose lines are broken where there is no more room
    inner = highlight(text, lexer, FORMAT) if lexer else escape(text, quote=False)
    return f'<pre class="{kind}" tabindex="0"><code>{inner}</code></pre>\n'


class Names:
    """Where each public name is explained: `pullback.lax.scan` -> the page and its anchor."""

    def __init__(self, pages: list[Page]) -> None:
        self.places: dict[str, tuple[Page, str]] = {}
        for page in pages:
            if page.is_reference:
                module = page.source.stem
                self.places[module] = (page, "")
                for heading in page.headings:
                    if heading.code:
                        self.places.setdefault(f"{module}.{heading.anchor}", (page, heading.anchor))

    def address(self, text: str, page: Page) -> str | None:
        """The address of what a piece of code names, if it is one name of the library's."""
        match = NAMED.match(text)
        if match is None or not re.fullmatch(r"(\([^()]*\))?", text[match.end() :]):
            return None
        first, _, rest = match[0].partition(".")
        name = f"{SHORT.get(first, first)}.{rest}"
        for room, home in ROOMS.items():
            name = re.sub(rf"^{re.escape(room)}(?=\.|$)", home, name)
        found = self.places.get(name)
        if found is None or found[0] is page:
            return None
        return relative(found[0].place, page.place) + (f"#{found[1]}" if found[1] else "")


def with_panes(tokens: list[Token], figures: list[str] | None) -> Iterator[Token]:
    """The blocks of a page, where what stands between `<!-- explore: ... -->` and `<!-- /explore -->` is replaced by the next
    of the figures, if there are any; other comments are left out."""
    waiting = iter(figures or ())
    skipping = False
    for token in tokens:
        if token.type == "html_block":
            if not token.content.startswith("<!--"):
                raise SiteError(f"HTML in Markdown, which is not taken but for comments: {token.content!r}")
            if token.content.startswith("<!-- explore:") and figures is not None:
                token = Token("html_block", "", 0, content=next(waiting))
                skipping = True
                yield token
            elif token.content.startswith("<!-- /explore"):
                skipping = False
        elif not skipping:
            yield token


def linked_names(tokens: list[Token], page: Page, names: Names) -> None:
    """Let code in running text lead to the reference, where it is a name of the library's."""
    for block in tokens:
        inside = 0
        for token in block.children or ():
            inside += {"link_open": 1, "link_close": -1}.get(token.type, 0)
            if token.type == "code_inline" and not inside and not token.meta.get("address"):
                token.meta["address"] = names.address(token.content, page)


def _code_inline(self: RendererHTML, tokens: list[Token], at: int, options: object, env: object) -> str:
    text = tokens[at].content
    shown = f"<code>{escape(text, quote=False)}</code>"
    if tokens[at].meta.get("entry"):
        name = text.partition("(")[0]
        shown = f"<code><b>{escape(name)}</b>{escape(text[len(name) :], quote=False)}</code>"
    address = tokens[at].meta.get("address")
    return f'<a class="name" href="{escape(address)}">{shown}</a>' if address else shown


def _fence(self: RendererHTML, tokens: list[Token], at: int, options: object, env: object) -> str:
    return code(tokens[at].content, tokens[at].info.strip())


def _heading_open(self: RendererHTML, tokens: list[Token], at: int, options: object, env: object) -> str:
    kind = ' class="entry"' if tokens[at].meta.get("entry") else ""
    return f'<{tokens[at].tag} id="{escape(str(tokens[at].attrs["id"]))}"{kind}>'


def _heading_close(self: RendererHTML, tokens: list[Token], at: int, options: object, env: object) -> str:
    anchor = tokens[at - 2].attrs.get("id")
    return f' <a class="anchor" href="#{escape(str(anchor))}" aria-label="Link to this heading">#</a></{tokens[at].tag}>\n'


MARKDOWN.add_render_rule("code_inline", _code_inline)
MARKDOWN.add_render_rule("fence", _fence)
MARKDOWN.add_render_rule("code_block", _fence)
MARKDOWN.add_render_rule("heading_open", _heading_open)
MARKDOWN.add_render_rule("heading_close", _heading_close)
MARKDOWN.add_render_rule("table_open", lambda self, tokens, at, options, env: '<div class="table" tabindex="0"><table>\n')
MARKDOWN.add_render_rule("table_close", lambda self, tokens, at, options, env: "</table></div>\n")


def html(page: Page, names: Names, figures: list[str] | None = None) -> str:
    """The content of a page, with figures for its explorer panes; without them, with the text that stands for them."""
    if not page.is_markdown:
        language = {".py": "python", ".pyi": "python", ".json": "json", ".sh": "bash"}.get(page.source.suffix, "")
        return f"<h1><code>{escape(str(page.source.relative_to(ROOT)))}</code></h1>\n" + code(page.text, language)
    tokens = list(with_panes(page.tokens, figures))
    linked_names(tokens, page, names)
    return MARKDOWN.renderer.render(tokens, MARKDOWN.options, {})
