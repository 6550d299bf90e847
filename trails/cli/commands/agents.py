"""Commands for sub-agents' runs, their tree, and session keys. They write nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import clean, count, one_line, shorten

if TYPE_CHECKING:
    from rich.text import Text

    from trails.runtime.routing.key_directory import PolicyCheck, SessionInfo
    from trails.runtime.tree import TreeRow

_CELL = 60


@cli.command("list", pager=True, limit=True)
@cli.option("--active", "Only those that are not announced and done.")
@cli.option("--session SESSION", "Only those in this session, or asked for by it.")
def list_runs(*, active: bool, session: str | None) -> None:
    """List the runs of sub-agents.

    SESSION is an id, an IRI, a label or a session key. A run is running, ended, announcing (its requester is being told),
    or done. One that was cleaned up or archived is not here any more.
    """

    with cli.open_store(reading=True) as store:
        every = trails.Runs(store).list(active=active, session=None if session is None else _session(store, session))
    cli.answer_list("runs", every, _draw_runs, "no active runs" if active else "no runs")


@cli.command("show", pager=True)
@click.argument("run", metavar="RUN")
def show_run(run: str) -> None:
    """Show a run of a sub-agent, and what happened around it.

    RUN is a run's id.
    """

    with cli.open_store(reading=True) as store:
        found = trails.Runs(store).get(run)
        events = list(_events(store, found))
        plain = [each | {"time": each["time"] and each["time"].isoformat()} for each in events]
        cli.answer(found.to_dict() | {"events": plain}, found, lambda found: _draw_run(found, events))


def _draw_runs(every: Sequence[trails.Run]) -> None:
    """Print runs: as a table if it fits, else two lines each, so that an id is never cut."""
    rows = [_row(each) for each in every]
    columns = ("id", "state", "asked for by", "started (UTC)", "took", "task")
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    if sum(widths) + 3 * len(columns) <= cli.view.screen().width:
        cli.view.print_table(columns, rows, right=("took",))
        return
    for run_id, state, asked, started, took, task in rows:
        click.echo(clean(f"{run_id}  {task}"))
        click.echo(clean(f"    {state}  by {asked}  {started}  {took}".rstrip()))


def _session(store: trails.Repository, name: str) -> str:
    """Return what a session is called by: its id where the name is one, or a label; else the name, which may be a key."""

    try:
        return store.resolve(name)
    except (trails.SessionNotFound, trails.InvalidInput):
        return name


def _row(run: trails.Run) -> tuple[str, ...]:
    asked = run.requester_display_key or run.requester_session_key or ""
    state = f"{run.state}: {run.outcome}" if run.outcome else run.state
    return run.run_id, state, asked, _run_time(run.started), _took(run), shorten(run.label or _task(run), _CELL)


def _task(run: trails.Run) -> str:
    return "[taken out]" if run.said.withheld else run.task or ""


def _took(run: trails.Run) -> str:
    from trails.runtime.policy.run_rules import duration_words

    if run.started is None:
        return ""
    end = run.ended or datetime.now(UTC)
    words = duration_words((end - run.started).total_seconds() * 1000)
    return words if run.ended is not None else f"{words} so far"


def _run_time(time: datetime | None) -> str:
    return cli.view.moment(time, seconds=True)


# --- one run


def _events(store: trails.Repository, run: trails.Run) -> Iterator[dict[str, Any]]:
    """Give what happened around a run, in order: its task, the work on it, and the word to whoever asked for it."""
    from trails.model import iris
    from trails.runtime.inbox import Book
    from trails.runtime.runs.run_engine import TASK_SOURCE

    ledger, book = trails.Ledger(store), Book.of(store)
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
    requester = None if run.announced_as is None else iris.session_id(run.announced_as)
    if requester is not None and number is not None and requester in store:
        word = book.entry(requester, number, trails.Event)
        how = f"{run.announced_how}, {'waits in the inbox' if word.waiting else 'was taken up'}"
        text = ledger.content(word)
        announced = _event("announced", word.received, requester, number, how)
        yield announced | {"text": text if isinstance(text, str) else None}


def _event(what: str, time: datetime | None, session_id: str, entry: int, how: str) -> dict[str, Any]:
    return {"what": what, "time": time, "session": session_id, "entry": entry, "how": how}


def _draw_run(run: trails.Run, events: Sequence[dict[str, Any]]) -> None:
    cli.view.print_grid({name: value for name, value in _facts(run).items() if value})
    if events:
        click.echo()
        cli.table(
            "what,time (UTC),session,entry,how",
            lambda e: (
                e["what"],
                _run_time(e["time"]),
                e["session"],
                str(e["entry"]),
                shorten(one_line(e["how"]), _CELL),
            ),
            right=("entry",),
            fold=("how",),
        )(events)
    for each in events:
        if each.get("text"):
            click.echo()
            click.echo(clean(each["text"]))


def _facts(run: trails.Run) -> dict[str, str]:
    return {
        "run": run.run_id,
        "state": _joined(run.state, run.outcome),
        "task": _task(run),
        "label": run.label or "",
        "error": run.error or "",
        "agent": run.agent or "",
        "model": _joined(run.model, run.thinking and f"thinking {run.thinking}"),
        "session": _joined(run.child_session, run.child_session_key),
        "asked for by": _joined(run.requester_session, run.requester_session_key),
        "from": _joined(*map(str, run.requester_origin.to_json().values())),
        "registered": _run_time(run.created),
        "started": _run_time(run.started),
        "ended": _joined(_run_time(run.ended), f"({_took(run)})" if run.ended else ""),
        "time-out": count(run.run_timeout_seconds, "second") if run.run_timeout_seconds else "",
        "afterwards": f"{run.cleanup or 'keep'} the session",
        "kept because": run.kept_because or "",
        "announced": _run_time(run.cleanup_completed),
        "archived at": _run_time(run.archive_at),
    }


def _joined(*parts: str | None) -> str:
    return " ".join(filter(None, parts))


# --- the session tree

_TOP = 10
_STATES = {"active": "green", "suspended": "yellow", "completed": "dim", "failed": "red", "expired": "dim"}


@cli.command("tree", pager=True)
@click.argument("session", required=False, metavar="[SESSION]")
@cli.option("--all", "Also the sessions that have ended.", name="ended")
@cli.option("--stuck MIN", "Only active ones not heard of for MIN minutes.", type=cli.Number(min=0, max=5_256_000))
@cli.option("--orphans", "Only those that go on although what spawned them has ended.")
@cli.option("--top", f"Only the {_TOP} that used most, the greatest first.", type=click.Choice(["tokens"]))
def spawn_tree(session: str | None, *, ended: bool, stuck: float | None, orphans: bool, top: str | None) -> None:
    """Show the session tree: mains, branches and workers.

    Shown are those that have not ended, with states, ages and limits near. SESSION (an id, an IRI or a label) shows one
    session and those below it. A session was last heard of when a turn of it was stored, a message came to it, or its
    state changed: the turns of a branch are stored when it rests or ends. Limits are the defaults: 3 for the depth of
    branches, 4 for that of workers, 8 active children.
    """
    from trails.rdf.ledger_records import ENDED
    from trails.runtime.tree import tree_overview, with_ancestors

    with cli.open_store(reading=True) as store:
        found = tree_overview(store, None if session is None else store.resolve(session))
    now = datetime.now(UTC)
    wanted = [each for each in found if ended or top is not None or each.state not in ENDED]
    if stuck is not None:
        wanted = [each for each in wanted if each.is_stuck(now, timedelta(minutes=stuck))]
    if orphans:
        wanted = [each for each in wanted if each.orphan]
    if top is not None:
        wanted = sorted(wanted, key=lambda each: (-(each.tokens or 0), each.id))[:_TOP]
    is_whole = stuck is None and not orphans and top is None
    shown = with_ancestors(found, wanted) if is_whole else wanted
    empty = f"nothing in the session tree is {'stuck' if stuck is not None else 'an orphan'}"
    if stuck is None and not orphans:
        all_ended = f"; {count(len(found), 'session')} ended, --all shows them" if found else ""
        empty = f"no session of the session tree is active or suspended{all_ended}"

    def draw(shown: Sequence[TreeRow]) -> None:
        _draw_tree(shown, now, _indents(shown) if is_whole else {}, tokens=top is not None)

    cli.answer([_plain(each, now) for each in wanted], shown if wanted else [], draw, empty=empty)


def _plain(each: TreeRow, now: datetime) -> dict[str, object]:

    age, silent = round((now - each.created).total_seconds()), round((now - each.last).total_seconds())
    return each.to_dict() | {"age_seconds": age, "silent_seconds": silent, "near": list(each.near(trails.Limits()))}


def _draw_tree(shown: Sequence[TreeRow], now: datetime, indents: dict[str, str], *, tokens: bool) -> None:
    """Print a table; the lines before each session show what spawned it."""
    from rich.text import Text

    numbers = ("age", "silent", "due", "depth", *(("tokens",) if tokens else ()))
    rows = []
    for each in shown:
        due = "" if each.due is None else _span(each.due - now) if each.due >= now else f"{_span(now - each.due)} late"
        used = ("-" if each.tokens is None else f"{each.tokens:,}",) if tokens else ()
        asked = "asked to end" if each.due is not None and each.ends_by is not None else None
        notes = ", ".join(filter(None, (*each.near(trails.Limits()), asked, "orphan" if each.orphan else None)))
        session = Text(indents.get(each.id, ""), style="dim").append(clean(each.id), style="cyan")
        state = Text(each.state, style=_STATES.get(each.state, ""))
        ages = _span(now - each.created), _span(now - each.last)
        rows.append((session, each.kind, state, *ages, due, str(each.depth), *used, notes))
    columns = ("session", "kind", "state", *numbers, "notes")
    cli.view.print_table(columns, rows, right=numbers, fold=("notes",), styles={"notes": "yellow"})


def _indents(shown: Sequence[TreeRow]) -> dict[str, str]:
    """Return the lines that are drawn before each session, to show what spawned it."""
    ids = {each.id for each in shown}
    last_child: dict[str | None, str] = {}
    for each in shown:
        last_child[each.parent_id] = each.id
    found: dict[str, str] = {}
    stems: dict[str, str] = {}
    for each in shown:
        if each.parent_id is None or each.parent_id not in ids:
            found[each.id] = stems[each.id] = ""
            continue
        is_last = last_child[each.parent_id] == each.id
        found[each.id] = stems[each.parent_id] + ("└─ " if is_last else "├─ ")
        stems[each.id] = stems[each.parent_id] + ("   " if is_last else "│  ")
    return found


def _span(span: timedelta) -> str:
    """Return a span of time in the largest unit that it fills twice, or in seconds.

    >>> _span(timedelta(seconds=59)), _span(timedelta(minutes=90)), _span(timedelta(days=3))
    ('59s', '90m', '3d')
    """
    seconds = int(span.total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


# --- sessions by key

_config_option = cli.option(
    "--config FILE",
    "A JSON file that says how keys and policies are set, as OpenClaw's configuration does.",
    type=cli.EXISTING_FILE,
)


def _configuration(file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    try:
        found = json.loads(cli.read_text(file))
    except json.JSONDecodeError as error:
        cli.refuse(f"{file} is not JSON ({error})")
    if not isinstance(found, dict):
        cli.refuse(f"{file} holds no object")
    return found


@cli.command("list", pager=True, limit=True)
@cli.option(
    "--active MIN", "Only those with activity within MIN minutes.", name="active_minutes", type=cli.Number(min=0)
)
@cli.option("--label LABEL", "Only the one with this label.")
@cli.option("--spawned-by KEY", "Only those that the session of this key spawned.")
@cli.option("--agent NAME", "Only those of this agent.")
@cli.option("--search TEXT", "Only those with TEXT in their name, label, subject, id or key.")
@cli.option("--global", "Also the session that all share.", name="include_global")
@cli.option("--unknown", "Also the session of senders of whom nothing is known.", name="include_unknown")
@_config_option
def list_keys(*, config: Path | None, **which: Any) -> None:
    """List the sessions that keys name, the latest first.

    A key is what a message's channel, account and peer come to, such as agent:main:telegram:dm:123. Sessions without a
    key are in `trails list`.
    """

    with cli.open_store(reading=True) as store:
        every = trails.Router(store, config=_configuration(config)).list(**which)
    columns = "key,kind,label,agent,last activity (UTC),tokens,state"
    draw = cli.table(columns, _key_row, right=("tokens",), styles={"key": "cyan"})
    cli.answer_list("sessions", every, draw, "no key names a session, or none that was asked for")


def _key_row(info: SessionInfo) -> tuple[str, ...]:
    names = info.key, info.kind, info.label or "-", info.agent or "-"
    return *names, cli.view.moment(info.updated), f"{info.total_tokens:,}", info.state


@click.group("policy")
@cli.store_option()
def policy() -> None:
    """Say what the policies of a configuration mean for sessions."""


@cli.command("check", group=policy)
@click.argument("key", metavar="KEY")
@_config_option
def check(key: str, *, config: Path | None) -> None:
    """Say what would happen to a session now, and by which rule.

    KEY is a session key, as `trails keys list` lists them, or a short name of one ("main"); it need not name a session
    yet. Without --config, the defaults hold. A rule is a field of the session's entry (entry.sendPolicy), a place in
    the configuration (session.resetByChannel.discord), or the default.
    """

    with cli.open_store(reading=True) as store:
        found = trails.Router(store, config=_configuration(config)).check(key)
    cli.answer(found, found, _draw_check)


def _draw_check(found: PolicyCheck) -> None:
    from rich.text import Text

    from trails.runtime.policy import from_ms

    def word(is_good: bool, yes: str, no: str) -> Text:
        return Text(yes if is_good else no, style="green" if is_good else "yellow")

    upcoming = Text("begins the session")
    if found.freshness is not None:
        until = found.freshness.idle_expires_at
        goes_on = "goes on" if until is None else f"goes on, until {cli.view.moment(from_ms(until))} UTC"
        upcoming = word(found.freshness.fresh, goes_on, "begins anew")
    minutes = found.reset.idle_minutes
    daily = f"daily at {found.reset.at_hour:02}:00" if found.reset.mode == "daily" else None
    idle = None if minutes is None else f"after {count(minutes, 'minute')} without a message"
    where = "no session yet" if found.session_id is None else f"session {found.session_id}"
    click.echo(f"{clean(found.key)} ({clean(where)})")
    rows: list[tuple[str, str | Text, str]] = [
        ("send", word(found.send.allowed, "allowed", "denied"), found.send.rule),
        ("answer", word(found.responds.allowed, "always", "when mentioned"), found.responds.rule),
        ("begin anew", " and ".join(filter(None, (daily, idle))), found.reset_rule),
        ("next message", upcoming, found.reset_rule),
        ("spawn", word(found.may_spawn, "allowed", "refused"), "key"),
        ("delete by key", word(found.deletable, "allowed", "refused"), "key"),
    ]
    cli.view.print_table(("what", "now", "rule"), rows, fold=("now",))
