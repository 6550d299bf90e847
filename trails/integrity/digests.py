"""Compute the digests of turns and check their chain.

Each turn's digest commits to its own content and facts and to every turn before it.

The encoding is our own and never the store's lexical forms, which the engine rewrites: a sequence of fields, each an
8-byte big-endian length and its bytes, after a tag that names what is hashed. No session id and no IRI is hashed, so a
copied turn (detach, flatten) keeps its digest. `trails.integrity.verifier.digest_rules` has the rules themselves.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from trails.integrity.verifier.digest_rules import (
    GENESIS,
    chain_digests,
    digest_names,
    facts_json_digest,
    frame,
    salted_digest,
    score_digest,
    standing_digest,
    version_digest,
)
from trails.model import iris
from trails.model.values import (
    NO_FACTS,
    Call,
    Compaction,
    Derivation,
    Facts,
    Finding,
    PayloadReference,
    SealedTurn,
    SessionRecord,
    ToolResult,
    Turn,
)

__all__ = ["GENESIS", "facts_json_digest", "frame", "salted_digest", "score_digest", "standing_digest"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def new_salt() -> str:
    """Return 128 random bits as 32 hex digits: without them, a redacted text could be found by guessing.

    The system is asked for many at once: a turn needs one, and asking took a tenth of its append.
    """
    try:
        return _SALTS.pop()
    except IndexError:
        bits = secrets.token_hex(16 * _AT_ONCE)
        _SALTS.extend(bits[start : start + 32] for start in range(32, len(bits), 32))
        return bits[:32]


_AT_ONCE: Final = 256
_SALTS: Final[list[str]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SALTS.clear)  # a child draws its own: no salt is used twice


def epoch_microseconds(time: datetime) -> int:
    """Return an aware time as whole microseconds since 1970-01-01T00:00:00Z (negative before).

    >>> epoch_microseconds(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC))
    1000005
    """
    return (time - _EPOCH) // _MICROSECOND


def content_digest(text: str, salt: str, *, structured: bool) -> str:
    """Return the digest of a turn's content and salt. After a redaction the salt's place holds this digest."""
    return salted_digest("json" if structured else "text", salt, text)


def facts_digest(facts: Facts, salt: str) -> str:
    """Return the digest over everything recorded with a turn beyond its text; "" if nothing was recorded.

    Once some of it was taken out, the digest over all of it, which was kept.
    """
    return facts.withheld or facts_json_digest(facts_json(facts, salt))


def facts_json(facts: Facts, salt: str) -> str:
    """Return everything recorded with a turn beyond its text as canonical JSON; "" if nothing was recorded.

    Call arguments, metadata, payloads and the request of a compaction stand there as salted digests: they can be redacted,
    and the chain still verifies.
    """
    if facts.is_empty():
        return ""
    made_by = facts.model_call
    parts = {
        "model": None if made_by is None else [made_by.model, made_by.usage_json, made_by.stop_reason],
        "calls": [
            [call.id, call.name, call.withheld or salted_digest("arguments", salt, call.arguments or "")]
            for call in facts.tool_calls
        ],
        "results": [_result(result) for result in facts.tool_results],
        "source": facts.source_ids,
        "meta": facts.meta_withheld
        or (salted_digest("meta", salt, facts.meta_json) if facts.meta_json is not None else ""),
    }
    plain: dict[str, Any] = {name: value for name, value in parts.items() if value}
    if made_by is not None and made_by.call is not None and (call_facts := _called(made_by.call)):
        plain["called"] = call_facts
    if facts.payloads:
        plain["payloads"] = [_payload(each, salt) for each in facts.payloads]
    if facts.compaction:
        plain["compaction"] = _compaction(facts.compaction, salt)
    if facts.quoted_from:
        plain["quote"] = [facts.quoted_from.index, facts.quoted_from.digest]
    if facts.derived_from:
        plain |= _made_from(facts.derived_from)
    return _canonical(plain)


_canonical: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def _made_from(source: Derivation) -> dict[str, Any]:
    is_result = source.index is None
    return {"result" if is_result else "taken": [source.number if is_result else source.index, source.digest]}


def _called(call: Call) -> dict[str, Any]:
    """Return what is told of a model call; a system prompt by its version, a summary by its index: copies have other IRIs."""
    fields: dict[str, Any] = {
        "started": None if call.started is None else epoch_microseconds(call.started),
        "ended": None if call.ended is None else epoch_microseconds(call.ended),
        "provider": call.provider,
        "prompt": call.prompt,
    }
    if (shown := call.context) is not None:
        fields |= {"through": shown.through, "summary": shown.summary, "left_out": sorted(shown.left_out) or None}
    return {name: value for name, value in fields.items() if value is not None}


def _payload(payload: PayloadReference, salt: str) -> list[Any]:
    covered = payload.withheld or salted_digest("payload", salt, payload.digest or "")
    return [payload.name, payload.media_type, payload.size, covered]


def _result(result: ToolResult) -> list[Any]:
    """Return an answer to a tool call; what is told of the call stands there only if something is."""
    told = result.told
    for name in ("started", "ended"):
        if name in told:
            told[name] = epoch_microseconds(told[name])
    for name in ("approved_by", "refused_by"):
        if name in told:
            told[name] = iris.author_key(told[name])
    return [result.call_id, result.is_error, told] if told else [result.call_id, result.is_error]


_COMPACTION_1: Final = ("summarised_through", "first_kept", "tokens_before", "tokens_after", "trigger")
"""The fields of a compaction that the first digests covered, unset ones too; all later ones stand only where set."""


def _compaction(compaction: Compaction, salt: str) -> dict[str, Any]:
    plain = compaction.model_dump()
    plain = {name: value for name, value in plain.items() if name in _COMPACTION_1 or value is not None}
    request, withheld = plain.pop("request", None), plain.pop("request_withheld", None)
    if withheld or request is not None:
        plain["request"] = withheld or salted_digest("request", salt, request)
    if compaction.previous_summary is not None:  # its index and digest, and no IRI: copies have other IRIs
        plain["previous_summary"] = compaction.previous_summary.rpartition("/")[2]
    return plain


def turn_digest(
    *, previous: str, index: int, branch: str, role: str, author: str, time: datetime | None, content: str, facts: str
) -> str:
    """Return a turn's digest as 64 hex digits.

    `previous` is the digest of the turn before it in the transcript (the parent's, for a fork's first turn; `GENESIS`
    at the start), `author` is `iris.author_key` of the author, `content` and `facts` are the digests made above. A head
    digest so commits to all history, as in git.

    >>> turn_digest(previous=GENESIS, index=0, branch="main", role="user", author="principal:a",
    ...     time=None, content=content_digest("hi", "00", structured=False), facts="")[:8]
    'f6546603'
    """
    return chain_digests(previous, f"{index}", digest_names(branch, role, author), _when(time), content, facts=facts)


def _when(time: datetime | None) -> str:
    return "" if time is None else f"{epoch_microseconds(time)}"


def prompt_digest(text: str, salt: str, *, version: int, effective_from: int, redacted: bool = False) -> str:
    """Return the digest of one version of a system prompt; of a redacted one, `salt` is the digest of salt and text."""
    content = salt if redacted else salted_digest("prompt", salt, text)
    return version_digest(str(version), str(effective_from), content)


class StoredTurn(NamedTuple):
    """One turn's row: exactly what the store says, not yet believed."""

    iri: str
    index: int  # type: ignore[assignment] # hides tuple.index, which nobody calls here
    role: str
    text: str
    structured: bool
    redacted: bool
    author_iri: str
    digest: str
    salt: str
    branch: str
    time: datetime | None
    facts: Facts = NO_FACTS

    def sealed(self, session_id: str) -> SealedTurn:
        """Return the row as a turn with its salt."""
        fields = {name: getattr(self, name) for name in self._fields if name not in ("iri", "salt")}
        turn = Turn(session_id=session_id, **fields)
        return SealedTurn(turn=turn, salt=self.salt)


