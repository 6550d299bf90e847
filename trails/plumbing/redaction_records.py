"""What the catalog says of redactions: who took what out, when and why; as quads and back.

A redaction of a turn carries the turn's digest, by which its copies are known. Where more went than the digest can do
without (a name, a role, a fact that has no digest of its own), it also carries a digest over the turn as it stands
since. A redaction of anything else names the session, the kinds of places, and what was changed there.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.errors import IntegrityError
from trails.integrity import digests
from trails.integrity.chain import StoredTurn
from trails.integrity.leaves import Leaf
from trails.model import NO_FACTS
from trails.plumbing import leaves
from trails.plumbing.transaction import Transaction
from trails.records.deeds import Deed, deed_quads
from trails.records.terms import parse_time
from trails.records.turns import decode_facts
from trails.store.contract import Matching, QuadStore

_WHO: Final = frozenset(
    {vocab.TYPE, vocab.ENDED_AT, vocab.ASSOCIATED_WITH, vocab.REASON, vocab.RULE}
    | {vocab.REDACTED_PLACE, vocab.LEAF_SALT}
)
OF_TURN: Final = _WHO | {vocab.DELETED_TURN, vocab.DIGEST, vocab.STANDS_AS}
"""What the catalog may say of a redaction of a turn; the log says whether it is as it was."""
RECORD: Final = _WHO | {vocab.REDACTED_FROM, vocab.REDACTED_PART}
"""The same of a redaction of anything else."""


# --- as quads


def of_turn(
    node: NamedNode,
    digest: str,
    deed: Deed,
    *,
    places: Iterable[str] = (),
    stands_as: str | None = None,
) -> list[Quad]:
    """Return what the catalog says of a redaction of a turn, with what its principal is.

    `node` is the redaction's IRI, from which the turn's follows; `stands_as` is the digest over the turn as it is then.
    """
    turn = NamedNode(turn_of(node.value))
    rows: list[tuple[NamedNode, NamedNode, NamedNode | Literal]] = [
        (node, vocab.DELETED_TURN, turn),
        (node, vocab.DIGEST, Literal(digest)),
    ]
    if stands_as is not None:
        rows.append((node, vocab.STANDS_AS, Literal(stands_as)))
    return [*(Quad(s, p, o, vocab.CATALOG) for s, p, o in rows), *_who(node, deed, places)]


def of_parts(node: NamedNode, deed: Deed, *, places: Iterable[str], parts: Iterable[str]) -> list[Quad]:
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


def record(tx: Transaction, parts: Iterable[str], deed: Deed, *, place: str) -> None:
    """Let a commit that takes texts out of records (`parts`: their IRIs) say so of each session that they belong to."""
    made: list[Leaf] = []
    by_session: dict[str, list[str]] = defaultdict(list)
    for part in dict.fromkeys(parts):
        by_session[iris.session_id(part)].append(part)
    for session_id, mine in by_session.items():
        node = NamedNode(iris.redaction(iris.session(session_id), secrets.token_hex(8)))
        said = of_parts(node, deed, places=[place], parts=mine)
        tx.add(said)
        made.append(leaves.redaction_leaf(node, [row for row in said if row.subject == node]))
    tx.log_leaves(made)


def turn_of(deletion: str) -> str:
    """Return the IRI of the turn that a redaction's IRI is made from."""
    return deletion.partition("/deletion")[0]


def next_of(store: Matching, turn: str) -> NamedNode:
    """Return the IRI for one more redaction of a turn."""
    number = 1
    while store.quads((NamedNode(iris.turn_deletion(turn, number)), None, None, vocab.CATALOG)):
        number += 1
    return NamedNode(iris.turn_deletion(turn, number))


# --- and back


def by_digest(store: Matching) -> dict[str, list[tuple[NamedNode, list[Quad]]]]:
    """Return the redactions of turns, each with its quads, by the turn's digest, oldest first."""
    found: dict[str, list[tuple[str, NamedNode, list[Quad]]]] = defaultdict(list)
    for quad in store.quads((None, vocab.DELETED_TURN, None, vocab.CATALOG)):
        node = NamedNode(_value(quad.subject))
        if not iris.is_turn_deletion(node.value):
            continue
        quads = store.quads((node, None, None, vocab.CATALOG))
        found[_one(quads, vocab.DIGEST)].append((_one(quads, vocab.ENDED_AT), node, quads))
    ordered = {digest: sorted(each, key=lambda made: (made[0], made[1].value)) for digest, each in found.items()}
    return {digest: [(node, quads) for _, node, quads in each] for digest, each in ordered.items()}


def standing(store: Matching, logged: Collection[Leaf] | None = None) -> dict[str, str]:
    """Return, by the digest of a turn, the digest over what it stands as since its newest redaction that says one.

    Given the leaves of redactions in the log, others do not count.
    """
    found: dict[str, str] = {}
    for digest, made in by_digest(store).items():
        for node, quads in made:
            if logged is not None and leaves.redaction_leaf(node, quads) not in logged:
                continue
            if stands_as := _one(quads, vocab.STANDS_AS):
                found[digest] = stands_as
    return found


