"""Redact turns, and keep records of redactions.

A redacted turn keeps its place, author, time and digest. Its value becomes `""^^trails:Redacted`. Its salt becomes the
digest of salt and content. The arguments of its tool calls, its metadata, its payloads and the request that a summary
answers become their salted digests. That is exactly what the turn's digest covers, so the chain still verifies. `vacuum`
removes the text from the store's files.

The catalog says who redacted what, when and why. A redaction of a turn carries the turn's digest, by which its copies
are known, those in an older export that is imported later too. If more was removed than the digest can do without (a
name, a role, a fact without a digest of its own), it also carries a digest over the turn as it stands since. A
redaction of anything else names the session, the kinds of places, and what was changed there.
"""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.history import log_leaves, record_registry
from trails.history.reader import Reader
from trails.history.records.payloads import drop_unreferenced, payloads_among, withheld_payload
from trails.history.records.record_kind import Withheld
from trails.history.transaction import Transaction
from trails.integrity import digests
from trails.integrity.digests import StoredTurn
from trails.integrity.leaves import Leaf
from trails.model import iris, lineage
from trails.model.values import NO_FACTS, SessionRecord, Turn, Value
from trails.rdf import vocab
from trails.rdf.activity_records import Deed, deed_quads
from trails.rdf.codec import parse_time, term_text, value_of
from trails.rdf.turn_quads import decode_facts, turn_quads
from trails.store.contract import Matching, PreconditionFailed, QuadStore

_WHO: Final = frozenset(
    {vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REASON, vocab.RULE}
    | {vocab.REDACTED_PLACE, vocab.LEAF_SALT}
)
TURN_RECORD_PREDICATES: Final = _WHO | {vocab.DELETED_TURN, vocab.DIGEST, vocab.STANDS_AS}
"""What the catalog may say of a redaction of a turn; the log says whether it is as it was."""
RECORD_PREDICATES: Final = _WHO | {vocab.REDACTED_FROM, vocab.REDACTED_PART}
"""The same of a redaction of anything else."""


# --- as quads


def redactions_of_turn(
    node: NamedNode, digest: str, deed: Deed, *, places: Iterable[str] = (), stands_as: str | None = None
) -> list[Quad]:
    """Return what the catalog says of a redaction of a turn, with what its principal is.

    `node` is the redaction's IRI, from which the turn's follows; `stands_as` is the digest over the turn as it is then.
    """
    turn = NamedNode(redacted_turn_of(node.value))
    rows: list[tuple[NamedNode, NamedNode, NamedNode | Literal]] = [
        (node, vocab.DELETED_TURN, turn),
        (node, vocab.DIGEST, Literal(digest)),
    ]
    if stands_as is not None:
        rows.append((node, vocab.STANDS_AS, Literal(stands_as)))
    return [*(Quad(s, p, o, vocab.CATALOG) for s, p, o in rows), *_who(node, deed, places)]


def redactions_of_parts(node: NamedNode, deed: Deed, *, places: Iterable[str], parts: Iterable[str]) -> list[Quad]:
    """Return what the catalog says of a redaction of what is said of a session; `parts` are the IRIs that were changed."""
    owner = NamedNode(iris.session(iris.session_id(node.value)))
    rows = [(node, vocab.REDACTED_FROM, owner), *((node, vocab.REDACTED_PART, NamedNode(each)) for each in parts)]
    return [*(Quad(s, p, o, vocab.CATALOG) for s, p, o in rows), *_who(node, deed, places)]


def _who(node: NamedNode, deed: Deed, places: Iterable[str]) -> list[Quad]:
    rows: list[tuple[NamedNode, NamedNode, NamedNode | Literal]] = [
        (node, vocab.TYPE, vocab.DELETION),
        (node, vocab.LEAF_SALT, Literal(digests.new_salt())),
    ]
    rows += [(node, vocab.REDACTED_PLACE, Literal(place)) for place in sorted(set(places))]
    return [*(Quad(s, p, o, vocab.CATALOG) for s, p, o in rows), *deed_quads(node, deed)]


