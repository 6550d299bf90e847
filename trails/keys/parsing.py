"""Taking session keys apart: the agent, what kind of session, with whom, in which thread."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from trails.keys.ids import DEFAULT_MAIN_KEY, normalize_agent_id, normalize_main_key
from trails.keys.script import lower, trim
from trails.model import Value

THREAD_MARKERS: Final = (":thread:", ":topic:")
GROUP_MARKERS: Final = (":group:", ":channel:")
DIRECT_WORDS: Final = ("dm", "direct")
"""How a direct chat is written: released systems wrote `dm` first, and `direct` later."""

Kind = Literal[
    "main", "dm", "group", "channel", "subagent", "cron", "hook", "node", "acp", "global", "unknown", "other"
]
Shape = Literal["missing", "agent", "legacy_or_alias", "malformed_agent"]
_PREFIXED: Final[dict[str, Kind]] = {
    "subagent": "subagent",
    "cron": "cron",
    "hook": "hook",
    "node": "node",
    "acp": "acp",
}
_SESSION_ID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)


class AgentKey(Value):
    """A key that begins with `agent:`: the agent's id as written, and the rest."""

    agent_id: str
    rest: str


class GroupKey(Value):
    """What a key says of a group or channel: the network, the kind, and the id, with threads."""

    channel: str
    kind: Literal["group", "channel"]
    id: str


class SessionKey(Value):
    """A session key taken apart. What it does not say is None."""

    text: str
    """The key as it was given, trimmed."""
    kind: Kind
    """What it names; a thread has the kind of what it is a thread of."""
    agent_id: str | None = None
    """The agent that owns the session, as written."""
    channel: str | None = None
    account_id: str | None = None
    direct_word: Literal["dm", "direct"] | None = None
    """How a direct chat is written in this key."""
    id: str | None = None
    """The peer, group, job, hook or run: an opaque id, as written."""
    thread_marker: Literal["thread", "topic"] | None = None
    thread_id: str | None = None
    parent: str | None = None
    """The key that this is a thread of."""
    depth: int = 0
    """How many sub-agents deep."""

    @property
    def is_thread(self) -> bool:
        """Whether this is a thread or topic of another session."""
        return self.parent is not None


def parse_agent_key(key: str | None, *, any_case: bool = False) -> AgentKey | None:
    """Return the agent and the rest of a key `agent:ID:REST`, or None for any other text.

    Empty segments count as left out. The word `agent` is read in lower case only; later systems read it in any case,
    which `any_case` asks for.

    >>> parse_agent_key("agent:main:telegram:group:1").rest
    'telegram:group:1'
    >>> parse_agent_key("agent:main"), parse_agent_key("AGENT:main:main")
    (None, None)
    """
    parts = [part for part in trim(key).split(":") if part]
    if len(parts) < 3 or (parts[0].lower() if any_case else parts[0]) != "agent":
        return None
    agent = trim(parts[1])
    return AgentKey(agent_id=agent, rest=":".join(parts[2:])) if agent else None


def agent_id_from_key(key: str | None) -> str:
    """Return the id of the agent that owns a key, normalised; "main" for a key that names none.

    >>> agent_id_from_key("agent:a b:main"), agent_id_from_key("main")
    ('a-b', 'main')
    """
    parsed = parse_agent_key(key)
    return normalize_agent_id(parsed.agent_id if parsed else None)


def key_shape(key: str | None) -> Shape:
    """Return whether a text is missing, an agent's key, a legacy key or alias, or a broken agent's key.

    >>> key_shape(""), key_shape("agent:main:main"), key_shape("main"), key_shape("agent::main")
    ('missing', 'agent', 'legacy_or_alias', 'malformed_agent')
    """
    raw = trim(key)
    if not raw:
        return "missing"
    if parse_agent_key(raw):
        return "agent"
    return "malformed_agent" if raw.lower().startswith("agent:") else "legacy_or_alias"


def is_subagent_key(key: str | None) -> bool:
    """Tell whether a key names a sub-agent's session, with or without the agent before it.

    >>> is_subagent_key("agent:main:subagent:1"), is_subagent_key("SUBAGENT:1"), is_subagent_key("agent:main:main")
    (True, True, False)
    """
    return _begins_with(key, "subagent:")


def is_acp_key(key: str | None) -> bool:
    """Tell whether a key names a session of the agent client protocol.

    >>> is_acp_key("agent:main:acp:1"), is_acp_key("acp")
    (True, False)
    """
    return _begins_with(key, "acp:")


