"""Sessions that are pushed and pulled between two stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from trails import ForkDepthExceeded, InvalidInput, Moved, Repository, Session, SessionNotFound
from trails.exchange import rdf_files
from trails.exchange.remotes.push_plan import read_origins, tail_name
from trails.rdf import vocab
from trails.store.contract import Change, Committed


@pytest.fixture
def stores(opener: Callable[[str], Repository]) -> Iterator[tuple[Repository, Repository]]:
    """Two empty stores, of every kind in turn."""
    with opener("ours.trails") as ours, opener("theirs.trails") as theirs:
        yield ours, theirs


@pytest.fixture
def two() -> Iterator[tuple[Repository, Repository]]:
    """Two empty stores in memory."""
    with trails.open(":memory:") as ours, trails.open(":memory:") as theirs:
        yield ours, theirs


def filled(store: Repository, *texts: str, name: str = "plan") -> Session:
    session = store.create(id=name, principal="alice", agent="planner")
    return said(session, *texts)


def said(session: Session, *texts: str) -> Session:
    for text in texts:
        session.append("user", text)
    session.persist()
    return session


def texts(store: Repository, name: str) -> list[object]:
    return [turn.content for turn in store.load(name).turns]


def outcomes(done: Moved) -> list[tuple[str, str, str, int]]:
    return [(each.session_id, each.outcome, each.there, each.turns_added) for each in done.sessions]


def test_a_session_that_is_not_there_is_made_with_its_digests(stores: tuple[Repository, Repository]) -> None:
    ours, theirs = stores
    plan = filled(ours, "Go", "Where?")
    assert outcomes(trails.push(ours, "plan", theirs)) == [("plan", "created", "plan", 2)]
    assert theirs.load("plan").head == plan.head
    assert texts(theirs, "plan") == ["Go", "Where?"]
    assert theirs.verify().ok


@pytest.mark.parametrize(
    ("here", "there", "pushed", "pulled"),
    [
        ([], [], ("unchanged", 0), ("unchanged", 0)),
        (["By train", "Soon"], [], ("forwarded", 2), ("unchanged", 0)),
        ([], ["By bus"], ("behind", 0), ("forwarded", 1)),
    ],
)
def test_the_beginning_of_a_transcript_goes_on_and_what_the_other_side_has_more_stays_there(
    stores: tuple[Repository, Repository],
    here: list[str],
    there: list[str],
    pushed: tuple[str, int],
    pulled: tuple[str, int],
) -> None:
    ours, theirs = stores
    plan = filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    said(plan, *here)
    said(theirs.load("plan"), *there)
    number = theirs.store.number
    for move, (outcome, turns) in ((trails.push, pushed), (trails.pull, pulled)):
        assert outcomes(move(ours, "plan", theirs)) == [("plan", outcome, "plan", turns)]
        assert texts(theirs, "plan") == ["Go", *here, *there]
    assert texts(ours, "plan") == ["Go", *here, *there]
    assert ours.load("plan").head == theirs.load("plan").head
    assert here or theirs.store.number == number  # nothing to do, nothing written


def test_where_both_went_on_our_tail_becomes_a_fork_there_with_its_head(stores: tuple[Repository, Repository]) -> None:
    ours, theirs = stores
    plan = filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    said(theirs.load("plan"), "By bus")
    said(plan, "By train", "Soon")
    fork = tail_name("plan", plan.turns[1].digest)
    done = trails.push(ours, "plan", theirs, by="bob")
    assert outcomes(done) == [("plan", "forked", fork, 2)]
    assert done.sessions[0].at == 1
    assert texts(theirs, "plan") == ["Go", "By bus"]
    assert texts(theirs, fork) == ["Go", "By train", "Soon"]
    assert theirs.load(fork).head == plan.head
    assert theirs.record(fork).parent_session_id == "plan"
    assert theirs.record(fork).forked_by == "urn:trails:principal:bob"
    assert outcomes(trails.push(ours, "plan", theirs)) == [("plan", "unchanged", fork, 0)]
    said(plan, "Later")
    assert outcomes(trails.push(ours, "plan", theirs)) == [("plan", "forwarded", fork, 1)]
    assert texts(theirs, fork) == ["Go", "By train", "Soon", "Later"]
    assert theirs.verify().ok


def test_a_tail_that_was_pulled_is_not_pushed_back_beside_itself(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    said(theirs.load("plan"), "By bus")
    said(plan, "By train")
    [(_, _, fork, _)] = outcomes(trails.pull(ours, "plan", theirs))
    assert texts(ours, fork) == ["Go", "By bus"]
    assert outcomes(trails.push(ours, fork, theirs))[-1] == (fork, "unchanged", "plan", 0)
    assert len(theirs.list()) == 1


def test_a_fork_brings_the_ancestors_that_it_needs(stores: tuple[Repository, Repository]) -> None:
    ours, theirs = stores
    plan = filled(ours, "Go", "Where?")
    fork = said(plan.fork(at=1, id="other"), "Home")
    assert outcomes(trails.push(ours, "other", theirs)) == [
        ("plan", "created", "plan", 2),
        ("other", "created", "other", 1),
    ]
    assert theirs.load("other").head == fork.head
    assert theirs.verify().ok


def test_an_ancestor_that_has_what_is_needed_is_left_alone(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = filled(ours, "Go", "Where?")
    trails.push(ours, "plan", theirs)
    said(plan, "Here")
    said(plan.fork(at=1, id="other"), "Home")
    trails.push(ours, "other", theirs)
    assert texts(theirs, "plan") == ["Go", "Where?"]
    assert texts(theirs, "other") == ["Go", "Home"]


def test_a_fork_of_a_tail_hangs_on_the_fork_that_got_it(stores: tuple[Repository, Repository]) -> None:
    ours, theirs = stores
    plan = filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    said(theirs.load("plan"), "By bus")
    said(plan, "By train")
    other = said(plan.fork(id="other"), "First class")
    done = outcomes(trails.push(ours, "other", theirs))
    tail = tail_name("plan", plan.turns[1].digest)
    assert done == [("plan", "forked", tail, 1), ("other", "created", "other", 1)]
    assert theirs.record("other").parent_session_id == tail
    assert theirs.load("other").head == other.head
    assert outcomes(trails.push(ours, "other", theirs))[-1] == ("other", "unchanged", "other", 0)
    assert theirs.verify().ok


def test_two_sessions_that_only_share_their_id_are_kept_apart(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    mine = filled(ours, "Mine")
    filled(theirs, "Yours")
    [(_, outcome, there, turns)] = outcomes(trails.push(ours, "plan", theirs))
    assert (outcome, turns) == ("forked", 1)
    assert texts(theirs, "plan") == ["Yours"]
    assert texts(theirs, there) == ["Mine"]
    assert theirs.load(there).head == mine.head
    assert theirs.verify().ok


def test_a_transcript_of_several_branches_stands_whole_where_both_went_on(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = filled(ours, "Go")
    fork = said(plan.fork(id="other"), "Home")
    fork.detach()
    filled(theirs, "Else", name="other")
    [(_, outcome, there, turns)] = outcomes(trails.push(ours, "other", theirs))
    assert (outcome, turns) == ("forked", 2)
    assert theirs.record(there).parent_session_id is None
    assert theirs.load(there).head == ours.load("other").head
    assert theirs.verify().ok


def test_a_session_that_was_deleted_there_comes_back_only_when_it_is_said(
    stores: tuple[Repository, Repository],
) -> None:
    ours, theirs = stores
    filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    theirs.delete("plan")
    done = trails.push(ours, "plan", theirs)
    assert outcomes(done) == [("plan", "deleted", "plan", 0)]
    assert not done.ok
    assert "plan" not in theirs
    assert outcomes(trails.push(ours, "plan", theirs, restore=True)) == [("plan", "created", "plan", 1)]
    assert texts(theirs, "plan") == ["Go"]
    assert theirs.verify().ok


def test_a_turn_that_was_redacted_here_is_redacted_there_by_the_same_person(
    stores: tuple[Repository, Repository],
) -> None:
    ours, theirs = stores
    filled(ours, "My name is Eve", "Go")
    trails.push(ours, "plan", theirs)
    ours.redact("plan", 0, by="warden", reason="a name")
    done = trails.push(ours, "plan", theirs)
    assert done.sessions[0].redacted == (0,)
    assert theirs.load("plan").turns[0].redacted
    assert texts(theirs, "plan")[1] == "Go"
    row = theirs.select("SELECT ?who ?why { ?d trails:reason ?why ; prov:wasAssociatedWith ?who }").to_dicts()
    assert row == [{"who": "urn:trails:principal:warden", "why": "a name"}]
    assert theirs.verify().ok


def test_a_turn_that_was_redacted_there_stays_redacted_when_it_is_pushed_or_pulled(
    two: tuple[Repository, Repository],
) -> None:
    ours, theirs = two
    plan = filled(ours, "My name is Eve")
    trails.push(ours, "plan", theirs)
    theirs.redact("plan", 0)
    said(plan, "Go")
    trails.push(ours, "plan", theirs)
    assert theirs.load("plan").turns[0].redacted
    assert texts(theirs, "plan")[1] == "Go"
    assert trails.pull(ours, "plan", theirs).sessions[0].redacted == (0,)
    assert ours.load("plan").turns[0].redacted
    assert ours.verify().ok
    assert theirs.verify().ok


def test_a_tag_whose_name_was_taken_out_there_does_not_come_back(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = filled(ours, "Go")
    ours.tags.add("Eve", "plan@1")
    trails.push(ours, "plan", theirs)
    theirs.redact_matching("Eve")
    (there,) = [tag.name for tag in theirs.tags.list()]
    said(plan, "Soon")
    ours.tags.add("second", "plan@1")
    trails.push(ours, "plan", theirs)
    trails.push(ours, "plan", theirs)
    assert sorted(tag.name for tag in theirs.tags.list()) == sorted([there, "second"])
    assert theirs.verify().ok


def test_a_dry_run_says_what_would_happen_and_writes_nothing(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = filled(ours, "Go", "Secret")
    trails.push(ours, "plan", theirs)
    ours.redact("plan", 1)
    said(plan, "Soon")
    number = theirs.store.number
    done = trails.push(ours, "plan", theirs, dry_run=True)
    assert outcomes(done) == [("plan", "forwarded", "plan", 1)]
    assert done.sessions[0].redacted == (1,)
    assert theirs.store.number == number


def test_tags_and_notes_come_with_their_session_and_forks_do_not(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = filled(ours, "Go")
    said(plan.fork(id="other"), "Home")
    trails.push(ours, "plan", theirs)
    ours.tags.add("good", "plan")
    ours.notes.add("plan", 0, "well said")
    trails.push(ours, "plan", theirs)
    assert [tag.name for tag in theirs.tags.list()] == ["good"]
    assert [note.text for note in theirs.notes.list("plan")] == ["well said"]
    assert "other" not in theirs


def test_a_session_says_who_pushed_it_and_where_it_stood_in_the_log_it_came_from(
    two: tuple[Repository, Repository],
) -> None:
    ours, theirs = two
    plan = filled(ours, "Go")
    trails.push(ours, "plan", theirs, by="bob")
    [origin] = read_origins(theirs, "plan")
    assert (origin.how, origin.by_iri, origin.turns, origin.head) == ("push", "urn:trails:principal:bob", 1, plan.head)
    assert (origin.size, origin.root) == (ours.store.log.root()[0], ours.store.log.root()[1].hex())
    assert origin.holds
    assert read_origins(ours, "plan") == []


def test_an_origin_holds_against_a_checkpoint_that_the_source_signed(two: tuple[Repository, Repository]) -> None:
    from trails.integrity.signed_notes import new_key

    ours, theirs = two
    filled(ours, "Go")
    secret, public = new_key("ours")
    trails.push(ours, "plan", theirs)
    note = ours.proofs.checkpoint(secret)
    assert [each.checked for each in read_origins(theirs, "plan", checkpoint=note, verifiers=[public])] == [True]
    filled(ours, "More", name="later")
    later = ours.proofs.checkpoint(secret)
    assert [each.checked for each in read_origins(theirs, "plan", checkpoint=later, verifiers=[public])] == [False]


def test_a_store_is_not_pushed_to_itself(memory: Repository) -> None:
    filled(memory, "Go")
    with pytest.raises(InvalidInput, match="the store itself"):
        trails.push(memory, "plan", memory)


def test_a_store_is_not_pushed_to_itself_by_another_of_its_names(place: Path, tmp_path: Path) -> None:
    with trails.open(place, create=True) as store:
        filled(store, "Go")
    (tmp_path / "link").symlink_to(place)
    with (
        trails.open(place, read_only=True) as here,
        trails.open(tmp_path / "link") as there,
        pytest.raises(InvalidInput, match="the store itself"),
    ):
        trails.push(here, "plan", there)


def test_a_session_that_is_not_there_cannot_be_pushed(two: tuple[Repository, Repository]) -> None:
    with pytest.raises(SessionNotFound):
        trails.push(two[0], "plan", two[1])


def test_a_system_prompt_that_was_set_in_the_tail_comes_with_the_fork(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = ours.create(id="plan", system="Be brief.")
    said(plan, "Go")
    trails.push(ours, "plan", theirs)
    said(theirs.load("plan"), "By bus")
    plan.set_system("Be kind.")
    plan.append("assistant", "By train", model="m-1")
    plan.persist()
    [(_, _, fork, _)] = outcomes(trails.push(ours, "plan", theirs))
    assert theirs.load(fork).system == "Be kind."
    assert theirs.load("plan").system == "Be brief."
    assert theirs.verify().ok


def test_a_session_that_was_altered_is_refused_and_nothing_of_it_is_written(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    filled(ours, "Go", "By train")
    filled(ours, "Else", name="whole")
    [quad] = ours.store.quads((None, vocab.VALUE, Literal("Go"), None))
    new = Quad(quad.subject, quad.predicate, Literal("Stay"), quad.graph_name)
    ours.store.commit(Change(add=[new], remove=[quad]))
    done = trails.push(ours, ["plan", "whole"], theirs)
    assert outcomes(done) == [("plan", "refused", "plan", 0), ("whole", "created", "whole", 1)]
    assert "digest" in done.sessions[0].said[0]
    assert not done.ok
    assert "plan" not in theirs


def test_a_turn_that_comes_in_between_is_not_lost(
    two: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = two
    plan = filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    said(plan, "By train")
    check_sessions = rdf_files.check_sessions

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        said(theirs.load("plan"), "By bus")
        return check_sessions(*arguments, **options)

    monkeypatch.setattr(rdf_files, "check_sessions", meanwhile)
    assert outcomes(trails.push(ours, "plan", theirs)) == [("plan", "refused", "plan", 0)]
    assert texts(theirs, "plan") == ["Go", "By bus"]
    monkeypatch.undo()
    assert [outcome for _, outcome, _, _ in outcomes(trails.push(ours, "plan", theirs))] == ["forked"]


def test_a_fork_with_too_many_ancestors_there_is_refused_before_anything_is_written(
    two: tuple[Repository, Repository],
) -> None:
    ours, theirs = two
    last = filled(ours, "Go", name="f0")
    trails.push(ours, "f0", theirs)
    said(theirs.load("f0"), "By bus")
    said(last, "By train")
    for number in range(1, trails.MAX_FORK_DEPTH + 1):
        last = said(last.fork(id=f"f{number}"), f"turn {number}")
    number = theirs.store.number
    with pytest.raises(ForkDepthExceeded, match="33 ancestors"):
        trails.push(ours, last.id, theirs)
    assert theirs.store.number == number


def test_a_name_that_was_taken_out_here_and_stands_there_is_told(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = ours.create(id="plan")
    plan.append("user", "Go", author="Zenobia")
    plan.persist()
    trails.push(ours, "plan", theirs)
    ours.redact_matching("Zenobia")
    [moved] = trails.push(ours, "plan", theirs).sessions
    assert "turn 0 of session 'plan' has a name" in moved.said[0]
    theirs.redact_matching("Zenobia")
    [moved] = trails.push(ours, "plan", theirs).sessions
    assert moved.said == ()
    assert theirs.verify().ok


def test_an_origin_that_was_altered_does_not_hold(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    [quad] = theirs.store.quads((None, vocab.ORIGIN, None, None))
    assert isinstance(quad.object, Literal)
    plain = json.loads(quad.object.value)
    plain["root"] = "00" * 32
    new = Quad(quad.subject, quad.predicate, Literal(json.dumps(plain)), quad.graph_name)
    theirs.store.commit(Change(add=[new], remove=[quad]))
    assert [each.holds for each in read_origins(theirs, "plan")] == [False]
    assert not theirs.verify().ok


def test_a_push_that_was_cut_short_is_done_by_pushing_again(
    stores: tuple[Repository, Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = stores
    plan = filled(ours, "Go", "Where?")
    said(plan.fork(at=1, id="other"), "Home")
    ours.redact("plan", 1)
    commit = theirs.store.commit

    def cut_short(change: Change) -> Committed:
        if any(quad.object == NamedNode("urn:trails:session:other") for quad in change.add):
            raise KeyboardInterrupt
        return commit(change)

    monkeypatch.setattr(theirs.store, "commit", cut_short)
    with pytest.raises(KeyboardInterrupt):
        trails.push(ours, "other", theirs)
    monkeypatch.undo()
    assert [record.id for record in theirs.list()] == ["plan"]
    assert theirs.verify().ok
    assert outcomes(trails.push(ours, "other", theirs)) == [
        ("plan", "unchanged", "plan", 0),
        ("other", "created", "other", 1),
    ]
    assert theirs.verify().ok


def test_the_query_for_imported_files_tells_of_pushes(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    filled(ours, "Go")
    trails.push(ours, "plan", theirs, by="bob")
    [row] = theirs.select("imported-files").to_dicts()
    found = {name: row[name] for name in ("session", "importer", "by", "name")}
    assert found == {
        "session": "urn:trails:session:plan",
        "importer": "push",
        "by": "urn:trails:principal:bob",
        "name": ":memory:",
    }


def test_what_came_back_shorter_goes_on_as_it_likes_and_the_store_is_sound(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    said(plan, "By train")
    ours.delete("plan")
    assert outcomes(trails.pull(ours, "plan", theirs, restore=True)) == [("plan", "created", "plan", 1)]
    said(ours.load("plan"), "By bus")
    assert ours.verify().ok
    with trails.open(":memory:") as third:  # and what it became comes back in its turn
        trails.push(ours, "plan", third)
        ours.delete("plan")
        assert outcomes(trails.pull(ours, "plan", third, restore=True)) == [("plan", "created", "plan", 2)]
    assert texts(ours, "plan") == ["Go", "By bus"]
    assert ours.verify().ok


def test_what_it_had_become_when_it_was_deleted_does_not_come_back_as_what_it_was_before(
    two: tuple[Repository, Repository],
) -> None:
    ours, theirs = two
    plan = filled(ours, "Go")
    trails.push(ours, "plan", theirs)
    said(plan, "By train")
    with trails.open(":memory:") as early:
        trails.push(ours, "plan", early)
        ours.delete("plan")
        trails.pull(ours, "plan", theirs, restore=True)
        said(ours.load("plan"), "By bus")
        ours.delete("plan")
        assert outcomes(trails.pull(ours, "plan", early, restore=True)) == [("plan", "refused", "plan", 0)]
    assert ours.verify().ok


def test_what_had_turns_does_not_come_back_with_none(two: tuple[Repository, Repository]) -> None:
    ours, theirs = two
    plan = filled(ours)
    trails.push(ours, "plan", theirs)
    said(plan, "Go")
    ours.delete("plan")
    assert outcomes(trails.pull(ours, "plan", theirs, restore=True)) == [("plan", "refused", "plan", 0)]
    assert ours.verify().ok
