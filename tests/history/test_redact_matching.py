"""A text is taken out wherever it stands: no engine, file, export or query has it any more, and everything verifies."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.everything import everything
from tests.support.tampering import bytes_of
from trails import Compaction, HeadConflict, IntegrityError, InvalidInput, Repository
from trails.exchange.file_import import export_session
from trails.exchange.rdf_files import import_rdf
from trails.history import log_leaves, turn_builder
from trails.history.records.text_matcher import TextMatcher
from trails.history.removal import text_erasure
from trails.history.removal.text_erasure import TextRedaction
from trails.history.transaction import Transaction
from trails.integrity import digests
from trails.integrity.signed_notes import new_key
from trails.model import iris
from trails.provenance import delete_document, import_document
from trails.rdf import vocab
from trails.runtime.routing.access_rules import View
from trails.store import Change, EmbeddedStore
from trails.store.contract import PreconditionFailed

Run = Callable[..., Result]
MARK = 'Zoë "Quark" Ähl'
"""A text that JSON escapes (quotes, letters beyond ASCII) and IRIs encode."""
NAME = "zoe-quark"
"""The same for places where no quotes may stand."""
AT = datetime(2026, 5, 1, tzinfo=UTC)


def content(s: Repository) -> None:
    s_ = s.create(id="s")
    s_.append("user", f"I am {MARK}.")
    s_.persist()


def parts(s: Repository) -> None:
    s_ = s.create(id="s")
    s_.append("user", [{"type": "text", "text": f"> {MARK}"}, {"type": MARK, MARK: 1}])
    s_.persist()


def escaped_content(s: Repository) -> None:
    """JSON within JSON within a string, escaped as ASCII twice."""
    s_ = s.create(id="s")
    s_.append("user", json.dumps({"said": json.dumps({"who": MARK})}))
    s_.persist()


def in_base64(text: str = MARK) -> str:
    return base64.b64encode(f"{text}, DE1234567890".encode()).decode()


def content_in_base64(s: Repository) -> None:
    """A file in a message, as a data URL, URL-safe, in a text alone, and base64 within base64."""
    s_ = s.create(id="s")
    s_.append("user", [{"type": "text", "text": "See"}, {"type": "file", "data": in_base64()}])
    s_.append("user", [{"type": "image_url", "url": f"data:text/csv;base64,{in_base64()}"}])
    s_.append("tool", "\n" + base64.urlsafe_b64encode(b"\xff\xfe\xfd" + MARK.encode()).decode(), tool_call_id="t1")
    s_.append("user", "See " + base64.b64encode(f"file {in_base64()}".encode()).decode())
    s_.persist()


def arguments_in_base64(s: Repository) -> None:
    s_ = s.create(id="s")
    s_.append("assistant", "", tool_calls=[{"id": "t1", "name": "save", "arguments": {"file": in_base64()}}])
    s_.append("tool", "saved", tool_call_id="t1")
    s_.persist()


def meta_in_base64(s: Repository) -> None:
    s_ = s.create(id="s", meta={"file": in_base64(), "files": [{"data": in_base64()}]})
    s_.append("user", "Hello", meta={"file": in_base64(), "kept": "yes"})
    s_.persist()


def arguments(s: Repository) -> None:
    s_ = s.create(id="s")
    call = {"id": "t1", "name": "save", "arguments": {"who": [MARK], "raw": json.dumps({"who": MARK})}}
    s_.append("assistant", "I save.", tool_calls=[call])
    s_.append("tool", "saved", tool_call_id="t1")
    s_.persist()


def turn_meta(s: Repository) -> None:
    s_ = s.create(id="s")
    s_.append("user", "Hello", meta={"from": {MARK: 1}})
    s_.persist()


def request(s: Repository) -> None:
    s_ = s.create(id="s")
    s_.append("user", "Hello")
    made = Compaction(summarised_through=0, trigger="manual", request=f"Sum up what {MARK} said")
    s_.append("summary", "A greeting.", compaction=made)
    s_.persist()


def role(s: Repository) -> None:
    s_ = s.create(id="s")
    s_.append("user", "Hello")
    s_.append(NAME, "Hello too")
    s_.append("user", "Bye")
    s_.persist()


def author(s: Repository) -> None:
    s_ = s.create(id="s")
    s_.append("user", "Hello", author=MARK)
    s_.append("assistant", "Hello too", author=f"agent:{MARK}", model="m-1", usage={"input_tokens": 3})
    s_.append("user", "Bye")
    s_.persist()
    fork = s_.fork(at=2, id="fork")
    fork.append("user", "Bye bye", author=MARK)
    fork.persist()
    fork.detach()
    s_.flatten(id="flat")


def author_in_forks(s: Repository) -> None:
    """The first turns of a fork, of a fork of that, and of one that shares nothing."""
    s_ = s.create(id="s")
    s_.append("user", "Hello")
    s_.append("user", "Hello?")
    s_.persist()
    fork = s_.fork(at=1, id="fork")
    fork.append("user", "Bye", author=MARK)
    fork.persist()
    for at, name in ((2, "deeper"), (1, "beside"), (0, "apart")):
        made = fork.fork(at=at, id=name)
        made.append("user", f"Bye from {name}", author=MARK)
        made.append("user", "Really")
        made.persist()


def facts(s: Repository) -> None:
    """Model, usage (a key and a value), stop reason, tool name and call id, and who answered the call."""
    s_ = s.create(id="s")
    usage = {"input_tokens": 3, f"for {MARK}": 4, "by": MARK, "output_tokens": 7}
    call = {"id": f"call {NAME} {MARK}", "name": f"ask {MARK}", "arguments": {}}
    s_.append("assistant", "I ask.", model=f"m {MARK}", usage=usage, stop_reason=f"as {MARK} said", tool_calls=[call])
    s_.append("tool", "no", tool_call_id=f"call {NAME} {MARK}")
    s_.persist()
    s_.flatten(id="flat")


def source_ids(s: Repository) -> None:
    s_ = s.create(id="s", source_session=f"chat of {MARK}")
    s_.worktree.append(turn_builder.make_draft("user", "hello", source_ids=[f"{MARK} 1", f"{MARK} 2"], timed=False))
    made = Compaction(summarised_through=0, trigger=f"asked by {MARK}")
    s_.append("summary", "A greeting.", compaction=made)
    s_.persist()


def system_prompt(s: Repository) -> None:
    s_ = s.create(id="s", system=f"You talk to {MARK}")
    s_.append("user", "Hello")
    s_.set_system(f"You still talk to {MARK}")
    s_.persist()


def row(s: Repository) -> None:
    """Principal, agent, label, and metadata: a key, a value, one nested."""
    meta = {MARK: 1, "who": MARK, "deep": {"who": [MARK]}, "kept": "yes"}
    s_ = s.create(id="s", principal=MARK, agent=MARK, label=MARK, kind=NAME + MARK, meta=meta)
    s_.append("user", "Hello")
    s_.persist()
    s_.fork(id="fork").persist()


def note(s: Repository) -> None:
    content_of(s)
    s.notes.add("s", 0, f"This is {MARK}", by=MARK)
    s.notes.remove(s.notes.add("s", 0, "gone", by=MARK).id, by=MARK)


def tag(s: Repository) -> None:
    content_of(s)
    s.tags.add(NAME, "s", by=MARK)
    s.tags.add(f"{NAME}-2", "s")
    s.tags.remove(f"{NAME}-2", by=MARK)


def content_of(s: Repository, id: str = "s", **more: Any) -> None:  # noqa: A002 - as create has it
    s_ = s.create(id=id, **more)
    s_.append("user", "Hello")
    s_.persist()


def reasons(s: Repository) -> None:
    """What redactions and deletions say of who did them and why."""
    content_of(s)
    content_of(s, "t")
    s.redact("s", 0, by=MARK, reason=f"{MARK} asked")
    s.delete("t", by=MARK)


def ledger(s: Repository) -> None:
    """Messages that wait and were answered, what was sent, reasons, errors, ids and addresses."""
    s.create(id="s").persist()
    book = trails.Ledger(s, clock=lambda: AT)
    to: dict[str, Any] = {"source": MARK, "channel": MARK, "account": MARK, "peer": MARK, "author": MARK}
    book.receive("s", "Is it open?", event_id=f"m {MARK}", **to)
    book.process("s", lambda running: "Until six.")
    answer = book.events("s", direction="outbound")[0]
    book.delivered(answer, outcome="failed", reason=f"{MARK} is away")
    book.delivered(answer, text=f"Until six, {MARK}.")
    book.receive("s", f"I am {MARK}", event_id="m-2", **to)
    book.receive("s", [{"type": "text", "text": MARK}], event_id="m-3", **to)

    def failing(running: object) -> str:
        raise RuntimeError(f"no answer for {MARK}")

    with pytest.raises(RuntimeError):
        book.process("s", failing)


def session_tree(s: Repository) -> None:
    """Tasks, context summaries, results, artifacts, reasons of ends and of cancellations, tiers, channels."""
    tree = trails.Tree(s, clock=lambda: AT)
    chat = tree.main(MARK, MARK, id="chat", system=f"Lead {MARK}", principal=MARK)
    scan = chat.spawn("branch", f"Look for {MARK}", f"{MARK} is meant", timedelta(days=9), "large", id="scan")
    one = scan.spawn("worker", "Count", id="count", ttl=timedelta(days=2))
    one.complete(f"I saw {MARK}", artifacts=[(f"file:///{MARK}.csv".replace('"', ""), "created", "ab" * 32)])
    tree.incorporate(scan.results()[0], f"{MARK} was seen")
    bad = chat.spawn("branch", "Book", id="beds", by=MARK)
    bad.cancel(f"{MARK} said so")
    worse = chat.spawn("branch", "Write", id="letters")
    worse.fail(f"{MARK} is gone")


def keyed(s: Repository) -> None:
    """Keys, aliases, moves, labels of conversations, entries: known fields, unknown ones, their names."""
    config = {"session": {"dmScope": "per-peer"}}
    router = trails.Router(s, config=config)
    hello = trails.Inbound(channel="telegram", peer=NAME, principal=MARK, content="Hello")
    first = router.route(hello)
    router.patch(first.key, {"label": f"{MARK}'s desk", "thinkingLevel": "low"})
    router.merge(first.key, {"subject": MARK, "mine": {"a": [MARK]}, f"x{NAME}": 1, "displayName": "Kept"})
    router.alias(f"agent:main:dm:{NAME}-2", first.key, by=MARK)
    router.unalias(f"agent:main:dm:{NAME}-2", by=MARK)
    router.alias(f"agent:main:dm:{NAME}-3", first.key, by=MARK)
    router.promote(first.key, f"agent:main:dm:new-{NAME}", by=MARK)


def registry(s: Repository) -> None:
    """Runs: tasks, errors, labels, keys, whatever else a record held."""
    content_of(s, "child", key="agent:main:subagent:c")
    done = {
        "runId": "r1",
        "childSessionKey": "agent:main:subagent:c",
        "requesterSessionKey": f"agent:main:dm:{NAME}",
        "requesterDisplayKey": MARK,
        "requesterOrigin": {"channel": MARK, "to": MARK, "accountId": MARK, "threadId": MARK},
        "task": f"Look for {MARK}",
        "label": MARK,
        "createdAt": 1770000000000,
        "endedAt": 1770000000000,
        "outcome": {"status": "error", "error": f"no {MARK}"},
        "model": MARK,
        "other": {"who": MARK},
    }
    quiet = {**done, "runId": "r2", "task": "Look", "label": MARK, "outcome": {"status": "ok"}, "other": 1}
    trails.Runs(s).import_file({"version": 2, "runs": {"r1": done, "r2": quiet}})


Plant = Callable[[Repository], None]
Kinds = dict[str, int]
# What holds the text, by kind of place; several properties of one thing are one place of each kind.
PLANTS: list[tuple[Plant, str, Kinds]] = [
    (content_in_base64, MARK, {"content": 4}),
    (arguments_in_base64, MARK, {"call arguments": 1}),
    (meta_in_base64, MARK, {"turn metadata": 1, "metadata": 1}),
    (content, MARK, {"content": 1}),
    (parts, MARK, {"content": 1}),
    (escaped_content, MARK, {"content": 1}),
    (arguments, MARK, {"call arguments": 1}),
    (turn_meta, MARK, {"turn metadata": 1}),
    (request, MARK, {"summary request": 1}),
    (role, NAME, {"role": 1}),
    # two turns in s, both copied to fork and to flat, one of fork's own
    (author, MARK, {"author": 7}),
    (author_in_forks, MARK, {"author": 4}),
    (facts, MARK, {"model": 2, "usage": 2, "stop reason": 2, "tool name": 2, "call id": 4, "author": 2, "name": 1}),
    # all copied once; the answer is the tool's, and the catalog names that
    (facts, NAME, {"call id": 4}),
    (source_ids, MARK, {"source id": 1, "trigger": 1, "source session": 1}),
    (system_prompt, MARK, {"system prompt": 2}),
    # rows of s and fork; principal and agent themselves; s's kind; the turn that the principal wrote
    (row, MARK, {"name": 4, "label": 1, "metadata": 1, "row": 1, "author": 1}),
    (note, MARK, {"note": 1, "name": 3}),  # by whom: of the note, of the removal, and the principal itself
    (tag, MARK, {"name": 3}),
    (tag, NAME, {"tag": 2}),  # one is the record of a removed one
    (reasons, MARK, {"reason": 1, "name": 3}),
    (ledger, MARK, {"ledger text": 4, "ledger field": 6, "author": 1}),  # texts: 5, 6, 7 and the error of 8
    # Prompts: of all but the worker. Texts: scan's task and context, two reasons, a result, and that in chat's inbox.
    # Fields: who did it in 15 entries, and where the artifact is; one turn says the result. Row: chat's channel.
    (
        session_tree,
        MARK,
        # names: one of them is who made a fork
        {"name": 8, "system prompt": 4, "ledger text": 6, "ledger field": 5, "author": 1, "content": 1, "row": 1},
    ),
    # Labels: the conversation's, and in the move. Names: of the session, two aliases, the move, and the principal itself.
    # New value: what the label was set to. What a host lays over an entry is not repeated.
    (keyed, MARK, {"name": 5, "label": 2, "entry field": 2, "ledger field": 1, "new value": 1}),
    # Keys: the session's, the conversation's, two aliases and the move. Fields: where an answer goes, and one by its name,
    # which the record of its change has too.
    (keyed, NAME, {"key": 5, "entry field": 2, "ledger field": 1, "field": 1}),
    (registry, MARK, {"run": 2}),
    (registry, NAME, {"run": 2}),
]


# --- looking for the text from outside


def spellings(text: str) -> set[str]:
    """A text as it may stand in a file: plain, in JSON, in JSON within JSON, in N-Quads, in an IRI, in base64."""
    from urllib.parse import quote

    found = {text, quote(text, safe=""), quote(text, safe="-._~:@+=,!*;$&()")}
    for _ in range(3):
        found |= {json.dumps(each)[1:-1] for each in found} | {
            json.dumps(each, ensure_ascii=False)[1:-1] for each in found
        }
    return found | {in_base64(text)[: len(text.encode()) * 8 // 6]}


def holding(data: str | bytes, text: str) -> set[str]:
    plain = data if isinstance(data, str) else data.decode()
    return {each for each in spellings(text) if each in plain}


def raw(folder: Path) -> str:
    """All that the records of the log hold, unpacked, and all bytes of the store's files."""
    with closing(EmbeddedStore(folder)) as store:
        records = [each.record for each in store.commits.records(0, store.number)]
    parts = [
        b"".join((*(each.encode() for each in (*record.drop, *record.leaves)), record.remove, record.add))
        for record in records
    ]
    return (b"".join(parts) + bytes_of(folder)).decode("utf-8", "replace")


