"""Erase one text wherever it stands in a store: in turns and what is said with them, rows, ledgers, runs and names.

Every quad of the store is looked at. What holds the text is replaced in one commit. What cannot be replaced (ids of
sessions and runs, which the log names) is reported. Each kind of thing is changed as `verify` expects it: see
`ErasureWalk`.

Content, call arguments and requests are removed as `redact` removes them, with metadata and payloads: their digests stay,
and the turn's own digest proves the rest. In metadata and payloads alone, only the values that hold the text are replaced,
and the turn gets another salt. An author, a role and other facts enter the digest in clear, so it cannot be computed again
without them. In both cases the redaction carries a digest over the turn as it is now. Texts of notes and system prompts leave
their salted digests, and rows of the catalog are logged again. Records with leaves of their own are changed by their
kind.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.history import log_leaves, record_registry
from trails.history.records import payloads
from trails.history.records.record_kind import RecordKind
from trails.history.records.text_matcher import (
    LOGGED_IDS,
    Changed,
    ChangedTurn,
    Erasure,
    Place,
    Pseudonyms,
    TextMatcher,
    pseudonym_of,
)
from trails.history.removal import redaction
from trails.history.transaction import Transaction
from trails.integrity import digests
from trails.integrity.digests import StoredTurn
from trails.integrity.leaves import Leaf
from trails.model import iris
from trails.model.values import Value
from trails.rdf import activity_records, query_files, vocab
from trails.rdf.activity_records import Deed
from trails.rdf.codec import term_text, value_of
from trails.rdf.session_records import tool_quads
from trails.rdf.turn_quads import FIGURES, usage_facts
from trails.store.contract import PreconditionFailed, QuadStore, Solutions
from trails.store.pattern import Preview

_GONE: Final = Literal("", datatype=vocab.REDACTED)
_OF_TURN: Final = {
    vocab.VALUE: "content", vocab.ARGUMENTS: "call arguments", vocab.META: "turn metadata",
    vocab.REQUEST: "summary request", vocab.ROLE: "role", vocab.ATTRIBUTED_TO: "author",
    vocab.ASSOCIATED_WITH: "author", vocab.SOURCE_ID: "source id", vocab.MODEL: "model",
    vocab.STOP_REASON: "stop reason", vocab.USAGE: "usage", vocab.CALL_ID: "call id", vocab.TOOL_NAME: "tool name",
    vocab.TRIGGER: "trigger", vocab.PROVIDER: "provider", vocab.TOOL_USED: "tool", vocab.APPROVED_BY: "approver",
    vocab.REFUSED_BY: "refuser", vocab.PAYLOAD_OF: "payload", vocab.PAYLOAD_NAME: "payload name",
    vocab.MEDIA_TYPE: "media type",
}  # fmt: skip
_SALTED: Final = frozenset({vocab.VALUE, vocab.ARGUMENTS, vocab.META, vocab.REQUEST})
_WITHHELD: Final = _SALTED | {vocab.PAYLOAD_OF}
"""What goes with a turn's content, and leaves its salted digest."""
_BY_VALUE: Final = frozenset({vocab.META, vocab.PAYLOAD_OF})
"""What loses only the values that hold the text, unless the content holds it too."""
_OWN: Final = frozenset({vocab.ROLE, vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH})
"""What a turn's digest covers itself, and not among its facts."""
_COUNTED: Final = frozenset(FIGURES.values())
_OF_ROW: Final = {
    vocab.LABEL: "label", vocab.ATTRIBUTED_TO: "name", vocab.ASSOCIATED_WITH: "name", vocab.SESSION_AGENT: "name",
    vocab.FORKED_BY: "name", vocab.SOURCE_SESSION: "source session", vocab.REASON: "reason",
}  # fmt: skip
TURN_TEXTS: Final = frozenset(_OF_TURN.values())
"""The kinds of places in turns, of which the redactions of those tell."""


