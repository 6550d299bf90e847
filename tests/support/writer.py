"""What a random writer does to a store, and what is known of the store after each acknowledgement.

Also a process that writes to a store until it is killed, telling on a pipe what it is about to do and what it has done.

Run as a script it is a server: each line on its input is a job, done by a forked child so that Python starts only once.
Its output holds one JSON list a line: `["child_is", pid]`, `["opening"]`, `["open"]`, `["begin", writer, step]`,
`["done", writer]`, `["closing"]`, `["closed"]` and, once the child has ended, `["ended", status]`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trails
from trails import Repository, Session

_MOST_SESSIONS = 12


Tell = Callable[..., None]


def on_output(*what: object) -> None:
    """Tell something to whoever reads this process's output, in one write."""
    os.write(1, json.dumps(what).encode() + b"\n")


@dataclass(frozen=True)
class Known:
    """What is known of a session: its transcript, and the session that it is a fork of."""

    contents: tuple[str, ...]
    parent: str | None = None


@dataclass
class Writer:
    """What one writer was told: the sessions that its acknowledged steps made, and the step that it was in, if any."""

    sessions: dict[str, Known] = field(default_factory=dict)
    unfinished: dict[str, Any] | None = None

    def done(self) -> None:
        assert self.unfinished is not None
        self.sessions, self.unfinished = after(self.sessions, self.unfinished), None


def after(sessions: dict[str, Known], step: dict[str, Any]) -> dict[str, Known]:
    """Return what a whole step makes of sessions."""
    made, name = dict(sessions), step.get("id", "")
    if step["kind"] == "append":
        made[name] = Known((*made[name].contents, *step["contents"]), made[name].parent)
    elif step["kind"] == "create":
        made[name] = Known(tuple(step["contents"]))
    elif step["kind"] == "fork":
        made[name] = Known((*made[step["parent"]].contents[: step["at"]], *step["contents"]), step["parent"])
    elif step["kind"] == "flatten":
        made[name] = Known(made[step["of"]].contents)
    elif step["kind"] == "redact":
        gone = made[name].contents[step["at"]]
        made = {
            each: Known(tuple("" if content == gone else content for content in known.contents), known.parent)
            for each, known in made.items()
        }
    elif step["kind"] == "detach":
        made[name] = Known(made[name].contents)
    elif step["kind"] == "delete":
        children = [child for child, known in made.items() if known.parent == name]
        for child in children:
            if step["children"] == "cascade":
                made = after(made, {"kind": "delete", "id": child, "children": "cascade"})
            else:
                made[child] = Known(made[child].contents)
        del made[name]
    return made


def possible(writer: Writer) -> list[dict[str, Known]]:
    """Return every state that a writer's sessions may be in: as acknowledged, or with its unfinished step done whole.

    A deletion that first detaches the children is one step for each child; each of them is whole or not begun.
    """
    states = [writer.sessions]
    step = writer.unfinished
    if step is None:
        return states
    if step["kind"] == "delete" and step["children"] == "detach":
        for child in [child for child, known in writer.sessions.items() if known.parent == step["id"]]:
            states += [after(state, {"kind": "detach", "id": child}) for state in states]
    return [*states, after(writer.sessions, step)]


def check(path: Path, writers: list[Writer]) -> None:
    """Reopen a store and hold it against what its writers know."""
    with trails.open(path, create=True) as store:
        records = {record.id: record for record in store.list(limit=1000)}
        found = {
            name: Known(tuple(turn["content"] for turn in store.replay(name)), record.parent_session_id)
            for name, record in records.items()
        }
        for number, writer in enumerate(writers):
            own = {name: known for name, known in found.items() if name.startswith(f"w{number}-")}
            assert own in possible(writer), (
                f"writer {number} in {writer.unfinished}: {difference(own, writer.sessions)}"
            )
            writer.sessions, writer.unfinished = own, None
        report = store.verify()
        assert report.ok, report.findings


def difference(found: dict[str, Known], known: dict[str, Known]) -> str:
    return "; ".join(
        f"{name}: {known.get(name)} became {found.get(name)}"
        for name in sorted(found.keys() | known.keys())
        if found.get(name) != known.get(name)
    )


USUAL: Final[Mapping[str, int]] = {"append": 60, "create": 8, "fork": 14, "detach": 6, "delete": 8, "flush": 4}
"""How often a writer does what, unless it is told otherwise."""
_BULK: Final = 600
"""Turns that are more than the engine takes in one of its transactions: its bulk loader writes them."""


