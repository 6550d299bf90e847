"""Check an export of Trails by itself: `python verify_export.py plan.nq` (Python 3.9 or newer, no dependencies).

It reads N-Quads, recomputes every turn's digest, follows the chain from its start through all forks, and holds every
statement about a turn against what the digest covers. `trails.audit.evidence_pack` joins this file with the others named
`verify_*` into the one that goes out beside an export or in a pack, which imports nothing of Trails. Exit code: 0 all holds; 1
something does not; 2 the file cannot be read as an export or a pack.

The guide of Trails tells the rules of digests, and what they prove, on its page `proofs`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, unquote

from trails.usage import figures_of, older_figures_of

FORMAT = "trails-export-verification/1"
_TRAILS = "https://w3id.org/trails#"
_PROV = "http://www.w3.org/ns/prov#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_STRING, _BOOLEAN, _DATE_TIME = _XSD + "string", _XSD + "boolean", _XSD + "dateTime"
_INTEGER, _DECIMAL = _XSD + "integer", _XSD + "decimal"
_JSON = "http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON"
_REDACTED = _TRAILS + "Redacted"
_SESSION = "urn:trails:session:"
_AUTHORS = {"urn:trails:principal:": "principal:", "urn:trails:agent:": "agent:"}
_TOOL = "urn:trails:tool:"
_UNNAMED = ("urn:trails:principal:redacted", "urn:trails:agent:redacted", "urn:trails:tool:redacted")
_PAYLOAD = "urn:trails:payload:"
_SAFE = "-._~:@+=,!*;$&()"
_MOST_ANCESTORS = 32
_BESIDE = ("ledger", "entry")

CANNOT_SHOW = (
    "that nothing was left out at the end of a session, or a whole one: hold heads against what was kept elsewhere (--head)",
    "that no system prompt was left out after the last one that is there",
    "that the file was not made anew from its start: whoever writes all of it can compute all digests",
    "what no digest of a turn covers, as the store's log does: sessions' names, labels, keys, states and times",
    "who tagged, noted or redacted, which session a copy or quotation came from, ledgers and runs: the log covers these too",
    "that recorded times, names and texts were true when they were written",
)


class Unreadable(Exception):
    """The file is no export that can be read."""


class Finding(NamedTuple):
    """What does not hold: a word for it, the session, the index of the turn where there is one, and a sentence."""

    code: str
    session: str | None
    index: int | None  # type: ignore[assignment] # hides tuple.index, which nobody calls here
    message: str


# --- N-Quads (W3C, RDF 1.1 N-Quads, section 4)

Term = tuple[str, str]
"""An IRI as (IRI, ""), a literal as (text, its datatype); that of a text in a language is "@" and the language."""
Properties = dict[str, list[Term]]

_SIGN = r"[^\x00-\x20<>\"{}|^`\\]"
_IRI = rf"<({_SIGN}*(?:\\(?:u[0-9A-Fa-f]{{4}}|U[0-9A-Fa-f]{{8}}){_SIGN}*)*)>"
_LITERAL = r'"([^"\\\n\r]*(?:\\.[^"\\\n\r]*)*)"(?:\^\^' + _IRI + r"|(@[A-Za-z]+(?:-[A-Za-z0-9]+)*))?"
_BLANK = r"[ \t]*"
_LINE = re.compile(
    f"{_BLANK}{_IRI}{_BLANK}{_IRI}{_BLANK}(?:{_IRI}|{_LITERAL}){_BLANK}(?:{_IRI}{_BLANK})?\\.{_BLANK}(?:#.*)?"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def _plain(text: str) -> str:
    if "\\" not in text:
        return text

    def one(found: Any) -> str:
        digits = found[1] or found[2]
        if not digits:
            return _ESCAPED[found[3]]
        if 0xD800 <= int(digits, 16) <= 0xDFFF:
            raise ValueError("half of a surrogate pair")
        return chr(int(digits, 16))

    return _ESCAPE.sub(one, text)


def read_quads(file: BinaryIO) -> Iterator[tuple[str, str, Term, str]]:
    """Yield (subject, predicate, object, graph) of each line; the default graph is "". Raise Unreadable for any other."""
    for number, data in enumerate(file, 1):
        for raw in data.rstrip(b"\n").split(b"\r"):
            try:
                line = raw.decode("utf-8")
                if not line.strip(" \t") or line.lstrip(" \t").startswith("#"):
                    continue
                found = _LINE.fullmatch(line)
                if found is None:
                    raise ValueError("it is no statement of an export")
                subject, predicate, iri, text, datatype, language, graph = found.groups()
                term = (_plain(iri), "") if text is None else (_plain(text), language or _plain(datatype or _STRING))
                yield _plain(subject), _plain(predicate), term, _plain(graph or "")
            except (ValueError, KeyError, OverflowError) as error:
                raise Unreadable(f"line {number} cannot be read: {error}") from None


# --- digests


def _digest(tag: str, *fields: str) -> str:
    parts = [tag.encode()]
    for field in fields:
        data = field.encode()
        parts += (len(data).to_bytes(8, "big"), data)
    return hashlib.sha256(b"".join(parts)).hexdigest()


GENESIS = hashlib.sha256(b"trails/genesis/1").hexdigest()


def salted(kind: str, salt: str, text: str) -> str:
    """Return the digest of a text and its salt; `kind` says what the text is."""
    return _digest("trails/salted/1", kind, salt, text)


def score_digest(said: Iterable[tuple[str, str, str]]) -> str:
    """Return the digest of a score, over (property, text, datatype) of all that it says but its session."""
    return _digest("trails/score/1", *(field for each in sorted(said) for field in each))


def turn_digest(before: str, said: dict[str, str], content: str, facts: str) -> str:
    """Return the digest of a turn; `said` has its index, branch, role, author and time (microseconds, or "")."""
    named = (said[name] for name in ("index", "branch", "role", "author", "time"))
    return _digest("trails/turn/1", before, *named, content, facts)


def facts_digest(facts: dict[str, Any]) -> str:
    """Return the digest of what was recorded with a turn; "" where that is nothing."""
    return facts_text_digest(
        json.dumps(facts, ensure_ascii=False, sort_keys=True, separators=(",", ":")) if facts else ""
    )


def facts_text_digest(text: str) -> str:
    """Return the digest of what was recorded with a turn, as its canonical JSON; "" for ""."""
    return _digest("trails/facts/1", text) if text else ""


def standing_digest(turn: str, left: str) -> str:
    """Return the digest of a turn as it stands, given its digest as it is now and the one of the facts that are left."""
    return _digest("trails/stands/1", turn, left)


def prompt_digest(version: str, first: str, said: str) -> str:
    """Return the digest of one version of a system prompt; `said` is its salted digest."""
    return _digest("trails/prompt/1", version, first, said)


# --- values

_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6})0*)?(?:Z|\+00:00)")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+")
_INDEX = re.compile("[0-9]{1,18}")
_OF_TURN = re.compile("[0-9]+-[0-9a-f]+(/(?!deletion).*)?", re.DOTALL)
"""What follows a session's IRI in that of a turn of it, or of a part of one: such stand in the session's graph alone."""
_EPOCH = date(1970, 1, 1).toordinal()


def microseconds(lexical: str) -> int:
    """Return an xsd:dateTime in UTC as whole microseconds since 1970; ValueError for any other."""
    found = _TIME.fullmatch(lexical)
    if found is None:
        raise ValueError(f"{lexical!r} is no time in UTC")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{lexical!r} is no time")
    days = date(year, month, day).toordinal() - _EPOCH
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + int((found[7] or "").ljust(6, "0"))


def _comparable(term: Term) -> tuple[Any, str]:
    """Return a term by its value where it is a number or a time: stores write these in forms of their own."""
    text, datatype = term
    try:
        if datatype == _DATE_TIME:
            return microseconds(text), datatype
        if datatype in (_INTEGER, _DECIMAL) and _NUMBER.fullmatch(text):
            return Decimal(text), datatype
    except ValueError:
        pass
    return term


def _index(text: str) -> int:
    if not _INDEX.fullmatch(text):
        raise ValueError(f"{text!r} is no number from 0")
    return int(text)


def _id(iri: str) -> str:
    """Return the id of the session that an IRI names; ValueError for one that names none in the one right way."""
    name = unquote(iri[len(_SESSION) :])
    if not iri.startswith(_SESSION) or not name or _SESSION + quote(name, safe=_SAFE) != iri:
        raise ValueError(f"{iri} is not the IRI of a session")
    return name


def _author(iri: str) -> str:
    """Return what a digest covers of an author; ValueError for an IRI that is not the one of its name."""
    if iri.startswith(_TOOL):
        _tool(iri)
        return iri[len("urn:trails:") :]
    for start, kind in _AUTHORS.items():
        name = unquote(iri[len(start) :])
        if iri.startswith(start) and start + quote(name, safe=_SAFE) == iri:
            return kind + name
    raise ValueError(f"{iri} is not the IRI of a principal, an agent or a tool")


def _tool(iri: str) -> tuple[str, str | None, str | None]:
    """Return the name, server and version that the IRI of a tool has; ValueError where it is not the one of those."""
    parts = iri[len(_TOOL) :].split("/")
    named = (_TOOL + "/".join(quote(unquote(part), safe=_SAFE) for part in parts)).rstrip("/")
    if not iri.startswith(_TOOL) or not parts[0] or len(parts) > 3 or named != iri:
        raise ValueError(f"{iri} is not the IRI of a tool")
    name, server, version = (unquote(part) or None for part in (*parts, "", "")[:3])
    return name or "", server, version


def _payload_digest(iri: str) -> str:
    """Return the SHA-256 that the IRI of a payload's bytes names; ValueError for any other IRI."""
    digest = iri[len(_PAYLOAD) :]
    if not iri.startswith(_PAYLOAD) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise ValueError(f"{iri} is not the IRI of a payload")
    return digest


