"""Commands that show sessions: show, branches, replay, context, blame, tail.

Commands that show sessions: show, branches, replay.

Commands for what a model is shown: context, compact.

The command that says where turns come from: blame.

`trails tail`: what happens in a store, as its log tells it; also while another process has the store open.

Only the log is read, which is safe from outside: it is append-only, and a crash cuts off at most a torn end. The engine's
files are opened only where nobody else has them, for the texts of the first lines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from trails.cli.options import (
    answer,
    as_of_option,
    command,
    first_of,
    indexes,
    json_option,
    left_out,
    limit_option,
    note,
    open_store,
    print_json,
    read_stdin,
    read_text,
    refuse,
    session_argument,
)
from trails.cli.terminal import count, one_line, shorten, to_json
from trails.errors import IntegrityError, TrailsError

if TYPE_CHECKING:
    from trails import Repository
    from trails.context import Context
    from trails.history.watch import Notice
    from trails.model.values import SessionRecord, Turn
    from trails.session.blame import Blame


def _draw_sessions(records: Sequence[SessionRecord]) -> None:
    from trails.cli import drawing

    drawing.sessions(drawing.screen(), records)


@command("show", pager=True)
@click.argument("ref", metavar="REF")
@click.option("--range", "turns_", metavar="TURNS", help="Only these turns: 4, 3:7 (7 is left out), 5:, :2, or 1,3:5.")
@click.option("--full", is_flag=True, help="Whole texts, tool arguments and digests.")
@as_of_option
@json_option
def show(ref: str, turns_: str | None, full: bool, as_json: bool) -> None:
    """Show a session's transcript for reading.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it; --range picks turns
    by their indices out of these. Turns that come from an ancestor name the session that owns them. Long texts and tool
    arguments are shortened without --full; JSON is always whole.
    """
    from trails.history.lookup import names

    with open_store(reading=True) as store:
        place = names.parse_revision(store.workspace, ref)
        loaded = store.load(place.session_id)
        record, turns, system = loaded.record, loaded.turns[: place.end], loaded.system
    chosen = turns if turns_ is None else [turns[index] for index in indexes(turns_, len(turns))]

    def draw(chosen: Sequence[Turn]) -> None:
        from trails.cli import drawing

        console = drawing.screen()
        drawing.session_head(console, record, turns, system, full=full)
        drawing.transcript(console, record.id, chosen, full=full)

    answer({"session": record, "system": system, "turns": chosen}, chosen, draw, as_json=as_json)


@command("branches", pager=True)
@session_argument
@limit_option(None, most=1_000_000)
@as_of_option
@json_option
def branches(*, session: str, limit: int | None, as_json: bool) -> None:
    """List a session's direct forks, oldest first.

    SESSION is an id, an IRI or a label.
    """
    with open_store(reading=True) as store:
        session_id = store.resolve(session)
        every: list[SessionRecord] = store.branches(session_id)
    records, more = first_of(every, limit)
    value, said = {"session": session_id, "branches": records, "more": more}, left_out(len(records), more)
    empty = f"session {session_id!r} has no forks"
    answer(value, records, _draw_sessions, empty=empty, said=said, as_json=as_json)


@command("replay", pager=True)
@click.argument("ref", metavar="REF")
@click.option("--up-to", type=click.IntRange(min=0), metavar="INDEX", help="Stop before the turn with this index.")
@as_of_option
@json_option
def replay(ref: str, up_to: int | None, as_json: bool) -> None:
    """Print what a model would be sent again, turn by turn.

    Printed are role and content of each turn, in order. REF is a session (an id, an IRI or a label), a tag, or such a
    name with @ and how many turns of it. Nothing is shortened and nothing is written.
    """
    from trails.history.lookup import names

    with open_store(reading=True) as store:
        place = names.parse_revision(store.workspace, ref)
        session_id = place.session_id
        ends = [end for end in (up_to, place.end) if end is not None]
        turns = store.replay(session_id, up_to_index=min(ends, default=None))
    answer({"session": session_id, "turns": turns}, turns, _draw_replay, as_json=as_json)


def _draw_replay(turns: Sequence[Mapping[str, Any]]) -> None:
    from trails.cli import drawing

    drawing.replay(drawing.screen(), turns)


@command("context", pager=True)
@session_argument
@click.option("--query", metavar="TEXT", help="What is asked next; - reads it from stdin.")
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="Leave out the oldest turns beyond this.")
@click.option(
    "--pinned",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Opening turns that stay, where there is no summary.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "openai", "anthropic", "json"]),
    default="text",
    show_default=True,
    help="For people, or as a model's API wants it.",
)
@click.option("--leave-out-cut", is_flag=True, help="Leave turns out that broke off; else they are marked.")
@as_of_option
@json_option
def show_context(
    *,
    session: str,
    query: str | None,
    max_tokens: int | None,
    pinned: int,
    form: str,
    leave_out_cut: bool,
    as_json: bool,
) -> None:
    """Show what a model is shown of a session.

    That is the system prompt, the latest summary, the turns since, and the query. SESSION is an id, an IRI or a label.
    Tokens are estimated. Nothing is written.
    """
    if as_json and form != "text":
        refuse(f"--json and --format {form} exclude each other")
    asked = read_stdin() if query == "-" else query
    with open_store(reading=True) as store:
        made = store.context(
            store.resolve(session),
            asked,
            max_tokens=max_tokens,
            pinned_count=pinned,
            cut="leave out" if leave_out_cut else "mark",
        )
    if form == "openai":
        print_json(made.openai())
    elif form == "anthropic":
        print_json(made.anthropic())
    else:
        answer(made, made, _draw, as_json=as_json or form == "json")
    if made.why is not None:
        note(f"over the budget: {made.why}")


def _draw(made: Context) -> None:
    from rich.text import Text

    from trails.cli import drawing
    from trails.cli.terminal import clean, count, shorten

    rows = drawing.table("what", "index", "role", "tokens", "text", fold=("text",), right=("index", "tokens"))
    gap = bool(made.dropped)
    for part in made.parts:
        turn = part.turn
        if gap and part.kind in ("turn", "query"):  # the pinned turns come before what was left out
            rows.add_row(*_gap(made.dropped))
            gap = False
        rows.add_row(
            part.kind,
            str(turn.index) if turn is not None and turn.index >= 0 else "",
            Text(clean(turn.role)) if turn is not None else "",
            f"{part.tokens(made.counter):,}",
            Text(shorten(part.text, 200)),
        )
    console = drawing.screen()
    console.print(rows)
    room = f" of {made.max_tokens:,}" if made.max_tokens is not None else ""
    facts = [f"about {made.tokens:,}{room} tokens"]
    if made.summarised_through is not None:
        facts.append(f"turns up to {made.summarised_through} are summarised")
    if made.dropped:
        facts.append(f"{count(len(made.dropped), 'turn')} left out")
    if made.repair.added:
        facts.append(f"{count(len(made.repair.added), 'call')} without an answer")
    note("; ".join(facts))


def _gap(dropped: range) -> tuple[str, ...]:
    first, last = dropped.start, dropped.stop - 1
    return ("left out", str(first) if first == last else f"{first}-{last}", "", "", "")


@command("compact")
@session_argument
@click.option("--summary", metavar="FILE", required=True, help="The summary, written already; - reads stdin.")
@click.option("--keep-turns", type=click.IntRange(min=0), metavar="N", help="Keep the newest N turns as they are.")
@click.option(
    "--keep-tokens", type=click.IntRange(min=0), metavar="N", help="Keep the newest turns of N tokens; default 30,000."
)
@click.option(
    "--trigger",
    type=click.Choice(["manual", "periodic", "threshold", "overflow"]),
    default="manual",
    show_default=True,
    help="Why it is done.",
)
@click.option("--model", metavar="NAME", help="The model that wrote the summary.")
@click.option("--request", metavar="TEXT", help="What the summary was asked for with.")
@json_option
def compact(
    *,
    session: str,
    summary: str,
    keep_turns: int | None,
    keep_tokens: int | None,
    trigger: str,
    model: str | None,
    request: str | None,
    as_json: bool,
) -> None:
    """Add a summary that stands for a session's older turns.

    Its index is printed. SESSION is an id, an IRI or a label. All turns stay in the history; a model is shown the
    summary and the turns kept. A tool call is kept together with its answer, so more may be kept than was asked for.
    """
    if keep_turns is not None and keep_tokens is not None:
        refuse("--keep-turns and --keep-tokens exclude each other")
    text = read_stdin() if summary == "-" else _text_of(summary)
    with open_store() as store:
        loaded = store.load(store.resolve(session))
        turn = loaded.compact(
            lambda _: text,
            keep_turns=keep_turns,
            keep_tokens=keep_tokens,
            trigger=trigger,
            model=model,
            request="Written beforehand." if request is None else request,
        )
    made = turn.compaction
    assert made is not None  # noqa: S101 - a compaction's turn says what it stands for
    said = (
        f"turns {made.summarised_from} to {made.summarised_through} are summarised: "
        f"about {made.tokens_before:,} tokens become {made.tokens_after:,}"
    )
    answer({"turn": turn}, turn.index, click.echo, said=said, as_json=as_json)


def _text_of(file: str) -> str:
    return read_text(file)


_BLAME_TEXT: Final = 60


@command("blame", pager=True)
@click.argument("ref", metavar="REF")
@click.option("--range", "turns", metavar="TURNS", help="Only these turns: an index (3) or a range (2:5).")
@as_of_option
@json_option
def blame(ref: str, turns: str | None, as_json: bool) -> None:
    """Say where each turn of a transcript comes from.

    That is: from which session, for whom, and who wrote it. REF is a session (an id, an IRI or a label), a tag, or such
    a name with @ and how many turns of it. The column "from" names the session that a copied turn was first written in,
    and the turn that a cherry-picked one repeats.
    """
    from trails.cli import options
    from trails.history.lookup import names

    with open_store(reading=True) as store:
        place = names.parse_revision(store.workspace, ref)
        loaded = store.load(place.session_id)
        end = len(loaded) if place.end is None else place.end
        wanted = range(end) if turns is None else options.indexes(turns, end)
        chosen = set(wanted)
        found = [each for each in loaded.blame(0, end) if each.index in chosen]
        texts = {index: _text(loaded.turns[index]) for index in wanted}
    value = {"session": loaded.id, "turns": found}
    answer(value, found, lambda found: _draw_blame(found, texts), empty="there are no turns", as_json=as_json)


def _text(turn: Turn) -> str:
    from trails.model import content_parts

    return "(redacted)" if turn.redacted else shorten(content_parts.plain_text(turn.content), _BLAME_TEXT)


def _draw_blame(found: Sequence[Blame], texts: dict[int, str]) -> None:

    from trails.cli import drawing

    columns = {
        "turn": [str(each.index) for each in found],
        "session": [each.session_id for each in found],
        "principal": [each.principal for each in found],
        "author": [each.author for each in found],
        "model": [each.model or "" for each in found],
        "time (UTC)": [drawing.moment(each.time) for each in found],
        "from": [_origin(each) for each in found],
        "text": [texts[each.index] for each in found],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    drawing.print_table([*shown], [*zip(*shown.values(), strict=True)], fold=("text", "from"), right=("turn",))


def _origin(each: Blame) -> str:
    quote = each.quoted_from
    named = [each.copied_from or "", f"{quote.session_id}@{quote.index}" if quote else ""]
    return ", ".join(filter(None, named))


_TAIL_TEXT: Final = 100
_POLL: Final = 0.2
"""Seconds between two looks at the log."""


@command("tail")
@click.argument("session", metavar="[SESSION]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on until interrupted, with what comes then.")
@click.option(
    "-n", "last", type=click.IntRange(min=0), default=10, show_default=True, help="How many lines at the start."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def tail(session: str | None, follow: bool, last: int, as_json: bool) -> None:
    """Show the latest turns, forks and changes of state.

    They are shown as the store's log has them. Without SESSION (an id, an IRI or a label), those of all sessions. With
    -f it goes on, also while another process works with the store; Ctrl-C ends it, with exit code 0. Texts are shown
    for the first lines only.
    """
    try:
        _tail(session, follow=follow, last=last, as_json=as_json)
    except KeyboardInterrupt:
        if not follow:
            raise


def _tail(session: str | None, *, follow: bool, last: int, as_json: bool) -> None:
    with open_store(reading=True) as store:
        lines, reached = store.store.log.lines(), store.store.log.reached
        wanted = None if session is None else store.resolve(session)
        for at, each in _last(lines, wanted, last):
            _print(each, _texts(store, lines, at, each), as_json=as_json)
        while follow:
            store.refresh()
            lines, reached = store.store.log.since(reached)
            for line in lines:
                notice = _notice(line)
                if notice is not None and wanted in (None, notice.session_id):
                    _print(notice, (), as_json=as_json)
            if not lines:
                time.sleep(_POLL)


def _notice(line: str) -> Notice | None:
    """Return what a line tells of a session; None for one that tells of the log itself, or nothing new."""
    from trails.history.watch import is_told, notice_of
    from trails.integrity import leaves

    try:
        leaf, _ = leaves.parse_leaf(line)
    except IntegrityError as error:
        note(f"{error}")
        return None
    return notice_of(leaf) if is_told(leaf) else None


def _last(lines: Sequence[str], wanted: str | None, last: int) -> list[tuple[int, Notice]]:
    """Return the last lines that tell of a session (of the one that is wanted), with their places."""
    from trails.model import iris

    part = " " if wanted is None else f" {iris.session(wanted)} "
    found: list[tuple[int, Notice]] = []
    for at in range(len(lines) - 1, -1, -1):
        if len(found) == last:
            break
        notice = _notice(lines[at]) if part in lines[at] else None
        if notice is not None:
            found.append((at, notice))
    return found[::-1]


def _texts(store: Repository, lines: Sequence[str], at: int, notice: Notice) -> tuple[str, ...]:
    """Return the texts of the turns that came with a line; none where they are gone since."""
    if notice.kind != "turns":
        return ()
    from trails.model import iris

    before = (f"turns {iris.session(notice.session_id)} ", f"fork {iris.session(notice.session_id)} ")
    first = next((int(lines[n].split(" ")[2]) for n in range(at - 1, -1, -1) if lines[n].startswith(before)), 0)
    try:
        turns = store.load(notice.session_id).turns[first : notice.count]
    except TrailsError:  # deleted since, or not whole: what the log says is shown all the same
        return ()
    return tuple(f"{turn.role}: {'[redacted]' if turn.redacted else shorten(turn.text, _TAIL_TEXT)}" for turn in turns)


def _print(notice: Notice, texts: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        line = notice.to_dict() | ({"texts": list(texts)} if texts else {})
        click.echo(to_json(line, ascii_only=True, indent=None))
        return
    click.echo(f"{one_line(notice.session_id)}  {one_line(told(notice))}")
    for text in texts:
        click.echo(f"    {one_line(text)}")


def told(notice: Notice) -> str:
    """Return what happened, for people."""
    if notice.kind == "turns":
        return f"{count(notice.count, 'turn')}, head {notice.digest[:8]}"
    return _TOLD.get(notice.kind, "entry {} of its ledger: {}").format(notice.count, notice.kind)


_TOLD: Final = {
    "create": "created",
    "fork": "forked at {}",
    "change": "its row changed",
    "detach": "cut loose from its parent, forked at {}",
    "redact": "turn {} redacted",
    "delete": "deleted",
    "received": "message {} received",
    "sent": "answer {} made",
    "delivered": "delivery {} noted",
    "remove": "a run taken out of the registry, at revision {}",
} | dict.fromkeys(("pending", "streaming", "completed", "failed"), "exchange {} {}")
