"""Makes the stored database of this version's format that the tests open: `python tests/support/formats/make.py`.

It is made once for each released format and then kept: what it holds is written down by hand in `test_upkeep.py`. The
ids, texts and times are fixed; salts and digests are drawn anew each time.
"""

from __future__ import annotations

import tarfile
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trails
from trails import Compaction, Repository
from trails.history import turn_builder
from trails.store.log import sqlite

HERE = Path(__file__).resolve().parent
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def fill(store: Repository) -> None:
    """Store what the tests look for in a store of every format."""
    plan = store.create(
        id="plan",
        principal="alice",
        agent="planner",
        label="trip",
        meta={"project": "alps", "people": 2},
        system="Be brief",
        created=START,
    )
    plan.append("user", "Plan a trip", time=START)
    parts = [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"place": "Zermatt"}},
    ]
    usage = {"input_tokens": 10, "output_tokens": 5, "cost": 0.01}
    plan.append("assistant", parts, model="m-1", usage=usage, time=START + timedelta(seconds=1))
    plan.append("tool", "Snow", tool_call_id="c1", time=START + timedelta(seconds=2))
    plan.append("user", "My card is 1234", time=START + timedelta(seconds=3), meta={"shown": True})
    plan.persist()

    dinner = plan.fork(at=3, id="dinner", principal="bob", created=START + timedelta(days=1))
    dinner.append("user", "Plan a dinner — für zwei", time=START + timedelta(days=1, microseconds=123456))
    dinner.worktree.append(
        turn_builder.make_draft("summary", "A trip, a dinner", compaction=Compaction(summarised_through=2), timed=False)
    )
    dinner.persist()

    solo = dinner.fork(at=2, id="solo", created=START + timedelta(days=2))
    solo.append("user", "Just me", time=START + timedelta(days=2))
    solo.persist()
    store.flatten("solo", id="flat")
    store.detach("solo")

    store.create(id="helper", spawned_by="plan", agent="helper", created=START).persist()
    gone = store.create(id="gone", principal="carol", created=START)
    gone.append("user", "Forget this")
    gone.persist()
    store.delete("gone")
    store.redact("plan", 3, by="bob", reason="a card number")


def main() -> None:
    """Write `format-N.tar.gz` beside this file, unless it is there."""
    archive = HERE / f"format-{sqlite.FORMAT}.tar.gz"
    if archive.exists():
        raise SystemExit(f"{archive} is there, and what was released is never made again")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "store"
        with trails.open(folder, create=True) as store:
            fill(store)
            store.maintenance.vacuum()
            store.maintenance.backup(Path(scratch) / "copy")
        with tarfile.open(archive, "x:gz") as tar:
            tar.add(Path(scratch) / "copy", arcname=f"format-{sqlite.FORMAT}", filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Keep out who made the archive and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
