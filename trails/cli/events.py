"""Commands that show what happens around turns and write nothing: head, inbox, exchanges, events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from trails.cli.base import (
    answer,
    as_of_option,
    command,
    first_of,
    json_option,
    left_out,
    limit_option,
    open_store,
    session_argument,
)
from trails.cli.terminal import clean, count, shorten

if TYPE_CHECKING:
    from datetime import datetime

    from trails.ledger.heads import HeadMove
    from trails.model import Turn
    from trails.records.entries import Delivery, Event, Exchange

_CELL = 60


@command("head")
@session_argument
@click.option("--moves", is_flag=True, help="Also how the head got there, one line a commit.")
@as_of_option
@json_option
def head(session: str, moves: bool, as_json: bool) -> None:
    """Show a session's current turn: the last one stored.

    SESSION is an id, an IRI or a label. With --moves, each move of the head: from which digest to which, when, and by
    which exchange.
    """
    from trails.ledger import Ledger

    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        ledger = Ledger(store)
        turn = ledger.head(session_id)
        made = ledger.head_moves(session_id) if moves else None
    value: dict[str, Any] = {"session": session_id, "head": turn} | ({} if made is None else {"moves": made})
    empty = f"session {session_id!r} has no turns"
    answer(value, turn, lambda turn: _draw_head(turn, made), empty=empty, as_json=as_json)


def _draw_head(turn: Turn, moves: Sequence[HeadMove] | None) -> None:
    from trails.cli import render

    text = "[redacted]" if turn.redacted else turn.text
    click.echo(f"{turn.index} {turn.digest} {clean(turn.role)}: {shorten(text, _CELL)}")
    if moves is not None:
        rows = [(str(m.length), m.before[:16], m.after[:16], _when(m.time), _number(m.exchange)) for m in moves]
        render.print_table(("turns", "from", "to", "when (UTC)", "exchange"), rows, right=("turns", "exchange"))


@command("list", pager=True)
@session_argument
@limit_option(None, most=1_000_000)
@json_option
def inbox(*, session: str, limit: int | None, as_json: bool) -> None:
    """List the messages of a session that wait for an exchange.

    SESSION is an id, an IRI or a label.
    """
    from trails.ledger import Ledger

    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        every = Ledger(store).inbox(session_id)
    events, more = first_of(every, limit)
    value, said = {"session": session_id, "messages": events, "more": more}, left_out(len(events), more)
    empty = f"no message waits in the inbox of session {session_id!r}"
    answer(value, events, _draw_inbox, empty=empty, said=said, as_json=as_json)


def _draw_inbox(events: Sequence[Event]) -> None:
    from trails.cli import render

    rows = [(str(e.number), e.mode or "", _when(e.received), _address(e), _text(e)) for e in events]
    render.print_table(
        ("entry", "mode", "received (UTC)", "from", "message"), rows, right=("entry",), fold=("message",)
    )


@command("exchanges", pager=True)
@session_argument
@click.option(
    "--state",
    type=click.Choice(["pending", "streaming", "completed", "failed"]),
    help="Only those in this state.",
)
@limit_option(None, most=1_000_000)
@json_option
def exchanges(*, session: str, state: Any, limit: int | None, as_json: bool) -> None:
    """List a session's exchanges, and how each of them ended.

    An exchange is the work on a message, or several. SESSION is an id, an IRI or a label. An exchange that is streaming
    here was interrupted: its process died.
    """
    from trails.ledger import Ledger

    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        every = Ledger(store).exchanges(session_id, state=state)
    found, more = first_of(every, limit)
    value, said = {"session": session_id, "exchanges": found, "more": more}, left_out(len(found), more)
    empty = f"session {session_id!r} has no exchanges{f' that are {state}' if state else ''}"
    answer(value, found, _draw_exchanges, empty=empty, said=said, as_json=as_json)


def _draw_exchanges(found: Sequence[Exchange]) -> None:
    from trails.cli import render

    columns = ("entry", "state", "took up", "queued (UTC)", "ended (UTC)", "what")
    rows = [(str(e.number), _state(e), _numbers(e.events), _when(e.queued), _when(e.ended), _how(e)) for e in found]
    render.print_table(columns, rows, right=("entry",), fold=("what",))


@command("events", pager=True)
@session_argument
@limit_option(None, most=1_000_000)
@json_option
def events(*, session: str, limit: int | None, as_json: bool) -> None:
    """List the messages that came to a session, and its answers.

    SESSION is an id, an IRI or a label. The attempts to deliver an answer are listed too.
    """
    from trails.ledger import Ledger
    from trails.records.entries import Event

    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        ledger = Ledger(store)
        every: list[Event | Delivery] = [*ledger.events(session_id), *ledger.deliveries(session_id)]
        rows, more = first_of(sorted(every, key=lambda each: each.number), limit)
        content = {each.number: ledger.content(each) for each in rows if isinstance(each, Event)}
    events = [each.to_dict() | {"content": content[each.number]} for each in rows if isinstance(each, Event)]
    attempts = [each for each in rows if not isinstance(each, Event)]
    value = {"session": session_id, "events": events, "deliveries": attempts, "more": more}
    empty = f"session {session_id!r} has no events"
    said = left_out(len(rows), more)
    answer(value, rows, lambda rows: _draw_events(rows, content), empty=empty, said=said, as_json=as_json)


def _draw_events(entries: Iterable[Event | Delivery], said: Mapping[int, Any]) -> None:
    from trails.cli import render
    from trails.records.entries import Event

    columns = ("entry", "what", "time (UTC)", "where", "id", "text")
    rows = [_event_row(e, said[e.number]) if isinstance(e, Event) else _sent_row(e) for e in entries]
    render.print_table(columns, rows, right=("entry",), fold=("text",))


def _event_row(event: Event, said: Any) -> tuple[str, ...]:
    what = "in" if event.direction == "inbound" else "out"
    text = "[taken out]" if said is None else _cell(said)
    return str(event.number), what, _when(event.received or event.time), _address(event), event.event_id or "", text


def _sent_row(each: Delivery) -> tuple[str, ...]:
    why = f": {each.reason}" if each.reason else ""
    what = f"attempt {each.attempt}: {each.outcome}{why}"
    text = "[taken out]" if each.words is not None and each.words.withheld else each.text or ""
    return str(each.number), what, _when(each.time), each.channel, "", shorten(text, _CELL)


def _state(exchange: Exchange) -> str:
    return "interrupted" if exchange.interrupted else exchange.state


def _how(exchange: Exchange) -> str:
    retried = f"again after {exchange.retry_of}; " if exchange.retry_of is not None else ""
    kept = f"; kept as {exchange.kept_as}" if exchange.kept_as is not None else ""
    match exchange.state:
        case "completed":
            return f"{retried}{count(len(exchange.turn_iris), 'turn')}, head {(exchange.head_after or '')[:8]}"
        case "failed":
            return f"{retried}{shorten(exchange.error or '[taken out]', _CELL)}{kept}"
        case _:
            return retried.removesuffix("; ")


def _address(event: Event) -> str:
    return " ".join(each for each in (event.source, event.channel, event.account, event.peer) if each)


def _text(event: Event) -> str:
    return "[taken out]" if event.content is None else _cell(event.content)


def _cell(content: Any) -> str:
    return shorten(content if isinstance(content, str) else str(content), _CELL)


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _when(time: datetime | None) -> str:
    from trails.cli import render

    return render.moment(time, seconds=True)
