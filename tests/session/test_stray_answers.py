"""An answer to a call that nobody made is shown as such: to a model, on the terminal, and on the page."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from trails import Repository
from trails.cli import drawing
from trails.exchange.file_import import export_session
from trails.session import Session


@pytest.fixture
def session(memory: Repository) -> Session:
    made = memory.create(id="chat")
    made.append("user", "How is it there?")
    made.append("assistant", "I look", tool_calls=[{"id": "c1", "name": "weather", "arguments": {}}])
    made.append("tool", "Snow", tool_call_id="c1")
    made.append("tool", "Rain", tool_call_id="c9")
    made.persist()
    return made


def test_a_model_is_told_the_answer_and_that_its_call_is_not_there(session: Session) -> None:
    messages = session.context(max_tokens=9999).openai()
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    said = str(messages[-1]["content"])
    assert "answer to the call c9, which is not on record" in said
    assert "Rain" in said


def test_the_terminal_names_the_answer_without_a_call_alone(session: Session) -> None:
    out = io.StringIO()
    drawing.transcript(Console(file=out, width=100), "chat", session.turns, full=False)
    assert out.getvalue().count("which no turn calls") == 1
    assert "(answers c9, which no turn calls)" in out.getvalue()


def test_the_terminal_says_nothing_of_calls_before_what_it_shows(session: Session) -> None:
    out = io.StringIO()
    drawing.transcript(Console(file=out, width=100), "chat", session.turns[2:], full=False)
    assert "which no turn calls" not in out.getvalue()


def test_the_page_names_the_answer_without_a_call_alone(memory: Repository, session: Session, tmp_path: Path) -> None:
    with (tmp_path / "page.html").open("wb") as out:
        export_session(memory, "chat", "html", out)
    page = (tmp_path / "page.html").read_text()
    assert page.count("which no turn calls") == 1
    assert "c9" in page.partition("which no turn calls")[0][-100:]
