"""Options, arguments and answers that many commands share.

Moments as people write them: a date, a time with its zone, or how long ago.

Which turns a person means: an index, a range with an exclusive end, or several of them.

The ground under every command: where the store is, how errors end a run, and the shared options.

Only click is imported here, so that `trails --help` stays quick; commands import what they need when they run.
"""

from __future__ import annotations

import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

import click

from trails.cli.terminal import NO_PAGER, after_paging, is_utf8, one_line, paging, to_json
from trails.errors import InvalidInput

if TYPE_CHECKING:
    from trails import Repository
    from trails.history.lookup.pages import Page

_AGO: Final = re.compile(r"([0-9]{1,6})([mhdwy])")
_UNITS: Final = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}
FORMS: Final = "write 2026-05-01, 2026-05-01T12:00Z, today, yesterday, or how long ago: 30m, 12h, 7d, 2w"


def moment_of(text: str, now: datetime) -> datetime:
    """Return the moment that a text stands for; days are days in UTC. Raises `ValueError` saying what is wrong.

    >>> now = datetime(2026, 5, 8, 12, 30, tzinfo=UTC)
    >>> for text in ("2026-05-01", "2026-05-01T12:00+02:00", "today", "7d", "12h"):
    ...     print(moment_of(text, now).isoformat())
    2026-05-01T00:00:00+00:00
    2026-05-01T12:00:00+02:00
    2026-05-08T00:00:00+00:00
    2026-05-01T12:30:00+00:00
    2026-05-08T00:30:00+00:00
    """
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return today if text == "today" else today - timedelta(days=1)
    try:
        if ago := _AGO.fullmatch(text):
            return now - int(ago[1]) * _UNITS[ago[2]]
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; {FORMS}") from None
    if moment.tzinfo is None and len(text) > len("2026-05-01"):
        raise ValueError(f"{text!r} has no time zone; write {text}Z for UTC, or an offset as in {text}+02:00")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def ago(moment: datetime | None, now: datetime) -> str:
    """Return in a few characters how long ago a moment was, or a dash where there is none.

    >>> now = datetime(2026, 5, 8, 12, 30, tzinfo=UTC)
    >>> [ago(now - timedelta(**{unit: 3}), now) for unit in ("seconds", "minutes", "hours", "days", "weeks")]
    ['now', '3m ago', '3h ago', '3d ago', '3w ago']
    """
    if moment is None:
        return "-"
    seconds = (now - moment).total_seconds()
    if seconds < 60:
        return "now" if seconds > -60 else f"{moment.astimezone(UTC):%Y-%m-%d}"
    for most, unit in ((3600, "m"), (86_400, "h"), (14 * 86_400, "d"), (100 * 86_400, "w")):
        if seconds < most:
            return f"{int(seconds / _UNITS[unit].total_seconds())}{unit} ago"
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


_PART: Final = re.compile(r"([0-9]{1,12})|([0-9]{0,12}):([0-9]{0,12})")


def looks_like_turns(text: str) -> bool:
    """Tell whether a text names turns at all, whatever a transcript has.

    >>> looks_like_turns("1,3:5"), looks_like_turns("plan")
    (True, False)
    """
    return all(_PART.fullmatch(part) for part in text.split(","))


def indexes(text: str, length: int) -> list[int]:
    """Return the indices that a text names of a transcript with `length` turns, in ascending order.

    >>> indexes("1,3:5", 9), indexes("7:", 9), indexes(":2", 9)
    ([1, 3, 4], [7, 8], [0, 1])
    """
    found: list[int] = []
    for part in text.split(","):
        matched = _PART.fullmatch(part)
        if not matched:
            raise InvalidInput(
                f"{text!r} names no turns; write an index (3), a range with its end left out (2:5), or 1,3:5"
            )
        single, first, last = matched.groups()
        start, end = (int(single), int(single) + 1) if single else (int(first or 0), int(last) if last else length)
        if not start < end <= length:
            raise InvalidInput(f"there are no turns {part!r}: the transcript has {length} (0 to {max(0, length - 1)})")
        if found and start <= found[-1]:
            raise InvalidInput(f"{text!r} goes back or names a turn twice; give turns in ascending order")
        found += range(start, end)
    return found


