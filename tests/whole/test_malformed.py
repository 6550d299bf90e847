# ruff: noqa: E501 - tables of inputs, a line each
"""Malformed input of every kind is refused with a `TrailsError`, or kept exactly; nothing else is ever raised."""

from __future__ import annotations

import copy
import json
import os
import random
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import trails
from tests.support.machines import Size
from trails import InvalidInput, Repository, TrailsError
from trails.exchange import rdf_files
from trails.exchange.chats import chatgpt
from trails.exchange.coding_agents import claude_code, codex, gemini, swe_agent
from trails.exchange.merge import merge
from trails.exchange.openclaw import pi_session_file as pi
from trails.exchange.source_transcript import Transcript
from trails.exchange.traces import otlp as otel
from trails.rdf import query_files

_TEXTS = (
    "", " ", "a", "plan", "main", "urn:trails:session:s", "urn:trails:session:", "urn:trails:turn:1", "urn:trails:", "\0", "\ud800", "a\udfffb",
    "\u202eevil", "e\u0301", "\ufeff", "\u2028", "<>", 'a"b', "a\\b", "{}", "x" * 199, "x" * 300, "../..", "%00", "%zz", "a b", "\t", "agent:", "agent:x",
    "urn:trails:agent:x", "urn:trails:principal:", "urn:trails:principal:a b", "é", "日本", "\U0001f9ed", "NaN", "0", "-1", "~fork-", "s/turn/0",
    "2020-01-01T00:00:00+00:00 urn:trails:session:s", "2020 x", "0001-01-01T00:00:00+23:59 urn:trails:session:s", "]]>", "';--", "?x", "_:b",
)  # fmt: skip
_WORDS = (
    "SELECT", "ASK", "CONSTRUCT", "DESCRIBE", "WHERE", "{", "}", "(", ")", "?s", "?p", "?o", "*", "GRAPH", "?g", "UNION", "OPTIONAL", "MINUS",
    "FILTER", "BIND", "AS", "VALUES", "SERVICE", "LOAD", "INSERT", "DELETE", "DATA", "DROP", "ALL", ".", ";", ",", "a", "trails:Session", "trails:index",
    "prov:value", "<urn:x>", "<", ">", '"text"', "'", '"""', "^^xsd:integer", "@en", "1", "1e400", "-", "+", "!", "/", "|", "^", "COUNT(*)", "GROUP BY",
    "ORDER BY", "LIMIT", "OFFSET", "DISTINCT", "REDUCED", "FROM", "FROM NAMED", "HAVING", "EXISTS", "NOT", "IN", "REGEX(?o, '(')", "STR(?o)", "BASE",
    "PREFIX", "x:", "[]", "[", "]", "_:b", "UNDEF", "\\u0041", "\\", "\0", "#", "\n", "<< ?s ?p ?o >>", "{|", "|}", "COALESCE(1/0)", "xsd:dateTime('x')",
    "catalogue", "sessions", "turns_by_role", "\ud800", "é",
)  # fmt: skip