EVERYTHING = (
    """SELECT (CONCAT(STR(?s), " ", STR(?p), " ", STR(?o)) AS ?text) { {?s ?p ?o} UNION {GRAPH ?g {?s ?p ?o}} }"""
)


def all_by_sparql(store: Repository) -> str:
    return "\n".join(row[0].value for row in store.query(EVERYTHING, union=False))  # type: ignore[union-attr] # a SELECT


def exports(store: Repository) -> Iterator[bytes]:
    """Each session in each format that can carry it."""
    for record in store.list():
        for form in ("nquads", "trig", "pi", "jsonl"):
            out = io.BytesIO()
            with contextlib.suppress(InvalidInput):
                export_session(store, record.id, form, out)
            yield out.getvalue()


def dumped(store: Repository, file: Path) -> bytes:
    store.maintenance.dump(file, replace=True)
    return gzip.decompress(file.read_bytes())


def kinds(report: TextRedaction) -> Kinds:
    return dict(Counter(place.kind for place in report.places))


@pytest.mark.parametrize(("plant", "text", "wanted"), PLANTS, ids=lambda each: getattr(each, "__name__", None))
@pytest.mark.sample(9)
def test_a_text_is_nowhere_any_more_and_everything_verifies(
    tmp_path: Path, plant: Plant, text: str, wanted: Kinds
) -> None:
    folder, file = tmp_path / "s", tmp_path / "dump.nq.gz"
    with trails.open(folder, create=True, durability="process") as store:
        plant(store)
        before = dumped(store, file)
        assert holding(before, text)
        assert holding(all_by_sparql(store), text)
        listed = store.redact_matching(text, dry_run=True)
        assert dumped(store, file) == before
        assert kinds(listed) == wanted
        done = store.redact_matching(text, by="officer", reason="asked for")
        assert (done.places, done.left, done.dry_run) == (listed.places, (), False)
        assert store.verify().findings == ()
        assert not holding(all_by_sparql(store), text)
        store.maintenance.vacuum()
        assert not holding(dumped(store, file), text)
        written = list(exports(store))
        assert any(written)
        assert not any(holding(each, text) for each in written)
        heads = {record.id: store.load(record.id).head for record in store.list()}
        for session_id in heads:
            with trails.open(":memory:") as other:
                imported = import_rdf(other, nquads(store, session_id), "nquads")
                assert [problem.reason for problem in imported.problems] == []
                assert {each.code for each in other.verify().findings} <= {"bad-lineage"}  # who spawned it is not there
    assert not holding(raw(folder), text)
    with trails.open(folder) as store:
        assert {record.id: store.load(record.id).head for record in store.list()} == heads


