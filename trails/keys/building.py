"""Making session keys: one function for each kind, with the normalisation of the systems that use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, get_args

from trails.errors import InvalidInput
from trails.keys.ids import fold, normalize_account_id, normalize_agent_id, normalize_main_key
from trails.keys.parsing import SessionKey, parse_key
from trails.keys.script import lower, trim

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
    """Return a scope of direct chats; nothing is "main", and an unknown one raises `InvalidInput`."""
    if value is None:
        return "main"
    for known in DM_SCOPES:
        if known == value:
            return known
    raise InvalidInput(f"{value!r} is no dm scope; use one of {', '.join(DM_SCOPES)}")


def check_peer_kind(value: str | None) -> PeerKind:
    """Return a kind of peer; nothing is "dm", "direct" is "dm", and an unknown one raises `InvalidInput`."""
    match value:
        case None | "dm" | "direct":
            return "dm"
        case "group":
            return "group"
        case "channel":
            return "channel"
    raise InvalidInput(f"{value!r} is no kind of peer; use dm, direct, group or channel")


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
    where = ""
    if scope != "per-peer":
        where = f"{lower(channel) or UNKNOWN}:"
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
    """Return the key of a sub-agent's session; `run_id` is unique, as a UUID is.

    >>> subagent_key("beta", "abc-def-123")
    'agent:beta:subagent:abc-def-123'
    """
    return f"agent:{normalize_agent_id(agent_id)}:subagent:{_needed(run_id, 'a sub-agent')}"


def cron_key(job_id: str, agent_id: str | None = None) -> str:
    """Return the key of a scheduled job's session: of an agent's, where one is named, as later systems write it.

    >>> cron_key("daily-email-check"), cron_key("daily", "main")
    ('cron:daily-email-check', 'agent:main:cron:daily')
    """
    job = f"cron:{_needed(job_id, 'a scheduled job')}"
    return job if agent_id is None else f"agent:{normalize_agent_id(agent_id)}:{job}"


def hook_key(hook_id: str, agent_id: str | None = None) -> str:
    """Return the key of a web hook's session, of an agent's where one is named.

    >>> hook_key("github-push")
    'hook:github-push'
    """
    hook = f"hook:{_needed(hook_id, 'a hook')}"
    return hook if agent_id is None else f"agent:{normalize_agent_id(agent_id)}:{hook}"


def _needed(value: str, what: str) -> str:
    found = trim(value)
    if not found:
        raise InvalidInput(f"the session key of {what} needs its id")
    return found


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


def as_links(value: Any, path: str = "session.identityLinks") -> IdentityLinks | None:
    """Return identity links read from configuration; what is no object raises `InvalidInput` with the field's path."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{path} must be an object of names and lists of ids, not {type(value).__name__}")
    return {str(name): tuple(map(str, ids)) if isinstance(ids, (list, tuple)) else () for name, ids in value.items()}