class ErasureWalk:
    """Going through a store and working out how a text is taken out of all that holds it."""

    def __init__(self, store: QuadStore, taking: Erasure) -> None:
        self._store = store
        self._taking = taking
        self._stands = redaction.current_redactions(store)
        self._salts: dict[str, str] = {}
        """The salts that turns get, by their digests: copies of a turn get the same one."""

    # --- what cannot go

    def _check_ids(self, terms: Iterable[object]) -> None:
        for term in terms:
            if isinstance(term, NamedNode) and term.value.startswith(_SESSIONS):
                self._check_id(term.value)

    def _check_id(self, name: str) -> None:
        session_id = iris.session_id(name)
        if self._taking.needle.within(session_id):
            self._taking.leave(session_id, "session id", iris.session(session_id), LOGGED_IDS["session id"])
        run = iris.run_id(iris.removed_run(name) or name)
        if run is not None and self._taking.needle.within(run):
            self._taking.leave(session_id, "run id", name, LOGGED_IDS["run id"])

    # --- graphs

    def graph(self, graph: NamedNode, quads: Sequence[Quad]) -> None:
        """Go through a graph: of a session's turns, or of records beside it."""
        if (kind := record_registry.owner_of(graph.value)) is not None:
            held = [quad for quad in quads if self._taking.new.holds(quad)]
            kind.purge(self._taking, graph.value, quads, held)
            return
        self._check_ids([graph, *dict.fromkeys(o for q in quads if isinstance(o := q.object, NamedNode))])
        payloads_of = self._taking.payloads
        hits = [  # no subject of a graph is named by somebody
            quad
            for quad in quads
            if self._taking.new.holds_value(quad) or (quad.predicate == vocab.PAYLOAD_OF and quad.object in payloads_of)
        ]
        if not hits:
            return
        if (found := record_registry.kinds_beside(graph.value)) is not None:
            found[0].purge(self._taking, graph.value, quads, hits)
        else:
            self._turns(graph, quads, hits)

    # --- turns

    def _turns(self, graph: NamedNode, quads: Sequence[Quad], hits: Iterable[Quad]) -> None:
        by_turn: dict[str, list[Quad]] = defaultdict(list)
        digest_at: dict[int, str] = {}
        for quad in quads:
            by_turn[iris.turn_of(term_text(quad.subject))].append(quad)
            if quad.predicate == vocab.DIGEST:
                digest_at[iris.turn_index(term_text(quad.subject))] = term_text(quad.object)
        held: dict[str, list[Quad]] = defaultdict(list)
        for quad in hits:
            if log_leaves.is_beside_copy(quad):
                self._beside(quad)
            else:
                held[iris.turn_of(term_text(quad.subject))].append(quad)
        for turn, mine in held.items():
            self._turn(graph, turn, by_turn[turn], mine, digest_at)

    def _turn(
        self, graph: NamedNode, turn: str, quads: Sequence[Quad], hits: Sequence[Quad], digest_at: Mapping[int, str]
    ) -> None:
        session_id, digest = iris.session_id(turn), value_of(quads, vocab.DIGEST)
        if not digest:
            why = "the turn is from before turns had digests, so nothing could stand in its place: delete the session"
            for quad in hits:
                self._taking.leave(session_id, _OF_TURN.get(quad.predicate, "row"), turn, why, self._index_of(quads))
            return
        index = iris.turn_index(turn)
        kinds = sorted({_OF_TURN.get(quad.predicate, "row") for quad in hits})
        for kind in kinds:
            self._taking.place(session_id, kind, turn, index)
        previous = digest_at.get(index - 1) or redaction.digest_before(self._store, graph, index)
        after = self._turn_after(turn, quads, hits)
        known = self._stands.get(digest)
        stands_as = None
        if known is not None or any(quad.predicate not in _gone_with_digest(hits) for quad in hits):
            if not digests.is_digest_true(redaction.stored_turn(turn, quads), previous, known):
                raise IntegrityError(
                    f"turn {index} of session {session_id!r} was altered: taking a name or a fact out of it would hide "
                    "that; `trails verify` says more, and a backup or an export restores it"
                )
            stands_as = digests.check_standing(redaction.stored_turn(turn, after), previous)
        self._taking.found.swap(quads, after)
        self._taking.found.turns.append(ChangedTurn(turn, digest, tuple(kinds), stands_as))

    def _beside(self, quad: Quad) -> None:
        """Take a text out of what is said of a copy: it is logged with its session's row."""
        session_id, subject = iris.session_id(term_text(quad.subject)), term_text(quad.subject)
        self._taking.place(session_id, "name", subject, iris.turn_index(subject))
        self._taking.found.swap([quad], self._taking.without([quad]))
        self._taking.found.note(session_id, subject)
        self._taking.found.rows.add(session_id)

    def _index_of(self, quads: Iterable[Quad]) -> int | None:
        index = value_of(quads, vocab.INDEX)
        return int(index) if index.isdecimal() else None

    def _turn_after(self, turn: str, quads: Sequence[Quad], hits: Sequence[Quad]) -> list[Quad]:
        """Return the quads of a turn without the text."""
        before, after = redaction.stored_turn(turn, quads), list(quads)
        covered = _gone_with_digest(hits)
        if covered:
            remove, add = redaction.redacted_quads(quads)
            after = [*(quad for quad in quads if quad not in set(remove)), *add]
        elif any(quad.predicate in _BY_VALUE for quad in hits):
            after = self._salted_again(before, quads)
        after = payloads.replace_in(self._taking, self._taking.without(after))
        if any(quad.predicate == vocab.USAGE for quad in hits):
            after = _counted_again(after)
        if not before.facts.withheld and any(quad.predicate not in covered | _OWN for quad in hits):
            whole = digests.facts_digest(before.facts, before.salt)
            after.append(Quad(NamedNode(turn), vocab.FACTS_DIGEST, Literal(whole), quads[0].graph_name))
        return after

    def _salted_again(self, row: StoredTurn, quads: Sequence[Quad]) -> list[Quad]:
        """Return the quads of a turn with another salt: by the old one, what is taken out could be guessed.

        The digest of its content as it was made is kept, for the turn's own digest.
        """
        node, graph = NamedNode(row.iri), quads[0].graph_name
        salt = self._salts.setdefault(row.digest, digests.new_salt())
        content = row.facts.content_digest or digests.content_digest(row.text, row.salt, structured=row.structured)
        kept = [quad for quad in quads if quad.predicate not in (vocab.SALT, vocab.CONTENT_DIGEST)]
        said = ((vocab.SALT, salt), (vocab.CONTENT_DIGEST, content))
        return [*kept, *(Quad(node, predicate, Literal(text), graph) for predicate, text in said)]

    # --- the catalog

    def catalog(self, quads: Sequence[Quad]) -> None:
        """Go through the catalog."""
        self._check_ids(term for quad in quads for term in (quad.subject, quad.object))
        for quad in quads:
            self._taking.about.setdefault(term_text(quad.subject), []).append(quad)
        held: dict[str, list[Quad]] = defaultdict(list)
        for quad in quads:
            if self._taking.new.holds(quad):
                held[term_text(quad.subject)].append(quad)
        for subject, hits in held.items():
            before = self._taking.about[subject]
            if (kind := _purging(subject, before)) is not None:
                kind.purge(self._taking, subject, before, hits)
            elif iris.is_author(subject):
                renamed = self._taking.new.iri(NamedNode(subject)).value
                after = tool_quads(renamed) if iris.is_tool(subject) else self._taking.without(before)
                self._taking.found.swap(before, after)
                self._taking.place(None, "name", subject)
            else:
                self._row(subject, before, hits)

    def _row(self, subject: str, before: Sequence[Quad], hits: Sequence[Quad]) -> None:
        owner = self._owner(subject)
        kind = record_registry.kinds_of_types({quad.object for quad in before})
        text = kind.text if kind is not None else ""
        after = list(before)
        if said := [quad for quad in hits if quad.predicate == vocab.VALUE]:
            after = _hidden(before, text or "prompt", term_text(said[0].object))
        after = self._taking.without(after)
        is_record = iris.is_turn_deletion(subject) or iris.is_redaction(subject)
        if is_record:
            after = _salted_anew(after)
        for quad in hits:
            by_name = not self._taking.new.holds_value(quad)
            self._taking.place(owner, _kind_of(subject, quad, text or "system prompt", by_name=by_name), subject)
        self._taking.found.swap(before, after)
        renamed = self._taking.new.iri(NamedNode(subject)).value
        if owner is not None:
            self._taking.found.note(owner, renamed)
        if is_record:
            self._taking.found.leaves.append(log_leaves.redaction_leaf(NamedNode(subject), after))
        elif iris.removed_run(subject) is None and owner is not None:
            (self._taking.found.rows if self._taking.is_live(owner) else self._taking.found.tombstones).add(owner)

    def _owner(self, subject: str) -> str | None:
        """Return the session with whose row a subject of the catalog is logged."""
        if subject.startswith(_SESSIONS):
            return iris.session_id(subject)
        for quad in self._taking.about.get(subject, []):
            if quad.predicate == vocab.PROMPT_OF or any(quad.predicate in kind.links for kind in record_registry.KINDS):
                return self._owner(term_text(quad.object))
        return None