def _bytes_of(iri: str, subjects: dict[str, Properties]) -> bytes:
    """Return the bytes that the graph of a payload keeps; ValueError where it says anything else."""
    pieces: list[bytes] = []
    more = dict(subjects)
    own = more.pop(iri, {})
    while (piece := more.pop(f"{iri}/{len(pieces)}", None)) is not None:
        if piece.keys() != {_TYPE, _TRAILS + "bytesPart"} or piece[_TYPE] != [(_PROV + "Entity", "")]:
            raise ValueError("a piece of it is none that Trails writes")
        pieces.append(base64.b64decode(_typed(piece, "bytesPart"), validate=True))
    data = b"".join(pieces)
    expected = {_TYPE: [(_TRAILS + "Payload", "")], _TRAILS + "byteCount": [(str(len(data)), _INTEGER)]}
    if more or own != expected or hashlib.sha256(data).hexdigest() != _payload_digest(iri):
        raise ValueError("it does not have the bytes that its name says")
    return data


def _only(properties: Properties, name: str) -> Term:
    values = properties.get(name, [])
    if len(values) != 1:
        raise ValueError(f"it has {len(values)} values for {name}")
    return values[0]


def _typed(properties: Properties, name: str, wanted: str = _STRING) -> str:
    """Return the one text of a property of Trails, which must have a datatype ("" for an IRI)."""
    text, datatype = _only(properties, _TRAILS + name)
    if datatype != wanted:
        raise ValueError(f"its {name} is none that Trails writes")
    return text


def _first(properties: Properties, name: str) -> str | None:
    values = properties.get(name)
    return values[0][0] if values else None


def _property(field: str) -> str:
    """Return the property that holds a field of a compaction."""
    return _TRAILS + re.sub("_(.)", lambda found: found[1].upper(), field)


def _first_number(properties: Properties, name: str) -> int | None:
    text = _first(properties, name)
    return None if text is None else _index(text)


# --- turns


def iri_of(iri: str) -> str:
    """Return the session's IRI that a turn's begins with."""
    return iri.partition("/")[0]