def redaction_record(tx: Transaction, parts: Iterable[str], deed: Deed, *, place: str) -> None:
    """Let a commit that takes texts out of records (`parts`: their IRIs) say so of each session that they belong to."""
    made: list[Leaf] = []
    by_session: dict[str, list[str]] = defaultdict(list)
    for part in dict.fromkeys(parts):
        by_session[iris.session_id(part)].append(part)
    for session_id, mine in by_session.items():
        node = NamedNode(iris.redaction(iris.session(session_id), secrets.token_hex(8)))
        said = redactions_of_parts(node, deed, places=[place], parts=mine)
        tx.add(said)
        made.append(log_leaves.redaction_leaf(node, [row for row in said if row.subject == node]))
    tx.log_leaves(made)


def redacted_turn_of(deletion: str) -> str:
    """Return the IRI of the turn that a redaction's IRI is made from."""
    return deletion.partition("/deletion")[0]


def next_redactions(store: Matching, turn: str) -> NamedNode:
    """Return the IRI for one more redaction of a turn."""
    number = 1
    while store.quads((NamedNode(iris.turn_deletion(turn, number)), None, None, vocab.CATALOG)):
        number += 1
    return NamedNode(iris.turn_deletion(turn, number))


# --- and back


def redactions_by_digest(store: Matching) -> dict[str, list[tuple[NamedNode, list[Quad]]]]:
    """Return the redactions of turns, each with its quads, by the turn's digest, oldest first."""
    found: dict[str, list[tuple[str, NamedNode, list[Quad]]]] = defaultdict(list)
    for quad in store.quads((None, vocab.DELETED_TURN, None, vocab.CATALOG)):
        node = NamedNode(term_text(quad.subject))
        if not iris.is_turn_deletion(node.value):
            continue
        quads = store.quads((node, None, None, vocab.CATALOG))
        found[value_of(quads, vocab.DIGEST)].append((value_of(quads, vocab.ENDED_AT), node, quads))
    ordered = {digest: sorted(each, key=lambda made: (made[0], made[1].value)) for digest, each in found.items()}
    return {digest: [(node, quads) for _, node, quads in each] for digest, each in ordered.items()}


def current_redactions(store: Matching, logged: Collection[Leaf] | None = None) -> dict[str, str]:
    """Return, by the digest of a turn, the digest over what it stands as since its newest redaction that says one.

    Given the leaves of redactions in the log, others do not count.
    """
    found: dict[str, str] = {}
    for digest, made in redactions_by_digest(store).items():
        for node, quads in made:
            if logged is not None and log_leaves.redaction_leaf(node, quads) not in logged:
                continue
            if stands_as := value_of(quads, vocab.STANDS_AS):
                found[digest] = stands_as
    return found


def redacted_parts(store: Matching, logged: Collection[Leaf]) -> set[str]:
    """Return the IRIs of all that redactions in the log, other than of turns, took a text out of."""
    found: set[str] = set()
    for quad in store.quads((None, vocab.REDACTED_FROM, None, vocab.CATALOG)):
        node = NamedNode(term_text(quad.subject))
        quads = store.quads((node, None, None, vocab.CATALOG))
        if iris.is_redaction(node.value) and log_leaves.redaction_leaf(node, quads) in logged:
            found |= {term_text(each.object) for each in quads if each.predicate == vocab.REDACTED_PART}
    return found


def redactions_of_session(store: Matching, node: NamedNode) -> list[Quad]:
    """Return the redactions of what is said of a session, with what their principals are; those of turns apart."""
    found: list[Quad] = []
    for quad in store.quads((None, vocab.REDACTED_FROM, node, vocab.CATALOG)):
        found += store.quads((NamedNode(term_text(quad.subject)), None, None, vocab.CATALOG))
    return found + _principals(store, found)


def rewritten_records(store: QuadStore, numbers: Mapping[Leaf, int]) -> dict[tuple[str, int], list[int]]:
    """Return when the record of a redaction was itself changed by one in the log, by what its leaf is of.

    `numbers` are those of the leaves of redactions in the log; what is returned are such numbers, least first.
    """
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for quad in store.quads((None, vocab.REDACTED_PART, None, vocab.CATALOG)):
        part, node = term_text(quad.object), NamedNode(term_text(quad.subject))
        if not (iris.is_turn_deletion(part) or iris.is_redaction(part)):
            continue
        number = numbers.get(log_leaves.redaction_leaf(node, store.quads((node, None, None, vocab.CATALOG))))
        if number is None:
            continue  # it is a finding itself
        of_turn = iris.is_turn_deletion(part)
        of = (iris.session(iris.session_id(part)), iris.turn_index(part)) if of_turn else (part, 0)
        found[of].append(number)
    return {of: sorted(each) for of, each in found.items()}