# --- what stays


@pytest.fixture
def told(memory: Repository) -> Repository:
    """A session of three turns, the second by an agent of the name and with facts that hold the text; a flat copy."""
    facts(memory)
    return memory


def test_facts_go_one_by_one_and_the_rest_of_them_stays(told: Repository) -> None:
    head = told.load("s").head
    told.redact_matching(MARK, by="officer")
    for session_id in ("s", "flat"):
        turn, answer = told.load(session_id).turns
        assert (turn.content, turn.role, turn.model) == ("I ask.", "assistant", "redacted")
        assert turn.usage == {"input_tokens": 3, "redacted": 4, "by": "redacted", "output_tokens": 7}
        assert [call.name for call in turn.tool_calls] == ["redacted"]
        assert turn.tool_calls[0].id == answer.tool_results[0].call_id
        assert turn.tool_calls[0].id.startswith("redacted-")
    assert told.load("s").head == head
    rows = told.query("token-usage-by-session").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert {(row["input"], row["output"]) for row in rows if str(row["session"]).endswith(":s")} == {(3, 7)}


def test_an_author_becomes_the_redacted_one_and_the_turns_after_it_still_chain(memory: Repository) -> None:
    author(memory)
    heads = {each: memory.load(each).head for each in ("s", "fork", "flat")}
    memory.redact_matching(MARK)
    assert [turn.author_iri for turn in memory.load("s").turns] == [
        "urn:trails:principal:redacted",
        "urn:trails:agent:redacted",
        "urn:trails:principal:anonymous",
    ]
    later = memory.load("fork")
    later.append("user", "Still here")
    assert later.persist() == 1
    assert {each: memory.load(each).head for each in ("s", "flat")} == {each: heads[each] for each in ("s", "flat")}
    assert memory.verify().findings == ()
    memory.redact("s", 0, by="officer")  # the content goes later than the name
    assert memory.verify().findings == ()
    memory.detach("fork")
    memory.flatten("fork", id="later")
    assert memory.verify().findings == ()


