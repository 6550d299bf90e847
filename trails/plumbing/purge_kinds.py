"""How each kind of thing is changed when a text is taken out of it, so that everything else still verifies.

The content of a turn, call arguments, metadata and requests go as `redact` takes them: their digests stay, and the turn's
own digest proves the rest. An author, a role and other facts enter that digest in clear, so it cannot be made again
without them: what the turn is now has a digest of its own, which the redaction carries. Texts of ledgers, runs, notes and
system prompts leave their salted digests. Rows of the catalog are logged again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.errors import IntegrityError
from trails.integrity import chain, digests
from trails.integrity.leaves import Leaf
from trails.model import Value
from trails.plumbing import entries as ledgerbook
from trails.plumbing import leaves as logbook
from trails.plumbing import redaction, redaction_records
from trails.plumbing.needle import Needle
from trails.plumbing.substitution import Substitution, name_of
from trails.records import entries
from trails.records import run as runentry
from trails.records import turns as mapping
from trails.store.contract import QuadStore

_GONE: Final = Literal("", datatype=vocab.REDACTED)
_OF_TURN: Final = {
    vocab.VALUE: "content",
    vocab.ARGUMENTS: "call arguments",
    vocab.META: "turn metadata",
    vocab.REQUEST: "summary request",
    vocab.ROLE: "role",
    vocab.ATTRIBUTED_TO: "author",
    vocab.ASSOCIATED_WITH: "author",
    vocab.SOURCE_ID: "source id",
    vocab.MODEL: "model",
    vocab.STOP_REASON: "stop reason",
    vocab.USAGE: "usage",
    vocab.CALL_ID: "call id",
    vocab.TOOL_NAME: "tool name",
    vocab.TRIGGER: "trigger",
}
_SALTED: Final = frozenset({vocab.VALUE, vocab.ARGUMENTS, vocab.META, vocab.REQUEST})
_OWN: Final = frozenset({vocab.ROLE, vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH})
"""What a turn's digest covers itself, and not among its facts."""
_SAID: Final = frozenset({vocab.VALUE, vocab.ERROR})
_COUNTED: Final = frozenset(
    {vocab.INPUT_TOKENS, vocab.OUTPUT_TOKENS, vocab.CACHE_READ_TOKENS, vocab.CACHE_WRITE_TOKENS, vocab.TOTAL_TOKENS}
    | {vocab.COST}
)
"""What is stored of a model call's usage beside its JSON text."""
_OF_ROW: Final = {
    vocab.LABEL: "label",
    vocab.FORMER_LABEL: "label",
    vocab.ATTRIBUTED_TO: "name",
    vocab.ASSOCIATED_WITH: "name",
    vocab.SESSION_AGENT: "name",
    vocab.SOURCE_SESSION: "source session",
    vocab.REASON: "reason",
    vocab.TAG_NAME: "tag",
    vocab.REMOVED_TAG: "tag",
    vocab.KEY: "key",
    vocab.ALIAS_KEY: "key",
    vocab.REMOVED_ALIAS: "key",
    vocab.FROM_KEY: "key",
    vocab.TO_KEY: "key",
    vocab.SPECIALIZATION_OF: "key",
    vocab.CURRENT_SESSION: "key",
    vocab.ALIAS_OF: "key",
    vocab.ALIAS_WAS_OF: "key",
    vocab.RUN_LABEL: "label",
}
_ID_KINDS: Final = {"session id": "ids of sessions are in the log, which nothing is taken out of: delete the session, or "
    "import its turns under another id", "run id": "ids of runs, and keys of runs without a session, are in the log, which "
    "nothing is taken out of"}  # fmt: skip
NOT_OF_TURNS: Final = frozenset(
    {*_OF_ROW.values(), "metadata", "system prompt", "note", "entry field", "ledger text", "ledger field", "run", "row"}
)
"""The kinds of places beside those of turns."""


