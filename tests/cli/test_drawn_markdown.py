"""Markdown on a terminal: what it would hide stays as it was written."""

from __future__ import annotations

import pytest
from rich.console import Console

from trails.cli.transcript_view import markdown_lines


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("| a | b |\n|---|---|\n| c | d | lost |", "lost"),
        ("[x]: https://example.com/hidden\n\nSee *it*.", "hidden"),
        ("A *dog* &amp; a cat", "&amp;"),
    ],
)
def test_what_markdown_would_hide_is_shown(text: str, kept: str) -> None:
    lines = markdown_lines(Console(width=80, force_terminal=True), text)
    assert kept in "\n".join(line.plain for line in lines)


def test_a_table_is_drawn_as_a_table() -> None:
    lines = markdown_lines(Console(width=80, force_terminal=True), "| a | b |\n|---|---|\n| c | d |")
    assert not any("---|" in line.plain for line in lines)