def recompute_digest(row: StoredTurn, previous: str) -> str:
    """Return the digest that a row should have after the turn with the digest `previous`.

    A redacted turn has its content's digest in the place of the salt; one with another salt than it was made with keeps it
    beside its facts.
    """
    return _row_digest(row, previous, row.facts.content_digest or _content_of(row))


def _content_of(row: StoredTurn) -> str:
    return row.salt if row.redacted else content_digest(row.text, row.salt, structured=row.structured)


def _row_digest(row: StoredTurn, previous: str, content: str) -> str:
    return chain_digests(
        previous,
        f"{row.index}",
        digest_names(row.branch, row.role, iris.author_key(row.author_iri)),
        _when(row.time),
        content,
        facts=facts_digest(row.facts, row.salt),
    )


def check_standing(row: StoredTurn, previous: str) -> str:
    """Return the digest of a row as it stands, whatever was taken out of it: see `digests.standing_digest`."""
    left = facts_digest(row.facts.model_copy(update={"withheld": None}), row.salt)
    return standing_digest(_row_digest(row, previous, _content_of(row)), left)


def is_digest_true(row: StoredTurn, previous: str, stands_as: str | None) -> bool:
    """Tell whether a row fits its digest, after the turn with the digest `previous`.

    `stands_as` is what a logged redaction says that the row is since then; without one, nothing but content, call
    arguments, metadata and request may be gone. Only the names of author and role may keep a row with one from fitting
    its own digest: that covers them as they were.
    """
    fits = recompute_digest(row, previous) == row.digest
    if stands_as is None:
        return fits and row.facts.withheld is None and row.facts.content_digest is None
    unnamed = iris.is_unnamed(row.author_iri) or row.role == iris.UNNAMED
    return check_standing(row, previous) == stands_as and (fits or unnamed)