class Place(Value):
    """One place where a text stands: of which session, what kind of place, at which index, in what."""

    session_id: str | None = None
    kind: str
    """`content`, `call arguments`, `author`, `note`, `ledger text`, and so on."""
    index: int | None = None
    """The turn's index, or the number of the ledger's entry; None elsewhere."""
    iri: str
    """What holds it, as it is called until the text is taken out."""
    why: str | None = None
    """Why it cannot be taken out there; None where it can."""


class ChangedTurn(NamedTuple):
    """A turn out of which something is taken."""

    iri: str
    digest: str
    kinds: tuple[str, ...]
    stands_as: str | None


@dataclass(slots=True)
class Changed:
    """What is to be done to take a text out, and where it stands."""

    places: dict[Place, None] = field(default_factory=dict)
    left: dict[Place, None] = field(default_factory=dict)
    remove: list[Quad] = field(default_factory=list)
    add: list[Quad] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    rows: set[str] = field(default_factory=set)
    """The sessions whose rows are logged again."""
    tombstones: set[str] = field(default_factory=set)
    """The same of those that were deleted."""
    turns: list[ChangedTurn] = field(default_factory=list)
    parts: dict[str, dict[str, None]] = field(default_factory=dict)
    """By session, the IRIs (as they are then) of all else that is changed."""

    def swap(self, before: Iterable[Quad], after: Iterable[Quad]) -> None:
        """Put quads in the place of others; what is in both stays."""
        old, new = dict.fromkeys(before), dict.fromkeys(after)
        self.remove += [quad for quad in old if quad not in new]
        self.add += [quad for quad in new if quad not in old]

    def note(self, session_id: str, part: str) -> None:
        """Remember what the record of a session's redaction is to name."""
        self.parts.setdefault(session_id, {})[part] = None