def test_a_turn_that_lost_a_fact_can_be_picked_and_the_picked_one_stands_for_itself(told: Repository) -> None:
    told.redact_matching(MARK)
    other = told.create(id="other")
    other.cherry_pick("s", 0, whole_calls=True)
    other.persist()
    assert told.load("other").turns[0].model == "redacted"
    assert told.verify().findings == ()


def test_what_was_taken_out_says_who_did_it_when_why_and_of_what_kinds(memory: Repository) -> None:
    row(memory)
    start = datetime.now(UTC)
    memory.redact_matching(MARK, by="officer", reason="asked for")
    found: dict[str, dict[NamedNode, set[str]]] = {}
    for quad in memory.store.quads((None, None, None, vocab.CATALOG)):
        name = str(getattr(quad.subject, "value", ""))
        if "/redaction/" in name or "/deletion" in name:
            said = found.setdefault(name.partition("/")[0], {})
            said.setdefault(quad.predicate, set()).add(str(getattr(quad.object, "value", "")))
    assert set(found) == {"urn:trails:session:s", "urn:trails:session:fork"}
    mine = found["urn:trails:session:s"]
    assert mine[vocab.ASSOCIATED_WITH] == {"urn:trails:principal:officer"}
    assert mine[vocab.REASON] == {"asked for"}
    assert mine[vocab.REDACTED_PLACE] == {"author", "label", "metadata", "name", "row"}
    assert all(start <= datetime.fromisoformat(each) <= datetime.now(UTC) for each in mine[vocab.ENDED_AT])
    assert memory.record("s").meta == {"kept": "yes"}
    assert (memory.record("s").principal, memory.record("s").agent, memory.record("s").label) == (
        "redacted",
        "redacted",
        None,
    )


def test_two_labels_keys_and_tags_with_the_text_stay_apart(memory: Repository) -> None:
    for number in (1, 2):
        content_of(memory, f"s{number}", label=f"{NAME} {number}")
        memory.tags.add(f"{NAME}-{number}", f"s{number}")
    memory.redact_matching(NAME)
    assert len({tag.name for tag in memory.tags.list()}) == 2
    assert memory.verify().findings == ()


def test_a_note_and_a_system_prompt_stay_without_their_texts(memory: Repository) -> None:
    memory.create(id="s", system=f"You talk to {MARK}").persist()
    content_of(memory, "t")
    memory.notes.add("t", 0, f"This is {MARK}", by="bob")
    memory.redact_matching(MARK)
    [left] = memory.notes.list("t")
    assert (left.text, left.redacted, left.author) == ("", True, "bob")
    assert memory.load("s").system is None
    memory.load("s").fork(id="f").persist()
    assert memory.verify().findings == ()


def test_what_cannot_go_is_told_and_everything_else_goes(memory: Repository) -> None:
    content_of(memory, NAME, label=NAME)
    report = memory.redact_matching(NAME)
    assert [(each.session_id, each.kind) for each in report.left] == [(NAME, "session id")]
    assert "delete the session" in (report.left[0].why or "")
    assert memory.record(NAME).label is None
    assert memory.verify().findings == ()


