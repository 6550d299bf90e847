"""Find secrets in what is imported, and redact them if asked to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from trails.errors import InvalidInput
from trails.exchange.source_transcript import ImportReport, Piece, SourceSession, SourceTurn
from trails.model.values import Turn
from trails.secrets import Detector, Found, ScannedPlace, detector, is_redaction_of, redact, redact_value
from trails.secrets.hidden_texts import hidden_texts, without_secrets

SESSION_ID: Final = "session id"
"""Where a secret stands that is a part of a session's id in the source."""


@dataclass(frozen=True, slots=True)
class SecretFilter:
    """How an import treats secrets: it reports each, and with `out` redacts it."""

    out: bool = False

    @property
    def detector(self) -> Detector:
        """What finds them."""
        return detector()

    def turn(self, turn: SourceTurn) -> SourceTurn:
        """Return a turn as it is stored."""
        return redact_turn(turn, self.detector) if self.out else turn

    def otherwise(self, turn: SourceTurn) -> SourceTurn:
        """Return a turn as the opposite setting would store it."""
        return turn if self.out else redact_turn(turn, self.detector)

    def check_id(self, source_id: str) -> None:
        """Raise `InvalidInput` if a session's id holds a secret that must go.

        Ids cannot be redacted.
        """
        if self.out and (found := self.detector(source_id)):
            what = f"the session's id itself holds a secret ({found[0].kind}), and an id cannot be redacted"
            raise InvalidInput(f"{what}; the session was not imported. Change the id in the file and import it again")

    def value(self, value: Any, name: str = "") -> Any:
        """Return a JSON value as it is stored."""
        return redact_value(value, self.detector, name) if self.out else value

    def session(self, session: SourceSession) -> SourceSession:
        """Return a session with its title, prompt and metadata as they are stored."""
        if not self.out:
            return session
        return replace(
            session, title=self.value(session.title), system=self.value(session.system), meta=self.value(session.meta)
        )

    def runs(self, file: Any) -> Any:
        """Return a parsed `runs.json` as it is stored; ids of runs stay."""
        records = file.get("runs") if isinstance(file, dict) else None
        if not self.out or not isinstance(records, dict):
            return file
        return {**file, "runs": {run_id: self.value(record) for run_id, record in records.items()}}

    def place(self, session_id: str | None, index: int | None = None) -> ScannedPlace:
        """Return the place that findings name: a session, or a turn of it."""
        return ScannedPlace(self.detector, session_id, index, redacted=self.out)

    def in_turn(self, turn: SourceTurn, session_id: str, index: int) -> Iterator[Found]:
        """Yield the secrets in a turn."""
        place = self.place(session_id, index)
        yield from place.value("content", turn.content)
        for call in turn.tool_calls:
            yield from place.value("arguments", call)
        yield from place.value("meta", turn.meta)
        yield from place.value("usage", turn.usage)
        yield from place.text("model", turn.model)
        yield from place.text("stop reason", turn.stop_reason)
        yield from place.text("request", turn.compaction.request if turn.compaction else None)
        for payload in turn.payloads:
            for text in hidden_texts(payload.data):
                yield from place.json("payload", text)

    def in_session(self, session: SourceSession, session_id: str) -> Iterator[Found]:
        """Yield the secrets in a session's id, title, prompt and metadata."""
        place = self.place(session_id)
        yield from place.text(SESSION_ID, session.id)
        yield from place.text("title", session.title)
        yield from place.text("system prompt", session.system)
        yield from place.value("meta", session.meta)

    def in_stored(self, turn: Turn) -> Iterator[Found]:
        """Yield the secrets in a stored turn."""
        place = ScannedPlace(self.detector, turn.session_id, turn.index)
        yield from place.json("content", turn.text) if turn.structured else place.text("content", turn.text)
        for call in turn.tool_calls:
            yield from place.json("arguments", call.arguments)
        yield from place.json("meta", turn.facts.meta_json)


def redact_turn(turn: SourceTurn, detector: Detector) -> SourceTurn:
    """Return a turn with a mark in place of each secret.

    Its author and the ids of its records stay.
    """
    summary = turn.compaction
    if summary and summary.request:
        summary = summary.model_copy(update={"request": redact(summary.request, detector)})
    return replace(
        turn,
        pieces=tuple(Piece(piece.source_id, redact_value(piece.content, detector)) for piece in turn.pieces),
        tool_calls=tuple(redact_value(call, detector) for call in turn.tool_calls),
        meta=redact_value(turn.meta, detector),
        usage=redact_value(turn.usage, detector),
        model=turn.model and redact(turn.model, detector),
        stop_reason=turn.stop_reason and redact(turn.stop_reason, detector),
        compaction=summary,
        payloads=tuple(
            each.model_copy(update={"data": without_secrets(each.data, detector)}) for each in turn.payloads
        ),
    )


def same_but_redacted(stored: str, text: str) -> bool:
    """Tell whether two texts differ only by redacted secrets."""
    return stored == text or is_redaction_of(stored, text) or is_redaction_of(text, stored)


def mask_report(report: ImportReport) -> None:
    """Redact the secrets in a report's problems and notes."""
    finds = detector()
    report.notes = [redact(note, finds) for note in report.notes]
    report.problems = [
        problem.model_copy(update={name: redact(getattr(problem, name), finds) for name in ("file", "reason", "text")})
        for problem in report.problems
    ]
