"""The frozen values that everything else passes around: turns, what is recorded with them, and session records."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trails.display import html, tables, terminal_text, text_table
from trails.display.terminal_text import count
from trails.errors import NoSuchName
from trails.model import iris
from trails.model.validation import InvalidFields, stored_json, stored_object
from trails.suggestions import did_you_mean, synonyms
from trails.usage import Counts, cost_of, counts_of

MAX_FORK_DEPTH: Final = 32
"""How many ancestors by forks a session may have; the 33rd is refused (ADR-0018a, "Fork depth guard")."""

MAIN: Final = "main"
"""The branch name of every session that is not a fork."""

"""How many characters of its line a turn's role may take, with what stands before it."""

Trigger = Literal["overflow", "threshold", "manual", "periodic"]

(
    _set_values,
    _set_fields,
    _set_extra,
    _set_private,
) = (  # a model's slots, without a look-up by name for each of thousands
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


_SYNONYMS: Final = synonyms("""
    timestamp date created_at at: time created; message body said: text content; type kind: role kind on; user owner: author
    principal; tokens: usage; name title: name label id; session_id: id session_id; tags metadata: meta; id: index session_id;
    args input parameters: arguments; function tool: name; hash sha: digest; score: value; parent parent_id: parent_session_id
""")
"""What people look for that has another name here, where the value has one of those."""


class Value(BaseModel):
    """A frozen value; fields cannot be assigned."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    if not TYPE_CHECKING:  # type checkers know the fields

        def __init__(self, *args, **values):
            """Refuse fields that cannot be; raises `InvalidFields`, in words."""
            if args:
                raise InvalidFields(
                    f"the fields of a {type(self).__name__} are given by name: {_fields_in_words(type(self))}"
                )
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InvalidFields(_wrong_fields(type(self), error)) from None

        __init__.__pydantic_base_init__ = True  # what stands in another value is validated with it, without this

        def __setattr__(self, name, value):
            """Refuse any change; raises `NoSuchName`."""
            raise NoSuchName(f"a {type(self).__name__} is frozen: its {name!r} cannot be set; nothing was changed")

        def __getattr__(self, name):
            """Say what there is instead of a field that is not there; pydantic's own names are pydantic's."""
            kind = type(self)
            if name.startswith("_") or hasattr(kind, name):  # a property raised an AttributeError of its own
                return super().__getattr__(name)
            there = [each for each in (*kind.model_fields, *dir(kind)) if not each.startswith(("_", "model_"))]
            hint = did_you_mean(name, there, meant=_SYNONYMS) or f"; it has {', '.join(kind.model_fields)}"
            raise NoSuchName(f"a {kind.__name__} has no {name!r}{hint}")

        def __getitem__(self, key):
            """Say that this is no dict."""
            kind = type(self).__name__
            raise NoSuchName(
                f"a {kind} is no dict, and has no [{key!r:.40}]: its fields are attributes, as in {kind.lower()}.{key}; "
                "model_dump() gives a dict"
            )

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """Return a value of fields that were validated before (on writing)."""
        made: Self = _maker(cls)(values)
        return made

    @classmethod
    def maker(cls) -> Callable[[dict[str, Any]], Self]:
        """Return `trusted`, for where thousands are made: a third of its time."""
        return _maker(cls)

    @classmethod
    def trusted_all(cls, values: Sequence[dict[str, Any]]) -> list[Self]:
        """Return a value of each of many sets of fields that were validated before: two thirds of the time of `maker`."""
        made = list(map(object.__new__, repeat(cls, len(values))))
        for put, given in (
            (_set_values, values),
            (_set_fields, repeat(_names_of(cls))),
            (_set_extra, repeat(None)),
            (_set_private, repeat(None)),
        ):
            deque(map(put, made, given), maxlen=0)  # a loop in C
        return made

    def __repr__(self) -> str:
        return terminal_text.repr_line(type(self).__name__, self._told())

    __str__ = __repr__

    def _told(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields that say something, those that have their defaults left out."""
        values = self.__dict__
        for name, field in type(self).model_fields.items():
            value = values.get(name)
            if field.repr and (field.is_required() or value != field.default) and value not in ((), None):
                yield name, value


def _shorten_id(session_id: str) -> str:
    return terminal_text.shorten_name(session_id, terminal_text.NAME_WIDTH)


def _wrong_fields(kind: type[Value], error: ValidationError) -> str:
    """Return what is wrong with the fields of a value, without what was given: that may be long, or secret."""
    told: list[str] = []
    for each in error.errors(include_url=False, include_input=False)[:3]:
        field = ".".join(map(str, each["loc"]))
        unknown = each["type"] == "extra_forbidden"
        told.append(
            f"it has no {field!r}{did_you_mean(field, kind.model_fields)}" if unknown else f"{field}: {each['msg']}"
        )
    return f"this is no {kind.__name__}: {'; '.join(told)}; it has {_fields_in_words(kind)}"


def _fields_in_words(kind: type[Value]) -> str:
    return ", ".join(f"{name}{'' if field.is_required() else '=...'}" for name, field in kind.model_fields.items())


@cache
def _names_of(kind: type[Value]) -> set[str]:
    """Return the names of the fields of a kind of values: one set serves all of them, they are frozen."""
    return set(kind.model_fields)


@cache
def _maker(kind: type[Value]) -> Callable[[dict[str, Any]], Any]:
    """Return what makes trusted values of a kind."""
    fields = _names_of(kind)

    new, set_values, set_fields = object.__new__, _set_values, _set_fields  # nearer than a module's names
    set_extra, set_private = _set_extra, _set_private

    def make(values: dict[str, Any]) -> Any:
        made = new(kind)
        set_values(made, values)
        set_fields(made, fields)
        set_extra(made, None)
        set_private(made, None)
        return made

    return make


class ToolCall(Value):
    """A tool that a turn asked for. `arguments` is JSON text, byte for byte as written.

    Once redacted, `arguments` is None and `withheld` is the salted digest of what stood there.
    """

    id: str
    name: str
    arguments: str | None
    withheld: str | None = None

    @property
    def input(self) -> Any:
        """The arguments as Python values (a fresh copy each time), or None when they were redacted."""
        return None if self.arguments is None else stored_json(self.arguments)


ToolOutcome = Literal["completed", "failed", "refused", "cancelled", "timed-out"]


class ToolResult(Value):
    """A turn's answer to a tool call, and what is told of that call; `call_id` is the call's own id.

    `started` and `ended` are aware times: when the tool began and ended. `approved_by` and `refused_by` say who let it run,
    or did not: a principal's name or `agent:NAME`; stored, the IRI. `server` and `version` are the tool's own.
    """

    call_id: str
    is_error: bool = False
    started: datetime | None = None
    ended: datetime | None = None
    outcome: ToolOutcome | None = None
    approved_by: str | None = None
    refused_by: str | None = None
    server: str | None = None
    version: str | None = None
    tool: str | None = None
    """The tool's name, where its server or its version is told: that of the call which is answered."""

    @classmethod
    def plain(cls, call_id: str, *, is_error: bool) -> Self:
        """Return an answer of which no more is told, unvalidated."""
        return cls.trusted(PLAIN_RESULT | {"call_id": call_id, "is_error": is_error})

    @property
    def told(self) -> dict[str, Any]:
        """What is told of the call beyond its error, by field; empty for a plain answer."""
        values = self.__dict__
        return {name: values[name] for name in _TOLD_OF_TOOLS if values[name] is not None}

    @property
    def came_out(self) -> str:
        """How the call came out, in one word, where it is told that it did not work; else empty."""
        return ("failed" if self.is_error else "") if self.outcome in (None, "completed") else str(self.outcome)

    @property
    def tool_iri(self) -> str | None:
        """The IRI of the tool, where its name is told."""
        return None if self.tool is None else iris.tool(self.tool, self.server, self.version)

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain values, ready for JSON: of what is told only what is known, people by their names."""
        told = self.told
        for name in ("started", "ended"):
            if name in told:
                told[name] = told[name].isoformat()
        for name in ("approved_by", "refused_by"):
            if name in told:
                told[name] = iris.author_name(told[name])
        return {"call_id": self.call_id, "is_error": self.is_error, **told}


_TOLD_OF_TOOLS: Final = (
    "started", "ended", "outcome", "approved_by", "refused_by", "server", "version", "tool",
)  # fmt: skip
PLAIN_RESULT: Final[dict[str, Any]] = dict.fromkeys(_TOLD_OF_TOOLS)
"""The fields of an answer of which no more is told, but for the call and whether it failed."""


class ContextUsed(Value):
    """Which turns a model was shown, as a rule over the indices of the session's transcript.

    All turns up to the index `through` (inclusive; all before the answer where it is not told), from the summary turn at the
    index `summary` on (else from the last one), but for the indices `left_out`.
    """

    through: int | None = None
    summary: int | None = None
    left_out: tuple[int, ...] = ()


class Call(Value):
    """What is told of a model call beside model, usage and stop reason.

    `started` and `ended` are aware times, `provider` is who served the model, `prompt` the version of the session's system
    prompt that was sent, `context` the turns that were shown where not all since the last summary were.
    """

    started: datetime | None = None
    ended: datetime | None = None
    provider: str | None = None
    prompt: int | None = None
    context: ContextUsed | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what is told as plain values, ready for JSON."""
        plain = self.model_dump(exclude_none=True)
        return plain | {name: plain[name].isoformat() for name in ("started", "ended") if name in plain}


CUT: Final = "failed-partial"
"""The stop reason of a turn that broke off while it was written."""


class ModelCall(Value):
    """The model call that generated a turn: model name, token usage as JSON text as reported, and why it stopped."""

    model: str | None = None
    usage_json: str | None = None
    stop_reason: str | None = None
    call: Call | None = None
    """What else is told of it."""

    @property
    def usage(self) -> dict[str, Any]:
        """The token usage as reported, under its source's names (a fresh copy each time)."""
        return stored_object(self.usage_json)

    @property
    def counts(self) -> Counts:
        """What the call read and wrote in tokens, counted the same way for all sources; None for what was not reported."""
        return counts_of(self.usage)

    @property
    def reported(self) -> tuple[int | None, int | None, Decimal | None]:
        """Uncached input tokens, output tokens and cost; None for what was not reported."""
        usage = self.usage
        counts = counts_of(usage)
        return counts.input, counts.output, cost_of(usage)


_TURN_IRI: Final = r'^urn:trails:session:[^/\s<>"{}|\\^`]+/[0-9]+-[0-9a-f]{16}$'


class Compaction(Value):
    """What a summary turn stands for, and how it was made.

    Indices are of the session's own transcript, `summarised_through` inclusive. `trigger` is one of `Trigger` where
    Trails made it ("overflow" is what others call context_limit), or as the source of an import says.
    """

    summarised_through: int | None = None
    first_kept: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    trigger: str | None = None
    summarised_from: int | None = None
    """The first index that the summary was made from; what lies before it is in the summary before, which it was given."""
    summarised_turns: int | None = None
    """How many turns it was made from, the summary before it not counted."""
    previous_summary: str | None = Field(default=None, pattern=_TURN_IRI)
    """The IRI of the summary turn before it that it was made from too."""
    request: str | None = None
    """What the summariser was asked for. Once redacted, None, and `request_withheld` its salted digest."""
    request_withheld: str | None = None
    max_summary_tokens: int | None = None
    """The greatest length that was asked for, in tokens."""
    max_summary_rule: str | None = None
    """Whether that length was `fixed`, or `computed` from what was summarised."""
    duration_ms: int | None = None
    """How long the summariser took, in milliseconds."""

    @property
    def has_activity(self) -> bool:
        """Whether more is known of the compaction than its result, so that it is stored as an activity of its own."""
        return any(getattr(self, name) is not None for name in _OF_ACTIVITY)


_OF_ACTIVITY: Final = (
    "previous_summary",
    "request",
    "request_withheld",
    "max_summary_tokens",
    "max_summary_rule",
    "duration_ms",
)


class Quote(Value):
    """The turn that another one was picked from: its owner then, its index and its digest, which copies share."""

    session_id: str
    index: int
    digest: str

    @property
    def iri(self) -> str:
        """The IRI of the turn that was quoted; it names nothing any more once that is deleted."""
        return iris.turn(iris.session(self.session_id), self.index, self.digest)


class Derivation(Value):
    """What a turn was made from: the result of a spawned session, or the outcome of a branch that was taken.

    A result is an entry of the session's ledger, by its `number`. A branch is named by the turn that was its head, by `index`.
    The other of the two is None; `digest` is the result's or the turn's.
    """

    session_id: str
    number: int | None = None
    index: int | None = None
    digest: str

    @property
    def iri(self) -> str:
        """The IRI of the result or of the turn; it names nothing any more once its session is deleted."""
        owner = iris.session(self.session_id)
        if self.index is not None:
            return iris.turn(owner, self.index, self.digest)
        assert self.number is not None  # noqa: S101 - one of the two
        return iris.ledger_entry(owner, self.number)


class Payload(Value):
    """Bytes that a turn is to carry beside its content, as `Session.append` takes them.

    `media_type` says what the bytes are, `name` which of a turn's payloads they are.

    >>> import trails
    >>> trails.Payload(data=b"{}", media_type="application/json", name="state").digest[:8]
    '44136fa3'
    """

    data: bytes = Field(repr=False, strict=True)
    media_type: str = "application/octet-stream"
    name: str | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, as 64 hex digits."""
        return hashlib.sha256(self.data).hexdigest()


class PayloadReference(Value):
    """A payload of a turn: its name, media type, size in bytes, and the SHA-256 by which the store keeps its bytes once.

    Once redacted, `digest` is None and `withheld` the salted digest of it.
    """

    name: str | None = None
    media_type: str
    digest: str | None
    size: int
    withheld: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the reference as plain values, ready for JSON."""
        return self.model_dump(exclude_none=True)


class Facts(Value):
    """Everything recorded with a turn beyond its text: who generated it, tools asked and answered, where it came from."""

    model_call: ModelCall | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    compaction: Compaction | None = None
    source_ids: tuple[str, ...] = ()
    meta_json: str | None = None
    meta_withheld: str | None = None
    """The salted digest of redacted metadata."""
    quoted_from: Quote | None = None
    """The turn that this one was cherry-picked from."""
    derived_from: Derivation | None = None
    """The result of a spawned session that this turn says."""
    withheld: str | None = None
    """The digest over all facts as they were, once a text was taken out of those that have no digest of their own."""
    payloads: tuple[PayloadReference, ...] = ()
    content_digest: str | None = None
    """The salted digest of the turn's content as it was made, once the turn has another salt: a value was taken out of its
    metadata or of a payload, which could be guessed by the first one."""

    @property
    def is_cut(self) -> bool:
        """Whether the turn broke off while it was written."""
        return self.model_call is not None and self.model_call.stop_reason == CUT

    def is_empty(self) -> bool:
        """Tell whether nothing was recorded: the case of a plain turn."""
        if self is NO_FACTS:
            return True
        quick = (
            self.model_call
            or self.tool_calls
            or self.tool_results
            or self.source_ids
            or self.meta_json
            or self.payloads
        )
        return not quick and self == NO_FACTS


NO_FACTS: Final = Facts()


class Turn(Value):
    """One message of a session: immutable, chained to the turn before it by digest."""

    session_id: str
    index: int
    role: str
    branch: str
    author_iri: str
    time: datetime | None
    text: str
    """The content as stored: plain text, or the JSON text of structured parts."""
    structured: bool
    redacted: bool
    digest: str
    facts: Facts = NO_FACTS
    old_iri: str | None = None
    """The IRI of a turn from before digests existed, which cannot be told from its index and digest."""

    def __repr__(self) -> str:
        cut = f", {CUT}" if self.is_cut else ""
        return terminal_text.tag_line(f"Turn {self.index} {self.role}{cut}", self._readable())

    __str__ = __repr__

    def _readable(self) -> str:
        """Return what the turn says and the calls that it makes, as lines."""
        said = "(redacted)" if self.redacted else html.readable(self.content)
        calls = [
            f"-> {call.name} {'(redacted)' if call.arguments is None else call.arguments}" for call in self.tool_calls
        ]
        return "\n".join([*([said] if said else []), *calls])

    @property
    def content(self) -> Any:
        """The text, or the list of parts (a fresh copy each time: the stored turn cannot be changed through it)."""
        return stored_json(self.text) if self.structured else self.text

    def as_html(self, *, faint: bool = False) -> str:
        """Return the turn as HTML for a notebook: index, role, who and when, and its text, cut where it is long."""
        when = None if self.time is None else f"{self.time:%Y-%m-%d %H:%M:%S}"
        heading = (self.index, self.author, self.model, when, CUT if self.is_cut else None)
        return html.message(self.role, heading, self._readable(), faint=faint)

    @html.safe
    def _repr_html_(self) -> str:
        return html.box(f"turn {self.index} of {html.inline(self.session_id)}", [self.as_html()])

    @property
    def iri(self) -> str:
        """The turn's IRI; provisional until the turn is persisted."""
        return self.old_iri or iris.turn(iris.session(self.session_id), self.index, self.digest)

    @property
    def author(self) -> str:
        """The plain name of the principal or agent that the turn is attributed to."""
        return iris.author_name(self.author_iri)

    @property
    def model(self) -> str | None:
        """The model that generated the turn, where one was recorded."""
        return self.facts.model_call.model if self.facts.model_call else None

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped, where that was recorded; `failed-partial` for a turn that broke off."""
        return self.facts.model_call.stop_reason if self.facts.model_call else None

    @property
    def is_cut(self) -> bool:
        """Whether the turn broke off while it was written: its text is not whole."""
        return self.facts.is_cut

    @property
    def usage(self) -> dict[str, Any]:
        """The token usage reported for the turn, under its source's names; empty where none was recorded."""
        return self.facts.model_call.usage if self.facts.model_call else {}

    @property
    def call(self) -> Call | None:
        """What was told of the model call that generated the turn beside model, usage and stop reason."""
        return self.facts.model_call.call if self.facts.model_call else None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that the turn asked for, in order."""
        return self.facts.tool_calls

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool calls that the turn answers, in order."""
        return self.facts.tool_results

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The ids of the source records that the turn was imported from, sorted; empty for a turn written here."""
        return self.facts.source_ids

    @property
    def compaction(self) -> Compaction | None:
        """What the turn summarises, where it is a summary turn."""
        return self.facts.compaction

    @property
    def quoted_from(self) -> Quote | None:
        """The turn that this one was cherry-picked from, or that a rerun played in it, where that is so."""
        return self.facts.quoted_from

    @property
    def derived_from(self) -> Derivation | None:
        """The result of a spawned session, or the outcome of a fork, that the turn says, where it does."""
        return self.facts.derived_from

    @property
    def payloads(self) -> tuple[PayloadReference, ...]:
        """What the turn carries beside its content, in order: `Session.payload` gives the bytes of each."""
        return self.facts.payloads

    @property
    def meta(self) -> dict[str, Any]:
        """Whatever else was kept with the turn (a fresh copy each time)."""
        return stored_object(self.facts.meta_json)

    def to_dict(self) -> dict[str, Any]:
        """Return the turn as plain values, ready for JSON."""
        plain: dict[str, Any] = {
            "index": self.index,
            "role": self.role,
            "content": self.content,
            "branch": self.branch,
            "author": self.author,
            "time": self.time.isoformat() if self.time else None,
            "session": self.session_id,
            "digest": self.digest,
            "iri": self.iri,
        }
        if self.redacted:
            plain["redacted"] = True
        if self.facts.model_call:
            call = self.facts.model_call
            plain |= {"model": call.model, "usage": call.usage, "stop_reason": call.stop_reason}
            plain |= {} if call.call is None else {"call": call.call.to_dict()}
        if self.tool_calls:
            plain["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.input} for c in self.tool_calls]
        if self.tool_results:
            plain["tool_results"] = [r.to_dict() for r in self.tool_results]
        plain |= {"payloads": [each.to_dict() for each in self.payloads]} if self.payloads else {}
        if self.compaction:
            plain["compaction"] = self.compaction.model_dump(exclude_none=True)
        if self.source_ids:
            plain["source_ids"] = list(self.source_ids)
        if self.quoted_from:
            plain["quoted_from"] = self.quoted_from.model_dump()
        if self.derived_from:
            plain["derived_from"] = self.derived_from.model_dump(exclude_none=True)
        if self.facts.meta_json:
            plain["meta"] = self.meta
        return plain


class SealedTurn(Value):
    """A turn with the salt that its digest was made with: what is written, copied and verified."""

    turn: Turn
    salt: str = Field(repr=False)


class SessionRecord(Value):
    """A session's row in the catalog."""

    id: str
    parent_session_id: str | None = None
    forked_at_index: int | None = None
    fork_head: str | None = None
    forked_by: str | None = None
    """The IRI of who made a fork; None for what older versions made."""
    spawned_by: str | None = None
    branch: str = MAIN
    principal: str
    agent: str
    kind: str | None = None
    state: str = "active"
    created: datetime | None = None
    label: str | None = None
    key: str | None = None
    system_version: int = 0
    source_session: str | None = None
    meta_json: str | None = None
    channel: str | None = None
    """The channel that a main session of the session tree is for."""
    slot: str | None = None
    """The place that an active session of the session tree takes, which no other has."""
    tier: str | None = None
    """The tier of models that the session is to use."""
    expires: datetime | None = None
    """When the session's time to live is over."""
    ends_by: datetime | None = None
    """When a session that was asked to end is ended."""
    request_key: str | None = None
    """The digest of the idempotency key of the request that made the session,"""
    request_digest: str | None = None
    """and of the whole request."""
    encryption: str | None = None
    """What its texts are encrypted with, each session with a key of its own; None where they are not."""

    @property
    def iri(self) -> str:
        """The session's IRI, which names its graph too."""
        return iris.session(self.id)

    @property
    def meta(self) -> Mapping[str, Any]:
        """The session's metadata (a fresh copy each time)."""
        return stored_object(self.meta_json)

    @property
    def starts_at(self) -> int:
        """The first index that the session itself owns: 0, or its fork index."""
        return self.forked_at_index or 0

    def __repr__(self) -> str:
        title, parent = self.meta.get("title"), self.parent_session_id
        return terminal_text.tag_line(
            f"SessionRecord {_shorten_id(self.id)}",
            title if isinstance(title, str) else self.label,
            f"{self.principal}, {self.agent}",
            None if parent is None else f"fork of {_shorten_id(parent)} at {self.forked_at_index}",
            None if self.state == "active" else self.state,
        )

    __str__ = __repr__

    @html.safe
    def _repr_html_(self) -> str:
        shown = text_table.for_people(tables.of_items([self]))
        cells = [
            (name, str(value)) for name, value in shown.rows[0].items() if value not in (0, "active") and name != "id"
        ]
        return html.box(f"session {html.inline(self.id)}", [html.table(("field", "value"), cells)])

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"meta_json", "request_key", "request_digest"})
        times = {name: plain[name].isoformat() if plain[name] else None for name in ("created", "expires", "ends_by")}
        return plain | {
            **times,
            "meta": dict(self.meta),
            "iri": self.iri,
        }