def records_belonging(store: QuadStore, quads: Iterable[Quad]) -> list[Quad]:
    """Return the redactions of the turns among the quads of a session's graph, with what their principals are.

    A copy that was made after the redaction has none of its own. For it stands one that says what its digest is and what
    it stands as, and neither who redacted the original, nor when, nor why.
    """
    known = redactions_by_digest(store)
    if not known:
        return []
    found: list[Quad] = []
    for quad in quads:
        turn = term_text(quad.subject)
        made = known.get(term_text(quad.object)) if quad.predicate == vocab.DIGEST else None
        if made is None or not iris.is_session(turn.partition("/")[0]) or "/" not in turn:
            continue
        own = [each for node, each in made if redacted_turn_of(node.value) == turn]
        found += [row for each in own for row in each] if own else _anonymous(turn, made)
    return list(dict.fromkeys([*found, *_principals(store, found)]))


def _anonymous(turn: str, made: list[tuple[NamedNode, list[Quad]]]) -> list[Quad]:
    node = NamedNode(iris.turn_deletion(turn))
    newest: dict[NamedNode, list[Quad]] = {}
    for _, quads in made:
        for predicate in (vocab.TYPE, vocab.DIGEST, vocab.STANDS_AS):
            if said := [quad for quad in quads if quad.predicate == predicate]:
                newest[predicate] = said
    rows = [Quad(node, quad.predicate, quad.object, vocab.CATALOG) for each in newest.values() for quad in each]
    return [Quad(node, vocab.DELETED_TURN, NamedNode(turn), vocab.CATALOG), *rows]


def records_with_digests(store: QuadStore, quads: Iterable[Quad]) -> list[Quad]:
    """Return all redactions with the digest of one of the turns among quads, whosever they are, and their principals."""
    known = redactions_by_digest(store)
    wanted = {term_text(quad.object) for quad in quads if quad.predicate == vocab.DIGEST}
    found = [quad for digest in sorted(wanted) for _, rows in known.get(digest, []) for quad in rows]
    return found + _principals(store, found)


def _principals(store: Matching, quads: Iterable[Quad]) -> list[Quad]:
    named = (quad.object for quad in quads if quad.predicate == vocab.ASSOCIATED_WITH)
    who = dict.fromkeys(each for each in named if isinstance(each, NamedNode))
    return [quad for each in who for quad in store.quads((each, vocab.TYPE, None, vocab.CATALOG))]


# --- turns as they stand


def parts_of_redaction(store: Matching, turn: NamedNode) -> list[Quad]:
    """Return all quads of a turn: its own, and those of its calls, results, model call and compaction."""
    graph = NamedNode(iris.session(iris.session_id(turn.value)))
    own = store.quads((turn, None, None, graph))
    parts = {quad.object for quad in own if quad.predicate in (vocab.GENERATED_BY, vocab.HAS_RESULT, vocab.HAS_PAYLOAD)}
    for link in (vocab.STARTED_BY, vocab.KEPT_WITH):
        parts |= {quad.subject for quad in store.quads((None, link, turn, graph))}
    mine = [each for each in parts if isinstance(each, NamedNode) and each.value.startswith(f"{turn.value}/")]
    return own + [quad for each in mine for quad in store.quads((each, None, None, graph))]


