"""Redaction takes a text out everywhere and leaves the chain whole; pruning deletes only what nothing depends on."""

from __future__ import annotations

import io
import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import Compaction, HasChildren, InvalidInput, Repository, SessionNotFound
from trails.exchange.file_import import export_session, import_path
from trails.exchange.rdf_files import import_rdf
from trails.history import turn_builder
from trails.history.removal.deletion import Candidate, plan_pruning
from trails.history.removal.redaction import Redaction
from trails.model import iris
from trails.rdf import vocab
from trails.store import Change
from trails.store.log.records import CommitRecord, Row

pytestmark = pytest.mark.any_store

TOLD = "the launch code is swordfish"


def family(store: Repository) -> None:
    """A root of four turns, the secret at 1 with a call and metadata; a fork of all, one from before, and a flat copy."""
    root = store.create(id="root", principal="alice", agent="planner")
    root.append("user", "What is the code?")
    parts = [
        {"type": "text", "text": TOLD},
        {"type": "tool_use", "id": "t1", "name": "open", "input": {"code": "swordfish"}},
    ]
    root.append("assistant", parts, model="m-1", usage={"input_tokens": 3}, meta={"note": "swordfish"})
    root.append("tool", "opened", tool_call_id="t1")
    root.append("user", "Thanks")
    root.persist()
    fork = root.fork(id="fork")
    fork.append("assistant", f"You are welcome; {TOLD}")
    fork.persist()
    early = root.fork(at=1, id="early")
    early.append("user", "Never mind")
    early.persist()
    root.flatten(id="flat")


def texts(store: Repository) -> str:
    """Every literal in the store, one after the other."""
    return "\n".join(str(quad.object) for quad in store.store.quads((None, None, None, None)))


def salts(store: Repository) -> set[str]:
    return {quad.object.value for quad in store.store.quads((None, vocab.SALT, None, None))}  # type: ignore[union-attr] # literals


# --- what a redaction does


def test_the_content_is_gone_from_the_turn_and_its_copies_and_the_chain_verifies(store: Repository) -> None:
    family(store)
    head = store.load("root").head
    before = store.load("root").turns[1]
    report = store.redact("root", 1, by="bob", reason="a court said so")
    assert report.turns == (("flat", 1), ("root", 1))
    assert store.verify().findings == ()
    for session_id in ("root", "fork", "flat"):
        turn = store.load(session_id).turns[1]
        assert (turn.redacted, turn.content, turn.text, turn.meta) == (True, "", "", {})
        assert (turn.digest, turn.time, turn.role, turn.author) == (before.digest, before.time, "assistant", "planner")
        assert (turn.model, turn.usage) == ("m-1", {"input_tokens": 3})
        assert [(call.id, call.name, call.input) for call in turn.tool_calls] == [("t1", "open", None)]
    assert store.load("root").head == head
    assert store.replay("fork", up_to_index=2)[1] == {"role": "assistant", "content": "", "index": 1, "branch": "main"}


def test_what_is_stored_holds_neither_the_text_nor_the_salt_with_which_it_could_be_guessed(store: Repository) -> None:
    family(store)
    graph = NamedNode(iris.session("root"))
    [turn] = (q.subject for q in store.store.quads((None, vocab.INDEX, Literal(1), graph)))
    [salt] = store.store.quads((turn, vocab.SALT, None, graph))  # type: ignore[arg-type] # an IRI
    store.redact("root", 1)
    store.redact("fork", 4)
    assert "swordfish" not in texts(store)
    assert salt.object.value not in salts(store)  # type: ignore[union-attr] # a literal
    [value] = store.store.quads((turn, vocab.VALUE, None, graph))  # type: ignore[arg-type] # an IRI
    assert str(value.object) == '""^^<https://w3id.org/trails#Redacted>'


