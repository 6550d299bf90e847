"""Turns carry bytes beside their content: kept once for equal bytes, covered by digests, and gone with their last turn."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import Run
from tests.support.made_keys import MADE
from tests.support.pasts import mark_of
from tests.support.tampering import altered, bytes_of
from trails import InvalidInput, Payload, PayloadReference, Repository
from trails.exchange.file_import import export_session, import_path
from trails.exchange.openclaw.pi_export import export_session as export_pi
from trails.exchange.rdf_files import import_rdf
from trails.exchange.remotes.store_copy import copy_store
from trails.history.lookup import session_quads
from trails.history.records import payloads
from trails.history.records.text_matcher import TextMatcher
from trails.history.removal import detach
from trails.integrity import digests
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.codec import term_text
from trails.secrets.hidden_texts import hidden_texts, holds_hidden, without_hidden
from trails.store.contract import Change, Solutions
from trails.store.log.records import Row

pytestmark = pytest.mark.any_store

STATE = Payload(data=b'{"step": 1}', media_type="application/json", name="state")
OTHER = Payload(data=bytes(range(256)))


def kept(store: Repository) -> set[str]:
    """The digests of all payloads whose bytes the store has."""
    quads = store.store.quads((None, vocab.TYPE, vocab.PAYLOAD, None))
    return {str(iris.payload_digest(quad.subject.value)) for quad in quads if isinstance(quad.subject, NamedNode)}


def codes(store: Repository) -> list[str]:
    return [finding.code for finding in store.verify().findings]


# --- writing and reading


def test_what_a_turn_carries_is_there_before_and_after_it_is_stored(store: Repository) -> None:
    s = store.create(id="plan")
    turn = s.append("assistant", "Done.", payloads=[STATE, OTHER])
    state, other = turn.payloads
    assert (state.name, state.media_type, state.size) == ("state", "application/json", 11)
    assert (other.name, other.media_type, other.size) == (None, "application/octet-stream", 256)
    assert (state.digest, other.digest) == (
        hashlib.sha256(STATE.data).hexdigest(),
        hashlib.sha256(OTHER.data).hexdigest(),
    )
    assert (s.payload(state), s.payload(other)) == (STATE.data, OTHER.data)
    with pytest.raises(InvalidInput, match="no payload"):
        store.payload(state)
    s.persist()
    loaded = store.load("plan")
    assert loaded.turns[0].payloads == (state, other)
    assert (loaded.payload(state), store.payload(other), store.payload(str(state.digest))) == (
        STATE.data,
        OTHER.data,
        STATE.data,
    )
    assert store.verify().findings == ()


def test_a_message_of_an_api_carries_payloads_too(store: Repository) -> None:
    with store.create() as s:
        turn = s.append_message({"role": "user", "content": "Look"}, payloads=[OTHER])
    assert store.payload(turn.payloads[0]) == OTHER.data


def test_a_payload_may_be_all_that_a_turn_says(store: Repository) -> None:
    with store.create() as s:
        s.append("assistant", payloads=[Payload(data=b"")])
    assert s.payload(s.turns[0].payloads[0]) == b""
    assert store.verify().findings == ()


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4))
def test_bytes_come_back_as_they_went_in(pieces: list[bytes]) -> None:
    with trails.open(":memory:") as store:
        with store.create(id="plan") as s:
            s.append("user", "x", payloads=[Payload(data=each) for each in pieces])
        turn = store.load("plan").turns[0]
        assert [store.payload(each) for each in turn.payloads] == pieces
        assert store.verify().findings == ()


def test_a_payload_of_several_pieces_comes_back_whole(memory: Repository) -> None:
    data = hashlib.shake_256(b"seed").digest((7 << 20) + 5)
    with memory.create() as s:
        s.append("user", "x", payloads=[Payload(data=data)])
    node = NamedNode(iris.payload(hashlib.sha256(data).hexdigest()))
    assert len(memory.store.quads((None, vocab.BYTES_PART, None, node))) == 3  # 3 MiB, 3 MiB and the rest
    assert memory.payload(s.turns[0].payloads[0]) == data
    assert memory.verify().findings == ()


def test_a_closed_store_has_them_still(tmp_path: Path) -> None:
    with trails.open(tmp_path / "a.trails", create=True) as store, store.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE])
    with trails.open(tmp_path / "a.trails") as store:
        assert store.payload(store.load("plan").turns[0].payloads[0]) == STATE.data


def test_two_equal_turns_with_other_payloads_have_other_digests(memory: Repository) -> None:
    s = memory.create()
    turns = [s.append("user", "x", payloads=[each]) for each in (STATE, OTHER)]
    assert turns[0].facts != turns[1].facts
    assert "payloads" not in s.append("user", "x").to_dict()


def test_what_is_no_payload_is_refused_and_nothing_is_appended(memory: Repository) -> None:
    s = memory.create()
    for wrong in (b"abc", STATE, [b"abc"], [{"data": b"abc"}], 7):
        with pytest.raises(InvalidInput, match="payload"):
            s.append("user", "x", payloads=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        Payload(data="text")  # type: ignore[arg-type]
    for unnameable in ("", "a\nb"):
        with pytest.raises(InvalidInput, match="payload"):
            s.append("user", "x", payloads=[Payload(data=b"", media_type=unnameable)])
        with pytest.raises(InvalidInput, match="payload"):
            s.append("user", "x", payloads=[Payload(data=b"", name=unnameable)])
    assert len(s) == 0


@pytest.mark.parametrize("wrong", ["", "abc", "A" * 64, "g" * 64, 7, None])
def test_what_names_no_payload_is_refused(memory: Repository, wrong: object) -> None:
    with pytest.raises(InvalidInput, match="64"):
        memory.payload(wrong)  # type: ignore[arg-type]


# --- once for equal bytes


def test_equal_bytes_are_kept_once_and_go_with_the_last_turn_that_refers_to_them(store: Repository) -> None:
    for name in ("one", "two"):
        with store.create(id=name) as s:
            s.append("user", "x", payloads=[STATE])
            s.append("user", "y", payloads=[STATE, OTHER] if name == "two" else [STATE])
    assert kept(store) == {STATE.digest, OTHER.digest}
    store.delete("two")
    assert kept(store) == {STATE.digest}
    assert store.verify().findings == ()
    store.delete("one")
    assert kept(store) == set()
    assert store.verify().findings == ()
    with pytest.raises(InvalidInput, match="no payload"):
        store.payload(STATE.digest)


def test_forks_copies_and_picks_refer_to_the_same_bytes(store: Repository) -> None:
    with store.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE])
    fork = s.fork(id="fork")
    fork.append("user", "y", payloads=[STATE])
    fork.persist()
    fork.detach()
    flat = fork.flatten(id="flat")
    with store.create(id="picked") as picked:
        picked.cherry_pick("plan", [0])
    for session in (fork, flat, picked):
        assert store.payload(store.load(session.id).turns[0].payloads[0]) == STATE.data
    assert kept(store) == {STATE.digest}
    assert store.verify().findings == ()
    for session_id in ("plan", "fork", "picked"):
        store.delete(session_id)
        assert kept(store) == {STATE.digest}
    store.delete("flat")
    assert kept(store) == set()


def test_a_writer_keeps_bytes_that_went_between_its_append_and_its_commit(opener: Callable[[str], Repository]) -> None:
    with opener("a.trails") as store:
        with store.create(id="old") as old:
            old.append("user", "x", payloads=[STATE])
        late = store.create(id="late")
        late.append("user", "x", payloads=[STATE])
        store.delete("old")
        late.persist()
        assert store.payload(STATE.digest) == STATE.data
        assert store.verify().findings == ()


# --- verifying


def made_once(folder: Path) -> None:
    with trails.open(folder, create=True) as store, store.create(id="plan") as s:
        s.append("user", "x")
        s.append("user", "y", payloads=[STATE])


def test_verify_names_the_turn_whose_payload_is_gone(tmp_path: Path) -> None:
    made_once(tmp_path / "a.trails")
    node = NamedNode(iris.payload(STATE.digest))
    with altered(tmp_path / "a.trails") as engine:
        engine.remove_graph(node)
    with trails.open(tmp_path / "a.trails") as store:
        (finding,) = store.verify().findings
    assert (finding.code, finding.session_id, finding.index) == ("missing-payload", "plan", 1)


@pytest.mark.parametrize("piece", ["AAAA", "no base64", ""])
def test_verify_names_the_turn_whose_payload_is_another_one(tmp_path: Path, piece: str) -> None:
    made_once(tmp_path / "a.trails")
    node = NamedNode(iris.payload(STATE.digest))
    with altered(tmp_path / "a.trails") as engine:
        (old,) = engine.quads_for_pattern(None, vocab.BYTES_PART, None, node)
        engine.remove(old)
        engine.add(Quad(old.subject, vocab.BYTES_PART, Literal(piece), node))
    with trails.open(tmp_path / "a.trails") as store:
        (finding,) = store.verify().findings
        assert (finding.code, finding.session_id, finding.index) == ("digest-mismatch", "plan", 1)
        with pytest.raises(trails.IntegrityError, match="altered"):
            store.payload(STATE.digest)


def test_verify_finds_bytes_to_which_no_turn_refers(memory: Repository) -> None:
    node = NamedNode(iris.payload(OTHER.digest))
    memory.store.commit(Change(add=[Quad(node, vocab.TYPE, vocab.PAYLOAD, node)]))
    assert codes(memory) == ["stray-graph"]


def test_verify_finds_a_turn_that_refers_to_other_bytes(tmp_path: Path) -> None:
    made_once(tmp_path / "a.trails")
    with trails.open(tmp_path / "a.trails") as store, store.create(id="other") as s:
        s.append("user", "x", payloads=[OTHER])
    graph = NamedNode(iris.session("plan"))
    with altered(tmp_path / "a.trails") as engine:
        (old,) = engine.quads_for_pattern(None, vocab.PAYLOAD_OF, None, graph)
        engine.remove(old)
        engine.add(Quad(old.subject, vocab.PAYLOAD_OF, NamedNode(iris.payload(OTHER.digest)), graph))
    with trails.open(tmp_path / "a.trails") as store:
        found = {(finding.code, finding.session_id, finding.index) for finding in store.verify().findings}
    assert ("digest-mismatch", "plan", 1) in found
    assert "stray-graph" in {code for code, _, _ in found}


def test_a_reference_reads_as_plain_values() -> None:
    reference = PayloadReference(name="state", media_type="text/plain", digest="0f" * 32, size=3)
    assert reference.to_dict() == {"name": "state", "media_type": "text/plain", "digest": "0f" * 32, "size": 3}


# --- redacting a turn


def test_a_redacted_turn_says_what_its_payload_was_and_the_bytes_go_with_the_last_turn(store: Repository) -> None:
    with store.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE])
        s.append("user", "y", payloads=[STATE, OTHER])
    head = s.head
    store.redact("plan", 1)
    assert kept(store) == {STATE.digest}
    first, second = store.load("plan").turns
    assert [each.digest for each in first.payloads] == [STATE.digest]
    assert [(each.name, each.size, each.digest) for each in second.payloads] == [("state", 11, None), (None, 256, None)]
    assert STATE.digest not in {each.withheld for each in second.payloads}
    with pytest.raises(InvalidInput, match="redacted"):
        store.payload(second.payloads[0])
    assert (store.load("plan").head, store.verify().findings) == (head, ())
    store.redact("plan", 0)
    assert kept(store) == set()
    assert store.verify().findings == ()


# --- elsewhere


@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_an_export_holds_the_bytes_and_an_import_keeps_them_once(store: Repository, form: str) -> None:
    with store.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE, OTHER, Payload(data=b"")])
        s.append("user", "y", payloads=[STATE])
    store.redact("plan", 1)
    out = io.BytesIO()
    export_session(store, "plan", form, out)
    with trails.open(":memory:") as other:
        with other.create(id="mine") as mine:
            mine.append("user", "z", payloads=[STATE])
        assert import_rdf(other, out.getvalue(), form).problems == []
        assert [other.payload(each) for each in other.load("plan").turns[0].payloads] == [STATE.data, OTHER.data, b""]
        assert other.verify().findings == ()
        assert import_rdf(other, out.getvalue(), form).unchanged == ["plan"]
        again = io.BytesIO()
        export_session(other, "plan", form, again)
        assert again.getvalue() == out.getvalue()


def test_an_export_that_brings_more_turns_brings_their_payloads(memory: Repository) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE])
    early, late = io.BytesIO(), io.BytesIO()
    export_session(memory, "plan", "nquads", early)
    s.append("user", "y", payloads=[OTHER, STATE])
    s.persist()
    export_session(memory, "plan", "nquads", late)
    with trails.open(":memory:") as other:
        import_rdf(other, early.getvalue(), "nquads")
        assert import_rdf(other, late.getvalue(), "nquads").grown == ["plan"]
        assert [other.payload(each) for each in other.load("plan").turns[1].payloads] == [OTHER.data, STATE.data]
        assert other.verify().findings == ()


def test_what_was_redacted_here_brings_no_bytes(memory: Repository) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE])
    out = io.BytesIO()
    export_session(memory, "plan", "nquads", out)
    memory.redact("plan", 0)
    memory.delete("plan")
    assert import_rdf(memory, out.getvalue(), "nquads", restore=True).problems == []
    assert [each.digest for each in memory.load("plan").turns[0].payloads] == [None]
    assert kept(memory) == set()
    assert memory.verify().findings == ()


def test_an_export_whose_bytes_were_altered_or_left_out_is_refused(memory: Repository) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE])
    out = io.BytesIO()
    export_session(memory, "plan", "nquads", out)
    lines = out.getvalue().splitlines(keepends=True)
    without = b"".join(line for line in lines if b"bytesPart" not in line)
    gone = b"".join(line for line in lines if b"<urn:trails:payload:" not in line.rsplit(b" ", 2)[1])
    for data in (without, gone):
        assert data != out.getvalue()
        with trails.open(":memory:") as other, pytest.raises(InvalidInput, match="payload"):
            import_rdf(other, data, "nquads")


def test_a_past_view_has_what_turns_carried_then(memory: Repository) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE, Payload(data=b"")])
    mark = mark_of(memory)
    s.append("user", "y", payloads=[OTHER])
    s.persist()
    with memory.at(mark) as past:
        turn = past.load("plan").turns[-1]
        assert [past.payload(each) for each in turn.payloads] == [STATE.data, b""]
        assert kept(past) == {STATE.digest, hashlib.sha256(b"").hexdigest()}
        assert past.verify().findings == ()


# --- taking texts out of payloads and metadata

MARK = 'Zenobia\'s "first" émail'
"""What is taken out: with what JSON escapes, and what UTF-8 takes two bytes for."""


def as_json(text: str) -> bytes:
    return json.dumps({"who": text, "deep": [1, {"note": f"told {text} so"}], "kept": "yes"}).encode()


PLACES: dict[str, Callable[[str], bytes]] = {
    "JSON": as_json,
    "JSON in UTF-8": lambda text: json.dumps({"who": text}, ensure_ascii=False).encode(),
    "a key of JSON": lambda text: json.dumps({text: 1, f"{text}2": 2}).encode(),
    "JSON in JSON": lambda text: json.dumps({"inner": json.dumps({"who": text, "kept": "yes"})}).encode(),
    "base64 in JSON": lambda text: json.dumps({"type": "bytes", "data": b64encode(as_json(text)).decode()}).encode(),
    "base64 in base64": lambda text: b64encode(b64encode(as_json(text))),
    "URL-safe base64": lambda text: b'{"d":"' + urlsafe_b64encode(b"\xff\xfe\xfd" + text.encode()) + b'"}',
    "text": lambda text: f"Dear {text},\nhow are you?".encode(),
    "lines of JSON": lambda text: as_json(text) + b"\n" + as_json("nobody"),
    "a binary format": lambda text: b"\x82\xa3who\xd9" + bytes([len(text.encode())]) + text.encode() + b"\xff\x00",
    "base64 after letters": lambda text: b"\xd9AAz" + b64encode(text.encode()) + b"\x00\x81",
    "UTF-16": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
}


@pytest.mark.parametrize("form", PLACES)
def test_a_text_is_taken_out_of_bytes_of_any_form(memory: Repository, form: str) -> None:
    data = PLACES[form](MARK)
    if form != "UTF-16":
        assert holds_hidden(data, TextMatcher(MARK).within)
    with memory.create(id="plan") as s:
        s.append("user", "Plan a trip", payloads=[Payload(data=data, name="state")])
    head = s.head
    report = memory.redact_matching(MARK, by="dave")
    if form == "UTF-16":  # it is overwritten where it is found in other forms, and is not looked for alone
        assert report.places == ()
        return
    assert [(each.session_id, each.kind, each.index) for each in report.places] == [("plan", "payload", 0)]
    loaded = memory.load("plan")
    turn = loaded.turns[0]
    (reference,) = turn.payloads
    left = memory.payload(reference)
    assert (turn.content, turn.redacted, loaded.head) == ("Plan a trip", False, head)
    assert (reference.name, reference.size, reference.digest) == ("state", len(left), hashlib.sha256(left).hexdigest())
    assert not holds_hidden(left, TextMatcher(MARK).within)
    assert kept(memory) == {reference.digest}
    assert memory.verify().findings == ()
    assert memory.redact_matching(MARK).places == ()


def test_of_json_nothing_but_the_values_that_hold_the_text_is_changed(memory: Repository) -> None:
    data = b'{ "who": "told Zenobia",\n  "n": 1.50, "deep": ["x", "Zenobia"], "inner": "{\\"a\\": \\"Zenobia\\", \\"b\\": 2}" }'
    with memory.create(id="plan") as s:
        s.append("user", "x", payloads=[Payload(data=data)])
    memory.redact_matching("Zenobia")
    assert memory.payload(memory.load("plan").turns[0].payloads[0]) == (
        b'{ "who": "redacted",\n  "n": 1.50, "deep": ["x", "redacted"], "inner": "{\\"a\\": \\"redacted\\", \\"b\\": 2}" }'
    )


def test_of_a_binary_format_the_length_stays(memory: Repository) -> None:
    data = b"\x81\xa3who\xa7Zenobia\xc0"
    with memory.create(id="plan") as s:
        s.append("user", "x", payloads=[Payload(data=data)])
    memory.redact_matching("Zenobia")
    assert memory.payload(memory.load("plan").turns[0].payloads[0]) == b"\x81\xa3who\xa7*******\xc0"


def test_every_turn_that_refers_to_the_bytes_refers_to_the_new_ones(store: Repository) -> None:
    secret = Payload(data=b'{"key": "Zenobia"}')
    with store.create(id="one") as one:
        one.append("user", "x", payloads=[secret, OTHER])
        one.append("user", "y", payloads=[secret])
    fork = one.fork(id="fork")
    fork.append("user", "z", payloads=[secret])
    fork.persist()
    fork.detach()
    with store.create(id="two") as two:
        two.append("user", "Zenobia herself", payloads=[secret])
    heads = [store.load(each).head for each in ("one", "fork", "two")]
    assert [each.kind for each in store.redact_matching("Zenobia", dry_run=True).places].count("payload") == 6
    assert kept(store) == {secret.digest, OTHER.digest}
    store.redact_matching("Zenobia", by="dave", reason="asked to")
    new = hashlib.sha256(b'{"key": "redacted"}').hexdigest()
    assert kept(store) == {new, OTHER.digest}
    for session_id, length in (("one", 2), ("fork", 3)):
        turns = store.load(session_id).turns
        assert len(turns) == length
        assert {each.digest for turn in turns for each in turn.payloads} == {new, OTHER.digest}
    (turn,) = store.load("two").turns
    assert (turn.redacted, turn.payloads[0].digest) == (True, None)
    assert [store.load(each).head for each in ("one", "fork", "two")] == heads
    assert store.verify().findings == ()


def test_a_value_of_metadata_is_taken_out_and_the_content_stays(store: Repository) -> None:
    with store.create(id="plan") as s:
        s.append("user", "Plan a trip", meta={"who": "told Zenobia", "kept": [1, "yes"]}, payloads=[OTHER])
        s.append("user", "On foot")
    head = s.head
    report = store.redact_matching("Zenobia", by="dave")
    assert [(each.kind, each.index) for each in report.places] == [("turn metadata", 0)]
    turn = store.load("plan").turns[0]
    assert (turn.content, turn.meta, turn.redacted) == ("Plan a trip", {"who": "redacted", "kept": [1, "yes"]}, False)
    assert (store.payload(turn.payloads[0]), store.load("plan").head) == (OTHER.data, head)
    assert store.verify().findings == ()
    store.redact_matching("yes")
    assert store.load("plan").turns[0].meta == {"who": "redacted", "kept": [1, "redacted"]}
    assert store.verify().findings == ()
    store.redact("plan", 0)
    turn = store.load("plan").turns[0]
    assert (turn.redacted, turn.meta, store.load("plan").head) == (True, {}, head)
    assert (kept(store), store.verify().findings) == (set(), ())


def test_what_was_taken_out_cannot_be_guessed_by_the_digests_that_are_left(memory: Repository) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "Plan a trip", meta={"pin": "4711"}, payloads=[Payload(data=b"4712")])
    (quad,) = memory.store.quads((None, vocab.SALT, None, None))
    salt = term_text(quad.object)
    assert digests.facts_digest(s.turns[0].facts, salt) != digests.facts_digest(s.turns[0].facts, "0" * 32)
    memory.redact_matching("4711")
    memory.redact_matching("4712")
    everything = "\n".join(map(str, memory.store.quads((None, None, None, None))))
    assert salt not in everything
    for text in ("4711", "4712", hashlib.sha256(b"4711").hexdigest(), hashlib.sha256(b"4712").hexdigest()):
        assert text not in everything


def test_what_was_taken_out_of_a_turn_can_be_altered_no_more_than_before(tmp_path: Path) -> None:
    with trails.open(tmp_path / "a.trails", create=True) as store:
        with store.create(id="plan") as s:
            s.append("user", "Plan a trip", meta={"who": "Zenobia", "kept": "yes"})
        store.redact_matching("Zenobia")
    graph = NamedNode(iris.session("plan"))
    with altered(tmp_path / "a.trails") as engine:
        (old,) = engine.quads_for_pattern(None, vocab.VALUE, None, graph)
        engine.remove(old)
        engine.add(Quad(old.subject, vocab.VALUE, Literal("Plan a war"), graph))
    with trails.open(tmp_path / "a.trails") as store:
        assert "digest-mismatch" in codes(store)


def test_a_copy_that_comes_back_stands_as_the_turn_does_here(memory: Repository) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "Plan a trip", meta={"who": "Zenobia"}, payloads=[Payload(data=b'["Zenobia"]')])
    s.fork(id="fork").persist()
    out = io.BytesIO()
    export_session(memory, "plan", "nquads", out)
    memory.load("fork").detach()
    memory.delete("plan")
    memory.redact_matching("Zenobia")
    assert import_rdf(memory, out.getvalue(), "nquads", restore=True).problems == []
    turn = memory.load("plan").turns[0]
    assert (turn.content, turn.meta, memory.payload(turn.payloads[0])) == (
        "Plan a trip",
        {"who": "redacted"},
        b'["redacted"]',
    )
    assert memory.verify().findings == ()


def test_erased_bytes_are_in_no_file(tmp_path: Path) -> None:
    """Neither as they are, nor in what SQLite's records and the engine's files decompress to, nor in base64 there."""
    folder = tmp_path / "a.trails"
    with trails.open(folder, create=True) as store:
        with store.create(id="plan") as s:
            for number in range(3):
                s.append("user", "x", meta={"m": MARK}, payloads=[Payload(data=as_json(f"{MARK} {number}"))])
        with store.create(id="gone") as gone:
            gone.append("user", "x", payloads=[Payload(data=as_json(f"{MARK} gone"))])
        assert texts_in(folder) & {"whole"}
        store.delete("gone")
        store.redact_matching(MARK)
        store.maintenance.vacuum()
        assert store.verify().findings == ()
        assert texts_in(folder) == set()
    assert texts_in(folder) == set()


def texts_in(folder: Path) -> set[str]:
    """How the mark stands in a store: in the bytes of its files, or in the records of its log."""
    found: set[str] = set()
    matcher = TextMatcher(MARK)
    if holds_hidden(bytes_of(folder), matcher.within):
        found.add("bytes")
    with closing(sqlite3.connect(f"file:{folder / 'trails.db'}?mode=ro", uri=True)) as file:
        rows = file.execute(
            "SELECT number, commit_id, flags, leaves, body, body_digest, digest, rewritten FROM trails_records"
        )
        for row in rows:
            record = Row(*row).unpack().record
            if holds_hidden(record.add + record.remove, matcher.within):
                found.add("whole")
    return found


def test_a_session_file_of_pi_holds_them(memory: Repository, tmp_path: Path) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "Plan a trip", payloads=[STATE, OTHER])
        s.append("assistant", "Where to?", payloads=[STATE])
    (tmp_path / "session.jsonl").write_bytes(export_pi(memory, "plan"))
    with trails.open(":memory:") as other:
        assert import_path(other, tmp_path / "session.jsonl").problems == []
        (record,) = other.list()
        turns = other.load(record.id).turns
        assert [turn.payloads for turn in turns] == [turn.payloads for turn in s.turns]
        assert [other.payload(each) for turn in turns for each in turn.payloads] == [STATE.data, OTHER.data, STATE.data]


# --- secrets

KEY = MADE["github-token"](3)


@pytest.mark.parametrize("form", [form for form in PLACES if form != "UTF-16"])
def test_a_secret_in_a_payload_is_refused_or_taken_out_on_its_way_in(memory: Repository, form: str) -> None:
    carried = Payload(data=PLACES[form](KEY), name="state")
    s = memory.create(id="plan")
    with pytest.raises(trails.SecretFound) as raised:
        s.append("user", "x", payloads=[carried], scan="refuse")
    assert (raised.value.kind, raised.value.where, len(s)) == ("github-token", "payload 'state'", 0)
    turn = s.append("user", "x", payloads=[carried], scan="redact")
    s.persist()
    left = memory.payload(turn.payloads[0])
    assert turn.payloads[0].size == len(left)
    assert not any(KEY in text for text in hidden_texts(left))
    assert session_quads.scan_session(memory.workspace, "plan").found == ()
    assert memory.verify().findings == ()


@pytest.mark.parametrize("form", [form for form in PLACES if form != "UTF-16"])
def test_a_scan_finds_secrets_in_payloads(memory: Repository, form: str) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "x")
        s.append("user", "y", payloads=[Payload(data=PLACES[form](KEY))])
    with s.fork(id="fork") as fork:
        fork.append("user", "z")
    for report in (
        session_quads.scan_session(memory.workspace, "plan"),
        session_quads.scan_session(memory.workspace, "fork"),
        session_quads.scan_sessions(memory.workspace),
    ):
        found = {(each.kind, each.session_id, each.index, each.where) for each in report.found}
        assert found == {("github-token", "plan", 1, "payload")}


def test_bytes_without_a_secret_are_kept_as_they_are(memory: Repository) -> None:
    with memory.create(id="plan") as s:
        turn = s.append("user", "x", payloads=[STATE, OTHER], scan="redact")
    assert [each.digest for each in turn.payloads] == [STATE.digest, OTHER.digest]


# --- asking and showing


def test_a_query_tells_which_turns_carry_which_bytes(store: Repository) -> None:
    for name in ("one", "two"):
        with store.create(id=name) as s:
            s.append("user", "x", payloads=[STATE, OTHER] if name == "one" else [STATE])
    store.redact("two", 0)
    answer = store.query("payloads")
    assert isinstance(answer, Solutions)
    assert [tuple(row.values())[1:6] for row in answer.to_dicts()] == [
        (0, "state", "application/json", 11, STATE.digest),
        (0, None, "application/octet-stream", 256, OTHER.digest),
        (0, "state", "application/json", 11, None),
    ]


def test_a_transcript_shows_that_turns_carry_payloads(place: Path, run: Run) -> None:
    with trails.open(place, create=True) as store:
        with store.create(id="plan") as s:
            s.append("user", "Plan a trip", payloads=[STATE, Payload(data=b"x")])
            s.append("user", "On foot", payloads=[STATE])
        store.redact("plan", 1)
    shown = run("show", "plan").output
    assert "+ payload state (application/json, 11 bytes)" in shown
    assert "+ payload (application/octet-stream, 1 byte)" in shown
    assert "+ payload state (application/json, 11 bytes, redacted)" in shown
    told = json.loads(run("show", "plan", "--json").output)
    assert told["turns"][0]["payloads"][0] == {
        "name": "state",
        "media_type": "application/json",
        "digest": STATE.digest,
        "size": 11,
    }


# --- other places, other writers


def carrying(store: Repository) -> None:
    with store.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE, OTHER])
        s.append("user", "y", payloads=[STATE])


def check_carried(store: Repository) -> None:
    turns = store.load("plan").turns
    assert [store.payload(each) for turn in turns for each in turn.payloads] == [STATE.data, OTHER.data, STATE.data]
    assert kept(store) == {STATE.digest, OTHER.digest}
    assert store.verify().findings == ()


def test_backups_copies_dumps_and_pushes_hold_them(tmp_path: Path) -> None:
    with trails.open(tmp_path / "a.trails", create=True) as store:
        carrying(store)
        store.maintenance.backup(tmp_path / "backup.trails")
        with trails.open(tmp_path / "pushed.trails", create=True) as other:
            assert [each.outcome for each in trails.push(store, "plan", other).sessions] == ["created"]
    copy_store(tmp_path / "a.trails", tmp_path / "copy.trails")
    copy_store(tmp_path / "a.trails", tmp_path / "dump.nq")
    copy_store(tmp_path / "dump.nq", tmp_path / "again.trails")
    for name in ("backup", "pushed", "copy", "again"):
        with trails.open(tmp_path / f"{name}.trails") as store:
            check_carried(store)


def test_in_postgresql_they_are_kept_once_redacted_and_erased(url: str) -> None:
    with trails.open(url, create=True) as store, trails.open(url) as other:
        carrying(store)
        other.sync()
        check_carried(other)
        with other.create(id="told") as told:
            told.append("user", "x", payloads=[Payload(data=as_json(MARK))])
        store.sync()
        store.redact_matching(MARK)
        other.sync()
        (reference,) = other.load("told").turns[0].payloads
        assert not holds_hidden(other.payload(reference), TextMatcher(MARK).within)
        for name in ("plan", "told"):
            other.delete(name)
        store.sync()
        store.maintenance.vacuum()
        assert kept(store) == kept(other) == set()
        assert store.verify().findings == ()


def test_a_redaction_and_writers_of_the_same_bytes_leave_no_turn_without_them(tmp_path: Path) -> None:
    secret = Payload(data=b'{"key": "Zenobia"}')
    with trails.open(tmp_path / "a.trails", create=True, durability="process") as store:
        with store.create(id="first") as first:
            first.append("user", "x", payloads=[secret])

        def write(number: int) -> None:
            for at in range(10):
                with store.create(id=f"s{number}-{at}") as s:
                    s.append("user", "x", payloads=[secret])
                if at % 3 == 0:
                    store.delete(f"s{number}-{at}")

        with ThreadPoolExecutor(4) as pool:
            written = [pool.submit(write, number) for number in range(3)]
            taken = pool.submit(lambda: [store.redact_matching("Zenobia") for _ in range(5)])
            for each in written:
                each.result()
            assert taken.result()
        assert store.verify().findings == ()
        store.redact_matching("Zenobia")
        assert kept(store) == {hashlib.sha256(b'{"key": "redacted"}').hexdigest()}
        assert store.verify().findings == ()


def test_a_deletion_that_is_cut_short_leaves_no_bytes_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends at each commit of the sweep in turn; whoever opens the store next goes on with it."""
    for killed_at in range(1, 4):
        folder = tmp_path / f"{killed_at}.trails"
        with trails.open(folder, create=True) as store:
            carrying(store)
            commits = 0
            real = store.store.commit

            def commit(change: Change, real: Any = real, killed_at: int = killed_at) -> Any:
                nonlocal commits
                commits += 1
                if commits > killed_at:
                    raise KeyboardInterrupt
                return real(change)

            with monkeypatch.context() as patched:
                patched.setattr(store.store, "commit", commit)
                with pytest.raises(KeyboardInterrupt):
                    store.delete("plan")
        with trails.open(folder) as store:
            assert kept(store) == set()
            assert store.verify().findings == ()


