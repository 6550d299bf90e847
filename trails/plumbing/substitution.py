"""What stands in the place of a text that is taken out of names, keys and other short values. Pure.

Every value that holds the text goes as a whole. What names something gets a new name, the same wherever it stands, so that
what belonged together still does; of a key only the text itself goes, for the rest says what kind of key it is.
"""

from __future__ import annotations

import json
import secrets
from functools import lru_cache
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, vocab
from trails.plumbing import actors
from trails.plumbing.needle import Needle

_NAMES: Final = frozenset(
    {vocab.TAG_NAME, vocab.REMOVED_TAG, vocab.SCORE_NAME, vocab.EVENT_ID, vocab.CALL_ID, vocab.SOURCE_ID, vocab.SLOT,
    vocab.MEMORY_ID, vocab.URI}
)  # fmt: skip
"""The properties whose values tell one thing from another: each gets a new value of its own."""
_KEYS: Final = frozenset(
    {
        vocab.KEY,
        vocab.ALIAS_KEY,
        vocab.REMOVED_ALIAS,
        vocab.FROM_KEY,
        vocab.TO_KEY,
        vocab.CHILD_KEY,
        vocab.REQUESTER_KEY,
    }
    | {vocab.REQUESTER_DISPLAY_KEY}
)
_OPTIONAL: Final = frozenset({vocab.LABEL, vocab.FORMER_LABEL})
"""The properties that go with their values: two sessions cannot share a label."""
_NOBODYS: Final = frozenset(
    {
        vocab.TYPE, vocab.DIGEST, vocab.SALT, vocab.NAMED_DIGEST, vocab.QUOTED_DIGEST, vocab.RESULT_DIGEST, vocab.FORK_HEAD,
        vocab.FACTS_DIGEST, vocab.STANDS_AS, vocab.HEAD_BEFORE, vocab.HEAD_AFTER, vocab.SHA256, vocab.STATE, vocab.DIRECTION,
        vocab.QUEUE_MODE, vocab.OUTCOME, vocab.FROM_STATE, vocab.TO_STATE, vocab.STATUS, vocab.ARTIFACT_CHANGE, vocab.ACTION,
        vocab.CLEANUP, vocab.RUN_OUTCOME, vocab.ANNOUNCED_HOW, vocab.REDACTED_PLACE, vocab.BRANCH,
        vocab.LEAF_SALT, vocab.ROW_SALT, vocab.FORK_DIGEST, vocab.CALL_DIGEST, vocab.TASK_SALT, vocab.TASK_DIGEST,
        vocab.SIGNED_HEAD, vocab.SIGNATURE, vocab.DELETED_HEAD, vocab.DELETED_AT_ROOT, vocab.IMPORTER, vocab.IMPORTER_VERSION,
    }
)  # fmt: skip
"""The properties whose values are Trails' own words, or made by it: no person's text is in them."""
_ROLES: Final = frozenset({"user", "assistant", "tool", "system", "summary"})
_TEXTUAL: Final = frozenset({vocab.STRING, vocab.JSON})
_FIELDS: Final = frozenset(vocab.ENTRY_FIELDS.values())


def is_of_somebody(quad: Quad) -> bool:
    """Tell whether a quad's value is a text that somebody may have put there, and that still is there."""
    value, predicate = quad.object, quad.predicate
    if predicate in _NOBODYS or not isinstance(value, Literal):
        return False
    if predicate == vocab.ROLE and value.value in _ROLES:
        return False
    if value.datatype in _TEXTUAL:
        return True
    any_kind = name_of(predicate) is not None or predicate in _FIELDS or predicate == vocab.REQUESTER_THREAD
    return any_kind and value.datatype != vocab.REDACTED


@lru_cache(maxsize=4096)  # every quad of a store is asked
def name_of(predicate: NamedNode) -> str | None:
    """Return the name that somebody gave a property: a key of metadata, a field of a session's entry; None for others."""
    key = iris.meta_key(predicate.value)
    return iris.entry_field_name(predicate.value) if key is None else key


