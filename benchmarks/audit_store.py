"""A store for the queries of auditors: one long lineage of forks, and families that have something of everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import trails
from trails import Compaction, Repository, Session

START: Final = datetime(2026, 1, 5, 8, tzinfo=UTC)
DEEP: Final = "deep"
"""The session at the end of the long lineage."""
_STEP: Final = timedelta(seconds=90)
_NIGHT: Final = timedelta(hours=9)
_TOOLS: Final = ("search", "weather", "tables", "files")
_PEOPLE: Final = ("alice", "bob", "carol", "dave")
_TEXT: Final = "What was said, in as many words as somebody would use who has something to say. " * 2


class _Times:
    """Moments one after the other, with a night after every hundred."""

    def __init__(self) -> None:
        self._now, self._count = START, 0

    def __call__(self) -> datetime:
        self._count += 1
        self._now += _STEP if self._count % 100 else _NIGHT
        return self._now


def fill(store: Repository, *, turns: int, depth: int, families: int, size: int) -> None:
    """Fill a store: a transcript of `turns` turns over `depth` forks, and families of about `size` turns and some sessions."""
    times = _Times()
    _lineage(store, turns, depth, times)
    router = trails.Router(store, config={"session": {"dmScope": "per-peer"}}, clock=times)
    tree = trails.Tree(store, clock=times)
    for number in range(families):
        _family(store, f"f{number}", number, size, times)
        if number % 4 == 0:
            _at_work(tree, number)
        if number % 10 == 0:
            _keys(router, number)
            _desk(store, number, times)


def _talk(session: Session, count: int, person: str, model: str, times: _Times) -> None:
    """Append turns in fours: a question, a look with a tool, what the tool said, an answer."""
    for number in range(count):
        at, text = times(), f"{number} {_TEXT}"
        told: dict[str, Any] = {
            "model": model,
            "usage": {"input_tokens": 900 + number, "output_tokens": 40, "cost": 0.01},
        }
        match number % 4:
            case 0:
                session.append("user", text, author=person, time=at)
            case 1:
                call = {"id": f"c{number}", "name": _TOOLS[number // 4 % 4], "arguments": {"for": number}}
                session.append("assistant", text, time=at, tool_calls=[call], **told)
            case 2:
                session.append("tool", text, time=at, tool_call_id=f"c{number - 1}", is_error=number % 40 == 2)
            case _:
                session.append("assistant", text, time=at, **told)
    session.persist()


def _lineage(store: Repository, turns: int, depth: int, times: _Times) -> None:
    """Each session of the lineage goes on for a while after it was forked; the second was summarised."""
    each = turns // (depth + 1)
    session = store.create(id=f"{DEEP}-0", principal="alice", agent="planner", system="Be brief", created=START)
    for level in range(depth + 1):
        own = turns - each * depth if level == depth else each
        _talk(session, own - (level == 1), _PEOPLE[level % 4], f"m-{level % 3}", times)
        if level == 1:
            _sum_up(session, times)
        if level < depth:
            name = DEEP if level + 1 == depth else f"{DEEP}-{level + 1}"
            fork = session.fork(id=name, principal=_PEOPLE[(level + 1) % 4], created=times())
            _talk(session, each // 10, _PEOPLE[level % 4], "m-0", times)
            session = fork


def _sum_up(session: Session, times: _Times) -> None:
    length = len(session)
    made = Compaction(
        summarised_through=length - 9, first_kept=length - 8, tokens_before=9000, tokens_after=100, trigger="threshold"
    )
    session.append("summary", "What was said until then.", compaction=made, time=times())
    session.persist()


def _family(store: Repository, name: str, number: int, size: int, times: _Times) -> None:
    """A session, three forks one of the other, a summary, turns picked, notes, tags, redactions, copies."""
    person = _PEOPLE[number % 4]
    root = store.create(
        id=name, principal=person, agent="planner", system="Be kind", created=times(), label=f"l-{name}"
    )
    _talk(root, size // 2, person, "m-1", times)
    first = root.fork(at=size // 4, id=f"{name}-a", created=times())
    _talk(first, size // 4, person, "m-2", times)
    _sum_up(first, times)
    _talk(first, 8, person, "m-2", times)
    other = _PEOPLE[(number + 1) % 4]
    second = first.fork(id=f"{name}-b", principal=other, created=times())
    _talk(second, size // 8, other, "m-1", times)
    third = second.fork(id=f"{name}-c", created=times())
    _talk(third, size // 8, other, "m-1", times)
    picks = store.create(id=f"{name}-picks", principal=other, created=times())
    for index in (0, (1, 2), 3):
        picks.cherry_pick(first.id, index)
    _talk(picks, 4, other, "m-1", times)
    store.tags.add(f"v-{name}", f"{name}@2")
    store.notes.add(name, 1, "Why this?", by=other)
    if number % 5 == 0:
        store.redact(name, 4, by="dave", reason="a name")
        store.detach(second.id, by="dave")
    if number % 25 == 0:
        store.flatten(third.id, id=f"{name}-flat", by="dave")
    if number % 9 == 0:
        store.create(id=f"{name}-gone", principal=person).persist()
        store.delete(f"{name}-gone", by="dave", reason="asked for")


def _at_work(tree: trails.Tree, number: int) -> None:
    """A main with a branch that has one of its own: the result of each is used in what spawned it, and a worker's too."""
    lead = tree.main(f"chief{number}", "phone", id=f"lead{number}", principal=_PEOPLE[number % 4])
    lead.append("user", "Look at the coast", author=_PEOPLE[number % 4])
    lead.persist()
    branch = lead.spawn("branch", "Look at the coast", "A walk is meant", id=f"branch{number}")
    below = branch.spawn("branch", "Look at the map", id=f"below{number}")
    below.spawn("worker", "Count the steps", id=f"worker{number}").complete("9,000")
    tree.incorporate(below.results()[0], "It has 9,000 steps")
    for node in (below, branch):
        node.append("assistant", "I look.", model="m-3", tool_calls=[{"id": "w", "name": "maps", "arguments": {}}])
        node.append("tool", "A coast", tool_call_id="w")
        node.append("assistant", "It is long.", model="m-3", usage={"input_tokens": 5, "output_tokens": 2})
        node.persist()
        node.complete("It is long")
        above = lead if node is branch else branch
        tree.incorporate(above.results()[0], "It is said to be long")
    lead.append("assistant", "The coast is long.", model="m-1")
    lead.persist()


def _keys(router: trails.Router, number: int) -> None:
    """Two peers' sessions by key; of one an alias, the other promoted and that undone."""
    for peer in (f"kim{number}", f"lou{number}"):
        routed = router.route(trails.Inbound(channel="chat", peer=peer, content="Hello"))
        if peer.startswith("kim"):
            router.alias(f"boss{number}", routed.key, by="dave")
        else:
            moved = router.promote(routed.key, f"agent:main:lou{number}", by="dave")
            router.undo(moved.operation or "", by="dave")


def _desk(store: Repository, number: int, times: _Times) -> None:
    """Messages that were answered, and one that waits."""
    store.create(id=f"desk{number}", principal="dave", agent="clerk").persist()
    ledger = trails.Ledger(store, clock=times)
    for each in range(3):
        ledger.receive(f"desk{number}", "Is it open?", source="mail", author="eve", event_id=f"m-{number}-{each}")
        ledger.process(f"desk{number}", lambda running: "Until six.")
    ledger.receive(f"desk{number}", "Hello?", mode="collect", source="mail", author="eve")
