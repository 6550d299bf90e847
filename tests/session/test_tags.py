"""Tags name a session at an index, never come to name anything else, and keep what they name."""

from __future__ import annotations

import io
import json
import threading
from functools import partial
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import invoke, ok
from trails import HasChildren, InvalidInput, Repository, SessionNotFound
from trails.exchange.file_import import export_session
from trails.exchange.rdf_files import import_rdf
from trails.history.lookup import names
from trails.integrity.digests import GENESIS
from trails.model import iris
from trails.rdf import vocab
from trails.session import store_restore
from trails.store.contract import Change

pytestmark = pytest.mark.any_store


def fill(store: Repository) -> None:
    """A root of three turns labelled `trip`, and its fork at 2 with one turn more."""
    plan = store.create(id="plan", principal="alice", agent="planner", label="trip")
    for text in ("Plan a trip", "Where to?", "The Alps"):
        plan.append("user", text)
    plan.persist()
    fork = plan.fork(at=2, id="fork", principal="bob")
    fork.append("user", "The sea")
    fork.persist()


def of_tag(store: Repository, name: str) -> set[Quad]:
    return set(store.store.quads((NamedNode(iris.tag(name)), None, None, vocab.CATALOG)))


# --- making


def test_a_tag_names_the_first_turns_with_the_digest_of_the_last_of_them(store: Repository) -> None:
    fill(store)
    made = store.tags.add("v1", "plan@2", by="carol")
    turns = store.load("plan").turns
    assert (made.session_id, made.length, made.digest, made.author) == ("plan", 2, turns[1].digest, "carol")
    assert store.tags.get("v1") == made
    assert store.verify().findings == ()


def test_without_an_index_a_tag_names_all_that_is_stored_and_stays_there(store: Repository) -> None:
    fill(store)
    made = store.tags.add("v1", "trip")
    plan = store.load("plan")
    plan.append("user", "In May")
    plan.persist()
    assert (made.session_id, made.length, made.author) == ("plan", 3, "unknown")
    assert store.tags.get("v1").length == 3
    assert store.verify().ok


def test_a_tag_may_stand_for_no_turns_and_for_what_a_fork_inherits(store: Repository) -> None:
    fill(store)
    assert store.tags.add("start", "plan@0").digest == GENESIS
    assert store.tags.add("shared", "fork@2").digest == store.load("plan").turns[1].digest
    assert store.tags.add("again", "shared@1").session_id == "fork"
    assert store.verify().ok


def test_making_the_same_tag_again_changes_nothing(store: Repository) -> None:
    fill(store)
    made = store.tags.add("v1", "plan@2")
    quads, lines = set(store.store.quads((None, None, None, None))), store.store.log.lines()
    assert store.tags.add("v1", "trip@2", by="mallory") == made
    assert set(store.store.quads((None, None, None, None))) == quads
    assert store.store.log.lines() == lines


@pytest.mark.parametrize("ref", ["plan@3", "plan", "fork@2"])
def test_a_tag_never_comes_to_name_anything_else(store: Repository, ref: str) -> None:
    fill(store)
    made = store.tags.add("v1", "plan@2")
    with pytest.raises(InvalidInput, match="'v1' names 'plan' at 2 and never anything else"):
        store.tags.add("v1", ref)
    assert store.tags.get("v1") == made


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "two words", "v@1", "-v", "urn:trails:x", "a\nb", " v", "a\u00a0b", "a\u3000b"]
)
def test_a_name_that_could_be_taken_for_something_else_is_refused(store: Repository, name: str) -> None:
    fill(store)
    with pytest.raises(InvalidInput, match="tag's name"):
        store.tags.add(name, "plan")
    assert store.tags.list() == []


@pytest.mark.parametrize("name", ["x" * 64, "v1.0", "release/2", "日本", "a:b"])
def test_other_names_come_back_as_they_are(store: Repository, name: str) -> None:
    fill(store)
    store.tags.add(name, "plan")
    assert [tag.name for tag in store.tags.list()] == [name]
    assert store.verify().ok


@pytest.mark.parametrize(("name", "what"), [("plan", "the id of a session"), ("trip", "the label of session 'plan'")])
def test_a_name_of_a_session_is_no_name_for_a_tag(store: Repository, name: str, what: str) -> None:
    fill(store)
    with pytest.raises(InvalidInput, match=what):
        store.tags.add(name, "fork")