def check_run(
    record: SessionRecord,
    rows: Sequence[StoredTurn],
    previous: str,
    stands_as: Mapping[str, str] | None = None,
    copies: Collection[str] = (),
) -> list[Finding]:
    """Check the turns that a session owns, in order of index, from the digest before its first one.

    `stands_as` is by the digest of a turn what the newest logged redaction of more than its texts says that it is now, and
    `copies` are the IRIs of copies, which keep the branch of their originals.

    Every turn is held against the digest stored for the turn before it, so that one altered turn gives one finding (its
    own) and not one for each turn after it.
    """
    findings = []
    wanted, session_iri, is_fork = record.starts_at, record.iri, record.parent_session_id is not None
    for row in rows:
        index = row.index
        if index != wanted:
            kind = "duplicate-index" if index < wanted else "index-gap"
            what = f"a second turn at index {index}" if index < wanted else f"no turn {wanted}"
            findings.append(_chain_finding(kind, record, min(index, wanted), f"has {what}"))
        if not is_digest_true(row, previous, (stands_as or {}).get(row.digest)):
            findings.append(
                _chain_finding(
                    "digest-mismatch", record, index, f"turn {index} was altered: its digest does not fit it"
                )
            )
        if row.iri != iris.turn(session_iri, index, row.digest):
            what = f"turn {index} has the IRI of another turn: {row.iri}"
            findings.append(_chain_finding("wrong-iri", record, index, what))
        if not iris.is_of_author(row.author_iri):
            what = f"turn {index} names its author by an IRI that is not the one of the name: {row.author_iri}"
            findings.append(_chain_finding("wrong-iri", record, index, what))
        if is_fork and row.branch != record.branch and index >= record.starts_at and row.iri not in copies:
            what = f"turn {index} is of branch {row.branch!r}, not {record.branch!r}"
            findings.append(_chain_finding("wrong-branch", record, index, what))
        previous, wanted = row.digest, index + 1
    return findings


def _chain_finding(code: str, record: SessionRecord, index: int | None, what: str) -> Finding:
    return Finding(code=code, session_id=record.id, index=index, message=f"session {record.id!r}: {what}")


def first_by_index(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with the first bad turn of each session first."""
    return sorted(findings, key=lambda f: (f.session_id or "", f.index if f.index is not None else -1, f.code))
