"""A process that is interrupted in the middle of one public operation after another, and looks what that has done.

`python -m tests.support.interrupted FOLDER COUNT SEED` does operations until COUNT of them were ended by SIGINT's own error, at
moments that the seed chooses, and prints a line of JSON: how many of each kind. It ends with an error as soon as an
operation is neither done nor not begun, the store does not verify, or anything hangs.
"""

from __future__ import annotations

import faulthandler
import json
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import trails
from tests.support.sessions import say
from trails import Inbound, Ledger, Repository, Router, Runs, StoreFailed
from trails.session import store_restore
from trails.store.log import log_maintenance

HANGS = 100.0
"""Seconds after which something hangs: a round takes a small part of one, on a busy machine a few."""

_GUESS = 0.05
"""Seconds that an operation may take, before one has been seen to end."""

View = dict[str, tuple[tuple[str, ...], str | None, str | None]]
"""Of each session its texts, its parent and its label."""


def view(store: Repository) -> View:
    """Return what the store holds, as its users see it."""
    return {
        record.id: (tuple(turn.text for turn in store.load(record.id).turns), record.parent_session_id, record.label)
        for record in store.list(limit=1000)
    }


@dataclass
class Work:
    """What is done in one round, on sessions of its own: "root" of three turns, and "fork", which inherits two."""

    store: Repository
    folder: Path
    root: str
    fork: str
    new: str
    """An id that is free."""


@dataclass(frozen=True)
class Operation:
    """Something to interrupt: `after` gives the states in which it may leave things, beside the one before it."""

    run: Callable[[Work], object]
    after: Callable[[Work, View], list[View]] = lambda _, before: [before]


def _appended(work: Work, before: View) -> list[View]:
    texts, parent, label = before[work.fork]
    return [before | {work.fork: ((*texts, "more"), parent, label)}]


def _forked(work: Work, before: View) -> list[View]:
    return [before | {work.new: ((*before[work.fork][0], "new"), work.fork, None)}]


def _detached(work: Work, before: View) -> list[View]:
    return [before | {work.fork: (before[work.fork][0], None, None)}]


def _flattened(work: Work, before: View) -> list[View]:
    return [before | {work.new: (before[work.fork][0], None, work.new)}]


def _deleted(work: Work, before: View) -> list[View]:
    return [{name: seen for name, seen in before.items() if name not in (work.root, work.fork)}]


def _deleted_alone(work: Work, before: View) -> list[View]:
    detached = _detached(work, before)[0]
    return [detached, {name: seen for name, seen in detached.items() if name != work.root}]


def _redacted(work: Work, before: View) -> list[View]:
    def without(name: str) -> tuple[tuple[str, ...], str | None, str | None]:
        texts, parent, label = before[name]
        return ((texts[0], "", *texts[2:]), parent, label)

    return [before | {work.root: without(work.root), work.fork: without(work.fork)}]


def _labelled(work: Work, before: View) -> list[View]:
    return [before | {work.fork: (*before[work.fork][:2], work.new)}]


def _processed(work: Work, before: View) -> list[View]:
    texts, parent, label = before[work.fork]
    return [before, before | {work.fork: ((*texts, "hello", "re: hello"), parent, label)}]


def _process(work: Work) -> None:
    ledger = Ledger(work.store, debounce=timedelta(0))
    ledger.receive(work.fork, "hello")
    ledger.process(work.fork, lambda running: f"re: {running.messages[-1].content}")


def _route(work: Work) -> None:
    Router(work.store).route(Inbound(channel="telegram", peer=work.new.replace("-", ""), content="Hello"))


def _run(work: Work) -> None:
    runs = Runs(work.store, agent=lambda step: "done")
    router = Router(work.store)
    router.route(Inbound(channel="telegram", peer="boss", content="Hello"))
    runs.spawn("agent:main:main", f"task {work.new}", label=work.new)
    runs.work()
    runs.tick()


def _copied(work: Work, make: Callable[[Path], object], look: Callable[[Path], object]) -> None:
    """Make a copy of the store; it is there whole or not at all, and nothing else is beside it."""
    place = work.folder / work.new
    try:
        make(place)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if place.exists():
            look(place)
        left = [entry.name for entry in work.folder.iterdir() if entry.name.endswith(log_maintenance.SUFFIX)]
        assert set(left) <= {path.name for path in log_maintenance.abandoned(work.folder)} | set(left[:1]), left


def _backup(work: Work) -> None:
    _copied(work, work.store.maintenance.backup, _verified)


def _dump(work: Work) -> None:
    _copied(work, work.store.maintenance.dump, lambda file: store_restore.load_dump(file, file.with_suffix(".loaded")))


def _restore(work: Work) -> None:
    _copied(work, lambda place: store_restore.restore_store(work.folder / "backup", place), _verified)


def _load(work: Work) -> None:
    _copied(work, lambda place: store_restore.load_dump(work.folder / "dump", place), _verified)


def _verified(place: Path) -> None:
    with trails.open(place) as store:
        assert store.verify().ok