@pytest.mark.parametrize("at", [0, (8 << 20) - 4, (15 << 20) - 3, (16 << 20) - 7])
@pytest.mark.sample(1)
def test_a_text_is_found_wherever_in_many_bytes_it_stands(at: int) -> None:
    data = bytearray(16 << 20)
    data[at : at + 7] = b"Zenobia"
    matcher = TextMatcher("Zenobia")
    assert holds_hidden(bytes(data), matcher.within)
    left = without_hidden(bytes(data), matcher.within, matcher.overwritten, iris.UNNAMED)
    assert len(left) == len(data)
    assert left[at : at + 7] == b"*" * 7


def test_an_import_reports_secrets_in_payloads_and_takes_them_out_if_asked_to(
    memory: Repository, tmp_path: Path
) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "Plan a trip", payloads=[Payload(data=as_json(KEY))])
    (tmp_path / "session.jsonl").write_bytes(export_pi(memory, "plan"))
    for is_out in (False, True):
        with trails.open(":memory:") as other:
            report = import_path(other, tmp_path / "session.jsonl", redact_secrets=is_out)
            assert [(each.kind, each.where) for each in report.secrets] == [("github-token", "payload")]
            (record,) = other.list()
            data = other.payload(other.load(record.id).turns[0].payloads[0])
            assert any(KEY in text for text in hidden_texts(data)) is not is_out


