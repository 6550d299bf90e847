"""Commands for sub-agents' runs, their tree, and session keys.

The commands `runs list` and `runs show`: sub-agents' runs. They write nothing.

The command that shows the session tree: mains, branches and workers, and what is wrong with them. It writes nothing.

Commands about sessions by key: which there are, and what policies say of one. They write nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trails.cli.options import (
    EXISTING_FILE,
    Number,
    answer,
    command,
    decoded,
    first_of,
    json_option,
    left_out,
    limit_option,
    open_store,
    refuse,
    store_option,
)
from trails.cli.terminal import clean, count, one_line, shorten
from trails.files import read_whole

if TYPE_CHECKING:
    from rich.text import Text

    from trails import Event, Ledger, Repository, Run
    from trails.runtime.routing.key_directory import PolicyCheck, SessionInfo
    from trails.runtime.tree import TreeRow

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
    from trails.runtime.runs import Runs

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
    from trails.runtime.runs import Runs

    with open_store(reading=True) as store:
        found = Runs(store).get(run)
        events = list(_events(store, found))
        plain = [each | {"time": each["time"] and each["time"].isoformat()} for each in events]
        answer(found.to_dict() | {"events": plain}, found, lambda found: _draw_run(found, events), as_json=as_json)


def _draw_runs(every: Sequence[Run]) -> None:
    """Print runs: as a table where it fits, else two lines each, so that an id is never cut."""
    from trails.cli import drawing

    rows = [_row(each) for each in every]

    columns = ("id", "state", "asked for by", "started (UTC)", "took", "task")
    screen = drawing.screen()
    if sum(max(map(len, column)) for column in zip(columns, *rows, strict=True)) + 3 * len(columns) <= screen.width:
        drawing.print_table(columns, rows, right=("took",))
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
        _run_time(run.started),
        _took(run),
        shorten(run.label or _task(run), _CELL),
    )


def _task(run: Run) -> str:
    return "[taken out]" if run.said.withheld else run.task or ""


def _took(run: Run) -> str:
    from trails.runtime.policy.run_rules import duration_words

    if run.started is None:
        return ""
    end = run.ended or datetime.now(UTC)
    words = duration_words((end - run.started).total_seconds() * 1000)
    return words if run.ended is not None else f"{words} so far"


def _run_time(time: datetime | None) -> str:
    from trails.cli import drawing

    return drawing.moment(time, seconds=True)


# --- one run


def _events(store: Repository, run: Run) -> Iterator[dict[str, Any]]:
    """Give what happened around a run, in order: its task, the work on it, and the word to whoever asked for it."""
    from trails import Ledger
    from trails.model import iris
    from trails.rdf.ledger_records import Event
    from trails.runtime.inbox import Book
    from trails.runtime.runs.run_engine import TASK_SOURCE

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
        word = book.entry(told, number, Event)
        waits = "waits in the inbox" if word.waiting else "was taken up"
        yield _event("announced", word.received, told, number, f"{run.announced_how}, {waits}") | {
            "text": _said(ledger, word)
        }


def _said(ledger: Ledger, event: Event) -> str | None:
    said = ledger.content(event)
    return said if isinstance(said, str) else None


def _event(what: str, time: datetime | None, session_id: str, entry: int, how: str) -> dict[str, Any]:
    return {"what": what, "time": time, "session": session_id, "entry": entry, "how": how}


def _draw_run(run: Run, events: Sequence[dict[str, Any]]) -> None:
    from trails.cli import drawing

    screen = drawing.screen()
    screen.print(drawing.grid({name: value for name, value in _facts(run) if value}))
    if events:
        screen.print()
        drawing.print_table(
            ("what", "time (UTC)", "session", "entry", "how"),
            [
                (e["what"], _run_time(e["time"]), e["session"], str(e["entry"]), shorten(one_line(e["how"]), _CELL))
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
    yield "registered", _run_time(run.created)
    yield "started", _run_time(run.started)
    yield "ended", " ".join(part for part in (_run_time(run.ended), f"({_took(run)})" if run.ended else "") if part)
    yield "time-out", count(run.run_timeout_seconds, "second") if run.run_timeout_seconds else ""
    yield "afterwards", f"{run.cleanup or 'keep'} the session"
    yield "kept because", run.kept_because or ""
    yield "announced", _run_time(run.cleanup_completed)
    yield "archived at", _run_time(run.archive_at)


_TOP = 10
_STATES = {"active": "green", "suspended": "yellow", "completed": "dim", "failed": "red", "expired": "dim"}


@command("tree", pager=True)
@click.argument("session", required=False, metavar="[SESSION]")
@click.option("--all", "ended", is_flag=True, help="Also the sessions that have ended.")
@click.option(
    "--stuck",
    type=Number(min=0, max=5_256_000),
    metavar="MIN",
    help="Only active ones not heard of for MIN minutes.",
)
@click.option("--orphans", is_flag=True, help="Only those that go on although what spawned them has ended.")
@click.option("--top", type=click.Choice(["tokens"]), help=f"Only the {_TOP} that used most, the greatest first.")
@json_option
def spawn_tree(
    session: str | None, *, ended: bool, stuck: float | None, orphans: bool, top: str | None, as_json: bool
) -> None:
    """Show the session tree: mains, branches and workers.

    Shown are those that have not ended, with states, ages and limits near. SESSION (an id, an IRI or a label) shows one
    session and those below it. A session was last heard of when a turn of it was stored, a message came to it, or its
    state changed: the turns of a branch are stored when it rests or ends. Limits are the defaults: 3 for the depth of
    branches, 4 for that of workers, 8 active children.
    """
    from trails.runtime.tree import tree_overview

    with open_store(reading=True) as store:
        found = tree_overview(store, None if session is None else store.resolve(session))
    now = datetime.now(UTC)
    wanted = _wanted(found, now, ended=ended or top is not None, stuck=stuck, orphans=orphans)
    if top is not None:
        wanted = sorted(wanted, key=lambda each: (-(each.tokens or 0), each.id))[:_TOP]
    whole = stuck is None and not orphans and top is None
    answer(
        [_plain(each, now) for each in wanted],
        wanted,
        lambda wanted: _draw(found, wanted, now, whole=whole, tokens=top is not None),
        empty=_nothing(found, stuck=stuck, orphans=orphans),
        as_json=as_json,
    )


def _wanted(
    found: Sequence[TreeRow], now: datetime, *, ended: bool, stuck: float | None, orphans: bool
) -> list[TreeRow]:
    from trails.rdf.ledger_records import ENDED

    kept = [each for each in found if ended or each.state not in ENDED]
    if stuck is not None:
        kept = [each for each in kept if each.is_stuck(now, timedelta(minutes=stuck))]
    return [each for each in kept if each.orphan] if orphans else kept


def _plain(each: TreeRow, now: datetime) -> dict[str, object]:
    from trails.runtime.tree_state import Limits

    ages = {
        "age_seconds": round((now - each.created).total_seconds()),
        "silent_seconds": round((now - each.last).total_seconds()),
    }
    return each.to_dict() | ages | {"near": list(each.near(Limits()))}


def _nothing(found: Sequence[TreeRow], *, stuck: float | None, orphans: bool) -> str:
    if stuck is not None or orphans:
        return f"nothing in the session tree is {'stuck' if stuck is not None else 'an orphan'}"
    ended = f"; {count(len(found), 'session')} ended, --all shows them" if found else ""
    return f"no session of the session tree is active or suspended{ended}"


def _draw(found: Sequence[TreeRow], wanted: Sequence[TreeRow], now: datetime, *, whole: bool, tokens: bool) -> None:
    """Print a table; where it is of the whole tree, with what stands above and lines that show what spawned what."""
    from rich.text import Text

    from trails.cli import drawing
    from trails.runtime.tree import with_ancestors

    shown = with_ancestors(found, wanted) if whole else list(wanted)
    indents = _indents(shown) if whole else {}
    used = ("tokens",) if tokens else ()
    numbers = ("age", "silent", "due", "depth", *used)
    made = drawing.table("session", "kind", "state", *numbers, "notes", right=numbers, fold=("notes",))
    for each in shown:
        made.add_row(
            Text(indents.get(each.id, ""), style="dim").append(clean(each.id), style="cyan"),
            each.kind,
            Text(each.state, style=_STATES.get(each.state, "")),
            _span(now - each.created),
            _span(now - each.last),
            _node_time(each.due, now),
            str(each.depth),
            *(("-" if each.tokens is None else f"{each.tokens:,}",) if tokens else ()),
            Text(_notes(each), style="yellow"),
        )
    drawing.screen().print(made)


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


def _notes(each: TreeRow) -> str:
    from trails.runtime.tree_state import Limits

    found = [*each.near(Limits())]
    if each.due is not None and each.ends_by is not None:
        found.append("asked to end")
    if each.orphan:
        found.append("orphan")
    return ", ".join(found)


def _node_time(due: datetime | None, now: datetime) -> str:
    if due is None:
        return ""
    return f"{_span(due - now)}" if due >= now else f"{_span(now - due)} late"


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


_Command = TypeVar("_Command", bound=Callable[..., Any])


def config_option(function: _Command) -> _Command:
    """Add `--config FILE`: the configuration of keys and policies, in the shape of OpenClaw's."""
    option = click.option(
        "--config",
        metavar="FILE",
        type=EXISTING_FILE,
        help="A JSON file that says how keys and policies are set, as OpenClaw's configuration does.",
    )
    return option(function)


