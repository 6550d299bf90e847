"""A session as a pi session file, version 3: one file with the whole transcript, inherited turns included.

Turns that came from pi are written as they were. Turns from elsewhere take pi's shapes: messages of users and of the
assistant (text, thinking, tool calls), results of tools (one entry each), compactions, and custom messages for all
other roles. What pi requires and a turn does not say (a time, a model, token counts) is written as the time of the turn
before, as empty or as zero; what a turn says and pi has no place for is noted in the entry's field `trails`, which pi
ignores. So a session that is imported again has the same roles, contents, times, models, usage, tool calls and results.
Salts are not part of the file, so digests differ: the exact format is N-Quads or TriG.

Calls that were given beside the content stand among its parts, where pi looks for them; the entry notes how many did, and
they come back beside it. Not everything comes back: a redacted turn is an empty text then (its calls without arguments), and
which version of the system prompt a call was sent, and which turns others repeat, stays behind.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from trails.exchange import json_files
from trails.exchange.json_files import as_list, as_object, without_null
from trails.exchange.merge import imported_id
from trails.exchange.openclaw import pi_session_file
from trails.exchange.openclaw.pi_session_file import CONTENT_KEYS, only_text, write_time
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.history import turn_builder
from trails.model import content_parts, iris, validation
from trails.model.values import Call, Compaction, Payload, PayloadReference, SessionRecord, ToolCall, Turn, Value
from trails.rdf.session_records import DEFAULT_PRINCIPAL
from trails.session import Repository
from trails.usage import TOTAL_NAMES, counts_of, tokens_of

_Json = dict[str, Any]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STOP_REASONS: Final = {
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "length": "length", "max_tokens": "length",
    "toolUse": "toolUse", "tool_use": "toolUse", "tool_calls": "toolUse", "error": "error", "aborted": "aborted",
}  # fmt: skip
_COSTS: Final = ("input", "output", "cacheRead", "cacheWrite")
_COMPARED: Final = (
    "role", "author", "model", "usage", "stop_reason", "tool_call_id", "is_error", "call", "compaction", "meta",
)  # fmt: skip
"""What of a turn is noted where reading its entry would give something else; content and calls by rules of their own."""


def export_session(repository: Repository, session_id: str) -> bytes:
    """Return a session's whole stored transcript as a pi session file.

    Raises as `Repository.load` does where the session is missing or its transcript is not whole.
    """
    record = repository.record(session_id)
    chain = repository.reader.lineage(record.id)
    turns = repository.reader.turns(chain)
    prompt = repository.reader.prompt(chain)
    exported = _Export(record, wanted(turns, record, repository.payload))
    lines = [_header(chain, prompt.text if prompt and not prompt.redacted else None), *exported.entries()]
    lines += _closing(chain, exported)
    return b"".join(json_files.json_line(line) for line in lines)


def wanted(
    turns: Sequence[Turn], record: SessionRecord, bytes_of: Callable[[PayloadReference], bytes]
) -> list[SourceTurn]:
    """Return what an import of the exported file has to give for each turn of a session."""
    return [
        replace(
            _wanted(turn, turn_builder.author_by_role(record, turn, turns[: turn.index])),
            payloads=tuple(_payload(each, bytes_of) for each in turn.payloads if each.digest is not None),
        )
        for turn in turns
    ]


def _payload(reference: PayloadReference, bytes_of: Callable[[PayloadReference], bytes]) -> Payload:
    return Payload(data=bytes_of(reference), media_type=reference.media_type, name=reference.name)


def _wanted(turn: Turn, usual_author: str) -> SourceTurn:
    content = turn.content
    found = as_list(content)
    results = turn.tool_results[len(content_parts.results_in(found)) :]
    is_from_pi = turn.source_ids and isinstance(turn.meta.get("pi"), dict)
    entry_id = turn.source_ids[0] if is_from_pi else turn.digest[:8]
    # of the versions of a system prompt a file of pi holds but one
    call = Call() if turn.call is None else turn.call.model_copy(update={"prompt": None})
    return SourceTurn(
        role=turn.role,
        pieces=(Piece(entry_id, content if isinstance(content, str) else tuple(content)),),
        time=turn.time,
        author=None if turn.author_iri == usual_author else _author(turn),
        model=turn.model,
        usage=turn.usage or None,
        stop_reason=turn.facts.model_call.stop_reason if turn.facts.model_call else None,
        tool_call_id=results[0].call_id if results else None,
        is_error=results[0].is_error if results else False,
        tool_results=tuple(result for result in turn.tool_results if result.told),
        call=None if call == Call() else call,
        tool_calls=tuple(_call_part(call) for call in turn.tool_calls[len(content_parts.calls_in(found)) :]),
        compaction=turn.compaction,
        meta=turn.meta,
    )


def _author(turn: Turn) -> str:
    if iris.is_tool(turn.author_iri):
        return turn.author_iri
    if iris.is_agent(turn.author_iri):
        return f"agent:{turn.author}"
    return turn.author_iri if turn.author.startswith(("agent:", "urn:trails:")) else turn.author


def _call_part(call: ToolCall) -> _Json:
    """Return a call as pi's part; arguments are text where that is needed to keep them byte for byte."""
    exact = call.arguments is None or validation.to_json(call.input, "arguments") == call.arguments
    arguments = {} if call.arguments is None else call.input if exact else call.arguments
    return {"type": "toolCall", "id": call.id, "name": call.name, "arguments": arguments}