def test_the_catalog_says_who_did_it_when_and_why(store: Repository) -> None:
    family(store)
    turn = store.load("root").turns[0]
    start = datetime.now(UTC)
    store.redact("root", 0, by="bob", reason="asked for")
    node = NamedNode(f"{turn.iri}/deletion")
    found = {q.predicate: q.object for q in store.store.quads((node, None, None, vocab.CATALOG))}
    assert found[vocab.TYPE] == vocab.DELETION
    assert found[vocab.ASSOCIATED_WITH] == NamedNode("urn:trails:principal:bob")
    assert found[vocab.DELETED_TURN] == NamedNode(turn.iri)
    assert found[vocab.DIGEST] == Literal(turn.digest)
    assert found[vocab.REASON] == Literal("asked for")
    assert start <= datetime.fromisoformat(found[vocab.ENDED_AT].value) <= datetime.now(UTC)  # type: ignore[union-attr] # a literal
    assert Quad(NamedNode("urn:trails:principal:bob"), vocab.TYPE, vocab.PRINCIPAL) in store.store.quads(
        (None, vocab.TYPE, vocab.PRINCIPAL, vocab.CATALOG)
    )


def test_who_redacts_is_unknown_unless_said_and_never_the_session_s_principal(store: Repository) -> None:
    family(store)
    store.redact("root", 0)
    node = NamedNode(f"{store.load('root').turns[0].iri}/deletion")
    [who] = store.store.quads((node, vocab.ASSOCIATED_WITH, None, vocab.CATALOG))
    assert who.object == NamedNode("urn:trails:agent:unknown")


def test_redacting_twice_changes_nothing_more(store: Repository) -> None:
    family(store)
    store.redact("fork", 1)
    quads, lines = set(store.store.quads((None, None, None, None))), store.store.log.lines()
    again = store.redact("flat", 1, by="mallory")
    assert again.turns == ()
    assert set(store.store.quads((None, None, None, None))) == quads
    assert store.store.log.lines() == lines


def test_an_inherited_turn_is_redacted_where_it_is_owned(store: Repository) -> None:
    family(store)
    assert store.redact("early", 0).turns == (("flat", 0), ("root", 0))
    assert store.load("root").turns[0].redacted
    assert not store.load("early").turns[1].redacted


@pytest.mark.parametrize("index", [4, 10_000])
def test_a_turn_that_is_not_there_cannot_be_redacted(store: Repository, index: int) -> None:
    family(store)
    with pytest.raises(InvalidInput, match=f"session 'root' has no turn {index}"):
        store.redact("root", index)
    with pytest.raises(InvalidInput, match="must be 0 or more"):
        store.redact("root", -1)
    with pytest.raises(SessionNotFound):
        store.redact("nobody", 0)


def test_sessions_go_on_after_a_redaction_and_copies_made_later_are_redacted_too(store: Repository) -> None:
    family(store)
    store.redact("root", 1)
    later = store.load("fork")
    later.append("user", "And now?")
    later.persist()
    store.detach("fork")
    flat = store.flatten("fork", id="flat-2")
    assert [turn.redacted for turn in store.load("fork").turns] == [False, True, False, False, False, False]
    assert [turn.redacted for turn in flat.turns] == [False, True, False, False, False, False]
    assert store.verify().findings == ()


@given(st.lists(st.text(min_size=1).filter(lambda t: t.isprintable()), min_size=1, max_size=5), st.data())
def test_any_turn_of_any_text_can_be_redacted_and_nothing_else_changes(
    contents: list[str], data: st.DataObject
) -> None:
    with trails.open(":memory:") as store:
        session = store.create(id="s")
        for text in contents:
            session.append("user", text)
        session.persist()
        index = data.draw(st.integers(0, len(contents) - 1))
        store.redact("s", index)
        assert [turn.content for turn in store.load("s").turns] == [
            "" if number == index else text for number, text in enumerate(contents)
        ]
        assert store.verify().ok


# --- where else the text may be


