"""Follow a turn to all that was made from it, and erase that too: copies, summaries, quotes, near copies.

Summaries that stand for a turn, and turns that were picked from it, are followed in their turn. Quotes and near copies, which are
found by their text, are not: what else they say is nobody's copy.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from pyoxigraph import Literal, Quad

from trails.errors import InvalidInput
from trails.history import backup_records, encryption, hold_guard, near_copies
from trails.history.reader import Reader
from trails.history.records import registers
from trails.history.removal import redaction, text_erasure
from trails.integrity.erasure_receipts import ErasedTurn, ErasureReceipt, Unreached, Why
from trails.integrity.leaves import parse_leaf
from trails.model import iris
from trails.model.values import SessionRecord, Turn, Value
from trails.rdf import vocab
from trails.rdf.activity_records import UNKNOWN_ACTOR, Deed
from trails.rdf.codec import term_text
from trails.rdf.register_records import Export
from trails.store.contract import QuadStore

_ORDER: Final[tuple[Why, ...]] = ("asked", "copy", "summary", "quote", "near copy")


class DerivedErasure(Value):
    """What `erase` took out, or would take out, and what it could not reach."""

    turns: tuple[ErasedTurn, ...]
    """The turns, the one that was asked for first, and how each follows from it."""
    unreached: tuple[Unreached, ...]
    """Backups, exports and places in the store that may still hold the text."""
    dry_run: bool
    receipt: ErasureReceipt | None = None
    """What others are given; None for a dry run."""
    signed: str | None = None
    """The receipt as a signed note, where a key was given."""

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump(mode="json")


def plan_erasure(
    store: QuadStore, reader: Reader, chain: Sequence[SessionRecord], index: int, *, near: float
) -> dict[tuple[str, int], ErasedTurn]:
    """Return what is to be erased with a turn, by (session, index), the turn first; nothing is changed.

    `near` is which share of a turn's runs of words another turn repeats at least to count as a near copy.
    """
    asked = redaction.turn_at(reader, chain, index)
    if asked.redacted:
        raise InvalidInput(
            f"turn {index} of session {chain[0].id!r} was redacted before, so nobody can say by its text what repeats it; "
            "the query `redacted-repeats` names what was derived from it"
        )
    found: dict[tuple[str, int], ErasedTurn] = {}
    waiting: deque[tuple[Turn, Why]] = deque([(asked, "asked")])
    while waiting:
        turn, why = waiting.popleft()
        for place, how in _reached(store, reader, turn, why, near):
            if place in found:
                continue
            session_id, at = place
            reached = redaction.turn_at(reader, reader.lineage(session_id), at)
            if reached.redacted:
                continue
            found[place] = ErasedTurn(session_id=session_id, index=at, digest=reached.digest, why=how)
            if how == "summary":
                waiting.append((reached, how))
    return dict(sorted(found.items(), key=lambda each: (_ORDER.index(each[1].why), each[0])))


def _reached(
    store: QuadStore, reader: Reader, turn: Turn, why: Why, near: float
) -> Iterator[tuple[tuple[str, int], Why]]:
    copies = redaction.places_of(store, turn.digest)
    for place in copies:
        is_itself = place == (turn.session_id, turn.index)
        yield place, why if is_itself or why != "asked" else "copy"
    summaries, quotes = redaction.repeats_of(store, reader, turn)
    for place in sorted(summaries):
        yield place, "summary"
    for place in sorted(quotes - set(copies)):
        yield place, "quote"
    original = near_copies.word_runs("\n".join(redaction.texts_of(turn)))
    for place, text in turn_texts(store, reader) if len(original) >= near_copies.FEWEST else ():
        if near_copies.share_of(original, text) >= near:
            yield place, "near copy"


def turn_texts(store: QuadStore, reader: Reader) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield the place and the text of every turn that has one, in order; those of encrypted sessions last."""
    hidden = {iris.session(session_id) for session_id in encryption.encrypted_sessions(store)}
    for quad in sorted(store.quads((None, vocab.VALUE, None, None)), key=_place):
        graph = str(getattr(quad.graph_name, "value", ""))
        if graph in hidden or not iris.is_session(graph):
            continue
        if not isinstance(quad.object, Literal) or quad.object.datatype == vocab.REDACTED:
            continue
        subject = term_text(quad.subject)
        text = quad.object.value
        if quad.object.datatype == vocab.JSON:
            text = "\n".join(redaction.plain_texts(json.loads(text)))
        yield (iris.session_id(subject), iris.turn_index(subject)), text
    for turn in reader.encrypted_turns() if hidden else ():
        if not turn.redacted:
            yield (turn.session_id, turn.index), "\n".join(redaction.texts_of(turn))