def _begins_with(key: str | None, word: str) -> bool:
    raw = trim(key)
    if raw.lower().startswith(word):
        return True
    parsed = parse_agent_key(raw)
    return parsed is not None and parsed.rest.lower().startswith(word)


def is_cron_key(key: str | None) -> bool:
    """Tell whether a key names a scheduled job's session, with or without the agent before it."""
    return _begins_with(key, "cron:")


def subagent_depth(key: str | None) -> int:
    """Return how many sub-agents deep a key is: the number of times that it holds `:subagent:`.

    >>> subagent_depth("agent:main:main"), subagent_depth("agent:main:subagent:p:subagent:c")
    (0, 2)
    """
    return trim(key).lower().count(":subagent:")


def may_spawn(key: str | None) -> bool:
    """Tell whether the session of a key may start sub-agents: never one that is a sub-agent's itself, at any depth.

    >>> may_spawn("agent:main:main"), may_spawn("agent:main:subagent:1"), may_spawn("subagent:1")
    (True, False, False)
    """
    return not is_subagent_key(key) and subagent_depth(key) == 0


def is_thread_key(key: str | None) -> bool:
    """Tell whether a key holds the mark of a thread or a topic.

    >>> is_thread_key("agent:main:telegram:group:1:topic:2"), is_thread_key("agent:main:main")
    (True, False)
    """
    return _thread_mark(trim(key))[0] >= 0


def thread_parent_key(key: str | None) -> str | None:
    """Return the key that a thread belongs to: the text before the last `:thread:` or `:topic:`; None if it is no thread.

    >>> thread_parent_key("agent:main:slack:channel:c1:thread:123")
    'agent:main:slack:channel:c1'
    >>> thread_parent_key("agent:main:main") is None
    True
    """
    raw = trim(key)
    place, _ = _thread_mark(raw)
    return (trim(raw[:place]) or None) if place > 0 else None


def _thread_mark(raw: str) -> tuple[int, str]:
    """Return where the last mark of a thread begins and the mark, or -1 and nothing."""
    folded = _ascii_lower(raw)
    return max(((folded.rfind(marker), marker) for marker in THREAD_MARKERS), default=(-1, ""))


def _ascii_lower(text: str) -> str:
    """Return a text with A to Z in lower case: of the same length, so that places in it stay true."""
    return text.translate(_TO_LOWER)


_TO_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def parse_group_key(key: str) -> GroupKey | None:
    """Return the network, kind and id of a group's or channel's key, with or without its agent; None for any other key.

    >>> parse_group_key("agent:ops:discord:group:dev").id
    'dev'
    >>> parse_group_key("foo:bar") is None
    True
    """
    parsed = parse_agent_key(key)
    parts = [part for part in (parsed.rest if parsed else key).split(":") if part]
    if len(parts) < 3 or parts[1] not in ("group", "channel"):
        return None
    return GroupKey(channel=parts[0], kind="group" if parts[1] == "group" else "channel", id=":".join(parts[2:]))


def classify_key(key: str, entry: Mapping[str, Any] | None = None) -> Literal["global", "unknown", "group", "direct"]:
    """Return the kind of session that a list shows for a key, by its entry's chat type first.

    >>> classify_key("discord:group:dev"), classify_key("main"), classify_key("main", {"chatType": "group"})
    ('group', 'direct', 'group')
    """
    if key == "global":
        return "global"
    if key == "unknown":
        return "unknown"
    told = entry is not None and entry.get("chatType") in ("group", "channel")
    return "group" if told or any(marker in key for marker in GROUP_MARKERS) else "direct"


def session_kind(
    key: str, *, alias: str, main_key: str, listed_kind: str | None = None
) -> Literal["main", "group", "cron", "hook", "node", "other"]:
    """Return the kind of session that an agent's tools show for a key. `listed_kind` is what `classify_key` says, if asked.

    >>> session_kind("work", alias="work", main_key="work"), session_kind("cron:x", alias="main", main_key="main")
    ('main', 'cron')
    """
    if key in (alias, main_key):
        return "main"
    if key.startswith("cron:"):
        return "cron"
    if key.startswith("hook:"):
        return "hook"
    if key.startswith(("node-", "node:")):
        return "node"
    return "group" if listed_kind == "group" or any(marker in key for marker in GROUP_MARKERS) else "other"