def test_summaries_after_the_turn_and_turns_that_quote_it_are_named(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", TOLD)
    session.append("user", "Something else entirely")
    for through in (0, None):
        made = turn_builder.make_draft(
            "summary", f"up to {through}", compaction=Compaction(summarised_through=through, trigger="manual")
        )
        session.worktree.append(made)
    session.append("user", f"I said: {TOLD}!")
    session.append("assistant", [{"type": "tool_use", "id": "c", "name": "save", "input": {"text": TOLD}}])
    session.persist()
    fork = session.fork(at=1, id="before-the-summaries")
    fork.worktree.append(turn_builder.make_draft("summary", "of the fork", compaction=Compaction(summarised_through=0)))
    fork.persist()
    stranger = store.create(id="stranger")
    stranger.worktree.append(
        turn_builder.make_draft("summary", "of something else", compaction=Compaction(summarised_through=0))
    )
    stranger.append("user", json.dumps(TOLD))
    stranger.persist()
    report = store.redact("s", 0)
    assert report.summaries == (("before-the-summaries", 1), ("s", 2), ("s", 3))
    assert report.quotes == (("s", 4), ("s", 5), ("stranger", 1))
    assert store.redact("s", 1).summaries == (("s", 3),)  # the first one ends before it


def test_a_quote_in_structured_parts_is_found_whatever_json_makes_of_it(store: Repository) -> None:
    text = 'He said "no"\nand left'
    session = store.create(id="s")
    session.append("user", [{"type": "text", "text": text}])
    session.append(
        "user", [{"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": f"> {text}"}]}]
    )
    session.append("user", f"quote: {text}")
    session.append("user", "He left")
    session.persist()
    assert store.redact("s", 0).quotes == (("s", 1), ("s", 2))


def test_too_short_a_text_is_not_looked_for(store: Repository) -> None:
    session = store.create(id="s")
    session.append("user", "ok")
    session.append("user", "ok then")
    session.persist()
    assert store.redact("s", 0).quotes == ()


def test_the_report_is_plain_json(store: Repository) -> None:
    family(store)
    report = store.redact("root", 1)
    assert isinstance(report, Redaction)
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["turns"] == [["flat", 1], ["root", 1]]
    assert plain["quotes"] == [["fork", 4]]


# --- what verify makes of it


@pytest.mark.slow
def test_no_quad_of_a_redaction_can_be_altered_removed_or_added_unnoticed(memory: Repository) -> None:
    family(memory)
    memory.redact("root", 1, reason="why not")
    memory.redact("root", 0)
    memory.load("early").detach()
    chance = random.Random(20261121)
    nodes = [quad for quad in memory.store.quads((None, None, None, vocab.CATALOG)) if "/deletion" in str(quad.subject)]
    turns = [
        q for q in memory.store.quads((None, None, None, NamedNode(iris.session("root")))) if "/1-" in str(q.subject)
    ]
    assert (len(nodes), len(turns)) == (2 * 7 + 2 * 6, 12 + 5 + 5)
    for quad in nodes + turns:
        if isinstance(quad.object, Literal):
            value: Literal | NamedNode = Literal(quad.object.value + chance.choice("19"), datatype=quad.object.datatype)
        else:
            value = NamedNode(quad.object.value + "x")  # type: ignore[union-attr] # an IRI
        other = Quad(quad.subject, quad.predicate, value, quad.graph_name)
        for change in (Change(remove=[quad]), Change(add=[other], remove=[quad]), Change(add=[other])):
            memory.store.commit(change)
            assert not memory.verify().ok, f"unnoticed: {change}"
            memory.store.commit(Change(add=change.remove, remove=change.add))
    assert memory.verify().ok


def test_a_turn_emptied_behind_the_store_s_back_is_found_though_its_chain_verifies(store: Repository) -> None:
    family(store)
    from trails.history.removal import redaction

    turn = NamedNode(store.load("root").turns[0].iri)
    remove, add = redaction.redacted_quads(store.store.quads((turn, None, None, NamedNode(iris.session("root")))))
    store.store.commit(Change(add=add, remove=remove))
    assert {(f.code, f.session_id, f.index) for f in store.verify().findings} == {("unlogged", "root", 0)}
    assert not store.verify("fork").ok


def test_a_deletion_that_was_never_logged_is_found(store: Repository) -> None:
    family(store)
    turn = store.load("root").turns[0]
    node = NamedNode(f"{turn.iri}/deletion")
    rows: list[tuple[NamedNode, NamedNode | Literal]] = [
        (vocab.TYPE, vocab.DELETION),
        (vocab.DELETED_TURN, NamedNode(turn.iri)),
        (vocab.DIGEST, Literal(turn.digest)),
    ]
    store.store.commit(Change(add=[Quad(node, p, o, vocab.CATALOG) for p, o in rows]))
    assert {(f.code, f.session_id, f.index) for f in store.verify().findings} == {("unlogged", "root", 0)}