# --- the session's own lines


def _pi_id(record: SessionRecord) -> str:
    """Return the id that a session has in a pi file: the one it was imported with, else its own."""
    source, _, source_id = (record.source_session or "").partition(":")
    return source_id if source == pi_session_file.SOURCE and imported_id(source, source_id) == record.id else record.id


def _header(chain: Sequence[SessionRecord], system: str | None) -> _Json:
    record = chain[0]
    meta = dict(record.meta)
    left = meta.get("pi")
    header: _Json = {"type": "session", "version": pi_session_file.VERSION, "id": _pi_id(record)}
    header["timestamp"] = write_time(record.created or _EPOCH)
    header["cwd"] = next((each.meta["cwd"] for each in chain if isinstance(each.meta.get("cwd"), str)), "")
    header |= {key: meta[key] for key in pi_session_file.HEADER_META if key in meta and key not in ("cwd", "version")}
    if len(chain) > 1 and "parentSession" not in header:
        header["parentSession"] = _pi_id(chain[1])
    elif "branchedFrom" in header:
        header.setdefault("parentSession", header["branchedFrom"])
    if isinstance(left, dict):
        header |= {key: value for key, value in left.items() if key == "timestamp" or key not in header}
    principal = None if record.principal == DEFAULT_PRINCIPAL else record.principal
    agent = None if record.agent == pi_session_file.SOURCE else record.agent
    noted = without_null({"principal": principal, "agent": agent, "system": system})
    return header | ({"trails": noted} if noted else {})


def _closing(chain: Sequence[SessionRecord], exported: _Export) -> Iterator[_Json]:
    """Yield what came after the last turn, the labels of the entries that were written, and the session's name."""
    labels: _Json = {}
    for entry in pi_session_file.entries_after(chain, exported.wanted[-1].source_ids if exported.wanted else ()):
        yield exported.link(entry["id"], entry, from_pi=True)
    for record in reversed(chain):
        labels |= as_object(record.meta.get("labels"))
    for target, label in labels.items():
        if target in exported.taken and isinstance(label, str):
            yield exported.link(_short(f"label {target}"), {"type": "label", "targetId": target, "label": label})
    title = chain[0].meta.get("title")
    if isinstance(title, str) and title:
        yield exported.link(_short("session_info"), {"type": "session_info", "name": title})


# --- the entries


