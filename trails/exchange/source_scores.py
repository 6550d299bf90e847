"""The scores that a source gave, kept beside the session that they are of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from trails.errors import InvalidInput
from trails.exchange.import_secrets import SecretFilter
from trails.exchange.source_transcript import FileProblem, ImportReport, SourceScore
from trails.history import annotation_kinds as stored_scores
from trails.rdf.score_records import Score
from trails.secrets import Found
from trails.session import Repository, Session, scoring


def score_id(source: str, *parts: object) -> str:
    """Return the id of a score that some values of its source stand for: the same whenever they come again.

    >>> score_id("inspect", "s", 1) == score_id("inspect", "s", 1) != score_id("inspect", "s", 2)
    True
    """
    return f"{source}-{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]}"


def keep_scores(
    repository: Repository,
    session: Session,
    given: tuple[SourceScore, ...],
    *,
    withholding: SecretFilter,
    report: ImportReport,
    file: str,
) -> None:
    """Store the scores of a session that are not here, nor were removed here, in one commit; what cannot be kept is reported."""
    workspace = repository.workspace
    new: dict[str, tuple[scoring.ScoreTarget, Score]] = {}
    for each in given:
        if stored_scores.find_score(workspace.store, each.id) is not None or stored_scores.is_removed_score(
            workspace.store, each.id
        ):
            continue
        try:
            of = _target(session, each)
            made = scoring.make_score(
                workspace,
                of,
                each.name,
                withholding.value(each.value),
                by_iri=workspace.who(each.by),
                version=each.version,
                reason=withholding.value(each.reason),
                time=each.time,
                id=each.id,
            )
        except InvalidInput as error:
            reason = f"session {session.id!r}: the score {each.name[:80]!r} cannot be kept: {error}"
            report.problems.append(FileProblem(file=file, line=0, reason=reason, text=""))
        else:
            new.setdefault(each.id, (of, made))
            report.secrets += _secrets(withholding, session, each)
    if new:
        scoring.keep_score(workspace, list(new.values()))
        report.scores_added += len(new)


def _target(session: Session, score: SourceScore) -> scoring.ScoreTarget:
    """Return what a score is of: the turn that came from a record, where that is in the session, else the session."""
    turns, chain = session.turns, session.worktree.chain
    if score.of is not None:
        for turn in turns:
            if score.of in turn.source_ids:
                return scoring.ScoreTarget(chain, turn.index, turn.index + 1, turn)
    return scoring.ScoreTarget(chain, None, len(turns), turns[-1] if len(turns) else None)


def _secrets(withholding: SecretFilter, session: Session, score: SourceScore) -> Iterator[Found]:
    place = withholding.place(session.id)
    yield from place.value("score", score.value)
    yield from place.text("score", score.reason)