def test_a_redacted_session_can_be_deleted_and_what_says_who_redacted_stays(store: Repository) -> None:
    family(store)
    store.redact("root", 1)
    store.delete("root", children="cascade")
    assert store.verify().findings == ()
    assert len(store.store.quads((None, vocab.DELETED_TURN, None, vocab.CATALOG))) == 2


# --- what comes in again


@pytest.fixture
def other() -> Iterator[Repository]:
    with trails.open(":memory:") as opened:
        yield opened


def exported(store: Repository, session_id: str, form: str = "nquads") -> bytes:
    out = io.BytesIO()
    export_session(store, session_id, form, out)
    return out.getvalue()


@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_a_redacted_session_can_be_exported_and_imported_elsewhere_with_who_did_it(
    store: Repository, other: Repository, form: str
) -> None:
    family(store)
    store.redact("root", 1, by="bob")
    data = exported(store, "fork", form)
    import_rdf(other, data, form)
    assert other.verify().findings == ()
    assert other.load("fork").turns[1].redacted
    assert other.load("fork").head == store.load("fork").head
    assert exported(other, "fork", form) == data
    assert len(other.store.quads((None, vocab.DELETED_TURN, None, vocab.CATALOG))) == 1
    assert import_rdf(other, data, form).unchanged == ["root", "fork"]


def test_a_copy_made_after_the_redaction_takes_the_original_s_record_along(
    store: Repository, other: Repository
) -> None:
    family(store)
    store.redact("root", 1)
    store.detach("fork")
    data = exported(store, "fork")
    import_rdf(other, data, "nquads")
    assert other.verify().findings == ()
    assert exported(other, "fork") == data


def test_an_export_that_lacks_the_record_of_its_redaction_is_refused(store: Repository, other: Repository) -> None:
    family(store)
    store.redact("root", 1, by="alice")
    lines = exported(store, "root").splitlines(keepends=True)
    with pytest.raises(InvalidInput, match="lost its content"):
        import_rdf(other, b"".join(line for line in lines if b"/deletion>" not in line), "nquads")


def test_an_export_from_before_does_not_bring_the_text_back(store: Repository) -> None:
    family(store)
    files = {name: exported(store, name) for name in ("root", "flat", "fork")}
    store.redact("root", 1)
    assert import_rdf(store, files["root"], "nquads").unchanged == ["root"]
    store.delete("root", children="cascade")
    store.delete("flat")
    for name in ("fork", "flat"):
        import_rdf(store, files[name], "nquads", restore=True)
    assert [store.load(name).turns[1].redacted for name in ("root", "fork", "flat")] == [True, True, True]
    assert "launch" not in texts(store).replace(f"You are welcome; {TOLD}", "")
    assert store.verify().findings == ()


def test_a_transcript_that_is_imported_again_does_not_bring_the_text_back(store: Repository, tmp_path: Path) -> None:
    sample = next((Path(trails.__file__).parent / "_samples").rglob("*.jsonl"))
    first = import_path(store, sample)
    [session_id] = first.sessions_created[:1]
    index = next(t.index for t in store.load(session_id).turns if t.role == "user")
    store.redact(session_id, index)
    turns = len(store.load(session_id))
    again = import_path(store, sample)
    assert (again.turns_added, again.changed, again.forks_created) == (0, [], [])
    loaded = store.load(session_id)
    assert (loaded.turns[index].redacted, len(loaded)) == (True, turns)
    assert store.verify().findings == ()


@pytest.mark.parametrize("form", ["pi"])
def test_a_redacted_session_can_be_exported_for_other_programs(store: Repository, form: str) -> None:
    family(store)
    store.redact("root", 1)
    data = exported(store, "root", form)
    assert b"swordfish" not in data
    assert b"Thanks" in data


