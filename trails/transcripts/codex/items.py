"""The items of a Codex thread, and the turns that they make.

======================================================  =========  ==============================================
line                                                    role       content of the turn
======================================================  =========  ==============================================
response item: message                                  its role   its text, or its parts
response item: reasoning, function_call,                assistant  the item, as the only part
custom_tool_call, local_shell_call, web_search_call, …
response item: …_output                                 tool       the item, as the only part
event: user_message, agent_message                      user,      its text, where no response item repeats it
                                                        assistant
event: agent_reasoning                                  assistant  the event, where no response item repeats it
compacted                                               summary    its message, else what replaced the history
response item: ghost_snapshot; all other events         no turn    (`token_count`: the usage of the turn before)
======================================================  =========  ==============================================

Whatever else an item says stands in the turn's metadata. Nothing depends on lines that come much later, so a file that
was read while it grew gives the same turns again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from trails import validate
from trails.errors import InvalidInput
from trails.model import Compaction
from trails.transcripts import checked
from trails.transcripts.checked import Reading
from trails.transcripts.source import Piece, SourceTurn, distinct
from trails.usage import with_source

_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_MODEL_ITEMS: Final = frozenset(
    {"reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "compaction"}
)
_NO_TURN: Final = frozenset({"ghost_snapshot"})
ITEMS: Final = _OUTPUTS | _MODEL_ITEMS | _NO_TURN | {"message"}
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
)
"""How messages begin that have the user's role and are not the user's."""
_MOST_WAITING: Final = 64
_OVER: Final = frozenset({"task_complete", "turn_complete", "turn_aborted"})
"""Events that end what the model does for one question of the user."""

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

    @property
    def by_model(self) -> bool:
        """Whether the model generated it."""
        return self.role == "assistant"

    @property
    def by_user(self) -> bool:
        """Whether the user typed it, and no program in the user's name."""
        return self.role == "user" and not any(text.startswith(_CONTEXTS) for text in self.texts)

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
            model=self.model if self.by_model else None,
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
    _total: object = None
    _tokens: int | None = None
    """How many tokens the model's last call had in its window."""
    _astray: int = 0
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
        else:
            self._event(line, payload, time)

    def paths(self) -> tuple[tuple[SourceTurn, ...], ...]:
        """Return the turns of every path, the one that the thread goes on from first; to be called once, at the end."""
        late = [item for item in self._active if item.waits]
        if late:
            self._active = [item for item in self._active if not item.waits]
            self.reading.notes.append(f"{len(late)} reasoning event(s) at the end wait for the item that repeats them")
        if self._astray:
            self.reading.notes.append(
                f"{self._astray} token_count event(s) follow no turn of the model, and were not used"
            )
        made = [tuple(item.turn(i) for i, item in enumerate(path)) for path in (self._active, *self._abandoned)]
        if len(made) > 1:
            self.reading.notes.append(f"{len(made) - 1} rollback(s); what was taken back is kept as a fork")
        return tuple(path for path in distinct(made) if path) or ((),)

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
        elif kind == "message":
            self._message(line, payload, time)
        elif kind == "reasoning":
            texts = frozenset(_texts(payload.get("summary"))) | frozenset(_texts(payload.get("content")))
            self._reasoning(line, self._item("assistant", (dict(payload),), time, texts=texts))
        elif kind in _OUTPUTS:
            self._settle("user", "assistant")
            self._keep(line, self._item("tool", (dict(payload),), time))
        elif kind not in _NO_TURN:
            self._settle("user")
            self._keep(line, self._item("assistant", (dict(payload),), time))

    def _message(self, line: int, payload: _Json, time: datetime | None) -> None:
        role, content = payload.get("role"), payload.get("content")
        meta = checked.filled({key: value for key, value in payload.items() if key not in ("type", "role", "content")})
        if not isinstance(role, str) or not isinstance(content, str | list):
            self.reading.refuse(line, "is a message without a role, or without content", payload)
            return
        texts = [content] if isinstance(content, str) else _texts(content)
        item = self._item(
            role, _content(role, content), time, meta, frozenset([*texts, "".join(texts), "\n".join(texts)])
        )
        announced = self._announced(role, item.texts)
        if announced is not None and self._fits(line, item, payload):
            announced.content, announced.is_event = item.content, False
            announced.meta = announced.meta | item.meta
        elif announced is None:
            self._said(line, role, item)

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
        if side == "user":
            self._settle("assistant", "reasoning")
        elif side in ("assistant", "reasoning"):
            self._settle("user")
        if self._keep(line, item) and side in ("user", "assistant", "reasoning"):
            self._waiting.setdefault(side, []).append(item)
            del self._waiting[side][:-_MOST_WAITING]

    def _keep(self, line: int, item: _Item) -> bool:
        if self._context and not self._context_told:
            item.meta["turnContext"] = dict(self._context)
        if not self._fits(line, item, item.content):
            return False
        self._context_told = True
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
            self._count_tokens(payload.get("info"))
        elif kind == "thread_rolled_back":
            self._roll_back(line, payload)
        elif kind in _OVER:
            self._over = len(self._active)
        elif kind == "thread_name_updated" and isinstance(payload.get("thread_name"), str):
            self.title = payload["thread_name"] or None

    def _repeated(self, line: int, kind: str, payload: _Json, time: datetime | None) -> None:
        side, key = _EVENTS[kind]
        text = payload.get(key)
        if not isinstance(text, str):
            self.reading.refuse(line, f"is an event without its text ({key})", payload)
            return
        if side == "reasoning":
            if any(text in item.texts for item in self._waiting.get(side, [])):
                return
            event = self._item("assistant", (dict(payload),), time, texts=frozenset([text]))
            event.waits = True
        else:
            if self._taken(side, lambda each: not each.is_event and text in each.texts) is not None:
                return
            left = {name: value for name, value in payload.items() if name not in ("type", key, "kind")}
            event = self._item(side, text, time, checked.filled(left), frozenset([text]))
        event.is_event = True
        self._said(line, side, event)

    def _count_tokens(self, info: object) -> None:
        """Give the usage of a model's call to the last turn that came of it; a count told again is not another call."""
        total = info.get("total_token_usage") if isinstance(info, dict) else None
        last = info.get("last_token_usage") if isinstance(info, dict) else None
        if not isinstance(last, dict) or not last or (total is not None and total == self._total):
            return
        self._total = total
        tokens = last.get("total_tokens")
        self._tokens = (
            tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < 2**63 else None
        )
        for item in reversed(self._active):
            if item.role == "user" or item.usage is not None:
                break
            if item.by_model and _is_usage(last):
                item.usage = with_source(last, "codex")
                return
        self._astray += 1

    def _roll_back(self, line: int, payload: _Json) -> None:
        number = payload.get("num_turns")
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            self.reading.refuse(line, "is a rollback that does not say how many turns (num_turns)", payload)
            return
        self._settle("user", "assistant", "reasoning")
        begins = [index for index, item in enumerate(self._active) if item.by_user]
        if number and begins:
            self._abandoned.append(self._active)
            self._active = self._active[: begins[max(0, len(begins) - number)]]
            self._over = len(self._active)

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
        self._settle("user", "assistant", "reasoning")
        message, history = payload.get("message"), payload.get("replacement_history")
        replaced = [item for item in history if isinstance(item, dict)] if isinstance(history, list) else []
        encrypted = [item for item in replaced if "compaction" in str(item.get("type"))]
        if not isinstance(message, str) and not replaced:
            self.reading.refuse(line, "is a compaction without a message", payload)
            return
        content = message if isinstance(message, str) and message else tuple(encrypted or replaced)
        left = {key: value for key, value in payload.items() if key not in ("message", "replacement_history")}
        item = self._item(
            "summary", content, time, checked.filled(left | {"replacementHistory": self._referred(history)})
        )
        item.compaction = Compaction(tokens_before=self._tokens)
        self._keep(line, item)

    def _referred(self, history: object) -> object:
        """Return a replacement history with the turns that it repeats named by their index: their text stands once."""
        if not isinstance(history, list):
            return history
        said = {(item.role, _plain(item.content)): index for index, item in enumerate(self._active)}
        found = [
            said.get((str(item.get("role")), text))
            if isinstance(item, dict) and (text := "".join(_texts(item.get("content"))))
            else None
            for item in history
        ]
        return [each if index is None else {"turn": index} for each, index in zip(history, found, strict=True)]

    def says(self, text: str) -> bool:
        """Tell whether a text stands within what the thread says now."""
        return any(text in each for item in self._active for each in item.texts)


def _plain(content: str | tuple[Any, ...]) -> str:
    return content if isinstance(content, str) else "".join(_texts(list(content)))


def _texts(parts: object) -> list[str]:
    found: Iterable[Any] = parts if isinstance(parts, list) else ()
    return [part["text"] for part in found if isinstance(part, dict) and isinstance(part.get("text"), str)]


def _content(role: str, content: Any) -> str | tuple[Any, ...]:
    """Return a message's content: the text where it is all there is, so that an event gives the same turn; else the parts."""
    match content:
        case [{"type": kind, "text": str(text)} as part] if len(part) == 2 and kind == _PLAIN.get(role, "input_text"):
            return text
        case str():
            return content
    return tuple(content)


def _is_usage(value: _Json) -> bool:
    try:
        validate.usage(value)
    except InvalidInput:
        return False
    return True
