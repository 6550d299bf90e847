"""Sessions that are encrypted, each with a key of its own: what is read, what is refused, and what no file holds."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import Run, invoke, ok
from trails.audit import audit
from trails.audit.evidence_pack import make_pack
from trails.errors import HasChildren, InvalidInput, KeyMissing
from trails.history import encryption
from trails.integrity.key_ring import Cipher, KeyRing
from trails.rdf import query_files, vocab
from trails.rdf.codec import term_text
from trails.session.store_restore import restore_store
from trails.store.contract import Change

pytest.importorskip("cryptography")

WORDS = "Zermatt by sleeper train"
"""What stands in every place that is encrypted, and nowhere else."""


class HeldKeys:
    """Keys in memory, as a client of a key management service would give them."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def get(self, session_id: str) -> bytes | None:
        return self.held.get(session_id)

    def create(self, session_id: str) -> bytes:
        return self.held.setdefault(session_id, os.urandom(32))

    def destroy(self, session_id: str) -> None:
        self.held.pop(session_id, None)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def memory() -> Iterator[trails.Repository]:
    with trails.open(":memory:", keys=HeldKeys()) as store:
        yield store


def fill(store: trails.Repository) -> None:
    """Store the session "plan" of two turns, and a fork of it after the first, with words in every place for them."""
    meta = {"title": WORDS, "days": 3}
    plan = store.create(id="plan", principal="alice", label="trip", system=f"Answer about {WORDS}.", meta=meta)
    plan.append("user", f"Plan {WORDS}", meta={"title": WORDS})
    plan.append(
        "assistant",
        [{"type": "text", "text": WORDS}],
        model="m-1",
        usage={"input_tokens": 30, "output_tokens": 6},
        tool_calls=[{"id": "c1", "name": "weather", "arguments": {"place": WORDS}}],
        payloads=[trails.Payload(data=f"a picture of {WORDS}".encode(), name=f"{WORDS}.png", media_type="image/png")],
    )
    plan.persist()
    other = plan.fork(at=1, id="other")
    other.append("assistant", f"No {WORDS}")
    other.persist()


def texts_of(folder: Path) -> bytes:
    """Return every byte of every file in a folder, unpacked, and every name."""
    every = b""
    for path in sorted(folder.rglob("*")):
        every += path.name.encode() + b"\n"
        if path.is_file():
            data = path.read_bytes()
            every += gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return every


def holds_words(data: bytes) -> list[str]:
    """Return which of the words stand in some bytes, in the encodings that files of a store use."""
    return [
        word for word in (WORDS, "Zermatt", "sleeper") for each in ("utf-8", "utf-16-le") if word.encode(each) in data
    ]


def test_no_byte_of_the_store_its_backups_and_dumps_holds_the_words(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True, keys=keys) as store:
        fill(store)
        list(store.load("plan").turns)
        store.search(tool="weather")
        store.maintenance.backup(tmp_path / "backup")
        store.maintenance.dump(tmp_path / "dump.nq.gz")
        store.maintenance.vacuum()
        store.store.query("SELECT * { GRAPH ?g { ?s ?p ?o } }")
    with trails.open(place, read_only=True) as view:
        assert len(view.summaries()) == 2
    for each in ("agent.trails", "backup"):
        assert holds_words(texts_of(tmp_path / each)) == []
    assert holds_words(gzip.decompress((tmp_path / "dump.nq.gz").read_bytes())) == []
    assert b"urn:trails:session:plan" in gzip.decompress((tmp_path / "dump.nq.gz").read_bytes())


