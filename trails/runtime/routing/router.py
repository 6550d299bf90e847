"""The public router of a store: sessions by key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, Literal

from pyoxigraph import Quad

from trails.errors import InvalidInput, RequestRefused
from trails.handles import Handle
from trails.history.records import activities, conversations
from trails.model import iris, validation
from trails.rdf.activity_records import Deed
from trails.rdf.conversation_records import Alias, Move
from trails.rdf.ledger_records import Decision
from trails.runtime import keys, policy
from trails.runtime.policy.session_entry import DEFAULT_HOST, ModelHost, model_host
from trails.runtime.routing import key_moves
from trails.runtime.routing.access_rules import View, visible_sessions
from trails.runtime.routing.inbound import Arrivals, channel_of, reset_rule
from trails.runtime.routing.key_directory import (
    HeldKey,
    Inbound,
    Keyring,
    Moving,
    Permission,
    PolicyCheck,
    Routed,
    RouterSettings,
    Routing,
    SessionInfo,
    new_id,
    until_written,
)
from trails.runtime.routing.key_moves import Renaming
from trails.runtime.timer import Clock, clock_time
from trails.session import Repository, Session, opened
from trails.store.contract import Result
from trails.usage import counts_of

_List = list  # inside the class, `list` is the method


class Router(Handle, public=True):
    """The sessions of a store, by key.

    A key names a conversation: the session that messages go to now, and those before a reset. All that is kept about it
    (overrides, counters, labels, aliases) is stored beside the turns; several routers on one store are one.

    >>> import trails
    >>> with trails.open(":memory:") as store:
    ...     router = trails.Router(store, config={"session": {"dmScope": "per-channel-peer"}})
    ...     routed = router.route(trails.Inbound(channel="telegram", peer="123", content="Hello"))
    ...     done = trails.Ledger(store).process(routed.session_id, lambda running: "Hi.")
    ...     routed.key, [turn.content for turn in router.session(routed.key).turns]
    ('agent:main:telegram:dm:123', ['Hello', 'Hi.'])
    """

    def __init__(
        self,
        store: Repository,
        *,
        config: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        models: ModelHost | Collection[str] = DEFAULT_HOST,
        zone: str | tzinfo | None = None,
        fold_case: bool = False,
    ) -> None:
        """Open the sessions of a store by key.

        `config` has the shape of OpenClaw's: `session` (dmScope, mainKey, scope, identityLinks, reset...), `agents`,
        `bindings`, `tools.agentToAgent`. `clock` gives the time (aware; the system's by default). `models` says which models
        a session may be set to: a list (`provider/model`, the first is the default) or a `ModelHost`; any well-formed one
        unless given. `zone` is where the hour of a daily reset is told (else the configuration's
        `agents.defaults.userTimezone`, else UTC). `fold_case` puts peers' ids in lower case, which merges people on some
        networks.

        Raises `InvalidInput` for what is wrong in the configuration, with its path.
        """
        opened(store, "Router")
        settings = RouterSettings.from_json(config, zone=zone, fold_case=fold_case)
        self._repository = store
        self._models = models if isinstance(models, ModelHost) else model_host(models)
        self._keyring = Keyring(store)
        self._routing = Routing(self._keyring, settings, partial(clock_time, clock))
        self._arrivals = Arrivals(self._routing)
        self._renaming = Renaming(self._routing)
        self._scopes: dict[str, keys.DmScope] = {}
        """The scope before each migration of this router."""

    def __repr__(self) -> str:
        return f"<Router of {self._repository!r}>"

    # --- keys

    def key(self, name: str) -> str:
        """Return the key under which a session is stored, for any name of it: "main", a key without its agent, a whole key."""
        canonical = keys.canonical_key(validation.text(name, "the key"), self._routing.settings.keys)
        if not canonical:
            raise InvalidInput("a session key must not be empty")
        return validation.name(canonical, "the key")

    def key_of(self, inbound: Inbound) -> str:
        """Return the key of the session that a message would go to.

        Nothing is written.
        """
        return self._arrivals.key_of(inbound)[0]

    def _held(self, name: str) -> HeldKey | None:
        conversation = self._keyring.find(self.key(name))
        return None if conversation is None else self._keyring.held(conversation[0])

    def _stored(self, name: str) -> HeldKey:
        held = self._held(name)
        if held is None:
            raise RequestRefused(f"No session found: {name}")
        return held

    # --- messages in

    def route(self, inbound: Inbound) -> Routed:
        """Put a message into its session's inbox and say where it went.

        `Ledger.process` then works on it.

        The session is made with the key's first message: empty, or for a thread as a fork of what it is a thread of. A
        message of a person begins it anew if that is due: by "/new" or "/reset" of an authorised sender (what follows is
        the first message), by the hour, or because nobody wrote for too long. The message, the session and its entry are one
        commit; a message that comes twice (`source`, `event_id`) changes nothing.

        Warns (`SharedSessionWarning`) if another person than before writes to a main session. Raises `ForkDepthExceeded`
        for a thread of a session that cannot be forked any more, `InvalidInput` for what cannot be kept; nothing was written.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     router = trails.Router(store)
        ...     first = router.route(trails.Inbound(channel="slack", kind="channel", peer="C1", content="Hi"))
        ...     again = router.route(
        ...         trails.Inbound(channel="slack", kind="channel", peer="C1", content="/new Plan it", authorised=True)
        ...     )
        ...     again.key, again.reset, again.previous == first.session_id, again.event.content
        ('agent:main:slack:channel:C1', 'asked', True, 'Plan it')
        """
        return self._arrivals.route(inbound)

    def session(self, name: str, *, principal: str | None = None) -> Session:
        """Return the session of a key, loaded, made if there is none (for `principal`).

        Of two callers who make it at once, both get the same.
        """
        key = self.key(name)
        agent = (
            self._routing.settings.keys.default_agent if key in ("global", "unknown") else keys.agent_id_from_key(key)
        )
        return self._repository.load(self._arrivals.session(key, agent=agent, principal=principal))

    def reset(self, name: str) -> Routed:
        """Let a key begin a new session, as somebody asked: counters at 0, overrides of the model gone, the label kept.

        The old session stays as it is, and can be read by its id.
        """
        return until_written(name, lambda: self._arrivals.renew(self._stored(name), "asked", "sessions.reset"))

    # --- finding

    def resolve(
        self,
        *,
        key: str | None = None,
        id: str | None = None,  # noqa: A002 - the public name
        label: str | None = None,
        agent: str | None = None,
        spawned_by: str | None = None,
        include_global: bool = False,
        include_unknown: bool = False,
    ) -> str:
        """Return the key of the one session that exactly one of `key`, `id` and `label` names.

        `agent` and `spawned_by` (a key) narrow that down. A key may be an alias. Raises `RequestRefused` for none, for several,
        and if more than one of the three is given.
        """
        match = self._keyring.find(self.key(key)) if key is not None and key.strip() and not (id or label) else None
        named = [self._keyring.held(match[0])] if match is not None else []
        if match is None and not key:
            named = self._keyring.named(id) if id and not label else self._keyring.labelled(label) if label else []
        return policy.resolve_session(
            {held.key: held.to_json() for held in named},
            key=key if match is None else match[0].key,
            session_id=id,
            label=label,
            agent_id=agent,
            spawned_by=None if spawned_by is None else self.key(spawned_by),
            include_global=include_global,
            include_unknown=include_unknown,
            settings=self._routing.settings.keys,
        )

    def list(
        self,
        *,
        active_minutes: float | None = None,
        label: str | None = None,
        spawned_by: str | None = None,
        agent: str | None = None,
        search: str | None = None,
        include_global: bool = False,
        include_unknown: bool = False,
        limit: float | None = None,
    ) -> _List[SessionInfo]:
        """Return the current sessions of all keys, the latest updated first.

        `search` is part of a name, label, subject, id or key, in any case. The global and the unknown session show only
        if they are included.
        """
        every = {held.key: held for held in self._keyring.every()}
        query = policy.ListQuery(
            include_global=include_global,
            include_unknown=include_unknown,
            spawned_by=None if spawned_by is None else self.key(spawned_by),
            label=label,
            agent_id=agent,
            search=search,
            active_minutes=active_minutes,
            limit=limit,
        )
        entries = {key: held.to_json() for key, held in every.items()}
        rows = policy.list_sessions(entries, query, now=self._routing.now(), settings=self._routing.settings.keys)
        records = self._repository.reader.records([every[row.key].session_id for row in rows])
        listed = [(row, every[row.key], records.get(every[row.key].session_id)) for row in rows]
        return [
            SessionInfo(
                key=row.key,
                session_id=record.id,
                kind=keys.parse_key(row.key, main_key=self._routing.settings.keys.main_key).kind,
                label=row.label,
                display_name=row.display_name,
                agent=record.agent,
                state=record.state,
                channel=row.channel,
                updated=None if row.updated_at is None else policy.from_ms(row.updated_at),
                last_user_activity=held.entry.last_user_activity,
                total_tokens=row.total_tokens,
                entry=entries[row.key],
            )
            for row, held, record in listed
            if record is not None
        ]

    def sessions(self, name: str) -> _List[str]:
        """Return the ids of all sessions of a key, the earliest first: those before a reset, and the current one last."""
        held = self._stored(name)
        ids = conversations.sessions_in(self._repository.store, held.key)
        records = self._repository.reader.records(ids)
        old = (each for each in ids if each != held.session_id and each in records)
        far = datetime.min.replace(tzinfo=UTC)
        return [*sorted(old, key=lambda each: (records[each].created or far, each)), held.session_id]

    # --- entries

    def entry(self, name: str) -> dict[str, Any]:
        """Return what is kept about a key, in the shape of `sessions.json`.

        Raise `RequestRefused` if it names nothing.
        """
        return self._stored(name).to_json()

    def patch(self, name: str, patch: Mapping[str, Any], *, by: str | None = None) -> dict[str, Any]:
        """Change fields of a key's entry and return the entry.

        The session is made if there is none.

        A field that is not in the patch stays, None clears it. One wrong field refuses the whole patch (`RequestRefused`).
        `by` is as for `Repository.delete`: it is on record with what each field was and what it became.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     router = trails.Router(store)
        ...     router.patch("main", {"thinkingLevel": "HIGH", "label": "desk"})["thinkingLevel"], router.resolve(label="desk")
        ('high', 'agent:main:main')
        """
        key = self.key(name)

        def attempt() -> dict[str, Any] | None:
            held = self._held(key)
            current = key if held is None else held.key
            known = {} if held is None else {current: held.to_json()}
            known |= self._labelled(patch, held)
            now = self._routing.now()
            after = policy.apply_patch(known, current, patch, now=now, new_id=new_id(), models=self._models)
            if held is None:  # checked first: a refused patch makes no session
                self.session(key)
                return None
            deed = self._repository.workspace.deed(by)._replace(time=self._routing.now())
            alterations = self._altered(held, after, deed)
            is_written = self._keyring.rewrite(held, after, spawner=self._spawner(held, after), told=alterations)
            return after | {"sessionId": held.source_id} if is_written else None

        return until_written(name, attempt)

    def _altered(self, held: HeldKey, after: Mapping[str, Any], deed: Deed, *, with_texts: bool = True) -> _List[Quad]:
        """Return what says that fields of an entry became something else, and by whom.

        A field of a patch may change others: another model is a `modelOverride`, and drops what was said of its credentials.
        """
        before = held.to_json()
        quads: _List[Quad] = []
        for field in sorted({*before, *after} - {"updatedAt"}):
            old, new = (
                validation.to_json(each[field], field) if each.get(field) is not None else None
                for each in (before, after)
            )
            quads += activities.altered_sessions(held.session_id, deed, field, old, new, with_texts=with_texts)
        return quads

    def _labelled(self, patch: Mapping[str, Any], held: HeldKey | None) -> dict[str, dict[str, Any]]:
        """Return an entry that has the label which a patch asks for, if another session has it."""
        wanted = patch.get("label")
        if not isinstance(wanted, str) or not wanted.strip():
            return {}
        owner = self._repository.reader.labelled(wanted.strip())
        if owner is None or (held is not None and owner == held.session_id):
            return {}
        return {"\0": {"label": wanted.strip()}}  # no session's key

    def _spawner(self, held: HeldKey, after: Mapping[str, Any]) -> str | None:
        """Return the id of the session that an entry newly says spawned this one, if that is stored."""
        if not after.get("spawnedBy") or held.entry.get("spawnedBy"):
            return None
        if self._repository.record(held.session_id).spawned_by is not None:
            return None
        spawner = self._held(after["spawnedBy"])
        return None if spawner is None or spawner.session_id == held.session_id else spawner.session_id

    def merge(self, name: str, fields: Mapping[str, Any], *, by: str | None = None) -> dict[str, Any]:
        """Lay fields over a key's entry unchecked (a host's own facts: `systemSent`, `contextTokens` ...) and return it.

        `updatedAt` becomes the latest of what stood there, what is given, and now. The session's id and label stay. `by` is as
        for `Repository.delete`: it is on record with each field, and with what that was and became if it is a number or a
        truth value: a text may be a message's, which may be taken out there.
        """
        own = {name: value for name, value in fields.items() if name not in ("sessionId", "label", "spawnedBy")}
        deed = self._repository.workspace.deed(by)._replace(time=self._routing.now())
        return self._changed(
            name, lambda held: policy.merge_entry(held.to_json(), own, now=self._routing.now(), new_id=""), deed=deed
        )

    def count(self, name: str, usage: Mapping[str, Any]) -> dict[str, Any]:
        """Add the tokens of an exchange to a key's counters, and return its entry; a reset puts them back to 0.

        Counters are running sums of what model calls used, and nobody's decision: who adds to them is not on record.
        `usage` is as models report it: input and output tokens, and their total, under their usual names.
        """
        validation.usage_counts(usage)
        counts = counts_of(usage)
        read, written = counts.input or 0, counts.output or 0
        total = (counts.prompt or 0) + written

        def added(held: HeldKey) -> dict[str, Any]:
            entry = held.to_json()
            sums = {"inputTokens": read, "outputTokens": written, "totalTokens": total}
            for field, count in sums.items():
                before = entry.get(field)
                sums[field] = count + (before if isinstance(before, int) and not isinstance(before, bool) else 0)
            if entry.get("totalTokens") is None:
                sums["totalTokens"] = sums["inputTokens"] + sums["outputTokens"]
            return policy.merge_entry(entry, sums, now=self._routing.now(), new_id="")

        return self._changed(name, added)

    def _changed(
        self, name: str, change: Callable[[HeldKey], dict[str, Any]], *, deed: Deed | None = None
    ) -> dict[str, Any]:
        def attempt() -> dict[str, Any] | None:
            held = self._stored(name)
            after = change(held)
            alterations = () if deed is None else self._altered(held, after, deed, with_texts=False)
            return after if self._keyring.rewrite(held, after, told=alterations) else None

        return until_written(name, attempt)

    # --- other names

    def alias(self, alias: str, name: str, *, by: str | None = None) -> Alias:
        """Let a key that names nothing be found as another one: looked for after the key itself, before one is made.

        Raises `InvalidInput` for a key that names a session itself (merge that) or is another one's alias.
        """
        return self._renaming.alias(self.key(alias), self.key(name), by)

    def unalias(self, alias: str, *, by: str | None = None) -> Alias:
        """Take an alias away and return what it was.

        A record of it stays with the key that it stood for.
        """
        return self._renaming.unalias(self.key(alias), by)

    def aliases(self, name: str | None = None) -> _List[Alias]:
        """Return the aliases of one key, or all."""
        return conversations.aliases_of(self._repository.store, None if name is None else self._stored(name).key)

    def promote(self, name: str, new: str, *, by: str | None = None) -> Moving:
        """Give a key's sessions a better key, such as that of a person who has been identified; the old one becomes its alias."""
        return self._renaming.promote(self.key(name), self.key(new), by)

    def merge_into(self, name: str, into: str, *, by: str | None = None) -> Moving:
        """Put the sessions of one key to those of another, which keeps its current one; the first key becomes its alias."""
        return self._renaming.merge(self.key(name), self.key(into), by)

    def moves(self, session: str | None = None) -> _List[Move]:
        """Return what was moved between keys: of one session, by its id, or all; oldest first."""
        wanted = None if session is None else self._repository.record(session).id
        return conversations.moves_of(self._repository.store, wanted)

    def migrate(self, to_scope: str, *, dry_run: bool = False, by: str | None = None) -> Moving:
        """Bring the sessions of main and direct keys to the keys that they have under another scope of direct chats.

        A session goes where all its messages would go now; one that several people wrote to stays, and so does one of which
        nobody knows who wrote it: the report names them and their senders. This router has the new scope from then on; put
        it into the configuration (`session.dmScope`) for others. `undo` takes it back. With `dry_run`, nothing is written.

        >>> import trails
        >>> with trails.open(":memory:") as store:
        ...     router = trails.Router(store)
        ...     routed = router.route(trails.Inbound(channel="telegram", peer="7", content="Hello"))
        ...     done = router.migrate("per-channel-peer")
        ...     [(moved.from_key, moved.to_key) for moved in done.moved]
        [('agent:main:main', 'agent:main:telegram:dm:7')]
        """
        scope = keys.check_dm_scope(to_scope)
        before = self._routing.settings.keys.dm_scope
        plan = self._renaming.plan("migration", by)
        unplaced = key_moves.plan_migration(plan, self._routing.settings.keys, scope)
        if not dry_run:
            if plan.moved:
                plan.commit()
            self._scopes[plan.operation] = before
            self._rescope(scope)
        return plan.report(unplaced=tuple(unplaced), from_scope=before, to_scope=scope, dry_run=dry_run)

    def undo(self, operation: str, *, by: str | None = None) -> Moving:
        """Take back what a promotion, a merge or a migration moved, as far as its sessions are still where it brought them.

        What was written since stays where it was written; the report names what could not go back, and why.
        """
        done = self._renaming.undo(operation, by)
        if operation in self._scopes:
            self._rescope(self._scopes.pop(operation))
        return done

    def _rescope(self, scope: keys.DmScope) -> None:
        settings = self._routing.settings
        changed = settings.keys.model_copy(update={"dm_scope": scope})
        self._routing.settings = settings.model_copy(update={"keys": changed})

    # --- policies

    def may_send(
        self, name: str, *, channel: str | None = None, chat_type: str | None = None, note: bool = True
    ) -> Permission:
        """Return whether a session may send (over a channel), and the rule that decided: its entry, the rules, the default.

        A refusal is noted in the session's ledger, unless `note` is False.
        """
        held = self._held(name)
        decision = policy.explain_send_policy(
            self._routing.settings.send,
            entry={} if held is None else held.to_json(),
            session_key=self.key(name) if held is None else held.key,
            channel=channel,
            chat_type=chat_type,
            strip_agent=True,  # a store's keys all name their agent: a rule like "cron:" would never fit
        )
        rules = {
            "override": "entry.sendPolicy",
            "rule": f"session.sendPolicy.rules[{decision.rule}]",
            "default": "session.sendPolicy.default",
            "no policy": "default",
        }
        permission = Permission(allowed=decision.decision == "allow", rule=rules[decision.by])
        if held is not None and note and not permission.allowed:
            self._note(held, "send", permission, channel=channel)
        return permission

    def _note(self, held: HeldKey, action: str, permission: Permission, **more: Any) -> None:
        """Note a decision in the ledger of the session that it is about."""
        with self._keyring.book.at(held.session_id) as number:
            decision = Decision(
                session_id=held.session_id,
                number=number,
                action=action,
                allowed=permission.allowed,
                rule=permission.rule,
                agent=self._repository.record(held.session_id).agent,
                time=self._routing.now(),
                **more,
            )
            self._keyring.book.write(held.session_id, [decision])

    def should_respond(self, /, name: str, *, mentioned: bool = False, **told: bool) -> Permission:
        """Return whether a message to a key is answered, and what decided: always in a direct chat, in a group as it is set.

        `told` is what else `trails.policy.should_respond` takes.
        """
        held = self._held(name)
        entry = {} if held is None else held.to_json()
        key = self.key(name) if held is None else held.key
        kind = policy.normalize_chat_type(entry.get("chatType")) or keys.parse_key(key).kind
        activation = policy.normalize_activation(entry.get("groupActivation"))
        facts: dict[str, Any] = {"chat_type": kind, "activation": activation, "was_mentioned": mentioned, **told}
        allowed = policy.should_respond(**facts)
        rule = "entry.groupActivation" if activation else "default"
        return Permission(allowed=allowed, rule=rule if kind in ("group", "channel") else "direct")

    def may_message(self, requester: str, target: str) -> Permission:
        """Return whether a session may send to another one's agent, and the rule that decided."""
        one, other = (keys.agent_id_from_key(self.key(each)) for each in (requester, target))
        if one == other:
            return Permission(allowed=True, rule="same agent")
        agents = self._routing.settings.agent_to_agent
        rule = "tools.agentToAgent.allow" if agents.enabled else "tools.agentToAgent.enabled"
        return Permission(allowed=agents.allows(one, other), rule=rule)

    def history(
        self, requester: str, target: str, *, sandboxed: bool = False, limit: int | None = None, tools: bool = False
    ) -> _List[dict[str, Any]]:
        """Return the turns of another session as `Repository.replay` does, if policy lets the requester read them.

        Agents may read their own sessions; others' if `tools.agentToAgent` allows it; a sandboxed requester only what it
        spawned. Each reading is noted in the requester's ledger, with the session that was read (`prov:used`), and so is each
        refusal, which raises `RequestRefused`. `limit` gives the last turns, `tools` those of tools too.
        """
        one, other = self._stored(requester), self._stored(target)
        last = None if limit is None else validation.index(limit, "limit")
        permission = self._reading(one, other, sandboxed=sandboxed)
        principal = iris.principal(self._repository.record(one.session_id).principal)
        about: dict[str, Any] = {"used": other.session_id, "read_for_iri": principal}
        if not permission.allowed:
            self._note(one, "history", permission, **about)
            refusal = "Agent-to-agent history denied by tools.agentToAgent.allow."
            if sandboxed:
                refusal = f"Session not visible from this sandboxed agent session: {other.key}"
            elif permission.rule == "tools.agentToAgent.enabled":
                remedy = "Set tools.agentToAgent.enabled=true to allow cross-agent access."
                refusal = f"Agent-to-agent history is disabled. {remedy}"
            raise RequestRefused(refusal, code="FORBIDDEN")
        turns = self._repository.replay(other.session_id)
        shown = turns if tools else [turn for turn in turns if turn["role"] not in ("tool", "toolResult")]
        shown = shown if last is None else shown[max(0, len(shown) - last) :]
        if one.session_id != other.session_id:
            read = [turn["index"] for turn in shown]
            about |= {"read_from": min(read, default=None), "read_through": max(read, default=None)}
            self._note(one, "history", permission, **about)
        return shown

    def _reading(self, requester: HeldKey, target: HeldKey, *, sandboxed: bool) -> Permission:
        """Return whether one session may read another's history, and the rule that decided."""
        if requester.session_id == target.session_id:
            return Permission(allowed=True, rule="own session")
        if sandboxed:
            seen = target.session_id in visible_sessions(self._repository, requester.session_id)
            return Permission(allowed=seen, rule="sandbox: own and spawned sessions")
        return self.may_message(requester.key, target.key)

    def view(self, requester: str) -> View:
        """Return what a sandboxed session may see: itself and what it spawned, to be asked in SPARQL."""
        return View(self._repository, self._stored(requester).session_id)

    def query(self, requester: str, text: str, /, **parameters: Any) -> Result:
        """Return the result of a query over what a sandboxed session may see.

        See `view`.
        """
        return self.view(requester).query(text, **parameters)

    def check(self, name: str) -> PolicyCheck:
        """Return what would happen to a key now, and which rule decides each thing; nothing is written."""
        held, settings = self._held(name), self._routing.settings
        key = self.key(name) if held is None else held.key
        channel = keys.parse_key(key).channel if held is None else channel_of(held)
        return PolicyCheck(
            key=key,
            session_id=None if held is None else held.session_id,
            send=self.may_send(key, note=False),
            responds=self.should_respond(key),
            reset=policy.policy_for(settings.reset, key, channel=channel),
            reset_rule=reset_rule(settings.reset, key, channel),
            freshness=None if held is None else self._arrivals.freshness(held, channel),
            may_spawn=keys.may_spawn(key),
            deletable=not keys.is_main_key(key, settings.keys),
        )

    # --- the end

    def delete(
        self,
        *,
        key: str | None = None,
        id: str | None = None,  # noqa: A002 - the public name
        force: bool = False,
        children: Literal["refuse", "cascade", "detach"] = "refuse",
        by: str | None = None,
    ) -> _List[str]:
        """Delete a key's current session with its entry, label and aliases, or a session by its id; return the ids deleted.

        A main session is not deleted by its key; by its id, with `force`. Sessions before a reset stay, and the key begins
        anew with its next message. `children` and `by` are as for `Repository.delete`.
        """
        if (key is None) == (id is None):
            raise RequestRefused(
                "Provide either key or sessionId (not both)" if key else "Either key or sessionId is required"
            )
        if key is not None:
            policy.check_deletable(key, self._routing.settings.keys)
            held = self._stored(key)
            if keys.is_main_key(held.key, self._routing.settings.keys):
                raise RequestRefused(f"Cannot delete the main session ({held.key}).")
            return self._repository.delete(held.session_id, children=children, by=by)
        record = self._repository.record(id or "")
        if record.key is not None and keys.is_main_key(record.key, self._routing.settings.keys) and not force:
            raise RequestRefused(f"Cannot delete the main session ({record.key}) without force.")
        return self._repository.delete(record.id, children=children, by=by)
