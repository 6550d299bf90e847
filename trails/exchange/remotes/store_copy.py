"""Copy a whole store to another place: every quad and every line of its log, held against the source once they arrived.

What arrives is compared with what is there: lines of N-Quads, both sides sorted. So a copy that was cut short goes on, whatever
of it had arrived, and also where the source has changed since. Until all of it is there the copy says of itself that it is
not finished, and nothing opens it. A dump that is written so has the log behind its quads, as comments.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, cast

import pyoxigraph as ox

from trails.display.progress import Progress, moving
from trails.errors import IntegrityError, InvalidInput, StoreFailed
from trails.files import in_words
from trails.history import transaction
from trails.history.log_leaves import begin_session
from trails.history.reader import Reader
from trails.history.verification import verify
from trails.integrity import leaves
from trails.integrity.merkle import root_of
from trails.integrity.verifier.merkle_checks import leaf_hash
from trails.model.values import Value, VerifyReport
from trails.opening import as_location, open_to_read, store_at
from trails.rdf import vocab
from trails.rdf.derived_quads import is_derived_line
from trails.store import dumping, folders
from trails.store.contract import Change, PreconditionFailed
from trails.store.embedded import EmbeddedStore
from trails.store.index.reading import EngineReader
from trails.store.log import log_maintenance
from trails.store.log.log_maintenance import scratch
from trails.store.postgres.address import is_address, shown
from trails.store.postgres.log import PostgresLog
from trails.suggestions import checked

_BATCH: Final = 10_000
"""Quads, or lines of the log, in one commit."""
_SHOWN: Final = 3
"""How many findings an error names."""
_BEGIN: Final = b"# trails copy"
"""How a dump begins that tells at its end what it must hold; one of `trails store dump` does neither."""
_LOG: Final = b"# trails log "
_END: Final = b"# trails end "
_MARK: Final = ox.serialize([transaction.STORE_COPY], format=ox.RdfFormat.N_QUADS) or b""


_SALTS: Final = tuple(f"> {each} ".encode() for each in (vocab.LEAF_SALT, vocab.ROW_SALT))


class Copied(Value):
    """What a copy did, and what it was held against."""

    source: str
    destination: str
    quads: int
    sha256: str
    """The digest over all quads as sorted N-Quads, in hex: the same at both sides, read back from the copy."""
    log_lines: int
    log_root: str | None
    """The root of the Merkle tree over the log, in hex; None for a dump without a log."""
    written: bool
    """Whether anything was written: not where the copy was there already, whole and equal."""
    report: VerifyReport | None = None
    """What `verify` says of the copy; None for a dump."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        plain = self.model_dump(mode="json", exclude={"report"})
        return {**plain, "report": None if self.report is None else self.report.to_dict()}


@checked
def copy_store(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    progress: Progress | bool | None = None,
) -> Copied:
    """Copy a whole store to another place, and return what was copied once all of it was found there.

    Each of the two is the location of a store or a dump's file (`.nq` or `.nq.gz`), not both a dump. A store that is open
    elsewhere is copied as it is now. The copy has the same quads and the same log, so that checkpoints of the source hold for
    it. Cut short anywhere, it goes on when it is called again, and ends equal; until then the destination is refused
    wherever it is opened. A copy that is there already and equal is left alone.

    Before it is finished, the copy is read back: the digest over its quads and its log must be the source's, and `verify` must
    find nothing. `progress` is as for `Maintenance.dump`. What streams are being written is not copied.

    Raises `InvalidInput` where something else stands at the destination or the source is none, `IntegrityError` where what
    arrived is not what was read or does not verify: the copy stays unfinished then.
    """
    here, there = os.fspath(source), os.fspath(destination)
    if _is_dump(here) and _is_dump(there):
        raise InvalidInput(f"{here} and {there} are both files of dumps: copy the file")
    # lines are sorted beside the copy; for one that is no path, among temporary files
    in_database = is_address(there)
    beside = Path(tempfile.gettempdir()) / "trails-copy" if in_database else folders.absolute(as_location(there))
    with moving(progress, "copying") as move, in_words(beside, "written"):
        _refuse_within(here, there)
        with _opened(here, beside, move) as read:
            return _to_dump(read, beside, move) if _is_dump(there) else _to_store(read, there, beside, move)


def _refuse_within(here: str, there: str) -> None:
    """Raise `InvalidInput` where the place of the copy is what is copied, or lies in it."""
    is_remote = is_address(here) or is_address(there)
    source, place = Path(here).resolve(), Path(there).resolve()
    if here == there or (place == source and not is_remote):
        raise InvalidInput(f"{shown(here) if is_remote else here} is the store itself; name another place")
    if not is_remote and source.is_dir() and place.is_relative_to(source):
        raise InvalidInput(f"{there} lies in the folder of {here} itself; name a place beside it")