def _configuration(file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    try:
        found = json.loads(decoded(read_whole(file), str(file)))
    except json.JSONDecodeError as error:
        refuse(f"{file} is not JSON ({error})")
    if not isinstance(found, dict):
        refuse(f"{file} holds no object")
    return found


@command("list", pager=True)
@click.option("--active", type=Number(min=0), metavar="MIN", help="Only those with activity within MIN minutes.")
@click.option("--label", metavar="LABEL", help="Only the one with this label.")
@click.option("--spawned-by", metavar="KEY", help="Only those that the session of this key spawned.")
@click.option("--agent", metavar="NAME", help="Only those of this agent.")
@click.option("--search", metavar="TEXT", help="Only those with TEXT in their name, label, subject, id or key.")
@click.option("--global", "with_global", is_flag=True, help="Also the session that all share.")
@click.option("--unknown", is_flag=True, help="Also the session of senders of whom nothing is known.")
@limit_option(None, most=1_000_000)
@config_option
@json_option
def list_keys(
    *,
    active: float | None,
    label: str | None,
    spawned_by: str | None,
    agent: str | None,
    search: str | None,
    with_global: bool,
    unknown: bool,
    limit: int | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """List the sessions that keys name, the latest first.

    A key is what a message's channel, account and peer come to, such as agent:main:telegram:dm:123. Sessions without a
    key are in `trails list`.
    """
    from trails.runtime.routing import Router

    with open_store(reading=True) as store:
        every = Router(store, config=_configuration(config)).list(
            active_minutes=active,
            label=label,
            spawned_by=spawned_by,
            agent=agent,
            search=search,
            include_global=with_global,
            include_unknown=unknown,
        )
    found, more = first_of(every, limit)
    empty = "no key names a session, or none that was asked for"
    value, said = {"sessions": found, "more": more}, left_out(len(found), more)
    answer(value, found, _draw_keys, empty=empty, said=said, as_json=as_json)


def _draw_keys(found: Sequence[SessionInfo]) -> None:
    from rich.text import Text

    from trails.cli import drawing

    made = drawing.table("key", "kind", "label", "agent", "last activity (UTC)", "tokens", "state", right=("tokens",))
    for info in found:
        made.add_row(
            Text(clean(info.key), style="cyan"),
            info.kind,
            Text(clean(info.label or "-")),
            Text(clean(info.agent or "-")),
            drawing.moment(info.updated),
            f"{info.total_tokens:,}",
            info.state,
        )
    drawing.screen().print(made)


@click.group("policy")
@store_option()
def policy() -> None:
    """Say what the policies of a configuration mean for sessions."""


@policy.command("check")
@click.argument("key", metavar="KEY")
@config_option
@json_option
@store_option()
def check(key: str, *, config: Path | None, as_json: bool) -> None:
    """Say what would happen to a session now, and by which rule.

    KEY is a session key, as `trails keys list` lists them, or a short name of one ("main"); it need not name a session
    yet. Without --config, the defaults hold. A rule is a field of the session's entry (entry.sendPolicy), a place in
    the configuration (session.resetByChannel.discord), or the default.
    """
    from trails.runtime.routing import Router

    with open_store(reading=True) as store:
        found = Router(store, config=_configuration(config)).check(key)
    answer(found, found, _draw_check, as_json=as_json)


def _draw_check(found: PolicyCheck) -> None:
    from rich.text import Text

    from trails.cli import drawing

    where = "no session yet" if found.session_id is None else f"session {found.session_id}"
    click.echo(f"{clean(found.key)} ({clean(where)})")
    made = drawing.table("what", "now", "rule", fold=("now",))
    for what, now, rule in _rows(found):
        made.add_row(what, now, Text(clean(rule)))
    drawing.screen().print(made)


def _rows(found: PolicyCheck) -> Iterator[tuple[str, Text, str]]:
    """Give the lines of a check: what, how it stands, and which rule decides."""
    from rich.text import Text

    yield "send", _word(found.send.allowed, "allowed", "denied"), found.send.rule
    yield "answer", _word(found.responds.allowed, "always", "when mentioned"), found.responds.rule
    yield "begin anew", Text(_resets(found)), found.reset_rule
    yield "next message", _next(found), found.reset_rule
    yield "spawn", _word(found.may_spawn, "allowed", "refused"), "key"
    yield "delete by key", _word(found.deletable, "allowed", "refused"), "key"


def _word(good: bool, yes: str, no: str) -> Text:
    from rich.text import Text

    return Text(yes, style="green") if good else Text(no, style="yellow")


def _resets(found: PolicyCheck) -> str:
    daily = f"daily at {found.reset.at_hour:02}:00" if found.reset.mode == "daily" else ""
    minutes = found.reset.idle_minutes
    idle = "" if minutes is None else f"after {count(minutes, 'minute')} without a message"
    return " and ".join(each for each in (daily, idle) if each)


def _next(found: PolicyCheck) -> Text:
    """Return what the next message of a person would do."""
    from rich.text import Text

    from trails.cli import drawing
    from trails.runtime.policy import from_ms

    if found.freshness is None:
        return Text("begins the session")
    if not found.freshness.fresh:
        return Text("begins anew", style="yellow")
    until = found.freshness.idle_expires_at
    return Text("goes on" if until is None else f"goes on, until {drawing.moment(from_ms(until))} UTC", style="green")
