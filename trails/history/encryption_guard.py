"""Refuse every commit that would write plain text into a store whose sessions are encrypted.

This is the one place: each commit of `Transaction` comes by here. A property whose texts may be plain is named below; the text of
every other one is encrypted, or its commit refused. So nothing slips by because a part of the product does not encrypt yet.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput
from trails.history.encryption import AROUND_TEXTS, AWAITED_PARENT, encryption_of, is_encrypted
from trails.integrity.key_ring import BYTES_PREFIX, PREFIX
from trails.model import iris
from trails.rdf import vocab as v
from trails.rdf.codec import subject_of, term_text
from trails.store.contract import QuadStore
from trails.store.embedded import EmbeddedStore

_KINDS: Final = frozenset({v.STRING, v.JSON})
_BYTES: Final = base64.b64encode(BYTES_PREFIX).decode()
_OPEN: Final = frozenset(
    {
        # a turn
        v.ROLE, v.BRANCH, v.DIGEST, v.SALT, v.SOURCE_ID, v.QUOTED_DIGEST, v.RESULT_DIGEST, v.TRIGGER, v.MAX_SUMMARY_RULE,
        v.MODEL, v.USAGE, v.STOP_REASON, v.PROVIDER, v.CALL_ID, v.TOOL_NAME, v.TOOL_OUTCOME, v.FACTS_DIGEST, v.CONTENT_DIGEST,
        v.MEDIA_TYPE, v.PAYLOAD_DIGEST, v.CALL_DIGEST, v.TOOL_SERVER, v.TOOL_VERSION,
        # a session's row, and what is left of it
        v.STATE, v.FORK_HEAD, v.KIND, v.LABEL, v.KEY, v.SOURCE_SESSION, v.CHANNEL, v.SLOT, v.TIER, v.REQUEST_KEY, v.ENCRYPTION,
        v.LEAF_SALT, v.ROW_SALT, v.FORK_DIGEST, v.DELETED_HEAD, v.DELETED_AT_ROOT, v.REASON, v.RULE, v.ACTION, v.ALTERED_FIELD,
        v.OLD_VALUE, v.NEW_VALUE, v.RERUN_OUTCOME,
        # who read, imported, exported, signed and backed up what; holds and rules of retention
        v.THROUGH, v.READ_THROUGH, v.READ_FOR, v.QUERY_NAME, v.QUERY_DIGEST, v.IMPORTER, v.IMPORTER_VERSION, v.ORIGIN,
        v.FILE_NAME, v.SHA256, v.SIGNED_HEAD, v.SIGNER_KEY, v.SIGNATURE, v.BACKUP_PLACE, v.HELD_BY, v.EXPORT_FORMAT,
        v.EXPORTED_HEAD, v.AT_LOG_HEAD, v.DISCLOSED_TO, v.PURPOSE, v.LEGAL_BASIS, v.HELD_SESSION, v.OF_LABEL, v.OF_QUERY,
        v.OF_KIND, v.OF_META, v.INCIDENT_KIND, v.REDACTED_PLACE, v.REDACTED_PART,
        # tags and refs, scores without words
        NamedNode(iris.meta(AWAITED_PARENT)), v.TAG_NAME, v.NAMED_DIGEST, v.REF_ID, v.MOVES_DIGEST, v.SCORE_NAME,
        v.SCORER_VERSION,
    }
)  # fmt: skip
"""Properties whose texts stay plain. Every other one is encrypted, or its commit refused."""


def check_commit(store: QuadStore, add: Sequence[Quad], more: Sequence[Quad]) -> None:
    """Raise `InvalidInput` for a commit that would write plain text into a store whose sessions are encrypted."""
    if encryption_of(store) is None and not (
        isinstance(store, EmbeddedStore) and store.quads((None, v.ENCRYPTION, None, v.CATALOG))
    ):
        return
    new = {quad.subject for quad in add if quad.predicate == v.TYPE and quad.object == v.SESSION}
    hidden = {quad.subject for quad in add if quad.predicate == v.ENCRYPTION}
    if plain := new - hidden:
        raise InvalidInput(
            f"session {iris.session_id(term_text(plain.pop()))!r} would be stored in plain, and the sessions of this store are "
            "encrypted: open the store with its keys (keys=..., --keys DIR or TRAILS_KEYS), and make sessions with create, "
            "session or fork. Nothing was written"
        )
    seen: dict[str, bool] = {}
    payloads = _encrypted_payloads(more) | _plain_payloads(store, add, hidden, seen)
    for quad in chain(add, more):
        text = quad.object
        if isinstance(text, Literal) and text.datatype in _KINDS and text.value and not _stays_plain(quad):
            if quad.predicate == v.BYTES_PART:
                is_allowed = quad.graph_name in payloads
            else:
                is_allowed = _is_envelope(text.value) or _is_of_plain(store, quad, hidden, seen)
            if not is_allowed:
                raise InvalidInput(
                    f"{quad.predicate.value.rpartition('#')[2]} of {term_text(quad.subject)} would be stored in plain, and the "
                    "sessions of this store are encrypted; this kind of record is not encrypted yet. Nothing was written"
                )


def _stays_plain(quad: Quad) -> bool:
    """Tell whether a text may be plain: not the reason of a score or of a ledger's entry, which speak of what was said."""
    if quad.predicate != v.REASON:
        return quad.predicate in _OPEN
    return iris.score_id(subject_of(quad)) is None and iris.entry_number(subject_of(quad)) is None


def _is_envelope(text: str) -> bool:
    return any(text.startswith(before + PREFIX) for before, _ in AROUND_TEXTS)


def _is_of_plain(store: QuadStore, quad: Quad, hidden: set[Any], seen: dict[str, bool]) -> bool:
    """Tell whether a quad stands in the graph of a session that is not encrypted."""
    graph = term_text(quad.graph_name) if isinstance(quad.graph_name, NamedNode) else ""
    if not iris.is_session(graph):
        return False
    if graph not in seen:
        is_new = NamedNode(graph) in hidden
        seen[graph] = not is_new and not is_encrypted(store, iris.session_id(graph))
    return seen[graph]


def _plain_payloads(store: QuadStore, add: Sequence[Quad], hidden: set[Any], seen: dict[str, bool]) -> set[Any]:
    """Return the payloads to which turns of plain sessions refer."""
    return {quad.object for quad in add if quad.predicate == v.PAYLOAD_OF and _is_of_plain(store, quad, hidden, seen)}


def _encrypted_payloads(quads: Sequence[Quad]) -> set[Any]:
    """Return the graphs of payloads whose first part begins as encrypted bytes do."""
    return {
        quad.graph_name
        for quad in quads
        if quad.predicate == v.BYTES_PART
        and subject_of(quad).endswith("/0")
        and term_text(quad.object).startswith(_BYTES)
    }
