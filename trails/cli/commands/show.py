"""Commands that show sessions: show, branches, replay, context, compact, blame, tail."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

import trails
from trails.cli import options as cli
from trails.display.terminal_text import count, one_line, shorten
from trails.errors import IntegrityError, TrailsError

if TYPE_CHECKING:
    from trails.session.blame import Blame

_BLAME_TEXT: Final = 60


@cli.command("show", pager=True, as_of=True)
@click.argument("ref", metavar="REF")
@cli.option("--range TURNS", "Only these turns: 4, 3:7 (7 is left out), 5:, :2, or 1,3:5.", name="turns_")
@cli.option("--full", "Whole texts, tool arguments and digests.")
def show(ref: str, turns_: str | None, full: bool) -> None:
    """Show a session's transcript for reading.

    REF is a session (an id, an IRI or a label), a tag, or such a name with @ and how many turns of it; --range picks turns
    by their indices out of these. Turns that come from an ancestor name the session that owns them. Thoughts stand behind
    a line. On a terminal Markdown is drawn; in a pipe texts are as they were written. Without --full, of each text the
    first 12 lines are shown, and tool arguments are cut; JSON is always whole.
    """
    with cli.open_store(reading=True) as store:
        place = cli.place_of(store, ref)
        loaded = store.load(place.session_id)
        record, turns, system = loaded.record, loaded.turns[: place.end], loaded.system
    chosen = turns if turns_ is None else [turns[index] for index in cli.indexes(turns_, len(turns))]

    def draw(chosen: Sequence[trails.Turn]) -> None:
        cli.view.session_head(record, turns, system, full=full)
        cli.view.transcript(record.id, chosen, full=full)

    cli.answer({"session": record, "system": system, "turns": chosen}, chosen, draw)


@cli.command("branches", pager=True, as_of=True, limit=True)
@cli.session_argument
def branches(*, session: str) -> None:
    """List a session's direct forks, oldest first.

    SESSION is an id, an IRI or a label.
    """
    with cli.open_store(reading=True) as store:
        session_id = store.resolve(session)
        every = store.branches(session_id)
    empty = f"session {session_id!r} has no forks"
    cli.answer_list("branches", every, cli.view.sessions, empty, session=session_id)


@cli.command("replay", pager=True, as_of=True)
@click.argument("ref", metavar="REF")
@cli.option("--up-to INDEX", "Stop before the turn with this index.", type=click.IntRange(min=0))
def replay(ref: str, up_to: int | None) -> None:
    """Print what a model would be sent again, turn by turn.

    Printed are role and content of each turn, in order. REF is a session (an id, an IRI or a label), a tag, or such a
    name with @ and how many turns of it. Nothing is shortened and nothing is written.
    """
    with cli.open_store(reading=True) as store:
        place = cli.place_of(store, ref)
        ends = [end for end in (up_to, place.end) if end is not None]
        turns = store.replay(place.session_id, up_to_index=min(ends, default=None))
    cli.answer({"session": place.session_id, "turns": turns}, turns, cli.view.replay)


@cli.command("context", pager=True, as_of=True)
@cli.session_argument
@cli.option("--query TEXT", "What is asked next; - reads it from stdin.")
@cli.option("--max-tokens N", "Leave out the oldest turns beyond this.", type=click.IntRange(min=1))
@cli.option(
    "--pinned N",
    "Opening turns that stay if there is no summary.",
    name="pinned_count",
    type=click.IntRange(min=0),
    default=1,
)
@cli.option(
    "--format",
    "For people, or as a model's API wants it.",
    name="form",
    type=click.Choice(["text", "openai", "anthropic", "json"]),
    default="text",
)
@cli.option("--leave-out-cut", "Leave turns out that broke off; else they are marked.")
def show_context(*, session: str, query: str | None, form: str, leave_out_cut: bool, **limits: Any) -> None:
    """Show what a model is shown of a session.

    That is the system prompt, the latest summary, the turns since, and the query. SESSION is an id, an IRI or a label.
    Tokens are estimated. Nothing is written.
    """
    if cli.as_json() and form != "text":
        cli.refuse(f"--json and --format {form} exclude each other")
    asked = None if query is None else cli.text_of(query)
    with cli.open_store(reading=True) as store:
        cut: Any = "leave out" if leave_out_cut else "mark"
        context = store.context(store.resolve(session), asked, cut=cut, **limits)
    if form in ("openai", "anthropic"):
        cli.print_json(context.openai() if form == "openai" else context.anthropic())
    else:
        cli.one_format(None if form == "text" else form)
        cli.answer(context, context, _draw_context)
    if context.why is not None:
        cli.note(f"over the budget: {context.why}")


def _draw_context(context: trails.Context) -> None:
    rows: list[tuple[str, ...]] = []
    dropped = context.dropped
    for part in context.parts:
        turn = part.turn
        if dropped and part.kind in ("turn", "query"):  # the pinned turns come before what was left out
            first, last = dropped.start, dropped.stop - 1
            rows.append(("left out", str(first) if first == last else f"{first}-{last}", "", "", ""))
            dropped = range(0)
        index = str(turn.index) if turn is not None and turn.index >= 0 else ""
        tokens = f"{part.tokens(context.counter):,}"
        rows.append((part.kind, index, turn.role if turn is not None else "", tokens, shorten(part.text, 200)))
    columns = ("what", "index", "role", "tokens", "text")
    cli.view.print_table(columns, rows, fold=("text",), right=("index", "tokens"))
    room = f" of {context.max_tokens:,}" if context.max_tokens is not None else ""
    facts = [f"about {context.tokens:,}{room} tokens"]
    if context.summarised_through is not None:
        facts.append(f"turns up to {context.summarised_through} are summarised")
    if context.dropped:
        facts.append(f"{count(len(context.dropped), 'turn')} left out")
    if context.repair.added:
        facts.append(f"{count(len(context.repair.added), 'call')} without an answer")
    cli.note("; ".join(facts))


@cli.command("compact")
@cli.session_argument
@cli.option("--summary FILE", "The summary, written already; - reads stdin.", required=True)
@cli.option("--keep-turns N", "Keep the newest N turns as they are.", type=click.IntRange(min=0))
@cli.option("--keep-tokens N", "Keep the newest turns of N tokens; default 30,000.", type=click.IntRange(min=0))
@cli.option(
    "--trigger", "Why it is done.", type=click.Choice(["manual", "periodic", "threshold", "overflow"]), default="manual"
)
@cli.option("--model NAME", "The model that wrote the summary.")
@cli.option("--request TEXT", "What the summary was asked for with.", default="Written beforehand.", show_default=False)
def compact(*, session: str, summary: str, **options: Any) -> None:
    """Add a summary that stands for a session's older turns.

    Its index is printed. SESSION is an id, an IRI or a label. All turns stay in the history; a model is shown the
    summary and the turns kept. A tool call is kept together with its answer, so more may be kept than was asked for.
    """
    if options["keep_turns"] is not None and options["keep_tokens"] is not None:
        cli.refuse("--keep-turns and --keep-tokens exclude each other")
    text = cli.text_of("-") if summary == "-" else cli.read_text(summary)
    with cli.open_store() as store:
        turn = store.load(store.resolve(session)).compact(lambda _: text, **options)
    made = turn.compaction
    assert made is not None  # noqa: S101 - a compaction's turn says what it stands for
    said = (
        f"turns {made.summarised_from} to {made.summarised_through} are summarised: "
        f"about {made.tokens_before:,} tokens become {made.tokens_after:,}"
    )
    cli.answer({"turn": turn}, turn.index, said=said)


@cli.command("blame", pager=True, as_of=True)
@click.argument("ref", metavar="REF|FILE:LINE")
@cli.option("--range TURNS", "Only these turns: an index (3) or a range (2:5).", name="turns")
@cli.option("--session REF", "Whose file FILE is; default: the newest session that has it.")
def blame(ref: str, turns: str | None, session: str | None) -> None:
    """Say where each turn of a transcript comes from, or a line.

    That is: from which session, for whom, and who wrote it. REF is a session (an id, an IRI or a label), a tag, or such
    a name with @ and how many turns of it. The column "from" names the session that a copied turn was first written in,
    and the turn that a cherry-picked one repeats. For FILE:LINE, or FILE, the answer is the turn that wrote the line, or
    each line; "unknown" means that it was there before, or that no turn is known to have written it.
    """
    from trails.cli.commands import files

    with cli.open_store(reading=True) as store:
        if (asked := files.file_asked(store, ref, session)) is not None:
            if turns is not None:
                cli.refuse("--range chooses turns of a session, and FILE:LINE a line of a file: give one of them")
            files.blame_file(store, *asked)
            return
        place = cli.place_of(store, ref)
        loaded = store.load(place.session_id)
        end = len(loaded) if place.end is None else place.end
        wanted = range(end) if turns is None else cli.indexes(turns, end)
        found = [each for each in loaded.blame(0, end) if each.index in set(wanted)]
        texts = {index: _text(loaded.turns[index]) for index in wanted}
    value = {"session": loaded.id, "turns": found}
    cli.answer(value, found, lambda found: _draw_blame(found, texts), empty="there are no turns")


def _text(turn: trails.Turn) -> str:
    from trails.model import content_parts

    return "(redacted)" if turn.redacted else shorten(content_parts.plain_text(turn.content), _BLAME_TEXT)


def _draw_blame(found: Sequence[Blame], texts: dict[int, str]) -> None:
    columns = {
        "turn": [str(each.index) for each in found],
        "session": [each.session_id for each in found],
        "principal": [each.principal for each in found],
        "author": [each.author for each in found],
        "model": [each.model or "" for each in found],
        "time (UTC)": [cli.view.moment(each.time) for each in found],
        "from": [_origin(each) for each in found],
        "text": [texts[each.index] for each in found],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    cli.view.print_table([*shown], [*zip(*shown.values(), strict=True)], fold=("text", "from"), right=("turn",))


def _origin(each: Blame) -> str:
    quote = each.quoted_from
    return ", ".join(filter(None, (each.copied_from, f"{quote.session_id}@{quote.index}" if quote else None)))


_TAIL_TEXT: Final = 100
_POLL: Final = 0.2
"""Seconds between two looks at the log."""


@cli.command("tail")
@click.argument("session", metavar="[SESSION]", required=False)
@cli.option("-f --follow", "Go on until interrupted, with what comes then.")
@cli.option("-n", "How many lines at the start.", name="last", type=click.IntRange(min=0), default=10)
def tail(session: str | None, follow: bool, last: int) -> None:
    """Show the latest turns, forks and changes of state.

    They are shown as the store's log has them. Without SESSION (an id, an IRI or a label), those of all sessions. With
    -f it goes on, also while another process works with the store; Ctrl-C ends it, with exit code 0. The beginning of
    each turn's text is shown.
    """
    try:
        _tail(session, follow=follow, last=last)
    except KeyboardInterrupt:
        if not follow:
            raise


def _tail(session: str | None, *, follow: bool, last: int) -> None:
    with cli.open_store(reading=True) as store:
        lines, reached = store.store.log.lines(), store.store.log.reached
        wanted = None if session is None else store.resolve(session)
        for at, each in _last(lines, wanted, last):
            _print(each, _texts(store, lines, at, each))
        while follow:
            store.refresh()
            news, reached = store.store.log.since(reached)
            lines += news
            for at in range(len(lines) - len(news), len(lines)):
                notice = _notice(lines[at])
                if notice is not None and wanted in (None, notice.session_id):
                    _print(notice, _texts(store, lines, at, notice))
            if not news:
                time.sleep(_POLL)


def _notice(line: str) -> trails.Notice | None:
    """Return what a line tells of a session; None for one that tells of the log itself, or nothing new."""
    from trails.history.watch import is_told, notice_of
    from trails.integrity import leaves

    try:
        leaf, _ = leaves.parse_leaf(line)
    except IntegrityError as error:
        cli.note(f"{error}")
        return None
    return notice_of(leaf) if is_told(leaf) else None


def _last(lines: Sequence[str], wanted: str | None, last: int) -> list[tuple[int, trails.Notice]]:
    """Return the last lines that tell of a session (of the one that is wanted), with their places."""
    from trails.model import iris

    part = " " if wanted is None else f" {iris.session(wanted)} "
    found: list[tuple[int, trails.Notice]] = []
    for at in range(len(lines) - 1, -1, -1):
        if len(found) == last:
            break
        notice = _notice(lines[at]) if part in lines[at] else None
        if notice is not None:
            found.append((at, notice))
    return found[::-1]


def _texts(store: trails.Repository, lines: Sequence[str], at: int, notice: trails.Notice) -> tuple[str, ...]:
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


def _print(notice: trails.Notice, texts: Sequence[str]) -> None:
    if cli.as_json():
        cli.print_json_line(notice.to_dict() | ({"texts": list(texts)} if texts else {}), also=("texts",))
        return
    click.echo(f"{one_line(notice.session_id)}  {one_line(told(notice))}")
    for text in texts:
        click.echo(f"    {one_line(text)}")


def told(notice: trails.Notice) -> str:
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
