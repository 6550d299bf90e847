"""Build and parse session keys."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from trails.errors import InvalidInput
from trails.model.values import Value
from trails.runtime.config_values import lower, trim

DEFAULT_AGENT: Final = "main"
DEFAULT_ACCOUNT: Final = "default"
DEFAULT_MAIN_KEY: Final = "main"
MAX_ID: Final = 64

_WELL_FORMED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_FOREIGN: Final = re.compile(r"[^a-z0-9_-]+")


def normalize_agent_id(value: str | None) -> str:
    """Return an agent's id as it stands in keys: lower case, safe in paths, at most 64 characters.

    A well-formed id is put in lower case. In any other, each run of foreign characters becomes a dash, and dashes at its
    ends go; what is then empty is "main".

    >>> normalize_agent_id(" OPS "), normalize_agent_id("a b"), normalize_agent_id("../../etc/passwd"), normalize_agent_id(None)
    ('ops', 'a-b', 'etc-passwd', 'main')
    """
    return _normalize(value, DEFAULT_AGENT)


def normalize_account_id(value: str | None) -> str:
    """Return an account's id as it stands in keys.

    It is "default" if nothing is left of it.

    >>> normalize_account_id("--Work--"), normalize_account_id("")
    ('work', 'default')
    """
    return _normalize(value, DEFAULT_ACCOUNT)


def _normalize(value: str | None, default: str) -> str:
    name = trim(value)
    if _WELL_FORMED.fullmatch(name):
        return name.lower()
    return _FOREIGN.sub("-", name.lower()).strip("-")[:MAX_ID] or default


def normalize_main_key(value: str | None) -> str:
    """Return the name of the main session, trimmed and in lower case.

    It is "main" if none is given.

    >>> normalize_main_key(" Work "), normalize_main_key(None)
    ('work', 'main')
    """
    return lower(value) or DEFAULT_MAIN_KEY


def fold(value: str | None, *, fold_case: bool) -> str:
    """Return an opaque id (a peer, a group, a thread) trimmed, and in lower case if `fold_case` asks for it.

    Ids of some networks differ in case alone, so that folding them puts two people into one session. Trails folds only
    when told to.

    >>> fold(" AbC ", fold_case=False), fold(" AbC ", fold_case=True)
    ('AbC', 'abc')
    """
    return lower(value) if fold_case else trim(value)


THREAD_MARKERS: Final = (":thread:", ":topic:")
GROUP_MARKERS: Final = (":group:", ":channel:")
DIRECT_WORDS: Final = ("dm", "direct")
"""How a direct chat is written: released systems wrote `dm` first, and `direct` later."""

Kind = Literal[
    "main", "dm", "group", "channel", "subagent", "cron", "hook", "node", "acp", "global", "unknown", "other"
]
_TOOL_KINDS: Final[tuple[Literal["cron", "hook", "node"], ...]] = ("cron", "hook", "node")
_GROUP_KINDS: Final[tuple[Literal["group", "channel"], ...]] = ("group", "channel")
_ASCII_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
"""Keeps the length of a text, so that places in it stay valid."""
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
    """A session key taken apart.

    What it does not say is None.
    """

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
    """Return the agent and the rest of a key `agent:ID:REST`.

    None for any other text.

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
    """Return the id of the agent that owns a key, normalised.

    "main" for a key that names none.

    >>> agent_id_from_key("agent:a b:main"), agent_id_from_key("main")
    ('a-b', 'main')
    """
    parsed = parse_agent_key(key)
    return normalize_agent_id(parsed.agent_id if parsed else None)


def is_subagent_key(key: str | None) -> bool:
    """Return whether a key names a sub-agent's session, with or without the agent before it.

    >>> is_subagent_key("agent:main:subagent:1"), is_subagent_key("SUBAGENT:1"), is_subagent_key("agent:main:main")
    (True, True, False)
    """
    return _begins_with(key, "subagent:")


def is_acp_key(key: str | None) -> bool:
    """Return whether a key names a session of the agent client protocol.

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


def subagent_depth(key: str | None) -> int:
    """Return how many sub-agents deep a key is: the number of times that it holds `:subagent:`.

    >>> subagent_depth("agent:main:main"), subagent_depth("agent:main:subagent:p:subagent:c")
    (0, 2)
    """
    return trim(key).lower().count(":subagent:")


def may_spawn(key: str | None) -> bool:
    """Return whether the session of a key may start sub-agents: never one that is a sub-agent's itself, at any depth.

    >>> may_spawn("agent:main:main"), may_spawn("agent:main:subagent:1"), may_spawn("subagent:1")
    (True, False, False)
    """
    return not is_subagent_key(key) and subagent_depth(key) == 0


def is_thread_key(key: str | None) -> bool:
    """Return whether a key holds the mark of a thread or a topic.

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
    folded = raw.translate(_ASCII_LOWER)
    return max((folded.rfind(marker), marker) for marker in THREAD_MARKERS)


