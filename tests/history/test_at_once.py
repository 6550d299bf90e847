"""Two that take a text out, or copy turns, at one time: one of them was first, and the store is as if the other came later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyoxigraph import NamedNode

from trails import InvalidInput, Repository
from trails.history.reader import Reader
from trails.history.removal import detach, redaction, text_erasure
from trails.history.transaction import Transaction
from trails.model.values import SealedTurn, Turn
from trails.store.contract import QuadStore


@pytest.fixture
def fork(memory: Repository) -> str:
    """A session with a fork that inherits two of its turns."""
    main = memory.create(id="main")
    for text in ("Plan a trip", "By train", "Or by bus"):
        main.append("user", text)
    main.persist()
    fork = main.fork(at=2, id="fork")
    fork.append("user", "By bike")
    fork.persist()
    return "fork"


@pytest.mark.parametrize("first", ["the turn", "all that says it"])
def test_a_turn_that_another_redaction_reached_first_keeps_a_digest_that_fits(
    memory: Repository, fork: str, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    looked = redaction._unredacted

    def and_another_is_quicker(store: QuadStore, digest: str) -> list[NamedNode]:
        found = looked(store, digest)
        monkeypatch.setattr(redaction, "_unredacted", looked)
        if first == "the turn":
            memory.redact(fork, 2, by="alice")
        else:
            memory.redact_matching("By bike", by="alice")
        return found

    monkeypatch.setattr(redaction, "_unredacted", and_another_is_quicker)
    memory.redact(fork, 2, by="bob")
    assert memory.load(fork).turns[2].redacted
    assert memory.verify().findings == ()


def test_a_fork_that_is_being_detached_is_not_detached_a_second_time(
    memory: Repository, fork: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = detach._write_copies
    refused = list[str]()

    def and_another_tries(*args: Any, **named: Any) -> None:
        monkeypatch.setattr(detach, "_write_copies", written)
        with pytest.raises(InvalidInput, match="is being detached") as error:
            memory.load(fork).detach()
        refused.append(str(error.value))
        written(*args, **named)

    monkeypatch.setattr(detach, "_write_copies", and_another_tries)
    memory.load(fork).detach()
    assert len(refused) == 1
    assert memory.load(fork).parent_session_id is None
    assert [turn.content for turn in memory.load(fork).turns] == ["Plan a trip", "By train", "By bike"]
    assert memory.verify().findings == ()


@pytest.mark.parametrize("how", ["flatten", "detach"])
def test_what_is_copied_is_as_it_was_at_one_moment(
    memory: Repository, fork: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    sealed = Reader.sealed
    redacting = threading.Thread(target=memory.redact, args=("main", 0))

    def after_a_redaction(reader: Reader, turns: Sequence[Turn]) -> list[SealedTurn]:
        monkeypatch.setattr(Reader, "sealed", sealed)
        redacting.start()
        redacting.join(0.3)  # it waits, or is done by then
        return sealed(reader, turns)

    monkeypatch.setattr(Reader, "sealed", after_a_redaction)
    try:
        memory.flatten(fork) if how == "flatten" else memory.load(fork).detach()
    except InvalidInput as error:
        assert "redacted or deleted meanwhile; try again" in str(error)  # noqa: PT017 - it may be quick enough
    redacting.join()
    assert memory.verify().findings == ()
    assert not any(
        turn.content == "Plan a trip" for each in memory.list(limit=9) for turn in memory.load(each.id).turns
    )


@pytest.mark.parametrize("second", ["redact", "redact a name", "detach", "flatten", "delete"])
@pytest.mark.sample(2)
def test_what_rewrites_beside_a_redaction_of_a_name_begins_when_that_has_ended(
    memory: Repository, fork: str, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    named = memory.load("main").fork(at=1, id="named", principal="zarathustra")
    named.append("user", "I am here", author="zarathustra")
    named.persist()
    made, begun = text_erasure._transaction, threading.Event()

    def slowly(*given: Any) -> Transaction:
        begun.set()
        time.sleep(0.2)
        return made(*given)

    monkeypatch.setattr(text_erasure, "_transaction", slowly)
    naming = threading.Thread(target=memory.redact_matching, args=("zarathustra",))
    naming.start()
    assert begun.wait(10)
    operations: dict[str, Callable[[], object]] = {
        "redact": lambda: memory.redact("named", 1),
        "redact a name": lambda: memory.redact_matching("I am"),
        "detach": lambda: memory.detach("named"),
        "flatten": lambda: memory.flatten("named", id="flat"),
        "delete": lambda: memory.delete("main", children="detach"),
    }
    operations[second]()
    naming.join()
    assert memory.verify().findings == ()
    assert not any(turn.author == "zarathustra" for each in memory.list(limit=9) for turn in memory.load(each.id).turns)