OPERATIONS: dict[str, Operation] = {
    "append": Operation(lambda work: say(work.store.load(work.fork), "more"), _appended),
    "fork": Operation(lambda work: say(work.store.load(work.fork).fork(id=work.new), "new"), _forked),
    "detach": Operation(lambda work: work.store.detach(work.fork), _detached),
    "flatten": Operation(lambda work: work.store.flatten(work.fork, id=work.new, label=work.new), _flattened),
    "delete": Operation(lambda work: work.store.delete(work.root, children="cascade"), _deleted),
    "delete alone": Operation(lambda work: work.store.delete(work.root, children="detach"), _deleted_alone),
    "redact": Operation(lambda work: work.store.redact(work.fork, 1), _redacted),
    "label": Operation(lambda work: work.store.set_label(work.fork, work.new), _labelled),
    "tag": Operation(lambda work: work.store.tags.add(work.new, work.fork)),
    "query": Operation(lambda work: work.store.query("SELECT * { GRAPH ?g { ?s ?p ?o } }")),
    "read": Operation(lambda work: work.store.load(work.fork).turns),
    "verify": Operation(lambda work: work.store.verify()),
    "vacuum": Operation(lambda work: work.store.maintenance.vacuum()),
    "backup": Operation(_backup),
    "dump": Operation(_dump),
    "restore": Operation(_restore),
    "load": Operation(_load),
    "process": Operation(_process, _processed),
    "route": Operation(_route),
    "run": Operation(_run),
}
_MAKE_SESSIONS = frozenset({"route", "run"})
"""Those that make sessions with ids of their own, in several commits: what was there before stays, and the store verifies."""


class Rounds:
    """One store, and one operation after another in it."""

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self._takes: dict[str, float] = {}
        self._number = 0
        self.kept: list[BaseException] = []
        """The last errors, tracebacks and all: what they hold must keep nobody waiting."""
        self.interrupted: Counter[str] = Counter()
        self.reopened = 0
        self.store = self._begun()

    def _begun(self) -> Repository:
        store = trails.open(self._folder / f"store-{self._number}", create=True, durability="process")
        say(store.create(id="first"), "a")
        if not (self._folder / "backup").exists():
            store.maintenance.backup(self._folder / "backup")
            store.maintenance.dump(self._folder / "dump")
        return store

    def round(self) -> None:
        faulthandler.dump_traceback_later(HANGS, exit=True)
        self._number += 1
        if self._number % 40 == 0:  # a store that stays small is quick to look through
            self.store.close()
            self.store = self._begun()
        name = self._chance.choice(list(OPERATIONS))
        operation, mine = OPERATIONS[name], f"r{self._number}"
        work = Work(self.store, self._folder, f"{mine}-root", f"{mine}-fork", f"{mine}-new")
        say(say(self.store.create(id=work.root), "one", "two", "three").fork(at=2, id=work.fork), "own")
        before = view(self.store)
        begun = time.perf_counter()
        interrupted = self._interrupt(operation, work, name)
        # Those that are always interrupted get more time, until one comes to its end.
        self._takes[name] = 1.5 * self._takes.get(name, _GUESS) if interrupted else time.perf_counter() - begun
        self._reopen_where_it_failed()
        self._look(name, operation, work, before, interrupted=interrupted)

    def _interrupt(self, operation: Operation, work: Work, name: str) -> bool:
        try:
            signal.setitimer(signal.ITIMER_REAL, self._chance.uniform(1e-6, self._takes.get(name, _GUESS)))
            operation.run(work)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except (KeyboardInterrupt, StoreFailed) as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if isinstance(error, StoreFailed) and not isinstance(error.__context__, KeyboardInterrupt):
                raise  # else the store failed with the interrupt, and whoever wanted to clean up could not
            self.kept = [*self.kept[-5:], error]
            self.interrupted[name] += 1
            return True
        return False

    def _reopen_where_it_failed(self) -> None:
        try:
            self.store.info()
        except StoreFailed:
            self.kept.clear()  # an interrupt just where frames are emptied leaves them as they were, with the engine
            self.store.close()
            self.store = trails.open(self.store.store.location, durability="process")
            self.reopened += 1

    def _look(self, name: str, operation: Operation, work: Work, before: View, *, interrupted: bool) -> None:
        now = view(self.store)
        if name in _MAKE_SESSIONS:
            now = {each: seen for each, seen in now.items() if each in before}
        allowed = operation.after(work, before)
        if interrupted:
            allowed.append(before)
        if name == "run":
            allowed = [
                before | {each: now[each] for each in before if now[each][0][: len(before[each][0])] == before[each][0]}
            ]
        if now not in allowed:
            sys.exit(f"{name} in round {self._number} left {now.items() ^ before.items()}")
        self._nobody_waits(name)
        report = self.store.verify()
        if not report.ok:
            sys.exit(f"after {name} in round {self._number}: {report.findings[:3]}")

    def _nobody_waits(self, name: str) -> None:
        """Write, and now and then rebuild, in another thread, while what the interrupt raised is still held."""

        def write() -> None:
            say(self.store.load("first"), "b")

        for work in (write, self.store.maintenance.vacuum) if self._number % 5 == 0 else (write,):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            thread.join(HANGS / 4)
            if thread.is_alive():
                faulthandler.dump_traceback(all_threads=True)
                sys.exit(f"after {name} in round {self._number}, another thread waits for ever")
            self._reopen_where_it_failed()


def main(folder: Path, count: int, seed: str) -> None:
    """Interrupt `count` operations."""
    warnings.simplefilter("ignore")  # what was appended and not persisted warns
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    rounds = Rounds(folder, seed)
    while rounds.interrupted.total() < count:
        rounds.round()
    rounds.store.close()
    faulthandler.cancel_dump_traceback_later()
    sys.stdout.write(json.dumps(dict(rounds.interrupted) | {"reopened": rounds.reopened}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