def is_store(place: str) -> bool:
    """Tell whether what `copy_store` is given names a store, and not the file of a dump."""
    return not _is_dump(place)


def _is_dump(place: str) -> bool:
    return not is_address(place) and (place.endswith((".nq", ".nq.gz")) or Path(place).is_file())


# --- what is read


class _Source:
    """All quads of a store or a dump as sorted lines, and its log."""

    def __init__(self, location: str, lines: dumping.SortedLines, log: list[str] | None) -> None:
        self.location = location
        self.log = log
        self._lines = lines
        self.quads, self.sha256 = _digest(self.lines())

    def lines(self) -> Iterator[bytes]:
        """Give all quads as lines, sorted."""
        return self._lines.merged()


def _digest(lines: Iterator[bytes]) -> tuple[int, str]:
    """Return how many lines there are and the digest over them."""
    found, count = hashlib.sha256(), 0
    while batch := list(islice(lines, _BATCH)):
        found.update(b"".join(batch))
        count += len(batch)
    return count, found.hexdigest()


@contextlib.contextmanager
def _opened(location: str, beside: Path, progress: Progress | None) -> Iterator[_Source]:
    with scratch(beside) as folder:
        if _is_dump(location):
            with contextlib.closing(dumping.SortedLines(Path(location), folder, 0, progress)) as lines:
                found = _from_dump(Path(location), lines)
                _refuse_altered(found)
                yield found
            return
        with open_to_read(location) as view:
            store = view.store
            if not isinstance(store, EngineReader):
                raise InvalidInput(f"{location} is no store of this process: copy it where it is kept")
            with contextlib.closing(dumping.SortedLines(beside, folder, len(store), progress)) as lines:
                store.dump(cast(IO[bytes], lines))
                yield _Source(store.location, lines, store.log.lines())


def _trailer(source: _Source) -> list[bytes]:
    """Return the comments with which a dump ends: the log, and what the dump must hold."""
    log = [f"# {line}".encode() for line in source.log or ()]
    return [_LOG + b"%d" % len(log), *log, _END + b"%d %s" % (source.quads, source.sha256.encode())]


def _from_dump(file: Path, lines: dumping.SortedLines) -> _Source:
    comments: list[bytes] = []
    try:
        with in_words(file, "read"), file.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            opened = gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw
            for line in cast(IO[bytes], opened):
                if line.startswith(b"#"):
                    comments.append(line.rstrip(b"\n"))
                elif line.strip() and not is_derived_line(line):
                    lines.write(line if line.endswith(b"\n") else line + b"\n")
        at = next((number for number, line in enumerate(comments) if line.startswith(_LOG)), len(comments))
        log = [line[2:].decode() for line in comments[at + 1 : -1]] if at < len(comments) else None
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} is no whole dump: {error}; nothing was copied") from error
    found = _Source(str(file), lines, log)
    # one of `trails store dump` has no such comments
    is_own = any(line == _BEGIN or line.startswith((_END, _LOG)) for line in comments)
    if is_own and comments[at:] != _trailer(found):
        raise InvalidInput(f"{file} is cut short or altered: it does not hold what its end says; nothing was copied")
    if not is_own and not found.quads:
        why = "it was cut short, or is a dump of an empty store, which `trails init` makes"
        raise InvalidInput(f"{file} holds nothing: {why}; nothing was copied")
    return found


def _refuse_altered(dump: _Source) -> None:
    """Raise `InvalidInput` for a dump whose log was altered: its end says nothing of that."""
    for number, wrong in leaves.check_links(dump.log or ()):
        what = f"the log in {dump.location} was altered: of its line {number}, {wrong}"
        raise InvalidInput(f"{what}. Nothing was copied; take another dump, or a backup")


# --- to a dump


def _to_dump(source: _Source, file: Path, progress: Progress | None) -> Copied:
    if file.exists():
        found = _read_back(file) if file.is_file() else None
        if found == (source.sha256, source.log):
            return _copied(source, str(file), written=False)
        raise _is_taken(str(file), None if found is None else found[1], source)
    with scratch(file) as folder:
        part, packed = folder / file.name, file.suffix == ".gz"
        begin, end = _BEGIN + b"\n", b"".join(line + b"\n" for line in _trailer(source))
        dumping.write_lines(part, source.lines(), source.quads, progress, packed=packed, begin=begin, end=end)
        if _read_back(part) != (source.sha256, source.log):
            raise _unequal_error(f"{file} was written and does not hold what was read from", source)
        dumping.publish(part, file)
    return _copied(source, str(file), written=True)


def _read_back(file: Path) -> tuple[str, list[str] | None] | None:
    """Return the digest over a dump's quads, and its log; None for what is no whole dump."""
    with scratch(file) as folder, contextlib.closing(dumping.SortedLines(file, folder, 0, None)) as lines:
        try:
            found = _from_dump(file, lines)
        except InvalidInput:
            return None
        return found.sha256, found.log