def _gone_with_digest(hits: Iterable[Quad]) -> frozenset[NamedNode]:
    """Return the properties that leave their salted digests when a text is taken out of a turn: none if its content stays."""
    return _WITHHELD if any(quad.predicate in _SALTED - _BY_VALUE for quad in hits) else frozenset()


def _purging(subject: str, quads: Iterable[Quad]) -> RecordKind | None:
    """Return the kind that takes a text out of a subject of the catalog itself; None where it is logged with a session's row."""
    kind = record_registry.kinds_of_types({quad.object for quad in quads})
    if kind is not None and kind.purges_all:
        return kind
    return next((kind for kind in record_registry.KINDS if kind.purges(subject)), None)


_SESSIONS: Final = iris.session("")
_TAGS: Final = iris.tag("")


def _kind_of(subject: str, quad: Quad, text: str, *, by_name: bool) -> str:
    """Return what kind of place a quad of the catalog is: `text` where it is one, whatever holds it; `by_name` where only
    its subject's name holds what is looked for.
    """
    if by_name:
        return "tag" if subject.startswith(_TAGS) else "key"
    if quad.predicate == vocab.VALUE:
        return text
    if pseudonym_of(quad.predicate) is not None:
        return "metadata"
    of_kinds = (kind.places[quad.predicate] for kind in record_registry.KINDS if quad.predicate in kind.places)
    return _OF_ROW.get(quad.predicate) or next(of_kinds, "row")


