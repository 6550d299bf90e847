"""One report for an auditor: its verdicts counted by hand, its digest, and that a log vouches for it."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyoxigraph import Literal, Quad

import trails
from tests.support.nine_sessions import fill
from trails import Repository
from trails.audit import Report, audit
from trails.audit import report as documents
from trails.audit.report import check_signed_report
from trails.cli import main
from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.integrity.signed_notes import new_key
from trails.rdf import vocab
from trails.store.contract import Change

pytestmark = pytest.mark.any_store

NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
SIGNER, KEY = new_key("example.com/log")


def counted(report: Report) -> dict[str, dict[str, int]]:
    """Return how many rows each query of each verdict has."""
    return {each.name: {found.query: len(found.rows) for found in each.found} for each in report.verdicts}


def rewritten(store: Repository, was: str, now: str) -> None:
    """Alter a text past the session layer."""
    [old] = store.store.quads((None, vocab.VALUE, Literal(was), None))
    assert store.store.commit(
        Change(add=[Quad(old.subject, old.predicate, Literal(now), old.graph_name)], remove=[old])
    ).written


# --- the verdicts


def test_a_sound_store_has_what_was_counted_by_hand(store: Repository) -> None:
    """What is open in the nine sessions: see their docstrings and the answers of the catalogue's queries."""
    fill(store)
    report = audit(store, time=NOON)
    assert (
        counted(report)
        == {
            "validity": {},
            "completeness": {
                "open-tool-calls": 3,  # the taxi; the weather in solo and tail, which left plan before it was told
                "incomplete-turns": 7,  # models of the desk's and the cook's answer; times of three imported turns, models of two
                "open-exchanges": 1,  # the desk's, taken up again
                "unannounced-runs": 1,
                "tree-orphans": 1,  # letters outlives mail
            },
            "integrity": {},
            "findings": {
                "failed-tool-calls": 1,  # no tables left
                "failed-deliveries": 1,  # mailbox full
                "denied-sends": 1,
                "second-principals": 2,
                "deletions": 1,  # gone
                "times-backwards": 3,  # dinner, solo and tail are said to be from March, and what they inherit from today
                "unused-results": 2,  # nobody was told what either run came to
            },
        }
    )
    assert [each.holds for each in report.verdicts] == [True, False, True, False]
    assert (report.subject, len(report.sessions)) == (None, 19)


def test_one_session_is_audited_with_its_ancestors_and_nobody_else_s_matters(store: Repository) -> None:
    fill(store)
    report = audit(store, "tail")
    assert [each[:2] for each in report.sessions] == [("dinner", 6), ("plan", 5), ("solo", 4), ("tail", 5)]
    assert {name: head for name, _, head in report.sessions}["tail"] == store.load("tail").head
    assert counted(report) == {
        "validity": {},
        "completeness": {"open-tool-calls": 3},
        "integrity": {},
        "findings": {"failed-tool-calls": 1, "times-backwards": 3},
    }
    assert counted(audit(store, "pi:01"))["completeness"] == {"incomplete-turns": 3}  # two times, one model
    assert audit(store, "trip").subject == "plan"  # its label


def test_texts_and_arguments_stay_in_the_store(memory: Repository) -> None:
    fill(memory)
    said = json.dumps(audit(memory).to_dict())
    assert "open-tool-calls" in said
    assert "no tables left" not in said
    assert '{\\"for\\":2}' not in said


def test_an_altered_turn_is_a_matter_of_integrity_and_of_nothing_else(store: Repository) -> None:
    plan = store.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.persist()
    assert all(each.holds for each in audit(store).verdicts)
    rewritten(store, "Plan a trip", "Plan a heist")
    report = audit(store)
    assert [each.name for each in report.verdicts if not each.holds] == ["integrity"]
    [found] = report.verdicts[2].found
    assert (found.query, found.rows[0][:3]) == ("verify", ("digest-mismatch", "plan", 0))