def test_what_is_not_there_cannot_be_tagged(store: Repository) -> None:
    fill(store)
    with pytest.raises(InvalidInput, match="has 3 turns, so there is no plan@4"):
        store.tags.add("v1", "plan@4")
    with pytest.raises(SessionNotFound):
        store.tags.add("v1", "nobody")
    with pytest.raises(InvalidInput, match="there is no tag 'v1'"):
        store.tags.get("v1")
    assert store.tags.list() == []


def test_tags_are_listed_by_name_of_all_sessions_or_of_one(store: Repository) -> None:
    fill(store)
    for name, ref in (("b", "plan"), ("a", "fork"), ("c", "plan@1")):
        store.tags.add(name, ref)
    assert [tag.name for tag in store.tags.list()] == ["a", "b", "c"]
    assert [tag.name for tag in store.tags.list("plan")] == ["b", "c"]


def test_of_two_writers_that_race_for_a_name_one_gets_it(store: Repository) -> None:
    fill(store)
    failures: list[InvalidInput] = []
    ready = threading.Barrier(2)

    def make(length: int) -> None:
        ready.wait()
        try:
            store.tags.add("v1", f"plan@{length}")
        except InvalidInput as error:
            failures.append(error)

    threads = [threading.Thread(target=make, args=(length,)) for length in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 1
    assert len(store.tags.list()) == 1
    assert store.verify().ok


# --- removing


def test_a_tag_that_is_removed_leaves_a_record_and_its_name_is_free(store: Repository) -> None:
    fill(store)
    gone = store.tags.add("v1", "plan@2")
    assert store.tags.remove("v1", by="bob") == gone
    assert store.tags.find("v1") is None
    [record] = store.store.quads((None, vocab.REMOVED_TAG, Literal("v1"), vocab.CATALOG))
    said = {q.predicate: q.object for q in store.store.quads((record.subject, None, None, vocab.CATALOG))}  # type: ignore[arg-type] # an IRI
    assert said[vocab.REMOVED_FROM] == NamedNode(iris.session("plan"))
    assert (said[vocab.TAG_LENGTH], said[vocab.NAMED_DIGEST]) == (Literal(2), Literal(gone.digest))
    assert said[vocab.ASSOCIATED_WITH] == NamedNode(iris.principal("bob"))
    assert store.tags.add("v1", "plan@3").length == 3
    assert store.verify().findings == ()
    with pytest.raises(InvalidInput, match="there is no tag 'other'"):
        store.tags.remove("other")


# --- what keeps what


def test_a_session_that_a_tag_names_is_not_deleted_and_nothing_is_half_done(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@1")
    for children in ("refuse", "detach"):
        store.delete("fork") if children == "refuse" else None
        with pytest.raises(HasChildren, match=r"kept by the tags that name it \('v1'\)"):
            store.delete("plan", children=children)
    assert store.tags.get("v1").session_id == "plan"
    store.tags.remove("v1")
    assert store.delete("plan") == ["plan"]
    assert store.verify().ok


def test_deleting_with_detach_is_refused_before_any_fork_is_detached(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@1")
    with pytest.raises(HasChildren):
        store.delete("plan", children="detach")
    assert store.record("fork").parent_session_id == "plan"


def test_cascade_takes_the_tags_of_all_that_it_deletes(store: Repository) -> None:
    fill(store)
    for name, ref in (("v1", "plan@1"), ("v2", "fork"), ("v3", "fork@1")):
        store.tags.add(name, ref)
    store.tags.remove("v3")
    store.create(id="other").persist()
    store.tags.add("stays", "other")
    assert sorted(store.delete("plan", children="cascade")) == ["fork", "plan"]
    assert [tag.name for tag in store.tags.list()] == ["stays"]
    assert store.store.quads((None, vocab.REMOVED_TAG, None, None)) == []
    assert store.verify().findings == ()


def test_pruning_leaves_what_a_tag_names_and_what_that_needs(store: Repository) -> None:
    fill(store)
    store.create(id="other").persist()
    store.tags.add("v1", "fork@1")
    assert store.prune(keep_count=0).sessions == ("other",)
    store.tags.remove("v1")
    assert store.prune(keep_count=0).sessions == ("fork", "plan")


def test_a_tag_outlives_detach_and_flatten(store: Repository) -> None:
    fill(store)
    tag = store.tags.add("v1", "fork@2")
    store.detach("fork")
    flat = store.flatten("fork", id="flat")
    assert store.load("fork").turns[tag.length - 1].digest == tag.digest == flat.turns[1].digest
    assert store.tags.get("v1") == tag
    assert store.verify().findings == ()


# --- verify


@pytest.mark.parametrize(
    ("predicate", "instead"),
    [
        (vocab.TAG_LENGTH, Literal(1)),
        (vocab.NAMED_DIGEST, Literal("0" * 64)),
        (vocab.TAG_OF, NamedNode(iris.session("nobody"))),
        (vocab.TAG_NAME, Literal("v2")),
        (vocab.TAG_LENGTH, None),
    ],
)
def test_a_tag_that_was_altered_is_found(
    store: Repository, predicate: NamedNode, instead: Literal | NamedNode | None
) -> None:
    fill(store)
    store.tags.add("v1", "plan@2")
    [old] = (quad for quad in of_tag(store, "v1") if quad.predicate == predicate)
    new = [] if instead is None else [Quad(old.subject, predicate, instead, vocab.CATALOG)]
    store.store.commit(Change(add=new, remove=[old]))
    codes = {finding.code for finding in store.verify().findings}
    assert "row-altered" in codes
    assert codes & {"bad-tag", "bad-row", "stray"}


def test_a_tag_that_was_put_in_or_taken_out_behind_the_log_is_found(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@2")
    quads = of_tag(store, "v1")
    store.store.commit(Change(remove=list(quads)))
    assert [(finding.code, finding.session_id) for finding in store.verify().findings] == [("row-altered", "plan")]
    store.store.commit(Change(add=list(quads)))
    assert store.verify("plan").ok


def test_a_tag_whose_digest_does_not_match_its_turn_is_named(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@2")
    [old] = store.store.quads((None, vocab.NAMED_DIGEST, None, vocab.CATALOG))
    store.store.commit(Change(add=[Quad(old.subject, old.predicate, Literal("f" * 64), vocab.CATALOG)], remove=[old]))
    for report in (store.verify(), store.verify("plan")):
        [found] = (finding for finding in report.findings if finding.code == "bad-tag")
        assert found.session_id == "plan"
        assert "'v1'" in found.message


# --- references


def test_a_tag_stands_where_a_reference_can(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@1")
    store.tags.add("v2", "plan@3")
    assert (
        names.parse_revision(store.workspace, "v1").session_id,
        names.parse_revision(store.workspace, "v1").end,
    ) == ("plan", 1)
    assert names.parse_revision(store.workspace, "v2@2").end == 2
    assert names.parse_revision(store.workspace, iris.tag("v1")).end == 1
    assert store.diff("v1", "v2").kinds["right"] == 2
    with pytest.raises(InvalidInput, match="'v1' has 1 turn, so there is no v1@2"):
        names.parse_revision(store.workspace, "v1@2")


def test_a_name_of_both_a_session_and_a_tag_is_not_guessed_at(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@1")
    label = Quad(NamedNode(iris.session("fork")), vocab.LABEL, Literal("v1"), vocab.CATALOG)
    store.store.commit(Change(add=[label]))  # as an older version let it come about
    with pytest.raises(InvalidInput, match="the name of session 'fork' and of a tag; write urn:trails:session:fork or"):
        names.parse_revision(store.workspace, "v1")
    assert names.parse_revision(store.workspace, "urn:trails:tag:v1").end == 1


# --- elsewhere


def test_tags_and_notes_are_in_a_dump_and_come_back(tmp_path: Path) -> None:
    with trails.open(tmp_path / "a", create=True, durability="process") as store:
        fill(store)
        store.tags.add("v1", "plan@2")
        store.notes.add("plan", 0, "Which one?")
        store.maintenance.dump(tmp_path / "dump.nq.gz")
    assert store_restore.load_dump(tmp_path / "dump.nq.gz", tmp_path / "b").ok
    with trails.open(tmp_path / "b") as store:
        assert store.tags.get("v1").length == 2
        assert [note.text for note in store.notes.list("fork")] == ["Which one?"]
        store.tags.remove("v1")
        assert store.verify().ok


def exported(store: Repository, session_id: str) -> bytes:
    out = io.BytesIO()
    export_session(store, session_id, "nquads", out)
    return out.getvalue()


def test_an_export_holds_tags_and_notes_and_gives_the_same_bytes_again(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@2", by="agent:clerk")
    store.tags.add("gone", "plan@2")
    store.tags.remove("gone")
    store.notes.add("fork", 0, "Which one?", by="carol")
    data = exported(store, "fork")
    with trails.open(":memory:") as other:
        assert import_rdf(other, data, "nquads").problems == []
        assert exported(other, "fork") == data
        assert other.tags.get("v1") == store.tags.get("v1")
        assert other.notes.list("fork") == store.notes.list("fork")
        assert other.verify().findings == ()
        again = import_rdf(other, data, "nquads")
        assert (again.grown, again.problems) == ([], [])


def test_tags_and_notes_made_later_come_with_the_next_import_and_removed_ones_do_not(store: Repository) -> None:
    fill(store)
    with trails.open(":memory:") as other:
        import_rdf(other, exported(store, "plan"), "nquads")
        longer = other.load("plan")
        longer.append("user", "In May")
        longer.persist()
        store.tags.add("v1", "plan@2")
        note = store.notes.add("plan", 0, "Which one?")
        data = exported(store, "plan")
        assert import_rdf(other, data, "nquads").grown == ["plan"]
        other.tags.remove("v1")
        other.notes.remove(note.id)
        assert import_rdf(other, data, "nquads").grown == []
        assert (other.tags.list(), other.notes.list("plan")) == ([], [])
        assert other.verify().findings == ()


def test_an_import_reports_a_tag_whose_name_is_in_use(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@2")
    with trails.open(":memory:") as other:
        other.create(id="mine").persist()
        other.tags.add("v1", "mine")
        [problem] = import_rdf(other, exported(store, "plan"), "nquads").problems
        assert problem.reason == "session 'plan' was imported without its tag 'v1', which is in use for 'mine' here"
        assert other.tags.get("v1").session_id == "mine"
        assert other.verify().findings == ()


# --- the command line


def test_the_commands_make_show_list_and_remove_tags(tmp_path: Path) -> None:
    place = str(tmp_path / "store")
    with trails.open(place, create=True, durability="process") as store:
        fill(store)
        head = store.load("plan").turns[1].digest

    def run(*arguments: str) -> str:
        return ok(invoke(*arguments, "--store", place))

    assert run("tag", "v1", "trip@2", "--by", "carol") == f"plan@2 {head[:8]}\n"
    assert run("tag", "v1") == f"plan@2 {head[:8]}\n"
    [row] = json.loads(run("tags", "--json"))["tags"]
    assert {**row, "time": None} == {
        "name": "v1",
        "session": "plan",
        "length": 2,
        "digest": head,
        "by": "carol",
        "time": None,
    }
    assert "plan@2" in run("tags", "plan")
    assert [turn["index"] for turn in json.loads(run("show", "v1", "--json"))["turns"]] == [0, 1]
    assert [turn["index"] for turn in json.loads(run("replay", "v1", "--json"))["turns"]] == [0, 1]
    assert json.loads(run("fork", "v1", "--id", "from-tag", "--json"))["session"]["forked_at_index"] == 2
    assert invoke("fork", "v1", "--at", "3", "--store", place).exit_code == 2
    assert run("tag", "v1", "--remove") == f"plan@2 {head[:8]}\n"
    assert json.loads(run("tags", "--json")) == {"tags": [], "more": 0}
    assert invoke("tag", "v1", "--store", place).exit_code == 2


# --- one name for one thing


def test_no_session_gets_the_name_of_a_tag_for_its_id_or_label(store: Repository) -> None:
    fill(store)
    store.tags.add("v1", "plan@2")
    taken = "'v1' is the name of a tag or a ref; choose another, or remove that first"
    with pytest.raises(InvalidInput, match=taken):
        store.set_label("fork", "v1")
    plan = store.load("plan")
    for make in (partial(store.create, id="v1"), partial(store.create, label="v1"), partial(plan.fork, id="v1")):
        with pytest.raises(InvalidInput, match=taken):
            make()
    with pytest.raises(InvalidInput, match=taken):
        store.flatten("plan", id="v1")
    assert names.parse_revision(store.workspace, "v1").session_id == "plan"
    store.tags.remove("v1")
    store.set_label("fork", "v1")
    with pytest.raises(InvalidInput, match="'v1' is the label of session 'fork'"):
        store.tags.add("v1", "plan@2")


def test_a_session_that_takes_a_name_while_a_tag_is_made_keeps_it(
    store: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    monkeypatch.setattr(names, "refuse_taken", lambda *_: store.set_label("fork", "v1"))
    with pytest.raises(InvalidInput, match="'v1' is by now the name of a session"):
        store.tags.add("v1", "plan@2")
    assert store.tags.list() == []
