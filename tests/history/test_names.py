"""Names of sessions: what each way to name one stands for, in which order, and what is said of a name of nothing."""

from __future__ import annotations

import pytest

from tests.support.asked import asked_from_now_on
from tests.support.sessions import say
from trails import InvalidInput, Repository, SessionNotFound
from trails.history.lookup import names
from trails.rdf import query_files

pytestmark = pytest.mark.any_store

MADE = "7f3a9c1e5b2d48f6a0c4e8d2b6f1a3c5"
UUID = "9c1e5b2d-48f6-4a0c-8e8d-2b6f1a3c5d7f"


@pytest.fixture
def trips(store: Repository) -> Repository:
    say(store.create(id=MADE, label="trip"), "a", "b", "c")
    say(store.create(id=f"pi:{UUID}"), "d")
    say(store.create(id="user-10"), "e")
    store.tags.add("v1", f"{MADE}@2")
    return store


@pytest.mark.parametrize(
    ("name", "session"),
    [
        (MADE, MADE),
        (f"urn:trails:session:{MADE}", MADE),
        ("trip", MADE),
        ("v1", MADE),
        ("urn:trails:tag:v1", MADE),
        (MADE[:4], MADE),
        (MADE[:31], MADE),
        (f"pi:{UUID[:4]}", f"pi:{UUID}"),
        (f"pi:{UUID[:9]}", f"pi:{UUID}"),
        (f"pi:{UUID[:20]}", f"pi:{UUID}"),
        ("user-10", "user-10"),
    ],
)
def test_an_id_an_iri_a_label_a_tag_and_the_beginning_of_a_made_up_id_name_a_session(
    trips: Repository, name: str, session: str
) -> None:
    assert trips.resolve(name) == session
    assert trips.load(name).id == session
    assert trips.record(name).id == session
    assert trips.replay(name) == trips.replay(session)


@pytest.mark.parametrize("name", [UUID, UUID[:4], UUID[:9], UUID[:35]])
def test_what_was_made_up_names_a_session_without_the_importer_that_stands_before_it(
    trips: Repository, name: str
) -> None:
    assert trips.load(name).id == trips.resolve(name) == f"pi:{UUID}"
    assert names.parse_revision(trips.workspace, f"{name}@1").session_id == f"pi:{UUID}"


def test_the_same_uuid_from_two_importers_is_refused_and_names_both(memory: Repository) -> None:
    for importer in ("codex", "pi"):
        memory.create(id=f"{importer}:{UUID}").persist()
    with pytest.raises(InvalidInput, match=f"'codex:{UUID}', 'pi:{UUID}'; give more of the one that is meant"):
        memory.load(UUID[:8])
    assert memory.load(f"codex:{UUID[:8]}").id == f"codex:{UUID}"


def test_a_beginning_that_only_a_session_and_its_own_forks_share_means_the_session(memory: Repository) -> None:
    root = say(memory.create(id=f"claude-code:{UUID}"), "a", "b")
    fork = say(root.fork(at=1, id=f"claude-code:{UUID}~8965374d16d5396c"), "c")
    say(fork.fork(at=1, id=f"claude-code:{UUID}~7965374d16d5396c"), "d")
    for name in (f"claude-code:{UUID[:8]}", UUID[:8], UUID):
        assert memory.load(name).id == root.id
    say(memory.create(id=f"claude-code:{UUID[:12]}0-4a0c-8e8d-2b6f1a3c5d7f"), "e")
    with pytest.raises(InvalidInput, match="is the beginning of several ids"):
        memory.load(UUID[:8])


def test_two_forks_that_share_a_beginning_are_refused_where_their_parent_is_called_otherwise(
    memory: Repository,
) -> None:
    root = say(memory.create(id="plan"), "a")
    for end in "12":
        say(root.fork(at=1, id=f"{MADE[:31]}{end}"), "b")
    with pytest.raises(InvalidInput, match=f"'{MADE[:31]}1', '{MADE[:31]}2'; give more"):
        memory.load(MADE[:8])


@pytest.mark.parametrize("name", ["user-1", "user", "us", MADE[:3], "pi:", "pi:9c1", "7F3A", f"{MADE}0", MADE[1:9], ""])
def test_a_chosen_name_is_never_shortened_and_a_made_up_one_only_by_its_beginning(trips: Repository, name: str) -> None:
    with pytest.raises((SessionNotFound, InvalidInput)):
        trips.load(name)
    with pytest.raises((SessionNotFound, InvalidInput)):
        trips.resolve(name)


def test_a_whole_name_comes_before_the_beginning_of_another(memory: Repository) -> None:
    for given in (MADE, "7f3a"):
        memory.create(id=given).persist()
    assert memory.load("7f3a").id == "7f3a"
    memory.create(id="desk", label="7f3a9").persist()
    assert memory.load("7f3a9").id == "desk"


def test_the_beginning_of_two_ids_is_refused_and_names_both(memory: Repository) -> None:
    other = MADE[:6] + "0" * 10
    for given in (MADE, other):
        memory.create(id=given).persist()
    with pytest.raises(InvalidInput, match=f"is the beginning of several ids: '{other}', '{MADE}'; give more"):
        memory.load("7f3a")
    assert memory.load(MADE[:7]).id == MADE


def test_the_whole_id_of_a_deleted_session_stands_for_no_other(memory: Repository) -> None:
    for given in ("7f3a", MADE):
        memory.create(id=given).persist()
    memory.delete("7f3a")
    with pytest.raises(SessionNotFound, match="session '7f3a' was deleted"):
        memory.load("7f3a")


