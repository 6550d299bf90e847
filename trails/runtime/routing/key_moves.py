"""Move sessions between keys: aliases, promotion, merge, migration, and undo.

Each operation is one commit and is recorded session by session, so that it can be undone as far as nothing else has
happened to those sessions since. A session that several people wrote to stays where it is: its turns cannot be parted
without giving one the other's words.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyoxigraph import NamedNode, Quad

from trails.errors import InvalidInput
from trails.history import log_leaves
from trails.history.records import conversations
from trails.history.transaction import Transaction, is_stored
from trails.model import iris
from trails.rdf import conversation_records, vocab
from trails.rdf.activity_records import author_type
from trails.rdf.conversation_records import Alias, Conversation, Move
from trails.runtime import keys, policy
from trails.runtime.keys import KeySettings, SessionKey
from trails.runtime.routing.key_directory import HeldKey, Keyring, MovedSession, Moving, Routing, Unplaced
from trails.store.contract import PreconditionFailed
from trails.store.pattern import Pattern


@dataclass(slots=True)
class KeyPlan:
    """One commit being put together: the conversations that it touches, as they were read and as they become."""

    keyring: Keyring
    reason: str
    by_iri: str
    time: datetime
    undoes: str | None = None
    operation: str = field(default_factory=lambda: secrets.token_hex(8))
    moved: list[MovedSession] = field(default_factory=list)
    aliases: list[tuple[str, str]] = field(default_factory=list)
    _before: dict[str, Conversation | None] = field(default_factory=dict)
    _after: dict[str, Conversation | None] = field(default_factory=dict)
    _old: set[Quad] = field(default_factory=set)
    _new: set[Quad] = field(default_factory=set)
    _forbid: list[Pattern] = field(default_factory=list)
    _touched: dict[str, None] = field(default_factory=dict)
    _grown: set[str] = field(default_factory=set)
    """The keys that get an alias, or a record of one that was taken away."""
    _gone: list[Alias] = field(default_factory=list)
    _renamed: set[str] = field(default_factory=set)
    """The aliases that the plan itself makes, takes away or points elsewhere."""

    def conversation(self, key: str) -> Conversation | None:
        """Return what a key names, as it becomes so far."""
        if key not in self._after:
            stored = conversations.find_conversation(self.keyring.repository.store, key)
            self._before[key] = self._after[key] = stored
        return self._after[key]

    def move(self, step: MovedSession, *, label: str | None = None) -> None:
        """Take a session out of one key's conversation and into another's.

        `label` comes with it if it has none.
        """
        session_id, from_key, to_key = step.session_id, step.from_key, step.to_key
        here, other = self.conversation(from_key), self.conversation(to_key)
        left = here if here is not None and here.session_id == session_id else None
        if left is not None:
            self._after[from_key] = None
        if step.current:
            known = [each for each in (other, left) if each is not None]
            label = next((each.label for each in known if each.label is not None), label)
            created = known[0].created if known else self.keyring.repository.reader.record(session_id).created
            self._after[to_key] = Conversation(
                key=to_key, session_id=session_id, label=label, created=created or self.time
            )
        self._swap(
            conversation_records.belongs_quad(session_id, from_key),
            conversation_records.belongs_quad(session_id, to_key),
        )
        self._touched[session_id] = None
        self.moved.append(step)
        move = Move(
            session_id=session_id,
            from_key=from_key,
            to_key=to_key,
            operation=self.operation,
            number=len(self.moved),
            was_current=left is not None,
            became_current=step.current,
            reason=self.reason,
            by_iri=self.by_iri,
            time=self.time,
            former_label=left.label if left is not None else None,
            undoes=self.undoes,
        )
        self._new |= set(conversation_records.move_quads(move))

    def alias(self, name: str, key: str, reason: str) -> None:
        """Let a key that names nothing by itself be found as another one."""
        new_alias = Alias(alias=name, key=key, reason=reason, by_iri=self.by_iri, time=self.time)
        self._grown.add(key)
        self._new |= set(conversation_records.alias_quads(new_alias))
        self._forbid += [
            (NamedNode(iris.alias(each)), vocab.TYPE, None, vocab.CATALOG) for each in keys.spellings(name)
        ]
        self._aliased(new_alias)

    def unalias(self, gone: Alias) -> None:
        """Take an alias away, leaving word of it with the conversation that it stood for."""
        self._old |= set(conversation_records.alias_quads(gone))
        self._grown.add(gone.key)
        self._gone.append(gone)
        self._aliased(gone)

    def redirect(self, alias: Alias, key: str) -> None:
        """Let an alias stand for another key, and remember for which one it stood."""
        moved = alias.model_copy(update={"key": key, "from_key": None if alias.from_key == key else alias.key})
        self._swap(conversation_records.alias_quads(alias), conversation_records.alias_quads(moved))
        self._grown.add(key)
        self._aliased(moved)

    def _aliased(self, alias: Alias) -> None:
        self.conversation(alias.key)
        self._renamed.add(alias.alias)
        self.aliases.append((alias.alias, alias.key))

    def _swap(self, old: list[Quad], new: list[Quad]) -> None:
        self._old |= set(old) - set(new)
        self._new |= set(new) - set(old)

    # --- writing it

    def commit(self) -> None:
        """Write it all.

        Raise `InvalidInput` if another writer changed one of the keys meanwhile.
        """
        for key, before in list(self._before.items()):
            if before is not None and self._after[key] is None:
                self._leave(key, before)
        for key in list(self._before):
            self._settle(key)
        removed = {alias.alias for alias in self._gone}
        for name, key in self.aliases:
            if name not in removed and self._after[key] is None:
                raise InvalidInput(
                    f"another writer deleted or moved the session that {name!r} was to stand for; nothing was written, try again"
                )
        for gone in self._gone:
            if self._after[gone.key] is not None:
                self._new |= set(conversation_records.removal_quads(gone, self.by_iri, self.time, secrets.token_hex(4)))
        touched = list(self._touched)
        tx = Transaction()
        tx.add([*(self._new - self._old), author_type(self.by_iri)])
        tx.remove(self._old - self._new)
        tx.require([*self._old, *map(is_stored, touched)])
        for pattern in self._forbid:
            tx.forbid(pattern)
        tx.log(log_leaves.row_states("change", touched))
        tx.commit(self.keyring.repository.store, otherwise=_conflict_error)

    def _settle(self, key: str) -> None:
        """Put what becomes of a touched conversation into the commit."""
        before, after = self._before[key], self._after[key]
        if after is not None and key in self._grown:
            after = after.model_copy(update={"revision": after.revision + 1})
        old = [] if before is None else conversation_records.conversation_quads(before)
        self._old |= set(old)
        self._new |= set([] if after is None else conversation_records.conversation_quads(after))
        self._touched |= {each.session_id: None for each in (before, after) if each is not None}
        if before is None:
            self._forbid.append((NamedNode(iris.conversation(key)), vocab.CURRENT_SESSION, None, vocab.CATALOG))
        if before is None and after is not None and key not in {gone.alias for gone in self._gone}:
            self._forbid.append((NamedNode(iris.alias(key)), vocab.TYPE, None, vocab.CATALOG))

    def _leave(self, key: str, before: Conversation) -> None:
        """Let the aliases of a conversation that goes follow its session.

        What is said of past ones goes with it.
        """
        store, node = self.keyring.repository.store, NamedNode(iris.conversation(key))
        target = next((each.to_key for each in self.moved if each.session_id == before.session_id), None)
        for alias in conversations.aliases_of(store, key):
            if alias.alias not in self._renamed and target is not None:
                self.redirect(alias, target)
        for quad in store.quads((None, vocab.ALIAS_WAS_OF, node, vocab.CATALOG)):
            self._old |= set(store.quads((quad.subject, None, None, vocab.CATALOG)))  # type: ignore[arg-type] # an IRI

    def report(self, **more: Any) -> Moving:
        """Return what was done."""
        return Moving(
            operation=self.operation,
            reason=self.reason,
            undoes=self.undoes,
            moved=tuple(self.moved),
            aliases=tuple(self.aliases),
            **more,
        )


def _conflict_error(failure: PreconditionFailed) -> InvalidInput:
    return InvalidInput(f"another writer changed one of the keys meanwhile ({failure}); nothing was written, try again")


class Renaming:
    """What is done to the keys of a store by hand.

    Keys come in their canonical form.
    """

    def __init__(self, routing: Routing) -> None:
        self._keyring = routing.keyring
        self._store = routing.keyring.repository.store
        self._now = routing.now

    def plan(self, reason: str, by: str | None, *, undoes: str | None = None) -> KeyPlan:
        """Return an empty operation."""
        who = self._keyring.repository.workspace.who(by)
        return KeyPlan(self._keyring, reason, who, self._now(), undoes=undoes)

    def _named(self, key: str) -> Conversation:
        match = self._keyring.find(key)
        if match is None:
            raise InvalidInput(f"the key {key!r} names no session")
        return match[0]

    def _refuse_taken(self, key: str) -> None:
        match = self._keyring.find(key)
        if match is None:
            return
        conversation, alias = match
        if alias is None:
            what = f"names session {conversation.session_id!r} itself; merge it into the other one, or choose another"
            raise InvalidInput(f"the key {key!r} {what}")
        raise InvalidInput(f"the key {key!r} is an alias of {conversation.key!r}; remove that first, or choose another")

    def alias(self, name: str, key: str, by: str | None) -> Alias:
        """Let a key be found as another one.

        Doing it again changes nothing.
        """
        target = self._named(key)
        known = conversations.find_alias(self._store, name)
        if known is not None and known.key == target.key:
            return known
        self._refuse_taken(name)
        plan = self.plan("manual", by)
        plan.conversation(name)  # it must name nothing, also when it is written
        plan.alias(name, target.key, "manual")
        plan.commit()
        return self._alias(name)

    def _alias(self, name: str) -> Alias:
        alias = next((a for each in keys.spellings(name) if (a := conversations.find_alias(self._store, each))), None)
        if alias is None:
            raise InvalidInput(f"there is no alias {name!r}")
        return alias

    def unalias(self, name: str, by: str | None) -> Alias:
        """Take an alias away and return what it was."""
        gone = self._alias(name)
        plan = self.plan("manual", by)
        plan.unalias(gone)
        plan.commit()
        return gone

    def promote(self, key: str, new_key: str, by: str | None) -> Moving:
        """Give a key's sessions a better key.

        The old one becomes its alias.
        """
        source = self._named(key)
        self._refuse_taken(new_key)
        return self._all(source, new_key, "promotion", by)

    def merge(self, key: str, into: str, by: str | None) -> Moving:
        """Put a key's sessions to those of another key, which keeps its current one; the old key becomes its alias."""
        source, target = self._named(key), self._named(into)
        if source.key == target.key:
            raise InvalidInput(f"{key!r} and {into!r} name one session already")
        return self._all(source, target.key, "merge", by)

    def _all(self, source: Conversation, to_key: str, reason: str, by: str | None) -> Moving:
        plan = self.plan(reason, by)
        for session_id in sorted(conversations.sessions_in(self._store, source.key)):
            current = reason == "promotion" and session_id == source.session_id
            plan.move(MovedSession(session_id=session_id, from_key=source.key, to_key=to_key, current=current))
        plan.alias(source.key, to_key, reason)
        plan.commit()
        return plan.report()

    # --- taking back

    def undo(self, operation: str, by: str | None) -> Moving:
        """Take back what an operation moved, as far as the sessions are still where it brought them."""
        every = conversations.moves_of(self._store)
        done = [move for move in every if move.operation == operation]
        if not done:
            raise InvalidInput(f"no operation {operation!r} moved a session; `Router.moves` lists those that did")
        if any(move.undoes == operation for move in every):
            raise InvalidInput(f"operation {operation!r} was taken back before")
        plan, unplaced = self.plan("undo", by, undoes=operation), list[Unplaced]()
        left = {(move.from_key, move.to_key) for move in done}
        for alias in conversations.aliases_of(self._store):
            if (alias.alias, alias.key) in left and alias.reason != "manual":
                plan.unalias(alias)
        reader = self._keyring.repository.reader
        records = reader.records([move.session_id for move in done])
        for move in reversed(done):
            record = records.get(move.session_id)
            if record is not None and record.key == move.to_key:
                is_free = move.former_label and reader.labelled(move.former_label) is None
                current = move.was_current and plan.conversation(move.from_key) is None
                back = {"session_id": move.session_id, "from_key": move.to_key, "to_key": move.from_key}
                plan.move(MovedSession(**back, current=current), label=move.former_label if is_free else None)
                continue
            why = "was deleted" if record is None else f"has the key {record.key!r} by now"
            reason = f"session {move.session_id!r} {why}"
            unplaced.append(Unplaced(session_id=move.session_id, key=move.to_key, reason=reason))
        if not plan.moved:
            raise InvalidInput(f"nothing of operation {operation!r} can be taken back: {unplaced[0].reason}")
        for alias in conversations.aliases_of(self._store):
            if (alias.from_key, alias.key) in left:
                plan.redirect(alias, alias.from_key or "")
        plan.commit()
        return plan.report(unplaced=tuple(unplaced))


