"""The session tree and a plain model go through the same random steps, with crashes between any two of them.

No limit is ever exceeded, no child outlives its parent's grace, and every result is told to the parent exactly once.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyoxigraph import Literal, NamedNode

import trails
from tests.support.machines import Size, walk
from trails import IllegalTransition, InvalidInput, LimitReached, Limits, Tree
from trails.model import iris
from trails.rdf import vocab
from trails.runtime.tree_state import runtime_of

LIMITS = Limits(depth=3, branch_depth=2, children=2, slots=4)
GRACE = timedelta(seconds=30)
LIVE = ("active", "suspended")


@dataclass
class Known:
    """What the model knows of a session."""

    kind: str
    parent: str | None
    depth: int
    expires: datetime | None
    state: str = "active"
    ends_by: datetime | None = None
    stored: int = 0
    pending: int = 0
    status: str | None = None
    ended: datetime | None = None
    decided: bool = False

    @property
    def due(self) -> datetime | None:
        return min((each for each in (self.expires, self.ends_by) if each is not None), default=None)


class TreeMachine(RuleBasedStateMachine):
    """Steps on a tree and on the model; each step says first what the model expects of it."""

    on_disk: ClassVar[bool] = True

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="trails-tree-"))
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.known: dict[str, Known] = {}
        self.mains = 0
        place = self.folder / "store" if self.on_disk else ":memory:"
        self.store = trails.open(place, create=True, durability="process")
        self._take_up()
        self.main("chat")

    def _take_up(self) -> None:
        self.tree = Tree(self.store, clock=lambda: self.now, limits=LIMITS, grace=GRACE)

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        for handle in runtime_of(self.store).sessions.values():
            handle.discard_pending()
        report = self.store.verify()
        self.store.close()
        shutil.rmtree(self.folder)
        assert report.ok, report.findings
        assert report.sessions == len(self.known)

    # --- the model

    def _ids(self, *states: str) -> list[str]:
        return sorted(name for name, known in self.known.items() if known.state in states)

    def _children(self, name: str, *states: str) -> list[str]:
        return [each for each in self._ids(*states) if self.known[each].parent == name]

    def _at_work(self) -> list[str]:
        return [name for name in self._ids("active") if self.known[name].kind != "main"]

    def _end(self, name: str, state: str, status: str) -> None:
        known = self.known[name]
        known.state, known.status, known.ended = state, status, self.now
        if known.kind != "worker":
            known.stored += known.pending
        known.pending = 0
        for child in self._children(name, "suspended"):
            self._end(child, "expired", "expired")
        for child in self._children(name, "active"):
            self.known[child].ends_by = self.known[child].ends_by or self.now + GRACE

    def _why_no_slot(self, parent: str) -> str | None:
        if len(self._children(parent, "active")) >= LIMITS.children:
            return "children"
        return "slots" if len(self._at_work()) >= (LIMITS.slots or 0) else None

    def _why_no_spawn(self, parent: str, kind: str) -> str | None:
        """Return the limit that a spawn would break, or that the parent may spawn nothing now, or None."""
        known = self.known[parent]
        if known.state != "active" or known.ends_by is not None or (known.due is not None and known.due <= self.now):
            return "parent"
        if known.kind == "worker":
            return "leaf"
        if known.depth + 1 > LIMITS.depth:
            return "depth"
        if kind == "branch" and known.depth + 1 > LIMITS.branch_depth:
            return "branch_depth"
        return self._why_no_slot(parent)

    def _one(self, data: st.DataObject) -> str:
        """Draw a session: one that has not ended, more often than not, and of those one that is at work."""
        live, at_work = self._ids(*LIVE), self._ids("active")
        return data.draw(st.sampled_from([*(at_work * 3), *(live * 2), *sorted(self.known)]), label="session")

    def _spawner(self, data: st.DataObject) -> str:
        """Draw a session to spawn from: mostly one that has children already, or is deep, so that limits are met."""
        wide = [name for name in self._ids("active") if self._children(name, "active")]
        deep = [name for name in self._ids("active") if self.known[name].depth > 0]
        return data.draw(st.sampled_from([*(wide * 4), *(deep * 2), *sorted(self.known)]), label="parent")

    # --- steps

    @precondition(lambda self: len(self.known) < 60)
    @rule(channel=st.sampled_from(["chat", "mail"]))
    def main(self, channel: str) -> None:
        held = next(
            (
                name
                for name in self._ids("active")
                if name.startswith(f"{channel}-") and self.known[name].kind == "main"
            ),
            None,
        )
        self.mains += 1
        made = self.tree.main("planner", channel, id=f"{channel}-{self.mains}")
        if held is not None:
            assert made.id == held
            with pytest.raises(LimitReached):
                self.tree.spawn(None, "main", agent="planner", channel=channel)
        else:
            self.known[made.id] = Known("main", None, 0, None)

    @precondition(lambda self: self.known and len(self.known) < 60)
    @rule(data=st.data(), kind=st.sampled_from(["branch", "branch", "worker"]), minutes=st.sampled_from([None, 1, 90]))
    def spawn(self, data: st.DataObject, kind: str, minutes: int | None) -> None:
        parent, name = self._spawner(data), f"s{len(self.known)}"
        why = self._why_no_spawn(parent, kind)
        ttl = None if minutes is None else timedelta(minutes=minutes)

        def spawn() -> object:
            return self.tree.spawn(parent, kind, f"task of {name}", ttl=ttl, id=name)

        event(f"spawn: {why}")
        if why == "parent":
            with pytest.raises(InvalidInput):
                spawn()
        elif why is not None:
            with pytest.raises(LimitReached) as refused:
                spawn()
            assert refused.value.limit == why
        else:
            spawn()
            lives = ttl or timedelta(minutes=30 if kind == "branch" else 5)
            self.known[name] = Known(kind, parent, self.known[parent].depth + 1, self.now + lives)

    @precondition(lambda self: self.known and len(self.known) < 60)
    @rule(data=st.data(), kinds=st.lists(st.sampled_from(["branch", "branch", "worker"]), min_size=2, max_size=4))
    def spawn_some(self, data: st.DataObject, kinds: list[str]) -> None:
        for kind in kinds:
            self.spawn(data, kind, None)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        name = self._one(data)
        known = self.known[name]
        if known.state != "active":
            with pytest.raises(InvalidInput):
                self.tree.get(name).append("assistant", "hm")
            return
        self.tree.get(name).append("assistant", "hm")
        known.pending += 1
        if known.kind == "main":
            known.stored, known.pending = known.stored + known.pending, 0

    @precondition(lambda self: self.known)
    @rule(data=st.data(), status=st.sampled_from(["completed", "failed"]))
    def end(self, data: st.DataObject, status: str) -> None:
        name = self._one(data)

        def end() -> object:
            return self.tree.get(name).complete("done") if status == "completed" else self.tree.get(name).fail("no")

        if self.known[name].state == "active":
            self.append(data)
            end()
            self._end(name, status, status)
            assert len(self.store.load(name)) == self.known[name].stored
        else:
            with pytest.raises(IllegalTransition):
                end()

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def suspend(self, data: st.DataObject) -> None:
        name = self._one(data)
        known = self.known[name]
        if (known.kind, known.state, known.ends_by) == ("branch", "active", None):
            self.tree.get(name).append("assistant", "so far")
            self.tree.get(name).suspend()
            known.state, known.stored, known.pending = "suspended", known.stored + known.pending + 1, 0
            assert len(self.store.load(name)) == known.stored
        else:
            with pytest.raises(IllegalTransition):
                self.tree.get(name).suspend()

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        name = self._one(data)
        known = self.known[name]
        if known.state != "suspended":
            with pytest.raises(IllegalTransition):
                self.tree.get(name).resume()
        elif known.expires is not None and known.expires <= self.now:
            with pytest.raises(InvalidInput):
                self.tree.get(name).resume()
        elif self._why_no_slot(known.parent or "") is not None:
            with pytest.raises(LimitReached):
                self.tree.get(name).resume()
        else:
            self.tree.get(name).resume()
            known.state = "active"

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = self._one(data)
        known = self.known[name]
        if known.state not in LIVE:
            with pytest.raises(IllegalTransition):
                self.tree.get(name).cancel()
            return
        self.tree.get(name).cancel()
        if known.state == "suspended":
            self._end(name, "expired", "cancelled")
        else:
            known.ends_by = known.ends_by or self.now + GRACE

    @rule(seconds=st.sampled_from([1, 15, 30, 61, 300, 1800]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        due = sorted(
            (known.due, name) for name, known in self.known.items() if known.state in LIVE and known.due is not None
        )
        ended = []
        for when, name in due:
            known = self.known[name]
            if when <= self.now and known.state in LIVE:
                before = set(self._ids(*LIVE))
                cancelled = known.state == "active" and known.ends_by is not None and known.ends_by <= self.now
                self._end(name, *(("failed", "cancelled") if cancelled else ("expired", "expired")))
                ended += [name, *sorted(before - set(self._ids(*LIVE)) - {name})]
        assert self.tree.sweep() == ended

    @rule(count=st.integers(0, 3))
    def suspend_the_idlest(self, count: int) -> None:
        may = {name for name in self._at_work() if self.known[name].kind == "branch" and not self.known[name].ends_by}
        done = self.tree.suspend_idlest(count)
        assert len(done) == min(count, len(may))
        assert set(done) <= may
        for name in done:
            known = self.known[name]
            known.state, known.stored, known.pending = "suspended", known.stored + known.pending, 0

    @precondition(lambda self: self._undecided())
    @rule(data=st.data(), take=st.booleans())
    def decide(self, data: st.DataObject, take: bool) -> None:
        name = data.draw(st.sampled_from(self._undecided()), label="result")
        known = self.known[name]
        parent = self.known[known.parent or ""]
        result = self.tree.get(name).result
        assert result is not None
        if take and parent.state != "active":
            with pytest.raises(InvalidInput):
                self.tree.incorporate(result)
            return
        if take:
            turn = self.tree.incorporate(result)
            assert turn.derived_from is not None
            assert turn.derived_from.session_id == name
            parent.stored, parent.pending = parent.stored + parent.pending + 1, 0
        else:
            self.tree.dismiss(result)
        known.decided = True
        with pytest.raises(InvalidInput):
            self.tree.incorporate(result)

    def _undecided(self) -> list[str]:
        return sorted(
            name
            for name, known in getattr(self, "known", {}).items()
            if known.status and known.parent and not known.decided
        )

    @rule()
    def crash(self) -> None:
        for handle in runtime_of(self.store).sessions.values():
            handle.discard_pending()  # what was in memory is gone
        if self.on_disk:
            self.store.close()
            self.store = trails.open(self.folder / "store", durability="process")
        else:
            del vars(self.store)["_runtime_states"]
        at_work = sorted(self._at_work(), key=lambda name: (self.known[name].depth, name))
        for name in self._ids("active"):
            self.known[name].pending = 0
        self._take_up()
        assert list(self.tree.recovered) == at_work
        asked = {name: self.known[name].ends_by for name in at_work}
        for name in at_work:
            self._end(name, "failed", "failed")
        for name in at_work:
            self.known[name].ends_by = asked[name]  # those that fail together are not asked first

    # --- what always holds

    @invariant()
    def all_is_as_the_model_has_it(self) -> None:
        if not hasattr(self, "known"):
            return
        for name, known in self.known.items():
            assert self.tree.get(name).state == known.state, name
        for known in self.known.values():
            parent = self.known.get(known.parent or "")
            if known.state in LIVE and parent is not None and parent.ended is not None:
                assert known.ends_by is not None
                assert known.state == "active"
                assert self.now < max(parent.ended + GRACE, known.ends_by)

    @invariant()
    def no_limit_is_exceeded_in_the_store(self) -> None:
        if not hasattr(self, "known"):
            return
        taken = Counter(str(quad.object) for quad in self.store.store.quads((None, vocab.SLOT, None, None)))
        assert set(taken.values()) <= {1}
        assert sum(taken.values()) == len(self._ids("active"))
        by_parent = Counter(self.known[name].parent for name in self._at_work())
        assert max(by_parent.values(), default=0) <= LIMITS.children
        assert len(self._at_work()) <= (LIMITS.slots or 0)

    @rule()
    def every_result_is_told_once(self) -> None:
        waiting: list[str] = []
        for name, known in self.known.items():
            waiting += [result.session_id for result in self.tree.get(name).results()]
            result = self.tree.get(name).result
            assert (None if result is None else result.status) == known.status
            assert len(self.store.load(name)) == known.stored
            if known.parent is not None:
                graph = NamedNode(iris.ledger(iris.session(known.parent)))
                told = self.store.store.quads((None, vocab.EVENT_ID, Literal(name), graph))
                assert len(told) == (known.status is not None)
        assert sorted(waiting) == self._undecided()

    @rule()
    def nothing_is_to_be_found(self) -> None:
        assert self.store.verify().ok
        for name in ("tree-too-wide", "tree-two-mains"):
            assert self._asked(name) == []
        assert self._asked("tree-too-deep", depth=LIMITS.depth, branch_depth=LIMITS.branch_depth) == []
        late = [row for row in self._asked("tree-orphans") if row["ends"] is None]
        assert late == []

    def _asked(self, name: str, **parameters: Any) -> list[dict[str, Any]]:
        return self.store.query(name, **parameters).to_dicts()  # type: ignore[union-attr] # a SELECT


class InMemory(TreeMachine):
    """The same on a store in memory, where a crash takes what the process knew of the tree."""

    on_disk = False


@pytest.mark.parametrize("machine", [TreeMachine, InMemory], ids=["disk", "memory"])
def test_a_tree_and_a_model_go_through_the_same_steps(machine: type[TreeMachine], size: Size) -> None:
    walk(machine, size, quick=(3, 30), all=(10, 40), long=(100, 100))
