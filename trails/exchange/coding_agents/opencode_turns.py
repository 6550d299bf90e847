"""Make turns and sessions from messages of opencode.

==============================  ===========  ==============================================================
part                            turn         what becomes of it
==============================  ===========  ==============================================================
text, reasoning, file, subtask  the role's   a part of the content; images as `image` parts
tool                            assistant    `tool_use` with the input
tool that ended                 tool         `tool_result` with the output or the error, and when it ran
step-finish                     assistant    usage with the cost, and the reason for stopping
any other                       the role's   metadata `opencode`, with all else that a message and its parts say
==============================  ===========  ==============================================================

A message of several model calls is divided where a step starts. One without steps is divided where it goes on after a tool.

Messages of opencode as rows of `session_message` hold them: each whole, with its content, under its type.

=======================================  ============  =====================================================
type                                     turn          content
=======================================  ============  =====================================================
user                                     user          text, files, agents and skills, each a part
synthetic, skill                         user          the text, marked as synthetic
system                                   system        the text
shell                                    bash          the output
assistant                                assistant     text, reasoning and calls; what tools answered as `tool`
compaction that was completed            summary       the summary, and what it keeps of the latest messages
any other                                none          metadata of the next turn
=======================================  ============  =====================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trails.exchange import source_values
from trails.exchange.json_files import Json, as_list, as_object, as_text, value_at, without_keys
from trails.exchange.record_checks import Reading
from trails.exchange.source_transcript import Piece, SourceTurn
from trails.exchange.source_values import call_part, epoch_time, result_part, run_times, valid_name, without_empty
from trails.model.values import Call, Compaction
from trails.usage import with_source

META: Final = "opencode"
"""The key of a turn's metadata for what its own fields do not hold."""
_PART_OWN: Final = frozenset({"id", "messageID", "sessionID"})
_TYPED: Final = {*_PART_OWN, "type", "text", "time"}
"""The fields of a text that a user typed, if that is all of it."""
_BESIDE: Final = frozenset({"step-start", "step-finish", "snapshot", "patch", "retry", "agent", "compaction"})
_GOES_ON: Final = frozenset({"text", "reasoning"})
_TOOL_OWN: Final = frozenset({"type", "callID", "tool", "state"})
_ENDED: Final = {"completed": "output", "error": "error"}
"""The states of a tool that has ended, and where they keep what it answered."""

_OWN: Final = frozenset({"type", "sessionID"})
_LATER_ROLES: Final = {"synthetic": "user", "skill": "user", "shell": "bash", "compaction": "summary"}
_TOOL_ENDED: Final = frozenset({"completed", "error"})
SOURCE: Final = "opencode"
AFTER: Final = "after"
"""The key of a session's metadata for messages that no turn follows, and that make none."""
_INFO_OWN: Final = frozenset({"id", "title", "parentID"})
_SAID: Final = ("type", "text", "tool", "callID", "prompt", "url", "hash")
Message = tuple[dict[str, Any], list[dict[str, Any]]]
"""What a message says of itself, and its parts."""


@dataclass(slots=True)
class Step:
    """What one model call said, what its tools answered, and what stands beside both."""

    said: list[Piece] = field(default_factory=list)
    answers: list[Piece] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    """When the tools ran, as `Session.append` takes it."""
    beside: list[dict[str, Any]] = field(default_factory=list)
    beside_answers: list[dict[str, Any]] = field(default_factory=list)
    finish: Json = field(default_factory=dict)
    """The step's end, where it says so itself."""

    def add_tool(self, call_id: str, name: str, arguments: object, source_id: str) -> None:
        """Add a call."""
        self.said.append(Piece(source_id, (call_part(call_id, name, arguments),)))

    def add_answer(
        self, call_id: str, content: object, source_id: str, times: Sequence[object], *, failed: bool
    ) -> None:
        """Add what a tool answered, and when it began and ended."""
        self.answers.append(Piece(source_id, (result_part(call_id, content, failed=failed),)))
        started, ended = (epoch_time(time, 1000) for time in times)
        if not (started and ended and started > ended):
            self.results.append({"call_id": call_id, "is_error": failed} | run_times(started, ended))

    def answer_turns(self) -> list[SourceTurn]:
        """Return the turn of what the tools answered, if they did; it is of the time when the last of them ended."""
        if not self.answers:
            return []
        beside = {META: {"parts": self.beside_answers}} if self.beside_answers else {}
        ended = max((each["ended"] for each in self.results if "ended" in each), default=None)
        return [SourceTurn("tool", tuple(self.answers), ended, tool_results=tuple(self.results), meta=beside)]


