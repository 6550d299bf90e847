"""A load out of a pack gives what the store says, whatever happened to either, and nothing taken out stays in a pack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

import trails
from tests.support.asked import asked_from_now_on
from tests.support.terminals import environment
from trails import Repository, Session, Turn
from trails.errors import IndexGap, StoreFailed
from trails.history.reader import Reader
from trails.integrity.leaves import Leaf
from trails.model.lineage import Segment
from trails.model.values import Compaction
from trails.plumbing import pack_upkeep
from trails.plumbing.packs import block, files, keeper
from trails.plumbing.packs.erasures import Erasures
from trails.rdf import vocab
from trails.store import maintenance
from trails.store.contract import Change, Solutions
from trails.store.leaflog import LeafLog

MARKED = "Qxzvkw"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session is packed, in blocks of four turns."""
    monkeypatch.setattr(keeper, "LEAST", 1)
    monkeypatch.setattr(files, "MOST", 4)


def say(session: Session, *texts: str) -> Session:
    for text in texts:
        session.append("user", text)
    session.persist()
    return session


def fill(place: Path, count: int = 10) -> list[Turn]:
    with trails.open(place, create=True, durability="process") as store:
        return list(say(store.create(id="plan"), *(f"turn {MARKED} {index}" for index in range(count))).turns)


def packs(place: Path) -> list[Path]:
    return files.all_of(place / maintenance.INDEX / keeper.FOLDER)


def raw(place: Path) -> bytes:
    return b"".join(
        path.read_bytes() for path in sorted(place.joinpath(maintenance.INDEX).rglob("*")) if path.is_file()
    )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Segment]:
    """The runs of turns that were read from the engine, and found there."""
    found: list[Segment] = []
    stored = Reader._stored

    def noted(reader: Reader, run: Segment) -> list[Turn]:
        turns = stored(reader, run)
        if turns:
            found.append(run)
        return turns

    monkeypatch.setattr(Reader, "_stored", noted)
    return found


# --- what they are for


def test_what_was_written_is_read_out_of_a_pack_and_not_from_the_engine(place: Path, read: list[Segment]) -> None:
    turns = fill(place)
    with trails.open(place) as store:
        plan = store.load("plan")
        assert plan.turns == tuple(turns)
        assert (len(plan), plan.head, plan[-1], plan[2:4]) == (10, turns[-1].digest, turns[-1], tuple(turns[2:4]))
        assert [each["content"] for each in store.replay("plan")] == [turn.content for turn in turns]
    assert read == []


def test_what_came_since_is_read_from_the_engine_and_packed_then(place: Path, read: list[Segment]) -> None:
    fill(place)
    before = packs(place)[0].read_bytes()
    with trails.open(place) as store:
        store.workspace.packs._writes = False
        say(store.load("plan"), "ten", "eleven")
    with trails.open(place) as store:
        assert [turn.content for turn in store.load("plan").tail(2)] == ["ten", "eleven"]
        assert [(run.start, run.end) for run in read] == [(10, None)]
        say(store.load("plan"), "twelve")
    (pack,) = packs(place)
    assert pack.read_bytes() != before
    with trails.open(place) as store:
        assert len(store.load("plan")) == 13


def test_a_store_is_packed_as_it_is_read_where_it_was_not_as_it_was_written(place: Path, read: list[Segment]) -> None:
    turns = fill(place)
    shutil.rmtree(place / maintenance.INDEX)
    with trails.open(place) as store:
        assert store.load("plan").turns == tuple(turns)
    assert len(read) == 1
    assert len(packs(place)) == 1
    with trails.open(place) as store:
        assert store.load("plan").turns == tuple(turns)
    assert len(read) == 1


def test_a_fork_of_a_fork_takes_from_each_pack_what_it_inherits(place: Path, read: list[Segment]) -> None:
    fill(place)
    with trails.open(place) as store:
        one = say(store.load("plan").fork(at=7, id="one"), "x", "y", "z")
        say(one.fork(at=5, id="two"), "w")
        expected = [f"turn {MARKED} {index}" for index in range(5)]
    read.clear()
    with trails.open(place) as store:
        assert [turn.content for turn in store.load("two").turns] == [*expected, "w"]
        assert [turn.session_id for turn in store.load("one").turns] == ["plan"] * 7 + ["one"] * 3
    assert read == []


def test_a_session_is_worked_on_behind_what_its_pack_holds(place: Path) -> None:
    turns = fill(place)
    with trails.open(place) as store:
        plan = store.load("plan")
        before = plan.turns
        added = plan.append("user", "pending")
        assert (plan.turns[-1], len(before), len(plan.turns)) == (added, 10, 11)
        plan.discard_pending()
        assert plan.turns == before == tuple(turns)
        fork = plan.fork(at=3)
        assert len(fork) == 3
        assert fork.turns == tuple(turns[:3])
        fork.discard_pending()


