"""The items of a Codex thread, and the turns that they make.

======================================================  =========  ==============================================
line                                                    role       content of the turn
======================================================  =========  ==============================================
response item: message                                  its role   its text, or its parts
response item: reasoning, function_call,                assistant  the item, as the only part
custom_tool_call, local_shell_call, web_search_call, …
response item: …_output                                 tool       the item, as the only part
response item: agent_message; a message that holds one  user       its text or parts; the other agent is the author
as JSON; record: inter_agent_communication
event: user_message, agent_message                      user,      its text, where no response item repeats it
                                                        assistant
event: agent_reasoning                                  assistant  the event, where no response item repeats it
event: error, warning, background_event, …              error,     its text; no model is shown it
                                                        warning,
                                                        info
event: the end of a command or call that no item asked  event      the call, then its answer as another turn; no
for, as those within code                                          model is shown them
compacted                                               summary    what replaced the history, else its message
======================================================  =========  ==============================================

Whatever else an item says stands in the turn's metadata. All other events and records stand in the metadata of the turn
that comes next (`eventsBefore`); those after the last turn in the session's (`eventsAfter`). A `token_count` is the usage of
the turn before. Nothing depends on lines that come much later, so a file that was read while it grew gives the same turns
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from trails import validate
from trails.errors import InvalidInput
from trails.model import Compaction
from trails.transcripts import checked
from trails.transcripts.checked import Reading
from trails.transcripts.codex import records
from trails.transcripts.codex.counts import Meter
from trails.transcripts.codex.records import texts_of
from trails.transcripts.source import Piece, SourceTurn, distinct

_OUTPUTS: Final = frozenset(
    {"function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output"}
)
_SERVED: Final = frozenset({"web_search_call", "image_generation_call"})
"""Calls that the provider itself answered: some versions wrote them without their ids."""
_ENDED: Final = frozenset({"completed", "failed"})
_MODEL_ITEMS: Final = _SERVED | {
    *("reasoning", "function_call", "custom_tool_call", "local_shell_call", "tool_search_call"),
    *("compaction", "compaction_summary", "context_compaction"),
}
_NO_TURN: Final = frozenset({"ghost_snapshot", "additional_tools", "configuration_update", "compaction_trigger"})
ITEMS: Final = _OUTPUTS | _MODEL_ITEMS | _NO_TURN | {"message", "agent_message"}
"""The types of response items that are known."""

_EVENTS: Final = {
    "user_message": ("user", "message"),
    "agent_message": ("assistant", "message"),
    "agent_reasoning": ("reasoning", "text"),
    "agent_reasoning_raw_content": ("reasoning", "text"),
}
"""Events that repeat a response item: whose, and where their text stands."""
_PLAIN: Final = {"assistant": "output_text"}
_CONTEXTS: Final = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<skill>",
    "<subagent_notification>",
    "<agent_message_board_notification>",
    "<user_shell_command>",
    "<recommended_plugins>",
)
"""How messages begin that have the user's role and are not the user's."""
_MOST_WAITING: Final = 64
_OVER: Final = frozenset({"task_complete", "turn_complete", "turn_aborted"})
"""Events that end what the model does for one question of the user."""
_REPEATING: Final = {"UserMessage": "user", "AgentMessage": "assistant", "Reasoning": "reasoning"}
"""Completed items that repeat a response item: whose."""
_LONG: Final = 20
"""Characters of a text from which on it is kept where only an event that repeats an item has it."""

_Json = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class _Item:
    """A turn in the making."""

    role: str
    content: str | tuple[Any, ...]
    time: datetime | None
    model: str | None
    meta: dict[str, Any]
    texts: frozenset[str] = frozenset()
    """What an event that repeats it may say."""
    is_event: bool = False
    waits: bool = False
    """Whether it makes a turn only once it is sure that no item repeats it: reasoning, which events tell in pieces."""
    generation: int = 0
    usage: _Json | None = None
    compaction: Compaction | None = None
    author: str | None = None
    """The agent that said it, where another one did."""

    @property
    def by_model(self) -> bool:
        """Whether the model generated it."""
        return self.role == "assistant"

    @property
    def by_user(self) -> bool:
        """Whether the user typed it, or another agent sent it, and no program put it in the user's name."""
        if self.role != "user" or self.author is not None:
            return self.author is not None
        passed = self.meta.get("internal_chat_message_metadata_passthrough")
        kinds = passed.get("content_item_kinds") if isinstance(passed, dict) else None
        if isinstance(kinds, list) and kinds:
            return any(str(kind).startswith("user.") or kind == "unknown" for kind in kinds)
        return not any(text.startswith(_CONTEXTS) for text in self.texts)

    def turn(self, index: int) -> SourceTurn:
        """Return the turn at an index of its path. Its id is its place: a fork's copy of it has the same one."""
        compaction = self.compaction
        if compaction is not None and index:
            compaction = compaction.model_copy(update={"summarised_through": index - 1})
        place = f"item-{index}" + (f"~{self.generation}" if self.generation else "")
        return SourceTurn(
            role=self.role,
            pieces=(Piece(place, self.content),),
            time=self.time,
            author=self.author,
            model=self.model if self.by_model or self.usage is not None else None,
            usage=self.usage,
            compaction=compaction,
            meta=self.meta,
        )


