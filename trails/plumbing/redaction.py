"""Taking the content of a turn out of a store for good, so that the digest chain still verifies.

A redacted turn keeps its place, author, time and digest. Its value becomes `""^^trails:Redacted`, its salt the digest
of salt and content, its tool calls' arguments, its metadata and the request that a summary answers become their salted
digests: exactly what the turn's digest covers. A Deletion in the catalog says who did it and when, and carries the
turn's digest, by which copies that come in later (an old export) are redacted too. The text itself leaves the store's
files with `vacuum`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, lineage, vocab
from trails.errors import IntegrityError, InvalidInput, TrailsError
from trails.integrity import chain, digests
from trails.integrity.leaves import Leaf
from trails.model import SessionRecord, Turn, Value
from trails.plumbing import copies, kinds, leaves, redaction_records
from trails.plumbing.kind import Withheld
from trails.plumbing.reader import Reader
from trails.plumbing.transaction import Transaction
from trails.records.deeds import Deed
from trails.records.turns import turn_quads
from trails.store.contract import PreconditionFailed, QuadStore

_SHORTEST_QUOTE: Final = 4
"""Characters below which a text says too little to be looked for elsewhere."""
_QUOTE: Final = 200
"""Characters of a text that are looked for: who quotes a text rarely quotes all of it."""
_TEXT_KEYS: Final = frozenset({"text", "thinking", "content", "output"})
_SALTED: Final = {vocab.ARGUMENTS: "arguments", vocab.META: "meta", vocab.REQUEST: "request"}
"""The properties, beside the content, whose texts a redaction replaces by their salted digests; and their kinds."""

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


def redact(store: QuadStore, reader: Reader, chain: Sequence[SessionRecord], index: int, deed: Deed) -> Redaction:
    """Take the content out of a turn and all its copies in one commit; once redacted, nothing more happens."""
    turn = _turn_at(reader, chain, index)
    needles = _needles(turn)
    done: list[TurnRef] = []
    told: dict[str, list[Any]] = defaultdict(list)
    # A copy that another thread made meanwhile is found in a second round: see the requirement of `copy_turns`.
    while found := _unredacted(store, turn.digest):
        try:
            withheld = [kind.withheld(store, found, needles) for kind in kinds.KINDS]
            _commit(store, found, turn.digest, withheld, deed)
        except PreconditionFailed:
            continue
        done += (_ref(node) for node in found)
        for each in withheld:
            _tell(told, each.report)
    for kind in kinds.KINDS:
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


def _turn_at(reader: Reader, chain: Sequence[SessionRecord], index: int) -> Turn:
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
    stands = digest in redaction_records.standing(store)
    for turn in turns:
        old, new = redacted(_quads_of(store, turn))
        tx.take(old)
        tx.add(new)
        if stands or not store.quads((NamedNode(iris.turn_deletion(turn.value)), None, None, vocab.CATALOG)):
            node = redaction_records.next_of(store, turn.value)
            stands_as = _standing(store, turn, old, new) if stands else None
            rows = redaction_records.of_turn(node, digest, deed, stands_as=stands_as)
            tx.add(rows)
            made.append(leaves.redaction_leaf(node, [quad for quad in rows if quad.subject == node]))
    for each in withheld:
        tx.take(each.remove)
        tx.add(each.add)
    parts = [part for each in withheld for part in each.parts]
    redaction_records.record(tx, parts, deed, place="text")
    tx.log_leaves(made)
    tx.log(leaves.rows("change", sorted({session_id for each in withheld for session_id in each.rows})))
    tx.commit(store)


def _standing(store: QuadStore, turn: NamedNode, old: Sequence[Quad], new: Sequence[Quad]) -> str:
    """Return the digest over a turn as it stands once its content goes too; a name or a fact went before."""
    quads = [*(quad for quad in redaction_records.parts_of(store, turn) if quad not in set(old)), *new]
    row = redaction_records.stored_turn(turn.value, quads)
    graph = NamedNode(iris.session(iris.session_id(turn.value)))
    return chain.standing(row, redaction_records.digest_before(store, graph, row.index))


def _quads_of(store: QuadStore, turn: NamedNode) -> list[Quad]:
    """Return the quads of a turn, of its tool calls and of the request that it answers as a summary, as they are stored."""
    graph = NamedNode(iris.session(iris.session_id(turn.value)))
    quads = store.quads((turn, None, None, graph))
    links = (vocab.STARTED_BY, vocab.KEPT_WITH)
    for call in (quad for link in links for quad in store.quads((None, link, turn, graph))):
        quads += store.quads((call.subject, vocab.ARGUMENTS, None, graph))  # type: ignore[arg-type] # a call's IRI
    return quads + store.quads((NamedNode(iris.compaction(turn.value)), vocab.REQUEST, None, graph))


def redacted(quads: Iterable[Quad]) -> tuple[list[Quad], list[Quad]]:
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
    salt = _text(salts[0])
    content = digests.content_digest(_text(values[0]), salt, structured=_datatype(values[0]) == vocab.JSON)
    remove: list[Quad] = []
    add: list[Quad] = []
    for quad in found:
        stand_in = _stand_in(quad, salt, content)
        if stand_in is not None and stand_in != quad.object:
            remove.append(quad)
            add.append(Quad(quad.subject, quad.predicate, stand_in, quad.graph_name))
    return remove, add


def _stand_in(quad: Quad, salt: str, content: str) -> Literal | None:
    """Return what stands in a quad's place once its turn is redacted, or None for a quad that stays."""
    if quad.predicate == vocab.VALUE:
        return Literal("", datatype=vocab.REDACTED)
    if quad.predicate == vocab.SALT:
        return Literal(content)
    kind = _SALTED.get(quad.predicate)
    if kind is not None and _datatype(quad) != vocab.REDACTED:
        return Literal(digests.salted(kind, salt, _text(quad)), datatype=vocab.REDACTED)
    return None


