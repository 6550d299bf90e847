"""Other names for a session's key: aliases, promotion, merge; and taking an operation back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from trails import keys
from trails.errors import InvalidInput
from trails.plumbing import conversations
from trails.records.conversations import Alias, Conversation, Move
from trails.routing.decisions import Moving, Unplaced
from trails.routing.directory import Keyring
from trails.routing.moves import KeyPlan, Transfer


class Renaming:
    """What is done to the keys of a store by hand. Keys come in their canonical form."""

    def __init__(self, keyring: Keyring, now: Callable[[], datetime]) -> None:
        self._keyring = keyring
        self._store = keyring.repository.store
        self._now = now

    def plan(self, reason: str, by: str | None, *, undoes: str | None = None) -> KeyPlan:
        """Return an empty operation."""
        who = self._keyring.repository.workspace.who(by)
        return KeyPlan(self._keyring, reason, who, self._now(), undoes=undoes)

    def _named(self, key: str) -> Conversation:
        found = self._keyring.find(key)
        if found is None:
            raise InvalidInput(f"the key {key!r} names no session")
        return found[0]

    def _refuse_taken(self, key: str) -> None:
        found = self._keyring.find(key)
        if found is None:
            return
        conversation, alias = found
        if alias is None:
            what = f"names session {conversation.session_id!r} itself; merge it into the other one, or choose another"
            raise InvalidInput(f"the key {key!r} {what}")
        raise InvalidInput(f"the key {key!r} is an alias of {conversation.key!r}; remove that first, or choose another")

    def alias(self, name: str, key: str, by: str | None) -> Alias:
        """Let a key be found as another one; doing it again changes nothing."""
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
        found = next((a for each in keys.spellings(name) if (a := conversations.find_alias(self._store, each))), None)
        if found is None:
            raise InvalidInput(f"there is no alias {name!r}")
        return found

    def unalias(self, name: str, by: str | None) -> Alias:
        """Take an alias away and return what it was."""
        gone = self._alias(name)
        plan = self.plan("manual", by)
        plan.unalias(gone)
        plan.commit()
        return gone

    def promote(self, key: str, new_key: str, by: str | None) -> Moving:
        """Give a key's sessions a better key; the old one becomes its alias."""
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
        for session_id in sorted(conversations.sessions_of(self._store, source.key)):
            current = reason == "promotion" and session_id == source.session_id
            plan.move(Transfer(session_id, source.key, to_key, current))
        plan.alias(source.key, to_key, reason)
        plan.commit()
        return plan.report()

    # --- taking back

    def undo(self, operation: str, by: str | None) -> Moving:
        """Take back what an operation moved, as far as the sessions are still where it brought them."""
        every = conversations.moves(self._store)
        done = [move for move in every if move.operation == operation]
        if not done:
            raise InvalidInput(f"no operation {operation!r} moved a session; `Router.moves` lists those that did")
        if any(move.undoes == operation for move in every):
            raise InvalidInput(f"operation {operation!r} was taken back before")
        plan, unplaced = self.plan("undo", by, undoes=operation), list[Unplaced]()
        for alias in conversations.aliases(self._store):
            if (
                any((move.from_key, move.to_key) == (alias.alias, alias.key) for move in done)
                and alias.reason != "manual"
            ):
                plan.unalias(alias)
        for move in reversed(done):
            why = self._stuck(move)
            if why is not None:
                unplaced.append(Unplaced(session_id=move.session_id, key=move.to_key, reason=why))
            else:
                self._back(plan, move)
        if not plan.moved:
            raise InvalidInput(f"nothing of operation {operation!r} can be taken back: {unplaced[0].reason}")
        for alias in conversations.aliases(self._store):
            if any((move.from_key, move.to_key) == (alias.from_key, alias.key) for move in done):
                plan.redirect(alias, alias.from_key or "")
        plan.commit()
        return plan.report(unplaced=tuple(unplaced))

    def _stuck(self, move: Move) -> str | None:
        """Return why a session cannot go back, or None."""
        record = self._keyring.repository.reader.records([move.session_id]).get(move.session_id)
        if record is None:
            return f"session {move.session_id!r} was deleted"
        if record.key != move.to_key:
            return f"session {move.session_id!r} has the key {record.key!r} by now"
        return None

    def _back(self, plan: KeyPlan, move: Move) -> None:
        label = move.former_label if move.former_label and plan.label_is_free(move.former_label) else None
        current = move.was_current and plan.conversation(move.from_key) is None
        plan.move(Transfer(move.session_id, move.to_key, move.from_key, current), label=label)