@pytest.mark.parametrize("fork_at", [None, 9, 14])
def test_a_model_is_shown_the_same_out_of_packs_and_out_of_the_store(
    place: Path, fork_at: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(place, create=True, durability="process") as store:
        plan = store.create(id="plan", system="Be brief.")
        for number in range(4):
            plan.append("user", f"question {number}")
            plan.append("assistant", "", tool_calls=[{"id": f"c{number}", "name": "look", "arguments": {"n": number}}])
            plan.append("tool", f"result {number}", tool_call_id=f"c{number}")
            if number in (1, 2):
                plan.append("summary", f"what was said up to {number}", compaction=Compaction(first_kept=3 * number))
        plan.append("assistant", [{"type": "text", "text": "done"}])
        plan.persist()
        if fork_at is not None:
            say(plan.fork(at=fork_at, id="fork"), "and then?")
    name = "plan" if fork_at is None else "fork"

    def shown(store: Repository) -> object:
        whole, some = store.context(name, "Go on"), store.context(name, "Go on", max_tokens=40)
        return [each.openai() for each in (whole, some)], [whole.anthropic(), some.anthropic()]

    with trails.open(place, read_only=True) as view:
        monkeypatch.setattr(Reader, "select", _without_turns(Reader.select))
        packed = shown(view)
    monkeypatch.undo()
    shutil.rmtree(place / maintenance.INDEX)
    with trails.open(place, read_only=True) as view:
        assert shown(view) == packed
    assert "what was said up to" in str(packed)


def compacted(place: Path) -> None:
    """Fill a store with a session of twelve turns, of which a summary at index 12 keeps the last four."""
    with trails.open(place, create=True, durability="process") as store:
        plan = say(store.create(id="plan"), *"abcdefghijkl")
        plan.compact(lambda _: "S", keep_turns=4)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the runs begin whose turns were counted in the store."""
    found: list[int] = []
    count = Reader._count

    def noted(reader: Reader, run: Segment) -> int:
        found.append(run.start)
        return count(reader, run)

    monkeypatch.setattr(Reader, "_count", noted)
    return found


def shown(store: Repository) -> list[str]:
    return [part.text for part in store.context("plan").parts]


def take_out(store: Repository, index: int) -> None:
    """Take a turn out of the engine, past all rules."""
    graph = NamedNode("urn:trails:session:plan")
    ((turn, *_),) = store.store.quads((None, vocab.INDEX, vocab.integer(index), graph))
    store.store.commit(Change(remove=store.store.quads((turn, None, None, graph))))


def test_the_turns_of_contexts_are_counted_once_until_something_is_removed(place: Path, counted: list[int]) -> None:
    compacted(place)
    with trails.open(place) as store:
        assert [shown(store) for _ in range(3)] == [["S", *"ijkl"]] * 3
        assert counted == [8]
        say(store.load("plan"), "m", "n")
        counted.clear()
        assert [shown(store) for _ in range(2)] == [["S", *"ijklmn"]] * 2
        assert counted == []
        store.tags.add("here", "plan")
        store.tags.remove("here")
        counted.clear()
        assert [shown(store) for _ in range(2)] == [["S", *"ijklmn"]] * 2
        assert counted == [8]


def test_turns_that_a_fork_does_not_inherit_are_shown_of_its_parent(place: Path) -> None:
    compacted(place)
    with trails.open(place) as store:
        say(store.load("plan").fork(id="child"), "x")
        store.workspace.packs._writes = False
        say(store.load("plan"), "m", "n")
        assert [part.text for part in store.context("child").parts] == ["S", *"ijkl", "x"]
        assert [shown(store) for _ in range(2)] == [["S", *"ijklmn"]] * 2


def test_whether_turns_came_is_asked_once_until_something_is_committed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    goes_on = Reader.goes_on

    def noted(reader: Reader, session_id: str, index: int) -> bool:
        asked.append(index)
        return goes_on(reader, session_id, index)

    monkeypatch.setattr(Reader, "goes_on", noted)
    compacted(place)
    with trails.open(place) as store:
        plan, other = store.load("plan"), store.create(id="other")
        assert [shown(store) for _ in range(3)] == [["S", *"ijkl"]] * 3
        assert asked == []
        say(other, "hi")
        assert [shown(store) for _ in range(3)] == [["S", *"ijkl"]] * 3
        assert asked == [13]
        say(plan, "m")
        assert [shown(store) for _ in range(2)] == [["S", *"ijklm"]] * 2


@pytest.mark.parametrize("index", [9, 11, 13])
def test_a_turn_that_vanished_is_missed_by_a_context_that_was_counted_before(place: Path, index: int) -> None:
    compacted(place)
    with trails.open(place) as store:
        say(store.load("plan"), "m", "n")
        assert [shown(store) for _ in range(2)] == [["S", *"ijklmn"]] * 2
        take_out(store, index)
        with pytest.raises(IndexGap, match=f"no turn at index {index}"):
            shown(store)


def test_a_context_is_counted_for_what_it_shows_and_not_for_what_another_does(place: Path, counted: list[int]) -> None:
    compacted(place)
    with trails.open(place) as store:
        take_out(store, 3)
        assert shown(store) == ["S", *"ijkl"]
        store.load("plan", last=5).compact(lambda _: "T", keep_turns=2)
        assert shown(store) == ["T", *"kl"]
    assert counted == [8, 10]


def _without_turns(select: Callable[..., Solutions]) -> Callable[..., Solutions]:
    def refused(reader: Reader, name: str, **values: object) -> Solutions:
        assert not name.startswith(("context_turns", "turns_wide", "turns_narrow", "facts"))
        return select(reader, name, **values)

    return refused


def test_what_waits_beyond_all_bounds_is_packed_at_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_TURN", 99)
    monkeypatch.setattr(keeper, "_HELD", 400)  # twice as many bytes never wait
    with trails.open(place, create=True) as store:
        plan = say(store.create(id="plan"), *"abcdefgh")
        assert packs(place) == []
        say(plan, "i")
        assert len(packs(place)) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"meta": {"k": "x" * 32}},  # {"k":"..."} has 8 more
        {"tool_calls": [{"id": "c", "name": "look", "arguments": '"' + "x" * 38 + '"'}]},
    ],
    ids=["metadata", "arguments"],
)
def test_what_a_turn_says_beside_its_text_counts_as_what_waits_to_be_packed(
    place: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    monkeypatch.setattr(keeper, "_TURN", 0)
    monkeypatch.setattr(keeper, "_HELD", 50)
    with trails.open(place, create=True) as store:
        plan = store.create(id="plan")
        plan.append("user", "a" * 60, **more)
        plan.persist()
        assert packs(place) == []
        plan.append("user", "b")
        plan.persist()
        assert len(packs(place)) == 1


def test_short_sessions_are_not_packed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "LEAST", 11)
    fill(place)
    assert packs(place) == []


def test_a_store_in_memory_has_none(memory: Repository) -> None:
    say(memory.create(id="plan"), "a", "b")
    assert memory.load("plan").turns == memory.load("plan").turns
    assert list(memory.workspace.packs.there()) == []


# --- what is in doubt is not used


def damage(place: Path) -> Iterator[None]:
    (pack,) = packs(place)
    whole = pack.read_bytes()
    for at in range(0, len(whole), 13):
        pack.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        yield
    for at in range(0, len(whole), 29):
        pack.write_bytes(whole[:at])
        yield
    pack.unlink()
    pack.mkdir()
    yield
    pack.rmdir()
    pack.symlink_to("/dev/zero")
    yield
    pack.unlink()
    os.mkfifo(pack)  # who takes it for a file waits without end
    yield


def test_a_damaged_pack_costs_time_and_gives_no_other_answer(place: Path) -> None:
    turns = fill(place)
    with trails.open(place) as store:
        for _ in damage(place):
            assert store.load("plan").turns == tuple(turns)


def test_a_pack_of_an_earlier_version_is_made_anew_and_is_no_damage(place: Path) -> None:
    turns = fill(place)
    (pack,) = packs(place)
    now = pack.read_bytes()
    pack.write_bytes(b"TPK1" + now[4:])
    assert pack_upkeep.look(place).ok
    with trails.open(place) as store:
        assert store.load("plan").turns == tuple(turns)
    assert pack.read_bytes()[:4] == b"TPK2"
    pack.write_bytes(b"TPK3" + now[4:])
    assert not pack_upkeep.look(place).ok


def test_a_pack_of_another_store_or_session_is_none(place: Path, tmp_path: Path) -> None:
    turns = fill(place)
    with trails.open(tmp_path / "other", create=True) as other:
        say(other.create(id="plan"), *"abcdefghij")
    with trails.open(place) as store:
        say(store.create(id="second"), *"klm")
    mine = files.path_of(place / maintenance.INDEX / keeper.FOLDER, "plan")
    for foreign in (*packs(tmp_path / "other"), files.path_of(place / maintenance.INDEX / keeper.FOLDER, "second")):
        shutil.copy(foreign, mine)
        with trails.open(place) as store:
            assert store.load("plan").turns == tuple(turns)


def test_a_pack_that_the_store_never_came_to_is_none(place: Path, tmp_path: Path) -> None:
    fill(place)
    shutil.copytree(place, tmp_path / "old")
    with trails.open(place) as store:
        say(store.load("plan"), "later")
    for pack in packs(place):
        shutil.copy(pack, packs(tmp_path / "old")[0])
    with trails.open(tmp_path / "old") as store:
        assert len(store.load("plan")) == 10


def forked(place: Path) -> Callable[[str], Path]:
    """Fill a store with a session, a fork of it and a fork of that; return where the pack of each is."""
    fill(place)
    with trails.open(place) as store:
        one = say(store.load("plan").fork(at=7, id="one"), *"abcdef")
        say(one.fork(at=12, id="two"), "w")
    return lambda name: files.path_of(place / maintenance.INDEX / keeper.FOLDER, name)


def test_a_doubt_about_one_pack_of_a_family_is_none_about_the_others(place: Path, read: list[Segment]) -> None:
    pack = forked(place)
    shutil.copy(pack("plan"), pack("one"))
    read.clear()
    with trails.open(place) as store:
        turns = store.load("two").turns
        assert [turn.content for turn in turns] == [*(f"turn {MARKED} {index}" for index in range(7)), *"abcde", "w"]
    assert [(run.record.id, run.start, run.end) for run in read] == [("one", 7, 12)]


def test_of_a_pack_that_went_on_elsewhere_what_the_store_came_to_is_believed(
    place: Path, tmp_path: Path, read: list[Segment]
) -> None:
    pack = forked(place)
    shutil.copytree(place, tmp_path / "old")
    with trails.open(place) as store:
        say(store.load("one"), *"ghij")
    shutil.copy(pack("one"), files.path_of(tmp_path / "old" / maintenance.INDEX / keeper.FOLDER, "one"))
    read.clear()
    with trails.open(tmp_path / "old") as store:
        assert [turn.content for turn in store.load("one").turns[7:]] == list("abcdef")
    assert [(run.record.id, run.start) for run in read] == [("one", 11)]


def test_a_transcript_with_a_gap_behind_its_pack_is_never_returned(place: Path) -> None:
    fill(place)
    with trails.open(place) as store:
        store.workspace.packs._writes = False
        say(store.load("plan"), "ten", "eleven")
    with trails.open(place) as store:
        turn = store.load("plan")[10]
        gone = store.store.quads((NamedNode(turn.iri), None, None, NamedNode(turn.iri.rpartition("/")[0])))
        store.store.commit(Change(remove=gone))
        with pytest.raises(IndexGap, match="10"):
            store.load("plan")


@pytest.mark.parametrize("index", [3, 7, 8, 9, 11])
def test_a_turn_that_vanished_from_the_store_is_missed_though_a_pack_holds_it(place: Path, index: int) -> None:
    fill(place)
    with trails.open(place) as store:
        say(say(store.load("plan").fork(at=8, id="child"), "x").fork(at=9, id="grandchild"), "y", "z", "w")
    with trails.open(place) as store:
        turn = store.load("grandchild")[index]
        gone = store.store.quads((NamedNode(turn.iri), None, None, NamedNode(turn.iri.rpartition("/")[0])))
        store.store.commit(Change(remove=gone))
        told = "turn 11 is missing at its end" if index == 11 else f"turn {index}, which '{turn.session_id}' owns"
        with pytest.raises(IndexGap, match=told):
            store.load("grandchild")
        with pytest.raises(IndexGap, match=f"turn {index}"):
            store.replay("grandchild")


def graph_of(iri: str) -> NamedNode:
    return NamedNode(iri.rpartition("/")[0])


@pytest.mark.parametrize("index", [0, 3, 7])
def test_a_turn_that_vanished_is_not_made_up_for_by_one_behind_the_fork(place: Path, index: int) -> None:
    fill(place, 9)
    with trails.open(place) as store:
        say(store.load("plan").fork(at=8, id="child"), "x")
    with trails.open(place) as store:
        turn = store.load("child")[index]
        store.store.commit(Change(remove=store.store.quads((NamedNode(turn.iri), None, None, graph_of(turn.iri)))))
        with pytest.raises(IndexGap, match=f"turn {index}, which 'plan' owns"):
            store.load("child")


@pytest.mark.parametrize("index", [8, 10])
def test_a_turn_that_vanished_is_not_made_up_for_by_a_copy_before_the_fork(place: Path, index: int) -> None:
    fill(place, 8)
    with trails.open(place) as store:
        say(say(store.load("plan").fork(at=8, id="child"), *"abcd").fork(at=12, id="grandchild"), "x")
    with trails.open(place) as store:
        turn = store.load("child")[index]
        gone = store.store.quads((NamedNode(turn.iri), None, None, graph_of(turn.iri)))
        begun = Quad(
            NamedNode(f"{graph_of(turn.iri).value}/2-aaaaaaaaaaaaaaaa"),
            vocab.INDEX,
            vocab.integer(2),
            graph_of(turn.iri),
        )
        store.store.commit(Change(add=[begun], remove=gone))
        for name in ("child", "grandchild"):
            with pytest.raises(IndexGap, match=f"turn {index}, which 'child' owns"):
                store.load(name)


@pytest.mark.parametrize("index", [1, 7])
def test_a_turn_that_vanished_is_not_made_up_for_by_one_of_another_session(place: Path, index: int) -> None:
    fill(place, 8)
    with trails.open(place) as store:
        say(say(store.load("plan").fork(at=8, id="child"), "x", "y").fork(at=10, id="grandchild"), "z")
    with trails.open(place) as store:
        store.workspace.packs._writes = False
        say(store.load("child"), "one more, which no pack holds")
        turn = store.load("grandchild")[index]
        store.store.commit(Change(remove=store.store.quads((NamedNode(turn.iri), None, None, graph_of(turn.iri)))))
        with pytest.raises(IndexGap, match=f"turn {index}, which 'plan' owns"):
            store.load("grandchild")


def test_a_fork_of_a_fork_asks_no_more_questions_than_a_fork(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place, 8)
    with trails.open(place) as store:
        fork = store.load("plan")
        for depth in range(5):
            fork = say(fork.fork(id=f"fork-{depth}"), "x", "y")
    asked = asked_from_now_on(monkeypatch)
    with trails.open(place) as store:
        assert len(store.load("fork-4")) == 18
        assert asked == ["records", "ancestors", "turns_of_all"]
        asked.clear()
        assert len(store.load("plan")) == 8
        assert asked == ["records", "turns_owned"]
        asked.clear()
        assert [turn.content for turn in store.load("fork-4", last=3).tail(3)] == ["y", "x", "y"]
        assert asked[:2] == ["records", "ancestors"]
        assert "lineage" not in asked


def _altered(data: bytes, what: bytes, by: bytes) -> bytes:
    """Return a pack of one block with other bytes, under a checksum that is right."""
    assert what in data
    magic, head, rest = data[:4], data[8 : block.HEAD_SIZE], data[block.HEAD_SIZE :].replace(what, by)
    return magic + zlib.crc32(rest, zlib.crc32(head)).to_bytes(4, "little") + head + rest


DAMAGED = {
    "facts that are no JSON": (b'[["m-1"', b'x["m-1"'),
    "facts that are none": (b'"c","ls"', b'"c"  "ls"'[:8]),
    "text that is none": ("Grüße".encode(), "Grüße".encode("utf-16")[:7]),
    "another role's number": (b"\x00\x01\x02", b"\x00\x09\x02"),
    "names of no kind": (b'["assistant"', b'{"assistant"'),
}


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_a_pack_that_holds_what_is_never_written_is_named_and_the_store_is_read_instead(
    place: Path, damage: str
) -> None:
    with trails.open(place, create=True) as store:
        session = store.create(id="plan")
        session.append("user", "Grüße")
        call = {"id": "c", "name": "ls", "arguments": {}}
        session.append("assistant", "Look", model="m-1", tool_calls=[call], usage={"input_tokens": 1})
        session.append("tool", "two files", tool_call_id="c")
        session.persist()
        turns = list(session.turns)
    (pack,) = packs(place)
    pack.write_bytes(_altered(pack.read_bytes(), *DAMAGED[damage]))
    with trails.open(place) as store:
        assert list(store.load("plan").turns) == turns
        assert store.load("plan").turns[1] == turns[1]
        assert list(store.load("plan", last=2).tail(2)) == turns[1:]
        assert [each["content"] for each in store.replay("plan")] == ["Grüße", "Look", "two files"]
        assert len(store.context("plan", "and now?").openai()) == 4
        for wanted in (None, "plan"):
            found = store.verify(wanted).findings
            assert [(each.code, each.session_id) for each in found] == [("pack-differs", "plan")] * _is_believed(pack)
        store.maintenance.vacuum()
        assert store.verify().ok


def _is_believed(pack: Path) -> bool:
    return files.last(pack) is not None


def test_verify_names_a_pack_that_says_other_than_the_store_and_vacuum_makes_it_anew(place: Path) -> None:
    turns = fill(place)
    (pack,) = packs(place)
    with trails.open(place) as store:
        altered = turns[3].model_copy(update={"text": "never said"})
        files.extend(pack, [*turns[:3], altered, *turns[4:]], "plan", 0, store.store.log.reached)
        assert store.load("plan")[3].content == "never said"
        report = store.proofs.verify()
        assert [(each.code, each.session_id) for each in report.findings] == [("pack-differs", "plan")]
        store.load("plan").fork(id="fork").persist()
        store.create(id="other").persist()
        for asked in ("plan", "fork"):
            found = store.verify(asked).findings
            assert [(each.code, each.session_id) for each in found] == [("pack-differs", "plan")]
        assert store.verify("other").ok
        store.maintenance.vacuum()
        assert store.load("plan").turns == tuple(turns)
        assert store.verify().ok


def test_what_writes_a_transcript_again_or_proves_it_asks_the_store(place: Path) -> None:
    turns = fill(place)
    (pack,) = packs(place)
    with trails.open(place) as store:
        altered = turns[3].model_copy(update={"text": "never said"})
        files.extend(pack, [*turns[:3], altered, *turns[4:]], "plan", 0, store.store.log.reached)
        store.flatten("plan", id="flat")
        assert [turn.content for turn in store.load("flat").turns] == [turn.content for turn in turns]


def test_no_backup_has_packs(place: Path, tmp_path: Path) -> None:
    fill(place)
    with trails.open(place) as store:
        store.maintenance.backup(tmp_path / "backup")
    assert not (tmp_path / "backup" / maintenance.INDEX).exists()


def test_a_disk_that_is_nearly_full_is_left_to_the_store(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_FREE", 1 << 62)
    fill(place)
    assert packs(place) == []


def test_where_nothing_can_be_written_all_goes_on(place: Path) -> None:
    turns = fill(place)
    shutil.rmtree(place / maintenance.INDEX)
    (place / maintenance.INDEX).mkdir()
    (place / maintenance.INDEX / keeper.FOLDER).write_text("in the way")
    with trails.open(place) as store:
        assert store.load("plan").turns == tuple(turns)


# --- what was taken out


def test_what_is_redacted_is_in_no_pack_when_the_call_returns(place: Path) -> None:
    fill(place)
    with trails.open(place) as store:
        for index in range(10):
            say(store.load("plan"), f"more {index}")
            store.redact("plan", index)
            assert f"turn {MARKED} {index}".encode() not in raw(place)
            assert store.load("plan")[index].redacted
            store.workspace.packs.bring_up()
            assert f"turn {MARKED} {index}".encode() not in raw(place)
        assert MARKED.encode() not in raw(place)
    with trails.open(place) as store:
        assert [turn.redacted for turn in store.load("plan").turns] == [True] * 10 + [False] * 10
        assert store.verify().ok


def put_index_back(place: Path, older: Path) -> None:
    """Put an older folder of packs in the place of what is there, as somebody does who copies files."""
    shutil.rmtree(place / maintenance.INDEX)
    shutil.copytree(older, place / maintenance.INDEX)


def test_after_a_redaction_the_other_turns_are_still_read_out_of_the_pack(place: Path, read: list[Segment]) -> None:
    turns = fill(place)
    with trails.open(place) as store:
        store.redact("plan", 5)
        store.redact("plan", 2)
    assert not [index for index in (2, 5) if f"turn {MARKED} {index}".encode() in raw(place)]
    with trails.open(place) as store:
        loaded = store.load("plan").turns
        assert [turn.index for turn in loaded if turn.redacted] == [2, 5]
        assert [turn for turn in loaded if not turn.redacted] == [turn for turn in turns if turn.index not in (2, 5)]
        assert [turn.digest for turn in loaded] == [turn.digest for turn in turns]
        assert read == []
        assert store.verify().ok


def test_an_older_pack_is_not_believed_for_a_later_redaction(place: Path) -> None:
    fill(place)
    (pack,) = packs(place)
    older = pack.read_bytes()
    with trails.open(place) as store:
        store.redact("plan", 2)
        assert packs(place) == [pack]
        pack.write_bytes(older)
        store.redact("plan", 7)
        assert packs(place) == []
        assert [turn.index for turn in store.load("plan").turns if turn.redacted] == [2, 7]


@pytest.mark.parametrize("read_only", [True, False])
def test_an_older_pack_that_was_put_back_gives_nothing_of_what_was_redacted_since(
    place: Path, tmp_path: Path, read_only: bool
) -> None:
    fill(place)
    older = shutil.copytree(place / maintenance.INDEX, tmp_path / "older")
    with trails.open(place) as store:
        store.redact("plan", 2)
    put_index_back(place, older)
    with trails.open(place, read_only=read_only) as store:
        assert store.load("plan")[2].redacted
        assert store.replay("plan")[2]["content"] != f"turn {MARKED} 2"
        assert f"turn {MARKED} 2" not in str(store.context("plan").openai())
        assert store.verify().ok


def test_an_older_pack_that_was_put_back_names_no_author_whose_name_was_taken_out(place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        say(store.create(id="plan", principal=MARKED), "one", "two")
    older = shutil.copytree(place / maintenance.INDEX, tmp_path / "older")
    with trails.open(place) as store:
        store.redact_matching(MARKED)
    put_index_back(place, older)
    with trails.open(place) as store:
        assert [turn.author for turn in store.load("plan").turns] == ["redacted", "redacted"]


def test_an_older_pack_of_a_session_of_which_nothing_was_taken_out_is_read(
    place: Path, tmp_path: Path, read: list[Segment]
) -> None:
    turns = fill(place)
    with trails.open(place) as store:
        say(store.create(id="other"), "one", "two")
    older = shutil.copytree(place / maintenance.INDEX, tmp_path / "older")
    with trails.open(place) as store:
        store.redact("other", 0)
    put_index_back(place, older)
    read.clear()
    with trails.open(place) as store:
        assert store.load("plan").turns == tuple(turns)
        assert read == []
        assert [turn.redacted for turn in store.load("other").turns] == [True, False]


def test_an_older_pack_is_told_by_a_log_whose_newer_lines_were_read_before(place: Path, tmp_path: Path) -> None:
    fill(place)
    older = shutil.copytree(place / maintenance.INDEX, tmp_path / "older")
    with trails.open(place) as store:
        store.redact("plan", 2)
        say(store.create(id="other"), "one", "two")
    shutil.copytree(older / keeper.FOLDER, place / maintenance.INDEX / keeper.FOLDER, dirs_exist_ok=True)
    with trails.open(place) as store:
        assert len(store.load("other")) == 2, "its pack is of the log's last line"
        assert store.load("plan")[2].redacted
        store.redact("other", 1)
        assert store.load("plan")[2].redacted
        assert [turn.redacted for turn in store.load("other").turns] == [False, True]


def test_an_older_pack_that_is_put_back_under_an_open_store_is_told_by_what_the_log_says_by_then(
    place: Path, tmp_path: Path
) -> None:
    fill(place)
    older = shutil.copytree(place / maintenance.INDEX / keeper.FOLDER, tmp_path / "older")
    with trails.open(place) as store:
        assert len(store.load("plan")) == 10
        store.redact("plan", 2)
        shutil.copytree(older, place / maintenance.INDEX / keeper.FOLDER, dirs_exist_ok=True)
        assert store.load("plan")[2].redacted


def test_what_was_taken_out_of_no_session_that_is_named_was_taken_out_of_all() -> None:
    log, told = LeafLog(None), Erasures()
    before = log.reached
    lines, place = log.lines_for([Leaf("redact", "urn:trails:session:plan/redaction/e093e3920ca0860f", 0, "ab" * 32)])
    log.append(lines, before, place)
    assert told.are_after(before, "other", log)
    assert not told.are_after(place, "other", log)


def test_what_waits_to_be_packed_is_not_once_it_is_taken_out(place: Path) -> None:
    with trails.open(place, create=True) as store:
        say(store.create(id="plan"), f"{MARKED} one", "two")
        say(store.create(id="other"), f"{MARKED} three")
        store.redact_matching(MARKED)
    assert MARKED.encode() not in raw(place)
    with trails.open(place) as store:
        assert [turn.redacted for turn in store.load("plan").turns] == [True, False]


def test_turns_that_were_read_before_a_redaction_are_not_packed_after_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(place)
    shutil.rmtree(place / maintenance.INDEX)
    stored = Reader._stored
    with trails.open(place) as store:

        def slow(reader: Reader, run: Segment) -> list[Turn]:
            turns = stored(reader, run)
            with monkeypatch.context() as patched:
                patched.setattr(Reader, "_stored", stored)
                store.redact("plan", 4)
            return turns

        with monkeypatch.context() as patched:
            patched.setattr(Reader, "_stored", slow)
            store.load("plan")
    assert f"turn {MARKED} 4".encode() not in raw(place)
    with trails.open(place) as store:
        assert store.load("plan")[4].redacted


def test_nothing_is_packed_while_something_is_taken_out_though_there_was_no_pack_before(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(place)
    shutil.rmtree(place / maintenance.INDEX)
    with trails.open(place) as store:
        commit = type(store.store).commit

        def read_and_packed(self: object, *words: object, **more: object) -> object:
            Reader.own_turns(store.reader, Segment(store.record("plan"), 0, None))
            store.workspace.packs.bring_up()
            return commit(self, *words, **more)  # type: ignore[arg-type] # the same words

        with monkeypatch.context() as patched:
            patched.setattr(type(store.store), "commit", read_and_packed)
            store.redact("plan", 4)
        assert f"turn {MARKED} 4".encode() not in raw(place)
    with trails.open(place) as store:
        assert store.load("plan")[4].redacted


def test_a_pack_that_cannot_be_written_fails_neither_a_commit_nor_closing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreFailed("no more")

    monkeypatch.setattr(keeper.Packs, "_pack", refuse)
    assert len(fill(place)) == 10
    with trails.open(place) as store:
        assert len(store.load("plan")) == 10


def test_a_deleted_session_leaves_no_pack_and_one_of_its_name_gets_its_own(place: Path) -> None:
    fill(place)
    with trails.open(place) as store:
        say(store.load("plan").fork(at=4, id="fork"), "apart")
        store.workspace.packs.bring_up()
        store.delete("plan", children="detach")
        assert packs(place) == []
        assert [turn.content for turn in store.load("fork").turns][-1] == "apart"
        assert len(store.load("fork")) == 5
        store.workspace.packs.bring_up()
        assert len(packs(place)) == 1
        store.delete("fork")
        assert packs(place) == []
        say(store.create(id="again"), "a")
    assert MARKED.encode() not in raw(place)


_KILLED = """
import os, sys
import trails
from trails.plumbing.packs import files, keeper
keeper.LEAST, files.MOST = 1, 4
step = int(sys.argv[2])
def die(done):
    global step
    step -= 1
    if step == 0:
        os._exit(9)
for owner, name in ((keeper.Packs, "_set_mark"), (keeper.Packs, "_throw_away"), (keeper, "sync_folder"), (files.Path, "unlink")):
    def wrapped(*words, before=getattr(owner, name), **more):
        die("before")
        found = before(*words, **more)
        die("after")
        return found
    setattr(owner, name, staticmethod(wrapped) if owner is keeper.Packs else wrapped)
with trails.open(sys.argv[1]) as store:
    store.redact("plan", 2)
    print("done", flush=True)
"""


def test_a_kill_at_any_step_of_a_redaction_leaves_nothing_of_it_in_a_pack(
    place: Path, tmp_path: Path, size: str
) -> None:
    turns = fill(place)
    for step in {"quick": (3, 5, 8), "all": range(1, 16), "long": range(1, 16)}[size]:
        store_ = tmp_path / f"killed-{step}"
        shutil.copytree(place, store_)
        command = [sys.executable, "-c", _KILLED, str(store_), str(step)]
        ended = subprocess.run(command, check=False, capture_output=True, env=environment({}))
        with trails.open(store_) as store:
            is_redacted = store.load("plan")[2].redacted
            assert is_redacted or store.load("plan")[2] == turns[2]
            if is_redacted:
                assert turns[2].text.encode() not in raw(store_)
        assert is_redacted or b"done" not in ended.stdout


def test_a_redaction_whose_packs_cannot_be_thrown_away_says_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(place)
    with trails.open(place) as store:

        def refuse(*_: object) -> None:
            raise PermissionError("no")

        with monkeypatch.context() as patched:
            patched.setattr(keeper.Packs, "_take_out", refuse)
            with pytest.raises(StoreFailed, match="packs"):
                store.redact("plan", 2)
    with trails.open(place) as store:
        assert store.load("plan")[2].redacted
        assert f"turn {MARKED} 2".encode() not in raw(place)


# --- beside the owner


def test_a_view_reads_packs_only_of_its_own_moment(place: Path) -> None:
    turns = fill(place)
    with trails.open(place) as owner, trails.open(place, read_only=True) as view:
        assert view.load("plan").turns == tuple(turns)
        say(owner.load("plan"), "later")
        owner.redact("plan", 2)
        assert view.load("plan").turns == tuple(turns)
        owner.load("plan")
        owner.workspace.packs.bring_up()
        assert packs(place)
        assert view.load("plan").turns == tuple(turns)
        view.refresh()
        assert [turn.redacted for turn in view.load("plan")[:4]] == [False, False, True, False]
        assert len(view.load("plan")) == 11


def test_a_view_writes_no_pack(place: Path) -> None:
    fill(place)
    shutil.rmtree(place / maintenance.INDEX)
    with trails.open(place, read_only=True) as view:
        assert len(view.load("plan")) == 10
    assert packs(place) == []


def test_a_view_believes_no_pack_while_something_is_being_taken_out(place: Path) -> None:
    turns = fill(place)
    with trails.open(place) as owner, owner.workspace.erasing():
        with trails.open(place, read_only=True) as view:
            assert view.workspace.packs.blocks([Segment(view.record("plan"), 0, None)]) == [[]]
            assert view.load("plan").turns == tuple(turns)
        assert owner.load("plan").turns == tuple(turns)


def test_a_child_that_was_forked_writes_no_pack(place: Path) -> None:
    fill(place)
    before = packs(place)[0].read_bytes()
    with trails.open(place) as store:
        plan = store.load("plan")
        say(plan, "later")
        child = os.fork()
        if child == 0:
            store.workspace.packs.bring_up()
            os._exit(0)
        os.waitpid(child, 0)
        assert packs(place)[0].read_bytes() == before


def test_all_is_for_its_owner_alone(place: Path) -> None:
    before = os.umask(0)
    try:
        fill(place)
    finally:
        os.umask(before)
    (pack,) = packs(place)
    assert [path.stat().st_mode & 0o777 for path in (pack, pack.parent, pack.parent.parent)] == [0o600, 0o700, 0o700]


def test_a_pack_is_written_block_after_block(place: Path) -> None:
    fill(place, 3)
    sizes = []
    with trails.open(place) as store:
        for index in range(6):
            say(store.load("plan"), str(index))
            store.workspace.packs.bring_up()
            found = files.read(place / maintenance.INDEX / keeper.FOLDER, "plan", 0, 99)
            sizes.append([each.count for each in found])
    assert sizes == [[4], [4, 1], [4, 2], [4, 3], [4, 4], [4, 4, 1]]
    assert block.MOST == 250


# --- a store that is not what it was when its packs were written


def put_back(place: Path, older: Path) -> None:
    """Put an older copy of a store in its place, under the packs that are there."""
    index = place.parent / "index"
    shutil.copytree(place / maintenance.INDEX, index)
    shutil.rmtree(place)
    shutil.copytree(older, place)
    shutil.rmtree(place / maintenance.INDEX, ignore_errors=True)
    shutil.copytree(index, place / maintenance.INDEX)


def test_of_a_store_that_was_put_back_nothing_stays_that_it_never_had(place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True, durability="process") as store:
        say(store.create(id="other"), "hi")
    shutil.copytree(place, tmp_path / "older")
    fill(place)
    assert packs(place)
    put_back(place, tmp_path / "older")
    with trails.open(place, read_only=True) as store:
        assert [each.id for each in store.list()] == ["other"]
        assert len(packs(place)) == 2
    with trails.open(place) as store:
        assert [turn.content for turn in store.load("other").turns] == ["hi"]
        assert packs(place) == []
    assert MARKED.encode() not in b"".join(path.read_bytes() for path in place.rglob("*.pack"))


def test_of_a_store_that_only_grew_packs_stay(place: Path) -> None:
    fill(place)
    before = packs(place)
    with trails.open(place) as store:
        say(store.create(id="other"), "hi")
    with trails.open(place):
        assert set(before) < set(packs(place))


@pytest.mark.parametrize("what", [b"", b"[1, 2]", b"null", b'["a", "b", 3]', b"{", None])
def test_packs_of_which_nobody_can_say_when_they_were_written_are_thrown_away(place: Path, what: bytes | None) -> None:
    turns = fill(place)
    reached = place / maintenance.INDEX / keeper.FOLDER / "reached"
    reached.unlink()
    if what is None:
        os.mkfifo(reached)
    else:
        reached.write_bytes(what)
    with trails.open(place) as store:
        assert packs(place) == []
        assert store.load("plan").turns == tuple(turns)


# --- where nobody may look

_AS_ANY_USER = """
import ctypes, os, struct, sys
from pathlib import Path
import trails
from trails.plumbing import pack_upkeep
from trails.plumbing.index import checks
if os.geteuid() == 0:  # root without the right to look into everything: no capability is left
    assert ctypes.CDLL(None).capset(struct.pack("=Ii", 0x20080522, 0), bytes(24)) == 0
place = sys.argv[1]
for read_only in (True, False):
    with trails.open(place, read_only=read_only) as store:
        print(len(store.load("plan")), len(store.list()), len(store.search("turn")), store.verify().ok)
with trails.open(place) as store:
    with store.session("plan") as plan:
        turn = plan.append("user", "more")
    try:
        store.redact("plan", 2)
    except trails.StoreFailed as error:
        print("would keep what is taken out" in str(error), store.load("plan")[2].redacted)
print([look(Path(place)).ok for look in (checks.look, pack_upkeep.look)].count(False))
"""


@pytest.mark.parametrize(("folder", "wrong"), [("", "2"), (keeper.FOLDER, "1")])
def test_folders_that_another_user_made_cost_no_answer_but_nothing_is_taken_out(
    place: Path, folder: str, wrong: str
) -> None:
    fill(place)
    closed = place / maintenance.INDEX / folder
    closed.chmod(0)
    try:
        line = [sys.executable, "-c", _AS_ANY_USER, str(place)]
        asked = subprocess.run(line, check=False, env=environment({}), capture_output=True, text=True)
    finally:
        closed.chmod(0o700)
    assert asked.stderr == ""
    assert asked.stdout.splitlines() == ["10 1 10 True", "10 1 10 True", "True False", wrong]


def test_doctor_names_a_file_in_the_place_of_the_packs(place: Path) -> None:
    fill(place)
    folder = place / maintenance.INDEX / keeper.FOLDER
    shutil.rmtree(folder)
    folder.write_text("no folder")
    found = pack_upkeep.look(place)
    assert not found.ok
    assert "remove it" in (found.remedy)
