"""Sessions that are asked for by their id, `with` blocks around sessions, and names that are taken."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import trails
from trails import HeadConflict, InvalidInput, PendingTurnsWarning, Repository, StoreFailed


def texts(store: Repository, name: str) -> list[Any]:
    return [turn.content for turn in store.load(name).turns]


def test_a_session_that_is_asked_for_is_made_once_and_loaded_ever_after(store: Repository) -> None:
    made = store.session("chat", principal="alice", agent="planner", label="trip", system="Be brief.", meta={"n": 1})
    assert "chat" in store  # at once: nobody else makes another
    with made:
        made.append("user", "Plan a trip")
    again = store.session("chat", principal="alice", label="trip", system="Be brief.", meta={"n": 1})
    assert [turn.content for turn in again.turns] == ["Plan a trip"]
    assert (again.principal, again.agent, again.system, again.meta) == ("alice", "planner", "Be brief.", {"n": 1})
    assert [turn.content for turn in store.session("chat").turns] == ["Plan a trip"]


def begin_sessions(store: Repository, writer: str, wait: Callable[[], object]) -> list[str]:
    """Ask for new sessions at the moment when another writer does; return those in which this one was first."""
    won = []
    for number in range(12):
        wait()
        chat = store.session(f"chat-{number}", principal="alice")
        try:
            with chat:
                chat.append("user", writer)
            won.append(chat.id)
        except HeadConflict:
            chat.discard_pending()
    return won


def assert_one_turn_each(store: Repository, won: dict[str, list[str]]) -> None:
    """Each session has the turns of the writers that were told that theirs is stored, and no others."""
    for number in range(12):
        name = f"chat-{number}"
        assert sorted(texts(store, name)) == sorted(writer for writer, names in won.items() if name in names)
        assert texts(store, name)
    assert (len(store), store.verify().ok) == (12, True)


def test_two_threads_that_begin_one_session_both_get_it(store: Repository) -> None:
    won: dict[str, list[str]] = {}
    together = threading.Barrier(2, timeout=20)
    threads = [
        threading.Thread(target=lambda name=name: won.update({name: begin_sessions(store, name, together.wait)}))
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == ["a", "b"]
    assert_one_turn_each(store, won)


_WRITER = """
import sys, trails
from tests.session.test_asking import begin_sessions
def wait():
    print("ready", flush=True)
    sys.stdin.readline()
with trails.open(sys.argv[1]) as store:
    wait()
    print("won", *begin_sessions(store, sys.argv[2], wait), flush=True)