class Substitution:
    """What stands in the place of the values that hold one text."""

    def __init__(self, needle: Needle) -> None:
        """Take a text out; new names are drawn once for each old one."""
        self._needle = needle
        self._token = self._new_name()
        self._names: dict[str, str] = {}

    def holds(self, quad: Quad) -> bool:
        """Tell whether a quad has a value, a property or a name with the text in it (ids of sessions and runs apart)."""
        return self.holds_value(quad) or (
            isinstance(quad.subject, NamedNode) and self.iri(quad.subject) != quad.subject
        )

    def holds_value(self, quad: Quad) -> bool:
        """Tell the same of its value and its property, whatever it is said of."""
        value = quad.object
        if isinstance(value, Literal):
            if is_of_somebody(quad) and self._needle.within(value.value):
                return True
        elif isinstance(value, NamedNode) and self.iri(value) != value:
            return True
        return self._needle.within(name_of(quad.predicate) or "")

    def quad(self, quad: Quad) -> Quad | None:
        """Return what stands in a quad's place, or None where it goes altogether."""
        value, subject = quad.object, quad.subject
        if name_of(quad.predicate) is not None and self.holds(quad):
            return None
        if isinstance(value, NamedNode):
            value = self.iri(value)
        elif isinstance(value, Literal) and is_of_somebody(quad) and self._needle.within(value.value):
            if quad.predicate in _OPTIONAL:
                return None
            value = self._literal(quad.predicate, value)
        if isinstance(subject, NamedNode):
            subject = self.iri(subject)
        return Quad(subject, quad.predicate, value, quad.graph_name)

    def iri(self, node: NamedNode) -> NamedNode:
        """Return the IRI that stands in the place of one that is made from a name or a key with the text in it."""
        name = node.value
        if not name.startswith(_RENAMED) or name in _OURS:
            return node
        if iris.is_author(name):
            return NamedNode(iris.unnamed(name)) if any(map(self._needle.within, iris.author_words(name))) else node
        head, slash, rest = name.partition("/")
        if (tag := iris.tag_name(head)) is not None:
            head = iris.tag(self._name(tag))
        elif (key := iris.conversation_key(head)) is not None:
            head = iris.conversation(self._key(key))
        elif (alias := iris.alias_key(head)) is not None:
            head = iris.alias(self._key(alias))
        return NamedNode(head + slash + rest)

    def _literal(self, predicate: NamedNode, literal: Literal) -> Literal:
        if predicate in _NAMES:
            return Literal(self._name(literal.value))
        if predicate in _KEYS:
            return Literal(self._key(literal.value))
        if literal.datatype == vocab.JSON:
            return Literal(self._json(literal.value), datatype=vocab.JSON)
        return Literal(iris.UNNAMED)

    def _json(self, text: str) -> str:
        """Return JSON text without the text; nothing but an empty object where it stands across several values."""
        made = json.dumps(self._needle.scrubbed(json.loads(text)), ensure_ascii=False)
        return "{}" if self._needle.within(made) else made

    def _name(self, name: str) -> str:
        if not self._needle.within(name):
            return name
        return self._names.setdefault(name, self._new_name())

    def _new_name(self) -> str:
        while True:
            made = f"{iris.UNNAMED}-{secrets.token_hex(4)}"
            if not self._needle.within(made):
                return made

    def _key(self, key: str) -> str:
        """Return a key with another word in the text's place; another key altogether where it stands there encoded."""
        if not self._needle.within(key):
            return key
        made = key.replace(self._needle.text, self._token)
        return self._name(key) if self._needle.within(made) else made


_OURS: Final = frozenset({actors.UNKNOWN, actors.KEEPER})
"""Who did what nobody is named for, and what falls due: nobody's names."""
_RENAMED: Final = tuple(
    made("") for made in (iris.principal, iris.agent, iris.tool, iris.tag, iris.conversation, iris.alias)
)