def test_the_search_for_words_finds_them_in_a_plain_store(tmp_path: Path) -> None:
    with trails.open(tmp_path / "plain.trails", create=True) as store:
        fill(store)
    assert set(holds_words(texts_of(tmp_path / "plain.trails"))) == {WORDS, "Zermatt", "sleeper"}


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_what_is_encrypted_is_read_as_it_was_given(kind: str, tmp_path: Path, keys: Path) -> None:
    place = ":memory:" if kind == "memory" else tmp_path / "agent.trails"
    with trails.open(place, create=True, keys=keys) as store:
        fill(store)
        plan = store.load("plan")
        first, second = plan.turns
        assert (first.content, first.meta) == (f"Plan {WORDS}", {"title": WORDS})
        assert second.content == [{"type": "text", "text": WORDS}]
        assert second.tool_calls[0].input == {"place": WORDS}
        (payload,) = second.payloads
        assert (payload.name, payload.size) == (f"{WORDS}.png", 37)
        assert plan.payload(payload) == b"a picture of Zermatt by sleeper train"
        assert store.payload(payload) == b"a picture of Zermatt by sleeper train"
        assert plan.system == f"Answer about {WORDS}."
        assert [each["content"] for each in store.replay("other")] == [f"Plan {WORDS}", f"No {WORDS}"]
        assert store.load("other").system == f"Answer about {WORDS}."
        assert store.diff("plan", "other").common == 1
        assert [message["role"] for message in store.context("plan").openai()][:2] == ["system", "user"]
        assert store.verify().ok


def test_a_pending_turn_and_the_stored_one_are_the_same(memory: trails.Repository) -> None:
    plan = memory.create(id="plan")
    pending = plan.append("user", WORDS, meta={"a": 1}, payloads=[trails.Payload(data=b"four", name="x")])
    assert plan.payload(pending.payloads[0]) == b"four"
    plan.persist()
    assert memory.load("plan").turns[0] == pending
    assert memory.load("plan").head == plan.head


def test_equal_texts_are_encrypted_differently_and_a_retry_the_same_way(memory: trails.Repository) -> None:
    plan = memory.create(id="plan")
    plan.append("user", WORDS)
    plan.append("user", WORDS)
    head = plan.head
    plan.persist()
    assert plan.head == head == memory.load("plan").head
    stored = {row["text"] for row in memory.select("SELECT ?text { ?turn prov:value ?text }").to_dicts()}
    assert len({text[:60] for text in stored}) == 2  # not only the tags at their ends, which cover the places too
    assert all(text.startswith("trails-encrypted:1:") for text in stored)


def test_verify_needs_no_key_and_still_finds_an_altered_text(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True, keys=keys) as store:
        fill(store)
    shutil.rmtree(keys)
    with trails.open(place) as store:
        assert store.verify().ok
        quad = store.store.quads((None, vocab.VALUE, None, NamedNode("urn:trails:session:other")))[0]
        other = Quad(quad.subject, quad.predicate, Literal(term_text(quad.object)[:-8] + "AAAAAAA="), quad.graph_name)
        store.store.commit(Change(add=[other], remove=[quad]))
        assert not store.verify().ok


def test_without_keys_sessions_are_listed_and_say_that_they_are_encrypted(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True, keys=keys) as store:
        fill(store)
    with trails.open(place) as store:
        assert {record.id: record.encryption for record in store.list()} == {
            "plan": "AES-256-GCM",
            "other": "AES-256-GCM",
        }
        assert {each.first_prompt for each in store.summaries()} == {"(encrypted)"}
        assert [hit.snippet for hit in store.search(tool="weather")] == ["weather (encrypted)"]
        for read in (lambda: store.load("plan"), lambda: store.replay("other"), lambda: store.context("plan")):
            with pytest.raises(KeyMissing, match="'plan' is encrypted, and the store was opened without keys"):
                read()
        with pytest.raises(KeyMissing, match="opened without keys"):
            store.delete("other")
        assert "other" in store


def test_a_store_without_its_keys_takes_no_plain_session(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True, keys=keys) as store:
        fill(store)
    with trails.open(place) as store:
        new = store.create(id="new")
        new.append("user", WORDS)
        with pytest.raises(InvalidInput, match="'new' would be stored in plain"):
            new.persist()
        new.discard_pending()
    assert holds_words(texts_of(place)) == []


