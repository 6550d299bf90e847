"""An erasure that follows derivation takes what it says, nothing else, and leaves a receipt without any content."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

import trails
from trails import InvalidInput, OnHold, Repository
from trails.errors import IntegrityError
from trails.integrity.erasure_receipts import open_receipt, read_receipt
from trails.integrity.signed_notes import new_key

CODE = "The code of the safe in the hall is 4711 since May"


@pytest.fixture
def told(memory: Repository) -> Repository:
    """plan says the secret at 1; cut repeats it as a copy, worker quotes it, near says nearly the same, other does not."""
    plan = memory.create(id="plan", principal="alice")
    for text in ("Hello", CODE, "Noted.", "What else?"):
        plan.append("user", text)
    plan.persist()
    cut = plan.fork(id="cut", at=2)
    cut.append("user", "A branch")
    cut.persist()
    memory.load("cut").detach()
    for name, text in (
        ("worker", f"He wrote: {CODE}. So open it."),
        ("near", "Mind that the code of the safe in the hall is 4711."),
        ("other", "The weather in the hall is fine since May"),
    ):
        session = memory.create(id=name)
        session.append("user", text)
        session.persist()
    return memory


EXPECTED = [("plan", 1, "asked"), ("cut", 1, "copy"), ("worker", 0, "quote"), ("near", 0, "near copy")]


def test_a_dry_run_names_exactly_what_an_erasure_takes(told: Repository) -> None:
    quads = set(map(str, told.store.quads((None, None, None, None))))
    planned = told.erase("plan", 1, dry_run=True)
    assert [(each.session_id, each.index, each.why) for each in planned.turns] == EXPECTED
    assert set(map(str, told.store.quads((None, None, None, None)))) == quads
    done = told.erase("plan", 1, by="eve")
    assert done.turns == planned.turns
    left = "\n".join(map(str, told.store.quads((None, None, None, None))))
    assert "4711" not in left
    assert "fine since May" in left
    assert told.verify().ok


def test_a_summary_that_stands_for_the_turn_goes_and_what_quotes_it_too(memory: Repository) -> None:
    plan = memory.create(id="plan")
    for number in range(6):
        plan.append("user", f"Turn {number} about the safe")
    plan.compact(lambda *_: "They spoke of a number for the safe and the hall.", keep_turns=2)
    plan.persist()
    quoting = memory.create(id="quoting")
    quoting.append("user", "Before: They spoke of a number for the safe and the hall.")
    quoting.persist()
    turns = memory.erase("plan", 0, near=1.0, dry_run=True).turns
    assert [(each.session_id, each.index, each.why) for each in turns] == [
        ("plan", 0, "asked"),
        ("plan", 6, "summary"),
        ("quoting", 0, "quote"),
    ]


def test_a_hold_on_one_of_the_turns_keeps_all(told: Repository) -> None:
    told.holds.place("near", reason="Case 7")
    with pytest.raises(OnHold, match="'near'"):
        told.erase("plan", 1)
    assert told.load("plan").turns[1].text == CODE


def test_a_receipt_is_signed_and_says_no_content(told: Repository) -> None:
    signer, verifier = new_key("trips.example.org/log")
    told.notes.add("plan", 1, f"See: {CODE}")
    done = told.erase("plan", 1, signer=signer, by="eve", reason="4711 is known")
    assert done.signed is not None
    assert done.receipt is not None
    assert "4711" not in done.signed
    receipt = open_receipt(done.signed, [verifier])
    assert receipt == done.receipt == read_receipt(done.receipt.text())
    assert [(each.session_id, each.index, each.why) for each in receipt.erased] == EXPECTED
    assert [each.kind for each in receipt.unreached] == ["note"]
    assert (receipt.by, receipt.log_size) == ("eve", len(told.store.log.lines()))
    for altered in (done.signed.replace('"near"', '"nearer"'), done.signed.replace("0", "1", 1)):
        with pytest.raises(IntegrityError):
            open_receipt(altered, [verifier])
    with pytest.raises(IntegrityError):
        open_receipt(done.signed, [new_key("trips.example.org/log")[1]])


def test_a_receipt_names_backups_and_exports_that_hold_the_text(tmp_path: Path) -> None:
    with trails.open(tmp_path / "store", create=True) as store:
        store.create(id="empty").persist()
        store.maintenance.backup(tmp_path / "early")
        plan = store.create(id="plan")
        plan.append("user", CODE)
        plan.persist()
        store.maintenance.backup(tmp_path / "late")
        late = store.registers.backups()[1].backup
        done = store.erase("plan", 0)
        assert [(each.kind, each.name, each.sha256) for each in done.unreached] == [("backup", late.token, late.sha256)]
        store.registers.destroyed_backup(late)


def test_what_cannot_be_erased_so_is_refused_before_anything_goes(told: Repository) -> None:
    for wrong in (0, 2, True, "0.5"):
        with pytest.raises(InvalidInput):
            told.erase("plan", 1, near=wrong)  # type: ignore[arg-type] # refused
    with pytest.raises(InvalidInput):
        told.erase("plan", 1, signer="no key")
    with pytest.raises(InvalidInput):
        told.erase("plan", 9)
    told.redact("plan", 0)
    with pytest.raises(InvalidInput, match="redacted before"):
        told.erase("plan", 0)
    assert told.load("plan").turns[1].text == CODE


def test_what_is_no_receipt_is_refused() -> None:
    for text in ("{}", "[]", "no", json.dumps({"format": "trails-erasure-receipt/1"})):
        with pytest.raises(IntegrityError):
            read_receipt(text)


def test_where_the_text_stands_outside_turns_is_named_and_not_erased(memory: Repository) -> None:
    encoded = base64.b64encode(CODE.encode()).decode()
    for name, system, meta, text, said_with in (
        ("plan", None, None, CODE, None),
        ("in meta", None, None, "Hello", {"note": CODE}),
        ("in row", None, {"note": CODE}, "Hello", None),
        ("in prompt", CODE, None, "Hello", None),
        ("encoded", None, None, encoded, None),
    ):
        session = memory.create(id=name.replace(" ", "-"), system=system, meta=meta)
        session.append("user", text, meta=said_with)
        session.persist()
    wanted = {"turn metadata", "metadata", "system prompt", "content"}
    planned = memory.erase("plan", 0, dry_run=True)
    assert [(each.session_id, each.why) for each in planned.turns] == [("plan", "asked")]
    assert {each.kind for each in planned.unreached} == wanted
    done = memory.erase("plan", 0, reason=f"It says {CODE}")
    assert done.receipt is not None
    assert {each.kind for each in done.receipt.unreached} == wanted | {"reason"}  # that was given for it
    assert "4711" not in done.receipt.text()


def test_a_dry_run_says_that_a_hold_would_stop_it(told: Repository) -> None:
    told.holds.place("near", reason="Case 7")
    with pytest.raises(OnHold, match="'near'"):
        told.erase("plan", 1, dry_run=True)
