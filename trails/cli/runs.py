"""The commands `runs list` and `runs show`: sub-agents' runs. They write nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from trails.cli.base import answer, command, first_of, json_option, left_out, limit_option, open_store
from trails.cli.terminal import clean, count, one_line, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trails import Ledger, Repository, Run

_CELL = 60


@command("list", pager=True)
@click.option("--active", is_flag=True, help="Only those that are not announced and done.")
@click.option("--session", metavar="SESSION", help="Only those in this session, or asked for by it.")
@limit_option(None, most=1_000_000)
@json_option
def list_runs(*, active: bool, session: str | None, limit: int | None, as_json: bool) -> None:
    """List the runs of sub-agents.

    SESSION is an id, an IRI, a label or a session key. A run is running, ended, announcing (its requester is being told),
    or done. One that was cleaned up or archived is not here any more.
    """
    from trails.runs import Runs

    with open_store(reading=True) as store:
        every = Runs(store).list(active=active, session=None if session is None else _session(store, session))
    found, more = first_of(every, limit)
    empty, said = "no active runs" if active else "no runs", left_out(len(found), more)
    answer({"runs": found, "more": more}, found, _draw_runs, empty=empty, said=said, as_json=as_json)


@command("show", pager=True)
@click.argument("run", metavar="RUN")
@json_option
def show_run(run: str, as_json: bool) -> None:
    """Show a run of a sub-agent, and what happened around it.

    RUN is a run's id.
    """
    from trails.runs import Runs

    with open_store(reading=True) as store:
        found = Runs(store).get(run)
        events = list(_events(store, found))
        plain = [each | {"time": each["time"] and each["time"].isoformat()} for each in events]
        answer(found.to_dict() | {"events": plain}, found, lambda found: _draw_run(found, events), as_json=as_json)


def _draw_runs(every: Sequence[Run]) -> None:
    """Print runs: as a table where it fits, else two lines each, so that an id is never cut."""
    from trails.cli import render

    rows = [_row(each) for each in every]

    columns = ("id", "state", "asked for by", "started (UTC)", "took", "task")
    screen = render.screen()
    if sum(max(map(len, column)) for column in zip(columns, *rows, strict=True)) + 3 * len(columns) <= screen.width:
        render.print_table(columns, rows, right=("took",))
        return
    for run_id, state, asked, started, took, task in rows:
        click.echo(clean(f"{run_id}  {task}"))
        click.echo(clean(f"    {state}  by {asked}  {started}  {took}".rstrip()))


def _session(store: Repository, name: str) -> str:
    """Return what a session is called by: its id where the name is one, or a label; else the name, which may be a key."""
    import trails

    try:
        return store.resolve(name)
    except (trails.SessionNotFound, trails.InvalidInput):
        return name


def _row(run: Run) -> tuple[str, ...]:
    asked = run.requester_display_key or run.requester_session_key or ""
    return (
        run.run_id,
        f"{run.state}: {run.outcome}" if run.outcome else run.state,
        asked,
        _when(run.started),
        _took(run),
        shorten(run.label or _task(run), _CELL),
    )


def _task(run: Run) -> str:
    return "[taken out]" if run.said.withheld else run.task or ""


def _took(run: Run) -> str:
    from trails.policy.announcements import duration_words

    if run.started is None:
        return ""
    end = run.ended or datetime.now(UTC)
    words = duration_words((end - run.started).total_seconds() * 1000)
    return words if run.ended is not None else f"{words} so far"


def _when(time: datetime | None) -> str:
    from trails.cli import render

    return render.moment(time, seconds=True)


# --- one run


def _events(store: Repository, run: Run) -> Iterator[dict[str, Any]]:
    """Give what happened around a run, in order: its task, the work on it, and the word to whoever asked for it."""
    from trails import Ledger, iris
    from trails.ledger.writer import Book
    from trails.runs.engine import TASK_SOURCE

    ledger, book = Ledger(store), Book(store)
    if run.child_session is not None and run.child_session in store:
        for event in ledger.events(run.child_session, direction="inbound"):
            if event.source == TASK_SOURCE and event.event_id == run.run_id:
                yield _event("task", event.received, event.session_id, event.number, "waits" if event.waiting else "")
                for each in ledger.exchanges(run.child_session):
                    if event.number in each.events:
                        state = "interrupted" if each.interrupted else each.state
                        what = f"{state}: {each.error}" if each.error else state
                        yield _event("exchange", each.started or each.queued, each.session_id, each.number, what)
    number = None if run.announced_as is None else iris.entry_number(run.announced_as)
    told = None if run.announced_as is None else iris.session_id(run.announced_as)
    if told is not None and number is not None and told in store:
        word = book.event(told, number)
        waits = "waits in the inbox" if word.waiting else "was taken up"
        yield _event("announced", word.received, told, number, f"{run.announced_how}, {waits}") | {
            "text": _said(ledger, book, told, number)
        }


def _said(ledger: Ledger, book: Any, session_id: str, number: int) -> str | None:
    said = ledger.content(book.event(session_id, number))
    return said if isinstance(said, str) else None


def _event(what: str, time: datetime | None, session_id: str, entry: int, how: str) -> dict[str, Any]:
    return {"what": what, "time": time, "session": session_id, "entry": entry, "how": how}


def _draw_run(run: Run, events: Sequence[dict[str, Any]]) -> None:
    from trails.cli import render

    screen = render.screen()
    screen.print(render.grid({name: value for name, value in _facts(run) if value}))
    if events:
        screen.print()
        render.print_table(
            ("what", "time (UTC)", "session", "entry", "how"),
            [
                (e["what"], _when(e["time"]), e["session"], str(e["entry"]), shorten(one_line(e["how"]), _CELL))
                for e in events
            ],
            right=("entry",),
            fold=("how",),
        )
    for each in events:
        if each.get("text"):
            click.echo()
            click.echo(clean(each["text"]))


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    origin = " ".join(str(value) for value in run.requester_origin.to_json().values())
    yield "run", run.run_id
    yield "state", " ".join(part for part in (run.state, run.outcome) if part)
    yield "task", _task(run)
    yield "label", run.label or ""
    yield "error", run.error or ""
    yield "agent", run.agent or ""
    yield "model", " ".join(part for part in (run.model, run.thinking and f"thinking {run.thinking}") if part)
    yield "session", " ".join(part for part in (run.child_session, run.child_session_key) if part)
    yield "asked for by", " ".join(part for part in (run.requester_session, run.requester_session_key) if part)
    yield "from", origin
    yield "registered", _when(run.created)
    yield "started", _when(run.started)
    yield "ended", " ".join(part for part in (_when(run.ended), f"({_took(run)})" if run.ended else "") if part)
    yield "time-out", count(run.run_timeout_seconds, "second") if run.run_timeout_seconds else ""
    yield "afterwards", f"{run.cleanup or 'keep'} the session"
    yield "kept because", run.kept_because or ""
    yield "announced", _when(run.cleanup_completed)
    yield "archived at", _when(run.archive_at)
