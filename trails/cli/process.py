"""Commands that write what happens around turns, from a shell: receive, process, retry, fail, drop, delivered."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from trails.cli.base import (
    answer,
    by_option,
    command,
    confirmed,
    decoded,
    echo_each,
    end,
    json_option,
    note,
    open_store,
    read_stdin,
    refuse,
    session_argument,
    yes_option,
)
from trails.cli.terminal import count
from trails.errors import TrailsError

if TYPE_CHECKING:
    from trails import Repository
    from trails.ledger import Ledger, Running

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
    from trails.ledger import Ledger

    return Ledger(store)