@dataclass(slots=True)
class Thread:
    """The turns of a thread as its lines come."""

    reading: Reading
    title: str | None = None
    _active: list[_Item] = field(default_factory=list)
    _abandoned: list[list[_Item]] = field(default_factory=list)
    _waiting: dict[str, list[_Item]] = field(default_factory=dict)
    """What may still be repeated by an event, or by the item that an event announced: by `user`, `assistant`, `reasoning`."""
    _model: str | None = None
    _context: _Json = field(default_factory=dict)
    _context_told: bool = True
    _meter: Meter = field(default_factory=Meter)
    _counted_by: str = ""
    """The kind of record that told the last usage."""
    _before: list[dict[str, Any]] = field(default_factory=list)
    """Events and records that make no turn, since the last turn."""
    _asked: set[str] = field(default_factory=set)
    """The ids of the calls that response items ask for."""
    _told: dict[str, bool] = field(default_factory=dict)
    """The ids of the calls that only events tell: whether they were answered."""
    _nameless: bool = False
    """Whether the last turn is a call without an id of its own, which the next event may tell."""
    _searches: list[tuple[int, _Json, datetime | None]] = field(default_factory=list)
    """Events that tell a call of which the item may come next."""
    replayed: int = 0
    """How many turns at the beginning are another thread's, told again."""
    _over: int = 0
    """How many turns there were when the program said last that it was the user's turn again."""

    def add(self, line: int, kind: str, payload: _Json, time: datetime | None) -> None:
        """Take one line."""
        if kind == "turn_context":
            self._take_context(payload)
        elif kind == "compacted":
            self._compacted(line, payload, time)
        elif kind == "response_item":
            self._response_item(line, payload, time)
        elif kind == "event_msg":
            self._event(line, payload, time)
        elif kind == "inter_agent_communication":
            self._agent_message(line, payload, time, is_event=True)
        else:
            if kind == "token_usage_record":
                self._count_tokens(kind, {"last_token_usage": payload.get("usage")})
            self._beside(line, kind, {"payload": dict(payload)})

    def paths(self) -> tuple[tuple[SourceTurn, ...], ...]:
        """Return the turns of every path, the one that the thread goes on from first; to be called once, at the end."""
        late = [item for item in self._active if item.waits]
        if late:
            self._active = [item for item in self._active if not item.waits]
            self.reading.notes.append(f"{len(late)} reasoning event(s) at the end wait for the item that repeats them")
        if self._meter.astray:
            self.reading.notes.append(
                f"{self._meter.astray} token_count event(s) follow no turn of the model, and were not used"
            )
        made = [tuple(item.turn(i) for i, item in enumerate(path)) for path in (self._active, *self._abandoned)]
        if len(made) > 1:
            self.reading.notes.append(f"{len(made) - 1} rollback(s); what was taken back is kept as a fork")
        return tuple(path for path in distinct(made) if path) or ((),)

    def __len__(self) -> int:
        return len(self._active)

    def events_after(self) -> list[dict[str, Any]]:
        """Return the events and records after the last turn."""
        return [*self._before, *({"type": "event_msg", **payload} for _, payload, _ in self._searches)]

    def return_to(self, length: int) -> None:
        """Take back all turns but the first ones; they are kept as another path."""
        self._settle("user", "assistant", "reasoning", "agent")
        self._abandoned.append(self._active)
        self._active = self._active[:length]
        self._over = len(self._active)

    def open_turns(self) -> int:
        """Return how many turns at the end may still become others: from an event that an item may repeat, or from the
        model's last turn, whose usage is not told. To be called after `paths`.
        """
        waiting = {id(item) for items in self._waiting.values() for item in items if item.is_event}
        for index, item in enumerate(self._active[self._over :], self._over):
            if id(item) in waiting or (item.by_model and item.usage is None and self._is_last_answer(index)):
                return len(self._active) - index
        return 0

    def _is_last_answer(self, index: int) -> bool:
        return not any(item.by_model or item.role == "user" for item in self._active[index + 1 :])

    # --- items

    def _response_item(self, line: int, payload: _Json, time: datetime | None) -> None:
        kind = payload.get("type")
        if not isinstance(kind, str):
            self.reading.refuse(line, "is a response item without a type", payload)
            return
        if kind not in _SERVED and kind not in _NO_TURN:
            self._end_searches()
        if kind == "message":
            self._message(line, payload, time)
        elif kind == "agent_message":
            self._agent_message(line, payload, time, is_event=False)
        elif kind == "reasoning":
            texts = frozenset(texts_of(payload.get("summary"))) | frozenset(texts_of(payload.get("content")))
            self._reasoning(line, self._item("assistant", (dict(payload),), time, texts=texts))
        elif kind in _OUTPUTS:
            self._settle("user", "assistant", "agent")
            self._keep(line, self._item("tool", (dict(payload),), time))
        elif kind in _NO_TURN:
            self._beside(line, "response_item", dict(payload))
        else:
            self._call(line, payload, time)

    def _call(self, line: int, payload: _Json, time: datetime | None) -> None:
        """Keep an item that a model made and that is no message: a call, in most cases."""
        self._settle("user", "agent")
        given = next((v for key in ("call_id", "id") if isinstance(v := payload.get(key), str) and v), None)
        is_nameless = payload["type"] in _SERVED and given is None
        if is_nameless:
            given = self._searched_id() or f"item-{len(self._active)}"
            payload = dict(payload) | {"id": given}
        if not self._keep(line, self._item("assistant", (dict(payload),), time)):
            return
        self._asked |= {given} if given else set()
        if payload["type"] in _SERVED and given and str(payload.get("status", "completed")) in _ENDED:
            self._served(line, given, payload, time)
        self._nameless = is_nameless
        held, self._searches = self._searches, []
        for each in held:
            self._event_call(*each)

    def _served(self, line: int, call_id: str, payload: _Json, time: datetime | None) -> None:
        """Keep that the provider answered a call: what it gave, only the model saw."""
        told = {"status": payload.get("status", "completed")}
        part = records.answer_part(call_id, told, is_error=records.has_failed(told))
        self._keep(line, self._item(records.EVENT, (part,), time, {"event": payload["type"]}))

    def _searched_id(self) -> str | None:
        """Return the id that the event before a call told, which is over with that."""
        if not self._searches:
            return None
        line, payload, _ = self._searches.pop(0)
        call = records.event_call(payload)
        self._beside(line, "event_msg", dict(payload))
        return call.id if call else None

    def _end_searches(self) -> None:
        """Keep the calls that events told, and no item did, as turns."""
        held, self._searches = self._searches, []
        for line, payload, time in held:
            self._event_turn(line, payload, time)

    def _message(self, line: int, payload: _Json, time: datetime | None) -> None:
        role, content = payload.get("role"), payload.get("content")
        meta = checked.filled({key: value for key, value in payload.items() if key not in ("type", "role", "content")})
        if not isinstance(role, str) or not isinstance(content, str | list):
            self.reading.refuse(line, "is a message without a role, or without content", payload)
            return
        if role == "assistant" and (sent := records.agent_message_in(content)) is not None:
            self._sent(line, sent, time, is_event=False)
            return
        texts = [content] if isinstance(content, str) else texts_of(content)
        item = self._item(
            role, _content(role, content), time, meta, frozenset([*texts, "".join(texts), "\n".join(texts)])
        )
        announced = self._announced(role, item.texts)
        if announced is not None and self._fits(line, item, payload):
            announced.content, announced.is_event = item.content, False
            announced.meta = announced.meta | item.meta
        elif announced is None:
            self._said(line, role, item)

    def _agent_message(self, line: int, payload: _Json, time: datetime | None, *, is_event: bool) -> None:
        message = records.agent_message(payload)
        if message is None:
            self._beside(line, "agent_message", {"payload": dict(payload)})
        else:
            self._sent(line, message, time, is_event=is_event)

    def _sent(self, line: int, message: records.AgentMessage, time: datetime | None, *, is_event: bool) -> None:
        """Keep what another agent said; an item and a record that tell the same are one turn."""
        self._end_searches()
        item = self._item("user", message.content, time, message.meta, frozenset([message.text]))
        item.author, item.is_event = message.author, is_event
        repeats = self._taken("agent", lambda each: each.is_event != is_event and each.texts == item.texts)
        if repeats is None:
            self._said(line, "agent", item)
        elif not is_event and self._fits(line, item, message.content):
            repeats.content, repeats.is_event = item.content, False
            repeats.meta = repeats.meta | item.meta

    def _reasoning(self, line: int, item: _Item) -> None:
        announced = [event for event in self._waiting.get("reasoning", []) if event.waits and event.texts <= item.texts]
        if not self._fits(line, item, item.content):
            return
        if not announced:
            self._said(line, "reasoning", item)
            return
        first = announced[0]
        first.content, first.texts, first.waits, first.is_event = item.content, item.texts, False, False
        if not (gone := {id(event) for event in announced[1:]}):
            return
        self._active = [each for each in self._active if id(each) not in gone]
        self._waiting["reasoning"] = [each for each in self._waiting["reasoning"] if id(each) not in gone]

    def _item(
        self,
        role: str,
        content: str | tuple[Any, ...],
        time: datetime | None,
        meta: dict[str, Any] | None = None,
        texts: frozenset[str] = frozenset(),
    ) -> _Item:
        return _Item(role, content, time, self._model, meta or {}, texts, generation=len(self._abandoned))

    def _said(self, line: int, side: str, item: _Item) -> None:
        """Keep something that may stand in the file a second time; the other side's turn to speak is over."""
        if side in ("user", "agent"):
            self._settle("assistant", "reasoning")
        elif side in ("assistant", "reasoning"):
            self._settle("user", "agent")
        if self._keep(line, item) and side in ("user", "agent", "assistant", "reasoning"):
            self._waiting.setdefault(side, []).append(item)
            del self._waiting[side][:-_MOST_WAITING]

    def _keep(self, line: int, item: _Item) -> bool:
        if self._context and not self._context_told:
            item.meta["turnContext"] = dict(self._context)
        if not self._fits(line, item, item.content):
            return False
        if self._before and not item.waits:
            item.meta["eventsBefore"], self._before = self._before, []
        self._context_told, self._nameless = True, False
        self._active.append(item)
        return True

    def _fits(self, line: int, item: _Item, record: object) -> bool:
        """Tell whether a store would keep the item; a problem of its line where not."""
        reason = checked.fault(item.turn(0))
        if reason is not None:
            self.reading.refuse(line, f"cannot be kept: {reason}", record)
        return reason is None

    # --- what stands in the file twice

    def _settle(self, *sides: str) -> None:
        """Decide what still waits: nothing will repeat it any more."""
        for side in sides:
            for item in self._waiting.pop(side, []):
                item.waits = False

    def _announced(self, side: str, texts: frozenset[str]) -> _Item | None:
        """Return the event that said what an item repeats, and wait for it no more."""
        return self._taken(side, lambda each: each.is_event and each.texts <= texts)

    def _taken(self, side: str, fits: Callable[[_Item], bool]) -> _Item | None:
        for item in reversed(self._waiting.get(side, [])):
            if fits(item):
                self._waiting[side].remove(item)
                return item
        return None

    # --- events

    def _event(self, line: int, payload: _Json, time: datetime | None) -> None:
        kind = payload.get("type")
        if not isinstance(kind, str):
            self.reading.refuse(line, "is an event without a type", payload)
        elif kind in _EVENTS:
            self._repeated(line, kind, payload, time)
        elif kind == "token_count":
            self._count_tokens(kind, payload.get("info"), lambda: self._beside(line, "event_msg", dict(payload)))
        elif kind in records.NOTICES and (text := records.notice_text(payload)):
            left = {key: value for key, value in payload.items() if value not in (text, kind)}
            self._keep(line, self._item(records.NOTICES[kind], text, time, checked.filled(left)))
        elif kind == "item_completed" and isinstance(payload.get("item"), dict):
            self._completed(line, payload, time)
        elif records.event_call(payload) is not None:
            self._event_call(line, payload, time)
        else:
            self._other_event(line, kind, payload)

    def _other_event(self, line: int, kind: str, payload: _Json) -> None:
        if kind == "thread_rolled_back":
            self._roll_back(line, payload)
        elif kind in _OVER:
            self._over = len(self._active)
        elif kind == "thread_name_updated" and isinstance(payload.get("thread_name"), str):
            self.title = payload["thread_name"] or None
        last = payload.get("last_agent_message")
        if isinstance(last, str) and self.says(last):
            payload = {key: value for key, value in payload.items() if key != "last_agent_message"}
        self._beside(line, "event_msg", dict(payload))

    def _beside(self, line: int, kind: str, record: dict[str, Any]) -> None:
        """Keep a record that makes no turn for the metadata of the next one."""
        held = record if kind in ("event_msg", "response_item") else {"type": kind, **record}
        if not any(_has_text(value) for key, value in held.items() if key != "type"):
            return
        try:
            validate.meta({"eventsBefore": [held]})
        except InvalidInput as error:
            self.reading.refuse(line, f"cannot be kept: {error}", record)
        else:
            self._before.append(held)

    def _completed(self, line: int, payload: _Json, time: datetime | None) -> None:
        """Take an item of the conversation that was completed: mostly a response item has the same."""
        item: dict[str, Any] = payload["item"]
        kind = item.get("type")
        side = _REPEATING.get(kind) if isinstance(kind, str) else None
        raw = [item.get(key) for key in ("summary_text", "raw_content")]
        texts = texts_of(item.get("content")) + [t for each in raw if isinstance(each, list) for t in each]
        if side is not None and all(
            self._is_told(side, text) for text in ("".join(texts), *texts)[side == "reasoning" :]
        ):
            return
        if side is None and records.event_call(item) is not None:
            self._event_call(line, item, time)
        else:
            self._beside(line, "event_msg", dict(payload))

    def _is_told(self, side: str, text: object) -> bool:
        role = "user" if side == "user" else "assistant"
        return any(item.role == role and text in item.texts for item in self._active[-_MOST_WAITING:])

    def _event_call(self, line: int, payload: _Json, time: datetime | None) -> None:
        """Take an event that tells a call: where an item asks for it, the event only says more of it."""
        call = records.event_call(payload)
        assert call is not None  # noqa: S101 - it was looked at before
        is_served = payload.get("type") in ("web_search_end", "WebSearch", "image_generation_end", "ImageGeneration")
        if call.id in self._asked or (is_served and self._nameless) or self._told.get(call.id):
            self._nameless = self._nameless and not is_served
            spare = {"result"} if is_served else set()
            self._beside(line, "event_msg", {key: value for key, value in payload.items() if key not in spare})
        elif is_served:
            self._searches.append((line, payload, time))
        else:
            self._event_turn(line, payload, time)

    def _event_turn(self, line: int, payload: _Json, time: datetime | None) -> None:
        call = records.event_call(payload)
        assert call is not None  # noqa: S101 - as above
        if call.name is None or (call.id in self._told and call.answer is None):
            self._beside(line, "event_msg", dict(payload))
            return
        meta = {"event": payload["type"]}
        if call.id not in self._told:
            self._keep(line, self._item(records.EVENT, (records.call_part(call),), time, dict(meta)))
        self._told[call.id] = call.answer is not None
        if call.answer is not None:
            answer = records.answer_part(call.id, call.answer, is_error=call.is_error)
            self._keep(line, self._item(records.EVENT, (answer,), time, meta))

    def _repeated(self, line: int, kind: str, payload: _Json, time: datetime | None) -> None:
        side, key = _EVENTS[kind]
        text = payload.get(key)
        if not isinstance(text, str):
            self.reading.refuse(line, f"is an event without its text ({key})", payload)
            return
        left = checked.filled({name: value for name, value in payload.items() if name not in ("type", key, "kind")})
        if side == "reasoning":
            if any(text in item.texts for item in self._waiting.get(side, [])):
                return
            event = self._item("assistant", (dict(payload),), time, texts=frozenset([text]))
            event.waits = True
        else:
            if self._taken(side, lambda each: not each.is_event and text in each.texts) is not None:
                if _has_text(left, _LONG):
                    self._beside(line, "event_msg", {"type": kind, **left})
                return
            self._end_searches()
            event = self._item(side, text, time, left, frozenset([text]))
        event.is_event = True
        self._said(line, side, event)

    def _count_tokens(self, kind: str, info: object, otherwise: Callable[[], None] = lambda: None) -> None:
        """Give the usage of a model's call to the last turn that came of it; a count told again is not another call."""
        usage = self._meter.take(info)
        if usage is None:
            return
        for item in reversed(self._active):
            if item.usage == usage and kind != self._counted_by:
                return  # each of two kinds of records tells it
            if item.role == "user" or item.usage is not None:
                break
            if item.by_model:
                item.usage, self._counted_by = usage, kind
                return
        self._meter.lose(usage)
        otherwise()

    def _roll_back(self, line: int, payload: _Json) -> None:
        number = payload.get("num_turns")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            self.reading.refuse(line, "is a rollback that does not say how many turns (num_turns)", payload)
            return
        begins = [index for index, item in enumerate(self._active) if item.by_user]
        if number and begins:
            self.return_to(begins[max(0, len(begins) - number)])

    def _take_context(self, payload: _Json) -> None:
        self._model = checked.name(payload.get("model")) or self._model
        said = {key: value for key, value in payload.items() if key != "turn_id"}
        if said != self._context:
            try:
                validate.meta({"turnContext": said})
            except InvalidInput:
                return
            self._context, self._context_told = said, False

    def _compacted(self, line: int, payload: _Json, time: datetime | None) -> None:
        self._settle("user", "assistant", "reasoning", "agent")
        self._end_searches()
        message, history = payload.get("message"), payload.get("replacement_history")
        listed = history if isinstance(history, list) else []
        replaced = [item for item in listed if isinstance(item, dict) and item.get("type") not in _NO_TURN]
        if not isinstance(message, str) and not replaced:
            self.reading.refuse(line, "is a compaction without a message", payload)
            return
        content: str | tuple[Any, ...] = tuple(replaced) or str(message)
        left = {key: value for key, value in payload.items() if key not in ("message", "replacement_history")}
        if message and replaced:
            texts = [text for item in replaced for text in texts_of(item.get("content"))]
            content = content if any(str(message) in text for text in texts) else (*replaced, _summary(str(message)))
        other = [item for item in listed if item not in replaced]
        item = self._item("summary", content, time, checked.filled(left | {"replacementHistory": other}))
        item.compaction = Compaction(tokens_before=self._meter.window)
        item.usage = self._meter.spare()
        self._keep(line, item)

    def says(self, text: str) -> bool:
        """Tell whether a text stands within what the thread says now."""
        return any(text in each for item in self._active for each in item.texts)


def _summary(message: str) -> dict[str, str]:
    return {"type": "input_text", "text": message}


def _has_text(value: object, length: int = 1) -> bool:
    """Tell whether a value has a text of at least some characters in it."""
    if isinstance(value, str):
        return len(value) >= length
    within = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return any(_has_text(each, length) for each in within)


def _content(role: str, content: Any) -> str | tuple[Any, ...]:
    """Return a message's content: the text where it is all there is, so that an event gives the same turn; else the parts."""
    match content:
        case [{"type": kind, "text": str(text)} as part] if len(part) == 2 and kind == _PLAIN.get(role, "input_text"):
            return text
        case str():
            return content
    return tuple(content)