class RandomWork:
    """One thread's work: random steps on sessions that only it writes to."""

    def __init__(
        self, store: Repository, number: int, seed: int, tell: Tell, *, kinds: Mapping[str, int] = USUAL
    ) -> None:
        """`kinds` says how often which step is made: any of `USUAL`, and flatten, redact, bulk, vacuum, backup."""
        self._store = store
        self._tell = tell
        self._kinds = kinds
        self._number = number
        self._name = f"{seed}-{number}"
        self._chance = random.Random(self._name)
        self._prefix = f"w{number}-"
        self._made = 0
        self._handles: dict[str, Session] = {}
        self._ids = sorted(r.id for r in store.list(limit=1000) if r.id.startswith(self._prefix))

    def step(self, kind: str | None = None) -> None:
        """Make a step: of a kind, or of a random one."""
        if kind is None:
            kind = self._chance.choices(list(self._kinds), weights=list(self._kinds.values()))[0]
        if not self._ids and kind != "flush":
            kind = "create"
        elif len(self._ids) >= _MOST_SESSIONS and kind in ("create", "fork", "flatten", "bulk"):
            kind = "delete"
        getattr(self, f"_{kind}")()
        self._tell("done", self._number)

    def _begin(self, **step: Any) -> None:
        self._tell("begin", self._number, step)

    def _contents(self, least: int) -> list[str]:
        made = []
        for _ in range(self._chance.randint(least, 3)):
            self._made += 1
            made.append(f"{self._name}-{self._made}" + "x" * self._chance.choice((0, 10, 1000)))
        return made

    def _any(self) -> Session:
        found = self._chance.choice(self._ids)
        if found not in self._handles:
            self._handles[found] = self._store.load(found)
        return self._handles[found]

    def _new_id(self) -> str:
        self._made += 1
        return f"{self._prefix}{self._name}-{self._made}"

    def _write(self, session: Session, contents: list[str]) -> None:
        for content in contents:
            session.append("user", content)
        session.persist()
        self._handles[session.id] = session

    def _append(self) -> None:
        session, contents = self._any(), self._contents(1)
        self._begin(kind="append", id=session.id, contents=contents)
        self._write(session, contents)

    def _create(self) -> None:
        made, contents = self._new_id(), self._contents(0)
        self._begin(kind="create", id=made, contents=contents)
        self._write(self._store.create(id=made), contents)
        self._ids.append(made)

    def _fork(self) -> None:
        parent, made, contents = self._any(), self._new_id(), self._contents(0)
        at = self._chance.randint(0, len(parent))
        self._begin(kind="fork", id=made, parent=parent.id, at=at, contents=contents)
        self._write(parent.fork(at=at, id=made), contents)
        self._ids.append(made)

    def _bulk(self) -> None:
        made, contents = self._new_id(), self._contents(1)[:1]
        contents += [f"{contents[0]}-{number}" for number in range(1, _BULK)]
        self._begin(kind="create", id=made, contents=contents)
        self._write(self._store.create(id=made), contents)
        self._ids.append(made)

    def _flatten(self) -> None:
        session, made = self._any(), self._new_id()
        self._begin(kind="flatten", id=made, of=session.id)
        session.flatten(id=made)
        self._ids.append(made)

    def _redact(self) -> None:
        session = self._any()
        if len(session):
            at = self._chance.randrange(len(session))
            self._begin(kind="redact", id=session.id, at=at)
            self._store.redact(session.id, at)
            self._handles.clear()
        else:
            self._begin(kind="nothing")

    def _detach(self) -> None:
        session = self._any()
        self._begin(kind="detach", id=session.id)
        session.detach()
        self._handles.clear()

    def _delete(self) -> None:
        doomed, children = self._chance.choice(self._ids), self._chance.choice(("cascade", "detach"))
        self._begin(kind="delete", id=doomed, children=children)
        gone = self._store.delete(doomed, children=children)  # type: ignore[arg-type] # one of the two
        self._ids = [each for each in self._ids if each not in gone]
        self._handles.clear()

    def _flush(self) -> None:
        self._begin(kind="flush")
        self._store.store.flush()

    def _vacuum(self) -> None:
        self._begin(kind="vacuum")
        self._store.maintenance.vacuum()

    def _backup(self) -> None:
        place = Path(self._store.store.location)
        to = place.with_name(f"{self._new_id()}.backup")
        self._begin(kind="backup", to=to.name)
        self._store.maintenance.backup(to)


def write_until_killed(job: dict[str, Any]) -> None:
    """Open the job's store and write with its number of threads, for `steps` steps each, then close it."""
    on_output("opening")
    store = trails.open(job["path"], create=True, durability=job["durability"])
    writers = [RandomWork(store, number, job["seed"], on_output) for number in range(job["writers"])]
    on_output("open")

    def work(writer: RandomWork) -> None:
        for _ in range(job["steps"]):
            writer.step()

    threads = [threading.Thread(target=work, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    on_output("closing")
    store.close()
    on_output("closed")
    signal.pause()  # it is always killed: its process id is its own until then


def serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                write_until_killed(json.loads(line))
                status = 0
            except BaseException as error:  # noqa: BLE001 - a child must not go on with its parent's loop
                on_output("failed", repr(error))
            finally:
                os._exit(status)
        on_output("child_is", child)
        on_output("ended", os.waitpid(child, 0)[1])


if __name__ == "__main__":
    trails.open(":memory:").close()  # imports everything once, for all children
    serve()