def test_a_gap_is_a_matter_of_completeness(store: Repository) -> None:
    plan = store.create(id="plan")
    for number in range(3):
        plan.append("user", f"turn {number}")
    plan.persist()
    [value] = store.store.quads((None, vocab.VALUE, Literal("turn 1"), None))
    assert store.store.commit(Change(remove=store.store.quads((value.subject, None, None, None)))).written  # type: ignore[arg-type] # an IRI
    report = audit(store)
    assert not report.verdicts[1].holds
    [gap] = report.verdicts[1].found
    assert gap.rows[0][:3] == ("index-gap", "plan", 1)
    assert report.sessions == (("plan", 0, ""),)  # no shorter transcript is given out as whole


def test_a_checkpoint_that_does_not_fit_is_found_and_without_one_the_report_says_so(store: Repository) -> None:
    plan = store.create(id="plan")
    plan.persist()
    kept = store.proofs.checkpoint(SIGNER)
    with trails.open(":memory:") as other:
        other.create(id="plan").persist()
        report = audit(other, checkpoint=kept, verifiers=[KEY])
        assert [row[0] for found in report.verdicts[2].found for row in found.rows][:1] == ["checkpoint"]
    held = audit(store, checkpoint=kept, verifiers=[KEY])
    assert held.verdicts[2].holds
    assert "after the checkpoint" in held.cannot_show[-1]
    assert "no checkpoint" in audit(store).cannot_show[-1]
    assert any("were true when they were written" in each for each in audit(store).cannot_show)


# --- the digest


def test_the_digest_is_the_hash_of_the_canonical_json_without_it(store: Repository) -> None:
    fill(store)
    said = json.loads(json.dumps(audit(store, time=NOON).to_dict()))
    digest = said.pop("digest")
    canonical = json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert digest == hashlib.sha256(canonical.encode()).hexdigest()


def test_the_same_store_and_time_give_the_same_report(store: Repository) -> None:
    fill(store)
    assert audit(store, time=NOON) == audit(store, time=NOON)
    assert audit(store, time=NOON).digest != audit(store, time=NOON.replace(hour=13)).digest


def test_no_altered_field_of_a_report_keeps_its_digest_or_its_voucher(memory: Repository) -> None:
    memory.create(id="plan").persist()
    report = audit(memory, time=NOON)
    note = memory.proofs.checkpoint(SIGNER, [f"audit-report-sha256 {report.digest}"])
    said = report.to_dict()
    assert check_signed_report(json.dumps(said), note, [KEY]).size == report.lines
    for name in said:
        altered: dict[str, Any] = {**said, name: "other"}
        with pytest.raises(TrailsError):
            check_signed_report(json.dumps(altered), note, [KEY])
    with pytest.raises(IntegrityError, match="does not vouch"):
        check_signed_report(json.dumps(said), memory.proofs.checkpoint(SIGNER), [KEY])
    memory.create(id="more").persist()
    late = memory.proofs.checkpoint(SIGNER, [f"audit-report-sha256 {report.digest}"])
    with pytest.raises(IntegrityError, match="another state of the log"):
        check_signed_report(json.dumps(said), late, [KEY])
    with pytest.raises(InvalidInput, match="no audit report"):
        check_signed_report("[]", note, [KEY])


def test_a_report_that_says_something_twice_or_half_a_character_was_altered(memory: Repository) -> None:
    memory.create(id="plan").persist()
    report = audit(memory, time=NOON)
    note = memory.proofs.checkpoint(SIGNER, [f"audit-report-sha256 {report.digest}"])
    text = json.dumps(report.to_dict())
    for altered in (
        text.replace('"sessions": [', '"sessions": [], "sessions": [', 1),
        text.replace('"holds": true', '"holds": false, "holds": true', 1),
        text.replace('"version": "', '"version": "\\ud800', 1),
    ):
        assert altered != text
        with pytest.raises(IntegrityError, match="the audit report was altered"):
            check_signed_report(altered, note, [KEY])


# --- documents