class Turn:
    """One turn as the file says it: `parts` are its own properties ("") and those of its calls, results and the rest."""

    def __init__(self, iri: str, parts: dict[str, Properties]) -> None:
        own = parts[""]
        self.iri, self.parts, self.own = iri, parts, own
        self.name = iri.partition("/")[2]
        self.index = _index(_only(own, _TRAILS + "index")[0])
        self.text, self.datatype = _only(own, _PROV + "value")
        self.digest, self.salt = _only(own, _TRAILS + "digest")[0], _only(own, _TRAILS + "salt")[0]
        self.author_iri, self.role = _only(own, _PROV + "wasAttributedTo")[0], _only(own, _TRAILS + "role")[0]
        time = own.get(_PROV + "generatedAtTime", [])
        self.said = {
            "index": str(self.index),
            "branch": _only(own, _TRAILS + "branch")[0],
            "role": self.role,
            "author": _author(self.author_iri),
            "time": str(microseconds(_only(own, _PROV + "generatedAtTime")[0])) if time else "",
        }
        self.redacted = self.datatype == _REDACTED
        self.withheld = _first(own, _TRAILS + "factsDigest")
        self.made_with = _first(own, _TRAILS + "contentDigest")
        """The digest of its content as it was made, where it has another salt since."""
        self.taken: list[str] = ["content"] if self.redacted else []
        self.calls = self._numbered("call/")
        self.results = self._numbered("result/")
        self.payloads = self._numbered("payload/")
        self.facts = self._facts()
        acts = [iri for iri, _ in own.get(_PROV + "wasGeneratedBy", []) if iri.startswith(iri_of(self.iri) + "/act/")]
        self.copying = acts[0] if acts else None
        """The copying by which it came: what it repeats of calls is none, and was made elsewhere. Up to format 2 None."""

    @property
    def is_summary(self) -> bool:
        """Whether it stands for turns before it."""
        return "compaction" in self.facts

    @property
    def is_unnamed(self) -> bool:
        """Whether the name of its author or its role was taken out."""
        return self.author_iri in _UNNAMED or self.role == "redacted"

    def after(self, before: str) -> tuple[str, str]:
        """Return the digest that the turn should have after another, and the one over what stands there now."""
        content = self.salt if self.redacted else self._salted(self.datatype)
        left = facts_digest(self.facts)
        facts = self.withheld or left
        made = turn_digest(before, self.said, self.made_with or content, facts)
        return made, standing_digest(turn_digest(before, self.said, content, facts), left)

    def _salted(self, datatype: str) -> str:
        return salted("json" if datatype == _JSON else "text", self.salt, self.text)

    def _numbered(self, kind: str) -> list[Properties]:
        found = {_index(name[len(kind) :]): part for name, part in self.parts.items() if name.startswith(kind)}
        return [found[position] for position in sorted(found)]

    def _covered(self, kind: str, properties: Properties, name: str) -> str | None:
        """Return the salted digest of a text, or the one that was left of it."""
        for text, datatype in properties.get(_TRAILS + name, []):
            if datatype != _REDACTED:
                return salted(kind, self.salt, text)
            self.taken.append(kind)
            return text
        return None

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        model = self.parts.get("model")
        if model is not None:
            facts["model"] = [_first(model, _TRAILS + name) for name in ("model", "usage", "stopReason")]
            facts["called"] = self._called(model)
        facts["calls"] = [
            [
                _first(call, _TRAILS + "callId") or "",
                _first(call, _TRAILS + "toolName") or "",
                self._covered("arguments", call, "arguments") or salted("arguments", self.salt, ""),
            ]
            for call in self.calls
        ]
        facts["results"] = [self._result(each) for each in self.results]
        if (_TRAILS + "SummaryTurn", "") in self.own.get(_TYPE, []):
            facts["compaction"] = self._compaction()
        facts["payloads"] = [self._payload(each) for each in self.payloads]
        facts["source"] = sorted(text for text, _ in self.own.get(_TRAILS + "sourceId", []))
        self._origins(facts)
        facts = {name: value for name, value in facts.items() if value}
        meta = self._covered("meta", self.own, "meta")
        return facts if meta is None else {**facts, "meta": meta}

    def _called(self, model: Properties) -> dict[str, Any]:
        """Return what is told of the model call; a summary is covered by its index, a system prompt by its version."""
        times = {
            name: _first(model, of_call) or _first(model, of_copy) for name, (of_call, of_copy) in _CALL_TIMES.items()
        }
        prompt = _first(model, _TRAILS + "usedPrompt") or _first(model, _TRAILS + "keptPrompt")
        summary = _first(model, _TRAILS + "contextSummary")
        told = {
            **{name: None if text is None else microseconds(text) for name, text in times.items()},
            "provider": _first(model, _TRAILS + "provider"),
            "prompt": None if prompt is None else _index(prompt.rpartition("/")[2]),
            "through": _first_number(model, _TRAILS + "contextThrough"),
            "summary": None if summary is None else _index(summary.partition("/")[2].partition("-")[0]),
            "left_out": sorted(_index(text) for text, _ in model.get(_TRAILS + "leftOut", [])) or None,
        }
        return {name: value for name, value in told.items() if value is not None}

    def _result(self, result: Properties) -> list[Any]:
        """Return an answer to a tool call, with what is told of the call where something is."""
        tool = _first(result, _TRAILS + "tool")
        name, server, version = (None, None, None) if tool is None else _tool(tool)
        times = {name: _first(result, _TRAILS + each) for name, each in _TOOL_TIMES.items()}
        people = {name: _first(result, _TRAILS + each) for name, each in _TOOL_PEOPLE.items()}
        told = {
            **{each: None if text is None else microseconds(text) for each, text in times.items()},
            "outcome": _first(result, _TRAILS + "toolOutcome"),
            **{each: None if iri is None else _author(iri) for each, iri in people.items()},
            "tool": name,
            "server": server,
            "version": version,
        }
        told = {each: value for each, value in told.items() if value is not None}
        found = [_first(result, _TRAILS + "callId") or "", _first(result, _TRAILS + "isError") == "true"]
        return [*found, told] if told else found

    def _payload(self, payload: Properties) -> list[Any]:
        named = [_first(payload, _TRAILS + name) for name in ("payloadName", "mediaType")]
        covered = self._covered("payload", payload, "payloadDigest")
        if covered is None:
            covered = salted("payload", self.salt, _payload_digest(_only(payload, _TRAILS + "payloadBytes")[0]))
        return [*named, _index(_only(payload, _TRAILS + "byteCount")[0]), covered]

    def _compaction(self) -> dict[str, Any]:
        activity = self.parts.get("compaction", {})
        own = self.own
        numbers = ("summarised_through", "first_kept", "tokens_before", "tokens_after")
        always: dict[str, Any] = {name: _first_number(own, _property(name)) for name in numbers}
        used = _first(activity, _PROV + "used") or _first(activity, _TRAILS + "previousSummary")
        later = {
            **{name: _first_number(own, _property(name)) for name in ("summarised_from", "summarised_turns")},
            **{name: _first_number(activity, _property(name)) for name in ("max_summary_tokens", "duration_ms")},
            "max_summary_rule": _first(activity, _TRAILS + "maxSummaryRule"),
            "request": self._covered("request", activity, "request"),
            "previous_summary": None if used is None else used.rpartition("/")[2],
        }
        always["trigger"] = _first(own, _TRAILS + "trigger")
        return {**always, **{name: value for name, value in later.items() if value is not None}}

    def _origins(self, facts: dict[str, Any]) -> None:
        for fact, link, kept in (
            ("quote", "wasQuotedFrom", "quotedDigest"),
            ("taken", "wasDerivedFrom", "resultDigest"),
        ):
            source, digest = _first(self.own, _PROV + link), _first(self.own, _TRAILS + kept) or ""
            if source is not None and fact == "taken" and "/ledger/" in source:
                facts["result"] = [_index(source.rpartition("/ledger/")[2]), digest]
            elif source is not None:
                place, _, short = source.partition("/")[2].partition("-")
                if short != digest[:16]:
                    raise ValueError(f"it was made from {source}, which has not the digest that it names")
                facts[fact] = [_index(place), digest]


