"""Going through a store for a text, and how turns and rows are changed so that everything else still verifies.

The content of a turn, call arguments, metadata and requests go as `redact` takes them: their digests stay, and the turn's
own digest proves the rest. An author, a role and other facts enter that digest in clear, so it cannot be made again
without them: what the turn is now has a digest of its own, which the redaction carries. Texts of notes and system prompts
leave their salted digests, and rows of the catalog are logged again. Records with leaves of their own are their kind's.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.errors import IntegrityError
from trails.integrity import chain, digests
from trails.plumbing import copies, kinds, leaves, redaction, redaction_records
from trails.plumbing.substitution import name_of
from trails.plumbing.taking import LOGGED_IDS, ChangedTurn, Taking
from trails.records.tools import tool_quads
from trails.records.turns import FIGURES, usage_facts
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
    vocab.PROVIDER: "provider",
    vocab.TOOL_USED: "tool",
    vocab.APPROVED_BY: "approver",
    vocab.REFUSED_BY: "refuser",
}
_SALTED: Final = frozenset({vocab.VALUE, vocab.ARGUMENTS, vocab.META, vocab.REQUEST})
_OWN: Final = frozenset({vocab.ROLE, vocab.ATTRIBUTED_TO, vocab.ASSOCIATED_WITH})
"""What a turn's digest covers itself, and not among its facts."""
_COUNTED: Final = frozenset(FIGURES.values())
_OF_ROW: Final = {
    vocab.LABEL: "label",
    vocab.ATTRIBUTED_TO: "name",
    vocab.ASSOCIATED_WITH: "name",
    vocab.SESSION_AGENT: "name",
    vocab.FORKED_BY: "name",
    vocab.SOURCE_SESSION: "source session",
    vocab.REASON: "reason",
}
OF_TURNS: Final = frozenset(_OF_TURN.values())
"""The kinds of places in turns, of which the redactions of those tell."""


class Walk:
    """Going through a store and working out how a text is taken out of all that holds it."""

    def __init__(self, store: QuadStore, taking: Taking) -> None:
        self._store = store
        self._taking = taking
        self._stands = redaction_records.standing(store)

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
        if (kind := kinds.owner(graph.value)) is not None:
            held = [quad for quad in quads if self._taking.new.holds(quad)]
            kind.purge(self._taking, graph.value, quads, held)
            return
        self._check_ids([graph, *dict.fromkeys(o for q in quads if isinstance(o := q.object, NamedNode))])
        hits = [
            quad for quad in quads if self._taking.new.holds_value(quad)
        ]  # no subject of a graph is named by somebody
        if not hits:
            return
        if (found := kinds.beside(graph.value)) is not None:
            found[0].purge(self._taking, graph.value, quads, hits)
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
            if copies.is_beside(quad):
                self._beside(quad)
            else:
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
                self._taking.leave(session_id, _OF_TURN.get(quad.predicate, "row"), turn, why, self._index_of(quads))
            return
        index = iris.turn_index(turn)
        kinds = sorted({_OF_TURN.get(quad.predicate, "row") for quad in hits})
        for kind in kinds:
            self._taking.place(session_id, kind, turn, index)
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
        self._taking.found.swap(quads, after)
        self._taking.found.turns.append(ChangedTurn(turn, digest, tuple(kinds), stands_as))

    def _beside(self, quad: Quad) -> None:
        """Take a text out of what is said of a copy: it is logged with its session's row."""
        session_id, subject = iris.session_id(_value(quad.subject)), _value(quad.subject)
        self._taking.place(session_id, "name", subject, iris.turn_index(subject))
        self._taking.found.swap([quad], self._taking.without([quad]))
        self._taking.found.note(session_id, subject)
        self._taking.found.rows.add(session_id)

    def _index_of(self, quads: Iterable[Quad]) -> int | None:
        index = _one(quads, vocab.INDEX)
        return int(index) if index.isdecimal() else None

    def _turn_after(self, turn: str, quads: Sequence[Quad], hits: Sequence[Quad]) -> list[Quad]:
        """Return the quads of a turn without the text."""
        before, after = redaction_records.stored_turn(turn, quads), list(quads)
        if any(quad.predicate in _SALTED for quad in hits):
            remove, add = redaction.redacted(quads)
            after = [*(quad for quad in quads if quad not in set(remove)), *add]
        after = self._taking.without(after)
        if any(quad.predicate == vocab.USAGE for quad in hits):
            after = _counted_again(after)
        if not before.facts.withheld and any(quad.predicate not in _SALTED | _OWN for quad in hits):
            whole = digests.facts_digest(before.facts, before.salt)
            after.append(Quad(NamedNode(turn), vocab.FACTS_DIGEST, Literal(whole), quads[0].graph_name))
        return after

    # --- the catalog

    def catalog(self, quads: Sequence[Quad]) -> None:
        """Go through the catalog."""
        self._check_ids(term for quad in quads for term in (quad.subject, quad.object))
        for quad in quads:
            self._taking.about.setdefault(_value(quad.subject), []).append(quad)
        held: dict[str, list[Quad]] = defaultdict(list)
        for quad in quads:
            if self._taking.new.holds(quad):
                held[_value(quad.subject)].append(quad)
        for subject, hits in held.items():
            before = self._taking.about[subject]
            if (kind := next((kind for kind in kinds.KINDS if kind.purges(subject)), None)) is not None:
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
        kind = kinds.of_types({quad.object for quad in before})
        text = kind.text if kind is not None else ""
        after = list(before)
        if said := [quad for quad in hits if quad.predicate == vocab.VALUE]:
            after = _hidden(before, text or "prompt", _value(said[0].object))
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
            self._taking.found.leaves.append(leaves.redaction_leaf(NamedNode(subject), after))
        elif iris.removed_run(subject) is None and owner is not None:
            (self._taking.found.rows if self._taking.is_live(owner) else self._taking.found.tombstones).add(owner)

    def _owner(self, subject: str) -> str | None:
        """Return the session with whose row a subject of the catalog is logged."""
        if subject.startswith(_SESSIONS):
            return iris.session_id(subject)
        for quad in self._taking.about.get(subject, []):
            if quad.predicate == vocab.PROMPT_OF or any(quad.predicate in kind.links for kind in kinds.KINDS):
                return self._owner(_value(quad.object))
        return None


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
    if name_of(quad.predicate) is not None:
        return "metadata"
    of_kinds = (kind.places[quad.predicate] for kind in kinds.KINDS if quad.predicate in kind.places)
    return _OF_ROW.get(quad.predicate) or next(of_kinds, "row")


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


def _counted_again(quads: Sequence[Quad]) -> list[Quad]:
    """Return the quads of a turn with the token counts that follow from its usage as it is now."""
    kept = [quad for quad in quads if quad.predicate not in _COUNTED]
    for quad in quads:
        if quad.predicate == vocab.USAGE:
            usage = _value(quad.object)
            counts = usage_facts(usage if isinstance(json.loads(usage), dict) else "{}")
            kept += [Quad(quad.subject, predicate, number, quad.graph_name) for predicate, number in counts]
    return kept


def _one(quads: Iterable[Quad], predicate: NamedNode) -> str:
    return next((_value(quad.object) for quad in quads if quad.predicate == predicate), "")


def _value(term: object) -> str:
    return str(getattr(term, "value", term))