def stored_turn(turn: str, quads: Iterable[Quad]) -> StoredTurn:
    """Return a turn as all its quads say it; raise `IntegrityError` for one that lacks what each has."""
    own: dict[NamedNode, NamedNode | Literal] = {}
    rows: list[tuple[str, str, NamedNode | Literal]] = []
    for quad in quads:
        if isinstance(quad.object, NamedNode | Literal):
            rows.append((term_text(quad.subject), quad.predicate.value, quad.object))
            if term_text(quad.subject) == turn:
                own[quad.predicate] = quad.object
    missing = [each.value for each in _NEEDED if each not in own]
    if missing:
        raise IntegrityError(f"{turn} lacks {missing[0]}: the store was altered; `trails verify` says more")
    value = own[vocab.VALUE]
    datatype = value.datatype if isinstance(value, Literal) else None
    return StoredTurn(
        iri=turn,
        index=int(term_text(own[vocab.INDEX])),
        role=term_text(own[vocab.ROLE]),
        text=term_text(value),
        structured=datatype == vocab.JSON,
        redacted=datatype == vocab.REDACTED,
        author_iri=term_text(own[vocab.ATTRIBUTED_TO]),
        digest=term_text(own[vocab.DIGEST]),
        salt=term_text(own[vocab.SALT]),
        branch=term_text(own[vocab.BRANCH]),
        time=parse_time(term_text(own[vocab.TIME])) if vocab.TIME in own else None,
        facts=decode_facts(rows).get(turn, NO_FACTS),
    )


_NEEDED: Final = (
    vocab.INDEX, vocab.ROLE, vocab.VALUE, vocab.ATTRIBUTED_TO, vocab.DIGEST, vocab.SALT, vocab.BRANCH,
)  # fmt: skip


def digest_before(store: Matching, graph: NamedNode, index: int) -> str:
    """Return the digest of the turn before an index of a session's graph: its own, or that at which it was forked."""
    if index == 0:
        return digests.GENESIS
    for before in store.quads((None, vocab.INDEX, vocab.integer(index - 1), graph)):
        return value_of(store.quads((before.subject, vocab.DIGEST, None, graph)), vocab.DIGEST)  # type: ignore[arg-type] # an IRI
    return value_of(store.quads((graph, vocab.FORK_HEAD, None, vocab.CATALOG)), vocab.FORK_HEAD)


_SHORTEST_QUOTE: Final = 4
"""Characters below which a text says too little to be looked for elsewhere."""
_QUOTE: Final = 200
"""Characters of a text that are looked for: who quotes a text rarely quotes all of it."""
_TEXT_KEYS: Final = frozenset({"text", "thinking", "content", "output"})
_SALTED: Final = {vocab.ARGUMENTS: "arguments", vocab.META: "meta", vocab.REQUEST: "request"}
"""The properties, beside the content, whose texts a redaction replaces by their salted digests; and their kinds."""

_WITHHELD: Final = frozenset({*_SALTED, vocab.PAYLOAD_OF})
"""The properties of a turn's parts that a redaction replaces."""

TurnRef = tuple[str, int]
"""A session's id and the index of one of the turns that it owns."""


