"""Options, arguments and answers that many commands share.

Commands import this module as `cli`. Only click is imported here, so that `trails --help` stays quick; commands import what
they need when they run.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import reduce, wraps
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

import trails
from trails.cli import json_fields, terminal
from trails.cli.terminal import is_utf8, paging, to_json
from trails.errors import InvalidInput
from trails.model.moments import UNITS, moment_of

if TYPE_CHECKING:
    from trails.cli import transcript_view

DEFAULT_STORE: Final = "./.trails"
STORE: Final = "trails.store"
_NAMED, _JSON, _NO_PAGER = "trails.store.named", "trails.json", "trails.no-pager"
ACTOR: Final = "trails.actor"
KEYS: Final = "trails.keys"
_FIELDS = "trails.fields"
_AS_OF, _LIMIT = "trails.as_of", "trails.limit"
TYPED: Final = "trails.typed"
"""The arguments of the program, as they were typed."""
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Shown = TypeVar("_Shown")
_Item = TypeVar("_Item")
_Page = TypeVar("_Page", bound="trails.Page[Any]")


# --- times and turns as people write them

_TURNS: Final = re.compile(r"([0-9]{1,12})|([0-9]{0,12}):([0-9]{0,12})")
_TURN: Final = re.compile(r"(.+)[@#]([0-9]{1,12})", re.DOTALL)


def ago(moment: datetime | None, now: datetime) -> str:
    """Return in a few characters how long ago a moment was, or a dash if there is none.

    >>> from datetime import timedelta
    >>> now = datetime(2026, 5, 8, 12, 30, tzinfo=UTC)
    >>> [ago(now - timedelta(**{unit: 3}), now) for unit in ("seconds", "minutes", "hours", "days", "weeks")]
    ['now', '3m ago', '3h ago', '3d ago', '3w ago']
    """
    if moment is None:
        return "-"
    seconds = (now - moment).total_seconds()
    if -60 < seconds < 60:
        return "now"
    for most, unit in ((3600, "m"), (86_400, "h"), (14 * 86_400, "d"), (100 * 86_400, "w")):
        if 0 < seconds < most:
            return f"{int(seconds / UNITS[unit])}{unit} ago"
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def looks_like_turns(text: str) -> bool:
    """Tell whether a text names turns at all, whatever a transcript has.

    >>> looks_like_turns("1,3:5"), looks_like_turns("plan")
    (True, False)
    """
    return all(_TURNS.fullmatch(part) for part in text.split(","))


def indexes(text: str, length: int) -> list[int]:
    """Return the indices that a text names of a transcript with `length` turns, in ascending order.

    >>> indexes("1,3:5", 9), indexes("7:", 9), indexes(":2", 9)
    ([1, 3, 4], [7, 8], [0, 1])
    """
    chosen: list[int] = []
    for part in text.split(","):
        match = _TURNS.fullmatch(part)
        if not match:
            raise InvalidInput(
                f"{text!r} names no turns; write an index (3), a range with its end left out (2:5), or 1,3:5"
            )
        single, first, last = match.groups()
        start, end = (int(single), int(single) + 1) if single else (int(first or 0), int(last) if last else length)
        if not start < end <= length:
            raise InvalidInput(f"there are no turns {part!r}: the transcript has {length} (0 to {max(0, length - 1)})")
        if chosen and start <= chosen[-1]:
            raise InvalidInput(f"{text!r} goes back or names a turn twice; give turns in ascending order")
        chosen += range(start, end)
    return chosen


# --- options


def option(declaration: str, text: str, *, name: str | None = None, **extra: Any) -> Callable[[_Command], _Command]:
    """Add an option. `-n --limit N` declares its names and what its value is called; without a value, it is a flag.

    `text` is its help, which ends with its default if it has one; `name` is its parameter, if it is not the option's own.
    """
    words = declaration.split()
    names = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(names) :]) or None
    is_flag = metavar is None and "type" not in extra and "/" not in declaration
    if is_flag:
        extra["is_flag"] = True
    given = {"help": text, "metavar": metavar, "show_default": "default" in extra and "/" not in declaration} | extra
    return click.option(*names, *([] if name is None else [name]), **given)


def options(*each: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Add several options, in this order."""
    return lambda function: reduce(lambda made, add: add(made), reversed(each), function)