_WORDS = st.text(max_size=8) | st.sampled_from(
    [MARK, f"to {MARK}!", json.dumps({"a": MARK}), b64encode(MARK.encode()).decode()]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_of_any_json_the_text_goes_and_all_else_stays(value: Any) -> None:
    matcher = TextMatcher(MARK)
    data = json.dumps(value).encode()
    left = without_hidden(data, matcher.within, matcher.overwritten, iris.UNNAMED)
    assert not holds_hidden(left, matcher.within)
    if not holds_hidden(data, matcher.within):
        assert left == data
    elif isinstance(value, list):
        assert [new for new, old in zip(json.loads(left), value, strict=True) if isinstance(old, int | float)] == [
            old for old in value if isinstance(old, int | float)
        ]


@given(st.lists(st.binary(max_size=40) | st.sampled_from([MARK.encode(), b64encode(MARK.encode())]), max_size=6))
def test_of_any_bytes_the_text_goes(pieces: list[bytes]) -> None:
    matcher = TextMatcher(MARK)
    data = b"\xff".join(pieces)
    left = without_hidden(data, matcher.within, matcher.overwritten, iris.UNNAMED)
    assert not holds_hidden(left, matcher.within)
    assert len(left) == len(data) or not holds_hidden(data, matcher.within)


def test_the_log_has_equal_bytes_once(tmp_path: Path) -> None:
    with trails.open(tmp_path / "a.trails", create=True) as store:
        for name in ("one", "two"):
            with store.create(id=name) as s:
                s.append("user", "x", payloads=[STATE])
                s.append("user", "y", payloads=[STATE, STATE])
    with closing(sqlite3.connect(tmp_path / "a.trails" / "trails.db")) as file:
        rows = file.execute(
            "SELECT number, commit_id, flags, leaves, body, body_digest, digest, rewritten FROM trails_records"
        )
        assert sum(Row(*row).unpack().record.add.count(b"#bytesPart>") for row in rows) == 1


def test_a_turn_that_comes_while_a_text_is_taken_out_loses_it_too(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = Payload(data=b'["Zenobia"]')
    with memory.create(id="first") as first:
        first.append("user", "x", payloads=[secret])
    real, late = payloads.put_in_place, memory.create(id="late")

    def put(taking: Any) -> None:
        real(taking)
        if not late.worktree.stored:
            late.append("user", "x", payloads=[secret])
            late.persist()

    monkeypatch.setattr(payloads, "put_in_place", put)
    memory.redact_matching("Zenobia")
    for name in ("first", "late"):
        assert memory.payload(memory.load(name).turns[0].payloads[0]) == b'["redacted"]'
    assert memory.verify().findings == ()


def test_a_copy_is_refused_while_the_bytes_of_its_original_go(
    memory: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with memory.create(id="plan") as s:
        s.append("user", "x", payloads=[STATE])
    real = detach.copy_turns

    def copied(*args: Any, **options: Any) -> Any:
        payloads.sweep_references(memory.store, NamedNode(iris.session("plan")))  # as a deletion begins
        return real(*args, **options)

    monkeypatch.setattr(detach, "copy_turns", copied)
    with pytest.raises(InvalidInput, match="redacted or deleted meanwhile"):
        memory.flatten("plan", id="flat")
    assert "flat" not in memory