def taken(store: Matching, logged: Collection[Leaf]) -> set[str]:
    """Return the IRIs of all that redactions in the log, other than of turns, took a text out of."""
    found: set[str] = set()
    for quad in store.quads((None, vocab.REDACTED_FROM, None, vocab.CATALOG)):
        node = NamedNode(_value(quad.subject))
        quads = store.quads((node, None, None, vocab.CATALOG))
        if iris.is_redaction(node.value) and leaves.redaction_leaf(node, quads) in logged:
            found |= {_value(each.object) for each in quads if each.predicate == vocab.REDACTED_PART}
    return found


def of_session(store: Matching, node: NamedNode) -> list[Quad]:
    """Return the redactions of what is said of a session, with what their principals are; those of turns apart."""
    found: list[Quad] = []
    for quad in store.quads((None, vocab.REDACTED_FROM, node, vocab.CATALOG)):
        found += store.quads((NamedNode(_value(quad.subject)), None, None, vocab.CATALOG))
    return found + _principals(store, found)


def rewritten(store: QuadStore, numbers: Mapping[Leaf, int]) -> dict[tuple[str, int], list[int]]:
    """Return when the record of a redaction was itself changed by one in the log, by what its leaf is of.

    `numbers` are those of the leaves of redactions in the log; what is returned are such numbers, least first.
    """
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for quad in store.quads((None, vocab.REDACTED_PART, None, vocab.CATALOG)):
        part, node = _value(quad.object), NamedNode(_value(quad.subject))
        if not (iris.is_turn_deletion(part) or iris.is_redaction(part)):
            continue
        number = numbers.get(leaves.redaction_leaf(node, store.quads((node, None, None, vocab.CATALOG))))
        if number is None:
            continue  # it is a finding itself
        of_turn = iris.is_turn_deletion(part)
        of = (iris.session(iris.session_id(part)), iris.turn_index(part)) if of_turn else (part, 0)
        found[of].append(number)
    return {of: sorted(each) for of, each in found.items()}


def belonging(store: QuadStore, quads: Iterable[Quad]) -> list[Quad]:
    """Return the redactions of the turns among the quads of a session's graph, with what their principals are.

    A copy that was made after the redaction has none of its own. For it stands one that says what its digest is and what
    it stands as, and neither who redacted the original, nor when, nor why.
    """
    known = by_digest(store)
    if not known:
        return []
    found: list[Quad] = []
    for quad in quads:
        turn = _value(quad.subject)
        made = known.get(_value(quad.object)) if quad.predicate == vocab.DIGEST else None
        if made is None or not iris.is_session(turn.partition("/")[0]) or "/" not in turn:
            continue
        own = [each for node, each in made if turn_of(node.value) == turn]
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


def with_digests_of(store: QuadStore, quads: Iterable[Quad]) -> list[Quad]:
    """Return all redactions with the digest of one of the turns among quads, whosever they are, and their principals."""
    known = by_digest(store)
    wanted = {_value(quad.object) for quad in quads if quad.predicate == vocab.DIGEST}
    found = [quad for digest in sorted(wanted) for _, rows in known.get(digest, []) for quad in rows]
    return found + _principals(store, found)


def _principals(store: Matching, quads: Iterable[Quad]) -> list[Quad]:
    named = (quad.object for quad in quads if quad.predicate == vocab.ASSOCIATED_WITH)
    who = dict.fromkeys(each for each in named if isinstance(each, NamedNode))
    return [quad for each in who for quad in store.quads((each, vocab.TYPE, None, vocab.CATALOG))]


# --- turns as they stand


def parts_of(store: Matching, turn: NamedNode) -> list[Quad]:
    """Return all quads of a turn: its own, and those of its calls, results, model call and compaction."""
    graph = NamedNode(iris.session(iris.session_id(turn.value)))
    own = store.quads((turn, None, None, graph))
    parts = {quad.object for quad in own if quad.predicate in (vocab.GENERATED_BY, vocab.HAS_RESULT)}
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
            rows.append((_value(quad.subject), quad.predicate.value, quad.object))
            if _value(quad.subject) == turn:
                own[quad.predicate] = quad.object
    missing = [each.value for each in _NEEDED if each not in own]
    if missing:
        raise IntegrityError(f"{turn} lacks {missing[0]}: the store was altered; `trails verify` says more")
    value = own[vocab.VALUE]
    datatype = value.datatype if isinstance(value, Literal) else None
    return StoredTurn(
        iri=turn,
        index=int(_value(own[vocab.INDEX])),
        role=_value(own[vocab.ROLE]),
        text=_value(value),
        structured=datatype == vocab.JSON,
        redacted=datatype == vocab.REDACTED,
        author_iri=_value(own[vocab.ATTRIBUTED_TO]),
        digest=_value(own[vocab.DIGEST]),
        salt=_value(own[vocab.SALT]),
        branch=_value(own[vocab.BRANCH]),
        time=parse_time(_value(own[vocab.TIME])) if vocab.TIME in own else None,
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
        return _one(store.quads((before.subject, vocab.DIGEST, None, graph)), vocab.DIGEST)  # type: ignore[arg-type] # an IRI
    return _one(store.quads((graph, vocab.FORK_HEAD, None, vocab.CATALOG)), vocab.FORK_HEAD)


def _one(quads: Iterable[Quad], predicate: NamedNode) -> str:
    return next((_value(quad.object) for quad in quads if quad.predicate == predicate), "")


def _value(term: object) -> str:
    return str(getattr(term, "value", term))