DEFAULT_STORE: Final = "./.trails"
STORE: Final = "trails.store"
_NAMED: Final = "trails.store.named"
_ACTOR: Final = "trails.actor"
_AS_OF: Final = "trails.as_of"
_AS_OF_TEXT: Final = "trails.as_of.text"
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Shown = TypeVar("_Shown")
_Item = TypeVar("_Item")
_Page = TypeVar("_Page", bound="Page[Any]")


# --- the store


def _remember_store(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[STORE] = value
        ctx.meta[_NAMED] = ctx.get_parameter_source(str(parameter.name)) == click.core.ParameterSource.COMMANDLINE


def store_option(*, everywhere: bool = False) -> Callable[[_Command], _Command]:
    """Add `--store PATH`; the one of the whole program (`everywhere`) also reads TRAILS_STORE."""
    return click.option(
        "--store",
        metavar="PATH",
        envvar="TRAILS_STORE" if everywhere else None,
        expose_value=False,
        callback=_remember_store,
        help=f"The folder of the store; default: the environment's TRAILS_STORE, else {DEFAULT_STORE}.",
    )


def _remember_actor(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_ACTOR] = value


def remember_as_of(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Have the store opened as it was: at the checkpoint in a file, at a mark of the log, or at a time."""
    if value is None:
        return
    from trails.history.as_of.log_moment import MARK

    ctx.meta[_AS_OF_TEXT] = value
    is_file = Path(value).is_file()
    if MARK.fullmatch(value) and not is_file:
        ctx.meta[_AS_OF] = value
    elif is_file:
        ctx.meta[_AS_OF] = Path(value).read_bytes()
    else:
        try:
            ctx.meta[_AS_OF] = _moment(value)
        except ValueError as error:
            what = f"{value!r} is no file with a checkpoint, and no mark of a log; {error}"
            raise click.BadParameter(what, ctx, parameter) from None


as_of_option = click.option(
    "--as-of",
    metavar="MOMENT",
    expose_value=False,
    callback=remember_as_of,
    help="The store as it was: a checkpoint's file, a mark, a time.",
)


def store_location(*, named_only: bool = False) -> str | None:
    """Return where the store is; with `named_only`, None unless the command line itself says so."""
    meta = click.get_current_context().meta
    if named_only and not meta.get(_NAMED):
        return None
    return str(meta.get(STORE, DEFAULT_STORE))


def store_folder() -> Path:
    """Return the folder that is the store; raise `InvalidInput` for a store in PostgreSQL, which has none, and other URLs."""
    import trails
    from trails.opening import as_location
    from trails.store.postgres.address import is_address, shown

    place = store_location() or ""
    if is_address(place):
        raise trails.InvalidInput(
            f"this command works on a store's own files, and {shown(place)} has none on this machine"
        )
    return Path(as_location(place))


def open_store(*, create: bool = False, reading: bool = False, recorded: bool = False) -> Repository:
    """Open the store that the command line or the environment names; it is created only where `create` says so.

    With `reading` it is only read, also while another process has it open, and as it was where `--as-of` says so. A
    command whose reads are kept on record where the environment asks for it says so by `recorded`: what it reads then
    takes the owner, who can write that down.
    """
    import trails

    try:
        store = open_at(store_location() or "", create=create, reading=reading, recorded=recorded)
    except trails.InvalidInput as error:
        said = error.message.replace(" (create=True)", "")
        has_create = any(each.name == "create" for each in click.get_current_context().command.params)
        makes = "--create or `trails init` makes one" if has_create else "`trails init` makes one"
        hint = f"--store PATH or TRAILS_STORE names the store, {makes}"
        raise trails.InvalidInput(f"{said} ({hint})") from error
    if reading and is_as_of():
        store = _as_it_was(store)
    store.workspace.index.progress = True
    return store


def is_as_of() -> bool:
    """Tell whether a command is to show the store as it was."""
    return _AS_OF in click.get_current_context().meta


def _as_it_was(store: Repository) -> Repository:
    """Return a store as it was when `--as-of` says, and say on stderr what of then is not to be seen any more."""
    context = click.get_current_context()
    context.call_on_close(store.close)
    past = store.at(context.meta[_AS_OF])
    said = past.as_of
    if said is not None:
        lost = [f"{len(ids)} {what}" for ids, what in ((said.gone, "deleted"), (said.changed, "changed")) if ids]
        note(f"as of {said.mark}" + (f"; sessions of then by now: {', '.join(lost)}" if lost else ""))
    return past


def open_at(place: str, *, create: bool = False, reading: bool = False, recorded: bool = False) -> Repository:
    """Open the store at a location that a command was given beside its own; all else is as for `open_store`."""
    import trails
    from trails.history import import_records
    from trails.opening import open_to_read

    actor = click.get_current_context().meta.get(_ACTOR)
    if reading and not (recorded and import_records.reads_are_recorded()) and place != ":memory:":
        return open_to_read(place, actor=actor)
    return trails.open(place, create=create, actor=actor)


# --- options and arguments that many commands share

EXISTING_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
IN_OLDER_COPIES: Final = "older backups, dumps and exports still hold it"

tsv_option = click.option(
    "--tsv", "as_tsv", is_flag=True, help="Print tab-separated values, whole, with a line of names."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text for people.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
by_option = click.option(
    "--by",
    metavar="NAME",
    expose_value=False,
    callback=_remember_actor,
    help="Who does it, or agent:NAME; default: the environment's TRAILS_ACTOR, else unknown.",
)


def _remember_pager(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[NO_PAGER] = True


def _pager_option(*, hidden: bool) -> Callable[[_Command], _Command]:
    return click.option(
        "--no-pager",
        is_flag=True,
        expose_value=False,
        hidden=hidden,
        callback=_remember_pager,
        help="Never page; TRAILS_PAGER or PAGER name the pager, default: less.",
    )


pager_option = _pager_option(hidden=False)
hidden_pager_option = _pager_option(hidden=True)
"""The same, said behind the command's name."""
reason_option = click.option("--reason", metavar="TEXT", help="Why; it is kept.")
meta_option = click.option("--meta", multiple=True, metavar="NAME=VALUE", help="A fact about it; may be given again.")
session_argument = click.argument("session", metavar="SESSION")


class Named(click.types.StringParamType):
    """A text that names something of a kind; a shell offers the names that there are."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Return the names that go on from what was typed."""
        made: list[click.shell_completion.CompletionItem] = _completion().offered(ctx, self.kind, incomplete)
        return made


def _completion() -> Any:
    """Return the module of completion, which stands above this one."""
    return import_module("trails.cli.completion")


_KINDS: Final = {
    **dict.fromkeys(("session", "root", "roots", "parent"), "session"),
    **dict.fromkeys(("ref", "left", "right"), "ref"),
    **{name: name for name in ("principal", "agent", "project", "model", "role", "query")},
    **dict.fromkeys(("columns", "group_by", "sort_by", "color_by"), "column"),
}
"""What parameters name, by what they are called in the command's function."""


def through_pager(function: _Command) -> _Command:
    """Let what a command prints go through a pager where it is longer than the screen."""

    @wraps(function)
    def shown(*args: Any, **kwargs: Any) -> Any:
        with paging(wanted=not click.get_current_context().meta.get(NO_PAGER)):
            return function(*args, **kwargs)

    return cast(_Command, shown)


def command(name: str, *, pager: bool = False, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command that opens a store: its function, with `--store` added last, and the names in it for completion.

    With `pager`, what it prints goes through a pager where it is longer than the screen.
    """

    def wrap(function: Callable[..., Any]) -> click.Command:
        make: Callable[..., click.Command] = click.command(name, **attributes)
        made = make(store_option()(hidden_pager_option(through_pager(function)) if pager else function))
        made.params.sort(key=lambda parameter: parameter.name == "store")
        for each in made.params:
            if each.type is click.STRING and each.name in _KINDS:
                each.type = Named(_KINDS[each.name])
        return made

    return wrap


# --- answers


def page_options(*, most: int = 1000) -> Callable[[_Command], _Command]:
    """Add `--limit` (at most `most`), `--page` and `--cursor`: which part of a list is shown."""

    def wrap(function: _Command) -> _Command:
        function = click.option("--cursor", metavar="TEXT", help="Go on where the page before ended.")(function)
        page = click.option(
            "--page", type=click.IntRange(1, 1000), default=1, metavar="N", help="The Nth page of the list."
        )
        return limit_option(most=most)(page(function))

    return wrap


def paged(ask: Callable[[str | None], _Page], page: int, cursor: str | None) -> _Page:
    """Return a page that `ask` gives for a cursor: the one after a cursor, or the Nth from the beginning."""
    if page > 1 and cursor is not None:
        refuse("--page counts from the beginning, and --cursor goes on from elsewhere; give one")
    found = ask(cursor)
    for number in range(1, page):
        if found.cursor is None:
            refuse(f"there is no page {page}: the list ends with page {number}")
        found = ask(found.cursor)
    return found


def first_of(found: Sequence[_Item], limit: int | None) -> tuple[Sequence[_Item], int]:
    """Return the first of a list, `limit` at most (None: all), and how many are left out.

    >>> first_of("abc", 2), first_of("abc", None)
    (('ab', 1), ('abc', 0))
    """
    shown = found[:limit]
    return shown, len(found) - len(shown)


def left_out(shown: int, more: int) -> str | None:
    """Return what to say of a list that was cut by `first_of`, or None where it was not.

    >>> left_out(2, 1)
    'there is more: 2 of 3 are shown; -n 3 shows all'
    """
    every = f"{shown + more:,}"
    return f"there is more: {shown:,} of {every} are shown; -n {shown + more} shows all" if more else None


def answer(
    value: Any,
    shown: _Shown | None,
    draw: Callable[[_Shown], object],
    *,
    as_json: bool,
    empty: str | None = None,
    said: str | None = None,
) -> None:
    """Answer a command on stdout: with a value as JSON where that was asked for, else by drawing what is shown of it.

    In the value, whatever has a `to_dict` may stand as it is: it is called for JSON alone. People who are shown nothing
    are told what `empty` says; `said` is told them in the end, on stderr. What is None is never drawn.
    """
    if as_json:
        print_json(value)
        return
    if empty is not None and not shown:
        note(empty)
    elif shown is not None:
        draw(shown)
    if said is not None:
        note(said)


def echo_each(lines: Iterable[object]) -> None:
    """Print a line each."""
    for line in lines:
        click.echo(line)


def print_json(value: Any) -> None:
    """Print a value as indented JSON on stdout."""
    click.echo(to_json(value, ascii_only=not is_utf8(sys.stdout)))


def note(message: str) -> None:
    """Tell a person what was done, on stderr: stdout carries only results. What is paged is left first."""
    after_paging(lambda: click.echo(one_line(message), err=True))


def there_is_more(cursor: str | None, name: str, *arguments: str | None, **options: str | None) -> str | None:
    """Return what to type for the page after this one, or None where this was the last; what was not given is left out.

    >>> there_is_more("c", "list", agent="a b", label=None)
    "there is more: trails list --agent 'a b' --cursor c"
    """
    if cursor is None:
        return None
    words = ["trails", name, *(word for word in arguments if word is not None)]
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_NAMED):
        from trails.store.postgres.address import shown

        options = options | {"store": shown(store_location() or "")}
    if context is not None and _AS_OF_TEXT in context.meta:
        options = options | {"as-of": context.meta[_AS_OF_TEXT]}
    for option, value in options.items():
        words += [f"--{option}", value] if value else []
    return f"there is more: {shlex.join([*words, '--cursor', cursor])}"


def refuse(message: str) -> NoReturn:
    """End the command as wrong usage."""
    raise click.UsageError(message, ctx=click.get_current_context())


def end(code: int) -> NoReturn:
    """End the command with an exit code, quietly: what there is to say was said."""
    click.get_current_context().exit(code)


def confirmed(question: str, what: str) -> bool:
    """Ask on a terminal; elsewhere end the command as wrong usage. `what` is what asks, at the start of a sentence."""
    if sys.stdin is None or not sys.stdin.isatty():  # closed by `<&-`
        refuse(f"{what} asks first, and stdin is no terminal; give --yes")
    try:
        return click.confirm(question, err=True)
    except click.Abort as aborted:
        click.echo(err=True)  # the cursor stands behind the question
        if isinstance(aborted.__context__, EOFError):
            raise click.ClickException("nobody answered; nothing was done") from None
        raise


class Number(click.FloatRange):
    """A number within bounds; what is no number (`nan`), or none that could be written (`inf`), is outside of all."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or end the command as wrong usage."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number that can be compared", param, ctx)
        return number


def limit_option(default: int | None = 50, most: int = 1000) -> Callable[[_Command], _Command]:
    """Add `-n N` or `--limit N`: how many lines a list has at most; None for all of them."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(1, most),
        default=default,
        show_default=default is not None,
        metavar="N",
        help="How many at most." if default is not None else "How many at most; default: all.",
    )


def time_option(name: str, help_text: str) -> Callable[[_Command], _Command]:
    """Add an option that takes a moment, as `trails.cli.options` reads it: ISO 8601, a date, or how long ago."""
    return click.option(name, metavar="TIME", callback=_parse_time, help=help_text)


def _moment(text: str) -> datetime:

    return moment_of(text, datetime.now(UTC))


def _parse_time(ctx: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    try:
        return None if value is None else _moment(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def read_stdin() -> str:
    """Return all of stdin, which must be UTF-8, byte for byte."""
    if sys.stdin is None:  # a shell closes it with `<&-`
        refuse("stdin is closed; give the text itself, or send it there")
    return decoded(sys.stdin.buffer.read(), "stdin")


def read_text(file: str) -> str:
    """Return a file's text, which must be UTF-8, or end the command as wrong usage."""
    from trails.files import read_whole

    try:
        return decoded(read_whole(Path(file)), file)
    except (OSError, ValueError) as error:
        refuse(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}")


def refuse_in_store(output: Path | None) -> None:
    """End the command as wrong usage where a file would be written among the store's own."""
    location = store_location() or ""
    if output is not None and location != ":memory:" and output.resolve().is_relative_to(Path(location).resolve()):
        refuse(f"{output} lies in the store's own folder, whose files are the store's; name another place")


def one_format(format_: str | None, *, as_json: bool) -> str | None:
    """Return the format that `--format` and `--json` ask for, which may not be two."""
    if as_json and format_ not in (None, "json"):
        refuse(f"--json and --format {format_} are two formats; give one")
    return "json" if as_json else format_


def one_of(as_tsv: bool, as_json: bool) -> None:
    """End the command as wrong usage where two formats are asked for."""
    if as_tsv and as_json:
        refuse("--tsv and --json are two formats; give one")


def decoded(data: bytes, source: str) -> str:
    """Return UTF-8 text, or end the command as wrong usage, naming where the text came from."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse(f"{source} is not UTF-8 text ({error.reason} at byte {error.start})")


def pairs(values: Sequence[str], option: str) -> list[tuple[str, str]]:
    """Return NAME=VALUE arguments as pairs; the value may hold further equals signs."""
    found = []
    for value in values:
        key, equals, rest = value.partition("=")
        if not equals or not key:
            refuse(f"{option} takes NAME=VALUE, not {value!r}")
        found.append((key, rest))
    return found
