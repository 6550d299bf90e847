"""Commands for what a model is shown: context, compact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trails.cli.base import (
    answer,
    as_of_option,
    command,
    json_option,
    note,
    open_store,
    print_json,
    read_stdin,
    read_text,
    refuse,
    session_argument,
)

if TYPE_CHECKING:
    from trails.context import Context


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

    from trails.cli import render
    from trails.cli.terminal import clean, count, shorten

    rows = render.table("what", "index", "role", "tokens", "text", fold=("text",), right=("index", "tokens"))
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
    console = render.screen()
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
