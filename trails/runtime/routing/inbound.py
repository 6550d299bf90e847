"""Route an inbound message to its session, which may be new, go on, or begin anew."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pyoxigraph import NamedNode

from trails.errors import InvalidInput, SharedSessionWarning
from trails.history.records import conversations
from trails.model import iris
from trails.rdf import ledger_records, vocab
from trails.rdf.codec import parse_time
from trails.rdf.conversation_records import Conversation
from trails.rdf.ledger_records import Decision, Event
from trails.rdf.session_records import DEFAULT_PRINCIPAL
from trails.runtime import inbox, keys, policy
from trails.runtime.routing.key_directory import HeldKey, Inbound, ResetCause, Routed, Routing, new_id, until_written
from trails.session import Session


class Arrivals:
    """Routes messages to sessions."""

    def __init__(self, routing: Routing) -> None:
        self._routing = routing
        self._keyring = routing.keyring
        self._repository = routing.keyring.repository

    # --- which key

    def key_of(self, inbound: Inbound) -> tuple[str, str, str | None]:
        """Return a message's key, its agent, and the key of the session that a thread was started from."""
        settings = self._routing.settings.keys
        if inbound.key is not None:
            name = keys.store_key_of_agent(inbound.key, inbound.agent) if inbound.agent else inbound.key
            base = keys.canonical_key(name, settings)
            if not base:
                raise InvalidInput("a session key must not be empty")
            agent = keys.agent_id_from_key(base) if base not in ("global", "unknown") else settings.default_agent
        else:
            if inbound.channel is None:
                raise InvalidInput("a message needs a channel, or a key: without either it belongs to no session")
            route = keys.resolve_route(
                settings,
                channel=inbound.channel,
                account_id=inbound.account,
                peer_kind=inbound.kind if inbound.peer is not None else None,
                peer_id=inbound.peer,
                guild_id=inbound.guild,
                team_id=inbound.team,
            )
            agent = route.agent_id
            if settings.scope == "global":  # everybody shares one session, groups and threads too
                return "global", agent, None
            base = keys.canonicalize_main_alias(route.session_key, agent_id=agent, config=settings)
        marker: Literal["topic", "thread"] = "topic" if inbound.topic else "thread"
        parent = inbound.parent or (None if inbound.topic else base)
        thread = keys.thread_keys(
            base, inbound.thread, parent_session_key=parent, marker=marker, fold_case=settings.fold_case
        )
        above = thread.parent_session_key
        return thread.session_key, agent, None if above is None else keys.canonical_key(above, settings)

    def person(self, inbound: Inbound) -> str | None:
        """Return the name of the person who writes: as told, else by identity links, else `CHANNEL:ID`."""
        if inbound.principal is not None:
            return inbound.principal
        sender = inbound.sender or (inbound.peer if inbound.kind == "dm" else None)
        if sender is None or not inbound.by_user:
            return None
        settings = self._routing.settings.keys
        linked = keys.linked_identity(settings.links, inbound.channel, sender, fold_case=settings.fold_case)
        return linked or f"{(inbound.channel or 'unknown').strip().lower()}:{sender.strip()}"

    # --- where it goes

    def route(self, inbound: Inbound) -> Routed:
        """Put a message into its session's inbox, making or renewing the session where that is due."""
        key, agent, parent = self.key_of(inbound)

        def attempt() -> Routed | None:
            match = self._keyring.find(key)
            return self._first(inbound, key, agent, parent) if match is None else self._next(inbound, *match)

        routed = until_written(key, attempt)
        for text in routed.warnings:
            warnings.warn(text, SharedSessionWarning, stacklevel=3)
        return routed

    def session(self, key: str, *, agent: str, principal: str | None = None) -> str:
        """Return the id of a key's session, made if there is none."""

        def attempt() -> str | None:
            match = self._keyring.find(key)
            if match is not None:
                return match[0].session_id
            routed = self._first(Inbound(key=key, principal=principal, by_user=False), key, agent, None)
            return None if routed is None else routed.session_id

        return until_written(key, attempt)

    # --- the first message of a key

    def _first(self, inbound: Inbound, key: str, agent: str, parent: str | None) -> Routed | None:
        now = self._routing.now()
        orphan = self._keyring.orphan(key)
        if orphan is not None:
            return self._adopt(inbound, key, self._repository.load(orphan.id), now)
        content, trigger = self._split_trigger(inbound)
        above = None if parent is None or parent == key else self._keyring.find(parent)
        session = self._new(inbound, key, agent, above[0] if above else None, now)
        events = self._events(inbound, content, session.id, agent, 1)
        if not self._keyring.begin(
            key,
            session,
            self._entry(inbound, None, now, session.id),
            now=now,
            user_activity=now if inbound.by_user else None,
            made=events,
        ):
            return None
        reset: ResetCause | None = "asked" if trigger else None
        forked_from = session.parent_session_id
        return self._routed(inbound, key, session.id, events, created=True, reset=reset, forked_from=forked_from)

    def _adopt(self, inbound: Inbound, key: str, session: Session, now: datetime) -> Routed | None:
        """Take a session into the keys that was made with this one by other means; the message then goes to it."""
        fields = policy.touch_entry(None, now=now, new_id=session.id)
        label = conversations.hand_over_conversation(session.record, key)
        if not self._keyring.begin(key, session, fields, now=now, stored=True, also=label):
            return None
        return Routed(key=key, session_id=session.id) if inbound.content is None else self.route(inbound)

    def _new(
        self,
        inbound: Inbound,
        key: str,
        agent: str,
        above: Conversation | None,
        now: datetime,
        *,
        like: str | None = None,
    ) -> Session:
        """Return a new session for a key: a fork of what it is a thread of, if that is there."""
        kind = keys.parse_key(key, main_key=self._routing.settings.keys.main_key).kind
        principal = like or (self.person(inbound) if kind in ("main", "dm", "global") else inbound.principal)
        make = self._repository.create if above is None else self._repository.load(above.session_id).fork
        return make(id=new_id(), agent=agent, principal=principal, created=now, key=key, kind=kind)

    def _routed(self, inbound: Inbound, key: str, session_id: str, events: Sequence[Event], **more: Any) -> Routed:
        event = events[0] if events else None
        return Routed(key=key, session_id=session_id, event=event, principal=self.person(inbound), **more)

    # --- the next message of a key

    def _next(self, inbound: Inbound, found: Conversation, alias: str | None) -> Routed | None:
        content, trigger = self._split_trigger(inbound)
        if inbound.event_id is not None:
            known = self._keyring.known_event(found.key, inbound.source, inbound.event_id)
            if known is not None:
                for event in self._events(inbound, content, known.session_id, "agent", 0):
                    inbox.existing_event(self._repository, self._keyring.book, event)  # raises for another text
                return self._routed(inbound, found.key, known.session_id, [known], duplicate=True, alias=alias)
        held = self._keyring.held(found)
        cause, rule = ("asked", f"trigger {trigger}") if trigger else self.stale(held, inbound)
        if cause is not None:
            return self.renew(held, cause, rule, inbound=inbound, content=content, alias=alias)
        now = self._routing.now()
        record = self._repository.reader.record(held.session_id)
        with self._keyring.book.at(held.session_id) as number:
            events = self._events(inbound, content, held.session_id, record.agent, number)
            if not events and not inbound.by_user:
                return Routed(key=held.key, session_id=held.session_id, alias=alias)
            warned = self._shared_warning(inbound, held)
            if not self._keyring.rewrite(
                held,
                self._entry(inbound, held, now, held.source_id),
                user_activity=now if inbound.by_user else None,
                made=events,
            ):
                return None
        return self._routed(inbound, held.key, held.session_id, events, alias=alias, warnings=warned)

    def _shared_warning(self, inbound: Inbound, held: HeldKey) -> tuple[str, ...]:
        """Return a warning if another person than before writes to a main session."""
        person = self.person(inbound)
        if person is None or not keys.is_main_key(held.key, self._routing.settings.keys):
            return ()
        author = iris.principal(person)
        graph = ledger_records.ledger_graph(held.session_id)
        if self._repository.store.quads((None, vocab.ATTRIBUTED_TO, NamedNode(author), graph)):
            return ()
        others = {
            row["author"].value
            for row in self._repository.reader.select("senders", sessions=[held.session_id])
            if row["author"] is not None and not iris.is_agent(row["author"].value)
        }
        owner = iris.principal(self._repository.reader.record(held.session_id).principal)
        others = (others | {owner} - {iris.principal(DEFAULT_PRINCIPAL)}) - {author}
        if not others:
            return ()
        names = ", ".join(sorted(map(iris.author_name, others)))
        shared = f"{person!r} writes to {held.key!r}, which {names} wrote to: both see each other's messages there"
        setting = "session.scope to per-sender" if held.key == "global" else "session.dmScope to per-channel-peer"
        return (f"{shared}. Set {setting}, or link the two as one person (session.identityLinks)",)

    # --- beginning anew

    def stale(self, held: HeldKey, inbound: Inbound) -> tuple[ResetCause | None, str]:
        """Return why a key's session must begin anew for a message, and the rule that says so; (None, rule) if it goes on."""
        settings = self._routing.settings.reset
        channel = inbound.channel or channel_of(held)
        rule = reset_rule(settings, held.key, channel)
        if not inbound.by_user:
            return None, rule
        freshness = self.freshness(held, channel)
        if freshness.fresh:
            return None, rule
        last = policy.to_ms(self.last_activity(held))
        daily = freshness.daily_reset_at is not None and last < freshness.daily_reset_at
        return "daily" if daily else "idle", rule

    def freshness(self, held: HeldKey, channel: str | None) -> policy.Freshness:
        """Return whether a key's session goes on now, by when a person last wrote to it."""
        settings = self._routing.settings
        rule = policy.policy_for(settings.reset, held.key, channel=channel)
        return policy.freshness(self.last_activity(held), self._routing.now(), rule, zone=settings.zone)

    def last_activity(self, held: HeldKey) -> datetime:
        """Return when a person last wrote to a session: as noted, else by its turns, else by its entry, else its beginning."""
        if held.entry.last_user_activity is not None:
            return held.entry.last_user_activity
        for row in self._repository.reader.select("user_turns", sessions=[held.session_id]):
            if row["last"] is not None:
                return parse_time(row["last"].value)
        updated = held.entry.get("updatedAt")
        if isinstance(updated, int) and not isinstance(updated, bool):
            return policy.from_ms(updated)
        return self._repository.reader.record(held.session_id).created or held.conversation.created

    def renew(
        self,
        held: HeldKey,
        cause: ResetCause,
        rule: str,
        *,
        inbound: Inbound | None = None,
        content: Any = None,
        alias: str | None = None,
    ) -> Routed | None:
        """Let a key begin a new session.

        None if another writer changed the key meanwhile.
        """
        now = self._routing.now()
        message = inbound or Inbound(key=held.key, by_user=False)
        old = self._repository.reader.record(held.session_id)
        session = self._new(message, held.key, old.agent, None, now, like=old.principal)
        begin = policy.reset_entry if cause == "asked" else policy.renew_entry
        fields = begin(held.to_json(), now=now, new_id=session.id)
        fields = policy.merge_entry(fields, self._facts(message), now=now, new_id=session.id)
        events = self._events(message, content, session.id, old.agent, 1)
        decision = Decision(
            session_id=session.id,
            number=len(events) + 1,
            action="reset",
            allowed=True,
            rule=rule,
            agent=old.agent,
            time=now,
            used=held.session_id,
            channel=message.channel,
        )
        if not self._keyring.begin(
            held.key,
            session,
            fields,
            now=now,
            user_activity=now if message.by_user else held.entry.last_user_activity,
            replaces=held.conversation,
            made=[*events, decision],
        ):
            return None
        previous = held.session_id
        return self._routed(
            message, held.key, session.id, events, created=True, reset=cause, previous=previous, alias=alias
        )

    # --- what a message says

    def _split_trigger(self, inbound: Inbound) -> tuple[Any, str | None]:
        """Return a message's content, without the trigger that it may begin with, and that trigger."""
        if isinstance(inbound.content, str) and inbound.by_user:
            triggers = self._routing.settings.reset.triggers
            trigger = policy.reset_trigger(inbound.content, authorised=inbound.authorised, triggers=triggers)
            if trigger is not None:
                return trigger.remainder or None, trigger.trigger
        return inbound.content, None

    def _events(self, inbound: Inbound, content: Any, session_id: str, agent: str, number: int) -> list[Event]:
        """Return the message as it stands in an inbox, checked.

        Nothing if there is none.
        """
        if content is None:
            return []
        event = inbox.inbound_event(
            session_id,
            content,
            now=self._routing.now(),
            source=inbound.source,
            event_id=inbound.event_id,
            channel=inbound.channel,
            account=inbound.account,
            peer=inbound.peer,
            author=self.person(inbound) if inbound.by_user else f"agent:{agent}",
            time=inbound.time,
            mode=inbound.mode,
        )
        return [event.model_copy(update={"number": number})]

    def _entry(self, inbound: Inbound, held: HeldKey | None, now: datetime, name: str) -> dict[str, Any]:
        """Return the entry with what a message says of where it came from."""
        before = None if held is None else held.to_json()
        return policy.merge_entry(before, self._facts(inbound), now=now, new_id=name)

    def _facts(self, inbound: Inbound) -> Mapping[str, Any]:
        """Return what a message says for an entry.

        A machine's leaves alone where answers go.
        """
        facts = {
            name: value for name, value in inbound.facts.items() if name not in ("sessionId", "label", "spawnedBy")
        }
        if inbound.channel is None or not inbound.by_user:
            return facts
        channel = inbound.channel.strip().lower()
        facts = {"chatType": "direct" if inbound.kind == "dm" else inbound.kind, "lastChannel": channel} | facts
        if inbound.kind != "dm":
            facts = {"channel": channel, "groupId": inbound.peer} | facts
        facts |= {"lastTo": inbound.peer, "lastAccountId": inbound.account, "lastThreadId": inbound.thread}
        return {name: value for name, value in facts.items() if value is not None}


def channel_of(held: HeldKey) -> str | None:
    """Return the channel of a key's session: as its entry says, else its key."""
    for name in ("channel", "lastChannel"):
        channel = held.entry.get(name)
        if isinstance(channel, str) and channel.strip():
            return channel
    return keys.parse_key(held.key).channel


def reset_rule(config: policy.ResetConfig, key: str, channel: str | None) -> str:
    """Return the place in the configuration that says when a session begins anew."""
    kind = policy.reset_type(key)
    if channel is not None and config.for_channel(channel) is not None:
        return f"session.resetByChannel.{channel.strip().lower()}"
    if kind in dict(config.by_type or ()):
        return f"session.resetByType.{kind}"
    if config.reset is not None:
        return "session.reset"
    return "session.idleMinutes" if config.idle_minutes is not None else "default"
