"""Commands about sessions by key: which there are, and what policies say of one. They write nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trails.cli.base import (
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
from trails.cli.terminal import clean, count
from trails.files import read_whole

if TYPE_CHECKING:
    from rich.text import Text

    from trails.routing.decisions import PolicyCheck, SessionInfo

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
    from trails.routing import Router

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

    from trails.cli import render

    made = render.table("key", "kind", "label", "agent", "last activity (UTC)", "tokens", "state", right=("tokens",))
    for info in found:
        made.add_row(
            Text(clean(info.key), style="cyan"),
            info.kind,
            Text(clean(info.label or "-")),
            Text(clean(info.agent or "-")),
            render.moment(info.updated),
            f"{info.total_tokens:,}",
            info.state,
        )
    render.screen().print(made)


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
    from trails.routing import Router

    with open_store(reading=True) as store:
        found = Router(store, config=_configuration(config)).check(key)
    answer(found, found, _draw_check, as_json=as_json)


def _draw_check(found: PolicyCheck) -> None:
    from rich.text import Text

    from trails.cli import render

    where = "no session yet" if found.session_id is None else f"session {found.session_id}"
    click.echo(f"{clean(found.key)} ({clean(where)})")
    made = render.table("what", "now", "rule", fold=("now",))
    for what, now, rule in _rows(found):
        made.add_row(what, now, Text(clean(rule)))
    render.screen().print(made)


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

    from trails.cli import render
    from trails.policy import from_ms

    if found.freshness is None:
        return Text("begins the session")
    if not found.freshness.fresh:
        return Text("begins anew", style="yellow")
    until = found.freshness.idle_expires_at
    return Text("goes on" if until is None else f"goes on, until {render.moment(from_ms(until))} UTC", style="green")
