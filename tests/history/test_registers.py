"""The registers of a store: what stands in them is logged, verified, kept, and can be taken out like any other text."""

from __future__ import annotations

import hashlib
import io
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import invoke, ok
from trails import InvalidInput, Repository, SessionNotFound, StoreFailed, StoreReadOnly
from trails.audit import audit
from trails.audit.evidence_pack import make_pack
from trails.exchange.file_import import export_session
from trails.history.records import registers
from trails.provenance import delete_document, import_document
from trails.rdf import vocab
from trails.rdf.register_records import RecordReading
from trails.session.store_restore import restore_store

THEN = datetime(2026, 8, 3, 9, tzinfo=UTC)


@pytest.fixture
def plan(memory: Repository) -> Repository:
    made = memory.create(id="plan", principal="alice")
    made.append("user", "Plan a trip")
    made.persist()
    return memory


@pytest.mark.parametrize(
    ("kind", "due"),
    [
        ("serious", datetime(2026, 8, 18, 9, tzinfo=UTC)),
        ("widespread", datetime(2026, 8, 5, 9, tzinfo=UTC)),
        ("critical-infrastructure", datetime(2026, 8, 5, 9, tzinfo=UTC)),
        ("death", datetime(2026, 8, 13, 9, tzinfo=UTC)),
    ],
)
def test_an_incident_has_the_deadline_of_its_kind(
    plan: Repository, kind: str, due: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    aware = THEN - timedelta(days=365)
    incident = plan.registers.flag_incident(kind, "plan", aware=aware, reason="Lost", by="eve")
    assert incident.due == due - timedelta(days=365)
    assert (incident.session_id, incident.by, incident.reason) == ("plan", "eve", "Lost")


def test_an_incident_is_past_due_from_its_deadline_on_until_it_is_closed(plan: Repository) -> None:
    now = datetime.now(UTC)
    late = plan.registers.flag_incident("widespread", aware=now - timedelta(days=3))
    soon = plan.registers.flag_incident("death", "plan", aware=now - timedelta(days=3))
    states = plan.registers.incidents()
    assert [(each.incident, each.is_past_due()) for each in states] == [(late, True), (soon, False)]
    assert states[1].is_past_due(soon.due + timedelta(seconds=1))
    plan.registers.close_incident(soon.token[:6], "reported", by="eve")
    states = plan.registers.incidents()
    assert not states[1].is_past_due(soon.due + timedelta(days=9))
    assert [each.incident for each in plan.registers.incidents(is_open=True)] == [late]
    assert [each.closing and each.closing.reason for each in plan.registers.incidents(is_open=False)] == ["reported"]


def test_what_is_no_incident_is_refused_and_nothing_is_written(plan: Repository) -> None:
    quads = len(plan.store)
    with pytest.raises(InvalidInput, match="serious, widespread"):
        plan.registers.flag_incident("grave")
    with pytest.raises(InvalidInput, match="future"):
        plan.registers.flag_incident(aware=datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(InvalidInput, match="more than spaces"):
        plan.registers.flag_incident(reason="  ")
    with pytest.raises(SessionNotFound):
        plan.registers.flag_incident(session="nobody")
    with pytest.raises(InvalidInput, match="no incident 'abc'"):
        plan.registers.close_incident("abc")
    assert len(plan.store) == quads


def test_an_incident_is_closed_once(plan: Repository) -> None:
    incident = plan.load("plan").flag_incident()
    plan.registers.close_incident(incident)
    with pytest.raises(InvalidInput, match="closed already"):
        plan.registers.close_incident(incident, "again")


def test_an_incident_stays_when_its_session_is_deleted(plan: Repository) -> None:
    incident = plan.registers.flag_incident(session="plan")
    plan.delete("plan")
    assert [each.incident for each in plan.registers.incidents()] == [incident]
    assert plan.verify().ok


def test_verify_finds_entries_that_were_altered_added_or_taken_away(plan: Repository) -> None:
    incident = plan.registers.flag_incident(session="plan", reason="Lost")
    assert plan.verify().ok
    node = NamedNode(incident.iri)
    due = plan.store.quads((node, vocab.DUE_BY, None, vocab.CATALOG))
    later = [Quad(node, vocab.DUE_BY, Literal("2030-01-01T00:00:00Z", datatype=vocab.DATE_TIME), vocab.CATALOG)]
    plan.store.commit(trails.store.contract.Change(add=later, remove=due))
    assert [each.code for each in plan.verify().findings] == ["row-altered"]
    every = plan.store.quads((node, None, None, vocab.CATALOG))
    plan.store.commit(trails.store.contract.Change(remove=every))
    assert "rolled-back" in [each.code for each in plan.verify().findings]
    other = NamedNode("urn:trails:register:00ff")
    forged = [Quad(other, each.predicate, each.object, vocab.CATALOG) for each in [*every]]
    plan.store.commit(trails.store.contract.Change(add=forged))
    assert "unlogged" in [each.code for each in plan.verify().findings]


def test_a_name_is_taken_out_of_the_registers_and_they_verify(plan: Repository) -> None:
    incident = plan.registers.flag_incident(session="plan", reason="Zenobia was billed twice", by="Zenobia")
    plan.registers.close_incident(incident, "Zenobia was paid back")
    places = plan.redact_matching("Zenobia").places
    assert [each.kind for each in places] == ["name", "register", "register"]
    state = plan.registers.incidents()[0]
    assert (state.incident.reason, state.incident.by, state.closing and state.closing.reason) == ("redacted",) * 3
    assert plan.verify().ok


def test_the_past_has_the_entries_of_then(plan: Repository) -> None:
    first = plan.registers.flag_incident(session="plan")
    then = plan.compare("plan").as_of
    plan.registers.close_incident(first)
    plan.registers.flag_incident("death")
    assert then is not None
    with plan.at(then) as past:
        assert [(each.incident, each.closing) for each in past.registers.incidents()] == [(first, None)]
        assert past.verify().ok


def test_a_store_that_is_only_read_takes_no_entry(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        store.registers.flag_incident()
    with trails.open(tmp_path / "s", read_only=True) as view:
        assert len(view.registers.incidents()) == 1
        with pytest.raises(StoreReadOnly):
            view.registers.flag_incident()


def test_a_dump_brings_the_registers_along(tmp_path: Path) -> None:
    from trails.session.store_restore import load_dump

    with trails.open(tmp_path / "s", create=True) as store:
        incident = store.registers.flag_incident(reason="Lost")
        store.maintenance.dump(tmp_path / "dump")
    assert load_dump(tmp_path / "dump", tmp_path / "t").ok
    with trails.open(tmp_path / "t") as other:
        assert [each.incident for each in other.registers.incidents()] == [incident]


def test_a_purpose_is_the_sessions_own_else_its_agents_else_the_stores(plan: Repository) -> None:
    assert plan.registers.purpose("plan") is None
    whole = plan.registers.set_purpose("Everything", "e")
    assert plan.registers.purpose("plan") == whole
    agent = plan.load("plan").worktree.record.agent
    of_agent = plan.registers.set_purpose("Trips", agent=agent)
    assert plan.registers.purpose("plan") == of_agent
    own = plan.load("plan").set_purpose("One trip", "b", by="eve")
    assert plan.registers.purpose("plan") == own
    again = plan.registers.set_purpose("Another trip", session="plan")
    assert plan.registers.purpose("plan") == again
    assert plan.registers.purposes("plan") == [own, again]
    assert [each.basis for each in plan.registers.purposes()] == ["public-task", None, "contract", None]
    assert plan.verify().ok


def test_what_is_no_purpose_is_refused(plan: Repository) -> None:
    with pytest.raises(InvalidInput, match="legitimate-interests, or its letter, not 'g'"):
        plan.registers.set_purpose("Trips", "g")
    with pytest.raises(InvalidInput, match="not of both"):
        plan.registers.set_purpose("Trips", session="plan", agent="clerk")
    with pytest.raises(InvalidInput, match="more than spaces"):
        plan.registers.set_purpose(" ")
    assert plan.registers.purposes() == []


def test_an_export_is_on_record_with_its_digest_and_the_heads_of_then(plan: Repository) -> None:
    before, out = plan.store.log.lines(), io.BytesIO()
    export_session(plan, "plan", "nquads", out, recipients=["the court"])
    (entry,) = plan.registers.exports()
    assert entry.sha256 == hashlib.sha256(out.getvalue()).hexdigest()
    assert (entry.form, entry.used, entry.recipients, entry.size) == ("nquads", ("plan",), ("the court",), out.tell())
    assert entry.heads == (f"urn:trails:session:plan 1 {plan.load('plan').head}",)
    assert (entry.log_size, entry.log_head) == (len(before), before[-1][-16:])
    assert plan.verify().ok


def test_an_export_without_recipients_is_on_record_only_where_reads_are(plan: Repository) -> None:
    quads = len(plan.store)
    export_session(plan, "plan", "nquads", io.BytesIO())
    make_pack(plan, audit(plan, "plan"))
    assert (len(plan.store), plan.registers.exports()) == (quads, [])
    plan.workspace.record_reads = True
    export_session(plan, "plan", "pi", io.BytesIO())
    pack = make_pack(plan, audit(plan, "plan"))
    assert [each.form for each in plan.registers.exports("plan")] == ["pi", "pack"]  # and not what is in the pack
    assert plan.registers.exports()[-1].sha256 == hashlib.sha256(pack["manifest.json"]).hexdigest()


def test_an_export_that_fails_is_not_on_record(plan: Repository) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError("the disk is full")

    with pytest.raises((OSError, InvalidInput)):
        export_session(plan, "plan", "nquads", Full(), recipients=["the court"])
    assert plan.registers.exports() == []


def test_recipients_are_refused_where_nothing_can_be_recorded(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        store.create(id="plan").persist()
    with trails.open(tmp_path / "s", read_only=True) as view:
        out = io.BytesIO()
        with pytest.raises(StoreReadOnly):
            export_session(view, "plan", "nquads", out, recipients=["the court"])
        assert out.getvalue() == b""
        with pytest.raises(InvalidInput, match="several recipients"):
            export_session(view, "plan", "nquads", out, recipients="the court")


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Repository]:
    """A store on disk with a session of one turn, of which there is a backup, and what came since."""
    with trails.open(tmp_path / "s", create=True, actor="eve") as store:
        made = store.create(id="plan")
        made.append("user", "My number is 5")
        made.persist()
        store.maintenance.backup(tmp_path / "nightly")
        made.append("user", "And 6")
        made.persist()
        yield store


def test_a_backup_is_on_record_by_its_digest_and_how_far_its_log_goes(kept: Repository, tmp_path: Path) -> None:
    (state,) = kept.registers.backups()
    data = (tmp_path / "nightly" / "trails.db").read_bytes()
    assert (state.backup.sha256, state.backup.size) == (hashlib.sha256(data).hexdigest(), len(data))
    lines = kept.store.log.lines()
    assert state.backup.log_size == 2  # that the session was made, and its turn
    assert state.backup.log_head == lines[1][-16:]
    assert (state.backup.place, state.backup.by) == (str(tmp_path / "nightly"), "eve")
    assert (state.erasures, state.destroyed) == ((), None)


def test_a_backup_holds_what_was_there_and_was_erased_since(kept: Repository, tmp_path: Path) -> None:
    kept.redact("plan", 1)
    assert kept.registers.backups(holding_erased=True) == []  # it came after the backup
    kept.redact("plan", 0)
    (state,) = kept.registers.backups(holding_erased=True)
    assert [each.rpartition("/")[2] for each in state.erasures] == ["deletion"]
    assert state.erasures[0].startswith("urn:trails:session:plan/0-")
    kept.delete("plan")
    (state,) = kept.registers.backups(holding_erased=True)
    assert state.erasures[1:] == ("urn:trails:session:plan/deletion",)
    kept.registers.destroyed_backup("nightly", "shredded")
    assert kept.registers.backups(holding_erased=True) == []
    assert kept.verify().ok


def test_a_backup_that_holds_erased_text_is_not_restored_by_mistake(kept: Repository, tmp_path: Path) -> None:
    assert restore_store(tmp_path / "nightly", tmp_path / "early", original=tmp_path / "s").ok
    kept.redact("plan", 0)
    with pytest.raises(InvalidInput, match="by 1 deletions or redactions"):
        restore_store(tmp_path / "nightly", tmp_path / "late")
    (tmp_path / "nightly" / "ERASED-SINCE.txt").unlink()
    with pytest.raises(InvalidInput, match="by 1 deletions or redactions"):
        restore_store(tmp_path / "nightly", tmp_path / "late", original=tmp_path / "s")
    assert not (tmp_path / "late").exists()
    assert restore_store(tmp_path / "nightly", tmp_path / "late", original=tmp_path / "s", with_erased=True).ok


def _run_of(store: Repository) -> Callable[[], object]:
    runs = trails.Runs(store, agent=lambda _: "answer")
    run = runs.spawn("agent:main:main", "The secret")
    return lambda: runs.withhold(run.run_id or "")


def _task_of(store: Repository) -> Callable[[], object]:
    tree = trails.Tree(store)
    tree.main("agent", "channel", id="root").spawn("branch", "The secret", id="leaf")
    return lambda: tree.withhold("leaf")


def _message_of(store: Repository) -> Callable[[], object]:
    ledger = trails.Ledger(store)
    event = ledger.receive("plan", "The secret", source="mail", event_id="1")
    return lambda: ledger.drop("plan", event.number)


def _document_of(store: Repository) -> Callable[[], object]:
    data = b"document\nprefix ex <http://example.org/>\nwasDerivedFrom(ex:secret, ex:text)\nendDocument"
    document = import_document(store, data, format="provn", name="a.provn")
    return lambda: delete_document(store, document.iri)


def _incident_of(store: Repository) -> Callable[[], object]:
    store.registers.flag_incident("death", reason="The secret")
    return lambda: store.redact_matching("The secret")


@pytest.mark.parametrize("plant", [_run_of, _task_of, _message_of, _document_of, _incident_of])
def test_a_backup_holds_texts_that_stood_beside_turns(
    plan: Repository, plant: Callable[[Repository], Callable[[], object]]
) -> None:
    erase = plant(plan)
    plan.registers.add_backup("tape 1", "0" * 64)
    assert plan.registers.backups(holding_erased=True) == []
    erase()
    (state,) = plan.registers.backups(holding_erased=True)
    assert len(state.erasures) == 1
    assert len(plan.select("backups-holding-erased").to_dicts()) == 1


def test_the_notice_beside_a_backup_has_none_of_the_text(kept: Repository, tmp_path: Path) -> None:
    kept.redact_matching("My number is 5")
    notice = (tmp_path / "nightly" / "ERASED-SINCE.txt").read_text("utf-8")
    assert "number" not in notice
    assert notice.count("\n") == 1


def test_a_name_that_two_backups_have_destroys_neither(kept: Repository, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    kept.maintenance.backup(tmp_path / "other" / "nightly")
    with pytest.raises(InvalidInput, match="2 backups are called 'nightly'"):
        kept.registers.destroyed_backup("nightly")
    assert [each.destroyed for each in kept.registers.backups()] == [None, None]


def test_a_backup_that_is_away_hinders_no_erasure(kept: Repository, tmp_path: Path) -> None:
    (tmp_path / "nightly").rename(tmp_path / "elsewhere")
    kept.redact("plan", 0)
    assert len(kept.registers.backups(holding_erased=True)) == 1


def test_what_was_missed_when_a_process_died_is_noted_with_the_next_erasure(
    kept: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("trails.history.backup_records.note_held", lambda *_: None)
        kept.redact("plan", 0)
    assert kept.registers.backups(holding_erased=True) == []
    kept.redact("plan", 1)
    (state,) = kept.registers.backups(holding_erased=True)
    assert [each.split("/")[1][:2] for each in state.erasures] == ["0-"]


def test_what_is_no_digest_of_a_backup_is_refused(plan: Repository) -> None:
    with pytest.raises(InvalidInput, match="64 hex digits"):
        plan.registers.add_backup("tape 1", "abc")


# --- reads


@pytest.fixture
def watched() -> Iterator[Repository]:
    with trails.open(":memory:", actor="eve", record_reads=True) as store:
        made = store.create(id="plan")
        made.append("user", "My number is 5")
        made.persist()
        yield store


def test_reads_say_who_read_what_through_what_and_how_often(watched: Repository) -> None:
    watched.load("plan")
    watched.load("plan")
    watched.replay("plan")
    watched.search("number")
    watched.query("transcript", session="plan")
    text = 'SELECT ?t { ?t prov:value "My number is 5" }'
    watched.query(text)
    reads = watched.registers.reads()
    assert [(each.action, each.used, each.query, each.count) for each in reads] == [
        ("load", ("plan",), None, 2),
        ("replay", ("plan",), None, 1),
        ("search", (), None, 1),
        ("query", ("plan",), "transcript", 1),
        ("query", (), None, 1),
    ]
    assert reads[-1].query_digest == hashlib.sha256(text.encode()).hexdigest()
    assert {(each.by, each.through) for each in reads} == {("eve", "python")}
    assert all("number" not in str(each.to_dict()) for each in reads)
    assert watched.verify().ok


def test_without_record_reads_nothing_is_written(plan: Repository) -> None:
    quads = len(plan.store)
    plan.load("plan")
    plan.query("deletions")
    assert (plan.registers.reads(), len(plan.store)) == ([], quads)


def test_reading_the_register_is_one_read_and_no_endless_loop(watched: Repository) -> None:
    for _ in range(3):
        watched.select("record-reads")
    assert [each.count for each in watched.registers.reads()] == [3]
    assert [each.count for each in watched.registers.reads()] == [3]  # to write and list it is none


def test_what_an_audit_reads_on_its_way_is_not_on_record_again(watched: Repository) -> None:
    audit(watched, "plan")
    assert watched.registers.reads() == []


def test_reads_are_written_some_seconds_later_and_when_the_store_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        store.create(id="plan").persist()
    with trails.open(tmp_path / "s", record_reads=True) as store:
        store.load("plan")
    with trails.open(tmp_path / "s") as store:
        assert [each.action for each in store.registers.reads()] == ["load"]
    monkeypatch.setattr("trails.history.read_records.DELAY", 0.01)
    with trails.open(tmp_path / "s", record_reads=True) as store:
        store.replay("plan")
        deadline = time.monotonic() + 10
        while len(registers.read_entries(store.store, RecordReading)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(registers.read_entries(store.store, RecordReading)) == 2


def test_reads_that_cannot_be_written_are_kept(watched: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.load("plan")
    with monkeypatch.context() as patch:
        patch.setattr(registers, "keep_entries", lambda *_: (_ for _ in ()).throw(StoreFailed("the disk is full")))
        with pytest.raises(StoreFailed):
            watched.workspace.reads.write()
    watched.load("plan")
    assert [each.count for each in watched.registers.reads()] == [2]


def test_a_command_is_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        store.create(id="plan").persist()
    ok(invoke("show", "plan", store=tmp_path / "s"))
    monkeypatch.setenv("TRAILS_RECORD_READS", "1")
    monkeypatch.setenv("TRAILS_ACTOR", "eve")
    ok(invoke("show", "plan", store=tmp_path / "s"))
    ok(invoke("query", "deletions", store=tmp_path / "s"))
    with trails.open(tmp_path / "s", record_reads=False) as store:
        found = [(each.by, each.through, each.action, each.used) for each in store.registers.reads()]
        assert found == [("eve", "command", "show", ("plan",)), ("eve", "command", "query", ())]


def test_a_request_to_a_server_is_one_read_by_its_principal() -> None:
    from tests.support.served import served

    with trails.open(":memory:", record_reads=True) as store:
        store.create(id="plan").persist()
        with served(store) as address:
            for path in ("/api/sessions/plan", "/session?id=plan", "/queries/deletions", "/health", "/session?id=none"):
                with suppress(urllib.error.HTTPError):
                    urllib.request.urlopen(f"{address.rstrip('/')}{path}").read()  # noqa: S310 - our own server
            urllib.request.urlopen(f"{address.rstrip('/')}/sparql?query=ASK%7B%7D").read()  # noqa: S310
        reads = store.registers.reads()
        assert [(each.through, each.used, each.query) for each in sorted(reads, key=lambda each: each.started)] == [
            ("api", ("plan",), None),
            ("console", ("plan",), None),
            ("endpoint", (), "deletions"),
            ("endpoint", (), None),
        ]
        assert reads[-1].query_digest == hashlib.sha256(b"ASK{}").hexdigest()


def test_what_shows_a_session_names_it_whichever_way_it_was_asked_for() -> None:
    from tests.support.served import served

    with trails.open(":memory:", record_reads=True) as store:
        for name in ("one", "two"):
            session = store.create(id=name, label=f"the-{name}")
            session.append("user", "Hello")
            session.persist()
        with served(store) as address:
            for path in (
                "/api/diff?left=one&right=two",
                "/graphs?graph=urn:trails:session:two",
                "/api/sessions/the-two/turns",
                "/compare?left=one&right=two",
            ):
                urllib.request.urlopen(f"{address.rstrip('/')}{path}").read()  # noqa: S310 - our own server
        reads = sorted(store.registers.reads(), key=lambda each: each.started)
        assert [each.used for each in reads] == [("one", "two"), ("two",), ("two",), ("one", "two")]


def test_a_program_that_compares_diffs_and_lists_texts_and_notes_is_on_record(watched: Repository) -> None:
    watched.create(id="other").persist()
    watched.diff("plan", "other@0")
    watched.diff(watched.load("other"), "plan")
    watched.compare(["plan", "other"])
    watched.notes.list("plan")
    watched.summaries()
    reads = sorted(watched.registers.reads(), key=lambda each: each.started)
    assert [(each.action, each.used, each.count) for each in reads] == [
        ("diff", ("other", "plan"), 2),
        ("load", ("other",), 1),
        ("compare", ("other", "plan"), 1),
        ("notes", ("plan",), 1),
        ("summaries", (), 1),
    ]


def test_commands_name_all_sessions_the_query_and_a_copy_of_the_whole_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "s"
    with trails.open(place, create=True) as store:
        for name in ("one", "two"):
            store.create(id=name).persist()
    monkeypatch.setenv("TRAILS_RECORD_READS", "1")
    ok(invoke("compare", "one", "two", store=place))
    ok(invoke("query", "exchanges", "-p", "session=two", store=place))
    ok(invoke("query", "ASK {}", store=place))
    ok(invoke("copy", str(place), str(tmp_path / "copy")))
    with trails.open(place, record_reads=False) as store:
        reads = [(each.action, each.used, each.query, each.query_digest) for each in store.registers.reads()]
    assert reads == [
        ("compare", ("one", "two"), None, None),
        ("query", ("two",), "exchanges", None),
        ("query", (), None, hashlib.sha256(b"ASK {}").hexdigest()),
        ("copy", (), None, None),
    ]


def test_of_a_destroyed_backup_nothing_more_is_noted(kept: Repository) -> None:
    kept.registers.destroyed_backup("nightly")
    kept.redact("plan", 0)
    assert [each.erasures for each in kept.registers.backups()] == [()]


def test_whoever_sees_some_sessions_only_sees_no_register(plan: Repository) -> None:
    from trails.serve.scoped_views import ScopedViews

    plan.registers.flag_incident(session="plan", reason="Lost", by="alice")
    plan.registers.set_purpose("Trips", session="plan", by="alice")
    view = ScopedViews(plan).of("alice")
    assert "plan" in view
    assert view.store.quads((None, vocab.TYPE, vocab.INCIDENT, vocab.CATALOG)) == []
    assert view.registers.incidents() == []
    assert view.registers.purposes() == []
