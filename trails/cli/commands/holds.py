"""Commands for legal holds and standing rules of retention."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from trails.cli import options as cli
from trails.cli.commands.sessions import age_of
from trails.display.terminal_text import clean, count, one_line

if TYPE_CHECKING:
    from trails.session.holds import HoldState
    from trails.session.retention import RuleRun, RuleState


@cli.command("place", reason=True, by=True)
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@cli.option("--principal NAME", "Cover all sessions of a principal, later ones too.")
@cli.option("--label TEXT", "Cover whichever session has this label.")
@cli.option("--meta NAME=VALUE", "Cover sessions of which this is noted; may be repeated.", multiple=True)
@cli.option("--query QUERY", "Cover the sessions in the column `session` of a query's rows now.")
@click.option("--for", "how_long", metavar="AGE", callback=age_of, help="End the hold after this time: 90d, 8w, 2y.")
def place_hold(
    *,
    sessions: tuple[str, ...],
    principal: str | None,
    label: str | None,
    meta: tuple[str, ...],
    query: str | None,
    how_long: int | None,
    reason: str | None,
) -> None:
    """Put sessions on legal hold: nothing takes them away.

    Name SESSIONs, or give one of --principal, --label, --meta and --query. While the hold is in force, what it covers is not
    deleted, redacted, pruned or taken by a rule of retention, and neither is what a fork on hold shows of its ancestors.
    --reason is needed. The hold's id is printed.
    """
    if reason is None:
        cli.refuse("say with --reason why these sessions are put on hold")
    until = None if how_long is None else datetime.now().astimezone() + timedelta(seconds=how_long)
    facts = dict(cli.pairs(meta, "--meta")) or None
    with cli.open_store() as store:
        hold = store.holds.place(
            *sessions, reason=reason, principal=principal, label=label, meta=facts, query=query, until=until
        )
    cli.answer({"hold": hold}, hold.token, said=f"{count(len(hold.sessions), 'session')} on hold now")


@cli.command("list", pager=True, as_of=True, limit=True)
@click.argument("session", metavar="[SESSION]", required=False)
@cli.option("--in-force", "Only those that are neither lifted nor over.")
def list_holds(*, session: str | None, in_force: bool) -> None:
    """List legal holds, oldest first; those on SESSION."""
    with cli.open_store(reading=True) as store:
        every = list(store.holds.list(session, in_force=True if in_force else None))
    draw = cli.table("hold,covers,state,until (UTC),by,why", _hold_row, fold=("why",))
    cli.answer_list("holds", every, draw, "there are no holds")


def _hold_row(state: HoldState) -> tuple[str, ...]:
    hold = state.hold
    stands = "lifted" if state.lifted is not None else "in force" if state.is_in_force() else "over"
    named = [("principal", hold.principal), ("label", hold.label), ("meta", hold.meta), ("query", hold.query)]
    rest = [f"{what} {one_line(text)}" for what, text in named if text is not None]
    until = "-" if hold.until is None else cli.view.moment(hold.until)
    covers = ", ".join([*rest, count(len(hold.sessions), "session")])
    return hold.token, covers, stands, until, clean(hold.by), one_line(hold.reason)


@cli.command("lift", reason=True, by=True)
@click.argument("hold", metavar="ID")
def lift_hold(*, hold: str, reason: str | None) -> None:
    """Lift a legal hold; it stays on record.

    ID is the hold's, or the beginning of it. --reason says why it is lifted.
    """
    with cli.open_store() as store:
        closing = store.holds.lift(hold, reason)
    cli.answer({"closing": closing}, None, said=f"the hold {closing.closes} is lifted")


@cli.command("add", reason=True, by=True)
@click.option(
    "--keep-for", metavar="AGE", callback=age_of, help="Keep sessions so long after their last turn: 90d, 2y."
)
@cli.option("--principal NAME", "Only sessions of a principal.")
@cli.option("--kind KIND", "Only sessions of a kind: branch, worker.")
@cli.option("--meta NAME=VALUE", "Only sessions of which this is noted; may be repeated.", multiple=True)
@cli.option("--query QUERY", "Only the sessions in the column `session` of a query's rows.")
def add_rule(
    *,
    keep_for: int | None,
    principal: str | None,
    kind: str | None,
    meta: tuple[str, ...],
    query: str | None,
    reason: str | None,
) -> None:
    """Add a standing rule: which sessions go, and when.

    `trails retention apply` deletes by it. Without --keep-for a --query is needed, and all that it names then goes. The rule's
    id is printed.
    """
    age = None if keep_for is None else timedelta(seconds=keep_for)
    facts = dict(cli.pairs(meta, "--meta")) or None
    with cli.open_store() as store:
        rule = store.retention.add(keep_for=age, principal=principal, kind=kind, meta=facts, query=query, reason=reason)
    cli.answer({"rule": rule}, rule.token, said="it deletes nothing before `trails retention apply`")


@cli.command("list", pager=True, as_of=True, limit=True)
@cli.option("--standing", "Only those that were not ended.")
def list_rules(*, standing: bool) -> None:
    """List the rules of retention, oldest first."""
    with cli.open_store(reading=True) as store:
        every = store.retention.rules(standing=True if standing else None)
    draw = cli.table("rule,keeps for,sessions,state,by,why", _rule_row, fold=("why",))
    cli.answer_list("rules", every, draw, "there are no rules of retention")


def _rule_row(state: RuleState) -> tuple[str, ...]:
    rule = state.rule
    named = [("principal", rule.principal), ("kind", rule.kind), ("meta", rule.meta), ("query", rule.query)]
    which = ", ".join(f"{what} {one_line(text)}" for what, text in named if text is not None) or "all"
    age = "-" if rule.seconds is None else f"{timedelta(seconds=rule.seconds)}"
    return (
        rule.token, age, which, "standing" if state.ended is None else "ended", clean(rule.by), one_line(rule.reason or "")
    )  # fmt: skip


@cli.command("end", reason=True, by=True)
@click.argument("rule", metavar="ID")
def end_rule(*, rule: str, reason: str | None) -> None:
    """End a rule of retention; it stays on record.

    ID is the rule's, or the beginning of it. --reason says why it ends.
    """
    with cli.open_store() as store:
        closing = store.retention.end(rule, reason)
    cli.answer({"closing": closing}, None, said=f"the rule {closing.closes} is ended")


@cli.command("apply", by=True, yes=True)
@cli.option("--dry-run", "Only say what would be deleted, and what a hold keeps.")
def apply_rules(*, dry_run: bool, yes: bool) -> None:
    """Delete by all rules of retention; print the ids.

    Each line is a rule, what becomes of a session by it, and the session: deleted, held (a legal hold covers it) or needed
    (another depends on it, or a tag names it). It asks first on a terminal; elsewhere it needs --yes or --dry-run.
    """
    with cli.open_store(reading=dry_run) as store:
        if not dry_run and not yes:
            doomed = sum(len(each.pruning.sessions) for each in store.retention.apply(dry_run=True))
            if doomed:
                cli.confirm(f"Delete {count(doomed, 'session')}?", "applying the rules", "nothing was deleted")
        runs = store.retention.apply(dry_run=dry_run)
    cli.answer({"dry_run": dry_run, "rules": runs}, [line for run in runs for line in _lines(run)])
    done = "would be deleted" if dry_run else "deleted"
    cli.note(f"{count(sum(len(each.pruning.sessions) for each in runs), 'session')} {done}")


def _lines(run: RuleRun) -> list[str]:
    every = (("deleted", run.pruning.sessions), ("held", run.pruning.held), ("needed", run.pruning.needed))
    return [f"{run.rule} {what} {one_line(each)}" for what, ids in every for each in ids]
