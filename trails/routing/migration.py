"""A change of the scope of direct chats: which session belongs to whom under the new one, and what nobody can tell.

A session that several people wrote to stays where it is: its turns cannot be parted without giving one the other's words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from trails import iris, keys, policy
from trails.keys import KeySettings, SessionKey
from trails.plumbing import conversations
from trails.routing.decisions import Unplaced
from trails.routing.directory import HeldKey, Keyring
from trails.routing.moves import Transfer

UNKNOWN: Final = "unknown"
_AT_ONCE: Final = 200
"""How many sessions one query asks about."""


@dataclass(frozen=True, slots=True)
class Sender:
    """Where messages of one person came from; what is not known is None."""

    channel: str | None
    account: str | None
    peer: str | None

    def __str__(self) -> str:
        return (
            UNKNOWN if self.peer is None else "/".join(each or "-" for each in (self.channel, self.account, self.peer))
        )


@dataclass(slots=True)
class MigrationPlan:
    """Where sessions go under another scope, and which stay, with the reason."""

    steps: list[Transfer] = field(default_factory=list)
    unplaced: list[Unplaced] = field(default_factory=list)
    aliases: list[tuple[str, str, str]] = field(default_factory=list)
    """(old key, new key, why) of keys that are left by all their sessions for one other key."""


def layout(keyring: Keyring, settings: KeySettings, to_scope: keys.DmScope) -> MigrationPlan:
    """Return where the sessions of main and direct keys go when the scope of direct chats becomes another one."""
    made = MigrationPlan()
    wanted: dict[str, str] = {}
    owners: dict[str, HeldKey] = {}
    roots: dict[str, SessionKey] = {}
    for held in keyring.every():
        parts = keys.parse_key(held.key, main_key=settings.main_key)
        if parts.kind in ("main", "dm"):
            for session_id in sorted(conversations.sessions_of(keyring.repository.store, held.key)):
                owners[session_id], roots[session_id] = held, parts
    senders = _senders(keyring, {each: _root(parts, settings)[0] for each, parts in roots.items()})
    for session_id, held in owners.items():
        found = _target(held.key, roots[session_id], senders[session_id], settings, to_scope)
        if isinstance(found, str):
            named = keyring.find(found)
            wanted[session_id] = found if named is None else named[0].key
        elif found is not None:
            made.unplaced.append(found.model_copy(update={"session_id": session_id}))
    moving = {each: key for each, key in wanted.items() if key != owners[each].key}
    made.steps = list(_steps(keyring, moving, owners))
    made.aliases = list(_aliases(keyring, made.steps, owners, settings))
    return made


def _root(parts: SessionKey, settings: KeySettings) -> tuple[SessionKey, str]:
    """Return what a thread's key is of, and what follows that in the key."""
    suffix = ""
    while parts.parent is not None:
        suffix = parts.text[len(parts.parent) :] + suffix
        parts = keys.parse_key(parts.parent, main_key=settings.main_key)
    return parts, suffix


def _senders(keyring: Keyring, roots: Mapping[str, SessionKey]) -> Mapping[str, set[Sender]]:
    """Return who wrote to each session. In a direct key, a turn of which nothing is known came from the key's own peer."""
    found: dict[str, set[Sender]] = defaultdict(set)
    turns: dict[str, int] = defaultdict(int)
    ids = list(roots)
    for start in range(0, len(ids), _AT_ONCE):
        _read_senders(keyring, ids[start : start + _AT_ONCE], found, turns)
    for session_id, root in roots.items():
        if turns[session_id] > 0:
            found[session_id].add(Sender(None, None, None))
        if root.kind == "dm":
            own = Sender(root.channel, root.account_id, root.id)
            found[session_id] = {own if each.peer is None else each for each in found[session_id]} or {own}
    return found