def test_a_plain_session_from_before_stays_plain_and_goes_on(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True) as store:
        old = store.create(id="old")
        old.append("user", "Hello")
        old.persist()
    with trails.open(place, keys=keys) as store:
        old = store.load("old")
        old.append("user", "Again", payloads=[trails.Payload(data=b"plain bytes")])
        old.persist()
        fork = old.fork(id="fork")
        fork.append("user", WORDS)
        fork.persist()
        assert (store.record("old").encryption, store.record("fork").encryption) == (None, "AES-256-GCM")
        assert [turn.content for turn in store.load("fork").turns] == ["Hello", "Again", WORDS]
        assert store.verify().ok
    assert holds_words(texts_of(place)) == []


# --- deleting


def test_a_deleted_session_is_unreadable_in_an_older_backup_that_verifies(tmp_path: Path, keys: Path) -> None:
    with trails.open(tmp_path / "agent.trails", create=True, keys=keys) as store:
        fill(store)
        diary = store.create(id="diary")
        diary.append("user", f"Dear {WORDS}")
        diary.persist()
        store.maintenance.backup(tmp_path / "backup")
        assert len(list(keys.iterdir())) == 3
        store.delete("diary")
        assert len(list(keys.iterdir())) == 2
    restore_store(tmp_path / "backup", tmp_path / "restored", with_erased=True)
    with trails.open(tmp_path / "restored", keys=keys) as store:
        assert store.verify().ok
        assert "diary" in store
        with pytest.raises(KeyMissing, match=r"'diary' is encrypted, and its key is not there.*gone for good"):
            store.load("diary")
        assert store.load("plan").turns[0].content == f"Plan {WORDS}"
        again = store.create(id="again")
        again.append("user", WORDS)
        assert again.persist() == 1


def test_a_parent_with_a_fork_is_not_deleted_and_keeps_its_key(tmp_path: Path, keys: Path) -> None:
    ring = KeyRing(keys)
    with trails.open(tmp_path / "agent.trails", create=True, keys=keys) as store:
        fill(store)
        with pytest.raises(HasChildren):
            store.delete("plan")
        with pytest.raises(InvalidInput, match="'plan' is encrypted, and copies of its turns would need its key"):
            store.delete("plan", children="detach")
        with pytest.raises(InvalidInput, match="'plan' is encrypted, and copies"):
            store.load("other").detach()
        with pytest.raises(InvalidInput, match="is encrypted, and copies"):
            store.flatten("other")
        assert ring.get("plan") is not None
        assert [turn.content for turn in store.load("other").turns] == [f"Plan {WORDS}", f"No {WORDS}"]
        assert sorted(store.delete("plan", children="cascade")) == ["other", "plan"]
        assert list(keys.iterdir()) == []
        assert store.verify().ok


def test_a_fork_goes_and_its_parent_stays_readable(tmp_path: Path, keys: Path) -> None:
    with trails.open(tmp_path / "agent.trails", create=True, keys=keys) as store:
        fill(store)
        store.delete("other")
        assert (KeyRing(keys).get("other"), len(store.load("plan"))) == (None, 2)


def test_pruning_destroys_keys(tmp_path: Path, keys: Path) -> None:
    with trails.open(tmp_path / "agent.trails", create=True, keys=keys) as store:
        fill(store)
        assert store.prune(keep_count=0).sessions == ("other", "plan")
    assert list(keys.iterdir()) == []


KILLED_BEFORE_COMMIT = """
import os, signal, sys
import trails
from trails.history.transaction import Proposal
place, keys = sys.argv[1:]
with trails.open(place, create=True, keys=keys) as store:
    kept = store.create(id="kept"); kept.append("user", "Kept"); kept.persist()
    lost = store.create(id="lost"); lost.append("user", "Lost")
    print(len(os.listdir(keys)), flush=True)
    Proposal.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    lost.persist()
"""
KILLED_BEFORE_KEY_GOES = """
import os, signal, sys
import trails
from trails.integrity.key_ring import KeyRing
place, keys = sys.argv[1:]
KeyRing.destroy = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with trails.open(place, keys=keys) as store:
    store.delete("plan", children="cascade")
"""


