"""Commands for messages, exchanges and deliveries."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import clean, count, shorten
from trails.errors import TrailsError

if TYPE_CHECKING:
    from datetime import datetime

    from trails.runtime.ledger import Running
    from trails.runtime.message_exchanges import HeadMove

_CELL: Final = 60
_entry_argument = click.argument("entry", metavar="ENTRY", type=click.IntRange(min=1))


@contextmanager
def _ledger_of(session: str, *, reading: bool = False) -> Iterator[tuple[str, trails.Ledger]]:
    """Open the store, and give the id of a session and the ledger."""

    with cli.open_store(reading=reading) as store:
        yield store.resolve(session), trails.Ledger(store)


# --- show


@cli.command("head", as_of=True)
@cli.session_argument
@cli.option("--moves", "Also how the head got there, one line a commit.")
def head(session: str, moves: bool) -> None:
    """Show a session's current turn: the last one stored.

    SESSION is an id, an IRI or a label. With --moves, each move of the head: from which digest to which, when, and by
    which exchange.
    """
    with _ledger_of(session, reading=True) as (session_id, ledger):
        turn = ledger.head(session_id)
        made = ledger.head_moves(session_id) if moves else None
    value: dict[str, Any] = {"session": session_id, "head": turn} | ({} if made is None else {"moves": made})
    empty = f"session {session_id!r} has no turns"
    cli.answer(value, turn, lambda turn: _draw_head(turn, made), empty=empty)


def _draw_head(turn: trails.Turn, moves: Sequence[HeadMove] | None) -> None:
    text = "[redacted]" if turn.redacted else turn.text
    click.echo(f"{turn.index} {turn.digest} {clean(turn.role)}: {shorten(text, _CELL)}")
    if moves is not None:
        cli.table(
            "turns,from,to,when (UTC),exchange",
            lambda m: (str(m.length), m.before[:16], m.after[:16], _when(m.time), str(m.exchange or "")),
            right=("turns", "exchange"),
        )(moves)


@cli.command("list", pager=True, limit=True)
@cli.session_argument
def inbox(*, session: str) -> None:
    """List the messages of a session that wait for an exchange.

    SESSION is an id, an IRI or a label.
    """
    with _ledger_of(session, reading=True) as (session_id, ledger):
        every = ledger.inbox(session_id)
    draw = cli.table(
        "entry,mode,received (UTC),from,message",
        lambda e: (str(e.number), e.mode or "", _when(e.received), _address(e), _text(e.content)),
        right=("entry",),
        fold=("message",),
    )
    empty = f"no message waits in the inbox of session {session_id!r}"
    cli.answer_list("messages", every, draw, empty, session=session_id)


@cli.command("exchanges", pager=True, limit=True)
@cli.session_argument
@cli.option("--state", "Only those in this state.", type=click.Choice(["pending", "streaming", "completed", "failed"]))
def exchanges(*, session: str, state: Any) -> None:
    """List a session's exchanges, and how each of them ended.

    An exchange is the work on a message, or several. SESSION is an id, an IRI or a label. An exchange that is streaming
    here was interrupted: its process died.
    """
    with _ledger_of(session, reading=True) as (session_id, ledger):
        every = ledger.exchanges(session_id, state=state)
    columns = "entry,state,took up,queued (UTC),ended (UTC),what"
    draw = cli.table(columns, _exchange_row, right=("entry",), fold=("what",))
    empty = f"session {session_id!r} has no exchanges{f' that are {state}' if state else ''}"
    cli.answer_list("exchanges", every, draw, empty, session=session_id)


def _exchange_row(exchange: trails.Exchange) -> tuple[str, ...]:
    how = f"again after {exchange.retry_of}" if exchange.retry_of is not None else ""
    match exchange.state:
        case "completed":
            ended = f"{count(len(exchange.turn_iris), 'turn')}, head {(exchange.head_after or '')[:8]}"
        case "failed":
            kept = f"; kept as {exchange.kept_as}" if exchange.kept_as is not None else ""
            ended = f"{shorten(exchange.error or '[taken out]', _CELL)}{kept}"
        case _:
            ended = ""
    state = "interrupted" if exchange.interrupted else exchange.state
    events = ", ".join(map(str, exchange.events))
    times = _when(exchange.queued), _when(exchange.ended)
    return str(exchange.number), state, events, *times, "; ".join(filter(None, (how, ended)))


@cli.command("events", pager=True, limit=True)
@cli.session_argument
def events(*, session: str) -> None:
    """List the messages that came to a session, and its answers.

    SESSION is an id, an IRI or a label. The attempts to deliver an answer are listed too.
    """

    with _ledger_of(session, reading=True) as (session_id, ledger):
        every: list[trails.Event | trails.Delivery] = [*ledger.events(session_id), *ledger.deliveries(session_id)]
        rows = sorted(every, key=lambda each: each.number)[: cli.list_limit()]
        content = {each.number: ledger.content(each) for each in rows if isinstance(each, trails.Event)}
    more = len(every) - len(rows)
    messages = [each.to_dict() | {"content": content[each.number]} for each in rows if isinstance(each, trails.Event)]
    attempts = [each for each in rows if not isinstance(each, trails.Event)]
    draw = cli.table(
        "entry,what,time (UTC),where,id,text",
        lambda e: _event_row(e, content) if isinstance(e, trails.Event) else _sent_row(e),
        right=("entry",),
        fold=("text",),
    )
    value = {"session": session_id, "events": messages, "deliveries": attempts, "more": more}
    cli.answer(value, rows, draw, empty=f"session {session_id!r} has no events", said=cli.left_out(len(rows), more))


def _event_row(event: trails.Event, content: Mapping[int, Any]) -> tuple[str, ...]:
    what, when = "in" if event.direction == "inbound" else "out", _when(event.received or event.time)
    return str(event.number), what, when, _address(event), event.event_id or "", _text(content[event.number])


def _sent_row(each: trails.Delivery) -> tuple[str, ...]:
    what = f"attempt {each.attempt}: {each.outcome}" + (f": {each.reason}" if each.reason else "")
    text = "[taken out]" if each.words is not None and each.words.withheld else each.text or ""
    return str(each.number), what, _when(each.time), each.channel, "", shorten(text, _CELL)


def _address(event: trails.Event) -> str:
    return " ".join(filter(None, (event.source, event.channel, event.account, event.peer)))


def _text(content: Any) -> str:
    return "[taken out]" if content is None else shorten(str(content), _CELL)


def _when(time: datetime | None) -> str:
    return cli.view.moment(time, seconds=True)


# --- write


@cli.command("receive")
@cli.session_argument
@click.argument("text", metavar="TEXT")
@cli.option("--source NAME", "Where the message comes from.")
@cli.option("--event-id ID", "Its id there: the same message is put in once, whatever comes again.")
@cli.option("--channel NAME", "The channel that an answer goes over.")
@cli.option("--account NAME", "The account on our side of it.")
@cli.option("--peer NAME", "Who is on its other side.")
@cli.option("--author NAME", "Whose turn it becomes; default: the session's principal.")
@cli.option(
    "--mode",
    "What becomes of it while the session is at work.",
    type=click.Choice(["followup", "collect", "steer", "hold"]),
    default="followup",
)
def receive(*, session: str, text: str, **given: Any) -> None:
    """Put a message into a session's inbox.

    The number of its entry is printed. SESSION is an id, an IRI or a label. TEXT is the message; - reads it from stdin.
    It waits until an exchange takes it up (`trails inbox process`).
    """
    content = cli.text_of(text)
    with _ledger_of(session) as (session_id, ledger):
        event = ledger.receive(session_id, content, **given)
    if event.session_id != session_id:
        cli.note(f"the message is in session {event.session_id!r} already; nothing was added")
    elif not event.waiting:
        cli.note("the message was taken up already; nothing was added")
    cli.answer(event, event.number)


@cli.command("process")
@cli.session_argument
@click.argument("run", metavar="-- COMMAND", nargs=-1, required=True, type=click.UNPROCESSED)
@cli.option("--limit N", "At most N exchanges.", type=click.IntRange(min=1))
@cli.option(
    "--interrupted",
    "What to do about an exchange whose process died.",
    type=click.Choice(["refuse", "retry", "fail"]),
    default="refuse",
)
@cli.option("--max-tokens N", "Leave out the oldest turns beyond this.", type=click.IntRange(min=1))
def process(*, session: str, run: tuple[str, ...], max_tokens: int | None, **how: Any) -> None:
    """Let a program answer the messages of a session.

    SESSION is an id, an IRI or a label. COMMAND is run for one exchange at a time. On stdin it gets a JSON object with
    `session`, `exchange`, `events` (the messages) and `messages` (what a model is shown, in the shape of OpenAI's chat
    API); what it prints is the answer, and where it prints nothing, there is none. Where it ends with another code than
    0, the exchange fails and keeps its messages for `trails inbox retry`. The store is in use meanwhile.
    """
    with _ledger_of(session) as (session_id, ledger):
        done = ledger.process(session_id, _answering(run, max_tokens), **how)
    said = f"{count(len(done), 'exchange')} completed"
    cli.answer({"exchanges": done}, [exchange.number for exchange in done], said=said)


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
        return cli.decoded(ended.stdout, "the answer").removesuffix("\n")

    return handler


@cli.command("retry")
@cli.session_argument
@_entry_argument
def retry(*, session: str, entry: int) -> None:
    """Let the next `process` take up an exchange's messages again.

    The number of the new exchange is printed. SESSION is an id, an IRI or a label; ENTRY is the number of an exchange
    that failed or was interrupted.
    """
    with _ledger_of(session) as (session_id, ledger):
        made = ledger.retry(session_id, entry)
    cli.answer(made, made.number)


@cli.command("fail")
@cli.session_argument
@_entry_argument
@cli.option("--error TEXT", "Why it failed.")
def fail(*, session: str, entry: int, error: str | None) -> None:
    """Note that an exchange failed which pends or was interrupted.

    Its messages stay for `trails inbox retry`. SESSION is an id, an IRI or a label; ENTRY is the exchange's number.
    """
    with _ledger_of(session) as (session_id, ledger):
        made = ledger.fail(session_id, entry, **({} if error is None else {"error": error}))
    cli.answer(made, made.number)


@cli.command("drop", by=True, reason=True, yes=True)
@cli.session_argument
@_entry_argument
def drop(*, session: str, entry: int, reason: str | None, yes: bool) -> None:
    """Take the text of a message out for good that no turn says.

    It is not processed any more. SESSION is an id, an IRI or a label; ENTRY is the message's number. It asks first on a
    terminal; elsewhere it needs --yes.
    """
    with _ledger_of(session) as (session_id, ledger):
        if not yes:
            question = f"Remove the text of message {entry} of session {session_id}?"
            cli.confirm(question, "dropping", "nothing was dropped")
        made = ledger.drop(session_id, entry, reason=reason)
    cli.answer(made, made.number)


@cli.command("delivered")
@cli.session_argument
@_entry_argument
@cli.option("--channel NAME", "The channel that it went over; default: the answer's own.")
@cli.option("--outcome", "How it ended.", type=click.Choice(["sent", "failed", "skipped"]), default="sent")
@cli.option("--reason TEXT", "Why, in a few words; nothing of the text.")
@cli.option("--text TEXT", "What was really sent, where that is not the answer itself; - reads stdin.")
def delivered(*, session: str, entry: int, text: str | None, **given: Any) -> None:
    """Note an attempt to send an answer out.

    The number of its entry is printed. SESSION is an id, an IRI or a label; ENTRY is the number of the answer among
    `trails inbox events`.
    """
    sent = None if text is None else cli.text_of(text)
    with _ledger_of(session) as (session_id, ledger):
        event = next((each for each in ledger.events(session_id) if each.number == entry), None)
        if event is None:
            cli.refuse(f"entry {entry} of the ledger of session {session_id!r} is no answer; see `trails inbox events`")
        made = ledger.delivered(event, text=sent, **given)
    cli.answer(made, made.number)