class Redaction(Value):
    """What `redact` did, and where the text may still stand."""

    digest: str
    """The digest of the turn, which all its copies share."""
    turns: tuple[TurnRef, ...]
    """The turns whose content was taken out now; empty where that had happened before."""
    summaries: tuple[TurnRef, ...]
    """Later summary turns that stand for the redacted one, and may repeat what it said."""
    quotes: tuple[TurnRef, ...]
    """Other turns that were picked from it, or hold the text, or its first 200 characters; the text is looked for only
    while it is there."""
    notes: tuple[str, ...] = ()
    """The ids of notes on the turn, and of others that hold the text; they stay until they are removed."""
    scores: tuple[str, ...] = ()
    """The ids of scores of the turn that have a reason, and of others that hold the text; they stay until they are removed."""
    entries: tuple[str, ...] = ()
    """The IRIs of the entries of ledgers whose text went with it: messages that it says, what was sent in its place."""
    ledger_quotes: tuple[str, ...] = ()
    """The IRIs of other entries of ledgers that hold the text: messages that still wait, deliveries, errors."""
    runs: tuple[str, ...] = ()
    """The ids of the sub-agents' runs whose texts went with it: those whose task it says."""
    run_quotes: tuple[str, ...] = ()
    """The ids of other runs that hold the text, in their task or their error."""
    fields: tuple[tuple[str, str], ...] = ()
    """(session, field) of what was taken out with it of the entries of sessions with keys, such as a last heartbeat."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return self.model_dump()


def redact_turn(store: QuadStore, reader: Reader, chain: Sequence[SessionRecord], index: int, deed: Deed) -> Redaction:
    """Take the content out of a turn and all its copies in one commit; once redacted, nothing more happens."""
    turn = turn_at(reader, chain, index)
    needles = _needles(turn)
    done: list[TurnRef] = []
    told: dict[str, list[Any]] = defaultdict(list)
    # A copy that another thread made meanwhile is found in a second round: see the requirement of `copy_turns`.
    while found := _unredacted(store, turn.digest):
        try:
            withheld = [kind.withheld(store, found, needles) for kind in record_registry.KINDS]
            _commit(store, found, turn.digest, withheld, deed)
        except PreconditionFailed:
            continue
        done += (_ref(node) for node in found)
        for each in withheld:
            _tell(told, each.report)
    for kind in record_registry.KINDS:
        _tell(told, kind.repeated(store, turn.digest, needles))
    quotes, ledger_quotes = _quotes(reader, needles, set(done))
    return Redaction(
        digest=turn.digest,
        turns=tuple(sorted(done)),
        summaries=tuple(sorted(_summaries(store, reader, turn.digest, index))),
        quotes=tuple(sorted(quotes | (_picks(store, turn.digest) - set(done)))),
        ledger_quotes=tuple(sorted(ledger_quotes)),
        **{name: tuple(sorted(values)) for name, values in told.items()},
    )


def _tell(told: dict[str, list[Any]], report: Mapping[str, Iterable[Any]]) -> None:
    for name, values in report.items():
        told[name] += values


def turn_at(reader: Reader, chain: Sequence[SessionRecord], index: int) -> Turn:
    """Return a turn of a transcript; raise `InvalidInput` where there is none, or one that cannot be redacted."""
    runs = lineage.segments(chain, index + 1)
    found = reader.turns_at(runs[-1].record.id, [index]) if runs else []
    if not found:
        raise InvalidInput(f"session {chain[0].id!r} has no turn {index}")
    if found[0].old_iri is not None:
        raise InvalidInput(
            f"turn {index} of session {chain[0].id!r} is from before turns had digests, so nothing could stand in its "
            "place; delete the session instead"
        )
    return found[0]


def _unredacted(store: QuadStore, digest: str) -> list[NamedNode]:
    """Return the turns with a digest, in any session's graph, that still have their content."""
    found = []
    for quad in store.quads((None, vocab.DIGEST, Literal(digest), None)):
        if isinstance(quad.graph_name, NamedNode) and isinstance(quad.subject, NamedNode):
            values = store.quads((quad.subject, vocab.VALUE, None, quad.graph_name))
            if any(_datatype(value) != vocab.REDACTED for value in values):
                found.append(quad.subject)
    return found


def _datatype(quad: Quad) -> NamedNode | None:
    return quad.object.datatype if isinstance(quad.object, Literal) else None


def _ref(turn: NamedNode) -> TurnRef:
    return iris.session_id(turn.value), iris.turn_index(turn.value)


# --- the commit


def _commit(
    store: QuadStore, turns: Sequence[NamedNode], digest: str, withheld: Sequence[Withheld], deed: Deed
) -> None:
    """Take the content out of turns, and of the records that repeat it."""
    tx = Transaction()
    made: list[Leaf] = []
    stands = digest in current_redactions(store)
    for turn in turns:
        old, new = redacted_quads(parts_of_redaction(store, turn))
        tx.take(old)
        tx.add(new)
        if stands or not store.quads((NamedNode(iris.turn_deletion(turn.value)), None, None, vocab.CATALOG)):
            node = next_redactions(store, turn.value)
            stands_as = _standing(store, turn, old, new) if stands else None
            rows = redactions_of_turn(node, digest, deed, stands_as=stands_as)
            tx.add(rows)
            made.append(log_leaves.redaction_leaf(node, [quad for quad in rows if quad.subject == node]))
        tx.log(drop_unreferenced(payloads_among(old)))
    for each in withheld:
        tx.take(each.remove)
        tx.add(each.add)
    parts = [part for each in withheld for part in each.parts]
    redaction_record(tx, parts, deed, place="text")
    tx.log_leaves(made)
    tx.log(log_leaves.row_states("change", sorted({session_id for each in withheld for session_id in each.rows})))
    tx.commit(store)