def test_nothing_recorded_becomes_markup(memory: Repository) -> None:
    session = memory.create(id="s")
    session.append("assistant", "x", tool_calls=[{"id": "c", "name": "<script>*x*|y", "arguments": {}}])
    session.persist()
    report = audit(memory)
    page, text = documents.report_html(report), documents.report_markdown(report)
    assert "<script>" not in page + text
    assert "&lt;script&gt;*x*|y" in page
    assert "&lt;script&gt;\\*x\\*\\|y" in text
    assert "## Completeness: INCOMPLETE" in text
    assert "<h2>Integrity: holds</h2>" in page


# --- the command line


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAILS_STORE", raising=False)
    with trails.open(tmp_path / ".trails", create=True, durability="process") as store:
        plan = store.create(id="plan", label="trip")
        plan.append("user", "Plan a trip")
        plan.append("assistant", "I look.", model="m", usage={"input_tokens": 1}, tool_calls=[_CALL])
        plan.persist()
        store.create(id="other").persist()
    return tmp_path


_CALL: dict[str, Any] = {"id": "c", "name": "look", "arguments": {}}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def test_the_exit_code_tells_of_the_verdicts_that_are_asked_for(place: Path) -> None:
    found = run("audit", "trip")
    assert found.exit_code == 1
    assert "completeness: INCOMPLETE" in found.stdout
    assert "open-tool-calls: the tool calls of a transcript that no turn" in found.stdout
    assert run("audit", "other").exit_code == 0
    assert run("audit", "--all").exit_code == 1
    assert run("audit", "trip", "--fail-on", "integrity", "--fail-on", "findings").exit_code == 0
    assert run("audit", "report", "other", "--format", "html").stdout.startswith("<!doctype html>")


def test_a_signed_report_is_checked_without_the_store(place: Path) -> None:
    assert run("proof", "checkpoint", "--new-key", "example.com/log", "--key", "key").exit_code == 0
    how = ("--format", "json", "-o", "report.json", "--key", "key", "--signed", "report.checkpoint")
    assert run("audit", "other", *how).exit_code == 0
    (place / ".trails").rename(place / "away")
    check = ("audit", "check", "report.json", "--checkpoint", "report.checkpoint", "--verifier", "key.pub")
    assert "valid" in run(*check).stdout
    report = place / "report.json"
    report.write_text(report.read_text().replace('"holds": true', '"holds": false', 1))
    altered = run(*check)
    assert (altered.exit_code, "was altered" in altered.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [("audit", "plan", "--all"), ("audit", "--format", "json")])
def test_one_session_or_all_must_be_named(place: Path, arguments: tuple[str, ...]) -> None:
    refused = run(*arguments)
    assert (refused.exit_code, "name a SESSION, or give --all" in refused.stderr) == (2, True)


def test_turns_that_a_checkpoint_does_not_cover_are_named_and_are_no_fault(store: Repository) -> None:
    plan = store.create(id="plan")
    plan.append("user", "Plan a trip")
    plan.persist()
    fork = plan.fork(id="fork")
    fork.append("user", "By train")
    fork.persist()
    kept = store.proofs.checkpoint(SIGNER)
    assert [each.query for each in audit(store, checkpoint=kept, verifiers=[KEY]).verdicts[2].found] == []
    for text in ("Where to?", "When?"):
        fork.append("user", text)
    fork.persist()
    late = store.create(id="late")
    late.append("user", "And I?")
    late.persist()
    late.fork(id="empty").persist()
    verdict = audit(store, checkpoint=kept, verifiers=[KEY]).verdicts[2]
    [found] = [each for each in verdict.found if each.query == "uncovered-turns"]
    assert found.rows == (("fork", 2, 2), ("late", 0, 1))
    assert verdict.holds
    assert not [each for each in audit(store).verdicts[2].found if each.query == "uncovered-turns"]
    store.delete("empty")
    store.delete("late")
    again = audit(store, "fork", checkpoint=kept, verifiers=[KEY]).verdicts[2]
    assert [each.rows for each in again.found if each.query == "uncovered-turns"] == [(("fork", 2, 2),)]