def _place(quad: Quad) -> str:
    return term_text(quad.subject)


def refuse_held(store: QuadStore, planned: Sequence[ErasedTurn]) -> None:
    """Raise `OnHold` where a legal hold covers one of the turns of a plan."""
    for turn in planned:
        hold_guard.refuse_held(store, turn.session_id, turn.index)


def erase(store: QuadStore, reader: Reader, planned: Sequence[ErasedTurn], deed: Deed) -> list[redaction.Redaction]:
    """Redact all turns of a plan, each as `redact` does."""
    return [redaction.redact_turn(store, reader, reader.lineage(turn.session_id), turn.index, deed) for turn in planned]


def kept_places(reports: Sequence[redaction.Redaction]) -> list[Unreached]:
    """Return the places in the store that hold or repeat a text and stay: notes, scores, entries of ledgers, runs."""
    every = {
        "note": {each for report in reports for each in report.notes},
        "score": {each for report in reports for each in report.scores},
        "ledger": {each for report in reports for each in report.ledger_quotes},
        "run": {each for report in reports for each in report.run_quotes},
    }
    return [Unreached(kind=kind, name=name) for kind, names in every.items() for name in sorted(names)]


def kept_texts(store: QuadStore, texts: Sequence[str], planned: Sequence[ErasedTurn]) -> list[Unreached]:
    """Return where texts stand letter by letter outside the turns of a plan: in metadata, prompts, names, encoded content."""
    if encryption.encrypted_sessions(store):
        return [
            Unreached(kind="encrypted", name="metadata and system prompts: a text is not looked for in encrypted ones")
        ]
    erased = {(turn.session_id, turn.index) for turn in planned}
    nobody = Deed(UNKNOWN_ACTOR, datetime.now(UTC))  # whose name holds none of the texts
    kept: dict[str, Unreached] = {}
    for text in texts:
        report = text_erasure.redact_matching(store, text, nobody, dry_run=True)
        for place in (*report.places, *report.left):
            if (place.session_id, place.index) not in erased:
                kept[place.iri] = Unreached(kind=place.kind, name=place.iri)
    return list(kept.values())


def kept_files(store: QuadStore, turns: Sequence[ErasedTurn]) -> list[Unreached]:
    """Return the backups and exports on record that hold one of some turns, and that nobody said were destroyed."""
    lines = store.log.lines()
    shown = {each for turn in turns for each in hold_guard.showing(store, turn.session_id, turn.index)}
    found = [
        Unreached(kind="backup", name=each.token, sha256=each.sha256)
        for each in backup_records.open_backups(store)
        if _holds_any(lines, each.log_size, turns)
    ]
    exports = [
        Unreached(kind="export", name=each.token, sha256=each.sha256)
        for each in registers.read_entries(store, Export)
        if (not each.used or not shown.isdisjoint(each.used)) and _holds_any(lines, each.log_size, turns)
    ]
    return found + exports


def _holds_any(lines: Sequence[str], size: int, turns: Sequence[ErasedTurn]) -> bool:
    """Tell whether the first lines of a log tell of one of some turns."""
    wanted = {iris.session(turn.session_id): turn.index for turn in turns}
    for turn in turns:
        session = iris.session(turn.session_id)
        wanted[session] = min(wanted[session], turn.index)
    for line in lines[:size]:
        leaf, _ = parse_leaf(line)
        if leaf.kind == "turns" and leaf.session_iri in wanted and leaf.count > wanted[leaf.session_iri]:
            return True
    return False