def test_a_copy_that_was_read_before_a_redaction_is_not_written_after_it(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    family(memory)
    read = memory.reader.sealed

    def redact_meanwhile(turns: object) -> object:
        sealed = read(turns)  # type: ignore[arg-type] # as it is called
        memory.redact("root", 1)
        return sealed

    monkeypatch.setattr(memory.reader, "sealed", redact_meanwhile)
    with pytest.raises(InvalidInput, match="redacted or deleted meanwhile; try again"):
        memory.detach("fork")
    monkeypatch.undo()
    memory.detach("fork")
    assert memory.load("fork").turns[1].redacted
    assert memory.verify().ok


# --- pruning

DAY = timedelta(days=1)


def at(age: float) -> datetime:
    return datetime.now(UTC) - age * DAY


def forest(store: Repository) -> None:
    """Ages in days: old (90) <- child (80) <- young (1); lone (70); parent (60) <- leaf (50); new (2)."""

    def fill(name: str, age: float, parent: str | None = None, text: str = "x" * 100) -> None:
        made = store.load(parent).fork(id=name, created=at(age)) if parent else store.create(id=name, created=at(age))
        made.append("user", text, time=at(age))
        made.persist()

    fill("old", 90)
    fill("child", 80, "old")
    fill("young", 1, "child")
    fill("lone", 70)
    fill("parent", 60)
    fill("leaf", 50, "parent", "é" * 100)
    fill("new", 2)


def ids(store: Repository) -> set[str]:
    return {record.id for record in store.list()}


def test_pruning_by_age_takes_dead_trees_whole_and_leaves_what_is_needed(store: Repository) -> None:
    forest(store)
    report = store.prune(older_than=30 * DAY)
    assert report.sessions == ("lone", "leaf", "parent")
    assert report.needed == ("child", "old")
    assert report.text_bytes == 100 + 200 + 100
    assert ids(store) == {"old", "child", "young", "new"}
    assert store.verify().findings == ()
    assert store.info()["deleted"] == 3
    with pytest.raises(SessionNotFound, match="was deleted"):
        store.load("lone")


def test_pruning_by_count_takes_the_oldest_first(store: Repository) -> None:
    forest(store)
    assert store.prune(keep_count=4).sessions == ("lone", "leaf", "parent")
    assert store.prune(keep_count=4).sessions == ()
    assert store.prune(keep_count=0).sessions == ("new", "young", "child", "old")


def test_pruning_by_size_counts_utf_8_bytes_of_text(store: Repository) -> None:
    forest(store)
    assert store.prune(keep_bytes=800, dry_run=True).sessions == ()
    assert store.prune(keep_bytes=799, dry_run=True).sessions == ("lone",)
    assert store.prune(keep_bytes=600, dry_run=True).sessions == ("lone", "leaf")
    assert store.prune(keep_bytes=500).sessions == ("lone", "leaf")


def test_a_dry_run_says_the_same_and_deletes_nothing(store: Repository) -> None:
    forest(store)
    quads = set(store.store.quads((None, None, None, None)))
    planned = store.prune(older_than=30 * DAY, keep_count=3, dry_run=True)
    assert set(store.store.quads((None, None, None, None))) == quads
    done = store.prune(older_than=30 * DAY, keep_count=3)
    assert (planned.sessions, planned.text_bytes) == (done.sessions, done.text_bytes)
    assert planned.sessions == ("lone", "leaf", "parent", "new")
    assert (planned.dry_run, done.dry_run) == (True, False)


def test_a_session_that_grew_lately_is_not_old_and_one_without_any_time_stays(store: Repository) -> None:
    session = store.create(id="grown", created=at(90))
    session.append("user", "then", time=at(90))
    session.append("user", "now", time=at(1))
    session.persist()
    store.create(id="empty", created=at(90)).persist()
    timeless = store.create(id="timeless")
    timeless.worktree.append(turn_builder.make_draft("user", "when?", timed=False))
    timeless.persist()
    row = NamedNode(iris.session("timeless"))
    store.store.commit(Change(remove=store.store.quads((row, vocab.TIME, None, vocab.CATALOG))))
    assert store.prune(older_than=30 * DAY, keep_count=0, dry_run=True).sessions == ("empty", "grown")
    assert store.prune(older_than=30 * DAY, dry_run=True).sessions == ("empty",)


def test_a_spawner_stays_while_what_it_spawned_stays(store: Repository) -> None:
    store.create(id="spawner", created=at(90)).persist()
    store.create(id="spawned", created=at(1), spawned_by="spawner").persist()
    assert store.prune(older_than=30 * DAY).needed == ("spawner",)
    assert ids(store) == {"spawner", "spawned"}


def test_pruning_is_off_until_a_limit_is_given(store: Repository) -> None:
    forest(store)
    with pytest.raises(InvalidInput, match="needs to know what may go"):
        store.prune()
    for wrong in ({"keep_count": -1}, {"keep_bytes": -1}, {"older_than": -DAY}):
        with pytest.raises(InvalidInput):
            store.prune(**wrong)
    assert len(ids(store)) == 7


def test_who_prunes_is_noted_at_the_tombstones(store: Repository) -> None:
    forest(store)
    store.prune(keep_count=6, by="janitor")
    rows = store.query("deletions").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert [(row["session"], row["by"]) for row in rows] == [
        ("urn:trails:session:lone", "urn:trails:principal:janitor")
    ]


def test_what_gets_a_fork_at_the_last_moment_is_spared(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    forest(memory)
    from trails.history.removal import deletion

    delete: Callable[..., list[str]] = deletion.delete_session

    def fork_first(*arguments: object, **named: object) -> list[str]:
        if arguments[2] == "lone":
            memory.load("lone").fork(id="last-moment").persist()
        return delete(*arguments, **named)

    monkeypatch.setattr(deletion, "delete_session", fork_first)
    assert memory.prune(keep_count=6).sessions == ()
    assert {"lone", "last-moment"} <= ids(memory)
    monkeypatch.undo()
    with pytest.raises(HasChildren):
        memory.delete("lone")


@st.composite
def forests(draw: st.DrawFn) -> list[Candidate]:
    made: list[Candidate] = []
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(draw(st.integers(1, 12))):
        needs = draw(st.frozensets(st.sampled_from([each.id for each in made]), max_size=2)) if made else frozenset()
        last = draw(st.none() | st.integers(0, 30).map(lambda day: start + day * DAY))
        made.append(Candidate(f"s{number}", last, needs))
    return made


@given(forests(), st.none() | st.integers(0, 30), st.none() | st.integers(0, 12))
def test_a_plan_never_takes_what_others_need_and_never_stops_early(
    found: list[Candidate], day: int | None, keep: int | None
) -> None:
    before = None if day is None else datetime(2026, 1, 1, tzinfo=UTC) + day * DAY
    doomed = plan_pruning(found, before=before, keep_count=keep)
    by_id = {each.id: each for each in found}
    alive = set(by_id)
    for gone in doomed:
        alive.remove(gone)
        assert not [each for each in alive if gone in by_id[each].needs]
        assert by_id[gone].last is not None
    free = [by_id[each] for each in alive if not any(each in by_id[other].needs for other in alive)]
    left = [each.last for each in free if each.last is not None]
    assert before is None or all(last >= before for last in left)
    assert keep is None or len(alive) <= keep or not left


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM trails_graphs", "touches the graph"),
        ("DELETE FROM trails_graphs WHERE number = 2", "record 2 touches the graph"),
        ("UPDATE trails_records SET lines = lines + 1 WHERE number = 2", "record 2"),
    ],
)
def test_verify_finds_an_index_of_the_log_that_an_erasure_would_be_misled_by(
    tmp_path: Path, statement: str, said: str
) -> None:
    folder = tmp_path / "a.trails"
    with trails.open(folder, create=True) as store, store.create(id="plan") as s:
        s.append("user", "Plan a trip")
        s.persist()
        s.append("user", 'My <key> is "swordfish" .')
    with trails.open(folder) as store:
        assert store.verify().findings == ()
    with closing(sqlite3.connect(folder / "trails.db")) as file:
        file.execute(statement)
        file.commit()
    with trails.open(folder) as store:
        (finding,) = store.verify().findings
        assert finding.code == "bad-log"
        assert said in finding.message
        if "trails_graphs" in statement:
            store.maintenance.vacuum()
            assert store.verify().findings == ()
            store.redact_matching("swordfish")
            assert b"swordfish" not in b"".join(row.add + row.remove for row in records_of(folder))


def records_of(folder: Path) -> list[CommitRecord]:
    with closing(sqlite3.connect(folder / "trails.db")) as file:
        rows = file.execute(
            "SELECT number, commit_id, flags, leaves, body, body_digest, digest, rewritten FROM trails_records"
        )
        return [Row(*row).unpack().record for row in rows]
