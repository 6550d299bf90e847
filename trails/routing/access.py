"""Policies bound to a store: who may send, answer, read another's history; each refusal is noted in the session's ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from trails import iris, keys, policy
from trails.errors import RequestRefused
from trails.records.policy_entries import Decision
from trails.routing import visibility
from trails.routing.decisions import Permission, PolicyCheck
from trails.routing.directory import HeldKey, Keyring
from trails.routing.inbound import Arrivals, channel_of, reset_rule
from trails.routing.settings import RouterSettings


class Access:
    """The policies of a router, asked about its store's sessions."""

    def __init__(
        self,
        keyring: Keyring,
        arrivals: Arrivals,
        settings: Callable[[], RouterSettings],
        now: Callable[[], datetime],
    ) -> None:
        self._keyring = keyring
        self._repository = keyring.repository
        self._arrivals = arrivals
        self._settings = settings
        self._now = now

    # --- sending and answering

    def send(self, key: str, held: HeldKey | None, *, channel: str | None, chat_type: str | None) -> Permission:
        """Return whether a session may send, and the rule that decided."""
        entry = {} if held is None else held.to_json()
        found = policy.explain_send_policy(
            self._settings().send,
            entry=entry,
            session_key=key,
            channel=channel,
            chat_type=chat_type,
            strip_agent=True,  # a store's keys all name their agent: a rule like "cron:" would never fit
        )
        rules = {
            "override": "entry.sendPolicy",
            "rule": f"session.sendPolicy.rules[{found.rule}]",
            "default": "session.sendPolicy.default",
            "no policy": "default",
        }
        return Permission(allowed=found.decision == "allow", rule=rules[found.by])

    def responds(self, key: str, held: HeldKey | None, **told: Any) -> Permission:
        """Return whether a message is answered, and what decided."""
        entry = {} if held is None else held.to_json()
        kind = policy.normalize_chat_type(entry.get("chatType")) or _chat_type(key)
        activation = policy.normalize_activation(entry.get("groupActivation"))
        allowed = policy.should_respond(chat_type=kind, activation=activation, **told)
        if kind == "direct":
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
            made = Decision(
                session_id=held.session_id,
                number=number,
                action=action,
                allowed=permission.allowed,
                rule=permission.rule,
                agent=record.agent,
                time=self._now(),
                used=used,
                channel=channel,
                read_from=min(read, default=None),
                read_through=max(read, default=None),
                read_for_iri=iris.principal(record.principal) if action == "history" else None,
            )
            self._keyring.book.write(held.session_id, [made])
        return made

    # --- reading another's history

    def reading(self, requester: HeldKey, target: HeldKey, *, sandboxed: bool) -> Permission:
        """Return whether one session may read another's history, and the rule that decided."""
        if requester.session_id == target.session_id:
            return Permission(allowed=True, rule="own session")
        if sandboxed:
            seen = target.session_id in visibility.visible_sessions(self._repository, requester.session_id)
            return Permission(allowed=seen, rule="sandbox: own and spawned sessions")
        return self.talking(requester.key, target.key)

    def talking(self, requester: str, target: str) -> Permission:
        """Return whether the agents of two keys may have to do with each other, and the rule that decided."""
        one, other = keys.agent_id_from_key(requester), keys.agent_id_from_key(target)
        if one == other:
            return Permission(allowed=True, rule="same agent")
        found = self._settings().agent_to_agent
        rule = "tools.agentToAgent.allow" if found.enabled else "tools.agentToAgent.enabled"
        return Permission(allowed=found.allows(one, other), rule=rule)

    def history(
        self, requester: HeldKey, target: HeldKey, *, sandboxed: bool, limit: int | None, tools: bool
    ) -> list[dict[str, Any]]:
        """Return the turns of another session, the last `limit`, noting that they were read (or refused)."""
        permission = self.reading(requester, target, sandboxed=sandboxed)
        is_own = requester.session_id == target.session_id
        if not permission.allowed:
            self.note(requester, "history", permission, used=target.session_id)
            raise RequestRefused(self._refusal(target, permission, sandboxed=sandboxed), code="FORBIDDEN")
        turns = self._repository.replay(target.session_id)
        shown = turns if tools else [turn for turn in turns if turn["role"] not in ("tool", "toolResult")]
        shown = shown if limit is None else shown[max(0, len(shown) - limit) :]
        if not is_own:
            read = [turn["index"] for turn in shown]
            self.note(requester, "history", permission, used=target.session_id, read=read)
        return shown

    def _refusal(self, target: HeldKey, permission: Permission, *, sandboxed: bool) -> str:
        if sandboxed:
            return f"Session not visible from this sandboxed agent session: {target.key}"
        if permission.rule == "tools.agentToAgent.enabled":
            return (
                "Agent-to-agent history is disabled. Set tools.agentToAgent.enabled=true to allow cross-agent access."
            )
        return "Agent-to-agent history denied by tools.agentToAgent.allow."

    # --- all of it at once

    def check(self, key: str, held: HeldKey | None) -> PolicyCheck:
        """Return what would happen to a key now; nothing is written."""
        settings = self._settings()
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


def _chat_type(key: str) -> str:
    kind = keys.parse_key(key).kind
    return kind if kind in ("group", "channel") else "direct"
