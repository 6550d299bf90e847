"""Notes stand beside the chain: many on a turn, seen wherever the turn is, gone with its last copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import invoke, ok
from tests.support.killed import left_by_a_kill
from trails import InvalidInput, Repository, SessionNotFound
from trails.model import iris
from trails.rdf import vocab
from trails.store.contract import Change

pytestmark = pytest.mark.any_store

TOLD = "the launch code is swordfish"


def fill(store: Repository) -> None:
    """A root of three turns and its fork at 2 with one turn more."""
    plan = store.create(id="plan", principal="alice", agent="planner", label="trip")
    plan.append("user", "What is the code?")
    plan.append("assistant", TOLD)
    plan.append("user", "Thanks")
    plan.persist()
    fork = plan.fork(at=2, id="fork", principal="bob")
    fork.append("user", "And now?")
    fork.persist()


def seen(store: Repository, session: str, index: int | None = None) -> list[tuple[int, str]]:
    return [(note.index, note.text) for note in store.notes.list(session, index)]


def everything(store: Repository) -> str:
    return "\n".join(str(quad) for quad in store.store.quads((None, None, None, None)))


# --- writing and reading


def test_a_turn_has_as_many_notes_as_people_write(store: Repository) -> None:
    fill(store)
    head = store.load("plan").head
    first = store.notes.add("plan", 1, "Is that true?", by="carol")
    second = store.notes.add("plan", 1, "Yes.\nI asked.", by="agent:checker")
    store.notes.add("plan", 0, "Why ask?")
    assert seen(store, "plan") == [(0, "Why ask?"), (1, "Is that true?"), (1, "Yes.\nI asked.")]
    assert seen(store, "plan", 1) == [(1, "Is that true?"), (1, "Yes.\nI asked.")]
    assert seen(store, "plan", 2) == []
    assert (first.author, first.author_iri) == ("carol", "urn:trails:principal:carol")
    assert second.author_iri == "urn:trails:agent:checker"
    assert store.notes.get(first.id) == first
    assert store.load("plan").head == head
    assert store.verify().findings == ()


def test_a_note_is_seen_from_every_session_that_has_the_turn_and_from_no_other(store: Repository) -> None:
    fill(store)
    store.notes.add("fork", 1, "through the fork")  # the turn is inherited: the note is on the root's
    store.notes.add("plan", 2, "after the fork")
    store.notes.add("fork", 2, "of the fork alone")
    flat = store.load("fork").flatten(id="flat")
    assert flat.id == "flat"
    assert seen(store, "plan") == [(1, "through the fork"), (2, "after the fork")]
    assert seen(store, "fork") == [(1, "through the fork"), (2, "of the fork alone")]
    assert seen(store, "flat") == [(1, "through the fork"), (2, "of the fork alone")]
    assert store.notes.list("plan", 1)[0].session_id == "plan"


def test_what_is_not_there_gets_no_note(store: Repository) -> None:
    fill(store)
    plan = store.load("plan")
    plan.append("user", "pending")
    with pytest.raises(InvalidInput, match="session 'plan' has no turn 3 that is stored"):
        store.notes.add("plan", 3, "too early")
    plan.discard_pending()
    for index, text in ((-1, "x"), (0, " \n")):
        with pytest.raises(InvalidInput):
            store.notes.add("plan", index, text)
    with pytest.raises(SessionNotFound):
        store.notes.add("nobody", 0, "x")
    with pytest.raises(SessionNotFound):
        store.notes.list("nobody")
    with pytest.raises(InvalidInput, match="no turn 3"):
        store.notes.list("plan", 3)
    assert seen(store, "plan") == []


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: bool(text.strip())))
def test_any_text_comes_back_as_it_was_written(text: str) -> None:
    with trails.open(":memory:") as store:
        fill(store)
        store.notes.add("plan", 0, text)
        assert seen(store, "plan") == [(0, text)]
        assert store.verify().ok


# --- removing


def test_a_removed_note_leaves_who_and_when_and_nothing_to_guess_its_text_by(store: Repository) -> None:
    fill(store)
    note = store.notes.add("plan", 1, TOLD)
    assert store.notes.remove(note.id, by="bob") == note
    assert seen(store, "plan") == []
    left = everything(store)
    assert note.salt not in left
    assert note.digest not in left
    [record] = store.store.quads((None, vocab.REMOVED_NOTE, Literal(note.id), vocab.CATALOG))
    said = {q.predicate: q.object for q in store.store.quads((record.subject, None, None, vocab.CATALOG))}  # type: ignore[arg-type] # an IRI
    assert said[vocab.ASSOCIATED_WITH] == NamedNode("urn:trails:principal:bob")
    assert (said[vocab.NOTE_INDEX], said[vocab.NAMED_DIGEST]) == (Literal(1), Literal(note.turn_digest))
    assert store.verify().findings == ()
    with pytest.raises(InvalidInput, match="there is no note"):
        store.notes.remove(note.id)


def test_the_log_holds_no_digest_of_a_note_s_text_alone(store: Repository) -> None:
    """The same note, written and removed in two stores, leaves lines that differ: the salted digest is in them."""
    fill(store)
    store.notes.add("plan", 0, "short")
    before = store.store.log.lines()[-1]
    store.notes.add("plan", 0, "short")
    assert before.split()[3] != store.store.log.lines()[-1].split()[3]


# --- with redaction and deletion


def test_a_redaction_names_the_notes_on_the_turn_and_those_that_repeat_its_text(store: Repository) -> None:
    fill(store)
    on_it = store.notes.add("fork", 1, "Keep this secret")
    elsewhere = store.notes.add("plan", 2, f"They said: {TOLD}!")
    store.notes.add("plan", 0, "harmless")
    report = store.redact("plan", 1)
    assert report.notes == tuple(sorted((on_it.id, elsewhere.id)))
    assert store.redact("plan", 1).notes == (on_it.id,)  # the text is gone, and so cannot be looked for
    assert seen(store, "fork", 1) == [(1, "Keep this secret")]
    assert store.verify().findings == ()


def test_notes_go_with_the_session_that_has_the_last_copy_of_their_turn(store: Repository) -> None:
    fill(store)
    store.notes.add("plan", 1, "shared")
    store.notes.add("plan", 2, "the root's alone")
    store.delete("plan", children="detach")
    assert seen(store, "fork") == [(1, "shared")]
    assert store.notes.list("fork")[0].session_id == "fork"
    assert "the root's alone" not in everything(store)
    assert store.verify().findings == ()
    store.delete("fork")
    assert "shared" not in everything(store)
    assert store.store.quads((None, vocab.TYPE, vocab.NOTE, None)) == []
    assert store.verify().findings == ()


def test_cascading_takes_the_notes_of_all(store: Repository) -> None:
    fill(store)
    store.notes.remove(store.notes.add("plan", 0, "gone before").id)
    store.notes.add("plan", 1, "one")
    store.notes.add("fork", 2, "two")
    store.delete("plan", children="cascade")
    for predicate in (vocab.NOTE_ON, vocab.REMOVED_FROM, vocab.NAMED_DIGEST):
        assert store.store.quads((None, predicate, None, None)) == []
    assert store.verify().findings == ()


# --- verify


@pytest.mark.parametrize(
    ("predicate", "instead", "codes"),
    [
        (vocab.VALUE, Literal("Is that false?"), {"bad-note"}),
        (vocab.NOTE_INDEX, Literal(0), {"bad-note", "row-altered"}),
        (vocab.NAMED_DIGEST, Literal("0" * 64), {"bad-note", "row-altered"}),
        (vocab.ATTRIBUTED_TO, NamedNode("urn:trails:principal:mallory"), {"missing", "row-altered"}),
        (vocab.SALT, None, {"bad-row", "row-altered"}),
    ],
)
def test_a_note_that_was_altered_is_found(
    store: Repository, predicate: NamedNode, instead: Literal | NamedNode | None, codes: set[str]
) -> None:
    fill(store)
    note = store.notes.add("plan", 1, "Is that true?")
    node = NamedNode(iris.note(note.id))
    [old] = store.store.quads((node, predicate, None, vocab.CATALOG))
    new = [] if instead is None else [Quad(node, predicate, instead, vocab.CATALOG)]
    store.store.commit(Change(add=new, remove=[old]))
    assert {finding.code for finding in store.verify().findings} == codes


def test_a_record_of_a_removal_that_was_altered_is_found(store: Repository) -> None:
    fill(store)
    store.notes.remove(store.notes.add("plan", 1, "Is that true?").id, by="bob")
    [old] = store.store.quads((None, vocab.ASSOCIATED_WITH, NamedNode("urn:trails:principal:bob"), vocab.CATALOG))
    new = Quad(old.subject, old.predicate, NamedNode("urn:trails:principal:alice"), vocab.CATALOG)
    store.store.commit(Change(add=[new], remove=[old]))
    assert [(finding.code, finding.session_id) for finding in store.verify().findings] == [("row-altered", "plan")]


def test_notes_are_there_after_a_kill(tmp_path: Path) -> None:
    place, crashed = tmp_path / "store", tmp_path / "crashed"
    with trails.open(place, create=True, durability="process") as store:
        fill(store)
        store.notes.add("plan", 1, "Is that true?")
        left_by_a_kill(place, crashed)  # as a process leaves it that is killed now
    with trails.open(crashed) as store:
        assert seen(store, "fork") == [(1, "Is that true?")]
        assert store.verify().findings == ()


# --- the command line


def test_the_commands_write_list_and_remove_notes(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    with trails.open(place, create=True, durability="process") as store:
        fill(store)

    def run(*arguments: str, stdin: str | None = None) -> str:
        return ok(invoke(*arguments, "--store", place, stdin=stdin))

    first = run("note", "trip", "1", "Is that true?", "--by", "carol").strip()
    made = json.loads(run("note", "fork", "2", "--json", stdin="two\nlines\n"))["note"]
    assert (made["text"], made["index"], made["by"]) == ("two\nlines\n", 2, "unknown")
    listed = json.loads(run("notes", "fork", "--json"))
    assert [(note["index"], note["text"]) for note in listed["notes"]] == [(1, "Is that true?"), (2, "two\nlines\n")]
    assert "carol" in run("notes", "plan", "1")
    assert run("note", "--remove", first) == f"{first}\n"
    assert json.loads(run("notes", "plan", "--json")) == {"session": "plan", "notes": [], "more": 0}
    for wrong in (["note"], ["note", "plan"], ["note", "plan", "0", "x", "--remove", first], ["notes", "plan", "9"]):
        assert invoke(*wrong, "--store", place).exit_code == 2
    with trails.open(place) as store:
        [note] = store.notes.list("fork")
    result = invoke("redact", "fork", "2", "--yes", "--store", place)
    assert f"trails note --remove {note.id}" in result.stderr


@pytest.mark.parametrize("index", [2**62, 2**63 - 1, 2**63, 10**30])
def test_an_index_that_no_column_can_hold_is_refused_as_any_other_that_is_not_there(
    store: Repository, index: int
) -> None:
    fill(store)
    for call in (
        lambda: store.notes.add("plan", index, "why?"),
        lambda: store.notes.list("plan", index),
        lambda: store.score(("plan", index), "tone", 1),
        lambda: store.redact("plan", index),
    ):
        with pytest.raises(InvalidInput, match=f"no turn {index}"):
            call()
