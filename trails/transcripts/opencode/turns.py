"""One message of opencode with its parts, and the turns that it makes.

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
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from trails.model import Call
from trails.transcripts import checked
from trails.transcripts.source import Piece, SourceTurn
from trails.usage import with_source

META: Final = "opencode"
"""The key of a turn's metadata for what its own fields do not hold."""
_PART_OWN: Final = frozenset({"id", "messageID", "sessionID"})
_BESIDE: Final = frozenset({"step-start", "step-finish", "snapshot", "patch", "retry", "agent", "compaction"})
_GOES_ON: Final = frozenset({"text", "reasoning"})
_TOOL_OWN: Final = frozenset({"type", "callID", "tool", "state"})
_ENDED: Final = {"completed": "output", "error": "error"}
"""The states of a tool that has ended, and where they keep what it answered."""

Json = Mapping[str, Any]


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
        self.said.append(Piece(source_id, ({"type": "tool_use", "id": call_id, "name": name, "input": arguments},)))

    def add_answer(self, call_id: str, content: object, source_id: str, time: Json, *, failed: bool) -> None:
        """Add what a tool answered, and when it began and ended."""
        answer = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        self.answers.append(Piece(source_id, (answer | ({"is_error": True} if failed else {}),)))
        told = {"started": moment(time.get("start")), "ended": moment(time.get("end"))}
        if told["started"] and told["ended"] and told["started"] > told["ended"]:
            return
        self.results.append({"call_id": call_id, "is_error": failed} | checked.filled(told))

    def ended(self) -> datetime | None:
        """Return when the last of its tools ended."""
        return max((each["ended"] for each in self.results if "ended" in each), default=None)