def turns_of(info: Json, parts: Sequence[Json]) -> list[SourceTurn]:
    """Return the turns that a message makes: none for one that says nothing yet."""
    steps = _folded([_step(info, group) for group in _groups(parts)])
    if not any(step.said for step in steps):
        if info["role"] != "assistant" or not (info.get("error") or any(token_numbers(info))):
            return []
        steps = [Step(said=[Piece(str(info["id"]), "")], beside=[each for step in steps for each in step.beside])]
    meta: dict[str, Any] = {"message": _message_left(info, steps)}
    made: list[SourceTurn] = []
    for place, step in enumerate(steps):
        meta |= {"parts": step.beside} if step.beside else {}
        made.append(_said(info, step, steps, place, {META: meta} if meta else {}))
        meta = {}
        made += step.answer_turns()
    return made


def _said(info: Json, step: Step, steps: Sequence[Step], place: int, meta: Json) -> SourceTurn:
    times, is_model = as_object(info.get("time")), info["role"] == "assistant"
    return SourceTurn(
        role="summary" if is_summary(info) else str(info["role"]),
        pieces=tuple(step.said),
        time=epoch_time(times.get("created"), 1000) if place == 0 else None,
        model=valid_name(info.get("modelID")) if is_model else None,
        usage=_usage(info, step, steps) if is_model else None,
        stop_reason=_stop(info, step, is_last=place == len(steps) - 1) if is_model else None,
        call=_call(info, times, alone=len(steps) == 1) if is_model else None,
        meta=meta,
    )


def _folded(steps: Sequence[Step]) -> list[Step]:
    """Return steps that all say something, if any does: what stands beside the others goes with the one before, or after."""
    made: list[Step] = []
    waiting: list[dict[str, Any]] = []
    for step in steps:
        if step.said:
            step.beside = [*waiting, *step.beside]
            waiting = []
            made.append(step)
        elif made:
            made[-1].beside += step.beside
            made[-1].finish = made[-1].finish or step.finish
        else:
            waiting += step.beside
    return made or list(steps)


def is_summary(info: Json) -> bool:
    """Tell whether a message sums up what came before it."""
    return info["role"] == "assistant" and info.get("summary") is True and not info.get("error")


def is_open(info: Json) -> bool:
    """Tell whether a message may still get more, for all that it says."""
    return info["role"] == "assistant" and not info.get("error") and "completed" not in as_object(info.get("time"))


def _groups(parts: Sequence[Json]) -> Iterator[list[Json]]:
    """Yield the parts of a message, those of one model call together."""
    has_steps = any(part.get("type") == "step-start" for part in parts)
    group: list[Json] = []
    for part in parts:
        kind = as_text(part.get("type")) or ""
        after_tool = kind in _GOES_ON and any(each.get("type") == "tool" for each in group)
        if group and (kind == "step-start" if has_steps else after_tool):
            yield group
            group = []
        group.append(part)
    if group:
        yield group


def _step(info: Json, parts: Sequence[Json]) -> Step:
    step = Step()
    for part in parts:
        kind, own = as_text(part.get("type")) or "", str(part["id"])
        if kind == "step-finish":
            step.finish = part
        if kind in _BESIDE:
            step.beside.append(without_keys(part, "messageID", "sessionID"))
        elif kind == "tool" and as_text(part.get("callID")) and valid_name(part.get("tool")):
            _add_tool(step, part, own)
        elif kind == "text" and info["role"] == "user" and isinstance(part.get("text"), str) and part.keys() <= _TYPED:
            step.said.append(Piece(own, part["text"]))
            if "time" in part:
                step.beside.append({"id": own, "time": part["time"]})
        else:
            step.said.append(Piece(own, (_content(part),)))
    return step


