"""Proofs that something was not recorded between two signed checkpoints of a log, checked without the store.

A proof has every line of the log between the two. The edge of the older tree with these lines makes the newer tree, so no
line can be left out. A line names its kind and its session in clear. Where a question is about turns, the proof also has what the
digests of the turns cover, from the last digest that was in the log before up to the head that the line names: so no
turn can be left out. Where it is about reads, it has the entries of registers that the lines are of. It needs nothing
but what every checkpoint signs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, Final, Literal

from trails.errors import IntegrityError
from trails.integrity import digests, leaves
from trails.integrity.leaves import Leaf
from trails.integrity.merkle import Frontier
from trails.integrity.proof_form import Proof, ProofBytes, TurnDigests, distinct, turns_leaf
from trails.integrity.signed_notes import Checkpoint, open_checkpoint
from trails.integrity.verifier.merkle_checks import leaf_hash, verify_inclusion
from trails.model import iris
from trails.model.values import Value

Subject = Literal["session", "turn", "tool", "model", "author", "removal", "read"]
"""What can be proven absent; `ABSENT` says what each stands for."""
ABSENT: Final[dict[Subject, str]] = {
    "session": "a line of the log about this session",
    "turn": "a turn with this digest that was not in the log before",
    "tool": "a turn that calls this tool",
    "model": "a turn that this model made",
    "author": "a turn by this author",
    "removal": "a deletion or a redaction",
    "read": "a read or an export that was put on record",
}
OF_TURNS: Final = frozenset({"turn", "tool", "model", "author"})
"""The subjects for which turns are opened."""
WITH_FACTS: Final = frozenset({"tool", "model"})
"""The subjects for which what was recorded with them is opened, too."""
_FORMS: Final[dict[str, tuple[re.Pattern[str], str]]] = {
    "turn": (re.compile("[0-9a-f]{64}"), "a turn's digest, 64 hex digits"),
    "author": (re.compile("(principal|agent):.+", re.DOTALL), "principal:NAME or agent:NAME"),
}
_ANY: Final = (re.compile(".+", re.DOTALL), "a name")
_TYPE: Final = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_READINGS: Final = ("<https://w3id.org/trails#RecordReading>", "<https://w3id.org/trails#Export>")
_USED: Final = "<http://www.w3.org/ns/prov#used>"
_REMOVALS: Final = frozenset({"delete", "redact", "remove", "discard"})


def name_trouble(subject: Subject, name: str | None) -> str | None:
    """Say why a name is none of a subject, or None; only a removal and a read may have no name."""
    if name is None:
        return None if subject in ("removal", "read") else f"give the {subject}"
    form, shown = _FORMS.get(subject, _ANY)
    return None if form.fullmatch(name) else f"the {subject} is given as {shown}, not as {name[:80]!r}"


class NotAbsent(IntegrityError):
    """What a proof says is absent was recorded after all."""


class EarlierTurns(Value):
    """That a transcript was in the log at the older checkpoint: a line of it, where it stood, and the turns up to its head."""

    leaf: str
    leaf_index: int
    hashes: tuple[ProofBytes, ...]
    links: tuple[TurnDigests, ...]


class OpenedTurns(Value):
    """The turns that a line of the log is the head of, from the first that was not in the log before.

    `place` is the number of the line, from 0; `previous` the digest of the turn before, and `before` shows that it was in the
    log, unless it is the start or was opened already. `facts` are what was recorded with each turn, as JSON text, where
    asked for.
    """

    place: int
    previous: str
    before: EarlierTurns | None
    turns: tuple[TurnDigests, ...]
    facts: tuple[str, ...]


class AbsenceProof(Proof):
    """The proof that between two checkpoints nothing of a kind was recorded; `name` says of which session, tool and so on.

    `since` is the older checkpoint, `hashes` are the edge of its tree, `lines` those of the log that follow up to the
    newer one, `opened` the turns and `entries` the entries of registers (as N-Quads, by IRI) that they cover.
    """

    format: Literal["trails-absence-proof/1"] = "trails-absence-proof/1"
    since: str
    subject: Subject
    name: str | None
    old_size: int
    new_size: int
    lines: tuple[str, ...]
    opened: tuple[OpenedTurns, ...]
    entries: dict[str, str]

    def to_json(self) -> str:
        """Return the proof as JSON text, without spaces, for it may be long."""
        return self.model_dump_json() + "\n"

    def verify(self, verifiers: Iterable[str], kept: str | bytes | None = None) -> Checkpoint:
        """Return the newer checkpoint if nothing of what the proof names was recorded since the older one.

        The log must have signed both with one of the given keys; where a `kept` checkpoint is given, the older one must be
        that. Raises IntegrityError with what does not hold, also where something of the kind was recorded after all.
        """
        keys = list(verifiers)
        old, new = open_checkpoint(self.since, keys), open_checkpoint(self.checkpoint, keys)
        if kept is not None and open_checkpoint(kept, keys) != old:
            raise IntegrityError("the proof is since another checkpoint than the one that was kept")
        self.check(old, new)
        return new

    def check(self, old: Checkpoint, new: Checkpoint) -> None:
        """Check the proof against two states of the log whose signatures were checked, or are not to be."""
        named = (self.origin, self.origin, self.old_size, self.new_size)
        if named != (old.origin, new.origin, old.size, new.size) or old.size > new.size:
            raise IntegrityError(
                f"the proof is for the log {self.origin!r} from {self.old_size} to {self.new_size} lines, the checkpoints are "
                f"of {old.origin!r} at {old.size} and of {new.origin!r} at {new.size}: they do not belong together"
            )
        self._check_name()
        self._check_lines(old, new)
        for place, leaf in enumerate(map(_leaf_of, self.lines), old.size):
            self._check_line(place, leaf)
        if self.subject in OF_TURNS:
            self._check_turns(old)
        elif self.opened:
            raise IntegrityError(f"the proof opens turns, which are not asked for: it is about a {self.subject}")

    def _check_name(self) -> None:
        if trouble := name_trouble(self.subject, self.name):
            raise IntegrityError(f"the proof does not say what is absent: {trouble}")

    def _check_lines(self, old: Checkpoint, new: Checkpoint) -> None:
        tree = Frontier(old.size, self.hashes)
        if tree.root() != old.root:
            raise IntegrityError("the edge of the older tree does not lead to its root: the proof was altered")
        if len(self.lines) != new.size - old.size:
            raise IntegrityError(
                f"the proof has {len(self.lines)} lines where {new.size - old.size} were written: lines were left out or added"
            )
        for line in self.lines:
            tree.append(leaf_hash(line.encode()))
        if tree.root() != new.root:
            raise IntegrityError(
                "the lines do not lead to the newer root: a line was altered, moved, left out or added"
            )

    def _check_line(self, place: int, leaf: Leaf) -> None:
        """Raise where a line is of what is said to be absent."""
        is_present = False
        if self.subject == "session":
            is_present = _session_of(leaf.session_iri) == self.name
        elif self.subject == "removal":
            owner = _session_of(leaf.session_iri)
            # what is redacted outside turns stands under an IRI of its own: it may be of any session
            may_be = self.name in (None, owner) or (leaf.kind == "redact" and owner is None)
            is_present = leaf.kind in _REMOVALS and may_be
        elif self.subject == "read" and leaf.kind == "register":
            is_present = self._is_read(place, leaf)
        if is_present:
            raise self._present(place, leaf)

    def _present(self, place: int, leaf: Leaf, what: str = "") -> NotAbsent:
        named = "" if self.name is None else f" {self.name!r}"
        return NotAbsent(
            f"the {self.subject}{named} is not absent: line {place} of the log ({leaf.kind} {leaf.session_iri}) has it{what}"
        )

    def _is_read(self, place: int, leaf: Leaf) -> bool:
        text = self.entries.get(leaf.session_iri)
        if text is None or hashlib.sha256(text.encode()).hexdigest() != leaf.digest:
            raise IntegrityError(
                f"line {place} of the log is an entry of a register, and the proof does not have what it covers"
            )
        lines = text.split("\n")
        subject = f"<{leaf.session_iri}>"
        if lines.pop() or any(not line.startswith(f"{subject} ") for line in lines):
            raise IntegrityError(f"the entry {leaf.session_iri} of a register has lines of something else")
        if not any(f"{subject} {_TYPE} {each} ." in lines for each in _READINGS):
            return False
        start = f"{subject} {_USED} <"
        used = [_session_of(line[len(start) : -len("> .")]) for line in lines if line.startswith(start)]
        return self.name is None or not used or self.name in used

    def _check_turns(self, old: Checkpoint) -> None:
        opened = {each.place: each for each in self.opened}
        known = {digests.GENESIS: 0}
        for place, (line, leaf) in enumerate(((line, _leaf_of(line)) for line in self.lines), old.size):
            if leaf.kind != "turns":
                continue
            turns = opened.pop(place, None)
            if turns is None:
                if known.get(leaf.digest) != leaf.count:
                    raise IntegrityError(f"line {place} of the log is of turns that the proof does not open")
                continue
            self._check_opened(turns, turns_leaf(line), known, old)
        if opened or len({each.place for each in self.opened}) < len(self.opened):
            raise IntegrityError("the proof opens turns of a line that is not between the checkpoints, or a line twice")

    def _check_opened(self, opened: OpenedTurns, leaf: Leaf, known: dict[str, int], old: Checkpoint) -> None:
        if opened.before is not None:
            known |= _known_before(opened, opened.before, old)
        if opened.previous not in known:
            raise IntegrityError(
                f"the proof does not show that the turns before line {opened.place} were in the log before"
            )
        if len(opened.facts) != (len(opened.turns) if self.subject in WITH_FACTS else 0):
            raise IntegrityError(f"the proof does not have the facts of the turns of line {opened.place}")
        head, count = opened.previous, known[opened.previous]
        for number, turn in enumerate(opened.turns):
            if turn.index != count:
                raise IntegrityError(f"the proof has turn {turn.index} where turn {count} belongs")
            head, count = turn.after(head), count + 1
            facts = _facts(turn, opened.facts[number]) if self.subject in WITH_FACTS else {}
            if head not in known and self._has(turn, head, facts):
                raise self._present(opened.place, leaf, f" in turn {turn.index}")
            known[head] = count
        if (count, head) != (leaf.count, leaf.digest):
            raise IntegrityError(
                f"the turns of line {opened.place} lead to the head {head} after {count} turns, the log says {leaf.digest} "
                f"after {leaf.count}: a turn was altered or left out"
            )

    def _has(self, turn: TurnDigests, digest: str, facts: dict[str, Any]) -> bool:
        if self.subject == "turn":
            return digest == self.name
        if self.subject == "author":
            return turn.author == self.name
        if self.subject == "tool":
            return any(call[1] == self.name for call in facts.get("calls", ()))
        return bool(facts.get("model")) and facts["model"][0] == self.name


def _session_of(iri: str) -> str | None:
    """Return the id of the session that an IRI names or is within, None for any other IRI."""
    return iris.session_id(iri) if iri.startswith(iris.session("")) else None


def _leaf_of(line: str) -> Leaf:
    try:
        return leaves.parse_leaf(line)[0]
    except ValueError as wrong:  # more digits than Python turns into a number
        raise IntegrityError(f"the log has a line that is no leaf: {line[:100]!r}") from wrong


def _known_before(opened: OpenedTurns, before: EarlierTurns, old: Checkpoint) -> dict[str, int]:
    """Return the digests that were in the log at the older checkpoint, and how many turns end with each."""
    verify_inclusion(leaf_hash(before.leaf.encode()), before.leaf_index, old.size, before.hashes, old.root)
    leaf = turns_leaf(before.leaf)
    digest, count = opened.previous, leaf.count - len(before.links)
    known = {digest: count}
    for turn in before.links:
        if turn.index != count:
            raise IntegrityError(f"the proof has turn {turn.index} where turn {count} belongs")
        digest, count = turn.after(digest), count + 1
        known[digest] = count
    if digest != leaf.digest:
        raise IntegrityError(f"the turns before line {opened.place} do not lead to the head that the log named before")
    return known


def _facts(turn: TurnDigests, text: str) -> dict[str, Any]:
    """Return what was recorded with a turn; IntegrityError where the text is not what its digest covers."""
    if digests.facts_json_digest(text) != turn.facts:
        raise IntegrityError(f"the facts of turn {turn.index} do not have the digest that is proven: they were altered")
    try:
        facts = json.loads(text, object_pairs_hook=distinct) if text else {}
        whole = isinstance(facts, dict) and all(isinstance(call[1], str) for call in facts.get("calls", ()))
        whole = whole and (not facts.get("model") or isinstance(facts["model"][0], str | None))
    except (ValueError, TypeError, LookupError, RecursionError):
        whole = False
    if not whole:
        raise IntegrityError(
            f"the facts of turn {turn.index} are none that Trails writes, so nothing can be told of them"
        )
    return facts