# --- what a turn is written as

Statement = tuple[str, str, tuple[Any, str]]
"""Of a turn: the part ("" for its own), the predicate, the object by value."""


def _datatypes(**kinds: str) -> dict[str, str]:
    """Return the datatypes of terms of Trails, given their names by datatype."""
    known = {"strings": _STRING, "integers": _INTEGER, "times": _DATE_TIME, "json": _JSON, "iris": ""}
    return {_TRAILS + name: known[kind] for kind, names in kinds.items() for name in names.split()}


_OWN = {
    **_datatypes(integers="index", strings="role branch digest salt factsDigest contentDigest"),
    _PROV + "generatedAtTime": _DATE_TIME,
    _PROV + "wasAttributedTo": "",
}
_QUOTE = {_PROV + "wasQuotedFrom": "", **_datatypes(strings="quotedDigest")}
_RESULT = {_PROV + "wasDerivedFrom": "", **_datatypes(strings="resultDigest")}
_SUMMARY = _datatypes(
    integers="summarisedThrough firstKept tokensBefore tokensAfter summarisedFrom summarisedTurns", strings="trigger"
)
_MODEL = _datatypes(strings="model stopReason", json="usage")
_CALL_TIMES = {
    "started": (_PROV + "startedAtTime", _TRAILS + "keptStart"),
    "ended": (_PROV + "endedAtTime", _TRAILS + "keptEnd"),
}
_SHOWN = _datatypes(strings="provider", integers="contextThrough")
_SHOWN_BY_CALL = {
    _PROV + "startedAtTime": _DATE_TIME,
    _PROV + "endedAtTime": _DATE_TIME,
    **_datatypes(iris="usedPrompt"),
    **_SHOWN,
}
_SHOWN_BY_COPY = {**_datatypes(times="keptStart keptEnd", iris="keptPrompt"), **_SHOWN}
_TOOL_TIMES = {"started": "toolStartedAt", "ended": "toolEndedAt"}
_TOOL_PEOPLE = {"approved_by": "approvedBy", "refused_by": "refusedBy"}
_TOLD_OF_TOOLS = _datatypes(times="toolStartedAt toolEndedAt", iris="approvedBy refusedBy tool", strings="toolOutcome")
_CALLED = _datatypes(strings="callDigest", iris="calledIn calledFor")
_COMPACTING = {
    _PROV + "used": "",
    **_datatypes(iris="previousSummary", strings="request maxSummaryRule", integers="maxSummaryTokens durationMs"),
}
_OF_PAYLOAD = {_TRAILS + "payloadName": _STRING, _TRAILS + "mediaType": _STRING, _TRAILS + "byteCount": _INTEGER}
_CAN_GO = (_TRAILS + "meta", _TRAILS + "arguments", _TRAILS + "request")
"""What leaves its salted digest in its place when it is taken out."""


def _kept(properties: Properties, datatypes: dict[str, str]) -> Iterator[tuple[str, Term]]:
    """Yield what is said, in the datatype that it must have: what a digest covers is right as it stands."""
    for name, datatype in datatypes.items():
        if name in properties:
            text, said = properties[name][0]
            yield name, (text, said if said == _REDACTED and name in _CAN_GO else datatype)


def written_as(turn: Turn, answered: dict[str, str], copies: set[str], names: dict[int, str]) -> set[Statement]:
    """Return the statements that a turn would be written as.

    `answered` has the call of each call id before it, `copies` the turns before it that are copies, `names` by index what
    the IRIs of those before it have after the session's.
    """
    found = set(_statements("", _own_pairs(turn)))
    if "model" in turn.parts:
        found |= set(_statements("model", _model_pairs(turn, names)))
    if "request" in turn.taken or any(name in turn.parts.get("compaction", {}) for name in _COMPACTING):
        found |= set(_statements("compaction", _compacting_pairs(turn)))
    for position, call in enumerate(turn.calls):
        found |= set(_statements(f"call/{position}", _call_pairs(turn, call)))
    for position, result in enumerate(turn.results):
        found |= set(_statements(f"result/{position}", _result_pairs(result)))
        answers = answered.get(_first(result, _TRAILS + "callId") or "")
        if answers is not None:
            found |= set(_answering(turn, position, result, answers, of_copy=answers.partition("/call/")[0] in copies))
    for position, payload in enumerate(turn.payloads):
        found |= set(_statements(f"payload/{position}", _payload_pairs(payload)))
    return found


def _answering(
    turn: Turn, position: int, result: Properties, answers: str, *, of_copy: bool
) -> Iterator[tuple[str, str, tuple[Any, str]]]:
    """Yield how a result is bound to the call that it answers; one that came before the call was copied to both."""
    again = turn.copying is not None or (of_copy and _TRAILS + "answersCopy" in result)
    if again:
        yield f"result/{position}", _TRAILS + "answersCopy", (_call(answers), "")
    if not again or (turn.copying is None and _TRAILS + "answers" in result):
        yield f"result/{position}", _TRAILS + "answers", (_call(answers), "")
        yield "", _PROV + "wasGeneratedBy", (_call(answers), "")


def _statements(part: str, pairs: Iterable[tuple[str, Term]]) -> Iterator[Statement]:
    return ((part, name, _comparable(term)) for name, term in pairs)


def _own_pairs(turn: Turn) -> Iterator[tuple[str, Term]]:
    own = turn.own
    yield _TYPE, (_TRAILS + "Turn", "")
    yield _TYPE, (_PROV + "Entity", "")
    datatype = turn.datatype if turn.datatype in (_JSON, _REDACTED) else _STRING
    yield _PROV + "value", ("" if turn.redacted else turn.text, datatype)
    yield from _kept(own, {**_OWN, _TRAILS + "meta": _JSON})
    yield from ((_TRAILS + "sourceId", (text, _STRING)) for text, _ in own.get(_TRAILS + "sourceId", []))
    if "quote" in turn.facts:
        yield from _kept(own, _QUOTE)
    if "result" in turn.facts or "taken" in turn.facts:
        yield from _kept(own, _RESULT)
    if "compaction" in turn.facts:
        yield _TYPE, (_TRAILS + "SummaryTurn", "")
        yield from _kept(own, _SUMMARY)
    for position in range(len(turn.results)):
        yield _TRAILS + "toolResult", (f"{turn.iri}/result/{position}", "")
    for position in range(len(turn.payloads)):
        yield _TRAILS + "payload", (f"{turn.iri}/payload/{position}", "")
    if turn.copying is not None:
        yield _PROV + "wasGeneratedBy", (turn.copying, "")
        return
    if "compaction" in turn.facts and "compaction" in turn.parts:
        yield _PROV + "wasGeneratedBy", (f"{turn.iri}/compaction", "")
    if "model" in turn.parts:
        yield _PROV + "wasGeneratedBy", (f"{turn.iri}/model", "")