def _content(part: Json) -> dict[str, Any]:
    """Return a part as it stands in the content: an image as the model was shown it, any other without its ids."""
    kept = without_keys(part, *_PART_OWN)
    mime, url = part.get("mime"), part.get("url")
    if part.get("type") != "file" or not isinstance(mime, str) or not isinstance(url, str):
        return kept
    head, comma, data = url.partition(";base64,")
    if not mime.startswith("image/") or not comma or head != f"data:{mime}":
        return kept
    del kept["mime"], kept["url"]
    return {**kept, **source_values.image_part(mime, data)}


def _add_tool(step: Step, part: Json, own: str) -> None:
    state = as_object(part.get("state"))
    step.add_tool(part["callID"], part["tool"], state.get("input", {}), own)
    left = without_keys(part, *_TOOL_OWN, *_PART_OWN)
    left_state = without_keys(state, "input", "time")
    key = _ENDED.get(str(state.get("status")))
    if key is None or key not in state:
        left |= {"state": left_state | ({"time": state["time"]} if "time" in state else {})}
        step.beside.append({"id": own} | left)
        return
    answer = left_state.pop(key)
    attached = left_state.pop("attachments", None)
    if isinstance(attached, list) and attached and all(isinstance(each, dict) for each in attached):
        answer = [{"type": "text", "text": answer}, *map(_content, attached)]
    elif attached:
        left_state["attachments"] = attached
    times = as_object(state.get("time"))
    ran = times.get("start"), times.get("end")
    step.add_answer(part["callID"], answer, f"{own}/result", ran, failed=state["status"] == "error")
    left_state = without_empty(left_state | {"time": without_keys(times, "start", "end")})
    if left_state.keys() > {"status"} or left:
        step.beside_answers.append({"id": own} | left | {"state": left_state})


# --- the model call


def token_numbers(info: Json) -> Iterator[float]:
    """Yield the counts of tokens of a message that are not 0."""
    tokens = as_object(info.get("tokens"))
    counts = (*tokens.values(), *as_object(tokens.get("cache")).values())
    yield from (count for count in counts if isinstance(count, int | float) and count)


def _usage(info: Json, step: Step, steps: Sequence[Step]) -> dict[str, Any] | None:
    """Return what one call used: what its step says, else what the message says, with its last call."""
    teller: Json = step.finish
    if not any(each.finish for each in steps):
        teller = info if step is next(each for each in reversed(steps) if each.said) else {}
    return _told_usage(dict(teller))


def _stop(info: Json, step: Step, *, is_last: bool) -> str | None:
    if is_last and (error := info.get("error")):
        return "aborted" if as_object(error).get("name") == "MessageAbortedError" else "error"
    return valid_name(step.finish.get("reason")) or (valid_name(info.get("finish")) if is_last else None)


def _call(info: Json, times: Json, *, alone: bool) -> Call | None:
    ran = run_times(*(epoch_time(times.get(name), 1000) for name in ("created", "completed"))) if alone else {}
    made = Call(provider=valid_name(info.get("providerID")), **ran)
    return None if made == Call() else made


def _message_left(info: Json, steps: Sequence[Step]) -> dict[str, Any]:
    """Return what a message says beside what its turns hold."""
    left = without_keys(info, "role", "sessionID", "time")
    times = as_object(info.get("time"))
    later = {key: value for key, value in times.items() if key != "created" or epoch_time(value, 1000) is None}
    if later or not isinstance(info.get("time", {}), dict):
        left["time"] = later or info["time"]
    if info["role"] != "assistant":
        return left
    tells = [step.finish for step in steps if step.finish]
    counts = ("tokens", "cost")
    repeats = all(len(tells) == 1 and tell.get(name) == info.get(name) for tell in tells for name in counts)
    if isinstance(info.get("tokens"), dict) and repeats:
        left = without_keys(left, *counts)
    if valid_name(info.get("modelID")) is not None:
        del left["modelID"]
    if _stop(info, steps[-1], is_last=True) == info.get("finish"):
        left.pop("finish", None)
    return left