@dataclass
class _Export:
    """The entries of one session, as they are written one after the other."""

    record: SessionRecord
    wanted: list[SourceTurn]
    taken: set[str] = field(default_factory=set)
    """The ids of all entries written."""
    last_id: str | None = None
    last_time: datetime | None = None
    tools: dict[str, str] = field(default_factory=dict)
    """The names of the tools called so far, by call id."""
    ids: list[str] = field(default_factory=list)
    """The id of the entry that each turn is read from."""

    def entries(self) -> list[_Json]:
        """Return all entries, each with a note of what reading it would not give back."""
        entries = self._all(set())
        read = {turn.pieces[0].source_id: turn for turn in pi_session_file.read_chain(entries)}
        if missing := {index for index, entry_id in enumerate(self.ids) if entry_id not in read}:
            entries = self._all(missing)  # metadata that only looks like pi's, say: the plainest shape holds anything
            read = {turn.pieces[0].source_id: turn for turn in pi_session_file.read_chain(entries)}
        by_id = {entry["id"]: entry for entry in entries}
        for entry_id, turn in zip(self.ids, self.wanted, strict=True):
            if noted := _difference(turn, read[entry_id]):
                by_id[entry_id]["trails"] = noted
        return entries

    def _all(self, unusual: set[int]) -> list[_Json]:
        self.taken, self.ids, self.tools, self.last_id = set(), [], {}, None
        self.last_time = self.record.created
        entries: list[_Json] = []
        for index, turn in enumerate(self.wanted):
            entries += self._turn(turn, plainest=index in unusual)
            self.last_time = turn.time or self.last_time
        return entries

    def link(self, wanted_id: str, entry: _Json, *, from_pi: bool = False) -> _Json:
        """Return an entry with an id (the one wanted, if it is free) and the entry before as its parent."""
        made, attempt = wanted_id, 0
        while made in self.taken:
            made, attempt = _short(f"{wanted_id} {attempt}"), attempt + 1
        self.taken.add(made)
        parent, self.last_id = self.last_id, made
        head = {"type": entry["type"], "id": made, "parentId": parent}
        time = {} if from_pi or "timestamp" in entry else {"timestamp": self._time_text(None)}
        return head | time | {key: value for key, value in entry.items() if key not in head}

    def _time_text(self, time: datetime | None) -> str:
        return write_time(time or self.last_time or _EPOCH)

    def _turn(self, turn: SourceTurn, *, plainest: bool) -> list[_Json]:
        left, turn_id = turn.meta.get("pi"), turn.pieces[0].source_id
        if not plainest and isinstance(left, dict) and isinstance(left.get("type"), str):
            before = turn.meta.get("piBefore", ())
            linked = [self.link(e["id"], e, from_pi=True) for e in before if _is_entry(e)] if before else []
            linked.append(self.link(turn_id, self._restored(turn, left), from_pi=True))
            self.ids.append(linked[-1]["id"])
        else:
            first, *more = [_custom(turn)] if plainest else self._mapped(turn)
            time = {"timestamp": self._time_text(turn.time)}
            linked = [self.link(turn_id, first | time)]
            self.ids.append(linked[0]["id"])
            noted = {"trails": {"part_of": self.ids[-1]}}
            linked += [self.link(_short(f"{turn_id} {n}"), each | time | noted) for n, each in enumerate(more)]
        called = content_parts.calls_in(turn.content if isinstance(turn.content, list) else ())
        self.tools |= {call.id: call.name for call in (*called, *content_parts.given_calls(turn.tool_calls))}
        return linked

    def _restored(self, turn: SourceTurn, left: Mapping[str, Any]) -> _Json:
        """Return the entry that a turn from pi came from: what was left of it, and what became the turn's own."""
        entry: _Json = dict(left)
        holder = entry
        if entry["type"] == "message" and isinstance(entry.get("message"), dict):
            entry["message"] = holder = dict(entry["message"])
        kind = str(holder.get("role")) if holder is not entry else str(entry["type"])
        own: _Json = {CONTENT_KEYS.get(kind, "content"): turn.content}
        own |= {"model": turn.model, "usage": turn.usage, "stopReason": turn.stop_reason}
        if turn.tool_call_id is not None:
            own |= {"toolCallId": turn.tool_call_id, "isError": turn.is_error}
        if turn.compaction:
            own["tokensBefore"] = turn.compaction.tokens_before
            if turn.compaction.first_kept is not None and turn.compaction.first_kept < len(self.ids):
                own["firstKeptEntryId"] = self.ids[turn.compaction.first_kept]
        for key, value in own.items():
            if value is not None:
                holder.setdefault(key, value)
        if turn.time is not None:
            entry.setdefault("timestamp", write_time(turn.time))
        return entry

    # --- turns from elsewhere

    def _mapped(self, turn: SourceTurn) -> list[_Json]:
        """Return the entries that show a turn from elsewhere to pi: one, or one for each result of a tool."""
        answers = content_parts.results_in(turn.content) if isinstance(turn.content, list) else ()
        if turn.compaction:
            return [self._compaction(turn)]
        if turn.tool_call_id is not None or answers:
            return list(self._results(turn))
        if turn.role == "assistant":
            return [self._message(turn, self._assistant(turn))]
        if turn.role in ("user", "human"):
            return [self._message(turn, {"role": "user", "content": _shown(turn.content)})]
        return [_custom(turn)]

    def _message(self, turn: SourceTurn, message: _Json) -> _Json:
        time = turn.time or self.last_time or _EPOCH
        return {"type": "message", "message": message | {"timestamp": (time - _EPOCH) // timedelta(milliseconds=1)}}

    def _compaction(self, turn: SourceTurn) -> _Json:
        made = turn.compaction or Compaction()
        entry: _Json = {"type": "compaction", "summary": content_parts.plain_text(turn.content)}
        kept = made.first_kept
        if kept is None and made.summarised_through is not None:
            kept = made.summarised_through + 1
        if kept is not None and kept < len(self.ids):
            entry["firstKeptEntryId"] = self.ids[kept]
        return entry | {"tokensBefore": made.tokens_before or 0}

    def _results(self, turn: SourceTurn) -> Iterator[_Json]:
        rest: list[Any] = []
        if turn.tool_call_id is not None:
            yield self._result(turn, turn.tool_call_id, turn.content, is_error=turn.is_error)
            return
        for part in turn.content:
            answer = content_parts.results_in([part])
            if answer and isinstance(part, dict):
                body = part.get("content", part.get("output", part.get("response")))
                yield self._result(turn, answer[0].call_id, body, is_error=answer[0].is_error)
            else:
                rest.append(part)
        if rest:
            yield self._message(turn, {"role": "user", "content": _shown(rest)})

    def _result(self, turn: SourceTurn, call_id: str, body: Any, *, is_error: bool) -> _Json:
        text = body if isinstance(body, str | list) else json.dumps(body, ensure_ascii=False)
        shown = _shown(text)
        content = [{"type": "text", "text": shown}] if isinstance(shown, str) else shown
        message = {"role": "toolResult", "toolCallId": call_id, "toolName": self.tools.get(call_id, "")}
        return self._message(turn, message | {"content": content, "isError": is_error})

    def _assistant(self, turn: SourceTurn) -> _Json:
        content = [turn.content] if isinstance(turn.content, str) else turn.content
        if content == [""] and turn.tool_calls:
            content = []
        shown = [_assistant_part(part) for part in (*content, *turn.tool_calls)]
        calls = any(part["type"] == "toolCall" for part in shown)
        reason = _STOP_REASONS.get(turn.stop_reason or "", "toolUse" if calls else "stop")
        message = {"role": "assistant", "content": shown, "api": "", "provider": "", "model": turn.model or ""}
        return message | {"usage": _usage(turn.usage or {}), "stopReason": reason}


def _short(text: str) -> str:
    """Return an id as pi's are: 8 hex digits. Equal turns get equal ids, so that copies of a prefix are recognised."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _custom(turn: SourceTurn) -> _Json:
    return {"type": "custom_message", "customType": turn.role, "content": _shown(turn.content), "display": True}


def _is_entry(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and isinstance(value.get("id"), str)


def _difference(turn: SourceTurn, read: SourceTurn) -> _Json:
    """Return the note that makes the reader give `turn` where the entry alone gives `read`."""
    noted: _Json = {
        name: _plain(getattr(turn, name)) for name in _COMPARED if getattr(turn, name) != getattr(read, name)
    }
    if turn.tool_results:
        noted["tool_results"] = [_plain(each) for each in turn.tool_results]
    if turn.payloads:
        noted["payloads"] = [_noted_payload(each) for each in turn.payloads]
    if turn.time != read.time:
        noted["time"] = None if turn.time is None else write_time(turn.time)
    content = read.content
    if turn.tool_calls:
        beside = len(turn.tool_calls)
        shown = content[-beside:] if isinstance(content, list) else []
        if shown and len(content_parts.calls_in(shown)) == beside:
            noted["beside"], content = beside, content[:-beside]
        if content_parts.calls_in(shown) != content_parts.given_calls(turn.tool_calls):
            noted["tool_calls"] = list(turn.tool_calls)
    if turn.content == content and type(turn.content) is type(content):
        return noted
    if isinstance(turn.content, str) and only_text(content) == turn.content:
        return noted | {"plain": True}
    return noted | {"content": turn.content}


def _noted_payload(payload: Payload) -> _Json:
    data = b64encode(payload.data).decode()
    return without_null({"name": payload.name, "media_type": payload.media_type, "data": data})


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True) if isinstance(value, Value) else value


def _shown(content: Any) -> str | list[Any]:
    """Return content as pi's users and tools have it: text, or parts that are text or images."""
    return content if isinstance(content, str) else [_shown_part(part) for part in content]


def _shown_part(part: Any) -> _Json:
    match part:
        case {"type": "image", "data": str(), "mimeType": str()}:
            return dict(part)
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return {"type": "image", "data": data, "mimeType": kind}
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
    return {"type": "text", "text": content_parts.plain_text([part])}


def _assistant_part(part: Any) -> _Json:
    if isinstance(part, dict) and (calls := content_parts.calls_in([part])):
        value = calls[0].input
        arguments = value if isinstance(value, dict) else {"arguments": value}
        same = part["type"] == "toolCall" and part.get("arguments") == arguments
        return part if same else {"type": "toolCall", "id": calls[0].id, "name": calls[0].name, "arguments": arguments}
    match part:
        case {"type": "thinking", "thinking": str(text)}:
            signature = part.get("thinkingSignature", part.get("signature"))
            return {"type": "thinking", "thinking": text} | ({"thinkingSignature": signature} if signature else {})
    return _shown_part(part)


def _usage(usage: Mapping[str, Any]) -> _Json:
    counted = counts_of(usage)
    hour = {} if counted.cache_write_1h is None else {"cacheWrite1h": counted.cache_write_1h}
    names = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}
    counts: _Json = {name: getattr(counted, own) or 0 for name, own in names.items()}
    counts |= {"totalTokens": tokens_of(usage, TOTAL_NAMES) or sum(counts.values())} | hour
    cost = usage.get("cost")
    total = cost if isinstance(cost, int | float) else 0
    return counts | {"cost": cost if isinstance(cost, dict) else dict.fromkeys(_COSTS, 0) | {"total": total}}