def _standing(store: QuadStore, turn: NamedNode, old: Sequence[Quad], new: Sequence[Quad]) -> str:
    """Return the digest over a turn as it stands once its content goes too; a name or a fact went before."""
    quads = [*(quad for quad in parts_of_redaction(store, turn) if quad not in set(old)), *new]
    row = stored_turn(turn.value, quads)
    graph = NamedNode(iris.session(iris.session_id(turn.value)))
    return digests.check_standing(row, digest_before(store, graph, row.index))


def redacted_quads(quads: Iterable[Quad]) -> tuple[list[Quad], list[Quad]]:
    """Return what goes and what comes when a turn, given with its calls' arguments, is redacted: nothing where it was before.

    Raises `IntegrityError` for a turn that lacks its content or its salt.
    """
    found = list(quads)
    values, salts = ([q for q in found if q.predicate == predicate] for predicate in (vocab.VALUE, vocab.SALT))
    if not values or not salts:
        raise IntegrityError(
            f"{found[0].subject if found else 'a turn'} has no content or no salt: the store was altered; "
            "`trails verify` says more"
        )
    if _datatype(values[0]) == vocab.REDACTED:  # by another writer: its salt is the digest of the text by now
        return [], []
    salt = term_text(salts[0].object)
    made_with = [quad for quad in found if quad.predicate == vocab.CONTENT_DIGEST]
    structured = _datatype(values[0]) == vocab.JSON
    content = value_of(made_with, vocab.CONTENT_DIGEST) or digests.content_digest(
        term_text(values[0].object), salt, structured=structured
    )
    remove: list[Quad] = [*made_with]
    add: list[Quad] = []
    for quad in found:
        stand_in = _stand_in(quad, salt, content)
        if stand_in is not None and stand_in != quad:
            remove.append(quad)
            add.append(stand_in)
    return remove, add


def _stand_in(quad: Quad, salt: str, content: str) -> Quad | None:
    """Return what stands in a quad's place once its turn is redacted, or None for a quad that stays."""
    predicate, value = quad.predicate, None
    if predicate == vocab.VALUE:
        value = Literal("", datatype=vocab.REDACTED)
    elif predicate == vocab.SALT:
        value = Literal(content)
    elif predicate == vocab.PAYLOAD_OF:
        return withheld_payload(quad, salt)
    elif (kind := _SALTED.get(predicate)) is not None and _datatype(quad) != vocab.REDACTED:
        value = Literal(digests.salted_digest(kind, salt, term_text(quad.object)), datatype=vocab.REDACTED)
    return None if value is None else Quad(quad.subject, predicate, value, quad.graph_name)


# --- where else the text may be


def places_of(store: QuadStore, digest: str) -> list[TurnRef]:
    """Return the turns with a digest that still have their content: a turn and its copies, in order."""
    return sorted(map(_ref, _unredacted(store, digest)))


def repeats_of(store: QuadStore, reader: Reader, turn: Turn) -> tuple[set[TurnRef], set[TurnRef]]:
    """Return the later summaries that stand for a turn, and the turns that hold its text or were picked from it."""
    quotes, _ = _quotes(reader, _needles(turn), set(places_of(store, turn.digest)))
    return set(_summaries(store, reader, turn.digest, turn.index)), quotes | _picks(store, turn.digest)


def _summaries(store: QuadStore, reader: Reader, digest: str, index: int) -> Iterator[TurnRef]:
    """Give the summary turns after a turn, in every session whose transcript has it."""
    for session_id in _sessions_with(store, reader, digest, index):
        graph = NamedNode(iris.session(session_id))
        for turn in store.quads((None, vocab.TYPE, vocab.SUMMARY_TURN, graph)):
            at = iris.turn_index(str(turn.subject.value))  # type: ignore[union-attr] # an IRI
            through = store.quads((turn.subject, vocab.SUMMARISED_THROUGH, None, graph))  # type: ignore[arg-type] # an IRI
            if at > index and all(int(term_text(quad.object)) >= index for quad in through):
                yield session_id, at