@dataclass(frozen=True, slots=True)
class Sender:
    """Where messages of one person came from.

    What is not known is None.
    """

    channel: str | None
    account: str | None
    peer: str | None

    def __str__(self) -> str:
        parts = (self.channel, self.account, self.peer)
        return "unknown" if self.peer is None else "/".join(part or "-" for part in parts)


def plan_migration(plan: KeyPlan, settings: KeySettings, to_scope: keys.DmScope) -> list[Unplaced]:
    """Let the sessions of main and direct keys go where they belong under another scope of direct chats.

    Return those that stay where they are, with the reason.
    """
    keyring, unplaced = plan.keyring, list[Unplaced]()
    owners: dict[str, HeldKey] = {}
    roots: dict[str, SessionKey] = {}
    for held in keyring.every():
        parts = keys.parse_key(held.key, main_key=settings.main_key)
        if parts.kind in ("main", "dm"):
            for session_id in sorted(conversations.sessions_in(keyring.repository.store, held.key)):
                owners[session_id], roots[session_id] = held, parts
    senders = _senders(keyring, {each: _root(parts, settings)[0] for each, parts in roots.items()})
    moving: dict[str, str] = {}
    for session_id, held in owners.items():
        if not senders[session_id]:
            continue
        root, suffix = _root(roots[session_id], settings)
        targets = {_key_for(sender, root, settings, to_scope) for sender in senders[session_id]}
        if None in targets or len(targets) > 1:
            reason = "nobody knows who wrote to it" if None in targets else "several people wrote to it"
            names = tuple(sorted(map(str, senders[session_id])))
            unplaced.append(Unplaced(session_id=session_id, key=held.key, reason=reason, senders=names))
            continue
        target = f"{targets.pop()}{suffix}"
        named = keyring.find(target)
        moving[session_id] = target if named is None else named[0].key
    for step in _steps(keyring, {each: key for each, key in moving.items() if key != owners[each].key}, owners):
        plan.move(step)
    _alias_left_keys(plan, settings)
    return unplaced


