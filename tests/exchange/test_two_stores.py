"""Two stores that push and pull at random: everything that was ever said is at both sides in the end, and nothing changed."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import trails
from tests.support.machines import Size, walk
from trails import HasChildren

SIDES = st.sampled_from(["ours", "theirs"])
NAMES = st.sampled_from(["a", "b", "c"])
PICKS = st.integers(0, 50)


class TwoStores(RuleBasedStateMachine):
    """Sessions are made, grown, forked and redacted at both sides, under the same names too."""

    def __init__(self) -> None:
        super().__init__()
        self.stores = {"ours": trails.open(":memory:"), "theirs": trails.open(":memory:")}
        self.said = 0
        self.heads: dict[str, dict[str, str]] = {"ours": {}, "theirs": {}}
        """By side, the digest of each transcript's last turn that was ever there, and the session that had it."""
        self.redacted: set[str] = set()
        """The digests of turns that were redacted on any side."""

    def teardown(self) -> None:
        for store in self.stores.values():
            store.close()

    def _text(self) -> str:
        self.said += 1
        return f"text {self.said}"

    def _ids(self, side: str) -> list[str]:
        return sorted(self.stores[side].reader.ids())

    def _note(self, side: str, name: str) -> None:
        head = self.stores[side].load(name).head
        if head is not None:
            self.heads[side][head] = name

    @rule(side=SIDES, name=NAMES)
    def make(self, side: str, name: str) -> None:
        store = self.stores[side]
        if name not in store and not store.reader.is_deleted(name):
            session = store.create(id=name)
            session.append("user", self._text())
            session.persist()
            self._note(side, name)

    @rule(side=SIDES, pick=PICKS, count=st.integers(1, 3))
    def grow(self, side: str, pick: int, count: int) -> None:
        if ids := self._ids(side):
            session = self.stores[side].load(ids[pick % len(ids)])
            for _ in range(count):
                session.append("user", self._text())
            session.persist()
            self._note(side, session.id)

    @rule(side=SIDES, pick=PICKS, at=PICKS, name=NAMES)
    def fork(self, side: str, pick: int, at: int, name: str) -> None:
        store, ids = self.stores[side], self._ids(side)
        wanted = f"f{name}"
        if ids and wanted not in store and not store.reader.is_deleted(wanted):
            parent = store.load(ids[pick % len(ids)])
            made = parent.fork(at % (len(parent) + 1), id=wanted)
            made.append("user", self._text())
            made.persist()
            self._note(side, wanted)

    @rule(side=SIDES, pick=PICKS, at=PICKS)
    def redact(self, side: str, pick: int, at: int) -> None:
        if ids := self._ids(side):
            session = self.stores[side].load(ids[pick % len(ids)])
            if len(session):
                index = at % len(session)
                self.redacted.add(session.turns[index].digest)
                self.stores[side].redact(session.id, index)

    @rule(side=SIDES, pick=PICKS)
    def detach(self, side: str, pick: int) -> None:
        if ids := self._ids(side):
            self.stores[side].detach(ids[pick % len(ids)])

    @rule(side=SIDES, pick=PICKS)
    def delete(self, side: str, pick: int) -> None:
        if ids := self._ids(side):
            try:
                self.stores[side].delete(ids[pick % len(ids)])
            except HasChildren:
                return
            gone = {head for head, name in self.heads[side].items() if name == ids[pick % len(ids)]}
            self.heads[side] = {head: name for head, name in self.heads[side].items() if head not in gone}

    @precondition(lambda self: self._ids("ours"))
    @rule(pick=PICKS)
    def push(self, pick: int) -> None:
        ids = self._ids("ours")
        self._moved(
            "ours",
            "theirs",
            ids[pick % len(ids)],
            trails.push(self.stores["ours"], ids[pick % len(ids)], self.stores["theirs"]),
        )

    @precondition(lambda self: self._ids("theirs"))
    @rule(pick=PICKS)
    def pull(self, pick: int) -> None:
        ids = self._ids("theirs")
        self._moved(
            "theirs",
            "ours",
            ids[pick % len(ids)],
            trails.pull(self.stores["ours"], ids[pick % len(ids)], self.stores["theirs"]),
        )

    def _moved(self, source: str, target: str, name: str, done: trails.Moved) -> None:
        """Hold what is said of a move against what both sides hold."""
        moved = {each.session_id: each for each in done.sessions}[name]
        if not done.ok:
            assert moved.outcome in ("deleted", "refused")
            return
        mine = [turn.digest for turn in self.stores[source].load(name).turns]
        theirs = [turn.digest for turn in self.stores[target].load(moved.there).turns]
        assert theirs[: len(mine)] == mine
        assert (len(theirs) > len(mine)) <= (moved.outcome in ("behind", "unchanged"))
        self._note(target, moved.there)
        again = trails.push(self.stores[source], name, self.stores[target])
        assert {each.turns_added for each in again.sessions} == {0}

    @invariant()
    def nothing_that_was_there_is_gone_or_changed(self) -> None:
        for side, store in self.stores.items():
            for head, name in self.heads[side].items():
                assert head in [turn.digest for turn in store.load(name).turns], (side, name)

    @invariant()
    def what_was_redacted_before_it_came_has_no_text(self) -> None:
        for store in self.stores.values():
            for name in store.reader.ids():
                for turn in store.load(name).turns:
                    if turn.redacted:
                        assert turn.digest in self.redacted

    @invariant()
    def both_stores_verify(self) -> None:
        for store in self.stores.values():
            report = store.verify()
            assert report.ok, report.findings


def test_two_stores_that_push_and_pull_lose_nothing(size: Size) -> None:
    walk(TwoStores, size, quick=(8, 25), all=(60, 60), long=(600, 100))