def _text(quad: Quad) -> str:
    return str(getattr(quad.object, "value", quad.object))


# --- where else the text may be


def _summaries(store: QuadStore, reader: Reader, digest: str, index: int) -> Iterator[TurnRef]:
    """Give the summary turns after a turn, in every session whose transcript has it."""
    for session_id in _sessions_with(store, reader, digest, index):
        graph = NamedNode(iris.session(session_id))
        for turn in store.quads((None, vocab.TYPE, vocab.SUMMARY_TURN, graph)):
            at = iris.turn_index(str(turn.subject.value))  # type: ignore[union-attr] # an IRI
            through = store.quads((turn.subject, vocab.SUMMARISED_THROUGH, None, graph))  # type: ignore[arg-type] # an IRI
            if at > index and all(int(_text(quad)) >= index for quad in through):
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


def _needles(turn: Turn) -> list[str]:
    """Return texts to look for elsewhere: as they are, and as they stand in JSON."""
    if turn.redacted:
        return []
    return _as_needles(_texts(turn.content) if turn.structured else [turn.text])


def _as_needles(texts: Iterable[str]) -> list[str]:
    plain = {text.strip()[:_QUOTE] for text in texts}
    plain = {text for text in plain if len(text) >= _SHORTEST_QUOTE}
    return sorted(plain | {json.dumps(text, ensure_ascii=False)[1:-1] for text in plain})


def _needles_of(quads: Iterable[Quad], turn: str) -> list[str]:
    """Return the texts to look for elsewhere of a turn that is given as quads."""
    value = next(quad for quad in quads if quad.predicate == vocab.VALUE and quad.subject == NamedNode(turn))
    structured = _datatype(value) == vocab.JSON
    return _as_needles(_texts(json.loads(_text(value))) if structured else [_text(value)])


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for key in _TEXT_KEYS & part.keys():
            yield from _texts(part[key])
    elif isinstance(part, list):
        for each in part:
            yield from _texts(each)


def _quotes(reader: Reader, needles: Sequence[str], done: set[TurnRef]) -> tuple[set[TurnRef], set[str]]:
    """Return the turns that hold one of the texts, and the entries of ledgers that do."""
    if not needles:
        return set(), set()
    found = {row[0].value for row in reader.select_each("quotes", "text", needles)}
    entries = {part for part in found if iris.entry_number(part) is not None}
    return {_ref(NamedNode(iris.turn_of(part))) for part in found - entries} - done, entries


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
            new = {_text(each) for each in store.quads((turn, vocab.DIGEST, None, graph))} - seen
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
    stands = redaction_records.standing(store)
    for turn, mine in by_turn.items():
        digest = next((_text(q) for q in mine if q.predicate == vocab.DIGEST and q.subject == NamedNode(turn)), "")
        if digest in stands:
            here = _as_here(store, turn, stands[digest], mine, every)
            for quad in mine:
                del kept[quad]
            kept.update(dict.fromkeys(here))
            continue
        if not _is_redacted_here(store, turn, mine):
            continue
        needles = _needles_of(mine, turn)
        for kind in kinds.KINDS:
            for quad in kind.repeating(list(kept), needles):
                del kept[quad]
        remove, add = redacted(q for q in mine if q.subject == NamedNode(turn) or q.predicate in _SALTED)
        for quad in remove:
            del kept[quad]
        kept.update(dict.fromkeys(add))
    return list(kept)


def _as_here(store: QuadStore, turn: str, stands_as: str, quads: Sequence[Quad], every: Iterable[Quad]) -> list[Quad]:
    """Return a turn that comes in as it stands here, since a name or a fact was taken out of it."""
    row = redaction_records.stored_turn(turn, quads)
    links = [quad for quad in quads if copies.is_beside(quad) or _names_call(quad)]
    is_copy = any(quad.predicate == vocab.KEPT_WITH for quad in quads)
    for quad in store.quads((None, vocab.DIGEST, Literal(row.digest), None)):
        if not isinstance(quad.graph_name, NamedNode) or not isinstance(quad.subject, NamedNode):
            continue
        here = redaction_records.stored_turn(quad.subject.value, redaction_records.parts_of(store, quad.subject))
        moved = turn_quads(here.sealed(iris.session_id(turn)), copied=is_copy)
        return [*moved, *links]
    if chain.standing(row, _digest_before(store, row.index, quads[0].graph_name, every)) == stands_as:
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
            return _text(quad)
    return redaction_records.digest_before(store, graph, index) if isinstance(graph, NamedNode) else ""


def _is_redacted_here(store: QuadStore, turn: str, quads: Sequence[Quad]) -> bool:
    """Tell whether a turn that has its content was redacted in this store."""
    digest = next((q.object for q in quads if q.predicate == vocab.DIGEST and q.subject == NamedNode(turn)), None)
    if not isinstance(digest, Literal) or not store.quads((None, vocab.DIGEST, digest, vocab.CATALOG)):
        return False
    return any(quad.predicate == vocab.VALUE and _datatype(quad) != vocab.REDACTED for quad in quads)
