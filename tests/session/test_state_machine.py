"""A store on disk and a plain dict go through the same random steps, and always hold the same sessions."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import trails
from tests.support.machines import Size, walk
from trails import HasChildren, InvalidInput, Session, SessionNotFound

_CONTENTS = st.one_of(
    st.text(min_size=1, max_size=20),
    st.sampled_from(["\0", "line\r\nend", "\u2028", "e\u0301 \u00e9", '"} ; DROP ALL', "\U0001f9ed"]),
)
_BAD = st.sampled_from(
    [
        ("", "x"),
        ("user", ""),
        ("user", "\ud800"),
        ("user", 7),
        ("two words", "x"),
        ("user", [{"n": float("nan")}]),
        ("user", [3]),
        (None, "x"),
    ]
)


@dataclass(frozen=True)
class Known:
    """What the model knows of a stored session. A turn is (role, content, branch)."""

    turns: tuple[tuple[str, Any, str], ...] = ()
    parent: str | None = None
    at: int = 0
    label: str | None = None
    redacted: frozenset[int] = field(default_factory=frozenset)


class StoreMachine(RuleBasedStateMachine):
    """Steps on a store and on the model. Handles are kept open, so that their pending turns outlive other steps."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trails-machine-"))
        self.store = trails.open(self.folder / "store", create=True, durability="process")
        self.known: dict[str, Known] = {}
        self.deleted: set[str] = set()
        self.handles: dict[str, Session] = {}
        self.pending: dict[str, list[tuple[str, Any, str]]] = {}
        self.made = 0

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        for handle in self.handles.values():
            handle.discard_pending()
        report = self.store.verify()
        self.store.close()
        shutil.rmtree(self.folder)
        assert report.ok, report.findings
        assert report.sessions == len(self.known)

    # --- helpers

    def _new_id(self) -> str:
        self.made += 1
        return f"s{self.made}"

    def _one(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.known)), label="session")

    def _handle(self, name: str) -> Session:
        if name not in self.handles:
            self.handles[name] = self.store.load(name)
            self.pending[name] = []
        return self.handles[name]

    def _persisted(self, name: str) -> None:
        known = self.known[name]
        self.known[name] = replace(known, turns=(*known.turns, *self.pending[name]))
        self.pending[name] = []

    def _drop_handle(self, name: str) -> None:
        if name in self.handles:
            self.handles.pop(name).discard_pending()
            self.pending.pop(name)

    def _children(self, name: str) -> list[str]:
        return [child for child, known in self.known.items() if known.parent == name]

    def _below(self, name: str) -> list[str]:
        return [name, *(each for child in self._children(name) for each in self._below(child))]

    # --- steps

    @rule(contents=st.lists(_CONTENTS, max_size=3))
    def create(self, contents: list[str]) -> None:
        name = self._new_id()
        session = self.store.create(id=name, principal="alice")
        for content in contents:
            session.append("user", content)
        assert session.persist() == len(contents)
        self.handles[name], self.pending[name] = session, []
        self.known[name] = Known(tuple(("user", content, "main") for content in contents))

    @precondition(lambda self: self.known)
    @rule(
        data=st.data(),
        role=st.sampled_from(["user", "assistant", "tool"]),
        contents=st.lists(_CONTENTS, min_size=1, max_size=3),
    )
    def append(self, data: st.DataObject, role: str, contents: list[str]) -> None:
        name = self._one(data)
        handle = self._handle(name)
        for content in [*contents, ""] if role == "tool" else contents:
            turn = handle.append(role, content)
            assert turn.index == len(self.known[name].turns) + len(self.pending[name])
            self.pending[name].append((role, content, handle.branch))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), bad=_BAD)
    def fail_to_append(self, data: st.DataObject, bad: tuple[Any, Any]) -> None:
        handle = self._handle(self._one(data))
        before = handle.turns
        with pytest.raises(InvalidInput):
            handle.append(*bad)
        assert handle.turns == before

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def persist(self, data: st.DataObject) -> None:
        name = self._one(data)
        assert self._handle(name).persist() == len(self.pending[name])
        self._persisted(name)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), contents=st.lists(_CONTENTS, max_size=2))
    def fork(self, data: st.DataObject, contents: list[str]) -> None:
        parent = self._one(data)
        handle = self._handle(parent)
        at = data.draw(st.integers(0, len(handle)), label="at")
        name = self._new_id()
        fork = handle.fork(at=at, id=name)
        self._persisted(parent)
        for content in contents:
            fork.append("assistant", content)
        fork.persist()
        self.handles[name], self.pending[name] = fork, []
        own = tuple(("assistant", content, fork.branch) for content in contents)
        redacted = frozenset(index for index in self.known[parent].redacted if index < at)
        self.known[name] = Known((*self.known[parent].turns[:at], *own), parent, at, redacted=redacted)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), past=st.integers(1, 5))
    def fail_to_fork(self, data: st.DataObject, past: int) -> None:
        handle = self._handle(self._one(data))
        for at in (len(handle) + past, -past):
            with pytest.raises(InvalidInput):
                handle.fork(at=at)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), children=st.sampled_from(["refuse", "cascade", "detach"]))
    def delete(self, data: st.DataObject, children: Any) -> None:
        name = self._one(data)
        below = self._children(name)
        if below and children == "refuse":
            with pytest.raises(HasChildren):
                self.store.delete(name)
            return
        doomed = self._below(name) if children == "cascade" else [name]
        assert sorted(self.store.delete(name, children=children)) == sorted(doomed)
        for each in doomed:
            self._drop_handle(each)
            del self.known[each]
            self.deleted.add(each)
        for child in below if children == "detach" else ():
            self._cut_loose(child)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        name = self._one(data)
        self._handle(name).detach()
        self._persisted(name)
        self._cut_loose(name, keep=True)

    def _cut_loose(self, name: str, *, keep: bool = False) -> None:
        """The session has no parent any more. A handle from before does not know: others load it anew."""
        self.known[name] = replace(self.known[name], parent=None, at=0)
        for each in self._below(name):
            if each != name or not keep:
                self._drop_handle(each)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def flatten(self, data: st.DataObject) -> None:
        source, name = self._one(data), self._new_id()
        self._handle(source).flatten(id=name)
        self._persisted(source)
        self.known[name] = Known(self.known[source].turns, redacted=self.known[source].redacted)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), label=st.sampled_from([None, "one", "two", "three"]))
    def label(self, data: st.DataObject, label: str | None) -> None:
        name = self._one(data)
        owner = next((other for other, known in self.known.items() if label is not None and known.label == label), None)
        if owner not in (None, name):
            with pytest.raises(InvalidInput, match="belongs to session"):
                self.store.set_label(name, label)
            return
        self.store.set_label(name, label)
        self.known[name] = replace(self.known[name], label=label)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def redact(self, data: st.DataObject) -> None:
        name = self._one(data)
        if not self.known[name].turns:
            return
        index = data.draw(st.integers(0, len(self.known[name].turns) - 1), label="index")
        digest = self.store.load(name).turns[index].digest
        self.store.redact(name, index)
        for each, known in list(self.known.items()):
            if len(known.turns) > index and self.store.load(each).turns[index].digest == digest:
                self.known[each] = replace(known, redacted=known.redacted | {index})
        for each in list(self.handles):
            self._drop_handle(each)

    @precondition(lambda self: self.deleted)
    @rule(data=st.data())
    def find_nothing_of_the_deleted(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.deleted)))
        with pytest.raises(SessionNotFound, match="deleted"):
            self.store.load(name)
        with pytest.raises(InvalidInput, match="deleted"):
            self.store.create(id=name).persist()

    @rule()
    def reopen(self) -> None:
        for name in list(self.handles):
            self._drop_handle(name)
        self.store.close()
        self.store = trails.open(self.folder / "store", durability="process")
        assert sorted(record.id for record in self.store.list(limit=1000)) == sorted(self.known)
        for name in self.known:
            self._compare(name)

    @rule()
    def back_up(self) -> None:
        self.made += 1
        folder = self.folder / f"backup{self.made}"
        self.store.maintenance.backup(folder)
        with trails.open(folder) as copy:
            assert sorted(record.id for record in copy.list(limit=1000)) == sorted(self.known)
            for name in self.known:
                self._compare(name, copy)
            report = copy.verify()
            assert report.ok, report.findings
        shutil.rmtree(folder)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        self._compare(self._one(data))

    @rule()
    def verify(self) -> None:
        report = self.store.verify()
        assert report.ok, report.findings
        assert report.sessions == len(self.known)

    def _compare(self, name: str, store: trails.Repository | None = None) -> None:
        store = store or self.store
        known, loaded = self.known[name], store.load(name)
        assert [turn.redacted for turn in loaded.turns] == [
            index in known.redacted for index in range(len(known.turns))
        ]
        found = [(turn.role, turn.content, turn.branch) for turn in loaded.turns if not turn.redacted]
        assert found == [turn for index, turn in enumerate(known.turns) if index not in known.redacted]
        assert (loaded.parent_session_id, loaded.record.starts_at, loaded.label) == (
            known.parent,
            known.at,
            known.label,
        )
        assert [turn["content"] for turn in store.replay(name)] == [turn.content for turn in loaded.turns]
        assert sorted(record.id for record in store.branches(name)) == sorted(self._children(name))

    @invariant()
    def what_is_pending_is_in_the_handles_alone(self) -> None:
        for name, handle in getattr(self, "handles", {}).items():
            assert handle.pending == len(self.pending[name])
            assert len(handle) == len(self.known[name].turns) + len(self.pending[name])


def test_a_store_and_a_model_go_through_the_same_steps(size: Size) -> None:
    walk(StoreMachine, size, quick=(3, 30), all=(10, 50), long=(100, 100))