def test_an_id_that_is_another_ones_label_is_refused_where_a_person_may_mean_either(memory: Repository) -> None:
    memory.create(id="plan").persist()
    memory.create(id="other", label="plan").persist()
    with pytest.raises(InvalidInput, match="is the id of one session and the label of 'other'"):
        memory.resolve("plan")
    with pytest.raises(InvalidInput, match="is the id of one session and the label of 'other'"):
        memory.delete("plan")
    assert memory.load("plan").id == "plan"


@pytest.mark.parametrize("name", ["v1", MADE[:8]])
def test_what_erases_takes_neither_tags_nor_beginnings(trips: Repository, name: str) -> None:
    for erase in (lambda: trips.delete(name), lambda: trips.redact(name, 0)):
        with pytest.raises(SessionNotFound, match=f"on '{MADE}'|of '{MADE}': what erases takes a session's whole id"):
            erase()
    assert [turn.content for turn in trips.load(MADE).turns] == ["a", "b", "c"]


def test_what_erases_takes_a_label(memory: Repository) -> None:
    say(memory.create(id="plan", label="trip"), "a")
    memory.redact("trip", 0)
    assert memory.load("plan").turns[0].redacted
    assert memory.delete("trip") == ["plan"]


def test_a_session_its_record_and_its_iri_as_a_node_name_it(trips: Repository) -> None:
    session = trips.load("user-10")
    assert trips.load(session).id == trips.load(session.record).id == "user-10"
    assert session in trips
    assert trips.delete(session) == ["user-10"]


@pytest.mark.parametrize("junk", [None, 3, b"trip", ["trip"], object()])
def test_what_names_nothing_is_refused_and_says_what_does(trips: Repository, junk: object) -> None:
    with pytest.raises(InvalidInput, match="a session is named by its id, IRI, label or tag"):
        trips.load(junk)  # type: ignore[arg-type] # that is the test


@pytest.mark.parametrize(
    ("given", "meant"), [("user-1", "user-10"), ("usr-10", "user-10"), ("trp", "trip"), ("TRIP", "trip"), ("v-1", "v1")]
)
def test_a_name_of_nothing_comes_with_the_nearest(trips: Repository, given: str, meant: str) -> None:
    with pytest.raises(
        SessionNotFound, match=rf"there is no session, label or tag '{given}' \(did you mean '{meant}'\?\)"
    ):
        trips.load(given)


@pytest.mark.parametrize(
    ("place", "end"),
    [("trip@1", 1), ("trip#0", 1), ("7f3a@2", 2), ("trip#2", 3), ("v1@1", 1), ("v1#1", 2), ("v1", 2), ("7f3a9c", None)],
)
def test_a_reference_names_the_first_turns_of_a_session_by_any_name(
    trips: Repository, place: str, end: int | None
) -> None:
    assert names.parse_revision(trips.workspace, place) == names.Revision(place, MADE, end)


def test_a_reference_may_end_with_the_turn_whose_digest_begins_so(trips: Repository) -> None:
    plan = trips.load("trip")
    middle = plan.turns[1].digest
    longer = next(length for length in range(4, 64) if any(letter in "abcdef" for letter in middle[:length]))
    assert names.parse_revision(trips.workspace, f"trip@{middle[:longer]}").end == 2
    fork = say(plan.fork(at=2, id="fork"), "x")
    assert names.parse_revision(trips.workspace, f"fork@{middle[:longer]}").end == 2
    assert names.turn_index(trips.workspace, names.Revision("fork", "fork"), fork.head) == 2
    with pytest.raises(InvalidInput, match="no turn of 'fork' has a digest that begins with"):
        names.parse_revision(trips.workspace, f"fork@{plan.turns[2].digest}")
    with pytest.raises(InvalidInput, match="no turn of 'v1'"):
        names.parse_revision(trips.workspace, f"v1@{plan.turns[2].digest}")


def test_a_reference_past_the_end_says_what_there_is_in_the_sign_that_was_written(trips: Repository) -> None:
    for place, possible in (("trip@4", "@0 to @3"), ("trip#3", "#0 to #2"), ("v1#2", "#0 to #1")):
        with pytest.raises(InvalidInput, match=f"so there is no {place}: {possible} is possible"):
            names.parse_revision(trips.workspace, place)


@pytest.mark.parametrize("turn", ["trip#1", "trip@1", f"{MADE[:8]}#1", f"{MADE[:8]}@1"])
def test_a_turn_is_scored_by_either_sign(trips: Repository, turn: str) -> None:
    score = trips.score(turn, "tone", "polite", by="alice")
    assert (score.session_id, score.start, score.end) == (MADE, 1, 2)


@pytest.mark.parametrize("turns", ["trip#0,2", "trip#1:", "trip@:2"])
def test_a_score_of_no_turn_and_no_span_says_how_they_are_written(trips: Repository, turns: str) -> None:
    with pytest.raises(InvalidInput, match=r"of a turn \(trip#3\) or of a span \(trip#2:5\)"):
        trips.score(turns, "tone", "polite", by="alice")


def test_a_load_by_id_asks_no_more_than_before(memory: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    say(memory.create(id="plan"), "a")
    asked = asked_from_now_on(monkeypatch)
    memory.load("plan")
    assert asked == ["lineage"]
    del asked[:]
    names.find_record(memory.workspace, "plan")
    assert asked == ["records"]


def test_names_are_looked_for_among_so_many_and_no_more() -> None:
    """What an error costs is bounded, however large the store is."""
    assert "LIMIT 1000 #: limit" in query_files.find("ids_holding").text
    assert "LIMIT 4000" in query_files.find("names_given").text