def _made_by(turn: Turn, activity: str) -> Iterator[tuple[str, Term]]:
    """Yield what an activity that generated a turn is, or what a copied turn keeps of it."""
    if turn.copying is not None:
        yield _TYPE, (_TRAILS + activity + "Copy", "")
        yield _TRAILS + "keptWith", (turn.iri, "")
        return
    yield _TYPE, (_TRAILS + activity, "")
    yield _PROV + "wasAssociatedWith", (turn.author_iri, "")


def _model_pairs(turn: Turn, names: dict[int, str]) -> Iterator[tuple[str, Term]]:
    model = turn.parts["model"]
    yield from _made_by(turn, "ModelCall")
    yield from _kept(model, {**_MODEL, **(_CALLED if turn.copying else {})})
    told = {name: [_linked(name, term) for term in terms] for name, terms in model.items()}
    yield from _kept(told, _SHOWN_BY_COPY if turn.copying else _SHOWN_BY_CALL)
    yield from ((_TRAILS + "leftOut", (text, _INTEGER)) for text, _ in model.get(_TRAILS + "leftOut", []))
    shown = turn.facts.get("called", {}).get("summary")
    if shown is not None:
        yield _TRAILS + "contextSummary", ("shown:" + names.get(shown, ""), "")
    reported = json.loads(_first(model, _TRAILS + "usage") or "{}")
    if not isinstance(reported, dict):
        return
    stored = {(name, term) for name, terms in model.items() for term in terms}
    counted = [set(_figures(each(reported), model)) for each in (figures_of, older_figures_of)]
    yield from next((figures for figures in counted if figures <= stored), counted[0])


def _figures(figures: dict[str, Any], model: Properties) -> Iterator[tuple[str, Term]]:
    """Yield what is stored of a usage; a cost that is a whole number is one in older stores."""
    for name, figure in figures.items():
        prop = _TRAILS + name
        if isinstance(figure, int):
            yield prop, (str(figure), _INTEGER)
        else:
            older = str(figure).isdigit() and model.get(prop, [("", "")])[0][1] == _INTEGER
            yield prop, (format(figure, "f"), _INTEGER if older else _DECIMAL)


def _compacting_pairs(turn: Turn) -> Iterator[tuple[str, Term]]:
    yield from _made_by(turn, "Compaction")
    if turn.said["time"] and turn.copying is None:
        yield _PROV + "endedAtTime", turn.own[_PROV + "generatedAtTime"][0]
    other = "used" if turn.copying else "previousSummary"
    kept = {name: kind for name, kind in _COMPACTING.items() if not name.endswith(other)}
    yield from _kept(turn.parts["compaction"], kept)


def _call_pairs(turn: Turn, call: Properties) -> Iterator[tuple[str, Term]]:
    yield _TYPE, (_TRAILS + ("ToolCall" if turn.copying is None else "ToolCallCopy"), "")
    yield (_PROV + "wasStartedBy" if turn.copying is None else _TRAILS + "keptWith"), (turn.iri, "")
    for name in ("callId", "toolName"):
        yield _TRAILS + name, (_first(call, _TRAILS + name) or "", _STRING)
    yield from _kept({_TRAILS + "arguments": [("", _JSON)], **call}, {_TRAILS + "arguments": _JSON})


def _result_pairs(result: Properties) -> Iterator[tuple[str, Term]]:
    call_id = _first(result, _TRAILS + "callId") or ""
    yield _TYPE, (_TRAILS + "ToolResult", "")
    yield _TRAILS + "callId", (call_id, _STRING)
    yield _TRAILS + "isError", ("true" if _first(result, _TRAILS + "isError") == "true" else "false", _BOOLEAN)
    yield from _kept(result, _TOLD_OF_TOOLS)


def _payload_pairs(payload: Properties) -> Iterator[tuple[str, Term]]:
    yield _TYPE, (_TRAILS + "PayloadReference", "")
    yield from _kept(payload, _OF_PAYLOAD)
    left = _TRAILS + ("payloadDigest" if _TRAILS + "payloadDigest" in payload else "payloadBytes")
    yield left, (_only(payload, left)[0], _REDACTED if left.endswith("Digest") else "")


def stands_as(turn: Turn) -> Iterator[Statement]:
    """Yield what the file says of a turn. A call that it answers is named by turn and place: copies differ in the session."""
    for part, properties in turn.parts.items():
        for name, terms in properties.items():
            if name == _PROV + "alternateOf" and not part:
                continue
            for term in terms:
                yield part, name, _comparable(_linked(name, term))


_LINKS = (_PROV + "wasGeneratedBy", _TRAILS + "answers", _TRAILS + "answersCopy")


def _linked(name: str, term: Term) -> Term:
    """Return a link by what it names in a session, not by which session: copies of it differ in that."""
    if name in _LINKS:
        return _call(term[0]), term[1]
    return ("shown:" + term[0].partition("/")[2], term[1]) if name in _SHOWN_LINKS else term


_SHOWN_LINKS = tuple(_TRAILS + name for name in ("contextSummary", "usedPrompt", "keptPrompt"))


def _call(iri: str) -> str:
    return "call:" + iri.partition("/")[2] if "/call/" in iri else iri


# --- sessions


class Session:
    """A session as the file says it: its place among forks, its own turns by index, and its system prompts."""

    def __init__(self, iri: str, row: Properties) -> None:
        self.iri, self.id = iri, _id(iri)
        parent = row.get(_TRAILS + "parentSession")
        self.parent = _typed(row, "parentSession", "") if parent else None
        at = row.get(_TRAILS + "forkedAtIndex")
        self.start = _index(_typed(row, "forkedAtIndex", _INTEGER)) if at else 0
        if bool(parent) != bool(at):
            raise ValueError("it has a parent or a fork index and not both")
        self.fork_head = _typed(row, "forkHead") if parent else None
        self.branch = _first(row, _TRAILS + "branch") or "main"
        self.turns: dict[int, Turn] = {}
        self.copies: list[Turn] = []
        """Turns below its fork index, which a detach that was cut short left."""
        self.redacted: list[int] = []
        self.stands: list[int] = []
        """Turns that only a redaction's own statement vouches for: a name or a role was taken out."""
        self.prompts: set[int] = set()
        self.system_version = _first_number(row, _TRAILS + "systemVersion") or 0
        self.head = GENESIS
        self.length = 0