def _hidden(quads: Iterable[Quad], kind: str, text: str) -> list[Quad]:
    """Return the quads of a note or a system prompt without its text; the salt's place takes the salted digest."""
    every = list(quads)
    made = digests.salted_digest(kind, value_of(every, vocab.SALT), text)
    stand_ins = {vocab.VALUE: _GONE, vocab.SALT: Literal(made)}
    return [Quad(q.subject, q.predicate, stand_ins.get(q.predicate, q.object), q.graph_name) for q in every]


def _salted_anew(quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads of a record with other random bits for its leaf: by the old ones, the old leaf could be guessed."""
    kept = [quad for quad in quads if quad.predicate != vocab.LEAF_SALT]
    return [*kept, Quad(quads[0].subject, vocab.LEAF_SALT, Literal(digests.new_salt()), vocab.CATALOG)]


def _counted_again(quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads of a turn with the token counts that follow from its usage as it is now."""
    kept = [quad for quad in quads if quad.predicate not in _COUNTED]
    for quad in quads:
        if quad.predicate == vocab.USAGE:
            usage = term_text(quad.object)
            counts = usage_facts(usage if isinstance(json.loads(usage), dict) else "{}")
            kept += [Quad(quad.subject, predicate, number, quad.graph_name) for predicate, number in counts]
    return kept


_ROUNDS: Final = 20
"""How often a store that others write to meanwhile is gone through again."""


class TextRedaction(Value):
    """What `redact_matching` took out, or would take out."""

    places: tuple[Place, ...]
    """Where the text stood (stands, in a dry run), in order of session, kind and index."""
    left: tuple[Place, ...] = ()
    """Where it still stands, because it cannot be taken out there: why is in each one's `why`."""
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump()


def redact_matching(store: QuadStore, text: str, deed: Deed, *, dry_run: bool = False) -> TextRedaction:
    """Take a text out wherever it stands, in one commit, and record it; with `dry_run`, only say where it stands.

    Raises `InvalidInput` for a text that cannot be looked for, or where who does it, or the reason, holds it, and
    `IntegrityError` where a turn that would lose more than its texts does not verify; nothing is changed then.
    """
    needle = TextMatcher(text)
    by = None if deed.by_iri == activity_records.UNKNOWN_ACTOR else iris.author_name(deed.by_iri)
    for said, what in ((by, "by"), (deed.reason, "the reason")):
        if said is not None and needle.within(said):
            raise InvalidInput(f"{what} holds the text that is to be taken out, and would be kept")
    substitution, places = Pseudonyms(needle), dict[Place, None]()
    for _ in range(_ROUNDS):
        found = _found(store, needle, substitution)
        places |= dict.fromkeys(found.places)
        if dry_run or not found.places:
            return TextRedaction(places=_ordered(places), left=_ordered(found.left), dry_run=dry_run)
        try:
            _transaction(store, found, deed).commit(store)
        except PreconditionFailed:
            continue  # another thread changed some of it: look again
    raise TrailsError(
        f"the store {store.location} was written to again and again while a text was to be taken out of it, which may "
        "still be there: do it again when less is going on"
    )


def _ordered(places: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(sorted(places, key=lambda each: (each.session_id or "", each.kind, each.index or 0, each.iri)))


def _found(store: QuadStore, needle: TextMatcher, substitution: Pseudonyms) -> Changed:
    found = Changed()
    taking = Erasure(needle, substitution, found)
    walk = ErasureWalk(store, taking)
    walk.catalog(store.quads((None, None, None, vocab.CATALOG)))
    rows = store.query(query_files.find("graphs").bind())
    graphs = [row[0] for row in rows] if isinstance(rows, Solutions) else []
    payloads.find_texts(store, taking, graphs)
    for graph in graphs:
        walk.graph(graph, store.quads((None, None, None, graph)))
    payloads.put_in_place(taking)
    leaving = [*payloads.payloads_among(found.remove), *taking.payloads]
    found.makers.append(payloads.drop_unreferenced(leaving))  # of what another writer refers to, the next look sees it
    return found


def _transaction(store: QuadStore, found: Changed, deed: Deed) -> Transaction:
    """Return the commit for what was found, with what says who did it."""
    records: list[tuple[NamedNode, list[Quad]]] = []
    for turn in found.turns:
        node = redaction.next_redactions(store, turn.iri)
        rows = redaction.redactions_of_turn(node, turn.digest, deed, places=turn.kinds, stands_as=turn.stands_as)
        records.append((node, rows))
    for session_id, parts in found.parts.items():
        node = NamedNode(iris.redaction(iris.session(session_id), secrets.token_hex(8)))
        kinds = {place.kind for place in found.places if place.session_id == session_id} - TURN_TEXTS
        records.append((node, redaction.redactions_of_parts(node, deed, places=kinds, parts=parts)))
    made = [log_leaves.redaction_leaf(node, [row for row in rows if row.subject == node]) for node, rows in records]
    add = dict.fromkeys([*found.add, *(row for _, rows in records for row in rows)])
    tx = Transaction()
    tx.require(dict.fromkeys(found.remove))
    tx.remove(quad for quad in dict.fromkeys(found.remove) if quad not in add)
    tx.add(add)
    for maker in found.makers:
        tx.log(maker)
    tx.log_leaves([*made, *found.leaves])
    tx.log(_made_anew(store, sorted(found.rows)))
    tx.log(log_leaves.row_states("change", sorted(found.rows)))
    tx.log(_deleted_anew(sorted(found.tombstones)))
    return tx


def _made_anew(store: QuadStore, session_ids: Sequence[str]) -> log_leaves.LeafMaker:
    """Return the maker of leaves for what sessions were made with, where a name in it goes: else it has one leaf for ever."""
    before = {each: log_leaves.row_of(store, each) for each in session_ids}

    def made(after: Preview) -> list[Leaf]:
        found: list[Leaf] = []
        for session_id, old in before.items():
            new = log_leaves.row_of(after, session_id)
            if old.is_salted and new.made_with != old.made_with:
                found.append(log_leaves.resalt_row(after, new).first_leaf())
        return found

    return made


def _deleted_anew(session_ids: Sequence[str]) -> log_leaves.LeafMaker:
    """Return the maker of leaves for tombstones out of which a name goes."""

    def made(after: Preview) -> list[Leaf]:
        for session_id in session_ids:
            log_leaves.resalt_row(after, log_leaves.row_of(after, session_id))
        return list(log_leaves.row_states("delete", session_ids)(after))

    return made
