"""The digest chain: each turn's digest commits to its own content and facts and to every turn before it.

The encoding is our own and never the store's lexical forms, which the engine rewrites: a sequence of fields, each an
8-byte big-endian length and its bytes, after a tag that names what is hashed. No session id and no IRI is hashed, so a
copied turn (detach, flatten) keeps its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from trails import iris
from trails.model import Call, Compaction, Derivation, Facts, ToolResult

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LENGTH: Final = Struct(">Q").pack

GENESIS: Final = hashlib.sha256(b"trails/genesis/1").hexdigest()
"""What stands for "the turn before" at the start of every session; the head of a session without turns."""


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


def _hash(tag: bytes, *fields: bytes) -> str:
    return hashlib.sha256(tag + b"".join(map(framed, fields))).hexdigest()


def framed(field: bytes) -> bytes:
    """Return a field with its length before it, as it stands in what is hashed or signed."""
    return _LENGTH(len(field)) + field


@lru_cache(maxsize=4096)
def _name(text: str) -> bytes:
    """Return a framed field that many turns share: a role, a branch, an author."""
    return framed(text.encode())


def salted(kind: str, salt: str, text: str) -> str:
    """Return the digest of a salted text: what stays behind when the text itself is redacted.

    `kind` says what the text is (`text`, `json`, `arguments`, `meta`, `request`, `prompt`), so that one can't stand for another.
    """
    bits, said = salt.encode(), text.encode()
    parts = (b"trails/salted/1", _name(kind), _LENGTH(len(bits)), bits, _LENGTH(len(said)), said)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def score_digest(said: Iterable[tuple[str, str, str]]) -> str:
    """Return the digest of a score: over (property, text, datatype) of all that it says but its session, in order.

    A datatype is an IRI, "" where the text is one. The digest itself is not among what it covers.
    """
    return _hash(b"trails/score/1", *(field.encode() for each in sorted(said) for field in each))


def content_digest(text: str, salt: str, *, structured: bool) -> str:
    """Return the digest of a turn's content and salt. After a redaction the salt's place holds this digest."""
    return salted("json" if structured else "text", salt, text)


def facts_digest(facts: Facts, salt: str) -> str:
    """Return the digest over everything recorded with a turn beyond its text; "" where nothing was recorded.

    Once some of it was taken out, the digest over all of it, which was kept.
    """
    return facts.withheld or facts_json_digest(facts_json(facts, salt))


def facts_json_digest(text: str) -> str:
    """Return the digest over what `facts_json` gave; "" for ""."""
    return _hash(b"trails/facts/1", text.encode()) if text else ""


def facts_json(facts: Facts, salt: str) -> str:
    """Return everything recorded with a turn beyond its text as canonical JSON; "" where nothing was recorded.

    Call arguments, metadata and the request of a compaction stand there as salted digests: they can be redacted, and
    the chain still verifies.
    """
    if facts.is_empty():
        return ""
    made_by = facts.model_call
    plain = _common(
        None if made_by is None else [made_by.model, made_by.usage_json, made_by.stop_reason],
        [
            [call.id, call.name, call.withheld or salted("arguments", salt, call.arguments or "")]
            for call in facts.tool_calls
        ],
        [_result(result) for result in facts.tool_results],
        facts.source_ids,
        facts.meta_withheld or ("" if facts.meta_json is None else salted("meta", salt, facts.meta_json)),
    )
    if made_by is not None and made_by.call is not None and (told := _called(made_by.call)):
        plain["called"] = told
    if facts.compaction:
        plain["compaction"] = _compaction(facts.compaction, salt)
    if facts.quoted_from:
        plain["quote"] = [facts.quoted_from.index, facts.quoted_from.digest]
    if facts.derived_from:
        plain |= _made_from(facts.derived_from)
    return _canonical(plain)


_canonical: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


def _common(
    model: Sequence[str | None] | None,
    calls: Sequence[Sequence[str]],
    results: Sequence[Sequence[Any]],
    sources: Sequence[str],
    meta: str,
) -> dict[str, Any]:
    """Return what the digest covers of what most turns have; the arguments are those of `recorded_digest`."""
    parts = (("model", model), ("calls", calls), ("results", results), ("source", sources), ("meta", meta))
    return {name: value for name, value in parts if value}


def recorded_digest(
    model: Sequence[str | None] | None,
    calls: Sequence[Sequence[str]],
    results: Sequence[Sequence[Any]],
    sources: Sequence[str],
    meta: str,
) -> str:
    """Return `facts_digest` of what most turns have, as it is read.

    `model` is name, usage and reason to stop of the model call; each of the `calls` id, name and the salted digest of the
    arguments, of the `results` call id and whether it failed; `sources` are in order, `meta` is the salted digest of the
    metadata, "" where there are none.
    """
    return facts_json_digest(_canonical(_common(model, calls, results, sources, meta)))


def _made_from(source: Derivation) -> dict[str, Any]:
    if source.index is None:
        return {"result": [source.number, source.digest]}
    return {"taken": [source.index, source.digest]}


def _called(call: Call) -> dict[str, Any]:
    """Return what is told of a model call; a system prompt by its version, a summary by its index: copies have other IRIs."""
    told: dict[str, Any] = {
        "started": None if call.started is None else epoch_microseconds(call.started),
        "ended": None if call.ended is None else epoch_microseconds(call.ended),
        "provider": call.provider,
        "prompt": call.prompt,
    }
    if (shown := call.context) is not None:
        told |= {"through": shown.through, "summary": shown.summary, "left_out": sorted(shown.left_out) or None}
    return {name: value for name, value in told.items() if value is not None}


def _result(result: ToolResult) -> list[Any]:
    """Return an answer to a tool call; what is told of the call stands there only where something is."""
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
        plain["request"] = withheld or salted("request", salt, request)
    if compaction.previous_summary is not None:  # its index and digest, and no IRI: copies have other IRIs
        plain["previous_summary"] = compaction.previous_summary.rpartition("/")[2]
    return plain


def turn_digest(
    *,
    previous: str,
    index: int,
    branch: str,
    role: str,
    author: str,
    time: datetime | None,
    content: str,
    facts: str,
) -> str:
    """Return a turn's digest as 64 hex digits.

    `previous` is the digest of the turn before it in the transcript (the parent's, for a fork's first turn; `GENESIS`
    at the start), `author` is `iris.author_key` of the author, `content` and `facts` are the digests made above. A head
    digest so commits to all history, as in git.

    >>> turn_digest(previous=GENESIS, index=0, branch="main", role="user", author="principal:a",
    ...     time=None, content=content_digest("hi", "00", structured=False), facts="")[:8]
    'f6546603'
    """
    when = None if time is None else epoch_microseconds(time)
    return chained(previous, f"{index}", names(branch, role, author), when, content, facts=facts)


def names(branch: str, role: str, author: str) -> bytes:
    """Return what `chained` takes of the names that many turns share; the arguments are those of `turn_digest`."""
    return _name(branch) + _name(role) + _name(author)


def chained(previous: str, index: str, named: bytes, time: int | None, content: str, *, facts: str = "") -> str:
    """Return `turn_digest` of parts as they are read: the index in digits, the `names`, the time in microseconds since 1970."""
    before, at, said = previous.encode(), index.encode(), content.encode()
    when = b"" if time is None else b"%d" % time
    parts = (
        b"trails/turn/1",
        *(_LENGTH(len(before)), before),
        *(_LENGTH(len(at)), at),
        named,
        *(_LENGTH(len(when)), when),
        *(_LENGTH(len(said)), said),
        framed(facts.encode()) if facts else _NOTHING,
    )
    return hashlib.sha256(b"".join(parts)).hexdigest()


_NOTHING: Final = framed(b"")


def standing_digest(
    *,
    previous: str,
    index: int,
    branch: str,
    role: str,
    author: str,
    time: datetime | None,
    content: str,
    facts: str,
    left: str,
) -> str:
    """Return the digest over a turn as it stands after more was taken out of it than its own digest can do without.

    The arguments are those of `turn_digest`, each as it is now, and `left`: the digest over the facts that are left
    (`facts` is the one over all of them as they were).
    """
    made = turn_digest(
        previous=previous,
        index=index,
        branch=branch,
        role=role,
        author=author,
        time=time,
        content=content,
        facts=facts,
    )
    return _hash(b"trails/stands/1", made.encode(), left.encode())


def prompt_digest(text: str, salt: str, *, version: int, effective_from: int, redacted: bool = False) -> str:
    """Return the digest of one version of a system prompt; of a redacted one, `salt` is the digest of salt and text."""
    said = salt if redacted else salted("prompt", salt, text)
    return _hash(b"trails/prompt/1", str(version).encode(), str(effective_from).encode(), said.encode())