def moment(milliseconds: object) -> datetime | None:
    """Return the time that a number of milliseconds since 1970 stands for, or None."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    return checked.epoch_time(milliseconds / 1000) if abs(milliseconds) < 1e15 else None


def mapping(value: object) -> dict[str, Any]:
    """Return a value that is an object; an empty one for any other."""
    return value if isinstance(value, dict) else {}


def named(value: object) -> str | None:
    """Return a text that is not empty; None for anything else."""
    return value if isinstance(value, str) and value else None


def kind_of(part: Json) -> str:
    """Return the type of a part; an empty text where it has none."""
    return named(part.get("type")) or ""


def turns_of(info: Json, parts: Sequence[Json]) -> list[SourceTurn]:
    """Return the turns that a message makes: none for one that says nothing yet."""
    steps = _folded([_step(info, group) for group in _groups(parts)])
    if not any(step.said for step in steps):
        if info["role"] != "assistant" or not (info.get("error") or any(numbers(info))):
            return []
        steps = [Step(said=[Piece(str(info["id"]), "")], beside=[each for step in steps for each in step.beside])]
    meta: dict[str, Any] = {"message": _message_left(info, steps)}
    made: list[SourceTurn] = []
    for place, step in enumerate(steps):
        meta |= {"parts": step.beside} if step.beside else {}
        made.append(_said(info, step, steps, place, {META: meta} if meta else {}))
        meta = {}
        if step.answers:
            beside = {META: {"parts": step.beside_answers}} if step.beside_answers else {}
            results = tuple(step.results)
            made.append(SourceTurn("tool", tuple(step.answers), step.ended(), tool_results=results, meta=beside))
    return made


def _said(info: Json, step: Step, steps: Sequence[Step], place: int, meta: Json) -> SourceTurn:
    times = mapping(info.get("time"))
    turn = SourceTurn(
        role="summary" if is_summary(info) else str(info["role"]),
        pieces=tuple(step.said),
        time=moment(times.get("created")) if place == 0 else None,
        meta=meta,
    )
    if info["role"] != "assistant":
        return turn
    return replace(
        turn,
        model=checked.name(info.get("modelID")),
        usage=_usage(info, step, steps),
        stop_reason=_stop(info, step, is_last=place == len(steps) - 1),
        call=_call(info, times, alone=len(steps) == 1),
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
    return info["role"] == "assistant" and not info.get("error") and "completed" not in mapping(info.get("time"))


def _groups(parts: Sequence[Json]) -> Iterator[list[Json]]:
    """Yield the parts of a message, those of one model call together."""
    has_steps = any(part.get("type") == "step-start" for part in parts)
    group: list[Json] = []
    for part in parts:
        kind = kind_of(part)
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
        kind, own = kind_of(part), str(part["id"])
        if kind == "step-finish":
            step.finish = part
        if kind in _BESIDE:
            step.beside.append(_left(part))
        elif kind == "tool" and named(part.get("callID")) and checked.name(part.get("tool")):
            _add_tool(step, part, own)
        elif kind == "text" and info["role"] == "user" and _is_only_text(part):
            step.said.append(Piece(own, part["text"]))
            if "time" in part:
                step.beside.append({"id": own, "time": part["time"]})
        else:
            step.said.append(Piece(own, (_content(part),)))
    return step


def _left(part: Json) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in ("messageID", "sessionID")}


def _is_only_text(part: Json) -> bool:
    return isinstance(part.get("text"), str) and part.keys() <= {*_PART_OWN, "type", "text", "time"}


def _content(part: Json) -> dict[str, Any]:
    """Return a part as it stands in the content: an image as the model was shown it, any other without its ids."""
    kept = {key: value for key, value in part.items() if key not in _PART_OWN}
    mime, url = part.get("mime"), part.get("url")
    if part.get("type") != "file" or not isinstance(mime, str) or not isinstance(url, str):
        return kept
    head, comma, data = url.partition(";base64,")
    if not mime.startswith("image/") or not comma or head != f"data:{mime}":
        return kept
    del kept["mime"], kept["url"]
    return {**kept, "type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}


def _add_tool(step: Step, part: Json, own: str) -> None:
    state = mapping(part.get("state"))
    arguments = state.get("input", {})
    step.add_tool(part["callID"], part["tool"], arguments, own)
    left = {key: value for key, value in part.items() if key not in _TOOL_OWN | _PART_OWN}
    left_state = {key: value for key, value in state.items() if key not in ("input", "time")}
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
    times = mapping(state.get("time"))
    step.add_answer(part["callID"], answer, f"{own}/result", times, failed=state["status"] == "error")
    beyond = {name: value for name, value in times.items() if name not in ("start", "end")}
    left_state = checked.filled(left_state | {"time": beyond})
    if left_state.keys() > {"status"} or left:
        step.beside_answers.append({"id": own} | left | {"state": left_state})


# --- the model call


def numbers(info: Json) -> Iterator[float]:
    """Yield the counts of tokens of a message that are not 0."""
    tokens = mapping(info.get("tokens"))
    for value in (*tokens.values(), *mapping(tokens.get("cache")).values()):
        if isinstance(value, int | float) and value:
            yield value


def _usage(info: Json, step: Step, steps: Sequence[Step]) -> dict[str, Any] | None:
    """Return what one call used: what its step says, else what the message says, with its last call."""
    teller: Json = step.finish
    if not any(each.finish for each in steps):
        if step is not next(each for each in reversed(steps) if each.said):
            return None
        teller = info
    tokens, cost = teller.get("tokens"), teller.get("cost")
    used = dict(tokens) if isinstance(tokens, dict) else {}
    if cost is not None:
        used["cost"] = cost
    return with_source(used, "opencode") if used else None


def _stop(info: Json, step: Step, *, is_last: bool) -> str | None:
    if is_last and (error := info.get("error")):
        return "aborted" if mapping(error).get("name") == "MessageAbortedError" else "error"
    return checked.name(step.finish.get("reason")) or (checked.name(info.get("finish")) if is_last else None)


def _call(info: Json, times: Json, *, alone: bool) -> Call | None:
    started, ended = (moment(times.get(name)) for name in ("created", "completed"))
    if not alone or (started and ended and started > ended):
        started = ended = None
    made = Call(provider=checked.name(info.get("providerID")), started=started, ended=ended)
    return None if made == Call() else made


def _message_left(info: Json, steps: Sequence[Step]) -> dict[str, Any]:
    """Return what a message says beside what its turns hold."""
    left = {key: value for key, value in info.items() if key not in ("role", "sessionID", "time")}
    times = mapping(info.get("time"))
    later = {key: value for key, value in times.items() if key != "created" or moment(value) is None}
    if later or not isinstance(info.get("time", {}), dict):
        left["time"] = later or info["time"]
    if info["role"] != "assistant":
        return left
    tells = [step.finish for step in steps if step.finish]
    counts = ("tokens", "cost")
    if isinstance(info.get("tokens"), dict) and all(
        len(tells) == 1 and tell.get(name) == info.get(name) for tell in tells for name in counts
    ):
        left = {key: value for key, value in left.items() if key not in counts}
    if checked.name(info.get("modelID")) is not None:
        del left["modelID"]
    if _stop(info, steps[-1], is_last=True) == info.get("finish"):
        left.pop("finish", None)
    return left