"""


@pytest.mark.slow
def test_two_processes_that_begin_one_session_both_get_it(tmp_path: Path) -> None:
    trails.open(tmp_path / "s", create=True).close()
    command = [sys.executable, "-c", _WRITER, str(tmp_path / "s")]
    pipe = subprocess.PIPE
    writers = {name: subprocess.Popen([*command, name], stdin=pipe, stdout=pipe, text=True) for name in ("a", "b")}
    won: dict[str, list[str]] = {}
    while len(won) < 2:
        for name, writer in writers.items():
            assert writer.stdout is not None
            if (line := writer.stdout.readline()) != "ready\n":
                won[name] = line.split()[1:]
        for writer in writers.values():
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
    assert [writer.communicate()[0] for writer in writers.values()] == ["", ""]
    with trails.open(tmp_path / "s") as store:
        assert_one_turn_each(store, won)


def test_a_session_that_another_writer_begins_meanwhile_must_be_as_it_was_asked_for(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = memory.create

    def slower(**options: Any) -> object:
        create(id="chat", principal="bob").persist()
        return create(**options)

    monkeypatch.setattr(memory, "create", slower)
    with pytest.raises(InvalidInput, match="'chat' is stored with principal='bob', not 'alice'"):
        memory.session("chat", principal="alice")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"principal": "bob"},
            "'chat' is stored with principal='alice', not 'bob'.*give no principal, or take another id",
        ),
        ({"agent": "other"}, "agent='planner', not 'other'"),
        ({"label": "way"}, "label='trip', not 'way'.*set_label"),
        ({"system": "Be long."}, "system='Be brief.', not 'Be long.'.*set_system"),
        ({"meta": {"n": 2}}, r"meta\['n'\]=1, not 2"),
        ({"meta": {"m": 2}}, r"meta\['m'\]=None, not 2"),
        ({"kind": "main"}, "kind=None, not 'main'"),
    ],
)
def test_what_a_stored_session_contradicts_is_refused(memory: Repository, asked: Any, message: str) -> None:
    memory.session("chat", principal="alice", agent="planner", label="trip", system="Be brief.", meta={"n": 1, "o": 2})
    with pytest.raises(InvalidInput, match=message):
        memory.session("chat", **asked)


def test_a_label_is_not_the_id_of_a_new_session(memory: Repository) -> None:
    memory.session("chat", label="trip")
    with pytest.raises(InvalidInput, match="'trip' is the label of session 'chat'"):
        memory.session("trip")
    assert "trip" not in memory


def test_a_deleted_sessions_id_is_not_used_again(memory: Repository) -> None:
    memory.session("chat")
    memory.delete("chat")
    with pytest.raises(InvalidInput, match="was deleted"):
        memory.session("chat")


def test_a_block_stores_what_was_appended_in_it_at_its_end(store: Repository) -> None:
    with store.create(id="plan") as plan:
        plan.append("user", "Plan a trip")
    with store.load("plan") as again, again.fork(id="way") as fork:
        fork.append("assistant", "By train?")
    assert (texts(store, "plan"), texts(store, "way")) == (["Plan a trip"], ["Plan a trip", "By train?"])


def test_a_block_without_turns_stores_the_session(memory: Repository) -> None:
    with memory.create(id="plan"):
        pass
    assert "plan" in memory


def talk(store: Repository, *, quicker: str | None = None, error: Exception | None = None) -> None:
    """Say one thing in a block, in which another writer may be quicker, and an error may end it."""
    with store.session("chat") as chat:
        chat.append("user", "Divide")
        if quicker is not None:
            with store.load("chat") as other:
                other.append("user", quicker)
        if error is not None:
            raise error


def test_an_error_in_a_block_goes_on_and_loses_no_turn(store: Repository) -> None:
    with pytest.raises(ZeroDivisionError):
        talk(store, error=ZeroDivisionError())
    assert texts(store, "chat") == ["Divide"]


def test_what_keeps_a_block_from_storing_is_chained_to_the_blocks_own_error(memory: Repository) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        talk(memory, quicker="Meanwhile", error=ZeroDivisionError())
    assert isinstance(caught.value.__context__, HeadConflict)
    assert "'chat' is not stored: session 'chat' moved on" in caught.value.__notes__[0]
    with pytest.warns(PendingTurnsWarning, match="1 turn that was appended"):
        memory.close()


def test_a_conflict_at_a_blocks_end_is_raised_and_keeps_the_turns_pending(memory: Repository) -> None:
    chat, other = memory.session("chat"), memory.session("chat")
    other.append("user", "Quicker")
    other.persist()
    chat.append("user", "First")
    with pytest.raises(HeadConflict, match="keep_as_fork"), chat:
        pass
    assert chat.pending == 1
    chat.keep_as_fork(id="kept")
    assert (texts(memory, "chat"), texts(memory, "kept")) == (["Quicker"], ["First"])


def test_a_store_that_was_closed_inside_the_block_is_said_so() -> None:
    store = trails.open(":memory:")
    chat = store.session("chat")
    chat.append("user", "Hello")
    with pytest.warns(PendingTurnsWarning):
        store.close()
    with pytest.raises(StoreFailed), chat:
        pass


def test_with_autopersist_each_turn_is_stored_as_it_is_appended(store: Repository) -> None:
    chat = store.session("chat", autopersist=True)
    chat.append("user", "Plan a trip")
    assert (chat.pending, texts(store, "chat")) == (0, ["Plan a trip"])


@pytest.mark.parametrize("taken", ["id", "label"])
def test_a_taken_name_is_refused_before_anything_is_asked(memory: Repository, taken: str) -> None:
    plan = memory.create(id="plan", label="trip")
    plan.persist()
    name = {"id": {"id": "plan"}, "label": {"label": "trip"}}[taken]
    makers: list[Callable[..., object]] = [memory.create, plan.fork]
    for make in makers:
        with pytest.raises(InvalidInput, match="choose another"):
            make(**name)


def test_a_fork_with_a_taken_id_leaves_the_parents_turns_pending(memory: Repository) -> None:
    with memory.create(id="other"):
        pass
    plan = memory.create(id="plan")
    plan.append("user", "Plan a trip")
    with pytest.raises(InvalidInput, match="there is a session 'other' already"):
        plan.fork(id="other")
    assert (plan.pending, "plan" in memory) == (1, False)
    plan.discard_pending()


def test_sessions_that_were_never_stored_warn_when_the_store_closes() -> None:
    store = trails.open(":memory:")
    plan = store.create(id="plan")
    plan.persist()
    kept = [plan, store.create(id="new"), plan.fork(id="way")]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        store.close()
    assert sorted(str(each.message).partition(",")[0] for each in seen) == [
        "session 'new' is new and was never persisted",
        "session 'way' is a fork and was never persisted",
    ]
    assert {each.category for each in seen} == {PendingTurnsWarning}
    assert len(kept) == 3