@pytest.mark.parametrize(
    ("text", "more", "why"),
    [
        ("x", {}, "2 characters or more"),
        ("  ", {}, "2 characters or more"),
        ("act", {}, "is part of 'redacted'"),
        ("Zoe", {"reason": "Zoe asked"}, "the reason holds the text"),
        ("Zoe", {"by": "Zoe"}, "by holds the text"),
    ],
)
def test_a_text_that_cannot_be_looked_for_or_would_be_kept_is_refused(
    memory: Repository, text: str, more: dict[str, str], why: str
) -> None:
    content_of(memory, label="Zoe act x")
    with pytest.raises(InvalidInput, match=why):
        memory.redact_matching(text, **more)  # type: ignore[arg-type] # names of options
    assert memory.record("s").label == "Zoe act x"


def test_what_another_writer_changes_meanwhile_is_found_in_a_second_round(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    content_of(memory, label=f"for {NAME}")
    rounds: list[int] = []
    real = text_erasure._transaction

    def late(*arguments: Any) -> Transaction:
        made = real(*arguments)
        if not rounds:
            memory.set_label("s", f"of {NAME}")
            memory.notes.add("s", 0, f"This is {NAME}")
        rounds.append(1)
        return made

    monkeypatch.setattr(text_erasure, "_transaction", late)
    report = memory.redact_matching(NAME)
    assert (len(rounds), [place.kind for place in report.places]) == (2, ["label", "new value", "note", "old value"])
    assert memory.record("s").label is None
    assert memory.verify().findings == ()


# --- what verify makes of it


def of_turn(store: Repository, index: int) -> list[Quad]:
    graph = NamedNode(iris.session("s"))
    return [quad for quad in store.store.quads((None, None, None, graph)) if f"/{index}-" in str(quad.subject)]


@pytest.mark.slow
def test_no_quad_of_a_turn_that_lost_a_name_or_a_fact_can_be_altered_or_removed_unnoticed(memory: Repository) -> None:
    s_ = memory.create(id="s")
    s_.append("user", "Hello", author=MARK)
    s_.append("assistant", "Hello too", model=MARK, usage={"input_tokens": 3})
    s_.append("user", "Bye")
    s_.persist()
    memory.redact_matching(MARK, by="officer")
    assert memory.verify().ok
    records = [q for q in memory.store.quads((None, None, None, vocab.CATALOG)) if "/deletion" in str(q.subject)]
    turns = [*of_turn(memory, 0), *of_turn(memory, 1)]
    assert (len(records), len(turns)) == (2 * 8, 10 + 10 + 1 + 1 + 5)  # facts digest, link to the call, the call's five
    for quad in records + turns:
        if isinstance(quad.object, Literal):
            value: Literal | NamedNode = Literal(f"{quad.object.value}1", datatype=quad.object.datatype)
        else:
            value = NamedNode(f"{quad.object.value}x")  # type: ignore[union-attr] # an IRI
        other = Quad(quad.subject, quad.predicate, value, quad.graph_name)
        for change in (Change(remove=[quad]), Change(add=[other], remove=[quad])):
            memory.store.commit(change)
            assert not memory.verify().ok, f"unnoticed: {change}"
            memory.store.commit(Change(add=change.remove, remove=change.add))
    assert memory.verify().ok


def test_a_turn_that_was_altered_is_not_laundered_by_taking_its_author_out(memory: Repository) -> None:
    author(memory)
    graph = NamedNode(iris.session("s"))
    [quad] = [q for q in of_turn(memory, 0) if q.predicate == vocab.VALUE]
    forged = Quad(quad.subject, quad.predicate, Literal("Goodbye"), graph)
    memory.store.commit(Change(add=[forged], remove=[quad]))
    with pytest.raises(IntegrityError, match="turn 0 of session 's' was altered"):
        memory.redact_matching(MARK)


def swapped(store: Repository, pattern: Any, value: Literal | NamedNode) -> None:
    """Put a value in the place of another behind the store's back."""
    [quad] = store.store.quads(pattern)
    store.store.commit(Change(add=[Quad(quad.subject, quad.predicate, value, quad.graph_name)], remove=[quad]))


GONE = Literal("", datatype=vocab.REDACTED)


@pytest.mark.parametrize("what", ["author", "fact", "prompt", "note", "message", "run"])
def test_what_goes_without_a_logged_redaction_is_found(memory: Repository, what: str) -> None:
    s_ = memory.create(id="s", system="Be kind")
    s_.append("user", "Hello", author="zoe")
    s_.append("assistant", "Hello too", model="m-1")
    s_.persist()
    memory.notes.add("s", 0, "Who is that?")
    trails.Ledger(memory).receive("s", "Is it open?")
    registry(memory)
    assert memory.verify().ok
    graph, book = NamedNode(iris.session("s")), NamedNode(iris.ledger(iris.session("s")))
    first = NamedNode(s_.turns[0].iri)
    if what == "author":
        swapped(memory, (first, vocab.ATTRIBUTED_TO, None, graph), NamedNode("urn:trails:principal:redacted"))
    elif what == "fact":
        swapped(memory, (None, vocab.MODEL, None, graph), Literal("redacted"))
        second = NamedNode(s_.turns[1].iri)
        salt = memory.reader.sealed([s_.turns[1]])[0].salt
        whole = Literal(digests.facts_digest(s_.turns[1].facts, salt))  # so that the turn's own digest fits
        memory.store.commit(Change(add=[Quad(second, vocab.FACTS_DIGEST, whole, graph)]))
    elif what == "prompt":
        swapped(memory, (NamedNode("urn:trails:session:s/system/1"), vocab.VALUE, None, vocab.CATALOG), GONE)
    elif what == "note":
        [note_] = memory.notes.list("s")
        swapped(memory, (NamedNode(iris.note(note_.id)), vocab.VALUE, None, vocab.CATALOG), GONE)
    elif what == "message":
        swapped(memory, (None, vocab.VALUE, None, book), GONE)
        memory.store.commit(Change(remove=memory.store.quads((None, vocab.SALT, None, book))))
    else:
        [run] = memory.store.quads((None, vocab.RUN_ID, Literal("r2"), vocab.CATALOG))
        node = NamedNode(run.subject.value)  # type: ignore[union-attr] # an IRI
        swapped(memory, (node, vocab.TASK, None, vocab.CATALOG), GONE)
        for predicate in (vocab.SALT, vocab.RUN_ERROR, vocab.RUN_EXTRA):
            memory.store.commit(Change(remove=memory.store.quads((node, predicate, None, vocab.CATALOG))))
    assert not memory.verify().ok


# --- names that nothing mentions


def names(store: Repository) -> set[str]:
    quads = [
        q for kind in (vocab.PRINCIPAL, vocab.AGENT) for q in store.store.quads((None, vocab.TYPE, kind, vocab.CATALOG))
    ]
    return {str(getattr(quad.subject, "value", "")).removeprefix("urn:trails:") for quad in quads}


def test_a_name_goes_from_the_catalog_with_its_last_mention(memory: Repository) -> None:
    content_of(memory, "one", principal="eve", agent="planner")
    content_of(memory, "two", principal="eve", agent="cook")
    assert names(memory) == {"principal:eve", "agent:planner", "agent:cook"}
    memory.delete("one", by="officer")
    assert names(memory) == {"principal:eve", "agent:cook", "principal:officer"}
    memory.delete("two", by="officer")
    assert names(memory) == {"principal:officer"}
    assert memory.verify().findings == ()


def test_a_name_that_only_a_ledger_or_a_session_without_turns_mentioned_goes_with_it(memory: Repository) -> None:
    memory.create(id="empty", principal="eve", agent="cook").persist()
    content_of(memory, "desk", principal="bob")
    trails.Ledger(memory).receive("desk", "Hello", author="bob")
    memory.delete("empty", by="officer")
    assert names(memory) == {"principal:bob", "agent:agent", "principal:officer"}
    memory.delete("desk", by="officer")
    assert names(memory) == {"principal:officer"}


def test_a_vacuum_sweeps_what_a_crash_left_of_a_name(tmp_path: Path) -> None:
    with trails.open(tmp_path / "s", create=True) as store:
        content_of(store)
        eve = NamedNode("urn:trails:principal:eve")
        store.store.commit(Change(add=[Quad(eve, vocab.TYPE, vocab.PRINCIPAL, vocab.CATALOG)]))
        store.maintenance.vacuum()
        assert names(store) == {"principal:anonymous", "agent:agent"}


def test_a_name_that_is_taken_out_goes_from_the_catalog_and_those_in_use_stay(memory: Repository) -> None:
    content_of(memory, "one", principal="eve", agent="planner")
    content_of(memory, "two", principal="bob", agent="planner")
    memory.redact_matching("eve")
    assert names(memory) == {"principal:redacted", "principal:bob", "agent:planner", "agent:unknown"}


# --- what others see of it


def nquads(store: Repository, session_id: str) -> bytes:
    out = io.BytesIO()
    export_session(store, session_id, "nquads", out)
    return out.getvalue()


def family(store: Repository) -> None:
    s_ = store.create(id="s", principal="alice")
    s_.append("user", "swordfish", author=NAME)
    s_.append("user", "Hello")
    s_.persist()
    s_.fork(at=1, id="fork", principal="bob").persist()
    store.redact("s", 0, by="judge", reason="sealed by the court")
    store.redact_matching(NAME, by="judge", reason="sealed by the court")


def test_a_detached_fork_shows_nobody_who_redacted_its_parent_and_why(memory: Repository) -> None:
    family(memory)
    assert b"judge" in nquads(memory, "fork")  # while the parent's turns are part of it
    memory.detach("fork")
    data = nquads(memory, "fork")
    assert b"judge" not in data
    assert b"sealed" not in data
    view = View(memory, "fork")
    rows = view.query("SELECT ?o { ?s ?p ?o }").to_dicts()  # type: ignore[union-attr] # a SELECT
    assert rows
    assert not [row for row in rows if "judge" in str(row["o"]) or "sealed" in str(row["o"])]
    with trails.open(":memory:") as other:
        assert import_rdf(other, data, "nquads").problems == []
        assert other.verify().findings == ()
        assert other.load("fork").turns[0].redacted
        assert nquads(other, "fork") == data
    assert b"judge" in nquads(memory, "s")


def test_an_export_from_before_comes_back_without_the_name(memory: Repository) -> None:
    author(memory)
    facts_of = memory.create(id="more")
    facts_of.append("assistant", "I ask.", model=MARK)
    facts_of.persist()
    old = [nquads(memory, each) for each in ("flat", "more")]
    memory.flatten("more", id="more-2")
    memory.redact_matching(MARK)
    memory.delete("flat")
    memory.delete("more")
    for data in old:
        assert import_rdf(memory, data, "nquads", restore=True).problems == []
    everything = [quad for quad in memory.store.quads((None, None, None, None)) if quad.graph_name != vocab.CATALOG]
    assert not holding("\n".join(map(str, everything)), MARK)
    assert memory.load("flat").turns[0].author == "redacted"
    assert memory.load("more").turns[0].model == "redacted"
    assert memory.verify().findings == ()


def test_a_name_that_went_from_a_deletion_stands_in_no_way_of_the_next_one(memory: Repository) -> None:
    s_ = memory.create(id="s")
    s_.append("user", "Hello")
    s_.persist()
    old = nquads(memory, "s")
    memory.delete("s", by=MARK)
    memory.redact_matching(MARK)
    assert import_rdf(memory, old, "nquads", restore=True).problems == []
    memory.delete("s", by="ann")
    assert memory.verify().findings == ()


def test_an_export_from_before_is_refused_where_nothing_says_any_more_how_its_turns_stand(memory: Repository) -> None:
    s_ = memory.create(id="s")
    s_.append("user", "Hello", author=MARK)
    s_.persist()
    old = nquads(memory, "s")
    memory.redact_matching(MARK)
    now = nquads(memory, "s")
    memory.delete("s")
    [problem] = import_rdf(memory, old, "nquads", restore=True).problems
    assert "no copy of it is left here" in problem.reason
    assert "s" not in memory
    assert import_rdf(memory, now, "nquads", restore=True).problems == []
    assert memory.verify().findings == ()


# --- proofs


def test_a_turn_whose_facts_were_taken_out_is_still_proven_and_one_without_its_author_is_refused(
    memory: Repository,
) -> None:
    signer, verifier = new_key("trails.example/a")
    s_ = memory.create(id="s")
    s_.append("assistant", "Hello", model=MARK)
    s_.persist()
    s_.append("user", "Hello", author=NAME)
    s_.persist()
    memory.redact_matching(MARK)
    proof = memory.proofs.turn("s", 0, memory.proofs.checkpoint(signer))
    proof.verify([verifier])
    assert (proof.facts, proof.content is not None) == (None, True)
    memory.redact_matching(NAME)
    memory.proofs.turn("s", 0, memory.proofs.checkpoint(signer)).verify([verifier])
    with pytest.raises(InvalidInput, match="the author or the role of turn 1 of session 's' was taken out"):
        memory.proofs.turn("s", 1, memory.proofs.checkpoint(signer))


# --- the command


def test_the_command_lists_first_and_takes_out_then(run: Run, place: Path) -> None:
    with trails.open(place, create=True) as store:
        content_of(store, label=f"for {NAME}")
        store.notes.add("s", 0, f"This is {NAME}")
    listed = run("redact", "--matching", NAME, "--dry-run")
    assert (listed.exit_code, listed.stdout) == (0, "s label\ns note\n")
    assert "2 places; nothing was changed" in listed.stderr
    assert run("redact", "--matching", NAME).exit_code == 2  # it asks, and nobody is there
    done = run("redact", "--matching", "-", "--yes", "--json", "--by", "officer", stdin=f"{NAME}\n")
    assert [each["kind"] for each in json.loads(done.stdout)["places"]] == ["label", "note"]
    assert run("redact", "--matching", NAME, "--yes").exit_code == 0
    assert run("verify").exit_code == 0


@pytest.mark.parametrize(
    "wrong", [(), ("s",), ("s", "0", "--dry-run"), ("s", "--matching", NAME), ("--matching", "x", "--yes")]
)
def test_the_command_says_what_it_needs(run: Run, place: Path, wrong: tuple[str, ...]) -> None:
    with trails.open(place, create=True) as store:
        content_of(store)
    assert run("redact", *wrong).exit_code in (1, 2)


def test_the_command_fails_where_the_text_cannot_go(run: Run, place: Path) -> None:
    with trails.open(place, create=True) as store:
        content_of(store, NAME)
    result = run("redact", "--matching", NAME, "--yes")
    assert result.exit_code == 1
    assert f"it cannot be taken out of the session id urn:trails:session:{NAME}" in result.stderr


# --- the text in all its forms


@given(st.text(min_size=2, max_size=12), st.integers(0, 3), st.data())
def test_any_text_is_found_however_often_json_escapes_it(text: str, depth: int, data: st.DataObject) -> None:
    if len(text.strip()) < 2 or text in "redacted":
        return
    value = f"before {text} after"
    for _ in range(depth):
        value = json.dumps({"a": [value]}, ensure_ascii=data.draw(st.booleans()))
    assert TextMatcher(text).within(value)


@given(st.text(min_size=2, max_size=12), st.recursive(st.text() | st.integers() | st.booleans() | st.none(), st.lists))
def test_nothing_is_left_of_a_text_in_json_and_what_does_not_hold_it_stays(text: str, value: Any) -> None:
    if len(text.strip()) < 2 or text in "redacted":
        return
    needle = TextMatcher(text)
    made = needle.scrubbed({f"k{text}": [value, text], "kept": None})
    assert not any(text in each for each in strings(made))
    assert made["kept"] is None
    assert needle.scrubbed(made) == made


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


@pytest.mark.parametrize("text", ["know", "unknown", "nown"])
def test_whoever_nobody_is_named_for_is_nobodys_name(store: Repository, text: str) -> None:
    made = store.create(id="s", principal="unknown friend", label="first")
    made.append("user", f"I {text} you")
    made.persist()
    store.set_label("s", "second")  # by nobody who is named
    found = store.redact_matching(text)
    assert {place.kind for place in found.places} >= {"content"}
    who = {quad.object for quad in store.store.quads((None, vocab.ASSOCIATED_WITH, None, vocab.CATALOG))}
    assert who == {NamedNode("urn:trails:agent:unknown")}
    assert store.record("s").principal == "redacted"
    assert store.verify().findings == ()


def test_what_falls_due_is_the_programs_own_work_whatever_is_taken_out(memory: Repository) -> None:
    made = memory.create(id="s", agent="trailblazer")
    made.append("user", "On the trails")
    made.persist()
    tree = trails.Tree(memory)
    tree.main("chief", "phone", id="phone").spawn("branch", "look", id="b")
    tree.sweep(datetime.now(UTC) + timedelta(days=9))
    memory.redact_matching("rail")
    assert memory.store.quads((None, vocab.ASSOCIATED_WITH, NamedNode("urn:trails:agent:trails"), None))
    assert memory.record("s").agent == "redacted"
    assert memory.verify().findings == ()


def test_digits_that_stand_in_random_bits_or_digests_by_chance_are_nobodys_text(memory: Repository) -> None:
    everything(memory)
    made = (vocab.LEAF_SALT, vocab.ROW_SALT, vocab.FORK_DIGEST, vocab.CALL_DIGEST, vocab.TASK_SALT, vocab.TASK_DIGEST)
    for predicate in made:
        quad = memory.store.quads((None, predicate, None, None))[0]
        assert isinstance(quad.object, Literal)
        assert memory.redact_matching(quad.object.value[17:30]).places == (), predicate  # behind what names a turn
    assert memory.verify().ok


def test_only_the_value_of_metadata_that_holds_the_text_in_base64_goes(memory: Repository) -> None:
    meta_in_base64(memory)
    memory.redact_matching(MARK)
    turn = memory.load("s").turns[0]
    assert (turn.content, turn.meta) == ("Hello", {"file": "redacted", "kept": "yes"})


def test_a_short_text_is_found_in_text_in_base64_and_not_in_a_picture(memory: Repository) -> None:
    picture = base64.b64encode(b"\x89PNG\xff\xfe Bob \x80" * 20).decode()
    letter = base64.b64encode("Grüße an Bob".encode()).decode()
    chat = memory.create(id="s")
    for data in (picture, letter):
        chat.append("user", [{"type": "file", "data": data}])
    chat.persist()
    assert [each.index for each in memory.redact_matching("Bob").places] == [1]
    assert memory.load("s").turns[0].content == [{"type": "file", "data": picture}]


def test_a_document_that_was_deleted_holds_no_text(store: Repository) -> None:
    gone = import_document(
        store, b"document prefix ex <http://example.org/> entity(ex:chart) endDocument", format="provn"
    )
    delete_document(store, gone.iri)
    assert store.redact_matching("nowhere").places == ()
    assert store.verify().ok


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_handle_of_before_does_not_write_a_name_again_that_was_taken_out(store: Repository, role: str) -> None:
    said = store.create(id="p", principal=NAME, agent=f"agent of {NAME}")
    said.append("user", "Hello")
    said.persist()
    loaded = store.load("p")
    forked = loaded.fork(id="f")
    store.redact_matching(NAME)
    for handle in (said, loaded):
        handle.append(role, "later")
        with pytest.raises(HeadConflict, match="name of the principal or the agent of session 'p' was taken out"):
            handle.persist()
        handle.discard_pending()
    with pytest.raises(HeadConflict, match="of session 'p' was taken out"):
        forked.persist()
    forked.discard_pending()
    assert not [quad for quad in store.store.quads((None, None, None, None)) if NAME in str(quad)]
    again = store.load("p")
    again.append(role, "later")
    again.persist()
    again.fork(id="g").persist()
    loaded.fork(id="h", principal="ann", agent="a").persist()
    assert [turn.text for turn in store.load("h").turns] == ["Hello"]
    assert store.verify().ok


@pytest.mark.parametrize("word", ["ann-qq", "agent-qq", "tool-qq", "model-qq", "author-qq"])
@pytest.mark.parametrize("is_stale", [True, False], ids=["picked from a stale handle", "picked before"])
def test_a_pick_does_not_write_a_name_again_that_was_taken_out(memory: Repository, word: str, is_stale: bool) -> None:
    plan = memory.create(id="plan", principal="ann-qq", agent="agent-qq")
    plan.append("user", "Hello")
    call = {"id": "c1", "name": "tool-qq", "arguments": {}}
    plan.append("assistant", "look", model="model-qq", tool_calls=[call])
    plan.append("tool", "snow", tool_call_id="c1")
    plan.append("user", "by", author="author-qq")
    plan.persist()
    other = memory.create(id="other", principal="bob")
    other.persist()
    stale = memory.load("plan")
    if not is_stale:
        other.cherry_pick("plan", [0, 1, 2, 3])
    memory.redact_matching(word)
    if is_stale:
        other.cherry_pick(stale, [0, 1, 2, 3])
    with pytest.raises(InvalidInput, match="or a name in it was; nothing was written"):
        other.persist()
    other.discard_pending()
    assert not [quad for quad in memory.store.quads((None, None, None, None)) if word in str(quad)]
    other.cherry_pick("plan", [0, 1, 2, 3])
    assert other.persist() == 4
    assert memory.verify().ok


def test_a_pick_of_a_session_that_was_deleted_meanwhile_is_refused_in_words(memory: Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", "Hello")
    plan.append("assistant", "look", model="m-1")
    plan.persist()
    other = memory.create(id="other")
    other.cherry_pick("plan", 1)
    memory.delete("plan")
    with pytest.raises(InvalidInput, match="redacted or deleted meanwhile"):
        other.persist()
    other.discard_pending()


def test_a_redaction_in_the_midst_of_a_picks_commit_is_found_by_it(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = memory.create(id="plan")
    plan.append("assistant", "look", model="model-qq")
    plan.persist()
    other = memory.create(id="other")
    other.cherry_pick("plan", 0)
    beside = log_leaves.picked_quads

    def late(*arguments: Any) -> list[Quad]:
        memory.redact_matching("model-qq")
        return beside(*arguments)

    monkeypatch.setattr(log_leaves, "picked_quads", late)
    with pytest.raises(InvalidInput, match="turn 0 of session 'plan', which was picked, was redacted"):
        other.persist()
    other.discard_pending()


def test_a_commit_that_is_refused_since_a_text_was_taken_out_does_not_quote_it(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("user", NAME)
    session.persist()
    node, graph = NamedNode(session.turns[0].iri), NamedNode(iris.session("s"))
    (content,) = memory.store.quads((node, vocab.VALUE, None, graph))
    tag = Quad(NamedNode(iris.tag(NAME)), vocab.TYPE, vocab.TAG, vocab.CATALOG)
    memory.redact_matching(NAME)
    for gone in (content, tag):
        with pytest.raises(PreconditionFailed) as refused:
            memory.store.commit(Change(require=[gone]))
        assert NAME not in str(refused.value)
        assert str(gone.predicate) in str(refused.value)
