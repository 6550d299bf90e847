"""A turn that broke off while it was written shows as such wherever it is shown, and a model is shown it as asked."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

import trails
from tests.support.commands import Run
from trails import InvalidInput, Repository
from trails.exchange.file_import import export_session

MARK = "[cut off here: the turn broke off while it was written]"


def broken(store: Repository, *, summary: bool = False) -> None:
    """A question, an answer that broke off, and a second question."""
    session = store.create(id="plan")
    session.append("user", "Where to?")
    if summary:
        for number in range(60):  # so many that only what is shown is read, by its index
            session.append("assistant", f"answer {number}", model="m-1")
        session.compact(lambda _: "A summary", keep_turns=1)
    with contextlib.suppress(ZeroDivisionError), session.streaming("assistant", model="m-1") as turn:
        turn.write("By tr")
        raise ZeroDivisionError
    session.append("user", "Go on")
    session.persist()


def test_a_turn_that_broke_off_says_so(store: Repository) -> None:
    broken(store)
    first, cut, last = store.load("plan").turns
    assert [turn.is_cut for turn in (first, cut, last)] == [False, True, False]
    assert (cut.stop_reason, cut.text, cut.model, cut.usage, cut.tool_calls) == (
        "failed-partial",
        "By tr",
        "m-1",
        {},
        (),
    )
    assert "failed-partial" in repr(cut)
    assert "failed-partial" in cut._repr_html_()
    assert "failed-partial" not in first._repr_html_()


@pytest.mark.parametrize("summary", [False, True])
@pytest.mark.parametrize("max_tokens", [None, 10_000])
def test_a_model_is_shown_it_with_a_mark_or_not_at_all(
    store: Repository, summary: bool, max_tokens: int | None
) -> None:
    broken(store, summary=summary)
    session = store.load("plan")
    for context in (store.context, lambda _, *args, **how: session.context(*args, **how)):
        marked = context("plan", max_tokens=max_tokens).openai()
        assert [message["content"] for message in marked][-2:] == [f"By tr\n{MARK}", "Go on"]
        hidden = context("plan", max_tokens=max_tokens, cut="leave out").openai()
        assert len(hidden) == len(marked) - 1
        assert not [message for message in hidden if "By tr" in str(message)]


def test_another_word_for_it_is_refused(memory: Repository) -> None:
    broken(memory)
    with pytest.raises(InvalidInput, match="cut is 'mark' or 'leave out'"):
        memory.context("plan", cut="hide")  # type: ignore[arg-type]


def test_commands_page_and_diff_mark_it(run: Run, place: Path) -> None:
    with trails.open(place, create=True) as store:
        broken(store)
        other = store.load("plan").fork(at=1, id="other")
        other.append("assistant", "By bus")
        other.persist()
        page = io.BytesIO()
        export_session(store, "plan", "html", page)
    assert page.getvalue().count(b"failed-partial") == 1
    assert run("show", "plan").stdout.count("failed-partial") == 1
    assert run("log", "plan").stdout.count("failed-partial") == 1
    assert "failed-partial" in run("diff", "plan", "other").stdout
    assert MARK in run("context", "plan", "--format", "openai").stdout
    assert "By tr" not in run("context", "plan", "--format", "openai", "--leave-out-cut").stdout
