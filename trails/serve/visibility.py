"""Who may see what of a store: to which sessions each thing in the catalogue belongs, and who may see these.

A principal sees the sessions that run for them and all of whose ancestors do. Of the catalogue they see what belongs to
such sessions alone, and of that nothing that names another session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyoxigraph import NamedNode, Quad

from trails.history import record_registry
from trails.model import iris
from trails.rdf import vocab
from trails.rdf.codec import term_text
from trails.rdf.session_records import DEFAULT_PRINCIPAL

_LINKS: Final = frozenset(link for kind in record_registry.KINDS for link in kind.links) | {vocab.MOVED_TO}
"""The properties by which a record names its session, or another record that does."""
_MARKS: Final = frozenset({vocab.UNFINISHED_COPY, *vocab.PENDING})
_BESIDE: Final = {
    vocab.QUOTED_DIGEST: vocab.QUOTED_FROM,
    vocab.RESULT_DIGEST: vocab.DERIVED_FROM,
    vocab.WAS_FORKED_AT: vocab.WAS_FORK_OF,
}
"""What is said of a session or a turn beside its name, and the property that names it: one goes where the other goes."""
_ANYBODY: Final = frozenset({iris.principal(DEFAULT_PRINCIPAL)})
_SESSION: Final = iris.session("")
_BESIDE_SESSIONS: Final = (iris.principal, iris.agent, iris.source_file, iris.payload, iris.document)
_REFERENTS: Final = (*(make("") for make in _BESIDE_SESSIONS), "urn:trails:tool:")
"""How the names of things begin that belong to no session, and are seen by whoever sees what refers to them."""


class _Row(NamedTuple):
    """Of a session: whom it runs for, and what it is a fork of."""

    principals: frozenset[str]
    parents: frozenset[str]


@dataclass(slots=True)
class Catalogue:
    """The subjects of a store's catalogue: to which sessions each belongs."""

    rows: dict[str, _Row] = field(default_factory=dict)
    """The sessions, by IRI."""
    by_principal: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    links: dict[str, frozenset[str]] = field(default_factory=dict)
    """By subject, what it names by a property that says to what it belongs."""
    linked: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By what is so named, the subjects; by session, also those that are named under it."""
    refs: dict[str, str] = field(default_factory=dict)
    """By the name that the log has for a ref, the ref."""

    @classmethod
    def of(cls, quads: Iterable[Quad]) -> Catalogue:
        """Return what the quads of a catalogue say."""
        made, subjects = cls(), defaultdict[str, list[Quad]](list)
        for quad in quads:
            subjects[term_text(quad.subject)].append(quad)
        for subject, told in subjects.items():
            made.note(subject, told)
        return made

    def note(self, subject: str, quads: Sequence[Quad]) -> bool:
        """Take in what is said of a subject now; return False if what others may see of other sessions may have changed."""
        home = home_of(subject)
        named = frozenset(term_text(quad.object) for quad in quads if quad.predicate in _LINKS)
        for before in self.links.pop(subject, frozenset()) - named:
            self.linked[before].discard(subject)
        is_known = subject in self.linked or subject in self.rows
        if named:
            self.links[subject] = named
        for each in named | ({home} if home else frozenset()):
            self.linked[each].add(subject)
        for quad in quads:
            if quad.predicate == vocab.REF_ID:
                self.refs[iris.ref_log(term_text(quad.object))] = subject
        return home != subject or self._note_row(subject, quads, is_known=is_known)

    def _note_row(self, session: str, quads: Sequence[Quad], *, is_known: bool) -> bool:
        is_there = any(quad.predicate == vocab.TYPE and quad.object == vocab.SESSION for quad in quads)
        row = _Row(_named(quads, vocab.ATTRIBUTED_TO) or _ANYBODY, _named(quads, vocab.PARENT_SESSION))
        before = self.rows.pop(session, None)
        for principal in before.principals if before else ():
            self.by_principal[principal].discard(session)
        if is_there:
            self.rows[session] = row
            for principal in row.principals:
                self.by_principal[principal].add(session)
        return (row if is_there else None) == before or (before is None and not is_known)

    def subjects(self, session: str) -> set[str]:
        """Return the subjects that may belong to a session, also by way of others."""
        found: set[str] = set()
        left = [session]
        while left:
            more = self.linked.get(left.pop(), set()) - found
            found |= more
            left += [each for each in more if home_of(each) is None]
        return found

    def owners(self, subject: str) -> set[str]:
        """Return the IRIs of the sessions that a subject belongs to: of a ref, of all that it ever stood for."""
        home = home_of(subject)
        if home is not None:
            return {home}
        found, seen, left = set[str](), {subject}, [subject]
        while left:
            each = left.pop()
            named = set(self.links.get(each, ()))
            if iris.tag_name(each) is not None:
                named |= {move for move in self.linked.get(each, ()) if iris.moved_ref(move)}
            found |= {one for one in named if iris.is_session(one)}
            left += [one for one in named - seen if not iris.is_session(one)]
            seen |= named
        return found

    def visible(self, principal: str) -> set[str]:
        """Return the IRIs of the sessions that a principal may see, by the principal's name."""
        iri = iris.principal(principal)
        if iris.is_unnamed(iri):
            return set()  # whose these were is not known any more
        theirs = {each for each in self.by_principal.get(iri, ()) if self.rows[each].principals == {iri}}
        return {each for each in theirs if self._is_within(each, theirs)}

    def sees(self, principal: str, session: str) -> bool:
        """Tell whether a principal may see a session, by its IRI."""
        theirs = self.by_principal.get(iris.principal(principal), set())
        own = {each for each in (session, *self._ancestors(session)) if each in self.rows}
        is_own = all(self.rows[each].principals == {iris.principal(principal)} for each in own)
        return session in theirs and is_own and self._is_within(session, theirs) and principal != iris.UNNAMED

    def _is_within(self, session: str, theirs: Collection[str]) -> bool:
        return all(each in theirs for each in self._ancestors(session))

    def _ancestors(self, session: str) -> set[str]:
        found, left = set[str](), [session]
        while left:
            row = self.rows.get(left.pop())
            more = set(row.parents) - found if row else set()
            found |= more
            left += more
        return found

    def owner_of_line(self, line: str) -> set[str]:
        """Return the IRIs of the sessions of which a line of the log tells; none where it tells of none."""
        iri = line.split(" ", 2)[1]
        home = home_of(iri)
        if home is not None:
            return {home}
        return self.owners(self.refs[iri]) if iri in self.refs else set()


