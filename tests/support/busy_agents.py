"""Stores drawn by lot, with at least three of all that queries on people, work and removals ask for, copies too."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

import trails
from trails import Compaction, InvalidInput, Repository, Session
from trails.runtime.policy.entry_patches import ModelHost, ModelRef
from trails.runtime.tree.tree_node import Node

START: Final = datetime(2026, 1, 5, 8, tzinfo=UTC)
PEOPLE: Final = ("alice", "bob", "carol")
AGENTS: Final = ("planner", "scout", "cook")
MODELS: Final = ("big", "small", "tiny")
TOOLS: Final = ("look", "count", "send")
WORDS: Final = ("snow", "train", "hut", "soup", "map")


def seeds(config: pytest.Config) -> Sequence[int]:
    """Return the seeds of the stores that are drawn in a run: one for `make test`, in whose store all is that is counted."""
    if config.getoption("--long"):
        return range(30)
    return range(6) if config.getoption("--all") else (1,)


def _two_an_hour(_: trails.Step) -> str:
    return "Two an hour."


class BusyAgents:
    """A store in which people and agents do as the seed says; each thing that is done has its own minute."""

    def __init__(self, store: Repository, seed: int) -> None:
        self.store = store
        self.chance = random.Random(seed)
        self._minutes = 0
        self._calls = 0
        self.roots = [self._root(f"root-{number}") for number in range(4)]
        self.forks = self._forks()
        self._trees()
        self._keys()
        self._copies()
        self._marks()
        self._removals()

    def now(self) -> datetime:
        """Return the time of the next minute."""
        self._minutes += 1
        return START + timedelta(minutes=self._minutes)

    # --- turns

    def _root(self, name: str) -> Session:
        principal, agent = self.chance.choice(PEOPLE), self.chance.choice(AGENTS)
        made = self.store.create(id=name, principal=principal, agent=agent, created=self.now(), system="Be brief")
        self.talk(made, self.chance.randint(6, 12))
        return made

    def talk(self, session: Session, turns: int) -> None:
        """Append some turns of every sort to a session and store them."""
        open_calls: list[str] = []
        for _ in range(turns):
            what = self.chance.random()
            if what < 0.3:
                self._say(session, "user", author=self.chance.choice((None, None, *PEOPLE, "agent:stranger")))
            elif what < 0.65 or not open_calls:
                open_calls += self._answer(session)
            elif what < 0.9:
                wanted = open_calls.pop(self.chance.randrange(len(open_calls)))
                self._result(session, wanted)
            elif what < 0.95:
                self._say(session, "tool", tool_call_id=f"lost-{self.chance.randint(1, 3)}")
            elif len(session):
                through = self.chance.randrange(len(session))
                told: dict[str, Any] = self.chance.choice(({}, {"tokens_before": 90, "tokens_after": 30}))
                done = Compaction(summarised_through=through, **told)
                self._say(session, "summary", compaction=done)
        session.persist()

    def _say(self, session: Session, role: str, **told: Any) -> None:
        told = {"time": self.now()} | told
        session.append(role, " ".join(self.chance.choices(WORDS, k=3)), **told)

    def _result(self, session: Session, call_id: str) -> None:
        told: dict[str, Any] = {"call_id": call_id, "is_error": self.chance.random() < 0.2}
        if self.chance.random() < 0.6:
            ended = self.now()
            told |= {"started": ended - timedelta(seconds=self.chance.randint(0, 9)), "ended": ended}
            decided = self.chance.choice(("approved_by", "refused_by", None))
            told |= {decided: self.chance.choice((*PEOPLE, "agent:guard"))} if decided else {}
            told["outcome"] = "refused" if decided == "refused_by" else "completed"
        self._say(session, "tool", tool_results=[told])

    def _answer(self, session: Session) -> list[str]:
        asked = []
        for _ in range(self.chance.choice((0, 0, 1, 1, 2))):
            self._calls += 1
            asked.append(f"c{self._calls if self.chance.random() < 0.8 else self.chance.randint(1, 4)}")
        calls = [
            {"id": each, "name": self.chance.choice(TOOLS), "arguments": {"n": 1}} for each in dict.fromkeys(asked)
        ]
        usage = self.chance.choice(
            (None, {"input_tokens": self.chance.randint(1, 99), "output_tokens": 5, "cost": 0.5})
        )
        author = self.chance.choice((None, None, None, "agent:stranger"))
        told: dict[str, Any] = {
            "model": self.chance.choice(MODELS),
            "usage": usage,
            "tool_calls": calls,
            "author": author,
        }
        if self.chance.random() < 0.5:
            ended = self.now()
            took = timedelta(seconds=self.chance.randint(0, 90_000), milliseconds=self.chance.randint(0, 9))
            provider = self.chance.choice((None, "acme", "other"))
            told["call"] = trails.Call(started=ended - took, ended=ended, provider=provider)
            told["time"] = ended
        self._say(session, "assistant", **told)
        return list(dict.fromkeys(asked))

    # --- forks, down to the fourth below a root

    def _forks(self) -> list[Session]:
        made: list[Session] = []
        for root in self.roots[:3]:
            above = root
            for depth in range(self.chance.randint(3, 4)):
                owner = self.chance.choice((None, *PEOPLE))
                name = f"{root.id}-f{depth}"
                fork = above.fork(at=self.chance.randint(0, len(above)), id=name, principal=owner, created=self.now())
                self.talk(fork, self.chance.randint(0, 5))
                fork.persist()
                made.append(fork)
                above = fork if self.chance.random() < 0.8 else root
        return made

    # --- sub-agents

    def _trees(self) -> None:
        tree = trails.Tree(self.store, clock=self.now)
        for number in range(2):
            main = tree.main(f"chief-{number}", "chat", id=f"main-{number}", principal=self.chance.choice(PEOPLE))
            for child in range(3):
                by = self.chance.choice((None, *PEOPLE))
                node = main.spawn("branch", "Look", "As was said", id=f"b{number}{child}", by=by)
                self._work(node, main)
                kind = self.chance.choice(("branch", "worker"))
                inner = node.spawn(kind, "Count", id=f"w{number}{child}", by=by)
                if kind == "branch":
                    self._work(inner, node)
                self._end(tree, inner)
                self._end(tree, node)

    def _work(self, node: Node, above: Node) -> None:
        for _ in range(self.chance.randint(0, 3)):
            node.append("assistant", "Done", model=self.chance.choice(MODELS), time=self.now())
        if self.chance.random() < 0.5:
            node.append(
                "assistant", "I ask", tool_calls=[{"id": "t1", "name": "look", "arguments": {}}], time=self.now()
            )
            told = {"call_id": "t1", "approved_by": self.chance.choice((*PEOPLE, "agent:guard"))}
            node.append("tool", "Seen", tool_results=[told], time=self.now())
        node.append("user", "Hurry", author=self.chance.choice((*PEOPLE, f"agent:{above.agent}", "agent:stranger")))
        node.persist()

    def _end(self, tree: trails.Tree, node: Node) -> None:
        what = self.chance.random()
        if what < 0.2:
            return
        if what < 0.4:
            node.fail("no luck")
        else:
            node.complete("well", artifacts=[("file:///x", "created", "ab" * 32)])
        parent = tree.get(node.parent_id or "")
        for result in parent.results():
            if parent.state == "active" and result.session_id == node.id:
                self.chance.choice((tree.incorporate, tree.incorporate, tree.dismiss, id))(result)

    # --- sessions by key: overrides of models, and runs

    def _keys(self) -> None:
        host = ModelHost(default=ModelRef("maker", "big"), resolve=lambda text: ModelRef("maker", text))
        router = trails.Router(self.store, clock=self.now, models=host)
        for number in range(3):
            key = f"agent:main:desk-{number}"
            session = router.session(key, principal=self.chance.choice(PEOPLE))
            for _ in range(self.chance.randint(2, 4)):
                self.talk(session, 3)
                router.patch(key, {"model": self.chance.choice((None, *MODELS))}, by=self.chance.choice(PEOPLE))
            session = self.store.load(session.id)
            self.talk(session, 4)
        self._runs(router, host)

    def _runs(self, router: trails.Router, host: ModelHost) -> None:
        records: dict[str, Any] = {}
        for number in range(4):
            child = f"agent:scout:subagent:{number}"
            session = router.session(child)
            self.talk(session, 3)
            began = int(self.now().timestamp()) * 1000
            record: dict[str, Any] = {
                "runId": f"r{number}",
                "childSessionKey": child,
                "requesterSessionKey": f"agent:main:desk-{number % 3}",
                "task": "Look around",
                "createdAt": began,
                "startedAt": began,
                "archiveAtMs": began + self.chance.choice((1, 10**7)) * 1000,
            }
            if self.chance.random() < 0.8:
                record |= {"endedAt": began + 60_000, "outcome": {"status": "ok"}, "cleanupHandled": True}
            records[record["runId"]] = record
        trails.Runs(self.store).import_file({"version": 2, "runs": records})
        for number in range(3):
            ids = iter(f"{number}-{letter}" for letter in "abcdefgh")
            runs = trails.Runs(self.store, agent=_two_an_hour, clock=self.now, new_id=ids.__next__, models=host)
            model = self.chance.choice(MODELS[1:]) if number else None
            runs.spawn(f"agent:main:desk-{number}", "How often do trains go?", model=model)
            if self.chance.random() < 0.7:
                runs.work()

    # --- copies, marks, removals

    def _copies(self) -> None:
        for fork in self.chance.sample(self.forks, 2):
            self.store.detach(fork.id, by=self.chance.choice(PEOPLE))
        for number, fork in enumerate(self.chance.sample(self.forks, 3)):
            self.store.flatten(fork.id, id=f"flat-{number}", by=self.chance.choice(PEOPLE))
        for number in range(3):
            self._pick(f"picks-{number}")

    def _pick(self, name: str) -> None:
        made = self.store.create(id=name, principal=self.chance.choice(PEOPLE), created=self.now())
        source = self.chance.choice([*self.roots, *self.forks])
        for index in range(len(self.store.load(source.id))):
            if self.chance.random() < 0.6:
                self._tried(made.cherry_pick, source.id, index, whole_calls=True)
        made.persist()

    def _marks(self) -> None:
        for number, session in enumerate([*self.roots, *self.forks]):
            length = len(self.store.load(session.id))
            if length and self.chance.random() < 0.7:
                by = self.chance.choice(PEOPLE)
                self.store.notes.add(session.id, self.chance.randrange(length), "Look here", by=by)
                self.store.tags.add(f"tag-{number}", session.id, by=by)
            if length and self.chance.random() < 0.4:
                self.store.tags.remove(f"tag-{number}") if self.store.tags.find(f"tag-{number}") else None
        for number in range(3):
            self.store.tags.add(f"gone-{number}", "root-3")
            self.store.tags.remove(f"gone-{number}", by=self.chance.choice(PEOPLE))
            self.store.score(
                f"root-{number}#0", "tone", "Never mind", reason="It says so", by=self.chance.choice(PEOPLE)
            )
            score = self.store.score("root-3", "length", number, by=self.chance.choice(PEOPLE))
            self.store.remove_score(score.id, by=self.chance.choice(PEOPLE))
            note = self.store.notes.add("root-3", 0, "Never mind")
            self.store.notes.remove(note.id, by=self.chance.choice(PEOPLE))

    def _removals(self) -> None:
        holders = [each.id for each in self.store.list(limit=100)]
        for _ in range(6):
            session = self.chance.choice(holders)
            length = len(self.store.load(session))
            if length:
                why = self.chance.choice((None, "asked for"))
                index = self.chance.randrange(length)
                self._tried(self.store.redact, session, index, by=self.chance.choice(PEOPLE), reason=why)
        self.store.redact_matching("Never mind", by="bob")
        for number in range(3):
            gone = self._root(f"gone-{number}")
            gone.append("user", "Keep this", author="bob", time=self.now())
            gone.persist()
            key = f"agent:main:discord:group:kept-{number}"
            kept = self.store.create(id=f"kept-{number}", key=key, kind="group", agent="main", created=self.now())
            kept.cherry_pick(gone.id, len(gone) - 1)
            kept.persist()
            gone.flatten(id=f"of-gone-{number}")
            self.store.delete(gone.id, by=self.chance.choice((None, *PEOPLE)))
            router = trails.Router(self.store, clock=lambda: datetime.now(UTC))
            router.session(key)
            router.history("agent:main:desk-0", key)

    def _tried(self, done: Callable[..., Any], *args: Any, **named: Any) -> None:
        """Do what may be refused: a turn that cannot be picked, or that is redacted already."""
        try:
            done(*args, **named)
        except InvalidInput:
            return
