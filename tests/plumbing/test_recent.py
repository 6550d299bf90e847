"""A session that is loaded again is what it was and what came since, without being read again; and never anything else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

import trails
from trails import IndexGap, Repository, Turn
from trails.history.reader import Reader
from trails.model.lineage import Segment
from trails.plumbing import recent, tails
from trails.plumbing.packs import files
from trails.rdf import vocab
from trails.rdf.turn_quads import decode_new
from trails.store import nearby
from trails.store.committing import Batch
from trails.store.contract import Change
from trails.store.embedded import EmbeddedStore
from trails.store.news import News

PLAN = ox.NamedNode("urn:trails:session:plan")


@pytest.fixture
def store(place: Path) -> Iterator[Repository]:
    with trails.open(place, create=True, durability="process") as opened:
        say(opened, "zero", "one")
        yield opened


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Segment]:
    """The runs of turns that the engine was asked for."""
    found: list[Segment] = []
    stored = Reader._stored

    def noted(reader: Reader, run: Segment) -> list[Turn]:
        found.append(run)
        return stored(reader, run)

    monkeypatch.setattr(Reader, "_stored", noted)
    return found


def say(store: Repository, *texts: str) -> None:
    session = store.session("plan")
    for text in texts:
        session.append("user", text)
    session.persist()


def texts(store: Repository, session: str = "plan") -> list[str]:
    return [turn.text for turn in store.load(session).turns]


def anew(store: Repository, session: str = "plan") -> list[Turn]:
    return store.reader.unpacked.turns(store.reader.lineage(session))


def test_what_came_since_a_session_was_loaded_is_all_that_is_read(store: Repository, read: list[Segment]) -> None:
    assert texts(store) == ["zero", "one"]
    read.clear()
    say(store, "two")
    say(store, "three", "four")
    assert texts(store) == ["zero", "one", "two", "three", "four"]
    assert read == []
    assert list(store.load("plan").turns) == anew(store)


def test_all_that_is_recorded_with_a_turn_comes_with_it(store: Repository, read: list[Segment]) -> None:
    plan = store.load("plan")
    call = {"id": "c1", "name": "weather", "arguments": {"place": "Zermatt"}}
    plan.append("assistant", "Let me look.", model="m-1", usage={"input_tokens": 3}, tool_calls=[call], meta={"a": [1]})
    plan.append("tool", [{"type": "text", "text": "Snow"}], tool_call_id="c1")
    plan.persist()
    read.clear()
    found = store.load("plan").turns
    assert read == []
    assert list(found) == anew(store)
    assert found[2].tool_calls[0].name == "weather"
    assert found[3].tool_results[0].call_id == "c1"


def test_a_summary_comes_as_one(store: Repository, read: list[Segment]) -> None:
    plan = store.load("plan")
    plan.compact(lambda turns: "In short", keep_turns=1)
    read.clear()
    found = store.load("plan").turns
    assert list(found) == anew(store)
    assert found[-1].compaction is not None


def test_what_one_loaded_and_appended_is_not_in_what_another_loads(store: Repository) -> None:
    plan = store.load("plan")
    plan.append("user", "never stored")
    assert texts(store) == ["zero", "one"]
    plan.discard_pending()


def test_a_fork_reads_what_is_its_own_once(store: Repository, read: list[Segment]) -> None:
    fork = store.load("plan").fork(at=1, id="fork")
    fork.append("user", "else")
    fork.persist()
    store.load("fork")
    read.clear()
    say(store, "two")
    fork.append("user", "more")
    fork.persist()
    assert texts(store, "fork") == ["zero", "else", "more"]
    assert [run.record.id for run in read] == ["plan"]


def test_what_is_redacted_is_not_shown_by_who_loaded_it_before(store: Repository) -> None:
    store.load("plan")
    store.redact("plan", 0)
    say(store, "two")
    assert texts(store) == ["", "one", "two"]


def test_a_session_that_was_deleted_is_gone_for_who_loaded_it_before(store: Repository) -> None:
    store.load("plan")
    store.delete("plan")
    with pytest.raises(trails.SessionNotFound):
        store.load("plan")


@pytest.mark.parametrize("index", [1, 3])
def test_a_second_turn_at_an_index_or_a_gap_is_an_error_though_the_session_was_loaded_before(
    store: Repository, index: int
) -> None:
    turn = store.load("plan").turns[1]
    node = ox.NamedNode(turn.iri.rpartition("/")[0] + f"/{index}-00ff00ff00ff00ff")
    said: list[tuple[ox.NamedNode, ox.NamedNode | ox.Literal]] = [
        (vocab.TYPE, vocab.TURN),
        (vocab.INDEX, vocab.integer(index)),
        (vocab.ROLE, ox.Literal("user")),
        (vocab.VALUE, ox.Literal("forged")),
        (vocab.ATTRIBUTED_TO, ox.NamedNode(turn.author_iri)),
        (vocab.DIGEST, ox.Literal("00ff00ff00ff00ff" * 4)),
    ]
    store.store.commit(Change(add=[ox.Quad(node, predicate, value, PLAN) for predicate, value in said]))
    with pytest.raises(IndexGap):
        store.load("plan")


def test_a_property_that_is_added_to_a_turn_is_seen_as_whoever_reads_all_sees_it(store: Repository) -> None:
    turn = store.load("plan").turns[1]
    store.store.commit(Change(add=[ox.Quad(ox.NamedNode(turn.iri), vocab.SOURCE_ID, ox.Literal("m7"), PLAN)]))
    assert store.load("plan").turns[1].source_ids == ("m7",)


def test_a_long_session_is_packed_while_the_store_is_busy_and_only_its_end_is_kept(
    store: Repository, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "_TAIL", 100)
    for number in range(2, 252):
        say(store, f"{number}")
    assert len(files.all_of(place / "index" / "packs")) == 1
    known = store.reader._recent._known["plan"]  # type: ignore[union-attr] # it has packs
    assert len(known.rest) <= 100
    assert texts(store) == ["zero", "one", *map(str, range(2, 252))]


def test_who_is_told_that_a_session_moved_on_waits_for_no_look_at_the_engine(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = store.load("plan")
    say(store, "two", "three")
    head = store.load("plan").head
    monkeypatch.delattr(tails, "length")
    mine.append("user", "late")
    with pytest.raises(trails.HeadConflict, match=f"its head is {head[:16]} after 4 turns, expected .* after 2;"):
        mine.persist()
    mine.discard_pending()


def test_threads_that_load_and_write_see_whole_sessions_with_all_that_they_wrote(store: Repository) -> None:
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(20):
                while True:
                    plan = store.load("plan")
                    plan.append("user", f"{name}-{number}")
                    try:
                        plan.persist()
                        break
                    except trails.HeadConflict:
                        plan.discard_pending()
                assert f"{name}-{number}" in texts(store)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(texts(store)) == 82
    assert list(store.load("plan").turns) == anew(store)


def test_only_so_many_sessions_are_kept_in_mind(store: Repository) -> None:
    for number in range(20):
        store.create(id=f"s{number}").persist()
        store.load(f"s{number}")
    assert list(store.reader._recent._known) == [f"s{number}" for number in range(4, 20)]  # type: ignore[union-attr] # as above


# --- the news of a store


def quad(value: str, graph: ox.NamedNode = PLAN) -> ox.Quad:
    return ox.Quad(PLAN, vocab.VALUE, ox.Literal(value), graph)


@pytest.fixture
def quads() -> EmbeddedStore:
    return EmbeddedStore(None)


def test_a_store_knows_what_came_to_a_graph_after_a_commit(quads: EmbeddedStore) -> None:
    quads.commit(Change(add=[quad("a")]))
    quads.commit(Change(add=[quad("b"), quad("of another", ox.NamedNode("urn:g"))]))
    quads.commit(Change(add=[quad("c")]))
    assert quads.came(PLAN, 1, 3) == [quad("b"), quad("c")]
    assert quads.came(PLAN, 1, 2) == [quad("b")]
    assert quads.came(PLAN, 3, 3) == []
    assert quads.came(PLAN, 3, 4) is None


def test_a_store_from_which_something_was_removed_knows_what_came_after_that(quads: EmbeddedStore) -> None:
    quads.commit(Change(add=[quad("a")]))
    quads.commit(Change(remove=[quad("a")]))
    quads.commit(Change(add=[quad("b")]))
    assert quads.came(PLAN, 1, 3) is None
    assert quads.came(PLAN, 2, 3) == [quad("b")]


def test_news_of_before_are_forgotten_where_there_are_many(
    quads: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    quads._news = News(3)
    quads.commit(Change(add=[quad("a"), quad("b")]))
    quads.commit(Change(add=[quad("c"), quad("d")]))
    assert quads.came(PLAN, 0, 2) is None
    assert quads.came(PLAN, 1, 2) == [quad("c"), quad("d")]


def test_a_commit_that_is_told_twice_came_once(quads: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    take = News.take

    def twice(news: News, first: int, batch: Batch) -> None:
        take(news, first, batch)
        take(news, first, batch)

    monkeypatch.setattr(News, "take", twice)
    quads.commit(Change(add=[quad("a")]))
    quads.commit(Change(add=[quad("b")]))
    assert quads.came(PLAN, 1, 2) == [quad("b")]


@pytest.mark.parametrize(
    "added",
    [
        quad("a session's own property"),
        ox.Quad(ox.NamedNode("urn:trails:session:plan/0-00ff00ff00ff00ff"), vocab.INDEX, vocab.integer(0), PLAN),
    ],
)
def test_quads_that_are_no_whole_turns_are_none(added: ox.Quad) -> None:
    assert decode_new("plan", [added]) is None


def test_what_commits_with_much_text_added_is_not_kept_in_mind_however_few_they_are(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s.trails", create=True, durability="process") as store:
        session = store.create(id="plan")
        session.persist()
        first = store.store.number
        for _ in range(25):
            session.append("user", "x" * 1_000_000)
            session.persist()
        last = store.store.number
        assert nearby.came(store.store, PLAN, first, last) is None
        assert nearby.came(store.store, PLAN, last - 1, last) is not None