def later_turns(message: Json, index: int) -> list[SourceTurn]:
    """Return the turns that a message makes where its first one gets an index: none for one that no model is shown."""
    kind, own = str(message.get("type")), str(message["id"])
    left = without_keys(message, *_OWN)
    if kind == "assistant":
        return _later_results(own, left)
    created = epoch_time(value_at(left, "time", "created"), 1000)
    if not (pieces := _later_pieces(kind, own, left)):
        return []
    about: dict[str, Any] = {}
    if kind == "compaction":
        through, trigger = index - 1 if index else None, valid_name(left.pop("reason", None))
        about["compaction"] = Compaction(summarised_through=through, trigger=trigger)
        about |= {"model": valid_name(value_at(left, "model", "id")), "usage": _told_usage(left)}
    meta = {META: {"message": left | {"type": kind}}}
    return [SourceTurn(_LATER_ROLES.get(kind, kind), tuple(pieces), time=created, meta=meta, **about)]


def _later_pieces(kind: str, own: str, left: dict[str, Any]) -> list[Piece]:
    """Return the content of a message that is no assistant's, taken out of it."""
    text = left.get("text")
    if kind in ("user", "system", "synthetic", "skill"):
        if not isinstance(text, str):
            return []
        del left["text"]
        is_plain = kind in ("user", "system")
        pieces = [Piece(own, text if is_plain else ({"type": "text", "text": text, "synthetic": True},))]
        for name, part in (("files", "file"), ("agents", "agent"), ("skills", "skill")):
            held = left.get(name)
            if isinstance(held, list) and held and all(isinstance(each, dict) for each in held):
                pieces += [Piece(f"{own}/{part}/{n}", ({"type": part} | each,)) for n, each in enumerate(held)]
                del left[name]
        return pieces
    if kind == "shell":
        output = left.get("output")
        if isinstance(output, str):
            del left["output"]
            return [Piece(own, output)]
        return [Piece(own, "")] if as_text(left.get("command")) else []
    if kind == "compaction" and isinstance(left.get("summary"), str) and left.get("status", "completed") == "completed":
        recent = left.pop("recent", None)
        texts = [left.pop("summary"), *([recent] if as_text(recent) else [])]
        return [Piece(own if n == 0 else f"{own}/recent", each) for n, each in enumerate(texts)]
    return []


def _later_results(own: str, left: dict[str, Any]) -> list[SourceTurn]:
    content = left.pop("content", None)
    if not isinstance(content, list):
        content = [] if content is None else [{"type": "content", "content": content}]
    step, seen = Step(), set[str]()
    for n, part in enumerate(content):
        place = f"{own}/{n}"
        tool = as_object(part) if value_at(part, "type") == "tool" else {}
        if as_text(tool.get("id")) and valid_name(tool.get("name")):
            _add_later_tool(step, tool, f"{own}/call/{tool['id']}" if tool["id"] not in seen else place)
            seen.add(tool["id"])
        else:
            step.said.append(Piece(place, (part if isinstance(part, dict) else {"type": "content", "content": part},)))
    usage, error = _told_usage(left), left.get("error")
    if not step.said and not (error or usage):
        return []
    model, times = as_object(left.get("model")), as_object(left.get("time"))
    started = epoch_time(times.get("created"), 1000)
    ended = epoch_time(times.get("streamed", times.get("completed")), 1000)
    ended = None if started and ended and started > ended else ended
    turn = SourceTurn(
        role="assistant",
        pieces=tuple(step.said) or (Piece(own, ""),),
        time=started,
        model=valid_name(model.get("id")),
        usage=usage,
        stop_reason="error" if error else valid_name(left.get("finish")),
        call=Call(provider=valid_name(model.get("providerID")), started=started, ended=ended),
        meta={META: without_empty({"message": left, "parts": step.beside})},
    )
    return [turn, *step.answer_turns()]


