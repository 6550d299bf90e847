"""An answer to a call that nobody made is shown as such: to a model, on the terminal, and on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from trails import Repository
from trails.cli import transcript_view
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


@pytest.mark.parametrize(("first", "named"), [(0, ["(answers c9, which no turn calls)"]), (2, [])])
def test_the_terminal_names_the_answer_without_a_call_alone_and_no_call_before_what_it_shows(
    session: Session, capsys: pytest.CaptureFixture[str], first: int, named: list[str]
) -> None:
    transcript_view.transcript("chat", session.turns[first:], full=False)
    assert [line.strip() for line in capsys.readouterr().out.splitlines() if "which no turn calls" in line] == named


def test_the_page_names_the_answer_without_a_call_alone(memory: Repository, session: Session, tmp_path: Path) -> None:
    with (tmp_path / "page.html").open("wb") as out:
        export_session(memory, "chat", "html", out)
    page = (tmp_path / "page.html").read_text()
    assert page.count("which no turn calls") == 1
    assert "c9" in page.partition("which no turn calls")[0][-100:]
