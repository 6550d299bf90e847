"""Commands that delete sessions: delete, prune."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from trails.cli.base import (
    IN_OLDER_COPIES,
    answer,
    by_option,
    command,
    confirmed,
    echo_each,
    end,
    json_option,
    note,
    open_store,
    reason_option,
    refuse,
    session_argument,
    yes_option,
)
from trails.cli.terminal import count, one_line

if TYPE_CHECKING:
    from trails.plumbing.pruning import Pruning

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PREFIXES: Final = ("k", "m", "g", "t")
_BYTES: Final[dict[str, int]] = (
    {"b": 1}
    | {f"{prefix}b": int(1000**power) for power, prefix in enumerate(_PREFIXES, 1)}
    | {f"{prefix}ib": int(1024**power) for power, prefix in enumerate(_PREFIXES, 1)}
)


def _parse_age(ctx: click.Context, parameter: click.Parameter, value: str | None) -> timedelta | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})([smhdw])", value)
    if not found:
        raise click.BadParameter(f"{value!r} is no age; write 90d, 12h, 30m, 45s or 8w", ctx, parameter)
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def _parse_size(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,15})([A-Za-z]*)", value)
    factor = _BYTES.get(found[2].lower() or "b") if found else None
    if found is None or factor is None:
        raise click.BadParameter(f"{value!r} is no size; write 500MB, 1GB, 2GiB or a number of bytes", ctx, parameter)
    return int(found[1]) * factor


@command("prune")
@click.option(
    "--older-than", metavar="AGE", callback=_parse_age, help="Delete sessions unused for longer: 90d, 12h, 8w."
)
@click.option("--keep-count", metavar="N", type=click.IntRange(min=0), help="Delete the oldest until N are left.")
@click.option("--keep-size", metavar="SIZE", callback=_parse_size, help="Delete the oldest until their text fits: 1GB.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@by_option
@reason_option
@yes_option
@json_option
def prune(
    *,
    older_than: timedelta | None,
    keep_count: int | None,
    keep_size: int | None,
    dry_run: bool,
    reason: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete sessions that nobody uses any more; print their ids.

    A session's age is that of its last turn. One that others depend on stays while they do; tombstones stay, as with
    `trails delete`. At least one limit is needed; all that are given are kept. It asks first on a terminal; elsewhere
    it needs --yes or --dry-run.
    """
    if older_than is None and keep_count is None and keep_size is None:
        refuse("say what may go: --older-than, --keep-count or --keep-size")
    with open_store(reading=dry_run) as store:

        def run(dry: bool) -> Pruning:
            return store.prune(
                older_than=older_than, keep_count=keep_count, keep_bytes=keep_size, dry_run=dry, reason=reason
            )

        if not dry_run and not yes:
            doomed = len(run(True).sessions)
            if doomed and not confirmed(f"Delete {count(doomed, 'session')}?", "pruning"):
                note("nothing was deleted")
                end(1)
        report = run(dry_run)
    answer(report, map(one_line, report.sessions), echo_each, as_json=as_json)
    done = "would go" if dry_run else "went"
    note(f"{count(len(report.sessions), 'session')} {done}, with {report.text_bytes:,} bytes of text")
    if report.needed:
        kept = count(len(report.needed), "session")
        note(f"kept all the same, as others depend on them or tags name them: {kept}")
    if report.sessions and not dry_run:
        note(f"the text is in the store's files until `trails store vacuum`; {IN_OLDER_COPIES}")


@command("delete")
@session_argument
@click.option(
    "--children",
    type=click.Choice(["refuse", "cascade", "detach"]),
    default="refuse",
    show_default=True,
    help="What to do with sessions that depend on it: refuse, delete them too, or make its forks independent first.",
)
@by_option
@reason_option
@yes_option
def delete(*, session: str, children: str, reason: str | None, yes: bool) -> None:
    """Delete a session; print the ids of all that were deleted.

    SESSION is an id, an IRI or a label. A tombstone stays. A session that a tag names is kept, unless --children
    cascade takes the tag too. It asks first on a terminal; elsewhere it needs --yes.
    """
    from trails import HasChildren

    with open_store() as store:
        session_id = store.resolve(session, exact=True)
        if not yes:
            below = {child for child, _ in store.reader.dependants(session_id)} if children == "cascade" else set()
            also = f" and the {count(len(below), 'session')} that depend on it" if below else ""
            if not confirmed(f"Delete session {session_id!r}{also}?", "deleting"):
                note("nothing was deleted")
                end(1)
        try:
            deleted: Sequence[str] = store.delete(session_id, children=children, reason=reason)  # type: ignore[arg-type] # one of the choices
        except HasChildren as error:
            advice = f"{error}".replace('children="cascade"', "--children cascade")
            raise HasChildren(advice.replace('children="detach"', "--children detach")) from error
    echo_each(deleted)