def run_killed(program: str, *arguments: Path) -> str:
    """Run a program that kills itself, and return what it wrote before."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stdout


def test_a_kill_between_key_and_commit_loses_nothing_acknowledged(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    assert run_killed(KILLED_BEFORE_COMMIT, place, keys) == "2\n"
    with trails.open(place, keys=keys) as store:
        assert [turn.content for turn in store.load("kept").turns] == ["Kept"]
        assert "lost" not in store
        again = store.create(id="lost")
        again.append("user", "Here again")
        again.persist()
        assert store.load("lost").turns[0].content == "Here again"
        assert store.verify().ok


def test_a_key_that_a_kill_left_is_destroyed_when_the_store_is_opened_with_keys(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True, keys=keys) as store:
        fill(store)
    run_killed(KILLED_BEFORE_KEY_GOES, place, keys)
    with trails.open(place) as store:
        assert store.verify().ok
    assert len(list(keys.iterdir())) == 2
    with trails.open(place, keys=keys) as store:
        assert list(keys.iterdir()) == []
        assert store.verify().ok


# --- keys that are not there, or are others


def test_a_wrong_key_gives_no_text(tmp_path: Path, keys: Path) -> None:
    place, held = tmp_path / "agent.trails", HeldKeys()
    with trails.open(place, create=True, keys=held) as store:
        fill(store)
    held.held["other"], held.held["plan"] = held.held["plan"], held.held["other"]
    with trails.open(place, keys=held) as store:
        for read in (
            lambda: store.load("plan").turns[0],
            lambda: store.replay("other"),
            lambda: store.load("plan").system,
        ):
            with pytest.raises(KeyMissing, match="does not open what stands at"):
                read()
        assert store.verify().ok


def test_a_lost_key_is_named_with_its_session_and_others_are_read(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True, keys=keys) as store:
        fill(store)
    KeyRing(keys).destroy("other")
    with trails.open(place, keys=keys) as store:
        with pytest.raises(KeyMissing, match="restore the key's file") as raised:
            store.load("other")
        assert raised.value.session_id == "other"
        assert len(store.load("plan")) == 2
        assert store.verify().ok


def test_a_text_is_bound_to_its_session_and_place() -> None:
    key = bytes(range(32))
    hidden = Cipher("plan", key).encrypt(WORDS, "turn/3/content", "00")
    assert Cipher("plan", key).decrypt(hidden, "turn/3/content") == WORDS
    for session_id, place in (("plan", "turn/4/content"), ("plan", "turn/3/meta"), ("plans", "turn/3/content")):
        with pytest.raises(KeyMissing):
            Cipher(session_id, key).decrypt(hidden, place)
    data = Cipher("plan", key).encrypt_bytes(b"picture")
    with pytest.raises(KeyMissing):
        Cipher("other", key).decrypt_bytes(data)
    with pytest.raises(KeyMissing):
        Cipher("plan", key).decrypt_bytes(data[:-1])


def test_a_key_ring_is_private_and_outside_the_store(tmp_path: Path) -> None:
    place = tmp_path / "agent.trails"
    with pytest.raises(InvalidInput, match="is within the store"):
        trails.open(place, create=True, keys=place / "keys")
    with pytest.raises(InvalidInput, match="there is no folder of keys"):
        KeyRing(tmp_path / "none")
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(InvalidInput, match="chmod 700"):
        KeyRing(tmp_path / "open")
    ring = KeyRing(tmp_path / "new", create=True)
    ring.create("a/b ../c")
    (file,) = ring.folder.iterdir()
    assert (ring.folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


# --- what cannot work on what is encrypted


def test_what_would_be_stored_in_plain_is_refused(memory: trails.Repository) -> None:
    fill(memory)
    with pytest.raises(InvalidInput, match="would be stored in plain"):
        memory.notes.add("plan", 0, WORDS)
    with pytest.raises(InvalidInput, match="would be stored in plain"):
        memory.score("plan#0", "quality", 1, reason=WORDS)
    memory.score("plan#0", "quality", 1)
    with pytest.raises(InvalidInput, match="stands in a file in plain"), memory.load("plan").streaming("assistant"):
        pass


@pytest.mark.parametrize(
    ("look", "why"),
    [
        (lambda store: store.list(text="Zermatt"), "is found in plain prompts alone"),
        (lambda store: store.redact_matching("Zermatt"), "is found in plain turns alone"),
        (lambda store: store.query("search-text", text="Zermatt"), "looks into texts"),
        (
            lambda store: store.query('SELECT * { ?t prov:value ?v FILTER(CONTAINS(STR(?v), "Zermatt")) }'),
            "looks into texts",
        ),
        (lambda store: store.query(f'SELECT * {{ ?t prov:value "Plan {WORDS}" }}'), "looks into texts"),
        (lambda store: store.query('SELECT * { ?s ?p ?o FILTER REGEX(STR(?o), "Zermatt") }'), "looks into texts"),
        (lambda store: store.query(f'SELECT ?t {{ ?t ?p "Plan {WORDS}" }}'), "looks into texts"),
        (lambda store: store.query(f'SELECT ?t {{ ?t ?p ?v FILTER(?v = "Plan {WORDS}") }}'), "looks into texts"),
        (
            lambda store: store.query("SELECT ?a { ?a prov:value ?v . ?b prov:value ?v FILTER(?a != ?b) }"),
            "looks into texts",
        ),
    ],
)
def test_what_looks_into_texts_is_refused_in_words(
    look: Callable[[trails.Repository], object], why: str, memory: trails.Repository
) -> None:
    fill(memory)
    with pytest.raises(InvalidInput, match=why):
        look(memory)


def test_queries_over_what_stays_plain_answer(memory: trails.Repository) -> None:
    fill(memory)
    assert {each.id: each.first_prompt for each in memory.summaries()} == {
        "plan": f"Plan {WORDS}",
        "other": f"Plan {WORDS}",
    }
    assert memory.select("token-usage-by-model").to_dicts()[0]["output"] == 6
    assert len(memory.select('SELECT ?turn { ?turn trails:role "user" }')) == 1
    assert len(memory.select('SELECT ?turn ?index ?who { ?turn trails:role "user" ; trails:index ?index }')) == 1


def test_a_comparison_shows_the_last_answers_in_plain(memory: trails.Repository) -> None:
    fill(memory)
    plan = memory.load("plan")
    plan.append("assistant", f"Last: {WORDS}")
    plan.append("assistant", "", tool_calls=[{"id": "c9", "name": "look", "arguments": {}}])
    plan.persist()
    assert [row["last_answer"] for row in memory.compare("plan", columns=["last_answer"])] == [
        f"Last: {WORDS}",
        f"No {WORDS}",  # of its fork
    ]


def test_a_redacted_turn_names_its_quotes_in_encrypted_sessions(memory: trails.Repository) -> None:
    fill(memory)
    later = memory.create(id="later")
    later.append("user", f"You said: Plan {WORDS}")
    later.persist()
    done = memory.redact("plan", 0)
    assert done.quotes == (("later", 0),)
    assert memory.load("plan").turns[0].redacted
    assert memory.load("plan").turns[1].content == [{"type": "text", "text": WORDS}]
    assert memory.verify().ok


def test_a_redacted_turn_names_the_requests_for_summaries_that_quote_it(memory: trails.Repository) -> None:
    fill(memory)
    plan = memory.load("plan")
    plan.compact(lambda _: "A trip", keep_turns=0, request=f"Leave out: Plan {WORDS}")
    assert plan.turns[2].compaction is not None
    assert memory.load("plan").turns[2].compaction == plan.turns[2].compaction
    assert memory.redact("plan", 0).quotes == (("plan", 2),)


def test_a_writer_that_was_too_late_keeps_its_turns_in_a_fork(memory: trails.Repository) -> None:
    fill(memory)
    late = memory.load("plan")
    late.append("user", f"Late {WORDS}")
    first = memory.load("plan")
    first.append("user", "First")
    first.persist()
    with pytest.raises(trails.HeadConflict):
        late.persist()
    kept = late.keep_as_fork(id="kept")
    assert [turn.content for turn in memory.load("kept").turns[2:]] == [f"Late {WORDS}"]
    assert kept.head == memory.load("kept").head
    assert memory.verify().ok


def test_several_sessions_are_stored_in_one_commit(memory: trails.Repository) -> None:
    with memory.commit() as batch:
        one, two = memory.create(id="one"), memory.create(id="two")
        one.append("user", f"One {WORDS}")
        two.append("user", f"Two {WORDS}")
        batch.add(one)
        batch.add(two)
    assert [memory.load(each).turns[0].content for each in ("one", "two")] == [f"One {WORDS}", f"Two {WORDS}"]
    assert memory.verify().ok


def test_an_export_in_rdf_holds_no_words_and_comes_in_elsewhere(tmp_path: Path, keys: Path) -> None:
    with trails.open(tmp_path / "agent.trails", create=True, keys=keys) as store:
        fill(store)
    ok(invoke("export", "other", "--format", "nquads", "-o", tmp_path / "other.nq", store=tmp_path / "agent.trails"))
    assert holds_words((tmp_path / "other.nq").read_bytes()) == []
    there = tmp_path / "there.trails"
    ok(invoke("import", "--create", tmp_path / "other.nq", "--keys", keys, store=there))
    with trails.open(there, keys=keys) as found:
        assert [turn.content for turn in found.load("other").turns] == [f"Plan {WORDS}", f"No {WORDS}"]
        assert found.verify().ok


def test_a_push_takes_encrypted_sessions_along_as_they_are(tmp_path: Path, keys: Path) -> None:
    with trails.open(tmp_path / "there.trails", create=True) as target:
        with trails.open(tmp_path / "agent.trails", create=True, keys=keys) as store:
            fill(store)
            trails.push(store, ["plan", "other"], target)
            plan = store.load("plan")
            plan.append("user", f"More {WORDS}")
            plan.persist()
            moved = trails.push(store, ["plan"], target)
            assert [(each.outcome, each.there, each.turns_added) for each in moved.sessions] == [
                ("forwarded", "plan", 1)
            ]
        assert target.verify().ok
    assert holds_words(texts_of(tmp_path / "there.trails")) == []
    with trails.open(tmp_path / "there.trails", keys=keys) as target:
        assert target.load("plan").payload(target.load("plan").turns[1].payloads[0]) == f"a picture of {WORDS}".encode()


def test_metadata_is_read_and_found_with_keys(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True) as store:
        store.create(id="old", meta={"days": 3, "project": "tidepool"}).persist()
    with trails.open(place, keys=keys) as store:
        fill(store)
        store.create(id="work", meta={"project": "/home/ada/tidepool"}).persist()
        assert dict(store.load("plan").meta) == {"title": WORDS, "days": 3}
        assert {each.id: each.title for each in store.summaries()} == {
            "plan": WORDS,
            "other": None,
            "old": None,
            "work": None,
        }
        assert [each.id for each in store.list(meta={"days": 3}, order="oldest")] == ["old", "plan"]
        assert [each.id for each in store.list(meta={"days": 3}, principal="alice")] == ["plan"]
        assert [each.id for each in store.list(project="tidepool", order="oldest")] == ["old", "work"]
        assert list(store.list(meta={"days": 4})) == []
        found = store.find({"title": WORDS})
        assert found is not None
        assert found.id == "plan"
        assert store.prune(meta={"title": WORDS}, dry_run=True).needed == ("plan",)
        assert store.verify().ok
        with pytest.raises(InvalidInput, match="looks into texts"):
            store.query("sessions-by-meta", key="urn:trails:meta:title", value=WORDS)
    with trails.open(place) as store:
        assert dict(store.record("plan").meta) == {"trails-encrypted": "(encrypted)"}
        with pytest.raises(KeyMissing, match="opened without keys"):
            store.list(meta={"days": 3})


def test_a_hold_by_metadata_covers_what_nobody_can_read_here(memory: trails.Repository) -> None:
    fill(memory)
    memory.holds.place(meta={"case": "7"}, reason="Case 7", by="counsel")
    with pytest.raises(trails.OnHold):
        memory.delete("plan", children="cascade")


def test_a_search_finds_words_in_encrypted_and_in_plain_sessions(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True) as store:
        old = store.create(id="old")
        old.append("user", f"Earlier: {WORDS}")
        old.persist()
    with trails.open(place, keys=keys) as store:
        fill(store)
        found = [(hit.session_id, hit.index) for hit in store.search("ZERMATT")]
        assert found == [("other", 1), ("plan", 1), ("plan", 0), ("old", 0)]
        (hit,) = store.search("sleeper", tool="weather")
        assert hit.snippet == WORDS
        assert list(store.search("Geneva")) == []
        found = [(hit.session_id, hit.index) for hit in store.search("zermatt", session="other")]
        assert found == [("other", 1), ("plan", 0)]
        first = store.search("zermatt", limit=2)
        assert [hit.index for hit in store.search("zermatt", limit=2, cursor=first.cursor)] == [0, 0]
    KeyRing(keys).destroy("other")
    with trails.open(place, keys=keys) as store:
        with pytest.raises(KeyMissing, match="'other'"):
            store.search("zermatt")
        with pytest.raises(KeyMissing, match="'other'"):
            store.list(meta={"days": 3})
        with pytest.raises(KeyMissing, match="'other'"):
            store.erase("old", 0, dry_run=True)
        assert [hit.session_id for hit in store.search("zermatt", session="plan")] == ["plan", "plan"]
        assert store.delete("other") == ["other"]
        assert [hit.session_id for hit in store.search("zermatt")] == ["plan", "plan", "old"]
    with trails.open(place) as store:
        with pytest.raises(KeyMissing, match="opened without keys"):
            store.search("Zermatt")
        assert [hit.session_id for hit in store.search("Zermatt", session="old")] == ["old"]


def test_what_was_made_from_a_turn_is_erased_with_it(memory: trails.Repository) -> None:
    fill(memory)
    near = memory.create(id="near")
    near.append("user", f"One of us said: Plan {WORDS}, and that was all")
    near.append("user", "Plan zermatt by sleeper, or by a slower train")
    near.append("user", "Nothing of that kind")
    near.persist()
    done = memory.erase("plan", 0, near=0.2)
    assert [(turn.session_id, turn.index, turn.why) for turn in done.turns] == [
        ("plan", 0, "asked"),
        ("near", 0, "quote"),
    ]
    assert [turn.redacted for turn in memory.load("near").turns] == [True, False, False]
    for name, code in (("a", 4711), ("b", 4712)):
        session = memory.create(id=name)
        session.append("user", f"The code of the back door is {code}")
        session.persist()
    done = memory.erase("a", 0, near=0.5, dry_run=True)
    assert [(turn.session_id, turn.why) for turn in done.turns] == [("a", "asked"), ("b", "near copy")]


def test_turns_are_picked_and_taken_between_encrypted_sessions(memory: trails.Repository) -> None:
    fill(memory)
    other = memory.load("other")
    with pytest.raises(InvalidInput, match="with payloads is not quoted"):
        other.cherry_pick("plan", 1)
    other.cherry_pick("plan", 0)
    other.persist()
    assert [turn.content for turn in memory.load("other").turns] == [f"Plan {WORDS}", f"No {WORDS}", f"Plan {WORDS}"]
    assert memory.load("plan").take("other").content == f"No {WORDS}"
    assert memory.load("plan").turns[2].content == f"No {WORDS}"
    memory.redact("plan", 0)
    with pytest.raises(InvalidInput, match="redacted"):
        memory.load("other").cherry_pick("plan", 0)
    assert memory.verify().ok


def test_a_picked_turn_that_is_redacted_meanwhile_is_not_stored(memory: trails.Repository) -> None:
    fill(memory)
    other = memory.load("other")
    other.cherry_pick("plan", 0)
    memory.redact("plan", 0)
    with pytest.raises(InvalidInput, match="which was picked, was redacted"):
        other.persist()
    other.discard_pending()


def test_text_of_an_encrypted_session_is_not_picked_into_a_plain_one(tmp_path: Path, keys: Path) -> None:
    place = tmp_path / "agent.trails"
    with trails.open(place, create=True) as store:
        store.create(id="old").persist()
    with trails.open(place, keys=keys) as store:
        fill(store)
        with pytest.raises(
            InvalidInput, match="'plan' is encrypted, and session 'old', which is to repeat its text, is not"
        ):
            store.load("old").cherry_pick("plan", 0)


def test_a_recorded_session_is_run_again(memory: trails.Repository) -> None:
    chat = memory.create(id="chat")
    chat.append("user", f"Plan {WORDS}")
    chat.append("assistant", f"Yes, {WORDS}", model="m-1")
    chat.persist()

    def agent(run: trails.Playing) -> None:
        while run.input():
            run.model()

    assert trails.rerun(chat, agent).left_at is None
    other = trails.rerun(chat, agent, model=lambda run: "How long?")
    assert other.difference is not None
    assert other.difference.text == f"text: recorded 'Yes, {WORDS}', now 'How long?'"
    assert [turn.content for turn in other.session.turns] == [f"Plan {WORDS}", "How long?"]
    assert memory.verify().ok


def test_a_store_as_it_was_is_read_with_the_keys(memory: trails.Repository) -> None:
    fill(memory)
    then = memory.compare("plan").as_of
    assert then is not None
    plan = memory.load("plan")
    plan.append("user", "Later")
    plan.persist()
    with memory.at(then) as past:
        assert past.load("plan").turns[0].content == f"Plan {WORDS}"


def test_a_server_gives_nothing_of_an_encrypted_store(memory: trails.Repository) -> None:
    app = pytest.importorskip("trails.serve.app")
    with pytest.raises(InvalidInput, match="opened with keys cannot be served"):
        app.create_app(memory)
    with pytest.raises(InvalidInput, match="cannot be opened with keys"):
        trails.open("https://trails.example.org", keys=HeldKeys())


# --- PostgreSQL


@pytest.mark.slow
def test_sessions_are_encrypted_in_postgresql(url: str, keys: Path) -> None:
    with trails.open(url, create=True, keys=keys) as store:
        fill(store)
    with trails.open(url, keys=keys) as store:
        assert [turn.content for turn in store.load("other").turns] == [f"Plan {WORDS}", f"No {WORDS}"]
        store.delete("other")
        assert [path.suffix for path in keys.iterdir()] == [".key"]
        assert store.verify().ok
    with pytest.raises(InvalidInput, match="cannot be opened with keys"):
        trails.open(url, thin=True, keys=keys)
    with trails.open(url, thin=True) as store, pytest.raises(KeyMissing, match="opened without keys"):
        store.load("plan")


# --- the command line


def test_commands_read_with_keys_and_say_so_without(
    run: Run, tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAILS_STORE", str(tmp_path / "agent.trails"))
    ok(run("init", "--keys", keys))
    ok(run("--keys", keys, "create", "--id", "plan"))
    ok(run("append", "plan", "user", WORDS, "--keys", keys))
    assert WORDS in ok(run("show", "plan", "--keys", keys))
    monkeypatch.setenv("TRAILS_KEYS", str(keys))
    assert WORDS in ok(run("export", "plan", "--format", "html"))
    monkeypatch.delenv("TRAILS_KEYS")
    refused = run("show", "plan")
    assert (refused.exit_code, "give the folder of keys" in refused.stderr) == (1, True)
    assert "(encrypted)" in ok(run("list"))
    ok(run("verify"))


def test_of_the_catalogue_those_queries_are_refused_that_look_into_texts(memory: trails.Repository) -> None:
    fill(memory)
    refused = set()
    for name in query_files.names():
        try:
            encryption.check_query(memory.store, query_files.find(name).text, is_ours=True)
        except InvalidInput:
            refused.add(name)
    assert refused == {
        "call-parameters",  # in metadata of turns
        "policies-in-force",
        "metadata",  # of sessions
        "sessions-by-meta",
        "search-text",
        "shared-turns",  # counts their characters
        "withheld-turns",  # in metadata of forks
    }


def test_a_store_of_encrypted_sessions_is_audited_and_packed(memory: trails.Repository) -> None:
    fill(memory)
    report = audit(memory)
    assert [(each.name, each.holds) for each in report.verdicts if each.name in ("validity", "integrity")] == [
        ("validity", True),
        ("integrity", True),
    ]
    assert WORDS.encode() not in b"".join(make_pack(memory, report).values())
