"""The queries for auditors on removals: answers counted by hand."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import trails
from tests.support.engines import ENGINES, Answer, Engines, answered
from tests.support.nine_sessions import day, fill, later
from trails import Compaction, Repository
from trails.exchange.file_import import import_path
from trails.history import turn_builder

pytestmark = pytest.mark.filterwarnings("ignore:Dataset\\..*deprecated:DeprecationWarning")  # rdflib warns of itself

ANN, UNKNOWN = "principal:ann", "agent:unknown"

NINE: list[Answer] = [
    ("removals", {}, "what session place by reason rule turns head", [
        ("session", "gone", None, "principal:dave", None, None, 0, None),
        ("tag", "plan", None, "agent:unknown", None, None, None, None),
        ("note", "plan", None, "agent:unknown", None, None, None, None),
    ]),
    ("past-due", {"now": later(31)}, "kind session due state item", [
        ("ending", "letters", later(0.5), "active", "letters"),
        ("ttl", "beds", later(30), "suspended", "beds"),
        ("ttl", "letters", later(30), "active", "letters"),
    ]),
    ("past-due", {"now": later(1)}, "kind session", [("ending", "letters")]),
    ("past-due", {"now": later(0.5)}, "kind", []),  # it is due now, and not past that
    ("past-due", {"now": day(25)}, "session", [("letters",), ("beds",), ("letters",), ("scan",)]),
    ("kept-briefly", {}, "what session made months by rule thing", [
        ("session", "gone", None, None, "principal:dave", None, "gone"),
    ]),
]  # fmt: skip

DIARY: list[Answer] = [
    # copies and what was sent go with what they repeat; summaries, picked turns and notes are left
    ("redacted-repeats", {"session": "diary"}, "turn kind where repeat gone", [
        ("diary#0", "copy", "copy", "copy#0", True),
        ("diary#0", "quotation", "picks", "picks#0", False),
        ("diary#0", "summary", "branch", "branch#2", False),
        ("diary#0", "summary", "diary", "diary#2", False),
    ]),
    # the early branch left the copy before its summary and has one of its own, of what it inherits
    ("redacted-repeats", {"session": "copy"}, "turn kind where repeat gone", [
        ("copy#0", "copy", "diary", "diary#0", True),
        ("copy#0", "quotation", "picks", "picks#0", False),
        ("copy#0", "summary", "copy", "copy#2", False),
    ]),
    ("redacted-repeats", {"session": "mail"}, "turn kind where gone", [
        ("mail#0", "note", "mail", False),
        ("mail#0", "score", "mail", False),
        ("mail#5", "delivery", "mail", True),
    ]),
    ("redacted-repeats", {"session": "picks"}, "turn", []),
    ("removals", {}, "what session thing place by reason rule turns", [
        ("session", "old", None, None, "agent:unknown", None, None, 1),
        ("turn", "copy", "copy#0", None, "principal:dave", "asked for", None, None),
        ("turn", "diary", "diary#0", None, "principal:dave", "asked for", None, None),
        ("turn", "mail", "mail#0", None, "principal:ann", None, None, None),
        ("turn", "mail", "mail#1", None, "agent:unknown", None, None, None),
        ("turn", "mail", "mail#2", None, "agent:unknown", None, None, None),
        ("turn", "mail", "mail#3", None, "agent:unknown", None, None, None),
        ("turn", "mail", "mail#5", None, "agent:unknown", None, None, None),
        ("text", "mail", None, "text", "agent:unknown", None, None, None),  # what was really sent
        ("text", "mail", None, "label", "principal:dave", None, None, None),
        ("tag", "diary", "v1", None, "principal:ben", None, None, None),
    ]),
    # ten days, five months and six months ago; of an imported turn nobody knows
    ("kept-briefly", {}, "what session months by thing", [
        ("session", "old", None, "agent:unknown", "old"),
        ("turn", "copy", 0, "principal:dave", "copy#0"),
        ("turn", "diary", 0, "principal:dave", "diary#0"),
        ("turn", "mail", None, "principal:ann", "mail#0"),
        ("turn", "mail", 5, "agent:unknown", "mail#1"),
        ("turn", "mail", 0, "agent:unknown", "mail#5"),
    ]),
    ("kept-briefly", {"months": 15}, "months thing", [
        (None, "old"),
        (0, "copy#0"),
        (0, "diary#0"),
        (None, "mail#0"),
        (5, "mail#1"),
        (6, "mail#2"),
        (14, "mail#3"),
        (0, "mail#5"),
    ]),
    ("kept-briefly", {"months": 1}, "thing", [("old",), ("copy#0",), ("diary#0",), ("mail#0",), ("mail#5",)]),
    # before that was deleted it was read too
    ("reads-after-deletion", {}, "action agent allowed target origin how", [
        ("history", "agent:main", True, "kept", "old", "cherry-pick"),
    ]),
    ("reads-after-deletion", {"target": "diary"}, "time", []),
]  # fmt: skip
NOW = datetime.now(UTC)


def diary(store: Repository) -> None:
    """Fill a store with turns that were redacted, what repeats them, and a session that was deleted and read on elsewhere."""
    secret = store.create(id="diary", principal="ann")
    secret.append("user", "My secret", time=NOW - timedelta(days=10))
    secret.append("assistant", "I keep it")
    secret.append("summary", "There is a secret", compaction=Compaction(summarised_through=0))
    secret.append("user", "More")
    secret.persist()
    branch = secret.fork(at=1, id="branch")
    branch.append("user", "Else")
    branch.append("summary", "And more", compaction=Compaction(summarised_through=1))
    branch.persist()
    early = secret.fork(at=0, id="early")
    early.append("user", "Another beginning")
    early.append("summary", "Nothing", compaction=Compaction(summarised_through=0))
    early.persist()
    secret.flatten(id="copy")
    picks = store.create(id="picks")
    picks.cherry_pick("diary", 0)
    picks.persist()
    _read_on(store)
    store.redact("diary", 0, by="dave", reason="asked for")
    _mail(store)
    store.tags.add("v1", "diary")
    store.tags.remove("v1", by="ben")


def _read_on(store: Repository) -> None:
    old = store.create(id="old", principal="ann")
    old.append("user", "Old", time=NOW)
    old.persist()
    key = "agent:main:discord:group:kept"
    kept = store.create(id="kept", key=key, kind="group", agent="main")
    kept.cherry_pick("old", 0)
    kept.persist()
    router = trails.Router(store)
    router.session(key)
    router.session("main")
    router.history("main", key)
    store.delete("old")
    router.history("main", key)


def _mail(store: Repository) -> None:
    mail = store.create(id="mail", label="of Zenobia")
    mail.worktree.append(turn_builder.make_draft("user", "From elsewhere", timed=False))
    mail.append("assistant", "An answer", time=months_ago(5))
    mail.append("assistant", "Another", time=months_ago(6))
    mail.append("assistant", "Long ago", time=months_ago(14))
    mail.persist()
    store.notes.add("mail", 0, "Look here")
    store.score("mail#0", "tone", "warm", by="ann")
    store.score("mail#0", "length", 9, by="ann")
    store.score("mail", "tone", "warm", by="ann")
    ledger = trails.Ledger(store)
    ledger.receive("mail", "And?", channel="smtp")
    ledger.process("mail", lambda _: "Sent")
    ledger.delivered(ledger.events("mail", direction="outbound")[0], text="Sent to you")
    store.redact("mail", 0, by="ann")
    store.redact("mail", 1)
    store.redact("mail", 2)
    store.redact("mail", 3)
    store.redact("mail", 5)
    store.redact_matching("Zenobia", by="dave")


def months_ago(count: int) -> datetime:
    """Return a time whole months and an hour ago, on a day that every month has."""
    year, month = divmod(NOW.year * 12 + NOW.month - 1 - count, 12)
    return NOW.replace(year=year, month=month + 1, day=min(NOW.day, 28)) - timedelta(hours=1)


STORES = {fill: NINE, diary: DIARY}


HEAD = '{"type":"session","version":3,"id":"%s","timestamp":"2026-01-28T10:00:00.000Z","cwd":"/"}'
SAID = '{"type":"message","id":"m","parentId":null,"timestamp":"2026-01-28T10:00:01Z","message":{"role":"user","content":"Hi"}}'


@pytest.mark.parametrize("engine", ENGINES)
def test_imported_files_are_known_by_their_bytes(engine: str, tmp_path: Path) -> None:
    with trails.open(":memory:") as store:
        written = {}
        for name, lines in (("one", [SAID]), ("two", [SAID, "no JSON"]), ("three", [SAID, "no", "JSON"])):
            file = tmp_path / f"{name}.jsonl"
            file.write_text("\n".join([HEAD % name, *lines]), "utf-8")
            import_path(store, file, by="ann" if name == "one" else None)
            written[hashlib.sha256(file.read_bytes()).hexdigest()] = (name, len(file.read_bytes()), len(lines) - 1)
        expected = [
            (digest, f"{name}.jsonl", size, f"pi:{name}", ANN if name == "one" else UNKNOWN, "pi", refused)
            for digest, (name, size, refused) in sorted(written.items())
        ]
        engines = Engines(store)
        columns = "sha256 name size session by importer refused"
        everything = answered(engines, engine, ("imported-files", {}, columns, expected))
        assert everything[0] == everything[1]
        one = answered(engines, engine, ("imported-files", {"sha256": expected[1][0]}, columns, expected[1:2]))
        assert one[0] == one[1]
        nothing = answered(engines, engine, ("imported-files", {"sha256": "ab" * 32}, columns, []))
        assert nothing[0] == []


def asked(store: Repository, name: str) -> list[dict[str, Any]]:
    return store.query(name).to_dicts()  # type: ignore[union-attr] # a SELECT


def test_what_a_removal_leaves_is_the_digest_by_which_the_rest_is_proven() -> None:
    with trails.open(":memory:") as store:
        plan = store.create(id="plan")
        first, second = plan.append("user", "One"), plan.append("user", "Two")
        plan.persist()
        tag, note = store.tags.add("v1", "plan@1"), store.notes.add("plan", 1, "Look")
        score = store.score("plan#0", "tone", "warm")
        store.redact("plan", 1)
        store.tags.remove("v1")
        store.notes.remove(note.id)
        store.remove_score(score.id)
        rows = asked(store, "removals")
        digests = [("turn", second.digest), ("tag", first.digest), ("note", second.digest), ("score", first.digest)]
        assert [(row["what"], row["proof"]) for row in rows] == digests
        assert [row["thing"] for row in rows] == [second.iri, tag.name, note.id, score.id]
        store.delete("plan")
        last = asked(store, "removals")[-1]
        assert (last["what"], last["head"], last["turns"], last["rule"]) == ("session", second.digest, 2, None)
