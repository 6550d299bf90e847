"""Commands for messages, exchanges and deliveries.

Commands that show what happens around turns and write nothing: head, inbox, exchanges, events.

Commands that write what happens around turns, from a shell: receive, process, retry, fail, drop, delivered.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from trails.cli.options import (
    answer,
    as_of_option,
    by_option,
    command,
    confirmed,
    decoded,
    echo_each,
    end,
    first_of,
    json_option,
    left_out,
    limit_option,
    note,
    open_store,
    read_stdin,
    refuse,
    session_argument,
    yes_option,
)
from trails.cli.terminal import clean, count, shorten
from trails.errors import TrailsError

if TYPE_CHECKING:
    from datetime import datetime

    from trails import Repository
    from trails.model.values import Turn
    from trails.rdf.ledger_records import Delivery, Event, Exchange
    from trails.runtime.exchanges import HeadMove
    from trails.runtime.ledger import Ledger, Running

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
    from trails.runtime.ledger import Ledger

    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        ledger = Ledger(store)
        turn = ledger.head(session_id)
        made = ledger.head_moves(session_id) if moves else None
    value: dict[str, Any] = {"session": session_id, "head": turn} | ({} if made is None else {"moves": made})
    empty = f"session {session_id!r} has no turns"
    answer(value, turn, lambda turn: _draw_head(turn, made), empty=empty, as_json=as_json)


def _draw_head(turn: Turn, moves: Sequence[HeadMove] | None) -> None:
    from trails.cli import drawing

    text = "[redacted]" if turn.redacted else turn.text
    click.echo(f"{turn.index} {turn.digest} {clean(turn.role)}: {shorten(text, _CELL)}")
    if moves is not None:
        rows = [(str(m.length), m.before[:16], m.after[:16], _when(m.time), _number(m.exchange)) for m in moves]
        drawing.print_table(("turns", "from", "to", "when (UTC)", "exchange"), rows, right=("turns", "exchange"))


@command("list", pager=True)
@session_argument
@limit_option(None, most=1_000_000)
@json_option
def inbox(*, session: str, limit: int | None, as_json: bool) -> None:
    """List the messages of a session that wait for an exchange.

    SESSION is an id, an IRI or a label.
    """
    from trails.runtime.ledger import Ledger

    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        every = Ledger(store).inbox(session_id)
    events, more = first_of(every, limit)
    value, said = {"session": session_id, "messages": events, "more": more}, left_out(len(events), more)
    empty = f"no message waits in the inbox of session {session_id!r}"
    answer(value, events, _draw_inbox, empty=empty, said=said, as_json=as_json)


def _draw_inbox(events: Sequence[Event]) -> None:
    from trails.cli import drawing

    rows = [(str(e.number), e.mode or "", _when(e.received), _address(e), _text(e)) for e in events]
    drawing.print_table(
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
    from trails.runtime.ledger import Ledger

    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        every = Ledger(store).exchanges(session_id, state=state)
    found, more = first_of(every, limit)
    value, said = {"session": session_id, "exchanges": found, "more": more}, left_out(len(found), more)
    empty = f"session {session_id!r} has no exchanges{f' that are {state}' if state else ''}"
    answer(value, found, _draw_exchanges, empty=empty, said=said, as_json=as_json)


def _draw_exchanges(found: Sequence[Exchange]) -> None:
    from trails.cli import drawing

    columns = ("entry", "state", "took up", "queued (UTC)", "ended (UTC)", "what")
    rows = [(str(e.number), _state(e), _numbers(e.events), _when(e.queued), _when(e.ended), _how(e)) for e in found]
    drawing.print_table(columns, rows, right=("entry",), fold=("what",))


@command("events", pager=True)
@session_argument
@limit_option(None, most=1_000_000)
@json_option
def events(*, session: str, limit: int | None, as_json: bool) -> None:
    """List the messages that came to a session, and its answers.

    SESSION is an id, an IRI or a label. The attempts to deliver an answer are listed too.
    """
    from trails.rdf.ledger_records import Event
    from trails.runtime.ledger import Ledger

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
    from trails.cli import drawing
    from trails.rdf.ledger_records import Event

    columns = ("entry", "what", "time (UTC)", "where", "id", "text")
    rows = [_event_row(e, said[e.number]) if isinstance(e, Event) else _sent_row(e) for e in entries]
    drawing.print_table(columns, rows, right=("entry",), fold=("text",))


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
    from trails.cli import drawing

    return drawing.moment(time, seconds=True)


_entry_argument = click.argument("entry", metavar="ENTRY", type=click.IntRange(min=1))


@command("receive")
@session_argument
@click.argument("text", metavar="TEXT")
@click.option("--source", metavar="NAME", help="Where the message comes from.")
@click.option("--event-id", metavar="ID", help="Its id there: the same message is put in once, whatever comes again.")
@click.option("--channel", metavar="NAME", help="The channel that an answer goes over.")
@click.option("--account", metavar="NAME", help="The account on our side of it.")
@click.option("--peer", metavar="NAME", help="Who is on its other side.")
@click.option("--author", metavar="NAME", help="Whose turn it becomes; default: the session's principal.")
@click.option(
    "--mode",
    type=click.Choice(["followup", "collect", "steer", "hold"]),
    default="followup",
    show_default=True,
    help="What becomes of it while the session is at work.",
)
@json_option
def receive(*, session: str, text: str, as_json: bool, **given: Any) -> None:
    """Put a message into a session's inbox.

    The number of its entry is printed. SESSION is an id, an IRI or a label. TEXT is the message; - reads it from stdin.
    It waits until an exchange takes it up (`trails inbox process`).
    """
    content = read_stdin() if text == "-" else text
    with open_store() as store:
        session_id = store.resolve(session)
        event = _ledger(store).receive(session_id, content, **given)
    if event.session_id != session_id:
        note(f"the message is in session {event.session_id!r} already; nothing was added")
    elif not event.waiting:
        note("the message was taken up already; nothing was added")
    answer(event, event.number, click.echo, as_json=as_json)


@command("process")
@session_argument
@click.argument("run", metavar="-- COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N exchanges.")
@click.option(
    "--interrupted",
    type=click.Choice(["refuse", "retry", "fail"]),
    default="refuse",
    show_default=True,
    help="What to do about an exchange whose process died.",
)
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="Leave out the oldest turns beyond this.")
@json_option
def process(
    *, session: str, run: tuple[str, ...], limit: int | None, interrupted: Any, max_tokens: int | None, as_json: bool
) -> None:
    """Let a program answer the messages of a session.

    SESSION is an id, an IRI or a label. COMMAND is run for one exchange at a time. On stdin it gets a JSON object with
    `session`, `exchange`, `events` (the messages) and `messages` (what a model is shown, in the shape of OpenAI's chat
    API); what it prints is the answer, and where it prints nothing, there is none. Where it ends with another code than
    0, the exchange fails and keeps its messages for `trails inbox retry`. The store is in use meanwhile.
    """
    with open_store() as store:
        done = _ledger(store).process(
            store.resolve(session), _answering(run, max_tokens), interrupted=interrupted, limit=limit
        )
    numbers = [exchange.number for exchange in done]
    said = f"{count(len(done), 'exchange')} completed"
    answer({"exchanges": done}, numbers, echo_each, said=said, as_json=as_json)


def _answering(run: Sequence[str], max_tokens: int | None) -> Callable[[Running], str]:
    """Return a handler that asks a program."""

    def handler(running: Running) -> str:
        asked = {
            "session": running.session.id,
            "exchange": running.number,
            "events": [event.to_dict() for event in running.messages],
            "messages": running.session.context(max_tokens=max_tokens).openai(),
        }
        try:
            ended = subprocess.run(run, input=json.dumps(asked).encode(), stdout=subprocess.PIPE, check=False)  # noqa: S603 - what was asked for
        except OSError as error:
            raise TrailsError(f"{run[0]!r} cannot be run: {error.strerror or error}") from error
        if ended.returncode:
            raise TrailsError(f"{shlex.join(run)} ended with code {ended.returncode}")
        return decoded(ended.stdout, "the answer").removesuffix("\n")

    return handler


@command("retry")
@session_argument
@_entry_argument
@json_option
def retry(*, session: str, entry: int, as_json: bool) -> None:
    """Let the next `process` take up an exchange's messages again.

    The number of the new exchange is printed. SESSION is an id, an IRI or a label; ENTRY is the number of an exchange
    that failed or was interrupted.
    """
    with open_store() as store:
        made = _ledger(store).retry(store.resolve(session), entry)
    answer(made, made.number, click.echo, as_json=as_json)


@command("fail")
@session_argument
@_entry_argument
@click.option("--error", metavar="TEXT", help="Why it failed.")
@json_option
def fail(*, session: str, entry: int, error: str | None, as_json: bool) -> None:
    """Note that an exchange failed which pends or was interrupted.

    Its messages stay for `trails inbox retry`. SESSION is an id, an IRI or a label; ENTRY is the exchange's number.
    """
    with open_store() as store:
        why = {} if error is None else {"error": error}
        made = _ledger(store).fail(store.resolve(session), entry, **why)
    answer(made, made.number, click.echo, as_json=as_json)


@command("drop")
@session_argument
@_entry_argument
@click.option("--reason", metavar="TEXT", help="Why; it stays.")
@by_option
@yes_option
@json_option
def drop(*, session: str, entry: int, reason: str | None, yes: bool, as_json: bool) -> None:
    """Take the text of a message out for good that no turn says.

    It is not processed any more. SESSION is an id, an IRI or a label; ENTRY is the message's number. It asks first on a
    terminal; elsewhere it needs --yes.
    """
    with open_store() as store:
        session_id = store.resolve(session)
        if not yes and not confirmed(f"Take the text of message {entry} of session {session_id} out?", "dropping"):
            end(1)
        made = _ledger(store).drop(session_id, entry, reason=reason)
    answer(made, made.number, click.echo, as_json=as_json)


@command("delivered")
@session_argument
@_entry_argument
@click.option("--channel", metavar="NAME", help="The channel that it went over; default: the answer's own.")
@click.option(
    "--outcome",
    type=click.Choice(["sent", "failed", "skipped"]),
    default="sent",
    show_default=True,
    help="How it ended.",
)
@click.option("--reason", metavar="TEXT", help="Why, in a few words; nothing of the text.")
@click.option(
    "--text", metavar="TEXT", help="What was really sent, where that is not the answer itself; - reads stdin."
)
@json_option
def delivered(*, session: str, entry: int, text: str | None, as_json: bool, **given: Any) -> None:
    """Note an attempt to send an answer out.

    The number of its entry is printed. SESSION is an id, an IRI or a label; ENTRY is the number of the answer among
    `trails inbox events`.
    """
    sent = read_stdin() if text == "-" else text
    with open_store() as store:
        session_id, ledger = store.resolve(session), _ledger(store)
        event = next((each for each in ledger.events(session_id) if each.number == entry), None)
        if event is None:
            refuse(f"entry {entry} of the ledger of session {session_id!r} is no answer; see `trails inbox events`")
        made = ledger.delivered(event, text=sent, **given)
    answer(made, made.number, click.echo, as_json=as_json)


def _ledger(store: Repository) -> Ledger:
    from trails.runtime.ledger import Ledger

    return Ledger(store)
