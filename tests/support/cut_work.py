"""What a process does to stores while its system calls are recorded: `test_power_cuts.py` starts it and cuts its power.

Run as a script it reads a JSON list of jobs, each with a folder of its own, and does them one after the other. What it
tells on its output are acknowledgements, one JSON list a line: the trace holds them in order with all else that it does.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from pathlib import Path
from typing import Any

import trails
from tests.support.writer import RandomWork, on_output
from trails.history.migrations import upgrade
from trails.session.restore import load_dump, restore_store
from trails.store import flushing

KINDS = {
    "append": 46,
    "create": 8,
    "fork": 12,
    "detach": 4,
    "delete": 9,
    "flush": 3,
    "flatten": 4,
    "redact": 7,
    "vacuum": 3,
    "backup": 3,
    "bulk": 1,
}
"""How often a step of each kind is made; `bulk` writes 600 turns."""
SHARED_KINDS = KINDS | {"vacuum": 1, "backup": 1, "bulk": 0}
"""The same beside other writers."""


def work(job: dict[str, Any]) -> None:
    """Open a store, write to it with some threads, close it; the engine is flushed at least `flushes` times."""
    flushing._FLUSH_AFTER = job["flush_after"]  # type: ignore[misc] # as if much more was written
    on_output("opening")
    store = trails.open(Path(job["folder"]) / "store", create=True, durability=job["durability"])
    on_output("open")
    many = job["writers"] > 1
    kinds = SHARED_KINDS if many else KINDS

    def write(number: int) -> None:
        writer = RandomWork(store, number, job["seed"], on_output, kinds=kinds)
        count = job["steps"] // (3 if many else 1)
        flushed = (
            {count * (each + 1) // (job["flushes"] + 2) for each in range(job["flushes"])} if not number else set()
        )
        for step in range(count):
            writer.step("flush" if step in flushed else "bulk" if job["bulk"] and step == count * 3 // 4 else None)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(job["writers"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    on_output("closing")
    store.close()
    on_output("closed")


def copies(job: dict[str, Any]) -> None:
    """Make a store, and copies of it in all ways there are."""
    folder = Path(job["folder"])
    trails.open(folder / "filled", create=True).close()
    store = trails.open(folder / "store", create=True, durability=job["durability"])
    first = store.create(id="first")
    for text in ("one", "two", "three"):
        first.append("user", text)
    first.persist()
    fork = first.fork(at=2, id="fork")
    fork.append("user", "four")
    fork.persist()
    store.redact("first", 2)
    _tell(folder, "backup", store.maintenance.backup)
    _tell(folder, "dump", store.maintenance.dump)
    store.close()
    for name, make in (("restored", restore_store), ("loaded", load_dump), ("filled", load_dump)):
        source = folder / ("backup" if make is restore_store else "dump")
        _tell(folder, name, lambda place, make=make, source=source: make(source, place))
    with trails.open(folder / "store") as store:
        session = store.load("fork")
        session.append("user", "five")
        session.persist()
        _tell(folder, "dump", lambda place: store.maintenance.dump(place, replace=True))


def _tell(folder: Path, name: str, make: Any) -> None:
    on_output("begin", 0, {"kind": "copy", "to": name})
    make(folder / name)
    on_output("done", 0)
    if (folder / name).is_file():
        on_output("holds", name, hashlib.sha256((folder / name).read_bytes()).hexdigest())


def bring_up(job: dict[str, Any]) -> None:
    """Bring a store of an older format up."""
    on_output("begin", 0, {"kind": "upgrade"})
    upgrade(Path(job["folder"]) / "store")
    on_output("done", 0)


def main() -> None:
    for number, job in enumerate(json.load(sys.stdin)):
        on_output("job", number)
        globals()[job["do"]](job)


if __name__ == "__main__":
    main()
