"""Apply policies to a store, and limit what a sandboxed session sees.

The quads of the visible sessions are copied into an engine in memory, and nothing else is: whatever a query says, there
is nothing there to find. The rows of the catalog cannot be confined otherwise, as those of all sessions are in one graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pyoxigraph as ox
from pyoxigraph import Literal, NamedNode

from trails.errors import InvalidInput, RequestRefused
from trails.handles import Handle
from trails.history.lookup import session_quads
from trails.history.records import conversations
from trails.model import iris, validation
from trails.rdf import query_files, query_guard, vocab
from trails.rdf.ledger_records import Decision
from trails.runtime import keys, policy
from trails.runtime.routing.inbound import Arrivals, channel_of, reset_rule
from trails.runtime.routing.key_directory import HeldKey, Permission, PolicyCheck, Routing
from trails.session import Repository, presentation
from trails.store.contract import Result, Solutions
from trails.store.queries import user_queries
from trails.store.queries.query_limits import QueryLimits
from trails.store.queries.query_pool import Source

_SPAWNED_BY_KEY: Final = vocab.ENTRY_FIELDS["spawnedBy"]


def visible_sessions(repository: Repository, session_id: str) -> list[str]:
    """Return the ids of the sessions that one may see: itself, what it spawned, what that spawned, and so on.

    What earlier sessions of its key spawned is among them, the earlier sessions themselves are not.
    """
    store = repository.store
    records = repository.reader.records([session_id])
    if session_id not in records:
        raise repository.reader.not_found(session_id)
    key = records[session_id].key
    seen = {session_id: None}
    parents = [session_id, *(conversations.sessions_in(store, key) if key is not None else [])]
    asked: set[str] = set()
    while parents:
        parent = parents.pop()
        if parent in asked:
            continue
        asked.add(parent)
        node = NamedNode(iris.session(parent))
        quads = store.quads((None, vocab.SPAWNED_BY, node, vocab.CATALOG))
        for quad in store.quads((node, vocab.KEY, None, vocab.CATALOG)):
            for name in keys.spellings(str(getattr(quad.object, "value", ""))):
                quads += store.quads((None, _SPAWNED_BY_KEY, Literal(name), None))
        children = [iris.session_id(str(getattr(quad.subject, "value", ""))) for quad in quads]
        seen |= dict.fromkeys(children)
        parents += children
    return list(seen)


class View(Handle, public=True):
    """The part of a store that a session may see, as it was when the view was made; nothing can be written to it."""

    def __init__(self, repository: Repository, session_id: str) -> None:
        """Make the view of a session.

        Raise `SessionNotFound` if there is none.
        """
        self._session_id = session_id
        records = repository.reader.records(visible_sessions(repository, session_id))
        self._sessions = tuple(records)
        self._engine = ox.Store()
        self._engine.extend(
            quad for record in records.values() for quad in session_quads.session_quads(repository.store, record)
        )
        self._graphs = [graph for graph in self._engine.named_graphs() if isinstance(graph, NamedNode)]
        self._limits = repository.limits
        self._source = Source(
            f"the view of {session_id}", self, 0, dump=partial(self._engine.dump, format=ox.RdfFormat.N_QUADS)
        )

    def __repr__(self) -> str:
        return f"<View of {self._session_id!r}: {len(self._sessions)} sessions>"

    @property
    def sessions(self) -> tuple[str, ...]:
        """The ids of the sessions that can be seen."""
        return self._sessions

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._sessions

    def query(
        self,
        text: str,
        /,
        *,
        union: bool = True,
        timeout: float | None = None,
        max_rows: int | None = None,
        **parameters: Any,
    ) -> Result:
        """Return the result of a SPARQL query over what can be seen, as `Repository.query` does over everything.

        FROM and FROM NAMED choose among what can be seen; naming anything else finds nothing. Its limits are those too.
        Raises as that does.
        """
        limits = QueryLimits(timeout, max_rows).over(self._limits)
        if validation.text(text, "the query") in query_files.load_all():
            bound = query_files.find(text).bind(**parameters)
            return user_queries.of_source(self._source, bound, limits, self._dataset(union=False), is_free=True)
        if text.replace("_", "").replace("-", "").isalnum():
            query_files.find(text)  # raises, naming what there is
        if parameters:
            raise InvalidInput("parameters go with queries of the catalogue; write the values into a text of your own")
        query_guard.check_text(text)
        return user_queries.of_source(self._source, text, limits, self._dataset(union=union), is_free=True)

    def select(self, text: str, /, *, union: bool = True, **options: Any) -> Solutions:
        """Return the rows of a SELECT over what can be seen.

        Raise `InvalidInput` for any other form, naming its method.
        """
        return presentation.solution_rows(self.query(text, union=union, **options))

    def ask(self, text: str, /, *, union: bool = True, **options: Any) -> bool:
        """Return the answer of an ASK over what can be seen.

        Raise `InvalidInput` for any other form.
        """
        return presentation.query_answer(self.query(text, union=union, **options))

    def construct(self, text: str, /, *, union: bool = True, **options: Any) -> list[ox.Triple]:
        """Return the triples of a CONSTRUCT or DESCRIBE over what can be seen.

        Raise `InvalidInput` for any other form.
        """
        return presentation.triple_rows(self.query(text, union=union, **options))

    def _dataset(self, *, union: bool) -> dict[str, Any]:
        """Return which graphs a query is over that names none itself: both lists, since one alone confines nothing."""
        return {"default_graph": [vocab.CATALOG, *(self._graphs if union else [])], "named_graphs": self._graphs}


class Access:
    """The policies of a router, asked about its store's sessions."""

    def __init__(self, routing: Routing, arrivals: Arrivals) -> None:
        self._routing = routing
        self._keyring = routing.keyring
        self._repository = routing.keyring.repository
        self._arrivals = arrivals

    # --- sending and answering

    def send(self, key: str, held: HeldKey | None, *, channel: str | None, chat_type: str | None) -> Permission:
        """Return whether a session may send, and the rule that decided."""
        decision = policy.explain_send_policy(
            self._routing.settings.send,
            entry={} if held is None else held.to_json(),
            session_key=key,
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
        return Permission(allowed=decision.decision == "allow", rule=rules[decision.by])

    def responds(self, key: str, held: HeldKey | None, **mention: Any) -> Permission:
        """Return whether a message is answered, and what decided."""
        entry = {} if held is None else held.to_json()
        kind = policy.normalize_chat_type(entry.get("chatType")) or keys.parse_key(key).kind
        activation = policy.normalize_activation(entry.get("groupActivation"))
        allowed = policy.should_respond(chat_type=kind, activation=activation, **mention)
        if kind not in ("group", "channel"):
            return Permission(allowed=allowed, rule="direct")
        return Permission(allowed=allowed, rule="entry.groupActivation" if activation else "default")

    def note(
        self,
        held: HeldKey,
        action: str,
        permission: Permission,
        *,
        used: str | None = None,
        channel: str | None = None,
        read: Sequence[int] = (),
    ) -> Decision:
        """Note a decision in the ledger of the session that it is about, and return it; `read` are the indices that it gave."""
        record = self._repository.reader.record(held.session_id)
        with self._keyring.book.at(held.session_id) as number:
            decision = Decision(
                session_id=held.session_id,
                number=number,
                action=action,
                allowed=permission.allowed,
                rule=permission.rule,
                agent=record.agent,
                time=self._routing.now(),
                used=used,
                channel=channel,
                read_from=min(read, default=None),
                read_through=max(read, default=None),
                read_for_iri=iris.principal(record.principal) if action == "history" else None,
            )
            self._keyring.book.write(held.session_id, [decision])
        return decision

    # --- reading another's history

    def reading(self, requester: HeldKey, target: HeldKey, *, sandboxed: bool) -> Permission:
        """Return whether one session may read another's history, and the rule that decided."""
        if requester.session_id == target.session_id:
            return Permission(allowed=True, rule="own session")
        if sandboxed:
            seen = target.session_id in visible_sessions(self._repository, requester.session_id)
            return Permission(allowed=seen, rule="sandbox: own and spawned sessions")
        return self.talking(requester.key, target.key)

    def talking(self, requester: str, target: str) -> Permission:
        """Return whether the agents of two keys may have to do with each other, and the rule that decided."""
        one, other = keys.agent_id_from_key(requester), keys.agent_id_from_key(target)
        if one == other:
            return Permission(allowed=True, rule="same agent")
        agents = self._routing.settings.agent_to_agent
        rule = "tools.agentToAgent.allow" if agents.enabled else "tools.agentToAgent.enabled"
        return Permission(allowed=agents.allows(one, other), rule=rule)

    def history(
        self, requester: HeldKey, target: HeldKey, *, sandboxed: bool, limit: int | None, tools: bool
    ) -> list[dict[str, Any]]:
        """Return the turns of another session, the last `limit`, noting that they were read (or refused)."""
        permission = self.reading(requester, target, sandboxed=sandboxed)
        if not permission.allowed:
            self.note(requester, "history", permission, used=target.session_id)
            if sandboxed:
                refusal = f"Session not visible from this sandboxed agent session: {target.key}"
            elif permission.rule == "tools.agentToAgent.enabled":
                remedy = "Set tools.agentToAgent.enabled=true to allow cross-agent access."
                refusal = f"Agent-to-agent history is disabled. {remedy}"
            else:
                refusal = "Agent-to-agent history denied by tools.agentToAgent.allow."
            raise RequestRefused(refusal, code="FORBIDDEN")
        turns = self._repository.replay(target.session_id)
        shown = turns if tools else [turn for turn in turns if turn["role"] not in ("tool", "toolResult")]
        shown = shown if limit is None else shown[max(0, len(shown) - limit) :]
        if requester.session_id != target.session_id:
            read = [turn["index"] for turn in shown]
            self.note(requester, "history", permission, used=target.session_id, read=read)
        return shown

    # --- all of it at once

    def check(self, key: str, held: HeldKey | None) -> PolicyCheck:
        """Return what would happen to a key now.

        Nothing is written.
        """
        settings = self._routing.settings
        channel = keys.parse_key(key).channel if held is None else channel_of(held)
        return PolicyCheck(
            key=key,
            session_id=None if held is None else held.session_id,
            send=self.send(key, held, channel=None, chat_type=None),
            responds=self.responds(key, held),
            reset=policy.policy_for(settings.reset, key, channel=channel),
            reset_rule=reset_rule(settings.reset, key, channel),
            freshness=None if held is None else self._arrivals.freshness(held, channel),
            may_spawn=keys.may_spawn(key),
            deletable=not keys.is_main_key(key, settings.keys),
        )
