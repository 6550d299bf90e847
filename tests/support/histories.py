"""PROV that is valid because it happened: a small simulation writes down what it does, in the order in which it does it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Final

from trails.prov import Statement

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
        for _ in range(steps):
            self._random.choice((self._make, self._make, self._use, self._begin, self._attribute, self._describe))()

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
            self.statements.append(Statement("specializationOf", None, pair))
