"""Inspect AI's logs: an `.eval` file, which is a zip with a member a sample, or one JSON object.

Each sample of each epoch is a session, with the task, the model, the epoch and the sample's id as metadata. Samples are read
one at a time. A run that broke off has no header: what its journal says of the start is taken. A sample may be kept in
chunks, folders of numbered files; which it is, the names tell, and no version.

A sample keeps long texts once, as attachments, and the messages that model calls were given, as a pool. A reference is
`attachment://` with a hash, or with a number in chunked samples, anywhere in a text. A model call's `input_refs` are half-open
ranges of the pool's indices.

The conversation is what `messages` says. The events say who made each message and when, where a branch leaves it (the
longest beginning that its first model call shares with the line above it: an anchor may be set later than the message that it
means), and what a sub-agent said, of which the conversation has the call and the answer alone. What a branch replays before
its `branch` event is its past, and makes no turn.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import IO, Any, Final

from trails.errors import InvalidInput
from trails.exchange import containers, format_detection, json_files
from trails.exchange.containers import Archive
from trails.exchange.json_files import Json, as_list, as_object, as_text, objects_in, value_at, without_keys
from trails.exchange.record_checks import Reading, combine_files
from trails.exchange.source_transcript import Problem, SourceTurn, Transcript
from trails.exchange.source_values import base_name, first_name, parse_time, valid_name, without_empty
from trails.exchange.traces import inspect_turns
from trails.exchange.traces.inspect_turns import InspectMessage, MessageLine, MessageLines, answers_of, message_key

_HEADER: Final = "header.json"
_START: Final = "_journal/start.json"
_WHOLE: Final = re.compile(r"samples/(?:[^/]+|.+_epoch_[^/]*)\.json", re.DOTALL)
"""A sample's id stands in its member's name as it is, slashes too."""
_SHELL: Final = re.compile(r"samples/(.+)/sample\.json", re.DOTALL)
_CHUNK: Final = re.compile(r"samples/(.+)/(messages|events|attachments)/([0-9]{1,9})\.json", re.DOTALL)
_EVAL_OWN: Final = frozenset({"eval_id", "run_id", "created", "task", "model", "dataset", "tags"})
"""What of `eval` is metadata under its own name."""
_NUMBER: Final = re.compile(r"-?[0-9.]+")
SOURCE: Final = "inspect"
_MAIN: Final = ""
_READ: Final = frozenset({"model", "tool", "span_begin", "span_end", "anchor", "branch", "sample_init", "score"})
SAMPLE_META: Final = (
    "target", "choices", "error", "error_retries", "limit", "invalidation", "started_at", "completed_at",
    "total_time", "working_time", "model_usage", "role_usage", "turn_count", "uuid", "setup", "sandbox", "store",
)  # fmt: skip
_SAMPLE_OWN: Final = frozenset({
    *SAMPLE_META, "id", "epoch", "input", "messages", "message_refs", "message_pool", "output", "score", "scores",
    "metadata", "files", "events", "events_data", "attachments", "transcript",
})  # fmt: skip
"""What is read of a sample."""
_FORK_META: Final = ("task", "model", "epoch", "sample_id", "dataset", "eval_id")


def sniff(head: bytes) -> bool:
    """Tell whether a file that begins with these bytes is an Inspect log in JSON; an `.eval` file is told by `holds`.

    >>> sniff(b'{"version": 2, "status": "success", "eval": {"run_id":'), sniff(b'{"version": 2}')
    (True, False)
    """
    first = format_detection.outline_of_first(head)
    return not head.lstrip().startswith(b"[") and first.keys() >= {"eval", "version"} and first["eval"] is None


def holds(names: Sequence[str]) -> bool:
    """Tell whether a zip with these members is an Inspect log.

    >>> holds(["_journal/start.json", "samples/1_epoch_1.json"]), holds(["conversations.json"])
    (True, False)
    """
    return _START in names or (_HEADER in names and any(name.startswith(("samples/", "_journal/")) for name in names))


def stream(files: Sequence[tuple[str, IO[bytes]]]) -> Iterator[Transcript]:
    """Yield what each sample of logs (name of each, and the open file) says, a sample at a time; JSON is read as a whole.

    What cannot be read is a problem. Nothing that a file holds raises but `InvalidInput`: for one that would unpack to more
    than its size is taken to stand for, and where the package `zstandard` is needed and missing.
    """
    for name, file in files:
        is_zip = file.read(len(containers.ZIP_SIGNATURE)) == containers.ZIP_SIGNATURE
        file.seek(0)
        for reading in _read_zip(name, file) if is_zip else _read_json(name, file.read()):
            reading.notes = [f"{base_name(name)}: {note}" if name else note for note in reading.notes]
            yield combine_files([(name, reading)])


def _read_json(name: str, data: bytes) -> Iterator[Reading]:
    reading = Reading()
    log = reading.one_object(data, constants=True)
    samples = value_at(log, "samples")
    if log is not None and not isinstance(log.get("eval"), dict):
        reading.refuse(0, "is no log of Inspect: it has no eval", name)
    elif log is not None and not as_list(samples):
        reading.refuse(0, "holds no samples (a log may be written without them)", name)
    elif log is not None:
        header = _Header(log, reading)
        for sample in as_list(samples):
            header.read(sample, reading)
            yield reading
            reading = Reading()
        reading.note_counts(header.odd)
    yield reading


def _read_zip(name: str, file: IO[bytes]) -> Iterator[Reading]:
    reading = Reading()
    try:
        archive = Archive(file)
        top = next((each for each in (_HEADER, _START) if each in archive.names), None)
        log = json_files.read_object(archive.read(top), constants=True) if top else None
        if not isinstance(log, dict) or not isinstance(log.get("eval"), dict):
            why = f": {log.reason}" if isinstance(log, Problem) else ""
            reading.refuse(0, f"is no log of Inspect that can be read: it has no header with an eval{why}", name)
            yield reading
            return
        if top == _START:
            reading.notes.append("the run broke off: its log has no header, and what its start says is taken")
        header = _Header(log, reading)
        found = False
        yield reading
        for sample, own in _samples(archive):
            found = True
            if sample is not None:
                header.read(sample, own)
            yield own
        reading = Reading()
        reading.note_counts(header.odd)
        if not found:
            reading.refuse(0, "holds no samples", name)
    except InvalidInput as error:
        raise InvalidInput(f"{name} is not read: {error}") from error
    except containers.ZIP_FAULTS as error:
        reading = Reading()
        reading.refuse(0, f"is a zip that cannot be read: {error}", name)
    yield reading


def _samples(archive: Archive) -> Iterator[tuple[object, Reading]]:
    """Yield each sample, or None where it cannot be read, with what is to be said of that."""
    chunks: dict[str, list[tuple[str, int, str]]] = {}
    for name in archive.names:
        if chunk := _CHUNK.fullmatch(name):
            chunks.setdefault(chunk[1], []).append((chunk[2], int(chunk[3]), name))
    shells = {name: shell[1] for name in archive.names if (shell := _SHELL.fullmatch(name))}
    folders = tuple(f"samples/{folder}/" for folder in shells.values())
    for name in archive.names:
        reading = Reading()
        if name in shells or _WHOLE.fullmatch(name):
            sample = _member(archive, name, reading)
            if (folder := shells.get(name)) is not None and sample is not None:
                sample = _put_together(archive, folder, sample, chunks.get(folder, []), reading)
            yield sample, reading
        elif name.startswith("samples/") and not name.startswith(folders):
            reading.refuse(0, f"{name[:200]} is no sample, nor a part of one, and is not read", name)
            yield None, reading


def _member(archive: Archive, name: str, reading: Reading, read: Callable[..., Any] = json_files.read_object) -> Any:
    """Return what a member says, None where it cannot be read."""
    said: list[str] = []
    try:
        found = read(archive.read(name), constants=True, notes=said)
    except InvalidInput:
        raise
    except containers.ZIP_FAULTS as error:
        found = json_files.line_problem(0, f"cannot be read: {error}", name)
    if isinstance(found, Problem):
        reading.refuse(0, f"{name} {found.reason}", name)
        return None
    reading.notes += [f"{name} {each}" for each in said]
    return found


def _put_together(
    archive: Archive, folder: str, shell: dict[str, Any], chunks: Sequence[tuple[str, int, str]], reading: Reading
) -> dict[str, Any]:
    """Return a chunked sample as it is where it is kept whole: chunks are ordered by their number, not as text."""
    read: dict[str, list[tuple[int, object]]] = {}
    for kind, start, name in sorted(chunks, key=lambda each: each[1]):
        read.setdefault(kind, []).append((start, _member(archive, name, reading, json_files.read_list)))
    pool, texts, events = (
        inspect_turns.join_pools(read.get(kind, [])) for kind in ("messages", "attachments", "events")
    )
    metadata = _member(archive, name, reading) if (name := f"samples/{folder}/metadata.json") in archive.names else None
    sample = {
        **shell,
        "events": list(events.values()),
        "events_data": {"messages": pool},
        "attachments": {str(index): text for index, text in texts.items()},
    } | ({} if metadata is None else {"metadata": metadata})
    if "messages" not in shell:
        indices = inspect_turns.Pool(dict(pool)).indices(refs := shell.get("message_refs"))
        if indices is None:
            reading.refuse(0, f"samples/{folder} names messages that are not there", {"message_refs": refs})
        sample["messages"] = [pool[index] for index in indices or ()]
    return sample


class _Header:
    """What a log says of all its samples."""

    def __init__(self, log: Json, reading: Reading) -> None:
        own = as_object(log.get("eval"))
        told = json.dumps([own.get(key) for key in ("created", "task", "model", "dataset")])
        self._id = first_name(own.get("eval_id"), own.get("run_id")) or hashlib.sha256(told.encode()).hexdigest()[:16]
        meta = {key: own.get(key) for key in ("task", "model", "eval_id", "run_id", "created", "tags")}
        meta |= {"dataset": value_at(own, "dataset", "name"), "status": log.get("status")}
        meta |= {f"log_{key}": log.get(key) for key in ("tags", "metadata", "error", "updates")}
        meta |= {"log_updates": log.get("log_updates"), "invalidated": log.get("invalidated") or None}
        meta |= {"eval": without_empty(without_keys(own, *_EVAL_OWN)), "plan": log.get("plan")}
        self._meta = without_empty(meta)
        left = [key for key in ("results", "reductions", "stats") if log.get(key)]
        if left:
            reading.notes.append(f"{', '.join(left)}: figures over all samples, not kept")
        self._model = valid_name(own.get("model"))
        self.odd: Counter[str] = Counter()
        """What a reader should know of the samples that were read, with how often it was so."""

    def read(self, sample: object, reading: Reading) -> None:
        """Put the sessions of a sample into a reading."""
        identity = sample.get("id") if isinstance(sample, dict) else None
        if not isinstance(sample, dict) or isinstance(identity, bool) or not isinstance(identity, str | int | float):
            reading.refuse(0, "is no sample: it has no id", sample)
            return
        reading.count("sample")
        epoch = sample.get("epoch", 1)
        # 3 and "3" are two samples: a text that could be a number stands in quotes
        named = json.dumps(identity) if not isinstance(identity, str) or _NUMBER.fullmatch(identity) else identity
        session = f"{self._id}:{named}:{epoch}"
        meta = {**self._meta, "sample_id": identity, "epoch": epoch}
        try:
            Sample(sample, session, reading, self.odd, self._model).add_sessions(meta)
        except RecursionError:
            reading.refuse(0, f"sample {session} is nested too deeply", session)


# --- a sample


@dataclass(slots=True)
class _Owner:
    """What model calls belong to: the conversation, a branch of it, or a sub-agent."""

    id: str
    above: str
    kind: str
    name: str | None
    calls: list[Json] = field(default_factory=list)
    has_begun: bool = True
    """Whether what comes counts: in a branch, once its `branch` event came."""
    meta: dict[str, Any] = field(default_factory=dict)
    lines: MessageLines = field(default_factory=MessageLines)


class Sample:
    """One sample on its way to sessions."""

    def __init__(
        self, sample: Json, session_id: str, reading: Reading, odd: Counter[str], model: str | None = None
    ) -> None:
        """Take a sample apart; `odd` counts what a reader should know of all samples of a log."""
        self._sample = sample
        self._id = session_id
        self._reading = reading
        self._odd = odd
        self._model = model
        held = as_object(sample.get("transcript")) or sample
        self._texts = inspect_turns.Attachments(held.get("attachments") or held.get("content"))
        self._events = objects_in(held.get("events"))
        self._pool = inspect_turns.Pool(
            as_object(sample.get("events_data")).get("messages", sample.get("message_pool"))
        )
        self._pooled: dict[int, InspectMessage] = {}
        self._made: dict[str, Json] = {}
        """The event that made a message, by its id or, where it has none, by what it says."""
        self._spans: dict[str, Json] = {}
        self._owners: dict[str, _Owner] = {_MAIN: _Owner(_MAIN, _MAIN, "sample", None)}
        self._homes: dict[str, str] = {}
        self._turned: dict[int, SourceTurn | None] = {}
        """The turns that were made, by the identity of what they say; None for what cannot be kept."""
        self._named: Counter[str] = Counter()

    def add_sessions(self, meta: Mapping[str, Any]) -> None:
        """Add the sample's session to the reading, with the metadata given beside its own, and those of its sub-agents."""
        self._look()
        for key, value in self._sample.items():
            if key not in _SAMPLE_OWN and value not in (None, "", [], {}):
                self._odd[f"sample(s) have {key[:50]}, which is not kept"] += 1
        owner = self._owners[_MAIN]
        main = self._said_in(self._messages())
        if main:
            self._place_calls(main)
            owner.lines.lines = [main]
        elif owner.calls:
            self._odd["sample(s) have no messages; what was said is told by their model calls"] += 1
            self._line_of(owner, [])
        self._session(meta)
        self._agents()
        self._odd["attachment(s) are not in the log; the texts name them still"] += len(self._texts.missing)
        full = "sample(s) have texts without the attachments that would let them grow beyond all bounds"
        self._odd[full] += self._texts.is_full

    # --- what the events tell

    def _look(self) -> None:
        """Find the spans, who owns what in them, and which event made which message."""
        asked = {str(e["agent_span_id"]) for e in self._events if e.get("event") == "tool" and e.get("agent_span_id")}
        branches = {str(e.get("span_id")) for e in self._events if e.get("event") == "branch"}
        for event in self._events:
            kind = str(event.get("event"))[:50]
            self._reading.count(f"event/{kind}")
            if kind == "span_begin" and isinstance(event.get("id"), str):
                self._begin_span(event, asked, branches)
            elif kind == "branch":
                self._begin_branch(event)
            elif kind == "model":
                self._made_by_model(event)
            elif kind == "tool":
                self._made_by_tool(event)
            elif kind not in _READ:
                self._odd[f"event(s) of the kind {kind} made no turn"] += 1

    def _begin_span(self, event: Json, asked: Set[str], branches: Set[str]) -> None:
        """Find who owns what comes in a span; one of a branch without a `branch` event is ordinary content."""
        span, above, kind = str(event["id"]), event.get("parent_id"), event.get("type")
        self._spans.setdefault(span, event)
        home = self._homes.get(str(above), _MAIN)
        is_agent = kind == "agent" and (span in asked or self._is_called(above))
        owns = is_agent or kind == "scorer" or (kind == "branch" and span in branches)
        if owns and span not in self._owners:
            name = valid_name(event.get("name"))
            self._owners[span] = _Owner(span, home, str(kind), name, has_begun=kind != "branch")
        self._homes.setdefault(span, span if owns else home)

    def _is_called(self, above: object) -> bool:
        """Tell whether an agent's span stands in that of a tool which hands nothing off: then it is the tool."""
        span = self._spans.get(str(above), {})
        outer = self._spans.get(str(span.get("parent_id")), {})
        return span.get("type") == "tool" and outer.get("type") != "handoff"

    def _begin_branch(self, event: Json) -> None:
        owner = self._owners.get(str(event.get("span_id")))
        if owner is None or owner.kind != "branch":
            self._odd["branch event(s) stand in no span of a branch, and say nothing of it"] += 1
            return
        owner.has_begun = True
        anchor = event.get("from_anchor", event.get("from_message"))
        owner.meta = without_empty({"branch": owner.name, "from_anchor": anchor})

    def _made_by_model(self, event: Json) -> None:
        owner = self._owners[self._homes.get(str(event.get("span_id")), _MAIN)]
        if owner.has_begun:
            owner.calls.append(event)
        else:
            self._odd["model call(s) replay what came before a branch, and made no turn"] += 1
        for answer in answers_of(event):
            identity = answer.get("id")
            key = identity if isinstance(identity, str) else message_key(self._texts.put_in(answer))
            self._made.setdefault(key, event)

    def _made_by_tool(self, event: Json) -> None:
        for key in (event.get("message_id"), f"call {event.get('id')}"):
            if isinstance(key, str):
                self._made.setdefault(key, event)
        if nested := len(as_list(event.get("events"))):
            self._odd["event(s) stand within events of tools; not read"] += nested

    # --- lines

    def _messages(self) -> list[Any]:
        if messages := as_list(self._sample.get("messages")):
            return messages
        given = self._sample.get("input")
        if self._owners[_MAIN].calls:
            return []
        return [{"role": "user", "content": given}] if isinstance(given, str) and given else as_list(given)

    def _said_in(self, messages: Iterable[Any]) -> MessageLine:
        listed = list(messages)
        for message in listed:
            is_message = isinstance(message, dict)
            self._reading.count(f"message/{message.get('role')}" if is_message else "message/none")
            if not is_message:
                self._reading.refuse(0, f"sample {self._id}: is no message", message)
        return list(map(self._said, objects_in(listed)))

    def _said(self, message: Json) -> InspectMessage:
        whole = self._texts.put_in(message)
        key = message_key(whole)
        return InspectMessage(key, whole, self._event_of(whole, key))

    def _event_of(self, message: Json, key: str) -> Json | None:
        role, identity = as_text(message.get("role")) or "", message.get("id")
        wanted = {"assistant": "model", "tool": "tool"}.get(role)
        named = [identity] if isinstance(identity, str) else [key]
        if role == "tool":
            named.append(f"call {message.get('tool_call_id')}")
        found = (self._made.get(each) for each in named)
        return next((each for each in found if each is not None and each.get("event") == wanted), None)

    def _given(self, event: Json) -> MessageLine | None:
        """Return what a model call was given; None where that cannot be told."""
        if (ranges := event.get("input_refs")) is not None:
            indices = self._pool.indices(ranges)
            if indices is None or not all(isinstance(self._pool[index], dict) for index in indices):
                return None
            for index in indices:
                if index not in self._pooled:
                    self._pooled[index] = self._said(self._pool[index])
            return [self._pooled[index] for index in indices]
        given = event.get("input")
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        return list(map(self._said, objects_in(given)))

    def _place_calls(self, main: MessageLine) -> None:
        """Give the calls of agents that the conversation knows nothing of to sessions of their own; count what is left."""
        known = {said.key for said in main} | {str(said.message.get("id")) for said in main}
        strays: dict[str, list[Json]] = {}
        heard = set[str]()
        for event in self._owners[_MAIN].calls:
            agent, answers = self._agent_around(str(event.get("span_id"))), answers_of(event)
            if not answers:
                self._failed(event)
            elif any(str(a.get("id")) in known or message_key(self._texts.put_in(a)) in known for a in answers):
                heard.add(agent)
            else:
                strays.setdefault(agent, []).append(event)
        for agent, events in strays.items():
            if agent and agent not in heard and agent not in self._owners:
                name = valid_name(self._spans[agent].get("name"))
                self._owners[agent] = _Owner(agent, _MAIN, "agent", name, calls=events)
            else:
                what = "model call(s) have an answer that is in no message of the conversation; not kept"
                self._odd[what] += len(events)

    def _failed(self, event: Json) -> None:
        why = event.get("error")
        self._odd[f"model call(s) have no answer{f': {str(why)[:80]}' if why else ''}"] += 1

    def _agent_around(self, span: str) -> str:
        seen = set[str]()
        while span in self._spans and span not in seen:
            if self._spans[span].get("type") == "agent":
                return span
            seen.add(span)
            span = str(self._spans[span].get("parent_id"))
        return ""

    def _line_of(self, owner: _Owner, base: MessageLine) -> None:
        owner.lines = MessageLines(base=base)
        for event in owner.calls:
            given = self._given(event)
            if given is None:
                self._odd["model call(s) name messages that are not there; not kept"] += 1
                continue
            wholes = map(self._texts.put_in, answers_of(event))
            answers = [InspectMessage(message_key(whole), whole, event) for whole in wholes]
            if not answers:
                self._failed(event)
            owner.lines.add(given, answers)

    # --- sessions

    def _session(self, meta: Mapping[str, Any]) -> None:
        paths = self._paths(self._owners[_MAIN])
        own = {key: self._texts.put_in(self._sample.get(key)) for key in SAMPLE_META}
        own |= {
            "sample_metadata": self._texts.put_in(self._sample.get("metadata")),
            "files": list(as_object(self._sample.get("files"))),
            "output": self._unsaid(),
        }
        scores, unreadable = inspect_turns.given_scores(self._sample)
        given = {name: self._texts.put_in(score) for name, score in scores.items()}
        own["score_details"] = inspect_turns.score_details(given)
        self._odd["score(s) that no log of Inspect has like this; not kept"] += unreadable
        begun = (self._sample.get("started_at"), *(e.get("timestamp") for e in self._events[:1]), meta.get("created"))
        created = next((time for time in map(parse_time, begun) if time is not None), None)
        about: dict[str, Any] = {"agent": None, "fork_meta": _FORK_META, "forks_at_ends": True, "created": created}
        found = tuple(inspect_turns.sample_scores(self._id, given, self._scored()))
        self._reading.add_session(SOURCE, self._id, paths, {**meta, **without_empty(own)}, scores=found, **about)

    def _scored(self) -> dict[str, datetime | None]:
        """Return when each scorer scored, and under the name "" when the sample was done."""
        times = {"": parse_time(self._sample.get("completed_at"))}
        for event in (event for event in self._events if event.get("event") == "score"):
            if event.get("intermediate"):
                self._odd["intermediate score(s) are not kept"] += 1
            else:
                times[str(event.get("scorer"))] = parse_time(event.get("timestamp"))
        times[""] = times[""] or parse_time(self._events[-1].get("timestamp") if self._events else None)
        return times

    def _paths(self, owner: _Owner) -> tuple[tuple[SourceTurn, ...], ...]:
        """Return the turns of an owner's lines, and those of all branches that leave them."""
        lines = [self._turns(line, f"{owner.id}/" if owner.id else "") for line in owner.lines.lines]
        for branch in self._below(owner.id):
            above = self._owners[branch.above].lines.lines
            self._line_of(branch, above[0] if above else [])
            if not branch.lines.lines:
                self._odd["branch(es) hold no model call, and made no fork"] += 1
            lines += [self._turns(line, f"{branch.id}/", branch.meta) for line in branch.lines.lines]
        return tuple(lines) or ((),)

    def _unsaid(self) -> str | None:
        """Return the sample's answer, where no line of the conversation ends with it."""
        completion = as_text(as_object(self._sample.get("output")).get("completion"))
        if completion is None:
            return None
        whole = str(self._texts.put_in(completion))
        lines = [line for owner in self._owners.values() for line in owner.lines.lines]
        return None if whole in {inspect_turns.text_of(each.message) for line in lines for each in line[-2:]} else whole

    def _below(self, above: str) -> list[_Owner]:
        """Return the branches that leave a line or a branch of it, those above first."""
        found: list[_Owner] = []
        waiting = [above]
        while waiting:
            here = waiting.pop(0)
            inner = [o for o in self._owners.values() if o.kind == "branch" and o.above == here and o.id != here]
            found += inner
            waiting += [o.id for o in inner]
        return found

    def _agents(self) -> None:
        for owner in list(self._owners.values()):
            if owner.kind == "scorer" and owner.calls:
                what = f"model call(s) of the scorer {owner.name} are no part of the conversation; not kept"
                self._odd[what] += len(owner.calls)
            if owner.kind != "agent":
                continue
            self._line_of(owner, [])
            if owner.lines.lines:
                created = parse_time(self._spans[owner.id].get("timestamp"))
                meta = {"model": self._model, "agent_span": owner.id}
                about: dict[str, Any] = {"agent": owner.name, "spawned_by": self._spawner(owner), "forks_at_ends": True}
                own = f"{self._id}:agent-{owner.id}"
                self._reading.add_session(SOURCE, own, self._paths(owner), meta, created=created, **about)

    def _spawner(self, owner: _Owner) -> str:
        """Return the id of the session that a sub-agent was called from: of the nearest agent above it, or the sample's."""
        above = self._owners[owner.above]
        while above.kind in ("branch", "scorer"):
            above = self._owners[above.above]
        return f"{self._id}:agent-{above.id}" if above.kind == "agent" else self._id

    def _turns(self, line: MessageLine, scope: str, meta: Json | None = None) -> tuple[SourceTurn, ...]:
        """Return the turns of a line, those of a line that it leaves among them; what cannot be kept is reported.

        A turn is named after its message in a scope. `meta` goes to the first turn that is the line's own.
        """
        for place, said in enumerate(line):
            if id(said) not in self._turned:
                self._turned[id(said)] = self._turn(said, place, scope, meta or {})
                meta = None
        return tuple(turn for said in line if (turn := self._turned[id(said)]) is not None)

    def _turn(self, said: InspectMessage, place: int, scope: str, meta: Json) -> SourceTurn | None:
        name = f"{scope}{as_text(said.message.get('id')) or f'messages/{place}'}"
        self._named[name] += 1
        turn = inspect_turns.inspect_turn(
            said, name if self._named[name] == 1 else f"{name}#{self._named[name]}", self._model
        )
        turn = replace(turn, meta={**turn.meta, **meta})
        kept = self._reading.keeps(turn, 0, f"sample {self._id}: message {place}", said.message)
        return turn if kept else None