class Junk:
    """Random values that callers, files and networks send by mistake or on purpose."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def text(self) -> str:
        if self.chance.random() < 0.6:
            return self.chance.choice(_TEXTS)
        return "".join(
            chr(self.chance.choice((self.chance.randrange(0x80), self.chance.randrange(0x11_0000))))
            for _ in range(self.chance.randrange(12))
        )

    def value(self, depth: int = 0) -> Any:
        """Return anything at all: what JSON can carry, what it cannot, and what nests deeply."""
        kind = self.chance.randrange(16 if depth < 3 else 12)
        plain: tuple[Any, ...] = (
            None, True, self.chance.randrange(-5, 9), 2**70, self.chance.random(), float("nan"), float("-inf"), b"bytes", {1, 2}, object(), Decimal("1.10"),
        )  # fmt: skip
        if kind < 11:
            return plain[kind]
        if kind == 11:
            return self.text()
        if kind == 12:
            return [self.value(depth + 1) for _ in range(self.chance.randrange(4))]
        if kind == 13:
            return self.deep()
        return {
            self.chance.choice((self.text(), 3, None)): self.value(depth + 1) for _ in range(self.chance.randrange(4))
        }

    def deep(self) -> Any:
        made: Any = "x"
        for _ in range(self.chance.choice((50, 99, 100, 101, 102, 2000))):
            made = [made] if self.chance.random() < 0.5 else {"a": made}
        return made

    def json(self, depth: int = 0) -> Any:
        """Return a value that JSON can carry."""
        kind = self.chance.randrange(8 if depth < 3 else 6)
        if kind < 5:
            return (None, True, self.chance.randrange(-5, 9), 1.5, self.chance.choice((10**400, "x", -0.0)))[kind]
        if kind == 5:
            return self.text()
        if kind == 6:
            return [self.json(depth + 1) for _ in range(self.chance.randrange(4))]
        return {self.text(): self.json(depth + 1) for _ in range(self.chance.randrange(4))}

    def time(self) -> Any:
        return self.chance.choice(
            (None, "now", 0, datetime.now(), datetime.now(UTC), datetime.min, datetime.max.replace(tzinfo=timezone(-timedelta(hours=23))),  # noqa: DTZ005, DTZ901 - naive on purpose
             datetime.min.replace(tzinfo=timezone(timedelta(hours=23))), datetime(1, 1, 1, tzinfo=UTC), self.value())
        )  # fmt: skip

    def part(self) -> Any:
        kind = self.chance.choice(
            ("text", "tool_use", "toolCall", "tool_result", "tool_call", "tool_call_response", "function", self.text())
        )
        fields = (
            "id",
            "name",
            "input",
            "arguments",
            "tool_use_id",
            "toolCallId",
            "content",
            "is_error",
            "text",
            "function",
            "response",
        )
        made = {"type": kind} | {
            self.chance.choice(fields): self.chance.choice((self.value, self.json, self.text))() for _ in range(4)
        }
        return self.chance.choice((made, made, made, self.value()))

    def some(self, **makers: Callable[[], Any]) -> dict[str, Any]:
        """Return keyword arguments, each given or left out."""
        return {name: make() for name, make in makers.items() if self.chance.random() < 0.4}

    def mutated(self, sample: list[dict[str, Any]]) -> bytes:
        """Return JSON lines with values replaced, keys dropped, lines doubled, cut or garbled."""
        lines = json.loads(json.dumps(sample))
        for _ in range(self.chance.randrange(1, 5)):
            holder: Any = self.chance.choice(lines) if lines else {}
            while isinstance(holder, dict | list) and holder:
                key: Any = self.chance.choice(list(holder if isinstance(holder, dict) else range(len(holder))))
                if isinstance(holder[key], dict | list) and self.chance.random() < 0.6:
                    holder = holder[key]
                    continue
                if self.chance.random() < 0.3:
                    del holder[key]
                else:
                    other = self.chance.choice(lines)
                    holder[key] = copy.deepcopy(  # never a value within itself
                        self.chance.choice(
                            (
                                self.json(),
                                self.chance.choice(list(holder.values() if isinstance(holder, dict) else holder)),
                                other.get(key) if isinstance(other, dict) else 1,
                            )
                        )
                    )
                break
            if lines and self.chance.random() < 0.3:
                lines.insert(
                    self.chance.randrange(len(lines) + 1), self.chance.choice((self.json(), self.chance.choice(lines)))
                )
        if self.chance.random() < 0.2:
            self.chance.shuffle(lines)
        data = "\n".join(json.dumps(line, ensure_ascii=self.chance.random() < 0.5) for line in lines).encode(
            "utf-8", "surrogatepass"
        )
        return self.garbled(data) if self.chance.random() < 0.4 else data

    def garbled(self, data: bytes) -> bytes:
        made = bytearray(data)
        for _ in range(self.chance.randrange(4)):
            if made:
                made[self.chance.randrange(len(made))] = self.chance.randrange(256)
        return bytes(made[: self.chance.randrange(len(made) + 1)] if self.chance.random() < 0.3 else made)


_PI: list[dict[str, Any]] = [
    {"type": "session", "version": 3, "id": "p1", "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/home/a"},
    {"type": "message", "id": "a0000001", "parentId": None, "timestamp": "2026-01-02T03:04:06.000Z", "message": {"role": "user", "content": "hi", "timestamp": 1}},
    {"type": "message", "id": "a0000002", "parentId": "a0000001", "timestamp": "2026-01-02T03:04:07.000Z", "message": {
        "role": "assistant", "content": [{"type": "text", "text": "hello"}, {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"p": "."}}],
        "api": "x", "provider": "y", "model": "m", "usage": {"input": 1, "output": 2, "cost": {"total": 0.5}}, "stopReason": "toolUse", "timestamp": 2}},
    {"type": "message", "id": "a0000003", "parentId": "a0000002", "timestamp": "2026-01-02T03:04:08.000Z", "message": {
        "role": "toolResult", "toolCallId": "c1", "toolName": "ls", "content": [{"type": "text", "text": "f"}], "isError": False, "timestamp": 3}},
    {"type": "compaction", "id": "a0000004", "parentId": "a0000003", "timestamp": "2026-01-02T03:04:09.000Z", "summary": "s", "firstKeptEntryId": "a0000002", "tokensBefore": 9},
    {"type": "message", "id": "a0000005", "parentId": "a0000001", "timestamp": "2026-01-02T03:04:10.000Z", "message": {"role": "user", "content": "other", "timestamp": 4}},
    {"type": "label", "id": "a0000006", "parentId": "a0000005", "timestamp": "2026-01-02T03:04:11.000Z", "targetId": "a0000001", "label": "mark"},
    {"type": "session_info", "id": "a0000007", "parentId": "a0000006", "timestamp": "2026-01-02T03:04:12.000Z", "name": "title"},
]  # fmt: skip
_CLAUDE: list[dict[str, Any]] = [
    {"type": "summary", "summary": "A title", "leafUuid": "u3"},
    {"type": "user", "uuid": "u1", "parentUuid": None, "isSidechain": False, "sessionId": "c1", "cwd": "/h", "version": "2", "timestamp": "2026-01-02T03:04:05.678Z",
     "message": {"role": "user", "content": "hi"}},
    {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "isSidechain": False, "sessionId": "c1", "timestamp": "2026-01-02T03:04:06.678Z", "requestId": "r1",
     "message": {"id": "m1", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 3}, "stop_reason": None}},
    {"type": "assistant", "uuid": "u3", "parentUuid": "u2", "isSidechain": False, "sessionId": "c1", "timestamp": "2026-01-02T03:04:07.678Z", "requestId": "r1",
     "message": {"id": "m1", "role": "assistant", "model": "m", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}], "usage": {"input_tokens": 3}}},
    {"type": "user", "uuid": "u4", "parentUuid": "u3", "isSidechain": False, "sessionId": "c1", "timestamp": "2026-01-02T03:04:08.678Z",
     "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "f", "is_error": False}]}, "toolUseResult": {"x": 1}},
    {"type": "system", "subtype": "compact_boundary", "uuid": "u5", "parentUuid": None, "logicalParentUuid": "u4", "sessionId": "c1", "timestamp": "2026-01-02T03:04:09.678Z",
     "compactMetadata": {"trigger": "auto", "preTokens": 5}},
    {"type": "user", "uuid": "u6", "parentUuid": "u5", "isCompactSummary": True, "sessionId": "c1", "timestamp": "2026-01-02T03:04:10.678Z", "message": {"role": "user", "content": "so far"}},
    {"type": "user", "uuid": "u7", "parentUuid": "u2", "isSidechain": False, "sessionId": "c1", "timestamp": "2026-01-02T03:05:10.678Z", "message": {"role": "user", "content": "again"}},
]  # fmt: skip
_CHATGPT: list[dict[str, Any]] = [
    {"conversation_id": "g1", "title": "t", "create_time": 1704067200.5, "current_node": "n4", "mapping": {
        "n1": {"id": "n1", "parent": None, "children": ["n2"], "message": None},
        "n2": {"id": "n2", "parent": "n1", "children": ["n3", "n4"], "message": {"id": "n2", "author": {"role": "user", "name": None}, "create_time": 1704067201,
               "content": {"content_type": "text", "parts": ["hi"]}, "metadata": {}, "weight": 1.0}},
        "n3": {"id": "n3", "parent": "n2", "children": [], "message": {"id": "n3", "author": {"role": "assistant"}, "create_time": 1704067202,
               "content": {"content_type": "code", "language": "py", "text": "1"}, "metadata": {"model_slug": "m", "finish_details": {"type": "stop"}}}},
        "n4": {"id": "n4", "parent": "n2", "children": [], "message": {"id": "n4", "author": {"role": "tool", "name": "py"}, "create_time": None,
               "content": {"content_type": "multimodal_text", "parts": [{"content_type": "image"}, "see"]}}}}},
    {"id": "g2", "mapping": {"m1": {"id": "m1", "parent": None, "children": [], "message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["x"]}}}}},
]  # fmt: skip
_CODEX: list[dict[str, Any]] = [
    {"timestamp": "2026-01-02T03:04:05.000Z", "type": "session_meta", "payload": {"id": "x1", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/h", "forked_from_id": "x0",
     "source": {"subagent": {"thread_spawn": {"parent_thread_id": "x0"}}}, "base_instructions": {"text": "be"}}},
    {"timestamp": "2026-01-02T03:04:06.000Z", "type": "turn_context", "payload": {"model": "m", "cwd": "/h"}},
    {"timestamp": "2026-01-02T03:04:07.000Z", "type": "event_msg", "payload": {"type": "user_message", "message": "hi"}},
    {"timestamp": "2026-01-02T03:04:07.001Z", "type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}},
    {"timestamp": "2026-01-02T03:04:08.000Z", "type": "event_msg", "payload": {"type": "agent_reasoning", "text": "hm"}},
    {"timestamp": "2026-01-02T03:04:08.001Z", "type": "response_item", "payload": {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}},
    {"timestamp": "2026-01-02T03:04:09.000Z", "type": "response_item", "payload": {"type": "function_call", "name": "ls", "arguments": "{}", "call_id": "c1"}},
    {"timestamp": "2026-01-02T03:04:10.000Z", "type": "response_item", "payload": {"type": "function_call_output", "call_id": "c1", "output": {"content": "f", "success": False}}},
    {"timestamp": "2026-01-02T03:04:10.500Z", "type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": {"total_tokens": 3}, "last_token_usage": {"total_tokens": 3}}}},
    {"timestamp": "2026-01-02T03:04:11.000Z", "type": "compacted", "payload": {"message": "so far", "replacement_history": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]}},
    {"timestamp": "2026-01-02T03:04:12.000Z", "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
    {"timestamp": "2026-01-02T03:04:13.000Z", "type": "event_msg", "payload": {"type": "agent_message", "message": "bye"}},
]  # fmt: skip
_GEMINI: list[dict[str, Any]] = [
    {"sessionId": "m1", "projectHash": "p", "startTime": "2026-01-02T03:04:05.000Z", "kind": "main"},
    {"id": "a", "timestamp": "2026-01-02T03:04:06.000Z", "type": "user", "content": "hi"},
    {"id": "b", "timestamp": "2026-01-02T03:04:07.000Z", "type": "gemini", "content": [{"text": "x"}], "model": "m", "tokens": {"input": 1, "total": 2},
     "thoughts": [{"subject": "s", "description": "d"}],
     "toolCalls": [{"id": "c", "name": "ls", "args": {}, "status": "error", "result": [{"functionResponse": {"id": "c", "name": "ls", "response": {"error": "no"}}}]}]},
    {"$set": {"messages": [{"id": "a", "type": "user", "content": {"text": "hi"}}]}},
    {"id": "d", "timestamp": "2026-01-02T03:04:08.000Z", "type": "info", "content": "note"},
    {"$rewindTo": "d"},
]  # fmt: skip
_SWE_AGENT: list[dict[str, Any]] = [
    {"environment": "main", "history": [
        {"role": "system", "content": "s", "agent": "main", "message_type": "system_prompt"}, {"role": "user", "content": "demo", "is_demo": True},
        {"role": "assistant", "content": "t", "thought": "t", "action": "ls", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]},
        {"role": "tool", "content": [{"type": "text", "text": "f"}], "tool_call_ids": ["c1"]}],
     "trajectory": [{"action": "ls", "observation": "f", "response": "t", "thought": "t", "execution_time": 0.1, "state": "{}"}],
     "info": {"exit_status": "submitted", "submission": "x"}, "replay_config": "{\"agent\": {\"model\": {\"name\": \"m\"}}, \"problem_statement\": {\"id\": \"p\"}}"},
]  # fmt: skip
_OTEL: list[dict[str, Any]] = [
    {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "t1", "spanId": "s1", "name": "chat", "startTimeUnixNano": "1767322800000000000", "endTimeUnixNano": "1767322801000000000",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}, {"key": "gen_ai.conversation.id", "value": {"stringValue": "o1"}},
                       {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "3"}},
                       {"key": "gen_ai.input.messages", "value": {"stringValue": "[{\"role\": \"user\", \"parts\": [{\"type\": \"text\", \"content\": \"q\"}]}]"}},
                       {"key": "gen_ai.output.messages", "value": {"arrayValue": {"values": []}}}]}]}]}]},
    {"trace_id": "t1", "span_id": "s2", "parent_span_id": "s3", "name": "chat", "start_time": "2026-01-02T03:04:05Z", "attributes": {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m",
     "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "q"}]}], "gen_ai.output.messages": [
         {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {}}], "finish_reason": "tool_call"}]}},
    {"trace_id": "t1", "span_id": "s3", "name": "agent", "attributes": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "guide", "gen_ai.system_instructions": "[{\"content\": \"be\"}]"}},
    {"trace_id": "t1", "span_id": "s4", "name": "tool", "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": {"a": 1}}, "status": {"code": 2}},
    {"context": {"trace_id": "0xt2", "span_id": "0xs"}, "name": "old", "attributes": {}, "events": [
        {"name": "gen_ai.user.message", "attributes": {"content": "q"}}, {"name": "gen_ai.choice", "attributes": {"message": "{\"content\": \"a\"}"}}]},
]  # fmt: skip
_NQUADS = (
    b"<urn:trails:session:r1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <https://w3id.org/trails#Session> .\n"
    b'<urn:trails:session:r1> <https://w3id.org/trails#branch> "main" .\n'
    b'<urn:trails:session:r1> <https://w3id.org/trails#state> "active" .\n'
    b'<urn:trails:session:r1/turn/0> <https://w3id.org/trails#index> "0"^^<http://www.w3.org/2001/XMLSchema#integer> <urn:trails:session:r1> .\n'
)


class Attempts:
    """One attempt of each kind at a store."""

    def __init__(self, store: Repository, chance: random.Random) -> None:
        self._store = store
        self._junk = Junk(chance)
        self._chance = chance
        self._session = store.create(id="s")
        self._session.append("user", "start")
        self._session.persist()
        self._catalogue = sorted(query_files.load_all())

    def append(self) -> None:
        junk = self._junk
        session = self._store.load("s") if self._chance.random() < 0.02 else self._store.create()
        content: Any = self._chance.choice(
            (junk.text(), junk.value(), [junk.part() for _ in range(self._chance.randrange(4))])
        )
        role: Any = self._chance.choice(("user", "assistant", "tool", junk.text(), junk.value()))
        try:
            session.append(
                role,
                content,
                **junk.some(
                    author=lambda: self._chance.choice((junk.text(), junk.value())), time=junk.time, model=junk.text,
                    usage=lambda: self._chance.choice(({"input_tokens": junk.value()}, {"cost": {"total": junk.value()}}, junk.value())),
                    stop_reason=junk.text, tool_calls=lambda: [junk.part()], tool_call_id=junk.text, meta=junk.value,
                ),
            )  # fmt: skip
            session.persist()
            assert self._store.replay(session.id)[-1]["role"] == role
            if isinstance(content, str):
                assert self._store.replay(session.id)[-1]["content"] == content
        finally:
            session.discard_pending()

    def create(self) -> None:
        junk = self._junk
        text_or_value = lambda: self._chance.choice((junk.text(), junk.text(), junk.value()))  # noqa: E731 - three times below
        self._store.create(
            **junk.some(
                id=text_or_value, principal=text_or_value, agent=junk.text, label=text_or_value, key=junk.text, kind=junk.text, meta=junk.value, system=junk.text,
                created=junk.time, spawned_by=text_or_value, source_session=junk.text,
            )
        ).persist()  # fmt: skip

    def name(self) -> None:
        junk, store = self._junk, self._store
        name: Any = self._chance.choice((junk.text(), junk.text(), "urn:trails:session:" + junk.text(), junk.value()))
        use: Callable[[], object] = self._chance.choice(
            (
                lambda: store.load(name), lambda: store.replay(name, up_to_index=junk.value()), lambda: store.record(name), lambda: store.branches(name),
                lambda: store.delete(name) if name != "s" else None, lambda: store.set_label(name, junk.text()), lambda: store.detach(name), lambda: store.verify(name),
                lambda: store.flatten(name, id=junk.text(), label=junk.text()), lambda: name in store,
                lambda: store.list(**junk.some(principal=junk.text, agent=junk.text, label=junk.text, since=junk.time, until=junk.time, limit=junk.value, cursor=junk.text)),
                lambda: self._session.fork(**junk.some(at=junk.value, id=junk.value, principal=junk.text, label=junk.text, meta=junk.value)).persist(),
                lambda: store.resolve(junk.text()), lambda: self._session.set_label(junk.text()), lambda: store.delete("s", children=junk.text()),  # type: ignore[arg-type] # that is the test
            )
        )  # fmt: skip
        use()

    def query(self) -> None:
        junk = self._junk
        if self._chance.random() < 0.3:
            name = self._chance.choice(self._catalogue)
            parameters = (
                [p.name for p in getattr(query_files.find(name), "parameters", ())]
                if self._chance.random() < 0.8
                else []
            )
            given: dict[str, Any] = {
                p: self._chance.choice((junk.text(), junk.value(), junk.time(), ["s"]))
                for p in (*parameters, *junk.some(x=junk.value))
            }
            self._store.query(name, **given)
            return
        words = [self._chance.choice(_WORDS) for _ in range(self._chance.randrange(14))]
        text = self._chance.choice((" ".join(words), f"SELECT * {{ {' '.join(words)} }}", "".join(words), junk.text()))
        if self._chance.random() < 0.02:
            text = "SELECT * " + self._chance.choice("{([<!-") * self._chance.choice((150, 5000, 70_000))
        self._store.query(text)

    def pi(self) -> None:
        self._merge(pi.parse([("p.jsonl", self._junk.mutated(_PI))]))

    def claude_code(self) -> None:
        self._merge(claude_code.parse([("c.jsonl", self._junk.mutated(_CLAUDE))]))

    def chatgpt(self) -> None:
        self._merge(chatgpt.parse([("conversations.json", self._junk.mutated(_CHATGPT))]))

    def codex(self) -> None:
        self._merge(codex.parse([("rollout.jsonl", self._junk.mutated(_CODEX))]))

    def gemini(self) -> None:
        self._merge(gemini.parse([("session.jsonl", self._junk.mutated(_GEMINI))]))

    def swe_agent(self) -> None:
        self._merge(swe_agent.parse([("run.traj", self._junk.mutated(_SWE_AGENT))]))

    def otel(self) -> None:
        self._merge(otel.parse([("spans.jsonl", self._junk.mutated(_OTEL))]))

    def _merge(self, transcript: Transcript) -> None:
        if (
            self._chance.random() < 0.25
        ):  # most of what can go wrong is in the reading, and merging takes 30 times as long
            merge(self._store, transcript)

    def rdf(self) -> None:
        lines = _NQUADS.splitlines(keepends=True)
        data = b"".join(self._chance.choice(lines) for _ in range(self._chance.randrange(8)))
        rdf_files.import_rdf(self._store, self._junk.garbled(data), self._chance.choice(("nquads", "trig")))


_KINDS = (
    "append",
    "append",
    "create",
    "name",
    "name",
    "query",
    "query",
    "pi",
    "claude_code",
    "chatgpt",
    "codex",
    "gemini",
    "swe_agent",
    "otel",
    "rdf",
)
_FRESH_EVERY = 1000
"""Inputs that one store takes: many sessions pile up in it."""


def _place(error: Exception) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "tests" not in frame.filename]
    return ", ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames[:4])


@pytest.mark.slow
def test_malformed_input_raises_nothing_but_trails_errors_and_leaves_the_store_sound(size: Size) -> None:
    seed = int(os.environ.get("TRAILS_SEED", "20260731"))
    chance = random.Random(seed)
    inputs = {"quick": 1_000, "all": 10_000, "long": 100_000}[size]
    refused, wrong = 0, []
    for round_ in range(inputs // _FRESH_EVERY):
        with trails.open(":memory:") as store:
            attempts = Attempts(store, chance)
            for number in range(_FRESH_EVERY):
                kind = chance.choice(_KINDS)
                state = chance.getstate()
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ResourceWarning)
                        getattr(attempts, kind)()
                except TrailsError:
                    refused += 1
                except Exception as error:  # noqa: BLE001 - any other error is what is looked for
                    wrong.append(
                        f"input {round_ * _FRESH_EVERY + number} ({kind}): {type(error).__name__}: {error}"[:300]
                    )
                    chance.setstate(state)
                    chance.random()
            report = store.verify()
            assert report.ok, (seed, round_, report.findings[:3])
    assert not wrong, f"seed {seed}: {len(wrong)} inputs: " + "\n".join(wrong[:20])
    assert refused > inputs / 5


@pytest.mark.parametrize(
    "word", ["SERVICE <http://127.0.0.1:9/> { ?s ?p ?o }", "\\u0053ERVICE <http://127.0.0.1:9/> { ?s ?p ?o }"]
)
def test_a_query_that_reaches_out_is_refused_however_it_is_written(word: str) -> None:
    with trails.open(":memory:") as store, pytest.raises(TrailsError):
        store.query(f"SELECT * {{ {word} }}")


def test_an_id_that_would_be_taken_for_an_iri_is_refused() -> None:
    with trails.open(":memory:") as store, pytest.raises(InvalidInput, match="taken for an IRI"):
        store.create(id="urn:trails:session:x")


@pytest.mark.parametrize(
    "author", ["urn:trails:principal:a b", "urn:trails:principal:", "urn:trails:session:s", "urn:trails:agent:%zz"]
)
def test_an_author_given_by_an_iri_that_is_none_is_refused(author: str) -> None:
    with trails.open(":memory:") as store, pytest.raises(InvalidInput, match="author"):
        store.create().append("user", "x", author=author)


def test_a_lone_surrogate_is_no_name_of_a_session_and_deep_nesting_no_number() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with trails.open(":memory:") as store:
        with pytest.raises(InvalidInput, match="surrogate"):
            store.resolve("\ud800")
        with pytest.raises(InvalidInput, match="whole number"):
            store.list(limit=deep)  # type: ignore[arg-type] # that is the test