def _add_later_tool(step: Step, part: Json, place: str) -> None:
    state, times = as_object(part.get("state")), as_object(part.get("time"))
    left = without_keys(part, "type", "name", "state")
    step.add_tool(part["id"], part["name"], state.get("input", {}), place)
    left_state = without_keys(state, "input")
    failed = state.get("status") == "error"
    if state.get("status") not in _TOOL_ENDED:
        step.beside.append(left | {"state": left_state})
        return
    answer = left_state.pop("content", None)
    if not answer and failed:
        answer = as_text(value_at(left_state, "error", "message")) or answer
    if isinstance(answer, list) and len(answer) == 1 and as_object(answer[0]).keys() == {"type", "text"}:
        answer = answer[0]["text"]
    ran = times.get("ran"), times.get("completed")
    step.add_answer(part["id"], answer if answer is not None else "", f"{place}/result", ran, failed=failed)
    step.beside_answers.append(left | {"state": left_state})


def _told_usage(left: dict[str, Any]) -> dict[str, Any] | None:
    """Return the tokens and the cost of a model call, taken out of a record."""
    used = dict(left.pop("tokens")) if isinstance(left.get("tokens"), dict) else {}
    if left.get("cost") is not None:
        used["cost"] = left.pop("cost")
    return with_source(used, "opencode") if used else None


@dataclass(slots=True)
class Session:
    """What is told of one session, before its turns are made."""

    id: str
    name: str
    """The file that it came from."""
    info: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    later: list[dict[str, Any]] = field(default_factory=list)
    """Messages as opencode writes them since it keeps them whole, in `session_message`."""
    beside: dict[str, Any] = field(default_factory=dict)
    """What else is told of it, such as its list of things to do."""

    @property
    def created(self) -> float:
        """When it was made, in milliseconds since 1970; 0 where it does not say."""
        told = as_object(self.info.get("time")).get("created")
        return told if isinstance(told, int | float) and not isinstance(told, bool) else 0


def add_session(session: Session, reading: Reading, origin: Session | None = None) -> None:
    """Add a session to a reading; what cannot be used is a problem of it.

    `origin` is a session that it may be a fork of: the messages that both begin with are then its.
    """
    copied = shared_meta(session, origin) if origin is not None else 0
    continues, skipped = None, 0
    if origin is not None and copied:
        before, mine = (_Reader(each).path(each.messages[:copied], with_later=False) for each in (origin, session))
        if before and len(before) == len(mine):
            continues, skipped = before[-1].source_ids[-1], len(mine)
    reader = _Reader(session, reading, skipped)
    paths = [reader.path(session.messages)]
    if (kept := _kept(session)) is not None:
        paths.insert(0, _Reader(session, Reading(), skipped).path(kept))
        reading.notes.append(f"session {session.id!r}: what was undone is kept as a fork")
    last = session.messages[-1] if session.messages and not session.later else None
    info, shown = session.info, [path[skipped:] for path in paths]
    times = without_keys(as_object(info.get("time")), "created")
    meta = without_keys(info, *_INFO_OWN) | ({"time": times} if isinstance(info.get("time"), dict) else {})
    about: dict[str, Any] = {"title": as_text(info.get("title")), "spawned_by": as_text(info.get("parentID"))}
    about |= {"created": epoch_time(session.created, 1000) if session.created else None, "continues": continues}
    about |= {"open_turns": _open_turns(shown[-1], last), "open_in": session.name, "files": (session.name,)}
    about |= {"system": reader.system, "forks_at_ends": kept is not None}
    meta |= session.beside | {AFTER: reader.waiting}
    reading.add_session(SOURCE, session.id, shown, meta, **about)


def _open_turns(path: Sequence[SourceTurn], last: Message | None) -> int:
    """Return how many turns at the end come from the last message, where that may still get more."""
    if last is None or not is_open(last[0]):
        return 0
    ids = {last[0]["id"], *(part["id"] for part in last[1])}
    ids |= {f"{each}/result" for each in ids}
    return sum(any(each in ids for each in turn.source_ids) for turn in path)


# --- what was undone


