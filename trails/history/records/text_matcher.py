"""Find a text in every form in which it may be stored, and replace it in names and short values.

The text may be plain, escaped as in JSON (also JSON within JSON), or percent-encoded as in IRIs; in content, arguments,
requests and metadata also in base64. The search is exact and case-sensitive. A short value that holds the text is replaced
whole. A name gets one new name everywhere, so that what belonged together still does; in a session key only the text itself
is replaced, because the rest says what kind of key it is.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from pyoxigraph import Literal, NamedNode, Quad

from trails.errors import InvalidInput
from trails.integrity.leaves import Leaf
from trails.model import iris, validation
from trails.model.values import Payload, Value
from trails.rdf import activity_records, vocab
from trails.secrets.hidden_texts import hidden_texts
from trails.store.pattern import Preview

SHORTEST_TEXT: Final = 2
"""Characters below which a text would be found nearly everywhere."""
_DEEPEST: Final = 8
"""How often escaped text is unescaped: JSON within JSON doubles its backslashes at every level."""
_NESTED: Final = 3
"""How often a text is escaped that is looked for in binary formats."""
_SHORTEST_RUN: Final = 8
"""Characters of base64 below which nothing is decoded."""
_UNLIKELY: Final = 4
"""Bytes of a text that do not stand in decoded words and pictures by chance; a shorter text is looked for in UTF-8 alone."""
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([\"\\/bfnrt]))")
_UNESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class TextMatcher:
    """A text that is looked for."""

    def __init__(self, text: str) -> None:
        """Look for a text; raise `InvalidInput` for one that is too short to be looked for."""
        self.text = validation.text(text, "the text to look for")
        if len(self.text.strip()) < SHORTEST_TEXT:
            raise InvalidInput(
                f"the text to look for must have {SHORTEST_TEXT} characters or more beside spaces, not {self.text!r}: "
                "a shorter one stands nearly everywhere"
            )
        if self.text in iris.UNNAMED:
            raise InvalidInput(f"{self.text!r} is part of {iris.UNNAMED!r}, which stands where something was taken out")

    def within(self, value: str) -> bool:
        """Tell whether a string holds the text, in any of its forms."""
        return any(self.text in form for form in text_forms(value))

    def within_encoded(self, value: str) -> bool:
        """Tell the same, also of what stands in the string in base64.

        >>> TextMatcher("Zoe Quark").within_encoded('{"file": "bmFtZTogWm9lIFF1YXJr"}')
        True
        """
        return self.within(value) or any(map(self._within_run, self._runs.findall(value)))

    @cached_property
    def _runs(self) -> re.Pattern[str]:
        """What may be base64, and is long enough to hold the text: most words are not, so few are decoded."""
        digits = -(-len(self.text.encode(errors="replace")) * 4 // 3)
        return re.compile(f"[A-Za-z0-9+/_-]{{{max(digits, _SHORTEST_RUN)},}}")

    def _within_run(self, run: str) -> bool:
        chance = len(self.text.encode(errors="replace")) < _UNLIKELY
        return any(self.within(text) for text in hidden_texts(run.encode()) if not (chance and "\ufffd" in text))

    def overwritten(self, data: bytes) -> bytes:
        """Return bytes in which all that is the text, in any of its forms, is overwritten with as many asterisks."""
        for form in self._byte_forms:
            data = data.replace(form, b"*" * len(form))
        return data

    @cached_property
    def _byte_forms(self) -> Sequence[bytes]:
        text, forms = self.text, dict[bytes, None]()
        for _ in range(_NESTED):
            forms |= dict.fromkeys(each.encode(errors="surrogatepass") for each in (text, quote(text, safe="")))
            forms[json.dumps(text)[1:-1].encode()] = None
            text = json.dumps(text, ensure_ascii=False)[1:-1]
        forms |= {self.text.encode(each): None for each in ("utf-16-le", "utf-16-be")}
        return sorted(forms, key=len, reverse=True)

    def scrubbed(self, value: Any) -> Any:
        """Return a JSON value without the text: every string, key or number that holds it is replaced as a whole."""
        match value:
            case dict():
                made: dict[str, Any] = {}
                for key, each in value.items():
                    name = _unused({*made, *value}) if self.within_encoded(key) else key
                    made[name] = self.scrubbed(each)
                return made
            case list():
                return [self.scrubbed(each) for each in value]
            case str():
                return iris.UNNAMED if self.within_encoded(value) else value
            case None | bool():
                return value
            case _:
                return iris.UNNAMED if self.within(json.dumps(value)) else value


def _unused(taken: set[str]) -> str:
    """Return a key for what stood under one that had to go."""
    names = (iris.UNNAMED if number == 1 else f"{iris.UNNAMED}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def text_forms(value: str) -> Iterator[str]:
    """Give a string as it is, without percent-encoding, and unescaped as often as it takes.

    >>> list(text_forms('{"a": "caf\\\\u00e9"}'))
    ['{"a": "caf\\\\u00e9"}', '{"a": "café"}']
    """
    yield value
    if "%" in value:
        yield unquote(value)
    for _ in range(_DEEPEST):
        if "\\" not in value:
            return
        value = _ESCAPE.sub(_unescaped, value)
        # A character beyond U+FFFF is escaped as two halves, which only together are one.
        value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        yield value


def _unescaped(found: re.Match[str]) -> str:
    code, letter = found.groups()
    return chr(int(code, 16)) if code else _UNESCAPED.get(letter, letter)


_NAMES: Final = frozenset(
    {vocab.TAG_NAME, vocab.REMOVED_TAG, vocab.SCORE_NAME, vocab.EVENT_ID, vocab.CALL_ID, vocab.SOURCE_ID, vocab.SLOT,
    vocab.MEMORY_ID, vocab.URI}
)  # fmt: skip
"""The properties whose values tell one thing from another: each gets a new value of its own."""
_KEYS: Final = frozenset(
    {vocab.KEY, vocab.ALIAS_KEY, vocab.REMOVED_ALIAS, vocab.FROM_KEY, vocab.TO_KEY, vocab.CHILD_KEY}
    | {vocab.REQUESTER_KEY, vocab.REQUESTER_DISPLAY_KEY}
)
_OPTIONAL: Final = frozenset({vocab.LABEL, vocab.FORMER_LABEL})
"""The properties that go with their values: two sessions cannot share a label."""
_NOBODYS: Final = frozenset(
    {
        vocab.REQUEST_KEY, vocab.REQUEST_DIGEST,
        vocab.TYPE, vocab.DIGEST, vocab.SALT, vocab.NAMED_DIGEST, vocab.QUOTED_DIGEST, vocab.RESULT_DIGEST, vocab.FORK_HEAD,
        vocab.FACTS_DIGEST, vocab.STANDS_AS, vocab.HEAD_BEFORE, vocab.HEAD_AFTER, vocab.SHA256, vocab.STATE, vocab.DIRECTION,
        vocab.QUEUE_MODE, vocab.OUTCOME, vocab.FROM_STATE, vocab.TO_STATE, vocab.STATUS, vocab.ARTIFACT_CHANGE, vocab.ACTION,
        vocab.CLEANUP, vocab.RUN_OUTCOME, vocab.ANNOUNCED_HOW, vocab.REDACTED_PLACE, vocab.BRANCH,
        vocab.REF_ID, vocab.MOVES_DIGEST,
        vocab.LEAF_SALT, vocab.ROW_SALT, vocab.FORK_DIGEST, vocab.CALL_DIGEST, vocab.TASK_SALT, vocab.TASK_DIGEST,
        vocab.CONTENT_DIGEST, vocab.BYTES_PART, vocab.INCIDENT_KIND,
        vocab.LEGAL_BASIS,
        vocab.EXPORT_FORMAT,
        vocab.EXPORTED_HEAD,
        vocab.AT_LOG_HEAD, vocab.THROUGH, vocab.QUERY_DIGEST,
        vocab.SIGNED_HEAD, vocab.SIGNATURE, vocab.DELETED_HEAD, vocab.DELETED_AT_ROOT, vocab.IMPORTER, vocab.IMPORTER_VERSION,
    }
)  # fmt: skip
"""The properties whose values are Trails' own words, or made by it: no person's text is in them."""
ADAPTER_KEYS: Final = frozenset(
    {
        "langgraph", "langgraph_thread", "langgraph_namespace", "langgraph_items", "openaiSession", "claudeProject",
        "claudeSession", "claudeSubpath", "adk_app", "adk_user", "adk_session",
    }
)  # fmt: skip
"""Keys of sessions' metadata by which an adapter finds its sessions: Trails' own words, unlike their values."""
_ADAPTER_VALUES: Final = frozenset({("langgraph", "thread"), ("langgraph", "items")})
_ROLES: Final = frozenset({"user", "assistant", "tool", "system", "summary", "info", "event"})
_TEXTUAL: Final = frozenset({vocab.STRING, vocab.JSON})
_DECODED: Final = frozenset({vocab.VALUE, vocab.ARGUMENTS, vocab.REQUEST, vocab.META})
"""The properties in whose values base64 is decoded, beside the keys of metadata."""
_FIELDS: Final = frozenset(vocab.ENTRY_FIELDS.values())


def is_personal(quad: Quad) -> bool:
    """Tell whether a quad's value is a text that somebody may have put there, and that still is there."""
    value, predicate = quad.object, quad.predicate
    if predicate in _NOBODYS or not isinstance(value, Literal):
        return False
    if (pseudonym_of(predicate), value.value) in _ADAPTER_VALUES:
        return False
    if predicate == vocab.ROLE and value.value in _ROLES:
        return False
    if value.datatype in _TEXTUAL:
        return True
    any_kind = pseudonym_of(predicate) is not None or predicate in _FIELDS or predicate == vocab.REQUESTER_THREAD
    return any_kind and value.datatype != vocab.REDACTED


