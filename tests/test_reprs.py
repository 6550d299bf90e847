"""Everything public looks on one line as what it is, and never shows a whole text or a secret."""

from __future__ import annotations

import dataclasses
import inspect
from datetime import UTC, datetime
from typing import Any

import pytest

import trails
from tests.support.everything import everything
from tests.support.sessions import say
from trails import Repository
from trails.display import terminal_text
from trails.model.values import SealedTurn, Value

PUBLIC = [getattr(trails, name) for name in trails.__all__]
CLASSES = [
    each for each in PUBLIC if inspect.isclass(each) and not issubclass(each, BaseException) and each is not trails.Page
]
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_every_public_class_says_itself_how_it_looks(kind: type[object]) -> None:
    made = kind.__repr__
    assert made is not object.__repr__
    assert made.__module__.startswith("trails.")
    if dataclasses.is_dataclass(kind):
        assert "__create_fn__" not in made.__qualname__
        assert inspect.getsourcefile(inspect.unwrap(made)), "made by dataclasses"


@pytest.mark.slow
def test_what_stands_in_a_full_store_looks_short(memory: Repository) -> None:
    everything(memory)
    seen = 0
    for record in memory:
        session = memory.load(record)
        shown: list[object] = [record, session, session.context(), *session, *memory.notes.list(record)]
        shown += [part for turn in session for part in (*turn.tool_calls, *turn.tool_results)]
        shown += [turn.facts.model_call for turn in session]
        for value in [*shown, *memory.tags.list(), memory.list(), memory.verify(), memory.diff(record, record)]:
            text = repr(value)
            seen += 1
            assert len(text) <= terminal_text.REPR_WIDTH, text
            assert "\n" not in text
            assert " object at 0x" not in text
    assert seen > 50


def test_a_long_text_is_cut_in_a_turn_and_a_diff(memory: Repository) -> None:
    plan = say(memory.create(id="plan" * 50, label="l" * 64), "secret " * 1000, "x\ny\n" * 99)
    fork = say(plan.fork(at=1, id="fork" * 50), "z" * 9999)
    for value in (*plan, plan, plan.record, fork.record, plan.diff(fork), *plan.diff(fork).entries):
        assert len(repr(value)) <= 100 + (180 if value is plan else 0), repr(value)
        assert "\n" not in str(value)
    assert repr(plan[0]).startswith(f"Turn(session_id='{('plan' * 50)[:15]}")


def test_a_value_shows_what_it_holds_and_not_what_it_lacks() -> None:
    call = trails.ToolCall(id="c1", name="weather", arguments='{"place": "Zermatt"}')
    assert repr(call) == """ToolCall(id='c1', name='weather', arguments='{"place": "Zermatt"}')"""
    tag = trails.Tag(
        name="v1", session_id="plan", length=2, digest="0" * 64, author_iri="urn:trails:principal:a", time=NOW
    )
    assert repr(tag) == (
        "Tag(name='v1', session_id='plan', length=2, digest='000000000000000...0000000000000000', ...)"
    )
    assert str(tag) == repr(tag)


def test_a_salt_is_not_shown(memory: Repository) -> None:
    plan = say(memory.create(id="plan"), "a")
    sealed = memory.reader.sealed(list(plan))[0]
    assert isinstance(sealed, SealedTurn)
    assert sealed.salt not in repr(sealed)


@pytest.mark.parametrize("value", [{"a": 1}, [1] * 9, ("x",) * 9, "x" * 999, b"x" * 999, object(), NOW, 10**300])
def test_a_line_is_never_longer_than_it_may_be(value: Any) -> None:
    text = terminal_text.repr_line("Name" * 50, [(f"field{number}", value) for number in range(20)])
    assert len(text) <= 100
    assert text.endswith(("...)", ")"))


def test_a_value_of_a_host_is_a_value(memory: Repository) -> None:
    assert all(issubclass(kind, Value) for kind in (trails.Turn, trails.Run, trails.SessionRecord))
    assert repr(memory.tags) == "<Tags>"
