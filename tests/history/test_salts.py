"""What a leaf covers cannot be guessed from it: the salt goes with what it covers."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.places import FORMATS
from trails import Repository
from trails.exchange.rdf_files import export_session, import_rdf
from trails.history import log_leaves
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.rdf import vocab
from trails.store import Change
from trails.store.upgrade import upgrade

GUESSES = range(1000)
HEX = re.compile("[0-9a-f]{32}")


def digest_of(lines: Iterable[str]) -> str:
    """The digest of rows, by itself: SHA-256 over their sorted lines."""
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def line(quad: Quad) -> str:
    return f"{quad.subject} {quad.predicate} {quad.object} .\n"


def salts_in(store: Repository) -> list[Quad]:
    """Every quad of the store that could be a salt."""
    quads = store.store.quads((None, None, None, None))
    return [quad for quad in quads if isinstance(quad.object, Literal) and HEX.fullmatch(quad.object.value)]


def logged(store: Repository) -> set[str]:
    """Every digest in the log."""
    return {text.split(" ")[3].removeprefix("~") for text in store.store.log.lines()}


def guesses(store: Repository, label: str) -> Iterator[str]:
    """The digests that the rows of a session with a label could have, with no salt or one of those that are there."""
    node = NamedNode(iris.session("plan"))
    row = [q for q in store.store.quads((node, None, None, vocab.CATALOG)) if q.predicate != vocab.LABEL]
    rest = [quad for quad in row if quad.predicate == vocab.STATE]
    salts = salts_in(store)
    made = line(Quad(node, vocab.LABEL, Literal(label), vocab.CATALOG))
    for base in (row, rest, [quad for quad in row if quad not in salts]):
        plain = [line(quad) for quad in base if quad not in salts]
        for number in range(3):
            for chosen in combinations(salts, number):
                yield digest_of([*plain, made, *map(line, chosen)])


def found(store: Repository) -> list[int]:
    """Which of a thousand labels the log gives away."""
    known = logged(store)
    return [pin for pin in GUESSES if any(digest in known for digest in guesses(store, f"PIN {pin}"))]


def test_a_label_that_was_taken_away_cannot_be_guessed_from_the_log(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        store.create(id="plan", label="PIN 471").persist()
        assert found(store) == [471]  # while it stands there, its salt does too: the guessing itself works
        store.set_label("plan", None)
        store.maintenance.vacuum()
        assert found(store) == []


def test_a_label_of_a_session_that_was_deleted_cannot_be_guessed_from_the_log(memory: Repository) -> None:
    memory.create(id="plan", label="PIN 471").persist()
    row = memory.store.quads((NamedNode(iris.session("plan")), None, None, vocab.CATALOG))
    memory.delete("plan")
    memory.maintenance.vacuum()
    salts = salts_in(memory)
    known = logged(memory)
    plain = [line(quad) for quad in row if not HEX.fullmatch(str(getattr(quad.object, "value", "")))]
    states = [text for text in plain if vocab.STATE.value in text or vocab.LABEL.value in text]
    for lines in (plain, states):
        for number in range(3):
            for chosen in combinations(salts, number):
                assert digest_of([*lines, *map(line, chosen)]) not in known


def about(store: Repository, subject: str) -> list[Quad]:
    return store.store.quads((NamedNode(subject), None, None, None))


def is_random(quad: Quad) -> bool:
    return isinstance(quad.object, Literal) and re.fullmatch("[0-9a-f]{32}|[0-9a-f]{64}", quad.object.value) is not None


def is_given_away(store: Repository, known: list[Quad], *, but: Iterable[NamedNode] = ()) -> bool:
    """Whether somebody who knows all of a subject, except its random bits, finds it in the log with those that stand there.

    `but` are the properties that the leaf leaves out.
    """
    plain = [line(quad) for quad in known if not is_random(quad) and quad.predicate not in {*but}]
    there = [line(quad) for quad in about(store, known[0].subject.value) if is_random(quad)]  # type: ignore[union-attr]
    digests = logged(store)
    picks = (chosen for number in range(len(there) + 1) for chosen in combinations(there, number))
    return any(digest_of([*plain, *chosen]) in digests for chosen in picks)


def a_principal(store: Repository) -> tuple[str, str]:
    store.create(id="empty", principal="carol-secret").persist()
    return iris.session("empty"), "carol-secret"


def a_reason(store: Repository) -> tuple[str, str]:
    plan = store.create(id="plan")
    turn = plan.append("user", "x")
    plan.persist()
    store.redact("plan", 0, by="zed", reason="password hunter2")
    return iris.turn_deletion(turn.iri), "hunter2"


def a_reason_of_a_record(store: Repository) -> tuple[str, str]:
    store.create(id="plan", label="PIN 471").persist()
    store.redact_matching("PIN 471", by="zed", reason="password hunter2")
    [record] = store.store.quads((None, vocab.REDACTED_FROM, None, vocab.CATALOG))
    return record.subject.value, "hunter2"  # type: ignore[union-attr] # an IRI


def a_peer(store: Repository) -> tuple[str, str]:
    store.create(id="plan").persist()
    return trails.Ledger(store).receive("plan", "Hi", source="mail", event_id="m", peer="eve-secret").iri, "eve-secret"


def a_peer_of_a_message_in_a_turn(store: Repository) -> tuple[str, str]:
    iri, text = a_peer(store)
    trails.Ledger(store).process("plan", lambda running: "Hello")
    return iri, text


def a_channel_that_it_went_to(store: Repository) -> tuple[str, str]:
    plan = store.create(id="plan")
    turn = plan.append("assistant", "Hello")
    plan.persist()
    return trails.Ledger(store).delivered(turn, channel="eve-secret").iri, "eve-secret"


def a_label_of_a_run(store: Repository) -> tuple[str, str]:
    trails.Runs(store, agent=lambda said: "ok").spawn("agent:main:main", "Do it", label="eve-secret")
    return the_run(store), "eve-secret"


def the_run(store: Repository) -> str:
    [quad] = store.store.quads((None, vocab.TYPE, vocab.RUN, vocab.CATALOG))
    return quad.subject.value  # type: ignore[union-attr] # an IRI


EVENT = (vocab.VALUE, vocab.WAITING, vocab.RECORDED_AS)


@pytest.mark.parametrize(
    ("made", "but"),
    [
        (a_principal, (vocab.STATE,)),
        (a_reason, ()),
        (a_reason_of_a_record, ()),
        (a_peer, EVENT),
        (a_peer_of_a_message_in_a_turn, EVENT),
        (a_channel_that_it_went_to, ()),
        (a_label_of_a_run, (vocab.TASK,)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_was_taken_out_by_its_text_cannot_be_guessed_from_the_log(
    tmp_path: Path, made: Callable[[Repository], tuple[str, str]], but: tuple[NamedNode, ...]
) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        subject, text = made(store)
        known = about(store, subject)
        assert is_given_away(store, known, but=but)  # while it stands there: the guessing itself works
        store.redact_matching(text)
        store.maintenance.vacuum()
        assert about(store, subject)
        assert not is_given_away(store, known, but=but)
        assert store.verify().findings == ()
    with trails.open(tmp_path / "s") as store:
        assert store.verify().findings == ()


def test_what_a_run_said_of_itself_before_it_changed_cannot_be_guessed_from_the_log(memory: Repository) -> None:
    runs = trails.Runs(memory, agent=lambda said: "ok")
    runs.spawn("agent:main:main", "Do it", label="trip")
    run = the_run(memory)
    known = about(memory, run)
    assert is_given_away(memory, known, but=[vocab.TASK])
    runs.work()
    assert len(about(memory, run)) > len(known)
    assert not is_given_away(memory, known, but=[vocab.TASK])
    assert memory.verify().findings == ()


def test_who_made_a_session_that_was_deleted_cannot_be_guessed_from_the_log_and_it_comes_back(
    memory: Repository,
) -> None:
    memory.create(id="gone", principal="dave-secret").persist()
    file = io.BytesIO()
    export_session(memory, "gone", "nquads", file)
    known = about(memory, iris.session("gone"))
    assert is_given_away(memory, known, but=[vocab.STATE])
    memory.delete("gone", by="zed")
    assert len(salts_in(memory)) == 1
    assert not is_given_away(memory, known, but=[vocab.STATE])
    assert memory.verify().findings == ()
    import_rdf(memory, file.getvalue(), "nquads", restore=True)
    back = [quad for quad in about(memory, iris.session("gone")) if quad.predicate != vocab.ROW_SALT]
    assert {*back} == {*known}
    assert memory.verify().findings == ()


def test_who_deleted_a_session_cannot_be_guessed_once_that_name_was_taken_out(memory: Repository) -> None:
    memory.create(id="gone").persist()
    memory.delete("gone", by="dave-secret")
    node, deletion = iris.session("gone"), iris.deletion(iris.session("gone"))
    plain = [line(quad) for subject in (node, deletion) for quad in about(memory, subject) if not is_random(quad)]
    plain = [text for text in plain if vocab.PENDING_SWEEP.value not in text]
    assert any(digest_of([*plain, line(salt)]) in logged(memory) for salt in salts_in(memory))
    memory.redact_matching("dave-secret")
    assert not any(digest_of([*plain, line(salt)]) in logged(memory) for salt in salts_in(memory))
    assert memory.verify().findings == ()


def salt_of(store: Repository, session_id: str, predicate: NamedNode) -> str:
    [quad] = store.store.quads((NamedNode(iris.session(session_id)), predicate, None, vocab.CATALOG))
    return str(quad.object.value)  # type: ignore[union-attr] # a literal


def test_every_change_of_a_row_draws_another_salt_and_what_it_was_made_with_keeps_its_own(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.persist()
    first, drawn = salt_of(memory, "plan", vocab.LEAF_SALT), set()
    for act in (
        lambda: memory.set_label("plan", "a"),
        lambda: memory.set_label("plan", None),
        lambda: memory.tags.add("t", "plan"),
        lambda: memory.tags.remove("t"),
    ):
        act()
        drawn.add(salt_of(memory, "plan", vocab.ROW_SALT))
        assert salt_of(memory, "plan", vocab.LEAF_SALT) == first
    assert len(drawn | {first}) == 5
    assert all(HEX.fullmatch(salt) for salt in drawn | {first})
    assert memory.verify().ok


def test_a_fork_s_row_is_no_longer_than_it_may_be(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "one")
    plan.persist()
    before = len(memory.store)
    plan.fork(id="fork").persist()
    assert len(memory.store) - before == 12  # who made it too, and once in a store the agent whom nobody named
    assert [text.split(" ")[0] for text in memory.store.log.lines()] == ["create", "turns", "fork"]


@pytest.mark.parametrize("text", ["a reason", None])
def test_the_records_of_deletions_and_redactions_have_salts_of_their_own(memory: Repository, text: str | None) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "secret")
    plan.persist()
    memory.redact("plan", 0, reason=text)
    memory.delete("plan")
    salts = [quad for quad in salts_in(memory) if quad.predicate == vocab.LEAF_SALT]
    assert len(salts) == 2
    assert memory.verify().ok


def test_an_export_holds_the_salt_of_what_never_changes_and_the_row_gets_a_new_one_elsewhere(
    memory: Repository,
) -> None:
    memory.create(id="plan", label="trip").persist()
    file = io.BytesIO()
    export_session(memory, "plan", "nquads", file)
    assert salt_of(memory, "plan", vocab.ROW_SALT).encode() not in file.getvalue()
    with trails.open(":memory:") as other:
        import_rdf(other, file.getvalue(), "nquads")
        assert salt_of(other, "plan", vocab.LEAF_SALT) == salt_of(memory, "plan", vocab.LEAF_SALT)
        assert salt_of(other, "plan", vocab.ROW_SALT) != salt_of(memory, "plan", vocab.ROW_SALT)
        assert other.verify().ok


def test_a_row_salt_in_a_file_is_not_taken_over(memory: Repository) -> None:
    memory.create(id="plan", label="trip").persist()
    file = io.BytesIO()
    export_session(memory, "plan", "nquads", file)
    row = f'<{iris.session("plan")}> <{vocab.ROW_SALT.value}> "{"0" * 32}" .\n'
    with trails.open(":memory:") as other:
        import_rdf(other, file.getvalue() + row.encode(), "nquads")
        assert salt_of(other, "plan", vocab.ROW_SALT) != "0" * 32
        assert other.verify().ok


# --- stores that an older version wrote


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store that an older version wrote: none of its rows has a salt."""
    with tarfile.open(FORMATS / "unsalted.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    upgrade(tmp_path / "unsalted")
    return tmp_path / "unsalted"


def first_kinds(store: Repository, since: int) -> list[tuple[str, str, bool]]:
    """The leaves of rows since a number of lines: kind, session, and whether they are salted."""
    fields = [text.split(" ") for text in store.store.log.lines()[since:]]
    kinds = ("create", "fork", "change", "detach", "delete")
    return [(each[0], iris.session_id(each[1]), each[3].startswith("~")) for each in fields if each[0] in kinds]


def test_a_row_of_an_older_version_gets_its_salts_with_its_next_change(old: Path) -> None:
    with trails.open(old) as store:
        before = len(store.store.log.lines())
        assert salts_in(store) == [quad for quad in salts_in(store) if quad.predicate == vocab.SALT]
        store.set_label("plan", "journey")
        store.load("dinner").detach()
        store.delete("solo", by="dave")
        assert first_kinds(store, before) == [
            ("create", "plan", True), ("change", "plan", True),
            ("fork", "dinner", True), ("detach", "dinner", True),
            ("delete", "solo", True),
        ]  # fmt: skip
        store.set_label("plan", None)
        assert first_kinds(store, before)[5:] == [("change", "plan", True)]
        assert store.verify().findings == ()
    with trails.open(old) as store:
        assert store.verify().findings == ()


def test_no_leaf_without_a_salt_is_believed_after_one_with_a_salt(old: Path) -> None:
    with trails.open(old) as store:
        assert store.verify().findings == ()
        node = NamedNode(iris.session("flat"))
        [principal] = store.store.quads((node, vocab.ATTRIBUTED_TO, None, vocab.CATALOG))
        mallory = Quad(node, vocab.ATTRIBUTED_TO, NamedNode(iris.principal("mallory")), vocab.CATALOG)
        store.set_label("plan", "journey")
        store.store.commit(Change(add=[mallory], remove=[principal]))
        whole = log_leaves.row_of(store.store, "flat").whole
        store.store.commit(Change(leaves=[Leaf("change", node.value, 0, whole)]))
        assert ("logged-twice", "flat") in {(f.code, f.session_id) for f in store.verify().findings}