def _kept(session: Session) -> list[Message] | None:
    """Return the messages, and parts of the last one, before the place that a user went back to; None if nobody did."""
    told = as_object(session.info.get("revert"))
    place = next((n for n, (info, _) in enumerate(session.messages) if info["id"] == told.get("messageID")), None)
    if place is None or session.later:
        return None
    info, parts = session.messages[place]
    until = next((n for n, part in enumerate(parts) if part["id"] == told.get("partID")), 0)
    return [*session.messages[:place], *([(info, parts[:until])] if until else [])]


# --- forks


def shared_meta(session: Session, origin: Session) -> int:
    """Return how many messages a session begins with that it has from another one: equal, and said at the same moment."""
    return source_values.common_length(list(map(gist, session.messages)), list(map(gist, origin.messages)))


def gist(message: Message) -> object:
    """Return what of a message stays as it is where a fork copies it: all ids are new there."""
    info, parts = message
    created = as_object(info.get("time")).get("created")
    said = [[part.get(key) for key in _SAID] + [as_object(part.get("state")).get("input")] for part in parts]
    return [info["role"], created, info.get("modelID"), said] if created is not None else object()


# --- turns


class _Reader:
    """Makes the turns of a session's messages."""

    def __init__(self, session: Session, reading: Reading | None = None, skipped: int = 0) -> None:
        self._session = session
        self._reading = Reading() if reading is None else reading
        self._skipped = skipped
        """How many turns at its beginning are another session's: indices count from there."""
        self.waiting: list[Any] = []
        """Messages that make no turn, and go with the next one."""
        self.system: str | None = None
        self._trigger: tuple[str | None, str | None] = (None, None)
        """How the compaction came about that is going on, and the first message that it keeps."""

    def path(self, messages: Sequence[Message], *, with_later: bool = True) -> tuple[SourceTurn, ...]:
        """Return the turns of some of its messages."""
        made: list[SourceTurn] = []
        places: dict[str, int] = {}
        for info, parts in messages:
            places[info["id"]] = len(made)
            self._add(made, places, info, parts)
        for message in self._session.later if with_later else ():
            self._keep(made, later_turns(message, len(made) - self._skipped), message)
        return tuple(made)

    def _add(self, made: list[SourceTurn], places: Mapping[str, int], info: Json, parts: Sequence[Json]) -> None:
        found = turns_of(self._without_system(info), parts)
        for part in parts:
            if part.get("type") == "compaction":
                auto = part.get("auto")
                trigger = ("auto" if auto else "manual") if isinstance(auto, bool) else None
                self._trigger = trigger, as_text(part.get("tail_start_id"))
        if found and is_summary(info):
            trigger, kept = self._trigger
            summed = compaction(len(made), places.get(kept or ""), trigger, self._skipped)
            found[0] = replace(found[0], compaction=summed)
            self._trigger = None, None
        self._keep(made, found, {"message": dict(info), "parts": [dict(part) for part in parts]})

    def _keep(self, made: list[SourceTurn], found: list[SourceTurn], record: Json) -> None:
        if not found:
            if self._reading.meta(0, {"record": record}):
                self.waiting.append(record)
            return
        if self.waiting:
            beside = as_object(found[0].meta.get(META)) | {"before": list(self.waiting)}
            found[0] = replace(found[0], meta={**found[0].meta, META: beside})
        own = str(value_at(record, "message", "id") or record.get("id"))
        if not all(self._reading.keeps(turn, 0, f"message {own[:80]!r}", record) for turn in found):
            return
        self.waiting = []
        made += found

    def _without_system(self, info: Json) -> Json:
        """Return a message without the prompt of its session, which early versions repeat in each."""
        told = as_list(info.get("system"))
        if not told or not all(isinstance(each, str) for each in told):
            return info
        self.system = self.system or "\n".join(told)
        return without_keys(info, "system") if self.system == "\n".join(told) else info


def compaction(index: int, first_kept: int | None, trigger: str | None, skipped: int = 0) -> Compaction:
    """Return what a summary at an index stands for: all before it, or all before the first turn that is kept."""
    kept = first_kept if first_kept is not None and first_kept < index else None
    through = (kept if kept is not None else index) - 1
    return Compaction(
        summarised_through=through - skipped if through >= 0 else None,
        first_kept=None if kept is None else kept - skipped,
        trigger=trigger,
    )