def _is_taken(place: str, log: list[str] | None, source: _Source) -> InvalidInput:
    """Return the error for a place of a copy where something else is, with the log of that where it has one."""
    now = source.log or []
    if log and len(log) < len(now) and now[: len(log)] == log:
        what = f"{place} is an earlier copy of {source.location}, with {len(log)} of now {len(now)} lines of its log"
        return InvalidInput(f"{what}; remove it and copy again, or name another place")
    return InvalidInput(f"{place} is there already, and no copy of {source.location}; name a place where nothing is")


# --- to a store


def _to_store(source: _Source, location: str, beside: Path, progress: Progress | None) -> Copied:
    with contextlib.closing(_begun(location, beside)) as target:
        if not transaction.is_half_copied(target):
            if len(target):
                return _is_there(source, target, beside)
            target.commit(Change(add=[transaction.STORE_COPY]))
        arriving = _Arriving(target)
        _fill(source, arriving, beside, progress)
        report = _checked(source, arriving, beside, progress)
        arriving.commit(Change(remove=[transaction.STORE_COPY]))
        target.flush()
        return _copied(source, target.location, written=True).model_copy(update={"report": report})


class _Arriving:
    """The store that a copy fills, as long as nobody else writes to it: of two copies into one store, one ends."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.number = store.number
        """Up to where its log is known here."""

    def commit(self, change: Change) -> None:
        """Commit a change where nobody has committed since; raise `StoreFailed`, and commit nothing, where somebody has."""
        try:
            done = self.store.commit(replace(change, read=None, as_of=self.number))
            is_alone = done.number == self.number + done.written
        except PreconditionFailed:
            is_alone = False
        if not is_alone:
            what = f"another process writes to {self.store.location} while it is copied to"
            raise StoreFailed(f"{what}. Wait until it has ended, and copy again: what has arrived stays")
        self.number = done.number

    def begin_log(self) -> None:
        """Log what the store holds, where what was copied had no log."""
        begin_session(self.store)
        self.number = self.store.number


def _begun(location: str, place: Path) -> EmbeddedStore:
    """Return the store that a copy goes to; a new folder appears with the mark of a copy that is not finished."""
    if is_address(location):
        return store_at(location, create=True)
    if not folders.is_store(place):
        with log_maintenance.staged(place) as part, contextlib.closing(store_at(part, create=True)) as new:
            new.commit(Change(add=[transaction.STORE_COPY]))
    return store_at(place)


def _is_there(source: _Source, target: EmbeddedStore, beside: Path) -> Copied:
    """Return that a copy is there already; raise `InvalidInput` where what is there is something else."""
    log = target.log.lines()
    if source.log is not None and log != source.log:
        raise _is_taken(target.location, log, source)
    with _lines_of(target, beside) as lines:
        if _digest(lines()) != (source.quads, source.sha256):
            raise _is_taken(target.location, None, source)
    return _copied(source, target.location, written=False).model_copy(update={"report": _verified(target, None)})


def _fill(source: _Source, arriving: _Arriving, beside: Path, progress: Progress | None) -> None:
    """Make a store hold a source's quads and log; what had arrived of them stays."""
    target = arriving.store
    known = target.log.lines()
    wanted = source.log or []
    if source.log is None and known:
        return  # all had arrived: the log is begun after that
    if wanted[: len(known)] != known:
        what = f"{target.location} is half of a copy of another store than {source.location}, or of a later state of it"
        raise InvalidInput(f"{what}; remove it, and copy again")
    with _lines_of(target, beside) as lines:
        removed = _reconcile(source, lines(), arriving, progress)
    for start in range(len(known), len(wanted), _BATCH):
        made = [leaves.parse_leaf(line)[0] for line in wanted[start : start + _BATCH]]
        arriving.commit(Change(leaves=made))
    if removed:  # what had been redacted or deleted at the source since must be in no file here
        target.vacuum()
        arriving.number = target.number


def _reconcile(source: _Source, there: Iterator[bytes], arriving: _Arriving, progress: Progress | None) -> int:
    """Add what a store lacks of a source's lines and remove what it has beside; return how many were removed."""
    removed = done = 0
    differing = _differing(source.lines(), there)
    while batch := list(islice(differing, _BATCH)):
        gone = [line for is_new, line in batch if not is_new]
        new = [line for is_new, line in batch if is_new]
        arriving.commit(Change(add=_quads(new, source), remove=_quads(gone, source)))
        removed += len(gone)
        done += len(new)
        if progress:
            progress(done, source.quads, "copying")
    return removed


