"""What is redacted or deleted leaves the log in the database, and whoever is behind still ends where everybody else does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.machines import Size
from trails import StoreFailed
from trails.history.removal import deletion
from trails.store import Change
from trails.store.embedded import EmbeddedStore
from trails.store.log.records import Row
from trails.store.postgres.log import PostgresLog, open_store
from trails.store.postgres.server import Server

_SAID = "the secret is 4711"
ALL = (None, None, None, None)


def kept(url: str) -> bytes:
    """Return all that the database has of a store, unpacked."""
    import psycopg

    conninfo, _, name = url.rpartition("&store=")
    with psycopg.connect(conninfo) as connection:
        bodies = connection.execute(
            """SELECT body FROM trails_records WHERE store = (SELECT id FROM trails_stores WHERE name = %s)""",
            (name,),
        ).fetchall()
    found = [Row(0, "", 0, b"", bytes(body), b"", b"").unpack().record for (body,) in bodies]
    return b"".join(
        b"\n".join((*(each.encode() for each in (*record.leaves, *record.drop)), record.remove, record.add))
        for record in found
    )


def talk(store: trails.Repository, *texts: str, name: str = "chat") -> trails.Session:
    session = store.create(id=name)
    for text in texts:
        session.append("user", text)
        session.persist()
    return session


def redact(store: trails.Repository) -> None:
    store.redact("chat", 1)


def redact_matching(store: trails.Repository) -> None:
    store.redact_matching("4711")


def delete(store: trails.Repository) -> None:
    store.delete("chat")


def test_a_deletion_that_was_cut_short_is_ended_with_its_erasure_by_whoever_opens_the_store_next(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = trails.open(url, create=True)
    talk(store, "Hello", _SAID)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(deletion, "sweep_pending", killed)
        patched.setattr(PostgresLog, "_rewrite", killed)
        with pytest.raises(KeyboardInterrupt):
            store.delete("chat")
    store.close()
    assert _SAID.encode() in kept(url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    with trails.open(url) as other:
        assert other.list() == []
        assert _SAID.encode() not in kept(url)
        assert other.verify().findings == ()


@pytest.mark.parametrize("erase", [redact, redact_matching, delete])
@pytest.mark.parametrize("snapshot", [False, True], ids=["no snapshot", "snapshot"])
def test_an_erased_text_is_in_the_database_no_more(
    url: str, erase: Callable[[trails.Repository], None], snapshot: bool
) -> None:
    with trails.open(url, create=True) as store, trails.open(url) as behind:
        talk(store, "Hello", _SAID, "Thanks")
        talk(store, "What else?", name="other")
        behind.sync()
        if snapshot:
            store.store.snapshot()  # type: ignore[attr-defined]
        assert _SAID.encode() in kept(url)
        erase(store)
        assert _SAID.encode() not in kept(url)
        assert b"What else?" in kept(url)
        behind.sync()
        quads = set(store.store.quads(ALL))
        assert set(behind.store.quads(ALL)) == quads
        with trails.open(url) as new:
            assert set(new.store.quads(ALL)) == quads
            assert new.verify().ok
        assert _SAID not in "".join(str(quad) for quad in quads)


@pytest.mark.parametrize("then", [("other", 0), ("chat", 1)], ids=["another", "the same"])
def test_an_erasure_that_was_cut_short_is_ended_by_the_next_one(
    url: str, monkeypatch: pytest.MonkeyPatch, then: tuple[str, int]
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise StoreFailed("the server went away")

    with trails.open(url, create=True) as store:
        talk(store, "Hello", _SAID)
        talk(store, "What else?", name="other")
        with monkeypatch.context() as patch:
            patch.setattr(Server, "rewrite", away)
            with pytest.raises(StoreFailed, match="went away"):
                store.redact("chat", 1)
        assert _SAID.encode() in kept(url)
        store.redact(*then)
        assert _SAID.encode() not in kept(url)
        assert store.verify().ok


def test_an_erasure_that_was_cut_short_is_ended_by_whoever_opens_the_store_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = trails.open(url, create=True)
    talk(store, "Hello", _SAID)

    def away(*_: Any, **__: Any) -> None:
        raise StoreFailed("the server went away")

    with monkeypatch.context() as patch:
        patch.setattr(Server, "rewrite", away)
        with pytest.raises(StoreFailed, match="went away"):
            store.redact("chat", 1)
    store.close()
    assert _SAID.encode() in kept(url)
    with trails.open(url) as again:
        assert _SAID.encode() not in kept(url)
        assert [turn.redacted for turn in again.load("chat").turns] == [False, True]
        assert again.verify().ok
    with trails.open(url) as third:
        assert third.verify().ok


@pytest.mark.parametrize("said", ["a prompt", "a name", "a tier"])
def test_what_another_process_takes_out_of_a_main_session_is_not_given_to_a_branch_of_it(url: str, said: str) -> None:
    with trails.open(url, create=True) as here, trails.open(url) as other:
        tree = trails.Tree(here)
        main = tree.main("planner", "chat", system=_SAID, principal="Qqxname")
        parent = main.spawn("branch", "go", tier="Tiername")
        other.sync()
        word = {"a prompt": _SAID, "a name": "Qqxname", "a tier": "Tiername"}[said]
        other.redact_matching(word)
        parent.spawn("branch", "look", id="branch")
        assert here.load("branch").system == (None if said == "a prompt" else _SAID)
        other.sync()
        for store in (here, other):
            assert not [quad for quad in store.store.quads(ALL) if word in str(quad)]
            assert store.verify().findings == ()


def test_what_another_process_takes_out_of_a_task_is_withheld_here_all_the_same(url: str) -> None:
    with trails.open(url, create=True) as here, trails.open(url) as other:
        tree = trails.Tree(here)
        branch = tree.main("planner", "chat").spawn("branch", _SAID)
        other.sync()
        other.redact_matching(_SAID)
        tree.withhold(branch)
        assert not [quad for quad in here.store.quads(ALL) if _SAID in str(quad)]
        assert here.verify().findings == ()


@pytest.mark.parametrize("in_words", ["principal", "agent", "tool", "tag", "key"])
def test_a_name_that_is_taken_out_is_in_the_database_no_more_and_with_whoever_is_behind_neither(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_words: str
) -> None:
    name = "Qqxname"
    with trails.open(url, create=True) as store:
        if in_words == "principal":
            store.create(id="chat", principal=name).persist()
        elif in_words == "agent":
            store.create(id="chat", agent=name).persist()
        else:
            talk(store, "hello")
        if in_words == "tag":
            store.tags.add(name, "chat@1")
        if in_words == "tool":
            session = store.load("chat")
            call = trails.ToolCall(id="c", name=name, arguments="{}")
            session.append("assistant", "", tool_calls=[call])
            session.persist()
        if in_words == "key":
            store.create(id="other", meta={name: 1}).persist()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "behind"))
        behind = trails.open(url)
        store.redact_matching(name)
        assert name.encode() not in kept(url)
        store.maintenance.vacuum()
        assert name.encode() not in kept(url)
        if in_words != "tool":  # of that the turn itself tells, by an IRI without the name
            assert b":^" in kept(url)  # who is behind finds by it what goes
        behind.store.sync()  # type: ignore[attr-defined]
        whole = set(store.store.quads(ALL))
        assert set(behind.store.quads(ALL)) == whole
        assert not [quad for quad in whole if name in str(quad)]
        assert behind.verify().findings == store.verify().findings == ()
        behind.close()
        store.maintenance.vacuum()
        assert b":^" not in kept(url)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new"))
    with trails.open(url) as new:
        assert set(new.store.quads(ALL)) == whole
        assert new.verify().findings == ()


def _random_steps(url: str, stores: list[trails.Repository], chance: Random) -> list[str]:
    """Write, read, take out, and open again, by either; return what was said and is gone."""
    names: list[str] = []
    gone: list[str] = []
    for step in range(chance.randrange(5, 25)):
        at = chance.randrange(2)
        store = stores[at]
        store.store.sync()  # type: ignore[attr-defined]
        name = chance.choice(names) if names else None
        match chance.choice(["say", "say", "say", "redact", "redact", "load", "open", "delete"]):
            case "say":
                name = name if name is not None and chance.random() < 0.7 else f"s{step}"
                session = store.load(name) if name in names else store.create(id=name)
                for at_turn in range(chance.choice([3, 70])):
                    session.append("user", f"said{step}x{at_turn}x")
                session.persist()
                names += [] if name in names else [name]
            case "redact" if name and (left := [turn for turn in store.load(name).turns if turn.text]):
                turn = chance.choice(left)
                gone.append(turn.text)
                if chance.random() < 0.5:
                    store.redact(name, turn.index)
                else:
                    store.redact_matching(turn.text)
            case "load" if name:
                list(store.load(name).turns)
            case "open":
                store.close()
                stores[at] = trails.open(url)
            case "delete" if name and chance.random() < 0.3:
                gone += [turn.text for turn in store.load(name).turns if turn.text]
                store.delete(name)
                names.remove(name)
    return gone


def derived(cache: Path) -> bytes:
    """Return what is in all files that are derived from the store."""
    return b"".join(file.read_bytes() for file in cache.rglob("index/**/*") if file.is_file())


def say(session: trails.Session) -> None:
    """Say as much as is packed, with what is to be taken out second."""
    for number in range(80):
        session.append("user", _SAID if number == 1 else f"turn {number}")
    session.persist()


def test_what_was_replaced_leaves_the_log_with_vacuum(url: str) -> None:
    store = open_store(url, create=True)
    store.commit(Change(add=[_quad(1, "old")]))
    store.commit(Change(remove=[_quad(1, "old")], add=[_quad(1, "new")]))
    assert b"old" in kept(url)
    store.vacuum()
    assert b"old" not in kept(url)
    store.close()
    again = open_store(url)
    assert again.quads(ALL) == [_quad(1, "new")]
    again.close()


def _quad(number: int, text: str, graph: int = 0) -> Quad:
    return Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal(text), NamedNode(f"urn:g{graph}"))


def test_from_wherever_somebody_is_behind_the_end_is_the_same(url: str, size: Size) -> None:
    for seed in range(2 if size == "quick" else 20):
        _random_history(f"{url}{seed}", Random(seed))


def _random_history(url: str, random: Random) -> None:
    writer = open_store(url, create=True)
    others: list[EmbeddedStore] = []
    there: set[Quad] = set()
    for step in range(40):
        if step % 8 == 0:
            others.append(open_store(url))
        change = _random_change(random, there)
        there = {each for each in there if each.graph_name not in change.drop} - set(change.remove) | set(change.add)
        if random.random() < 0.5:
            with writer.erasing():
                writer.commit(change)
        else:
            writer.commit(change)
        if random.random() < 0.1:
            writer.vacuum()
        if random.random() < 0.2:
            random.choice(others).sync()
    assert set(writer.quads(ALL)) == there
    for each in [*others, open_store(url)]:
        each.sync()
        assert set(each.quads(ALL)) == there
        each.close()
    writer.close()


def _random_change(random: Random, there: set[Quad]) -> Change:
    drop = [NamedNode(f"urn:g{random.randrange(3)}")] if random.random() < 0.1 else []
    remove = random.sample(sorted(there, key=str), min(len(there), random.randrange(3)))
    add = [_quad(random.randrange(6), f"t{random.randrange(4)}", random.randrange(3)) for _ in range(3)]
    return Change(
        add=add, remove=[each for each in remove if each.graph_name not in drop and each not in add], drop=drop
    )


@pytest.mark.parametrize("vacuums", [False, True])
@pytest.mark.parametrize("erase", [redact, redact_matching, delete])
def test_a_copy_that_was_closed_when_a_text_was_erased_elsewhere_loses_it_as_it_is_opened(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, erase: Callable[[trails.Repository], None], vacuums: bool
) -> None:
    with trails.open(url, create=True) as here:
        session = talk(here, "Hello", _SAID, "Thanks")
        session.set_label("4711 and a label")
        talk(here, "Another", name="other")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        with trails.open(url) as there:
            assert [found.session_id for found in there.search("4711")] == ["chat"]
            assert len(there.list()) == 2
        erase(here)
        if vacuums:
            here.maintenance.vacuum()
        with trails.open(url) as there:
            files = [each for each in (tmp_path / "elsewhere").rglob("*") if each.is_file()]
            assert [each for each in files if b"secret is 4711" in each.read_bytes()] == []
            assert list(there.search("4711")) == []
            assert ("chat" in there) == (erase is not delete)
            assert there.verify().findings == ()


@pytest.mark.parametrize("erase", [redact, redact_matching, delete])
def test_a_process_that_shares_a_copy_erases_what_another_one_brought_in_there_and_it_never_saw(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, erase: Callable[[trails.Repository], None]
) -> None:
    with trails.open(url, create=True) as here:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
        with trails.open(url) as behind, trails.open(url) as ahead:
            session = talk(here, "Hello", _SAID)
            session.set_label("4711 and a label")
            ahead.sync()
            assert [found.session_id for found in ahead.search("4711")] == ["chat"]
            erase(here)
            behind.sync()
            ahead.sync()
            for each in (behind, ahead):
                assert list(each.search("4711")) == []
                assert len(each.list()) == (erase is not delete)
                assert each.verify().findings == ()
            files = [each for each in (tmp_path / "elsewhere").rglob("*") if each.is_file()]
            assert [each for each in files if b"secret is 4711" in each.read_bytes()] == []