def looks_like_session_id(text: str) -> bool:
    """Tell whether a text has the form of a session's id, a UUID.

    >>> looks_like_session_id("550e8400-e29b-41d4-a716-446655440000"), looks_like_session_id("main")
    (True, False)
    """
    return _SESSION_ID.fullmatch(trim(text)) is not None


def looks_like_session_key(text: str) -> bool:
    """Tell whether a text has the form of a session key, which is never taken for an id.

    >>> looks_like_session_key("cron:1"), looks_like_session_key("custom-main")
    (True, False)
    """
    raw = trim(text)
    if raw in ("main", "global", "unknown") or is_acp_key(raw):
        return True
    return raw.startswith(("agent:", "cron:", "hook:", "node-", "node:")) or any(m in raw for m in GROUP_MARKERS)


def resolves_as_session_id(text: str) -> bool:
    """Tell whether a reference is to be looked up as a session's id too: it is one, or it has not the form of a key.

    >>> resolves_as_session_id("custom-main"), resolves_as_session_id("main")
    (True, False)
    """
    return looks_like_session_id(text) or not looks_like_session_key(text)


def parse_key(key: str, *, main_key: str | None = None) -> SessionKey:
    """Return a session key taken apart: the whole taxonomy, with and without an agent before it.

    Structure words (`group`, `dm`, `thread` ...) are read in any case; ids are kept as written. `main_key` is the name of
    the main session, beside "main". A key of no known form has the kind "other".

    >>> found = parse_key("agent:main:telegram:group:12345:topic:789")
    >>> found.kind, found.agent_id, found.channel, found.id, found.thread_id, found.parent
    ('group', 'main', 'telegram', '12345', '789', 'agent:main:telegram:group:12345')
    >>> found = parse_key("agent:ops:slack:work:direct:U1")
    >>> found.kind, found.channel, found.account_id, found.id
    ('dm', 'slack', 'work', 'U1')
    """
    raw = trim(key)
    parent, depth = thread_parent_key(raw), subagent_depth(raw)
    if parent is None:
        agent, rest = _split_agent(raw)
        return SessionKey(text=raw, agent_id=agent, depth=depth, **_read_rest(rest, agent, main_key))
    place, marker = _thread_mark(raw)
    thread = {"parent": parent, "thread_marker": marker.strip(":"), "thread_id": raw[place + len(marker) :]}
    return parse_key(parent, main_key=main_key).model_copy(update={"text": raw, "depth": depth, **thread})


def _split_agent(base: str) -> tuple[str | None, str]:
    """Return a key's agent and the text behind it, every character of it."""
    parsed = parse_agent_key(base)
    if parsed is None:
        return None, base
    behind = base.lstrip(":")[len("agent") :].lstrip(":")
    return parsed.agent_id, behind[behind.index(":") :].lstrip(":")


def _read_rest(rest: str, agent: str | None, main_key: str | None) -> dict[str, Any]:
    if agent is None and rest in ("global", "unknown"):
        return {"kind": rest}
    if lower(rest) in (DEFAULT_MAIN_KEY, normalize_main_key(main_key)):
        return {"kind": "main"}
    head, _, tail = rest.partition(":")
    word = head.lower()
    if tail and word in _PREFIXED:
        return {"kind": _PREFIXED[word], "id": tail}
    if agent is None and head.startswith("node-"):
        return {"kind": "node", "id": head.removeprefix("node-") + (f":{tail}" if tail else "")}
    if tail and word in DIRECT_WORDS:
        return {"kind": "dm", "id": tail, "direct_word": word}
    return _read_chat(head, tail) or {"kind": "other", "id": rest or None}


def _read_chat(channel: str, tail: str) -> dict[str, Any] | None:
    """Read `group:ID`, `channel:ID`, `dm:ID` or `ACCOUNT:dm:ID` behind a channel's name."""
    head, _, chat = tail.partition(":")
    word = head.lower()
    if chat and word in ("group", "channel"):
        return {"kind": word, "channel": channel, "id": chat}
    if chat and word in DIRECT_WORDS:
        return {"kind": "dm", "channel": channel, "id": chat, "direct_word": word}
    second, _, peer = chat.partition(":")
    if peer and second.lower() in DIRECT_WORDS:
        return {"kind": "dm", "channel": channel, "account_id": head, "id": peer, "direct_word": second.lower()}
    return None