class Redactions:
    """What the file says of redactions: the digests of turns, what these stand as since, and the IRIs of the rest."""

    def __init__(self) -> None:
        self.turns: set[str] = set()
        self.standing: dict[str, str] = {}
        self.parts: set[str] = set()

    def read(self, subjects: dict[str, Properties]) -> None:
        """Take in all redactions of a catalog, oldest first: the newest says what a turn stands as."""
        made = [each for each in subjects.items() if (_TRAILS + "Deletion", "") in each[1].get(_TYPE, [])]
        for iri, said in sorted(made, key=lambda each: (_first(each[1], _PROV + "endedAtTime") or "", each[0])):
            self.parts |= {part for part, _ in said.get(_TRAILS + "redactedPart", [])}
            turn, digest = _first(said, _TRAILS + "deletedTurn"), _first(said, _TRAILS + "digest")
            if turn is not None and digest is not None and iri.partition("/deletion")[0] == turn:
                self.turns.add(digest)
                stands = _first(said, _TRAILS + "standsAs")
                if stands is not None:
                    self.standing[digest] = stands


class Export:
    """An export, read and held against its digests: `sessions`, `findings`, and what no digest covers."""

    def __init__(self, file: BinaryIO) -> None:
        self.findings: list[Finding] = []
        self.uncovered: dict[tuple[str, str], int] = defaultdict(int)
        """How many statements of a session no digest covers, by the session's id and what they say."""
        self.sessions: dict[str, Session] = {}
        self.redactions = Redactions()
        graphs = _graphs(file)
        catalog = graphs.pop("", {})
        self._read_sessions(catalog)
        if not self.sessions:
            raise Unreadable("the file holds no session of Trails")
        self.redactions.read(catalog)
        carried = {graph: subjects for graph, subjects in graphs.items() if graph.startswith(_PAYLOAD)}
        for graph, subjects in graphs.items():
            if graph not in carried:
                self._read_graph(graph, subjects)
        for session in sorted(self.sessions.values(), key=lambda each: each.id):
            self._check(session)
        self._check_payloads(carried)
        self._check_catalog(catalog)
        self.findings.sort(key=lambda each: (each.session or "", -1 if each.index is None else each.index, each.code))

    def _add(self, code: str, session: str | None, index: int | None, message: str) -> None:
        self.findings.append(Finding(code, session, index, message))

    # --- reading

    def _read_sessions(self, catalog: dict[str, Properties]) -> None:
        for iri, row in catalog.items():
            if (_TRAILS + "Session", "") in row.get(_TYPE, []):
                try:
                    self.sessions[iri] = Session(iri, row)
                except ValueError as error:
                    self._add("bad-row", None, None, f"the row of {iri} was altered: {error}")

    def _read_graph(self, graph: str, subjects: dict[str, Properties]) -> None:
        session = self.sessions.get(graph)
        if session is None:
            home, _, name = graph.rpartition("/")
            if home in self.sessions and name in _BESIDE:
                return
            self._add("stray-graph", None, None, f"the graph {graph} belongs to no session of the file")
            return
        parts: dict[str, dict[str, Properties]] = defaultdict(dict)
        for subject, properties in subjects.items():
            home, _, rest = subject.partition("/")
            name, _, part = rest.partition("/")
            if home != graph or not name:
                self._add("stray", session.id, None, f"{subject} is no turn of the session in whose graph it stands")
                continue
            parts[f"{home}/{name}"][part] = properties
        for iri, each in parts.items():
            self._read_turn(session, iri, each)

    def _read_turn(self, session: Session, iri: str, parts: dict[str, Properties]) -> None:
        try:
            turn = Turn(iri, {"": {}, **parts})
        except (ValueError, RecursionError) as error:
            self._add("unreadable", session.id, None, f"{iri} was altered, or is no turn: {error}")
            return
        if turn.index < session.start:
            session.copies.append(turn)
        elif turn.index in session.turns:
            self._add("duplicate-index", session.id, turn.index, f"has a second turn at index {turn.index}")
        else:
            session.turns[turn.index] = turn

    # --- the chain

    def _lineage(self, session: Session) -> list[Session]:
        """Return a session and its ancestors, nearest first, as far as the file holds them."""
        found = [session]
        while found[-1].parent is not None and len(found) <= _MOST_ANCESTORS:
            parent = self.sessions.get(found[-1].parent)
            if parent is None or parent in found:
                break
            found.append(parent)
        return found

    def _check(self, session: Session) -> None:
        lineage = self._lineage(session)
        if lineage[-1].parent is not None:
            what = f"its ancestor {lineage[-1].parent} is not in the file, is its own ancestor, or is too far up"
            self._add("bad-lineage", session.id, None, what)
        before, wanted, ancestors = self._before(session, lineage), session.start, {each.iri for each in lineage}
        answered: dict[str, str] = {}
        names: dict[int, str] = {}
        for turn in _inherited(lineage):
            _take_calls(turn, answered)
            names.update({turn.index: turn.name} if turn.is_summary else {})
        copies = {turn.iri for each in lineage for turn in each.turns.values() if turn.copying is not None}
        for index in sorted(session.turns):
            turn = session.turns[index]
            if index != wanted:
                self._add("index-gap", session.id, wanted, f"has no turn {wanted}")
            self._check_turn(session, turn, before)
            self._check_statements(session, turn, answered, copies, names)
            for what in _named(turn, answered, ancestors):
                self.uncovered[session.id, what] += 1
            _take_calls(turn, answered)
            if turn.is_summary:
                names[index] = turn.name
            before, wanted = turn.digest, index + 1
        session.head, session.length = before, wanted
        for turn in session.copies:
            owner = _owner(lineage[1:], turn.index)
            twin = None if owner is None else owner.turns.get(turn.index)
            if twin is None or twin.digest != turn.digest:
                self._add("stray", session.id, turn.index, "has a turn below its fork index that is no copy")

    def _before(self, session: Session, lineage: list[Session]) -> str:
        """Return the digest before a session's first own turn, and hold it against the one noted when it was forked."""
        if session.parent is None or session.start == 0:
            if session.fork_head not in (None, "", GENESIS):
                self._add("fork-head", session.id, None, "was forked from the start with another digest")
            return GENESIS
        at = session.start - 1
        owner = _owner(lineage[1:], at)
        turn = None if owner is None else owner.turns.get(at)
        if turn is None:
            self._add("index-gap", session.id, at, f"was forked after turn {at}, which is not in the file")
            return session.fork_head or GENESIS
        if session.fork_head != turn.digest:
            self._add("fork-head", session.id, at, f"was forked from a turn {at} with another digest")
        return turn.digest

    def _check_turn(self, session: Session, turn: Turn, before: str) -> None:
        made, stands = turn.after(before)
        fits, said = made == turn.digest, self.redactions.standing.get(turn.digest)
        is_whole = turn.withheld is None and turn.made_with is None
        holds = fits and is_whole if said is None else stands == said and (fits or turn.is_unnamed)
        if not holds:
            self._add("digest-mismatch", session.id, turn.index, "was altered: its digest does not fit it")
        elif not fits:
            session.stands.append(turn.index)
        if turn.taken or turn.withheld is not None:
            session.redacted.append(turn.index)
            if turn.digest not in self.redactions.turns:
                what = "lost its content or a part of it, and no redaction in the file says so"
                self._add("unsaid", session.id, turn.index, what)
        if turn.iri != f"{session.iri}/{turn.index}-{turn.digest[:16]}":
            self._add("wrong-iri", session.id, turn.index, f"has the IRI of another turn: {turn.iri}")
        if session.parent is not None and turn.copying is None and turn.said["branch"] != session.branch:
            what = f"is of branch {turn.said['branch']!r}, not {session.branch!r}"
            self._add("wrong-branch", session.id, turn.index, what)

    def _check_statements(
        self, session: Session, turn: Turn, answered: dict[str, str], copies: set[str], names: dict[int, str]
    ) -> None:
        """Hold all that is said of a turn against what it would be written as."""
        try:
            expected = written_as(turn, answered, copies, names)
        except (ValueError, RecursionError, ArithmeticError) as error:
            self._add("unreadable", session.id, turn.index, f"was altered: {error}")
            return
        said = list(stands_as(turn))
        actual = set(said)
        for part, name, term in sorted(actual - expected, key=repr):
            self._add("stray", session.id, turn.index, f"says what no digest covers: {part} {name} {term[0]}".strip())
        for part, name, term in sorted(expected - actual, key=repr):
            self._add("missing", session.id, turn.index, f"does not say {part} {name} {term[0]}")
        if len(said) > len(actual):
            self._add("stray", session.id, turn.index, "says the same twice")
        for copied, _ in turn.own.get(_PROV + "alternateOf", []):
            if copied.partition("/")[2] != turn.name or copied == turn.iri:
                self._add("stray", session.id, turn.index, f"says that it is a copy of another turn: {copied}")

    # --- beside the turns

    def _check_payloads(self, carried: dict[str, dict[str, Properties]]) -> None:
        """Hold the bytes of payloads against their names, and find those that are missing, or no turn's."""
        named: set[str] = set()
        for session in self.sessions.values():
            for turn in (*session.turns.values(), *session.copies):
                for iri in [iri for each in turn.payloads for iri, _ in each.get(_TRAILS + "payloadBytes", [])]:
                    named.add(iri)
                    if iri not in carried:
                        self._add("missing", session.id, turn.index, f"carries {iri}, which is not in the file")
        for iri, subjects in carried.items():
            if iri not in named:
                self._add("stray-graph", None, None, f"no turn of the file carries {iri}")
            try:
                _bytes_of(iri, subjects)
            except ValueError as error:
                self._add("digest-mismatch", None, None, f"{iri} was altered: {error}")

    def _digest_at(self, session: Session, index: int) -> str | None:
        owner = _owner(self._lineage(session), index)
        turn = None if owner is None else owner.turns.get(index)
        return GENESIS if index < 0 else None if turn is None else turn.digest

    def _check_catalog(self, catalog: dict[str, Properties]) -> None:
        checks = {
            "SystemPrompt": self._check_prompt, "Tag": self._check_tag, "Note": self._check_note, "Score": self._check_score,
        }  # fmt: skip
        for iri, row in catalog.items():
            home, _, rest = iri.partition("/")
            if home in self.sessions and _OF_TURN.fullmatch(rest):
                self._add("stray", self.sessions[home].id, None, f"something is said of {iri} outside of its graph")
            for name, check in checks.items():
                if (_TRAILS + name, "") in row.get(_TYPE, []):
                    try:
                        check(iri, row)
                    except ValueError as error:
                        self._add("bad-row", None, None, f"{iri} was altered: {error}")
            if iri.startswith(_TOOL):
                self._check_tool(iri, row)
        for session in self.sessions.values():
            self._check_versions(session)

    def _check_tool(self, iri: str, row: Properties) -> None:
        """Hold what the catalog says of a tool against its IRI."""
        try:
            name, server, version = _tool(iri)
        except ValueError as error:
            self._add("bad-row", None, None, str(error))
            return
        told = {"toolName": name, "toolServer": server, "toolVersion": version}
        expected = {_TRAILS + each: [(text, _STRING)] for each, text in told.items() if text is not None}
        if row != {_TYPE: [(_TRAILS + "Tool", "")], **expected}:
            self._add("bad-row", None, None, f"{iri} was altered: what is said of it is not what its IRI says")

    def _session_of(self, row: Properties, link: str) -> Session:
        iri = _typed(row, link, "")
        if iri not in self.sessions:
            raise ValueError(f"it names a session that is not in the file: {iri}")
        return self.sessions[iri]

    def _text_digest(self, iri: str, row: Properties, kind: str) -> str:
        """Return the salted digest of a text in the catalog; once it was taken out, the one that was left of it."""
        (text, datatype), salt = _only(row, _PROV + "value"), _typed(row, "salt")
        if datatype not in (_STRING, _REDACTED) or (datatype == _REDACTED and text):
            raise ValueError("its text is none that Trails writes")
        if datatype == _REDACTED and iri not in self.redactions.parts:
            raise ValueError("its text is gone, and no redaction in the file says so")
        return salt if datatype == _REDACTED else salted(kind, salt, text)

    def _check_prompt(self, iri: str, row: Properties) -> None:
        session = self._session_of(row, "promptOf")
        version, first = (_index(_typed(row, name, _INTEGER)) for name in ("version", "effectiveFrom"))
        if iri != f"{session.iri}/system/{version}":
            raise ValueError(f"it is version {version} of the system prompt of {session.id!r}")
        made = prompt_digest(str(version), str(first), self._text_digest(iri, row, "prompt"))
        if made != _typed(row, "digest"):
            what = f"version {version} of its system prompt was altered: its digest does not fit it"
            self._add("digest-mismatch", session.id, None, what)
        session.prompts.add(version)

    def _check_versions(self, session: Session) -> None:
        """Find versions of a system prompt that are missing between those that are there."""
        above = {version for each in self._lineage(session)[1:] for version in each.prompts}
        inherited = session.system_version if session.parent is not None else 0
        wanted = range(inherited + 1, max(session.prompts, default=0))
        missing = {inherited} - {0, *above} | set(wanted) - session.prompts
        for version in sorted(missing):
            self._add("missing", session.id, None, f"version {version} of its system prompt is not in the file")

    def _check_end(self, row: Properties, link: str, length: str, more: int = 0) -> None:
        """Check that the transcript up to which something is said has the digest that it names there."""
        session, end = self._session_of(row, link), _index(_typed(row, length, _INTEGER)) + more
        if self._digest_at(session, end - 1) != _typed(row, "namedDigest"):
            raise ValueError(f"the first {end} turns of session {session.id!r} do not have the digest that it names")

    def _check_tag(self, _: str, row: Properties) -> None:
        self._check_end(row, "tagOf", "tagLength")

    def _check_note(self, iri: str, row: Properties) -> None:
        self._check_end(row, "noteOn", "noteIndex", 1)
        if self._text_digest(iri, row, "note") != _typed(row, "digest"):
            raise ValueError("its digest does not fit its text")

    def _check_score(self, _: str, row: Properties) -> None:
        self._check_end(row, "scored", "scoredUpTo")
        beside = (_TRAILS + "scored", _TRAILS + "digest")
        said = ((name, *term) for name, terms in row.items() if name not in beside for term in terms)
        if score_digest(said) != _typed(row, "digest"):
            raise ValueError("its digest does not fit what it says")