def _named(quads: Iterable[Quad], predicate: NamedNode) -> frozenset[str]:
    return frozenset(term_text(quad.object) for quad in quads if quad.predicate == predicate)


def home_of(iri: str) -> str | None:
    """Return the IRI of the session under which something is named; None where it is under none.

    >>> home_of("urn:trails:session:a/act/00ff"), home_of("urn:trails:agent:a")
    ('urn:trails:session:a', None)
    """
    return iri.partition("/")[0] if iri.startswith(_SESSION) else None


def shown(quads: Iterable[Quad], visible: Collection[str]) -> list[Quad]:
    """Return the quads that name no session but visible ones, nor say anything of what goes with such a name."""
    every = list(quads)
    hidden = {(quad.subject, quad.predicate) for quad in every if _names_another(quad, visible)}
    return [
        quad
        for quad in every
        if not _names_another(quad, visible)
        and (quad.subject, _BESIDE.get(quad.predicate)) not in hidden
        and quad.predicate not in _MARKS
        and quad.object not in _MARKS
    ]


def _names_another(quad: Quad, visible: Collection[str]) -> bool:
    is_name = (
        isinstance(quad.object, NamedNode) or quad.predicate == vocab.SLOT
    )  # whose text begins with a session's IRI
    home = home_of(term_text(quad.object)) if is_name else None
    return home is not None and home not in visible


def referents(quads: Iterable[Quad]) -> Iterator[str]:
    """Yield what quads refer to that belongs to no session: people, programs, tools, files, payloads and documents."""
    for quad in quads:
        if isinstance(quad.object, NamedNode) and quad.object.value.startswith(_REFERENTS):
            yield quad.object.value