class Taking:
    """Going through a store and working out how a text is taken out of all that holds it."""

    def __init__(self, store: QuadStore, needle: Needle, substitution: Substitution, found: Changed) -> None:
        self._store = store
        self._needle = needle
        self._new = substitution
        self._found = found
        self._stands = redaction_records.standing(store)
        self._about: dict[str, list[Quad]] = {}

    # --- what cannot go

    def _check_ids(self, terms: Iterable[object]) -> None:
        for term in terms:
            if isinstance(term, NamedNode) and term.value.startswith(_SESSIONS):
                self._check_id(term.value)

    def _check_id(self, name: str) -> None:
        session_id = iris.session_id(name)
        if self._needle.within(session_id):
            self._leave(session_id, "session id", iris.session(session_id), _ID_KINDS["session id"])
        run = iris.run_id(iris.removed_run(name) or name)
        if run is not None and self._needle.within(run):
            self._leave(session_id, "run id", name, _ID_KINDS["run id"])

    def _leave(self, session_id: str, kind: str, iri: str, why: str, index: int | None = None) -> None:
        self._found.left[Place(session_id=session_id, kind=kind, iri=iri, index=index, why=why)] = None

    def _place(self, session_id: str | None, kind: str, iri: str, index: int | None = None) -> None:
        self._found.places[Place(session_id=session_id, kind=kind, iri=iri, index=index)] = None

    # --- graphs

    def graph(self, graph: NamedNode, quads: Sequence[Quad]) -> None:
        """Go through a graph: of a session's turns, of its ledger, or of its entry."""
        self._check_ids([graph, *dict.fromkeys(o for q in quads if isinstance(o := q.object, NamedNode))])
        hits = [quad for quad in quads if self._new.holds_value(quad)]  # no subject of a graph is named by somebody
        if not hits:
            return
        if iris.is_ledger(graph.value):
            self._ledger(graph, quads, hits)
        elif iris.is_session_entry(graph.value):
            self._entry(graph, quads, hits)
        else:
            self._turns(graph, quads, hits)

    # --- turns

    def _turns(self, graph: NamedNode, quads: Sequence[Quad], hits: Iterable[Quad]) -> None:
        by_turn: dict[str, list[Quad]] = defaultdict(list)
        digest_at: dict[int, str] = {}
        for quad in quads:
            by_turn[iris.turn_of(_value(quad.subject))].append(quad)
            if quad.predicate == vocab.DIGEST:
                digest_at[iris.turn_index(_value(quad.subject))] = _value(quad.object)
        held: dict[str, list[Quad]] = defaultdict(list)
        for quad in hits:
            held[iris.turn_of(_value(quad.subject))].append(quad)
        for turn, mine in held.items():
            self._turn(graph, turn, by_turn[turn], mine, digest_at)

    def _turn(
        self, graph: NamedNode, turn: str, quads: Sequence[Quad], hits: Sequence[Quad], digest_at: Mapping[int, str]
    ) -> None:
        session_id, digest = iris.session_id(turn), _one(quads, vocab.DIGEST)
        if not digest:
            why = "the turn is from before turns had digests, so nothing could stand in its place: delete the session"
            for quad in hits:
                self._leave(session_id, _OF_TURN.get(quad.predicate, "row"), turn, why, self._index_of(quads))
            return
        index = iris.turn_index(turn)
        kinds = sorted({_OF_TURN.get(quad.predicate, "row") for quad in hits})
        for kind in kinds:
            self._place(session_id, kind, turn, index)
        previous = digest_at.get(index - 1) or redaction_records.digest_before(self._store, graph, index)
        after = self._turn_after(turn, quads, hits)
        known = self._stands.get(digest)
        stands_as = None
        if known is not None or any(quad.predicate not in _SALTED for quad in hits):
            if not chain.is_true(redaction_records.stored_turn(turn, quads), previous, known):
                raise IntegrityError(
                    f"turn {index} of session {session_id!r} was altered: taking a name or a fact out of it would hide "
                    "that; `trails verify` says more, and a backup or an export restores it"
                )
            stands_as = chain.standing(redaction_records.stored_turn(turn, after), previous)
        self._found.swap(quads, after)
        self._found.turns.append(ChangedTurn(turn, digest, tuple(kinds), stands_as))

    def _index_of(self, quads: Iterable[Quad]) -> int | None:
        index = _one(quads, vocab.INDEX)
        return int(index) if index.isdecimal() else None

    def _turn_after(self, turn: str, quads: Sequence[Quad], hits: Sequence[Quad]) -> list[Quad]:
        """Return the quads of a turn without the text."""
        before, after = redaction_records.stored_turn(turn, quads), list(quads)
        if any(quad.predicate in _SALTED for quad in hits):
            remove, add = redaction.redacted(quads)
            after = [*(quad for quad in quads if quad not in set(remove)), *add]
        after = [new for quad in after if (new := self._new.quad(quad)) is not None]
        if any(quad.predicate == vocab.USAGE for quad in hits):
            after = _counted_again(after)
        if not before.facts.withheld and any(quad.predicate not in _SALTED | _OWN for quad in hits):
            whole = digests.facts_digest(before.facts, before.salt)
            after.append(Quad(NamedNode(turn), vocab.FACTS_DIGEST, Literal(whole), quads[0].graph_name))
        return after

    # --- ledgers and entries

    def _ledger(self, graph: NamedNode, quads: Sequence[Quad], hits: Iterable[Quad]) -> None:
        session_id = iris.session_id(graph.value)
        by_entry: dict[str, list[Quad]] = defaultdict(list)
        for quad in quads:
            by_entry[_value(quad.subject)].append(quad)
        held: dict[str, list[Quad]] = defaultdict(list)
        for quad in hits:
            held[_value(quad.subject)].append(quad)
        for iri, mine in held.items():
            before = by_entry[iri]
            for quad in mine:
                kind = "ledger text" if quad.predicate in _SAID else "ledger field"
                self._place(session_id, kind, iri, iris.entry_number(iri))
            after = list(before)
            if any(quad.predicate in _SAID for quad in mine):
                remove, add = ledgerbook.withhold(before)
                after = [*(quad for quad in before if quad not in set(remove)), *add]
            after = [new for quad in after if (new := self._new.quad(quad)) is not None]
            was, made = (_decoded(session_id, iri, each) for each in (before, after))
            if entries.row_digest(was) != entries.row_digest(made):
                old, made = set(entries.quads(made)), made.salted_anew()
                after = [*(quad for quad in after if quad not in old), *entries.quads(made)]
                if self._is_live(session_id):
                    self._found.leaves += entries.leaves_of(made)
            self._found.swap(before, after)
            self._found.note(session_id, iri)

    def _entry(self, graph: NamedNode, quads: Sequence[Quad], hits: Sequence[Quad]) -> None:
        session_id = iris.session_id(graph.value)
        for quad in hits:
            self._place(session_id, "entry field", quad.predicate.value)
        after = [quad for quad in quads if quad not in set(hits) and quad.predicate != vocab.SALT]
        salt = Quad(NamedNode(iris.session(session_id)), vocab.SALT, Literal(digests.new_salt()), graph)
        self._found.swap(quads, [*after, salt])
        self._found.note(session_id, graph.value)
        if self._is_live(session_id):
            self._found.rows.add(session_id)

    # --- the catalog

    def catalog(self, quads: Sequence[Quad]) -> None:
        """Go through the catalog."""
        self._check_ids(term for quad in quads for term in (quad.subject, quad.object))
        for quad in quads:
            self._about.setdefault(_value(quad.subject), []).append(quad)
        held: dict[str, list[Quad]] = defaultdict(list)
        for quad in quads:
            if self._new.holds(quad):
                held[_value(quad.subject)].append(quad)
        for subject, hits in held.items():
            before = self._about[subject]
            if iris.run_id(subject) is not None:
                self._run(subject, before, hits)
            elif iris.is_author(subject):
                self._found.swap(before, [new for quad in before if (new := self._new.quad(quad)) is not None])
                self._place(None, "name", subject)
            else:
                self._row(subject, before, hits)

    def _row(self, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
        owner = self._owner(subject)
        after = list(before)
        if said := [quad for quad in hits if quad.predicate == vocab.VALUE]:
            after = _hidden(before, "note" if iris.note_id(subject) is not None else "prompt", _value(said[0].object))
        after = [new for quad in after if (new := self._new.quad(quad)) is not None]
        is_record = iris.is_turn_deletion(subject) or iris.is_redaction(subject)
        if is_record:
            after = _salted_anew(after)
        for quad in hits:
            by_name = not self._new.holds_value(quad)
            self._place(owner, _kind_of(subject, quad, by_name=by_name), subject)
        self._found.swap(before, after)
        renamed = self._new.iri(NamedNode(subject)).value
        if owner is not None:
            self._found.note(owner, renamed)
        if is_record:
            self._found.leaves.append(logbook.redaction_leaf(NamedNode(subject), after))
        elif iris.removed_run(subject) is None and owner is not None:
            (self._found.rows if self._is_live(owner) else self._found.tombstones).add(owner)

    def _run(self, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
        session_id = iris.session_id(subject)
        after = list(before)
        if any(quad.predicate in runentry.TEXTS for quad in hits):
            gone = {*runentry.TEXTS, vocab.SALT, vocab.TASK_SALT}
            after = [quad for quad in before if quad.predicate not in gone]
            after.append(Quad(NamedNode(subject), vocab.TASK, _GONE, vocab.CATALOG))
        fixed = {vocab.RUN_ID}
        if not any(quad.predicate == vocab.GENERATED for quad in before):
            fixed.add(vocab.CHILD_KEY)  # the run's IRI, which is in the log, is made from it
        stays = {quad for quad in hits if quad.predicate in fixed}
        for quad in hits:
            if quad in stays:
                self._leave(session_id, "run id", subject, _ID_KINDS["run id"])
            else:
                self._place(session_id, "run", subject)
        swapped = [quad if quad in stays else self._new.quad(quad) for quad in after]
        after = [quad for quad in swapped if quad is not None]
        if set(after) == set(before):
            return
        old, new = runentry.decode(subject, before), runentry.decode(subject, after)
        if runentry.row_digest(old) != runentry.row_digest(new):
            new = new.model_copy(update={"revision": old.revision + 1}).salted_anew()
            after = runentry.quads(new)
            self._found.leaves.append(runentry.leaf(new))
        self._found.swap(before, after)
        self._found.note(session_id, subject)

    def _owner(self, subject: str) -> str | None:
        """Return the session with whose row a subject of the catalog is logged."""
        if subject.startswith(_SESSIONS):
            return iris.session_id(subject)
        for quad in self._about.get(subject, []):
            if quad.predicate in _OWNED:
                return iris.session_id(_value(quad.object))
            if quad.predicate in (vocab.ALIAS_OF, vocab.ALIAS_WAS_OF):
                return self._owner(_value(quad.object))
        return None

    def _is_live(self, session_id: str) -> bool:
        return any(quad.object == vocab.SESSION for quad in self._about.get(iris.session(session_id), []))


_SESSIONS: Final = iris.session("")
_TAGS: Final = iris.tag("")
_OWNED: Final = frozenset(
    {vocab.PROMPT_OF, vocab.TAG_OF, vocab.NOTE_ON, vocab.REMOVED_FROM, vocab.MOVED_SESSION, vocab.CURRENT_SESSION}
)


def _kind_of(subject: str, quad: Quad, *, by_name: bool) -> str:
    """Return what kind of place a quad of the catalog is; `by_name` where only its subject's name holds the text."""
    if by_name:
        return "tag" if subject.startswith(_TAGS) else "key"
    if quad.predicate == vocab.VALUE:
        return "note" if iris.note_id(subject) is not None else "system prompt"
    if name_of(quad.predicate) is not None:
        return "metadata"
    return _OF_ROW.get(quad.predicate, "row")


def _hidden(quads: Iterable[Quad], kind: str, text: str) -> list[Quad]:
    """Return the quads of a note or a system prompt without its text; the salt's place takes the salted digest."""
    every = list(quads)
    made = digests.salted(kind, _one(every, vocab.SALT), text)
    stand_ins = {vocab.VALUE: _GONE, vocab.SALT: Literal(made)}
    return [Quad(q.subject, q.predicate, stand_ins.get(q.predicate, q.object), q.graph_name) for q in every]


def _salted_anew(quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads of a record with other random bits for its leaf: by the old ones, the old leaf could be guessed."""
    kept = [quad for quad in quads if quad.predicate != vocab.LEAF_SALT]
    return [*kept, Quad(quads[0].subject, vocab.LEAF_SALT, Literal(digests.new_salt()), vocab.CATALOG)]


def _decoded(session_id: str, iri: str, quads: Iterable[Quad]) -> entries.Entry:
    return entries.decode(session_id, iri, entries.by_subject(quads)[iri])


def _counted_again(quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads of a turn with the token counts that follow from its usage as it is now."""
    kept = [quad for quad in quads if quad.predicate not in _COUNTED]
    for quad in quads:
        if quad.predicate == vocab.USAGE:
            usage = json.loads(_value(quad.object))
            counts = mapping.usage_facts(usage if isinstance(usage, dict) else {})
            kept += [Quad(quad.subject, predicate, number, quad.graph_name) for predicate, number in counts]
    return kept


def _one(quads: Iterable[Quad], predicate: NamedNode) -> str:
    return next((_value(quad.object) for quad in quads if quad.predicate == predicate), "")


def _value(term: object) -> str:
    return str(getattr(term, "value", term))
