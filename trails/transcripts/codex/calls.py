"""Which calls of a Codex thread are told by items, which by events, and which by both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from trails import parts
from trails.transcripts.codex.records import EventCall

_Json = Mapping[str, Any]

SERVED: Final = frozenset(parts.SERVED)
"""Items of calls that the provider itself answered: some versions wrote them without their ids."""
_ITEMS: Final = {
    "web_search_end": "web_search_call",
    "WebSearch": "web_search_call",
    "image_generation_end": "image_generation_call",
    "ImageGeneration": "image_generation_call",
}
"""Events that tell more of such an item, before it or after it, with its id or another one."""


class Held(NamedTuple):
    """An event that tells a call of which the item may come next."""

    line: int
    payload: _Json
    time: datetime | None


@dataclass(slots=True)
class CallBook:
    """The calls of a thread so far."""

    told: dict[str, bool] = field(default_factory=dict)
    """The ids of the calls that only events tell: whether they were answered."""
    held: list[Held] = field(default_factory=list)
    _asked: set[str] = field(default_factory=set)
    """The ids of the calls that items ask for."""
    _silent: Counter[str] = field(default_factory=Counter)
    """How many items of a type no event has told yet."""

    def asked(self, item: _Json, name: str) -> tuple[_Json, Held | None]:
        """Take an item; return it with an id, and the event before it that tells the same call.

        An item of `SERVED` without an id has that of the event, or else the name that is given.
        """
        kind = item["type"]
        call_id = next((v for key in ("call_id", "id") if isinstance(v := item.get(key), str) and v), None)
        event = None
        if kind in SERVED:
            event = next((each for each in self.held if _ITEMS[each.payload["type"]] == kind), None)
            if event is not None:
                self.held.remove(event)
            else:
                self._silent[kind] += 1
            told = event.payload.get("call_id", event.payload.get("id")) if event is not None else None
            call_id = call_id or (told if isinstance(told, str) else name)
            item = {**item, "id": item.get("id") or call_id}
        if call_id is not None:
            self._asked.add(call_id)
        return item, event

    def is_told(self, call: EventCall, event: _Json) -> bool:
        """Tell whether an item, or another event, tells the call of an event with its answer."""
        kind = _ITEMS.get(event["type"])
        is_silent = kind is not None and self._silent[kind] > 0
        if is_silent:
            self._silent[str(kind)] -= 1
        return is_silent or call.id in self._asked or bool(self.told.get(call.id))

    def may_be_asked(self, event: _Json) -> bool:
        """Tell whether the item of an event's call may come after it."""
        return event["type"] in _ITEMS

    def release(self) -> list[Held]:
        """Return the events whose items did not come, and hold them no more."""
        held, self.held = self.held, []
        return held
