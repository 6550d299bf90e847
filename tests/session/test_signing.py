"""Principals sign the heads that they persist: what is covered, what is found, and what becomes of a signature."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Literal, NamedNode, Quad

import trails
from tests.support.commands import Run, ok
from trails import Repository, Session
from trails.errors import HeadConflict, InvalidInput, TrailsError
from trails.exchange.rdf_files import export_session, import_rdf
from trails.history import log_leaves
from trails.history.transaction import Proposal
from trails.integrity.signed_notes import HeadSignature, new_principal_key, sign_head
from trails.rdf import vocab
from trails.rdf.annotation_records import signature_quads
from trails.store.contract import Change

ALICE, ALICE_KEY = new_principal_key("alice")
BOB, BOB_KEY = new_principal_key("bob")


def wrote(session: Session, *texts: str) -> Session:
    for text in texts:
        session.append("user", text)
    session.persist()
    return session


@pytest.fixture
def plan(memory: Repository) -> Session:
    """Three turns, of which alice signed the first two, and a fourth that nobody signed in a fork at 1."""
    plan = wrote(memory.create(id="plan", principal="alice"), "one")
    plan.append("user", "two")
    plan.persist(sign=ALICE)
    wrote(plan, "three")
    wrote(plan.fork(at=1, id="fork"), "other")
    return plan


def unsigned(store: Repository, *signers: str, session: str | None = None) -> list[tuple[str, int, int]] | None:
    found = store.verify(session, signers=signers).unsigned
    return None if found is None else [(each.session_id, each.first, each.last) for each in found]


def codes(store: Repository) -> list[tuple[str, int | None]]:
    return [(each.code, each.index) for each in store.verify().findings]


# --- what is covered


def test_turns_that_nobody_signed_are_told_and_are_no_fault(store: Repository) -> None:
    session = wrote(store.create(id="plan"), "one", "two")
    assert unsigned(store) is None
    assert store.verify(require_signed=True).unsigned is not None
    session.append("user", "three")
    made = session.sign(ALICE)
    assert (made.principal, made.index, made.head, made.key) == ("alice", 2, session.head, ALICE_KEY)
    assert session.signatures() == [made]
    assert unsigned(store) == []
    wrote(session, "four", "five")
    wrote(store.create(id="new"), "one")
    assert unsigned(store) == [("new", 0, 0), ("plan", 3, 4)]
    assert store.verify().ok


def test_a_signature_covers_what_is_inherited_and_no_turns_after_it(memory: Repository, plan: Session) -> None:
    assert unsigned(memory) == [("fork", 1, 1), ("plan", 2, 2)]
    assert unsigned(memory, session="plan") == [("plan", 2, 2)]
    fork = memory.load("fork")
    deep = wrote(fork.fork(id="deep"), "more")
    deep.sign(BOB)
    assert unsigned(memory) == [("plan", 2, 2)]
    assert unsigned(memory, ALICE_KEY) == [("deep", 2, 2), ("fork", 1, 1), ("plan", 2, 2)]
    assert unsigned(memory, BOB_KEY) == [("plan", 1, 2)]  # alice's first turn is inherited by what bob signed
    assert unsigned(memory, ALICE_KEY, BOB_KEY, session="deep") == [("plan", 2, 2)]


def test_unsigned_turns_are_findings_for_those_who_demand_signatures(memory: Repository, plan: Session) -> None:
    found = memory.verify(require_signed=True).findings
    assert [(each.code, each.session_id, each.index) for each in found] == [
        ("unsigned", "fork", 1),
        ("unsigned", "plan", 2),
    ]
    plan.sign(ALICE)
    memory.load("fork").sign(ALICE)
    assert memory.verify(require_signed=True, signers=[ALICE_KEY]).ok
    assert len(memory.verify(require_signed=True, signers=[BOB_KEY]).findings) == 2
    with pytest.raises(InvalidInput, match="secret signer key"):
        memory.verify(signers=[ALICE])


def test_a_head_is_signed_once_by_a_key(memory: Repository, plan: Session) -> None:
    first = plan.sign(BOB)
    lines = len(memory.store.log.lines())
    assert plan.sign(BOB) == first
    assert len(memory.store.log.lines()) == lines
    assert [each.principal for each in plan.signatures()] == ["alice", "bob"]


def test_turns_and_signature_are_stored_together_or_not_at_all(memory: Repository) -> None:
    session = memory.create(id="plan")
    for key in (ALICE_KEY, "no key"):
        session.append("user", "one")
        with pytest.raises(InvalidInput):
            session.persist(sign=key)
        assert memory.list() == []
        session.discard_pending()
    with pytest.raises(InvalidInput, match="no turns"):
        session.sign(ALICE)
    session.append("user", "one")
    session.sign(ALICE)
    assert [line.split()[0] for line in memory.store.log.lines()] == ["create", "change", "turns"]
    stale = memory.load("plan")
    wrote(memory.load("plan"), "two")
    stale.append("user", "another two")
    with pytest.raises(HeadConflict):
        stale.sign(ALICE)
    assert [each.index for each in memory.load("plan").signatures()] == [0]


def test_what_an_exchange_will_store_is_not_signed_before(memory: Repository) -> None:
    wrote(memory.create(id="plan"), "one")
    ledger = trails.Ledger(memory)
    ledger.receive("plan", "Hello")

    def answer(running: Any) -> str:
        with pytest.raises(InvalidInput, match="when that is completed"):
            running.session.sign(ALICE)
        return "Hi"

    ledger.process("plan", answer)
    assert memory.load("plan").signatures() == []


# --- what is found


def put(store: Repository, said: HeadSignature, instead_of: HeadSignature | None = None) -> None:
    """Store a signature as whoever owns the disk can who writes the log too."""
    old = [] if instead_of is None else signature_quads(instead_of)[:-1]
    Proposal(add=signature_quads(said), remove=old, makers=[log_leaves.row_states("change", [said.session_id])]).commit(
        store.store
    )


def swapped(store: Repository, predicate: NamedNode, value: NamedNode | Literal) -> None:
    [old] = [
        quad for quad in store.store.quads((None, predicate, None, vocab.CATALOG)) if "/signature/" in str(quad.subject)
    ]
    store.store.commit(Change(add=[Quad(old.subject, predicate, value, vocab.CATALOG)], remove=[old]))


@pytest.mark.parametrize(
    ("predicate", "value", "found"),
    [
        (vocab.SIGNED_INDEX, vocab.integer(2), ["bad-signature"]),
        (vocab.SIGNED_HEAD, Literal("00" * 32), ["bad-signature"]),
        (vocab.SIGNER_KEY, Literal(BOB_KEY), ["bad-signature"]),
        (vocab.SIGNER_KEY, Literal("redacted"), ["row-altered"]),
        (vocab.TIME, Literal("2026-01-02T12:00:00Z", datatype=vocab.DATE_TIME), ["bad-signature"]),
        (vocab.ATTRIBUTED_TO, NamedNode("urn:trails:agent:x"), ["bad-signature", "missing"]),
        (vocab.SIGNATURE, Literal("AAAA"), ["bad-row"]),
        (vocab.SIGNATURE_OF, NamedNode("urn:trails:session:fork"), ["bad-row", "row-altered", "row-altered"]),
    ],
)
def test_a_signature_that_is_altered_behind_the_log_is_found(
    memory: Repository, plan: Session, predicate: NamedNode, value: NamedNode | Literal, found: list[str]
) -> None:
    swapped(memory, predicate, value)
    assert sorted({each.code for each in memory.verify().findings}) == sorted(set(found))


def test_a_signature_that_is_taken_away_is_found(memory: Repository, plan: Session) -> None:
    [said] = plan.signatures()
    memory.store.commit(Change(remove=signature_quads(said)[:-1]))
    assert codes(memory) == [("row-altered", None)]


def test_what_is_left_of_a_signature_whose_name_was_taken_out_is_altered_by_nobody(
    memory: Repository, plan: Session
) -> None:
    memory.redact_matching("alice", by="dora")
    assert memory.verify().ok
    swapped(memory, vocab.TIME, Literal("2026-01-02T12:00:00Z", datatype=vocab.DATE_TIME))
    assert codes(memory) == [("row-altered", None)]


@pytest.mark.parametrize(
    "altered",
    [
        {"index": 2},
        {"by_iri": "urn:trails:principal:bob"},
        {"key": BOB_KEY},
        {"session_id": "fork"},
        {"signature": "AAAA"},
    ],
)
def test_a_forged_signature_is_found_and_counts_for_nothing(
    memory: Repository, plan: Session, altered: dict[str, Any]
) -> None:
    [said] = plan.signatures()
    put(memory, said.model_copy(update=altered), said)
    found = [each for each in memory.verify().findings if each.code != "row-altered"]  # of the session that lost it
    assert [each.code for each in found] == ["bad-signature"]
    assert unsigned(memory) == [("fork", 1, 1), ("plan", 0, 2)]


def test_a_signature_of_a_head_that_never_was_or_is_no_longer_is_found(memory: Repository, plan: Session) -> None:
    [said] = plan.signatures()
    put(memory, sign_head(ALICE, "plan", 2, said.head))  # the right digest of another turn
    assert codes(memory) == [("bad-signature", 2)]
    put(memory, sign_head(ALICE, "plan", 9, said.head))
    assert codes(memory) == [("bad-signature", 2), ("bad-signature", 9)]
    assert unsigned(memory) == [("fork", 1, 1), ("plan", 2, 2)]


def test_a_key_of_that_name_that_somebody_made_counts_only_where_nobody_says_whose_keys_count(
    memory: Repository, plan: Session
) -> None:
    forger, _ = new_principal_key("alice")
    plan.sign(forger)
    assert memory.verify().ok
    assert unsigned(memory) == [("fork", 1, 1)]
    assert unsigned(memory, ALICE_KEY) == [("fork", 1, 1), ("plan", 2, 2)]


def test_a_transcript_that_was_written_anew_does_not_have_the_signed_head(tmp_path: Path) -> None:
    """Whoever owns the disk makes a whole store, with a log and digests that fit, and puts the old signature into it."""
    with trails.open(":memory:") as first:
        said = wrote(first.create(id="plan"), "Pay 10").sign(ALICE)
    with trails.open(":memory:") as second:
        wrote(second.create(id="plan"), "Pay 1000")
        assert second.verify().ok
        put(second, said)
        assert codes(second) == [("bad-signature", 0)]
        assert unsigned(second, ALICE_KEY) == [("plan", 0, 0)]


def test_without_the_package_for_signatures_the_remedy_is_named(
    memory: Repository, plan: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for act in (memory.verify, lambda: plan.sign(BOB)):
        with pytest.raises(TrailsError, match=r"trails\[checkpoint\]"):
            act()


# --- what becomes of it


def signatures_in(store: Repository) -> list[str]:
    quads = store.store.quads((None, vocab.TYPE, vocab.HEAD_SIGNATURE, vocab.CATALOG))
    return sorted(str(quad.subject).partition("/")[0].removeprefix("<urn:trails:session:") for quad in quads)


def test_it_goes_with_its_session_and_a_copy_is_not_signed(memory: Repository, plan: Session) -> None:
    copy = plan.flatten(id="copy")
    memory.load("fork").sign(BOB)
    assert unsigned(memory) == [("copy", 0, 2), ("plan", 2, 2)]
    assert copy.signatures() == []
    memory.load("fork").detach()
    assert memory.verify().ok
    assert unsigned(memory) == [("copy", 0, 2), ("plan", 2, 2)]
    memory.delete("plan")
    assert signatures_in(memory) == ["fork"]
    assert memory.verify().ok


def test_a_redacted_turn_is_signed_as_before(memory: Repository, plan: Session) -> None:
    memory.redact("plan", 0)
    assert memory.verify().ok
    assert unsigned(memory, ALICE_KEY) == [("fork", 1, 1), ("plan", 2, 2)]


def test_a_name_that_is_taken_out_takes_its_signatures_along(memory: Repository, plan: Session) -> None:
    plan.sign(BOB)
    memory.redact_matching("alice", by="dora")
    assert not any("alice" in str(quad) for quad in memory.store.quads((None, None, None, None)))
    assert memory.verify().ok
    assert unsigned(memory) == [("fork", 1, 1)]
    memory.redact_matching("bob", by="dora")
    assert memory.verify().ok
    assert unsigned(memory) == [("fork", 1, 1), ("plan", 0, 2)]


def test_a_text_that_stands_in_a_signature_by_chance_takes_nothing_away(memory: Repository, plan: Session) -> None:
    [said] = plan.signatures()
    memory.redact_matching(said.signature[:6], by="dora")
    memory.redact_matching(said.head[:6], by="dora")
    assert plan.signatures() == [said]


def exported(store: Repository, session: str, form: str = "nquads") -> bytes:
    out = io.BytesIO()
    export_session(store, session, form, out)
    return out.getvalue()


@pytest.mark.parametrize("form", ["nquads", "trig"])
def test_it_travels_in_an_export_and_later_ones_come_with_the_next(
    memory: Repository, plan: Session, form: str
) -> None:
    with trails.open(":memory:") as copy:
        import_rdf(copy, exported(memory, "fork", form), form)
        assert copy.load("plan").signatures() == plan.signatures()
        assert unsigned(copy, ALICE_KEY) == unsigned(memory, ALICE_KEY)
        plan.sign(BOB)
        assert import_rdf(copy, exported(memory, "plan", form), form).grown == ["plan"]
        assert import_rdf(copy, exported(memory, "plan", form), form).unchanged == ["plan"]
        assert signatures_in(copy) == ["plan", "plan"]
        assert exported(copy, "plan") == exported(memory, "plan")
        assert copy.verify().ok


def test_a_file_in_which_it_was_altered_is_refused(memory: Repository, plan: Session) -> None:
    [said] = plan.signatures()
    other = sign_head(BOB, "plan", 1, said.head, said.time)
    forged = exported(memory, "plan").replace(said.key.encode(), other.key.encode())
    with trails.open(":memory:") as copy:
        with pytest.raises(InvalidInput, match="signature of 'alice' over turn 1 does not hold"):
            import_rdf(copy, forged, "nquads")
        assert copy.list() == []


def test_signing_and_what_is_unsigned_on_the_command_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ok(run("init"))
    ok(run("create", "--id", "plan", "--principal", "alice"))
    ok(run("append", "plan", "user", "one"))
    public = ok(run("proof", "sign", "--new-key", "alice", "--key", "alice.key")).strip()
    assert (tmp_path / "alice.key.pub").read_text().strip() == public
    assert oct((tmp_path / "alice.key").stat().st_mode & 0o777) == "0o600"
    made = json.loads(ok(run("proof", "sign", "plan", "--key", "alice.key", "--json")))
    assert (made["session"], made["index"], made["principal"], made["key"]) == ("plan", 0, "alice", public)
    assert "every turn is signed" in ok(run("verify", "--signers", "alice.key.pub"))
    ok(run("append", "plan", "user", "two"))
    ok(run("append", "plan", "user", "three"))
    assert "nobody signed plan: 1 to 2" in ok(run("verify"))
    assert json.loads(ok(run("verify", "--json")))["unsigned"] == [{"session": "plan", "first": 1, "last": 2}]
    demanded = run("verify", "--require-signed", "--signers", "alice.key.pub")
    assert (demanded.exit_code, "unsigned" in demanded.stdout) == (1, True)
    report = json.loads(ok(run("audit", "plan", "--json", "--fail-on", "integrity")))
    [integrity] = [each for each in report["verdicts"] if each["name"] == "integrity"]
    assert [each["rows"] for each in integrity["found"]] == [[["plan", 1, 2]]]
    assert run("audit", "plan", "--fail-on", "integrity", "--require-signed").exit_code == 1
    for words in (("sign", "--key", "alice.key"), ("sign", "plan", "--key", "nosuch")):
        assert run(*words).exit_code == 2
    assert run("proof", "sign", "plan", "--key", "alice.key.pub").exit_code == 2
