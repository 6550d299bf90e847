"""Lists and sums out of the rows are those of the catalogue's queries, whatever was done to the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trails
from tests.support.machines import examples
from trails import Call, InvalidInput, Repository, TrailsError
from trails.history import turn_builder
from trails.rdf import query_files
from trails.store.contract import Solutions

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def fill(store: Repository) -> None:
    """plan owns 0 to 2, its fork at 2 owns 2; both by alice. `night` is bob's, in another project."""
    plan = store.create(id="plan", principal="alice", agent="p", created=START, meta={"project": "trips", "seed": 3})
    plan.append("user", "  Plan a trip\n to the Alps ", time=START)
    plan.append(
        "assistant", "Where to?", model="m-1", usage={"input_tokens": 10, "output_tokens": 4, "cost": 0.5}, time=START
    )
    plan.append("user", "Zermatt", time=START + timedelta(hours=11, minutes=59))
    plan.persist()
    fork = plan.fork(at=2, id="fork", created=START + timedelta(hours=1))
    fork.append("assistant", "Again?", model="m-2", usage={"input_tokens": 7}, time=START + timedelta(days=1))
    fork.persist()
    night = store.create(
        id="night", principal="bob", created=START + timedelta(hours=2), meta={"title": "Night", "cwd": "/a/trips"}
    )
    night.append("user", "Dark", time=START + timedelta(days=2))
    night.persist()


def test_a_summary_tells_sessions_apart(store: Repository) -> None:
    fill(store)
    night, fork, plan = store.summaries()
    assert (plan.first_prompt, plan.turns, plan.own_turns, plan.project) == ("Plan a trip to the Alps", 3, 3, "trips")
    assert (plan.calls, plan.input_tokens, plan.output_tokens, plan.cost, plan.models) == (1, 10, 4, 0.5, ("m-1",))
    assert (plan.created, plan.last_activity) == (START, START + timedelta(hours=11, minutes=59))
    assert (fork.first_prompt, fork.turns, fork.own_turns, fork.parent) == ("Plan a trip to the Alps", 3, 1, "plan")
    assert (fork.calls, fork.input_tokens, fork.cost, fork.project) == (1, 7, None, None)
    assert (night.title, night.project, night.principal, night.name) == ("Night", "/a/trips", "bob", "Night")


def test_sessions_are_found_by_project_metadata_and_time_of_activity(store: Repository) -> None:
    fill(store)

    def ids(**wanted: Any) -> list[str]:
        found = [each.id for each in store.summaries(**wanted)]
        assert [record.id for record in store.list(**wanted)] == found
        return found

    assert ids(project="trips") == ["night", "plan"]
    assert ids(project="/a/trips") == ["night"]
    assert ids(project="/b/trips") == []
    assert ids(meta={"seed": 3}) == ids(meta={"seed": "3"}) == ["plan"]
    assert ids(meta={"seed": 3, "project": "other"}) == []
    assert ids(active_since=START + timedelta(days=1)) == ["night", "fork"]
    assert ids(active_until=START + timedelta(days=1)) == ["plan"]
    assert ids(sort="activity") == ["night", "fork", "plan"]
    assert ids(sort="turns") == ["plan", "fork", "night"]
    assert ids(sort="tokens") == ["plan", "fork", "night"]


def test_pages_in_every_order_lose_and_double_nothing_while_sessions_are_made(store: Repository) -> None:
    for number in range(9):
        session = store.create(id=f"s{number}", created=START)
        session.append("user", "a", time=START)
        session.persist()
    for sort in ("created", "activity", "turns", "tokens"):
        found, cursor = list[str](), None
        while True:
            page = store.list(sort=sort, limit=2, cursor=cursor)
            found += [record.id for record in page if len(record.id) == 2]
            store.create(created=START + timedelta(days=1)).persist()
            if (cursor := page.cursor) is None:
                break
            assert len(cursor) <= 22
        assert Counter(found) == Counter(f"s{number}" for number in range(9))


def test_a_cursor_whose_session_is_gone_leaves_nothing_out(memory: Repository) -> None:
    for number in range(4):
        memory.create(id=f"s{number}", created=START).persist()
    first = memory.list(limit=2)
    memory.delete(first[-1].id)
    assert {"s1", "s0"} <= {record.id for record in memory.list(cursor=first.cursor)}


