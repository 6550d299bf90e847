"""What was done to sessions, in the catalog: with the session that it was done to, wherever that goes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from pyoxigraph import NamedNode, Quad

from trails.errors import IntegrityError
from trails.history.records.record_kind import (
    Checks,
    Evidence,
    Leaving,
    RecordKind,
    about,
    new_of,
    unknown_of,
    with_authors,
)
from trails.history.records.text_matcher import Erasure
from trails.model import iris
from trails.model.validation import decodes
from trails.model.values import Finding, SessionRecord
from trails.rdf import vocab
from trails.rdf.activity_records import (
    ACTIVITY_TYPES,
    EXACT,
    Activity,
    Alteration,
    Deed,
    Rerunning,
    activity_of,
    activity_quads,
    file_of,
    file_quads,
)
from trails.rdf.codec import subject_of
from trails.store.contract import Matching, QuadStore

_PLAIN: Final = re.compile(r"true|false|-?[0-9.]+(?:[eE][-+]?[0-9]+)?")
_TYPES: Final = ACTIVITY_TYPES | {vocab.SOURCE_FILE}


def read_activities(store: Matching, session_id: str) -> list[Activity]:
    """Return what was done to a session, oldest first."""
    node = NamedNode(iris.session(session_id))
    found = [activity_of(subject_of(quad), about(store, subject_of(quad))) for quad in _done_to(store, node)]
    return sorted(found, key=lambda act: (act.time, act.token))


def altered_sessions(
    session_id: str, deed: Deed, field: str, old: str | None, new: str | None, *, with_texts: bool = True
) -> list[Quad]:
    """Return the quads that say that something became something else; none where it stayed as it was.

    Without texts, only JSON numbers and truth values are repeated: a text may be a message's, which may be taken out there.
    """
    if old == new:
        return []
    if not with_texts:
        old, new = (each if each is not None and _PLAIN.fullmatch(each) else None for each in (old, new))
    made = {"token": secrets.token_hex(8), "by_iri": deed.by_iri, "time": deed.time}
    return activity_quads(Alteration(session_id=session_id, field=field, old=old, new=new, **made))  # type: ignore[arg-type] # each of its own type


def _done_to(store: Matching, node: NamedNode) -> list[Quad]:
    return store.quads((None, vocab.DONE_TO, node, vocab.CATALOG))


def _acts_of(store: Matching, node: NamedNode) -> list[Quad]:
    return [each for quad in _done_to(store, node) for each in about(store, subject_of(quad))]


def _logged(store: Matching, node: NamedNode, _: Sequence[Quad] = ()) -> list[Quad]:
    """Return what was done to a session, and what is said of the files that it came from."""
    return _with_files(store, _acts_of(store, node))


def _is_of_this_store(quad: Quad) -> bool:
    """Tell whether a quad says that an act is no part of the session, but of what this store did with it."""
    if quad.predicate == vocab.IMPORTER:
        return str(getattr(quad.object, "value", "")) in EXACT
    return quad.object == vocab.READING


def _with_files(store: Matching, acts: list[Quad]) -> list[Quad]:
    return [*acts, *(said for file in files_in(acts) for said in store.quads((file, None, None, vocab.CATALOG)))]


def files_in(quads: Iterable[Quad]) -> list[NamedNode]:
    """Return the files that acts among some quads used."""
    used = (quad.object for quad in quads if quad.predicate == vocab.USED)
    return [each for each in dict.fromkeys(used) if isinstance(each, NamedNode) and iris.file_digest(each.value)]


def _as_written(subject: str, quads: Sequence[Quad]) -> list[Quad]:
    node = NamedNode(subject)
    if iris.file_digest(subject) is not None:
        return file_quads(file_of(subject, quads))
    return [quad for quad in activity_quads(activity_of(subject, quads)) if quad.subject == node]


@decodes
def _exported(store: QuadStore, node: NamedNode) -> list[Quad]:
    acts = _acts_of(store, node)
    here = {quad.subject for quad in acts if _is_of_this_store(quad)}
    quads = _with_files(store, [quad for quad in acts if quad.subject not in here])
    return with_authors(quads, vocab.ASSOCIATED_WITH)


def _leaving(store: QuadStore, doomed: Collection[str], _: set[str]) -> Leaving:
    quads = [q for each in doomed for q in _acts_of(store, NamedNode(iris.session(each)))]
    return Leaving(remove=quads, unless_used=files_in(quads))


_arriving: Final = unknown_of(_TYPES)


def _purge(taking: Erasure, subject: str, before: Sequence[Quad], _: Sequence[Quad]) -> None:
    """Take a text out of the name of a file: it is logged with the rows of all sessions that came from it."""
    taking.found.swap(before, taking.without(before))
    for session_id in sorted(_sessions_from(taking, subject)):
        taking.place(session_id, "file name", subject)
        taking.found.note(session_id, subject)
        taking.found.rows.add(session_id)


def _sessions_from(taking: Erasure, subject: str) -> set[str]:
    node = NamedNode(subject)
    acts = (
        quads for quads in taking.about.values() if any(q.predicate == vocab.USED and q.object == node for q in quads)
    )
    return {
        iris.session_id(subject_of(quads[0]))
        for quads in acts
        if iris.is_session(subject_of(quads[0]).partition("/")[0])
    }


def _checks(evidence: Evidence) -> Checks:
    return Checks(store=lambda records, _: _false_reruns(evidence.store, records))


def _false_reruns(store: Matching, records: Mapping[str, SessionRecord]) -> Iterable[Finding]:
    """Yield a finding for each rerun that does not say what its fork says: how much of the record that shares."""
    for quad in store.quads((None, vocab.TYPE, vocab.RERUNNING, vocab.CATALOG)):
        try:
            act = activity_of(subject_of(quad), about(store, subject_of(quad)))
        except IntegrityError:
            continue  # what cannot be read is told of every act
        fork = records.get(act.session_id)
        if not isinstance(act, Rerunning) or fork is None:
            continue
        is_fork_of_it = (fork.parent_session_id,) == act.used  # a detached one has no parent any more
        if act.left_at not in (None, act.agreed) or (is_fork_of_it and fork.forked_at_index != act.agreed):
            yield Finding(
                code="false-rerun",
                message=f"the rerun that session {act.session_id!r} came of says that {act.agreed} turns agreed and that the "
                f"record was left at {act.left_at}, and the session forks off at {fork.forked_at_index}: the store was altered",
                session_id=act.session_id,
                index=act.agreed,
            )


ACTS: Final = RecordKind(
    name="acts",
    types=_TYPES,
    links=frozenset({vocab.DONE_TO}),
    logged=_logged,
    as_written=_as_written,
    checks=_checks,
    leaving=_leaving,
    purges=lambda subject: iris.file_digest(subject) is not None,
    purge=_purge,
    exported=_exported,
    arriving=_arriving,
    growing=new_of(_TYPES, _arriving, _exported),
    places={
        vocab.OLD_VALUE: "old value",
        vocab.NEW_VALUE: "new value",
        vocab.ALTERED_FIELD: "field",
        vocab.FILE_NAME: "file name",
    },
)
