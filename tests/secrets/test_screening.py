"""Turns that hold secrets, on their way in: refused or redacted before anything is stored, and only where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.made_keys import MADE
from trails import InvalidInput, Repository, SecretFound
from trails.exchange.file_import import import_path

_KEY = MADE["github-token"](3)
_MARK = "[redacted: github-token]"
_WORD = "n7!kPz#2q\\Lw"  # which JSON writes otherwise than it is

PLACES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "text": (f"Push with {_KEY}.", {}, "content"),
    "a part": ([{"type": "text", "text": f"Push with {_KEY}."}], {}, "content"),
    "a call's input": (
        [{"type": "tool_use", "id": "c1", "name": "push", "input": {"env": {"TOKEN": _KEY}}}],
        {},
        "content",
    ),
    "a call's arguments": (
        "I push.",
        {"tool_calls": [{"id": "c1", "name": "push", "arguments": json.dumps({"env": _KEY})}]},
        "arguments of a call of 'push'",
    ),
    "metadata": ("Push.", {"meta": {"headers": {"x": [_KEY]}}}, "metadata"),
    "usage": ("Push.", {"usage": {"input_tokens": 3, "trace": _KEY}}, "usage"),
    "the model's name": ("Push.", {"model": f"m {_KEY}"}, "model's name"),
    "the stop reason": ("Push.", {"stop_reason": _KEY}, "stop reason"),
}


def _texts(store: Repository) -> str:
    return "\n".join(map(str, store.workspace.store.quads((None, None, None, None))))


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_refused_wherever_in_a_turn_it_stands(place: str, memory: Repository) -> None:
    content, options, where = PLACES[place]
    session = memory.create(id="s")
    with pytest.raises(SecretFound) as raised:
        session.append("assistant", content, **options, scan="refuse")
    assert (raised.value.kind, raised.value.where) == ("github-token", where)
    assert "github-token" in str(raised.value)
    assert where in str(raised.value)
    assert not any(_KEY[at : at + 8] in str(raised.value) for at in range(len(_KEY) - 8))
    assert len(session) == 0
    session.discard_pending()


@pytest.mark.parametrize("place", PLACES)
def test_a_mark_stands_in_the_place_of_a_secret_before_anything_is_stored(place: str, memory: Repository) -> None:
    content, options, _ = PLACES[place]
    session = memory.create(id="s")
    turn = session.append("assistant", content, **options, scan="redact")
    assert _KEY not in repr(turn.to_dict())
    assert _MARK in json.dumps(turn.to_dict())
    session.persist()
    assert _KEY not in _texts(memory)
    assert memory.load("s").turns == session.turns
    assert memory.verify().ok


def test_without_scan_nothing_is_looked_for(memory: Repository) -> None:
    session = memory.create(id="s")
    assert session.append("user", f"Push with {_KEY}.").content == f"Push with {_KEY}."
    session.persist()


def test_a_value_whose_name_says_that_it_is_a_password_is_one(memory: Repository) -> None:
    session = memory.create(id="s")
    call = {"id": "c1", "name": "db", "arguments": json.dumps({"password": _WORD})}
    turn = session.append_message({"role": "assistant", "content": None, "tool_calls": [call]}, scan="redact")
    assert turn.tool_calls[0].input == {"password": "[redacted: password]"}
    parts = session.append(
        "assistant",
        [{"type": "function_call", "call_id": "c2", "name": "db", "arguments": call["arguments"]}],
        scan="redact",
    )
    session.discard_pending()
    assert _WORD not in repr(parts)
    assert json.loads(parts.content[0]["arguments"]) == parts.tool_calls[0].input


def test_a_store_says_it_for_all_that_comes_in(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True, scan="redact") as store:
        session = store.create(id="s", system=f"Use {_KEY}.")
        session.extend([{"role": "user", "content": f"a {_KEY}"}, {"role": "assistant", "content": f"b {_KEY}"}])
        with session.streaming("assistant") as streamed:
            streamed.write(f"c {_KEY[:9]}")
            streamed.write(_KEY[9:])
            assert not list((tmp_path / "s").rglob("*.jsonl"))
        assert [turn.content for turn in session.turns] == [f"a {_MARK}", f"b {_MARK}", f"c {_MARK}"]
        assert session.system == f"Use {_MARK}."
        assert session.append("user", f"not {_KEY}", scan="off").content == f"not {_KEY}"
        assert session.discard_pending() == 1
        with pytest.raises(SecretFound):
            session.append("user", f"not {_KEY}", scan="refuse")
        session.persist()
        assert _KEY not in _texts(store)
    with trails.open(tmp_path / "s", scan="refuse") as store:
        session = store.load("s")
        for refused in (
            lambda: session.append("user", _KEY),
            lambda: session.extend([{"role": "user", "content": "Fine"}, {"role": "user", "content": _KEY}]),
            lambda: session.set_system(f"Use {_KEY}"),
        ):
            with pytest.raises(SecretFound):
                refused()
        assert (len(session), session.pending) == (3, 0)


def test_a_stream_that_is_refused_leaves_no_turn(memory: Repository) -> None:
    session = memory.create(id="s")
    with pytest.raises(SecretFound), session.streaming("assistant", scan="refuse") as streamed:
        streamed.write(f"Push with {_KEY}.")
    assert len(session) == 0


def test_an_import_into_a_store_that_redacts_redacts(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps([{"role": "user", "content": f"a {_KEY}"}, {"role": "assistant", "content": "b"}]))
    with trails.open(":memory:", scan="redact") as store:
        report = import_path(store, file, final=True)
        assert [found.redacted for found in report.secrets] == [True]
        assert _KEY not in _texts(store)
        assert import_path(store, file, final=True).turns_added == 0


def test_a_quoted_turn_is_never_rewritten(memory: Repository) -> None:
    source = memory.create(id="source")
    source.append("user", f"Push with {_KEY}.")
    source.persist()
    memory.workspace.scan = "redact"
    with pytest.raises(SecretFound, match="redact the turn that it repeats"):
        source.cherry_pick(source, 0)


@pytest.mark.parametrize("scan", ["Refuse", True, "", 1])
def test_any_other_word_is_refused_at_once(scan: Any, memory: Repository, tmp_path: Path) -> None:
    session = memory.create(id="s")
    for refused in (
        lambda: session.append("user", "Hi", scan=scan),
        lambda: session.streaming("assistant", scan=scan),
        lambda: trails.open(tmp_path / "new", create=True, scan=scan),
    ):
        with pytest.raises(InvalidInput, match='scan is "refuse", "redact" or "off"'):
            refused()
    session.discard_pending()
    assert not (tmp_path / "new").exists()
