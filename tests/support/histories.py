"""PROV that is valid because it happened: a small simulation writes down what it does, in the order in which it does it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Final

from trails.provenance import Statement

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
EX: Final = "http://example.org/"


class History:
    """A world of activities, entities and agents that goes on step by step; each step has its own second."""

    def __init__(self, seed: int, steps: int = 40) -> None:
        self._random = random.Random(seed)
        self._second = 0
        self._count = 0
        self.statements: list[Statement] = []
        self.entities: list[str] = []
        self.agents = [self._declared("agent", "ag") for _ in range(3)]
        self.activities = [self._activity()]
        self._general: set[str] = set()
        usual = (self._make, self._make, self._use, self._begin, self._attribute, self._describe)
        seldom = (self._derive, self._end, self._destroy, self._delegate, self._collect, self._link)
        self._make()
        self._make()
        for _ in range(steps):
            self._random.choice(usual if self._random.random() < 0.5 else seldom)()

    def time(self) -> str:
        """Return the time of the next second."""
        self._second += 1
        return (START + timedelta(seconds=self._second)).isoformat().replace("+00:00", "Z")

    def fresh(self, what: str) -> str:
        """Return a name that stands nowhere yet."""
        self._count += 1
        return f"{EX}{what}{self._count}"

    def _declared(self, kind: str, what: str) -> str:
        name = self.fresh(what)
        self.statements.append(Statement(kind, name))
        return name

    def _activity(self) -> str:
        name = self.fresh("a")
        self.statements.append(Statement("activity", name, (self.time(), None)))
        agent = self._random.choice(self.agents)
        self.statements.append(Statement("wasAssociatedWith", self.fresh("assoc"), (name, agent, None)))
        return name

    def _begin(self) -> None:
        name = self._activity()
        if self.entities and self._random.random() < 0.5:
            trigger = self._random.choice(self.entities)
            self.statements.append(Statement("wasStartedBy", self.fresh("start"), (name, trigger, None, None)))
        self.statements.append(Statement("wasInformedBy", None, (name, self._random.choice(self.activities))))
        self.activities.append(name)

    def _make(self) -> None:
        made = self._declared("entity", "e")
        by = self._random.choice(self.activities)
        generation = self.fresh("gen")
        self.statements.append(Statement("wasGeneratedBy", generation, (made, by, self.time())))
        if self.entities:
            source = self._random.choice(self.entities)
            self.statements.append(Statement("wasDerivedFrom", None, (made, source, None, None, None)))
        self.entities.append(made)

    def _use(self) -> None:
        if self.entities:
            used = self._random.choice(self.entities)
            by = self._random.choice(self.activities)
            self.statements.append(Statement("used", self.fresh("use"), (by, used, self.time())))

    def _attribute(self) -> None:
        if self.entities:
            entity, agent = self._random.choice(self.entities), self._random.choice(self.agents)
            self.statements.append(Statement("wasAttributedTo", None, (entity, agent)))

    def _describe(self) -> None:
        if len(self.entities) > 1:
            general, specific = sorted(self._random.sample(range(len(self.entities)), 2))
            pair = (self.entities[specific], self.entities[general])
            self._general.add(pair[1])
            self.statements.append(Statement("specializationOf", None, pair))

    def _derive(self) -> None:
        """Make an entity from another by an activity that read it for that, with all that can be said of it."""
        if self.entities:
            source, by = self._random.choice(self.entities), self._random.choice(self.activities)
            use, generation = self.fresh("use"), self.fresh("gen")
            self.statements.append(Statement("used", use, (by, source, self.time())))
            made = self._declared("entity", "e")
            self.statements.append(Statement("wasGeneratedBy", generation, (made, by, self.time())))
            self.statements.append(Statement("wasDerivedFrom", self.fresh("der"), (made, source, by, generation, use)))
            self.entities.append(made)

    def _end(self) -> None:
        """End an activity for good, but for the first one."""
        if len(self.activities) > 2:
            ended = self.activities.pop(self._random.randrange(1, len(self.activities)))
            self.statements.append(Statement("wasEndedBy", self.fresh("end"), (ended, None, None, self.time())))

    def _destroy(self) -> None:
        """Take an entity away for good, but for the first one and those that others are special cases of."""
        able = [entity for entity in self.entities[1:] if entity not in self._general]
        if len(able) > 1:
            gone, by = self._random.choice(able), self._random.choice(self.activities)
            self.entities.remove(gone)
            self.statements.append(Statement("wasInvalidatedBy", self.fresh("inv"), (gone, by, self.time())))

    def _delegate(self) -> None:
        delegate, responsible = self._random.sample(self.agents, 2)
        by = self._random.choice(self.activities)
        self.statements.append(Statement("actedOnBehalfOf", None, (delegate, responsible, by)))

    def _collect(self) -> None:
        if self.entities:
            collection = self._declared("entity", "c")
            self.statements.append(Statement("hadMember", None, (collection, self._random.choice(self.entities))))

    def _link(self) -> None:
        if len(self.entities) > 1:
            one, two = self._random.sample(self.entities, 2)
            self.statements.append(Statement("alternateOf", None, (one, two)))
            self.statements.append(Statement("wasInfluencedBy", self.fresh("inf"), (one, two)))
