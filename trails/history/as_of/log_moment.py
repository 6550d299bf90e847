"""Find the place of a store's log that a checkpoint, a mark or a time stands for.

The log says in which order things were committed, and not when. A time stands for the longest beginning of the log in
which nothing was recorded later: no turn that is kept was made or redacted later, and no session created or deleted
later.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput
from trails.history import log_history
from trails.history.as_of.past_facts import Catalog, earliest_time, one_text, time_of
from trails.history.reader import Reader
from trails.integrity import leaves
from trails.integrity.leaves import LEDGER_KINDS
from trails.integrity.merkle import root_of
from trails.integrity.signed_notes import Checkpoint, claimed_checkpoint, open_checkpoint
from trails.integrity.verifier.merkle_checks import leaf_hash
from trails.model import iris, validation
from trails.rdf import vocab
from trails.rdf.codec import parse_time, term_text
from trails.store.contract import QuadStore
from trails.store.leaflog import LeafLog

MARK: Final = re.compile(r"([1-9][0-9]{0,17})-([0-9a-f]{16})")
"""A place of a log as text: how many lines there are, and the link of the last one."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A place of a store's log: its lines until then, and the time that was asked for, if one was."""

    lines: Sequence[str]
    time: datetime | None = None

    @property
    def mark(self) -> str:
        """What finds the place again, in this log and in no other."""
        return f"{len(self.lines)}-{leaves.link_leaf(self.lines[-1])}"


def mark_of_log(log: LeafLog) -> str | None:
    """Return the mark of where a log ends; None for one without a line."""
    reached = log.reached
    return f"{reached.lines}-{reached.link}" if reached.lines else None


def find_moment(store: QuadStore, reader: Reader, at: object, verifiers: Iterable[str] = ()) -> Moment:
    """Return the place that a time, a checkpoint (a note, or its text) or a mark stands for.

    Raises `InvalidInput` for what is none of these, for a time in the future and one before the store; `IntegrityError`
    for a checkpoint or mark that is of no state of this log, and a checkpoint that none of the `verifiers` signed.
    """
    lines, keys = store.log.lines(), list(verifiers)
    if isinstance(at, datetime):
        if keys:
            raise InvalidInput("verifier keys are to check a checkpoint, and a time was given")
        return _at_time(store, reader, lines, validation.time(at, "the time of the store"))
    if isinstance(at, str) and (found := MARK.fullmatch(at.strip())):
        if keys:
            raise InvalidInput("verifier keys are to check a checkpoint, and a mark was given")
        return _at_mark(store, lines, int(found[1]), found[2])
    if isinstance(at, Checkpoint):
        return _at_checkpoint(store, lines, at)
    if isinstance(at, str | bytes) and at.strip():
        is_note = (b"\n" in at.strip()) if isinstance(at, bytes) else ("\n" in at.strip())
        if is_note:
            return _at_checkpoint(store, lines, open_checkpoint(at, keys) if keys else claimed_checkpoint(at))
    raise InvalidInput(
        f"{at!r:.80} is no moment of a store: give an aware time, the text of a checkpoint, or a mark such as "
        "'412-9f86d081884c7d65', as `as_of` and comparisons show it"
    )


def _at_mark(store: QuadStore, lines: Sequence[str], size: int, link: str) -> Moment:
    if size > len(lines) or leaves.link_leaf(lines[size - 1]) != link:
        what = f"has {len(lines)} lines" if size > len(lines) else f"has another line {size}"
        raise IntegrityError(
            f"the mark {size}-{link} is of no state of the log of {store.location}, which {what}: it is another store's, "
            "or the log was rewritten or put back (`trails verify`)"
        )
    return _whole(store, lines[:size])


def _at_checkpoint(store: QuadStore, lines: Sequence[str], kept: Checkpoint) -> Moment:
    if not kept.size:
        raise InvalidInput(
            f"the checkpoint of {kept.origin!r} is of an empty store: there is nothing to be shown of it"
        )
    kept_lines = lines[: kept.size]
    if len(lines) < kept.size or root_of(leaf_hash(line.encode()) for line in kept_lines) != kept.root:
        raise IntegrityError(
            f"the checkpoint of {kept.origin!r} at {kept.size} lines is of no state of the log of {store.location}, which has "
            f"{len(lines)} lines: it is another store's, or the log was rewritten or put back (`trails verify --checkpoint`)"
        )
    return _whole(store, kept_lines)


def _whole(store: QuadStore, lines: Sequence[str], time: datetime | None = None) -> Moment:
    """Return a moment whose lines follow on each other; raise `IntegrityError` where they do not."""
    for number, what in leaves.check_links(lines):
        raise IntegrityError(
            f"line {number} of the log of {store.location}: {what}; what stood then cannot be told. "
            "`trails verify` says what else is wrong; restore a backup"
        )
    return Moment(lines, time)


# --- by a time