@lru_cache(maxsize=4096)  # every quad of a store is asked
def pseudonym_of(predicate: NamedNode) -> str | None:
    """Return the name that somebody gave a property: a key of metadata, a field of a session's entry; None for others."""
    key = iris.meta_key(predicate.value)
    return iris.entry_field_name(predicate.value) if key is None else key


class Pseudonyms:
    """What stands in the place of the values that hold one text."""

    def __init__(self, needle: TextMatcher) -> None:
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
            if is_personal(quad) and self._in_text(quad.predicate, value.value):
                return True
        elif isinstance(value, NamedNode) and self.iri(value) != value:
            return True
        name = pseudonym_of(quad.predicate) or ""
        return name not in ADAPTER_KEYS and self._needle.within(name)

    def quad(self, quad: Quad) -> Quad | None:
        """Return what stands in a quad's place, or None where it goes altogether."""
        value, subject = quad.object, quad.subject
        if pseudonym_of(quad.predicate) is not None and self.holds(quad):
            return None
        if isinstance(value, NamedNode):
            value = self.iri(value)
        elif isinstance(value, Literal) and is_personal(quad) and self._in_text(quad.predicate, value.value):
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

    def _in_text(self, predicate: NamedNode, text: str) -> bool:
        may_be_encoded = predicate in _DECODED or pseudonym_of(predicate) is not None
        return self._needle.within_encoded(text) if may_be_encoded else self._needle.within(text)

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
        made = json.dumps(self._needle.scrubbed(json.loads(text)), ensure_ascii=False, separators=(",", ":"))
        return "{}" if self._needle.within_encoded(made) else made

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


