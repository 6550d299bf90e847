"""Render Markdown as HTML in which nothing runs, nothing is fetched, and no word is lost.

CommonMark with tables, by markdown-it-py; HTML in a text stays text. What comes of that is cleaned by nh3 with a list of the few
tags and attributes that Markdown needs. A picture is a link to it. Code has colours by Pygments, for languages that agents
write. All three come with the extra `html`; without them `render` has nothing to say, and texts are shown as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import import_module
from itertools import groupby
from typing import Any, Final

from markupsafe import Markup

from trails.display.terminal_text import HARMLESS, clean

MOST: Final = 50_000
"""Characters of the longest text that is parsed: no text of that length takes more than some seconds."""
_MARK: Final = re.compile(
    r"[*_`#~\[|>\\]|^(?:[ \t]*(?:[-+]|\d{1,9}[.)])[ \t]|[ ]{0,3}[-=]+[ \t]*$| {4}| {0,3}\t)", re.MULTILINE
)
"""What a text has that Markdown would show in another way."""
_WORD: Final = re.compile(r"[^\W_]")
_DEEPEST: Final = 40
"""Lists and quotes within each other; the parser drops what stands deeper, so that such a text is not parsed."""
_LINK: Final = re.compile("https?://|mailto:", re.IGNORECASE)
_TAGS: Final = frozenset(
    ("a", "blockquote", "br", "code", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "small", "span",
     "strong", "table", "tbody", "td", "th", "thead", "tr", "ul")
)  # fmt: skip
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}, "div": {"tabindex", "role", "aria-label"}}
_MOST_CODE: Final = 5000
"""Characters of the longest code that has colours."""
_LANGUAGES: Final = frozenset(
    ("bash", "c", "c++", "console", "cpp", "css", "diff", "docker", "go", "html", "ini", "java", "javascript", "js", "json",
     "kotlin", "make", "php", "py", "python", "ruby", "rust", "scss", "sh", "shell", "sparql", "sql", "swift", "toml",
     "ts", "tsx", "turtle", "typescript", "xml", "yaml", "yml", "zsh")
)  # fmt: skip
_COLOURS: Final = {
    "Comment": "hc", "Keyword": "hk", "Literal.String": "hs", "Literal.Number": "hn", "Name.Function": "hf",
    "Name.Class": "hf", "Name.Tag": "hf", "Name.Decorator": "hf", "Generic.Deleted": "hd", "Generic.Inserted": "hi",
}  # fmt: skip
"""The class of a piece of code by its kind; kinds below one of these have its class."""


def render(text: str) -> Markup | None:
    """Return a text as HTML, or None where it is to be shown as it is.

    That is so without the extra `html`, for a text without a mark of Markdown, and for one that is too long or too deep.

    >>> render("plain words"), render("<b>*one*</b>")
    (None, Markup('<p>&lt;b&gt;<em>one</em>&lt;/b&gt;</p>\\n'))
    """
    if len(text) > MOST or not _MARK.search(text) or not is_installed():
        return None
    parser, cleaner = _tools()
    shown = clean(text)
    tokens = parser.parse(shown)
    if any(token.level >= _DEEPEST - 1 for token in tokens) or loses_cells(shown, tokens):
        return None
    made = cleaner.clean(parser.renderer.render(tokens, parser.options, {}))
    return Markup(made.translate(HARMLESS))  # noqa: S704 - cleaned; an address may have named a control character


def new_parser(**options: Any) -> Any:
    """Return a parser of CommonMark with tables that hides no text: of link definitions, entities and HTML, all is shown."""
    made = import_module("markdown_it").MarkdownIt("commonmark", {"html": False, **options})
    return made.enable(["table", "strikethrough"]).disable(["reference", "entity"])


def loses_cells(text: str, tokens: Sequence[Any]) -> bool:
    """Tell whether a row of a table has more cells than its head: Markdown drops them (GitHub's specification, 4.10)."""
    lines = re.split(r"\r\n?|\n", text)
    line, cells, is_body = "", list[str](), False
    for token in tokens:
        match token.type:
            case "tbody_open" | "tbody_close":
                is_body = token.type == "tbody_open"
            case "tr_open":
                line, cells = lines[token.map[0]], []
            case "inline":
                cells.append(token.content)
            case "tr_close" if is_body and _WORD.findall("".join(cells)) != _WORD.findall(line):
                return True
    return False


@cache
def is_installed() -> bool:
    """Tell whether the packages of the extra `html` are there."""
    try:
        _tools()
    except ImportError:
        return False
    return True


@cache
def _tools() -> tuple[Any, Any]:
    """Return what parses and renders Markdown, and what cleans the HTML that comes of it."""
    nh3, parser = import_module("nh3"), new_parser(breaks=True, maxNesting=_DEEPEST)
    parser.validateLink = lambda address: _LINK.match(address) is not None  # another one stays as it was written
    rules: Mapping[str, Callable[..., str]] = {
        "image": _image,
        "fence": _fence,
        "code_block": _fence,
        "heading_open": _heading,
        "heading_close": _heading,
        "table_open": lambda *_: '<div class="w" tabindex="0" role="region" aria-label="Table"><table>\n',
        "table_close": lambda *_: "</table></div>\n",
        "th_open": _cell,
        "td_open": _cell,
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    cleaner = nh3.Cleaner(
        tags=set(_TAGS),
        attributes=_ATTRIBUTES,
        allowed_classes={"div": {"w"}, "span": {*_COLOURS.values()}, "td": {"r"}, "th": {"r"}, "small": {"lang"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    return parser, cleaner


def _image(renderer: Any, tokens: Sequence[Any], at: int, options: Any, env: Any) -> str:
    """Return a link to a picture: a page fetches none."""
    token = tokens[at]
    address, said = str(token.attrs["src"]), renderer.renderInlineAsText(token.children, options, env)
    return f'<a href="{escape(address)}">{escape(said or address, quote=False)} (picture)</a>'


def _fence(_: Any, tokens: Sequence[Any], at: int, *__: Any) -> str:
    """Return code, below what its fence says of it."""
    token = tokens[at]
    said = f'<small class="lang">{escape(token.info.strip(), quote=False)}</small>' if token.info.strip() else ""
    language = (token.info.split() or [""])[0].lower()
    return f"{said}<pre><code>{coloured(token.content, language)}</code></pre>\n"


def _heading(_: Any, tokens: Sequence[Any], at: int, *__: Any) -> str:
    """Return the tag of a heading: those of the page come first, the title and the sessions."""
    token = tokens[at]
    level = min(6, int(token.tag[1]) + 2)
    return f"<h{level}>" if token.nesting == 1 else f"</h{level}>\n"


def _cell(_: Any, tokens: Sequence[Any], at: int, *__: Any) -> str:
    token = tokens[at]
    return f'<{token.tag} class="r">' if "right" in str(token.attrs.get("style", "")) else f"<{token.tag}>"


def coloured(code: str, language: str) -> str:
    """Return code as HTML, with classes for colours where its language is one that agents write.

    >>> coloured("x < 1 # no", "python")
    'x &lt; <span class="hn">1</span> <span class="hc"># no</span>'
    """
    if language not in _LANGUAGES or len(code) > _MOST_CODE:
        return escape(code, quote=False)
    pieces = list(_lexer(language).get_tokens(code))
    if "".join(text for _, text in pieces) != code:
        return escape(code, quote=False)
    parts = [
        (name, escape("".join(text for _, text in same), quote=False))
        for name, same in groupby(pieces, lambda piece: _colour(str(piece[0])))
    ]
    return "".join(f'<span class="{name}">{text}</span>' if name else text for name, text in parts)


@cache
def _lexer(language: str) -> Any:
    return import_module("pygments.lexers").get_lexer_by_name(language, stripnl=False, ensurenl=False)


@cache
def _colour(kind: str) -> str | None:
    """Return the class of a kind of token, as Pygments writes it: `Token.Comment.Single`."""
    return next((name for known, name in _COLOURS.items() if f"{kind}.".startswith(f"Token.{known}.")), None)
