"""Messages of opencode as rows of `session_message` hold them: each whole, with its content, under its type.

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

from typing import Any, Final

from trails.model import Call, Compaction
from trails.transcripts import checked
from trails.transcripts.opencode.turns import META, Json, Step, mapping, moment, named
from trails.transcripts.source import Piece, SourceTurn
from trails.usage import with_source

_OWN: Final = frozenset({"type", "sessionID"})
_TOOL_ENDED: Final = frozenset({"completed", "error"})


def turns_of(message: Json, index: int) -> list[SourceTurn]:
    """Return the turns that a message makes where its first one gets an index: none for one that no model is shown."""
    kind, own = message.get("type"), str(message["id"])
    left = {key: value for key, value in message.items() if key not in _OWN}
    created = moment(mapping(left.get("time")).get("created"))
    if kind == "assistant":
        return _answered(own, left)
    pieces = _pieces(str(kind), own, left)
    if not pieces:
        return []
    role = {"synthetic": "user", "skill": "user", "shell": "bash", "compaction": "summary"}.get(str(kind), str(kind))
    summed = None
    if kind == "compaction":
        summed = Compaction(
            summarised_through=index - 1 if index else None, trigger=checked.name(left.pop("reason", None))
        )
    model = mapping(left.get("model"))
    return [
        SourceTurn(
            role=role,
            pieces=tuple(pieces),
            time=created,
            model=checked.name(model.get("id")) if summed else None,
            usage=_usage(left) if summed else None,
            compaction=summed,
            meta={META: {"message": left | {"type": kind}}},
        )
    ]


def _pieces(kind: str, own: str, left: dict[str, Any]) -> list[Piece]:
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
        return [Piece(own, "")] if named(left.get("command")) else []
    if kind == "compaction" and isinstance(left.get("summary"), str) and left.get("status", "completed") == "completed":
        recent = left.pop("recent", None)
        texts = [left.pop("summary"), *([recent] if named(recent) else [])]
        return [Piece(own if n == 0 else f"{own}/recent", each) for n, each in enumerate(texts)]
    return []


def _answered(own: str, left: dict[str, Any]) -> list[SourceTurn]:
    content = left.pop("content", None)
    if not isinstance(content, list):
        content = [] if content is None else [{"type": "content", "content": content}]
    step, seen = Step(), set[str]()
    for n, part in enumerate(content):
        place = f"{own}/{n}"
        if (
            isinstance(part, dict)
            and part.get("type") == "tool"
            and named(part.get("id"))
            and checked.name(part.get("name"))
        ):
            _add_tool(step, part, f"{own}/call/{part['id']}" if part["id"] not in seen else place)
            seen.add(part["id"])
        else:
            step.said.append(Piece(place, (part if isinstance(part, dict) else {"type": "content", "content": part},)))
    usage, error = _usage(left), left.get("error")
    if not step.said:
        if not (error or usage):
            return []
        step.said.append(Piece(own, ""))
    model, times = mapping(left.get("model")), mapping(left.get("time"))
    finish = checked.name(left.get("finish"))
    started, ended = moment(times.get("created")), moment(times.get("streamed", times.get("completed")))
    if started and ended and started > ended:
        ended = None
    made = [
        SourceTurn(
            role="assistant",
            pieces=tuple(step.said),
            time=started,
            model=checked.name(model.get("id")),
            usage=usage,
            stop_reason="error" if error else finish,
            call=Call(provider=checked.name(model.get("providerID")), started=started, ended=ended),
            meta={META: checked.filled({"message": left, "parts": step.beside})},
        )
    ]
    if step.answers:
        beside = {META: {"parts": step.beside_answers}} if step.beside_answers else {}
        results = tuple(step.results)
        made.append(SourceTurn("tool", tuple(step.answers), step.ended(), tool_results=results, meta=beside))
    return made


def _add_tool(step: Step, part: Json, place: str) -> None:
    state, times = mapping(part.get("state")), mapping(part.get("time"))
    left = {key: value for key, value in part.items() if key not in ("type", "name", "state")}
    step.add_tool(part["id"], part["name"], state.get("input", {}), place)
    left_state = {key: value for key, value in state.items() if key != "input"}
    failed = state.get("status") == "error"
    if state.get("status") not in _TOOL_ENDED:
        step.beside.append(left | {"state": left_state})
        return
    answer = left_state.pop("content", None)
    if not answer and failed and (said := named(mapping(left_state.get("error")).get("message"))):
        answer = said
    if isinstance(answer, list) and len(answer) == 1 and mapping(answer[0]).keys() == {"type", "text"}:
        answer = answer[0]["text"]
    ran = {"start": times.get("ran"), "end": times.get("completed")}
    step.add_answer(part["id"], answer if answer is not None else "", f"{place}/result", ran, failed=failed)
    step.beside_answers.append(left | {"state": left_state})


def _usage(left: dict[str, Any]) -> dict[str, Any] | None:
    used = dict(left.pop("tokens")) if isinstance(left.get("tokens"), dict) else {}
    if left.get("cost") is not None:
        used["cost"] = left.pop("cost")
    return with_source(used, "opencode") if used else None
