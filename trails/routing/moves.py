"""Sessions that go from one key to another, as one commit: the ground under promotion, merge, and a change of scope.

What is moved is recorded session by session, so that it can be taken back as far as nothing else has happened to those
sessions since, and so that who asks later sees where each came from.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyoxigraph import Literal, NamedNode, Quad

from trails import iris, keys, vocab
from trails.errors import InvalidInput
from trails.plumbing import conversations, leaves
from trails.plumbing.transaction import Transaction, there
from trails.records.conversations import (
    Alias,
    Conversation,
    Move,
    alias_quads,
    belongs,
    conversation_quads,
    move_quads,
    removal_quads,
)
from trails.records.deeds import author_type
from trails.routing.decisions import MovedSession, Moving
from trails.routing.directory import Keyring
from trails.store.contract import PreconditionFailed
from trails.store.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Transfer:
    """A session that is to go to another key, and whether it becomes the current one there."""

    session_id: str
    from_key: str
    to_key: str
    current: bool


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
            found = conversations.find(self.keyring.repository.store, key)
            self._before[key] = self._after[key] = found
        return self._after[key]

    def move(self, step: Transfer, *, label: str | None = None) -> None:
        """Take a session out of one key's conversation and into another's; `label` comes with it where it has none."""
        here, there = self.conversation(step.from_key), self.conversation(step.to_key)
        left = here if here is not None and here.session_id == step.session_id else None
        if left is not None:
            self._after[step.from_key] = None
        if step.current:
            kept = there.label if there is not None and there.label is not None else (left.label if left else None)
            began = there or left
            created = self._created(step.session_id) if began is None else began.created
            self._after[step.to_key] = Conversation(
                key=step.to_key, session_id=step.session_id, label=kept or label, created=created
            )
        self._swap(belongs(step.session_id, step.from_key), belongs(step.session_id, step.to_key))
        self._touched[step.session_id] = None
        self._record(step, left)

    def _created(self, session_id: str) -> datetime:
        return self.keyring.repository.reader.record(session_id).created or self.time

    def _record(self, step: Transfer, left: Conversation | None) -> None:
        made = Move(
            operation=self.operation,
            number=len(self.moved) + 1,
            session_id=step.session_id,
            from_key=step.from_key,
            to_key=step.to_key,
            was_current=left is not None,
            became_current=step.current,
            reason=self.reason,
            by_iri=self.by_iri,
            time=self.time,
            former_label=left.label if left is not None else None,
            undoes=self.undoes,
        )
        self._new |= set(move_quads(made))
        done = {"session_id": step.session_id, "from_key": step.from_key, "to_key": step.to_key}
        self.moved.append(MovedSession(**done, current=step.current))

    def alias(self, name: str, key: str, reason: str) -> None:
        """Let a key that names nothing by itself be found as another one."""
        made = Alias(alias=name, key=key, reason=reason, by_iri=self.by_iri, time=self.time)
        self._grown.add(key)
        self._new |= set(alias_quads(made))
        self._forbid += [
            (NamedNode(iris.alias(each)), vocab.TYPE, None, vocab.CATALOG) for each in keys.spellings(name)
        ]
        self._aliased(made)

    def unalias(self, gone: Alias) -> None:
        """Take an alias away, leaving word of it with the conversation that it stood for."""
        self._old |= set(alias_quads(gone))
        self._grown.add(gone.key)
        self._gone.append(gone)
        self._aliased(gone)

    def redirect(self, alias: Alias, key: str) -> None:
        """Let an alias stand for another key, and remember for which one it stood."""
        moved = alias.model_copy(update={"key": key, "from_key": None if alias.from_key == key else alias.key})
        self._swap(alias_quads(alias), alias_quads(moved))
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
        """Write it all; raise `InvalidInput` where another writer changed one of the keys meanwhile."""
        for key, before in list(self._before.items()):
            if before is not None and self._after[key] is None:
                self._leave(key, before)
        for key in list(self._before):
            self._settle(key)
        self._refuse_dangling()
        for gone in self._gone:
            if self._after[gone.key] is not None:
                self._new |= set(removal_quads(gone, self.by_iri, self.time, secrets.token_hex(4)))
        touched = list(self._touched)
        tx = Transaction()
        tx.add([*(self._new - self._old), author_type(self.by_iri)])
        tx.remove(self._old - self._new)
        tx.require([*self._old, *map(there, touched)])
        for pattern in self._forbid:
            tx.forbid(pattern)
        tx.log(leaves.rows("change", touched))
        tx.commit(self.keyring.repository.store, otherwise=_changed_meanwhile)

    def _refuse_dangling(self) -> None:
        """Refuse a plan whose aliases would stand for nothing: the session to be moved went while it was made."""
        gone = {alias.alias for alias in self._gone}
        for name, key in self.aliases:
            if name not in gone and self._after[key] is None:
                raise InvalidInput(
                    f"another writer deleted or moved the session that {name!r} was to stand for; nothing was written, try again"
                )

    def _settle(self, key: str) -> None:
        """Put what becomes of a touched conversation into the commit."""
        before, after = self._before[key], self._after[key]
        if after is not None and key in self._grown:
            after = after.model_copy(update={"revision": after.revision + 1})
        old = [] if before is None else conversation_quads(before)
        self._old |= set(old)
        self._new |= set([] if after is None else conversation_quads(after))
        self._touched |= {each.session_id: None for each in (before, after) if each is not None}
        if before is None:
            self._forbid.append((NamedNode(iris.conversation(key)), vocab.CURRENT_SESSION, None, vocab.CATALOG))
        if before is None and after is not None and key not in {gone.alias for gone in self._gone}:
            self._forbid.append((NamedNode(iris.alias(key)), vocab.TYPE, None, vocab.CATALOG))

    def _leave(self, key: str, before: Conversation) -> None:
        """Let the aliases of a conversation that goes follow its session; what is said of past ones goes with it."""
        store, node = self.keyring.repository.store, NamedNode(iris.conversation(key))
        target = next((each.to_key for each in self.moved if each.session_id == before.session_id), None)
        for alias in conversations.aliases(store, key):
            if alias.alias not in self._renamed and target is not None:
                self.redirect(alias, target)
        for quad in store.quads((None, vocab.ALIAS_WAS_OF, node, vocab.CATALOG)):
            self._old |= set(store.quads((quad.subject, None, None, vocab.CATALOG)))  # type: ignore[arg-type] # an IRI

    def label_is_free(self, label: str) -> bool:
        """Tell whether no session and no conversation has a label."""
        return not self.keyring.repository.store.quads((None, vocab.LABEL, Literal(label), vocab.CATALOG))

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


def _changed_meanwhile(failure: PreconditionFailed) -> InvalidInput:
    return InvalidInput(f"another writer changed one of the keys meanwhile ({failure}); nothing was written, try again")
