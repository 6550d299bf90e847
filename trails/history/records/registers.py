"""Keep and verify the entries of a store's registers: each is logged by a line of its own, and never goes.

An entry belongs to no session, also where it names one: it stays when that is deleted, and no export of a session has it.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput
from trails.history.records.record_kind import Checks, Evidence, RecordKind, about
from trails.history.records.text_matcher import Erasure
from trails.history.transaction import Transaction, Wording
from trails.integrity import digests, leaves
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Finding, SessionRecord
from trails.rdf import vocab
from trails.rdf.codec import parse_time, subject_of, term_text
from trails.rdf.register_records import REGISTER_TYPES, RegisterEntry, entry_of, entry_quads, type_of
from trails.store.contract import Matching, QuadStore

_Entry = TypeVar("_Entry", bound=RegisterEntry)


def new_token() -> str:
    """Return what tells a new entry from all others."""
    return secrets.token_hex(8)


def keep_entries(
    store: QuadStore,
    reader: Wording | None,
    entries: Sequence[RegisterEntry],
    sessions: Iterable[str] = (),
    refusal: str = "",
) -> None:
    """Write entries, all in one commit, while some sessions are there.

    Raises `InvalidInput` with the text of `refusal` where an entry is there already, and `SessionNotFound` for a session
    that is not.
    """
    tx = Transaction(reader)
    for session_id in sessions:
        tx.session(session_id)
    for entry in entries:
        quads = entry_quads(entry)
        tx.new(quads, lambda _: InvalidInput(refusal))
        tx.log_leaves([_leaf(entry.iri, quads)])
    tx.commit(store)


@decodes
def read_entries(store: Matching, kept: type[_Entry]) -> list[_Entry]:
    """Return the entries of one register, oldest first."""
    typed = store.quads((None, vocab.TYPE, type_of(kept), vocab.CATALOG))
    found = [entry_of(subject_of(quad), about(store, subject_of(quad))) for quad in typed]
    return sorted((each for each in found if isinstance(each, kept)), key=lambda each: (each.time, each.token))


def find_entry(store: Matching, kept: type[_Entry], token: str, what: str) -> _Entry:
    """Return an entry by its token, or the beginning of it that only one has; raise `InvalidInput` where there is none."""
    found = [each for each in read_entries(store, kept) if token and each.token.startswith(token)]
    if len(found) != 1:
        raise InvalidInput(
            f"there is no {what} {token!r}"
            if not found
            else f"{len(found)} {what}s begin with {token!r}; give more of it"
        )
    return found[0]


# --- the log


def _subjects(store: Matching) -> list[str]:
    return sorted(
        subject_of(quad) for each in REGISTER_TYPES for quad in store.quads((None, vocab.TYPE, each, vocab.CATALOG))
    )


def _leaf(iri: str, quads: Iterable[Quad]) -> Leaf:
    own = [quad for quad in quads if subject_of(quad) == iri]
    return Leaf("register", iri, 0, leaves.row_digest(own))


def _all_leaves(store: Matching) -> list[Leaf]:
    return [_leaf(iri, about(store, iri)) for iri in _subjects(store)]


def _checks(evidence: Evidence) -> Checks:
    def found(_: Mapping[str, SessionRecord], every: bool) -> Iterator[Finding]:
        for code, what in _findings(evidence) if every else ():
            yield Finding(code=code, message=what)

    return Checks(store=found)


def _findings(evidence: Evidence) -> Iterator[tuple[str, str]]:
    logged: dict[str, str] = {}
    times = Counter[str]()
    for line in evidence.lines:
        fields = line.split(" ") if line.startswith("register ") else ()
        if len(fields) == 5:
            logged[fields[1]] = fields[3]
            times[fields[1]] += 1
    subjects = _subjects(evidence.store)
    for iri in subjects:
        quads = about(evidence.store, iri)
        what = f"the entry {iri.removeprefix(iris.register_entry(''))} of a register"
        if iri not in logged:
            yield "unlogged", f"{what} is in the store and not in its log"
        elif logged[iri] != leaves.row_digest(quads):
            yield "row-altered", f"{what} is not as it was logged"
        if times[iri] > 1 and not any(_is_taken_out(term_text(quad.object)) for quad in quads):
            yield "logged-twice", f"{what} was logged again, and nothing was redacted in it"
    for iri in logged.keys() - set(subjects):
        yield (
            "rolled-back",
            f"the entry {iri.removeprefix(iris.register_entry(''))} of a register was logged and is gone",
        )


def _is_taken_out(text: str) -> bool:
    return text == iris.UNNAMED or iris.is_unnamed(text)


def _as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    return [quad for quad in entry_quads(entry_of(subject, quads)) if subject_of(quad) == subject]


# --- taking texts out


_GOES_BY: Final = frozenset({vocab.OF_PRINCIPAL, vocab.OF_LABEL, vocab.OF_META, vocab.OF_QUERY, vocab.OF_KIND})
"""What says which sessions a hold or a rule is about."""


def _stands(taking: Erasure, subject: str) -> bool:
    """Tell whether nobody lifted a hold, or ended a rule, and its time is not over."""
    until = [parse_time(term_text(quad.object)) for quad in taking.about[subject] if quad.predicate == vocab.HELD_UNTIL]
    return f"{subject}/closing" not in taking.about and all(each > datetime.now(UTC) for each in until)


def _purge(taking: Erasure, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
    """Take a text out of an entry: it gets other random bits, and is logged again.

    What a hold or a rule goes by stays while it stands: without that, it would keep or delete other sessions than it says.
    """
    stays = {quad for quad in hits if quad.predicate in _GOES_BY} if _stands(taking, subject) else set()
    if stays:
        why = "a hold or a rule that stands goes by it: lift the hold or end the rule first"
        taking.leave(None, "register", subject, why)
    if stays.issuperset(hits):
        return
    rest = taking.without(quad for quad in before if quad not in stays)
    after = [*stays, *(quad for quad in rest if quad.predicate != vocab.LEAF_SALT)]
    after.append(Quad(NamedNode(subject), vocab.LEAF_SALT, Literal(digests.new_salt()), vocab.CATALOG))
    taking.place(None, "register", subject)
    taking.found.swap(before, after)
    taking.found.leaves.append(_leaf(subject, after))


REGISTERS: Final = RecordKind(
    name="registers",
    types=REGISTER_TYPES,
    leaves=_all_leaves,
    as_written=_as_written,
    own_leaf=lambda quad: quad.object in REGISTER_TYPES,
    checks=_checks,
    purges_all=True,
    purge=_purge,
)