def _sessions_with(store: QuadStore, reader: Reader, digest: str, index: int) -> set[str]:
    """Return the sessions whose transcript has a turn: its owners, and the forks that inherit it."""
    owners = {
        iris.session_id(quad.graph_name.value)
        for quad in store.quads((None, vocab.DIGEST, Literal(digest), None))
        if isinstance(quad.graph_name, NamedNode)
    }
    below = {child for owner in owners for child, _ in reader.dependants(owner)}
    return owners | {child for child in below if _inherits(reader, child, index, owners)}


def _inherits(reader: Reader, session_id: str, index: int, owners: set[str]) -> bool:
    try:
        runs = lineage.segments(reader.lineage(session_id), index + 1)
    except TrailsError:
        return True  # it cannot be read, so nobody can say that it does not
    return runs[-1].record.id in owners


def texts_of(turn: Turn) -> list[str]:
    """Return the texts in a turn's content, in order."""
    return list(plain_texts(turn.content)) if turn.structured else [turn.text]


def long_texts(turn: Turn) -> list[str]:
    """Return the texts of a turn that are long enough to be looked for elsewhere."""
    return sorted({text for text in map(str.strip, texts_of(turn)) if len(text) >= _SHORTEST_QUOTE})


def _needles(turn: Turn) -> list[str]:
    """Return texts to look for elsewhere: as they are, and as they stand in JSON."""
    if turn.redacted:
        return []
    return _as_needles(texts_of(turn))


def _as_needles(texts: Iterable[str]) -> list[str]:
    plain = {text.strip()[:_QUOTE] for text in texts}
    plain = {text for text in plain if len(text) >= _SHORTEST_QUOTE}
    return sorted(plain | {json.dumps(text, ensure_ascii=False)[1:-1] for text in plain})


def _needles_of(quads: Iterable[Quad], turn: str) -> list[str]:
    """Return the texts to look for elsewhere of a turn that is given as quads."""
    value = next(quad for quad in quads if quad.predicate == vocab.VALUE and quad.subject == NamedNode(turn))
    structured = _datatype(value) == vocab.JSON
    return _as_needles(plain_texts(json.loads(term_text(value.object))) if structured else [term_text(value.object)])


def plain_texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for key in _TEXT_KEYS & part.keys():
            yield from plain_texts(part[key])
    elif isinstance(part, list):
        for each in part:
            yield from plain_texts(each)


def _quotes(reader: Reader, needles: Sequence[str], done: set[TurnRef]) -> tuple[set[TurnRef], set[str]]:
    """Return the turns that hold one of the texts, and the entries of ledgers that do."""
    if not needles:
        return set(), set()
    found = {row[0].value for row in reader.select_each("quotes", "text", needles)}
    entries = {part for part in found if iris.entry_number(part) is not None}
    quotes = {_ref(NamedNode(iris.turn_of(part))) for part in found - entries}
    quotes |= {(turn.session_id, turn.index) for turn in reader.encrypted_turns() if _holds(turn, needles)}
    return quotes - done, entries


def _holds(turn: Turn, needles: Sequence[str]) -> bool:
    request = turn.compaction.request if turn.compaction else None
    texts = [turn.text, request or "", *(call.arguments or "" for call in turn.tool_calls)]
    return any(needle in text for needle in needles for text in texts)


def _picks(store: QuadStore, digest: str) -> set[TurnRef]:
    """Return the turns that were cherry-picked from a turn, or from those, and still have their content."""
    found: set[TurnRef] = set()
    seen, open_digests = {digest}, [digest]
    while open_digests:
        for quad in store.quads((None, vocab.QUOTED_DIGEST, Literal(open_digests.pop()), None)):
            graph, turn = quad.graph_name, quad.subject
            if not isinstance(graph, NamedNode) or not isinstance(turn, NamedNode):
                continue
            if any(_datatype(value) != vocab.REDACTED for value in store.quads((turn, vocab.VALUE, None, graph))):
                found.add(_ref(turn))
            new = {term_text(each.object) for each in store.quads((turn, vocab.DIGEST, None, graph))} - seen
            seen |= new
            open_digests += new
    return found


# --- sessions on their way in or out