def _read_senders(keyring: Keyring, ids: Sequence[str], found: dict[str, set[Sender]], turns: dict[str, int]) -> None:
    """Note who wrote to sessions, and how many turns of people there are of which nobody knows the sender."""
    reader = keyring.repository.reader
    for row in reader.select_each("user_turns", "sessions", ids):
        turns[iris.session_id(row["session"].value)] += int(row["turns"].value)
    for row in reader.select_each("told_turns", "sessions", ids):
        turns[iris.session_id(row["session"].value)] -= int(row["turns"].value)
    for row in reader.select_each("senders", "sessions", ids):
        if row["author"] is None or not iris.is_agent(row["author"].value):
            told = [None if row[name] is None else row[name].value for name in ("channel", "account", "peer")]
            found[iris.session_id(row["session"].value)].add(Sender(*told))


def _target(
    key: str, parts: SessionKey, senders: set[Sender], settings: KeySettings, scope: keys.DmScope
) -> str | Unplaced | None:
    """Return the key that a session has under a scope, or why that cannot be told; None for one that nobody wrote to."""
    if not senders:
        return None
    root, suffix = _root(parts, settings)
    names = tuple(sorted(map(str, senders)))
    targets = {_key_for(sender, root, settings, scope) for sender in senders}
    if None in targets:
        return Unplaced(session_id="", key=key, reason="nobody knows who wrote to it", senders=names)
    if len(targets) > 1:
        return Unplaced(session_id="", key=key, reason="several people wrote to it", senders=names)
    return f"{targets.pop()}{suffix}"


def _key_for(sender: Sender, root: SessionKey, settings: KeySettings, scope: keys.DmScope) -> str | None:
    needs_channel = scope in ("per-channel-peer", "per-account-channel-peer")
    if scope != "main" and (sender.peer is None or (needs_channel and sender.channel is None)):
        return None
    made = keys.build_peer_key(
        agent_id=root.agent_id,
        channel=sender.channel,
        peer_kind="dm",
        peer_id=sender.peer,
        account_id=sender.account,
        main_key=settings.main_key,
        dm_scope=scope,
        identity_links=settings.links,
        fold_case=settings.fold_case,
        direct_word=root.direct_word or "dm",
    )
    return keys.canonicalize_main_alias(made, agent_id=root.agent_id, config=settings)


def _steps(keyring: Keyring, moving: Mapping[str, str], owners: Mapping[str, HeldKey]) -> Iterator[Transfer]:
    """Give the moves; of those that come to a key without a session, the one in use last becomes the current one."""
    by_target: dict[str, list[str]] = defaultdict(list)
    for session_id, key in moving.items():
        by_target[key].append(session_id)
    for key, ids in sorted(by_target.items()):
        there = keyring.find(key)
        stays = there is not None and there[0].session_id not in moving
        ordered = sorted(ids, key=lambda each: _rank(keyring, each, owners[each]))
        for session_id in ordered:
            current = not stays and session_id == ordered[-1]
            yield Transfer(session_id, owners[session_id].key, key, current)


def _rank(keyring: Keyring, session_id: str, held: HeldKey) -> tuple[bool, int, str]:
    """Return what sessions that meet under one key are ordered by: current ones, by when they were last used."""
    if session_id != held.session_id:
        created = keyring.repository.reader.record(session_id).created
        return False, 0 if created is None else policy.to_ms(created), session_id
    last, updated = held.entry.last_user_activity, held.entry.get("updatedAt")
    known = updated if isinstance(updated, int) else 0
    return True, known if last is None else policy.to_ms(last), session_id


def _aliases(
    keyring: Keyring, steps: Iterable[Transfer], owners: Mapping[str, HeldKey], settings: KeySettings
) -> Iterator[tuple[str, str, str]]:
    """Give the direct keys that all their sessions leave for one other key; never a main one, which others may use."""
    left: dict[str, dict[str, str]] = defaultdict(dict)
    for step in steps:
        left[step.from_key][step.session_id] = step.to_key
    for key, went in sorted(left.items()):
        targets = set(went.values())
        stay = set(conversations.sessions_of(keyring.repository.store, key)) - went.keys()
        if len(targets) == 1 and not stay and not keys.is_main_key(key, settings):
            target = targets.pop()
            yield key, target, "promotion" if keyring.find(target) is None else "merge"