def parse_group_key(key: str) -> GroupKey | None:
    """Return the network, kind and id of a group's or channel's key, with or without its agent; None for any other key.

    >>> parse_group_key("agent:ops:discord:group:dev").id
    'dev'
    >>> parse_group_key("foo:bar") is None
    True
    """
    parsed = parse_agent_key(key)
    parts = [part for part in (parsed.rest if parsed else key).split(":") if part]
    if len(parts) < 3 or parts[1] not in _GROUP_KINDS:
        return None
    return GroupKey(channel=parts[0], kind=parts[1], id=":".join(parts[2:]))


def classify_key(key: str, entry: Mapping[str, Any] | None = None) -> Literal["global", "unknown", "group", "direct"]:
    """Return the kind of session that a list shows for a key, by its entry's chat type first.

    >>> classify_key("discord:group:dev"), classify_key("main"), classify_key("main", {"chatType": "group"})
    ('group', 'direct', 'group')
    """
    if key in ("global", "unknown"):
        return "global" if key == "global" else "unknown"
    is_group = (entry or {}).get("chatType") in ("group", "channel") or any(marker in key for marker in GROUP_MARKERS)
    return "group" if is_group else "direct"


def session_kind(
    key: str, *, alias: str, main_key: str, listed_kind: str | None = None
) -> Literal["main", "group", "cron", "hook", "node", "other"]:
    """Return the kind of session that an agent's tools show for a key.

    `listed_kind` is what `classify_key` says, if asked.

    >>> session_kind("work", alias="work", main_key="work"), session_kind("cron:x", alias="main", main_key="main")
    ('main', 'cron')
    """
    if key in (alias, main_key):
        return "main"
    head, colon, _ = key.partition(":")
    if colon and head in _TOOL_KINDS:
        return head
    if key.startswith("node-"):
        return "node"
    return "group" if listed_kind == "group" or any(marker in key for marker in GROUP_MARKERS) else "other"


def looks_like_session_id(text: str) -> bool:
    """Return whether a text has the form of a session's id, a UUID.

    >>> looks_like_session_id("550e8400-e29b-41d4-a716-446655440000"), looks_like_session_id("main")
    (True, False)
    """
    return _SESSION_ID.fullmatch(trim(text)) is not None


def looks_like_session_key(text: str) -> bool:
    """Return whether a text has the form of a session key, which is never taken for an id.

    >>> looks_like_session_key("cron:1"), looks_like_session_key("custom-main")
    (True, False)
    """
    raw = trim(text)
    if raw in ("main", "global", "unknown") or is_acp_key(raw):
        return True
    return raw.startswith(("agent:", "cron:", "hook:", "node-", "node:")) or any(m in raw for m in GROUP_MARKERS)


def resolves_as_session_id(text: str) -> bool:
    """Return whether a reference is to be looked up as a session's id too: it is one, or it has not the form of a key.

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


_FORMS: Final = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII | re.DOTALL)
    for form in (
        "(?P<kind>subagent|cron|hook|node|acp):(?P<id>.+)",
        "(?P<kind>dm|direct):(?P<id>.+)",
        "(?P<channel>[^:]*):(?P<kind>group|channel|dm|direct):(?P<id>.+)",
        "(?P<channel>[^:]*):(?P<account_id>[^:]*):(?P<kind>dm|direct):(?P<id>.+)",
    )
)
"""What follows the agent in a key, the first form that fits; "direct" is another word for "dm"."""


def _read_rest(rest: str, agent: str | None, main_key: str | None) -> dict[str, Any]:
    if agent is None and rest in ("global", "unknown"):
        return {"kind": rest}
    if lower(rest) in (DEFAULT_MAIN_KEY, normalize_main_key(main_key)):
        return {"kind": "main"}
    if agent is None and rest.startswith("node-"):
        head, _, tail = rest.removeprefix("node-").partition(":")
        return {"kind": "node", "id": head + (f":{tail}" if tail else "")}
    match = next(filter(None, (form.fullmatch(rest) for form in _FORMS)), None)
    if match is None:
        return {"kind": "other", "id": rest or None}
    word = match["kind"].lower()
    return match.groupdict() | ({"kind": "dm", "direct_word": word} if word in DIRECT_WORDS else {"kind": word})


DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
PeerKind = Literal["dm", "group", "channel"]
DM_SCOPES: Final[tuple[DmScope, ...]] = get_args(DmScope)
IdentityLinks = Mapping[str, Sequence[str]]
"""For each person's one name, the ids by which networks know them: `peer` or `network:peer`. The first match wins."""

UNKNOWN: Final = "unknown"