def keep_redacted(store: QuadStore, quads: Iterable[Quad]) -> list[Quad]:
    """Return quads of turns that are to be written, with every turn redacted that was redacted in this store.

    What the entry of their session repeats of such a turn is left out. A turn that lost a name or a fact here comes as it
    stands here; `InvalidInput` where no copy of it does any more.
    """
    every = list(quads)
    by_turn: dict[str, list[Quad]] = defaultdict(list)
    for quad in every:
        if isinstance(quad.graph_name, NamedNode):
            by_turn[iris.turn_of(str(quad.subject.value))].append(quad)  # type: ignore[union-attr] # IRIs
    kept = dict.fromkeys(every)
    stands = current_redactions(store)
    for turn, mine in by_turn.items():
        digest = next(
            (term_text(q.object) for q in mine if q.predicate == vocab.DIGEST and q.subject == NamedNode(turn)), ""
        )
        if digest in stands:
            here = _as_here(store, turn, stands[digest], mine, every)
            for quad in mine:
                del kept[quad]
            kept.update(dict.fromkeys(here))
            continue
        if not _is_redacted_here(store, turn, mine):
            continue
        needles = _needles_of(mine, turn)
        for kind in record_registry.KINDS:
            for quad in kind.repeating(list(kept), needles):
                del kept[quad]
        remove, add = redacted_quads(q for q in mine if q.subject == NamedNode(turn) or q.predicate in _WITHHELD)
        for quad in remove:
            del kept[quad]
        kept.update(dict.fromkeys(add))
    return list(kept)


def _as_here(store: QuadStore, turn: str, stands_as: str, quads: Sequence[Quad], every: Iterable[Quad]) -> list[Quad]:
    """Return a turn that comes in as it stands here, since a name or a fact was taken out of it."""
    row = stored_turn(turn, quads)
    links = [quad for quad in quads if log_leaves.is_beside_copy(quad) or _names_call(quad)]
    is_copy = any(quad.predicate == vocab.KEPT_WITH for quad in quads)
    for quad in store.quads((None, vocab.DIGEST, Literal(row.digest), None)):
        if not isinstance(quad.graph_name, NamedNode) or not isinstance(quad.subject, NamedNode):
            continue
        here = stored_turn(quad.subject.value, parts_of_redaction(store, quad.subject))
        moved = turn_quads(here.sealed(iris.session_id(turn)), copied=is_copy)
        return [*moved, *links]
    if digests.check_standing(row, _digest_before(store, row.index, quads[0].graph_name, every)) == stands_as:
        return list(quads)
    raise InvalidInput(
        f"turn {row.index} was redacted here, a name or a fact of it too, and no copy of it is left here that says how it "
        "stands since; import an export that was made after the redaction"
    )


_NAMING_CALLS: Final = (vocab.GENERATED_BY, vocab.TOOL_RESULT_OF, vocab.ANSWERS_COPY)
_NAMING_SHOWN: Final = (vocab.SUMMARY_SHOWN, vocab.USED_PROMPT, vocab.KEPT_PROMPT)


def _names_call(quad: Quad) -> bool:
    """Tell whether a quad names what no turn alone can be written with: the call that it answers, what its model was shown."""
    return quad.predicate in _NAMING_SHOWN or (quad.predicate in _NAMING_CALLS and "/call/" in str(quad.object))


def _digest_before(store: QuadStore, index: int, graph: object, every: Iterable[Quad]) -> str:
    """Return the digest before an index of a session that comes in: as that says, or as the store does."""
    coming = list(every)
    at = vocab.integer(index - 1)
    before = {q.subject for q in coming if q.predicate == vocab.INDEX and q.object == at and q.graph_name == graph}
    for quad in coming:
        if (quad.predicate == vocab.DIGEST and quad.subject in before) or (
            not before and quad.predicate == vocab.FORK_HEAD and quad.subject == graph
        ):
            return term_text(quad.object)
    return digest_before(store, graph, index) if isinstance(graph, NamedNode) else ""


def _is_redacted_here(store: QuadStore, turn: str, quads: Sequence[Quad]) -> bool:
    """Tell whether a turn that has its content was redacted in this store."""
    digest = next((q.object for q in quads if q.predicate == vocab.DIGEST and q.subject == NamedNode(turn)), None)
    if not isinstance(digest, Literal) or not store.quads((None, vocab.DIGEST, digest, vocab.CATALOG)):
        return False
    return any(quad.predicate == vocab.VALUE and _datatype(quad) != vocab.REDACTED for quad in quads)
