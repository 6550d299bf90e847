"""The session store of the Claude Agent SDK: entries come back exactly, and are turns that all of Trails can read."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.adapters.writers import CLAUDE_KEY as KEY
from tests.adapters.writers import kill_one, run_together, write_entries
from tests.support.machines import Size
from trails import Repository
from trails.adapters.claude_agent_sdk import TrailsSessionStore
from trails.errors import InvalidInput, SessionNotFound
from trails.exchange.file_import import import_bytes

pytestmark = pytest.mark.any_store
AGENT: Any = {**KEY, "subpath": "subagents/agent-docs"}
SAMPLE = Path(trails.__file__).parent / "_samples" / "release-plan.jsonl"


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()]


def _prompt(uuid: str, text: str, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}, **more}


def _reply(uuid: str, message: str, *parts: Any, output: int = 5) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": output}
    said = {"id": message, "role": "assistant", "model": "claude-x", "content": list(parts), "usage": usage}
    return {"type": "assistant", "uuid": uuid, "message": said}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


class _Plain:
    """The adapter, called without an event loop."""

    def __init__(self, store: Repository) -> None:
        self.adapter = TrailsSessionStore(store)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.adapter, name)
        return lambda *args, **options: asyncio.run(method(*args, **options))


# --- the protocol


def test_it_keeps_all_contracts_of_the_sdks_kit(opener: Callable[[str], Repository]) -> None:
    opened: list[Repository] = []

    def make() -> TrailsSessionStore:
        opened.append(opener(f"store-{len(opened)}.trails"))
        return TrailsSessionStore(opened[-1])

    asyncio.run(run_session_store_conformance(make))
    for store in opened:
        store.close()


def test_entries_come_back_byte_for_byte_however_they_were_batched(store: Repository) -> None:
    claude, lines = _Plain(store), _lines()
    for start in range(0, len(lines), 3):
        claude.append(KEY, lines[start : start + 3])
    assert [json.dumps(each) for each in claude.load(KEY)] == [json.dumps(each) for each in lines]
    assert store.verify().ok


_TEXTS = st.text(max_size=20) | st.just("half \ud83d of a character")
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_PARTS = st.lists(
    st.dictionaries(_TEXTS, _VALUES, max_size=3)
    | st.sampled_from([_text("a"), {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}, "plain"]),
    max_size=3,
)
_ENTRIES = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["user", "assistant", "system", "progress", "summary", "attachment", "custom-title", "x"]
        )
    },
    optional={
        "uuid": st.uuids().map(str),
        "parentUuid": st.none() | st.uuids().map(str),
        "timestamp": st.sampled_from(["2026-03-02T09:00:00.000Z", "noon"]),
        "message": st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant"]), "content": _TEXTS | _PARTS | st.none()},
            optional={"id": st.sampled_from(["m1", "m2"]), "model": _TEXTS, "usage": _VALUES, "more": _VALUES},
        )
        | _VALUES,
        "subtype": st.sampled_from(["compact_boundary", "turn_duration"]),
        "isCompactSummary": st.booleans(),
        "attachment": st.dictionaries(_TEXTS, _VALUES, max_size=3),
        "unknown": _VALUES,
    },
)


_SHUFFLED = _ENTRIES.flatmap(lambda entry: st.permutations(list(entry.items()))).map(dict)


@given(batches=st.lists(st.lists(_SHUFFLED, min_size=1, max_size=6), min_size=1, max_size=3))
def test_any_entries_come_back_exactly(batches: list[list[dict[str, Any]]]) -> None:
    with trails.open(":memory:") as store:
        claude = _Plain(store)
        for batch in batches:
            claude.append(KEY, batch)
        seen: set[str] = set()
        wanted = []
        for entry in (entry for batch in batches for entry in batch):
            if "uuid" not in entry or entry["uuid"] not in seen:
                wanted.append(entry)
            seen.add(entry.get("uuid", ""))
        assert [json.dumps(each) for each in claude.load(KEY)] == [json.dumps(each) for each in wanted]
        assert store.verify().ok


def test_an_entry_is_stored_once_by_its_uuid_and_one_without_each_time(store: Repository) -> None:
    claude = _Plain(store)
    title = {"type": "custom-title", "customTitle": "Trip"}
    claude.append(KEY, [_prompt("u1", "Plan a trip"), title])
    claude.append(KEY, [_prompt("u1", "Plan a trip"), title, {"type": "progress", "uuid": "u2", "data": 1}])
    _Plain(store).append(KEY, [{"type": "progress", "uuid": "u2", "data": 1}])
    assert [each.get("uuid") for each in claude.load(KEY)] == ["u1", None, None, "u2"]


def test_what_was_deleted_can_be_written_again(store: Repository) -> None:
    claude = _Plain(store)
    for text in ("first", "second", "third"):
        claude.append(KEY, [_prompt("u1", text)])
        assert [each["message"]["content"] for each in claude.load(KEY)] == [text]
        claude.delete(KEY)
        assert claude.load(KEY) is None


def test_no_two_keys_share_a_session(store: Repository) -> None:
    claude = _Plain(store)
    keys: list[Any] = [
        {"project_key": "a/b", "session_id": "c"},
        {"project_key": "a", "session_id": "b/c"},
        {"project_key": "a", "session_id": "b", "subpath": "c"},
        {"project_key": "a", "session_id": "b"},
        {"project_key": "a", "session_id": "b%2Fc"},
    ]
    for number, key in enumerate(keys):
        claude.append(key, [_prompt("u", str(number))])
    assert [claude.load(key)[0]["message"]["content"] for key in keys] == ["0", "1", "2", "3", "4"]


def test_it_opens_the_store_at_a_location_and_closes_it(tmp_path: Path) -> None:
    for text in ("first", "second"):
        claude = TrailsSessionStore(tmp_path / "store.trails")
        asyncio.run(claude.append(KEY, [_prompt(text, text)]))  # type: ignore[list-item]
        claude.close()
    with trails.open(tmp_path / "store.trails") as store:
        claude = TrailsSessionStore(store)
        assert [each["uuid"] for each in asyncio.run(claude.load(KEY)) or []] == ["first", "second"]
        claude.close()
        assert len(store) == 1


def test_the_id_of_an_unknown_transcript_is_refused(memory: Repository) -> None:
    with pytest.raises(SessionNotFound, match="holds no transcript '-home-ada/s1'"):
        TrailsSessionStore(memory).trails_id(KEY)


# --- native turns


def test_the_lines_of_a_message_are_one_turn_whose_usage_counts_once(store: Repository) -> None:
    claude = _Plain(store)
    claude.append(KEY, [_prompt("u1", "List"), _reply("a1", "m1", _text("Sure."), output=5)])
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    claude.append(KEY, [_reply("a2", "m1", call, output=12), _reply("a3", "m1", _text("Done."), output=12)])
    turns = store.load(claude.adapter.trails_id(KEY)).turns
    assert [(turn.role, turn.usage.get("output_tokens")) for turn in turns] == [
        ("user", None),
        ("assistant", 5),
        ("assistant", 7),
    ]
    assert turns[2].content == [call, _text("Done.")]
    assert turns[2].tool_calls[0].arguments == '{"command":"ls"}'
    (row,) = store.select("token-usage-by-model").to_dicts()
    assert (row["model"], row["input"], row["output"]) == ("claude-x", 10, 12)


def test_a_transcript_reads_as_the_importer_reads_it(store: Repository) -> None:
    claude, lines = _Plain(store), _lines()
    claude.append(KEY, lines)
    import_bytes(store, SAMPLE.read_bytes())
    kept, imported = store.load(claude.adapter.trails_id(KEY)), store.load("claude-code:release-plan")
    main = [turn for turn in kept if turn.content in [each.content for each in imported]]
    assert [(t.role, t.content, t.model, t.usage) for t in main] == [
        (t.role, t.content, t.model, t.usage) for t in imported
    ]
    assert {hit.session_id for hit in store.search("read_lines")} >= {kept.id, imported.id}


def test_entries_that_make_no_turn_make_an_event_that_no_model_is_shown(store: Repository) -> None:
    claude = _Plain(store)
    claude.append(KEY, [{"type": "custom-title", "customTitle": "Trip"}, {"type": "tag", "tag": "x"}])
    session = store.load(claude.adapter.trails_id(KEY))
    assert [(turn.role, turn.content) for turn in session] == [("event", "custom-title, tag")]
    assert session.context().openai() == []


def test_a_subagents_transcript_is_spawned_by_its_main_session(store: Repository) -> None:
    claude = _Plain(store)
    claude.append(AGENT, [_prompt("u1", "Read the docs", isSidechain=True, agentId="docs")])
    assert claude.load(KEY) is None
    claude.append(KEY, [_prompt("u1", "Plan")])
    sub, main = (store.record(claude.adapter.trails_id(key)) for key in (AGENT, KEY))
    assert (sub.spawned_by, sub.agent, main.agent) == (main.id, "agent-docs", "claude-code")
    assert [each["session_id"] for each in claude.list_sessions("-home-ada")] == ["s1"]
    claude.delete(KEY)
    assert (claude.load(AGENT), claude.list_subkeys(KEY)) == (None, [])


def test_a_fork_shares_the_turns_and_has_its_own_session_id(store: Repository) -> None:
    claude = _Plain(store)
    claude.append(
        KEY, [_prompt("u1", "Plan", sessionId="s1"), _reply("a1", "m1", _text("Where?")), _prompt("u2", "Alps")]
    )
    fork = claude.fork(KEY, up_to_message_id="a1")
    claude.append(fork, [_prompt("u3", "Sea", sessionId=fork["session_id"])])
    assert [each["uuid"] for each in claude.load(fork)] == ["u1", "a1", "u3"]
    assert [each.get("sessionId") for each in claude.load(fork)] == [fork["session_id"], None, fork["session_id"]]
    assert store.record(claude.adapter.trails_id(fork)).parent_session_id == claude.adapter.trails_id(KEY)
    claude.append(fork, [_prompt("u1", "Plan")])
    assert len(claude.load(fork)) == 3
    claude.delete(KEY)
    assert [each["uuid"] for each in claude.load(fork)] == ["u1", "a1", "u3"]
    with pytest.raises(InvalidInput, match="no entry 'nowhere'"):
        claude.fork(fork, up_to_message_id="nowhere")


def test_a_turn_that_was_redacted_or_written_otherwise_keeps_the_chain_of_entries(store: Repository) -> None:
    claude = _Plain(store)
    claude.append(KEY, [_prompt("u1", "My key is 123456"), _reply("a1", "m1", _text("Noted."))])
    session_id = claude.adapter.trails_id(KEY)
    store.redact(session_id, 0)
    with store.load(session_id) as session:
        session.append("user", "Go on")
    first, _, last = claude.load(KEY)
    assert (first["uuid"], first["message"]["content"]) == ("u1", [_text("[redacted]")])
    assert (last["type"], last["parentUuid"], last["message"]) == ("user", "a1", {"role": "user", "content": "Go on"})
    claude.append(KEY, [_prompt("u2", "And on")])
    assert len(claude.load(KEY)) == 4


# --- several writers


def test_eight_threads_lose_nothing_and_double_nothing(store: Repository) -> None:
    claude = TrailsSessionStore(store)

    def write(writer: int) -> None:
        for number in range(10):
            batch: Any = [_prompt(f"{writer}-{number}", "a"), _prompt(f"shared-{number}", "b")]
            asyncio.run(claude.append(KEY, batch))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [each["uuid"] for each in asyncio.run(claude.load(KEY)) or []]
    assert sorted(ids) == sorted([f"{w}-{n}" for w in range(8) for n in range(10)] + [f"shared-{n}" for n in range(10)])


@pytest.mark.parametrize("key", [KEY, {**KEY, "subpath": "subagents/agent-1"}], ids=["main", "sub-agent"])
def test_a_transcript_that_another_writer_begins_meanwhile_is_appended_to(
    store: Repository, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _Plain(store)

    def create(**fields: Any) -> Any:
        monkeypatch.undo()
        other.append(key, [_prompt("1", "a")])
        return store.create(**fields)

    monkeypatch.setattr(store, "create", create)
    mine = _Plain(store)
    mine.append(key, [_prompt("2", "b")])
    assert [each["uuid"] for each in mine.load(key)] == ["1", "2"]


def test_a_sub_agents_transcript_that_cannot_be_made_is_tried_once(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def create(**fields: Any) -> Any:
        calls.append(fields["id"])
        raise InvalidInput("it cannot be made")

    mine = _Plain(store)
    mine.append(KEY, [_prompt("1", "a")])
    monkeypatch.setattr(store, "create", create)
    with pytest.raises(InvalidInput, match="it cannot be made"):
        mine.append({**KEY, "subpath": "subagents/agent-1"}, [_prompt("2", "b")])
    assert len(calls) == 1


@pytest.mark.slow
def test_processes_on_one_session_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    place, writers, count = tmp_path / "store.trails", 8, 20
    trails.open(place, create=True).close()
    run_together(write_entries, place, writers, count)
    with trails.open(place) as store:
        ids = [each["uuid"] for each in _Plain(store).load(KEY)]
        assert store.verify().ok
    assert sorted(ids) == sorted(f"{w}-{n}" for w in [*range(writers), "shared"] for n in range(count))


@pytest.mark.slow
def test_a_kill_leaves_each_append_done_or_not_begun(tmp_path: Path, size: Size) -> None:
    place, chance = tmp_path / "store.trails", random.Random(31)
    trails.open(place, create=True).close()
    wanted: list[str] = []
    for round_ in range(200 if size == "long" else 20):
        said = kill_one(write_entries, place, f"r{round_}", chance)
        wanted += [text for _, text in said]
        with trails.open(place) as store:
            ids = [each["uuid"] for each in _Plain(store).load(KEY)]
        own = [each for each in ids if each.startswith("r")]
        assert own in (wanted, [*wanted, f"r{round_}-{len(said)}"])
        assert len(set(ids)) == len(ids)
        assert {f"shared-{each.partition('-')[2]}" for each in own} == {*ids} - {*own}
        wanted = own
    with trails.open(place) as store:
        assert store.verify().ok


def test_a_transcript_that_was_read_before_shows_what_others_did_since(store: Repository) -> None:
    one, other = _Plain(store), _Plain(store)
    one.append(KEY, [_prompt("u1", "My key is 123456")])
    assert len(other.load(KEY)) == 1
    one.append(KEY, [_prompt("u2", "b")])
    assert [each["uuid"] for each in other.load(KEY)] == ["u1", "u2"]
    other.append(KEY, [_prompt("u2", "b"), _prompt("u3", "c")])
    assert [each["uuid"] for each in one.load(KEY)] == ["u1", "u2", "u3"]
    store.redact(one.adapter.trails_id(KEY), 0)
    assert "123456" not in json.dumps(other.load(KEY))
    one.delete(KEY)
    assert other.load(KEY) is None
    other.append(KEY, [_prompt("u1", "anew")])
    assert [each["message"]["content"] for each in one.load(KEY)] == ["anew"]


def test_a_text_that_is_redacted_wherever_it_stands_leaves_the_rest_of_the_entries(store: Repository) -> None:
    claude = _Plain(store)
    kept = _prompt("u1", "Look", toolUseResult={"stdout": "the key 123456", "stderr": "fine"})
    odd = _prompt("u2", "Half \ud83d", toolUseResult={"stdout": "the key 123456"})
    claude.append(KEY, [kept, odd, _prompt("u3", "Go on")])
    store.redact_matching("123456")
    first, second, third = claude.load(KEY)
    assert first == _prompt("u1", "Look", toolUseResult={"stdout": "redacted", "stderr": "fine"})
    assert (second["uuid"], second["sessionId"]) == ("u2", "s1")
    assert third == _prompt("u3", "Go on")
    assert store.verify().ok


@pytest.mark.parametrize("word", ["type", "role", "content", "message", "entries", "stored", "claude", "user", "all"])
def test_words_of_the_adapter_can_be_redacted_and_each_message_is_still_one(memory: Repository, word: str) -> None:
    _Plain(memory).append(KEY, [_prompt("u1", "Look"), _reply("a1", "m1", _text("Yes"))])
    memory.redact_matching(word)
    assert [each["uuid"] for each in _Plain(memory).load(KEY)] == ["u1", "a1"]
    assert "Look" in json.dumps(_Plain(memory).load(KEY)[0]["message"])
    assert memory.verify().ok


def test_a_transcript_whose_project_was_erased_is_deleted_with_its_sub_agents(store: Repository) -> None:
    main: Any = {"project_key": "-home-ada-secret", "session_id": "s1"}
    _Plain(store).append(main, [_prompt("u1", "Look")])
    _Plain(store).append({**main, "subpath": "subagents/agent-docs"}, [_prompt("u2", "Read")])
    store.redact_matching("-home-ada-secret")
    claude = _Plain(store)
    assert [each["uuid"] for each in claude.load(main)] == ["u1"]
    claude.delete(main)
    assert (claude.load(main), len(store)) == (None, 0)


@pytest.mark.parametrize("entry", [None, "x", {"type": "user", 1: 2}])
def test_entries_that_are_no_json_objects_are_refused_before_anything_is_stored(memory: Repository, entry: Any) -> None:
    with pytest.raises(InvalidInput):
        _Plain(memory).append(KEY, [_prompt("u1", "Look"), entry])
    assert len(memory) == 0


@pytest.mark.parametrize(
    "key", [{}, None, "key", {"project_key": None, "session_id": "s"}, {**KEY, "session_id": "\ud800"}]
)
def test_keys_that_are_none_are_refused(memory: Repository, key: Any) -> None:
    claude = _Plain(memory)
    calls: tuple[Callable[[Any], Any], ...] = (
        claude.load,
        claude.delete,
        claude.list_subkeys,
        lambda each: claude.append(each, [_prompt("u", "x")]),
    )
    for work in calls:
        with pytest.raises(InvalidInput):
            work(key)