_OURS: Final = frozenset({activity_records.UNKNOWN_ACTOR, activity_records.STORE_KEEPER})
"""Who did what nobody is named for, and what falls due: nobody's names."""
_RENAMED: Final = tuple(
    made("") for made in (iris.principal, iris.agent, iris.tool, iris.tag, iris.conversation, iris.alias)
)


LOGGED_IDS: Final = {"session id": "ids of sessions are in the log, which nothing is taken out of: delete the session, or "
    "import its turns under another id", "run id": "ids of runs, and keys of runs without a session, are in the log, which "
    "nothing is taken out of"}  # fmt: skip
"""Why an id stays, by what it is of."""


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
    makers: list[Callable[[Preview], Sequence[Leaf]]] = field(default_factory=list)
    """What looks at the store as it will be, and joins the commit."""
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


class Erasure:
    """A text that is being taken out of a store, and what was worked out so far."""

    def __init__(self, needle: TextMatcher, new: Pseudonyms, found: Changed) -> None:
        self.needle = needle
        self.new = new
        """What stands in the place of what holds the text."""
        self.found = found
        self.payloads: dict[NamedNode, Payload] = {}
        """What takes the place of payloads that hold the text, by the IRI of each."""
        self.about: dict[str, list[Quad]] = {}
        """What the catalog says, by subject."""
        self.salts: dict[str, str] = {}
        """Random bits that were drawn anew, by what they belong to."""

    def place(self, session_id: str | None, kind: str, iri: str, index: int | None = None) -> None:
        """Take note of a place out of which the text goes."""
        self.found.places[Place(session_id=session_id, kind=kind, iri=iri, index=index)] = None

    def leave(self, session_id: str | None, kind: str, iri: str, why: str, index: int | None = None) -> None:
        """Take note of a place where the text stays, and why."""
        self.found.left[Place(session_id=session_id, kind=kind, iri=iri, index=index, why=why)] = None

    def without(self, quads: Iterable[Quad]) -> list[Quad]:
        """Return quads with every value and name that holds the text replaced, or gone."""
        return [new for quad in quads if (new := self.new.quad(quad)) is not None]

    def is_live(self, session_id: str) -> bool:
        """Tell whether a session is there, and was not deleted."""
        about: Sequence[Quad] = self.about.get(iris.session(session_id), [])
        return any(quad.object == vocab.SESSION for quad in about)
