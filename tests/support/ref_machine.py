"""Refs of a store and plain lists go through the same random steps, and always hold the same texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from trails import HeadConflict, Repository
from trails.session.checkout import Checkout

NAMES = st.sampled_from(["a", "b", "c"])
_COUNTS = st.integers(0, 4)


class RefMachine(RuleBasedStateMachine):
    """Steps on the refs of a store and on a list for each. Of each ref, two checkouts are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.begun()
        self.model: dict[str, list[str]] = {}
        self.held: dict[tuple[str, int], Checkout] = {}
        self.number = 0

    @classmethod
    def begun(cls) -> Repository:
        """Return a new store."""
        raise NotImplementedError

    @classmethod
    def again(cls, store: Repository) -> Repository:
        """Return the same store, closed and opened again if that can be."""
        return store

    def texts(self, count: int) -> Iterator[str]:
        for _ in range(count):
            self.number += 1
            yield f"turn {self.number}"

    def checkout(self, name: str, which: int) -> Checkout:
        """Return one of the two checkouts of a ref: the first is as fresh as can be, the second as old as it is."""
        if (name, which) not in self.held:
            self.held[name, which] = self.store.checkout(name, create=True)
        found = self.held[name, which]
        if which == 0:
            found.refresh()
        return found

    def do(self, name: str, which: int, step: Callable[[Checkout], Any], on_list: Callable[[list[str]], None]) -> None:
        """Take a step on a ref; what conflicts is done again after a refresh, and must then be done."""
        found = self.checkout(name, which)
        if not len(found):
            found.refresh()  # what sees no turns has none to take back, and asks nobody
        model = self.model.setdefault(name, []) if name in self.model else []
        try:
            step(found)
        except HeadConflict:
            assert which == 1
            found.discard_pending()
            found.refresh()
            assert [turn.text for turn in found] == model
            step(found)
        on_list(model)
        if name in self.store.refs:
            self.model[name] = model

    @rule(name=NAMES, which=st.integers(0, 1), count=st.integers(1, 3))
    def append(self, name: str, which: int, count: int) -> None:
        texts = list(self.texts(count))

        def step(found: Checkout) -> None:
            for text in texts:
                found.append("user", text)
            assert found.persist() == count

        self.do(name, which, step, lambda model: model.extend(texts))

    @rule(name=NAMES, which=st.integers(0, 1), count=_COUNTS)
    def pop(self, name: str, which: int, count: int) -> None:
        if name in self.model:

            def step(found: Checkout) -> None:
                wanted = [turn.text for turn in found][max(0, len(found) - count) :]
                assert [turn.text for turn in found.pop(count)] == wanted

            self.do(name, which, step, lambda model: model.__delitem__(slice(max(0, len(model) - count), None)))

    @rule(name=NAMES, which=st.integers(0, 1))
    def clear(self, name: str, which: int) -> None:
        if name in self.model:
            self.do(name, which, lambda found: found.clear(), lambda model: model.clear())

    @rule(name=NAMES, taken=_COUNTS, count=st.integers(0, 2))
    def update(self, name: str, taken: int, count: int) -> None:
        texts = list(self.texts(count))

        def change(found: Checkout) -> None:
            found.pop(taken)
            for text in texts:
                found.append("user", text)

        found = self.checkout(name, 1)
        found.discard_pending()
        found.update(change)
        model = self.model.get(name, [])
        self.model[name] = [*model[: max(0, len(model) - taken)], *texts]

    @rule(name=NAMES, taken=_COUNTS)
    def pop_what_is_pending_too(self, name: str, taken: int) -> None:
        found = self.checkout(name, 0)
        for text in self.texts(2):
            found.append("user", text)
        found.pop(2 + taken)
        found.persist()
        model = self.model.get(name, [])
        self.model[name] = model[: max(0, len(model) - taken)]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), other=NAMES)
    def branch(self, data: st.DataObject, other: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        at = data.draw(st.integers(0, len(self.model[name])))
        self.store.refs.set(other, name, at)
        self.model[other] = self.model[name][:at]

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def batch(self, data: st.DataObject) -> None:
        names = data.draw(st.lists(st.sampled_from(sorted(self.model)), min_size=2, max_size=2, unique=True))
        found = [self.checkout(name, 0) for name in names]
        if len({each.session_id for each in found}) < 2:
            return
        number = self.store.store.number
        with self.store.commit() as batch:
            for name, each in zip(names, found, strict=True):
                batch.add(each)
                each.pop()
                (text,) = self.texts(1)
                each.append("user", text)
                self.model[name] = [*self.model[name][:-1], text]
        assert self.store.store.number == number + 1

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.store.refs.remove(name)
        del self.model[name]
        for which in (0, 1):
            if (held := self.held.pop((name, which), None)) is not None:
                held.discard_pending()

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        self.store.detach(self.store.refs[data.draw(st.sampled_from(sorted(self.model)))].session_id)
        self.let_go()

    @rule()
    def open_again(self) -> None:
        self.let_go()
        self.store = self.again(self.store)

    def let_go(self) -> None:
        for held in self.held.values():
            held.discard_pending()
        self.held.clear()

    @invariant()
    def the_refs_hold_what_the_lists_hold(self) -> None:
        stored = {ref.name: [turn.text for turn in self.store.checkout(ref.name)] for ref in self.store.refs}
        assert stored == self.model

    def teardown(self) -> None:
        try:
            report = self.store.verify()
            assert (report.ok, report.findings) == (True, ())
        finally:
            self.let_go()
            self.store.close()
