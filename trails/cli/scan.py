"""The command that looks for secrets in what is stored: scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trails.cli.base import answer, command, echo_each, end, json_option, open_store, refuse
from trails.cli.terminal import count, one_line

if TYPE_CHECKING:
    from trails.secrets import Found


def described(found: Found) -> str:
    """Return a finding as one line: its kind, where it stands, and no more of it than a hint."""
    session = "no session" if found.session_id is None else one_line(str(found.to_dict()["session"]))
    turn = "" if found.index is None else f", turn {found.index}"
    taken = ", taken out" if found.redacted else ""
    return f"{found.kind:<18} {session}{turn}, {one_line(found.where)}: {one_line(found.hint)}{taken}"


@command("scan", pager=True)
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("--all", "whole", is_flag=True, help="Look through the whole store.")
@json_option
def find_secrets(*, session: str | None, whole: bool, as_json: bool) -> None:
    """Look for API keys, tokens and passwords in what is stored.

    It looks through a session, or with --all through the whole store. SESSION is an id, an IRI or a label; the turns
    that it shares are looked through too. Each secret is named by its kind, session, turn and place, and never shown.
    The exit code is 1 where any is found. `trails redact` takes the content of a turn out; the extra `secrets` adds
    formats to those that are known without it.
    """
    from trails.cli import render
    from trails.plumbing import scan

    if whole == (session is not None):
        refuse("name a session, or give --all")
    with open_store(reading=True) as store:
        if session is not None:
            report = scan.scan(store.workspace, session)
        else:
            with render.progress("scanning") as progress:
                report = scan.scan_all(store.workspace, progress)
    found = count(len(report.found), "secret") if report.found else "no secrets"
    said = f"{found} in {count(report.sessions, 'session')}"
    answer(report, map(described, report.found), echo_each, said=said, as_json=as_json)
    if report.found:
        end(1)