class Tag(Value):
    """A name for the first `length` turns of a session's transcript; `digest` is that of the last of them."""

    name: str
    session_id: str
    length: int
    digest: str
    author_iri: str
    time: datetime

    @property
    def author(self) -> str:
        """The plain name of the principal or agent who made the tag."""
        return iris.author_name(self.author_iri)

    def to_dict(self) -> dict[str, Any]:
        """Return the tag as plain values, ready for JSON."""
        plain = self.model_dump(exclude={"author_iri", "session_id"})
        return plain | {"session": self.session_id, "by": self.author, "time": self.time.isoformat()}


class Note(Value):
    """What somebody wrote about a turn afterwards. It is the turn's and all its copies', by the turn's digest."""

    id: str
    session_id: str
    """A session that owns the turn, or a copy of it."""
    index: int
    turn_digest: str
    text: str
    author_iri: str
    time: datetime
    digest: str
    """The digest of salt and text, by which `verify` knows that the text was not altered."""
    salt: str = Field(repr=False)
    redacted: bool = False
    """Whether the text was taken out; the digest stands in the salt's place then."""

    @property
    def author(self) -> str:
        """The plain name of the principal or agent who wrote the note."""
        return iris.author_name(self.author_iri)

    def to_dict(self) -> dict[str, Any]:
        """Return the note as plain values, ready for JSON."""
        plain = self.model_dump(include={"id", "index", "turn_digest", "text"})
        plain |= {"redacted": True} if self.redacted else {}
        return plain | {"session": self.session_id, "by": self.author, "time": self.time.isoformat()}


