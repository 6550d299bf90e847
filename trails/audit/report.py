"""What an audit says: verdicts apart, each with what was found, and a digest over all of it. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal

from trails.errors import IntegrityError, InvalidInput
from trails.model import Value

FORMAT: Final = "trails-audit-report/1"
EXTENSION: Final = "audit-report-sha256"
"""What stands before a report's digest in the line by which a signed checkpoint vouches for it."""

_AGAIN: Final = "get it again from whoever made it"

CANNOT_SHOW: Final = (
    "that recorded times, names and texts were true when they were written",
    "that everything that happened was recorded",
    "what was deleted or redacted: only that, when and, where it was said, by whom",
)
WITHOUT_CHECKPOINT: Final = (
    "that the store and its log were not rewritten together: no checkpoint that was kept elsewhere was given"
)
AFTER_CHECKPOINT: Final = (
    "that what was written after the checkpoint was not rewritten since: only a newer one shows it"
)

Name = Literal["validity", "completeness", "integrity", "findings"]


class Found(Value):
    """What one query, or one check that is no query, found.

    `query` is its name in the catalogue, or of the command whose check it is; `rows` are values as JSON holds them, a list
    each, in the order of `columns`.
    """

    query: str
    purpose: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


class Verdict(Value):
    """One of the four verdicts: whether it holds, in a sentence why, and what was found."""

    name: Name
    holds: bool
    said: str
    found: tuple[Found, ...] = ()


class Report(Value):
    """The report of an audit: of what and when, the state of the log then, and the verdicts.

    `subject` is the id of the session that was audited with its ancestors, None for the whole store. `root` is the Merkle
    root, in base64, over the first `lines` lines of the store's log.
    """

    subject: str | None
    time: str
    version: str
    lines: int
    root: str
    sessions: tuple[tuple[str, int, str], ...]
    """Of each session its id, the turns of its transcript and its head digest."""
    verdicts: tuple[Verdict, ...]
    cannot_show: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON; `digest` is over all the rest."""
        return {**self._said(), "digest": self.digest}

    def _said(self) -> dict[str, Any]:
        said = self.model_dump(mode="json", exclude={"sessions"})
        heads = [dict(zip(("session", "turns", "head"), each, strict=True)) for each in self.sessions]
        return {"format": FORMAT, **said, "sessions": heads}

    @property
    def digest(self) -> str:
        """SHA-256 over the report's canonical JSON: sorted keys, no spaces, UTF-8."""
        return digest_of(self._said())

    def fails(self, names: tuple[str, ...]) -> bool:
        """Tell whether one of the named verdicts does not hold."""
        return any(not each.holds for each in self.verdicts if each.name in names)


def digest_of(said: dict[str, Any]) -> str:
    """Return SHA-256, as hex digits, over a report's canonical JSON without its own digest.

    >>> digest_of({"b": 1, "a": "ü", "digest": "x"}) == hashlib.sha256('{"a":"ü","b":1}'.encode()).hexdigest()
    True
    """
    plain = {name: value for name, value in said.items() if name != "digest"}
    text = json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read(text: str) -> dict[str, Any]:
    """Return a report that was written as JSON.

    InvalidInput where it is none, IntegrityError where its digest does not fit it.
    """
    try:
        said = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as wrong:
        raise InvalidInput(f"this is no audit report: {wrong}") from None
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise InvalidInput(f"this is no audit report: it does not name the format {FORMAT!r}")
    try:
        fits = digest_of(said) == said.get("digest")
    except UnicodeEncodeError:  # half a character, which Trails writes in no report
        fits = False
    if not fits:
        raise IntegrityError(f"the audit report was altered: its digest does not fit it; {_AGAIN}")
    return said


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a reader could take the first of two values of a name, and the digest is over the last."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise IntegrityError(f"the audit report was altered: it says something twice; {_AGAIN}")
    return made


def extension(digest: str) -> str:
    """Return the line of a checkpoint that vouches for a report."""
    return f"{EXTENSION} {digest}"