def _graphs(file: BinaryIO) -> dict[str, dict[str, Properties]]:
    """Return the statements of a file by graph, subject and predicate, each once."""
    graphs: dict[str, dict[str, Properties]] = {}
    for subject, predicate, term, graph in read_quads(file):
        terms = graphs.setdefault(graph, {}).setdefault(subject, {}).setdefault(predicate, [])
        if term not in terms:
            terms.append(term)
    return graphs


def _owner(lineage: list[Session], index: int) -> Session | None:
    """Return whose turn stands at an index of a transcript: the nearest whose own turns begin at or before it."""
    return next((each for each in lineage if each.start <= index), None)


def _take_calls(turn: Turn, answered: dict[str, str]) -> None:
    for position, call in enumerate(turn.calls):
        answered[_first(call, _TRAILS + "callId") or ""] = f"{turn.iri}/call/{position}"


def _inherited(lineage: list[Session]) -> Iterator[Turn]:
    """Yield the turns that a session inherits, from the oldest ancestor on."""
    ends = [min(each.start for each in lineage[:place]) for place in range(1, len(lineage))]
    for ancestor, end in reversed(list(zip(lineage[1:], ends))):  # noqa: B905 - `strict` came with 3.10
        yield from (ancestor.turns[index] for index in sorted(ancestor.turns) if index < end)


