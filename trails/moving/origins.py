"""Proofs of origin: where a session that was pushed or pulled stood in the log of the store that it came from.

What is kept is the newest line of that log which tells of the session's turns, its place, and the way from there to the root
of the Merkle tree over the log as it was (RFC 6962). Whoever has a checkpoint that the source signed can hold it against that:
the line names the head, and the head stands for the whole transcript. None of it is needed to read the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from trails.errors import IntegrityError
from trails.integrity import leaves, merkle
from trails.integrity.merkle import HashTree, leaf_hash
from trails.model import Value
from trails.plumbing import acts, checkpoints
from trails.plumbing.names import Name
from trails.records.acts import MOVED, Import
from trails.session import Repository
from trails.session.repository import opened


class SourceLog:
    """The log of a store from which sessions go, as it is now."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._places: dict[str, int] = {}
        for number, line in enumerate(lines):
            kind, iri, _ = line.split(" ", 2)
            if kind in ("turns", "create", "fork"):
                self._places[iri] = number
        self._tree: HashTree | None = None

    def evidence(self, session_iri: str) -> str | None:
        """Return, as JSON, where the newest line about a session's turns stands; None where no line tells of it."""
        number = self._places.get(session_iri)
        if number is None:
            return None
        self._tree = self._tree or HashTree(leaf_hash(line.encode()) for line in self._lines)
        said = {
            "leaf": self._lines[number],
            "number": number,
            "size": len(self._lines),
            "root": self._tree.root().hex(),
            "hashes": [each.hex() for each in self._tree.inclusion(number)],
        }
        return json.dumps(said, separators=(",", ":"))


class Origin(Value):
    """That a session, or more of one, came from another store, and what that store's log said of it."""

    session_id: str
    by_iri: str
    """Who pushed or pulled it."""
    time: datetime
    how: str
    """`push` or `pull`."""
    leaf: str
    """The line of the source's log."""
    number: int
    """Its place, from 0."""
    size: int
    """How many lines that log had."""
    root: str
    """The root of the Merkle tree over them, in hex."""
    turns: int
    """How many turns the transcript had by that line, 0 where it tells of none."""
    head: str | None
    """The digest of the last of them."""
    holds: bool
    """Whether the line is in the log with that root, and its head is in the transcript as it stands here."""
    checked: bool = False
    """Whether a checkpoint of the source, signed by a key that was given, has that root."""


def origins(
    store: Repository, session: Name, *, checkpoint: str | None = None, verifiers: Iterable[str] = ()
) -> list[Origin]:
    """Return what is known of where a session was pushed or pulled from, oldest first; none for one that was made here.

    With a `checkpoint` that the source signed when its log had as many lines, and its public keys in `verifiers`, what holds
    against it is `checked`.

    Raises `SessionNotFound`; `IntegrityError` for a checkpoint that none of the keys signed.

    >>> import trails
    >>> from trails.moving.origins import origins
    >>> with trails.open(":memory:") as laptop, trails.open(":memory:") as team:
    ...     plan = laptop.create(id="plan"); _ = plan.append("user", "Plan a trip"); _ = plan.persist()
    ...     _ = trails.push(laptop, "plan", team, by="alice")
    ...     [(each.how, each.by_iri, each.turns, each.holds) for each in origins(team, "plan")]
    [('push', 'urn:trails:principal:alice', 1, True)]
    """
    at = opened(store, "proof of origin")
    session_id = at.resolve(session)
    kept = None if checkpoint is None else checkpoints.opened(checkpoint, verifiers)
    reader = at.reader
    digests = [turn.digest for turn in reader.turns(reader.lineage(session_id))]
    found = []
    for act in acts.read(at.store, session_id):
        if isinstance(act, Import) and act.importer in MOVED and act.origin is not None:
            origin = _origin(act, act.origin, digests)
            same = kept is not None and (kept.size, kept.root.hex()) == (origin.size, origin.root)
            found.append(origin.model_copy(update={"checked": same and origin.holds}))
    return found


def _origin(act: Import, said: str, digests: Sequence[str]) -> Origin:
    try:
        plain: dict[str, Any] = json.loads(said)
        leaf, _ = leaves.parse(plain["leaf"])
        hashes = [bytes.fromhex(each) for each in plain["hashes"]]
        root = bytes.fromhex(plain["root"])
        number, size = int(plain["number"]), int(plain["size"])
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            f"the proof of origin of session {act.session_id!r} cannot be read ({error}): the store was altered; restore it "
            "from a backup"
        ) from error
    is_turns = leaf.kind == "turns"
    holds = not is_turns or (0 < leaf.count <= len(digests) and digests[leaf.count - 1] == leaf.digest)
    try:
        merkle.verify_inclusion(leaf_hash(plain["leaf"].encode()), number, size, hashes, root)
    except IntegrityError:
        holds = False
    return Origin(
        session_id=act.session_id,
        by_iri=act.by_iri,
        time=act.time,
        how=act.importer,
        leaf=plain["leaf"],
        number=number,
        size=size,
        root=root.hex(),
        turns=leaf.count if is_turns else 0,
        head=leaf.digest if is_turns else None,
        holds=holds,
    )