class ThreadKeys(NamedTuple):
    """A thread's own key, and the key of what it is a thread of."""

    session_key: str
    parent_session_key: str | None


def agent_main_key(agent_id: str | None = None, main_key: str | None = None) -> str:
    """Return the key of an agent's main session.

    >>> agent_main_key("Ops"), agent_main_key("ops", "Work")
    ('agent:ops:main', 'agent:ops:work')
    """
    return f"agent:{normalize_agent_id(agent_id)}:{normalize_main_key(main_key)}"


def check_dm_scope(value: str | None) -> DmScope:
    """Return a scope of direct chats.

    Nothing is "main", and an unknown one raises `InvalidInput`.
    """
    if value is None:
        return "main"
    if value not in DM_SCOPES:
        raise InvalidInput(f"{value!r} is no dm scope; use one of {', '.join(DM_SCOPES)}")
    return value


def check_peer_kind(value: str | None) -> PeerKind:
    """Return a kind of peer.

    Nothing is "dm", "direct" is "dm", and an unknown one raises `InvalidInput`.
    """
    if value in (None, "dm", "direct"):
        return "dm"
    if value not in _GROUP_KINDS:
        raise InvalidInput(f"{value!r} is no kind of peer; use dm, direct, group or channel")
    return value


def build_peer_key(
    *,
    agent_id: str | None = None,
    channel: str | None = None,
    peer_kind: str | None = None,
    peer_id: str | None = None,
    account_id: str | None = None,
    main_key: str | None = None,
    dm_scope: str | None = None,
    identity_links: IdentityLinks | None = None,
    fold_case: bool = False,
    direct_word: Literal["dm", "direct"] = "dm",
) -> str:
    """Return the key of the session that a message of a peer belongs to.

    A group or a channel always has a session of its own. Direct chats fall into sessions by `dm_scope`: all in the main
    one ("main", the default), one for each peer, one for each peer on a channel, or also for each account. An empty peer
    falls back to the main session. `identity_links` give a person of many networks one name. Ids of peers keep their case
    unless `fold_case` is set; agents, channels and accounts are always in lower case. `direct_word` is how a direct chat
    is written.

    >>> build_peer_key(channel="telegram", peer_id="user123")
    'agent:main:main'
    >>> build_peer_key(channel="Telegram", peer_id="User123", dm_scope="per-channel-peer")
    'agent:main:telegram:dm:User123'
    >>> build_peer_key(agent_id="ops", channel="discord", peer_kind="group", peer_id="")
    'agent:ops:discord:group:unknown'
    """
    kind, scope = check_peer_kind(peer_kind), check_dm_scope(dm_scope)
    if kind != "dm":
        peer = fold(peer_id, fold_case=fold_case) or UNKNOWN
        return f"agent:{normalize_agent_id(agent_id)}:{lower(channel) or UNKNOWN}:{kind}:{peer}"
    linked = None if scope == "main" else linked_identity(identity_links, channel, peer_id, fold_case=fold_case)
    peer = fold(linked or peer_id, fold_case=fold_case)
    if scope == "main" or not peer:
        return agent_main_key(agent_id, main_key)
    where = "" if scope == "per-peer" else f"{lower(channel) or UNKNOWN}:"
    if scope == "per-account-channel-peer":
        where += f"{normalize_account_id(account_id)}:"
    return f"agent:{normalize_agent_id(agent_id)}:{where}{direct_word}:{peer}"


def linked_identity(
    links: IdentityLinks | None, channel: str | None, peer_id: str | None, *, fold_case: bool = False
) -> str | None:
    """Return the one name of a person whom a network knows by a peer's id, or None if no link names it.

    Links are tried in their order; `peer` and `channel:peer` both match. Case counts unless `fold_case` is set, but not in
    the name of the channel. A name that is empty, or whose ids are no list, is passed over.

    >>> linked_identity({"alice": ["telegram:123", "discord:456"]}, "Discord", "456")
    'alice'
    """
    peer = fold(peer_id, fold_case=fold_case)
    if not links or not peer:
        return None
    network = lower(channel)
    for name, ids in links.items():
        if not trim(name) or isinstance(ids, str) or not isinstance(ids, Sequence):
            continue
        for one in ids:
            known = fold(one, fold_case=fold_case)
            where, colon, who = known.partition(":")
            if known and (known == peer or (network and colon and lower(where) == network and who == peer)):
                return trim(name)
    return None


def group_history_key(
    *, channel: str | None, peer_kind: str, peer_id: str | None, account_id: str | None = None, fold_case: bool = False
) -> str:
    """Return the key under which what was said in a group is kept for its next answer: `CHANNEL:ACCOUNT:KIND:ID`.

    >>> group_history_key(channel="telegram", peer_kind="group", peer_id="1")
    'telegram:default:group:1'
    """
    kind = check_peer_kind(peer_kind)
    if kind == "dm":
        raise InvalidInput("a group's history is of a group or a channel, not of a direct chat")
    peer = fold(peer_id, fold_case=fold_case) or UNKNOWN
    return f"{lower(channel) or UNKNOWN}:{normalize_account_id(account_id)}:{kind}:{peer}"