def _at_time(store: QuadStore, reader: Reader, lines: Sequence[str], time: datetime) -> Moment:
    now = datetime.now(UTC)
    if time > now:
        raise InvalidInput(f"{time.isoformat()} is in the future: a store is shown as it is, or as it was")
    end = min(_later(store, reader, lines, time, now), default=len(lines))
    if not end:
        raise InvalidInput(f"there was nothing in {store.location} at {time.isoformat()}: its first commit is later")
    return _whole(store, lines[:end], time)


def _later(store: QuadStore, reader: Reader, lines: Sequence[str], time: datetime, now: datetime) -> Iterator[int]:
    """Yield the numbers of the lines that tell first, each of its session, of something later than a time.

    What was recorded with a time to come is no evidence: a clock was wrong.
    """
    log = log_history.logs_by_session(lines)
    for row in reader.select("turns_after", after=time, until=now):
        if row["session"] is not None and iris.is_session(row["session"].value):
            own = log.get(iris.session_id(row["session"].value), log_history.SessionLog())
            first = int(row["index"].value)
            yield from (number for count, _, number in own.heads if count > first)
    catalog = Catalog.of(store)
    yield from _changed_later(catalog, lines, time, now)
    yield from _redacted_later(catalog, lines, time, now)
    yield from _entered_later(store, lines, time, now)
    for session_id, own in log.items():
        arrived = _imported(catalog, session_id)
        if arrived is not None and time < arrived <= now:
            yield own.began
        when = _time_of(store, session_id, deleted=own.deleted)
        if when is not None and time < when <= now:
            told = [number for number, what in own.events if what == "deleted"] if own.deleted else [own.began]
            yield from told[-1:]


def _imported(catalog: Catalog, session_id: str) -> datetime | None:
    """Return when a session of another system came in first; None for any other. Its own times are older."""
    iri = iris.session(session_id)
    if one_text(catalog.subjects.get(iri, ()), vocab.SOURCE_SESSION) is None:
        return None
    return time_of(catalog.subjects.get(iris.session_import(iri), ()))


def _changed_later(catalog: Catalog, lines: Sequence[str], time: datetime, now: datetime) -> Iterator[int]:
    """Yield of each session with notes, labels and the like of later the number of the line that tells of the first one.

    The log does not say which change was which: they are counted from its end.
    """
    later: dict[str, set[datetime]] = defaultdict(set)
    for subject in catalog.subjects:
        when = catalog.changed_at(subject)
        if when is not None and time < when <= now:
            for owner in catalog.owners(subject):
                later[iris.session(owner)].add(when)
    changes: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        kind, iri, *_ = line.split(" ")
        if kind in ("change", "detach") and iri in later:
            changes[iri].append(number)
    for iri, told in changes.items():
        yield from told[-len(later[iri]) :]


def _redacted_later(catalog: Catalog, lines: Sequence[str], time: datetime, now: datetime) -> Iterator[int]:
    """Yield the numbers of the lines that tell of turns which were redacted later."""
    later: set[tuple[str, str]] = set()
    for subject, quads in catalog.subjects.items():
        turn, _, what = subject.rpartition("/")
        when = time_of(quads) if what == "deletion" else None
        if when is not None and time < when <= now:
            home, _, place = turn.partition("/")
            later.add((home, place.partition("-")[0]))
    for number, line in enumerate(lines if later else ()):
        kind, iri, count, *_ = line.split(" ")
        if kind == "redact" and (iri, count) in later:
            yield number


def _entered_later(store: QuadStore, lines: Sequence[str], time: datetime, now: datetime) -> Iterator[int]:
    """Yield the numbers of the lines that tell first of entries of ledgers which were made later."""
    told: dict[str, int] = {}
    for number, line in enumerate(lines):
        kind, iri, count, *_ = line.split(" ")
        if kind in LEDGER_KINDS:
            told.setdefault(f"{iri}/ledger/{count}", number)
    for graph in {entry.rpartition("/")[0] for entry in told}:
        made: dict[str, list[Quad]] = defaultdict(list)
        for quad in store.quads((None, None, None, NamedNode(graph))):
            made[term_text(quad.subject)].append(quad)
        for entry, quads in made.items():
            when = earliest_time(quads)
            if entry in told and when is not None and time < when <= now:
                first = told[entry]
                # The state of a session changes in one commit with its transition.
                changed = first and lines[first - 1].startswith(f"change {graph.rpartition('/')[0]} ")
                yield first - 1 if changed else first


def _time_of(store: QuadStore, session_id: str, *, deleted: bool) -> datetime | None:
    """Return when a session was created, or when it was deleted."""
    iri = iris.session(session_id)
    node, what = (iris.deletion(iri), vocab.ENDED_AT) if deleted else (iri, vocab.TIME)
    found = store.quads((NamedNode(node), what, None, vocab.CATALOG))
    return parse_time(str(getattr(found[0].object, "value", ""))) if found else None


def latest_time(times: Iterable[datetime | None]) -> datetime:
    """Return the latest of some times, those to come left out; the year 1 where there is none."""
    now = datetime.now(UTC)
    return max((each for each in times if each is not None and each <= now), default=datetime(1, 1, 1, tzinfo=UTC))
