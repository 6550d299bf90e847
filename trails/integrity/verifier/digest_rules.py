"""The rules by which digests are made: a tag that names what is hashed, and fields, each after its length in 8 bytes.

Trails writes by them, and the program that goes out checks by them. The guide tells them on its page `proofs`; the published
test vectors hold both to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import Any

_LENGTH = Struct(">Q").pack

GENESIS = hashlib.sha256(b"trails/genesis/1").hexdigest()
"""What stands for "the turn before" at the start of every session; the head of a session without turns."""


def frame(field: bytes) -> bytes:
    """Return a field with its length before it, as it stands in what is hashed or signed."""
    return _LENGTH(len(field)) + field


def _hash(tag: bytes, *fields: str) -> str:
    return hashlib.sha256(tag + b"".join(frame(field.encode()) for field in fields)).hexdigest()


@lru_cache(maxsize=4096)
def _framed_name(text: str) -> bytes:
    """Return a framed field that many turns share: a role, a branch, an author."""
    return frame(text.encode())


def salted_digest(kind: str, salt: str, text: str) -> str:
    """Return the digest of a salted text: what stays behind when the text itself is redacted.

    `kind` says what the text is (`text`, `json`, `arguments`, `meta`, `request`, `prompt`, `payload`), so that one can't
    stand for another.
    """
    bits, said = salt.encode(), text.encode()
    parts = (b"trails/salted/1", _framed_name(kind), _LENGTH(len(bits)), bits, _LENGTH(len(said)), said)
    return hashlib.sha256(b"".join(parts)).hexdigest()


def score_digest(said: Iterable[tuple[str, str, str]]) -> str:
    """Return the digest of a score: over (property, text, datatype) of all that it says but its session, in order.

    A datatype is an IRI, "" if the text itself is one. The digest itself is not among what it covers.
    """
    return _hash(b"trails/score/1", *(field for each in sorted(said) for field in each))


def facts_digest(facts: dict[str, Any]) -> str:
    """Return the digest of what was recorded with a turn; "" where that is nothing."""
    return facts_json_digest(
        json.dumps(facts, ensure_ascii=False, sort_keys=True, separators=(",", ":")) if facts else ""
    )


def facts_json_digest(text: str) -> str:
    """Return the digest of what was recorded with a turn, as its canonical JSON; "" for ""."""
    return _hash(b"trails/facts/1", text) if text else ""


@lru_cache(maxsize=1024)
def digest_names(branch: str, role: str, author: str) -> bytes:
    """Return what `chain_digests` takes of the names that many turns share; the author is "principal:NAME" or the like."""
    return _framed_name(branch) + _framed_name(role) + _framed_name(author)


def chain_digests(previous: str, index: str, named: bytes, time: str, content: str, *, facts: str = "") -> str:
    """Return the digest of a turn after the one with the digest `previous`.

    The index is in digits, the time in microseconds since 1970, in digits, or "". `content` and `facts` are digests.
    """
    before, at, when, text = previous.encode(), index.encode(), time.encode(), content.encode()
    parts = (
        b"trails/turn/1",
        *(_LENGTH(len(before)), before),
        *(_LENGTH(len(at)), at),
        named,
        *(_LENGTH(len(when)), when),
        *(_LENGTH(len(text)), text),
        frame(facts.encode()) if facts else _NOTHING,
    )
    return hashlib.sha256(b"".join(parts)).hexdigest()


_NOTHING = frame(b"")


def standing_digest(made: str, left: str) -> str:
    """Return the digest over a turn as it stands after more was taken out of it than its own digest can do without.

    `made` is the digest of the turn as it is now, `left` the digest over the facts that are left.
    """
    return _hash(b"trails/stands/1", made, left)


def version_digest(version: str, first: str, content: str) -> str:
    """Return the digest of one version of a system prompt, in effect from the turn `first` on; `content` is salted."""
    return _hash(b"trails/prompt/1", version, first, content)