def _named(turn: Turn, answered: dict[str, str], lineage: set[str]) -> Iterator[str]:
    """Yield what a turn says of other sessions that no digest covers: which one it was. Turn, place and digest are."""
    own = turn.own
    if turn.copying is not None:
        yield "by which copying it came, and where, for whom and as which calls those that it repeats were made"
    for name, what in ((_PROV + "alternateOf", "a copy from"), (_PROV + "wasQuotedFrom", "picked from")):
        yield from (f"{what} {iri.partition('/')[0]}" for iri, _ in own.get(name, []))
    for iri, _ in own.get(_PROV + "wasDerivedFrom", []):
        yield f"{'a result of' if '/ledger/' in iri else 'taken from'} {iri.partition('/')[0]}"
    for iri, _ in turn.parts.get("compaction", {}).get(_PROV + "used", []):
        if iri.partition("/")[0] not in lineage:
            yield f"made from a summary of {iri.partition('/')[0]}"
    for iri in (iri for name in _SHOWN_LINKS for iri, _ in turn.parts.get("model", {}).get(name, [])):
        if iri.partition("/")[0] not in lineage:
            yield f"shown a summary or a system prompt of {iri.partition('/')[0]}"
    calls = {answered.get(_first(result, _TRAILS + "callId") or "") for result in turn.results}
    for properties in (own, *turn.results):
        for iri in {term[0] for name in _LINKS for term in properties.get(name, []) if "/call/" in term[0]} - calls:
            yield f"an answer to a call of {iri.partition('/')[0]}"


# --- the answer


def report(export: Export, heads: Iterable[str] = ()) -> dict[str, Any]:
    """Return what was found, as plain values; `heads` are digests that must be in the file, as kept elsewhere."""
    digests = {turn.digest: (each.id, turn.index) for each in export.sessions.values() for turn in each.turns.values()}
    lost = [
        Finding("head-missing", None, None, f"no turn has the digest {each}") for each in heads if each not in digests
    ]
    findings = [*lost, *export.findings]
    bad = {each.session for each in findings}
    ordered = sorted(export.sessions.values(), key=lambda each: each.id)
    return {
        "format": FORMAT,
        "ok": not findings,
        "sessions": [_shown(export, each, holds=each.id not in bad) for each in ordered],
        "findings": [each._asdict() for each in findings],
        "cannot_show": list(CANNOT_SHOW),
    }


def _shown(export: Export, session: Session, *, holds: bool) -> dict[str, Any]:
    return {
        "session": session.id,
        "holds": holds,
        "parent": None if session.parent is None else unquote(session.parent[len(_SESSION) :]),
        "forked_at": None if session.parent is None else session.start,
        "turns": session.length,
        "own_turns": len(session.turns),
        "head": session.head,
        "system_prompts": len(session.prompts),
        "redacted": session.redacted,
        "stands_by_redaction": session.stands,
        "not_covered": {what: count for (who, what), count in export.uncovered.items() if who == session.id},
    }


def printable(text: str) -> str:
    """Return a text on one line; what cannot be printed is escaped."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def answer_lines(said: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that tell people what was found."""
    for each in said["sessions"]:
        fork = "" if each["parent"] is None else f", a fork of {each['parent']} at {each['forked_at']}"
        verdict = "holds" if each["holds"] else "DOES NOT HOLD"
        yield f"{each['session']}{fork}: {verdict}: {each['turns']} turns, {each['own_turns']} its own, head {each['head']}"
        if each["redacted"]:
            yield f"  taken out, by what the file says, and not shown: of turns {_few(each['redacted'])}"
        if each["stands_by_redaction"]:
            where = _few(each["stands_by_redaction"])
            yield f"  cannot be shown by their own digests, as a name or role was taken out: turns {where}"
        for what, count in each["not_covered"].items():
            yield f"  no digest covers the name of the session here: {count} said to be {what}"
    for found in said["findings"]:
        where = "" if found["session"] is None else f"session {found['session']}: "
        where += "" if found["index"] is None else f"turn {found['index']} "
        yield f"{found['code']}: {where}{found['message']}"
    if said["cannot_show"]:
        yield "This cannot show:"
    yield from (f"- {each}" for each in said["cannot_show"])


def _few(indices: list[int]) -> str:
    more = f" and {len(indices) - 10} more" if len(indices) > 10 else ""
    return ", ".join(map(str, indices[:10])) + more