def _root(parts: SessionKey, settings: KeySettings) -> tuple[SessionKey, str]:
    """Return what a thread's key is of, and what follows that in the key."""
    suffix = ""
    while parts.parent is not None:
        suffix = parts.text[len(parts.parent) :] + suffix
        parts = keys.parse_key(parts.parent, main_key=settings.main_key)
    return parts, suffix


def _senders(keyring: Keyring, roots: Mapping[str, SessionKey]) -> Mapping[str, set[Sender]]:
    """Return who wrote to each session.

    In a direct key, a turn of which nothing is known came from the key's own peer.
    """
    reader, ids = keyring.repository.reader, list(roots)
    senders: dict[str, set[Sender]] = defaultdict(set)
    unknown: dict[str, int] = defaultdict(int)
    """How many turns of people there are of which nobody knows the sender."""
    for query, sign in (("user_turns", 1), ("told_turns", -1)):
        for row in reader.select_each(query, "sessions", ids):
            unknown[iris.session_id(row["session"].value)] += sign * int(row["turns"].value)
    for row in reader.select_each("senders", "sessions", ids):
        if row["author"] is None or not iris.is_agent(row["author"].value):
            parts = [None if row[name] is None else row[name].value for name in ("channel", "account", "peer")]
            senders[iris.session_id(row["session"].value)].add(Sender(*parts))
    for session_id, root in roots.items():
        if unknown[session_id] > 0:
            senders[session_id].add(Sender(None, None, None))
        if root.kind == "dm":
            own = Sender(root.channel, root.account_id, root.id)
            senders[session_id] = {own if each.peer is None else each for each in senders[session_id]} or {own}
    return senders