class SystemPrompt(Value):
    """One version of a session's system prompt, in force from the turn `effective_from` on."""

    session_id: str
    version: int
    text: str
    effective_from: int
    time: datetime | None
    digest: str
    salt: str = Field(repr=False)
    redacted: bool = False
    """Whether the text was taken out; the digest of salt and text stands in the salt's place then."""
    by_iri: str | None = None
    """The IRI of who set it; None for what older versions wrote."""


class Finding(Value):
    """One thing that `verify` found wrong: a stable code, the session (and turn) it is about, and a sentence."""

    code: str
    message: str
    session_id: str | None = None
    index: int | None = None


Happened = Literal["changed", "detached", "deleted", "returned", "made anew", "salted", "redacted", "run", "ledger"]
"""What the log tells of something that it covered before: what may change of a session was changed; it was cut loose from
its parent, deleted, brought back; made with something else while it had no turns (a transcript that was missing came);
given the salts that an older version did not write; a turn was redacted; a run, or entries of a ledger, went on."""


class LogEvent(Value):
    """What became of a session since a checkpoint, as the log tells it; `by` and `time` where the store knows them."""

    session_id: str
    what: Happened
    count: int = 1
    """How often."""
    index: int | None = None
    """The turn that was redacted."""
    by: str | None = None
    time: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain values, ready for JSON."""
        return self.model_dump() | {"time": None if self.time is None else self.time.isoformat()}


class Cosignature(Value):
    """That a witness saw a checkpoint, by its name, and when it says that it did."""

    name: str
    time: datetime

    def to_dict(self) -> dict[str, str]:
        """Return it as plain values, ready for JSON."""
        return {"name": self.name, "time": self.time.isoformat()}


class Timestamp(Value):
    """What a time-stamp authority says of a note: that it was there, and by when at the latest."""

    authority: str
    """The subject of the authority's certificate."""
    time: datetime

    def to_dict(self) -> dict[str, str]:
        """Return it as plain values, ready for JSON."""
        return {"authority": self.authority, "time": self.time.isoformat()}


