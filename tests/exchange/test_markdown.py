"""Markdown as HTML: what it means is laid out, nothing in it runs or fetches, and no word is lost."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile_markdown import HOSTILE_MARKDOWN
from trails.display import markdown
from trails.display.markdown import MOST, coloured, render

TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a"),
    *("div", "span", "small", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"href", "title", "rel", "start", "class", "tabindex", "role", "aria-label"}


class Read(HTMLParser):
    """The elements, their attributes and the text of what was made of a text."""

    def __init__(self, made: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(made)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_markdown_means_is_laid_out_below_the_headings_of_the_page() -> None:
    text = "# One\n\n###### Six\n\n*a* **b** ~~c~~ `d`\n\n- x\n- y\n\n7. z\n\n> q\n\n---\n\n[l](https://a.example/?x=1&y=2)"
    assert render(text) == (
        "<h3>One</h3>\n<h6>Six</h6>\n<p><em>a</em> <strong>b</strong> <s>c</s> <code>d</code></p>\n"
        '<ul>\n<li>x</li>\n<li>y</li>\n</ul>\n<ol start="7">\n<li>z</li>\n</ol>\n<blockquote>\n<p>q</p>\n</blockquote>\n<hr>\n'
        '<p><a href="https://a.example/?x=1&amp;y=2" rel="noopener noreferrer nofollow">l</a></p>\n'
    )


def test_a_line_end_stays_a_line_end() -> None:
    assert render("*a*\nb") == "<p><em>a</em><br>\nb</p>\n"


def test_a_table_stands_in_a_box_that_scrolls_and_that_keys_reach() -> None:
    made = render("|name|n|\n|-|-:|\n|a|1|")
    assert made is not None
    assert made.startswith('<div class="w" tabindex="0" role="region" aria-label="Table"><table>')
    assert '<th>name</th>\n<th class="r">n</th>' in made
    assert '<td>a</td>\n<td class="r">1</td>' in made


def test_code_has_the_colours_of_its_language_below_what_its_fence_says() -> None:
    assert render("```python title=x.py\ndef f(): return 'a' # b\n```") == (
        '<small class="lang">python title=x.py</small><pre><code><span class="hk">def</span> <span class="hf">f</span>(): '
        '<span class="hk">return</span> <span class="hs">\'a\'</span> <span class="hc"># b</span>\n</code></pre>\n'
    )
    assert coloured("-a\n+b\n", "diff") == '<span class="hd">-a</span>\n<span class="hi">+b</span>\n'
    assert coloured("<a", "brainfuck") == "&lt;a"
    assert "span" not in coloured("x = 1\n" * 1000, "python")  # 6,000 characters


def test_a_picture_and_a_picture_in_a_link_are_links_and_no_pictures() -> None:
    made = render("![a map](https://a.example/m.png) [![in](https://a.example/i.png)](https://a.example/o)")
    assert made is not None
    assert "<img" not in made
    assert re.findall(r'href="(.*?)"', made)[0] == "https://a.example/m.png"
    assert ">a map (picture)</a>" in made


@pytest.mark.parametrize(
    "address",
    ["javascript:x()", "data:text/html,x", "file:///etc/passwd", "//a.example/x", "/etc/passwd", "x.md", "#b0"],
)
def test_a_link_to_anything_but_the_web_or_a_mailbox_stays_as_it_was_written(address: str) -> None:
    assert render(f"[a]({address})") == f"<p>[a]({address})</p>\n"


def test_a_definition_an_entity_and_html_are_shown_as_they_were_written() -> None:
    assert render("[1]: https://a.example\n\n&amp; &#65; <b>x</b>") == (
        "<p>[1]: https://a.example</p>\n<p>&amp;amp; &amp;#65; &lt;b&gt;x&lt;/b&gt;</p>\n"
    )


def test_plain_words_a_text_that_is_too_long_and_one_that_is_nested_too_deep_are_left_as_they_are() -> None:
    assert render("plain words, in two lines\nand no more") is None
    assert render("*a* " * (MOST // 4)) is not None
    assert render("*a* " * (MOST // 4) + "b") is None
    assert render(">" * 60 + " deep") is None
    assert render(">" * 10 + " not deep") is not None


def test_without_the_packages_of_the_extra_texts_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    for cached in (markdown._tools, markdown.is_installed):
        cached.cache_clear()
    monkeypatch.setattr(markdown, "import_module", missing)
    try:
        assert (render("*a*"), markdown.is_installed()) == (None, False)
    finally:
        monkeypatch.undo()
        markdown.is_installed.cache_clear()
    assert render("*a*") == "<p><em>a</em></p>\n"


def test_there_are_more_than_sixty_hostile_samples() -> None:
    assert len(set(HOSTILE_MARKDOWN)) > 60


@pytest.mark.parametrize("text", HOSTILE_MARKDOWN, ids=range(len(HOSTILE_MARKDOWN)))
def test_a_hostile_text_makes_only_elements_of_markdown_and_links_to_the_web(text: str) -> None:
    check_harmless(text)


def check_harmless(text: str) -> None:
    made = render(text)
    if made is None:
        return  # the page escapes it as a whole
    read = Read(made)
    assert {tag for tag, _ in read.elements} <= TAGS
    assert {name for _, given in read.elements for name in given} <= ATTRIBUTES
    links = [given["href"] for _, given in read.elements if "href" in given]
    assert [link for link in links if not re.match("(https?://|mailto:)", str(link), re.IGNORECASE)] == []
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", made)
    seen = read.text + "".join(str(value) for _, given in read.elements for value in given.values())
    assert words(text) - words(seen) == set()


@pytest.mark.parametrize("before", ["", "> ", "  "])
def test_a_row_with_more_cells_than_its_table_is_shown_as_it_is(before: str) -> None:
    rows = ["| a | b |", "|---|---|", "| c | d |"]
    assert "<td>d</td>" in (render("\n".join(f"{before}{row}" for row in rows)) or "")
    for more in ("| c | d | lost |", "c | d | d", "| c \\| x | d | lost"):
        assert render("\n".join(f"{before}{row}" for row in [*rows, more])) is None


def words(text: str) -> set[str]:
    """The characters of a text that are no marks of Markdown."""
    return set(re.findall(r"[^\W_]", text))


@given(st.text(alphabet=st.sampled_from("*_`~#>[]()!|-+1.: \n\t\\<&;\"'=ab/x\u202e\x00"), max_size=60))
def test_whatever_the_marks_of_a_text_are_it_stays_harmless_and_keeps_its_words(text: str) -> None:
    check_harmless(text)


@given(
    st.lists(st.sampled_from(HOSTILE_MARKDOWN[:70]), min_size=2, max_size=4),
    st.sampled_from(["\n\n", "\n", " ", "](", "`"]),
)
def test_hostile_texts_put_together_stay_harmless(texts: list[str], between: str) -> None:
    check_harmless(between.join(texts))


@pytest.mark.slow
@pytest.mark.parametrize(
    "mark", ["*a ", "[", "[a](", "![", "`a", ">", "- ", "|a", "<", "**", "~~a", "\\", "[a](<b", "_a __b "]
)
def test_no_text_of_the_greatest_length_takes_long(mark: str) -> None:
    start = time.process_time()
    render((mark * MOST)[:MOST])
    assert time.process_time() - start < 20  # 5 on an idle machine


def test_the_cleaner_takes_out_what_the_parser_lets_through() -> None:
    parser, _ = markdown._tools()
    with patch.object(
        parser.renderer,
        "render",
        return_value='<p onclick="x()" style="color:red" class="w">a<img src=x><script>b()</script></p>',
    ):
        assert render("*a*") == "<p>a</p>"