def _key_for(sender: Sender, root: SessionKey, settings: KeySettings, scope: keys.DmScope) -> str | None:
    needs_channel = scope in ("per-channel-peer", "per-account-channel-peer")
    if scope != "main" and (sender.peer is None or (needs_channel and sender.channel is None)):
        return None
    key = keys.build_peer_key(
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
    return keys.canonicalize_main_alias(key, agent_id=root.agent_id, config=settings)


def _steps(keyring: Keyring, moving: Mapping[str, str], owners: Mapping[str, HeldKey]) -> Iterator[MovedSession]:
    """Yield the moves.

    Of those that come to a key without a session, the one in use last becomes the current one.
    """
    by_target: dict[str, list[str]] = defaultdict(list)
    for session_id, key in moving.items():
        by_target[key].append(session_id)
    for key, ids in sorted(by_target.items()):
        there = keyring.find(key)
        stays = there is not None and there[0].session_id not in moving
        ordered = sorted(ids, key=lambda each: _rank(keyring, each, owners[each]))
        for session_id in ordered:
            current = not stays and session_id == ordered[-1]
            yield MovedSession(session_id=session_id, from_key=owners[session_id].key, to_key=key, current=current)


def _rank(keyring: Keyring, session_id: str, held: HeldKey) -> tuple[bool, int, str]:
    """Return what sessions that meet under one key are ordered by: current ones, by when they were last used."""
    if session_id != held.session_id:
        created = keyring.repository.reader.record(session_id).created
        return False, 0 if created is None else policy.to_ms(created), session_id
    last, updated = held.entry.last_user_activity, held.entry.get("updatedAt")
    known = updated if isinstance(updated, int) else 0
    return True, known if last is None else policy.to_ms(last), session_id


def _alias_left_keys(plan: KeyPlan, settings: KeySettings) -> None:
    """Let direct keys that all their sessions leave for one other key be aliases of it.

    Never a main one, which others may use.
    """
    keyring = plan.keyring
    left: dict[str, dict[str, str]] = defaultdict(dict)
    for step in plan.moved:
        left[step.from_key][step.session_id] = step.to_key
    for key, went in sorted(left.items()):
        targets = set(went.values())
        stay = set(conversations.sessions_in(keyring.repository.store, key)) - went.keys()
        if len(targets) == 1 and not stay and not keys.is_main_key(key, settings):
            target = targets.pop()
            plan.alias(key, target, "promotion" if keyring.find(target) is None else "merge")