@pytest.mark.parametrize(
    "wanted", [{"sort": "size"}, {"meta": ["a"]}, {"project": 3}, {"active_since": START.replace(tzinfo=None)}]
)
def test_what_cannot_be_asked_for_is_refused(memory: Repository, wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        memory.summaries(**wanted)


def test_statistics_by_day_model_project_principal_and_session(store: Repository) -> None:
    fill(store)
    days = [(row.group, row.sessions, row.turns, row.calls) for row in store.stats()]
    assert days == [("2026-03-01", 1, 3, 1), ("2026-03-02", 1, 1, 1), ("2026-03-03", 1, 1, 0)]
    assert [(row.group, row.input_tokens, row.cost) for row in store.stats("model")] == [
        ("m-1", 10, 0.5),
        ("m-2", 7, None),
    ]
    assert {row.group: row.turns for row in store.stats("project")} == {"trips": 3, None: 1, "/a/trips": 1}
    assert {row.group: row.turns for row in store.stats("principal")} == {"alice": 4, "bob": 1}
    assert {row.group: row.calls for row in store.stats("session")} == {"plan": 1, "fork": 1, "night": 0}
    total = store.stats("day", since=START + timedelta(days=1)).total
    assert (total.sessions, total.turns, total.calls, total.unpriced, total.unpriced_models) == (2, 2, 1, 1, ("m-2",))
    assert store.stats("model", model="m-1").total.calls == 1
    assert store.stats("day", principal="bob").total.turns == 1


def test_a_call_without_a_price_is_counted_and_named_and_never_costs_nothing(store: Repository) -> None:
    fill(store)
    none = store.cost().total
    assert (none.cost, none.reported, none.estimated, none.unpriced, none.unpriced_models) == (0.5, 1, 0, 1, ("m-2",))
    some = store.cost(prices={"m-*": {"input": 1_000_000, "output": 1}}).total
    assert (some.cost, some.reported, some.estimated, some.unpriced) == (7.5, 1, 1, 0)


def test_the_total_cost_is_the_same_however_it_is_grouped(memory: Repository) -> None:
    for number, cost in enumerate((0.1, 0.2, 0.3, 0.7, 1e-7, 2.2)):
        session = memory.create(id=f"s{number % 4}" if number < 4 else None, principal=f"p{number % 2}")
        session.append(
            "assistant", "a", model=f"m{number % 3}", usage={"input_tokens": 7, "output_tokens": 3, "cost": cost}
        )
        session.append("assistant", "b", model="priced", usage={"input_tokens": 70 + number, "output_tokens": 3})
        session.persist()
    groupings: list[Any] = ["day", "model", "project", "principal", "session"]
    totals = {memory.cost(by=by, prices={"priced": {"input": 0.7, "output": 1.1}}).total.cost for by in groupings}
    # 0.1 + 0.2 + 0.3 + 0.7 + 0.0000001 + 2.2, and 435 tokens at 0.7 and 18 at 1.1 for a million
    assert totals == {3.5000001 + 0.0003243}


def test_copies_count_once_also_when_their_original_is_gone(store: Repository) -> None:
    fill(store)
    store.flatten("plan", id="copy")
    assert (store.stats().total.turns, store.stats().total.calls) == (5, 2)
    store.delete("plan", children="detach")
    assert (store.stats().total.turns, store.stats().total.calls) == (5, 2)
    assert {each.id: each.input_tokens for each in store.summaries()} == {"copy": None, "fork": 7, "night": None}
    assert {row.group: row.input_tokens for row in store.stats("session")}["plan"] == 10  # where the call was made


def test_a_copy_counts_no_more_once_its_original_is_restored(store: Repository, tmp_path: Path) -> None:
    with trails.open(tmp_path / "other", create=True) as other:
        plan = store.create(id="plan")
        plan.append("user", "Plan a trip")
        plan.append("assistant", "Where to?", model="m-1", usage={"input_tokens": 10})
        plan.persist()
        plan.fork(id="fork").detach()
        trails.push(store, "plan", other)
        for _ in range(2):
            assert store.stats().total.turns == 2
            store.delete("plan")
            assert store.stats().total.turns == 2
            trails.pull(store, "plan", other, restore=True)
            assert (store.stats().total.turns, store.stats().total.calls) == (2, 1)
            assert store.verify().ok


@pytest.mark.parametrize("ids", ["zb", "bz"])
def test_of_copies_whose_original_is_gone_that_of_the_oldest_session_counts_however_the_index_came_to_know_them(
    store: Repository, ids: str
) -> None:
    plan = store.create(id="plan")
    plan.append("user", "Where to?")
    plan.append("assistant", "Rome")
    plan.persist()
    for name in ids:
        store.flatten("plan", id=name)
        store.stats("session")
    store.delete("plan")
    stepwise = {row.group: row.turns for row in store.stats("session")}
    assert stepwise == {ids[0]: 2}
    store.workspace.rows.rebuild()
    assert {row.group: row.turns for row in store.stats("session")} == stepwise


def test_a_picked_call_counts_where_it_was_made_however_late_that_is_read(store: Repository) -> None:
    fill(store)
    picker = store.load("night")
    picker.cherry_pick("plan", 1)
    picker.persist()
    store.summaries()
    store.redact("plan", 0)  # all of plan is read anew, after the pick
    assert {each.id: each.input_tokens for each in store.summaries()} == {"plan": 10, "fork": 7, "night": None}
    assert {row.group: row.calls for row in store.stats("principal")} == {"alice": 2, "bob": 0}


# --- against the catalogue's queries


def random_steps(random: Random, *, unit: int = 4) -> list[Callable[[Repository], object]]:
    """Things that are done to a store, each with what is there then; what calls cost is counted in parts of a `unit`."""

    def some(store: Repository) -> str:
        return random.choice(sorted(record.id for record in store.list(limit=100)))

    def create(store: Repository) -> None:
        meta = {"project": random.choice("xy")} if random.random() < 0.5 else None
        store.create(principal=random.choice(["alice", "bob"]), meta=meta, created=START).persist()

    def append(store: Repository) -> None:
        session = store.load(some(store))
        for _ in range(random.randint(1, 3)):
            time = START + timedelta(hours=random.randint(0, 60), microseconds=random.choice([0, 1, 250_000]))
            author = random.choice([None, None, "carol d", "bob", "agent:p", "agent:other one"])
            if random.random() < 0.4:
                timed = {"time": time} if random.random() < 0.7 else {"timed": False}
                session.worktree.append(turn_builder.make_draft("user", "a", author=author, **timed))
                continue
            usage = {"input_tokens": random.randint(0, 9), "output_tokens": random.randint(0, 9)}
            cost = {"cost": random.randint(0, 8) / unit} if random.random() < 0.5 else {}
            model = random.choice(["m-1", "m-2", None])
            began = time - timedelta(microseconds=random.randint(0, 9_000_000)) if random.random() < 0.6 else None
            ended = time if random.random() < 0.6 else None
            call = Call(started=began, ended=ended, provider=random.choice([None, "acme", "b c"]))
            more: dict[str, Any] = {
                "usage": usage | cost if model else None,
                "call": call if random.random() < 0.5 else None,
            }
            session.append("assistant", "b", model=model, time=time, author=author, **more)
        session.persist()

    def pick(store: Repository) -> None:
        source, target = some(store), store.load(some(store))
        length = len(store.load(source))
        if length:
            target.cherry_pick(source, random.randrange(length))
            target.persist()

    def redact(store: Repository) -> None:
        session_id = some(store)
        if length := len(store.load(session_id)):
            store.redact(session_id, random.randrange(length))

    return [
        create,
        append,
        append,
        append,
        lambda store: store.load(some(store)).fork(created=START + timedelta(hours=random.randint(0, 60))).persist(),
        lambda store: store.flatten(some(store)),
        lambda store: store.detach(some(store)),
        lambda store: store.delete(some(store), children=random.choice(["cascade", "detach"])),
        pick,
        redact,
        lambda store: store.summaries(),
    ]


def over_turns(store: Repository, name: str, **values: Any) -> Solutions:
    """Return the rows of a query of the catalogue as the engine finds them."""
    rows = store.store.query(query_files.find(name).bind(**values))
    assert isinstance(rows, Solutions)
    return rows


def _by_model(store: Repository) -> dict[Any, Any]:
    rows = over_turns(store, "token-usage-by-model")
    return {
        row["model"] or None: (
            row["calls"],
            row["input"],
            row["output"],
            row["cache_read"],
            row["cache_write"],
            row["cost"] and float(row["cost"]),
        )
        for row in rows.to_dicts()
    }


def _by_session(store: Repository) -> dict[Any, Any]:
    rows = over_turns(store, "token-usage-by-session").to_dicts()
    return {
        trails.model.iris.session_id(row["session"]): (
            row["calls"],
            row["input"],
            row["output"],
            row["cost"] and float(row["cost"]),
        )
        for row in rows
    }


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@examples(60)
def test_figures_are_those_of_the_catalogues_queries_on_any_store(seed: int) -> None:
    random = Random(seed)
    with trails.open(":memory:") as store:
        steps = random_steps(random)
        steps[0](store)
        for _ in range(25):
            with suppress(TrailsError, IndexError):  # what cannot be done just then
                random.choice(steps)(store)
        by_model = {
            row.group: (
                row.calls,
                row.input_tokens,
                row.output_tokens,
                row.cache_read_tokens,
                row.cache_write_tokens,
                row.cost,
            )
            for row in store.stats("model")
        }
        assert by_model == _by_model(store)
        assert {
            row.group: (row.calls, row.input_tokens, row.output_tokens, row.cost)
            for row in store.stats("session")
            if row.calls
        } == _by_session(store)
        shown = {each.id: (each.turns, each.last_activity) for each in store.summaries(limit=1000)}
        for session_id, (turns, last) in shown.items():
            loaded = store.load(session_id)
            own = [turn.time for turn in loaded.turns if turn.session_id == session_id and turn.time]
            assert (turns, last) == (len(loaded), max(own, default=store.record(session_id).created))
        assert len(shown) == len(list(store.query("SELECT ?s { ?s a trails:Session }")))  # type: ignore[arg-type] # a SELECT
        digests = {turn.digest for each in shown for turn in store.load(each).turns}
        assert store.stats().total.turns == len(digests)
