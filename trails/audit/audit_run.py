"""Audit a session or a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import trails
from trails.audit.report import AFTER_CHECKPOINT, CANNOT_SHOW, WITHOUT_CHECKPOINT, Found, Name, Report, Verdict
from trails.history import import_records, log_history
from trails.history.verification import checkpoints
from trails.integrity.signed_notes import claimed_checkpoint
from trails.integrity.verifier.notes import to_base64
from trails.model import iris
from trails.model.values import Finding, VerifyReport
from trails.provenance import validate
from trails.rdf import query_files, vocab
from trails.session import Repository
from trails.suggestions import checked

UNCOVERED_COLUMNS = ("session", "first", "turns")


def uncovered_turns(
    repository: Repository, size: int, only: Collection[str] | None = None
) -> Iterator[tuple[str, int, int]]:
    """Yield what the first `size` lines of the log do not tell of: a session's id, its first such own turn, how many there are.

    `only` keeps to some sessions. The log is no RDF, so this is no query.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     plan = store.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
    ...     size = len(store.store.log.lines())
    ...     _ = plan.append("user", "By train"); _ = plan.persist()
    ...     list(uncovered_turns(store, size)), list(uncovered_turns(store, 0))
    ([('plan', 1, 1)], [('plan', 0, 2)])
    """
    for session_id, log in sorted(log_history.logs_by_session(repository.store.log.lines()).items()):
        if log.deleted or session_id not in repository or (only is not None and session_id not in only):
            continue
        start = repository.record(session_id).starts_at
        last = max((count for count, _, _ in log.heads), default=start)
        covered = max((count for count, _, number in log.heads if number < size), default=start)
        first = max(start, covered)
        if first < last:
            yield session_id, first, last - first


_GAPS: Final = frozenset({"index-gap", "duplicate-index"})
_INCOMPLETE: Final = (
    *("open-tool-calls", "answers-to-no-call", "incomplete-turns", "open-exchanges", "unannounced-runs"),
    *("tree-orphans", "orphans"),
)
_WORTH_A_LOOK: Final = (
    *("failed-tool-calls", "failed-deliveries", "denied-sends", "second-principals", "deletions"),
    *("tree-too-deep", "tree-too-wide", "tree-two-mains", "undelegated-turns", "another-model-answered"),
    *("unused-results", "reads-after-deletion", "times-backwards"),
)
_TEXTS: Final = "term"
"""The kind of columns that hold texts and arguments. They stay in the store: a report outlives a redaction."""
_PROV: Final = ("constraint", "name", "message", "nodes")
_VERIFY: Final = ("code", "session", "index", "message")


@checked
def audit(
    repository: Repository,
    session: str | None = None,
    *,
    checkpoint: str | None = None,
    verifiers: Iterable[str] = (),
    witnesses: Iterable[str] = (),
    quorum: int | None = None,
    timestamp: bytes | None = None,
    authorities: Iterable[str] = (),
    signers: Iterable[str] = (),
    require_signed: bool = False,
    time: datetime | None = None,
) -> Report:
    """Return the report on one session with its ancestors, or (None) on the whole store.

    Validity is by PROV-CONSTRAINTS, of the whole store in either case. A checkpoint that was kept elsewhere, its log's keys,
    its witnesses and its time stamp, and the signers of heads, are as for `Repository.verify`. `time` is when the audit is
    said to be made, now unless given: equal stores and times give equal reports.

    Raises `SessionNotFound`, and `IntegrityError` if the checkpoint is not signed as demanded.

    >>> with trails.open(":memory:") as store:
    ...     made = store.create(id="plan"); _ = made.append("user", "Plan a trip"); _ = made.persist()
    ...     [(verdict.name, verdict.holds) for verdict in audit(store).verdicts]
    [('validity', True), ('completeness', True), ('integrity', True), ('findings', True)]
    """
    subject = None if session is None else repository.resolve(session)
    with import_records.record_reading(repository.workspace, None if subject is None else [subject], "audit"):
        verified = repository.verify(
            subject,
            checkpoint=checkpoint,
            verifiers=verifiers,
            witnesses=witnesses,
            quorum=quorum,
            timestamp=timestamp,
            authorities=authorities,
            signers=signers,
            require_signed=require_signed,
        )
        within = None if subject is None else [record.id for record in repository.reader.lineage(subject)]
        state = checkpoints.log_state(repository.store)
        gaps = _findings_of("gaps and doubled indices", [each for each in verified.findings if each.code in _GAPS])
        lacking = (*gaps, *_asked(repository, _INCOMPLETE, within))
        return Report(
            subject=subject,
            time=(datetime.now(UTC) if time is None else time.astimezone(UTC)).isoformat(timespec="seconds"),
            version=trails.__version__,
            lines=state.size,
            root=to_base64(state.root),
            sessions=tuple(_heads(repository, within)),
            verdicts=(
                _validity(repository),
                _of("completeness", "records that lack something", lacking),
                _integrity(repository, verified, checkpoint, within),
                _of("findings", "matters that are worth a look", _asked(repository, _WORTH_A_LOOK, within)),
            ),
            cannot_show=(*CANNOT_SHOW, WITHOUT_CHECKPOINT if checkpoint is None else AFTER_CHECKPOINT),
        )


def _heads(repository: Repository, within: Sequence[str] | None) -> Iterable[tuple[str, int, str]]:
    rows = repository.store.quads((None, vocab.TYPE, vocab.SESSION, vocab.CATALOG))
    ids = [iris.session_id(str(row.subject)[1:-1]) for row in rows] if within is None else within
    for session_id in sorted(ids):
        try:
            loaded = repository.load(session_id)
            yield session_id, len(loaded.turns), loaded.head
        except trails.TrailsError:  # named by the verdict on integrity
            yield session_id, 0, ""


def _validity(repository: Repository) -> Verdict:
    checked = validate(repository)
    rows = [(each.constraint, each.name, each.message, list(each.nodes)) for each in checked.findings]
    findings = _found("validate", "PROV-CONSTRAINTS (W3C), of the whole store", _PROV, rows)
    summary = f"{checked.statements} PROV statements, {len(rows)} of their constraints broken"
    return Verdict(name="validity", holds=not rows, said=summary, found=findings)


def _integrity(
    repository: Repository, verified: VerifyReport, checkpoint: str | None, within: Sequence[str] | None
) -> Verdict:
    bad = [each for each in verified.findings if each.code not in _GAPS]
    against = "digests and log" + (" and the checkpoint" if checkpoint is not None else ", and no checkpoint")
    witnesses = "".join(f"; cosigned by {each.name} at {each.time.isoformat()}" for each in verified.witnessed or ())
    stamp = verified.timestamped
    by = "" if stamp is None else f"; there by {stamp.time.isoformat()}, as {stamp.authority} says"
    read = f"{verified.sessions} sessions and {verified.turns} turns"
    summary = f"{read} held against {against}: {len(bad)} findings{witnesses}{by}"
    findings = _findings_of("digests, chain, log and checkpoint", bad)
    for what, said_of in (
        ("what changed since the checkpoint, as the log tells; no fault", verified.history),
        ("turns that nobody signed", verified.unsigned),
    ):
        plain = [each.to_dict() for each in said_of or ()]
        findings += _found("verify", what, tuple(plain[0]) if plain else (), [tuple(each.values()) for each in plain])
    if checkpoint is not None:
        later = uncovered_turns(repository, claimed_checkpoint(checkpoint).size, within)
        what = "turns written after the checkpoint: it does not vouch for them; no fault"
        findings += _found("uncovered-turns", what, UNCOVERED_COLUMNS, later)
    return Verdict(name="integrity", holds=not bad, said=summary, found=findings)


def _of(name: Name, what: str, findings: tuple[Found, ...]) -> Verdict:
    return Verdict(
        name=name, holds=not findings, said=f"{sum(len(each.rows) for each in findings)} {what}", found=findings
    )


def _asked(repository: Repository, names: Sequence[str], within: Sequence[str] | None) -> tuple[Found, ...]:
    """Return what queries of the catalogue find; of one that takes no session, the rows that name none of these go."""
    findings: tuple[Found, ...] = ()
    for name in names:
        query = query_files.find(name)
        takes = within is not None and any(each.name == "session" for each in query.parameters)
        of: dict[str, Any] = {"session": within} if takes else {}
        rows = repository.query(name, **of).to_dicts()  # type: ignore[union-attr] # a SELECT
        columns = tuple(each.name for each in query.columns if each.kind != _TEXTS)
        if within is not None and not takes:
            nodes = set(map(iris.session, within))
            rows = [row for row in rows if any(str(each).partition("/")[0] in nodes for each in row.values())]
        findings += _found(name, query.purpose, columns, [[row.get(each) for each in columns] for row in rows])
    return findings


def _findings_of(purpose: str, findings: Sequence[Finding]) -> tuple[Found, ...]:
    rows = [(each.code, each.session_id, each.index, each.message) for each in findings]
    return _found("verify", purpose, _VERIFY, rows)


def _found(query: str, purpose: str, columns: tuple[str, ...], rows: Iterable[Sequence[Any]]) -> tuple[Found, ...]:
    plain = tuple(tuple(map(_plain, row)) for row in rows)
    return (Found(query=query, purpose=purpose, columns=columns, rows=plain),) if plain else ()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