def _differing(mine: Iterator[bytes], theirs: Iterator[bytes]) -> Iterator[tuple[bool, bytes]]:
    """Give the lines that stand in only one of two sorted runs, with whether that is the first.

    >>> list(_differing(iter([b"a", b"c"]), iter([b"b", b"c", b"d"])))
    [(True, b'a'), (False, b'b'), (False, b'd')]
    """
    here, there = next(mine, None), next(theirs, None)
    while here is not None or there is not None:
        if there is None or (here is not None and here < there):
            yield True, cast(bytes, here)
            here = next(mine, None)
        elif here is None or there < here:
            yield False, there
            there = next(theirs, None)
        else:
            here, there = next(mine, None), next(theirs, None)


def _quads(lines: Sequence[bytes], source: _Source) -> list[ox.Quad]:
    try:
        return list(ox.parse(b"".join(lines), format=ox.RdfFormat.N_QUADS))
    except (SyntaxError, ValueError) as error:
        raise InvalidInput(f"{source.location} holds a line that is no N-Quads: {error}") from error
    except MemoryError as error:
        what = f"{source.location} holds a line that is too long for the parser: {error}"
        raise InvalidInput(f"{what}. `trails store backup` copies such a store") from error


@contextlib.contextmanager
def _lines_of(target: EmbeddedStore, beside: Path) -> Iterator[Callable[[], Iterator[bytes]]]:
    """Give what returns all lines of a store, sorted, but for its mark."""
    with (
        scratch(beside) as folder,
        contextlib.closing(dumping.SortedLines(beside, folder, len(target), None)) as lines,
    ):
        target.dump(cast(IO[bytes], lines))
        yield lambda: (line for line in lines.merged() if line != _MARK)


def _checked(source: _Source, arriving: _Arriving, beside: Path, progress: Progress | None) -> VerifyReport:
    """Hold what arrived against the source, then against its own digests and log; raise `IntegrityError` where it differs."""
    target = arriving.store
    with _lines_of(target, beside) as lines:
        if any(
            source.log is not None or is_new or not any(each in line for each in _SALTS)
            for is_new, line in _differing(source.lines(), lines())
        ):
            raise _unequal_error(f"{target.location} does not hold what was read from", source)
    if source.log is not None and target.log.lines() != source.log:
        raise _unequal_error(f"the log of {target.location} is not that of", source)
    if source.log is None:
        arriving.begin_log()
    report = _verified(target, progress)
    if not report.ok:
        shown = "; ".join(finding.message for finding in report.findings[:_SHOWN])
        what = f"the copy of {source.location} at {target.location} is exact, and does not verify"
        how = "Verify the source (`trails verify`); `trails store backup` copies a damaged store too"
        raise IntegrityError(f"{what} ({len(report.findings)} findings: {shown}); it stays unfinished. {how}")
    return report


def _unequal_error(what: str, source: _Source) -> IntegrityError:
    return IntegrityError(f"{what} {source.location}; remove the copy, and copy again")


def _verified(target: EmbeddedStore, progress: Progress | None) -> VerifyReport:
    with transaction.believed_marks(target, transaction.work_marks(target)):
        return verify.verify(target, Reader(target), None, progress)


def _copied(source: _Source, place: str, *, written: bool) -> Copied:
    return Copied(
        source=source.location,
        destination=place,
        quads=source.quads,
        sha256=source.sha256,
        log_lines=len(source.log or ()),
        log_root=None if source.log is None else root_of(leaf_hash(line.encode()) for line in source.log).hex(),
        written=written,
    )


class DiscardedCopy(Value):
    """What was taken out of a database."""

    location: str
    commits: int
    """How many commits its log had."""


def discard_copy(location: str | os.PathLike[str]) -> DiscardedCopy:
    """Remove a copy in PostgreSQL that was not finished, and all that its database holds of it; return what it was.

    A store of which the copy was finished, or that was made otherwise, is never removed: only one that is marked as the half of
    a copy, or in which nothing was ever committed. Where a process has it open, as a copy that goes on has, nothing is removed
    either.

    Raises `InvalidInput` where there is no such store, or it is a whole one, or in a folder, which is deleted as any other;
    `StoreFailed` where another process has it open or writes to it meanwhile, or the user of the database may not delete.
    """
    place = os.fspath(location)
    if not is_address(place):
        raise InvalidInput(f"{place} is in no database; delete an unfinished copy in a folder, or a dump, as any other")
    with contextlib.closing(store_at(place)) as store:
        if store.number and not transaction.is_half_copied(store):
            raise InvalidInput(f"{store.location} is a whole store, not an unfinished copy; nothing was removed")
        assert isinstance(store.commits, PostgresLog)  # noqa: S101 - of that address
        if not store.commits.remove_store(store):
            raise StoreFailed(f"a copy into {store.location} still goes on; nothing was removed. End that first")
        return DiscardedCopy(location=store.location, commits=store.number)