# --- the store


def _remember(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return the callback of an option that is kept for the whole run, and is no parameter of the command."""

    def remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            ctx.meta[key] = value
            if key == STORE:
                source = ctx.get_parameter_source(str(parameter.name))
                ctx.meta[_NAMED] = source == click.core.ParameterSource.COMMANDLINE

    return remember


def store_option(*, everywhere: bool = False) -> Callable[[_Command], _Command]:
    """Add `--store PATH`; the one of the whole program (`everywhere`) also reads TRAILS_STORE."""
    return option(
        "--store PATH",
        f"The folder of the store; default: TRAILS_STORE, else the config file's, else {DEFAULT_STORE}.",
        envvar="TRAILS_STORE" if everywhere else None,
        expose_value=False,
        callback=_remember(STORE),
    )


def keys_option(*, everywhere: bool = False) -> Callable[[_Command], _Command]:
    """Add `--keys DIR`: the folder of the keys of encrypted sessions."""
    return option(
        "--keys DIR",
        "The folder of the keys of encrypted sessions; default: the environment's TRAILS_KEYS.",
        hidden=not everywhere,
        expose_value=False,
        callback=_remember(KEYS),
    )


def _remember_fields(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Have the command answer in JSON, with the fields that are named."""
    if value is None:
        return
    ctx.meta[_JSON] = True
    ctx.meta[_FIELDS] = None if value == json_fields.WHOLE else [each.strip() for each in value.split(",")]
    if ctx.meta[_FIELDS] and not all(ctx.meta[_FIELDS]):
        raise click.BadParameter("names no field; write --json alone, or --json=id,title", ctx, parameter)


def remember_as_of(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Have the store opened as it was: at the checkpoint in a file, at a mark of the log, or at a time."""
    if value is None:
        return
    from trails.history.as_of.log_moment import MARK

    if Path(value).is_file():
        ctx.meta[_AS_OF] = Path(value).read_bytes()
    elif MARK.fullmatch(value):
        ctx.meta[_AS_OF] = value
    else:
        try:
            ctx.meta[_AS_OF] = moment_of(value, datetime.now(UTC))
        except ValueError as error:
            what = f"{value!r} is no file with a checkpoint, and no mark of a log; {error}"
            raise click.BadParameter(what, ctx, parameter) from None


def store_location(*, named_only: bool = False) -> str | None:
    """Return where the store is; with `named_only`, None unless the command line itself says so."""
    meta = click.get_current_context().meta
    if named_only and not meta.get(_NAMED):
        return None
    return str(meta.get(STORE, DEFAULT_STORE))


def store_folder() -> Path:
    """Return the folder that is the store; raise `InvalidInput` for a store in PostgreSQL, and for other URLs."""
    from trails.opening import as_location
    from trails.store.postgres.address import is_address, shown

    place = store_location() or ""
    if is_address(place):
        raise InvalidInput(f"this command works on a store's own files, and {shown(place)} has none on this machine")
    return Path(as_location(place))


def open_store(*, create: bool = False, reading: bool = False, recorded: bool = False) -> trails.Repository:
    """Open the store that the command line or the environment names; it is created only if `create` says so.

    With `reading` it is only read, also while another process has it open, and as it was if `--as-of` says so. A
    command whose reads are kept on record if the environment asks for it says so by `recorded`: it then opens the store
    as its owner, who can write that down.
    """
    try:
        store = _open(store_location() or "", create=create, reading=reading, recorded=recorded)
    except InvalidInput as error:
        problem = error.message.replace(f" {_IN_PYTHON}", "")
        has_create = any(each.name == "create" for each in click.get_current_context().command.params)
        makes = "--create or `trails init` makes one" if has_create else "`trails init` makes one"
        raise InvalidInput(f"{problem} (--store PATH or TRAILS_STORE names the store, {makes})") from error
    if reading and is_as_of():
        store = _as_it_was(store)
    return store


def is_as_of() -> bool:
    """Tell whether a command is to show the store as it was."""
    return _AS_OF in click.get_current_context().meta


def _as_it_was(store: trails.Repository) -> trails.Repository:
    """Return a store as it was when `--as-of` says; note on stderr which sessions of then are changed or gone."""
    context = click.get_current_context()
    context.call_on_close(store.close)
    past = store.at(context.meta[_AS_OF])
    if (as_of := past.as_of) is not None:
        lost = [f"{len(ids)} {what}" for ids, what in ((as_of.gone, "deleted"), (as_of.changed, "changed")) if ids]
        note(f"as of {as_of.mark}" + (f"; sessions of then by now: {', '.join(lost)}" if lost else ""))
    return past


def place_of(store: trails.Repository, ref: str) -> Any:
    """Return the session that a REF names, and how many turns of it (None: all)."""
    from trails.history.lookup import names

    return names.parse_revision(store.workspace, ref)


def open_at(place: str, *, create: bool = False, reading: bool = False, recorded: bool = False) -> trails.Repository:
    """Open the store at a location that a command was given beside its own; all else is as for `open_store`."""
    try:
        return _open(place, create=create, reading=reading, recorded=recorded)
    except InvalidInput as error:
        if _IN_PYTHON not in error.message:
            raise
        raise InvalidInput(error.message.replace(_IN_PYTHON, "(`trails init --store` makes one)")) from error


_IN_PYTHON: Final = "(create=True)"
"""How errors say that a store is made in a program."""


def _open(place: str, *, create: bool, reading: bool, recorded: bool) -> trails.Repository:
    from trails.history import import_records
    from trails.opening import open_to_read

    if not reading:
        refuse_fields("they are for commands that only read, and this one may write")
    actor, keys = acting()
    are_recorded = import_records.reads_are_recorded()
    if reading and not are_recorded and place != ":memory:":
        return open_to_read(place, actor=actor, keys=keys)
    store = trails.open(place, create=create, actor=actor, keys=keys)
    if are_recorded:
        _record_command(store, is_noted=reading and not recorded)
    return store


def acting() -> tuple[str | None, str | None]:
    """Return who acts, and where the keys of encrypted sessions are, as far as anybody says so."""
    meta = click.get_current_context().meta
    return meta.get(ACTOR), meta.get(KEYS)


_WITH_READS_OF_THEIR_OWN: Final = {"serve": "python", "ui": "python", "tui": "python", "mcp": "mcp", "query": "command"}
"""Commands of which each read is on record by itself, and through what: what others read through, and a query by its name."""


def _record_command(store: trails.Repository, *, is_noted: bool) -> None:
    """Put a command on record as one read, if it `is_noted`, and what it reads on the way not again."""
    from trails.history import read_records

    context = click.get_current_context()
    name = " ".join(context.command_path.split()[1:])
    through = read_records.THROUGH.set(_WITH_READS_OF_THEIR_OWN.get(name, "command"))
    context.call_on_close(lambda: read_records.THROUGH.reset(through))
    if not is_noted or name in _WITH_READS_OF_THEIR_OWN:
        return
    store.workspace.note_read(name, *_sessions_named(store, context.params))
    token = read_records.PART_OF_READ.set(True)
    context.call_on_close(lambda: read_records.PART_OF_READ.reset(token))


def _sessions_named(store: trails.Repository, given: Mapping[str, Any]) -> list[str]:
    """Return the ids of the sessions that the arguments of a command name, of those that are there."""
    from trails.history.lookup import names

    session_ids = []
    for name in ("session", "ref", "left", "right", "root", "roots", "sessions", "parent", "place"):
        value = given.get(name)
        for each in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
            with suppress(trails.TrailsError):
                session_ids.append(names.parse_revision(store.workspace, each).session_id)
    return session_ids


# --- options and arguments that many commands share

EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
IN_OLDER_COPIES: Final = "older backups, dumps and exports still hold it"

tsv_option = option("--tsv", "Print tab-separated values, whole, with a line of names.", name="as_tsv")
json_option = option(
    "--json [=FIELDS]",
    "Print JSON instead of text for people; with fields, these alone: --json=id,title.",
    cls=json_fields.JsonOption,
    is_flag=False,
    flag_value=json_fields.WHOLE,
    expose_value=False,
    callback=_remember_fields,
)
by_option = option(
    "--by NAME",
    "Who does it, or agent:NAME; default: the environment's TRAILS_ACTOR, else unknown.",
    expose_value=False,
    callback=_remember(ACTOR),
)
pager_option, _hidden_pager_option = (
    option(
        "--no-pager",
        "Never page; TRAILS_PAGER or PAGER name the pager, default: less.",
        expose_value=False,
        hidden=hidden,
        callback=_remember(_NO_PAGER),
    )
    for hidden in (False, True)
)
color_option, _hidden_color_option = (
    option(
        "--color WHEN",
        "Colours: auto (on a terminal, as NO_COLOR and CLICOLOR_FORCE say), always or never.",
        type=click.Choice(terminal.WHEN),
        metavar="WHEN",
        expose_value=False,
        hidden=hidden,
        callback=_remember(terminal.COLOUR),
    )
    for hidden in (False, True)
)
meta_option = option(
    "--meta NAME=VALUE",
    "A fact about it; may be given again.",
    multiple=True,
    callback=lambda ctx, parameter, values: dict(pairs(values, "--meta")) or None,
)
id_option = option("--id ID", "The new session's id; made up unless given.")
label_option = option("--label LABEL", "A name for it that no other session has.")
session_argument = click.argument("session", metavar="SESSION")
TRIPLE_FORMATS: Final = ("turtle", "ntriples", "jsonld", "rdfxml", "n3")
"""The names of `trails.rdf.triple_formats`, which commands do not import to be quick."""
_OPTIONS: Final = {
    "limit": option(
        "-n --limit N",
        "How many at most; default: all.",
        type=click.IntRange(1, 1_000_000),
        expose_value=False,
        callback=_remember(_LIMIT),
    ),
    "by": by_option,
    "reason": option("--reason TEXT", "Why; it is kept."),
    "yes": option("--yes", "Do not ask."),
    "as_of": option(
        "--as-of MOMENT",
        "The store as it was: a checkpoint's file, a mark, a time.",
        expose_value=False,
        callback=remember_as_of,
    ),
    "json": json_option,
    "pager": _hidden_pager_option,
    "color": _hidden_color_option,
    "store": store_option(),
    "keys": keys_option(),
}
"""What `command` adds by name, in the order of the help."""


class Named(click.types.StringParamType):
    """A text that names something of a kind; a shell offers the names that there are."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Return the names that go on from what was typed."""
        completion: Any = import_module("trails.cli.completion")  # which stands above this module
        items: list[click.shell_completion.CompletionItem] = completion.offered(ctx, self.kind, incomplete)
        return items


_KINDS: Final = {
    **dict.fromkeys(("session", "root", "roots", "parent"), "session"),
    **dict.fromkeys(("ref", "left", "right"), "ref"),
    **{name: name for name in ("principal", "agent", "project", "model", "role", "query")},
    **dict.fromkeys(("columns", "group_by", "sort_by", "color_by"), "column"),
}
"""What parameters name, by what they are called in the command's function."""


class SessionCommand(click.Command):
    """A command. One that takes SESSION and INDEX takes SESSION#INDEX and SESSION@INDEX too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; a turn that is one word becomes two, unless an index stands behind it."""
        if {"session", "index"} <= {each.name for each in self.params}:
            given = self.make_parser(ctx).parse_args(list(args))[0]
            turn = _TURN.fullmatch(str(given.get("session")))
            if turn and not str(given.get("index")).isdecimal():
                at = args.index(turn[0])
                args[at : at + 1] = turn.groups()
        return super().parse_args(ctx, args)


def command(
    name: str, *, group: click.Group | None = None, json: bool = True, store: bool = True, **extra: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function: with `--json` and `--store` unless told otherwise, and names completed by a shell.

    `limit`, `by`, `reason`, `yes` and `as_of` add those options. With `pager`, output that is longer than the screen goes through
    a pager.
    """
    wanted = {
        "json": json,
        "store": store,
        "keys": store,
        "color": True,
        **{option: extra.pop(option, False) for option in _OPTIONS if option in extra},
    }

    def wrap(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            meta = click.get_current_context().meta
            never = not wanted.get("pager") or meta.get(_NO_PAGER)
            with nullcontext() if never else paging(meta.get(terminal.PAGER, "less")):
                return function(*args, **options)

        made: click.Command = (group or click).command(name, cls=SessionCommand, **extra)(run)
        for option, add in _OPTIONS.items():
            if wanted.get(option):
                add(made)
        for each in made.params:
            if each.type is click.STRING and each.name in _KINDS:
                each.type = Named(_KINDS[each.name])
        return made

    return wrap


def page_options(*, most: int = 1000) -> Callable[[_Command], _Command]:
    """Add `--limit` (at most `most`), `--page` and `--cursor`: which part of a list is shown."""
    return options(
        option("-n --limit N", "How many at most.", type=click.IntRange(1, most), default=50),
        option("--page N", "The Nth page of the list.", type=click.IntRange(1, 1000), default=1, show_default=False),
        option("--cursor TEXT", "Go on where the page before ended."),
    )


def time_option(name: str, help_text: str) -> Callable[[_Command], _Command]:
    """Add an option that takes a moment, as `moment_of` reads it: ISO 8601, a date, or how long ago."""

    def parse(ctx: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
        try:
            return None if value is None else moment_of(value, datetime.now(UTC))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, parameter) from None

    return option(f"{name} TIME", help_text, callback=parse)


class Number(click.FloatRange):
    """A number within bounds; `nan` and `inf` are outside of all."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or end the command as wrong usage."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number that can be compared", param, ctx)
        return number


recipients_option: Final = option(
    "--recipient NAME", "For whom it is, kept on record; may be repeated.", name="recipients", multiple=True
)


# --- answers

note, echo_tsv = terminal.note, terminal.echo_tsv

if TYPE_CHECKING:
    view = transcript_view
    """What draws for people. It is imported when somebody asks for it: it takes as long as half of a command."""
else:

    def __getattr__(name: str) -> Any:
        if name != "view":
            raise AttributeError(name)
        return import_module("trails.cli.transcript_view")


def as_json() -> bool:
    """Tell whether the command is to answer in JSON."""
    return bool(click.get_current_context().meta.get(_JSON))


def answer(
    value: Any,
    shown: _Shown | None,
    draw: Callable[[_Shown], object] | None = None,
    *,
    empty: str | None = None,
    said: str | None = None,
) -> None:
    """Answer a command on stdout: with a value as JSON if `--json` asks for it, else by drawing what is shown of it.

    Without `draw`, a text is printed, and of anything else a line each. In the value, anything with a `to_dict` may stand
    as it is: it is called for JSON alone. If nothing is shown, people read `empty`; they read `said` in the end, on
    stderr. None is never drawn.
    """
    if as_json():
        print_json(value)
        return
    if empty is not None and not shown:
        note(empty)
    elif shown is not None and draw is not None:
        draw(shown)
    elif shown is not None:
        echo_each([shown] if isinstance(shown, str | int) or not isinstance(shown, Iterable) else shown)
    if said is not None:
        note(said)


def print_json(value: Any) -> None:
    """Print a value as indented JSON on stdout, or its fields that `--json` names."""
    click.echo(to_json(selected(value), ascii_only=not is_utf8(sys.stdout)))


def print_json_line(value: Any, *, also: Sequence[str] = ()) -> None:
    """Print a value as one line of JSON, or its fields that `--json` names; those in `also` may be missing."""
    click.echo(to_json(selected(value, also), ascii_only=True, indent=None))


def selected(value: Any, also: Sequence[str] = ()) -> Any:
    """Return of an answer in JSON the fields that `--json` names, or all of it."""
    fields = _fields()
    return value if fields is None else json_fields.select(value, fields, also)


def _fields() -> list[str] | None:
    fields: list[str] | None = click.get_current_context().meta.get(_FIELDS)
    return fields


def table(columns: str, row: Callable[[Any], Sequence[Any]], **layout: Any) -> Callable[[Iterable[Any]], None]:
    """Return what draws a table with a row for each value; `columns` are separated by commas, see `drawing.print_table`."""

    def draw(values: Iterable[Any]) -> None:
        import_module("trails.cli.transcript_view").print_table(columns.split(","), map(row, values), **layout)

    return draw


def list_limit() -> int | None:
    """Return how many lines a list has at most; None for all of them."""
    found: int | None = click.get_current_context().meta.get(_LIMIT)
    return found


def answer_list(
    name: str,
    every: Sequence[Any],
    draw: Callable[[Any], object],
    empty: str,
    *,
    describe: Callable[[Any], Any] | None = None,
    **value: Any,
) -> None:
    """Answer with the first values of a list, as many as `--limit` lets, under a name, and how many are left out."""
    shown = every[: list_limit()]
    more = len(every) - len(shown)
    values = shown if describe is None else [describe(each) for each in shown]
    answer({**value, name: values, "more": more}, shown, draw, empty=empty, said=left_out(len(shown), more))


def left_out(shown: int, more: int) -> str | None:
    """Return what to say of a list that was cut, or None if it was not.

    >>> left_out(2, 1)
    'there is more: 2 of 3 are shown; -n 3 shows all'
    """
    every = f"{shown + more:,}"
    return f"there is more: {shown:,} of {every} are shown; -n {shown + more} shows all" if more else None


def paged(ask: Callable[[str | None], _Page], page: int, cursor: str | None) -> _Page:
    """Return a page that `ask` gives for a cursor: the one after a cursor, or the Nth from the beginning."""
    if page > 1 and cursor is not None:
        refuse("--page counts from the beginning, and --cursor goes on from elsewhere; give one")
    rows = ask(cursor)
    for number in range(1, page):
        if rows.cursor is None:
            refuse(f"there is no page {page}: the list ends with page {number}")
        rows = ask(rows.cursor)
    return rows


def there_is_more(cursor: str | None) -> str | None:
    """Return what to type for the page after this one: what was typed for this one, with a cursor. None for the last."""
    if cursor is None:
        return None
    from trails.store.postgres.address import shown

    place = store_location() or ""
    typed = [word.replace(place, shown(place)) for word in click.get_current_context().meta[TYPED]]  # no password
    kept = [word for before, word in pairwise(["", *typed]) if not {before, word} & {"--cursor", "--page"}]
    kept = [word for word in kept if not word.startswith(("--cursor=", "--page="))]
    end = kept.index("--") if "--" in kept else len(kept)
    return f"there is more: {shlex.join(['trails', *kept[:end], '--cursor', cursor, *kept[end:]])}"


def echo_each(lines: Iterable[object]) -> None:
    """Print a line each."""
    for line in lines:
        click.echo(line)


def note_each(label: str, texts: Sequence[str], most: int = 20) -> None:
    """Tell a person the first of several things, and how many more there are."""
    for text in texts[:most]:
        note(f"{label}: {text}")
    if len(texts) > most:
        note(f"{label}: {len(texts) - most} more; --json lists them all")


def refuse(message: str) -> NoReturn:
    """End the command as wrong usage."""
    raise click.UsageError(message, ctx=click.get_current_context())


def end(code: int) -> NoReturn:
    """End the command with an exit code, quietly: all messages were printed before."""
    click.get_current_context().exit(code)


def confirm(question: str, what: str, otherwise: str) -> None:
    """Ask on a terminal, and end the command with `otherwise` and code 1 for a no; elsewhere end it as wrong usage.

    `what` is what asks, at the start of a sentence.
    """
    if sys.stdin is None or not sys.stdin.isatty():  # closed by `<&-`
        refuse(f"{what} asks first, and stdin is no terminal; give --yes")
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort as aborted:
        click.echo(err=True)  # the cursor stands behind the question
        if isinstance(aborted.__context__, EOFError):
            raise click.ClickException("nobody answered; nothing was done") from None
        raise
    note(otherwise)
    end(1)


# --- what people give


def text_of(argument: str) -> str:
    """Return the text that an argument stands for: all of stdin for "-", which must be UTF-8, else itself."""
    if argument != "-":
        return argument
    if sys.stdin is None:  # a shell closes it with `<&-`
        refuse("stdin is closed; give the text itself, or send it there")
    return decoded(sys.stdin.buffer.read(), "stdin")


def read_text(file: str | Path) -> str:
    """Return a file's text, which must be UTF-8, or end the command as wrong usage."""
    from trails.files import read_whole

    try:
        return decoded(read_whole(Path(file)), str(file))
    except (OSError, ValueError) as error:
        refuse(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}")


def decoded(data: bytes, source: str) -> str:
    """Return UTF-8 text, or end the command as wrong usage, naming where the text came from."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse(f"{source} is not UTF-8 text ({error.reason} at byte {error.start})")


def check_options(*rules: tuple[bool, str]) -> None:
    """End the command as wrong usage by the first rule that is broken."""
    for is_broken, what in rules:
        if is_broken:
            refuse(what)


def refuse_replacing(path: Path | None, *, force: bool) -> None:
    """End the command as wrong usage if a file would be replaced without --force."""
    if path is not None and path.exists() and not force:
        refuse(f"{path} is there already; give --force to replace it, or name another file")


def refuse_in_store(output: Path | None) -> None:
    """End the command as wrong usage if a file would be written among the store's own."""
    location = store_location() or ""
    if output is not None and location != ":memory:" and output.resolve().is_relative_to(Path(location).resolve()):
        refuse(f"{output} lies in the store's own folder, whose files are the store's; name another place")


def one_format(format_: str | None) -> str | None:
    """Return the format that `--format` and `--json` ask for, which may not be two."""
    if as_json() and format_ not in (None, "json"):
        refuse(f"--json and --format {format_} are two formats; give one")
    if format_ == "json":
        click.get_current_context().meta[_JSON] = True
    return "json" if as_json() else format_


def refuse_fields(why: str) -> None:
    """End the command as wrong usage if `--json` names fields."""
    if _fields():
        refuse(f"--json takes no fields here: {why}")


def one_of(as_tsv: bool) -> None:
    """End the command as wrong usage if `--tsv` and `--json` are given."""
    if as_tsv and as_json():
        refuse("--tsv and --json are two formats; give one")


def pairs(values: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Return NAME=VALUE arguments as pairs; the value may hold further equals signs."""
    for value in values:
        if value.find("=") < 1:
            refuse(f"{option} takes NAME=VALUE, not {value!r}")
    return [(name, rest) for name, _, rest in (value.partition("=") for value in values)]