def thread_keys(
    base_session_key: str,
    thread_id: str | None,
    *,
    parent_session_key: str | None = None,
    use_suffix: bool = True,
    marker: Literal["thread", "topic"] = "thread",
    fold_case: bool = False,
) -> ThreadKeys:
    """Return the key of a thread in a session, and its parent's key as the caller gave it.

    Without a thread's id, or without `use_suffix`, it is the session's own key. Topics of Telegram are written `topic`.

    >>> thread_keys("agent:main:slack:channel:c1", "123").session_key
    'agent:main:slack:channel:c1:thread:123'
    """
    thread = fold(thread_id, fold_case=fold_case)
    if not thread:
        return ThreadKeys(base_session_key, None)
    return ThreadKeys(f"{base_session_key}:{marker}:{thread}" if use_suffix else base_session_key, parent_session_key)


def subagent_key(agent_id: str | None, run_id: str) -> str:
    """Return the key of a sub-agent's session.

    `run_id` is unique, as a UUID is.

    >>> subagent_key("beta", "abc-def-123")
    'agent:beta:subagent:abc-def-123'
    """
    return f"agent:{normalize_agent_id(agent_id)}:{_job_key('subagent', run_id)}"


def cron_key(job_id: str, agent_id: str | None = None) -> str:
    """Return the key of a scheduled job's session: of an agent's, if one is named, as later systems write it.

    >>> cron_key("daily-email-check"), cron_key("daily", "main")
    ('cron:daily-email-check', 'agent:main:cron:daily')
    """
    return _job_key("cron", job_id, agent_id)


def hook_key(hook_id: str, agent_id: str | None = None) -> str:
    """Return the key of a web hook's session, of an agent's if one is named.

    >>> hook_key("github-push")
    'hook:github-push'
    """
    return _job_key("hook", hook_id, agent_id)


def _job_key(kind: str, job_id: str, agent_id: str | None = None) -> str:
    if not trim(job_id):
        raise InvalidInput(f"the session key of a {kind} needs its id")
    prefix = "" if agent_id is None else f"agent:{normalize_agent_id(agent_id)}:"
    return f"{prefix}{kind}:{trim(job_id)}"


def build_key(parts: SessionKey, *, main_key: str | None = None) -> str:
    """Return the key that `parse_key` took apart, normalised but for opaque ids: agents, channels, accounts in lower case.

    `main_key` is what the main session is called.

    >>> build_key(parse_key("agent:Main:Telegram:GROUP:AbC:Topic:7"))
    'agent:main:telegram:group:AbC:topic:7'
    """
    if parts.parent is not None:
        base = build_key(parse_key(parts.parent, main_key=main_key), main_key=main_key)
        return f"{base}:{parts.thread_marker or 'thread'}:{parts.thread_id or ''}"
    if parts.kind in ("global", "unknown"):
        return parts.kind
    prefix = "" if parts.agent_id is None else f"agent:{normalize_agent_id(parts.agent_id)}:"
    return prefix + _rest(parts, main_key)


def _rest(parts: SessionKey, main_key: str | None) -> str:
    match parts.kind:
        case "main":
            return normalize_main_key(main_key)
        case "other":
            return parts.id or ""
        case "group" | "channel":
            return f"{lower(parts.channel)}:{parts.kind}:{parts.id}"
        case "dm":
            channel = "" if parts.channel is None else f"{lower(parts.channel)}:"
            account = "" if parts.account_id is None else f"{normalize_account_id(parts.account_id)}:"
            return f"{channel}{account}{parts.direct_word or 'dm'}:{parts.id}"
        case "node" if parts.text.startswith("node-"):
            return f"node-{parts.id}"
    return f"{parts.kind}:{parts.id}"


def spellings(key: str) -> tuple[str, ...]:
    """Return a key and, for a direct chat, the same key with the other word for it: both name one conversation.

    >>> spellings("agent:main:telegram:dm:U1")
    ('agent:main:telegram:dm:U1', 'agent:main:telegram:direct:U1')
    >>> spellings("agent:main:main")
    ('agent:main:main',)
    """
    parts = parse_key(key)
    if parts.direct_word is None:
        return (trim(key),)
    suffix = ""
    while parts.parent is not None:
        suffix = f":{parts.thread_marker}:{parts.thread_id}{suffix}"
        parts = parse_key(parts.parent)
    other: Literal["dm", "direct"] = "direct" if parts.direct_word == "dm" else "dm"
    return trim(key), build_key(parts.model_copy(update={"direct_word": other})) + suffix
