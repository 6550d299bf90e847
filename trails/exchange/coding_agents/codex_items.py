"""Make turns from the items of a Codex thread.

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

from trails.errors import InvalidInput
from trails.exchange.coding_agents import codex_records
from trails.exchange.coding_agents.codex_records import SERVED, CallBook, Entry, HeldCall, UsageMeter, texts_of
from trails.exchange.json_files import Json, as_list, without_keys
from trails.exchange.record_checks import Reading
from trails.exchange.source_transcript import SourceTurn, distinct_paths
from trails.exchange.source_values import valid_name, without_empty
from trails.model import validation
from trails.model.values import Compaction

MOST_ECHOES: Final = 64
"""How many entries of a side wait at a time."""
_OUTPUTS: Final = {"function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output"}
_ENDED: Final = frozenset({"completed", "failed"})
_MODEL_ITEMS: Final = SERVED | {
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
_OVER: Final = frozenset({"task_complete", "turn_complete", "turn_aborted"})
"""Events that end what the model does for one question of the user."""
_REPEATING: Final = {"UserMessage": "user", "AgentMessage": "assistant", "Reasoning": "reasoning"}
"""Completed items that repeat a response item: whose."""
_SIDES: Final = ("user", "agent", "assistant", "reasoning")
"""Who may say a text that stands in a file twice."""
_LONG: Final = 20
"""Characters of a text from which on it is kept where only an event that repeats an item has it."""


@dataclass(slots=True)
class Echoes:
    """Entries that may still be told a second time, by whose they are: `user`, `agent`, `assistant`, `reasoning`."""

    _waiting: dict[str, list[Entry]] = field(default_factory=dict)

    def add(self, side: str, entry: Entry) -> None:
        """Let an entry wait for what repeats it."""
        self._waiting.setdefault(side, []).append(entry)
        del self._waiting[side][:-MOST_ECHOES]

    def of(self, side: str) -> list[Entry]:
        """Return the entries of a side, oldest first."""
        return self._waiting.get(side, [])

    def settle(self, *sides: str) -> None:
        """Decide what still waits: nothing will repeat it any more."""
        for side in sides:
            for entry in self._waiting.pop(side, []):
                entry.waits = False

    def take(self, side: str, fits: Callable[[Entry], bool]) -> Entry | None:
        """Return the newest entry that fits, and wait for it no more."""
        for entry in reversed(self.of(side)):
            if fits(entry):
                self._waiting[side].remove(entry)
                return entry
        return None

    def drop(self, side: str, entries: list[Entry]) -> None:
        """Wait for some entries no more."""
        self._waiting[side] = [entry for entry in self.of(side) if not any(entry is each for each in entries)]

    def events(self) -> set[int]:
        """Return the identities of the entries that are events, which an item may still replace."""
        return {id(entry) for entries in self._waiting.values() for entry in entries if entry.is_event}


@dataclass(slots=True)
class Thread:
    """The turns of a thread as its lines come."""

    reading: Reading
    title: str | None = None
    timestamp: str | None = None
    """When the line that is added was written, as it says."""
    _active: list[Entry] = field(default_factory=list)
    _abandoned: list[list[Entry]] = field(default_factory=list)
    _echoes: Echoes = field(default_factory=Echoes)
    _model: str | None = None
    _context: Json = field(default_factory=dict)
    _context_told: bool = True
    _meter: UsageMeter = field(default_factory=UsageMeter)
    _counted_by: str = ""
    """The kind of record that told the last usage."""
    _before: list[dict[str, Any]] = field(default_factory=list)
    """Events and records that make no turn, since the last turn."""
    _calls: CallBook = field(default_factory=CallBook)
    replayed: int = 0
    """How many turns at the beginning are another thread's, told again."""
    _over: int = 0
    """How many turns there were when the program said last that it was the user's turn again."""

    def add(self, line: int, kind: str, payload: Json, time: datetime | None) -> None:
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
        what = "token_count event(s) follow no turn of the model, and were not used"
        made = [tuple(item.turn(i) for i, item in enumerate(path)) for path in (self._active, *self._abandoned)]
        back = "rollback(s); what was taken back is kept as a fork"
        self.reading.note_counts({what: self._meter.astray, back: len(made) - 1})
        return tuple(path for path in distinct_paths(made) if path) or ((),)

    def __len__(self) -> int:
        return len(self._active)

    def events_after(self) -> list[dict[str, Any]]:
        """Return the events and records after the last turn."""
        return [*self._before, *(dict(held.payload) for held in self._calls.held)]

    def return_to(self, length: int) -> None:
        """Take back all turns but the first ones; they are kept as another path."""
        self._echoes.settle(*_SIDES)
        self._abandoned.append(self._active)
        self._active = self._active[:length]
        self._over = len(self._active)

    def open_turns(self) -> int:
        """Return how many turns at the end may still become others: from an event that an item may repeat, or from the
        model's last turn, whose usage is not told. To be called after `paths`.
        """
        waiting = self._echoes.events()
        for index, item in enumerate(self._active[self._over :], self._over):
            later = self._active[index + 1 :]
            is_last = item.by_model and not any(each.by_model or each.role == "user" for each in later)
            if id(item) in waiting or (is_last and item.usage is None):
                return len(later) + 1
        return 0

    # --- items

    def _response_item(self, line: int, payload: Json, time: datetime | None) -> None:
        kind = payload.get("type")
        if not isinstance(kind, str):
            self.reading.refuse(line, "is a response item without a type", payload)
            return
        if kind not in SERVED and kind not in _NO_TURN:
            self._end_searches()
        if kind == "message":
            self._message(line, payload, time)
        elif kind == "agent_message":
            self._agent_message(line, payload, time, is_event=False)
        elif kind == "reasoning":
            texts = frozenset(texts_of(payload.get("summary"))) | frozenset(texts_of(payload.get("content")))
            self._reasoning(line, self._item("assistant", (dict(payload),), time, texts=texts))
        elif kind in _OUTPUTS:
            self._echoes.settle("user", "assistant", "agent")
            self._keep(line, self._item("tool", (dict(payload),), time))
        elif kind in _NO_TURN:
            self._beside(line, "response_item", dict(payload))
        else:
            self._call(line, payload, time)

    def _call(self, line: int, payload: Json, time: datetime | None) -> None:
        """Keep an item that a model made and that is no message: a call, in most cases."""
        self._echoes.settle("user", "agent")
        payload, told = self._calls.asked(payload, f"item-{len(self._active)}")
        if told is not None:
            self._beside(line, "event_msg", dict(told.payload))
        is_kept = self._keep(line, self._item("assistant", (dict(payload),), time))
        state = {"status": payload.get("status", "completed")}
        if is_kept and payload["type"] in SERVED and str(state["status"]) in _ENDED:
            # the provider answered the call: what it gave, only the model saw
            part = codex_records.answer_part(payload["id"], state, is_error=codex_records.has_failed(state))
            self._keep(line, self._item(codex_records.EVENT, (part,), time, {"event": payload["type"]}))

    def _end_searches(self) -> None:
        """Keep the calls that events told, and no item did, as turns."""
        held, self._calls.held = self._calls.held, []
        for told in held:
            self._event_turn(told)

    def _message(self, line: int, payload: Json, time: datetime | None) -> None:
        role, content = payload.get("role"), payload.get("content")
        meta = without_empty(without_keys(payload, "type", "role", "content"))
        if not isinstance(role, str) or not isinstance(content, str | list):
            self.reading.refuse(line, "is a message without a role, or without content", payload)
            return
        if role == "assistant" and (sent := codex_records.agent_message_in(content)) is not None:
            self._sent(line, sent, time, is_event=False)
            return
        texts = [content] if isinstance(content, str) else texts_of(content)
        whole = frozenset([*texts, "".join(texts), "\n".join(texts)])
        item = self._item(role, codex_records.message_content(role, content), time, meta, whole)
        announced = self._echoes.take(role, lambda each: each.is_event and each.texts <= item.texts)
        if announced is None:
            self._said(line, role, item)
        elif self._fits(line, item, payload):
            announced.become(item)

    def _agent_message(self, line: int, payload: Json, time: datetime | None, *, is_event: bool) -> None:
        message = codex_records.read_agent_message(payload)
        if message is None:
            self._beside(line, "agent_message", {"payload": dict(payload)})
        else:
            self._sent(line, message, time, is_event=is_event)

    def _sent(self, line: int, message: codex_records.AgentMessage, time: datetime | None, *, is_event: bool) -> None:
        """Keep what another agent said; an item and a record that tell the same are one turn."""
        self._end_searches()
        item = self._item("user", message.content, time, message.meta, frozenset([message.text]))
        item.author, item.is_event = message.author, is_event
        repeats = self._echoes.take("agent", lambda each: each.is_event != is_event and each.texts == item.texts)
        if repeats is None:
            self._said(line, "agent", item)
        elif not is_event and self._fits(line, item, message.content):
            repeats.become(item)

    def _reasoning(self, line: int, item: Entry) -> None:
        announced = [event for event in self._echoes.of("reasoning") if event.waits and event.texts <= item.texts]
        if not self._fits(line, item, item.content):
            return
        if not announced:
            self._said(line, "reasoning", item)
            return
        first, *others = announced
        first.become(item)
        first.texts, first.waits = item.texts, False
        self._active = [each for each in self._active if not any(each is other for other in others)]
        self._echoes.drop("reasoning", others)

    def _item(
        self, role: str, content: str | tuple[Any, ...], time: datetime | None, meta: dict[str, Any] | None = None,
        texts: frozenset[str] = frozenset()
    ) -> Entry:  # fmt: skip
        return Entry(role, content, time, self._model, meta or {}, texts, generation=len(self._abandoned))

    def _said(self, line: int, side: str, item: Entry) -> None:
        """Keep something that may stand in the file a second time; the other side's turn to speak is over."""
        if side in ("user", "agent"):
            self._echoes.settle("assistant", "reasoning")
        elif side in ("assistant", "reasoning"):
            self._echoes.settle("user", "agent")
        if self._keep(line, item) and side in _SIDES:
            self._echoes.add(side, item)

    def _keep(self, line: int, item: Entry) -> bool:
        if self._context and not self._context_told:
            item.meta["turnContext"] = dict(self._context)
        if not self._fits(line, item, item.content):
            return False
        if self._before and not item.waits:
            item.meta["eventsBefore"], self._before = self._before, []
        self._context_told = True
        self._active.append(item)
        return True

    def _fits(self, line: int, item: Entry, record: object) -> bool:
        """Tell whether a store would keep the item; a problem of its line where not."""
        return self.reading.keeps(item.turn(0), line, "", record)

    # --- events

    def _event(self, line: int, payload: Json, time: datetime | None) -> None:
        kind = payload.get("type")
        if not isinstance(kind, str):
            self.reading.refuse(line, "is an event without a type", payload)
        elif kind in _EVENTS:
            self._repeated(line, kind, payload, time)
        elif kind == "token_count":
            self._count_tokens(kind, payload.get("info"), lambda: self._beside(line, "event_msg", dict(payload)))
        elif kind in codex_records.NOTICES and (text := codex_records.notice_text(payload)):
            left = {key: value for key, value in payload.items() if value not in (text, kind)}
            self._keep(line, self._item(codex_records.NOTICES[kind], text, time, without_empty(left)))
        elif kind == "item_completed" and isinstance(payload.get("item"), dict):
            self._completed(line, payload, time)
        elif (call := codex_records.read_event_call(payload)) is not None:
            self._event_call(HeldCall(line, payload, time, call))
        else:
            self._other_event(line, kind, payload)

    def _other_event(self, line: int, kind: str, payload: Json) -> None:
        if kind == "thread_rolled_back":
            self._roll_back(line, payload)
        elif kind in _OVER:
            self._over = len(self._active)
        elif kind == "thread_name_updated" and isinstance(payload.get("thread_name"), str):
            self.title = payload["thread_name"] or None
        last = payload.get("last_agent_message")
        if isinstance(last, str) and self._is_told("assistant", last):
            payload = without_keys(payload, "last_agent_message")
        self._beside(line, "event_msg", dict(payload))

    def _beside(self, line: int, kind: str, record: dict[str, Any]) -> None:
        """Keep a record that makes no turn for the metadata of the next one."""
        held = record if kind in ("event_msg", "response_item") else {"type": kind, **record}
        if not any(_has_text(value) for key, value in held.items() if key != "type"):
            return
        if self.timestamp is not None:
            held = {"timestamp": self.timestamp, **held}
        if fault := _meta_fault({"eventsBefore": [held]}):
            self.reading.refuse(line, f"cannot be kept: {fault}", record)
        else:
            self._before.append(held)

    def _completed(self, line: int, payload: Json, time: datetime | None) -> None:
        """Take an item of the conversation that was completed: mostly a response item has the same."""
        item: dict[str, Any] = payload["item"]
        kind = item.get("type")
        side = _REPEATING.get(kind) if isinstance(kind, str) else None
        raw = [text for key in ("summary_text", "raw_content") for text in as_list(item.get(key))]
        texts = texts_of(item.get("content")) + [text for text in raw if isinstance(text, str)]
        whole = texts if side == "reasoning" else ["".join(texts)]
        if side is not None and whole and all(self._is_told(side, text) for text in whole):
            return
        if side is None and (call := codex_records.read_event_call(item)) is not None:
            self._event_call(HeldCall(line, item, time, call))
        else:
            self._beside(line, "event_msg", dict(payload))

    def _is_told(self, side: str, text: str) -> bool:
        role = "user" if side == "user" else "assistant"
        return any(item.role == role and text in item.texts for item in self._active[-MOST_ECHOES:])

    def _event_call(self, told: HeldCall) -> None:
        """Take an event that tells a call: where an item asks for it, the event only says more of it."""
        if self._calls.is_told(told.call, told.payload):
            spare = ("result",) if self._calls.may_be_asked(told.payload) else ()  # an image: the item has it
            self._beside(told.line, "event_msg", without_keys(told.payload, *spare))
        elif self._calls.may_be_asked(told.payload):
            self._calls.held.append(told)
        else:
            self._event_turn(told)

    def _event_turn(self, told: HeldCall) -> None:
        line, payload, time, call = told
        if call.name is None or (call.id in self._calls.told and call.answer is None):
            self._beside(line, "event_msg", dict(payload))
            return
        meta = {"event": payload["type"]}
        if call.id not in self._calls.told:
            self._keep(line, self._item(codex_records.EVENT, (codex_records.call_part(call),), time, dict(meta)))
        self._calls.told[call.id] = call.answer is not None
        if call.answer is not None:
            answer = codex_records.answer_part(call.id, call.answer, is_error=call.is_error)
            self._keep(line, self._item(codex_records.EVENT, (answer,), time, meta))

    def _repeated(self, line: int, kind: str, payload: Json, time: datetime | None) -> None:
        side, key = _EVENTS[kind]
        text = payload.get(key)
        if not isinstance(text, str):
            self.reading.refuse(line, f"is an event without its text ({key})", payload)
            return
        left = without_empty(without_keys(payload, "type", key, "kind"))
        if side == "reasoning":
            if any(text in item.texts for item in self._echoes.of(side)):
                return
            event = self._item("assistant", (dict(payload),), time, texts=frozenset([text]))
            event.waits = True
        else:
            if self._echoes.take(side, lambda each: not each.is_event and text in each.texts) is not None:
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

    def _roll_back(self, line: int, payload: Json) -> None:
        number = payload.get("num_turns")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            self.reading.refuse(line, "is a rollback that does not say how many turns (num_turns)", payload)
            return
        begins = [index for index, item in enumerate(self._active) if item.by_user]
        if number and begins:
            self.return_to(begins[max(0, len(begins) - number)])

    def _take_context(self, payload: Json) -> None:
        self._model = valid_name(payload.get("model")) or self._model
        said = without_keys(payload, "turn_id")
        if said != self._context and not _meta_fault({"turnContext": said}):
            self._context, self._context_told = said, False

    def _compacted(self, line: int, payload: Json, time: datetime | None) -> None:
        self._echoes.settle(*_SIDES)
        self._end_searches()
        message, history = payload.get("message"), payload.get("replacement_history")
        listed = as_list(history)
        replaced = [item for item in listed if isinstance(item, dict) and str(item.get("type")) not in _NO_TURN]
        if not isinstance(message, str) and not replaced:
            self.reading.refuse(line, "is a compaction without a message", payload)
            return
        content: str | tuple[Any, ...] = tuple(replaced) or str(message)
        left = without_keys(payload, "message", "replacement_history")
        if message and replaced:
            texts = [text for item in replaced for text in texts_of(item.get("content"))]
            if not any(str(message) in text for text in texts):
                content = (*replaced, {"type": "input_text", "text": str(message)})
        other = [item for item in listed if item not in replaced]
        item = self._item("summary", content, time, without_empty(left | {"replacementHistory": other}))
        item.compaction = Compaction(tokens_before=self._meter.window)
        item.usage = self._meter.spare()
        self._keep(line, item)

    def says(self, text: str) -> bool:
        """Tell whether a text stands within what the thread says now."""
        return any(text in each for item in self._active for each in item.texts)


def _meta_fault(meta: dict[str, Any]) -> str:
    """Return why metadata cannot be kept; an empty text if it can."""
    try:
        validation.meta(meta)
    except InvalidInput as error:
        return f"{error}"
    return ""


def _has_text(value: object, length: int = 1) -> bool:
    """Tell whether a value has a text of at least some characters in it."""
    if isinstance(value, str):
        return len(value) >= length
    within = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return any(_has_text(each, length) for each in within)