class Unsigned(Value):
    """Turns of a session's own that nobody signed: from `first` to `last`, both inclusive."""

    session_id: str
    first: int
    last: int

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain values, ready for JSON."""
        return {"session": self.session_id, "first": self.first, "last": self.last}


_MOST_FINDINGS: Final = 20


def _finding_line(finding: Finding) -> str:
    where = "" if finding.session_id is None else f" {finding.session_id}"
    where += "" if finding.index is None else f"@{finding.index}"
    return terminal_text.shorten(f"{finding.code}{where}: {finding.message}", 2 * terminal_text.LINE_WIDTH)


class VerifyReport(Value):
    """The verdict of `verify`: what was read, and all that is wrong with it."""

    sessions: int
    turns: int
    records: int = 0
    """How many things the catalog has were checked: rows of sessions, people, tags, messages and so on; 0 for one session."""
    log_lines: int = 0
    """How many lines of the log that was held against."""
    findings: tuple[Finding, ...] = ()
    history: tuple[LogEvent, ...] | None = None
    """What was changed, deleted or redacted, and logged, of what a checkpoint covers; None without a checkpoint."""
    witnessed: tuple[Cosignature, ...] | None = None
    """The witnesses that cosigned the checkpoint; None where none were asked for."""
    timestamped: Timestamp | None = None
    """By when the checkpoint was there, as an authority says; None where none was asked for."""
    unsigned: tuple[Unsigned, ...] | None = None
    """The turns that no principal signed; None where nothing in the store is signed, and no signature was asked for."""
    up_to: int | None = None
    """The number of the last commit that was checked, of a store that is open elsewhere; None where all were."""

    since: int | None = None
    """How many lines of the log a checkpoint covers, where turns were read only of sessions of which later lines tell."""
    scope: str | None = None
    """What was verified, where that is only what one caller of a server may see; None where all was that was asked for."""

    @property
    def ok(self) -> bool:
        """True when nothing was found wrong."""
        return not self.findings

    def __repr__(self) -> str:
        read = f"{count(self.sessions, 'session')}, {count(self.turns, 'turn')}"
        limits = [] if self.up_to is None else [f"up to commit {self.up_to}"]
        limits += [] if self.since is None else [f"what changed since line {self.since} of the log"]
        limits += [] if self.scope is None else [self.scope]
        line = "; ".join([f"<VerifyReport: {self._verdict}", read, *limits])
        return terminal_text.shorten(line, terminal_text.LINE_WIDTH - 1) + ">"

    def __str__(self) -> str:
        """Return the verdict, and a line for each finding: the first 20."""
        lines = [repr(self), *(f"  {_finding_line(each)}" for each in self.findings[:_MOST_FINDINGS])]
        more = len(self.findings) - _MOST_FINDINGS
        return "\n".join(lines + ([f"  and {count(more, 'more finding')}"] if more > 0 else []))

    @property
    def _verdict(self) -> str:
        return "nothing is wrong" if self.ok else count(len(self.findings), "finding")

    @html.safe
    def _repr_html_(self) -> str:
        read = html.facts({"sessions": self.sessions, "turns": self.turns})
        rows = [
            (each.code, each.session_id or "", "" if each.index is None else str(each.index), each.message)
            for each in self.findings
        ]
        found = [html.table(("code", "session", "turn", "what"), rows)] if rows else []
        return html.box(f"verified: {self._verdict}", [read, *found])

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        told = None if self.history is None else [event.to_dict() for event in self.history]
        seen = None if self.witnessed is None else [each.to_dict() for each in self.witnessed]
        return {
            "ok": self.ok,
            **self.model_dump(exclude={"history", "witnessed", "timestamped", "unsigned", "scope"}),
            **({} if self.scope is None else {"scope": self.scope}),
            "history": told,
            "witnessed": seen,
            "timestamped": None if self.timestamped is None else self.timestamped.to_dict(),
            "unsigned": None if self.unsigned is None else [each.to_dict() for each in self.unsigned],
        }
